"""Charts as inline SVG with HTML text around it.

Lines and dots are drawn in a box of 1000 x 1000 that is stretched to whatever room there is, with strokes that keep their
width; all text is HTML beside it. So a chart fits a phone and a wide screen alike, its text keeps its size and can be
selected, and colours come from the style sheet, which knows light and dark. Values appear under the pointer, as titles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .markup import Content, Markup, hint, join, tag
from .number_text import alike, alone, log_ticks, short, ticks

_POINTS = 300  # points of a line; more cannot be seen
_SIDE = 1000
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
        low, high = self.low, self.high
        if self.log:
            value, low, high = math.log(max(value, low)), math.log(low), math.log(high)
        return _SIDE * (value - low) / (high - low) if high > low else _SIDE / 2

    def marks(self, most: int) -> list[tuple[float, str]]:
        """Places and texts of the ticks."""
        if self.log:
            return [(self.place(value), alone(value)) for value in log_ticks(self.low, self.high, most)]
        values = ticks(self.low, self.high, most)
        if self.whole:
            values = [*dict.fromkeys(float(round(v)) for v in values if self.low <= round(v) <= self.high)]
        return [(self.place(v), text) for v, text in zip(values, alike(values, share=self.share), strict=True)]


def axis(values: Sequence[float], *, log: bool = False, share: bool = False, zero: bool = False) -> Axis:
    """An axis around these numbers, with a little room; logarithmic if that is asked for and possible."""
    known = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(known), max(known)
    if log and low > 0 and high > 3 * low:
        return Axis(low / 1.15, high * 1.15, log=True)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    room = 0.05 * (high - low) or 0.05 * abs(high) or 0.5
    return Axis(low if zero and low == 0 else low - room, high if share and high == 1 else high + room, share=share)


def lines(
    label: str, x: Sequence[float], series: Sequence[Line], *, x_label: str = "epoch", across: Axis | None = None,
    up: Axis | None = None, text: Callable[[float], str] = short, told: Sequence[str] | None = None,
    marked: tuple[float, str] | None = None, diagonal: str = "",
) -> Markup:  # fmt: skip
    """Lines over common places ``x``. ``text`` writes the numbers, unless ``told`` has a text for each place.

    ``marked`` is a place with a note, ``diagonal`` the name of a line from the lower left to the upper right.
    """
    chosen = sorted({round(i) for i in np.linspace(0, len(x) - 1, min(len(x), _POINTS))})
    if across is None:
        across = Axis(min(x), max(x), whole=True) if len(x) > 1 else Axis(x[0] - 1, x[0] + 1, whole=True)
    up = up or axis([v for line in series for v in line.values if v is not None])
    drawn = [_path([(0, _SIDE), (_SIDE, 0)], "reference")] if diagonal else []
    for number, line in enumerate(series):
        points = [
            None if (v := line.values[i]) is None or not math.isfinite(v) else (across.place(x[i]), _SIDE - up.place(v))
            for i in chosen
        ]
        drawn.append(_path(points, _style(number, line), dots=line.dots or len(x) == 1))
    said = []
    for i in chosen:
        values = [f"{s.name}: {text(v)}" for s in series if (v := s.values[i]) is not None and math.isfinite(v)]
        said.append("\n".join([f"{x_label} {short(x[i])}", *values]) if told is None else told[i])
    drawn += _hover([across.place(x[i]) for i in chosen], said)
    mark = None
    if marked is not None:
        place = across.place(marked[0])
        side = "mark before" if place > _SIDE / 2 else "mark"
        mark = tag("span", tag("span", marked[1]), class_=side, style=f"left:{place / 10:.1f}%")
    legend = _legend(series, diagonal) if len(series) > 1 or diagonal else None
    return tag("figure", legend, _plot(label, drawn, across, up, x_label, mark), class_="chart")


def scatter(
    label: str, points: Sequence[tuple[float, float, str]], *, x_label: str, y_label: str,
    line: tuple[tuple[float, float], tuple[float, float]], same: bool = False,
) -> Markup:  # fmt: skip
    """Dots with their texts, and a straight line; with ``same`` both axes show the same numbers."""
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    across, up = axis([*xs, *ys] if same else xs), axis([*xs, *ys] if same else [*ys, line[0][1], line[1][1]])
    ends = [
        (across.place(min(max(x, across.low), across.high)), _SIDE - up.place(min(max(y, up.low), up.high)))
        for x, y in line
    ]
    drawn = [_path(ends, "reference")]
    for x, y, text in points:
        d = f"M{across.place(x):.0f} {_SIDE - up.place(y):.0f}h0"
        drawn.append(tag("path", tag("title", text), class_="dots s0", d=d))
    plot = _plot(label, drawn, across, up, x_label)
    return tag("figure", tag("p", y_label, class_="axis"), plot, class_="chart square" if same else "chart")


def histogram(
    label: str, edges: Sequence[float], counts: Sequence[Sequence[int]], names: Sequence[str], *, x_label: str,
    share: bool = False, low: bool = False, text: Callable[[float], str] = short,
) -> Markup:  # fmt: skip
    """The number of samples between the edges, for one group or for several, stacked on top of each other.

    A ``low`` one takes half the height.
    """
    across, totals = Axis(edges[0], edges[-1], share=share), [sum(amounts) for amounts in zip(*counts, strict=True)]
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
        drawn.append(tag("path", class_=f"area s{number}", d="".join(pieces)))
    said = []
    for i, (a, b) in enumerate(pairwise(edges)):
        amounts = [f"{name}: {group[i]:,}" for name, group in zip(names, counts, strict=True)]
        said.append("\n".join([f"{text(a)} to {text(b)}", *amounts]))
    drawn += _hover([across.place((a + b) / 2) for a, b in pairwise(edges)], said)
    legend = _legend([Line(name, []) for name in names], areas=True) if len(names) > 1 else None
    plot = _plot(label, drawn, across, up, x_label)
    return tag("figure", legend, tag("p", "samples", class_="axis"), plot, class_="chart low" if low else "chart")


def bars(
    header: Sequence[str], rows: Sequence[tuple[str, Sequence[float], str]], names: Sequence[str] = (), *,
    caption: str = "", whole: float = 0.0,
) -> Markup:  # fmt: skip
    """Names with a bar, of one length or of several that follow each other, and a number: a table, or a list for long names.

    Bars reach from 0 to ``whole``, or to the longest.
    """
    longest = whole or max((sum(lengths) for _, lengths, _ in rows), default=0) or 1
    body: list[Markup] = []
    listed = max((len(name) for name, _, _ in rows), default=0) > _SHORT
    for name, lengths, text in rows:
        pieces = [
            tag(
                "span",
                class_=f"bar b{i}",
                style=f"width:{100 * length / longest:.2f}%",
                title=names[i] if names else None,
            )
            for i, length in enumerate(lengths)
            if length > 0
        ]
        track = tag("span", pieces, class_="track")
        if listed:
            body.append(tag("li", tag("span", name), tag("b", text), track))
        else:
            body.append(tag("tr", tag("th", name, scope="row"), tag("td", track), tag("td", text, class_="n")))
    legend = _legend([Line(name, []) for name in names], areas=True) if len(names) > 1 else None
    if listed:
        drawn = tag("ul", body, class_="compared")
    else:
        head = [tag("th", text, scope="col", class_="n" if i == 2 else None) for i, text in enumerate(header)]
        drawn = tag("table", tag("thead", tag("tr", head)), tag("tbody", body), class_="bars")
    return join(hint(caption) if caption else None, legend, drawn)


# Pieces.


def _style(number: int, line: Line) -> str:
    return f"s{number % 8 if line.style is None else line.style}"


def _path(points: Sequence[tuple[float, float] | None], kind: str, *, dots: bool = False) -> Markup:
    """A line with gaps where points are None, with dots at all points, or at those without neighbours."""
    words, pen = [], "M"
    for point in points:
        if point is not None:
            words.append(f"{pen}{point[0]:.0f} {point[1]:.0f}")
        pen = "M" if point is None else "L"
    around = [None, *points, None]
    alone = [
        p for a, p, b in zip(around, points, around[2:], strict=False) if p and (dots or (a is None and b is None))
    ]
    spots = "".join(f"M{x:.0f} {y:.0f}h0" for x, y in alone)  # which stay round even if the box is stretched
    drawn = tag("path", class_=f"line {kind}", d="".join(words))
    return join(drawn, tag("path", class_=f"dots {kind}", d=spots) if alone else None)


def _hover(places: Sequence[float], texts: Sequence[str]) -> list[Markup]:
    """Areas around places on the lower axis, which show a text under the pointer."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    edges = [0.0, *((places[a] + places[b]) / 2 for a, b in pairwise(order)), float(_SIDE)]
    return [
        tag("path", tag("title", texts[i]), class_="hover", d=f"M{left:.1f} 0H{right:.1f}V{_SIDE}H{left:.1f}z")
        for i, (left, right) in zip(order, pairwise(edges), strict=True)
    ]


