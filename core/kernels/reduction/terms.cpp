#include "kernels/reduction/terms.h"

#include <algorithm>
#include <limits>

#include "simd/lanes.h"
#include "simd/math.h"
#include "simd/stream.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace reduction {
namespace {

enum Combine { kAdd, kLargest, kSmallest, kMultiply };

OPENBNNS_INLINE WideVec operator*(WideVec a, WideVec b) { return {a.low * b.low, a.high * b.high}; }

OPENBNNS_INLINE Vec one_where(IntVec mask) { return select(mask, splat(1.0f), Vec{}); }

// Terms that need no function of their own; the others are mapped to those first.
template <Kind kKind>
OPENBNNS_INLINE WideVec term(Vec x, Vec w) {
  switch (kKind) {
    case kTotal:
      return widen(x) * widen(w);
    case kMaskedTotal:
      return widen(select(w != 0.0f, x, Vec{})) * widen(w);
    case kSquareTotal:
      return widen(x) * widen(x) * widen(w);
    case kCountTotal:
      return widen(one_where(w != 0.0f));
    default:
      return widen(x);
  }
}

template <Kind kKind>
constexpr Combine combine_of() {
  return kKind == kMaximum ? kLargest : kKind == kMinimum ? kSmallest : kKind == kProductTotal ? kMultiply : kAdd;
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
double close_values(const double* values, int64_t count) {
  double total = start<kCombine>();
  for (int64_t i = 0; i < count; i++) total = combine<kCombine>(total, values[i]);
  return total;
}
template <Combine kCombine>
OPENBNNS_INLINE WideVec combine_wide(WideVec total, WideVec t) {
  return {combine<kCombine>(total.low, t.low), combine<kCombine>(total.high, t.high)};
}
template <Combine kCombine>
void merge_totals(double* total, const double* other, int64_t count) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth)
    store_wide(total + i, combine_wide<kCombine>(load_wide(total + i), load_wide(other + i)));
  for (; i < count; i++) total[i] = combine<kCombine>(total[i], other[i]);
}

// The terms of `lanes` elements; those beyond are without effect.
template <Kind kKind>
OPENBNNS_INLINE WideVec terms_at(const float* x, const float* w, int64_t lanes) {
  const Vec weight = w ? load_partial(w, lanes) : splat(1.0f);
  const WideVec t = term<kKind>(kKind == kCountTotal ? Vec{} : load_partial(x, lanes), weight);
  if (combine_of<kKind>() == kAdd || lanes == kWidth) return t;  // sums: those of 0 are 0
  double lane[kWidth];
  store_wide(lane, t);
  for (int64_t l = lanes; l < kWidth; l++) lane[l] = start<combine_of<kKind>()>();
  return load_wide(lane);
}

template <Kind kKind>
double any_row(const float* x, const float* w, int64_t count) {
  constexpr Combine kCombine = combine_of<kKind>();
  WideVec total{start<kCombine>() - DoubleVec{}, start<kCombine>() - DoubleVec{}};
  for (int64_t i = 0; i < count; i += kWidth)
    total = combine_wide<kCombine>(
        total, terms_at<kKind>(x ? x + i : nullptr, w ? w + i : nullptr, std::min<int64_t>(kWidth, count - i)));
  if (kCombine == kAdd) return total_of_lanes(total);
  double lanes[kWidth];
  store_wide(lanes, total);
  return close_values<kCombine>(lanes, kWidth);
}

// ---- plain sums and extremes: in float where that loses nothing that counts ----

template <Kind kKind>
constexpr bool in_float() {
  return kKind == kTotal || kKind == kMaximum || kKind == kMinimum;
}
// Whether NaN has to be looked for: sums have it anyway.
template <Kind kKind>
constexpr bool is_watched() {
  return kKind == kMaximum || kKind == kMinimum;
}

