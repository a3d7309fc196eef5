// Which fused activations need whole rows at once.
#pragma once
#include "kernels/activation/shape.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Softmax, GumbelMax, LogSoftmax: the value at one place depends on its whole row.
inline bool is_axis_wise(const ActivationSpec& f) { return f.function == 11 || f.function == 14 || f.function == 21; }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
