"""Whole numbers, what they find and move, order, Fourier transforms, and functions of elements that no layer computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....graph.operations import (
    MASKS,
    AddEntries,
    Convert,
    Cumulative,
    Elementwise,
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
from ._registry import NoForm, writes

# Functions of elements.


def _truncated(file: GraphFile, x: str) -> str:
    return file.node("Mul", file.node("Sign", x), file.node("Floor", file.node("Abs", x)))


def _remainder(file: GraphFile, a: str, b: str) -> str:
    return file.node("Sub", a, file.node("Mul", b, file.node("Floor", file.node("Div", a, b))))


def _sinc(file: GraphFile, x: str) -> str:
    angle = file.node("Mul", x, file.number(math.pi))
    zero = file.node("Equal", x, file.number(0))
    apart = file.node("Where", zero, file.number(1), angle)
    return file.node("Where", zero, file.number(1), file.node("Div", file.node("Sin", apart), apart))


def _log_add_exp(file: GraphFile, a: str, b: str) -> str:
    apart = file.node("Neg", file.node("Abs", file.node("Sub", a, b)))
    return file.node("Add", file.node("Max", a, b), file.node("Softplus", apart))


def _hypotenuse(file: GraphFile, a: str, b: str) -> str:
    return file.node("Sqrt", file.node("Add", file.node("Mul", a, a), file.node("Mul", b, b)))


def _of_logic(op: str) -> Callable[..., str]:
    def write(file: GraphFile, *given: str) -> str:
        return file.node(op, *(file.node("Cast", x, to=file.onnx.TensorProto.BOOL) for x in given))

    return write


def _named(op: str, *behind: str, **options: Any) -> Callable[..., str]:
    def write(file: GraphFile, *given: str) -> str:
        y = file.node(op, *given, **options)
        for other in behind:
            y = file.node(other, y)
        return y

    return write


def _finite(file: GraphFile, x: str) -> str:
    return file.node("Not", file.node("Or", file.node("IsNaN", x), file.node("IsInf", x)))


_FUNCTIONS: dict[str, Callable[..., str]] = {
    "gt": _named("Greater"), "ge": _named("GreaterOrEqual"), "lt": _named("Less"), "le": _named("LessOrEqual"),
    "eq": _named("Equal"), "ne": _named("Equal", "Not"), "logical_and": _of_logic("And"), "logical_or": _of_logic("Or"),
    "logical_xor": _of_logic("Xor"), "logical_not": _of_logic("Not"), "isnan": _named("IsNaN"), "isinf": _named("IsInf"),
    "isfinite": _finite, "floor_divide": _named("Div", "Floor"), "trunc": _truncated,
    "frac": lambda file, x: file.node("Sub", x, _truncated(file, x)), "remainder": _remainder,
    "fmod": _named("Mod", fmod=1), "log1p": lambda file, x: file.node("Log", file.node("Add", x, file.number(1))),
    "expm1": lambda file, x: file.node("Sub", file.node("Exp", x), file.number(1)),
    "log10": lambda file, x: file.node("Mul", file.node("Log", x), file.number(1 / math.log(10))),
    "erfc": lambda file, x: file.node("Sub", file.number(1), file.node("Erf", x)), "sinc": _sinc,
    "hypot": _hypotenuse, "logaddexp": _log_add_exp,
}  # fmt: skip


@writes(Elementwise)
def elementwise(file: GraphFile, operation: Elementwise) -> str:
    if operation.function not in _FUNCTIONS:
        raise NoForm(f"the function {operation.function} has no form in ONNX")
    kinds = {x.dtype for x in operation.inputs}
    plain = len(kinds) == 1 and operation.function in MASKS
    given = [_as(file, x, next(iter(kinds)) if plain else FLOAT32) for x in operation.inputs]
    y = _FUNCTIONS[operation.function](file, *given)
    return file.node("Cast", y, to=file.kind(operation.output)) if operation.function in MASKS else y


def _as(file: GraphFile, x: Tensor, dtype: np.dtype[Any]) -> str:
    name = file.use(x)
    if x.dtype == dtype:
        return name
    types = file.onnx.TensorProto
    return file.node("Cast", name, to=types.FLOAT if dtype == FLOAT32 else types.INT64)


# Whole numbers.


@writes(Convert)
def convert(file: GraphFile, operation: Convert) -> str:
    return file.node("Cast", file.use(operation.inputs[0]), to=file.kind(operation.output))


def _scalar(file: GraphFile, size: AnySize) -> str:
    return file.node("Squeeze", file.sizes([size]), file.integers([0]))


@writes(Range)
def numbers_in_order(file: GraphFile, operation: Range) -> str:
    y, kind = operation.output, file.kind(operation.output)
    places = file.node("Range", _scalar(file, 0), _scalar(file, y.shape[0]), _scalar(file, 1))
    start, step = (
        file.number(n) if isinstance(n, float) else file.node("Cast", _scalar(file, n), to=file.onnx.TensorProto.FLOAT)
        for n in (operation.start, operation.step)
    )
    if y.dtype != FLOAT32 and not isinstance(operation.start, float) and not isinstance(operation.step, float):
        start, step = (_scalar(file, n) for n in (operation.start, operation.step))
        return file.node("Add", file.node("Mul", places, step), start)
    wide = file.node("Cast", places, to=file.onnx.TensorProto.FLOAT)
    return file.node("Cast", file.node("Add", file.node("Mul", wide, step), start), to=kind)


@writes(FlatIndex)
def flat_index(file: GraphFile, operation: FlatIndex) -> str:
    flat = ""
    for value, n in zip(operation.inputs, operation.sizes, strict=True):
        size = _scalar(file, n)
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
