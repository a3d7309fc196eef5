// The 41 functions y = op(a, b, c) and their gradients, one vector at a time.
//
// Every operation is a struct with `forward(a, b, c)` and `gradient0..2(v)`: dz times the derivative by operand 0..2.
// Operands that an operation does not have arrive as zeros. `kUsesOutput` says that a gradient reads v.y = op(a, b, c),
// `kPasses` that the gradient of an operand is dz.
#pragma once
#include <cmath>

#include "simd/math.h"
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace arithmetic {

struct Values {
  Vec a, b, c, y, dz;
};

constexpr float kLn2 = 0.69314718055994530942f;
constexpr float kTwoOverSqrtPi = 1.12837916709551257390f;

OPENBNNS_INLINE Vec zero() { return Vec{}; }
OPENBNNS_INLINE Vec one() { return splat(1.0f); }
OPENBNNS_INLINE Vec zero_where(IntVec mask, Vec v) { return from_bits(bits(v) & ~mask); }
OPENBNNS_INLINE Vec absolute(Vec v) { return from_bits(bits(v) & splat_int(0x7fffffff)); }
// -1, 0 or 1; NaN for NaN.
OPENBNNS_INLINE Vec sign(Vec x) { return select(x > zero(), one(), select(x < zero(), -one(), x + zero())); }

// NaN in either operand wins, and a tie goes to the first: the lanes where `a` is the result.
OPENBNNS_INLINE IntVec first_is_minimum(Vec a, Vec b) { return (a <= b) | (a != a); }
OPENBNNS_INLINE IntVec first_is_maximum(Vec a, Vec b) { return (a >= b) | (a != a); }

// Quotients are taken in double precision: there every quotient of floats below 2^24 lies on the right side of the next
// integer, which a float quotient does not (0.7f / 0.1f rounds up to 7).
template <class PerLane>
OPENBNNS_INLINE Vec for_each_lane(Vec a, Vec b, PerLane per_lane) {
  float x[kWidth], y[kWidth];
  store(x, a);
  store(y, b);
  for (int i = 0; i < kWidth; i++) x[i] = static_cast<float>(per_lane(double{x[i]}, double{y[i]}));
  return load(x);
}
OPENBNNS_INLINE Vec floor_quotient(Vec a, Vec b) {
  return for_each_lane(a, b, [](double x, double y) { return std::floor(x / y); });
}
OPENBNNS_INLINE Vec trunc_quotient(Vec a, Vec b) {
  return for_each_lane(a, b, [](double x, double y) { return std::trunc(x / y); });
}
// a - b * trunc(a / b), exact, with the sign of a. Below 2^24 the product has at most 48 bits and fits a double.
OPENBNNS_INLINE Vec trunc_remainder(Vec a, Vec b) {
  return for_each_lane(a, b, [](double x, double y) {
    double quotient = std::trunc(x / y);
    bool exact = std::fabs(quotient) < 16777216.0 && std::fabs(y) <= 3.5e38;
    return exact ? std::copysign(x - quotient * y, x) : std::fmod(x, y);
  });
}

struct Operation {
  static constexpr int kOperands = 3;
  static constexpr bool kUsesOutput = false;
  static constexpr bool kPasses[3] = {};
  static OPENBNNS_INLINE Vec gradient0(const Values&) { return zero(); }
  static OPENBNNS_INLINE Vec gradient1(const Values&) { return zero(); }
  static OPENBNNS_INLINE Vec gradient2(const Values&) { return zero(); }
};

// One operand whose derivative is a formula of x (and y).
#define OPENBNNS_UNARY(name, uses_output, value, derivative)              \
  struct name : Operation {                                               \
    static constexpr int kOperands = 1;                                   \
    static constexpr bool kUsesOutput = uses_output;                      \
    static OPENBNNS_INLINE Vec forward(Vec x, Vec, Vec) { return value; } \
    static OPENBNNS_INLINE Vec gradient0(const Values& v) {               \
      [[maybe_unused]] Vec x = v.a, y = v.y, dz = v.dz;                   \
      return derivative;                                                  \
    }                                                                     \
  };
// Two operands; NaN and infinity of dz pass through wherever the derivative is not exactly absent.
#define OPENBNNS_BINARY(name, uses_output, value, derivative_a, derivative_b) \
  struct name : Operation {                                                   \
    static constexpr int kOperands = 2;                                       \
    static constexpr bool kUsesOutput = uses_output;                          \
    static OPENBNNS_INLINE Vec forward(Vec a, Vec b, Vec) { return value; }   \
    static OPENBNNS_INLINE Vec gradient0(const Values& v) {                   \
      [[maybe_unused]] Vec a = v.a, b = v.b, y = v.y, dz = v.dz;              \
      return derivative_a;                                                    \
    }                                                                         \
    static OPENBNNS_INLINE Vec gradient1(const Values& v) {                   \
      [[maybe_unused]] Vec a = v.a, b = v.b, y = v.y, dz = v.dz;              \
      return derivative_b;                                                    \
    }                                                                         \
  };

struct Add : Operation {
  static constexpr int kOperands = 2;
  static constexpr bool kPasses[3] = {true, true};
  static OPENBNNS_INLINE Vec forward(Vec a, Vec b, Vec) { return a + b; }
  static OPENBNNS_INLINE Vec gradient0(const Values& v) { return v.dz; }
  static OPENBNNS_INLINE Vec gradient1(const Values& v) { return v.dz; }
};
struct Subtract : Operation {
  static constexpr int kOperands = 2;
  static constexpr bool kPasses[3] = {true};
  static OPENBNNS_INLINE Vec forward(Vec a, Vec b, Vec) { return a - b; }
  static OPENBNNS_INLINE Vec gradient0(const Values& v) { return v.dz; }
  static OPENBNNS_INLINE Vec gradient1(const Values& v) { return -v.dz; }
};
OPENBNNS_BINARY(Multiply, false, a* b, dz* b, dz* a)
// a / b / b instead of a / b^2: the square may overflow where the gradient does not
OPENBNNS_BINARY(Divide, false, a / b, dz / b, -dz*(a / b / b))
OPENBNNS_UNARY(SquareRoot, true, math::sqrt(x), dz / (y + y))
OPENBNNS_UNARY(ReciprocalSquareRoot, true, 1.0f / math::sqrt(x), -0.5f * dz * (y * y * y))
OPENBNNS_UNARY(Ceil, false, math::ceil(x), zero())
OPENBNNS_UNARY(Floor, false, math::floor(x), zero())
OPENBNNS_UNARY(Round, false, math::round_even(x), zero())
OPENBNNS_UNARY(Sin, false, math::sin(x), dz* math::cos(x))
OPENBNNS_UNARY(Cos, false, math::cos(x), -dz* math::sin(x))
OPENBNNS_UNARY(Tan, true, math::tan(x), dz * (1.0f + y * y))
// (1 - x)(1 + x) instead of 1 - x^2: exact near one
OPENBNNS_UNARY(Asin, false, math::asin(x), dz / math::sqrt((1.0f - x) * (1.0f + x)))
OPENBNNS_UNARY(Acos, false, math::acos(x), -dz / math::sqrt((1.0f - x) * (1.0f + x)))
OPENBNNS_UNARY(Atan, false, math::atan(x), dz / (1.0f + x * x))
OPENBNNS_UNARY(Sinh, false, math::sinh(x), dz* math::cosh(x))
OPENBNNS_UNARY(Cosh, false, math::cosh(x), dz* math::sinh(x))
OPENBNNS_UNARY(Tanh, true, math::tanh(x), dz * ((1.0f - y) * (1.0f + y)))
OPENBNNS_UNARY(Asinh, false, math::asinh(x), dz / math::sqrt(x * x + 1.0f))
OPENBNNS_UNARY(Acosh, false, math::acosh(x), dz / math::sqrt((x - 1.0f) * (x + 1.0f)))
OPENBNNS_UNARY(Atanh, false, math::atanh(x), dz / ((1.0f - x) * (1.0f + x)))
// d/da a^b = b a^(b-1), 0 for b = 0; d/db a^b = y ln a, 0 where a = 0 and b >= 0 (there y ln a would be 0 * -inf)
OPENBNNS_BINARY(Pow, true, math::pow(a, b), zero_where(b == zero(), dz*(b* math::pow(a, b - 1.0f))),
                zero_where((a == zero()) & (b >= zero()), dz*(y* math::log(a))))
OPENBNNS_UNARY(Exp, true, math::exp(x), dz* y)
OPENBNNS_UNARY(Exp2, true, math::exp2(x), dz*(y* kLn2))
OPENBNNS_UNARY(Log, false, math::log(x), dz / x)
OPENBNNS_UNARY(Log2, false, math::log2(x), dz / (x * kLn2))
OPENBNNS_BINARY(MultiplyNoNaN, false, zero_where(b == zero(), a* b), zero_where(b == zero(), dz* b),
                zero_where(dz == zero(), a* dz))
OPENBNNS_BINARY(DivideNoNaN, false, zero_where(b == zero(), a / b), zero_where(b == zero(), dz / b),
                zero_where(b == zero(), -dz*(a / b / b)))
OPENBNNS_BINARY(Minimum, false, select(first_is_minimum(a, b), a, b), zero_where(~first_is_minimum(a, b), dz),
                zero_where(first_is_minimum(a, b), dz))
OPENBNNS_BINARY(Maximum, false, select(first_is_maximum(a, b), a, b), zero_where(~first_is_maximum(a, b), dz),
                zero_where(first_is_maximum(a, b), dz))
OPENBNNS_UNARY(Abs, false, absolute(x), dz* sign(x))
OPENBNNS_UNARY(Sign, false, sign(x), zero())
OPENBNNS_UNARY(Negate, false, -x, -dz)
OPENBNNS_UNARY(Reciprocal, true, 1.0f / x, -dz*(y* y))
OPENBNNS_UNARY(Square, false, x* x, dz*(x + x))
OPENBNNS_BINARY(FloorDivide, false, floor_quotient(a, b), zero(), zero())
OPENBNNS_BINARY(TruncDivide, false, trunc_quotient(a, b), zero(), zero())
OPENBNNS_BINARY(TruncRemainder, false, trunc_remainder(a, b), dz, -dz* trunc_quotient(a, b))
OPENBNNS_UNARY(Erf, false, math::erf(x), dz*(kTwoOverSqrtPi* math::exp(-x* x)))

struct MultiplyAdd : Operation {
  static constexpr bool kPasses[3] = {false, false, true};
  static OPENBNNS_INLINE Vec forward(Vec a, Vec b, Vec c) { return a * b + c; }
  static OPENBNNS_INLINE Vec gradient0(const Values& v) { return v.dz * v.b; }
  static OPENBNNS_INLINE Vec gradient1(const Values& v) { return v.dz * v.a; }
  static OPENBNNS_INLINE Vec gradient2(const Values& v) { return v.dz; }
};

// a ? b : c; the condition has no gradient
struct Select : Operation {
  static OPENBNNS_INLINE Vec forward(Vec a, Vec b, Vec c) { return select(a != zero(), b, c); }
  static OPENBNNS_INLINE Vec gradient1(const Values& v) { return zero_where(v.a == zero(), v.dz); }
  static OPENBNNS_INLINE Vec gradient2(const Values& v) { return zero_where(v.a != zero(), v.dz); }
};

#undef OPENBNNS_UNARY
#undef OPENBNNS_BINARY

}  // namespace arithmetic
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
