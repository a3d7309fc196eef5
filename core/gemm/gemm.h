// Matrix product on row-major matrices.
#pragma once
#include <cstdint>

#include "kernels/activation/shape.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// C[m][n] (+)= op(A)[m][k] op(B)[k][n], every matrix row-major with its own leading dimension.
struct MatrixProduct {
  int64_t m, n, k;
  const float* a;  // [m][lda], or [k][lda] when transpose_a
  int64_t lda;
  const float* b;  // [k][ldb], or [n][ldb] when transpose_b
  int64_t ldb;
  float* c;  // [m][ldc]
  int64_t ldc;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;                     // add to C; excludes the biases
  const float* row_bias = nullptr;             // [m], added to every column
  const float* column_bias = nullptr;          // [n], added to every row
  const ActivationSpec* activation = nullptr;  // elementwise, applied to the finished C; null: none
  const float* packed_b = nullptr;             // op(B) as pack_matrix_b leaves it, for products that pack; null: none
};

// On the calling thread.
void matrix_product(const MatrixProduct& p);
// The same, always through packed blocks: for parts of a larger product, which must not each choose their own method.
void packed_product(const MatrixProduct& p);
// On up to `threads` threads; the sum over k is never split, so the result is the same for any number of them.
void matrix_product(const MatrixProduct& p, int threads);

// Whether the product goes through packed blocks. One that has the same B again and again may be given it packed: the
// result is the same, to the last bit.
bool packs(const MatrixProduct& p);
inline int64_t packed_b_floats(int64_t n, int64_t k) { return (n + 15) / 16 * 16 * k; }
// Packs all of op(B), whatever the rows of A are.
void pack_matrix_b(const MatrixProduct& p, float* packed, int threads);

// sums[column] (+)= sum over rows of matrix[row][column], in a fixed order. matrix: [rows][row_stride].
void sum_rows(const float* matrix, int64_t row_stride, int64_t rows, int64_t columns, float* sums, bool accumulate);

// A thread is worth waking for this many floating point operations.
constexpr double kFlopsPerThread = 0.75e6;
inline int useful_threads(int threads, double flops) {
  if (threads <= 1 || flops < 2 * kFlopsPerThread) return 1;  // in a small call a division costs time that counts
  const double worth = flops / kFlopsPerThread;
  return worth >= threads ? threads : static_cast<int>(worth);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
