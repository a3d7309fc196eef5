"""Rows of a table, by number."""

from __future__ import annotations

from functools import partial

from ... import EmbeddingLayer, Shape
from .._graph import Call, Graph, Operation
from .._value import FLOAT32, Array, Value
from ..parameter import Parameter
from ._base import IN_PLACE, wanted


class Embedding(Operation):
    def __init__(self, graph: Graph, x: Value, weight: Parameter, padding_index: int | None) -> None:
        self.weight, self.padding_index = weight, padding_index
        super().__init__([x], x.like((*x.sample, weight.shape[1]), FLOAT32), [weight])

    def prepare(self) -> None:
        self.layer = EmbeddingLayer(
            input=Shape.vector(self.inputs[0].count),
            dictionary=self.weight._array,
            padding_index=self.padding_index,
            filter_parameters=IN_PLACE,
        )

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        count = self.inputs[0].count
        return partial(self.layer.apply, x[0].reshape(-1, count), y.reshape(-1, count, self.weight.shape[1]))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        count = self.inputs[0].count
        gradient = dy.reshape(-1, count, self.weight.shape[1])
        return partial(
            self.layer.apply_backward,
            x[0].reshape(-1, count),
            output_gradient=gradient,
            generating_weights_gradient=wanted(dp[0]),
        )
