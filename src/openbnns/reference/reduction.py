"""Reductions over some axes, with optional weights w that multiply each summand.

    function      value y                          dy/dx                       dy/dw
    Max, Min      the extreme                      1 at its first position     -
    ArgMax, -Min  position of the extreme          -                           -
    Mean          sum(w x) / n                     w / n                       x / n
    MeanNonZero   sum(w x) / m over w != 0         w / m                       x / m where w != 0
    Sum           sum(w x)                         w                           x
    SumSquare     sum(w x^2)                       2 w x                       x^2
    SumLog        sum(w log(x + epsilon))          w / (x + epsilon)           log(x + epsilon)
    L1Norm        sum(w |x|)                       w sign(x)                   |x|
    L2Norm        sqrt(sum(w x^2))                 w x / y, 0 at y = 0         x^2 / (2 y), 0 at y = 0
    LogSumExp     log sum(w exp x)                 w exp(x) / sum(w exp x)     exp(x) / sum(w exp x)
    LogSum        log sum(w x)                     w / sum(w x)                x / sum(w x)
    Product       product of x                     product of the others       -
    LogicalOr     1 if any x != 0, else 0          -                           -
    LogicalAnd    1 if all x != 0, else 0          -                           -

n is the number of elements reduced, m of those with w != 0; with m = 0 value and gradients are 0. Without weights w is
1 everywhere, so MeanNonZero is Mean. Positions count through the reduced axes in C order, and of equal extremes the
first one wins; a NaN is the extreme of whatever contains it. Logarithms and roots follow IEEE arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..parameters.reduction import ReductionKind
from .activation import Array
from .arithmetic import sum_to_shape


@np.errstate(all="ignore")
def forward(
    function: int,
    x: Array,
    axes: Sequence[int],
    weights: Array | None = None,
    epsilon: float = 0.0,
    last_axis: bool = False,
) -> Array:
    """y in the shape of x with size 1 along the reduced NumPy axes; positions and truth values are floats.

    weights broadcasts against x (a sample's weights have a batch axis of 1). With last_axis, ArgMax and ArgMin give
    the position along the fastest reduced axis alone (the fastest that has more than one element).
    """
    axes = _normalized(axes, x.ndim)
    y = _formula(function, weights).value(_Rows(x, axes, weights, epsilon))
    if last_axis and function in (ReductionKind.ARG_MAX, ReductionKind.ARG_MIN):
        sizes = [x.shape[axis] for axis in axes if x.shape[axis] != 1]
        y = y % sizes[-1] if sizes else y
    return y.reshape(_reduced_shape(x.shape, axes))


@np.errstate(all="ignore")
def backward(
    function: int,
    x: Array,
    dy: Array,
    axes: Sequence[int],
    wanted: Set[str],
    weights: Array | None = None,
    epsilon: float = 0.0,
) -> dict[str, Array]:
    """The wanted gradients among {"dx", "dw"}: dx = dy * dy/dx in the shape of x, dw = dy * dy/dw summed to that of weights.

    dy has size 1 along the reduced axes.
    """
    formula, axes = _formula(function, weights), _normalized(axes, x.ndim)
    rows = _Rows(x, axes, weights, epsilon)
    gradients: dict[str, Array] = {}
    if "dx" in wanted:
        if formula.input_slope is None:
            raise ValueError(f"reduction.backward: {ReductionKind(function).name} has no gradient.")
        gradients["dx"] = dy * rows.restore(formula.input_slope(rows))
    if "dw" in wanted:
        if formula.weights_slope is None or weights is None:
            raise ValueError(
                f"reduction.backward: {ReductionKind(function).name} has no gradient of weights"
                f"{'' if formula.weights_slope is None else ' that were not given'}."
            )
        gradients["dw"] = sum_to_shape(dy * rows.restore(formula.weights_slope(rows)), x.shape, weights.shape)
    return gradients


# ---------------------------------------------------------------------------------------------------------------------
# Shapes


class _Rows:
    """x and w as arrays (..., n): the kept axes in order, then the n elements that are reduced to one, in C order."""

    def __init__(self, x: Array, axes: tuple[int, ...], weights: Array | None, epsilon: float) -> None:
        self._shape, self._axes, self.epsilon = x.shape, axes, epsilon
        self.x = self._flatten(np.asarray(x, dtype=np.float64))
        self.w = np.ones_like(self.x) if weights is None else self._flatten(np.broadcast_to(weights, x.shape))

    @property
    def n(self) -> int:
        return int(self.x.shape[-1])

    def restore(self, rows: Array) -> Array:
        """Rows (..., n), or (..., 1) for all n alike, back in the shape of x."""
        kept = [size for axis, size in enumerate(self._shape) if axis not in self._axes]
        reduced = [self._shape[axis] for axis in self._axes]
        full = np.broadcast_to(rows, self.x.shape).reshape(*kept, *reduced)
        return np.moveaxis(full, range(len(kept), full.ndim), self._axes)

    def _flatten(self, x: Array) -> Array:
        kept = x.ndim - len(self._axes)
        moved = np.moveaxis(x, self._axes, range(kept, x.ndim))
        return moved.reshape(*moved.shape[:kept], math.prod(moved.shape[kept:]))


def _normalized(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Sorted axes in 0 .. rank - 1."""
    positive = tuple(sorted({axis + rank if axis < 0 else axis for axis in axes}))
    if len(positive) != len(axes) or not all(0 <= axis < rank for axis in positive):
        raise ValueError(f"reduction: axes {tuple(axes)} are not distinct axes of an array of rank {rank}.")
    return positive


def _reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape))


