// Winograd convolution, gradient of the weights: the adjoint of convolution_winograd.h in the kernel.
//
//   forward  y = A^T [U * V] A with U = G g G^T, V = B^T d B
//   hence    dU = sum over tiles of (A dy A^T) * V, and dg = G^T dU G
//
// For each place dU[c][k] = sum over tiles of V[c][tile] D[tile][k] is a matrix product. The batch is cut
// into parts, a number that depends on the shape and the batch alone; each part has its own sum, and they are added in
// order.
#include <algorithm>
#include <utility>
#include <vector>

#include "gemm/gemm.h"
#include "gemm/pack.h"
#include "kernels/convolution_winograd.h"
#include "kernels/scratch_uses.h"
#include "runtime/dynamic_items.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr double kPartialBytes = 9e6;  // sums of all parts together, unless one part needs more
constexpr int64_t kMostParts = 8;
// 5 x 5: tiles added up before the sum goes to the others. The way back magnifies the rounding of long chains.
constexpr int kChainTiles = 16;
constexpr int64_t kFewestTiles = 64;  // per call; the sums must be worth their transform

class WinogradWeights : public WeightsKernel {
 public:
  WinogradWeights(const ConvolutionShape& s, std::unique_ptr<WeightsKernel> direct)
      : in_channels_(s.in_channels),
        out_channels_(s.out_channels),
        grid_(s, false),
        input_(in_channels_, grid_),
        direct_(std::move(direct)),
        flops_(flops(s)) {
    for (int64_t t = 0; t < grid_.padded_tiles(); t += kDepth) {
      input_entries_.push_back(static_cast<int32_t>(t / kBlock * input_.block + t % kBlock));
      gradient_entries_.push_back(static_cast<int32_t>(t * kBlock));
    }
  }

  void run(const WeightsCall& call) const override {
    if (call.batch * grid_.lines * grid_.line_tiles < kFewestTiles) return direct_->run(call);
    int threads = useful_threads(call.threads, flops_ * static_cast<double>(call.batch));
    Work work = share_out(call.batch, threads);
    float* sums = scratch(kPartialSums, static_cast<size_t>(work.parts * part_floats()));
    dynamic_items(threads, work.parts * work.splits, [&](int64_t item) { sum_part(call, work, item, sums); });
    int adders = useful_threads(threads, 8.0 * static_cast<double>(work.parts * part_floats()));
    dynamic_items(adders, out_blocks(), [&](int64_t block) { add_parts(call, work.parts, block, sums); });
  }

 private:
  // Parts cut the groups of lines; splits cut the output channels for more threads than parts and do not touch the
  // order of any sum.
  struct Work {
    int64_t lines, groups, parts, splits;
  };

  int64_t out_blocks() const { return blocks_of(out_channels_); }
  int64_t padded_outputs() const { return out_blocks() * kBlock; }
  // sums: [part]([place][in_channels][out_channels], then [out_channels] for the bias), channels rounded up to 16
  int64_t sum_place() const { return in_channels_ * padded_outputs(); }
  int64_t part_floats() const { return grid_.places() * sum_place() + padded_outputs(); }
  // d: [place][out_channels / 16][tile][16], a line of cache between places
  int64_t gradient_block() const { return grid_.padded_tiles() * kBlock; }
  int64_t gradient_place(int64_t blocks) const { return blocks * gradient_block() + kBlock; }

  Work share_out(int64_t batch, int threads) const {
    Work work{batch * grid_.lines, 0, 1, 1};
    work.groups = (work.lines + grid_.group_lines - 1) / grid_.group_lines;
    double bytes = static_cast<double>(part_floats()) * sizeof(float);
    while (2 * work.parts <= std::min(kMostParts, work.groups) &&
           2 * static_cast<double>(work.parts) * bytes <= kPartialBytes)
      work.parts *= 2;
    int64_t tiles = (out_blocks() + kWideBlocks - 1) / kWideBlocks;
    work.splits = std::min<int64_t>(tiles, (threads + work.parts - 1) / work.parts);
    return work;
  }

