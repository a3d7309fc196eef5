// Convolutions whose kernel covers the whole image: one output pixel, so that a batch is one matrix product per group,
// as in a fully connected layer.
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

constexpr int64_t kComputedFloats = int64_t{1} << 20;  // of an image that is computed, kept at a time (4 MB)

struct Sizes {
  explicit Sizes(const ConvolutionShape& s)
      : groups(s.groups),
        inputs(s.in_channels / s.groups * s.in_height * s.in_width),
        outputs(s.out_channels / s.groups),
        in_channels(s.in_channels),
        out_channels(s.out_channels),
        plane(s.in_height * s.in_width),
        sums(sums_of_rounded(s.bfloat16)) {}

  int64_t groups, inputs, outputs;  // of a group: x: [inputs], w: [outputs][inputs], y: [outputs]
  int64_t in_channels, out_channels, plane;
  SumKind sums;
};

// Samples as rows of a matrix.
struct Samples {
  const float* data;
  int64_t stride;
};

// Samples [first, first + count) of an image with `channels` channels, where they lie or computed into scratch.
Samples samples_of(const ImageSource& image, int64_t first, int64_t count, int64_t channels, int slot) {
  if (!image.computed()) return {image.data + first * image.stride, image.stride};
  const int64_t floats = channels * image.plane;
  float* rows = scratch(slot, static_cast<size_t>(count * floats));
  for (int64_t n = 0; n < count; n++) {
    int64_t plane_stride;
    const float* pixels = image.pixels(first + n, 0, channels, 0, image.plane, &plane_stride);
    std::copy_n(pixels, floats, rows + n * floats);  // planes that are computed lie next to each other
  }
  return {rows, floats};
}

// How many samples are taken at a time, so that what is computed of them is bounded.
int64_t block_of(const ImageSource& image, int64_t batch, int64_t channels) {
  return image.computed() ? std::max<int64_t>(1, kComputedFloats / (channels * image.plane)) : batch;
}

// Forward y[n][o] = bias[o] + sum_i w[o][i] x[n][i]. Backward dx[n][i] = sum_o w[o][i] dy[n][o], plus the bias of the
// channel of i in a transposed convolution.
class CoveringImages : public ImageKernel {
 public:
  CoveringImages(const ConvolutionShape& s, bool backward) : s_(s), backward_(backward) {}

  void run(const ImageCall& call) const override {
    const int64_t in_channels = backward_ ? s_.out_channels : s_.in_channels;
    const int64_t from = backward_ ? s_.outputs : s_.inputs, to = backward_ ? s_.inputs : s_.outputs;  // of a group
    const float* bias = call.bias && backward_ ? spread(call.bias) : call.bias;
    const int64_t block = block_of(call.in, call.batch, in_channels);
    for (int64_t first = 0; first < call.batch; first += block) {
      const int64_t count = std::min(block, call.batch - first);
      const Samples in = samples_of(call.in, first, count, in_channels, kGradientBand);
      for (int64_t g = 0; g < s_.groups; g++) {
        MatrixProduct p{count,          to,
                        from,           in.data + g * from,
                        in.stride,      call.w + g * s_.outputs * s_.inputs,
                        s_.inputs,      call.out + first * call.out_stride + g * to,
                        call.out_stride};
        p.transpose_b = !backward_;
        p.sums = s_.sums;
        p.accumulate = call.accumulate;
        p.column_bias = bias ? bias + g * to : nullptr;
        if (call.activation && !is_axis_wise(*call.activation)) p.activation = call.activation;
        if (call.weights != 0 && s_.groups == 1 && packs(p))
          p.packed_b = packed_.get(call.weights, kWeights, packed_b_floats(p),
                                   [&](float* made) { pack_matrix_b(p, made, call.threads); });
        matrix_product(p, call.threads);
      }
    }
    if (call.activation && is_axis_wise(*call.activation))
      for (int64_t n = 0; n < call.batch; n++) {
        float* y = call.out + n * call.out_stride;
        activation_forward(*call.activation, y, y, s_.groups * to, call.activation_row);
      }
  }

 private:
  // One value per pixel.
  const float* spread(const float* bias) const {
    float* pixels = scratch(kBias, static_cast<size_t>(s_.in_channels * s_.plane));
    for (int64_t c = 0; c < s_.in_channels; c++) std::fill_n(pixels + c * s_.plane, s_.plane, bias[c]);
    return pixels;
  }

  const Sizes s_;
  const bool backward_;
  KeptWeights packed_;
};

// dw[o][i] = sum_n dy[n][o] x[n][i], db[o] = sum_n dy[n][o]
class CoveringWeights : public WeightsKernel {
 public:
  explicit CoveringWeights(const ConvolutionShape& s) : s_(s) {}

  void run(const WeightsCall& call) const override {
    const int64_t block =
        std::min(block_of(call.x, call.batch, s_.in_channels), block_of(call.dy, call.batch, s_.out_channels));
    for (int64_t first = 0; first < call.batch; first += block) {
      const int64_t count = std::min(block, call.batch - first);
      const Samples dy = samples_of(call.dy, first, count, s_.out_channels, kGradientBand);
      if (call.db) sum(dy, count, call.db, first > 0 || call.add_db, call.threads);
      if (!call.dw) continue;
      const Samples x = samples_of(call.x, first, count, s_.in_channels, kInputBand);
      for (int64_t g = 0; g < s_.groups; g++) {
        MatrixProduct p{s_.outputs, s_.inputs,
                        count,      dy.data + g * s_.outputs,
                        dy.stride,  x.data + g * s_.inputs,
                        x.stride,   call.dw + g * s_.outputs * s_.inputs,
                        s_.inputs};
        p.transpose_a = true;
        p.sums = s_.sums;
        p.accumulate = first > 0 || call.add_dw;
        matrix_product(p, call.threads);
      }
    }
  }

 private:
  void sum(const Samples& dy, int64_t count, float* db, bool adds, int threads) const {
    threads = useful_threads(threads, 10.0 * static_cast<double>(count * s_.out_channels));
    over_columns(s_.out_channels, threads, [&](int64_t column, int64_t columns) {
      sum_rows(dy.data + column, dy.stride, count, columns, db + column, adds);
    });
  }

  const Sizes s_;
};

bool takes(const ConvolutionShape& s) {
  return s.out_height == 1 && s.out_width == 1 && s.pad_up == 0 && s.pad_left == 0 && s.kernel_height == s.in_height &&
         s.kernel_width == s.in_width && (s.dilation_y == 1 || s.kernel_height == 1) &&
         (s.dilation_x == 1 || s.kernel_width == 1);
}

}  // namespace

std::unique_ptr<ImageKernel> make_covering_forward(const ConvolutionShape& s) {
  if (!takes(s)) return nullptr;
  return std::make_unique<CoveringImages>(s, false);
}

std::unique_ptr<ImageKernel> make_covering_backward_data(const ConvolutionShape& s) {
  if (!takes(s)) return nullptr;
  return std::make_unique<CoveringImages>(s, true);
}

std::unique_ptr<WeightsKernel> make_covering_weights(const ConvolutionShape& s) {
  if (!takes(s)) return nullptr;
  return std::make_unique<CoveringWeights>(s);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
