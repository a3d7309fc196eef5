// The grid of tiles of a Winograd convolution, and the transforms of its input and its kernels.
#include <algorithm>

#include "gemm/matrix_unit.h"
#include "kernels/convolution/winograd.h"
#include "kernels/convolution/winograd_bytes.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kMostTileColumns = 512;
// Channels on the smaller side, and on both together: below, the transforms cost what the products save.
constexpr int64_t kFewest3 = 16, kFewest5 = 12;
constexpr int64_t kTogether3 = 48, kTogether5 = 40;
constexpr int64_t kWeightsTogether3 = 32, kWeightsTogether5 = 24, kWeightsTogetherStep2 = 64;
constexpr double kMostShare = 0.65;   // of the products of the direct sum
constexpr double kBandBytes = 200e3;  // packed input of an item
// Elements of U (28 MB), and of its gradient (7 MB), which every group of tiles is added to.
constexpr int64_t kMostKernels = int64_t{7} << 20, kMostSums = int64_t{7} << 18;

// u = G g G^T
template <class Form>
void spread(const float* g, float* u) {
  using Rows = typename Form::Rows;
  using Columns = typename Form::Columns;
  using Lanes = typename Rows::Lanes;
  constexpr int kTaps = Rows::kCells - Rows::kOutputs + 1;
  for (int part = 0; part < kBlock; part += kWidth) {
    Lanes r[Rows::kCells][kTaps];
    for (int s = 0; s < kTaps; s++) {
      Lanes column[kTaps], made[Rows::kCells];
      for (int i = 0; i < kTaps; i++) column[i] = reinterpret_cast<Lanes>(load(g + (i * kTaps + s) * kBlock + part));
      Rows::kernel(column, made);
      for (int i = 0; i < Rows::kCells; i++) r[i][s] = made[i];
    }
    for (int i = 0; i < Rows::kCells; i++) {
      Lanes made[Columns::kCells];
      Columns::kernel(r[i], made);
      for (int s = 0; s < Columns::kCells; s++)
        store(u + (i * Columns::kCells + s) * kBlock + part, reinterpret_cast<Vec>(made[s]));
    }
  }
}

// dg = G^T du G
template <int kTaps>
void gather(const float* du, float* dg) {
  using Rows = typename WinogradForm<kTaps>::Rows;
  using Columns = typename WinogradForm<kTaps>::Columns;
  for (int part = 0; part < kBlock; part += kWidth) {
    Vec r[kTaps][Columns::kCells];
    for (int s = 0; s < Columns::kCells; s++) {
      Vec column[Rows::kCells], made[kTaps];
      for (int i = 0; i < Rows::kCells; i++) column[i] = load(du + (i * Columns::kCells + s) * kBlock + part);
      Rows::kernel_back(column, made);
      for (int i = 0; i < kTaps; i++) r[i][s] = made[i];
    }
    for (int i = 0; i < kTaps; i++) {
      Vec made[kTaps];
      Columns::kernel_back(r[i], made);
      for (int s = 0; s < kTaps; s++) store(dg + (i * kTaps + s) * kBlock + part, made[s]);
    }
  }
}

// Multiplications of step 2, as a share of those of the direct sum: tiles may be half empty.
double share_of_products(const ConvolutionShape& s, const WinogradGrid& grid) {
  const int lacking = grid.odd ? 1 : 0;  // places along an axis that phase 1 does without
  const int64_t places = (2 * grid.row_cells() - lacking) * (2 * grid.column_cells() - lacking);
  return static_cast<double>(grid.lines * grid.line_tiles * places) /
         static_cast<double>(s.out_height * s.out_width * s.kernel_height * s.kernel_width);
}

}  // namespace

