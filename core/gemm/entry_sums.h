// Sums of products of operands in blocks of 16 (TileForm::Matrix), for kernels that pack their operands themselves.
#pragma once
#include "gemm/bfloat16_kernel.h"
#include "gemm/gemm.h"
#include "gemm/matrix_unit.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// A step is a number of each operand or, of BFloat16, a pair.
class EntrySums {
 public:
  explicit EntrySums(bool bfloat16) : kind_(sums_of_rounded(bfloat16)), on_unit_(on_matrix_unit(kind_)) {}

  SumKind kind() const { return kind_; }
  bool pairs() const { return kind_ == SumKind::kBFloat16Pairs; }
  bool on_unit() const { return on_unit_; }
  int numbers() const { return pairs() ? 2 : 1; }           // of a step
  int entry() const { return on_unit_ ? kBlock : kDepth; }  // steps of an entry of TileForm::Matrix
  int most_rows() const { return on_unit_ ? 2 * kUnitRows : kWideRows; }
  int64_t whole_block() const { return numbers() * int64_t{kBlock}; }  // numbers of 16 steps
  // Behind the rows of A, which a matrix unit reads and nobody uses.
  int64_t floats_behind() const { return on_unit_ ? kUnitRows * kBlock : 0; }
  // Of so many numbers, in whole entries.
  int64_t steps(int64_t count) const { return round_up((count + numbers() - 1) / numbers(), entry()); }

  // TileForm::Matrix, or Pixels4, whose entries always have kDepth steps.
  TileKernel kernel(TileForm form, int blocks, int rows) const {
    if (on_unit_ && form == TileForm::Matrix) return matrix_unit()->entries_kernel(kind_, blocks, rows, false);
    return pairs() ? bfloat16_tile_kernel(form, blocks, rows) : tile_kernel(form, blocks, rows);
  }

 private:
  SumKind kind_;
  bool on_unit_;
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
