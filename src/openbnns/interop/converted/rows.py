"""Activations in the tables of formats: one row for the reader and for the writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ... import ActivationFunction
from ...graph import operations
from ...graph.tensor import Tensor


class Row(NamedTuple):
    """An activation in a format and here."""

    name: str
    """In the format."""
    case: str
    """Here."""
    numbers: Mapping[str, float]
    """Attributes that are numbers, which have the same names in both places, with the format's defaults."""
    fixed: Mapping[str, float]
    """Numbers that it has here and that the format cannot change."""
    words: Mapping[str, str]
    """Attributes in the format that tell it from others of its name."""

    def read(self, x: Tensor, number: Callable[[str, float], float]) -> Tensor:
        """Record the activation of a value; ``number`` gives an attribute, or its default."""
        given = {name: float(number(name, default)) for name, default in self.numbers.items()}
        function = getattr(ActivationFunction, self.case)(**given, **self.fixed)
        return x.graph.append(operations.Activation(x.graph, x, function))


def row(
    name: str,
    case: str,
    words: Mapping[str, str] | None = None,
    fixed: Mapping[str, float] | None = None,
    **numbers: float,
) -> Row:
    return Row(name, case, numbers, fixed or {}, words or {})


def written(rows: Sequence[Row], f: ActivationFunction) -> tuple[str, dict[str, Any]] | None:
    """The name and the attributes of an activation in the first row that fits; None if none does."""
    for one in rows:
        if one.case == f.case and all(getattr(f, name) == number for name, number in one.fixed.items()):
            return one.name, {name: float(getattr(f, name)) for name in one.numbers} | dict(one.words)
    return None
