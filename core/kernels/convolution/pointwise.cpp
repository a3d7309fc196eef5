// 1 x 1 convolutions on all but tiny images: matrix products straight on the planes, so that nothing is transposed.
#include <algorithm>

#include "gemm/gemm.h"
#include "gemm/micro_kernel.h"
#include "kernels/activation/activation.h"
#include "kernels/activation/rows.h"
#include "kernels/convolution/kernels.h"
#include "runtime/dynamic_items.h"
#include "runtime/partition.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kTaskPixels = 512;
constexpr int64_t kFewestPixels = 128;  // on smaller images the last vectors of a plane are mostly empty

// out[m][pixel] = bias[m] + sum_k op(w)[m][k] in[k][pixel] for each sample and group; backward uses w transposed.
class Pointwise : public ImageKernel {
 public:
  Pointwise(const ConvolutionShape& s, bool backward)
      : backward_(backward),
        groups_(s.groups),
        inputs_(s.in_channels / s.groups),
        outputs_(s.out_channels / s.groups),
        pixels_(s.in_height * s.in_width),
        sums_(sums_of_rounded(s.bfloat16)),
        flops_(flops(s)) {}

  void run(const ImageCall& call) const override {
    int threads = useful_threads(call.threads, flops_ * static_cast<double>(call.batch));
    // Axis-wise activations and gradients through them need whole rows.
    int64_t row = call.in.computed() ? call.in.width : call.activation ? call.activation_row : 1;
    int64_t share = std::max<int64_t>(1, kTaskPixels / row) * row, shares = (pixels_ + share - 1) / share;
    int64_t made = backward_ ? inputs_ : outputs_, read = backward_ ? outputs_ : inputs_;
    const int64_t units = call.batch * groups_ * shares;
    const int64_t splits = even_parts(units, (made + kWideRows - 1) / kWideRows, threads);
    int64_t height = round_up((made + splits - 1) / splits, kWideRows);
    dynamic_items(threads, units * splits, [&](int64_t item) {
      int64_t split = item % splits, unit = item / splits;
      int64_t first = unit % shares * share, group = unit / shares % groups_, n = unit / shares / groups_;
      int64_t count = std::min(share, pixels_ - first), row0 = split * height, rows = std::min(height, made - row0);
      if (rows <= 0) return;
      int64_t plane;
      const float* in = call.in.pixels(n, group * read, read, first, count, &plane);
      const float* w = call.w + group * inputs_ * outputs_ + (backward_ ? row0 : row0 * inputs_);
      MatrixProduct p{rows,    count, read,  w,
                      inputs_, in,    plane, call.out + n * call.out_stride + (group * made + row0) * pixels_ + first,
                      pixels_};
      p.transpose_a = backward_;
      p.sums = sums_;
      p.accumulate = call.accumulate;
      p.row_bias = call.bias ? call.bias + group * made + row0 : nullptr;
      bool by_rows = call.activation && is_axis_wise(*call.activation);
      if (!by_rows) p.activation = call.activation;
      packed_product(p);
      for (int64_t m = 0; by_rows && m < rows; m++)
        activation_forward(*call.activation, p.c + m * pixels_, p.c + m * pixels_, count, call.activation_row);
    });
  }

 private:
  const bool backward_;
  const int64_t groups_, inputs_, outputs_, pixels_;
  const SumKind sums_;
  const double flops_;
};

bool takes(const ConvolutionShape& s) {
  return s.kernel_height == 1 && s.kernel_width == 1 && s.stride_y == 1 && s.stride_x == 1 && s.pad_up == 0 &&
         s.pad_left == 0 && s.out_height == s.in_height && s.out_width == s.in_width &&
         s.in_height * s.in_width >= kFewestPixels;
}

}  // namespace

std::unique_ptr<ImageKernel> make_pointwise_forward(const ConvolutionShape& s) {
  if (!takes(s)) return nullptr;
  return std::make_unique<Pointwise>(s, false);
}

std::unique_ptr<ImageKernel> make_pointwise_backward_data(const ConvolutionShape& s) {
  if (!takes(s)) return nullptr;
  return std::make_unique<Pointwise>(s, true);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
