// Direct convolution on bands of 16-channel blocks: forward, and gradient of the input.
//
//   out(k, i) = bias(k) + sum over input channels c and taps t of w(k, c, t) * in(c, i * in_step + offset(t))
//
// Both directions are this sum over phases (axis.h). Tiles are rows of output pixels x 16 or 32 output
// channels; what a tile sums over is a table of offsets into the packed input and the packed weights.
//
// Exact sums of bytes work the same way: two or four input channels are one group of integers in 32 bits, which counts
// as a channel, and results are int32. So do sums of pairs of BFloat16, which are floats. Both run on a matrix unit, if
// one is in use: a block of 16 channels of 16 pixels is a tile of it, and that of 16 output channels another.
#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <tuple>

#include "common/kept_weights.h"
#include "common/pieces.h"
#include "common/scratch_uses.h"
#include "gemm/bfloat16_kernel.h"
#include "gemm/gemm.h"
#include "gemm/integer_kernel.h"
#include "gemm/matrix_unit.h"
#include "gemm/pack.h"
#include "gemm/stored_product.h"
#include "kernels/activation/activation.h"
#include "kernels/convolution/band.h"
#include "kernels/convolution/weights_layout.h"
#include "runtime/dynamic_items.h"
#include "runtime/partition.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr double kBandBytes = 900e3;  // packed input of one task: leaves half of a 2 MB L2 for weights and output
constexpr int kTilePixels = 128;      // output pixels gathered in L1 before they are transposed to planes
constexpr int kLongRow = 256;         // output pixels from which on the ends of a row do not matter
// Of a chain of additions where sums are to be exact: sums of sums, as in matrix products, round far less than one long
// chain.
constexpr int kChainSteps = 128;

// What one tile sums over. Entries are ordered: those that leave out the first pixel, all pixels, the last pixel.
struct TapTable {
  std::vector<int32_t> input, weights;
  int skip_first = 0, skip_last = 0;
};

// Which pixels of a tile meet the image with a tap: all (or all are taken as meeting it), all but the first, all but
// the last, none.
enum class Meets : char { kAll, kNotFirst, kNotLast, kNone };

// Outputs [first, first + count) of a row, which use the tables of this kind.
struct RowTile {
  int first, count, kind;
};

// Output pixels (rows.first + i * out_step, columns.first + j * out_step).
struct Phase {
  int first_row, first_column;
  std::array<std::vector<RowTile>, kWideBlocks> tiles;  // [blocks - 1]
  std::vector<int> starts;                              // of the rows where other taps begin to meet the image
  std::vector<std::vector<TapTable>> tables;            // [start][kind of tile]

  const std::vector<TapTable>& tables_of(int row) const {
    return tables[std::upper_bound(starts.begin(), starts.end(), row) - starts.begin() - 1];
  }
};

class Direct : public ImageKernel {
 public:
  [[gnu::cold]] Direct(const ConvolutionShape& s, bool backward, SumKind sums)
      : backward_(backward),
        sums_(sums),
        on_unit_(on_matrix_unit(sums)),
        weights_{s.out_channels / s.groups, s.in_channels / s.groups, s.kernel_height * s.kernel_width, s.w},
        groups_(s.groups),
        kernel_width_(static_cast<int>(s.kernel_width)),
        in_numbers_(backward ? weights_.out_channels : weights_.in_channels),
        in_channels_(groups_of(in_numbers_, sums)),
        out_channels_(backward ? weights_.in_channels : weights_.out_channels),
        rows_(backward ? backward_rows(s) : forward_rows(s)),
        columns_(backward ? backward_columns(s) : forward_columns(s)),
        band_rows_(rows_per_band()),
        band_(rows_, columns_, band_rows_ / rows_.out_step, sums),
        flops_(flops(s)),
        pairs_(2 * columns_.most_outputs() <= (on_unit_ ? 2 * kUnitRows : kWideRows) && (on_unit_ || !is_exact(sums))) {
    for (size_t r = 0; r < rows_.phases.size(); r++)
      for (size_t c = 0; c < columns_.phases.size(); c++)
        phases_.push_back(make_phase(rows_.phases[r], columns_.phases[c]));
    for (const Phase& phase : phases_)
      for (const auto& tables : phase.tables)
        for (const TapTable& table : tables) entries_ = std::max(entries_, static_cast<int>(table.input.size()));
    chain_ = s.exact && !is_exact(sums) ? std::min(entries_, kChainSteps / entry_steps()) : entries_;
  }

