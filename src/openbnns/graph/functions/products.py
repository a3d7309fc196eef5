"""Matrix products, contractions, cross products and distances."""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from ..._plural import plural
from .. import operations
from ..declared import Declaration, are_integers, declare
from ..parameter import Parameter
from ..sizes import AnySize, Shape, broadcast, is_same
from ..tensor import Tensor
from .base import TensorLike, axis_of, function, joined, numbers, parameter_or, value, with_shape
from .elementwise import add, mul, sub
from .indexing import index_select
from .reductions import norm
from .shapes import transpose, unsqueeze

__all__ = ["bmm", "cdist", "cross", "einsum", "linear", "matmul", "outer"]


@function
def matmul(input: TensorLike, other: TensorLike) -> Any:
    """The matrix product over the last two axes, as ``input @ other``; axes in front of them are broadcast.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.matmul(np.ones((2, 3, 4), np.float32), np.ones((4, 5), np.float32)).shape
    (2, 3, 5)
    """
    a, b = joined([value(input, "matmul"), value(other, "matmul")], "matmul")
    return product(a, b)


def _shape_of_product(a: Shape, b: Shape) -> Any:
    leading = broadcast(a[:-2], b[:-2])
    if min(len(a), len(b)) < 2 or leading is None or not is_same(a[-1], b[-2]):
        raise ValueError(f"matmul: {a} and {b} do not fit.")
    return (*leading, a[-2], b[-1])


declare(Declaration("matmul", ("Integers", "Integers"), np.matmul, infer=_shape_of_product))


def product(a: Tensor, b: Tensor, alpha: float = 1.0) -> Tensor:
    """``alpha a @ b``; where an operand is another one transposed, that is read as it lies."""
    if min(a.ndim, b.ndim) < 1:
        raise ValueError(f"matmul: {a.shape} and {b.shape} must both have at least one axis.")
    if a.ndim == 1 or b.ndim == 1:
        return _vector_product(a, b, alpha)
    (a, a_swapped), (b, b_swapped) = _untransposed(a), _untransposed(b)
    rows, inner = a.shape[-2:][::-1] if a_swapped else a.shape[-2:]
    other, columns = b.shape[-2:][::-1] if b_swapped else b.shape[-2:]
    if inner != other:
        raise ValueError(
            f"matmul: {_named(a, a_swapped)} and {_named(b, b_swapped)} do not fit: the columns of the first must be as many as "
            "the rows of the second."
        )
    leading = broadcast(a.shape[:-2], b.shape[:-2])
    if leading is None:
        raise ValueError(
            f"matmul: the axes in front of the matrices of {_named(a, a_swapped)} and {_named(b, b_swapped)} do not fit "
            "together. They are matched from the last one, where sizes are equal or 1."
        )
    if a.dtype.kind == "i":
        a, b = (transpose(x, -1, -2) if swapped else x for x, swapped in ((a, a_swapped), (b, b_swapped)))
        return a.graph.append(operations.Node("matmul", [a, b]))
    output = Tensor(a.graph, (*leading, rows, columns))
    return a.graph.append(operations.MatrixProduct(a, b, output, (a_swapped, b_swapped), alpha))


def _vector_product(a: Tensor, b: Tensor, alpha: float) -> Tensor:
    """A vector is a matrix of one row on the left, of one column on the right."""
    left = a.reshape((1, *a.shape)) if a.ndim == 1 else a
    right = b.reshape((*b.shape, 1)) if b.ndim == 1 else b
    result = product(left, right, alpha)
    *leading, rows, columns = result.shape
    kept = [*leading, *([] if a.ndim == 1 else [rows]), *([] if b.ndim == 1 else [columns])]
    return Tensor(result.graph, kept, source=result)


def _untransposed(value: Tensor) -> tuple[Tensor, bool]:
    """The input of a transpose and True, or the value itself and False if it is not a transpose."""
    producer = value.producer
    if isinstance(producer, operations.Permute) and producer.swaps_last_two:
        return producer.inputs[0], True
    return value, False


def _named(value: Tensor, swapped: bool) -> str:
    return f"{value.shape} transposed" if swapped else str(value.shape)


@function
def bmm(input: TensorLike, mat2: TensorLike) -> Any:
    """The products of matrices, one per sample."""
    return matmul(input, mat2)


@function
def linear(input: TensorLike, weight: TensorLike, bias: TensorLike = None) -> Any:
    """``input @ weight.T + bias``; a weight that is used elsewhere as well is trained by both uses."""
    x = value(input, "linear")
    weight, bias = parameter_or(weight), parameter_or(bias)
    if len(weight.shape) == 1:  # that of one output, which has no axis
        y = matmul(x, weight)
        return y if bias is None else add(y, bias)
    x = x if are_integers([x, weight]) else numbers(x, "linear")
    if isinstance(weight, Parameter) and (bias is None or isinstance(bias, Parameter)):
        graph = x.graph
        outputs, inputs = graph.parameter(weight).shape
        if x.ndim < 1 or x.shape[-1] != inputs:
            raise ValueError(f"linear: the last axis of {x.shape} must be as long as that of weight {weight.shape}.")
        if bias is not None and graph.parameter(bias).shape != (outputs,):
            raise ValueError(f"linear: bias has shape {bias.shape}, but {(outputs,)} is needed.")
        return graph.append(operations.Linear(graph, x, weight, bias))
    y = matmul(x, transpose(weight, -1, -2))
    return y if bias is None else add(y, bias)


