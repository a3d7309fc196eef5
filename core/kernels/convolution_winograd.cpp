// Winograd convolution, forward and gradient of the input: see convolution_winograd.h.
#include "kernels/convolution_winograd.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "gemm/gemm.h"
#include "gemm/pack.h"
#include "kernels/activation.h"
#include "kernels/scratch_uses.h"
#include "runtime/dynamic_items.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int kChunkPlaces = 1792;  // places x output channels whose products are in the cache at a time
// Tiles per call from which the transform of the kernels pays.
constexpr int64_t kFewestTiles = 64;

// taps: [number][16], lane i from w + i * stride, zero from `count` lanes on; turned: in reverse order.
void gather_taps(const float* w, int64_t stride, int number, int count, bool turned, float* taps) {
  if (count < kBlock) std::fill_n(taps, number * kBlock, 0.f);
  auto place = [=](int j) { return taps + (turned ? number - 1 - j : j) * kBlock; };
#if defined(__AVX512F__)
  const __m512i index = _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                           _mm512_set1_epi32(static_cast<int>(stride)));
  if (count == kBlock) {
    for (int j = 0; j < number; j++) store(place(j), _mm512_i32gather_ps(index, w + j, 4));
    return;
  }
#endif
  for (int i = 0; i < count; i++)
    for (int j = 0; j < number; j++) place(j)[i] = w[i * stride + j];
}

class Winograd : public ImageKernel {
 public:
  Winograd(const ConvolutionShape& s, bool backward, std::unique_ptr<ImageKernel> direct)
      : backward_(backward),
        w_inputs_(s.in_channels),
        in_channels_(backward ? s.out_channels : s.in_channels),
        out_channels_(backward ? s.in_channels : s.out_channels),
        grid_(s, backward),
        input_(in_channels_, grid_),
        direct_(std::move(direct)),
        flops_(flops(s)) {
    for (int64_t c = 0; c < in_channels_; c += 4) {
      kernel_entries_.push_back(static_cast<int32_t>(c / kBlock * out_channels_ * kBlock + c % kBlock));
      input_entries_.push_back(static_cast<int32_t>(c * kBlock));
    }
  }

  void run(const ImageCall& call) const override {
    if (call.batch * grid_.lines * grid_.line_tiles < kFewestTiles) return direct_->run(call);
    int threads = useful_threads(call.threads, flops_ * static_cast<double>(call.batch));
    float* u = scratch(kPartialSums, static_cast<size_t>(grid_.places() * kernel_place()));
    int64_t blocks = blocks_of(in_channels_);
    dynamic_items(threads, blocks, [&](int64_t block) { transform_kernels(call.w, block, u); });
    int64_t lines = call.batch * grid_.lines, group_lines = grid_.group_lines;
    // Neither how lines are grouped nor how channels are shared out touches the order of a sum.
    while (group_lines > 1 && (lines + group_lines - 1) / group_lines < 2 * threads)
      group_lines = (group_lines + 1) / 2;
    int64_t groups = (lines + group_lines - 1) / group_lines, splits = 1;
    while (groups * splits < threads && splits < blocks_of(out_channels_)) splits++;
    int64_t share = round_up((out_channels_ + splits - 1) / splits, kBlock);
    dynamic_items(threads, groups * splits, [&](int64_t item) {
      int64_t first = item / splits * group_lines, k0 = item % splits * share;
      int count = static_cast<int>(std::min(group_lines, lines - first));
      if (k0 < out_channels_) run_group(call, u, first, count, k0, std::min(out_channels_, k0 + share));
    });
  }

 private:
  // u: [place][in_channels / 16][out_channels][16 in], zero beyond the last channel
  int64_t kernel_place() const { return blocks_of(in_channels_) * out_channels_ * kBlock; }

  // Input channels [16 block, 16 block + 16) of u; w: [out][in][taps^2] of the convolution, turned round for backward.
  void transform_kernels(const float* w, int64_t block, float* u) const {
    float taps[kMostTaps * kBlock], tile[kMostPlaces * kBlock];
    int number = grid_.taps * grid_.taps;
    int64_t c = block * kBlock;
    int have = static_cast<int>(std::min<int64_t>(kBlock, in_channels_ - c));
    for (int64_t k = 0; k < out_channels_; k++) {
      const float* from = w + (backward_ ? c * w_inputs_ + k : k * w_inputs_ + c) * number;
      gather_taps(from, backward_ ? w_inputs_ * number : number, number, have, backward_, taps);
      transform_kernel(grid_.taps, taps, tile);
      for (int p = 0; p < grid_.places(); p++)
        std::copy_n(tile + p * kBlock, kBlock, u + p * kernel_place() + (block * out_channels_ + k) * kBlock);
    }
  }

  void run_group(const ImageCall& call, const float* u, int64_t first, int count, int64_t k0, int64_t k1) const {
    int64_t tiles = int64_t{count} * grid_.line_tiles, padded = round_up(tiles, kBlock);
    float* v = scratch(kInputBand, static_cast<size_t>(input_.floats()));
    transform_input(grid_, call.in, in_channels_, first, count, input_, v);
    int64_t chunk = even_tile(k1 - k0, kChunkPlaces / grid_.places()), place = chunk * padded + kBlock;
    float* m = scratch(kOutputTile, static_cast<size_t>(grid_.places() * place + kWidth));
    for (int64_t k = k0; k < k1; k += chunk) {
      int64_t channels = std::min(chunk, k1 - k);
      for (int p = 0; p < grid_.places(); p++)
        multiply(u + p * kernel_place() + k * kBlock, v + p * input_.place, channels, padded, m + p * place);
      for (int64_t i = 0; i < channels; i++) write_channel(call, k + i, first, count, m + i * padded, place);
    }
  }

