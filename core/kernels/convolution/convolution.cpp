// Convolution and transposed convolution: plans that pick one kernel per direction and add bias and activation.
#include <utility>

#include "common/lazy.h"
#include "kernels/activation/activation.h"
#include "kernels/activation/rows.h"
#include "kernels/convolution/depthwise.h"
#include "kernels/convolution/group_lanes.h"
#include "kernels/convolution/kernels.h"
#include "kernels/kernels.h"
#include "runtime/weights_version.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// Fastest first; the last takes every shape.
constexpr MakeImageKernel kForwardKernels[] = {
    make_covering_forward,     make_few_pixels_forward, make_pointwise_forward, make_long_windows_forward,
    make_few_channels_forward, make_winograd_forward,   make_direct_forward,    make_reference_forward};
constexpr MakeImageKernel kBackwardDataKernels[] = {make_covering_backward_data,     make_pointwise_backward_data,
                                                    make_few_channels_backward_data, make_winograd_backward_data,
                                                    make_direct_backward_data,       make_reference_backward_data};
constexpr MakeWeightsKernel kWeightsKernels[] = {make_covering_weights, make_few_channels_weights,
                                                 make_winograd_weights, make_direct_weights, make_reference_weights};

template <class Make, size_t kCount>
auto first_that_takes(const Make (&list)[kCount], const ConvolutionShape& shape) {
  auto kernel = list[0](shape);
  for (size_t i = 1; !kernel && i < kCount; i++) kernel = list[i](shape);
  return kernel;
}

class ConvolutionPlan : public WatchedPlan {
 public:
  // The output of a transposed convolution has a bias for each channel that it really has.
  ConvolutionPlan(const ConvolutionShape& shape, const ActivationSpec& activation, bool transposed)
      : shape_(transposed ? shape : simplified(shape, activation)),
        out_width_(transposed ? shape_.in_width : shape_.out_width),
        activation_(activation),
        transposed_(transposed) {}

  // y = f(conv(x, w) + b); transposed: y = f(adjoint of conv at x + b)
  void forward(const Call& call) override { forward_kernel().run(forward_call(call)); }

  bool forward_watched(const Call& call, const PlaneWatcher& watcher) override {
    ImageCall c = forward_call(call);
    const bool watched = forward_kernel().watches(c);
    if (watched) c.watcher = &watcher;
    forward_kernel().run(c);
    return watched;
  }

  void backward(const Call& call) override { run_backward(call, gradient(call)); }

  void keep_weights(bool keep) override { weights_known_.keep(keep); }

  bool backward_made(const Call& call, const PixelMaker& dy) override {
    if (transposed_ || call.address[DX] || !is_identity(activation_)) return false;
    ImageSource dz = gradient(call);
    dz.maker = &dy;
    run_backward(call, dz);
    return true;
  }

 private:
  // With dz = dy f'(y): dx is the adjoint of forward at dz, dw pairs x with dz, db sums dz over all but its channel.
  void run_backward(const Call& call, const ImageSource& dz) const {
    if (call.address[DX]) {
      ImageCall c{dz,         call.address[W], nullptr, nullptr, 0, call.address[DX], call.stride[DX], call.adds(DX),
                  call.batch, call.threads};
      (transposed_ ? inner_forward() : inner_backward_data()).run(c);
    }
    // The weights kernel of the inner convolution sums its second image for the bias; that is dz unless transposed.
    float* db = transposed_ ? nullptr : call.address[DB];
    if (call.address[DW] || db) {
      WeightsCall c{input(call), dz, call.address[DW], db, call.adds(DW), call.adds(DB), call.batch, call.threads};
      if (transposed_) std::swap(c.x, c.dy);
      inner_weights().run(c);
    }
    if (call.address[DB] && transposed_)
      sum_channels(dz, call.batch, shape_.in_channels, call.address[DB], call.adds(DB), call.threads);
  }

