// Convolutions with few channels on one side, where blocks of 16 channels would be mostly zeros. Vectors run along the
// rows of the image instead: over padded planes (forward), or over a matrix of patches [tap][pixel] of up to 128 output
// pixels that stays in L1 (both gradients). A "tap" here is one cell (channel, ky, kx) of the kernel.
#include <algorithm>
#include <vector>

#include "gemm/gemm.h"
#include "gemm/pack.h"
#include "kernels/activation.h"
#include "kernels/convolution_axis.h"
#include "kernels/convolution_kernels.h"
#include "kernels/scratch_uses.h"
#include "runtime/scratch.h"
#include "runtime/dynamic_items.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// Rows of an image as [channel][row][column % step][column / step] with a border of zeros: for every tap, the cells of
// neighbouring outputs are neighbours.
class Planes {
 public:
  Planes(const Axis& rows, const Axis& columns, int64_t channels, int out_rows)
      : rows_(rows), columns_(columns), channels_(channels), height_(rows.span(out_rows)) {
    width_ = (columns.span(columns.out_size) + columns.in_step - 1) / columns.in_step;
  }

  int64_t row() const { return int64_t{columns_.in_step} * width_; }
  int64_t out_row() const { return rows_.in_step * row(); }  // from one output row to the next
  int64_t plane() const { return height_ * row(); }
  int64_t count() const { return channels_ * plane(); }
  // Offset of a tap from the cell of its output.
  int64_t tap(int64_t channel, const AxisTap& ky, const AxisTap& kx) const {
    return channel * plane() + (ky.offset - rows_.low) * row() + place(kx.offset);
  }

  // Packs what output rows [row0, row0 + rows) look at. out: count() floats.
  void pack(const ImageSource& image, int64_t n, int64_t channel, int row0, int rows, float* out) const {
    int first = row0 * rows_.in_step + rows_.low, last = first + rows_.span(rows);
    int low = std::max(0, first), high = std::max(low, std::min(rows_.in_size, last));
    std::fill_n(out, count(), 0.f);
    if (low == high) return;
    int64_t width = columns_.in_size;
    for (int64_t c = 0; c < channels_; c++) {
      int64_t unused;
      const float* from = image.pixels(n, channel + c, 1, low * width, (high - low) * width, &unused);
      for (int y = low; y < high; y++, from += width)
        for_cells([&](int x, int64_t place, int step, int64_t cells) {
          float* to = out + c * plane() + (y - first) * row() + place;
          for (int64_t i = 0; i < cells; i++) to[i] = from[x + i * step];
        });
    }
  }

  // image[channel][y][x] (+)= its cell; the planes hold the whole image.
  void unpack(const float* planes, float* image, const float* bias, bool accumulate) const {
    int64_t width = columns_.in_size, pixels = rows_.in_size * width;
    for (int64_t c = 0; c < channels_; c++) {
      float start = bias ? bias[c] : 0.f;
      for (int y = 0; y < rows_.in_size; y++) {
        float* to = image + c * pixels + y * width;
        if (!accumulate) std::fill_n(to, width, start);
        if (y < rows_.low || y - rows_.low >= height_) continue;
        for_cells([&](int x, int64_t place, int step, int64_t cells) {
          const float* from = planes + c * plane() + (y - rows_.low) * row() + place;
          for (int64_t i = 0; i < cells; i++) to[x + i * step] += from[i];
        });
      }
    }
  }

 private:
  int64_t place(int column) const {
    int q = column - columns_.low;
    return int64_t{q % columns_.in_step} * width_ + q / columns_.in_step;
  }
  // body(image column, place, image step, count) for the runs of a row that lie inside the image.
  template <class Body>
  void for_cells(Body body) const {
    int step = columns_.in_step;
    for (int phase = 0; phase < step; phase++) {
      int64_t first = columns_.low + phase;  // image column of cell 0 of the phase
      int64_t skip = first >= 0 ? 0 : (-first + step - 1) / step;
      int64_t end = std::min<int64_t>(width_, (columns_.in_size - first + step - 1) / step);
      if (end > skip) body(static_cast<int>(first + skip * step), phase * int64_t{width_} + skip, step, end - skip);
    }
  }

