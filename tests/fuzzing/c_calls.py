"""Hostile calls of the C library: orderly cases of every family with a few words wrong. Nothing may crash.

A C program's memory has no size that the library could know. In half of the cases every buffer is as large as the orderly
case describes it, with no memory behind it, and what is made wrong describes no larger ones. In the other half buffers lie in
the middle of much memory: numbers are changed to small ones, whose buffers fit there, or to some that no memory could hold,
and those calls have to be refused. A call that fails has a message, and has written nothing; one that succeeds has written
nothing beside its exact buffers.
"""

from __future__ import annotations

import contextlib
import ctypes
from functools import cache
from typing import Any

import numpy as np

from c_face import DESTROY, HANDLES, PARAMETERS, RETURNED, Raw, as_c_floats, c_type, is_enum, last_error, library
from openbnns import capi
from openbnns.clib.layouts import STRUCTS

from . import hostile
from .c_memory import Exact, Memory, Wide
from .core import Case, Draw, Mismatch, Outcome, calls

SMALL = (0, 1, 2, 3, 5, 7, 9)
IMPOSSIBLE = (2**47, 2**48 + 1, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1)
NO_MEMBERS = (7777, 2**31, 2**32 - 1)  # of any enum
CLAIMS = ("backprop_cache_size", "training_cache_capacity", "workspace_size", "state_size")  # of a buffer's size
# What decides how many accumulators an optimizer step reads, which its caller states nowhere else.
DECIDING = ("function", "OptimizerAlgFields")
# Numbers of an LSTM by which it chooses what its weights are, which may then be larger though the number is smaller.
CHOOSING = ("input_size", "hidden_size", "lstm_flags")
PACKED = [layout for layout in capi.BNNSDataLayout if not layout.name.endswith(("Pack32", "Sparse"))]


@cache
def memory_of_cases(kind: type[Memory]) -> Memory:
    """Made once."""
    return kind()


class Word:
    """A handle, or a word in the place of one."""

    def __init__(self, word: int) -> None:
        self.word = word


