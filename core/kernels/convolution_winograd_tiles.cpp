// The grid of tiles of a Winograd convolution, and the transforms of its input and its kernels.
#include <algorithm>
#include <utility>

#include "kernels/convolution_winograd.h"
#include "kernels/scratch_uses.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int kMostTiles = 128;  // of a group, unless one line has more
constexpr int64_t kMostTileColumns = 512;
constexpr int64_t kFewestChannels = 24;             // below, the transforms cost what the products save
constexpr int64_t kMostWeights = int64_t{1} << 18;  // 16 MB of U

template <int kFirst, int... kLane>
OPENBNNS_INLINE Vec every_other(Vec a, Vec b, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(a, b, (2 * kLane + kFirst)...);
}

// r = one row of B^T d B before the columns are combined: cells 2 j .. 2 j + 3 for lanes j.
OPENBNNS_INLINE void combine_columns(const float* cells, Vec (&r)[4]) {
  constexpr auto lanes = std::make_integer_sequence<int, kWidth>{};
  Vec a = load(cells), b = load(cells + kWidth), c = load(cells + 2), d = load(cells + 2 + kWidth);
  Vec d0 = every_other<0>(a, b, lanes), d1 = every_other<1>(a, b, lanes);
  Vec d2 = every_other<0>(c, d, lanes), d3 = every_other<1>(c, d, lanes);
  r[0] = d0 - d2;
  r[1] = d1 + d2;
  r[2] = d2 - d1;
  r[3] = d1 - d3;
}

// One line of tiles; cells: its first input cell, rows `row` apart. out[place * stride + tile].
void transform_line(const float* cells, int64_t row, int tiles, float* out, int64_t stride) {
  for (int j = 0; j < tiles; j += kWidth) {
    Vec r[4][4];
    OPENBNNS_UNROLL for (int i = 0; i < 4; i++) combine_columns(cells + i * row + 2 * j, r[i]);
    OPENBNNS_UNROLL for (int s = 0; s < 4; s++) {
      float* to = out + s * stride + j;
      store(to, r[0][s] - r[2][s]);
      store(to + 4 * stride, r[1][s] + r[2][s]);
      store(to + 8 * stride, r[2][s] - r[1][s]);
      store(to + 12 * stride, r[1][s] - r[3][s]);
    }
  }
}

// Rows [first, first + rows) of one plane with the columns that the tiles look at; zeros outside the image.
void copy_with_border(const WinogradGrid& g, const float* plane, int first_held, int first, int rows, int64_t width,
                      float* out) {
  int left = std::max(0, -g.column_shift), from = std::max(0, g.column_shift);
  int64_t count = std::max<int64_t>(0, std::min<int64_t>(width - left, g.in_width - from));
  for (int r = 0; r < rows; r++, out += width) {
    int y = first + r;
    if (y < 0 || y >= g.in_height) {
      std::fill_n(out, width, 0.f);
      continue;
    }
    std::fill_n(out, std::min<int64_t>(left, width), 0.f);
    std::copy_n(plane + int64_t{y - first_held} * g.in_width + from, count, out + left);
    std::fill(out + std::min<int64_t>(left + count, width), out + width, 0.f);
  }
}

}  // namespace

WinogradGrid::WinogradGrid(const ConvolutionShape& s, bool backward)
    : in_height(static_cast<int>(backward ? s.out_height : s.in_height)),
      in_width(static_cast<int>(backward ? s.out_width : s.in_width)),
      out_height(static_cast<int>(backward ? s.in_height : s.out_height)),
      out_width(static_cast<int>(backward ? s.in_width : s.out_width)),
      // dx(i) = sum_t w(t) dy(i + pad - t) = sum_q w(2 - q) dy(i + q - (2 - pad))
      row_shift(static_cast<int>(backward ? s.pad_up - 2 : -s.pad_up)),
      column_shift(static_cast<int>(backward ? s.pad_left - 2 : -s.pad_left)),
      lines((out_height + 1) / 2),
      line_tiles((out_width + 1) / 2),
      group_lines(1) {
  // As many lines as leave the fewest lanes of the last block of 16 tiles empty.
  double best = 0;
  for (int n = 1; n == 1 || n * line_tiles <= kMostTiles; n++) {
    double filled = static_cast<double>(n * line_tiles) / static_cast<double>(round_up(n * line_tiles, kBlock));
    if (filled < best || n * line_tiles < kMostTiles / 4) continue;
    best = filled;
    group_lines = n;
  }
}

