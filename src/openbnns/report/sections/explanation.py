"""Explanations of predictions: columns by importance, their effect, and the quality of predictions for each group."""

from __future__ import annotations

from ..charts import Axis, Line, bars, lines
from ..explanation import Dependence, Explanation
from ..markup import Cell, Markup, Panel, Section, folded, join, table, tag
from ..number_text import count, percent, short
from ..run_facts import Facts

_FEW = 12


def section(facts: Facts) -> Section | None:
    explanation = facts.explanation
    if explanation is None or not explanation.importance:
        return None
    panels = [Panel("Importance of the columns", _importance(explanation))]
    shares = explanation.score == "accuracy"
    panels += [Panel(_effect(one), _dependence(one, shares)) for one in explanation.dependence]
    if explanation.groups:
        panels.append(Panel("Results by group", _groups(explanation), wide=True))
    return Section("columns", "What predictions depend on", panels)


def _effect(one: Dependence) -> str:
    return (
        f"Effect of {one.column} on {next(iter(one.predictions))}"
        if len(one.predictions) == 1
        else f"Effect of {one.column}"
    )


def _importance(explanation: Explanation) -> Markup:
    points = explanation.score == "accuracy"
    rows = [
        (one.column, [max(one.loss, 0.0)], f"{100 * one.loss:.1f} ± {100 * one.spread:.1f}" if points else short(one.loss, 3))
        for one in explanation.importance
    ]  # fmt: skip
    unit = "points of accuracy" if points else "R²"
    hint = tag(
        "p",
        f"The loss in {unit} on test samples if the column is shuffled among them. A column that says the same as another "
        "one looks less important than it is.",
        class_="hint",
    )
    header = ("column", "", "loss")
    if len(rows) <= _FEW:
        return join(hint, bars(header, rows))
    return join(hint, bars(header, rows[:_FEW]), folded(f"All {len(rows)}", bars(header, rows)))


def _dependence(one: Dependence, shares: bool) -> Markup:
    what = "probability" if shares else "prediction"
    text = percent if shares else short
    hint = tag("p", f"The mean {what} if all test samples had this value, everything else unchanged.", class_="hint")
    if one.places is None or len(one.places) < 2:
        (name, values), *_ = one.predictions.items()
        rows = [(category, [max(value, 0.0)], text(value)) for category, value in zip(one.values, values, strict=True)]
        return join(hint, bars((one.column, "", name), rows))
    series = [Line(name, list(values), i) for i, (name, values) in enumerate(one.predictions.items())]
    across = Axis(min(one.places), max(one.places))
    up = Axis(0, 1, share=True) if shares else None
    told = [
        "\n".join([f"{one.column} {value}", *(f"{line.name}: {text(float(line.values[i] or 0))}" for line in series)])
        for i, value in enumerate(one.values)
    ]
    label = f"Mean {what} of {', '.join(line.name for line in series)} by {one.column}"
    return join(hint, lines(label, one.places, series, x_label=one.column, across=across, up=up, told=told))


def _groups(explanation: Explanation) -> Markup:
    classes = explanation.score == "accuracy"
    header = ["group", "samples", "accuracy" if classes else "RMSE"] + ["most frequent mistake"] * classes
    rows: list[list[Cell | str]] = [
        [
            Cell(f"{group.column} = {group.category}", f"{group.column} = {group.category}"),
            Cell(count(group.samples), group.samples),
            Cell(percent(group.score) if classes else short(group.score), group.score),
            *([group.confused or "none"] if classes else []),
        ]
        for group in explanation.groups
    ]
    return tag("div", table(header, rows), class_="scroll")
