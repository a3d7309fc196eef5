#include "kernels/convolution/axis.h"

#include <algorithm>

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

int to_int(int64_t v) { return static_cast<int>(v); }

// Keeps the tap if some output of the phase meets the input there.
void add_tap(const Axis& axis, AxisPhase& phase, int tap, int offset) {
  int last = (phase.count - 1) * axis.in_step + offset;
  if (phase.count > 0 && last >= 0 && offset < axis.in_size) phase.taps.push_back({tap, offset});
}

void find_range(Axis& axis) {
  bool any = false;
  for (const AxisPhase& phase : axis.phases)
    for (const AxisTap& t : phase.taps) {
      axis.low = any ? std::min(axis.low, t.offset) : t.offset;
      axis.high = any ? std::max(axis.high, t.offset) : t.offset;
      any = true;
    }
}

}  // namespace

int Axis::most_outputs() const {
  int most = 0;
  for (const AxisPhase& phase : phases) most = std::max(most, phase.count);
  return most;
}

Axis forward_axis(int64_t in_size, int64_t out_size, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad) {
  Axis axis{to_int(in_size), to_int(out_size), to_int(stride), 1, {}};
  AxisPhase phase{0, axis.out_size, {}};
  for (int64_t t = 0; t < kernel; t++) add_tap(axis, phase, to_int(t), to_int(t * dilation - pad));
  axis.phases.push_back(phase);
  find_range(axis);
  return axis;
}

Axis backward_axis(int64_t in_size, int64_t out_size, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad) {
  Axis axis{to_int(out_size), to_int(in_size), 1, to_int(stride), {}};
  for (int64_t first = 0; first < stride; first++) {
    AxisPhase phase{to_int(first), to_int(std::max<int64_t>(0, (in_size - first + stride - 1) / stride)), {}};
    for (int64_t t = 0; t < kernel; t++) {  // x = y * stride + t * dilation - pad, solved for y
      int64_t distance = first + pad - t * dilation;
      if (distance % stride == 0) add_tap(axis, phase, to_int(t), to_int(distance / stride));
    }
    axis.phases.push_back(phase);
  }
  find_range(axis);
  return axis;
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
