// 3 x 3 and 5 x 5 convolutions with step 1 by tiles of 2 x 2 outputs (Winograd): 16 multiplications instead of 36 per
// tile, or 36 instead of 100.
//
//   y = A^T [ (G g G^T) * (B^T d B) ] A        for a tile d of the input (4 x 4, 6 x 6) and the kernel g
//
// The matrices follow from evaluating polynomials at 0, 1, -1 and infinity, and at 1/2 and -2 for 5 x 5. Their factors
// are small, so the rounding error is that of a direct sum (3 x 3) or about twice as large (5 x 5). For each place of
// the tile the sum over channels is a matrix product. An input that is not finite may reach all outputs of a tile.
#pragma once
#include <cstdint>

#include "gemm/micro_kernel.h"
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
};

// Output cell (i, j) meets input cells (i + row_shift + 0 .. taps - 1, j + column_shift + 0 .. taps - 1). Tiles are
// counted through the lines (rows of tiles) of all samples; a group of lines is transformed and multiplied at a time.
struct WinogradGrid {
  int taps;  // of one axis of the kernel: 3 or 5
  int in_height, in_width, out_height, out_width, row_shift, column_shift;
  int lines, line_tiles;  // of one sample: [lines][line_tiles]
  int group_lines;

  WinogradGrid(const ConvolutionShape& s, bool backward);
  int cells() const { return taps + 1; }                               // of one axis of a tile
  int places() const { return cells() * cells(); }                     // of a tile
  int64_t tiles() const { return int64_t{group_lines} * line_tiles; }  // of a whole group
  int64_t padded_tiles() const { return round_up(tiles(), kBlock); }
};

// Transformed input of a group: [place][tile / 16][channel][16 tiles], zero in channels beyond the last up to a
// multiple of 4, and in such tiles; tiles beyond those hold anything. A line of cache between blocks keeps them out of
// each other's way.
struct WinogradInput {
  int64_t channels, block, place;  // elements from block to block and from place to place
  int64_t places;
  WinogradInput(int64_t channels, const WinogradGrid& grid)
      : channels(round_up(channels, 4)),
        block(this->channels * kBlock + kBlock),
        place(grid.padded_tiles() / kBlock * block),
        places(grid.places()) {}
  int64_t floats() const { return places * place; }
};

// Whether the tiles save time; U and its gradient must stay small.
bool suits_winograd(const ConvolutionShape& s);

// Lines [first, first + count) of `channels` channels, count <= group_lines.
void transform_input(const WinogradGrid& grid, const ImageSource& image, int64_t channels, int64_t first, int count,
                     const WinogradInput& layout, float* v);

// Transforms of one kernel, lanes side by side. g: [taps^2][16], u: [places][16] = G g G^T, and dg = G^T du G.
void transform_kernel(int taps, const float* g, float* u);
void transform_kernel_back(int taps, const float* du, float* dg);
constexpr int kMostTaps = 25, kMostPlaces = 36;  // of both axes together

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
