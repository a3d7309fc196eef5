"""Clipping by value, by norm and by global norm, and the L2 norm over some axes with its gradient.

These are direct calls: descriptors carry their data, nothing is kept. Everything is checked before anything is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import engines
from .._plural import plural
from .._words import Caller
from ..abi.enums import BNNSNormType
from ..errors import Problem
from ..parameters.activation import Activation, ActivationKind
from ..reference import clipping as reference
from ..tensors.descriptors import PACKED_LAYOUTS, View, describe, resolve
from ..tensors.operands import Bound, bind, check_count, entries, integer, resolve_delta
from ..tensors.sharing import check_sharing, sharing
from ._activation_rules import native_activation
from .base import DX, DY, X, Y
from .direct import aligned, aligned_without, require_data, require_descriptor, shape_without

if engines._core is not None:
    engines._core.describe_clipping(PACKED_LAYOUTS)


def clip_by_value(caller: Caller, dest: Any, src: Any, minimum: Any, maximum: Any) -> None:
    """y = min(max(x, minimum), maximum), elementwise; NaN stays."""
    low, high = number(minimum, caller("min_val")), number(maximum, caller("max_val"))
    if not low <= high:
        raise Problem(
            f"{caller('min_val')} is {low:g} and {caller.name('max_val')} {high:g}. The lower bound must not be above the "
            "upper one, and neither may be NaN."
        )
    x, y = _pair(caller, dest, src)
    if not engines.is_native():
        y.write(reference.clip_by_value(x.read(np.float64), low, high))
        return
    clamp = native_activation(Activation(ActivationKind.CLAMP, low, high))
    plan = engines._core.activation(outer=1, length=x.view.count, inner=1, channels=0, activation=clamp)
    _run_elementwise(plan, x, y)


def clip_by_norm(caller: Caller, dest: Any, src: Any, max_norm: Any, axis_flags: Any) -> None:
    """y = x * min(1, max_norm / |x|), with one norm for every position along the remaining axes."""
    limit = _limit(caller, max_norm)
    x, y = _pair(caller, dest, src)
    inside = _inside(caller, x.view, axis_flags)
    if not engines.is_native():
        y.write(reference.clip_by_norm(x.read(np.float64)[0], limit, _axes(inside, x.view))[np.newaxis])
        return
    plan = engines._core.clip_by_norm(
        rank=len(x.shape), size=x.shape, inside=[a in inside for a in x.order], max_norm=limit
    )
    _run_elementwise(plan, x, y)


def clip_by_global_norm(caller: Caller, dest: Any, src: Any, count: Any, max_norm: Any, use_norm: Any) -> None:
    """y_k = x_k * min(1, max_norm / G), G = use_norm, or if that is 0, the norm of all elements of all tensors."""
    count = check_count(count, caller("count"))
    limit = _limit(caller, max_norm)
    known = number(use_norm, caller("use_norm"))
    if not known >= 0.0:
        raise Problem(f"{caller('use_norm')} is {known:g}. Pass the known norm of all tensors, or 0 to compute it.")
    sources, targets = _entries(caller, "src", src, count), _entries(caller, "dest", dest, count)
    pairs = [
        _pair(caller, d, s, f"dest[{i}]", f"src[{i}]") for i, (d, s) in enumerate(zip(targets, sources, strict=True))
    ]
    targets_by_name = {caller.name(f"dest[{i}]"): y for i, (_, y) in enumerate(pairs)}
    check_sharing(caller, targets_by_name)
    if not pairs:
        return
    if not engines.is_native():
        clipped = reference.clip_by_global_norm([x.read(np.float64) for x, _ in pairs], limit, known)
        for (_, y), numbers in zip(pairs, clipped, strict=True):
            y.write(numbers)
        return
    inputs = [x.read(np.float32) for x, _ in pairs]
    crossing = bool(sharing(targets_by_name)) or any(
        y.overlaps(x) and not (i == k and y.same_memory(x))
        for i, (_, y) in enumerate(pairs)
        for k, (x, _) in enumerate(pairs)
    )
    outputs = [None if crossing else y.direct() for _, y in pairs]
    results = [np.empty(x.shape, np.float32) if y is None else y for x, y in zip(inputs, outputs, strict=True)]
    tensors = [(a.ctypes.data, b.ctypes.data, a.size) for a, b in zip(inputs, results, strict=True)]
    engines._core.clip_by_global_norm(tensors, limit, known, 0)
    for (_, y), place, result in zip(pairs, outputs, results, strict=True):
        if place is None:
            y.write(result)


def compute_norm(caller: Caller, dest: Any, src: Any, norm_type: Any, axis_flags: Any) -> None:
    """y = sqrt(sum of x^2 over the axes); y does not have these axes."""
    _check_type(caller, norm_type)
    x = _bind(caller, "src", src)
    inside = _inside(caller, x.view, axis_flags)
    y = _bind_norm(caller, "dest", dest, x.view, inside, output=True)
    if not engines.is_native():
        y.write(reference.norm(x.read(np.float64)[0], _axes(inside, x.view)).reshape(1, *y.shape))
        return
    numbers = x.read(np.float32)
    target = None if y.overlaps(x) else y.direct()
    norms = np.empty((1, *y.shape), np.float32) if target is None else target
    plan = engines._core.norm(rank=len(x.shape), size=x.shape, inside=[a in inside for a in x.order])
    engines._core.run(plan, False, 1, [(X, numbers.ctypes.data, 0), (Y, norms.ctypes.data, 0)], 0, 0)
    if target is None:
        y.write(norms)


def compute_norm_backward(
    caller: Caller, in_: Any, in_delta: Any, out: Any, out_delta: Any, norm_type: Any, axis_flags: Any
) -> None:
    """dx = dy * x / y, 0 where y = 0; `in_` is described by in_delta and `out` by out_delta."""
    _check_type(caller, norm_type)
    for name, descriptor in (("in_delta", in_delta), ("out_delta", out_delta)):
        require_descriptor(caller, name, descriptor, "Pass the descriptor of the gradient.")
    view = resolve(in_delta, caller("in_delta"))
    resolve_delta(in_delta, caller("in_delta"), view, output=True)
    inside = _inside(caller, view, axis_flags)
    order = view.memory_axes
    dx = bind(
        view,
        order,
        view.shape,
        caller("in_delta").field("data"),
        in_delta.data,
        1,
        0,
        output=True,
        flags=in_delta.flags,
    )
    x = bind(view, order, view.shape, caller("in"), in_, 1, 0)
    dy = _bind_norm(caller, "out_delta", out_delta, view, inside, output=False)
    resolve_delta(out_delta, caller("out_delta"), dy.view, output=False)
    y = bind(dy.view, dy.order, dy.shape, caller("out"), out, 1, 0)
    if not engines.is_native():
        wide = [t.read(np.float64)[0] for t in (x, y, dy)]
        dx.write(reference.norm_backward(wide[0], wide[1], wide[2], _axes(inside, view))[np.newaxis])
        return
    tensors = {X: x.read(np.float32), Y: y.read(np.float32), DY: dy.read(np.float32)}
    target = None if any(dx.overlaps(t) for t in (x, y, dy)) else dx.direct()
    result = np.empty((1, *dx.shape), np.float32) if target is None else target
    tensors[DX] = result
    accumulate = 1 << DX if target is not None and dx.accumulate else 0
    plan = engines._core.norm(rank=len(order), size=view.shape, inside=[a in inside for a in order])
    engines._core.run(plan, True, 1, [(slot, a.ctypes.data, 0) for slot, a in tensors.items()], accumulate, 0)
    if target is None:
        dx.write(result)


# ---------------------------------------------------------------------------------------------------------------------
# Arguments


def number(value: Any, who: str) -> float:
    """A ``float`` argument."""
    if not isinstance(value, (str, bytes)):
        with suppress(TypeError, ValueError, OverflowError):
            return float(value)
    raise TypeError(f"{who} must be a number, not {type(value).__name__}.")


def _limit(caller: Caller, max_norm: Any) -> float:
    limit = number(max_norm, caller("max_norm"))
    if not limit >= 0.0:
        raise Problem(f"{caller('max_norm')} is {limit:g}. The limit of a norm must be a number of at least 0.")
    return limit


def _check_type(caller: Caller, norm_type: Any) -> None:
    if integer(norm_type, caller("norm_type")) != BNNSNormType.BNNSL2Norm:
        raise Problem(f"{caller('norm_type')} is {int(norm_type)}, but BNNSL2Norm (1) is the only norm.")


def _bind(caller: Caller, name: str, descriptor: Any, *, output: bool = False) -> Bound:
    """A whole tensor with its data, in the order of memory."""
    require_descriptor(caller, name, descriptor)
    who = caller(name)
    view = resolve(descriptor, who)
    if view.element.kind not in ("float", "bfloat"):
        raise Problem(
            f"{who}.data_type is {view.element.name}, but norms and clipping work on Float32, Float16 and BFloat16.",
            kind=TypeError,
        )
    require_data(caller, name, descriptor, view)
    return bind(view, view.memory_axes, view.shape, who.field("data"), descriptor.data, 1, 0, output=output)


def _pair(caller: Caller, dest: Any, src: Any, dest_name: str = "dest", src_name: str = "src") -> tuple[Bound, Bound]:
    """Input and output of equal size; the output in the order of the input's axes."""
    x = _bind(caller, src_name, src)
    y = _bind(caller, dest_name, dest, output=True)
    if x.view.numbered_shape == y.view.numbered_shape:
        return x, aligned(y, x)
    raise Problem(
        f"{caller(dest_name)} is {describe(y.view)}, but {caller.name(src_name)} is {describe(x.view)}. Give both the same "
        "layout and size."
    )