template <Combine kCombine>
OPENBNNS_INLINE Vec start_vector() {
  return splat(static_cast<float>(start<kCombine>()));
}
// An extreme that passes over NaN.
template <Combine kCombine>
OPENBNNS_INLINE Vec merge(Vec total, Vec x) {
  return kCombine == kLargest ? math::max(x, total) : kCombine == kSmallest ? math::min(x, total) : total + x;
}
template <Combine kCombine, int kParts>
OPENBNNS_INLINE Vec close_parts(Vec (&part)[kParts]) {
  OPENBNNS_UNROLL for (int half = kParts / 2; half > 0; half /= 2) OPENBNNS_UNROLL for (int p = 0; p < half; p++)
      part[p] = merge<kCombine>(part[p], part[p + half]);
  return part[0];
}
OPENBNNS_INLINE Vec load_lanes(const float* x, int64_t lanes) {
  return lanes == kWidth ? load(x) : load_partial(x, lanes);
}

// What a row holds so far: `sum` for sums, which are closed in double, else `best`.
struct RowState {
  Vec best;
  NanWatch watch;
  WideVec sum;
};

constexpr int kParts = 8;
constexpr int64_t kStep = kParts * kWidth;

// The whole steps of a row. Sums: eight vectors of partial sums over 16 vectors each. Number of elements done.
template <Kind kKind>
OPENBNNS_INLINE int64_t add_steps(RowState& state, const float* x, int64_t count) {
  constexpr Combine kCombine = combine_of<kKind>();
  int64_t i = 0;
  NanWatch watch[kParts / 2];
  while (i + kStep <= count) {
    const int64_t end = kCombine == kAdd ? std::min(count, i + 16 * kStep) : count;
    Vec part[kParts];
    OPENBNNS_UNROLL for (int p = 0; p < kParts; p++) part[p] = start_vector<kCombine>();
    for (; i + kStep <= end; i += kStep) OPENBNNS_UNROLL for (int p = 0; p < kParts; p += 2) {
        const Vec a = load(x + i + p * kWidth), b = load(x + i + (p + 1) * kWidth);
        part[p] = merge<kCombine>(part[p], a);
        part[p + 1] = merge<kCombine>(part[p + 1], b);
        if (is_watched<kKind>()) watch[p / 2].see(a, b);
      }
    const Vec all = close_parts<kCombine>(part);
    if (kCombine == kAdd)
      state.sum = state.sum + widen(all);
    else
      state.best = all;
  }
  OPENBNNS_UNROLL for (int p = 0; p < kParts / 2; p++) state.watch.see(watch[p]);
  return i;
}

template <Kind kKind>
OPENBNNS_INLINE double plain_row(const float* x, int64_t count) {
  constexpr Combine kCombine = combine_of<kKind>();
  RowState state{start_vector<kCombine>(), {}, {}};
  int64_t i = 0;
  if (count >= kStep) i = add_steps<kKind>(state, x, count);
  Vec last = start_vector<kCombine>();  // apart from `best`, so that neither waits for the other
  const int64_t rest = (count - i) % kWidth;
  if (rest > 0) {
    last = load_partial(x + count - rest, rest);
    if (is_watched<kKind>()) state.watch.see(last, last);
    if (kCombine != kAdd) last = select(first_lanes(rest), last, start_vector<kCombine>());
  }
  for (; i + kWidth <= count; i += kWidth) {
    const Vec a = load(x + i);
    state.best = merge<kCombine>(state.best, a);
    if (is_watched<kKind>()) state.watch.see(a, a);
  }
  state.best = merge<kCombine>(state.best, last);
  if (kCombine == kAdd) return total_of_lanes(state.sum + widen(state.best));
  if (is_watched<kKind>() && state.watch.any()) return math::kNaN;
  return kCombine == kLargest ? largest_lane(state.best) : -largest_lane(-state.best);
}

