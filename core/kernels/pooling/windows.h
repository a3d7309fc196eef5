// Pooling of one bordered plane with any window; see common/windows.h for the layout of its cells.
#pragma once
#include <algorithm>

#include "common/windows.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {

// Number of cells inside the plane that a window meets: rows[oy] * columns[ox], columns padded with ones to whole
// vectors.
struct CellCounts {
  std::vector<float> rows, columns;
  [[gnu::cold]] explicit CellCounts(const WindowShape& shape);
  bool all_meet() const {  // every window has a cell
    auto meets = [](float count) { return count > 0; };
    return std::all_of(rows.begin(), rows.end(), meets) && std::all_of(columns.begin(), columns.end(), meets);
  }
};

// The same windows without taps that are inside the plane for no window, if that makes the bordered plane much smaller:
// an absurd dilation or padding must not cost more than the images have cells. Meant for borders that do not count.
[[gnu::cold]] WindowShape without_idle_taps(const WindowShape& shape);

// out = largest cell + bias; the border must hold what padded cells count as (minus infinity: they never win).
void max_windows(const WindowGeometry& geometry, const float* bordered, float bias, const PlaneWriter& out);

// Label of the winning tap of every window (-1: none) at winner[r * pitch + c]; whole vectors are written. Values, if
// `out` is given, as above. With `padding_wins` a tap outside the plane may win.
void find_winners(const WindowGeometry& geometry, const float* bordered, bool padding_wins, float bias,
                  const PlaneWriter* out, const int32_t* label, int32_t* winner, int64_t pitch);

// out = sum of the cells / divisor + bias, with divisor = count of cells inside where `counts` is given
void average_windows(const WindowGeometry& geometry, const float* bordered, float divisor, const CellCounts* counts,
                     float bias, const PlaneWriter& out);

// out = square root of the sum of squares + bias
void norm_windows(const WindowGeometry& geometry, const float* bordered, float bias, const PlaneWriter& out);

// Backward of one phase: sums of the bordered gradient over the taps, all of them or only where the tap has won.
// `winner` has the layout of the bordered gradient.
void gather_all(const WindowGeometry& geometry, const Phase& phase, const float* gradient, const PlaneWriter& out);
void gather_won(const WindowGeometry& geometry, const Phase& phase, const float* gradient, const int32_t* winner,
                const PlaneWriter& out);

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
