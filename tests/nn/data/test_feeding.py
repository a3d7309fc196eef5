"""Where batches come from: arrays, files that are mapped, iterables; and the thread that reads ahead."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import nn
from openbnns.nn.batches import read_ahead
from openbnns.nn.data import DataError
from openbnns.nn.objective import Objective

Array = np.ndarray


def problem(count: int = 90) -> tuple[Array, Array]:
    x = np.random.RandomState(0).standard_normal((count, 3)).astype(np.float32)
    return x, (x[:, 0] > 0).astype(np.int64)


def trained(x: Any, y: Any = None, *, epochs: int = 3, said: list[str] | None = None, **options: Any) -> Array:
    """The weights of a small run."""
    usual = {"optimizer": nn.Adam(0.01), "batch_size": 16, "seed": 2}
    fitted = {name: options.pop(name) for name in ("validation", "sample_weights", "transforms") if name in options}
    net = nn.Sequential(nn.Linear(8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(2))
    say = (lambda text: None) if said is None else said.append
    trainer = nn.Trainer(net, **{**usual, **options}, say=say)  # type: ignore[arg-type]
    trainer.fit(x, y, epochs=epochs, **fitted)
    return np.concatenate([array.ravel() for array in net.state_dict().values()])


def batches(epoch: int) -> Iterator[tuple[Array, Array]]:
    """The batches that arrays are cut into, with seed 2 and 16 samples."""
    x, y = problem()
    order = np.random.RandomState([2, epoch]).permutation(90)
    for start in range(0, 90, 16):
        chosen = order[start : start + 16]
        yield x[chosen], y[chosen]


class Sized:
    """Batches in the same order in every epoch."""

    def __len__(self) -> int:
        return 6

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        return batches(0)


def test_a_function_of_the_epoch_gives_what_arrays_give() -> None:
    whole = trained(*problem())
    said: list[str] = []
    np.testing.assert_array_equal(trained(batches, said=said), whole)
    assert "have no len(), so they are read once to count them" in said[0]
    said.clear()
    np.testing.assert_array_equal(trained(nn.data.Batches(batches, 6), said=said), whole)
    assert not any("len()" in line for line in said)


def test_lists_and_objects_that_can_be_iterated_anew() -> None:
    whole = trained(list(batches(0)))
    np.testing.assert_array_equal(trained(Sized()), whole)
    np.testing.assert_array_equal(trained(lambda: batches(0)), whole)
    for ahead in (0, 1, 5):
        np.testing.assert_array_equal(trained(Sized(), read_ahead=ahead), whole)
    weighted = [(x, y, np.ones(len(x))) for x, y in batches(0)]
    np.testing.assert_allclose(trained(weighted), whole, rtol=1e-5, atol=1e-6)


def test_batches_for_validation_and_evaluation() -> None:
    x, y = problem()
    net = nn.Sequential(nn.Linear(2))
    trainer = nn.Trainer(net, quiet=True)
    pieces = [(x[i : i + 25], y[i : i + 25]) for i in range(0, 90, 25)]
    for validation in (pieces, lambda: iter(pieces), nn.data.Batches(lambda: iter(pieces), 4)):
        record = trainer.fit(x, y, epochs=1, validation=validation)[-1]
        expected = trainer.evaluate(x, y)
        assert record["validation_accuracy"] == expected["accuracy"]
        assert record["validation_loss"] == pytest.approx(expected["loss"], rel=1e-6)
    assert trainer.evaluate(pieces)["accuracy"] == expected["accuracy"]


@pytest.mark.parametrize("ahead", [None, 0, 3])
def test_mapped_files_train_as_arrays_do(tmp_path: Path, ahead: int | None) -> None:
    x, y = problem()
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    mapped = (np.load(tmp_path / name, mmap_mode="r") for name in ("x.npy", "y.npy"))
    np.testing.assert_array_equal(trained(*mapped, read_ahead=ahead), trained(x, y))


def test_mapped_files_are_read_batch_by_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than batches of a file are in memory, whatever their type; and what is not finite is found when it comes."""
    count = 4000
    data = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float64, (count, 50))
    data[...] = np.random.RandomState(0).standard_normal((count, 50))
    data.flush()
    x, y = np.load(tmp_path / "x.npy", mmap_mode="r"), np.arange(count) % 2
    largest = 0
    forward = Objective.forward

    def watched(self: Any, batch: Any, **options: Any) -> Any:
        nonlocal largest
        largest = max(largest, max(a.nbytes for a in batch.x))
        assert batch.x[0].dtype == np.float32 and not isinstance(batch.x[0].base, np.memmap)
        return forward(self, batch, **options)

    monkeypatch.setattr(Objective, "forward", watched)
    net = nn.Sequential(nn.Linear(2))
    nn.Trainer(net, batch_size=64, quiet=True).fit(x, y, epochs=1, validation_split=0.1)
    assert 0 < largest <= 256 * 50 * 4
    data[17, 3] = np.nan
    data.flush()
    with pytest.raises(DataError, match=r"x, in the batch with sample \d+ first, contains nan at \(\d+, 3\)"):
        nn.Trainer(net, batch_size=64, quiet=True).fit(x, y, epochs=1)
    bad = np.lib.format.open_memmap(tmp_path / "y.npy", "w+", np.int64, (count,))
    bad[...] = y
    bad[33] = 5
    data[17, 3] = 0
    with pytest.raises(ValueError, match="class number 5 is out of range"):
        nn.Trainer(net, batch_size=64, quiet=True).fit(x, bad, epochs=1)


