// Matrix products: which method, how many threads, in which order operands are packed and multiplied.
#include "gemm/gemm.h"

#include <algorithm>

#include "common/scratch_uses.h"
#include "gemm/gemm_small.h"
#include "gemm/product_cuts.h"
#include "gemm/product_packing.h"
#include "gemm/product_tiles.h"
#include "gemm/stored_product.h"
#include "runtime/dynamic_items.h"
#include "runtime/product_tuning.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// Usual for more columns than rows: A is packed once for all, and every task packs the columns of B it works on.
void product_by_columns(const MatrixProduct& p, const Cuts& cuts, int threads) {
  const int64_t depth = steps_of(p), panels = panels_of(p), groups = cuts.first, parts = cuts.second;
  const bool ready = is_ready(p);
  const ProductCut cut(p, depth, p.m, threads);
  // [depth block][tile]
  float* a = scratch(kMatrixA, static_cast<size_t>(cut.depth_chunk / cut.depth_block * cut.tiles * cut.tile_floats()));
  for (int64_t chunk = 0; chunk < depth; chunk += cut.depth_chunk) {
    int64_t end = std::min(depth, chunk + cut.depth_chunk),
            blocks = (end - chunk + cut.depth_block - 1) / cut.depth_block;
    int packers = useful_threads(threads, kPackFlops * static_cast<double>(p.m * (end - chunk)));
    const int64_t pack = even_group(cut.tiles, kTuned.task_tiles, packers), packs = (cut.tiles + pack - 1) / pack;
    parallel_items(packers, blocks * packs, [&](int64_t item) {
      const int64_t tile = item % packs * pack, block = item / packs, step = chunk + block * cut.depth_block;
      pack_a(p, tile * cut.tile, cut.tile, std::min(pack, cut.tiles - tile), step,
             std::min(cut.depth_block, end - step), a + (block * cut.tiles + tile) * cut.tile_floats(),
             cut.tile_floats());
    });
    dynamic_items(threads, groups * parts, [&](int64_t item) {
      const int64_t part = item % parts, first = cut.tiles * part / parts, last = cut.tiles * (part + 1) / parts;
      const auto [column, columns] = columns_of(p, panels, item / parts, groups);
      const int64_t width = round_up(columns, kBlock);
      float* b = ready ? nullptr : scratch(kMatrixB, static_cast<size_t>(width * cut.depth_block));
      for (int64_t step = chunk; step < end; step += cut.depth_block) {
        const int64_t steps = std::min(cut.depth_block, end - step);
        Panel panel{column, columns, step, steps, b, step == 0, step + cut.depth_block >= depth};
        if (ready)
          panel.b = packed_panel(p, column, step, steps);
        else
          pack_b(p, column, columns, step, steps, b);
        const float* block = a + ((step - chunk) / cut.depth_block * cut.tiles + first) * cut.tile_floats();
        bool turns = step + cut.depth_block >= end;
        const int64_t next_column = turns ? column + columns : column, next = turns ? chunk : step + cut.depth_block;
        const int64_t next_steps = std::min(cut.depth_block, depth - next);
        Ahead ahead = p.packed_b ? Ahead::of_packed(p, next_column, width, next, next_steps)
                                 : Ahead::of_b(p, next_column, columns, next, steps);
        multiply_tiles(p, cut, panel, {block, cut.tile_floats(), cut.a_step()}, first, last, ahead);
      }
    });
  }
}

