"""Classes in the test: confusion matrix, scores of each class, calibration, and the samples that were predicted wrongly."""

from __future__ import annotations

import math

import numpy as np

from ..._plural import plural
from ..charts import Axis, Line, histogram, lines
from ..markup import Markup, Panel, Section, folded, hint, join, table, tag
from ..number_text import NOTHING, count, percent
from ..run_facts import Facts
from ..scores import Calibration, ClassScores, LabelScores
from ..thumbnails import pictures_of

_MATRIX = 30  # classes of a confusion matrix; of more there are pairs alone
_FEW, _MOST = 15, 200  # rows of the table of classes
_MILD = 0.2  # share of a class below which no error has the strongest colour


def section(facts: Facts) -> Section | None:
    if facts.labels is not None:
        return Section("classes", "Labels in the test", [Panel("Each label", _rates(facts.labels, "label"), wide=True)])
    scored = facts.classes
    if scored is None:
        return None
    size, panels = len(scored.names), []
    if size <= _MATRIX:
        panels.append(Panel("Confusion", _confusion(scored), wide=size > 12, large=5 < size <= 12))
    elif scored.right < scored.samples:
        panels.append(Panel("Most confused", _pairs(scored)))
    panels += [
        Panel("Calibration", _calibration(scored.calibration, scored.accuracy)),
        Panel("Each class", _rates(scored, "class"), wide=5 < size <= 12 or size > _MATRIX, large=12 < size <= _MATRIX),
    ]
    return Section("classes", "Classes in the test", panels)


def mistakes(facts: Facts) -> Section | None:
    """Samples that were predicted wrongly, the most confident predictions first."""
    if facts.classes is None or not facts.mistakes:
        return None
    chosen, wrong = facts.mistakes, facts.classes.samples - facts.classes.right
    which = "All of them" if len(chosen) == wrong else f"Shown are the {len(chosen)} that the network was most sure of"
    lead = f"{wrong:,} of {plural(facts.classes.samples, 'test sample')}. {which}."
    drawn = pictures_of(
        chosen, lambda m: (m.truth, " read as ", m.predicted, f"{percent(m.confidence)} sure · {m.place}")
    )
    if drawn is None:
        rows = [(m.place, m.truth, m.predicted, percent(m.confidence), percent(m.of_truth)) for m in chosen]
        listed = table(["sample", "true", "predicted", "confidence", "true class"], rows, words=3)
        drawn = tag("div", listed, class_="mistakes")
    said = hint("Look here for labels that are wrong, and for what the samples have in common.")
    return Section("wrong", "Wrong predictions", [Panel("Samples", join(said, drawn), wide=True)], lead)


def _confusion(scored: ClassScores) -> Markup:
    names, size = scored.names, len(scored.names)
    counts = np.zeros((size, size), np.int64)
    counts[scored.cells[0], scored.cells[1]] = scored.cells[2]
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    worst = max(float((shares - np.diag(np.diag(shares))).max()), _MILD)
    rows = []
    for i, name in enumerate(names):
        cells = []
        for j, number in enumerate(counts[i].tolist()):
            level = max(1, round(6 * float(shares[i, j]) / (1 if i == j else worst)))
            said = "recognized" if i == j else f"predicted as {names[j]}"
            told = f"{name} {said}: {number:,} of {plural(int(counts[i].sum()), 'sample')} ({percent(float(shares[i, j]))})"
            kind = f"{'g' if i == j else 'r'}{level}" if number else None
            cells.append(tag("td", tag("span", count(number)) if number else None, class_=kind, title=told))
        rows.append(tag("tr", tag("th", tag("span", name), scope="row", title=name), cells))
    heads = [tag("th", tag("span", name), scope="col", title=name) for name in names]
    longest = max(map(len, names))
    kind = "confusion few" if size <= 12 else "confusion some"
    if longest <= 4 or (size <= 3 and longest <= 10):  # names that fit above their columns as they are
        kind += " flat"
    style = f"--n:{size};--name:{0.62 * longest + 1:.1f}em"
    matrix = tag("table", tag("thead", tag("tr", tag("td"), heads)), tag("tbody", rows), class_=kind, style=style)
    return join(hint("Rows are true classes, columns what they were predicted as, in the same order."), matrix)


def _pairs(scored: ClassScores) -> Markup:
    """The classes that are most often taken for each other."""
    rows = []
    for true, said, number in scored.confused(10):
        share = percent(number / int(scored.counts[2, true]))
        rows.append((scored.names[true], scored.names[said], count(number), share))
    return table(("true", "predicted", "samples", "of the class"), rows, words=2)


def _rates(scored: ClassScores | LabelScores, what: str) -> Markup:
    rates, rows = scored.rates, []
    f1 = [math.inf if math.isnan(value) else value for value in rates.f1.tolist()]
    order = sorted(range(len(f1)), key=lambda i: (f1[i], i))
    for i in order[:_MOST]:
        share = f"{100 * f1[i]:.1f}%"
        meter = NOTHING if math.isinf(f1[i]) else tag("span", percent(f1[i]), class_="meter", style=f"--v:{share}")
        numbers = percent(float(rates.precision[i])), percent(float(rates.recall[i])), meter
        rows.append((scored.names[i], count(int(rates.support[i])), *numbers))
    header = (what, "samples", "precision", "recall", "F1")
    said = hint(
        f"Precision: how many of those that are predicted as the {what} are of it. Recall: how many of the {what} are found. F1 "
        "joins both; the lowest come first."
    )
    if len(rows) <= _FEW + 5:
        return join(said, table(header, rows))
    title = f"All {len(rows)}" if len(rows) == len(order) else f"The {len(rows)} lowest of {len(order):,}"
    return join(said, table(header, rows[:_FEW]), folded(title, table(header, rows)))


def _calibration(scored: Calibration, accuracy: float) -> Markup:
    """The accuracy by confidence, and how often each confidence occurs."""
    gap = sum(c * n for c, n in zip(scored.confidence, scored.counts, strict=True)) / sum(scored.counts) - accuracy
    verdict = "Well calibrated: average confidence and accuracy differ by less than 2 points"
    if abs(gap) >= 0.02:
        most, least = ("average confidence", "accuracy") if gap > 0 else ("accuracy", "average confidence")
        verdict = f"{'Over' if gap > 0 else 'Under'}confident: {most} exceeds {least} by {100 * abs(gap):.1f} points"
    counts, told = [0] * 10, []
    for edge, number, sure, right in zip(scored.edges, scored.counts, scored.confidence, scored.accuracy, strict=True):
        counts[round(edge * 10)] = number
        between = f"{percent(edge)} to {percent(edge + scored.width)} sure: {plural(number, 'sample')}"
        told.append(f"{between}\nsure on average: {percent(sure)}\nright: {percent(right)}")
    shares = Axis(0, 1, share=True)
    curve = lines(
        "Share that is right, by how sure the network is", scored.confidence, [Line("right", scored.accuracy, 0, dots=True)],
        x_label="sure", across=shares, up=shares, told=told, diagonal="right as often as sure",
    )  # fmt: skip
    amounts = histogram(
        "Samples by how sure the network is", [i / 10 for i in range(11)], [counts], ["samples"], x_label="sure", share=True,
        low=True, text=percent,
    )  # fmt: skip
    return join(hint(f"{verdict}. The mean distance between the two is {percent(scored.error)}."), curve, amounts)
