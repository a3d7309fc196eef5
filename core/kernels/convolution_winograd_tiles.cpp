// The grid of tiles of a Winograd convolution, and the transforms of its input and its kernels.
#include <algorithm>

#include "kernels/convolution_winograd.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kMostTileColumns = 512;
// Channels on the smaller side, and on both together: below, the transforms cost what the products save.
constexpr int64_t kFewest3 = 16, kFewest5 = 12;
constexpr int64_t kTogether3 = 48, kTogether5 = 40;
constexpr int64_t kWeightsTogether3 = 32, kWeightsTogether5 = 24;
constexpr double kBandBytes = 200e3;                // packed input of an item
constexpr int64_t kMostWeights = int64_t{1} << 22;  // elements of U: 16 MB

// u = G g G^T
template <int kTaps>
void spread(const float* g, float* u) {
  using Axis = WinogradAxis<kTaps>;
  constexpr int kCells = Axis::kCells;
  for (int part = 0; part < kBlock; part += kWidth) {
    Vec r[kCells][kTaps];
    for (int s = 0; s < kTaps; s++) {
      Vec column[kTaps], made[kCells];
      for (int i = 0; i < kTaps; i++) column[i] = load(g + (i * kTaps + s) * kBlock + part);
      Axis::kernel(column, made);
      for (int i = 0; i < kCells; i++) r[i][s] = made[i];
    }
    for (int i = 0; i < kCells; i++) {
      Vec made[kCells];
      Axis::kernel(r[i], made);
      for (int s = 0; s < kCells; s++) store(u + (i * kCells + s) * kBlock + part, made[s]);
    }
  }
}

// dg = G^T du G
template <int kTaps>
void gather(const float* du, float* dg) {
  using Axis = WinogradAxis<kTaps>;
  constexpr int kCells = Axis::kCells;
  for (int part = 0; part < kBlock; part += kWidth) {
    Vec r[kTaps][kCells];
    for (int s = 0; s < kCells; s++) {
      Vec column[kCells], made[kTaps];
      for (int i = 0; i < kCells; i++) column[i] = load(du + (i * kCells + s) * kBlock + part);
      Axis::kernel_back(column, made);
      for (int i = 0; i < kTaps; i++) r[i][s] = made[i];
    }
    for (int i = 0; i < kTaps; i++) {
      Vec made[kTaps];
      Axis::kernel_back(r[i], made);
      for (int s = 0; s < kTaps; s++) store(dg + (i * kTaps + s) * kBlock + part, made[s]);
    }
  }
}

}  // namespace

WinogradGrid::WinogradGrid(const ConvolutionShape& s, bool backward, int most_tiles)
    : taps(static_cast<int>(s.kernel_height)),
      in_height(static_cast<int>(backward ? s.out_height : s.in_height)),
      in_width(static_cast<int>(backward ? s.out_width : s.in_width)),
      out_height(static_cast<int>(backward ? s.in_height : s.out_height)),
      out_width(static_cast<int>(backward ? s.in_width : s.out_width)),
      // dx(i) = sum_t w(t) dy(i + pad - t) = sum_q w(last - q) dy(i + q - (last - pad)), last = taps - 1
      row_shift(static_cast<int>(backward ? s.pad_up + 1 - taps : -s.pad_up)),
      column_shift(static_cast<int>(backward ? s.pad_left + 1 - taps : -s.pad_left)),
      lines((out_height + 1) / 2),
      line_tiles((out_width + 1) / 2),
      group_lines(1),
      part_tiles(even_tile(line_tiles, most_tiles)) {
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
  const double bytes = 8.0 * kBlock * static_cast<double>((2 * line_tiles + taps) * blocks_of(in_channels));
  const int groups = (lines + group_lines - 1) / group_lines;
  item_lines = group_lines * even_tile(groups, std::max(1, static_cast<int>(kBandBytes / bytes) / group_lines));
  item_lines = std::min(item_lines, lines);
}

Band winograd_band(int64_t rows, int image_width, int line_tiles, int taps, int shift) {
  auto axis = [=](int size, int outputs, int low) {
    return Axis{size, outputs, 1, 1, {{0, outputs, {{0, low}}}}, low, low + taps - 1};
  };
  int outputs = static_cast<int>(rows) - taps + 1;
  return Band(axis(outputs, outputs, 0), axis(image_width, 2 * line_tiles, shift), outputs);
}

WinogradInput::WinogradInput(const WinogradGrid& grid, int64_t channels, int band_lines)
    : grid_(grid),
      channels_(channels),
      band_(winograd_band(grid.most_rows(band_lines), grid.in_width, grid.line_tiles, grid.taps, grid.column_shift)) {}

