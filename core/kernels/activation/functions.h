// The elementwise activations as small classes over Vec, one per BNNSActivationFunction:
//   value(x)                        y = f(x)
//   gradient_from_input(dy, x)      dy * f'(x)
//   gradient_from_output(dy, y)     the same from y = f(x), where kFromOutput
// NaN in gives NaN out in both directions; infinite x gives the limit of the formula. Where a gradient is cut to zero
// it is selected, not multiplied, so that an infinite dy does not become NaN.
#pragma once
#include "kernels/activation/loops.h"
#include "kernels/activation/table.h"
#include "simd/math.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace functions {

struct Plain {
  static constexpr bool kFromOutput = true;
  explicit Plain(ActivationParameters) {}
};

struct WithAlpha {
  static constexpr bool kFromOutput = true;
  Vec a;
  explicit WithAlpha(ActivationParameters p) : a(splat(p.alpha)) {}
};

struct WithAlphaBeta {
  static constexpr bool kFromOutput = true;
  Vec a, b;
  explicit WithAlphaBeta(ActivationParameters p) : a(splat(p.alpha)), b(splat(p.beta)) {}
};

struct WithInverseAlpha : WithAlphaBeta {
  Vec inverse;  // of alpha; 0 for 0, where y = 0 too
  explicit WithInverseAlpha(ActivationParameters p)
      : WithAlphaBeta(p), inverse(splat(p.alpha == 0.0f ? 0.0f : 1.0f / p.alpha)) {}
};

OPENBNNS_INLINE Vec zero() { return Vec{}; }
OPENBNNS_INLINE Vec keep_nan(Vec v, Vec source) { return select(source == source, v, source); }
// x without its infinities: 0 * x stays 0
constexpr float kLargest = std::numeric_limits<float>::max();
OPENBNNS_INLINE Vec above_minus_infinity(Vec x) { return math::max(splat(-kLargest), x); }
OPENBNNS_INLINE Vec finite(Vec x) { return above_minus_infinity(math::min(splat(kLargest), x)); }
OPENBNNS_INLINE Vec zero_where(IntVec cut, Vec v) { return from_bits(~cut & bits(v)); }

struct Identity : Plain {
  using Plain::Plain;
  Vec value(Vec x) const { return x; }
  Vec gradient_from_input(Vec dy, Vec) const { return dy; }
  Vec gradient_from_output(Vec dy, Vec) const { return dy; }
};

struct RectifiedLinear : Plain {
  using Plain::Plain;
  Vec value(Vec x) const { return math::max(zero(), x); }
  Vec gradient_from_input(Vec dy, Vec x) const { return keep_nan(zero_where(x <= 0.0f, dy), x); }
  Vec gradient_from_output(Vec dy, Vec y) const { return gradient_from_input(dy, y); }
};

// For functions that are linear from 0 on and have y < 0 exactly where x < 0, unless alpha = 0: then y = 0 there.
struct LinearFromZero : WithAlpha {
  Vec end;  // y < end: x was negative
  explicit LinearFromZero(ActivationParameters p)
      : WithAlpha(p), end(splat(p.alpha == 0.0f ? std::numeric_limits<float>::denorm_min() : 0.0f)) {}
};

// Also PReLUPerChannel, with the alpha of one channel.
struct LeakyRectifiedLinear : LinearFromZero {
  using LinearFromZero::LinearFromZero;
  Vec value(Vec x) const { return select(x < 0.0f, a * x, x); }
  Vec gradient_from_input(Vec dy, Vec x) const { return keep_nan(select(x < 0.0f, a * dy, dy), x); }
  Vec gradient_from_output(Vec dy, Vec y) const { return keep_nan(select(y < end, a * dy, dy), y); }
};

struct Sigmoid : Plain {
  using Plain::Plain;
  Vec value(Vec x) const { return math::sigmoid(x); }
  Vec gradient_from_input(Vec dy, Vec x) const { return gradient_from_output(dy, value(x)); }
  Vec gradient_from_output(Vec dy, Vec y) const { return dy * (y * (1.0f - y)); }
};

#if defined(__AVX512F__)
inline const PieceTable& tanh_table() {
  static const double kNearZero[] = {0, 1, 0, -1.0 / 3, 0, 2.0 / 15};
  static const PieceTable table([](double x) { return std::tanh(x); }, 1, kNearZero);
  return table;
}
struct TanhOfAll {
  Pieces pieces{tanh_table()};
  OPENBNNS_INLINE Vec operator()(Vec x) const { return math::with_sign(pieces(math::abs(x)), x); }
};
#else
struct TanhOfAll {
  OPENBNNS_INLINE Vec operator()(Vec x) const { return math::tanh(x); }
};
#endif