class InMemory(Raw):
    """A writer of arguments in C's form, all of them into the memory of a case."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self.memory = memory
        if isinstance(memory, Wide):
            self.room = 8192  # a wrong function may say that a struct is a larger one, which could not be noticed
        self.placed: list[tuple[int, Any]] = []

    def address(self, value: Any) -> int:
        if isinstance(value, np.ndarray) and value.flags.c_contiguous:
            place = self.memory.put(value.tobytes())
            self.placed.append((place, value))
            return place
        return super().address(value)

    def put(self, memory: Any) -> int:
        return self.memory.put(bytes(memory), alignment=8)  # as compilers do it

    def argument(self, base: str, value: Any) -> Any:
        if base in HANDLES:
            return value.word if isinstance(value, Word) else None
        if not base.endswith("*") and isinstance(value, int):
            return value  # whatever is left of it
        return super().argument(base, value)

    def contents(self) -> list[bytes]:
        """Contents of all buffers and of the memory around them."""
        return [ctypes.string_at(place, memory.nbytes) for place, memory in self.placed] + self.surroundings()

    def surroundings(self) -> list[bytes]:
        """The memory around all buffers."""
        return [side for place, memory in self.placed for side in self.memory.surroundings(place, memory.nbytes)]


class HostileC:
    """A stand-in for ``openbnns.capi``: calls go to the C library with something wrong in them."""

    def __init__(self, draw: Draw, memory: Memory) -> None:
        self.draw, self.memory = draw, memory
        self.exact = isinstance(memory, Exact)
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
        if not (self.exact and name.endswith(("Size", "Capacity"))):  # whose answer says how large a buffer has to be
            for k in draw.rng.permutation(len(arguments))[: int(draw.one([0, 1, 1, 2, 3]))]:
                name_of_argument, base = parameters[k]
                if self.exact and name == "BNNSOptimizerStep" and name_of_argument in DECIDING:
                    continue
                if self.exact and name_of_argument in CLAIMS:
                    arguments[k] = 0
                else:
                    arguments[k] = self.spoiled(base, arguments[k])
        raw = InMemory(self.memory)
        failure = None if RETURNED[name] in "hgn" else -1
        try:
            words = [raw.argument(t, value) for (_, t), value in zip(parameters, arguments, strict=True)]
        except Exception:  # something that no C program has
            return failure
        before, around = raw.contents(), raw.surroundings()
        result = getattr(library(), name)(*words)
        self.calls += 1
        failed = result in (None, 0) if RETURNED[name] in "hgn" else RETURNED[name] == "i" and result < 0
        if failed:
            self.refused += 1
            if not last_error():
                raise Mismatch(f"{name} failed without a message")
            if raw.contents() != before:
                raise Mismatch(f"{name} failed, but has written something: {last_error()}")
            return failure
        if self.exact and raw.surroundings() != around:
            raise Mismatch(f"{name} has written beside a buffer")
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

    # What is changed. Where memory is exact, nothing describes more of it than before.

    def spoiled(self, base: str, value: Any) -> Any:
        draw = self.draw
        if base in HANDLES:
            made = [handle for _, handle in self.handles]
            near = [handle + step for handle in made[-2:] for step in (1, -1, 1 << 24, 1 << 25, 1 << 40)]
            return draw.one([None, value, Word(draw.one([1, 4096, 2**48 - 8, 2**63, 2**64 - 1, *made, *near]))])
        if isinstance(value, (bool, float)):
            return not value if isinstance(value, bool) else draw.one([0.0, -1.0, np.nan, np.inf, -np.inf, 3e38])
        if isinstance(value, int):
            return self.number(base.rstrip("*"), value)
        if isinstance(value, capi.Struct):
            return None if draw.chance(0.2) else self.spoiled_field(value)
        if isinstance(value, list) and value and draw.chance(0.9):
            k = int(draw.rng.integers(len(value)))
            return [*value[:k], self.spoiled(base, value[k]), *value[k + 1 :]]
        return None

    def number(self, base: str, old: int) -> int:
        if is_enum(base) and self.exact:
            return int(self.draw.one(NO_MEMBERS))
        wrong = [*SMALL, max(old - 1, 0), *([31, 255] if is_enum(base) else []), *IMPOSSIBLE]
        if self.exact:
            wrong = [n for n in wrong if not old < whole(base, n) < 2**31]
        return int(self.draw.one(wrong))

    def spoiled_field(self, struct: Any) -> Any:
        draw = self.draw
        name, base, _, _ = draw.one(STRUCTS[type(struct).__name__][1])
        old, new = getattr(struct, name), None
        if isinstance(old, capi.Struct):
            new = self.spoiled_field(old)
        elif isinstance(old, list):
            new, k = old.copy(), int(draw.rng.integers(len(old)))
            if isinstance(new[k], capi.Struct):
                new[k] = self.spoiled_field(new[k])
            elif isinstance(new[k], int):
                new[k] = self.number(base, new[k])
        elif name == "layout":
            new = self.layout(struct)
        elif name.endswith("data_type"):
            width = int(old) & 0xFF if self.exact else 0xFF
            new = int(draw.one([*(t for t in capi.BNNSDataType if int(t) & 0xFF <= width), 7, *NO_MEMBERS]))
        elif isinstance(old, float):
            new = float(draw.one([0.0, -1.0, np.nan, np.inf, 1e-38, 3e38]))
        elif isinstance(old, int):
            new = 2**31 if self.exact and name in CHOOSING else self.number(base, old)
        with contextlib.suppress(TypeError, ValueError):  # not in the range of its C type
            setattr(struct, name, new)
        return struct

    def layout(self, descriptor: Any) -> int:
        """Another one; where memory is exact, of no more axes, and none that rounds sizes up or gives strides to others."""
        layouts = list(capi.BNNSDataLayout)
        if self.exact:
            rank = 0 if any(descriptor.stride) else descriptor.layout >> 16
            layouts = [layout for layout in PACKED if layout >> 16 <= rank]
        return int(self.draw.one([*layouts, 0, *NO_MEMBERS]))


def whole(base: str, number: int) -> int:
    """A number as its type holds it, without a sign."""
    return number & ((1 << 8 * ctypes.sizeof(c_type(base))) - 1)


def own(value: Any) -> Any:
    """A copy of structs, so that a case may use them again."""
    if isinstance(value, capi.Struct):
        return as_c_floats(value.copy())
    return [own(each) for each in value] if isinstance(value, list) else value


def hostile_c(draw: Draw) -> Case:
    """A case of any family through the C library, with wrong words."""
    family = draw.one(list(hostile.ORDERLY.values()))
    kind = draw.one([Wide, Exact])

    def run(out: Outcome) -> None:
        memory = memory_of_cases(kind)
        title, call = family(draw)
        face = HostileC(draw, memory)
        calls.behind = face
        try:
            call(out)
        except Mismatch as error:
            raise Mismatch(f"{error}\n  {title}") from None
        finally:
            calls.behind = capi
            face.destroy_all()
            memory.clear()
        out.statuses += [True] * (face.calls - face.refused) + [False] * face.refused

    return "hostile_c", run
