"""Sums of long vectors in the order of a tree, by native code where there is any; the bits are the same without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import engines
from ..graph.tensor import Array

BLOCK = 1024
"""Elements whose squares are summed as one; chunks of ranks begin and end with a block."""

PIECE = 1 << 16
"""Elements of a vector, of which a core's cache holds those of several ranks."""


def sum_in_tree(out: Array, parts: Sequence[Array], joins: Sequence[int]) -> None:
    """``out`` = the sum of all parts, in the order that ``shards.joins`` gives; ``out`` may be one of the parts.

    Parts are float32, or bfloat16 as uint16; ``out`` is float32. All have one axis and are contiguous.

    >>> a, b, c = (np.full(3, x, np.float32) for x in (1e8, -1e8, 1))
    >>> out = np.empty(3, np.float32)
    >>> sum_in_tree(out, [a, b, c], [0, 1, 1])  # (a + b) + c
    >>> out.tolist()
    [1.0, 1.0, 1.0]
    >>> sum_in_tree(out, [a, b, c], [0, 0, 2])  # a + (b + c)
    >>> out.tolist()
    [0.0, 0.0, 0.0]
    """
    if engines._core is not None:
        engines._core.sum_in_tree(out, list(parts), list(joins))
        return
    stack: list[Array] = []
    for part, count in zip(parts, joins, strict=True):
        stack.append(widened(part) if part.dtype == np.uint16 else part)
        for _ in range(count):
            right = stack.pop()
            stack[-1] = stack[-1] + right
    (out[...],) = stack


def sum_into_all(targets: Sequence[Array], parts: Sequence[Array], joins: Sequence[int]) -> None:
    """The same sum in each of several vectors, which may be parts; piece by piece, so that all but the first come from the cache.

    >>> a, b = np.float32([1, 2]), np.float32([10, 20])
    >>> sum_into_all([a, b], [a, b], [0, 1])
    >>> a.tolist(), b.tolist()
    ([11.0, 22.0], [11.0, 22.0])
    """
    for start in range(0, len(targets[0]), PIECE):
        piece = slice(start, start + PIECE)
        first, *others = (target[piece] for target in targets)
        sum_in_tree(first, [part[piece] for part in parts], joins)
        for other in others:
            sum_in_tree(other, [first], [0])


def widened(x: Array) -> Array:
    """bfloat16, as uint16, in float32."""
    return (x.astype(np.uint32) << 16).view(np.float32)


def narrow(x: Array, out: Array) -> None:
    """float32 to bfloat16, as uint16, rounded to the nearest, ties to even; NaN stays NaN.

    >>> out = np.empty(3, np.uint16)
    >>> narrow(np.float32([1, 1 + 2**-8, np.nan]), out)
    >>> widened(out).tolist()
    [1.0, 1.0, nan]
    """
    if engines._core is not None:
        engines._core.narrow(x, out)
        return
    bits = x.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16
    np.copyto(out, np.where(np.isnan(x), (bits >> 16) | np.uint32(0x40), rounded), casting="unsafe")


def widen(x: Array, out: Array) -> None:
    """bfloat16, as uint16, to float32."""
    sum_in_tree(out, [x], [0])


def block_squares(x: Array) -> Array:
    """The sums of the squares of every ``BLOCK`` elements, in double precision; the last block may be shorter.

    >>> block_squares(np.full(BLOCK + 2, 2, np.float32)).tolist()
    [4096.0, 8.0]
    """
    sums = np.empty(-(-len(x) // BLOCK))
    if engines._core is not None:
        engines._core.block_squares(x, sums, BLOCK)
        return sums
    for i in range(len(sums)):
        piece: Any = x[i * BLOCK : (i + 1) * BLOCK].astype(np.float64)
        sums[i] = piece @ piece
    return sums
