"""Values along axes made one, and what is normalized along axes."""

from __future__ import annotations

from typing import Any

from ....graph import functions as F
from ...converted.tensors import ForeignTensor, Misfit
from ._registry import Call, adapted, add, exact, operation, plain, refuse_unless

REDUCTIONS = "reductions"


def _axes(dim: Any) -> Any:
    """Axes as functions here take them; None for all."""
    if dim is None or dim == () or dim == []:
        return None
    return [plain(d, "dim") for d in (dim if isinstance(dim, (tuple, list)) else [dim])]


def _reduction(function: Any) -> Any:
    def handler(call: Call, input: ForeignTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        return function(exact(call, input), _axes(dim), keepdim)

    return handler


for _name in ("sum", "mean", "amax", "amin", "logsumexp", "prod"):
    add(REDUCTIONS, _name, _reduction(getattr(F, _name)))
for _name in ("any", "all"):
    add(REDUCTIONS, _name, adapted(getattr(F, _name)))


@operation(REDUCTIONS, "max", "min")
def extreme(call: Call, input: ForeignTensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    largest = call.name == "max"
    if isinstance(dim, ForeignTensor) or other is not None:  # of two tensors, element by element
        b = dim if isinstance(dim, ForeignTensor) else other
        return (F.maximum if largest else F.minimum)(input.elements, b.elements)
    if dim is None:
        return (F.amax if largest else F.amin)(exact(call, input))
    return tuple((F.max if largest else F.min)(exact(call, input), plain(dim, "dim"), keepdim))


@operation(REDUCTIONS, "argmax", "argmin")
def position(call: Call, input: ForeignTensor, dim: Any = None, keepdim: bool = False) -> Any:
    function = F.argmax if call.name == "argmax" else F.argmin
    value = input.whole if input.kind == "i" else input.numbers
    return function(value, None if dim is None else plain(dim, "dim"), keepdim)


@operation(REDUCTIONS, "var", "std")
def spread(
    call: Call,
    input: ForeignTensor,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Any:
    if isinstance(dim, bool):  # x.var(False)
        dim, unbiased = None, dim
    taken = 1 if correction is None else plain(correction, "correction")
    if unbiased is not None:
        taken = int(unbiased)
    return (F.var if call.name == "var" else F.std)(input.numbers, _axes(dim), correction=taken, keepdim=keepdim)


@operation(REDUCTIONS, "norm", "linalg.vector_norm", "linalg.norm")
def norm(call: Call, input: ForeignTensor, p: Any = 2, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
    order = plain(named.pop("ord", p), "p")
    given = sorted(name for name, value in named.items() if value is not None)
    if given:
        raise Misfit(f"options {given} have no counterpart here")
    if call.name == "linalg.norm" and dim is None and order is not None:
        raise Misfit("norms of matrices have no counterpart here. Give dim")
    kind = 2 if order in (None, "fro") else float(order)  # codespell:ignore fro
    return F.norm(input.numbers, kind, _axes(dim), keepdim)


@operation(REDUCTIONS, "F.normalize")
def normalize(call: Call, input: ForeignTensor, p: Any = 2.0, dim: Any = 1, eps: Any = 1e-12, out: Any = None) -> Any:
    refuse_unless("out", out, None)
    return F.normalize(input.numbers, float(p), _axes(dim), plain(eps, "eps"))


@operation(REDUCTIONS, "F.cosine_similarity")
def cosine_similarity(call: Call, x1: ForeignTensor, x2: ForeignTensor, dim: Any = 1, eps: Any = 1e-8) -> Any:
    return F.cosine_similarity(x1.numbers, x2.numbers, plain(dim, "dim"), plain(eps, "eps"))


@operation(REDUCTIONS, "F.pairwise_distance")
def pairwise_distance(
    call: Call, x1: ForeignTensor, x2: ForeignTensor, p: Any = 2.0, eps: Any = 1e-6, keepdim: bool = False
) -> Any:
    return F.pairwise_distance(x1.numbers, x2.numbers, float(p), plain(eps, "eps"), keepdim)


# Along one axis.


def implicit_axis(rank: int) -> int:
    """The axis that PyTorch takes where softmax is not told one."""
    return 0 if rank in (0, 1, 3) else 1


def _softmax(function: Any) -> Any:
    def handler(call: Call, input: ForeignTensor, dim: Any = None, _stacklevel: Any = 3, dtype: Any = None) -> Any:
        return function(input.numbers, implicit_axis(input.rank) if dim is None else plain(dim, "dim"))

    return handler


for _name in ("softmax", "log_softmax"):
    add(REDUCTIONS, _name, _softmax(getattr(F, _name)))
for _name in ("softmax", "log_softmax", "softmin"):
    add(REDUCTIONS, f"F.{_name}", _softmax(getattr(F, _name)))


@operation(REDUCTIONS, "F.glu")
def glu(call: Call, input: ForeignTensor, dim: Any = -1) -> Any:
    return F.glu(input.numbers, dim)
