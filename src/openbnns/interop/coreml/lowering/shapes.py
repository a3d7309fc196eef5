"""Reshape, transpose, slice, split, concatenate and pad."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph import functions as F
from ....graph.operations import Window
from ....graph.sizes import Size, agree, is_same, is_same_shape, product
from ...converted.tensors import ForeignTensor, Misfit, reshaped, sizes_array
from .table import Call, operation, sizes_of, whole

_FAR = 2**31 - 1


@operation("shape")
def shape(call: Call, x: ForeignTensor) -> ForeignTensor:
    return ForeignTensor(sizes_array(x.shape))


@operation("reshape")
def reshape(call: Call, x: ForeignTensor, shape: ForeignTensor) -> Any:
    sizes = sizes_of(shape, "shape")
    zeros = [axis for axis, n in enumerate(sizes) if is_same(n, 0)]
    if zeros and len(sizes) != x.rank and x.held is not None:
        # From iOS 17 on, zeros take the sizes of the axes that they stand for when both shapes are aligned at their ends.
        extra = len(sizes) - x.rank
        for axis in zeros:
            sizes[axis] = x.shape[axis - extra] if axis >= extra else 1
        return call.onnx("Reshape", x, ForeignTensor(sizes_array(sizes)))
    return call.onnx("Reshape", x, shape)


@operation("reshape_like")
def reshape_like(
    call: Call,
    x: ForeignTensor,
    ref_tensors: list[ForeignTensor],
    begins: list[ForeignTensor],
    ends: list[ForeignTensor],
    end_masks: list[ForeignTensor],
) -> ForeignTensor:
    sizes: list[Any] = []
    for ref, begin, end, mask in zip(ref_tensors, begins, ends, end_masks, strict=True):
        stop = None if bool(mask.array) else int(end.array)
        sizes += ref.shape[slice(int(begin.array), stop)]
    return ForeignTensor(reshaped(x, sizes), x.kind)


@operation("flatten2d")
def flatten2d(call: Call, x: ForeignTensor, axis: int) -> Any:
    return call.onnx("Flatten", x, axis=axis)


@operation("squeeze")
def squeeze(call: Call, x: ForeignTensor, axes: list[int] | None) -> Any:
    return call.onnx("Squeeze", x, None if axes is None else whole(axes))


@operation("expand_dims")
def expand_dims(call: Call, x: ForeignTensor, axes: list[int]) -> Any:
    return call.onnx("Unsqueeze", x, whole(axes))


@operation("transpose")
def transpose(call: Call, x: ForeignTensor, perm: list[int]) -> Any:
    return call.onnx("Transpose", x, perm=[axis % x.rank for axis in perm])


@operation("tile")
def tile(call: Call, x: ForeignTensor, reps: ForeignTensor) -> Any:
    sizes_of(reps, "reps")
    return call.onnx("Tile", x, reps)


@operation("fill")
def fill(call: Call, shape: ForeignTensor, value: Any) -> Any:
    sizes_of(shape, "shape")
    return call.onnx("ConstantOfShape", shape, value=np.array([value], _fitting(value)))


def _fitting(value: Any) -> Any:
    return np.bool_ if isinstance(value, bool) else np.int64 if isinstance(value, int) else np.float32


@operation("fill_like")
def fill_like(call: Call, ref_tensor: ForeignTensor, value: Any) -> Any:
    return fill(call, ForeignTensor(sizes_array(ref_tensor.shape)), value)


@operation("range_1d")
def range_1d(call: Call, end: ForeignTensor, start: ForeignTensor, step: ForeignTensor) -> Any:
    if not (end.constant and start.constant and step.constant):
        raise Misfit("end, start or step is computed")
    given = [x.held if x.held.dtype != object else np.array(int(x.held.item())) for x in (start, end, step)]
    return call.onnx(
        "Range", *(ForeignTensor(x.astype(np.float32 if x.dtype.kind == "f" else np.int64)) for x in given)
    )


@operation("reverse")
def reverse(call: Call, x: ForeignTensor, axes: list[int] | None) -> Any:
    chosen = list(range(x.rank)) if axes is None else [x.axis(axis) for axis in axes]
    if x.constant:
        return ForeignTensor(np.flip(x.held, tuple(chosen)))
    return ForeignTensor(F.flip(x.value, chosen), x.kind) if chosen else x


# Channels and pixels.


@operation("pixel_shuffle")
def pixel_shuffle(call: Call, x: ForeignTensor, upscale_factor: int) -> Any:
    return call.onnx("DepthToSpace", x, blocksize=upscale_factor, mode="CRD")


@operation("pixel_unshuffle")
def pixel_unshuffle(call: Call, x: ForeignTensor, downscale_factor: int) -> Any:
    return call.onnx("SpaceToDepth", x, blocksize=downscale_factor, mode="CRD")


@operation("depth_to_space")
def depth_to_space(call: Call, x: ForeignTensor, block_size: int) -> Any:
    return call.onnx("DepthToSpace", x, blocksize=block_size, mode="DCR")


@operation("space_to_depth")
def space_to_depth(call: Call, x: ForeignTensor, block_size: int) -> Any:
    return call.onnx("SpaceToDepth", x, blocksize=block_size, mode="DCR")


@operation("space_to_batch")
def space_to_batch(call: Call, x: ForeignTensor, block_shape: list[int], paddings: list[list[int]]) -> ForeignTensor:
    value = F.pad(x.numbers, [n for pair in reversed(paddings) for n in pair])
    samples, channels, height, width = value.shape
    rows, columns = block_shape
    apart = value.reshape((samples, channels, height // rows, rows, width // columns, columns))
    turned = F.permute(apart, 3, 5, 0, 1, 2, 4)
    return ForeignTensor(turned.reshape((rows * columns * samples, channels, height // rows, width // columns)))


@operation("batch_to_space")
def batch_to_space(call: Call, x: ForeignTensor, block_shape: list[int], crops: list[list[int]]) -> ForeignTensor:
    value = x.numbers
    many, channels, height, width = value.shape
    rows, columns = block_shape
    samples = many // (rows * columns)
    apart = value.reshape((rows, columns, samples, channels, height, width))
    whole_image = F.permute(apart, 2, 3, 4, 0, 5, 1).reshape((samples, channels, height * rows, width * columns))
    return ForeignTensor(F.pad(whole_image, [-n for pair in reversed(crops) for n in pair]))


# Parts.


@operation("slice_by_index")
def slice_by_index(
    call: Call, x: ForeignTensor, begin: ForeignTensor, end: ForeignTensor, stride: list[int] | None, begin_mask: list[bool] |
    None, end_mask: list[bool] | None, squeeze_mask: list[bool] | None,
) -> Any:  # fmt: skip
    starts, ends, steps = _bounds(x, begin, end, stride, begin_mask, end_mask, squeeze_mask)
    part = _slice(call, x, starts, ends, steps)
    squeezed = [axis for axis, flag in enumerate(squeeze_mask or []) if flag]
    return call.onnx("Squeeze", part, whole(squeezed)) if squeezed else part


def _bounds(
    x: ForeignTensor, begin: ForeignTensor, end: ForeignTensor, stride: list[int] | None, begin_mask: list[bool] | None,
    end_mask: list[bool] | None, squeeze_mask: list[bool] | None,
) -> tuple[list[Any], list[Any], list[int]]:  # fmt: skip
    """Where a slice begins and ends on every axis, and its strides, without masks."""
    starts, ends = sizes_of(begin, "begin"), sizes_of(end, "end")
    steps = [1] * x.rank if stride is None else list(stride)
    for axis in range(x.rank):
        forward = steps[axis] > 0
        if squeeze_mask is not None and squeeze_mask[axis]:
            steps[axis], ends[axis] = 1, _FAR if is_same(starts[axis], -1) else starts[axis] + 1
            continue
        if begin_mask is not None and begin_mask[axis]:
            starts[axis] = 0 if forward else _FAR
        if end_mask is not None and end_mask[axis]:
            ends[axis] = _FAR if forward else -_FAR
    return starts, ends, steps


def _cut_axes(x: ForeignTensor, starts: list[Any], ends: list[Any], steps: list[int]) -> list[int]:
    """The axes of which a slice takes less than all, or in another order."""
    return [
        axis
        for axis in range(x.rank)
        if not (
            is_same(starts[axis], 0) and steps[axis] == 1 and (ends[axis] is _FAR or is_same(ends[axis], x.shape[axis]))
        )
    ]


def _slice(call: Call, x: ForeignTensor, starts: list[Any], ends: list[Any], steps: list[int]) -> Any:
    chosen = _cut_axes(x, starts, ends, steps)
    if not chosen:
        return x
    given = [sizes_array([one[axis] for axis in chosen]) for one in (starts, ends)]
    return call.onnx("Slice", x, *map(ForeignTensor, given), whole(chosen), whole([steps[axis] for axis in chosen]))


@operation("slice_by_size")
def slice_by_size(call: Call, x: ForeignTensor, begin: ForeignTensor, size: ForeignTensor) -> Any:
    starts, sizes = sizes_of(begin, "begin"), sizes_of(size, "size")
    ends = [_FAR if is_same(n, -1) else start + n for start, n in zip(starts, sizes, strict=True)]
    return _slice(call, x, starts, ends, [1] * x.rank)


@operation("crop")
def crop(call: Call, x: ForeignTensor, crop_height: list[int], crop_width: list[int]) -> ForeignTensor:
    edges = [-crop_width[0], -crop_width[1], -crop_height[0], -crop_height[1]]
    return ForeignTensor(F.pad(x.numbers, edges)) if any(edges) else x


@operation("split")
def split(call: Call, x: ForeignTensor, num_splits: int | None, split_sizes: list[int] | None, axis: int) -> Any:
    if split_sizes is None:
        assert num_splits is not None
        if call.outputs == 1:
            return x
        return call.onnx("Split", x, axis=axis, num_outputs=num_splits, outputs=call.outputs)
    if call.outputs == 1:
        return x
    return call.onnx("Split", x, whole(split_sizes), axis=axis, outputs=call.outputs)


@operation("sliding_windows")
def sliding_windows(call: Call, x: ForeignTensor, axis: int, size: int, stride: int) -> Any:
    place = x.axis(axis)
    (count,) = Window.of("sliding_windows", (size,), stride).counts([int(x.shape[place])])
    return call.onnx("Gather", x, whole(np.arange(int(count))[:, None] * stride + np.arange(size)), axis=place)


@operation("band_part")
def band_part(call: Call, x: ForeignTensor, lower: int, upper: int) -> Any:
    rows, columns = (int(n) for n in x.shape[-2:])
    distance = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    kept = np.ones((rows, columns), np.bool_)
    kept = kept if lower < 0 else kept & (-distance <= lower)
    kept = kept if upper < 0 else kept & (distance <= upper)
    return call.onnx(
        "Where", ForeignTensor(kept), x, ForeignTensor(np.zeros((), np.float32 if x.kind == "f" else np.int64))
    )


@operation("scatter")
def scatter(
    call: Call, data: ForeignTensor, indices: ForeignTensor, updates: ForeignTensor, axis: int, mode: str, validate_indices:
    bool,
) -> ForeignTensor:  # fmt: skip
    if indices.rank != 1 or "f" not in (data.kind, updates.kind) or mode not in ("add", "update"):
        raise Misfit("only numbers are added or put at places in a row")
    place, places = data.axis(axis), np.asarray(indices.array)
    size = data.shape[place]
    if places.dtype == object or (places.size and not -size <= int(places.min()) <= int(places.max()) < size):
        raise Misfit(f"places are outside of axis {place} of {data.shape}")
    chosen = places if places.size and places.min() >= 0 else places % int(size)
    if mode == "add":
        return ForeignTensor(F.index_add(data.numbers, place, chosen, updates.numbers))
    if not is_same(updates.shape[place], len(chosen)):
        raise Misfit(f"updates of shape {updates.shape} do not fit {len(chosen)} places of axis {place}")
    rows = np.broadcast_to(chosen.reshape(-1, *[1] * (data.rank - 1 - place)), tuple(map(int, updates.shape)))
    return ForeignTensor(F.scatter(data.numbers, place, rows, updates.numbers))


def _put(
    call: Call, op: str, data: ForeignTensor, indices: ForeignTensor, updates: ForeignTensor, mode: str, **options: int
) -> Any:
    """The result of ONNX's operator; modes that multiply, divide or compare are for numbers that are known, not recorded."""
    if data.kind != "f" or updates.kind != "f" or mode not in ("add", "sub", "update"):
        raise Misfit("only numbers are added, subtracted or put at places")
    if mode == "sub":
        updates = ForeignTensor(F.neg(updates.numbers))
    return call.onnx(op, data, indices, updates, reduction="none" if mode == "update" else "add", **options)


