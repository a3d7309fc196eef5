/*
 * OpenBNNS: the C interface of classic BNNS for Linux.
 *
 *     cc program.c $(openbnns c-flags)
 *
 * builds a program that includes this file, <Accelerate/Accelerate.h> or <vecLib/BNNS/bnns.h>. Names, numbers and
 * layouts are those of BNNS; the comments are ours.
 *
 * A filter is one layer: create it from a description, apply it forward and backward to memory that you own, destroy
 * it. Creation returns NULL for a description that is invalid or not supported; the other calls return a negative
 * number. On failure no output has changed, and openbnns_last_error() says what was wrong: the function, the field or
 * argument, what was expected, what was passed, and what to do. OPENBNNS_LOG=1 in the environment prints every such
 * message on stderr.
 *
 * Shapes are written in C order, the last axis fastest: x [N][C][H][W]. The order of a descriptor's size[] depends on
 * its layout and is mostly the reverse: {W, H, C} for an image. In formulas x is the input, y the output, f the
 * activation, z the value before it, and dx, dy, dw, db are gradients; dz = f'(z) dy.
 *
 * These rules apply to all calls:
 *
 * - Strides count elements, not bytes. A batch stride is the distance from one sample to the next; 0 stands for the
 *   packed size of a sample.
 * - A gradient descriptor describes one sample (or the parameter) and points to the first. Its flags say whether the
 *   gradient overwrites the buffer or is added to it. A NULL gradient is not computed. Gradients of parameters are
 *   summed over the batch.
 * - A call with a NULL filter, or with one that has been destroyed, fails; destroying NULL does nothing.
 * - filter_params may be NULL everywhere: no flags, threads chosen by the library, memory from posix_memalign.
 * - Calls may be made from any thread. Several threads may apply a filter at once, unless it keeps something from its
 *   forward call for its backward call: normalization in training, fused filters in training, dropout.
 * - A buffer that is smaller than its descriptor claims cannot be detected.
 */

/* Written by tools/make_header.py: edit its facts and text, not this file. */

#ifndef OPENBNNS_BNNS_H
#define OPENBNNS_BNNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h> /* ssize_t */

/* Enums have 32 bits, and are distinct types where the language allows it: in C++, in C23, with Clang. */
#if defined(__cplusplus)
#define OPENBNNS_ENUM(name) enum name : uint32_t
#elif defined(__clang__) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 202311L)
#define OPENBNNS_ENUM(name) \
    enum name : uint32_t;   \
    typedef enum name name; \
    enum name : uint32_t
#else
#define OPENBNNS_ENUM(name) \
    typedef uint32_t name;  \
    enum
#endif

/* Pointers that must not be NULL, which Swift imports as other types than those that may. */
#if defined(__clang__)
#define OPENBNNS_NONNULL _Nonnull
#define OPENBNNS_NULLABLE _Nullable
#else
#define OPENBNNS_NONNULL
#define OPENBNNS_NULLABLE
#endif

#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wnullability-completeness" /* as in Apple's headers, some pointers do not say */
#pragma clang diagnostic ignored "-Wnullability-extension"
#if !defined(__cplusplus)
#pragma clang diagnostic ignored "-Wpedantic" /* enums with a fixed type, as Apple's headers have them */
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define BNNS_MAX_TENSOR_DIMENSION 8 /* axes of an array at most */

/** A filter; NULL stands for a failed creation. */
typedef void *BNNSFilter;

/** A random generator. */
typedef void *BNNSRandomGenerator;

/** A store of points for nearest neighbours. */
typedef void *BNNSNearestNeighbors;

/** A graph that is being described. This name is ours. */
typedef void *openbnns_graph_builder;

/** Allocates memory as posix_memalign does; 0 is success. */
typedef int (*BNNSAlloc)(void **memptr, size_t alignment, size_t size);
/** Frees what a BNNSAlloc allocated. */
typedef void (*BNNSFree)(void *ptr);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Errors, version and settings of the library
 *
 * These names are ours; Apple's library does not have them.
 */

/**
 * Why the latest call of this thread failed, in UTF-8; NULL if it succeeded, or if there was none. Calls that release
 * something do not change it, so that cleaning up does not hide the reason. The text stays valid until the next call of
 * this thread.
 */
const char *openbnns_last_error(void);

/** The version of the library, such as "0.1.0". */
const char *openbnns_version(void);

/**
 * Choose the behaviour where BNNS's documentation leaves it open: "documented" (the default), "macos15" (as observed on
 * macOS 15), or names of switches separated by commas. The choice applies to the whole process and to filters that are
 * created afterwards.
 *
 * Returns 0, or a negative number, with nothing changed, if a name is not known.
 */
int openbnns_set_compat(const char *names);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Arrays
 *
 * An array has a layout, which fixes its rank and the meaning of size[], and an element type. stride[k] of 0 stands for
 * a packed axis: stride[0] is then 1, and each further stride covers the axes before it. Strides never decrease from
 * one axis to the next, so that stride[0] always belongs to the fastest axis. In the layouts named FirstMajor, size[]
 * lists the slowest axis first, so that the two arrays run in opposite directions: size {2, 3, 4} means [2][3][4],
 * packed with stride {1, 4, 12}.
 *
 * An element of an integer type stands for data_scale * element + data_bias; a data_scale of 0 acts as 1. An element of
 * an indexed type stands for an entry of table_data.
 */

/** Element type of an array: class bit plus width in bits. */
OPENBNNS_ENUM(BNNSDataType) {
    BNNSDataTypeFloatBit = 0x10000, /**< class of the floating-point types; the other bits are the width */
    BNNSDataTypeFloat16 = 0x10010,
    BNNSDataTypeFloat32 = 0x10020,
    BNNSDataTypeBFloat16 = 0x18010,
    BNNSDataTypeIntBit = 0x20000, /**< class of the signed integers */
    BNNSDataTypeInt1 = 0x20001, /**< narrower than a byte: one byte holds several elements */
    BNNSDataTypeInt2 = 0x20002,
    BNNSDataTypeInt4 = 0x20004,
    BNNSDataTypeInt8 = 0x20008,
    BNNSDataTypeInt16 = 0x20010,
    BNNSDataTypeInt32 = 0x20020,
    BNNSDataTypeInt64 = 0x20040,
    BNNSDataTypeUIntBit = 0x40000, /**< class of the unsigned integers */
    BNNSDataTypeUInt1 = 0x40001,
    BNNSDataTypeUInt2 = 0x40002,
    BNNSDataTypeUInt3 = 0x40003,
    BNNSDataTypeUInt4 = 0x40004,
    BNNSDataTypeUInt6 = 0x40006,
    BNNSDataTypeUInt8 = 0x40008,
    BNNSDataTypeUInt16 = 0x40010,
    BNNSDataTypeUInt32 = 0x40020,
    BNNSDataTypeUInt64 = 0x40040,
    BNNSDataTypeIndexedBit = 0x80000, /**< class of the indices into table_data */
    BNNSDataTypeIndexed1 = 0x80001,
    BNNSDataTypeIndexed2 = 0x80002,
    BNNSDataTypeIndexed4 = 0x80004,
    BNNSDataTypeIndexed8 = 0x80008,
    BNNSDataTypeMiscellaneousBit = 0x100000, /**< class of everything else */
    BNNSDataTypeBoolean = 0x100008, /**< one byte, 0 or 1 */
};

/** Rank of an array and the meaning of its axes; the rank is layout >> 16. */
OPENBNNS_ENUM(BNNSDataLayout) {
    BNNSDataLayoutVector = 0x10000, /**< size {n} */
    BNNSDataLayout1DLastMajor = 0x18000,
    BNNSDataLayout1DFirstMajor = 0x18001,
    BNNSDataLayoutRowMajorMatrix = 0x20000, /**< size {columns, rows}: [rows][columns] */
    BNNSDataLayoutColumnMajorMatrix = 0x20001, /**< size {rows, columns}: [columns][rows] */
    BNNSDataLayout2DLastMajor = 0x28000, /**< size {I, J}: [J][I] */
    BNNSDataLayout2DFirstMajor = 0x28001, /**< size {I, J}: [I][J] */
    BNNSDataLayoutFullyConnectedSparse = 0x21001, /**< weights packed by BNNSNDArrayFullyConnectedSparsify... */
    BNNSDataLayoutImageCHW = 0x30000, /**< size {W, H, C}: [C][H][W] */
    BNNSDataLayoutSNE = 0x30001, /**< size {E, N, S}: [S][N][E] */
    BNNSDataLayoutNSE = 0x30002, /**< size {E, S, N}: [N][S][E] */
    BNNSDataLayoutMHA_DHK = 0x30003, /**< size {D, K, H}: [K][H][D] */
    BNNSDataLayout3DLastMajor = 0x38000, /**< size {I, J, K}: [K][J][I]; the further ones likewise */
    BNNSDataLayout3DFirstMajor = 0x38001, /**< size {I, J, K}: [I][J][K]; the further ones likewise */
    BNNSDataLayoutConvolutionWeightsOIHW = 0x40000, /**< size {KW, KH, I, O}: [O][I][KH][KW] */
    BNNSDataLayoutConvolutionWeightsOIHrWr = 0x40001, /**< the same, kernels rotated by 180 degrees */
    BNNSDataLayoutConvolutionWeightsIOHrWr = 0x40002, /**< size {KW, KH, O, I}: [I][O][KH][KW], rotated */
    BNNSDataLayoutConvolutionWeightsOIHW_Pack32 = 0x40010, /**< [ceil(O / 32)][I][KH][KW][32], aligned to 128 bytes */
    BNNSDataLayout4DLastMajor = 0x48000,
    BNNSDataLayout4DFirstMajor = 0x48001,
    BNNSDataLayout5DLastMajor = 0x58000,
    BNNSDataLayout5DFirstMajor = 0x58001,
    BNNSDataLayout6DLastMajor = 0x68000,
    BNNSDataLayout6DFirstMajor = 0x68001,
    BNNSDataLayout7DLastMajor = 0x78000,
    BNNSDataLayout7DFirstMajor = 0x78001,
    BNNSDataLayout8DLastMajor = 0x88000,
    BNNSDataLayout8DFirstMajor = 0x88001,
};

/** Treatment of a gradient's buffer: overwritten or added to. */
OPENBNNS_ENUM(BNNSNDArrayFlags) {
    BNNSNDArrayFlagBackpropSet = 0, /**< the gradient overwrites the buffer */
    BNNSNDArrayFlagBackpropAccumulate = 1, /**< the gradient is added to what the buffer holds */
};

/** Shape, strides, element type and (optionally) storage of an array of rank 1 to 8. */
typedef struct BNNSNDArrayDescriptor {
    BNNSNDArrayFlags flags; /**< for gradient outputs only: overwrite (0) or add into (1) the buffer */
    BNNSDataLayout layout; /**< rank and axis interpretation */
    size_t size[8]; /**< extent per axis, in the order the layout prescribes; entries past the rank are unused */
    size_t stride[8]; /**< element step per axis, fastest axis first; 0 means packed */
    void *OPENBNNS_NULLABLE data; /**< storage; NULL when data is supplied at apply time or when the item is absent */
    BNNSDataType data_type; /**< element type of data */
    void *OPENBNNS_NULLABLE table_data; /**< lookup table for Indexed types */
    BNNSDataType table_data_type; /**< element type of the lookup table */
    float data_scale; /**< integer-to-float multiplier for Int/UInt types; a stored 0 acts as 1 */
    float data_bias; /**< integer-to-float addend for Int/UInt types */
} BNNSNDArrayDescriptor;

/** Shape, strides, element type and storage of an argument of a graph. */
typedef struct BNNSTensor {
    BNNSDataType data_type; /**< element type */
    uint8_t rank; /**< number of axes */
    ssize_t shape[8]; /**< extent per axis, slowest first; negative means dynamic */
    ssize_t stride[8]; /**< element step per axis, same order as shape; 0 is a literal zero here */
    void *data; /**< storage */
    size_t data_size_in_bytes; /**< size of storage, used for bounds checks */
    /** name of the argument, set by the library; of an initial state, the name that says which */
    const char *OPENBNNS_NULLABLE name;
} BNNSTensor;

/**
 * Bytes from the first to the last element of an array, whose data must not be NULL.
 *
 * Returns the number, or 0 on failure.
 */
size_t BNNSNDArrayGetDataSize(const BNNSNDArrayDescriptor *OPENBNNS_NONNULL array);

/**
 * Bytes from the first to the last element of a tensor. Fails for a negative size, which stands for one that is not
 * known yet.
 *
 * Returns the number, or SIZE_MAX on failure.
 */
size_t BNNSTensorGetAllocationSize(const BNNSTensor *OPENBNNS_NONNULL tensor);

/**
 * Number of axes of a layout, which is layout >> 16.
 *
 * Returns the number, or SIZE_MAX on failure.
 */
size_t BNNSDataLayoutGetRank(BNNSDataLayout layout);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Filters
 *
 * With BNNSFlagsUseClientPtr a filter reads weights, bias and the like from the caller's memory at each call: that
 * memory must live as long as the filter, and an optimizer step on it takes effect at once. Without the flag, creation
 * copies them. alloc_memory and free_memory are both given or both NULL.
 */

/** Options of a filter, for BNNSFilterParameters.flags. */
OPENBNNS_ENUM(BNNSFlags) {
    BNNSFlagsUseClientPtr = 0x1, /**< read parameters from the caller's memory at each call */
};

/** Kind of a filter: member of a fused filter, or which normalization to create. */
OPENBNNS_ENUM(BNNSFilterType) {
    BNNSConvolution = 0,
    BNNSFullyConnected = 1,
    BNNSBatchNorm = 2,
    BNNSInstanceNorm = 3,
    BNNSLayerNorm = 4,
    BNNSGroupNorm = 5,
    BNNSTransposedConvolution = 6,
    BNNSQuantization = 7,
    BNNSArithmetic = 8,
};

/** Runtime options accepted by most calls; NULL means defaults. */
typedef struct BNNSFilterParameters {
    uint32_t flags; /**< mask of BNNSFlags */
    size_t n_threads; /**< worker threads; 0 lets the library choose */
    BNNSAlloc OPENBNNS_NULLABLE alloc_memory; /**< allocator; NULL means posix_memalign */
    BNNSFree OPENBNNS_NULLABLE free_memory; /**< matching deallocator; NULL means free */
} BNNSFilterParameters;

/** Release a filter and everything it owns. NULL does nothing. */
void BNNSFilterDestroy(BNNSFilter filter);

/**
 * Run a filter with one input on one sample: i_desc and o_desc of the layer describe in and out. Filters that have
 * their own calls (normalization, arithmetic, loss, fused, attention) are refused here.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSFilterApply(BNNSFilter filter, const void *in, void *out);

/**
 * Run a filter with one input on a batch: sample n starts at in + n * in_stride and out + n * out_stride elements.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSFilterApplyBatch(BNNSFilter filter, size_t batch_size, const void *in, size_t in_stride, void *out,
                         size_t out_stride);

/**
 * Run a filter with two inputs (matrix product, tensor contraction) on one pair of samples.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSFilterApplyTwoInput(BNNSFilter filter, const void *inA, const void *inB, void *out);

/**
 * Run a filter with two inputs on a batch of pairs, each tensor with its own batch stride.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSFilterApplyTwoInputBatch(BNNSFilter filter, size_t batch_size, const void *inA, size_t inA_stride,
                                 const void *inB, size_t inB_stride, void *out, size_t out_stride);

/**
 * Gradients of a filter with one input. out_delta holds dy; in_delta, weights_delta and bias_delta receive dx, dw and
 * db, and NULL skips one. weights_delta has the layout that the weights had at creation.
 *
 * in may be NULL unless the weights gradient, the layer (pooling) or the activation needs it. out may be NULL if no
 * activation is fused; otherwise f' is computed from it. Training is Float32 only.
 *
 * weights_delta is the gradient of alpha for an activation layer, of the dictionary for an embedding, of the weights
 * tensor for a reduction, and of the operand that is a weight for a product or contraction.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSFilterApplyBackwardBatch(BNNSFilter filter, size_t batch_size, const void *in, size_t in_stride,
                                 BNNSNDArrayDescriptor *in_delta, size_t in_delta_stride, const void *out,
                                 size_t out_stride, const BNNSNDArrayDescriptor *OPENBNNS_NONNULL out_delta,
                                 size_t out_delta_stride, BNNSNDArrayDescriptor *weights_delta,
                                 BNNSNDArrayDescriptor *bias_delta);

/**
 * Gradients of a filter with two inputs: out_delta holds dy; inA_delta and inB_delta receive the gradients of A and B,
 * and NULL skips one. inA may be NULL if the gradient of B is not wanted, inB if that of A is not. out, weights_delta
 * and bias_delta have no effect and may be NULL.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSFilterApplyBackwardTwoInputBatch(BNNSFilter filter, size_t batch_size, const void *inA, size_t inA_stride,
                                         BNNSNDArrayDescriptor *inA_delta, size_t inA_delta_stride, const void *inB,
                                         size_t inB_stride, BNNSNDArrayDescriptor *inB_delta, size_t inB_delta_stride,
                                         const void *out, size_t out_stride,
                                         const BNNSNDArrayDescriptor *OPENBNNS_NONNULL out_delta,
                                         size_t out_delta_stride, BNNSNDArrayDescriptor *weights_delta,
                                         BNNSNDArrayDescriptor *bias_delta);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Activations
 *
 * As a separate layer, or as the last step of another layer. alpha (a) and beta (b) are the parameters of the function.
 *
 *     y = f(x),  dx = f'(x) dy;  softmax: dx = y (dy - sum dy y);  log-softmax: dx = dy - exp(y) sum dy
 */

