"""Lookup of table rows by number."""

from __future__ import annotations

import math
from typing import Any

from ... import EmbeddingLayer, Shape
from ..calls import Calls, PlanCall
from ..graph import Graph
from ..operation import Operation
from ..parameter import Parameter
from ..tensor import FLOAT32, Array, Tensor
from ._base import IN_PLACE, wanted


class Embedding(Operation):
    def __init__(self, graph: Graph, x: Tensor, weight: Parameter, padding_index: int | None) -> None:
        self.weight, self.padding_index = weight, padding_index
        super().__init__([x], Tensor(graph, (*x.shape, weight.shape[1]), FLOAT32), [weight])

    def _layer(self, count: int) -> Any:
        """The layer that looks up so many rows at a time."""
        return self.made(
            count,
            lambda: EmbeddingLayer(
                input=Shape.vector(count),
                dictionary=self.weight.array,
                padding_index=self.padding_index,
                filter_parameters=IN_PLACE,
            ),
        )

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        count = math.prod(x[0].shape[1:])
        return PlanCall(self._layer(count).apply, x[0].reshape(-1, count), y.reshape(-1, count, self.weight.shape[1]))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        count = math.prod(x[0].shape[1:])
        gradient = dy.reshape(-1, count, self.weight.shape[1])
        return PlanCall(
            self._layer(count).apply_backward,
            x[0].reshape(-1, count),
            output_gradient=gradient,
            generating_weights_gradient=wanted(dp[0]),
        )
