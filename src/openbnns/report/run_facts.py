"""The facts of a report, collected before anything is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..graph.parameter import Parameter
from ..graph.sizes import number_of
from ..graph.tensor import Array
from ..nn.names import step_names
from ..nn.recording import recorded_graph, recording_of
from . import scores
from .markup import Section
from .thumbnails import are_images, data_url, pixels

if TYPE_CHECKING:
    from ..nn.data.sample_origin import Origin
    from ..nn.module import Module
    from ..nn.profiling import Profile

Task = Literal["classification", "multilabel", "regression"]
TASKS = ("classification", "multilabel", "regression")
_SHOWN = 24  # samples that were predicted wrongly
_IMAGE_BYTES = 300_000  # size of all pictures together
_PROFILE_RUNS = 10


@dataclass(frozen=True)
class Part:
    """Training, validation or test samples: how many, and of which class, label or target value."""

    name: str
    samples: int
    counts: tuple[int, ...] = ()
    values: Array | None = None


@dataclass(frozen=True)
class Mistake:
    """A test sample and its prediction; ``confidence`` and ``of_truth`` are for classes, ``image`` is a data URL."""

    sample: int
    truth: str
    predicted: str
    place: str
    """The line or file that it comes from."""
    image: str
    confidence: float = math.nan
    of_truth: float = math.nan


@dataclass(frozen=True)
class Layer:
    """A step of the network as it runs."""

    path: str
    kind: str
    shape: tuple[int, ...]
    parameters: int


@dataclass(frozen=True)
class Facts:
    """Everything that a report shows."""

    title: str
    settings: Mapping[str, Any]
    command: str
    notes: tuple[str, ...]
    history: Sequence[Mapping[str, Any]]
    epoch: int | None
    """The epoch whose weights the network has."""
    test: Mapping[str, float] | None
    task: Task | None
    parts: tuple[Part, ...]
    class_names: tuple[str, ...]
    sections: tuple[Section, ...]
    layers: tuple[Layer, ...]
    inputs: tuple[tuple[int, ...], ...]
    parameters: int
    profile: Profile | None
    machine: Mapping[str, str]
    written: str
    classes: scores.ClassScores | None = None
    labels: scores.LabelScores | None = None
    regressions: tuple[scores.Regression, ...] = ()
    mistakes: tuple[Mistake, ...] = ()

    @property
    def chosen(self) -> Mapping[str, Any] | None:
        """The record of that epoch."""
        return next((r for r in self.history if r["epoch"] == self.epoch), self.history[-1] if self.history else None)

    @property
    def best(self) -> Mapping[str, Any] | None:
        """The record with the lowest validation loss, the first of several; None if there is no validation."""
        known = [r for r in self.history if math.isfinite(r.get("validation_loss", math.nan))]
        return min(known, key=lambda record: float(record["validation_loss"]), default=None)

    @property
    def seconds(self) -> float:
        return float(sum(record["seconds"] for record in self.history))

    @property
    def tested(self) -> bool:
        return bool(self.test or self.classes or self.labels or self.regressions)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes or labels."""
        scored = self.classes or self.labels
        return self.class_names if scored is None else scored.names

    @property
    def of_first(self) -> str:
        """The first of several outputs in words."""
        return f" of {self.regressions[0].name}" if len(self.regressions) > 1 else ""


def task_of(outputs: Array, targets: Array) -> Task | None:
    """The task of a network, guessed from the shapes and types of outputs and targets."""
    if targets.dtype.kind not in "iub":
        return "regression" if outputs.size == targets.size else None
    if outputs.ndim == 2 and targets.shape == outputs.shape and targets.shape[1] > 1:
        return "multilabel"
    one_class = targets.ndim == 1 and (outputs.ndim == 2 or (outputs.ndim == 1 and targets.max() <= 1))
    return "classification" if one_class else None


