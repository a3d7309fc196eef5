#include "gemm/gemm_small.h"

#include <algorithm>

#include "gemm/partial.h"
#include "gemm/sources.h"
#include "gemm/stored_product.h"
#include "simd/pairs.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

template <int kCount>
using Numbers = std::make_integer_sequence<int, kCount>;

// Each of r[0 .. kHalf) with its lanes in pairs, and next to them those of r[i + kHalf]; on until one vector is left.
// (Arrays of sums are indexed by constants from the start: only then the compiler keeps them in registers.)
template <int kHalf, int... i>
OPENBNNS_INLINE void sum_pairs(Vec* r, std::integer_sequence<int, i...>) {
  ((r[i] = interleave_low(r[i], r[i + kHalf]) + interleave_high(r[i], r[i + kHalf])), ...);
  if constexpr (kHalf > 1) sum_pairs<kHalf / 2>(r, Numbers<kHalf / 2>());
}

// v[l] + v[l + kDistance], then that with half the distance, and so on as long as it is at least kCount.
template <int kDistance, int kCount, int... kLane>
OPENBNNS_INLINE Vec fold(Vec v, std::integer_sequence<int, kLane...> lanes) {
  if constexpr (kDistance < kCount)
    return v;
  else
    return fold<kDistance / 2, kCount>(v + shuffled<((kLane + kDistance) % kWidth)...>(v, v), lanes);
}

// Lane j < kCount of the result is the sum of the lanes of r[j], added in the same order whatever kCount is.
template <int kCount>
OPENBNNS_INLINE Vec sum_each(Vec* r) {
  if constexpr (kCount > 1) sum_pairs<kCount / 2>(r, Numbers<kCount / 2>());
  return fold<kWidth / 2, kCount>(r[0], Numbers<kWidth>());
}

OPENBNNS_INLINE void finish(const MatrixProduct& p, int64_t row, int64_t column, Lanes lanes, Vec sum) {
  float* c = p.c + row * p.ldc + column;
  if (p.accumulate) sum = lanes.load(c) + sum;
  if (p.column_bias) sum += lanes.load(p.column_bias + column);
  if (p.row_bias) sum += splat(p.row_bias[row]);
  lanes.store(c, sum);
}

// sum[m][column] += x[m] * y
template <int kRows, int kCount>
OPENBNNS_INLINE void add_products(const Vec (&x)[kRows], Vec y, int column, Vec (&sum)[kRows][kCount]) {
  OPENBNNS_UNROLL for (int m = 0; m < kRows; m++) sum[m][column] += x[m] * y;
}

// c[row + m][column + j] = a[row + m][:] . b[column + j][:] for m < kRows, j < kCount: both operands run along k, lanes
// are summed once at the end, and what is read of B serves all rows. A has its steps in the order of
// Source::two_along(). Results are added up in the same order, whatever kRows and kCount are.
template <int kRows, int kCount, class Source>
void dot_products(const Source& source, const MatrixProduct& p, int64_t row, int64_t column) {
  const float* a = p.a + row * p.lda;
  const auto* b = reinterpret_cast<const typename Source::Number*>(p.b) + column * p.ldb;
  Vec sum[kRows][kCount];
  OPENBNNS_UNROLL for (int m = 0; m < kRows; m++) OPENBNNS_UNROLL for (int j = 0; j < kCount; j++) sum[m][j] = Vec{};
  int64_t k = 0;
  Vec x[kRows], next[kRows];
  for (; k + 2 * kWidth <= p.k; k += 2 * kWidth) {
    OPENBNNS_UNROLL for (int m = 0; m < kRows; m++) {
      x[m] = load(a + m * p.lda + k);
      next[m] = load(a + m * p.lda + k + kWidth);
    }
    OPENBNNS_UNROLL for (int j = 0; j < kCount; j++) {
      const VecPair y = source.two_along(b + j * p.ldb + k);
      add_products(x, y.even, j, sum);
      add_products(next, y.odd, j, sum);
    }
  }
  for (; k + kWidth <= p.k; k += kWidth) {
    OPENBNNS_UNROLL for (int m = 0; m < kRows; m++) x[m] = load(a + m * p.lda + k);
    OPENBNNS_UNROLL for (int j = 0; j < kCount; j++) add_products(x, source.along(b + j * p.ldb + k), j, sum);
  }
  if (k < p.k) {
    const Lanes tail(p.k - k);
    OPENBNNS_UNROLL for (int m = 0; m < kRows; m++) x[m] = tail.load(a + m * p.lda + k);
    OPENBNNS_UNROLL for (int j = 0; j < kCount; j++) add_products(x, source.along(b + j * p.ldb + k, p.k - k), j, sum);
  }
  OPENBNNS_UNROLL for (int m = 0; m < kRows; m++) finish(p, row + m, column, Lanes(kCount), sum_each<kCount>(sum[m]));
}