template <Kind kKind>
void whole_rows(double* to, const float* x, const float* w, int64_t rows, int64_t step, int64_t count) {
  if constexpr (in_float<kKind>())
    if (kKind != kTotal || !w) {
      for (int64_t r = 0; r < rows; r++) to[r] = plain_row<kKind>(x + r * step, count);
      return;
    }
  if constexpr (!is_watched<kKind>())
    for (int64_t r = 0; r < rows; r++)
      to[r] = any_row<kKind>(x ? x + r * step : nullptr, w ? w + r * step : nullptr, count);
}

// kTile vectors of columns; of a single one, the first `lanes` alone. 16 rows at a time are combined in float.
template <Kind kKind, int kTile>
OPENBNNS_INLINE void add_tile(double* total, const float* x, int64_t rows, int64_t step, int64_t lanes) {
  constexpr Combine kCombine = combine_of<kKind>();
  auto at = [&](int64_t r, int t) {
    return kTile == 1 ? load_lanes(x + r * step, lanes) : load(x + r * step + t * kWidth);
  };
  for (int64_t r = 0; r < rows;) {
    const int64_t end = std::min(rows, r + 16);
    Vec part[kTile];
    NanWatch watch[kTile];
    OPENBNNS_UNROLL for (int t = 0; t < kTile; t++) part[t] = start_vector<kCombine>();
    for (; r + 2 <= end; r += 2) OPENBNNS_UNROLL for (int t = 0; t < kTile; t++) {
        const Vec a = at(r, t), b = at(r + 1, t);
        part[t] = merge<kCombine>(part[t], merge<kCombine>(a, b));
        if (is_watched<kKind>()) watch[t].see(a, b);
      }
    if (r < end) {
      OPENBNNS_UNROLL for (int t = 0; t < kTile; t++) {
        const Vec a = at(r, t);
        part[t] = merge<kCombine>(part[t], a);
        if (is_watched<kKind>()) watch[t].see(a, a);
      }
      r++;
    }
    OPENBNNS_UNROLL for (int t = 0; t < kTile; t++) {
      const WideVec all = widen(is_watched<kKind>() ? watch[t].marked(part[t]) : part[t]);
      store_wide(total + t * kWidth, combine_wide<kCombine>(load_wide(total + t * kWidth), all));
    }
  }
}

template <Kind kKind>
void add_columns(double* total, const float* x, const float* w, int64_t rows, int64_t step, int64_t count) {
  constexpr int kTile = 4;
  int64_t i = 0;
  if constexpr (in_float<kKind>())
    if (kKind != kTotal || !w) {
      for (; i + kTile * kWidth <= count; i += kTile * kWidth) add_tile<kKind, kTile>(total + i, x + i, rows, step, 0);
      for (; i < count; i += kWidth)
        add_tile<kKind, 1>(total + i, x + i, rows, step, std::min<int64_t>(kWidth, count - i));
    }
  if constexpr (!is_watched<kKind>())
    for (; i < count; i += kWidth) {
      WideVec sum = load_wide(total + i);
      for (int64_t r = 0; r < rows; r++)
        sum = combine_wide<combine_of<kKind>()>(
            sum, terms_at<kKind>(x ? x + r * step + i : nullptr, w ? w + r * step + i : nullptr,
                                 std::min<int64_t>(kWidth, count - i)));
      store_wide(total + i, sum);
    }
}

template <Kind kKind>
constexpr Combination terms(Kind mapped = kKind) {
  constexpr Combine kCombine = combine_of<kKind>();
  return {
      mapped, start<kCombine>(), close_values<kCombine>, merge_totals<kCombine>, whole_rows<kKind>, add_columns<kKind>};
}

// ---- terms that are functions of x: computed piece by piece, then combined like x itself ----

// to[i] = function of x[i]; there is room for a whole vector behind the last.
template <class Function>
OPENBNNS_INLINE void map(float* to, const float* x, int64_t count, Function function) {
  for (int64_t i = 0; i < count; i += kWidth)
    store(to + i, function(load_lanes(x + i, std::min<int64_t>(kWidth, count - i)), i));
}

