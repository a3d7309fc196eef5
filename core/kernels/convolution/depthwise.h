// Convolutions in which every group has one input channel: memory-bound, so they work plane by plane instead of through
// the matrix product. Any channel multiplier, stride, dilation and padding.
#pragma once
#include <memory>

#include "kernels/activation/shape.h"
#include "kernels/convolution/shape.h"
#include "runtime/plan.h"

namespace openbnns {
namespace OPENBNNS_ISA {

inline bool is_depthwise(const ConvolutionShape& shape) { return shape.groups == shape.in_channels; }
[[gnu::cold]] std::unique_ptr<Plan> make_depthwise(const ConvolutionShape& shape, const ActivationSpec& activation);
// The same for 3 x 3 windows with stride 1 or 2, without a bordered copy; null for other shapes, for instruction sets
// without masked loads, and under the sanitizer, which would not see them.
#if defined(__AVX2__) && !defined(__SANITIZE_ADDRESS__)
#define OPENBNNS_READS_ROWS 1
#else
#define OPENBNNS_READS_ROWS 0
#endif
[[gnu::cold]] std::unique_ptr<Plan> make_depthwise_rows(const ConvolutionShape& shape,
                                                        const ActivationSpec& activation);

// 3 x 3 windows with stride 1 on Float16 and BFloat16, from and to memory as they are stored: floats are in registers
// only.
class HalfWindows {
 public:
  virtual ~HalfWindows() = default;
  // y = bias + sum over taps t of w(t) x(window's t), rounded to the type of both; x: [in_height][in_width], y:
  // [out_height][out_width], w: [3][3].
  virtual void forward(const uint16_t* x, const float* w, float bias, uint16_t* y) const = 0;
};

// Null for other shapes and types.
[[gnu::cold]] std::unique_ptr<HalfWindows> make_half_windows(const ConvolutionShape& s);

// What the plans of this family share.
class DepthwisePlan : public Plan {
 protected:
  DepthwisePlan(const ConvolutionShape& s, const ActivationSpec& activation)
      : channels_(s.in_channels),
        multiplier_(s.out_channels / s.in_channels),
        in_plane_(s.in_height * s.in_width),
        out_plane_(s.out_height * s.out_width),
        out_width_(s.out_width),
        taps_(s.kernel_height * s.kernel_width),
        activation_(activation) {}

  // How a backward call is cut: blocks of channels times parts of the batch, by shape only.
  struct Run {
    const Call& call;
    int64_t block, blocks, parts;
    double* sums;  // [parts][out_channels][sums()], or null
  };
  // At most so many channels in a block.
  Run cut(const Call& call, int64_t most) const;
  int64_t sums() const { return taps_ + 1; }  // per output channel: one for each weight, one for the bias
  // Adds the parts of the batch in order and stores dw [out_channels][taps] and db [out_channels].
  void write_sums(const Run& run) const;

  int threads(const Call& call) const;
  // Planes of a tensor like x, by the channel, and like y.
  float* input(const Call& call, int slot, int64_t n, int64_t channel) const {
    return call.address[slot] + n * call.stride[slot] + channel * in_plane_;
  }
  float* output(const Call& call, int slot, int64_t n, int64_t o) const {
    return call.address[slot] + n * call.stride[slot] + o * out_plane_;
  }
  const float* weights(const Call& call, int64_t o) const { return call.address[W] + o * taps_; }
  float bias(const Call& call, int64_t o) const { return call.address[B] ? call.address[B][o] : 0; }
  void activate(float* y) const;  // a plane
  // y = f(z): dz = dy * f'(y); [out_height][out_width], in `made` where there is an activation
  float* room_for_gradient() const;
  const float* output_gradient(const Call& call, int64_t n, int64_t o, float* made) const;

  const int64_t channels_, multiplier_, in_plane_, out_plane_, out_width_, taps_;
  const ActivationSpec activation_;
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
