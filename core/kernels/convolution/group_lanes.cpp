// Convolution in groups of few channels, depthwise ones among them: 16 groups side by side in the lanes. Vectors are
// full although rows may be shorter than half a vector and groups have a channel or a few, and no load crosses a line
// of the cache, of which large kernels make many. Cells of images lie as [channel of the group][row][column][16 groups]
// with a border of zeros. With sums over taps t, and over the channels of the other image in the same group:
//
//   forward  y(i) = b + sum w(t) x(step * i + t - pad)
//   hence    dx(j) = sum w(t) dz(j + pad - t), dw(t) = sum_i dz(i) x(step * i + t - pad), db = sum_i dz(i)
//
// where the cells of dz stand `step` apart, with zeros between them, in the image that dx looks at.
#include "kernels/convolution/group_lanes.h"

#include <algorithm>
#include <vector>

#include "common/scratch_uses.h"
#include "gemm/pack.h"
#include "kernels/activation/activation.h"
#include "kernels/convolution/kernels.h"
#include "runtime/dynamic_items.h"
#include "runtime/scratch.h"
#include "simd/wide.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kMostCells = 7000;  // of the bordered images of a group: both, 16 groups each, stay in L2
constexpr int64_t kFewestGroups = 8;  // fewer leave most lanes empty
constexpr int64_t kMostChannels = 8;  // of a group: more fill lanes by themselves
constexpr int64_t kFewTasks = 16;     // for a sample
constexpr int64_t kTasks = 160;  // that spread evenly over up to 16 workers, if there are as many blocks and samples
constexpr int64_t kMostSums = 1 << 19;  // of all parts of the batch, whose sums are added up in the end
constexpr int64_t kSerialElements = 32768;
constexpr int64_t kRowsInSingle = 8;  // summed in single precision before they are added to a double
constexpr int64_t kRunFloats = 4096;  // of blocks of groups that a task takes together, as they lie side by side
constexpr int64_t kSamples = 4;       // forward: of one task, at most
constexpr int kCells = 4;             // of a result in the making at a time
constexpr int kLongCells = 7;         // the same for long rows of taps: with 7 taps and a cell of the input, 15 vectors

// The images of the channels of a group, with a border of zeros, `up` rows above and `left` columns to the left of
// each: [channels][rows][columns][16].
struct Bordered {
  int64_t channels, rows, columns, height, width, up, left, step_y, step_x;
  std::vector<int32_t> places;  // of the pixels of an image; -1: cut off

  Bordered(int64_t channels, int64_t rows, int64_t columns, int64_t height, int64_t width, int64_t up, int64_t left,
           int64_t step_y, int64_t step_x)
      : channels(channels),
        rows(rows),
        columns(columns),
        height(height),
        width(width),
        up(up),
        left(left),
        step_y(step_y),
        step_x(step_x) {
    for (int64_t y = up; y < up + height * step_y; y += step_y)
      for (int64_t x = left; x < left + width * step_x; x += step_x)
        places.push_back(y < rows && x < columns ? static_cast<int32_t>((y * columns + x) * kBlock) : -1);
  }
  int64_t image_floats() const { return rows * columns * kBlock; }
  int64_t floats() const { return channels * image_floats(); }
  int64_t origin() const { return (up * columns + left) * kBlock; }

  // Groups [group, group + lanes) of sample n into `out`, whose border is zero already; lanes beyond are zeros.
  void pack(const ImageSource& image, int64_t n, int64_t group, int lanes, float* out) const {
    float unused[kBlock];
    float* dump = unused;
    const int32_t* place = places.data();
    int64_t stride, count = height * width;
    const float* pixels = image.pixels(n, group * channels, lanes * channels, 0, count, &stride);
    for (int64_t c = 0; c < channels; c++, pixels += stride, out += image_floats())
      transpose_rows<true>(pixels, stride * channels, lanes, count,
                           [=](int64_t j) { return place[j] < 0 ? dump : out + place[j]; });
  }
};

// Offsets of the taps from the cell of their window, [channel][tap].
using Offsets = std::vector<int64_t>;

// Cells from one window to the next, in floats.
struct Steps {
  int64_t row, column;
};

