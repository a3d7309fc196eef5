"""Install packages that ``pyproject.toml`` lists: ``python tools/install.py GROUP... [REQUIREMENT...]``.

A group is one of ``[project.optional-dependencies]`` or ``[dependency-groups]``, ``run`` (what the package needs), or ``build``
(what building needs: with CMake and Ninja only if this machine has none, because another CMake compiles everything anew).
``--no-deps`` installs the packages of the groups without what they would bring along. Nothing is built.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def groups() -> dict[str, list[Any]]:
    """The requirements of every group, as they are listed."""
    table = tomllib.loads(PROJECT.read_text(encoding="utf-8"))
    missing = [program for program in ("cmake", "ninja") if shutil.which(program) is None]
    project = table["project"]
    return {
        "run": project["dependencies"],
        "build": [*table["build-system"]["requires"], *missing],
        **project["optional-dependencies"],
        **table["dependency-groups"],
    }


def requirements(name: str, known: dict[str, list[Any]]) -> Iterator[str]:
    """The packages of a group, and of the groups that it includes; anything else stands for itself."""
    for listed in known.get(name, [name]):
        own = re.fullmatch(r"openbnns\[(.*)\]", listed) if isinstance(listed, str) else None
        if own or isinstance(listed, dict):
            for other in own[1].split(",") if own else [listed["include-group"]]:
                yield from requirements(other, known)
        else:
            yield listed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-deps", action="store_true")
    parser.add_argument("names", nargs="+", metavar="GROUP or REQUIREMENT")
    options = parser.parse_args()
    known = groups()
    wanted = dict.fromkeys(package for name in options.names for package in requirements(name, known))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([*pip, *["--no-deps"] * options.no_deps, *wanted], check=True)


if __name__ == "__main__":
    main()
