// The plan makers of one instruction set, gathered by table.cpp.
// Cold, as other functions that run once per plan: compiled for size.
#pragma once
#include "kernels/kernels.h"

namespace openbnns {
namespace OPENBNNS_ISA {

[[gnu::cold]] std::unique_ptr<Plan> make_fully_connected(const FullyConnectedShape& shape,
                                                         const ActivationSpec& activation);
[[gnu::cold]] std::unique_ptr<Plan> make_convolution(const ConvolutionShape& shape, const ActivationSpec& activation);
[[gnu::cold]] std::unique_ptr<Plan> make_transposed_convolution(const ConvolutionShape& shape,
                                                                const ActivationSpec& activation);
[[gnu::cold]] std::unique_ptr<Plan> make_activation(const ActivationShape& shape, const ActivationSpec& activation);
[[gnu::cold]] std::unique_ptr<Plan> make_arithmetic(const ArithmeticShape& shape, const ActivationSpec& activation);
[[gnu::cold]] std::unique_ptr<Plan> make_pooling(const PoolingShape& shape, const ActivationSpec& activation);
[[gnu::cold]] std::unique_ptr<Plan> make_loss(const LossShape& shape);
[[gnu::cold]] std::unique_ptr<Plan> make_normalization(const NormalizationShape& shape,
                                                       const ActivationSpec& activation);
[[gnu::cold]] std::unique_ptr<Plan> make_attention(const AttentionShape& shape);
[[gnu::cold]] std::unique_ptr<Plan> make_contraction(const ContractionShape& shape);
[[gnu::cold]] std::unique_ptr<Plan> make_norm(const NormShape& shape);
[[gnu::cold]] std::unique_ptr<Plan> make_clip_by_norm(const NormShape& shape, double max_norm);
void optimizer_step(const OptimizerRule& rule, const OptimizerTensor* tensors, int64_t count, int threads);
void clip_by_global_norm(const ClippedTensor* tensors, int64_t count, double max_norm, double use_norm, int threads);
void random_fill(const RandomFill& fill, int threads);
[[gnu::cold]] std::unique_ptr<Plan> make_embedding(const EmbeddingShape& shape);
[[gnu::cold]] std::unique_ptr<LstmPlan> make_lstm(const LstmShape& shape);
[[gnu::cold]] std::unique_ptr<Plan> make_quantization(const QuantizationShape& shape);
[[gnu::cold]] std::unique_ptr<Plan> make_fused(std::shared_ptr<Plan> first, const FusedShape& shape,
                                               const ActivationSpec& activation);
[[gnu::cold]] std::unique_ptr<Plan> make_dropout(const DropoutShape& shape);
[[gnu::cold]] std::unique_ptr<Plan> make_permute(const PermuteShape& shape);
[[gnu::cold]] std::unique_ptr<Plan> make_padding(const PaddingShape& shape);
[[gnu::cold]] std::unique_ptr<Plan> make_resize(const ResizeShape& shape);
[[gnu::cold]] std::unique_ptr<Plan> make_crop_resize(const CropResizeShape& shape);
double peak_gflop(int64_t iterations);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
