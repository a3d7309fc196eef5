"""The random generator under its C names."""

from __future__ import annotations

from typing import Any

from .. import _strict
from .._words import Caller
from ..abi.enums import BNNSRandomGeneratorMethod
from ..abi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..errors import Problem, record, succeeded
from ..filters.random_numbers import RandomGenerator
from ..parameters.random_numbers import STATE_SIZE
from ._calls import attempt_direct, check_filter_params

__all__ = [
    "BNNSCreateRandomGenerator",
    "BNNSCreateRandomGeneratorWithSeed",
    "BNNSDestroyRandomGenerator",
    "BNNSRandomFillCategoricalFloat",
    "BNNSRandomFillNormalFloat",
    "BNNSRandomFillUniformFloat",
    "BNNSRandomFillUniformInt",
    "BNNSRandomGenerator",
    "BNNSRandomGeneratorGetState",
    "BNNSRandomGeneratorSetState",
    "BNNSRandomGeneratorStateSize",
]

BNNSRandomGenerator = RandomGenerator


def BNNSCreateRandomGenerator(
    method: BNNSRandomGeneratorMethod | int, filter_params: BNNSFilterParameters | None = None
) -> BNNSRandomGenerator | None:
    """A generator whose seed differs from call to call.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> r, x = BNNSCreateRandomGenerator(BNNSRandomGeneratorMethodAES_CTR), np.zeros(100, np.float32)
    >>> BNNSRandomFillUniformFloat(r, Shape.vector(100).descriptor(data=x), 0, 1), bool(0 <= x.min() < x.max() <= 1)
    (0, True)
    >>> BNNSDestroyRandomGenerator(r)
    """
    return _create("BNNSCreateRandomGenerator", method, None, filter_params)


def BNNSCreateRandomGeneratorWithSeed(
    method: BNNSRandomGeneratorMethod | int, seed: int, filter_params: BNNSFilterParameters | None = None
) -> BNNSRandomGenerator | None:
    """A generator from a 64-bit seed: the same numbers on every machine.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> r, x = BNNSCreateRandomGeneratorWithSeed(BNNSRandomGeneratorMethodAES_CTR, 7), np.zeros(4, np.int32)
    >>> BNNSRandomFillUniformInt(r, Shape.vector(4).descriptor(BNNSDataTypeInt32, x), 1, 7), x.tolist()
    (0, [2, 4, 2, 6])
    """
    who = "BNNSCreateRandomGeneratorWithSeed"
    if seed is None:
        raise TypeError(f"{who}: seed must be an integer, not None.")
    return _create(who, method, seed, filter_params)


def _create(
    who: str, method: Any, seed: int | None, filter_params: BNNSFilterParameters | None
) -> BNNSRandomGenerator | None:
    check_filter_params(filter_params, who)
    try:
        return succeeded(RandomGenerator(method, seed, filter_params, Caller(who)))
    except Problem as problem:
        record(problem)
    return None


def BNNSDestroyRandomGenerator(generator: BNNSRandomGenerator | None = None) -> None:
    """Release a generator; ``None`` and destroyed generators are ignored.

    >>> from openbnns.capi import *
    >>> r = BNNSCreateRandomGenerator(BNNSRandomGeneratorMethodAES_CTR)
    >>> BNNSDestroyRandomGenerator(r)
    >>> BNNSRandomGeneratorStateSize(r)
    0
    """
    if generator is not None:
        _require_generator(generator, "BNNSDestroyRandomGenerator")
        if not generator.alive:
            _strict.destroyed_again("BNNSDestroyRandomGenerator", "generator")
        generator.destroy()


def BNNSRandomGeneratorStateSize(generator: BNNSRandomGenerator | None = None) -> int:
    """Bytes of a saved state; 0 on failure.

    >>> from openbnns.capi import *
    >>> BNNSRandomGeneratorStateSize(BNNSCreateRandomGenerator(BNNSRandomGeneratorMethodAES_CTR))
    24
    """
    who = "BNNSRandomGeneratorStateSize"
    try:
        _living(generator, who)
    except Problem as problem:
        record(problem)
        return 0
    return succeeded(STATE_SIZE)


def BNNSRandomGeneratorGetState(generator: BNNSRandomGenerator | None, state_size: int, state: Any) -> int:
    """Save the state into a buffer of at least ``BNNSRandomGeneratorStateSize`` bytes.

    >>> from openbnns.capi import *
    >>> r = BNNSCreateRandomGeneratorWithSeed(BNNSRandomGeneratorMethodAES_CTR, 7)
    >>> state = bytearray(BNNSRandomGeneratorStateSize(r))
    >>> BNNSRandomGeneratorGetState(r, len(state), state), any(state)
    (0, True)
    """
    return _call("BNNSRandomGeneratorGetState", generator, "get_state", state_size, state)