/** Activation applied to a result, alone or fused into another layer. */
OPENBNNS_ENUM(BNNSActivationFunction) {
    BNNSActivationFunctionIdentity = 0, /**< x */
    BNNSActivationFunctionRectifiedLinear = 1, /**< max(x, 0) */
    BNNSActivationFunctionLeakyRectifiedLinear = 2, /**< x < 0 ? a x : x */
    BNNSActivationFunctionSigmoid = 3, /**< 1 / (1 + exp(-x)) */
    BNNSActivationFunctionTanh = 4, /**< tanh(x) */
    BNNSActivationFunctionScaledTanh = 5, /**< a tanh(b x) */
    BNNSActivationFunctionAbs = 6, /**< |x| */
    BNNSActivationFunctionLinear = 7, /**< a x */
    BNNSActivationFunctionClamp = 8, /**< min(max(x, a), b) */
    BNNSActivationFunctionIntegerLinearSaturate = 9, /**< saturate((iscale x + ioffset) >> ishift) */
    BNNSActivationFunctionIntegerLinearSaturatePerChannel = 10, /**< the same, numbers of each channel */
    BNNSActivationFunctionSoftmax = 11, /**< exp(x) / sum exp(x) */
    BNNSActivationFunctionGELUApproximation = 12, /**< 0.5 x (1 + tanh(a (x + b x^3))) */
    BNNSActivationFunctionGumbel = 13, /**< -log(-log(a U + b) + b), U uniform on (0, 1); x is not used */
    BNNSActivationFunctionGumbelMax = 14, /**< max of x - log(-log(a U + b) + b) */
    BNNSActivationFunctionHardSigmoid = 15, /**< max(0, min(1, a x + b)) */
    BNNSActivationFunctionSoftplus = 16, /**< a log(1 + exp(b x)) */
    BNNSActivationFunctionSoftsign = 17, /**< x / (1 + |x|) */
    BNNSActivationFunctionELU = 18, /**< x < 0 ? a (exp(x) - 1) : x */
    BNNSActivationFunctionClampedLeakyRectifiedLinear = 19, /**< min(x < 0 ? a x : x, b) */
    BNNSActivationFunctionLinearWithBias = 20, /**< a x + b */
    BNNSActivationFunctionLogSoftmax = 21, /**< x - log sum exp(x) */
    BNNSActivationFunctionLogSigmoid = 22, /**< log(1 / (1 + exp(-x))) */
    BNNSActivationFunctionSELU = 23, /**< 1.0507 (x < 0 ? 1.6733 (exp(x) - 1) : x) */
    BNNSActivationFunctionCELU = 24, /**< x < 0 ? a (exp(x / a) - 1) : x */
    BNNSActivationFunctionHardShrink = 25, /**< |x| < |a| ? 0 : x */
    BNNSActivationFunctionSoftShrink = 26, /**< |x| < |a| ? 0 : x - copysign(a, x) */
    BNNSActivationFunctionTanhShrink = 27, /**< x - tanh(x) */
    BNNSActivationFunctionThreshold = 28, /**< x > a ? x : b */
    BNNSActivationFunctionPReLUPerChannel = 29, /**< x < 0 ? a_c x : x, a of each channel c; ImageCHW only */
    BNNSActivationFunctionGELUApproximation2 = 30, /**< x min(max(x + 3, 0), 6) / 6 */
    BNNSActivationFunctionSiLU = 31, /**< x / (1 + exp(-x)) */
    BNNSActivationFunctionReLU6 = 32, /**< min(max(x, 0), 6) */
    BNNSActivationFunctionErf = 33, /**< erf(x) */
    BNNSActivationFunctionGELU = 34, /**< 0.5 x (1 + erf(x / sqrt(2))) */
    BNNSActivationFunctionGELUApproximationSigmoid = 35, /**< x / (1 + exp(-1.702 x)) */
    BNNSActivationFunctionHardSwish = 30, /**< another name for GELUApproximation2 */
};

/** Internal array of a filter that BNNSGetPointer gives access to. */
OPENBNNS_ENUM(BNNSPointerSpecifier) {
    BNNSPointerSpecifierAlpha = 0,
    BNNSPointerSpecifierBeta = 1,
};

/**
 * Activation selector plus its scalar and integer-requantization parameters; embedded by value in many layer structs.
 */
typedef struct BNNSActivation {
    BNNSActivationFunction function; /**< which activation is applied */
    float alpha; /**< first parameter; role depends on function */
    float beta; /**< second parameter; role depends on function */
    int32_t iscale; /**< multiplier used only by IntegerLinearSaturate */
    int32_t ioffset; /**< addend used only by IntegerLinearSaturate */
    int32_t ishift; /**< arithmetic right shift used only by IntegerLinearSaturate */
    /** per-channel multipliers for IntegerLinearSaturatePerChannel */
    const int32_t *OPENBNNS_NULLABLE iscale_per_channel;
    /** per-channel addends for IntegerLinearSaturatePerChannel */
    const int32_t *OPENBNNS_NULLABLE ioffset_per_channel;
    const int32_t *OPENBNNS_NULLABLE ishift_per_channel; /**< per-channel shifts for IntegerLinearSaturatePerChannel */
} BNNSActivation;

/** Standalone activation, or element-type conversion when the function is Identity and the types differ. */
typedef struct BNNSLayerParametersActivation {
    BNNSNDArrayDescriptor i_desc; /**< input */
    BNNSNDArrayDescriptor o_desc; /**< output with the same element count */
    BNNSActivation activation; /**< function and parameters */
    /** bit mask of axes for axis-wise functions; bit d is size[d], bit rank is the batch axis, 0 means axis 0 */
    uint32_t axis_flags;
} BNNSLayerParametersActivation;

/**
 * Build an activation filter: y = f(x), input and output of the same sizes. With Identity and different element types
 * it converts. Softmax, log-softmax and GumbelMax run along the axes of axis_flags. Apply it with BNNSFilterApplyBatch
 * and BNNSFilterApplyBackwardBatch; in may be NULL if f' can be computed from out, and out if in is given;
 * weights_delta is the gradient of alpha for LeakyRectifiedLinear (one value) and PReLUPerChannel (one per channel),
 * and needs in.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateLayerActivation(const BNNSLayerParametersActivation *OPENBNNS_NONNULL layer_params,
                                           const BNNSFilterParameters *filter_params);

/**
 * Apply an activation, or convert element types, without a filter. The data pointers are those of i_desc and o_desc.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSDirectApplyActivationBatch(const BNNSLayerParametersActivation *OPENBNNS_NONNULL layer_params,
                                   const BNNSFilterParameters *filter_params, size_t batch_size, size_t in_stride,
                                   size_t out_stride);

/**
 * The alpha or beta values inside an activation filter, as a Float32 descriptor that points to them: writing through it
 * takes effect at the next call. It must not be used after the filter has been destroyed.
 *
 * Returns the descriptor; its data is NULL on failure.
 */
BNNSNDArrayDescriptor BNNSGetPointer(BNNSFilter filter, BNNSPointerSpecifier target);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Fully connected
 *
 *     y = f(W x + b),  dx = W^T dz,  dW = sum dz x^T,  db = sum dz   (sums over the batch)
 */

/** Matrix-vector layer description. */
typedef struct BNNSLayerParametersFullyConnected {
    BNNSNDArrayDescriptor i_desc; /**< input vector */
    BNNSNDArrayDescriptor w_desc; /**< weight matrix */
    BNNSNDArrayDescriptor o_desc; /**< output vector */
    BNNSNDArrayDescriptor bias; /**< one value per output; data NULL means none */
    BNNSActivation activation; /**< activation applied after bias */
} BNNSLayerParametersFullyConnected;

/**
 * Build a fully connected filter. x [I], y [O], b [O]; W [O][I] as a RowMajorMatrix of size {I, O}, or in any other
 * matrix layout. bias.data may be NULL: no bias. Apply it with BNNSFilterApplyBatch and BNNSFilterApplyBackwardBatch.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateLayerFullyConnected(const BNNSLayerParametersFullyConnected *OPENBNNS_NONNULL layer_params,
                                               const BNNSFilterParameters *filter_params);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Sparse weights of fully connected layers
 *
 * These functions pack weights for the forward pass; the result serves as w_desc of a fully connected layer.
 */

/** Pattern of the zeros in sparse weights. */
OPENBNNS_ENUM(BNNSSparsityType) {
    BNNSSparsityTypeUnstructured = 0,
};

/** Machine that sparse weights are packed for. */
OPENBNNS_ENUM(BNNSTargetSystem) {
    BNNSTargetSystemGeneric = 0,
};

/** Hint for sparse weight packing. */
typedef struct BNNSSparsityParameters {
    uint64_t flags; /**< reserved, 0 */
    uint32_t sparsity_ratio[2]; /**< numerator, denominator */
    BNNSSparsityType sparsity_type; /**< pattern */
    BNNSTargetSystem target_system; /**< device class */
} BNNSSparsityParameters;

/**
 * Pack weights given as a list of coordinates. in_dense_shape describes the dense matrix; its data is not read.
 * in_values [NNZ]; in_indices [NNZ][2] holds (column, row) for a RowMajorMatrix, (row, column) for a ColumnMajorMatrix.
 *
 * out is filled in. If out->data is NULL, memory is allocated, which the caller releases with free(); otherwise it must
 * have room for the dense matrix. sparse_params, workspace and filter_params may be NULL; workspace is not needed.
 * batch_size is a hint; 0 acts as 1.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSNDArrayFullyConnectedSparsifySparseCOO(const BNNSNDArrayDescriptor *OPENBNNS_NONNULL in_dense_shape,
                                               const BNNSNDArrayDescriptor *OPENBNNS_NONNULL in_indices,
                                               const BNNSNDArrayDescriptor *OPENBNNS_NONNULL in_values,
                                               BNNSNDArrayDescriptor *OPENBNNS_NONNULL out,
                                               const BNNSSparsityParameters *sparse_params, size_t batch_size,
                                               void *workspace, size_t workspace_size,
                                               const BNNSFilterParameters *filter_params);

/**
 * Pack weights given as compressed rows: in_values and in_column_indices [NNZ], in_row_starts [rows + 1], rising from 0
 * to NNZ. in_dense_shape, out, sparse_params, batch_size, workspace (may be NULL) and filter_params are as for
 * coordinates.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSNDArrayFullyConnectedSparsifySparseCSR(const BNNSNDArrayDescriptor *OPENBNNS_NONNULL in_dense_shape,
                                               const BNNSNDArrayDescriptor *OPENBNNS_NONNULL in_column_indices,
                                               const BNNSNDArrayDescriptor *OPENBNNS_NONNULL in_row_starts,
                                               const BNNSNDArrayDescriptor *OPENBNNS_NONNULL in_values,
                                               BNNSNDArrayDescriptor *OPENBNNS_NONNULL out,
                                               const BNNSSparsityParameters *sparse_params, size_t batch_size,
                                               void *workspace, size_t workspace_size,
                                               const BNNSFilterParameters *filter_params);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Convolution
 *
 * x [C][H][W], y [O][OH][OW] as ImageCHW; w [O][C / groups][KH][KW] in one of the kernel layouts; b [O].
 *
 *     z[o][p][q] = b[o] + sum over c, i, j of w[o][c][i][j] x[c][p sy + i ly - up][q sx + j lx - left],  y = f(z)
 *
 * with strides sx, sy, dilations lx, ly, and zeros outside x. The kernel is not flipped.
 */

/** 2-D convolution and transposed convolution description. */
typedef struct BNNSLayerParametersConvolution {
    BNNSNDArrayDescriptor i_desc; /**< input image stack */
    BNNSNDArrayDescriptor w_desc; /**< kernel weights */
    BNNSNDArrayDescriptor o_desc; /**< output image stack */
    BNNSNDArrayDescriptor bias; /**< one value per output channel; data NULL means none */
    BNNSActivation activation; /**< activation applied after bias */
    size_t x_stride; /**< horizontal window step; 0 acts as 1 */
    size_t y_stride; /**< vertical window step; 0 acts as 1 */
    size_t x_dilation_stride; /**< horizontal kernel dilation; 0 or 1 means none */
    size_t y_dilation_stride; /**< vertical kernel dilation; 0 or 1 means none */
    size_t x_padding; /**< zero columns added on both left and right */
    size_t y_padding; /**< zero rows added on both top and bottom */
    size_t groups; /**< group count; 0 or 1 means ungrouped; not available for transposed convolution */
    size_t pad[4]; /**< asymmetric zero padding left,right,up,down; used only when x_padding and y_padding are both 0 */
} BNNSLayerParametersConvolution;

/**
 * Build a convolution filter. W + left + right is at least sx (OW - 1) + lx (KW - 1) + 1, and likewise for the height.
 * bias.data may be NULL: no bias. Apply it with BNNSFilterApplyBatch and BNNSFilterApplyBackwardBatch.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateLayerConvolution(const BNNSLayerParametersConvolution *OPENBNNS_NONNULL layer_params,
                                            const BNNSFilterParameters *filter_params);

/**
 * Build a transposed convolution filter, Float32 and without groups: the convolution of x with sx - 1 and sy - 1 zeros
 * between its pixels. x is the small image, y the large one: OW + left + right = sx (W - 1) + lx (KW - 1) + 1. Weights
 * of PyTorch's ConvTranspose2d have the layout IOHrWr.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateLayerTransposedConvolution(
                                                      const BNNSLayerParametersConvolution *OPENBNNS_NONNULL layer_params,
                                                      const BNNSFilterParameters *filter_params);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Pooling
 *
 * x [C][H][W], y [C][OH][OW] as ImageCHW, b [C]; windows of k_height x k_width pixels.
 *
 *     y = f(pool(window of x) + b)
 *
 * An index is the position row * W + column of the winner in its plane of x; indices have the shape of y (Max) or of x
 * (UnMax). Of equal pixels the first wins. Every window starts inside the padded image; parts that hang over count as
 * padding.
 */

/** Function that reduces the cells of a pooling window to one value. */
OPENBNNS_ENUM(BNNSPoolingFunction) {
    BNNSPoolingFunctionMax = 0, /**< the largest pixel; padding takes no part */
    BNNSPoolingFunctionAverageCountIncludePadding = 1, /**< sum / (k_width k_height) */
    BNNSPoolingFunctionAverageCountExcludePadding = 2, /**< sum / number of pixels inside the image */
    BNNSPoolingFunctionUnMax = 3, /**< inverse of Max: each value goes to the position of its index */
    BNNSPoolingFunctionL2Norm = 4, /**< square root of the sum of squares */
    BNNSPoolingFunctionAverage = 1, /**< older name for AverageCountIncludePadding */
};

/** 2-D pooling description. */
typedef struct BNNSLayerParametersPooling {
    BNNSNDArrayDescriptor i_desc; /**< input image stack */
    BNNSNDArrayDescriptor o_desc; /**< output image stack */
    BNNSNDArrayDescriptor bias; /**< one value per channel; data NULL means none */
    BNNSActivation activation; /**< activation applied after bias */
    BNNSPoolingFunction pooling_function; /**< window reduction */
    size_t k_width; /**< window width */
    size_t k_height; /**< window height */
    size_t x_stride; /**< horizontal window step */
    size_t y_stride; /**< vertical window step */
    size_t x_dilation_stride; /**< horizontal step inside the window */
    size_t y_dilation_stride; /**< vertical step inside the window */
    size_t x_padding; /**< columns added left and right */
    size_t y_padding; /**< rows added top and bottom */
    size_t pad[4]; /**< asymmetric padding left,right,up,down; used only when x_padding and y_padding are both 0 */
} BNNSLayerParametersPooling;

