// Winograd convolution, forward and gradient of the input: see winograd.h. Exact sums of bytes work the same way: two
// input channels are a pair of integers in 32 bits, which counts as a channel, and results are int32.
#include "kernels/convolution/winograd.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/kept_weights.h"
#include "common/scratch_uses.h"
#include "common/stored_rows.h"
#include "gemm/gemm.h"
#include "gemm/integer_kernel.h"
#include "gemm/pack.h"
#include "kernels/activation/activation.h"
#include "kernels/convolution/byte_groups.h"
#include "kernels/convolution/winograd_bytes.h"
#include "runtime/dynamic_items.h"
#include "runtime/partition.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// Tiles of a group: few where the kernels are small, so that all that passes between the steps stays in L1; many where
// they exceed L2, so that they are read less often.
constexpr int kFewTiles = 28, kTiles = 56, kManyTiles = 112;
constexpr double kSmallKernels = 100e3, kLargeKernels = 2e6;  // bytes of U

int tiles_of_group(const ConvolutionShape& s) {
  const double bytes = 4.0 * static_cast<double>(winograd_products(s));
  return bytes <= kSmallKernels ? kFewTiles : bytes <= kLargeKernels ? kTiles : kManyTiles;
}

constexpr int64_t kTransposedTaps = 160;  // of 16 output channels at a time, which fit into L1

ConvolutionShape with_pairs_of_inputs(ConvolutionShape s) {
  s.in_channels = groups_of(s.in_channels, SumKind::kBytePairs);
  return s;
}

class Winograd : public ImageKernel {
 public:
  Winograd(const ConvolutionShape& s, bool backward, std::unique_ptr<ImageKernel> direct)
      : Winograd(s, backward, std::move(direct), s.in_channels) {
    grid_.taps == 2   ? choose<WinogradForm<2>>()
    : grid_.taps == 3 ? choose<WinogradForm<3>>()
                      : choose<WinogradForm<5>>();
  }

  // Forward on bytes, exactly.
  Winograd(const ConvolutionShape& s, std::unique_ptr<ImageKernel> direct)
      : Winograd(with_pairs_of_inputs(s), false, std::move(direct), s.in_channels, true) {
    choose<ByteForm>();
  }

 private:
  // s: with pairs of channels as channels, of `bytes`
  Winograd(const ConvolutionShape& s, bool backward, std::unique_ptr<ImageKernel> direct, int64_t w_inputs,
           bool bytes = false)
      : backward_(backward),
        bytes_(bytes),
        weights_(s.w),
        w_inputs_(w_inputs),
        w_taps_(s.kernel_height * s.kernel_width),
        in_channels_(backward ? s.out_channels : s.in_channels),
        out_channels_(backward ? s.in_channels : s.out_channels),
        grid_(s, backward, tiles_of_group(s)),
        input_(grid_, in_channels_, grid_.item_lines, bytes_),
        direct_(std::move(direct)),
        flops_(flops(s)) {
    const int step = static_cast<int>(s.stride_y);
    for (int phase = 0; phase < step * step; phase++)
      taps_.push_back(taps_of_phase(grid_.taps, step, static_cast<int>(s.kernel_height), phase));
    for (int last = 0; last < 4; last++)
      for (int phase = 0; phase < input_.phases(); phase++) {
        if (!grid_.odd || (phase & last) == 0) add_entries(phase, entries_[last]);
      }
  }

 public:
  void run(const ImageCall& call) const override {
    if (!grid_.suits(call.batch)) return direct_->run(call);
    const Work work = share_out(call);
    const int64_t floats = grid_.places() * kernel_place();
    const float* u = transformed_.get(call.weights, kPartialSums, floats, [&](float* made) {
      int transformers = useful_threads(work.threads, 32.0 * static_cast<double>(floats));
      const int64_t rows = input_.phases() * padded_inputs(), parts = even_parts(out_blocks(), rows, transformers);
      dynamic_items(transformers, out_blocks() * parts, [&](int64_t item) {
        const int64_t part = item % parts;
        transform_kernels(call.w, item / parts, rows * part / parts, rows * (part + 1) / parts, made);
      });
    });
    dynamic_items(work.threads, work.items * work.splits, [&](int64_t index) {
      auto [first, count] = grid_.item(index / work.splits, call.batch, work.item_lines);
      int64_t split = index % work.splits;
      int64_t blocks = blocks_of(out_channels_), phases = out_phases();
      run_lines(call, u, first, count, phases * (blocks * split / work.splits),
                phases * (blocks * (split + 1) / work.splits));
    });
  }

