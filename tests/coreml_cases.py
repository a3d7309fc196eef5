"""The operator cases of coremltools' test suite, as ``tools/record_coreml_cases.py`` recorded them."""

from __future__ import annotations

import atexit
import functools
import json
import lzma
import math
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from openbnns.interop import coreml

FOLDER = Path(__file__).parent / "data" / "coreml_cases"


@dataclass(frozen=True)
class Case:
    """A program, and calls of its function ``main`` one after the other: inputs and expected outputs by name.

    States are zeros before the first call. A result is right if it is within ``atol + rtol |expected|``.
    """

    test: str
    operations: tuple[str, ...]
    atol: float
    rtol: float
    text: str
    calls: tuple[tuple[dict[str, np.ndarray], dict[str, np.ndarray]], ...]

    @property
    def program(self) -> coreml.Program:
        return coreml.parse(self.text, _weights(), self.test)


@functools.cache
def cases() -> list[Case]:
    """All cases."""
    arrays = lzma.decompress((FOLDER / "arrays.bin.xz").read_bytes())

    def array(kind: str, shape: list[int], place: int) -> np.ndarray:
        return np.frombuffer(arrays, kind, math.prod(shape), place).reshape(shape)

    def named(held: dict[str, Any]) -> dict[str, np.ndarray]:
        return {name: array(*entry) for name, entry in held.items()}

    return [
        Case(
            held["test"], tuple(held["operations"]), held["atol"], held["rtol"], held["program"],
            tuple((named(call["inputs"]), named(call["outputs"])) for call in held["calls"]),
        )
        for held in json.loads(lzma.decompress((FOLDER / "cases.json.xz").read_bytes()))
    ]  # fmt: skip


@functools.cache
def _weights() -> coreml.Weights:
    """The constants of all programs, which lie in one weight file."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "weights").mkdir()
    (folder / "weights" / "weight.bin").write_bytes(lzma.decompress((FOLDER / "weight.bin.xz").read_bytes()))
    return coreml.Weights(folder)
