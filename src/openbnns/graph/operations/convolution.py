"""Convolution and transposed convolution of signals and images."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from ... import ConvolutionLayer, ConvolutionType, FusedConvolutionParameters, Shape
from ...abi.enums import BNNSDataLayout
from ...layers import skip
from ..calls import Call, Calls, NumpyCall, PlanCall
from ..checks import positive
from ..operation import Operation
from ..parameter import Parameter
from ..sizes import are_at_least, is_same
from ..tensor import FLOAT32, Array, Tensor
from .base import IN_PLACE, Sizes, wanted
from .fused import MadeLayer, NormalizedOperation
from .window import Window, as_images, image_shape


@lru_cache(1024)
def _options(window: Window, groups: int) -> dict[str, Any]:
    return {
        "stride": window.strides,
        "dilation_stride": window.dilations,
        "padding": window.padding,
        "group_count": groups,
    }


def _kernels(weights: Array) -> Array:
    """(out, in / groups, rows, columns) on the same memory."""
    return weights if weights.ndim == 4 else weights[:, :, None, :]


def _inputs(
    x: Tensor, weight: Parameter | Tensor, bias: Parameter | Tensor | None
) -> tuple[list[Tensor], list[Parameter]]:
    """The inputs and the parameters of an operation whose weight and bias are either."""
    given = [weight] if bias is None else [weight, bias]
    inputs = [x, *(one for one in given if isinstance(one, Tensor))]
    return inputs, [one for one in given if isinstance(one, Parameter)]


def _result(x: Tensor, weight: Parameter | Tensor, window: Window, groups: int, extra: Sizes | None) -> Tensor:
    """The result of a convolution, or with ``extra``, what lies behind the last window, of a transposed one."""
    image = window.counts(x.shape[2:]) if extra is None else window.spread(x.shape[2:], extra)
    return Tensor(x.graph, (x.shape[0], weight.shape[0] if extra is None else weight.shape[1] * groups, *image))


def _check(operation: Convolution | GroupedTransposedConvolution) -> None:
    """Raise an error for operands, windows and groups that do not fit together."""
    x, weight, bias, window = operation.inputs[0], operation.weight, operation.bias, operation.window
    groups, extra, name = positive(operation.groups, "convolution: groups"), operation.extra, "convolution"
    outputs, inputs = weight.shape[0], weight.shape[1] * groups
    limits: list[tuple[Any, int]] = []
    if extra is not None:
        outputs, inputs, name = weight.shape[1] * groups, weight.shape[0], "transposed convolution"
        limits = [(n, max(s, d)) for n, s, d in zip(extra, window.stride, window.dilation, strict=True)]
    fits = (
        x.ndim == len(weight.shape) == len(window.kernel) + 2
        and x.ndim in (3, 4)
        and weight.shape[2:] == window.kernel
        and is_same(x.shape[1], inputs)
        and not (inputs % groups or outputs % groups)
        and (bias is None or tuple(bias.shape) == (outputs,))
        and all(type(n) is int and 0 <= n < limit for n, limit in limits)
        and all(v.dtype == FLOAT32 for v in operation.inputs)
        and are_at_least(1, operation.output.shape[2:])
    )
    if not fits:
        raise ValueError(
            f"{name}: {x.shape}, weights {weight.shape}, bias {bias and bias.shape}, {groups} groups, {extra} behind and "
            f"{window} do not fit together"
        )


class Convolution(NormalizedOperation):
    """``weight`` and ``bias`` are both parameters, or both values that the network computes."""

    def __init__(
        self, x: Tensor, weight: Parameter | Tensor, bias: Parameter | Tensor | None, window: Window, groups: int = 1,
        extra: Sizes | None = None,
    ) -> None:  # fmt: skip
        transposed = extra is not None
        self.weight, self.bias, self.options = weight, bias, _options(window, groups)
        self.window, self.groups, self.extra = window, groups, extra
        self.type = ConvolutionType.TRANSPOSED if transposed else ConvolutionType.STANDARD
        self.name = "conv_transpose" if transposed else "conv"
        self.output_axis = 1 if transposed else 0
        inputs, parameters = _inputs(x, weight, bias)
        super().__init__(inputs, _result(x, weight, window, groups, extra), parameters)

    def check(self) -> None:
        _check(self)

    def padded(self, x: Tensor, widths: Sequence[tuple[int, int]]) -> Self:
        """A copy with the same result from a value without so many zeros on both sides of every axis of its windows."""
        edges = [(a + before, b + behind) for (a, b), (before, behind) in zip(self.window.edges, widths, strict=True)]
        made = self._copy([x, *self.inputs[1:]])
        made.window = replace(self.window, edges=tuple(edges))
        made.options = _options(made.window, self.groups)
        return made

    def with_weights(self, weight: Tensor, bias: Tensor | None) -> Self:
        """A copy with weights and bias that the network computes."""
        inputs, parameters = _inputs(self.inputs[0], weight, bias)
        made = self._copy(inputs)
        made.weight, made.bias, made.parameters = weight, bias, parameters
        return made

    def _copy(self, inputs: Sequence[Tensor]) -> Self:
        made = copy(self)
        made.__dict__.pop("_kept_layers", None)  # of this operation's own layers
        made.inputs = list(inputs)
        return made

    def make(self, x: Sizes, y: Sizes, weights: Array, bias: Array | None) -> MadeLayer:
        result = y if self.pooling is None else self.pooling.unpooled_shape(self.bound_sizes)
        input, output = (Shape.image_chw(*image_shape(shape[1:])[::-1]) for shape in (x, result))
        if self.normalization is not None and not self.folds:
            return self.make_fused(input, output)
        layer = ConvolutionLayer(
            type=self.type,
            input=input,
            output=output,
            weights=self._described(weights),
            bias=bias,
            activation=self.activation,
            filter_parameters=IN_PLACE,
            **self.options,
        )
        return MadeLayer(layer)

    def fused_parameters(self) -> FusedConvolutionParameters:
        options = dict(self.options)
        options["group_size"] = options.pop("group_count")
        bias = None if self.bias is None else self.bias.array
        weights = self._described(self.weight.array)
        return FusedConvolutionParameters(type=self.type, weights=weights, bias=bias, **options)

    def _described(self, weights: Array) -> Any:
        """The array, or for transposed convolutions, whose weights are PyTorch's (I, O, KH, KW), what describes it."""
        kernels = _kernels(weights)
        if self.type is ConvolutionType.STANDARD:
            return kernels
        shape = Shape(kernels.shape[::-1], BNNSDataLayout.BNNSDataLayoutConvolutionWeightsIOHrWr)
        return shape.descriptor(data=kernels)

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        return super().forward([as_images(x[0]), *x[1:]], as_images(y), training)

    def repeat(self, x: list[Array], y: Array) -> Calls:
        return super().repeat([as_images(x[0]), *x[1:]], as_images(y))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        target = None if dx[0] is None else as_images(dx[0])
        kernels, *others = dx[1:] if self.computed else dp
        gradients = [None if kernels is None else _kernels(kernels), *others]
        return super().backward(
            [as_images(x[0]), *x[1:]],
            as_images(y),
            as_images(dy),
            [target, *gradients],
            [] if self.computed else gradients,
        )


