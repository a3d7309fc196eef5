// Squares of kWidth x kWidth floats transposed in registers.
#pragma once
#include "simd/pairs.h"
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Every round interleaves vector k with vector k + kWidth / 2; after log2(kWidth) rounds the lanes have changed places
// with the vectors.
OPENBNNS_INLINE void exchange_lanes(Vec (&v)[kWidth]) {
  Vec mixed[kWidth];
  OPENBNNS_UNROLL for (int round = 1; round < kWidth; round *= 2) {
    OPENBNNS_UNROLL for (int k = 0; k < kWidth / 2; k++) {
      mixed[2 * k] = interleave_low(v[k], v[k + kWidth / 2]);
      mixed[2 * k + 1] = interleave_high(v[k], v[k + kWidth / 2]);
    }
    OPENBNNS_UNROLL for (int k = 0; k < kWidth; k++) v[k] = mixed[k];
  }
}

// to[j * to_step + i] = from[i * from_step + j] for i, j < kWidth
OPENBNNS_INLINE void transpose_square(const float* from, int64_t from_step, float* to, int64_t to_step) {
  Vec v[kWidth];
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) v[i] = load(from + i * from_step);
  exchange_lanes(v);
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) store(to + i * to_step, v[i]);
}

// The same for i < rows only; each row of the result overwrites the elements from i = rows up to i = kWidth - 1, too.
OPENBNNS_INLINE void transpose_few_rows(const float* from, int64_t from_step, int64_t rows, float* to,
                                        int64_t to_step) {
  Vec v[kWidth];
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) v[i] = i < rows ? load(from + i * from_step) : Vec{};
  exchange_lanes(v);
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) store(to + i * to_step, v[i]);
}

// The same for j < columns <= 4 only; kWidth floats are read from each row all the same.
OPENBNNS_INLINE void transpose_few_columns(const float* from, int64_t from_step, int64_t columns, float* to,
                                           int64_t to_step) {
  Vec v[kWidth];
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) v[i] = load(from + i * from_step);
  exchange_lanes(v);
  OPENBNNS_UNROLL for (int i = 0; i < 4; i++) if (i < columns) store(to + i * to_step, v[i]);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