@operation("scatter_along_axis")
def scatter_along_axis(
    call: Call, data: ForeignTensor, indices: ForeignTensor, updates: ForeignTensor, axis: int, mode: str, validate_indices:
    bool,
) -> Any:  # fmt: skip
    if not is_same_shape(indices.shape, updates.shape):  # ONNX would leave out what has no place
        raise Misfit(f"updates of shape {updates.shape} do not fit indices of shape {indices.shape}")
    return _put(call, "ScatterElements", data, indices, updates, mode, axis=axis)


@operation("scatter_nd")
def scatter_nd(
    call: Call, data: ForeignTensor, indices: ForeignTensor, updates: ForeignTensor, mode: str, validate_indices: bool
) -> Any:
    return _put(call, "ScatterND", data, indices, updates, mode)


@operation("reverse_sequence")
def reverse_sequence(call: Call, x: ForeignTensor, lengths: ForeignTensor, seq_axis: int, batch_axis: int) -> Any:
    if x.kind != "f":
        raise Misfit("only sequences of numbers are reversed")
    return call.onnx("ReverseSequence", x, lengths, time_axis=seq_axis, batch_axis=batch_axis)


@operation("slice_update")
def slice_update(
    call: Call, x: ForeignTensor, update: ForeignTensor, begin: ForeignTensor, end: ForeignTensor, stride: list[int] | None,
    begin_mask: list[bool] | None, end_mask: list[bool] | None, squeeze_mask: list[bool] | None,
) -> Any:  # fmt: skip
    starts, ends, steps = _bounds(x, begin, end, stride, begin_mask, end_mask, squeeze_mask)
    squeezed = [axis for axis, flag in enumerate(squeeze_mask or []) if flag]
    if squeezed and update.rank + len(squeezed) == x.rank:
        update = call.onnx("Unsqueeze", update, whole(squeezed))
    for axis, last in enumerate(ends):
        freed = call.freed.get(last) if isinstance(last, int) else None
        if freed is not None and is_same(x.shape[axis], freed) and is_same(starts[axis], 0) and steps[axis] == 1:
            ends[axis] = _FAR  # the number of samples that the program was made for

    def replaced(old: Any, axes: list[int]) -> Any:
        """Replace a part of a tensor along these axes: joined with what is new, entries are taken from where they stand."""
        if not axes:
            if update.rank != old.rank or not all(map(agree, update.shape, old.shape)):
                raise Misfit(f"an update of shape {update.shape} does not fit the part of shape {old.shape}")
            return update
        axis, *rest = axes
        size = x.shape[axis]
        if any(isinstance(n, Size) for n in (size, starts[axis], ends[axis])):
            raise Misfit(f"a part of axis {axis} is replaced, the size of which is free")
        places = np.arange(int(size))[slice(starts[axis], ends[axis], steps[axis])]
        new = replaced(call.onnx("Gather", old, whole(places), axis=axis), rest)
        sources = np.arange(int(size))
        sources[places] = int(size) + np.arange(len(places))
        return call.onnx("Gather", call.onnx("Concat", old, new, axis=axis), whole(sources), axis=axis)

    return replaced(x, _cut_axes(x, starts, ends, steps))


