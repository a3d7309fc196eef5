"""The facts of a report, collected before anything is drawn."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._plural import plural
from ..graph.parameter import Parameter
from ..graph.sizes import number_of
from ..graph.tensor import Array, Tensor
from ..nn.names import step_names
from ..nn.recording import recorded_graph, recording_of
from . import scores
from .machine import describe
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
_SURE = 0.8  # from this probability of another class on, the label may be wrong
_DOUBTED = 1000  # samples in the list of such labels


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
    confidence: float = float("nan")
    of_truth: float = float("nan")
    image: str = ""
    values: str = ""
    place: str = ""
    """The line or file that it comes from."""


@dataclass(frozen=True)
class Layer:
    """A step of the network as it runs, and the numbers of the steps whose outputs it reads; -1 is the input."""

    path: str
    kind: str
    shape: tuple[int, ...]
    parameters: int
    reads: tuple[int, ...]


@dataclass(frozen=True)
class Facts:
    """Everything that a report shows; :func:`collect` makes it."""

    title: str
    settings: Mapping[str, Any]
    command: str
    history: Sequence[Mapping[str, Any]] = ()
    epoch: int | None = None
    """The epoch whose weights the network has."""
    test: Mapping[str, float] | None = None
    task: Task | None = None
    parts: tuple[Part, ...] = ()
    class_names: tuple[str, ...] = ()
    """As they were given; there may be no test samples to score."""
    classes: scores.ClassScores | None = None
    labels: scores.LabelScores | None = None
    regressions: tuple[scores.Regression, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    mistake_count: int = 0
    doubted: tuple[Mistake, ...] = ()
    """Samples whose labels look wrong: the network is sure of another class."""
    sections: tuple[Section, ...] = ()
    """Further parts of the page."""
    layers: tuple[Layer, ...] = ()
    inputs: tuple[tuple[int, ...], ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    """The types of the modules, by their paths."""
    parameters: int = 0
    profile: Profile | None = None
    notes: tuple[str, ...] = ()
    machine: Mapping[str, str] = field(default_factory=dict)
    written: str = ""

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
    def names(self) -> tuple[str, ...]:
        """The names of the classes or labels."""
        scored = self.classes or self.labels
        return self.class_names if scored is None else scored.names


def collect(
    *,
    title: str,
    network: Module | None,
    settings: Mapping[str, Any],
    command: str,
    history: Sequence[Mapping[str, Any]] = (),
    test: Mapping[str, float] | None = None,
    samples: Array | None = None,
    outputs: Array | None = None,
    targets: Array | None = None,
    class_names: Sequence[str] = (),
    epoch: int | None = None,
    notes: Sequence[str] = (),
    parts: Mapping[str, Array] | None = None,
    reference: Array | None = None,
    task: Task | None = None,
    profile: Profile | bool = True,
    images: bool | None = None,
    probabilities: bool | None = None,
    origin: Origin | None = None,
    sections: Iterable[Section] = (),
) -> Facts:
    """See :func:`openbnns.report.write`."""
    if task is not None and task not in TASKS:
        raise ValueError(f"report: task is {task!r}. Use {', '.join(TASKS)}, or leave it out.")
    if outputs is not None and targets is not None and len(outputs) != len(targets):
        raise ValueError(
            f"report: there are {plural(len(outputs), 'output')}, but {plural(len(targets), 'target')}. Pass one for each sample."
        )
    scored: dict[str, Any] = {}
    given = (
        None if outputs is None or targets is None or not len(outputs) else (np.asarray(outputs), np.asarray(targets))
    )
    kind = None if given is None else (task or _guess(*given))
    known = reference if reference is not None else (parts or {}).get("training")
    training = None if known is None else np.asarray(known)
    if given is not None and kind is not None:
        scored = _scored(kind, *given, class_names, training, samples, images, probabilities)
        if origin is not None:
            scored |= {name: _located(scored[name], origin) for name in ("mistakes", "doubted") if name in scored}
    layers, inputs = ((), ()) if network is None else _layers(network)
    epoch = epoch or getattr(history, "chosen_epoch", None)
    return Facts(
        title=title, settings=settings, command=command, history=list(history), epoch=epoch, test=test, task=kind or task,
        parts=_parts(parts, targets, kind or task, len(scored["classes"].names) if "classes" in scored else 0),
        class_names=tuple(class_names), layers=layers, inputs=inputs,
        kinds={} if network is None else {path: type(module).__name__ for path, module in network.named_modules()},
        parameters=0 if network is None else sum(p.size for p in network.parameters()),
        profile=_profiled(network, samples, settings, profile), notes=tuple(notes), machine=describe(),
        written=f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M UTC}",
        sections=tuple(sections), **scored,
    )  # fmt: skip


def _guess(outputs: Array, targets: Array) -> Task | None:
    """The task of a network, guessed from the shapes and types of outputs and targets."""
    if targets.dtype.kind in "iub":
        if outputs.ndim == 2 and targets.shape == outputs.shape and targets.shape[1] > 1:
            return "multilabel"
        if targets.ndim == 1 and (outputs.ndim == 2 or (outputs.ndim == 1 and targets.max() <= 1)):
            return "classification"
        return None
    return "regression" if outputs.size == targets.size else None


def _scored(
    kind: Task,
    outputs: Array,
    targets: Array,
    names: Sequence[str],
    training: Array | None,
    samples: Array | None,
    images: bool | None,
    probabilities: bool | None,
) -> dict[str, Any]:
    """The scores, and the samples with the worst answers."""
    if kind == "multilabel":
        if outputs.shape != targets.shape:
            raise ValueError(
                f"report: labels are {targets.shape}, but outputs {outputs.shape}. Pass both in the same shape."
            )
        return {"labels": scores.labels(outputs, targets, names, training, probabilities=probabilities)}
    if kind == "regression":
        if outputs.size != targets.size:
            raise ValueError(
                f"report: targets are {targets.shape}, but outputs {outputs.shape}. Pass the same number of both."
            )
        regressions = scores.regressions(outputs, targets, names, training)
        return {"regressions": regressions, "mistakes": _far_off(regressions[0], samples, images)}
    if outputs.ndim > 2 or targets.ndim != 1:
        raise ValueError(
            f"report: for classes, outputs are (samples, classes) and targets (samples,), but there are {outputs.shape} and "
            f"{targets.shape}."
        )
    numbers = targets.astype(np.int64)
    count = 2 if outputs.ndim == 1 or outputs.shape[1] == 1 else outputs.shape[1]
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < count:
        raise ValueError(
            f"report: targets are classes {numbers.min()} to {numbers.max()}, but outputs have {count} classes. Number them "
            f"from 0 to {count - 1}."
        )
    answers = scores.answers(outputs, numbers, probabilities=probabilities)
    wrong = np.flatnonzero(answers.predicted != numbers)
    return {
        "classes": scores.classes(answers, numbers, names, count, training),
        "mistakes": _mistakes(answers, numbers, wrong, scores.names_of(names, count), samples, images),
        "mistake_count": len(wrong),
        "doubted": _doubted(answers, numbers, wrong, scores.names_of(names, count)),
    }


def _mistakes(
    answers: scores.Answers,
    targets: Array,
    wrong: Array,
    names: Sequence[str],
    samples: Array | None,
    images: bool | None,
) -> tuple[Mistake, ...]:
    """The mistakes that the network was most confident about."""
    chosen = wrong[np.argsort(-answers.confidence[wrong], kind="stable")][:_SHOWN]
    pictures, values = _seen(samples, chosen, images)
    return tuple(
        Mistake(
            int(i), names[targets[i]], names[answers.predicted[i]], float(answers.confidence[i]), float(answers.of_truth[i]),
            picture, numbers,
        )
        for i, picture, numbers in zip(chosen, pictures, values, strict=True)
    )  # fmt: skip


def _doubted(answers: scores.Answers, targets: Array, wrong: Array, names: Sequence[str]) -> tuple[Mistake, ...]:
    """Wrong predictions that the network is confident about, the most confident first."""
    order = wrong[np.argsort(-answers.confidence[wrong], kind="stable")]
    sure = [i for i in order[:_DOUBTED].tolist() if answers.confidence[i] >= _SURE]
    return tuple(
        Mistake(
            i, names[targets[i]], names[answers.predicted[i]], float(answers.confidence[i]), float(answers.of_truth[i])
        )
        for i in sure
    )


def _located(mistakes: tuple[Mistake, ...], origin: Origin) -> tuple[Mistake, ...]:
    return tuple(replace(mistake, place=origin.place(mistake.sample)) for mistake in mistakes)


def _far_off(regression: scores.Regression, samples: Array | None, images: bool | None) -> tuple[Mistake, ...]:
    chosen = np.argsort(-np.abs(regression.residuals), kind="stable")[: _SHOWN // 2]
    pictures, values = _seen(samples, chosen, images)
    return tuple(
        Mistake(int(i), f"{regression.truth[i]:.4g}", f"{regression.predicted[i]:.4g}", image=picture, values=numbers)
        for i, picture, numbers in zip(chosen, pictures, values, strict=True)
    )


def _seen(samples: Array | None, chosen: Array, images: bool | None) -> tuple[list[str], list[str]]:
    """Samples as pictures if they are, and as numbers if there are few."""
    pictures, values = [""] * len(chosen), [""] * len(chosen)
    if samples is None or not hasattr(samples, "dtype") or not len(chosen):
        return pictures, values
    if are_images(samples.shape[1:]) if images is None else images:
        room = _IMAGE_BYTES
        for i, image in enumerate(pixels(samples[chosen])):
            url = data_url(image)
            room -= len(url)
            if room < 0:
                break
            pictures[i] = url
    elif samples.ndim == 2 and samples.shape[1] <= 8:
        values = [", ".join(f"{number:.3g}" for number in row) for row in samples[chosen].astype(np.float64)]
    return pictures, values


def _parts(
    parts: Mapping[str, Array] | None, targets: Array | None, task: Task | None, classes: int
) -> tuple[Part, ...]:
    given = dict(parts or {})
    if not given and targets is not None and len(targets):
        given = {"test": np.asarray(targets)}
    described = []
    for name, array in given.items():
        y = np.asarray(array)
        if task == "classification" and y.ndim == 1:
            described.append(Part(name, len(y), tuple(np.bincount(y.astype(np.int64), minlength=classes).tolist())))
        elif task == "multilabel" and y.ndim == 2:
            described.append(Part(name, len(y), tuple((y > 0.5).sum(axis=0).tolist())))
        elif task == "regression" and len(y):
            described.append(Part(name, len(y), values=y.reshape(len(y), -1)[:, 0].astype(np.float64)))
        else:
            described.append(Part(name, len(y)))
    return tuple(described)


def _sample_shape(value: Tensor) -> tuple[int, ...]:
    """The shape of one sample, without the batch axis."""
    return tuple(map(number_of, value.shape[1:]))


def _layers(network: Module) -> tuple[tuple[Layer, ...], tuple[tuple[int, ...], ...]]:
    if not network.built:
        return (), ()
    graph = recording_of(network, False).graph
    makers = {output.storage: i for i, operation in enumerate(graph.operations) for output in operation.outputs}
    rows = []
    for operation, step in zip(graph.operations, step_names(network, graph.operations), strict=True):
        read = [value.storage for value in operation.inputs]
        own = sum(p.size for p in (*operation.parameters, *(v.leaf for v in read)) if isinstance(p, Parameter))
        sources = dict.fromkeys(makers.get(value, -1) for value in read if value.leaf is None)
        rows.append(Layer(step.path, step.kind, _sample_shape(operation.output), own, tuple(sources)))
    return tuple(rows), tuple(map(_sample_shape, graph.inputs))


def _profiled(
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
