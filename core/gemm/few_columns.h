// Columns of C that are left over beside blocks of 16: too few to fill the vectors of a tile. Here the rows of A, which
// lie side by side once they are packed, fill them.
#pragma once
#include <cstdint>

#include "gemm/micro_kernel.h"

namespace openbnns {
namespace OPENBNNS_ISA {

constexpr int kFewColumns = 8;

// C[rows][columns] (+)= A[rows][steps] * B[steps][columns], columns <= kFewColumns, with the same operations in the
// same order as in a tile.
struct FewColumns {
  const float* a;  // tiles of `tile` rows, a_tile elements apart, in each of them A[row][k] at row + k * kWidth
  int64_t a_tile;
  int tile;
  const float* b;  // B[k][column] at k * b_step + column
  int64_t b_step;
  int64_t rows, steps;
  int columns;
  float* c;
  int64_t c_row;  // elements from one row of C to the next
  Write write;
  const float* bias;  // of the columns or of the rows, as `write` says
};
void multiply_few_columns(const FewColumns& p);

// Of `columns`, those that multiply_few_columns should do beside tiles of so many rows.
inline int few_columns(int64_t columns, int tile) {
  constexpr int kLatency = 4;  // additions that one after the other takes as long as
  const int few = static_cast<int>(columns % kBlock);
  return few <= kFewColumns && few + kLatency <= tile * (kBlock / kWidth) ? few : 0;
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
