// Convolutions with few channels on one side, where blocks of 16 channels would be mostly zeros. Vectors run along the
// rows of the image instead: over padded planes, or over a matrix of patches [tap][pixel] of up to 128 output pixels
// that stays in L1.
//
// Exact sums of bytes work the same way: up to four input channels are a group of integers in 32 bits, which counts as
// a channel, and results are int32.
#include "kernels/convolution/few_channels.h"

#include "common/kept_weights.h"
#include "common/scratch_uses.h"
#include "gemm/gemm.h"
#include "gemm/integer_kernel.h"
#include "gemm/pack.h"
#include "kernels/activation/activation.h"
#include "kernels/convolution/byte_groups.h"
#include "runtime/dynamic_items.h"
#include "runtime/partition.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// Tiles of at most 128 output pixels: whole rows, or pieces of one row. body(row, rows, column, columns)
template <class Body>
void for_pixel_tiles(const FewChannelsShape& s, int first, int last, Body body) {
  int width = s.columns.out_size, height = s.rows.out_size;
  int columns = std::min(width, kColumnPixels), rows = std::max(1, kColumnPixels / width);
  for (int row = first / rows * rows; row < last; row += rows)
    for (int column = 0; column < width; column += columns)
      body(row, std::min(rows, height - row), column, std::min(columns, width - column));
}

ConvolutionShape with_groups_of_inputs(ConvolutionShape s, SumKind sums) {
  s.in_channels = s.groups * groups_of(s.in_channels / s.groups, sums);
  return s;
}

// y(k, row) = bias(k) + sum over taps of w(k, tap) * (row of the planes, shifted by the tap)
class FewChannelsForward : public ImageKernel {
 public:
  FewChannelsForward(const ConvolutionShape& s, bool backward, SumKind sums = SumKind::kFloats)
      : s_(with_groups_of_inputs(s, sums), backward),
        sums_(sums),
        weights_type_(s.w.type),
        w_inputs_(s.in_channels / s.groups),
        band_rows_(rows_per_band()),
        planes_(s_.rows, s_.columns, s_.read, band_rows_, 0),
        places_(s_.places(planes_)) {
    for (int64_t t = 0; t < s_.taps(); t++) weight_places_.push_back(static_cast<int32_t>(t * s_.made));
  }

  void run(const ImageCall& call) const override {
    int threads = useful_threads(call.threads, s_.operations * static_cast<double>(call.batch));
    // [groups][taps][outputs]
    const float* weights = packed_.get(call.weights, kWeights, s_.groups * s_.taps() * s_.made, [&](float* to) {
      for (int64_t g = 0; g < s_.groups; g++)
        for (int64_t t = 0; t < s_.taps(); t++)
          for (int64_t k = 0; k < s_.made; k++, to++) {
            if (integers())
              join_weights(call, g, k, t, to);
            else
              *to = call.w[s_.weight(g, k, t)];
          }
    });
    const Work work = share_out(call.batch, threads);
    dynamic_items(threads, work.units * work.splits, [&](int64_t item) {
      int64_t unit = item / work.splits, split = item % work.splits, band = unit % work.bands * band_rows_;
      int64_t rows = std::min<int64_t>(band_rows_, s_.rows.out_size - band);
      run_rows(call, unit / work.bands / s_.groups, unit / work.bands % s_.groups,
               static_cast<int>(band + rows * split / work.splits),
               static_cast<int>(band + rows * (split + 1) / work.splits), weights);
    });
  }

  bool watches(const ImageCall& call) const override {
    int threads = useful_threads(call.threads, s_.operations * static_cast<double>(call.batch));
    const Work work = share_out(call.batch, threads);
    return work.bands * work.splits == 1 && s_.made * s_.pixels <= kWatchedFloats;
  }

 private:
  struct Work {
    int64_t bands, units, splits;  // bands of an image; bands of all images; parts of a band
  };
  Work share_out(int64_t batch, int threads) const {
    int64_t bands = (s_.rows.out_size + band_rows_ - 1) / band_rows_, units = batch * s_.groups * bands;
    return {bands, units, even_parts(units, std::min<int64_t>(s_.rows.out_size, band_rows_), threads)};
  }

  bool integers() const { return sums_ != SumKind::kFloats; }

