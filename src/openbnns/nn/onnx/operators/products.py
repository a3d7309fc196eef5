"""Matrix products and contractions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import functional as F
from ..._value import Value
from ...converted.sizes import batch_axis
from ...converted.tensors import Misfit
from ...parameter import Parameter
from .. import _numpy
from .._call import Call
from .._tensor import Tensor, broadcast_shape
from ._registry import OPERATORS, operator

PRODUCTS = "products"


@operator(PRODUCTS, "MatMul")
def matmul(call: Call, a: Tensor, b: Tensor) -> Tensor:
    if not a.rank or not b.rank:
        raise Misfit("a single number is no matrix")
    left = (1, *a.shape) if a.rank == 1 else a.shape
    right = (*b.shape, 1) if b.rank == 1 else b.shape
    if left[-1] != right[-2]:
        raise Misfit(
            f"{a.shape} and {b.shape} do not fit: the columns of the first must be as many as the rows of the second"
        )
    front = broadcast_shape([left[:-2], right[:-2]])
    whole = (*front, left[-2], right[-1])
    shape = (*front, *(() if a.rank == 1 else left[-2:-1]), *(() if b.rank == 1 else right[-1:]))
    if a.batch is not None and b.batch is None and a.batch == a.rank - 2 and b.rank <= 2 and a.rank >= 2:
        return _shaped(F.matmul(_batch_last_row(a), b.numbers), shape)
    if any(x.batch is not None and x.batch >= x.rank - 2 and x.rank > 1 for x in (a, b)) or any(
        x.batch is not None and x.rank == 1 for x in (a, b)
    ):
        raise Misfit(f"a product of {a.shape} and {b.shape} mixes the samples of a batch")
    return _shaped(F.matmul(_stacked(a, left, whole), _stacked(b, right, whole)), shape)


def _batch_last_row(a: Tensor) -> Value:
    """(..., N, K), whose rows are samples: the batch is in front here, so that rows of all others follow it."""
    return a.numbers


def _stacked(x: Tensor, matrix: tuple[Any, ...], whole: tuple[Any, ...]) -> Value:
    """An operand with as many axes in front of its matrices as the result has."""
    value = x.numbers
    rest = [n for n in matrix if not hasattr(n, "rows")]
    first = value.shape[: int(bool(value.rows))]
    if tuple(rest) != value.sample:
        value = value.reshape((*first, *rest))
    return Tensor(value, matrix).aligned((*whole[:-2], *matrix[-2:]))


def _shaped(value: Value, shape: tuple[Any, ...]) -> Tensor:
    rest = tuple(n for n in shape if not hasattr(n, "rows"))
    if value.sample != rest:
        value = value.reshape((*value.shape[: int(bool(value.rows))], *rest))
    return Tensor(value, shape)


@operator(PRODUCTS, "Gemm")
def gemm(call: Call, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    alpha, beta = call.number("alpha", 1.0), call.number("beta", 1.0)
    turn_a, turn_b = call.integer("transA", 0), call.integer("transB", 0)
    if a.rank != 2 or b.rank != 2:
        raise Misfit(f"{a.shape} and {b.shape} are not two matrices")
    rows, inner = a.shape[::-1] if turn_a else a.shape
    other, columns = b.shape[::-1] if turn_b else b.shape
    if inner != other:
        raise Misfit(
            f"{a.shape} and {b.shape} do not fit: the columns of the first must be as many as the rows of the second"
        )
    shape = (rows, columns)
    if b.batch is not None or (a.batch is not None and turn_a == a.batch + 1) or batch_axis(shape) == 1:
        raise Misfit(f"a product of {a.shape} and {b.shape} mixes the samples of a batch")
    plain = alpha == 1 and turn_b and not turn_a and isinstance(b.held, Parameter)
    if plain and (c is None or (isinstance(c.held, Parameter) and c.shape == (columns,) and beta == 1)):
        return Tensor(F.linear(a.numbers, b.held, None if c is None else c.held), shape)
    left = a.numbers if not turn_a or a.batch is not None else F.transpose(a.numbers, -1, -2)
    right = F.transpose(b.numbers, -1, -2) if turn_b else b.numbers
    product = F.matmul(left, right)
    product = product if alpha == 1 else F.mul(product, alpha)
    if c is not None:
        if broadcast_shape([c.shape, shape]) != shape:
            raise Misfit(f"{c.shape} cannot be added to {shape}")
        added = c.aligned(shape)
        product = F.add(product, added if beta == 1 else F.mul(added, beta))
    return Tensor(product, shape)


def linear(call: Call, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A product with a transposed weight and the sum behind it, which are one layer here."""
    if x.rank < 2 or x.batch == x.rank - 1 or x.shape[-1] != weight.shape[1] or bias.shape != weight.shape[:1]:
        raise Misfit(f"{x.shape}, a weight {weight.shape} and a bias {bias.shape} do not fit")
    return Tensor(F.linear(x.numbers, weight.held, bias.held), (*x.shape[:-1], weight.shape[0]))


