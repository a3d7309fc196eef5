"""Shapes, parts and joints. The shape of a result is known from the record, so that most follow from it alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....graph import functions as F
from ....graph.operations import Range
from ....graph.sizes import Size, is_same, number_of
from ....graph.tensor import Tensor
from ...converted.tensors import ForeignTensor, Misfit, reshaped
from ._registry import Call, adapted, add, exact, operation, plain, whole

SHAPES = "shapes"
PARTS = "parts and joints"


@operation(
    SHAPES, "reshape", "view", "view_as", "reshape_as", "flatten", "unflatten", "squeeze", "squeeze_", "unsqueeze", "unsqueeze_",
    "ravel", "atleast_1d", "atleast_2d",
)  # fmt: skip
def reshape(call: Call, input: ForeignTensor, *options: Any, **named: Any) -> Any:
    if call.name == "view" and input.kind != call.kinds[0]:
        raise Misfit("the bits of numbers as others have no counterpart here")
    return reshaped(input, call.shape)


@operation(SHAPES, "contiguous", "clone", "cpu", "data", "detach", "detach_", "positive")
def same(call: Call, input: ForeignTensor, **named: Any) -> Any:
    stops = call.name in ("data", "detach", "detach_")
    return F.detach(input.numbers) if stops and input.kind == "f" else input


def _ordered(x: ForeignTensor, order: Sequence[int]) -> Any:
    """Axis i of the result is axis ``order[i]`` of x."""
    return x.held.transpose(order) if x.constant else F.permute(x.elements, *order)


def _listed(given: tuple[Any, ...]) -> list[int]:
    """Numbers that may stand in a list or by themselves."""
    flat = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    return [plain(n, "an axis") for n in flat]


@operation(SHAPES, "permute")
def permute(call: Call, input: ForeignTensor, *dims: Any, **named: Any) -> Any:
    return _ordered(input, [d % input.rank for d in _listed(dims or (named["dims"],))])


@operation(SHAPES, "transpose", "transpose_", "swapaxes", "swapdims")
def transpose(call: Call, input: ForeignTensor, dim0: int, dim1: int) -> Any:
    order = list(range(input.rank))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return _ordered(input, order)


@operation(SHAPES, "t", "T", "mT", "adjoint")
def turned(call: Call, input: ForeignTensor) -> Any:
    order = list(range(input.rank))
    order = order[:-2] + order[-2:][::-1] if call.name in ("mT", "adjoint") else order[::-1]
    return _ordered(input, order)


@operation(SHAPES, "movedim", "moveaxis")
def movedim(call: Call, input: ForeignTensor, source: Any, destination: Any) -> Any:
    order: list[Any] = [None] * input.rank
    pairs = [(source, destination)] if isinstance(source, int) else list(zip(source, destination, strict=True))
    for old, new in pairs:
        order[new] = old % input.rank
    left = iter([axis for axis in range(input.rank) if axis not in order])
    return _ordered(input, [next(left) if axis is None else axis for axis in order])


# Repeated.


@operation(SHAPES, "expand", "expand_as", "broadcast_to")
def expand(call: Call, input: ForeignTensor, *options: Any, **named: Any) -> Any:
    if input.constant and input.kind != "f":
        own = (1,) * (len(call.shape) - input.rank) + input.shape
        known = [n if isinstance(size, Size) and n == 1 else size for n, size in zip(own, call.shape, strict=True)]
        return np.broadcast_to(input.held, [int(n) for n in known])
    return F.expand(input.elements, *call.shape)


@operation(SHAPES, "repeat", "tile")
def repeat(call: Call, input: ForeignTensor, *options: Any, **named: Any) -> Any:
    copies = list(options[0] if len(options) == 1 and isinstance(options[0], (tuple, list)) else options)
    copies = [1] * (input.rank - len(copies)) + (copies or list(next(iter(named.values()))))
    return F.repeat(input.elements, *(plain(n, "a number of copies") for n in copies))


@operation(SHAPES, "repeat_interleave")
def repeat_interleave(
    call: Call, input: ForeignTensor, repeats: Any, dim: Any = None, *, output_size: Any = None
) -> Any:
    count, value = plain(repeats, "repeats"), input.elements
    axis = 0 if dim is None else input.axis(dim)
    value = value.reshape((value.count,)) if dim is None else value
    apart = F.unsqueeze(value, axis + 1)
    wide = F.expand(apart, *[count if i == axis + 1 else -1 for i in range(apart.ndim)])
    return wide.reshape(call.shape)


# Parts.


def _nothing(shape: Sequence[Any], kind: str) -> Any:
    """A tensor without entries, which joints leave out."""
    return np.zeros([number_of(n) for n in shape], np.float32 if kind == "f" else np.int64)


@operation(PARTS, "__getitem__")
def getitem(call: Call, input: ForeignTensor, key: Any) -> Any:
    if any(isinstance(n, int) and n == 0 for n in call.shape):
        return _nothing(call.shape, input.kind)
    value = input.elements
    return reshaped(ForeignTensor(F.index(value, tuple(_keys(input, key)))), call.shape)


@operation(PARTS, "__setitem__")
def setitem(call: Call, input: ForeignTensor, key: Any, value: Any) -> Any:
    """The new entries stand behind the old ones, and are picked in place of those that they replace.

    Axes of a free size that are taken whole stay in front of what is numbered.
    """
    keys = [k for k in _keys(input, key) if k is not None]
    if any(isinstance(k, Tensor) for k in keys):
        raise Misfit("numbers are assigned to places that are computed. Use torch.scatter")
    several = [axis for axis, k in enumerate(keys) if isinstance(k, np.ndarray)]
    if len(several) > 1:
        if several != list(range(several[0], several[-1] + 1)):
            raise Misfit(
                "axes that are assigned to by indices must stand side by side. Permute them, or use torch.where"
            )
        for axis, k in zip(several, np.broadcast_arrays(*(keys[axis] for axis in several)), strict=True):
            keys[axis] = k
    if any(keys[axis].ndim > 1 for axis in several) and len(several) > 1:
        raise Misfit("numbers are assigned by tables of indices. Use indices of one axis each")
    keys = [k.ravel() if isinstance(k, np.ndarray) else k for k in keys]
    whole = [_is_whole(k, n) for n, k in zip(input.shape, keys, strict=True)]
    free = [axis for axis, one in enumerate(whole) if one]
    rest = [axis for axis, one in enumerate(whole) if not one]
    front, sizes = [input.shape[axis] for axis in free], [int(input.shape[axis]) for axis in rest]
    old = np.arange(math.prod(sizes))
    places = old.reshape(sizes)[tuple(_number(keys[axis]) for axis in rest)]
    lengths = iter(places.shape)
    part = [(n, True) if one else (next(lengths), False)
            for axis, (n, k, one) in enumerate(zip(input.shape, keys, whole, strict=True))
            if one or isinstance(k, slice) or axis in several[:1]]  # fmt: skip
    new = value.numbers if isinstance(value, ForeignTensor) else np.array(plain(value, "a number"), np.float32)
    new = F.expand(new, *(n for n, _ in part))
    order = sorted(range(len(part)), key=lambda axis: not part[axis][1])
    flat = F.permute(new, *order).reshape((*front, places.size)) if part else new.reshape((1,))
    picked = old.copy()
    picked[places.ravel()] = len(old) + np.arange(places.size)
    both = F.cat([F.permute(input.numbers, *free, *rest).reshape((*front, len(old))), flat], len(front))
    result = F.index_select(both, len(front), picked).reshape((*front, *sizes))
    back = [*free, *rest]
    return reshaped(ForeignTensor(F.permute(result, *(back.index(axis) for axis in range(input.rank)))), call.shape)


def _number(k: Any) -> Any:
    """An index without free sizes in it."""
    if isinstance(k, slice):
        return slice(*(_number(end) for end in (k.start, k.stop, k.step)))
    return int(k) if isinstance(k, Size) else k


def _keys(input: ForeignTensor, key: Any) -> list[Any]:
    """An index for every axis, and None for new ones."""
    keys = _all_samples(input, list(key)) if isinstance(key, tuple) else [key]
    named = sum(k is not None and k is not Ellipsis for k in keys)
    place = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
    keys[place : place + 1] = [slice(None)] * (input.rank - named)
    return [None if k is None else _index(k) for k in keys]


def _counts_samples(k: Any) -> bool:
    """True if a tensor is 0 for the first sample, 1 for the second, and so on."""
    producer = k.held.storage.producer if isinstance(k, ForeignTensor) and isinstance(k.held, Tensor) else None
    ends = (producer.start, producer.step) if isinstance(producer, Range) else ()
    return all(isinstance(n, int) for n in ends) and ends == (0, 1)


def _all_samples(input: ForeignTensor, keys: list[Any]) -> list[Any]:
    """``x[torch.arange(N), i]`` is ``x[:, i]`` if i is the same for all samples."""
    numbers = [i for i, k in enumerate(keys) if _counts_samples(k)]
    if not numbers or any(isinstance(k, ForeignTensor) and not k.constant and not _counts_samples(k) for k in keys):
        return keys
    place = numbers[0]
    others = [i for i, k in enumerate(keys) if isinstance(k, (ForeignTensor, list)) and i != place]
    axis = sum(k is not None for k in keys[:place])
    size = keys[place].held.storage.shape[0]
    if (
        len(numbers) > 1 or Ellipsis in keys[:place] or not is_same(input.shape[axis], size)
        or any(abs(i - place) > 1 for i in others)
    ):  # fmt: skip
        raise Misfit(
            "the numbers of the samples must be the index of the batch, next to other tensors that are indices"
        )
    return [*keys[:place], slice(None), *keys[place + 1 :]]


def _is_whole(k: Any, size: Any) -> bool:
    """True if all of an axis is taken, whose size is free."""
    if not isinstance(k, slice) or not isinstance(size, Size):
        return False
    starts = k.start is None or is_same(k.start, 0)
    return starts and (k.step is None or is_same(k.step, 1)) and (k.stop is None or is_same(k.stop, size))


def _index(k: Any) -> Any:
    if isinstance(k, ForeignTensor):
        if not k.constant:
            return whole(k)
        array = k.array
        return array if array.ndim else array.item()
    if isinstance(k, list):
        return np.asarray(k)
    if isinstance(k, slice):
        return slice(*(None if end is None else plain(end, "the end of a slice") for end in (k.start, k.stop, k.step)))
    return plain(k, "an index")


@operation(PARTS, "split", "split_with_sizes", "chunk", "tensor_split")
def split(call: Call, input: ForeignTensor, *options: Any, dim: Any = None, **named: Any) -> Any:
    axis = input.axis(dim if dim is not None else options[1] if len(options) > 1 else 0)
    lengths = [shape[axis] for shape in call.shapes]
    if 0 in lengths:
        starts = [sum(lengths[:i]) for i in range(len(lengths))]
        return tuple(
            F.narrow(input.elements, axis, start, n) if n != 0 else _nothing(shape, input.kind)
            for start, n, shape in zip(starts, lengths, call.shapes, strict=True)
        )
    if not any(isinstance(n, Size) for n in lengths):
        return F.split(input.elements, lengths, axis)
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    return tuple(F.narrow(input.elements, axis, start, n) for start, n in zip(starts, lengths, strict=True))


@operation(PARTS, "unbind")
def unbind(call: Call, input: ForeignTensor, dim: Any = 0) -> Any:
    return F.unbind(input.elements, dim)


@operation(PARTS, "narrow")
def narrow(call: Call, input: ForeignTensor, dim: Any, start: Any, length: Any) -> Any:
    if length == 0:
        return _nothing(call.shape, input.kind)
    return F.narrow(input.elements, dim, plain(start, "start"), plain(length, "length"))


@operation(PARTS, "select")
def select(call: Call, input: ForeignTensor, dim: Any, index: Any) -> Any:
    return F.select(input.elements, dim, plain(index, "index"))


@operation(PARTS, "index_select")
def index_select(call: Call, input: ForeignTensor, dim: Any, index: Any) -> Any:
    return F.index_select(input.elements, dim, _index(index))


@operation(PARTS, "flip")
def flip(call: Call, input: ForeignTensor, *dims: Any, **named: Any) -> Any:
    return F.flip(input.elements, _listed(dims or (named["dims"],)))


@operation(PARTS, "roll")
def roll(call: Call, input: ForeignTensor, shifts: Any, dims: Any = None) -> Any:
    value = input.elements
    if dims is None:
        return F.roll(value.reshape((value.count,)), plain(shifts, "shifts"), 0).reshape(input.shape)
    steps, axes = ([given] if isinstance(given, (int, Size)) else list(given) for given in (shifts, dims))
    for step, dim in zip(steps, axes, strict=True):
        value = F.roll(value, plain(step, "shifts"), dim)
    return value


for _name in ("diagonal", "diag_embed", "trace", "diff", "rot90", "meshgrid"):
    add(PARTS, _name, adapted(getattr(F, _name)))


@operation(PARTS, "unfold")
def windows(call: Call, input: ForeignTensor, dimension: Any, size: Any, step: Any) -> Any:
    return input.elements.unfold(dimension, plain(size, "size"), plain(step, "step"))


@operation(PARTS, "tril", "triu")
def band(call: Call, input: ForeignTensor, diagonal: Any = 0) -> Any:
    return (F.tril if call.name == "tril" else F.triu)(exact(call, input), plain(diagonal, "diagonal"))


# Joints.


@operation(PARTS, "cat", "concat", "concatenate")
def cat(call: Call, tensors: Sequence[ForeignTensor], dim: Any = 0) -> Any:
    fitting = [x for x in tensors if x.rank == len(call.shape)]
    given = [x for x in fitting if not any(isinstance(n, int) and n == 0 for n in x.shape)] or fitting
    if all(x.constant and x.kind != "f" for x in given):
        return np.concatenate([x.held for x in given], dim)
    return F.cat([x.elements for x in given], dim)


@operation(PARTS, "stack")
def stack(call: Call, tensors: Sequence[ForeignTensor], dim: Any = 0) -> Any:
    return F.stack([x.elements for x in tensors], dim)


# Made out of sizes.


@operation(PARTS, "arange")
def arange(call: Call, *numbers: Any, start: Any = None, end: Any = None, step: Any = None, **named: Any) -> Any:
    given = [plain(n, "a number") for n in (*numbers, start, end, step) if n is not None]
    return F.arange(*given)


@operation(PARTS, "eye")
def eye(call: Call, *sizes: Any, **named: Any) -> Any:
    rows, columns = (F.arange(n) for n in call.shape)
    return F.eq(F.unsqueeze(rows, 1), columns)