def _legend(series: Sequence[Line], diagonal: str = "", *, areas: bool = False) -> Markup:
    items = []
    for name, style in [
        *((line.name, _style(i, line)) for i, line in enumerate(series)),
        *([(diagonal, "reference")] * bool(diagonal)),
    ]:
        key: Content = tag("span", class_=f"swatch b{style[1:]}")
        if not areas:
            key = Markup(f'<svg viewBox="0 0 28 8" aria-hidden="true"><path class="line {style}" d="M1 4H27"/></svg>')
        items.append(tag("li", key, name))
    return tag("ul", items, class_="legend")


def _plot(
    label: str, drawn: Sequence[Markup], across: Axis, up: Axis, x_label: str, mark: Markup | None = None
) -> Markup:
    columns, rows = across.marks(6), up.marks(5)
    grid = tag("path", class_="grid", d="".join(f"M0 {_SIDE - place:.0f}H{_SIDE}" for place, _ in rows))
    picture = Markup(
        f'<svg viewBox="0 0 {_SIDE} {_SIDE}" preserveAspectRatio="none" role="img">{tag("title", label)}'
        f"{grid}{join(drawn)}</svg>"
    )
    texts = [tag("span", text, class_="y", style=f"top:{100 - place / 10:.1f}%") for place, text in rows]
    texts += [tag("span", text, class_="x", style=f"left:{place / 10:.1f}%") for place, text in columns]
    width = max((len(text) for _, text in rows), default=1)
    under = tag("p", x_label, class_="axis under")
    return tag(
        "div",
        tag("div", picture, texts, mark, class_="plot"),
        under,
        class_="frame",
        style=f"--left:{0.55 * width + 0.9:.1f}em",
    )
