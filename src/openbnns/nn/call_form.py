"""Calls of converted networks with arrays in tuples, lists and dictionaries, as the original module takes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter as Argument
from inspect import Signature
from typing import Any

from ..graph.structure import Structure
from ..graph.tensor import Array
from .containers import ForeignPart
from .nested_arrays import Step, as_key, called


@dataclass(frozen=True)
class CallForm:
    """The arguments of a call and the structure of each, in which arrays are the inputs of a network, in order.

    >>> import numpy as np
    >>> form = CallForm(("batch", "scale"), (Structure(dict, ("a", "b"), (Structure(), Structure())), Structure()))
    >>> form.input_names()
    ['batch_a', 'batch_b', 'scale']
    >>> form.arrays("Net", ({"b": 2, "a": 1}, 3), {})
    [1, 2, 3]
    """

    arguments: tuple[str, ...]
    structures: tuple[Structure, ...]

    @property
    def is_nested(self) -> bool:
        """True if an argument is more than one array."""
        return any(structure.kind is not None for structure in self.structures)

    def _paths(self) -> list[tuple[str, tuple[Step, ...]]]:
        pairs = zip(self.arguments, self.structures, strict=True)
        return [(name, path) for name, structure in pairs for path in _paths(structure)]

    def input_names(self) -> list[str]:
        """A name in Python for every array: that of its argument, followed by the names and positions inside."""
        names: list[str] = []
        for argument, path in self._paths():
            name = "_".join(re.split(r"\W", "_".join(map(str, (argument, *path)))))
            while name in names:
                name += "_"
            names.append(name)
        return names

    def places(self) -> list[str]:
        """The place of every array in messages: x, batch['image'], pair[0]."""
        return [called(argument, as_key(path)) for argument, path in self._paths()]

    def arrays(self, who: str, inputs: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The arrays of a call: in the form of the arguments, or one by one."""
        given = dict(named)
        if not any(map(_is_nested, (*inputs, *given.values()))) and not self._is_only(inputs, given):
            return list(self._bound(who, self.input_names(), inputs, given))
        values = [given] if self._is_only(inputs, given) else self._bound(who, self.arguments, inputs, given)
        parts = zip(self.arguments, values, self.structures, strict=True)
        return [x for name, value, structure in parts for x in _leaves(who, name, value, structure)]

    def _is_only(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """True if these are the entries of the dictionary that is the only argument."""
        if inputs or len(self.structures) != 1 or self.structures[0].kind is not dict:
            return False
        return named.keys() == set(self.structures[0].names) and named.keys() != set(self.arguments)

    def _bound(
        self, who: str, names: Sequence[str], inputs: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        taken = Signature([Argument(name, Argument.POSITIONAL_OR_KEYWORD) for name in names])
        try:
            return taken.bind(*inputs, **named).args
        except TypeError as error:
            raise TypeError(f"{who}: {error}. It takes {self.described()}.") from None

    def described(self) -> str:
        """The arguments in words."""
        parts = zip(self.arguments, self.structures, strict=True)
        told = [name if structure.kind is None else f"{name} ({structure.describe()})" for name, structure in parts]
        return f"{', '.join(told)}, or the arrays one by one: {', '.join(self.input_names())}"


class StructuredCalls(ForeignPart):
    """A network that is called with arrays in the structures of a form, or one by one if it has none."""

    def _call_form(self) -> CallForm | None:
        raise NotImplementedError

    def _takes_structures(self) -> bool:
        return self._call_form() is not None

    def _in_a_row(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
        return self._call_form() is not None or super()._in_a_row(inputs, named)

    def _in_order(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        form = self._call_form()
        return (
            super()._in_order(inputs, named) if form is None else form.arrays(self._name_in_messages(), inputs, named)
        )

    def _inputs(self, given: Sequence[Any]) -> list[Array]:
        form = self._call_form()
        if form is not None:
            given = form.arrays(self._name_in_messages(), given, {})
        return super()._inputs(given)

    def _name_in_messages(self) -> str:
        return self._kind


def _paths(structure: Structure, path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    if structure.kind is None:
        yield path
    for step, part in zip(structure.names or range(len(structure.parts)), structure.parts, strict=True):
        yield from _paths(part, (*path, step))


def _is_nested(value: Any) -> bool:
    """True for dictionaries, and for tuples and lists of anything but numbers."""
    if isinstance(value, (tuple, list)):
        return any(_is_nested(part) or getattr(part, "ndim", 0) > 0 for part in value)
    return isinstance(value, Mapping)


def _leaves(who: str, name: str, value: Any, structure: Structure) -> Iterator[Any]:
    if structure.kind is None:
        if _is_nested(value):
            raise TypeError(f"{who}: {name} is a {type(value).__name__}, but must be an array, as in the example.")
        yield value
        return
    members = _members(value, structure)
    if members is None:
        got = "an array"
        if isinstance(value, Mapping):
            got = f"a dictionary with {', '.join(map(repr, value))}"
        elif isinstance(value, (tuple, list)):
            got = f"a {type(value).__name__} of {len(value)}"
        raise TypeError(f"{who}: {name} is {got}, but must be {structure.describe()}, as in the example.")
    for step, member, part in zip(structure.names or range(len(members)), members, structure.parts, strict=True):
        yield from _leaves(who, f"{name}[{step!r}]", member, part)


def _members(value: Any, structure: Structure) -> list[Any] | None:
    """The parts of a value in the order of a structure; None if it is another one."""
    if structure.kind is dict:
        fits = isinstance(value, Mapping) and value.keys() == set(structure.names)
        return [value[name] for name in structure.names] if fits else None
    fits = isinstance(value, (tuple, list)) and len(value) == len(structure.parts)
    return list(value) if fits else None
