// Convolutions in which every group has one input channel: memory-bound, so they work plane by plane instead of through
// the matrix product. Any channel multiplier, stride, dilation and padding.
#pragma once
#include <memory>

#include "kernels/activation/shape.h"
#include "kernels/convolution/shape.h"
#include "runtime/plan.h"

namespace openbnns {
namespace OPENBNNS_ISA {

inline bool is_depthwise(const ConvolutionShape& shape) { return shape.groups == shape.in_channels; }
[[gnu::cold]] std::unique_ptr<Plan> make_depthwise(const ConvolutionShape& shape, const ActivationSpec& activation);
// The same for 3 x 3 windows with stride 1 or 2, without a bordered copy; null for other shapes, for instruction sets
// without masked loads, and under the sanitizer, which would not see them.
#if defined(__AVX2__) && !defined(__SANITIZE_ADDRESS__)
#define OPENBNNS_READS_ROWS 1
#else
#define OPENBNNS_READS_ROWS 0
#endif
[[gnu::cold]] std::unique_ptr<Plan> make_depthwise_rows(const ConvolutionShape& shape,
                                                        const ActivationSpec& activation);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
