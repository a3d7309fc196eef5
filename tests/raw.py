"""C calls as a C program makes them: words in memory, no Python objects. See core/bindings/raw.h."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

import openbnns as bn
from c_face import Raw
from openbnns import capi, engines
from openbnns.capi import numbers


class Word(ctypes.Union):
    _fields_ = (("pointer", ctypes.c_void_p), ("number", ctypes.c_uint64), ("real", ctypes.c_double))


class _Structs(Raw):
    """Structs as C lays them out; their members may be plain addresses."""

    def address(self, value: Any) -> int:
        return value if isinstance(value, int) else super().address(value)


class _Table(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int),
        ("run", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.POINTER(Word), ctypes.c_size_t)),
    )


def table() -> _Table:
    """The table that C programs find in the capsule."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return _Table.from_address(get(engines._core.raw_calls, b"openbnns._core.raw_calls"))


run = table().run
"""Runs a call by its number, without the interpreter's lock: 0 when done, 1 when declined."""


class Words:
    """Arguments of a C function: numbers, memory, descriptors, lists of those. Keeps what the words point to."""

    def __init__(self, *arguments: Any) -> None:
        self._kept: list[Any] = [arguments]
        self._structs = _Structs()
        self.words = (Word * max(1, len(arguments)))(*map(self.word, arguments))
        self.count = len(arguments)

    def word(self, value: Any) -> Word:
        if isinstance(value, float):
            return Word(real=value)
        if isinstance(value, (int, np.integer)):
            return Word(number=int(value) % 2**64)
        return Word(pointer=self._address(value))

    def _address(self, value: Any) -> int | None:
        if value is None or isinstance(value, int):
            return value
        if isinstance(value, np.ndarray):
            return value.ctypes.data
        if isinstance(value, capi.Struct):
            return self._structs.struct(value)
        if isinstance(value, (list, tuple)):
            value = (Word * len(value))(*map(self.word, value))
        else:  # any buffer
            value = (ctypes.c_char * memoryview(value).nbytes).from_buffer(value)
        self._kept.append(value)
        return ctypes.addressof(value)


def call(number: int, *arguments: Any) -> int:
    words = Words(*arguments)
    return int(run(number, words.words, words.count))


def drive(function: str, filter: Any, *arguments: Any) -> int:
    """A function that drives a filter: 0 when done, 1 when it has to take the way through Python."""
    return call(numbers.of_filter(function, filter), *arguments)


# Arguments of calls.

CODES = {
    "float32": capi.BNNSDataTypeFloat32, "int8": capi.BNNSDataTypeInt8, "int32": capi.BNNSDataTypeInt32,
    "int64": capi.BNNSDataTypeInt64, "bool": capi.BNNSDataTypeBoolean,
}  # fmt: skip


def described(array: Any, address: bool = False, **fields: Any) -> Any:
    """A descriptor of an array, which it holds or knows by its address alone."""
    descriptor = bn.Shape(array.shape).descriptor(CODES[array.dtype.name], array)
    if address:
        descriptor.data = array.ctypes.data
    for name, value in fields.items():
        setattr(descriptor, name, value)
    return descriptor


def floats(rng: np.random.Generator, *size: int) -> Any:
    return rng.normal(size=size).astype(np.float32)
