"""Products of vectors and matrices, made of others."""

from __future__ import annotations

import math
from typing import Any

from ...converted.tensors import Misfit
from ._table import COMPOSITIONS, composition

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
    return ((x.conj() if x.is_complex() else x) * y).sum(dim)


@composition(PRODUCTS, "logdet")
def logarithm_of_determinant(torch: Any, input: Any) -> Any:
    sign, logarithm = torch.linalg.slogdet(input)
    return logarithm + sign.log()  # NaN if it is negative, minus infinity if it is 0


@composition(PRODUCTS, "linalg.matrix_norm")
def matrix_norm(torch: Any, A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False) -> Any:
    if ord != "fro":
        raise Misfit(f"ord={ord!r} has no counterpart here, only that of Frobenius")
    return torch.linalg.vector_norm(A, 2, dim, keepdim)


@composition(PRODUCTS, "linalg.solve", "linalg.solve_ex")
def solve(torch: Any, A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    inverse = torch.linalg.inv(A)
    vectors = B.dim() == 1 or (B.dim() == A.dim() - 1 and B.shape == A.shape[:-1])
    if vectors:
        return (inverse @ B.unsqueeze(-1)).squeeze(-1)
    return inverse @ B if left else B @ inverse


def _checked(torch: Any, kind: str, result: Any, A: Any) -> Any:
    """A result with zeros that say of every matrix that nothing failed."""
    return getattr(torch.return_types, kind)((result, torch.zeros(A.shape[:-2], dtype=torch.int32)))


COMPOSITIONS["linalg.solve_ex"] = lambda torch, A, B, **options: _checked(
    torch, "linalg_solve_ex", solve(torch, A, B, **options), A
)


@composition(PRODUCTS, "linalg.inv_ex")
def inverse_with_errors(torch: Any, A: Any, *, check_errors: bool = False) -> Any:
    return _checked(torch, "linalg_inv_ex", torch.linalg.inv(A), A)


@composition(PRODUCTS, "linalg.vander")
def vander(torch: Any, x: Any, *, N: Any = None) -> Any:
    return x.unsqueeze(-1) ** torch.arange(x.shape[-1] if N is None else N)


@composition(PRODUCTS, "block_diag")
def block_diag(torch: Any, *tensors: Any) -> Any:
    blocks = [torch.atleast_2d(x) for x in tensors]
    width, before, rows = sum(x.shape[1] for x in blocks), 0, []
    for x in blocks:
        rows.append(torch.nn.functional.pad(x, (before, width - before - x.shape[1])))
        before += x.shape[1]
    return torch.cat(rows)


@composition(PRODUCTS, "cov")
def cov(torch: Any, input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    if fweights is not None or aweights is not None:
        raise Misfit("fweights and aweights have no counterpart here")
    if input.is_complex():
        raise Misfit("complex numbers have no counterpart in it")
    x = torch.atleast_2d(input)
    x = x - x.mean(1, keepdim=True)
    covariances = x @ x.mT / (x.shape[1] - correction)
    return covariances.reshape(()) if x.shape[0] == 1 else covariances


@composition(PRODUCTS, "corrcoef")
def corrcoef(torch: Any, input: Any) -> Any:
    covariances = cov(torch, input)
    if covariances.dim() == 0:
        return covariances / covariances
    spread = covariances.diagonal().sqrt()
    return (covariances / spread[:, None] / spread[None, :]).clamp(-1, 1)