// Usual for more rows than columns: B is packed once for all, and every task packs the rows of A it works on.
void product_by_rows(const MatrixProduct& p, const Cuts& cuts, int threads) {
  const int64_t depth = steps_of(p), panels = panels_of(p), groups = cuts.first, parts = cuts.second;
  const int64_t padded = round_up(p.n, kBlock);
  const bool ready = is_ready(p);
  const ProductCut cut(p, depth, p.n, threads);
  const bool in_place = reads_a_in_place(p, cut.tile);
  // [depth block] as pack_b leaves it
  float* b = ready ? nullptr : scratch(kMatrixB, static_cast<size_t>(padded * cut.depth_chunk));
  for (int64_t chunk = 0; chunk < depth; chunk += cut.depth_chunk) {
    int64_t end = std::min(depth, chunk + cut.depth_chunk),
            blocks = (end - chunk + cut.depth_block - 1) / cut.depth_block;
    int packers = useful_threads(threads, kPackFlops * static_cast<double>(p.n * (end - chunk)));
    parallel_items(packers, ready ? 0 : blocks * panels, [&](int64_t item) {
      int64_t column = item % panels * kTuned.panel_columns, step = chunk + item / panels * cut.depth_block;
      int64_t steps = std::min(cut.depth_block, end - step);
      pack_b(p, column, std::min(kTuned.panel_columns, p.n - column), step, steps,
             b + (step - chunk) * padded + column * steps);
    });
    dynamic_items(threads, groups * parts, [&](int64_t item) {
      const int64_t group = item / parts, first = cut.tiles * group / groups, last = cut.tiles * (group + 1) / groups;
      const auto [column, columns] = columns_of(p, panels, item % parts, parts);
      float* a = in_place ? nullptr : scratch(kMatrixA, static_cast<size_t>((last - first) * cut.tile_floats()));
      for (int64_t step = chunk; step < end; step += cut.depth_block) {
        const int64_t steps = std::min(cut.depth_block, end - step);
        const float* from = ready ? p.packed_b + step * padded : b + (step - chunk) * padded;
        const Panel panel{
            column, columns, step, steps, from + column * steps, step == 0, step + cut.depth_block >= depth};
        bool turns = step + cut.depth_block >= end;
        Ahead ahead = Ahead::of_a(p, (turns ? last : first) * cut.tile, (last - first) * cut.tile,
                                  turns ? chunk : step + cut.depth_block, steps);
        TilesOfA tiles{a, cut.tile_floats(), cut.a_step()};
        if (in_place)
          tiles = {p.a + step * p.lda + first * cut.tile, cut.tile, p.lda};
        else
          pack_a(p, first * cut.tile, cut.tile, last - first, step, steps, a, cut.tile_floats());
        multiply_tiles(p, cut, panel, tiles, first, last, ahead);
      }
    });
  }
}

void product_on_threads(const MatrixProduct& p, int threads) {
  // Sums of few steps are bound by the writing of C, which goes best along its rows.
  const bool writes = p.k <= kTuned.few_steps && p.m > kWideRows;
  // Tasks that pack their own rows of A wait for nobody else, and do not get A from the caches of other cores. That
  // pays if B is packed already, and small enough to stay in the second cache of every core.
  const bool alone = is_ready(p) && p.n * p.k <= kept_floats();
  const ProductCut cut(p, steps_of(p), std::min(p.m, p.n), threads);
  const Cuts rows = cut_by_rows(p, cut, threads);
  if (writes || alone) return product_by_rows(p, rows, threads);
  const Cuts columns = cut_by_columns(p, cut, threads);
  if (goes_by_columns(p, rows, columns, threads))
    product_by_columns(p, columns, threads);
  else
    product_by_rows(p, rows, threads);
}

void fill_without_sum(const MatrixProduct& p) {  // k = 0
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t j = 0; j < p.n; j++)
      if (!p.accumulate)
        p.c[i * p.ldc + j] = (p.row_bias ? p.row_bias[i] : 0.f) + (p.column_bias ? p.column_bias[j] : 0.f);
}

// Of a product that takes as long.
double flops_of(const MatrixProduct& p, bool small) {
  const double rows = static_cast<double>(p.m) + (small ? kTuned.read_rows : 0);
  return 2.0 * rows * static_cast<double>(p.n) * (static_cast<double>(p.k) + kTuned.write_steps);
}

// Several parts for each thread where they are long enough: the one that began first does more of them.
void product_of_parts(const MatrixProduct& p, int threads) {
  const int64_t parts = threads * std::clamp<int64_t>(p.m / (threads * kTuned.part_rows), 1, kTuned.thread_groups);
  dynamic_items(threads, parts, [&](int64_t i) {
    const int64_t first = p.m * i / parts;
    packed_product(part_of(p, first, p.m * (i + 1) / parts - first, 0, p.n));
  });
}

