"""Operators in NumPy: for constants, which are computed once, and for whole numbers and masks, which have no gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .._value import Array
from ..converted.sizes import Size
from ..converted.tensors import Misfit
from ._call import MOST_NUMBERS, Call
from ._file import numpy_type

Body = Callable[..., Any]

TABLE: dict[str, Body] = {}

WITHOUT_GRADIENT = {
    "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "Not", "IsNaN", "IsInf", "Hardmax",
    "BitwiseAnd", "BitwiseOr", "BitwiseXor",
}  # fmt: skip
"""What has no gradient even for tensors of numbers."""

MOVES = {
    "Identity", "Cast", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Concat", "Slice", "Gather", "Split",
}  # fmt: skip
"""What puts elements in other places and leaves them as they are."""


def compute(call: Call, arrays: Sequence[Array | None]) -> tuple[Array, ...]:
    """The results of an operator on arrays."""
    try:
        with np.errstate(all="ignore"):
            results = TABLE[call.op](call, *arrays)
    except Misfit:
        raise
    except (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError, AttributeError) as error:
        if any(array is not None and array.dtype == object for array in arrays):
            raise Misfit("it computes with the size of the batch, which is no number here") from None
        raise Misfit(f"it cannot be computed ({error})") from None
    listed = results if isinstance(results, tuple) else (results,)
    return tuple(_settled(result) for result in listed)


def _settled(result: Any) -> Array:
    """Whole numbers as such, where no size of a batch is left among them."""
    array = np.asarray(result)
    if array.dtype == object and not any(isinstance(n, Size) for n in array.ravel()):
        array = array.astype(np.int64)
    return array


def limited(shape: Iterable[Any]) -> tuple[int, ...]:
    """A shape to be filled, if that is possible."""
    sizes = tuple(shape)
    if any(isinstance(n, Size) for n in sizes):
        raise Misfit("a constant has the size of the batch")
    numbers = tuple(int(n) for n in sizes)
    if any(n < 0 for n in numbers) or math.prod(numbers) > MOST_NUMBERS:
        raise Misfit(f"a constant of shape {numbers} is too large, or is none")
    return numbers


def _register(*names: str) -> Callable[[Body], Body]:
    def register(body: Body) -> Body:
        for name in names:
            TABLE[name] = body
        return body

    return register


# Element by element.


def _elementwise(function: Any) -> Body:
    def body(call: Call, *arrays: Array) -> Any:
        limited(np.broadcast_shapes(*(a.shape for a in arrays)))
        result = function(*arrays)
        kind = arrays[0].dtype
        return (
            result.astype(kind)
            if kind.kind in "fiu" and result.dtype.kind in "fiu" and result.dtype != kind
            else result
        )

    return body


def _compared(function: Any) -> Body:
    def body(call: Call, a: Array, b: Array) -> Any:
        limited(np.broadcast_shapes(a.shape, b.shape))
        return np.asarray(function(a, b), np.bool_)

    return body


def _divided(a: Array, b: Array) -> Any:
    if a.dtype == object or b.dtype == object:
        return a // b
    if a.dtype.kind == "f":
        return a / b
    quotient = np.abs(a.astype(np.int64)) // np.abs(b.astype(np.int64))
    return quotient * np.sign(a.astype(np.int64)) * np.sign(b.astype(np.int64))


def _folded(function: Any) -> Any:
    def several(*arrays: Array) -> Any:
        result = arrays[0]
        for other in arrays[1:]:
            result = function(result, other)
        return result

    return several


_ELEMENTWISE: dict[str, Any] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _divided, "Neg": np.negative, "Abs": np.abs,
    "Exp": np.exp, "Log": np.log, "Sqrt": np.sqrt, "Floor": np.floor, "Ceil": np.ceil, "Round": np.round, "Sign": np.sign,
    "Reciprocal": lambda x: 1 / x, "Sin": np.sin, "Cos": np.cos, "Tan": np.tan, "Tanh": np.tanh,
    "Sigmoid": lambda x: 0.5 * (1 + np.tanh(0.5 * x)), "Relu": lambda x: np.maximum(x, 0),
    "Max": _folded(np.maximum), "Min": _folded(np.minimum), "Sum": _folded(np.add),
    "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor,
}  # fmt: skip
for _name, _function in _ELEMENTWISE.items():
    TABLE[_name] = _elementwise(_function)
_COMPARED: dict[str, Any] = {
    "Equal": np.equal, "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal, "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor,
}  # fmt: skip
for _name, _function in _COMPARED.items():
    TABLE[_name] = _compared(_function)


@_register("Pow")
def _pow(call: Call, a: Array, b: Array) -> Any:
    limited(np.broadcast_shapes(a.shape, b.shape))
    if a.dtype.kind in "iu":
        return np.power(a.astype(np.float64), b).astype(a.dtype)
    return np.power(a, b).astype(a.dtype)


@_register("Mod")
def _mod(call: Call, a: Array, b: Array) -> Any:
    return np.fmod(a, b) if call.integer("fmod", 0) else np.mod(a, b)


@_register("Not")
def _not(call: Call, x: Array) -> Any:
    return np.logical_not(x)


@_register("IsNaN")
def _is_nan(call: Call, x: Array) -> Any:
    return np.isnan(x)


@_register("IsInf")
def _is_inf(call: Call, x: Array) -> Any:
    up, down = call.integer("detect_positive", 1), call.integer("detect_negative", 1)
    return (np.isposinf(x) & bool(up)) | (np.isneginf(x) & bool(down))


@_register("Clip")
def _clip(call: Call, x: Array, low: Array | None = None, high: Array | None = None) -> Any:
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


@_register("Where")
def _where(call: Call, condition: Array, a: Array, b: Array) -> Any:
    limited(np.broadcast_shapes(condition.shape, a.shape, b.shape))
    return np.where(condition, a, b)


@_register("Identity", "Dropout")
def _identity(call: Call, x: Array, *rest: Any) -> Any:
    return (x, np.ones(x.shape, np.bool_))[: max(1, call.outputs)]


@_register("Cast")
def _cast(call: Call, x: Array) -> Any:
    wanted = numpy_type(call.integer("to"))
    if wanted is None:
        raise Misfit(f"to={call.integer('to')} is a type that networks do not compute with")
    if x.dtype == object:
        return x
    return x.astype(wanted)


@_register("CastLike")
def _cast_like(call: Call, x: Array, like: Array) -> Any:
    return x if x.dtype == object else x.astype(like.dtype)


# Shapes.


@_register("Size")
def _size(call: Call, x: Array) -> Any:
    return np.int64(x.size)


@_register("Shape")
def _shape(call: Call, x: Array) -> Any:
    return np.array(part_of_shape(call, x.shape), np.int64)


def part_of_shape(call: Call, shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the operator Shape gives of a shape."""
    return shape[call.integer("start", 0) : call.integer("end", len(shape))]


