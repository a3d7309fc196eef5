// Convolutions in tiles of a few outputs with fewer multiplications (Winograd): 3 x 3 with stride 1, 24 instead of 72
// for 2 x 4 outputs; 5 x 5, 36 instead of 100 for 2 x 2; and 4 x 4 to 6 x 6 with stride 2.
//
//   y = A^T [ (G g G^T) * (B^T d B) ] A        for a tile d of the input and the kernel g
//
// The matrices follow from evaluating polynomials at 0, 1, -1 and infinity (axes with 4 cells), or at 0, 3/4, -3/4,
// 3/2, -3/2 and infinity (6 cells). Their factors are small, so the rounding error is only a few times that of a direct
// sum. For each place of the tile the sum over channels is a matrix product. An input that is not finite may reach all
// outputs of a tile.
//
// With stride 2, squares of 2 x 2 pixels of the padded input become cells with four times as many channels, the phases
// (row % 2, column % 2). On these the stride is 1, and the kernel has 2 x 2 taps (4 x 4; 16 instead of 36
// multiplications for 3 x 3 outputs) or 3 x 3 (5 x 5 and 6 x 6). Kernels of odd size have no last tap in phases 1,
// which saves them a row or column of places.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "gemm/micro_kernel.h"
#include "kernels/convolution/band.h"
#include "kernels/convolution/kernels.h"
#include "kernels/convolution/weights_splits.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// B^T d for one axis of a tile.
template <int kCells>
struct WinogradCells;

//   B^T = 1  0 -1  0
//         0  1  1  0
//         0 -1  1  0
//         0  1  0 -1
template <>
struct WinogradCells<4> {
  using Lanes = Vec;
  static constexpr int kCells = 4;
  OPENBNNS_INLINE static void input(const Vec (&d)[4], Vec (&v)[4]) {
    v[0] = d[0] - d[2];
    v[1] = d[1] + d[2];
    v[2] = d[2] - d[1];
    v[3] = d[1] - d[3];
  }
};

// With p = 3/4, q = 3/2:
//
//   B^T = (pq)^2  0     -p^2-q^2  0        1  0
//         0      -p q^2 -q^2      p        1  0
//         0       p q^2 -q^2     -p        1  0
//         0      -p^2 q -p^2      q        1  0
//         0       p^2 q -p^2     -q        1  0
//         0      (pq)^2  0       -p^2-q^2  0  1
template <>
struct WinogradCells<6> {
  using Lanes = Vec;
  static constexpr int kCells = 6;
  static constexpr float p = 0.75f, q = 1.5f, p2 = p * p, q2 = q * q, sum = p2 + q2, product = p2 * q2;
  OPENBNNS_INLINE static void input(const Vec (&d)[6], Vec (&v)[6]) {
    Vec even = d[4] - q2 * d[2], odd = p * (d[3] - q2 * d[1]);
    v[0] = (d[4] - sum * d[2]) + product * d[0];
    v[1] = even + odd;
    v[2] = even - odd;
    even = d[4] - p2 * d[2], odd = q * (d[3] - p2 * d[1]);
    v[3] = even + odd;
    v[4] = even - odd;
    v[5] = (d[5] - sum * d[3]) + product * d[1];
  }
  // The other matrices, for any number of taps and outputs: rows of G are powers of the points over these numbers,
  // which are 1 / prod (point - other point), and rows of A^T are powers of the points.
  static constexpr float kAtZero = 64 / 81.f, kAtP = -128 / 243.f, kAtQ = 32 / 243.f;
};

// The other transforms along one axis: kTaps taps, kOutputs outputs, kTaps + kOutputs - 1 cells.
template <int kTaps, int kOutputs>
struct WinogradAxis;

//   G = 1    0   0      A^T = 1  1  1  0
//       1/2  1/2 1/2          0  1 -1 -1
//       1/2 -1/2 1/2
//       0    0   1
template <>
struct WinogradAxis<3, 2> : WinogradCells<4> {
  static constexpr int kOutputs = 2;
  OPENBNNS_INLINE static void kernel(const Vec (&g)[3], Vec (&u)[4]) {  // G g
    u[0] = g[0];
    u[1] = 0.5f * ((g[0] + g[2]) + g[1]);
    u[2] = 0.5f * ((g[0] + g[2]) - g[1]);
    u[3] = g[2];
  }
  OPENBNNS_INLINE static void kernel_back(const Vec (&u)[4], Vec (&g)[3]) {  // G^T u
    Vec half = 0.5f * (u[1] + u[2]);
    g[0] = u[0] + half;
    g[1] = 0.5f * (u[1] - u[2]);
    g[2] = half + u[3];
  }
  OPENBNNS_INLINE static void output(const Vec (&m)[4], Vec (&y)[2]) {  // A^T m
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] - m[3];
  }
  static constexpr float kGradient[4][2] = {{1, 0}, {1, 1}, {1, -1}, {0, -1}};  // A
};

