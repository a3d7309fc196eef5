#include "gemm/gemm.h"

#include <algorithm>

#include "gemm/gemm_small.h"
#include "gemm/pack.h"
#include "kernels/activation.h"
#include "kernels/scratch_uses.h"
#include "runtime/dynamic_items.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// The sum over k is cut into blocks of at most kDepthBlock steps, the same for every way of sharing the work.
constexpr int kDepthBlock = 256;
// Rows of A packed together: whole tiles, and few enough that the rows of a packed block do not collide in L1.
constexpr int kStripTiles = 8;
constexpr int64_t kSharedFloats = int64_t{1} << 19;  // of the operand that all threads read (2 MB)

// Where the depth entries of a packed operand begin: `block` elements for 16 steps, `unit` for kDepth of them.
struct Entries {
  int32_t offset[kDepthBlock / kDepth];
  Entries(int count, int64_t block, int unit) {
    constexpr int kPerBlock = kBlock / kDepth;
    for (int i = 0; i < count; i++) offset[i] = static_cast<int32_t>(i / kPerBlock * block + i % kPerBlock * unit);
  }
};

// Columns [column, column + columns) and steps [step, step + steps) of the product, with B packed.
struct Panel {
  int64_t column, columns, step, steps;
  const float* b;  // [columns / 16][padded_steps()][16], zero beyond `steps`
  bool first, last;

  int64_t padded_steps() const { return round_up(steps, kBlock); }
};

void pack_b(const MatrixProduct& p, int64_t column, int64_t columns, int64_t step, int64_t steps, float* b) {
  int64_t padded = round_up(steps, kBlock), block = padded * kBlock;
  if (p.transpose_b)
    pack_transposed(p.b + column * p.ldb + step, p.ldb, columns, steps, b, block);
  else
    pack_columns(p.b + step * p.ldb + column, p.ldb, steps, columns, b, block);
  if (padded > steps)
    for (int64_t j = 0; j < blocks_of(columns); j++)
      std::fill_n(b + j * block + steps * kBlock, (padded - steps) * kBlock, 0.f);
}

// a: [steps / 16][rows][16], zero beyond `steps`
void pack_a(const MatrixProduct& p, int64_t row, int64_t rows, int64_t step, int64_t steps, float* a) {
  if (p.transpose_a)
    pack_transposed(p.a + step * p.lda + row, p.lda, steps, rows, a, rows * kBlock);
  else
    pack_columns(p.a + row * p.lda + step, p.lda, rows, steps, a, rows * kBlock);
}

// Asks for row `row` of A, so that packing the next strip does not wait for memory.
void prefetch_a(const MatrixProduct& p, int64_t row, int64_t step, int64_t steps) {
  if (p.transpose_a || row >= p.m) return;
  const float* a = p.a + row * p.lda + step;
  for (int64_t k = 0; k < steps; k += kBlock) __builtin_prefetch(a + k, 0, 2);
}

// Rows [row, row + rows) of C over the columns of the panel; a: these rows as pack_a leaves them.
void multiply_tile(const MatrixProduct& p, const Panel& panel, const Entries& a_entries, const Entries& b_entries,
                   const float* a, int64_t row, int rows, int64_t next_strip) {
  int prefetched = 0;
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
    Tile tile{a,
              panel.b + j * panel.padded_steps(),
              a_entries.offset,
              b_entries.offset,
              static_cast<int>(round_up(panel.steps, kDepth) / kDepth),
              panel.padded_steps() * kBlock,
              c,
              p.ldc,
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
    if (prefetched < rows) prefetch_a(p, next_strip + prefetched++, panel.step, panel.steps);
  }
  if (panel.last && p.activation)
    for (int m = 0; m < rows; m++) {
      float* c = p.c + (row + m) * p.ldc + panel.column;
      activation_forward(*p.activation, c, c, panel.columns, panel.columns);
    }
}

// A strip of A, [steps / 16][rows][16], against a panel of B. The rows of A from `next` on are packed after it (p.m:
// none are).
void multiply_strip(const MatrixProduct& p, const Panel& panel, const float* a, int64_t row, int64_t rows, int tile,
                    int64_t next) {
  const int entries = static_cast<int>(panel.padded_steps() / kDepth);
  const Entries a_entries(entries, rows * kBlock, kDepth), b_entries(entries, kBlock * kBlock, kDepth * kBlock);
  for (int64_t i = 0; i < rows; i += tile)
    multiply_tile(p, panel, a_entries, b_entries, a + i * kBlock, row + i,
                  static_cast<int>(std::min<int64_t>(tile, rows - i)), next + i);
}

// How a product is cut up; nothing here touches the order of a sum.
struct Cut {
  int tile;              // rows of a tile
  int64_t strip;         // rows packed together
  int64_t depth_block;   // steps of one block of the sum
  int64_t depth_chunk;   // steps for which the shared operand is packed at a time
  int64_t column_panel;  // columns of B packed together, or of a task
};

Cut cut_up(const MatrixProduct& p, int64_t shared_rows, int threads) {
  Cut cut{};
  cut.tile = even_tile(p.m, kWideRows);
  cut.strip = p.transpose_a ? cut.tile * kStripTiles : cut.tile;
  cut.depth_block = round_up(even_tile(p.k, kDepthBlock), kBlock);
  int64_t blocks = std::max<int64_t>(1, kSharedFloats / (round_up(shared_rows, kBlock) * cut.depth_block));
  cut.depth_chunk = std::min(round_up(p.k, cut.depth_block), blocks * cut.depth_block);
  int64_t panel = round_up((p.n + 8 * threads - 1) / (8 * threads), kWideColumns);
  cut.column_panel = std::max<int64_t>(64, std::min<int64_t>(256, panel));
  return cut;
}

