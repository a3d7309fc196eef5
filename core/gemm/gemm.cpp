#include "gemm/gemm.h"

#include <algorithm>

#include "gemm/gemm_small.h"
#include "gemm/pack.h"
#include "kernels/activation.h"
#include "kernels/scratch_uses.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// A block of B, [kColumnBlock / 16][kDepthBlock][16], stays in L2 while tiles of A, packed one by one, pass over it.
constexpr int kDepthBlock = 256;
constexpr int kColumnBlock = 1024;
// Rows of a transposed A that are packed together.
constexpr int kRowBlock = kWideRows * 8;

// Where the depth entries of a packed operand begin: `block` elements for 16 steps, `unit` for kDepth of them.
struct Entries {
  int32_t offset[kDepthBlock / kDepth];
  Entries(int count, int64_t block, int unit) {
    constexpr int kPerBlock = kBlock / kDepth;
    for (int i = 0; i < count; i++) offset[i] = static_cast<int32_t>(i / kPerBlock * block + i % kPerBlock * unit);
  }
};

// One step of the sum over k: columns [column, column + columns) and steps [step, step + steps) of the product.
struct Panel {
  int64_t column, columns, step, steps, padded_steps;
  float* b;  // [columns / 16][padded_steps][16], zero beyond `steps`
  bool first, last;
};

void pack_b(const MatrixProduct& p, const Panel& panel) {
  int64_t block = panel.padded_steps * kBlock;
  if (p.transpose_b)
    pack_transposed(p.b + panel.column * p.ldb + panel.step, p.ldb, panel.columns, panel.steps, panel.b, block);
  else
    pack_columns(p.b + panel.step * p.ldb + panel.column, p.ldb, panel.steps, panel.columns, panel.b, block);
  if (panel.padded_steps > panel.steps)
    for (int64_t j = 0; j < blocks_of(panel.columns); j++)
      std::fill_n(panel.b + j * block + panel.steps * kBlock, (panel.padded_steps - panel.steps) * kBlock, 0.f);
}

// a: [steps / 16][rows][16], zero beyond `steps`
void pack_a(const MatrixProduct& p, const Panel& panel, int64_t row, int64_t rows, float* a) {
  if (p.transpose_a)
    pack_transposed(p.a + panel.step * p.lda + row, p.lda, panel.steps, rows, a, rows * kBlock);
  else
    pack_columns(p.a + row * p.lda + panel.step, p.lda, rows, panel.steps, a, rows * kBlock);
}

// Rows [row, row + rows) of C over the columns of the panel; a as pack_a leaves it for `packed_rows` rows, `a` pointing
// at the first of these rows.
void multiply_rows(const MatrixProduct& p, const Panel& panel, const Entries& a_entries, const Entries& b_entries,
                   const float* a, int64_t row, int rows) {
  float edge[kWideRows * kWideColumns];  // a tile that sticks out of C to the right
  float edge_bias[kWideColumns];
  Write write = p.accumulate || !panel.first ? Write::Add
                : p.row_bias                 ? Write::RowBias
                : p.column_bias              ? Write::ColumnBias
                                             : Write::Set;
  for (int64_t j = 0; j < panel.columns;) {
    int blocks = tile_blocks(panel.columns - j);
    int64_t width = std::min<int64_t>(blocks * kBlock, panel.columns - j);
    float* c = p.c + row * p.ldc + panel.column + j;
    Tile tile{a, panel.b + j * panel.padded_steps, a_entries.offset, b_entries.offset,
              static_cast<int>(round_up(panel.steps, kDepth) / kDepth), panel.padded_steps * kBlock, c, p.ldc,
              kBlock};
    tile.write = write;
    if (write == Write::RowBias) tile.bias = p.row_bias + row;
    if (write == Write::ColumnBias) tile.bias = p.column_bias + panel.column + j;
    if (width == blocks * kBlock) {
      tile_kernel(TileForm::Matrix, blocks, rows)(tile);
    } else {
      tile.c = edge;
      tile.c_row = kWideColumns;
      if (write == Write::ColumnBias) {
        std::copy_n(tile.bias, width, edge_bias);
        std::fill(edge_bias + width, edge_bias + kWideColumns, 0.f);
        tile.bias = edge_bias;
      }
      if (write == Write::Add)
        for (int m = 0; m < rows; m++) std::copy_n(c + m * p.ldc, width, edge + m * kWideColumns);
      tile_kernel(TileForm::Matrix, blocks, rows)(tile);
      for (int m = 0; m < rows; m++) std::copy_n(edge + m * kWideColumns, width, c + m * p.ldc);
    }
    j += blocks * kBlock;
  }
  if (panel.last && p.activation)
    for (int m = 0; m < rows; m++) {
      float* c = p.c + (row + m) * p.ldc + panel.column;
      activation_forward(*p.activation, c, c, panel.columns, panel.columns);
    }
}

void multiply_panel(const MatrixProduct& p, const Panel& panel, float* a) {
  const int entries = static_cast<int>(panel.padded_steps / kDepth);
  const Entries b_entries(entries, kBlock * kBlock, kDepth * kBlock);
  const int tile = even_tile(p.m, kWideRows);
  const int64_t strip = p.transpose_a ? std::min<int64_t>(p.m, kRowBlock / tile * tile) : tile;
  for (int64_t first = 0; first < p.m; first += strip) {
    int64_t rows = std::min(strip, p.m - first);
    pack_a(p, panel, first, rows, a);
    const Entries a_entries(entries, rows * kBlock, kDepth);
    for (int64_t i = 0; i < rows; i += tile)
      multiply_rows(p, panel, a_entries, b_entries, a + i * kBlock, first + i,
                    static_cast<int>(std::min<int64_t>(tile, rows - i)));
  }
}

