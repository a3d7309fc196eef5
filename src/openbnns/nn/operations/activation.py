"""Activations that stand alone: those that no layer before them takes over."""

from __future__ import annotations

from functools import partial

from ... import ActivationFunction, ActivationLayer, Shape
from .._graph import Call, Graph, Operation
from .._value import Array, Value
from ._base import can_fuse, rows

_ALONG_AXIS = ("softmax", "log_softmax")


class Activation(Operation):
    """Elementwise, or for softmax and log softmax along the last axis."""

    def __init__(self, graph: Graph, x: Value, function: ActivationFunction) -> None:
        self.function = function
        along_axis = function.case in _ALONG_AXIS
        self.width = x.sample[-1] if along_axis else x.count
        self.keeps_output = along_axis or can_fuse(function)
        self.keeps_inputs = not self.keeps_output
        super().__init__([x], x.like(x.sample))

    def prepare(self) -> None:
        self.layer = ActivationLayer(function=self.function, input=Shape.vector(self.width))

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        return partial(self.layer.apply, rows(x[0], self.width), rows(y, self.width))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        read = rows(x[0], self.width) if self.keeps_inputs else None
        result = rows(y, self.width) if self.keeps_output else None
        return partial(self.layer.apply_backward, read, result, rows(dy, self.width), rows(dx[0], self.width))
