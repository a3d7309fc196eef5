"""Checkpoints: everything a training run needs to continue, in one safetensors file, with a checksum over all of it.

A folder keeps the latest few. A file is written whole or not at all (``weights.write_atomically``); a file that is damaged
later is detected by its checksum, and the previous one is used.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .._listing import of_module as _of_module
from ..files.safetensors import DamagedFile, encode, write_atomically
from ..files.safetensors import read as read_weights
from ..graph.tensor import Array

FORMAT = "openbnns-checkpoint-3"  # raised whenever the settings or the state change
KEPT = 2
EARLIER = "earlier"  # where the files of a run go when another begins in its folder
MODEL, HISTORY, REPORT = "model.safetensors", "history.json", "report.html"
DAMAGED = ".damaged"  # suffix of the name of a damaged checkpoint that was skipped
_NAME = re.compile(r"checkpoint-(\d{9,18})\.safetensors")
# Files that write_atomically leaves behind when the process is killed; only those of a run.
_PART = re.compile(
    rf"\.(checkpoint-\d{{9,18}}\.safetensors|{re.escape(MODEL)}|{re.escape(HISTORY)}|{re.escape(REPORT)})\.[a-z0-9_]{{8}}\.part"
)


class CheckpointError(ValueError):
    """No checkpoint to continue from, or one that belongs to another run."""


@dataclass
class Checkpoint:
    """``arrays`` of network and optimizer by path, and ``state``: plain JSON."""

    arrays: dict[str, Array]
    state: dict[str, Any] = field(default_factory=dict)

    def part(self, prefix: str) -> dict[str, Array]:
        """The arrays whose path starts with ``prefix.``, without it."""
        return {name[len(prefix) + 1 :]: a for name, a in self.arrays.items() if name.startswith(prefix + ".")}


def _checksum(arrays: Mapping[str, Array], state: str) -> str:
    digest = hashlib.sha256(state.encode())
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def save(folder: Path, step: int, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint and remove those that are older than the latest few."""
    state = json.dumps(checkpoint.state)
    metadata = {"format": FORMAT, "state": state, "sha256": _checksum(checkpoint.arrays, state)}
    path = folder / f"checkpoint-{step:09d}.safetensors"
    write_atomically(path, encode(checkpoint.arrays, metadata))
    for old in list_files(folder)[KEPT:]:
        old.unlink(missing_ok=True)
    return path


def step_of(path: Path) -> int:
    """The step in a file's name."""
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return int(match[1])


def list_files(folder: Path) -> list[Path]:
    """The checkpoints of a folder, latest first."""
    paths = (p for p in folder.glob("checkpoint-*.safetensors") if _NAME.fullmatch(p.name))
    return sorted(paths, key=step_of, reverse=True)


def remove_litter(folder: Path) -> None:
    """Remove the unfinished files of a run that was killed. Only for the process that holds the folder's lock."""
    for path in folder.glob(".*.part"):
        if _PART.fullmatch(path.name):
            path.unlink(missing_ok=True)


def set_aside(folder: Path) -> list[str]:
    """Move the files of an earlier run out of the way of a new one, and give their names.

    Its checkpoints would count as the latest ones, being of later steps, and the new ones would be removed; its model and its
    report would stand beside the history of another run.
    """
    files = _files_of_run(folder)
    if files:
        aside = folder / EARLIER
        aside.mkdir(exist_ok=True)
        for old in _files_of_run(aside):
            old.unlink()
        for path in files:
            path.rename(aside / path.name)
    return [path.name for path in files]


def _files_of_run(folder: Path) -> list[Path]:
    results = (folder / name for name in (MODEL, HISTORY, REPORT))
    return [*list_files(folder), *(path for path in results if path.is_file())]


def read(path: Path) -> Checkpoint:
    """A checkpoint; raises DamagedFile if a single bit of it has changed."""
    arrays, metadata = read_weights(path)
    if metadata.get("format") != FORMAT:
        raise DamagedFile(f"{path}: is not a checkpoint of this version (format {metadata.get('format')!r}).")
    text = metadata.get("state", "")
    if _checksum(arrays, text) != metadata.get("sha256"):
        raise DamagedFile(f"{path}: its checksum is wrong, so part of it has changed since it was written.")
    try:
        state = json.loads(text)
    except (ValueError, RecursionError):
        state = None
    if not isinstance(state, dict):
        raise DamagedFile(f"{path}: its description of the run is not a table.")
    return Checkpoint(arrays, state)


def latest(
    folder: Path, report: Callable[[str], None], examine: Callable[[Path, Checkpoint], None] = lambda *_: None
) -> Checkpoint | None:
    """The latest intact checkpoint; ``None`` if there is none.

    Damaged ones, and those that ``examine`` raises DamagedFile for, are reported and passed over. They get another
    name, so that they do not count among the few that a folder keeps, as soon as a good one is found.
    """
    files = list_files(folder)
    damaged = []
    for path in files:
        try:
            checkpoint = read(path)
            examine(path, checkpoint)
        except (DamagedFile, OSError) as error:
            report(f"Skipping a damaged checkpoint. {error}")
            damaged.append(path)
            continue
        for bad in damaged:
            bad.rename(bad.with_name(bad.name + DAMAGED))
        return checkpoint
    if files:
        raise CheckpointError(f"{folder}: all {len(files)} checkpoints are damaged. Start again without resuming.")
    return None


__all__ = ["Checkpoint", "CheckpointError", "latest", "list_files", "read", "save", "step_of"]

__dir__ = _of_module(__name__)
