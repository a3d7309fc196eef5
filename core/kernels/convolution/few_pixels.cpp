// Images of a few pixels, and 1 x 1 kernels that leave pixels out: a product of patches and weights that are packed
// once. Pixels are the rows of the product, so that vectors are filled by output channels, however short the rows of
// the image are. A 1 x 1 kernel reads the image where it lies.
#include <algorithm>

#include "common/kept_weights.h"
#include "common/scratch_uses.h"
#include "gemm/gemm.h"
#include "gemm/micro_kernel.h"
#include "gemm/pack.h"
#include "kernels/activation/activation.h"
#include "kernels/activation/rows.h"
#include "kernels/convolution/kernels.h"
#include "runtime/dynamic_items.h"
#include "runtime/partition.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kFewestOutputs = 32;  // fewer channels do not fill the columns of tiles
// Of images under 1 x 1 kernels. Taking sums to planes costs as much for each as some steps of them.
constexpr int64_t kMostPixels = 1024, kPixelsPerStep = 8;
// Under larger kernels, cutting out patches pays for short rows, which leave tiles empty, if weights come from memory.
constexpr int64_t kShortRow = 4, kMostPatches = 64, kManyWeights = int64_t{1} << 19;
constexpr int64_t kPatchFloats = int64_t{1} << 20;  // of samples that are multiplied together (4 MB)
constexpr int64_t kChunkPixels = 8 * kWideRows;     // whose sums stay in L1 until they go to planes
constexpr int64_t kSteps = 256;                     // of the sums: their weights stay in L1

// y[o][pixel] = sum over channels and taps t of patches[t][pixel] w[o][t]
class FewPixels : public ImageKernel {
 public:
  explicit FewPixels(const ConvolutionShape& s)
      : s_(s),
        taps_(s.kernel_height * s.kernel_width),
        depth_(s.in_channels * taps_),
        pixels_(s.out_height * s.out_width),
        tiles_((s.out_channels + kWideColumns - 1) / kWideColumns),
        whole_(taps_ == 1 && s.stride_y == 1 && s.stride_x == 1 && s.pad_up == 0 && s.pad_left == 0 &&
               s.out_height == s.in_height && s.out_width == s.in_width),
        flops_(flops(s)) {}

  void run(const ImageCall& call) const override {
    const float* weights =
        packed_.get(call.weights, kWeights, tiles_ * kWideColumns * depth_, [&](float* to) { pack(call, to); });
    if (whole_ && !call.in.computed() && (call.batch == 1 || pixels_ >= kWideRows)) {
      multiply(call, weights, 0, call.batch, call.in.data, call.in.stride, pixels_);
      return;
    }
    const int64_t together = std::max<int64_t>(1, kPatchFloats / (pixels_ * depth_));
    for (int64_t first = 0; first < call.batch; first += together) {
      const int64_t count = std::min(together, call.batch - first), rows = count * pixels_;
      float* patches = scratch(kPatches, static_cast<size_t>(rows * depth_));
      const int packers = useful_threads(call.threads, kPackFlops * static_cast<double>(rows * depth_) / 4);
      const int64_t parts = std::min<int64_t>(kParts, s_.in_channels);
      parallel_items(packers, count * parts, [&](int64_t i) {
        const int64_t channel = s_.in_channels * (i % parts) / parts, end = s_.in_channels * (i % parts + 1) / parts;
        cut(call.in, first + i / parts, channel, end - channel, patches + i / parts * pixels_, rows);
      });
      multiply(call, weights, first, count, patches, 0, rows);
    }
  }

 private:
  // [outputs / tile][depth][tile]
  void pack(const ImageCall& call, float* to) const {
    const int packers = useful_threads(call.threads, kPackFlops * static_cast<double>(s_.out_channels * depth_));
    parallel_items(packers, tiles_, [&](int64_t tile) {
      float* columns = to + tile * kWideColumns * depth_;
      for (int64_t block = 0; block < kWideColumns; block += kBlock) {
        const int64_t o = tile * kWideColumns + block;
        const int rows = static_cast<int>(std::clamp<int64_t>(s_.out_channels - o, 0, kBlock));
        transpose_rows(call.w + o * depth_, depth_, rows, depth_,
                       [=](int64_t t) { return columns + t * kWideColumns + block; });
      }
    });
  }

  // patches: [channel][tap][pixel], of some channels, `step` floats from one tap to the next.
  void cut(const ImageSource& image, int64_t n, int64_t channel, int64_t channels, float* patches, int64_t step) const {
    int64_t plane;
    const float* x = image.pixels(n, channel, channels, 0, s_.in_height * s_.in_width, &plane);
    for (int64_t ky = 0; ky < s_.kernel_height; ky++)
      for (int64_t kx = 0; kx < s_.kernel_width; kx++) {
        const int64_t left = kx * s_.dilation_x - s_.pad_left, up = ky * s_.dilation_y - s_.pad_up;
        // Outputs [begin, end) of a row meet the image.
        const int64_t begin = left < 0 ? std::min(s_.out_width, (s_.stride_x - 1 - left) / s_.stride_x) : 0;
        const int64_t met = s_.in_width > left ? (s_.in_width - left + s_.stride_x - 1) / s_.stride_x : 0;
        const int64_t end = std::clamp(met, begin, s_.out_width);
        for (int64_t c = 0; c < channels; c++) {
          float* to = patches + ((channel + c) * taps_ + ky * s_.kernel_width + kx) * step;
          for (int64_t oy = 0; oy < s_.out_height; oy++, to += s_.out_width) {
            const int64_t iy = oy * s_.stride_y + up;
            if (iy < 0 || iy >= s_.in_height) {
              std::fill_n(to, s_.out_width, 0.f);
              continue;
            }
            std::fill_n(to, begin, 0.f);
            copy(x + c * plane + iy * s_.in_width + left, begin, end, to);
            std::fill_n(to + end, s_.out_width - end, 0.f);
          }
        }
      }
  }

