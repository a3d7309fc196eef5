"""Structs of the BNNS C interface; `FixedList` is the type of their array fields.

Written by tools/generate_abi.py from tools/facts; edit those, not this file.
"""

from __future__ import annotations

from typing import Any

from .enums import (
    BNNSActivationFunction,
    BNNSArithmeticFunction,
    BNNSBoxCoordinateMode,
    BNNSDataLayout,
    BNNSDataType,
    BNNSDescriptorType,
    BNNSEmbeddingFlags,
    BNNSFlags,
    BNNSInterpolationMethod,
    BNNSLayerFlags,
    BNNSLinearSamplingMode,
    BNNSLossFunction,
    BNNSLossReductionFunction,
    BNNSNDArrayFlags,
    BNNSOptimizerClippingFunction,
    BNNSOptimizerRegularizationFunction,
    BNNSOptimizerSGDMomentumVariant,
    BNNSPaddingMode,
    BNNSPoolingFunction,
    BNNSQuantizerFunction,
    BNNSReduceFunction,
    BNNSSparsityType,
    BNNSTargetSystem,
)
from .memory import DescriptorMemory
from .values import (
    BOOL,
    FLOAT,
    INT32,
    POINTER,
    SCALE,
    SIGNED_SIZE,
    SIZE,
    UINT8,
    UINT32,
    UINT64,
    Array,
    Array2D,
    FixedList,
    Nested,
    Short,
    Struct,
    array,
    enumeration,
    structure,
)

__all__ = [
    "BNNSActivation",
    "BNNSArithmeticBinary",
    "BNNSArithmeticTernary",
    "BNNSArithmeticUnary",
    "BNNSConvolutionLayerParameters",
    "BNNSFilterParameters",
    "BNNSFullyConnectedLayerParameters",
    "BNNSImageStackDescriptor",
    "BNNSLSTMDataDescriptor",
    "BNNSLSTMGateDescriptor",
    "BNNSLayerData",
    "BNNSLayerParametersActivation",
    "BNNSLayerParametersArithmetic",
    "BNNSLayerParametersBroadcastMatMul",
    "BNNSLayerParametersConvolution",
    "BNNSLayerParametersCropResize",
    "BNNSLayerParametersDropout",
    "BNNSLayerParametersEmbedding",
    "BNNSLayerParametersFullyConnected",
    "BNNSLayerParametersGram",
    "BNNSLayerParametersLSTM",
    "BNNSLayerParametersLossBase",
    "BNNSLayerParametersLossHuber",
    "BNNSLayerParametersLossSigmoidCrossEntropy",
    "BNNSLayerParametersLossSoftmaxCrossEntropy",
    "BNNSLayerParametersLossYolo",
    "BNNSLayerParametersMultiheadAttention",
    "BNNSLayerParametersNormalization",
    "BNNSLayerParametersPadding",
    "BNNSLayerParametersPermute",
    "BNNSLayerParametersPooling",
    "BNNSLayerParametersQuantization",
    "BNNSLayerParametersReduction",
    "BNNSLayerParametersResize",
    "BNNSLayerParametersTensorContraction",
    "BNNSMHAProjectionParameters",
    "BNNSNDArrayDescriptor",
    "BNNSOptimizerAdamFields",
    "BNNSOptimizerAdamWithClippingFields",
    "BNNSOptimizerRMSPropFields",
    "BNNSOptimizerRMSPropWithClippingFields",
    "BNNSOptimizerSGDMomentumFields",
    "BNNSOptimizerSGDMomentumWithClippingFields",
    "BNNSPoolingLayerParameters",
    "BNNSSparsityParameters",
    "BNNSTensor",
    "BNNSVectorDescriptor",
    "FixedList",
    "Struct",
    "bnns_graph_argument_t",
    "bnns_graph_compile_options_t",
    "bnns_graph_context_t",
    "bnns_graph_shape_t",
    "bnns_graph_t",
    "bnns_user_message_data_t",
]


class BNNSActivation(Struct):
    """Activation selector plus its scalar and integer-requantization parameters.

    Embedded by value in many layer structs.

    Fields:
        function: which activation is applied.
        alpha: first parameter; role depends on function.
        beta: second parameter; role depends on function.
        iscale: multiplier used only by IntegerLinearSaturate.
        ioffset: addend used only by IntegerLinearSaturate.
        ishift: arithmetic right shift used only by IntegerLinearSaturate.
        iscale_per_channel: per-channel multipliers for IntegerLinearSaturatePerChannel.
        ioffset_per_channel: per-channel addends for IntegerLinearSaturatePerChannel.
        ishift_per_channel: per-channel shifts for IntegerLinearSaturatePerChannel.

    >>> from openbnns.capi import *
    >>> BNNSActivation(function=BNNSActivationFunctionClamp, alpha=-1, beta=1)
    BNNSActivation(function=BNNSActivationFunctionClamp, alpha=-1.0, beta=1.0)
    """

    function: BNNSActivationFunction | int = enumeration(BNNSActivationFunction)
    alpha: float = FLOAT
    beta: float = FLOAT
    iscale: int = INT32
    ioffset: int = INT32
    ishift: int = INT32
    iscale_per_channel: Any = POINTER
    ioffset_per_channel: Any = POINTER
    ishift_per_channel: Any = POINTER


class BNNSNDArrayDescriptor(DescriptorMemory):
    """Shape, strides, element type and (optionally) storage of an array of rank 1 to 8.

    Fields:
        flags: for gradient outputs only: overwrite (0) or add into (1) the buffer.
        layout: rank and axis interpretation.
        size: extent per axis, in the order the layout prescribes; entries past the rank are unused.
        stride: element step per axis, fastest axis first; 0 means packed.
        data: storage; NULL when data is supplied at apply time or when the item is absent.
        data_type: element type of data.
        table_data: lookup table for Indexed types.
        table_data_type: element type of the lookup table.
        data_scale: integer-to-float multiplier for Int/UInt types; a stored 0 acts as 1.
        data_bias: integer-to-float addend for Int/UInt types.

    >>> from openbnns.capi import *
    >>> import numpy as np
    >>> x = np.zeros(3, np.float32)
    >>> d = BNNSNDArrayDescriptor(layout=BNNSDataLayoutVector, size=[3], data_type=BNNSDataTypeFloat32, data=x)
    >>> copy = d.copy()  # or params.i_desc = d: the struct is copied, the memory shared
    >>> copy.data is x, list(d.size), d.data_scale
    (True, [3, 0, 0, 0, 0, 0, 0, 0], 1.0)
    """

    flags: BNNSNDArrayFlags | int = enumeration(BNNSNDArrayFlags)
    layout: BNNSDataLayout | int = enumeration(BNNSDataLayout)
    size: Array[int] = array(SIZE, 8)
    stride: Array[int] = array(SIZE, 8)
    data: Any = POINTER
    data_type: BNNSDataType | int = enumeration(BNNSDataType)
    table_data: Any = POINTER
    table_data_type: BNNSDataType | int = enumeration(BNNSDataType)
    data_scale: float = SCALE
    data_bias: float = FLOAT


