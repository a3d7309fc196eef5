// The plan makers of one instruction set, gathered by table.cpp.
#pragma once
#include "kernels/kernels.h"

namespace openbnns {
namespace OPENBNNS_ISA {

std::unique_ptr<Plan> make_fully_connected(const FullyConnectedShape& shape, const ActivationSpec& activation);
std::unique_ptr<Plan> make_convolution(const ConvolutionShape& shape, const ActivationSpec& activation);
std::unique_ptr<Plan> make_transposed_convolution(const ConvolutionShape& shape, const ActivationSpec& activation);
std::unique_ptr<Plan> make_activation(const ActivationShape& shape, const ActivationSpec& activation);
std::unique_ptr<Plan> make_arithmetic(const ArithmeticShape& shape, const ActivationSpec& activation);
std::unique_ptr<Plan> make_pooling(const PoolingShape& shape, const ActivationSpec& activation);
std::unique_ptr<Plan> make_loss(const LossShape& shape);
std::unique_ptr<Plan> make_embedding(const EmbeddingShape& shape);
std::unique_ptr<Plan> make_quantization(const QuantizationShape& shape);
std::unique_ptr<Plan> make_dropout(const DropoutShape& shape);
double peak_gflop(int64_t iterations);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
