// Pooling with windows that share no cells and lie inside the plane, directly from and to the caller's memory: tables
// locate the cells, so that a vector holds windows of several rows, and of several planes if these are small.
//
// x, dx: [planes][height][width]; y, dz: [planes][out_height][out_width], all packed.
#pragma once
#include "common/windows.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {

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

// y = square root of the sum of squares + bias for `count` windows of a unit; bias: null, or [count]
void norm_disjoint(const DisjointWindows& unit, const float* x, int64_t count, const float* bias, float* y);
// dx = (or +=) x * gradient of the window; gradient: room for one vector more than windows
void spread_disjoint(const DisjointWindows& unit, const float* gradient, const float* x, int64_t cells, float* dx,
                     bool adds);

// One window over the whole plane: its largest cell, and the place of the cell that wins.
float max_of_plane(const float* x, int64_t count);
int64_t winner_of_plane(const float* x, int64_t count);

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