# ---------------------------------------------------------------------------------------------------------------------
# The table: the value (...), and the slopes (..., n) or (..., 1), from the rows


@dataclass(frozen=True)
class _Formula:
    value: Callable[[_Rows], Array]
    input_slope: Callable[[_Rows], Array] | None = None
    weights_slope: Callable[[_Rows], Array] | None = None


def _formula(function: int, weights: Array | None) -> _Formula:
    if function not in _FORMULAS:
        known = ", ".join(str(int(number)) for number in sorted(_FORMULAS))
        raise ValueError(f"reduction: function {function} does not reduce; the functions that do are {known}.")
    if weights is not None and function not in WEIGHTED:
        raise ValueError(f"reduction: {ReductionKind(function).name} has no summands to weigh; pass no weights.")
    return _FORMULAS[function]


def _total(values: Array) -> Array:
    """Sum over each row, (..., 1)."""
    return np.asarray(np.sum(values, axis=-1, keepdims=True))


def _position(index: np.ndarray[tuple[int, ...], np.dtype[np.int64]], rows: _Rows) -> Array:
    """1 at index (...) of each row, else 0."""
    return np.where(np.arange(rows.n) == index[..., np.newaxis], 1.0, 0.0)


def _one_in_count(rows: _Rows) -> Array:
    """1 / number of nonzero weights of each row, 0 where there is none."""
    count = _total((rows.w != 0.0).astype(np.float64))
    return np.where(count == 0.0, 0.0, 1.0 / count)


def _mean_non_zero(rows: _Rows) -> Array:
    return (_one_in_count(rows) * _total(np.where(rows.w != 0.0, rows.w * rows.x, 0.0)))[..., 0]


def _root_of_squares(rows: _Rows) -> Array:
    return np.sqrt(_total(rows.w * rows.x**2))


def _over_norm(values: Array, rows: _Rows) -> Array:
    norm = _root_of_squares(rows)
    return np.where(norm == 0.0, 0.0, values / norm)


def _shifted_exponentials(rows: _Rows) -> tuple[Array, Array]:
    """(s, exp(x - s)) with the largest x of a row for s, so that exp cannot overflow; s = 0 if that is infinite."""
    largest = np.max(rows.x, axis=-1, keepdims=True, initial=-np.inf)
    shift = np.where(np.isinf(largest), 0.0, largest)
    return shift, np.exp(rows.x - shift)


def _log_sum_exp(rows: _Rows) -> Array:
    shift, exponentials = _shifted_exponentials(rows)
    return (shift + np.log(_total(rows.w * exponentials)))[..., 0]


