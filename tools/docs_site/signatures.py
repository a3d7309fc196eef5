"""Signatures as people write them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

WIDTH = 88


def signature(name: str, thing: Any) -> str:
    """``name(argument: type = default) -> type``, in several lines if it is long; the name alone if there is none."""
    try:
        read = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    arguments = list(_arguments(read))
    result = ""
    if not inspect.isclass(thing) and read.return_annotation is not read.empty:
        result = f" -> {_type(read.return_annotation)}"
    line = f"{name}({', '.join(arguments)}){result}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {argument}," for argument in arguments), f"){result}"])


def _arguments(signature: inspect.Signature) -> Iterator[str]:
    starred = False
    parameters = [p for p in signature.parameters.values() if p.name not in ("self", "cls", "misspelled")]
    for number, p in enumerate(parameters):
        if p.kind is p.KEYWORD_ONLY and not starred:
            yield "*"
            starred = True
        starred = starred or p.kind is p.VAR_POSITIONAL
        stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        text = stars + p.name
        if p.annotation is not p.empty:
            text += f": {_type(p.annotation)}"
        if p.default is not p.empty:
            text += f" = {_default(p.default)}" if p.annotation is not p.empty else f"={_default(p.default)}"
        yield text
        following = parameters[number + 1].kind if number + 1 < len(parameters) else None
        if p.kind is p.POSITIONAL_ONLY and following is not p.POSITIONAL_ONLY:
            yield "/"


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: Any) -> str:
    """The source text of a default value, or its name; dots for objects that have neither."""
    shown = repr(value)
    return shown if not shown.startswith("<") else getattr(value, "__name__", "...")
