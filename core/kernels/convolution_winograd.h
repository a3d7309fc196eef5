// 3 x 3 convolutions with step 1 by tiles of 2 x 2 outputs (Winograd): 16 multiplications instead of 36 per tile.
//
//   y = A^T [ (G g G^T) * (B^T d B) ] A        for a 4 x 4 tile d of the input and the 3 x 3 kernel g, where
//
//   B^T = 1  0 -1  0    G = 1    0   0      A^T = 1  1  1  0
//         0  1  1  0        1/2  1/2 1/2          0  1 -1 -1
//         0 -1  1  0        1/2 -1/2 1/2
//         0  1  0 -1        0    0   1
//
// The factors are 0, 1 and 1/2, so rounding stays that of a direct sum. For each of the 16 places of the tile the sum
// over channels is a matrix product. An input that is not finite may reach all four outputs of a tile.
#pragma once
#include <cstdint>

#include "gemm/micro_kernel.h"
#include "kernels/convolution_kernels.h"

namespace openbnns {
namespace OPENBNNS_ISA {

constexpr int kPlaces = 16;  // of a transformed tile

// Output cell (i, j) meets input cells (i + row_shift + 0..2, j + column_shift + 0..2). Tiles are counted through the
// lines (rows of tiles) of all samples; a group of lines is transformed and multiplied at a time.
struct WinogradGrid {
  int in_height, in_width, out_height, out_width, row_shift, column_shift;
  int lines, line_tiles;  // of one sample: [lines][line_tiles]
  int group_lines;

  WinogradGrid(const ConvolutionShape& s, bool backward);
  int64_t tiles() const { return int64_t{group_lines} * line_tiles; }  // of a whole group
  int64_t padded_tiles() const { return round_up(tiles(), kBlock); }
};

// Transformed input of a group: [place][tile / 16][channel][16 tiles], zero in tiles beyond the last and channels
// beyond a multiple of 4. A line of cache between blocks keeps them out of each other's way.
struct WinogradInput {
  int64_t channels, block, place;  // elements from block to block and from place to place
  WinogradInput(int64_t channels, int64_t padded_tiles)
      : channels(round_up(channels, 4)),
        block(this->channels * kBlock + kBlock),
        place(padded_tiles / kBlock * block) {}
  int64_t floats() const { return kPlaces * place; }
};

// Whether the tiles save time; U and its gradient must stay small.
bool suits_winograd(const ConvolutionShape& s);

// Lines [first, first + count) of `channels` channels, count <= group_lines.
void transform_input(const WinogradGrid& grid, const ImageSource& image, int64_t channels, int64_t first, int count,
                     const WinogradInput& layout, float* v);

// Transforms of one kernel, lanes side by side. g: [9][16], u: [16][16] = G g G^T, and the adjoint dg = G^T du G.
void transform_kernel(const float* g, float* u);
void transform_kernel_back(const float* du, float* dg);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