constexpr int kDotColumns = kWidth < 8 ? kWidth : 8;  // at a time: rows of more would compete for places in the cache
// Rows at a time, and sums of them that fit into registers.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kDotTogether = 4, kDotSums = 16;
#else
constexpr int kDotTogether = 2, kDotSums = 8;
#endif

// All rows of kCount columns, from `row` on: kRows at a time, then as many as the further template arguments say.
template <int kCount, int kRows, int... kFewer, class Source>
OPENBNNS_INLINE void dot_rows_of(const Source& source, const MatrixProduct& p, int64_t row, int64_t column) {
  constexpr int kColumns = std::min(kCount, kDotSums / kRows);
  for (; row + kRows <= p.m; row += kRows)
    for (int part = 0; part < kCount; part += kColumns) dot_products<kRows, kColumns>(source, p, row, column + part);
  if constexpr (sizeof...(kFewer) > 0) dot_rows_of<kCount, kFewer...>(source, p, row, column);
}

// The last columns, fewer than 2 * kCount: kCount at a time, then half of that, and so on.
template <int kCount, class Source>
OPENBNNS_INLINE void dot_last_columns(const Source& source, const MatrixProduct& p, int64_t column) {
  if (column + kCount <= p.n) {
    dot_rows_of<kCount, kDotTogether, 1>(source, p, 0, column);
    column += kCount;
  }
  if constexpr (kCount > 1) dot_last_columns<kCount / 2>(source, p, column);
}

template <class Source>
void dot_columns(const Source& source, const MatrixProduct& p) {
  int64_t column = 0;
  for (; column + kDotColumns <= p.n; column += kDotColumns)
    dot_rows_of<kDotColumns, kDotTogether, kDotTogether / 2, 1>(source, p, 0, column);
  dot_last_columns<kDotColumns / 2>(source, p, column);
}

// kRows rows of C against kColumns columns, both operands along k; a few sums are enough to keep the units busy, and
// operands are read as they lie.
template <int kRows, int kColumns>
void dot_tile(const MatrixProduct& p, int64_t row, int64_t column) {
  const float* a = p.a + row * p.lda;
  const float* b = p.b + column * p.ldb;
  Vec sum[kRows][kColumns];
  OPENBNNS_UNROLL for (int m = 0; m < kRows; m++) OPENBNNS_UNROLL for (int n = 0; n < kColumns; n++) sum[m][n] = Vec{};
  for (int64_t k = 0; k < p.k; k += kWidth) {
    const Lanes part(std::min<int64_t>(kWidth, p.k - k));
    Vec y[kColumns];
    OPENBNNS_UNROLL for (int n = 0; n < kColumns; n++) y[n] = part.load(b + n * p.ldb + k);
    OPENBNNS_UNROLL for (int m = 0; m < kRows; m++) {
      const Vec x = part.load(a + m * p.lda + k);
      OPENBNNS_UNROLL for (int n = 0; n < kColumns; n++) sum[m][n] += x * y[n];
    }
  }
  for (int m = 0; m < kRows; m++)
    for (int n = 0; n < kColumns; n++) {
      float total = sum_lanes(sum[m][n]);
      float& c = p.c[(row + m) * p.ldc + column + n];
      if (p.accumulate) total = c + total;
      if (p.column_bias) total += p.column_bias[column + n];
      if (p.row_bias) total += p.row_bias[row + m];
      c = total;
    }
}

template <int kRows>
void dot_rows(const MatrixProduct& p, int64_t row) {
  int64_t column = 0;
  for (; column + 2 <= p.n; column += 2) dot_tile<kRows, 2>(p, row, column);
  if (column < p.n) dot_tile<kRows, 1>(p, row, column);
}

