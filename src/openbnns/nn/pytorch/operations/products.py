"""Matrix products, contractions, attention."""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from ... import functional as F
from ..._value import FLOAT32, Value
from ...converted.functions import Forbid
from ...converted.sizes import batch_axis
from ...converted.tensors import Misfit, Tensor, held_parameter
from ...parameter import Parameter
from .._steps import ByMode
from ._registry import Call, operation, plain, refuse_unless

PRODUCTS = "products"


@operation(PRODUCTS, "matmul", "mm", "bmm", "mv", "dot", "__matmul__", "__rmatmul__", "inner")
def matmul(call: Call, input: Tensor, other: Tensor) -> Any:
    a, b = (other, input) if call.name == "__rmatmul__" else (input, other)
    if call.name == "inner":
        return F.sum(F.mul(a.numbers, b.numbers), -1) if a.rank == b.rank == 1 else _refuse_inner()
    batch = batch_axis(call.shape)
    if a.rank > 2 and a.batch != a.rank - 1 and b.rank <= 2 and b.batch is None:  # a matrix for all samples
        return F.matmul(a.numbers, b.numbers)
    if batch is None or max(a.rank, b.rank) <= 2 or b.rank == 1:
        return _matrix(a, b)
    if batch >= len(call.shape) - 2:
        raise Misfit(f"the batch of {call.shape} is an axis of the matrices. Put it in front")
    return F.matmul(_stacked(a, call.shape), _stacked(b, call.shape))


def _refuse_inner() -> Any:
    raise Misfit("inner products of more than vectors have no counterpart here. Use einsum")


def _matrix(a: Tensor, b: Tensor) -> Any:
    """Products of matrices and vectors whose batch, if any, is the rows of the first."""
    if b.batch is not None or a.batch not in (None, 0):
        raise Misfit(f"a product of {a.shape} and {b.shape} mixes the samples of a batch")
    return F.matmul(a.numbers, b.numbers)


def _stacked(x: Tensor, shape: tuple[Any, ...]) -> Value:
    """An operand with the axes in front of its matrices as those of the result."""
    if x.rank < 2:
        raise Misfit("a vector times a stack of matrices has no counterpart here. Use unsqueeze")
    return x.aligned((*shape[:-2], *x.shape[-2:]))


@operation(PRODUCTS, "addmm", "addmv", "baddbmm")
def addmm(call: Call, input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = F.matmul(mat1.numbers, mat2.numbers) if call.name == "baddbmm" else _matrix(mat1, mat2)
    scaled, base = F.mul(product, plain(alpha, "alpha")), input.aligned(call.shape)
    return F.add(scaled, F.mul(base, plain(beta, "beta")))


@operation(PRODUCTS, "F.linear")
def linear(call: Call, input: Tensor, weight: Tensor, bias: Any = None) -> Any:
    if input.batch == input.rank - 1:
        raise Misfit(f"the batch of {input.shape} is the axis of the features")
    if weight.batch is not None:
        raise Misfit("weights that differ from sample to sample have no counterpart here. Use matmul")
    plain_weights = isinstance(weight.held, Parameter) and (bias is None or isinstance(bias.held, Parameter))
    if plain_weights:
        return F.linear(input.numbers, held_parameter(weight), held_parameter(bias))
    return F.linear(input.numbers, weight.numbers, None if bias is None else bias.numbers)


@operation(PRODUCTS, "_weight_norm")
def weight_norm(call: Call, v: Tensor, g: Tensor, dim: Any = 0) -> Any:
    """What ``torch.nn.utils.weight_norm`` computes weights with."""
    if v.batch is not None or dim == -1:
        raise Misfit("weights normalized over all axes have no counterpart here. Give dim")
    others = [axis for axis in range(v.rank) if axis != dim % v.rank]
    return F.mul(v.numbers, F.div(g.numbers, F.norm(v.numbers, 2, others, True)))


@operation(PRODUCTS, "F.bilinear")
def bilinear(call: Call, input1: Tensor, input2: Tensor, weight: Tensor, bias: Any = None) -> Any:
    letters = string.ascii_lowercase[: input1.rank - 1]
    product = _contraction(f"{letters}y,xyz,{letters}z->{letters}x", [input1, weight, input2], call.shape)
    return product if bias is None else F.add(product, bias.aligned(call.shape))


@operation(PRODUCTS, "einsum")
def einsum(call: Call, equation: str, *operands: Any) -> Any:
    given = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else list(operands)
    return _contraction(equation, given, call.shape)


def _contraction(equation: str, given: list[Tensor], shape: tuple[Any, ...]) -> Any:
    """The equation with the letter of the batch in front of all that have it."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    spare = [c for c in string.ascii_letters if c not in equation]
    dots = max([x.rank - len(part.replace("...", "")) for part, x in zip(parts, given, strict=True)], default=0)
    names = "".join(spare[:dots])
    spelled = []
    for part, x in zip(parts, given, strict=True):
        missing = x.rank - len(part.replace("...", ""))
        spelled.append(part.replace("...", names[dots - missing :] if missing else ""))
    if not arrow:
        letters = "".join(spelled)
        right = names + "".join(sorted(c for c in set(letters) - set(names) if letters.count(c) == 1))
    result = right.replace("...", names)
    moved = [_batch_first(part, x.batch) for part, x in zip(spelled, given, strict=True)]
    values = [x.batched for x in given]
    return F.einsum(f"{','.join(moved)}->{_batch_first(result, batch_axis(shape))}", *values)


def _batch_first(letters: str, batch: int | None) -> str:
    return letters if batch is None else letters[batch] + letters[:batch] + letters[batch + 1 :]


@operation(PRODUCTS, "outer", "ger")
def outer(call: Call, input: Tensor, vec2: Tensor) -> Any:
    if input.batch is not None or vec2.batch is not None:
        raise Misfit("an outer product of batches mixes their samples")
    return F.outer(input.numbers, vec2.numbers)


@operation(PRODUCTS, "F.scaled_dot_product_attention")
def attention(
    call: Call, query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, dropout_p: Any = 0.0,
    is_causal: bool = False, *, scale: Any = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    refuse_unless("enable_gqa", enable_gqa, False)
    rate = dropout_p
    if isinstance(rate, ByMode):
        if rate.evaluation:
            raise Misfit(f"dropout_p is {rate.evaluation} in evaluation, where nothing is dropped here")
        rate = rate.training
    elif rate:
        raise Misfit(
            "dropout_p acts in evaluation too, where nothing is dropped here. Pass p if self.training else 0.0"
        )
    batch = query.batch
    if batch is None or batch >= query.rank - 2 or key.batch != batch or value.batch != batch:
        raise Misfit(f"query {query.shape}, key {key.shape} and value {value.shape} need the same batch in front")
    scores = (*query.shape[:-1], key.shape[-2])
    mask = None if attn_mask is None else _added(attn_mask, scores)
    return F.scaled_dot_product_attention(
        query.batched, key.batched, value.batched, mask, float(rate), bool(is_causal),
        None if scale is None else plain(scale, "scale"),
    )  # fmt: skip


def _added(mask: Tensor, scores: tuple[Any, ...]) -> Value:
    """A mask as numbers to add to scores: a mask of booleans says what takes part."""
    if mask.kind == "f":
        return mask.aligned(scores)
    if isinstance(mask.held, np.ndarray):
        numbers: Any = np.where(mask.held != 0, np.float32(0), np.float32(-np.inf))
    else:
        numbers = Forbid.apply(mask.value)
    added = Tensor(numbers, mask.shape).aligned(scores)
    assert added.dtype == FLOAT32
    return added
