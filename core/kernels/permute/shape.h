#pragma once
#include <cstdint>
#include <vector>

#include "common/fields.h"

namespace openbnns {

// Axis k of Y is axis permutation[k] of X, one sample of X having `size`, both in C order. Items of 1, 2, 4 or 8 bytes
// are moved as they are; backward works on floats.
struct PermuteShape {
  std::vector<int64_t> size, permutation;
  int item_bytes = 4;
  OPENBNNS_FIELDS(size, permutation, item_bytes)
};

}  // namespace openbnns
