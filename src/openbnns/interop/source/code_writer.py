"""The base of writers of all languages: values by type, line breaks, quoted names, steps by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .code_parts import BNNSCall, Cache, Copy, Heading, Labels, NetworkSource, Program, Step

Ways = Mapping[type, Callable[[Any], str]]


def in_words(value: Any, null: str, ways: Ways) -> str:
    """A value as an expression: what the language has for its type."""
    if value is None:
        return null
    if isinstance(value, bool):
        return "true" if value else "false"
    for kind in type(value).__mro__:
        if kind in ways:
            return ways[kind](value)
    raise TypeError(f"no expression for {value!r}")


def in_lines(before: str, texts: list[str], after: str, width: int) -> list[str]:
    """Texts with commas between them, on as many lines as it takes."""
    lines, line = [], before
    for i, text in enumerate(texts):
        piece = text + (", " if i + 1 < len(texts) else after)
        if len(line) + len(piece.rstrip()) > width and line.strip():
            lines.append(line.rstrip())
            line = "    "
        line += piece
    return [*lines, line + (after if not texts else "")]


def quoted(text: str) -> str:
    """A string, in C and Swift alike."""
    escaped = "".join("\\" + c if c in '"\\' else c if c.isprintable() else "?" for c in text)
    return f'"{escaped}"'


def moved(start: str, strides: tuple[int, ...]) -> str:
    """A pointer at the place that the counters i0, i1 and so on of loops lead to."""
    for axis, stride in enumerate(strides):
        if stride:
            sign = "+" if stride > 0 else "-"
            start += f" {sign} " + (f"i{axis}" if abs(stride) == 1 else f"{abs(stride)} * i{axis}")
    return start


class Writer:
    """Writes the files of a network, step by step."""

    def __init__(self, source: NetworkSource) -> None:
        self.source = source

    def steps(self, program: Program) -> list[str]:
        return [line for step in program.steps for line in self.step(step)]

    def step(self, step: Step) -> list[str]:
        if isinstance(step, BNNSCall):
            return self.call(step)
        if isinstance(step, Cache):
            return self.cache(step)
        if isinstance(step, Heading):
            return self.heading(step)
        return self.labels(step) if isinstance(step, Labels) else self.copy(step)

    def call(self, call: BNNSCall) -> list[str]:
        raise NotImplementedError

    def cache(self, cache: Cache) -> list[str]:
        raise NotImplementedError

    def heading(self, heading: Heading) -> list[str]:
        raise NotImplementedError

    def labels(self, step: Labels) -> list[str]:
        raise NotImplementedError

    def copy(self, step: Copy) -> list[str]:
        raise NotImplementedError
