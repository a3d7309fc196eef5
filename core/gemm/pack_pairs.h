// Pairs of numbers, rounded to BFloat16, from rows of float32: matrices of 32-bit elements that pack.h moves like
// floats.
#pragma once
#include "gemm/sources.h"

namespace openbnns {
namespace OPENBNNS_ISA {

inline int64_t pairs_of(int64_t numbers) { return (numbers + 1) / 2; }
OPENBNNS_INLINE void store_some(float* p, Vec v, int64_t count) {
  if (count >= kWidth)
    store(p, v);
  else
    store_partial(p, v, count);
}

// pairs[row][i] = columns 2 i and 2 i + 1 of a row; a missing column is 0. pairs: [rows][pairs_of(columns)].
inline void pair_columns(const float* source, int64_t row_stride, int64_t rows, int64_t columns, float* pairs) {
  constexpr RoundedPairSource rounded;
  const int64_t count = pairs_of(columns);
  for (int64_t row = 0; row < rows; row++, source += row_stride, pairs += count)
    for (int64_t i = 0; i < count; i += kWidth) {
      const int64_t left = columns - 2 * i;
      const Vec both = left >= 2 * kWidth ? rounded.along(source + 2 * i) : rounded.along(source + 2 * i, left);
      store_some(pairs + i, both, count - i);
    }
}

// pairs[i][column] = that column of rows 2 i and 2 i + 1; a missing row is 0. pairs: [pairs_of(rows)][columns]. It may
// begin where source does if rows are `columns` apart.
inline void pair_rows(const float* source, int64_t row_stride, int64_t rows, int64_t columns, float* pairs) {
  constexpr RoundedPairSource rounded;
  for (int64_t row = 0; row < rows; row += 2, source += 2 * row_stride, pairs += columns)
    for (int64_t i = 0; i < columns; i += kWidth)
      store_some(pairs + i, rounded.across(source + i, row_stride, rows - row, columns - i), columns - i);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
