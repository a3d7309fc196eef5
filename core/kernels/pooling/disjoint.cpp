// Norms of windows that share no cells and lie inside the plane, directly from and to the caller's memory: tables
// locate the cells, so that a vector holds windows of several rows, and of several planes if these are small.
//
// x, dx: [planes][height][width]; y, dz: [planes][out_height][out_width], all packed.
#include <limits>

#include "kernels/pooling/maximum.h"
#include "kernels/pooling/methods.h"
#include "simd/lanes.h"
#include "simd/math.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {
namespace {

constexpr int64_t kUnitWindows = 64;       // about as many in a unit, so that few lanes of its last vector are idle
constexpr int64_t kUnitCells = 2048;       // at most, if planes are small: the tables stay in the first cache
constexpr int64_t kLargestUnit = 1 << 18;  // cells: few windows in a huge plane do not deserve tables of its size

// A unit is what is processed at a time: some whole planes, or some rows of windows of one plane. All positions are
// counted from the first cell and the first window of the unit; the tables are padded to whole vectors.
struct DisjointWindows {
  WindowShape shape;
  int64_t planes, rows;            // of windows in each plane
  int64_t windows = 0, cells = 0;  // of a full unit
  std::vector<int32_t> start;      // [windows] first cell of a window
  std::vector<int32_t> distance;   // [taps] of a tap from the first cell
  std::vector<int32_t> window;  // [cells] that a cell belongs to; counted from `base` of its vector if that is not -1
  std::vector<int32_t> tap;     // [cells] which of the window's taps it is; -1: no window has it
  std::vector<int32_t> base;    // [vectors of cells]

  static bool fits(const WindowShape& shape);
  [[gnu::cold]] DisjointWindows(const WindowShape& shape, int64_t channels);

  bool whole_planes() const { return rows == shape.out_height; }
  // For `count` planes: body(first cell, first window, cells, windows) of every unit.
  template <class Body>
  void for_each_unit(int64_t count, Body body) const {
    const int64_t in_plane = shape.in_height * shape.in_width, out_plane = shape.out_height * shape.out_width;
    if (whole_planes()) return body(int64_t{0}, int64_t{0}, count * in_plane, count * out_plane);
    for (int64_t r = 0; r < shape.out_height; r += rows) {
      int64_t done = std::min(rows, shape.out_height - r), first = r * shape.stride_y;
      int64_t height = std::min(done * shape.stride_y, shape.in_height - first);
      body(first * shape.in_width, r * shape.out_width, height * shape.in_width, done * shape.out_width);
    }
  }
  // Cells of a plane after those of the last unit: no window has them.
  int64_t cells_in_units() const {
    return whole_planes() ? shape.in_height * shape.in_width
                          : std::min(shape.out_height * shape.stride_y, shape.in_height) * shape.in_width;
  }
};

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

// y = square root of the sum of squares + bias for `count` windows of a unit; bias: null, or [count]
void norm_disjoint(const DisjointWindows& unit, const float* x, int64_t count, const float* bias, float* y) {
  for_each_vector(unit, count, [&](int64_t j, IntVec start) {
    write(y, bias, j, count, math::sqrt(sum_taps(unit, x, start, [](Vec v) { return v * v; })));
  });
}

// dx = (or +=) x * gradient of the window; gradient: room for one vector more than windows
void spread_disjoint(const DisjointWindows& unit, const float* gradient, const float* x, int64_t cells, float* dx,
                     bool adds) {
  for (int64_t i = 0; i < cells; i += kWidth) {
    const Vec value = keep_where(load_int(unit.tap.data() + i) >= 0, of_windows(unit, gradient, i));
    put(dx + i, value * load_first(x + i, cells - i), cells - i, adds);
  }
}

class Disjoint final : public Method {
 public:
  explicit Disjoint(const Problem& p) : Method(p), windows_(p.geometry.shape, p.shape.channels) {}

  // Small planes, or few windows in a row where nothing gathers.
  static bool fits(const Problem& p, Use) {
    if (p.shape.function != kL2Norm || !DisjointWindows::fits(p.geometry.shape)) return false;
    return (kGathers || p.shape.out_width < kWidth) && !(p.covers_plane() && p.in_plane() >= kWidth);
  }

  int64_t planes() const override { return windows_.planes; }

  Scratch scratch(Use) const override {
    Scratch work;
    work.gradient = float_scratch(kGradientBand, std::max(windows_.windows + kWidth, planes() * p_.out_plane()));
    return work;
  }

  void forward(const Scratch& work, const ForwardPlanes& f) const override {
    float* bias = f.bias ? work.gradient : nullptr;  // of every window
    for (int64_t p = 0; bias && p < f.count; p++) std::fill_n(bias + p * p_.out_plane(), p_.out_plane(), f.bias[p]);
    windows_.for_each_unit(f.count, [&](int64_t cell, int64_t window, int64_t, int64_t windows) {
      norm_disjoint(windows_, f.x + cell, windows, bias ? bias + window : nullptr, f.y + window);
    });
  }

  // A cell belongs to one window at most, and gets x * dz / norm of that one.
  void backward(const Scratch& work, const BackwardPlanes& b) const override {
    windows_.for_each_unit(b.count, [&](int64_t cell, int64_t window, int64_t cells, int64_t windows) {
      const float *x = b.x + cell, *dz = b.dz + window;
      float* shares = work.gradient;
      norm_disjoint(windows_, x, windows, nullptr, shares);
      for (int64_t i = 0; i < windows; i++) shares[i] = shares[i] == 0 ? 0 : dz[i] / shares[i];
      spread_disjoint(windows_, shares, x, cells, b.dx + cell, b.adds);
    });
    if (!b.adds) std::fill(b.dx + windows_.cells_in_units(), b.dx + p_.in_plane(), 0.0f);
  }

 private:
  const DisjointWindows windows_;
};

}  // namespace

const MethodEntry kDisjoint = entry_of<Disjoint>();

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
