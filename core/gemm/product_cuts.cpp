#include "gemm/product_cuts.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// The time to pack an operand that is multiplied by so many rows or columns, over that of the product.
double time_of_packing(int64_t times) { return kPackFlops / (2.0 * static_cast<double>(times)); }
// Of the work on a packed panel.
double share_of_packing(int64_t times) { return time_of_packing(times) / (1 + time_of_packing(times)); }

}  // namespace

ProductCut::ProductCut(const MatrixProduct& p, int64_t steps, int64_t shared_rows, int threads)
    : tile(even_tile(p.m, tile_rows_of(p))),
      tiles((p.m + tile - 1) / tile),
      depth_block(depth_block_of(p, steps)),
      on_unit(on_matrix_unit(p.sums)) {
  while (tile > kTuned.side_rows) {  // lower tiles, as long as there are more workers than tiles
    const int lower = even_tile(p.m, tile - 1);
    const int64_t more = (p.m + lower - 1) / lower;
    if (more * panels_of(p) > threads) break;
    tile = lower;
    tiles = more;
  }
  int64_t blocks = std::max<int64_t>(1, kTuned.shared_floats / (shared_rows * depth_block));
  depth_chunk = std::min(round_up(steps, depth_block), blocks * depth_block);
}

ProductRange columns_of(const MatrixProduct& p, int64_t panels, int64_t index, int64_t groups) {
  const int64_t first = panels * index / groups * kTuned.panel_columns;
  return {first, std::min(p.n, panels * (index + 1) / groups * kTuned.panel_columns) - first};
}

MatrixProduct part_of(const MatrixProduct& p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  MatrixProduct part = p;
  part.m = rows;
  part.n = columns;
  part.a = moved(p.a, p.a_element, p.transpose_a ? row : row * p.lda);
  part.b = moved(p.b, p.b_element, p.transpose_b ? column * p.ldb : column);
  part.c += row * p.ldc + column;
  part.first_row += row;
  part.first_column += column;
  if (part.row_bias) part.row_bias += row;
  if (part.column_bias) part.column_bias += column;
  part.packed_b = nullptr;  // is that of all columns
  return part;
}

Cuts cut_by_columns(const MatrixProduct& p, const ProductCut& cut, int threads) {
  const int64_t panels = panels_of(p);
  return even_cuts(1, {panels, 0, cut.column_groups(panels, threads)},
                   {cut.tiles, is_ready(p) ? 0 : share_of_packing(p.m)}, threads);
}

Cuts cut_by_rows(const MatrixProduct& p, const ProductCut& cut, int threads) {
  return even_cuts(1, {cut.tiles, 0, (cut.tiles + kTuned.task_tiles - 1) / kTuned.task_tiles},
                   {panels_of(p), reads_a_in_place(p, cut.tile) ? 0 : share_of_packing(p.n)}, threads);
}

bool goes_by_columns(const MatrixProduct& p, const Cuts& rows, const Cuts& columns, int threads) {
  const bool wide = p.m <= p.n;
  if (threads <= 1) return wide;
  // The other way, if this one leaves too many threads without work, or packs too much twice.
  const double pack_a = time_of_packing(p.n), pack_b = is_ready(p) ? 0 : time_of_packing(p.m);
  const double row_time = rows.time * (1 + pack_a) + pack_b / threads;
  const double column_time = columns.time * (1 + pack_b) + pack_a / threads;
  return wide ? column_time <= kTuned.other_gain * row_time : kTuned.other_gain * column_time < row_time;
}

bool pack_alone(const MatrixProduct& p, int64_t rows) {
  if (p.packed_b) return false;
  if (p.m < p.n) return rows >= kTuned.alone_wide_rows;
  return rows >= (is_packed_by_all(p) ? kTuned.alone_small_rows : kTuned.alone_rows);
}

bool pack_a_alone(const MatrixProduct& p, int64_t columns) {
  return !p.packed_b && p.m <= kTuned.alone_rows && p.m * p.k < kTuned.alone_floats && columns >= kTuned.alone_columns;
}

bool is_packed_by_all(const MatrixProduct& p) { return p.n * p.k <= std::min(kTuned.alone_floats, kept_floats()); }

Cuts product_parts(const MatrixProduct& p, int64_t count, int threads) {
  if (!packs(p) || is_stored(p)) return {1, 1};
  return even_cuts(count, {(p.m + kTuned.side_rows - 1) / kTuned.side_rows, share_of_packing(p.m)},
                   {panels_of(p), share_of_packing(p.n)}, threads);
}

MatrixProduct part_of(const MatrixProduct& p, const Cuts& parts, int64_t index) {
  const int64_t part = index / parts.second, units = (p.m + kTuned.side_rows - 1) / kTuned.side_rows;
  const int64_t row = units * part / parts.first * kTuned.side_rows;
  const int64_t end = std::min(p.m, units * (part + 1) / parts.first * kTuned.side_rows);
  const auto [column, columns] = columns_of(p, panels_of(p), index % parts.second, parts.second);
  return part_of(p, row, end - row, column, columns);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
