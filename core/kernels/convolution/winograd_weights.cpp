// Winograd convolution, gradient of the weights: the adjoint of winograd.h in the kernel.
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

#include "common/scratch_uses.h"
#include "gemm/gemm.h"
#include "gemm/pack.h"
#include "kernels/convolution/winograd.h"
#include "runtime/dynamic_items.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr double kPartialBytes = 13e6;  // sums of all parts together, unless one part needs more
// Tiles of a group: every group reads and writes all sums, and what passes between its steps should stay in L1 or L2.
constexpr int kTiles = 56, kManyTiles = 112;
constexpr double kLargeSums = 1e6;                   // bytes
constexpr int64_t kMostParts = 8, kPartTiles = 128;  // at least: the sums of a part are cleared, and added to others
// 5 x 5: tiles added up before the sum goes to the others. The way back magnifies the rounding of long chains.
constexpr int kChainTiles = 28;
constexpr int kLeastSteps = 4, kMostSteps = 7;  // of an entry of a product
constexpr double kAddingFlops = 32;             // that adding a number of a part takes as long as
constexpr double kTransformFlops = 40;          // that transforming an element for a place takes as long as
constexpr int64_t kSlice = 8;                   // input channels whose parts one worker adds

int tiles_of_group(const ConvolutionShape& s) {
  return 4.0 * static_cast<double>(winograd_products(s)) <= kLargeSums ? kTiles : kManyTiles;
}

class WinogradWeights : public WeightsKernel {
 public:
  WinogradWeights(const ConvolutionShape& s, std::unique_ptr<WeightsKernel> direct)
      : in_channels_(s.in_channels),
        out_channels_(s.out_channels),
        grid_(s, false, tiles_of_group(s)),
        input_(grid_, in_channels_, grid_.item_lines),
        w_taps_(s.kernel_height * s.kernel_width),
        band_(winograd_band(grid_.row_outputs * grid_.item_lines, grid_.out_width,
                            grid_.column_outputs * grid_.line_tiles, 1, 1, 0)),
        direct_(std::move(direct)),
        flops_(flops(s)) {
    for (int depth = kLeastSteps; depth <= kMostSteps; depth++)
      for (int64_t t = 0; t < grid_.most_tiles(); t += depth)
        entries_[depth - kLeastSteps].push_back(static_cast<int32_t>(t * kBlock));
    grid_.taps == 2 ? choose<2>() : grid_.taps == 3 ? choose<3>() : choose<5>();
    for (int phase = 0; phase < input_.phases(); phase++)
      taps_.push_back(taps_of_phase(grid_.taps, grid_.in_step, static_cast<int>(s.kernel_height), phase));
  }

  void run(const WeightsCall& call) const override {
    if (!grid_.suits(call.batch)) return direct_->run(call);
    int threads = useful_threads(call.threads, flops_ * static_cast<double>(call.batch));
    const Work work = share_out(call.batch);
    float* sums = scratch(kPartialSums, static_cast<size_t>(work.parts * part_floats()));
    threads = engaged_workers(threads, WeightsSplits::units(work.parts, out_channels_, in_channels_, grid_.places()));
    const WeightsSplits splits = split(work.parts, threads);
    dynamic_items(threads, work.parts * splits.count(), [&](int64_t item) {
      const int64_t i = item % splits.count();
      sum_part(call, work, item / splits.count(), {splits.out(i), splits.in(i), splits.slices(i)}, sums);
    });
    int adders = useful_threads(threads, kAddingFlops * static_cast<double>(work.parts * part_floats()));
    const int64_t slices = (in_channels_ + kSlice - 1) / kSlice;  // of the input channels
    dynamic_items(adders, out_blocks() * slices,
                  [&](int64_t item) { add_parts(call, work.parts, item / slices, item % slices * kSlice, sums); });
  }

