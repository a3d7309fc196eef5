"""Shared code of the direct tensor functions: tensors with their data, paired axes, conversion, and writing of results.

Axis arguments count axes in the order of ``View.numbered_axes``, and where a function combines two tensors, axes with the
same number correspond. The numbers follow ``size[]``, except for RowMajorMatrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import compat, engines
from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..errors import Problem
from ..tensors import staging
from ..tensors.descriptors import View, describe, resolve
from ..tensors.operands import Bound, OwnedMemory, bind, check_stride, integer, keep_apart

SHAPE_CODE = -1003
"""Status of selections whose shapes do not match."""

INDEX_CODE = -1005
"""Status of an index outside its axis."""

Pairs = Sequence[tuple[int, int]]
"""Positions of arguments that belong together."""

if engines._core is not None:
    compat.on_change.append(engines._core.forget_calls)


class _WithoutCore:
    """A stand-in for ``KnownCalls`` without the compiled core, which knows no call."""

    def run(self, *arguments: Any) -> None:
        return None

    def record(self) -> None:
        pass

    def keep(self, *arguments: Any) -> None:
        pass

    def number(self) -> int:
        return 0

    discard = record


def known_calls(
    output: int, second: int = -1, *, function: str = "", batch: int = -1, strides: Pairs = (), described: Pairs = ()
) -> Any:
    """The recorded calls of one function, which writes its arguments ``output`` and perhaps ``second``.

    All numbers are positions of arguments. ``function`` is the name of the C function, if C programs may repeat its calls
    by number; native code knows its arguments (core/bindings/c_interface.h). ``batch`` is the number of
    samples, ``strides`` pairs tensors with their batch strides, ``described`` pairs plain addresses with the descriptors
    of the tensors there.

    ``run`` repeats a known call and returns its first output, or None if the call is not known. An unknown call is made
    between ``record`` and ``keep`` (or ``discard``, if it fails), and is known afterwards if all it did was run native
    code on the memory of its arguments. Apart from the arguments, only the switches of compat may affect a call.
    """
    if engines._core is None:
        return _WithoutCore()
    types = BNNSNDArrayDescriptor, np.ndarray, np.empty
    return engines._core.KnownCalls(types, output, second, function, batch, strides, described)


def recorded(known: Any, key: tuple[Any, ...], work: Callable[..., Any], constants: list[Any] | None = None) -> Any:
    """Do the work of a call that is not known, and record it for later calls with an equal ``key``.

    ``work`` takes copies of the arguments in the key: another thread may change a descriptor at any time, and what is
    recorded must be what was done. It may add to ``constants``: arrays that are the same for every such call, or the
    objects that hold them.
    """
    own = tuple(map(_own, key))
    known.record()
    try:
        result = work(*own)
    except BaseException:
        known.discard()
        raise
    known.keep(own, result, constants or [])
    return next((given for given, kept in zip(key, own, strict=True) if kept is result), result)


def _own(argument: Any) -> Any:
    """A copy of an argument that only this call can change; the memory of tensors is still the caller's."""
    kind = type(argument)
    if kind is BNNSNDArrayDescriptor or kind is BNNSFilterParameters or kind is list:
        return argument.copy()
    return argument.view() if kind is np.ndarray else argument


def threads_of(caller: Caller, filter_params: Any) -> int:
    """The number of threads that a call asks for; 0 if it does not say."""
    if filter_params is None:
        return 0
    if not isinstance(filter_params, BNNSFilterParameters):
        raise TypeError(
            f"{caller('filter_params')} must be a BNNSFilterParameters or None, not {type(filter_params).__name__}."
        )
    OwnedMemory(filter_params.alloc_memory, filter_params.free_memory, caller).release()
    return min(int(filter_params.n_threads), 256)


def require_descriptor(
    caller: Caller, name: str, descriptor: Any, need: str = "Pass a BNNSNDArrayDescriptor with data."
) -> None:
    if descriptor is None:
        raise Problem(f"{caller(name)} is {caller.null}. {need}")
    if not isinstance(descriptor, BNNSNDArrayDescriptor):
        raise TypeError(f"{caller(name)} must be a BNNSNDArrayDescriptor, not {type(descriptor).__name__}.")


def require_data(caller: Caller, name: str, descriptor: Any, view: View) -> None:
    if descriptor.data is None:
        raise Problem(f"{caller(name)}.data is {caller.null}. Point it to the memory of {describe(view)}.")


def tensor(
    caller: Caller, name: str, descriptor: Any, *, output: bool = False, batch: int = 1, stride: Any = 0
) -> Bound:
    """A descriptor with its data, axes in the order of memory."""
    require_descriptor(caller, name, descriptor)
    view = resolve(descriptor, caller(name))
    require_data(caller, name, descriptor, view)
    step = check_stride(stride, caller(f"{name}_batch_stride"))
    bound = bind(
        view, view.memory_axes, view.shape, caller(name).field("data"), descriptor.data, batch, step, output=output,
        flags=int(descriptor.flags) if output else 0,
    )  # fmt: skip
    if output:
        keep_apart(bound, caller(f"{name}_batch_stride"))
    return bound


def plain_array(descriptor: Any, batch: int = 0, stride: int = 0) -> tuple[View, NDArray[Any]] | None:
    """The data of a descriptor as a C-order array that kernels use directly, with its axes in the order of memory.

    A batch, if there is one, is the first axis.

    ``None`` for anything less simple, mistakes included: memory that is not an array of the descriptor's type and size,
    strides, element types that NumPy does not have, the accumulate flag.
    """
    if type(descriptor) is not BNNSNDArrayDescriptor or int(descriptor.flags) != 0:
        return None
    data = descriptor.data
    if type(data) is not np.ndarray or not data.flags.c_contiguous or not data.dtype.isnative:
        return None
    try:
        view = resolve(descriptor, "")
    except Problem:  # the checked call will report it
        return None
    if not view.packed or view.element.kind not in ("float", "int", "uint") or view.element.numpy != data.dtype:
        return None
    if batch:
        packed = stride in (0, view.count) and data.size == batch * view.count
        return (view, data.reshape(batch, *view.shape)) if packed else None
    return (view, data.reshape(view.shape)) if data.size == view.count else None


