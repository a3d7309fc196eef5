"""Convolution and transposed convolution of images."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, ClassVar

from .._words import Caller
from ..abi.enums import BNNSDataLayout
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersConvolution, BNNSNDArrayDescriptor
from ..errors import Problem
from ..filters.base import UnaryFilter
from ..filters.convolution import Convolution, kernel_axes, resolve_window
from ..filters.transposed_convolution import TransposedConvolution
from ..tensors.descriptors import View
from ._methods import DECLARED, method
from ._ports import Port, TensorLike, describe_parameter, describe_sample, describe_vector, require
from .base import Gradients, UnaryLayer, client_pointer
from .shape import Shape
from .types import ActivationFunction, ConvolutionPadding, ConvolutionType

__all__ = ["ConvolutionLayer"]

WINDOW_NAMES = {
    "x_stride": "stride[0]", "y_stride": "stride[1]", "x_padding": "padding.x", "y_padding": "padding.y",
    "pad[0]": "padding.left", "pad[1]": "padding.right", "pad[2]": "padding.up", "pad[3]": "padding.down",
}  # fmt: skip
"""The names that constructors have for the fields of C that place windows."""


class ConvolutionLayer(UnaryLayer):
    """2-D convolution (cross-correlation) with stride, dilation, padding, groups and a fused activation.

    Arrays, all float32: ``input`` (N, I, H, W) or (I, H, W), ``output`` (N, O, H', W') or (O, H', W'), ``bias`` (O,),
    and ``weights`` (O, I / group_count, KH, KW), the C layout OIHW, for both types of convolution; a descriptor may have
    any of the kernel layouts of C. Weights (I, O, KH, KW) of PyTorch's ConvTranspose2d are the layout IOHrWr: pass
    ``Shape([KW, KH, O, I], capi.BNNSDataLayoutConvolutionWeightsIOHrWr).descriptor(data=weights)``.

    ``output`` may be left out at creation: it then has the largest size that the windows fill. ``stride`` and
    ``dilation_stride`` are (x, y), horizontal first; a single number stands for both.

    At creation ``input`` and ``output`` are shapes, descriptors or arrays (an image or a batch of images). ``weights``
    and ``bias`` are copied, unless ``filter_parameters`` has ``BNNSFlagsUseClientPtr``: then the layer reads the arrays
    at each call, so that training may change them in place.

    With ``weights_scales``, one positive number for each output channel, int8 weights stand for their products with these
    numbers; the input is a descriptor of Int8 or UInt8 then. Sums are those of integers, and exact.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = ConvolutionLayer(input=Shape.image_chw(8, 6, 3), weights=np.ones((4, 3, 3, 3), np.float32))
    >>> layer.apply(np.ones((2, 3, 6, 8), np.float32)).shape
    (2, 4, 4, 6)
    >>> dx, dw, db = layer.apply_backward(
    ...     input=np.ones((2, 3, 6, 8), np.float32), output_gradient=np.ones((2, 4, 4, 6), np.float32)
    ... )
    >>> dx.shape, dw.shape, db
    ((2, 3, 6, 8), (4, 3, 3, 3), None)
    """

    _names: ClassVar[dict[str, str]] = WINDOW_NAMES | {
        "groups": "group_count",
        "x_dilation_stride": "dilation_stride[0]",
        "y_dilation_stride": "dilation_stride[1]",
    }

    _filter: UnaryFilter

    def __init__(
        self,
        *,
        type: ConvolutionType = ConvolutionType.STANDARD,
        input: Any,
        weights: Any,
        output: Any = None,
        bias: Any = None,
        padding: ConvolutionPadding | None = None,
        activation: ActivationFunction | None = None,
        group_count: int = 1,
        stride: Sequence[int] | int = (1, 1),
        dilation_stride: Sequence[int] | int = (1, 1),
        weights_scales: Any = None,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        activation = ActivationFunction.identity() if activation is None else activation
        padding = ConvolutionPadding.zero() if padding is None else padding
        transposed = type is ConvolutionType.TRANSPOSED

        def make(who: Caller) -> Convolution | TransposedConvolution:
            p = describe_convolution(
                who, who, client_pointer(filter_parameters), type=type, input=input, output=output, weights=weights, bias=bias,
                padding=padding, groups=group_count, stride=stride, dilation_stride=dilation_stride,
            )  # fmt: skip
            p.activation = activation.bnns_activation
            if not transposed:
                return Convolution(p, filter_parameters, who, weights_scales=weights_scales)
            if weights_scales is not None:
                raise Problem(
                    f"{who('weights_scales')} is for ConvolutionType.STANDARD: transposed convolutions are computed in Float32. "
                    "Leave it out, and multiply the weights.",
                    unsupported=True,
                )
            return TransposedConvolution(p, filter_parameters, who)

        self._create(make, filter_parameters, activation)
        self._summarize(activation)
        chosen = {
            "type": (type, ConvolutionType.STANDARD),
            "padding": (padding, ConvolutionPadding.zero()),
            "group_count": (group_count, 1),
            "stride": (x_and_y(stride, "stride"), (1, 1)),
            "dilation_stride": (x_and_y(dilation_stride, "dilation_stride"), (1, 1)),
        }
        self._summary |= {name: value for name, (value, default) in chosen.items() if value != default}

    def _summarize(self, activation: ActivationFunction) -> None:
        self._summary = {
            "input": self._filter.input,
            "output": self._filter.output,
            "weights": self._filter.weights,
            "bias": self._filter.bias,
            "activation": activation if activation.case != "identity" else None,
        }

    @method("apply_backward", returns=Gradients)
    def apply_backward(
        self,
        input: TensorLike | None = None,
        output: TensorLike | None = None,
        output_gradient: TensorLike | None = None,
        generating_input_gradient: Any = None,
        generating_weights_gradient: Any = None,
        generating_bias_gradient: Any = None,
        *,
        batch_size: int | None = None,
        accumulate: bool = False,
    ) -> Gradients:
        """Run the layer backward: the gradients with respect to input, weights and bias, summed over the batch for the
        latter two.

        ``input`` (needed for the weights) and ``output`` (needed with an activation) are those of the forward call;
        ``output_gradient`` comes from the next layer. Each gradient has the shape of its tensor.
        """
        raise DECLARED


ARRAY_KERNELS = (int(BNNSDataLayout.BNNSDataLayoutConvolutionWeightsOIHW), "(out, in / group_count, kh, kw)")
"""How kernels in an array are described."""


def describe_convolution(
    who: Caller, own: Caller, in_place: bool, *, type: Any, input: Any, output: Any, weights: Any, bias: Any, padding: Any,
    groups: Any, stride: Any, dilation_stride: Any,
) -> BNNSLayerParametersConvolution:  # fmt: skip
    """The struct of a convolution without its activation; in messages ``own`` names all but the images."""
    require(type, ConvolutionType, own("type"), "ConvolutionType.STANDARD")
    require(padding, ConvolutionPadding, own("padding"), "ConvolutionPadding.symmetric(x=1, y=1)")
    x_stride, y_stride = x_and_y(stride, own("stride"))
    x_dilation, y_dilation = x_and_y(dilation_stride, own("dilation_stride"))
    p = BNNSLayerParametersConvolution(
        i_desc=describe_sample(input, who("i_desc"), rank=3),
        w_desc=describe_parameter(weights, own("w_desc"), *ARRAY_KERNELS, client_pointer=in_place),
        bias=describe_vector(bias, own("bias"), "(out,)", client_pointer=in_place), x_stride=x_stride, y_stride=y_stride,
        x_dilation_stride=x_dilation, y_dilation_stride=y_dilation, groups=positive(groups, own("groups")),
        **padding.bnns_fields,
    )  # fmt: skip
    transposed = type is ConvolutionType.TRANSPOSED
    if output is None:
        p.o_desc = largest_output(p, own, transposed).descriptor()
    else:
        p.o_desc = describe_sample(output, who("o_desc"), rank=3)
    if not isinstance(weights, BNNSNDArrayDescriptor):
        check_channels(own, Port(p.w_desc).shape, Port(p.i_desc).shape, Port(p.o_desc).shape, groups, transposed)
    return p


def x_and_y(value: Any, who: str) -> tuple[int, int]:
    numbers = value if hasattr(value, "__len__") else (value, value)
    if len(numbers) != 2:
        raise Problem(f"{who} is {value!r}. Pass (x, y), horizontal first.")
    x, y = numbers
    return positive(x, who), positive(y, who)


def positive(value: Any, who: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise Problem(f"{who} must be an integer, not {type(value).__name__}.", kind=TypeError)
    if number < 1:
        raise Problem(f"{who} is {number}. It must be at least 1.")
    return number


def largest_output(p: BNNSLayerParametersConvolution, who: Caller, transposed: bool) -> Shape:
    """The output image that the windows fill."""
    image, kernels = Port(p.i_desc).view, Port(p.w_desc, batched=False).view
    out_axis, _, row_axis, column_axis = kernel_axes(kernels, who)
    size = (kernels.size[column_axis], kernels.size[row_axis])
    width, height = filled_by_windows(image, p, size, who, "kernels", spreads=transposed)
    return Shape.image_chw(width, height, kernels.size[out_axis])


def filled_by_windows(
    image: View, p: Any, size: tuple[int, int], who: Caller, what: str, *, spreads: bool, cure: str = ""
) -> list[int]:
    """Width and height of an output: the positions of windows of this size, or what they cover if each input spreads."""
    window, sizes = resolve_window(p), []
    for axis, kernel in ((1, size[0]), (0, size[1])):
        length = image.size[1 - axis]
        if spreads:
            edges = window.padding[2 * axis] + window.padding[2 * axis + 1]
            sizes.append(window.stride[axis] * (length - 1) + window.extent(kernel, axis) - edges)
        else:
            sizes.append(window.positions(length, kernel, axis))
    if min(sizes) < 1:
        raise Problem(
            f"{who}: an input of {image.size[0]} x {image.size[1]} pixels (width x height) leaves no output with {what} of "
            f"{size[0]} x {size[1]}. Use a larger image, {'less' if spreads else 'more'} padding or smaller {what}{cure}."
        )
    return sizes


def check_channels(
    who: Caller, w: tuple[int, ...], x: tuple[int, ...], y: tuple[int, ...], groups: int, transposed: bool
) -> None:
    """Refuse a weights array whose first two axes do not fit the images."""
    if x[0] % groups or y[0] % groups:
        return  # the filter reports it
    expected = (y[0], x[0] // groups)
    if w[:2] != expected:
        cure = "Pass such weights, or shapes that fit them."
        if transposed and w[:2] == expected[::-1]:
            cure = (
                "Weights (in, out, kh, kw) as in PyTorch are described by the layout IOHrWr: pass a descriptor with it."
            )
        raise Problem(
            f"{who('w_desc')} has shape {w}, but an input of {x[0]} channels and an output of {y[0]} with "
            f"{who.name('groups')} {groups} need {ARRAY_KERNELS[1]} = ({expected[0]}, {expected[1]}, kh, kw).",
            cure=cure,
        )
