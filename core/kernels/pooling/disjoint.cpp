#include "kernels/pooling/disjoint.h"

#include <limits>

#include "kernels/pooling/maximum.h"
#include "simd/lanes.h"
#include "simd/math.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {
namespace {

constexpr int64_t kUnitWindows = 64;       // about as many in a unit, so that few lanes of its last vector are idle
constexpr int64_t kUnitCells = 2048;       // at most, if planes are small: the tables stay in the first cache
constexpr int64_t kLargestUnit = 1 << 18;  // cells: few windows in a huge plane do not deserve tables of its size

OPENBNNS_INLINE Vec load_first(const float* p, int64_t count) {
  return count >= kWidth ? load(p) : load_partial(p, count);
}
OPENBNNS_INLINE void store_first(float* p, Vec v, int64_t count) {
  if (count >= kWidth)
    store(p, v);
  else
    store_partial(p, v, count);
}

// body(first window, starts of kWidth windows); those beyond `count` read the cells of the first one.
template <class Body>
OPENBNNS_INLINE void for_each_vector(const DisjointWindows& unit, int64_t count, Body body) {
  for (int64_t j = 0; j < count; j += kWidth) {
    IntVec start = load_int(unit.start.data() + j);
    if (count - j < kWidth) start = first_lanes(count - j) ? start : IntVec{};
    body(j, start);
  }
}

OPENBNNS_INLINE void write(float* y, const float* bias, int64_t j, int64_t count, Vec v) {
  store_first(y + j, v + (bias ? load_first(bias + j, count - j) : Vec{}), count - j);
}

// Sum over taps of term(cell), in two chains as for all windows.
template <class Term>
OPENBNNS_INLINE Vec sum_taps(const DisjointWindows& unit, const float* x, IntVec start, Term term) {
  const int32_t* distance = unit.distance.data();
  const size_t count = unit.distance.size();
  Vec sum{}, other{};
  size_t t = 0;
  for (; t + 1 < count; t += 2) {
    sum += term(gathered(x + distance[t], start));
    other += term(gathered(x + distance[t + 1], start));
  }
  if (t < count) sum += term(gathered(x + distance[t], start));
  return sum + other;
}

// values[window] of the kWidth cells from i on
OPENBNNS_INLINE Vec of_windows(const DisjointWindows& unit, const float* values, int64_t i) {
  const int32_t base = unit.base[static_cast<size_t>(i / kWidth)];
  const IntVec window = load_int(unit.window.data() + i);
  return base >= 0 ? permuted(load(values + base), window) : gathered(values, window);
}

OPENBNNS_INLINE void put(float* dx, Vec gradient, int64_t count, bool adds) {
  store_first(dx, adds ? load_first(dx, count) + gradient : gradient, count);
}

// Rows of windows in a unit, and rows of cells: all of a plane that is small or has few windows.
int64_t unit_rows(const WindowShape& s) {
  if (s.in_height * s.in_width <= kUnitCells) return s.out_height;
  return std::min(s.out_height, (kUnitWindows + s.out_width - 1) / s.out_width);
}
int64_t unit_height(const WindowShape& s) {
  int64_t rows = unit_rows(s);
  return rows == s.out_height ? s.in_height : std::min(s.in_height, rows * s.stride_y);
}

// Where one vector holds all windows of the kWidth cells from i on, counts them from its first.
int32_t take_base(int32_t* window, const int32_t* tap) {
  int32_t low = std::numeric_limits<int32_t>::max(), high = 0;
  for (int k = 0; k < kWidth; k++) {
    if (tap[k] < 0) continue;
    low = std::min(low, window[k]);
    high = std::max(high, window[k]);
  }
  if (low > high) return 0;  // no windows at all
  if (high - low >= kWidth) return -1;
  for (int k = 0; k < kWidth; k++) window[k] = tap[k] < 0 ? 0 : window[k] - low;
  return low;
}

OPENBNNS_INLINE float max_lanes(Vec v) {
  OPENBNNS_UNROLL for (int half = kWidth / 2; half > 0; half /= 2) v =
      larger(v, permuted(v, (lane_numbers() + half) & (kWidth - 1)));
  return v[0];
}

}  // namespace

