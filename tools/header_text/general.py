"""The text of the header on everything that filters share."""

from __future__ import annotations

from . import Section

OPENING = """
OpenBNNS: the C interface of classic BNNS for Linux.

    cc program.c $(openbnns c-flags)

builds a program that includes this file, <Accelerate/Accelerate.h> or <vecLib/BNNS/bnns.h>. Names, numbers and layouts
are those of BNNS; the comments are ours.

A filter is one layer: create it from a description, apply it forward and backward to memory that you own, destroy it.
Creation returns NULL for a description that is invalid or not supported; the other calls return a negative number. On
failure no output has changed, and openbnns_last_error() says what was wrong: the function, the field or argument, what
was expected, what was passed, and what to do. OPENBNNS_LOG=1 in the environment prints every such message on stderr.

Shapes are written in C order, the last axis fastest: x [N][C][H][W]. The order of a descriptor's size[] depends on its
layout and is mostly the reverse: {W, H, C} for an image. In formulas x is the input, y the output, f the activation, z
the value before it, and dx, dy, dw, db are gradients; dz = f'(z) dy.

These rules apply to all calls:

- Strides count elements, not bytes. A batch stride is the distance from one sample to the next; 0 stands for the packed
  size of a sample.
- A gradient descriptor describes one sample (or the parameter) and points to the first. Its flags say whether the
  gradient overwrites the buffer or is added to it. A NULL gradient is not computed. Gradients of parameters are summed
  over the batch.
- A call with a NULL filter, or with one that has been destroyed, fails; destroying NULL does nothing.
- filter_params may be NULL everywhere: no flags, threads chosen by the library, memory from posix_memalign.
- Calls may be made from any thread. Several threads may apply a filter at once, unless it keeps something from its
  forward call for its backward call: normalization in training, fused filters in training, dropout.
- A buffer that is smaller than its descriptor claims cannot be detected.
"""

SECTIONS = (
    Section(
        "Errors, version and settings of the library",
        """
These names are ours; Apple's library does not have them.
""",
    ),
    Section(
        "Arrays",
        """
An array has a layout, which fixes its rank and the meaning of size[], and an element type. stride[k] of 0 stands for a
packed axis: stride[0] is then 1, and each further stride covers the axes before it. Strides never decrease from one axis
to the next, so that stride[0] always belongs to the fastest axis. In the layouts named FirstMajor, size[] lists the
slowest axis first, so that the two arrays run in opposite directions: size {2, 3, 4} means [2][3][4], packed with stride
{1, 4, 12}.

An element of an integer type stands for data_scale * element + data_bias; a data_scale of 0 acts as 1. An element of an
indexed type stands for an entry of table_data.
""",
        enums=("BNNSDataType", "BNNSDataLayout", "BNNSNDArrayFlags"),
        structs=("BNNSNDArrayDescriptor", "BNNSTensor"),
        functions={
            "BNNSNDArrayGetDataSize": """
Bytes from the first to the last element of an array, whose data must not be NULL.
""",
            "BNNSTensorGetAllocationSize": """
Bytes from the first to the last element of a tensor. Fails for a negative size, which stands for one that is not known
yet.
""",
            "BNNSDataLayoutGetRank": """
Number of axes of a layout, which is layout >> 16.
""",
        },
    ),
    Section(
        "Filters",
        """
With BNNSFlagsUseClientPtr a filter reads weights, bias and the like from the caller's memory at each call: that memory
must live as long as the filter, and an optimizer step on it takes effect at once. Without the flag, creation copies
them. alloc_memory and free_memory are both given or both NULL.
""",
        enums=("BNNSFlags", "BNNSFilterType"),
        structs=("BNNSFilterParameters",),
        functions={
            "BNNSFilterDestroy": """
Release a filter and everything it owns. NULL does nothing.
""",
            "BNNSFilterApply": """
Run a filter with one input on one sample: i_desc and o_desc of the layer describe in and out. Filters that have their own
calls (normalization, arithmetic, loss, fused, attention) are refused here.
""",
            "BNNSFilterApplyBatch": """
Run a filter with one input on a batch: sample n starts at in + n * in_stride and out + n * out_stride elements.
""",
            "BNNSFilterApplyTwoInput": """
Run a filter with two inputs (matrix product, tensor contraction) on one pair of samples.
""",
            "BNNSFilterApplyTwoInputBatch": """
Run a filter with two inputs on a batch of pairs, each tensor with its own batch stride.
""",
            "BNNSFilterApplyBackwardBatch": """
Gradients of a filter with one input. out_delta holds dy; in_delta, weights_delta and bias_delta receive dx, dw and db, and
NULL skips one. weights_delta has the layout that the weights had at creation.

in may be NULL unless the weights gradient, the layer (pooling) or the activation needs it. out may be NULL if no
activation is fused; otherwise f' is computed from it. Training is Float32 only.

weights_delta is the gradient of alpha for an activation layer, of the dictionary for an embedding, of the weights tensor
for a reduction, and of the operand that is a weight for a product or contraction.
""",
            "BNNSFilterApplyBackwardTwoInputBatch": """
Gradients of a filter with two inputs: out_delta holds dy; inA_delta and inB_delta receive the gradients of A and B, and
NULL skips one. inA may be NULL if the gradient of B is not wanted, inB if that of A is not. out, weights_delta and
bias_delta have no effect and may be NULL.
""",
        },
    ),
    Section(
        "Activations",
        """
As a separate layer, or as the last step of another layer. alpha (a) and beta (b) are the parameters of the function.

    y = f(x),  dx = f'(x) dy;  softmax: dx = y (dy - sum dy y);  log-softmax: dx = dy - exp(y) sum dy
""",
        enums=("BNNSActivationFunction", "BNNSPointerSpecifier"),
        structs=("BNNSActivation", "BNNSLayerParametersActivation"),
        functions={
            "BNNSFilterCreateLayerActivation": """
Build an activation filter: y = f(x), input and output of the same sizes. With Identity and different element types it
converts. Softmax, log-softmax and GumbelMax run along the axes of axis_flags. Apply it with BNNSFilterApplyBatch and
BNNSFilterApplyBackwardBatch; in may be NULL if f' can be computed from out, and out if in is given; weights_delta is the
gradient of alpha for LeakyRectifiedLinear (one value) and PReLUPerChannel (one per channel), and needs in.
""",
            "BNNSDirectApplyActivationBatch": """
Apply an activation, or convert element types, without a filter. The data pointers are those of i_desc and o_desc.
""",
            "BNNSGetPointer": """
The alpha or beta values inside an activation filter, as a Float32 descriptor that points to them: writing through it
takes effect at the next call. It must not be used after the filter has been destroyed.
""",
        },
    ),
)