  void sum_part(const WeightsCall& call, const Work& work, int64_t item, float* sums) const {
    int64_t split = item % work.splits, part = item / work.splits;
    int64_t tiles = (out_blocks() + kWideBlocks - 1) / kWideBlocks;
    int64_t block0 = tiles * split / work.splits * kWideBlocks;
    int64_t block1 = std::min(out_blocks(), tiles * (split + 1) / work.splits * kWideBlocks), blocks = block1 - block0;
    float* du = sums + part * part_floats() + block0 * kBlock;
    float* db = sums + part * part_floats() + grid_.places() * sum_place() + block0 * kBlock;
    std::fill_n(db, blocks * kBlock, 0.f);
    float* v = scratch(kInputBand, static_cast<size_t>(input_.floats()));
    float* d = scratch(kGradientBand, static_cast<size_t>(grid_.places() * gradient_place(blocks)));
    int64_t begin = work.groups * part / work.parts, end = work.groups * (part + 1) / work.parts;
    for (int64_t group = begin; group < end; group++) {
      int64_t first = group * grid_.group_lines;
      int count = static_cast<int>(std::min<int64_t>(grid_.group_lines, work.lines - first));
      for (int64_t b = 0; b < blocks; b++)
        transform_gradient(call.dy, (block0 + b) * kBlock, first, count, d + b * gradient_block(),
                           gradient_place(blocks), db + b * kBlock);
      if (!call.dw) continue;
      transform_input(grid_, call.x, in_channels_, first, count, input_, v);
      for (int p = 0; p < grid_.places(); p++)
        multiply(v + p * input_.place, d + p * gradient_place(blocks), blocks, count,
                 group == begin ? Write::Set : Write::Add, du + p * sum_place());
    }
  }

  // Lines [first, first + count) of 16 channels: d[place][tile][16] = A dy A^T, zero in tiles up to a multiple of 4.
  // Adds the cells of each channel to sums.
  void transform_gradient(const ImageSource& dy, int64_t channel, int64_t first, int count, float* d, int64_t place,
                          float* sums) const {
    int width = grid_.out_width, lanes = static_cast<int>(std::min<int64_t>(kBlock, out_channels_ - channel));
    // [rows][width rounded up to 2][16], so that the last tile finds zeros where there is no cell
    int64_t row_floats = 2 * int64_t{grid_.line_tiles} * kBlock;
    float* cells = scratch(kOutputTile, static_cast<size_t>(2 * grid_.group_lines * row_floats));
    for (int done = 0; done < count;) {
      int64_t n = (first + done) / grid_.lines;
      int line = static_cast<int>((first + done) % grid_.lines), lines = std::min(grid_.lines - line, count - done);
      int rows = std::min(2 * lines, grid_.out_height - 2 * line);
      int64_t plane, begin = 2 * int64_t{line} * width, pixels = int64_t{rows} * width;
      const float* from = dy.pixels(n, channel, lanes, begin, pixels, &plane);
      if (width % 2 == 0)
        transpose_rows(from, plane, lanes, pixels, [=](int64_t j) { return cells + j * kBlock; });
      else
        for (int r = 0; r < rows; r++) {
          float* row = cells + r * row_floats;
          transpose_rows(from + r * width, plane, lanes, width, [=](int64_t j) { return row + j * kBlock; });
          std::fill_n(row + int64_t{width} * kBlock, kBlock, 0.f);
        }
      if (rows < 2 * lines) std::fill_n(cells + rows * row_floats, row_floats, 0.f);
      for (int i = 0; i < lines; i++) {
        const float* rows_of_line = cells + 2 * i * row_floats;
        float* to = d + int64_t{done + i} * grid_.line_tiles * kBlock;
        if (grid_.taps == 3)
          spread_line<3>(rows_of_line, row_floats, to, place, sums);
        else
          spread_line<5>(rows_of_line, row_floats, to, place, sums);
      }
      done += lines;
    }
    int64_t tiles = int64_t{count} * grid_.line_tiles;
    for (int p = 0; p < grid_.places(); p++)
      std::fill_n(d + p * place + tiles * kBlock, (round_up(tiles, kDepth) - tiles) * kBlock, 0.f);
  }

