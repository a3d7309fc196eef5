"""The base of writers of all languages: values by type, line breaks, quoted names, steps by kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .code_parts import (
    Batch,
    BNNSCall,
    BufferPlace,
    Cache,
    CacheName,
    Copy,
    FilterName,
    Heading,
    Labels,
    NetworkSource,
    Program,
    Step,
)


@dataclass(frozen=True)
class Language:
    """The syntax of a language for the values in calls of BNNS."""

    width: int
    """Characters in a line."""
    types: Mapping[str, str]
    """Types of elements by NumPy's names."""
    null: str
    infinity: str
    nan: str
    single: str
    """The ending of numbers in single precision."""
    batch: str
    members: Mapping[str, str]
    """Prefixes of the names of the network's members, by their kinds: "buffer", with a place for the group, "filter", "cache"."""
    expressions: Mapping[type, Callable[[Any], str]]
    """The expressions for further kinds of values."""

    def type_of(self, dtype: np.dtype[Any]) -> str:
        return self.types[dtype.name]

    def expression(self, value: Any) -> str:
        """A value as an expression."""
        if value is None:
            return self.null
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            return self._number(value)
        if isinstance(value, BufferPlace):
            buffer = value.buffer
            member = "" if buffer.group == "argument" else self.members["buffer"].format(buffer.group)
            return f"{member}{buffer.name}" + (f" + {value.offset}" if value.offset else "")
        if isinstance(value, Batch):
            return self.batch if value.factor == 1 else f"{value.factor} * {self.batch}"
        if isinstance(value, FilterName):
            return f"{self.members['filter']}{value.name}"
        if isinstance(value, CacheName):
            ending = "_bytes" if value.size or value.address else ""
            return f"{'&' if value.address else ''}{self.members['cache']}{value.name}{ending}"
        for kind in type(value).__mro__:
            if kind in self.expressions:
                return self.expressions[kind](value)
        raise TypeError(f"no expression for {value!r}")

    def _number(self, value: float) -> str:
        if math.isinf(value):
            return self.infinity if value > 0 else f"-{self.infinity}"
        return self.nan if math.isnan(value) else f"{np.float32(value)!s}{self.single}"

    def wrapped(self, before: str, texts: list[str], after: str) -> list[str]:
        """Texts with commas between them, on as many lines as it takes."""
        lines, line = [], before
        for i, text in enumerate(texts):
            piece = text + (", " if i + 1 < len(texts) else after)
            if len(line) + len(piece.rstrip()) > self.width and line.strip():
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
    """A writer of the files of a network, step by step."""

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
