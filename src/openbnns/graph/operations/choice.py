"""A choice between two values by the mode of the network: training or inference."""

from __future__ import annotations

from ..calls import Calls
from ..operation import Operation
from ..tensor import Array, Tensor
from ._base import clearing, copying


class Choice(Operation):
    """The first value in training, the second at inference."""

    keeps_inputs = False

    def __init__(self, training: Tensor, inference: Tensor) -> None:
        super().__init__([training, inference], Tensor(training.graph, training.shape))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        return copying(y, x[0] if training else x[1])

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        calls = [] if dx[0] is None else [copying(dx[0], dy)]
        return calls if dx[1] is None else [*calls, clearing(dx[1])]
