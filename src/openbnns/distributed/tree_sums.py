"""Sums of long vectors in the order of a tree, by native code where there is any; the bits are the same without."""

from __future__ import annotations

from collections.abc import Sequence

from .. import engines
from ..graph.tensor import Array


def sum_in_tree(out: Array, parts: Sequence[Array], joins: Sequence[int]) -> None:
    """``out`` = the sum of all parts, in the order that ``shards.joins`` gives; ``out`` may be one of the parts.

    All are contiguous vectors of float32.

    >>> import numpy as np
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
    out[...] = sum_of_rows(parts, joins)


def sum_of_rows(rows: Sequence[Array] | Array, joins: Sequence[int]) -> Array:
    """The sum of arrays of any type in the order of a tree, computed by NumPy.

    >>> import numpy as np
    >>> sum_of_rows(np.array([[1.0, 2.0], [10.0, 20.0]]), [0, 1]).tolist()
    [11.0, 22.0]
    """
    stack: list[Array] = []
    for row, count in zip(rows, joins, strict=True):
        stack.append(row)
        for _ in range(count):
            right = stack.pop()
            stack[-1] = stack[-1] + right
    (total,) = stack
    return total
