// What the elements of a reduction contribute, how contributions combine, and the slopes of the gradients.
#pragma once
#include <limits>

#include "simd/math.h"
#include "simd/wide.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace reduction {

// Numbers of BNNSReduceFunction.
enum Function {
  kMax = 0,
  kMin = 1,
  kArgMax = 2,
  kArgMin = 3,
  kMean = 4,
  kMeanNonZero = 5,
  kSumFunction = 6,
  kSumSquare = 7,
  kSumLog = 8,
  kL1Norm = 9,
  kLogicalOr = 10,
  kLogicalAnd = 11,
  kL2Norm = 12,
  kLogSumExp = 13,
  kProduct = 14,
  kLogSum = 16
};

// w x, w x where w != 0, w |x|, w x^2, w log(x + epsilon), w exp(x - shift), x != 0, w != 0
enum Term { kValue, kMasked, kAbs, kSquare, kLog, kExp, kNonZero, kCount };
enum Combine { kSum, kMaximum, kMinimum, kMultiply };

OPENBNNS_INLINE WideVec operator*(WideVec a, WideVec b) { return {a.low * b.low, a.high * b.high}; }

template <Term kTerm>
OPENBNNS_INLINE WideVec term(Vec x, Vec shift, float epsilon) {
  switch (kTerm) {
    case kAbs:
      return widen(math::abs(x));
    case kSquare:
      return widen(x) * widen(x);
    case kLog:
      return widen(math::log(x + epsilon));
    case kExp:
      return widen(math::exp(x - shift));
    case kNonZero:
      return widen(select(x != 0.0f, splat(1.0f), Vec{}));
    default:
      return widen(x);
  }
}

template <Term kTerm>
OPENBNNS_INLINE WideVec weighted_term(Vec x, Vec w, Vec shift, float epsilon) {
  if (kTerm == kCount) return widen(select(w != 0.0f, splat(1.0f), Vec{}));
  if (kTerm == kMasked) x = select(w != 0.0f, x, Vec{});
  return term<kTerm>(x, shift, epsilon) * widen(w);
}

template <Combine kCombine>
constexpr double start() {
  return kCombine == kMaximum    ? -std::numeric_limits<double>::infinity()
         : kCombine == kMinimum  ? std::numeric_limits<double>::infinity()
         : kCombine == kMultiply ? 1.0
                                 : 0.0;
}

// The extremes: a NaN wins, and stays.
template <Combine kCombine, class Number>
OPENBNNS_INLINE Number combine(Number total, Number t) {
  if (kCombine == kMaximum) return (t > total) | (t != t) ? t : total;
  if (kCombine == kMinimum) return (t < total) | (t != t) ? t : total;
  return kCombine == kMultiply ? total * t : total + t;
}
template <Combine kCombine>
OPENBNNS_INLINE WideVec combine_wide(WideVec total, WideVec t) {
  return {combine<kCombine>(total.low, t.low), combine<kCombine>(total.high, t.high)};
}

// Everything combined so far, in two sets of lanes that do not wait for each other.
template <Combine kCombine>
class Totals {
 public:
  OPENBNNS_INLINE Totals()
      : lanes_{{start<kCombine>() - DoubleVec{}, start<kCombine>() - DoubleVec{}},
               {start<kCombine>() - DoubleVec{}, start<kCombine>() - DoubleVec{}}} {}
  OPENBNNS_INLINE void add(int set, WideVec t) { lanes_[set] = combine_wide<kCombine>(lanes_[set], t); }
  OPENBNNS_INLINE void add_lanes(WideVec t, int64_t count) {
    double lane[kWidth];
    store_wide(lane, t);
    for (int64_t i = 0; i < count; i++) rest_ = combine<kCombine>(rest_, lane[i]);
  }
  double value() const {
    double lane[kWidth], total = rest_;
    store_wide(lane, combine_wide<kCombine>(lanes_[0], lanes_[1]));
    for (int i = 0; i < kWidth; i++) total = combine<kCombine>(total, lane[i]);
    return total;
  }

 private:
  WideVec lanes_[2];
  double rest_ = start<kCombine>();
};

