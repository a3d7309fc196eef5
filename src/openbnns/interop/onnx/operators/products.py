"""Matrix products and contractions."""

from __future__ import annotations

import numpy as np

from ....graph import functions as F
from ....graph.sizes import is_same_shape
from ....graph.tensor import Array
from ...converted.tensors import ForeignTensor, Misfit, optional_numbers
from .._call import Call
from .._numpy import limited
from .._operator import operator
from ..tensor import broadcast_shape

PRODUCTS = "products"


def _product(call: Call, a: Array, b: Array) -> Array:
    limited(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + a.shape[-2:-1] + b.shape[-1:])
    product: Array = np.matmul(a, b)
    return product


@operator(PRODUCTS, "MatMul", compute=_product)
def matmul(call: Call, a: ForeignTensor, b: ForeignTensor) -> ForeignTensor:
    return ForeignTensor(F.matmul(a.numbers, b.numbers))


@operator(PRODUCTS, "Gemm", ignores=("broadcast",))
def gemm(call: Call, a: ForeignTensor, b: ForeignTensor, c: ForeignTensor | None = None) -> ForeignTensor:
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
    if alpha == 1 and turn_b and not turn_a and (c is None or (c.shape == (columns,) and beta == 1)):
        return ForeignTensor(F.linear(a.numbers, b.numbers, optional_numbers(c)))
    left = F.transpose(a.numbers, -1, -2) if turn_a else a.numbers
    right = F.transpose(b.numbers, -1, -2) if turn_b else b.numbers
    product = F.matmul(left, right)
    product = product if alpha == 1 else F.mul(product, alpha)
    if c is not None:
        if not is_same_shape(broadcast_shape([c.shape, (rows, columns)]), (rows, columns)):
            raise Misfit(f"{c.shape} cannot be added to {(rows, columns)}")
        product = F.add(product, c.numbers if beta == 1 else F.mul(c.numbers, beta))
    return ForeignTensor(product)


LINEAR = "MatMul and Add"


@operator("", LINEAR)  # which no file has under this name
def linear(call: Call, x: ForeignTensor, weight: ForeignTensor, bias: ForeignTensor) -> ForeignTensor:
    """A product with a transposed weight and the sum behind it, which are one layer here."""
    if x.rank < 1 or x.shape[-1] != weight.shape[1] or bias.shape != weight.shape[:1]:
        raise Misfit(f"{x.shape}, a weight {weight.shape} and a bias {bias.shape} do not fit")
    return ForeignTensor(F.linear(x.numbers, weight.held, bias.held))


@operator(PRODUCTS, "Einsum")
def einsum(call: Call, *given: ForeignTensor) -> ForeignTensor:
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
    return ForeignTensor(F.einsum(f"{','.join(spelled)}->{result}", *(x.numbers for x in operands)))


def _diagonal(x: ForeignTensor, letters: str) -> tuple[ForeignTensor, str]:
    """An operand that names axes several times: its diagonal along them."""
    for second, letter in enumerate(letters):
        first, n = letters.index(letter), x.shape[second]
        if first == second:
            continue
        if x.shape[first] != n:
            raise Misfit(f"there is no diagonal along axes {first} and {second} of {x.shape}")
        n, _ = limited((n, n))
        here = np.eye(n, dtype=np.float32).reshape([n if i in (first, second) else 1 for i in range(x.rank)])
        y = ForeignTensor(F.sum(F.where(here, x.numbers, 0.0), [second], False))
        return _diagonal(y, letters[:second] + letters[second + 1 :])
    return x, letters
