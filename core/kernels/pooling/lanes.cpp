#include "kernels/pooling/lanes.h"

#include "kernels/pooling/maximum.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {
namespace {

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

}  // namespace

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

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
