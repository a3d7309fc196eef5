"""Pooling, and un-max pooling with its indices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..engines.reference import pooling as reference_pooling
from ..errors import Problem
from ..filters._pooling_indices import resolve_index_type
from ..filters.pooling import Pooling
from ._base import CALLER, Array, Subject, Tensor, UnarySubject


class UnMaxSubject(UnarySubject):
    """UnMax, whose indices are drawn: every input goes to a position of its own."""

    filter: Pooling

    def __init__(self, filter: Pooling) -> None:
        super().__init__(filter)
        channels, height, width = filter.input.shape
        if height * width > filter.indices.plane:
            raise Problem("gradcheck: there are more inputs than positions, so that some overwrite others.")
        random = np.random.default_rng(0)
        planes = np.tile(np.arange(filter.indices.plane, dtype=np.uint64), (channels, 1))
        self.places = random.permuted(planes, axis=1)[:, : height * width].reshape(1, channels, height, width)

    def _places(self, batch: int) -> NDArray[np.uint64]:
        return np.repeat(self.places, batch, axis=0)

    def forward(self, values: dict[str, Array]) -> Array:
        f, x = self.filter, values["input"]
        indices = self._places(len(x)).astype(np.int64)
        return reference_pooling.forward(f.function, x, values.get("bias"), f.activation, f.geometry, indices)[0]

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        f, batch = self.filter, len(values["input"])
        x, y, dy = Tensor(f.input, batch), Tensor(f.output, batch), Tensor(f.output, batch)
        x.fill(values["input"])
        dy.fill(cotangent)
        gradients = {"input": Tensor(f.input, batch)}
        if f.bias is not None:
            gradients["bias"] = Tensor(f.bias, 1)
        deltas = {name: tensor.descriptor() for name, tensor in gradients.items()}
        memory = np.zeros(batch * f.input.view.extent, np.uint64)
        bound = f.indices.bind(CALLER, memory, resolve_index_type(None, CALLER), batch, 0, output=True)
        f.indices.write(bound, self._places(batch))
        f.apply_pooling_batch(CALLER, batch, x.memory, 0, y.memory, 0, None, memory, 0)
        f.apply_backward_pooling_batch(
            CALLER, batch, x.memory, 0, deltas["input"], 0, y.memory, 0, dy.descriptor(), 0, deltas.get("bias"), None,
            memory, 0,
        )  # fmt: skip
        return {name: tensor.read() for name, tensor in gradients.items()}


def pooling_subject(filter: Pooling) -> Subject:
    return UnMaxSubject(filter) if filter.unpools else UnarySubject(filter)