  void run(const ImageCall& call) const override {
    int threads = useful_threads(call.threads, flops_ * static_cast<double>(call.batch));
    Shared shared = pack_parameters(call, threads);
    Work work = share_out(call.batch, threads);
    dynamic_items(threads, work.units * work.splits, [&](int64_t item) { run_item(call, shared, work, item); });
  }

  bool watches(const ImageCall& call) const override {
    Work work = share_out(call.batch, useful_threads(call.threads, flops_ * static_cast<double>(call.batch)));
    return (work.splits == 1 || work.split_channels) &&
           work.images * out_channels_ * rows_.out_size * columns_.out_size <= kWatchedFloats;
  }

 private:
  struct Shared {
    const float* weights;  // [groups][out_channels / 16][in_channels / 16][taps][16 in][16 out]
    const float* bias;     // [groups][out_channels rounded up to 16], or null
  };
  // A unit is one or two samples of one group; a split is a part of its rows or of its output channels. None of this
  // touches the order of any sum, so it may depend on the number of threads.
  struct Work {
    int64_t images, units, splits;
    bool split_channels;
  };

  // Of the image as it is given: bytes come as groups.
  int64_t band_channels() const { return is_exact(sums_) ? in_channels_ : in_numbers_; }
  int entry_steps() const { return on_unit_ ? kBlock : kDepth; }
  int64_t out_blocks() const { return blocks_of(out_channels_); }
  int64_t in_blocks() const { return blocks_of(in_channels_); }
  int64_t block_weights() const { return in_blocks() * weights_.taps * kBlock * kBlock; }  // of 16 output channels

  int rows_per_band() const {
    double row_bytes =
        static_cast<double>(columns_.span(std::max(1, columns_.most_outputs())) * blocks_of(in_channels_)) * kBlock *
        sizeof(float) * rows_.in_step / rows_.out_step;
    int rows = std::max(1, std::min(rows_.out_size, static_cast<int>(kBandBytes / row_bytes)));
    rows = even_tile(rows_.out_size, rows);
    return static_cast<int>(round_up(rows, rows_.out_step));
  }

  Phase make_phase(const AxisPhase& rows, const AxisPhase& columns) const {
    Phase phase{rows.first, columns.first, {}, {}, {}};
    std::vector<std::vector<Meets>> kinds;  // of tiles: [kind][column tap]
    for (int blocks = 1; blocks <= kWideBlocks; blocks++) {
      int first = 0;
      for (int count : on_unit_ ? whole_tiles(columns.count) : cut_row(columns, max_rows(blocks))) {
        std::vector<Meets> meets;
        for (const AxisTap& t : columns.taps) meets.push_back(outputs_met(t).of(first, count));
        const auto known = std::find(kinds.begin(), kinds.end(), meets);
        phase.tiles[blocks - 1].push_back({first, count, static_cast<int>(known - kinds.begin())});
        if (known == kinds.end()) kinds.push_back(meets);
        first += count;
      }
    }
    std::set<int> starts{0};  // every tap meets the image in one run of rows
    for (const AxisTap& t : rows.taps)
      for (int cell : {0, rows_.in_size}) {  // the first row whose cell is not before this one
        const int row = cell > t.offset ? (cell - t.offset + rows_.in_step - 1) / rows_.in_step : 0;
        if (row < rows.count) starts.insert(row);
      }
    for (int i : starts) {
      std::vector<bool> meets;
      for (const AxisTap& t : rows.taps) {
        int y = i * rows_.in_step + t.offset;
        meets.push_back(y >= 0 && y < rows_.in_size);
      }
      phase.starts.push_back(i);
      phase.tables.emplace_back();
      for (const std::vector<Meets>& kind : kinds)
        phase.tables.back().push_back(make_table(rows, columns, meets, kind));
    }
    return phase;
  }

