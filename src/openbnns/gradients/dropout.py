"""Dropout, with one mask."""

from __future__ import annotations

from ..filters.dropout import Dropout
from ._base import Array, UnarySubject


class DropoutSubject(UnarySubject):
    """Dropout with the mask of one forward call, which every evaluation repeats."""

    filter: Dropout

    def __init__(self, filter: Dropout) -> None:
        super().__init__(filter)
        self.draw_number = filter.draws

    def forward(self, values: dict[str, Array]) -> Array:
        self.filter.draws = self.draw_number
        return super().forward(values)

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        self.filter.draws = self.draw_number
        return super().backward(values, cotangent)