class BNNSTensor(Struct):
    """Shape, strides, element type and storage of an argument of a graph.

    Fields:
        data_type: element type.
        rank: number of axes.
        shape: extent per axis, slowest first; negative means dynamic.
        stride: element step per axis, same order as shape; 0 is a literal zero here.
        data: storage.
        data_size_in_bytes: size of storage, used for bounds checks.
        name: name of the argument, set by the library; of an initial state, the name that says which.

    >>> from openbnns.capi import *
    >>> BNNSTensorGetAllocationSize(BNNSTensor(data_type=BNNSDataTypeFloat32, rank=2, shape=[2, 3], stride=[3, 1]))
    24
    """

    data_type: BNNSDataType | int = enumeration(BNNSDataType)
    rank: int = UINT8
    shape: Array[int] = array(SIGNED_SIZE, 8)
    stride: Array[int] = array(SIGNED_SIZE, 8)
    data: Any = POINTER
    data_size_in_bytes: int = SIZE
    name: Any = POINTER


class BNNSLSTMGateDescriptor(Struct):
    """Weights, bias and activation of one LSTM gate.

    Fields:
        iw_desc: input weights: [0] for layer 0 (or every layer), [1] for layers >= 1 when input_size != hidden_size.
        hw_desc: hidden-state weights.
        cw_desc: cell-state (peephole) weights; data NULL disables peepholes.
        b_desc: bias; data NULL means no bias.
        activation: gate activation, ignored when default activations are requested.

    >>> from openbnns.capi import *
    >>> gate = BNNSLSTMGateDescriptor()
    >>> gate.iw_desc[1].data is None  # weights of the layers above the first
    True
    """

    iw_desc: Array[BNNSNDArrayDescriptor] = array(structure(BNNSNDArrayDescriptor), 2)
    hw_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    cw_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    b_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    activation: Short[BNNSActivation, BNNSActivationFunction] = structure(BNNSActivation, BNNSActivationFunction)


class BNNSLSTMDataDescriptor(Struct):
    """The three tensors on one side (input or output) of an LSTM.

    Fields:
        data_desc: sequence data.
        hidden_desc: hidden state.
        cell_state_desc: cell state.

    >>> from openbnns.capi import *
    >>> states = BNNSLSTMDataDescriptor()
    >>> states.data_desc.data_type = BNNSDataTypeFloat32
    >>> states
    BNNSLSTMDataDescriptor(data_desc=BNNSNDArrayDescriptor(data_type=BNNSDataTypeFloat32))
    """

    data_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    hidden_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    cell_state_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)


class BNNSArithmeticUnary(Struct):
    """Operand block for one-input arithmetic.

    Fields:
        in_: input.
        in_type: role of the input.
        out: output.
        out_type: role of the output.

    >>> from openbnns.capi import *
    >>> v = BNNSNDArrayDescriptor(layout=BNNSDataLayoutVector, size=[3], data_type=BNNSDataTypeFloat32)
    >>> fields = BNNSArithmeticUnary(in_=v, in_type=BNNSSample, out=v, out_type=BNNSSample)
    >>> p = BNNSLayerParametersArithmetic(arithmetic_function=BNNSArithmeticExp, arithmetic_function_fields=fields)
    >>> BNNSFilterCreateLayerArithmetic(p) is not None
    True
    """

    in_: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    in_type: BNNSDescriptorType | int = enumeration(BNNSDescriptorType)
    out: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    out_type: BNNSDescriptorType | int = enumeration(BNNSDescriptorType)


class BNNSArithmeticBinary(Struct):
    """Operand block for two-input arithmetic.

    Fields:
        in1: first input.
        in1_type: role of in1.
        in2: second input.
        in2_type: role of in2.
        out: output.
        out_type: role of the output.

    >>> from openbnns.capi import *
    >>> v = BNNSNDArrayDescriptor(layout=BNNSDataLayoutVector, size=[3], data_type=BNNSDataTypeFloat32)
    >>> fields = BNNSArithmeticBinary(in1=v, in1_type=BNNSSample, in2=v, in2_type=BNNSParameter, out=v)
    >>> fields.out_type = BNNSSample
    >>> p = BNNSLayerParametersArithmetic(arithmetic_function=BNNSArithmeticAdd, arithmetic_function_fields=fields)
    >>> BNNSFilterCreateLayerArithmetic(p) is not None
    True
    """

    in1: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    in1_type: BNNSDescriptorType | int = enumeration(BNNSDescriptorType)
    in2: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    in2_type: BNNSDescriptorType | int = enumeration(BNNSDescriptorType)
    out: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    out_type: BNNSDescriptorType | int = enumeration(BNNSDescriptorType)


class BNNSArithmeticTernary(Struct):
    """Operand block for three-input arithmetic.

    Fields:
        in1: first input.
        in1_type: role of in1.
        in2: second input.
        in2_type: role of in2.
        in3: third input.
        in3_type: role of in3.
        out: output.
        out_type: role of the output.

    >>> from openbnns.capi import *
    >>> v = BNNSNDArrayDescriptor(layout=BNNSDataLayoutVector, size=[3], data_type=BNNSDataTypeFloat32)
    >>> fields = BNNSArithmeticTernary(in1=v, in2=v, in3=v, out=v)
    >>> fields.in1_type = fields.in2_type = fields.in3_type = fields.out_type = BNNSSample
    >>> p = BNNSLayerParametersArithmetic(arithmetic_function=BNNSArithmeticSelect, arithmetic_function_fields=fields)
    >>> BNNSFilterCreateLayerArithmetic(p) is not None
    True
    """

    in1: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    in1_type: BNNSDescriptorType | int = enumeration(BNNSDescriptorType)
    in2: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    in2_type: BNNSDescriptorType | int = enumeration(BNNSDescriptorType)
    in3: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    in3_type: BNNSDescriptorType | int = enumeration(BNNSDescriptorType)
    out: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    out_type: BNNSDescriptorType | int = enumeration(BNNSDescriptorType)


class BNNSMHAProjectionParameters(Struct):
    """One projection of a multihead attention layer; reused as the container for its gradients.

    Fields:
        target_desc: the tensor being projected (query, key, value) or produced (output); in a backward call its
            gradient.
        weights: projection matrix or its gradient.
        bias: projection bias or its gradient; data NULL means absent or not wanted.

    >>> from openbnns.capi import *
    >>> q = BNNSMHAProjectionParameters()
    >>> q.weights.layout, q.weights.size[:3] = BNNSDataLayout3DLastMajor, [64, 16, 4]  # d_model, d_key, heads
    >>> q
    BNNSMHAProjectionParameters(weights=BNNSNDArrayDescriptor(layout=BNNSDataLayout3DLastMajor, size=[64, 16, 4]))
    """

    target_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    weights: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    bias: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)