class GroupedTransposedConvolution(Operation):
    """In groups BNNS has no transposed convolution, but the gradient of a convolution, which is the same.

    That convolution is from the large image back to the small one; its weights are ours as they lie.
    """

    name = "conv_transpose"

    def __init__(
        self, x: Tensor, weight: Parameter | Tensor, bias: Parameter | Tensor | None, window: Window, groups: int, extra: Sizes
    ) -> None:  # fmt: skip
        self.weight, self.bias, self.options = weight, bias, _options(window, groups)
        self.window, self.groups, self.extra = window, groups, extra
        inputs, parameters = _inputs(x, weight, bias)
        super().__init__(inputs, _result(x, weight, window, groups, extra), parameters)

    def check(self) -> None:
        _check(self)

    def _layer(self, x: list[Array], y: Array) -> Any:
        large, small = image_shape(y.shape[1:]), image_shape(x[0].shape[1:])

        def make() -> ConvolutionLayer:
            weights = x[1] if isinstance(self.weight, Tensor) else self.weight.array
            return ConvolutionLayer(
                input=Shape.image_chw(*large[::-1]),
                output=Shape.image_chw(*small[::-1]),
                weights=_kernels(weights),
                filter_parameters=IN_PLACE,
                **self.options,
            )

        return make() if isinstance(self.weight, Tensor) else self.made((large, small), make)

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        result = as_images(y)
        spread = PlanCall(
            self._layer(x, y).apply_backward,
            output_gradient=as_images(x[0]),
            generating_input_gradient=result,
            generating_weights_gradient=skip,
        )
        if self.bias is None:
            return spread
        bias = x[2] if isinstance(self.bias, Tensor) else self.bias.array
        return [spread, NumpyCall(np.add, result, bias[:, None, None], out=result)]

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        arriving, small, layer = as_images(dy), as_images(x[0]), self._layer(x, dy)
        if isinstance(self.weight, Tensor):
            dp = dx[1:]
        calls: list[Call] = []
        if dx[0] is not None:
            calls.append(PlanCall(layer.apply, arriving, as_images(dx[0])))
        if dp[0] is not None:
            calls.append(
                PlanCall(
                    layer.apply_backward,
                    input=arriving,
                    output_gradient=small,
                    generating_input_gradient=skip,
                    generating_weights_gradient=wanted(_kernels(dp[0])),
                )
            )
        if self.bias is not None and dp[1] is not None:
            calls.append(NumpyCall(np.sum, arriving, axis=(0, 2, 3), out=dp[1]))
        return calls
