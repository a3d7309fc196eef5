"""Embeddings: the gradient of the dictionary."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..errors import Problem
from ..filters.base import Filter
from ..filters.embedding import Embedding
from ..layers.base import Layer
from ..layers.embedding import EmbeddingLayer
from ..layers.types import Shape
from ._base import Array, Subject
from ._random import Random


class EmbeddingSubject(Subject):
    """Embeddings: the gradient of the dictionary; indices are given or drawn, and have none."""

    filter: Embedding
    names: ClassVar = {"in": "indices", "weights": "dictionary"}

    def __init__(self, filter: Filter) -> None:
        super().__init__(filter)
        if self.filter.settings.scale_by_frequency:
            raise Problem("gradcheck: a gradient divided by the number of lookups is not the derivative.")

    def numbers(self, tensor: str, shape: tuple[int, ...], random: np.random.Generator) -> Array:
        return random.integers(0, self.filter.entries, shape).astype(np.float64)

    def forward(self, values: dict[str, Array]) -> Array:
        """Entries as they are read, since the scale of a maximum norm is not differentiated."""
        return self.filter.look_up(values["indices"].astype(np.int64), values["dictionary"], limited=False)


SUBJECT = EmbeddingSubject


def random_layer(random: Random) -> Layer:
    return EmbeddingLayer(
        input=Shape.vector(random.size(1, 7)), dictionary=random.numbers(random.size(2, 9), random.size())
    )
