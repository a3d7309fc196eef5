"""Charts as inline SVG with HTML text around it.

Lines and dots are drawn in a box of 1000 x 1000 that is stretched to whatever room there is, with strokes that keep their
width; all text is HTML beside it. So a chart fits a phone and a wide screen alike, its text keeps its size and can be
selected, and colours come from the style sheet, which knows light and dark.

A chart can be read with the pointer and with the keyboard: it is a slider over its points, whose value is the text of the
point. ``page.js`` moves the slider.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .markup import Markup, join, names_of_rows, tag
from .number_text import NOTHING, alike, alone, log_ticks, short, ticks

SERIES = 8
"""Line styles that are easy to distinguish: each has a colour and a dash of its own."""

_POINTS = 300  # points of a line; more cannot be seen
_SIDE = 1000
_SVG = 'xmlns="http://www.w3.org/2000/svg"'  # which pages need not say, but pictures that are files of their own do
_SHORT = 12  # letters of a name that leaves room for a bar beside it


@dataclass(frozen=True)
class Line:
    """A line through points, None where there is none; ``style`` chooses colour and dash, by default its number."""

    name: str
    values: Sequence[float | None]
    style: int | None = None
    dots: bool = False


@dataclass(frozen=True)
class Axis:
    """A scale from numbers to places from 0 to 1000."""

    low: float
    high: float
    log: bool = False
    share: bool = False
    whole: bool = False

    def place(self, value: float) -> float:
        if self.log:
            value, low, high = math.log(max(value, self.low)), math.log(self.low), math.log(self.high)
        else:
            low, high = self.low, self.high
        return _SIDE * (value - low) / (high - low) if high > low else _SIDE / 2

    def marks(self, most: int) -> list[tuple[float, str]]:
        """Places and texts of the ticks."""
        if self.log:
            positions = log_ticks(self.low, self.high, most)
            return [(self.place(value), alone(value)) for value in positions]
        positions = ticks(self.low, self.high, most)
        if self.whole:
            positions = list(
                dict.fromkeys(float(round(value)) for value in positions if self.low <= round(value) <= self.high)
            )
        return [
            (self.place(value), text) for value, text in zip(positions, alike(positions, share=self.share), strict=True)
        ]


def axis(values: Sequence[float], *, log: bool = False, share: bool = False, zero: bool = False) -> Axis:
    """An axis around these numbers, with a little room; logarithmic if that is asked for and possible."""
    known = [v for v in values if math.isfinite(v)]
    if log:
        above = [v for v in known if v > 0]
        if above and len(above) == len(known) and max(above) > 3 * min(above):
            return Axis(min(above) / 1.15, max(above) * 1.15, log=True)
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    room = 0.05 * (high - low) or 0.05 * abs(high) or 0.5
    return Axis(low if zero and low == 0 else low - room, high if share and high == 1 else high + room, share=share)


def lines(
    label: str,
    x: Sequence[float],
    series: Sequence[Line],
    *,
    x_label: str = "epoch",
    across: Axis | None = None,
    up: Axis | None = None,
    text: Callable[[float], str] = short,
    told: Sequence[str] | None = None,
    marked: tuple[float, str] | None = None,
    diagonal: str = "",
) -> Markup:
    """Lines over common places ``x``. ``text`` writes the numbers, unless ``told`` has a text for each place.

    ``marked`` is a place with a note, ``diagonal`` the name of a line from the lower left to the upper right.
    """
    chosen = _thinned(len(x))
    if across is None:
        across = Axis(min(x), max(x), whole=True) if len(x) > 1 else Axis(x[0] - 1, x[0] + 1, whole=True)
    up = up or axis([v for line in series for v in line.values if v is not None])
    drawn, places = [], []
    if diagonal:
        drawn.append(_path([(0, _SIDE), (_SIDE, 0)], "reference"))
    for number, line in enumerate(series):
        style = number % SERIES if line.style is None else line.style
        points = [
            None if (v := line.values[i]) is None or not math.isfinite(v) else (across.place(x[i]), _SIDE - up.place(v))
            for i in chosen
        ]
        dots = line.dots or len(x) == 1
        drawn.append(_path(points, f"s{style}", dots=dots))
        places.append([None if point is None else round(point[1]) for point in points])
    if told is None:
        told = [
            "\n".join(
                [f"{x_label} {short(x[i])}"]
                + [
                    f"{line.name}: {text(v)}"
                    for line in series
                    if (v := line.values[i]) is not None and math.isfinite(v)
                ]
            )
            for i in chosen
        ]
    mark = None if marked is None else _note(across.place(marked[0]), marked[1])
    plot = _plot(label, drawn, across, up, [round(across.place(x[i])) for i in chosen], places, told, mark, x_label)
    return tag("figure", _legend(series, diagonal) if len(series) > 1 or diagonal else None, plot, class_="chart")


def scatter(
    label: str,
    points: Sequence[tuple[float, float, str]],
    *,
    x_label: str,
    y_label: str,
    line: tuple[tuple[float, float], tuple[float, float]],
    same: bool = False,
) -> Markup:
    """Dots with their texts, and a straight line; with ``same`` both axes show the same numbers."""
    points = sorted(points)
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    across, up = axis([*xs, *ys] if same else xs), axis([*xs, *ys] if same else [*ys, line[0][1], line[1][1]])
    spots = [(across.place(x), _SIDE - up.place(y)) for x, y, _ in points]
    ends = [
        (across.place(max(across.low, min(across.high, x))), _SIDE - up.place(max(up.low, min(up.high, y))))
        for x, y in line
    ]
    drawn = [_path(ends, "reference"), Markup(f'<path class="dots s0" d="{_dots(spots)}"/>')]
    plot = _plot(
        label, drawn, across, up, [round(p[0]) for p in spots], [[round(p[1]) for p in spots]], [p[2] for p in points], None,
        x_label, scattered=True,
    )  # fmt: skip
    return tag("figure", tag("p", y_label, class_="axis"), plot, class_="chart square" if same else "chart")


def histogram(
    label: str,
    edges: Sequence[float],
    counts: Sequence[Sequence[int]],
    names: Sequence[str],
    *,
    x_label: str,
    y_label: str = "samples",
    share: bool = False,
    low: bool = False,
    text: Callable[[float], str] = short,
) -> Markup:
    """The number of values between the edges, for one group or for several, stacked on top of each other.

    A ``low`` one takes half the height.
    """
    across = Axis(edges[0], edges[-1], share=share)
    totals = [sum(group[i] for group in counts) for i in range(len(edges) - 1)]
    up = Axis(0, max(max(totals), 1) * 1.05, whole=True)
    drawn, below = [], [0] * len(totals)
    for number, group in enumerate(counts):
        pieces = []
        for i, amount in enumerate(group):
            if amount:
                left, right = across.place(edges[i]) + 2, across.place(edges[i + 1]) - 2
                top, bottom = _SIDE - up.place(below[i] + amount), _SIDE - up.place(below[i])
                pieces.append(f"M{left:.0f} {bottom:.0f}V{top:.0f}H{right:.0f}V{bottom:.0f}z")
        below = [a + b for a, b in zip(below, group, strict=True)]
        drawn.append(Markup(f'<path class="area s{number}" d="{"".join(pieces)}"/>'))
    middle = [round(across.place((a + b) / 2)) for a, b in pairwise(edges)]
    told = []
    for i in range(len(totals)):
        amounts = [f"{name}: {group[i]:,}" for name, group in zip(names, counts, strict=True)]
        told.append("\n".join([f"{text(edges[i])} to {text(edges[i + 1])}", *amounts]))
    tops = [[round(_SIDE - up.place(total)) for total in totals]]
    plot = _plot(label, drawn, across, up, middle, tops, told, None, x_label)
    legend = _legend([Line(name, []) for name in names], areas=True) if len(names) > 1 else None
    return tag("figure", legend, tag("p", y_label, class_="axis"), plot, class_="chart low" if low else "chart")


def bars(
    header: Sequence[str],
    rows: Sequence[tuple[str, Sequence[float], str]],
    names: Sequence[str] = (),
    *,
    caption: str = "",
) -> Markup:
    """Names with a bar, of one length or of several that follow each other, and a number: a table, or a list for long names."""
    longest = max((sum(lengths) for _, lengths, _ in rows), default=0) or 1
    tracks = [
        tag(
            "span",
            [
                tag(
                    "span",
                    class_=f"bar b{i}",
                    style=f"width:{100 * length / longest:.2f}%",
                    title=names[i] if names else None,
                )
                for i, length in enumerate(lengths)
                if length > 0
            ],
            class_="track",
        )
        for _, lengths, _ in rows
    ]
    legend = _legend([Line(name, []) for name in names], areas=True) if len(names) > 1 else None
    note = tag("p", caption, class_="hint") if caption else None
    if max((len(name) for name, _, _ in rows), default=0) > _SHORT:
        items = [
            tag("li", tag("span", name), tag("b", text), track)
            for (name, _, text), track in zip(rows, tracks, strict=True)
        ]
        return join(note, legend, tag("ul", items, class_="compared"))
    body = [
        tag("tr", tag("th", name, scope="row"), tag("td", track), tag("td", text, class_="n"))
        for (name, _, text), track in zip(rows, tracks, strict=True)
    ]
    head = tag("tr", [tag("th", text, scope="col", class_="n" if i == 2 else None) for i, text in enumerate(header)])
    return join(note, legend, tag("table", tag("thead", head), tag("tbody", body), class_="bars"))


# Pieces.


def _thinned(count: int) -> list[int]:
    """Numbers of at most so many points, with the first and the last."""
    if count <= _POINTS:
        return list(range(count))
    return sorted({round(i) for i in np.linspace(0, count - 1, _POINTS)})


def _path(points: Sequence[tuple[float, float] | None], kind: str, *, dots: bool = False) -> Markup:
    words, pen = [], "M"
    for point in points:
        if point is None:
            pen = "M"
            continue
        words.append(f"{pen}{point[0]:.0f} {point[1]:.0f}")
        pen = "L"
    drawn = f'<path class="line {kind}" d="{"".join(words)}"/>'
    alone = [p for i, p in enumerate(points) if p is not None and _is_alone(points, i)]
    if dots or alone:
        drawn += f'<path class="dots {kind}" d="{_dots([p for p in points if p is not None] if dots else alone)}"/>'
    return Markup(drawn)


def _is_alone(points: Sequence[tuple[float, float] | None], i: int) -> bool:
    return (i == 0 or points[i - 1] is None) and (i + 1 == len(points) or points[i + 1] is None)


def _dots(points: Sequence[tuple[float, float]]) -> str:
    """Lines of length 0 with round ends: dots that stay round even if the box is stretched."""
    return "".join(f"M{x:.0f} {y:.0f}h0" for x, y in points)


def _note(place: float, text: str) -> Markup:
    side = " before" if place > _SIDE / 2 else ""
    return tag("span", tag("span", text), class_=f"mark{side}", style=f"left:{place / 10:.1f}%")


def _legend(series: Sequence[Line], diagonal: str = "", *, areas: bool = False) -> Markup:
    """Buttons, each of which highlights one line."""
    items = []
    for number, line in enumerate(series):
        style = number % SERIES if line.style is None else line.style
        if areas:
            items.append(tag("li", tag("span", class_=f"swatch b{style}"), line.name))
            continue
        key = Markup(
            f'<svg {_SVG} viewBox="0 0 28 8" aria-hidden="true"><path class="line s{style}" d="M1 4H27"/></svg>'
        )
        items.append(tag("li", tag("button", key, line.name, type="button", aria_pressed="false", data_line=style)))
    if diagonal:
        key = Markup(
            f'<svg {_SVG} viewBox="0 0 28 8" aria-hidden="true"><path class="line reference" d="M1 4H27"/></svg>'
        )
        items.append(tag("li", key, diagonal))
    return tag("ul", items, class_="legend")


def _plot(
    label: str,
    drawn: Sequence[Markup],
    across: Axis,
    up: Axis,
    x: Sequence[int],
    y: Sequence[Sequence[int | None]],
    told: Sequence[str],
    mark: Markup | None,
    x_label: str,
    *,
    scattered: bool = False,
) -> Markup:
    columns, rows = across.marks(6), up.marks(5)
    grid = "".join(f"M0 {_SIDE - place:.0f}H{_SIDE}" for place, _ in rows)
    picture = Markup(
        f'<svg {_SVG} viewBox="0 0 {_SIDE} {_SIDE}" preserveAspectRatio="none" aria-hidden="true">'
        f'<path class="grid" d="{grid}"/>'
        f"{join(drawn)}</svg>"
    )
    texts = [tag("span", text, class_="y", style=f"top:{100 - place / 10:.1f}%") for place, text in rows]
    texts += [tag("span", text, class_="x", style=f"left:{place / 10:.1f}%") for place, text in columns]
    data = json.dumps(
        {"x": list(x), "y": [list(row) for row in y], "t": list(told), "s": scattered}, separators=(",", ":")
    )
    width = max((len(text) for _, text in rows), default=1)
    plot = tag(
        "div", picture, texts, mark, class_="plot", tabindex=0, role="slider", aria_label=label, aria_valuemin=1,
        aria_valuemax=len(told), aria_valuenow=len(told), aria_valuetext=", ".join(told[-1].split("\n")), data_points=data,
    )  # fmt: skip
    return tag(
        "div", plot, tag("p", x_label, class_="axis under"), class_="frame", style=f"--left:{0.55 * width + 0.9:.1f}em"
    )


_LEVELS = 6
_COLUMNS = 120


def heat(
    label: str,
    rows: Sequence[tuple[str, Sequence[float | None]]],
    columns: Sequence[str],
    *,
    text: Callable[[float], str] = short,
) -> Markup:
    """A row of cells for each name, the darker the larger, on a logarithmic scale that all share."""
    every = -(-len(columns) // _COLUMNS)
    known = [v for _, values in rows for v in values if v is not None and v > 0 and math.isfinite(v)]
    low, high = (math.log(min(known)), math.log(max(known))) if known else (0.0, 1.0)
    paths: dict[int, list[str]] = {}
    told = []
    for i, (_, values) in enumerate(rows):
        line = []
        for j, value in enumerate(values[::every]):
            line.append(NOTHING if value is None else text(value))
            if value is not None and value > 0 and math.isfinite(value):
                level = (
                    1 + round((_LEVELS - 1) * (math.log(value) - low) / (high - low)) if high > low else _LEVELS // 2
                )
                paths.setdefault(level, []).append(f"M{j} {i}h1v1h-1z")
        told.append(line)
    wide = len(columns[::every])
    drawn = "".join(f'<path class="g{level}" d="{"".join(cells)}"/>' for level, cells in sorted(paths.items()))
    picture = Markup(
        f'<svg viewBox="0 0 {wide} {len(rows)}" preserveAspectRatio="none" aria-hidden="true">{drawn}</svg>'
    )
    names = [name for name, _ in rows]
    data = json.dumps(
        {"names": names, "columns": list(columns[::every]), "values": told}, separators=(",", ":"), ensure_ascii=False
    )
    cells = tag(
        "div", picture, class_="cells", tabindex=0, role="group", aria_label=f"{label}; arrow keys go from cell to cell",
        data_heat=data,
    )  # fmt: skip
    side = names_of_rows(names)
    ends = tag("p", tag("span", columns[0]), tag("span", columns[-1]), class_="ends")
    scale = tag(
        "p",
        text(math.exp(low)),
        [tag("span", class_=f"swatch g{level}") for level in range(1, _LEVELS + 1)],
        text(math.exp(high)),
        class_="scale",
    )
    board = tag("div", side, cells, ends, class_="board heat", style=f"--n:{len(rows)}")
    readout = tag("p", "Point at a cell, or choose one with the arrow keys.", class_="readout", aria_live="polite")
    return join(scale, board, readout)
