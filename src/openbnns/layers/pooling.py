"""Pooling of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._words import Caller
from ..abi.enums import BNNSDataType
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersPooling, BNNSNDArrayDescriptor
from ..errors import Problem
from ..filters.pooling import Pooling
from ..tensors import descriptors
from ..tensors.descriptors import View, describe
from ._methods import DECLARED, method
from ._ports import (
    Port,
    TensorLike,
    as_array,
    describe_sample,
    describe_vector,
    require,
    require_data,
)
from .base import UnaryLayer, client_pointer
from .convolution import WINDOW_NAMES, filled_by_windows, x_and_y
from .shape import Shape
from .types import ActivationFunction, ConvolutionPadding, PoolingType

__all__ = ["PoolingGradients", "PoolingLayer"]


class PoolingGradients(NamedTuple):
    """The gradients of a pooling layer; ``None`` where a gradient was skipped or does not exist.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = PoolingLayer(
    ...     type=PoolingType.max(), input=Shape.image_chw(4, 1, 1), kernel_size=(2, 1), stride=(2, 1)
    ... )
    >>> x = np.float32([[[[1, 3, 9, 5]]]])
    >>> layer.apply_backward(input=x, output=layer.apply(x), output_gradient=np.float32([[[[10, 20]]]])).input.tolist()
    [[[[0.0, 10.0, 20.0, 0.0]]]]
    """

    input: Any = None
    bias: Any = None


class PoolingLayer(UnaryLayer):
    """2-D pooling: a window moves over each channel, z = pool(window) + bias, output = activation(z).

    Arrays, all float32: ``input`` (N, C, H, W) or (C, H, W), ``output`` (N, C, H', W') or (C, H', W'), ``bias`` (C,).
    ``kernel_size`` is (width, height) and ``stride`` (x, y), horizontal first; a single number stands for both.

    ``output`` may be left out at creation. It then has as many windows as lie inside the padded image, the floor rule of
    PyTorch: (size + padding - extent) // stride + 1. For ``PoolingType.un_max`` it has the size that such a pooling
    would have come from. Given, it may be larger: windows may hang over the border as long as they start inside.

    ``type`` holds the indices of ``max`` and ``un_max``: an array of shape (N, C, H', W') (of the smaller image) or a
    flat one, with room for every batch that is applied. ``apply`` of ``max`` writes them, ``apply_backward`` reads them.
    Without indices, ``max`` finds the winners again in ``input``. ``max`` takes uint64 or int64, ``max_ex`` also uint32
    or a descriptor.

    >>> import numpy as np
    >>> from openbnns import *
    >>> places = np.empty((1, 1, 2, 2), np.uint64)
    >>> layer = PoolingLayer(type=PoolingType.max(indices=places), input=Shape.image_chw(4, 4, 1), kernel_size=2, stride=2)
    >>> layer.apply(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)).ravel()
    array([ 5.,  7., 13., 15.], dtype=float32)
    >>> places.ravel()
    array([ 5,  7, 13, 15], dtype=uint64)
    >>> layer.apply_backward(output_gradient=np.float32([[[[1, 2], [3, 4]]]])).input[0, 0, 1].tolist()
    [0.0, 1.0, 0.0, 2.0]
    """

    _names: ClassVar[dict[str, str]] = WINDOW_NAMES | {
        "pooling_function": "type",
        "k_width x k_height": "kernel_size, width x height",
        "k_width": "kernel_size[0]",
        "k_height": "kernel_size[1]",
        "x_dilation_stride": "type.x_dilation_stride",
        "y_dilation_stride": "type.y_dilation_stride",
    }
    _filter: Pooling
    _places: Any = None  # memory of the indices
    _index_type: int | None = None  # as the Ex calls take it, ``None`` for size_t

    def __init__(
        self,
        *,
        type: PoolingType,
        input: Any,
        output: Any = None,
        bias: Any = None,
        activation: ActivationFunction | None = None,
        kernel_size: Sequence[int] | int,
        stride: Sequence[int] | int = (1, 1),
        padding: ConvolutionPadding | None = None,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        activation = ActivationFunction.identity() if activation is None else activation
        padding = ConvolutionPadding.zero() if padding is None else padding

        def make(who: Caller) -> Pooling:
            require(type, PoolingType, f"{who}: type", "PoolingType.max()")
            require(padding, ConvolutionPadding, f"{who}: padding", "ConvolutionPadding.symmetric(x=1, y=1)")
            x = describe_sample(input, f"{who}: input", rank=3)
            in_place = client_pointer(filter_parameters)
            b = describe_vector(bias, f"{who}: bias", "(channels,)", client_pointer=in_place)
            width, height = x_and_y(kernel_size, f"{who}: kernel_size")
            x_stride, y_stride = x_and_y(stride, f"{who}: stride")
            x_dilation, y_dilation = x_and_y(
                (type.x_dilation_stride, type.y_dilation_stride), f"{who}: dilation stride of type"
            )
            parameters = BNNSLayerParametersPooling(
                i_desc=x, bias=b, activation=activation.bnns_activation, pooling_function=type.bnns_pooling_function,
                k_width=width, k_height=height, x_stride=x_stride, y_stride=y_stride, x_dilation_stride=x_dilation,
                y_dilation_stride=y_dilation, **padding.bnns_fields,
            )  # fmt: skip
            if output is None:
                parameters.o_desc = _output_shape(parameters, who, type.case.startswith("un_max")).descriptor()
            else:
                parameters.o_desc = describe_sample(output, f"{who}: output", rank=3)
            made = Pooling(parameters, filter_parameters, who)
            self._places, self._index_type = _take_indices(type, made, who)
            return made

        self._create(make, filter_parameters, activation)
        self._summary = {
            "type": type,
            "input": self._filter.input,
            "output": self._filter.output,
            "bias": self._filter.bias,
            "activation": activation if activation.case != "identity" else None,
            "kernel_size": kernel_size,
            "stride": stride,
            "padding": padding if padding != ConvolutionPadding.zero() else None,
        }

    @method("apply_pooling", passes={"indices": "_places"})
    def apply(
        self, input: TensorLike, output: TensorLike | None = None, *, batch_size: int | None = None
    ) -> TensorLike:
        """Run the layer forward, writing (max) or reading (un_max) the indices of the type.

        ``input`` is one sample or a batch. ``output`` is written and returned; when left out it is a new array.
        """
        raise DECLARED

    @method("apply_backward_pooling", returns=PoolingGradients, passes={"indices": "_places"})
    def apply_backward(
        self,
        input: TensorLike | None = None,
        output: TensorLike | None = None,
        output_gradient: TensorLike | None = None,
        generating_input_gradient: Any = None,
        generating_bias_gradient: Any = None,
        *,
        batch_size: int | None = None,
        accumulate: bool = False,
    ) -> PoolingGradients:
        """Run the layer backward: the gradients with respect to input and bias, the latter summed over the batch.

        ``input`` is needed by ``l2_norm`` and by ``max`` without indices, ``output`` with an activation; both are those
        of the forward call, and so are the indices of the type. ``output_gradient`` comes from the next layer.
        """
        raise DECLARED

    def _choice(self, call: str, chosen: Any) -> int | None:
        return self._index_type


def _output_shape(p: BNNSLayerParametersPooling, who: Caller, unpools: bool) -> Shape:
    """As many windows as lie inside the padded image, or for un-max the image that they come from."""
    image = Port(p.i_desc).view
    size, cure = (p.k_width, p.k_height), ", or give the output"
    width, height = filled_by_windows(image, p, size, who, "windows", spreads=unpools, cure=cure)
    return Shape.image_chw(width, height, image.size[2])


_UINT32, _UINT64 = int(BNNSDataType.BNNSDataTypeUInt32), int(BNNSDataType.BNNSDataTypeUInt64)


def _take_indices(type: PoolingType, made: Pooling, who: Caller) -> tuple[Any, int | None]:
    """The indices of a pooling type, checked as far as they can be before the batch is known."""
    typed = type.case.endswith("_ex")
    value, name = (type.indices_descriptor, "indices_descriptor") if typed else (type.indices, "indices")
    subject = f"{who}: {name} of {type.case}"
    if value is None:
        if made.unpools:
            raise Problem(f"{subject} is None, but un_max needs the indices that max recorded. Pass them.")
        return None, None
    small = made.indices[None].view
    if isinstance(value, BNNSNDArrayDescriptor):
        if not typed:
            raise Problem(f"{subject} is a descriptor. Pass an array of uint64, or use {type.case}_ex.", kind=TypeError)
        return _described_indices(value, small, subject)
    array = as_array(value, subject)
    wide = array.dtype.itemsize == 8
    unsigned: np.dtype[Any] = np.dtype(np.uint64 if wide else np.uint32)
    if array.dtype.kind not in "iu" or array.dtype.itemsize != unsigned.itemsize or not (typed or wide):
        names = "uint32 or uint64" if typed else "uint64"
        raise Problem(f"{subject} is {array.dtype}, but indices are {names}. Pass such an array.", kind=TypeError)
    if not array.flags.c_contiguous or not (array.flags.writeable or made.unpools):
        raise Problem(f"{subject} must be C-contiguous and, for max, writable. Pass a new array of {unsigned}.")
    sample = (small.size[2], small.size[1], small.size[0])
    if array.shape[-3:] != sample and not (array.ndim == 1 and array.size % small.count == 0):
        raise Problem(
            f"{subject} has shape {array.shape}, but there is one index per cell of the smaller image: pass "
            f"(N, {', '.join(map(str, sample))})."
        )
    return array.view(unsigned), (_UINT64 if wide else _UINT32) if typed else None


def _described_indices(value: BNNSNDArrayDescriptor, small: View, who: str) -> tuple[Any, int | None]:
    view = descriptors.resolve(value, who)
    require_data(value, who)
    if view.element.code not in (_UINT32, _UINT64):
        raise Problem(f"{who}.data_type is {view.element.name}, but indices are UInt32 or UInt64.", kind=TypeError)
    if (view.size, view.strides) != (small.size, small.strides):
        raise Problem(
            f"{who} is {describe(view)} with strides {view.strides}, but indices have the dimensions and strides of the smaller "
            f"image: size {small.size} with strides {small.strides}."
        )
    return value.data, view.element.code
