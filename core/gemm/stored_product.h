// Products of matrices that are stored in other types than float32.
//
// Float16, BFloat16 and single operands of bytes become floats where they are packed, or read, and results are
// converted when a row of C is complete. Two operands of BFloat16 are multiplied in pairs, if the CPU can, which adds
// the same products one after the other (bfloat16_kernel.cpp). Products of bytes have exact sums: with A' and B' the
// integers that kernels multiply,
//
//   a = a_scale A' + a_bias, b = b_scale B' + b_bias:
//   sum ab = a_scale b_scale sum A'B' + a_scale b_bias sum A' + a_bias (b_scale sum B' + k b_bias)
//
// in double, from int32 sums.
//
// With a scale for every column of B, whose bytes have no bias then, the factor a_scale b_scale is rounded to float32.
// Its products with sums, of up to 29 bits, are exact: results have the same bits with fused multiply-adds and without.
#pragma once
#include "gemm/gemm.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// What becomes of the rows of C once their sums are complete. Terms are those of the whole product, rows and columns of
// its parts being counted from first_row and first_column.
struct Finish {
  void* to = nullptr;  // null: C is the result
  int64_t ld = 0;
  Element element;
  bool adds = false;  // to what `to` holds
  // of exact sums
  double factor = 1;
  const double* column_factor = nullptr;  // null: `factor` for all
  const double* row_term = nullptr;       // null: 0
  const double* column_term = nullptr;
};

inline bool is_stored(const MatrixProduct& p) {
  return !p.a_element.is_float32() || !p.b_element.is_float32() || !p.c_element.is_float32();
}
// Prepares the product and runs it, on up to `threads` threads.
void stored_product(const MatrixProduct& p, int threads);

// What is left to do for complete rows: conversion, activation.
void convert_rows(const MatrixProduct& p, int64_t row, int64_t rows, int64_t column, int64_t columns);
inline void finish_rows(const MatrixProduct& p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  if (p.activation || p.finish) convert_rows(p, row, rows, column, columns);
}

// Longer sums of bytes could exceed 32 bits.
constexpr int64_t kMostExactSteps = 65536;
// The way that the sums of such operands are formed.
SumKind sums_of(const MatrixProduct& p);
inline int64_t numbers_per_step(SumKind sums) {
  return sums == SumKind::kByteQuads ? 4 : sums == SumKind::kFloats ? 1 : 2;
}
// Groups of so many numbers that are multiplied at once.
inline int64_t groups_of(int64_t numbers, SumKind sums) {
  const int64_t each = numbers_per_step(sums);
  return (numbers + each - 1) / each;
}
inline int64_t steps_of(const MatrixProduct& p) { return groups_of(p.k, p.sums); }

// Kernels multiply bytes as they are, but for quads unsigned ones in A (`left`) and signed ones in B: bytes of the
// other sign plus this number.
inline int shift_of(const Element& element, bool left, SumKind sums) {
  if (sums != SumKind::kByteQuads || (element.type == ElementType::kInt8) != left) return 0;
  return left ? 128 : -128;
}
// An operand stands for scale * integer + bias_of(), given these integers.
inline double bias_of(const Element& element, bool left, SumKind sums) {
  return static_cast<double>(element.bias) - shift_of(element, left, sums) * static_cast<double>(element.scale);
}

// Of the sums of a column, or of an output channel, whose weights have a scale of their own.
inline double column_factor(double factor, float scale) {
  return static_cast<double>(static_cast<float>(factor * static_cast<double>(scale)));
}

// sums[j] = the sum over k of the integers of column j of op(B), as the kernels take them.
void sum_columns(const MatrixProduct& p, int32_t* sums, int threads);

// Few rows by exact sums: A is [m][lda] of int16, B bytes along k. Leaves int32 sums in C.
void small_integer_product(const MatrixProduct& p);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
