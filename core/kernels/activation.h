// Activations as other kernels see them: on contiguous runs of floats. Per instruction set.
#pragma once
#include <cstdint>

#include "kernels/kernels.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// y[i] = f(x[i]) for i < count; x == y allowed. Axis-wise functions (softmax, log-softmax) run over consecutive
// rows of `row` elements (count is a multiple of row); elementwise ones ignore `row`.
void activation_forward(const ActivationSpec& f, const float* x, float* y, int64_t count, int64_t row);

// dx[i] = dy[i] * f'(.) with the derivative taken from the output y (only functions that allow it); dx == dy allowed.
void activation_backward_from_output(const ActivationSpec& f, const float* y, const float* dy, float* dx, int64_t count,
                                     int64_t row);

inline bool is_identity(const ActivationSpec& f) { return f.function == 0; }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
