"""Matrix products, contractions, attention."""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from ....graph import functions as F
from ...converted.functions import Determinant, DeterminantSign, Forbid, Inverse, LogDeterminant
from ...converted.tensors import ForeignTensor, Misfit, optional_numbers
from .._steps import ByMode
from ._registry import Call, adapted, add, exact, operation, plain

PRODUCTS = "products"


@operation(PRODUCTS, "matmul", "mm", "bmm", "mv", "dot", "__matmul__", "__rmatmul__", "inner")
def matmul(call: Call, input: ForeignTensor, other: ForeignTensor) -> Any:
    a, b = (other, input) if call.name == "__rmatmul__" else (input, other)
    if call.name == "inner":
        return F.matmul(exact(call, a), exact(call, b) if b.rank == 1 else F.transpose(exact(call, b), -1, -2))
    return F.matmul(exact(call, a), exact(call, b))


@operation(PRODUCTS, "addmm", "addmv", "baddbmm")
def addmm(
    call: Call, input: ForeignTensor, *factors: ForeignTensor, beta: Any = 1, alpha: Any = 1, **named: ForeignTensor
) -> Any:
    first, second = (*factors, *named.values())  # mat1 and mat2, mat and vec, or batch1 and batch2
    product = F.mul(F.matmul(exact(call, first), exact(call, second)), plain(alpha, "alpha"))
    return F.add(product, F.mul(exact(call, input), plain(beta, "beta")))


@operation(PRODUCTS, "F.linear")
def linear(call: Call, input: ForeignTensor, weight: ForeignTensor, bias: ForeignTensor | None = None) -> Any:
    return F.linear(input.numbers, weight.numbers, optional_numbers(bias))


@operation(PRODUCTS, "_weight_norm")
def weight_norm(call: Call, v: ForeignTensor, g: ForeignTensor, dim: Any = 0) -> Any:
    """The function by which ``torch.nn.utils.weight_norm`` computes weights."""
    if dim == -1:
        raise Misfit("weights normalized over all axes have no counterpart here. Give dim")
    others = [axis for axis in range(v.rank) if axis != dim % v.rank]
    return F.mul(v.numbers, F.div(g.numbers, F.norm(v.numbers, 2, others, True)))


@operation(PRODUCTS, "F.bilinear")
def bilinear(call: Call, input1: ForeignTensor, input2: ForeignTensor, weight: ForeignTensor, bias: Any = None) -> Any:
    letters = string.ascii_lowercase[: input1.rank - 1]
    operands = (x.numbers for x in (input1, weight, input2))
    product = F.einsum(f"{letters}y,xyz,{letters}z->{letters}x", *operands)
    return product if bias is None else F.add(product, bias.broadcast)


@operation(PRODUCTS, "einsum")
def einsum(call: Call, equation: str, *operands: Any) -> Any:
    given = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else list(operands)
    return F.einsum(equation, *(x.numbers for x in given))


@operation(PRODUCTS, "outer", "ger")
def outer(call: Call, input: ForeignTensor, vec2: ForeignTensor) -> Any:
    return F.outer(input.numbers, vec2.numbers)


add(PRODUCTS, "cross", adapted(F.cross))


@operation(PRODUCTS, "cdist")
def cdist(call: Call, x1: ForeignTensor, x2: ForeignTensor, p: Any = 2.0, compute_mode: Any = None) -> Any:
    return F.cdist(x1.numbers, x2.numbers, float(plain(p, "p")))


@operation(PRODUCTS, "F.scaled_dot_product_attention")
def attention(
    call: Call, query: ForeignTensor, key: ForeignTensor, value: ForeignTensor, attn_mask: Any = None, dropout_p: Any = 0.0,
    is_causal: bool = False, *, scale: Any = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    keys, values = key.numbers, value.numbers
    if enable_gqa:  # several heads of the query share one of keys and values
        keys, values = (F.repeat_interleave(x, query.shape[-3] // x.shape[-3], -3) for x in (keys, values))
    rate = dropout_p
    if isinstance(rate, ByMode):
        if rate.evaluation:
            raise Misfit(f"dropout_p is {rate.evaluation} in evaluation, where nothing is dropped here")
        rate = rate.training
    elif rate:
        raise Misfit(
            "dropout_p acts in evaluation too, where nothing is dropped here. Pass p if self.training else 0.0"
        )
    mask, sees = (None, None) if attn_mask is None else _added(attn_mask)
    y = F.scaled_dot_product_attention(
        query.numbers,
        keys,
        values,
        mask,
        float(rate),
        bool(is_causal),
        None if scale is None else plain(scale, "scale"),
    )
    return y if sees is None else F.mul(y, sees)


def _added(mask: ForeignTensor) -> tuple[Any, Any]:
    """A mask as numbers to add to scores, and 1 for each row that sees something, if there are others: these give zeros.

    A mask of booleans says what takes part.
    """
    if isinstance(mask.held, np.ndarray):
        added = mask.held if mask.kind == "f" else np.where(mask.held != 0, np.float32(0), np.float32(-np.inf))
        sees = np.isfinite(added.max(-1, keepdims=True))
        if not sees.all():
            return np.where(sees, added, np.float32(0)), sees.astype(np.float32)
        return added[0] if added.ndim == 4 and len(added) == 1 else added, None
    given = mask.broadcast
    if mask.kind == "f":
        seen = F.gt(F.amax(F.detach(given), -1, True), np.float32(-np.inf))
        return F.where(seen, given, 0.0), seen
    seen = F.amax(given, -1, True)
    return Forbid.apply(F.add(given, F.sub(1.0, seen))), seen


# Square matrices.


@operation(PRODUCTS, "det", "linalg.det")
def determinant(call: Call, A: ForeignTensor) -> Any:
    return Determinant.apply(A.numbers)


@operation(PRODUCTS, "slogdet", "linalg.slogdet")
def sign_and_logarithm(call: Call, A: ForeignTensor) -> Any:
    return DeterminantSign.apply(A.numbers), LogDeterminant.apply(A.numbers)


@operation(PRODUCTS, "inverse", "linalg.inv")
def inverse(call: Call, A: ForeignTensor) -> Any:
    return Inverse.apply(A.numbers)
