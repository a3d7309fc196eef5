// Max pooling of one plane with 3 x 3 windows that are two cells apart and begin at most one cell before the plane:
// directly from and to the caller's rows, without a bordered copy.
//
// The largest cell of a window is the largest of the maxima of its rows, and neighbouring windows share a row.
#pragma once
#include <cstdint>

#include "common/windows.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {

// x, dx: [height][width]; y, dz: [out_height][out_width]
struct TriplePlane {
  int64_t height, width, out_height, out_width, pad_up, pad_left;

  explicit TriplePlane(const WindowShape& s)
      : height(s.in_height),
        width(s.in_width),
        out_height(s.out_height),
        out_width(s.out_width),
        pad_up(s.pad_up),
        pad_left(s.pad_left) {}

  // Whether windows are of this kind; each must have a cell in the plane.
  static bool fits(const WindowShape& s) {
    return s.kernel_height == 3 && s.kernel_width == 3 && s.stride_y == 2 && s.stride_x == 2 && s.dilation_y == 1 &&
           s.dilation_x == 1 && s.pad_up <= 1 && s.pad_left <= 1;
  }

  int64_t row_room() const { return round_up(std::max(out_width, width / 2 + 1), kWidth); }
  int64_t room() const { return 8 * row_room(); }  // floats
};

// y = max + bias
void max_triples(const TriplePlane& plane, const float* x, float bias, float* y, float* room);
// also winner [out_height][pitch]: label [9] of the winning cell, which is label [3 ky] + label [kx]; whole vectors are
// written
void max_triples_with_winners(const TriplePlane& plane, const float* x, float bias, float* y, const int32_t* label,
                              int32_t* winner, int64_t pitch, float* room);
// dx = sums of dz over the windows that a cell has won, in the order of its taps
void max_triples_backward(const TriplePlane& plane, const float* x, const float* dz, float* dx, float* room);

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
