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
    floor = 1e-3

    def numbers(self, tensor: str, shape: tuple[int, ...], random: np.random.Generator) -> Array:
        first = self.filter.first
        if isinstance(first, Arithmetic):
            return operand(first.function, shape, random)
        return super().numbers(tensor, shape, random)
