"""Files of weights that are damaged or hostile: clear errors, little memory, and never a crash or code that runs."""

from __future__ import annotations

import io
import random
from pathlib import Path

import numpy as np

from damaged_files import damaged, damaged_archive, mutated, read_many
from openbnns.files import safetensors as weights
from openbnns.files.safetensors import DamagedFile
from openbnns.files.untrusted import DataError
from openbnns.interop import weight_files

RNG = np.random.default_rng(11)


def arrays() -> dict[str, np.ndarray]:
    return {
        "0.weight": RNG.standard_normal((30, 40)).astype(np.float32), "0.bias": np.arange(3, dtype=np.float32),
        "norm.running_mean": np.float16([1, 2.5, -3]), "steps": np.int64([7]),
    }  # fmt: skip


# A thousand of each.


def test_a_thousand_damaged_files_of_numpy(tmp_path: Path) -> None:
    made, draw = io.BytesIO(), np.random.RandomState(2)
    np.savez(made, **arrays())
    whole = made.getvalue()
    outcomes = read_many(tmp_path / "w.npz", lambda _: damaged_archive(whole, draw), weight_files.read, (DataError,))
    # NumPy writes the time into the file, so they vary.
    assert outcomes["read"] > 10 and outcomes["DataError"] > 500, outcomes


def test_a_thousand_damaged_safetensors(tmp_path: Path) -> None:
    whole, draw, other = weights.encode(arrays(), {"format": "np"}), np.random.RandomState(3), random.Random(3)
    outcomes = read_many(
        tmp_path / "w.safetensors",
        lambda number: mutated(other) if number % 2 else damaged(whole, draw),
        weight_files.read,
        (DamagedFile,),
    )
    assert min(outcomes["read"], outcomes["DamagedFile"]) > 50, outcomes
