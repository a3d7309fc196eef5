"""Activations that stand alone: those that no layer before them takes over."""

from __future__ import annotations

import math
from typing import Any

from ... import ActivationFunction, ActivationLayer, Shape
from ...layers import skip
from ..calls import Calls, PlanCall
from ..graph import Graph
from ..operation import Operation
from ..tensor import Array, Tensor
from ._base import can_fuse
from ._shaped import Sizes

_ALONG_AXIS = ("softmax", "log_softmax")


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
        block = self._block(y.shape)
        return PlanCall(self._layer(block).apply, x[0].reshape(-1, *block), y.reshape(-1, *block))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        assert dx[0] is not None
        block = self._block(dy.shape)
        read = x[0].reshape(-1, *block) if self.keeps_inputs else None
        result = y.reshape(-1, *block) if self.keeps_output else None
        arriving, target = dy.reshape(-1, *block), dx[0].reshape(-1, *block)
        return PlanCall(self._layer(block).apply_backward, read, result, arriving, target, skip)
