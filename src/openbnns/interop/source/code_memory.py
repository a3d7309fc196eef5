"""The variables in source code that stand for arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from ...graph.memory import ALIGNMENT, Block, plan
from ...graph.program import Program
from ...graph.tensor import Array
from .code_parts import Buffer, BufferPlace
from .errors import Refused

RESERVED = {  # words of C and Swift, and names that the files use themselves
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "float", "for",
    "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed", "sizeof", "static", "struct",
    "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "bool", "true", "false", "in", "let", "var", "func",
    "class", "init", "self", "import", "guard", "where", "is", "as", "try", "throw", "throws", "repeat", "defer", "nil",
    "protocol", "extension", "operator", "public", "private", "internal", "net", "status", "batch", "loss", "targets", "near",
    "far", "linux", "unix", "predict", "train", "weights", "filters", "scratch", "I", "main", "any", "some", "Any", "Type",
    "super", "subscript", "associatedtype", "deinit", "fileprivate", "inout", "open", "rethrows", "catch", "fallthrough",
    "NULL", "errno", "stdin", "stdout", "stderr", "assert",
}  # fmt: skip


class Names:
    """Identifiers, each once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken) | RESERVED

    def make(self, wish: str) -> str:
        """A valid, new identifier similar to a wish."""
        words = re.findall(r"[A-Za-z0-9]+", wish)
        plain = "_".join(words) or "layer"
        if plain[0].isdigit():
            plain = f"layer_{plain}"
        name, number = plain, 2
        while name in self._taken:
            name, number = f"{plain}_{number}", number + 1
        self._taken.add(name)
        return name


class Places:
    """The buffers that arrays lie in; new ones are made on demand.

    Values of a program share memory, so which of them an array is depends on the step (``now``) that it takes part in.
    """

    def __init__(self) -> None:
        self._names: dict[str, Names] = {}  # by group
        self._fixed: list[tuple[int, int, Buffer, Array]] = []  # from address to address; the array is kept there
        self._shared: dict[int, list[tuple[int, int, Buffer]]] = {}  # by program
        self._written: set[int] = set()
        self._used: dict[int, Buffer] = {}
        self.program: Program | None = None
        self.now = 0
        self.step = ""  # what to call memory that belongs to this step alone

    def name(self, group: str, wish: str) -> str:
        """A name in a group. What an array of a layer is, work memory or constant, turns out later."""
        group = "weights" if group == "unknown" else group
        return self._names.setdefault(group, Names()).make(wish)

    def add(self, array: Array, name: str, group: str, *, contents: bool = False, path: str = "") -> Buffer:
        """Memory of constants."""
        kept = array if contents else None
        buffer = Buffer(self.name(group, name), group, array.dtype, array.size, kept, path=path)
        start = array.ctypes.data
        self._fixed.append((start, start + max(array.nbytes, 1), buffer, array))
        return buffer

    def add_alias(self, array: Array, buffer: Buffer) -> None:
        """Memory that stands for that of a buffer."""
        start = array.ctypes.data
        self._fixed.append((start, start + max(array.nbytes, 1), buffer, array))

    def add_block(self, program: Program, block: Block, buffer: Buffer) -> None:
        """A part of the memory of a program."""
        start = int(program._memory.ctypes.data) + block.offset
        self._shared.setdefault(id(program), []).append((start, start + max(block.size, 1), buffer))

    def find(self, array: Array, *, written: bool = False) -> BufferPlace:
        """The place at which an array begins."""
        start = int(array.ctypes.data)
        buffer, first = self._buffer(array, start)
        if buffer.dtype != array.dtype and array.dtype.itemsize != buffer.dtype.itemsize:
            raise Refused(f"memory of {buffer.dtype} is used as {array.dtype}")
        if written and buffer.constant:
            raise Refused(f"it would write to {buffer.name}, which belongs to the caller")
        self._used[id(buffer)] = buffer
        if written:
            self._written.add(id(buffer))
        return BufferPlace(buffer, (start - first) // buffer.dtype.itemsize)

    def _buffer(self, array: Array, start: int) -> tuple[Buffer, int]:
        if self.program is not None:
            for low, high, buffer in self._shared.get(id(self.program), ()):
                if low <= start < high and buffer.start <= self.now <= buffer.end:
                    return buffer, low
        for low, high, buffer, _ in self._fixed:
            if low <= start < high:
                return buffer, low
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        return self.add(root, f"{self.step}_memory", "unknown"), int(root.ctypes.data)

    def finish(self) -> tuple[list[Buffer], dict[str, int]]:
        """The buffers that are used, each with its place in the memory of its group, and the bytes of the groups.

        What a layer made by itself is work memory if a call writes it, and else a constant.
        """
        arrays = {id(buffer): array for _, _, buffer, array in self._fixed}
        for key, buffer in self._used.items():
            if buffer.group == "unknown":
                buffer.group = "scratch" if key in self._written else "weights"
                if buffer.group == "weights":
                    buffer.contents = arrays[key]
        buffers = list(self._used.values())
        totals: dict[str, int] = {}
        for group in ("weights", "predict", "train", "scratch"):
            members = [buffer for buffer in buffers if buffer.group == group]
            if group == "weights":
                totals[group] = _one_after_the_other(members)
                continue
            blocks = [Block(buffer.nbytes, buffer.start, buffer.end) for buffer in members]
            totals[group] = plan(blocks)
            for buffer, block in zip(members, blocks, strict=True):
                buffer.offset = block.offset
        return buffers, totals


def _one_after_the_other(buffers: list[Buffer]) -> int:
    total = 0
    for buffer in buffers:
        buffer.offset = total
        total += -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT
    return total