class BNNSLayerParametersConvolution(Struct):
    """2-D convolution and transposed convolution description.

    Fields:
        i_desc: input image stack.
        w_desc: kernel weights.
        o_desc: output image stack.
        bias: one value per output channel; data NULL means none.
        activation: activation applied after bias.
        x_stride: horizontal window step; 0 acts as 1.
        y_stride: vertical window step; 0 acts as 1.
        x_dilation_stride: horizontal kernel dilation; 0 or 1 means none.
        y_dilation_stride: vertical kernel dilation; 0 or 1 means none.
        x_padding: zero columns added on both left and right.
        y_padding: zero rows added on both top and bottom.
        groups: group count; 0 or 1 means ungrouped; not available for transposed convolution.
        pad: asymmetric zero padding left,right,up,down; used only when x_padding and y_padding are both 0.

    >>> from openbnns.capi import *
    >>> p = BNNSLayerParametersConvolution(x_stride=1, y_stride=1, pad=[1, 2, 0, 0])  # left, right, up, down
    >>> list(p.pad), p.groups
    ([1, 2, 0, 0], 0)
    """

    i_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    w_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    bias: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    activation: Short[BNNSActivation, BNNSActivationFunction] = structure(BNNSActivation, BNNSActivationFunction)
    x_stride: int = SIZE
    y_stride: int = SIZE
    x_dilation_stride: int = SIZE
    y_dilation_stride: int = SIZE
    x_padding: int = SIZE
    y_padding: int = SIZE
    groups: int = SIZE
    pad: Array[int] = array(SIZE, 4)


class BNNSLayerParametersFullyConnected(Struct):
    """Matrix-vector layer description.

    Fields:
        i_desc: input vector.
        w_desc: weight matrix.
        o_desc: output vector.
        bias: one value per output; data NULL means none.
        activation: activation applied after bias.

    >>> from openbnns.capi import *
    >>> p = BNNSLayerParametersFullyConnected()
    >>> p.w_desc.size[:2] = [64, 10]  # columns (inputs), rows (outputs) of a RowMajorMatrix
    >>> p.w_desc
    BNNSNDArrayDescriptor(size=[64, 10])
    """

    i_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    w_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    bias: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    activation: Short[BNNSActivation, BNNSActivationFunction] = structure(BNNSActivation, BNNSActivationFunction)


class BNNSLayerParametersPooling(Struct):
    """2-D pooling description.

    Fields:
        i_desc: input image stack.
        o_desc: output image stack.
        bias: one value per channel; data NULL means none.
        activation: activation applied after bias.
        pooling_function: window reduction.
        k_width: window width.
        k_height: window height.
        x_stride: horizontal window step.
        y_stride: vertical window step.
        x_dilation_stride: horizontal step inside the window.
        y_dilation_stride: vertical step inside the window.
        x_padding: columns added left and right.
        y_padding: rows added top and bottom.
        pad: asymmetric padding left,right,up,down; used only when x_padding and y_padding are both 0.

    >>> from openbnns.capi import *
    >>> BNNSLayerParametersPooling(k_width=2, k_height=2, x_stride=2, y_stride=2).pooling_function
    BNNSPoolingFunctionMax
    """

    i_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    bias: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    activation: Short[BNNSActivation, BNNSActivationFunction] = structure(BNNSActivation, BNNSActivationFunction)
    pooling_function: BNNSPoolingFunction | int = enumeration(BNNSPoolingFunction)
    k_width: int = SIZE
    k_height: int = SIZE
    x_stride: int = SIZE
    y_stride: int = SIZE
    x_dilation_stride: int = SIZE
    y_dilation_stride: int = SIZE
    x_padding: int = SIZE
    y_padding: int = SIZE
    pad: Array[int] = array(SIZE, 4)


class BNNSLayerParametersActivation(Struct):
    """Standalone activation, or element-type conversion when the function is Identity and the types differ.

    Fields:
        i_desc: input.
        o_desc: output with the same element count.
        activation: function and parameters.
        axis_flags: bit mask of axes for axis-wise functions; bit d is size[d], bit rank is the batch axis, 0 means axis
            0.

    >>> from openbnns.capi import *
    >>> softmax = BNNSActivation(function=BNNSActivationFunctionSoftmax)
    >>> p = BNNSLayerParametersActivation(activation=softmax, axis_flags=0b10)  # along size[1]
    >>> p.activation.alpha, p.axis_flags
    (0.0, 2)
    """

    i_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    activation: Short[BNNSActivation, BNNSActivationFunction] = structure(BNNSActivation, BNNSActivationFunction)
    axis_flags: int = UINT32


class BNNSLayerParametersLossBase(Struct):
    """Loss description for losses without extra parameters.

    Fields:
        function: loss to compute; also tells the library which loss struct this is.
        i_desc: predictions.
        o_desc: loss output.
        reduction: how per-element losses collapse.

    >>> from openbnns.capi import *
    >>> BNNSLayerParametersLossBase(function=BNNSLossFunctionMeanSquareError, reduction=BNNSLossReductionMean)
    BNNSLayerParametersLossBase(function=BNNSLossFunctionMeanSquareError, reduction=BNNSLossReductionMean)
    """

    function: BNNSLossFunction | int = enumeration(BNNSLossFunction)
    i_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    reduction: BNNSLossReductionFunction | int = enumeration(BNNSLossReductionFunction)


class BNNSLayerParametersLossSoftmaxCrossEntropy(Struct):
    """Softmax cross entropy; starts like the base struct.

    Fields:
        function: loss to compute; also tells the library which loss struct this is.
        i_desc: predictions.
        o_desc: loss output.
        reduction: how per-element losses collapse.
        label_smooth: smoothing amount s: t becomes t*(1-s)+s/n.

    >>> from openbnns.capi import *
    >>> BNNSLayerParametersLossSoftmaxCrossEntropy(function=BNNSLossFunctionSoftmaxCrossEntropy).label_smooth
    0.0
    """

    function: BNNSLossFunction | int = enumeration(BNNSLossFunction)
    i_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    reduction: BNNSLossReductionFunction | int = enumeration(BNNSLossReductionFunction)
    label_smooth: float = FLOAT


class BNNSLayerParametersLossSigmoidCrossEntropy(Struct):
    """Sigmoid cross entropy; starts like the base struct.

    Fields:
        function: loss to compute; also tells the library which loss struct this is.
        i_desc: predictions.
        o_desc: loss output.
        reduction: how per-element losses collapse.
        label_smooth: smoothing amount s: t becomes t*(1-s)+s/2.

    >>> from openbnns.capi import *
    >>> BNNSLayerParametersLossSigmoidCrossEntropy(function=BNNSLossFunctionSigmoidCrossEntropy, label_smooth=0.1)
    BNNSLayerParametersLossSigmoidCrossEntropy(function=BNNSLossFunctionSigmoidCrossEntropy, label_smooth=0.1)
    """

    function: BNNSLossFunction | int = enumeration(BNNSLossFunction)
    i_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    reduction: BNNSLossReductionFunction | int = enumeration(BNNSLossReductionFunction)
    label_smooth: float = FLOAT


