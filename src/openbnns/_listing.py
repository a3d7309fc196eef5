"""The names that ``dir()`` and tab completion show: public ones, without internals."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable


def public(names: Iterable[str], hidden: Iterable[str] = ()) -> list[str]:
    """Names that users may use, and Python's own, which tools ask for."""
    left_out = set(hidden)
    return sorted({n for n in names if n not in left_out and (not n.startswith("_") or (n[:2] == n[-2:] == "__"))})


def of_module(name: str) -> Callable[[], list[str]]:
    """The ``__dir__`` of a module: what its ``__all__`` lists, and Python's own names."""

    def __dir__() -> list[str]:
        here = vars(sys.modules[name])
        return public([*here["__all__"], *(own for own in here if own.startswith("__"))])

    return __dir__


class Listed:
    """A class whose objects list public names alone."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return public(super().__dir__())