template <Term kTerm>
OPENBNNS_INLINE WideVec any_term(const float* x, const float* w, int64_t i, Vec shift, float epsilon) {
  if (kTerm == kCount) return weighted_term<kTerm>(Vec{}, load(w + i), shift, epsilon);
  return w ? weighted_term<kTerm>(load(x + i), load(w + i), shift, epsilon) : term<kTerm>(load(x + i), shift, epsilon);
}
template <Term kTerm>
OPENBNNS_INLINE WideVec any_term_partial(const float* x, const float* w, int64_t i, int64_t count, Vec shift,
                                         float epsilon) {
  const Vec value = kTerm == kCount ? Vec{} : load_partial(x + i, count);
  return w ? weighted_term<kTerm>(value, load_partial(w + i, count), shift, epsilon)
           : term<kTerm>(value, shift, epsilon);
}

// totals over `count` elements in a row
template <Term kTerm, Combine kCombine>
void add_run(Totals<kCombine>& totals, const float* x, const float* w, int64_t count, Vec shift, float epsilon) {
  Totals<kCombine> t = totals;  // in registers
  int64_t i = 0;
  for (; i + 2 * kWidth <= count; i += 2 * kWidth) {
    t.add(0, any_term<kTerm>(x, w, i, shift, epsilon));
    t.add(1, any_term<kTerm>(x, w, i + kWidth, shift, epsilon));
  }
  for (; i + kWidth <= count; i += kWidth) t.add(0, any_term<kTerm>(x, w, i, shift, epsilon));
  if (i < count) t.add_lanes(any_term_partial<kTerm>(x, w, i, count - i, shift, epsilon), count - i);
  totals = t;
}

// total[i] for each of `count` columns; there is room for a whole vector behind the last
template <Term kTerm, Combine kCombine>
void add_columns(double* total, const float* x, const float* w, const float* shift, int64_t count, float epsilon) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    const Vec moved = kTerm == kExp ? load(shift + i) : Vec{};
    store_wide(total + i, combine_wide<kCombine>(load_wide(total + i), any_term<kTerm>(x, w, i, moved, epsilon)));
  }
  if (i == count) return;
  const Vec moved = kTerm == kExp ? load_partial(shift + i, count - i) : Vec{};
  double lane[kWidth];
  store_wide(lane, any_term_partial<kTerm>(x, w, i, count - i, moved, epsilon));
  for (int64_t c = 0; i + c < count; c++) total[i + c] = combine<kCombine>(total[i + c], lane[c]);
}

// ---- plain sums and extremes: in float where that loses nothing that counts ----

// Elements themselves, without weights, summed or compared.
template <Term kTerm, Combine kCombine>
constexpr bool is_plain() {
  return kTerm == kValue && kCombine != kMultiply;
}

constexpr int32_t kInfinityBits = 0x7f800000;

template <Combine kCombine>
OPENBNNS_INLINE Vec start_vector() {
  return splat(kCombine == kMaximum ? -math::kInfinity : kCombine == kMinimum ? math::kInfinity : 0.0f);
}
// An extreme that passes over NaN.
template <Combine kCombine>
OPENBNNS_INLINE Vec merge(Vec total, Vec x) {
  return kCombine == kMaximum ? math::max(x, total) : kCombine == kMinimum ? math::min(x, total) : total + x;
}
// The largest magnitude as bits: beyond those of infinity if there was a NaN.
OPENBNNS_INLINE IntVec watch(IntVec seen, Vec x) {
  const IntVec magnitude = bits(math::abs(x));
  return magnitude > seen ? magnitude : seen;
}
template <Combine kCombine>
OPENBNNS_INLINE Vec with_nan(Vec total, IntVec seen) {
  return kCombine == kSum ? total : select(seen > kInfinityBits, splat(math::kNaN), total);
}

