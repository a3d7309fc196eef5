// Depthwise convolution with step 1 of narrow images, or with rows of 5 or 7 taps: 16 channels side by side in the
// lanes. Vectors are full although rows may be shorter than half a vector, and no load crosses a line of the cache, of
// which large kernels make many (measured: 3 x 3 on longer rows is faster plane by plane). Cells of images lie as
// [row][column][16 channels] with a border of zeros:
//
//   forward  y(i) = b + sum over taps t of w(t) x(i + t - pad)
//   hence    dx(j) = sum_t w(t) dz(j + pad - t), dw(t) = sum_i dz(i) x(i + t - pad), db = sum_i dz(i)
#include <algorithm>
#include <vector>

#include "common/scratch_uses.h"
#include "gemm/pack.h"
#include "kernels/activation/activation.h"
#include "kernels/convolution/depthwise.h"
#include "kernels/convolution/kernels.h"
#include "runtime/dynamic_items.h"
#include "runtime/scratch.h"
#include "simd/wide.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kMostCells = 5000;    // of a bordered image: two of them, 16 channels each, stay in L2
constexpr int64_t kFewestChannels = 8;  // fewer leave most lanes empty
constexpr int64_t kMinTasks = 16;       // backward: blocks of channels and, if these are few, parts of the batch
constexpr int64_t kSerialElements = 32768;
constexpr int64_t kRowsInSingle = 8;  // summed in single precision before they are added to a double
constexpr int64_t kRunFloats = 4096;  // of blocks of channels that a task takes together, as they lie side by side
constexpr int64_t kSamples = 4;       // forward: of one task
constexpr int kCells = 4;             // of a result in the making at a time
constexpr int kLongCells = 7;         // the same for long rows of taps: with 7 taps and a cell of the input, 15 vectors

// An image with a border of zeros, `up` rows above and `left` columns to the left: [rows][columns][16].
struct Bordered {
  int64_t rows, columns, height, width, up, left;
  std::vector<int32_t> places;  // of the pixels of the image; -1: cut off

  Bordered(int64_t rows, int64_t columns, int64_t height, int64_t width, int64_t up, int64_t left)
      : rows(rows), columns(columns), height(height), width(width), up(up), left(left) {
    for (int64_t y = 0; y < height; y++)
      for (int64_t x = 0; x < width; x++) {
        bool inside = y + up < rows && x + left < columns;
        places.push_back(inside ? static_cast<int32_t>(((y + up) * columns + x + left) * kBlock) : -1);
      }
  }
  int64_t floats() const { return rows * columns * kBlock; }
  int64_t origin() const { return (up * columns + left) * kBlock; }

  // Channels [channel, channel + lanes) of sample n into `out`, whose border is zero already; lanes beyond are zeros.
  void pack(const ImageSource& image, int64_t n, int64_t channel, int lanes, float* out) const {
    float unused[kBlock];
    float* dump = unused;
    const int32_t* place = places.data();
    int64_t stride, count = height * width;
    const float* pixels = image.pixels(n, channel, lanes, 0, count, &stride);
    transpose_rows<true>(pixels, stride, lanes, count, [=](int64_t j) { return place[j] < 0 ? dump : out + place[j]; });
  }
};

// Offsets of the taps from the cell of their window, in the order of the weights.
using Offsets = std::vector<int64_t>;

// out[r][c] = start + sum over taps of w[tap] * in[r][c][offset[tap]]
void correlate(const float* in, int64_t in_columns, const Offsets& offsets, const float* w, const float* start,
               int64_t rows, int64_t columns, float* out) {
  const size_t taps = offsets.size();
  const int64_t* offset = offsets.data();
  for (int part = 0; part < kBlock; part += kWidth)
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < columns; c += kCells) {
        int64_t have = std::min<int64_t>(kCells, columns - c);
        const float* cell = in + (r * in_columns + c) * kBlock + part;
        float* to = out + (r * columns + c) * kBlock + part;
        if (have == kCells) {
          Vec sum[kCells];
          OPENBNNS_UNROLL for (int q = 0; q < kCells; q++) sum[q] = load(start + part);
          for (size_t t = 0; t < taps; t++) {
            Vec weight = load(w + t * kBlock + part);
            OPENBNNS_UNROLL for (int q = 0; q < kCells; q++) sum[q] += weight * load(cell + offset[t] + q * kBlock);
          }
          OPENBNNS_UNROLL for (int q = 0; q < kCells; q++) store(to + q * kBlock, sum[q]);
        } else {
          for (int q = 0; q < have; q++) {
            Vec sum = load(start + part);
            for (size_t t = 0; t < taps; t++) sum += load(w + t * kBlock + part) * load(cell + offset[t] + q * kBlock);
            store(to + q * kBlock, sum);
          }
        }
      }
}

