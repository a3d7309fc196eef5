"""Gather and scatter, along an axis and by index vectors, and the largest values along an axis.

Descriptors bring their data, nothing is kept, and everything is checked before anything is written. Indices are stored
integers of any type; one that lies outside its axis is an error, negative ones too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import engines
from .._words import Caller
from ..errors import Problem
from ..parameters.reduction import ReductionKind
from ..reference import selection as reference
from ..tensors.descriptors import FLOAT32, View, describe
from ..tensors.operands import Bound, check_batch, check_count, integer
from ..tensors.sharing import check_sharing
from ..tensors.staging import integer_range
from .direct import (
    INDEX_CODE,
    SHAPE_CODE,
    aligned,
    aligned_without,
    axis_number,
    axis_text,
    contiguous,
    is_plain_integer,
    ordered,
    place_of,
    plain_array,
    same_elements,
    shape_without,
    storage,
    store,
    stored_as,
    strided,
    tensor,
    threads_of,
)

_WRITE, _ADD_FLOATS, _ADD_INTEGERS = range(3)  # as Scattering in core/kernels/selection/shape.h
_GATHER = -1  # and the other direction


@dataclass(frozen=True)
class _Along:
    """A tensor [outer][length][inner] around one of its axes, and indices along it: [count], or one per element."""

    outer: int
    length: int
    inner: int
    count: int
    axis: int  # of the C-order array
    indices: NDArray[np.int64]
    axes: list[int]  # sizes of what the indices count along, or of the axes of index vectors
    stored: NDArray[Any]  # the indices, or index vectors, as native code takes them: int32 or int64

    @property
    def per_element(self) -> bool:
        return self.indices.ndim > 1


def gather(caller: Caller, axis: Any, input: Any, indices: Any, output: Any, filter_params: Any) -> None:
    """y[.., j, ..] = x[.., indices[j], ..] along one axis; or indices as large as y, one per element."""
    threads = threads_of(caller, filter_params)
    if threads == 0 and _selected(_GATHER, axis, input, output, indices):
        return
    x, idx = tensor(caller, "input", input), tensor(caller, "indices", indices)
    y = tensor(caller, "output", output, output=True)
    number = axis_number(caller, "axis", axis, x.view)
    along = _along(caller, number, x, "input", y, "output", idx)
    y = aligned(y, x)
    _gather_into(y, stored_as(x, y.view), along, (x, idx), threads)


def scatter(caller: Caller, axis: Any, op: Any, input: Any, indices: Any, output: Any, filter_params: Any) -> None:
    """y[.., indices[j], ..] = x[.., j, ..], or += with Sum, along one axis; other places keep their values."""
    threads = threads_of(caller, filter_params)
    function = _scatter_function(caller, op)
    if threads == 0 and _selected(
        _WRITE if function == ReductionKind.NONE else _ADD_FLOATS, axis, output, input, indices
    ):
        return
    x, idx = tensor(caller, "input", input), tensor(caller, "indices", indices)
    y = tensor(caller, "output", output, output=True)
    number = axis_number(caller, "axis", axis, y.view)
    along = _along(caller, number, y, "output", x, "input", idx)
    _scatter_into(function, aligned(x, y), y, along, idx, threads)


def _selected(kind: int, axis: Any, whole: Any, part: Any, indices: Any) -> bool:
    """Gather or scatter at once if all tensors suit the kernels; otherwise False, with nothing done."""
    if not engines.is_native() or type(axis) is not int:
        return False
    arrays = [a for d in (whole, part, indices) if (a := plain_array(d)) is not None]
    if len(arrays) < 3:
        return False
    (view, x), (other, y), (numbers, idx) = arrays
    fits = view.layout is other.layout and same_elements(view, other) and is_plain_integer(numbers)
    if not fits or not (numbers.layout is view.layout or idx.ndim == 1) or not 0 <= axis < x.ndim:
        return False
    if kind == _ADD_FLOATS and x.dtype != np.float32:
        return False
    return bool(engines._core.select_plain(kind, x, y, idx, view.memory_axes.index(view.numbered_axes[axis])))


def gather_nd(caller: Caller, input: Any, indices: Any, output: Any, filter_params: Any) -> None:
    """y[i...] = x[indices[i..., 0], ..., indices[i..., L-1]], axes in the order of their numbers."""
    threads = threads_of(caller, filter_params)
    x, idx = tensor(caller, "input", input), tensor(caller, "indices", indices)
    y = tensor(caller, "output", output, output=True)
    x, y, along = _by_vectors(caller, x, "input", y, "output", idx)
    _gather_into(y, stored_as(x, y.view), along, (x, idx), threads)


def scatter_nd(caller: Caller, op: Any, input: Any, indices: Any, output: Any, filter_params: Any) -> None:
    """y[indices[i..., 0], ..., indices[i..., L-1]] = x[i...], or += with Sum, axes in the order of their numbers."""
    threads = threads_of(caller, filter_params)
    function = _scatter_function(caller, op)
    x, idx = tensor(caller, "input", input), tensor(caller, "indices", indices)
    y = tensor(caller, "output", output, output=True)
    y, x, along = _by_vectors(caller, y, "output", x, "input", idx)
    _scatter_into(function, x, y, along, idx, threads)


# ---------------------------------------------------------------------------------------------------------------------
# Shapes and indices


def _along(caller: Caller, axis: int, whole: Bound, whole_name: str, part: Bound, part_name: str, idx: Bound) -> _Along:
    """Check that `part` is `whole` except along the axis of this number, and that the indices fit both."""
    size, other = whole.view.numbered_shape, part.view.numbered_shape
    if len(size) != len(other) or any(a != b for d, (a, b) in enumerate(zip(size, other, strict=True)) if d != axis):
        raise Problem(
            f"{caller(part_name)} is {describe(part.view)}, but {caller.name(whole_name)} is "
            f"{describe(whole.view)}. Their sizes may differ in {axis_text(axis, whole.view)} only.",
            code=SHAPE_CODE,
        )
    flat = len(idx.view.size) == 1 and idx.view.size[0] == other[axis]
    if not flat and idx.view.numbered_shape != other:
        raise Problem(
            f"{caller('indices')} is {describe(idx.view)}. Pass {other[axis]} indices, one per entry along "
            f"{axis_text(axis, part.view)} of the {caller.name(part_name)}, or one per element: "
            f"{part.view.layout.name} size {part.view.size}.",
            code=SHAPE_CODE,
        )
    place = place_of(whole, axis)
    idx = idx if flat else aligned(idx, whole)
    numbers = _indices(caller, idx, size[axis], axis)
    outer, inner = math.prod(whole.shape[:place]), math.prod(whole.shape[place + 1 :])
    return _Along(outer, size[axis], inner, other[axis], place, numbers, [size[axis]], _as_stored(idx, numbers))


def _by_vectors(
    caller: Caller, whole: Bound, whole_name: str, part: Bound, part_name: str, idx: Bound
) -> tuple[Bound, Bound, _Along]:
    """Selection by index vectors as a selection along one axis: the first L axes of `whole` made one."""
    shape, vectors = whole.view.numbered_shape, idx.view.numbered_shape
    length = vectors[-1]
    if length > len(shape):
        raise Problem(
            f"{caller('indices')} is {describe(idx.view)}: index vectors of {length} entries, but "
            f"{caller.name(whole_name)} is {describe(whole.view)} with {len(shape)} axes. The last axis "
            "holds one index per axis, from the first on.",
            code=SHAPE_CODE,
        )
    expected = vectors[:-1] + shape[length:]
    if part.view.numbered_shape != expected and not (expected == () and part.view.count == 1):
        raise Problem(
            f"{caller(part_name)} is {describe(part.view)}, but its shape follows from indices {vectors} and "
            f"{caller.name(whole_name)} {shape}: {expected or (1,)}, axis 0 first.",
            code=SHAPE_CODE,
        )
    places = ordered(idx, idx.view.numbered_axes)
    flat = np.zeros(math.prod(vectors[:-1]), np.int64)
    numbers = _integers(caller, places)
    for axis in range(length):
        column = np.ascontiguousarray(numbers[..., axis]).reshape(-1)
        _check_range(caller, column, shape[axis], axis)
        flat = flat * shape[axis] + column
    rows, inner = math.prod(shape[:length]), math.prod(shape[length:])
    along = _Along(1, rows, inner, len(flat), 0, flat, list(shape[:length]), _as_stored(places, numbers))
    return ordered(whole, whole.view.numbered_axes), ordered(part, part.view.numbered_axes), along


def _integers(caller: Caller, idx: Bound) -> NDArray[np.int64]:
    """Stored indices as int64; those beyond its range become negative, which is invalid for every axis."""
    if not idx.view.element.is_integer:
        raise Problem(
            f"{caller('indices')}.data_type is {idx.view.element.name}, but indices are integers. Use an Int or UInt type.",
            kind=TypeError,
        )
    return np.ascontiguousarray(idx.read_integers()[0]).view(np.int64)


def _as_stored(idx: Bound, numbers: NDArray[np.int64]) -> NDArray[Any]:
    """Indices where they lie in the caller's memory if native code reads them there, else the given copy."""
    if not is_plain_integer(idx.view) or idx.view.element.numpy not in (np.dtype(np.int32), np.dtype(np.int64)):
        return numbers
    array = strided(idx)
    return numbers if array is None or not (array.flags.c_contiguous and array.flags.aligned) else array