/**
 * Build a pooling filter. Strides of 0 act as 1. bias.data may be NULL: no bias.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateLayerPooling(const BNNSLayerParametersPooling *OPENBNNS_NONNULL layer_params,
                                        const BNNSFilterParameters *filter_params);

/**
 * Run a pooling filter on a batch. Max writes the positions of the winners to indices, which may be NULL if they are
 * not wanted; UnMax reads them from there, and the other functions ignore indices. idx_stride is the batch stride of
 * indices.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSPoolingFilterApplyBatch(BNNSFilter filter, size_t batch_size, const void *OPENBNNS_NONNULL in,
                                size_t in_stride, void *OPENBNNS_NONNULL out, size_t out_stride, size_t *indices,
                                size_t idx_stride);

/**
 * The same with indices of type UInt32 or UInt64; indices may be NULL as above.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSPoolingFilterApplyBatchEx(BNNSFilter filter, size_t batch_size, const void *in, size_t in_stride, void *out,
                                  size_t out_stride, BNNSDataType indices_data_type, void *indices, size_t idx_stride);

/**
 * Gradients of a pooling filter: out_delta holds dy, in_delta receives dx, bias_delta db; NULL skips one. For Max, dz
 * goes to the winner; for Average, to every pixel of the window in equal parts; for L2Norm, in proportion to x / y.
 *
 * Max takes the winners from indices, or finds them again in in if indices is NULL; UnMax needs indices. in may be NULL
 * where it is not needed (Average; Max with indices), out if no activation is fused. out_delta may be overwritten.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSPoolingFilterApplyBackwardBatch(BNNSFilter filter, size_t batch_size, const void *in, size_t in_stride,
                                        BNNSNDArrayDescriptor *in_delta, size_t in_delta_stride, const void *out,
                                        size_t out_stride, BNNSNDArrayDescriptor *OPENBNNS_NONNULL out_delta,
                                        size_t out_delta_stride, BNNSNDArrayDescriptor *bias_delta,
                                        const size_t *indices, size_t idx_stride);

/**
 * The same with indices of type UInt32 or UInt64. NULL means the same for in, in_delta, out, bias_delta and indices.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSPoolingFilterApplyBackwardBatchEx(BNNSFilter filter, size_t batch_size, const void *in, size_t in_stride,
                                          BNNSNDArrayDescriptor *in_delta, size_t in_delta_stride, const void *out,
                                          size_t out_stride, BNNSNDArrayDescriptor *OPENBNNS_NONNULL out_delta,
                                          size_t out_delta_stride, BNNSNDArrayDescriptor *bias_delta,
                                          BNNSDataType indices_data_type, const void *indices, size_t idx_stride);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Normalization
 *
 *     xhat = (x - mean) / sqrt(variance + epsilon),  y = f(gamma xhat + beta)
 *     g = gamma dz,  dx = (g - mean(g) - xhat mean(g xhat)) / sqrt(variance + epsilon)
 *     dbeta = sum dz,  dgamma = sum dz xhat
 *
 * x and y are ImageCHW, or vectors whose elements are channels. Mean and variance (of the population) are taken over:
 * batch and pixels of a channel (batch norm), pixels of a channel (instance), C, H, W or H, W or W of a sample (layer
 * norm, normalization_axis 0, 1, 2), the pixels and channels of a group (group norm). beta and gamma have one value per
 * channel, or the shape of a sample for layer norm; NULL data stands for 0 and 1.
 */

/** Batch, instance, layer or group normalization with fused activation. */
typedef struct BNNSLayerParametersNormalization {
    BNNSNDArrayDescriptor i_desc; /**< input */
    BNNSNDArrayDescriptor o_desc; /**< output, same dimensions */
    BNNSNDArrayDescriptor beta_desc; /**< shift; data NULL means none */
    BNNSNDArrayDescriptor gamma_desc; /**< scale; data NULL means none */
    BNNSNDArrayDescriptor moving_mean_desc; /**< running mean (batch/instance only); data NULL means untracked */
    /** running variance (batch/instance only); data NULL means untracked */
    BNNSNDArrayDescriptor moving_variance_desc;
    float momentum; /**< running-statistics coefficient in [0,1] */
    float epsilon; /**< added to the variance under the root */
    BNNSActivation activation; /**< elementwise activation after the affine step */
    size_t num_groups; /**< group norm only: number of channel groups */
    size_t normalization_axis; /**< layer norm only: 0 = CHW, 1 = HW, 2 = W */
} BNNSLayerParametersNormalization;

/**
 * Build a normalization filter; normType is BNNSBatchNorm, BNNSInstanceNorm, BNNSLayerNorm or BNNSGroupNorm.
 * moving_mean_desc and moving_variance_desc are for batch and instance norm; with NULL data they are not tracked.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateLayerNormalization(BNNSFilterType normType,
                                              const BNNSLayerParametersNormalization *OPENBNNS_NONNULL layer_params,
                                              const BNNSFilterParameters *filter_params);

/**
 * Run a normalization filter on a batch; out may be in. In training it uses the statistics of this batch, updates the
 * moving ones (moving = momentum moving + (1 - momentum) current), and keeps what the backward call needs. Otherwise
 * batch and instance norm use the moving statistics if there are any.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSNormalizationFilterApplyBatch(BNNSFilter filter, size_t batch_size, const void *in, size_t in_stride,
                                      void *out, size_t out_stride, bool training);

/**
 * Gradients of the latest training call of this filter, with the same batch_size: out_delta holds dy; in_delta,
 * beta_delta and gamma_delta (in this order) receive the gradients, and NULL skips one. out may be NULL if no
 * activation is fused. out_delta may be overwritten. One call computes all wanted gradients.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSNormalizationFilterApplyBackwardBatch(BNNSFilter filter, size_t batch_size, BNNSNDArrayDescriptor *in_delta,
                                              size_t in_delta_stride, const void *out, size_t out_stride,
                                              BNNSNDArrayDescriptor *OPENBNNS_NONNULL out_delta,
                                              size_t out_delta_stride, BNNSNDArrayDescriptor *beta_delta,
                                              BNNSNDArrayDescriptor *gamma_delta);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Arithmetic
 *
 *     y = f(op(in1, in2, in3))
 *
 * Operands share one layout; an operand of size 1 along an axis is repeated, and its gradient summed. in1_type and so
 * on say whether an operand is one per sample, a constant or a parameter.
 */

/** Elementwise operation of an arithmetic layer. */
OPENBNNS_ENUM(BNNSArithmeticFunction) {
    BNNSArithmeticAdd = 0,
    BNNSArithmeticSubtract = 1,
    BNNSArithmeticMultiply = 2,
    BNNSArithmeticDivide = 3,
    BNNSArithmeticSquareRoot = 4,
    BNNSArithmeticReciprocalSquareRoot = 5,
    BNNSArithmeticCeil = 6,
    BNNSArithmeticFloor = 7,
    BNNSArithmeticRound = 8, /**< ties go to the even number */
    BNNSArithmeticSin = 9,
    BNNSArithmeticCos = 10,
    BNNSArithmeticTan = 11,
    BNNSArithmeticAsin = 12,
    BNNSArithmeticAcos = 13,
    BNNSArithmeticAtan = 14,
    BNNSArithmeticSinh = 15,
    BNNSArithmeticCosh = 16,
    BNNSArithmeticTanh = 17,
    BNNSArithmeticAsinh = 18,
    BNNSArithmeticAcosh = 19,
    BNNSArithmeticAtanh = 20,
    BNNSArithmeticPow = 21,
    BNNSArithmeticExp = 22,
    BNNSArithmeticExp2 = 23,
    BNNSArithmeticLog = 24,
    BNNSArithmeticLog2 = 25,
    BNNSArithmeticMultiplyNoNaN = 26, /**< 0 where the second operand is 0, even if the first is NaN */
    BNNSArithmeticDivideNoNaN = 27, /**< 0 where the second operand is 0 */
    BNNSArithmeticMultiplyAdd = 28, /**< a b + c */
    BNNSArithmeticMinimum = 29,
    BNNSArithmeticMaximum = 30,
    BNNSArithmeticSelect = 31, /**< a ? b : c */
    BNNSArithmeticAbs = 32,
    BNNSArithmeticSign = 33,
    BNNSArithmeticNegate = 34,
    BNNSArithmeticReciprocal = 35,
    BNNSArithmeticSquare = 36,
    BNNSArithmeticFloorDivide = 37,
    BNNSArithmeticTruncDivide = 38,
    BNNSArithmeticTruncRemainder = 39, /**< a - b trunc(a / b) */
    BNNSArithmeticErf = 40,
};

/** Role of an arithmetic operand: constant, one per sample, or a trained parameter. */
OPENBNNS_ENUM(BNNSDescriptorType) {
    BNNSConstant = 0, /**< one for the whole batch, without a gradient */
    BNNSSample = 1, /**< one per sample, with a batch stride */
    BNNSParameter = 2, /**< one for the whole batch; its gradient is summed over the batch */
};

/** Operand block for one-input arithmetic. */
typedef struct BNNSArithmeticUnary {
    BNNSNDArrayDescriptor in; /**< input */
    BNNSDescriptorType in_type; /**< role of the input */
    BNNSNDArrayDescriptor out; /**< output */
    BNNSDescriptorType out_type; /**< role of the output */
} BNNSArithmeticUnary;

/** Operand block for two-input arithmetic. */
typedef struct BNNSArithmeticBinary {
    BNNSNDArrayDescriptor in1; /**< first input */
    BNNSDescriptorType in1_type; /**< role of in1 */
    BNNSNDArrayDescriptor in2; /**< second input */
    BNNSDescriptorType in2_type; /**< role of in2 */
    BNNSNDArrayDescriptor out; /**< output */
    BNNSDescriptorType out_type; /**< role of the output */
} BNNSArithmeticBinary;

/** Operand block for three-input arithmetic. */
typedef struct BNNSArithmeticTernary {
    BNNSNDArrayDescriptor in1; /**< first input */
    BNNSDescriptorType in1_type; /**< role of in1 */
    BNNSNDArrayDescriptor in2; /**< second input */
    BNNSDescriptorType in2_type; /**< role of in2 */
    BNNSNDArrayDescriptor in3; /**< third input */
    BNNSDescriptorType in3_type; /**< role of in3 */
    BNNSNDArrayDescriptor out; /**< output */
    BNNSDescriptorType out_type; /**< role of the output */
} BNNSArithmeticTernary;

/** Elementwise arithmetic description. */
typedef struct BNNSLayerParametersArithmetic {
    BNNSArithmeticFunction arithmetic_function; /**< operation */
    void *OPENBNNS_NONNULL arithmetic_function_fields; /**< pointer to the Unary/Binary/Ternary operand block */
    BNNSActivation activation; /**< activation applied to the result */
} BNNSLayerParametersArithmetic;

/**
 * Build an arithmetic filter. arithmetic_function_fields points to a BNNSArithmeticUnary, BNNSArithmeticBinary or
 * BNNSArithmeticTernary, as the function takes one, two (Add, Subtract, Multiply, Divide, Pow, the NoNaN pair, Minimum,
 * Maximum, the integer divisions) or three operands (MultiplyAdd, Select).
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateLayerArithmetic(const BNNSLayerParametersArithmetic *OPENBNNS_NONNULL layer_params,
                                           const BNNSFilterParameters *filter_params);

/**
 * Run an arithmetic filter on a batch; in and in_stride have one entry per operand. Strides of constants and parameters
 * are not used. out may be one of the operands.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSArithmeticFilterApplyBatch(BNNSFilter filter, size_t batch_size, size_t number_of_inputs,
                                   const void *OPENBNNS_NONNULL *OPENBNNS_NONNULL in,
                                   const size_t *OPENBNNS_NONNULL in_stride, void *OPENBNNS_NONNULL out,
                                   size_t out_stride);

/**
 * Gradients of every operand: out_delta holds dy; in_delta has one descriptor per operand, whose data is NULL if that
 * gradient is not wanted. in and in_stride, or entries of in, may be NULL where the derivative does not need the
 * operands (sums; roots, tanh and exponentials if out is given); out may be NULL if no activation is fused. out_delta
 * may be overwritten.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSArithmeticFilterApplyBackwardBatch(BNNSFilter filter, size_t batch_size, size_t number_of_inputs,
                                           const void *OPENBNNS_NULLABLE *in, const size_t *in_stride,
                                           BNNSNDArrayDescriptor *OPENBNNS_NONNULL *OPENBNNS_NONNULL in_delta,
                                           const size_t *OPENBNNS_NONNULL in_delta_stride, const void *out,
                                           size_t out_stride, BNNSNDArrayDescriptor *OPENBNNS_NONNULL out_delta,
                                           size_t out_delta_stride);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Fused filters
 *
 * Two layers as one filter: convolution, transposed convolution or fully connected, then a normalization or a
 * quantization; or arithmetic, then a normalization. The output of the first layer and the input of the second have
 * equal descriptors. In training only the second layer may have an activation.
 */

/**
 * Build a fused filter: filter_type and layer_params have number_of_fused_filters entries, each the kind of a layer and
 * a pointer to its BNNSLayerParameters... struct.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateFusedLayer(size_t number_of_fused_filters,
                                      const BNNSFilterType *OPENBNNS_NONNULL filter_type,
                                      const void *OPENBNNS_NONNULL *OPENBNNS_NONNULL layer_params,
                                      const BNNSFilterParameters *filter_params);

/**
 * Run a fused filter with one input on a batch. If the chain has a normalization and training is true, the statistics
 * of this batch are used, the moving ones are updated, and what the backward call needs is kept.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSFusedFilterApplyBatch(BNNSFilter filter, size_t batch_size, const void *in, size_t in_stride, void *out,
                              size_t out_stride, bool training);

/**
 * The same for a filter that starts with arithmetic: in and in_stride have one entry per operand.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSFusedFilterApplyMultiInputBatch(BNNSFilter filter, size_t batch_size, size_t number_of_inputs,
                                        const void *OPENBNNS_NONNULL *OPENBNNS_NONNULL in,
                                        const size_t *OPENBNNS_NONNULL in_stride, void *OPENBNNS_NONNULL out,
                                        size_t out_stride, bool training);

/**
 * Gradients of the latest training call, with the same batch_size: out_delta holds dy, in_delta receives dx or is NULL.
 * delta_parameters has the entries weights, bias, beta, gamma, each NULL if not wanted; it may be NULL as a whole. in
 * may be NULL if no weights gradient is wanted, out if no activation is fused. out_delta may be overwritten.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSFusedFilterApplyBackwardBatch(BNNSFilter filter, size_t batch_size, const void *in, size_t in_stride,
                                      BNNSNDArrayDescriptor *in_delta, size_t in_delta_stride, const void *out,
                                      size_t out_stride, BNNSNDArrayDescriptor *OPENBNNS_NONNULL out_delta,
                                      size_t out_delta_stride,
                                      BNNSNDArrayDescriptor *OPENBNNS_NULLABLE *delta_parameters);

/**
 * The same for a filter that starts with arithmetic: in_delta has one descriptor per operand, with NULL data for one
 * that is not wanted, and delta_parameters the entries beta, gamma. in and in_stride may be NULL where the derivative
 * does not need the operands, out if no activation is fused, delta_parameters if neither gradient is wanted.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSFusedFilterApplyBackwardMultiInputBatch(BNNSFilter filter, size_t batch_size, size_t number_of_inputs,
                                                const void *OPENBNNS_NULLABLE *in, const size_t *in_stride,
                                                BNNSNDArrayDescriptor *OPENBNNS_NONNULL *OPENBNNS_NONNULL in_delta,
                                                const size_t *OPENBNNS_NONNULL in_delta_stride, const void *out,
                                                size_t out_stride, BNNSNDArrayDescriptor *OPENBNNS_NONNULL out_delta,
                                                size_t out_delta_stride,
                                                BNNSNDArrayDescriptor *OPENBNNS_NULLABLE *delta_parameters);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Losses
 *
 * x [width] is the input of a sample, t [width] its labels (one-hot, or numbers), w a weight. The losses are listed
 * with the constants below and multiplied by w; out is their reduction, or all of them. Labels may be smoothed: t (1 -
 * s) + s / width.
 */