  // The outputs of a row that meet the image with a tap.
  struct Outputs {
    int from, to;
    Meets of(int first, int count) const {
      const int last = first + count - 1;
      if (last < from || first >= to) return Meets::kNone;
      const bool begins = first >= from, ends = last < to;
      return begins == ends ? Meets::kAll : ends ? Meets::kNotFirst : Meets::kNotLast;
    }
  };
  Outputs outputs_met(const AxisTap& tap) const {
    auto before = [&](int cell) {
      return cell > tap.offset ? (cell - tap.offset + columns_.in_step - 1) / columns_.in_step : 0;
    };
    return {before(0), before(columns_.in_size)};
  }

  // Of a matrix unit, which computes whole tiles however few pixels they have.
  static std::vector<int> whole_tiles(int pixels) {
    std::vector<int> counts;
    for (constexpr int kMost = 2 * kUnitRows; pixels > 0; pixels -= kMost) counts.push_back(std::min(pixels, kMost));
    return counts;
  }

  // Pixels of the tiles of a row. At the ends of a row, tiles multiply the zeros around the image, which small tiles do
  // less, because they leave out the taps that meet nothing in them: the cut with the fewest operations wins, where
  // loading the weights of a tap counts as much as a pixel, and of those the most even one. Rows that two images may
  // share are not cut, because the order of sums must not depend on whether they do.
  std::vector<int> cut_row(const AxisPhase& columns, int limit) const {
    std::vector<Outputs> met;
    bool outside = false;  // zeros that no tile leaves out
    for (const AxisTap& t : columns.taps) {
      met.push_back(outputs_met(t));
      outside |= met.back().from > 1 || met.back().to < columns.count - 1;
    }
    std::vector<int> counts;
    if (!outside || pairs_ || columns.count >= kLongRow) {
      const int even = even_tile(columns.count, limit);
      for (int j = 0; j < columns.count; j += even) counts.push_back(std::min(even, columns.count - j));
      return counts;
    }
    struct Cut {
      int64_t operations, squares;
      int count;  // of the last tile
      bool operator<(const Cut& o) const { return std::tie(operations, squares) < std::tie(o.operations, o.squares); }
    };
    std::vector<Cut> best{{0, 0, 0}};  // [pixels]
    for (int pixels = 1; pixels <= columns.count; pixels++) {
      Cut least{std::numeric_limits<int64_t>::max(), 0, 0};
      for (int count = 1; count <= std::min(limit, pixels); count++) {
        Cut cut = best[pixels - count];
        for (const Outputs& outputs : met) {
          const Meets m = outputs.of(pixels - count, count);
          if (m != Meets::kNone) cut.operations += m == Meets::kAll ? count + 1 : count;
        }
        cut.squares += count * count;
        cut.count = count;
        least = std::min(least, cut);
      }
      best.push_back(least);
    }
    for (int pixels = columns.count; pixels > 0; pixels -= best[pixels].count) counts.push_back(best[pixels].count);
    std::reverse(counts.begin(), counts.end());
    return counts;
  }

  TapTable make_table(const AxisPhase& rows, const AxisPhase& columns, const std::vector<bool>& rows_met,
                      const std::vector<Meets>& columns_met) const {
    TapTable table;
    for (Meets section : {Meets::kNotFirst, Meets::kAll, Meets::kNotLast}) {
      for (int64_t c = 0; c < in_channels_; c += kBlock)
        for (size_t r = 0; r < rows.taps.size(); r++)
          for (size_t t = 0; rows_met[r] && t < columns.taps.size(); t++)
            if (columns_met[t] == section) add_entries(table, c, rows.taps[r], columns.taps[t]);
      if (section == Meets::kNotFirst) table.skip_first = static_cast<int>(table.input.size());
      if (section == Meets::kAll) table.skip_last = static_cast<int>(table.input.size());
    }
    return table;
  }

  void add_entries(TapTable& table, int64_t channel, const AxisTap& row, const AxisTap& column) const {
    int64_t block = channel / kBlock, tap = row.tap * kernel_width_ + column.tap;
    int64_t input = block * band_.plane() + (row.offset - rows_.low) * band_.row() + band_.place(column.offset);
    int64_t weights = (block * weights_.taps + tap) * kBlock * kBlock;
    for (int q = 0; q < std::min<int64_t>(kBlock, in_channels_ - channel); q += entry_steps()) {
      table.input.push_back(static_cast<int32_t>(input + q));
      table.weights.push_back(static_cast<int32_t>(weights + q * kBlock));
    }
  }

