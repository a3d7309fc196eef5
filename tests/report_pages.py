"""Reports of made-up runs, one for each kind of result, for the tests of the page (``python tests/report_pages.py FOLDER``)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import benchmark_results
from helpers import Array
from openbnns import nn, report
from openbnns.nn.profiling import Profile
from openbnns.nn.recording import input_shapes

LONG = "a class with quite a long name that goes on and on"
HOSTILE = '</script><img src=x onerror="alert(1)">'


def _history(network: nn.Module, epochs: int, metric: str = "accuracy", validated: bool = True) -> list[dict[str, Any]]:
    random = np.random.RandomState(7)
    names = [name for name, _ in network.named_parameters()]
    records = []
    for epoch in range(1, epochs + 1):
        fall = np.exp(-epoch / 6)
        record: dict[str, Any] = {
            "epoch": epoch, "step": 40 * epoch, "learning_rate": 0.002 * (1 + np.cos(np.pi * epoch / epochs)) / 2,
            "loss": 2.3 * fall + 0.02 * random.random_sample() + 0.01, metric: 1 - 0.9 * fall,
        }  # fmt: skip
        if validated:
            rise = 0.02 * max(0, epoch - 12)
            record["validation_loss"] = 2.3 * fall + 0.08 + rise + 0.02 * random.random_sample()
            record[f"validation_{metric}"] = max(0.4, 0.97 - 0.85 * fall - rise / 4)
        record["seconds"] = 0.7 + 0.1 * random.random_sample()
        record["phase_seconds"] = {"data": 0.02, "forward": 0.25, "backward": 0.35, "step": 0.05, "validation": 0.03}
        size = random.random_sample(len(names)) * fall
        record["gradient_norms"] = {
            name: float(0.01 * (i + 1) * s) for i, (name, s) in enumerate(zip(names, size, strict=True))
        }
        record["weight_norms"] = {name: 1.0 + 0.3 * i + 0.02 * epoch for i, name in enumerate(names)}
        records.append(record)
    return records


def _scores(classes: int, count: int, sharpness: float = 2.0) -> tuple[Array, Array]:
    """Outputs and targets; a class is taken for one of its neighbours now and then."""
    random = np.random.RandomState(classes)
    weights = 1 / (3 + np.arange(classes) % 7)
    targets = random.choice(classes, count, p=weights / weights.sum())
    outputs = 0.7 * random.standard_normal((count, classes))
    outputs[np.arange(count), targets] += sharpness + 2.2
    outputs[np.arange(count), (targets + 1) % classes] += sharpness
    return outputs.astype(np.float32), targets


def _split(targets: Array) -> dict[str, Array]:
    return {"training": np.tile(targets, 7), "validation": targets[: len(targets) // 2], "test": targets}


def _classification(path: Path, classes: int, count: int, names: list[str], **more: Any) -> None:
    outputs, targets = _scores(classes, count)
    network = more.pop("network", None) or nn.models.mlp(classes).build((16,), seed=0)
    samples = more.pop("samples", np.random.RandomState(3).standard_normal((count, 16)).astype(np.float32))
    arguments: dict[str, Any] = {
        "title": f"mlp on {path.stem}.csv", "network": network, "history": _history(network, 20),
        "settings": {"data": f"{path.stem}.csv", "model": "mlp", "batch size": 32, "optimizer": "adam", "seed": 3},
        "command": f"openbnns train --data {path.stem}.csv --model mlp --epochs 20 --seed 3",
        "test": {"loss": 0.1234, "accuracy": float((outputs.argmax(1) == targets).mean())},
        "samples": samples, "outputs": outputs, "targets": targets, "class_names": names, "epoch": None,
        "parts": _split(targets), "profile": _profile(network), "notes": ["3 samples occur in two parts."],
    }  # fmt: skip
    arguments |= more
    if arguments["epoch"] is None:
        arguments["epoch"] = min(arguments["history"], key=lambda record: record["validation_loss"])["epoch"]
    report.write(path, **arguments)


@cache
def _profile_of(kind: str) -> Profile:
    network = nn.models.mlp(3).build((16,), seed=0)
    return network.profile(np.zeros((8, 16), np.float32), repeats=1)


def _profile(network: nn.Module) -> Profile:
    return (
        _profile_of("mlp")
        if not network.built
        else network.profile(np.zeros((4, *input_shapes(network)[0][1:]), np.float32), repeats=1)
    )


def two(path: Path) -> None:
    _classification(path, 2, 120, ["benign", "malignant"])


def digits(path: Path) -> None:
    """Ten classes of images."""
    images = np.random.RandomState(0).random_sample((300, 1, 12, 12)).astype(np.float32)
    _classification(path, 10, 300, [], samples=images, network=nn.models.cnn(10).build((1, 12, 12), seed=0))


def colors(path: Path) -> None:
    """Twenty-five classes of large standardized images with channels, whose pictures must be made smaller."""
    images = np.random.RandomState(0).standard_normal((200, 3, 96, 128)).astype(np.float32)
    names = [f"kind {i}" for i in range(25)]
    _classification(path, 25, 200, names, samples=images, profile=False)


def hundred(path: Path) -> None:
    names = [f"{name} {i}" for i in range(25) for name in ("beaver", "orchid", "streetcar", LONG)]
    _classification(path, 100, 4000, names)


def thousand(path: Path) -> None:
    _classification(path, 1000, 6000, [f"synset {i}" for i in range(1000)])


def perfect(path: Path) -> None:
    """Nothing is wrong, and one class has no samples."""
    targets = np.arange(60) % 2
    outputs = 9 * np.eye(3, dtype=np.float32)[targets]
    _classification(path, 3, 60, ["a", "b", "never"], outputs=outputs, targets=targets, parts=_split(targets))


def lazy(path: Path) -> None:
    """Always the most frequent class, and sure of it."""
    targets = (np.arange(50) % 5 == 0).astype(np.int64)
    outputs = np.tile(np.float32([4, -4]), (50, 1))
    _classification(path, 2, 50, ["no", "yes"], outputs=outputs, targets=targets, parts=_split(targets))


def hostile(path: Path) -> None:
    """Names that would be markup, or too long for a phone."""
    names = [HOSTILE, "x" * 200, "ordinary", "quotes \" ' and & <b>"]
    _classification(
        path, 4, 90, names, title=HOSTILE, command=f"openbnns train --data '{HOSTILE}'", notes=[HOSTILE],
        settings={"data": "y" * 150, "seed": HOSTILE},
    )  # fmt: skip


def regression(path: Path) -> None:
    random = np.random.RandomState(1)
    targets = 150 + 77 * random.standard_normal(1500)
    outputs = (targets + 30 * random.standard_normal(1500) * (0.3 + np.abs(targets) / 200)).astype(np.float32)
    network = nn.models.mlp(1).build((10,), seed=0)
    report.write(
        path, title="mlp on diabetes.csv", network=network, history=_history(network, 60, "mae"),
        settings={"data": "diabetes.csv", "seed": 0}, command="openbnns train --data diabetes.csv --task regression",
        test={"loss": 2900.0, "mae": 43.1}, samples=random.standard_normal((1500, 10)).astype(np.float32),
        outputs=outputs[:, None], targets=targets, epoch=60, parts=_split(targets), profile=_profile(network),
    )  # fmt: skip


def outputs(path: Path) -> None:
    """Several numbers at a time, an evaluation without a history, and a section of its own."""
    random = np.random.RandomState(1)
    targets = random.standard_normal((80, 5)).astype(np.float32)
    extra = report.Section(
        "costs", "Costs", [report.Panel("Time", report.table(("month", "hours"), [("May", "1.25"), ("June", "1.31")]))]
    )
    report.write(
        path, title="five numbers", network=None, settings={"data": "five.npz"}, command="", outputs=targets + 0.1,
        targets=targets, class_names=["x", "y", "z", "angle", LONG], sections=[extra],
    )  # fmt: skip


def labels(path: Path) -> None:
    random = np.random.RandomState(1)
    targets = (random.random_sample((90, 6)) < 0.3).astype(np.int64)
    report.write(
        path, title="tags", network=None, settings={"data": "tags.npz"}, command="openbnns evaluate out/m.safetensors tags.npz",
        outputs=(targets + 0.6 * random.standard_normal(targets.shape) - 0.5).astype(np.float32), targets=targets,
        class_names=["sun", "sea", "sand", "snow", "sky", "soil"], test={"loss": 0.4},
    )  # fmt: skip


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.act, self.two = nn.Linear(16), nn.GELU(), nn.Linear(16)

    def forward(self, x: nn.Value) -> nn.Value:
        value: nn.Value = x + self.two(self.act(self.one(x)))
        return value


def deep(path: Path) -> None:
    """Many layers and many epochs."""
    network = nn.Sequential(nn.Linear(16), *(_Block() for _ in range(8)), nn.Linear(3)).build((16,), seed=0)
    _classification(path, 3, 60, ["a", "b", "c"], network=network, history=_history(network, 400), epoch=400)


def one_epoch(path: Path) -> None:
    """As little as there can be: an epoch, no validation, no test."""
    network = nn.models.mlp(2).build((16,), seed=0)
    report.write(
        path,
        title="short",
        network=network,
        history=_history(network, 1, validated=False),
        settings={"seed": 0},
        command="x",
    )


def useless(path: Path) -> None:
    """A network that does worse than the mean, with a note: both have to stand first."""
    targets = np.linspace(0, 1, 40)
    history = _history(nn.models.mlp(1).build((2,), seed=0), 3)
    report.write(
        path, title="useless", network=None, history=history, settings={"data": "u.csv"}, command="x", outputs=1 - targets,
        targets=targets, notes=["2 test samples are also training samples."],
    )  # fmt: skip


PAGES: dict[str, Callable[[Path], None]] = {
    page.__name__: page
    for page in (
        two, digits, colors, hundred, thousand, perfect, lazy, hostile, regression, outputs, labels, deep, one_epoch, useless
    )
} | {"benchmarks": benchmark_results.write_page}  # fmt: skip


if __name__ == "__main__":
    for name, make in PAGES.items():
        place = Path(sys.argv[1]) / f"{name}.html"
        make(place)
        print(f"{place}  {place.stat().st_size / 1000:.0f} kB")