MEMBERS = {
    "BNNSDataTypeFloatBit": "class of the floating-point types; the other bits are the width",
    "BNNSDataTypeIntBit": "class of the signed integers",
    "BNNSDataTypeUIntBit": "class of the unsigned integers",
    "BNNSDataTypeIndexedBit": "class of the indices into table_data",
    "BNNSDataTypeMiscellaneousBit": "class of everything else",
    "BNNSDataTypeBoolean": "one byte, 0 or 1",
    "BNNSDataTypeInt1": "narrower than a byte: one byte holds several elements",
    "BNNSDataLayoutVector": "size {n}",
    "BNNSDataLayoutRowMajorMatrix": "size {columns, rows}: [rows][columns]",
    "BNNSDataLayoutColumnMajorMatrix": "size {rows, columns}: [columns][rows]",
    "BNNSDataLayout2DLastMajor": "size {I, J}: [J][I]",
    "BNNSDataLayout2DFirstMajor": "size {I, J}: [I][J]",
    "BNNSDataLayoutFullyConnectedSparse": "weights packed by BNNSNDArrayFullyConnectedSparsify...",
    "BNNSDataLayoutImageCHW": "size {W, H, C}: [C][H][W]",
    "BNNSDataLayoutSNE": "size {E, N, S}: [S][N][E]",
    "BNNSDataLayoutNSE": "size {E, S, N}: [N][S][E]",
    "BNNSDataLayoutMHA_DHK": "size {D, K, H}: [K][H][D]",
    "BNNSDataLayout3DLastMajor": "size {I, J, K}: [K][J][I]; the further ones likewise",
    "BNNSDataLayout3DFirstMajor": "size {I, J, K}: [I][J][K]; the further ones likewise",
    "BNNSDataLayoutConvolutionWeightsOIHW": "size {KW, KH, I, O}: [O][I][KH][KW]",
    "BNNSDataLayoutConvolutionWeightsOIHrWr": "the same, kernels rotated by 180 degrees",
    "BNNSDataLayoutConvolutionWeightsIOHrWr": "size {KW, KH, O, I}: [I][O][KH][KW], rotated",
    "BNNSDataLayoutConvolutionWeightsOIHW_Pack32": "[ceil(O / 32)][I][KH][KW][32], aligned to 128 bytes",
    "BNNSNDArrayFlagBackpropSet": "the gradient overwrites the buffer",
    "BNNSNDArrayFlagBackpropAccumulate": "the gradient is added to what the buffer holds",
    "BNNSFlagsUseClientPtr": "read parameters from the caller's memory at each call",
    "BNNSActivationFunctionIdentity": "x",
    "BNNSActivationFunctionRectifiedLinear": "max(x, 0)",
    "BNNSActivationFunctionLeakyRectifiedLinear": "x < 0 ? a x : x",
    "BNNSActivationFunctionSigmoid": "1 / (1 + exp(-x))",
    "BNNSActivationFunctionTanh": "tanh(x)",
    "BNNSActivationFunctionScaledTanh": "a tanh(b x)",
    "BNNSActivationFunctionAbs": "|x|",
    "BNNSActivationFunctionLinear": "a x",
    "BNNSActivationFunctionClamp": "min(max(x, a), b)",
    "BNNSActivationFunctionIntegerLinearSaturate": "saturate((iscale x + ioffset) >> ishift)",
    "BNNSActivationFunctionIntegerLinearSaturatePerChannel": "the same, numbers of each channel",
    "BNNSActivationFunctionSoftmax": "exp(x) / sum exp(x)",
    "BNNSActivationFunctionGELUApproximation": "0.5 x (1 + tanh(a (x + b x^3)))",
    "BNNSActivationFunctionGumbel": "-log(-log(a U + b) + b), U uniform on (0, 1); x is not used",
    "BNNSActivationFunctionGumbelMax": "max of x - log(-log(a U + b) + b)",
    "BNNSActivationFunctionHardSigmoid": "max(0, min(1, a x + b))",
    "BNNSActivationFunctionSoftplus": "a log(1 + exp(b x))",
    "BNNSActivationFunctionSoftsign": "x / (1 + |x|)",
    "BNNSActivationFunctionELU": "x < 0 ? a (exp(x) - 1) : x",
    "BNNSActivationFunctionClampedLeakyRectifiedLinear": "min(x < 0 ? a x : x, b)",
    "BNNSActivationFunctionLinearWithBias": "a x + b",
    "BNNSActivationFunctionLogSoftmax": "x - log sum exp(x)",
    "BNNSActivationFunctionLogSigmoid": "log(1 / (1 + exp(-x)))",
    "BNNSActivationFunctionSELU": "1.0507 (x < 0 ? 1.6733 (exp(x) - 1) : x)",
    "BNNSActivationFunctionCELU": "x < 0 ? a (exp(x / a) - 1) : x",
    "BNNSActivationFunctionHardShrink": "|x| < |a| ? 0 : x",
    "BNNSActivationFunctionSoftShrink": "|x| < |a| ? 0 : x - copysign(a, x)",
    "BNNSActivationFunctionTanhShrink": "x - tanh(x)",
    "BNNSActivationFunctionThreshold": "x > a ? x : b",
    "BNNSActivationFunctionPReLUPerChannel": "x < 0 ? a_c x : x, a of each channel c; ImageCHW only",
    "BNNSActivationFunctionGELUApproximation2": "x min(max(x + 3, 0), 6) / 6",
    "BNNSActivationFunctionHardSwish": "another name for GELUApproximation2",
    "BNNSActivationFunctionSiLU": "x / (1 + exp(-x))",
    "BNNSActivationFunctionReLU6": "min(max(x, 0), 6)",
    "BNNSActivationFunctionErf": "erf(x)",
    "BNNSActivationFunctionGELU": "0.5 x (1 + erf(x / sqrt(2)))",
    "BNNSActivationFunctionGELUApproximationSigmoid": "x / (1 + exp(-1.702 x))",
    "BNNSPoolingFunctionMax": "the largest pixel; padding takes no part",
    "BNNSPoolingFunctionAverageCountIncludePadding": "sum / (k_width k_height)",
    "BNNSPoolingFunctionAverageCountExcludePadding": "sum / number of pixels inside the image",
    "BNNSPoolingFunctionUnMax": "inverse of Max: each value goes to the position of its index",
    "BNNSPoolingFunctionL2Norm": "square root of the sum of squares",
    "BNNSPoolingFunctionAverage": "older name for AverageCountIncludePadding",
    "BNNSLossFunctionSoftmaxCrossEntropy": "-sum t log softmax(x), one loss per sample",
    "BNNSLossFunctionSigmoidCrossEntropy": "-t log q - (1 - t) log(1 - q), q = sigmoid(x)",
    "BNNSLossFunctionMeanSquareError": "(x - t)^2",
    "BNNSLossFunctionHuber": "e = |x - t|; e <= d ? e^2 / 2 : d (e - d / 2)",
    "BNNSLossFunctionYolo": "object detection; reduction must be Sum",
    "BNNSLossFunctionLog": "-t log(x + 1e-7) - (1 - t) log(1 - x + 1e-7)",
    "BNNSLossFunctionCosineDistance": "1 - sum t x, unit vectors; one loss per sample",
    "BNNSLossFunctionHinge": "max(0, 1 - (2 t - 1) x)",
    "BNNSLossFunctionMeanAbsoluteError": "|x - t|",
    "BNNSLossFunctionCategoricalCrossEntropy": "mean of -t log softmax(x) where t is not 0; one loss per sample",
    "BNNSLossReductionNone": "all losses",
    "BNNSLossReductionSum": "sum",
    "BNNSLossReductionWeightedMean": "sum / sum of the weights",
    "BNNSLossReductionMean": "sum / number of losses",
    "BNNSLossReductionNonZeroWeightMean": "sum / number of weights that are not 0",
    "BNNSArithmeticMultiplyNoNaN": "0 where the second operand is 0, even if the first is NaN",
    "BNNSArithmeticDivideNoNaN": "0 where the second operand is 0",
    "BNNSArithmeticMultiplyAdd": "a b + c",
    "BNNSArithmeticSelect": "a ? b : c",
    "BNNSArithmeticRound": "ties go to the even number",
    "BNNSArithmeticTruncRemainder": "a - b trunc(a / b)",
    "BNNSConstant": "one for the whole batch, without a gradient",
    "BNNSSample": "one per sample, with a batch stride",
    "BNNSParameter": "one for the whole batch; its gradient is summed over the batch",
    "BNNSReduceFunctionMeanNonZero": "sum w x / number of weights that are not 0",
    "BNNSReduceFunctionSumLog": "sum log(x + epsilon)",
    "BNNSReduceFunctionLogSumExp": "log sum exp(x)",
    "BNNSReduceFunctionLogSum": "log sum x",
    "BNNSReduceFunctionNone": "no reduction: scatter overwrites",
    "BNNSReduceFunctionAny": "another name for LogicalOr",
    "BNNSReduceFunctionAll": "another name for LogicalAnd",
    "BNNSLinearSamplingDefault": "position i of n in a box of length L: i (L + 1 - (L + 1) / n) / (n - 1)",
    "BNNSLinearSamplingAlignCorners": "i L / (n - 1), L / 2 if n is 1",
    "BNNSLinearSamplingUnalignCorners": "(i + 0.5) (L + 1) / n - 0.5",
    "BNNSLinearSamplingStrictAlignCorners": "i L / (n - 1)",
    "BNNSLinearSamplingOffsetCorners": "(i + 0.5) max(1, L) / n",
    "BNNSCornersHeightFirst": "top, left, bottom, right",
    "BNNSCornersWidthFirst": "left, top, right, bottom",
    "BNNSCenterSizeHeightFirst": "centre y, centre x, height, width",
    "BNNSCenterSizeWidthFirst": "centre x, centre y, width, height",
    "BNNSPaddingModeReflect": "mirror without the edge: CB|ABC",
    "BNNSPaddingModeSymmetric": "mirror with the edge: BA|ABC",
    "BNNSPaddingModeConstant": "the bits of padding_value",
    "BNNSQuantizerFunctionQuantize": "y = saturate(round(scale x + bias))",
    "BNNSQuantizerFunctionDequantize": "y = (x - bias) / scale",
    "BNNSSGDMomentumVariant0": "V = m V - lr g; W += V",
    "BNNSSGDMomentumVariant1": "V = m V + g; W -= lr V",
    "BNNSSGDMomentumVariant2": "V = m V + lr g; W -= V",
    "BNNSOptimizerRegularizationL1": "adds regularization_scale sign(W) to the gradient",
    "BNNSOptimizerRegularizationL2": "adds regularization_scale W to the gradient",
    "BNNSOptimizerClippingByValue": "each element to clip_gradients_min .. clip_gradients_max",
    "BNNSOptimizerClippingByNorm": "each gradient to the norm clip_gradients_max_norm",
    "BNNSOptimizerClippingByGlobalNorm": "all gradients together to that norm",
    "BNNSShuffleTypePixelShuffleNCHW": "out[n][c][h r + i][w r + j] = in[n][c r r + i r + j][h][w]",
    "BNNSShuffleTypePixelUnshuffleNCHW": "the inverse",
    "BNNSShuffleTypeDepthToSpaceNCHW": "out[n][c][h b + i][w b + j] = in[n][(i b + j) C + c][h][w]",
    "BNNSShuffleTypeSpaceToDepthNCHW": "the inverse",
    "BNNSRelationalOperatorLogicalNOT": "of the first operand",
}
"""The meaning of constants whose name does not say all of it."""