  const Axis& rows_;
  const Axis& columns_;
  int64_t channels_;
  int height_, width_;
};

// Sizes per group, and the taps that meet the image at all.
struct FewShape {
  explicit FewShape(const ConvolutionShape& s)
      : groups(s.groups),
        inputs(s.in_channels / s.groups),
        outputs(s.out_channels / s.groups),
        all_taps(inputs * s.kernel_height * s.kernel_width),
        rows(forward_rows(s)),
        columns(forward_columns(s)),
        pixels(s.out_height * s.out_width),
        operations(flops(s)) {
    for (int64_t c = 0; c < inputs; c++)
      for (const AxisTap& ky : rows.phases[0].taps)
        for (const AxisTap& kx : columns.phases[0].taps)
          taps.push_back((c * s.kernel_height + ky.tap) * s.kernel_width + kx.tap);
  }
  // Where the taps lie in these planes, in the order of `taps`.
  std::vector<int32_t> places(const Planes& planes) const {
    std::vector<int32_t> list;
    for (int64_t c = 0; c < inputs; c++)
      for (const AxisTap& ky : rows.phases[0].taps)
        for (const AxisTap& kx : columns.phases[0].taps) list.push_back(static_cast<int32_t>(planes.tap(c, ky, kx)));
    return list;
  }
  int64_t tap_count() const { return static_cast<int64_t>(taps.size()); }

  const int64_t groups, inputs, outputs, all_taps;
  const Axis rows, columns;
  const int64_t pixels;
  const double operations;
  std::vector<int64_t> taps;  // index into [inputs][kernel_height][kernel_width]
};

// Tiles of at most 128 output pixels: whole rows, or pieces of one row. body(row, rows, column, columns)
template <class Body>
void for_pixel_tiles(const FewShape& s, Body body) {
  int width = s.columns.out_size, height = s.rows.out_size;
  int columns = std::min(width, kColumnPixels), rows = std::max(1, kColumnPixels / width);
  for (int row = 0; row < height; row += rows)
    for (int column = 0; column < width; column += columns)
      body(row, std::min(rows, height - row), column, std::min(columns, width - column));
}

// y(k, row) = bias(k) + sum over taps of w(k, tap) * (row of the planes, shifted by the tap)
class FewForward : public ImageKernel {
 public:
  explicit FewForward(const ConvolutionShape& s)
      : s_(s), band_rows_(rows_per_band()), planes_(s_.rows, s_.columns, s_.inputs, band_rows_), places_(s_.places(planes_)) {
    for (int64_t t = 0; t < s_.tap_count(); t++) weight_places_.push_back(static_cast<int32_t>(t * s_.outputs));
  }

  void run(const ImageCall& call) const override {
    int threads = useful_threads(call.threads, s_.operations * static_cast<double>(call.batch));
    // [groups][taps][outputs]
    float* weights = scratch(kWeights, static_cast<size_t>(s_.groups * s_.tap_count() * s_.outputs));
    for (int64_t g = 0; g < s_.groups; g++)
      for (int64_t t = 0; t < s_.tap_count(); t++)
        for (int64_t k = 0; k < s_.outputs; k++)
          weights[(g * s_.tap_count() + t) * s_.outputs + k] = call.w[(g * s_.outputs + k) * s_.all_taps + s_.taps[t]];
    int64_t bands = (s_.rows.out_size + band_rows_ - 1) / band_rows_;
    int64_t units = call.batch * s_.groups * bands, splits = 1;
    if (units < 8 * threads)
      while (units * splits % threads != 0) splits++;
    dynamic_items(threads, units * splits, [&](int64_t item) {
      int64_t unit = item / splits, split = item % splits, band = unit % bands * band_rows_;
      int64_t rows = std::min<int64_t>(band_rows_, s_.rows.out_size - band);
      run_rows(call, unit / bands / s_.groups, unit / bands % s_.groups, static_cast<int>(band + rows * split / splits),
               static_cast<int>(band + rows * (split + 1) / splits), weights);
    });
  }

