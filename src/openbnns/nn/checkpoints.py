"""Checkpoints: everything a training run needs to go on, in one safetensors file, with a checksum over all of it.

A folder keeps the latest few. A file is written whole or not at all (``weights.write_atomically``); one that was damaged
later is found out by its checksum, and the one before is used.
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

from ._graph import Array
from .weights import DamagedFile, decode, encode, write_atomically

FORMAT = "openbnns-checkpoint-1"
KEPT = 2
EARLIER = "earlier"  # where the checkpoints of a run go when another begins in its folder
_NAME = re.compile(r"checkpoint-(\d{9})\.safetensors")


class CheckpointError(ValueError):
    """There is no checkpoint to go on from, or it belongs to another run."""


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


def list_files(folder: Path) -> list[Path]:
    """The checkpoints of a folder, latest first."""
    return sorted((p for p in folder.glob("checkpoint-*.safetensors") if _NAME.fullmatch(p.name)), reverse=True)


def set_aside(folder: Path) -> bool:
    """Move the checkpoints of an earlier run out of the way of a new one; whether there were any.

    Without this they would count as the latest ones, being of later steps, and the new ones would be removed.
    """
    files = list_files(folder)
    if files:
        aside = folder / EARLIER
        aside.mkdir(exist_ok=True)
        for old in list_files(aside):
            old.unlink()
        for path in files:
            path.rename(aside / path.name)
    return bool(files)


def read(path: Path) -> Checkpoint:
    """A checkpoint; raises DamagedFile if a single bit of it has changed."""
    arrays, metadata = decode(path.read_bytes(), str(path))
    if metadata.get("format") != FORMAT:
        raise DamagedFile(f"{path}: is no checkpoint of this version (format {metadata.get('format')!r}).")
    state = metadata.get("state", "")
    if _checksum(arrays, state) != metadata.get("sha256"):
        raise DamagedFile(f"{path}: its checksum is wrong, so part of it has changed since it was written.")
    return Checkpoint(arrays, json.loads(state))


def latest(folder: Path, report: Callable[[str], None]) -> Checkpoint | None:
    """The latest checkpoint that is whole; damaged ones are reported and passed over. ``None`` if there is none."""
    files = list_files(folder)
    for path in files:
        try:
            return read(path)
        except (DamagedFile, OSError) as error:
            report(f"Passing over a damaged checkpoint. {error}")
    if files:
        raise CheckpointError(f"{folder}: all {len(files)} checkpoints are damaged. Start again without resuming.")
    return None
