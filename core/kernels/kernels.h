// Everything the bindings can ask of one instruction set: makers of plans, and a few probes.
//
// Each kernel source is compiled once per instruction set, inside `namespace openbnns::OPENBNNS_ISA` (avx512, avx2,
// base); table.cpp gathers its functions into one `Kernels` table, chosen at run time.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/optimizer/optimizer.h"
#include "kernels/random_numbers/random_numbers.h"
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
  bool exact =
      false;  // sums of products as they are, in short chains: no transforms that save multiplications (Winograd)
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

// The L2 norm over the axes `inside` of x, C order: y has the other axes.
struct NormShape {
  static constexpr int kMaxRank = 8;
  int rank = 0;
  int64_t size[kMaxRank] = {};
  bool inside[kMaxRank] = {};
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

// T steps, N samples, I inputs, H hidden, L layers, R directions. Packed float32 tensors in C order: x [T][N][I],
// y [T][N][R][H], states [L][R][N][H]; for every gate (input, forget, candidate, output) the weights of the input
// [layers][R][H][in], in two pieces (in is I in layer 0, R * H above), of the hidden state and of the cell (peepholes)
// [L][R][H][H], and the bias [L][R][H].
enum LstmTensor { kLstmX, kLstmH0, kLstmC0, kLstmY, kLstmHn, kLstmCn, kLstmGates };
enum LstmGateTensor { kLstmW0, kLstmW1, kLstmU, kLstmP, kLstmB, kLstmGateTensors };
constexpr int kLstmTensors = kLstmGates + 4 * kLstmGateTensors;
inline int lstm_gate_tensor(int gate, int tensor) { return kLstmGates + gate * kLstmGateTensors + tensor; }

struct LstmShape {
  int64_t steps, batch, inputs, hidden, layers, directions;
  int64_t first_layers[4];           // of each gate: how many layers have their input weights in the first piece
  bool default_activations = true;   // sigmoid, sigmoid, tanh, sigmoid for the gates, tanh for the cell state
  ActivationSpec activation[5];      // else these
  ActivationSpec slope[5];           // whose derivatives count
  float dropout = 0;                 // between layers
  std::vector<int64_t> batch_sizes;  // samples at every step, the first ones; empty: all
  uint64_t signature = 0;            // tells the cache of one description from that of another
};

// Absent tensors are null. In a backward call gradient[kLstmY], [kLstmHn], [kLstmCn] arrive, the others are results.
struct LstmCall {
  float* tensor[kLstmTensors] = {};
  float* gradient[kLstmTensors] = {};
  uint32_t accumulate = 0;      // bit i: gradient[i] is added to what is there
  float* cache = nullptr;       // cache_bytes() of memory, written forward, read backward; null: none
  uint64_t seed = 0, draw = 0;  // of the dropout, where the cache does not tell
  int threads = 1;
  bool adds(int tensor) const { return accumulate >> tensor & 1; }
};

// The beginning of a cache.
struct LstmCacheHeader {
  static constexpr uint64_t kMagic = 0x31656863614d5453;
  static constexpr int64_t kFloats = 16;
  uint64_t magic, signature, seed, draw;
  uint64_t filled;  // 0: whoever wrote it kept no intermediates, and the forward pass is to be repeated
};

class LstmPlan {
 public:
  virtual ~LstmPlan() = default;
  virtual int64_t cache_bytes() const = 0;
  virtual uint64_t signature() const = 0;
  virtual void forward(const LstmCall& call) = 0;
  virtual void backward(const LstmCall& call) = 0;
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

// Axis k of Y is axis permutation[k] of X, one sample of X having `size`, both in C order. Items of 1, 2, 4 or 8 bytes
// are moved as they are; backward works on floats.
struct PermuteShape {
  std::vector<int64_t> size, permutation;
  int item_bytes = 4;
};

// One sample of X has `size`, that of Y before + size + after along every axis, both in C order. Items of 1, 2, 4 or 8
// bytes are moved as they are; backward works on floats.
struct PaddingShape {
  int mode = 0;  // BNNSPaddingMode
  std::vector<int64_t> size, before, after;
  int item_bytes = 4;
  uint64_t value = 0;  // bits of the constant, in the lowest bytes
};

// From samples of size `in` to samples of size `out`, both in C order. Per axis: low[i] is the cell of output i, in
// ascending order, and t[i] the weight of the next cell; t is empty for copies of one cell, low where the size stays.
// At most two axes have weights.
struct ResizeShape {
  std::vector<int64_t> in, out;
  std::vector<std::vector<int64_t>> low;
  std::vector<std::vector<float>> t;
};

// X: [planes][height][width], Y: [boxes][planes][rows][columns], one run each. Output row r of box b mixes the image
// rows top and top + 1 with the weights 1 - down and down, index b * rows + r; columns likewise. Where a position is
// not inside the image, Y is the extrapolation value and no gradient flows.
struct CropResizeShape {
  int64_t boxes, planes, height, width, rows, columns;
  float extrapolation;
  std::vector<int64_t> top;
  std::vector<float> down;
  std::vector<bool> row_inside;
  std::vector<int64_t> left;
  std::vector<float> across;
  std::vector<bool> column_inside;
};

// A tensor of a contraction: for every axis of one sample, in C order, the number of its index and its size. An index
// that occurs twice reads a diagonal; an axis of size 1 is repeated.
struct ContractionTensor {
  std::vector<int> index;
  std::vector<int64_t> size;
  bool batched = true;  // one sample per batch entry, or one copy for all
};

// y = alpha * sum over the indices that y lacks of x * w, plus what y held. Slots X, Y, DX, DY, and W and DW of the
// second tensor, which may be batched as well.
struct ContractionShape {
  std::vector<ContractionTensor> left;  // x, and w or, with `self`, x once more under other indices
  bool self = false;
  ContractionTensor output;
  float alpha = 1;
  bool adds_to_output = false;
};

// x, y: [channels][height][width]; a vector has height and width 1. Slots X, Y, DX, DY, W and DW (gamma), B and DB
// (beta), and the two below. Formulas and sets of statistics: kernels/normalization/normalization.h.
enum NormalizationKind { kBatchNorm = 2, kInstanceNorm = 3, kLayerNorm = 4, kGroupNorm = 5 };  // as in BNNSFilterType
constexpr int kMovingMean = 8, kMovingVariance = 9;                                            // [channels]

struct NormalizationShape {
  int kind = kBatchNorm;
  int64_t channels = 0, height = 1, width = 1;
  int axis = 0;        // layer: the first of the axes C, H, W that share their statistics
  int64_t groups = 1;  // group: how many groups the channels form
  float epsilon = 0, momentum = 0;
  bool torch_moving = false;      // momentum weighs the current statistics, the moving variance is the unbiased one
  bool slope_from_input = false;  // the activation is differentiated from z instead of from y
  // layer: channels, height, width of beta and gamma, each that of x or 1; the others have one value per channel
  int64_t beta_size[3] = {}, gamma_size[3] = {};
};

// A chain: the plan of a first layer, whose output is the input of a normalization. Slots 0 to 7 are those of the first
// layer (Slot or ArithmeticSlot), Y or OUT being the output of the chain and DY or DOUT its gradient.
enum FusedSlot {
  kFusedBeta = 8,
  kFusedGamma,
  kFusedBetaGradient,
  kFusedGammaGradient,
  kFusedMovingMean,
  kFusedMovingVariance
};
struct FusedShape {
  bool arithmetic = false;  // the slots of the first layer are those of arithmetic
  NormalizationShape normalization;
};

// Multihead attention: docs/filters/attention.md has the formulas. T target, S source, D model, K key, V value, H
// heads. q, output and their gradients: [T][D]; k, v: [S][D]; canonical parameters: wq, wk [H][K][D], wv [H][V][D], wo
// [H][V][D], biases without the last axis, the output's without the others. key mask: bytes [S], nonzero is masked.
// Added scores: [T][S] of floats or bytes (nonzero adds -infinity), heads extra[kAddedHeadStride] elements apart.
// The thirteen gradients come in the order of their tensors.
enum AttentionSlot {
  kQuery,
  kKey,
  kValue,
  kFirstParameter,  // wq, wk, wv, wo, pq, pk, pv, po, bk, bv
  kOutput = kFirstParameter + 10,
  kOutputGradient,
  kQueryGradient,
  kKeyGradient,
  kValueGradient,
  kFirstParameterGradient,
  kKeyMask = kFirstParameterGradient + 10,
  kAdded,
  kAttentionCache,
  kAttentionWorkspace
};
constexpr int kAttentionParameters = 10;
// Numbers of a Call. A cache notes its draw; without one, the call names it.
enum AttentionExtra { kAttentionOptions, kAddedHeadStride, kDropoutDraw };
enum AttentionOption { kCanonicalParameters = 1, kAddedIsBoolean = 2, kNoDropout = 4 };

// Where element (h, i, d) of a parameter lies: h * steps[0] + i * steps[1] + d * steps[2].
struct ParameterSteps {
  int64_t steps[3];
};

struct AttentionShape {
  int64_t target, source, model, key, value, heads;
  bool attention_bias = false, zero_row = false;
  bool masked_rows_are_zero = false;  // instead of NaN
  float dropout = 0;                  // 0: none
  uint64_t seed = 0;
  uint64_t token = 0;  // tells the caches of one filter from those of others
  // As the caller stores them, unless the option kCanonicalParameters says otherwise.
  ParameterSteps stored[kAttentionParameters] = {}, gradient[kAttentionParameters] = {};
};

// The first bytes of a cache; the rest is a matter of the engine that wrote it.
struct AttentionCacheHeader {
  static constexpr uint64_t kMark = 0x6e6f69746e657474;
  static constexpr int64_t kFloats = 16;  // of the cache, per sample
  uint64_t mark, token, batch, draw, engine;
};
constexpr uint64_t kNativeEngine = 1;

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
  // y[i] = clamp((scale * x[i] + offset) >> shift, low, high); see kernels/activation/activation.h
  void (*integer_linear_saturate)(const int64_t* x, int64_t* y, int64_t count, int32_t scale, int32_t offset,
                                  int32_t shift, int64_t low, int64_t high);
  std::unique_ptr<Plan> (*make_pooling)(const PoolingShape&, const ActivationSpec&);
  std::unique_ptr<Plan> (*make_loss)(const LossShape&);
  std::unique_ptr<Plan> (*make_norm)(const NormShape&);                           // X -> Y; X, Y, DY -> DX
  std::unique_ptr<Plan> (*make_clip_by_norm)(const NormShape&, double max_norm);  // X -> Y, also in place
  void (*optimizer_step)(const OptimizerRule&, const OptimizerTensor*, int64_t count, int threads);
  void (*clip_by_global_norm)(const ClippedTensor*, int64_t count, double max_norm, double use_norm, int threads);
  void (*random_fill)(const RandomFill&, int threads);
  std::unique_ptr<Plan> (*make_embedding)(const EmbeddingShape&);
  std::unique_ptr<LstmPlan> (*make_lstm)(const LstmShape&);
  std::unique_ptr<Plan> (*make_quantization)(const QuantizationShape&);
  std::unique_ptr<Plan> (*make_dropout)(const DropoutShape&);
  std::unique_ptr<Plan> (*make_permute)(const PermuteShape&);
  std::unique_ptr<Plan> (*make_padding)(const PaddingShape&);
  std::unique_ptr<Plan> (*make_resize)(const ResizeShape&);
  std::unique_ptr<Plan> (*make_crop_resize)(const CropResizeShape&);
  std::unique_ptr<Plan> (*make_contraction)(const ContractionShape&);
  std::unique_ptr<Plan> (*make_normalization)(const NormalizationShape&, const ActivationSpec&);
  // The first layer has the Identity activation in training; the activation is that of the normalization.
  std::unique_ptr<Plan> (*make_fused)(std::shared_ptr<Plan> first, const FusedShape&, const ActivationSpec&);
  std::unique_ptr<Plan> (*make_attention)(const AttentionShape&);
};

const Kernels& kernels_base();
#if defined(__x86_64__)
const Kernels& kernels_avx2();
const Kernels& kernels_avx512();
#endif
// Best for this CPU, or the one OPENBNNS_ISA (avx512, avx2, base) names if the CPU has it.
const Kernels& kernels();

}  // namespace openbnns
