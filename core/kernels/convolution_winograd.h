// 3 x 3 and 5 x 5 convolutions with step 1 by tiles of 2 x 2 outputs (Winograd): 16 multiplications instead of 36 per
// tile, or 36 instead of 100.
//
//   y = A^T [ (G g G^T) * (B^T d B) ] A        for a tile d of the input (4 x 4, 6 x 6) and the kernel g
//
// The matrices follow from evaluating polynomials at 0, 1, -1 and infinity, and at 1/2 and -2 for 5 x 5. Their factors
// are small, so the rounding error is that of a direct sum (3 x 3) or about twice as large (5 x 5). For each place of
// the tile the sum over channels is a matrix product. An input that is not finite may reach all outputs of a tile.
#pragma once
#include <algorithm>
#include <cstdint>

#include "gemm/micro_kernel.h"
#include "kernels/convolution_band.h"
#include "kernels/convolution_kernels.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// The transforms along one axis: a tile of kCells input cells, kTaps taps, 2 outputs.
template <int kTaps>
struct WinogradAxis;

//   B^T = 1  0 -1  0    G = 1    0   0      A^T = 1  1  1  0
//         0  1  1  0        1/2  1/2 1/2          0  1 -1 -1
//         0 -1  1  0        1/2 -1/2 1/2
//         0  1  0 -1        0    0   1
template <>
struct WinogradAxis<3> {
  static constexpr int kCells = 4;
  OPENBNNS_INLINE static void input(const Vec (&d)[4], Vec (&v)[4]) {  // B^T d
    v[0] = d[0] - d[2];
    v[1] = d[1] + d[2];
    v[2] = d[2] - d[1];
    v[3] = d[1] - d[3];
  }
  OPENBNNS_INLINE static void kernel(const Vec (&g)[3], Vec (&u)[4]) {  // G g
    u[0] = g[0];
    u[1] = 0.5f * ((g[0] + g[2]) + g[1]);
    u[2] = 0.5f * ((g[0] + g[2]) - g[1]);
    u[3] = g[2];
  }
  OPENBNNS_INLINE static void kernel_back(const Vec (&u)[4], Vec (&g)[3]) {  // G^T u
    Vec sum = 0.5f * (u[1] + u[2]);
    g[0] = u[0] + sum;
    g[1] = 0.5f * (u[1] - u[2]);
    g[2] = sum + u[3];
  }
  OPENBNNS_INLINE static void output(const Vec (&m)[4], Vec (&y)[2]) {  // A^T m
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] - m[3];
  }
  OPENBNNS_INLINE static void gradient(const Vec (&y)[2], Vec (&d)[4]) {  // A y
    d[0] = y[0];
    d[1] = y[0] + y[1];
    d[2] = y[0] - y[1];
    d[3] = -y[1];
  }
  static constexpr float kGradient[4][2] = {{1, 0}, {1, 1}, {1, -1}, {0, -1}};  // A
};