class BNNSLayerParametersLossHuber(Struct):
    """Huber loss; starts like the base struct.

    Fields:
        function: loss to compute; also tells the library which loss struct this is.
        i_desc: predictions.
        o_desc: loss output.
        reduction: how per-element losses collapse.
        huber_delta: error magnitude where quadratic turns linear.

    >>> from openbnns.capi import *
    >>> BNNSLayerParametersLossHuber(function=BNNSLossFunctionHuber, huber_delta=0.5).reduction
    BNNSLossReductionNone
    """

    function: BNNSLossFunction | int = enumeration(BNNSLossFunction)
    i_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    reduction: BNNSLossReductionFunction | int = enumeration(BNNSLossReductionFunction)
    huber_delta: float = FLOAT


class BNNSLayerParametersLossYolo(Struct):
    """YOLO detection loss; starts like the base struct; reduction must be Sum.

    Fields:
        function: loss to compute; also tells the library which loss struct this is.
        i_desc: predictions.
        o_desc: loss output.
        reduction: how per-element losses collapse.
        huber_delta: Huber threshold for the width/height part; 0 acts as 1.
        number_of_grid_columns: grid width.
        number_of_grid_rows: grid height.
        number_of_anchor_boxes: anchors per cell.
        anchor_box_size: values per anchor, 5 + number of classes.
        rescore: use IOU as the confidence target.
        scale_xy: weight of the centre term.
        scale_wh: weight of the size term.
        scale_object: weight of confidence where an object is present.
        scale_no_object: weight of confidence where no object is present.
        scale_classification: weight of the class term.
        object_minimum_iou: IOU at or above which an anchor counts as object.
        no_object_maximum_iou: IOU at or below which an anchor counts as background.
        anchors_data: w0,h0,w1,h1,... for every anchor.

    >>> from openbnns.capi import *
    >>> BNNSLayerParametersLossYolo(number_of_grid_columns=13, number_of_grid_rows=13, number_of_anchor_boxes=5).rescore
    False
    """

    function: BNNSLossFunction | int = enumeration(BNNSLossFunction)
    i_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    reduction: BNNSLossReductionFunction | int = enumeration(BNNSLossReductionFunction)
    huber_delta: float = FLOAT
    number_of_grid_columns: int = SIZE
    number_of_grid_rows: int = SIZE
    number_of_anchor_boxes: int = SIZE
    anchor_box_size: int = SIZE
    rescore: bool = BOOL
    scale_xy: float = FLOAT
    scale_wh: float = FLOAT
    scale_object: float = FLOAT
    scale_no_object: float = FLOAT
    scale_classification: float = FLOAT
    object_minimum_iou: float = FLOAT
    no_object_maximum_iou: float = FLOAT
    anchors_data: Any = POINTER


class BNNSOptimizerSGDMomentumFields(Struct):
    """SGD-with-momentum hyperparameters.

    Fields:
        learning_rate: step size.
        momentum: velocity decay; 0 disables the accumulator.
        gradient_scale: factor on the loss gradient.
        regularization_scale: factor on the penalty gradient.
        clip_gradients: clamp gradients to [min,max].
        clip_gradients_min: lower bound.
        clip_gradients_max: upper bound.
        nesterov: use the Nesterov form.
        regularization_func: weight penalty kind.
        sgd_momentum_variant: which of three update forms.

    >>> from openbnns.capi import *
    >>> BNNSOptimizerSGDMomentumFields(learning_rate=0.01, momentum=0.9).gradient_scale  # 0, as in C: set it to 1
    0.0
    """

    learning_rate: float = FLOAT
    momentum: float = FLOAT
    gradient_scale: float = FLOAT
    regularization_scale: float = FLOAT
    clip_gradients: bool = BOOL
    clip_gradients_min: float = FLOAT
    clip_gradients_max: float = FLOAT
    nesterov: bool = BOOL
    regularization_func: BNNSOptimizerRegularizationFunction | int = enumeration(BNNSOptimizerRegularizationFunction)
    sgd_momentum_variant: BNNSOptimizerSGDMomentumVariant | int = enumeration(BNNSOptimizerSGDMomentumVariant)


class BNNSOptimizerSGDMomentumWithClippingFields(Struct):
    """SGD-with-momentum hyperparameters with selectable clipping.

    Fields:
        learning_rate: step size.
        momentum: velocity decay; 0 disables the accumulator.
        gradient_scale: factor on the loss gradient.
        regularization_scale: factor on the penalty gradient.
        nesterov: use the Nesterov form.
        regularization_func: weight penalty kind.
        sgd_momentum_variant: which of three update forms.
        clipping_func: gradient clipping rule.
        clip_gradients_min: lower bound for ByValue.
        clip_gradients_max: upper bound for ByValue.
        clip_gradients_max_norm: norm limit for ByNorm and ByGlobalNorm.
        clip_gradients_use_norm: known global norm for ByGlobalNorm; 0 means compute it.

    >>> from openbnns.capi import *
    >>> BNNSOptimizerSGDMomentumWithClippingFields(nesterov=True).clipping_func
    BNNSOptimizerClippingNone
    """

    learning_rate: float = FLOAT
    momentum: float = FLOAT
    gradient_scale: float = FLOAT
    regularization_scale: float = FLOAT
    nesterov: bool = BOOL
    regularization_func: BNNSOptimizerRegularizationFunction | int = enumeration(BNNSOptimizerRegularizationFunction)
    sgd_momentum_variant: BNNSOptimizerSGDMomentumVariant | int = enumeration(BNNSOptimizerSGDMomentumVariant)
    clipping_func: BNNSOptimizerClippingFunction | int = enumeration(BNNSOptimizerClippingFunction)
    clip_gradients_min: float = FLOAT
    clip_gradients_max: float = FLOAT
    clip_gradients_max_norm: float = FLOAT
    clip_gradients_use_norm: float = FLOAT


class BNNSOptimizerAdamFields(Struct):
    """Adam / AdamW / AMSGrad hyperparameters.

    Fields:
        learning_rate: step size.
        beta1: first-moment decay in [0,1).
        beta2: second-moment decay in [0,1).
        time_step: 1-based step number kept by the caller.
        epsilon: denominator term, used as the uncorrected epsilon-hat.
        gradient_scale: factor on the loss gradient.
        regularization_scale: penalty factor for Adam, decoupled weight decay for AdamW.
        clip_gradients: clamp gradients to [min,max].
        clip_gradients_min: lower bound.
        clip_gradients_max: upper bound.
        regularization_func: penalty kind for Adam; ignored by AdamW.

    >>> from openbnns.capi import *
    >>> adam = BNNSOptimizerAdamFields(learning_rate=0.001, beta1=0.9, beta2=0.999, time_step=1, gradient_scale=1)
    >>> adam.epsilon  # 0, as in C: set it
    0.0
    """

    learning_rate: float = FLOAT
    beta1: float = FLOAT
    beta2: float = FLOAT
    time_step: float = FLOAT
    epsilon: float = FLOAT
    gradient_scale: float = FLOAT
    regularization_scale: float = FLOAT
    clip_gradients: bool = BOOL
    clip_gradients_min: float = FLOAT
    clip_gradients_max: float = FLOAT
    regularization_func: BNNSOptimizerRegularizationFunction | int = enumeration(BNNSOptimizerRegularizationFunction)


