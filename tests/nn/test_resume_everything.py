"""With everything that a run can have: stopped anywhere and resumed, it ends with bitwise the same weights and history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from networks import numbers
from openbnns import nn
from openbnns.nn import checkpoints
from openbnns.nn.checkpoints import CheckpointError

Array = np.ndarray
EPOCHS = 4


def images() -> tuple[Array, Array]:
    x = numbers(66, 1, 8, 8)
    return x, (x[:, 0, :4].mean((1, 2)) > 0).astype(np.int64) + (x[:, 0, 4:].mean((1, 2)) > 0)


class Decaying(nn.Callback):
    """Remembers the losses, and does to the weights something that depends on all of them."""

    def __init__(self) -> None:
        self.mean, self.average = 0.0, np.zeros(3, np.float32)

    def on_step(self, trainer: nn.Trainer, step: dict[str, Any]) -> None:
        self.mean = 0.9 * self.mean + 0.1 * step["loss"]
        self.average += trainer.network.state_dict()["5.bias"]

    def on_epoch(self, trainer: nn.Trainer, record: dict[str, Any]) -> None:
        record["mean"], record["average"] = self.mean, self.average.tolist()
        for parameter in trainer.network.parameters():
            parameter.data[...] *= np.float32(1 - 0.001 * self.mean)

    def state_dict(self) -> dict[str, Any]:
        return {"mean": self.mean, "average": self.average}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.mean, self.average = state["mean"], state["average"]


class Stop:
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, trainer: nn.Trainer, step: dict[str, Any]) -> None:
        if step["step"] == self.step:
            trainer.stop("the test wants it")


class Killed(Exception):
    pass


class Die(Stop):
    def on_step(self, trainer: nn.Trainer, step: dict[str, Any]) -> None:
        if step["step"] == self.step:
            raise Killed


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(4, 3, padding=1), nn.BatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(3)
    )


def batches(epoch: int) -> Iterator[tuple[Array, Array, Array]]:
    x, y = images()
    order = np.random.RandomState(epoch).permutation(66)
    for start in range(0, 66, 7):
        chosen = order[start : start + 7]
        yield x[chosen], y[chosen], 1 + chosen % 3


KINDS: dict[str, dict[str, Any]] = {
    "arrays": {"validation_split": 0.2, "sample_weights": 1 + np.arange(66) % 3, "class_weights": "balanced"},
    "batches": {"validation": images(), "class_weights": [1, 2, 3]},
    "mapped": {"validation_split": 0.2},
}


def fit(
    folder: Path,
    kind: str,
    *,
    resume: bool | str = False,
    stop: Any = None,
    said: list[str] | None = None,
    **options: Any,
) -> tuple[Array, list[dict[str, Any]]]:
    x, y = images()
    given: tuple[Any, ...] = (x, y)
    if kind == "batches":
        given = (nn.data.Batches(batches, 10),)
    if kind == "mapped":
        folder.mkdir(exist_ok=True)
        np.save(folder / "x.npy", x.astype(np.float64))
        given = (np.load(folder / "x.npy", mmap_mode="r"), y)
    net = network()
    changed = {
        "optimizer": nn.Adam(0.01), "schedule": "cosine", "batch_size": 7, "accumulate": 2, "clip_norm": 1.0, "seed": 3,
        "metrics": ["accuracy", "f1", "auc"], "early_stopping": nn.EarlyStopping(9, "validation_f1"), **options,
    }  # fmt: skip
    changes = changed.pop(
        "transforms",
        [
            nn.transforms.Crop(8, padding=1),
            nn.transforms.Flip(),
            nn.transforms.Noise(0.1),
            nn.transforms.Mixup(0.4, classes=3),
        ],
    )
    fitted = {**KINDS[kind], **({"class_weights": changed.pop("class_weights")} if "class_weights" in changed else {})}
    trainer = nn.Trainer(net, out=folder, say=(lambda text: None) if said is None else said.append, **changed)
    called = [Decaying(), stop] if stop is not None else [Decaying()]
    history = trainer.fit(*given, epochs=EPOCHS, resume=resume, transforms=changes, callbacks=called, **fitted)
    last = checkpoints.read(checkpoints.list_files(folder)[0]).arrays  # the best weights are back in the network by now
    arrays = [*net.state_dict().values(), *(last[name] for name in sorted(last))]
    return np.concatenate([array.ravel() for array in arrays]), history


def plain(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without times."""
    return [{k: v for k, v in record.items() if k not in ("seconds", "phase_seconds")} for record in history]


