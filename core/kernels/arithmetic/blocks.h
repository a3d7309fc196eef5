// Arithmetic on one small block [rows][columns] of the (collapsed) output: what a plan calls for every block.
#pragma once
#include <cstdint>

#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace arithmetic {

// A tensor as read in a block: element (r, c) is data[r * row_stride + c * column_step], column_step 0 or 1.
struct Source {
  const float* data;
  int64_t row_stride, column_step;

  Source at(int64_t row, int64_t column) const {
    return {data + row * row_stride + column * column_step, row_stride, column_step};
  }
};

enum class Sink {
  kSkip,
  kSet,         // target[r][c] = g
  kAdd,         // target[r][c] += g
  kSumRows,     // sums[r * row_stride + c] += g: the operand is repeated along axes outside the columns
  kSumColumns,  // sums[r * row_stride] += sum over c of g: the operand is repeated along the columns
};

struct Target {
  Sink sink;
  float* data;   // kSet, kAdd
  double* sums;  // kSumRows (readable and writable for kWidth elements past the last column), kSumColumns
  int64_t row_stride;
};

struct ForwardBlock {
  Source operand[3];
  float* out;
  int64_t out_row_stride;
  int64_t rows, columns;
};

// One operation's gradients, element by element.
struct GradientBlock {
  Source operand[3];
  Source output;  // y = op(operands)
  Source dz;
  float* gradient[3];  // null where not wanted; may be the memory of dz
  int64_t row_stride[3];
  int64_t rows, columns;
};

struct BackwardBlock {
  Source operand[3];
  Source output;  // y = op(operands), read when `output_given`; otherwise recomputed where a gradient needs it
  Source dz;
  Target target[3];
  bool output_given;
  bool same[3];  // operands 0 and 1, 0 and 2, 1 and 2 share one gradient: it gets the sum
  bool stream;   // gradients that are set bypass the caches; finish_stream() has to follow
  int64_t rows, columns;
};

struct BlockKernels {
  void (*forward)(const ForwardBlock&);
  void (*gradients)(const GradientBlock&);
  bool uses_output;
  bool passes[3];  // the gradient of operand i is dz
};

// `function` is a BNNSArithmeticFunction.
const BlockKernels& block_kernels(int function);

// What forward computes, changed in the cache by then(row of `columns` elements, columns), and streamed to memory.
// finish_stream() has to follow.
using RowTask = void (*)(const void* context, float* row, int64_t columns);
void forward_streaming(const BlockKernels& kernels, const ForwardBlock& block, RowTask then, const void* context);
void backward(const BlockKernels& kernels, const BackwardBlock& block);

}  // namespace arithmetic
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
