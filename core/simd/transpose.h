// Squares of kWidth x kWidth floats transposed in registers.
#pragma once
#include <utility>

#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Of every four lanes two, from lane kFirst of them on: a, b, a, b or a, a, b, b.
template <int kFirst, int... kLane>
OPENBNNS_INLINE Vec alternate(Vec a, Vec b, std::integer_sequence<int, kLane...>) {
  return shuffled<(kLane / 4 * 4 + kFirst + kLane % 4 / 2 + kLane % 2 * kWidth)...>(a, b);
}
template <int kFirst, int... kLane>
OPENBNNS_INLINE Vec join_pairs(Vec a, Vec b, std::integer_sequence<int, kLane...>) {
  return shuffled<(kLane / 4 * 4 + kFirst + kLane % 2 + kLane % 4 / 2 * kWidth)...>(a, b);
}
// Every other group of four lanes of a, from group kFirst on, then those of b.
template <int kFirst, int... kLane>
OPENBNNS_INLINE Vec join_fours(Vec a, Vec b, std::integer_sequence<int, kLane...>) {
  return shuffled<((kLane / 4 * 2 + kFirst) * 4 + kLane % 4)...>(a, b);
}

// r[i][j] <-> r[j][i] for a square of kWidth rows, in registers: squares of 4 first, then these among each other. Other
// shuffles than these need an operand that tells the lanes, or two instructions.
OPENBNNS_INLINE void transpose(Vec* r) {
  constexpr auto lanes = std::make_integer_sequence<int, kWidth>{};
  constexpr int kSquares = kWidth / 4;
  Vec t[kWidth];
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i += 2) {
    t[i] = alternate<0>(r[i], r[i + 1], lanes);
    t[i + 1] = alternate<2>(r[i], r[i + 1], lanes);
  }
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i += 4) OPENBNNS_UNROLL for (int j = 0; j < 2; j++) {
    r[i + 2 * j] = join_pairs<0>(t[i + j], t[i + 2 + j], lanes);
    r[i + 2 * j + 1] = join_pairs<2>(t[i + j], t[i + 2 + j], lanes);
  }
  OPENBNNS_UNROLL for (int round = 1; round < kSquares; round *= 2) {
    OPENBNNS_UNROLL for (int i = 0; i < kWidth / 2; i++) {
      const int from = i / 4 * 8 + i % 4;
      t[i] = join_fours<0>(r[from], r[from + 4], lanes);
      t[i + kWidth / 2] = join_fours<1>(r[from], r[from + 4], lanes);
    }
    OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) r[i] = t[i];
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