 private:
  int rows_per_band() const {
    constexpr double kBandBytes = 200e3;
    double bytes = 4.0 * static_cast<double>(s_.columns.span(s_.columns.out_size) * s_.rows.in_step * s_.inputs +
                                             s_.columns.out_size * s_.outputs);
    return even_tile(s_.rows.out_size, std::max(4, static_cast<int>(kBandBytes / bytes)));
  }

  void run_rows(const ImageCall& call, int64_t n, int64_t group, int row0, int row1, const float* weights) const {
    if (row0 == row1) return;
    float* planes = scratch(kInputBand, static_cast<size_t>(planes_.count() + kBlock));
    planes_.pack(call.in, n, group * s_.inputs, row0, row1 - row0, planes);
    int64_t width = s_.columns.out_size, span = (row1 - row0) * width;
    float* y = call.out + n * call.out_stride + group * s_.outputs * s_.pixels + row0 * width;
    // Vectors overlap at the end of a row, so sums to be added to y are finished elsewhere first.
    float* sums = call.accumulate ? scratch(kOutputTile, static_cast<size_t>(s_.outputs * span)) : y;
    int64_t plane = call.accumulate ? span : s_.pixels;
    const float* bias = call.bias ? call.bias + group * s_.outputs : nullptr;
    for (int row = 0; row < row1 - row0; row++)
      run_row(planes + row * planes_.out_row(), weights + group * s_.tap_count() * s_.outputs, bias, sums + row * width,
              plane);
    for (int64_t k = 0; k < s_.outputs; k++) {
      float* line = y + k * s_.pixels;
      if (call.accumulate)
        for (int64_t i = 0; i < span; i++) line[i] += sums[k * span + i];
      if (call.activation) activation_forward(*call.activation, line, line, span, call.activation_row);
    }
  }

  // One output row of every output channel, channels `plane` apart.
  void run_row(const float* planes, const float* weights, const float* bias, float* y, int64_t plane) const {
    int width = s_.columns.out_size, vectors = (width + kBlock - 1) / kBlock, rows = even_tile(s_.outputs, kWideRows);
    for (int j = 0; j < vectors;) {
      int blocks = std::min(kWideBlocks, vectors - j);
      int first = std::min(j * kBlock, width - kBlock);
      int64_t second = std::min(j * kBlock + kBlock, width - kBlock) - first;  // the last vector overlaps its neighbour
      for (int64_t k = 0; k < s_.outputs; k += rows) {
        Tile t{weights + k,  planes + first,     weight_places_.data(), places_.data(), static_cast<int>(places_.size()), second,
               y + k * plane + first, plane, second};
        t.write = bias ? Write::RowBias : Write::Set;
        t.bias = bias ? bias + k : nullptr;
        tile_kernel(TileForm::Planes, blocks, static_cast<int>(std::min<int64_t>(rows, s_.outputs - k)))(t);
      }
      j += blocks;
    }
  }

  const FewShape s_;
  const int band_rows_;
  const Planes planes_;
  const std::vector<int32_t> places_;
  std::vector<int32_t> weight_places_;
};

// forward: y(k, i) += w(k, tap) * x(cell of tap at i); hence the patches [tap][i] = sum_k w(k, tap) dy(k, i) are added
// to the cells they came from.
class FewBackwardData : public ImageKernel {
 public:
  explicit FewBackwardData(const ConvolutionShape& s)
      : s_(s), planes_(s_.rows, s_.columns, s_.inputs, s_.rows.out_size), places_(s_.places(planes_)) {
    for (int64_t k = 0; k < round_up(s_.outputs, kDepth); k += kDepth) {
      weight_places_.push_back(static_cast<int32_t>(k / kBlock * s_.tap_count() * kBlock + k % kBlock));
      gradient_places_.push_back(static_cast<int32_t>(k * kBlock));
    }
  }

