"""Files that something is wrong with: how tests damage them, and what a reader has to keep to.

A reader gives something, or an error that names the file, within seconds of work and without much memory.
"""

from __future__ import annotations

import io
import json
import random
import resource
import struct
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = 5.0
MEGABYTES = 1024


def damaged(whole: bytes, random: np.random.RandomState) -> bytes:
    """Bytes changed, cut off, left out, or put in."""
    data, way = bytearray(whole), random.randint(4)
    start = random.randint(max(len(data), 1))
    if way == 0:
        for place in random.randint(max(len(data), 1), size=random.randint(1, 9)):
            data[place : place + 1] = bytes([random.randint(256)])
    elif way == 1:
        del data[start:]
    elif way == 2:
        del data[start : start + random.randint(1, 40)]
    else:
        data[start:start] = random.bytes(random.randint(1, 40))
    return bytes(data)


def damaged_archive(whole: bytes, random: np.random.RandomState) -> bytes:
    """A zip archive with a damaged member whose checksum is right, or a damaged archive."""
    if random.randint(4) == 0:
        return damaged(whole, random)
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as before, zipfile.ZipFile(made, "w") as after:
        names = before.namelist()
        chosen = names[random.randint(len(names))]
        for name in names:
            data = before.read(name)
            after.writestr(name, damaged(data, random) if name == chosen else data)
    return made.getvalue()


def read_many(
    path: Path,
    make: Callable[[int], bytes],
    read: Callable[[Path], Any],
    errors: tuple[type[Exception], ...],
    count: int = 1000,
) -> Counter[str]:
    """How many of so many files gave what: ``read``, or which error. Errors of other kinds, or without the file's name, fail."""
    counts = Counter[str]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(count):
        data = make(number)
        path.write_bytes(data)
        began = time.process_time()  # others may keep the machine busy
        try:
            result = _result(path, read, errors)
        except BaseException:
            kept = Path(tempfile.gettempdir()) / f"openbnns_damaged_{number}{path.suffix}"
            kept.write_bytes(data)
            print(f"file {number}, kept as {kept}", file=sys.stderr)
            raise
        seconds = time.process_time() - began
        assert seconds < SECONDS, f"file {number} took {seconds:.1f} s"
        counts[result] += 1
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024  # ru_maxrss counts in kilobytes
    assert grown < MEGABYTES, f"{grown:.0f} MB more"
    return counts


def _result(path: Path, read: Callable[[Path], Any], errors: tuple[type[Exception], ...]) -> str:
    try:
        read(path)
    except errors as error:
        assert path.name in str(error), error
        return type(error).__name__
    return "read"


TOKENS = [
    b"0", b"-0", b"-1", b"1e2", b"1.0", b"8", b"18446744073709551615", b"18446744073709551616", b"9" * 400, b"NaN",
    b"Infinity", b"null", b"true", b'"F32"', b'"F16"', b'"BF16"', b'"F8_E4M3"', b'"C64"', b'"BOOL"', b"[]", b"{}", b"[0,8]",
    b"[8,0]", b"[2,2]", b"[1,1,1,1]", b'"\\ud800"', b'"\\u0041"', b"\xff", b"\0", b"\n", b" ", b",", b":", b"]", b"}", b'"',
    b'"__metadata__":{"x":"y"},', b'"__metadata__":{"x":1},', b'"__metadata__":null,', b'"a":1,', b'"x":[[1]],', b"[" * 130,
]  # fmt: skip


def mutated(generator: random.Random) -> bytes:
    """A valid file, changed at a few places: bytes, tokens, entries, sizes."""
    names = [f"t{i}" for i in range(generator.randint(0, 4))]
    header: dict[str, Any] = {"__metadata__": {"k": "v"}} if generator.random() < 0.3 else {}
    offset = 0
    for name in names:
        kind, width = generator.choice([("F32", 4), ("F16", 2), ("I64", 8), ("U8", 1), ("BF16", 2), ("BOOL", 1)])
        shape = [generator.randint(0, 3) for _ in range(generator.randint(0, 3))]
        size = width * int(np.prod(shape, dtype=int))
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    entries = [entry for name, entry in header.items() if name != "__metadata__"]
    for _ in range(generator.choice([0, 0, 1, 2])):  # well-formed, but with wrong numbers
        if entries:
            field = generator.choice(["shape", "data_offsets"])
            numbers = generator.choice(entries)[field]
            if numbers:
                numbers[generator.randrange(len(numbers))] = max(
                    0, generator.choice(numbers) + generator.randint(-4, 4)
                )
    if generator.random() < 0.3:
        header = dict(generator.sample(list(header.items()), len(header)))
    text = bytearray(json.dumps(header).encode())
    for _ in range(generator.choice([0, 0, 1, 1, 2, 3])):
        i = generator.randrange(len(text) + 1)
        j = min(len(text), i + generator.choice([0, 0, 1, 1, 2, 5]))
        text[i:j] = generator.choice(TOKENS) if generator.random() < 0.7 else bytes([generator.randrange(256)])
    length = len(text) + generator.choice([0] * 12 + [-1, 1, 8, 2**40])
    body = bytes(generator.randrange(256) for _ in range(max(0, offset + generator.choice([0] * 8 + [-1, 1, 7]))))
    return struct.pack("<Q", max(0, length)) + bytes(text) + body


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow beyond a page, which the system reports as it does a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
