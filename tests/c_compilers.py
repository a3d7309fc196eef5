"""The C and C++ compilers of this machine, and the C face of the package that is tested."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import c_tools
import openbnns

PACKAGE = Path(openbnns.__file__).resolve().parent
INCLUDE = PACKAGE / "include"
LIBRARY = PACKAGE / "lib" / "libopenbnns.so"
C_PROGRAMS = Path(__file__).resolve().parent / "c"

STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")


@dataclass(frozen=True)
class Compiler:
    """A command that compiles one language, in one of its versions."""

    command: tuple[str, ...]
    standard: str

    @property
    def suffix(self) -> str:
        return ".cpp" if "++" in self.standard else ".c"

    def __str__(self) -> str:
        return (
            f"{Path(self.command[0]).name if len(self.command) == 1 else ' '.join(self.command[-2:])} {self.standard}"
        )

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [*self.command, f"-std={self.standard}", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def compilers() -> list[Compiler]:
    """Every compiler that is here: gcc, which building the package needs, and Clang, also as Zig brings it."""
    installed = [
        Compiler((name,), standard)
        for name, standards in {
            "gcc": ("c11", "gnu17"),
            "clang": ("c11", "gnu17"),
            "g++": ("c++11", "c++17"),
            "clang++": ("c++11", "c++17"),
        }.items()
        if c_tools.command(name)
        for standard in standards
    ]
    if zig := c_tools.command("zig"):
        installed += [Compiler((*zig, "cc"), "c11"), Compiler((*zig, "c++"), "c++17")]
    return installed


def environment_of_programs(**variables: str | None) -> dict[str, str]:
    """The environment of a program that uses the library: it finds nothing by this process's variables, only what is given.

    The runtime of sanitizers, which this process may have been started with, has to come first in the other, too.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LD_", "OPENBNNS"))}
    given = {name: value for name, value in variables.items() if value is not None}
    preloaded = [os.environ.get("LD_PRELOAD", ""), given.pop("LD_PRELOAD", "")]
    return own | given | ({"LD_PRELOAD": " ".join(filter(None, preloaded))} if any(preloaded) else {})
