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

// Functions of float32 and of int64 alike: comparisons and logic, which give 1 or 0; exact arithmetic of whole numbers;
// and conversion, which cuts fractions off (kToInt32: of numbers that 32 bits hold). Quotients are rounded down
// (kFloorDivide) or towards zero (kDivide), and remainders have the sign of the divisor (kRemainder) or of the dividend
// (kFmod).
// clang-format off
#define OPENBNNS_MIXED_FUNCTIONS(FUNCTION)                                                          \
  FUNCTION(eq, kEqual) FUNCTION(ne, kNotEqual) FUNCTION(lt, kLess) FUNCTION(le, kLessEqual)         \
  FUNCTION(gt, kGreater) FUNCTION(ge, kGreaterEqual) FUNCTION(logical_and, kAnd)                    \
  FUNCTION(logical_or, kOr) FUNCTION(logical_xor, kXor) FUNCTION(logical_not, kNot)                 \
  FUNCTION(isnan, kIsNan) FUNCTION(convert, kConvert) FUNCTION(int32, kToInt32) FUNCTION(add, kAdd) \
  FUNCTION(sub, kSubtract) FUNCTION(mul, kMultiply) FUNCTION(maximum, kMaximum)                     \
  FUNCTION(minimum, kMinimum) FUNCTION(floor_divide, kFloorDivide) FUNCTION(divide, kDivide)        \
  FUNCTION(remainder, kRemainder) FUNCTION(fmod, kFmod)
// clang-format on
enum class MixedFunction {
#define OPENBNNS_MIXED_NAME(name, number) number,
  OPENBNNS_MIXED_FUNCTIONS(OPENBNNS_MIXED_NAME)
#undef OPENBNNS_MIXED_NAME
};

// y = f(a, b), element by element, where y lies in C order and operands have steps over its axes, counted in elements:
// 0 where they are repeated. Each of the three is int64 or float32. A function of one operand reads a twice.
struct MixedArithmetic {
  static constexpr int kMaxRank = 8;
  MixedFunction function;
  bool whole_y, whole_a, whole_b;
  int rank;
  int64_t size[kMaxRank], a_step[kMaxRank], b_step[kMaxRank];
  void* y;
  const void *a, *b;
};

}  // namespace openbnns