void WinogradInput::pack(const ImageSource& image, int64_t first, int count, float* band) const {
  grid_.for_pieces(first, count, [&](int64_t n, int line, int number, int) {
    int rows = 2 * number + grid_.taps - 1;
    band_.pack(image, n, 0, channels_, 2 * line + grid_.row_shift, rows, band, nullptr);
    band += rows * band_.row();
  });
}

void WinogradInput::along_rows(const float* band, int64_t band_first, const WinogradGroup& group, float* e) const {
  // Rows of the band before the group: every sample that begins in between has taps - 1 more than two per line.
  const int64_t samples = group.first / grid_.lines - band_first / grid_.lines;
  band += (2 * (group.first - band_first) + samples * (grid_.taps - 1)) * band_.row() + 2 * group.tile * kBlock;
  // The rows of all pieces follow each other, in the band and in e.
  int64_t rows = 0;
  grid_.for_pieces(group.first, group.count,
                   [&](int64_t, int, int number, int) { rows += 2 * number + grid_.taps - 1; });
  for (int64_t b = 0; b < blocks(); b++, band += band_.plane(), e += rows_block())
    grid_.taps == 3 ? spread_rows<3>(band, rows, group.tiles, e) : spread_rows<5>(band, rows, group.tiles, e);
}

// e[cell][row][tile] = d B of 16 channels
template <int kTaps>
void WinogradInput::spread_rows(const float* band, int64_t rows, int64_t tiles, float* e) const {
  using Axis = WinogradAxis<kTaps>;
  constexpr int kCells = Axis::kCells;
  const int64_t pitch = band_.row(), cell = rows_cell();
  for (int64_t r = 0; r < rows; r++, band += pitch)
    for (int64_t t = 0; t < tiles; t++, e += kBlock)
      for (int part = 0; part < kBlock; part += kWidth) {
        Vec d[kCells], made[kCells];
        OPENBNNS_UNROLL for (int j = 0; j < kCells; j++) d[j] = load(band + (2 * t + j) * kBlock + part);
        Axis::input(d, made);
        OPENBNNS_UNROLL for (int j = 0; j < kCells; j++) store(e + j * cell + part, made[j]);
      }
}

void WinogradInput::across_rows(const float* e, int j, const WinogradGroup& group, float* v) const {
  e += j * rows_cell();
  for (int64_t b = 0; b < blocks(); b++, e += rows_block(), v += column_block())
    grid_.taps == 3 ? spread_column<3>(e, group, v) : spread_column<5>(e, group, v);
}

// v[cell][tile] = B^T e of 16 channels
template <int kTaps>
void WinogradInput::spread_column(const float* e, const WinogradGroup& group, float* v) const {
  using Axis = WinogradAxis<kTaps>;
  constexpr int kCells = Axis::kCells;
  const int64_t row = int64_t{group.tiles} * kBlock, cell = column_cell();
  grid_.for_pieces(group.first, group.count, [&](int64_t, int, int number, int) {
    for (int line = 0; line < number; line++, e += 2 * row)
      for (const float* from = e; from < e + row; from += kWidth, v += kWidth) {
        Vec d[kCells], made[kCells];
        OPENBNNS_UNROLL for (int i = 0; i < kCells; i++) d[i] = load(from + i * row);
        Axis::input(d, made);
        OPENBNNS_UNROLL for (int i = 0; i < kCells; i++) store(v + i * cell, made[i]);
      }
    e += (kTaps - 1) * row;
  });
}

bool suits_winograd(const ConvolutionShape& s, bool weights) {
  int64_t taps = s.kernel_height, cells = taps + 1;
  bool form = s.groups == 1 && (taps == 3 || taps == 5) && s.kernel_width == taps && s.stride_y == 1 &&
              s.stride_x == 1 && s.dilation_y == 1 && s.dilation_x == 1;
  if (!form || s.in_channels * s.out_channels > kMostWeights / (cells * cells)) return false;
  int64_t least = std::min(s.in_channels, s.out_channels);
  int64_t together = taps == 3 ? weights ? kWeightsTogether3 : kTogether3 : weights ? kWeightsTogether5 : kTogether5;
  bool few = least < (taps == 3 ? kFewest3 : kFewest5) || s.in_channels + s.out_channels < together;
  if (few) return false;
  // Both directions cut their output into tiles; the last of a row or column may be half empty.
  constexpr int64_t kSmallest = 6;
  auto fits = [](int64_t size) { return size >= kSmallest && size <= 2 * kMostTileColumns; };
  return fits(s.in_height) && fits(s.in_width) && fits(s.out_height) && fits(s.out_width) && s.pad_up < taps &&
         s.pad_left < taps;
}

void transform_kernel(int taps, const float* g, float* u) { taps == 3 ? spread<3>(g, u) : spread<5>(g, u); }

void transform_kernel_back(int taps, const float* du, float* dg) { taps == 3 ? gather<3>(du, dg) : gather<5>(du, dg); }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