def _entries(caller: Caller, name: str, tensors: Any, count: int) -> Sequence[Any]:
    if tensors is None:
        raise Problem(f"{caller(name)} is {caller.null}. Pass a list of {count} descriptors.")
    tensors = entries(tensors, caller(name), "BNNSNDArrayDescriptor")
    if len(tensors) < count:
        raise Problem(f"{caller(name)} has {plural(len(tensors), 'entry')}, but {caller.name('count')} is {count}.")
    return [tensors[i] for i in range(count)]


def _inside(caller: Caller, view: View, axis_flags: Any) -> set[int]:
    """The axes of size[] inside the norm: bit d is axis number d, 0 means all."""
    flags = integer(axis_flags, caller("axis_flags"))
    rank = len(view.size)
    if not 0 <= flags < 1 << rank:
        raise Problem(
            f"{caller('axis_flags')} is {flags:#x}, but {describe(view)} has axes 0 to {rank - 1}: bit d stands for "
            "axis d, and 0 for all axes."
        )
    return {axis for number, axis in enumerate(view.numbered_axes) if flags >> number & 1} or set(range(rank))


def _axes(inside: set[int], view: View) -> tuple[int, ...]:
    """The axes inside the norm as axes of the C-order array."""
    return tuple(position for position, axis in enumerate(view.memory_axes) if axis in inside)


