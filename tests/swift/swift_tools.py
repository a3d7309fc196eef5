"""Swift programs, built and run where Swift is: on this machine, or in the root that tools/roots/swift.sh makes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import openbnns
from c_compilers import environment_of_programs
from openbnns.clib import swift

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(openbnns.__file__).resolve().parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "openbnns" / "swift-trixie"
PROGRAMS = Path(__file__).resolve().parent / "programs"

FOLDERS = {ROOT, Path(tempfile.gettempdir()).resolve(), Path(sys.prefix), Path(sys.base_prefix), PACKAGE}
"""The environment of programs: they start the Python that runs the tests."""

GIVEN: dict[str, str | None] = {"OPENBNNS_SWIFT_ROOT": os.environ.get("OPENBNNS_SWIFT_ROOT", str(CACHE))}
if Path(sys.prefix) not in PACKAGE.parents:  # a source tree, which no Python knows
    GIVEN |= {"OPENBNNS_PYTHON": sys.executable, "PYTHONPATH": str(PACKAGE.parent)}


def run(
    *command: str | Path, cwd: Path, check: bool = True, **variables: str | None
) -> subprocess.CompletedProcess[str]:
    """Run a command; the environment has nothing of this process that helps to find libraries."""
    environment = environment_of_programs(**GIVEN | variables)
    there = [ROOT / "tools" / "roots" / "swift.sh", ":".join(map(str, sorted(FOLDERS))), *command]
    done = subprocess.run(list(map(str, there)), cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done


class Module:
    """The module Accelerate, built in a folder."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        folder.mkdir(parents=True, exist_ok=True)
        run(*swift.build_command("swiftc", folder), *options, cwd=folder)

    def compile(self, *sources: Path, name: str, options: tuple[str, ...] = ()) -> Path:
        """A program made of sources, which compile without a warning."""
        flags = swift.swift_flags(self.folder)
        done = run("swiftc", *sources, *flags, *self.options, *options, "-o", self.folder / name, cwd=self.folder)
        assert done.stderr == "", done.stderr
        return self.folder / name