class BNNSOptimizerAdamWithClippingFields(Struct):
    """Adam / AdamW / AMSGrad hyperparameters with selectable clipping.

    Fields:
        learning_rate: step size.
        beta1: first-moment decay in [0,1).
        beta2: second-moment decay in [0,1).
        time_step: 1-based step number kept by the caller.
        epsilon: denominator term, used as the uncorrected epsilon-hat.
        gradient_scale: factor on the loss gradient.
        regularization_scale: penalty factor for Adam, decoupled weight decay for AdamW.
        regularization_func: penalty kind for Adam; ignored by AdamW.
        clipping_func: gradient clipping rule.
        clip_gradients_min: lower bound for ByValue.
        clip_gradients_max: upper bound for ByValue.
        clip_gradients_max_norm: norm limit for ByNorm and ByGlobalNorm.
        clip_gradients_use_norm: known global norm for ByGlobalNorm; 0 means compute it.

    >>> from openbnns.capi import *
    >>> adam = BNNSOptimizerAdamWithClippingFields(clipping_func=BNNSOptimizerClippingByNorm, time_step=1)
    >>> adam.time_step += 1  # after every step
    >>> adam.time_step, adam.clip_gradients_max_norm
    (2.0, 0.0)
    """

    learning_rate: float = FLOAT
    beta1: float = FLOAT
    beta2: float = FLOAT
    time_step: float = FLOAT
    epsilon: float = FLOAT
    gradient_scale: float = FLOAT
    regularization_scale: float = FLOAT
    regularization_func: BNNSOptimizerRegularizationFunction | int = enumeration(BNNSOptimizerRegularizationFunction)
    clipping_func: BNNSOptimizerClippingFunction | int = enumeration(BNNSOptimizerClippingFunction)
    clip_gradients_min: float = FLOAT
    clip_gradients_max: float = FLOAT
    clip_gradients_max_norm: float = FLOAT
    clip_gradients_use_norm: float = FLOAT


class BNNSOptimizerRMSPropFields(Struct):
    """RMSProp hyperparameters.

    Fields:
        learning_rate: step size.
        alpha: smoothing constant of the running averages.
        epsilon: added outside the square root.
        centered: subtract the squared mean gradient.
        momentum: velocity decay; 0 disables it.
        gradient_scale: factor on the loss gradient.
        regularization_scale: factor on the penalty gradient.
        clip_gradients: clamp gradients to [min,max].
        clip_gradients_min: lower bound.
        clip_gradients_max: upper bound.
        regularization_func: weight penalty kind.

    >>> from openbnns.capi import *
    >>> BNNSOptimizerRMSPropFields(learning_rate=0.01, alpha=0.99, epsilon=1e-8, gradient_scale=1).centered
    False
    """

    learning_rate: float = FLOAT
    alpha: float = FLOAT
    epsilon: float = FLOAT
    centered: bool = BOOL
    momentum: float = FLOAT
    gradient_scale: float = FLOAT
    regularization_scale: float = FLOAT
    clip_gradients: bool = BOOL
    clip_gradients_min: float = FLOAT
    clip_gradients_max: float = FLOAT
    regularization_func: BNNSOptimizerRegularizationFunction | int = enumeration(BNNSOptimizerRegularizationFunction)


class BNNSOptimizerRMSPropWithClippingFields(Struct):
    """RMSProp hyperparameters with selectable clipping.

    Fields:
        learning_rate: step size.
        alpha: smoothing constant of the running averages.
        epsilon: added outside the square root.
        centered: subtract the squared mean gradient.
        momentum: velocity decay; 0 disables it.
        gradient_scale: factor on the loss gradient.
        regularization_scale: factor on the penalty gradient.
        regularization_func: weight penalty kind.
        clipping_func: gradient clipping rule.
        clip_gradients_min: lower bound for ByValue.
        clip_gradients_max: upper bound for ByValue.
        clip_gradients_max_norm: norm limit for ByNorm and ByGlobalNorm.
        clip_gradients_use_norm: known global norm for ByGlobalNorm; 0 means compute it.

    >>> from openbnns.capi import *
    >>> BNNSOptimizerRMSPropWithClippingFields(clipping_func=BNNSOptimizerClippingByValue).clip_gradients_max
    0.0
    """

    learning_rate: float = FLOAT
    alpha: float = FLOAT
    epsilon: float = FLOAT
    centered: bool = BOOL
    momentum: float = FLOAT
    gradient_scale: float = FLOAT
    regularization_scale: float = FLOAT
    regularization_func: BNNSOptimizerRegularizationFunction | int = enumeration(BNNSOptimizerRegularizationFunction)
    clipping_func: BNNSOptimizerClippingFunction | int = enumeration(BNNSOptimizerClippingFunction)
    clip_gradients_min: float = FLOAT
    clip_gradients_max: float = FLOAT
    clip_gradients_max_norm: float = FLOAT
    clip_gradients_use_norm: float = FLOAT


class BNNSLayerParametersNormalization(Struct):
    """Batch, instance, layer or group normalization with fused activation.

    Fields:
        i_desc: input.
        o_desc: output, same dimensions.
        beta_desc: shift; data NULL means none.
        gamma_desc: scale; data NULL means none.
        moving_mean_desc: running mean (batch/instance only); data NULL means untracked.
        moving_variance_desc: running variance (batch/instance only); data NULL means untracked.
        momentum: running-statistics coefficient in [0,1].
        epsilon: added to the variance under the root.
        activation: elementwise activation after the affine step.
        num_groups: group norm only: number of channel groups.
        normalization_axis: layer norm only: 0 = CHW, 1 = HW, 2 = W.

    >>> from openbnns.capi import *
    >>> p = BNNSLayerParametersNormalization(momentum=0.9, epsilon=1e-5, num_groups=4)
    >>> p.gamma_desc.data is None  # as if it were 1
    True
    """

    i_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    beta_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    gamma_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    moving_mean_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    moving_variance_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    momentum: float = FLOAT
    epsilon: float = FLOAT
    activation: Short[BNNSActivation, BNNSActivationFunction] = structure(BNNSActivation, BNNSActivationFunction)
    num_groups: int = SIZE
    normalization_axis: int = SIZE


class BNNSLayerParametersDropout(Struct):
    """Dropout description.

    Fields:
        i_desc: input.
        o_desc: output.
        rate: drop probability in [0,1).
        seed: generator seed; 0 means unseeded.
        control: bit mask of axes that share one keep/drop decision; only 4 low bits used.

    >>> from openbnns.capi import *
    >>> BNNSLayerParametersDropout(rate=0.1, seed=7)
    BNNSLayerParametersDropout(rate=0.1, seed=7)
    """

    i_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    rate: float = FLOAT
    seed: int = UINT32
    control: int = UINT8