 private:
  template <int kTaps>
  void choose() {
    spread_rows_ = &WinogradWeights::spread_rows<typename WinogradForm<kTaps>::Columns>;
    factors_ = WinogradForm<kTaps>::Rows::kGradient[0];
  }
  // Parts cut the items.
  struct Work {
    int64_t items, parts;
  };

  int64_t out_blocks() const { return blocks_of(out_channels_); }
  int64_t padded_outputs() const { return out_blocks() * kBlock; }
  // sums: [part]([place][phase][in_channels][out_channels], then [out_channels] for the bias), output channels rounded
  // up to 16
  int64_t sum_rows() const { return input_.phases() * in_channels_; }
  int64_t sum_place() const { return sum_rows() * padded_outputs(); }
  int64_t part_floats() const { return grid_.places() * sum_place() + padded_outputs(); }
  // Of dy, 16 channels side by side: band [out_channels / 16][row][column][16]; f: [cell j][out_channels / 16][row]
  // [tile of the line][16] = dy A^T; d: [out_channels / 16][tile][16], one place of A (dy A^T) at a time.
  int64_t rows_block() const { return int64_t{grid_.row_outputs} * grid_.group_lines * grid_.part_tiles * kBlock; }
  int64_t column_block() const { return input_.column_block(); }

  struct Buffers {
    float *x, *e, *v;  // see WinogradInput
    float *dy, *f, *d;
  };
  Buffers buffers(int64_t blocks) const {
    const int64_t sizes[] = {input_.band_floats(),
                             input_.rows_floats(),
                             input_.column_floats(),
                             blocks * band_.plane(),
                             grid_.column_cells() * blocks * rows_block(),
                             blocks * column_block()};
    int64_t total = 0;
    for (int64_t size : sizes) total += size + kBlock;
    float* next = scratch(kPatches, static_cast<size_t>(total));
    auto take = [&](int i) { return std::exchange(next, next + sizes[i] + kBlock); };
    float *x = take(0), *e = take(1), *v = take(2), *dy = take(3), *f = take(4), *d = take(5);
    return {x, e, v, dy, f, d};
  }

  Work share_out(int64_t batch) const {
    Work work{grid_.items(batch, grid_.item_lines), 1};
    double bytes = static_cast<double>(part_floats()) * sizeof(float);
    const int64_t most = std::min(kMostParts, batch * grid_.lines * grid_.line_tiles / kPartTiles);
    while (2 * work.parts <= std::min(most, work.items) && 2 * static_cast<double>(work.parts) * bytes <= kPartialBytes)
      work.parts *= 2;
    return work;
  }
  // For more threads than parts; slices are places, column by column.
  WeightsSplits split(int64_t parts, int threads) const {
    const auto inputs = static_cast<double>(sum_rows()), outputs = static_cast<double>(out_channels_);
    const double out = kTransformFlops * outputs, in = kTransformFlops * inputs;
    const WeightsSplits::Flops flops{out, in, (out + in) / 2, 2 * inputs * outputs};  // again: along the rows
    return {parts, out_channels_, in_channels_, grid_.places(), flops, threads};
  }
  struct Split {
    ChannelBlocks out, in;
    WeightsSplits::Slices places;
    bool sums_bias() const { return in.first == 0 && places.first == 0; }
  };
  int slice_of(int i, int j) const { return j * grid_.row_cells() + i; }

