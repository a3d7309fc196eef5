"""Activations that stand alone: those that no layer before them takes over."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from ... import ActivationFunction, ActivationLayer, Shape
from ...layers import skip
from .._graph import Call, Graph, Operation
from .._value import Array, Value
from ._base import can_fuse

_ALONG_AXIS = ("softmax", "log_softmax")


class Activation(Operation):
    """Elementwise, or for softmax and log softmax along an axis of the sample, the last one if none is named."""

    def __init__(self, graph: Graph, x: Value, function: ActivationFunction, axis: int = -1) -> None:
        self.function = function
        along_axis = function.case in _ALONG_AXIS
        self.axis = axis = axis % max(1, len(x.sample))
        # What one application of the function takes: all elements, or an axis and those behind it.
        self.block = x.sample[axis:] if along_axis else (x.count,)
        if len(self.block) > 1:
            self.block = (self.block[0], math.prod(self.block[1:]))
        self.keeps_output = along_axis or can_fuse(function)
        self.keeps_inputs = self.repeatable = not self.keeps_output
        super().__init__([x], x.like(x.sample))

    def prepare(self) -> None:
        self.layer = ActivationLayer(
            function=self.function, input=Shape(self.block), axes=[0] if len(self.block) > 1 else None
        )

    def _blocks(self, array: Array | None) -> Any:
        return None if array is None else array.reshape(-1, *self.block)

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        return partial(self.layer.apply, self._blocks(x[0]), self._blocks(y))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        read = self._blocks(x[0]) if self.keeps_inputs else None
        result = self._blocks(y) if self.keeps_output else None
        return partial(self.layer.apply_backward, read, result, self._blocks(dy), self._blocks(dx[0]), skip)
