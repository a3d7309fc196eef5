"""Weights in files of NumPy, PyTorch and Keras."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import nn
from openbnns.graph.parameter import Mismatch
from openbnns.nn.files.safetensors import DamagedFile
from openbnns.nn.files.untrusted import DataError

RNG = np.random.default_rng(3)
peers = pytest.mark.peers
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras


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

    theirs = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
    torch.save(theirs.state_dict(), tmp_path / "w.pt")
    net = small(1)
    net.load(tmp_path / "w.pt")
    x = numbers(5, 4)
    np.testing.assert_allclose(net.eval()(x), theirs.eval()(torch.from_numpy(x)).detach().numpy(), atol=1e-6)
    other = small(2)
    other.save(tmp_path / "ours.pth")
    theirs.load_state_dict(torch.load(tmp_path / "ours.pth"), strict=False)
    assert np.array_equal(theirs[0].weight.detach().numpy(), other[0].weight.data)
    torch.save({"epoch": 3, "state_dict": theirs.state_dict()}, tmp_path / "checkpoint.pt")
    net.load(tmp_path / "checkpoint.pt")
    assert np.array_equal(net[0].weight.data, other[0].weight.data)
    torch.save({"model_state_dict": theirs.half().state_dict(), "optimizer": {"lr": 1}}, tmp_path / "half.pt")
    net.load(tmp_path / "half.pt")
    assert np.array_equal(net[0].weight.data, other[0].weight.data.astype(np.float16))
    torch.save(theirs, tmp_path / "whole.pt")  # code, which is never run
    with pytest.raises(DamagedFile, match=r"holds a torch.nn.modules.container.Sequential, not a state_dict"):
        net.load(tmp_path / "whole.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(DamagedFile, match="holds a list, not a state_dict"):
        net.load(tmp_path / "list.pt")


# Keras.


class Ours(nn.Module):
    """The same network as ``theirs`` builds in Keras."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4, eps=1e-3)
        self.deep, self.up = nn.Conv2d(4, 8, 3, groups=4), nn.ConvTranspose2d(8, 3, 2, stride=2)
        self.first, self.second = nn.Linear(3 * 12 * 12, 6), nn.Linear(6, 5)
        self.layer_norm = nn.LayerNorm(5, eps=1e-3)

    def forward(self, x: nn.Value) -> nn.Value:
        x = self.up(self.deep(nn.functional.relu(self.norm(self.one(x)))))
        return self.layer_norm(self.second(nn.functional.tanh(self.first(nn.functional.flatten(x, 1)))))


