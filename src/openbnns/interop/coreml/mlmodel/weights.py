"""Numbers of layers: of single or half precision, or quantized to a few bits."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....graph.tensor import Array
from ...protobuf import Message


def numbers_of(message: Message, number: int, shape: Sequence[int]) -> Array:
    """The numbers in a field of a layer as an array of this shape; channels of quantized ones are its first axis."""
    given, count = message.message(number, "weights"), math.prod(shape)
    if given.message(40).integer(1):  # the bits of each; a message about none may be left behind
        return _dequantized(given, tuple(shape))
    if given.has(31):
        raise given.damage("it has numbers of 8 bits without their scale")
    array = given.floats(1)
    if not array.size and given.has(2):
        halves = given.data_of(2)
        if len(halves) % 2:
            raise given.damage("it holds no numbers of half precision")
        array = np.frombuffer(bytes(halves), "<f2").astype(np.float32)
    if array.size != count:
        raise given.damage(f"there are {array.size} numbers, but {shape} are {count}")
    return array.reshape(shape)


def _dequantized(given: Message, shape: tuple[int, ...]) -> Array:
    rules = given.message(40, "quantization")
    bits, count = rules.integer(1), math.prod(shape)
    data = given.data_of(30)
    if not 1 <= bits <= 8 or len(data) < -(-bits * count // 8):
        raise given.damage(f"there are {len(data)} bytes for {count} numbers of {bits} bits")
    steps = _unpacked(np.frombuffer(bytes(data), np.uint8), bits, count)
    if rules.has(102):
        table = rules.message(102, "table").floats(1)
        if table.size != 2**bits:
            raise given.damage(f"a table has {table.size} numbers, but {2**bits} are needed")
        return table[steps].reshape(shape)
    linear = rules.message(101, "scales")
    scale, offset = linear.floats(1), linear.floats(2)
    offset = offset if offset.size else np.zeros(1, np.float32)
    rows = shape[0] if shape else 1
    if scale.size not in (1, rows) or offset.size not in (1, rows):
        raise given.damage(f"there are {scale.size} scales and {offset.size} offsets for {rows} rows")
    table = steps.reshape(rows, -1).astype(np.float32) * scale.reshape(-1, 1) + offset.reshape(-1, 1)
    return table.reshape(shape)


def _unpacked(data: Array, bits: int, count: int) -> Array:
    """Numbers of a few bits, the highest bits of a byte first."""
    if bits == 8:
        return data[:count]
    rows = np.unpackbits(data)[: count * bits].reshape(count, bits).astype(np.int64)
    return rows @ (1 << np.arange(bits - 1, -1, -1))
