"""Values along axes made one, and what is normalized along axes."""

from __future__ import annotations

from typing import Any

from ....graph.sizes import product
from ....nn import functional as F
from ...converted.tensors import ForeignTensor, Misfit
from .. import _numpy
from .._call import Call
from ..tensor import by_numpy, plain_numbers
from ._registry import add, operator

REDUCTIONS = "reductions"


def _reduction(function: Any) -> Any:
    def handler(call: Call, x: ForeignTensor, axes: ForeignTensor | None = None) -> ForeignTensor:
        chosen = _numpy.axes_of(call, x.rank, plain_numbers(axes, "axes"))
        keep = bool(call.integer("keepdims", 1))
        call.ignored("noop_with_empty_axes", "axes")
        if chosen == ():
            return ForeignTensor(_of_nothing(call, x))
        every = list(range(x.rank)) if chosen is None else list(chosen)
        return ForeignTensor(function(x.numbers, every, keep) if every else _of_nothing(call, x))

    return handler


def _of_nothing(call: Call, x: ForeignTensor) -> Any:
    """A reduction over no axes: what it does to elements."""
    value = x.numbers
    if call.op in ("ReduceL1", "ReduceL2"):
        return F.abs(value)
    if call.op == "ReduceSumSquare":
        return F.square(value)
    return F.log(value) if call.op == "ReduceLogSum" else value


_FUNCTIONS: dict[str, Any] = {
    "ReduceSum": F.sum, "ReduceMean": F.mean, "ReduceMax": F.amax, "ReduceMin": F.amin, "ReduceProd": F.prod,
    "ReduceL1": lambda x, dim, keep: F.norm(x, 1, dim, keep), "ReduceL2": lambda x, dim, keep: F.norm(x, 2, dim, keep),
    "ReduceLogSum": lambda x, dim, keep: F.log(F.sum(x, dim, keep)), "ReduceLogSumExp": F.logsumexp,
    "ReduceSumSquare": lambda x, dim, keep: F.sum(F.square(x), dim, keep),
}  # fmt: skip
for _name, _function in _FUNCTIONS.items():
    add(REDUCTIONS, _name, _reduction(_function))


@operator(REDUCTIONS, "ArgMax", "ArgMin")
def position(call: Call, x: ForeignTensor) -> Any:
    axis, keep = x.axis(call.integer("axis", 0)), bool(call.integer("keepdims", 1))
    if call.integer("select_last_index", 0):
        return by_numpy(call, [x])
    function = F.argmax if call.op == "ArgMax" else F.argmin
    return ForeignTensor(function(x.numbers, axis, keep), "i")


@operator(REDUCTIONS, "Softmax", "LogSoftmax")
def softmax(call: Call, x: ForeignTensor) -> ForeignTensor:
    function = F.softmax if call.op == "Softmax" else F.log_softmax
    axis = x.axis(call.integer("axis", -1 if call.opset >= 13 else 1))
    if call.opset >= 13 or axis == x.rank - 1:
        return ForeignTensor(function(x.numbers, axis))
    flat = x.numbers.reshape((*x.shape[:axis], product(x.shape[axis:])))  # over all axes from this one on
    return ForeignTensor(function(flat, -1).reshape(x.shape))


@operator(REDUCTIONS, "LpNormalization")
def lp_normalization(call: Call, x: ForeignTensor) -> ForeignTensor:
    axis, p = x.axis(call.integer("axis", -1)), call.integer("p", 2)
    if p not in (1, 2):
        raise Misfit(f"p={p} has no counterpart here")
    return ForeignTensor(F.normalize(x.numbers, float(p), axis, 1e-12))
