// Exact products with few rows: every byte of B is read, and widened, once for four rows.
#include <cstring>

#include "gemm/pair_dot.h"
#include "gemm/sources.h"
#include "gemm/stored_product.h"
#include "simd/pairs.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kNumbers = 2 * kWidth;  // in a vector of pairs

// Neighbouring sums of two vectors, by turns.
OPENBNNS_INLINE IntVec pair_up(IntVec a, IntVec b) {
  const Vec x = from_bits(a), y = from_bits(b);
  return bits(interleave_low(x, y)) + bits(interleave_high(x, y));
}

// c[j] = the sum of the lanes of sum[j], j < count
OPENBNNS_INLINE void store_sums(const IntVec (&sum)[4], int64_t count, int32_t* c) {
  const IntVec all = pair_up(pair_up(sum[0], sum[2]), pair_up(sum[1], sum[3]));
  for (int64_t j = 0; j < count; j++) {
    int32_t total = 0;
    OPENBNNS_UNROLL for (int i = 0; i < kWidth / 4; i++) total += all[j + 4 * i];
    c[j] = total;
  }
}

// kRows rows against `columns` columns, at most four; missing ones repeat the last.
template <int kRows, class Byte>
OPENBNNS_INLINE void dot_tile(const MatrixProduct& p, int64_t row, int64_t column, int64_t columns) {
  const auto* a = reinterpret_cast<const int16_t*>(p.a) + row * p.lda;
  const Byte* b[4];
  for (int64_t j = 0; j < 4; j++)
    b[j] = reinterpret_cast<const Byte*>(p.b) + (column + (j < columns ? j : columns - 1)) * p.ldb;
  const PairSource<Byte> source;
  IntVec sum[kRows][4];
  OPENBNNS_UNROLL for (int m = 0; m < kRows; m++) OPENBNNS_UNROLL for (int j = 0; j < 4; j++) sum[m][j] = IntVec{};
  int64_t k = 0;
  for (; k + kNumbers <= p.k; k += kNumbers) {
    IntVec w[4];
    OPENBNNS_UNROLL for (int j = 0; j < 4; j++) w[j] = bits(source.along(b[j] + k));
    OPENBNNS_UNROLL for (int m = 0; m < kRows; m++) {
      IntVec x;
      std::memcpy(&x, a + m * p.lda + k, sizeof x);
      OPENBNNS_UNROLL for (int j = 0; j < 4; j++) sum[m][j] = PairDot::add(sum[m][j], x, w[j]);
    }
  }
  if (k < p.k) {
    IntVec w[4];
    OPENBNNS_UNROLL for (int j = 0; j < 4; j++) w[j] = bits(source.along(b[j] + k, p.k - k));
    OPENBNNS_UNROLL for (int m = 0; m < kRows; m++) {
      const FirstNumbers<int16_t, kNumbers> rest(a + m * p.lda + k, p.k - k);
      IntVec x;
      std::memcpy(&x, rest.number, sizeof x);
      OPENBNNS_UNROLL for (int j = 0; j < 4; j++) sum[m][j] = PairDot::add(sum[m][j], x, w[j]);
    }
  }
  OPENBNNS_UNROLL for (int m = 0; m < kRows; m++)
      store_sums(sum[m], columns, reinterpret_cast<int32_t*>(p.c + (row + m) * p.ldc + column));
}

template <class Byte>
void dot_rows(const MatrixProduct& p) {
  for (int64_t column = 0; column < p.n; column += 4) {
    const int64_t columns = p.n - column < 4 ? p.n - column : 4;
    int64_t row = 0;
    for (; row + 4 <= p.m; row += 4) dot_tile<4, Byte>(p, row, column, columns);
    for (; row + 2 <= p.m; row += 2) dot_tile<2, Byte>(p, row, column, columns);
    if (row < p.m) dot_tile<1, Byte>(p, row, column, columns);
  }
}

}  // namespace

void small_integer_product(const MatrixProduct& p) {
  p.b_element.type == ElementType::kInt8 ? dot_rows<int8_t>(p) : dot_rows<uint8_t>(p);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