// out[r][c] = start + sum over taps of w[tap] * in[r][c][offset[tap]]
void correlate(const float* in, Steps steps, const Offsets& offsets, const float* w, const float* start, int64_t rows,
               int64_t columns, float* out) {
  const size_t taps = offsets.size();
  const int64_t* offset = offsets.data();
  for (int part = 0; part < kBlock; part += kWidth)
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < columns; c += kCells) {
        int64_t have = std::min<int64_t>(kCells, columns - c);
        const float* cell = in + r * steps.row + c * steps.column + part;
        float* to = out + (r * columns + c) * kBlock + part;
        if (have == kCells) {
          Vec sum[kCells];
          OPENBNNS_UNROLL for (int q = 0; q < kCells; q++) sum[q] = load(start + part);
          for (size_t t = 0; t < taps; t++) {
            Vec weight = load(w + t * kBlock + part);
            OPENBNNS_UNROLL for (int q = 0; q < kCells; q++) sum[q] +=
                weight * load(cell + offset[t] + q * steps.column);
          }
          OPENBNNS_UNROLL for (int q = 0; q < kCells; q++) store(to + q * kBlock, sum[q]);
        } else {
          for (int q = 0; q < have; q++) {
            Vec sum = load(start + part);
            for (size_t t = 0; t < taps; t++)
              sum += load(w + t * kBlock + part) * load(cell + offset[t] + q * steps.column);
            store(to + q * kBlock, sum);
          }
        }
      }
}