class BNNSLayerParametersLSTM(Struct):
    """Whole LSTM stack: sizes, data, states, gate weights.

    Fields:
        input_size: features per input step.
        hidden_size: features of hidden and cell state.
        batch_size: sequences per call.
        num_layers: stacked cells.
        seq_len: time steps.
        dropout: dropout between stacked layers, not after the last.
        lstm_flags: mask of BNNSLayerFlags.
        sequence_descriptor: optional per-step batch sizes; data NULL means constant.
        input_descriptor: input sequence and initial states.
        output_descriptor: output sequence and final states.
        input_gate: input gate.
        forget_gate: forget gate.
        candidate_gate: candidate gate.
        output_gate: output gate.
        hidden_activation: activation of the cell state when forming the hidden state.

    >>> from openbnns.capi import *
    >>> p = BNNSLayerParametersLSTM(input_size=3, hidden_size=8, lstm_flags=BNNSLayerFlagsLSTMBidirectional)
    >>> p.lstm_flags |= BNNSLayerFlagsLSTMDefaultActivations
    >>> p.lstm_flags
    BNNSLayerFlagsLSTMBidirectional|BNNSLayerFlagsLSTMDefaultActivations
    """

    input_size: int = SIZE
    hidden_size: int = SIZE
    batch_size: int = SIZE
    num_layers: int = SIZE
    seq_len: int = SIZE
    dropout: float = FLOAT
    lstm_flags: BNNSLayerFlags | int = enumeration(BNNSLayerFlags)
    sequence_descriptor: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    input_descriptor: Nested[BNNSLSTMDataDescriptor] = structure(BNNSLSTMDataDescriptor)
    output_descriptor: Nested[BNNSLSTMDataDescriptor] = structure(BNNSLSTMDataDescriptor)
    input_gate: Nested[BNNSLSTMGateDescriptor] = structure(BNNSLSTMGateDescriptor)
    forget_gate: Nested[BNNSLSTMGateDescriptor] = structure(BNNSLSTMGateDescriptor)
    candidate_gate: Nested[BNNSLSTMGateDescriptor] = structure(BNNSLSTMGateDescriptor)
    output_gate: Nested[BNNSLSTMGateDescriptor] = structure(BNNSLSTMGateDescriptor)
    hidden_activation: Short[BNNSActivation, BNNSActivationFunction] = structure(BNNSActivation, BNNSActivationFunction)


class BNNSLayerParametersArithmetic(Struct):
    """Elementwise arithmetic description.

    Fields:
        arithmetic_function: operation.
        arithmetic_function_fields: pointer to the Unary/Binary/Ternary operand block.
        activation: activation applied to the result.

    >>> from openbnns.capi import *
    >>> p = BNNSLayerParametersArithmetic(arithmetic_function=BNNSArithmeticSquareRoot)
    >>> p.arithmetic_function_fields = BNNSArithmeticUnary(in_type=BNNSSample, out_type=BNNSSample)
    >>> p.arithmetic_function_fields.in_type
    BNNSSample
    """

    arithmetic_function: BNNSArithmeticFunction | int = enumeration(BNNSArithmeticFunction)
    arithmetic_function_fields: Any = POINTER
    activation: Short[BNNSActivation, BNNSActivationFunction] = structure(BNNSActivation, BNNSActivationFunction)


class BNNSLayerParametersPermute(Struct):
    """Axis permutation with copy.

    Fields:
        i_desc: input.
        o_desc: output; size[k] = input size[permutation[k]].
        permutation: input axis feeding each output axis.

    >>> from openbnns.capi import *
    >>> BNNSLayerParametersPermute(permutation=[2, 0, 1]).permutation[:3]
    [2, 0, 1]
    """

    i_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    permutation: Array[int] = array(SIZE, 8)


class BNNSLayerParametersTensorContraction(Struct):
    """Einstein-summation contraction.

    Fields:
        operation: contraction expression.
        alpha: factor on the result.
        beta: 0 or 1: factor on the previous output.
        iA_desc: first operand.
        iB_desc: second operand (unused for one-operand expressions).
        o_desc: output.

    >>> from openbnns.capi import *
    >>> BNNSLayerParametersTensorContraction(operation="a_*ik, b_*kj -> c_*ij", alpha=1)
    BNNSLayerParametersTensorContraction(operation='a_*ik, b_*kj -> c_*ij', alpha=1.0)
    """

    operation: Any = POINTER
    alpha: float = FLOAT
    beta: float = FLOAT
    iA_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    iB_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)


class BNNSLayerParametersGram(Struct):
    """Gram matrix over channels.

    Fields:
        alpha: factor on the result.
        i_desc: input tensor.
        o_desc: Gram matrix.

    >>> from openbnns.capi import *
    >>> BNNSLayerParametersGram(alpha=1)
    BNNSLayerParametersGram(alpha=1.0)
    """

    alpha: float = FLOAT
    i_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)


class BNNSLayerParametersResize(Struct):
    """Resampling of the axes whose sizes differ.

    Fields:
        method: nearest or (bi)linear.
        i_desc: input.
        o_desc: output.
        align_corners: grid alignment choice.

    >>> from openbnns.capi import *
    >>> BNNSLayerParametersResize(method=BNNSInterpolationMethodLinear, align_corners=True)
    BNNSLayerParametersResize(method=BNNSInterpolationMethodLinear, align_corners=True)
    """

    method: BNNSInterpolationMethod | int = enumeration(BNNSInterpolationMethod)
    i_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    align_corners: bool = BOOL


class BNNSLayerParametersCropResize(Struct):
    """Region-of-interest crop and bilinear resize; tensors are passed to the call.

    Fields:
        normalized_coordinates: boxes are in 0..1.
        spatial_scale: factor on box coordinates.
        extrapolation_value: value outside the image.
        sampling_mode: grid placement.
        box_coordinate_mode: meaning of the four box numbers.
        method: only linear is documented as working.

    >>> from openbnns.capi import *
    >>> BNNSLayerParametersCropResize(normalized_coordinates=True, spatial_scale=1).extrapolation_value
    0.0
    """

    normalized_coordinates: bool = BOOL
    spatial_scale: float = FLOAT
    extrapolation_value: float = FLOAT
    sampling_mode: BNNSLinearSamplingMode | int = enumeration(BNNSLinearSamplingMode)
    box_coordinate_mode: BNNSBoxCoordinateMode | int = enumeration(BNNSBoxCoordinateMode)
    method: BNNSInterpolationMethod | int = enumeration(BNNSInterpolationMethod)


class BNNSLayerParametersBroadcastMatMul(Struct):
    """Matrix product over the last two logical axes with broadcasting.

    Fields:
        alpha: factor on the product.
        beta: 0 or 1: factor on the previous output.
        transA: transpose A.
        transB: transpose B.
        quadratic: A times itself; B ignored.
        a_is_weights: A is a parameter held in iA_desc.
        b_is_weights: B is a parameter held in iB_desc.
        iA_desc: A.
        iB_desc: B.
        o_desc: C.

    >>> from openbnns.capi import *
    >>> BNNSLayerParametersBroadcastMatMul(transB=True).alpha  # 0, as in C: set it to 1
    0.0
    """

    alpha: float = FLOAT
    beta: float = FLOAT
    transA: bool = BOOL
    transB: bool = BOOL
    quadratic: bool = BOOL
    a_is_weights: bool = BOOL
    b_is_weights: bool = BOOL
    iA_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    iB_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)


