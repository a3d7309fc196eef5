#pragma once
#include <cstdint>

#include "common/fields.h"

namespace openbnns {

// Slots of one-input filters; W has the shape of x. One sample has `size` in C order and loses the axes `inside`; y has
// the others. ArgMax and ArgMin give floats, or with `wide_positions` int64 (then Y holds these).
struct ReductionShape {
  static constexpr int kMaxRank = 17;
  int function = 0;  // BNNSReduceFunction
  int rank = 0;
  int64_t size[kMaxRank] = {};
  bool inside[kMaxRank] = {};
  float epsilon = 0;
  bool wide_positions = false;
  int64_t position_modulus = 0;  // positions are reported modulo this; 0: as they are
  OPENBNNS_FIELDS(function, rank, size, inside, epsilon, wide_positions, position_modulus)
};

}  // namespace openbnns
