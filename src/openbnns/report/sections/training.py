"""The course of the training, epoch by epoch, and where the time went."""

from __future__ import annotations

from collections import Counter

from ..charts import Line, axis, bars, lines
from ..markup import Markup, Panel, Section
from ..number_text import called, is_share, metric, percent, seconds
from ..run_facts import Facts

_NOT_METRICS = {"epoch", "step", "learning_rate", "seconds"}


def section(facts: Facts) -> Section | None:
    if not facts.history:
        return None
    names = dict.fromkeys(
        ["loss"]
        + [
            key.removeprefix("validation_")
            for record in facts.history
            for key, value in record.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool) and key not in _NOT_METRICS
        ]
    )
    panels = [_curve(facts, name) for name in names]
    rates = [record["learning_rate"] for record in facts.history]
    epochs = [record["epoch"] for record in facts.history]
    drawn = lines("Learning rate by epoch", epochs, [Line("learning rate", rates)], up=axis(rates, zero=True))
    panels.append(Panel("Learning rate", drawn))
    if (spent := _phases(facts)) is not None:
        panels.append(Panel("Where the time went", spent))
    return Section("training", "Training", panels)


def _curve(facts: Facts, name: str) -> Panel:
    history = facts.history
    series = []
    for style, (field, words) in enumerate(((name, "training"), (f"validation_{name}", "validation"))):
        values = [record.get(field) for record in history]
        if any(value is not None for value in values):
            series.append(Line(words, values, style))
    up = axis(
        [v for line in series for v in line.values if v is not None], log=name.startswith("loss"), share=is_share(name)
    )
    words, marked = called(name), None
    chosen, best = facts.chosen, facts.best
    if chosen is not None and best is not None and len(history) > 1:
        marked = chosen["epoch"], f"{'best' if chosen is best else 'kept'}: epoch {chosen['epoch']}"
    drawn = lines(
        f"{words} by epoch", [record["epoch"] for record in history], series, up=up,
        text=lambda value: metric(name, value), marked=marked,
    )  # fmt: skip
    return Panel(f"{words[0].upper()}{words[1:]}{' (logarithmic)' if up.log else ''}", drawn)


def _phases(facts: Facts) -> Markup | None:
    totals: Counter[str] = Counter()
    for record in facts.history:
        totals.update(record.get("phase_seconds", {}))
    whole = sum(totals.values())
    rows = [(name, [spent], f"{seconds(spent)} ({percent(spent / whole)})") for name, spent in totals.items() if spent]
    return bars(("phase", "", "time"), rows) if rows else None