  void sum_part(const WeightsCall& call, const Work& work, int64_t part, const Split& split, float* sums) const {
    const ChannelBlocks &out = split.out, &in = split.in;
    float* du = sums + part * part_floats() + in.channel() * padded_outputs() + out.channel();
    float* db = sums + part * part_floats() + grid_.places() * sum_place() + out.channel();
    if (!split.sums_bias()) db = nullptr;
    if (db) std::fill_n(db, out.count * kBlock, 0.f);
    if (call.dw) clear_sums(split, du);
    const Buffers buffer = buffers(out.count);
    int64_t begin = work.items * part / work.parts, end = work.items * (part + 1) / work.parts;
    for (int64_t item = begin; item < end; item++) {
      check_interruption();
      auto [first, count] = grid_.item(item, call.batch, grid_.item_lines);
      if (call.dw || db) pack_gradient(call, first, count, out, buffer.dy, db);
      if (!call.dw) continue;
      input_.pack(call.x, first, count, in, buffer.x);
      for (int line = 0; line < count; line += grid_.group_lines) {
        WinogradGroup group{first + line, std::min(grid_.group_lines, count - line), 0, 0};
        for (; group.tile < grid_.line_tiles; group.tile += grid_.part_tiles) {
          group.tiles = std::min(grid_.part_tiles, grid_.line_tiles - group.tile);
          add_group(first, group, split, buffer, du);
        }
      }
    }
  }

  // du: of these channels, [place][phase][in_channels][out_channels]
  void clear_sums(const Split& split, float* du) const {
    const int64_t channels = split.in.channels(in_channels_), outputs = split.out.count * kBlock;
    const bool whole = outputs == padded_outputs();  // rows of all output channels lie side by side
    for (int place = 0; place < grid_.places(); place++) {
      if (!split.places.has(slice_of(place / grid_.column_cells(), place % grid_.column_cells()))) continue;
      for (int phase = 0; phase < input_.phases(); phase++) {
        float* row = du + place * sum_place() + phase * in_channels_ * padded_outputs();
        for (int64_t c = 0; c < (whole ? 1 : channels); c++, row += padded_outputs())
          std::fill_n(row, whole ? channels * outputs : outputs, 0.f);
      }
    }
  }

  // Adds the cells of each channel to sums, if any.
  void pack_gradient(const WeightsCall& call, int64_t first, int count, const ChannelBlocks& out, float* band,
                     float* sums) const {
    grid_.for_pieces(first, count, [&](int64_t n, int line, int number, int before) {
      const int rows = grid_.row_outputs;
      band_.pack(call.dy, n, out.channel(), out.channels(out_channels_), rows * line, rows * number,
                 band + rows * before * band_.row(), sums);
    });
  }

  void add_group(int64_t first, const WinogradGroup& group, const Split& split, const Buffers& buffer,
                 float* du) const {
    const ChannelBlocks& in = split.in;
    const int64_t blocks = split.out.count;
    const int row_cells = grid_.row_cells(), column_cells = grid_.column_cells();
    const int64_t rows_cell = blocks * rows_block();
    const Products p = products(group.size());
    input_.along_rows(buffer.x, first, group, in, buffer.e);
    for (int64_t b = 0; b < blocks; b++)
      (this->*spread_rows_)(buffer.dy + b * band_.plane() + grid_.row_outputs * (group.first - first) * band_.row() +
                                grid_.column_outputs * group.tile * kBlock,
                            group, buffer.f + b * rows_block(), rows_cell);
    for (int j = static_cast<int>(split.places.first) / row_cells; slice_of(0, j) < split.places.last; j++) {
      input_.across_rows(buffer.e, j, group, in, buffer.v);
      for (int i = 0; i < row_cells; i++) {
        if (!split.places.has(slice_of(i, j))) continue;
        float* v = buffer.v + i * input_.column_cell();
        for (int64_t b = 0; b < blocks; b++)
          spread_cell(i, buffer.f + j * rows_cell + b * rows_block(), group, buffer.d + b * column_block());
        clear_rest(p, input_.phases() * in.count, v);
        clear_rest(p, blocks, buffer.d);
        for (int phase = 0; phase < input_.phases(); phase++) {
          // Without the last tap of phase 1, the last places are of no use: see winograd.h.
          if (grid_.odd && ((phase / 2 == 1 && i == row_cells - 1) || (phase % 2 == 1 && j == column_cells - 1)))
            continue;
          multiply(v + phase * in.count * column_block(), buffer.d, in.channels(in_channels_), blocks, p,
                   du + (i * column_cells + j) * sum_place() + phase * in_channels_ * padded_outputs());
        }
      }
    }
  }

