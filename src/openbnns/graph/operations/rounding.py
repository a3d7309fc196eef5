"""Rounding to the steps of a smaller type."""

from __future__ import annotations

from ..calls import Calls, copying, rounding_to_half
from ..operation import Operation
from ..tensor import Array, Tensor


class RoundToHalf(Operation):
    """Numbers rounded to float16; gradients go through as they are."""

    is_pure = True
    keeps_inputs = False

    def __init__(self, x: Tensor) -> None:
        super().__init__([x], Tensor(x.graph, x.shape))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        return rounding_to_half(y, x[0])

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        return [] if dx[0] is None else copying(dx[0], dy)