/** Loss of a loss layer. */
OPENBNNS_ENUM(BNNSLossFunction) {
    BNNSLossFunctionSoftmaxCrossEntropy = 1, /**< -sum t log softmax(x), one loss per sample */
    BNNSLossFunctionSigmoidCrossEntropy = 2, /**< -t log q - (1 - t) log(1 - q), q = sigmoid(x) */
    BNNSLossFunctionMeanSquareError = 3, /**< (x - t)^2 */
    BNNSLossFunctionHuber = 4, /**< e = |x - t|; e <= d ? e^2 / 2 : d (e - d / 2) */
    BNNSLossFunctionYolo = 5, /**< object detection; reduction must be Sum */
    BNNSLossFunctionLog = 6, /**< -t log(x + 1e-7) - (1 - t) log(1 - x + 1e-7) */
    BNNSLossFunctionCosineDistance = 7, /**< 1 - sum t x, unit vectors; one loss per sample */
    BNNSLossFunctionHinge = 8, /**< max(0, 1 - (2 t - 1) x) */
    BNNSLossFunctionMeanAbsoluteError = 9, /**< |x - t| */
    /** mean of -t log softmax(x) where t is not 0; one loss per sample */
    BNNSLossFunctionCategoricalCrossEntropy = 10,
};

/** Reduction of the losses of a batch to the output of a loss layer. */
OPENBNNS_ENUM(BNNSLossReductionFunction) {
    BNNSLossReductionNone = 0, /**< all losses */
    BNNSLossReductionSum = 1, /**< sum */
    BNNSLossReductionWeightedMean = 2, /**< sum / sum of the weights */
    BNNSLossReductionMean = 3, /**< sum / number of losses */
    BNNSLossReductionNonZeroWeightMean = 4, /**< sum / number of weights that are not 0 */
};

/** Loss description for losses without extra parameters. */
typedef struct BNNSLayerParametersLossBase {
    BNNSLossFunction function; /**< loss to compute; also tells the library which loss struct this is */
    BNNSNDArrayDescriptor i_desc; /**< predictions */
    BNNSNDArrayDescriptor o_desc; /**< loss output */
    BNNSLossReductionFunction reduction; /**< how per-element losses collapse */
} BNNSLayerParametersLossBase;

/** Softmax cross entropy; starts like the base struct. */
typedef struct BNNSLayerParametersLossSoftmaxCrossEntropy {
    BNNSLossFunction function; /**< loss to compute; also tells the library which loss struct this is */
    BNNSNDArrayDescriptor i_desc; /**< predictions */
    BNNSNDArrayDescriptor o_desc; /**< loss output */
    BNNSLossReductionFunction reduction; /**< how per-element losses collapse */
    float label_smooth; /**< smoothing amount s: t becomes t*(1-s)+s/n */
} BNNSLayerParametersLossSoftmaxCrossEntropy;

/** Sigmoid cross entropy; starts like the base struct. */
typedef struct BNNSLayerParametersLossSigmoidCrossEntropy {
    BNNSLossFunction function; /**< loss to compute; also tells the library which loss struct this is */
    BNNSNDArrayDescriptor i_desc; /**< predictions */
    BNNSNDArrayDescriptor o_desc; /**< loss output */
    BNNSLossReductionFunction reduction; /**< how per-element losses collapse */
    float label_smooth; /**< smoothing amount s: t becomes t*(1-s)+s/2 */
} BNNSLayerParametersLossSigmoidCrossEntropy;

/** Huber loss; starts like the base struct. */
typedef struct BNNSLayerParametersLossHuber {
    BNNSLossFunction function; /**< loss to compute; also tells the library which loss struct this is */
    BNNSNDArrayDescriptor i_desc; /**< predictions */
    BNNSNDArrayDescriptor o_desc; /**< loss output */
    BNNSLossReductionFunction reduction; /**< how per-element losses collapse */
    float huber_delta; /**< error magnitude where quadratic turns linear */
} BNNSLayerParametersLossHuber;

/** YOLO detection loss; starts like the base struct; reduction must be Sum. */
typedef struct BNNSLayerParametersLossYolo {
    BNNSLossFunction function; /**< loss to compute; also tells the library which loss struct this is */
    BNNSNDArrayDescriptor i_desc; /**< predictions */
    BNNSNDArrayDescriptor o_desc; /**< loss output */
    BNNSLossReductionFunction reduction; /**< how per-element losses collapse */
    float huber_delta; /**< Huber threshold for the width/height part; 0 acts as 1 */
    size_t number_of_grid_columns; /**< grid width */
    size_t number_of_grid_rows; /**< grid height */
    size_t number_of_anchor_boxes; /**< anchors per cell */
    size_t anchor_box_size; /**< values per anchor, 5 + number of classes */
    bool rescore; /**< use IOU as the confidence target */
    float scale_xy; /**< weight of the centre term */
    float scale_wh; /**< weight of the size term */
    float scale_object; /**< weight of confidence where an object is present */
    float scale_no_object; /**< weight of confidence where no object is present */
    float scale_classification; /**< weight of the class term */
    float object_minimum_iou; /**< IOU at or above which an anchor counts as object */
    float no_object_maximum_iou; /**< IOU at or below which an anchor counts as background */
    float *anchors_data; /**< w0,h0,w1,h1,... for every anchor */
} BNNSLayerParametersLossYolo;

/**
 * Build a loss filter. layer_params points to the struct of its function, whose first field names the function. Losses
 * without their own struct use BNNSLayerParametersLossBase. i_desc is one sample; o_desc has size 1, or that of the
 * losses of a sample if they are not reduced.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateLayerLoss(const void *OPENBNNS_NONNULL layer_params,
                                     const BNNSFilterParameters *filter_params);

/**
 * Compute the loss of a batch and, unless in_delta is NULL, its gradient as if the loss were the last layer. weights
 * may be NULL if weights_size is 0; weights_size counts the weights: 1 for all, or one per loss.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSLossFilterApplyBatch(BNNSFilter filter, size_t batch_size, const void *OPENBNNS_NONNULL in, size_t in_stride,
                             const void *OPENBNNS_NONNULL labels, size_t labels_stride, const void *weights,
                             size_t weights_size, void *OPENBNNS_NONNULL out, BNNSNDArrayDescriptor *in_delta,
                             size_t in_delta_stride);

/**
 * The gradient of a loss times its output gradient: out_delta holds one value, or with reduction None the values of one
 * sample, with the batch stride out_delta_stride. weights may be NULL as in the forward call.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSLossFilterApplyBackwardBatch(BNNSFilter filter, size_t batch_size, const void *OPENBNNS_NONNULL in,
                                     size_t in_stride, BNNSNDArrayDescriptor *OPENBNNS_NONNULL in_delta,
                                     size_t in_delta_stride, const void *OPENBNNS_NONNULL labels,
                                     size_t labels_stride, const void *weights, size_t weights_size,
                                     const BNNSNDArrayDescriptor *OPENBNNS_NONNULL out_delta, size_t out_delta_stride);

/* ------------------------------------------------------------------------------------------------------------------ */
/* Permute */

/** Axis permutation with copy. */
typedef struct BNNSLayerParametersPermute {
    BNNSNDArrayDescriptor i_desc; /**< input */
    BNNSNDArrayDescriptor o_desc; /**< output; size[k] = input size[permutation[k]] */
    size_t permutation[8]; /**< input axis feeding each output axis */
} BNNSLayerParametersPermute;

/**
 * Build a filter that permutes axes: axis k of the output is axis permutation[k] of the input, in the order of size[].
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateLayerPermute(const BNNSLayerParametersPermute *OPENBNNS_NONNULL layer_params,
                                        const BNNSFilterParameters *filter_params);

/**
 * The gradient of a permute filter: in_delta receives out_delta with its axes put back.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSPermuteFilterApplyBackwardBatch(BNNSFilter filter, size_t batch_size,
                                        BNNSNDArrayDescriptor *OPENBNNS_NONNULL in_delta, size_t in_delta_stride,
                                        const BNNSNDArrayDescriptor *OPENBNNS_NONNULL out_delta,
                                        size_t out_delta_stride);

/* ------------------------------------------------------------------------------------------------------------------ */
/* Padding */

/** Values that a padding layer writes outside the input. */
OPENBNNS_ENUM(BNNSPaddingMode) {
    BNNSPaddingModeConstant = 0, /**< the bits of padding_value */
    BNNSPaddingModeReflect = 1, /**< mirror without the edge: CB|ABC */
    BNNSPaddingModeSymmetric = 2, /**< mirror with the edge: BA|ABC */
};

/** Border padding. */
typedef struct BNNSLayerParametersPadding {
    BNNSNDArrayDescriptor i_desc; /**< input */
    BNNSNDArrayDescriptor o_desc; /**< output; size[d] = input + before + after */
    size_t padding_size[8][2]; /**< elements before [d][0] and after [d][1] on each axis */
    BNNSPaddingMode padding_mode; /**< fill rule */
    uint32_t padding_value; /**< raw bit pattern of the constant fill */
} BNNSLayerParametersPadding;

/**
 * Build a filter that adds padding_size[d][0] elements before and padding_size[d][1] after axis d of size[]. Apply it
 * with BNNSFilterApplyBatch; BNNSFilterApplyBackwardBatch sums dy over all cells that an element was copied to.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateLayerPadding(const BNNSLayerParametersPadding *OPENBNNS_NONNULL layer_params,
                                        const BNNSFilterParameters *filter_params);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Resize
 *
 * With align_corners, position i of the output is i (in - 1) / (out - 1) in the input, otherwise (i + 0.5) in / out -
 * 0.5 limited to the range; nearest takes floor(i in / out).
 */

/** Method by which resizing interpolates between samples. */
OPENBNNS_ENUM(BNNSInterpolationMethod) {
    BNNSInterpolationMethodNearest = 0,
    BNNSInterpolationMethodLinear = 1,
};

/** Resampling of the axes whose sizes differ. */
typedef struct BNNSLayerParametersResize {
    BNNSInterpolationMethod method; /**< nearest or (bi)linear */
    BNNSNDArrayDescriptor i_desc; /**< input */
    BNNSNDArrayDescriptor o_desc; /**< output */
    bool align_corners; /**< grid alignment choice */
} BNNSLayerParametersResize;

/**
 * Build a filter that resamples the axes whose sizes differ: any number of them by the nearest element, one or two
 * linearly. Apply it with BNNSFilterApplyBatch and BNNSFilterApplyBackwardBatch.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateLayerResize(const BNNSLayerParametersResize *OPENBNNS_NONNULL layer_params,
                                       const BNNSFilterParameters *filter_params);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Dropout
 *
 *     y = x mask / (1 - rate),  dx = dy mask / (1 - rate)
 */

/** Dropout description. */
typedef struct BNNSLayerParametersDropout {
    BNNSNDArrayDescriptor i_desc; /**< input */
    BNNSNDArrayDescriptor o_desc; /**< output */
    float rate; /**< drop probability in [0,1) */
    uint32_t seed; /**< generator seed; 0 means unseeded */
    uint8_t control; /**< bit mask of axes that share one keep/drop decision; only 4 low bits used */
} BNNSLayerParametersDropout;

/**
 * Build a dropout filter. Each forward call draws a new mask, which the backward call uses; the same seed repeats the
 * masks. There is no inference mode: leave the layer out in inference.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateLayerDropout(const BNNSLayerParametersDropout *OPENBNNS_NONNULL layer_params,
                                        const BNNSFilterParameters *filter_params);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Embedding
 *
 *     y(item, position) = dictionary(item, x(position))
 *     weights_delta(item, v) = sum of dy(item, position) over the positions with x = v
 */

/** Options of an embedding layer. */
OPENBNNS_ENUM(BNNSEmbeddingFlags) {
    BNNSEmbeddingFlagScaleGradientByFrequency = 0x1,
};

/** Dictionary lookup. */
typedef struct BNNSLayerParametersEmbedding {
    BNNSEmbeddingFlags flags; /**< behaviour mask */
    BNNSNDArrayDescriptor i_desc; /**< integer indices */
    BNNSNDArrayDescriptor o_desc; /**< output; item shape followed by index shape */
    BNNSNDArrayDescriptor dictionary; /**< item shape followed by the number of entries */
    size_t padding_idx; /**< entry treated as zero when in range */
    float max_norm; /**< renormalization limit; 0 disables */
    float norm_type; /**< p of the norm; 0 means 2 */
} BNNSLayerParametersEmbedding;

/**
 * Build a filter that looks entries up. In size[] the dictionary is {item..., entries}, the input {index...} of an
 * integer type, the output {item..., index...}. With an index outside the dictionary the call fails. If no entry stands
 * for zeros, set padding_idx to a number outside the dictionary: 0 is an entry.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateLayerEmbedding(const BNNSLayerParametersEmbedding *OPENBNNS_NONNULL layer_params,
                                          const BNNSFilterParameters *filter_params);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Matrix product
 *
 *     C = alpha op(A) op(B) + beta C,  dA = alpha dC op(B)^T,  dB = alpha op(A)^T dC   (op: as it is, or transposed)
 *
 * on the last two axes, counted in the order of size[], but rows before columns in a RowMajorMatrix. The axes before
 * them are matched from the back; an axis that is missing or of size 1 is repeated.
 */

/** Matrix product over the last two logical axes with broadcasting. */
typedef struct BNNSLayerParametersBroadcastMatMul {
    float alpha; /**< factor on the product */
    float beta; /**< 0 or 1: factor on the previous output */
    bool transA; /**< transpose A */
    bool transB; /**< transpose B */
    bool quadratic; /**< A times itself; B ignored */
    bool a_is_weights; /**< A is a parameter held in iA_desc */
    bool b_is_weights; /**< B is a parameter held in iB_desc */
    BNNSNDArrayDescriptor iA_desc; /**< A */
    BNNSNDArrayDescriptor iB_desc; /**< B */
    BNNSNDArrayDescriptor o_desc; /**< C */
} BNNSLayerParametersBroadcastMatMul;

/**
 * Build a matrix-product filter, beta 0 or 1. It has two inputs; with a_is_weights, b_is_weights (the operand is the
 * data of its descriptor) or quadratic (A times itself) it has one, and the gradient of weights is weights_delta.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateLayerBroadcastMatMul(
                                                const BNNSLayerParametersBroadcastMatMul *OPENBNNS_NONNULL layer_params,
                                                const BNNSFilterParameters *filter_params);

/**
 * Bytes of workspace that BNNSMatMul needs for these descriptors; data pointers are not read. It is always 0 here.
 *
 * Returns the number, or a negative number on failure.
 */
ssize_t BNNSMatMulWorkspaceSize(bool transA, bool transB, float alpha,
                                const BNNSNDArrayDescriptor *OPENBNNS_NONNULL inputA,
                                const BNNSNDArrayDescriptor *OPENBNNS_NONNULL inputB,
                                const BNNSNDArrayDescriptor *OPENBNNS_NONNULL output,
                                const BNNSFilterParameters *filter_params);

/**
 * output = alpha op(A) op(B) on the data of the descriptors, floating-point types only. workspace may be NULL.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSMatMul(bool transA, bool transB, float alpha, const BNNSNDArrayDescriptor *OPENBNNS_NONNULL inputA,
               const BNNSNDArrayDescriptor *OPENBNNS_NONNULL inputB,
               const BNNSNDArrayDescriptor *OPENBNNS_NONNULL output, void *workspace,
               const BNNSFilterParameters *filter_params);

/** The older form of BNNSMatMul. It has no status: a failure shows in openbnns_last_error(). */
void BNNSDirectApplyBroadcastMatMul(bool transA, bool transB, float alpha,
                                    const BNNSNDArrayDescriptor *OPENBNNS_NONNULL inputA,
                                    const BNNSNDArrayDescriptor *OPENBNNS_NONNULL inputB,
                                    const BNNSNDArrayDescriptor *OPENBNNS_NONNULL output,
                                    const BNNSFilterParameters *filter_params);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Tensor contraction
 *
 *     out[letters] = alpha * sum over the letters that out does not have of A[letters] B[letters]  (+ beta out)
 */

/** Einstein-summation contraction. */
typedef struct BNNSLayerParametersTensorContraction {
    const char *operation; /**< contraction expression */
    float alpha; /**< factor on the result */
    float beta; /**< 0 or 1: factor on the previous output */
    BNNSNDArrayDescriptor iA_desc; /**< first operand */
    BNNSNDArrayDescriptor iB_desc; /**< second operand (unused for one-operand expressions) */
    BNNSNDArrayDescriptor o_desc; /**< output */
} BNNSLayerParametersTensorContraction;