def BNNSRandomGeneratorSetState(generator: BNNSRandomGenerator | None, state_size: int, state: Any) -> int:
    """Restore a saved state: the numbers that followed it come again.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> r, x = BNNSCreateRandomGenerator(BNNSRandomGeneratorMethodAES_CTR), np.zeros((2, 4), np.float32)
    >>> state = bytearray(BNNSRandomGeneratorStateSize(r))
    >>> BNNSRandomGeneratorGetState(r, len(state), state)
    0
    >>> BNNSRandomFillNormalFloat(r, Shape.vector(4).descriptor(data=x[0]), 0, 1)
    0
    >>> BNNSRandomGeneratorSetState(r, len(state), state)
    0
    >>> BNNSRandomFillNormalFloat(r, Shape.vector(4).descriptor(data=x[1]), 0, 1), (x[0] == x[1]).tolist()
    (0, [True, True, True, True])
    """
    return _call("BNNSRandomGeneratorSetState", generator, "set_state", state_size, state)


def BNNSRandomFillUniformFloat(
    generator: BNNSRandomGenerator | None, desc: BNNSNDArrayDescriptor | Any, a: float, b: float
) -> int:
    """Fill with floats uniform on [a, b]; both must be exact in the element type, and are capped to its range.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> r, x = BNNSCreateRandomGeneratorWithSeed(BNNSRandomGeneratorMethodAES_CTR, 7), np.zeros(3, np.float32)
    >>> BNNSRandomFillUniformFloat(r, Shape.vector(3).descriptor(data=x), -1, 1)
    0
    >>> print(x.round(3))
    [-0.382 -0.349  0.156]
    """
    return _call("BNNSRandomFillUniformFloat", generator, "uniform_float", desc, a, b)


def BNNSRandomFillUniformInt(
    generator: BNNSRandomGenerator | None, desc: BNNSNDArrayDescriptor | Any, a: int, b: int
) -> int:
    """Fill with integers uniform on [a, b): the upper bound is excluded.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> r, x = BNNSCreateRandomGeneratorWithSeed(BNNSRandomGeneratorMethodAES_CTR, 1), np.zeros(99, np.uint8)
    >>> BNNSRandomFillUniformInt(r, Shape.vector(99).descriptor(BNNSDataTypeUInt8, x), 1, 4), set(x.tolist())
    (0, {1, 2, 3})
    """
    return _call("BNNSRandomFillUniformInt", generator, "uniform_integer", desc, a, b)


def BNNSRandomFillNormalFloat(
    generator: BNNSRandomGenerator | None, desc: BNNSNDArrayDescriptor | Any, mean: float, stddev: float
) -> int:
    """Fill with normally distributed floats.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> r, x = BNNSCreateRandomGeneratorWithSeed(BNNSRandomGeneratorMethodAES_CTR, 7), np.zeros(10000, np.float32)
    >>> BNNSRandomFillNormalFloat(r, Shape.vector(10000).descriptor(data=x), 5, 2)
    0
    >>> print(x.mean().round(1), x.std().round(1))
    5.0 2.0
    """
    return _call("BNNSRandomFillNormalFloat", generator, "normal_float", desc, mean, stddev)


def BNNSRandomFillCategoricalFloat(
    generator: BNNSRandomGenerator | None, desc: BNNSNDArrayDescriptor | Any,
    probabilities: BNNSNDArrayDescriptor | Any, log_probabilities: bool,
) -> int:  # fmt: skip
    """Fill with category numbers 0 .. K-1, stored as floats.

    ``probabilities`` has the leading axes of ``desc`` and K weights, or their logarithms, along its innermost axis.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> r, x = BNNSCreateRandomGeneratorWithSeed(BNNSRandomGeneratorMethodAES_CTR, 7), np.zeros((1, 9), np.float32)
    >>> p = np.float32([[0.5, 0, 0.5]])
    >>> BNNSRandomFillCategoricalFloat(r, Shape([1, 9]).descriptor(data=x), Shape([1, 3]).descriptor(data=p), False)
    0
    >>> sorted(set(x[0].tolist()))
    [0.0, 2.0]
    """
    return _call("BNNSRandomFillCategoricalFloat", generator, "categorical", desc, probabilities, log_probabilities)


def _require_generator(generator: Any, who: str) -> None:
    if not isinstance(generator, RandomGenerator):
        raise TypeError(f"{who}: generator must be a BNNSRandomGenerator, not {type(generator).__name__}.")


def _living(generator: Any, who: str) -> RandomGenerator:
    if generator is None:
        raise Problem(f"{who}: generator is NULL. Create one with BNNSCreateRandomGeneratorWithSeed.")
    _require_generator(generator, who)
    generator.require_alive(Caller(who))
    return generator  # type: ignore[no-any-return]


def _call(who: str, generator: Any, method: str, *arguments: Any) -> int:
    def work(caller: Caller, *rest: Any) -> None:
        getattr(_living(generator, who), method)(caller, *rest)

    return attempt_direct(work, Caller(who), *arguments)