// The same for neighbouring taps, kTaps in a row: every cell of the input is loaded once for up to kTaps results.
// offsets: of the first tap of each row, `step` (16 or -16) elements from one tap to the next.
template <int kTaps, int kResults>
OPENBNNS_INLINE void correlate_cells(const float* cell, const Offsets& offsets, int64_t step, const float* w, Vec start,
                                     float* out) {
  Vec sum[kResults];
  OPENBNNS_UNROLL for (int q = 0; q < kResults; q++) sum[q] = start;
  for (size_t t = 0; t < offsets.size(); t += kTaps) {
    // the leftmost tap is the first one, or the last if the row runs to the left
    const float *x = cell + std::min(offsets[t], offsets[t + kTaps - 1]),
                *weights = w + static_cast<int64_t>(t) * kBlock;
    if (step < 0) weights += (kTaps - 1) * kBlock;
    Vec weight[kTaps];
    OPENBNNS_UNROLL for (int k = 0; k < kTaps; k++) weight[k] = load(weights + k * step);
    OPENBNNS_UNROLL for (int j = 0; j < kResults + kTaps - 1; j++) {
      Vec value = load(x + j * kBlock);
      OPENBNNS_UNROLL for (int k = 0; k < kTaps; k++) if (j - k >= 0 && j - k < kResults) sum[j - k] +=
          weight[k] * value;
    }
  }
  OPENBNNS_UNROLL for (int q = 0; q < kResults; q++) store(out + q * kBlock, sum[q]);
}

template <int kTaps>
void correlate_rows(const float* in, int64_t in_columns, const Offsets& offsets, const float* w, const float* start,
                    int64_t rows, int64_t columns, float* out) {
  const int64_t step = offsets[1] - offsets[0];
  for (int part = 0; part < kBlock; part += kWidth)
    for (int64_t r = 0; r < rows; r++) {
      const float* cell = in + r * in_columns * kBlock + part;
      float* to = out + r * columns * kBlock + part;
      int64_t c = 0;
      for (; c + kLongCells <= columns; c += kLongCells)
        correlate_cells<kTaps, kLongCells>(cell + c * kBlock, offsets, step, w + part, load(start + part),
                                           to + c * kBlock);
      for (; c < columns; c++)
        correlate_cells<kTaps, 1>(cell + c * kBlock, offsets, step, w + part, load(start + part), to + c * kBlock);
    }
}

// row: taps that neighbour each other in a row, as neighbours() counts them
void correlate_any(const float* in, int64_t in_columns, const Offsets& offsets, int row, const float* w,
                   const float* start, int64_t rows, int64_t columns, float* out) {
  auto run = row == 3 ? correlate_rows<3> : row == 5 ? correlate_rows<5> : row == 7 ? correlate_rows<7> : correlate;
  run(in, in_columns, offsets, w, start, rows, columns, out);
}

// sums[tap][16] += sum over windows of dz[r][c] * x[r][c][offset[tap]] for kTaps taps; the sums are doubles.
template <int kTaps>
void add_products(const float* x, int64_t x_columns, const int64_t* offset, const float* dz, int64_t dz_columns,
                  int64_t rows, int64_t columns, double* sums) {
  for (int part = 0; part < kBlock; part += kWidth)
    for (int64_t first = 0; first < rows; first += kRowsInSingle) {
      Vec sum[kTaps] = {};
      for (int64_t r = first; r < std::min(rows, first + kRowsInSingle); r++) {
        const float* cell = x + r * x_columns * kBlock + part;
        const float* gradient = dz + r * dz_columns * kBlock + part;
        for (int64_t c = 0; c < columns; c++, cell += kBlock, gradient += kBlock) {
          Vec g = load(gradient);
          OPENBNNS_UNROLL for (int t = 0; t < kTaps; t++) sum[t] += g * load(cell + offset[t]);
        }
      }
      for (int t = 0; t < kTaps; t++) {
        double* to = sums + t * kBlock + part;
        store_wide(to, load_wide(to) + widen(sum[t]));
      }
    }
}

