// Pooling of one plane in two passes, along its columns and along its rows: windows of k x k cells cost 2 k steps each.
// Cells are read from the caller's rows, without a bordered copy of the plane.
//
// Windows along a row are taken for every column first, at unit stride; then the lanes of those that exist are picked.
#pragma once
#include "common/windows.h"
#include "kernels/pooling/windows.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {

struct SeparableWindows {
  WindowShape shape;
  std::vector<int32_t> pick;    // [stride_x][kWidth] lane in that one of stride_x vectors; -1: in another
  std::vector<int32_t> spread;  // [stride_x][kWidth] window of a cell after that of the first, by the first's remainder
  std::vector<int32_t> also;    // [stride_x][kWidth] whether one more window before `shared` ones has the cell
  int64_t shared;               // windows of a row that every cell has
  std::vector<int32_t> first;   // [windows that begin before the plane] distance to the first tap that is inside
  struct Range {
    int64_t first, end;
  };
  std::vector<Range> cells;    // [out_height] rows of cells of a row of windows: first, first + dilation_y, ...
  std::vector<Range> windows;  // [in_height] rows of windows that have a row of cells; only without dilation
  struct Start {
    int64_t window, remainder;
  };
  std::vector<Start> starts;  // [vectors of a row of cells] last window of the first cell, and row of `spread`
  int64_t pitch;              // floats of a row with borders
  int64_t left;               // windows before the first one in a row of gradients, which are zero
  int64_t gradient_pitch;
  int64_t live_rows;     // of cells kept for the windows that have them; a power of two
  int64_t live_windows;  // rows of windows kept for the cells that they have; a power of two

  static bool fits(const WindowShape& shape);
  [[gnu::cold]] explicit SeparableWindows(const WindowShape& shape);

  int64_t values_room() const { return kBand * pitch; }  // floats
  int64_t winners_room() const { return kBand * pitch + 2 * live_rows * winners_pitch(); }
  int64_t spread_room() const { return kBand * gradient_pitch + live_windows * round_up(shape.in_width, kWidth); }

  // Rows that are worked on before what they give is read again, so that no read waits for a write.
  static constexpr int64_t kBand = 16;
  int64_t winners_pitch() const { return round_up(shape.out_width, kWidth); }
  // Rows at the start of `room` whose borders the passes leave as they are.
  int64_t borders_room(bool gradients) const { return kBand * (gradients ? gradient_pitch : pitch); }
};

// The borders of `room` hold minus infinity for the largest cells and 0 for averages and gradients.
//
// y = largest cell + bias; minus infinity + bias for a window without a cell. room: values_room()
void max_separable(const SeparableWindows& windows, const float* x, float bias, float* y, float* room);
// The same if y is given, and the place of the cell that wins; of no meaning for a window without a cell. place:
// [out_height][out_width] and room for one vector more. room: winners_room()
void winners_separable(const SeparableWindows& windows, const float* x, float bias, float* y, int32_t* place,
                       float* room);

// y = sum of the cells / divisor + bias, with divisor = count of cells inside where `counts` is given.
// room: values_room()
void average_separable(const SeparableWindows& windows, const float* x, float divisor, const CellCounts* counts,
                       float bias, float* y, float* room);
// dx = (or +=) sum over the windows of a cell of dz / divisor; only without dilation. room: spread_room()
void average_separable_backward(const SeparableWindows& windows, const float* dz, float divisor,
                                const CellCounts* counts, float* dx, bool adds, float* room);

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
