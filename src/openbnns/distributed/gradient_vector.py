"""The gradients of a network as one vector, in the order in which the backward pass finishes them, cut into buckets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..graph.graph import Graph
from ..graph.memory import ALIGNMENT
from ..graph.parameter import Parameter
from ..graph.program import Program
from ..graph.tensor import Array
from ..nn.batches import Span
from ..nn.module import Module
from ..nn.recording import recording_of
from .communicator import Communicator
from .tree_sums import BLOCK, block_squares

_FLOATS = ALIGNMENT // 4
_LARGE = 16 * BLOCK  # elements of parameters that begin with a block, so that a bucket may


def in_order(graph: Graph, parameters: Sequence[Parameter]) -> list[Parameter]:
    """Parameters as the backward pass finishes them: first those that the forward pass begins to use last."""
    first: dict[Parameter, int] = {}
    for number, step in enumerate(graph.operations):
        leaves = [value.storage.leaf for value in step.inputs]
        for parameter in (*step.parameters, *(leaf for leaf in leaves if isinstance(leaf, Parameter))):
            first.setdefault(parameter, number)
    chosen = [p for p in parameters if p.used and p.requires_grad]
    return sorted(chosen, key=lambda p: first.get(p, -1), reverse=True)


class Gradients:
    """The places of the gradients of parameters in a vector, followed by ``extra`` numbers that are summed as well."""

    def __init__(self, network: Module, parameters: Sequence[Parameter], extra: int, comm: Communicator) -> None:
        self.parameters = in_order(recording_of(network, True).graph, parameters)
        self.places: list[Span] = []
        end = 0
        cuts = []  # where buckets may end
        for parameter in self.parameters:
            if parameter.size >= _LARGE:
                end = -(-end // BLOCK) * BLOCK
                cuts.append(end)
            self.places.append((end, end + parameter.size))
            end += -(-parameter.size // _FLOATS) * _FLOATS
        self.size = end  # without the extra numbers
        self.length = max(1, -(-(end + extra) // BLOCK)) * BLOCK  # of the vector
        self.buckets = comm.buckets_of(self.length, cuts)
        self._network, self._extra = network, extra

    def lie_in(self, vector: Array) -> None:
        """Let the gradients of the parameters lie in this vector from now on."""
        self.vector = vector
        self.extra = vector[self.size : self.size + self._extra]
        self._place(vector)
        recording_of(self._network, True).programs.clear()  # which write to where the gradients were

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
        for parameter, (start, stop) in zip(self.parameters, self.places, strict=True):
            parameter.bind_grad(vector[start:stop].reshape(parameter.shape))

    def finished(self, program: Program) -> list[int]:
        """The number of calls of the backward pass after which each bucket is final."""
        ends, calls, next_ = [], 0, 0
        for _, stop in self.buckets:
            while next_ < len(self.places) and self.places[next_][0] < stop:
                calls = max(calls, program.finished.get(self.parameters[next_], 0))
                next_ += 1
            ends.append(calls)
        return ends

    def norm(self) -> float:
        """The norm of all gradients. Sums of blocks are added exactly, so it does not matter which rank has computed them."""
        return math.sqrt(math.fsum(block_squares(self.vector[: self.size])))
