"""Arguments that users give as an object, by name or as a number."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any

from .._flags import with_flags
from .._spelling import nearest, unexpected


def choose(value: Any, named: Mapping[str, Callable[[], Any]], kind: type | None, who: str) -> Any:
    """The object itself, or a new one by name."""
    if isinstance(value, str):
        if value not in named:
            raise ValueError(f"{who} {value!r} is not known.{nearest(value, named)} Use one of {', '.join(named)}.")
        return named[value]()
    if (kind is not None and not isinstance(value, kind)) or (kind is None and not callable(value)):
        made = isinstance(value, type) and (kind is None or issubclass(value, kind))
        what = f"the class {value.__name__}. Call it: {value.__name__}()." if made else f"a {type(value).__name__}."
        raise TypeError(f"{who} is {what} Use one of {', '.join(named)}, or such an object.")
    return value


def first_may_be_omitted(init: Callable[..., None]) -> Callable[..., None]:
    """A decorator of constructors whose first size may be left out and is None then: it follows from the first input.

    Sizes are the arguments without a default. All of them, or all but the first, are given, by position or by name; only
    behind all of them may options stand by position, so that ``Conv2d(8, 16, 3)`` never means a stride of 3.
    """
    names = list(signature(init).parameters.values())[1:]
    sizes = [p.name for p in names if p.default is Parameter.empty]
    options = [p.name for p in names[len(sizes) :] if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    known = {p.name for p in names}
    make = with_flags(init, init)

    def bind(who: str, given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """All arguments by name."""
        unknown = [name for name in named if name not in known]
        if unknown:
            raise unexpected(init, unknown, who)
        usage = f"{who} takes ({', '.join(sizes[1:])}) or ({', '.join(sizes)})."
        free = [name for name in sizes if name not in named]
        bound = dict(named)
        if len(given) == len(free) - 1 and sizes[0] in free:
            free.remove(sizes[0])
            bound[sizes[0]] = None
        if not len(free) <= len(given) <= len(free) + len(options):
            raise TypeError(usage)
        for name, value in zip([*free, *options], given, strict=False):
            if name in bound:
                raise TypeError(f"{usage} {name} is given twice: by position and by name.")
            bound[name] = value
        return bound

    @functools.wraps(init)
    def place(self: Any, *given: Any, **named: Any) -> None:
        make(self, **bind(type(self).__name__, given, named))

    place.bind = bind  # type: ignore[attr-defined]
    return place


def arguments_by_name(init: Callable[..., None], given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call of a constructor, each under its name; several of one name, ``*sizes``, in a tuple."""
    bind = getattr(init, "bind", None)
    if bind is not None:
        found: dict[str, Any] = bind("", given, named)
        return found
    return dict(list(signature(init).bind(None, *given, **named).arguments.items())[1:])
