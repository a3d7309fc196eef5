// Small images in groups of few channels, of one or more, 16 groups at a time.
#pragma once
#include <memory>

#include "kernels/activation/shape.h"
#include "kernels/convolution/shape.h"
#include "runtime/plan.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Null for other shapes.
[[gnu::cold]] std::unique_ptr<Plan> make_group_lanes(const ConvolutionShape& shape, const ActivationSpec& activation);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
