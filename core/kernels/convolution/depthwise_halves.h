// 3 x 3 windows with stride 1 of depthwise convolutions on Float16 and BFloat16, from and to memory as they are stored:
// floats are in registers only.
#pragma once
#include <cstdint>
#include <memory>

#include "kernels/convolution/shape.h"

namespace openbnns {
namespace OPENBNNS_ISA {

class HalfWindows {
 public:
  virtual ~HalfWindows() = default;
  // y = bias + sum over taps t of w(t) x(window's t), rounded to the type of both; x: [in_height][in_width], y:
  // [out_height][out_width], w: [3][3].
  virtual void forward(const uint16_t* x, const float* w, float bias, uint16_t* y) const = 0;
};

// Null for other shapes and types.
[[gnu::cold]] std::unique_ptr<HalfWindows> make_half_windows(const ConvolutionShape& s);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