  Shared pack_parameters(const ImageCall& call, int threads) const {
    const int64_t floats = groups_ * out_blocks() * block_weights();
    const float* packed = packed_.get(call.weights, kWeights, floats, [&](float* made) {
      int packers = useful_threads(threads, 8.0 * static_cast<double>(groups_ * weights_.count()));
      dynamic_items(packers, groups_ * out_blocks(), [&](int64_t item) {
        const int64_t first = item / out_blocks() * weights_.count();
        const float* w = moved(call.w, weights_.element, first);
        float* to = made + item * block_weights();
        if (is_exact(sums_))
          pack_weight_groups(weights_, sums_, reinterpret_cast<const uint8_t*>(w), item % out_blocks(), to);
        else
          pack_weights(w, item % out_blocks(), to);
      });
    });
    if (!call.bias) return {packed, nullptr};
    int64_t padded = out_blocks() * kBlock;
    float* bias = scratch(kBias, static_cast<size_t>(groups_ * padded));
    for (int64_t g = 0; g < groups_; g++)
      for (int64_t k = 0; k < padded; k++)
        bias[g * padded + k] = k < out_channels_ ? call.bias[g * out_channels_ + k] : 0.f;
    return {packed, bias};
  }

  void pack_weights(const float* w, int64_t block, float* to) const {
    const bool pairs = sums_ == SumKind::kBFloat16Pairs;
    const int64_t floats = blocks_of(in_numbers_) * weights_.taps * kBlock * kBlock;
    float* packed = pairs ? scratch(kWeightsBlock, static_cast<size_t>(floats)) : to;
    if (backward_)
      pack_weights_by_input(weights_, w, block, packed);
    else
      pack_weights_by_output(weights_, w, block, packed);
    if (pairs) join_row_pairs(packed, in_numbers_, weights_.taps, to);
  }

  int64_t row_units() const { return (rows_.out_size + rows_.out_step - 1) / rows_.out_step; }

  Work share_out(int64_t batch, int threads) const {
    Work work{pairs_ && batch >= 2 * threads ? 2 : 1, 0, 1, false};
    work.units = (batch + work.images - 1) / work.images * groups_;
    const int64_t channel_tiles = (out_blocks() + kWideBlocks - 1) / kWideBlocks, rows = row_units();
    work.splits = even_parts(work.units, std::max(rows, channel_tiles), threads);
    work.split_channels = work.splits > rows || channel_tiles % work.splits == 0 || channel_tiles >= 8 * work.splits;
    return work;
  }

  void run_item(const ImageCall& call, const Shared& shared, const Work& work, int64_t item) const {
    int64_t unit = item / work.splits, split = item % work.splits;
    int64_t group = unit % groups_, n = unit / groups_ * work.images;
    int images = static_cast<int>(std::min(work.images, call.batch - n));
    int row0 = 0, row1 = rows_.out_size;
    int64_t tiles = (out_blocks() + kWideBlocks - 1) / kWideBlocks, block0 = 0, block1 = out_blocks();
    if (work.split_channels) {
      block0 = tiles * split / work.splits * kWideBlocks;
      block1 = std::min(out_blocks(), tiles * (split + 1) / work.splits * kWideBlocks);
    } else {
      row0 = static_cast<int>(row_units() * split / work.splits) * rows_.out_step;
      row1 = std::min<int>(rows_.out_size, static_cast<int>(row_units() * (split + 1) / work.splits) * rows_.out_step);
    }
    int64_t band_floats = in_blocks() * band_.plane();
    const int64_t behind = on_unit_ ? kUnitRows * kBlock : 0;  // which the last tile reads, and nobody uses
    float* input = scratch(kInputBand, static_cast<size_t>(band_floats * images + behind));
    const MatrixUnitInUse unit_in_use(sums_);
    for (int row = row0; row < row1; row += band_rows_) {
      int end = std::min(row1, row + band_rows_);
      int first = row / rows_.out_step * rows_.in_step + rows_.low;
      int outputs = (end - row + rows_.out_step - 1) / rows_.out_step;
      for (int i = 0; i < images; i++)
        band_.pack(call.in, n + i, group * band_channels(), band_channels(), first, rows_.span(outputs),
                   input + i * band_floats, nullptr);
      for (int64_t block = block0; block < block1;) {
        int blocks = std::min<int>(kWideBlocks, static_cast<int>(block1 - block));
        run_channels(call, shared, n, images, group, block, blocks, row, end, input);
        block += blocks;
      }
    }
    int64_t channel = block0 * kBlock, channels = std::min(block1 * kBlock, out_channels_) - channel;
    for (int i = 0; call.watcher && i < images; i++)
      call.watcher->completed(n + i, group * out_channels_ + channel, channels);
  }