# Joints.


@operation("concat")
def concat(call: Call, values: list[ForeignTensor], axis: int, interleave: bool) -> Any:
    # coremltools joins numbers as if they were vectors of one.
    values = [call.onnx("Unsqueeze", x, whole([0])) if x.rank == 0 else x for x in values]
    if not interleave or len(values) == 1:
        return call.onnx("Concat", *values, axis=axis) if len(values) > 1 else values[0]
    place = values[0].axis(axis)
    apart = call.onnx("Concat", *(call.onnx("Unsqueeze", x, whole([place + 1])) for x in values), axis=place + 1)
    sizes = values[0].shape
    joined = (*sizes[:place], product(apart.shape[place : place + 2]), *sizes[place + 1 :])
    return ForeignTensor(reshaped(apart, joined), apart.kind)


@operation("stack")
def stack(call: Call, values: list[ForeignTensor], axis: int) -> Any:
    places = whole([axis % (values[0].rank + 1)])
    apart = [call.onnx("Unsqueeze", x, places) for x in values]
    return call.onnx("Concat", *apart, axis=int(places.held[0])) if len(apart) > 1 else apart[0]


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


@operation("pad")
def pad(call: Call, x: ForeignTensor, pad: ForeignTensor, mode: str, constant_val: float) -> Any:
    numbers = sizes_of(pad, "pad")
    if any(isinstance(n, Size) for n in numbers):
        numbers = [int(n) for n in numbers]
    count = len(numbers) // 2
    widths = [(0, 0)] * (x.rank - count) + [(numbers[2 * i], numbers[2 * i + 1]) for i in range(count)]
    pads = whole([before for before, _ in widths] + [after for _, after in widths])
    filling = ForeignTensor(np.array(constant_val, np.float32))
    return call.onnx("Pad", x, pads, filling, mode=_MODES[mode])
