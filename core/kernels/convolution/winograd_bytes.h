// Winograd's method on bytes, with exact sums: 3 x 3 kernels in tiles of 2 x 4 outputs.
//
// The points 0, 1, -1, 2, -2 and infinity have integers in B^T. Rows of G are multiplied by their denominators, which
// A^T makes up for: the outputs of a tile come out 2 * 24 times as large. Inputs and kernels are pairs of channels with
// 16 bits each, which hold 2 * 10 and 3 * 7 times any byte. Sums wrap around in 32 bits, and so may all that is made of
// them: 16 y is right whenever it fits in 32 bits, because 3 has an inverse modulo 2^32.
#pragma once
#include "simd/stored_numbers.h"

namespace openbnns {
namespace OPENBNNS_ISA {

typedef int16_t PairVec __attribute__((vector_size(kWidth * 4)));

constexpr double kLargestTileSum = 1 << 27;  // of outputs that tiles are right for

//   B^T = 1  0 -1  0      G = 1   0   0      2 A^T = 2  1  1  0
//         0  1  1  0          1   1   1              0  1 -1 -2
//         0 -1  1  0          1  -1   1
//         0  1  0 -1          0   0   1
struct ByteRows {
  using Lanes = PairVec;
  static constexpr int kCells = 4, kOutputs = 2;
  OPENBNNS_INLINE static void input(const PairVec (&d)[4], PairVec (&v)[4]) {
    v[0] = d[0] - d[2];
    v[1] = d[1] + d[2];
    v[2] = d[2] - d[1];
    v[3] = d[1] - d[3];
  }
  OPENBNNS_INLINE static void kernel(const PairVec (&g)[3], PairVec (&u)[4]) {
    u[0] = g[0];
    u[1] = (g[0] + g[2]) + g[1];
    u[2] = (g[0] + g[2]) - g[1];
    u[3] = g[2];
  }
  OPENBNNS_INLINE static void output(const UnsignedVec (&m)[4], UnsignedVec (&y)[2]) {
    y[0] = (m[0] << 1) + (m[1] + m[2]);
    y[1] = (m[1] - m[2]) - (m[3] << 1);
  }
};

//   B^T = 4  0 -5  0  1  0      G = 1  0  0      24 A^T = 6 -4 -4  1  1  0
//         0 -4 -4  1  1  0          1  1  1               0 -4  4  2 -2  0
//         0  4 -4 -1  1  0          1 -1  1               0 -4 -4  4  4  0
//         0 -2 -1  2  1  0          1  2  4               0 -4  4  8 -8 24
//         0  2 -1 -2  1  0          1 -2  4
//         0  4  0 -5  0  1          0  0  1
struct ByteColumns {
  using Lanes = PairVec;
  static constexpr int kCells = 6, kOutputs = 4;
  OPENBNNS_INLINE static void input(const PairVec (&d)[6], PairVec (&v)[6]) {
    PairVec even = d[4] - (d[2] << 2), odd = d[3] - (d[1] << 2);
    v[0] = (even - d[2]) + (d[0] << 2);
    v[1] = even + odd;
    v[2] = even - odd;
    v[5] = (d[5] - (d[3] << 2)) - odd;
    even = d[4] - d[2], odd = (d[3] - d[1]) << 1;
    v[3] = even + odd;
    v[4] = even - odd;
  }
  OPENBNNS_INLINE static void kernel(const PairVec (&g)[3], PairVec (&u)[6]) {
    PairVec even = g[0] + g[2], odd = g[1];
    u[0] = g[0];
    u[1] = even + odd;
    u[2] = even - odd;
    even = g[0] + (g[2] << 2), odd = g[1] << 1;
    u[3] = even + odd;
    u[4] = even - odd;
    u[5] = g[2];
  }
  OPENBNNS_INLINE static void output(const UnsignedVec (&m)[6], UnsignedVec (&y)[4]) {
    const UnsignedVec even_1 = (m[1] + m[2]) << 2, even_2 = m[3] + m[4];
    const UnsignedVec odd_1 = (m[1] - m[2]) << 2, odd_2 = (m[3] - m[4]) << 1;
    y[0] = 6 * m[0] + (even_2 - even_1);
    y[1] = odd_2 - odd_1;
    y[2] = (even_2 << 2) - even_1;
    y[3] = 24 * m[5] + ((odd_2 << 2) - odd_1);
  }
};

struct ByteForm {
  using Rows = ByteRows;
  using Columns = ByteColumns;
  using Sums = UnsignedVec;
  // y of 48 y; sums of bytes have no bias here.
  OPENBNNS_INLINE static Vec result(UnsignedVec made, Vec) {
    constexpr uint32_t kInverseOf3 = 0xAAAAAAABu;
    return from_bits(reinterpret_cast<IntVec>(made * kInverseOf3) >> 4);
  }
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
