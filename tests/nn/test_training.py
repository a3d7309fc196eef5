"""Training: learning, schedules, stopping and going on, damaged checkpoints, data from files, bad input."""

from __future__ import annotations

import gzip
import json
import os
import signal
import struct
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from openbnns import nn
from openbnns.nn import checkpoints, data, schedules
from openbnns.nn.checkpoints import CheckpointError
from openbnns.nn.trainer import Diverged
from training_runs import Array, fit, network, points, weights_of

# Learning.


@pytest.mark.parametrize(
    "optimizer", [nn.Adam(0.02), nn.AdamW(0.02), nn.SGD(0.3, 0.9, nesterov=True), nn.RMSprop(0.01)]
)
def test_it_learns(optimizer: nn.Optimizer) -> None:
    x, y = points(256)
    net = nn.Sequential(nn.Linear(16), nn.Tanh(), nn.Linear(2))
    history = nn.Trainer(net, "cross_entropy", optimizer, seed=1, quiet=True).fit(x, y, epochs=40)
    assert history[-1]["accuracy"] > 0.9
    assert history[-1]["loss"] < 0.5 * history[0]["loss"]
    assert set(history[0]) >= {"epoch", "step", "loss", "accuracy", "learning_rate", "seconds", "gradient_norms"}


def test_regression_with_a_metric_of_ones_own() -> None:
    x = np.linspace(-2, 2, 101, dtype=np.float32)[:, None]
    y = np.sin(2 * x)
    net = nn.Sequential(nn.Linear(32), nn.Tanh(), nn.Linear(1))
    worst = {"worst": lambda outputs, targets: float(np.abs(outputs - targets).max())}
    trainer = nn.Trainer(net, nn.MSELoss(), nn.Adam(0.02), metrics=worst, quiet=True)
    trainer.fit(x, y, epochs=150)
    result = trainer.evaluate(x, y)
    assert result["loss"] < 1e-2 and result["worst"] < 0.5
    np.testing.assert_allclose(np.mean((trainer.predict(x) - y) ** 2), result["loss"], rtol=1e-4)


def test_the_same_seed_gives_the_same_weights() -> None:
    x, y = points()
    results = []
    for seed in (3, 3, 4):
        net = network()
        nn.Trainer(net, seed=seed, quiet=True).fit(x, y, epochs=2)
        results.append(weights_of(net))
    np.testing.assert_array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])


def test_early_stopping_goes_back_to_the_best_weights() -> None:
    x, y = points(40)
    tested = points(200, seed=5)
    net = nn.Sequential(nn.Linear(64), nn.Tanh(), nn.Linear(2))
    trainer = nn.Trainer(net, optimizer=nn.Adam(0.1), early_stopping=4, quiet=True)
    history = trainer.fit(x, y, epochs=200, validation=tested)
    assert len(history) < 200
    best = min(record["validation_loss"] for record in history)
    assert trainer.evaluate(*tested)["loss"] == pytest.approx(best, rel=1e-5)


def test_early_stopping_needs_validation() -> None:
    with pytest.raises(
        ValueError, match=r"early_stopping selects by the validation loss, but there is no validation data"
    ):
        nn.Trainer(network(), early_stopping=2, quiet=True).fit(*points(), epochs=3)


def test_data_without_information_is_reported() -> None:
    x, y = points(20)
    said: list[str] = []
    nn.Trainer(network(), say=said.append).fit(x, 0 * y, epochs=1, validation=(x.copy(), y))
    assert said[:2] == [
        "All 20 training samples have the same class: there is nothing to tell apart.",
        "The validation samples are the training samples, so they do not show how well it does on new ones.",
    ]


def test_clipping_limits_the_step() -> None:
    x, y = points(32)
    net = nn.Sequential(nn.Linear(2)).build((2,), seed=0)
    before = weights_of(net).copy()
    nn.Trainer(net, optimizer=nn.SGD(1.0), clip_norm=1e-3, batch_size=32, quiet=True).fit(100 * x, y, epochs=1)
    assert np.linalg.norm(weights_of(net) - before) == pytest.approx(1e-3, rel=1e-3)


