#include "kernels/reduction_terms.h"

#include <algorithm>
#include <limits>

#include "simd/math.h"
#include "simd/stream.h"
#include "simd/wide.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace reduction {
namespace {

enum Combine { kAdd, kLargest, kSmallest, kMultiply };

OPENBNNS_INLINE WideVec operator*(WideVec a, WideVec b) { return {a.low * b.low, a.high * b.high}; }

OPENBNNS_INLINE Vec one_where(IntVec mask) { return select(mask, splat(1.0f), Vec{}); }

template <Kind kKind>
OPENBNNS_INLINE WideVec term(Vec x, Vec w, Vec shift, float epsilon) {
  switch (kKind) {
    case kTotal:
      return widen(x) * widen(w);
    case kMaskedTotal:
      return widen(select(w != 0.0f, x, Vec{})) * widen(w);
    case kAbsTotal:
      return widen(math::abs(x)) * widen(w);
    case kSquareTotal:
      return widen(x) * widen(x) * widen(w);
    case kLogTotal:
      return widen(math::log(x + epsilon)) * widen(w);
    case kExpTotal:
      return widen(math::exp(x - shift)) * widen(w);
    case kCountTotal:
      return widen(one_where(w != 0.0f));
    case kAnyNonZero:
    case kAllNonZero:
      return widen(one_where(x != 0.0f));
    default:
      return widen(x);
  }
}

template <Kind kKind>
constexpr Combine combine_of() {
  return kKind == kMaximum || kKind == kAnyNonZero   ? kLargest
         : kKind == kMinimum || kKind == kAllNonZero ? kSmallest
         : kKind == kProductTotal                    ? kMultiply
                                                     : kAdd;
}

template <Combine kCombine>
constexpr double start() {
  return kCombine == kLargest    ? -std::numeric_limits<double>::infinity()
         : kCombine == kSmallest ? std::numeric_limits<double>::infinity()
         : kCombine == kMultiply ? 1.0
                                 : 0.0;
}

// The extremes: a NaN wins, and stays.
template <Combine kCombine, class Number>
OPENBNNS_INLINE Number combine(Number total, Number t) {
  if (kCombine == kLargest) return ((t > total) | (t != t)) ? t : total;
  if (kCombine == kSmallest) return ((t < total) | (t != t)) ? t : total;
  return kCombine == kMultiply ? total * t : total + t;
}
template <Combine kCombine>
double close_lanes(const double* lanes) {
  double part[kWidth];
  std::copy_n(lanes, kWidth, part);
  OPENBNNS_UNROLL for (int half = kWidth / 2; half > 0; half /= 2) OPENBNNS_UNROLL for (int i = 0; i < half; i++)
      part[i] = combine<kCombine>(part[i], part[i + half]);
  return part[0];
}
template <Combine kCombine>
void merge_totals(double* total, const double* other, int64_t count) {
  for (int64_t i = 0; i < count; i++) total[i] = combine<kCombine>(total[i], other[i]);
}
template <Combine kCombine>
OPENBNNS_INLINE WideVec combine_wide(WideVec total, WideVec t) {
  return {combine<kCombine>(total.low, t.low), combine<kCombine>(total.high, t.high)};
}

// The terms of `lanes` elements from i on; those beyond are without effect.
template <Kind kKind>
OPENBNNS_INLINE WideVec terms_at(const float* x, const float* w, int64_t i, int64_t lanes, Vec shift, float epsilon) {
  const Vec weight = w ? load_partial(w + i, lanes) : splat(1.0f);
  const WideVec t = term<kKind>(kKind == kCountTotal ? Vec{} : load_partial(x + i, lanes), weight, shift, epsilon);
  if (lanes == kWidth) return t;
  double lane[kWidth];
  store_wide(lane, t);
  for (int64_t l = lanes; l < kWidth; l++) lane[l] = start<combine_of<kKind>()>();
  return load_wide(lane);
}

template <Kind kKind>
void add_run(double* lanes, const float* x, const float* w, int64_t count, float shift, float epsilon) {
  WideVec total = load_wide(lanes);
  for (int64_t i = 0; i < count; i += kWidth)
    total = combine_wide<combine_of<kKind>()>(
        total, terms_at<kKind>(x, w, i, std::min<int64_t>(kWidth, count - i), splat(shift), epsilon));
  store_wide(lanes, total);
}

template <Kind kKind>
void add_columns(double* total, const float* x, const float* w, const float* shift, int64_t count, float epsilon) {
  for (int64_t i = 0; i < count; i += kWidth) {
    const int64_t lanes = std::min<int64_t>(kWidth, count - i);
    const Vec moved = kKind == kExpTotal ? load_partial(shift + i, lanes) : Vec{};
    const WideVec terms = terms_at<kKind>(x, w, i, lanes, moved, epsilon);
    store_wide(total + i, combine_wide<combine_of<kKind>()>(load_wide(total + i), terms));
  }
}

// ---- plain sums and extremes: in float where that loses nothing that counts ----

constexpr int32_t kInfinityBits = 0x7f800000;

template <Combine kCombine>
OPENBNNS_INLINE Vec start_vector() {
  return splat(static_cast<float>(start<kCombine>()));
}
// An extreme that passes over NaN.
template <Combine kCombine>
OPENBNNS_INLINE Vec merge(Vec total, Vec x) {
  return kCombine == kLargest ? math::max(x, total) : kCombine == kSmallest ? math::min(x, total) : total + x;
}
// The largest magnitude as bits: beyond those of infinity if there was a NaN.
OPENBNNS_INLINE IntVec watch(IntVec seen, Vec x) {
  const IntVec magnitude = bits(math::abs(x));
  return magnitude > seen ? magnitude : seen;
}
template <Combine kCombine>
OPENBNNS_INLINE Vec with_nan(Vec total, IntVec seen) {
  return kCombine == kAdd ? total : select(seen > kInfinityBits, splat(math::kNaN), total);
}

// Sums: eight vectors of partial sums over 16 vectors each, closed in double.
template <Kind kKind>
void add_plain_run(double* lanes, const float* x, const float* w, int64_t count, float shift, float epsilon) {
  constexpr Combine kCombine = combine_of<kKind>();
  constexpr int kParts = 8;
  constexpr int64_t kStep = kParts * kWidth, kClosed = 16 * kStep;
  if (w) return add_run<kKind>(lanes, x, w, count, shift, epsilon);
  WideVec total = load_wide(lanes);
  int64_t i = 0;
  while (i + kStep <= count) {
    const int64_t end = std::min(count, i + kClosed);
    Vec part[kParts];
    IntVec seen[kParts] = {};
    OPENBNNS_UNROLL for (int p = 0; p < kParts; p++) part[p] = start_vector<kCombine>();
    for (; i + kStep <= end; i += kStep) OPENBNNS_UNROLL for (int p = 0; p < kParts; p++) {
        const Vec v = load(x + i + p * kWidth);
        part[p] = merge<kCombine>(part[p], v);
        if (kCombine != kAdd) seen[p] = watch(seen[p], v);
      }
    OPENBNNS_UNROLL for (int half = kParts / 2; half > 0; half /= 2) OPENBNNS_UNROLL for (int p = 0; p < half; p++) {
      part[p] = merge<kCombine>(part[p], part[p + half]);
      if (kCombine != kAdd) seen[p] = seen[p] > seen[p + half] ? seen[p] : seen[p + half];
    }
    total = combine_wide<kCombine>(total, widen(with_nan<kCombine>(part[0], seen[0])));
  }
  if (i + kWidth <= count) {
    Vec part = start_vector<kCombine>();
    IntVec seen{};
    for (; i + kWidth <= count; i += kWidth) {
      const Vec v = load(x + i);
      part = merge<kCombine>(part, v);
      if (kCombine != kAdd) seen = watch(seen, v);
    }
    total = combine_wide<kCombine>(total, widen(with_nan<kCombine>(part, seen)));
  }
  store_wide(lanes, total);
  if (i < count) add_run<kKind>(lanes, x + i, nullptr, count - i, shift, epsilon);
}

template <Kind kKind>
void add_plain_rows(double* total, const float* const* row, int64_t count) {
  constexpr Combine kCombine = combine_of<kKind>();
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    Vec part[kRows];
    IntVec seen{};
    OPENBNNS_UNROLL for (int r = 0; r < kRows; r++) {
      part[r] = load(row[r] + i);
      if (kCombine != kAdd) seen = watch(seen, part[r]);
    }
    OPENBNNS_UNROLL for (int half = kRows / 2; half > 0; half /= 2) OPENBNNS_UNROLL for (int r = 0; r < half; r++)
        part[r] = merge<kCombine>(part[r], part[r + half]);
    const WideVec rows = widen(with_nan<kCombine>(part[0], seen));
    store_wide(total + i, combine_wide<kCombine>(load_wide(total + i), rows));
  }
  for (; i < count; i++)
    for (int r = 0; r < kRows; r++) total[i] = combine<kCombine>(total[i], static_cast<double>(row[r][i]));
}

