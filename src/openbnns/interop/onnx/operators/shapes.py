"""Reshape, transpose, slice, split, gather, scatter, concatenate and pad."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....graph import functions as F
from ....graph import operations
from ....graph.numpy_function import Function
from ....graph.parameter import Parameter
from ....graph.sizes import AnySize, Size, agree, is_plain, is_same, is_same_shape, product
from ....graph.tensor import FLOAT32, INT64, Array, Tensor
from ...converted.control import read_numbers
from ...converted.every_way import is_for_file
from ...converted.samples import Samples
from ...converted.tensors import ForeignTensor, Misfit, kind_of, reshaped, sizes_array
from .._call import Call
from .._file import numpy_type
from .._numpy import frozen, limited, listed
from .._operator import operator
from ..tensor import broadcast_shape, by_numpy, check_memory, constant_of, numbers_of, plain_numbers

SHAPES = "shapes"
PARTS = "parts and joints"


# The same elements in other shapes.


@operator(SHAPES, "Shape", whole_type="int64")
def shape_of(call: Call, x: ForeignTensor) -> ForeignTensor:
    return ForeignTensor(sizes_array(x.shape[call.integer("start", 0) : call.integer("end", x.rank)]))


@operator(SHAPES, "Size", whole_type="int64")
def size_of(call: Call, x: ForeignTensor) -> ForeignTensor:
    return ForeignTensor(sizes_array([product(x.shape)]).reshape(()))


def in_shape(x: ForeignTensor, shape: Sequence[Any]) -> ForeignTensor:
    return ForeignTensor(reshaped(x, shape), x.kind)


@operator(SHAPES, "Reshape", moves=True, shaping=(1,))
def reshape(call: Call, x: ForeignTensor, shape: ForeignTensor) -> ForeignTensor:
    sizes = numbers_of(shape, "shape") or []
    if not call.integer("allowzero", 0):
        if any(is_same(n, 0) and i >= x.rank for i, n in enumerate(sizes)):
            raise Misfit(f"{sizes} copies an axis that {x.shape} does not have")
        sizes = [x.shape[i] if is_same(n, 0) else n for i, n in enumerate(sizes)]
    if sum(is_same(n, -1) for n in sizes) > 1 or any(isinstance(n, int) and n < -1 for n in sizes):
        raise Misfit(f"{sizes} is not a shape")
    return in_shape(x, _with_freed(call, x, sizes))


def _with_freed(call: Call, x: ForeignTensor, sizes: list[Any]) -> list[Any]:
    """A shape for any number of samples in place of the one that the file has, where samples can be followed."""
    if x.constant or not isinstance(call.freed, Samples):
        return sizes
    return call.freed.shape_for(x.value, sizes) or sizes


@operator(SHAPES, "Flatten", moves=True)
def flatten(call: Call, x: ForeignTensor) -> ForeignTensor:
    axis = call.integer("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise Misfit(f"axis {axis} is not one of {x.rank}")
    axis = axis + x.rank if axis < 0 else axis
    return in_shape(x, (product(x.shape[:axis]), product(x.shape[axis:])))


@operator(SHAPES, "Squeeze", moves=True, shaping=(1,))
def squeeze(call: Call, x: ForeignTensor, axes: ForeignTensor | None = None) -> ForeignTensor:
    given = call.optional_integers("axes") if axes is None else plain_numbers(axes, "axes")
    chosen = [i for i, n in enumerate(x.shape) if n == 1] if given is None else [x.axis(axis) for axis in given]
    rest = [n for i, n in enumerate(x.shape) if i not in chosen]
    if isinstance(call.freed, Samples) and any(isinstance(x.shape[axis], Size) for axis in chosen):
        return in_shape(x, _with_freed(call, x, list(map(call.freed.as_written, rest))))
    if not all(agree(x.shape[axis], 1) for axis in chosen):
        raise Misfit(f"axes {given} of {x.shape} are not of size 1")
    return in_shape(x, rest)


@operator(SHAPES, "Unsqueeze", moves=True, shaping=(1,))
def unsqueeze(call: Call, x: ForeignTensor, axes: ForeignTensor | None = None) -> ForeignTensor:
    given = list(call.integers("axes")) if axes is None else plain_numbers(axes, "axes") or []
    rank = x.rank + len(given)
    if any(not -rank <= a < rank for a in given) or len({a % rank for a in given}) != len(given):
        raise Misfit(f"axes {given} cannot be added to {x.shape}")
    places = {a % rank for a in given}
    rest = iter(x.shape)
    return in_shape(x, _with_freed(call, x, [1 if i in places else next(rest) for i in range(rank)]))


def _transposed(call: Call, x: Array) -> Any:
    return np.transpose(x, call.integers("perm", tuple(range(x.ndim))[::-1]))


@operator(SHAPES, "Transpose", compute=_transposed, moves=True, records_whole=True)
def transpose(call: Call, x: ForeignTensor) -> ForeignTensor:
    order = call.integers("perm", tuple(range(x.rank))[::-1])
    if sorted(order) != list(range(x.rank)):
        raise Misfit(f"perm {order} does not name each axis of {x.shape} once")
    return ForeignTensor(F.permute(x.elements, *order), x.kind)


def _repeated(call: Call, x: Array, shape: Array) -> Any:
    return np.array(np.broadcast_to(x, limited(np.broadcast_shapes(x.shape, limited(shape)))), order="C")


@operator(SHAPES, "Expand", compute=_repeated, records_whole=True, folds_sizes=False, shaping=(1,))
def expand(call: Call, x: ForeignTensor, shape: ForeignTensor) -> ForeignTensor:
    sizes = numbers_of(shape, "shape") or []
    own = dict(enumerate(x.shape, len(sizes) - x.rank))
    for axis, n in enumerate(sizes):
        size = call.freed.get(n) if isinstance(n, int) else None
        if size is None or n == 1:
            continue
        free = isinstance(own.get(axis), Size) and is_same(own[axis], size)
        if free or (axis == 0 and is_plain(x.shape) and own.get(0, 1) == 1 and sizes.count(n) == 1):
            sizes[axis] = size  # a parameter that is repeated for every sample, as class tokens are
    for axis, n in enumerate(sizes):
        if isinstance(n, Size) and axis in own:
            x = alike_along(x, axis - len(sizes))
    return expanded(x, broadcast_shape([x.shape, sizes]))


def alike_along(x: ForeignTensor, axis: int) -> ForeignTensor:
    """A constant that exporters have repeated for every sample of their example, as one for any number of samples."""
    if not x.constant or x.held.dtype == object or is_same(x.shape[axis], 1):
        return x
    first = x.held.take([0], axis)
    return ForeignTensor(first, x.kind) if (x.held == first).all() else x


def expanded(x: ForeignTensor, shape: Sequence[AnySize]) -> ForeignTensor:
    """Repeated to a shape."""
    check_memory(tuple(shape))
    if x.constant and not any(isinstance(n, Size) for n in shape):
        return ForeignTensor(frozen(np.array(np.broadcast_to(x.held, limited(shape)), order="C")), x.kind)
    if is_same_shape(x.shape, shape):
        return x
    if x.kind != "f" and x.constant:
        return ForeignTensor(frozen(np.array(np.broadcast_to(x.held, limited(shape)), order="C")), x.kind)
    return ForeignTensor(F.expand(x.elements, *shape), x.kind)


def _for_samples(x: ForeignTensor, axis: int, size: Size) -> ForeignTensor:
    """A constant that is alike along an axis, for the free size that the axis meets."""
    one = alike_along(x, axis)
    return x if one is x else expanded(one, [*x.shape[:axis], size, *x.shape[axis + 1 :]])


def _tiled(call: Call, x: Array, repeats: Array) -> Any:
    limited([n * int(r) for n, r in zip(x.shape, repeats, strict=True)])
    return np.tile(x, [int(r) for r in repeats])


@operator(SHAPES, "Tile", compute=_tiled, folds_sizes=False, shaping=(1,))
def tile(call: Call, x: ForeignTensor, repeats: ForeignTensor) -> ForeignTensor:
    copies = numbers_of(repeats, "repeats") or []
    if len(copies) != x.rank:
        raise Misfit(f"repeats {copies} are not one for each axis of {x.shape}")
    if any(isinstance(c, int) and c < 1 for c in copies):
        raise Misfit(f"{copies} copies leave nothing")
    check_memory(tuple(n * c for n, c in zip(x.shape, copies, strict=True)))  # before copies are numbered
    return ForeignTensor(F.repeat(x.numbers, *copies))


def _type_of_filling(call: Call) -> str:
    value = call.tensor("value")
    return "int64" if value is None else str(value.dtype)


@operator(SHAPES, "ConstantOfShape", shaping=(0,), whole_type=_type_of_filling)
def constant_of_shape(call: Call, shape: ForeignTensor) -> ForeignTensor:
    value = call.tensor("value")
    filling = np.zeros(1, np.float32) if value is None else value
    sizes = numbers_of(shape, "shape") or []
    return expanded(ForeignTensor(filling.reshape([1] * len(sizes)), kind_of(filling.dtype)), sizes)


@operator(SHAPES, "Constant", whole_type=None)
def constant(call: Call) -> ForeignTensor:
    names = [name for name in call.node.attributes if name.startswith("value")]
    kinds = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    if len(names) != 1:
        raise Misfit("a constant has one value")
    if names[0] != "value" and names[0] not in kinds:
        raise Misfit(f"{names[0]} is not a constant of numbers")
    array: Any = call.tensor("value") if names[0] == "value" else np.array(call.attribute(names[0]), kinds[names[0]])
    return ForeignTensor(frozen(array))


def _eye(call: Call, x: Array) -> Any:
    wanted = (numpy_type(call.integer("dtype")) if call.has("dtype") else None) or x.dtype
    rows, columns = limited(x.shape)
    return np.eye(rows, columns, k=call.integer("k", 0), dtype=wanted)


@operator(SHAPES, "EyeLike", compute=_eye, whole_type=None)
def eye_like(call: Call, x: ForeignTensor) -> ForeignTensor:
    dtype: Any = np.bool_ if x.kind == "b" else np.float32 if x.kind == "f" else x.whole_type
    return ForeignTensor(_eye(call, np.zeros(limited(x.shape), dtype)))


@operator(SHAPES, "DepthToSpace", "SpaceToDepth")
def blocks(call: Call, x: ForeignTensor) -> ForeignTensor:
    """Channels as pixels, or pixels as channels."""
    size, value = call.integer("blocksize"), x.elements
    if x.rank != 4 or size < 1:
        raise Misfit(f"{x.shape} is not an image, which blocks of {size} are made of")
    count, channels, height, width = value.shape
    if call.op == "DepthToSpace":
        if channels % size**2 != 0:
            raise Misfit(f"{channels} channels cannot be cut into blocks of {size} x {size}")
        channels //= size**2
        blocks_first = call.text("mode", "DCR") == "DCR"
        apart = value.reshape(
            (count, *((size, size, channels) if blocks_first else (channels, size, size)), height, width)
        )
        turned = F.permute(apart, *((0, 3, 4, 1, 5, 2) if blocks_first else (0, 1, 4, 2, 5, 3)))
        return ForeignTensor(turned.reshape((count, channels, height * size, width * size)), x.kind)
    if height % size != 0 or width % size != 0:
        raise Misfit(f"an image of {height} x {width} cannot be cut into blocks of {size} x {size}")
    apart = value.reshape((count, channels, height // size, size, width // size, size))
    channels_first = call.text("mode", "DCR") == "CRD"
    turned = F.permute(apart, *((0, 1, 3, 5, 2, 4) if channels_first else (0, 3, 5, 1, 2, 4)))
    return ForeignTensor(turned.reshape((count, channels * size**2, height // size, width // size)), x.kind)


# Parts.

_FAR = 2**31 - 1  # from here on, the end of a slice is that of the axis


def _slices(
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


def _part(call: Call, x: Array, *bounds: Array | None) -> Any:
    given = [listed(bound) for bound in bounds] or [call.optional_integers(name) for name in ("starts", "ends", "axes")]
    return x[_slices(x.shape, *given)]


def _nothing(x: ForeignTensor, shape: Sequence[Any]) -> ForeignTensor:
    """A part without elements."""
    dtype: Any = {"f": np.float32, "i": x.whole_type, "b": np.bool_}[x.kind]
    return ForeignTensor(np.zeros(limited(shape), dtype), x.kind)


def _is_empty(x: ForeignTensor) -> bool:
    return any(isinstance(n, int) and n == 0 for n in x.shape)


@operator(
    PARTS,
    "Slice",
    compute=_part,
    moves=True,
    records_whole=True,
    shaping=(1, 2, 3, 4),
    once_attributes=("starts", "ends", "axes"),
)
def take_slice(
    call: Call, x: ForeignTensor, starts: ForeignTensor | None = None, ends: ForeignTensor | None = None, axes: ForeignTensor |
    None = None, steps: ForeignTensor | None = None,
) -> ForeignTensor:  # fmt: skip
    chosen, strides = plain_numbers(axes, "axes"), plain_numbers(steps, "steps")
    first, last = numbers_of(starts, "starts"), numbers_of(ends, "ends")
    if starts is None:
        first, last, chosen = (call.optional_integers(name) for name in ("starts", "ends", "axes"))
    keys = list(_slices(x.shape, first, last, chosen, strides))
    for axis, key in enumerate(keys):
        size = x.shape[axis]
        freed = call.freed.get(key.stop) if isinstance(key.stop, int) else None
        if freed is not None and is_same(size, freed) and key.start == 0 and key.step == 1:
            keys[axis] = slice(None)  # all that the file was written for
    if any(not isinstance(n, Size) and not len(range(*k.indices(n))) for k, n in zip(keys, x.shape, strict=True)):
        return _nothing(x, [len(range(*k.indices(int(n)))) for k, n in zip(keys, x.shape, strict=True)])
    return ForeignTensor(F.index(x.elements, tuple(keys)), x.kind)


def _sizes_of_parts(call: Call, total: Any, sizes: list[int] | None) -> list[Any]:
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


def _parts(call: Call, x: Array, sizes: Array | None = None) -> Any:
    axis = call.integer("axis", 0)
    parts = _sizes_of_parts(call, x.shape[axis], call.optional_integers("split") if sizes is None else listed(sizes))
    return tuple(np.split(x, np.cumsum(parts)[:-1], axis))


@operator(
    PARTS,
    "Split",
    compute=_parts,
    moves=True,
    records_whole=True,
    shaping=(1,),
    once_attributes=("split",),
    ignores=("num_outputs",),
)
def split(call: Call, x: ForeignTensor, sizes: ForeignTensor | None = None) -> Any:
    axis = x.axis(call.integer("axis", 0))
    given = call.optional_integers("split") if sizes is None else plain_numbers(sizes, "split")
    parts = _sizes_of_parts(call, x.shape[axis], given)
    shapes = [(*x.shape[:axis], n, *x.shape[axis + 1 :]) for n in parts]
    if any(isinstance(n, Size) for n in parts):
        pieces = iter([F.narrow(x.elements, axis, i * n, n) for i, n in enumerate(parts)])
    else:
        pieces = iter(F.split(x.elements, [n for n in parts if n], axis))
    return tuple(
        ForeignTensor(next(pieces), x.kind, whole_type=x.whole_type) if n else _nothing(x, s)
        for n, s in zip(parts, shapes, strict=True)
    )


def _taken(call: Call, x: Array, indices: Array) -> Any:
    axis = call.integer("axis", 0)
    limited((*x.shape[:axis], *indices.shape, *x.shape[axis % x.ndim + 1 :]))
    if indices.size == 1 and indices.ndim <= 1 and x.dtype != object:  # a view
        place = int(np.arange(x.shape[axis])[int(indices.item())])  # counted from the front, or an IndexError
        part = x[(slice(None),) * (axis % x.ndim) + (slice(place, place + 1),)]
        return part if indices.ndim else part.squeeze(axis)
    return np.take(x, indices.astype(np.int64), axis)


@operator(PARTS, "Gather", compute=_taken, moves=True, records_whole=True)
def gather(call: Call, x: ForeignTensor, indices: ForeignTensor) -> Any:
    axis = x.axis(call.integer("axis", 0))
    if not indices.constant:
        return _looked_up(x, indices, axis)
    numbers = indices.held
    if numbers.dtype == object:
        numbers = np.array(numbers.tolist(), np.int64)
    if numbers.dtype.kind not in "iu":
        raise Misfit("indices must be whole numbers")
    size = x.shape[axis]
    if not numbers.size:
        return _nothing(x, (*x.shape[:axis], *numbers.shape, *x.shape[axis + 1 :]))
    least, most = int(numbers.min()), int(numbers.max())
    if (least < 0 and -size > least) or most >= size:
        raise Misfit(f"indices from {least} to {most} are taken of axis {axis} of {x.shape}")
    if numbers.size == 1:
        part: Any = F.narrow(x.elements, axis, most if most >= 0 else size + most, 1)
    else:
        places = numbers.astype(np.int64).ravel()
        part = F.index_select(x.elements, axis, places % int(size) if least < 0 else places)
    return in_shape(ForeignTensor(part, x.kind), (*x.shape[:axis], *numbers.shape, *x.shape[axis + 1 :]))


def _looked_up(x: ForeignTensor, indices: ForeignTensor, axis: int) -> ForeignTensor:
    """Entries by numbers that are computed, or inputs: rows of a table, if it is a weight or a constant."""
    if indices.kind == "f":
        raise Misfit("indices must be whole numbers")
    if x.kind == "f" and axis == 0 and x.rank == 2 and isinstance(x.held, (Parameter, np.ndarray)):
        return ForeignTensor(F.embedding(indices.value, x.held))
    if x.kind == "f" and axis == 0 and x.constant and x.rank > 1:
        rows = np.ascontiguousarray(x.held.reshape(len(x.held), math.prod(x.shape[1:])), np.float32)
        return in_shape(ForeignTensor(F.embedding(indices.value, rows)), (*indices.shape, *x.shape[1:]))
    part = F.index_select(x.elements, axis, indices.value.reshape((product(indices.shape),)))
    return in_shape(ForeignTensor(part, x.kind), (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def _one_hot(call: Call, indices: Array, depth: Array, values: Array) -> Any:
    count, axis = int(depth.item()), call.integer("axis", -1)
    limited((*indices.shape, count))
    numbers = indices.astype(np.int64)
    inside = (numbers >= -count) & (numbers < count)
    places = np.where(inside, numbers % count, count)  # what is out of range is nowhere
    rows = np.full((count + 1, count), values[0], values.dtype)
    np.fill_diagonal(rows, values[1])
    return np.moveaxis(rows[places], -1, axis)


@operator(PARTS, "OneHot", compute=_one_hot, records_whole=True, shaping=(1,), settings=(1, 2), whole_type=2)
def one_hot(call: Call, indices: ForeignTensor, depth: ForeignTensor, values: ForeignTensor) -> Any:
    count, held = int(constant_of(depth, "depth").item()), constant_of(values, "values")
    if indices.kind == "f" or held.dtype.kind != "f" or count < 1:
        return by_numpy(call, [indices, depth, values])
    limited((count,))
    axis = call.integer("axis", -1)
    axis = axis % (indices.rank + 1)
    places = np.arange(count).reshape(-1, *(1,) * (indices.rank - axis))
    whole = F.unsqueeze(indices.whole, axis)
    here = F.logical_or(F.eq(whole, places), F.eq(whole, places - count))  # numbers may count from the end
    off, on = held.astype(np.float32).ravel()
    return ForeignTensor(here if (off, on) == (0, 1) else F.where(here, float(on), float(off)))


def _triangle(call: Call, x: Array, k: Array | None = None) -> Any:
    offset = 0 if k is None else int(k.item())
    return np.triu(x, offset) if call.integer("upper", 1) else np.tril(x, offset)


@operator(PARTS, "Trilu", compute=_triangle, by_element=True, shaping=(1,))
def trilu(call: Call, x: ForeignTensor, k: ForeignTensor | None = None) -> ForeignTensor:
    offset = 0 if k is None else int(constant_of(k, "k").item())
    mask = np.ones(limited(x.shape[-2:]), np.float32)
    mask = np.triu(mask, offset) if call.integer("upper", 1) else np.tril(mask, offset)
    return ForeignTensor(F.where(mask, x.numbers, 0.0))


def _taken_along(call: Call, x: Array, indices: Array) -> Any:
    axis = call.integer("axis", 0) % x.ndim
    part = x[tuple(slice(None if i == axis else n) for i, n in enumerate(indices.shape))]
    return np.take_along_axis(part, indices % x.shape[axis], axis)


@operator(PARTS, "GatherElements", compute=_taken_along)
def gather_elements(call: Call, x: ForeignTensor, indices: ForeignTensor) -> Any:
    if x.kind != "f":
        return by_numpy(call, [x, indices])
    axis = x.axis(call.integer("axis", 0))
    return ForeignTensor(F.gather(x.numbers, axis, _from_front(x, indices, axis)))


def _from_front(x: ForeignTensor, indices: ForeignTensor, axis: int) -> Tensor:
    """Indices as a value; those that count from the end of an axis count from its front."""
    if not indices.constant:
        places: Tensor = F.remainder(indices.value, int(x.shape[axis]))
        return places if places.dtype.kind == "i" else places.long()
    numbers = indices.held
    if numbers.size and numbers.min() < 0:
        numbers = np.where(numbers < 0, numbers + int(x.shape[axis]), numbers)
    return ForeignTensor(numbers.astype(np.int64)).value


_REDUCED: dict[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}

Places = tuple[Array, ...]


def _places_along(x: Array, indices: Array, axis: int) -> Places:
    """Where the updates of ScatterElements go: numbers along an axis."""
    places: list[Any] = list(np.indices(indices.shape))
    places[axis] = indices % x.shape[axis]
    return tuple(places)


def _places_of_rows(x: Array, indices: Array, axis: int) -> Places:
    """Where those of ScatterND go: numbers along the first axes."""
    return tuple(np.moveaxis(indices, -1, 0))


class Combined(Function):
    """Entries that are multiplied by others, or replaced by larger or smaller ones. Entries that are equal share a gradient."""

    is_pure = True

    @staticmethod
    def forward(ctx: Any, x: Any, indices: Any, updates: Any, how: str, axis: int, places_of: Any) -> Any:
        places, y = places_of(x, indices, axis), x.copy()
        _REDUCED[how].at(y, places, updates)
        ctx.save_for_backward(x, updates, y)
        ctx.places, ctx.how = places, how
        return y

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        x, updates, y = ctx.saved_tensors
        places, dy = ctx.places, np.asarray(dy)
        if ctx.how != "mul":
            own, others = x == y, updates == y[places]
            count = own.astype(dy.dtype)
            np.add.at(count, places, others)
            share = dy / np.maximum(count, 1)
            return share * own, None, share[places] * others, None, None, None
        zeros, rest = (x == 0).astype(np.int64), np.where(x == 0, 1, x)
        np.add.at(zeros, places, updates == 0)
        np.multiply.at(rest, places, np.where(updates == 0, 1, updates))

        def product_of_others(factors: Any, zeros: Any, rest: Any) -> Any:
            is_zero = factors == 0
            return np.where(zeros > is_zero, 0, rest / np.where(is_zero, 1, factors))

        du = dy[places] * product_of_others(updates, zeros[places], rest[places])
        return dy * product_of_others(x, zeros, rest), None, du, None, None, None

    @classmethod
    def _outputs(cls, arguments: list[Any], inputs: list[Tensor]) -> tuple[list[Tensor], bool]:
        return [Tensor(inputs[0].graph, inputs[0].shape, FLOAT32)], False


def _combined(
    how: str, x: ForeignTensor, indices: ForeignTensor, updates: ForeignTensor, axis: int, places: Any
) -> Any:
    whole = indices.value if indices.value.dtype.kind == "i" else indices.value.long()
    return Combined.apply(x.numbers, whole, updates.numbers, how, axis, places)


def _put_along(call: Call, x: Array, indices: Array, updates: Array) -> Any:
    return _put_at(call, x, _places_along(x, indices, call.integer("axis", 0) % max(1, x.ndim)), updates)


def _put_at(call: Call, x: Array, places: Places, updates: Array) -> Any:
    result, how = x.copy(), call.text("reduction", "none")
    if how in _REDUCED:
        _REDUCED[how].at(result, places, updates)
    else:
        result[places] = updates
    return result


def _native_put(call: Call) -> str:
    return "put along" if call.text("reduction", "none") == "none" else ""


@operator(PARTS, "ScatterElements", "Scatter", compute=_put_along, native=_native_put)
def scatter_elements(call: Call, x: ForeignTensor, indices: ForeignTensor, updates: ForeignTensor) -> ForeignTensor:
    axis, how = x.axis(call.integer("axis", 0)), call.text("reduction", "none")
    if how in ("mul", "max", "min"):
        return ForeignTensor(_combined(how, x, indices, updates, axis, _places_along))
    if how not in ("none", "add"):
        raise Misfit(f"reduction={how!r} has no counterpart here")
    function = F.scatter if how == "none" else F.scatter_add
    return ForeignTensor(function(x.numbers, axis, _from_front(x, indices, axis), updates.numbers))


def _taken_apart(call: Call, x: Array, indices: Array) -> Any:
    batch = call.integer("batch_dims", 0)
    grids = np.indices(indices.shape[:-1])[:batch]
    places = (*grids, *np.moveaxis(indices, -1, 0))
    return x[places]


@operator(PARTS, "GatherND", compute=_taken_apart)
def gather_nd(call: Call, x: ForeignTensor, indices: ForeignTensor) -> Any:
    batch = call.integer("batch_dims", 0)
    width = int(indices.shape[-1]) if indices.rank else 0
    if not 0 <= batch < min(x.rank, indices.rank) or not 1 <= width <= x.rank - batch:
        raise Misfit(f"indices {indices.shape} do not fit {x.shape} with {batch} axes of batches")
    if _is_empty(indices):
        return _nothing(x, (*indices.shape[:-1], *x.shape[batch + width :]))
    places, behind = _flat_places(x, indices, batch, width), x.shape[batch + width :]
    rows = _as_one(x, batch + width)
    gathered = F.index_select(rows, 0, places.reshape((product(places.shape),)))
    return ForeignTensor(gathered.reshape((*indices.shape[:-1], *behind)), x.kind)


def _as_one(x: ForeignTensor, count: int) -> Tensor:
    """The first axes as one."""
    value = x.numbers if x.kind == "f" else x.value
    merged: Tensor = value.reshape((product(x.shape[:count]), *x.shape[count:]))
    return merged


def _flat_places(x: ForeignTensor, indices: ForeignTensor, batch: int, width: int) -> Tensor:
    """Entries of the first axes of ``x``, taken as one, by numbers along ``width`` of them, behind those of batches."""
    whole = indices.value if indices.value.dtype.kind == "i" else indices.value.long()
    numbers: list[Any] = []
    for axis in range(batch):
        n = indices.shape[axis]
        if x.shape[axis] != n:
            raise Misfit(f"axis {axis} of {x.shape} and of the indices {indices.shape} is not that of the same batch")
        numbers.append(F.arange(n).reshape((n, *[1] * (indices.rank - 2 - axis))))
    numbers += [F.select(whole, indices.rank - 1, i) for i in range(width)]
    output = Tensor(whole.graph, indices.shape[:-1], INT64)
    flat: Tensor = whole.graph.append(operations.FlatIndex(numbers, x.shape[: batch + width], output))
    return flat


def _put(call: Call, x: Array, indices: Array, updates: Array) -> Any:
    return _put_at(call, x, _places_of_rows(x, indices, 0), updates)


@operator(PARTS, "ScatterND", compute=_put)
def scatter_nd(call: Call, x: ForeignTensor, indices: ForeignTensor, updates: ForeignTensor) -> Any:
    width, how = int(indices.shape[-1]) if indices.rank else 0, call.text("reduction", "none")
    behind = x.shape[width:]
    if not 1 <= width <= x.rank or broadcast_shape([updates.shape, (*indices.shape[:-1], *behind)]) != updates.shape:
        raise Misfit(f"indices {indices.shape} and updates {updates.shape} do not fit {x.shape}")
    if _is_empty(updates):
        return x
    if how in ("mul", "max", "min"):
        return ForeignTensor(_combined(how, x, indices, updates, 0, _places_of_rows))
    if how not in ("none", "add"):
        raise Misfit(f"reduction={how!r} has no counterpart here")
    places = _flat_places(x, indices, 0, width)
    count, rest = product(places.shape), product(behind)
    rows = x.numbers.reshape((product(x.shape[:width]), rest))
    given = updates.numbers.reshape((count, rest))
    if how == "add":
        changed = F.index_add(rows, 0, places.reshape((count,)), given)
    else:
        changed = F.scatter(rows, 0, F.expand(places.reshape((count, 1)), count, rest), given)
    return ForeignTensor(changed.reshape(x.shape), x.kind)


def _largest(call: Call, x: Array, k: Array | None = None) -> Any:
    """The largest or the smallest numbers and their places; equal ones in the order in which they lie."""
    axis, count = call.integer("axis", -1), call.integer("k") if k is None else int(k.item())
    if call.integer("largest", 1):
        order = np.flip(x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    places = np.take(order, np.arange(count), axis)
    return np.take_along_axis(x, places, axis), places


@operator(PARTS, "TopK", compute=_largest, shaping=(1,), ignores=("sorted",))
def topk(call: Call, x: ForeignTensor, k: ForeignTensor | None = None) -> Any:
    count = call.integer("k") if k is None else (plain_numbers(k, "k") or [0])[0]
    values, places = F.topk(x.numbers, count, x.axis(call.integer("axis", -1)), bool(call.integer("largest", 1)))
    return ForeignTensor(values), ForeignTensor(places, "i")


# Joints.


def _joined(call: Call, *arrays: Array) -> Any:
    return np.concatenate(arrays, call.integer("axis"))


@operator(PARTS, "Concat", compute=_joined, moves=True, records_whole=True)
def concat(call: Call, *given: ForeignTensor) -> ForeignTensor:
    rank = given[0].rank
    axis = given[0].axis(call.integer("axis"))
    given = tuple(x for x in given if x.rank != rank or not is_same(x.shape[axis], 0)) or given[:1]
    if any(x.rank != rank for x in given):
        raise Misfit(f"tensors of different ranks, {', '.join(str(x.shape) for x in given)}, cannot be joined")
    for other in range(rank):
        size = next((x.shape[other] for x in given if isinstance(x.shape[other], Size)), None)
        if other != axis and size is not None:
            given = tuple(_for_samples(x, other, size) for x in given)
    kinds = {x.kind for x in given}
    if is_for_file() and kinds == {"i"} and rank == 1 and any(x.constant and x.held.dtype == object for x in given):
        # A shape some of whose sizes are known: only the others are to be numbers that a run computes.
        known = [x.held if x.constant else sizes_array(read_numbers(x, "a size")) for x in given]
        return ForeignTensor(np.concatenate(known), "i")
    parts = [x.elements for x in given]
    if len(kinds) > 1 or len({part.dtype for part in parts}) > 1:  # masks may be of either type
        parts = [x.numbers for x in given]
    return ForeignTensor(F.cat(parts, axis), kinds.pop() if len(kinds) == 1 else "f")


def _pad_widths(rank: int, pads: list[int], axes: list[int] | None) -> list[tuple[int, int]]:
    """(in front, behind) of all axes."""
    chosen = list(range(rank)) if axes is None else [axis % rank for axis in axes]
    if len(pads) != 2 * len(chosen):
        raise Misfit(f"pads {pads} are not two for each of the axes {chosen}")
    pairs = [(0, 0)] * rank
    for i, axis in enumerate(chosen):
        pairs[axis] = (pads[i], pads[i + len(chosen)])
    return pairs


def _padded(
    call: Call, x: Array, pads: Array | None = None, value: Array | None = None, axes: Array | None = None
) -> Any:
    pairs = _pad_widths(x.ndim, (call.optional_integers("pads") if pads is None else listed(pads)) or [], listed(axes))
    limited([n + a + b for n, (a, b) in zip(x.shape, pairs, strict=True)])
    if min(map(min, pairs)) < 0:
        raise Misfit("negative pads of constants have no counterpart here")
    mode = call.text("mode", "constant")
    filling = call.number("value", 0.0) if value is None else value.item()
    options = {"constant_values": filling} if mode == "constant" else {}
    return np.pad(x, pairs, mode, **options)  # type: ignore[call-overload]


@operator(PARTS, "Pad", compute=_padded, shaping=(1, 3), settings=(2,))
def pad(
    call: Call,
    x: ForeignTensor,
    pads: ForeignTensor | None = None,
    value: ForeignTensor | None = None,
    axes: ForeignTensor | None = None,
) -> ForeignTensor:
    given = (call.optional_integers("pads") if pads is None else plain_numbers(pads, "pads")) or []
    widths = _pad_widths(x.rank, given, plain_numbers(axes, "axes"))
    modes = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    mode = call.text("mode", "constant")
    if mode not in modes:
        raise Misfit(f"mode={mode!r} has no counterpart here")
    filling = constant_of(value, "constant_value")
    number = call.number("value", 0.0) if filling is None else float(filling.item())
    if not any(map(any, widths)):
        return x
    flat = [n for pair in reversed(widths) for n in pair]
    while len(flat) > 2 and not any(flat[-2:]):  # outer axes that nothing is added to
        flat = flat[:-2]
    padded: Tensor = F.pad(x.numbers, flat, modes[mode], number)  # type: ignore[arg-type]
    return ForeignTensor(padded)
