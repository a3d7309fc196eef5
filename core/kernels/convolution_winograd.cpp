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

// Tiles of a group: few where the kernels are small, so that all that passes between the steps stays in L1; else many,
// so that the kernels are read less often.
constexpr int kFewTiles = 28, kManyTiles3 = 128, kManyTiles5 = 64;
constexpr double kSmallKernels = 100e3;  // bytes of U
// Tiles per call from which the transform of the kernels pays.
constexpr int64_t kFewestTiles = 64;

int tiles_of_group(const ConvolutionShape& s) {
  double places = static_cast<double>((s.kernel_height + 1) * (s.kernel_width + 1));
  bool small = 4 * places * static_cast<double>(s.in_channels * s.out_channels) <= kSmallKernels;
  return small ? kFewTiles : s.kernel_height == 3 ? kManyTiles3 : kManyTiles5;
}

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
        grid_(s, backward, tiles_of_group(s)),
        input_(grid_, in_channels_, grid_.item_lines),
        direct_(std::move(direct)),
        flops_(flops(s)) {
    for (int64_t c = 0; c < in_channels_; c += kDepth) {
      input_entries_.push_back(static_cast<int32_t>(c / kBlock * input_.column_block() + c % kBlock));
      kernel_entries_.push_back(static_cast<int32_t>(c * kBlock));
    }
  }

  void run(const ImageCall& call) const override {
    if (has_few_tiles(call)) return direct_->run(call);
    float* u = scratch(kPartialSums, static_cast<size_t>(grid_.places() * kernel_place()));
    const Work work = share_out(call);
    int transformers = useful_threads(work.threads, 32.0 * static_cast<double>(grid_.places() * kernel_place()));
    dynamic_items(transformers, out_blocks(), [&](int64_t block) { transform_kernels(call.w, block, u); });
    dynamic_items(work.threads, work.items * work.splits, [&](int64_t index) {
      auto [first, count] = grid_.item(index / work.splits, call.batch, work.item_lines);
      int64_t split = index % work.splits;
      run_lines(call, u, first, count, out_blocks() * split / work.splits, out_blocks() * (split + 1) / work.splits);
    });
  }

  bool watches(const ImageCall& call) const override {
    if (has_few_tiles(call)) return direct_->watches(call);
    const int64_t lines = share_out(call).item_lines;
    return lines >= grid_.lines && lines * 2 * grid_.out_width * out_channels_ <= kWatchedFloats;
  }

 private:
  // Neither how lines are grouped nor how channels are shared out touches the order of a sum.
  struct Work {
    int threads, item_lines;
    int64_t items, splits;  // of the output channels
  };
  Work share_out(const ImageCall& call) const {
    Work work{useful_threads(call.threads, flops_ * static_cast<double>(call.batch)), grid_.item_lines, 0, 1};
    int& lines = work.item_lines;
    while (lines > 1 && grid_.items(call.batch, lines) < 4 * work.threads)
      lines = lines > grid_.lines ? (lines / grid_.lines + 1) / 2 * grid_.lines : (lines + 1) / 2;
    work.items = grid_.items(call.batch, lines);
    while (work.items * work.splits < work.threads && work.splits < out_blocks()) work.splits++;
    return work;
  }
  bool has_few_tiles(const ImageCall& call) const { return call.batch * grid_.lines * grid_.line_tiles < kFewestTiles; }

  int64_t out_blocks() const { return blocks_of(out_channels_); }
  // u: [column j][row i of the places][out_channels / 16][in_channels][16 out], channels rounded up to 4 and zero
  // beyond the last
  int64_t kernel_block() const { return round_up(in_channels_, kDepth) * kBlock; }
  int64_t kernel_place() const { return out_blocks() * kernel_block(); }

  // Output channels [16 block, 16 block + 16) of u; w: [out][in][taps^2] of the convolution, turned round for backward.
  void transform_kernels(const float* w, int64_t block, float* u) const {
    float taps[kMostTaps * kBlock], tile[kMostPlaces * kBlock];
    int number = grid_.taps * grid_.taps;
    int64_t k = block * kBlock;
    int have = static_cast<int>(std::min<int64_t>(kBlock, out_channels_ - k));
    for (int64_t c = 0; c < round_up(in_channels_, kDepth); c++) {
      const float* from = w + (backward_ ? c * w_inputs_ + k : k * w_inputs_ + c) * number;
      gather_taps(from, backward_ ? number : w_inputs_ * number, number, c < in_channels_ ? have : 0, backward_, taps);
      transform_kernel(grid_.taps, taps, tile);
      float* to = u + block * kernel_block() + c * kBlock;
      for (int j = 0; j < grid_.cells(); j++)
        for (int i = 0; i < grid_.cells(); i++, to += kernel_place())
          std::copy_n(tile + (i * grid_.cells() + j) * kBlock, kBlock, to);
    }
  }

  // What passes between the steps of a group; see WinogradInput for e and v.
  struct Buffers {
    float *e, *v;
    float* m;  // [cell][block][tile][16]: products, one column of places of a few tiles
    float* z;  // [2][cell][out_channels / 16][tile][16]: A^T of them
    float* y;  // [row][column][16]: output cells
  };
  int64_t tile_block() const { return input_.column_block(); }
  static constexpr int64_t kProductBlock = kNarrowRows * kBlock, kProductCell = kWideBlocks * kProductBlock + kBlock;
  int64_t sum_cell(int64_t blocks) const { return blocks * tile_block() + kBlock; }

  Buffers buffers(int64_t blocks) const {
    const int64_t sizes[] = {input_.rows_floats(), input_.column_floats(), grid_.cells() * kProductCell,
                             2 * grid_.cells() * sum_cell(blocks), 4 * tile_block()};
    int64_t total = 0;
    for (int64_t size : sizes) total += size + kBlock;
    float* next = scratch(kPatches, static_cast<size_t>(total));
    auto take = [&](int i) { return std::exchange(next, next + sizes[i] + kBlock); };
    float *e = take(0), *v = take(1), *m = take(2), *z = take(3), *y = take(4);
    return {e, v, m, z, y};
  }

  // Lines [first, first + count) of output channels [16 block0, 16 block1).
  void run_lines(const ImageCall& call, const float* u, int64_t first, int count, int64_t block0,
                 int64_t block1) const {
    float* band = scratch(kInputBand, static_cast<size_t>(input_.band_floats()));
    input_.pack(call.in, first, count, band);
    const Buffers buffer = buffers(block1 - block0);
    for (int64_t line = first; line < first + count; line += grid_.group_lines) {
      WinogradGroup group{line, static_cast<int>(std::min<int64_t>(grid_.group_lines, first + count - line)), 0, 0};
      for (; group.tile < grid_.line_tiles; group.tile += grid_.part_tiles) {
        group.tiles = std::min(grid_.part_tiles, grid_.line_tiles - group.tile);
        input_.along_rows(band, first, group, buffer.e);
        grid_.taps == 3 ? run_group<3>(call, u, group, block0, block1, buffer)
                        : run_group<5>(call, u, group, block0, block1, buffer);
      }
      if (call.activation) activate(call, group, block0, block1);
    }
    if (!call.watcher) return;
    const int64_t channel = block0 * kBlock, channels = std::min(out_channels_, block1 * kBlock) - channel;
    for (int64_t n = first / grid_.lines; n < (first + count) / grid_.lines; n++)
      call.watcher->completed(n, channel, channels);
  }

  // y = A^T m A, column by column of m: first A^T of the column, then A of the columns.
  template <int kTaps>
  void run_group(const ImageCall& call, const float* u, const WinogradGroup& group, int64_t block0, int64_t block1,
                 const Buffers& buffer) const {
    const int cells = grid_.cells();
    const int64_t sums = sum_cell(block1 - block0);
    for (int j = 0; j < cells; j++) {
      input_.across_rows(buffer.e, j, group, buffer.v);
      for (int64_t block = block0; block < block1;) {
        const int blocks = tile_blocks((block1 - block) * kBlock);
        multiply_column<kTaps>(u + j * cells * kernel_place() + block * kernel_block(), buffer, blocks, group.size(),
                               buffer.z + j * sums + (block - block0) * tile_block(), cells * sums);
        block += blocks;
      }
    }
    for (int64_t block = block0; block < block1; block++) {
      float bias[kBlock] = {};
      if (call.bias)
        std::copy(call.bias + block * kBlock, call.bias + std::min(out_channels_, (block + 1) * kBlock), bias);
      gather_rows<kTaps>(buffer.z + (block - block0) * tile_block(), sums, group, bias, buffer.y);
      write_block(call, block, group, buffer.y);
    }
  }

  // z[0], z[1] = A^T m for one column of places and 16 or 32 output channels, a few tiles at a time:
  // m[cell][tile][k] = sum_c v[cell][tile][c] u[cell][c][k]
  template <int kTaps>
  void multiply_column(const float* u, const Buffers& buffer, int blocks, int64_t tiles, float* z,
                       int64_t second) const {
    constexpr int kCells = WinogradAxis<kTaps>::kCells;
    Tile t{};
    t.a_offset = input_entries_.data();
    t.b_offset = kernel_entries_.data();
    t.entries = static_cast<int>(kernel_entries_.size());
    t.b_block = kernel_block();
    t.c_row = kBlock;
    t.c_block = kProductBlock;
    const int limit = even_tile(tiles, max_rows(blocks));
    const int64_t kernels = kernel_place(), column = input_.column_cell(), block = tile_block();
    for (int64_t tile = 0; tile < tiles; tile += limit) {
      const int rows = static_cast<int>(std::min<int64_t>(limit, tiles - tile));
      const TileKernel kernel = tile_kernel(TileForm::Matrix, blocks, rows);
      for (int i = 0; i < kCells; i++) {
        t.a = buffer.v + i * column + tile * kBlock;
        t.b = u + i * kernels;
        t.c = buffer.m + i * kProductCell;
        kernel(t);
      }
      for (int b = 0; b < blocks; b++)
        gather_column<kTaps>(buffer.m + b * kProductBlock, rows, z + b * block + tile * kBlock, second);
    }
  }

  template <int kTaps>
  static void gather_column(const float* m, int64_t tiles, float* z, int64_t second) {
    using Axis = WinogradAxis<kTaps>;
    constexpr int kCells = Axis::kCells;
    for (int64_t t = 0; t < tiles * kBlock; t += kWidth) {
      Vec column[kCells], made[2];
      OPENBNNS_UNROLL for (int i = 0; i < kCells; i++) column[i] = load(m + i * kProductCell + t);
      Axis::output(column, made);
      store(z + t, made[0]);
      store(z + second + t, made[1]);
    }
  }

  // y[row][column][16] = z A + bias; z: [2][cell][tile][16]
  template <int kTaps>
  void gather_rows(const float* z, int64_t cell, const WinogradGroup& group, const float* bias, float* y) const {
    using Axis = WinogradAxis<kTaps>;
    constexpr int kCells = Axis::kCells;
    const int64_t pitch = 2 * int64_t{group.tiles} * kBlock;
    for (int line = 0; line < group.count; line++, y += 2 * pitch)
      for (int64_t t = 0; t < group.tiles; t++, z += kBlock)
        for (int part = 0; part < kBlock; part += kWidth) {
          const Vec start = load(bias + part);
          OPENBNNS_UNROLL for (int r = 0; r < 2; r++) {
            Vec row[kCells], made[2];
            OPENBNNS_UNROLL for (int j = 0; j < kCells; j++) row[j] = load(z + (r * kCells + j) * cell + part);
            Axis::output(row, made);
            store(y + r * pitch + 2 * t * kBlock + part, made[0] + start);
            store(y + r * pitch + (2 * t + 1) * kBlock + part, made[1] + start);
          }
        }
  }

  // The output cells of 16 channels to their planes.
  void write_block(const ImageCall& call, int64_t block, const WinogradGroup& group, const float* y) const {
    const int64_t width = grid_.out_width, plane = grid_.out_height * width, pitch = 2 * int64_t{group.tiles};
    const int64_t columns = std::min(pitch, width - 2 * group.tile);
    const int lanes = static_cast<int>(std::min<int64_t>(kBlock, out_channels_ - block * kBlock));
    auto unpack = call.accumulate ? unpack_block<true> : unpack_block<false>;
    grid_.for_pieces(group.first, group.count, [&](int64_t n, int line, int number, int before) {
      const float* from = y + 2 * before * pitch * kBlock;
      float* to = call.out + n * call.out_stride + block * kBlock * plane + 2 * line * width + 2 * group.tile;
      const int64_t rows = std::min(2 * number, grid_.out_height - 2 * line);
      if (pitch == width) return unpack(from, rows * width, to, plane, lanes);
      for (int64_t r = 0; r < rows; r++) unpack(from + r * pitch * kBlock, columns, to + r * width, plane, lanes);
    });
  }

  void activate(const ImageCall& call, const WinogradGroup& group, int64_t block0, int64_t block1) const {
    const int64_t width = grid_.out_width, plane = grid_.out_height * width;
    grid_.for_pieces(group.first, group.count, [&](int64_t n, int line, int number, int) {
      const int64_t rows = std::min(2 * number, grid_.out_height - 2 * line);
      for (int64_t k = block0 * kBlock; k < std::min(out_channels_, block1 * kBlock); k++) {
        float* out = call.out + n * call.out_stride + k * plane + 2 * line * width;
        activation_forward(*call.activation, out, out, rows * width, call.activation_row);
      }
    });
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
  if (!suits_winograd(s, false)) return nullptr;
  return std::make_unique<Winograd>(s, false, make_direct_forward(s));
}

std::unique_ptr<ImageKernel> make_winograd_backward_data(const ConvolutionShape& s) {
  if (!suits_winograd(s, false)) return nullptr;
  return std::make_unique<Winograd>(s, true, make_direct_backward_data(s));
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
