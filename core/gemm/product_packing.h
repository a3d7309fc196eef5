// The operands of a matrix product as tiles read them: packed, or where they lie.
#pragma once
#include <algorithm>
#include <numeric>

#include "gemm/few_columns.h"
#include "gemm/gemm.h"
#include "gemm/matrix_unit.h"
#include "runtime/product_tuning.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// The sum over k is cut into blocks of at most so many steps, the same for every way of sharing the work and on every
// CPU without a matrix unit in use: it is part of the result.
constexpr int kDepthBlock = 384;

// The steps of each block of so many steps, and the rows of a tile, at most.
inline int depth_block_of(const MatrixProduct& p, int64_t steps) {
  if (!on_matrix_unit(p.sums)) return even_tile(steps, kDepthBlock);
  return static_cast<int>(round_up(even_tile(steps, kUnitDepth), kUnitRows));
}
inline int tile_rows_of(const MatrixProduct& p) { return on_matrix_unit(p.sums) ? 2 * kUnitRows : kWideRows; }

inline int64_t lanes_of(int64_t count) { return std::max<int64_t>(0, std::min<int64_t>(kWidth, count)); }

// Whether so many rows of a matrix, of one tile each, stay in a first-level cache side by side: one of 64 sets of 8
// lines each, or larger.
inline bool stays_in_cache(int64_t rows, int64_t ld) {
  constexpr int64_t kSets = 64, kWays = 8;
  const int64_t distance = ld % kBlock == 0 ? std::gcd(ld / kBlock, kSets) : 1;
  return rows <= kWays * kSets / distance;
}

// Whether tiles read B where it lies: when rows fit into a few, a copy would be read a few times only.
inline bool reads_b_in_place(const MatrixProduct& p, int64_t columns) {
  return !p.transpose_b && !p.packed_b && columns >= kWideColumns && p.b_element.is_float32() &&
         p.sums == SumKind::kFloats &&
         (p.m <= kWideRows ||
          (p.m <= kTuned.read_b_rows && stays_in_cache(std::min<int64_t>(p.k, kDepthBlock), p.ldb)));
}

// Whether tiles read A where it lies: its rows lie side by side already, and a copy would be read a few times only.
inline bool reads_a_in_place(const MatrixProduct& p, int tile) {
  return p.transpose_a && p.a_element.is_float32() && p.sums == SumKind::kFloats && p.n <= kTuned.read_columns &&
         few_columns(p.n, tile) == 0;
}

// Whether p.packed_b is what kernels read. Elements that become floats are kept as they are stored.
inline bool is_ready(const MatrixProduct& p) {
  return p.packed_b && (p.b_element.is_float32() || p.sums != SumKind::kFloats);
}

// Where pack_matrix_b has put the columns of a panel.
const float* packed_panel(const MatrixProduct& p, int64_t column, int64_t step, int64_t steps);

// b: tiles of kWideColumns columns, [steps][kWideColumns] each; the last one is filled up with zeros to whole blocks of
// 16 columns. Tiles that are read in place are left out.
void pack_b(const MatrixProduct& p, int64_t column, int64_t columns, int64_t step, int64_t steps, float* b);

// Rows from `row` on, `tile` of them in each of so many tiles. a: tiles, `tile_floats` apart, [steps][kWidth] each,
// any numbers beyond the rows of the tile; for a matrix unit [2 * kUnitRows][tile_floats / (2 * kUnitRows)], zeros
// behind the steps up to whole tiles of the unit.
void pack_a(const MatrixProduct& p, int64_t row, int tile, int64_t tiles, int64_t step, int64_t steps, float* a,
            int64_t tile_floats);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
