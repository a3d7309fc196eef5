"""The network: a drawing with one box for each step, and the times of the steps."""

from __future__ import annotations

from collections.abc import Sequence

from ..._plural import plural
from ..charts import bars
from ..markup import Markup, Panel, Section, folded, join, tag
from ..number_text import NOTHING, count, milliseconds, percent, sides
from ..run_facts import Facts, Layer

_ROW = 74  # pixels from box to box
_LANE = 12  # and from line to line beside them
_SHOWN = 20


def architecture(layers: Sequence[Layer], inputs: Sequence[tuple[int, ...]], parameters: int) -> Markup:
    """Boxes from the input to the output; a long network is folded behind its first steps."""
    if not layers:
        return tag("p", "The network has no steps to draw.")
    shapes = ", ".join(sides(shape) for shape in inputs) or NOTHING
    lead = tag(
        "p",
        f"{plural(len(layers), 'step')}, {count(parameters)} parameters ({4 * parameters / 1e6:.2f} MB). Layers that run as one "
        "step share a box; a shape is that of one sample.",
        class_="hint",
    )
    drawn = _boxes(layers, shapes)
    if len(layers) > _SHOWN:
        drawn = folded(f"Show all {len(layers)} steps", drawn)
    return join(lead, drawn)


def _boxes(layers: Sequence[Layer], shapes: str) -> Markup:
    lanes = _lanes(layers)
    most = max((layer.parameters for layer in layers), default=0)
    items = [_box("input", "", shapes, 0, most)]
    items += [_box(layer.kind, layer.path, sides(layer.shape), layer.parameters, most) for layer in layers]
    width = _LANE * (1 + max((lane for _, _, lane in lanes), default=-1))
    height = _ROW * len(items)
    curves = []
    for start, end, lane in lanes:
        first, last, out = _ROW * start + _ROW // 2 + 4, _ROW * end + _ROW // 2 - 6, width - _LANE * (lane + 1) + 3
        curves.append(f"M{width} {first}H{out + 6}q-6 0-6 6V{last - 6}q0 6 6 6H{width}")
    around = Markup(
        f'<svg class="around" width="{width}" height="{height}" viewBox="0 0 {width} {height}" aria-hidden="true">'
        f'<path class="flow" d="{"".join(curves)}"/></svg>'
    )
    plain = [i + 1 not in _straight(layers) for i in range(len(layers))]
    listed = [tag("li", item, class_="apart" if i and plain[i - 1] else None) for i, item in enumerate(items)]
    return tag("div", around if curves else None, tag("ol", listed), class_="architecture")


def _straight(layers: Sequence[Layer]) -> set[int]:
    """Boxes, the input being number 0, that read the box above them."""
    return {i + 1 for i, layer in enumerate(layers) if i - 1 in layer.reads}


def _lanes(layers: Sequence[Layer]) -> list[tuple[int, int, int]]:
    """The lines that go around other boxes: from box, to box, and a lane in which no two lines overlap."""
    lines = sorted(
        ((source + 1, i + 1) for i, layer in enumerate(layers) for source in layer.reads if source != i - 1),
        key=lambda ends: ends[1] - ends[0],
    )
    taken: list[list[tuple[int, int]]] = []
    placed = []
    for start, end in lines:
        free = (i for i, others in enumerate(taken) if all(end <= a or start >= b for a, b in others))
        lane = next(free, len(taken))
        if lane == len(taken):
            taken.append([])
        taken[lane].append((start, end))
        placed.append((start, end, lane))
    return placed


def _box(kind: str, path: str, shape: str, parameters: int, most: int) -> Markup:
    share = tag("i", style=f"width:{100 * parameters / most:.1f}%") if parameters and most else None
    return tag(
        "div",
        tag("span", tag("b", kind), tag("small", path) if path else None, class_="what"),
        tag("span", shape, tag("small", plural(parameters, "parameter")) if parameters else None, class_="size"),
        share,
        class_="box",
    )


_FEW = 14


def section(facts: Facts) -> Section | None:
    if not facts.layers:
        return None
    panels = [Panel("Architecture", architecture(facts.layers, facts.inputs, facts.parameters))]
    if facts.profile is not None:
        panels.append(Panel("Time per layer", _times(facts)))
    return Section("network", "Network", panels)


def _times(facts: Facts) -> Markup:
    profile = facts.profile
    assert profile is not None
    rows = [
        (
            f"{row.layer} {row.computes}", [row.forward_ms, row.backward_ms],
            f"{milliseconds(row.forward_ms + row.backward_ms)} ({percent(row.share)})",
        )
        for row in profile.rows
    ]  # fmt: skip
    mode = "a training step" if profile.training else "inference"
    whole = f"forward {milliseconds(profile.forward_ms)}"
    if profile.training:
        whole += f", backward {milliseconds(profile.backward_ms)}"
    hint = tag(
        "p",
        f"Of {mode} with {plural(profile.batch, 'sample')} on {plural(profile.threads, 'thread')}, medians of "
        f"{plural(profile.runs, 'run')}, without loss and optimizer. Whole passes: {whole}.",
        class_="hint",
    )
    layers = sum(row.forward_ms + row.backward_ms for row in profile.rows)
    passes = profile.forward_ms + (profile.backward_ms if profile.training else 0.0)
    if passes > 0:
        more = passes - layers
        why = (
            "the rest is the time between layers" if more >= 0
            else "layers are timed one by one, which takes longer than a pass that runs them together"
        )  # fmt: skip
        hint = join(
            hint,
            tag("p", f"The layers add up to {milliseconds(layers)} of {milliseconds(passes)}: {why}.", class_="hint"),
        )
    words = ["forward", "backward"] if profile.training else ["forward"]
    header = ("layer", "", "time")
    slowest = sorted(rows, key=lambda row: -sum(row[1]))
    if len(rows) <= _FEW:
        return join(hint, bars(header, rows, words))
    shown = bars(header, slowest[:_FEW], words, caption=f"The {_FEW} slowest of {len(rows)}")
    return join(hint, shown, folded("All in their order", bars(header, rows, words)))
