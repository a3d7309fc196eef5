#pragma once
#include <cstdint>

#include "common/fields.h"

namespace openbnns {

// Operand roles and broadcasting, resolved by the filter: every operand is described by its element strides over the
// common output shape (0 where it is repeated). The batch is axis 0 when `batched`, with the Call's batch stride.
struct ArithmeticShape {
  static constexpr int kMaxRank = 8;
  int function = 0;  // BNNSArithmeticFunction
  int operands = 1;  // 1, 2 or 3
  int rank = 0;      // of one sample, C order
  int64_t size[kMaxRank] = {};
  int64_t operand_size[3][kMaxRank] = {};  // equal to size or 1, per axis
  bool batched[3] = {};                    // Sample (own batch axis) against Parameter / Constant (one copy)
  OPENBNNS_FIELDS(function, operands, rank, size, operand_size, batched)
};

}  // namespace openbnns