struct Tanh : Plain {
  TanhOfAll tanh;
  using Plain::Plain;
  Vec value(Vec x) const { return tanh(x); }
  Vec gradient_from_input(Vec dy, Vec x) const { return gradient_from_output(dy, value(x)); }
  Vec gradient_from_output(Vec dy, Vec y) const { return dy * (1.0f - y * y); }
};

struct ScaledTanh : WithInverseAlpha {
  using WithInverseAlpha::WithInverseAlpha;
  Vec value(Vec x) const { return a * math::tanh(b * x); }
  Vec gradient(Vec dy, Vec t) const { return dy * (a * b * (1.0f - t * t)); }
  Vec gradient_from_input(Vec dy, Vec x) const { return gradient(dy, math::tanh(b * x)); }
  Vec gradient_from_output(Vec dy, Vec y) const { return gradient(dy, y * inverse); }
};

struct Abs : Plain {
  static constexpr bool kFromOutput = false;
  using Plain::Plain;
  Vec value(Vec x) const { return math::abs(x); }
  Vec gradient_from_input(Vec dy, Vec x) const {
    return keep_nan(zero_where(x == 0.0f, from_bits(bits(dy) ^ math::sign_bits(x))), x);
  }
};

struct Linear : WithAlpha {
  using WithAlpha::WithAlpha;
  Vec value(Vec x) const { return a * x; }
  Vec gradient_from_input(Vec dy, Vec) const { return a * dy; }
  Vec gradient_from_output(Vec dy, Vec) const { return a * dy; }
};

struct Clamp : WithAlphaBeta {
  using WithAlphaBeta::WithAlphaBeta;
  Vec value(Vec x) const { return math::min(b, math::max(a, x)); }
  Vec gradient_from_input(Vec dy, Vec x) const { return keep_nan(zero_where((x <= a) | (x >= b), dy), x); }
  Vec gradient_from_output(Vec dy, Vec y) const { return gradient_from_input(dy, y); }
};

// y = x (1 + t) / 2, t = tanh(u), u = a (x + b x^3)
struct GELUApproximation : WithAlphaBeta {
  static constexpr bool kFromOutput = false;
  using WithAlphaBeta::WithAlphaBeta;
  // far beyond where t is 1, yet x^3 does not overflow
  static Vec bounded(Vec x) { return math::max(splat(-1e12f), math::min(splat(1e12f), x)); }
  Vec value(Vec x) const {
    Vec v = bounded(x);
    Vec t = math::tanh(a * (v + b * (v * v * v)));
    return 0.5f * above_minus_infinity(x) * (1.0f + t);
  }
  Vec gradient_from_input(Vec dy, Vec x) const {
    Vec v = bounded(x), square = v * v;
    Vec t = math::tanh(a * (v + b * (square * v)));
    Vec du = a * (1.0f + 3.0f * b * square);
    return dy * (0.5f * (1.0f + t) + 0.5f * v * ((1.0f - t * t) * du));
  }
};

struct HardSigmoid : WithAlphaBeta {
  using WithAlphaBeta::WithAlphaBeta;
  Vec value(Vec x) const { return math::max(zero(), math::min(splat(1.0f), a * x + b)); }
  Vec gradient_from_output(Vec dy, Vec y) const { return keep_nan(zero_where((y <= 0.0f) | (y >= 1.0f), a * dy), y); }
  Vec gradient_from_input(Vec dy, Vec x) const { return gradient_from_output(dy, a * x + b); }
};

// y = a log(1 + e^(b x))
struct Softplus : WithInverseAlpha {
  using WithInverseAlpha::WithInverseAlpha;
  Vec value(Vec x) const { return a * math::softplus(b * x); }
  Vec gradient_from_input(Vec dy, Vec x) const { return dy * (a * b * math::sigmoid(b * x)); }
  // sigmoid(b x) = 1 - 1 / (1 + e^(b x)) = 1 - e^(-y / a)
  Vec gradient_from_output(Vec dy, Vec y) const { return dy * (a * b * -math::expm1(-y * inverse)); }
};