template <Kind kKind>
constexpr Combination any_terms() {
  constexpr Combine kCombine = combine_of<kKind>();
  return {start<kCombine>(), close_lanes<kCombine>, merge_totals<kCombine>,
          add_run<kKind>,    add_columns<kKind>,    nullptr};
}
template <Kind kKind>
constexpr Combination plain_terms() {
  constexpr Combine kCombine = combine_of<kKind>();
  return {start<kCombine>(),    close_lanes<kCombine>, merge_totals<kCombine>,
          add_plain_run<kKind>, add_columns<kKind>,    add_plain_rows<kKind>};
}

// ---- gradients ----

OPENBNNS_INLINE Vec value_at(const float* values, bool per_element, int64_t i, int64_t lanes) {
  if (!values) return Vec{};
  return per_element ? load_partial(values + i, lanes) : splat(*values);
}

template <class Slope>
void input_run(const InputRun& r, Slope slope) {
  int64_t head = r.stream ? std::min(r.count, floats_to_alignment(r.dx)) : 0;
  for (int64_t i = 0, lanes; i < r.count; i += lanes, head = 0) {
    lanes = head > 0 ? head : std::min<int64_t>(kWidth, r.count - i);
    const Vec x = r.x ? load_partial(r.x + i, lanes) : Vec{}, w = r.w ? load_partial(r.w + i, lanes) : splat(1.0f);
    const Vec g = slope(x, w, value_at(r.shift, r.per_element, i, lanes), r.epsilon);
    const Vec gradient = value_at(r.factor, r.per_element, i, lanes) * g;
    if (r.adds)
      store_partial(r.dx + i, gradient + load_partial(r.dx + i, lanes), lanes);
    else if (r.stream && lanes == kWidth)
      store_stream(r.dx + i, gradient);
    else
      store_partial(r.dx + i, gradient, lanes);
  }
}