  bool watches(const ImageCall& call) const override {
    if (!grid_.suits(call.batch)) return direct_->watches(call);
    const int64_t lines = share_out(call).item_lines;
    return lines >= grid_.lines &&
           lines * grid_.row_outputs * grid_.out_step * grid_.out_width * out_channels_ <= kWatchedFloats;
  }

 private:
  template <class Form>
  void choose() {
    gather_column_ = gather_column<Form>;
    gather_rows_ = &Winograd::gather_rows<Form>;
  }
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
    work.splits = even_parts(work.items, blocks_of(out_channels_), work.threads);
    return work;
  }

  int out_phases() const { return grid_.out_step * grid_.out_step; }
  // block = channel / 16 * phases + phase, for output channels
  int64_t out_blocks() const { return out_phases() * blocks_of(out_channels_); }
  // u: [column j][row i of the places][block][phase of the input][in_channels][16 out], channels rounded up to 4 and
  // zero beyond the last
  int64_t padded_inputs() const { return round_up(in_channels_, kDepth); }
  int64_t kernel_block() const { return input_.phases() * padded_inputs() * kBlock; }
  int64_t kernel_place() const { return out_blocks() * kernel_block(); }

  // What a product sums over: channels of a phase of the input, four at a time.
  struct Entries {
    std::vector<int32_t> input, kernel;
  };
  void add_entries(int phase, Entries& entries) const {
    for (int64_t c = 0; c < in_channels_; c += kDepth) {
      int64_t block = phase * blocks_of(in_channels_) + c / kBlock;
      entries.input.push_back(static_cast<int32_t>(block * input_.column_block() + c % kBlock));
      entries.kernel.push_back(static_cast<int32_t>((phase * padded_inputs() + c) * kBlock));
    }
  }
  // Kernels of odd size have no last tap in phase 1 of an axis: U is zero at the last place along it, or at the first
  // where the taps are turned round (backward).
  bool lacks(int phase, int i, int j) const {
    return grid_.odd && ((phase / 2 == 1 && i == 0) || (phase % 2 == 1 && j == 0));
  }

  // Rows [first, last) of a block of u; w: [out][in][taps] of the convolution, turned round for backward.
  void transform_kernels(const float* w, int64_t block, int64_t first, int64_t last, float* u) const {
    float taps[kMostTaps * kBlock], tile[kMostPlaces * kBlock];
    float room[kTransposedTaps * kBlock], transposed[kTransposedTaps * kBlock];
    int64_t held = 0, end = 0;  // input channels whose taps are transposed
    const int64_t k = block / out_phases() * kBlock;
    const int have = static_cast<int>(std::min<int64_t>(kBlock, out_channels_ - k));
    for (int64_t row = first; row < last; row++) {
      const int64_t c = row % padded_inputs();
      if (bytes_) {
        gather_pairs(reinterpret_cast<const uint8_t*>(w), k, 2 * c, c < in_channels_ ? have : 0, taps);
        transform_kernel_of_bytes(taps, tile);
      } else {
        if (c < in_channels_ && (c < held || c >= end)) {
          held = c;
          end = backward_ ? c + 1 : std::min(in_channels_, c + kTransposedTaps / w_taps_);
          const float* first_tap = moved(w, weights_, (backward_ ? c * w_inputs_ + k : k * w_inputs_ + c) * w_taps_);
          const auto from = float_rows(weights_, first_tap, backward_ ? w_taps_ : w_inputs_ * w_taps_, have,
                                       (end - held) * w_taps_, room);
          transpose_rows<true>(from.data, from.stride, have, (end - held) * w_taps_,
                               [&](int64_t j) { return transposed + j * kBlock; });
        }
        const auto& places = taps_[backward_ ? block % out_phases() : row / padded_inputs()];
        choose_taps(c < in_channels_ ? transposed + (c - held) * w_taps_ * kBlock : nullptr, places, taps);
        transform_kernel(grid_.taps, taps, tile);
      }
      float* to = u + block * kernel_block() + row * kBlock;
      for (int j = 0; j < grid_.column_cells(); j++)
        for (int i = 0; i < grid_.row_cells(); i++, to += kernel_place())
          std::copy_n(tile + (i * grid_.column_cells() + j) * kBlock, kBlock, to);
    }
  }

  // taps: [places][16], from those of an input channel: [w_taps_][16], or null if it is none; in reverse order for
  // backward.
  void choose_taps(const float* from, const std::vector<int>& places, float* taps) const {
    const int number = static_cast<int>(places.size());
    for (int j = 0; j < number; j++) {
      float* to = taps + (backward_ ? number - 1 - j : j) * kBlock;
      if (from && places[j] >= 0)
        std::copy_n(from + places[j] * kBlock, kBlock, to);
      else
        std::fill_n(to, kBlock, 0.f);
    }
  }

  // taps: [taps][16] pairs of input channels c and c + 1, output channels from k on
  void gather_pairs(const uint8_t* w, int64_t k, int64_t c, int count, float* taps) const {
    std::fill_n(taps, w_taps_ * kBlock, 0.f);
    for (int i = 0; i < count; i++)
      join_bytes(SumKind::kBytePairs, weights_.type, false, w + ((k + i) * w_inputs_ + c) * w_taps_, w_taps_,
                 std::min<int64_t>(2, w_inputs_ - c), w_taps_, reinterpret_cast<ByteGroup*>(taps + i), kBlock);
  }

  // What passes between the steps of a group; see WinogradInput for e and v.
  struct Buffers {
    float *e, *v;
    float* m;  // [cell i][block][tile][16]: products, one column of places of a few tiles
    float* z;  // [output][cell j][block][tile][16]: A^T of them
    float* y;  // [row][column][16]: output pixels
  };
  int64_t tile_block() const { return input_.column_block(); }
  static constexpr int64_t kProductBlock = kNarrowRows * kBlock, kProductCell = kWideBlocks * kProductBlock + kBlock;
  int64_t sum_cell(int64_t blocks) const { return blocks * tile_block() + kBlock; }

  Buffers buffers(int64_t blocks) const {
    const int64_t sizes[] = {input_.rows_floats(), input_.column_floats(), grid_.row_cells() * kProductCell,
                             grid_.row_outputs * grid_.column_cells() * sum_cell(blocks),
                             out_phases() * grid_.row_outputs * grid_.column_outputs * tile_block() + kBlock};
    int64_t total = 0;
    for (int64_t size : sizes) total += size + kBlock;
    float* next = scratch(kPatches, static_cast<size_t>(total));
    auto take = [&](int i) { return std::exchange(next, next + sizes[i] + kBlock); };
    float *e = take(0), *v = take(1), *m = take(2), *z = take(3), *y = take(4);
    return {e, v, m, z, y};
  }

  // Lines [first, first + count) of output blocks [block0, block1).
  void run_lines(const ImageCall& call, const float* u, int64_t first, int count, int64_t block0,
                 int64_t block1) const {
    float* band = scratch(kInputBand, static_cast<size_t>(input_.band_floats()));
    input_.pack(call.in, first, count, input_.all(), band);
    const Buffers buffer = buffers(block1 - block0);
    for (int64_t line = first; line < first + count; line += grid_.group_lines) {
      WinogradGroup group{line, static_cast<int>(std::min<int64_t>(grid_.group_lines, first + count - line)), 0, 0};
      for (; group.tile < grid_.line_tiles; group.tile += grid_.part_tiles) {
        group.tiles = std::min(grid_.part_tiles, grid_.line_tiles - group.tile);
        input_.along_rows(band, first, group, input_.all(), buffer.e);
        run_group(call, u, group, block0, block1, buffer);
      }
      if (call.activation) activate(call, group, block0, block1);
    }
    if (!call.watcher) return;
    const int64_t channel = block0 / out_phases() * kBlock,
                  channels = std::min(out_channels_, block1 / out_phases() * kBlock) - channel;
    for (int64_t n = first / grid_.lines; n < (first + count) / grid_.lines; n++)
      call.watcher->completed(n, channel, channels);
  }

  // y = A^T m A, column by column of m: first A^T of the column, then A of the columns.
  void run_group(const ImageCall& call, const float* u, const WinogradGroup& group, int64_t block0, int64_t block1,
                 const Buffers& buffer) const {
    const int cells = grid_.column_cells(), phases = out_phases();
    const int64_t sums = sum_cell(block1 - block0);
    for (int j = 0; j < cells; j++) {
      input_.across_rows(buffer.e, j, group, input_.all(), buffer.v);
      for (int64_t block = block0; block < block1;) {
        const int blocks = tile_blocks((block1 - block) * kBlock);
        const int used = blocks - lacks(static_cast<int>(block + blocks - 1) % phases, 1, j);
        if (used > 0)
          multiply_column(u, j, block, used, buffer, group.size(),
                          buffer.z + j * sums + (block - block0) * tile_block(), cells * sums);
        block += blocks;
      }
    }
    for (int64_t block = block0; block < block1; block += phases) {
      float bias[kBlock] = {};
      const int64_t channel = block / phases * kBlock;
      if (call.bias) std::copy(call.bias + channel, call.bias + std::min(out_channels_, channel + kBlock), bias);
      for (int phase = 0; phase < phases; phase++)
        (this->*gather_rows_)(buffer.z + (block + phase - block0) * tile_block(), sums, group, phase, bias, buffer.y);
      write_block(call, channel, group, buffer.y);
    }
  }

  // z[0], z[1], .. = A^T m for column j of the places and 16 or 32 columns of u from `block` on, a few tiles at a time:
  // m[cell][tile][k] = sum_c v[cell][tile][c] u[cell][c][k]
  void multiply_column(const float* u, int j, int64_t block, int blocks, const Buffers& buffer, int64_t tiles, float* z,
                       int64_t next) const {
    const int cells = grid_.row_cells();
    const bool first_lacks = lacks(static_cast<int>(block % out_phases()), 0, 1);
    Tile t{};
    t.b_block = kernel_block();
    t.c_row = kBlock;
    t.c_block = kProductBlock;
    const int limit = even_tile(tiles, max_rows(blocks));
    const int64_t kernels = kernel_place(), column = input_.column_cell();
    for (int64_t tile = 0; tile < tiles; tile += limit) {
      const int rows = static_cast<int>(std::min<int64_t>(limit, tiles - tile));
      const TileKernel kernel =
          bytes_ ? pair_sums_edge_kernel(blocks, rows) : tile_kernel(TileForm::Matrix, blocks, rows);
      for (int i = first_lacks ? 1 : 0; i < cells; i++) {
        const Entries& entries = entries_[2 * (i == cells - 1) + (j == grid_.column_cells() - 1)];
        t.a_offset = entries.input.data();
        t.b_offset = entries.kernel.data();
        t.entries = t.skip_last = static_cast<int>(entries.kernel.size());
        t.a = buffer.v + i * column + tile * kBlock;
        t.b = u + (j * cells + i) * kernels + block * kernel_block();
        t.c = buffer.m + i * kProductCell;
        kernel(t);
      }
      for (int b = 0; b < blocks; b++) {
        if (first_lacks) std::fill_n(buffer.m + b * kProductBlock, rows * kBlock, 0.f);
        gather_column_(buffer.m + b * kProductBlock, rows, z + b * tile_block() + tile * kBlock, next);
      }
    }
  }

  template <class Form>
  static void gather_column(const float* m, int64_t tiles, float* z, int64_t next) {
    using Axis = typename Form::Rows;
    using Sums = typename Form::Sums;
    constexpr int kCells = Axis::kCells;
    for (int64_t t = 0; t < tiles * kBlock; t += kWidth) {
      Sums column[kCells], made[Axis::kOutputs];
      OPENBNNS_UNROLL for (int i = 0; i < kCells; i++) column[i] =
          reinterpret_cast<Sums>(load(m + i * kProductCell + t));
      Axis::output(column, made);
      OPENBNNS_UNROLL for (int r = 0; r < Axis::kOutputs; r++) store(z + r * next + t, reinterpret_cast<Vec>(made[r]));
    }
  }

  // The pixels of one phase of y[row][column][16] = z A + bias, without columns outside the image; z:
  // [outputs][cell][tile][16]
  template <class Form>
  void gather_rows(const float* z, int64_t cell, const WinogradGroup& group, int phase, const float* bias,
                   float* y) const {
    using Axis = typename Form::Columns;
    using Sums = typename Form::Sums;
    constexpr int kCells = Axis::kCells, kOutputs = Axis::kOutputs, kRows = Form::Rows::kOutputs;
    const int step = grid_.out_step, pixel = step * kBlock;
    const auto columns = grid_.out_columns(group.tile, group.tiles);
    const int64_t pitch = int64_t{columns.size()} * kBlock;
    const bool lacks_first = lacks(phase, 1, 0);  // a column of places without products
    float* outside = y + group.count * kRows * step * pitch;
    y += phase / step * pitch;
    for (int line = 0; line < group.count; line++, y += kRows * step * pitch) {
      int64_t place = (phase % step - columns.skipped) * kBlock;
      for (int64_t t = 0; t < group.tiles; t++, z += kBlock, place += kOutputs * pixel)
        for (int part = 0; part < kBlock; part += kWidth) {
          const Vec start = load(bias + part);
          OPENBNNS_UNROLL for (int r = 0; r < kRows; r++) {
            Sums row[kCells], made[kOutputs];
            row[0] = lacks_first ? Sums{} : reinterpret_cast<Sums>(load(z + r * kCells * cell + part));
            OPENBNNS_UNROLL for (int j = 1; j < kCells; j++) row[j] =
                reinterpret_cast<Sums>(load(z + (r * kCells + j) * cell + part));
            Axis::output(row, made);
            OPENBNNS_UNROLL for (int q = 0; q < kOutputs; q++) {
              const int64_t to = place + q * pixel;
              store((to >= 0 && to < pitch ? y + r * step * pitch + to : outside) + part, Form::result(made[q], start));
            }
          }
        }
    }
  }

  // The output pixels of 16 channels to their planes.
  void write_block(const ImageCall& call, int64_t channel, const WinogradGroup& group, const float* y) const {
    const int64_t width = grid_.out_width, plane = grid_.out_height * width;
    const auto columns = grid_.out_columns(group.tile, group.tiles);
    const int lanes = static_cast<int>(std::min<int64_t>(kBlock, out_channels_ - channel));
    auto unpack = call.accumulate ? unpack_block<true> : unpack_block<false, true>;
    grid_.for_pieces(group.first, group.count, [&](int64_t n, int line, int number, int before) {
      const auto rows = grid_.out_rows(line, number);
      const int64_t first = before * grid_.row_outputs * grid_.out_step + rows.skipped, pitch = columns.size();
      const float* from = y + first * pitch * kBlock;
      float* to = call.out + n * call.out_stride + channel * plane + rows.begin * width + columns.begin;
      if (pitch == width) return unpack(from, rows.size() * width, to, plane, lanes);
      for (int64_t r = 0; r < rows.size(); r++) unpack(from + r * pitch * kBlock, pitch, to + r * width, plane, lanes);
    });
  }

  void activate(const ImageCall& call, const WinogradGroup& group, int64_t block0, int64_t block1) const {
    const int64_t width = grid_.out_width, plane = grid_.out_height * width, phases = out_phases();
    grid_.for_pieces(group.first, group.count, [&](int64_t n, int line, int number, int) {
      const auto rows = grid_.out_rows(line, number);
      for (int64_t k = block0 / phases * kBlock; k < std::min(out_channels_, block1 / phases * kBlock); k++) {
        float* out = call.out + n * call.out_stride + k * plane + rows.begin * width;
        activation_forward(*call.activation, out, out, rows.size() * width, call.activation_row);
      }
    });
  }

  const bool backward_, bytes_;
  const Element weights_;
  const int64_t w_inputs_, w_taps_;           // input channels and taps of w as the caller stores it
  const int64_t in_channels_, out_channels_;  // as this direction sees them
  const WinogradGrid grid_;
  const WinogradInput input_;
  const std::unique_ptr<ImageKernel> direct_;  // for calls with few tiles
  const double flops_;
  // The last two transforms, for the form at hand.
  void (*gather_column_)(const float*, int64_t, float*, int64_t);
  void (Winograd::*gather_rows_)(const float*, int64_t, const WinogradGroup&, int, const float*, float*) const;
  std::vector<std::vector<int>> taps_;  // [phase]: see taps_of_phase
  KeptWeights transformed_;
  Entries entries_[4];  // [2 * last row of the places + last column]: without phases that lack the tap
};

}  // namespace

std::unique_ptr<ImageKernel> make_winograd_forward(const ConvolutionShape& s) {
  if (!suits_winograd(s, false, false)) return nullptr;
  return std::make_unique<Winograd>(s, false, make_direct_forward(s));
}

std::unique_ptr<ImageKernel> make_exact_winograd_forward(const ConvolutionShape& s, SumKind sums) {
  const auto largest = [](const Element& e) { return e.type == ElementType::kInt8 ? 128.0 : 255.0; };
  const double sum = largest(s.x) * largest(s.w) * 9 * static_cast<double>(s.in_channels);
  if (sums != SumKind::kBytePairs || s.kernel_height != 3 || s.stride_y != 1 || sum > kLargestTileSum) return nullptr;
  ConvolutionShape any_accuracy = s;
  any_accuracy.exact = false;  // these tiles do not round
  if (!suits_winograd(any_accuracy, false, false)) return nullptr;
  return std::make_unique<Winograd>(s, make_exact_forward(s, sums));
}

std::unique_ptr<ImageKernel> make_winograd_backward_data(const ConvolutionShape& s) {
  if (!suits_winograd(s, true, false)) return nullptr;
  return std::make_unique<Winograd>(s, true, make_direct_backward_data(s));
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