bool suits_winograd(const ConvolutionShape& s) {
  bool form = s.groups == 1 && s.kernel_height == 3 && s.kernel_width == 3 && s.stride_y == 1 && s.stride_x == 1 &&
              s.dilation_y == 1 && s.dilation_x == 1;
  if (!form || std::min(s.in_channels, s.out_channels) < kFewestChannels ||
      s.in_channels * s.out_channels > kMostWeights)
    return false;
  // Both directions cut their output into tiles; the last of a row or column may be half empty.
  constexpr int64_t kSmallest = 6;
  auto fits = [](int64_t size) { return size >= kSmallest && size <= 2 * kMostTileColumns; };
  return fits(s.in_height) && fits(s.in_width) && fits(s.out_height) && fits(s.out_width) && s.pad_up <= 2 &&
         s.pad_left <= 2;
}

void transform_input(const WinogradGrid& g, const ImageSource& image, int64_t channels, int64_t first, int count,
                     const WinogradInput& layout, float* v) {
  const int64_t width = 2 * int64_t{g.line_tiles} + 2, slack = 2 * kWidth + 2;
  const int most_rows = 2 * g.group_lines + 2;
  const int64_t tiles = int64_t{count} * g.line_tiles, blocks = blocks_of(tiles), stride = blocks * kBlock + kWidth;
  // [rows][width] cells of one channel, then [place][tile] of it
  float* cells = scratch(kPatches, static_cast<size_t>(most_rows * width + slack + kPlaces * stride));
  float* line = cells + most_rows * width + slack;
  std::fill_n(cells + most_rows * width, slack, 0.f);
  for (int64_t c = 0; c < channels; c++) {
    for (int done = 0; done < count;) {
      int64_t n = (first + done) / g.lines;
      int row = static_cast<int>((first + done) % g.lines), rows = std::min(g.lines - row, count - done);
      int top = 2 * row + g.row_shift, cell_rows = 2 * rows + 2;
      int held = std::max(0, std::min(top, g.in_height)), end = std::max(held, std::min(top + cell_rows, g.in_height));
      const float* plane = nullptr;
      int64_t plane_stride;
      if (end > held)
        plane = image.pixels(n, c, 1, int64_t{held} * g.in_width, int64_t{end - held} * g.in_width, &plane_stride);
      copy_with_border(g, plane, held, top, cell_rows, width, cells);
      for (int i = 0; i < rows; i++)
        transform_line(cells + 2 * i * width, width, g.line_tiles, line + int64_t{done + i} * g.line_tiles, stride);
      done += rows;
    }
    for (int p = 0; p < kPlaces; p++) {
      std::fill(line + p * stride + tiles, line + p * stride + blocks * kBlock, 0.f);
      float* to = v + p * layout.place + c * kBlock;
      for (int64_t b = 0; b < blocks; b++) {
        __builtin_prefetch(to + b * layout.block + 2 * kBlock, 1);
        OPENBNNS_UNROLL for (int i = 0; i < kBlock; i += kWidth)
            store(to + b * layout.block + i, load(line + p * stride + b * kBlock + i));
      }
    }
  }
  for (int64_t c = channels; c < layout.channels; c++)
    for (int p = 0; p < kPlaces; p++)
      for (int64_t b = 0; b < blocks; b++)
        std::fill_n(v + p * layout.place + b * layout.block + c * kBlock, kBlock, 0.f);
}

void transform_kernel(const float* g, float* u) {
  for (int part = 0; part < kBlock; part += kWidth) {
    Vec r[4][3];
    for (int s = 0; s < 3; s++) {
      Vec a = load(g + s * kBlock + part), b = load(g + (3 + s) * kBlock + part), c = load(g + (6 + s) * kBlock + part);
      r[0][s] = a;
      r[1][s] = 0.5f * ((a + c) + b);
      r[2][s] = 0.5f * ((a + c) - b);
      r[3][s] = c;
    }
    for (int i = 0; i < 4; i++) {
      float* to = u + 4 * i * kBlock + part;
      store(to, r[i][0]);
      store(to + kBlock, 0.5f * ((r[i][0] + r[i][2]) + r[i][1]));
      store(to + 2 * kBlock, 0.5f * ((r[i][0] + r[i][2]) - r[i][1]));
      store(to + 3 * kBlock, r[i][2]);
    }
  }
}

void transform_kernel_back(const float* du, float* dg) {
  for (int part = 0; part < kBlock; part += kWidth) {
    Vec r[3][4];
    for (int s = 0; s < 4; s++) {
      Vec m[4];
      for (int i = 0; i < 4; i++) m[i] = load(du + (4 * i + s) * kBlock + part);
      Vec sum = 0.5f * (m[1] + m[2]);
      r[0][s] = m[0] + sum;
      r[1][s] = 0.5f * (m[1] - m[2]);
      r[2][s] = sum + m[3];
    }
    for (int i = 0; i < 3; i++) {
      float* to = dg + 3 * i * kBlock + part;
      Vec sum = 0.5f * (r[i][1] + r[i][2]);
      store(to, r[i][0] + sum);
      store(to + kBlock, 0.5f * (r[i][1] - r[i][2]));
      store(to + 2 * kBlock, sum + r[i][3]);
    }
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
