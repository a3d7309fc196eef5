"""Hostile calls of the C library: orderly cases of every family with a few words wrong. Nothing may crash.

A C program's memory has no size that the library could know, so every buffer lies in the middle of a large stretch of
memory: numbers are changed to small ones, whose buffers fit there, or to some that no memory could hold, and those calls
have to be refused. A call that fails has a message, and has written nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from typing import Any

import numpy as np

from c_face import DESTROY, HANDLES, PARAMETERS, RETURNED, Raw, as_c_floats, last_error, library
from openbnns import capi

from . import hostile
from .core import Case, Draw, Mismatch, Outcome, calls

SMALL = (0, 1, 2, 3, 5, 7, 9)
IMPOSSIBLE = (2**47, 2**48 + 1, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1)
STRETCH, STRETCHES = 1 << 26, 1024
AROUND = 256  # bytes on both sides of a buffer that are watched

_libc = ctypes.CDLL(None)
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mmap.restype = ctypes.c_void_p
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_MAP_NORESERVE, _MADV_DONTNEED = 0x4000, 4


class Stretches:
    """Memory for the buffers of one case, all zero at its start."""

    def __init__(self) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        self.base = _libc.mmap(None, STRETCH * STRETCHES, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        self.used = 0

    def place(self, contents: bytes, shift: int = 0) -> int:
        """The address of a buffer with these contents; stretches are used again when there are too many."""
        address = self.base + self.used % STRETCHES * STRETCH + STRETCH // 2 + shift
        self.used += 1
        ctypes.memmove(address, contents, len(contents))
        return int(address)

    def clear(self) -> None:
        _libc.madvise(self.base, STRETCH * STRETCHES, _MADV_DONTNEED)
        self.used = 0


stretches: list[Stretches] = []


class Word:
    """A handle, or a word in the place of one."""

    def __init__(self, word: int) -> None:
        self.word = word


class InStretches(Raw):
    """Writes arguments in C's form, all memory in stretches."""

    room = 8192  # a wrong function may say that a struct is a larger one, which nobody could notice

    def __init__(self, face: HostileC) -> None:
        super().__init__()
        self.face = face
        self.placed: list[tuple[int, Any]] = []

    def address(self, value: Any) -> int:
        if isinstance(value, np.ndarray) and value.flags.c_contiguous:
            place = stretches[0].place(
                value.tobytes(), 4 * (stretches[0].used % 7)
            )  # aligned for float, as data may be
            self.placed.append((place, value))
            return place
        return super().address(value)

    def array(self, values: Any, element: Any) -> int:
        return stretches[0].place(bytes((element * max(len(values), 1))(*values)))

    def argument(self, base: str, value: Any) -> Any:
        if base in HANDLES:
            return value.word if isinstance(value, Word) else None
        if not base.endswith("*") and isinstance(value, int):
            return value  # whatever is left of it
        return super().argument(base, value)