//   B^T = 1 -3/2 -2    3/2  1   0    G =   1      0     0     0      0     A^T = 1  1  1  1   1  0
//         0 -1    1/2  5/2  1   0         1/3    1/3   1/3   1/3    1/3          0  1 -1 1/2 -2  1
//         0  1   -5/2  1/2  1   0        -1/3    1/3  -1/3   1/3   -1/3
//         0 -2   -1    2    1   0       -16/15  -8/15 -4/15 -2/15  -1/15
//         0  1/2 -1   -1/2  1   0         1/15  -2/15  4/15 -8/15  16/15
//         0  1   -3/2 -2    3/2 1         0      0     0     0      1
template <>
struct WinogradAxis<5> {
  static constexpr int kCells = 6;
  OPENBNNS_INLINE static void input(const Vec (&d)[6], Vec (&v)[6]) {
    Vec a = d[3] - d[1], b = d[4] - d[2];
    v[0] = (d[0] - d[2]) + b + 1.5f * a;
    v[1] = (b + a) + 1.5f * (d[3] + d[2]);
    v[2] = (b - a) + 1.5f * (d[3] - d[2]);
    v[3] = b + 2.f * a;
    v[4] = b - 0.5f * a;
    v[5] = (d[5] - d[3]) - a + 1.5f * b;
  }
  OPENBNNS_INLINE static void kernel(const Vec (&g)[5], Vec (&u)[6]) {
    Vec even = (g[0] + g[2]) + g[4], odd = g[1] + g[3];
    u[0] = g[0];
    u[1] = (1 / 3.f) * (odd + even);
    u[2] = (1 / 3.f) * (odd - even);
    u[3] = (-1 / 15.f) * ((16.f * g[0] + 8.f * g[1]) + (4.f * g[2] + 2.f * g[3]) + g[4]);
    u[4] = (1 / 15.f) * ((16.f * g[4] - 8.f * g[3]) + (4.f * g[2] - 2.f * g[1]) + g[0]);
    u[5] = g[4];
  }
  OPENBNNS_INLINE static void kernel_back(const Vec (&u)[6], Vec (&g)[5]) {
    Vec odd = (1 / 3.f) * (u[1] + u[2]), even = (1 / 3.f) * (u[1] - u[2]);
    Vec a = (1 / 15.f) * u[3], b = (1 / 15.f) * u[4];
    g[0] = u[0] + even - 16.f * a + b;
    g[1] = odd - 8.f * a - 2.f * b;
    g[2] = even - 4.f * (a - b);
    g[3] = odd - 2.f * a - 8.f * b;
    g[4] = u[5] + even - a + 16.f * b;
  }
  OPENBNNS_INLINE static void output(const Vec (&m)[6], Vec (&y)[2]) {
    y[0] = m[0] + (m[1] + m[2]) + (m[3] + m[4]);
    y[1] = m[5] + (m[1] - m[2]) + (0.5f * m[3] - 2.f * m[4]);
  }
  OPENBNNS_INLINE static void gradient(const Vec (&y)[2], Vec (&d)[6]) {
    d[0] = y[0];
    d[1] = y[0] + y[1];
    d[2] = y[0] - y[1];
    d[3] = y[0] + 0.5f * y[1];
    d[4] = y[0] - 2.f * y[1];
    d[5] = y[1];
  }
  static constexpr float kGradient[6][2] = {{1, 0}, {1, 1}, {1, -1}, {1, 0.5f}, {1, -2}, {0, 1}};  // A
};

// Output cell (i, j) meets input cells (i + row_shift + 0 .. taps - 1, j + column_shift + 0 .. taps - 1). Lines (rows
// of tiles) are counted through all samples; a group of lines is transformed and multiplied at a time.
struct WinogradGrid {
  int taps;  // of one axis of the kernel: 3 or 5
  int in_height, in_width, out_height, out_width, row_shift, column_shift;
  int lines, line_tiles;  // of one sample: [lines][line_tiles]
  int group_lines;        // at most `most_tiles` tiles: whole samples, or some lines of one
  int part_tiles;         // of a line that has more than that: it is taken in parts, one line at a time
  int item_lines;         // groups of one sample whose packed input stays in the cache, or one group of several

  [[gnu::cold]] WinogradGrid(const ConvolutionShape& s, bool backward, int most_tiles);
  int cells() const { return taps + 1; }            // of one axis of a tile
  int places() const { return cells() * cells(); }  // of a tile
  // Of the largest group, with room for zeros.
  int64_t most_tiles() const { return int64_t{group_lines} * part_tiles + 6; }
  // Rows of the input that `count` lines look at; those of different samples overlap nowhere.
  int64_t most_rows(int count) const { return 2 * count + ((count + lines - 2) / lines + 1) * int64_t{taps - 1}; }

