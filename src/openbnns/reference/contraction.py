"""Tensor contraction: out[letters of out] = alpha * sum over the other letters of the product of the operands.

:mod:`openbnns.parameters.contraction` defines expressions. Arrays are (N, axes...) with the batch first, which the
expression does not name; a parameter has a batch axis of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..parameters.contraction import Axes, Expression
from .activation import Array
from .arithmetic import sum_to_shape

# ---------------------------------------------------------------------------------------------------------------------
# The public functions


@np.errstate(all="ignore")
def forward(
    e: Expression,
    operands: Sequence[Array],
    alpha: float = 1.0,
    previous: Array | None = None,
    out_shape: tuple[int, ...] | None = None,
) -> Array:
    """out = alpha * sum over the letters absent from the output of the product of the operands, plus previous.

    One array for each of `e.tensors`. previous is the output before the call if beta is 1, and None if beta is 0.
    out_shape need only be given if the output repeats an axis that has size 1 in every operand.
    """
    if out_shape is None and previous is not None:
        out_shape = previous.shape
    axes = Axes(e, [operand.shape for operand in operands], out_shape)
    out = alpha * _sum_of_products(axes, _on_the_left(e, operands), axes.left, axes.output)
    return out if previous is None else previous + out


@np.errstate(all="ignore")
def backward(
    e: Expression, operands: Sequence[Array], dy: Array, wanted: Sequence[bool], alpha: float = 1.0
) -> list[Array | None]:
    """For each of `e.tensors` its gradient, in its shape, or None if it is not wanted.

        out = alpha * sum a * b
        da  = alpha * sum over the letters absent from a of dy * b

    A letter that only a has stands for equal summands: the gradient is repeated along it. The gradient of a repeated
    axis is summed, that of a diagonal lies on the diagonal, and a self contraction adds the gradients of both places.
    """
    axes = Axes(e, [operand.shape for operand in operands], dy.shape)
    arrays = _on_the_left(e, operands)
    if not e.is_self_contraction:
        return [alpha * _gradient(axes, arrays, dy, k) if wanted[k] else None for k in range(len(arrays))]
    return [alpha * (_gradient(axes, arrays, dy, 0) + _gradient(axes, arrays, dy, 1)) if wanted[0] else None]


# ---------------------------------------------------------------------------------------------------------------------
# The sums


def _on_the_left(e: Expression, operands: Sequence[Array]) -> list[Array]:
    return [operands[0], operands[0]] if e.is_self_contraction else list(operands)


def _gradient(axes: Axes, arrays: list[Array], dy: Array, k: int) -> Array:
    """sum of dy times the other operand, over the axes that operand k lacks, brought back to the shape of operand k."""
    numbers = axes.left[k]
    factors, factor_numbers = [dy], [axes.output]
    if len(arrays) == 2:
        factors.append(arrays[1 - k])
        factor_numbers.append(axes.left[1 - k])
    distinct = list(dict.fromkeys(numbers))
    gradient = _onto_diagonal(axes, _sum_of_products(axes, factors, factor_numbers, distinct), distinct, numbers)
    return sum_to_shape(gradient, gradient.shape, arrays[k].shape)


def _sum_of_products(axes: Axes, arrays: list[Array], numbers: list[list[int]], result: list[int]) -> Array:
    """The product of the arrays summed over all axes but those in `result`; an axis that only `result` has is repeated."""
    arguments: list[Any] = []
    for array, array_numbers in zip(arrays, numbers, strict=True):
        arguments += [np.broadcast_to(array, [axes.sizes[number] for number in array_numbers]), array_numbers]
    repeated = [number for number in result if not any(number in array_numbers for array_numbers in numbers)]
    arguments += [np.ones([axes.sizes[number] for number in repeated]), repeated]
    return np.asarray(np.einsum(*arguments, result, optimize=True))


def _onto_diagonal(axes: Axes, gradient: Array, distinct: list[int], numbers: list[int]) -> Array:
    """The adjoint of reading a diagonal: zeros but where all axes of one letter have the same index."""
    if len(distinct) == len(numbers):
        return gradient
    full = np.zeros([axes.sizes[number] for number in numbers])
    arguments: list[Any] = [full, numbers, distinct]
    diagonal: Array = np.einsum(*arguments)  # a view
    diagonal[...] = gradient
    return full
