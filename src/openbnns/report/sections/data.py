"""The data: how much there is, how it was split, and how it is spread over classes or values."""

from __future__ import annotations

import numpy as np

from ..._plural import plural
from ..charts import bars, histogram
from ..markup import Markup, Panel, Section, folded, hint, join, table, tag
from ..number_text import count, percent, short, sides
from ..run_facts import Facts, Part

_FEW, _MOST, _BINS = 12, 200, 24


def section(facts: Facts) -> Section | None:
    if not facts.parts:
        return None
    panels = [Panel("Split", _split(facts))]
    if any(part.counts for part in facts.parts):
        what = "labels" if facts.task == "multilabel" else "classes"
        panels.append(Panel(f"Balance of the {what}", _balance(facts, [part for part in facts.parts if part.counts])))
    if valued := [part for part in facts.parts if part.values is not None and len(part.values)]:
        panels.append(Panel("Targets", _targets(valued)))
    return Section("data", "Data", panels)


def _split(facts: Facts) -> Markup:
    total = sum(part.samples for part in facts.parts) or 1
    pieces, rows = [], []
    for i, part in enumerate(facts.parts):
        share = part.samples / total
        pieces.append(tag("span", class_=f"bar b{i}", style=f"width:{100 * share:.2f}%"))
        rows.append((join(tag("span", class_=f"swatch b{i}"), part.name), count(part.samples), percent(share)))
    rows.append((join("all"), count(total), percent(1.0)))
    shapes = ", ".join(sides(shape) for shape in facts.inputs)
    note = hint(f"Each sample is {shapes} numbers.") if shapes else None
    return join(
        tag("div", pieces, class_="stripe", aria_hidden="true"), table(("part", "samples", "share"), rows), note
    )


def _balance(facts: Facts, parts: list[Part]) -> Markup:
    size = max(len(part.counts) for part in parts)
    names = [facts.names[i] if i < len(facts.names) else str(i) for i in range(size)]
    per_class = [[part.counts[i] if i < len(part.counts) else 0 for part in parts] for i in range(size)]
    totals = [sum(numbers) for numbers in per_class]
    labelled = facts.task == "multilabel"  # a sample may have several, or none
    whole = max(sum(part.samples for part in parts) if labelled else sum(totals), 1)
    rows = [
        (name, numbers, f"{total:,} ({percent(total / whole)})")
        for name, numbers, total in zip(names, per_class, totals, strict=True)
    ]
    words, noun = [part.name for part in parts], "label" if labelled else "class"
    header = (noun, "", "samples that have it" if labelled else "samples")
    fewest, most = int(np.argmin(totals)), int(np.argmax(totals))
    said = f"{plural(size, noun)}, from {plural(totals[fewest], 'sample')} ({names[fewest]}) to {totals[most]:,} ({names[most]})."
    if size <= _FEW:
        return join(hint(said), bars(header, rows, words))
    picture = histogram(
        "Samples of each class", [i - 0.5 for i in range(size + 1)], [[row[p] for row in per_class] for p in range(len(parts))],
        words, x_label=f"number of the {noun}, in the order of the names",
        text=lambda edge: names[min(int(edge + 0.5), size - 1)],
    )  # fmt: skip
    ordered = sorted(rows, key=lambda row: -sum(row[1]))[:_MOST]
    title = f"The {_MOST} largest of {size:,}" if size > _MOST else f"All {size}"
    return join(hint(said), picture, folded(title, bars(header, ordered, words)))


def _targets(parts: list[Part]) -> Markup:
    arrays = [part.values for part in parts if part.values is not None]
    low, high = min(float(a.min()) for a in arrays), max(float(a.max()) for a in arrays)
    edges = np.linspace(low, high if high > low else low + 1, _BINS + 1)
    counts = [np.histogram(a, edges)[0].tolist() for a in arrays]
    picture = histogram("Targets", edges.tolist(), counts, [part.name for part in parts], x_label="target")
    measured = ((a.mean(), a.std(), a.min(), a.max()) for a in arrays)
    rows = [(part.name, *(short(float(v)) for v in row)) for part, row in zip(parts, measured, strict=True)]
    return join(picture, table(("part", "mean", "deviation", "lowest", "highest"), rows))
