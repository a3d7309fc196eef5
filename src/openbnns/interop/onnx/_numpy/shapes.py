"""Elements in other places, and constants made from nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....graph.sizes import Size
from ....graph.tensor import Array
from ...converted.tensors import Misfit
from .._call import Call
from .._file import numpy_type
from ._table import limited, register

_FAR = 2**31 - 1  # from here on, the end of a slice is that of the axis


@register("Size")
def _size(call: Call, x: Array) -> Any:
    return np.int64(x.size)


@register("Shape")
def _shape(call: Call, x: Array) -> Any:
    return np.array(part_of_shape(call, x.shape), np.int64)


def part_of_shape(call: Call, shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """The part of a shape that the operator Shape gives."""
    return shape[call.integer("start", 0) : call.integer("end", len(shape))]


@register("Reshape")
def _reshape(call: Call, x: Array, shape: Array) -> Any:
    sizes = [int(n) for n in shape.ravel()]
    if not call.integer("allowzero", 0):
        sizes = [x.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    return x.reshape(sizes)


@register("Flatten")
def _flatten(call: Call, x: Array) -> Any:
    axis = flat_axis(call, x.ndim)
    return x.reshape(math.prod(x.shape[:axis]), -1)


def flat_axis(call: Call, rank: int) -> int:
    axis = call.integer("axis", 1)
    if not -rank <= axis <= rank:
        raise Misfit(f"axis {axis} is not one of {rank}")
    return axis + rank if axis < 0 else axis


def listed(array: Array | None) -> list[int] | None:
    return None if array is None else [int(n) for n in array.ravel()]


@register("Squeeze")
def _squeeze(call: Call, x: Array, axes: Array | None = None) -> Any:
    chosen = call.optional_integers("axes") if axes is None else listed(axes)
    return np.squeeze(x, None if chosen is None else tuple(chosen))


@register("Unsqueeze")
def _unsqueeze(call: Call, x: Array, axes: Array | None = None) -> Any:
    return np.expand_dims(x, call.integers("axes") if axes is None else tuple(listed(axes) or ()))


@register("Transpose")
def _transpose(call: Call, x: Array) -> Any:
    return np.transpose(x, call.integers("perm", tuple(range(x.ndim))[::-1]))


@register("Concat")
def _concat(call: Call, *arrays: Array) -> Any:
    return np.concatenate(arrays, call.integer("axis"))


@register("Split")
def _split(call: Call, x: Array, sizes: Array | None = None) -> Any:
    axis = call.integer("axis", 0)
    parts = split_sizes(call, x.shape[axis], call.optional_integers("split") if sizes is None else listed(sizes))
    return tuple(np.split(x, np.cumsum(parts)[:-1], axis))


def split_sizes(call: Call, total: Any, sizes: list[int] | None) -> list[Any]:
    """How long the parts are that a tensor is split into."""
    if sizes is not None:
        if sum(sizes) != total or min(sizes, default=0) < 0:
            raise Misfit(f"parts of {sizes} do not make up {total}")
        return sizes
    count = call.integer("num_outputs", len(call.node.outputs))
    if count < 1 or (count != len(call.node.outputs)):
        raise Misfit(f"num_outputs is {count}, but there are {len(call.node.outputs)}")
    if isinstance(total, Size) and total % count == 0:
        return [total // count] * count
    total = int(total)
    size = -(-total // count)
    return [max(0, min(size, total - i * size)) for i in range(count)]


@register("Slice")
def _slice(call: Call, x: Array, *bounds: Array | None) -> Any:
    given = [listed(bound) for bound in bounds] or [call.optional_integers(name) for name in ("starts", "ends", "axes")]
    return x[slices(x.shape, *given)]


def slices(
    shape: Sequence[Any], starts: list[Any] | None, ends: list[Any] | None, axes: list[int] | None = None,
    steps: list[int] | None = None,
) -> tuple[slice, ...]:  # fmt: skip
    """The part of a tensor that a node takes, as slices of all axes."""
    if starts is None or ends is None:
        raise Misfit("starts and ends are needed")
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise Misfit("starts, ends, axes and steps differ in number")
    cuts = [slice(None)] * len(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if not -len(shape) <= axis < len(shape) or step == 0:
            raise Misfit(f"axis {axis} or step {step} is not possible for {tuple(shape)}")
        if isinstance(shape[axis], Size) and step > 0:
            cuts[axis] = slice(start, None if isinstance(end, int) and end >= _FAR else end, step)
            continue
        size, start, end = int(shape[axis]), int(start), int(end)
        first, last, _ = slice(start, max(end, -(2**62)), step).indices(size)
        cuts[axis] = slice(first, None if step < 0 and last < 0 else last, step)
    return tuple(cuts)


@register("Gather")
def _gather(call: Call, x: Array, indices: Array) -> Any:
    axis = call.integer("axis", 0)
    limited((*x.shape[:axis], *indices.shape, *x.shape[axis % x.ndim + 1 :]))
    return np.take(x, indices.astype(np.int64), axis)


@register("GatherElements")
def _gather_elements(call: Call, x: Array, indices: Array) -> Any:
    axis = call.integer("axis", 0)
    return np.take_along_axis(x, indices % x.shape[axis], axis)


@register("ScatterElements", "Scatter")
def _scatter_elements(call: Call, x: Array, indices: Array, updates: Array) -> Any:
    axis = call.integer("axis", 0) % max(1, x.ndim)
    result, how = x.copy(), call.text("reduction", "none")
    places = list(np.indices(indices.shape))
    places[axis] = indices % x.shape[axis]
    functions = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    if how in functions:
        functions[how].at(result, tuple(places), updates)
    else:
        result[tuple(places)] = updates
    return result


@register("GatherND")
def _gather_nd(call: Call, x: Array, indices: Array) -> Any:
    batch = call.integer("batch_dims", 0)
    grids = np.indices(indices.shape[:-1])[:batch]
    places = (*grids, *np.moveaxis(indices, -1, 0))
    return x[places]


@register("ScatterND")
def _scatter_nd(call: Call, x: Array, indices: Array, updates: Array) -> Any:
    result, how, places = x.copy(), call.text("reduction", "none"), tuple(np.moveaxis(indices, -1, 0))
    functions = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    if how in functions:
        functions[how].at(result, places, updates)
    else:
        result[places] = updates
    return result


@register("Expand")
def _expand(call: Call, x: Array, shape: Array) -> Any:
    return np.array(np.broadcast_to(x, limited(np.broadcast_shapes(x.shape, limited(shape)))), order="C")


@register("Tile")
def _tile(call: Call, x: Array, repeats: Array) -> Any:
    limited([n * int(r) for n, r in zip(x.shape, repeats, strict=True)])
    return np.tile(x, [int(r) for r in repeats])


@register("Pad")
def _pad(call: Call, x: Array, pads: Array | None = None, value: Array | None = None, axes: Array | None = None) -> Any:
    pairs = pad_widths(x.ndim, (call.optional_integers("pads") if pads is None else listed(pads)) or [], listed(axes))
    limited([n + a + b for n, (a, b) in zip(x.shape, pairs, strict=True)])
    if min(map(min, pairs)) < 0:
        raise Misfit("negative pads of constants have no counterpart here")
    mode = call.text("mode", "constant")
    filling = call.number("value", 0.0) if value is None else value.item()
    options = {"constant_values": filling} if mode == "constant" else {}
    return np.pad(x, pairs, mode, **options)  # type: ignore[call-overload]


def pad_widths(rank: int, pads: list[int], axes: list[int] | None) -> list[tuple[int, int]]:
    """(in front, behind) of all axes."""
    chosen = list(range(rank)) if axes is None else [axis % rank for axis in axes]
    if len(pads) != 2 * len(chosen):
        raise Misfit(f"pads {pads} are not two for each of the axes {chosen}")
    pairs = [(0, 0)] * rank
    for i, axis in enumerate(chosen):
        pairs[axis] = (pads[i], pads[i + len(chosen)])
    return pairs


@register("Trilu")
def _trilu(call: Call, x: Array, k: Array | None = None) -> Any:
    offset = 0 if k is None else int(k.item())
    return np.triu(x, offset) if call.integer("upper", 1) else np.tril(x, offset)


# Made from nothing.


@register("Constant")
def _constant(call: Call) -> Any:
    names = [name for name in call.node.attributes if name.startswith("value")]
    if len(names) != 1:
        raise Misfit("a constant has one value")
    value = call.attribute(names[0])
    if names[0] == "value":
        return call.tensor("value")
    if names[0] in ("value_float", "value_floats"):
        return np.array(value, np.float32)
    if names[0] in ("value_int", "value_ints"):
        return np.array(value, np.int64)
    raise Misfit(f"{names[0]} is not a constant of numbers")


@register("ConstantOfShape")
def _constant_of_shape(call: Call, shape: Array) -> Any:
    value = call.tensor("value")
    filled = np.zeros(1, np.float32) if value is None else value
    return np.full(limited(shape), filled.reshape(-1)[0], filled.dtype)


@register("Range")
def _range(call: Call, start: Array, limit: Array, delta: Array) -> Any:
    first, last, step = start.item(), limit.item(), delta.item()
    limited([max(0, math.ceil((last - first) / step))])
    return np.arange(first, last, step, dtype=start.dtype)


@register("EyeLike")
def _eye(call: Call, x: Array) -> Any:
    wanted = (numpy_type(call.integer("dtype")) if call.has("dtype") else None) or x.dtype
    rows, columns = limited(x.shape)
    return np.eye(rows, columns, k=call.integer("k", 0), dtype=wanted)


@register("OneHot")
def _one_hot(call: Call, indices: Array, depth: Array, values: Array) -> Any:
    count, axis = int(depth.item()), call.integer("axis", -1)
    limited((*indices.shape, count))
    numbers = indices.astype(np.int64)
    places = np.where(
        (numbers < -count) | (numbers >= count), count, numbers % count
    )  # what is out of range is nowhere
    rows = np.full((count + 1, count), values[0], values.dtype)
    np.fill_diagonal(rows, values[1])
    return np.moveaxis(rows[places], -1, axis)
