"""Multihead attention."""

from __future__ import annotations

from functools import partial
from typing import Any

from ... import LearningPhase, MultiheadAttentionLayer
from .._graph import Call, Graph, Operation
from .._value import Array, Value
from ..parameter import Parameter
from ._base import IN_PLACE, draw_number, wanted


class Attention(Operation):
    """query (T, D), key and value (S, D) -> (T, D). ``weights`` are those of MultiheadAttentionLayer, by name.

    Several of them may lie in one parameter, as PyTorch's three input projections do: ``pieces`` gives for every
    parameter the names of its equal parts along the first axis.
    """

    def __init__(
        self, graph: Graph, inputs: list[Value], heads: int, pieces: list[tuple[Parameter, tuple[str, ...]]],
        dropout: float, causal: bool,
    ) -> None:  # fmt: skip
        self.heads, self.pieces, self.dropout, self.causal = heads, pieces, dropout, causal
        self.random = dropout > 0
        query = inputs[0]
        unique = [v for i, v in enumerate(inputs) if v not in inputs[:i]]
        self.places = [unique.index(v) for v in inputs]
        super().__init__(unique, query.like(query.sample), [parameter for parameter, _ in pieces])

    layer: Any

    def prepare(self) -> None:
        given: dict[str, Array] = {}
        for parameter, names in self.pieces:
            given |= _parts(parameter.data, names)
        self.layer = MultiheadAttentionLayer(
            self.output.sample[-1],
            self.heads,
            dropout=self.dropout,
            bias="query_bias" in given,
            seed=1,
            parameters=given,
            filter_parameters=IN_PLACE,
        )
        self.mask = _causal_mask(self.output.sample[0]) if self.causal else None

    def reseed(self, seed: int, step: int, index: int) -> None:
        self.layer.draws = draw_number(seed, step, index)

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        query, key, value = (x[place] for place in self.places)
        phase = LearningPhase.TRAINING if training else LearningPhase.INFERENCE
        return partial(self.layer.apply, query, key, value, y, attn_mask=self.mask, phase=phase)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        gradients: dict[str, Array] = {}
        for (_, names), gradient in zip(self.pieces, dp, strict=True):
            if gradient is not None:
                gradients |= _parts(gradient, names)
        targets = [wanted(dx[place]) for place in self.places]
        for i in (1, 2):  # None: what is read again has its gradient summed into that of the place before
            if self.places[i] == self.places[i - 1] and dx[self.places[i]] is not None:
                targets[i] = None
        return partial(self.layer.apply_backward, dy, *targets, gradients)


def _parts(array: Array, names: tuple[str, ...]) -> dict[str, Array]:
    rows = len(array) // len(names)
    return {name: array[i * rows : (i + 1) * rows] for i, name in enumerate(names)}


def _causal_mask(length: int) -> Array:
    """True where a target may not look: at sources behind it."""
    import numpy as np

    return np.triu(np.ones((length, length), np.bool_), 1)