bool DisjointWindows::fits(const WindowShape& s) {
  const int64_t tall = (s.kernel_height - 1) * s.dilation_y + 1, wide = (s.kernel_width - 1) * s.dilation_x + 1;
  return s.pad_up == 0 && s.pad_left == 0 && (s.stride_y >= tall || s.out_height == 1) &&
         (s.stride_x >= wide || s.out_width == 1) && s.out_height > 0 && s.out_width > 0 &&
         (s.out_height - 1) * s.stride_y + tall <= s.in_height && (s.out_width - 1) * s.stride_x + wide <= s.in_width &&
         unit_height(s) * s.in_width <= kLargestUnit;
}

DisjointWindows::DisjointWindows(const WindowShape& s, int64_t channels) : shape(s), planes(1), rows(unit_rows(s)) {
  const int64_t in_plane = s.in_height * s.in_width, out_plane = s.out_height * s.out_width;
  const int64_t height = unit_height(s);  // in each plane
  if (in_plane <= kUnitCells)
    planes = std::max<int64_t>(1, std::min({channels, kUnitWindows / out_plane, kUnitCells / in_plane}));
  for (int64_t ky = 0; ky < s.kernel_height; ky++)
    for (int64_t kx = 0; kx < s.kernel_width; kx++)
      distance.push_back(static_cast<int32_t>(ky * s.dilation_y * s.in_width + kx * s.dilation_x));
  windows = planes * rows * s.out_width;
  cells = planes * height * s.in_width;
  start.resize(static_cast<size_t>(round_up(windows, kWidth)));
  window.resize(static_cast<size_t>(round_up(cells, kWidth)));
  tap.resize(window.size(), -1);
  for (int64_t w = 0; w < windows; w++) {
    int64_t plane = w / (rows * s.out_width), r = w / s.out_width % rows, c = w % s.out_width;
    int64_t first = (plane * height + r * s.stride_y) * s.in_width + c * s.stride_x;
    start[static_cast<size_t>(w)] = static_cast<int32_t>(first);
    for (size_t t = 0; t < distance.size(); t++) {
      window[static_cast<size_t>(first + distance[t])] = static_cast<int32_t>(w);
      tap[static_cast<size_t>(first + distance[t])] = static_cast<int32_t>(t);
    }
  }
  for (size_t i = 0; i < window.size(); i += kWidth) base.push_back(take_base(window.data() + i, tap.data() + i));
}

void norm_disjoint(const DisjointWindows& unit, const float* x, int64_t count, const float* bias, float* y) {
  for_each_vector(unit, count, [&](int64_t j, IntVec start) {
    write(y, bias, j, count, math::sqrt(sum_taps(unit, x, start, [](Vec v) { return v * v; })));
  });
}

void spread_disjoint(const DisjointWindows& unit, const float* gradient, const float* x, int64_t cells, float* dx,
                     bool adds) {
  for (int64_t i = 0; i < cells; i += kWidth) {
    const Vec value = keep_where(load_int(unit.tap.data() + i) >= 0, of_windows(unit, gradient, i));
    put(dx + i, value * load_first(x + i, cells - i), cells - i, adds);
  }
}

float max_of_plane(const float* x, int64_t count) {
  if (count < kWidth) {
    float best = x[0];
    for (int64_t i = 1; i < count; i++)
      if (x[i] > best || x[i] != x[i]) best = x[i];
    return best;
  }
  // the last vector meets cells again, which does not change the maximum
  Vec best = load(x + count - kWidth), other = load(x);
  int64_t i = kWidth;
  for (; i + 2 * kWidth <= count; i += 2 * kWidth) {
    best = larger(best, load(x + i));
    other = larger(other, load(x + i + kWidth));
  }
  if (i + kWidth <= count) best = larger(best, load(x + i));
  return max_lanes(larger(best, other));
}

int64_t winner_of_plane(const float* x, int64_t count) {
  const float best = max_of_plane(x, count);
  if (best != best) {
    int64_t i = count - 1;  // the last NaN
    while (x[i] == x[i]) i--;
    return i;
  }
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    IntVec equal = load(x + i) == splat(best);
    if (math::any(equal)) return i + first_lane(equal);
  }
  if (count < kWidth) {
    while (x[i] != best) i++;
    return i;
  }
  i = count - kWidth;  // none of the cells met again is equal
  return i + first_lane(load(x + i) == splat(best));
}

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