# The thread.


def test_reading_ahead_keeps_the_order_and_ends() -> None:
    before = threading.active_count()
    assert list(read_ahead(iter(range(100)), 3)) == list(range(100))
    reading = read_ahead(iter(range(10**9)), 3)
    assert [next(reading) for _ in range(3)] == [0, 1, 2]
    reading.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_an_error_of_the_thread_comes_where_its_item_would() -> None:
    closed = []

    def broken() -> Iterator[int]:
        try:
            yield 1
            yield 2
            raise OSError("the disk is gone")
        finally:
            closed.append(True)

    items = []
    with pytest.raises(OSError, match="the disk is gone"):
        for item in read_ahead(broken(), 2):
            items.append(item)
    assert items == [1, 2] and closed == [True]


def test_reading_overlaps_with_training() -> None:
    """While the network works on one batch, the next is read."""
    names = set()

    def slow(epoch: int) -> Iterator[tuple[Array, Array]]:
        for batch in batches(epoch):
            names.add(threading.current_thread().name)
            time.sleep(0.001)
            yield batch

    trained(nn.data.Batches(slow, 6))
    assert "openbnns read ahead" in names
    names.clear()
    trained(nn.data.Batches(slow, 6), read_ahead=0)
    assert names == {threading.main_thread().name}


def test_a_run_that_ends_early_leaves_no_thread() -> None:
    before = threading.active_count()

    class Stop:
        def on_step(self, trainer: nn.Trainer, step: dict[str, Any]) -> None:
            if step["step"] == 2:
                raise RuntimeError("enough")

    net = nn.Sequential(nn.Linear(2))
    with pytest.raises(RuntimeError, match="enough"):
        nn.Trainer(net, quiet=True).fit(batches, epochs=1, callbacks=Stop())
    assert threading.active_count() == before


# What is refused.


