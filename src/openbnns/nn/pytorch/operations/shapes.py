"""Shapes, parts and joints. The shape of a result is known from the record, so that most follow from it alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import functional as F
from ..._value import BatchSize, Value
from ...converted.sizes import SampleNumbers, Size, batch_axis
from ...converted.tensors import Misfit, Tensor, reshaped, sizes
from ._registry import Call, operation, plain

SHAPES = "shapes"
PARTS = "parts and joints"


@operation(
    SHAPES, "reshape", "view", "view_as", "reshape_as", "flatten", "unflatten", "squeeze", "squeeze_", "unsqueeze", "unsqueeze_",
    "ravel", "atleast_1d", "atleast_2d",
)  # fmt: skip
def reshape(call: Call, input: Tensor, *options: Any, **named: Any) -> Any:
    if call.name == "view" and input.kind != call.kinds[0]:
        raise Misfit("the bits of numbers as others have no counterpart here")
    return reshaped(input, call.shape)


@operation(SHAPES, "contiguous", "clone", "data", "detach", "detach_", "positive")
def same(call: Call, input: Tensor, **named: Any) -> Any:
    stops = call.name in ("data", "detach", "detach_")
    return F.detach(input.numbers) if stops and input.kind == "f" else input.held


def _ordered(x: Tensor, order: Sequence[int]) -> Any:
    """Axis i of the result is axis ``order[i]`` of x, counted as PyTorch does."""
    rest = [x.axis(axis) for axis in order if axis != x.batch]
    if rest == sorted(rest):  # only the batch moves, which stays in front here
        return x.held
    value = x.numbers
    return F.permute(value, 0, *rest) if value.rows else F.permute(value, *rest)


def _listed(given: tuple[Any, ...]) -> list[int]:
    """Numbers that may stand in a list or by themselves."""
    flat = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    return [plain(n, "an axis") for n in flat]


@operation(SHAPES, "permute")
def permute(call: Call, input: Tensor, *dims: Any, **named: Any) -> Any:
    return _ordered(input, [d % input.rank for d in _listed(dims or (named["dims"],))])


@operation(SHAPES, "transpose", "transpose_", "swapaxes", "swapdims")
def transpose(call: Call, input: Tensor, dim0: int, dim1: int) -> Any:
    order = list(range(input.rank))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return _ordered(input, order)


@operation(SHAPES, "t", "T", "mT", "adjoint")
def turned(call: Call, input: Tensor) -> Any:
    order = list(range(input.rank))
    order = order[:-2] + order[-2:][::-1] if call.name in ("mT", "adjoint") else order[::-1]
    return _ordered(input, order)


@operation(SHAPES, "movedim", "moveaxis")
def movedim(call: Call, input: Tensor, source: Any, destination: Any) -> Any:
    order: list[Any] = [None] * input.rank
    pairs = [(source, destination)] if isinstance(source, int) else list(zip(source, destination, strict=True))
    for old, new in pairs:
        order[new] = old % input.rank
    left = iter([axis for axis in range(input.rank) if axis not in order])
    return _ordered(input, [next(left) if axis is None else axis for axis in order])


# Repeated.


@operation(SHAPES, "expand", "expand_as", "broadcast_to")
def expand(call: Call, input: Tensor, *options: Any, **named: Any) -> Any:
    rest = [n for n in call.shape if not isinstance(n, Size)]
    if input.kind != "f" and isinstance(input.held, np.ndarray):
        return np.broadcast_to(_without_batch(input, call.shape), rest)
    value = input.aligned(call.shape)
    if tuple(rest) == value.sample:
        return value
    return F.expand(value, *([BatchSize(value.rows)] if value.rows else []), *rest)


def _without_batch(x: Tensor, shape: tuple[Any, ...]) -> Any:
    """A constant without the axis that becomes the batch."""
    batch = batch_axis(shape)
    own = -1 if batch is None or x.batch is not None else batch - (len(shape) - x.rank)
    return x.array if own < 0 else x.array.squeeze(own)


@operation(SHAPES, "repeat", "tile")
def repeat(call: Call, input: Tensor, *options: Any, **named: Any) -> Any:
    copies = list(options[0] if len(options) == 1 and isinstance(options[0], (tuple, list)) else options)
    copies = [1] * (input.rank - len(copies)) + (copies or list(next(iter(named.values()))))
    missing = len(copies) - input.rank
    batch = batch_axis(call.shape)
    whole = (1,) * missing + input.shape
    value = input.aligned(call.shape) if batch is not None else input.numbers
    if batch is not None:
        if input.batch is not None and copies[batch] != 1:
            raise Misfit("copies of the samples of a batch have no counterpart here")
        if input.batch is None and whole[batch] != 1:
            raise Misfit(f"{input.shape} would become the batch of {call.shape}")
    first = int(bool(value.rows))
    rest = [plain(n, "a number of copies") for axis, n in enumerate(copies) if axis != batch]
    kept = [n for axis, n in enumerate(whole) if axis != batch]
    value = value.reshape((*value.shape[:first], *kept))
    return F.repeat(value, *[1] * first, *rest)


@operation(SHAPES, "repeat_interleave")
def repeat_interleave(call: Call, input: Tensor, repeats: Any, dim: Any = None) -> Any:
    if dim is None or input.batch == dim % input.rank:
        raise Misfit("only axes behind the batch can be repeated. Give dim")
    count, axis, value = plain(repeats, "repeats"), input.axis(dim), input.numbers
    apart = F.unsqueeze(value, axis + 1)
    wide = F.expand(apart, *[count if i == axis + 1 else -1 if i else _first(apart) for i in range(apart.ndim)])
    return wide.reshape(tuple(sizes(call.shape)) if value.rows else tuple(n for n in call.shape if isinstance(n, int)))


def _first(value: Value) -> Any:
    return value.shape[0] if value.rows else -1


# Parts.


@operation(PARTS, "__getitem__")
def getitem(call: Call, input: Tensor, key: Any) -> Any:
    ours, _ = _keys(input, key)
    value = input.value if input.kind != "f" else input.numbers
    part = F.index(value, tuple([slice(None)] * bool(value.rows) + ours))
    return part.reshape((*part.shape[: int(bool(part.rows))], *[n for n in call.shape if not isinstance(n, Size)]))


@operation(PARTS, "__setitem__")
def setitem(call: Call, input: Tensor, key: Any, value: Any) -> Any:
    """The new entries stand behind the old ones, and are picked in place of those that they replace."""
    ours, front = _keys(input, key)
    old = np.arange(math.prod(input.rest))
    places = old.reshape(input.rest)[tuple(ours)]
    part: tuple[Any, ...] = places.shape
    if input.batch is not None:
        part = (*part[:front], input.shape[input.batch], *part[front:])
    if not isinstance(value, Tensor):
        value = Tensor(np.array(plain(value, "a number"), np.float32), ())
    new = value.aligned(part)
    new = F.expand(new, *new.shape[: int(bool(new.rows))], *places.shape)
    rows = max(input.value.rows, new.rows)
    picked = old.copy()
    picked[places.ravel()] = len(old) + np.arange(places.size)
    both = F.cat([_as_rows(input.numbers, rows), _as_rows(new, rows)], int(bool(rows)))
    result = F.index_select(both, int(bool(rows)), picked)
    return result.reshape((*result.shape[: int(bool(rows))], *input.rest))


def _as_rows(value: Value, rows: int) -> Value:
    """All elements of a sample, or without a batch all there are, as one axis."""
    flat = value.reshape((*value.shape[: int(bool(value.rows))], -1))
    result: Value = F.expand(flat, BatchSize(rows), -1) if rows and not flat.rows else flat
    return result


def _keys(input: Tensor, key: Any) -> tuple[list[Any], int]:
    """An index of all axes but the batch, which is taken whole, and how many axes of the part come in front of the batch."""
    keys = _all_samples(input, list(key)) if isinstance(key, tuple) else [key]
    named = sum(k is not None and k is not Ellipsis for k in keys)
    place = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
    keys[place : place + 1] = [slice(None)] * (input.rank - named)
    ours: list[Any] = []
    axis = front = 0
    for k in keys:
        if k is not None and axis == input.batch:
            if not isinstance(k, slice) or not _is_whole(k, input.shape[axis]):
                raise Misfit(f"a batch is taken whole, but {_shown(k)} is taken of {input.shape}. Pick samples outside")
            front = sum(not isinstance(one, int) for one in ours)
        else:
            ours.append(None if k is None else _index(k))
        axis += k is not None
    arrays = [i for i, k in enumerate(ours) if isinstance(k, np.ndarray)]
    if len(arrays) > 1:
        raise Misfit("only one axis can be indexed with a tensor or a list")
    if arrays:
        ours[arrays[0]] = ours[arrays[0]].ravel()
    return ours, front


def _all_samples(input: Tensor, keys: list[Any]) -> list[Any]:
    """``x[torch.arange(N), i]`` is ``x[:, i]`` if i is the same for all samples."""
    numbers = [i for i, k in enumerate(keys) if isinstance(k, Tensor) and isinstance(k.held, SampleNumbers)]
    if not numbers:
        return keys
    place = numbers[0]
    others = [i for i, k in enumerate(keys) if isinstance(k, (Tensor, list)) and i != place]
    axis = sum(k is not None for k in keys[:place])
    if len(numbers) > 1 or Ellipsis in keys[:place] or axis != input.batch or any(abs(i - place) > 1 for i in others):
        raise Misfit(
            "the numbers of the samples must be the index of the batch, next to other tensors that are indices"
        )
    return [*keys[:place], slice(None), *keys[place + 1 :]]


def _is_whole(k: slice, size: Any) -> bool:
    return k.start in (None, 0) and k.step in (None, 1) and (k.stop is None or k.stop == size)


def _shown(k: Any) -> str:
    return "a tensor" if isinstance(k, Tensor) else repr(k)


def _index(k: Any) -> Any:
    if isinstance(k, Tensor):
        array = k.array
        if k.batch is not None:
            raise Misfit("indices that differ from sample to sample have no counterpart here")
        return array if array.ndim else array.item()
    if isinstance(k, list):
        return np.asarray(k)
    if isinstance(k, slice):
        return slice(*(None if end is None else plain(end, "the end of a slice") for end in (k.start, k.stop, k.step)))
    return plain(k, "an index")


def _along(x: Tensor, dim: Any) -> int:
    """An axis that is not the batch."""
    if dim % x.rank == x.batch:
        raise Misfit(f"axis {dim} of {x.shape} is the batch, which is taken whole")
    return x.axis(dim)


@operation(PARTS, "split", "split_with_sizes", "chunk", "tensor_split")
def split(call: Call, input: Tensor, *options: Any, dim: Any = None, **named: Any) -> Any:
    axis = dim if dim is not None else options[1] if len(options) > 1 else 0
    lengths = [shape[axis] for shape in call.shapes]
    return F.split(input.numbers, lengths, _along(input, axis))


@operation(PARTS, "unbind")
def unbind(call: Call, input: Tensor, dim: Any = 0) -> Any:
    return F.unbind(input.numbers, _along(input, dim))


@operation(PARTS, "narrow")
def narrow(call: Call, input: Tensor, dim: Any, start: Any, length: Any) -> Any:
    return F.narrow(input.numbers, _along(input, dim), plain(start, "start"), plain(length, "length"))


@operation(PARTS, "select")
def select(call: Call, input: Tensor, dim: Any, index: Any) -> Any:
    return F.select(input.numbers, _along(input, dim), plain(index, "index"))


@operation(PARTS, "index_select")
def index_select(call: Call, input: Tensor, dim: Any, index: Any) -> Any:
    return F.index_select(input.numbers, _along(input, dim), _index(index))


@operation(PARTS, "flip")
def flip(call: Call, input: Tensor, *dims: Any, **named: Any) -> Any:
    return F.flip(input.numbers, [_along(input, d) for d in _listed(dims or (named["dims"],))])


@operation(PARTS, "roll")
def roll(call: Call, input: Tensor, shifts: Any, dims: Any = None) -> Any:
    if dims is None:
        raise Misfit("a roll over all axes would mix samples. Give dims")
    value = input.numbers
    steps, axes = ([given] if isinstance(given, int) else list(given) for given in (shifts, dims))
    for step, dim in zip(steps, axes, strict=True):
        value = F.roll(value, plain(step, "shifts"), _along(input, dim))
    return value


@operation(PARTS, "tril", "triu")
def band(call: Call, input: Tensor, diagonal: Any = 0) -> Any:
    if input.batch in (input.rank - 1, input.rank - 2):
        raise Misfit("the batch is an axis of the matrices")
    return (F.tril if call.name == "tril" else F.triu)(input.numbers, plain(diagonal, "diagonal"))


# Joints.


def _joinable(call: Call, given: Sequence[Tensor]) -> list[Value]:
    """Values that all have the batch of the result."""
    if batch_axis(call.shape) is not None and any(x.value.rows for x in given):
        return [x.batched for x in given]
    return [x.numbers for x in given]


@operation(PARTS, "cat", "concat", "concatenate")
def cat(call: Call, tensors: Sequence[Tensor], dim: Any = 0) -> Any:
    dim %= len(call.shape)
    if dim == batch_axis(call.shape):
        raise Misfit("batches cannot be joined: all samples are those that come in")
    values = _joinable(call, [x for x in tensors if x.rank == len(call.shape)])
    return F.cat(values, _our_axis(call.shape, dim, values[0]))


@operation(PARTS, "stack")
def stack(call: Call, tensors: Sequence[Tensor], dim: Any = 0) -> Any:
    values = _joinable(call, tensors)
    return F.stack(values, _our_axis(call.shape, dim % len(call.shape), values[0]))


def _our_axis(shape: tuple[Any, ...], dim: int, value: Value) -> int:
    """Which axis of a value an axis of a shape of PyTorch is."""
    batch = batch_axis(shape)
    if batch is None:
        return dim
    first = int(bool(value.rows))
    return dim + first if dim < batch else dim - 1 + first