//   G = 1    0      A^T = 1  1  1  0
//       1/2  1/2          0  1 -1  0
//       1/2 -1/2          0  1  1 -1
//       0    1
template <>
struct WinogradAxis<2, 3> : WinogradCells<4> {
  static constexpr int kOutputs = 3;
  OPENBNNS_INLINE static void kernel(const Vec (&g)[2], Vec (&u)[4]) {
    u[0] = g[0];
    u[1] = 0.5f * (g[0] + g[1]);
    u[2] = 0.5f * (g[0] - g[1]);
    u[3] = g[1];
  }
  OPENBNNS_INLINE static void kernel_back(const Vec (&u)[4], Vec (&g)[2]) {
    g[0] = u[0] + 0.5f * (u[1] + u[2]);
    g[1] = u[3] + 0.5f * (u[1] - u[2]);
  }
  OPENBNNS_INLINE static void output(const Vec (&m)[4], Vec (&y)[3]) {
    Vec both = m[1] + m[2];
    y[0] = m[0] + both;
    y[1] = m[1] - m[2];
    y[2] = both - m[3];
  }
  OPENBNNS_INLINE static void gradient(const Vec (&y)[3], Vec (&d)[4]) {  // A y
    Vec outer = y[0] + y[2];
    d[0] = y[0];
    d[1] = outer + y[1];
    d[2] = outer - y[1];
    d[3] = -y[2];
  }
  static constexpr float kGradient[4][3] = {{1, 0, 0}, {1, 1, 1}, {1, -1, 1}, {0, 0, -1}};
};

template <>
struct WinogradAxis<3, 4> : WinogradCells<6> {
  static constexpr int kOutputs = 4;
  OPENBNNS_INLINE static void kernel(const Vec (&g)[3], Vec (&u)[6]) {
    Vec even = kAtP * (g[0] + p2 * g[2]), odd = (kAtP * p) * g[1];
    u[0] = kAtZero * g[0];
    u[1] = even + odd;
    u[2] = even - odd;
    even = kAtQ * (g[0] + q2 * g[2]), odd = (kAtQ * q) * g[1];
    u[3] = even + odd;
    u[4] = even - odd;
    u[5] = g[2];
  }
  OPENBNNS_INLINE static void kernel_back(const Vec (&u)[6], Vec (&g)[3]) {
    Vec even_p = kAtP * (u[1] + u[2]), even_q = kAtQ * (u[3] + u[4]);
    g[0] = kAtZero * u[0] + (even_p + even_q);
    g[1] = (kAtP * p) * (u[1] - u[2]) + (kAtQ * q) * (u[3] - u[4]);
    g[2] = (p2 * even_p + q2 * even_q) + u[5];
  }
  OPENBNNS_INLINE static void output(const Vec (&m)[6], Vec (&y)[4]) {
    Vec even_p = m[1] + m[2], even_q = m[3] + m[4], odd_p = p * (m[1] - m[2]), odd_q = q * (m[3] - m[4]);
    y[0] = m[0] + (even_p + even_q);
    y[1] = odd_p + odd_q;
    y[2] = p2 * even_p + q2 * even_q;
    y[3] = m[5] + (p2 * odd_p + q2 * odd_q);
  }
  OPENBNNS_INLINE static void gradient(const Vec (&y)[4], Vec (&d)[6]) {
    Vec even = y[0] + p2 * y[2], odd = p * (y[1] + p2 * y[3]);
    d[0] = y[0];
    d[1] = even + odd;
    d[2] = even - odd;
    even = y[0] + q2 * y[2], odd = q * (y[1] + q2 * y[3]);
    d[3] = even + odd;
    d[4] = even - odd;
    d[5] = y[3];
  }
};

