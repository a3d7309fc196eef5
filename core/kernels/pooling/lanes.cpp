// Pooling of small planes with any windows: kWidth planes lie side by side, one in each lane of the vectors.
//
// Tiles are those of plane_tiles.h.
#include "common/plane_tiles.h"
#include "kernels/pooling/indices.h"
#include "kernels/pooling/maximum.h"
#include "kernels/pooling/methods.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {
namespace {

constexpr int64_t kMediumPlane = 4096;              // cells of planes that are worked on side by side, at most
constexpr int64_t kSmallPlane = 2048;               // the same, even if windows overlap much
constexpr int64_t kNarrowRow = 3 * kWidth / 2;      // cells of a row, below which most of its vectors would be idle
constexpr int64_t kTinyRow = 8;                     // the same if windows overlap much
constexpr int64_t kFewWindows = 12;                 // in a row, below which methods for one kind of windows pay less
constexpr int64_t kFewPairs = std::min(8, kWidth);  // the same for 2 x 2 windows

// The windows of a plane by their cells inside it.
struct LaneWindows {
  struct Cells {
    int64_t first, count;  // of the cells of one axis that a window has; they are `dilation` apart
  };
  WindowShape shape;
  std::vector<Cells> rows, columns;  // of every row and column of windows
  std::vector<float> divisor;        // [out_height][out_width] what the sum of a window is divided by
  int64_t planes;                    // worked on together

  // Averages divide by the cells inside, or with `all_cells` by those of the whole window.
  LaneWindows(const WindowShape& shape, bool all_cells);

  int64_t in_room() const { return tile_room(shape.in_height * shape.in_width); }
  int64_t out_room() const { return tile_room(shape.out_height * shape.out_width); }
};

LaneWindows::Cells cells_of(int64_t origin, int64_t kernel, int64_t dilation, int64_t size) {
  int64_t k = 0, count = 0;
  while (k < kernel && origin + k * dilation < 0) k++;
  while (k + count < kernel && origin + (k + count) * dilation < size) count++;
  return {origin + k * dilation, count};
}

// body(window, first cell, rows of cells, cells in a row), the last window first
template <class Body>
OPENBNNS_INLINE void for_each_window(const LaneWindows& w, Body body) {
  for (int64_t r = w.shape.out_height - 1; r >= 0; r--)
    for (int64_t c = w.shape.out_width - 1; c >= 0; c--) {
      const auto rows = w.rows[static_cast<size_t>(r)], columns = w.columns[static_cast<size_t>(c)];
      const int64_t window = r * w.shape.out_width + c, first = rows.first * w.shape.in_width + columns.first;
      if (rows.count > 0 && columns.count > 0)
        body(window, first, rows.count, columns.count);
      else
        body(window, int64_t{0}, int64_t{0}, int64_t{0});
    }
}

// body(cell) for the cells of a window in their order
template <class Body>
OPENBNNS_INLINE void for_each_cell(const WindowShape& s, int64_t first, int64_t rows, int64_t columns, Body body) {
  for (int64_t y = 0; y < rows; y++)
    for (int64_t x = 0; x < columns; x++) body(first + y * s.dilation_y * s.in_width + x * s.dilation_x);
}

// The cell that wins a window, and its value.
OPENBNNS_INLINE IntVec winner_of(const WindowShape& s, const float* x, int64_t first, int64_t rows, int64_t columns,
                                 Vec& best) {
  best = load(x + first * kWidth);
  IntVec winner = splat_int(static_cast<int32_t>(first));
  for_each_cell(s, first, rows, columns, [&](int64_t cell) {
    const Vec v = load(x + cell * kWidth);
    const IntVec mask = cell == first ? IntVec{} : wins(v, best);
    best = select(mask, v, best);
    winner = mask ? splat_int(static_cast<int32_t>(cell)) : winner;
  });
  return winner;
}

LaneWindows::LaneWindows(const WindowShape& s, bool all_cells) : shape(s), planes(kWidth) {
  for (int64_t y = 0; y < s.out_height; y++)
    rows.push_back(cells_of(y * s.stride_y - s.pad_up, s.kernel_height, s.dilation_y, s.in_height));
  for (int64_t x = 0; x < s.out_width; x++)
    columns.push_back(cells_of(x * s.stride_x - s.pad_left, s.kernel_width, s.dilation_x, s.in_width));
  for (const Cells& row : rows)
    for (const Cells& column : columns) {
      const int64_t cells = all_cells ? s.kernel_height * s.kernel_width : row.count * column.count;
      divisor.push_back(static_cast<float>(std::max<int64_t>(cells, 1)));
    }
}

// y = largest cell, or average of the cells, + bias [kWidth]; 0 + bias for a window without a cell. Where the largest
// cell is, -1 for none, if `places` is given.
void pool_lanes(const LaneWindows& w, bool average, const float* x, const float* bias, float* y, int32_t* places) {
  const Vec b = load(bias);
  for_each_window(w, [&](int64_t window, int64_t first, int64_t rows, int64_t columns) {
    Vec result{};
    if (places) {
      const IntVec winner = rows > 0 ? winner_of(w.shape, x, first, rows, columns, result) : splat_int(-1);
      store_int(places + window * kWidth, winner);
    } else {
      if (rows > 0 && !average) result = load(x + first * kWidth);
      for_each_cell(w.shape, first, rows, columns, [&](int64_t cell) {
        const Vec v = load(x + cell * kWidth);
        result = average ? result + v : larger(result, v);
      });
      if (average) result /= splat(w.divisor[static_cast<size_t>(window)]);
    }
    store(y + window * kWidth, result + b);
  });
}

// y = sum of x / divisor: dx += dz / divisor
void spread_lanes(const LaneWindows& w, const float* dz, float* dx) {
  for_each_window(w, [&](int64_t window, int64_t first, int64_t rows, int64_t columns) {
    if (rows == 0) return;
    const Vec gradient = load(dz + window * kWidth) / splat(w.divisor[static_cast<size_t>(window)]);
    for_each_cell(w.shape, first, rows, columns, [&](int64_t cell) {
      float* to = dx + cell * kWidth;
      store(to, load(to) + gradient);
    });
  });
}

class Lanes final : public Method {
 public:
  explicit Lanes(const Problem& p)
      : Method(p), windows_(p.geometry.shape, p.shape.function == kAverageIncludingPadding) {}

