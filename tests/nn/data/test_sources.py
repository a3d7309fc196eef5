"""Samples that are read from files as they are needed: the same training as with arrays, the order of blocks, messages."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from helpers import Array
from openbnns import nn
from openbnns.distributed.shards import Shards
from openbnns.nn.batches import ArraySource, BlockOrder, cut
from openbnns.nn.checkpoints import CheckpointError
from openbnns.nn.data import DataError

sources = nn.sources


def problem(count: int = 203) -> tuple[Array, Array]:
    x = np.random.RandomState(0).standard_normal((count, 3, 2))
    return x, (x[:, 0, 0] > 0).astype(np.int16)


def trained(x: Any, y: Any, **options: Any) -> Array:
    """The weights and the measures of a small run."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(2))
    out, resume = options.pop("out", None), options.pop("resume", False)
    trainer = nn.Trainer(net, "cross_entropy", nn.Adam(0.01), batch_size=16, seed=2, quiet=True, out=out)
    history = trainer.fit(x, y, epochs=options.pop("epochs", 2), resume=resume, **options)
    measured = [v for record in history for k, v in record.items() if isinstance(v, float) and k != "seconds"]
    last = trainer.evaluate(x, y)
    arrays = [*net.state_dict().values(), trainer.predict(x), np.array([*measured, *last.values()])]
    return np.concatenate([array.ravel() for array in arrays])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    x, y = problem()
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y.astype(">i2"))
    np.savez(tmp_path / "both.npz", x=x, y=y)
    return tmp_path


@pytest.mark.parametrize("options", ({}, {"validation_split": 0.2}, {"class_weights": "balanced"}), ids=str)
def test_rows_of_files_train_as_arrays_do(options: dict[str, Any], folder: Path) -> None:
    whole = trained(*problem(), **options)
    x, y = sources.open_npy(folder / "x.npy"), sources.open_npy(folder / "y.npy")
    np.testing.assert_array_equal(trained(x, y, **options), whole)
    data = sources.open_npz(str(folder / "both.npz"))
    assert set(data) == {"x", "y"} and len(data) == 2
    np.testing.assert_array_equal(trained(data["x"], data["y"], **options), whole)


def test_parts_of_several_kinds(folder: Path) -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(2), nn.Linear(2)

        def forward(self, a: nn.Value, b: nn.Value) -> nn.Value:
            value: nn.Value = self.one(a) + self.other(b)
            return value

    x, y = problem()
    a, b = np.ascontiguousarray(x[:, 0]), np.ascontiguousarray(x[:, 1])
    np.save(folder / "a.npy", a)

    def run(first: Any) -> Array:
        trainer = nn.Trainer(Sum(), quiet=True, seed=1)
        trainer.fit((first, b), y, epochs=1, validation=((first, b), y))
        predicted: Array = trainer.predict((first, b))
        return predicted

    np.testing.assert_array_equal(run(sources.open_npy(folder / "a.npy")), run(a))


def test_rows_are_indexed_like_arrays(folder: Path) -> None:
    x = problem()[0]
    rows = sources.open_npy(folder / "x.npy")
    assert (rows.shape, rows.dtype, rows.ndim, len(rows)) == (x.shape, x.dtype, 3, 203)
    for chosen in (
        slice(3, 40),
        slice(None, None, -7),
        slice(5, 5),
        [7, 8, 9, 2, 2, -1],
        np.arange(203) % 3 == 0,
        11,
        -2,
        [],
    ):
        np.testing.assert_array_equal(rows[chosen], x[chosen])
    np.testing.assert_array_equal(np.asarray(rows, np.float32), x.astype(np.float32))
    assert repr(rows) == "<StoredRows: float64 of shape (203, 3, 2)>"
    with pytest.raises(IndexError, match=r"StoredRows: there is no sample 203 among 203"):
        rows[[0, 203]]
    with pytest.raises(
        IndexError, match=r"chosen by their numbers, not by float64 of shape \(1,\). Index the samples after"
    ):
        rows[[0.5]]