template <>
struct WinogradAxis<5, 2> : WinogradCells<6> {
  static constexpr int kOutputs = 2;
  OPENBNNS_INLINE static void kernel(const Vec (&g)[5], Vec (&u)[6]) {
    Vec even = kAtP * (g[0] + p2 * (g[2] + p2 * g[4])), odd = (kAtP * p) * (g[1] + p2 * g[3]);
    u[0] = kAtZero * g[0];
    u[1] = even + odd;
    u[2] = even - odd;
    even = kAtQ * (g[0] + q2 * (g[2] + q2 * g[4])), odd = (kAtQ * q) * (g[1] + q2 * g[3]);
    u[3] = even + odd;
    u[4] = even - odd;
    u[5] = g[4];
  }
  OPENBNNS_INLINE static void kernel_back(const Vec (&u)[6], Vec (&g)[5]) {
    Vec even_p = kAtP * (u[1] + u[2]), even_q = kAtQ * (u[3] + u[4]);
    Vec odd_p = (kAtP * p) * (u[1] - u[2]), odd_q = (kAtQ * q) * (u[3] - u[4]);
    g[0] = kAtZero * u[0] + (even_p + even_q);
    g[1] = odd_p + odd_q;
    g[2] = p2 * even_p + q2 * even_q;
    g[3] = p2 * odd_p + q2 * odd_q;
    g[4] = ((p2 * p2) * even_p + (q2 * q2) * even_q) + u[5];
  }
  OPENBNNS_INLINE static void output(const Vec (&m)[6], Vec (&y)[2]) {
    y[0] = m[0] + ((m[1] + m[2]) + (m[3] + m[4]));
    y[1] = m[5] + (p * (m[1] - m[2]) + q * (m[3] - m[4]));
  }
  OPENBNNS_INLINE static void gradient(const Vec (&y)[2], Vec (&d)[6]) {
    d[0] = y[0];
    d[1] = y[0] + p * y[1];
    d[2] = y[0] - p * y[1];
    d[3] = y[0] + q * y[1];
    d[4] = y[0] - q * y[1];
    d[5] = y[1];
  }
  static constexpr float kGradient[6][2] = {{1, 0}, {1, p}, {1, -p}, {1, q}, {1, -q}, {0, 1}};
};

// Both axes of a tile, by the taps of one; winograd_bytes.h has a form for exact sums.
template <int kTaps>
struct WinogradForm {
  using Rows = WinogradAxis<kTaps, kTaps == 2 ? 3 : 2>;
  using Columns = WinogradAxis<kTaps, kTaps == 2 ? 3 : kTaps == 3 ? 4 : 2>;
  using Sums = Vec;
  OPENBNNS_INLINE static Vec result(Vec made, Vec bias) { return made + bias; }
};

// Output cell (i, j) meets input cells (i + 0 .. taps - 1, j + 0 .. taps - 1). A cell has the phases of its side:
// step^2 pixels of the image of the stepped convolution, one of the other. Lines (rows of tiles) are counted through
// all samples; a group of lines is transformed and multiplied at a time.
struct WinogradGrid {
  int taps;                                        // of one axis of the kernel between cells
  int row_outputs, column_outputs;                 // of a tile
  int in_step, out_step;                           // pixels of a cell along one axis: the step on one side, else 1
  int in_height, in_width, out_height, out_width;  // pixels
  int in_row, in_column, out_row, out_column;      // pixel where cell (0, 0) begins: often in the padding
  bool odd;                                        // the kernel of step 2: taps of phase 1 lack the last
  int lines, line_tiles;                           // of one sample: [lines][line_tiles]
  int group_lines;                                 // at most `most_tiles` tiles: whole samples, or some lines of one
  int part_tiles;  // of a line that has more than that: it is taken in parts, one line at a time
  int item_lines;  // groups of one sample whose packed input stays in the cache, or one group of several

