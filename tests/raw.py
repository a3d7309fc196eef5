"""C calls as a C program makes them: words in memory, no Python objects. See core/bindings/raw.h."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from openbnns import capi, engines
from openbnns.capi import numbers

NDArrayDescriptor = capi.BNNSNDArrayDescriptor


class Word(ctypes.Union):
    _fields_ = (("pointer", ctypes.c_void_p), ("number", ctypes.c_uint64), ("real", ctypes.c_double))


class CDescriptor(ctypes.Structure):
    """BNNSNDArrayDescriptor in Apple's layout."""

    _fields_ = (
        ("flags", ctypes.c_uint32), ("layout", ctypes.c_uint32), ("size", ctypes.c_size_t * 8),
        ("stride", ctypes.c_size_t * 8), ("data", ctypes.c_void_p), ("data_type", ctypes.c_uint32),
        ("table_data", ctypes.c_void_p), ("table_data_type", ctypes.c_uint32), ("data_scale", ctypes.c_float),
        ("data_bias", ctypes.c_float),
    )  # fmt: skip


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
        if isinstance(value, NDArrayDescriptor):
            value = CDescriptor(
                int(value.flags), int(value.layout), tuple(value.size), tuple(value.stride), self._address(value.data),
                int(value.data_type), self._address(value.table_data), int(value.table_data_type), value.data_scale,
                value.data_bias,
            )  # fmt: skip
        elif isinstance(value, (list, tuple)):
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
