"""The random generator: a seed and the number of words used so far.

Every fill takes the next words of the stream, so its numbers do not depend on threads, on the engine or on the machine;
see reference/random_numbers.py. Element i of the C-order array gets number i, whatever the strides.
"""

from __future__ import annotations

import ctypes
import math
import os
import secrets
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import engines
from .._words import Caller
from ..abi.enums import BNNSDataType, BNNSRandomGeneratorMethod
from ..abi.structs import BNNSFilterParameters
from ..errors import Problem
from ..parameters.random_numbers import STATE_SIZE, Keystream
from ..reference import random_numbers as reference
from ..tensors import buffers, staging
from ..tensors.descriptors import ELEMENT_TYPES, FLOAT32, ElementType, View, describe, resolve
from ..tensors.operands import Bound, bind, integer
from .clipping import number
from .direct import require_data, require_descriptor

_BYTE = ELEMENT_TYPES[int(BNNSDataType.BNNSDataTypeUInt8)]

# Largest finite value, digits of the significand, and least exponent of a unit in the last place.
_FLOATS: dict[str, tuple[float, int, int]] = {
    "Float16": (65504.0, 11, -24),
    "BFloat16": (float(np.uint32(0x7F7F0000).view(np.float32)), 8, -133),
    "Float32": (float(np.finfo(np.float32).max), 24, -149),
}

# Held while a generator advances. One lock for all generators, which every fork waits for, so that a child finds it free.
_taking = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_taking.acquire, after_in_parent=_taking.release, after_in_child=_taking.release)


