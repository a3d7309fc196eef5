"""The calls that a program consists of, and their lists, in which native calls are made in one crossing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .. import ArithmeticBinaryFunction, BinaryArithmeticLayer, Shape, _strict, engines

Array = np.ndarray[Any, Any]
Stream = tuple[Array, Array]

_PLACINGS = 8  # how often the calls of one list may be placed


class PlanCall(partial[object]):
    """One call of a layer, or of native code, on arrays that stay where they are.

    Native code takes it into a list once, without making it, and repeats it without Python. Calls that it cannot take, or
    that decline, are made here.
    """


class NumpyCall(partial[object]):
    """Work of Python on arrays that stay where they are: it ends a run of native calls."""


class NestedCall(NumpyCall):
    """The run of another program, which is told the version of all parameters (:meth:`CallList.run`)."""


Call = PlanCall | NumpyCall
Calls = Call | Sequence[Any]
"""A call, or a nested list of calls, made one after the other."""


def copying(target: Array, source: Array) -> Call:
    """A call that copies one array into another, which must not overlap."""
    same = target.shape == source.shape and target.dtype == source.dtype
    if same and source.flags.aligned and engines._core is not None:
        return PlanCall(engines._core.copy_array, target, source)
    return NumpyCall(np.copyto, target, source)


def rounding_to_half(target: Array, source: Array) -> Call:
    """A call that stores float32 rounded to the steps of float16; beyond those are infinities."""
    if engines._core is not None and _is_plain(target) and _is_plain(source):
        return PlanCall(engines._core.round_array_to_half, target, source)
    return computing(target, np.float16, source)


def clearing(target: Array) -> Call:
    """A call that sets an array to zero."""
    return copying(target, np.broadcast_to(np.zeros((), target.dtype), target.shape))


def adding(target: Array, a: Array, b: Array, *, layers: dict[int, BinaryArithmeticLayer] | None = None) -> Call:
    """A call that stores the sum of two arrays of the same size; ``target`` may be one of them.

    ``layers`` holds those of other sums by their size; one that is missing is added.
    """
    made = {} if layers is None else layers
    layer = made.get(target.size)
    if layer is None:
        n = Shape.vector(target.size)
        layer = BinaryArithmeticLayer(function=ArithmeticBinaryFunction.ADD, input_a=n, input_b=n, output=n)
        made[target.size] = layer
    return PlanCall(layer.apply, a.reshape(1, -1), b.reshape(1, -1), target.reshape(1, -1))


def computing(target: Array, formula: Callable[..., Any], *given: Any) -> NumpyCall:
    """A call that stores the result of a formula; infinities and NaN come out as IEEE 754 says, without a warning."""

    def call() -> None:
        with np.errstate(all="ignore"):
            np.copyto(target, formula(*given), casting="unsafe")

    return NumpyCall(call)


_MIXED = np.dtype(np.float32), np.dtype(np.int64)
_MOST_AXES = 8
_LOGIC = {
    "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not", "isnan", "convert", "int32",
}  # fmt: skip
_WHOLE = {"add", "sub", "mul", "maximum", "minimum", "floor_divide", "divide", "remainder", "fmod"}
_REMAINDERS = {"remainder", "fmod"}


def by_element(target: Array, function: str, formula: Callable[..., Any], *given: Array) -> Call:
    """A call that stores the result of a function of masks or whole numbers, with broadcasting.

    Native code knows it by name and takes float32 and int64; for anything else, and numbers without a result, the same is
    computed by a formula in NumPy.
    """
    in_numpy = computing(target, formula, *given)
    types = {array.dtype for array in (target, *given)}
    known = function in _LOGIC or (function in _WHOLE and types == {_MIXED[1]})
    known = known or (function in _REMAINDERS and types == {_MIXED[0]})
    fits = types.issubset(_MIXED) and target.ndim <= _MOST_AXES
    if engines._core is None or not (known and fits) or not all(map(_is_plain, (target, *given))):
        return in_numpy
    return PlanCall(mixed_arithmetic, function, target, given[0], given[-1], in_numpy)


def _is_plain(array: Array) -> bool:
    return bool(array.flags.c_contiguous and array.flags.aligned)


def mixed_arithmetic(function: str, target: Array, a: Array, b: Array, in_numpy: Call) -> None:
    """Store a native function of two arrays, the same one twice if it takes only one."""
    if not engines._core.mixed_arithmetic(function, target, a, b):
        in_numpy()


def gathering(target: Array, whole: Array, indices: Array, axis: int, in_numpy: Callable[[], object]) -> Call:
    """A call that stores entries of ``whole`` along an axis by number: one axis of numbers, or one for each element.

    Native code takes numbers from 0 on; anything else, and refusing numbers that name no entry, is for ``in_numpy``.
    """
    arrays = target, whole, indices
    plain = all(map(_is_plain, arrays)) and 0 < whole.ndim <= _MOST_AXES and indices.dtype == np.int64
    if engines._core is None or not plain or target.dtype != whole.dtype:
        return NumpyCall(in_numpy)
    return PlanCall(gather, *arrays, axis, in_numpy)


def gather(target: Array, whole: Array, indices: Array, axis: int, in_numpy: Callable[[], object]) -> None:
    """Store entries along an axis, natively if the numbers are in range."""
    if not engines._core.select_plain(-1, whole, target, indices, axis):
        in_numpy()


def scattering(
    target: Array, part: Array, indices: Array, axis: int, in_numpy: Callable[[], object], *, adds: bool = False
) -> Call:
    """A call that writes, or adds, elements to those of ``target`` that numbers, one for each, name along an axis.

    Native code takes numbers from 0 on, and parts as large as the whole along all other axes; anything else, and refusing
    numbers that name no entry, is for ``in_numpy``.
    """
    arrays = target, part, indices
    plain = all(map(_is_plain, arrays)) and 0 < target.ndim <= _MOST_AXES and indices.dtype == np.int64
    others = [n == m or i == axis for i, (n, m) in enumerate(zip(part.shape, target.shape, strict=True))]
    alike = target.dtype == part.dtype and part.shape == indices.shape and (target.dtype == np.float32 or not adds)
    if engines._core is None or not plain or not alike or not all(others):
        return NumpyCall(in_numpy)
    return PlanCall(scatter_elements, _ADDS if adds else _WRITES, *arrays, axis, in_numpy)


_WRITES, _ADDS = range(2)  # Scattering


def scatter_elements(
    kind: int, target: Array, part: Array, indices: Array, axis: int, in_numpy: Callable[[], object]
) -> None:
    """Write or add elements along an axis, natively if the numbers are in range."""
    if not engines._core.select_plain(kind, target, part, indices, axis):
        in_numpy()


def listed(calls: Calls | Callable[[], object]) -> list[Any]:
    """Calls in the order in which they are made.

    >>> from openbnns.graph.calls import NumpyCall, listed
    >>> [call() for call in listed([NumpyCall(len, "one"), [NumpyCall(len, "three")]])]
    [3, 5]
    """
    if isinstance(calls, (list, tuple)):
        return [call for part in calls for call in listed(part)]
    return [calls]


def name_of(call: Callable[[], object]) -> str:
    """The method of a layer, or the function, that a call calls.

    >>> import numpy as np
    >>> from openbnns.graph.calls import NumpyCall, name_of
    >>> name_of(NumpyCall(np.add, 1, 2))
    'add'
    """
    function = call.func if isinstance(call, partial) else call
    owner, name = getattr(function, "__self__", None), str(getattr(function, "__name__", type(function).__name__))
    plain = owner is None or isinstance(owner, type(engines))
    return name if plain else f"{type(owner).__name__}.{name}"


def make_on_weights(weights: int, call: Callable[[], object]) -> None:
    """Make a call on parameters of this version, as :meth:`CallList.run` makes its calls."""
    if engines._core is None:
        call()
    else:
        engines._core.make_on_weights(weights, call)


def in_turn(calls: Sequence[Callable[[], object]]) -> None:
    """Make calls one after the other."""
    for call in calls:
        call()


class CallList:
    """Calls that are made one after the other, again and again on the same memory.

    The first time Python makes them, and layers prepare what their first call needs. Then native code takes all that are one
    native call on ``lasting`` arrays; those that follow each other are one crossing.
    """

    def __init__(self, lasting: list[object], calls: Iterable[Callable[[], object]] = ()) -> None:
        self.calls: list[Callable[[], object]] = list(calls)
        self._lasting = lasting
        self._parts: list[tuple[Any, list[Callable[[], object]]]] = []  # native calls as a list, others with None
        self._left = _PLACINGS
        self._ran = False  # whether the calls have run natively
        self._stale = True  # whether to place calls before the next run
        self._planned: Any = None  # the array in whose place another one is read

    def run(self, weights: int = 0) -> None:
        """Make the calls. ``weights`` is a version of all parameters, by which native code knows what it has made of them.

        It comes from ``_core.new_weights_version`` and changes as soon as any parameter may have changed; 0 stands for
        unknown.
        """
        if self._planned is not None:
            self._parts[0][0].redirect(self._planned, self._planned)
            self._planned = None
        if self._stale and self._ran and self._left > 0 and _is_native():
            self._place()
        if not self._parts:
            in_turn(self.calls)
            self._ran = _is_native()
        elif not self._repeat(weights):
            self._stale = _is_native()

    def run_on(self, planned: Array, given: Array, weights: int = 0) -> None:
        """Make the calls with ``given`` in place of ``planned``, an array like it that they only read."""
        native, calls = self._parts[0] if len(self._parts) == 1 else (None, [])
        if native is not None and not self._stale and native.redirect(planned, given):
            self._planned = planned
            done = native.run(0, weights)
            if done < len(calls):  # a call has declined, and what Python does now is on the planned memory
                np.copyto(planned, given)
                self._go_on(native, calls, done, weights)
                self._stale = _is_native()
        else:
            np.copyto(planned, given)
            self.run(weights)

    @property
    def is_one(self) -> bool:
        """True if the calls are one native call by now."""
        return len(self._parts) == 1 and self._parts[0][0] is not None and not self._stale

    def in_native_code(self) -> Any:
        """Another list of native code, with all calls; None if it does not take all of them, or not before they have run."""
        if not (self._ran and _is_native()):
            return None
        native = engines._core.CallList(self._lasting)
        return native if all(isinstance(call, PlanCall) and native.place(call) for call in self.calls) else None

    def kinds(self) -> list[str]:
        """For each call "native", or "Python" for what runs there by itself."""
        if not self._parts:
            return ["Python"] * len(self.calls)
        return ["Python" if native is None else "native" for native, calls in self._parts for _ in calls]

    def run_over(self, streams: Sequence[Stream], result: Array, results: Array) -> int:
        """Make the calls, which must be one (``is_one``), once for each of the ``results``; return how many were computed.

        A stream is ``(planned, given)``: the i-th time the calls use the i-th part of ``given``, as large as ``planned``, which
        they only read, in its place. What is in ``result`` then becomes the i-th of the results.
        """
        native, calls = self._parts[0]
        done, made = native.run_over(len(results), streams, result, results)
        if not made:
            return int(done)
        for planned, given in streams:  # a call has declined
            planned.reshape(-1)[:] = given.reshape(len(results), -1)[done]
        self._go_on(native, calls, made)
        self._stale = _is_native()
        results[done] = result.reshape(results[done].shape)
        return int(done + 1)

    def _repeat(self, weights: int = 0) -> bool:
        """Make the calls as they were placed; True if none has declined."""
        declined = False
        for native, calls in self._parts:
            done = 0 if native is None else native.run(0, weights)
            if done < len(calls):  # a native call has declined, or there is none
                declined = declined or native is not None
                self._go_on(native, calls, done, weights)
        return not declined

    def _go_on(self, native: Any, calls: list[Callable[[], object]], done: int, weights: int = 0) -> None:
        """Make the remaining calls, beginning with one that has declined."""
        while done < len(calls):
            call = calls[done]
            call(weights) if isinstance(call, NestedCall) else call()
            done = done + 1 if native is None else native.run(done + 1, weights)

    def _place(self) -> None:
        """Hand native code the calls that it takes; one that it does not take yet may be tried once more."""
        first, self._left = self._left == _PLACINGS, self._left - 1
        parts: list[tuple[Any, list[Callable[[], object]]]] = []
        missed = False
        for call in self.calls:
            if isinstance(call, PlanCall):
                native = parts[-1][0] if parts else None
                if native is not None and native.place(call):
                    parts[-1][1].append(call)
                    continue
                if native is None:
                    native = engines._core.CallList(self._lasting)
                    if native.place(call):
                        parts.append((native, [call]))
                        continue
                missed = True
            parts.append((None, [call]))
        self._parts, self._stale = parts, first and missed


def _is_native() -> bool:
    return engines.takes_fast_calls() and not _strict.active()


def arrays(calls: Iterable[Callable[[], object]]) -> list[Array]:
    """The arrays among the arguments of calls, which do not change between runs; each once."""
    met: dict[int, Array] = {}
    left: list[Any] = list(dict.fromkeys(calls))
    while left:
        given = left.pop()
        if isinstance(given, np.ndarray):
            met[id(given)] = given
        elif isinstance(given, partial):
            left += given.args
            left += given.keywords.values()
        elif isinstance(given, dict):
            left += given.values()
        elif isinstance(given, (list, tuple)):
            left += given
    return list(met.values())
