"""The functions of ``openbnns.capi``, each call made twice: in Python, and through the C library on raw structs.

    face = CFace()
    face.BNNSFilterApply(f, x, y)      # as capi.BNNSFilterApply(f, x, y)

Both calls start from the same memory, and must give the same bytes, the same status and the same message. What the C call
wrote stays. A filter is a pair of one made in Python and one behind a handle. Calls that no C program can make (a read-only
buffer, a list that is too short, a plain address) are made in Python alone.
"""

from __future__ import annotations

import ctypes
import inspect
import re
from collections import Counter
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import openbnns
from openbnns import capi
from openbnns.clib.layouts import FUNCTIONS, STRUCTS

LIBRARY = Path(openbnns.__file__).parent / "lib" / "libopenbnns.so"
PARAMETERS = {name: parameters for name, _, parameters in FUNCTIONS}
RETURNED = {name: letter for name, letter, _ in FUNCTIONS}
HANDLES = ("BNNSFilter", "BNNSRandomGenerator", "BNNSNearestNeighbors")
DESTROY = dict(
    zip(HANDLES, ("BNNSFilterDestroy", "BNNSDestroyRandomGenerator", "BNNSDestroyNearestNeighbors"), strict=True)
)

_NUMBERS: dict[str, Any] = {
    "float": ctypes.c_float, "bool": ctypes.c_bool, "uint8_t": ctypes.c_uint8, "int32_t": ctypes.c_int32,
    "int": ctypes.c_int, "unsigned int": ctypes.c_uint, "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64,
    "int64_t": ctypes.c_int64, "size_t": ctypes.c_size_t, "ssize_t": ctypes.c_ssize_t,
}  # fmt: skip
_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_size_t)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# What is said about memory that knows its own size and type, as that of C programs does not.
_PYTHON_ONLY = re.compile(
    r"holds \d+ bytes|read-only|C-contiguous|holds \S+ items|is of type|another machine|has \d+ (entries|entry)|"
    r"must be a|cannot be valid|too large"
)


ONCE = ("BNNSFilterDestroy", "BNNSDestroy", "BNNSNDArray", "BNNSNearestNeighbors")
CACHES = ("backprop_cache", "training_cache_ptr")


class NotInC(Exception):
    """No C program can pass this."""


class Descriptor(ctypes.Structure):
    """As it is returned by value."""

    _fields_ = (("bytes", ctypes.c_uint64 * 22),)


@cache
def library() -> Any:
    """The C library in this interpreter, with the types of its functions declared."""
    lib = ctypes.CDLL(str(LIBRARY))
    lib.openbnns_last_error.restype = ctypes.c_char_p
    lib.openbnns_version.restype = ctypes.c_char_p
    lib.openbnns_set_compat.argtypes = [ctypes.c_char_p]
    returned = {"v": None, "d": Descriptor, "u": ctypes.c_size_t, "i": ctypes.c_ssize_t}
    for name, parameters in PARAMETERS.items():
        function = getattr(lib, name)
        function.argtypes = [c_type(t) for _, t in parameters]
        function.restype = returned.get(RETURNED[name], ctypes.c_void_p)
        if RETURNED[name] == "i" and name != "BNNSMatMulWorkspaceSize":
            function.restype = ctypes.c_int
    return lib


def c_type(name: str) -> Any:
    """The ctypes type of a parameter; enums are 32 bits wide."""
    if name in HANDLES or name.endswith("*"):
        return ctypes.c_void_p
    return _NUMBERS.get(name, ctypes.c_uint32)


def is_enum(name: str) -> bool:
    """True for enums; the type is not a pointer."""
    return name not in _NUMBERS and name not in HANDLES and not name.endswith("*")


def last_error() -> str | None:
    """The C library's message about the latest call of this thread."""
    text = library().openbnns_last_error()
    return None if text is None else str(text.decode())