class RandomGenerator:
    """A stream of random numbers, the same for the same seed on every machine.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> r, x = BNNSCreateRandomGeneratorWithSeed(BNNSRandomGeneratorMethodAES_CTR, 7), np.zeros(4, np.int32)
    >>> BNNSRandomFillUniformInt(r, Shape.vector(4).descriptor(BNNSDataTypeInt32, x), 1, 7), x.tolist()
    (0, [2, 4, 2, 6])
    """

    def __init__(self, method: Any, seed: Any, filter_params: BNNSFilterParameters | None, who: Caller) -> None:
        """A ``seed`` of ``None`` stands for one that differs from generator to generator."""
        if integer(method, who("method")) != BNNSRandomGeneratorMethod.BNNSRandomGeneratorMethodAES_CTR:
            raise Problem(
                f"{who('method')} is {int(method)}, but BNNSRandomGeneratorMethodAES_CTR (0) is the only method."
            )
        if seed is None:
            seed = secrets.randbits(64)
        seed = integer(seed, who("seed"))
        if not 0 <= seed < 1 << 64:
            raise Problem(f"{who('seed')} is {seed}, but it is an unsigned 64-bit number: 0 to 2^64 - 1.")
        self.stream = Keystream(seed)
        self.threads = 0 if filter_params is None else min(int(filter_params.n_threads), 256)
        self.alive = True

    def destroy(self) -> None:
        """Later calls fail cleanly."""
        self.alive = False

    def require_alive(self, caller: Caller) -> None:
        if not self.alive:
            raise Problem(
                f"{caller.function}: the generator has been destroyed. Create a new one, or destroy it later."
            )

    # State.

    def get_state(self, caller: Caller, state_size: Any, state: Any) -> None:
        """Write STATE_SIZE bytes."""
        memory = self._state_memory(caller, state_size, state)
        buffers.require_writable(memory, caller("state"))
        place = buffers.array_at(memory, 0, np.dtype("u1"), (STATE_SIZE,), (1,), writable=True)
        place[...] = np.frombuffer(self.stream.to_bytes(), np.uint8)

    def set_state(self, caller: Caller, state_size: Any, state: Any) -> None:
        """Read the first STATE_SIZE bytes."""
        memory = self._state_memory(caller, state_size, state)
        self.restore(caller, buffers.array_at(memory, 0, np.dtype("u1"), (STATE_SIZE,), (1,)).tobytes())

    def restore(self, caller: Caller, state: bytes) -> None:
        """Continue from where the generator that gave these bytes was."""
        try:
            stream = Keystream.from_bytes(state)
        except ValueError:
            raise Problem(
                f"{caller('state')} does not hold the state of a generator. Pass bytes that came from "
                f"{caller.name('BNNSRandomGeneratorGetState')}."
            ) from None
        with _taking:
            self.stream = stream

    def _state_memory(self, caller: Caller, state_size: Any, state: Any) -> buffers.Buffer:
        self.require_alive(caller)
        size = integer(state_size, caller("state_size"))
        if size < STATE_SIZE:
            raise Problem(
                f"{caller('state_size')} is {size}, but a state has {STATE_SIZE} bytes. Ask "
                "BNNSRandomGeneratorStateSize for the size."
            )
        if state is None:
            raise Problem(f"{caller('state')} is {caller.null}. Pass a buffer of at least {STATE_SIZE} bytes.")
        memory = buffers.resolve(state, _BYTE, caller("state"))
        buffers.require_bytes(memory, STATE_SIZE, caller("state"), "a state")
        return memory

    # Fills.

    def uniform_float(self, caller: Caller, desc: Any, a: Any, b: Any) -> None:
        """Uniform on [a, b], bounds capped to the finite range of the element type."""
        self.require_alive(caller)
        low, high = _single(a, caller("a")), _single(b, caller("b"))
        target = _bind_floats(caller, desc)
        largest = _FLOATS[target.view.element.name][0]
        low, high = min(max(low, -largest), largest), min(max(high, -largest), largest)
        if not low <= high:
            raise Problem(f"{caller('a')} is {low:g}, which is above {caller.name('b')}, {high:g}. Swap them.")
        for name, value in (("a", low), ("b", high)):
            if not _representable(value, target.view.element):
                raise Problem(
                    f"{caller(name)} is {value!r}, which {target.view.element.name} cannot hold exactly. Choose a bound "
                    "that it can."
                )
        self._fill_floats(
            target,
            lambda stream, shape: reference.uniform_float(stream, shape, low, high),
            lambda stream, out, wide: engines._core.random_floats(
                False, stream.seed, stream.position, out.ctypes.data, wide, out.size, low, high, self.threads
            ),
        )

    def normal_float(self, caller: Caller, desc: Any, mean: Any, stddev: Any) -> None:
        """mean + stddev z, z normally distributed."""
        self.require_alive(caller)
        centre, deviation = _single(mean, caller("mean")), _single(stddev, caller("stddev"))
        if not math.isfinite(centre):
            raise Problem(f"{caller('mean')} is {centre:g}. Pass a finite number.")
        if not 0.0 <= deviation < math.inf:
            raise Problem(f"{caller('stddev')} is {deviation:g}. Pass a finite number of at least 0.")
        self._fill_floats(
            _bind_floats(caller, desc),
            lambda stream, shape: reference.normal(stream, shape, centre, deviation),
            lambda stream, out, wide: engines._core.random_floats(
                True, stream.seed, stream.position, out.ctypes.data, wide, out.size, centre, deviation, self.threads
            ),
            pairs=True,
        )

    def uniform_integer(self, caller: Caller, desc: Any, a: Any, b: Any) -> None:
        """Integers uniform on [a, b): the upper bound is excluded."""
        self.require_alive(caller)
        low, high = integer(a, caller("a")), integer(b, caller("b"))
        target = _bind(caller, "desc", desc, output=True)
        element = target.view.element
        if not element.is_integer:
            raise Problem(
                f"{caller('desc')}.data_type is {element.name}, but this call fills Int and UInt types. Use "
                f"{caller.name('BNNSRandomFillUniformFloat')} for floats.",
                kind=TypeError,
            )
        least, most = staging.integer_range(element)
        most = min(most, (1 << 63) - 1)  # in C the bounds are int64_t
        upper = caller.name("b")
        if low == high:
            raise Problem(
                f"{caller('a')} and {upper} are both {low}, but numbers are drawn from [a, b), which is empty: the upper bound "
                f"is never drawn. Pass {low + 1} as the upper bound to get {low} only."
            )
        if not least <= low < high <= most + 1:
            raise Problem(
                f"{caller('a')} is {low} and {upper} {high}, but {element.name} takes numbers from {least} to {most} here, so "
                f"the upper bound, which is never drawn, is at most {most + 1}, and the lower bound comes first."
            )
        if engines.is_native():
            place = target.direct_raw() if element.bits == 64 else None
            numbers = np.empty(target.view.count, np.int64) if place is None else place
            stream = self._take(2 * target.view.count)
            engines._core.random_integers(
                stream.seed, stream.position, numbers.ctypes.data, numbers.size, low, (high - low) % (1 << 64),
                self.threads,
            )  # fmt: skip
            if place is not None:
                return
        else:
            numbers = reference.uniform_integer(self._take(2 * target.view.count), (target.view.count,), low, high)
        target.write_integers(numbers)

    def categorical(self, caller: Caller, desc: Any, probabilities: Any, log_probabilities: Any) -> None:
        """Category numbers drawn from the distributions along the innermost axis of ``probabilities``."""
        self.require_alive(caller)
        if not isinstance(log_probabilities, (bool, np.bool_, int, np.integer)):
            raise TypeError(f"{caller('log_probabilities')} must be a bool, not {type(log_probabilities).__name__}.")
        logarithms = bool(log_probabilities)
        target = _bind_floats(caller, desc)
        p = _bind(caller, "probabilities", probabilities, output=False)
        _check_distributions(caller, target.view, p.view)
        values = np.ascontiguousarray(p.read(np.float64)[0])
        _check_probabilities(caller, values, logarithms)
        lead, categories = p.view.shape[:-1], p.view.shape[-1]
        distributions = math.prod(lead)
        draws = target.view.count // distributions
        self._fill_floats(
            target,
            lambda stream, shape: reference.categorical(stream, shape, values, logarithms),
            lambda stream, out, wide: engines._core.random_categories(
                stream.seed, stream.position, out.ctypes.data, wide, values.ctypes.data, distributions, categories, draws,
                logarithms, self.threads,
            ),
        )  # fmt: skip

    def _take(self, words: int) -> Keystream:
        """The stream of a fill that uses this many words; the next fill begins after them."""
        with _taking:
            stream = self.stream
            self.stream = stream.after(words)
        return stream

    def _fill_floats(
        self,
        target: Bound,
        make: Callable[[Keystream, tuple[int, ...]], NDArray[Any]],
        fill: Callable[[Keystream, NDArray[Any], bool], None],
        *,
        pairs: bool = False,
    ) -> None:
        """Draw on the engine in force: directly into the memory, or in double precision with a conversion."""
        words = target.view.count + (target.view.count % 2 if pairs else 0)
        if not engines.is_native():
            target.write(make(self._take(words), target.shape)[np.newaxis])
            return
        place = target.direct()
        numbers = np.empty((1, *target.shape), np.float64) if place is None else place
        fill(self._take(words), numbers, place is None)
        if place is None:
            target.write(numbers)


