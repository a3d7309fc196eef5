// What the elements of a reduction contribute, how contributions are combined, and the gradients of runs of elements.
#pragma once
#include <cstdint>

#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace reduction {

// Numbers of BNNSReduceFunction.
enum Function {
  kMax = 0,
  kMin = 1,
  kArgMax = 2,
  kArgMin = 3,
  kMean = 4,
  kMeanNonZero = 5,
  kSumFunction = 6,
  kSumSquare = 7,
  kSumLog = 8,
  kL1Norm = 9,
  kLogicalOr = 10,
  kLogicalAnd = 11,
  kL2Norm = 12,
  kLogSumExp = 13,
  kProduct = 14,
  kLogSum = 16
};

// Terms w x, w x where w != 0, w |x|, w x^2, w log(x + epsilon), w exp(x - shift), and whether x or w is not 0.
// Extremes and products have no weights.
enum Kind {
  kTotal,
  kMaskedTotal,
  kAbsTotal,
  kSquareTotal,
  kLogTotal,
  kExpTotal,
  kCountTotal,
  kMaximum,
  kMinimum,
  kProductTotal,
  kAnyNonZero,
  kAllNonZero,
};

// What is reduced. Weights (null: all 1) lie as x does; `shift` is that of exponents.
struct Terms {
  const float *x, *w, *shift;
  bool shift_per_row;  // of `rows` below: else all have the first
  float epsilon;
};

// How one kind is combined, in double.
struct Combination {
  Kind kind;
  double start;
  // All of values[count] in one.
  double (*close)(const double* values, int64_t count);
  // total[i] and other[i] in total[i]
  void (*merge)(double* total, const double* other, int64_t count);
  // As rows() and columns(), of terms that need no function of their own.
  void (*whole_rows_)(double* to, const float* x, const float* w, int64_t rows, int64_t step, int64_t count);
  void (*add_columns_)(double* total, const float* x, const float* w, int64_t rows, int64_t step, int64_t count);

  bool is_mapped() const {
    return kind == kAbsTotal || kind == kLogTotal || kind == kExpTotal || kind == kAnyNonZero || kind == kAllNonZero;
  }
  // to[r]: all `count` elements of row r in one; rows lie `step` apart.
  void rows(const Terms& t, double* to, int64_t rows, int64_t step, int64_t count) const;
  // total[i] with the rows of column i, for each of `count` columns, shift[i] being that of a column; there is room for
  // a whole vector behind the last.
  void columns(const Terms& t, double* total, int64_t rows, int64_t step, int64_t count) const;
};

const Combination& combination(Kind kind);

// Index of the first of `count` elements that equals `value`, or is NaN if `value` is; `count` if there is none.
int64_t find_first(const float* x, int64_t count, float value);

// `count` elements in a row and what their gradients are made of. `factor` and `shift` (null: 0) have one value for all
// of them, or with `per_element` one for each. Absent x are 0, absent w are 1.
struct InputRun {
  const float *x, *w, *factor, *shift;
  float* dx;
  int64_t count;
  bool per_element, adds, stream;  // stream: finish_stream() has to follow
  float epsilon;
};
struct WeightsRun {
  const float *x, *w, *factor, *shift;  // w: where gradients of weights that are 0 are left out, else null
  float* dw;
  int64_t count, batch, x_stride, outputs;  // from one sample to the next of x, and of factor and shift
  bool per_element, adds;
  float epsilon;
};
// dx = factor * dy/dx, dw = sum over the batch of factor * dy/dw, without what all elements of an output share
void input_gradient(int function, const InputRun& run);
void weights_gradient(int function, const WeightsRun& run);

}  // namespace reduction
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