/**
 * Build a filter from an expression such as "a_ij, b_jk -> c_ik", one letter per axis in the order of size[], but rows
 * before columns in a RowMajorMatrix; "*" stands for any further axes ("a_*ik, b_*kj -> c_*ij"). It has two inputs.
 * With an operand named w (weights: the data of its descriptor), with one operand, or with one name twice it has one,
 * and the gradient of w is weights_delta.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateLayerTensorContraction(
                                                  const BNNSLayerParametersTensorContraction *OPENBNNS_NONNULL layer_params,
                                                  const BNNSFilterParameters *filter_params);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Gram matrix
 *
 *     G[f][c] = alpha * sum over pixels of x[f][pixel] x[c][pixel]
 */

/** Gram matrix over channels. */
typedef struct BNNSLayerParametersGram {
    float alpha; /**< factor on the result */
    BNNSNDArrayDescriptor i_desc; /**< input tensor */
    BNNSNDArrayDescriptor o_desc; /**< Gram matrix */
} BNNSLayerParametersGram;

/**
 * Build a filter for the Gram matrix [C][C] of an image [C][H][W]. Apply it with BNNSFilterApplyBatch and
 * BNNSFilterApplyBackwardBatch.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateLayerGram(const BNNSLayerParametersGram *OPENBNNS_NONNULL layer_params,
                                     const BNNSFilterParameters *filter_params);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Reduction
 *
 * Axes whose output size is 1 are reduced. w_desc, unless its data is NULL, has the shape of the input and multiplies
 * each term; its gradient is weights_delta.
 */

/** Function that reduces the values along axes to one. */
OPENBNNS_ENUM(BNNSReduceFunction) {
    BNNSReduceFunctionMax = 0,
    BNNSReduceFunctionMin = 1,
    BNNSReduceFunctionArgMax = 2,
    BNNSReduceFunctionArgMin = 3,
    BNNSReduceFunctionMean = 4,
    BNNSReduceFunctionMeanNonZero = 5, /**< sum w x / number of weights that are not 0 */
    BNNSReduceFunctionSum = 6,
    BNNSReduceFunctionSumSquare = 7,
    BNNSReduceFunctionSumLog = 8, /**< sum log(x + epsilon) */
    BNNSReduceFunctionL1Norm = 9,
    BNNSReduceFunctionLogicalOr = 10,
    BNNSReduceFunctionLogicalAnd = 11,
    BNNSReduceFunctionL2Norm = 12,
    BNNSReduceFunctionLogSumExp = 13, /**< log sum exp(x) */
    BNNSReduceFunctionProduct = 14,
    BNNSReduceFunctionNone = 15, /**< no reduction: scatter overwrites */
    BNNSReduceFunctionLogSum = 16, /**< log sum x */
    BNNSReduceFunctionAny = 10, /**< another name for LogicalOr */
    BNNSReduceFunctionAll = 11, /**< another name for LogicalAnd */
};

/** Reduction over the axes whose output size is 1. */
typedef struct BNNSLayerParametersReduction {
    BNNSNDArrayDescriptor i_desc; /**< input */
    BNNSNDArrayDescriptor o_desc; /**< output; reduced axes have size 1 */
    BNNSNDArrayDescriptor w_desc; /**< optional weights shaped like the input; data NULL means none */
    BNNSReduceFunction reduce_func; /**< reduction */
    float epsilon; /**< added inside each log of SumLog */
} BNNSLayerParametersReduction;

/**
 * Build a reduction filter. Apply it with BNNSFilterApplyBatch and BNNSFilterApplyBackwardBatch.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateLayerReduction(const BNNSLayerParametersReduction *OPENBNNS_NONNULL layer_params,
                                          const BNNSFilterParameters *filter_params);

/**
 * Reduce without a filter: the data pointers are those of the descriptors.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSDirectApplyReduction(const BNNSLayerParametersReduction *OPENBNNS_NONNULL layer_params,
                             const BNNSFilterParameters *filter_params);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Quantization
 *
 * scale and bias are vectors along the axis that the bit of axis_mask names (bit d: size[d], bit rank: the batch), or
 * of size 1 if axis_mask is 0; NULL data stands for 1 and 0.
 */

/** Direction of a quantization layer. */
OPENBNNS_ENUM(BNNSQuantizerFunction) {
    BNNSQuantizerFunctionQuantize = 0, /**< y = saturate(round(scale x + bias)) */
    BNNSQuantizerFunctionDequantize = 1, /**< y = (x - bias) / scale */
};

/** Scale-and-shift conversion between precisions. */
typedef struct BNNSLayerParametersQuantization {
    size_t axis_mask; /**< single bit naming the axis along which scale/bias vary; 0 = scalar; bit rank = batch */
    BNNSQuantizerFunction function; /**< direction */
    BNNSNDArrayDescriptor i_desc; /**< input */
    BNNSNDArrayDescriptor o_desc; /**< output */
    BNNSNDArrayDescriptor scale; /**< vector of factors; data NULL means none */
    BNNSNDArrayDescriptor bias; /**< vector of offsets; data NULL means none */
} BNNSLayerParametersQuantization;

/**
 * Quantize or dequantize a batch; the data pointers are those of the descriptors. There is no gradient.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSDirectApplyQuantizer(const BNNSLayerParametersQuantization *OPENBNNS_NONNULL layer_params,
                             const BNNSFilterParameters *filter_params, size_t batch_size, size_t input_stride,
                             size_t output_stride);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Multihead attention
 *
 * Q [T][D], K [S][D], V [S][D] are one sample; weights have size {D, K, H} ({D, V, H} for the values) in a layout of
 * rank 3, where H is the number of heads; the output weights are [H V][D]. Per head:
 *
 *     P = softmax((Q Wq + bq) (K Wk + bk)^T / sqrt(K) + masks),  O = dropout(P) (V Wv + bv)
 *     y = [O of all heads] Wo + bo
 *
 * Biases with NULL data are absent. key_attn_bias and value_attn_bias add a row to keys and values, add_zero_attn one
 * of zeros.
 */

/** One projection of a multihead attention layer; reused as the container for its gradients. */
typedef struct BNNSMHAProjectionParameters {
    /** the tensor being projected (query, key, value) or produced (output); in a backward call its gradient */
    BNNSNDArrayDescriptor target_desc;
    BNNSNDArrayDescriptor weights; /**< projection matrix or its gradient */
    BNNSNDArrayDescriptor bias; /**< projection bias or its gradient; data NULL means absent or not wanted */
} BNNSMHAProjectionParameters;

/** Multihead attention description. */
typedef struct BNNSLayerParametersMultiheadAttention {
    BNNSMHAProjectionParameters query; /**< query tensor, projection, bias */
    BNNSMHAProjectionParameters key; /**< key tensor, projection, bias */
    BNNSMHAProjectionParameters value; /**< value tensor, projection, bias */
    bool add_zero_attn; /**< append an all-zero key/value row */
    BNNSNDArrayDescriptor key_attn_bias; /**< extra key row per head; data NULL means absent */
    BNNSNDArrayDescriptor value_attn_bias; /**< extra value row per head; data NULL means absent */
    BNNSMHAProjectionParameters output; /**< output tensor, output projection, bias */
    float dropout; /**< attention dropout; outside (0,1) means none */
    uint32_t seed; /**< dropout seed */
} BNNSLayerParametersMultiheadAttention;

/**
 * Build an attention filter. Each target_desc is one sample, 2DFirstMajor of size {T, D} for instance.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateLayerMultiheadAttention(
                                                   const BNNSLayerParametersMultiheadAttention *OPENBNNS_NONNULL layer_params,
                                                   const BNNSFilterParameters *filter_params);

/**
 * Run attention on a batch. key_mask, Boolean [S] with batch stride key_mask_stride, is true for keys to ignore.
 * add_to_attention [T][S], [H][T][S] or [batch][H][T][S] is added to the scores; a Boolean true there adds minus
 * infinity. Both may be NULL.
 *
 * A size pointer whose buffer is NULL asks for the size in bytes: backprop_cache_size without backprop_cache,
 * workspace_size without workspace. Nothing is computed then. If both members of a pair are NULL, no cache is written,
 * or the workspace is allocated. A cache holds what the backward call needs.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSApplyMultiheadAttention(BNNSFilter F, size_t batch_size, const void *OPENBNNS_NONNULL query,
                                size_t query_stride, const void *OPENBNNS_NONNULL key, size_t key_stride,
                                const BNNSNDArrayDescriptor *key_mask, size_t key_mask_stride,
                                const void *OPENBNNS_NONNULL value, size_t value_stride,
                                void *OPENBNNS_NONNULL output, size_t output_stride,
                                const BNNSNDArrayDescriptor *add_to_attention, size_t *backprop_cache_size,
                                void *backprop_cache, size_t *workspace_size, void *workspace);

/**
 * Gradients of attention. output_param_delta->target_desc is an input: dy. All other members with data are outputs:
 * target_desc, weights and bias of query_param_delta, key_param_delta and value_param_delta, weights and bias of
 * output_param_delta, key_attn_bias_delta, value_attn_bias_delta. A NULL pointer or NULL data skips one. stride[2] of a
 * target gradient is its batch stride.
 *
 * query, key, value, key_mask and add_to_attention are those of the forward call (NULL where they were NULL, or where
 * the cache has what is needed); output may be NULL. backprop_cache may be NULL, with backprop_cache_size 0, if there
 * is no dropout: the forward pass is then repeated. workspace_size without workspace asks for the size; both may be
 * NULL.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSApplyMultiheadAttentionBackward(BNNSFilter F, size_t batch_size, const void *query, size_t query_stride,
                                        BNNSMHAProjectionParameters *query_param_delta, const void *key,
                                        size_t key_stride, const BNNSNDArrayDescriptor *key_mask,
                                        size_t key_mask_stride, BNNSMHAProjectionParameters *key_param_delta,
                                        const void *value, size_t value_stride,
                                        BNNSMHAProjectionParameters *value_param_delta,
                                        const BNNSNDArrayDescriptor *add_to_attention,
                                        BNNSNDArrayDescriptor *key_attn_bias_delta,
                                        BNNSNDArrayDescriptor *value_attn_bias_delta, const void *output,
                                        size_t output_stride,
                                        BNNSMHAProjectionParameters *OPENBNNS_NONNULL output_param_delta,
                                        size_t backprop_cache_size, void *backprop_cache, size_t *workspace_size,
                                        void *workspace);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * LSTM
 *
 * Input [T][N][I], output [T][N][directions][H], states [layers][directions][N][H], gate weights
 * [layers][directions][H][I or H], biases [layers][directions][H]. A descriptor whose sizes are 0 stands for the packed
 * tensor.
 *
 *     i, f, o = sigmoid(W x + U h + C c + b),  g = tanh(W x + U h + C c + b),  c' = f c + i g,  h' = o tanh(c')
 *
 * Peepholes C (o uses c' there), biases and initial states are absent if their data is NULL. Without the flag for
 * default activations, those of the descriptors are used.
 */

/** Options of an LSTM, for BNNSLayerParametersLSTM.lstm_flags. */
OPENBNNS_ENUM(BNNSLayerFlags) {
    BNNSLayerFlagsLSTMBidirectional = 0x1,
    BNNSLayerFlagsLSTMDefaultActivations = 0x2,
};

/** Weights, bias and activation of one LSTM gate. */
typedef struct BNNSLSTMGateDescriptor {
    /** input weights: [0] for layer 0 (or every layer), [1] for layers >= 1 when input_size != hidden_size */
    BNNSNDArrayDescriptor iw_desc[2];
    BNNSNDArrayDescriptor hw_desc; /**< hidden-state weights */
    BNNSNDArrayDescriptor cw_desc; /**< cell-state (peephole) weights; data NULL disables peepholes */
    BNNSNDArrayDescriptor b_desc; /**< bias; data NULL means no bias */
    BNNSActivation activation; /**< gate activation, ignored when default activations are requested */
} BNNSLSTMGateDescriptor;

/** The three tensors on one side (input or output) of an LSTM. */
typedef struct BNNSLSTMDataDescriptor {
    BNNSNDArrayDescriptor data_desc; /**< sequence data */
    BNNSNDArrayDescriptor hidden_desc; /**< hidden state */
    BNNSNDArrayDescriptor cell_state_desc; /**< cell state */
} BNNSLSTMDataDescriptor;

/** Whole LSTM stack: sizes, data, states, gate weights. */
typedef struct BNNSLayerParametersLSTM {
    size_t input_size; /**< features per input step */
    size_t hidden_size; /**< features of hidden and cell state */
    size_t batch_size; /**< sequences per call */
    size_t num_layers; /**< stacked cells */
    size_t seq_len; /**< time steps */
    float dropout; /**< dropout between stacked layers, not after the last */
    uint32_t lstm_flags; /**< mask of BNNSLayerFlags */
    BNNSNDArrayDescriptor sequence_descriptor; /**< optional per-step batch sizes; data NULL means constant */
    BNNSLSTMDataDescriptor input_descriptor; /**< input sequence and initial states */
    BNNSLSTMDataDescriptor output_descriptor; /**< output sequence and final states */
    BNNSLSTMGateDescriptor input_gate; /**< input gate */
    BNNSLSTMGateDescriptor forget_gate; /**< forget gate */
    BNNSLSTMGateDescriptor candidate_gate; /**< candidate gate */
    BNNSLSTMGateDescriptor output_gate; /**< output gate */
    BNNSActivation hidden_activation; /**< activation of the cell state when forming the hidden state */
} BNNSLayerParametersLSTM;

/**
 * The minimum size in bytes of a training cache for this description.
 *
 * Returns the number, or SIZE_MAX on failure.
 */
size_t BNNSComputeLSTMTrainingCacheCapacity(const BNNSLayerParametersLSTM *OPENBNNS_NONNULL layer_params);

/**
 * Run an LSTM forward on the data of its descriptors. What the backward call needs goes to training_cache_ptr, unless
 * that is NULL.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSDirectApplyLSTMBatchTrainingCaching(const BNNSLayerParametersLSTM *OPENBNNS_NONNULL layer_params,
                                            const BNNSFilterParameters *filter_params, void *training_cache_ptr,
                                            size_t training_cache_capacity);

/**
 * Gradients of an LSTM. layer_delta_params is a struct like layer_params: its output_descriptor holds the output
 * gradients (data, last hidden state, last cell state), its input_descriptor and its gates those that are written. NULL
 * data skips one. training_cache_ptr is the cache of the forward call; if it is NULL, the forward pass is repeated.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSDirectApplyLSTMBatchBackward(const BNNSLayerParametersLSTM *OPENBNNS_NONNULL layer_params,
                                     const BNNSLayerParametersLSTM *OPENBNNS_NONNULL layer_delta_params,
                                     const BNNSFilterParameters *filter_params, const void *training_cache_ptr,
                                     size_t training_cache_capacity);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Optimizers
 *
 * g is the clipped gradient times gradient_scale, plus the penalty. With m = beta1 m + (1 - beta1) g, v = beta2 v + (1
 * - beta2) g^2, and t = time_step, which starts at 1:
 *
 *     Adam     W -= learning_rate sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon)
 *     AdamW    the same, and W -= learning_rate regularization_scale W before it; AMSGrad: the largest v so far
 *     RMSProp  n = alpha n + (1 - alpha) g^2;  W -= learning_rate g / (sqrt(n) + epsilon)
 */

/** Update rule of an optimizer step; decides which struct of hyperparameters it takes. */
OPENBNNS_ENUM(BNNSOptimizerFunction) {
    BNNSOptimizerFunctionSGDMomentum = 1,
    BNNSOptimizerFunctionAdam = 2,
    BNNSOptimizerFunctionRMSProp = 3,
    BNNSOptimizerFunctionAdamW = 4,
    BNNSOptimizerFunctionAdamAMSGrad = 5,
    BNNSOptimizerFunctionAdamWAMSGrad = 6,
    BNNSOptimizerFunctionSGDMomentumWithClipping = 7,
    BNNSOptimizerFunctionAdamWithClipping = 8,
    BNNSOptimizerFunctionRMSPropWithClipping = 9,
    BNNSOptimizerFunctionAdamWWithClipping = 10,
    BNNSOptimizerFunctionAdamAMSGradWithClipping = 11,
    BNNSOptimizerFunctionAdamWAMSGradWithClipping = 12,
};

/** Penalty on the weights that an optimizer adds to the gradient. */
OPENBNNS_ENUM(BNNSOptimizerRegularizationFunction) {
    BNNSOptimizerRegularizationNone = 0,
    BNNSOptimizerRegularizationL1 = 1, /**< adds regularization_scale sign(W) to the gradient */
    BNNSOptimizerRegularizationL2 = 2, /**< adds regularization_scale W to the gradient */
};

