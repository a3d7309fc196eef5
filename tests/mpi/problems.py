"""Small networks with data, to be trained on any number of ranks. Each gives a trainer and the arguments of its ``fit``."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image

from openbnns import nn

Problem = Callable[..., tuple[nn.Trainer, dict[str, Any]]]
PROBLEMS: dict[str, Problem] = {}


def problem(function: Problem) -> Problem:
    PROBLEMS[function.__name__] = function
    return function


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def classes(count: int, *shape: int, seed: int = 1) -> Any:
    return np.random.RandomState(seed).randint(0, count, shape)


@problem
def mlp(**options: Any) -> tuple[nn.Trainer, dict[str, Any]]:
    """Batches that no number of shards divides, and a last one with empty shards."""
    net = nn.Sequential(nn.Linear(33), nn.ReLU(), nn.Linear(17), nn.Tanh(), nn.Linear(3))
    trainer = nn.Trainer(net, "cross_entropy", nn.Adam(0.01), batch_size=37, seed=3, quiet=True, **options)
    return trainer, {"x": numbers(42, 9), "y": classes(3, 42), "epochs": 3}


@problem
def cnn(**options: Any) -> tuple[nn.Trainer, dict[str, Any]]:
    """Batch normalization, fused with a convolution and with a pooling and by itself; momentum, validation."""
    net = nn.Sequential(
        nn.Conv2d(8, 3, padding=1), nn.BatchNorm2d(), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 3), nn.BatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.Linear(5), nn.ReLU(), nn.BatchNorm1d(), nn.Linear(4),
    )  # fmt: skip
    trainer = nn.Trainer(
        net, "cross_entropy", nn.SGD(0.05, momentum=0.9), batch_size=40, seed=1, quiet=True, metrics=["accuracy", "f1"],
        early_stopping=2, **options,
    )  # fmt: skip
    x, y = numbers(76, 3, 14, 14), classes(4, 76)
    tested = numbers(30, 3, 14, 14, seed=5), classes(4, 30, seed=6)
    changes = [nn.transforms.Shift(1), nn.transforms.Noise(0.05)]
    return trainer, {"x": x, "y": y, "epochs": 2, "validation": tested, "transforms": changes}


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(5, 11, num_layers=2, dropout=0.3), nn.Linear(2)

    def forward(self, x: nn.Value) -> nn.Value:
        steps, _ = self.lstm(x)
        value: nn.Value = self.head(steps)
        return value


@problem
def lstm(**options: Any) -> tuple[nn.Trainer, dict[str, Any]]:
    """A mean over numbers, weights of samples, and gradients of three batches in a step."""
    trainer = nn.Trainer(
        Recurrent(), "mse", nn.RMSprop(0.01, momentum=0.5), batch_size=21, accumulate=3, seed=4, quiet=True,
        metrics=["mae", "r2"], **options,
    )  # fmt: skip
    weights = np.random.RandomState(8).uniform(0.1, 2, 100).astype(np.float32)
    return trainer, {"x": numbers(100, 7, 5), "y": numbers(100, 7, 2, seed=2), "sample_weights": weights, "epochs": 2}


class Translator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(30, 16), nn.LearnedEncoding(9)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 24, dropout=0.2), 2)
        self.head = nn.Linear(30)

    def forward(self, x: nn.Value) -> nn.Value:
        value: nn.Value = self.head(self.layers(self.places(self.words(x))))
        return value


@problem
def transformer(**options: Any) -> tuple[nn.Trainer, dict[str, Any]]:
    """Dropout, clipping by the global norm, and classes that are left out, other numbers of them in every shard."""
    loss = nn.CrossEntropyLoss(ignore_index=29, dim=-1, weight=np.linspace(0.5, 2, 30))
    trainer = nn.Trainer(
        Translator(), loss, nn.AdamW(0.003), clip_norm=0.5, batch_size=32, seed=2, quiet=True, **options
    )
    words = classes(30, 70, 9)
    targets = np.where(np.random.RandomState(7).uniform(size=words.shape) < 0.3, 29, (words + 1) % 29)
    return trainer, {"x": words, "y": targets, "epochs": 2}


class Two(nn.Module):
    """Two outputs, a frozen parameter, and a normalization that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.left, self.right = nn.Linear(12), nn.BatchNorm1d(), nn.Linear(12), nn.Linear(1)
        self.scale = nn.Parameter(np.ones(12, np.float32))

    def forward(self, x: nn.Value) -> dict[str, nn.Value]:
        body = self.norm(self.first(x)).relu() * self.scale
        return {"again": self.norm(self.left(body)), "number": self.right(body)}


@problem
def two_outputs(**options: Any) -> tuple[nn.Trainer, dict[str, Any]]:
    net = Two()
    net.first.requires_grad_(False)
    trainer = nn.Trainer(
        net, {"again": "cross_entropy", "number": nn.L1Loss(reduction="sum")}, nn.Adam(0.01), batch_size=64, seed=5,
        quiet=True, loss_weights={"again": 1.0, "number": 0.01}, metrics={"mae": nn.metrics.MAE(output="number")}, **options,
    )  # fmt: skip
    x = numbers(165, 6)
    y = {"again": classes(12, 165), "number": x[:, :1]}
    return trainer, {"x": x, "y": y, "epochs": 2, "transforms": nn.transforms.Noise(0.1)}


