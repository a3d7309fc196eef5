"""Reductions over axes; cumulative sums and sorting along one."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ... import ReductionFunction
from .. import operations
from ..declared import Axes, Axis, Joined
from ..sizes import AnySize, Shape, Size, broadcast, is_same, is_same_shape, product
from ..tensor import Tensor
from .arrangements import diagonal
from .base import TensorLike, axes_of, axis_of, elementwise, function, numbers, value
from .elementwise import abs, add, as_numbers, clamp, div, eq, mul, ne, pow, sqrt, square, sub, where
from .shapes import expand

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "argsort", "cosine_similarity", "cumprod", "cumsum", "logsumexp",
    "max", "mean", "min", "norm", "normalize", "pairwise_distance", "prod", "sort", "std", "sum", "topk", "trace", "var",
]  # fmt: skip


def _reduced(f: ReductionFunction, input: TensorLike, dim: Any, keepdim: bool, who: str) -> Tensor:
    x = numbers(input, who)
    return x.graph.append(operations.Reduction(x, f, axes_of(x, dim, who), bool(keepdim)))


def _in_floats(f: ReductionFunction, who: str) -> Any:
    return lambda input, dim, keepdim: _reduced(f, input, dim, keepdim, who)


def _kept(shape: Shape, axes: tuple[int, ...], keepdim: bool) -> Any:
    """The shape of a reduction."""
    return [1 if axis in axes else n for axis, n in enumerate(shape) if keepdim or axis not in axes]


def _cumulative(who: str, product: bool) -> Any:
    def record(input: TensorLike, dim: int) -> Tensor:
        x = numbers(input, who)
        return x.graph.append(operations.Cumulative(x, axis_of(x, dim, who), product=product))

    return record


@elementwise(infer=_kept, in_floats=_in_floats(ReductionFunction.sum(), "sum"))
def sum(input: Joined, dim: Axes = None, keepdim: bool = False) -> Any:
    """The sum along ``dim``, an axis or several; of all elements if left out."""
    return np.sum(input, dim, keepdims=keepdim)


@function
def mean(input: TensorLike, dim: Any = None, keepdim: bool = False) -> Any:
    """The mean along ``dim``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.mean(np.float32([[1, 2], [5, 6]]), dim=1).tolist()
    [1.5, 5.5]
    """
    return _reduced(ReductionFunction.mean(), input, dim, keepdim, "mean")


@elementwise(infer=_kept, in_floats=_in_floats(ReductionFunction.max(), "amax"))
def amax(input: Joined, dim: Axes = None, keepdim: bool = False) -> Any:
    """The largest element along ``dim``; the gradient goes to the first of equal ones."""
    return np.max(input, dim, keepdims=keepdim)


@elementwise(infer=_kept, in_floats=_in_floats(ReductionFunction.min(), "amin"))
def amin(input: Joined, dim: Axes = None, keepdim: bool = False) -> Any:
    """The smallest element along ``dim``."""
    return np.min(input, dim, keepdims=keepdim)


class Extreme(NamedTuple):
    """Largest or smallest elements along an axis, and their positions."""

    values: Any
    indices: Any


@function
def max(input: TensorLike, dim: int | None = None, keepdim: bool = False) -> Any:
    """The largest element of all; with ``dim`` the pair (values, indices) along that axis."""
    if dim is None:
        return amax(input)
    return Extreme(amax(input, dim, keepdim), argmax(input, dim, keepdim))


@function
def min(input: TensorLike, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest element of all; with ``dim`` the pair (values, indices) along that axis."""
    if dim is None:
        return amin(input)
    return Extreme(amin(input, dim, keepdim), argmin(input, dim, keepdim))


@function
def argmax(input: TensorLike, dim: int | None = None, keepdim: bool = False) -> Any:
    """The position of the largest element along ``dim``; in the flattened input if left out."""
    return _position(ReductionFunction.arg_max(), input, dim, keepdim, "argmax")


@function
def argmin(input: TensorLike, dim: int | None = None, keepdim: bool = False) -> Any:
    """The position of the smallest element along ``dim``."""
    return _position(ReductionFunction.arg_min(), input, dim, keepdim, "argmin")