// The same as add_run for plain terms. Sums: eight vectors of partial sums over 16 vectors each, closed in double.
template <Combine kCombine>
void add_plain_run(Totals<kCombine>& totals, const float* x, int64_t count) {
  constexpr int kParts = 8;
  constexpr int64_t kStep = kParts * kWidth, kClosed = 16 * kStep;
  Totals<kCombine> t = totals;
  int64_t i = 0;
  while (i + kStep <= count) {
    const int64_t end = count - i > kClosed ? i + kClosed : count;
    Vec part[kParts];
    IntVec seen[kParts] = {};
    OPENBNNS_UNROLL for (int p = 0; p < kParts; p++) part[p] = start_vector<kCombine>();
    for (; i + kStep <= end; i += kStep) OPENBNNS_UNROLL for (int p = 0; p < kParts; p++) {
        const Vec v = load(x + i + p * kWidth);
        part[p] = merge<kCombine>(part[p], v);
        if (kCombine != kSum) seen[p] = watch(seen[p], v);
      }
    OPENBNNS_UNROLL for (int half = kParts / 2; half > 0; half /= 2) OPENBNNS_UNROLL for (int p = 0; p < half; p++) {
      part[p] = merge<kCombine>(part[p], part[p + half]);
      if (kCombine != kSum) seen[p] = seen[p] > seen[p + half] ? seen[p] : seen[p + half];
    }
    t.add(0, widen(with_nan<kCombine>(part[0], seen[0])));
  }
  totals = t;
  if (i < count) add_run<kValue>(totals, x + i, nullptr, count - i, Vec{}, 0.0f);
}

constexpr int kRows = 8;

// The same as add_columns for kRows rows of plain terms at a time.
template <Combine kCombine>
void add_plain_columns(double* total, const float* const* row, int64_t count) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    Vec part[kRows];
    IntVec seen{};
    OPENBNNS_UNROLL for (int r = 0; r < kRows; r++) {
      part[r] = load(row[r] + i);
      if (kCombine != kSum) seen = watch(seen, part[r]);
    }
    OPENBNNS_UNROLL for (int half = kRows / 2; half > 0; half /= 2) OPENBNNS_UNROLL for (int r = 0; r < half; r++)
        part[r] = merge<kCombine>(part[r], part[r + half]);
    const WideVec rows = widen(with_nan<kCombine>(part[0], seen));
    store_wide(total + i, combine_wide<kCombine>(load_wide(total + i), rows));
  }
  for (; i < count; i++)
    for (int r = 0; r < kRows; r++) total[i] = combine<kCombine>(total[i], static_cast<double>(row[r][i]));
}

// run(slope) with slope(x, w, shift, epsilon) = dy/dx without what all elements of an output share
template <class Run>
void with_input_slope(int function, Run run) {
  switch (function) {
    case kSumSquare:  // w x^2
    case kL2Norm:
      return run([](Vec x, Vec w, Vec, float) { return w * x; });
    case kSumLog:  // w log(x + epsilon)
      return run([](Vec x, Vec w, Vec, float epsilon) { return w / (x + epsilon); });
    case kL1Norm:  // w |x|
      return run([](Vec x, Vec w, Vec, float) {
        return select(x == 0.0f, Vec{}, select(x > 0.0f, w, select(x < 0.0f, -w, x)));
      });
    case kLogSumExp:  // w exp(x - shift)
      return run([](Vec x, Vec w, Vec shift, float) { return w * math::exp(x - shift); });
    default:  // w x
      return run([](Vec, Vec w, Vec, float) { return w; });
  }
}

// the same for dy/dw
template <class Run>
void with_weights_slope(int function, Run run) {
  switch (function) {
    case kSumSquare:  // w x^2
    case kL2Norm:
      return run([](Vec x, Vec, Vec, float) { return x * x; });
    case kSumLog:  // w log(x + epsilon)
      return run([](Vec x, Vec, Vec, float epsilon) { return math::log(x + epsilon); });
    case kL1Norm:  // w |x|
      return run([](Vec x, Vec, Vec, float) { return math::abs(x); });
    case kLogSumExp:  // w exp(x - shift)
      return run([](Vec x, Vec, Vec shift, float) { return math::exp(x - shift); });
    default:  // w x
      return run([](Vec x, Vec, Vec, float) { return x; });
  }
}

}  // namespace reduction
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