def test_a_run_goes_on_from_a_file_as_from_memory(folder: Path) -> None:
    """The fingerprint of the data is that of an array of the same type; other contents are refused."""
    x, y = problem()
    x = x.astype(np.float32)
    np.save(folder / "x32.npy", x)
    whole = trained(x, y, epochs=3)
    trained(x, y, epochs=1, out=folder / "run")
    stored = sources.open_npy(folder / "x32.npy")
    np.testing.assert_array_equal(trained(stored, y, epochs=3, out=folder / "run", resume=True), whole)
    np.save(folder / "other.npy", x + (np.arange(203) == 100)[:, None, None].astype(np.float32))
    with pytest.raises(CheckpointError, match="training data"):
        trained(sources.open_npy(folder / "other.npy"), y, epochs=4, out=folder / "run", resume=True)


def test_files_that_cannot_be_read_by_rows(folder: Path) -> None:
    x, _ = problem()
    np.savez_compressed(folder / "packed.npz", x=x)
    np.save(folder / "turned.npy", np.asfortranarray(x))
    np.save(folder / "one.npy", np.float32(3))
    np.save(folder / "objects.npy", np.array([{}, {}]), allow_pickle=True)
    (folder / "cut.npy").write_bytes((folder / "x.npy").read_bytes()[:-1])
    (folder / "text.npy").write_text("1, 2, 3")
    packed = sources.open_npz(folder / "packed.npz")
    with pytest.raises(DataError, match=r"packed.npz: x is compressed, so that .* np.savez, which does not compress"):
        packed["x"]
    with pytest.raises(DataError, match=r"both.npz: has arrays x, y, but no 'z'"):
        sources.open_npz(folder / "both.npz")["z"]
    for name, message in {
        "turned.npy": r"stored column by column \(Fortran order\).* mmap_mode=\"r\"",
        "one.npy": "is a single number",
        "objects.npy": "holds Python objects, which are never unpickled",
        "cut.npy": r"says float64 of shape \(203, 3, 2\), but 9743 bytes follow it. The file is damaged",
        "text.npy": "cannot be read as .npy",
        "nowhere.npy": r"nowhere.npy: cannot be read as .npy \(No such file or directory\)",
    }.items():
        with pytest.raises(DataError, match=message):
            sources.open_npy(folder / name)
    with pytest.raises(DataError, match=r"x.npy: cannot be read as .npz"):
        sources.open_npz(folder / "x.npy")


def test_a_file_that_is_cut_while_it_is_read_is_an_error(folder: Path) -> None:
    """A mapped file would end the process by SIGBUS."""
    rows, y = sources.open_npy(folder / "x.npy"), problem()[1]
    with open(folder / "x.npy", "r+b") as file:
        file.truncate(5000)
    with pytest.raises(DataError, match=r"x.npy: ends at byte 5000, before sample 101 does. The file has changed"):
        rows[:]
    with pytest.raises(DataError, match=r"x.npy: ends at byte 5000"):
        trained(rows, y)


def test_own_rows(folder: Path) -> None:
    x, y = problem()

    class Own(sources.Rows):
        def read(self, rows: Array) -> Array:
            return x[rows].astype(np.float32)

    np.testing.assert_array_equal(trained(Own(x.shape, np.float32), y), trained(x, y))
    with pytest.raises(DataError, match=r"Own.read gave float32 of shape \(16, 3, 2\) instead of float64 of shape"):
        trained(Own(x.shape, np.float64), y)
    with pytest.raises(DataError, match=r"x has 203 samples, but y has shape"):
        trained(Own(x.shape, np.float32), y[:5])
    with pytest.raises(DataError, match=r"Trainer.fit: x is <U4, but numbers are needed"):
        trained(Own(x.shape, "U4"), y)


# Blocks.


class Twenties(nn.sources.BlockRows):
    """Rows of an array in blocks of twenty, which counts how often they are read."""

    def __init__(self, array: Array, window: int = 16) -> None:
        self.array, self.blocks = array, list[int]()
        sizes = [len(array[i : i + 20]) for i in range(0, len(array), 20)]
        super().__init__(array.shape, array.dtype, sizes, window)

    def read_block(self, number: int) -> Array:
        self.blocks.append(number)
        return self.array[20 * number : 20 * number + 20]

    def pieces(self) -> Iterator[Any]:
        yield repr(self.window).encode()  # which the order follows from
        yield from super().pieces()