def _indices(caller: Caller, idx: Bound, limit: int, axis: int) -> NDArray[np.int64]:
    numbers = _integers(caller, idx)
    _check_range(caller, numbers, limit, axis)
    return numbers


def _check_range(caller: Caller, numbers: NDArray[np.int64], limit: int, axis: int, name: str = "indices") -> None:
    if engines._core is not None:
        bad = int(engines._core.first_outside(numbers.ctypes.data, numbers.size, limit))
    else:
        outside = np.flatnonzero((numbers < 0) | (numbers >= limit))
        bad = int(outside[0]) if outside.size else -1
    if bad >= 0:
        raise Problem(
            f"{caller(name)} holds {int(numbers.reshape(-1)[bad])}, but axis {axis} has {limit} entries: indices are 0 to "
            f"{limit - 1}; negative ones do not count from the end, and none is clamped.",
            code=INDEX_CODE,
        )


def _scatter_function(caller: Caller, op: Any) -> int:
    function = integer(op, caller("op"))
    if function not in (ReductionKind.NONE, ReductionKind.SUM):
        raise Problem(
            f"{caller('op')} is {function}. Scatter overwrites with BNNSReduceFunctionNone (15) and adds with "
            "BNNSReduceFunctionSum (6); there are no others."
        )
    return function


