#include "kernels/convolution_kernels.h"

namespace openbnns {
namespace OPENBNNS_ISA {
std::unique_ptr<ImageKernel> make_pointwise_forward(const ConvolutionShape&) { return nullptr; }
std::unique_ptr<ImageKernel> make_pointwise_backward_data(const ConvolutionShape&) { return nullptr; }
std::unique_ptr<WeightsKernel> make_pointwise_weights(const ConvolutionShape&) { return nullptr; }
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
