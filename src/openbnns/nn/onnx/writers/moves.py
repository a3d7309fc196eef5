"""Elements in other places: axes exchanged, parts taken, values joined, repeated and padded."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import operations
from ...operations.choice import Choice
from ...operations.padding import Padding
from ...operations.random_numbers import RandomNumbers
from .._graph_file import GraphFile
from ._registry import NoForm, writes

_END = 2**31 - 1


@writes(operations.Permute)
def permute(file: GraphFile, operation: operations.Permute) -> str:
    return file.node("Transpose", file.use(operation.inputs[0]), perm=list(operation.order))


@writes(operations.Slice)
def take_slice(file: GraphFile, operation: operations.Slice) -> str:
    x = operation.inputs[0]
    chosen = [(axis, part) for axis, part in enumerate(operation.index) if part != slice(None)]
    starts, ends, steps = [], [], []
    for axis, part in chosen:
        first, last, step = part.indices(x.sample[axis - bool(x.rows)])
        starts.append(first)
        ends.append(last if step > 0 or last >= 0 else -_END)
        steps.append(step)
    axes = [axis for axis, _ in chosen]
    return file.node("Slice", file.use(x), *map(file.integers, (starts, ends, axes, steps)))


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
    if x.rows == y.rows:
        shape = file.integers((1, *y.sample) if y.rows else y.sample)  # 1 leaves the batch as it is
    else:
        shape = file.shape(y.rows, y.sample)
    return file.node("Expand", file.use(x), shape)


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
    pairs = [(0, 0)] * bool(x.rows) + list(operation.widths)
    pads = file.integers([pair[0] for pair in pairs] + [pair[1] for pair in pairs])
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
    return file.node("Resize", file.use(x), "", "", file.integers(y.sample[1:]), **options)


@writes(operations.PixelShuffle)
def pixel_shuffle(file: GraphFile, operation: operations.PixelShuffle) -> str:
    x, y = operation.inputs[0], operation.output
    if y.sample[1] >= x.sample[1]:
        return file.node("DepthToSpace", file.use(x), blocksize=y.sample[1] // x.sample[1], mode="CRD")
    size = x.sample[1] // y.sample[1]
    channels, height, width = x.sample
    apart = file.integers((-1, channels, height // size, size, width // size, size))
    turned = file.node("Transpose", file.node("Reshape", file.use(x), apart), perm=[0, 1, 3, 5, 2, 4])
    return file.node("Reshape", turned, file.integers((-1, *y.sample)))


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
        shape = ((-1,) if x.rows else ()) + (*x.sample[:-1], whole)
        parts = [file.node("Reshape", joined, file.integers(shape))]
    else:
        parts = [to_a, to_b]
    if whole < x.sample[-1]:
        parts.append(part(whole, x.sample[-1], 1))
    return parts[0] if len(parts) == 1 else file.node("Concat", *parts, axis=last)


@writes(RandomNumbers)
def random_numbers(file: GraphFile, operation: RandomNumbers) -> str:
    y = operation.output
    zeros = file.node("Expand", file.number(0), file.shape(y.rows, y.sample))
    if operation.normal:
        return file.node("RandomNormalLike", zeros)
    return file.node("RandomUniformLike", zeros)


@writes(operations.MaxUnpooling)
def max_unpooling(file: GraphFile, operation: operations.MaxUnpooling) -> str:
    """Places count through a plane here, and through the whole tensor in ONNX's MaxUnpool."""
    x, indices = operation.inputs
    y = operation.output
    channels, *image = y.sample
    plane = int(np.prod(image))
    flat = file.integers((-1, channels, int(np.prod(x.sample[1:]))))
    values, places = (file.node("Reshape", file.use(v), flat) for v in (x, indices))
    zeros = file.node("Expand", file.number(0), file.shape(y.rows, (channels, plane)))
    filled = file.node("ScatterElements", zeros, places, values, axis=2)
    return file.node("Reshape", filled, file.integers((-1, *y.sample)))


def refuse(reason: str) -> None:
    raise NoForm(reason)