  // m[k][tile] = sum_c u[k][c] v[c][tile] for one place of the tiles; m: [channels][tiles]
  void multiply(const float* u, const float* v, int64_t channels, int64_t tiles, float* m) const {
    Tile t{};
    t.a_offset = kernel_entries_.data();
    t.b_offset = input_entries_.data();
    t.entries = static_cast<int>(kernel_entries_.size());
    t.b_block = input_.block;
    t.c_row = tiles;
    t.c_block = kBlock;
    int64_t wide = tiles / kWideColumns * kWideColumns;
    auto columns = [&](int64_t from, int64_t to, int blocks) {
      int limit = even_tile(channels, max_rows(blocks));
      for (int64_t k = 0; k < channels; k += limit) {
        int rows = static_cast<int>(std::min<int64_t>(limit, channels - k));
        TileKernel kernel = tile_kernel(TileForm::Matrix, blocks, rows);
        t.a = u + k * kBlock;
        for (int64_t j = from; j < to; j += blocks * kBlock) {
          t.b = v + j / kBlock * input_.block;
          t.c = m + k * tiles + j;
          kernel(t);
        }
      }
    };
    columns(0, wide, kWideBlocks);
    if (wide < tiles) columns(wide, tiles, 1);
  }

  // y = A^T m A of `tiles` tiles of one output channel; m: [place][tile], cells: upper rows of all lines, then lower
  // ones
  template <int kTaps>
  static void transform_output(const float* m, int64_t place, int64_t tiles, float bias, float* cells, int64_t row) {
    using Axis = WinogradAxis<kTaps>;
    constexpr int kCells = Axis::kCells;
    constexpr auto lanes = std::make_integer_sequence<int, kWidth>{};
    for (int64_t t = 0; t < tiles; t += kWidth) {
      Vec z[2][kCells];
      OPENBNNS_UNROLL for (int s = 0; s < kCells; s++) {
        Vec column[kCells], y[2];
        OPENBNNS_UNROLL for (int i = 0; i < kCells; i++) column[i] = load(m + (i * kCells + s) * place + t);
        Axis::output(column, y);
        z[0][s] = y[0];
        z[1][s] = y[1];
      }
      OPENBNNS_UNROLL for (int r = 0; r < 2; r++) {
        Vec y[2];
        Axis::output(z[r], y);
        float* to = cells + r * row + 2 * t;
        store(to, interleave_low(y[0] + bias, y[1] + bias, lanes));
        store(to + kWidth, interleave_high(y[0] + bias, y[1] + bias, lanes));
      }
    }
  }

  // One output channel of all tiles of the group.
  void write_channel(const ImageCall& call, int64_t k, int64_t first, int count, const float* m, int64_t place) const {
    int64_t tiles = int64_t{count} * grid_.line_tiles, row_floats = 2 * round_up(tiles, kWidth);
    float* cells = scratch(kPatches, static_cast<size_t>(2 * row_floats));
    auto transform = grid_.taps == 3 ? transform_output<3> : transform_output<5>;
    transform(m, place, tiles, call.bias ? call.bias[k] : 0.f, cells, row_floats);
    int64_t width = grid_.out_width, plane = grid_.out_height * width;
    int64_t n = first / grid_.lines;
    int row = static_cast<int>(first % grid_.lines) * 2;
    for (int i = 0; i < count; i++, row += 2) {
      if (row >= grid_.out_height) row = 0, n++;
      int rows = std::min(2, grid_.out_height - row);
      float* out = call.out + n * call.out_stride + k * plane + row * width;
      for (int r = 0; r < rows; r++)
        put_row(cells + r * row_floats + 2 * int64_t{i} * grid_.line_tiles, width, call.accumulate, out + r * width);
      if (call.activation) activation_forward(*call.activation, out, out, rows * width, call.activation_row);
    }
  }

  static void put_row(const float* from, int64_t count, bool accumulate, float* to) {
    int64_t j = 0;
    for (; j + kWidth <= count; j += kWidth) store(to + j, accumulate ? load(to + j) + load(from + j) : load(from + j));
    if (j < count) {
      Vec v = load_partial(from + j, count - j);
      store_partial(to + j, accumulate ? load_partial(to + j, count - j) + v : v, count - j);
    }
  }

  const bool backward_;
  const int64_t w_inputs_;                    // input channels of w as the caller stores it
  const int64_t in_channels_, out_channels_;  // as this direction sees them
  const WinogradGrid grid_;
  const WinogradInput input_;
  const std::unique_ptr<ImageKernel> direct_;  // for calls with few tiles
  const double flops_;
  std::vector<int32_t> kernel_entries_, input_entries_;
};

}  // namespace

std::unique_ptr<ImageKernel> make_winograd_forward(const ConvolutionShape& s) {
  if (!suits_winograd(s)) return nullptr;
  return std::make_unique<Winograd>(s, false, make_direct_forward(s));
}

std::unique_ptr<ImageKernel> make_winograd_backward_data(const ConvolutionShape& s) {
  if (!suits_winograd(s)) return nullptr;
  return std::make_unique<Winograd>(s, true, make_direct_backward_data(s));
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
