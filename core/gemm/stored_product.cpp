#include "gemm/stored_product.h"

#include <algorithm>

#include "common/scratch_uses.h"
#include "common/stored_rows.h"
#include "gemm/bfloat16_kernel.h"
#include "gemm/gemm_small.h"
#include "gemm/integer_kernel.h"
#include "kernels/activation/activation.h"
#include "kernels/kernels.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"
#include "simd/pairs.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kSumFloats = int64_t{1} << 21;  // of C before it is converted (8 MB), if rows are not longer
constexpr int64_t kFewestRows = 256;              // worked on together then: for each such block, B is packed anew
constexpr int64_t kChunk = 128;                   // of results that are converted at a time
constexpr double kDecodeFlops = 4;                // operations in the time that converting a number takes

// Rows of a matrix as floats, packed; in scratch.
const float* decoded(const Element& element, const float* from, int64_t ld, int64_t rows, int64_t columns, int slot,
                     int threads) {
  float* to = scratch(slot, static_cast<size_t>(rows * columns));
  const int workers = useful_threads(threads, kDecodeFlops * static_cast<double>(rows * columns));
  parallel_items(workers, rows,
                 [&](int64_t i) { decode(element, moved(from, element, i * ld), columns, to + i * columns); });
  return to;
}

// Makes floats of A (`left`) or B.
void decode_operand(MatrixProduct& p, bool left, int threads) {
  Element& element = left ? p.a_element : p.b_element;
  if (element.is_float32()) return;
  const float*& data = left ? p.a : p.b;
  int64_t& ld = left ? p.lda : p.ldb;
  const int64_t lines = left ? p.m : p.n;                    // rows of op(A), columns of op(B)
  const bool along = left ? !p.transpose_a : p.transpose_b;  // these are rows in memory
  const int64_t rows = along ? lines : p.k, columns = along ? p.k : lines;
  data = decoded(element, data, ld, rows, columns, left ? kStoredA : kStoredB, threads);
  ld = columns;
  element = {};
}

// sums[i] = the sum of `count` bytes of line i: along a row, or down a column.
template <class Byte>
void sum_lines(const Byte* from, int64_t ld, bool along, int64_t lines, int64_t count, int32_t* sums) {
  if (along) {
    for (int64_t i = 0; i < lines; i++) {
      int32_t sum = 0;
      for (int64_t k = 0; k < count; k++) sum += from[i * ld + k];
      sums[i] = sum;
    }
    return;
  }
  std::fill_n(sums, lines, 0);
  for (int64_t k = 0; k < count; k++)
    for (int64_t i = 0; i < lines; i++) sums[i] += from[k * ld + i];
}

void sum_lines(const Element& element, const float* from, int64_t ld, bool along, int64_t lines, int64_t count,
               int32_t* sums, int threads) {
  constexpr int64_t kLines = 64;
  const int workers = useful_threads(threads, static_cast<double>(lines) * static_cast<double>(count));
  parallel_items(workers, (lines + kLines - 1) / kLines, [&](int64_t i) {
    const int64_t first = i * kLines, here = std::min(kLines, lines - first);
    const float* start = moved(from, element, along ? first * ld : first);
    if (element.type == ElementType::kInt8)
      sum_lines(reinterpret_cast<const int8_t*>(start), ld, along, here, count, sums + first);
    else
      sum_lines(reinterpret_cast<const uint8_t*>(start), ld, along, here, count, sums + first);
  });
}

