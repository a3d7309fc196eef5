"""Shapes, parts and joints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import functional as F
from ... import memory_limit, operations
from ..._value import BatchSize, Value
from ...converted.sizes import Size
from ...converted.tensors import Misfit, reshaped
from ...parameter import Parameter
from .. import _numpy
from .._call import Call
from .._tensor import Tensor, by_numpy, constant_of, expanded, numbers_of, plain_numbers
from ._registry import operator

SHAPES = "shapes"
PARTS = "parts and joints"


# The same elements in other shapes.


@operator(SHAPES, "Shape")
def shape_of(call: Call, x: Tensor) -> Tensor:
    sizes = _numpy.part_of_shape(call, x.shape)
    held = np.empty(len(sizes), object)
    held[:] = sizes
    return Tensor(held if any(isinstance(n, Size) for n in sizes) else np.array(sizes, np.int64), None, "i")


@operator(SHAPES, "Size")
def size_of(call: Call, x: Tensor) -> Tensor:
    held = np.empty((), object)
    held[()] = math.prod(n for n in x.shape if not isinstance(n, Size))
    for n in x.shape:
        if isinstance(n, Size):
            held[()] = n * held[()]
    return Tensor(held if x.batch is not None else held.astype(np.int64), None, "i")


def in_shape(x: Tensor, shape: Sequence[Any]) -> Tensor:
    sizes = tuple(shape)
    if math.prod(n.rows if isinstance(n, Size) else n for n in sizes) != math.prod(
        n.rows if isinstance(n, Size) else n for n in x.shape
    ):
        raise Misfit(f"{x.shape} has another number of elements than {sizes}")
    return Tensor(reshaped(x, sizes), sizes, x.kind)


@operator(SHAPES, "Reshape")
def reshape(call: Call, x: Tensor, shape: Tensor) -> Tensor:
    sizes = numbers_of(shape, "shape")
    assert sizes is not None
    if not call.integer("allowzero", 0):
        if any(n == 0 and i >= x.rank for i, n in enumerate(sizes)):
            raise Misfit(f"{sizes} copies an axis that {x.shape} does not have")
        sizes = [x.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    if sizes.count(-1) > 1 or any(not isinstance(n, Size) and n < -1 for n in sizes):
        raise Misfit(f"{sizes} is no shape")
    return _around_front(call, x, sizes) or in_shape(x, _with_batch(call, x, sizes))


def _around_front(call: Call, x: Tensor, sizes: list[Any]) -> Tensor | None:
    """Axes in front of the batch made one with it, as PyTorch does around the last product of an attention, and back."""
    if x.batch is None or x.rows != max(1, x.shape[x.batch].front) or x.same_for_all or not sizes:
        return None
    own, value = x.shape[x.batch], x.value
    if own.front > 1 and x.batch == 0:
        place = next((i for i in range(len(sizes)) if math.prod(sizes[:i]) == own.front), 0)
        if place and (sizes[place] in (Size(1), -1) or sizes[place] == call.batch):
            rest = [*sizes[:place], *sizes[place + 1 :]]
            return Tensor(value.reshape((BatchSize(1), *rest)), (*sizes[:place], Size(1), *sizes[place + 1 :]), x.kind)
    front, behind = math.prod(x.shape[: x.batch]), math.prod(x.shape[x.batch + 1 :])
    merged = sizes[0] in (Size(front), -1) or (call.batch is not None and sizes[0] == call.batch * front)
    if own.front == 1 and front > 1 and merged and not any(isinstance(n, Size) for n in sizes[1:]):
        rest = _completed(sizes[1:], behind, x) if -1 in sizes[1:] else sizes[1:]
        if math.prod(rest) == behind:
            return Tensor(value.reshape((BatchSize(front), *rest)), (Size(front, front), *rest), x.kind)
    return None


def _with_batch(call: Call, x: Tensor, sizes: list[Any]) -> list[Any]:
    """A shape with -1 replaced, and with the batch of ``x`` in its place."""
    count = math.prod(n.rows if isinstance(n, Size) else n for n in x.shape)  # of one sample
    if x.batch is None or any(isinstance(n, Size) for n in sizes):
        return _completed(sizes, count, x)
    if call.batch is not None:  # the file was written for so many samples: they are one of the numbers
        for axis in sorted(range(len(sizes)), key=lambda axis: axis != x.batch):
            n = sizes[axis]
            if n > 0 and n % call.batch == 0:
                tried = [*sizes[:axis], Size(n // call.batch), *sizes[axis + 1 :]]
                known = math.prod(m.rows if isinstance(m, Size) else m for m in tried if m != -1)
                if known == count or (-1 in sizes and known and count % known == 0):
                    return _completed(tried, count, x)
    known = math.prod(n for n in sizes if n != -1)
    if -1 not in sizes or not known or count % known:
        raise Misfit(f"{x.shape} cannot become {tuple(sizes)} for every size of the batch")
    return [Size(count // known) if n == -1 else n for n in sizes]


def _completed(sizes: list[Any], count: int, x: Tensor) -> list[Any]:
    if -1 not in sizes:
        return sizes
    known = math.prod(n.rows if isinstance(n, Size) else n for n in sizes if n != -1)
    if not known or count % known:
        raise Misfit(f"{x.shape} cannot become {tuple(sizes)}")
    return [count // known if n == -1 else n for n in sizes]


@operator(SHAPES, "Flatten")
def flatten(call: Call, x: Tensor) -> Tensor:
    axis = _numpy.flat_axis(call, x.rank)
    sides: list[Any] = []
    for part in (x.shape[:axis], x.shape[axis:]):
        size: Any = math.prod(n for n in part if not isinstance(n, Size))
        for n in part:
            size = n * size if isinstance(n, Size) else size
        sides.append(size)
    return in_shape(x, sides)


@operator(SHAPES, "Squeeze")
def squeeze(call: Call, x: Tensor, axes: Tensor | None = None) -> Tensor:
    given = plain_numbers(axes, "axes")
    chosen = [i for i, n in enumerate(x.shape) if n == 1] if given is None else [_axis(x, a) for a in given]
    if any(x.shape[axis] != 1 for axis in chosen):
        raise Misfit(f"axes {chosen} of {x.shape} are not all of size 1")
    return in_shape(x, [n for i, n in enumerate(x.shape) if i not in chosen])


@operator(SHAPES, "Unsqueeze")
def unsqueeze(call: Call, x: Tensor, axes: Tensor) -> Tensor:
    given = plain_numbers(axes, "axes") or []
    rank = x.rank + len(given)
    if any(not -rank <= a < rank for a in given) or len({a % rank for a in given}) != len(given):
        raise Misfit(f"axes {given} cannot be added to {x.shape}")
    places = {a % rank for a in given}
    rest = iter(x.shape)
    return in_shape(x, [1 if i in places else next(rest) for i in range(rank)])


def _axis(x: Tensor, axis: int) -> int:
    if not -x.rank <= axis < x.rank:
        raise Misfit(f"there is no axis {axis} in {x.shape}")
    return axis % x.rank


@operator(SHAPES, "Transpose")
def transpose(call: Call, x: Tensor) -> Tensor:
    order = call.integers("perm", tuple(range(x.rank))[::-1])
    if sorted(order) != list(range(x.rank)):
        raise Misfit(f"perm {order} does not name each axis of {x.shape} once")
    shape = tuple(x.shape[axis] for axis in order)
    rest = [x.axis(axis) for axis in order if axis != x.batch]
    if rest == sorted(rest):  # only the batch moves, which stays in front here
        return Tensor(x.held, shape, x.kind)
    value = x.numbers
    return Tensor(F.permute(value, 0, *rest) if value.rows else F.permute(value, *rest), shape)


@operator(SHAPES, "Expand")
def expand(call: Call, x: Tensor, shape: Tensor) -> Tensor:
    sizes = numbers_of(shape, "shape") or []
    rank = max(x.rank, len(sizes))
    own = [1] * (rank - x.rank) + list(x.shape)
    wanted = [1] * (rank - len(sizes)) + sizes
    result = []
    for axis, (n, m) in enumerate(zip(own, wanted, strict=True)):
        if isinstance(n, Size) or isinstance(m, Size):
            one = n if isinstance(n, Size) else m
            other = m if isinstance(n, Size) else n
            if other != one and other not in (1, call.batch):
                raise Misfit(f"{x.shape} cannot be repeated to {tuple(sizes)}")
            result.append(one)
        elif n != m and 1 not in (n, m):
            raise Misfit(f"axis {axis} of {x.shape} cannot be repeated to {tuple(sizes)}")
        else:
            result.append(m if n == 1 else n)
    return expanded(x, tuple(result))


@operator(SHAPES, "Tile")
def tile(call: Call, x: Tensor, repeats: Tensor) -> Tensor:
    copies = numbers_of(repeats, "repeats") or []
    if len(copies) != x.rank:
        raise Misfit(f"repeats {copies} are not one for each axis of {x.shape}")
    shape: list[Any] = []
    for n, c in zip(x.shape, copies, strict=True):
        if isinstance(n, Size) and c != 1:
            raise Misfit("samples cannot be repeated")
        if isinstance(c, Size) and n != 1:
            raise Misfit(f"{x.shape} cannot become a batch")
        if not isinstance(c, Size) and c < 1:
            raise Misfit(f"{c} copies leave nothing")
        shape.append(c if isinstance(c, Size) else n if c == 1 else n * c)
    if any(isinstance(c, Size) for c in copies):
        x = expanded(x, tuple(c if isinstance(c, Size) else n for n, c in zip(x.shape, copies, strict=True)))
    count = math.prod(n for n in shape if not isinstance(n, Size))
    memory_limit.check(4 * count, f"a tensor of shape {tuple(shape)}", Misfit)  # before copies are numbered
    value = x.numbers
    counts = [1] * bool(value.rows) + [c for i, c in enumerate(copies) if i != x.batch]
    return Tensor(F.repeat(value, *counts), shape)


@operator(SHAPES, "ConstantOfShape")
def constant_of_shape(call: Call, shape: Tensor) -> Tensor:
    """With a batch: the same for all samples."""
    sizes = numbers_of(shape, "shape") or []
    value = call.tensor("value")
    filled = np.zeros(1, np.float32) if value is None else value
    rest = _numpy.limited([n for n in sizes if not isinstance(n, Size)])
    kind = "b" if filled.dtype == np.bool_ else "f" if filled.dtype.kind == "f" else "i"
    return Tensor(np.full(rest, filled.reshape(-1)[0], filled.dtype), sizes, kind)


@operator(SHAPES, "Constant", "Range", "EyeLike")
def known(call: Call, *given: Tensor) -> Any:
    raise Misfit("it must not depend on the inputs")


@operator(SHAPES, "DepthToSpace", "SpaceToDepth")
def blocks(call: Call, x: Tensor) -> Tensor:
    """Channels as pixels, or pixels as channels."""
    size, value_and_back = call.integer("blocksize"), x.by_axis_first()
    value, back = value_and_back
    if len(value.sample) != 3 or size < 1:
        raise Misfit(f"{x.shape} is no image that blocks of {size} are made of")
    channels, height, width = value.sample
    if call.op == "DepthToSpace":
        if channels % size**2:
            raise Misfit(f"{channels} channels are no blocks of {size} x {size}")
        if call.text("mode", "DCR") == "CRD":
            return back(F.pixel_shuffle(value, size))
        apart = value.reshape((value.shape[0], size, size, channels // size**2, height, width))
        turned = F.permute(apart, 0, 3, 4, 1, 5, 2)
        return back(turned.reshape((value.shape[0], channels // size**2, height * size, width * size)))
    if height % size or width % size:
        raise Misfit(f"an image of {height} x {width} is no blocks of {size} x {size}")
    apart = value.reshape((value.shape[0], channels, height // size, size, width // size, size))
    channels_first = call.text("mode", "DCR") == "CRD"
    turned = F.permute(apart, *((0, 1, 3, 5, 2, 4) if channels_first else (0, 3, 5, 1, 2, 4)))
    return back(turned.reshape((value.shape[0], channels * size**2, height // size, width // size)))


# Parts.


@operator(PARTS, "Slice")
def take_slice(
    call: Call, x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None = None, steps: Tensor | None = None
) -> Tensor:
    first, chosen, strides = plain_numbers(starts, "starts"), plain_numbers(axes, "axes"), plain_numbers(steps, "steps")
    last = [2**62 if isinstance(n, Size) else n for n in numbers_of(ends, "ends") or []]
    keys = list(_numpy.slices(x.shape, first, last, chosen, strides))
    for axis, n in enumerate(numbers_of(ends, "ends") or []):
        if isinstance(n, Size) and (chosen or range(len(last)))[axis] % x.rank != x.batch:
            raise Misfit("the end of a slice is the size of the batch")
    shape: list[Any] = list(x.shape)
    for axis, key in enumerate(keys):
        if axis != x.batch:
            shape[axis] = len(range(*key.indices(x.shape[axis])))
            if not shape[axis]:
                raise Misfit(f"nothing is left of axis {axis} of {x.shape}")
        elif key != slice(None) and not (
            key.start in (0, None) and key.step == 1 and key.stop >= (call.batch or 2**31 - 1)
        ):
            raise Misfit(f"a batch is taken whole, but {key} is taken of axis {axis} of {x.shape}")
    keys = [key for axis, key in enumerate(keys) if axis != x.batch]
    value = x.numbers
    part = F.index(value, tuple([slice(None)] * bool(value.rows) + keys))
    return Tensor(part, shape)


@operator(PARTS, "Split")
def split(call: Call, x: Tensor, sizes: Tensor | None = None) -> Any:
    axis = _axis(x, call.integer("axis", 0))
    x.free([axis], "the split")
    parts = _numpy.split_sizes(call, x.shape[axis], plain_numbers(sizes, "split"))
    shapes = [(*x.shape[:axis], n, *x.shape[axis + 1 :]) for n in parts]
    found = iter(F.split(x.numbers, [n for n in parts if n], x.axis(axis)))
    return tuple(Tensor(next(found), s) if n else _nothing(s) for n, s in zip(parts, shapes, strict=True))


def _nothing(shape: tuple[Any, ...]) -> Tensor:
    """A part of no elements, which nothing but a joint can use."""
    return Tensor(np.empty(tuple(n for n in shape if not isinstance(n, Size)), np.float32), shape)


@operator(PARTS, "Gather")
def gather(call: Call, x: Tensor, indices: Tensor) -> Any:
    axis = _axis(x, call.integer("axis", 0))
    if not indices.constant:
        return _looked_up(x, indices, axis)
    numbers = indices.held
    if numbers.dtype.kind not in "iu":
        raise Misfit("indices must be whole numbers, not the size of the batch")
    x.free([axis], "the choice")
    size = x.shape[axis]
    if numbers.size and (numbers.min() < -size or numbers.max() >= size):
        raise Misfit(f"indices from {numbers.min()} to {numbers.max()} are taken of axis {axis} of {x.shape}")
    shape = (*x.shape[:axis], *numbers.shape, *x.shape[axis + 1 :])
    value, place = x.numbers, x.axis(axis)
    if not numbers.size:
        raise Misfit("no indices leave nothing")
    if numbers.size == 1:
        n = int(numbers.item()) % size
        part: Any = F.narrow(value, place, n, 1)
    else:
        part = F.index_select(value, place, numbers.astype(np.int64).ravel() % size)
    rest = tuple(n for n in shape if not isinstance(n, Size))
    return Tensor(part.reshape((*part.shape[: int(bool(part.rows))], *rest)), shape)


def _looked_up(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Rows of a table by numbers that are inputs."""
    if axis or x.batch is not None or x.held_rows or x.rank < 1:
        raise Misfit(f"indices that are inputs look up rows of a table, not axis {axis} of {x.shape}")
    if indices.kind == "f":
        raise Misfit("indices must be whole numbers")
    width = math.prod(x.shape[1:])
    if x.rank == 2 and isinstance(x.held, (Parameter, np.ndarray)):
        value = F.embedding(indices.value, x.held)
    elif isinstance(x.held, np.ndarray):
        value = F.embedding(indices.value, np.ascontiguousarray(x.held.reshape(len(x.held), width), np.float32))
    else:
        raise Misfit(f"a table must be a weight or a constant of two axes, not {x.shape}")
    shape = (*indices.shape, *x.shape[1:])
    rest = tuple(n for n in shape if not isinstance(n, Size))
    return Tensor(value.reshape((*value.shape[: int(bool(value.rows))], *rest)), shape)


