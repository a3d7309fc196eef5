"""y = f(W x + b) along the last axis."""

from __future__ import annotations

from functools import partial

from ... import FullyConnectedLayer
from .._graph import Array, Call, Graph, Value
from ..module import Parameter
from ._base import IN_PLACE, ActivatedOperation, rows, wanted


class Linear(ActivatedOperation):
    def __init__(self, graph: Graph, x: Value, weight: Parameter, bias: Parameter | None) -> None:
        self.weight, self.bias = weight, bias
        outputs = weight.shape[0]
        parameters = [weight] if bias is None else [weight, bias]
        super().__init__([x], Value(graph, (*x.shape[:-1], outputs)), parameters)

    def prepare(self) -> None:
        bias = None if self.bias is None else self.bias.data
        self.layer = FullyConnectedLayer(
            weights=self.weight.data, bias=bias, activation=self.activation, filter_parameters=IN_PLACE
        )

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        outputs, inputs = self.weight.shape
        return partial(self.layer.apply, rows(x[0], inputs), rows(y, outputs))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        outputs, inputs = self.weight.shape
        gradients = [rows(dx[0], inputs), *map(wanted, dp)]
        return partial(self.layer.apply_backward, rows(x[0], inputs), rows(y, outputs), rows(dy, outputs), *gradients)