def scores_of(
    task: Task, outputs: Array, targets: Array, names: Sequence[str], training: Array | None, shown: Shown,
    probabilities: bool | None,
) -> dict[str, Any]:  # fmt: skip
    """The scores, and the samples with the worst answers."""
    if task == "multilabel":
        if outputs.shape != targets.shape:
            what = f"labels are {targets.shape}, but outputs {outputs.shape}"
            raise ValueError(f"report: {what}. Pass both in the same shape.")
        return {"labels": scores.labels(outputs, targets, names, training, probabilities=probabilities)}
    if task == "regression":
        if outputs.size != targets.size:
            what = f"targets are {targets.shape}, but outputs {outputs.shape}"
            raise ValueError(f"report: {what}. Pass the same number of both.")
        regressions = scores.regressions(outputs, targets, names, training)
        first = regressions[0]
        worst = np.argsort(-np.abs(first.residuals), kind="stable")[: _SHOWN // 2]
        texts = [(f"{first.truth[i]:.4g}", f"{first.predicted[i]:.4g}") for i in worst]
        return {"regressions": regressions, "mistakes": shown.mistakes(worst, texts)}
    if outputs.ndim > 2 or targets.ndim != 1:
        what = (
            f"outputs are (samples, classes) and targets (samples,), but there are {outputs.shape} and {targets.shape}"
        )
        raise ValueError(f"report: for classes, {what}.")
    truth = targets.astype(np.int64)
    count = 2 if outputs.ndim == 1 or outputs.shape[1] == 1 else outputs.shape[1]
    if not 0 <= truth.min() <= truth.max() < count:
        what = f"targets are classes {truth.min()} to {truth.max()}, but outputs have {count} classes"
        raise ValueError(f"report: {what}. Number them from 0 to {count - 1}.")
    answers = scores.answers(outputs, truth, probabilities=probabilities)
    called, wrong = scores.names_of(names, count), np.flatnonzero(answers.predicted != truth)
    worst = wrong[np.argsort(-answers.confidence[wrong], kind="stable")][:_SHOWN]
    texts = [(called[truth[i]], called[answers.predicted[i]]) for i in worst]
    sure = [(float(answers.confidence[i]), float(answers.of_truth[i])) for i in worst]
    return {
        "classes": scores.classes(answers, truth, names, count, training), "mistakes": shown.mistakes(worst, texts, sure)
    }  # fmt: skip


@dataclass
class Shown:
    """The test samples, of which some are shown."""

    samples: Array | None
    images: bool | None
    origin: Origin | None

    def mistakes(
        self, chosen: Array, texts: list[tuple[str, str]], sure: Sequence[tuple[float, ...]] | None = None
    ) -> tuple[Mistake, ...]:
        """Samples with true and predicted answers, as pictures if they are images."""
        pictures, room = [""] * len(chosen), _IMAGE_BYTES
        if hasattr(self.samples, "dtype") and len(chosen):
            assert self.samples is not None
            if are_images(self.samples.shape[1:]) if self.images is None else self.images:
                pictures = [data_url(image) for image in pixels(self.samples[chosen])]
        for i, url in enumerate(pictures):
            room -= len(url)
            pictures[i] = url if room >= 0 else ""
        places = [f"sample {i + 1}" if self.origin is None else self.origin.place(i) for i in chosen.tolist()]
        rows = zip(chosen.tolist(), texts, places, pictures, sure or [()] * len(chosen), strict=True)
        return tuple(Mistake(i, *text, place, picture, *further) for i, text, place, picture, further in rows)


def part_of(name: str, y: Array, task: Task | None, classes: int) -> Part:
    if task == "classification" and y.ndim == 1:
        return Part(name, len(y), tuple(np.bincount(y.astype(np.int64), minlength=classes).tolist()))
    if task == "multilabel" and y.ndim == 2:
        return Part(name, len(y), tuple((y > 0.5).sum(axis=0).tolist()))
    numbers = y.reshape(len(y), -1)[:, 0].astype(np.float64) if task == "regression" and len(y) else None
    return Part(name, len(y), values=numbers)


def layers_of(network: Module) -> tuple[tuple[Layer, ...], tuple[tuple[int, ...], ...]]:
    if not network.built:
        return (), ()
    graph, rows = recording_of(network, False).graph, []
    for operation, step in zip(graph.operations, step_names(network, graph.operations), strict=True):
        read = (*operation.parameters, *(value.leaf for value in operation.inputs))
        own = sum(p.size for p in read if isinstance(p, Parameter))
        rows.append(Layer(step.path, step.kind, tuple(map(number_of, operation.output.shape[1:])), own))
    return tuple(rows), tuple(tuple(map(number_of, value.shape[1:])) for value in graph.inputs)


def profile_of(
    network: Module | None, samples: Array | None, settings: Mapping[str, Any], profile: Profile | bool
) -> Profile | None:
    """Time of each layer, on as many samples as a step has."""
    if not isinstance(profile, bool):
        return profile
    if not profile or network is None or not network.built or len(recorded_graph(network).inputs) != 1:
        return None
    if samples is None or not hasattr(samples, "dtype") or not len(samples):
        return None
    size = settings.get("batch size", 32)
    rows = np.resize(
        np.arange(len(samples)), size if isinstance(size, int) else 32
    )  # again from the first if there are few
    return network.profile(samples[rows], repeats=_PROFILE_RUNS)
