"""Operations of a network as operations of an ML program (MIL), one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .._graph import Operation
from .._value import FLOAT32, Array, Value
from ..parameter import Parameter

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

    def __init__(self, mb: Any, first: Var) -> None:
        """``first`` is an input, whose first axis is the batch."""
        self.mb, self._first = mb, first
        self.made: list[str] = []  # kinds of operations that the present step has become
        self._vars: dict[int, Var] = {}
        self._held: list[Value] = []  # whose identities must stay theirs
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

    def set(self, value: Value, var: Var) -> None:
        """What stands for a value of the network."""
        self._vars[id(value)] = var
        self._held.append(value)

    def get(self, value: Value) -> Var:
        """What stands for a value, in its shape."""
        if id(value) not in self._vars:
            leaf = value.leaf
            if leaf is not None:
                array: Array = leaf.data if isinstance(leaf, Parameter) else leaf
                self.set(value, array.reshape(value.sample).astype(np.float32 if value.dtype == FLOAT32 else np.int32))
            elif value.source is not None:
                self.set(value, self.reshaped(self.get(value.storage), value))
            else:
                raise Refused("it reads a value that nothing computes")
        return self._vars[id(value)]

    def shape(self, value: Value) -> list[int]:
        """Sizes for a reshape; -1 is the batch."""
        return [-1, *value.sample] if value.rows else list(value.sample)

    def reshaped(self, x: Var, value: Value) -> Var:
        if isinstance(x, np.ndarray):
            return x.reshape(value.sample)
        return self("reshape", x=x, shape=self.shape(value))

    def write(self, operation: Operation) -> None:
        """Append an operation of a network."""
        writer = next((_WRITERS[kind] for kind in type(operation).__mro__ if kind in _WRITERS), None)
        if writer is None:
            raise Refused("there is no such operation in Core ML, or none that this package writes")
        writer(self, operation)

    def batch(self) -> Var:
        """The number of samples, (1,)."""
        return self("slice_by_index", x=self("shape", x=self._first), begin=[0], end=[1])

    def dims(self, x: Var) -> int:
        return int(x.ndim) if isinstance(x, np.ndarray) else int(x.rank)