void product_of_rows(const MatrixProduct& p) {
  narrow_product(p);
  finish_rows(p, 0, p.m, 0, p.n);
}

}  // namespace

void packed_product(const MatrixProduct& p, int threads) {
  product_on_threads(p, useful_threads(threads, flops_of(p, false)));
}

bool packs(const MatrixProduct& p) { return p.k > 0 && !is_narrow_product(p) && !is_small_product(p); }

void matrix_product(const MatrixProduct& p) {
  if (p.m <= 0 || p.n <= 0) return;
  if (is_stored(p) && !p.finish) return stored_product(p, 1);
  if (is_narrow_product(p)) return product_of_rows(p);
  if (p.k > 0 && !is_small_product(p)) return packed_product(p);
  if (p.k > 0)
    small_product(p);
  else
    fill_without_sum(p);
  finish_rows(p, 0, p.m, 0, p.n);
}

void matrix_product(const MatrixProduct& p, int threads) {
  if (is_stored(p) && !p.finish) return stored_product(p, threads);
  const bool small = is_small_product(p);
  threads = useful_threads(threads, flops_of(p, small));
  const bool pieces = small && static_cast<double>(p.n) * static_cast<double>(p.k) > kTuned.piece_products;
  if (threads <= 1 && !pieces) return matrix_product(p);
  if (is_narrow_product(p)) {
    const int64_t share = round_up((p.m + threads - 1) / threads, 4);
    return parallel_items(threads, (p.m + share - 1) / share, [&](int64_t i) {
      product_of_rows(part_of(p, i * share, std::min(share, p.m - i * share), 0, p.n));
    });
  }
  if (small) {  // the choice of method must not depend on the threads: only columns are shared out
    const int64_t most = std::max<int64_t>(
        1, static_cast<int64_t>(kTuned.piece_products / static_cast<double>(kWidth * std::max<int64_t>(1, p.k))));
    const int64_t vectors = (p.n + kWidth - 1) / kWidth;
    threads = engaged_workers(threads, vectors);
    // Four vectors at a time are fastest.
    const int64_t together = spreads_evenly((vectors + 3) / 4, threads) ? 4 : 1;
    const int64_t share = kWidth * std::min(most, round_up((vectors + threads - 1) / threads, together));
    return parallel_items(threads, (p.n + share - 1) / share, [&](int64_t i) {
      matrix_product(part_of(p, 0, p.m, i * share, std::min(share, p.n - i * share)));
    });
  }
  if (pack_alone(p, p.m / threads)) return product_of_parts(p, threads);
  if (pack_a_alone(p, p.n / threads)) {
    const Cuts parts{1, threads};
    return dynamic_items(threads, threads, [&](int64_t i) { packed_product(part_of(p, parts, i)); });
  }
  product_on_threads(p, threads);
}

bool has_row_parts(const MatrixProduct& p) { return !is_stored(p) && (packs(p) || is_narrow_product(p)); }

void product_rows(const MatrixProduct& p, int64_t first, int64_t rows) {
  if (rows <= 0) return;
  MatrixProduct part = part_of(p, first, rows, 0, p.n);
  part.packed_b = p.packed_b;
  if (is_narrow_product(p)) return product_of_rows(part);
  packed_product(part);
}

void product_share(const MatrixProduct& p, int64_t index, int64_t count) {
  // Whole units, as even as can be.
  const auto range = [&](int64_t size, int64_t unit) {
    const int64_t units = (size + unit - 1) / unit, first = units * index / count * unit;
    return ProductRange{first, std::min(size, units * (index + 1) / count * unit) - first};
  };
  if (has_row_parts(p) && (p.m >= p.n || is_narrow_product(p))) {
    const auto [row, rows] = range(p.m, kTuned.side_rows);
    return product_rows(p, row, rows);
  }
  const bool packed = packs(p);
  const auto [column, columns] = range(p.n, packed ? kTuned.panel_columns : kWidth);
  if (columns <= 0) return;
  const MatrixProduct part = part_of(p, 0, p.m, column, columns);
  packed ? packed_product(part) : matrix_product(part);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
