"""Files of weights: what is written, what is read, and files that are damaged."""

from __future__ import annotations

import contextlib
import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from networks import numbers
from openbnns import nn
from openbnns.files import safetensors as weights


def test_weights_go_through_a_file(tmp_path) -> None:
    make = lambda: nn.Sequential(nn.Conv2d(4, 3), nn.Flatten(), nn.Linear(3))  # noqa: E731
    one, other = make().build((1, 5, 5), seed=1), make().build((1, 5, 5), seed=2)
    one.save(tmp_path / "w.safetensors")
    assert other.load(tmp_path / "w.safetensors") == []
    x = numbers(2, 1, 5, 5)
    np.testing.assert_array_equal(one(x), other(x))


def test_every_mismatch_is_listed_and_nothing_changes() -> None:
    net = nn.Sequential(nn.Linear(3), nn.Linear(2)).build((4,), seed=1)
    before = {name: array.copy() for name, array in net.state_dict().items()}
    given_ = {"0.weight": np.zeros((3, 5)), "0.bias": np.ones(3), "1.weight": np.zeros((2, 3)), "2.bias": np.zeros(2)}
    with pytest.raises(nn.Mismatch) as caught:
        net.load_state_dict(given_)
    text = str(caught.value)
    assert "0.weight: shape (3, 5) given, (3, 4) needed" in text
    assert "1.bias: missing" in text and "2.bias: not in the network" in text and "3 mismatches" in text
    for name, array in net.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
    del given_["0.weight"]
    assert len(net.load_state_dict(given_, strict=False)) == 3
    np.testing.assert_array_equal(net.state_dict()["0.bias"], np.ones(3))


@given(
    st.dictionaries(
        st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=6),
        st.tuples(st.sampled_from(["f4", "f8", "i8", "u1", "f2", "?"]), st.lists(st.integers(0, 4), max_size=3)),
        max_size=4,
    )
)
def test_safetensors_round_trip(spec: dict[str, tuple[str, list[int]]]) -> None:
    arrays = {
        name: (np.random.RandomState(len(name)).uniform(0, 9, shape)).astype(kind)
        for name, (kind, shape) in spec.items()
    }
    read, metadata = weights.decode(weights.encode(arrays, {"a": "b"}))
    assert metadata == {"a": "b"} and list(read) == list(arrays)
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)


def test_safetensors_layout() -> None:
    """Byte for byte, as other readers expect it."""
    data = weights.encode({"w": np.array([[1, 2]], np.float32)})
    (length,) = struct.unpack("<Q", data[:8])
    assert length % 8 == 0
    assert json.loads(data[8 : 8 + length]) == {"w": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}}
    assert data[8 + length :] == np.array([1, 2], "<f4").tobytes()


def test_bfloat16_is_read_as_float32() -> None:
    header = json.dumps({"w": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    data = struct.pack("<Q", len(header)) + header + np.array([0x3F80, 0xC000], "<u2").tobytes()
    np.testing.assert_array_equal(weights.decode(data)[0]["w"], np.array([1, -2], np.float32))


def test_damaged_files_never_crash() -> None:
    good = weights.encode({"w": numbers(3, 4), "b": numbers(4)})
    for cut in range(0, len(good), 7):
        with pytest.raises(weights.DamagedFile):
            weights.decode(good[:cut])
    source = np.random.RandomState(3)
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(3):
            bad[source.randint(len(bad))] = source.randint(256)
        with contextlib.suppress(weights.DamagedFile):
            weights.decode(bytes(bad))


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]},
        {"dtype": "X9", "shape": [1], "data_offsets": [0, 4]},
        {"shape": [1]},
        "nonsense",
    ],
)
def test_headers_that_lie(entry: object) -> None:
    header = json.dumps({"w": entry}).encode()
    with pytest.raises(weights.DamagedFile, match="w: "):
        weights.decode(struct.pack("<Q", len(header)) + header + bytes(4))


def test_saving_into_no_folder(tmp_path: object) -> None:
    with pytest.raises(FileNotFoundError, match=r"m\.safetensors: there is no folder .*nowhere\. Make it first"):
        nn.Linear(3, 2).build((3,)).save(f"{tmp_path}/nowhere/m.safetensors")