  // Output rows [row0, row1) of `blocks` blocks of channels; input: the band packed for row0.
  void run_channels(const ImageCall& call, const Shared& shared, int64_t n, int images, int64_t group, int64_t block,
                    int blocks, int row0, int row1, const float* input) const {
    int width = columns_.out_size;
    int step = static_cast<int>(round_up(std::max(1, kTilePixels / width), rows_.out_step));
    const int64_t floats = int64_t{step} * width * kBlock * blocks * images;
    float* tile = scratch(kOutputTile, static_cast<size_t>(chain_ < entries_ ? 2 * floats : floats));
    for (int row = row0; row < row1; row += step) {
      int end = std::min(row1, row + step);
      const float* from = input + (row - row0) / rows_.out_step * rows_.in_step * band_.row();
      compute_tile(shared, images, group, block, blocks, row, end, from, 0, tile);
      for (int first = chain_; first < entries_; first += chain_) {
        compute_tile(shared, images, group, block, blocks, row, end, from, first, tile + floats);
        add_to(tile, tile + floats, int64_t{end - row} * width * kBlock * blocks * images);
      }
      write_tile(call, n, images, group, block, blocks, row, end, tile);
    }
  }

  // tile: [images][blocks][row1 - row0][width][16]; input: the cell of output row row0. Sums over a chain of entries
  // from `first` on, those at the beginning with the bias.
  void compute_tile(const Shared& shared, int images, int64_t group, int64_t block, int blocks, int row0, int row1,
                    const float* input, int first, float* tile) const {
    int width = columns_.out_size;
    int64_t block_pixels = int64_t{row1 - row0} * width * kBlock;
    Tile t{};
    t.b_block = block_weights();
    t.c_row = columns_.out_step * kBlock;
    t.c_block = block_pixels;
    t.a_pair = in_blocks() * band_.plane();
    t.c_pair = block_pixels * blocks;
    t.b = shared.weights + (group * out_blocks() + block) * block_weights();
    t.bias = shared.bias && first == 0 ? shared.bias + (group * out_blocks() + block) * kBlock : kNoBias;
    t.write = is_exact(sums_) ? Write::Set : Write::ColumnBias;
    for (const Phase& phase : phases_) {
      for (int row = row0 + phase.first_row, i = row0 / rows_.out_step; row < row1; row += rows_.out_step, i++) {
        const auto& tables = phase.tables_of(i);
        const float* line = input + (i - row0 / rows_.out_step) * rows_.in_step * band_.row();
        for (const RowTile& part : phase.tiles[blocks - 1]) {
          const TapTable& table = tables[part.kind];
          t.a = line + part.first * kBlock;
          const int entries = static_cast<int>(table.input.size()), begin = std::min(first, entries);
          const int chained = std::min(begin + chain_, entries);
          t.a_offset = table.input.data() + begin;
          t.b_offset = table.weights.data() + begin;
          t.entries = chained - begin;
          t.skip_first = std::clamp(table.skip_first, begin, chained) - begin;
          t.skip_last = std::clamp(table.skip_last, begin, chained) - begin;
          t.c = tile + (int64_t{row - row0} * width + phase.first_column + part.first * columns_.out_step) * kBlock;
          t.rows = part.count * images;
          kernel(images, blocks, t.rows)(t);
        }
      }
    }
  }