@operator(PARTS, "OneHot")
def one_hot(call: Call, indices: Tensor, depth: Tensor, values: Tensor) -> Any:
    constant_of(depth, "depth"), constant_of(values, "values")
    return by_numpy(call, [indices, depth, values])


@operator(PARTS, "Trilu")
def trilu(call: Call, x: Tensor, k: Tensor | None = None) -> Tensor:
    offset = 0 if k is None else int(constant_of(k, "k").item())
    x.free([-1, -2], "the triangle")
    mask = np.ones(_numpy.limited(x.shape[-2:]), np.float32)
    mask = np.triu(mask, offset) if call.integer("upper", 1) else np.tril(mask, offset)
    return Tensor(F.where(mask, x.numbers, 0.0), x.shape)


@operator(PARTS, "GatherElements")
def gather_elements(call: Call, x: Tensor, indices: Tensor) -> Any:
    if x.kind != "f":
        return by_numpy(call, [x, indices])
    numbers = constant_of(indices, "indices")
    if x.batch is not None:
        raise Misfit("elements by number are taken of one sample: pass batch_axis=None")
    axis = _axis(x, call.integer("axis", 0))
    places = np.arange(math.prod(x.shape)).reshape(x.shape)
    size = x.shape[axis]
    if (
        numbers.ndim != x.rank
        or (numbers.size and (numbers.min() < -size or numbers.max() >= size))
        or any(a > b for i, (a, b) in enumerate(zip(numbers.shape, x.shape, strict=True)) if i != axis)
    ):
        raise Misfit(f"indices of shape {numbers.shape} do not fit axis {axis} of {x.shape}")
    cut = places[tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(numbers.shape))]
    chosen = np.take_along_axis(cut, numbers.astype(np.int64) % size, axis).ravel()
    value = x.numbers
    first = value.shape[: int(bool(value.rows))]
    part = F.index_select(value.reshape((*first, -1)), len(first), chosen)
    return Tensor(part.reshape((*first, *numbers.shape)), numbers.shape)