class Pair:
    """An object made in Python, and its twin behind a handle of the C library."""

    def __init__(self, python: Any, handle: int, kind: str, memory: list[Any], kept: list[Any]) -> None:
        self.python, self.handle, self.kind, self.memory, self.kept = python, handle, kind, memory, kept
        self.aliases: list[tuple[Any, Any]] = []  # parameters in both twins, which callers may write to

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        return type(self.python)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.python, name)

    def __del__(self) -> None:
        getattr(library(), DESTROY[self.kind])(self.handle)


def is_pair(value: Any) -> bool:
    return type(value) is Pair


def memory_of(value: Any, memory: list[Any]) -> list[Any]:
    """All memory that a value leads to, as arrays of bytes; plain addresses lead nowhere that could be restored."""
    if is_pair(value):
        memory += value.memory
    elif isinstance(value, np.ndarray):
        memory.append(value)
    elif isinstance(value, capi.Struct):
        for name in value._kinds:
            memory_of(getattr(value, name), memory)
    elif isinstance(value, (list, tuple)):
        for each in value:
            memory_of(each, memory)
    elif isinstance(value, (bytearray, memoryview, ctypes.Array, ctypes.c_size_t)):
        memory.append(np.frombuffer(value, np.uint8))
    return memory


def as_c_floats(value: Any) -> Any:
    """The same with floats as C has them, single precision; structs are changed in place."""
    if isinstance(value, float):
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    if isinstance(value, capi.Struct):
        for name in value._kinds:
            old = getattr(value, name)
            if isinstance(old, float):
                setattr(value, name, as_c_floats(old))
            elif isinstance(old, (capi.Struct, list)):
                as_c_floats(old)
    elif isinstance(value, (list, tuple)) and value and isinstance(value[0], capi.Struct):
        for each in value:
            as_c_floats(each)
    return value