template <class Slope>
void weights_run(const WeightsRun& r, float share, Slope slope) {
  for (int64_t i = 0; i < r.count; i += kWidth) {
    const int64_t lanes = std::min<int64_t>(kWidth, r.count - i);
    WideVec sum{};
    for (int64_t n = 0; n < r.batch; n++) {
      const float* shift = r.shift ? r.shift + n * r.outputs : nullptr;
      const Vec g =
          slope(load_partial(r.x + n * r.x_stride + i, lanes), value_at(shift, r.per_element, i, lanes), r.epsilon);
      sum = sum + widen(splat(share) * value_at(r.factor + n * r.outputs, r.per_element, i, lanes) * g);
    }
    Vec gradient = narrow(sum);
    if (r.w) gradient = select(load_partial(r.w + i, lanes) != 0.0f, gradient, Vec{});
    store_partial(r.dw + i, r.adds ? gradient + load_partial(r.dw + i, lanes) : gradient, lanes);
  }
}

}  // namespace

const Combination& combination(Kind kind) {
  // in the order of Kind
  static constexpr Combination table[] = {
      plain_terms<kTotal>(),   any_terms<kMaskedTotal>(),  any_terms<kAbsTotal>(),   any_terms<kSquareTotal>(),
      any_terms<kLogTotal>(),  any_terms<kExpTotal>(),     any_terms<kCountTotal>(), plain_terms<kMaximum>(),
      plain_terms<kMinimum>(), any_terms<kProductTotal>(), any_terms<kAnyNonZero>(), any_terms<kAllNonZero>()};
  return table[kind];
}

int64_t find_first(const float* x, int64_t count, float value) {
  const Vec wanted = splat(value);
  const IntVec absent = wanted != wanted;
  auto here = [&](int64_t at) {
    const Vec v = load(x + at);
    return (v == wanted) | ((v != v) & absent);
  };
  int64_t i = 0;
  for (; i + 4 * kWidth <= count; i += 4 * kWidth)
    if (math::any(here(i) | here(i + kWidth) | here(i + 2 * kWidth) | here(i + 3 * kWidth))) break;
  while (i < count && !(x[i] == value || (x[i] != x[i] && value != value))) i++;
  return i;
}

void input_gradient(int function, const InputRun& run) {
  switch (function) {
    case kSumSquare:  // w x^2
    case kL2Norm:
      return input_run(run, [](Vec x, Vec w, Vec, float) { return w * x; });
    case kSumLog:  // w log(x + epsilon)
      return input_run(run, [](Vec x, Vec w, Vec, float epsilon) { return w / (x + epsilon); });
    case kL1Norm:  // w |x|
      return input_run(run, [](Vec x, Vec w, Vec, float) {
        return select(x == 0.0f, Vec{}, select(x > 0.0f, w, select(x < 0.0f, -w, x)));
      });
    case kLogSumExp:  // w exp(x - shift)
      return input_run(run, [](Vec x, Vec w, Vec shift, float) { return w * math::exp(x - shift); });
    default:  // w x
      return input_run(run, [](Vec, Vec w, Vec, float) { return w; });
  }
}

void weights_gradient(int function, const WeightsRun& run) {
  switch (function) {
    case kSumSquare:  // w x^2: the factor of the input's slope has a 2 that that of the weights' does not
    case kL2Norm:
      return weights_run(run, 0.5f, [](Vec x, Vec, float) { return x * x; });
    case kSumLog:  // w log(x + epsilon)
      return weights_run(run, 1.0f, [](Vec x, Vec, float epsilon) { return math::log(x + epsilon); });
    case kL1Norm:  // w |x|
      return weights_run(run, 1.0f, [](Vec x, Vec, float) { return math::abs(x); });
    case kLogSumExp:  // w exp(x - shift)
      return weights_run(run, 1.0f, [](Vec x, Vec shift, float) { return math::exp(x - shift); });
    default:  // w x
      return weights_run(run, 1.0f, [](Vec x, Vec, float) { return x; });
  }
}

}  // namespace reduction
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
