"""Predicted numbers: against the true ones, their errors, and the samples that are furthest off."""

from __future__ import annotations

import numpy as np

from ..charts import histogram, scatter
from ..markup import Markup, Panel, Section, hint, join, table
from ..number_text import column, short
from ..run_facts import Facts
from ..scores import Regression
from ..thumbnails import pictures_of

_DOTS, _BINS = 600, 30
_DRAWN = 3  # outputs


def section(facts: Facts) -> Section | None:
    regressions, panels = facts.regressions, []
    if not regressions:
        return None
    if len(regressions) > 1:
        rows = [(one.name, *map(short, (one.rmse, one.baseline.value, one.mae, one.r2))) for one in regressions]
        panels.append(Panel("Each output", table(("output", "RMSE", "of the mean", "MAE", "R²"), rows), wide=True))
    for one in regressions[:_DRAWN]:
        of = f" of {one.name}" if len(regressions) > 1 else ""
        panels.append(Panel(f"Predicted and true values{of}", _predicted(one)))
        panels.append(Panel(f"Residuals{of}", _residuals(one)))
        panels.append(Panel(f"Distribution of the residuals{of}", _distribution(one)))
    panels.append(Panel(f"Furthest off{facts.of_first}", _worst(facts)))
    return Section("errors", "Errors in the test", panels)


def _points(one: Regression, x: np.ndarray, y: np.ndarray) -> list[tuple[float, float, str]]:
    """Dots of all samples, or of evenly many with the largest errors among them."""
    chosen = np.arange(len(one.truth))
    if len(chosen) > _DOTS:
        worst = np.argsort(-np.abs(one.residuals), kind="stable")[: _DOTS // 10]
        chosen = np.union1d(worst, np.linspace(0, len(chosen) - 1, _DOTS - len(worst)).astype(int))
    points = []
    for i in chosen.tolist():
        numbers = {"true": one.truth[i], "predicted": one.predicted[i], "residual": one.residuals[i]}
        told = [f"sample {i + 1}", *(f"{name}: {short(float(value))}" for name, value in numbers.items())]
        points.append((float(x[i]), float(y[i]), "\n".join(told)))
    return points


def _cut(one: Regression, points: list[tuple[float, float, str]]) -> Markup | None:
    if len(points) == len(one.truth):
        return None
    return hint(f"{len(points):,} of {len(one.truth):,} samples are drawn, the worst among them.")


def _predicted(one: Regression) -> Markup:
    both = np.concatenate([one.truth, one.predicted])
    low, high, points = float(both.min()), float(both.max()), _points(one, one.truth, one.predicted)
    drawn = scatter(
        "Predicted against true values", points, x_label="true", y_label="predicted", line=((low, low), (high, high)), same=True
    )  # fmt: skip
    return join(drawn, _cut(one, points))


def _residuals(one: Regression) -> Markup:
    low, high, points = (
        float(one.predicted.min()),
        float(one.predicted.max()),
        _points(one, one.predicted, one.residuals),
    )
    drawn = scatter(
        "Residuals by predicted value", points, x_label="predicted", y_label="predicted minus true", line=((low, 0), (high, 0))
    )  # fmt: skip
    return join(hint("A cloud without a shape around zero is what a good fit leaves."), drawn, _cut(one, points))


def _distribution(one: Regression) -> Markup:
    reach = float(np.abs(one.residuals).max()) or 1.0
    edges = np.linspace(-reach, reach, _BINS + 1)
    counts = np.histogram(one.residuals, edges)[0].tolist()
    mean, half = float(one.residuals.mean()), float(np.median(np.abs(one.residuals)))
    said = hint(f"On average {short(mean, 3)}; half of them are within {short(half, 3)} of zero.")
    return join(said, histogram("Residuals", edges.tolist(), [counts], ["samples"], x_label="predicted minus true"))


def _worst(facts: Facts) -> Markup:
    one, shown = facts.regressions[0], facts.mistakes
    if (drawn := pictures_of(shown, lambda m: (m.truth, " predicted ", m.predicted, m.place))) is not None:
        return drawn
    columns = [column([float(v[m.sample]) for m in shown]) for v in (one.truth, one.predicted, one.residuals)]
    rows = [(m.place, *row) for m, *row in zip(shown, *columns, strict=True)]
    return table(("sample", "true", "predicted", "residual"), rows)
