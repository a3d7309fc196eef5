"""Embeddings: the gradient of the dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import Problem
from ..filters.embedding import Embedding
from ._base import BATCH, CALLER, Array, Subject, Tensor, checked_input


class EmbeddingSubject(Subject):
    """Embeddings: the gradient of the dictionary; indices are given or drawn, and have none."""

    inputs = ("indices",)

    def __init__(self, filter: Embedding) -> None:
        self.filter = filter
        if filter.settings.scale_by_frequency:
            raise Problem("gradcheck: a gradient divided by the number of lookups is not the derivative.")

    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        shape = (BATCH, *self.filter.input.shape)
        return {"indices": random.integers(0, self.filter.entries, shape).astype(np.float64)}

    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        if len(inputs) != 1:
            raise Problem(f"gradcheck: {len(inputs)} inputs are given, but an embedding has one: the indices.")
        return {"indices": checked_input(inputs[0], self.filter.input.shape, "indices")}

    def parameters(self) -> dict[str, Array]:
        """The dictionary; scaled as it would be read, since the scale of a maximum norm is not differentiated."""
        return {"dictionary": self.filter.weights.read(np.float64)}

    def forward(self, values: dict[str, Array]) -> Array:
        return self.filter.look_up(values["indices"].astype(np.int64), values["dictionary"], limited=False)

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        f, batch = self.filter, len(values["indices"])
        x, dy, dw = Tensor(f.input, batch), Tensor(f.output, batch), Tensor(f.weights, 1)
        x.fill_integers(values["indices"].astype(np.int64))
        dy.fill(cotangent)
        tensors = {"in": x.memory, "out_delta": dy.descriptor(), "weights_delta": dw.descriptor()}
        f.perform("apply_backward", CALLER, batch, {name: (value, 0) for name, value in tensors.items()})
        return {"dictionary": dw.read()}