def flat_problem() -> tuple[Array, Array]:
    x, y = problem(203)
    return x.reshape(len(x), -1)[:, :2].copy(), y


def test_samples_in_blocks() -> None:
    x, y = problem(203)
    rows = Twenties(x)
    np.testing.assert_array_equal(rows[:], x)
    np.testing.assert_array_equal(rows[[200, 3, 77, 4]], x[[200, 3, 77, 4]])
    assert Twenties(y).shape == (203,) and Twenties(y).dtype == y.dtype


def test_every_block_is_read_once_in_an_epoch() -> None:
    x, y = (Twenties(array, window=3) for array in flat_problem())
    net = nn.Sequential(nn.Linear(4), nn.Linear(2))
    nn.Trainer(net, batch_size=8, quiet=True).fit(x, y, epochs=1)
    blocks, read = 11, len(x.blocks + y.blocks)
    assert 2 * blocks <= read <= 2 * blocks + 6  # samples and targets; a batch is read before, to know the shapes


def test_blocks_train_alike_however_they_are_read(tmp_path: Path) -> None:
    """Reading ahead, resuming in the middle of an epoch and the size of the cache change nothing."""
    x, y = (Twenties(array, window=3) for array in flat_problem())

    class Stop(nn.Callback):
        def on_step(self, trainer: Any, step: Any) -> None:
            if step["step"] == 7:
                trainer.stop()

    def run(ahead: int, **options: Any) -> Array:
        net = nn.Linear(2)
        out = options.pop("out", None)
        nn.Trainer(net, batch_size=8, quiet=True, seed=4, read_ahead=ahead, out=out).fit(x, y, epochs=2, **options)
        weight: Array = net.state_dict()["weight"].copy()
        return weight

    whole = run(0)
    x._kept = y._kept = 0
    np.testing.assert_array_equal(run(3), whole)
    run(2, out=tmp_path, callbacks=[Stop()])
    np.testing.assert_array_equal(run(2, out=tmp_path, resume=True), whole)
    wider = Twenties(x.array, window=4)
    with pytest.raises(CheckpointError, match="training data"):  # the order is another one
        nn.Trainer(nn.Linear(2), batch_size=8, quiet=True, seed=4, out=tmp_path).fit(wider, y, epochs=3, resume=True)


# The order of samples in blocks.


