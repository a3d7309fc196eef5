"""The folder of a training run: a new one unless ``--out`` names it, with ``out`` as a link to the latest."""

from __future__ import annotations

import os
import re
from pathlib import Path

RUNS, LATEST = Path("runs"), Path("out")


_NOT_IN_NAMES = re.compile(r"[^\w-]+")


def new(data: str) -> Path:
    """A new folder for a run on this data, ``runs/wine-3``; ``out`` is a link to it from now on, unless it is a folder."""
    stem = Path(data).name.split(".")[0]
    name = _NOT_IN_NAMES.sub("-", stem).strip("-") or "run"
    while True:
        numbers = (re.fullmatch(rf"{re.escape(name)}-(\d+)", path.name) for path in RUNS.glob(f"{name}-*"))
        folder = RUNS / f"{name}-{1 + max((int(match[1]) for match in numbers if match), default=0)}"
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:
            continue  # another run has begun in between
    link(folder)
    return folder


def link(folder: Path) -> None:
    """Make ``out`` a link to a folder, unless ``out`` is a folder itself."""
    if LATEST.exists() and not LATEST.is_symlink():
        return
    other = LATEST.with_name(f".{LATEST.name}.{os.getpid()}")
    try:
        other.symlink_to(folder, target_is_directory=True)
        other.replace(LATEST)
    except OSError:  # a file system without links
        other.unlink(missing_ok=True)


def latest() -> Path:
    """The folder of the latest run, to continue it."""
    if not LATEST.is_dir():
        raise ValueError(f"--resume: there is no run to continue in {LATEST}. Say where it is: --out FOLDER.")
    return Path(os.path.relpath(LATEST.resolve()))
