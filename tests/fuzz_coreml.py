"""Damaged and hostile Core ML files: ``python tests/fuzz_coreml.py [COUNT] [SEED]``.

Every model is a package or a compiled model in which one file has some bytes changed, cut off or put in, words exchanged for
others, or numbers set to values that make no sense. Reading it must give a model or an error that names a file, within
seconds and without much memory. What can be read must be writable and come back.
"""

from __future__ import annotations

import re
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import coreml_programs
from damaged_files import MEGABYTES, SECONDS, damaged
from openbnns.files.safetensors import DamagedFile
from openbnns.interop import coreml

_NUMBERS = [
    "-1",
    "0",
    "1",
    "3",
    "64",
    "2147483648",
    "99999999999",
    "18446744073709551615",
    "1e400",
    "0x1p-1080",
    "?",
    "[]",
]
_WORDS = re.compile(rb'\w+|"[^"]*"|[^\w\s]')


def changed(whole: bytes, random: np.random.RandomState, *, text: bool) -> bytes:
    """The bytes of a file that something is wrong with."""
    if not text or random.rand() < 0.4:
        return damaged(whole, random)
    words = list(_WORDS.finditer(whole))
    for _ in range(random.randint(1, 4)):
        one, other = (words[random.randint(len(words))] for _ in range(2))
        new = other[0] if random.rand() < 0.7 else _NUMBERS[random.randint(len(_NUMBERS))].encode()
        if one.end() <= len(whole):
            whole = whole[: one.start()] + new + whole[one.end() :]
    return whole


def run(count: int, seed: int) -> Counter[str]:
    """How many of so many damaged models gave what."""
    random, counts = np.random.RandomState(seed), Counter[str]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        originals = coreml_programs.packages(Path(folder))
        for number in range(count):
            original = originals[number % len(originals)]
            path = Path(folder) / f"damaged{original.suffix}"
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(original, path)
            files = sorted(file for file in path.rglob("*") if file.is_file())
            file = files[random.randint(len(files))]
            file.write_bytes(changed(file.read_bytes(), random, text=file.suffix in (".mil", ".json")))
            try:
                counts[_result(path)] += 1
            except BaseException:
                kept = Path(tempfile.gettempdir()) / f"openbnns_damaged_{number}{path.suffix}"
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(path, kept)
                print(f"model {number}, kept as {kept}", file=sys.stderr)
                raise
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024  # ru_maxrss counts in kilobytes
    assert grown < MEGABYTES, f"{grown:.0f} MB more"
    return counts


def _result(path: Path) -> str:
    began = time.process_time()  # others may keep the machine busy
    try:
        model = coreml.read(path)
    except DamagedFile as error:
        assert path.name in str(error), error
        return type(error).__name__
    finally:
        seconds = time.process_time() - began
        assert seconds < SECONDS, f"{path} took {seconds:.1f} s"
    if model.program is None:
        return "other kind"
    try:
        again = coreml.read(coreml.write_package(model, path.with_name("again.mlpackage")))
    except coreml.CoreMLError as error:
        assert any(
            words in str(error) for words in ("only texts can say", "Packages can have", "no package can have")
        ), error
        return "read, only as text"
    assert again.program is not None
    for name, function in model.program.functions.items():  # but for attributes, whose types texts can leave open
        same = again.program.functions[name]
        assert (same.inputs, same.block) == (function.inputs, function.block)
    return "read"


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:3]]
    count, seed = (*given, *(1000, 0)[len(given) :])
    print(f"{count} models from seed {seed}: {dict(run(count, seed))}")