  // The weights of a group of input channels.
  void join_weights(const ImageCall& call, int64_t group, int64_t output, int64_t tap, float* to) const {
    const int64_t each = numbers_per_step(sums_), cells = s_.kernel_cells, place = s_.weight(group, output, tap);
    const int64_t channel = place / cells % s_.inputs * each;
    const auto* w = reinterpret_cast<const uint8_t*>(call.w) +
                    ((group * s_.outputs + output) * w_inputs_ + channel) * cells + place % cells;
    join_bytes(sums_, weights_type_, false, w, cells, std::min(each, w_inputs_ - channel), 1,
               reinterpret_cast<ByteGroup*>(to), 1);
  }

  int rows_per_band() const {
    constexpr double kBandBytes = 200e3;
    double bytes = 4.0 * static_cast<double>(s_.columns.span(s_.columns.out_size) * s_.rows.in_step * s_.read +
                                             s_.columns.out_size * s_.made);
    return even_tile(s_.rows.out_size, std::max(4, static_cast<int>(kBandBytes / bytes)));
  }

  void run_rows(const ImageCall& call, int64_t n, int64_t group, int row0, int row1, const float* weights) const {
    if (row0 == row1) return;
    float* planes = scratch(kInputBand, static_cast<size_t>(planes_.count() + kBlock));
    planes_.pack(call.in, n, group * s_.read, row0, row1 - row0, planes);
    int64_t width = s_.columns.out_size, span = (row1 - row0) * width;
    float* y = call.out + n * call.out_stride + group * s_.made * s_.pixels + row0 * width;
    // Vectors overlap at the end of a row, so sums to be added to y are finished elsewhere first.
    float* sums = call.accumulate ? scratch(kOutputTile, static_cast<size_t>(s_.made * span)) : y;
    int64_t plane = call.accumulate ? span : s_.pixels;
    const float* bias = call.bias ? call.bias + group * s_.made : nullptr;
    for (int row = 0; row < row1 - row0; row++)
      run_row(planes + row * planes_.out_row(), weights + group * s_.taps() * s_.made, bias, sums + row * width, plane);
    for (int64_t k = 0; k < s_.made; k++) {
      float* line = y + k * s_.pixels;
      if (call.accumulate)
        for (int64_t i = 0; i < span; i++) line[i] += sums[k * span + i];
      if (call.activation) activation_forward(*call.activation, line, line, span, call.activation_row);
    }
    if (call.watcher) call.watcher->completed(n, group * s_.made, s_.made);
  }

  // One output row of every output channel, channels `plane` apart.
  void run_row(const float* planes, const float* weights, const float* bias, float* y, int64_t plane) const {
    int width = s_.columns.out_size, vectors = (width + kBlock - 1) / kBlock, rows = even_tile(s_.made, kWideRows);
    for (int j = 0; j < vectors;) {
      int blocks = std::min(kWideBlocks, vectors - j);
      int first = std::min(j * kBlock, width - kBlock);
      int64_t second = std::min(j * kBlock + kBlock, width - kBlock) - first;  // the last vector overlaps its neighbour
      for (int64_t k = 0; k < s_.made; k += rows) {
        Tile t{weights + k,
               planes + first,
               weight_places_.data(),
               places_.data(),
               static_cast<int>(places_.size()),
               second,
               y + k * plane + first,
               plane,
               second};
        t.write = integers() ? Write::Set : Write::RowBias;
        t.bias = bias ? bias + k : kNoBias;
        const int height = static_cast<int>(std::min<int64_t>(rows, s_.made - k));
        (integers() ? quad_sums_planes_kernel(blocks, height) : tile_kernel(TileForm::Planes, blocks, height))(t);
      }
      j += blocks;
    }
  }

  const FewChannelsShape s_;
  const SumKind sums_;
  const ElementType weights_type_;
  const int64_t w_inputs_;  // channels of a group
  const int band_rows_;
  const Planes planes_;
  const std::vector<int32_t> places_;
  std::vector<int32_t> weight_places_;
  KeptWeights packed_;
};

