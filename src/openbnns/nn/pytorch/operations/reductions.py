"""Values along axes made one, and what is normalized along axes."""

from __future__ import annotations

from typing import Any

from ... import functional as F
from ...converted.sizes import Size
from ...converted.tensors import Misfit, Tensor
from ._registry import Call, add, operation, plain, refuse_unless

REDUCTIONS = "reductions"


def _axes(x: Tensor, dim: Any) -> Any:
    """The axes of a value for those of PyTorch; None for all."""
    if dim is None or dim == () or dim == []:
        return None
    return [x.axis(plain(d, "dim")) for d in (dim if isinstance(dim, (tuple, list)) else [dim])]


def _shaped(call: Call, value: Any) -> Any:
    """A result over the batch in PyTorch's shape, where its axis may stand elsewhere."""
    return value if value.rows else value.reshape(tuple(n for n in call.shape if not isinstance(n, Size)))


def _over(x: Tensor, dim: Any) -> Any:
    """The value to reduce; a sum over the batch needs it for every sample."""
    axes = range(x.rank) if dim is None or dim == () else dim if isinstance(dim, (tuple, list)) else [dim]
    return x.batched if x.same_for_all and any(plain(d, "dim") % x.rank == x.batch for d in axes) else x.numbers


def _reduction(function: Any) -> Any:
    def handler(call: Call, input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        if dtype is not None and call.kinds[0] != "f":
            raise Misfit("sums of whole numbers have no counterpart here")
        value = _over(input, dim)
        seen = Tensor(value, input.shape)
        return _shaped(call, function(value, _axes(seen, dim), keepdim))

    return handler


for _name in ("sum", "mean", "amax", "amin", "logsumexp", "prod"):
    add(REDUCTIONS, _name, _reduction(getattr(F, _name)))


@operation(REDUCTIONS, "max", "min")
def extreme(call: Call, input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    largest = call.name == "max"
    if isinstance(dim, Tensor) or other is not None:  # of two tensors, element by element
        b = dim if isinstance(dim, Tensor) else other
        return (F.maximum if largest else F.minimum)(input.aligned(call.shape), b.aligned(call.shape))
    if dim is None:
        return (F.amax if largest else F.amin)(_over(input, None))
    if plain(dim, "dim") % input.rank == input.batch:
        raise Misfit("the largest and smallest of a batch have no counterpart here")
    return tuple((F.max if largest else F.min)(input.numbers, input.axis(dim), keepdim))


@operation(REDUCTIONS, "argmax", "argmin")
def position(call: Call, input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is None or plain(dim, "dim") % input.rank == input.batch:
        raise Misfit("positions in a batch have no counterpart here. Give another dim")
    return (F.argmax if call.name == "argmax" else F.argmin)(input.numbers, input.axis(dim), keepdim)


@operation(REDUCTIONS, "var", "std")
def spread(
    call: Call, input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> Any:
    if isinstance(dim, bool):  # x.var(False)
        dim, unbiased = None, dim
    taken = 1 if correction is None else plain(correction, "correction")
    if unbiased is not None:
        taken = int(unbiased)
    value = _over(input, dim)
    axes = _axes(Tensor(value, input.shape), dim)
    return _shaped(call, (F.var if call.name == "var" else F.std)(value, axes, correction=taken, keepdim=keepdim))


@operation(REDUCTIONS, "norm", "linalg.vector_norm", "linalg.norm")
def norm(call: Call, input: Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
    order = plain(named.pop("ord", p), "p")
    if named.pop("dtype", None) is not None or any(value is not None for value in named.values()):
        raise Misfit(f"options {sorted(named)} have no counterpart here")
    if call.name == "linalg.norm" and dim is None and order is not None:
        raise Misfit("norms of matrices have no counterpart here. Give dim")
    value = _over(input, dim)
    axes = _axes(Tensor(value, input.shape), dim)
    kind = 2 if order in (None, "fro") else float(order)  # codespell:ignore fro
    return _shaped(call, F.norm(value, kind, axes, keepdim))


@operation(REDUCTIONS, "F.normalize")
def normalize(call: Call, input: Tensor, p: Any = 2.0, dim: Any = 1, eps: Any = 1e-12, out: Any = None) -> Any:
    refuse_unless("out", out, None)
    value = _over(input, dim)
    return F.normalize(value, float(p), _axes(Tensor(value, input.shape), dim), plain(eps, "eps"))


@operation(REDUCTIONS, "F.cosine_similarity")
def cosine_similarity(call: Call, x1: Tensor, x2: Tensor, dim: Any = 1, eps: Any = 1e-8) -> Any:
    if x1.shape != x2.shape:
        raise Misfit(f"tensors of different shapes, {x1.shape} and {x2.shape}, have no counterpart here")
    return F.cosine_similarity(x1.batched, x2.batched, Tensor(x1.batched, x1.shape).axis(dim), plain(eps, "eps"))


@operation(REDUCTIONS, "F.pairwise_distance")
def pairwise_distance(call: Call, x1: Tensor, x2: Tensor, p: Any = 2.0, eps: Any = 1e-6, keepdim: bool = False) -> Any:
    if x1.shape != x2.shape or x1.batch == x1.rank - 1:
        raise Misfit(f"distances of {x1.shape} and {x2.shape} have no counterpart here")
    return F.pairwise_distance(x1.batched, x2.batched, float(p), plain(eps, "eps"), keepdim)


# Along one axis.


def implicit_axis(rank: int) -> int:
    """The axis that PyTorch takes where softmax is not told one."""
    return 0 if rank in (0, 1, 3) else 1


def _softmax(function: Any) -> Any:
    def handler(call: Call, input: Tensor, dim: Any = None, _stacklevel: Any = 3, dtype: Any = None) -> Any:
        axis = implicit_axis(input.rank) if dim is None else plain(dim, "dim")
        if axis % input.rank == input.batch:
            raise Misfit("a softmax over the batch mixes its samples")
        return function(input.numbers, input.axis(axis))

    return handler


for _name in ("softmax", "log_softmax"):
    add(REDUCTIONS, _name, _softmax(getattr(F, _name)))
for _name in ("softmax", "log_softmax", "softmin"):
    add(REDUCTIONS, f"F.{_name}", _softmax(getattr(F, _name)))


@operation(REDUCTIONS, "F.glu")
def glu(call: Call, input: Tensor, dim: Any = -1) -> Any:
    if dim % input.rank == input.batch:
        raise Misfit("half of a batch has no counterpart here")
    return F.glu(input.numbers, input.axis(dim))
