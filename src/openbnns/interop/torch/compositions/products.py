"""Products of vectors and matrices, made of others."""

from __future__ import annotations

import math
from typing import Any

from ...converted.tensors import Misfit
from ._table import composition

PRODUCTS = "products"


@composition(PRODUCTS, "addr")
def addr(torch: Any, input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return beta * input + alpha * torch.outer(vec1, vec2)


@composition(PRODUCTS, "addbmm")
def addbmm(torch: Any, input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return beta * input + alpha * torch.bmm(batch1, batch2).sum(0)


@composition(PRODUCTS, "kron")
def kron(torch: Any, input: Any, other: Any) -> Any:
    rank = max(input.dim(), other.dim())
    a, b = (x.reshape([1] * (rank - x.dim()) + list(x.shape)) for x in (input, other))
    shape = [n * m for n, m in zip(a.shape, b.shape, strict=True)]
    apart = [[n for size in sizes for n in size] for sizes in ([(n, 1) for n in a.shape], [(1, n) for n in b.shape])]
    return (a.reshape(apart[0]) * b.reshape(apart[1])).reshape(shape)


@composition(PRODUCTS, "tensordot")
def tensordot(torch: Any, a: Any, b: Any, dims: Any = 2, dims_b: Any = None, out: Any = None) -> Any:
    if isinstance(dims, int):
        dims = list(range(a.dim() - dims, a.dim())), list(range(dims))
    first, second = (
        [d % x.dim() for d in axes] for x, axes in zip((a, b), (dims, dims_b) if dims_b else dims, strict=True)
    )
    rest = [[d for d in range(x.dim()) if d not in axes] for x, axes in ((a, first), (b, second))]
    count = math.prod(a.shape[d] for d in first)
    left = a.permute(*rest[0], *first).reshape(-1, count)
    right = b.permute(*second, *rest[1]).reshape(count, -1)
    return (left @ right).reshape([*(a.shape[d] for d in rest[0]), *(b.shape[d] for d in rest[1])])


@composition(PRODUCTS, "vdot", "linalg.vecdot")
def vecdot(torch: Any, x: Any, y: Any, *, dim: int = -1) -> Any:
    return (x * y).sum(dim)


@composition(PRODUCTS, "logdet")
def logarithm_of_determinant(torch: Any, input: Any) -> Any:
    sign, logarithm = torch.linalg.slogdet(input)
    return logarithm + sign.log()  # NaN if it is negative, minus infinity if it is 0


@composition(PRODUCTS, "linalg.matrix_norm")
def matrix_norm(torch: Any, A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False) -> Any:
    if ord != "fro":
        raise Misfit(f"ord={ord!r} has no counterpart here, only that of Frobenius")
    return torch.linalg.vector_norm(A, 2, dim, keepdim)
