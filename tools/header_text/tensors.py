"""The text of the header on training, direct functions, random numbers and the first generation."""

from __future__ import annotations

from . import Section

SECTIONS = (
    Section(
        "Optimizers",
        """
g is the clipped gradient times gradient_scale, plus the penalty. With m = beta1 m + (1 - beta1) g,
v = beta2 v + (1 - beta2) g^2, and t = time_step, which starts at 1:

    Adam     W -= learning_rate sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon)
    AdamW    the same, and W -= learning_rate regularization_scale W before it; AMSGrad: the largest v so far
    RMSProp  n = alpha n + (1 - alpha) g^2;  W -= learning_rate g / (sqrt(n) + epsilon)
""",
        enums=(
            "BNNSOptimizerFunction",
            "BNNSOptimizerRegularizationFunction",
            "BNNSOptimizerSGDMomentumVariant",
            "BNNSOptimizerClippingFunction",
        ),
        structs=(
            "BNNSOptimizerSGDMomentumFields",
            "BNNSOptimizerSGDMomentumWithClippingFields",
            "BNNSOptimizerAdamFields",
            "BNNSOptimizerAdamWithClippingFields",
            "BNNSOptimizerRMSPropFields",
            "BNNSOptimizerRMSPropWithClippingFields",
        ),
        functions={
            "BNNSOptimizerStep": """
Update parameters in place by one step. OptimizerAlgFields points to the struct of the function, which is read at each call;
add 1 to time_step after each step, and do not forget gradient_scale, which is usually 1. All arrays are packed.

accumulators have the shapes of the parameters, start at zero, and are ordered by role, then by parameter: m of all
parameters, then v of all parameters. Per parameter there are: SGD 1, or none if momentum is 0 (accumulators may then be
NULL); Adam and AdamW 2 (m, v); AMSGrad 3 (m, v, largest v); RMSProp n, the mean gradient if centered, the velocity if
momentum is not 0.
""",
        },
    ),
    Section(
        "Clipping and norms",
        """
Bit d of axis_flags puts axis d inside the norm; 0 stands for all axes. Axes are counted in the order of size[], but rows
first in a RowMajorMatrix. dest may be src.
""",
        enums=("BNNSNormType",),
        functions={
            "BNNSClipByValue": """
dest = min(max(src, min_val), max_val).
""",
            "BNNSClipByNorm": """
dest = src * min(1, max_norm / norm(src)), separately for every position along the other axes.
""",
            "BNNSClipByGlobalNorm": """
dest[i] = src[i] * min(1, max_norm / G) for count arrays, where G is use_norm, or if that is 0, the norm of all arrays
together.
""",
            "BNNSComputeNorm": """
dest = norm(src). dest does not have the axes inside the norm; over all axes it is a vector of size 1.
""",
            "BNNSComputeNormBackward": """
Gradient of the norm: in_delta = out_delta * in / out, 0 where out is 0. in and out are those of the forward call.
""",
        },
    ),
    Section(
        "Copying and comparing tensors",
        """
Axes are counted in the order of size[], but rows first in a RowMajorMatrix.
""",
        enums=("BNNSRelationalOperator", "BNNSShuffleType"),
        functions={
            "BNNSCopy": """
Copy src to dest, of the same shape; layouts, strides and element types may differ.
""",
            "BNNSTranspose": """
Copy src to dest with two axes (of size[]) swapped. The gradient is the same swap.
""",
            "BNNSCompareTensor": """
out = in0 op in1 per element; out is Boolean, all three of the same sizes. The logical operators take Booleans.
""",
            "BNNSTile": """
Repeat input along its axes: every size of output is a multiple of that of input.
""",
            "BNNSTileBackward": """
Gradient of BNNSTile: in_delta is the sum of out_delta over all copies.
""",
            "BNNSShuffle": """
Move data between channels and blocks of pixels of 4DFirstMajor images [N][C][H][W]; the block follows from the sizes.
""",
            "BNNSBandPart": """
Keep element [i][j] of each matrix of the two fastest axes if i - j <= num_lower and j - i <= num_upper, and zero the
others. A negative number keeps the whole triangle.
""",
        },
    ),
    Section(
        "Selecting and placing elements",
        """
With an index out of range the call fails. Axes are counted in the order of size[], but rows first in a RowMajorMatrix.
""",
        functions={
            "BNNSDirectApplyTopK": """
The K largest values along an axis, largest first; of equal values the first is preferred. best_values and best_indices have
K elements along the axis; best_indices may be NULL. The batch strides are distances from one sample to the next.
""",
            "BNNSDirectApplyInTopK": """
Whether the values at test_indices are among the K largest along an axis; all equal ones count. test_indices and output have
the shape of input without the axis; output is Boolean.
""",
            "BNNSGather": """
    output[.., j, ..] = input[.., indices[j], ..]

for a vector of indices; indices with the shape of output pick single elements.
""",
            "BNNSScatter": """
    output[.., indices[j], ..] = input[.., j, ..]  (op None)  or  += (op Sum)

All other entries keep their values. With None, the last of several elements with the same index wins.
""",
            "BNNSGatherND": """
Pick elements or slices: the last axis of indices holds an index vector, of length L. output has the other axes of indices,
then the axes of input beyond the first L.
""",
            "BNNSScatterND": """
Write (op None) or add (op Sum) elements or slices of input at the positions that index vectors name, as for BNNSGatherND;
all other elements of output keep their values.
""",
        },
    ),
    Section(
        "Crop and resize",
        """
Images {W, H, C, N} as 4DLastMajor, boxes {4, boxes} as 2DLastMajor, output {W', H', C, N, boxes} as 5DLastMajor.
""",
        enums=("BNNSLinearSamplingMode", "BNNSBoxCoordinateMode"),
        structs=("BNNSLayerParametersCropResize",),
        functions={
            "BNNSCropResize": """
Cut boxes out of images and sample them bilinearly; positions outside the image give extrapolation_value.
""",
            "BNNSCropResizeBackward": """
Gradient with respect to the images: each element of out_delta goes to the pixels it was computed from, with the same
weights.
""",
        },
    ),
    Section(
        "Random numbers",
        """
The same seed gives the same numbers on every machine. Threads may share a generator; for reproducible numbers, give each
thread its own.
""",
        enums=("BNNSRandomGeneratorMethod",),
        functions={
            "BNNSCreateRandomGenerator": """
A generator with a seed that differs from call to call.
""",
            "BNNSCreateRandomGeneratorWithSeed": """
A generator with the given seed.
""",
            "BNNSDestroyRandomGenerator": """
Release a generator. NULL does nothing.
""",
            "BNNSRandomGeneratorStateSize": """
Bytes of a saved state.
""",
            "BNNSRandomGeneratorGetState": """
Save the state to a buffer of at least BNNSRandomGeneratorStateSize bytes.
""",
            "BNNSRandomGeneratorSetState": """
Restore a saved state: the numbers that followed it are repeated.
""",
            "BNNSRandomFillUniformFloat": """
Fill an array with floats uniform on [a, b].
""",
            "BNNSRandomFillUniformInt": """
Fill an array with integers uniform on [a, b): b is never drawn.
""",
            "BNNSRandomFillNormalFloat": """
Fill an array with normally distributed floats.
""",
            "BNNSRandomFillCategoricalFloat": """
Fill an array with category numbers 0 to K - 1, stored as floats. probabilities has the same axes and an innermost one of K
weights, or of their logarithms; they need not add up to 1.
""",
        },
    ),
    Section(
        "Nearest neighbours",
        functions={
            "BNNSCreateNearestNeighbors": """
A store of up to max_n_samples points of n_features numbers, Float32 or Float16, for the n_neighbors nearest by Euclidean
distance.
""",
            "BNNSDestroyNearestNeighbors": """
Release a store. NULL does nothing.
""",
            "BNNSNearestNeighborsLoad": """
Append points, packed [n_new_samples][n_features]. They are copied.
""",
            "BNNSNearestNeighborsGetInfo": """
The n_neighbors points nearest to a stored one, itself included, nearest first; for all points, [points][n_neighbors], if
sample_number is negative. indices and distances (in the type of the points) may be NULL. If there are fewer points, the
remaining indices are -1 and the distances infinite.
""",
        },
    ),
    Section(
        "First generation",
        """
The calls of macOS 10.12, which take shapes separately from the layer: no dilation, no groups, symmetric padding. The
filters they create are applied like all others.
""",
        structs=(
            "BNNSImageStackDescriptor",
            "BNNSVectorDescriptor",
            "BNNSLayerData",
            "BNNSConvolutionLayerParameters",
            "BNNSFullyConnectedLayerParameters",
            "BNNSPoolingLayerParameters",
        ),
        functions={
            "BNNSFilterCreateConvolutionLayer": """
Build a convolution filter; weights [out_channels][in_channels][k_height][k_width], NULL bias.data: no bias.
""",
            "BNNSFilterCreateFullyConnectedLayer": """
Build a fully connected filter; weights [out_size][in_size], NULL bias.data: no bias.
""",
            "BNNSFilterCreatePoolingLayer": """
Build a pooling filter; NULL bias.data: no bias.
""",
            "BNNSFilterCreateVectorActivationLayer": """
Build a filter that applies an activation to a vector, or converts its element type.
""",
        },
    ),
)