  // Planes small enough to be worked on side by side, where other methods leave too many lanes idle.
  static bool fits(const Problem& p, Use use) {
    const PoolingShape& s = p.shape;
    if (!kGathers || !is_separable(p) || p.geometry.taps.count() != p.cells || s.channels < kWidth / 2 ||
        p.in_plane() > kMediumPlane)
      return false;
    if (has_pairs(p)) return s.out_width < kFewPairs;
    if (has_triples(p)) return s.out_width < kFewWindows;
    // Two passes share the cells of windows that overlap; there, side by side, every window meets its own again.
    const int64_t narrow = s.stride_x == 1 ? kTinyRow : p.cells > 16 ? std::min(kNarrowRow, kFewWindows) : kNarrowRow;
    if (s.in_width < narrow) return true;
    // To pick the winners of strided windows takes more than to put the planes side by side, if these fill the lanes,
    // unless planes are large and windows overlap so much that two passes compare far fewer cells.
    const bool filled = 4 * s.channels >= 3 * round_up(s.channels, kWidth);
    const int64_t in_two_passes = s.kernel_width * s.stride_y + s.kernel_height;
    const bool strided = s.stride_x > 1 && (p.in_plane() <= kSmallPlane || 2 * p.cells <= 3 * in_two_passes);
    return s.function == kMax && use != Use::kValues && filled &&
           (strided || (s.stride_x == 1 && s.in_width < 2 * kFewWindows && p.cells <= 16));
  }

  int64_t planes() const override { return windows_.planes; }

  Scratch scratch(Use use) const override {
    Scratch work;
    work.x = float_scratch(kInputBand, windows_.in_room());
    work.gradient = float_scratch(kGradientBand, windows_.out_room());
    work.gather = float_scratch(kPatches, std::max(windows_.in_room(), windows_.out_room()));
    work.winner = winner_scratch(planes() * p_.out_plane());
    if (use == Use::kGradient) work.plane = float_scratch(kOutputTile, p_.in_plane());
    return work;
  }

  void forward(const Scratch& work, const ForwardPlanes& f) const override {
    float bias[kWidth] = {};
    if (f.bias) std::copy_n(f.bias, f.count, bias);
    tile_planes(f.x, f.count, p_.in_plane(), work.x);
    float* places = f.index ? work.gather : nullptr;  // integers
    pool_lanes(windows_, p_.is_average(), work.x, bias, work.gradient, reinterpret_cast<int32_t*>(places));
    untile_planes(work.gradient, f.count, p_.out_plane(), f.y, false);
    if (!f.index) return;
    untile_planes(places, f.count, p_.out_plane(), reinterpret_cast<float*>(work.winner), false);
    write_places(f.index, work.winner, f.count * p_.out_plane());
  }

  void backward(const Scratch& work, const BackwardPlanes& b) const override {
    if (p_.is_average()) {
      std::fill_n(work.gather, windows_.in_room(), 0.0f);
      tile_planes(b.dz, b.count, p_.out_plane(), work.gradient);
      spread_lanes(windows_, work.gradient, work.gather);
      return untile_planes(work.gather, b.count, p_.in_plane(), b.dx, b.adds);
    }
    const float bias[kWidth] = {};
    tile_planes(b.x, b.count, p_.in_plane(), work.x);
    pool_lanes(windows_, false, work.x, bias, work.gradient, reinterpret_cast<int32_t*>(work.gather));
    untile_planes(work.gather, b.count, p_.out_plane(), reinterpret_cast<float*>(work.winner), false);
    for (int64_t i = 0; i < b.count; i++)
      scatter_places(p_, work.winner + i * p_.out_plane(), b.plane(p_, i), work.plane);
  }

 private:
  const LaneWindows windows_;
};

}  // namespace

const MethodEntry kLanes = entry_of<Lanes>();

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