struct Softsign : Plain {
  using Plain::Plain;
  Vec value(Vec x) const {
    x = finite(x);
    return x / (1.0f + math::abs(x));
  }
  Vec gradient_from_input(Vec dy, Vec x) const {
    Vec denominator = 1.0f + math::abs(x);
    return dy / (denominator * denominator);
  }
  Vec gradient_from_output(Vec dy, Vec y) const {
    Vec root = 1.0f - math::abs(y);
    return dy * (root * root);
  }
};

struct ELU : LinearFromZero {
  using LinearFromZero::LinearFromZero;
  Vec value(Vec x) const { return select(x < 0.0f, a * math::expm1(x), x); }
  Vec gradient_from_input(Vec dy, Vec x) const { return keep_nan(select(x < 0.0f, dy * (a * math::exp(x)), dy), x); }
  // a e^x = y + a
  Vec gradient_from_output(Vec dy, Vec y) const { return keep_nan(select(y < end, dy * (y + a), dy), y); }
};

struct ClampedLeakyRectifiedLinear : LinearFromZero {
  Vec b;
  explicit ClampedLeakyRectifiedLinear(ActivationParameters p) : LinearFromZero(p), b(splat(p.beta)) {}
  Vec value(Vec x) const { return math::min(b, select(x < 0.0f, a * x, x)); }
  Vec gradient_from_output(Vec dy, Vec y) const { return keep_nan(zero_where(y >= b, select(y < end, a * dy, dy)), y); }
  Vec gradient_from_input(Vec dy, Vec x) const {
    Vec unclamped = select(x < 0.0f, a * x, x);
    return keep_nan(zero_where(unclamped >= b, select(x < 0.0f, a * dy, dy)), x);
  }
};

struct LinearWithBias : WithAlphaBeta {
  using WithAlphaBeta::WithAlphaBeta;
  Vec value(Vec x) const { return a * x + b; }
  Vec gradient_from_input(Vec dy, Vec) const { return a * dy; }
  Vec gradient_from_output(Vec dy, Vec) const { return a * dy; }
};

// y = log(sigmoid(x))
struct LogSigmoid : Plain {
  using Plain::Plain;
  Vec value(Vec x) const { return -math::softplus(-x); }
  Vec gradient_from_input(Vec dy, Vec x) const { return dy * math::sigmoid(-x); }
  Vec gradient_from_output(Vec dy, Vec y) const { return dy * -math::expm1(y); }
};

struct SELU : Plain {
  static constexpr float kScale = 1.0507009873554805f;
  static constexpr float kScaleAlpha = static_cast<float>(1.0507009873554805 * 1.6732632423543772);
  using Plain::Plain;
  Vec value(Vec x) const { return select(x < 0.0f, kScaleAlpha * math::expm1(x), kScale * x); }
  Vec gradient_from_input(Vec dy, Vec x) const {
    return keep_nan(dy * select(x < 0.0f, kScaleAlpha * math::exp(x), splat(kScale)), x);
  }
  Vec gradient_from_output(Vec dy, Vec y) const {
    return keep_nan(dy * select(y < 0.0f, y + kScaleAlpha, splat(kScale)), y);
  }
};

struct CELU : LinearFromZero {
  using LinearFromZero::LinearFromZero;
  Vec value(Vec x) const { return select(x < 0.0f, a * math::expm1(x / a), x); }
  Vec gradient_from_input(Vec dy, Vec x) const { return keep_nan(select(x < 0.0f, dy * math::exp(x / a), dy), x); }
  Vec gradient_from_output(Vec dy, Vec y) const {
    Vec slope = select(a == 0.0f, zero(), y / a + 1.0f);  // alpha = 0 makes it ReLU
    return keep_nan(select(y < end, dy * slope, dy), y);
  }
};

struct HardShrink : Plain {
  Vec limit;
  explicit HardShrink(ActivationParameters p) : Plain(p), limit(math::abs(splat(p.alpha))) {}
  Vec value(Vec x) const { return zero_where(math::abs(x) < limit, x); }
  Vec gradient_from_input(Vec dy, Vec x) const { return keep_nan(zero_where(math::abs(x) < limit, dy), x); }
  Vec gradient_from_output(Vec dy, Vec y) const { return keep_nan(zero_where(y == 0.0f, dy), y); }
};

