"""The gradients of a network as one vector, which ranks sum at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ..graph.memory import ALIGNMENT
from ..graph.parameter import Parameter
from ..graph.tensor import Array
from ..nn.batches import Span
from ..nn.module import Module
from ..nn.recording import recording_of

_FLOATS = ALIGNMENT // 4


def vector(size: int) -> Array:
    """Zeros that begin with a cache line."""
    memory = np.zeros(size + _FLOATS, np.float32)
    start = -memory.ctypes.data % ALIGNMENT // 4
    return memory[start : start + size]


class Gradients:
    """The gradients of parameters, in ``vector``, followed by ``extra`` numbers that are summed as well."""

    def __init__(self, network: Module, parameters: Sequence[Parameter], extra: int) -> None:
        self.parameters = [p for p in parameters if p.used and p.requires_grad]
        self._places: list[Span] = []
        end = 0
        for parameter in self.parameters:
            self._places.append((end, end + parameter.size))
            end += -(-parameter.size // _FLOATS) * _FLOATS
        self.vector = vector(end + extra)
        self.extra = self.vector[end:]
        self._place(self.vector)
        recording_of(network, True).programs.clear()  # which write to where the gradients were

    def fits(self, parameters: Sequence[Parameter]) -> bool:
        """True if these are still the parameters that are trained."""
        chosen = {p for p in parameters if p.used and p.requires_grad}
        return chosen == set(self.parameters) and all(p.grad.base is self.vector.base for p in self.parameters)

    @contextmanager
    def at(self, vector: Array) -> Iterator[None]:
        """While this lasts, gradients lie in another vector, in the same places: for programs that are made."""
        self._place(vector)
        try:
            yield
        finally:
            self._place(self.vector)

    def _place(self, vector: Array) -> None:
        for parameter, (start, stop) in zip(self.parameters, self._places, strict=True):
            parameter.bind_grad(vector[start:stop].reshape(parameter.shape))
