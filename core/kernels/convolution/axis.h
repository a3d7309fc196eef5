// One axis of a convolution as a list of phases, the same for the forward pass and for the gradient of the input.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/convolution/shape.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Tap `tap` of the kernel meets input cell i * in_step + offset for output i of its phase.
struct AxisTap {
  int tap, offset;
};

// Output cells first, first + out_step, ... (count of them).
struct AxisPhase {
  int first, count;
  std::vector<AxisTap> taps;  // those that meet the input at least once
};

// Forward: one phase, in_step = stride. Gradient of the input: a dx cell meets only the taps with the same remainder
// modulo the stride, so there are `stride` phases, each a convolution with stride 1 over dy.
struct Axis {
  int in_size, out_size, in_step, out_step;
  std::vector<AxisPhase> phases;
  int low = 0, high = 0;  // range of the offsets

  // Input cells that `count` consecutive outputs of a phase read, from offset `low` on.
  int span(int count) const { return (count - 1) * in_step + high - low + 1; }
  int most_outputs() const;  // of the longest phase
};

[[gnu::cold]] Axis forward_axis(int64_t in_size, int64_t out_size, int64_t kernel, int64_t stride, int64_t dilation,
                                int64_t pad);
// in_size and out_size are still those of the convolution; the axis maps cells of dy to cells of dx.
[[gnu::cold]] Axis backward_axis(int64_t in_size, int64_t out_size, int64_t kernel, int64_t stride, int64_t dilation,
                                 int64_t pad);

inline Axis forward_rows(const ConvolutionShape& s) {
  return forward_axis(s.in_height, s.out_height, s.kernel_height, s.stride_y, s.dilation_y, s.pad_up);
}
inline Axis forward_columns(const ConvolutionShape& s) {
  return forward_axis(s.in_width, s.out_width, s.kernel_width, s.stride_x, s.dilation_x, s.pad_left);
}
inline Axis backward_rows(const ConvolutionShape& s) {
  return backward_axis(s.in_height, s.out_height, s.kernel_height, s.stride_y, s.dilation_y, s.pad_up);
}
inline Axis backward_columns(const ConvolutionShape& s) {
  return backward_axis(s.in_width, s.out_width, s.kernel_width, s.stride_x, s.dilation_x, s.pad_left);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