/** Form of momentum of stochastic gradient descent. */
OPENBNNS_ENUM(BNNSOptimizerSGDMomentumVariant) {
    BNNSSGDMomentumVariant0 = 0, /**< V = m V - lr g; W += V */
    BNNSSGDMomentumVariant1 = 1, /**< V = m V + g; W -= lr V */
    BNNSSGDMomentumVariant2 = 2, /**< V = m V + lr g; W -= V */
};

/** Limit that an optimizer puts on gradients. */
OPENBNNS_ENUM(BNNSOptimizerClippingFunction) {
    BNNSOptimizerClippingNone = 0,
    BNNSOptimizerClippingByValue = 1, /**< each element to clip_gradients_min .. clip_gradients_max */
    BNNSOptimizerClippingByNorm = 2, /**< each gradient to the norm clip_gradients_max_norm */
    BNNSOptimizerClippingByGlobalNorm = 3, /**< all gradients together to that norm */
};

/** SGD-with-momentum hyperparameters. */
typedef struct BNNSOptimizerSGDMomentumFields {
    float learning_rate; /**< step size */
    float momentum; /**< velocity decay; 0 disables the accumulator */
    float gradient_scale; /**< factor on the loss gradient */
    float regularization_scale; /**< factor on the penalty gradient */
    bool clip_gradients; /**< clamp gradients to [min,max] */
    float clip_gradients_min; /**< lower bound */
    float clip_gradients_max; /**< upper bound */
    bool nesterov; /**< use the Nesterov form */
    BNNSOptimizerRegularizationFunction regularization_func; /**< weight penalty kind */
    BNNSOptimizerSGDMomentumVariant sgd_momentum_variant; /**< which of three update forms */
} BNNSOptimizerSGDMomentumFields;

/** SGD-with-momentum hyperparameters with selectable clipping. */
typedef struct BNNSOptimizerSGDMomentumWithClippingFields {
    float learning_rate; /**< step size */
    float momentum; /**< velocity decay; 0 disables the accumulator */
    float gradient_scale; /**< factor on the loss gradient */
    float regularization_scale; /**< factor on the penalty gradient */
    bool nesterov; /**< use the Nesterov form */
    BNNSOptimizerRegularizationFunction regularization_func; /**< weight penalty kind */
    BNNSOptimizerSGDMomentumVariant sgd_momentum_variant; /**< which of three update forms */
    BNNSOptimizerClippingFunction clipping_func; /**< gradient clipping rule */
    float clip_gradients_min; /**< lower bound for ByValue */
    float clip_gradients_max; /**< upper bound for ByValue */
    float clip_gradients_max_norm; /**< norm limit for ByNorm and ByGlobalNorm */
    float clip_gradients_use_norm; /**< known global norm for ByGlobalNorm; 0 means compute it */
} BNNSOptimizerSGDMomentumWithClippingFields;

/** Adam / AdamW / AMSGrad hyperparameters. */
typedef struct BNNSOptimizerAdamFields {
    float learning_rate; /**< step size */
    float beta1; /**< first-moment decay in [0,1) */
    float beta2; /**< second-moment decay in [0,1) */
    float time_step; /**< 1-based step number kept by the caller */
    float epsilon; /**< denominator term, used as the uncorrected epsilon-hat */
    float gradient_scale; /**< factor on the loss gradient */
    float regularization_scale; /**< penalty factor for Adam, decoupled weight decay for AdamW */
    bool clip_gradients; /**< clamp gradients to [min,max] */
    float clip_gradients_min; /**< lower bound */
    float clip_gradients_max; /**< upper bound */
    BNNSOptimizerRegularizationFunction regularization_func; /**< penalty kind for Adam; ignored by AdamW */
} BNNSOptimizerAdamFields;

/** Adam / AdamW / AMSGrad hyperparameters with selectable clipping. */
typedef struct BNNSOptimizerAdamWithClippingFields {
    float learning_rate; /**< step size */
    float beta1; /**< first-moment decay in [0,1) */
    float beta2; /**< second-moment decay in [0,1) */
    float time_step; /**< 1-based step number kept by the caller */
    float epsilon; /**< denominator term, used as the uncorrected epsilon-hat */
    float gradient_scale; /**< factor on the loss gradient */
    float regularization_scale; /**< penalty factor for Adam, decoupled weight decay for AdamW */
    BNNSOptimizerRegularizationFunction regularization_func; /**< penalty kind for Adam; ignored by AdamW */
    BNNSOptimizerClippingFunction clipping_func; /**< gradient clipping rule */
    float clip_gradients_min; /**< lower bound for ByValue */
    float clip_gradients_max; /**< upper bound for ByValue */
    float clip_gradients_max_norm; /**< norm limit for ByNorm and ByGlobalNorm */
    float clip_gradients_use_norm; /**< known global norm for ByGlobalNorm; 0 means compute it */
} BNNSOptimizerAdamWithClippingFields;

/** RMSProp hyperparameters. */
typedef struct BNNSOptimizerRMSPropFields {
    float learning_rate; /**< step size */
    float alpha; /**< smoothing constant of the running averages */
    float epsilon; /**< added outside the square root */
    bool centered; /**< subtract the squared mean gradient */
    float momentum; /**< velocity decay; 0 disables it */
    float gradient_scale; /**< factor on the loss gradient */
    float regularization_scale; /**< factor on the penalty gradient */
    bool clip_gradients; /**< clamp gradients to [min,max] */
    float clip_gradients_min; /**< lower bound */
    float clip_gradients_max; /**< upper bound */
    BNNSOptimizerRegularizationFunction regularization_func; /**< weight penalty kind */
} BNNSOptimizerRMSPropFields;

/** RMSProp hyperparameters with selectable clipping. */
typedef struct BNNSOptimizerRMSPropWithClippingFields {
    float learning_rate; /**< step size */
    float alpha; /**< smoothing constant of the running averages */
    float epsilon; /**< added outside the square root */
    bool centered; /**< subtract the squared mean gradient */
    float momentum; /**< velocity decay; 0 disables it */
    float gradient_scale; /**< factor on the loss gradient */
    float regularization_scale; /**< factor on the penalty gradient */
    BNNSOptimizerRegularizationFunction regularization_func; /**< weight penalty kind */
    BNNSOptimizerClippingFunction clipping_func; /**< gradient clipping rule */
    float clip_gradients_min; /**< lower bound for ByValue */
    float clip_gradients_max; /**< upper bound for ByValue */
    float clip_gradients_max_norm; /**< norm limit for ByNorm and ByGlobalNorm */
    float clip_gradients_use_norm; /**< known global norm for ByGlobalNorm; 0 means compute it */
} BNNSOptimizerRMSPropWithClippingFields;

/**
 * Update parameters in place by one step. OptimizerAlgFields points to the struct of the function, which is read at
 * each call; add 1 to time_step after each step, and do not forget gradient_scale, which is usually 1. All arrays are
 * packed.
 *
 * accumulators have the shapes of the parameters, start at zero, and are ordered by role, then by parameter: m of all
 * parameters, then v of all parameters. Per parameter there are: SGD 1, or none if momentum is 0 (accumulators may then
 * be NULL); Adam and AdamW 2 (m, v); AMSGrad 3 (m, v, largest v); RMSProp n, the mean gradient if centered, the
 * velocity if momentum is not 0.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSOptimizerStep(BNNSOptimizerFunction function, const void *OPENBNNS_NONNULL OptimizerAlgFields,
                      size_t number_of_parameters,
                      BNNSNDArrayDescriptor *OPENBNNS_NONNULL *OPENBNNS_NONNULL parameters,
                      const BNNSNDArrayDescriptor *OPENBNNS_NONNULL *OPENBNNS_NONNULL gradients,
                      BNNSNDArrayDescriptor *OPENBNNS_NULLABLE *accumulators,
                      const BNNSFilterParameters *filter_params);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Clipping and norms
 *
 * Bit d of axis_flags puts axis d inside the norm; 0 stands for all axes. Axes are counted in the order of size[], but
 * rows first in a RowMajorMatrix. dest may be src.
 */

/** Norm of the norm and clipping functions. */
OPENBNNS_ENUM(BNNSNormType) {
    BNNSL2Norm = 1,
};

/**
 * dest = min(max(src, min_val), max_val).
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSClipByValue(BNNSNDArrayDescriptor *OPENBNNS_NONNULL dest, const BNNSNDArrayDescriptor *OPENBNNS_NONNULL src,
                    float min_val, float max_val);

/**
 * dest = src * min(1, max_norm / norm(src)), separately for every position along the other axes.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSClipByNorm(BNNSNDArrayDescriptor *OPENBNNS_NONNULL dest, const BNNSNDArrayDescriptor *OPENBNNS_NONNULL src,
                   float max_norm, uint32_t axis_flags);

/**
 * dest[i] = src[i] * min(1, max_norm / G) for count arrays, where G is use_norm, or if that is 0, the norm of all
 * arrays together.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSClipByGlobalNorm(BNNSNDArrayDescriptor *OPENBNNS_NONNULL *OPENBNNS_NONNULL dest,
                         const BNNSNDArrayDescriptor *OPENBNNS_NONNULL *OPENBNNS_NONNULL src, size_t count,
                         float max_norm, float use_norm);

/**
 * dest = norm(src). dest does not have the axes inside the norm; over all axes it is a vector of size 1.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSComputeNorm(BNNSNDArrayDescriptor *OPENBNNS_NONNULL dest, const BNNSNDArrayDescriptor *OPENBNNS_NONNULL src,
                    BNNSNormType norm_type, uint32_t axis_flags);

/**
 * Gradient of the norm: in_delta = out_delta * in / out, 0 where out is 0. in and out are those of the forward call.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSComputeNormBackward(const void *OPENBNNS_NONNULL in, BNNSNDArrayDescriptor *OPENBNNS_NONNULL in_delta,
                            const void *OPENBNNS_NONNULL out, const BNNSNDArrayDescriptor *OPENBNNS_NONNULL out_delta,
                            BNNSNormType norm_type, uint32_t axis_flags);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Copying and comparing tensors
 *
 * Axes are counted in the order of size[], but rows first in a RowMajorMatrix.
 */

/** Comparison or logical operation on tensors. */
OPENBNNS_ENUM(BNNSRelationalOperator) {
    BNNSRelationalOperatorEqual = 0,
    BNNSRelationalOperatorLess = 1,
    BNNSRelationalOperatorLessEqual = 2,
    BNNSRelationalOperatorGreater = 3,
    BNNSRelationalOperatorGreaterEqual = 4,
    BNNSRelationalOperatorNotEqual = 5,
    BNNSRelationalOperatorLogicalAND = 6,
    BNNSRelationalOperatorLogicalOR = 7,
    BNNSRelationalOperatorLogicalNOT = 8, /**< of the first operand */
    BNNSRelationalOperatorLogicalNAND = 9,
    BNNSRelationalOperatorLogicalNOR = 10,
    BNNSRelationalOperatorLogicalXOR = 11,
};

/** Rearrangement between channels and space. */
OPENBNNS_ENUM(BNNSShuffleType) {
    BNNSShuffleTypePixelShuffleNCHW = 0, /**< out[n][c][h r + i][w r + j] = in[n][c r r + i r + j][h][w] */
    BNNSShuffleTypePixelUnshuffleNCHW = 1, /**< the inverse */
    BNNSShuffleTypeDepthToSpaceNCHW = 2, /**< out[n][c][h b + i][w b + j] = in[n][(i b + j) C + c][h][w] */
    BNNSShuffleTypeSpaceToDepthNCHW = 3, /**< the inverse */
};

/**
 * Copy src to dest, of the same shape; layouts, strides and element types may differ.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSCopy(BNNSNDArrayDescriptor *OPENBNNS_NONNULL dest, const BNNSNDArrayDescriptor *OPENBNNS_NONNULL src,
             const BNNSFilterParameters *filter_params);

/**
 * Copy src to dest with two axes (of size[]) swapped. The gradient is the same swap.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSTranspose(BNNSNDArrayDescriptor *OPENBNNS_NONNULL dest, const BNNSNDArrayDescriptor *OPENBNNS_NONNULL src,
                  size_t axis0, size_t axis1, const BNNSFilterParameters *filter_params);

/**
 * out = in0 op in1 per element; out is Boolean, all three of the same sizes. The logical operators take Booleans.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSCompareTensor(const BNNSNDArrayDescriptor *OPENBNNS_NONNULL in0,
                      const BNNSNDArrayDescriptor *OPENBNNS_NONNULL in1, BNNSRelationalOperator op,
                      BNNSNDArrayDescriptor *OPENBNNS_NONNULL out);

/**
 * Repeat input along its axes: every size of output is a multiple of that of input.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSTile(const BNNSNDArrayDescriptor *OPENBNNS_NONNULL input, BNNSNDArrayDescriptor *OPENBNNS_NONNULL output,
             const BNNSFilterParameters *filter_params);

/**
 * Gradient of BNNSTile: in_delta is the sum of out_delta over all copies.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSTileBackward(BNNSNDArrayDescriptor *OPENBNNS_NONNULL in_delta,
                     const BNNSNDArrayDescriptor *OPENBNNS_NONNULL out_delta,
                     const BNNSFilterParameters *filter_params);

/**
 * Move data between channels and blocks of pixels of 4DFirstMajor images [N][C][H][W]; the block follows from the
 * sizes.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSShuffle(BNNSShuffleType type, const BNNSNDArrayDescriptor *OPENBNNS_NONNULL input,
                BNNSNDArrayDescriptor *OPENBNNS_NONNULL output, const BNNSFilterParameters *filter_params);

/**
 * Keep element [i][j] of each matrix of the two fastest axes if i - j <= num_lower and j - i <= num_upper, and zero the
 * others. A negative number keeps the whole triangle.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSBandPart(int num_lower, int num_upper, const BNNSNDArrayDescriptor *OPENBNNS_NONNULL input,
                 BNNSNDArrayDescriptor *OPENBNNS_NONNULL output, const BNNSFilterParameters *filter_params);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Selecting and placing elements
 *
 * With an index out of range the call fails. Axes are counted in the order of size[], but rows first in a
 * RowMajorMatrix.
 */

/**
 * The K largest values along an axis, largest first; of equal values the first is preferred. best_values and
 * best_indices have K elements along the axis; best_indices may be NULL. The batch strides are distances from one
 * sample to the next.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSDirectApplyTopK(size_t K, size_t axis, size_t batch_size, const BNNSNDArrayDescriptor *OPENBNNS_NONNULL input,
                        size_t input_batch_stride, BNNSNDArrayDescriptor *OPENBNNS_NONNULL best_values,
                        size_t best_values_batch_stride, BNNSNDArrayDescriptor *best_indices,
                        size_t best_indices_batch_stride, const BNNSFilterParameters *filter_params);

/**
 * Whether the values at test_indices are among the K largest along an axis; all equal ones count. test_indices and
 * output have the shape of input without the axis; output is Boolean.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSDirectApplyInTopK(size_t K, size_t axis, size_t batch_size,
                          const BNNSNDArrayDescriptor *OPENBNNS_NONNULL input, size_t input_batch_stride,
                          const BNNSNDArrayDescriptor *OPENBNNS_NONNULL test_indices,
                          size_t test_indices_batch_stride, BNNSNDArrayDescriptor *OPENBNNS_NONNULL output,
                          size_t output_batch_stride, const BNNSFilterParameters *filter_params);

/**
 *     output[.., j, ..] = input[.., indices[j], ..]
 *
 * for a vector of indices; indices with the shape of output pick single elements.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSGather(size_t axis, const BNNSNDArrayDescriptor *OPENBNNS_NONNULL input,
               const BNNSNDArrayDescriptor *OPENBNNS_NONNULL indices, BNNSNDArrayDescriptor *OPENBNNS_NONNULL output,
               const BNNSFilterParameters *filter_params);

/**
 *     output[.., indices[j], ..] = input[.., j, ..]  (op None)  or  += (op Sum)
 *
 * All other entries keep their values. With None, the last of several elements with the same index wins.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSScatter(size_t axis, BNNSReduceFunction op, const BNNSNDArrayDescriptor *OPENBNNS_NONNULL input,
                const BNNSNDArrayDescriptor *OPENBNNS_NONNULL indices, BNNSNDArrayDescriptor *OPENBNNS_NONNULL output,
                const BNNSFilterParameters *filter_params);

/**
 * Pick elements or slices: the last axis of indices holds an index vector, of length L. output has the other axes of
 * indices, then the axes of input beyond the first L.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSGatherND(const BNNSNDArrayDescriptor *OPENBNNS_NONNULL input,
                 const BNNSNDArrayDescriptor *OPENBNNS_NONNULL indices,
                 BNNSNDArrayDescriptor *OPENBNNS_NONNULL output, const BNNSFilterParameters *filter_params);

/**
 * Write (op None) or add (op Sum) elements or slices of input at the positions that index vectors name, as for
 * BNNSGatherND; all other elements of output keep their values.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSScatterND(BNNSReduceFunction op, const BNNSNDArrayDescriptor *OPENBNNS_NONNULL input,
                  const BNNSNDArrayDescriptor *OPENBNNS_NONNULL indices,
                  BNNSNDArrayDescriptor *OPENBNNS_NONNULL output, const BNNSFilterParameters *filter_params);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Crop and resize
 *
 * Images {W, H, C, N} as 4DLastMajor, boxes {4, boxes} as 2DLastMajor, output {W', H', C, N, boxes} as 5DLastMajor.
 */

