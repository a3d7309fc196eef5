"""Files that cannot be written: the message names the file, and what was there before is still there."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from damaged_files import full_disk
from openbnns import nn
from openbnns.files import safetensors as weights
from openbnns.nn import checkpoints

MUCH = {"w": np.zeros(100_000, np.float32)}


def save_weights(folder: Path) -> Path:
    weights.save(folder / "w.safetensors", MUCH)
    return folder / "w.safetensors"


def save_network(folder: Path) -> Path:
    net = nn.Linear(100, 100)
    net.build((100,))
    net.save(folder / "net.safetensors")
    return folder / "net.safetensors"


def save_checkpoint(folder: Path) -> Path:
    return checkpoints.save(folder, 7, checkpoints.Checkpoint(MUCH, {"epoch": 1}))


def write_text(folder: Path) -> Path:
    """As reports and histories are written."""
    weights.write_atomically(folder / "history.json", b"[]" * 5000)
    return folder / "history.json"


WRITERS: list[Callable[[Path], Path]] = [save_weights, save_network, save_checkpoint, write_text]


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_the_message_names_the_file(write: Callable[[Path], Path], tmp_path: Path) -> None:
    path = write(tmp_path)
    before = path.read_bytes()
    with full_disk(), pytest.raises(OSError, match=re.escape(path.name)) as caught:
        write(tmp_path)
    assert caught.value.errno == errno.EFBIG
    assert caught.value.filename == str(path)
    assert "an older file is as it was" in str(caught.value)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


def test_a_name_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").mkdir()
    with pytest.raises(IsADirectoryError, match=r"w\.safetensors'$"):
        save_weights(tmp_path)