  // d[place][tile][16] = A dy A^T of one line; cells: two rows of [2 line_tiles][16]
  template <int kTaps>
  void spread_line(const float* cells, int64_t row, float* d, int64_t place, float* sums) const {
    using Axis = WinogradAxis<kTaps>;
    constexpr int kCells = Axis::kCells;
    for (int part = 0; part < kBlock; part += kWidth) {
      Vec sum[4] = {Vec{}, Vec{}, Vec{}, Vec{}};
      for (int j = 0; j < grid_.line_tiles; j++) {
        const float* from = cells + 2 * j * kBlock + part;
        Vec r[2][kCells];
        OPENBNNS_UNROLL for (int s = 0; s < 2; s++) {
          Vec y[2] = {load(from + s * kBlock), load(from + row + s * kBlock)};
          sum[s] += y[0];
          sum[2 + s] += y[1];
          Axis::gradient(y, r[s]);
        }
        float* to = d + int64_t{j} * kBlock + part;
        OPENBNNS_UNROLL for (int i = 0; i < kCells; i++) {
          Vec y[2] = {r[0][i], r[1][i]}, made[kCells];
          Axis::gradient(y, made);
          OPENBNNS_UNROLL for (int s = 0; s < kCells; s++) store(to + (i * kCells + s) * place, made[s]);
        }
      }
      store(sums + part, load(sums + part) + ((sum[0] + sum[1]) + (sum[2] + sum[3])));
    }
  }

  // du[c][k] (+)= sum over tiles of v[c][tile] d[tile][k], one place; du: rows padded_outputs() apart
  void multiply(const float* v, const float* d, int64_t blocks, int count, Write write, float* du) const {
    Tile t{};
    const int entries = static_cast<int>((int64_t{count} * grid_.line_tiles + kDepth - 1) / kDepth);
    const int chain = grid_.taps == 3 ? entries : kChainTiles / kDepth;
    t.b_block = gradient_block();
    t.c_row = padded_outputs();
    t.c_block = kBlock;
    for (int64_t b = 0; b < blocks;) {
      int taken = tile_blocks((blocks - b) * kBlock), limit = even_tile(in_channels_, max_rows(taken));
      t.b = d + b * gradient_block();
      for (int64_t c = 0; c < in_channels_; c += limit) {
        TileKernel kernel =
            tile_kernel(TileForm::Matrix, taken, static_cast<int>(std::min<int64_t>(limit, in_channels_ - c)));
        t.a = v + c * kBlock;
        t.c = du + c * padded_outputs() + b * kBlock;
        t.write = write;
        for (int first = 0; first < entries; first += chain, t.write = Write::Add) {
          t.a_offset = input_entries_.data() + first;
          t.b_offset = gradient_entries_.data() + first;
          t.entries = std::min(chain, entries - first);
          kernel(t);
        }
      }
      b += taken;
    }
  }

  void add_parts(const WeightsCall& call, int64_t parts, int64_t block, const float* sums) const {
    int lanes = static_cast<int>(std::min<int64_t>(kBlock, out_channels_ - block * kBlock));
    float tile[kMostPlaces * kBlock], taps[kMostTaps * kBlock];
    int64_t number = int64_t{grid_.taps} * grid_.taps;
    for (int64_t c = 0; call.dw && c < in_channels_; c++) {
      const float* from = sums + c * padded_outputs() + block * kBlock;
      for (int p = 0; p < grid_.places(); p++)
        for (int q = 0; q < kBlock; q += kWidth) {
          Vec sum = load(from + p * sum_place() + q);
          for (int64_t part = 1; part < parts; part++) sum += load(from + part * part_floats() + p * sum_place() + q);
          store(tile + p * kBlock + q, sum);
        }
      transform_kernel_back(grid_.taps, tile, taps);
      float* dw = call.dw + (block * kBlock * in_channels_ + c) * number;
      if (call.add_dw)
        unpack_block<true>(taps, number, dw, in_channels_ * number, lanes);
      else
        unpack_block<false>(taps, number, dw, in_channels_ * number, lanes);
    }
    for (int k = 0; call.db && k < lanes; k++) {
      float sum = 0;
      for (int64_t part = 0; part < parts; part++)
        sum += sums[part * part_floats() + grid_.places() * sum_place() + block * kBlock + k];
      float* db = call.db + block * kBlock + k;
      *db = call.add_db ? *db + sum : sum;
    }
  }

  const int64_t in_channels_, out_channels_;
  const WinogradGrid grid_;
  const WinogradInput input_;
  const std::unique_ptr<WeightsKernel> direct_;  // for calls with few tiles
  const double flops_;
  std::vector<int32_t> input_entries_, gradient_entries_;
};

}  // namespace

std::unique_ptr<WeightsKernel> make_winograd_weights(const ConvolutionShape& s) {
  if (!suits_winograd(s)) return nullptr;
  return std::make_unique<WinogradWeights>(s, make_direct_weights(s));
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
