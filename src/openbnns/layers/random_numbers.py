"""The random generator of the Python face."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._spelling import spelled
from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..errors import BNNSError, LayerApplyError, LayerCreationError, Problem
from ..filters import random_numbers as filters
from ._functions import call
from ._misuse import MISUSE_ERRORS, misuse_in
from ._ports import (
    TensorLike,
    as_array,
    check_filter_parameters,
    data_type,
    descriptor_for,
    first_major,
    raised,
    require,
    require_contiguous,
    require_data,
)
from .types import RandomGeneratorMethod

__all__ = ["RandomGenerator", "RandomGeneratorState"]

# The names of arguments in C, and in these methods.
_NAMES = {
    "desc": "output", "stddev": "standard_deviation", "a": "the lower bound", "b": "the upper bound",
    "BNNSRandomFillUniformFloat": "fill_uniform", "BNNSRandomFillUniformInt": "fill_uniform_integers",
    "BNNSRandomGeneratorGetState": "the state of a generator",
}  # fmt: skip


class RandomGeneratorState:
    """A place in the stream of a generator, to come back to; ``bytes(state)`` can be stored.

    >>> from openbnns import *
    >>> RandomGeneratorState(bytes(RandomGenerator(seed=1).state)) == RandomGenerator(seed=1).state
    True
    """

    __slots__ = ("_data",)

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._data = bytes(data)

    def __bytes__(self) -> bytes:
        return self._data

    def __len__(self) -> int:
        return len(self._data)

    def __eq__(self, other: object) -> bool:
        return self._data == other._data if isinstance(other, RandomGeneratorState) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._data)

    def __repr__(self) -> str:
        return f"RandomGeneratorState({self._data!r})"


class RandomGenerator:
    """Random numbers that are the same for the same seed on every machine and for any number of threads.

    Without a ``seed`` every generator differs. ``state`` can be read and assigned to repeat numbers.

    >>> import numpy as np
    >>> from openbnns import *
    >>> generator = RandomGenerator(seed=7)
    >>> state = generator.state
    >>> first = generator.fill_normal(np.empty(3, np.float32))
    >>> generator.state = state
    >>> bool(np.all(first == generator.fill_normal(np.empty(3, np.float32))))
    True
    """

    @spelled
    def __init__(
        self,
        method: RandomGeneratorMethod = RandomGeneratorMethod.AES_CTR,
        seed: int | None = None,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        def make(caller: Caller) -> filters.RandomGenerator:
            require(method, RandomGeneratorMethod, caller("method"))
            check_filter_parameters(filter_parameters, caller)
            return filters.RandomGenerator(method.value, seed, filter_parameters, caller)

        self._generator: filters.RandomGenerator = _attempt("RandomGenerator", make, LayerCreationError)

    @property
    def state(self) -> RandomGeneratorState:
        """Where the stream is; assign one to go back to it."""
        _attempt("RandomGenerator.state", self._generator.require_alive)
        return RandomGeneratorState(self._generator.stream.to_bytes())

    @state.setter
    def state(self, value: RandomGeneratorState) -> None:
        def work(caller: Caller) -> None:
            require(value, RandomGeneratorState, caller.function)
            self._generator.require_alive(caller)
            self._generator.restore(caller, bytes(value))

        _attempt("RandomGenerator.state", work)

    @property
    def bnns_generator(self) -> filters.RandomGenerator:
        """The generator, for calls of ``openbnns.capi``."""
        return self._generator

    def destroy(self) -> None:
        """Release the generator; later calls fail."""
        self._generator.destroy()

    @call(_NAMES)
    def fill_uniform(self, caller: Caller, output: TensorLike, range: Sequence[float] = (0.0, 1.0)) -> TensorLike:
        """Fill a float array or descriptor with numbers uniform on ``range`` = (low, high), and return it.

        Bounds must be exact in the element type, and are capped to its finite range.
        """
        low, high = _bounds(caller, range)
        self._fill(caller, output, lambda desc: self._generator.uniform_float(caller, desc, low, high))
        return output

    @call(_NAMES)
    def fill_uniform_integers(self, caller: Caller, output: TensorLike, range: Sequence[int]) -> TensorLike:
        """Fill an integer array or descriptor with numbers uniform on ``range`` = (low, high), ``high`` excluded."""
        low, high = _bounds(caller, range)
        self._fill(caller, output, lambda desc: self._generator.uniform_integer(caller, desc, low, high))
        return output

    @call(_NAMES)
    def fill_normal(
        self, caller: Caller, output: TensorLike, mean: float = 0.0, standard_deviation: float = 1.0
    ) -> TensorLike:
        """Fill a float array or descriptor with normally distributed numbers, and return it."""
        self._fill(caller, output, lambda desc: self._generator.normal_float(caller, desc, mean, standard_deviation))
        return output

    @call(_NAMES)
    def fill_categorical(
        self, caller: Caller, output: TensorLike, probabilities: TensorLike, log_probabilities: bool = False
    ) -> TensorLike:
        """Fill a float array or descriptor with category numbers 0 .. K−1, and return it.

        ``probabilities`` (..., K) has the leading axes of ``output``; further axes of ``output`` are more draws from the
        same distribution. They need not add up to 1, and may be given by their logarithms.
        """
        p = probabilities
        if not isinstance(p, BNNSNDArrayDescriptor):
            array = np.ascontiguousarray(as_array(p, caller("probabilities")))
            p = _described(caller("probabilities"), array)
        self._fill(caller, output, lambda desc: self._generator.categorical(caller, desc, p, log_probabilities))
        return output

    @staticmethod
    def _fill(caller: Caller, output: Any, fill: Callable[[BNNSNDArrayDescriptor], None]) -> None:
        if isinstance(output, BNNSNDArrayDescriptor):
            require_data(output, caller("output"))
            fill(output)
            return
        array = as_array(output, caller("output"))
        require_contiguous(array, caller("output"))
        if array.size:
            fill(_described(caller("output"), array))


def _described(who: str, array: Any) -> BNNSNDArrayDescriptor:
    if not 1 <= array.ndim <= 8:
        raise Problem(f"{who} has {array.ndim} axes. Pass an array of 1 to 8.")
    return descriptor_for(array.shape, first_major(array.shape), data_type(array, who), array)


def _bounds(caller: Caller, range: Any) -> tuple[Any, Any]:
    try:
        if isinstance(range, builtins.range):  # of two numbers, it would be taken for the bounds
            raise TypeError
        low, high = range
    except (TypeError, ValueError):
        raise Problem(f"{caller('range')} must be a pair (low, high).", kind=TypeError) from None
    return low, high


def _attempt(name: str, work: Callable[[Caller], Any], family: type[BNNSError] = LayerApplyError) -> Any:
    """Do the work of a call; its problems become exceptions of ``family``."""
    try:
        return work(Caller(name, _NAMES, null="None"))
    except Problem as problem:
        raise raised(problem, family) from None
    except BNNSError:
        raise
    except MISUSE_ERRORS as error:
        raise raised(misuse_in(None, error), family) from error
