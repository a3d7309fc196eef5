// Squares of kWidth x kWidth floats transposed on their way from one place in memory to another.
#pragma once
#include "simd/transpose.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// to[j * to_step + i] = from[i * from_step + j] for i, j < kWidth
OPENBNNS_INLINE void transpose_square(const float* from, int64_t from_step, float* to, int64_t to_step) {
  Vec v[kWidth];
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) v[i] = load(from + i * from_step);
  transpose(v);
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) store(to + i * to_step, v[i]);
}

// The same for i < rows only; each row of the result overwrites the elements from i = rows up to i = kWidth - 1, too.
OPENBNNS_INLINE void transpose_few_rows(const float* from, int64_t from_step, int64_t rows, float* to,
                                        int64_t to_step) {
  Vec v[kWidth];
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) v[i] = i < rows ? load(from + i * from_step) : Vec{};
  transpose(v);
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) store(to + i * to_step, v[i]);
}

// The same for j < columns <= 4 only; kWidth floats are read from each row all the same.
OPENBNNS_INLINE void transpose_few_columns(const float* from, int64_t from_step, int64_t columns, float* to,
                                           int64_t to_step) {
  Vec v[kWidth];
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) v[i] = load(from + i * from_step);
  transpose(v);
  OPENBNNS_UNROLL for (int i = 0; i < 4; i++) if (i < columns) store(to + i * to_step, v[i]);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