  void run(const ImageCall& call) const override {
    int threads = useful_threads(call.threads, s_.operations * static_cast<double>(call.batch));
    int64_t group_floats = blocks_of(s_.outputs) * s_.tap_count() * kBlock;
    float* weights = scratch(kWeights, static_cast<size_t>(s_.groups * group_floats));  // [groups][outputs/16][tap][16]
    std::fill_n(weights, s_.groups * group_floats, 0.f);
    for (int64_t g = 0; g < s_.groups; g++)
      for (int64_t k = 0; k < s_.outputs; k++)
        for (int64_t t = 0; t < s_.tap_count(); t++)
          weights[g * group_floats + (k / kBlock * s_.tap_count() + t) * kBlock + k % kBlock] =
              call.w[(g * s_.outputs + k) * s_.all_taps + s_.taps[t]];
    dynamic_items(threads, call.batch * s_.groups, [&](int64_t item) {
      run_image(call, item / s_.groups, item % s_.groups, weights + item % s_.groups * group_floats);
    });
  }

 private:
  void run_image(const ImageCall& call, int64_t n, int64_t group, const float* weights) const {
    float* planes = scratch(kInputBand, static_cast<size_t>(planes_.count()));
    float* patches = scratch(kPatches, static_cast<size_t>(s_.tap_count() * kColumnPixels));
    int64_t depth = round_up(s_.outputs, kDepth);
    float* gradient = scratch(kGradientBand, static_cast<size_t>(depth * kColumnPixels));  // [pixel / 16][outputs][16]
    std::fill_n(planes, planes_.count(), 0.f);
    std::fill_n(gradient, depth * kColumnPixels, 0.f);
    for_pixel_tiles(s_, [&](int row, int rows, int column, int columns) {
      copy_gradient(call.in, n, group, row, rows, column, columns, gradient);
      multiply(weights, gradient, rows * columns, patches);
      for (int64_t t = 0; t < s_.tap_count(); t++)
        for (int r = 0; r < rows; r++) {
          float* to = planes + places_[t] + (row + r) * planes_.out_row() + column;
          const float* from = patches + t * kColumnPixels + r * columns;
          for (int i = 0; i < columns; i++) to[i] += from[i];
        }
    });
    int64_t pixels = int64_t{s_.rows.in_size} * s_.columns.in_size;
    float* dx = call.out + n * call.out_stride + group * s_.inputs * pixels;
    planes_.unpack(planes, dx, call.bias ? call.bias + group * s_.inputs : nullptr, call.accumulate);
    if (call.activation) activation_forward(*call.activation, dx, dx, s_.inputs * pixels, call.activation_row);
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
      int blocks = tile_blocks(pixels - j), rows = even_tile(s_.tap_count(), max_rows(blocks));
      for (int64_t t = 0; t < s_.tap_count(); t += rows) {
        Tile tile{weights + t * kBlock, gradient + j * depth, weight_places_.data(), gradient_places_.data(),
                  static_cast<int>(weight_places_.size()), depth * kBlock, patches + t * kColumnPixels + j,
                  kColumnPixels, kBlock};
        tile_kernel(TileForm::Matrix, blocks, static_cast<int>(std::min<int64_t>(rows, s_.tap_count() - t)))(tile);
      }
      j += blocks * kBlock;
    }
  }

  const FewShape s_;
  const Planes planes_;
  const std::vector<int32_t> places_;
  std::vector<int32_t> weight_places_, gradient_places_;
};

// dw(k, tap) = sum over pixels of patches[tap][pixel] * dy[pixel][k]
class FewWeights : public WeightsKernel {
 public:
  explicit FewWeights(const ConvolutionShape& s)
      : s_(s), planes_(s_.rows, s_.columns, s_.inputs, s_.rows.out_size), places_(s_.places(planes_)) {
    for (int i = 0; i < kColumnPixels / kDepth; i++) {
      patch_places_[i] = i * kDepth;
      gradient_places_[i] = i * kDepth * kBlock;
    }
  }