class HostileC:
    """Stands in for ``openbnns.capi``: calls go to the C library with something wrong in them."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.calls = self.refused = 0
        self.handles: list[tuple[str, int]] = []

    def __getattr__(self, name: str) -> Any:
        if name not in PARAMETERS:
            return getattr(capi, name)
        return lambda *arguments: self.call(name, list(arguments))

    def call(self, name: str, arguments: list[Any]) -> Any:
        """One call of the C library."""
        draw, parameters = self.draw, PARAMETERS[name]
        if name in DESTROY.values() and draw.chance(0.7):
            return None
        arguments += [None if t.endswith("*") else 0 for _, t in parameters[len(arguments) :]]
        arguments = [own(value) for value in arguments]
        for k in draw.rng.permutation(len(arguments))[: int(draw.one([0, 1, 1, 2, 3]))]:
            arguments[k] = self.spoiled(parameters[k][1], arguments[k])
        raw = InStretches(self)
        failure = None if RETURNED[name] in "hgn" else -1
        try:
            words = [raw.argument(t, value) for (_, t), value in zip(parameters, arguments, strict=True)]
        except Exception:  # something that no C program has
            return failure
        before = [surroundings(place, memory) for place, memory in raw.placed]
        result = getattr(library(), name)(*words)
        self.calls += 1
        failed = result in (None, 0) if RETURNED[name] in "hgn" else RETURNED[name] == "i" and result < 0
        if failed:
            self.refused += 1
            if not last_error():
                raise Mismatch(f"{name} failed without a message")
            if [surroundings(place, memory) for place, memory in raw.placed] != before:
                raise Mismatch(f"{name} failed, but has written something: {last_error()}")
            return failure
        for place, memory in raw.placed:
            if memory.flags.writeable:
                ctypes.memmove(memory.ctypes.data, place, memory.nbytes)
        if RETURNED[name] in "hgn":
            kind = dict(zip("hgn", HANDLES, strict=True))[RETURNED[name]]
            self.handles.append((kind, result))
            return Word(result)
        return capi.BNNSNDArrayDescriptor() if RETURNED[name] == "d" else result

    def destroy_all(self) -> None:
        for kind, handle in self.handles:
            getattr(library(), DESTROY[kind])(handle)

    # What is changed.

    def spoiled(self, c_type: str, value: Any) -> Any:
        draw = self.draw
        if c_type in HANDLES:
            made = [handle for _, handle in self.handles]
            near = [handle + step for handle in made[-2:] for step in (1, -1, 1 << 24, 1 << 25, 1 << 40)]
            return draw.one([None, value, Word(draw.one([1, 4096, 2**48 - 8, 2**63, 2**64 - 1, *made, *near]))])
        if isinstance(value, (bool, float)):
            return not value if isinstance(value, bool) else draw.one([0.0, -1.0, np.nan, np.inf, -np.inf, 3e38])
        if isinstance(value, int):
            return int(draw.one([*SMALL, max(value - 1, 0), *IMPOSSIBLE]))
        if isinstance(value, capi.Struct):
            return None if draw.chance(0.2) else self.spoiled_field(value)
        if isinstance(value, list) and value and draw.chance(0.9):
            k = int(draw.rng.integers(len(value)))
            return [*value[:k], self.spoiled(c_type, value[k]), *value[k + 1 :]]
        return None

    def spoiled_field(self, struct: Any) -> Any:
        draw = self.draw
        name = draw.one(list(struct._kinds))
        old, new = getattr(struct, name), None
        if isinstance(old, capi.Struct):
            new = self.spoiled_field(old)
        elif isinstance(old, list):
            new, k = old.copy(), int(draw.rng.integers(len(old)))
            if isinstance(new[k], capi.Struct):
                new[k] = self.spoiled_field(new[k])
            elif isinstance(new[k], int):
                new[k] = int(draw.one([*SMALL, max(new[k] - 1, 0), *IMPOSSIBLE]))
        elif name == "layout" or name.endswith("data_type"):
            named = capi.BNNSDataLayout if name == "layout" else capi.BNNSDataType
            new = int(draw.one([*named, 0, 7, 2**31, 2**32 - 1]))
        elif isinstance(old, float):
            new = float(draw.one([0.0, -1.0, np.nan, np.inf, 1e-38, 3e38]))
        elif isinstance(old, int):
            new = int(draw.one([*SMALL, 31, 255, 2**31, 2**32 - 1, *IMPOSSIBLE]))
        with contextlib.suppress(TypeError, ValueError):  # not in the range of its C type
            setattr(struct, name, new)
        return struct


def own(value: Any) -> Any:
    """A copy of structs, so that a case may use them again."""
    if isinstance(value, capi.Struct):
        return as_c_floats(value.copy())
    return [own(each) for each in value] if isinstance(value, list) else value


def surroundings(place: int, memory: Any) -> bytes:
    return ctypes.string_at(place - AROUND, memory.nbytes + 2 * AROUND)


def hostile_c(draw: Draw) -> Case:
    """A case of any family through the C library, with wrong words."""
    family = draw.one(list(hostile.ORDERLY.values()))

    def run(out: Outcome) -> None:
        if not stretches:
            stretches.append(Stretches())
        title, call = family(draw)
        face = HostileC(draw)
        calls.behind = face
        try:
            call(out)
        except Mismatch as error:
            raise Mismatch(f"{error}\n  {title}") from None
        finally:
            calls.behind = capi
            face.destroy_all()
            stretches[0].clear()
        out.statuses += [True] * (face.calls - face.refused) + [False] * face.refused

    return "hostile_c", run
