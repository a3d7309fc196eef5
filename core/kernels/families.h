// Every family, once. From this list come the declarations of what the kernels offer, the table of each instruction set
// (kernels.h) and, for makers of plans, the functions of the Python module (bindings/shapes.cpp).
#pragma once
#include "kernels/activation/shape.h"
#include "kernels/arithmetic/chain.h"
#include "kernels/arithmetic/shape.h"
#include "kernels/attention/shape.h"
#include "kernels/clipping/shape.h"
#include "kernels/contraction/shape.h"
#include "kernels/convolution/shape.h"
#include "kernels/crop_resize/shape.h"
#include "kernels/dropout/shape.h"
#include "kernels/embedding/shape.h"
#include "kernels/exchange/shape.h"
#include "kernels/fully_connected/shape.h"
#include "kernels/fused/shape.h"
#include "kernels/loss/shape.h"
#include "kernels/lstm/shape.h"
#include "kernels/moves/shape.h"
#include "kernels/nearest_neighbors/shape.h"
#include "kernels/normalization/shape.h"
#include "kernels/optimizer/shape.h"
#include "kernels/padding/shape.h"
#include "kernels/permute/shape.h"
#include "kernels/pooling/shape.h"
#include "kernels/quantization/bytes.h"
#include "kernels/quantization/shape.h"
#include "kernels/random_numbers/shape.h"
#include "kernels/recurrent/shape.h"
#include "kernels/reduction/shape.h"
#include "kernels/resize/shape.h"
#include "kernels/selection/shape.h"

// PLAN(kind of plan, name, what make_<name> takes), FUNCTION(result, name, what it takes)
// clang-format off
#define OPENBNNS_FAMILIES(PLAN, FUNCTION)                                                             \
  PLAN(Plan, activation, const ActivationShape&, const ActivationSpec&)                               \
  PLAN(Plan, arithmetic, const ArithmeticShape&, const ActivationSpec&)                               \
  PLAN(Plan, attention, const AttentionShape&)                                                        \
  PLAN(Plan, attention_heads, const AttentionHeadsShape&)                                             \
  PLAN(Plan, clip_by_norm, const ClipByNormShape&)                                                    \
  PLAN(Plan, contraction, const ContractionShape&)                                                    \
  PLAN(Plan, convolution, const ConvolutionShape&, const ActivationSpec&)                             \
  PLAN(Plan, crop_resize, const CropResizeShape&)                                                     \
  PLAN(Plan, dropout, const DropoutShape&)                                                            \
  PLAN(Plan, embedding, const EmbeddingShape&)                                                        \
  PLAN(Plan, fully_connected, const FullyConnectedShape&, const ActivationSpec&)                      \
  PLAN(Plan, fused, const FusedShape&, const ActivationSpec&)                                         \
  PLAN(Plan, loss, const LossShape&)                                                                  \
  PLAN(LstmPlan, lstm, const LstmShape&)                                                              \
  PLAN(Plan, norm, const NormShape&)                                                                  \
  PLAN(Plan, normalization, const NormalizationShape&, const ActivationSpec&)                         \
  PLAN(Plan, padding, const PaddingShape&)                                                            \
  PLAN(Plan, permute, const PermuteShape&)                                                            \
  PLAN(Plan, pooling, const PoolingShape&, const ActivationSpec&)                                     \
  PLAN(Plan, quantization, const QuantizationShape&)                                                  \
  PLAN(Plan, recurrent, const RecurrentShape&)                                                        \
  PLAN(Plan, reduction, const ReductionShape&)                                                        \
  PLAN(Plan, resize, const ResizeShape&)                                                              \
  PLAN(Plan, transposed_convolution, const ConvolutionShape&, const ActivationSpec&)                  \
  FUNCTION(void, add_bytes, const ByteSum& s, int threads)                                            \
  FUNCTION(void, band_part, const BandShape& s, const char* x, char* y, int threads)                  \
  FUNCTION(void, channel_combination, const ChannelPlanes& s, float* y, const float* a,               \
           const float* x, const float* by_a, const float* by_x, const float* mean,                   \
           const float* plus, int threads)                                                            \
  FUNCTION(void, channel_sums, const ChannelPlanes& s, const float* a, const float* b, double* sums,  \
           int threads)                                                                               \
  FUNCTION(void, clip_by_global_norm, const ClippedTensor* tensors, int64_t count, double max_norm,   \
           double use_norm, int threads)                                                              \
  FUNCTION(void, compare, ComparedType type, Comparison operation, bool inverted, const void* a,      \
           const void* b, uint8_t* y, int64_t count, int threads)                                     \
  FUNCTION(void, convert_numbers, const Conversion& c, int threads)                                   \
  /* the number of the first index that is not in 0 .. limit - 1, or -1 */                            \
  FUNCTION(int64_t, first_outside, const int64_t* indices, int64_t count, int64_t limit)              \
  FUNCTION(void, gather, const Selection& s, int threads)                                             \
  FUNCTION(void, in_top_k, const TopKShape& s, const void* x, const int64_t* tested, uint8_t* y,      \
           int threads)                                                                               \
  /* whether all indices, of 4 or 8 bytes, are in 0 .. limit - 1, or have all bits set if `none` */   \
  FUNCTION(bool, indices_below, const void* indices, int bytes, int64_t count, int64_t limit,         \
           bool none)                                                                                 \
  /* y[i] = clamp((scale * x[i] + offset) >> shift, low, high); see activation/activation.h */        \
  FUNCTION(void, integer_linear_saturate, const int64_t* x, int64_t* y, int64_t count, int32_t scale, \
           int32_t offset, int32_t shift, int64_t low, int64_t high)                                  \
  FUNCTION(void, use_amx, void)                                                                       \
  FUNCTION(bool, uses_amx, void)                                                                      \
  /* whether products of BFloat16 are multiplied as such: faster than float32 */                       \
  FUNCTION(bool, multiplies_bfloat16, void)                                                           \
  /* whether bytes are multiplied four at a time (VNNI) */                                             \
  FUNCTION(bool, multiplies_bytes, void)                                                              \
  /* false, with nothing written, for a zero divisor and for a float beyond int64 */                    \
  FUNCTION(bool, mixed_arithmetic, const MixedArithmetic& m, int threads)                             \
  FUNCTION(void, nearest_neighbors, const NeighborSearch& s, int threads)                             \
  FUNCTION(void, optimizer_step, const OptimizerRule& rule, const OptimizerTensor* tensors,           \
           int64_t count, int threads)                                                                \
  /* GFLOP done by a register-only multiply-add loop, for benchmarks */                               \
  FUNCTION(double, peak_gflop, int64_t iterations)                                                    \
  FUNCTION(void, pool_bytes, const BytePooling& s, int threads)                                       \
  FUNCTION(void, random_fill, const RandomFill& fill, int threads)                                    \
  FUNCTION(void, run_chain, const Chain& chain, int threads)                                          \
  FUNCTION(void, scatter, const Selection& s, Scattering kind, int threads)                           \
  FUNCTION(void, strided_copy, const StridedCopy& copy, int threads)                                  \
  FUNCTION(void, sum_in_tree, const TreeSum& s, int threads)                                          \
  FUNCTION(void, top_k, const TopKShape& s, const void* x, int64_t* indices, int threads)
// clang-format on
