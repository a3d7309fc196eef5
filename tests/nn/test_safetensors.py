"""The rules of the safetensors format, and the same verdicts as the package of that name."""

from __future__ import annotations

import json
import random
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damaged_files import mutated
from openbnns.files import safetensors as weights
from openbnns.files.safetensors import DamagedFile

ENTRY: dict[str, Any] = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def file_of(header: Any, body: bytes = bytes(8)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


@pytest.mark.parametrize(
    ("header", "body", "message"),
    [
        ({"a": ENTRY, "b": ENTRY}, bytes(8), "b: begins at byte 0 instead of 8, which overlaps the array before it"),
        ({"a": {**ENTRY, "data_offsets": [1, 9]}}, bytes(9), "a: begins at byte 1 instead of 0, which leaves a hole"),
        ({"a": ENTRY}, bytes(9), "the arrays take 8 bytes, but 9 follow the header"),
        ({"a": ENTRY}, bytes(7), "the arrays take 8 bytes, but 7 follow the header"),
        ({"a": {**ENTRY, "shape": [3]}}, bytes(8), r"a: 8 bytes from 0 on do not hold F32 of shape \(3,\)"),
        ({"a": {**ENTRY, "dtype": "F64"}}, bytes(8), "do not hold F64"),
        ({"a": {**ENTRY, "dtype": "F33"}}, bytes(8), "element type 'F33' is not known"),
        ({"a": {**ENTRY, "shape": [2.0]}}, bytes(8), "a: its entry in the header is incomplete"),
        ({"a": {**ENTRY, "shape": [True, 2]}}, bytes(8), "incomplete"),
        ({"a": {**ENTRY, "shape": [-2]}}, bytes(8), "incomplete"),
        ({"a": {**ENTRY, "shape": "2"}}, bytes(8), "incomplete"),
        ({"a": {**ENTRY, "data_offsets": [0, 8, 9]}}, bytes(8), "incomplete"),
        ({"a": {**ENTRY, "data_offsets": [8, 0]}}, bytes(8), "do not hold"),
        ({"a": {**ENTRY, "shape": [1] * 100 + [2]}}, bytes(8), "a: has rank 101, but an array has at most"),
        ({"a": {**ENTRY, "shape": [2**62, 2**62, 0], "data_offsets": [0, 0]}}, b"", "no array can have shape"),
        ({"a": [1]}, bytes(8), "incomplete"),
        ({"__metadata__": [], "a": ENTRY}, bytes(8), "__metadata__ is not a table of texts"),
        ({"__metadata__": {"a": 1}, "a": ENTRY}, bytes(8), "__metadata__ is not a table of texts"),
        ([1], b"", "does not begin with a brace"),
        (b'{"a": {"dtype": "F32", "shape": [Infinity], "data_offsets": [0, 8]}}', bytes(8), "Infinity is not JSON"),
        (b'{"a": {"dtype": "F32", "shape": [1e999], "data_offsets": [0, 8]}}', bytes(8), "1e999 is not JSON"),
        (b' {"a": 1}', b"", "does not begin with a brace"),
        (b'{"a": 1, "a": 1}', b"", "the same name twice"),
        (b'{"a": ' + b"[" * 100_000, b"", "nested too deeply|cannot be read"),
        (b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}", b"", "nested more than 127 deep"),
        (b'{"\\ud800": 1}', b"", "surrogates not allowed"),
        (b'{"\xff": 1}', b"", "can't decode"),
    ],
)
def test_rules(header: Any, body: bytes, message: str) -> None:
    with pytest.raises(DamagedFile, match=message):
        weights.decode(file_of(header, body))


def test_a_header_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with path.open("wb") as file:  # a file with a hole: no disk is used
        file.write(struct.pack("<Q", 100_000_001))
        file.truncate(200_000_000)
    with pytest.raises(DamagedFile, match="100000000 are the most that is allowed"):
        weights.load(path)


def test_memory_is_bounded_by_the_size_of_the_file(tmp_path: Path) -> None:
    """Three hundred arrays on the same megabyte."""
    entry = {"dtype": "U8", "shape": [2**20], "data_offsets": [0, 2**20]}
    path = tmp_path / "a.safetensors"
    path.write_bytes(file_of({f"a{i}": entry for i in range(300)}, bytes(2**20)))
    tracemalloc.start()
    with pytest.raises(DamagedFile, match="overlaps the array before it"):
        weights.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**21


def test_what_is_allowed(tmp_path: Path) -> None:
    empty = {"dtype": "F32", "shape": [0, 3], "data_offsets": [8, 8]}
    header = {"__metadata__": {"a": "b"}, "e": empty, "a": {**ENTRY, "more": [{"x": 1.5}]}}
    arrays, metadata = weights.decode(file_of(header, np.float32([1, 2]).tobytes()))
    assert arrays["a"].tolist() == [1, 2] and arrays["e"].shape == (0, 3) and metadata == {"a": "b"}
    arrays, _ = weights.decode(file_of({"b": {"dtype": "BOOL", "shape": [3], "data_offsets": [0, 3]}}, b"\0\1\5"))
    assert arrays["b"].tolist() == [False, True, True] and arrays["b"].view(np.uint8).tolist() == [0, 1, 1]
    every = {
        kind: np.arange(6).reshape(2, 3).astype(kind)
        for kind in ("<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1")
    }
    weights.save(tmp_path / "a.safetensors", {**every, "scalar": np.float32(3), "none": np.zeros((0, 2))})
    read = weights.load(tmp_path / "a.safetensors")
    for name, array in every.items():
        np.testing.assert_array_equal(read[name], array)
        assert read[name].dtype == array.dtype
    assert read["scalar"].shape == () and read["none"].shape == (0, 2)


# The package of the format.


def why_stricter(data: bytes, error: DamagedFile) -> str | None:
    """Where the package takes what we refuse: rules of the format that it does not enforce, and what NumPy cannot hold."""
    told = str(error)
    for reason in (
        "does not begin with a brace",
        "the same name twice",
        "element type",
        "at most",
        "no array can have",
    ):
        if reason in told:
            return reason
    if "its entry in the header is incomplete" in told:
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        entries = [entry for name, entry in header.items() if name != "__metadata__"]
        # Lists in place of tables, which its parser takes by accident.
        if any(isinstance(e, list) or not isinstance(e.get("dtype"), str) for e in entries):
            return "entry"
    return None


@pytest.mark.peers
def test_same_verdicts_as_the_package() -> None:
    import safetensors

    generator = random.Random(5)
    accepted = refused = 0
    reasons: dict[str, int] = {}
    for case in range(2000):
        data = mutated(generator)
        try:
            theirs = dict(safetensors.deserialize(data))
        except safetensors.SafetensorError:
            theirs = None
        try:
            ours = weights.decode(data)[0]
        except DamagedFile as error:
            refused += 1
            if theirs is not None:
                reason = why_stricter(data, error)
                assert reason is not None, f"case {case}: we refuse {data!r}: {error}"
                reasons[reason] = reasons.get(reason, 0) + 1
            continue
        accepted += 1
        assert theirs is not None, f"case {case}: we accept {data!r}"
        assert set(ours) == set(theirs)
        for name, array in ours.items():
            assert list(array.shape) == theirs[name]["shape"]
            if theirs[name]["dtype"] not in ("BF16", "BOOL"):
                assert array.tobytes() == bytes(theirs[name]["data"])
    assert accepted > 200 and refused > 300 and sum(reasons.values()) < 100, (accepted, refused, reasons)
