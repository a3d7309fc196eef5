"""Random numbers."""

from __future__ import annotations

from collections.abc import Sequence

from ... import RandomGenerator
from ..calls import Calls, NumpyCall
from ..graph import Graph
from ..operation import Operation
from ..sizes import AnySize
from ..tensor import Array, Tensor
from ._base import draw_number


class RandomNumbers(Operation):
    """Numbers that every forward pass draws anew, in training and at inference: normal ones, or uniform on [0, 1)."""

    keeps_inputs = False
    random = True

    def __init__(self, graph: Graph, shape: Sequence[AnySize], *, normal: bool) -> None:
        self.normal = normal
        self._generator = RandomGenerator(seed=int(graph.generator.randint(2**31)))
        super().__init__([], Tensor(graph, shape))

    def reseed(self, seed: int, step: int, index: int) -> None:
        self._generator = RandomGenerator(seed=draw_number(seed, step, index))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        flat = y.reshape(-1)

        def call() -> None:
            if self.normal:
                self._generator.fill_normal(flat)
            else:
                self._generator.fill_uniform(flat)

        return NumpyCall(call)
