#pragma once
#include <cstdint>
#include <vector>

#include "common/fields.h"

namespace openbnns {

// One sample of X has `size`, that of Y before + size + after along every axis, both in C order. Items of 1, 2, 4 or 8
// bytes are moved as they are; backward works on floats.
struct PaddingShape {
  int mode = 0;  // BNNSPaddingMode
  std::vector<int64_t> size, before, after;
  int item_bytes = 4;
  uint64_t value = 0;  // bits of the constant, in the lowest bytes
  OPENBNNS_FIELDS(mode, size, before, after, item_bytes, value)
};

}  // namespace openbnns