  TileKernel kernel(int images, int blocks, int rows) const {
    if (on_unit_) return matrix_unit()->entries_kernel(sums_, blocks, rows, images == 2);
    if (sums_ == SumKind::kByteQuads) return quad_sums_edge_kernel(blocks, rows);
    if (sums_ == SumKind::kBytePairs) return pair_sums_edge_kernel(blocks, rows);
    const TileForm form = images == 2 ? TileForm::Pair : TileForm::Edge;
    return sums_ == SumKind::kBFloat16Pairs ? bfloat16_tile_kernel(form, blocks, rows)
                                            : tile_kernel(form, blocks, rows);
  }

  void write_tile(const ImageCall& call, int64_t n, int images, int64_t group, int64_t block, int blocks, int row0,
                  int row1, const float* tile) const {
    int64_t width = columns_.out_size, plane = rows_.out_size * width, pixels = (row1 - row0) * width;
    for (int i = 0; i < images; i++)
      for (int b = 0; b < blocks; b++) {
        int64_t channel = (block + b) * kBlock;
        int lanes = static_cast<int>(std::min<int64_t>(kBlock, out_channels_ - channel));
        const float* from = tile + (int64_t{i} * blocks + b) * pixels * kBlock;
        float* to = call.out + (n + i) * call.out_stride + (group * out_channels_ + channel) * plane + row0 * width;
        if (call.accumulate)
          unpack_block<true>(from, pixels, to, plane, lanes);
        else
          unpack_block<false>(from, pixels, to, plane, lanes);
        if (call.activation)
          for (int k = 0; k < lanes; k++)
            activation_forward(*call.activation, to + k * plane, to + k * plane, pixels, call.activation_row);
      }
  }

  const bool backward_;
  const SumKind sums_;
  const bool on_unit_;
  const WeightsLayout weights_;
  const int64_t groups_;
  const int kernel_width_;
  const int64_t in_numbers_, in_channels_, out_channels_;  // per group, as this direction sees them
  const Axis rows_, columns_;
  const int band_rows_;  // output rows of a band
  const Band band_;
  const double flops_;
  const bool pairs_;  // rows are so short that two images may share a tile
  std::vector<Phase> phases_;
  int entries_ = 0, chain_ = 0;  // of the longest sum, and those added up at a time
  KeptWeights packed_;
};

// Offsets are 32-bit, and every phase has tables.
bool offsets_fit(const ConvolutionShape& s) {
  constexpr double kLimit = 1e9;
  constexpr int64_t kMostPhases = 1024;
  if (s.stride_y * s.stride_x > kMostPhases) return false;
  double taps = static_cast<double>(s.kernel_height * s.kernel_width);
  double wide = static_cast<double>((s.in_width + s.out_width * s.stride_x + s.kernel_width * s.dilation_x) *
                                    (s.kernel_height * s.dilation_y + s.stride_y + 2));
  return taps * 16 * static_cast<double>(s.in_channels + s.out_channels + 32) < kLimit &&
         wide * static_cast<double>(s.in_channels + s.out_channels + 32) < kLimit;
}

// Of an image with so many channels: the products of up to kDepth of them take as long as those of their pairs.
SumKind sums_of(const ConvolutionShape& s, int64_t channels) {
  return channels / s.groups > kDepth ? sums_of_rounded(s.bfloat16) : SumKind::kFloats;
}

}  // namespace

bool has_direct_forward(const ConvolutionShape& s) { return offsets_fit(s); }
std::unique_ptr<ImageKernel> make_direct_forward(const ConvolutionShape& s) {
  if (!offsets_fit(s)) return nullptr;
  return std::make_unique<Direct>(s, false, sums_of(s, s.in_channels));
}

std::unique_ptr<ImageKernel> make_exact_forward(const ConvolutionShape& s, SumKind sums) {
  return std::make_unique<Direct>(s, false, sums);
}

std::unique_ptr<ImageKernel> make_direct_backward_data(const ConvolutionShape& s) {
  if (!offsets_fit(s)) return nullptr;
  return std::make_unique<Direct>(s, true, sums_of(s, s.out_channels));
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
