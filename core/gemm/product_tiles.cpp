#include "gemm/product_tiles.h"

#include "gemm/bfloat16_kernel.h"
#include "gemm/integer_kernel.h"
#include "gemm/partial.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

TileKernel kernel_of(const MatrixProduct& p, int blocks, int rows) {
  if (on_matrix_unit(p.sums)) return matrix_unit()->kernel(p.sums, blocks, rows);
  if (p.sums == SumKind::kFloats) return tile_kernel(TileForm::Product, blocks, rows);
  if (p.sums == SumKind::kBFloat16Pairs) return bfloat16_tile_kernel(TileForm::Product, blocks, rows);
  return p.sums == SumKind::kBytePairs ? pair_sums_kernel(blocks, rows) : quad_sums_kernel(blocks, rows);
}

Write write_of(const MatrixProduct& p, const Panel& panel) {
  return p.accumulate || !panel.first ? Write::Add
         : p.row_bias                 ? Write::RowBias
         : p.column_bias              ? Write::ColumnBias
                                      : Write::Set;
}

// dst[row][0..columns) = src[row][0..columns), columns <= kWideColumns.
void copy_rows(const float* src, int64_t src_row, int rows, int64_t columns, float* dst, int64_t dst_row) {
  for (int row = 0; row < rows; row++, src += src_row, dst += dst_row)
    for (int64_t v = 0; v < columns; v += kWidth)
      store_partial(dst + v, load_partial(src + v, lanes_of(columns - v)), lanes_of(columns - v));
}

// The tile of rows from `row` on over `width` columns of the panel from `column` on; tile: its operands.
void multiply_tile(const MatrixProduct& p, const Panel& panel, int64_t column, int64_t width, int blocks, int64_t row,
                   int rows, Tile& tile) {
  float* c = p.c + row * p.ldc + panel.column + column;
  tile.c = c;
  tile.c_row = p.ldc;
  tile.rows = rows;
  if (tile.write == Write::RowBias) tile.bias = p.row_bias + row;
  if (tile.write == Write::ColumnBias) tile.bias = p.column_bias + panel.column + column;
  const TileKernel kernel = kernel_of(p, blocks, rows);
  if (width == blocks * kBlock) return kernel(tile);
  float edge[std::max(kWideRows, 2 * kUnitRows) * kWideColumns];  // a tile that sticks out of C to the right
  float edge_bias[kWideColumns];
  tile.c = edge;
  tile.c_row = kWideColumns;
  if (tile.write == Write::ColumnBias) {
    std::fill_n(std::copy_n(tile.bias, width, edge_bias), kWideColumns - width, 0.f);
    tile.bias = edge_bias;
  }
  if (tile.write == Write::Add) copy_rows(c, p.ldc, rows, width, edge, kWideColumns);
  kernel(tile);
  copy_rows(edge, kWideColumns, rows, width, c, p.ldc);
}

// Rows of the tiles [first, last) over the first `columns` columns of the panel; a: these tiles. What stays in L1 is
// the tile of A, if there is one, or else one tile of B after the other.
void multiply_group(const MatrixProduct& p, const ProductCut& cut, const Panel& panel, int64_t columns,
                    const TilesOfA& a, int64_t first, int64_t last, Ahead& ahead) {
  Tile tile{};
  tile.a_step = a.step;
  tile.entries = static_cast<int>(panel.steps);
  tile.c_block = kBlock;
  tile.write = write_of(p, panel);
  for (int64_t j = 0; j < columns; j += kWideColumns) {
    const int blocks = tile_blocks(columns - j);
    const int64_t width = std::min<int64_t>(blocks * kBlock, columns - j);
    const bool in_place = reads_b_in_place(p, width);
    tile.b = in_place ? p.b + panel.step * p.ldb + panel.column + j : panel.b + j * panel.steps;
    tile.b_step = in_place ? p.ldb : tile_blocks(panel.columns - j) * kBlock;
    for (int64_t i = first; i < last; i++) {
      tile.a = a.a + (i - first) * a.tile;
      ahead.ask(tile);
      multiply_tile(p, panel, j, width, blocks, i * cut.tile, cut.rows(p, i), tile);
    }
  }
}

}  // namespace

void multiply_tiles(const MatrixProduct& p, const ProductCut& cut, const Panel& panel, const TilesOfA& a, int64_t first,
                    int64_t last, Ahead ahead) {
  const MatrixUnitInUse unit(p.sums);
  const int few = p.sums == SumKind::kFloats ? few_columns(panel.columns, cut.tile) : 0;
  const int64_t most = panel.columns - few, kept = cut.kept_panels() * kTuned.panel_columns, group = cut.group_tiles();
  if (few > 0) {
    const int64_t tile = most / kWideColumns * kWideColumns, column = panel.column + most;  // tile: as it is packed
    const int64_t row = first * cut.tile, rows = std::min(last * cut.tile, p.m) - row;
    const Write write = write_of(p, panel);
    multiply_few_columns({a.a, a.tile, cut.tile, panel.b + tile * panel.steps + most - tile,
                          tile_blocks(panel.columns - tile) * kBlock, rows, panel.steps, few,
                          p.c + row * p.ldc + column, p.ldc, write,
                          write == Write::RowBias      ? p.row_bias + row
                          : write == Write::ColumnBias ? p.column_bias + column
                                                       : nullptr});
  }
  ahead.spread((last - first) * ((most + kWideColumns - 1) / kWideColumns), panel.steps);
  for (int64_t j = 0; j < panel.columns; j += kept) {
    Panel part = panel;
    part.column += j;
    part.columns -= j;
    part.b += j * panel.steps;
    const int64_t columns = std::min(kept, most - j);
    for (int64_t tile = first; tile < last; tile += group) {
      const int64_t end = std::min(last, tile + group), row = tile * cut.tile;
      multiply_group(p, cut, part, columns, {a.a + (tile - first) * a.tile, a.tile, a.step}, tile, end, ahead);
      if (panel.last)
        finish_rows(p, row, std::min(p.m, end * cut.tile) - row, part.column, std::min(kept, part.columns));
    }
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