class BNNSLayerParametersMultiheadAttention(Struct):
    """Multihead attention description.

    Fields:
        query: query tensor, projection, bias.
        key: key tensor, projection, bias.
        value: value tensor, projection, bias.
        add_zero_attn: append an all-zero key/value row.
        key_attn_bias: extra key row per head; data NULL means absent.
        value_attn_bias: extra value row per head; data NULL means absent.
        output: output tensor, output projection, bias.
        dropout: attention dropout; outside (0,1) means none.
        seed: dropout seed.

    >>> from openbnns.capi import *
    >>> p = BNNSLayerParametersMultiheadAttention(dropout=0.1, seed=7)
    >>> p.query.target_desc.size[:2] = [128, 64]  # positions, features
    >>> p.key_attn_bias.data is None
    True
    """

    query: Nested[BNNSMHAProjectionParameters] = structure(BNNSMHAProjectionParameters)
    key: Nested[BNNSMHAProjectionParameters] = structure(BNNSMHAProjectionParameters)
    value: Nested[BNNSMHAProjectionParameters] = structure(BNNSMHAProjectionParameters)
    add_zero_attn: bool = BOOL
    key_attn_bias: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    value_attn_bias: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    output: Nested[BNNSMHAProjectionParameters] = structure(BNNSMHAProjectionParameters)
    dropout: float = FLOAT
    seed: int = UINT32


class BNNSLayerParametersReduction(Struct):
    """Reduction over the axes whose output size is 1.

    Fields:
        i_desc: input.
        o_desc: output; reduced axes have size 1.
        w_desc: optional weights shaped like the input; data NULL means none.
        reduce_func: reduction.
        epsilon: added inside each log of SumLog.

    >>> from openbnns.capi import *
    >>> BNNSLayerParametersReduction(reduce_func=BNNSReduceFunctionL2Norm)
    BNNSLayerParametersReduction(reduce_func=BNNSReduceFunctionL2Norm)
    """

    i_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    w_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    reduce_func: BNNSReduceFunction | int = enumeration(BNNSReduceFunction)
    epsilon: float = FLOAT


class BNNSLayerParametersPadding(Struct):
    """Border padding.

    Fields:
        i_desc: input.
        o_desc: output; size[d] = input + before + after.
        padding_size: elements before [d][0] and after [d][1] on each axis.
        padding_mode: fill rule.
        padding_value: raw bit pattern of the constant fill.

    >>> from openbnns.capi import *
    >>> p = BNNSLayerParametersPadding(padding_size=[[1, 1], [2, 3]])  # (before, after) in the order of size[]
    >>> p.padding_size[1][1], p.padding_mode
    (3, BNNSPaddingModeConstant)
    """

    i_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    padding_size: Array2D[int] = array(array(SIZE, 2), 8)
    padding_mode: BNNSPaddingMode | int = enumeration(BNNSPaddingMode)
    padding_value: int = UINT32


class BNNSLayerParametersEmbedding(Struct):
    """Dictionary lookup.

    Fields:
        flags: behaviour mask.
        i_desc: integer indices.
        o_desc: output; item shape followed by index shape.
        dictionary: item shape followed by the number of entries.
        padding_idx: entry treated as zero when in range.
        max_norm: renormalization limit; 0 disables.
        norm_type: p of the norm; 0 means 2.

    >>> from openbnns.capi import *
    >>> BNNSLayerParametersEmbedding().padding_idx  # entry 0 is padding unless this is changed
    0
    """

    flags: BNNSEmbeddingFlags | int = enumeration(BNNSEmbeddingFlags)
    i_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    dictionary: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    padding_idx: int = SIZE
    max_norm: float = FLOAT
    norm_type: float = FLOAT


class BNNSLayerParametersQuantization(Struct):
    """Scale-and-shift conversion between precisions.

    Fields:
        axis_mask: single bit naming the axis along which scale/bias vary; 0 = scalar; bit rank = batch.
        function: direction.
        i_desc: input.
        o_desc: output.
        scale: vector of factors; data NULL means none.
        bias: vector of offsets; data NULL means none.

    >>> from openbnns.capi import *
    >>> BNNSLayerParametersQuantization(function=BNNSQuantizerFunctionDequantize, axis_mask=0b100)
    BNNSLayerParametersQuantization(axis_mask=4, function=BNNSQuantizerFunctionDequantize)
    """

    axis_mask: int = SIZE
    function: BNNSQuantizerFunction | int = enumeration(BNNSQuantizerFunction)
    i_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    o_desc: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    scale: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)
    bias: Nested[BNNSNDArrayDescriptor] = structure(BNNSNDArrayDescriptor)


class BNNSSparsityParameters(Struct):
    """Hint for sparse weight packing.

    Fields:
        flags: reserved, 0.
        sparsity_ratio: numerator, denominator.
        sparsity_type: pattern.
        target_system: device class.

    >>> from openbnns.capi import *
    >>> BNNSSparsityParameters(sparsity_ratio=[1, 4]).sparsity_ratio
    [1, 4]
    """

    flags: int = UINT64
    sparsity_ratio: Array[int] = array(UINT32, 2)
    sparsity_type: BNNSSparsityType | int = enumeration(BNNSSparsityType)
    target_system: BNNSTargetSystem | int = enumeration(BNNSTargetSystem)


class BNNSImageStackDescriptor(Struct):
    """First-generation image stack (no data pointer).

    Fields:
        width: columns.
        height: rows.
        channels: images in the stack.
        row_stride: elements between rows.
        image_stride: elements between channels.
        data_type: element type (not Indexed).
        data_scale: integer-to-float factor.
        data_bias: integer-to-float addend.

    >>> from openbnns.capi import *
    >>> BNNSImageStackDescriptor(width=8, height=6, channels=3, row_stride=8, image_stride=48).data_scale
    1.0
    """

    width: int = SIZE
    height: int = SIZE
    channels: int = SIZE
    row_stride: int = SIZE
    image_stride: int = SIZE
    data_type: BNNSDataType | int = enumeration(BNNSDataType)
    data_scale: float = SCALE
    data_bias: float = FLOAT


class BNNSVectorDescriptor(Struct):
    """First-generation vector (no data pointer).

    Fields:
        size: length.
        data_type: element type (not Indexed).
        data_scale: integer-to-float factor.
        data_bias: integer-to-float addend.

    >>> from openbnns.capi import *
    >>> BNNSVectorDescriptor(size=10, data_type=BNNSDataTypeFloat32)
    BNNSVectorDescriptor(size=10, data_type=BNNSDataTypeFloat32)
    """

    size: int = SIZE
    data_type: BNNSDataType | int = enumeration(BNNSDataType)
    data_scale: float = SCALE
    data_bias: float = FLOAT


class BNNSLayerData(Struct):
    """First-generation weights or bias blob.

    Fields:
        data: values.
        data_type: element type.
        data_scale: integer-to-float factor.
        data_bias: integer-to-float addend.
        data_table: 256-entry table for Indexed types.

    >>> from openbnns.capi import *
    >>> BNNSLayerData(data=bytearray(12), data_type=BNNSDataTypeFloat32)
    BNNSLayerData(data=<bytearray>, data_type=BNNSDataTypeFloat32)
    """

    data: Any = POINTER
    data_type: BNNSDataType | int = enumeration(BNNSDataType)
    data_scale: float = SCALE
    data_bias: float = FLOAT
    data_table: Any = POINTER


