"""The cost of calls of the C library, measured by a loop in C (c_library.c), which is compiled here."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np

import openbnns
from harness import Figure, Settings

# What is measured, its name in the program, unit, scale, target.
_FIGURES = {
    "c/apply of a 1x8 -> 8 layer": ("apply", "ns", 1.0, 100.0),
    "c/backward of a 1x8 -> 8 layer, all gradients": ("backward", "ns", 1.0, 300.0),
    "c/BNNSCopy of 32x64": ("copy", "ns", 1.0, 500.0),
    "c/create and destroy a 1x8 -> 8 layer": ("create", "us", 1e-3, 60.0),
    "c/memory after 100,000 filters": ("memory", "kB", 1.0, 512.0),
}


def figures() -> dict[str, Callable[[Settings], Figure]]:
    """Measurements by name."""
    if not Path(openbnns.__file__).parent.joinpath("lib", "libopenbnns.so").exists():
        return {}
    made: dict[str, Callable[[Settings], Figure]] = {name: partial(number, name=name) for name in _FIGURES}
    made["c/first call beyond importing NumPy"] = first_call
    made["c/two threads with filters of their own"] = threads
    return made


@cache
def _program() -> str:
    from openbnns.clib import flags

    folder = tempfile.mkdtemp(prefix="openbnns-c-")
    source, program = Path(__file__).with_suffix(".c"), f"{folder}/c_library"
    command = ["cc", "-O2", *flags.compile_flags(), str(source), "-o", program, *flags.link_flags(), "-pthread"]
    subprocess.run(command, check=True)
    return program


def _measured(case: str) -> float:
    environment = dict(os.environ, OPENBNNS_PYTHON=sys.executable, OPENBNNS_NUM_THREADS="1")
    run = subprocess.run([_program(), case], capture_output=True, check=True, text=True, env=environment)
    return float(run.stdout)


def number(settings: Settings, *, name: str) -> Figure:
    """The fastest round of a loop, or what memory has grown by."""
    case, unit, scale, target = _FIGURES[name]
    return Figure(name, _measured(case) * scale, unit, target, at_most=True)


def first_call(settings: Settings) -> Figure:
    """From the first call of a process to its result, less what a bare interpreter takes to import NumPy."""
    program = "import time; start = time.perf_counter(); import numpy; print(time.perf_counter() - start)"
    numpy = [
        float(subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, check=True, text=True).stdout)
        for _ in range(6)
    ][1:]
    first = [_measured("first") for _ in range(6)][1:]
    value, bare = statistics.median(first), statistics.median(numpy) * 1e3
    note = f"first call {value:.0f} ms, NumPy {np.__version__} alone {bare:.0f} ms"
    return Figure("c/first call beyond importing NumPy", value - bare, "ms", 200.0, at_most=True, note=note)


def threads(settings: Settings) -> Figure:
    """Calls per second of two threads against one."""
    note = f"openbnns {openbnns.__version__}"
    return Figure("c/two threads with filters of their own", _measured("threads"), "x one", 1.8, note=note)
