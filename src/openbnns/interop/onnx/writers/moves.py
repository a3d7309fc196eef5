"""Elements in other places: axes exchanged, parts taken, values joined, repeated and padded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....graph import operations
from ....graph.operations import Choice, Padding, RandomNumbers
from ....graph.sizes import AnySize, is_same, product
from .._graph_file import GraphFile
from ._registry import writes

_END = 2**31 - 1


@writes(operations.Permute)
def permute(file: GraphFile, operation: operations.Permute) -> str:
    return file.node("Transpose", file.use(operation.inputs[0]), perm=list(operation.order))


@writes(operations.Slice)
def take_slice(file: GraphFile, operation: operations.Slice) -> str:
    """Slices have their ends counted from the front; only one that goes down to the first entry has none."""
    x = operation.inputs[0]
    chosen = [(axis, part) for axis, part in enumerate(operation.index) if part != slice(None)]
    steps = [1 if part.step is None else int(part.step) for _, part in chosen]
    starts: list[AnySize] = []
    ends: list[AnySize] = []
    for (axis, part), step in zip(chosen, steps, strict=True):
        last = x.shape[axis] - 1
        starts.append((0 if step > 0 else last) if part.start is None else part.start)
        ends.append((last + 1 if step > 0 else -_END) if part.stop is None else part.stop)
    axes = file.integers([axis for axis, _ in chosen])
    return file.node("Slice", file.use(x), file.sizes(starts), file.sizes(ends), axes, file.integers(steps))


@writes(operations.Pick)
def pick(file: GraphFile, operation: operations.Pick) -> str:
    numbers = file.constant(np.asarray(operation.numbers, np.int64))
    return file.node("Gather", file.use(operation.inputs[0]), numbers, axis=operation.axis)


@writes(operations.Split)
def split(file: GraphFile, operation: operations.Split) -> list[str]:
    given = [file.use(operation.inputs[0]), file.integers(operation.sizes)]
    return file.several("Split", given, len(operation.sizes), axis=operation.axis)


@writes(operations.Concatenate)
def concatenate(file: GraphFile, operation: operations.Concatenate) -> str:
    return file.node("Concat", *map(file.use, operation.inputs), axis=operation.axis)


@writes(operations.Expand)
def expand(file: GraphFile, operation: operations.Expand) -> str:
    x, y = operation.inputs[0], operation.output
    front = (1,) * (y.ndim - x.ndim)
    goal = [1 if is_same(n, m) else m for n, m in zip((*front, *x.shape), y.shape, strict=True)]
    return file.node("Expand", file.use(x), file.sizes(goal))  # 1 leaves an axis as it is


@writes(operations.Detach)
def detach(file: GraphFile, operation: operations.Detach) -> str:
    return file.node("Identity", file.use(operation.inputs[0]))


@writes(Choice)
def choice(file: GraphFile, operation: Choice) -> str:
    """A file is for inference."""
    return file.node("Identity", file.use(operation.inputs[1]))


@writes(Padding)
def padding(file: GraphFile, operation: Padding) -> str:
    x, mode = operation.inputs[0], operation.mode
    pads = file.sizes([pair[0] for pair in operation.widths] + [pair[1] for pair in operation.widths])
    if mode.case == "reflect":
        return file.node("Pad", file.use(x), pads, mode="reflect")
    return file.node("Pad", file.use(x), pads, file.number(mode.value), mode="constant")


@writes(operations.Resize)
def resize(file: GraphFile, operation: operations.Resize) -> str:
    x, y = operation.inputs[0], operation.output
    axes = list(range(2, x.ndim))
    linear = operation.method.name == "LINEAR"
    options: dict[str, Any] = {"mode": "linear" if linear else "nearest", "axes": axes}
    if linear:
        options["coordinate_transformation_mode"] = "align_corners" if operation.align_corners else "half_pixel"
    else:
        options |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return file.node("Resize", file.use(x), "", "", file.sizes(y.shape[2:]), **options)


@writes(operations.PixelShuffle)
def pixel_shuffle(file: GraphFile, operation: operations.PixelShuffle) -> str:
    x, y = operation.inputs[0], operation.output
    channels, fewer = int(x.shape[1]), int(y.shape[1])
    if channels >= fewer:
        return file.node("DepthToSpace", file.use(x), blocksize=math.isqrt(channels // fewer), mode="CRD")
    size = math.isqrt(fewer // channels)
    samples, _, height, width = y.shape
    apart = file.reshaped(file.use(x), (samples, channels, height, size, width, size))
    return file.reshaped(file.node("Transpose", apart, perm=[0, 1, 3, 5, 2, 4]), y.shape)


@writes(operations.Rotate)
def rotate(file: GraphFile, operation: operations.Rotate) -> str:
    """Pairs of features turned by angles: (a cos - b sin, b cos + a sin)."""
    x = operation.inputs[0]
    last, pairs = x.ndim - 1, operation.sine.shape[1]
    steps = 2 if operation.halves[0].step == 2 else 1
    name = file.use(x)

    def part(start: int, end: int, step: int) -> str:
        return file.node("Slice", name, *map(file.integers, ([start], [end], [last], [step])))

    whole = operation.whole
    a, b = (part(half.start, half.stop, steps) for half in operation.halves)
    cosine = file.constant(operation.cosine[:, ::2] if steps == 2 else operation.cosine[:, :pairs])
    sine = file.constant(operation.sine)
    to_a = file.node("Sub", file.node("Mul", a, cosine), file.node("Mul", b, sine))
    to_b = file.node("Add", file.node("Mul", b, cosine), file.node("Mul", a, sine))
    if steps == 2:
        stacked = [file.node("Unsqueeze", y, file.integers([x.ndim])) for y in (to_a, to_b)]
        joined = file.node("Concat", *stacked, axis=x.ndim)
        parts = [file.reshaped(joined, (*x.shape[:-1], whole))]
    else:
        parts = [to_a, to_b]
    width = int(x.shape[-1])
    if whole < width:
        parts.append(part(whole, width, 1))
    return parts[0] if len(parts) == 1 else file.node("Concat", *parts, axis=last)


@writes(RandomNumbers)
def random_numbers(file: GraphFile, operation: RandomNumbers) -> str:
    y = operation.output
    zeros = file.node("Expand", file.number(0), file.sizes(y.shape))
    if operation.normal:
        return file.node("RandomNormalLike", zeros)
    return file.node("RandomUniformLike", zeros)


@writes(operations.MaxUnpooling)
def max_unpooling(file: GraphFile, operation: operations.MaxUnpooling) -> str:
    """Places count through a plane here, and through the whole tensor in ONNX's MaxUnpool."""
    x, indices = operation.inputs
    y = operation.output
    samples, channels, *image = y.shape
    values, places = (file.reshaped(file.use(v), (samples, channels, product(x.shape[2:]))) for v in (x, indices))
    zeros = file.node("Expand", file.number(0), file.sizes((samples, channels, product(image))))
    return file.reshaped(file.node("ScatterElements", zeros, places, values, axis=2), y.shape)