def _position(f: ReductionFunction, input: TensorLike, dim: int | None, keepdim: bool, who: str) -> Tensor:
    x = value(input, who)
    if dim is None:
        flat = x.reshape((product(x.shape),))
        place = x.graph.append(operations.Reduction(flat, f, (0,), False))
        return place.reshape((1,) * x.ndim) if keepdim else place
    return x.graph.append(operations.Reduction(x, f, (axis_of(x, dim, who),), bool(keepdim)))


@elementwise(infer=_kept, in_floats=_in_floats(ReductionFunction.product(), "prod"))
def prod(input: Joined, dim: Axes = None, keepdim: bool = False) -> Any:
    """The product along ``dim``."""
    return np.prod(input, dim, keepdims=keepdim)


@function
def logsumexp(input: TensorLike, dim: Any = None, keepdim: bool = False) -> Any:
    """The logarithm of the sum of exponentials along ``dim``."""
    return _reduced(ReductionFunction.log_sum_exp(), input, dim, keepdim, "logsumexp")


@function
def norm(input: TensorLike, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Any:
    """The p-norm along ``dim``, (Σ |x|^p)^(1/p), for any number p: 0 counts what is not 0, infinity takes the largest |x|
    and minus infinity the smallest.

    Gradients are 0 where the slope is infinite, as in PyTorch: at elements of 0 for p below 1, and where all are 0.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.float32([[3, -4], [0, 2]])
    >>> [nn.functional.norm(x, p, dim=1).tolist() for p in (0, 1, 2, float("inf"))]
    [[2.0, 1.0], [7.0, 2.0], [5.0, 2.0], [4.0, 2.0]]
    """
    if p == 2 or p is None or p == "fro":  # codespell:ignore fro
        return _reduced(ReductionFunction.l2_norm(), input, dim, keepdim, "norm")
    if isinstance(p, bool) or not isinstance(p, (int, float, np.number)) or p != p:
        raise ValueError(f"norm: p is {p!r}. Pass a number, such as 1, 2 or float('inf').")
    if p == 1:
        return _reduced(ReductionFunction.sum_of_absolutes(), input, dim, keepdim, "norm")
    if p == math.inf:
        return amax(abs(input), dim, keepdim)
    if p == -math.inf:
        return amin(abs(input), dim, keepdim)
    x = numbers(input, "norm")
    axes = axes_of(x, dim, "norm")
    if p == 0:
        return sum(as_numbers(ne(x, 0)), axes, keepdim)
    size = abs(x)
    # Neither 0 ** (p - 1) nor 0 ** (1 / p - 1) takes part in gradients.
    powers = where(eq(size, 0), 0.0, pow(where(eq(size, 0), 1.0, size), float(p)))
    total = sum(powers, axes, keepdim)
    none = eq(total, 0) if p > 0 else eq(amin(size, axes, keepdim), 0)
    return where(none, 0.0, pow(where(none, 1.0, total), 1 / float(p)))


@function
def var(input: TensorLike, dim: Any = None, *, correction: int = 1, keepdim: bool = False) -> Any:
    """The variance along ``dim``; the sum of squares is divided by the number of elements less ``correction``."""
    x = numbers(input, "var")
    axes = axes_of(x, dim, "var")
    squares = square(sub(x, mean(x, axes, True)))
    if not correction:
        return mean(squares, axes, keepdim)
    return div(sum(squares, axes, keepdim), _count(x, axes) - correction)


def _count(x: Tensor, axes: tuple[int, ...]) -> AnySize:
    """The number of elements along axes."""
    return product(x.shape[axis] for axis in axes)


@function
def std(input: TensorLike, dim: Any = None, *, correction: int = 1, keepdim: bool = False) -> Any:
    """The standard deviation along ``dim``; see :func:`var`. Its gradient is 0 where all elements are equal."""
    x = numbers(input, "std")
    axes = axes_of(x, dim, "std")
    count = _count(x, axes) - correction
    if isinstance(count, Size):
        root = sqrt(x.graph.size(count))
    else:
        root = math.sqrt(count) if count > 0 else 0.0
    return div(norm(sub(x, mean(x, axes, True)), 2, axes, keepdim), root)


@function
def normalize(input: TensorLike, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Any:
    """The input divided by its norm along ``dim``, or by ``eps`` if that is larger."""
    return div(input, clamp(norm(input, p, dim, True), min=eps))


@function
def cosine_similarity(x1: TensorLike, x2: TensorLike, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between two vectors along ``dim``, an axis of the shape that both are broadcast to."""
    a, b = numbers(x1, "cosine_similarity"), numbers(x2, "cosine_similarity")
    shape = broadcast(a.shape, b.shape)
    if shape is None:
        raise ValueError(f"cosine_similarity: {a.shape} and {b.shape} do not fit together. They must broadcast.")
    a, b = (x if is_same_shape(x.shape, shape) else expand(x, *shape) for x in (a, b))
    # Divided first, so that the gradient along a vector, which is 0, is not what rounding leaves of larger numbers.
    return sum(mul(*(div(x, clamp(norm(x, 2, dim, True), min=eps)) for x in (a, b))), dim)


@function
def pairwise_distance(x1: TensorLike, x2: TensorLike, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """The norm of ``x1 - x2 + eps`` along the last axis."""
    return norm(add(sub(x1, x2), eps), p, -1, keepdim)


@function
def any(input: TensorLike, dim: Any = None, keepdim: bool = False) -> Any:
    """1 where any element along ``dim`` is not 0; of all elements if left out."""
    return ne(amax(ne(input, 0), dim, keepdim), 0)


@function
def all(input: TensorLike, dim: Any = None, keepdim: bool = False) -> Any:
    """1 where no element along ``dim`` is 0; of all elements if left out."""
    return ne(amin(ne(input, 0), dim, keepdim), 0)


class Ordered(NamedTuple):
    """Elements in order along an axis, and their positions before."""

    values: Any
    indices: Any


@elementwise(infer=lambda shape, dim: shape, in_floats=_cumulative("cumsum", product=False))
def cumsum(input: Joined, dim: Axis) -> Any:
    """The sums of all elements up to each along ``dim``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.cumsum(np.float32([[1, 2, 3]]), dim=1).tolist()
    [[1.0, 3.0, 6.0]]
    """
    return np.cumsum(input, dim)


@elementwise(infer=lambda shape, dim: shape, in_floats=_cumulative("cumprod", product=True))
def cumprod(input: Joined, dim: Axis) -> Any:
    """The products of all elements up to each along ``dim``."""
    return np.cumprod(input, dim)


def _ordered(input: TensorLike, dim: int, descending: bool, who: str, count: Any = None) -> Ordered:
    x = value(input, who)
    operation = operations.Sort(x, axis_of(x, dim, who), descending=descending, count=count)
    x.graph.append(operation)
    return Ordered(*operation.outputs)


@function
def sort(input: TensorLike, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The elements along ``dim`` in order, with their former positions: (values, indices). Equal ones always keep their
    order.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> values, places = nn.functional.sort(np.float32([3, 1, 2]))
    >>> values.tolist(), places.tolist()
    ([1.0, 2.0, 3.0], [1, 2, 0])
    """
    return _ordered(input, dim, descending, "sort")


@function
def argsort(input: TensorLike, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The positions of the elements along ``dim`` in sorted order."""
    return _ordered(input, dim, descending, "argsort").indices


@function
def topk(input: TensorLike, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The ``k`` largest elements along ``dim``, or the smallest, with their positions: (values, indices), always in
    order."""
    x = value(input, "topk")
    size = x.shape[axis_of(x, dim, "topk")]
    if isinstance(k, bool) or not hasattr(k, "__index__") or isinstance(k, Tensor):
        raise TypeError(f"topk: k is {k!r}. Pass an integer.")
    if k < 1 or (not is_same(k, size) and k > size):
        raise ValueError(f"topk: k is {k}, but axis {dim} of {x.shape} has {size} elements. Choose from 1 to {size}.")
    return _ordered(x, dim, largest, "topk", k if isinstance(k, Size) else int(k))


@function
def trace(input: TensorLike) -> Any:
    """The sum of the diagonal of a matrix."""
    x = value(input, "trace")
    if x.ndim != 2:
        raise ValueError(f"trace: {x.shape} is not a matrix.")
    return sum(diagonal(x))
