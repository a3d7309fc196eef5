// How a matrix product is cut up into tasks, panels and tiles; nothing here touches the order of a sum.
#pragma once
#include "gemm/product_packing.h"
#include "gemm/stored_product.h"
#include "runtime/partition.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// The floats that fit into the second cache of a core. What is cut by them are rows and columns only, never a sum.
inline int64_t second_cache_floats() { return kTuned.second_cache / static_cast<int64_t>(sizeof(float)); }
// Of B, that stay in it while tiles of A pass by.
inline int64_t kept_floats() { return second_cache_floats() / 4; }

inline int64_t panels_of(const MatrixProduct& p) { return (p.n + kTuned.panel_columns - 1) / kTuned.panel_columns; }

// The tiles and blocks of a product.
struct ProductCut {
  int tile;             // rows of a tile
  int64_t tiles;        // of the rows
  int64_t depth_block;  // steps of one block of the sum
  int64_t depth_chunk;  // steps for which the shared operand is packed at a time
  bool on_unit;         // a matrix unit

  ProductCut(const MatrixProduct& p, int64_t steps, int64_t shared_rows, int threads);

  int rows(const MatrixProduct& p, int64_t index) const {
    return static_cast<int>(std::min<int64_t>(tile, p.m - index * tile));
  }
  int64_t tile_floats() const { return depth_block * (on_unit ? 2 * kUnitRows : kWidth); }  // of A, packed
  int64_t a_step() const { return on_unit ? depth_block : kWidth; }                         // see Tile
  int64_t kept_panels() const {
    return std::clamp<int64_t>(kept_floats() / (depth_block * kTuned.panel_columns), 1, kTuned.kept_panels);
  }
  // Tiles of A that stay in L2, while one tile of B after the other stays in L1 for all of them: that takes fewer loads
  // from L2 than the other way round. But wide tiles of B would fill L1.
  int64_t group_tiles() const {
    return kWideBlocks > 1 ? 1 : std::max<int64_t>(1, second_cache_floats() / 8 / tile_floats());
  }
  // Groups of panels, each of which stays in L2; several of them for each thread where there are enough: the one that
  // began first does more of them.
  int64_t column_groups(int64_t panels, int threads) const {
    const int64_t each = threads > 1 ? std::max<int64_t>(1, panels / (kTuned.thread_groups * threads)) : panels;
    const int64_t most = std::min(kept_panels(), each);
    return (panels + most - 1) / most;
  }
};

// Some rows or columns.
struct ProductRange {
  int64_t first, count;
};
// The columns of group `index` of so many groups of whole panels.
ProductRange columns_of(const MatrixProduct& p, int64_t panels, int64_t index, int64_t groups);
// Rows [row, row + rows) x columns [column, column + columns) of the product.
MatrixProduct part_of(const MatrixProduct& p, int64_t row, int64_t rows, int64_t column, int64_t columns);

// Tasks of groups of columns, and parts of the rows; tasks of groups of tiles of rows, and parts of the columns.
Cuts cut_by_columns(const MatrixProduct& p, const ProductCut& cut, int threads);
Cuts cut_by_rows(const MatrixProduct& p, const ProductCut& cut, int threads);
// Whether threads do better with the groups of columns.
bool goes_by_columns(const MatrixProduct& p, const Cuts& rows, const Cuts& columns, int threads);

// Whether workers that each multiply so many rows by B all pack it themselves: to pack an operand again takes less time
// than to wait for another core, and to fetch from its cache what it has packed.
bool pack_alone(const MatrixProduct& p, int64_t rows);
// The same for A, whose rows are few.
bool pack_a_alone(const MatrixProduct& p, int64_t columns);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
