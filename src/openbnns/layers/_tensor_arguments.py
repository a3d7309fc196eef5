"""Shared code of the functions on whole tensors: names, and their arguments as descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._words import Caller
from ..abi.structs import BNNSNDArrayDescriptor
from ..errors import Problem
from ..tensors.descriptors import LAYOUTS, View, resolve
from ._ports import as_array, descriptor_for, first_major, require_contiguous, require_data, skip
from .types import DataType

# The names of arguments in C, and in these functions.
NAMES = {
    "src": "input", "dest": "to", "in0": "a", "in1": "b", "op": "reduction_function", "out": "output", "K": "k",
    "in_delta": "generating_input_gradient", "out_delta": "output_gradient", "num_lower": "lower_band_count",
    "num_upper": "upper_band_count", "filter_params": "filter_parameters",
}  # fmt: skip

# Element types of arrays that kernels take as they are; anything else, mistakes included, is checked in full.
PLAIN = frozenset(np.dtype(t) for t in ["f2", "f4", "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])


def view_of(descriptor: BNNSNDArrayDescriptor) -> View:
    return resolve(descriptor, "descriptor")


def shape_of(descriptor: BNNSNDArrayDescriptor) -> tuple[int, ...]:
    """Sizes in the order of axis numbers."""
    return view_of(descriptor).numbered_shape


def described(who: str, value: Any, layout: int | None = None, *, output: bool = False) -> BNNSNDArrayDescriptor:
    """A tensor as a descriptor; an array is in C order, an input that is not is copied."""
    if isinstance(value, BNNSNDArrayDescriptor):
        require_data(value, who)
        resolve(value, who)
        return value
    array = as_array(value, who)
    if not 1 <= array.ndim <= 8 or array.size == 0:
        raise Problem(f"{who} has shape {array.shape}. Pass an array of 1 to 8 axes with at least one element.")
    try:
        kind = DataType.from_dtype(array.dtype)
    except TypeError:
        raise Problem(
            f"{who} is {array.dtype}, for which BNNS has no element type. Pass float16, float32, bool, or integers of up to "
            "64 bits.",
            kind=TypeError,
        ) from None
    if output:
        require_contiguous(array, who)
    if layout is None or LAYOUTS[layout].rank != array.ndim:
        layout = int(first_major(array.shape).value)
    return descriptor_for(array.shape, layout, kind, np.ascontiguousarray(array))


def output_like(
    who: str, value: Any, x: BNNSNDArrayDescriptor, shape: Sequence[int], dtype: Any = None
) -> tuple[BNNSNDArrayDescriptor, Any]:
    """An output in the layout of x as (descriptor, what to return); a new array of ``shape``, in the order of axis numbers."""
    if value is not None:
        return described(who, value, int(x.layout), output=True), value
    view = view_of(x)
    in_memory = tuple(int(shape[view.numbered_axes.index(a)]) for a in view.memory_axes)
    return _new(who, in_memory, view.layout.code, x, dtype)


def ranked_output(
    who: str, value: Any, x: BNNSNDArrayDescriptor, shape: tuple[int, ...]
) -> tuple[BNNSNDArrayDescriptor, Any]:
    """An output whose rank is not that of x; ``shape`` is in the order of axis numbers."""
    if value is not None:
        return described(who, value, None, output=True), value
    return _new(who, shape or (1,), int(first_major(shape or (1,)).value), x, None)


def _new(
    who: str, shape: tuple[int, ...], layout: int, x: BNNSNDArrayDescriptor, dtype: Any
) -> tuple[BNNSNDArrayDescriptor, Any]:
    if dtype is None:
        element = view_of(x).element
        if element.numpy is None or element.kind in ("bfloat", "indexed"):
            raise Problem(f"{who} is left out, but NumPy has no {element.name}. Pass a descriptor.")
        dtype = np.bool_ if element.kind == "boolean" else element.numpy
    array = np.empty(shape, dtype)
    made = descriptor_for(shape, layout, DataType.from_dtype(dtype), array)
    if np.dtype(dtype) == view_of(x).element.numpy:
        made.data_scale, made.data_bias = x.data_scale, x.data_bias
    return made, array


def axis_of(caller: Caller, name: str, axis: Any, value: Any, descriptor: BNNSNDArrayDescriptor) -> int:
    """The number of an axis in the count of the descriptor's layout: as given for a descriptor, a NumPy axis of an array."""
    if isinstance(axis, (bool, np.bool_)) or not hasattr(axis, "__index__"):
        raise Problem(f"{caller(name)} must be an integer, not {type(axis).__name__}.", kind=TypeError)
    view = view_of(descriptor)
    number, rank = int(axis), len(view.size)
    if isinstance(value, BNNSNDArrayDescriptor):
        if number < 0:
            raise Problem(f"{caller(name)} is {number}, but axes of a descriptor are numbers from 0 to {rank - 1}.")
        return number
    if not -rank <= number < rank:
        raise Problem(f"{caller(name)} is {number}, but there are axes {-rank} to {rank - 1}.")
    return view.numbered_axes.index(view.memory_axes[number % rank])


def check_batch(caller: Caller, batch_size: Any, *values: Any) -> None:
    if batch_size != 1 and not all(isinstance(v, BNNSNDArrayDescriptor) or v is skip for v in values):
        raise Problem(
            f"{caller('batch_size')} is {batch_size}, but it counts samples of descriptors with data. Arrays have all their "
            "axes: leave it out."
        )