def _share_of_exponentials(rows: _Rows) -> Array:
    _, exponentials = _shifted_exponentials(rows)
    return exponentials / _total(rows.w * exponentials)


def _product_of_others(rows: _Rows) -> Array:
    """For every element, the product of all others of its row: of those before it, times those after it."""
    one = np.ones((*rows.x.shape[:-1], 1))
    before = np.cumprod(np.concatenate([one, rows.x[..., :-1]], axis=-1), axis=-1)
    behind = np.cumprod(np.concatenate([one, rows.x[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    return np.asarray(before * behind)


_FORMULAS: Final[dict[int, _Formula]] = {
    ReductionKind.MAX: _Formula(
        lambda r: np.asarray(np.max(r.x, axis=-1)), lambda r: _position(np.argmax(r.x, axis=-1), r)
    ),
    ReductionKind.MIN: _Formula(
        lambda r: np.asarray(np.min(r.x, axis=-1)), lambda r: _position(np.argmin(r.x, axis=-1), r)
    ),
    ReductionKind.ARG_MAX: _Formula(lambda r: np.argmax(r.x, axis=-1).astype(np.float64)),
    ReductionKind.ARG_MIN: _Formula(lambda r: np.argmin(r.x, axis=-1).astype(np.float64)),
    ReductionKind.MEAN: _Formula(
        lambda r: _total(r.w * r.x)[..., 0] / r.n,
        lambda r: r.w / r.n,
        lambda r: r.x / r.n,
    ),
    ReductionKind.MEAN_NON_ZERO: _Formula(
        _mean_non_zero,
        lambda r: r.w * _one_in_count(r),
        lambda r: np.where(r.w != 0.0, r.x * _one_in_count(r), 0.0),
    ),
    ReductionKind.SUM: _Formula(lambda r: _total(r.w * r.x)[..., 0], lambda r: r.w, lambda r: r.x),
    ReductionKind.SUM_SQUARE: _Formula(
        lambda r: _total(r.w * r.x**2)[..., 0], lambda r: 2.0 * r.w * r.x, lambda r: r.x**2
    ),
    ReductionKind.SUM_LOG: _Formula(
        lambda r: _total(r.w * np.log(r.x + r.epsilon))[..., 0],
        lambda r: r.w / (r.x + r.epsilon),
        lambda r: np.log(r.x + r.epsilon),
    ),
    ReductionKind.L1_NORM: _Formula(
        lambda r: _total(r.w * np.abs(r.x))[..., 0], lambda r: r.w * np.sign(r.x), lambda r: np.abs(r.x)
    ),
    ReductionKind.LOGICAL_OR: _Formula(lambda r: np.any(r.x != 0.0, axis=-1).astype(np.float64)),
    ReductionKind.LOGICAL_AND: _Formula(lambda r: np.all(r.x != 0.0, axis=-1).astype(np.float64)),
    ReductionKind.L2_NORM: _Formula(
        lambda r: _root_of_squares(r)[..., 0],
        lambda r: _over_norm(r.w * r.x, r),
        lambda r: _over_norm(0.5 * r.x**2, r),
    ),
    ReductionKind.LOG_SUM_EXP: _Formula(
        _log_sum_exp, lambda r: r.w * _share_of_exponentials(r), lambda r: _share_of_exponentials(r)
    ),
    ReductionKind.PRODUCT: _Formula(lambda r: np.asarray(np.prod(r.x, axis=-1)), _product_of_others),
    ReductionKind.LOG_SUM: _Formula(
        lambda r: np.log(_total(r.w * r.x))[..., 0],
        lambda r: r.w / _total(r.w * r.x),
        lambda r: r.x / _total(r.w * r.x),
    ),
}

WEIGHTED: Final = frozenset(function for function, formula in _FORMULAS.items() if formula.weights_slope is not None)
"""Functions that take weights."""

DIFFERENTIABLE: Final = frozenset(
    function for function, formula in _FORMULAS.items() if formula.input_slope is not None
)
"""Functions that have an input gradient."""