// The terms that turn sums of integers into sums of values, with the biases.
void set_terms(const MatrixProduct& p, const MatrixProduct& given, Finish& finish, int threads) {
  const double alpha = given.alpha, a_scale = alpha * given.a_element.scale, b_scale = given.b_element.scale;
  const double a_bias = alpha * bias_of(given.a_element, true, p.sums),
               b_bias = bias_of(given.b_element, false, p.sums);
  const auto k = static_cast<double>(p.k);
  finish.factor = a_scale * b_scale;
  // doubles of rows and columns, room for sums, and factors
  const int64_t lines = p.m + p.n;
  auto* terms =
      reinterpret_cast<double*>(scratch(kStoredTerms, static_cast<size_t>(4 * lines + (p.b_scales ? 2 * p.n : 0))));
  auto* sums = reinterpret_cast<int32_t*>(terms + lines);
  double* column_term = terms + p.m;
  const int32_t* column_sums = sums;
  if (a_bias != 0 && p.packed_b)
    column_sums = reinterpret_cast<const int32_t*>(p.packed_b + packed_b_floats(p.n, steps_of(p)));
  else if (a_bias != 0)
    sum_columns(given, sums, threads);
  finish.column_term = column_term;
  if (p.b_scales) {
    double* factor = terms + 2 * lines;
    for (int64_t j = 0; j < p.n; j++) {
      factor[j] = column_factor(finish.factor, p.b_scales[j]);
      column_term[j] = p.column_bias ? static_cast<double>(p.column_bias[j]) : 0.0;
      if (a_bias != 0) column_term[j] += factor[j] * (a_bias / a_scale * column_sums[j]);
    }
    finish.column_factor = factor;
    return;
  }
  for (int64_t j = 0; j < p.n; j++) {
    double term = p.column_bias ? static_cast<double>(p.column_bias[j]) : 0.0;
    if (a_bias != 0) term += a_bias * (b_scale * column_sums[j] + k * b_bias);
    column_term[j] = term;
  }
  if (b_bias != 0 || p.row_bias) {
    if (b_bias != 0) sum_lines(given.a_element, given.a, given.lda, !given.transpose_a, p.m, p.k, sums, threads);
    const int64_t offset = shift_of(given.a_element, true, p.sums) * p.k;
    for (int64_t i = 0; i < p.m; i++) {
      double term = p.row_bias ? static_cast<double>(p.row_bias[i]) : 0.0;
      if (b_bias != 0) term += a_scale * b_bias * static_cast<double>(sums[i] + offset);
      terms[i] = term;
    }
    finish.row_term = terms;
  }
}

// A as small_product reads it beside BFloat16: of every 2 * kWidth steps, those at even positions come first.
void pair_a(MatrixProduct& p) {
  float* to = scratch(kStoredPairs, static_cast<size_t>(p.m * p.k));
  for (int64_t i = 0; i < p.m; i++, to += p.k) {
    const float* row = p.a + i * p.lda;
    int64_t k = 0;
    for (; k + 2 * kWidth <= p.k; k += 2 * kWidth) {
      const VecPair steps = load_pairs(row + k, kWidth);
      store(to + k, steps.even);
      store(to + k + kWidth, steps.odd);
    }
    std::copy_n(row + k, p.k - k, to + k);
  }
  p.a = to - p.m * p.k;
  p.lda = p.k;
}

// A as small_integer_product reads it.
void widen_a(MatrixProduct& p) {
  const int64_t ld = (p.k + 1) / 2 * 2;
  auto* to = reinterpret_cast<int16_t*>(scratch(kStoredA, static_cast<size_t>(p.m * ld / 2)));
  for (int64_t i = 0; i < p.m; i++) {
    const float* row = moved(p.a, p.a_element, i * p.lda);
    if (p.a_element.type == ElementType::kInt8)
      std::copy_n(reinterpret_cast<const int8_t*>(row), p.k, to + i * ld);
    else
      std::copy_n(reinterpret_cast<const uint8_t*>(row), p.k, to + i * ld);
  }
  p.a = reinterpret_cast<const float*>(to);
  p.lda = ld;
}

// One row of complete sums into the result.
void convert_row(const MatrixProduct& p, int64_t row, int64_t column, int64_t columns) {
  const Finish& f = *p.finish;
  float* c = p.c + row * p.ldc + column;
  const int64_t whole_row = p.first_row + row, whole_column = p.first_column + column;
  const bool exact = is_exact(p.sums) && !p.activation;  // no float in between
  for (int64_t i = 0; i < columns; i += kChunk) {
    const int64_t count = std::min(kChunk, columns - i);
    float values[kChunk], old[kChunk];
    double terms[kChunk];
    void* to = f.to ? moved(f.to, f.element, whole_row * f.ld + whole_column + i) : c + i;
    if (f.adds) decode(f.element, to, count, old);
    if (!is_exact(p.sums)) {
      for (int64_t j = 0; j < count; j++) values[j] = p.alpha * c[i + j];
    } else {
      const auto* sums = reinterpret_cast<const int32_t*>(c + i);
      const double* term = f.column_term + whole_column + i;
      if (f.row_term || (exact && f.adds)) {
        const double row_term = f.row_term ? f.row_term[whole_row] : 0;
        for (int64_t j = 0; j < count; j++) terms[j] = (term[j] + row_term) + (exact && f.adds ? old[j] : 0.0);
        term = terms;
      }
      const double* factor = f.column_factor ? f.column_factor + whole_column + i : nullptr;
      if (exact) {
        if (factor)
          encode_sums(f.element, sums, factor, term, count, to);
        else
          encode_sums(f.element, sums, f.factor, term, count, to);
        continue;
      }
      for (int64_t j = 0; j < count; j++)
        values[j] = static_cast<float>((factor ? factor[j] : f.factor) * sums[j] + term[j]);
    }
    if (p.activation) activation_forward(*p.activation, values, values, count, count);
    if (f.adds)
      for (int64_t j = 0; j < count; j++) values[j] += old[j];
    encode(f.element, values, count, to);
  }
}

}  // namespace