def test_bad_batches() -> None:
    x, y = problem(32)
    good = (x[:16], y[:16])

    class Short(Sized):
        def __len__(self) -> int:
            return 9

    class Long(Sized):
        def __len__(self) -> int:
            return 2

    bad: list[tuple[Any, str]] = [
        ((pair for pair in [good]), "generator that can be read only once.*Pass the function that makes it"),
        ([], "epoch 1 gave 0 batches, but at least one is needed"),
        ([x, x], "batch 1 of epoch 1 is a ndarray. Give"),
        ([good, (x[:16], y[:15])], "batch 2 of epoch 1: x has 16 samples, but y has shape"),
        ([good, (x[:16, None], y[:16])], r"batch 2 .* x has shape \(16, 1, 3\), but in the first batch \(16, 3\)"),
        ([good, (np.full((2, 3), np.nan), y[:2])], r"batch 2 of epoch 1: x contains nan at \(0, 0\)"),
        ([good, (x[:2], y[:2] + 4)], "class number [45] is out of range"),
        ([good, ((x[:2], x[:2]), y[:2])], r"batch 2 .* x has parts \[0, 1\], but in the first batch \[None\]"),
        ([(x, y, np.ones(3))], r"sample_weights are float64 of shape \(3,\), but 32 samples need one number each"),
        (Short(), r"epoch 1 gave 6 batches, but len\(\) says that there are 9"),
        (Long(), r"batch 3 of epoch 1 is one too many: len\(\) says that there are 2"),
        (7, "y is missing, and x is a int, which gives no batches"),
        ({"a": x}, "y is missing"),
        (x, "y is missing"),
        ((x, x), "y is missing"),
    ]
    for given, message in bad:
        with pytest.raises((DataError, TypeError, ValueError), match=message):
            trained(given)
    with pytest.raises(TypeError, match="validation_split takes samples out of arrays"):
        nn.Trainer(nn.Linear(2), quiet=True).fit([good], epochs=1, validation_split=0.5)
    with pytest.raises(TypeError, match="sample_weights belong to arrays"):
        trained([good], sample_weights=np.ones(16))
    with pytest.raises(TypeError, match=r"Batches: 3 is not a function"):
        nn.data.Batches(3, 4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="read_ahead is -1"):
        trained(*problem(), read_ahead=-1)


def test_another_shape_from_a_transform() -> None:
    """NumPy would spread (N, 1) over (N, 3) without a word."""
    x, y = problem(32)

    def shrinking(samples: Array, targets: Array, draws: Any) -> tuple[Array, Array]:
        return (samples if 0 in draws.numbers else samples[:, :1]), targets

    with pytest.raises(ValueError, match=r"has shape \(\d+, 1\), but the network is built for \(N, 3\)"):
        trained([(x[:16], y[:16]), (x[16:], y[16:])], transforms=shrinking)


# PyTorch's loaders.


@pytest.mark.peers
@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_follows_the_seed(workers: int) -> None:
    """It shuffles, and its data set draws; both follow from seed and epoch, and its generators are left as they were."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    x, y = problem()

    class Noisy(Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return len(x)

        def __getitem__(self, index: int) -> tuple[Any, int]:
            return torch.from_numpy(x[index]) + 0.1 * torch.randn(3), int(y[index])

    def loader(**options: Any) -> Any:
        return DataLoader(Noisy(), batch_size=16, shuffle=True, num_workers=workers, **options)

    torch.manual_seed(1)
    expected = torch.randn(4)
    torch.manual_seed(1)
    first = trained(loader())
    assert torch.equal(torch.randn(4), expected)  # no numbers of other code were taken
    torch.manual_seed(99)
    np.testing.assert_array_equal(trained(loader()), first)
    seeded = [trained(loader(generator=torch.Generator().manual_seed(number))) for number in (7, 8)]
    np.testing.assert_array_equal(*seeded)
    assert not np.array_equal(trained(loader(), seed=3), first)


@pytest.mark.peers
def test_a_data_loader_of_several_inputs() -> None:
    import torch
    from torch.utils.data import DataLoader

    x, y = problem()

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(2), nn.Linear(2)

        def forward(self, a: nn.Value, b: nn.Value) -> nn.Value:
            value: nn.Value = self.one(a) + self.two(b)
            return value

    samples = [((torch.from_numpy(row), torch.from_numpy(row[:2])), int(t)) for row, t in zip(x, y, strict=True)]
    net = Two()
    history = nn.Trainer(net, optimizer=nn.Adam(0.05), quiet=True).fit(DataLoader(samples, batch_size=30), epochs=20)  # type: ignore[arg-type]
    assert history[-1]["accuracy"] > 0.9
