"""The course of the training, epoch by epoch, with gradients and weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..charts import SERIES, Axis, Line, axis, bars, heat, lines
from ..markup import Markup, Panel, Section, join, tag
from ..number_text import called, is_share, metric, percent, seconds, short
from ..run_facts import Facts

_NOT_METRICS = {"epoch", "step", "learning_rate", "seconds"}


def section(facts: Facts) -> Section | None:
    if not facts.history:
        return None
    panels = [_curve(facts, name) for name in _metrics(facts.history)]
    panels.append(Panel("Learning rate", _learning_rate(facts)))
    spent = _phases(facts.history)
    if spent is not None:
        panels.append(Panel("Where the time went", spent))
    return Section("training", "Training", panels)


def norms(facts: Facts) -> Section | None:
    """Gradient and weight norms of every layer."""
    if not facts.history:
        return None
    panels = []
    for name, title, hint in (
        (
            "gradient_norms",
            "Gradient norms",
            "Of the last step of each epoch. Layers far below the others hardly learn.",
        ),
        (
            "weight_norms",
            "Weight norms",
            "At the end of each epoch. A steady rise asks for weight decay or a lower rate.",
        ),
    ):
        table = _by_layer(facts.history, name)
        if table:
            drawn = _norm_lines(title, facts, table) if len(table) <= SERIES else _norm_heat(title, facts, table)
            panels.append(
                Panel(f"{title} per layer", join(tag("p", hint, class_="hint"), drawn), wide=len(table) > SERIES)
            )
    return Section("layers", "Layers while training", panels) if panels else None


def _metrics(history: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the metrics on training or validation samples, the loss first."""
    names = dict.fromkeys(
        key.removeprefix("validation_")
        for record in history
        for key, value in record.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and key not in _NOT_METRICS
    )
    return ["loss", *(name for name in names if name != "loss")]


def _curve(facts: Facts, name: str) -> Panel:
    history = facts.history
    series = []
    for style, (field, words) in enumerate(((name, "training"), (f"validation_{name}", "validation"))):
        values = [record.get(field) for record in history]
        if any(value is not None for value in values):
            series.append(Line(words, values, style))
    known = [v for line in series for v in line.values if v is not None]
    up = axis(known, log=name.startswith("loss"), share=is_share(name))
    words = called(name)
    drawn = lines(
        f"{words} by epoch", [record["epoch"] for record in history], series, up=up,
        text=lambda value: metric(name, value), marked=_marked(facts),
    )  # fmt: skip
    scale = " (logarithmic)" if up.log else ""
    return Panel(f"{words[0].upper()}{words[1:]}{scale}", drawn)


def _marked(facts: Facts) -> tuple[float, str] | None:
    """The epoch whose weights the network has, and whether it was the best one."""
    chosen, best = facts.chosen, facts.best
    if chosen is None or best is None or len(facts.history) < 2:
        return None
    return chosen["epoch"], f"{'best' if chosen is best else 'kept'}: epoch {chosen['epoch']}"


def _learning_rate(facts: Facts) -> Markup:
    rates = [record["learning_rate"] for record in facts.history]
    up = axis(rates, zero=True)
    return lines("Learning rate by epoch", [r["epoch"] for r in facts.history], [Line("learning rate", rates)], up=up)


def _phases(history: Sequence[Mapping[str, Any]]) -> Markup | None:
    totals: dict[str, float] = {}
    for record in history:
        for name, spent in record.get("phase_seconds", {}).items():
            totals[name] = totals.get(name, 0.0) + spent
    whole = sum(totals.values())
    if not whole:
        return None
    rows = [(name, [spent], f"{seconds(spent)} ({percent(spent / whole)})") for name, spent in totals.items() if spent]
    return bars(("phase", "", "time"), rows)


def _by_layer(history: Sequence[Mapping[str, Any]], field: str) -> dict[str, list[float | None]]:
    """Norms of the parameters of each layer together, by the path of the layer; None for epochs that lack them."""
    names = dict.fromkeys(_layer(name) for record in history for name in record.get(field, {}))
    by_layer: dict[str, list[float | None]] = {name: [] for name in names}
    for record in history:
        squares: dict[str, float] = {}
        for name, norm in record.get(field, {}).items():
            squares[_layer(name)] = squares.get(_layer(name), 0.0) + float(norm) ** 2
        for name, values in by_layer.items():
            values.append(math.sqrt(squares[name]) if name in squares else None)
    return by_layer


def _layer(parameter: str) -> str:
    return parameter.rpartition(".")[0] or parameter


def _norm_lines(title: str, facts: Facts, table: Mapping[str, Sequence[float | None]]) -> Markup:
    series = [Line(_called(name, facts), _shown(values)) for name, values in table.items()]
    known = [v for line in series for v in line.values if v is not None]
    up = axis(known, log=True) if known else Axis(0, 1)
    return lines(f"{title} by epoch", [r["epoch"] for r in facts.history], series, up=up)


def _norm_heat(title: str, facts: Facts, table: Mapping[str, Sequence[float | None]]) -> Markup:
    rows = [(_called(name, facts), list(values)) for name, values in table.items()]
    return heat(title, rows, [f"epoch {record['epoch']}" for record in facts.history], text=short)


def _called(name: str, facts: Facts) -> str:
    return f"{name} {facts.kinds[name]}" if name in facts.kinds else name


def _shown(values: Sequence[float | None]) -> list[float | None]:
    """Zeros, of layers that are frozen, have no place on a logarithmic axis."""
    return [value or None for value in values]