// Rows [row, row + rows) x columns [column, column + columns) of the product.
MatrixProduct part_of(const MatrixProduct& p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  MatrixProduct part = p;
  part.m = rows;
  part.n = columns;
  part.a += p.transpose_a ? row : row * p.lda;
  part.b += p.transpose_b ? column * p.ldb : column;
  part.c += row * p.ldc + column;
  if (part.row_bias) part.row_bias += row;
  if (part.column_bias) part.column_bias += column;
  return part;
}

// Rows of threads in the grid of `threads` over C that packs and pads least.
int grid_rows(const MatrixProduct& p, int threads) {
  int best = 1;
  double least = 1e300;
  for (int rows = 1; rows <= threads; rows++) {
    if (threads % rows != 0) continue;
    int columns = threads / rows;
    double height = static_cast<double>(round_up((p.m + rows - 1) / rows, kWideRows));
    double width = static_cast<double>(round_up((p.n + columns - 1) / columns, kWideColumns));
    double cost = height * width * (1 + 32.0 * rows / static_cast<double>(p.m) + 32.0 * columns / static_cast<double>(p.n));
    if (cost < least) least = cost, best = rows;
  }
  return best;
}

void fill_without_sum(const MatrixProduct& p) {  // k = 0
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t j = 0; j < p.n; j++)
      if (!p.accumulate)
        p.c[i * p.ldc + j] = (p.row_bias ? p.row_bias[i] : 0.f) + (p.column_bias ? p.column_bias[j] : 0.f);
}

void activate_rows(const MatrixProduct& p) {
  for (int64_t i = 0; i < p.m; i++)
    activation_forward(*p.activation, p.c + i * p.ldc, p.c + i * p.ldc, p.n, p.n);
}

}  // namespace

void packed_product(const MatrixProduct& p) {
  int64_t column_block = std::min<int64_t>(kColumnBlock, round_up(p.n, kBlock));
  int64_t depth_block = round_up(even_tile(p.k, kDepthBlock), kBlock);
  float* b = scratch(kMatrixB, column_block * depth_block);
  float* a = scratch(kMatrixA, std::min<int64_t>(p.m, kRowBlock) * depth_block);
  for (int64_t column = 0; column < p.n; column += column_block)
    for (int64_t step = 0; step < p.k; step += depth_block) {
      Panel panel{column, std::min(column_block, p.n - column), step, std::min(depth_block, p.k - step), 0, b,
                  step == 0, step + depth_block >= p.k};
      panel.padded_steps = round_up(panel.steps, kBlock);
      pack_b(p, panel);
      multiply_panel(p, panel, a);
    }
}

void matrix_product(const MatrixProduct& p) {
  if (p.m <= 0 || p.n <= 0) return;
  if (p.k > 0 && !is_small_product(p)) return packed_product(p);
  if (p.k > 0)
    small_product(p);
  else
    fill_without_sum(p);
  if (p.activation) activate_rows(p);
}

void matrix_product(const MatrixProduct& p, int threads) {
  threads = useful_threads(threads, 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k));
  if (threads <= 1) return matrix_product(p);
  if (is_small_product(p)) {  // the choice of method must not depend on the threads: only columns are shared out
    int64_t share = round_up((p.n + threads - 1) / threads, 4 * kWidth);
    return parallel_items(threads, (p.n + share - 1) / share, [&](int64_t i) {
      matrix_product(part_of(p, 0, p.m, i * share, std::min(share, p.n - i * share)));
    });
  }
  int rows = grid_rows(p, threads), columns = threads / rows;
  int64_t height = round_up((p.m + rows - 1) / rows, kWideRows), width = round_up((p.n + columns - 1) / columns, kWideColumns);
  parallel_items(threads, threads, [&](int64_t t) {
    int64_t row = t / columns * height, column = t % columns * width;
    if (row >= p.m || column >= p.n) return;
    MatrixProduct part = part_of(p, row, std::min(height, p.m - row), column, std::min(width, p.n - column));
    packed_product(part);
  });
}

void sum_rows(const float* matrix, int64_t row_stride, int64_t rows, int64_t columns, float* sums, bool accumulate) {
  constexpr int kVectors = 4;
  int64_t j = 0;
  for (; j + kVectors * kWidth <= columns; j += kVectors * kWidth) {
    Vec sum[kVectors];
    for (int v = 0; v < kVectors; v++) sum[v] = Vec{};
    for (int64_t i = 0; i < rows; i++)
      OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) sum[v] += load(matrix + i * row_stride + j + v * kWidth);
    for (int v = 0; v < kVectors; v++) {
      float* p = sums + j + v * kWidth;
      store(p, accumulate ? load(p) + sum[v] : sum[v]);
    }
  }
  for (; j < columns; j++) {
    float sum = 0;
    for (int64_t i = 0; i < rows; i++) sum += matrix[i * row_stride + j];
    sums[j] = accumulate ? sums[j] + sum : sum;
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