// The same for kTaps neighbouring taps: every cell of x is loaded once for up to kTaps sums.
template <int kTaps>
void add_row_products(const float* x, int64_t x_columns, const float* dz, int64_t dz_columns, int64_t rows,
                      int64_t columns, double* sums) {
  for (int part = 0; part < kBlock; part += kWidth)
    for (int64_t first = 0; first < rows; first += kRowsInSingle) {
      Vec sum[kTaps] = {};
      for (int64_t r = first; r < std::min(rows, first + kRowsInSingle); r++) {
        const float* cell = x + r * x_columns * kBlock + part;
        const float* gradient = dz + r * dz_columns * kBlock + part;
        int64_t c = 0;
        for (; c + kLongCells <= columns;
             c += kLongCells, cell += kLongCells * kBlock, gradient += kLongCells * kBlock) {
          Vec g[kLongCells];
          OPENBNNS_UNROLL for (int q = 0; q < kLongCells; q++) g[q] = load(gradient + q * kBlock);
          OPENBNNS_UNROLL for (int j = 0; j < kLongCells + kTaps - 1; j++) {
            Vec value = load(cell + j * kBlock);
            OPENBNNS_UNROLL for (int k = 0; k < kTaps; k++) if (j - k >= 0 && j - k < kLongCells) sum[k] +=
                g[j - k] * value;
          }
        }
        for (; c < columns; c++, cell += kBlock, gradient += kBlock) {
          Vec g = load(gradient);
          OPENBNNS_UNROLL for (int k = 0; k < kTaps; k++) sum[k] += g * load(cell + k * kBlock);
        }
      }
      for (int t = 0; t < kTaps; t++) {
        double* to = sums + t * kBlock + part;
        store_wide(to, load_wide(to) + widen(sum[t]));
      }
    }
}

// sums[16] += sum of the cells
void add_cells(const float* cells, int64_t pitch, int64_t rows, int64_t columns, double* sums) {
  for (int part = 0; part < kBlock; part += kWidth)
    for (int64_t first = 0; first < rows; first += kRowsInSingle) {
      Vec even{}, odd{};
      for (int64_t r = first; r < std::min(rows, first + kRowsInSingle); r++) {
        const float* cell = cells + r * pitch * kBlock + part;
        int64_t c = 0;
        for (; c + 2 <= columns; c += 2, cell += 2 * kBlock) {
          even += load(cell);
          odd += load(cell + kBlock);
        }
        if (c < columns) even += load(cell);
      }
      store_wide(sums + part, load_wide(sums + part) + widen(even + odd));
    }
}

class DepthwiseLanes final : public Plan {
 public:
  DepthwiseLanes(const ConvolutionShape& s, const ActivationSpec& activation)
      : channels_(s.in_channels),
        taps_(s.kernel_height * s.kernel_width),
        row_(neighbours(s)),
        activation_(activation),
        in_plane_(s.in_height * s.in_width),
        out_plane_(s.out_height * s.out_width),
        group_(std::clamp<int64_t>(kRunFloats / (kBlock * in_plane_), 1,
                                   std::max<int64_t>(1, blocks_of(channels_) / kMinTasks))),
        x_(s.out_height + reach_y(s), s.out_width + reach_x(s), s.in_height, s.in_width, s.pad_up, s.pad_left),
        dz_(s.in_height + reach_y(s), s.in_width + reach_x(s), s.out_height, s.out_width, reach_y(s) - s.pad_up,
            reach_x(s) - s.pad_left) {
    for (int64_t y = 0; y < s.kernel_height; y++)
      for (int64_t x = 0; x < s.kernel_width; x++) {
        int64_t down = y * s.dilation_y, right = x * s.dilation_x;
        x_offsets_.push_back((down * x_.columns + right) * kBlock);
        dz_offsets_.push_back(((reach_y(s) - down) * dz_.columns + reach_x(s) - right) * kBlock);
      }
  }

  static bool takes(const ConvolutionShape& s) {
    bool plain = s.out_channels == s.in_channels && s.in_channels >= kFewestChannels && s.stride_y == 1 &&
                 s.stride_x == 1 && s.kernel_height * s.kernel_width <= 49;
    if (!plain || (neighbours(s) < 5 && 2 * std::min(s.in_width, s.out_width) > kWidth + 2)) return false;
    // windows that lie in the padding alone would need a border on the other side
    bool met = s.pad_up <= reach_y(s) && s.pad_left <= reach_x(s) && s.out_height <= s.in_height + s.pad_up &&
               s.out_width <= s.in_width + s.pad_left;
    return met && (s.out_height + reach_y(s)) * (s.out_width + reach_x(s)) <= kMostCells &&
           (s.in_height + reach_y(s)) * (s.in_width + reach_x(s)) <= kMostCells;
  }

