"""C calls as a C program makes them: words in memory, no Python objects. See core/bindings/raw.h."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from openbnns import capi, engines
from openbnns.capi import numbers


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


class CActivation(ctypes.Structure):
    _fields_ = (
        ("function", ctypes.c_uint32), ("alpha", ctypes.c_float), ("beta", ctypes.c_float), ("unused", ctypes.c_int32 * 3),
        ("per_channel", ctypes.c_void_p * 3),
    )  # fmt: skip


class CStates(ctypes.Structure):
    _fields_ = (("data_desc", CDescriptor), ("hidden_desc", CDescriptor), ("cell_state_desc", CDescriptor))


class CGate(ctypes.Structure):
    _fields_ = (
        ("iw_desc", CDescriptor * 2), ("hw_desc", CDescriptor), ("cw_desc", CDescriptor), ("b_desc", CDescriptor),
        ("activation", CActivation),
    )  # fmt: skip


class CLSTM(ctypes.Structure):
    """BNNSLayerParametersLSTM."""

    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("input_size", "hidden_size", "batch_size", "num_layers", "seq_len")),
        ("dropout", ctypes.c_float), ("lstm_flags", ctypes.c_uint32), ("sequence_descriptor", CDescriptor),
        ("input_descriptor", CStates), ("output_descriptor", CStates),
        *((f"{name}_gate", CGate) for name in ("input", "forget", "candidate", "output")),
        ("hidden_activation", CActivation),
    )  # fmt: skip


class CFilterParameters(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint32), ("n_threads", ctypes.c_size_t), ("alloc_memory", ctypes.c_void_p),
        ("free_memory", ctypes.c_void_p),
    )  # fmt: skip


_STRUCTS: dict[type[Any], type[ctypes.Structure]] = {
    capi.BNNSNDArrayDescriptor: CDescriptor, capi.BNNSLayerParametersLSTM: CLSTM,
    capi.BNNSFilterParameters: CFilterParameters,
}  # fmt: skip


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
        if callable(value):  # a callback that nobody calls
            return id(value)
        if type(value) in _STRUCTS:
            source, value = value, _STRUCTS[type(value)]()
            self._fill(value, source)
        elif isinstance(value, (list, tuple)):
            value = (Word * len(value))(*map(self.word, value))
        else:  # any buffer
            value = (ctypes.c_char * memoryview(value).nbytes).from_buffer(value)
        self._kept.append(value)
        return ctypes.addressof(value)

    def _fill(self, target: ctypes.Structure, source: Any) -> None:
        """Copy the fields that the C struct names."""
        for name, kind in target._fields_:  # type: ignore[misc]
            value = getattr(source, name, None)
            if value is None:
                continue
            if issubclass(kind, ctypes.Structure):
                self._fill(getattr(target, name), value)
            elif issubclass(kind, ctypes.Array) and issubclass(kind._type_, ctypes.Structure):
                for place, item in zip(getattr(target, name), value, strict=True):
                    self._fill(place, item)
            elif issubclass(kind, ctypes.Array):
                getattr(target, name)[:] = [int(number) for number in value]
            elif kind is ctypes.c_void_p:
                setattr(target, name, self._address(value))
            else:
                setattr(target, name, value if kind is ctypes.c_float else int(value))


def call(number: int, *arguments: Any) -> int:
    words = Words(*arguments)
    return int(run(number, words.words, words.count))


def drive(function: str, filter: Any, *arguments: Any) -> int:
    """A function that drives a filter: 0 when done, 1 when it has to take the way through Python."""
    return call(numbers.of_filter(function, filter), *arguments)
