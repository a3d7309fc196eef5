"""Values along axes made one, and what is normalized along axes."""

from __future__ import annotations

from typing import Any

from ... import functional as F
from ...converted.tensors import Misfit
from .. import _numpy
from .._call import Call
from .._tensor import Tensor, by_numpy, plain_numbers
from ._registry import add, operator

REDUCTIONS = "reductions"


def _reduction(function: Any) -> Any:
    def handler(call: Call, x: Tensor, axes: Tensor | None = None) -> Tensor:
        chosen = _numpy.axes_of(call, x.rank, plain_numbers(axes, "axes"))
        keep = bool(call.integer("keepdims", 1))
        call.ignored("noop_with_empty_axes", "axes")
        if chosen == ():
            return Tensor(_of_nothing(call, x), x.shape)
        every = tuple(range(x.rank)) if chosen is None else chosen
        x.free(every, "the reduction") if x.batch is not None else None
        shape = [1 if i in every else n for i, n in enumerate(x.shape) if keep or i not in every]
        if not every:
            return Tensor(_of_nothing(call, x), x.shape)
        return Tensor(function(x.numbers, [x.axis(axis) for axis in every], keep), shape)

    return handler


def _of_nothing(call: Call, x: Tensor) -> Any:
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
def position(call: Call, x: Tensor) -> Any:
    axis, keep = call.integer("axis", 0), bool(call.integer("keepdims", 1))
    x.free([axis], "the position")
    if call.integer("select_last_index", 0):
        return by_numpy(call, [x])
    place = x.axis(axis)
    value = x.numbers
    function = F.argmax if call.op == "ArgMax" else F.argmin
    if not value.rows:
        return by_numpy(call, [x])
    shape = [1 if i == axis % x.rank else n for i, n in enumerate(x.shape) if keep or i != axis % x.rank]
    return Tensor(function(value, place, keep), shape, "i")


@operator(REDUCTIONS, "Softmax", "LogSoftmax")
def softmax(call: Call, x: Tensor) -> Tensor:
    axis = call.integer("axis", -1)
    x.free([axis], "the softmax")
    function = F.softmax if call.op == "Softmax" else F.log_softmax
    return Tensor(function(x.numbers, x.axis(axis)), x.shape)


@operator(REDUCTIONS, "LpNormalization")
def lp_normalization(call: Call, x: Tensor) -> Tensor:
    axis, p = call.integer("axis", -1), call.integer("p", 2)
    if p not in (1, 2):
        raise Misfit(f"p={p} has no counterpart here")
    x.free([axis], "the norm")
    return Tensor(F.normalize(x.numbers, float(p), x.axis(axis), 1e-12), x.shape)
