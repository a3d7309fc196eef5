#pragma once
#include <cstdint>
#include <vector>

#include "common/fields.h"

namespace openbnns {

// From samples of size `in` to samples of size `out`, both in C order. Per axis: low[i] is the cell of output i, in
// ascending order, and t[i] the weight of the next cell; t is empty for copies of one cell, low where the size stays.
// At most two axes have weights.
struct ResizeShape {
  std::vector<int64_t> in_size, out_size;
  std::vector<Table<int64_t>> low;
  std::vector<Table<float>> t;
  OPENBNNS_FIELDS(in_size, out_size, low, t)
};

}  // namespace openbnns
