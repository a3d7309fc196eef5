"""Whole numbers, what they find and move, order, Fourier transforms."""

from __future__ import annotations

import math

import numpy as np

from ....graph.operations import (
    AddEntries,
    Convert,
    Cumulative,
    FlatIndex,
    FourierTransform,
    PutAlong,
    Range,
    Sort,
    Take,
    TakeAlong,
)
from ....graph.sizes import AnySize
from ....graph.tensor import FLOAT32, Tensor
from .._graph_file import GraphFile
from ..errors import NoForm
from ._registry import writes


@writes(Convert)
def convert(file: GraphFile, operation: Convert) -> str:
    return file.node("Cast", file.use(operation.inputs[0]), to=file.kind(operation.output))


def scalar(file: GraphFile, size: AnySize) -> str:
    return file.node("Squeeze", file.sizes([size]), file.integers([0]))


@writes(Range)
def numbers_in_order(file: GraphFile, operation: Range) -> str:
    y, kind = operation.output, file.kind(operation.output)
    places = file.node("Range", scalar(file, 0), scalar(file, y.shape[0]), scalar(file, 1))
    start, step = (
        file.number(n) if isinstance(n, float) else file.node("Cast", scalar(file, n), to=file.onnx.TensorProto.FLOAT)
        for n in (operation.start, operation.step)
    )
    if y.dtype != FLOAT32 and not isinstance(operation.start, float) and not isinstance(operation.step, float):
        start, step = (scalar(file, n) for n in (operation.start, operation.step))
        return file.node("Add", file.node("Mul", places, step), start)
    wide = file.node("Cast", places, to=file.onnx.TensorProto.FLOAT)
    return file.node("Cast", file.node("Add", file.node("Mul", wide, step), start), to=kind)


@writes(FlatIndex)
def flat_index(file: GraphFile, operation: FlatIndex) -> str:
    flat = ""
    for value, n in zip(operation.inputs, operation.sizes, strict=True):
        size = scalar(file, n)
        place = file.node("Mod", file.use(value), size)
        flat = file.node("Add", file.node("Mul", flat, size), place) if flat else place
    return flat


@writes(Take)
def take(file: GraphFile, operation: Take) -> str:
    return file.node("Gather", *map(file.use, operation.inputs), axis=operation.axis)


@writes(TakeAlong)
def take_along(file: GraphFile, operation: TakeAlong) -> str:
    x, indices = operation.inputs
    name = _cut(file, x, indices.shape, operation.axis)
    return file.node("GatherElements", name, file.use(indices), axis=operation.axis)


def _cut(file: GraphFile, x: Tensor, shape: tuple[AnySize, ...], along: int | None = None) -> str:
    """The first elements of a value along all axes but one, as many as a shape has."""
    axes = [
        i for i, (n, m) in enumerate(zip(x.shape, shape, strict=True)) if i != along and file.size(n) != file.size(m)
    ]
    if not axes:
        return file.use(x)
    ends = file.sizes([shape[axis] for axis in axes])
    return file.node("Slice", file.use(x), file.integers([0] * len(axes)), ends, file.integers(axes))


@writes(PutAlong)
def put_along(file: GraphFile, operation: PutAlong) -> str:
    x, indices, source = operation.inputs
    reduction = "add" if operation.adds else "none"
    part = _cut(file, source, indices.shape)
    return file.node("ScatterElements", file.use(x), file.use(indices), part, axis=operation.axis, reduction=reduction)


@writes(AddEntries)
def add_entries(file: GraphFile, operation: AddEntries) -> str:
    source, indices = operation.inputs
    behind = source.ndim - operation.axis - 1
    places = file.reshaped(file.use(indices), (*[1] * operation.axis, source.shape[operation.axis], *[1] * behind))
    zeros = file.node("Expand", file.number(0), file.sizes(operation.output.shape))
    every = file.node("Expand", places, file.sizes(source.shape))
    return file.node("ScatterElements", zeros, every, file.use(source), axis=operation.axis, reduction="add")


@writes(Sort)
def sort(file: GraphFile, operation: Sort) -> list[str]:
    """Write TopK, which gives the lower place first of equal elements, as here; the largest or the smallest first."""
    count = file.sizes([operation.output.shape[operation.axis]])
    given = [file.use(operation.inputs[0]), count]
    return file.several("TopK", given, 2, axis=operation.axis, largest=int(operation.descending), sorted=1)


@writes(Cumulative)
def cumulative(file: GraphFile, operation: Cumulative) -> str:
    if operation.product:
        raise NoForm("products of all elements up to each have no form in ONNX")
    return file.node("CumSum", file.use(operation.inputs[0]), file.constant(np.int64(operation.axis)))


@writes(FourierTransform)
def fourier_transform(file: GraphFile, operation: FourierTransform) -> str:
    kind, n = operation.kind, file.size(operation.n)
    if kind == "irfft" or not isinstance(n, int):
        raise NoForm("transforms back to real numbers, and of free sizes, have no form in ONNX")
    x, inverse = operation.inputs[0], kind == "ifft"
    name = file.use(x)
    if kind == "rfft":
        name = file.node("Unsqueeze", name, file.integers([x.ndim]))
    axis = operation.axis % (x.ndim if kind == "rfft" else x.ndim - 1)
    given = (name, file.constant(np.int64(n)), file.constant(np.int64(axis)))
    y = file.node("DFT", *given, inverse=int(inverse), onesided=int(kind == "rfft"))
    usual = "backward"
    factor = {
        "backward": 1.0,
        "ortho": math.sqrt(n) if inverse else 1 / math.sqrt(n),
        "forward": n if inverse else 1 / n,
    }
    return y if operation.norm == usual else file.node("Mul", y, file.number(factor[operation.norm]))
