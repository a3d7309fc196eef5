"""Structs of the classic BNNS C interface; `FixedList` is the type of their array fields.

Written by tools/generate_capi.py from tests/data; edit those, not this file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ._memory import DescriptorMemory
from ._values import (
    BOOL,
    FLOAT,
    INT32,
    POINTER,
    SIGNED_SIZE,
    SIZE,
    UINT8,
    UINT32,
    UINT64,
    ArrayField,
    FixedList,
    Kind,
    Struct,
    array,
    enumeration,
    structure,
)
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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "function": enumeration(BNNSActivationFunction),
        "alpha": FLOAT,
        "beta": FLOAT,
        "iscale": INT32,
        "ioffset": INT32,
        "ishift": INT32,
        "iscale_per_channel": POINTER,
        "ioffset_per_channel": POINTER,
        "ishift_per_channel": POINTER,
    }
    __slots__ = tuple(_kinds)

    function: BNNSActivationFunction | int
    alpha: float
    beta: float
    iscale: int
    ioffset: int
    ishift: int
    iscale_per_channel: Any
    ioffset_per_channel: Any
    ishift_per_channel: Any

    def __init__(
        self,
        *,
        function: BNNSActivationFunction | int = 0,
        alpha: float = 0.0,
        beta: float = 0.0,
        iscale: int = 0,
        ioffset: int = 0,
        ishift: int = 0,
        iscale_per_channel: Any = None,
        ioffset_per_channel: Any = None,
        ishift_per_channel: Any = None,
    ) -> None:
        self._assign(
            function, alpha, beta, iscale, ioffset, ishift, iscale_per_channel, ioffset_per_channel, ishift_per_channel
        )


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "flags": enumeration(BNNSNDArrayFlags),
        "layout": enumeration(BNNSDataLayout),
        "size": array(SIZE, 8),
        "stride": array(SIZE, 8),
        "data": POINTER,
        "data_type": enumeration(BNNSDataType),
        "table_data": POINTER,
        "table_data_type": enumeration(BNNSDataType),
        "data_scale": FLOAT,
        "data_bias": FLOAT,
    }
    __slots__ = tuple(_kinds)

    flags: BNNSNDArrayFlags | int
    layout: BNNSDataLayout | int
    size: ArrayField[FixedList[int], Sequence[int]]
    stride: ArrayField[FixedList[int], Sequence[int]]
    data: Any
    data_type: BNNSDataType | int
    table_data: Any
    table_data_type: BNNSDataType | int
    data_scale: float
    data_bias: float

    def __init__(
        self,
        *,
        flags: BNNSNDArrayFlags | int = 0,
        layout: BNNSDataLayout | int = 0,
        size: Sequence[int] = (),
        stride: Sequence[int] = (),
        data: Any = None,
        data_type: BNNSDataType | int = 0,
        table_data: Any = None,
        table_data_type: BNNSDataType | int = 0,
        data_scale: float = 1.0,
        data_bias: float = 0.0,
    ) -> None:
        self._assign(flags, layout, size, stride, data, data_type, table_data, table_data_type, data_scale, data_bias)


class BNNSTensor(Struct):
    """Graph-generation tensor descriptor; listed only because BNNSTensorGetAllocationSize takes it.

    Fields:
        data_type: element type.
        rank: number of axes.
        shape: extent per axis, slowest first; negative means dynamic.
        stride: element step per axis, same order as shape; 0 is a literal zero here.
        data: storage.
        data_size_in_bytes: size of storage, used for bounds checks.
        name: debug label set by the library.

    >>> from openbnns.capi import *
    >>> BNNSTensorGetAllocationSize(BNNSTensor(data_type=BNNSDataTypeFloat32, rank=2, shape=[2, 3], stride=[3, 1]))
    24
    """

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "data_type": enumeration(BNNSDataType),
        "rank": UINT8,
        "shape": array(SIGNED_SIZE, 8),
        "stride": array(SIGNED_SIZE, 8),
        "data": POINTER,
        "data_size_in_bytes": SIZE,
        "name": POINTER,
    }
    __slots__ = tuple(_kinds)

    data_type: BNNSDataType | int
    rank: int
    shape: ArrayField[FixedList[int], Sequence[int]]
    stride: ArrayField[FixedList[int], Sequence[int]]
    data: Any
    data_size_in_bytes: int
    name: Any

    def __init__(
        self,
        *,
        data_type: BNNSDataType | int = 0,
        rank: int = 0,
        shape: Sequence[int] = (),
        stride: Sequence[int] = (),
        data: Any = None,
        data_size_in_bytes: int = 0,
        name: Any = None,
    ) -> None:
        self._assign(data_type, rank, shape, stride, data, data_size_in_bytes, name)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "iw_desc": array(structure(BNNSNDArrayDescriptor), 2),
        "hw_desc": structure(BNNSNDArrayDescriptor),
        "cw_desc": structure(BNNSNDArrayDescriptor),
        "b_desc": structure(BNNSNDArrayDescriptor),
        "activation": structure(BNNSActivation),
    }
    __slots__ = tuple(_kinds)

    iw_desc: ArrayField[FixedList[BNNSNDArrayDescriptor], Sequence[BNNSNDArrayDescriptor]]
    hw_desc: BNNSNDArrayDescriptor
    cw_desc: BNNSNDArrayDescriptor
    b_desc: BNNSNDArrayDescriptor
    activation: BNNSActivation

    def __init__(
        self,
        *,
        iw_desc: Sequence[BNNSNDArrayDescriptor] = (),
        hw_desc: BNNSNDArrayDescriptor | None = None,
        cw_desc: BNNSNDArrayDescriptor | None = None,
        b_desc: BNNSNDArrayDescriptor | None = None,
        activation: BNNSActivation | None = None,
    ) -> None:
        self._assign(iw_desc, hw_desc, cw_desc, b_desc, activation)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "data_desc": structure(BNNSNDArrayDescriptor),
        "hidden_desc": structure(BNNSNDArrayDescriptor),
        "cell_state_desc": structure(BNNSNDArrayDescriptor),
    }
    __slots__ = tuple(_kinds)

    data_desc: BNNSNDArrayDescriptor
    hidden_desc: BNNSNDArrayDescriptor
    cell_state_desc: BNNSNDArrayDescriptor

    def __init__(
        self,
        *,
        data_desc: BNNSNDArrayDescriptor | None = None,
        hidden_desc: BNNSNDArrayDescriptor | None = None,
        cell_state_desc: BNNSNDArrayDescriptor | None = None,
    ) -> None:
        self._assign(data_desc, hidden_desc, cell_state_desc)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "in_": structure(BNNSNDArrayDescriptor),
        "in_type": enumeration(BNNSDescriptorType),
        "out": structure(BNNSNDArrayDescriptor),
        "out_type": enumeration(BNNSDescriptorType),
    }
    __slots__ = tuple(_kinds)

    in_: BNNSNDArrayDescriptor
    in_type: BNNSDescriptorType | int
    out: BNNSNDArrayDescriptor
    out_type: BNNSDescriptorType | int

    def __init__(
        self,
        *,
        in_: BNNSNDArrayDescriptor | None = None,
        in_type: BNNSDescriptorType | int = 0,
        out: BNNSNDArrayDescriptor | None = None,
        out_type: BNNSDescriptorType | int = 0,
    ) -> None:
        self._assign(in_, in_type, out, out_type)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "in1": structure(BNNSNDArrayDescriptor),
        "in1_type": enumeration(BNNSDescriptorType),
        "in2": structure(BNNSNDArrayDescriptor),
        "in2_type": enumeration(BNNSDescriptorType),
        "out": structure(BNNSNDArrayDescriptor),
        "out_type": enumeration(BNNSDescriptorType),
    }
    __slots__ = tuple(_kinds)

    in1: BNNSNDArrayDescriptor
    in1_type: BNNSDescriptorType | int
    in2: BNNSNDArrayDescriptor
    in2_type: BNNSDescriptorType | int
    out: BNNSNDArrayDescriptor
    out_type: BNNSDescriptorType | int

    def __init__(
        self,
        *,
        in1: BNNSNDArrayDescriptor | None = None,
        in1_type: BNNSDescriptorType | int = 0,
        in2: BNNSNDArrayDescriptor | None = None,
        in2_type: BNNSDescriptorType | int = 0,
        out: BNNSNDArrayDescriptor | None = None,
        out_type: BNNSDescriptorType | int = 0,
    ) -> None:
        self._assign(in1, in1_type, in2, in2_type, out, out_type)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "in1": structure(BNNSNDArrayDescriptor),
        "in1_type": enumeration(BNNSDescriptorType),
        "in2": structure(BNNSNDArrayDescriptor),
        "in2_type": enumeration(BNNSDescriptorType),
        "in3": structure(BNNSNDArrayDescriptor),
        "in3_type": enumeration(BNNSDescriptorType),
        "out": structure(BNNSNDArrayDescriptor),
        "out_type": enumeration(BNNSDescriptorType),
    }
    __slots__ = tuple(_kinds)

    in1: BNNSNDArrayDescriptor
    in1_type: BNNSDescriptorType | int
    in2: BNNSNDArrayDescriptor
    in2_type: BNNSDescriptorType | int
    in3: BNNSNDArrayDescriptor
    in3_type: BNNSDescriptorType | int
    out: BNNSNDArrayDescriptor
    out_type: BNNSDescriptorType | int

    def __init__(
        self,
        *,
        in1: BNNSNDArrayDescriptor | None = None,
        in1_type: BNNSDescriptorType | int = 0,
        in2: BNNSNDArrayDescriptor | None = None,
        in2_type: BNNSDescriptorType | int = 0,
        in3: BNNSNDArrayDescriptor | None = None,
        in3_type: BNNSDescriptorType | int = 0,
        out: BNNSNDArrayDescriptor | None = None,
        out_type: BNNSDescriptorType | int = 0,
    ) -> None:
        self._assign(in1, in1_type, in2, in2_type, in3, in3_type, out, out_type)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "target_desc": structure(BNNSNDArrayDescriptor),
        "weights": structure(BNNSNDArrayDescriptor),
        "bias": structure(BNNSNDArrayDescriptor),
    }
    __slots__ = tuple(_kinds)

    target_desc: BNNSNDArrayDescriptor
    weights: BNNSNDArrayDescriptor
    bias: BNNSNDArrayDescriptor

    def __init__(
        self,
        *,
        target_desc: BNNSNDArrayDescriptor | None = None,
        weights: BNNSNDArrayDescriptor | None = None,
        bias: BNNSNDArrayDescriptor | None = None,
    ) -> None:
        self._assign(target_desc, weights, bias)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "i_desc": structure(BNNSNDArrayDescriptor),
        "w_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
        "bias": structure(BNNSNDArrayDescriptor),
        "activation": structure(BNNSActivation),
        "x_stride": SIZE,
        "y_stride": SIZE,
        "x_dilation_stride": SIZE,
        "y_dilation_stride": SIZE,
        "x_padding": SIZE,
        "y_padding": SIZE,
        "groups": SIZE,
        "pad": array(SIZE, 4),
    }
    __slots__ = tuple(_kinds)

    i_desc: BNNSNDArrayDescriptor
    w_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor
    bias: BNNSNDArrayDescriptor
    activation: BNNSActivation
    x_stride: int
    y_stride: int
    x_dilation_stride: int
    y_dilation_stride: int
    x_padding: int
    y_padding: int
    groups: int
    pad: ArrayField[FixedList[int], Sequence[int]]

    def __init__(
        self,
        *,
        i_desc: BNNSNDArrayDescriptor | None = None,
        w_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
        bias: BNNSNDArrayDescriptor | None = None,
        activation: BNNSActivation | None = None,
        x_stride: int = 0,
        y_stride: int = 0,
        x_dilation_stride: int = 0,
        y_dilation_stride: int = 0,
        x_padding: int = 0,
        y_padding: int = 0,
        groups: int = 0,
        pad: Sequence[int] = (),
    ) -> None:
        self._assign(
            i_desc,
            w_desc,
            o_desc,
            bias,
            activation,
            x_stride,
            y_stride,
            x_dilation_stride,
            y_dilation_stride,
            x_padding,
            y_padding,
            groups,
            pad,
        )


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "i_desc": structure(BNNSNDArrayDescriptor),
        "w_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
        "bias": structure(BNNSNDArrayDescriptor),
        "activation": structure(BNNSActivation),
    }
    __slots__ = tuple(_kinds)

    i_desc: BNNSNDArrayDescriptor
    w_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor
    bias: BNNSNDArrayDescriptor
    activation: BNNSActivation

    def __init__(
        self,
        *,
        i_desc: BNNSNDArrayDescriptor | None = None,
        w_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
        bias: BNNSNDArrayDescriptor | None = None,
        activation: BNNSActivation | None = None,
    ) -> None:
        self._assign(i_desc, w_desc, o_desc, bias, activation)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "i_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
        "bias": structure(BNNSNDArrayDescriptor),
        "activation": structure(BNNSActivation),
        "pooling_function": enumeration(BNNSPoolingFunction),
        "k_width": SIZE,
        "k_height": SIZE,
        "x_stride": SIZE,
        "y_stride": SIZE,
        "x_dilation_stride": SIZE,
        "y_dilation_stride": SIZE,
        "x_padding": SIZE,
        "y_padding": SIZE,
        "pad": array(SIZE, 4),
    }
    __slots__ = tuple(_kinds)

    i_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor
    bias: BNNSNDArrayDescriptor
    activation: BNNSActivation
    pooling_function: BNNSPoolingFunction | int
    k_width: int
    k_height: int
    x_stride: int
    y_stride: int
    x_dilation_stride: int
    y_dilation_stride: int
    x_padding: int
    y_padding: int
    pad: ArrayField[FixedList[int], Sequence[int]]

    def __init__(
        self,
        *,
        i_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
        bias: BNNSNDArrayDescriptor | None = None,
        activation: BNNSActivation | None = None,
        pooling_function: BNNSPoolingFunction | int = 0,
        k_width: int = 0,
        k_height: int = 0,
        x_stride: int = 0,
        y_stride: int = 0,
        x_dilation_stride: int = 0,
        y_dilation_stride: int = 0,
        x_padding: int = 0,
        y_padding: int = 0,
        pad: Sequence[int] = (),
    ) -> None:
        self._assign(
            i_desc,
            o_desc,
            bias,
            activation,
            pooling_function,
            k_width,
            k_height,
            x_stride,
            y_stride,
            x_dilation_stride,
            y_dilation_stride,
            x_padding,
            y_padding,
            pad,
        )


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "i_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
        "activation": structure(BNNSActivation),
        "axis_flags": UINT32,
    }
    __slots__ = tuple(_kinds)

    i_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor
    activation: BNNSActivation
    axis_flags: int

    def __init__(
        self,
        *,
        i_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
        activation: BNNSActivation | None = None,
        axis_flags: int = 0,
    ) -> None:
        self._assign(i_desc, o_desc, activation, axis_flags)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "function": enumeration(BNNSLossFunction),
        "i_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
        "reduction": enumeration(BNNSLossReductionFunction),
    }
    __slots__ = tuple(_kinds)

    function: BNNSLossFunction | int
    i_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor
    reduction: BNNSLossReductionFunction | int

    def __init__(
        self,
        *,
        function: BNNSLossFunction | int = 0,
        i_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
        reduction: BNNSLossReductionFunction | int = 0,
    ) -> None:
        self._assign(function, i_desc, o_desc, reduction)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "function": enumeration(BNNSLossFunction),
        "i_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
        "reduction": enumeration(BNNSLossReductionFunction),
        "label_smooth": FLOAT,
    }
    __slots__ = tuple(_kinds)

    function: BNNSLossFunction | int
    i_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor
    reduction: BNNSLossReductionFunction | int
    label_smooth: float

    def __init__(
        self,
        *,
        function: BNNSLossFunction | int = 0,
        i_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
        reduction: BNNSLossReductionFunction | int = 0,
        label_smooth: float = 0.0,
    ) -> None:
        self._assign(function, i_desc, o_desc, reduction, label_smooth)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "function": enumeration(BNNSLossFunction),
        "i_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
        "reduction": enumeration(BNNSLossReductionFunction),
        "label_smooth": FLOAT,
    }
    __slots__ = tuple(_kinds)

    function: BNNSLossFunction | int
    i_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor
    reduction: BNNSLossReductionFunction | int
    label_smooth: float

    def __init__(
        self,
        *,
        function: BNNSLossFunction | int = 0,
        i_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
        reduction: BNNSLossReductionFunction | int = 0,
        label_smooth: float = 0.0,
    ) -> None:
        self._assign(function, i_desc, o_desc, reduction, label_smooth)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "function": enumeration(BNNSLossFunction),
        "i_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
        "reduction": enumeration(BNNSLossReductionFunction),
        "huber_delta": FLOAT,
    }
    __slots__ = tuple(_kinds)

    function: BNNSLossFunction | int
    i_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor
    reduction: BNNSLossReductionFunction | int
    huber_delta: float

    def __init__(
        self,
        *,
        function: BNNSLossFunction | int = 0,
        i_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
        reduction: BNNSLossReductionFunction | int = 0,
        huber_delta: float = 0.0,
    ) -> None:
        self._assign(function, i_desc, o_desc, reduction, huber_delta)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "function": enumeration(BNNSLossFunction),
        "i_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
        "reduction": enumeration(BNNSLossReductionFunction),
        "huber_delta": FLOAT,
        "number_of_grid_columns": SIZE,
        "number_of_grid_rows": SIZE,
        "number_of_anchor_boxes": SIZE,
        "anchor_box_size": SIZE,
        "rescore": BOOL,
        "scale_xy": FLOAT,
        "scale_wh": FLOAT,
        "scale_object": FLOAT,
        "scale_no_object": FLOAT,
        "scale_classification": FLOAT,
        "object_minimum_iou": FLOAT,
        "no_object_maximum_iou": FLOAT,
        "anchors_data": POINTER,
    }
    __slots__ = tuple(_kinds)

    function: BNNSLossFunction | int
    i_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor
    reduction: BNNSLossReductionFunction | int
    huber_delta: float
    number_of_grid_columns: int
    number_of_grid_rows: int
    number_of_anchor_boxes: int
    anchor_box_size: int
    rescore: bool
    scale_xy: float
    scale_wh: float
    scale_object: float
    scale_no_object: float
    scale_classification: float
    object_minimum_iou: float
    no_object_maximum_iou: float
    anchors_data: Any

    def __init__(
        self,
        *,
        function: BNNSLossFunction | int = 0,
        i_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
        reduction: BNNSLossReductionFunction | int = 0,
        huber_delta: float = 0.0,
        number_of_grid_columns: int = 0,
        number_of_grid_rows: int = 0,
        number_of_anchor_boxes: int = 0,
        anchor_box_size: int = 0,
        rescore: bool = False,
        scale_xy: float = 0.0,
        scale_wh: float = 0.0,
        scale_object: float = 0.0,
        scale_no_object: float = 0.0,
        scale_classification: float = 0.0,
        object_minimum_iou: float = 0.0,
        no_object_maximum_iou: float = 0.0,
        anchors_data: Any = None,
    ) -> None:
        self._assign(
            function,
            i_desc,
            o_desc,
            reduction,
            huber_delta,
            number_of_grid_columns,
            number_of_grid_rows,
            number_of_anchor_boxes,
            anchor_box_size,
            rescore,
            scale_xy,
            scale_wh,
            scale_object,
            scale_no_object,
            scale_classification,
            object_minimum_iou,
            no_object_maximum_iou,
            anchors_data,
        )


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "learning_rate": FLOAT,
        "momentum": FLOAT,
        "gradient_scale": FLOAT,
        "regularization_scale": FLOAT,
        "clip_gradients": BOOL,
        "clip_gradients_min": FLOAT,
        "clip_gradients_max": FLOAT,
        "nesterov": BOOL,
        "regularization_func": enumeration(BNNSOptimizerRegularizationFunction),
        "sgd_momentum_variant": enumeration(BNNSOptimizerSGDMomentumVariant),
    }
    __slots__ = tuple(_kinds)

    learning_rate: float
    momentum: float
    gradient_scale: float
    regularization_scale: float
    clip_gradients: bool
    clip_gradients_min: float
    clip_gradients_max: float
    nesterov: bool
    regularization_func: BNNSOptimizerRegularizationFunction | int
    sgd_momentum_variant: BNNSOptimizerSGDMomentumVariant | int

    def __init__(
        self,
        *,
        learning_rate: float = 0.0,
        momentum: float = 0.0,
        gradient_scale: float = 0.0,
        regularization_scale: float = 0.0,
        clip_gradients: bool = False,
        clip_gradients_min: float = 0.0,
        clip_gradients_max: float = 0.0,
        nesterov: bool = False,
        regularization_func: BNNSOptimizerRegularizationFunction | int = 0,
        sgd_momentum_variant: BNNSOptimizerSGDMomentumVariant | int = 0,
    ) -> None:
        self._assign(
            learning_rate,
            momentum,
            gradient_scale,
            regularization_scale,
            clip_gradients,
            clip_gradients_min,
            clip_gradients_max,
            nesterov,
            regularization_func,
            sgd_momentum_variant,
        )


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "learning_rate": FLOAT,
        "momentum": FLOAT,
        "gradient_scale": FLOAT,
        "regularization_scale": FLOAT,
        "nesterov": BOOL,
        "regularization_func": enumeration(BNNSOptimizerRegularizationFunction),
        "sgd_momentum_variant": enumeration(BNNSOptimizerSGDMomentumVariant),
        "clipping_func": enumeration(BNNSOptimizerClippingFunction),
        "clip_gradients_min": FLOAT,
        "clip_gradients_max": FLOAT,
        "clip_gradients_max_norm": FLOAT,
        "clip_gradients_use_norm": FLOAT,
    }
    __slots__ = tuple(_kinds)

    learning_rate: float
    momentum: float
    gradient_scale: float
    regularization_scale: float
    nesterov: bool
    regularization_func: BNNSOptimizerRegularizationFunction | int
    sgd_momentum_variant: BNNSOptimizerSGDMomentumVariant | int
    clipping_func: BNNSOptimizerClippingFunction | int
    clip_gradients_min: float
    clip_gradients_max: float
    clip_gradients_max_norm: float
    clip_gradients_use_norm: float

    def __init__(
        self,
        *,
        learning_rate: float = 0.0,
        momentum: float = 0.0,
        gradient_scale: float = 0.0,
        regularization_scale: float = 0.0,
        nesterov: bool = False,
        regularization_func: BNNSOptimizerRegularizationFunction | int = 0,
        sgd_momentum_variant: BNNSOptimizerSGDMomentumVariant | int = 0,
        clipping_func: BNNSOptimizerClippingFunction | int = 0,
        clip_gradients_min: float = 0.0,
        clip_gradients_max: float = 0.0,
        clip_gradients_max_norm: float = 0.0,
        clip_gradients_use_norm: float = 0.0,
    ) -> None:
        self._assign(
            learning_rate,
            momentum,
            gradient_scale,
            regularization_scale,
            nesterov,
            regularization_func,
            sgd_momentum_variant,
            clipping_func,
            clip_gradients_min,
            clip_gradients_max,
            clip_gradients_max_norm,
            clip_gradients_use_norm,
        )


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "learning_rate": FLOAT,
        "beta1": FLOAT,
        "beta2": FLOAT,
        "time_step": FLOAT,
        "epsilon": FLOAT,
        "gradient_scale": FLOAT,
        "regularization_scale": FLOAT,
        "clip_gradients": BOOL,
        "clip_gradients_min": FLOAT,
        "clip_gradients_max": FLOAT,
        "regularization_func": enumeration(BNNSOptimizerRegularizationFunction),
    }
    __slots__ = tuple(_kinds)

    learning_rate: float
    beta1: float
    beta2: float
    time_step: float
    epsilon: float
    gradient_scale: float
    regularization_scale: float
    clip_gradients: bool
    clip_gradients_min: float
    clip_gradients_max: float
    regularization_func: BNNSOptimizerRegularizationFunction | int

    def __init__(
        self,
        *,
        learning_rate: float = 0.0,
        beta1: float = 0.0,
        beta2: float = 0.0,
        time_step: float = 0.0,
        epsilon: float = 0.0,
        gradient_scale: float = 0.0,
        regularization_scale: float = 0.0,
        clip_gradients: bool = False,
        clip_gradients_min: float = 0.0,
        clip_gradients_max: float = 0.0,
        regularization_func: BNNSOptimizerRegularizationFunction | int = 0,
    ) -> None:
        self._assign(
            learning_rate,
            beta1,
            beta2,
            time_step,
            epsilon,
            gradient_scale,
            regularization_scale,
            clip_gradients,
            clip_gradients_min,
            clip_gradients_max,
            regularization_func,
        )


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "learning_rate": FLOAT,
        "beta1": FLOAT,
        "beta2": FLOAT,
        "time_step": FLOAT,
        "epsilon": FLOAT,
        "gradient_scale": FLOAT,
        "regularization_scale": FLOAT,
        "regularization_func": enumeration(BNNSOptimizerRegularizationFunction),
        "clipping_func": enumeration(BNNSOptimizerClippingFunction),
        "clip_gradients_min": FLOAT,
        "clip_gradients_max": FLOAT,
        "clip_gradients_max_norm": FLOAT,
        "clip_gradients_use_norm": FLOAT,
    }
    __slots__ = tuple(_kinds)

    learning_rate: float
    beta1: float
    beta2: float
    time_step: float
    epsilon: float
    gradient_scale: float
    regularization_scale: float
    regularization_func: BNNSOptimizerRegularizationFunction | int
    clipping_func: BNNSOptimizerClippingFunction | int
    clip_gradients_min: float
    clip_gradients_max: float
    clip_gradients_max_norm: float
    clip_gradients_use_norm: float

    def __init__(
        self,
        *,
        learning_rate: float = 0.0,
        beta1: float = 0.0,
        beta2: float = 0.0,
        time_step: float = 0.0,
        epsilon: float = 0.0,
        gradient_scale: float = 0.0,
        regularization_scale: float = 0.0,
        regularization_func: BNNSOptimizerRegularizationFunction | int = 0,
        clipping_func: BNNSOptimizerClippingFunction | int = 0,
        clip_gradients_min: float = 0.0,
        clip_gradients_max: float = 0.0,
        clip_gradients_max_norm: float = 0.0,
        clip_gradients_use_norm: float = 0.0,
    ) -> None:
        self._assign(
            learning_rate,
            beta1,
            beta2,
            time_step,
            epsilon,
            gradient_scale,
            regularization_scale,
            regularization_func,
            clipping_func,
            clip_gradients_min,
            clip_gradients_max,
            clip_gradients_max_norm,
            clip_gradients_use_norm,
        )


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "learning_rate": FLOAT,
        "alpha": FLOAT,
        "epsilon": FLOAT,
        "centered": BOOL,
        "momentum": FLOAT,
        "gradient_scale": FLOAT,
        "regularization_scale": FLOAT,
        "clip_gradients": BOOL,
        "clip_gradients_min": FLOAT,
        "clip_gradients_max": FLOAT,
        "regularization_func": enumeration(BNNSOptimizerRegularizationFunction),
    }
    __slots__ = tuple(_kinds)

    learning_rate: float
    alpha: float
    epsilon: float
    centered: bool
    momentum: float
    gradient_scale: float
    regularization_scale: float
    clip_gradients: bool
    clip_gradients_min: float
    clip_gradients_max: float
    regularization_func: BNNSOptimizerRegularizationFunction | int

    def __init__(
        self,
        *,
        learning_rate: float = 0.0,
        alpha: float = 0.0,
        epsilon: float = 0.0,
        centered: bool = False,
        momentum: float = 0.0,
        gradient_scale: float = 0.0,
        regularization_scale: float = 0.0,
        clip_gradients: bool = False,
        clip_gradients_min: float = 0.0,
        clip_gradients_max: float = 0.0,
        regularization_func: BNNSOptimizerRegularizationFunction | int = 0,
    ) -> None:
        self._assign(
            learning_rate,
            alpha,
            epsilon,
            centered,
            momentum,
            gradient_scale,
            regularization_scale,
            clip_gradients,
            clip_gradients_min,
            clip_gradients_max,
            regularization_func,
        )


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "learning_rate": FLOAT,
        "alpha": FLOAT,
        "epsilon": FLOAT,
        "centered": BOOL,
        "momentum": FLOAT,
        "gradient_scale": FLOAT,
        "regularization_scale": FLOAT,
        "regularization_func": enumeration(BNNSOptimizerRegularizationFunction),
        "clipping_func": enumeration(BNNSOptimizerClippingFunction),
        "clip_gradients_min": FLOAT,
        "clip_gradients_max": FLOAT,
        "clip_gradients_max_norm": FLOAT,
        "clip_gradients_use_norm": FLOAT,
    }
    __slots__ = tuple(_kinds)

    learning_rate: float
    alpha: float
    epsilon: float
    centered: bool
    momentum: float
    gradient_scale: float
    regularization_scale: float
    regularization_func: BNNSOptimizerRegularizationFunction | int
    clipping_func: BNNSOptimizerClippingFunction | int
    clip_gradients_min: float
    clip_gradients_max: float
    clip_gradients_max_norm: float
    clip_gradients_use_norm: float

    def __init__(
        self,
        *,
        learning_rate: float = 0.0,
        alpha: float = 0.0,
        epsilon: float = 0.0,
        centered: bool = False,
        momentum: float = 0.0,
        gradient_scale: float = 0.0,
        regularization_scale: float = 0.0,
        regularization_func: BNNSOptimizerRegularizationFunction | int = 0,
        clipping_func: BNNSOptimizerClippingFunction | int = 0,
        clip_gradients_min: float = 0.0,
        clip_gradients_max: float = 0.0,
        clip_gradients_max_norm: float = 0.0,
        clip_gradients_use_norm: float = 0.0,
    ) -> None:
        self._assign(
            learning_rate,
            alpha,
            epsilon,
            centered,
            momentum,
            gradient_scale,
            regularization_scale,
            regularization_func,
            clipping_func,
            clip_gradients_min,
            clip_gradients_max,
            clip_gradients_max_norm,
            clip_gradients_use_norm,
        )


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "i_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
        "beta_desc": structure(BNNSNDArrayDescriptor),
        "gamma_desc": structure(BNNSNDArrayDescriptor),
        "moving_mean_desc": structure(BNNSNDArrayDescriptor),
        "moving_variance_desc": structure(BNNSNDArrayDescriptor),
        "momentum": FLOAT,
        "epsilon": FLOAT,
        "activation": structure(BNNSActivation),
        "num_groups": SIZE,
        "normalization_axis": SIZE,
    }
    __slots__ = tuple(_kinds)

    i_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor
    beta_desc: BNNSNDArrayDescriptor
    gamma_desc: BNNSNDArrayDescriptor
    moving_mean_desc: BNNSNDArrayDescriptor
    moving_variance_desc: BNNSNDArrayDescriptor
    momentum: float
    epsilon: float
    activation: BNNSActivation
    num_groups: int
    normalization_axis: int

    def __init__(
        self,
        *,
        i_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
        beta_desc: BNNSNDArrayDescriptor | None = None,
        gamma_desc: BNNSNDArrayDescriptor | None = None,
        moving_mean_desc: BNNSNDArrayDescriptor | None = None,
        moving_variance_desc: BNNSNDArrayDescriptor | None = None,
        momentum: float = 0.0,
        epsilon: float = 0.0,
        activation: BNNSActivation | None = None,
        num_groups: int = 0,
        normalization_axis: int = 0,
    ) -> None:
        self._assign(
            i_desc,
            o_desc,
            beta_desc,
            gamma_desc,
            moving_mean_desc,
            moving_variance_desc,
            momentum,
            epsilon,
            activation,
            num_groups,
            normalization_axis,
        )


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "i_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
        "rate": FLOAT,
        "seed": UINT32,
        "control": UINT8,
    }
    __slots__ = tuple(_kinds)

    i_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor
    rate: float
    seed: int
    control: int

    def __init__(
        self,
        *,
        i_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
        rate: float = 0.0,
        seed: int = 0,
        control: int = 0,
    ) -> None:
        self._assign(i_desc, o_desc, rate, seed, control)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "input_size": SIZE,
        "hidden_size": SIZE,
        "batch_size": SIZE,
        "num_layers": SIZE,
        "seq_len": SIZE,
        "dropout": FLOAT,
        "lstm_flags": enumeration(BNNSLayerFlags),
        "sequence_descriptor": structure(BNNSNDArrayDescriptor),
        "input_descriptor": structure(BNNSLSTMDataDescriptor),
        "output_descriptor": structure(BNNSLSTMDataDescriptor),
        "input_gate": structure(BNNSLSTMGateDescriptor),
        "forget_gate": structure(BNNSLSTMGateDescriptor),
        "candidate_gate": structure(BNNSLSTMGateDescriptor),
        "output_gate": structure(BNNSLSTMGateDescriptor),
        "hidden_activation": structure(BNNSActivation),
    }
    __slots__ = tuple(_kinds)

    input_size: int
    hidden_size: int
    batch_size: int
    num_layers: int
    seq_len: int
    dropout: float
    lstm_flags: BNNSLayerFlags | int
    sequence_descriptor: BNNSNDArrayDescriptor
    input_descriptor: BNNSLSTMDataDescriptor
    output_descriptor: BNNSLSTMDataDescriptor
    input_gate: BNNSLSTMGateDescriptor
    forget_gate: BNNSLSTMGateDescriptor
    candidate_gate: BNNSLSTMGateDescriptor
    output_gate: BNNSLSTMGateDescriptor
    hidden_activation: BNNSActivation

    def __init__(
        self,
        *,
        input_size: int = 0,
        hidden_size: int = 0,
        batch_size: int = 0,
        num_layers: int = 0,
        seq_len: int = 0,
        dropout: float = 0.0,
        lstm_flags: BNNSLayerFlags | int = 0,
        sequence_descriptor: BNNSNDArrayDescriptor | None = None,
        input_descriptor: BNNSLSTMDataDescriptor | None = None,
        output_descriptor: BNNSLSTMDataDescriptor | None = None,
        input_gate: BNNSLSTMGateDescriptor | None = None,
        forget_gate: BNNSLSTMGateDescriptor | None = None,
        candidate_gate: BNNSLSTMGateDescriptor | None = None,
        output_gate: BNNSLSTMGateDescriptor | None = None,
        hidden_activation: BNNSActivation | None = None,
    ) -> None:
        self._assign(
            input_size,
            hidden_size,
            batch_size,
            num_layers,
            seq_len,
            dropout,
            lstm_flags,
            sequence_descriptor,
            input_descriptor,
            output_descriptor,
            input_gate,
            forget_gate,
            candidate_gate,
            output_gate,
            hidden_activation,
        )


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "arithmetic_function": enumeration(BNNSArithmeticFunction),
        "arithmetic_function_fields": POINTER,
        "activation": structure(BNNSActivation),
    }
    __slots__ = tuple(_kinds)

    arithmetic_function: BNNSArithmeticFunction | int
    arithmetic_function_fields: Any
    activation: BNNSActivation

    def __init__(
        self,
        *,
        arithmetic_function: BNNSArithmeticFunction | int = 0,
        arithmetic_function_fields: Any = None,
        activation: BNNSActivation | None = None,
    ) -> None:
        self._assign(arithmetic_function, arithmetic_function_fields, activation)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "i_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
        "permutation": array(SIZE, 8),
    }
    __slots__ = tuple(_kinds)

    i_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor
    permutation: ArrayField[FixedList[int], Sequence[int]]

    def __init__(
        self,
        *,
        i_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
        permutation: Sequence[int] = (),
    ) -> None:
        self._assign(i_desc, o_desc, permutation)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "operation": POINTER,
        "alpha": FLOAT,
        "beta": FLOAT,
        "iA_desc": structure(BNNSNDArrayDescriptor),
        "iB_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
    }
    __slots__ = tuple(_kinds)

    operation: Any
    alpha: float
    beta: float
    iA_desc: BNNSNDArrayDescriptor
    iB_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor

    def __init__(
        self,
        *,
        operation: Any = None,
        alpha: float = 0.0,
        beta: float = 0.0,
        iA_desc: BNNSNDArrayDescriptor | None = None,
        iB_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
    ) -> None:
        self._assign(operation, alpha, beta, iA_desc, iB_desc, o_desc)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "alpha": FLOAT,
        "i_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
    }
    __slots__ = tuple(_kinds)

    alpha: float
    i_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor

    def __init__(
        self,
        *,
        alpha: float = 0.0,
        i_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
    ) -> None:
        self._assign(alpha, i_desc, o_desc)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "method": enumeration(BNNSInterpolationMethod),
        "i_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
        "align_corners": BOOL,
    }
    __slots__ = tuple(_kinds)

    method: BNNSInterpolationMethod | int
    i_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor
    align_corners: bool

    def __init__(
        self,
        *,
        method: BNNSInterpolationMethod | int = 0,
        i_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
        align_corners: bool = False,
    ) -> None:
        self._assign(method, i_desc, o_desc, align_corners)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "normalized_coordinates": BOOL,
        "spatial_scale": FLOAT,
        "extrapolation_value": FLOAT,
        "sampling_mode": enumeration(BNNSLinearSamplingMode),
        "box_coordinate_mode": enumeration(BNNSBoxCoordinateMode),
        "method": enumeration(BNNSInterpolationMethod),
    }
    __slots__ = tuple(_kinds)

    normalized_coordinates: bool
    spatial_scale: float
    extrapolation_value: float
    sampling_mode: BNNSLinearSamplingMode | int
    box_coordinate_mode: BNNSBoxCoordinateMode | int
    method: BNNSInterpolationMethod | int

    def __init__(
        self,
        *,
        normalized_coordinates: bool = False,
        spatial_scale: float = 0.0,
        extrapolation_value: float = 0.0,
        sampling_mode: BNNSLinearSamplingMode | int = 0,
        box_coordinate_mode: BNNSBoxCoordinateMode | int = 0,
        method: BNNSInterpolationMethod | int = 0,
    ) -> None:
        self._assign(
            normalized_coordinates, spatial_scale, extrapolation_value, sampling_mode, box_coordinate_mode, method
        )


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "alpha": FLOAT,
        "beta": FLOAT,
        "transA": BOOL,
        "transB": BOOL,
        "quadratic": BOOL,
        "a_is_weights": BOOL,
        "b_is_weights": BOOL,
        "iA_desc": structure(BNNSNDArrayDescriptor),
        "iB_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
    }
    __slots__ = tuple(_kinds)

    alpha: float
    beta: float
    transA: bool
    transB: bool
    quadratic: bool
    a_is_weights: bool
    b_is_weights: bool
    iA_desc: BNNSNDArrayDescriptor
    iB_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor

    def __init__(
        self,
        *,
        alpha: float = 0.0,
        beta: float = 0.0,
        transA: bool = False,
        transB: bool = False,
        quadratic: bool = False,
        a_is_weights: bool = False,
        b_is_weights: bool = False,
        iA_desc: BNNSNDArrayDescriptor | None = None,
        iB_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
    ) -> None:
        self._assign(alpha, beta, transA, transB, quadratic, a_is_weights, b_is_weights, iA_desc, iB_desc, o_desc)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "query": structure(BNNSMHAProjectionParameters),
        "key": structure(BNNSMHAProjectionParameters),
        "value": structure(BNNSMHAProjectionParameters),
        "add_zero_attn": BOOL,
        "key_attn_bias": structure(BNNSNDArrayDescriptor),
        "value_attn_bias": structure(BNNSNDArrayDescriptor),
        "output": structure(BNNSMHAProjectionParameters),
        "dropout": FLOAT,
        "seed": UINT32,
    }
    __slots__ = tuple(_kinds)

    query: BNNSMHAProjectionParameters
    key: BNNSMHAProjectionParameters
    value: BNNSMHAProjectionParameters
    add_zero_attn: bool
    key_attn_bias: BNNSNDArrayDescriptor
    value_attn_bias: BNNSNDArrayDescriptor
    output: BNNSMHAProjectionParameters
    dropout: float
    seed: int

    def __init__(
        self,
        *,
        query: BNNSMHAProjectionParameters | None = None,
        key: BNNSMHAProjectionParameters | None = None,
        value: BNNSMHAProjectionParameters | None = None,
        add_zero_attn: bool = False,
        key_attn_bias: BNNSNDArrayDescriptor | None = None,
        value_attn_bias: BNNSNDArrayDescriptor | None = None,
        output: BNNSMHAProjectionParameters | None = None,
        dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._assign(query, key, value, add_zero_attn, key_attn_bias, value_attn_bias, output, dropout, seed)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "i_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
        "w_desc": structure(BNNSNDArrayDescriptor),
        "reduce_func": enumeration(BNNSReduceFunction),
        "epsilon": FLOAT,
    }
    __slots__ = tuple(_kinds)

    i_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor
    w_desc: BNNSNDArrayDescriptor
    reduce_func: BNNSReduceFunction | int
    epsilon: float

    def __init__(
        self,
        *,
        i_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
        w_desc: BNNSNDArrayDescriptor | None = None,
        reduce_func: BNNSReduceFunction | int = 0,
        epsilon: float = 0.0,
    ) -> None:
        self._assign(i_desc, o_desc, w_desc, reduce_func, epsilon)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "i_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
        "padding_size": array(array(SIZE, 2), 8),
        "padding_mode": enumeration(BNNSPaddingMode),
        "padding_value": UINT32,
    }
    __slots__ = tuple(_kinds)

    i_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor
    padding_size: ArrayField[FixedList[FixedList[int]], Sequence[Sequence[int]]]
    padding_mode: BNNSPaddingMode | int
    padding_value: int

    def __init__(
        self,
        *,
        i_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
        padding_size: Sequence[Sequence[int]] = (),
        padding_mode: BNNSPaddingMode | int = 0,
        padding_value: int = 0,
    ) -> None:
        self._assign(i_desc, o_desc, padding_size, padding_mode, padding_value)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "flags": enumeration(BNNSEmbeddingFlags),
        "i_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
        "dictionary": structure(BNNSNDArrayDescriptor),
        "padding_idx": SIZE,
        "max_norm": FLOAT,
        "norm_type": FLOAT,
    }
    __slots__ = tuple(_kinds)

    flags: BNNSEmbeddingFlags | int
    i_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor
    dictionary: BNNSNDArrayDescriptor
    padding_idx: int
    max_norm: float
    norm_type: float

    def __init__(
        self,
        *,
        flags: BNNSEmbeddingFlags | int = 0,
        i_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
        dictionary: BNNSNDArrayDescriptor | None = None,
        padding_idx: int = 0,
        max_norm: float = 0.0,
        norm_type: float = 0.0,
    ) -> None:
        self._assign(flags, i_desc, o_desc, dictionary, padding_idx, max_norm, norm_type)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "axis_mask": SIZE,
        "function": enumeration(BNNSQuantizerFunction),
        "i_desc": structure(BNNSNDArrayDescriptor),
        "o_desc": structure(BNNSNDArrayDescriptor),
        "scale": structure(BNNSNDArrayDescriptor),
        "bias": structure(BNNSNDArrayDescriptor),
    }
    __slots__ = tuple(_kinds)

    axis_mask: int
    function: BNNSQuantizerFunction | int
    i_desc: BNNSNDArrayDescriptor
    o_desc: BNNSNDArrayDescriptor
    scale: BNNSNDArrayDescriptor
    bias: BNNSNDArrayDescriptor

    def __init__(
        self,
        *,
        axis_mask: int = 0,
        function: BNNSQuantizerFunction | int = 0,
        i_desc: BNNSNDArrayDescriptor | None = None,
        o_desc: BNNSNDArrayDescriptor | None = None,
        scale: BNNSNDArrayDescriptor | None = None,
        bias: BNNSNDArrayDescriptor | None = None,
    ) -> None:
        self._assign(axis_mask, function, i_desc, o_desc, scale, bias)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "flags": UINT64,
        "sparsity_ratio": array(UINT32, 2),
        "sparsity_type": enumeration(BNNSSparsityType),
        "target_system": enumeration(BNNSTargetSystem),
    }
    __slots__ = tuple(_kinds)

    flags: int
    sparsity_ratio: ArrayField[FixedList[int], Sequence[int]]
    sparsity_type: BNNSSparsityType | int
    target_system: BNNSTargetSystem | int

    def __init__(
        self,
        *,
        flags: int = 0,
        sparsity_ratio: Sequence[int] = (),
        sparsity_type: BNNSSparsityType | int = 0,
        target_system: BNNSTargetSystem | int = 0,
    ) -> None:
        self._assign(flags, sparsity_ratio, sparsity_type, target_system)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "width": SIZE,
        "height": SIZE,
        "channels": SIZE,
        "row_stride": SIZE,
        "image_stride": SIZE,
        "data_type": enumeration(BNNSDataType),
        "data_scale": FLOAT,
        "data_bias": FLOAT,
    }
    __slots__ = tuple(_kinds)

    width: int
    height: int
    channels: int
    row_stride: int
    image_stride: int
    data_type: BNNSDataType | int
    data_scale: float
    data_bias: float

    def __init__(
        self,
        *,
        width: int = 0,
        height: int = 0,
        channels: int = 0,
        row_stride: int = 0,
        image_stride: int = 0,
        data_type: BNNSDataType | int = 0,
        data_scale: float = 1.0,
        data_bias: float = 0.0,
    ) -> None:
        self._assign(width, height, channels, row_stride, image_stride, data_type, data_scale, data_bias)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "size": SIZE,
        "data_type": enumeration(BNNSDataType),
        "data_scale": FLOAT,
        "data_bias": FLOAT,
    }
    __slots__ = tuple(_kinds)

    size: int
    data_type: BNNSDataType | int
    data_scale: float
    data_bias: float

    def __init__(
        self,
        *,
        size: int = 0,
        data_type: BNNSDataType | int = 0,
        data_scale: float = 1.0,
        data_bias: float = 0.0,
    ) -> None:
        self._assign(size, data_type, data_scale, data_bias)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "data": POINTER,
        "data_type": enumeration(BNNSDataType),
        "data_scale": FLOAT,
        "data_bias": FLOAT,
        "data_table": POINTER,
    }
    __slots__ = tuple(_kinds)

    data: Any
    data_type: BNNSDataType | int
    data_scale: float
    data_bias: float
    data_table: Any

    def __init__(
        self,
        *,
        data: Any = None,
        data_type: BNNSDataType | int = 0,
        data_scale: float = 1.0,
        data_bias: float = 0.0,
        data_table: Any = None,
    ) -> None:
        self._assign(data, data_type, data_scale, data_bias, data_table)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "x_stride": SIZE,
        "y_stride": SIZE,
        "x_padding": SIZE,
        "y_padding": SIZE,
        "k_width": SIZE,
        "k_height": SIZE,
        "in_channels": SIZE,
        "out_channels": SIZE,
        "weights": structure(BNNSLayerData),
        "bias": structure(BNNSLayerData),
        "activation": structure(BNNSActivation),
    }
    __slots__ = tuple(_kinds)

    x_stride: int
    y_stride: int
    x_padding: int
    y_padding: int
    k_width: int
    k_height: int
    in_channels: int
    out_channels: int
    weights: BNNSLayerData
    bias: BNNSLayerData
    activation: BNNSActivation

    def __init__(
        self,
        *,
        x_stride: int = 0,
        y_stride: int = 0,
        x_padding: int = 0,
        y_padding: int = 0,
        k_width: int = 0,
        k_height: int = 0,
        in_channels: int = 0,
        out_channels: int = 0,
        weights: BNNSLayerData | None = None,
        bias: BNNSLayerData | None = None,
        activation: BNNSActivation | None = None,
    ) -> None:
        self._assign(
            x_stride,
            y_stride,
            x_padding,
            y_padding,
            k_width,
            k_height,
            in_channels,
            out_channels,
            weights,
            bias,
            activation,
        )


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "in_size": SIZE,
        "out_size": SIZE,
        "weights": structure(BNNSLayerData),
        "bias": structure(BNNSLayerData),
        "activation": structure(BNNSActivation),
    }
    __slots__ = tuple(_kinds)

    in_size: int
    out_size: int
    weights: BNNSLayerData
    bias: BNNSLayerData
    activation: BNNSActivation

    def __init__(
        self,
        *,
        in_size: int = 0,
        out_size: int = 0,
        weights: BNNSLayerData | None = None,
        bias: BNNSLayerData | None = None,
        activation: BNNSActivation | None = None,
    ) -> None:
        self._assign(in_size, out_size, weights, bias, activation)


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "x_stride": SIZE,
        "y_stride": SIZE,
        "x_padding": SIZE,
        "y_padding": SIZE,
        "k_width": SIZE,
        "k_height": SIZE,
        "in_channels": SIZE,
        "out_channels": SIZE,
        "pooling_function": enumeration(BNNSPoolingFunction),
        "bias": structure(BNNSLayerData),
        "activation": structure(BNNSActivation),
    }
    __slots__ = tuple(_kinds)

    x_stride: int
    y_stride: int
    x_padding: int
    y_padding: int
    k_width: int
    k_height: int
    in_channels: int
    out_channels: int
    pooling_function: BNNSPoolingFunction | int
    bias: BNNSLayerData
    activation: BNNSActivation

    def __init__(
        self,
        *,
        x_stride: int = 0,
        y_stride: int = 0,
        x_padding: int = 0,
        y_padding: int = 0,
        k_width: int = 0,
        k_height: int = 0,
        in_channels: int = 0,
        out_channels: int = 0,
        pooling_function: BNNSPoolingFunction | int = 0,
        bias: BNNSLayerData | None = None,
        activation: BNNSActivation | None = None,
    ) -> None:
        self._assign(
            x_stride,
            y_stride,
            x_padding,
            y_padding,
            k_width,
            k_height,
            in_channels,
            out_channels,
            pooling_function,
            bias,
            activation,
        )


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

    _kinds: ClassVar[Mapping[str, Kind]] = {
        "flags": enumeration(BNNSFlags),
        "n_threads": SIZE,
        "alloc_memory": POINTER,
        "free_memory": POINTER,
    }
    __slots__ = tuple(_kinds)

    flags: BNNSFlags | int
    n_threads: int
    alloc_memory: Any
    free_memory: Any

    def __init__(
        self,
        *,
        flags: BNNSFlags | int = 0,
        n_threads: int = 0,
        alloc_memory: Any = None,
        free_memory: Any = None,
    ) -> None:
        self._assign(flags, n_threads, alloc_memory, free_memory)
