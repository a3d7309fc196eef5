// Squares of kWidth x kWidth floats transposed in registers.
#pragma once
#include "simd/pairs.h"
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// to[j * to_step + i] = from[i * from_step + j] for i, j < kWidth. Every round interleaves vector k with vector
// k + kWidth / 2; after log2(kWidth) rounds the lanes have changed places with the vectors.
OPENBNNS_INLINE void transpose_square(const float* from, int64_t from_step, float* to, int64_t to_step) {
  Vec v[kWidth], mixed[kWidth];
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) v[i] = load(from + i * from_step);
  OPENBNNS_UNROLL for (int round = 1; round < kWidth; round *= 2) {
    OPENBNNS_UNROLL for (int k = 0; k < kWidth / 2; k++) {
      mixed[2 * k] = interleave_low(v[k], v[k + kWidth / 2]);
      mixed[2 * k + 1] = interleave_high(v[k], v[k + kWidth / 2]);
    }
    OPENBNNS_UNROLL for (int k = 0; k < kWidth; k++) v[k] = mixed[k];
  }
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) store(to + i * to_step, v[i]);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