def ordered(bound: Bound, order: tuple[int, ...], shape: tuple[int, ...] | None = None) -> Bound:
    """The same tensor with the axes of ``size[]`` in another order, or seen in another shape."""
    return replace(bound, order=order, shape=tuple(bound.view.size[a] for a in order) if shape is None else shape)


def axis_number(caller: Caller, name: str, axis: Any, view: View) -> int:
    """A checked axis argument."""
    number = integer(axis, caller(name))
    if not 0 <= number < len(view.size):
        raise Problem(
            f"{caller(name)} is {number}, but {describe(view)} has axes 0 to {len(view.size) - 1}{_count(view)}."
        )
    return number


def _count(view: View) -> str:
    """How the axes of a tensor are counted, for messages."""
    ascending = view.numbered_axes == tuple(range(len(view.size)))
    return ", in the order of size[]" if ascending else ", rows first although size[] is (columns, rows)"


def axis_text(number: int, view: View) -> str:
    """An axis in messages: its number, and where its size stands."""
    return f"axis {number} (size[{view.numbered_axes[number]}])"


def place_of(bound: Bound, number: int) -> int:
    """The axis with this number as an axis of the array that ``bound`` reads and writes."""
    return bound.order.index(bound.view.numbered_axes[number])


def aligned(bound: Bound, other: Bound) -> Bound:
    """The same tensor with its axes in the order of the corresponding axes of ``other``."""
    numbers = (other.view.numbered_axes.index(axis) for axis in other.order)
    return ordered(bound, tuple(bound.view.numbered_axes[n] for n in numbers))


def shape_without(x: View, removed: set[int]) -> tuple[int, ...]:
    """Sizes of x in the order of axis numbers, without the axes of ``size[]`` that are removed."""
    return tuple(x.size[axis] for axis in x.numbered_axes if axis not in removed)


def aligned_without(bound: Bound, x: View, removed: set[int]) -> Bound:
    """A tensor of the shape :func:`shape_without`, with its axes in the order in which they lie in the memory of x."""
    kept = [axis for axis in x.numbered_axes if axis not in removed]
    numbers = (kept.index(axis) for axis in x.memory_axes if axis not in removed)
    return ordered(bound, tuple(bound.view.numbered_axes[n] for n in numbers))


# ---------------------------------------------------------------------------------------------------------------------
# Elements


def is_plain_integer(view: View) -> bool:
    """True if elements are integers whose stored value is their value."""
    return view.element.is_integer and view.scale == 1.0 and view.bias == 0.0


def same_elements(a: View, b: View) -> bool:
    """True if equal stored elements have equal values in both tensors."""
    tables = (a.table is None and b.table is None) or (
        a.table is not None and b.table is not None and np.array_equal(a.table, b.table, equal_nan=True)
    )
    return a.element is b.element and (a.scale, a.bias) == (b.scale, b.bias) and tables


def stored_as(x: Bound, target: View) -> NDArray[Any]:
    """The elements of x as the type of ``target`` stores them, ``(batch, *shape)``, with any strides."""
    if same_elements(x.view, target):
        raw = strided(x)
        return x.read_raw() if raw is None else raw
    if is_plain_integer(x.view) and is_plain_integer(target):
        return staging.encode(x.read_integers(), target)
    return staging.encode(x.read(np.float64), target)


def strided(bound: Bound, *, writable: bool = False) -> NDArray[Any] | None:
    """The stored elements in the caller's memory, or ``None`` when NumPy cannot view them."""
    if bound.batch == 0:
        return None
    array = staging.strided(bound.view, bound.buffer, bound.batch, bound.stride, bound.order, writable=writable)
    return array if array is None or array.shape[1:] == bound.shape else None


def storage(view: View) -> np.dtype[Any]:
    """The NumPy type that holds one stored element outside the caller's memory."""
    return view.element.numpy if view.element.numpy is not None else np.dtype("u1")


def contiguous(array: NDArray[Any], threads: int) -> NDArray[Any]:
    """The array itself if it is aligned and C-contiguous, else a copy that is."""
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    result = np.empty(array.shape, array.dtype)
    copy_elements(result, array, threads)
    return result


def copy_elements(target: NDArray[Any], source: NDArray[Any], threads: int) -> None:
    """target[...] = source, elements of one size, any strides."""
    if not engines.is_native():
        target[...] = source
        return
    engines._core.strided_copy(
        target.ctypes.data, source.ctypes.data, target.itemsize, target.shape, target.strides, source.strides, threads
    )


def store(y: Bound, work: Callable[[NDArray[Any]], None], sources: tuple[Bound, ...], *, packed: bool = False) -> None:
    """Let ``work`` fill the elements of y: in place, or in an array that is then stored.

    Staged when NumPy cannot view the memory, when it overlaps a source, and with ``packed`` when it has gaps.
    """
    target = None if any(y.overlaps(s) for s in sources) else strided(y, writable=True)
    if target is not None and packed and not (target.flags.c_contiguous and target.flags.aligned):
        target = None
    array = np.empty((y.batch, *y.shape), storage(y.view)) if target is None else target
    work(array)
    if target is None:
        y.write_raw(array)