@pytest.mark.parametrize("seed", range(12))
def test_the_order_of_blocks_is_a_permutation(seed: int) -> None:
    random = np.random.RandomState(seed)
    sizes = random.randint(0, 30, random.randint(1, 40))
    sizes[0] += 1
    count = int(sizes.sum())
    rows = None if seed % 2 else np.sort(random.permutation(count)[: max(1, count // 2)])
    streams, batch_size, window = random.randint(1, 18), random.randint(1, 50), random.randint(1, 20)
    order = BlockOrder(
        np.random.RandomState(seed), rows, np.cumsum(sizes), window=window, streams=streams, batch_size=batch_size
    )
    expected = np.arange(count) if rows is None else rows
    batches = []
    for start in range(0, len(expected), batch_size):
        stop = min(start + batch_size, len(expected))
        batches.append(order[start:stop])
        shards = [order[start + a : start + b] for a, b in cut(stop - start, streams) if a < b]
        np.testing.assert_array_equal(np.concatenate(shards), batches[-1])
    actual = np.concatenate(batches)
    np.testing.assert_array_equal(np.sort(actual), expected)
    if len(expected) > 20:
        assert not np.array_equal(actual, expected)


@pytest.mark.parametrize("ranks", (1, 2, 4))
def test_ranks_read_the_blocks_of_their_shards_alone(ranks: int) -> None:
    """And never more of them at a time than the window, all ranks together."""
    sizes, shards, batch = [100] * 64, 16, 64
    reads = []
    for rank in range(ranks):

        class Counted(sources.BlockRows):
            most, read_blocks = 0, 0

            def read_block(self, number: int) -> Array:
                self.read_blocks += 1
                return np.arange(100 * number, 100 * number + 100, dtype=np.float32)

            def read(self, rows: Array) -> Array:
                block = super().read(rows)
                self.most = max(self.most, len(self._blocks))
                return block

        rows = Counted((6400,), np.float32, sizes)
        source = ArraySource(rows, np.zeros(6400), "test", batch_size=batch, seed=1, shards=shards)
        own = Shards(shards, ranks, rank)
        seen = [
            b.numbers
            for parts in source.parts(0, 0, lambda _, n, own=own: own.own_of_batch(n))
            for b in parts.batches
            if b is not None
        ]
        assert len(np.unique(np.concatenate(seen))) == 6400 // ranks
        assert rows.most <= shards // ranks + 1
        reads.append(rows.read_blocks)
    assert sum(reads) <= 64 + ranks - 1


def test_an_order_takes_eight_bytes_per_sample() -> None:
    class Nothing(sources.BlockRows):
        def read_block(self, number: int) -> Array:
            return np.zeros(1000, np.float32)

    count = 400_000
    memory = np.zeros(count, np.float32)
    for x in (memory, Nothing((count,), np.float32, [1000] * (count // 1000))):
        source = ArraySource(x, memory, "test", batch_size=32, seed=1, shards=16)
        tracemalloc.start()
        try:
            next(source.epoch(0))
            assert tracemalloc.get_traced_memory()[1] < 8.5 * count
        finally:
            tracemalloc.stop()


# Images.


@pytest.fixture
def pictures(tmp_path: Path) -> list[Path]:
    random = np.random.RandomState(0)
    paths = [tmp_path / f"{i:02d}.png" for i in range(20)]
    for path in paths:
        PIL.Image.fromarray(random.randint(0, 256, (6, 9, 3), np.uint8)).save(path)
    return paths


def test_images(pictures: list[Path]) -> None:
    x = sources.open_images(pictures)
    assert x.shape == (20, 3, 6, 9) and x.dtype == np.float32
    pixels = np.stack([np.asarray(PIL.Image.open(path)) for path in pictures])
    np.testing.assert_array_equal(x[:], pixels.transpose(0, 3, 1, 2) / np.float32(255))
    assert sources.open_images(pictures, (4, 5), mode="L")[3:7].shape == (4, 1, 4, 5)
    assert sources.open_images([str(p) for p in pictures], mode="RGBA")[0][3].min() == 1
    y = np.arange(20) % 3

    def run(given: Any) -> Array:
        net = nn.Sequential(nn.Conv2d(4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3))
        nn.Trainer(net, batch_size=8, quiet=True, seed=1).fit(given, y, epochs=2, transforms=[nn.transforms.Flip()])
        weight: Array = net.state_dict()["3.weight"].copy()
        return weight

    np.testing.assert_array_equal(run(x), run(x[:]))


def test_images_that_do_not_fit(pictures: list[Path]) -> None:
    folder = pictures[0].parent
    PIL.Image.new("RGB", (7, 6)).save(folder / "other.png")
    PIL.Image.fromarray(np.full((6, 9), 999, np.uint16)).save(folder / "deep.png")
    (folder / "text.png").write_text("no image")
    (folder / "cut.png").write_bytes(pictures[0].read_bytes()[:100])

    def read(name: str) -> Array:
        return sources.open_images([*pictures, folder / name])[20]

    with pytest.raises(
        DataError, match=r"other.png: is 6 x 7 pixels, but the first image is 6 x 9. Give open_images a size"
    ):
        read("other.png")
    with pytest.raises(DataError, match=r"deep.png: its pixels are 'I;16', more than 8 bits each"):
        read("deep.png")
    for name in ("text.png", "cut.png"):
        with pytest.raises(DataError, match=f"{name}: cannot be read as an image"):
            read(name)
    with pytest.raises(DataError, match=r"nowhere.png: cannot be read \(No such file or directory\)"):
        read("nowhere.png")
    with pytest.raises(DataError, match="the list of files is empty"):
        sources.open_images([])
    with pytest.raises(TypeError, match=r"is one path. Pass a list"):
        sources.open_images(str(pictures[0]))
    with pytest.raises(ValueError, match=r"size is 5. Give \(height, width\)"):
        sources.open_images(pictures, 5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"mode is 'BGR'. Use 'L', 'RGB' or 'RGBA'"):
        sources.open_images(pictures, mode="BGR")  # type: ignore[arg-type]