/** Placement of the sample points of crop-and-resize. */
OPENBNNS_ENUM(BNNSLinearSamplingMode) {
    BNNSLinearSamplingDefault = 0, /**< position i of n in a box of length L: i (L + 1 - (L + 1) / n) / (n - 1) */
    BNNSLinearSamplingAlignCorners = 1, /**< i L / (n - 1), L / 2 if n is 1 */
    BNNSLinearSamplingUnalignCorners = 2, /**< (i + 0.5) (L + 1) / n - 0.5 */
    BNNSLinearSamplingStrictAlignCorners = 3, /**< i L / (n - 1) */
    BNNSLinearSamplingOffsetCorners = 4, /**< (i + 0.5) max(1, L) / n */
};

/** Meaning of the four numbers of a box. */
OPENBNNS_ENUM(BNNSBoxCoordinateMode) {
    BNNSCornersHeightFirst = 0, /**< top, left, bottom, right */
    BNNSCornersWidthFirst = 1, /**< left, top, right, bottom */
    BNNSCenterSizeHeightFirst = 2, /**< centre y, centre x, height, width */
    BNNSCenterSizeWidthFirst = 3, /**< centre x, centre y, width, height */
};

/** Region-of-interest crop and bilinear resize; tensors are passed to the call. */
typedef struct BNNSLayerParametersCropResize {
    bool normalized_coordinates; /**< boxes are in 0..1 */
    float spatial_scale; /**< factor on box coordinates */
    float extrapolation_value; /**< value outside the image */
    BNNSLinearSamplingMode sampling_mode; /**< grid placement */
    BNNSBoxCoordinateMode box_coordinate_mode; /**< meaning of the four box numbers */
    BNNSInterpolationMethod method; /**< only linear is documented as working */
} BNNSLayerParametersCropResize;

/**
 * Cut boxes out of images and sample them bilinearly; positions outside the image give extrapolation_value.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSCropResize(const BNNSLayerParametersCropResize *OPENBNNS_NONNULL layer_params,
                   const BNNSNDArrayDescriptor *OPENBNNS_NONNULL input,
                   const BNNSNDArrayDescriptor *OPENBNNS_NONNULL roi, BNNSNDArrayDescriptor *OPENBNNS_NONNULL output,
                   const BNNSFilterParameters *filter_params);

/**
 * Gradient with respect to the images: each element of out_delta goes to the pixels it was computed from, with the same
 * weights.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSCropResizeBackward(const BNNSLayerParametersCropResize *OPENBNNS_NONNULL layer_params,
                           BNNSNDArrayDescriptor *OPENBNNS_NONNULL in_delta,
                           const BNNSNDArrayDescriptor *OPENBNNS_NONNULL roi,
                           const BNNSNDArrayDescriptor *OPENBNNS_NONNULL out_delta,
                           const BNNSFilterParameters *filter_params);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Random numbers
 *
 * The same seed gives the same numbers on every machine. Threads may share a generator; for reproducible numbers, give
 * each thread its own.
 */

/** Algorithm of a random generator. */
OPENBNNS_ENUM(BNNSRandomGeneratorMethod) {
    BNNSRandomGeneratorMethodAES_CTR = 0,
};

/**
 * A generator with a seed that differs from call to call.
 *
 * Returns the generator, or NULL on failure.
 */
BNNSRandomGenerator BNNSCreateRandomGenerator(BNNSRandomGeneratorMethod method,
                                              const BNNSFilterParameters *filter_params);

/**
 * A generator with the given seed.
 *
 * Returns the generator, or NULL on failure.
 */
BNNSRandomGenerator BNNSCreateRandomGeneratorWithSeed(BNNSRandomGeneratorMethod method, uint64_t seed,
                                                      const BNNSFilterParameters *filter_params);

/** Release a generator. NULL does nothing. */
void BNNSDestroyRandomGenerator(BNNSRandomGenerator generator);

/**
 * Bytes of a saved state.
 *
 * Returns the number, or 0 on failure.
 */
size_t BNNSRandomGeneratorStateSize(BNNSRandomGenerator generator);

/**
 * Save the state to a buffer of at least BNNSRandomGeneratorStateSize bytes.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSRandomGeneratorGetState(BNNSRandomGenerator generator, size_t state_size, void *state);

/**
 * Restore a saved state: the numbers that followed it are repeated.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSRandomGeneratorSetState(BNNSRandomGenerator generator, size_t state_size, void *state);

/**
 * Fill an array with floats uniform on [a, b].
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSRandomFillUniformFloat(BNNSRandomGenerator generator, BNNSNDArrayDescriptor *OPENBNNS_NONNULL desc, float a,
                               float b);

/**
 * Fill an array with integers uniform on [a, b): b is never drawn.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSRandomFillUniformInt(BNNSRandomGenerator generator, BNNSNDArrayDescriptor *OPENBNNS_NONNULL desc, int64_t a,
                             int64_t b);

/**
 * Fill an array with normally distributed floats.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSRandomFillNormalFloat(BNNSRandomGenerator generator, BNNSNDArrayDescriptor *OPENBNNS_NONNULL desc, float mean,
                              float stddev);

/**
 * Fill an array with category numbers 0 to K - 1, stored as floats. probabilities has the same axes and an innermost
 * one of K weights, or of their logarithms; they need not add up to 1.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSRandomFillCategoricalFloat(BNNSRandomGenerator generator, const BNNSNDArrayDescriptor *OPENBNNS_NONNULL desc,
                                   const BNNSNDArrayDescriptor *OPENBNNS_NONNULL probabilities,
                                   bool log_probabilities);

/* ------------------------------------------------------------------------------------------------------------------ */
/* Nearest neighbours */

/**
 * A store of up to max_n_samples points of n_features numbers, Float32 or Float16, for the n_neighbors nearest by
 * Euclidean distance.
 *
 * Returns the store, or NULL on failure.
 */
BNNSNearestNeighbors BNNSCreateNearestNeighbors(unsigned int max_n_samples, unsigned int n_features,
                                                unsigned int n_neighbors, BNNSDataType data_type,
                                                const BNNSFilterParameters *filter_params);

/** Release a store. NULL does nothing. */
void BNNSDestroyNearestNeighbors(BNNSNearestNeighbors knn);

/**
 * Append points, packed [n_new_samples][n_features]. They are copied.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSNearestNeighborsLoad(BNNSNearestNeighbors knn, unsigned int n_new_samples, const void *data_ptr);

/**
 * The n_neighbors points nearest to a stored one, itself included, nearest first; for all points,
 * [points][n_neighbors], if sample_number is negative. indices and distances (in the type of the points) may be NULL.
 * If there are fewer points, the remaining indices are -1 and the distances infinite.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSNearestNeighborsGetInfo(BNNSNearestNeighbors knn, int sample_number, int *indices, void *distances);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * First generation
 *
 * The calls of macOS 10.12, which take shapes separately from the layer: no dilation, no groups, symmetric padding. The
 * filters they create are applied like all others.
 */

/** First-generation image stack (no data pointer). */
typedef struct BNNSImageStackDescriptor {
    size_t width; /**< columns */
    size_t height; /**< rows */
    size_t channels; /**< images in the stack */
    size_t row_stride; /**< elements between rows */
    size_t image_stride; /**< elements between channels */
    BNNSDataType data_type; /**< element type (not Indexed) */
    float data_scale; /**< integer-to-float factor */
    float data_bias; /**< integer-to-float addend */
} BNNSImageStackDescriptor;

/** First-generation vector (no data pointer). */
typedef struct BNNSVectorDescriptor {
    size_t size; /**< length */
    BNNSDataType data_type; /**< element type (not Indexed) */
    float data_scale; /**< integer-to-float factor */
    float data_bias; /**< integer-to-float addend */
} BNNSVectorDescriptor;

/** First-generation weights or bias blob. */
typedef struct BNNSLayerData {
    const void *OPENBNNS_NULLABLE data; /**< values */
    BNNSDataType data_type; /**< element type */
    float data_scale; /**< integer-to-float factor */
    float data_bias; /**< integer-to-float addend */
    const float *OPENBNNS_NULLABLE data_table; /**< 256-entry table for Indexed types */
} BNNSLayerData;

/** First-generation convolution. */
typedef struct BNNSConvolutionLayerParameters {
    size_t x_stride; /**< horizontal step */
    size_t y_stride; /**< vertical step */
    size_t x_padding; /**< columns added each side */
    size_t y_padding; /**< rows added each side */
    size_t k_width; /**< kernel width */
    size_t k_height; /**< kernel height */
    size_t in_channels; /**< input channels */
    size_t out_channels; /**< output channels */
    BNNSLayerData weights; /**< kernel values */
    BNNSLayerData bias; /**< one per output channel */
    BNNSActivation activation; /**< activation */
} BNNSConvolutionLayerParameters;

/** First-generation fully connected. */
typedef struct BNNSFullyConnectedLayerParameters {
    size_t in_size; /**< inputs */
    size_t out_size; /**< outputs */
    BNNSLayerData weights; /**< matrix */
    BNNSLayerData bias; /**< one per output */
    BNNSActivation activation; /**< activation */
} BNNSFullyConnectedLayerParameters;

/** First-generation pooling. */
typedef struct BNNSPoolingLayerParameters {
    size_t x_stride; /**< horizontal step */
    size_t y_stride; /**< vertical step */
    size_t x_padding; /**< columns added each side */
    size_t y_padding; /**< rows added each side */
    size_t k_width; /**< kernel width */
    size_t k_height; /**< kernel height */
    size_t in_channels; /**< input channels */
    size_t out_channels; /**< output channels */
    BNNSPoolingFunction pooling_function; /**< window reduction */
    BNNSLayerData bias; /**< one per output channel */
    BNNSActivation activation; /**< activation */
} BNNSPoolingLayerParameters;

/**
 * Build a convolution filter; weights [out_channels][in_channels][k_height][k_width], NULL bias.data: no bias.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateConvolutionLayer(const BNNSImageStackDescriptor *OPENBNNS_NONNULL in_desc,
                                            const BNNSImageStackDescriptor *OPENBNNS_NONNULL out_desc,
                                            const BNNSConvolutionLayerParameters *OPENBNNS_NONNULL layer_params,
                                            const BNNSFilterParameters *filter_params);

/**
 * Build a fully connected filter; weights [out_size][in_size], NULL bias.data: no bias.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateFullyConnectedLayer(const BNNSVectorDescriptor *OPENBNNS_NONNULL in_desc,
                                               const BNNSVectorDescriptor *OPENBNNS_NONNULL out_desc,
                                               const BNNSFullyConnectedLayerParameters *OPENBNNS_NONNULL layer_params,
                                               const BNNSFilterParameters *filter_params);

/**
 * Build a pooling filter; NULL bias.data: no bias.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreatePoolingLayer(const BNNSImageStackDescriptor *OPENBNNS_NONNULL in_desc,
                                        const BNNSImageStackDescriptor *OPENBNNS_NONNULL out_desc,
                                        const BNNSPoolingLayerParameters *OPENBNNS_NONNULL layer_params,
                                        const BNNSFilterParameters *filter_params);

/**
 * Build a filter that applies an activation to a vector, or converts its element type.
 *
 * Returns the filter, or NULL on failure.
 */
BNNSFilter BNNSFilterCreateVectorActivationLayer(const BNNSVectorDescriptor *OPENBNNS_NONNULL in_desc,
                                                 const BNNSVectorDescriptor *OPENBNNS_NONNULL out_desc,
                                                 const BNNSActivation *OPENBNNS_NONNULL activation,
                                                 const BNNSFilterParameters *filter_params);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Graphs: compiling
 *
 * A graph is a Core ML program in compiled form: compile it, make a context, execute. Functions that return a count or
 * a position return SIZE_MAX on failure, those that return a struct one whose data is NULL. openbnns_last_error() says
 * what was wrong, and message callbacks say where.
 *
 * Ten functions have a second name that ends in _v2, because bindings for other languages call them by it.
 */

/** Kind of a message of a graph; masks choose kinds, and are 14 unless set. */
OPENBNNS_ENUM(BNNSGraphMessageLevel) {
    BNNSGraphMessageLevelInfo = 0x1,
    BNNSGraphMessageLevelUnsupported = 0x2,
    BNNSGraphMessageLevelWarning = 0x4,
    BNNSGraphMessageLevelError = 0x8,
};

/** The aim of a compilation: speed, or a small graph. */
OPENBNNS_ENUM(BNNSGraphOptimizationPreference) {
    BNNSGraphOptimizationPreferencePerformance = 0,
    BNNSGraphOptimizationPreferenceIRSize = 1,
};

/** A compiled graph: one block of memory, which never changes and may be written to a file. */
typedef struct bnns_graph_t {
    void *OPENBNNS_NULLABLE data; /**< the block; NULL for a graph that could not be compiled */
    size_t size; /**< its bytes */
} bnns_graph_t;

/** Shapes, states and callbacks around a graph, for one thread at a time. */
typedef struct bnns_graph_context_t {
    void *OPENBNNS_NULLABLE data; /**< the context; NULL for one that could not be made */
    size_t size; /**< not 0 for a context that could be made */
} bnns_graph_context_t;

/** Options of a compilation; all zero stands for the defaults. */
typedef struct bnns_graph_compile_options_t {
    void *OPENBNNS_NULLABLE data; /**< the options; NULL for the defaults */
    size_t size; /**< not 0 for options that could be made */
} bnns_graph_compile_options_t;

/** Data of a program that is passed to its message callback. */
typedef struct bnns_user_message_data_t {
    size_t size; /**< its bytes */
    void *OPENBNNS_NULLABLE data; /**< the memory */
} bnns_user_message_data_t;

/**
 * Allocates memory for *memptr, which is NULL at first, or changes its size, as realloc does, but aligned; 0 is success.
 */
typedef int (*bnns_graph_realloc_fn_t)(void *user_memory_context, size_t user_memory_context_size, void **memptr,
                                       size_t alignment, size_t size);
/** Frees everything that was allocated with the same user_memory_context. */
typedef void (*bnns_graph_free_all_fn_t)(void *user_memory_context, size_t user_memory_context_size);
/** Takes a message of the compiler; source_location is file:line:column, or NULL. */
typedef void (*bnns_graph_compile_message_fn_t)(BNNSGraphMessageLevel msg_level, const char *error_msg,
                                                const char *source_location,
                                                bnns_user_message_data_t *additional_logging_arguments);
/** Takes a message of an execution; op_info names an operation, or is NULL. */
typedef void (*bnns_graph_execute_message_fn_t)(BNNSGraphMessageLevel msg_level, const char *error_msg,
                                                const char *op_info,
                                                bnns_user_message_data_t *additional_logging_arguments);

/**
 * Options: several threads, no debug information, speed preferred, the graph in memory. Destroy them after use.
 *
 * Returns the options; data is NULL on failure.
 */
bnns_graph_compile_options_t BNNSGraphCompileOptionsMakeDefault(void);

/** Release options. Options whose data is NULL are ignored. */
void BNNSGraphCompileOptionsDestroy(bnns_graph_compile_options_t options);

/** Whether executions use one thread only. False unless set. */
void BNNSGraphCompileOptionsSetTargetSingleThread(bnns_graph_compile_options_t options, bool value);

/**
 * Whether executions use one thread only.
 *
 * Returns the setting; that of default options on failure.
 */
bool BNNSGraphCompileOptionsGetTargetSingleThread(bnns_graph_compile_options_t options);