WinogradGrid::WinogradGrid(const ConvolutionShape& s, bool backward, int most_tiles)
    : taps(static_cast<int>((s.kernel_height + s.stride_y - 1) / s.stride_y)),
      row_outputs(taps == 2 ? 3 : 2),  // see WinogradForm
      column_outputs(taps == 2   ? 3
                     : taps == 3 ? 4
                                 : 2),
      in_step(static_cast<int>(backward ? 1 : s.stride_y)),
      out_step(static_cast<int>(backward ? s.stride_y : 1)),
      in_height(static_cast<int>(backward ? s.out_height : s.in_height)),
      in_width(static_cast<int>(backward ? s.out_width : s.in_width)),
      out_height(static_cast<int>(backward ? s.in_height : s.out_height)),
      out_width(static_cast<int>(backward ? s.in_width : s.out_width)),
      in_row(-static_cast<int>(s.pad_up)),
      in_column(-static_cast<int>(s.pad_left)),
      out_row(0),
      out_column(0),
      odd(s.kernel_height % s.stride_y != 0),
      group_lines(1) {
  if (backward) {
    // The first cell with a pixel inside; cell i meets i, i - 1, ... of dy:
    // dx(i) = sum_t w(t) dy(i - t) = sum_q w(last - q) dy(i + q - last), last = taps - 1
    const int row = -in_row / out_step, column = -in_column / out_step;
    out_row = row * out_step + in_row;
    out_column = column * out_step + in_column;
    in_row = row + 1 - taps;
    in_column = column + 1 - taps;
  }
  auto tiles_along = [&](int pixels, int outputs) { return (pixels + outputs * out_step - 1) / (outputs * out_step); };
  lines = tiles_along(out_height - out_row, row_outputs);
  line_tiles = tiles_along(out_width - out_column, column_outputs);
  part_tiles = even_tile(line_tiles, most_tiles);
  const int tiles = lines * line_tiles;
  if (tiles <= most_tiles) {
    item_lines = group_lines = most_tiles / tiles * lines;
    return;
  }
  // Tiles are multiplied a few at a time, each time with some effort of its own: as few times as can be, and large
  // groups.
  auto times = [&](int count) { return (count * line_tiles + kWideRows - 1) / kWideRows; };
  int fewest = 0;
  for (int n = 1; n == 1 || n * line_tiles <= most_tiles; n++) {
    int total = lines / n * times(n) + times(lines % n);
    if (n > 1 && total > fewest) continue;
    fewest = total;
    group_lines = n;
  }
  const int64_t in_channels = backward ? s.out_channels : s.in_channels;
  const double bytes = 4.0 * kBlock * row_outputs * in_step * in_step *
                       static_cast<double>((column_outputs * line_tiles + taps) * blocks_of(in_channels));
  const int groups = (lines + group_lines - 1) / group_lines;
  item_lines = group_lines * even_tile(groups, std::max(1, static_cast<int>(kBandBytes / bytes) / group_lines));
  item_lines = std::min(item_lines, lines);
}

Band winograd_band(int64_t rows, int image_width, int outputs, int taps, int step, int first) {
  auto axis = [=](int size, int count, int low) {
    return Axis{size, count, step, 1, {{0, count, {{0, low}, {1, low + step - 1}}}}, low, low + step * taps - 1};
  };
  int count = static_cast<int>(rows) - taps + 1;
  return Band(axis(count, count, 0), axis(image_width, outputs, first), count);
}

WinogradInput::WinogradInput(const WinogradGrid& grid, int64_t channels, int band_lines, bool bytes)
    : grid_(grid),
      channels_(channels),
      band_(winograd_band(grid.most_rows(band_lines), grid.in_width, grid.column_outputs * grid.line_tiles, grid.taps,
                          grid.in_step, grid.in_column)) {
  spread_rows_ = bytes                      ? &WinogradInput::spread_rows<ByteColumns>
                 : grid.column_cells() == 4 ? &WinogradInput::spread_rows<WinogradCells<4>>
                                            : &WinogradInput::spread_rows<WinogradCells<6>>;
  spread_column_ = bytes                   ? &WinogradInput::spread_column<ByteRows>
                   : grid.row_cells() == 4 ? &WinogradInput::spread_column<WinogradCells<4>>
                                           : &WinogradInput::spread_column<WinogradCells<6>>;
}

void WinogradInput::pack(const ImageSource& image, int64_t first, int count, const ChannelBlocks& channels,
                         float* band) const {
  grid_.for_pieces(first, count, [&](int64_t n, int line, int number, int) {
    int rows = (grid_.row_outputs * number + grid_.taps - 1) * grid_.in_step;
    band_.pack(image, n, channels.channel(), channels.channels(channels_),
               grid_.row_outputs * line * grid_.in_step + grid_.in_row, rows, band, nullptr);
    band += rows * band_.row();
  });
}

void WinogradInput::along_rows(const float* band, int64_t band_first, const WinogradGroup& group,
                               const ChannelBlocks& channels, float* e) const {
  // Rows of the band before the group: every sample that begins in between has taps - 1 more than those of its tiles.
  const int64_t samples = group.first / grid_.lines - band_first / grid_.lines;
  const int64_t before = grid_.row_outputs * (group.first - band_first) + samples * (grid_.taps - 1);
  const int step = grid_.in_step;
  band += before * step * band_.row() + grid_.column_outputs * group.tile * kBlock;
  // The rows of all pieces follow each other, in the band and in e.
  int64_t rows = 0;
  grid_.for_pieces(group.first, group.count,
                   [&](int64_t, int, int number, int) { rows += grid_.row_outputs * number + grid_.taps - 1; });
  for (int phase = 0; phase < phases(); phase++) {
    const float* from = band + phase / step * band_.row() + phase % step * (band_.row() / step);
    for (int64_t b = 0; b < channels.count; b++, from += band_.plane(), e += rows_block())
      (this->*spread_rows_)(from, rows, group.tiles, e);
  }
}

// e[cell][row][tile] = d B of 16 channels
template <class Axis>
void WinogradInput::spread_rows(const float* band, int64_t rows, int64_t tiles, float* e) const {
  using Lanes = typename Axis::Lanes;
  constexpr int kCells = Axis::kCells;
  const int64_t pitch = grid_.in_step * band_.row(), cell = rows_cell(), tile = grid_.column_outputs * kBlock;
  for (int64_t r = 0; r < rows; r++, band += pitch)
    for (int64_t t = 0; t < tiles; t++, e += kBlock)
      for (int part = 0; part < kBlock; part += kWidth) {
        Lanes d[kCells], made[kCells];
        OPENBNNS_UNROLL for (int j = 0; j < kCells; j++) d[j] =
            reinterpret_cast<Lanes>(load(band + t * tile + j * kBlock + part));
        Axis::input(d, made);
        OPENBNNS_UNROLL for (int j = 0; j < kCells; j++) store(e + j * cell + part, reinterpret_cast<Vec>(made[j]));
      }
}