  void run(const WeightsCall& call) const override {
    constexpr int64_t kMostParts = 16;
    int threads = useful_threads(call.threads, s_.operations * static_cast<double>(call.batch));
    int64_t parts = std::max<int64_t>(1, std::min(call.batch, kMostParts));  // from the shape alone
    // [parts][groups] of { [outputs / 16][tap][16], then the bias [outputs rounded up to 16] }
    int64_t padded = blocks_of(s_.outputs) * kBlock, group_floats = padded * (s_.tap_count() + 1);
    float* sums = scratch(kPartialSums, static_cast<size_t>(parts * s_.groups * group_floats));
    dynamic_items(threads, parts * s_.groups, [&](int64_t item) {
      int64_t part = item / s_.groups, group = item % s_.groups;
      float* sum = sums + item * group_floats;
      std::fill_n(sum, group_floats, 0.f);
      for (int64_t n = call.batch * part / parts; n < call.batch * (part + 1) / parts; n++) add_image(call, n, group, sum);
    });
    parallel_items(useful_threads(threads, 8.0 * static_cast<double>(parts * s_.groups * group_floats)),
                   s_.groups * s_.outputs, [&](int64_t item) {
                     add_parts(call, item / s_.outputs, item % s_.outputs, sums, parts, group_floats);
                   });
  }

 private:
  void add_image(const WeightsCall& call, int64_t n, int64_t group, float* sums) const {
    int64_t padded = blocks_of(s_.outputs) * kBlock;
    float* planes = scratch(kInputBand, static_cast<size_t>(planes_.count() + kBlock));
    float* patches = scratch(kPatches, static_cast<size_t>(s_.tap_count() * kColumnPixels + kBlock));
    float* gradient = scratch(kGradientBand, static_cast<size_t>(padded * kColumnPixels));  // [outputs / 16][pixel][16]
    if (call.dw) planes_.pack(call.x, n, group * s_.inputs, 0, s_.rows.out_size, planes);
    for_pixel_tiles(s_, [&](int row, int rows, int column, int columns) {
      int64_t width = s_.columns.out_size, plane;
      int pixels = rows * columns, steps = static_cast<int>(round_up(pixels, kDepth));
      const float* dy = call.dy.pixels(n, group * s_.outputs, s_.outputs, row * width, rows * width, &plane);
      pack_transposed(dy + column, plane, s_.outputs, pixels, gradient, kColumnPixels * kBlock);
      for (int64_t k = 0; k < padded; k += kBlock)
        std::fill_n(gradient + k * kColumnPixels + pixels * kBlock, (steps - pixels) * kBlock, 0.f);
      if (call.db) add_bias(gradient, pixels, sums + padded * s_.tap_count());
      if (!call.dw) return;
      gather(planes, row, rows, column, columns, patches);
      multiply(patches, gradient, steps, sums);
    });
  }

  void add_bias(const float* gradient, int pixels, float* sums) const {
    for (int64_t k = 0; k < blocks_of(s_.outputs) * kBlock; k += kWidth) {
      const float* from = gradient + k / kBlock * kColumnPixels * kBlock + k % kBlock;
      Vec sum[4] = {Vec{}, Vec{}, Vec{}, Vec{}};
      for (int i = 0; i < pixels; i++) sum[i & 3] += load(from + i * kBlock);
      store(sums + k, load(sums + k) + ((sum[0] + sum[1]) + (sum[2] + sum[3])));
    }
  }

  // patches: [tap][128]. Copies whole vectors, in order, so that what is written too far is overwritten by the next;
  // the cells after the last pixel are set to zero because they are multiplied by zeros.
  void gather(const float* planes, int row, int rows, int column, int columns, float* patches) const {
    int64_t out_row = planes_.out_row();
    int pixels = rows * columns;
    for (int64_t t = 0; t < s_.tap_count(); t++) {
      const float* from = planes + places_[t] + row * out_row + column;
      float* to = patches + t * kColumnPixels;
      for (int r = 0; r < rows; r++, from += out_row, to += columns)
        for (int j = 0; j < columns; j += kWidth) store(to + j, load(from + j));
      for (int i = pixels; i < round_up(pixels, kDepth); i++) patches[t * kColumnPixels + i] = 0.f;
    }
  }

