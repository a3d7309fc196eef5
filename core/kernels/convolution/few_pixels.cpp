// Images of a few pixels in short rows: a batch is one product of patches and weights. Rows of one or a few pixels fill
// neither vectors nor the sums of a tile, while the weights are all there is to read.
#include <algorithm>

#include "common/kept_weights.h"
#include "common/scratch_uses.h"
#include "gemm/gemm.h"
#include "kernels/activation/activation.h"
#include "kernels/activation/rows.h"
#include "kernels/convolution/kernels.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kShortRow = 4;                    // pixels, at most
constexpr int64_t kMostPixels = 64;                 // of an image
constexpr int64_t kFewestOutputs = 32;              // fewer channels do not fill the columns of tiles
constexpr int64_t kPatchFloats = int64_t{1} << 20;  // of samples that are multiplied together (4 MB)

// y[pixel][o] = sum_t patch[pixel][t] w[o][t] over channels and taps t, then rows of pixels to planes.
class FewPixels : public ImageKernel {
 public:
  explicit FewPixels(const ConvolutionShape& s)
      : s_(s),
        taps_(s.kernel_height * s.kernel_width),
        depth_(s.in_channels * taps_),
        pixels_(s.out_height * s.out_width),
        sums_(sums_of_rounded(s.bfloat16)) {}

  void run(const ImageCall& call) const override {
    const int64_t together = std::max<int64_t>(1, kPatchFloats / (pixels_ * depth_));
    for (int64_t first = 0; first < call.batch; first += together)
      run_samples(call, first, std::min(together, call.batch - first));
  }

 private:
  void run_samples(const ImageCall& call, int64_t first, int64_t count) const {
    const int64_t rows = count * pixels_, outputs = s_.out_channels;
    float* patches = scratch(kPatches, static_cast<size_t>(rows * depth_));
    float* y = scratch(kPartialSums, static_cast<size_t>(rows * outputs));
    const int packers = useful_threads(call.threads, kPackFlops * static_cast<double>(rows * depth_));
    parallel_items(packers, count * kParts, [&](int64_t i) {
      const int64_t part = i % kParts, n = i / kParts;
      const int64_t channel = s_.in_channels * part / kParts, end = s_.in_channels * (part + 1) / kParts;
      cut(call.in, first + n, channel, end - channel, patches + n * pixels_ * depth_);
    });
    MatrixProduct p{rows, outputs, depth_, patches, depth_, call.w, depth_, y, outputs};
    p.transpose_b = true;
    p.sums = sums_;
    p.column_bias = call.accumulate ? nullptr : call.bias;
    const float* packed = packed_.get(call.weights, kWeights, packed_b_floats(p),
                                      [&](float* made) { pack_matrix_b(p, made, call.threads); });
    p.packed_b = packed;
    packed_product(p, call.threads);
    const int writers = useful_threads(call.threads, kPackFlops * static_cast<double>(rows * outputs));
    parallel_items(writers, count * kParts, [&](int64_t i) {
      const int64_t part = i % kParts, n = i / kParts;
      write(call, first + n, outputs * part / kParts, outputs * (part + 1) / kParts, y + n * pixels_ * outputs);
    });
  }

  // patches: [pixel][channel][tap], of some channels
  void cut(const ImageSource& image, int64_t n, int64_t channel, int64_t channels, float* patches) const {
    if (channels == 0) return;
    int64_t plane;
    const float* x = image.pixels(n, channel, channels, 0, s_.in_height * s_.in_width, &plane);
    for (int64_t oy = 0; oy < s_.out_height; oy++)
      for (int64_t ox = 0; ox < s_.out_width; ox++) {
        float* to = patches + (oy * s_.out_width + ox) * depth_ + channel * taps_;
        for (int64_t ky = 0; ky < s_.kernel_height; ky++)
          for (int64_t kx = 0; kx < s_.kernel_width; kx++, to++) {
            const int64_t iy = oy * s_.stride_y + ky * s_.dilation_y - s_.pad_up;
            const int64_t ix = ox * s_.stride_x + kx * s_.dilation_x - s_.pad_left;
            const bool inside = iy >= 0 && iy < s_.in_height && ix >= 0 && ix < s_.in_width;
            const float* from = x + (inside ? iy * s_.in_width + ix : 0);
            for (int64_t c = 0; c < channels; c++) to[c * taps_] = inside ? from[c * plane] : 0.f;
          }
      }
  }

  // Channels [begin, end) of [pixel][channel] to planes.
  void write(const ImageCall& call, int64_t n, int64_t begin, int64_t end, const float* y) const {
    float* out = call.out + n * call.out_stride;
    for (int64_t k = begin; k < end; k++)
      for (int64_t i = 0; i < pixels_; i++) {
        const float sum = y[i * s_.out_channels + k];
        float& to = out[k * pixels_ + i];
        to = call.accumulate ? to + sum : sum;
      }
    float* planes = out + begin * pixels_;
    if (call.activation)
      activation_forward(*call.activation, planes, planes, (end - begin) * pixels_, call.activation_row);
  }

  static constexpr int64_t kParts = 4;  // of the channels of a sample, which threads share

  const ConvolutionShape s_;
  const int64_t taps_, depth_, pixels_;
  const SumKind sums_;
  KeptWeights packed_;
};

}  // namespace

std::unique_ptr<ImageKernel> make_few_pixels_forward(const ConvolutionShape& s) {
  const bool larger = s.kernel_height * s.kernel_width > 1 || s.stride_y > 1 || s.stride_x > 1;
  if (s.groups != 1 || s.exact || is_stored(s) || !larger || s.out_width > kShortRow ||
      s.out_height * s.out_width > kMostPixels || s.out_channels < kFewestOutputs)
    return nullptr;
  return std::make_unique<FewPixels>(s);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
