// Products on a matrix unit (AMX), whose registers are tiles of 16 rows of 64 bytes: of pairs of BFloat16, with float
// sums, and of unsigned bytes by signed ones, four at a time. Off unless it was switched on (kernels/dispatch.cpp).
//
// B is packed as for vectors: the rows of a tile are steps. The rows of a tile of A are those of A. For matrix products
// it is packed row by row, with zeros behind the last step up to whole tiles. In the blocks of 16 channels of other
// kernels, a row of a block is that of a tile as it lies, and the next one follows it.
#pragma once
#include "gemm/gemm.h"
#include "gemm/micro_kernel.h"

namespace openbnns {
namespace OPENBNNS_ISA {

constexpr int kUnitRows = 16;    // of a tile of the unit; also its columns, and the steps of one multiplication
constexpr int kUnitDepth = 192;  // steps of a block, at most: A and B of a kernel together fit into 48 KB
constexpr bool kHasMatrixUnit = kWidth == kUnitRows;

struct MatrixUnit {
  // On every thread before it runs kernels, and behind them: an idle thread whose tiles are in use has 8 KB more to
  // save.
  void (*configure)();
  void (*release)();
  // For Tile::rows up to 2 * kUnitRows; A[row][k] at row * a_step + k; all ways of writing.
  TileKernel (*kernel)(SumKind sums, int blocks, int rows);
  // As those of TileForm::Edge, Pair and Matrix, for Tile::rows up to 2 * kUnitRows, or to kUnitRows of each of two
  // images (`pair`), but an entry has kBlock steps, and no row is left out. Of A, whole tiles are read: up to kUnitRows
  // rows of a block from the first one of these rows on. All ways of writing.
  TileKernel (*entries_kernel)(SumKind sums, int blocks, int rows, bool pair);
};

// The one of this CPU as it was compiled for, null if there is none; not to be used without asking the CPU and the
// system.
const MatrixUnit* amx();

// The one in use, or null.
const MatrixUnit* matrix_unit();
void use_matrix_unit(const MatrixUnit* unit);

inline bool on_matrix_unit(SumKind sums) {
  return kHasMatrixUnit && (sums == SumKind::kBFloat16Pairs || sums == SumKind::kByteQuads) && matrix_unit() != nullptr;
}

// Has the unit configured on this thread while it lives.
class MatrixUnitInUse {
 public:
  explicit MatrixUnitInUse(SumKind sums) : unit_(on_matrix_unit(sums) ? matrix_unit() : nullptr) {
    if (unit_) unit_->configure();
  }
  MatrixUnitInUse(const MatrixUnitInUse&) = delete;
  MatrixUnitInUse& operator=(const MatrixUnitInUse&) = delete;
  ~MatrixUnitInUse() {
    if (unit_) unit_->release();
  }

 private:
  const MatrixUnit* unit_;
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
