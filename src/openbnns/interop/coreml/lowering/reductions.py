"""Reductions over axes, sorting, and lookups."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph import functions as F
from ....graph.sizes import product
from ...converted.tensors import ForeignTensor, Misfit, reshaped
from ..names import REDUCTIONS
from .table import Call, operation, whole

_ONNX = {names.core_ml: names.onnx for names in REDUCTIONS.values()}


@operation(*_ONNX)
def reduction(call: Call, x: ForeignTensor, axes: list[int] | None, keep_dims: bool) -> Any:
    chosen = whole(list(range(x.rank)) if axes is None else [x.axis(axis) for axis in axes])
    return call.onnx(_ONNX[call.kind], x, chosen, keepdims=int(keep_dims))


@operation("reduce_argmax", "reduce_argmin")
def position(call: Call, x: ForeignTensor, axis: int, keep_dims: bool, output_dtype: str) -> Any:
    op = "ArgMax" if call.kind == "reduce_argmax" else "ArgMin"
    return call.onnx(op, x, axis=x.axis(axis), keepdims=int(keep_dims))


@operation("cumsum")
def cumsum(call: Call, x: ForeignTensor, axis: int, exclusive: bool, reverse: bool) -> Any:
    return call.onnx("CumSum", x, whole(x.axis(axis)), exclusive=int(exclusive), reverse=int(reverse))


@operation("argsort")
def argsort(call: Call, x: ForeignTensor, axis: int, ascending: bool) -> ForeignTensor:
    return ForeignTensor(F.argsort(x.numbers, axis, not ascending, stable=True), "i")


@operation("topk")
def topk(
    call: Call,
    x: ForeignTensor,
    k: Any,
    axis: int,
    ascending: bool,
    sort: bool,
    return_indices: bool,
    output_indices_dtype: str,
) -> Any:
    count = int(k.array.item()) if isinstance(k, ForeignTensor) else k
    if count == -1:
        count = int(x.shape[x.axis(axis)])
    results = call.onnx("TopK", x, whole([count]), axis=axis, largest=int(not ascending), outputs=2)
    return results if call.outputs > 1 else results[0]


# Elements by number.


@operation("gather")
def gather(
    call: Call, x: ForeignTensor, indices: ForeignTensor, axis: Any, batch_dims: int, validate_indices: bool
) -> Any:
    place = x.axis(int(axis.array.item()) if isinstance(axis, ForeignTensor) else axis)
    if not batch_dims:
        return call.onnx("Gather", x, indices, axis=place)
    # Entries of one axis for all samples: the samples in front, each with numbers of its own.
    samples = product(x.shape[:batch_dims])
    inner, outer = x.shape[batch_dims:place], x.shape[place + 1 :]
    rows = call.onnx(
        "Transpose", x, perm=[*range(batch_dims), place, *range(batch_dims, place), *range(place + 1, x.rank)]
    )
    size = x.shape[place]
    table = ForeignTensor(reshaped(rows, (samples * size, product(inner) * product(outer))), x.kind)
    first = whole(np.arange(int(samples)) * int(size))
    flat = ForeignTensor(reshaped(indices, (samples, product(indices.shape[batch_dims:]))), indices.kind)
    flat = call.onnx("Add", call.onnx("Mod", flat, whole(int(size))), call.onnx("Unsqueeze", first, whole([1])))
    picked = call.onnx("Gather", table, flat, axis=0)
    count = indices.rank - batch_dims
    apart = ForeignTensor(reshaped(picked, (*indices.shape, *inner, *outer)), x.kind)
    order = [
        *range(batch_dims),
        *range(batch_dims + count, batch_dims + count + len(inner)),
        *range(batch_dims, batch_dims + count),
        *range(batch_dims + count + len(inner), apart.rank),
    ]
    return call.onnx("Transpose", apart, perm=order)


@operation("gather_along_axis")
def gather_along_axis(call: Call, x: ForeignTensor, indices: ForeignTensor, axis: int, validate_indices: bool) -> Any:
    return call.onnx("GatherElements", x, indices, axis=x.axis(axis))


@operation("gather_nd")
def gather_nd(call: Call, x: ForeignTensor, indices: ForeignTensor, batch_dims: int, validate_indices: bool) -> Any:
    named = int(indices.shape[-1])
    sizes = [int(n) for n in x.shape[: batch_dims + named]]
    flat: Any = whole(0)
    for i, size in enumerate(sizes[batch_dims:]):
        numbers = call.onnx("Gather", indices, whole(i), axis=indices.rank - 1)
        flat = call.onnx("Add", call.onnx("Mul", flat, whole(size)), call.onnx("Mod", numbers, whole(size)))
    if batch_dims:
        count = int(np.prod(sizes[batch_dims:]))
        starts = np.arange(int(np.prod(sizes[:batch_dims]))).reshape(sizes[:batch_dims]) * count
        flat = call.onnx("Add", flat, whole(starts.reshape(*starts.shape, *[1] * (indices.rank - 1 - batch_dims))))
    rest = x.shape[batch_dims + named :]
    table = ForeignTensor(reshaped(x, (int(np.prod(sizes)), *rest)), x.kind)
    return call.onnx("Gather", table, flat, axis=0)


@operation("one_hot")
def one_hot(
    call: Call, indices: ForeignTensor, one_hot_vector_size: ForeignTensor, axis: int, on_value: Any, off_value: Any
) -> Any:
    if not one_hot_vector_size.constant:
        raise Misfit("one_hot_vector_size is computed")
    kind = np.float32 if isinstance(on_value, float) or isinstance(off_value, float) else np.int64
    values = ForeignTensor(np.array([off_value, on_value], kind))
    depth = whole(int(one_hot_vector_size.held.item()))
    return call.onnx("OneHot", indices, depth, values, axis=axis)