  // Items of at most `most_lines` lines: whole samples, or parts of one. Lines of the one with number `index`:
  struct Lines {
    int64_t first;
    int count;
  };
  int64_t items(int64_t batch, int most_lines) const {
    if (most_lines < lines) return batch * item_parts(most_lines);
    return (batch + most_lines / lines - 1) / (most_lines / lines);
  }
  Lines item(int64_t index, int64_t batch, int most_lines) const {
    if (most_lines < lines) {
      int64_t n = index / item_parts(most_lines);
      int from = static_cast<int>(index % item_parts(most_lines)) * most_lines;
      return {n * lines + from, std::min(most_lines, lines - from)};
    }
    int64_t samples = most_lines / lines, n = index * samples;
    return {n * lines, static_cast<int>(std::min(samples, batch - n)) * lines};
  }
  int64_t item_parts(int most_lines) const { return (lines + most_lines - 1) / most_lines; }

  // body(sample, first line of it, number of lines, lines before) for the pieces of lines [first, first + count)
  template <class Body>
  void for_pieces(int64_t first, int count, Body body) const {
    for (int done = 0; done < count;) {
      int line = static_cast<int>((first + done) % lines), number = std::min(lines - line, count - done);
      body((first + done) / lines, line, number, done);
      done += number;
    }
  }
};

// Some tiles of each of some lines of the grid.
struct WinogradGroup {
  int64_t first;    // line
  int count;        // lines
  int tile, tiles;  // of each line
  int64_t size() const { return int64_t{count} * tiles; }
};

// The input transform V = B^T d B, with 16 channels side by side, in three steps:
//
//   band: rows of the image with a border of zeros, channels / 16 blocks
//   e     [cell j][channels / 16][row][tile of the line][16] = d B, along each row
//   v     [cell i][channels / 16][tile][16]: column j of B^T (d B), for one j at a time
//
// Each is small enough for the cache that the next step finds it in.
class WinogradInput {
 public:
  // Bands have at most `band_lines` lines.
  WinogradInput(const WinogradGrid& grid, int64_t channels, int band_lines);

  int64_t blocks() const { return blocks_of(channels_); }
  int64_t band_floats() const { return blocks() * band_.plane(); }
  int64_t rows_floats() const { return grid_.cells() * rows_cell(); }
  int64_t column_block() const { return grid_.most_tiles() * kBlock; }
  int64_t column_cell() const { return blocks() * column_block() + kBlock; }  // a line of cache between cells
  int64_t column_floats() const { return grid_.cells() * column_cell(); }

  void pack(const ImageSource& image, int64_t first, int count, float* band) const;
  // band: from line `band_first` on
  void along_rows(const float* band, int64_t band_first, const WinogradGroup& group, float* e) const;
  void across_rows(const float* e, int j, const WinogradGroup& group, float* v) const;

 private:
  int64_t rows_block() const { return grid_.most_rows(grid_.group_lines) * grid_.part_tiles * kBlock; }
  int64_t rows_cell() const { return blocks() * rows_block(); }
  template <int kTaps>
  void spread_rows(const float* band, int64_t rows, int64_t tiles, float* e) const;
  template <int kTaps>
  void spread_column(const float* e, const WinogradGroup& group, float* v) const;

  const WinogradGrid& grid_;
  const int64_t channels_;
  const Band band_;
};

// A band for an axis of tiles of 2 outputs that meet `taps` cells from `shift` on.
Band winograd_band(int64_t rows, int image_width, int line_tiles, int taps, int shift);

// Whether the tiles save time, in making an image or the gradient of the weights; U must stay small.
bool suits_winograd(const ConvolutionShape& s, bool weights);

// Transforms of one kernel, lanes side by side. g: [taps^2][16], u: [places][16] = G g G^T, and dg = G^T du G.
void transform_kernel(int taps, const float* g, float* u);
void transform_kernel_back(int taps, const float* du, float* dg);
constexpr int kMostTaps = 25, kMostPlaces = 36;  // of both axes together

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
