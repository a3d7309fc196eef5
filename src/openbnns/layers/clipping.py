"""Clipping and norms as functions on arrays or descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from .._plural import plural
from .._words import Caller
from ..abi.enums import BNNSDataLayout, BNNSNormType
from ..abi.structs import BNNSNDArrayDescriptor
from ..errors import Problem
from ..filters import clipping
from ..tensors.descriptors import resolve
from ._functions import function
from ._ports import TensorLike, as_array, data_type, descriptor_for, first_major, require_contiguous, require_data, skip

__all__ = ["clip", "clip_by_global_norm", "clip_by_norm", "compute_norm", "compute_norm_backward"]

_L2 = int(BNNSNormType.BNNSL2Norm)

# The names of arguments in C, and in these functions.
_NAMES = {
    "src": "input", "dest": "output", "axis_flags": "axes", "max_norm": "threshold", "use_norm": "global_norm",
    "in": "input", "out": "output", "in_delta": "generating_input_gradient", "out_delta": "output_gradient",
    "min_val": "the lower bound of to", "max_val": "the upper bound",
}  # fmt: skip


@function(_NAMES, writes="output")
def clip(caller: Caller, to: Sequence[float], input: TensorLike, output: TensorLike | None = None) -> TensorLike:
    """Clamp every element to the range ``to`` = (low, high). ``output`` may be ``input``; left out, it is a new array.

    >>> import numpy as np
    >>> from openbnns import *
    >>> clip((-1, 1), np.array([-2, 0.5, 3], np.float32))
    array([-1. ,  0.5,  1. ], dtype=float32)
    """
    try:
        low, high = to
    except (TypeError, ValueError):
        raise Problem(f"{caller('to')} must be a pair (low, high).", kind=TypeError) from None
    x, y, result = _input_and_output(caller, input, output)
    if x is not None:
        clipping.clip_by_value(caller, y, x, low, high)
    return result


@function(_NAMES, writes="output")
def clip_by_norm(
    caller: Caller,
    threshold: float,
    input: TensorLike,
    output: TensorLike | None = None,
    axes: Sequence[int] | None = None,
) -> TensorLike:
    """Scale a tensor down to an L2 norm of at most ``threshold``: y = x · min(1, threshold / ‖x‖).

    With ``axes``, every slice along them has its own norm. For an array they are NumPy axes; for a descriptor
    they follow ``size[]``, but RowMajorMatrix counts rows first.

    >>> import numpy as np
    >>> from openbnns import *
    >>> clip_by_norm(2.5, np.array([3, 4], np.float32))
    array([1.5, 2. ], dtype=float32)
    """
    x, y, result = _input_and_output(caller, input, output)
    if x is not None:
        flags = _axis_flags(caller, axes, x, isinstance(input, BNNSNDArrayDescriptor))
        clipping.clip_by_norm(caller, y, x, threshold, flags)
    return result


@function(_NAMES)
def clip_by_global_norm(
    caller: Caller,
    threshold: float,
    inputs: Sequence[TensorLike],
    outputs: Sequence[TensorLike] | None = None,
    global_norm: float = 0.0,
) -> list[TensorLike]:
    """Scale a list of tensors by one factor, so that their joint L2 norm is at most ``threshold``.

    ``global_norm``, if not 0, is taken for the joint norm. ``outputs`` may be ``inputs``; left out, they are new arrays.

    >>> import numpy as np
    >>> from openbnns import *
    >>> clip_by_global_norm(6.5, [np.array([3, 4], np.float32), np.array([12], np.float32)])
    [array([1.5, 2. ], dtype=float32), array([6.], dtype=float32)]
    """
    sources = list(inputs)
    targets = [None] * len(sources) if outputs is None else list(outputs)
    if len(targets) != len(sources):
        raise Problem(f"{caller('outputs')} has {plural(len(targets), 'entry')}, but inputs has {len(sources)}.")
    triples = [
        _input_and_output(caller, s, t, f"inputs[{i}]", f"outputs[{i}]")
        for i, (s, t) in enumerate(zip(sources, targets, strict=True))
    ]
    used = [(x, y) for x, y, _ in triples if x is not None]
    clipping.clip_by_global_norm(caller, [y for _, y in used], [x for x, _ in used], len(used), threshold, global_norm)
    return [result for _, _, result in triples]


@function(_NAMES, writes="output")
def compute_norm(
    caller: Caller, input: TensorLike, output: TensorLike | None = None, axes: Sequence[int] | None = None
) -> TensorLike:
    """The L2 norm over ``axes``, which the output does not have; over all of them it has the shape (1,).

    >>> import numpy as np
    >>> from openbnns import *
    >>> compute_norm(np.array([[3, 4], [12, 5]], np.float32), axes=[1])
    array([ 5., 13.], dtype=float32)
    """
    x = _described(caller("input"), input)
    flags = _axis_flags(caller, axes, x, isinstance(input, BNNSNDArrayDescriptor))
    y = _norm_descriptor(caller, "output", output, x, flags)
    clipping.compute_norm(caller, y, x, _L2, flags)
    return y.data if output is None else output


@function(_NAMES, writes="generating_input_gradient")
def compute_norm_backward(
    caller: Caller,
    input: TensorLike,
    output: TensorLike,
    axes: Sequence[int] | None = None,
    output_gradient: TensorLike | None = None,
    generating_input_gradient: TensorLike | None = None,
) -> TensorLike:
    """The gradient of the norm: dx = dy · x / y, 0 where y = 0. ``input`` and ``output`` are those of the forward call.

    >>> import numpy as np
    >>> from openbnns import *
    >>> x, y = np.array([3, 4], np.float32), np.array([5], np.float32)
    >>> compute_norm_backward(x, y, output_gradient=np.array([2], np.float32))
    array([1.2, 1.6], dtype=float32)
    """
    if generating_input_gradient is skip:
        return None
    x = _described(caller("input"), input)
    flags = _axis_flags(caller, axes, x, isinstance(input, BNNSNDArrayDescriptor))
    y = _norm_descriptor(caller, "output", _needed(caller, "output", output), x, flags)
    given = _needed(caller, "output_gradient", output_gradient)
    dy = _norm_descriptor(caller, "output_gradient", given, x, flags)
    gradient = generating_input_gradient
    if gradient is None:
        gradient = np.empty(resolve(x, "input").shape, np.float32)
    dx = _like(caller, "generating_input_gradient", gradient, x)
    for name, own, other in (("input", x, dx), ("output", y, dy)):
        _require_same_form(caller, name, own, other)
    clipping.compute_norm_backward(caller, x.data, dx, y.data, dy, _L2, flags)
    return gradient


# Arguments.


def _needed(caller: Caller, name: str, value: Any) -> Any:
    if value is None:
        raise Problem(f"{caller(name)} is None, but it is needed. Pass an array or a descriptor with data.")
    return value


def _described(who: str, value: Any) -> BNNSNDArrayDescriptor:
    """An input as a descriptor; arrays in C order, copied if they are not contiguous."""
    if isinstance(value, BNNSNDArrayDescriptor):
        require_data(value, who)
        return value
    array = as_array(value, who)
    if not 1 <= array.ndim <= 8 or array.size == 0:
        raise Problem(f"{who} has shape {array.shape}. Pass an array of 1 to 8 axes with at least one element.")
    array = np.ascontiguousarray(array)
    return descriptor_for(array.shape, first_major(array.shape), data_type(array, who), array)


def _like(caller: Caller, name: str, value: Any, x: BNNSNDArrayDescriptor) -> BNNSNDArrayDescriptor:
    """An output in the form of the input."""
    who = caller(name)
    if isinstance(value, BNNSNDArrayDescriptor):
        return _described(who, value)
    array = as_array(value, who)
    view = resolve(x, who)
    if array.shape != view.shape:
        raise Problem(f"{who} has shape {array.shape}, but the input has {view.shape}. Give both the same shape.")
    _check_output(who, array)
    return descriptor_for(array.shape, int(view.layout.code), data_type(array, who), array)


def _check_output(who: str, array: Any) -> None:
    require_contiguous(array, who)


def _input_and_output(
    caller: Caller, input: Any, output: Any, input_name: str = "input", output_name: str = "output"
) -> tuple[BNNSNDArrayDescriptor | None, BNNSNDArrayDescriptor | None, Any]:
    """Descriptors, and what to return; no descriptors for an empty array, which has nothing to clip."""
    if not isinstance(input, BNNSNDArrayDescriptor):
        array = as_array(input, caller(input_name))
        if array.size == 0 and (output is None or np.shape(output) == array.shape):
            return None, None, np.empty_like(array) if output is None else output
    x = _described(caller(input_name), input)
    if output is None:
        view = resolve(x, caller(input_name))
        if view.element.numpy is None or view.element.kind == "bfloat":
            raise Problem(f"{caller(output_name)} is None, but NumPy has no {view.element.name}. Pass a descriptor.")
        output = np.empty(view.shape, view.element.numpy)
    return x, _like(caller, output_name, output, x), output


def _axis_flags(caller: Caller, axes: Any, x: BNNSNDArrayDescriptor, of_descriptor: bool) -> int:
    """Bits of axis_flags; ``axes`` are axis numbers of a descriptor, or NumPy axes of an array, which is FirstMajor."""
    if axes is None:
        return 0
    rank = len(resolve(x, caller("input")).size)
    chosen = [axes] if isinstance(axes, (int, np.integer)) else list(islice(axes, 99))  # 8 at most make sense
    low = 0 if of_descriptor else -rank
    flags = 0
    axis: Any
    for axis in chosen:
        if isinstance(axis, bool) or not hasattr(axis, "__index__"):
            raise Problem(f"{caller('axes')} must be integers, not {type(axis).__name__}.", kind=TypeError)
        if not low <= axis < rank:
            raise Problem(f"{caller('axes')} has {axis}, but there are axes {low} to {rank - 1}.")
        flags |= 1 << (axis % rank)
    return flags


def _norm_descriptor(
    caller: Caller, name: str, value: Any, x: BNNSNDArrayDescriptor, flags: int
) -> BNNSNDArrayDescriptor:
    """The tensor of norms: the caller's, or a new array."""
    if isinstance(value, BNNSNDArrayDescriptor):
        return _described(caller(name), value)
    view = resolve(x, caller("input"))
    rank = len(view.size)
    inside = {axis for number, axis in enumerate(view.numbered_axes) if flags >> number & 1} or set(range(rank))
    # NumPy's order of the axes that are left, and their places in size[].
    kept = [axis for axis in view.memory_axes if axis not in inside]
    shape = tuple(view.size[axis] for axis in kept) or (1,)
    array = np.empty(shape, np.float32) if value is None else as_array(value, caller(name))
    if array.shape != shape:
        raise Problem(f"{caller(name)} has shape {array.shape}, but the norm over these axes has shape {shape}.")
    if name != "output_gradient":
        _check_output(caller(name), array)
    array = np.ascontiguousarray(array)
    ascending = sorted(kept) == kept
    if len(shape) == 1 or ascending or sorted(kept, reverse=True) == kept:
        layout, size = int(first_major(shape).value), array.shape
        if len(shape) > 1 and not ascending:  # fastest axis first, as in size[] of the input
            layout, size = int(BNNSDataLayout[f"BNNSDataLayout{len(shape)}DLastMajor"]), array.shape[::-1]
        return BNNSNDArrayDescriptor(
            layout=layout, size=size, data=array, data_type=data_type(array, caller(name)).value
        )
    raise Problem(f"{caller(name)}: the axes of {view.layout.name} have a special order. Pass a descriptor.")


def _require_same_form(caller: Caller, name: str, own: BNNSNDArrayDescriptor, other: BNNSNDArrayDescriptor) -> None:
    """Refuse data of another form than the gradient that describes it."""
    mine, theirs = resolve(own, caller(name)), resolve(other, caller(name))
    if mine != theirs and not (
        mine.packed and theirs.packed and mine.shape == theirs.shape and mine.element is theirs.element
    ):
        raise Problem(
            f"{caller(name)} and its gradient are described differently (layout, size, stride or type). Describe both the "
            "same way."
        )