// forward: y(k, i) += w(k, tap) * x(cell of tap at i); hence the patches [tap][i] = sum_k w(k, tap) dy(k, i) are added
// to the cells they came from.
class FewChannelsBackwardData : public ImageKernel {
 public:
  explicit FewChannelsBackwardData(const ConvolutionShape& s)
      : s_(s, false), planes_(s_.rows, s_.columns, s_.read, s_.rows.out_size, 0), places_(s_.places(planes_)) {
    for (int64_t k = 0; k < round_up(s_.outputs, kDepth); k += kDepth) {
      weight_places_.push_back(static_cast<int32_t>(k / kBlock * s_.taps() * kBlock + k % kBlock));
      gradient_places_.push_back(static_cast<int32_t>(k * kBlock));
    }
  }

  void run(const ImageCall& call) const override {
    int threads = useful_threads(call.threads, s_.operations * static_cast<double>(call.batch));
    int64_t group_floats = blocks_of(s_.outputs) * s_.taps() * kBlock;
    float* weights = scratch(kWeights, static_cast<size_t>(s_.groups * group_floats));  // [groups][outputs/16][tap][16]
    std::fill_n(weights, s_.groups * group_floats, 0.f);
    for (int64_t g = 0; g < s_.groups; g++)
      for (int64_t k = 0; k < s_.outputs; k++)
        for (int64_t t = 0; t < s_.taps(); t++)
          weights[g * group_floats + (k / kBlock * s_.taps() + t) * kBlock + k % kBlock] = call.w[s_.weight(g, k, t)];
    // Bands of input rows; the outputs that reach into two of them are computed twice, and added in the same order.
    const int64_t images = call.batch * s_.groups, height = s_.rows.in_size;
    const double repeated = std::min(1.0, static_cast<double>(s_.rows.span(1)) / static_cast<double>(height));
    const int64_t bands = even_parts(images, height, threads, repeated);
    dynamic_items(threads, images * bands, [&](int64_t item) {
      const int64_t image = item / bands, band = item % bands, group = image % s_.groups;
      run_rows(call, image / s_.groups, group, static_cast<int>(height * band / bands),
               static_cast<int>(height * (band + 1) / bands), weights + group * group_floats);
    });
  }

 private:
  // Input rows [first, last).
  void run_rows(const ImageCall& call, int64_t n, int64_t group, int first, int last, const float* weights) const {
    float* planes = scratch(kInputBand, static_cast<size_t>(planes_.count()));
    float* patches = scratch(kPatches, static_cast<size_t>(s_.taps() * kColumnPixels));
    int64_t depth = round_up(s_.outputs, kDepth);
    float* gradient = scratch(kGradientBand, static_cast<size_t>(depth * kColumnPixels));  // [pixel / 16][outputs][16]
    std::fill_n(planes, planes_.count(), 0.f);
    std::fill_n(gradient, depth * kColumnPixels, 0.f);
    const auto [out_first, out_last] = outputs_of(first, last);
    for_pixel_tiles(s_, out_first, out_last, [&](int row, int rows, int column, int columns) {
      copy_gradient(call.in, n, group, row, rows, column, columns, gradient);
      multiply(weights, gradient, rows * columns, patches);
      for (int64_t t = 0; t < s_.taps(); t++)
        for (int r = 0; r < rows; r++) {
          float* to = planes + places_[t] + (row + r) * planes_.out_row() + column;
          const float* from = patches + t * kColumnPixels + r * columns;
          for (int i = 0; i < columns; i++) to[i] += from[i];
        }
    });
    int64_t pixels = int64_t{s_.rows.in_size} * s_.columns.in_size;
    float* dx = call.out + n * call.out_stride + group * s_.inputs * pixels;
    planes_.unpack(planes, first, last, dx, call.bias ? call.bias + group * s_.inputs : nullptr, call.accumulate);
    const int64_t width = s_.columns.in_size, count = (last - first) * width;
    for (int64_t c = 0; call.activation && c < s_.inputs; c++) {
      float* rows = dx + c * pixels + first * width;
      activation_forward(*call.activation, rows, rows, count, call.activation_row);
    }
  }

  // Output rows [first, last) whose windows reach into input rows [first, last).
  std::pair<int, int> outputs_of(int first, int last) const {
    const int step = s_.rows.in_step, begin = std::max(0, first - s_.rows.high), end = std::max(0, last - s_.rows.low);
    return {std::min(s_.rows.out_size, (begin + step - 1) / step), std::min(s_.rows.out_size, (end + step - 1) / step)};
  }