  void multiply(const float* patches, const float* gradient, int steps, float* sums) const {
    for (int64_t k = 0; k < s_.outputs;) {
      int blocks = tile_blocks(s_.outputs - k), rows = even_tile(s_.tap_count(), max_rows(blocks));
      for (int64_t t = 0; t < s_.tap_count(); t += rows) {
        Tile tile{patches + t * kColumnPixels, gradient + k * kColumnPixels, patch_places_, gradient_places_,
                  steps / kDepth, kColumnPixels * kBlock, sums + k * s_.tap_count() + t * kBlock, kBlock,
                  s_.tap_count() * kBlock};
        tile.write = Write::Add;
        tile_kernel(TileForm::Columns, blocks, static_cast<int>(std::min<int64_t>(rows, s_.tap_count() - t)))(tile);
      }
      k += blocks * kBlock;
    }
  }

  void add_parts(const WeightsCall& call, int64_t group, int64_t k, const float* sums, int64_t parts,
                 int64_t group_floats) const {
    auto total = [&](int64_t place) {
      float sum = 0;
      for (int64_t part = 0; part < parts; part++) sum += sums[(part * s_.groups + group) * group_floats + place];
      return sum;
    };
    if (call.dw) {
      float* dw = call.dw + (group * s_.outputs + k) * s_.all_taps;
      if (!call.add_dw) std::fill_n(dw, s_.all_taps, 0.f);
      for (int64_t t = 0; t < s_.tap_count(); t++)
        dw[s_.taps[t]] += total(k / kBlock * s_.tap_count() * kBlock + t * kBlock + k % kBlock);
    }
    if (call.db) {
      float* db = call.db + group * s_.outputs + k;
      float sum = total(blocks_of(s_.outputs) * kBlock * s_.tap_count() + k);
      *db = call.add_db ? *db + sum : sum;
    }
  }

  const FewShape s_;
  const Planes planes_;
  const std::vector<int32_t> places_;
  int32_t patch_places_[kColumnPixels / kDepth], gradient_places_[kColumnPixels / kDepth];
};

// Limits found by timing; above them the zeros in blocks of 16 cost less than the patches.
constexpr int64_t kFewInputs = 15, kFewOutputs = 6;
// The matrix of patches should stay in L2.
bool patches_fit(const ConvolutionShape& s) {
  int64_t taps = s.in_channels / s.groups * s.kernel_height * s.kernel_width;
  double planes = static_cast<double>(s.in_channels / s.groups) *
                  static_cast<double>(s.out_height * s.stride_y + s.kernel_height * s.dilation_y) *
                  static_cast<double>(s.out_width * s.stride_x + s.kernel_width * s.dilation_x);
  return taps * kColumnPixels <= 200000 && planes < 4e6;
}

}  // namespace

std::unique_ptr<ImageKernel> make_few_forward(const ConvolutionShape& s) {
  bool few = s.in_channels / s.groups <= kFewInputs || s.out_channels / s.groups <= kFewOutputs;
  if (!few || s.out_width < kBlock || !patches_fit(s)) return nullptr;
  return std::make_unique<FewForward>(s);
}

std::unique_ptr<ImageKernel> make_few_backward_data(const ConvolutionShape& s) {
  if (s.in_channels / s.groups > kFewInputs || !patches_fit(s)) return nullptr;
  return std::make_unique<FewBackwardData>(s);
}

std::unique_ptr<WeightsKernel> make_few_weights(const ConvolutionShape& s) {
  if (s.in_channels / s.groups > kFewInputs || !patches_fit(s)) return nullptr;
  return std::make_unique<FewWeights>(s);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