# ---------------------------------------------------------------------------------------------------------------------
# Running


def _gather_into(y: Bound, stored: NDArray[Any], along: _Along, sources: tuple[Bound, ...], threads: int) -> None:
    source = contiguous(stored, threads)

    def work(target: NDArray[Any]) -> None:
        if not engines.is_native():
            whole = source.reshape(along.outer, along.length, along.inner)
            indices = (
                along.indices.reshape(along.outer, along.count, along.inner) if along.per_element else along.indices
            )
            target[...] = reference.gather(whole, indices, 1).reshape(target.shape)
            return
        _select(_GATHER, source, target, along, threads)

    store(y, work, sources, packed=True)


def _scatter_into(function: int, x: Bound, y: Bound, along: _Along, idx: Bound, threads: int) -> None:
    """Combine x into y: elements as they are, or sums in float32 (in int64 for integers without scale and bias)."""
    if function == ReductionKind.NONE:
        kind, source = _WRITE, contiguous(stored_as(x, y.view), threads)
        old = y.direct_raw()
    elif is_plain_integer(x.view) and is_plain_integer(y.view):
        kind, source, old = _ADD_INTEGERS, contiguous(x.read_integers().view(np.int64), threads), None
    else:
        dtype = np.float32 if engines.is_native() else np.float64
        kind, source = _ADD_FLOATS, contiguous(x.read(dtype), threads)
        old = y.direct() if engines.is_native() else None
    in_place = old is not None and not y.overlaps(x) and not y.overlaps(idx)
    if old is None or not in_place:
        old = _old_values(kind, y, source.dtype)
    _combine(kind, function, old, source, along, threads)
    if in_place:
        return
    if kind == _WRITE:
        y.write_raw(old)
    elif kind == _ADD_INTEGERS:
        unsigned = y.view.element.name == "UInt64"
        y.write_integers(old.view(np.uint64) if unsigned else old)
    else:
        y.write(old)


