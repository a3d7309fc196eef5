"""Predicted numbers: against the true ones, their errors, and the samples that are furthest off."""

from __future__ import annotations

import numpy as np

from ..charts import histogram, scatter
from ..markup import Cell, Markup, Panel, Section, join, table, tag
from ..number_text import column, count, short
from ..run_facts import Facts
from ..scores import Regression

_DOTS = 1000
_DRAWN = 3  # outputs
_BINS = 30


def section(facts: Facts) -> Section | None:
    regressions = facts.regressions
    if not regressions:
        return None
    panels = []
    several = len(regressions) > 1
    for one in regressions[:_DRAWN]:
        of = f" of {one.name}" if several else ""
        panels.append(Panel(f"Predicted and true values{of}", _predicted(one)))
        panels.append(Panel(f"Residuals{of}", _residuals(one)))
        panels.append(Panel(f"Distribution of the residuals{of}", _distribution(one)))
    if several:
        rows = [
            (Cell(one.name, one.name), *(_number(v) for v in (one.rmse, one.baseline.value, one.mae, one.r2)))
            for one in regressions
        ]
        header = ("output", "RMSE", "of the mean", "MAE", "R²")
        panels.insert(0, Panel("Each output", table(header, rows), wide=True))
    panels.append(Panel(f"Furthest off{f', {regressions[0].name}' if several else ''}", _worst(facts)))
    return Section("errors", "Errors in the test", panels)


def _some(one: Regression) -> list[int]:
    """Numbers of samples to draw: all, or evenly many with the largest errors among them."""
    total = len(one.truth)
    if total <= _DOTS:
        return list(range(total))
    worst = np.argsort(-np.abs(one.residuals), kind="stable")[: _DOTS // 10]
    return sorted({*worst.tolist(), *np.linspace(0, total - 1, _DOTS - len(worst)).astype(int).tolist()})


def _told(one: Regression, i: int) -> str:
    residual = float(one.residuals[i])
    return f"sample {i}\ntrue: {short(one.truth[i])}\npredicted: {short(one.predicted[i])}\nresidual: {short(residual)}"


def _predicted(one: Regression) -> Markup:
    chosen = _some(one)
    points = [(float(one.truth[i]), float(one.predicted[i]), _told(one, i)) for i in chosen]
    low = min(float(one.truth.min()), float(one.predicted.min()))
    high = max(float(one.truth.max()), float(one.predicted.max()))
    drawn = scatter(
        "Predicted against true values",
        points,
        x_label="true",
        y_label="predicted",
        line=((low, low), (high, high)),
        same=True,
    )
    return join(drawn, _cut(one, chosen))


def _residuals(one: Regression) -> Markup:
    chosen = _some(one)
    points = [(float(one.predicted[i]), float(one.residuals[i]), _told(one, i)) for i in chosen]
    low, high = float(one.predicted.min()), float(one.predicted.max())
    hint = tag("p", "A cloud without a shape around zero is what a good fit leaves.", class_="hint")
    drawn = scatter(
        "Residuals by predicted value",
        points,
        x_label="predicted",
        y_label="predicted minus true",
        line=((low, 0.0), (high, 0.0)),
    )
    return join(hint, drawn)


def _cut(one: Regression, chosen: list[int]) -> Markup | None:
    if len(chosen) == len(one.truth):
        return None
    return tag("p", f"{len(chosen):,} of {len(one.truth):,} samples are drawn, the worst among them.", class_="hint")


def _distribution(one: Regression) -> Markup:
    reach = float(np.abs(one.residuals).max()) or 1.0
    edges = np.linspace(-reach, reach, _BINS + 1)
    counts = np.histogram(one.residuals, edges)[0].tolist()
    mean, half = float(one.residuals.mean()), float(np.median(np.abs(one.residuals)))
    hint = tag("p", f"On average {short(mean, 3)}; half of them are within {short(half, 3)} of zero.", class_="hint")
    return join(hint, histogram("Residuals", edges.tolist(), [counts], ["samples"], x_label="predicted minus true"))


def _worst(facts: Facts) -> Markup:
    one = facts.regressions[0]
    pictures = [m for m in facts.mistakes if m.image]
    if pictures:
        return tag(
            "ul",
            [
                tag(
                    "li",
                    tag("img", src=m.image, alt=f"Test sample {m.sample}: {m.truth}, predicted {m.predicted}"),
                    tag("p", tag("b", m.truth), " predicted ", tag("b", m.predicted)),
                    tag("small", f"sample {m.sample}"),
                )
                for m in pictures
            ],
            class_="gallery",
        )
    samples = [m.sample for m in facts.mistakes]
    columns = [[float(v[i]) for i in samples] for v in (one.truth, one.predicted, one.residuals)]
    cells = [[Cell(*pair) for pair in zip(column(values), values, strict=True)] for values in columns]
    names = [m.place or count(m.sample) for m in facts.mistakes]
    rows = [(Cell(name, i), *others) for name, i, *others in zip(names, samples, *cells, strict=True)]
    return table(("sample", "true", "predicted", "residual"), rows)


def _number(value: float) -> Cell:
    return Cell(short(value), value)