  // Of the convolution whose adjoint a transposed one is.
  const ImageKernel& inner_forward() const {
    return forward_.get([&] { return make_forward_kernel(shape_); });
  }
  const ImageKernel& inner_backward_data() const {
    return backward_data_.get([&] { return first_that_takes(kBackwardDataKernels, with_long_rows(shape_)); });
  }
  const WeightsKernel& inner_weights() const {
    return weights_.get([&] { return first_that_takes(kWeightsKernels, with_long_rows(shape_)); });
  }
  const ImageKernel& forward_kernel() const { return transposed_ ? inner_backward_data() : inner_forward(); }
  ImageCall forward_call(const Call& call) const {
    const ActivationSpec* f = is_identity(activation_) ? nullptr : &activation_;
    ImageCall c{input(call),     call.address[W], call.address[B], f,          out_width_,
                call.address[Y], call.stride[Y],  false,           call.batch, call.threads};
    c.weights = weights_known_.version();
    return c;
  }
  ImageSource input(const Call& call) const {
    return transposed_
               ? ImageSource{call.address[X], call.stride[X], shape_.out_height * shape_.out_width, shape_.out_width}
               : ImageSource{call.address[X], call.stride[X], shape_.in_height * shape_.in_width, shape_.in_width};
  }
  ImageSource gradient(const Call& call) const {
    const int64_t plane = transposed_ ? shape_.in_height * shape_.in_width : shape_.out_height * shape_.out_width;
    ImageSource dz{call.address[DY], call.stride[DY], plane, out_width_};
    if (!is_identity(activation_)) {
      dz.output = call.address[Y];
      dz.output_stride = call.stride[Y];
      dz.activation = &activation_;
    }
    return dz;
  }

  const ConvolutionShape shape_;
  const int64_t out_width_;  // of the image that forward makes
  const ActivationSpec activation_;
  const bool transposed_;
  const Lazy<ImageKernel> forward_, backward_data_;
  const Lazy<WeightsKernel> weights_;
  PlanWeights weights_known_;
};

}  // namespace

ConvolutionShape with_long_rows(ConvolutionShape s) {
  constexpr int64_t kLongRow = 256;
  bool pointwise = s.kernel_height == 1 && s.kernel_width == 1 && s.stride_y == 1 && s.stride_x == 1 && s.pad_up == 0 &&
                   s.pad_left == 0 && s.out_height == s.in_height && s.out_width == s.in_width;
  if (!pointwise) return s;
  int64_t joined = 1;
  for (int64_t rows = 2; rows <= s.in_height && rows * s.in_width <= kLongRow; rows++)
    if (s.in_height % rows == 0) joined = rows;
  s.in_height = s.out_height = s.in_height / joined;
  s.in_width = s.out_width = s.in_width * joined;
  return s;
}

ConvolutionShape simplified(ConvolutionShape s, const ActivationSpec& activation) {
  const bool one_column =
      s.in_width == 1 && s.out_width == 1 && s.kernel_width == 1 && s.pad_left == 0 && s.in_height > 1;
  if (one_column && !is_axis_wise(activation)) {
    std::swap(s.in_width, s.in_height);
    std::swap(s.out_width, s.out_height);
    std::swap(s.kernel_width, s.kernel_height);
    std::swap(s.stride_x, s.stride_y);
    std::swap(s.dilation_x, s.dilation_y);
    std::swap(s.pad_left, s.pad_up);
  }
  const bool covers = s.kernel_height == s.in_height && s.out_height == 1 && s.pad_up == 0 &&
                      (s.dilation_y == 1 || s.kernel_height == 1);
  if (covers) {
    s.in_channels *= s.in_height;
    s.in_height = s.kernel_height = 1;
  }
  return s;
}

std::unique_ptr<ImageKernel> make_forward_kernel(const ConvolutionShape& s) {
  return first_that_takes(kForwardKernels, with_long_rows(s));
}

bool forward_packs_weights(const ConvolutionShape& s) {
  const ConvolutionShape rows = with_long_rows(s);
  return !make_covering_forward(rows) && !make_few_pixels_forward(rows) && !make_pointwise_forward(rows) &&
         !make_long_windows_forward(rows) && !make_few_channels_forward(rows) && has_direct_forward(rows);
}

std::unique_ptr<Plan> make_convolution(const ConvolutionShape& shape, const ActivationSpec& activation) {
  if (is_stored(shape)) return make_stored_convolution(shape, activation);
  if (shape.groups > 1) {
    auto lanes = make_group_lanes(shape, activation);
    const bool depthwise = is_depthwise(shape), leaves_out = shape.stride_x > 1;
    if (depthwise && !(lanes && leaves_out))
      if (auto rows = make_depthwise_rows(shape, activation)) return rows;
    if (lanes) return lanes;
    if (depthwise) return make_depthwise(shape, activation);
  }
  return std::make_unique<ConvolutionPlan>(shape, activation, false);
}

std::unique_ptr<Plan> make_transposed_convolution(const ConvolutionShape& shape, const ActivationSpec& activation) {
  return std::make_unique<ConvolutionPlan>(shape, activation, true);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