bool multiplies_bfloat16() { return has_bfloat16_sums(); }
bool multiplies_bytes() { return has_quad_sums(); }

SumKind sums_of_rounded(bool to_bfloat16) {
  return to_bfloat16 && has_bfloat16_sums() ? SumKind::kBFloat16Pairs : SumKind::kFloats;
}

SumKind sums_of(const MatrixProduct& p) {
  if (p.k == 0) return SumKind::kFloats;
  if (p.a_element.type == ElementType::kBFloat16 && p.b_element.type == ElementType::kBFloat16)
    return sums_of_rounded(true);
  if (!p.a_element.is_byte() || !p.b_element.is_byte() || p.k > kMostExactSteps) return SumKind::kFloats;
  return has_quad_sums() ? SumKind::kByteQuads : SumKind::kBytePairs;
}

void sum_columns(const MatrixProduct& p, int32_t* sums, int threads) {
  sum_lines(p.b_element, p.b, p.ldb, p.transpose_b, p.n, p.k, sums, threads);
  const auto shift = static_cast<int32_t>(shift_of(p.b_element, false, p.sums) * p.k);
  for (int64_t j = 0; shift != 0 && j < p.n; j++) sums[j] += shift;
}

void convert_rows(const MatrixProduct& p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  const bool in_place = !p.finish || (!p.finish->to && !is_exact(p.sums) && p.alpha == 1.f);
  if (!in_place) {
    for (int64_t m = row; m < row + rows; m++) convert_row(p, m, column, columns);
  } else if (p.activation) {
    const int64_t together = columns == p.ldc ? rows : 1;
    for (int64_t m = row; m < row + rows; m += together) {
      float* c = p.c + m * p.ldc + column;
      activation_forward(*p.activation, c, c, together * columns, columns);
    }
  }
}

void stored_product(const MatrixProduct& given, int threads) {
  MatrixProduct p = given;
  Finish finish;
  p.finish = &finish;
  if (p.sums == SumKind::kFloats) p.sums = sums_of(given);
  const bool small = is_small_product(p);
  if (small && is_exact(p.sums)) p.sums = SumKind::kBytePairs;  // as small_integer_product takes bytes
  if (is_exact(p.sums)) {
    MatrixProduct summed = given;
    summed.sums = p.sums;
    if (small) p.packed_b = nullptr;
    set_terms(p, summed, finish, threads);
    p.column_bias = p.row_bias = nullptr;
    if (small) widen_a(p);
  } else if (is_narrow_product(p)) {
    decode_operand(p, true, threads);
    decode_operand(p, false, threads);
  } else if (small || p.k == 0) {
    decode_operand(p, true, threads);
    if (p.transpose_b && p.b_element.type == ElementType::kBFloat16) pair_a(p);
  }
  const bool exact = is_exact(p.sums);
  finish.adds = p.accumulate && (exact || p.alpha != 1.f || !p.c_element.is_float32());
  if (p.c_element.is_float32() && !finish.adds) return matrix_product(p, threads);
  finish.to = given.c;
  finish.ld = given.ldc;
  finish.element = given.c_element;
  if (finish.adds) p.accumulate = false;
  p.c_element = {};
  p.ldc = p.n;
  // Rows in blocks, so that C does not need much room; these must not each choose their own method.
  const bool packed = p.k > 0 && !small && !is_narrow_product(p);
  const int64_t block = packed ? std::min(p.m, std::max(kFewestRows, kSumFloats / p.n)) : p.m;
  p.c = scratch(kStoredSums, static_cast<size_t>(block * p.n));
  if (!packed) return matrix_product(p, threads);
  for (int64_t row = 0; row < given.m; row += block) {
    MatrixProduct part = p;
    part.m = std::min(block, given.m - row);
    part.a = moved(p.a, p.a_element, p.transpose_a ? row : row * p.lda);
    if (part.row_bias) part.row_bias += row;
    part.first_row = row;
    packed_product(part, threads);
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
