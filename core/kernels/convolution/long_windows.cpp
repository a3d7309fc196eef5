// Long kernels over a single row of one channel, as short-time Fourier transforms and resamplers have them: a matrix
// product of the kernels and the windows of the row. The windows overlap, so they are not copied: each is a row of a
// matrix whose leading dimension, the stride, is less than its width.
#include <algorithm>

#include "common/scratch_uses.h"
#include "gemm/gemm.h"
#include "kernels/activation/activation.h"
#include "kernels/activation/rows.h"
#include "kernels/convolution/kernels.h"
#include "runtime/dynamic_items.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kLongKernel = 64, kFewestOutputs = 16, kFewestWindows = 16;

// y[k][window] = bias[k] + sum over taps of w[k][tap] x[window * stride + tap - pad]
class LongWindows : public ImageKernel {
 public:
  explicit LongWindows(const ConvolutionShape& s)
      : outputs_(s.out_channels),
        windows_(s.out_width),
        taps_(s.kernel_width),
        stride_(s.stride_x),
        width_(s.in_width),
        pad_(s.pad_left) {}

  void run(const ImageCall& call) const override {
    const double flops = 2.0 * static_cast<double>(outputs_ * windows_ * taps_);
    const int threads = useful_threads(call.threads, flops * static_cast<double>(call.batch));
    if (call.batch >= threads) {
      dynamic_items(threads, call.batch, [&](int64_t n) { run_sample(call, n, 1); });
    } else {
      for (int64_t n = 0; n < call.batch; n++) run_sample(call, n, threads);
    }
  }

 private:
  void run_sample(const ImageCall& call, int64_t n, int threads) const {
    float* y = call.out + n * call.out_stride;
    MatrixProduct p{outputs_, windows_, taps_, call.w, taps_, row_of(call.in, n), stride_, y, windows_};
    p.transpose_b = true;
    p.accumulate = call.accumulate;
    p.row_bias = call.bias;
    const bool by_rows = call.activation && is_axis_wise(*call.activation);
    if (!by_rows) p.activation = call.activation;
    matrix_product(p, threads);
    if (by_rows) activation_forward(*call.activation, y, y, outputs_ * windows_, call.activation_row);
  }

  // The row with its padding, or where it lies if every window is inside.
  const float* row_of(const ImageSource& image, int64_t n) const {
    int64_t unused;
    const float* row = image.pixels(n, 0, 1, 0, width_, &unused);
    const int64_t read = (windows_ - 1) * stride_ + taps_;
    if (pad_ == 0 && read <= width_) return row;
    float* padded = scratch(kInputBand, static_cast<size_t>(read));
    const int64_t inside = std::min(width_, read - pad_);
    std::fill_n(padded, pad_, 0.f);
    std::copy_n(row, inside, padded + pad_);
    std::fill_n(padded + pad_ + inside, read - pad_ - inside, 0.f);
    return padded;
  }

  const int64_t outputs_, windows_, taps_, stride_, width_, pad_;
};

}  // namespace

std::unique_ptr<ImageKernel> make_long_windows_forward(const ConvolutionShape& s) {
  const bool one_row = s.in_channels == 1 && s.in_height == 1 && s.kernel_height == 1 && s.out_height == 1 &&
                       s.pad_up == 0 && s.dilation_x == 1;
  const bool large = s.kernel_width >= kLongKernel && s.out_channels >= kFewestOutputs && s.out_width >= kFewestWindows;
  const bool reaches = s.pad_left >= 0 && s.pad_left < (s.out_width - 1) * s.stride_x + s.kernel_width;
  if (!one_row || !large || !reaches) return nullptr;
  return std::make_unique<LongWindows>(s);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