/** Whether messages of executions name the places of operations in the program. False unless set. */
void BNNSGraphCompileOptionsSetGenerateDebugInfo(bnns_graph_compile_options_t options, bool value);

/**
 * Whether messages of executions name the places of operations in the program.
 *
 * Returns the setting; that of default options on failure.
 */
bool BNNSGraphCompileOptionsGetGenerateDebugInfo(bnns_graph_compile_options_t options);

/** Whether speed or a small graph is preferred. Has no effect here: graphs keep weights as the program stores them. */
void BNNSGraphCompileOptionsSetOptimizationPreference(bnns_graph_compile_options_t options,
                                                      BNNSGraphOptimizationPreference preference);

/**
 * Whether speed or a small graph is preferred.
 *
 * Returns the setting; that of default options on failure.
 */
BNNSGraphOptimizationPreference BNNSGraphCompileOptionsGetOptimizationPreference(bnns_graph_compile_options_t options);

/**
 * Pass messages of the compiler to log_callback, and additional_logging_arguments, which may be NULL, with them. A NULL
 * log_callback resets it.
 */
void BNNSGraphCompileOptionsSetMessageLogCallback(bnns_graph_compile_options_t options,
                                                  bnns_graph_compile_message_fn_t log_callback,
                                                  bnns_user_message_data_t *additional_logging_arguments);

/**
 * The levels of messages that the callback is called for: bits of BNNSGraphMessageLevel. All but information unless
 * set.
 */
void BNNSGraphCompileOptionsSetMessageLogMask(bnns_graph_compile_options_t options, uint32_t log_level_mask);

/**
 * Write the graph to a file, readable by its owner only, which is then mapped: release the graph with munmap(data,
 * size). The path is copied; a NULL path resets it.
 */
void BNNSGraphCompileOptionsSetOutputPath(bnns_graph_compile_options_t options, const char *path);

/**
 * The path that was set, or NULL. It is valid as long as the options are, and until another path is set.
 *
 * Returns the setting; that of default options on failure.
 */
const char *BNNSGraphCompileOptionsGetOutputPath(bnns_graph_compile_options_t options);

/**
 * The same with a file that is open for reading and writing, which is cut to the size of the graph; this overrides a
 * path. -1 resets it.
 */
void BNNSGraphCompileOptionsSetOutputFD(bnns_graph_compile_options_t options, int fd);

/**
 * The descriptor that was set, or -1.
 *
 * Returns the setting; that of default options on failure.
 */
int BNNSGraphCompileOptionsGetOutputFD(bnns_graph_compile_options_t options);

/**
 * Compile a function of an ML program, or all of them if function is NULL or "". The file is an .mlmodelc folder, the
 * model.mil in it, or an .mlpackage. Release the graph with free(data), or with munmap(data, size) if the options name
 * a file.
 *
 * Returns the graph; data is NULL on failure.
 */
bnns_graph_t BNNSGraphCompileFromFile(const char *filename, const char *function,
                                      bnns_graph_compile_options_t options);
bnns_graph_t BNNSGraphCompileFromFile_v2(const char *filename, const char *function,
                                         bnns_graph_compile_options_t options);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Graphs: functions and arguments
 *
 * Arguments of a function stand in the order of BNNSGraphGetArgumentNames: outputs first, then inputs and states, each
 * in the order of the program. A function that is NULL or "" is the only one of the graph, or its default function.
 * Names belong to the graph. If there is room for fewer than there are, as many are written.
 */

/** The use of an argument by a function of a graph: read, written, or both, as for a state. */
OPENBNNS_ENUM(BNNSGraphArgumentIntent) {
    BNNSGraphArgumentIntentIn = 1,
    BNNSGraphArgumentIntentOut = 2,
    BNNSGraphArgumentIntentInOut = 3,
};

/**
 * Number of inputs, states included, of a function (or NULL).
 *
 * Returns the number, or SIZE_MAX on failure.
 */
size_t BNNSGraphGetInputCount(bnns_graph_t graph, const char *function);

/**
 * Number of outputs of a function (or NULL).
 *
 * Returns the number, or SIZE_MAX on failure.
 */
size_t BNNSGraphGetOutputCount(bnns_graph_t graph, const char *function);

/**
 * Number of outputs and inputs of a function (or NULL).
 *
 * Returns the number, or SIZE_MAX on failure.
 */
size_t BNNSGraphGetArgumentCount(bnns_graph_t graph, const char *function);

/**
 * Number of functions of a graph.
 *
 * Returns the number, or SIZE_MAX on failure.
 */
size_t BNNSGraphGetFunctionCount(bnns_graph_t graph);

/**
 * Names of the inputs of a function (or NULL).
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSGraphGetInputNames(bnns_graph_t graph, const char *function, size_t input_names_count,
                           const char **input_names);
int BNNSGraphGetInputNames_v2(bnns_graph_t graph, const char *function, size_t input_names_count,
                              const char **input_names);

/**
 * Names of the outputs of a function (or NULL).
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSGraphGetOutputNames(bnns_graph_t graph, const char *function, size_t output_names_count,
                            const char **output_names);
int BNNSGraphGetOutputNames_v2(bnns_graph_t graph, const char *function, size_t output_names_count,
                               const char **output_names);

/**
 * Names of the arguments of a function (or NULL): outputs, then inputs.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSGraphGetArgumentNames(bnns_graph_t graph, const char *function, size_t argument_names_count,
                              const char **argument_names);

/**
 * Names of the functions of a graph.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSGraphGetFunctionNames(bnns_graph_t graph, size_t function_name_count, const char **function_names);

/**
 * For each argument of a function (or NULL): read, written, or both, as a state is.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSGraphGetArgumentIntents(bnns_graph_t graph, const char *function, size_t argument_intents_count,
                                BNNSGraphArgumentIntent *argument_intents);

/**
 * Position of an argument of a function (or NULL) among arguments[].
 *
 * Returns the number, or SIZE_MAX on failure.
 */
size_t BNNSGraphGetArgumentPosition(bnns_graph_t graph, const char *function, const char *argument);

/**
 * Interleave factors and their number for each argument of a function (or NULL): NULL and 0 for all that are plain
 * tensors.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSGraphGetArgumentInterleaveFactors(bnns_graph_t graph, const char *function, size_t argument_count,
                                          const uint16_t **argument_interleave, size_t *argument_interleave_counts);

/**
 * Fill stride[] of a tensor from its shape[], which must be known, as an argument of a function (or NULL) takes it:
 * contiguous.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSGraphTensorFillStrides(bnns_graph_t graph, const char *function, const char *argument, BNNSTensor *tensor);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Graphs: contexts and execution
 *
 * A context belongs to one thread at a time and must not outlive its graph; several contexts can share a graph. Sizes
 * that the program leaves open are set before an execution, or come with tensors as arguments.
 */

/** Form of the arguments of an execution. */
OPENBNNS_ENUM(BNNSGraphArgumentType) {
    BNNSGraphArgumentTypePointer = 0,
    BNNSGraphArgumentTypeTensor = 2,
};

/** Shape of an argument of a graph, outermost axis first. */
typedef struct bnns_graph_shape_t {
    size_t rank; /**< number of axes; 0 stands for the shape that the model says */
    /** sizes; 0 stands for the default of the model, and in an output for a size that depends on values */
    uint64_t *OPENBNNS_NULLABLE shape;
} bnns_graph_shape_t;

/** An argument of an execution: a tensor or plain memory, as the type of arguments of the context says. */
typedef struct bnns_graph_argument_t {
    union {
        BNNSTensor *OPENBNNS_NULLABLE tensor; /**< the argument, if arguments are tensors */
        BNNSNDArrayDescriptor *OPENBNNS_NULLABLE descriptor; /**< not supported: a form that BNNSGraph has given up */
        void *OPENBNNS_NULLABLE data_ptr; /**< the argument, if arguments are pointers: contiguous elements */
    };
    size_t data_ptr_size; /**< bytes behind data_ptr */
} bnns_graph_argument_t;

/**
 * Make a context for all functions of a graph. Destroy it after use.
 *
 * Returns the context; data is NULL on failure.
 */
bnns_graph_context_t BNNSGraphContextMake(bnns_graph_t graph);

/**
 * Make a context that keeps the states of a function (or NULL) in ring buffers, which advance after every execution.
 * The function must say StateMode = Streaming among its BNNSOptions. initial_states, which may be NULL, are matched by
 * name; other states begin with zeros.
 *
 * Returns the context; data is NULL on failure.
 */
bnns_graph_context_t BNNSGraphContextMakeStreaming(bnns_graph_t graph, const char *function,
                                                   size_t initial_states_count, const BNNSTensor *initial_states);

/** Release a context and the outputs that it has allocated. A context whose data is NULL is ignored. */
void BNNSGraphContextDestroy(bnns_graph_context_t context);
void BNNSGraphContextDestroy_v2(bnns_graph_context_t context);

/**
 * Set the shapes of all arguments of a function (or NULL): an entry of rank 0, and a size of 0, stand for what the
 * model says. Entries of outputs that have a rank receive the shapes that follow, 0 for a size that depends on values.
 *
 * Returns 0 if all shapes are exact, 1 if they are upper bounds, 2 if some are not bounded, or a negative number on
 * failure.
 */
int BNNSGraphContextSetDynamicShapes(bnns_graph_context_t context, const char *function, size_t shapes_count,
                                     bnns_graph_shape_t *shapes);
int BNNSGraphContextSetDynamicShapes_v2(bnns_graph_context_t context, const char *function, size_t shapes_count,
                                        bnns_graph_shape_t *shapes);

/**
 * Set all open sizes of a function (or NULL), which must be those of first axes.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSGraphContextSetBatchSize(bnns_graph_context_t context, const char *function, uint64_t batch_size);
int BNNSGraphContextSetBatchSize_v2(bnns_graph_context_t context, const char *function, uint64_t batch_size);

/**
 * Whether arguments are pointers, which is the default, or tensors.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSGraphContextSetArgumentType(bnns_graph_context_t context, BNNSGraphArgumentType argument_type);

/**
 * Whether executions look for NaN and infinity in every tensor that they compute, and log a message for each that has
 * one. Slow.
 */
void BNNSGraphContextEnableNanAndInfChecks(bnns_graph_context_t context, bool enable_check_for_nans_inf);

/**
 * By how much the ring buffers advance after the next executions, where the program leaves the size of an update open.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSGraphContextSetStreamingAdvanceCount(bnns_graph_context_t context, size_t advance_count);

/**
 * Run a function (or NULL). An output whose data is NULL is allocated by the context, which uses the memory again for
 * the next execution. workspace is not needed and may be NULL with a size of 0.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSGraphContextExecute(bnns_graph_context_t context, const char *function, size_t argument_count,
                            bnns_graph_argument_t *arguments, size_t workspace_size, char *workspace);
int BNNSGraphContextExecute_v2(bnns_graph_context_t context, const char *function, size_t argument_count,
                               bnns_graph_argument_t *arguments, size_t workspace_size, char *workspace);

/**
 * Bytes of workspace for a function (or NULL): one page, which execution does not need. Fails while sizes are open.
 *
 * Returns the number, or SIZE_MAX on failure.
 */
size_t BNNSGraphContextGetWorkspaceSize(bnns_graph_context_t context, const char *function);
size_t BNNSGraphContextGetWorkspaceSize_v2(bnns_graph_context_t context, const char *function);

/**
 * Describe an argument of a function (or NULL): all but data and data_size_in_bytes, with -1 for a size that is not
 * known. Sizes that have been set, or have a default, are known if fill_known_dynamic_shapes says so.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSGraphContextGetTensor(bnns_graph_context_t context, const char *function, const char *argument,
                              bool fill_known_dynamic_shapes, BNNSTensor *tensor);

/**
 * Set the functions that allocate workspace, both or none: NULL realloc and free reset them. As no workspace is needed,
 * they are not called, but for free, with user_memory_context (which may be NULL), when the context is destroyed.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSGraphContextSetWorkspaceAllocationCallback(bnns_graph_context_t context, bnns_graph_realloc_fn_t realloc,
                                                   bnns_graph_free_all_fn_t free, size_t user_memory_context_size,
                                                   void *user_memory_context);
int BNNSGraphContextSetWorkspaceAllocationCallback_v2(bnns_graph_context_t context, bnns_graph_realloc_fn_t realloc,
                                                      bnns_graph_free_all_fn_t free, size_t user_memory_context_size,
                                                      void *user_memory_context);

/**
 * Set the functions that allocate outputs, both or none: NULL realloc and free reset them. free is called once for each
 * user_memory_context (which may be NULL) when the context is destroyed.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSGraphContextSetOutputAllocationCallback(bnns_graph_context_t context, bnns_graph_realloc_fn_t realloc,
                                                bnns_graph_free_all_fn_t free, size_t user_memory_context_size,
                                                void *user_memory_context);
int BNNSGraphContextSetOutputAllocationCallback_v2(bnns_graph_context_t context, bnns_graph_realloc_fn_t realloc,
                                                   bnns_graph_free_all_fn_t free, size_t user_memory_context_size,
                                                   void *user_memory_context);

/**
 * Pass messages of executions to log_callback_fn, and additional_logging_arguments, which may be NULL, with them. A
 * NULL log_callback_fn resets it.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSGraphContextSetMessageLogCallback(bnns_graph_context_t context,
                                          bnns_graph_execute_message_fn_t log_callback_fn,
                                          bnns_user_message_data_t *additional_logging_arguments);

/**
 * The levels of messages that the callback is called for: bits of BNNSGraphMessageLevel. All but information unless
 * set.
 *
 * Returns 0, or a negative number on failure.
 */
int BNNSGraphContextSetMessageLogMask(bnns_graph_context_t context, uint32_t log_level_mask);

/* ------------------------------------------------------------------------------------------------------------------ */
/*
 * Graphs: describing them operation by operation
 *
 * A builder makes a graph without a file: add arguments, constants and operations, then compile the tensors that are
 * outputs. These names are ours. The operations are those of Swift's BNNSGraph.Builder, under the names that
 * openbnns.graph.Builder and its tensors have in Python. Each is written in JSON:
 *
 *     {"operation": "argument", "arguments": {"name": "x", "data_type": 65568, "shape": [-1, 3]}}
 *     {"operation": "constant", "arguments": {"data_type": 65568, "shape": [3]}}
 *     {"operation": "add", "tensor": 0, "arguments": {"y": {"tensor": 1}}}
 *     {"operation": "softmax", "tensor": 2, "arguments": {"axis": -1}}
 *
 * "tensor" is the number of the tensor that the operation belongs to; arguments that are tensors are written {"tensor":
 * number}, and a "data_type", also that of "cast", is a number of BNNSDataType. The operators are "add", "subtract",
 * "multiply", "divide", "remainder", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "and",
 * "or", "xor" and "not". "slice" and "slice_update" have a "place", a list with a number, {"start": 0, "stop": -1,
 * "step": 1} (or null for each) or "fill", for all that is left, per axis; "slice_update" also has an "update", and its
 * result is the changed tensor.
 *
 * A builder belongs to one thread at a time.
 */

/**
 * Begin a graph. Destroy the builder after use.
 *
 * Returns the builder, or NULL on failure.
 */
openbnns_graph_builder openbnns_graph_builder_make(void);

/**
 * Add an operation. Tensors are numbered from 0 in the order in which they are made, so that further results of an
 * operation have the numbers that follow. data, data_size bytes, are the elements of a constant, which are copied; NULL
 * for everything else.
 *
 * Returns the number, or -1 on failure.
 */
int64_t openbnns_graph_builder_add(openbnns_graph_builder builder, const char *operation, const void *data,
                                   size_t data_size);

/**
 * Describe a tensor: its type, rank, shape and strides, with -1 for those that an open size leaves open.
 *
 * Returns 0, or a negative number on failure.
 */
int openbnns_graph_builder_get_tensor(openbnns_graph_builder builder, int64_t number, BNNSTensor *tensor);

/**
 * Compile the graph that computes these tensors, its only function main. Outputs come first among its arguments, then
 * arguments in the order in which they were added. Release its memory as that of any graph.
 *
 * Returns the graph; data is NULL on failure.
 */
bnns_graph_t openbnns_graph_builder_compile(openbnns_graph_builder builder, size_t output_count,
                                            const int64_t *outputs, bnns_graph_compile_options_t options);

/** Release a builder. NULL is ignored; graphs that it has compiled stay. */
void openbnns_graph_builder_destroy(openbnns_graph_builder builder);

#ifdef __cplusplus
}
#endif

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

#endif /* OPENBNNS_BNNS_H */