// The exponents have one shift for all, or one for each: from `first` on.
void map_terms(Kind kind, float* to, const float* x, const float* shift, int64_t first, bool shifted_alike,
               int64_t count, float epsilon) {
  switch (kind) {
    case kAbsTotal:
      return map(to, x, count, [](Vec v, int64_t) { return math::abs(v); });
    case kLogTotal:
      return map(to, x, count, [&](Vec v, int64_t) { return math::log(v + epsilon); });
    case kExpTotal: {
      if (shifted_alike) {
        const Vec s = splat(shift[first]);
        return map(to, x, count, [&](Vec v, int64_t) { return math::exp(v - s); });
      }
      return map(to, x, count, [&](Vec v, int64_t i) {
        return math::exp(v - load_lanes(shift + first + i, std::min<int64_t>(kWidth, count - i)));
      });
    }
    default:
      return map(to, x, count, [](Vec v, int64_t) { return one_where(v != 0.0f); });
  }
}

constexpr int64_t kMapped = 512;  // elements at a time: they stay in the first cache

}  // namespace

void Combination::rows(const Terms& t, double* to, int64_t rows, int64_t step, int64_t count) const {
  if (!is_mapped()) return whole_rows_(to, t.x, t.w, rows, step, count);
  for (int64_t r = 0; r < rows; r++) {
    float values[kMapped + kWidth];
    double pair[2] = {start, start};
    for (int64_t i = 0; i < count; i += kMapped) {
      const int64_t place = r * step + i, size = std::min(kMapped, count - i);
      map_terms(kind, values, t.x + place, t.shift, t.shift_per_row ? r : 0, true, size, t.epsilon);
      whole_rows_(pair + 1, values, t.w ? t.w + place : nullptr, 1, 0, size);
      pair[0] = close(pair, 2);
    }
    to[r] = pair[0];
  }
}

void Combination::columns(const Terms& t, double* total, int64_t rows, int64_t step, int64_t count) const {
  if (!is_mapped()) return add_columns_(total, t.x, t.w, rows, step, count);
  constexpr int64_t kColumns = kMapped / kParts;
  for (int64_t i = 0; i < count; i += kColumns) {
    const int64_t wide = std::min(kColumns, count - i), together = t.w ? 1 : kParts;
    for (int64_t r = 0; r < rows; r += together) {
      float values[kMapped + kWidth];
      const int64_t place = r * step + i, size = std::min(together, rows - r);
      for (int64_t k = 0; k < size; k++)
        map_terms(kind, values + k * kColumns, t.x + place + k * step, t.shift, i, false, wide, t.epsilon);
      add_columns_(total + i, values, t.w ? t.w + place : nullptr, size, kColumns, wide);
    }
  }
}

namespace {

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
      terms<kTotal>(),          terms<kMaskedTotal>(),    terms<kTotal>(kAbsTotal),     terms<kSquareTotal>(),
      terms<kTotal>(kLogTotal), terms<kTotal>(kExpTotal), terms<kCountTotal>(),         terms<kMaximum>(),
      terms<kMinimum>(),        terms<kProductTotal>(),   terms<kMaximum>(kAnyNonZero), terms<kMinimum>(kAllNonZero)};
  return table[kind];
}

int64_t find_first(const float* x, int64_t count, float value) {
  const Vec wanted = splat(value);
  const IntVec absent = wanted != wanted;
  auto here = [&](Vec v) { return (v == wanted) | ((v != v) & absent); };
  int64_t i = 0;
  for (; i + 4 * kWidth <= count; i += 4 * kWidth)
    if (math::any(here(load(x + i)) | here(load(x + i + kWidth)) | here(load(x + i + 2 * kWidth)) |
                  here(load(x + i + 3 * kWidth))))
      break;
  for (; i < count; i += kWidth) {
    const IntVec found = here(load_lanes(x + i, std::min<int64_t>(kWidth, count - i)));
    if (math::any(found)) return std::min(count, i + first_lane(found));
  }
  return count;
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