void WinogradInput::across_rows(const float* e, int j, const WinogradGroup& group, const ChannelBlocks& channels,
                                float* v) const {
  e += j * rows_cell();
  for (int64_t b = 0; b < phases() * channels.count; b++, e += rows_block(), v += column_block())
    (this->*spread_column_)(e, group, v);
}

// v[cell][tile] = B^T e of 16 channels
template <class Axis>
void WinogradInput::spread_column(const float* e, const WinogradGroup& group, float* v) const {
  using Lanes = typename Axis::Lanes;
  constexpr int kCells = Axis::kCells;
  const int64_t row = int64_t{group.tiles} * kBlock, cell = column_cell();
  grid_.for_pieces(group.first, group.count, [&](int64_t, int, int number, int) {
    for (int line = 0; line < number; line++, e += grid_.row_outputs * row)
      for (const float* from = e; from < e + row; from += kWidth, v += kWidth) {
        Lanes d[kCells], made[kCells];
        OPENBNNS_UNROLL for (int i = 0; i < kCells; i++) d[i] = reinterpret_cast<Lanes>(load(from + i * row));
        Axis::input(d, made);
        OPENBNNS_UNROLL for (int i = 0; i < kCells; i++) store(v + i * cell, reinterpret_cast<Vec>(made[i]));
      }
    e += (grid_.taps - 1) * row;
  });
}

int64_t winograd_products(const ConvolutionShape& s) {
  const int64_t taps = (s.kernel_height + s.stride_y - 1) / s.stride_y, places = taps == 2 ? 16 : taps == 3 ? 24 : 36;
  return places * s.stride_y * s.stride_x * s.in_channels * s.out_channels;
}

bool suits_winograd(const ConvolutionShape& s, bool backward, bool weights) {
  if (s.exact) return false;
  // A matrix unit multiplies more than ten times as fast as vectors of floats; these save two thirds of the products.
  if (s.bfloat16 && !weights && on_matrix_unit(SumKind::kBFloat16Pairs)) return false;
  const int64_t step = s.stride_y, taps = (s.kernel_height + step - 1) / step;
  bool form = s.groups == 1 && s.kernel_width == s.kernel_height && s.stride_x == step && s.dilation_y == 1 &&
              s.dilation_x == 1 && s.pad_up < s.kernel_height && s.pad_left < s.kernel_width &&
              (step == 1 ? taps == 3 || taps == 5 : step == 2 && s.kernel_height >= 4 && s.kernel_height <= 6);
  if (!form || winograd_products(s) > (weights ? kMostSums : kMostKernels)) return false;
  const int64_t least = std::min(s.in_channels, s.out_channels), channels = s.in_channels + s.out_channels;
  int64_t together = taps < 5 ? kTogether3 : kTogether5;
  if (weights) together = step == 2 ? kWeightsTogetherStep2 : taps < 5 ? kWeightsTogether3 : kWeightsTogether5;
  if (least < (taps < 5 ? kFewest3 : kFewest5) || channels < together) return false;
  // Pixels that no tap meets have a gradient of exactly zero, which tiles would round to something close.
  auto reached = [=](int64_t in, int64_t out, int64_t pad) { return in <= (out - 1) * step + s.kernel_height - pad; };
  if (backward && !(reached(s.in_height, s.out_height, s.pad_up) && reached(s.in_width, s.out_width, s.pad_left)))
    return false;
  // Both directions cut their output into tiles; the last of a row or column may be half empty.
  constexpr int64_t kSmallest = 6;
  auto fits = [](int64_t size) { return size >= kSmallest && size <= 2 * kMostTileColumns; };
  return fits(s.in_height) && fits(s.in_width) && fits(s.out_height) && fits(s.out_width) &&
         (step == 1 || share_of_products(s, WinogradGrid(s, backward, 1)) < kMostShare);
}

void transform_kernel(int taps, const float* g, float* u) {
  taps == 2 ? spread<WinogradForm<2>>(g, u) : taps == 3 ? spread<WinogradForm<3>>(g, u) : spread<WinogradForm<5>>(g, u);
}

void transform_kernel_of_bytes(const float* g, float* u) { spread<ByteForm>(g, u); }

void transform_kernel_back(int taps, const float* du, float* dg) {
  taps == 2 ? gather<2>(du, dg) : taps == 3 ? gather<3>(du, dg) : gather<5>(du, dg);
}

std::vector<int> taps_of_phase(int taps, int step, int size, int phase) {
  std::vector<int> places;
  for (int i = 0; i < taps * taps; i++) {
    const int row = i / taps * step + phase / step, column = i % taps * step + phase % step;
    places.push_back(row < size && column < size ? row * size + column : -1);
  }
  return places;
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