def _bind_norm(caller: Caller, name: str, descriptor: Any, x: View, inside: set[int], *, output: bool) -> Bound:
    """The tensor of norms: the sizes of the axes that are left, or one element."""
    who = caller(name)
    bound = _bind(caller, name, descriptor, output=output)
    sizes = shape_without(x, inside)
    if not sizes:
        if bound.view.count == 1:
            return bound
        raise Problem(f"{who} is {describe(bound.view)}, but the norm over all axes is one value: a Vector of size 1.")
    if bound.view.numbered_shape != sizes:
        numbers = [n for n, axis in enumerate(x.numbered_axes) if axis in inside]
        raise Problem(
            f"{who} is {describe(bound.view)}, but the norm over axes {numbers} of {describe(x)} has size {sizes}. "
            "Axes inside the norm are removed."
        )
    return aligned_without(bound, x, inside)


def _run_elementwise(plan: Any, x: Bound, y: Bound) -> None:
    """Run a plan X -> Y of equal shapes, in place where the caller asks for it."""
    numbers = x.read(np.float32)
    target: NDArray[Any] | None = y.direct()
    if target is not None and x.overlaps(y) and not x.same_memory(y):
        target = None
    result = np.empty((1, *y.shape), np.float32) if target is None else target
    engines._core.run(plan, False, 1, [(X, numbers.ctypes.data, 0), (Y, result.ctypes.data, 0)], 0, 0)
    if target is None:
        y.write(result)
