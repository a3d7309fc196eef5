"""Reverse-mode differentiation in float64 NumPy: what networks are compared with. Shares no code with ``openbnns``.

A :class:`Tensor` knows the tensors it was computed from, each with the function that takes its own gradient to theirs.
Methods have PyTorch's names and meaning, so that one text computes with tensors of either kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Source = tuple["Tensor", Callable[[Array], Array]]
Axes = int | Sequence[int] | None

_numbers = count()


class Tensor:
    """An array with a gradient. ``kink`` is the least distance to a point where anything on the way has no derivative."""

    __array_ufunc__ = None  # NumPy leaves operators to this class

    def __init__(self, data: Any, sources: Sequence[Source] = (), kink: float = np.inf) -> None:
        self.data: Array = np.asarray(data, np.float64)
        self.sources = list(sources)
        self.grad: Array | None = None
        self.number = next(_numbers)
        self.kink = min([kink, *(source.kink for source, _ in sources)])

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.data.shape
        return shape

    @property
    def ndim(self) -> int:
        return self.data.ndim

    def detach(self) -> Tensor:
        return Tensor(self.data, kink=self.kink)

    # Arithmetic.

    def __add__(self, other: Any) -> Tensor:
        b = tensor(other)
        return Tensor(self.data + b.data, [(self, _summed(self)), (b, _summed(b))])

    def __mul__(self, other: Any) -> Tensor:
        b = tensor(other)
        to_a, to_b = _summed(self), _summed(b)
        return Tensor(self.data * b.data, [(self, lambda dy: to_a(dy * b.data)), (b, lambda dy: to_b(dy * self.data))])

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Tensor:
        return self * -1.0

    def __sub__(self, other: Any) -> Tensor:
        return self + -tensor(other)

    def __rsub__(self, other: Any) -> Tensor:
        return tensor(other) + -self

    def __truediv__(self, other: Any) -> Tensor:
        return self * tensor(other) ** -1

    def __rtruediv__(self, other: Any) -> Tensor:
        return tensor(other) * self**-1

    def __pow__(self, exponent: float) -> Tensor:
        return elementwise(self, self.data**exponent, exponent * self.data ** (exponent - 1))

    def __matmul__(self, other: Any) -> Tensor:
        b = tensor(other)
        to_a, to_b = _summed(self), _summed(b)
        return Tensor(
            self.data @ b.data,
            [
                (self, lambda dy: to_a(dy @ np.swapaxes(b.data, -1, -2))),
                (b, lambda dy: to_b(np.swapaxes(self.data, -1, -2) @ dy)),
            ],
        )

    # Shapes.

    def reshape(self, *sizes: Any) -> Tensor:
        return Tensor(self.data.reshape(_plain(sizes)), [(self, lambda dy: dy.reshape(self.shape))])

    view = reshape

    def permute(self, *order: Any) -> Tensor:
        axes = _plain(order)
        return Tensor(self.data.transpose(axes), [(self, lambda dy: dy.transpose(np.argsort(axes)))])

    def transpose(self, first: int, second: int) -> Tensor:
        order = list(range(self.ndim))
        order[first], order[second] = order[second], order[first]
        return self.permute(order)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        last = end_dim % self.ndim
        return self.reshape(*self.shape[:start_dim], -1, *self.shape[last + 1 :])

    def unsqueeze(self, dim: int) -> Tensor:
        return self.reshape(np.expand_dims(self.data, dim).shape)

    def squeeze(self, dim: int) -> Tensor:
        return self.reshape(np.squeeze(self.data, dim).shape)

    def expand(self, *sizes: Any) -> Tensor:
        shape = [
            have if n == -1 else n
            for n, have in zip(_plain(sizes), (1,) * (len(_plain(sizes)) - self.ndim) + self.shape, strict=True)
        ]
        return Tensor(np.broadcast_to(self.data, shape), [(self, _summed(self))])

    def repeat(self, *times: int) -> Tensor:
        joined = self
        for axis, n in enumerate(times):
            joined = cat([joined] * n, axis)
        return joined

    def flip(self, *dims: int) -> Tensor:
        return Tensor(np.flip(self.data, dims), [(self, lambda dy: np.flip(dy, dims))])

    def roll(self, shifts: int, dims: int) -> Tensor:
        return Tensor(np.roll(self.data, shifts, dims), [(self, lambda dy: np.roll(dy, -shifts, dims))])

    def __getitem__(self, key: Any) -> Tensor:
        def scattered(dy: Array) -> Array:
            dx = np.zeros(self.shape)
            np.add.at(dx, key, dy)
            return dx

        return Tensor(self.data[key], [(self, scattered)])

    def index_select(self, dim: int, numbers: Any) -> Tensor:
        return self[(slice(None),) * (dim % self.ndim) + (np.asarray(numbers),)]

    def chunk(self, chunks: int, dim: int) -> list[Tensor]:
        size, axis = self.shape[dim] // chunks, dim % self.ndim
        return [self[(slice(None),) * axis + (slice(i * size, (i + 1) * size),)] for i in range(chunks)]

    def repeat_interleave(self, repeats: int, dim: int) -> Tensor:
        return self.index_select(dim, np.repeat(np.arange(self.shape[dim]), repeats))

    # Comparisons and order, whose results jump where elements are equal.

    def __gt__(self, other: Tensor) -> Tensor:
        return Tensor(self.data > other.data, kink=_least_distance(self.data, other.data))

    def sort(self, dim: int, descending: bool) -> tuple[Tensor, Array]:
        order = np.argsort(-self.data if descending else self.data, dim, kind="stable")
        return self._taken_along(dim, order), order

    def topk(self, k: int, dim: int) -> tuple[Tensor, Array]:
        order = np.argsort(-self.data, dim, kind="stable")
        return self._taken_along(dim, np.take(order, range(k), dim)), order

    def _taken_along(self, dim: int, order: Array) -> Tensor:
        index = tuple(order if i == dim else n for i, n in enumerate(np.ogrid[tuple(map(slice, order.shape))]))
        taken = self[index]
        gaps = np.diff(np.sort(self.data, dim), axis=dim)
        taken.kink = min([taken.kink, *gaps.ravel().tolist()])
        return taken

    def cumsum(self, dim: int) -> Tensor:
        return Tensor(self.data.cumsum(dim), [(self, lambda dy: np.flip(np.flip(dy, dim).cumsum(dim), dim))])

    # Reductions.

    def sum(self, dim: Axes = None, keepdim: bool = False) -> Tensor:
        axes = _axes(self, dim)
        kept = self.data.sum(axes, keepdims=True)
        result = kept if keepdim else np.squeeze(kept, axes)
        return Tensor(result, [(self, lambda dy: np.broadcast_to(dy.reshape(kept.shape), self.shape))])

    def mean(self, dim: Axes = None, keepdim: bool = False) -> Tensor:
        return self.sum(dim, keepdim) * (1 / np.prod([self.shape[axis] for axis in _axes(self, dim)]))

    def var(self, dim: Axes = None, correction: int = 1, keepdim: bool = False) -> Tensor:
        size = np.prod([self.shape[axis] for axis in _axes(self, dim)])
        return ((self - self.mean(dim, True)) ** 2).sum(dim, keepdim) * (1 / (size - correction))

    def amax(self, dim: Axes = None, keepdim: bool = False) -> Tensor:
        """Elements that are equally large share the gradient."""
        axes = _axes(self, dim)
        kept = self.data.max(axes, keepdims=True)
        largest = self.data == kept
        slopes = largest / largest.sum(axes, keepdims=True)
        rest = np.where(largest, -np.inf, self.data).max(axes, keepdims=True)
        result = kept if keepdim else np.squeeze(kept, axes)
        return Tensor(result, [(self, lambda dy: dy.reshape(kept.shape) * slopes)], float((kept - rest).min()))

    def amin(self, dim: Axes = None, keepdim: bool = False) -> Tensor:
        return -(-self).amax(dim, keepdim)

    # Differentiation.

    def backward(self, gradient: Any = 1.0) -> None:
        """Set ``grad`` of everything that this was computed from."""
        sources, waiting = {self.number: self}, [self]
        while waiting:
            for source, _ in waiting.pop().sources:
                if source.number not in sources:
                    sources[source.number] = source
                    waiting.append(source)
        for one in sources.values():
            one.grad = None
        self.grad = np.broadcast_to(np.asarray(gradient, np.float64), self.shape)
        for number in sorted(sources, reverse=True):
            dy = sources[number].grad
            assert dy is not None
            for source, go_back in sources[number].sources:
                dx = go_back(dy)
                assert dx.shape == source.shape
                source.grad = dx if source.grad is None else source.grad + dx


def _least_distance(a: Array, b: Array) -> float:
    return float(np.abs(a - b).min()) if a.size else np.inf


def tensor(value: Any) -> Tensor:
    """A tensor as it is, or numbers as one."""
    return value if isinstance(value, Tensor) else Tensor(value)


def elementwise(x: Tensor, y: Array, slope: Array, kink: float = np.inf) -> Tensor:
    """A function of every element by itself, from its values and derivatives."""
    return Tensor(y, [(x, lambda dy: dy * slope)], kink)


def cat(parts: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors side by side."""
    sources: list[Source] = []
    begin = 0
    for part in parts:
        end = begin + part.shape[dim]
        sources.append((part, lambda dy, part=part, begin=begin, end=end: np.take(dy, range(begin, end), dim)))  # type: ignore[misc]
        begin = end
    return Tensor(np.concatenate([part.data for part in parts], dim), sources)


def placed(x: Tensor, shape: Sequence[int], key: Any, value: float = 0.0) -> Tensor:
    """An array of this shape that holds the tensor at ``key``, and ``value`` elsewhere."""
    result = np.full(shape, value)
    result[key] = x.data
    return Tensor(result, [(x, lambda dy: dy[key])])


def _summed(x: Tensor) -> Callable[[Array], Array]:
    """Sum a gradient over the copies that broadcasting has made of a tensor."""

    def summed(dy: Array) -> Array:
        dx = dy.sum(tuple(range(dy.ndim - x.ndim)))
        axes = tuple(axis for axis, n in enumerate(x.shape) if n == 1 and dx.shape[axis] != 1)
        result: Array = dx.sum(axes, keepdims=True)
        return result

    return summed


def _axes(x: Tensor, dim: Axes) -> tuple[int, ...]:
    given = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    return tuple(axis % x.ndim for axis in given)


def _plain(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