class Freezing(nn.Callback):
    """Freezes a layer after the second step and sets it free after the fourth."""

    def on_step(self, trainer: Any, step: Any) -> None:
        if step["step"] in (2, 4):
            trainer.network[0].requires_grad_(step["step"] == 4)


@problem
def freezing(**options: Any) -> tuple[nn.Trainer, dict[str, Any]]:
    """Gradients that move to other memory during a run, twice."""
    net = nn.Sequential(nn.Linear(40), nn.ReLU(), nn.Linear(3))
    trainer = nn.Trainer(net, "cross_entropy", nn.Adam(0.01), batch_size=20, seed=9, quiet=True, **options)
    return trainer, {"x": numbers(60, 30), "y": classes(3, 60), "epochs": 2, "callbacks": [Freezing()]}


def _batches(epoch: int) -> Any:
    """Batches of different sizes, with weights of samples; the last is smaller than the number of shards."""
    random = np.random.RandomState(epoch)
    for size in (33, 40, 7):
        x = random.standard_normal((size, 4)).astype(np.float32)
        yield x, (x[:, :1] > 0).astype(np.float32), random.uniform(0.5, 2, size).astype(np.float32)


@problem
def iterable(**options: Any) -> tuple[nn.Trainer, dict[str, Any]]:
    """Batches from a function, a metric of all samples together, and yes or no."""
    net = nn.Sequential(nn.Linear(6), nn.GELU(), nn.LayerNorm(), nn.Dropout(0.1), nn.Linear(1))
    trainer = nn.Trainer(
        net, "bce_with_logits", nn.Adam(0.01), seed=6, quiet=True, metrics=["auc", "accuracy"], **options
    )
    return trainer, {"x": nn.data.Batches(_batches, 3), "y": None, "epochs": 3}


@problem
def function(**options: Any) -> tuple[nn.Trainer, dict[str, Any]]:
    """A loss that is a function of the output, weights of classes elsewhere, and a custom metric of whole epochs."""
    net = nn.Sequential(nn.Linear(8), nn.SiLU(), nn.Linear(2))

    def distance(y: nn.Value, t: nn.Value) -> nn.Value:
        value: nn.Value = ((y - t) ** 2).mean(dim=1) + 0.01 * (y**2).mean()
        return value

    worst = nn.metrics.Custom(lambda y, t: float(abs(y - t).max()), whole_epoch=True, higher_is_better=False)
    trainer = nn.Trainer(
        net, distance, nn.SGD(0.05), batch_size=19, seed=7, quiet=True, metrics={"worst": worst}, **options
    )
    return trainer, {"x": numbers(50, 3), "y": numbers(50, 2, seed=3), "epochs": 2, "validation_split": 0.2}


@problem
def weighted(**options: Any) -> tuple[nn.Trainer, dict[str, Any]]:
    """Weights of classes, a schedule that follows the validation loss, and an average of the weights."""
    net = nn.Sequential(nn.Linear(8), nn.ReLU(), nn.Linear(3))
    trainer = nn.Trainer(
        net, nn.CrossEntropyLoss(label_smoothing=0.1), nn.Adam(0.02), batch_size=32, seed=8, quiet=True,
        schedule=nn.ReduceLROnPlateau(patience=0, factor=0.5), **options,
    )  # fmt: skip
    tested = numbers(300, 5, seed=9), classes(3, 300, seed=10)
    return trainer, {
        "x": numbers(90, 5), "y": classes(3, 90), "epochs": 4, "class_weights": "balanced", "validation": tested,
        "callbacks": [nn.EMA(net)],
    }  # fmt: skip


@problem
def files(**options: Any) -> tuple[nn.Trainer, dict[str, Any]]:
    """Blocks that are multiples of nothing, images and an array, which every rank has for itself."""

    class Sevens(nn.sources.BlockRows):
        """Rows of an array in blocks of seven."""

        def __init__(self, array: np.ndarray) -> None:
            self.array = array
            super().__init__(array.shape, array.dtype, [7] * 14 + [3], window=4)

        def read_block(self, number: int) -> np.ndarray:
            return self.array[7 * number : 7 * number + 7]

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.image, self.flat, self.head = nn.Linear(4), nn.Conv2d(2, 3), nn.Flatten(), nn.Linear(3)

        def forward(self, table: nn.Value, image: nn.Value) -> nn.Value:
            value: nn.Value = self.head(nn.functional.cat([self.table(table), self.flat(self.image(image))], 1))
            return value

    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    pixels = classes(256, 4, 5, 6, 3).astype(np.uint8)
    for i, image in enumerate(pixels):
        PIL.Image.fromarray(image).save(folder / f"{i}.png")
    np.savez(folder / "weights.npz", w=np.random.RandomState(8).uniform(0.1, 2, 101))
    images = nn.sources.open_images([folder / f"{i % 4}.png" for i in range(101)])
    x = {"table": Sevens(np.stack([numbers(101), numbers(101, seed=1)], axis=1)), "image": images}
    y = Sevens(classes(3, 101))
    weights = nn.sources.open_npz(folder / "weights.npz")["w"]
    trainer = nn.Trainer(Both(), "cross_entropy", nn.Adam(0.01), batch_size=30, seed=9, quiet=True, **options)
    return trainer, {"x": x, "y": y, "sample_weights": weights, "epochs": 2, "validation_split": 0.2}
