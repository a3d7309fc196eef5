"""Activations, with their alpha."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..errors import Problem
from ..filters.activation import ActivationFilter
from ..reference import activation as reference_activation
from ..reference.activation import Function as ActivationKind
from ._base import Array, UnarySubject


class ActivationSubject(UnarySubject):
    """Standalone activations, whose one parameter is alpha."""

    filter: ActivationFilter

    def __init__(self, filter: ActivationFilter) -> None:
        super().__init__(filter)
        if filter.activation.function in (ActivationKind.GUMBEL, ActivationKind.GUMBEL_MAX):
            raise Problem("gradcheck: the Gumbel functions draw random numbers at each call; there is no one gradient.")

    def parameters(self) -> dict[str, Array]:
        return {} if self.filter.weights is None else {"alpha": self.filter.weights.read(np.float64)[self._alpha]}

    @property
    def _alpha(self) -> slice:
        """Where alpha lies among the values of the filter."""
        return slice(None) if self.filter.activation.function == ActivationKind.PRELU_PER_CHANNEL else slice(0, 1)

    def forward(self, values: dict[str, Array]) -> Array:
        f = self.filter.current()
        if "alpha" in values:
            alpha = values["alpha"]
            f = replace(f, alpha=float(alpha[0])) if f.channel_alpha is None else replace(f, channel_alpha=alpha)
        return reference_activation.forward(f, values["input"], self.filter.axes)

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        gradients = super().backward(values, cotangent)
        return {"alpha" if name == "weights" else name: gradient for name, gradient in gradients.items()}
