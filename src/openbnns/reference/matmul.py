"""Broadcast matrix product: C = alpha op(A) op(B), added to the previous C when beta is 1.

op is the identity or the transpose of the last two axes. Operands are (N, ..., rows, columns) with the batch first. An
operand held as weights has a batch axis of 1, so "summed over the batch" and "summed over a broadcast axis" are the
same thing here. The axes between batch and matrix are matched from the back; a missing one or one of size 1 is repeated.
"""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from ..parameters.matmul import Product
from .activation import Array
from .arithmetic import sum_to_shape


@np.errstate(all="ignore")
def forward(a: Array, b: Array | None, p: Product, previous: Array | None = None) -> Array:
    """C = alpha op(A) op(B) + previous; previous is C before the call if beta is 1, and None if beta is 0.

    a (N, ..., m, k), or (N, ..., k, m) if transposed; b (N, ..., k, n) or (N, ..., n, k); C (N, ..., m, n). A product
    that is quadratic ignores b and multiplies op_a(A) by op_b(A).
    """
    left, right = _operands(a, b, p)
    c: Array = p.alpha * (_op(left, p.transpose_a) @ _op(right, p.transpose_b))
    return c if previous is None else previous + c


@np.errstate(all="ignore")
def backward(a: Array, b: Array | None, dc: Array, p: Product, wanted: Set[str]) -> dict[str, Array]:
    """The wanted gradients among {"da", "db"}, each in the shape of its operand.

        op(dA) = alpha dC op(B)^T     of C = alpha op(A) op(B)
        op(dB) = alpha op(A)^T dC
        dA = op(dA) transposed back, summed over the axes along which A was repeated; dB likewise

    A quadratic product has "da" only: the sum of both.
    """
    if p.quadratic and "db" in wanted:
        raise ValueError(
            "matmul.backward: a quadratic product has no operand B. Ask for da only; it is the sum of both."
        )
    left, right = _operands(a, b, p)
    gradients: dict[str, Array] = {}
    if "da" in wanted:
        gradients["da"] = _left_gradient(left, right, dc, p).reshape(a.shape)
        if p.quadratic:
            gradients["da"] += _right_gradient(left, right, dc, p).reshape(a.shape)
    if "db" in wanted and b is not None:
        gradients["db"] = _right_gradient(left, right, dc, p).reshape(b.shape)
    return gradients


def _left_gradient(left: Array, right: Array, dc: Array, p: Product) -> Array:
    gradient = _op(p.alpha * (dc @ _transposed(_op(right, p.transpose_b))), p.transpose_a)
    return sum_to_shape(gradient, gradient.shape, left.shape)


def _right_gradient(left: Array, right: Array, dc: Array, p: Product) -> Array:
    gradient = _op(p.alpha * (_transposed(_op(left, p.transpose_a)) @ dc), p.transpose_b)
    return sum_to_shape(gradient, gradient.shape, right.shape)


def _operands(a: Array, b: Array | None, p: Product) -> tuple[Array, Array]:
    """A and B with the same number of axes: the shorter one gets axes of size 1 behind its batch axis."""
    if p.quadratic:
        return a, a
    if b is None:
        raise ValueError("matmul: the product needs the operand B; got None. Pass B, or set quadratic.")
    rank = max(a.ndim, b.ndim)
    return _with_rank(a, rank), _with_rank(b, rank)


def _with_rank(x: Array, rank: int) -> Array:
    return x.reshape(x.shape[:1] + (1,) * (rank - x.ndim) + x.shape[1:])


def _op(x: Array, transpose: bool) -> Array:
    return _transposed(x) if transpose else x


def _transposed(x: Array) -> Array:
    swapped: Array = x.swapaxes(-1, -2)
    return swapped