# Joints.


@operator(PARTS, "Concat")
def concat(call: Call, *given: Tensor) -> Tensor:
    rank = given[0].rank
    axis = _axis(given[0], call.integer("axis"))
    given = tuple(x for x in given if x.rank != rank or x.shape[axis] != 0) or given[:1]
    if any(x.rank != rank for x in given):
        raise Misfit(f"tensors of different ranks, {', '.join(str(x.shape) for x in given)}, cannot be joined")
    batch = next((x.batch for x in given if x.batch is not None), None)
    if batch == axis:
        raise Misfit("batches cannot be joined: all samples are those that come in")
    if batch is not None:
        size = next(x.shape[batch] for x in given if x.batch is not None)
        given = tuple(x if x.batch is not None else _given_batch(call, x, batch, size) for x in given)
    shapes = [(*x.shape[:axis], *x.shape[axis + 1 :]) for x in given]
    if len(set(shapes)) > 1:
        raise Misfit(f"{', '.join(str(x.shape) for x in given)} differ in more than axis {axis}")
    shape = (*given[0].shape[:axis], sum(x.shape[axis] for x in given), *given[0].shape[axis + 1 :])
    values = [x.batched if batch is not None else x.numbers for x in given]
    rows = max(value.rows for value in values)
    values = [value if value.rows or not rows else F.expand(value, BatchSize(rows), *value.sample) for value in values]
    place = axis + bool(rows) if batch is None or axis < batch else axis - 1 + bool(rows)
    return Tensor(F.cat(values, place), shape)


