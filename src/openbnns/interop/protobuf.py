"""Messages in the wire format of protocol buffers, read and written without a schema, any length checked before it is used."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np

from ..files.safetensors import DamagedFile
from ..graph.tensor import Array

_MOST_FIELDS = 2**20


class Message:
    """The fields of a message by number. ``who`` names the message in errors."""

    def __init__(self, data: memoryview, who: str) -> None:
        self.data, self.who = data, who
        self.fields: dict[int, list[int | memoryview]] = {}
        place, end, count = 0, len(data), 0
        while place < end:
            if count == _MOST_FIELDS:  # two bytes of a file would take a hundred of memory each
                raise self.damage(f"it has more than {_MOST_FIELDS} fields")
            count += 1
            key, place = (data[place], place + 1) if data[place] < 128 else self._varint(place)
            number, kind = key >> 3, key & 7
            value: int | memoryview
            if kind in (0, 2):  # most of them, and most of those have one byte
                size, place = (data[place], place + 1) if place < end and data[place] < 128 else self._varint(place)
            elif kind in (1, 5):
                size = 8 if kind == 1 else 4
            else:
                raise self.damage(f"field {number} has wire type {kind}")
            if kind == 0:
                value = size
            else:
                if number == 0 or size > end - place:
                    raise self.damage(
                        f"field {number} of {size} bytes does not fit into the {end - place} that are left"
                    )
                value = data[place : place + size]
                place += size
            if number in self.fields:
                self.fields[number].append(value)
            else:
                self.fields[number] = [value]

    def _varint(self, place: int) -> tuple[int, int]:
        value = 0
        for i in range(10):
            if place + i >= len(self.data):
                raise self.damage("it ends inside a number")
            byte = self.data[place + i]
            value |= (byte & 127) << (7 * i)
            if byte < 128:
                return value & (2**64 - 1), place + i + 1
        raise self.damage("a number has more than ten bytes")

    def damage(self, what: str) -> DamagedFile:
        return DamagedFile(f"{self.who}: {what}. The file is damaged, or of another kind.")

    def has(self, number: int) -> bool:
        return number in self.fields

    def integer(self, number: int, default: int = 0) -> int:
        value = self.fields.get(number, [default])[-1]
        if not isinstance(value, int):
            raise self.damage(f"field {number} is not a number")
        return value

    def integers(self, number: int) -> list[int]:
        """Repeated numbers, packed or one by one."""
        numbers: list[int] = []
        for value in self.fields.get(number, []):
            if isinstance(value, int):
                numbers.append(value)
                continue
            packed, place = Message.__new__(Message), 0
            packed.data, packed.who = value, self.who
            while place < len(value):
                entry, place = packed._varint(place)
                numbers.append(entry)
        return numbers

    def number(self, number: int, default: float = 0.0) -> float:
        """A float or a double."""
        value = self.fields.get(number, [None])[-1]
        if value is None:
            return default
        if isinstance(value, int) or len(value) not in (4, 8):
            raise self.damage(f"field {number} is not a float")
        return float(struct.unpack("<f" if len(value) == 4 else "<d", value)[0])

    def text(self, number: int) -> str:
        return (self.texts(number) or [""])[-1]

    def texts(self, number: int) -> list[str]:
        try:
            return [bytes(value).decode() for value in self.fields.get(number, []) if not isinstance(value, int)]
        except UnicodeDecodeError:
            raise self.damage(f"field {number} is not text") from None

    def message(self, number: int, what: str = "") -> Message:
        """A message inside this one; an empty one if there is none."""
        return ([Message(memoryview(b""), self.who), *self.messages(number, what)])[-1]

    def messages(self, number: int, what: str = "") -> list[Message]:
        listed = []
        for value in self.fields.get(number, []):
            if isinstance(value, int):
                raise self.damage(f"field {number} is not a message")
            listed.append(Message(value, f"{self.who}: {what}" if what else self.who))
        return listed

    def floats(self, number: int) -> Array:
        """Repeated floats, packed or one by one."""
        pieces = self.fields.get(number, [])
        if any(isinstance(value, int) or len(value) % 4 for value in pieces):
            raise self.damage(f"field {number} holds no floats")
        data = b"".join(bytes(value) for value in pieces if not isinstance(value, int))
        return np.frombuffer(data, "<f4").astype(np.float32)

    def data_of(self, number: int) -> memoryview:
        """The bytes of a field; none if there is no such field."""
        value = self.fields.get(number, [memoryview(b"")])[-1]
        if isinstance(value, int):
            raise self.damage(f"field {number} is not a sequence of bytes")
        return value

    def signed(self, number: int, default: int = 0) -> int:
        """A number that may be negative."""
        return _signed(self.integer(number, default))

    def signed_integers(self, number: int) -> list[int]:
        """Repeated numbers that may be negative."""
        return [_signed(value) for value in self.integers(number)]


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


Field = tuple[int, "int | float | str | bytes | memoryview"]
"""A field to be written: its number and value; messages inside of it are bytes."""


def varint(value: int) -> bytes:
    """A number in as few bytes as it needs, ten if it is negative."""
    value &= 2**64 - 1
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode(fields: Iterable[Field]) -> bytes:
    """The bytes of a message: ``int`` and ``bool`` as varint, ``float`` in four bytes, all else with its length in front."""
    pieces: list[bytes | memoryview] = []
    for number, value in fields:
        if isinstance(value, int):
            pieces += varint(number << 3), varint(value)
        elif isinstance(value, float):
            pieces += varint(number << 3 | 5), struct.pack("<f", value)
        else:
            data = value.encode() if isinstance(value, str) else value
            pieces += varint(number << 3 | 2), varint(len(data)), data
    return b"".join(pieces)
