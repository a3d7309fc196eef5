"""Files of weights that are damaged or hostile: clear errors, little memory, and never a crash or code that runs."""

from __future__ import annotations

import io
import pickle
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damaged_files import damaged, damaged_archive, mutated, read_many
from openbnns import nn
from openbnns.interop import keras as keras_weights
from openbnns.interop import weight_files
from openbnns.interop.torch import weight_files as torch_weights
from openbnns.nn.files import safetensors as weights
from openbnns.nn.files.safetensors import DamagedFile
from openbnns.nn.files.untrusted import DataError

RNG = np.random.default_rng(11)


def arrays() -> dict[str, np.ndarray]:
    return {
        "0.weight": RNG.standard_normal((30, 40)).astype(np.float32), "0.bias": np.arange(3, dtype=np.float32),
        "norm.running_mean": np.float16([1, 2.5, -3]), "steps": np.int64([7]),
    }  # fmt: skip


# Pickles of PyTorch, put together by hand, so that they can say anything.


def plain(value: Any) -> bytes:
    return pickle.dumps(value, 2)[2:-1]


def named(name: str) -> bytes:
    module, _, last = name.rpartition(".")
    return f"c{module}\n{last}\n".encode()


def tensor(key: str, shape: Any, strides: Any, offset: Any = 0, kind: str = "FloatStorage", numel: int = 1) -> bytes:
    """A call of _rebuild_tensor_v2, as torch.save writes it."""
    storage = b"(" + plain("storage") + named(f"torch.{kind}") + plain(key) + plain("cpu") + plain(numel) + b"tQ"
    hooks = named("collections.OrderedDict") + b")R"
    given = storage + plain(offset) + plain(shape) + plain(strides) + b"\x89" + hooks
    return named("torch._utils._rebuild_tensor_v2") + b"(" + given + b"tR"