struct SoftShrink : HardShrink {
  using HardShrink::HardShrink;
  Vec value(Vec x) const { return zero_where(math::abs(x) < limit, x - math::with_sign(limit, x)); }
  // 0 at the kink itself, as from the output
  Vec gradient_from_input(Vec dy, Vec x) const { return keep_nan(zero_where(math::abs(x) <= limit, dy), x); }
};

// y = x - tanh(x)
struct TanhShrink : Plain {
  using Plain::Plain;
  Vec value(Vec x) const { return math::minus_tanh(x); }
  Vec gradient_from_input(Vec dy, Vec x) const {
    Vec t = math::tanh(x);
    return dy * (t * t);
  }
  // Solves x - tanh(x) = y for |x|. The left side is convex, so Newton's steps come down to the root from above; the
  // start is exact to the second term for small y (x^3 / 3 - 2 x^5 / 15 = y) and |y| + 1 bounds the root for large y.
  Vec gradient_from_output(Vec dy, Vec y) const {
    Vec target = math::min(splat(100.0f), math::abs(y));
    Vec root = math::exp2(math::log2(3.0f * target) * (1.0f / 3.0f));
    Vec x = math::min(target + 1.0f, root + root * root * root * (2.0f / 15.0f));
    x = math::max(splat(1e-15f), x);  // f'(0) = 0
    for (int step = 0; step < 4; step++) {
      Vec t = math::tanh(x);
      x = x - (math::minus_tanh(x) - target) / (t * t);
    }
    Vec t = math::tanh(x);
    return dy * (t * t);
  }
};

struct Threshold : WithAlphaBeta {
  using WithAlphaBeta::WithAlphaBeta;
  Vec value(Vec x) const { return select(x <= a, b, x); }
  Vec gradient_from_input(Vec dy, Vec x) const { return keep_nan(zero_where(x <= a, dy), x); }
  // With b > a a replaced element has y = b above the threshold.
  Vec gradient_from_output(Vec dy, Vec y) const { return keep_nan(zero_where((y <= a) | (y == b), dy), y); }
};

// GELUApproximation2
struct HardSwish : Plain {
  static constexpr bool kFromOutput = false;
  using Plain::Plain;
  Vec value(Vec x) const {
    return above_minus_infinity(x) * (math::max(zero(), math::min(splat(6.0f), x + 3.0f)) * (1.0f / 6.0f));
  }
  Vec gradient_from_input(Vec dy, Vec x) const {
    Vec inside = dy * ((2.0f * x + 3.0f) * (1.0f / 6.0f));
    return zero_where(x <= -3.0f, select(x >= 3.0f, dy, inside));
  }
};

// y = x s, s = sigmoid(u), u = k x; the gradient does not need k
OPENBNNS_INLINE Vec swish(Vec x, Vec u) { return above_minus_infinity(x) * math::sigmoid(u); }
OPENBNNS_INLINE Vec swish_gradient(Vec dy, Vec u) {
  Vec s = math::sigmoid(u);
  return dy * (s * (1.0f + finite(u) * (1.0f - s)));
}

struct SiLU : Plain {
  static constexpr bool kFromOutput = false;
  using Plain::Plain;
  Vec value(Vec x) const { return swish(x, x); }
  Vec gradient_from_input(Vec dy, Vec x) const { return swish_gradient(dy, x); }
};

struct ReLU6 : Clamp {
  explicit ReLU6(ActivationParameters) : Clamp(ActivationParameters{0.0f, 6.0f}) {}
};

struct Erf : Plain {
  static constexpr bool kFromOutput = false;
  using Plain::Plain;
  Vec value(Vec x) const { return math::erf(x); }
  Vec gradient_from_input(Vec dy, Vec x) const {
    constexpr float kTwoOverRootPi = 1.12837917f;
    return dy * (kTwoOverRootPi * math::exp(-(x * x)));
  }
};