// The same for step 1 and neighbouring taps, kTaps in a row: every cell of the input is loaded once for up to kTaps
// results. offsets: of the first tap of each row, `step` (16 or -16) elements from one tap to the next.
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
void correlate_rows(const float* in, Steps steps, const Offsets& offsets, const float* w, const float* start,
                    int64_t rows, int64_t columns, float* out) {
  const int64_t step = offsets[1] - offsets[0];
  for (int part = 0; part < kBlock; part += kWidth)
    for (int64_t r = 0; r < rows; r++) {
      const float* cell = in + r * steps.row + part;
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
void correlate_any(const float* in, Steps steps, const Offsets& offsets, int row, const float* w, const float* start,
                   int64_t rows, int64_t columns, float* out) {
  if (steps.column != kBlock) row = 0;
  auto run = row == 3 ? correlate_rows<3> : row == 5 ? correlate_rows<5> : row == 7 ? correlate_rows<7> : correlate;
  run(in, steps, offsets, w, start, rows, columns, out);
}

// sums[tap][16] += what add_row(cell, gradient, sums in single precision) adds for every row of windows.
template <int kTaps, class AddRow>
OPENBNNS_INLINE void add_rows(const float* x, Steps x_steps, const float* dz, Steps dz_steps, int64_t rows,
                              double* sums, AddRow add_row) {
  for (int part = 0; part < kBlock; part += kWidth)
    for (int64_t first = 0; first < rows; first += kRowsInSingle) {
      Vec sum[kTaps] = {};
      for (int64_t r = first; r < std::min(rows, first + kRowsInSingle); r++)
        add_row(x + r * x_steps.row + part, dz + r * dz_steps.row + part, sum);
      for (int t = 0; t < kTaps; t++) {
        double* to = sums + t * kBlock + part;
        store_wide(to, load_wide(to) + widen(sum[t]));
      }
    }
}

// sums[tap][16] += sum over windows of dz[r][c] * x[r][c][offset[tap]] for kTaps taps; the sums are doubles.
template <int kTaps>
void add_products(const float* x, Steps x_steps, const int64_t* offset, const float* dz, Steps dz_steps, int64_t rows,
                  int64_t columns, double* sums) {
  add_rows<kTaps>(x, x_steps, dz, dz_steps, rows, sums,
                  [&](const float* cell, const float* gradient, Vec(&sum)[kTaps]) {
                    for (int64_t c = 0; c < columns; c++, cell += x_steps.column, gradient += dz_steps.column) {
                      Vec g = load(gradient);
                      OPENBNNS_UNROLL for (int t = 0; t < kTaps; t++) sum[t] += g * load(cell + offset[t]);
                    }
                  });
}

// The same for step 1 and kTaps neighbouring taps: every cell of x is loaded once for up to kTaps sums.
template <int kTaps>
void add_row_products(const float* x, Steps x_steps, const float* dz, Steps dz_steps, int64_t rows, int64_t columns,
                      double* sums) {
  add_rows<kTaps>(x, x_steps, dz, dz_steps, rows, sums,
                  [=](const float* cell, const float* gradient, Vec(&sum)[kTaps]) {
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
                  });
}

// sums[16] += sum of the cells
void add_cells(const float* cells, Steps steps, int64_t rows, int64_t columns, double* sums) {
  for (int part = 0; part < kBlock; part += kWidth)
    for (int64_t first = 0; first < rows; first += kRowsInSingle) {
      Vec even{}, odd{};
      for (int64_t r = first; r < std::min(rows, first + kRowsInSingle); r++) {
        const float* cell = cells + r * steps.row + part;
        int64_t c = 0;
        for (; c + 2 <= columns; c += 2, cell += 2 * steps.column) {
          even += load(cell);
          odd += load(cell + steps.column);
        }
        if (c < columns) even += load(cell);
      }
      store_wide(sums + part, load_wide(sums + part) + widen(even + odd));
    }
}

class GroupLanes final : public Plan {
 public:
  GroupLanes(const ConvolutionShape& s, const ActivationSpec& activation)
      : groups_(s.groups),
        inputs_(s.in_channels / s.groups),
        outputs_(s.out_channels / s.groups),
        taps_(s.kernel_height * s.kernel_width),
        row_(neighbours(s)),
        activation_(activation),
        in_plane_(s.in_height * s.in_width),
        out_plane_(s.out_height * s.out_width),
        together_(std::clamp<int64_t>(kRunFloats / (kBlock * inputs_ * in_plane_), 1,
                                      std::max<int64_t>(1, blocks() / kFewTasks))),
        x_(inputs_, (s.out_height - 1) * s.stride_y + 1 + reach_y(s), (s.out_width - 1) * s.stride_x + 1 + reach_x(s),
           s.in_height, s.in_width, s.pad_up, s.pad_left, 1, 1),
        dz_(outputs_, s.in_height + reach_y(s), s.in_width + reach_x(s), s.out_height, s.out_width,
            reach_y(s) - s.pad_up, reach_x(s) - s.pad_left, s.stride_y, s.stride_x) {
    for (int64_t c = 0; c < inputs_; c++)
      each_tap(s, [&](int64_t down, int64_t right) {
        x_offsets_.push_back(c * x_.image_floats() + (down * x_.columns + right) * kBlock);
      });
    for (int64_t c = 0; c < outputs_; c++)
      each_tap(s, [&](int64_t down, int64_t right) {
        dz_offsets_.push_back(c * dz_.image_floats() +
                              ((reach_y(s) - down) * dz_.columns + reach_x(s) - right) * kBlock);
      });
  }

  static bool takes(const ConvolutionShape& s) {
    const int64_t inputs = s.in_channels / s.groups, outputs = s.out_channels / s.groups;
    const bool depthwise = inputs == 1 && outputs == 1, step_one = s.stride_y == 1 && s.stride_x == 1;
    if (s.groups < kFewestGroups || s.kernel_height * s.kernel_width > 49) return false;
    // longer rows are faster plane by plane
    const bool short_rows = 2 * std::min(s.in_width, s.out_width) <= kWidth + 2;
    if (depthwise && !short_rows && !(step_one && neighbours(s) >= 5)) return false;
    if (std::max(inputs, outputs) > kMostChannels) return false;
    // longer chains, and zeros between the cells of dz that would meet weights
    if (s.exact && !(depthwise && step_one)) return false;
    // windows that lie in the padding alone would need a border on the other side
    bool met = s.pad_up <= reach_y(s) && s.pad_left <= reach_x(s) &&
               (s.out_height - 1) * s.stride_y < s.in_height + s.pad_up &&
               (s.out_width - 1) * s.stride_x < s.in_width + s.pad_left;
    const int64_t x_cells =
        ((s.out_height - 1) * s.stride_y + 1 + reach_y(s)) * ((s.out_width - 1) * s.stride_x + 1 + reach_x(s));
    return met && inputs * x_cells <= kMostCells &&
           outputs * (s.in_height + reach_y(s)) * (s.in_width + reach_x(s)) <= kMostCells;
  }

  void forward(const Call& call) override {
    const float* w = transpose_weights(call);
    ImageSource image{call.address[X], call.stride[X], in_plane_, x_.width};
    const int64_t samples = std::clamp<int64_t>(call.batch * tasks() / kTasks, 1, kSamples);
    const int64_t runs = (call.batch + samples - 1) / samples;
    dynamic_items(threads(call), runs * tasks(), [&](int64_t item) {
      int64_t run = item / tasks(), first = item % tasks() * together_, last = std::min(blocks(), first + together_);
      float* x = zeros(kInputBand, x_);
      for (int64_t n = run * samples; n < std::min(call.batch, (run + 1) * samples); n++)
        for (int64_t block = first; block < last; block++) {
          check_interruption();
          forward_block(call, image, n, block, w + block * block_weights(), x);
        }
    });
  }

  void backward(const Call& call) override {
    const float* w = call.address[DX] ? transpose_weights_back(call) : nullptr;
    // by shape and batch alone, so that the order of the sums does not depend on the threads
    const int64_t parts = std::clamp<int64_t>(std::min(kTasks / tasks(), kMostSums / (blocks() * sum_count())), 1,
                                              std::max<int64_t>(1, call.batch));
    bool sums = call.address[DW] || call.address[DB];
    double* all =
        sums ? reinterpret_cast<double*>(scratch(kPartialSums, static_cast<size_t>(parts * blocks() * sum_count() * 2)))
             : nullptr;
    dynamic_items(threads(call), parts * tasks(), [&](int64_t task) {
      int64_t part = task / tasks(), first = task % tasks() * together_, last = std::min(blocks(), first + together_);
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
  template <class Body>
  static void each_tap(const ConvolutionShape& s, Body body) {
    for (int64_t y = 0; y < s.kernel_height; y++)
      for (int64_t x = 0; x < s.kernel_width; x++) body(y * s.dilation_y, x * s.dilation_x);
  }
  int64_t blocks() const { return blocks_of(groups_); }
  int64_t tasks() const { return (blocks() + together_ - 1) / together_; }
  int lanes(int64_t block) const { return static_cast<int>(std::min<int64_t>(kBlock, groups_ - block * kBlock)); }
  int64_t row_weights() const { return inputs_ * taps_; }  // of one output
  int64_t block_weights() const { return outputs_ * row_weights() * kBlock; }
  int64_t sum_count() const { return outputs_ * (row_weights() + 1) * kBlock; }  // [outputs][taps, then the bias][16]
  int threads(const Call& call) const {
    return call.batch * groups_ * (inputs_ * in_plane_ + outputs_ * out_plane_) < 2 * kSerialElements ? 1
                                                                                                      : call.threads;
  }
  // From one window to the next: in x, in dz, and for a result of which every cell is a window's.
  Steps x_steps() const { return {dz_.step_y * x_.columns * kBlock, dz_.step_x * kBlock}; }
  Steps dz_steps() const { return {dz_.step_y * dz_.columns * kBlock, dz_.step_x * kBlock}; }
  Steps dz_cells() const { return {dz_.columns * kBlock, kBlock}; }

  static float* zeros(int slot, const Bordered& image) {
    float* p = scratch(slot, static_cast<size_t>(image.floats()));
    std::fill_n(p, image.floats(), 0.f);
    return p;
  }

  // [blocks][outputs][inputs][taps][16] of w: [groups][outputs][inputs][taps]
  const float* transpose_weights(const Call& call) const {
    float* w = scratch(kWeights, static_cast<size_t>(blocks() * block_weights()));
    const int64_t group = outputs_ * row_weights();
    pack_transposed(call.address[W], group, groups_, group, w, block_weights());
    return w;
  }
  // [blocks][inputs][outputs][taps][16]
  const float* transpose_weights_back(const Call& call) const {
    if (inputs_ == 1 || outputs_ == 1) return transpose_weights(call);
    float* w = scratch(kWeights, static_cast<size_t>(blocks() * block_weights()));
    for (int64_t i = 0; i < inputs_; i++)
      for (int64_t o = 0; o < outputs_; o++)
        pack_transposed(call.address[W] + (o * inputs_ + i) * taps_, outputs_ * row_weights(), groups_, taps_,
                        w + (i * outputs_ + o) * taps_ * kBlock, block_weights());
    return w;
  }

  void forward_block(const Call& call, const ImageSource& image, int64_t n, int64_t block, const float* w,
                     float* x) const {
    const int64_t group = block * kBlock, channel = group * outputs_;
    x_.pack(image, n, group, lanes(block), x);
    float* tile = scratch(kOutputTile, static_cast<size_t>(out_plane_ * kBlock));
    float* y = call.address[Y] + n * call.stride[Y] + channel * out_plane_;
    for (int64_t o = 0; o < outputs_; o++) {
      float start[kBlock] = {};
      for (int lane = 0; call.address[B] && lane < lanes(block); lane++)
        start[lane] = call.address[B][channel + lane * outputs_ + o];
      correlate_any(x, x_steps(), x_offsets_, row_, w + o * row_weights() * kBlock, start, dz_.height, dz_.width, tile);
      unpack_block<false, true>(tile, out_plane_, y + o * out_plane_, outputs_ * out_plane_, lanes(block));
    }
    if (is_identity(activation_)) return;
    for (int64_t c = 0; c < lanes(block) * outputs_; c++, y += out_plane_)
      activation_forward(activation_, y, y, out_plane_, dz_.width);
  }

  // x, dz: bordered images, zero outside
  void backward_block(const Call& call, int64_t n, int64_t block, const float* w, float* x, float* dz,
                      double* sums) const {
    const int64_t group = block * kBlock;
    ImageSource gradient{call.address[DY], call.stride[DY], out_plane_, dz_.width};
    if (!is_identity(activation_)) {
      gradient.output = call.address[Y];
      gradient.output_stride = call.stride[Y];
      gradient.activation = &activation_;
    }
    dz_.pack(gradient, n, group, lanes(block), dz);
    if (call.address[DW]) x_.pack({call.address[X], call.stride[X], in_plane_, x_.width}, n, group, lanes(block), x);
    for (int64_t o = 0; sums && o < outputs_; o++, sums += (row_weights() + 1) * kBlock) {
      const float* cells = dz + o * dz_.image_floats() + dz_.origin();
      if (call.address[DB]) add_cells(cells, dz_steps(), dz_.height, dz_.width, sums + row_weights() * kBlock);
      if (call.address[DW]) add_all_products(x, cells, sums);
    }
    if (!call.address[DX]) return;
    const float start[kBlock] = {};
    float* tile = scratch(kOutputTile, static_cast<size_t>(in_plane_ * kBlock));
    for (int64_t i = 0; i < inputs_; i++) {
      correlate_any(dz, dz_cells(), dz_offsets_, row_, w + block * block_weights() + i * outputs_ * taps_ * kBlock,
                    start, x_.height, x_.width, tile);
      float* dx = call.address[DX] + n * call.stride[DX] + (group * inputs_ + i) * in_plane_;
      if (call.adds(DX))
        unpack_block<true>(tile, in_plane_, dx, inputs_ * in_plane_, lanes(block));
      else
        unpack_block<false, true>(tile, in_plane_, dx, inputs_ * in_plane_, lanes(block));
    }
  }

  // Of one output with all inputs.
  void add_all_products(const float* x, const float* dz, double* sums) const {
    int64_t t = 0;
    auto add_row = row_ == 5 ? add_row_products<5> : add_row_products<7>;
    for (; row_ >= 5 && dz_.step_x == 1 && t < row_weights(); t += row_)
      add_row(x + x_offsets_[t], x_steps(), dz, dz_steps(), dz_.height, dz_.width, sums + t * kBlock);
    for (; t + 9 <= row_weights(); t += 9)
      add_products<9>(x, x_steps(), x_offsets_.data() + t, dz, dz_steps(), dz_.height, dz_.width, sums + t * kBlock);
    for (; t < row_weights(); t++)
      add_products<1>(x, x_steps(), x_offsets_.data() + t, dz, dz_steps(), dz_.height, dz_.width, sums + t * kBlock);
  }

  // Adds the parts of the batch in order and stores dw [out_channels][inputs][taps] and db [out_channels].
  void write_sums(const Call& call, int64_t parts, const double* all) const {
    const int64_t rows = row_weights() + 1, part = blocks() * sum_count();
    parallel_items(parts * part < kSerialElements ? 1 : call.threads, blocks() * outputs_, [&](int64_t item) {
      const int64_t block = item / outputs_, o = item % outputs_, channel = block * kBlock * outputs_ + o;
      for (int64_t t = 0; t < rows; t++) {
        float* to = t < row_weights() ? call.address[DW] : call.address[DB];
        if (!to) continue;
        const double* from = all + block * sum_count() + (o * rows + t) * kBlock;
        double total[kBlock] = {};
        for (int64_t p = 0; p < parts; p++)
          for (int i = 0; i < kBlock; i += kWidth)
            store_wide(total + i, load_wide(total + i) + load_wide(from + p * part + i));
        const bool bias = t == row_weights(), adds = call.adds(bias ? DB : DW);
        for (int lane = 0; lane < lanes(block); lane++) {
          const int64_t c = channel + lane * outputs_;
          float& result = to[bias ? c : c * row_weights() + t];
          result = static_cast<float>(adds ? result + total[lane] : total[lane]);
        }
      }
    });
  }

  const int64_t groups_, inputs_, outputs_, taps_;  // inputs and outputs: channels of a group
  const int row_;                                   // see neighbours()
  const ActivationSpec activation_;
  const int64_t in_plane_, out_plane_;
  const int64_t together_;  // blocks of a task
  const Bordered x_, dz_;   // cells of windows, and of what dx looks at
  Offsets x_offsets_, dz_offsets_;
};

}  // namespace

std::unique_ptr<Plan> make_group_lanes(const ConvolutionShape& shape, const ActivationSpec& activation) {
  if (!GroupLanes::takes(shape)) return nullptr;
  return std::make_unique<GroupLanes>(shape, activation);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