def archive(body: bytes, **members: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("w/data.pkl", b"\x80\x02" + body + b".")
        for name, data in members.items():
            file.writestr(f"w/data/{name[1:]}", data)
    return made.getvalue()


def table(**entries: bytes) -> bytes:
    return b"}(" + b"".join(plain(name) + value for name, value in entries.items()) + b"u"


def state_file() -> bytes:
    """A state_dict as torch.save writes it: shared numbers, a transposed tensor, one of half precision, a number."""
    numbers = np.arange(12, dtype=np.float32)
    half = np.float16([1, -2, 0.5])
    body = named("collections.OrderedDict") + b")R(" + b"".join(
        plain(name) + value
        for name, value in {
            "weight": tensor("0", (3, 4), (4, 1)), "turned": tensor("0", (4, 3), (1, 4)), "part": tensor("0", (2,), (2,), 5),
            "half": tensor("1", (3,), (1,), kind="HalfStorage"), "none": tensor("0", (0, 2), (2, 1)),
            "one": tensor("0", (), (), 7),
            "brain": tensor("2", (2,), (1,), kind="BFloat16Storage"),
        }.items()
    ) + b"u" + plain({"_metadata": {"": {"version": 1}}}) + b"b"  # fmt: skip
    brain = (np.float32([1.5, -4]).view(np.uint32) >> 16).astype(np.uint16)
    return archive(body, _0=numbers.tobytes(), _1=half.tobytes(), _2=brain.tobytes())


def test_files_of_pytorch_are_read_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    path = tmp_path / "w.pt"
    path.write_bytes(state_file())
    read = weight_files.read(path)
    whole = np.arange(12, dtype=np.float32)
    expected = {
        "weight": whole.reshape(3, 4), "turned": whole.reshape(3, 4).T, "part": whole[5:9:2], "half": np.float32([1, -2, 0.5]),
        "none": np.zeros((0, 2), np.float32), "one": np.float32(7), "brain": np.float32([1.5, -4]),
    }  # fmt: skip
    assert read.keys() == expected.keys()
    for name, array in expected.items():
        assert read[name].dtype == np.float32 and read[name].shape == array.shape, name
        assert np.array_equal(read[name], array), name


def test_checkpoints_of_pytorch(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(2, 1)).build((2,))
    body = table(**{"0.weight": tensor("0", (1, 2), (2, 1)), "0.bias": tensor("0", (1,), (1,), 2)})
    whole = table(
        epoch=plain(3), args=named("argparse.Namespace") + b")\x81" + plain({"lr": 1}) + b"b", model_state_dict=body
    )
    (tmp_path / "c.pth").write_bytes(archive(whole, _0=np.float32([5, 6, 7]).tobytes()))
    assert net.load(tmp_path / "c.pth") == []
    assert net[0].weight.data.tolist() == [[5, 6]] and net[0].bias.data.tolist() == [7]


CALL = b"cposix\nsystem\n" + b"(" + plain("touch RAN") + b"tR"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (archive(CALL), r"holds a posix.system, not a state_dict. Save torch.save\(module.state_dict\(\), path\)"),
        (archive(table(a=CALL)), "holds no state_dict, since a is a posix.system"),
        (archive(plain([1, 2])), "holds a list, not a state_dict"),
        (archive(table(a=plain(1), b=plain("x"))), "since a is a int, b is a str"),
        (archive(table(a=tensor("0", (3,), (1,))), _0=bytes(8)), r"a: 2 numbers do not hold a tensor of shape \(3,\)"),
        (archive(table(a=tensor("0", (2,), (1,), 1)), _0=bytes(8)), "do not hold"),
        (archive(table(a=tensor("0", (2,), (-1,), 1)), _0=bytes(8)), "do not hold"),
        (archive(table(a=tensor("0", (2,), (1,), -1)), _0=bytes(8)), "do not hold"),
        (archive(table(a=tensor("0", (2, 1), (1,))), _0=bytes(8)), "do not hold"),
        (archive(table(a=tensor("0", (2**70,), (0,))), _0=bytes(8)), "do not hold"),
        (archive(table(a=tensor("0", (1,) * 99, (1,) * 99)), _0=bytes(8)), "do not hold"),
        (archive(table(a=tensor("0", (2**20, 2**20), (0, 0))), _0=bytes(8)), "expands to 4 TiB, .*damaged.*LIMIT=8192G"),
        (archive(table(a=tensor("0", (1,), (1,), kind="QInt8Storage")), _0=bytes(8)), "type QInt8Storage are not known"),
        (archive(table(a=tensor("1", (1,), (1,))), _0=bytes(8)), "cannot be read as weights of PyTorch .*w/data/1"),
        (archive(b"}r\xff\xff\xff\xff"), "^$"),
        (archive(b"u"), "cannot be read as weights of PyTorch .*no mark"),
        (archive(b"\x8f"), "has an operation EMPTY_SET"),
        (b"\x80\x02}.", "before 1.6, or a pickle, neither of which is read"),
        (b"PK\x05\x06" + bytes(18), "there is no data.pkl in it"),
        (b"", "cannot be read as weights of PyTorch"),
    ],
)  # fmt: skip
def test_hostile_files_of_pytorch(data: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "w.pt"
    path.write_bytes(data)
    if message == "^$":  # a memo of the largest number, which takes gigabytes where pickles are loaded
        assert torch_weights.read(path) == {}
        return
    with pytest.raises(DamagedFile, match=message):
        torch_weights.read(path)
    assert not (tmp_path / "RAN").exists()


def test_views_of_few_numbers_are_read_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "w.pt"
    path.write_bytes(archive(table(a=tensor("0", (1000, 100), (0, 0))), _0=np.float32([3, 4]).tobytes()))
    monkeypatch.setenv("OPENBNNS_MEMORY_LIMIT", "300K")
    with pytest.raises(DamagedFile, match=r"more than 300 KiB, the limit that was given\..*OPENBNNS_MEMORY_LIMIT=1G"):
        torch_weights.read(path)
    monkeypatch.setenv("OPENBNNS_MEMORY_LIMIT", "1M")
    assert (torch_weights.read(path)["a"] == 3).all()


# A thousand of each.


def test_a_thousand_damaged_files_of_pytorch(tmp_path: Path) -> None:
    whole, draw = state_file(), np.random.RandomState(1)
    outcomes = read_many(tmp_path / "w.pt", lambda _: damaged_archive(whole, draw), weight_files.read, (DamagedFile,))
    assert min(outcomes["read"], outcomes["DamagedFile"]) > 50, outcomes


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


def keras_net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)).build((4,), seed=1)


@pytest.mark.peers
@pytest.mark.parametrize("ending", [".weights.h5", ".keras"])
def test_a_thousand_damaged_files_of_keras(ending: str, tmp_path: Path) -> None:
    """The file of weights itself is damaged, also inside of an archive."""
    net, draw = keras_net(), np.random.RandomState(4)
    net.save(tmp_path / "whole.weights.h5")
    whole = (tmp_path / "whole.weights.h5").read_bytes()
    if ending == ".keras":
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as file:
            file.writestr("config.json", "{}")
            file.writestr("model.weights.h5", whole)
        whole = made.getvalue()
    before = {name: array.copy() for name, array in net.state_dict().items()}

    def read(path: Path) -> None:
        try:
            keras_weights.load_into(net, path)
        except nn.Mismatch as error:  # which names layers
            raise DamagedFile(f"{path}: {error}") from None
        finally:
            net.load_state_dict(before)

    outcomes = read_many(
        tmp_path / f"w{ending}",
        lambda _: (damaged if ending == ".weights.h5" else damaged_archive)(whole, draw),
        read,
        (DamagedFile,),
    )
    assert min(outcomes["read"], outcomes["DamagedFile"]) > 50, outcomes