def _given_batch(call: Call, x: Tensor, batch: int, size: Size) -> Tensor:
    if x.shape[batch] not in (1, call.batch):
        raise Misfit(f"{x.shape} meets the batch of the others with an axis that is no batch")
    wanted = (*x.shape[:batch], size, *x.shape[batch + 1 :])
    if x.shape[batch] == 1 or isinstance(x.held, np.ndarray):
        return expanded(x, wanted)
    producer = x.value.producer
    if isinstance(producer, operations.Expand):  # repeated for the samples that the file was written for
        inner = producer.inputs[0]
        sample = (1,) * (x.rank - len(inner.sample)) + inner.sample
        if not inner.rows and sample[batch] == 1:
            return expanded(Tensor(inner.reshape(sample)), wanted)
    raise Misfit(f"{x.shape} holds samples of its own")


@operator(PARTS, "Pad")
def pad(call: Call, x: Tensor, pads: Tensor, value: Tensor | None = None, axes: Tensor | None = None) -> Tensor:
    widths = _numpy.pad_widths(x.rank, plain_numbers(pads, "pads") or [], plain_numbers(axes, "axes"))
    if x.batch is not None and any(widths[x.batch]):
        raise Misfit("samples cannot be added to a batch")
    modes = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    mode = call.text("mode", "constant")
    if mode not in modes:
        raise Misfit(f"mode={mode!r} has no counterpart here")
    filled = constant_of(value, "constant_value")
    number = 0.0 if filled is None else float(filled.item())
    shape: list[Any] = [n if isinstance(n, Size) else n + sum(w) for n, w in zip(x.shape, widths, strict=True)]
    held = x.batched
    if not any(map(any, widths)):
        return x
    flat = [n for i, pair in reversed(list(enumerate(widths))) if i != x.batch for n in pair]
    if not held.rows:
        raise Misfit("weights cannot be padded")
    kept = _outermost(held, flat)
    return Tensor(F.pad(held, kept, modes[mode], number), shape)  # type: ignore[arg-type]


def _outermost(value: Value, flat: list[int]) -> list[int]:
    """Widths without those of outer axes that nothing is added to."""
    while len(flat) > 2 and not any(flat[-2:]):
        flat = flat[:-2]
    return flat
