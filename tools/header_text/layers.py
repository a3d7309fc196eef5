"""The text of the header on the layers, family by family."""

from __future__ import annotations

from . import Section

SECTIONS = (
    Section(
        "Fully connected",
        """
    y = f(W x + b),  dx = W^T dz,  dW = sum dz x^T,  db = sum dz   (sums over the batch)
""",
        structs=("BNNSLayerParametersFullyConnected",),
        functions={
            "BNNSFilterCreateLayerFullyConnected": """
Build a fully connected filter. x [I], y [O], b [O]; W [O][I] as a RowMajorMatrix of size {I, O}, or in any other matrix
layout. bias.data may be NULL: no bias. Apply it with BNNSFilterApplyBatch and BNNSFilterApplyBackwardBatch.
""",
        },
    ),
    Section(
        "Sparse weights of fully connected layers",
        """
These functions pack weights for the forward pass; the result serves as w_desc of a fully connected layer.
""",
        enums=("BNNSSparsityType", "BNNSTargetSystem"),
        structs=("BNNSSparsityParameters",),
        functions={
            "BNNSNDArrayFullyConnectedSparsifySparseCOO": """
Pack weights given as a list of coordinates. in_dense_shape describes the dense matrix; its data is not read. in_values
[NNZ]; in_indices [NNZ][2] holds (column, row) for a RowMajorMatrix, (row, column) for a ColumnMajorMatrix.

out is filled in. If out->data is NULL, memory is allocated, which the caller releases with free(); otherwise it must have
room for the dense matrix. sparse_params, workspace and filter_params may be NULL; workspace is not needed. batch_size is a
hint; 0 acts as 1.
""",
            "BNNSNDArrayFullyConnectedSparsifySparseCSR": """
Pack weights given as compressed rows: in_values and in_column_indices [NNZ], in_row_starts [rows + 1], rising from 0 to
NNZ. in_dense_shape, out, sparse_params, batch_size, workspace (may be NULL) and filter_params are as for
coordinates.
""",
        },
    ),
    Section(
        "Convolution",
        """
x [C][H][W], y [O][OH][OW] as ImageCHW; w [O][C / groups][KH][KW] in one of the kernel layouts; b [O].

    z[o][p][q] = b[o] + sum over c, i, j of w[o][c][i][j] x[c][p sy + i ly - up][q sx + j lx - left],  y = f(z)

with strides sx, sy, dilations lx, ly, and zeros outside x. The kernel is not flipped.
""",
        structs=("BNNSLayerParametersConvolution",),
        functions={
            "BNNSFilterCreateLayerConvolution": """
Build a convolution filter. W + left + right is at least sx (OW - 1) + lx (KW - 1) + 1, and likewise for the height.
bias.data may be NULL: no bias. Apply it with BNNSFilterApplyBatch and BNNSFilterApplyBackwardBatch.
""",
            "BNNSFilterCreateLayerTransposedConvolution": """
Build a transposed convolution filter, Float32 and without groups: the convolution of x with sx - 1 and sy - 1 zeros
between its pixels. x is the small image, y the large one: OW + left + right = sx (W - 1) + lx (KW - 1) + 1. Weights of
PyTorch's ConvTranspose2d have the layout IOHrWr.
""",
        },
    ),
    Section(
        "Pooling",
        """
x [C][H][W], y [C][OH][OW] as ImageCHW, b [C]; windows of k_height x k_width pixels.

    y = f(pool(window of x) + b)

An index is the position row * W + column of the winner in its plane of x; indices have the shape of y (Max) or of x
(UnMax). Of equal pixels the first wins. Every window starts inside the padded image; parts that hang over count as
padding.
""",
        enums=("BNNSPoolingFunction",),
        structs=("BNNSLayerParametersPooling",),
        functions={
            "BNNSFilterCreateLayerPooling": """
Build a pooling filter. Strides of 0 act as 1. bias.data may be NULL: no bias.
""",
            "BNNSPoolingFilterApplyBatch": """
Run a pooling filter on a batch. Max writes the positions of the winners to indices, which may be NULL if they are not
wanted; UnMax reads them from there, and the other functions ignore indices. idx_stride is the batch stride of indices.
""",
            "BNNSPoolingFilterApplyBatchEx": """
The same with indices of type UInt32 or UInt64; indices may be NULL as above.
""",
            "BNNSPoolingFilterApplyBackwardBatch": """
Gradients of a pooling filter: out_delta holds dy, in_delta receives dx, bias_delta db; NULL skips one. For Max, dz goes to
the winner; for Average, to every pixel of the window in equal parts; for L2Norm, in proportion to x / y.

Max takes the winners from indices, or finds them again in in if indices is NULL; UnMax needs indices. in may be NULL
where it is not needed (Average; Max with indices), out if no activation is fused. out_delta may be overwritten.
""",
            "BNNSPoolingFilterApplyBackwardBatchEx": """
The same with indices of type UInt32 or UInt64. NULL means the same for in, in_delta, out, bias_delta and indices.
""",
        },
    ),
    Section(
        "Normalization",
        """
    xhat = (x - mean) / sqrt(variance + epsilon),  y = f(gamma xhat + beta)
    g = gamma dz,  dx = (g - mean(g) - xhat mean(g xhat)) / sqrt(variance + epsilon)
    dbeta = sum dz,  dgamma = sum dz xhat

x and y are ImageCHW, or vectors whose elements are channels. Mean and variance (of the population) are taken over: batch
and pixels of a channel (batch norm), pixels of a channel (instance), C, H, W or H, W or W of a sample (layer norm,
normalization_axis 0, 1, 2), the pixels and channels of a group (group norm). beta and gamma have one value per channel,
or the shape of a sample for layer norm; NULL data stands for 0 and 1.
""",
        structs=("BNNSLayerParametersNormalization",),
        functions={
            "BNNSFilterCreateLayerNormalization": """
Build a normalization filter; normType is BNNSBatchNorm, BNNSInstanceNorm, BNNSLayerNorm or BNNSGroupNorm.
moving_mean_desc and moving_variance_desc are for batch and instance norm; with NULL data they are not tracked.
""",
            "BNNSNormalizationFilterApplyBatch": """
Run a normalization filter on a batch; out may be in. In training it uses the statistics of this batch, updates the moving
ones (moving = momentum moving + (1 - momentum) current), and keeps what the backward call needs. Otherwise batch and
instance norm use the moving statistics if there are any.
""",
            "BNNSNormalizationFilterApplyBackwardBatch": """
Gradients of the latest training call of this filter, with the same batch_size: out_delta holds dy; in_delta, beta_delta
and gamma_delta (in this order) receive the gradients, and NULL skips one. out may be NULL if no activation is fused.
out_delta may be overwritten. One call computes all wanted gradients.
""",
        },
    ),
    Section(
        "Arithmetic",
        """
    y = f(op(in1, in2, in3))

Operands share one layout; an operand of size 1 along an axis is repeated, and its gradient summed. in1_type and so on say
whether an operand is one per sample, a constant or a parameter.
""",
        enums=("BNNSArithmeticFunction", "BNNSDescriptorType"),
        structs=(
            "BNNSArithmeticUnary",
            "BNNSArithmeticBinary",
            "BNNSArithmeticTernary",
            "BNNSLayerParametersArithmetic",
        ),
        functions={
            "BNNSFilterCreateLayerArithmetic": """
Build an arithmetic filter. arithmetic_function_fields points to a BNNSArithmeticUnary, BNNSArithmeticBinary or
BNNSArithmeticTernary, as the function takes one, two (Add, Subtract, Multiply, Divide, Pow, the NoNaN pair, Minimum,
Maximum, the integer divisions) or three operands (MultiplyAdd, Select).
""",
            "BNNSArithmeticFilterApplyBatch": """
Run an arithmetic filter on a batch; in and in_stride have one entry per operand. Strides of constants and parameters are
not used. out may be one of the operands.
""",
            "BNNSArithmeticFilterApplyBackwardBatch": """
Gradients of every operand: out_delta holds dy; in_delta has one descriptor per operand, whose data is NULL if that
gradient is not wanted. in and in_stride, or entries of in, may be NULL where the derivative does not need the operands
(sums; roots, tanh and exponentials if out is given); out may be NULL if no activation is fused. out_delta may be
overwritten.
""",
        },
    ),
    Section(
        "Fused filters",
        """
Two layers as one filter: convolution, transposed convolution or fully connected, then a normalization or a quantization;
or arithmetic, then a normalization. The output of the first layer and the input of the second have equal descriptors. In
training only the second layer may have an activation.
""",
        functions={
            "BNNSFilterCreateFusedLayer": """
Build a fused filter: filter_type and layer_params have number_of_fused_filters entries, each the kind of a layer and a
pointer to its BNNSLayerParameters... struct.
""",
            "BNNSFusedFilterApplyBatch": """
Run a fused filter with one input on a batch. If the chain has a normalization and training is true, the statistics of this
batch are used, the moving ones are updated, and what the backward call needs is kept.
""",
            "BNNSFusedFilterApplyMultiInputBatch": """
The same for a filter that starts with arithmetic: in and in_stride have one entry per operand.
""",
            "BNNSFusedFilterApplyBackwardBatch": """
Gradients of the latest training call, with the same batch_size: out_delta holds dy, in_delta receives dx or is NULL.
delta_parameters has the entries weights, bias, beta, gamma, each NULL if not wanted; it may be NULL as a whole. in may be
NULL if no weights gradient is wanted, out if no activation is fused. out_delta may be overwritten.
""",
            "BNNSFusedFilterApplyBackwardMultiInputBatch": """
The same for a filter that starts with arithmetic: in_delta has one descriptor per operand, with NULL data for one that is
not wanted, and delta_parameters the entries beta, gamma. in and in_stride may be NULL where the derivative does not need
the operands, out if no activation is fused, delta_parameters if neither gradient is wanted.
""",
        },
    ),
    Section(
        "Losses",
        """
x [width] is the input of a sample, t [width] its labels (one-hot, or numbers), w a weight. The losses are listed with the
constants below and multiplied by w; out is their reduction, or all of them. Labels may be smoothed: t (1 - s) + s / width.
""",
        enums=("BNNSLossFunction", "BNNSLossReductionFunction"),
        structs=(
            "BNNSLayerParametersLossBase",
            "BNNSLayerParametersLossSoftmaxCrossEntropy",
            "BNNSLayerParametersLossSigmoidCrossEntropy",
            "BNNSLayerParametersLossHuber",
            "BNNSLayerParametersLossYolo",
        ),
        functions={
            "BNNSFilterCreateLayerLoss": """
Build a loss filter. layer_params points to the struct of its function, whose first field names the function. Losses
without their own struct use BNNSLayerParametersLossBase. i_desc is one sample; o_desc has size 1, or that of the losses of
a sample if they are not reduced.
""",
            "BNNSLossFilterApplyBatch": """
Compute the loss of a batch and, unless in_delta is NULL, its gradient as if the loss were the last layer. weights may be
NULL if weights_size is 0; weights_size counts the weights: 1 for all, or one per loss.
""",
            "BNNSLossFilterApplyBackwardBatch": """
The gradient of a loss times its output gradient: out_delta holds one value, or with reduction None the values of one
sample, with the batch stride out_delta_stride. weights may be NULL as in the forward call.
""",
        },
    ),
    Section(
        "Permute",
        structs=("BNNSLayerParametersPermute",),
        functions={
            "BNNSFilterCreateLayerPermute": """
Build a filter that permutes axes: axis k of the output is axis permutation[k] of the input, in the order of size[].
""",
            "BNNSPermuteFilterApplyBackwardBatch": """
The gradient of a permute filter: in_delta receives out_delta with its axes put back.
""",
        },
    ),
    Section(
        "Padding",
        enums=("BNNSPaddingMode",),
        structs=("BNNSLayerParametersPadding",),
        functions={
            "BNNSFilterCreateLayerPadding": """
Build a filter that adds padding_size[d][0] elements before and padding_size[d][1] after axis d of size[]. Apply it with
BNNSFilterApplyBatch; BNNSFilterApplyBackwardBatch sums dy over all cells that an element was copied to.
""",
        },
    ),
    Section(
        "Resize",
        """
With align_corners, position i of the output is i (in - 1) / (out - 1) in the input, otherwise (i + 0.5) in / out - 0.5
limited to the range; nearest takes floor(i in / out).
""",
        enums=("BNNSInterpolationMethod",),
        structs=("BNNSLayerParametersResize",),
        functions={
            "BNNSFilterCreateLayerResize": """
Build a filter that resamples the axes whose sizes differ: any number of them by the nearest element, one or two linearly.
Apply it with BNNSFilterApplyBatch and BNNSFilterApplyBackwardBatch.
""",
        },
    ),
    Section(
        "Dropout",
        """
    y = x mask / (1 - rate),  dx = dy mask / (1 - rate)
""",
        structs=("BNNSLayerParametersDropout",),
        functions={
            "BNNSFilterCreateLayerDropout": """
Build a dropout filter. Each forward call draws a new mask, which the backward call uses; the same seed repeats the masks.
There is no inference mode: leave the layer out in inference.
""",
        },
    ),
    Section(
        "Embedding",
        """
    y(item, position) = dictionary(item, x(position))
    weights_delta(item, v) = sum of dy(item, position) over the positions with x = v
""",
        enums=("BNNSEmbeddingFlags",),
        structs=("BNNSLayerParametersEmbedding",),
        functions={
            "BNNSFilterCreateLayerEmbedding": """
Build a filter that looks entries up. In size[] the dictionary is {item..., entries}, the input {index...} of an integer
type, the output {item..., index...}. With an index outside the dictionary the call fails. If no entry stands for zeros,
set padding_idx to a number outside the dictionary: 0 is an entry.
""",
        },
    ),
    Section(
        "Matrix product",
        """
    C = alpha op(A) op(B) + beta C,  dA = alpha dC op(B)^T,  dB = alpha op(A)^T dC   (op: as it is, or transposed)

on the last two axes, counted in the order of size[], but rows before columns in a RowMajorMatrix. The axes before them are
matched from the back; an axis that is missing or of size 1 is repeated.
""",
        structs=("BNNSLayerParametersBroadcastMatMul",),
        functions={
            "BNNSFilterCreateLayerBroadcastMatMul": """
Build a matrix-product filter, beta 0 or 1. It has two inputs; with a_is_weights, b_is_weights (the operand is the data of
its descriptor) or quadratic (A times itself) it has one, and the gradient of weights is weights_delta.
""",
            "BNNSMatMulWorkspaceSize": """
Bytes of workspace that BNNSMatMul needs for these descriptors; data pointers are not read. It is always 0 here.
""",
            "BNNSMatMul": """
output = alpha op(A) op(B) on the data of the descriptors, floating-point types only. workspace may be NULL.
""",
            "BNNSDirectApplyBroadcastMatMul": """
The older form of BNNSMatMul. It has no status: a failure shows in openbnns_last_error().
""",
        },
    ),
    Section(
        "Tensor contraction",
        """
    out[letters] = alpha * sum over the letters that out does not have of A[letters] B[letters]  (+ beta out)
""",
        structs=("BNNSLayerParametersTensorContraction",),
        functions={
            "BNNSFilterCreateLayerTensorContraction": """
Build a filter from an expression such as "a_ij, b_jk -> c_ik", one letter per axis in the order of size[], but rows before
columns in a RowMajorMatrix; "*" stands for any further axes ("a_*ik, b_*kj -> c_*ij"). It has two inputs. With an operand
named w (weights: the data of its descriptor), with one operand, or with one name twice it has one, and the gradient of w is
weights_delta.
""",
        },
    ),
    Section(
        "Gram matrix",
        """
    G[f][c] = alpha * sum over pixels of x[f][pixel] x[c][pixel]
""",
        structs=("BNNSLayerParametersGram",),
        functions={
            "BNNSFilterCreateLayerGram": """
Build a filter for the Gram matrix [C][C] of an image [C][H][W]. Apply it with BNNSFilterApplyBatch and
BNNSFilterApplyBackwardBatch.
""",
        },
    ),
    Section(
        "Reduction",
        """
Axes whose output size is 1 are reduced. w_desc, unless its data is NULL, has the shape of the input and multiplies each
term; its gradient is weights_delta.
""",
        enums=("BNNSReduceFunction",),
        structs=("BNNSLayerParametersReduction",),
        functions={
            "BNNSFilterCreateLayerReduction": """
Build a reduction filter. Apply it with BNNSFilterApplyBatch and BNNSFilterApplyBackwardBatch.
""",
            "BNNSDirectApplyReduction": """
Reduce without a filter: the data pointers are those of the descriptors.
""",
        },
    ),
    Section(
        "Quantization",
        """
scale and bias are vectors along the axis that the bit of axis_mask names (bit d: size[d], bit rank: the batch), or of size
1 if axis_mask is 0; NULL data stands for 1 and 0.
""",
        enums=("BNNSQuantizerFunction",),
        structs=("BNNSLayerParametersQuantization",),
        functions={
            "BNNSDirectApplyQuantizer": """
Quantize or dequantize a batch; the data pointers are those of the descriptors. There is no gradient.
""",
        },
    ),
    Section(
        "Multihead attention",
        """
Q [T][D], K [S][D], V [S][D] are one sample; weights have size {D, K, H} ({D, V, H} for the values) in a layout of rank 3,
where H is the number of heads; the output weights are [H V][D]. Per head:

    P = softmax((Q Wq + bq) (K Wk + bk)^T / sqrt(K) + masks),  O = dropout(P) (V Wv + bv)
    y = [O of all heads] Wo + bo

Biases with NULL data are absent. key_attn_bias and value_attn_bias add a row to keys and values, add_zero_attn one of
zeros.
""",
        structs=("BNNSMHAProjectionParameters", "BNNSLayerParametersMultiheadAttention"),
        functions={
            "BNNSFilterCreateLayerMultiheadAttention": """
Build an attention filter. Each target_desc is one sample, 2DFirstMajor of size {T, D} for instance.
""",
            "BNNSApplyMultiheadAttention": """
Run attention on a batch. key_mask, Boolean [S] with batch stride key_mask_stride, is true for keys to ignore.
add_to_attention [T][S], [H][T][S] or [batch][H][T][S] is added to the scores; a Boolean true there adds minus infinity.
Both may be NULL.

A size pointer whose buffer is NULL asks for the size in bytes: backprop_cache_size without backprop_cache, workspace_size
without workspace. Nothing is computed then. If both members of a pair are NULL, no cache is written, or the workspace is
allocated. A cache holds what the backward call needs.
""",
            "BNNSApplyMultiheadAttentionBackward": """
Gradients of attention. output_param_delta->target_desc is an input: dy. All other members with data are outputs:
target_desc, weights and bias of query_param_delta, key_param_delta and value_param_delta, weights and bias of
output_param_delta, key_attn_bias_delta, value_attn_bias_delta. A NULL pointer or NULL data skips one. stride[2] of a target
gradient is its batch stride.

query, key, value, key_mask and add_to_attention are those of the forward call (NULL where they were NULL, or where the cache
has what is needed); output may be NULL. backprop_cache may be NULL, with backprop_cache_size 0, if there is no dropout: the
forward pass is then repeated. workspace_size without workspace asks for the size; both may be NULL.
""",
        },
    ),
    Section(
        "LSTM",
        """
Input [T][N][I], output [T][N][directions][H], states [layers][directions][N][H], gate weights
[layers][directions][H][I or H], biases [layers][directions][H]. A descriptor whose sizes are 0 stands for the packed
tensor.

    i, f, o = sigmoid(W x + U h + C c + b),  g = tanh(W x + U h + C c + b),  c' = f c + i g,  h' = o tanh(c')

Peepholes C (o uses c' there), biases and initial states are absent if their data is NULL. Without the flag for default
activations, those of the descriptors are used.
""",
        enums=("BNNSLayerFlags",),
        structs=("BNNSLSTMGateDescriptor", "BNNSLSTMDataDescriptor", "BNNSLayerParametersLSTM"),
        functions={
            "BNNSComputeLSTMTrainingCacheCapacity": """
The minimum size in bytes of a training cache for this description.
""",
            "BNNSDirectApplyLSTMBatchTrainingCaching": """
Run an LSTM forward on the data of its descriptors. What the backward call needs goes to training_cache_ptr, unless that is
NULL.
""",
            "BNNSDirectApplyLSTMBatchBackward": """
Gradients of an LSTM. layer_delta_params is a struct like layer_params: its output_descriptor holds the output gradients
(data, last hidden state, last cell state), its input_descriptor and its gates those that are written. NULL data skips
one. training_cache_ptr is the cache of the forward call; if it is NULL, the forward pass is repeated.
""",
        },
    ),
)