  // f[cell][row][tile] = dy A^T of 16 channels
  template <class Axis>
  void spread_rows(const float* band, const WinogradGroup& group, float* f, int64_t cell) const {
    constexpr int kCells = Axis::kCells, kOutputs = Axis::kOutputs;
    const int64_t pitch = band_.row();
    for (int r = 0; r < grid_.row_outputs * group.count; r++, band += pitch)
      for (int64_t t = 0; t < group.tiles; t++, f += kBlock)
        for (int part = 0; part < kBlock; part += kWidth) {
          Vec y[kOutputs], made[kCells];
          OPENBNNS_UNROLL for (int q = 0; q < kOutputs; q++) y[q] = load(band + (kOutputs * t + q) * kBlock + part);
          Axis::gradient(y, made);
          OPENBNNS_UNROLL for (int j = 0; j < kCells; j++) store(f + j * cell + part, made[j]);
        }
  }

  // d[tile] = row i of A f of 16 channels
  void spread_cell(int i, const float* f, const WinogradGroup& group, float* d) const {
    const int outputs = grid_.row_outputs;
    const float* factor = factors_ + i * outputs;
    const int64_t row = int64_t{group.tiles} * kBlock;
    auto each = [&](auto value) {
      for (int line = 0; line < group.count; line++, f += outputs * row)
        for (const float* from = f; from < f + row; from += kWidth, d += kWidth) store(d, value(from));
    };
    const float second = factor[1], last = factor[outputs - 1];
    if (factor[0] == 0)  // then only the last is not
      each([=](const float* from) { return last * load(from + (outputs - 1) * row); });
    else if (outputs == 3 && last != 0)
      each([=](const float* from) { return (load(from) + load(from + 2 * row)) + second * load(from + row); });
    else
      each([=](const float* from) { return load(from) + second * load(from + row); });
  }

  // How the sums over `tiles` tiles are taken: in steps that leave the fewest zeros, and chains of them.
  struct Products {
    int64_t tiles;
    int steps, entries, chain;
    TileForm form;
  };
  Products products(int64_t tiles) const {
    Products p{tiles, kMostSteps, 0, 0, TileForm::Pixels1};
    for (int steps = kMostSteps - 1; steps >= kLeastSteps; steps--)
      if (round_up(tiles, steps) < round_up(tiles, p.steps)) p.steps = steps;
    p.entries = static_cast<int>((tiles + p.steps - 1) / p.steps);
    p.chain = grid_.taps < 5 ? p.entries : even_tile(p.entries, kChainTiles / p.steps);
    p.form = static_cast<TileForm>(static_cast<int>(TileForm::Pixels1) + p.steps - 1);
    return p;
  }

  // Zeros in the tiles up to a multiple of the steps.
  void clear_rest(const Products& p, int64_t blocks, float* cell) const {
    for (int64_t b = 0; b < blocks; b++)
      std::fill_n(cell + b * column_block() + p.tiles * kBlock, (int64_t{p.entries} * p.steps - p.tiles) * kBlock, 0.f);
  }

