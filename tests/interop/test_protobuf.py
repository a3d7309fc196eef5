"""Messages in the wire format of protocol buffers: written, read back, and hostile ones."""

from __future__ import annotations

import numpy as np
import pytest

from openbnns.files.safetensors import DamagedFile
from openbnns.interop.protobuf import Message, encode, varint


def read(data: bytes) -> Message:
    return Message(memoryview(data), "file")


def test_numbers_take_as_few_bytes_as_they_need() -> None:
    assert [varint(n) for n in (0, 127, 128, 300)] == [b"\0", b"\x7f", b"\x80\x01", b"\xac\x02"]
    assert varint(-1) == b"\xff" * 9 + b"\x01"


def test_what_was_written_is_read_back() -> None:
    random = np.random.default_rng(3)
    for _ in range(50):
        whole = [int(n) for n in random.integers(-(2**62), 2**62, 5)]
        text, real = "".join(map(chr, random.integers(32, 1000, 9))), float(np.float32(random.standard_normal()))
        inner = encode([(1, text), (2, b"".join(map(varint, whole)))])
        message = read(encode([(1, whole[0]), (300, real), (7, inner), (7, inner), (9, memoryview(b"ab"))]))
        assert message.signed(1) == whole[0]
        assert message.number(300) == real
        assert bytes(message.data_of(9)) == b"ab"
        for entry in message.messages(7):
            assert entry.text(1) == text and entry.signed_integers(2) == whole


def test_a_message_has_a_bounded_number_of_fields() -> None:
    """Two bytes of a file would otherwise take a hundred times as much memory."""
    with pytest.raises(DamagedFile, match="file: it has more than 1048576 fields"):
        read(b"\x0a\x00" * (2**20 + 1))


def test_bytes_are_not_a_number() -> None:
    with pytest.raises(DamagedFile, match="field 1 is not a sequence of bytes"):
        read(encode([(1, 5)])).data_of(1)