def test_schedules() -> None:
    def factors(name: str, total: int) -> list[float]:
        schedule = schedules.NAMED[name]()
        return [schedule(step, total) for step in range(total)]

    assert factors("constant", 3) == [1, 1, 1]
    assert factors("step", 9) == pytest.approx([1, 1, 1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01])
    along = [(1 + np.cos(np.pi * i / 10)) / 2 for i in range(10)]
    assert factors("cosine", 10) == pytest.approx(along)
    assert factors("warmup", 80) == pytest.approx([0.25, 0.5, 0.75, 1] + [1] * 76)
    assert factors("warmup_cosine", 14) == pytest.approx([1, *((1 + np.cos(np.pi * i / 13)) / 2 for i in range(13))])
    x, y = points(32)
    trainer = nn.Trainer(network(), optimizer=nn.SGD(0.5), schedule="cosine", batch_size=16, quiet=True)
    rates = [record["learning_rate"] for record in trainer.fit(x, y, epochs=4)]
    assert rates == pytest.approx([0.25 * (1 + np.cos(np.pi * i / 8)) for i in (1, 3, 5, 7)])


# Checkpoints.


run = partial(fit, schedule="cosine")


class Killed(Exception):
    pass


@pytest.mark.parametrize("step", [1, 6, 7, 20, 35])
def test_resumed_is_bitwise_uninterrupted(tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the run was killed."""
    whole = run(tmp_path / "whole", 6)
    count = 0
    take = nn.Optimizer.step

    def dying(self: nn.Optimizer) -> None:
        nonlocal count
        count += 1
        if count == step:
            raise Killed
        take(self)

    monkeypatch.setattr(nn.Optimizer, "step", dying)
    with pytest.raises(Killed):
        run(tmp_path / "cut", 6)
    monkeypatch.undo()
    np.testing.assert_array_equal(run(tmp_path / "cut", 6, resume=True), whole)


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", 6)
    run(tmp_path / "cut", 6)
    files = checkpoints.list_files(tmp_path / "cut")
    assert len(files) == checkpoints.KEPT
    bytes_ = bytearray(files[0].read_bytes())
    bytes_[-5] ^= 1
    files[0].write_bytes(bytes_)
    said: list[str] = []
    np.testing.assert_array_equal(run(tmp_path / "cut", 6, resume=True, said=said), whole)
    assert "Skipping a damaged checkpoint" in said[0] and "checksum is wrong" in said[0]
    for path in checkpoints.list_files(tmp_path / "cut"):
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="all 2 checkpoints are damaged"):
        run(tmp_path / "cut", 6, resume=True)


def test_a_new_run_in_the_same_folder_keeps_its_own_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints of an earlier, longer run neither displace them nor are resumed from."""
    run(tmp_path / "both", 9)
    before = {p.name: p.read_bytes() for p in checkpoints.list_files(tmp_path / "both")}
    count = 0
    take = nn.Optimizer.step

    def dying(self: nn.Optimizer) -> None:
        nonlocal count
        count += 1
        if count == 20:
            raise Killed
        take(self)

    monkeypatch.setattr(nn.Optimizer, "step", dying)
    said: list[str] = []
    with pytest.raises(Killed):
        run(tmp_path / "both", 6, said=said)
    monkeypatch.undo()
    assert "files of an earlier run are now in" in said[0]
    earlier = checkpoints.list_files(tmp_path / "both" / checkpoints.EARLIER)
    assert {p.name: p.read_bytes() for p in earlier} == before
    np.testing.assert_array_equal(run(tmp_path / "both", 6, resume=True), run(tmp_path / "whole", 6))


def test_evaluation_refuses_what_training_refuses() -> None:
    trainer = nn.Trainer(network(), quiet=True)
    with pytest.raises(ValueError, match="class number 2 is out of range"):
        trainer.evaluate(np.zeros((3, 2), np.float32), [0, 1, 2])
    with pytest.raises(ValueError, match="there are no samples"):
        trainer.predict(np.zeros((0, 2), np.float32))
    lookup = nn.Sequential(nn.Embedding(4, 3), nn.Flatten(), nn.Linear(2))
    with pytest.raises(ValueError, match="Pass integers"):
        nn.Trainer(lookup, quiet=True).fit(np.zeros((3, 2), np.float32), [0, 1, 1], epochs=1)


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    run(tmp_path, 2)
    x, y = points()
    other = nn.Sequential(nn.Linear(8), nn.Tanh(), nn.Linear(2))
    with pytest.raises(CheckpointError, match=r"seed: 2 in the checkpoint, 0 now\n.*0.bias: shape \[16\].*\[8\] now"):
        nn.Trainer(other, batch_size=16, out=tmp_path, quiet=True).fit(x, y, epochs=3, resume=True)
    with pytest.raises(CheckpointError, match="resume needs the folder"):
        nn.Trainer(network(), quiet=True).fit(x, y, epochs=3, resume=True)


def test_a_checkpoint_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the old file stays, and no partial file is left."""
    run(tmp_path, 4)
    checkpoints.list_files(tmp_path)[0].unlink()
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device; .*checkpoint-000000024\.safetensors"):
        run(tmp_path, 4, resume=True)
    monkeypatch.undo()
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from training_runs import fit
fit(Path({folder!r}), 200, {resume}, schedule="cosine")
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_and_resumed(tmp_path: Path, how: signal.Signals) -> None:
    def start(resume: bool) -> subprocess.Popen[bytes]:
        text = PROGRAM.format(tests=str(Path(__file__).parents[1]), folder=str(tmp_path / "cut"), resume=resume)
        return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    process = start(False)
    deadline = time.monotonic() + 60
    while len(checkpoints.list_files(tmp_path / "cut") if (tmp_path / "cut").exists() else []) < 2:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    process.send_signal(how)
    assert process.wait(60) != 0
    assert start(True).wait(120) == 0
    whole = run(tmp_path / "whole", 200)
    checkpoint = checkpoints.read(checkpoints.list_files(tmp_path / "cut")[0])
    np.testing.assert_array_equal(np.concatenate([a.ravel() for a in checkpoint.part("network").values()]), whole)


# When numbers go wrong.


def test_divergence_names_step_and_place(tmp_path: Path) -> None:
    x, y = points()
    net = nn.Sequential(nn.Linear(16), nn.ReLU(), nn.Linear(2))
    trainer = nn.Trainer(net, optimizer=nn.SGD(1e30), batch_size=16, out=tmp_path, quiet=True)
    with pytest.raises(
        Diverged,
        match=r"became (nan|inf|-inf) in epoch 1, step \d+\. .*(first layer|no longer finite).*smaller learning",
    ):
        trainer.fit(x, y, epochs=3)
    good = nn.Trainer(network(), batch_size=16, out=tmp_path, quiet=True)
    good.fit(x, y, epochs=1)
    kept = checkpoints.list_files(tmp_path)[0]
    bad = nn.Trainer(network(), optimizer=nn.SGD(1e38), batch_size=16, out=tmp_path, quiet=True)
    with pytest.raises(Diverged, match=f"last good checkpoint is .*{kept.name}"):
        bad.fit(x, y, epochs=3)
    checkpoints.read(kept)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.zeros((0, 2)), np.zeros(0, int), "there are no samples"),
        (np.zeros((3, 2)), np.zeros(4, int), "x has 3 samples, but y has shape"),
        ([[1.0, 2.0], [3.0]], [0, 1], "is ragged"),
        (np.array([[1.0, np.nan]]), [0], r"x contains nan at \(0, 1\)"),
        (np.array([[1.0, np.inf]]), [0], r"x contains inf at \(0, 1\)"),
        (np.zeros((3, 2)), [0, 1, 2], "class number 2 is out of range"),
        (np.zeros((3, 2)), [0.0, 1.0, 1.0], "class numbers as integers"),
        (np.array([["a", "b"]]), [0], "numbers are needed"),
    ],
)
def test_bad_data_is_refused_before_the_first_step(x, y, message: str) -> None:
    net = nn.Sequential(nn.Linear(2)).build((2,), seed=0)
    before = weights_of(net).copy()
    with pytest.raises((ValueError, TypeError), match=message):
        nn.Trainer(net, quiet=True).fit(x, y, epochs=1)
    np.testing.assert_array_equal(weights_of(net), before)


def test_bad_settings() -> None:
    net = network()
    with pytest.raises(ValueError, match=r"optimizer 'adm' is not known\. Did you mean 'adam'"):
        nn.Trainer(net, optimizer="adm")
    with pytest.raises(ValueError, match=r"loss 'cross_entopy' is not known\. Did you mean 'cross_entropy'"):
        nn.Trainer(net, loss="cross_entopy")
    with pytest.raises(TypeError, match="network must be"):
        nn.Trainer(lambda x: x)
    for make in (
        lambda: nn.Trainer(net, batch_size=0), lambda: nn.Trainer(net, clip_norm=0), lambda: nn.Adam(-1),
        lambda: nn.SGD(momentum=2), lambda: nn.Adam(betas=(0.9, 1.5)), lambda: nn.StepLR(step_size=0),
        lambda: nn.Trainer(net, quiet=True).fit(*points(), epochs=0),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            make()


# Data.


def test_single_numbers_are_no_samples(tmp_path: Path) -> None:
    for x, y, name in ((np.float32(3), [0], "x"), ([[1.0]], np.int64(0), "y"), (np.uint8(3), [0], "x")):
        np.savez(tmp_path / "one.npz", x=x, y=y)
        with pytest.raises(data.DataError, match=rf"one\.npz: {name} is the single number .*one entry per sample"):
            data.load(tmp_path / "one.npz")
    with pytest.raises(data.DataError, match=r"Trainer\.fit: x is the single number 1\.0"):
        nn.Trainer(nn.Sequential(nn.Linear(1)), "mse", quiet=True).fit(np.float32(1), np.float32(2))


def test_probabilities_as_targets() -> None:
    """One-hot targets train as class numbers do, and are measured alike; other probabilities have a loss of their own."""
    x, y = points()
    histories = []
    for targets in (y, np.eye(2, dtype=np.float32)[y], np.eye(2, dtype=np.int64)[y]):
        net = nn.Sequential(nn.Linear(8), nn.Tanh(), nn.Linear(2))
        histories.append(nn.Trainer(net, seed=1, quiet=True).fit(x, targets, epochs=2, validation=(x, targets)))
    for other in histories[1:]:
        for mine, theirs in zip(histories[0], other, strict=True):
            for name in ("loss", "accuracy", "validation_loss", "validation_accuracy"):
                assert mine[name] == theirs[name], name
    scores, wanted = np.float32([[1, 2, 0]]), np.float32([[0.2, 0.5, 0.3]])
    p = np.exp(scores) / np.exp(scores).sum()
    value, gradient = nn.CrossEntropyLoss()(scores, wanted)
    assert value == pytest.approx(float(-(wanted * np.log(p)).sum()), rel=1e-5)
    np.testing.assert_allclose(gradient, p - wanted, atol=1e-6)
    with pytest.raises(
        ValueError, match=r"targets have shape \(1, 2\), but scores .*or probabilities in their own shape"
    ):
        nn.CrossEntropyLoss()(scores, wanted[:, :2])
    with pytest.raises(TypeError, match=r"validation must be a pair \(x, y\)"):
        nn.Trainer(net, quiet=True).fit(x, y, validation=x)  # type: ignore[arg-type]


def test_numbers_of_a_run_are_checked() -> None:
    net = nn.Sequential(nn.Linear(2))
    for arguments, error, message in (
        ({"seed": -1}, ValueError, "Trainer: seed is -1. It must be 0 to 4294967295."),
        ({"seed": 2**32}, ValueError, "Trainer: seed is 4294967296."),
        ({"seed": "a"}, TypeError, "Trainer: seed must be a whole number, not 'a'."),
        ({"seed": 2.5}, TypeError, "Trainer: seed must be a whole number, not 2.5."),
        ({"batch_size": 0}, ValueError, "Trainer: batch_size is 0. It must be at least 1."),
        ({"batch_size": 2.5}, TypeError, "Trainer: batch_size must be a whole number"),
    ):
        with pytest.raises(error, match=message.replace(".", r"\.")):
            nn.Trainer(net, "mse", **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Sequential\.build: seed is -1"):
        net.build((3,), seed=-1)
    with pytest.raises(ValueError, match=r"data\.load: seed is -1"):
        data.load("digits", seed=-1)
    with pytest.raises(TypeError, match=r"Trainer\.fit: epochs must be a whole number, not 1\.5"):
        nn.Trainer(net, "mse").fit(np.zeros((2, 3)), np.zeros((2, 2)), epochs=1.5)  # type: ignore[arg-type]


def test_npz(tmp_path: Path) -> None:
    x, y = points(50)
    np.savez(tmp_path / "a.npz", x=x, y=y)
    loaded = data.load(tmp_path / "a.npz")
    assert (len(loaded.train_x), len(loaded.validation_x), len(loaded.test_x), loaded.classes) == (35, 5, 10, 2)
    pixels = np.abs(x * 9).astype(np.uint8)
    np.savez(tmp_path / "b.npz", x_train=pixels, y_train=y, x_test=pixels, y_test=y)
    assert 0 < data.load(tmp_path / "b.npz").test_x.max() <= 1
    np.savez(tmp_path / "b.npz", x_train=pixels, y_train=y, x_test=x, y_test=y)
    with pytest.raises(data.DataError, match="samples are uint8 to train on, but float32 in the test part"):
        data.load(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", z=x)
    with pytest.raises(data.DataError, match="has arrays z, but x and y"):
        data.load(tmp_path / "c.npz")
    (tmp_path / "d.npz").write_bytes(b"nonsense")
    with pytest.raises(data.DataError, match=r"cannot be read as \.npz"):
        data.load(tmp_path / "d.npz")


def test_npz_never_unpickles(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{}], object), y=np.zeros(1))
    with pytest.raises(data.DataError):
        data.load(tmp_path / "a.npz")


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b,label\n" + "\n".join(f"{i},{i / 2},{i % 3}" for i in range(10)) + "\n")
    loaded = data.load(path)
    assert loaded.sample_shape == (2,) and loaded.classes == 3 and len(loaded.train_x) == 7
    with pytest.raises(data.DataError, match="no such file"):
        data.load(tmp_path / "none.csv")
    (tmp_path / "a.jpg").write_text("1")
    with pytest.raises(data.DataError, match="unknown kind of file"):
        data.load(tmp_path / "a.jpg")


def test_csv_with_names_of_classes(tmp_path: Path) -> None:
    path = tmp_path / "iris.csv"
    rows = [f"{i},{i / 2},{('setosa', 'virginica', 'a b')[i % 3]}" for i in range(10)]
    for head in ("", "length,width,kind\n"):
        path.write_text(head + "\n".join(rows) + "\n")
        loaded = data.load(path, standardize=False)
        assert len(loaded.train_x) == 7 and loaded.classes == 3 and loaded.task == "classification"
        assert loaded.class_names == ("a b", "setosa", "virginica")
        for x, y in loaded.parts.values():
            np.testing.assert_array_equal(np.array([1, 2, 0])[x[:, 0].astype(int) % 3], y)


@pytest.mark.parametrize(
    ("targets", "names", "numbers"),
    [
        (np.array([0, 2, 2, 0]), (), [0, 2, 2, 0]),
        (np.array([[0], [1], [2], [0]]), (), [0, 1, 2, 0]),
        (np.array([0.0, 1.0, 1.0, 3.0]), (), [0, 1, 1, 3]),
        (np.array([-1, 1, 1, -1]), ("-1", "1"), [0, 1, 1, 0]),
        (np.array([10**9, 7, 7, 7]), ("7", "1000000000"), [1, 0, 0, 0]),
        (np.array([True, False, True, True]), ("False", "True"), [1, 0, 1, 1]),
        (np.array(["b", "a", "b", "b"]), ("a", "b"), [1, 0, 1, 1]),
        (np.eye(3)[[2, 0, 1, 1]], (), [2, 0, 1, 1]),
        (np.eye(3, dtype=bool)[[2, 0, 1, 1]], (), [2, 0, 1, 1]),
    ],
)
def test_targets_that_tell_classes(tmp_path: Path, targets: Array, names: tuple[str, ...], numbers: list[int]) -> None:
    x = np.ones((2, 3), np.float32)
    np.savez(tmp_path / "a.npz", x_train=x, y_train=targets[:2], x_test=x, y_test=targets[2:])
    dataset = data.classification(data.load(tmp_path / "a.npz"))
    assert dataset.class_names == names and dataset.train_y.dtype == dataset.test_y.dtype == np.int64
    assert [*dataset.train_y, *dataset.test_y] == numbers


def test_targets_that_do_not(tmp_path: Path) -> None:
    x = np.ones((2, 3), np.float32)
    for y, message in [
        (
            np.array([0.5, 1]),
            r"a\.npz: sample 1 has the target 0\.5, which is not a class.*nn\.Trainer\(net, \"mse\"\)",
        ),
        (np.ones((2, 2)), r"targets have shape \(2, 2\), but one class per sample is needed"),
    ]:
        np.savez(tmp_path / "a.npz", x_train=x, y_train=y, x_test=x, y_test=y)
        with pytest.raises(data.DataError, match=message):
            data.classification(data.load(tmp_path / "a.npz"))


def idx(array: Array) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def test_idx(tmp_path: Path) -> None:
    images = np.random.RandomState(0).randint(0, 256, (12, 5, 4)).astype(np.uint8)
    labels = np.arange(12).astype(np.uint8) % 10
    for part in ("train", "t10k"):
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))
    loaded = data.load(tmp_path, validation_share=0)
    np.testing.assert_allclose(loaded.train_x[:, 0], images / 255, rtol=1e-6)
    np.testing.assert_array_equal(loaded.test_y, labels)
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(labels)[:-1])
    with pytest.raises(data.DataError, match="should hold"):
        data.load(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(data.DataError, match="has no t10k-labels"):
        data.load(tmp_path)


def test_history_is_written(tmp_path: Path) -> None:
    run(tmp_path, 2)
    assert [record["epoch"] for record in json.loads((tmp_path / "history.json").read_text())] == [1, 2]


def test_resumed_with_random_layers(tmp_path: Path) -> None:
    """Masks of dropout and of attention follow from the seed and the step, also in the first step after the interruption."""
    generator = np.random.default_rng(0)
    x, y = generator.standard_normal((48, 6, 8)).astype(np.float32), generator.integers(0, 3, 48)

    def trained(epochs: int, resume: bool = False) -> Array:
        net = nn.Sequential(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3), nn.LSTM(8, num_layers=2, dropout=0.3), nn.Flatten(), nn.Linear(3)
        )  # fmt: skip
        trainer = nn.Trainer(net, optimizer=nn.Adam(0.01), batch_size=16, seed=2, out=tmp_path, quiet=True)
        trainer.fit(x, y, epochs=epochs, resume=resume)
        return weights_of(net)

    whole = trained(3)
    trained(1)
    np.testing.assert_array_equal(trained(3, resume=True), whole)
