"""Weights in files of NumPy and PyTorch."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from openbnns import nn
from openbnns.cli import main
from openbnns.files.untrusted import DataError
from openbnns.graph.parameter import Mismatch

RNG = np.random.default_rng(3)
peers = pytest.mark.peers


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def small(seed: int) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)).build((4,), seed=seed)


def test_npz_both_ways(tmp_path: Path) -> None:
    one, other = small(1), small(2)
    one(numbers(5, 4))
    one.save(tmp_path / "w.npz")
    with np.load(tmp_path / "w.npz") as archive:
        assert set(archive) == set(one.state_dict())
    assert other.load(tmp_path / "w.npz") == []
    for name, array in one.state_dict().items():
        assert np.array_equal(array, other.state_dict()[name]), name


def test_npz_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    net = small(1)
    before = {name: array.copy() for name, array in net.state_dict().items()}
    np.savez(tmp_path / "w.npz", **{"0.weight": numbers(3, 5), "else": numbers(1)})
    with pytest.raises(Mismatch, match=r"0.weight: shape \(3, 5\) given"):
        net.load(tmp_path / "w.npz")
    np.savez(tmp_path / "p.npz", **{"0.weight": np.array([{}], object)})
    with pytest.raises(DataError, match=r"0\.weight"):
        net.load(tmp_path / "p.npz")
    (tmp_path / "b.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(DataError, match=r"cannot be read as \.npz"):
        net.load(tmp_path / "b.npz")
    assert all(np.array_equal(before[name], array) for name, array in net.state_dict().items())


@peers
def test_pytorch_both_ways(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    theirs = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
    save_file(theirs.state_dict(), tmp_path / "w.safetensors")
    net = small(1)
    assert net.load(tmp_path / "w.safetensors", strict=False) == []
    x = numbers(5, 4)
    np.testing.assert_allclose(net.eval()(x), theirs.eval()(torch.from_numpy(x)).detach().numpy(), atol=1e-6)
    other = small(2)
    other.save(tmp_path / "ours.safetensors")
    theirs.load_state_dict(load_file(tmp_path / "ours.safetensors"), strict=False)
    assert np.array_equal(theirs[0].weight.detach().numpy(), other[0].weight.data)


@pytest.mark.parametrize(
    ("ending", "cure"),
    [
        (".h5", "export the network to ONNX, or its weights to safetensors"),
        (".weights.h5", "export the network to ONNX, or its weights to safetensors"),
        (".keras", "export the network to ONNX, or its weights to safetensors"),
        (".pt", "write it with safetensors.torch.save_file"),
        (".PTH", "write it with safetensors.torch.save_file"),
    ],
)
def test_files_that_are_neither_read_nor_written(
    ending: str, cure: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"w{ending}"
    for read in (small(1).load, nn.load_model):
        with pytest.raises(ValueError, match=rf"{re.escape(str(path))}: {re.escape(cure)}\.$"):
            read(path)
    for command in (
        ["import", path],
        ["import", path, "--network", "m.safetensors"],
        ["inspect", path],
        ["predict", path, "x.npy"],
    ):
        assert main([str(word) for word in command]) == 2
        assert capsys.readouterr().err == f"openbnns {command[0]}: {path}: {cure}.\n"
    with pytest.raises(
        ValueError, match=r"weights are written as \.safetensors, which safetensors\.torch\.load_file reads, or"
    ):
        small(1).save(path)
    assert not path.exists()
