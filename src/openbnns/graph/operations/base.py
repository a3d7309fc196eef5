"""The base of operations whose layer sees whole tensors, and the arguments that layers share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from ... import Shape
from ...capi import BNNSFilterParameters, BNNSFlagsUseClientPtr
from ...layers import skip
from ..operation import Operation
from ..tensor import Array

IN_PLACE = BNNSFilterParameters(flags=BNNSFlagsUseClientPtr)
"""Flags of layers that read parameters in place, where training changes them."""


def wanted(gradient: Array | None) -> Any:
    """A gradient argument of a layer: the array to write, or ``skip``."""
    return skip if gradient is None else gradient


def summed(gradient: Array, shape: Sequence[int]) -> Array:
    """The gradient of an operand of this shape, from that of its copies in a broadcast result."""
    extra = gradient.ndim - len(shape)
    repeated = [extra + axis for axis, n in enumerate(shape) if n == 1 and gradient.shape[extra + axis] != 1]
    total: Array = gradient.sum(axis=(*range(extra), *repeated))
    return total.reshape(shape)


Sizes = tuple[int, ...]


class ShapedOperation(Operation):
    """An operation whose layer sees the arrays of a program as one sample."""

    def layer(self, x: Sequence[Array], y: Array) -> Any:
        """The layer for arrays of these shapes, kept for the latest ones."""
        shapes = [array.shape for array in x]
        return self.made((*shapes, y.shape), lambda: self.make(shapes, y.shape))

    @abstractmethod
    def make(self, x: list[Sizes], y: Sizes) -> Any:
        """The layer from arrays of these shapes to one of that shape."""


def shape(sizes: Sequence[int]) -> Shape:
    """The shape of an array in C order; a single number is a vector of one."""
    return Shape(tuple(sizes) or (1,))


def merged_axes(shapes: Sequence[Sizes], whole: Sizes) -> list[Sizes]:
    """The shapes and that of their broadcast result with as few axes as possible, in order, the result last.

    Neighbouring axes become one where every operand has both or repeats both.

    >>> from openbnns.graph.operations.base import merged_axes
    >>> merged_axes([(8, 3, 4, 5), (3, 1, 1)], (8, 3, 4, 5))
    [(8, 3, 20), (1, 3, 1), (8, 3, 20)]
    """
    padded = [(1,) * (len(whole) - len(s)) + tuple(s) for s in shapes]
    groups: list[tuple[tuple[bool, ...], int]] = []
    for axis, size in enumerate(whole):
        if size == 1:
            continue
        pattern = tuple(s[axis] != 1 for s in padded)
        if groups and groups[-1][0] == pattern:
            groups[-1] = (pattern, groups[-1][1] * size)
        else:
            groups.append((pattern, size))
    results = [tuple(size if pattern[i] else 1 for pattern, size in groups) or (1,) for i in range(len(shapes))]
    return [*results, tuple(size for _, size in groups) or (1,)]