  void copy(const float* from, int64_t begin, int64_t end, float* to) const {
    if (s_.stride_x == 1)
      for (int64_t i = begin; i < end; i++) to[i] = from[i];
    else if (s_.stride_x == 2)
      for (int64_t i = begin; i < end; i++) to[i] = from[2 * i];
    else
      for (int64_t i = begin; i < end; i++) to[i] = from[s_.stride_x * i];
  }

  // Samples [first, first + count), side by side in [depth][rows], or `stride` apart as [depth][rows] each.
  void multiply(const ImageCall& call, const float* weights, int64_t first, int64_t count, const float* patches,
                int64_t stride, int64_t rows) const {
    const int threads = useful_threads(call.threads, flops_ * static_cast<double>(count));
    const int64_t images = stride > 0 || count == 1 ? count : 1;
    // Axis-wise activations need whole rows.
    const int64_t row = call.activation && is_axis_wise(*call.activation) ? s_.out_width : 1;
    const int64_t unit = row > 1 ? row : kWideRows, units = (rows + unit - 1) / unit;
    const int64_t most = std::max<int64_t>(1, kChunkPixels / unit);
    const int64_t parts = even_cuts(images * tiles_, {units, 0, (units + most - 1) / most}, {1}, threads).first;
    dynamic_items(threads, images * tiles_ * parts, [&](int64_t item) {
      const int64_t part = item % parts, tile = item / parts % tiles_, image = item / parts / tiles_;
      const int64_t begin = units * part / parts * unit, end = std::min(rows, units * (part + 1) / parts * unit);
      multiply_chunk(call, weights + tile * kWideColumns * depth_, first + image, tile * kWideColumns,
                     patches + image * stride, rows, begin, end);
    });
  }

  // Rows [begin, end) of the pixels of samples from n on; of the output channels from `channel` on.
  void multiply_chunk(const ImageCall& call, const float* weights, int64_t n, int64_t channel, const float* patches,
                      int64_t rows, int64_t begin, int64_t end) const {
    const int64_t count = end - begin, channels = std::min<int64_t>(kWideColumns, s_.out_channels - channel);
    const int blocks = tile_blocks(channels), height = even_tile(count, kWideRows);
    float* sums = scratch(kOutputTile, static_cast<size_t>(count * blocks * kBlock));  // [block][pixel][16]
    float bias[kWideColumns] = {};
    if (call.bias) std::copy_n(call.bias + channel, channels, bias);
    Tile t{};
    t.a_step = rows;
    t.b_step = kWideColumns;
    t.c_row = kBlock;
    t.c_block = count * kBlock;
    t.bias = bias;
    for (int64_t k = 0; k < depth_; k += kSteps) {
      t.b = weights + k * kWideColumns;
      t.entries = static_cast<int>(std::min(kSteps, depth_ - k));
      t.write = k == 0 ? Write::ColumnBias : Write::Add;
      for (int64_t i = 0; i < count; i += height) {
        t.a = patches + k * rows + begin + i;
        t.next = t.a;
        t.c = sums + i * kBlock;
        t.rows = static_cast<int>(std::min<int64_t>(height, count - i));
        tile_kernel(TileForm::Streamed, blocks, t.rows)(t);
      }
    }
    for (int64_t i = begin; i < end;) {
      const int64_t pixel = i % pixels_, length = std::min(end - i, pixels_ - pixel);
      float* to = call.out + (n + i / pixels_) * call.out_stride + channel * pixels_ + pixel;
      write(call, sums + (i - begin) * kBlock, count, channels, length, to);
      i += length;
    }
  }

  // `length` pixels of [block][count][16] to planes.
  void write(const ImageCall& call, const float* sums, int64_t count, int64_t channels, int64_t length,
             float* to) const {
    for (int64_t k = 0; k < channels; k += kBlock) {
      const int lanes = static_cast<int>(std::min<int64_t>(kBlock, channels - k));
      if (call.accumulate)
        unpack_block<true>(sums + k * count, length, to + k * pixels_, pixels_, lanes);
      else
        unpack_block<false, true>(sums + k * count, length, to + k * pixels_, pixels_, lanes);
    }
    if (!call.activation) return;
    if (length == pixels_)
      activation_forward(*call.activation, to, to, channels * pixels_, call.activation_row);
    else
      for (int64_t k = 0; k < channels; k++, to += pixels_)
        activation_forward(*call.activation, to, to, length, call.activation_row);
  }

  static constexpr int64_t kParts = 4;  // of the channels of a sample, which threads share

  const ConvolutionShape s_;
  const int64_t taps_, depth_, pixels_, tiles_;
  const bool whole_;  // patches are the image
  const double flops_;
  KeptWeights packed_;
};

}  // namespace

std::unique_ptr<ImageKernel> make_few_pixels_forward(const ConvolutionShape& s) {
  const int64_t taps = s.kernel_height * s.kernel_width, depth = s.in_channels * taps;
  const int64_t pixels = s.out_height * s.out_width;
  const bool leaves_out = s.stride_y > 1 || s.stride_x > 1;
  const bool few = taps == 1
                       ? leaves_out || pixels <= std::min(kMostPixels, kPixelsPerStep * depth)
                       : s.out_width <= kShortRow && pixels <= kMostPatches && depth * s.out_channels >= kManyWeights;
  if (!few || s.groups != 1 || s.exact || is_stored(s) || s.out_channels < kFewestOutputs ||
      sums_of_rounded(s.bfloat16) != SumKind::kFloats)
    return nullptr;
  return std::make_unique<FewPixels>(s);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