@pytest.fixture(scope="module", params=list(KINDS))
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Array, list[Any]]:
    weights, history = fit(tmp_path_factory.mktemp("whole"), request.param)
    return request.param, weights, plain(history)


@pytest.mark.parametrize("step", [1, 3, 4, 5, 9, 12, 15])
def test_stopped_and_resumed(whole: tuple[str, Array, list[Any]], tmp_path: Path, step: int) -> None:
    """In the middle of an epoch, at its end, in the first and in the last one."""
    kind, weights, history = whole
    said: list[str] = []
    _, begun = fit(tmp_path, kind, stop=Stop(step), said=said)
    assert any(line.startswith("Stopped ") and "the test wants it" in line for line in said)
    assert len(begun) < EPOCHS
    again, resumed = fit(tmp_path, kind, resume=True, said=said)
    assert any(line.startswith("Resuming at epoch") and f"step {step + 1}." in line for line in said)
    np.testing.assert_array_equal(again, weights)
    assert plain(resumed) == history


@pytest.mark.parametrize("step", [2, 13])
def test_killed_and_resumed(whole: tuple[str, Array, list[Any]], tmp_path: Path, step: int) -> None:
    """Nothing is saved then; the run goes on from the end of the epoch before."""
    kind, weights, history = whole
    with pytest.raises(Killed):
        fit(tmp_path, kind, stop=Die(step))
    again, resumed = fit(tmp_path, kind, resume=True)
    np.testing.assert_array_equal(again, weights)
    assert plain(resumed) == history


