"""Explanations of predictions: important columns, their effect, errors by group, and the pixels that decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph.tensor import Array
from ..nn.data.preprocessing import TablePreparation
from ..nn.data.preprocessing.tables import CategoryColumn, NumberColumn
from ..nn.metrics import formulas
from ..nn.predictions import Predictions, run_all
from ..nn.recording import untouched

if TYPE_CHECKING:
    from ..nn.module import Module

_ROWS = 1000  # samples that columns are shuffled in
_REPEATS = 3
_POINTS = 16  # values of a column of numbers
_TOP = 3
_GROUPS = 12  # categories of a column


@dataclass(frozen=True)
class Importance:
    """The drop of the score if a column is shuffled, which removes its information."""

    column: str
    loss: float
    spread: float
    """The deviation over several ways of shuffling."""


@dataclass(frozen=True)
class Dependence:
    """The mean prediction if a column had one value in all samples, for some values."""

    column: str
    values: tuple[str, ...]
    places: tuple[float, ...] | None
    """The values as numbers; None if they are categories."""
    predictions: Mapping[str, tuple[float, ...]]
    """Mean predictions by class or output."""


@dataclass(frozen=True)
class Group:
    """The samples of one category."""

    column: str
    category: str
    samples: int
    score: float
    """Accuracy, or the root of the mean squared error."""
    confused: str = ""
    """The most frequent mistake."""


@dataclass(frozen=True)
class Explanation:
    """All explanations of a network; ``score`` measures importance."""

    score: str
    importance: tuple[Importance, ...]
    dependence: tuple[Dependence, ...]
    groups: tuple[Group, ...]


def explain(
    network: Module, prepare: Any, x: Any, y: Array, predictions: Predictions, *,
    mean: Sequence[float] | None = None, std: Sequence[float] | None = None, seed: int = 0,
) -> Explanation | None:  # fmt: skip
    """An explanation of predictions of these prepared samples, whose true classes or numbers are ``y``; None if there is none."""
    if (
        not isinstance(prepare, TablePreparation)
        or predictions.task not in ("classification", "regression")
        or len(y) < 10
    ):
        return None
    rows = np.linspace(0, len(y) - 1, min(len(y), _ROWS)).astype(np.int64)
    rows = np.unique(rows)
    samples, wanted = np.asarray(x[rows], np.float32), np.asarray(y)[rows]

    def predicted(features: Array) -> Predictions:
        return Predictions.of(run_all(network, [features]), predictions.task, predictions.classes, mean=mean, std=std)

    def score(features: Array) -> float:
        said = predicted(features)
        if predictions.task == "classification":
            return float((np.asarray(said.outputs).argmax(axis=1) == wanted).mean())
        error = np.asarray(said.values, np.float64).reshape(len(wanted), -1) - wanted.reshape(len(wanted), -1)
        spread = wanted.reshape(len(wanted), -1) - wanted.reshape(len(wanted), -1).mean(axis=0)
        return formulas.r2((error**2).sum(axis=0), (spread**2).sum(axis=0), len(wanted))

    places, whole, draw = prepare.features_by_column(), score(samples), np.random.RandomState(seed)
    importance = []
    for column, features in places.items():
        lost = []
        for _ in range(_REPEATS):
            shuffled = samples.copy()
            shuffled[:, features] = samples[draw.permutation(len(samples))][:, features]
            lost.append(whole - score(shuffled))
        importance.append(Importance(column, float(np.mean(lost)), float(np.std(lost))))
    importance.sort(key=lambda one: -one.loss)
    by_name = {column.name: column for column in prepare.columns}
    drawable = [one.column for one in importance if isinstance(by_name[one.column], (NumberColumn, CategoryColumn))]
    dependence = [_dependence(by_name[name], places[name], samples, predicted) for name in drawable[:_TOP]]
    worded = [c for one in importance if isinstance(c := by_name[one.column], CategoryColumn)][:_TOP]
    groups = [
        group for column in worded for group in _groups(column, places[column.name], x, predictions, np.asarray(y))
    ]
    measured = "accuracy" if predictions.task == "classification" else "R²"
    return Explanation(measured, tuple(importance), tuple(dependence), tuple(groups))


def _dependence(column: Any, features: list[int], samples: Array, predicted: Any) -> Dependence:
    places: tuple[float, ...] | None = None
    if isinstance(column, NumberColumn):
        known = samples[:, features[0]]
        scaled = np.unique(np.quantile(known, np.linspace(0.02, 0.98, _POINTS)))
        numbers = scaled.astype(np.float64) * column.std + column.mean
        places, values = tuple(numbers.tolist()), tuple(f"{number:.4g}" for number in numbers)
        settings = [np.array([value, *[0.0] * (len(features) - 1)]) for value in scaled]
    else:
        shown = [
            i
            for i in np.argsort(-samples[:, features].sum(axis=0), kind="stable")[:_GROUPS]
            if i < len(column.categories)
        ]
        values = tuple(column.categories[i] for i in shown)
        settings = [np.eye(len(features))[i] for i in shown]
    effects: dict[str, list[float]] = {}
    for setting in settings:
        changed = samples.copy()
        changed[:, features] = setting
        said = predicted(changed)
        if said.task == "classification":
            chances = said.probabilities.mean(axis=0)
            names = said.classes or tuple(map(str, range(len(chances))))
            shown_classes = [1] if len(chances) == 2 else range(min(len(chances), 5))
            for i in shown_classes:
                effects.setdefault(names[i], []).append(float(chances[i]))
        else:
            means = np.asarray(said.values, np.float64).reshape(len(samples), -1).mean(axis=0)
            for name, value in zip(said.classes or ("predicted",), means, strict=False):
                effects.setdefault(name, []).append(float(value))
    return Dependence(column.name, values, places, {name: tuple(numbers) for name, numbers in effects.items()})


def _groups(column: CategoryColumn, features: list[int], x: Any, predictions: Predictions, y: Array) -> list[Group]:
    """The quality of predictions for each of the most frequent categories of a column."""
    pieces = (np.asarray(x[i : i + _ROWS])[:, features] for i in range(0, len(y), _ROWS))
    codes = np.concatenate([np.where(piece.any(axis=1), piece.argmax(axis=1), -1) for piece in pieces])
    words = [*column.categories, *["missing"] * column.missing, "rare ones"]
    present, counts = np.unique(codes[codes >= 0], return_counts=True)
    groups = []
    for code in present[np.argsort(-counts, kind="stable")][:_GROUPS]:
        rows = np.flatnonzero(codes == code)
        if predictions.task == "classification":
            said = np.asarray(predictions.outputs)[rows].argmax(axis=1)
            wrong = said != y[rows]
            confused = ""
            if wrong.any():
                pairs, times = np.unique(np.stack([y[rows][wrong], said[wrong]], axis=1), axis=0, return_counts=True)
                true, other = pairs[int(np.argmax(times))]
                names = predictions.classes or tuple(map(str, range(int(max(true, other)) + 1)))
                often = "once" if times.max() == 1 else f"{int(times.max())} times"
                confused = f"{names[true]} taken for {names[other]}, {often}"
            groups.append(Group(column.name, words[code], len(rows), float(1 - wrong.mean()), confused))
        else:
            error = np.asarray(predictions.values, np.float64).reshape(len(y), -1)[rows] - y.reshape(len(y), -1)[rows]
            groups.append(Group(column.name, words[code], len(rows), float(np.sqrt((error**2).mean()))))
    return groups


def saliency(network: Module, images: Array, classes: Array) -> Array:
    """The influence of each pixel on the score of a class: the size of its gradient (N, height, width), 0 to 1 in each image."""
    modules = [module for _, module in network.named_modules()]
    before = [module.training for module in modules]
    network.eval()
    network.training = True  # of the network alone: its layers compute as in inference, and gradients flow through them
    try:
        with untouched(network):
            scores = np.asarray(network(np.ascontiguousarray(images, np.float32)))
            wanted = np.zeros_like(scores)
            wanted[np.arange(len(scores)), classes] = 1
            slopes = np.abs(np.asarray(network.backward(wanted), np.float64))
    finally:
        for module, mode in zip(modules, before, strict=True):
            module.training = mode
    if slopes.ndim == 4:
        slopes = slopes.max(axis=1 if slopes.shape[1] in (1, 3, 4) else 3)
    most = slopes.reshape(len(slopes), -1).max(axis=1)
    heat: Array = slopes / np.where(most > 0, most, 1.0)[:, None, None]
    return heat