  void forward(const Call& call) override {
    const float* w = transpose_weights(call);
    ImageSource image{call.address[X], call.stride[X], in_plane_, x_.width};
    int64_t runs = (call.batch + kSamples - 1) / kSamples;
    dynamic_items(threads(call), runs * groups(), [&](int64_t item) {
      int64_t run = item / groups(), first = item % groups() * group_, last = std::min(blocks(), first + group_);
      float* x = zeros(kInputBand, x_);
      for (int64_t n = run * kSamples; n < std::min(call.batch, (run + 1) * kSamples); n++)
        for (int64_t block = first; block < last; block++)
          forward_block(call, image, n, block, w + block * taps_ * kBlock, x);
    });
  }

  void backward(const Call& call) override {
    const float* w = call.address[DX] ? transpose_weights(call) : nullptr;
    // by shape and batch alone, so that the order of the sums does not depend on the threads
    int64_t parts = std::max<int64_t>(1, std::min(call.batch, kMinTasks / blocks()));
    bool sums = call.address[DW] || call.address[DB];
    double* all =
        sums ? reinterpret_cast<double*>(scratch(kPartialSums, static_cast<size_t>(parts * blocks() * sum_count() * 2)))
             : nullptr;
    dynamic_items(threads(call), parts * groups(), [&](int64_t task) {
      int64_t part = task / groups(), first = task % groups() * group_, last = std::min(blocks(), first + group_);
      double* to = sums ? all + (part * blocks() + first) * sum_count() : nullptr;
      if (to) std::fill_n(to, (last - first) * sum_count(), 0.0);
      float *x = call.address[DW] ? zeros(kInputBand, x_) : nullptr, *dz = zeros(kGradientBand, dz_);
      for (int64_t n = call.batch * part / parts; n < call.batch * (part + 1) / parts; n++)
        for (int64_t block = first; block < last; block++) {
          check_interruption();
          backward_block(call, n, block, w, x, dz, to ? to + (block - first) * sum_count() : nullptr);
        }
    });
    if (sums) write_sums(call, parts, all);
  }

 private:
  static int64_t reach_y(const ConvolutionShape& s) { return (s.kernel_height - 1) * s.dilation_y; }
  static int64_t reach_x(const ConvolutionShape& s) { return (s.kernel_width - 1) * s.dilation_x; }
  // Taps of a row if they are neighbours and 3, 5 or 7, else 0.
  static int neighbours(const ConvolutionShape& s) {
    bool odd = s.kernel_width == 3 || s.kernel_width == 5 || s.kernel_width == 7;
    return odd && s.dilation_x == 1 ? static_cast<int>(s.kernel_width) : 0;
  }
  int64_t blocks() const { return blocks_of(channels_); }
  int64_t groups() const { return (blocks() + group_ - 1) / group_; }
  int lanes(int64_t channel) const { return static_cast<int>(std::min<int64_t>(kBlock, channels_ - channel)); }
  int64_t sum_count() const { return (taps_ + 1) * kBlock; }  // of a block: [taps, then one for the bias][16]
  int threads(const Call& call) const {
    return call.batch * channels_ * (in_plane_ + out_plane_) < 2 * kSerialElements ? 1 : call.threads;
  }

  static float* zeros(int slot, const Bordered& image) {
    float* p = scratch(slot, static_cast<size_t>(image.floats()));
    std::fill_n(p, image.floats(), 0.f);
    return p;
  }

  // [blocks][taps][16] of w: [channels][taps]
  const float* transpose_weights(const Call& call) const {
    float* w = scratch(kWeights, static_cast<size_t>(blocks() * taps_ * kBlock));
    pack_transposed(call.address[W], taps_, channels_, taps_, w, taps_ * kBlock);
    return w;
  }