@_register("Reshape")
def _reshape(call: Call, x: Array, shape: Array) -> Any:
    sizes = [int(n) for n in shape.ravel()]
    if not call.integer("allowzero", 0):
        sizes = [x.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    return x.reshape(sizes)


@_register("Flatten")
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


@_register("Squeeze")
def _squeeze(call: Call, x: Array, axes: Array | None = None) -> Any:
    chosen = listed(axes)
    return np.squeeze(x, None if chosen is None else tuple(chosen))


@_register("Unsqueeze")
def _unsqueeze(call: Call, x: Array, axes: Array) -> Any:
    return np.expand_dims(x, tuple(listed(axes) or ()))


@_register("Transpose")
def _transpose(call: Call, x: Array) -> Any:
    return np.transpose(x, call.integers("perm", tuple(range(x.ndim))[::-1]))


@_register("Concat")
def _concat(call: Call, *arrays: Array) -> Any:
    return np.concatenate(arrays, call.integer("axis"))


@_register("Split")
def _split(call: Call, x: Array, sizes: Array | None = None) -> Any:
    axis = call.integer("axis", 0)
    parts = split_sizes(call, x.shape[axis], listed(sizes))
    return tuple(np.split(x, np.cumsum(parts)[:-1], axis))


def split_sizes(call: Call, total: int, sizes: list[int] | None) -> list[int]:
    """How long the parts are that a tensor is split into."""
    if sizes is not None:
        if sum(sizes) != total or min(sizes, default=0) < 0:
            raise Misfit(f"parts of {sizes} do not make up {total}")
        return sizes
    count = call.integer("num_outputs", len(call.node.outputs))
    if count < 1 or (count != len(call.node.outputs)):
        raise Misfit(f"num_outputs is {count}, but there are {len(call.node.outputs)}")
    size = -(-total // count)
    return [max(0, min(size, total - i * size)) for i in range(count)]


@_register("Slice")
def _slice(call: Call, x: Array, *bounds: Array | None) -> Any:
    return x[slices(x.shape, *(listed(bound) for bound in bounds))]


def slices(
    shape: Sequence[Any], starts: list[int] | None, ends: list[int] | None, axes: list[int] | None = None,
    steps: list[int] | None = None,
) -> tuple[slice, ...]:  # fmt: skip
    """The part of a tensor that a node takes, as slices of all axes."""
    if starts is None or ends is None:
        raise Misfit("starts and ends are needed")
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise Misfit("starts, ends, axes and steps differ in number")
    found = [slice(None)] * len(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if not -len(shape) <= axis < len(shape) or step == 0:
            raise Misfit(f"axis {axis} or step {step} is not possible for {tuple(shape)}")
        if isinstance(shape[axis], Size):
            found[axis] = slice(start, end, step)
            continue
        size = int(shape[axis])
        first, last, _ = slice(start, max(end, -(2**62)), step).indices(size)
        found[axis] = slice(first, None if step < 0 and last < 0 else last, step)
    return tuple(found)


@_register("Gather")
def _gather(call: Call, x: Array, indices: Array) -> Any:
    axis = call.integer("axis", 0)
    limited((*x.shape[:axis], *indices.shape, *x.shape[axis % x.ndim + 1 :]))
    return np.take(x, indices.astype(np.int64), axis)


@_register("GatherElements")
def _gather_elements(call: Call, x: Array, indices: Array) -> Any:
    axis = call.integer("axis", 0)
    return np.take_along_axis(x, indices % x.shape[axis], axis)


@_register("Expand")
def _expand(call: Call, x: Array, shape: Array) -> Any:
    return np.ascontiguousarray(np.broadcast_to(x, limited(np.broadcast_shapes(x.shape, limited(shape)))))


@_register("Tile")
def _tile(call: Call, x: Array, repeats: Array) -> Any:
    limited([n * int(r) for n, r in zip(x.shape, repeats, strict=True)])
    return np.tile(x, [int(r) for r in repeats])


@_register("Pad")
def _pad(call: Call, x: Array, pads: Array, value: Array | None = None, axes: Array | None = None) -> Any:
    pairs = pad_widths(x.ndim, listed(pads) or [], listed(axes))
    limited([n + a + b for n, (a, b) in zip(x.shape, pairs, strict=True)])
    if min(map(min, pairs)) < 0:
        raise Misfit("negative pads of constants have no counterpart here")
    mode = call.text("mode", "constant")
    options = {"constant_values": 0 if value is None else value.item()} if mode == "constant" else {}
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


@_register("Trilu")
def _trilu(call: Call, x: Array, k: Array | None = None) -> Any:
    offset = 0 if k is None else int(k.item())
    return np.triu(x, offset) if call.integer("upper", 1) else np.tril(x, offset)


# Made from nothing.


@_register("Constant")
def _constant(call: Call) -> Any:
    found = [name for name in call.node.attributes if name.startswith("value")]
    if len(found) != 1:
        raise Misfit("a constant has one value")
    value = call.attribute(found[0])
    if found[0] == "value":
        return call.tensor("value")
    if found[0] in ("value_float", "value_floats"):
        return np.array(value, np.float32)
    if found[0] in ("value_int", "value_ints"):
        return np.array(value, np.int64)
    raise Misfit(f"{found[0]} is not a constant of numbers")


@_register("ConstantOfShape")
def _constant_of_shape(call: Call, shape: Array) -> Any:
    value = call.tensor("value")
    filled = np.zeros(1, np.float32) if value is None else value
    return np.full(limited(shape), filled.reshape(-1)[0], filled.dtype)


@_register("Range")
def _range(call: Call, start: Array, limit: Array, delta: Array) -> Any:
    first, last, step = start.item(), limit.item(), delta.item()
    limited([max(0, math.ceil((last - first) / step))])
    return np.arange(first, last, step, dtype=start.dtype)


@_register("EyeLike")
def _eye(call: Call, x: Array) -> Any:
    wanted = (numpy_type(call.integer("dtype")) if call.has("dtype") else None) or x.dtype
    rows, columns = limited(x.shape)
    return np.eye(rows, columns, k=call.integer("k", 0), dtype=wanted)


@_register("OneHot")
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


# Along axes.


def axes_of(call: Call, rank: int, axes: list[int] | None) -> tuple[int, ...] | None:
    """The axes that a reduction is over; none of them means that it does nothing."""
    given = call.integers("axes", ()) if axes is None else tuple(axes)
    if not given:
        return () if call.integer("noop_with_empty_axes", 0) else None
    return tuple(sorted(_one_axis(axis, rank) for axis in given))


def _one_axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise Misfit(f"axis {axis} is not one of {rank}")
    return axis % rank


def _reduction(function: Any) -> Body:
    def body(call: Call, x: Array, axes: Array | None = None) -> Any:
        chosen = axes_of(call, x.ndim, listed(axes))
        if chosen == () and x.ndim and call.op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"):
            return x
        result = function(x, axis=chosen, keepdims=bool(call.integer("keepdims", 1)))
        return np.asarray(result).astype(x.dtype)

    return body


_REDUCTIONS: dict[str, Any] = {
    "ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceProd": np.prod,
    "ReduceL1": lambda x, **o: np.sum(np.abs(x), **o), "ReduceL2": lambda x, **o: np.sqrt(np.sum(np.square(x), **o)),
    "ReduceSumSquare": lambda x, **o: np.sum(np.square(x), **o), "ReduceLogSum": lambda x, **o: np.log(np.sum(x, **o)),
}  # fmt: skip
for _name, _function in _REDUCTIONS.items():
    TABLE[_name] = _reduction(_function)


@_register("ArgMax", "ArgMin")
def _position(call: Call, x: Array) -> Any:
    axis, find = call.integer("axis", 0), np.argmax if call.op == "ArgMax" else np.argmin
    if call.integer("select_last_index", 0):
        found = x.shape[axis] - 1 - find(np.flip(x, axis), axis)
    else:
        found = find(x, axis)
    return np.expand_dims(found, axis) if call.integer("keepdims", 1) else found


@_register("Hardmax")
def _hardmax(call: Call, x: Array) -> Any:
    axis = call.integer("axis", -1)
    result = np.zeros_like(x)
    np.put_along_axis(result, np.expand_dims(np.argmax(x, axis), axis), 1, axis)
    return result


@_register("CumSum")
def _cumulated(call: Call, x: Array, axis: Array) -> Any:
    place = int(axis.item())
    turned = np.flip(x, place) if call.integer("reverse", 0) else x
    total = np.cumsum(turned, place, dtype=x.dtype)
    if call.integer("exclusive", 0):
        total = total - turned
    return np.flip(total, place) if call.integer("reverse", 0) else total


@_register("MatMul")
def _matmul(call: Call, a: Array, b: Array) -> Any:
    limited(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + a.shape[-2:-1] + b.shape[-1:])
    return np.matmul(a, b)


# Where maxima are: here in their plane, in ONNX in the whole tensor.


@_register("MaxPool")
def _whole_places(call: Call, places: Array, shape: Array) -> Any:
    plane = int(np.prod(shape[2:]))
    numbers = np.arange(math.prod(places.shape[:2])).reshape(places.shape[:2])
    offsets = numbers[(...,) + (None,) * (places.ndim - 2)] * plane
    if call.integer("storage_order", 0) and len(shape) == 4:
        height, width = int(shape[2]), int(shape[3])
        places = places % width * height + places // width
    return places + offsets


@_register("MaxUnpool")
def _plane_places(call: Call, indices: Array, sizes: Array) -> Any:
    own, larger = np.split(sizes, 2)
    places = indices % int(np.prod(own))
    if len(own) == 1:
        return places
    return places // own[1] * larger[1] + places % own[1]