  void copy_gradient(const ImageSource& dy, int64_t n, int64_t group, int row, int rows, int column, int columns,
                     float* gradient) const {
    int64_t width = s_.columns.out_size, plane;
    const float* from = dy.pixels(n, group * s_.outputs, s_.outputs, row * width, rows * width, &plane);
    pack_columns(from + column, plane, s_.outputs, rows * columns, gradient, round_up(s_.outputs, kDepth) * kBlock);
  }

  // patches: [tap][128]
  void multiply(const float* weights, const float* gradient, int pixels, float* patches) const {
    int64_t depth = round_up(s_.outputs, kDepth);
    for (int j = 0; j < pixels;) {
      int blocks = tile_blocks(pixels - j), rows = even_tile(s_.taps(), max_rows(blocks));
      for (int64_t t = 0; t < s_.taps(); t += rows) {
        Tile tile{weights + t * kBlock,
                  gradient + j * depth,
                  weight_places_.data(),
                  gradient_places_.data(),
                  static_cast<int>(weight_places_.size()),
                  depth * kBlock,
                  patches + t * kColumnPixels + j,
                  kColumnPixels,
                  kBlock};
        tile_kernel(TileForm::Matrix, blocks, static_cast<int>(std::min<int64_t>(rows, s_.taps() - t)))(tile);
      }
      j += blocks * kBlock;
    }
  }

  const FewChannelsShape s_;
  const Planes planes_;
  const std::vector<int32_t> places_;
  std::vector<int32_t> weight_places_, gradient_places_;
};

// Above these limits the zeros in blocks of 16 channels cost less.
constexpr int64_t kFewChannels = 15, kFewMade = 6, kFewPatches = 4;
constexpr int64_t kFewInputs = 8;  // of bytes, in groups of four

// Whether places in planes of so many channels, and in the weights, are 32-bit numbers.
bool planes_fit(const ConvolutionShape& s, int64_t channels) {
  double weights = static_cast<double>(s.in_channels / s.groups) * static_cast<double>(s.out_channels / s.groups) *
                   static_cast<double>(s.kernel_height * s.kernel_width);
  double planes = static_cast<double>(channels / s.groups) *
                  static_cast<double>(s.out_height * s.stride_y + s.kernel_height * s.dilation_y + s.in_height) *
                  static_cast<double>(s.out_width * s.stride_x + s.kernel_width * s.dilation_x + s.in_width);
  return planes < 1e8 && weights < 1e8;
}

}  // namespace

std::unique_ptr<ImageKernel> make_few_channels_forward(const ConvolutionShape& s) {
  bool few = s.in_channels / s.groups <= kFewChannels || s.out_channels / s.groups <= kFewMade;
  if (!few || s.out_width < kBlock || !planes_fit(s, s.in_channels)) return nullptr;
  return std::make_unique<FewChannelsForward>(s, false);
}

bool has_exact_few_channels(const ConvolutionShape& s, SumKind sums) {
  const int64_t inputs = s.in_channels / s.groups, outputs = s.out_channels / s.groups;
  // Few outputs do not make up for grouping the input, nor for the sums of windows that unsigned weights need.
  if (sums != SumKind::kByteQuads || s.w.type != ElementType::kInt8 || outputs < kBlock) return false;
  return inputs > 1 && inputs <= kFewInputs && s.out_width >= kBlock && planes_fit(s, s.in_channels);
}

std::unique_ptr<ImageKernel> make_exact_few_channels_forward(const ConvolutionShape& s, SumKind sums) {
  if (!has_exact_few_channels(s, sums)) return nullptr;
  return std::make_unique<FewChannelsForward>(s, false, sums);
}

std::unique_ptr<ImageKernel> make_few_channels_backward_data(const ConvolutionShape& s) {
  int64_t made = s.in_channels / s.groups, read = s.out_channels / s.groups;
  if (!planes_fit(s, s.in_channels + s.out_channels)) return nullptr;
  bool one_phase = s.stride_y == 1 && s.stride_x == 1 && s.in_width >= kBlock;
  if (one_phase && made >= 4 && (read <= kFewChannels || made <= kFewMade))
    return std::make_unique<FewChannelsForward>(s, true);
  if (made > kFewPatches) return nullptr;
  return std::make_unique<FewChannelsBackwardData>(s);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
