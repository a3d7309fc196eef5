"""Reductions over axes, and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....graph import functions as F
from ....graph.sizes import Size, product
from ....graph.tensor import Array, Tensor
from ...converted.registry import Handler
from ...converted.tensors import ForeignTensor, Misfit
from .._call import Call
from .._numpy import listed
from .._operator import add, operator
from ..tensor import by_numpy, plain_numbers

REDUCTIONS = "reductions"


def _axes_of(call: Call, rank: int, axes: list[int] | None) -> tuple[int, ...] | None:
    """The axes that a reduction is over; none of them means that it does nothing."""
    given = call.integers("axes", ()) if axes is None else tuple(axes)
    if not given:
        return () if call.integer("noop_with_empty_axes", 0) else None
    return tuple(sorted(_one_axis(axis, rank) for axis in given))


def _one_axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise Misfit(f"axis {axis} is not one of {rank}")
    return axis % rank


def _norm(p: int) -> Any:
    return lambda x, dim, keep: F.norm(x, p, dim, keep)


def _log_sum(x: Tensor, dim: Sequence[int], keep: bool) -> Any:
    return F.log(F.sum(x, dim, keep))


def _sum_of_squares(x: Tensor, dim: Sequence[int], keep: bool) -> Any:
    return F.sum(F.square(x), dim, keep)


def _recorded(reduction: Any, of_elements: str = "") -> Handler:
    """A reduction, a function or the name of one; ``of_elements`` is what it does to them over no axes, if anything."""

    def record(call: Call, x: ForeignTensor, axes: ForeignTensor | None = None) -> ForeignTensor:
        chosen = _axes_of(call, x.rank, plain_numbers(axes, "axes"))
        keep, value = bool(call.integer("keepdims", 1)), x.elements if call.op in _OF_INTEGERS else x.numbers
        every = list(range(x.rank)) if chosen is None else list(chosen)
        if every:
            function = getattr(F, reduction) if isinstance(reduction, str) else reduction
            return ForeignTensor(function(value, every, keep))
        return ForeignTensor(getattr(F, of_elements)(value) if of_elements else value)

    return record


def _in_numpy(function: Any) -> Handler:
    def compute(call: Call, x: Array, axes: Array | None = None) -> Any:
        chosen = _axes_of(call, x.ndim, listed(axes))
        result = function(x, axis=chosen, keepdims=bool(call.integer("keepdims", 1)))
        return result if isinstance(result, Size) else np.asarray(result).astype(x.dtype)

    return compute


def _extreme(function: Any, end: int) -> Any:
    """The largest or smallest number; over no elements, the least or greatest number of the type."""

    def reduce(x: Any, **options: Any) -> Any:
        if x.size or x.dtype == object:
            return function(x, **options)
        whole = np.iinfo(x.dtype) if x.dtype.kind in "iu" else None
        ends = (whole.min, whole.max) if whole else (False, True) if x.dtype == np.bool_ else (-np.inf, np.inf)
        return function(x, initial=ends[end], **options)

    return reduce


_OF_INTEGERS = ("ReduceSum", "ReduceProd")
_REDUCTIONS: dict[str, tuple[Any, ...]] = {
    "ReduceSum": ("sum", np.sum), "ReduceMean": ("mean", np.mean), "ReduceMax": ("amax", _extreme(np.max, 0)),
    "ReduceMin": ("amin", _extreme(np.min, 1)), "ReduceProd": ("prod", np.prod),
    "ReduceL1": (_norm(1), lambda x, **o: np.sum(np.abs(x), **o), "abs"),
    "ReduceL2": (_norm(2), lambda x, **o: np.sqrt(np.sum(np.square(x), **o)), "abs"),
    "ReduceLogSum": (_log_sum, lambda x, **o: np.log(np.sum(x, **o)), "log"),
    "ReduceLogSumExp": ("logsumexp", lambda x, **o: np.log(np.sum(np.exp(x), **o))),
    "ReduceSumSquare": (_sum_of_squares, lambda x, **o: np.sum(np.square(x), **o), "square"),
}  # fmt: skip
for _name, (_function, _of_arrays, *_others) in _REDUCTIONS.items():
    add(
        REDUCTIONS, _name, _recorded(_function, *_others), compute=_in_numpy(_of_arrays), shaping=(1,), once_attributes=("axes",),
        ignores=("noop_with_empty_axes", "axes"), records_whole=_name in _OF_INTEGERS, wraps=_name in _OF_INTEGERS,
    )  # fmt: skip


def _place(call: Call, x: Array) -> Any:
    axis, find = call.integer("axis", 0), np.argmax if call.op == "ArgMax" else np.argmin
    if call.integer("select_last_index", 0):
        places = x.shape[axis] - 1 - find(np.flip(x, axis), axis)
    else:
        places = find(x, axis)
    return np.expand_dims(places, axis) if call.integer("keepdims", 1) else places


@operator(REDUCTIONS, "ArgMax", "ArgMin", compute=_place, whole_type="int64")
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
