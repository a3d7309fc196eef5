"""Pooling, and un-max pooling with its indices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import Problem
from ..filters.pooling import Pooling
from ..reference import pooling as reference_pooling
from ._base import CALLER, Array, Subject, Tensor, UnarySubject


class UnMaxSubject(UnarySubject):
    """UnMax, whose indices are drawn: every input goes to a position of its own."""

    filter: Pooling

    def __init__(self, filter: Pooling) -> None:
        super().__init__(filter)
        channels, height, width = filter.input.shape
        if height * width > filter.indices[None].plane:
            raise Problem("gradcheck: there are more inputs than positions, so that some overwrite others.")
        random = np.random.default_rng(0)
        planes = np.tile(np.arange(filter.indices[None].plane, dtype=np.uint64), (channels, 1))
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
        f.indices[None].bind("gradcheck", memory, batch, 0, output=True).write(self._places(batch))
        tensors: dict[str, tuple[Any, int]] = {"in": (x.memory, 0), "out": (y.memory, 0), "indices": (memory, 0)}
        f.perform("apply_pooling", CALLER, batch, tensors)
        tensors |= {"in_delta": (deltas["input"], 0), "out_delta": (dy.descriptor(), 0)}
        tensors["bias_delta"] = (deltas.get("bias"), 0)
        f.perform("apply_backward_pooling", CALLER, batch, tensors)
        return {name: tensor.read() for name, tensor in gradients.items()}


def pooling_subject(filter: Pooling) -> Subject:
    return UnMaxSubject(filter) if filter.unpools else UnarySubject(filter)
