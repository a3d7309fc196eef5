"""The one table of operators."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

from ..converted.registry import Handler


@dataclass(frozen=True)
class Operator:
    """All facts about an operator. Numbers in them are positions of its inputs."""

    group: str
    record: Handler
    """A function of the call and its tensors, None for those left out, that returns one tensor or several."""
    compute: Handler | None = None
    """The same on arrays in NumPy: for constants, which are computed once, and for whole numbers and masks, which have no
    gradient. Sizes that are free stand in arrays of objects."""
    records_whole: bool = False
    """True if ``record`` takes whole numbers and masks that a run computes; else ``compute`` does, if there is one."""
    folds_sizes: bool = True
    """False if the shape of its result follows from constants, so that ``compute`` cannot take free sizes."""
    by_element: bool = False
    """True if results of ``compute`` have the broadcast shape of the operands."""
    whole_type: int | str | Callable[[Any], str] | None = 0
    """The type of its first result where that is whole numbers: the type of the input of this number, or a type of NumPy, which
    may follow from the call. None if the results of ``record`` have their types. Others have 64 bits unless ``record`` says."""
    wraps: bool = False
    """True if ``record`` gives whole numbers that the type may not hold, of which the lowest bits are kept."""
    moves: bool = False
    """True if it moves elements without changing them."""
    native: str | Callable[[Any], str] = ""
    """The function of ``graph.calls.by_element`` that ``compute`` is for one or two tensors of whole numbers, of a call."""
    shaping: tuple[int, ...] = ()
    """Whole numbers that shapes of results follow from, which are read if a run computes them."""
    settings: Container[int] = ()
    """Initializers that are constants rather than weights."""
    statistics: Container[int] = ()
    """Initializers that training changes without a gradient: buffers."""
    once_attributes: tuple[str, ...] = ()
    """Whole numbers that are inputs behind the first one now, in this order, and were attributes in old versions."""
    ignores: tuple[str, ...] = ()
    """Attributes without an effect, or without one that matters here."""


OPERATORS: dict[str, Operator] = {}
"""By name; operators of other domains than ONNX's own have the domain in front."""


def add(group: str, name: str, record: Handler, **facts: Any) -> None:
    assert name not in OPERATORS, name
    OPERATORS[name] = Operator(group, record, **facts)


def operator(group: str, *names: str, **facts: Any) -> Callable[[Handler], Handler]:
    """A decorator of functions that record operators of these names; the facts are fields of :class:`Operator`."""

    def decorate(record: Handler) -> Handler:
        for name in names:
            add(group, name, record, **facts)
        return record

    return decorate