class Raw:
    """Arguments of one call in C's form; keeps alive what they point to."""

    room = 0  # bytes that a struct has at least

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def address(self, value: Any) -> int:
        """The address of memory, or of a struct."""
        if value is None:
            return 0
        if isinstance(value, capi.Struct):
            return self.struct(value)
        if isinstance(value, ctypes.c_size_t):
            return ctypes.addressof(value)
        if isinstance(value, str):
            text = ctypes.create_string_buffer(value.encode())
            self.kept.append(text)
            return ctypes.addressof(text)
        if isinstance(value, (bytearray, bytes, memoryview, ctypes.Array)):
            value = np.frombuffer(value, np.uint8)
        if not isinstance(value, np.ndarray) or not value.flags.c_contiguous or not value.flags.writeable:
            raise NotInC
        self.kept.append(value)
        return int(value.ctypes.data)

    def struct(self, value: Any) -> int:
        """A struct as bytes."""
        size, _ = STRUCTS[type(value).__name__]
        memory = (ctypes.c_uint64 * ((max(size, self.room) + 7) // 8))()
        self.fill(ctypes.addressof(memory), value)
        return self.put(memory)

    def put(self, memory: Any) -> int:
        """The address of an array or a struct for as long as this object lives."""
        self.kept.append(memory)
        return ctypes.addressof(memory)

    def fill(self, place: int, value: Any) -> None:
        for name, base, offset, lengths in STRUCTS[type(value).__name__][1]:
            self.field(place + offset, base, lengths, getattr(value, name))

    def field(self, place: int, base: str, lengths: tuple[int, ...], value: Any) -> None:
        if lengths:
            step = STRUCTS[base][0] if base in STRUCTS else ctypes.sizeof(c_type(base))
            for n in lengths[1:]:
                step *= n
            for i, entry in enumerate(value):
                self.field(place + i * step, base, lengths[1:], entry)
        elif base in STRUCTS:
            self.fill(place, value)
        elif base in ("BNNSAlloc", "BNNSFree"):
            ctypes.c_void_p.from_address(place).value = self.callback(
                value, _ALLOCATE if base == "BNNSAlloc" else _FREE
            )
        elif base.endswith("*"):
            ctypes.c_void_p.from_address(place).value = self.address(value)
        else:
            c_type(base).from_address(place).value = value

    def callback(self, value: Any, prototype: Any) -> int:
        if value is None:
            return 0
        function = value if isinstance(value, ctypes._CFuncPtr) else prototype(value)
        self.kept.append(function)
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def array(self, values: Any, element: Any) -> int:
        return self.put((element * max(len(values), 1))(*values))

    def argument(self, base: str, value: Any) -> Any:
        """The argument that ctypes takes for a parameter of this type."""
        if base in HANDLES:
            if value is not None and not is_pair(value):
                raise NotInC
            return None if value is None else value.handle
        if not base.endswith("*"):
            c = c_type(base)
            number = value if isinstance(value, float) else value.__index__()
            if c not in (ctypes.c_bool, ctypes.c_float) and c(number).value != number:
                raise NotInC
            return number
        if value is None:
            return None
        if base.endswith("**"):
            return self.array([self.address(each) for each in value], ctypes.c_void_p)
        if base == "BNNSFilterType*":
            return self.array([int(each) for each in value], ctypes.c_uint32)
        if base == "size_t*" and isinstance(value, (list, tuple)):
            if not all(0 <= int(each) < 1 << 64 for each in value):
                raise NotInC
            return self.array([int(each) for each in value], ctypes.c_size_t)
        return self.address(value)


class CFace:
    """A stand-in for ``openbnns.capi``."""

    def __init__(self, turns: int = 1) -> None:
        """``turns``: how often each call is made; from the second time on it may be known to native code."""
        self.turns = turns
        self.made: Counter[str] = Counter()
        """Calls of each function that were made through C."""
        self.left_out: Counter[str] = Counter()
        """How often it could only be called in Python."""
        self.twins: dict[int, tuple[Any, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        real = getattr(capi, name)
        return partial(self.both, name, real) if name in PARAMETERS else real

    def both(self, name: str, real: Any, *given: Any, **named: Any) -> Any:
        """Make a call in Python and through C, several times if that can be."""
        for _ in range(self.turns - 1 if RETURNED[name] in "iv" and not name.startswith(ONCE) else 0):
            memory = [m for m in memory_of([*given, *named.values()], []) if m.flags.writeable]
            before = [m.copy() for m in memory]
            self.once(name, real, *given, **named)
            for place, contents in zip(memory, before, strict=True):
                place[...] = contents
        return self.once(name, real, *given, **named)

    def once(self, name: str, real: Any, *given: Any, **named: Any) -> Any:
        arguments = list(given)
        if named:
            bound = inspect.signature(real).bind(*given, **named)
            bound.apply_defaults()
            arguments = list(bound.arguments.values())
        parameters = PARAMETERS[name]
        arguments += [None if t.endswith("*") else 0 for _, t in parameters[len(arguments) :]]
        arguments = [as_c_floats(value) for value in arguments]
        in_python = [value.python if is_pair(value) else value for value in arguments]
        raw, words = Raw(), None
        try:
            if self.short_list(parameters, arguments):
                raise NotInC
            words = [
                raw.argument(t, self.twin(value) if parameter in CACHES else value)
                for (parameter, t), value in zip(parameters, arguments, strict=True)
            ]
        except (NotInC, AttributeError, TypeError, ValueError):
            pass
        caches = [value for (parameter, _), value in zip(parameters, arguments, strict=True) if parameter in CACHES]
        others = [value for value in arguments if all(value is not cache for cache in caches)]
        memory = [m for m in memory_of(others, []) if m.flags.writeable]
        before = [m.copy() for m in memory]
        result = real(*in_python)
        message = openbnns.last_error()
        if words is None or (message is not None and _PYTHON_ONLY.search(message)):
            self.left_out[name] += 1
            return result
        after = [m.tobytes() for m in memory]
        for place, contents in zip(memory, before, strict=True):
            place[...] = contents
        for value in arguments:
            if is_pair(value):
                for mine, twin in value.aliases:
                    twin[...] = mine
        in_c = getattr(library(), name)(*words)
        self.made[name] += 1
        assert [m.tobytes() for m in memory] == after, f"{name}: memory differs from what Python wrote"
        if not name.startswith("BNNSDestroy") and name != "BNNSFilterDestroy":
            assert last_error() == message, name
        return self.result(name, arguments, words, raw, result, in_c, memory)

    def twin(self, cache: Any) -> Any:
        """The C call's own memory for what a forward call keeps: it bears the mark of the filter that wrote it."""
        if not isinstance(cache, np.ndarray) or not cache.flags.c_contiguous or not cache.flags.writeable:
            return cache
        if id(cache) not in self.twins:
            self.twins[id(cache)] = (cache, cache.copy())
        return self.twins[id(cache)][1]

    @staticmethod
    def short_list(parameters: list[tuple[str, str]], arguments: list[Any]) -> bool:
        """True if a list has another length than the call says."""
        names = [parameter for parameter, _ in parameters]
        for count in ("number_of_inputs", "number_of_parameters", "number_of_fused_filters", "count"):
            if count in names:
                n = arguments[names.index(count)]
                for (name, t), value in zip(parameters, arguments, strict=True):
                    listed = isinstance(value, (list, tuple)) and name not in ("accumulators", "delta_parameters")
                    if listed and len(value) != n and (t.endswith("**") or t in ("size_t*", "BNNSFilterType*")):
                        return True
        return False

    def result(
        self, name: str, arguments: list[Any], words: list[Any], raw: Raw, result: Any, in_c: Any, memory: list[Any]
    ) -> Any:
        """Compare results, and give that of both."""
        kind = RETURNED[name]
        if kind in "hgn":
            assert (result is None) == (in_c is None), name
            handle = dict(zip("hgn", HANDLES, strict=True))[kind]
            return None if result is None else Pair(result, in_c, handle, memory, raw.kept)
        if kind == "d":
            self.compare_pointer(arguments[0], result, in_c)
        elif "Sparsify" in name:
            assert result == in_c
            if result == 0:
                self.compare_packed(arguments, words)
        elif kind != "v":
            assert result == in_c, name
        return result

    @staticmethod
    def compare_pointer(pair: Any, result: Any, in_c: Any) -> None:
        raw = Raw()
        expected = (ctypes.c_uint64 * 22).from_address(raw.struct(result))
        address = in_c.bytes[17]
        assert [*expected][:17] == [*in_c.bytes][:17]
        assert [*expected][18:] == [*in_c.bytes][18:]
        assert (address == 0) == (result.data is None)
        if address:
            twin = np.ctypeslib.as_array((ctypes.c_float * result.data.size).from_address(address))
            np.testing.assert_array_equal(result.data.reshape(-1), twin)
            pair.aliases.append((result.data.reshape(-1), twin))

    @staticmethod
    def compare_packed(arguments: list[Any], words: list[Any]) -> None:
        """A descriptor that was filled in: all the same, in memory that the caller frees."""
        position = next(
            i for i, w in enumerate(arguments) if isinstance(w, capi.BNNSNDArrayDescriptor) and w.layout == 135169
        )
        out, raw = arguments[position], Raw()
        filled = (ctypes.c_uint64 * 22).from_address(words[position])
        expected = (ctypes.c_uint64 * 22).from_address(raw.struct(out))
        assert [*expected][:17] == [*filled][:17]
        assert [*expected][18:] == [*filled][18:]
        if filled[17] != expected[17]:  # allocated
            data = ctypes.string_at(filled[17], out.data.nbytes)
            assert data == out.data.tobytes()
            free = ctypes.CDLL(None).free
            free.argtypes = [ctypes.c_void_p]
            free(filled[17])
