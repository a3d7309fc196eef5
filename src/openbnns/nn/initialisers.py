"""Initial values of parameters. Each takes the shape and a generator, and gives a float32 array.

``fan_in`` and ``fan_out`` are the numbers of inputs and outputs that meet in one element of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from .._listing import of_module as _of_module
from .._spelling import spelled
from ..graph.tensor import Array

Initialiser = Callable[[tuple[int, ...], np.random.RandomState], Array]
InitialiserName = Literal[
    "zeros", "ones", "kaiming_uniform", "kaiming_normal", "xavier_uniform", "xavier_normal", "orthogonal",
]  # fmt: skip
Initial = InitialiserName | Initialiser
"""The initial values of parameters, by name or as a function."""


def _fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """(fan_in, fan_out) of weights (out, in, ...)."""
    if len(shape) < 2:
        return max(shape[0] if shape else 1, 1), 1
    window = int(np.prod(shape[2:], dtype=np.int64))
    return max(shape[1] * window, 1), max(shape[0] * window, 1)


def zeros(shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
    """All zero."""
    return np.zeros(shape, np.float32)


def ones(shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
    """All one."""
    return np.ones(shape, np.float32)


def constant(value: float) -> Initialiser:
    """All ``value``."""
    return lambda shape, generator: np.full(shape, value, np.float32)


def uniform(low: float, high: float) -> Initialiser:
    """Evenly spread between ``low`` and ``high``."""
    return lambda shape, generator: generator.uniform(low, high, shape).astype(np.float32)


@spelled
def normal(mean: float = 0.0, standard_deviation: float = 1.0) -> Initialiser:
    """Normal numbers."""
    return lambda shape, generator: (mean + standard_deviation * generator.standard_normal(shape)).astype(np.float32)


def kaiming_uniform(shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
    """He et al. 2015: uniform in ±sqrt(6 / fan_in), which keeps the scale of signals through ReLU."""
    bound = np.sqrt(6.0 / _fans(shape)[0])
    return uniform(-bound, bound)(shape, generator)


def kaiming_normal(shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
    """He et al. 2015: normal with variance 2 / fan_in."""
    return normal(0.0, float(np.sqrt(2.0 / _fans(shape)[0])))(shape, generator)


def xavier_uniform(shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
    """Glorot and Bengio 2010: uniform in ±sqrt(6 / (fan_in + fan_out))."""
    bound = np.sqrt(6.0 / sum(_fans(shape)))
    return uniform(-bound, bound)(shape, generator)


def xavier_normal(shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
    """Glorot and Bengio 2010: normal with variance 2 / (fan_in + fan_out)."""
    return normal(0.0, float(np.sqrt(2.0 / sum(_fans(shape)))))(shape, generator)


def fan_in_uniform(fan_in: int) -> Initialiser:
    """Uniform in ±1 / sqrt(fan_in): what PyTorch gives its linear and convolution layers, weights and bias alike."""
    bound = 1.0 / np.sqrt(max(fan_in, 1))
    return uniform(-bound, bound)


def orthogonal(shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
    """Saxe et al. 2013: rows or columns of the flattened weights are orthonormal."""
    rows, columns = shape[0], int(np.prod(shape[1:], dtype=np.int64))
    q, r = np.linalg.qr(generator.standard_normal((max(rows, columns), min(rows, columns))))
    q = q * np.sign(np.diag(r))
    return np.ascontiguousarray(q if rows >= columns else q.T, np.float32).reshape(shape)


NAMED: dict[str, Initialiser] = {
    "zeros": zeros,
    "ones": ones,
    "kaiming_uniform": kaiming_uniform,
    "kaiming_normal": kaiming_normal,
    "xavier_uniform": xavier_uniform,
    "xavier_normal": xavier_normal,
    "orthogonal": orthogonal,
}


def find(choice: Initial | None, default: Initialiser) -> Initialiser:
    """An initialiser by name or as it is."""
    if choice is None:
        return default
    if callable(choice):
        return choice
    if choice not in NAMED:
        raise ValueError(f"There is no initialiser {choice!r}. Use one of {', '.join(NAMED)}, or pass a function.")
    return NAMED[choice]


__all__ = [
    "Initialiser", "InitialiserName", "constant", "fan_in_uniform", "kaiming_normal", "kaiming_uniform", "normal", "ones",
    "orthogonal", "uniform", "xavier_normal", "xavier_uniform", "zeros",
]  # fmt: skip

__dir__ = _of_module(__name__)
