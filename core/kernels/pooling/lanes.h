// Pooling of small planes with any windows: kWidth planes lie side by side, one in each lane of the vectors.
//
// Tiles are those of plane_tiles.h.
#pragma once
#include "common/plane_tiles.h"
#include "common/windows.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {

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

// y = largest cell, or average of the cells, + bias [kWidth]; 0 + bias for a window without a cell. Where the largest
// cell is, -1 for none, if `places` is given.
void pool_lanes(const LaneWindows& windows, bool average, const float* x, const float* bias, float* y, int32_t* places);

// Averages: dx += dz / divisor for all cells of a window
void spread_lanes(const LaneWindows& windows, const float* dz, float* dx);

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
