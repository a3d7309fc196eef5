"""Arguments that users give: checks, objects by name, sizes that may be left out, and options as text."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any

from .._elsewhere import LOSSES
from .._flags import with_flags
from .._spelling import nearest, unexpected
from ..graph.checks import positive


def optional(value: Any, who: str) -> int | None:
    """A size that may be left to the first input."""
    return None if value is None else positive(value, who)


def choose(value: Any, named: Mapping[str, Callable[[], Any]], kind: type | None, who: str) -> Any:
    """The object itself, or a new one by name."""
    if isinstance(value, str):
        if value not in named:
            hint = LOSSES.get(value) or f"{nearest(value, named)} Use one of {', '.join(named)}.".lstrip()
            raise ValueError(f"{who} {value!r} is not known. {hint}")
        return named[value]()
    if (kind is not None and not isinstance(value, kind)) or (kind is None and not callable(value)):
        made = isinstance(value, type) and (kind is None or issubclass(value, kind))
        what = f"the class {value.__name__}. Call it: {value.__name__}()." if made else f"a {type(value).__name__}."
        raise TypeError(f"{who} is {what} Use one of {', '.join(named)}, or such an object.")
    return value


def first_may_be_omitted(init: Callable[..., None]) -> Callable[..., None]:
    """A decorator for constructors whose first size is optional: None if left out, it follows from the first input.

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
        arguments: dict[str, Any] = bind("", given, named)
        return arguments
    return dict(list(signature(init).bind(None, *given, **named).arguments.items())[1:])


def _same(value: Any, usual: Any) -> bool:
    """True for the default, or the default repeated for every axis: (1, 1) equals a stride of 1."""
    if isinstance(value, tuple) and not isinstance(usual, tuple):
        return all(part == usual for part in value)
    return bool(value == usual)


def changed(module: Any, **usual: Any) -> list[str]:
    """``name=value`` for every option of a module that differs from its default. Whether there is a bias is in
    ``use_bias``."""
    present = {name: getattr(module, "use_bias" if name == "bias" else name) for name in usual}
    return [f"{name}={_text(present[name])}" for name in usual if not _same(present[name], usual[name])]


def options(module: Any, **usual: Any) -> str:
    """The same, each with a comma in front, to stand behind the sizes of a layer."""
    return "".join(f", {text}" for text in changed(module, **usual))


def _text(value: Any) -> str:
    if callable(value):
        return str(getattr(value, "__name__", value))
    return f"{value:g}" if isinstance(value, float) else repr(value)
