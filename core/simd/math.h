// Elementary functions over Vec: branch-free, correct for NaN, infinities, zeros and subnormals, and within 2 ulp of
// the exact value (sigmoid and atanh: 2.25; tests/test_math.cpp prints the measured error of each; pow calls the
// library for every lane). Polynomials are minimax fits, their coefficients rounded to float. The code relies on the
// order of operations as written: no -ffast-math.
#pragma once
#include <cmath>
#include <limits>

#include "simd/vec.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace openbnns {
namespace OPENBNNS_ISA {
namespace math {

typedef uint32_t UIntVec __attribute__((vector_size(kWidth * 4)));
// As many doubles as Vec has floats: twice its size, the compiler splits it into registers.
typedef double DoubleVec __attribute__((vector_size(kWidth * 8)));

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// ---- bits and signs ----

OPENBNNS_INLINE UIntVec unsigned_bits(Vec x) { return reinterpret_cast<UIntVec>(x); }
OPENBNNS_INLINE Vec from_unsigned_bits(UIntVec x) { return reinterpret_cast<Vec>(x); }

OPENBNNS_INLINE Vec abs(Vec x) { return from_bits(bits(x) & 0x7fffffff); }
OPENBNNS_INLINE IntVec sign_bits(Vec x) { return bits(x) & INT32_MIN; }
// magnitude must not be negative
OPENBNNS_INLINE Vec with_sign(Vec magnitude, Vec sign) { return from_bits(bits(magnitude) | sign_bits(sign)); }
OPENBNNS_INLINE Vec copysign(Vec magnitude, Vec sign) { return with_sign(abs(magnitude), sign); }

// As the x86 instructions: the second operand when either is NaN, so max(limit, x) lets a NaN in x through.
#if defined(__AVX512F__)
OPENBNNS_INLINE Vec max(Vec a, Vec b) { return _mm512_maskz_max_ps(0xffff, a, b); }
OPENBNNS_INLINE Vec min(Vec a, Vec b) { return _mm512_maskz_min_ps(0xffff, a, b); }
#elif defined(__AVX2__)
OPENBNNS_INLINE Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
OPENBNNS_INLINE Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
#else
OPENBNNS_INLINE Vec max(Vec a, Vec b) { return a > b ? a : b; }
OPENBNNS_INLINE Vec min(Vec a, Vec b) { return a < b ? a : b; }
#endif

OPENBNNS_INLINE bool any(IntVec mask) {
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
  return _mm256_movemask_ps((__m256)mask) != 0;
#elif defined(__SSE2__)
  return _mm_movemask_ps((__m128)mask) != 0;
#else
  int32_t all = 0;
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) all |= mask[i];
  return all != 0;
#endif
}

// result with the lanes named by `mask` replaced by function(lane of x), one at a time: for rare arguments.
template <class Function>
__attribute__((noinline)) Vec replace_lanes(Vec result, IntVec mask, Vec x, Function function) {
  for (int i = 0; i < kWidth; i++)
    if (mask[i]) result[i] = function(x[i]);
  return result;
}

// ---- rounding to integers ----

OPENBNNS_INLINE Vec sqrt(Vec x) {
#if defined(__AVX512F__)
  return _mm512_maskz_sqrt_ps(0xffff, x);
#elif defined(__AVX2__)
  return _mm256_sqrt_ps(x);
#elif defined(__SSE2__)
  return _mm_sqrt_ps(x);
#else
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}

OPENBNNS_INLINE Vec rsqrt(Vec x) { return 1.0f / sqrt(x); }

// 1 / b within 1 ulp and a / b within a hair of 1/2 ulp, for 2^-60 < b < 2^60: dividing 16 floats at once is slow, a
// Newton step from the 14 bit estimate is not.
#if defined(__AVX512F__)
OPENBNNS_INLINE Vec fast_reciprocal(Vec b) {
  Vec r = _mm512_maskz_rcp14_ps(0xffff, b);
  return _mm512_fmadd_ps(r, _mm512_fnmadd_ps(b, r, splat(1.0f)), r);
}
OPENBNNS_INLINE Vec fast_quotient(Vec a, Vec b) {
  Vec r = fast_reciprocal(b);
  Vec q = a * r;
  return _mm512_fmadd_ps(r, _mm512_fnmadd_ps(b, q, a), q);
}
#else
OPENBNNS_INLINE Vec fast_reciprocal(Vec b) { return 1.0f / b; }
OPENBNNS_INLINE Vec fast_quotient(Vec a, Vec b) { return a / b; }
#endif

#if defined(__AVX512F__)
OPENBNNS_INLINE Vec round_even(Vec x) {
  return _mm512_maskz_roundscale_ps(0xffff, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
OPENBNNS_INLINE Vec floor(Vec x) {
  return _mm512_maskz_roundscale_ps(0xffff, x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
OPENBNNS_INLINE Vec ceil(Vec x) {
  return _mm512_maskz_roundscale_ps(0xffff, x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}
OPENBNNS_INLINE Vec trunc(Vec x) {
  return _mm512_maskz_roundscale_ps(0xffff, x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}
#elif defined(__AVX2__)
OPENBNNS_INLINE Vec round_even(Vec x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
OPENBNNS_INLINE Vec floor(Vec x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
OPENBNNS_INLINE Vec ceil(Vec x) { return _mm256_round_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
OPENBNNS_INLINE Vec trunc(Vec x) { return _mm256_round_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
#else
// Adding 2^23 leaves no room for a fraction; floats of 2^23 and more have none anyway.
OPENBNNS_INLINE Vec round_even(Vec x) {
  Vec magnitude = abs(x);
  Vec rounded = with_sign((magnitude + 0x1p23f) - 0x1p23f, x);
  return select(magnitude < 0x1p23f, rounded, x);
}
OPENBNNS_INLINE Vec floor(Vec x) {
  Vec rounded = round_even(x);
  return select(rounded > x, rounded - 1.0f, rounded);
}
OPENBNNS_INLINE Vec ceil(Vec x) {
  Vec rounded = round_even(x);
  return select(rounded < x, with_sign(abs(rounded + 1.0f), x), rounded);
}
OPENBNNS_INLINE Vec trunc(Vec x) { return with_sign(floor(abs(x)), x); }
#endif

// ---- exponentials ----

// Adding this rounds a float of magnitude below 2^22 to an integer, held in the low bits of the sum.
constexpr float kRoundingShift = 0x1.8p23f;

struct RoundedInteger {
  Vec value;
  IntVec integer;
};
OPENBNNS_INLINE RoundedInteger rounded_integer(Vec shifted) {
  UIntVec integer = unsigned_bits(shifted) - 0x4b400000u;  // wraps, harmlessly, for larger arguments
  return {shifted - kRoundingShift, reinterpret_cast<IntVec>(integer)};
}

// 2^n for -126 <= n <= 127
OPENBNNS_INLINE Vec power_of_two(IntVec n) { return from_bits((n + 127) << 23); }

// x * 2^n for -252 <= n <= 254, rounded once
OPENBNNS_INLINE Vec scale(Vec x, RoundedInteger n) {
#if defined(__AVX512F__)
  return _mm512_maskz_scalef_ps(0xffff, x, n.value);
#else
  IntVec half = n.integer >> 1;
  return x * power_of_two(half) * power_of_two(n.integer - half);
#endif
}

constexpr float kLog2E = 1.44269504f;
constexpr float kLn2High = 0.693359375f;  // 10 bits: times an integer below 2^14 it is exact
constexpr float kLn2Low = -2.12194440e-4f;

// x = n ln 2 + r with |r| <= ln 2 / 2
struct ExponentReduction {
  RoundedInteger n;
  Vec r;
};
OPENBNNS_INLINE ExponentReduction reduce_exponent(Vec x) {
  ExponentReduction e;
  e.n = rounded_integer(x * kLog2E + kRoundingShift);
  e.r = (x - e.n.value * kLn2High) - e.n.value * kLn2Low;
  return e;
}

// e^r - 1 for |r| <= ln 2 / 2
OPENBNNS_INLINE Vec expm1_reduced(Vec r) {
  Vec p = 0.0013947026f * r + 0.008366912f;
  p = p * r + 0.041666273f;
  p = p * r + 0.1666654f;
  p = p * r + 0.5f;
  return p * (r * r) + r;
}

#if defined(__AVX512F__)
// e^x = 2^n (1 + q) with n a multiple of 1/16 and |log(1 + q)| <= ln 2 / 32: a permutation looks up 16 powers of two.
struct TableReduction {
  Vec shifted, n, q;
};
constexpr float kSixteenthShift = 0x1.8p19f;  // adding it rounds to a multiple of 1/16
OPENBNNS_INLINE TableReduction reduce_to_table(Vec x) {
  TableReduction t;
  t.shifted = x * kLog2E + kSixteenthShift;
  t.n = t.shifted - kSixteenthShift;
  Vec r = (x - t.n * kLn2High) - t.n * kLn2Low;
  t.q = (0.1666672f * r + 0.5000165f) * (r * r) + r;
  return t;
}

// 2^(k/16) for the last 4 bits k of every lane of index
OPENBNNS_INLINE Vec sixteenth_powers(Vec index) {
  const Vec table = {1.0f,        1.04427373f, 1.09050775f, 1.13878858f, 1.18920708f, 1.24185777f,
                     1.29683959f, 1.35425556f, 1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f,
                     1.68179286f, 1.75625217f, 1.83400810f, 1.91520655f};
  return _mm512_maskz_permutexvar_ps(0xffff, (__m512i)index, table);
}
// by how much, relative to it, the exact power is larger
OPENBNNS_INLINE Vec sixteenth_power_errors(Vec index) {
  const Vec table = {0.0f,          4.62855e-08f,  -1.19922e-08f, 4.72978e-08f,  3.19342e-08f, 3.62106e-08f,
                     -3.09907e-08f, -7.47521e-09f, 1.71143e-08f,  -3.04768e-08f, 5.23333e-09f, 6.10759e-09f,
                     -1.47196e-08f, -5.25880e-09f, -6.12826e-09f, 5.14061e-09f};
  return _mm512_maskz_permutexvar_ps(0xffff, (__m512i)index, table);
}

// e^x * 2^shift for -105 <= x <= 90, below which it is 0 and above infinity, and small shifts
OPENBNNS_INLINE Vec exp_inside(Vec x, int shift) {
  TableReduction t = reduce_to_table(x);
  Vec power = sixteenth_powers(t.shifted);
  Vec q = t.q + sixteenth_power_errors(t.shifted);
  // scalef multiplies by 2^floor(n)
  return _mm512_maskz_scalef_ps(0xffff, power * q + power, t.n + static_cast<float>(shift));
}

// e^x for x <= 25
OPENBNNS_INLINE Vec exp_up_to_25(Vec x) { return exp_inside(max(splat(-105.0f), x), 0); }

// e^x for x <= 0, without the table's second half: within 1 ulp, which is enough for sums
OPENBNNS_INLINE Vec exp_not_positive(Vec x) {
  TableReduction t = reduce_to_table(max(splat(-105.0f), x));
  Vec power = sixteenth_powers(t.shifted);
  return _mm512_maskz_scalef_ps(0xffff, power * t.q + power, t.n);
}

// 2^n for a multiple n of 1/16 above -127 that kSixteenthShift has been added to
OPENBNNS_INLINE Vec table_power(Vec shifted) {
  // 2^floor(n): the bits above the index, moved to the exponent
  const UIntVec exponent = (unsigned_bits(shifted) >> 4) << 23;
  return from_unsigned_bits(unsigned_bits(sixteenth_powers(shifted)) + exponent);
}

// e^x where -87 <= x < 88 is known: the power of two needs no care
OPENBNNS_INLINE Vec exp_between(Vec x) {
  TableReduction t = reduce_to_table(x);
  const Vec power = table_power(t.shifted);
  return power * t.q + power;
}
#else
// e^r for |r| <= ln 2 / 2
OPENBNNS_INLINE Vec exp_reduced(Vec r) {
  Vec p = 0.0013813885f * r + 0.008369064f;
  p = p * r + 0.041668423f;
  p = p * r + 0.16666518f;
  p = p * r + 0.49999994f;
  Vec high = r + 1.0f;
  Vec low = r - (high - 1.0f);  // what rounding took from 1 + r
  return high + (p * (r * r) + low);
}

// e^x * 2^shift for -105 <= x <= 90, below which it is 0 and above infinity, and small shifts
OPENBNNS_INLINE Vec exp_inside(Vec x, int shift) {
  ExponentReduction e = reduce_exponent(x);
  return scale(exp_reduced(e.r), {e.n.value + static_cast<float>(shift), e.n.integer + shift});
}

// e^x for x <= 25. A power of two that could be too small for a float is kept larger until the end.
OPENBNNS_INLINE Vec exp_up_to_25(Vec x) {
  ExponentReduction e = reduce_exponent(max(splat(-105.0f), x));
  constexpr int kLarger = 63;
  Vec power = power_of_two(e.n.integer + kLarger);
  return (power * expm1_reduced(e.r) + power) * 0x1p-63f;
}

// e^x where -87 <= x < 88 is known: the power of two needs no care
OPENBNNS_INLINE Vec exp_between(Vec x) {
  ExponentReduction e = reduce_exponent(x);
  return exp_reduced(e.r) * power_of_two(e.n.integer);
}

// e^x for x <= 0
OPENBNNS_INLINE Vec exp_not_positive(Vec x) { return exp_up_to_25(x); }
#endif

// e^x * 2^shift, for small shifts
OPENBNNS_INLINE Vec exp_scaled(Vec x, int shift) {
  return exp_inside(max(splat(-105.0f), min(splat(90.0f), x)), shift);
}

OPENBNNS_INLINE Vec exp(Vec x) { return exp_scaled(x, 0); }

// 2^r - 1 for |r| <= 1/2. Even and odd powers apart: nobody waits for a long chain of sums.
OPENBNNS_INLINE Vec exp2m1_reduced(Vec r) {
  const Vec z = r * r;
  const Vec even = (0.00015476886f * z + 0.009618002f) * z + 0.2402265f;
  const Vec odd = (0.0013400805f * z + 0.055503264f) * z + 0.6931472f;
  return even * z + odd * r;
}

OPENBNNS_INLINE Vec exp2(Vec x) {
  x = max(splat(-151.0f), min(splat(129.0f), x));
  RoundedInteger n = rounded_integer(x + kRoundingShift);
  return scale(exp2m1_reduced(x - n.value) + 1.0f, n);
}

// 2^x where -126 <= x <= 127 is known: the power of two needs no care
OPENBNNS_INLINE Vec exp2_between(Vec x) {
#if defined(__AVX512F__)
  const Vec shifted = x + kSixteenthShift, r = x - (shifted - kSixteenthShift);
  const Vec power = table_power(shifted);
  return power * ((0.05550411f * r + 0.24022650f) * (r * r) + 0.6931472f * r) + power;
#else
  const RoundedInteger n = rounded_integer(x + kRoundingShift);
  const Vec power = power_of_two(n.integer);
  return power * exp2m1_reduced(x - n.value) + power;
#endif
}

OPENBNNS_INLINE Vec expm1(Vec x) {
  Vec clamped = max(splat(-25.0f), min(splat(88.8f), x));
  ExponentReduction e = reduce_exponent(clamped);
  // e^x - 1 = 2^n (e^r - 1) + (2^n - 1), halved so that 2^n does not overflow before the result does
  Vec half_power = power_of_two(e.n.integer - 1);
  Vec result = 2.0f * (half_power * expm1_reduced(e.r) + (half_power - 0.5f));
  result = select(x > 88.8f, splat(kInfinity), result);
  return select(abs(x) < 1e-20f, x, result);
}

// ---- logarithms ----

// x = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), for finite positive x
struct LogarithmReduction {
  Vec k, f;
};
OPENBNNS_INLINE LogarithmReduction reduce_logarithm(Vec x) {
  IntVec subnormal = x < std::numeric_limits<float>::min();
  x = select(subnormal, x * 0x1p24f, x);
  constexpr uint32_t kSqrtHalf = 0x3f3504f3, kOne = 0x3f800000;
  UIntVec offset = unsigned_bits(x) - kSqrtHalf;
  IntVec k = reinterpret_cast<IntVec>(offset) >> 23;
  UIntVec fraction = (offset & 0x007fffffu) + kSqrtHalf;
  static_assert(kSqrtHalf < kOne, "");
  Vec shift = from_bits(subnormal & bits(splat(24.0f)));
  return {__builtin_convertvector(k, Vec) - shift, from_unsigned_bits(fraction) - 1.0f};
}

// log(1 + f) - f for 1 + f in [sqrt(1/2), sqrt(2)]
OPENBNNS_INLINE Vec log1p_tail(Vec f) {
  Vec p = -0.07634486f * f + 0.12761565f;
  p = p * f - 0.13160181f;
  p = p * f + 0.1420176f;
  p = p * f - 0.16623358f;
  p = p * f + 0.20001227f;
  p = p * f - 0.2500082f;
  p = p * f + 0.3333333f;
  Vec square = f * f;
  return p * f * square - 0.5f * square;
}

// Values outside the domain of a logarithm of `u`: 0 gives -inf, negative NaN, inf inf, NaN NaN.
OPENBNNS_INLINE Vec logarithm_edges(Vec u, Vec result) {
  result = select(u < kInfinity, result, u);
  result = select(u == 0.0f, splat(-kInfinity), result);
  return select(u < 0.0f, splat(kNaN), result);
}

OPENBNNS_INLINE Vec log(Vec x) {
  LogarithmReduction l = reduce_logarithm(x);
  Vec result = l.k * kLn2High + ((l.k * kLn2Low + log1p_tail(l.f)) + l.f);
  return logarithm_edges(x, result);
}

OPENBNNS_INLINE Vec log2(Vec x) {
  LogarithmReduction l = reduce_logarithm(x);
  constexpr float kExcess = 0.44269504f;  // log2(e) - 1: multiplying by 1 adds no error
  Vec tail = log1p_tail(l.f);
  Vec result = l.k + (l.f + (tail + (l.f * kExcess + tail * kExcess)));
  return logarithm_edges(x, result);
}

OPENBNNS_INLINE Vec log1p(Vec x) {
  Vec u = x + 1.0f;
  Vec back = u - 1.0f;
  Vec lost = (1.0f - (u - back)) + (x - back);  // u + lost = 1 + x exactly
  LogarithmReduction l = reduce_logarithm(u);
  IntVec k = __builtin_convertvector(l.k, IntVec);
  Vec f = l.f + lost * power_of_two(k < 100 ? -k : splat_int(-100));
  Vec result = l.k * kLn2High + ((l.k * kLn2Low + log1p_tail(f)) + f);
  result = logarithm_edges(u, result);
  return select(abs(x) < 1e-20f, x, result);
}

// ---- sigmoid and its relatives ----

OPENBNNS_INLINE Vec sigmoid(Vec x) {
  Vec e = exp_up_to_25(min(splat(25.0f), x));  // beyond it: 1
  return fast_quotient(e, 1.0f + e);
}

// (tanh(a) - a) / a for 0 <= a < 0.6
OPENBNNS_INLINE Vec tanh_tail(Vec a) {
  Vec z = a * a;
  Vec p = -0.0058979667f * z + 0.020798625f;
  p = p * z - 0.053784717f;
  p = p * z + 0.13331936f;
  p = p * z - 0.333333f;
  return p * z;
}

// tanh(a) for 0.6 <= a; 1 from 9.02 on
OPENBNNS_INLINE Vec tanh_large(Vec a) {
  a = min(splat(10.0f), a);
  return 1.0f - 2.0f * fast_reciprocal(exp_between(a + a) + 1.0f);
}

OPENBNNS_INLINE Vec tanh(Vec x) {
  Vec a = abs(x);
  return with_sign(select(a < 0.6f, tanh_tail(a) * a + a, tanh_large(a)), x);
}

// x - tanh(x), without cancellation near 0
OPENBNNS_INLINE Vec minus_tanh(Vec x) {
  Vec a = abs(x);
  return with_sign(select(a < 0.6f, -tanh_tail(a) * a, a - tanh_large(a)), x);
}

// log(1 + e^x)
OPENBNNS_INLINE Vec softplus(Vec x) { return max(splat(0.0f), x) + log1p(exp(-abs(x))); }

OPENBNNS_INLINE Vec erf(Vec x) {
  // Below 0.92: x (1 + P(x^2)); above: 1 - exp(-Q(|x|)), which is 1 from |x| = 3.92 on
  Vec a = min(splat(4.0f), abs(x)), z = a * a;
  Vec p = 8.002775e-05f * z - 0.0008050804f;
  p = p * z + 0.0051924605f;
  p = p * z - 0.02685574f;
  p = p * z + 0.11283626f;
  p = p * z - 0.3761263f;
  p = p * z + 0.12837917f;
  Vec small = p * a + a;
  Vec q = 2.0832727e-05f * a - 0.00043143096f;
  q = q * a + 0.0041564014f;
  q = q * a - 0.025080923f;
  q = q * a + 0.10822075f;
  q = q * a + 0.6334006f;
  q = q * a + 1.1294885f;
  q = q * a - 0.00016920616f;
  Vec large = 1.0f - exp_between(-q);
  return with_sign(select(a < 0.92f, small, large), x);
}

// ---- trigonometry ----

// x = n pi/2 + r with |r| a little above pi/4 at most, for |x| < kTrigonometryLimit; the reduction is exact in double.
struct AngleReduction {
  IntVec n;
  Vec r;
  DoubleVec wide_r;
};
constexpr float kTrigonometryLimit = 1e6f;
OPENBNNS_INLINE AngleReduction reduce_angle(Vec x) {
  RoundedInteger n = rounded_integer(x * 0.636619772f + kRoundingShift);
  constexpr double kHalfPiHigh = 0x1.921fb544p+0, kHalfPiLow = 0x1.0b4611a626331p-34;  // 33 bits + the next 53
  DoubleVec wide_n = __builtin_convertvector(n.value, DoubleVec);
  DoubleVec r = (__builtin_convertvector(x, DoubleVec) - wide_n * kHalfPiHigh) - wide_n * kHalfPiLow;
  return {n.integer, __builtin_convertvector(r, Vec), r};
}

OPENBNNS_INLINE Vec sin_reduced(Vec r) {
  Vec z = r * r;
  Vec p = -0.00019452072f * z + 0.008331664f;
  p = p * z - 0.16666646f;
  return p * z * r + r;
}

OPENBNNS_INLINE Vec cos_reduced(Vec r) {
  Vec z = r * r;
  Vec p = 2.4360568e-05f * z - 0.0013886634f;
  p = p * z + 0.04166663f;
  return p * (z * z) + (1.0f - 0.5f * z);
}

// sin(r + n pi/2)
OPENBNNS_INLINE Vec sin_of_quadrant(Vec r, IntVec n) {
  Vec value = select((n & 1) != 0, cos_reduced(r), sin_reduced(r));
  return from_bits(bits(value) ^ ((n & 2) << 30));
}

OPENBNNS_INLINE Vec sin(Vec x) {
  AngleReduction a = reduce_angle(x);
  Vec result = select(abs(x) < 1e-15f, x, sin_of_quadrant(a.r, a.n));
  IntVec far = abs(x) > kTrigonometryLimit;
  if (__builtin_expect(any(far), 0)) return replace_lanes(result, far, x, [](float v) { return std::sin(v); });
  return result;
}

OPENBNNS_INLINE Vec cos(Vec x) {
  AngleReduction a = reduce_angle(x);
  Vec result = sin_of_quadrant(a.r, a.n + 1);
  IntVec far = abs(x) > kTrigonometryLimit;
  if (__builtin_expect(any(far), 0)) return replace_lanes(result, far, x, [](float v) { return std::cos(v); });
  return result;
}

OPENBNNS_INLINE Vec tan(Vec x) {
  // in double: in odd quadrants -1 / tan(r) would double the error of a float tan(r)
  AngleReduction a = reduce_angle(x);
  DoubleVec z = a.wide_r * a.wide_r;
  DoubleVec p = 0.0056262035 * z - 0.0026314822;
  p = p * z + 0.01314274;
  p = p * z + 0.020325089;
  p = p * z + 0.054259297;
  p = p * z + 0.13330771;
  p = p * z + 0.3333341;
  DoubleVec value = p * z * a.wide_r + a.wide_r;
  Vec cotangent = __builtin_convertvector(-1.0 / value, Vec);
  Vec result = select((a.n & 1) != 0, cotangent, __builtin_convertvector(value, Vec));
  result = select(abs(x) < 1e-15f, x, result);
  IntVec far = abs(x) > kTrigonometryLimit;
  if (__builtin_expect(any(far), 0)) return replace_lanes(result, far, x, [](float v) { return std::tan(v); });
  return result;
}

constexpr float kHalfPi = 1.57079633f, kHalfPiTail = -4.37113883e-8f;  // their sum is pi/2 to twice float precision

// asin(s) - s for 0 <= s <= 1/2, z = s^2
OPENBNNS_INLINE Vec asin_tail(Vec s, Vec z) {
  Vec p = 0.042158388f * z + 0.024184743f;
  p = p * z + 0.045469154f;
  p = p * z + 0.074953094f;
  p = p * z + 0.16666752f;
  return p * z * s;
}

OPENBNNS_INLINE Vec asin(Vec x) {
  // asin a = pi/2 - 2 asin(sqrt((1 - a) / 2)) for a > 1/2
  Vec a = abs(x);
  IntVec outer = a > 0.5f;
  Vec half = 0.5f - 0.5f * a;
  Vec s = select(outer, sqrt(half), a);
  Vec tail = asin_tail(s, select(outer, half, a * a));
  Vec result = select(outer, (kHalfPi - 2.0f * s) - (2.0f * tail - kHalfPiTail), s + tail);
  return select(a < 1e-15f, x, with_sign(result, x));
}

OPENBNNS_INLINE Vec acos(Vec x) {
  Vec a = abs(x);
  IntVec outer = a > 0.5f;
  Vec half = 0.5f - 0.5f * a;
  Vec s = select(outer, sqrt(half), a);
  Vec value = s + asin_tail(s, select(outer, half, a * a));
  IntVec negative = x < 0.0f;
  Vec inner_result = kHalfPi - (select(negative, -value, value) - kHalfPiTail);
  Vec twice = 2.0f * value;
  Vec outer_result = select(negative, 2.0f * kHalfPi - (twice - 2.0f * kHalfPiTail), twice);
  return select(outer, outer_result, inner_result);
}

OPENBNNS_INLINE Vec atan(Vec x) {
  Vec a = abs(x);
  IntVec large = a > 1.0f;
  Vec s = select(large, 1.0f / a, a);
  Vec z = s * s;
  Vec p = -0.0018124173f * z + 0.010979736f;
  p = p * z - 0.031260625f;
  p = p * z + 0.057999916f;
  p = p * z - 0.08403581f;
  p = p * z + 0.10951547f;
  p = p * z - 0.14264043f;
  p = p * z + 0.1999853f;
  p = p * z - 0.333333f;
  Vec value = p * z * s + s;
  Vec result = select(large, kHalfPi - (value - kHalfPiTail), value);
  return select(a < 1e-15f, x, with_sign(result, x));
}

// ---- hyperbolic functions ----

OPENBNNS_INLINE Vec sinh(Vec x) {
  Vec a = abs(x), z = x * x;
  Vec p = 2.7822132e-06f * z + 0.00019842896f;
  p = p * z + 0.0083333105f;
  p = p * z + 0.16666667f;
  Vec small = p * z * x + x;
  Vec half_power = exp_scaled(a, -1);
  Vec result = select(a < 1.0f, small, with_sign(half_power - 0.25f / half_power, x));
  return select(a < 1e-15f, x, result);
}

OPENBNNS_INLINE Vec cosh(Vec x) {
  Vec half_power = exp_scaled(abs(x), -1);
  return half_power + 0.25f / half_power;
}

OPENBNNS_INLINE Vec asinh(Vec x) {
  // log(a + sqrt(a^2 + 1)), as log1p to keep small arguments; log(2 a) where 1 is lost in a^2
  Vec a = abs(x);
  IntVec large = a > 1e9f;
  Vec square = a * a;
  Vec inner = log1p(select(large, a, a + square / (1.0f + sqrt(square + 1.0f))));
  Vec result = inner + select(large, splat(0.693147181f), splat(0.0f));
  return select(a < 1e-15f, x, with_sign(result, x));
}

OPENBNNS_INLINE Vec acosh(Vec x) {
  // log(x + sqrt(x^2 - 1)) with t = x - 1 exact near 1
  IntVec large = x > 1e9f;
  Vec t = x - 1.0f;
  Vec inner = log1p(select(large, t, t + sqrt(t * (t + 2.0f))));
  Vec result = inner + select(large, splat(0.693147181f), splat(0.0f));
  return select(x < 1.0f, splat(kNaN), result);
}

OPENBNNS_INLINE Vec atanh(Vec x) {
  // log((1 + a) / (1 - a)) / 2
  Vec a = abs(x);
  Vec result = 0.5f * log1p((a + a) / (1.0f - a));
  return select(a < 1e-15f, x, with_sign(result, x));
}

// ---- power ----

OPENBNNS_INLINE Vec pow(Vec x, Vec y) {
  for (int i = 0; i < kWidth; i++) x[i] = std::pow(x[i], y[i]);
  return x;
}

}  // namespace math
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
