"""Elements in other places."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import InterpolationMethod
from ..operations import Concatenate, Contraction, Detach, Expand, MatrixProduct, Permute, Pick, Slice, Split
from ..operations.choice import Choice
from ..operations.padding import Padding
from ..operations.resize import PixelShuffle, Resize
from ._builder import Builder, Refused, Var, writes


@writes(Permute)
def _permute(b: Builder, op: Permute) -> None:
    x = b.get(op.inputs[0])
    b.set(op.output, x.transpose(op.order) if isinstance(x, np.ndarray) else b("transpose", x=x, perm=list(op.order)))


@writes(Slice)
def _slice(b: Builder, op: Slice) -> None:
    x, value = b.get(op.inputs[0]), op.inputs[0]
    rank = value.ndim
    index = _whole_index(op.index, rank)
    if isinstance(x, np.ndarray):
        b.set(op.output, np.ascontiguousarray(x[op.index]).reshape(op.output.sample))
        return
    begin, end, stride, begin_mask, end_mask, squeeze = [], [], [], [], [], []
    for part in index:
        step = 1 if isinstance(part, int) or part.step is None else int(part.step)
        begin_mask.append(not isinstance(part, int) and part.start is None)
        end_mask.append(not isinstance(part, int) and part.stop is None)
        squeeze.append(isinstance(part, int))
        begin.append(part if isinstance(part, int) else part.start or 0)
        end.append((part + 1 or 2**31 - 1) if isinstance(part, int) else 0 if part.stop is None else part.stop)
        stride.append(step)
    y = b(
        "slice_by_index", x=x, begin=begin, end=end, stride=stride, begin_mask=begin_mask, end_mask=end_mask,
        squeeze_mask=squeeze,
    )  # fmt: skip
    b.set(op.output, b.reshaped(y, op.output) if any(part is None for part in op.index) else y)


def _whole_index(index: tuple[Any, ...], rank: int) -> list[Any]:
    """One entry for every axis."""
    parts = [part for part in index if part is not None]
    if any(part is Ellipsis for part in parts):
        place = next(i for i, part in enumerate(parts) if part is Ellipsis)
        parts[place : place + 1] = [slice(None)] * (rank - len(parts) + 1)
    parts += [slice(None)] * (rank - len(parts))
    found = []
    for part in parts:
        if not isinstance(part, (slice, int, np.integer)):
            raise Refused("an index by other than numbers and slices is none of Core ML. Use F.index_select")
        found.append(part if isinstance(part, slice) else int(part))
    return found


@writes(Pick)
def _pick(b: Builder, op: Pick) -> None:
    y = b("gather", x=b.get(op.inputs[0]), indices=np.asarray(op.numbers, np.int32), axis=op.axis)
    b.set(op.output, b.reshaped(y, op.output) if np.ndim(op.numbers) != 1 else y)


@writes(Split)
def _split(b: Builder, op: Split) -> None:
    parts = b("split", x=b.get(op.inputs[0]), split_sizes=list(op.sizes), axis=op.axis)
    for value, part in zip(op.outputs, parts if isinstance(parts, (tuple, list)) else [parts], strict=True):
        b.set(value, part)


@writes(Concatenate)
def _concatenate(b: Builder, op: Concatenate) -> None:
    parts = [b.get(value) for value in op.inputs]
    if any(not value.rows for value in op.inputs) and any(value.rows for value in op.inputs):
        raise Refused(
            "it joins something to every sample that is the same for all of them. Expand that to the batch first"
        )
    b.set(op.output, b("concat", values=parts, axis=op.axis))


@writes(Expand)
def _expand(b: Builder, op: Expand) -> None:
    x, value = b.get(op.inputs[0]), op.inputs[0]
    if op.output.rows and not value.rows:
        if op.output.rows != 1:
            raise Refused("it repeats something several times for every sample. Repeat it along another axis")
        b.set(op.output, _for_every_sample(b, x, op.output.sample))
        return
    if isinstance(x, np.ndarray):
        b.set(op.output, np.ascontiguousarray(np.broadcast_to(x, op.output.sample)))
        return
    front = op.output.ndim - value.ndim
    sizes = [1] * front + ([1] if value.rows else []) + list(value.sample)
    wide = b("expand_dims", x=x, axes=list(range(1, front + 1))) if front else x
    goal = ([1] if op.output.rows else []) + list(op.output.sample)
    if value.rows and front:
        sizes = [1, *[1] * front, *value.sample]
    b.set(op.output, b("tile", x=wide, reps=[n // m for n, m in zip(goal, sizes, strict=True)]))


def _for_every_sample(b: Builder, x: Var, sample: tuple[int, ...]) -> Var:
    """Something without a batch axis, once for each sample: added to as many zeros."""
    zeros = b("fill", shape=b("concat", values=[b.batch(), np.array(sample, np.int32)], axis=0), value=np.float32(0))
    return b("add", x=zeros, y=x)


@writes(Detach)
def _detach(b: Builder, op: Detach) -> None:
    b.set(op.output, b.get(op.inputs[0]))


@writes(Choice)
def _choice(b: Builder, op: Choice) -> None:
    b.set(op.output, b.get(op.inputs[1]))


@writes(MatrixProduct)
def _product(b: Builder, op: MatrixProduct) -> None:
    x, y = (b.get(value) for value in op.inputs)
    b.set(op.output, product(b, x, y, op.transposed, op.alpha))


def product(b: Builder, x: Var, y: Var, transposed: tuple[bool, bool] = (False, False), alpha: float = 1.0) -> Var:
    z = b("matmul", x=x, y=y, transpose_x=transposed[0], transpose_y=transposed[1])
    return z if alpha == 1.0 else b("mul", x=z, y=np.float32(alpha))


@writes(Contraction)
def _contraction(b: Builder, op: Contraction) -> None:
    raise Refused("contractions are not written. Use matmul or linear")


@writes(Padding)
def _padding(b: Builder, op: Padding) -> None:
    x = b.get(op.inputs[0])
    pad = [0, 0] * bool(op.inputs[0].rows) + [n for pair in op.widths for n in pair]
    if op.mode.case == "reflect":
        used = pad[-4:] if any(pad[-4:-2]) else pad[-2:]
        if any(pad[: -len(used)]):
            raise Refused("Core ML reflects at the last two axes only. Permute the axes first")
        b.set(op.output, b("pad", x=x, pad=used, mode="reflect"))
        return
    b.set(op.output, b("pad", x=x, pad=pad, mode="constant", constant_val=np.float32(op.mode.value)))


@writes(Resize)
def _resize(b: Builder, op: Resize) -> None:
    x, sizes, goal = b.get(op.inputs[0]), op.inputs[0].sample[1:], op.output.sample[1:]
    if len(sizes) == 1:  # Core ML resizes images: a signal is one line of an image
        y = _resized(b, op, b("expand_dims", x=x, axes=[2]), (1, *sizes), (1, *goal))
        b.set(op.output, b("squeeze", x=y, axes=[2]))
    else:
        b.set(op.output, _resized(b, op, x, sizes, goal))


def _resized(b: Builder, op: Resize, x: Var, sizes: tuple[int, ...], goal: tuple[int, ...]) -> Var:
    if len(sizes) != 2:
        raise Refused("Core ML resizes signals and images only")
    if op.method is InterpolationMethod.LINEAR:
        if op.align_corners and any(m == 1 < n for n, m in zip(sizes, goal, strict=True)):
            raise Refused("Core ML puts a single pixel between the corners. Leave align_corners out")
        mode = "ALIGN_CORNERS" if op.align_corners else "UNALIGN_CORNERS"
        return b("resize_bilinear", x=x, target_size_height=goal[0], target_size_width=goal[1], sampling_mode=mode)
    if all(m % n == 0 for n, m in zip(sizes, goal, strict=True)):
        factors = [m // n for n, m in zip(sizes, goal, strict=True)]
        return b("upsample_nearest_neighbor", x=x, scale_factor_height=factors[0], scale_factor_width=factors[1])
    for axis, (n, m) in enumerate(zip(sizes, goal, strict=True)):  # Core ML does not say which pixel is the nearest
        if n != m:
            x = b("gather", x=x, indices=(np.arange(m) * n // m).astype(np.int32), axis=axis + 2)
    return x


@writes(PixelShuffle)
def _pixel_shuffle(b: Builder, op: PixelShuffle) -> None:
    (channels, *_), (fewer, *_) = op.inputs[0].sample, op.output.sample
    if channels < fewer:
        factor = round((fewer / channels) ** 0.5)
        b.set(op.output, b("pixel_unshuffle", x=b.get(op.inputs[0]), downscale_factor=np.uint32(factor)))
        return
    b.set(op.output, b("pixel_shuffle", x=b.get(op.inputs[0]), upscale_factor=round((channels / fewer) ** 0.5)))
