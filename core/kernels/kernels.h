// Everything the bindings can ask of one instruction set: makers of plans, and a few probes.
//
// Each kernel source is compiled once per instruction set, inside `namespace openbnns::OPENBNNS_ISA` (avx512, avx2,
// base); table.cpp gathers its functions into one `Kernels` table, chosen at run time.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/plan.h"

namespace openbnns {

// Numbers of the functions are those of BNNSActivationFunction.
struct ActivationSpec {
  int function = 0;
  float alpha = 0, beta = 0;
  uint64_t seed = 0;  // of the functions that draw random numbers (Gumbel, GumbelMax)
};

struct FullyConnectedShape {
  int64_t inputs, outputs;  // x: [inputs], w: [outputs][inputs], b: [outputs], y: [outputs]
};

// x: [in_channels][in_height][in_width], y: [out_channels][out_height][out_width],
// w: [out_channels][in_channels / groups][kernel_height][kernel_width], b: [out_channels].
// Output cell (oy, ox) meets input cell (oy * stride_y + ky * dilation_y - pad_up, likewise x); cells outside the
// input are zero, so padding below and to the right need not be named.
struct ConvolutionShape {
  int64_t in_channels, in_height, in_width;
  int64_t out_channels, out_height, out_width;
  int64_t kernel_height, kernel_width;
  int64_t stride_y, stride_x, dilation_y, dilation_x, pad_up, pad_left, groups;
};

// One sample seen as [outer][length][inner]; axis-wise functions (softmax, ...) run along `length`, elementwise
// ones over everything. `channels` > 0 (PReLU per channel): the sample is [channels][outer * length * inner /
// channels].
struct ActivationShape {
  int64_t outer, length, inner, channels;
};

// Operand roles and broadcasting, resolved by the filter: every operand is described by its element strides over the
// common output shape (0 where it is repeated). The batch is axis 0 when `batched`, with the Call's batch stride.
struct ArithmeticShape {
  static constexpr int kMaxRank = 8;
  int function = 0;  // BNNSArithmeticFunction
  int operands = 1;  // 1, 2 or 3
  int rank = 0;      // of one sample, C order
  int64_t size[kMaxRank] = {};
  int64_t operand_size[3][kMaxRank] = {};  // equal to size or 1, per axis
  bool batched[3] = {};                    // Sample (own batch axis) against Parameter / Constant (one copy)
};

// x: [channels][in_height][in_width], y: [channels][out_height][out_width], b: [channels]. Windows as in a convolution.
// Slot kPoolingIndices: one unsigned integer per cell (of the output for Max, of the input for UnMax), the flat
// position row * width + column in the larger plane of the same channel; all bits set where Max has no winner.
struct PoolingShape {
  int function;  // BNNSPoolingFunction
  int64_t channels, in_height, in_width, out_height, out_width;
  int64_t kernel_height, kernel_width;
  int64_t stride_y, stride_x, dilation_y, dilation_x, pad_up, pad_left;
  bool padding_wins = false;  // Max: padded cells take part as zeros instead of being left out
  bool wide_indices = true;   // uint64 instead of uint32
};
constexpr int kPoolingIndices = 8;

// x, labels and dx: [width]; weights: none, one for everything (stride 0), one per sample (stride 1) or one per element
// (stride width); out: one value, or with reduction None one per sample or per element, packed. In backward the
// upstream gradient has the form of out. Formulas: docs/filters/loss.md.
enum LossSlot {
  kLossInput,
  kLossLabels,
  kLossWeights,
  kLossOutput,
  kLossInputGradient,
  kLossOutputGradient,
  kLossAnchors
};

// One sample is [cells][anchors][box_size], a box being x, y, w, h, confidence, classes; slot kLossAnchors:
// [anchors][2].
struct YoloShape {
  int64_t cells = 0, anchors = 0, box_size = 0;
  float scale_xy = 0, scale_wh = 0, scale_object = 0, scale_no_object = 0, scale_classification = 0;
  float object_minimum_iou = 0, no_object_maximum_iou = 0;
  bool rescore = false;      // the confidence target of an object is its IOU instead of 1
  bool raw_centres = false;  // x, y are compared as they are instead of as sigmoids
};

struct LossShape {
  int function = 0;   // BNNSLossFunction
  int reduction = 0;  // BNNSLossReductionFunction
  int64_t width = 0;
  float label_smooth = 0, huber_delta = 1, log_epsilon = 0;
  bool divide_by_classes = false;      // softmax cross entropy has a factor 1 / width
  bool plain_cosine_gradient = false;  // the gradient of the cosine distance keeps its radial part
  YoloShape yolo;
};

// Slots of one-input filters; x holds indices instead of floats: [positions], unsigned, all below `entries`.
// w and dw: [entries][item], y and dy: [positions][item]; with item_major [item][entries] and [item][positions].
struct EmbeddingShape {
  int64_t positions, entries, item;
  int index_bytes;  // 4 or 8
  bool item_major = false;
  int64_t padding = -1;                // entry that reads as zeros and has no gradient; -1: none
  float max_norm = 0;                  // entries with a larger p-norm are scaled down to it; 0: none are
  float norm_type = 2;                 // p, infinity included
  bool by_frequency = false;           // the gradient of an entry is divided by the number of its lookups
  bool renormalizes_in_place = false;  // max_norm scales the entries of w that are looked up, not what is read
};

enum class NumberType { kInt8, kUInt8, kInt16, kUInt16, kInt32, kUInt32, kInt64, kUInt64, kFloat32, kFloat64 };

// One sample is [outer][length][inner]; slots W and B hold scale and bias as floats, each null, or one value (length
// 1), one per index of `length` (both or none), or with `per_sample` (length 1) one per sample.
struct QuantizationShape {
  bool dequantizes = false;
  NumberType from = NumberType::kFloat32, to = NumberType::kInt8;  // of X and Y; Y is no Float64
  int64_t outer = 1, length = 1, inner = 1;
  bool per_sample = false;
  double low = 0, high = 0;  // bounds of an integer Y, which may be narrower than its type
};

// One sample has `size` in C order; along axes that are `shared`, and along the batch with `batch_shared`, one decision
// holds for all elements. Slot W: two uint64, forward runs so far and the batch of the latest one.
struct DropoutShape {
  float rate = 0;
  uint64_t seed = 0;
  std::vector<int64_t> size;
  std::vector<bool> shared;
  bool batch_shared = false;
};

struct Kernels {
  const char* name;
  std::unique_ptr<Plan> (*make_fully_connected)(const FullyConnectedShape&, const ActivationSpec&);
  std::unique_ptr<Plan> (*make_convolution)(const ConvolutionShape&, const ActivationSpec&);
  // The adjoint of the convolution `shape` with the roles of its two images exchanged: the plan's X is that
  // convolution's output image, Y its input image, W keeps that convolution's form, B has in_channels entries.
  std::unique_ptr<Plan> (*make_transposed_convolution)(const ConvolutionShape&, const ActivationSpec&);
  std::unique_ptr<Plan> (*make_activation)(const ActivationShape&, const ActivationSpec&);
  std::unique_ptr<Plan> (*make_arithmetic)(const ArithmeticShape&, const ActivationSpec&);
  double (*peak_gflop)(int64_t iterations);  // GFLOP done by a register-only multiply-add loop, for benchmarks
  // y[i] = clamp((scale * x[i] + offset) >> shift, low, high); see kernels/activation.h
  void (*integer_linear_saturate)(const int64_t* x, int64_t* y, int64_t count, int32_t scale, int32_t offset,
                                  int32_t shift, int64_t low, int64_t high);
  std::unique_ptr<Plan> (*make_pooling)(const PoolingShape&, const ActivationSpec&);
  std::unique_ptr<Plan> (*make_loss)(const LossShape&);
  std::unique_ptr<Plan> (*make_embedding)(const EmbeddingShape&);
  std::unique_ptr<Plan> (*make_quantization)(const QuantizationShape&);
  std::unique_ptr<Plan> (*make_dropout)(const DropoutShape&);
};

const Kernels& kernels_base();
#if defined(__x86_64__)
const Kernels& kernels_avx2();
const Kernels& kernels_avx512();
#endif
// Best for this CPU, or the one OPENBNNS_ISA (avx512, avx2, base) names if the CPU has it.
const Kernels& kernels();

}  // namespace openbnns
