// Activations for use by other kernels: on contiguous runs of floats. Per instruction set.
#pragma once
#include <cstdint>

#include "kernels/activation/shape.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// y[i] = f(x[i]) for i < count; x == y allowed. Axis-wise functions (softmax, log-softmax) run over consecutive
// rows of `row` elements (count is a multiple of row); elementwise ones ignore `row`. PReLUPerChannel uses the one
// alpha of `f`; Gumbel draws the same numbers at every call. Not for GumbelMax and the two integer functions.
void activation_forward(const ActivationSpec& f, const float* x, float* y, int64_t count, int64_t row);

// dx[i] = dy[i] * f'(.) with the derivative taken from the output y (only functions that allow it); dx == dy allowed.
void activation_backward_from_output(const ActivationSpec& f, const float* y, const float* dy, float* dx, int64_t count,
                                     int64_t row);

// y[i] = clamp((scale * x[i] + offset) >> shift, low, high) for i < count; the shift (0 <= shift < 64) rounds down.
// x == y allowed. Exact as long as scale * x + offset fits in 64 bits: always when x does in 32.
void integer_linear_saturate(const int64_t* x, int64_t* y, int64_t count, int32_t scale, int32_t offset, int32_t shift,
                             int64_t low, int64_t high);

inline bool is_identity(const ActivationSpec& f) { return f.function == 0; }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