// More columns than rows: A is packed once for all, and every task packs the columns of B it works on.
void product_by_columns(const MatrixProduct& p, int threads) {
  const Cut cut = cut_up(p, p.m, threads);
  int64_t strips = (p.m + cut.strip - 1) / cut.strip, block_floats = p.m * cut.depth_block;
  float* a = scratch(kMatrixA, static_cast<size_t>(p.m * cut.depth_chunk));  // [depth block][strip] as pack_a leaves it
  for (int64_t chunk = 0; chunk < p.k; chunk += cut.depth_chunk) {
    int64_t end = std::min(p.k, chunk + cut.depth_chunk),
            blocks = (end - chunk + cut.depth_block - 1) / cut.depth_block;
    int packers = useful_threads(threads, 8.0 * static_cast<double>(p.m * (end - chunk)));
    parallel_items(packers, blocks * strips, [&](int64_t item) {
      int64_t row = item % strips * cut.strip, step = chunk + item / strips * cut.depth_block;
      pack_a(p, row, std::min(cut.strip, p.m - row), step, std::min(cut.depth_block, end - step),
             a + item / strips * block_floats + row * cut.depth_block);
    });
    dynamic_items(threads, (p.n + cut.column_panel - 1) / cut.column_panel, [&](int64_t item) {
      int64_t column = item * cut.column_panel, columns = std::min(cut.column_panel, p.n - column);
      float* b = scratch(kMatrixB, static_cast<size_t>(round_up(columns, kBlock) * cut.depth_block));
      for (int64_t step = chunk; step < end; step += cut.depth_block) {
        Panel panel{
            column, columns, step, std::min(cut.depth_block, end - step), b, step == 0, step + cut.depth_block >= p.k};
        pack_b(p, column, columns, step, panel.steps, b);
        for (int64_t row = 0; row < p.m; row += cut.strip)
          multiply_strip(p, panel, a + (step - chunk) / cut.depth_block * block_floats + row * cut.depth_block, row,
                         std::min(cut.strip, p.m - row), cut.tile, p.m);
      }
    });
  }
}

// More rows than columns: B is packed once for all, and every task packs the rows of A it works on.
void product_by_rows(const MatrixProduct& p, int threads) {
  const Cut cut = cut_up(p, p.n, threads);
  constexpr int64_t kPackColumns = 64;
  int64_t padded = round_up(p.n, kBlock), packs = (p.n + kPackColumns - 1) / kPackColumns;
  float* b = scratch(kMatrixB, static_cast<size_t>(padded * cut.depth_chunk));  // [depth block] as pack_b leaves it
  int64_t task = cut.strip * std::max<int64_t>(1, kStripTiles * cut.tile / cut.strip);
  for (int64_t chunk = 0; chunk < p.k; chunk += cut.depth_chunk) {
    int64_t end = std::min(p.k, chunk + cut.depth_chunk),
            blocks = (end - chunk + cut.depth_block - 1) / cut.depth_block;
    int packers = useful_threads(threads, 8.0 * static_cast<double>(p.n * (end - chunk)));
    parallel_items(packers, blocks * packs, [&](int64_t item) {
      int64_t column = item % packs * kPackColumns, step = chunk + item / packs * cut.depth_block;
      int64_t steps = std::min(cut.depth_block, end - step);
      pack_b(p, column, std::min(kPackColumns, p.n - column), step, steps,
             b + (step - chunk) * padded + column * round_up(steps, kBlock));
    });
    dynamic_items(threads, (p.m + task - 1) / task, [&](int64_t item) {
      float* a = scratch(kMatrixA, static_cast<size_t>(cut.strip * cut.depth_block));
      int64_t last_row = std::min(p.m, (item + 1) * task);
      for (int64_t step = chunk; step < end; step += cut.depth_block) {
        Panel panel{0,
                    p.n,
                    step,
                    std::min(cut.depth_block, end - step),
                    b + (step - chunk) * padded,
                    step == 0,
                    step + cut.depth_block >= p.k};
        for (int64_t row = item * task; row < last_row; row += cut.strip) {
          int64_t rows = std::min(cut.strip, last_row - row);
          pack_a(p, row, rows, step, panel.steps, a);
          multiply_strip(p, panel, a, row, rows, cut.tile, row + rows);
        }
      }
    });
  }
}

void product_on_threads(const MatrixProduct& p, int threads) {
  if (p.m <= p.n)
    product_by_columns(p, threads);
  else
    product_by_rows(p, threads);
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

void fill_without_sum(const MatrixProduct& p) {  // k = 0
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t j = 0; j < p.n; j++)
      if (!p.accumulate)
        p.c[i * p.ldc + j] = (p.row_bias ? p.row_bias[i] : 0.f) + (p.column_bias ? p.column_bias[j] : 0.f);
}

void activate_rows(const MatrixProduct& p) {
  for (int64_t i = 0; i < p.m; i++) activation_forward(*p.activation, p.c + i * p.ldc, p.c + i * p.ldc, p.n, p.n);
}

}  // namespace

void packed_product(const MatrixProduct& p) { product_on_threads(p, 1); }

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
  threads =
      useful_threads(threads, 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k));
  if (threads <= 1) return matrix_product(p);
  if (is_small_product(p)) {  // the choice of method must not depend on the threads: only columns are shared out
    int64_t share = round_up((p.n + threads - 1) / threads, 4 * kWidth);
    return parallel_items(threads, (p.n + share - 1) / share, [&](int64_t i) {
      matrix_product(part_of(p, 0, p.m, i * share, std::min(share, p.n - i * share)));
    });
  }
  product_on_threads(p, threads);
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