class BNNSConvolutionLayerParameters(Struct):
    """First-generation convolution.

    Fields:
        x_stride: horizontal step.
        y_stride: vertical step.
        x_padding: columns added each side.
        y_padding: rows added each side.
        k_width: kernel width.
        k_height: kernel height.
        in_channels: input channels.
        out_channels: output channels.
        weights: kernel values.
        bias: one per output channel.
        activation: activation.

    >>> from openbnns.capi import *
    >>> p = BNNSConvolutionLayerParameters(k_width=3, k_height=3, in_channels=3, out_channels=8)
    >>> p.weights, p.x_stride  # what is left out is 0, as in C
    (BNNSLayerData(), 0)
    """

    x_stride: int = SIZE
    y_stride: int = SIZE
    x_padding: int = SIZE
    y_padding: int = SIZE
    k_width: int = SIZE
    k_height: int = SIZE
    in_channels: int = SIZE
    out_channels: int = SIZE
    weights: Nested[BNNSLayerData] = structure(BNNSLayerData)
    bias: Nested[BNNSLayerData] = structure(BNNSLayerData)
    activation: Short[BNNSActivation, BNNSActivationFunction] = structure(BNNSActivation, BNNSActivationFunction)


class BNNSFullyConnectedLayerParameters(Struct):
    """First-generation fully connected.

    Fields:
        in_size: inputs.
        out_size: outputs.
        weights: matrix.
        bias: one per output.
        activation: activation.

    >>> from openbnns.capi import *
    >>> BNNSFullyConnectedLayerParameters(in_size=64, out_size=10).activation.function
    BNNSActivationFunctionIdentity
    """

    in_size: int = SIZE
    out_size: int = SIZE
    weights: Nested[BNNSLayerData] = structure(BNNSLayerData)
    bias: Nested[BNNSLayerData] = structure(BNNSLayerData)
    activation: Short[BNNSActivation, BNNSActivationFunction] = structure(BNNSActivation, BNNSActivationFunction)


class BNNSPoolingLayerParameters(Struct):
    """First-generation pooling.

    Fields:
        x_stride: horizontal step.
        y_stride: vertical step.
        x_padding: columns added each side.
        y_padding: rows added each side.
        k_width: kernel width.
        k_height: kernel height.
        in_channels: input channels.
        out_channels: output channels.
        pooling_function: window reduction.
        bias: one per output channel.
        activation: activation.

    >>> from openbnns.capi import *
    >>> BNNSPoolingLayerParameters(k_width=2, k_height=2, in_channels=8, out_channels=8).pooling_function
    BNNSPoolingFunctionMax
    """

    x_stride: int = SIZE
    y_stride: int = SIZE
    x_padding: int = SIZE
    y_padding: int = SIZE
    k_width: int = SIZE
    k_height: int = SIZE
    in_channels: int = SIZE
    out_channels: int = SIZE
    pooling_function: BNNSPoolingFunction | int = enumeration(BNNSPoolingFunction)
    bias: Nested[BNNSLayerData] = structure(BNNSLayerData)
    activation: Short[BNNSActivation, BNNSActivationFunction] = structure(BNNSActivation, BNNSActivationFunction)


class BNNSFilterParameters(Struct):
    """Runtime options accepted by most calls; NULL means defaults.

    Fields:
        flags: mask of BNNSFlags.
        n_threads: worker threads; 0 lets the library choose.
        alloc_memory: allocator; NULL means posix_memalign.
        free_memory: matching deallocator; NULL means free.

    >>> from openbnns.capi import *
    >>> BNNSFilterParameters(flags=BNNSFlagsUseClientPtr, n_threads=2)
    BNNSFilterParameters(flags=BNNSFlagsUseClientPtr, n_threads=2)
    """

    flags: BNNSFlags | int = enumeration(BNNSFlags)
    n_threads: int = SIZE
    alloc_memory: Any = POINTER
    free_memory: Any = POINTER


class bnns_graph_t(Struct):
    """A compiled graph: one block of memory, which never changes and may be written to a file.

    Fields:
        data: the block; NULL for a graph that could not be compiled.
        size: its bytes.

    >>> from openbnns.capi import *
    >>> graph = BNNSGraphCompileFromFile("no such model.mlmodelc", None, bnns_graph_compile_options_t())
    >>> graph
    bnns_graph_t()
    """

    data: Any = POINTER
    size: int = SIZE


class bnns_graph_context_t(Struct):
    """Shapes, states and callbacks around a graph, for one thread at a time.

    Fields:
        data: the context; NULL for one that could not be made.
        size: not 0 for a context that could be made.

    >>> from openbnns.capi import *
    >>> BNNSGraphContextMake(bnns_graph_t())  # there is no graph
    bnns_graph_context_t()
    """

    data: Any = POINTER
    size: int = SIZE


class bnns_graph_compile_options_t(Struct):
    """Options of a compilation; all zero stands for the defaults.

    Fields:
        data: the options; NULL for the defaults.
        size: not 0 for options that could be made.

    >>> from openbnns.capi import *
    >>> options = BNNSGraphCompileOptionsMakeDefault()
    >>> BNNSGraphCompileOptionsGetOutputFD(options)
    -1
    >>> BNNSGraphCompileOptionsDestroy(options)
    """

    data: Any = POINTER
    size: int = SIZE


class bnns_graph_shape_t(Struct):
    """Shape of an argument of a graph, outermost axis first.

    Fields:
        rank: number of axes; 0 stands for the shape that the model says.
        shape: sizes; 0 stands for the default of the model, and in an output for a size that depends on values.

    >>> from openbnns.capi import *
    >>> bnns_graph_shape_t(2, [7, 3]).shape
    [7, 3]
    """

    rank: int = SIZE
    shape: Any = POINTER


class bnns_graph_argument_t(Struct):
    """An argument of an execution: a tensor or plain memory, as the type of arguments of the context says.

    Fields:
        tensor: the argument, if arguments are tensors.
        descriptor: not supported: a form that BNNSGraph has given up.
        data_ptr: the argument, if arguments are pointers: contiguous elements.
        data_ptr_size: bytes behind data_ptr.

    >>> from openbnns.capi import *
    >>> import numpy as np
    >>> x = np.zeros(3, np.float32)
    >>> bnns_graph_argument_t(data_ptr=x, data_ptr_size=x.nbytes)
    bnns_graph_argument_t(data_ptr=<float32 array (3,)>, data_ptr_size=12)
    """

    tensor: Any = POINTER
    descriptor: Any = POINTER
    data_ptr: Any = POINTER
    data_ptr_size: int = SIZE


class bnns_user_message_data_t(Struct):
    """Data of a program that is passed to its message callback.

    Fields:
        size: its bytes.
        data: the memory.

    >>> from openbnns.capi import *
    >>> bnns_user_message_data_t(data=[1, 2]).data
    [1, 2]
    """

    size: int = SIZE
    data: Any = POINTER
