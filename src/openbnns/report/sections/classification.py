"""Classes in the test: confusion matrix, scores of each class, and calibration."""

from __future__ import annotations

import csv
import io
import math
from urllib.parse import quote

from ..._plural import plural
from ..charts import Axis, Line, histogram, lines
from ..confusion_matrix import confusion, pairs
from ..markup import Cell, Markup, Panel, Section, folded, join, table, tag
from ..number_text import NOTHING, count, percent
from ..run_facts import Facts
from ..scores import Calibration, ClassScores, LabelScores

_FEW = 15
_MOST = 200


def section(facts: Facts) -> Section | None:
    if facts.labels is not None:
        return Section("classes", "Labels in the test", [Panel("Each label", _rates(facts.labels, "label"), wide=True)])
    scored = facts.classes
    if scored is None:
        return None
    many = len(scored.names) > 12
    some = 5 < len(scored.names) <= 12
    panels = [
        Panel("Confusion", confusion(scored), wide=many, large=some),
        Panel("Most confused", pairs(scored)),
        Panel("Calibration", _calibration(scored.calibration, scored.accuracy)),
        Panel("Each class", _rates(scored, "class"), large=some, wide=many),
    ]
    return Section("classes", "Classes in the test", panels)


def mistakes(facts: Facts) -> Section | None:
    """Samples that were predicted wrongly, the most confident predictions first."""
    if facts.classes is None:
        return None
    total, wrong = facts.classes.samples, facts.mistake_count
    title = "Wrong predictions"
    if not wrong:
        return Section("wrong", title, [Panel("None", tag("p", "Every test sample was recognized."), wide=True)])
    chosen = facts.mistakes
    which = "All of them" if len(chosen) == wrong else f"Shown are the {len(chosen)} that the network was most sure of"
    lead = f"{wrong:,} of {plural(total, 'test sample')}. {which}."
    hint = tag("p", "Look here for labels that are wrong, and for what the samples have in common.", class_="hint")
    pictures = [mistake for mistake in chosen if mistake.image]
    if pictures:
        drawn = tag(
            "ul",
            [
                tag(
                    "li",
                    tag("img", src=m.image, alt=f"Test sample {m.sample}: {m.truth}, predicted as {m.predicted}"),
                    tag("p", tag("b", m.truth), " read as ", tag("b", m.predicted)),
                    tag("small", f"{percent(m.confidence)} sure · {m.place or f'sample {m.sample}'}"),
                )
                for m in pictures
            ],
            class_="gallery",
        )
        return Section("wrong", title, [Panel("Samples", join(hint, drawn), wide=True), *_doubted(facts)], lead)
    header = ["sample", "true", "predicted", "confidence", "true class"]
    rows = [
        [
            Cell(m.place or m.sample, m.sample), Cell(m.truth, m.truth), Cell(m.predicted, m.predicted),
            Cell(percent(m.confidence), m.confidence), Cell(percent(m.of_truth), m.of_truth),
        ]
        for m in chosen
    ]  # fmt: skip
    drawn = tag("div", table(header, rows, words=3), class_="mistakes")
    if any(m.values for m in chosen):
        listed = table(["sample", "what the network saw"], [[count(m.sample), m.values] for m in chosen], words=2)
        drawn = join(drawn, folded("What the network saw", listed))
    return Section("wrong", title, [Panel("Samples", join(hint, drawn), wide=True), *_doubted(facts)], lead)


def _doubted(facts: Facts) -> list[Panel]:
    """Labels that look wrong, as a list to download."""
    if not facts.doubted:
        return []
    text = io.StringIO(newline="")
    rows = [[m.place or m.sample, m.truth, m.predicted, f"{m.confidence:.4f}"] for m in facts.doubted]
    csv.writer(text).writerows([["sample", "label", "predicted", "confidence"], *rows])
    address = "data:text/csv;charset=utf-8," + quote(text.getvalue())
    words = (
        f"The network is at least 80 % sure of another class for {plural(len(rows), 'test sample')}. Check their labels "
        "before you change the network."
    )
    link = tag("a", "Download the list (CSV)", href=address, download="doubtful-labels.csv")
    return [Panel("Labels that look wrong", join(tag("p", words), tag("p", link)), wide=True)]


def _rates(scored: ClassScores | LabelScores, what: str) -> Markup:
    rates = scored.rates
    order = sorted(range(len(scored.names)), key=lambda i: (_last(float(rates.f1[i])), i))
    rows = [
        (
            Cell(scored.names[i], scored.names[i]), _amount(int(rates.support[i])), _share(float(rates.precision[i])),
            _share(float(rates.recall[i])), Cell(_meter(float(rates.f1[i])), _first(float(rates.f1[i]))),
        )
        for i in order[:_MOST]
    ]  # fmt: skip
    header = (what, "samples", "precision", "recall", "F1")
    hint = tag(
        "p",
        f"Precision: how many of those that are predicted as the {what} are of it. Recall: how many of the {what} are found. F1 "
        "joins both; the lowest come first.",
        class_="hint",
    )
    drawn = table(header, rows[:_FEW] if len(rows) > _FEW + 5 else rows)
    rest = None
    if len(rows) > _FEW + 5:
        title = f"All {len(rows)}" if len(rows) == len(order) else f"The {len(rows)} lowest of {len(order):,}"
        rest = folded(title, table(header, rows))
    return join(hint, drawn, rest)


def _amount(number: int) -> Cell:
    return Cell(count(number), number)


def _share(value: float) -> Cell:
    return Cell(percent(value), _first(value))


def _first(value: float) -> float:
    return -1.0 if math.isnan(value) else value


def _last(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _meter(value: float) -> Markup:
    if math.isnan(value):
        return join(NOTHING)
    return tag("span", percent(value), class_="meter", style=f"--v:{100 * value:.1f}%")


def _calibration(scored: Calibration, accuracy: float) -> Markup:
    """The accuracy by confidence, and how often each confidence occurs."""
    sure = sum(c * n for c, n in zip(scored.confidence, scored.counts, strict=True)) / sum(scored.counts)
    gap = sure - accuracy
    verdict = (
        "Well calibrated: average confidence and accuracy differ by less than 2 points"
        if abs(gap) < 0.02
        else f"Overconfident: average confidence exceeds accuracy by {100 * gap:.1f} points"
        if gap > 0
        else f"Underconfident: accuracy exceeds average confidence by {-100 * gap:.1f} points"
    )
    hint = tag("p", f"{verdict}. The mean distance between the two is {percent(scored.error)}.", class_="hint")
    edges = [i / 10 for i in range(11)]
    counts = [0] * 10
    for edge, number in zip(scored.edges, scored.counts, strict=True):
        counts[round(edge * 10)] = number
    told = [
        f"{percent(edge)} to {percent(edge + scored.width)} sure: {plural(number, 'sample')}\nsure on average: {percent(mean)}\n"
        f"right: {percent(right)}"
        for edge, number, mean, right in zip(
            scored.edges, scored.counts, scored.confidence, scored.accuracy, strict=True
        )
    ]
    shares = Axis(0, 1, share=True)
    curve = lines(
        "Share that is right, by how sure the network is", scored.confidence, [Line("right", scored.accuracy, 0, dots=True)],
        x_label="sure", across=shares, up=shares, told=told, diagonal="right as often as sure",
    )  # fmt: skip
    amounts = histogram(
        "Samples by how sure the network is",
        edges,
        [counts],
        ["samples"],
        x_label="sure",
        share=True,
        low=True,
        text=percent,
    )
    return join(hint, curve, amounts)
