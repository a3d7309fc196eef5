"""Activations, with their alpha."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..errors import Problem
from ..filters.activation import ActivationFilter
from ..filters.base import Filter
from ..layers.activation import ActivationLayer
from ..layers.base import Layer
from ..layers.types import ActivationFunction, Shape
from ..parameters.activation import ActivationKind
from ._base import Array, Subject
from ._random import Random


class ActivationSubject(Subject):
    """Standalone activations, whose one parameter is alpha."""

    filter: ActivationFilter
    names: ClassVar = {"weights": "alpha"}

    def __init__(self, filter: Filter) -> None:
        super().__init__(filter)
        if self.filter.activation.function in (ActivationKind.GUMBEL, ActivationKind.GUMBEL_MAX):
            raise Problem(
                "gradcheck: the Gumbel functions draw new random numbers at each call, so there is no single gradient."
            )

    def parameters(self) -> dict[str, Array]:
        """Alpha alone, without the beta that may follow it."""
        return {name: alpha[: self.held[name].view.count] for name, alpha in super().parameters().items()}

    def forward(self, values: dict[str, Array]) -> Array:
        rest = {name: held.read(np.float64)[held.view.count :] for name, held in self.held.items()}
        return super().forward(values | {name: np.append(values[name], beta) for name, beta in rest.items()})


SUBJECT = ActivationSubject


def random_layer(random: Random) -> Layer:
    f = ActivationFunction
    function = random.one_of(
        f.gelu(), f.silu(), f.softmax(), f.log_softmax(), f.hard_swish(), f.erf(), f.abs(), f.selu(), f.softsign(),
        f.tanh_shrink(), f.scaled_tanh(alpha=1.3, beta=0.6),
    )  # fmt: skip
    return ActivationLayer(function=function, input=Shape.vector(random.size(2, 33)))