def _old_values(kind: int, y: Bound, dtype: np.dtype[Any]) -> NDArray[Any]:
    """A copy of what y holds, which kernels may change."""
    if kind == _WRITE:
        return np.array(y.read_raw(), storage(y.view), order="C")
    if kind == _ADD_INTEGERS:
        return np.array(y.read_integers(), order="C").view(np.int64)
    return np.array(y.read(dtype), order="C")


def _combine(kind: int, function: int, old: NDArray[Any], source: NDArray[Any], along: _Along, threads: int) -> None:
    if not engines.is_native():
        whole = old.reshape(along.outer, along.length, along.inner)
        part = source.reshape(along.outer, along.count, along.inner)
        indices = along.indices.reshape(part.shape) if along.per_element else along.indices
        old[...] = reference.scatter(function, part, indices, whole, 1).reshape(old.shape)
        return
    _select(kind, old, source, along, threads)


def _select(kind: int, whole: NDArray[Any], part: NDArray[Any], along: _Along, threads: int) -> None:
    engines._core.select(
        kind, whole.itemsize, outer=along.outer, length=along.length, inner=along.inner, count=along.count,
        per_element=along.per_element, axes=along.axes, index_bytes=along.stored.itemsize,
        indices=along.stored.ctypes.data, whole=whole.ctypes.data, selected=part.ctypes.data, threads=threads,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# The largest values


def top_k(
    caller: Caller, count: Any, axis: Any, batch_size: Any, input: Any, input_stride: Any, best_values: Any,
    best_values_stride: Any, best_indices: Any, best_indices_stride: Any, filter_params: Any,
) -> None:  # fmt: skip
    """The K largest values along an axis and where they are, best first; of equal ones the first is better."""
    threads = threads_of(caller, filter_params)
    numbers = (count, axis, batch_size, input_stride, best_values_stride, best_indices_stride)
    if threads == 0 and all(type(n) is int for n in numbers) and batch_size > 0:
        tensors = [(input, input_stride), (best_values, best_values_stride)]
        tensors += [] if best_indices is None else [(best_indices, best_indices_stride)]
        if _found_best(count, axis, batch_size, tensors):
            return
    batch = check_batch(batch_size, caller)
    x = tensor(caller, "input", input, batch=batch, stride=input_stride)
    number, k = _axis_and_k(caller, axis, count, x.view)
    shape = tuple(k if a == number else n for a, n in enumerate(x.view.numbered_shape))
    values = _result(caller, "best_values", best_values, x, shape, batch, best_values_stride)
    results = [values]
    if best_indices is not None:
        results.append(_result(caller, "best_indices", best_indices, x, shape, batch, best_indices_stride))
        _check_holds_indices(caller, results[1].view, x.view.numbered_shape[number])
        check_sharing(caller, {caller.name("best_values"): values, caller.name("best_indices"): results[1]})
    if batch == 0:
        return
    place = 1 + place_of(x, number)
    if threads == 0 and _found_best_in(k, place, [x, *results]):
        return
    stored = stored_as(x, values.view)
    best = _best(_ranked(x, threads), k, place, threads)
    outer, inner = math.prod(stored.shape[:place]), math.prod(stored.shape[place + 1 :])
    length = x.view.numbered_shape[number]
    along = _Along(outer, length, inner, k, place, best, [length], best)
    if any(r.overlaps(x) for r in results):
        stored = stored.copy()
    _gather_into(values, stored, along, (x,), threads)
    if best_indices is not None:
        results[1].write_integers(best)


def _found_best(k: int, axis: int, batch: int, tensors: list[tuple[Any, int]]) -> bool:
    """Find the largest floats at once if all tensors suit the kernels; otherwise False.

    tensors: input, values and perhaps indices, each with its stride from one sample to the next.
    """
    arrays = [a for d, stride in tensors if (a := plain_array(d, batch, stride)) is not None]
    if not engines.is_native() or len(arrays) < len(tensors):
        return False
    view, x = arrays[0]
    fits = all(other.layout is view.layout for other, _ in arrays) and all(is_plain_integer(v) for v, _ in arrays[2:])
    if not fits or not 0 <= axis < len(view.size) or not 0 < k <= view.size[axis]:
        return False
    places = arrays[2][1] if len(arrays) > 2 else None
    place = 1 + view.memory_axes.index(view.numbered_axes[axis])
    return bool(engines._core.top_k_plain(k, x, arrays[1][1], places, place))


def _found_best_in(k: int, place: int, tensors: list[Bound]) -> bool:
    """The same for checked tensors, of whose memory only the address may be known."""
    if not engines.is_native() or any(t.view.element is not FLOAT32 for t in tensors[:2]):
        return False
    if not all(is_plain_integer(t.view) for t in tensors[2:]):
        return False
    arrays = [strided(t, writable=i > 0) for i, t in enumerate(tensors)]
    if any(a is None or not (a.flags.c_contiguous and a.flags.aligned) for a in arrays):
        return False
    best = arrays[2] if len(arrays) > 2 else None
    return bool(engines._core.top_k_plain(k, arrays[0], arrays[1], best, place))


def in_top_k(
    caller: Caller, count: Any, axis: Any, batch_size: Any, input: Any, input_stride: Any, test_indices: Any,
    test_indices_stride: Any, output: Any, output_stride: Any, filter_params: Any,
) -> None:  # fmt: skip
    """True where fewer than K values along the axis are larger than the one at the test index."""
    threads = threads_of(caller, filter_params)
    batch = check_batch(batch_size, caller)
    x = tensor(caller, "input", input, batch=batch, stride=input_stride)
    number, k = _axis_and_k(caller, axis, count, x.view)
    tested = tensor(caller, "test_indices", test_indices, batch=batch, stride=test_indices_stride)
    y = tensor(caller, "output", output, output=True, batch=batch, stride=output_stride)
    if not tested.view.element.is_integer:
        raise Problem(
            f"{caller('test_indices')}.data_type is {tested.view.element.name}, but indices are integers. Use an Int or "
            "UInt type.",
            kind=TypeError,
        )
    if y.view.element.kind != "boolean":
        raise Problem(
            f"{caller('output')}.data_type is {y.view.element.name}, but the answer is a truth value. Use "
            "BNNSDataTypeBoolean.",
            kind=TypeError,
        )
    tested = _without_axis(caller, "test_indices", tested, x, number)
    y = _without_axis(caller, "output", y, x, number)
    if batch == 0:
        return
    indices = np.ascontiguousarray(tested.read_integers()).view(np.int64)
    _check_range(caller, indices, x.view.numbered_shape[number], number, "test_indices")
    place = 1 + place_of(x, number)
    ranked, stored = _ranked(x, threads), _as_stored(tested, indices)

    def work(target: NDArray[Any]) -> None:
        if not engines.is_native():
            shape = ranked.shape[:place] + ranked.shape[place + 1 :]
            target[...] = reference.in_top_k(ranked, indices.reshape(shape), k, place).reshape(target.shape)
            return
        outer, length, inner = _around(ranked, place)
        engines._core.in_top_k(
            ranked.dtype == np.int64, outer=outer, length=length, inner=inner, k=k, x=ranked.ctypes.data,
            index_bytes=stored.itemsize, tested=stored.ctypes.data, y=target.ctypes.data, threads=threads,
        )  # fmt: skip

    store(y, work, (x, tested), packed=True)


def _axis_and_k(caller: Caller, axis: Any, count: Any, view: View) -> tuple[int, int]:
    number = axis_number(caller, "axis", axis, view)
    k, length = check_count(count, caller("K")), view.numbered_shape[number]
    if not 1 <= k <= length:
        raise Problem(
            f"{caller('K')} is {k}, but {axis_text(number, view)} of {describe(view)} has {length} entries. Pass 1 to "
            f"{length}."
        )
    return number, k


def _result(
    caller: Caller, name: str, descriptor: Any, x: Bound, shape: tuple[int, ...], batch: int, stride: Any
) -> Bound:
    y = tensor(caller, name, descriptor, output=True, batch=batch, stride=stride)
    if y.view.numbered_shape != shape:
        size = tuple(shape[n] for n in x.view.numbered_axes)  # in the layout of x, which exchanges two axes or none
        raise Problem(
            f"{caller(name)} is {describe(y.view)}, but the K largest of {describe(x.view)} have size {size}: K entries "
            "along the axis, and all others as they are."
        )
    return aligned(y, x)


def _check_holds_indices(caller: Caller, view: View, length: int) -> None:
    element = view.element
    if not element.is_integer:
        raise Problem(
            f"{caller('best_indices')}.data_type is {element.name}, but indices are integers. Use an Int or UInt type.",
            kind=TypeError,
        )
    if integer_range(element)[1] < length - 1:
        raise Problem(
            f"{caller('best_indices')}.data_type is {element.name}, which holds at most {integer_range(element)[1]}, but indices "
            f"go up to {length - 1}. Use a wider type.",
            kind=TypeError,
        )


def _without_axis(caller: Caller, name: str, bound: Bound, x: Bound, number: int) -> Bound:
    """A tensor of the other axes of x, in their order in memory; one element if there are none."""
    removed = {x.view.numbered_axes[number]}
    shape = shape_without(x.view, removed)
    if bound.view.numbered_shape == shape:
        return aligned_without(bound, x.view, removed)
    if not shape and bound.view.count == 1:
        return bound
    raise Problem(
        f"{caller(name)} is {describe(bound.view)}, but {describe(x.view)} without {axis_text(number, x.view)} has size "
        f"{shape or (1,)}."
    )


def _ranked(x: Bound, threads: int) -> NDArray[Any]:
    """Numbers in the order of the values, (N, *shape): float32 (float64 for the reference), or int64 for integers."""
    if not x.view.element.is_integer:
        return contiguous(x.read(np.float32 if engines.is_native() else np.float64), threads)
    numbers = x.read_integers()
    if numbers.dtype == np.uint64:
        numbers = (numbers ^ np.uint64(1 << 63)).view(np.int64)
    return contiguous(~numbers if x.view.scale < 0 else numbers, threads)


def _around(array: NDArray[Any], axis: int) -> tuple[int, int, int]:
    return math.prod(array.shape[:axis]), array.shape[axis], math.prod(array.shape[axis + 1 :])


def _best(ranked: NDArray[Any], k: int, axis: int, threads: int) -> NDArray[np.int64]:
    if not engines.is_native():
        return reference.top_k(ranked, k, axis)[1]
    best = np.empty((*ranked.shape[:axis], k, *ranked.shape[axis + 1 :]), np.int64)
    outer, length, inner = _around(ranked, axis)
    engines._core.top_k(
        ranked.dtype == np.int64, outer=outer, length=length, inner=inner, k=k, x=ranked.ctypes.data,
        indices=best.ctypes.data, threads=threads,
    )  # fmt: skip
    return best
