"""Activations: in a layer that ends in one, alone, or with trained slopes."""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import numpy as np

from ... import ActivationFunction, ActivationLayer, Shape
from ...layers import skip
from ..calls import Calls, NumpyCall, PlanCall
from ..graph import Graph
from ..operation import Operation
from ..parameter import Parameter
from ..sizes import is_same_shape
from ..tensor import Array, Tensor
from .base import Sizes, wanted

IDENTITY = ActivationFunction.identity()

# Elementwise functions whose derivative follows from their result, so that a layer in front can take them over.
FUSABLE = {
    "rectified_linear", "leaky_rectified_linear", "sigmoid", "log_sigmoid", "tanh", "linear", "linear_with_bias", "clamp",
    "hard_sigmoid", "softplus", "softsign", "elu", "selu", "celu", "hard_shrink", "soft_shrink", "relu6",
}  # fmt: skip


def can_fuse(function: ActivationFunction) -> bool:
    """True if a function may be fused into the layer before it in training."""
    if function.case in ("leaky_rectified_linear", "elu", "celu"):
        return function.alpha > 0
    return function.case in FUSABLE


def is_elementwise(function: ActivationFunction) -> bool:
    """True for a function that computes every number from the one in its place alone, and has no table of its own."""
    return function.case not in _OTHERS and not function.case.startswith("integer")


class ActivatedOperation(Operation):
    """An operation whose layer can end in an activation."""

    activation = IDENTITY

    def fuse(self, following: Operation) -> bool:
        if (
            isinstance(following, Activation)
            and self.activation is IDENTITY
            and can_fuse(following.function)
            and is_same_shape(following.inputs[0].shape, self.output.shape)
        ):
            self.activation = following.function
            self.keeps_output = True
            return True
        return False

    def ending_in(self, following: Activation) -> Operation | None:
        """An operation that does the work of both, for inference only: any function will do; None if there is none."""
        same = is_same_shape(following.inputs[0].shape, self.output.shape)
        if self.activation is not IDENTITY or not is_elementwise(following.function) or not same:
            return None
        made = copy(self)
        made.__dict__.pop("_kept_layers", None)  # of this operation's own layers
        made.activation, made.outputs = following.function, following.outputs
        made.modules, made.functions = self.modules + following.modules, self.functions + following.functions
        return made


_ALONG_AXIS = ("softmax", "log_softmax")
_OTHERS = {*_ALONG_AXIS, "gumbel", "gumbel_max", "prelu_per_channel"}


class Activation(Operation):
    """Elementwise, or for softmax and log softmax along an axis, the last one if none is named."""

    is_pure = True

    def __init__(self, graph: Graph, x: Tensor, function: ActivationFunction, axis: int = -1) -> None:
        self.function = function
        self.along_axis, self.axis = function.case in _ALONG_AXIS, axis % max(1, x.ndim)
        self.keeps_output = self.along_axis or can_fuse(function)
        self.keeps_inputs = self.repeatable = not self.keeps_output
        super().__init__([x], Tensor(graph, x.shape))

    def _block(self, shape: Sizes) -> Sizes:
        """The elements of one application of the function: those behind the first axis, or an axis and those behind it."""
        if not self.along_axis:
            return (math.prod(shape[1:] if len(shape) > 1 else shape),)
        along, *behind = shape[self.axis :] or (1,)
        return (along, math.prod(behind)) if behind else (along,)

    def _layer(self, block: Sizes) -> Any:
        axes = [0] if len(block) > 1 else None
        return self.made(block, lambda: ActivationLayer(function=self.function, input=Shape(block), axes=axes))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        if not y.size:  # layers take no empty tensors
            return []
        block = self._block(y.shape)
        return PlanCall(self._layer(block).apply, x[0].reshape(-1, *block), y.reshape(-1, *block))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        assert dx[0] is not None
        block = self._block(dy.shape)
        read = x[0].reshape(-1, *block) if self.keeps_inputs else None
        result = y.reshape(-1, *block) if self.keeps_output else None
        arriving, target = dy.reshape(-1, *block), dx[0].reshape(-1, *block)
        return PlanCall(self._layer(block).apply_backward, read, result, arriving, target, skip)


class Prelu(Operation):
    """x where x > 0, slope x elsewhere; one slope, or one for each entry of axis 1."""

    def __init__(self, x: Tensor, weight: Parameter) -> None:
        self.weight = weight
        super().__init__([x], Tensor(x.graph, x.shape), [weight])

    def _layer(self, shape: Sizes) -> tuple[Any, Sizes]:
        """The layer, and the channels and pixels that it sees; if all share one slope, everything is one channel."""
        channels = self.weight.size
        image = (channels, 1, math.prod(shape[1:]) // channels)
        function, form = ActivationFunction.prelu_per_channel(), Shape.image_chw(*image[::-1])
        return self.made(image, lambda: ActivationLayer(function=function, input=form)), image

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        (layer, image), slopes = self._layer(y.shape), self.weight.array
        read, written = x[0].reshape(-1, *image), y.reshape(-1, *image)
        # The layer has slopes of its own.
        return [NumpyCall(np.copyto, layer.alpha, slopes), PlanCall(layer.apply, read, written)]

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        (layer, image), slopes = self._layer(dy.shape), self.weight.array
        read, arriving = x[0].reshape(-1, *image), dy.reshape(-1, *image)
        target = wanted(None if dx[0] is None else dx[0].reshape(-1, *image))
        backward = PlanCall(layer.apply_backward, read, None, arriving, target, wanted(dp[0]))
        return [NumpyCall(np.copyto, layer.alpha, slopes), backward]
