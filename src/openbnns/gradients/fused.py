"""Fused chains in training."""

from __future__ import annotations

import numpy as np

from ..filters.arithmetic import Arithmetic
from ..filters.fused import Fused
from ._base import Array, Subject
from .arithmetic import operand


class FusedSubject(Subject):
    """Fused chains in training: statistics of the batch, so that samples depend on each other."""

    filter: Fused

    def numbers(self, tensor: str, shape: tuple[int, ...], random: np.random.Generator) -> Array:
        first = self.filter.first
        if isinstance(first, Arithmetic):
            return operand(first.function, shape, random)
        return super().numbers(tensor, shape, random)

    def cancelled(self, name: str, gradients: dict[str, Array]) -> float:
        """A normalization takes away what a bias before it adds: its gradient is a sum that cancels."""
        return float(np.linalg.norm(gradients["weights"])) if name == "bias" else 0.0
