"""Messages in the wire format of protocol buffers, read without a schema, any length checked before it is used."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from ._value import Array
from .weights import DamagedFile


class Message:
    """The fields of a message by number. ``who`` says in errors what it is."""

    def __init__(self, data: memoryview, who: str) -> None:
        self.data, self.who = data, who
        self.fields: dict[int, list[int | memoryview]] = {}
        for number, value in self._read():
            self.fields.setdefault(number, []).append(value)

    def _read(self) -> Iterator[tuple[int, int | memoryview]]:
        place, end = 0, len(self.data)
        while place < end:
            key, place = self._varint(place)
            number, kind = key >> 3, key & 7
            if kind == 0:
                value, place = self._varint(place)
                yield number, value
                continue
            size = 8 if kind == 1 else 4
            if kind == 2:
                size, place = self._varint(place)
            elif kind not in (1, 5):
                raise self.damage(f"field {number} has wire type {kind}")
            if number == 0 or size > end - place:
                raise self.damage(f"field {number} of {size} bytes does not fit into the {end - place} that are left")
            yield number, self.data[place : place + size]
            place += size

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
            raise self.damage(f"field {number} is no number")
        return value

    def integers(self, number: int) -> list[int]:
        """Repeated numbers, packed or one by one."""
        found: list[int] = []
        for value in self.fields.get(number, []):
            if isinstance(value, int):
                found.append(value)
                continue
            packed, place = Message.__new__(Message), 0
            packed.data, packed.who = value, self.who
            while place < len(value):
                entry, place = packed._varint(place)
                found.append(entry)
        return found

    def number(self, number: int, default: float = 0.0) -> float:
        """A float."""
        value = self.fields.get(number, [None])[-1]
        if value is None:
            return default
        if isinstance(value, int) or len(value) != 4:
            raise self.damage(f"field {number} is no float")
        return float(struct.unpack("<f", value)[0])

    def text(self, number: int) -> str:
        return (self.texts(number) or [""])[-1]

    def texts(self, number: int) -> list[str]:
        try:
            return [bytes(value).decode() for value in self.fields.get(number, []) if not isinstance(value, int)]
        except UnicodeDecodeError:
            raise self.damage(f"field {number} is no text") from None

    def message(self, number: int, what: str = "") -> Message:
        """A message inside this one; an empty one if there is none."""
        return ([Message(memoryview(b""), self.who), *self.messages(number, what)])[-1]

    def messages(self, number: int, what: str = "") -> list[Message]:
        found = []
        for value in self.fields.get(number, []):
            if isinstance(value, int):
                raise self.damage(f"field {number} is no message")
            found.append(Message(value, f"{self.who}: {what}" if what else self.who))
        return found

    def floats(self, number: int) -> Array:
        """Repeated floats, packed or one by one."""
        pieces = self.fields.get(number, [])
        if any(isinstance(value, int) or len(value) % 4 for value in pieces):
            raise self.damage(f"field {number} holds no floats")
        data = b"".join(bytes(value) for value in pieces if not isinstance(value, int))
        return np.frombuffer(data, "<f4").astype(np.float32)
