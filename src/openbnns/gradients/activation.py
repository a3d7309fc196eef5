"""Activations, with their alpha."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..errors import Problem
from ..filters.activation import ActivationFilter
from ..filters.base import Filter
from ..parameters.activation import Function
from ._base import Array, Subject


class ActivationSubject(Subject):
    """Standalone activations, whose one parameter is alpha."""

    filter: ActivationFilter
    names: ClassVar = {"weights": "alpha"}

    def __init__(self, filter: Filter) -> None:
        super().__init__(filter)
        if self.filter.activation.function in (Function.GUMBEL, Function.GUMBEL_MAX):
            raise Problem("gradcheck: the Gumbel functions draw random numbers at each call; there is no one gradient.")

    def parameters(self) -> dict[str, Array]:
        """Without the beta that may follow alpha."""
        return {name: alpha[: self.held[name].view.count] for name, alpha in super().parameters().items()}

    def forward(self, values: dict[str, Array]) -> Array:
        rest = {name: held.read(np.float64)[held.view.count :] for name, held in self.held.items()}
        return super().forward(values | {name: np.append(values[name], beta) for name, beta in rest.items()})