class OurSequences(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.lstm = nn.Embedding(9, 6), nn.LSTM(6, 4, num_layers=2, batch_first=True)
        self.both, self.gru = nn.LSTM(4, 3, bidirectional=True, batch_first=True), nn.GRU(6, 4, batch_first=True)
        self.attention, self.conv, self.head = (
            nn.MultiheadAttention(4, 2, batch_first=True),
            nn.Conv1d(4, 4, 3),
            nn.Linear(4, 2),
        )

    def forward(self, x: nn.Value) -> nn.Value:
        x = self.gru(self.both(self.lstm(self.table(x))[0])[0])[0]
        x = self.attention(x, x, x, need_weights=False)[0]
        x = self.conv(nn.functional.transpose(x, 1, 2))
        return self.head(x.mean(2))


@pytest.fixture(scope="module")
def keras() -> Any:
    os.environ["KERAS_BACKEND"] = "torch"
    import keras as module

    return module


def randomized(model: Any) -> Any:
    model.set_weights(
        [
            numbers(*w.shape) * 0.3 + ("variance" in v.path)
            for w, v in zip(model.get_weights(), model.weights, strict=True)
        ]
    )
    return model


def images(keras: Any) -> Any:
    layers = keras.layers
    return randomized(
        keras.Sequential(
            [
                layers.Input((8, 8, 2)), layers.Conv2D(4, 3, padding="same", name="begin"), layers.BatchNormalization(),
                layers.ReLU(), layers.DepthwiseConv2D(3, depth_multiplier=2), layers.Conv2DTranspose(3, 2, strides=2),
                layers.Flatten(), layers.Dense(6, activation="tanh", name="z"), layers.Dense(5, name="a"),
                layers.LayerNormalization(epsilon=1e-3),
            ]
        )
    )  # fmt: skip


@peers
@pytest.mark.parametrize("ending", [".weights.h5", ".keras"])
def test_keras_images(ending: str, keras: Any, tmp_path: Path) -> None:
    theirs = images(keras)
    path = tmp_path / f"model{ending}"
    theirs.save_weights(path) if ending == ".weights.h5" else theirs.save(path)
    net = Ours().build((2, 8, 8), seed=1)
    assert net.load(path) == []
    x = numbers(3, 2, 8, 8)
    expected = np.asarray(theirs(x.transpose(0, 2, 3, 1)).detach())
    np.testing.assert_allclose(net.eval()(x), expected, atol=2e-5)


def sequences(keras: Any) -> Any:
    layers = keras.layers
    given = layers.Input((7,), dtype="int32")
    x = layers.Embedding(9, 6)(given)
    for _ in range(2):
        x = layers.LSTM(4, return_sequences=True)(x)
    x = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(x)
    x = layers.GRU(4, return_sequences=True)(x)
    x = layers.MultiHeadAttention(2, 2)(x, x)
    x = layers.Conv1D(4, 3)(x)
    return randomized(keras.Model(given, layers.Dense(2)(keras.ops.mean(x, 1))))


@peers
def test_keras_sequences(keras: Any, tmp_path: Path) -> None:
    theirs = sequences(keras)
    theirs.save_weights(tmp_path / "m.weights.h5")
    net = OurSequences().build((7,), seed=1)
    net.load(tmp_path / "m.weights.h5")
    x = RNG.integers(0, 9, (3, 7))
    np.testing.assert_allclose(net.eval()(x), np.asarray(theirs(x).detach()), atol=2e-5)


def shaken(net: nn.Module) -> nn.Module:
    """With other numbers than those that layers begin with, in buffers, too."""
    net.load_state_dict({name: numbers(*a.shape) * 0.3 + ("var" in name) for name, a in net.state_dict().items()})
    return net


@peers
def test_files_for_keras_of_images(keras: Any, tmp_path: Path) -> None:
    net, theirs, path = shaken(Ours().build((2, 8, 8), seed=1)), images(keras), tmp_path / "ours.weights.h5"
    net.save(path)
    theirs.load_weights(path)
    weights = {w.path.split("/", 1)[-1]: w.numpy() for w in theirs.weights}
    conv = next(array for array in weights.values() if array.shape == (3, 3, 2, 4))
    assert np.array_equal(conv, net.one.weight.data.transpose(2, 3, 1, 0))  # to the last bit
    x = numbers(3, 2, 8, 8)
    np.testing.assert_allclose(np.asarray(theirs(x.transpose(0, 2, 3, 1)).detach()), net.eval()(x), atol=1e-5)
    again = Ours().build((2, 8, 8), seed=2)
    again.load(path)
    for name, array in net.state_dict().items():
        assert np.array_equal(array, again.state_dict()[name]), name


@peers
def test_files_for_keras_of_sequences(keras: Any, tmp_path: Path) -> None:
    net, theirs, path = shaken(OurSequences().build((7,), seed=1)), sequences(keras), tmp_path / "ours.weights.h5"
    net.save(path)
    theirs.load_weights(path)
    x = RNG.integers(0, 9, (3, 7))
    np.testing.assert_allclose(np.asarray(theirs(x).detach()), net.eval()(x), atol=1e-5)
    again = OurSequences().build((7,), seed=2)
    again.load(path)
    for name, array in net.state_dict().items():  # an LSTM of Keras has the sum of two biases
        if "bias_" not in name or "gru" in name:
            assert np.array_equal(array, again.state_dict()[name]), name
    np.testing.assert_allclose(again.eval()(x), net(x), atol=1e-6)


@peers
def test_files_for_keras_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from openbnns.cli import main

    net = small(1)
    net.save_model(tmp_path / "m.safetensors")
    assert main(["export", str(tmp_path / "m.safetensors"), "--to", "keras"]) == 0
    said = capsys.readouterr().out
    assert "1: BatchNorm1d  batch_normalization" in said and "2: Linear       dense_1" in said
    other = small(2)
    other.load(tmp_path / "m.weights.h5")
    assert all(np.array_equal(array, other.state_dict()[name]) for name, array in net.state_dict().items())


class Unwritten(nn.Module):
    """Layers of Keras, and four things that it does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4, affine=False)
        self.attention, self.scale = nn.MultiheadAttention(4, 2, add_bias_kv=True), nn.Parameter(numbers(4))
        self.slopes = nn.PReLU(1)

    def forward(self, x: nn.Value) -> nn.Value:
        y = self.norm(self.table(x))
        return self.slopes(self.attention(y.reshape(y.shape[0], 1, 4), need_weights=False)[0] * self.scale)


@peers
def test_what_keras_has_not_is_listed(tmp_path: Path) -> None:
    net = Unwritten().build((4,))
    with pytest.raises(Mismatch, match=r"4 problems, nothing was written") as caught:
        net.save(tmp_path / "w.weights.h5")
    said = str(caught.value)
    for reason in (
        "norm (BatchNorm1d): Keras has no such layer without weights and moving statistics",
        "attention (MultiheadAttention): attention with different widths of key and value, or with learned keys",
        "scale: Keras has no layer for it", "slopes.weight: Keras has no layer for it", "Use .safetensors",
    ):  # fmt: skip
        assert reason in said
    assert not list(tmp_path.iterdir())


def test_names_of_files_for_keras(tmp_path: Path) -> None:
    for name in ("w.keras", "w.h5"):
        with pytest.raises(
            ValueError, match=rf"{name}: weights for Keras are written to files that end in .weights.h5"
        ):
            small(1).save(tmp_path / name)
    with pytest.raises(RuntimeError, match=r"Sequential\.save: call build"):
        nn.Sequential(nn.Linear(4, 3)).save(tmp_path / "w.weights.h5")
    assert not list(tmp_path.iterdir())


@peers
def test_older_files_of_keras(tmp_path: Path) -> None:
    """As Keras 2 wrote them, names in attributes."""
    import h5py

    kernel, bias, second = numbers(4, 3), numbers(3), numbers(3, 2)
    arrays = {
        "dense": {"kernel:0": kernel, "bias:0": bias},
        "bn": {"gamma:0": numbers(3), "beta:0": numbers(3), "moving_mean:0": numbers(3), "moving_variance:0": np.abs(numbers(3))},
        "relu": {},
        "out": {"kernel:0": second, "bias:0": numbers(2)},
    }  # fmt: skip
    with h5py.File(tmp_path / "old.h5", "w") as file:
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = [name.encode() for name in arrays]
        for name, own in arrays.items():
            layer = group.create_group(name)
            layer.attrs["weight_names"] = [f"{name}/{entry}".encode() for entry in own]
            for entry, array in own.items():
                layer[f"{name}/{entry}"] = array
    net = small(1)
    net.load(tmp_path / "old.h5")
    assert np.array_equal(net[0].weight.data, kernel.T) and np.array_equal(net[2].weight.data, second.T)
    assert np.array_equal(net[1].running_mean, arrays["bn"]["moving_mean:0"])


@peers
def test_files_of_keras_that_do_not_fit(keras: Any, tmp_path: Path) -> None:
    images(keras).save_weights(tmp_path / "m.weights.h5")
    net = small(1)
    before = {name: array.copy() for name, array in net.state_dict().items()}
    with pytest.raises(Mismatch) as caught:
        net.load(tmp_path / "m.weights.h5")
    said = str(caught.value)
    assert "conv2d: no layer of the network takes it" in said and "layer_normalization" in said
    whole = (tmp_path / "m.weights.h5").read_bytes()
    for data in (b"", b"\x89HDF\r\n\x1a\n", whole[: len(whole) // 2], b"x" * 1000):
        (tmp_path / "bad.h5").write_bytes(data)
        with pytest.raises(DamagedFile, match=r"bad\.h5: cannot be read as weights of Keras"):
            net.load(tmp_path / "bad.h5")
    with zipfile.ZipFile(tmp_path / "bad.keras", "w") as archive:
        archive.writestr("config.json", "{}")
    with pytest.raises(DamagedFile, match=r"bad.keras: cannot be read as a .keras archive"):
        net.load(tmp_path / "bad.keras")
    with pytest.raises(RuntimeError, match="call build"):
        nn.Sequential(nn.Linear(4, 3)).load(tmp_path / "m.weights.h5")
    assert all(np.array_equal(before[name], array) for name, array in net.state_dict().items())


def test_h5py_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    (tmp_path / "m.h5").write_bytes(b"x")
    with pytest.raises(ImportError, match=r'pip install "openbnns\[keras\]"'):
        small(1).load(tmp_path / "m.h5")
    with pytest.raises(ImportError, match=r'pip install "openbnns\[keras\]"'):
        small(1).save(tmp_path / "m.weights.h5")