def _single(value: Any, who: str) -> float:
    """A ``float`` argument as C passes it."""
    single = ctypes.c_float(value if type(value) is float else number(value, who)).value
    if math.isnan(single):
        raise Problem(f"{who} is NaN. Pass a number.")
    return single


def _representable(value: float, element: ElementType) -> bool:
    if value == 0.0 or element is FLOAT32:  # what a caller passes is a float
        return True
    _, digits, least = _FLOATS[element.name]
    exponent = max(math.frexp(value)[1] - digits, least)
    return math.ldexp(value, -exponent).is_integer()


def _bind(caller: Caller, name: str, descriptor: Any, *, output: bool) -> Bound:
    require_descriptor(caller, name, descriptor)
    view = resolve(descriptor, caller(name))
    require_data(caller, name, descriptor, view)
    return bind(view, view.memory_axes, view.shape, caller(name).field("data"), descriptor.data, 1, 0, output=output)


def _bind_floats(caller: Caller, desc: Any) -> Bound:
    target = _bind(caller, "desc", desc, output=True)
    if target.view.element.name not in _FLOATS:
        raise Problem(
            f"{caller('desc')}.data_type is {target.view.element.name}, but this call fills Float16, BFloat16 and Float32. "
            f"Use {caller.name('BNNSRandomFillUniformInt')} for integers.",
            kind=TypeError,
        )
    return target


def _check_distributions(caller: Caller, target: View, p: View) -> None:
    if p.element is not target.element:
        raise Problem(
            f"{caller('probabilities')}.data_type is {p.element.name}, but {caller.name('desc')} is {target.element.name}. "
            "Give both the same type.",
            kind=TypeError,
        )
    lead = p.shape[:-1]
    if target.shape[: len(lead)] != lead:
        raise Problem(
            f"{caller('desc')} is {describe(target)}, but probabilities is {describe(p)}: without its innermost axis, the "
            f"categories, its shape is {lead} in C order, and the shape of {caller.name('desc')} must begin with that. "
            f"Describe one distribution for each position of {caller.name('desc')}."
        )
    most = 1 << _FLOATS[p.element.name][1]
    if p.shape[-1] > most + 1:
        raise Problem(
            f"{caller('probabilities')} has {p.shape[-1]} categories, but {p.element.name} counts only to {most} exactly. "
            "Use Float32, or fewer."
        )


@np.errstate(all="ignore")
def _check_probabilities(caller: Caller, p: NDArray[np.float64], logarithms: bool) -> None:
    if logarithms:
        largest = p.max(axis=-1)
        good = bool(np.all(np.isfinite(largest)))  # NaN and +inf show up in the maximum, as do rows of -inf
        wanted = "logarithms below +inf, not NaN, and not all -inf"
    else:
        good = bool(np.all(p >= 0.0) and np.all(np.isfinite(p)) and np.all(p.sum(axis=-1) > 0.0))
        wanted = "finite, not negative and not all 0"
    if not good:
        raise Problem(f"{caller('probabilities')}: the values of each distribution must be {wanted}.")
