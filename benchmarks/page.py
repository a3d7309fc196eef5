"""Results as one page with plots, with the look and charts of the training report, and as the picture of the documentation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from openbnns._plural import plural
from openbnns.report.charts import Axis, Line, bars, lines
from openbnns.report.markup import Markup, Panel, Section, facts_list, folded, table, tag
from openbnns.report.number_text import percent, short
from openbnns.report.page import document
from results import Results

Record = dict[str, Any]

NAMES = {"torch": "PyTorch", "numpy": "NumPy"}
PRECISIONS = ("bfloat16/", "int8/")
LARGE = 512  # size from which a product should reach what the machine can do


def write(results: Results, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(results), encoding="utf-8")


def page(results: Results) -> str:
    """The whole page as text."""
    made = (_summary, _products, _steps, _inference, _precisions, _operations, _others)
    sections = [section for make in made if (section := make(results)) is not None]
    about = results.about
    lead = f"{results.title}; {about['cores']} cores. Measured on {about['measured']}: ours and peers in turns, in one process."
    title = "How fast OpenBNNS is on this machine"
    return document("Benchmarks", title, lead, sections, "Written by benchmarks/run.py.")


def picture(results: Results) -> str:
    """Training steps against peers, or else other precisions: an SVG file of shapes and text alone, which any viewer shows."""
    trained = [f for f in _compared(results, "training/") if _ratio(f, "PyTorch") is not None]
    what = "Training steps" if trained else "Training in bfloat16, inference in int8"
    peers = "the faster of PyTorch and JAX" if trained else "PyTorch, onnxruntime"
    compared = trained or _compared(results, *PRECISIONS)
    steps = [(f["name"].removeprefix("training/"), min(f["peers"].values()) / f["ours"]) for f in compared]
    largest = max((ratio for _, ratio in steps), default=0)
    left, right, row = 360, 650, 22
    rows = []
    for number, (name, ratio) in enumerate(steps):
        y, end = 40 + row * number, left + (right - left) * ratio / largest
        rows.append(
            f'<text x="{left - 10}" y="{y + 12}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{left}" y="{y}" width="{end - left:.1f}" height="15" rx="2"/>'
            f'<text x="{end + 6:.1f}" y="{y + 12}" class="value">{ratio:.1f} x</text>'
        )
    bottom, equal = 40 + row * len(steps), left + (right - left) / max(largest, 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 {bottom + 24}" width="700" height="{bottom + 24}" role="img">'
        f"<title>{what}, times as fast as the fastest peer</title><style>"
        "svg{background:#fff}text{font:12px system-ui,sans-serif;fill:#475569}.value{font-weight:600;fill:#0f172a}"
        "rect{fill:#2563eb}path{stroke:#b45309}"
        "@media(prefers-color-scheme:dark){svg{background:#0f172a}text{fill:#9fb0c5}.value{fill:#e2e8f0}rect{fill:#5b9bf3}path{stroke:#f59e0b}}"
        f'</style><text x="{left}" y="24">times as fast as {peers}</text>{"".join(rows)}'
        f'<path d="M{equal:.1f} 34V{bottom + 4}" stroke-dasharray="4 3"/>'
        f'<text x="{equal:.1f}" y="{bottom + 18}" text-anchor="middle">1</text></svg>\n'
    )


# Sections.


def summary(results: Results) -> list[tuple[str, str]]:
    """The main numbers, each with what it is."""
    numbers: list[tuple[str, str]] = []
    large = [p["share"] for p in _of_threads(results.sweep) if p["size"] >= LARGE]
    if large:
        shares = f"{percent(min(large), 0)} to {percent(max(large), 0)}"
        numbers.append((f"matrix products of size {LARGE} and above, share of peak", shares))
    for prefix, what, peer in (
        ("training/", "training steps, times as fast as the best of PyTorch", "PyTorch"),
        ("training/", "training steps, times as fast as JAX", "JAX"),
        ("inference/", "inference, times as fast as onnxruntime", "onnxruntime"),
        ("bfloat16/", "training steps in bfloat16, times as fast as PyTorch under autocast", "PyTorch"),
        ("int8/", "inference in int8, times as fast as onnxruntime's quantized models", "onnxruntime"),
    ):
        ratios = [r for f in _compared(results, prefix) if (r := _ratio(f, peer)) is not None]
        if ratios:
            numbers.append((f"{what}, geometric mean of {len(ratios)}", f"{_mean(ratios):.2f}"))
    ratios = [c["ratio"] for c in results.cases if c["ratio"]]
    if ratios:
        numbers.append(
            (f"operations, times as fast as PyTorch, geometric mean of {len(ratios)}", f"{_mean(ratios):.2f}")
        )
    return numbers


def _summary(results: Results) -> Section:
    machine = facts_list((name, value) for name, value in results.about.items() if value and value != "none")
    panels = [Panel("In short", facts_list(summary(results))), Panel("Machine and versions", machine)]
    return Section("results", "Results", panels)


def _products(results: Results) -> Section | None:
    points = _of_threads(results.sweep)
    if not points:
        return None
    form = points[0]["form"]
    straight = [p for p in points if p["form"] == form]
    sides = [Line("OpenBNNS", [p["share"] for p in straight])]
    sides += [
        Line(NAMES.get(peer, peer), [_rate(p, p["peers"].get(peer)) for p in straight])
        for peer in dict.fromkeys(peer for p in straight for peer in p["peers"])
    ]
    names = list(dict.fromkeys(peer for p in points for peer in p["peers"]))
    rows = [
        (
            p["name"].partition("/")[2],
            f"{p['rate']:.1f}",
            percent(p["share"], 0),
            *(f"{p['peers'][n] / p['ours']:.2f}" for n in names),
        )
        for p in points
    ]
    header = ("size, operands", "GFLOP/s", "of peak", *(f"times as fast as {NAMES.get(n, n)}" for n in names))
    panels = [
        Panel("Share of peak by operands", _share_by_form(points)),
        Panel(f"Share of peak beside others, {form}", _chart("share of peak", straight, sides)),
        Panel("All numbers", folded(f"Show {len(rows)} products", table(header, rows)), wide=True),
    ]
    lead = (
        f"Square matrices, forward, {points[0]['threads']} threads; At is an A that is stored transposed. "
        f"Peak: {results.about['peak']}."
    )
    return Section("products", "Matrix products", panels, lead)


def _steps(results: Results) -> Section | None:
    steps = _compared(results, "training/")
    if not steps:
        return None
    panels = [
        Panel("Times as fast as the best peer", _against_best(steps), large=True),
        Panel("Share of peak", _shares(steps)),
        Panel("All numbers", _times_table(steps), wide=True),
    ]
    lead = (
        "Forward, loss, backward and optimizer. PyTorch in the fastest of its forms; JAX as one jitted function whose state is "
        "donated."
    )
    return Section("steps", "Training steps", panels, lead)


def _inference(results: Results) -> Section | None:
    figures = _compared(results, "inference/")
    if not figures:
        return None
    panels = [
        Panel("Times as fast as the best peer", _against_best(figures), large=True),
        Panel("All numbers", _times_table(figures), wide=True),
    ]
    return Section(
        "inference", "Inference", panels, "Compiled networks against onnxruntime and PyTorch, the fastest call of each."
    )


def _precisions(results: Results) -> Section | None:
    figures = _compared(results, *PRECISIONS)
    if not figures:
        return None
    rows = [(f["name"], f["note"]) for f in results.figures if f["name"].startswith(PRECISIONS)]
    panels = [
        Panel("Times as fast as the best peer", _against_best(figures), large=True),
        Panel("All numbers", _times_table(figures), wide=True),
        Panel("Memory and accuracy", table(("network", "found"), rows, words=2), wide=True),
    ]
    lead = (
        "Training steps in bfloat16 against PyTorch under autocast; compiled networks in int8 against onnxruntime's statically "
        "quantized models."
    )
    return Section("precisions", "Training in bfloat16, inference in int8", panels, lead)


def _operations(results: Results) -> Section | None:
    cases = [c for c in results.cases if not c["wrong"]]
    if not cases:
        return None
    several = len({c["threads"] for c in cases}) > 1
    rows = [
        (
            c["name"] + (f", {plural(c['threads'], 'thread')}" if several else ""),
            _time(c["ours"]),
            f"{c['ratio']:.2f}",
            percent(c["share"], 0) if c["ceiling"] else "",
        )
        for c in cases
    ]
    families: dict[str, list[float]] = {}
    for c in cases:
        families.setdefault(c["name"].partition("/")[0], []).append(c["ratio"])
    means = [(name, [_mean(ratios)], f"{_mean(ratios):.2f}") for name, ratios in families.items()]
    header = ("operation", "ours", "times as fast", "of the limit")
    panels = [
        Panel(
            "Geometric mean by family, times as fast as PyTorch",
            bars(("family", "", "times as fast"), means),
            wide=True,
        ),
        Panel("All numbers", folded(f"Show {len(rows)} operations", table(header, rows)), wide=True),
    ]
    lead = "Forward and backward. The limit is the peak for products, and for all else the speed of a copy of as much memory."
    return Section("operations", "Operations", panels, lead)


def _others(results: Results) -> Section | None:
    figures = [f for f in results.figures if not f["peers"] and f["value"] is not None]
    if not figures:
        return None
    rows = [(f["name"], f["note"], _goal(f), f"{short(f['value'])} {f['unit']}") for f in figures]
    shown = table(("figure", "note", "goal", "value"), rows, words=3)
    return Section(
        "figures", "Other figures", [Panel("Single numbers", folded(f"Show {len(rows)} figures", shown), wide=True)]
    )


# Pieces.


def _of_threads(points: Sequence[Record]) -> list[Record]:
    """The points with the most threads."""
    most = max((p["threads"] for p in points), default=0)
    return [p for p in points if p["threads"] == most]


def _share_by_form(points: Sequence[Record]) -> Markup:
    by_form: dict[str, dict[int, float]] = {}
    for p in points:
        by_form.setdefault(p["form"], {})[p["size"]] = p["share"]
    sizes = sorted({p["size"] for p in points})
    return _lines(
        "share of peak", sizes, [Line(form, [shares.get(n) for n in sizes]) for form, shares in by_form.items()]
    )


def _chart(label: str, points: Sequence[Record], sides: Sequence[Line]) -> Markup:
    return _lines(label, [p["size"] for p in points], sides)


def _lines(label: str, sizes: Sequence[int], sides: Sequence[Line]) -> Markup:
    most = max([1.0, *(v for side in sides for v in side.values if v is not None)])
    across = Axis(sizes[0] / 1.05, sizes[-1] * 1.05, log=True)
    return lines(
        label, sizes, sides, x_label="size", across=across, up=Axis(0, 1.02 * most, share=True), text=lambda v: percent(v, 0)
    )  # fmt: skip


def _rate(point: Record, seconds: float | None) -> float | None:
    """The share of peak of a peer that takes so long."""
    return None if seconds is None else point["share"] * point["ours"] / seconds


def _compared(results: Results, *prefixes: str) -> list[Record]:
    """Figures that compare times with peers."""
    return [f for f in results.figures if f["name"].startswith(prefixes) and f.get("peers") and f.get("ours")]


def _against_best(figures: Iterable[Record]) -> Markup:
    rows = []
    for f in figures:
        peer, seconds = min(f["peers"].items(), key=lambda item: item[1])
        ratio = seconds / f["ours"]
        rows.append((f["name"].partition("/")[2], [ratio], f"{ratio:.2f}, {peer}"))
    return bars(("network", "", "times as fast"), rows)


def _shares(figures: Iterable[Record]) -> Markup:
    rows = [(f["name"].partition("/")[2], [f["share"]], percent(f["share"], 0)) for f in figures if f["share"]]
    return bars(("network", "", "of peak"), rows) if rows else tag("p", "not measured")


def _times_table(figures: Sequence[Record]) -> Markup:
    """Times of all sides; PyTorch has a form of its own in every row, which its cell tells."""
    kinds = list(dict.fromkeys(peer.partition(" ")[0] for f in figures for peer in f["peers"]))
    rows = []
    for f in figures:
        cells = [f["name"].partition("/")[2], _time(f["ours"])]
        for kind in kinds:
            peers = [(peer, t) for peer, t in f["peers"].items() if peer.partition(" ")[0] == kind]
            cells += [_peer_cell(*peers[0], f["ours"])] if peers else [""]
        rows.append(cells)
    shown = table(("network", "ours", *(f"{kind}, times as fast" for kind in kinds)), rows)
    return tag("div", shown, class_="phrases")


def _peer_cell(peer: str, seconds: float, ours: float) -> str:
    form = peer.partition(" ")[2]
    return f"{_time(seconds)}{f' {form}' if form else ''}, {seconds / ours:.2f}"


def _ratio(figure: Record, peer: str) -> float | None:
    ratios = [t / figure["ours"] for name, t in figure["peers"].items() if name.partition(" ")[0] == peer]
    return ratios[0] if ratios else None


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _goal(figure: Record) -> str:
    if figure["target"] is None:
        return ""
    return f"{'at most' if figure['at_most'] else 'at least'} {figure['target']:g}: {'met' if figure['passed'] else 'missed'}"


def _time(seconds: float) -> str:
    """In one piece: lines do not break between number and unit."""
    return f"{seconds * 1e3:.2f}\N{NO-BREAK SPACE}ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f}\N{NO-BREAK SPACE}µs"
