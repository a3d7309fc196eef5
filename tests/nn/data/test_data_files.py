"""Data from files: three parts, exact labels, and small or broken files that must not take memory or time."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import struct
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from openbnns import cli, nn
from openbnns.nn import data

Array = np.ndarray


def write_csv(path: Path, labels: list[str]) -> Path:
    path.write_text("".join(f"{i},{-i / 3},{label}\n" for i, label in enumerate(labels)))
    return path


def classes_of(path: Path) -> tuple[tuple[str, ...], list[int]]:
    """Names of the classes, and the class of every line, in the order of the lines."""
    loaded = data.classification(data.load(path, test_share=0, validation_share=0))
    return loaded.class_names, loaded.train_y.tolist()


@contextmanager
def memory_at_most(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit, f"{peak:,} bytes"


# Labels.


@pytest.mark.parametrize(
    ("labels", "names", "numbers"),
    [
        (["9007199254740991", "9007199254740990"] * 2, ("9007199254740990", "9007199254740991"), [1, 0, 1, 0]),
        (["1.0", "1", "01", "+1.", "0"], (), [1, 1, 1, 1, 0]),
        (["1", "1.0", "-7"], ("-7", "1"), [1, 1, 0]),
        (["a", "A", " a ", '"a"'], ("A", "a"), [1, 0, 1, 1]),
        (["Müller", "Muller"], ("Muller", "Müller"), [1, 0]),
        (["True", "False"], ("False", "True"), [1, 0]),
        (["2", "0", "2"], (), [2, 0, 2]),
    ],
)
def test_labels_of_a_table(tmp_path: Path, labels: list[str], names: tuple[str, ...], numbers: list[int]) -> None:
    assert classes_of(write_csv(tmp_path / "a.csv", labels)) == (names, numbers)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["0", "0.5"], "sample . has the target 0.5, which is not a class"),
        (["1e-300", "2"], "sample . has the target 1e-300, which is not a class"),
        (["1e300", "2"], "line 1: column '3' is '1e300', which is too large"),
    ],
)
def test_labels_that_are_none(tmp_path: Path, labels: list[str], message: str) -> None:
    with pytest.raises(data.DataError, match=message):
        data.load(write_csv(tmp_path / "a.csv", labels), task="classification", test_share=0, validation_share=0)


@pytest.mark.parametrize(
    ("train", "test", "names", "numbers"),
    [
        (np.array([2**53 + 1, 2**53]), np.array([2**53]), ("9007199254740992", "9007199254740993"), [1, 0, 0]),
        (np.array([2**64 - 1, 2**64 - 2], np.uint64), np.array([5]), ("5", str(2**64 - 2), str(2**64 - 1)), [2, 1, 0]),
        (np.array([1e300, 3.0]), np.array([1e300]), ("3", "1e+300"), [1, 0, 1]),
        (np.array([2.0**24 + 1, 2.0**24]), np.array([7.0]), ("7", "16777216", "16777217"), [2, 1, 0]),
        (np.array([-1.0, 4.0]), np.array([4, -1]), ("-1", "4"), [0, 1, 1, 0]),
    ],
)
def test_numbers_stay_exact(
    tmp_path: Path, train: Array, test: Array, names: tuple[str, ...], numbers: list[int]
) -> None:
    x = np.zeros((2, 3), np.float32)
    np.savez(tmp_path / "a.npz", x_train=x, y_train=train, x_test=x[: len(test)], y_test=test)
    dataset = data.classification(data.load(tmp_path / "a.npz"))
    assert dataset.class_names == names
    assert [*dataset.train_y, *dataset.test_y] == numbers


def test_words_and_numbers_do_not_mix(tmp_path: Path) -> None:
    x = np.zeros((2, 3), np.float32)
    np.savez(tmp_path / "a.npz", x_train=x, y_train=["a", "b"], x_test=x, y_test=[0, 1])
    with pytest.raises(data.DataError, match="some targets are words, others numbers"):
        data.classification(data.load(tmp_path / "a.npz"))


# Parts.


def test_three_parts_have_all_classes_in_the_same_shares(tmp_path: Path) -> None:
    random = np.random.RandomState(1)
    y = random.permutation(np.repeat([0, 1, 2, 3], [500, 100, 20, 1]))
    x = np.arange(len(y), dtype=np.float32)[:, None]
    np.savez(tmp_path / "a.npz", x=x, y=y)
    dataset = data.load(tmp_path / "a.npz", seed=3)
    parts = {name: np.bincount(part_y, minlength=4) for name, (_, part_y) in dataset.parts.items()}
    assert parts["test"][:3] == pytest.approx([100, 20, 4], abs=1.01)
    assert parts["validation"][:3] == pytest.approx([50, 10, 2], abs=1.01)
    assert parts["training"][3] == 1  # the only sample of its class is trained on
    samples = np.concatenate([part_x[:, 0] for part_x, _ in dataset.parts.values()])
    np.testing.assert_array_equal(np.sort(samples), x[:, 0])  # every sample is in one part
    for part_x, part_y in dataset.parts.values():
        np.testing.assert_array_equal(y[part_x[:, 0].astype(int)], part_y)
    again, other = data.load(tmp_path / "a.npz", seed=3), data.load(tmp_path / "a.npz", seed=4)
    np.testing.assert_array_equal(again.test_x, dataset.test_x)
    assert not np.array_equal(other.test_x, dataset.test_x)


def test_parts_of_the_file_are_kept(tmp_path: Path) -> None:
    x, y = np.arange(20, dtype=np.float32)[:, None], np.arange(20) % 2
    for name in ("validation", "val"):
        parts = {f"x_{name}": x[10:14], f"y_{name}": y[10:14]}
        np.savez(tmp_path / "a.npz", x_train=x[:10], y_train=y[:10], x_test=x[14:], y_test=y[14:], **parts)
        dataset = data.load(tmp_path / "a.npz")
        for part, expected in (("training", x[:10]), ("validation", x[10:14]), ("test", x[14:])):
            np.testing.assert_array_equal(dataset.parts[part][0], expected)
    np.savez(tmp_path / "b.npz", x_train=x[:10], y_train=y[:10], x_test=x[14:], y_test=y[14:])
    dataset = data.load(tmp_path / "b.npz")
    np.testing.assert_array_equal(dataset.test_x, x[14:])
    assert len(dataset.validation_x) == 1 and len(dataset.train_x) == 9
    assert set(dataset.validation_x[:, 0]) <= set(range(10))
    for shares, message in (((0.7, 0.3), "leaves nothing to train on"), ((-0.1, 0), "test_share is -0.1")):
        with pytest.raises(ValueError, match=message):
            data.load(tmp_path / "b.npz", test_share=shares[0], validation_share=shares[1])


def test_what_is_said_about_the_data(tmp_path: Path) -> None:
    x = np.arange(40, dtype=np.float32)[:, None]

    def notes(y: Array, **parts: Array) -> list[str]:
        np.savez(tmp_path / "a.npz", **(parts or {"x": x, "y": y}))
        return data.notes(data.classification(data.load(tmp_path / "a.npz")))

    assert notes(np.arange(40) % 2) == []
    assert notes(np.where(np.arange(40) % 2, 5, 0)) == [
        "No training sample has class 1, 2, 3, 4: the network has an output for every class from 0 to 5 and cannot learn "
        "those."
    ]
    words = np.array(["a", "b"])[np.arange(40) % 2]
    (said,) = notes(words, x_train=x, y_train=words, x_test=x[:2] + 100, y_test=np.array(["a", "c"]))
    assert said == "No training sample has class c, which the network therefore cannot learn."
    y = np.arange(40) % 2
    validation = {"x_validation": x[30:], "y_validation": y[30:]}
    (said,) = notes(y, x_train=x[:30], y_train=y[:30], x_test=x[30:], y_test=y[30:], **validation)
    assert said == "10 of the 10 test samples are also training or validation samples."
    with pytest.raises(
        data.DataError, match=r"all 28 training samples have class 3, so there is nothing to tell apart"
    ):
        notes(np.full(40, 3))


# Files that are not what they seem.


def test_only_needed_members_are_read(tmp_path: Path) -> None:
    """A compressed member that is not requested may claim and hold anything."""
    path = tmp_path / "a.npz"
    x, y = np.zeros((20, 3), np.float32), np.arange(20) % 2
    np.savez_compressed(path, x=x, y=y, junk=np.zeros(2**26, np.uint8))
    with memory_at_most(2**22):
        assert len(data.load(path).train_x) == 14
    with pytest.raises(data.DataError, match=r"expands to 64 MiB, more than 1 MiB, the limit .* --memory-limit 1G"):
        np.savez_compressed(path, x=np.zeros((2**24, 1), np.float32), y=y)
        data.load(path, memory_limit="1M")


def test_a_member_larger_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openbnns.files.memory_limit.ALWAYS", 2**20)
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.zeros((2**20, 4), np.float32), y=np.arange(2**20) % 2)
    with memory_at_most(2**21), pytest.raises(data.DataError, match=r"more than 1 MiB, the limit for a file of .* KiB"):
        data.load(path)
    assert len(data.load(path, memory_limit=2**28).test_x) == 209715


def test_a_header_that_claims_too_much(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (2**40, 3)})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue())
        archive.writestr("y.npy", header.getvalue())
    with (
        memory_at_most(2**20),
        pytest.raises(data.DataError, match=r"x: its header says float32 of shape .*, but 0 bytes"),
    ):
        data.load(tmp_path / "a.npz")


def test_compressed_tables_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openbnns.files.memory_limit.ALWAYS", 2**20)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"1,2,0\n" * 2**20))
    with memory_at_most(2**25), pytest.raises(data.DataError, match=r"expands to at least .*, more than 1 MiB"):
        data.load(path)
    path.write_bytes(gzip.compress(b"1,2,0\n1,3,1\n" * 2**17))  # 1.5 MiB
    assert len(data.load(path, memory_limit="12M").train_x) == 183501


def test_a_long_label_is_refused(tmp_path: Path) -> None:
    """An array of texts takes 4 bytes times the longest for every sample."""
    write_csv(tmp_path / "a.csv", ["y", *(["x" * 100_000]), *(["y"] * 5000)])
    with (
        memory_at_most(2**24),
        pytest.raises(data.DataError, match=r"line 2: column '3' is 'x{60}', but 'y' in line 1"),
    ):
        data.load(tmp_path / "a.csv")


def test_pipes_and_devices_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    os.mkfifo(tmp_path / "pipe.npz")
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    for name in ("pipe.csv", "pipe.npz", "zero.csv"):
        with pytest.raises(data.DataError, match=rf"{name}: is not a regular file"):
            data.load(tmp_path / name)
    with pytest.raises(nn.models.ModelError, match="is not a regular file"):
        nn.models.from_file(tmp_path / "pipe.toml")
    with pytest.raises(nn.weights.DamagedFile, match="is not a regular file"):
        nn.weights.load(tmp_path / "pipe.csv")


def idx(array: Array) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (bytes([0, 0, 8, 0]), "has rank 0, but samples have at least one axis"),
        (bytes([0, 0, 8, 0, 7]), "has rank 0"),
        (bytes([0, 0, 8, 255]) + bytes(4 * 255), "has rank 255"),
        (bytes([0, 0, 8, 1]) + struct.pack(">I", 2**32 - 1), r"should hold \(4294967295,\) elements"),
        (bytes([0, 0, 14, 3]) + struct.pack(">3I", *[2**32 - 1] * 3), "should hold"),
        (idx(np.zeros((6, 1), np.uint8)), "has rank 2, but rank 1 is needed"),
        (idx(np.zeros(6, np.uint8)) + b"\0", "should hold"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_idx_files_that_are_none(tmp_path: Path, labels: bytes, message: str, packed: bool) -> None:
    for part in ("train", "t10k"):
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(idx(np.zeros((6, 4, 4), np.uint8)))
        suffix = ".gz" if packed else ""
        (tmp_path / f"{part}-labels-idx1-ubyte{suffix}").write_bytes(gzip.compress(labels) if packed else labels)
    if packed and "should hold" in message and len(labels) < 20:
        message = "should hold|expands to"
    with memory_at_most(2**22), pytest.raises(data.DataError, match=message):
        data.load(tmp_path)


def broken_files() -> dict[str, bytes]:
    packed = io.BytesIO()
    np.savez_compressed(packed, x=np.random.RandomState(0).standard_normal((50, 3)), y=np.arange(50) % 2)
    whole = packed.getvalue()
    damaged = bytearray(whole)
    damaged[120:130] = bytes(10)
    table = gzip.compress(b"1,2,0\n2,3,1\n" * 500)
    bad = bytearray(table)
    bad[14:18] = b"\xff\xff\xff\xff"
    single = io.BytesIO()
    np.save(single, np.zeros(3))
    return {
        "cut.npz": whole[: len(whole) // 2],
        "end.npz": whole[:-10],
        "damaged.npz": bytes(damaged),
        "empty.npz": b"",
        "pickle.npz": pickle.dumps({"x": 1}),
        "single.npz": single.getvalue(),
        "cut.csv.gz": table[:40],
        "bad.csv.gz": bytes(bad),
        "none.csv.gz": b"1,2,0\n",
        "latin.csv": "1,2,M\u00fcller\n".encode("latin-1"),
        "quote.csv": b'1,2,"' + b"0\n" * 200_000,
        "nul.csv": b"1,\0,0\n1,\0,1\n",
    }


@pytest.mark.parametrize("name", broken_files())
def test_broken_files_give_one_line_and_code_2(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_bytes(broken_files()[name])
    assert cli.main(["train", "--data", str(tmp_path / name), "--out", str(tmp_path / "run")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"openbnns train: {tmp_path / name}")
    if name == "pickle.npz":
        assert "it is a pickle, which is never loaded" in line
    if name == "single.npz":
        assert "store x and y with np.savez" in line


@pytest.mark.parametrize(
    "value",
    ["nan", "inf", "-3", "9" * 26, "9" * 5000, "1979-05-27", "07:32:00", "[[1]]", "'x'", "{a = 1}", "[" * 3000, "\0"],
)
def test_odd_values_in_model_files(tmp_path: Path, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_csv(tmp_path / "a.csv", ["0", "1"] * 8)
    for field in ('type = "Linear"\nout_features', 'type = "Reshape"\nshape', "type"):
        (tmp_path / "net.toml").write_text(f"[[layers]]\n{field} = {value}\n")
        arguments = ["--data", str(tmp_path / "a.csv"), "--model", str(tmp_path / "net.toml"), "--out", str(tmp_path)]
        assert cli.main(["train", *arguments]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"openbnns train: {tmp_path / 'net.toml'}") or "do not fill (N, -3)" in line


def test_the_limit_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = {"x": np.zeros((4000, 4), np.float32), "y": np.arange(4000) % 2}
    np.savez(tmp_path / "plain.npz", **arrays)
    np.savez_compressed(path := tmp_path / "a.npz", **arrays)
    common = [
        "train",
        "--data",
        str(path),
        "--epochs",
        "1",
        "--quiet",
        "--no-report",
        "--force",
        "--out",
        str(tmp_path / "run"),
    ]
    assert cli.main([*common, "--memory-limit", "50K"]) == 2
    assert "more than 50 KiB, the limit that was given" in capsys.readouterr().err
    assert cli.main([*common, "--memory-limit", "1MiB"]) == 0
    common[2] = str(tmp_path / "plain.npz")  # whose samples stay in the file
    assert cli.main([*common, "--memory-limit", "50K"]) == 0
    with pytest.raises(SystemExit):
        cli.main([*common, "--memory-limit", "much"])
    assert "'much' is not a number of bytes such as 500M or 8G" in capsys.readouterr().err
    for bad in (0, -1, True, "5X", 1.5):
        with pytest.raises(ValueError, match=r"data\.load: memory_limit is .* such as 500M or 8G"):
            data.load(path, memory_limit=bad)  # type: ignore[arg-type]