  [[gnu::cold]] WinogradGrid(const ConvolutionShape& s, bool backward, int most_tiles);
  int row_cells() const { return row_outputs + taps - 1; }  // of a tile
  int column_cells() const { return column_outputs + taps - 1; }
  int places() const { return row_cells() * column_cells(); }
  // Whether a call has enough outputs to make up for the transforms of the kernels.
  bool suits(int64_t batch) const {
    const int64_t fewest = in_step * out_step == 1 ? 256 : 768;
    return batch * lines * line_tiles * row_outputs * column_outputs >= fewest;
  }
  // Of the largest group, with room for zeros.
  int64_t most_tiles() const { return int64_t{group_lines} * part_tiles + 6; }
  // Rows of cells that `count` lines read; those of different samples never overlap.
  int64_t most_rows(int count) const {
    return int64_t{row_outputs} * count + ((count + lines - 2) / lines + 1) * int64_t{taps - 1};
  }
  // Pixels of the output along one axis that `count` tiles from `first` on cover; `skipped` lie before the image.
  struct Range {
    int begin, end, skipped;
    int size() const { return end - begin; }
  };
  Range out_rows(int first, int count) const {
    return range(first * row_outputs, count * row_outputs, out_row, out_height);
  }
  Range out_columns(int first, int count) const {
    return range(first * column_outputs, count * column_outputs, out_column, out_width);
  }

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
  Range range(int cell, int count, int origin, int size) const {
    int start = cell * out_step + origin, skipped = std::max(0, -start);
    return {start + skipped, std::min(size, start + count * out_step), skipped};
  }

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
//   e     [cell j][block][row][tile of the line][16] = d B, along each row
//   v     [cell i][block][tile][16]: column j of B^T (d B), for one j at a time
//
// where block = phase * (channels / 16) + channel / 16, of all channels or of some blocks of them.
// Each is small enough to stay in the cache until the next step reads it.
class WinogradInput {
 public:
  // Bands have at most `band_lines` lines. `bytes`: a channel is a pair of bytes (winograd_bytes.h).
  WinogradInput(const WinogradGrid& grid, int64_t channels, int band_lines, bool bytes = false);

  int phases() const { return grid_.in_step * grid_.in_step; }
  ChannelBlocks all() const { return {0, blocks_of(channels_)}; }
  int64_t blocks() const { return phases() * blocks_of(channels_); }
  int64_t band_floats() const { return blocks_of(channels_) * band_.plane(); }
  int64_t rows_floats() const { return grid_.column_cells() * rows_cell(); }
  int64_t column_block() const { return grid_.most_tiles() * kBlock; }
  int64_t column_cell() const { return blocks() * column_block() + kBlock; }  // a line of cache between cells
  int64_t column_floats() const { return grid_.row_cells() * column_cell(); }

  void pack(const ImageSource& image, int64_t first, int count, const ChannelBlocks& channels, float* band) const;
  // band: from line `band_first` on
  void along_rows(const float* band, int64_t band_first, const WinogradGroup& group, const ChannelBlocks& channels,
                  float* e) const;
  void across_rows(const float* e, int j, const WinogradGroup& group, const ChannelBlocks& channels, float* v) const;

 private:
  int64_t rows_block() const { return grid_.most_rows(grid_.group_lines) * grid_.part_tiles * kBlock; }
  int64_t rows_cell() const { return blocks() * rows_block(); }
  template <class Axis>
  void spread_rows(const float* band, int64_t rows, int64_t tiles, float* e) const;
  template <class Axis>
  void spread_column(const float* e, const WinogradGroup& group, float* v) const;

  const WinogradGrid& grid_;
  const int64_t channels_;
  const Band band_;
  // For the cells at hand.
  void (WinogradInput::*spread_rows_)(const float*, int64_t, int64_t, float*) const;
  void (WinogradInput::*spread_column_)(const float*, const WinogradGroup&, float*) const;
};

// A band of `rows` rows of cells, with the columns of cells that `outputs` outputs meet, the first of which begins at
// pixel `first`.
Band winograd_band(int64_t rows, int image_width, int outputs, int taps, int step, int first);

// Products of a tile: elements of U.
int64_t winograd_products(const ConvolutionShape& s);
// Whether the tiles save time when computing an image or the gradient of the weights; U must stay small.
bool suits_winograd(const ConvolutionShape& s, bool backward, bool weights);

// Transforms of one kernel, lanes side by side. g: [taps^2][16], u: [places][16] = G g G^T, and dg = G^T du G.
void transform_kernel(int taps, const float* g, float* u);
void transform_kernel_of_bytes(const float* g, float* u);
void transform_kernel_back(int taps, const float* du, float* dg);
constexpr int kMostTaps = 36, kMostPlaces = 36;  // of both axes together, of all phases
// Where the taps of a phase of the input cells lie among those of a kernel of `size` x `size`: [taps^2], -1 where it
// has none.
std::vector<int> taps_of_phase(int taps, int step, int size, int phase);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