  void forward_block(const Call& call, const ImageSource& image, int64_t n, int64_t block, const float* w,
                     float* x) const {
    int64_t channel = block * kBlock;
    x_.pack(image, n, channel, lanes(channel), x);
    float start[kBlock] = {};
    if (call.address[B]) std::copy_n(call.address[B] + channel, lanes(channel), start);
    float* tile = scratch(kOutputTile, static_cast<size_t>(out_plane_ * kBlock));
    correlate_any(x, x_.columns, x_offsets_, row_, w, start, dz_.height, dz_.width, tile);
    float* y = call.address[Y] + n * call.stride[Y] + channel * out_plane_;
    unpack_block<false, true>(tile, out_plane_, y, out_plane_, lanes(channel));
    if (is_identity(activation_)) return;
    for (int64_t c = 0; c < lanes(channel); c++, y += out_plane_)
      activation_forward(activation_, y, y, out_plane_, dz_.width);
  }

  // x, dz: bordered images, zero outside
  void backward_block(const Call& call, int64_t n, int64_t block, const float* w, float* x, float* dz,
                      double* sums) const {
    int64_t channel = block * kBlock;
    ImageSource gradient{call.address[DY], call.stride[DY], out_plane_, dz_.width};
    if (!is_identity(activation_)) {
      gradient.output = call.address[Y];
      gradient.output_stride = call.stride[Y];
      gradient.activation = &activation_;
    }
    dz_.pack(gradient, n, channel, lanes(channel), dz);
    if (call.address[DB]) add_cells(dz + dz_.origin(), dz_.columns, dz_.height, dz_.width, sums + taps_ * kBlock);
    if (call.address[DW]) {
      x_.pack({call.address[X], call.stride[X], in_plane_, x_.width}, n, channel, lanes(channel), x);
      add_all_products(x, dz + dz_.origin(), sums);
    }
    if (!call.address[DX]) return;
    const float start[kBlock] = {};
    float* tile = scratch(kOutputTile, static_cast<size_t>(in_plane_ * kBlock));
    correlate_any(dz, dz_.columns, dz_offsets_, row_, w + block * taps_ * kBlock, start, x_.height, x_.width, tile);
    float* dx = call.address[DX] + n * call.stride[DX] + channel * in_plane_;
    if (call.adds(DX))
      unpack_block<true>(tile, in_plane_, dx, in_plane_, lanes(channel));
    else
      unpack_block<false, true>(tile, in_plane_, dx, in_plane_, lanes(channel));
  }

  void add_all_products(const float* x, const float* dz, double* sums) const {
    int64_t t = 0;
    auto add_row = row_ == 5 ? add_row_products<5> : add_row_products<7>;
    for (; row_ >= 5 && t < taps_; t += row_)
      add_row(x + x_offsets_[t], x_.columns, dz, dz_.columns, dz_.height, dz_.width, sums + t * kBlock);
    for (; t + 9 <= taps_; t += 9)
      add_products<9>(x, x_.columns, x_offsets_.data() + t, dz, dz_.columns, dz_.height, dz_.width, sums + t * kBlock);
    for (; t < taps_; t++)
      add_products<1>(x, x_.columns, x_offsets_.data() + t, dz, dz_.columns, dz_.height, dz_.width, sums + t * kBlock);
  }

  // Adds the parts of the batch in order and stores dw [channels][taps] and db [channels].
  void write_sums(const Call& call, int64_t parts, const double* all) const {
    auto write = [&](float* to, int64_t c, int64_t t, bool adds) {
      double total = 0;
      for (int64_t part = 0; part < parts; part++)
        total += all[(part * blocks() + c / kBlock) * sum_count() + t * kBlock + c % kBlock];
      *to = static_cast<float>(adds ? *to + total : total);
    };
    for (int64_t c = 0; c < channels_; c++) {
      for (int64_t t = 0; call.address[DW] && t < taps_; t++)
        write(call.address[DW] + c * taps_ + t, c, t, call.adds(DW));
      if (call.address[DB]) write(call.address[DB] + c, c, taps_, call.adds(DB));
    }
  }

  const int64_t channels_, taps_;
  const int row_;  // see neighbours()
  const ActivationSpec activation_;
  const int64_t in_plane_, out_plane_;
  const int64_t group_;    // blocks of a task
  const Bordered x_, dz_;  // cells of windows, and of what dx looks at
  Offsets x_offsets_, dz_offsets_;
};

}  // namespace

std::unique_ptr<Plan> make_depthwise_lanes(const ConvolutionShape& shape, const ActivationSpec& activation) {
  if (!DepthwiseLanes::takes(shape)) return nullptr;
  return std::make_unique<DepthwiseLanes>(shape, activation);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
