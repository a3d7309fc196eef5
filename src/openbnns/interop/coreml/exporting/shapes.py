"""Reshape, transpose, slice, concatenate, pad and resize."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import InterpolationMethod
from ....graph.operations import (
    Choice,
    Concatenate,
    Contraction,
    Detach,
    Expand,
    MatrixProduct,
    Padding,
    Permute,
    Pick,
    PixelShuffle,
    Resize,
    Slice,
    Split,
)
from ....graph.sizes import AnySize, is_plain, is_same, number_of
from .program_builder import ProgramBuilder, Refused, Value, array_of, writes


@writes(Permute)
def _permute(b: ProgramBuilder, op: Permute) -> None:
    x = b.get(op.inputs[0])
    held = array_of(x)
    b.set(op.output, b("transpose", x=x, perm=list(op.order)) if held is None else held.transpose(op.order))


@writes(Slice)
def _slice(b: ProgramBuilder, op: Slice) -> None:
    x = b.computed(op.inputs[0])
    begin: list[AnySize] = [0 if part.start is None else part.start for part in op.index]
    end: list[AnySize] = [0 if part.stop is None else part.stop for part in op.index]
    y = b(
        "slice_by_index", x=x, begin=b.sizes(begin), end=b.sizes(end),
        stride=[1 if part.step is None else int(part.step) for part in op.index],
        begin_mask=[part.start is None for part in op.index], end_mask=[part.stop is None for part in op.index],
    )  # fmt: skip
    b.set(op.output, y)


@writes(Pick)
def _pick(b: ProgramBuilder, op: Pick) -> None:
    y = b("gather", x=b.get(op.inputs[0]), indices=np.asarray(op.numbers, np.int32), axis=op.axis)
    b.set(op.output, b.reshaped(y, op.output.shape) if np.ndim(op.numbers) != 1 else y)


@writes(Split)
def _split(b: ProgramBuilder, op: Split) -> None:
    parts = b("split", x=b.get(op.inputs[0]), split_sizes=list(op.sizes), axis=op.axis, outputs=len(op.sizes))
    for value, part in zip(op.outputs, parts if isinstance(parts, (tuple, list)) else [parts], strict=True):
        b.set(value, part)


@writes(Concatenate)
def _concatenate(b: ProgramBuilder, op: Concatenate) -> None:
    b.set(op.output, b("concat", values=[b.get(value) for value in op.inputs], axis=op.axis))


@writes(Expand)
def _expand(b: ProgramBuilder, op: Expand) -> None:
    x, value, goal = b.get(op.inputs[0]), op.inputs[0], op.output.shape
    held = array_of(x)
    if held is not None and is_plain(goal):
        b.set(op.output, np.ascontiguousarray(np.broadcast_to(held, tuple(map(int, goal)))))
        return
    front = op.output.ndim - value.ndim
    wide = b.reshaped(x, (*[1] * front, *value.shape)) if front else x
    sizes = (*[1] * front, *value.shape)
    repeats = [1 if is_same(n, m) else m for n, m in zip(sizes, goal, strict=True)]
    if is_plain(repeats):
        b.set(op.output, b("tile", x=wide, reps=repeats))
    else:  # added to as many zeros
        b.set(op.output, b("add", x=b("fill", shape=b.sizes(repeats), value=np.float32(0)), y=wide))


@writes(Detach)
def _detach(b: ProgramBuilder, op: Detach) -> None:
    b.set(op.output, b.get(op.inputs[0]))


@writes(Choice)
def _choice(b: ProgramBuilder, op: Choice) -> None:
    b.set(op.output, b.get(op.inputs[1]))


@writes(MatrixProduct)
def _product(b: ProgramBuilder, op: MatrixProduct) -> None:
    x, y = (b.get(value) for value in op.inputs)
    b.set(op.output, product(b, x, y, op.transposed, op.alpha))


def product(
    b: ProgramBuilder, x: Value, y: Value, transposed: tuple[bool, bool] = (False, False), alpha: float = 1.0
) -> Value:
    z = b("matmul", x=x, y=y, transpose_x=transposed[0], transpose_y=transposed[1])
    return z if alpha == 1.0 else b("mul", x=z, y=np.float32(alpha))


@writes(Contraction)
def _contraction(b: ProgramBuilder, op: Contraction) -> None:
    raise Refused("contractions are not written. Use matmul or linear")


@writes(Padding)
def _padding(b: ProgramBuilder, op: Padding) -> None:
    x = b.get(op.inputs[0])
    pad = [n for pair in op.widths for n in pair]
    if op.mode.case == "reflect":
        used = pad[-4:] if any(pad[-4:-2]) else pad[-2:]
        if any(pad[: -len(used)]):
            raise Refused("Core ML reflects at the last two axes only. Permute the axes first")
        b.set(op.output, b("pad", x=x, pad=used, mode="reflect"))
        return
    b.set(op.output, b("pad", x=x, pad=pad, mode="constant", constant_val=np.float32(op.mode.value)))


@writes(Resize)
def _resize(b: ProgramBuilder, op: Resize) -> None:
    x, why = b.get(op.inputs[0]), "Core ML resizes images of known sizes, or by whole factors"
    factors = [_factor(n, m) for n, m in zip(op.inputs[0].shape[2:], op.output.shape[2:], strict=True)]
    if len(factors) == 2 and all(factors) and not op.align_corners:
        high, wide = map(np.float32, factors)
        scales: dict[str, Any] = {"scale_factor_height": high, "scale_factor_width": wide}
        linear = op.method is InterpolationMethod.LINEAR
        scaled = b("upsample_bilinear", x=x, align_corners=False, **scales) if linear else None
        b.set(op.output, scaled or b("upsample_nearest_neighbor", x=x, **scales))
        return
    sizes, goal = (b.numbers(value.shape[2:], why) for value in (op.inputs[0], op.output))
    if len(sizes) == 1:  # Core ML resizes images: a signal is one line of an image
        y = _resized(b, op, b("expand_dims", x=x, axes=[2]), (1, *sizes), (1, *goal))
        b.set(op.output, b("squeeze", x=y, axes=[2]))
    else:
        b.set(op.output, _resized(b, op, x, sizes, goal))


def _factor(size: AnySize, goal: AnySize) -> int:
    """The whole number of times that one size is another, whatever the free sizes are; 0 for none."""
    factor = number_of(goal) // max(number_of(size), 1)
    return factor if is_same(goal, size * factor) else 0


def _resized(b: ProgramBuilder, op: Resize, x: Value, sizes: tuple[int, ...], goal: tuple[int, ...]) -> Value:
    if len(sizes) != 2:
        raise Refused("Core ML resizes signals and images only")
    if op.method is InterpolationMethod.LINEAR:
        if op.align_corners and any(m == 1 < n for n, m in zip(sizes, goal, strict=True)):
            raise Refused("Core ML puts a single pixel between the corners. Leave align_corners out")
        mode = "ALIGN_CORNERS" if op.align_corners else "UNALIGN_CORNERS"
        return b("resize_bilinear", x=x, target_size_height=goal[0], target_size_width=goal[1], sampling_mode=mode)
    for axis, (n, m) in enumerate(zip(sizes, goal, strict=True)):  # Core ML does not say which pixel is the nearest
        if n != m:
            x = b("gather", x=x, indices=(np.arange(m) * n // m).astype(np.int32), axis=axis + 2)
    return x


@writes(PixelShuffle)
def _pixel_shuffle(b: ProgramBuilder, op: PixelShuffle) -> None:
    channels, fewer = (int(value.shape[1]) for value in (op.inputs[0], op.output))
    if channels < fewer:
        factor = round((fewer / channels) ** 0.5)
        b.set(op.output, b("pixel_unshuffle", x=b.get(op.inputs[0]), downscale_factor=np.uint32(factor)))
        return
    b.set(op.output, b("pixel_shuffle", x=b.get(op.inputs[0]), upscale_factor=round((channels / fewer) ** 0.5)))
