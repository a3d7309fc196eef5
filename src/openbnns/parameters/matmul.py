"""Which product a matrix multiplication is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Product:
    """Which operands are transposed, the factor alpha, and whether A takes the place of B as well (quadratic)."""

    transpose_a: bool = False
    transpose_b: bool = False
    alpha: float = 1.0
    quadratic: bool = False
