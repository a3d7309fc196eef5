"""Operations of a network as operations of an ML program (MIL), one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ....graph.operation import Operation
from ....graph.parameter import Parameter
from ....graph.polynomials import Factor, Polynomial
from ....graph.sizes import AnySize, Size, expression_of
from ....graph.tensor import FLOAT32, Array, Tensor

Var = Any  # a value of the program

_WRITERS: dict[type[Operation], Callable[[Builder, Any], None]] = {}

_Function = TypeVar("_Function", bound=Callable[..., None])


class Refused(Exception):
    """Why an operation cannot be part of an ML program."""


def writes(kind: type[Operation]) -> Callable[[_Function], _Function]:
    """Marks what writes operations of this kind."""

    def decorate(function: _Function) -> _Function:
        _WRITERS[kind] = function
        return function

    return decorate


class Builder:
    """An ML program in the making. Calling it makes an operation: ``build("relu", x=x)``."""

    def __init__(self, mb: Any, free: Mapping[str, str | int]) -> None:
        """``free`` says what the program has in place of free sizes: names or numbers."""
        self.mb, self._free = mb, free
        self._axes: dict[str, tuple[Var, int]] = {}  # the input and the axis that have a free size
        self.made: list[str] = []  # kinds of operations that the present step has become
        self._vars: dict[int, Var] = {}
        self._held: list[Tensor] = []  # whose identities must stay theirs
        self._name = "layer"
        self._taken: set[str] = set()

    def name_next(self, wish: str) -> None:
        """What to call the operations from here on."""
        plain = "_".join(re.findall(r"\w+", wish, flags=re.ASCII)).strip("_") or "layer"
        self._name = f"layer_{plain}" if plain[0].isdigit() else plain
        self.made = []

    def __call__(self, kind: str, **arguments: Any) -> Var:
        self.made.append(kind)
        return getattr(self.mb, kind)(name=self.unique(f"{self._name}_{kind}"), **arguments)

    def unique(self, wish: str) -> str:
        name, number = wish, 2
        while name in self._taken:
            name, number = f"{wish}_{number}", number + 1
        self._taken.add(name)
        return name

    # Values.

    def set(self, value: Tensor, var: Var) -> None:
        """What stands for a value of the network."""
        self._vars[id(value)] = var
        self._held.append(value)

    def begin(self, value: Tensor, var: Var) -> None:
        """The record that stands for an input of the network."""
        self.set(value, var)
        for axis, size in enumerate(value.shape):
            known = self.size(size)
            if not isinstance(known, int):
                self._axes.setdefault(str(known), (var, axis))

    def get(self, value: Tensor) -> Var:
        """What stands for a value, in its shape."""
        if id(value) not in self._vars:
            leaf = value.leaf
            if isinstance(leaf, Size):
                number = self.size(leaf)
                if isinstance(number, int):
                    self.set(value, np.float32(number))
                else:
                    self.set(value, self("cast", x=self._count(number), dtype="fp32"))
            elif leaf is not None:
                array: Array = leaf.data if isinstance(leaf, Parameter) else leaf
                self.set(value, np.ascontiguousarray(array).astype(np.float32 if value.dtype == FLOAT32 else np.int32))
            elif value.source is not None:
                self.set(value, self.reshaped(self.get(value.storage), value.shape))
            else:
                raise Refused("it reads a value that nothing computes")
        return self._vars[id(value)]

    # Sizes.

    def size(self, size: AnySize) -> int | Polynomial:
        """A size as the program has it: a number, or an expression in flexible sizes."""
        expression = expression_of(size).replaced(self._free)
        number = expression.constant
        return expression if number is None else number

    def numbers(self, shape: Sequence[AnySize], why: str) -> tuple[int, ...]:
        """Sizes that have to be numbers."""
        known = [self.size(n) for n in shape]
        if not all(isinstance(n, int) for n in known):
            raise Refused(f"{why}, but here they are flexible. Pass batch_size, or build the network for one size")
        return tuple(known)  # type: ignore[arg-type]

    def sizes(self, shape: Sequence[AnySize]) -> Any:
        """Sizes as a list of numbers, or as a value of the program."""
        known = [self.size(n) for n in shape]
        if all(isinstance(n, int) for n in known):
            return known
        return self("concat", values=[np.int32(n) if isinstance(n, int) else self._count(n) for n in known], axis=0)

    def reshaped(self, x: Var, shape: Sequence[AnySize]) -> Var:
        known = [self.size(n) for n in shape]
        plain = [n if isinstance(n, int) else -1 for n in known]
        if isinstance(x, np.ndarray):
            return x.reshape(plain)
        return self("reshape", x=x, shape=plain if plain.count(-1) < 2 and 0 not in plain else self.sizes(shape))

    def _count(self, expression: Polynomial) -> Var:
        """An expression in flexible sizes as a number of the program."""
        total: Var = None
        for factors, number in expression.terms:
            term: Var = np.int32(number)
            for factor in factors:
                term = self("mul", x=self._factor(factor), y=term)
            total = term if total is None else self("add", x=term if factors else total, y=total if factors else term)
        return total

    def _factor(self, factor: Factor) -> Var:
        if isinstance(factor, str):
            x, axis = self._axes[factor]
            return self("squeeze", x=self("slice_by_index", x=self("shape", x=x), begin=[axis], end=[axis + 1]))
        dividend, divisor = (
            np.int32(part.constant) if part.constant is not None else self._count(part)
            for part in (factor.dividend, factor.divisor)
        )
        return self("floor_div", x=dividend, y=divisor)

    def write(self, operation: Operation) -> None:
        """Append an operation of a network."""
        writer = next((_WRITERS[kind] for kind in type(operation).__mro__ if kind in _WRITERS), None)
        if writer is None:
            raise Refused("there is no such operation in Core ML, or none that this package writes")
        writer(self, operation)

    def dims(self, x: Var) -> int:
        return int(x.ndim) if isinstance(x, np.ndarray) else int(x.rank)
