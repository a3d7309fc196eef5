"""Activations in the tables of formats: one row for the reader and for the writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ... import ActivationFunction
from ...graph import operations
from ...graph.tensor import Tensor


class Row(NamedTuple):
    """The name of an activation in a format, its numbers there with their defaults, and those that it has without being asked."""

    name: str
    case: str
    numbers: Mapping[str, float]
    fixed: Mapping[str, float]
    words: Mapping[str, str]

    def read(self, x: Tensor, number: Callable[[str, float], float]) -> Tensor:
        """Record it on a value, with numbers by their names."""
        given = {name: float(number(name, default)) for name, default in self.numbers.items()}
        function = getattr(ActivationFunction, self.case)(**given, **self.fixed)
        return x.graph.append(operations.Activation(x.graph, x, function))


def row(name: str, case: str, words: Mapping[str, str] | None = None, fixed: Mapping[str, float] | None = None, **numbers: float) -> Row:
    return Row(name, case, numbers, fixed or {}, words or {})


def written(rows: Sequence[Row], f: ActivationFunction) -> tuple[str, dict[str, Any]] | None:
    """The name and the attributes of an activation in the first row that fits; None if none does."""
    for one in rows:
        if one.case == f.case and all(getattr(f, name) == number for name, number in one.fixed.items()):
            return one.name, {name: float(getattr(f, name)) for name in one.numbers} | dict(one.words)
    return None