// kRows rows of C against kVectors vectors of columns; only `last` lanes of the last vector exist. A is read by scalar:
// a[row * row_stride + k * step_stride].
template <int kRows, int kVectors, class Source>
void broadcast_products(const Source& source, const MatrixProduct& p, int64_t row, int64_t column, Lanes last) {
  int64_t row_stride = p.transpose_a ? 1 : p.lda, step_stride = p.transpose_a ? p.lda : 1;
  const float* a = p.a + row * row_stride;
  const auto* b = reinterpret_cast<const typename Source::Number*>(p.b) + column;
  Vec sum[kRows][kVectors];
  OPENBNNS_UNROLL for (int m = 0; m < kRows; m++) OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) sum[m][v] = Vec{};
  for (int64_t k = 0; k < p.k; k++, a += step_stride, b += p.ldb) {
    Vec column_values[kVectors];
    OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) column_values[v] =
        source.across(b + v * kWidth, p.ldb, 1, v < kVectors - 1 ? kWidth : last.count());
    OPENBNNS_UNROLL for (int m = 0; m < kRows; m++) {
      Vec x = splat(a[m * row_stride]);
      OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) sum[m][v] += x * column_values[v];
    }
  }
  OPENBNNS_UNROLL for (int m = 0; m < kRows; m++) OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++)
      finish(p, row + m, column + v * kWidth, v < kVectors - 1 ? Lanes(kWidth) : last, sum[m][v]);
}

template <int kRows, class Source>
void broadcast_rows(const Source& source, const MatrixProduct& p, int64_t row) {
  constexpr int kVectors = kWidth == 16 ? 4 : 2;
  int64_t column = 0;
  for (; column + kVectors * kWidth <= p.n; column += kVectors * kWidth)
    broadcast_products<kRows, kVectors>(source, p, row, column, Lanes(kWidth));
  for (; column < p.n; column += kWidth)
    broadcast_products<kRows, 1>(source, p, row, column, Lanes(std::min<int64_t>(kWidth, p.n - column)));
}

// What the steps [step, step + steps) add to the product.
MatrixProduct steps_of(const MatrixProduct& p, int64_t step, int64_t steps) {
  MatrixProduct part = p;
  part.k = steps;
  part.a += p.transpose_a ? step * p.lda : step;
  part.b = moved(p.b, p.b_element, step * p.ldb);
  if (step == 0) return part;
  part.accumulate = true;
  part.row_bias = part.column_bias = nullptr;
  return part;
}

constexpr int kDotRows = 8;        // more rows: transposing B once is cheaper than summing lanes for each
constexpr int kNarrow = 12;        // columns; more fill the vectors of a packed product
constexpr int kNarrowSteps = 256;  // fewer do not pay for the sums of lanes
constexpr int64_t kNarrowFloats = int64_t{1} << 20;  // of A; more come from memory, and packing asks for them in time
constexpr int kBroadcastRows = 4;                    // more rows: one tile of a packed product reads B once
constexpr int kBroadcastSteps = 256;                 // of a sum of its own: errors grow with the length of a chain

}  // namespace

bool is_small_product(const MatrixProduct& p) {
  if (is_exact(p.sums)) return p.transpose_b && !p.transpose_a && p.m <= kDotRows;
  if (p.transpose_b) return !p.transpose_a && p.m <= kDotRows;
  return p.m <= kBroadcastRows || (p.k <= 2 && p.m * p.n <= 65536);
}

bool is_narrow_product(const MatrixProduct& p) {
  return !is_exact(p.sums) && p.transpose_b && !p.transpose_a && p.n <= kNarrow && p.k >= kNarrowSteps &&
         p.m * p.k <= kNarrowFloats && !is_small_product(p);
}

void narrow_product(const MatrixProduct& p) {
  int64_t row = 0;
  for (; row + 4 <= p.m; row += 4) dot_rows<4>(p, row);
  for (; row < p.m; row++) dot_rows<1>(p, row);
}

void small_product(const MatrixProduct& p) {
  if (is_exact(p.sums)) return small_integer_product(p);
  with_float_source(p.b_element, [&](const auto& source) {
    if (p.transpose_b) return dot_columns(source, p);
    for (int64_t step = 0; step < p.k; step += kBroadcastSteps) {
      const MatrixProduct part = steps_of(p, step, std::min<int64_t>(kBroadcastSteps, p.k - step));
      int64_t row = 0;
      for (; row + 4 <= p.m; row += 4) broadcast_rows<4>(source, part, row);
      for (; row + 2 <= p.m; row += 2) broadcast_rows<2>(source, part, row);
      for (; row < p.m; row++) broadcast_rows<1>(source, part, row);
    }
  });
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
