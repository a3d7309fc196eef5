"""Files that something is wrong with: how tests damage them, and what a reader has to keep to.

A reader gives something, or an error that names the file, within seconds of work and without much memory.
"""

from __future__ import annotations

import io
import resource
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
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
    found = Counter[str]()
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
        found[result] += 1
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024  # ru_maxrss counts in kilobytes
    assert grown < MEGABYTES, f"{grown:.0f} MB more"
    return found


def _result(path: Path, read: Callable[[Path], Any], errors: tuple[type[Exception], ...]) -> str:
    try:
        read(path)
    except errors as error:
        assert path.name in str(error), error
        return type(error).__name__
    return "read"