LINEAR = "MatMul and Add"
OPERATORS[LINEAR] = linear  # which no file has under this name


@operator(PRODUCTS, "Einsum")
def einsum(call: Call, *given: Tensor) -> Tensor:
    equation = call.text("equation", "").replace(" ", "")
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if len(parts) != len(given):
        raise Misfit(f"{equation!r} does not name {len(given)} operands")
    spare = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation]
    dots = max((x.rank - len(part.replace("...", "")) for part, x in zip(parts, given, strict=True)), default=0)
    if dots < 0 or dots > len(spare):
        raise Misfit(f"{equation!r} names more axes than there are")
    names = "".join(spare[:dots])
    spelled = []
    for part, x in zip(parts, given, strict=True):
        missing = x.rank - len(part.replace("...", ""))
        if missing and "..." not in part:
            raise Misfit(f"{part!r} does not name the axes of {x.shape}")
        spelled.append(part.replace("...", names[dots - missing :] if missing else ""))
    if not arrow:
        letters = "".join(spelled)
        right = "..." + "".join(sorted(c for c in set(letters) - set(names) if letters.count(c) == 1))
    result = right.replace("...", names)
    diagonals = [_diagonal(x, part) for x, part in zip(given, spelled, strict=True)]
    operands, spelled = [x for x, _ in diagonals], [part for _, part in diagonals]
    sizes: dict[str, Any] = {}
    for part, x in zip(spelled, operands, strict=True):
        for letter, n in zip(part, x.shape, strict=True):
            if sizes.setdefault(letter, n) == 1:
                sizes[letter] = n
    if any(c not in sizes for c in result):
        raise Misfit(f"the result of {equation!r} names axes that no operand has")
    shape = tuple(sizes[c] for c in result)
    samples = any(x.sampled for x in operands)
    extra = spare[dots] if samples else ""
    moved = [
        (extra if x.sampled else "") + _batch_first(part, x.batch) for part, x in zip(spelled, operands, strict=True)
    ]
    whole = extra + _batch_first(result, batch_axis(shape))
    return Tensor(F.einsum(f"{','.join(moved)}->{whole}", *(x.batched for x in operands)), shape)


def _diagonal(x: Tensor, letters: str) -> tuple[Tensor, str]:
    """An operand that names axes several times: its diagonal along them."""
    for second, letter in enumerate(letters):
        first, n = letters.index(letter), x.shape[second]
        if first == second:
            continue
        if x.shape[first] != n or x.batch in (first, second):
            raise Misfit(f"there is no diagonal along axes {first} and {second} of {x.shape}")
        _numpy.limited((n, n))
        here = np.eye(n, dtype=np.float32).reshape([n if i in (first, second) else 1 for i in range(x.rank)])
        kept = F.where(Tensor(here).aligned(x.shape), x.numbers, 0.0)
        rest = (*x.shape[:second], *x.shape[second + 1 :])
        y = Tensor(F.sum(kept, [x.axis(second)], False), rest)
        return _diagonal(y, letters[:second] + letters[second + 1 :])
    return x, letters


def _batch_first(letters: str, batch: int | None) -> str:
    return letters if batch is None else letters[batch] + letters[:batch] + letters[batch + 1 :]