  // du[c][k] += sum over tiles of v[tile][c] d[tile][k], one place; du: rows padded_outputs() apart
  void multiply(const float* v, const float* d, int64_t channels, int64_t blocks, const Products& p, float* du) const {
    Tile t{};
    const int entries = p.entries, chain = p.chain;
    t.b_block = column_block();
    t.c_row = padded_outputs();
    t.c_block = kBlock;
    t.write = Write::Add;
    t.a_offset = t.b_offset = entries_[p.steps - kLeastSteps].data();
    for (int64_t b = 0; b < blocks;) {
      int taken = tile_blocks((blocks - b) * kBlock);
      for (int64_t c = 0; c < channels; c += kBlock) {
        int lanes = static_cast<int>(std::min<int64_t>(kBlock, channels - c)), limit = even_tile(lanes, kWeightRows);
        for (int lane = 0; lane < lanes; lane += limit) {
          TileKernel kernel = tile_kernel(p.form, taken, std::min(limit, lanes - lane));
          t.c = du + (c + lane) * padded_outputs() + b * kBlock;
          for (int first = 0; first < entries; first += chain) {
            t.a = v + c / kBlock * column_block() + lane + first * p.steps * kBlock;
            t.b = d + b * column_block() + first * p.steps * kBlock;
            t.entries = std::min(chain, entries - first);
            kernel(t);
          }
        }
      }
      b += taken;
    }
  }

  // Of 16 output channels and the input channels from `first` on.
  void add_parts(const WeightsCall& call, int64_t parts, int64_t block, int64_t first, const float* sums) const {
    int lanes = static_cast<int>(std::min<int64_t>(kBlock, out_channels_ - block * kBlock));
    float taps[kMostTaps * kBlock];
    for (int64_t c = first; call.dw && c < std::min(in_channels_, first + kSlice); c++) {
      for (int phase = 0; phase < input_.phases(); phase++)
        add_phase(parts, sums + (phase * in_channels_ + c) * padded_outputs() + block * kBlock, taps_[phase], taps);
      float* dw = call.dw + (block * kBlock * in_channels_ + c) * w_taps_;
      if (call.add_dw)
        unpack_block<true>(taps, w_taps_, dw, in_channels_ * w_taps_, lanes);
      else
        unpack_block<false>(taps, w_taps_, dw, in_channels_ * w_taps_, lanes);
    }
    for (int k = 0; call.db && first == 0 && k < lanes; k++) {
      float sum = 0;
      for (int64_t part = 0; part < parts; part++)
        sum += sums[part * part_floats() + grid_.places() * sum_place() + block * kBlock + k];
      float* db = call.db + block * kBlock + k;
      *db = call.add_db ? *db + sum : sum;
    }
  }

  // taps: [w_taps][16], those at `places` from the sums of all parts
  void add_phase(int64_t parts, const float* sums, const std::vector<int>& places, float* taps) const {
    float tile[kMostPlaces * kBlock], made[kMostTaps * kBlock];
    for (int p = 0; p < grid_.places(); p++)
      for (int q = 0; q < kBlock; q += kWidth) {
        Vec sum = load(sums + p * sum_place() + q);
        for (int64_t part = 1; part < parts; part++) sum += load(sums + part * part_floats() + p * sum_place() + q);
        store(tile + p * kBlock + q, sum);
      }
    transform_kernel_back(grid_.taps, tile, made);
    for (size_t j = 0; j < places.size(); j++)
      if (places[j] >= 0) std::copy_n(made + j * kBlock, kBlock, taps + places[j] * kBlock);
  }

  const int64_t in_channels_, out_channels_;
  const WinogradGrid grid_;
  const WinogradInput input_;
  const int64_t w_taps_;                         // of w as the caller stores it
  const Band band_;                              // of dy
  const std::unique_ptr<WeightsKernel> direct_;  // for calls with few tiles
  const double flops_;
  // The transforms of dy, for the taps at hand.
  void (WinogradWeights::*spread_rows_)(const float*, const WinogradGroup&, float*, int64_t) const;
  const float* factors_;                                        // A of the rows: [cells][outputs]
  std::vector<std::vector<int>> taps_;                          // [phase]: see taps_of_phase
  std::vector<int32_t> entries_[kMostSteps - kLeastSteps + 1];  // [steps of an entry]
};

}  // namespace

std::unique_ptr<WeightsKernel> make_winograd_weights(const ConvolutionShape& s) {
  if (!suits_winograd(s, false, true)) return nullptr;
  return std::make_unique<WinogradWeights>(s, make_direct_weights(s));
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
