"""Core ML's files of neural networks, field by field."""

from __future__ import annotations

import struct

import numpy as np

RNG = np.random.default_rng(11)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


# The wire format.


def varint(value: int) -> bytes:
    data = b""
    while value > 127:
        data += bytes([value & 127 | 128])
        value >>= 7
    return data + bytes([value])


def f(number: int, *values: int | float | str | bytes) -> bytes:
    """A field with these values, one after the other."""
    data = b""
    for value in values:
        if isinstance(value, int):
            data += varint(number << 3) + varint(value)
        elif isinstance(value, float):
            data += varint(number << 3 | 5) + struct.pack("<f", value)
        else:
            text = value.encode() if isinstance(value, str) else value
            data += varint(number << 3 | 2) + varint(len(text)) + text
    return data


def weights(number: int, array: np.ndarray, half: bool = False) -> bytes:
    return f(number, f(2, array.astype("<f2").tobytes()) if half else f(1, array.astype("<f4").tobytes()))


def layer(name: str, given: str | list[str], kind: int, *fields: bytes) -> bytes:
    names = [given] if isinstance(given, str) else given
    return f(1, f(1, name) + f(2, *names) + f(3, name) + f(kind, b"".join(fields)))
