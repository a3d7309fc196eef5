"""Compilers and tools for tests of the C library: those that are here, and those that have to be.

Compilers and languages that are not here cannot be tried; the summary of a run names them (``conftest.py``). Those that
have to be here are listed in ``OPENBNNS_TOOLS``, as ``make test-c`` does: then a missing one fails ``c/test_programs.py``.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

PROGRAMS = {
    **{name: (name,) for name in ("gcc", "g++", "clang", "clang++", "cmake")},
    "pkg-config": ("pkg-config", "pkgconf"),
}
OTHER_PYTHON = "another Python"
NAMES = (*PROGRAMS, "zig", OTHER_PYTHON)


@cache
def command(name: str) -> tuple[str, ...] | None:
    """How a tool is started; ``None`` if it is not here. Programs beside this Python, as pip installs them, come first."""
    if name == "zig":
        return (sys.executable, "-m", "ziglang") if importlib.util.find_spec("ziglang") else None
    if name == OTHER_PYTHON:
        others = other_pythons()
        return (str(others[0]),) if others else None
    folders = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    path = next(filter(None, (shutil.which(program, path=folders) for program in PROGRAMS[name])), None)
    return (path,) if path else None


@cache
def other_pythons() -> list[Path]:
    """Interpreters of other versions: in the search path, and beside the one that runs this if versions lie side by side."""
    this = f"{sys.version_info[0]}.{sys.version_info[1]}"
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    folders += sorted(Path(sys.base_prefix).parent.glob("3.*/bin"))
    programs: dict[str, Path] = {}
    for version in (f"3.{minor}" for minor in range(9, 16)):
        for folder in folders:
            program = folder / f"python{version}"
            if version != this and version not in programs and os.access(program, os.X_OK) and _runs(program, version):
                programs[version] = program
    return list(programs.values())


def _runs(program: Path, version: str) -> bool:
    """True unless it is a stand-in that only knows where versions could be."""
    asked = [program, "-c", "import ctypes, sys; print('%d.%d' % sys.version_info[:2])"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    return answer.stdout.strip() == version


def missing() -> list[str]:
    """The tools that are not here."""
    return [name for name in NAMES if command(name) is None]


def promised() -> list[str]:
    """The tools that have to be here."""
    return os.environ.get("OPENBNNS_TOOLS", "").split()
