"""The data: how much there is, how it was split, and how it is spread over classes or values."""

from __future__ import annotations

import numpy as np

from ..._plural import plural
from ..charts import bars, histogram
from ..markup import Markup, Panel, Section, folded, join, table, tag
from ..number_text import count, percent, short, sides
from ..run_facts import Facts

_FEW = 12
_MOST = 200
_BINS = 24


def section(facts: Facts) -> Section | None:
    if not facts.parts:
        return None
    panels = [Panel("Split", _split(facts))]
    if any(part.counts for part in facts.parts):
        what = "labels" if facts.task == "multilabel" else "classes"
        panels.append(Panel(f"Balance of the {what}", _balance(facts)))
    if any(part.values is not None for part in facts.parts):
        panels.append(Panel("Targets", _targets(facts)))
    return Section("data", "Data", panels)


def _split(facts: Facts) -> Markup:
    total = sum(part.samples for part in facts.parts)
    stripe = tag(
        "div",
        [
            tag("span", class_=f"bar b{i}", style=f"width:{100 * part.samples / max(total, 1):.2f}%")
            for i, part in enumerate(facts.parts)
        ],
        class_="stripe",
        aria_hidden="true",
    )
    rows = [
        (
            join(tag("span", class_=f"swatch b{i}"), part.name),
            count(part.samples),
            percent(part.samples / max(total, 1)),
        )
        for i, part in enumerate(facts.parts)
    ]
    rows.append((join("all"), count(total), percent(1.0)))
    shapes = ", ".join(sides(shape) for shape in facts.inputs)
    note = tag("p", f"Each sample is {shapes} numbers.", class_="hint") if shapes else None
    return join(stripe, table(("part", "samples", "share"), rows), note)


def _balance(facts: Facts) -> Markup:
    names, parts = facts.names, [part for part in facts.parts if part.counts]
    size = max(len(part.counts) for part in parts)
    called = [names[i] if i < len(names) else str(i) for i in range(size)]
    per_class = [[part.counts[i] if i < len(part.counts) else 0 for part in parts] for i in range(size)]
    totals = [sum(numbers) for numbers in per_class]
    labelled = facts.task == "multilabel"  # a sample may have several, or none
    whole = max(sum(part.samples for part in parts) if labelled else sum(totals), 1)
    rows = [
        (name, numbers, f"{total:,} ({percent(total / whole)})")
        for name, numbers, total in zip(called, per_class, totals, strict=True)
    ]
    words = [part.name for part in parts]
    fewest, most = int(np.argmin(totals)), int(np.argmax(totals))
    noun, header = ("label", ("label", "", "samples that have it")) if labelled else ("class", ("class", "", "samples"))
    said = f"{plural(size, noun)}, from {plural(totals[fewest], 'sample')} ({called[fewest]}) to "
    said += f"{totals[most]:,} ({called[most]})."
    if size <= _FEW:
        return join(tag("p", said, class_="hint"), bars(header, rows, words))
    edges = [i - 0.5 for i in range(size + 1)]
    counts = [[numbers[p] for numbers in per_class] for p in range(len(parts))]
    picture = histogram(
        "Samples of each class", edges, counts, words, x_label="number of the class, in the order of the names",
        text=lambda edge: called[min(int(edge + 0.5), size - 1)],
    )  # fmt: skip
    ordered = sorted(rows, key=lambda row: -sum(row[1]))[:_MOST]
    listed = folded(
        f"The {len(ordered)} largest classes" if size > _MOST else "All classes", bars(header, ordered, words)
    )
    return join(tag("p", said, class_="hint"), picture, listed)


def _targets(facts: Facts) -> Markup:
    parts = [part for part in facts.parts if part.values is not None and len(part.values)]
    arrays = [part.values for part in parts if part.values is not None]
    low, high = min(float(a.min()) for a in arrays), max(float(a.max()) for a in arrays)
    edges = np.linspace(low, high if high > low else low + 1, _BINS + 1)
    counts = [np.histogram(a, edges)[0].tolist() for a in arrays]
    picture = histogram("Targets", edges.tolist(), counts, [part.name for part in parts], x_label="target")
    rows = [
        (part.name, short(float(a.mean())), short(float(a.std())), short(float(a.min())), short(float(a.max())))
        for part, a in zip(parts, arrays, strict=True)
    ]
    return join(picture, table(("part", "mean", "deviation", "lowest", "highest"), rows))