def test_stopped_again_and_again(whole: tuple[str, Array, list[Any]], tmp_path: Path) -> None:
    kind, weights, history = whole
    for step in (1, 2, 4, 7, 11):
        fit(tmp_path, kind, resume=True, stop=Stop(step))
    again, resumed = fit(tmp_path, kind, resume=True)
    np.testing.assert_array_equal(again, weights)
    assert plain(resumed) == history


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "accumulation": ({"accumulate": 3}, "gradient accumulation: 2 in the checkpoint, 3 now"),
    "transforms": ({"transforms": [nn.transforms.Flip()]}, r"transforms: \['Crop\(.*\['Flip\("),
    "an option": (
        {"transforms": [nn.transforms.Crop(8, padding=2)]},
        r"transforms: \['Crop\(.*padding=1.* in the checkpoint, \['Crop\(.*padding=2",
    ),
    "class weights": (
        {"class_weights": [3, 2, 1]},
        r"class weights: \[.*\] in the checkpoint, \[3\.0, 2\.0, 1\.0\] now",
    ),
    "metrics": (
        {"metrics": ["accuracy", nn.metrics.F1(average="micro"), "auc"]},
        r"metrics: \['accuracy', 'f1', 'auc'\] in the checkpoint, .*f1: F1\(average='micro'",
    ),
    "stopping": (
        {"early_stopping": nn.EarlyStopping(9, "validation_auc")},
        r"early stopping: \"EarlyStopping\(9, 'validation_f1'\)\" in the checkpoint",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_settings_are_refused_or_overridden(tmp_path: Path, change: str) -> None:
    options, message = CHANGES[change]
    fit(tmp_path, "arrays", stop=Stop(9))
    with pytest.raises(CheckpointError, match=message) as caught:
        fit(tmp_path, "arrays", resume=True, **options)
    assert len(str(caught.value).splitlines()) == 3  # this difference, and no other one
    said: list[str] = []
    _, history = fit(tmp_path, "arrays", resume="override", said=said, **options)
    assert len(history) == EPOCHS
    restarted = change not in ("stopping",)
    assert ("Epoch 3 starts again: the samples or their order differ." in said) == restarted
    unlike = change in ("class weights", "metrics", "stopping")
    assert ("The best epoch so far no longer counts: it was chosen by another measure." in said) == unlike


def test_other_batches_are_refused(tmp_path: Path) -> None:
    x, y = images()

    def run(given: Any, resume: bool = False) -> None:
        nn.Trainer(network(), out=tmp_path, quiet=True).fit(given, epochs=2, resume=resume)

    pieces = [(x[:33], y[:33]), (x[33:], y[33:])]
    run(pieces)
    run(pieces, True)
    run(nn.data.Batches(lambda: iter(pieces), 2), True)
    with pytest.raises(
        CheckpointError, match=r"training data: 2 batches of shape \(1, 8, 8\), float32 and int64, but with other"
    ):
        run(pieces[::-1], True)
    with pytest.raises(CheckpointError, match=r"training data: 2 batches .* in the checkpoint, 3 batches"):
        run([*pieces, pieces[0]], True)
    with pytest.raises(CheckpointError, match=r"training data: 2 batches .* in the checkpoint, 66 samples"):
        nn.Trainer(network(), out=tmp_path, quiet=True).fit(x, y, epochs=2, resume=True)


def test_a_signal_at_the_last_step_of_an_epoch(tmp_path: Path) -> None:
    """The epoch is ended first, so that the checkpoint is one between epochs."""
    import os
    import signal

    x, y = images()

    class Signal:
        def on_step(self, trainer: nn.Trainer, step: dict[str, Any]) -> None:
            if step["step"] == 6:
                os.kill(os.getpid(), signal.SIGTERM)

    def run(resume: bool = False, callbacks: Any = None, epochs: int = 4) -> Array:
        net = network()
        trainer = nn.Trainer(net, out=tmp_path / "run", batch_size=22, seed=1, quiet=True)
        trainer.fit(x, y, epochs=epochs, resume=resume, callbacks=callbacks)
        return np.concatenate([array.ravel() for array in net.state_dict().values()])

    with pytest.raises(nn.Interrupted, match=r"Stopped by SIGTERM after epoch 2\. Go on from .*checkpoint-000000006"):
        run(callbacks=Signal())
    checkpoint = checkpoints.read(checkpoints.list_files(tmp_path / "run")[0])
    assert (checkpoint.state["epoch"], checkpoint.state["batch"]) == (2, 0)
    resumed = run(resume=True)
    np.testing.assert_array_equal(resumed, run())


def test_a_moving_average_is_resumed(tmp_path: Path) -> None:
    x, y = images()

    def run(folder: Path, resume: bool = False, stop: int = 0) -> Array:
        net = network()
        ema = nn.EMA(net, decay=0.9)
        trainer = nn.Trainer(net, out=folder, batch_size=22, seed=1, quiet=True)
        trainer.fit(x, y, epochs=3, resume=resume, callbacks=[ema, Stop(stop)])
        return np.concatenate([array.ravel() for array in ema.state_dict().values()])

    whole = run(tmp_path / "whole")
    run(tmp_path / "cut", stop=5)
    np.testing.assert_array_equal(run(tmp_path / "cut", resume=True), whole)


def test_what_a_callback_remembers_must_be_plain(tmp_path: Path) -> None:
    class Bad(nn.Callback):
        def on_epoch(self, trainer: nn.Trainer, record: dict[str, Any]) -> None: ...

        def state_dict(self) -> dict[str, Any]:
            return {"array": [np.zeros(3)]}

    with pytest.raises(TypeError, match=r"Bad\.state_dict gave what JSON cannot hold"):
        nn.Trainer(network(), out=tmp_path, quiet=True).fit(*images(), epochs=1, callbacks=Bad())
