// Matrix product on row-major matrices.
#pragma once
#include <algorithm>
#include <cstdint>

#include "common/element.h"
#include "kernels/activation/shape.h"
#include "runtime/partition.h"
#include "runtime/thread_pool.h"

namespace openbnns {
namespace OPENBNNS_ISA {

struct Finish;

// How sums of products are formed: of floats; in float32, from pairs of BFloat16; or exactly, from two or four products
// of bytes at a time.
enum class SumKind { kFloats, kBFloat16Pairs, kBytePairs, kByteQuads };
inline bool is_exact(SumKind sums) { return sums == SumKind::kBytePairs || sums == SumKind::kByteQuads; }

// How products of float32 are summed, of which the caller says that their operands may be rounded to BFloat16.
SumKind sums_of_rounded(bool to_bfloat16);

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
  // What A, B and C are stored as; the addresses are those of such elements, and leading dimensions count them. Sums
  // are floats, or exact if A and B are bytes (see stored_product.h).
  Element a_element = {}, b_element = {}, c_element = {};
  float alpha = 1;                  // of products with such operands only: a factor on the sums; excludes the biases
  const float* b_scales = nullptr;  // [n], of the columns of B beside its scale, for exact sums; null: 1

  // With kBFloat16Pairs, operands of float32 are rounded where they are packed; products that do not pack keep them.
  // For operands of other types sums_of() chooses, before B is packed.
  SumKind sums = SumKind::kFloats;
  const Finish* finish = nullptr;           // set by matrix_product, when it has prepared a product of other types
  int64_t first_row = 0, first_column = 0;  // of this part of a larger product, in `finish`
};

// On the calling thread.
void matrix_product(const MatrixProduct& p);
// The same, always through packed blocks: for parts of a larger product, which must not each choose their own method.
void packed_product(const MatrixProduct& p, int threads = 1);
// On up to `threads` threads; the sum over k is never split, so the result is the same for any number of them.
void matrix_product(const MatrixProduct& p, int threads);

// Parts that each of `count` products like p is cut into, along its rows and its columns, so that threads compute them
// side by side: for products that are each too small for all of them. Part `index` < first * second, if there are
// several, is for packed_product, which computes the same bits as matrix_product for all of p.
Cuts product_parts(const MatrixProduct& p, int64_t count, int threads);
MatrixProduct part_of(const MatrixProduct& p, const Cuts& parts, int64_t index);

// For workers that have parts of a product of their own, each on its own thread; together they compute the same bits as
// matrix_product for all of p. Rows [first, first + rows), of a product that has_row_parts; share `index` of `count`.
bool has_row_parts(const MatrixProduct& p);
// Whether B is small enough that each of these workers packs it for itself.
bool is_packed_by_all(const MatrixProduct& p);
void product_rows(const MatrixProduct& p, int64_t first, int64_t rows);
void product_share(const MatrixProduct& p, int64_t index, int64_t count);

// Whether the product goes through packed blocks. One that has the same B again and again may be given it packed: the
// result is the same, to the last bit.
bool packs(const MatrixProduct& p);
inline int64_t packed_b_floats(int64_t n, int64_t k) { return (n + 15) / 16 * 16 * k; }
// The same room for operands of any type, counted in floats: those that are not float32 stay as small as they are.
int64_t packed_b_floats(const MatrixProduct& p);
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

// Operations in the time that packing an element takes.
constexpr double kPackFlops = 64;

// body(column, columns) for groups of columns that are shared out: whole blocks of 16, four of them where that does.
template <class Body>
void over_columns(int64_t columns, int threads, Body&& body) {
  constexpr int64_t kColumns = 16, kMost = 4;
  const int64_t blocks = (columns + kColumns - 1) / kColumns;
  threads = engaged_workers(threads, blocks);
  const int64_t group = even_group(blocks, kMost, threads) * kColumns;
  parallel_items(threads, (columns + group - 1) / group,
                 [&](int64_t i) { body(i * group, std::min(group, columns - i * group)); });
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
