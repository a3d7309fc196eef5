// The one inner loop under matrix product, fully connected and convolution: a tile of C stays in registers while a
// list of small products is added to it,
//
//   C[rows][blocks * 16] (+)= sum_i A_i[rows][depth] * B_i[depth][blocks * 16],
//
// where A_i and B_i are given by offsets from a base address. Padding, stride and dilation of a convolution, and the
// blocking of a matrix product, are all expressed by these offset tables, so there is no branch inside.
#pragma once
#include <cstdint>

#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Every packed layout has blocks of 16 channels or columns, whatever the vector width.
constexpr int kBlock = 16;

// A wide tile has kWideBlocks * 16 columns and at most kWideRows rows; a narrow one 16 columns and at most kNarrowRows
// rows. The accumulators fill all registers except for two vectors of B and one or two of A.
#if defined(__AVX512F__)
constexpr int kWideBlocks = 2, kWideRows = 14, kNarrowRows = 28, kWeightRows = 8;
#elif defined(__AVX2__)
constexpr int kWideBlocks = 1, kWideRows = 6, kNarrowRows = 6, kWeightRows = 6;
#elif defined(__aarch64__)  // 32 registers, and as many rows as a vector has lanes (see Product)
constexpr int kWideBlocks = 1, kWideRows = 4, kNarrowRows = 6, kWeightRows = 6;
#else
constexpr int kWideBlocks = 1, kWideRows = 2, kNarrowRows = 2, kWeightRows = 2;
#endif
constexpr int kWideColumns = kWideBlocks * kBlock;

// What happens to the finished tile: Set writes it, Add adds it to C, the others write it plus bias[column] or
// bias[row]. Every form of tile has only the ways that its callers use (see TileForm).
enum class Write { Set, Add, ColumnBias, RowBias };
// For a tile without bias whose form always adds one.
inline constexpr float kNoBias[kWideColumns] = {};
static_assert(kWideRows <= kWideColumns, "as bias of the rows, too");

struct Tile {
  const float* a;           // A_i = a + a_offset[i]
  const float* b;           // B_i = b + b_offset[i], rows 16 elements apart
  const int32_t* a_offset;  // [entries]
  const int32_t* b_offset;  // [entries]
  int entries;
  int64_t b_block;  // elements from one block of 16 columns of B_i to the next
  float* c;
  int64_t c_row;    // elements from one row of C to the next
  int64_t c_block;  // elements from one block of 16 columns of C to the next
  const float* bias = nullptr;
  Write write = Write::Set;
  // TileForm::Edge and Pair: entries [0, skip_first) meet zeros in the first row, entries [skip_last, entries) in the
  // last; most kernels leave these rows out.
  int skip_first = 0, skip_last = 0;
  // TileForm::Pair: the second half of the rows lies at a + a_pair and c + c_pair.
  int64_t a_pair = 0, c_pair = 0;
  // TileForm::Product, Streamed: elements from one step of A and of B to the next, and memory that is needed after this
  // tile: with every other step one cache line is asked for, `next_step` elements after the one before.
  int64_t a_step = kWidth, b_step = 0;
  int rows = 0;  // kernels on a matrix unit: those of C
  const float* next = nullptr;
  int64_t next_step = 0;
};

using TileKernel = void (*)(const Tile&);

// How A_i is stored, how many steps of depth every entry has, and how the tile can be written. Strides are constants of
// the kernel so that each scalar of A is one base address plus a displacement.
enum class TileForm {
  Product,   // A[row][k] at row + k * a_step, B[k][column] at k * b_step + column; `entries` steps, no offsets, at most
             // kWideRows rows; every way of writing: matrix product
  Streamed,  // the same, with B asked for long before its use: products of a few rows with many weights
  Matrix,    // A[row][k] at row * 16 + k, depth 4; Set, Add: matrix products inside other kernels
  Edge,      // the same, with rows left out at the ends; ColumnBias: convolution
  Pair,      // the same, with the rows of two images; ColumnBias: convolution with short rows
  Planes,    // A[row][k] at row, depth 1, at most kWideRows rows; RowBias: weights against rows of an image
  Pixels1,   // A[row][k] at row + k * 16, depth 1, at most kWeightRows rows; Add: gradient of the weights
  Pixels2,   // the same, depth 2, and so on
  Pixels3,
  Pixels4,
  Pixels5,
  Pixels6,
  Pixels7,
};
constexpr int kDepth = 4;           // of Matrix, Edge, Pair
constexpr int kColumnPixels = 128;  // row length of the patches matrix [tap][pixel] of convolutions with few channels

// blocks is 1 or kWideBlocks; rows is at most max_rows(blocks) (kWideRows for Product, Streamed and Planes, kWeightRows
// for Pixels).
TileKernel tile_kernel(TileForm form, int blocks, int rows);

inline int max_rows(int blocks) { return blocks == 2 ? kWideRows : kNarrowRows; }
// Blocks of 16 that the next tile takes when `columns` columns are left.
inline int tile_blocks(int64_t columns) { return columns > kBlock ? kWideBlocks : 1; }

// Size of equal tiles that cover `count` and do not exceed `limit`: 16 rows are 8 + 8, never 14 + 2.
inline int even_tile(int64_t count, int limit) {
  int64_t tiles = (count + limit - 1) / limit;
  return tiles > 0 ? static_cast<int>((count + tiles - 1) / tiles) : 1;
}
inline int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }
inline int64_t blocks_of(int64_t value) { return (value + kBlock - 1) / kBlock; }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
