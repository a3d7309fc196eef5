"""Options that are true or false take booleans only: ``bias="no"`` would count as true."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

_Callable = TypeVar("_Callable", bound=Callable[..., Any])


def flag(value: Any, who: str) -> bool:
    """A boolean, Python's or NumPy's."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{who} must be True or False, not {value!r}.")
    return bool(value)


def optional_flag(value: Any, who: str) -> bool | None:
    """A boolean that may be left out."""
    return None if value is None else flag(value, who)


def with_flags(body: Any, call: _Callable) -> _Callable:
    """``call``, which has the arguments of ``body``: those that are True or False by default must be booleans."""
    places = _flags(body)
    if not places:
        return call
    method = body.__code__.co_varnames[:1] == ("self",)

    @functools.wraps(call)
    def checked(*given: Any, **named: Any) -> Any:
        for name, place in places.items():
            by_position = place is not None and place < len(given)
            if not by_position and name not in named:
                continue
            value = given[place] if by_position else named[name]
            if value is not True and value is not False:
                flag_value = flag(value, f"{type(given[0]).__name__ if method else body.__name__}: {name}")
                if by_position:
                    given = (*given[:place], flag_value, *given[place + 1 :])
                else:
                    named[name] = flag_value
        return call(*given, **named)

    return checked  # type: ignore[return-value]


def _flags(body: Any) -> dict[str, Any]:
    """The arguments whose default is a boolean: where they stand by position, or None."""
    names, defaults = body.__code__.co_varnames[: body.__code__.co_argcount], body.__defaults__ or ()
    places: dict[str, Any] = {
        name: len(names) - len(defaults) + i
        for i, (name, default) in enumerate(zip(names[len(names) - len(defaults) :], defaults, strict=True))
        if isinstance(default, bool)
    }
    return places | {name: None for name, default in (body.__kwdefaults__ or {}).items() if isinstance(default, bool)}