@function
def einsum(equation: str, *operands: TensorLike) -> Any:
    """Sums of products over named axes: ``einsum("nid,njd->nij", a, b)``; ``...`` stands for all further axes.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> a = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    >>> nn.functional.einsum("nij,nkj->nik", a, a)[0].tolist()
    [[5.0, 14.0], [14.0, 50.0]]
    """
    given = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else list(operands)
    values = joined([value(x, "einsum") for x in given], "einsum")
    letters, result = _letters(equation, values)
    while len(values) > 2:
        kept = "".join(dict.fromkeys(c for c in letters[0] + letters[1] if c in result + "".join(letters[2:])))
        values[:2] = [_contracted(values[:2], letters[:2], kept, equation)]
        letters[:2] = [kept]
    return _contracted(values, letters, result, equation)


def _letters(equation: str, values: list[Tensor]) -> tuple[list[str], str]:
    """The letters of every operand and of the result, without dots."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    used = set(left + right) - set(",.")
    if len(parts) != len(values) or not values or not used <= set(string.ascii_letters):
        raise ValueError(
            f"einsum: {equation!r} does not name {plural(len(values), 'operand')} by letters. "
            "Write one group of letters for each."
        )
    spare = [c for c in string.ascii_letters if c not in used]
    most = 0
    groups = []
    for part, x in zip(parts, values, strict=True):
        named = len(part.replace("...", ""))
        missing = x.ndim - named
        if missing < 0 or (missing and "..." not in part) or len(set(part.replace("...", ""))) != named:
            raise ValueError(
                f"einsum: {part!r} of {equation!r} does not name the {x.ndim} axes of {x.shape}, each once."
            )
        most = max(most, missing if "..." in part else 0)
        groups.append(part.replace("...", "".join(spare[:missing][::-1])))
    dots = "".join(spare[:most][::-1])
    if not arrow:
        once = [c for c in sorted(used) if left.count(c) == 1]
        return groups, dots + "".join(once)
    return groups, right.replace("...", dots)


def _contracted(values: list[Tensor], letters: list[str], result: str, equation: str) -> Tensor:
    sizes: dict[str, AnySize] = {}
    for part, x in zip(letters, values, strict=True):
        for letter, size in zip(part, x.shape, strict=True):
            known = sizes.setdefault(letter, size)
            common = broadcast([known], [size])
            if common is None:
                raise ValueError(f"einsum: {equation!r} has axes of different sizes under the letter {letter!r}.")
            (sizes[letter],) = common
    # A free size that is 1 in this recording, beside one that is not, is repeated like the number 1.
    values = [
        with_shape(x, [n if is_same(n, sizes[c]) or n == sizes[c] else 1 for c, n in zip(part, x.shape, strict=True)])
        for part, x in zip(letters, values, strict=True)
    ]
    if any(c not in sizes for c in result) or len(set(result)) != len(result):
        raise ValueError(f"einsum: the result of {equation!r} must name axes of the operands, each once.")
    if not result:  # the layer has no result without axes
        spare = next(c for c in string.ascii_letters if c not in sizes)
        first = values[0].reshape((1, *values[0].shape))
        return _contracted([first, *values[1:]], [spare + letters[0], *letters[1:]], spare, equation).reshape(())
    shape = [sizes[c] for c in result]
    names = _lower("".join(letters) + result)
    return values[0].graph.append(
        operations.Contraction(values, [part.translate(names) for part in letters], result.translate(names), shape)
    )


def _lower(letters: str) -> dict[int, int]:
    """Other letters for these: the layer knows small ones."""
    distinct = list(dict.fromkeys(letters))
    return {ord(old): ord(new) for old, new in zip(distinct, string.ascii_lowercase, strict=False)}


@function
def outer(input: TensorLike, vec2: TensorLike) -> Any:
    """All products of an element of the last axis of one with one of the other."""
    a, b = value(input, "outer"), value(vec2, "outer")
    return mul(unsqueeze(a, -1), unsqueeze(b, -2))


@function
def cross(input: TensorLike, other: TensorLike, dim: int | None = None) -> Any:
    """The cross product of vectors of three along ``dim``, the first axis of size 3 if left out."""
    a, b = value(input, "cross"), value(other, "cross")
    axis = next((i for i, n in enumerate(a.shape) if is_same(n, 3)), None) if dim is None else axis_of(a, dim, "cross")
    if axis is None or a.ndim != b.ndim or a.shape[axis] != 3 or b.shape[axis] != 3:
        raise ValueError(
            f"cross: {a.shape} and {b.shape} have no axis {'' if dim is None else dim} of size 3 in common."
        )
    (a1, a2), (b1, b2) = ([index_select(v, axis, order) for order in ([1, 2, 0], [2, 0, 1])] for v in (a, b))
    return sub(mul(a1, b2), mul(a2, b1))


@function
def cdist(x1: TensorLike, x2: TensorLike, p: float = 2.0) -> Any:
    """The p-norm of the difference of each row of one with each row of the other: (..., P, M), (..., R, M) -> (..., P, R)."""
    a, b = numbers(x1, "cdist"), numbers(x2, "cdist")
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        raise ValueError(f"cdist: {a.shape} and {b.shape} must be matrices with rows of one length.")
    return norm(sub(unsqueeze(a, -2), unsqueeze(b, -3)), p, -1)
