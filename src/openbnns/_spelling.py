"""The right name for a wrong one: as Swift or PyTorch spells it, in another case, or with a typing error.

Names are looked up here only after Python has found that they do not exist. A function that is rarely called is decorated
with :func:`spelled`. One that is called often takes ``**misspelled: NoReturn``, which costs next to nothing and keeps type
checkers strict, and raises :func:`unexpected`.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

_Callable = TypeVar("_Callable", bound=Callable[..., Any])


# NumPy's words for what PyTorch calls otherwise.
_SYNONYMS = {"axis": "dim", "axes": "dims", "keepdims": "keepdim", "ddof": "correction"}


def right_word(name: str, known: Iterable[str]) -> str | None:
    """The known name that was meant: the same word in another spelling, or the nearest one."""
    from difflib import get_close_matches

    names = list(known)
    if _SYNONYMS.get(name) in names:
        return _SYNONYMS[name]
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    if snake in names:
        return snake
    same = [candidate for candidate in names if _folded(candidate) == _folded(name)]
    if same:
        return get_close_matches(name, same, 1, 0.0)[0]
    if len(name) < 5:  # in a short word a mistake changes one letter: age is not usage
        names = [candidate for candidate in names if abs(len(candidate) - len(name)) <= 1]
    return next(iter(get_close_matches(name, names, 1, 0.6)), None)


def _folded(name: str) -> str:
    return name.replace("_", "").casefold()


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence to append to a message, or an empty text."""
    word = right_word(name, known)
    return "" if word is None else f" Did you mean {word}?"


def unexpected(function: Callable[..., Any], misspelled: Iterable[str], who: str = "") -> TypeError:
    """The error for keyword arguments that a function does not have; ``function`` may be a bound method."""
    name = next(iter(misspelled))
    known = _keywords(function)
    if not who:
        owner = getattr(function, "__self__", None)
        who = function.__name__ if owner is None else f"{type(owner).__name__}.{function.__name__}"
    places: Mapping[str, str] = getattr(function, "_elsewhere", {})
    hint = f" {places[name]}" if name in places else did_you_mean(name, known)
    hint = hint or (f" It takes {', '.join(known)}." if known else "")
    return TypeError(f"{who}: there is no argument {name!r}.{hint}")


def _keywords(function: Callable[..., Any]) -> list[str]:
    from inspect import Parameter, signature

    takes = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return [name for name, p in signature(function).parameters.items() if p.kind in takes and name != "self"]


def misfit(
    error: TypeError, function: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any]
) -> TypeError:
    """The error for a call that does not match the signature of ``function``; ``error`` is what Python says."""
    names = {name: None for name in named if name not in _keywords(function)}
    method = function.__name__ == "__init__" and len(arguments) > 0
    who = type(arguments[0]).__name__ if method else function.__qualname__
    if names:
        return unexpected(function, names, who)
    given = arguments[1:] if method else arguments
    if len(given) == 1 and isinstance(given[0], (tuple, list)) and not named and _takes(function, method, given[0]):
        listed = ", ".join(map(repr, given[0]))
        return TypeError(f"{who}: takes its arguments one by one, not in a {type(given[0]).__name__}: {who}({listed}).")
    return error


def _takes(function: Callable[..., Any], method: bool, arguments: Iterable[Any]) -> bool:
    from inspect import signature

    try:
        signature(function).bind(*([None] if method else []), *arguments)
    except TypeError:
        return False
    return True


def elsewhere(**places: str) -> Callable[[_Callable], _Callable]:
    """A decorator below :func:`spelled`: where arguments go that are looked for here."""

    def mark(function: _Callable) -> _Callable:
        function._elsewhere = places  # type: ignore[attr-defined]
        return function

    return mark


def spelled(function: _Callable) -> _Callable:
    """A decorator: the error for an unknown keyword suggests the one that the function has."""

    @functools.wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise  # from inside
            raise misfit(error, function, arguments, named) from None

    return checked  # type: ignore[return-value]


def missing(owner: type, name: str, known: Iterable[str], call: str = "") -> AttributeError:
    """The error for an attribute that a class does not have."""
    aliases: Mapping[str, str] = owner.__dict__.get("_aliases", {})
    word = aliases.get(name) or right_word(name, [*known, *aliases])
    word = aliases.get(word, word) if word is not None else None
    hint = f"Did you mean {owner.__name__}.{word}{call}?" if word else f"It has {', '.join(known)}."
    return AttributeError(f"{owner.__name__} has no {name!r}. {hint}")


class CasesMeta(type):
    """Classes with factories: the error for a misspelled factory, or argument of one, gives the right name."""

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any) -> None:
        super().__init__(name, bases, body, **options)
        for key, value in body.items():
            if isinstance(value, staticmethod) and not key.startswith("_"):
                setattr(cls, key, staticmethod(spelled(value.__func__)))

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        try:
            return super().__call__(*arguments, **named)
        except TypeError as error:
            inside = error.__traceback__ and error.__traceback__.tb_next
            if inside is not None:
                raise
            made: Any = cls
            raise misfit(error, made.__init__, (made.__new__(made), *arguments), named) from None

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise missing(cls, name, [key for key, v in vars(cls).items() if isinstance(v, staticmethod)], "()")


class MembersMeta(enum.EnumMeta):
    """Enums: the error for a misspelled member gives the right name."""

    def __getattr__(cls, name: str) -> Any:
        members = cls.__dict__.get("_member_map_", {})
        if name in members:  # how Python 3.11 finds them
            return members[name]
        if name.startswith("_"):
            raise AttributeError(name)
        raise missing(cls, name, members)


class Members(enum.Enum, metaclass=MembersMeta):
    """Base of the enums of the Python face."""


def nearest(name: str, choices: Any) -> str:
    """A hint at the choice that was probably meant."""
    names = list(choices)
    word = right_word(name, names)
    longer = sorted((n for n in names if len(name) > 2 and n.casefold().startswith(name.casefold())), key=len)
    if longer and (word is None or word.replace("_", "").casefold() != name.replace("_", "").casefold()):
        word = longer[0]
    return f" Did you mean {word!r}?" if word is not None else ""
