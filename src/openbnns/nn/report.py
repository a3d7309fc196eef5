"""The report of a training run: one HTML page that needs nothing else."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._value import Array
from .distributed.rank_times import rank_section
from .weights import write_atomically

_BLUE, _ORANGE, _GREY = "#2563eb", "#ea580c", "#64748b"

_STYLE = """
:root { color-scheme: light; --ink: #0f172a; --soft: #64748b; --line: #e2e8f0; --paper: #ffffff; --ground: #f8fafc; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 30px; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 18px; margin: 0 0 12px; }
p.lead { color: var(--soft); margin: 0 0 28px; }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 16px; margin-bottom: 24px; }
.numbers div, section { background: var(--paper); border: 1px solid var(--line); border-radius: 12px; padding: 18px 20px; }
.numbers b { display: block; font-size: 26px; letter-spacing: -0.02em; }
.numbers span { color: var(--soft); font-size: 14px; }
.pair { display: grid; grid-template-columns: repeat(auto-fill, minmax(420px, 1fr)); gap: 24px; margin-bottom: 24px; }
section { margin: 0; overflow-x: auto; } section.wide { margin-bottom: 24px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { padding: 3px 8px; text-align: right; border-bottom: 1px solid var(--line); font-weight: normal; }
th { text-align: left; overflow-wrap: anywhere; } tr:first-child > * { color: var(--soft); }
ul { margin: 0; padding-left: 20px; }
svg { width: 100%; height: auto; display: block; }
pre { margin: 0; font: 13px/1.5 ui-monospace, monospace; white-space: pre; }
footer { color: var(--soft); font-size: 14px; margin-top: 28px; }
@media (max-width: 520px) { .pair { grid-template-columns: 1fr; } }
"""


def write(
    path: str | Path,
    *,
    title: str,
    history: list[dict[str, Any]],
    network: Any,
    settings: dict[str, Any],
    command: str,
    test: dict[str, float] | None = None,
    samples: Array | None = None,
    outputs: Array | None = None,
    targets: Array | None = None,
    class_names: Sequence[str] = (),
    epoch: int | None = None,
    notes: Sequence[str] = (),
    baseline: Sequence[dict[str, Any]] | None = None,
) -> None:
    """Write the page. ``outputs`` are the scores of the test ``samples``, whose classes are ``targets``.

    ``class_names`` are what the classes are called, by default their numbers; ``epoch`` is the one whose weights the
    network has, by default the last; ``notes`` are what readers should know about the data; ``baseline`` is the history of
    the same training on one rank, if this one had several.
    """
    chosen = next((record for record in history if record["epoch"] == epoch), history[-1])
    plots = _Plots()
    classify = outputs is not None and targets is not None and outputs.ndim == 2 and targets.dtype.kind in "iu"
    pieces = [f"<h1>{html.escape(title)}</h1>", f'<p class="lead">{html.escape(_lead(history, settings))}</p>']
    pieces.append(_numbers(history, chosen, test))
    pieces.append(_explanation(history, chosen, test, notes))
    pieces.append(
        _pair(("Loss", plots.curves(history, chosen, "loss")), ("Accuracy", plots.curves(history, chosen, "accuracy")))
    )
    pieces.append(
        _pair(
            ("Learning rate", plots.learning_rate(history)), ("Gradient norm per parameter", plots.gradients(history))
        )
    )
    if classify:
        assert outputs is not None and targets is not None
        predicted = outputs.argmax(axis=1)
        # With its number a name that is cut stays different from others that begin alike.
        short = [name if len(name) <= 20 else f"{i}: {name[:14]}…" for i, name in enumerate(class_names)]
        named = [name.replace("$", r"\$") for name in short]  # which would begin a formula
        wrong = plots.wrong(samples, predicted, targets, named)
        confusion = plots.confusion(predicted, targets, named)
        pieces.append(
            _pair(
                ("Confusion of the test samples", confusion),
                (_wrong_title(predicted, targets), wrong),
                ("Classes in the test", _classes(predicted, targets, outputs.shape[1], class_names)),
            )
        )
    pieces.append(_pair(("Where the time went", _phases(history))))
    if (ranks := rank_section(history, baseline)) is not None:
        pieces.append(_section(ranks.title, ranks.html, wide=True))
    pieces.append(_section("Network", f"<pre>{html.escape(network.summary())}</pre>", wide=True))
    pieces.append(_section("How to reproduce", f"<pre>{html.escape(_reproduce(command, settings))}</pre>", wide=True))
    body = "\n".join(pieces)
    page = (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{_STYLE}</style>\n</head>\n<body>\n'
        f"<main>\n{body}\n<footer>Written by OpenBNNS.</footer>\n</main>\n</body>\n</html>\n"
    )
    write_atomically(path, page.encode())


def _lead(history: list[dict[str, Any]], settings: dict[str, Any]) -> str:
    seconds = sum(record["seconds"] for record in history)
    samples = f": {settings['samples']} samples" if "samples" in settings else ""
    return f"{len(history)} epochs on {settings.get('data', 'the data')} in {seconds:.1f} s{samples}"


def _explanation(
    history: list[dict[str, Any]], chosen: dict[str, Any], test: dict[str, float] | None, notes: Sequence[str]
) -> str:
    """What the numbers are about."""
    lines = []
    if "validation_loss" in chosen:
        lines.append(
            f"The weights are those of epoch {chosen['epoch']}, chosen by its validation loss."
            if chosen is not history[-1]
            else f"The weights are those of the last epoch, {chosen['epoch']}. The validation samples were never trained on."
        )
    lines.append(
        "There are no test samples."
        if test is None
        else "The test samples were looked at once, at the end; nothing was chosen by them."
    )
    items = "".join(f"<li>{html.escape(line)}</li>" for line in [*lines, *notes])
    return f'<section class="wide"><ul>{items}</ul></section>'


def _numbers(history: list[dict[str, Any]], chosen: dict[str, Any], test: dict[str, float] | None) -> str:
    boxes: list[tuple[str, str]] = []
    if test is not None and "accuracy" in test:
        boxes.append((f"{test['accuracy']:.2%}", "test accuracy"))
    if test is not None:
        boxes.append((f"{test['loss']:.4f}", "test loss"))
    if "validation_accuracy" in chosen:
        boxes.append((f"{chosen['validation_accuracy']:.2%}", "validation accuracy"))
    if "validation_loss" in chosen:
        boxes.append((f"{chosen['validation_loss']:.4f}", "validation loss"))
    boxes.append((f"{chosen['loss']:.4f}", "training loss"))
    seconds = sum(record["seconds"] for record in history)
    boxes.append((f"{seconds:.1f} s", "training time"))
    cells = "".join(f"<div><b>{html.escape(value)}</b><span>{html.escape(name)}</span></div>" for value, name in boxes)
    return f'<div class="numbers">{cells}</div>'


def _section(title: str, content: str, *, wide: bool = False) -> str:
    kind = ' class="wide"' if wide else ""
    return f"<section{kind}><h2>{html.escape(title)}</h2>{content}</section>"


def _pair(*parts: tuple[str, str]) -> str:
    filled = [_section(title, content) for title, content in parts if content]
    return f'<div class="pair">{"".join(filled)}</div>' if filled else ""


def _wrong_title(predicted: Array, targets: Array) -> str:
    return f"Wrong predictions: {int((predicted != targets).sum())} of {len(targets)} test samples"


def _classes(predicted: Array, targets: Array, count: int, names: Sequence[str]) -> str:
    """How many samples of each class there are, and how many of them were recognized; "" if there are too many."""
    if count > 40:
        return ""
    lines = []
    for number in range(count):
        of_class = targets == number
        total, right = int(of_class.sum()), int((predicted[of_class] == number).sum())
        name = names[number] if number < len(names) else str(number)
        share = f"{right / total:.1%}" if total else "-"
        cells = "".join(f"<td>{value}</td>" for value in (total, right, share))
        lines.append(f"<tr><th>{html.escape(name)}</th>{cells}</tr>")
    head = "<tr><th>class</th><td>samples</td><td>recognized</td><td>share</td></tr>"
    return f"<table>{head}{''.join(lines)}</table>"


def _phases(history: list[dict[str, Any]]) -> str:
    """Seconds and shares of data, forward, backward, step and validation; "" if they were not noted."""
    totals: dict[str, float] = {}
    for record in history:
        for name, seconds in record.get("phase_seconds", {}).items():
            totals[name] = totals.get(name, 0.0) + seconds
    whole = sum(totals.values())
    if not whole:
        return ""
    lines = [
        f"<tr><th>{html.escape(name)}</th><td>{seconds:.2f} s</td><td>{seconds / whole:.1%}</td></tr>"
        for name, seconds in totals.items()
    ]
    return f"<table><tr><th>phase</th><td>time</td><td>share</td></tr>{''.join(lines)}</table>"


def _reproduce(command: str, settings: dict[str, Any]) -> str:
    width = max(len(name) for name in settings)
    lines = [f"{name.ljust(width)}  {value}" for name, value in settings.items()]
    return f"{command}\n\n" + "\n".join(lines)


class _Plots:
    """Plots as SVG text."""

    def __init__(self) -> None:
        import matplotlib

        matplotlib.use("svg", force=False)
        from matplotlib import pyplot

        self._pyplot = pyplot
        self._style: Any = {
            "font.family": "sans-serif", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False,
            "axes.edgecolor": "#94a3b8", "xtick.color": _GREY, "ytick.color": _GREY, "axes.labelcolor": _GREY,
            "axes.grid": True, "grid.color": "#e2e8f0", "axes.axisbelow": True, "svg.hashsalt": "openbnns",
            "legend.frameon": False,
        }  # fmt: skip

    def _figure(self, draw: Any, size: tuple[float, float] = (5.4, 3.4)) -> str:
        with self._pyplot.rc_context(self._style):
            figure, axes = self._pyplot.subplots(figsize=size)
            draw(figure, axes)
            text = io.StringIO()
            figure.savefig(text, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None})
            self._pyplot.close(figure)
        drawn = text.getvalue()
        return drawn[drawn.index("<svg") :]

    def curves(self, history: list[dict[str, Any]], chosen: dict[str, Any], name: str) -> str:
        """Training and validation over the epochs; "" if there is no such record."""
        if name not in history[-1]:
            return ""

        def draw(figure: Any, axes: Any) -> None:
            marker = "o" if len(history) == 1 else None
            for field, colour, label in ((name, _BLUE, "training"), (f"validation_{name}", _ORANGE, "validation")):
                records = [r for r in history if field in r]  # a resumed run may have begun with others
                if records:
                    values = [r[field] for r in records]
                    axes.plot([r["epoch"] for r in records], values, color=colour, label=label, marker=marker)
            if chosen is not history[-1]:
                axes.axvline(chosen["epoch"], color=_GREY, linestyle=":", label="chosen epoch")
            axes.set_xlabel("epoch")
            _whole_epochs(axes)
            if name == "loss" and min(r["loss"] for r in history) > 0:
                axes.set_yscale("log")
            if name == "accuracy":
                from matplotlib.ticker import PercentFormatter

                axes.yaxis.set_major_formatter(PercentFormatter(1.0))
            axes.legend()

        return self._figure(draw)

    def learning_rate(self, history: list[dict[str, Any]]) -> str:
        def draw(figure: Any, axes: Any) -> None:
            axes.plot([r["epoch"] for r in history], [r["learning_rate"] for r in history], color=_BLUE)
            axes.set_xlabel("epoch")
            axes.set_ylim(bottom=0)
            _whole_epochs(axes)

        return self._figure(draw)

    def gradients(self, history: list[dict[str, Any]]) -> str:
        def draw(figure: Any, axes: Any) -> None:
            names = [name for name in history[-1]["gradient_norms"] if name.endswith("weight")][:10]
            colours = self._pyplot.get_cmap("viridis")(np.linspace(0.05, 0.9, max(len(names), 1)))
            for name, colour in zip(names, colours, strict=False):
                records = [r for r in history if name in r["gradient_norms"]]
                values = [max(r["gradient_norms"][name], 1e-12) for r in records]
                axes.plot([r["epoch"] for r in records], values, color=colour, label=name, linewidth=1.3)
            axes.set_yscale("log")
            axes.set_xlabel("epoch")
            _whole_epochs(axes)
            if names:
                axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))

        return self._figure(draw)

    def confusion(self, predicted: Array, targets: Array, names: Sequence[str] = ()) -> str:
        classes = int(max(predicted.max(), targets.max())) + 1
        if classes > 40:
            return ""
        counts = np.zeros((classes, classes), np.int64)
        np.add.at(counts, (targets, predicted), 1)

        def draw(figure: Any, axes: Any) -> None:
            shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
            axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
            axes.grid(False)
            if classes <= 20:
                axes.set_xticks(range(classes))
                axes.set_yticks(range(classes))
                if len(names) >= classes:
                    upright = max(map(len, names)) * classes > 40  # they would run into each other
                    axes.set_xticklabels(names[:classes], rotation=90 if upright else 0)
                    axes.set_yticklabels(names[:classes])
                for row, column in np.argwhere(counts > 0):
                    shade = "white" if shares[row, column] > 0.5 else "#0f172a"
                    axes.text(column, row, str(counts[row, column]), ha="center", va="center", color=shade, fontsize=8)
            axes.set_xlabel("predicted")
            axes.set_ylabel("true")

        return self._figure(draw, (4.6, 4.6))

    def wrong(self, samples: Array | None, predicted: Array, targets: Array, names: Sequence[str] = ()) -> str:
        """A grid of images that were read wrongly."""
        called = names or range(1 + int(max(predicted.max(), targets.max())))
        chosen = np.flatnonzero(predicted != targets)[:16]
        if samples is None or samples.ndim != 4 or samples.shape[1] not in (1, 3):
            return ""
        if not len(chosen):
            return "<p>None: every test sample was read correctly.</p>"
        columns = 4
        lines = -(-len(chosen) // columns)
        with self._pyplot.rc_context(self._style):
            figure, grid = self._pyplot.subplots(lines, columns, figsize=(4.6, 1.25 * lines), squeeze=False)
            for axes in grid.flat:
                axes.axis("off")
            for axes, i in zip(grid.flat, chosen, strict=False):
                image = samples[i, 0] if samples.shape[1] == 1 else np.moveaxis(samples[i], 0, -1)
                axes.imshow(image, cmap="gray_r")
                axes.set_title(f"{called[targets[i]]} read as {called[predicted[i]]}", fontsize=9, color="#0f172a")
            figure.tight_layout()
            text = io.StringIO()
            figure.savefig(text, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None})
            self._pyplot.close(figure)
        drawn = text.getvalue()
        return drawn[drawn.index("<svg") :]


def _whole_epochs(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
