"""The C++ tests of the kernels, compiled for another machine (`make test-cross TARGET=...`)."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(os.environ["OPENBNNS_CROSS"])
TARGET = FOLDER.name
PROCESSOR, SYSTEM, LIBRARY = f"{TARGET}-".split("-")[:3]
ROOT = FOLDER.parents[1] / "roots" / "arm64"
TESTS = sorted(path for path in FOLDER.glob("test_*") if path.is_file())
MACH_O_ARM64 = bytes.fromhex("cffaedfe0c000001")


def emulator() -> list[str | Path]:
    """The command that runs a program of the target; empty if this machine can."""
    if platform.machine() == PROCESSOR:
        return []
    for name in (f"qemu-{PROCESSOR}-static", f"qemu-{PROCESSOR}"):
        if program := shutil.which(name):
            return [program, *system()]
    raise RuntimeError(f"programs for {PROCESSOR} need QEMU here: apt-get install qemu-user-static")


def system() -> list[str | Path]:
    """Where the emulator finds the C library of the target, unless that is part of the programs."""
    if LIBRARY == "musl":
        return []
    if not ROOT.exists():
        raise RuntimeError(f"there is no {ROOT}: `make test-arm64` makes it; or use TARGET={PROCESSOR}-linux-musl")
    return ["-L", ROOT]


def test_there_are_programs() -> None:
    assert len(TESTS) >= 8, f"{FOLDER} has no tests: run `make test-cross TARGET={TARGET}`"


@pytest.mark.parametrize("program", TESTS, ids=lambda path: path.name)
def test_program(program: Path) -> None:
    """It passes, or where it cannot run is compiled and linked for the right kind of machine."""
    if platform.system().lower() != SYSTEM:
        assert TARGET == "aarch64-macos"
        assert program.read_bytes()[:8] == MACH_O_ARM64
        return
    done = subprocess.run([*emulator(), program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout and "FAIL" not in done.stdout
