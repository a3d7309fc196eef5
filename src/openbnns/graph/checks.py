"""Checks of arguments that functions and layers share."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

Pair = int | Sequence[int]
"""One number for all axes of an image, or one per axis: (vertical, horizontal), for volumes (depth, vertical, horizontal)."""

_AXES = {1: "(number,)", 2: "(vertical, horizontal)", 3: "(depth, vertical, horizontal)"}


def per_axis(value: Any, axes: int, who: str, least: int | None = None) -> tuple[int, ...]:
    """One number for each axis of a signal or an image."""
    numbers = tuple(value) if isinstance(value, (tuple, list)) else _repeated(value, axes)
    if len(numbers) != axes or ({*map(type, numbers)} != {int} and not all(map(_is_index, numbers))):
        raise ValueError(f"{who} is {value!r}. Pass one integer or {_AXES[axes]}.")
    if least is not None and min(numbers) < least:
        raise ValueError(f"{who} is {value!r}. It must be at least {least}.")
    return tuple(map(int, numbers))


def _repeated(value: Any, axes: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,) * axes


def _is_index(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    try:
        operator.index(value)  # which arrays have but refuse, unless they hold one number
    except TypeError:
        return False
    return True


def whole_number(value: Any, who: str, least: int, most: int | None = None) -> int:
    """An integer, Python's or NumPy's, within its limits."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{who} must be a whole number, not {value!r}.")
    number = int(value.__index__())
    if number < least or (most is not None and number > most):
        limits = f"at least {least}" if most is None else f"{least} to {most}"
        raise ValueError(f"{who} is {number}. It must be {limits}.")
    return number


def probability(value: Any, who: str) -> float:
    """The probability of a dropout; one that is 1 in float32, the type that layers compute in, is 1."""
    number = float(value)
    if not 0 <= number <= 1:
        raise ValueError(f"{who} is {number}. It is the probability to drop: from 0 to 1.")
    return 1.0 if np.float32(number) == 1 else number


def positive(value: Any, who: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
        raise ValueError(f"{who} is {value!r}. Pass an integer of at least 1.")
    return int(value)


def epsilon(value: Any, who: str) -> float:
    """The number that normalizations add to variances."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{who}: eps must be a number, not {value!r}.")
    if not value >= 0:
        raise ValueError(f"{who}: eps is {value}. It must not be negative.")
    return float(value)


def momentum(value: Any, who: str) -> float:
    """The share of a batch in moving statistics."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{who}: momentum must be a number, not {type(value).__name__}.")
    if not 0 <= value <= 1:
        raise ValueError(f"{who}: momentum is {value}. It must be between 0 and 1.")
    return float(value)


def sample_end(sizes: int | Sequence[int], who: str) -> tuple[int, ...]:
    """The last axes of samples: one or several positive sizes."""
    given = tuple(sizes) if isinstance(sizes, Sequence) and not isinstance(sizes, str) else (sizes,)
    if not given:
        raise ValueError(f"{who} is empty. Name at least one size.")
    return tuple(positive(n, who) for n in given)


def check_size(who: str, what: str, expected: int | None, got: Any, *, last: Any = None) -> None:
    """Raise an error for a size other than the one a layer was made for; ``last`` is the size of the last axis, for a
    hint."""
    if expected is not None and expected != got:
        cure = f"Look at the shape of the input, make the layer for {got} {what}, or leave the number out to infer it."
        if last == expected:
            cure = "They are the first axis of a sample, not the last: pass np.moveaxis(x, -1, 1)."
        raise ValueError(f"{who}: made for {expected} {what}, but its input has {got}. {cure}")


def check_rank(who: str, x: Any, rank: int, axes: str) -> None:
    if x.ndim != rank + 1:
        hint = " Put nn.Flatten() before it." if rank == 1 else " Put nn.Reshape(...) before it."
        if x.ndim == rank:
            hint = " The first axis of an input is the batch: for one sample pass x[None]."
            if axes.startswith("(channels"):
                hint += " For samples without channels pass x[:, None], or put nn.Reshape(...) before it."
        raise ValueError(f"{who}: needs samples {axes}, but gets {x.shape[1:]}.{hint}")


def axis_of(x: Any, dim: Any, who: str, *, extra: int = 0) -> int:
    """The axis that ``dim`` names, counted from 0; ``extra`` allows one behind the last, for new axes."""
    rank: int = x.ndim + extra
    if isinstance(dim, bool) or not hasattr(dim, "__index__") or not -rank <= int(dim) < rank:
        axes = "no axes" if rank == 0 else "only axis 0" if rank == 1 else f"the axes 0 to {rank - 1}"
        raise ValueError(f"{who}: dim is {dim!r}, but {x.shape} has {axes}.")
    return int(dim) % rank


def axes_of(x: Any, dim: Any, who: str) -> tuple[int, ...]:
    """Several axes, each once; None stands for all. Of a single number, 0 and -1 stand for it, as in PyTorch."""
    if dim is None:
        return tuple(range(x.ndim))
    given = dim if isinstance(dim, (tuple, list)) else (dim,)
    if x.ndim == 0 and len(given) == 1 and given[0] in (0, -1) and not isinstance(given[0], bool):
        return ()
    axes = [axis_of(x, d, who) for d in given]
    if len(set(axes)) != len(axes):
        raise ValueError(f"{who}: dim {dim} names an axis twice.")
    return tuple(sorted(axes))