// y = x P(x), P(x) = (1 + erf(x / sqrt 2)) / 2, the normal distribution; P(-a) = 1 - P(a)
// y' = P(x) + x p(x), p(x) = P'(x) = exp(-x^2 / 2) / sqrt(2 pi); y'(-a) = 1 - y'(a)
#if defined(__AVX512F__)
inline const PieceTable& normal_tail_table() {
  static const PieceTable table([](double a) { return 0.5 * std::erfc(a * std::sqrt(0.5)); }, 0, nullptr);
  return table;
}
inline const PieceTable& gelu_slope_table() {
  static const PieceTable table(
      [](double a) {
        return 0.5 * std::erfc(a * std::sqrt(0.5)) - a * std::exp(-0.5 * a * a) * 0.39894228040143267794;
      },
      0, nullptr);
  return table;
}
struct GELU : Plain {
  static constexpr bool kFromOutput = false;
  Pieces tail{normal_tail_table()}, slope_left{gelu_slope_table()};
  using Plain::Plain;
  static Vec reflect(Vec left, Vec x) { return select(x < 0.0f, left, 1.0f - left); }
  Vec value(Vec x) const { return above_minus_infinity(x) * reflect(tail(math::abs(x)), x); }
  Vec gradient_from_input(Vec dy, Vec x) const { return dy * reflect(slope_left(math::abs(x)), x); }
};
#else
// Only P is needed, never erf alone, so P(-a) = 2^-Q(a) with one polynomial for all a. y'(-a) = p(a) (R(a) - a) with
// R(a) = P(-a) / p(a), Mills' ratio, which is smooth: one power instead of two. From a = 7 on P(-a) is below 2e-12 and
// taken as constant. Coefficients are minimax fits, Q's weighted with the root of P(-a), R's with p(a).
struct GELU : Plain {
  static constexpr bool kFromOutput = false;
  static constexpr float kFar = 7.0f;
  using Plain::Plain;
  static Vec reflect(Vec left, Vec x) { return select(x < 0.0f, left, 1.0f - left); }
  static Vec magnitude(Vec x) { return math::min(splat(kFar), math::abs(x)); }
  // The power has to wait for Q, hence odd and even powers side by side.
  Vec value(Vec x) const {
    Vec a = magnitude(x), z = a * a;
    Vec odd = -8.873481e-07f * z - 7.653013e-05f;
    Vec even = 3.0410057e-08f * z + 1.113058e-05f;
    odd = odd * z + 1.1750072e-05f;
    even = even * z + 0.00027687938f;
    odd = odd * z + 0.052459083f;
    even = even * z - 0.0069677657f;
    odd = odd * z + 1.151105f;
    even = even * z + 0.459214f;
    even = even * z + 1.0f;
    return math::max(splat(-kFar), x) * reflect(math::exp2_between(-(odd * a + even)), x);
  }
  Vec gradient_from_input(Vec dy, Vec x) const {
    Vec a = magnitude(x);
    Vec s = -3.1554205e-07f * a + 7.708758e-06f;  // (R(a) - a) / sqrt(2 pi)
    s = s * a - 8.477081e-05f;
    s = s * a + 0.00056365185f;
    s = s * a - 0.002590088f;
    s = s * a + 0.009003844f;
    s = s * a - 0.025471818f;
    s = s * a + 0.06192394f;
    s = s * a - 0.1328058f;
    s = s * a + 0.24997258f;
    s = s * a - 0.7978829f;
    s = s * a + 0.5f;
    return dy * reflect(s * math::exp2_between(-0.5f * math::kLog2E * (a * a)), x);
  }
};
#endif

// y = x s, s = sigmoid(1.702 x); with u = 1.702 x, 1.702 y = u s
struct GELUApproximationSigmoid : Plain {
  static constexpr float kScale = 1.702f;
  using Plain::Plain;
  Vec value(Vec x) const { return swish(x, kScale * x); }
  Vec gradient_from_input(Vec dy, Vec x) const { return swish_gradient(dy, kScale * x); }
  // y does not determine x: the branch at and right of the minimum (u = -1.2784645, u s = -0.2784645) is taken, where
  // y grows. There u = v + w with w e^w = v e^-v for v = u s (from u = v + v e^-u).
  Vec gradient_from_output(Vec dy, Vec y) const {
    constexpr float kMinimum = -1.27846454f, kLowest = -0.278464543f;
    Vec v = math::max(splat(kLowest), math::min(splat(100.0f), kScale * y));
    // Start: near the minimum u s is a parabola; far from it u - v vanishes. Four Newton steps from there are enough.
    Vec above = v - kLowest;
    Vec near = kMinimum + 3.03f * math::sqrt(above) - 0.4f * above;
    Vec u = select(above < 1.5f, near, v);
    for (int step = 0; step < 4; step++) {
      Vec s = math::sigmoid(u);
      Vec slope = math::max(splat(1e-6f), s * (1.0f + u * (1.0f - s)));
      u = math::max(splat(kMinimum), u - (u * s - v) / slope);
    }
    return zero_where(v <= kLowest, swish_gradient(dy, u));
  }
};

}  // namespace functions
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
