"""Trains the networks of examples/vs_pytorch, draws their results, and writes docs/gallery.md with the pictures.

    python tools/gallery.py                      all of them, some minutes
    python tools/gallery.py lenet unet           these, and the page with what is known of the others
    python tools/gallery.py --page               the page only

Needs openbnns and nothing else; run it at the top of a checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from examples.vs_pytorch.pair import Batch, Pair, find_pairs, make_ours, networks  # noqa: E402

import openbnns as bn  # noqa: E402
import results  # noqa: E402
from openbnns import nn  # noqa: E402
from openbnns.report.thumbnails import data_url  # noqa: E402

PAGE, FOLDER = ROOT / "docs" / "gallery.md", ROOT / "docs" / "gallery"
RESULTS = FOLDER / "results.json"
SHOWN = 6  # images in a row
PIXELS = 64  # of a side
INK = ("#1d5fa8", "#b45309")

Array = NDArray[Any]
Images = list[tuple[str, Array]]


@dataclass(frozen=True)
class Show:
    """A network's task, the steps it is trained for, and how it is judged on samples that it has never seen."""

    learns: str
    steps: int
    look: Callable[[Any, Batch], tuple[str, Images]]
    held_out: int
    """Samples for the judgement."""
    losses: tuple[str, ...] = ("loss",)


def classes(side: Any, batch: Batch) -> tuple[str, Images]:
    images, labels = batch
    predicted = side.net(images).argmax(1)
    right = float((predicted == labels).mean())
    words = " ".join(map(str, predicted[:SHOWN]))
    return f"{right:.1%} of {len(labels)} unseen digits right", [(f"unseen digits, read as {words}", images)]


def masks(side: Any, batch: Batch) -> tuple[str, Images]:
    images, wanted = batch
    mask = side.net(images) > 0
    overlap = float((mask & (wanted > 0.5)).sum() / (mask | (wanted > 0.5)).sum())
    rows = [("unseen digits", images), ("their ink", wanted), ("pixels that the network marks", mask * np.float32(1))]
    return f"intersection over union {overlap:.2f} on {len(images)} unseen digits", rows


def generated(side: Any, batch: Batch) -> tuple[str, Images]:
    images, codes = batch
    rows = [("real", (images + 1) / 2), ("generated", (side.generator(codes) + 1) / 2)]
    return "the images are still noise; readable digits take thousands of steps", rows


def coded(side: Any, batch: Batch) -> tuple[str, Images]:
    images, noise = batch
    result, *_ = side.net(images, noise)
    error = float(np.abs(result - images).mean())
    square = (-1, 1, 28, 28)
    rows = [("unseen digits", images.reshape(square)), ("decoded from 20 numbers each", result.reshape(square))]
    return f"mean error of a pixel {error:.3f} on {len(images)} unseen digits", rows


def most_common(values: Array) -> float:
    """The accuracy of always giving the most common answer."""
    return float(np.unique(values, return_counts=True)[1].max() / values.size)


def following(side: Any, batch: Batch) -> tuple[str, Images]:
    text, targets = batch
    right = float((side.net(text).argmax(-1) == targets).mean())
    return f"{right:.0%} of the next characters in unseen text right (always a space: {most_common(targets):.0%})", []


def tags(side: Any, batch: Batch) -> tuple[str, Images]:
    words, lengths, wanted = batch
    right = side.net(words, lengths).argmax(-1) == wanted
    known, marked = wanted != -100, wanted > 0  # tag 0: neither a mark nor a capital
    share, restored = float(right[known].mean()), float(right[marked].mean())
    return f"{restored:.0%} of the marks and capitals of unseen text restored, {share:.0%} of all words right", []


MANUAL = "to predict the next character in Python's manual"
SHOWS = {
    "lenet": Show("handwritten digits", 400, classes, 360),
    "resnet18": Show("handwritten digits in random colours", 600, classes, 360),
    "mobilenet_v2": Show("handwritten digits in random colours", 800, classes, 360),
    "vit_tiny": Show("handwritten digits in random colours", 800, classes, 360),
    "unet": Show("to mark the ink of a digit in front of clouds", 120, masks, 64),
    "dcgan": Show("to draw digits that look like the real ones", 80, generated, 32, ("discriminator", "generator")),
    "vae": Show("to encode digits in 20 numbers", 2000, coded, 360),
    "char_lstm": Show(MANUAL, 300, following, 64),
    "gpt_nano": Show(MANUAL, 300, following, 64),
    "gru_tagger": Show("to restore the punctuation and capitals of Python's manual", 1200, tags, 128),
}


def trained(pair: Pair, show: Show) -> tuple[Any, Array, float]:
    """Our side after its steps, each on a new batch, the losses (steps, losses of a step), and the least time of a step."""
    side = make_ours(pair, pair.full)
    random = np.random.RandomState(0)
    losses, times = [], []
    for _ in range(show.steps):
        batch = pair.batch(pair.full, random)
        start = time.perf_counter()
        losses.append(np.atleast_1d(side.step(*batch)))
        times.append(time.perf_counter() - start)
    for _, network in networks(side, nn.Module):
        network.eval()
    return side, np.array(losses), min(times)


def smooth(values: Array) -> Array:
    """A moving mean over a twentieth of all values."""
    reach = max(len(values) // 40, 1)
    return np.array([values[max(i - reach, 0) : i + reach + 1].mean() for i in range(len(values))])


def curve(losses: Array, names: tuple[str, ...], left: int, width: int, height: int) -> str:
    """Losses over steps as a piece of SVG."""
    low, high = float(losses.min()), float(losses.max())
    parts = [f'<path d="M{left} 24V{height - 28}H{left + width}" fill="none" stroke="#94a3b8"/>']
    for number, name in enumerate(names):
        values = smooth(losses[:, number])
        points = [
            (left + width * i / (len(values) - 1), 24 + (height - 52) * (high - float(v)) / (high - low))
            for i, v in enumerate(values)
        ]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{INK[number]}" stroke-width="2.5"/>')
        parts.append(f'<text x="{left + 10 + 110 * number}" y="16" fill="{INK[number]}">{name}</text>')
    parts.append(f'<text x="{left - 6}" y="30" text-anchor="end">{high:.3g}</text>')
    parts.append(
        f'<text x="{left - 6}" y="{height - 28}" text-anchor="end">{low:{".3g" if low >= 1e-3 else ".0e"}}</text>'
    )
    parts.append(f'<text x="{left}" y="{height - 10}">step 1</text>')
    parts.append(f'<text x="{left + width}" y="{height - 10}" text-anchor="end">{len(losses)}</text>')
    return "".join(parts)


def brightness(images: Array) -> Array:
    """Images (N, channels, height, width) as 8 bits, channels last."""
    shown = np.moveaxis(images[:SHOWN], 1, -1).astype(np.float64)
    low, high = (0.0, 1.0) if shown.min() >= 0 and shown.max() <= 1 else np.percentile(shown, (1, 99))
    return np.rint(255 * np.clip((shown - low) / (high - low), 0, 1)).astype(np.uint8)


def strip(rows: Images, left: int, top: int) -> str:
    """Rows of images with their names as a piece of SVG."""
    parts = []
    for number, (name, images) in enumerate(rows):
        y = top + number * (PIXELS + 24)
        parts.append(f'<text x="{left}" y="{y}">{name}</text>')
        parts += [
            f'<image x="{left + i * (PIXELS + 6)}" y="{y + 6}" width="{PIXELS}" height="{PIXELS}" '
            f'style="image-rendering:pixelated" href="{data_url(image)}"/>'
            for i, image in enumerate(brightness(images))
        ]
    return "".join(parts)


def drawing(losses: Array, show: Show, rows: Images) -> str:
    height = max(190, 24 + len(rows) * (PIXELS + 24))
    width = 380 if not rows else 380 + SHOWN * (PIXELS + 6) + 20
    inside = curve(losses, show.losses, 60, 300, height) + strip(rows, 390, 20)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="#475569">{inside}</svg>\n'
    )


@dataclass(frozen=True)
class Row:
    """Facts about a trained network."""

    name: str
    title: str
    parameters: int
    steps: int
    result: str
    losses: str
    step_ms: float | None
    """Least time of a step; None from a busy machine, where it says nothing."""
    machine: str


HEAD = """\
# Gallery

Ten well-known networks, each in one file of `examples/vs_pytorch`, written once in PyTorch and once in OpenBNNS with the
same names and weights. They are trained on real data that needs no download: the handwritten digits that come with the
package, and the English text of Python's own manual. Every picture shows a network trained in OpenBNNS: its loss by
step, and its results on samples that it has never seen.

`python tools/gallery.py` trains all of them, draws the pictures and writes this page.
"""

NOTES = """\
PyTorch's losses are the same: from the same weights on the same batches, the losses of 20 steps differ by at most 1e-4 of
their size. `make test-peers` tests this at small sizes, and `python -m examples.vs_pytorch --losses` shows it at the sizes
above. `python -m examples.vs_pytorch --time` measures the steps of both sides in turns on your machine.
"""


def page(rows: list[Row]) -> str:
    """The page of the docs."""
    timed = [row for row in rows if row.step_ms is not None]
    columns = ["network", "parameters", "steps", "on unseen samples", *(["fastest step"] if timed else [])]
    lines = [HEAD, f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for row in rows:
        cells = [f"[{row.title}](#{anchor(row.title)})", f"{row.parameters:,}", f"{row.steps:,}", row.result]
        if timed:
            cells.append("" if row.step_ms is None else f"{row.step_ms:.3g} ms")
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    if timed:
        lines += [f"Steps were timed on {'; '.join(dict.fromkeys(row.machine for row in timed))}.", ""]
    lines.append(NOTES)
    for row in rows:
        show = SHOWS[row.name]
        loss = "loss" if len(show.losses) == 1 else f"losses of {' and '.join(show.losses)}"
        lines.append(f"## {row.title}\n")
        lines.append(
            f"Learns {show.learns}. After {row.steps:,} steps: {row.result}; {loss} from {row.losses}. Source:\n"
            f"[{row.name}.py](../examples/vs_pytorch/{row.name}.py).\n"
        )
        picture = f"gallery/{row.name}.svg"
        lines.append(
            f"[![{row.title}: loss by step, and results]({picture})]({picture})\n"
        )  # to be enlarged on a phone
    return "\n".join(lines)


def anchor(title: str) -> str:
    """The end of a link to a heading."""
    return re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-")


def machine() -> str:
    """The processor, as results of benchmarks name it."""
    about = results.about("")
    return f"{about['processor']}, {about['cores']} cores, {about['instruction set']}, {bn.get_num_threads()} threads"


def made(name: str, show: Show) -> Row:
    """Train a network, and draw its results."""
    pair = find_pairs()[name]
    side, losses, seconds = trained(pair, show)
    held_out = pair.batch(replace(pair.full, batch=show.held_out), np.random.RandomState(1), held_out=True)
    result, images = show.look(side, held_out)
    (FOLDER / f"{name}.svg").write_text(drawing(losses, show, images), encoding="utf-8")
    count = sum(p.data.size for _, network in networks(side, nn.Module) for p in network.parameters())
    ends = ", ".join(f"{a:.3g} to {b:.3g}" for a, b in zip(losses[0], losses[-1], strict=True))
    print(f"{name}: loss {ends}; {result}; {1e3 * seconds:.3g} ms", flush=True)
    busy = os.getloadavg()[0] > 1.5 * (os.cpu_count() or 1)
    return Row(name, pair.title, count, show.steps, result, ends, None if busy else round(1e3 * seconds, 2), machine())


def known() -> dict[str, Row]:
    """The results measured before, by name."""
    listed = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    return {row["name"]: Row(**row) for row in listed}


def main() -> int:
    parser = argparse.ArgumentParser(description="Train the networks of examples/vs_pytorch and write docs/gallery.md.")
    parser.add_argument("names", nargs="*", choices=[*SHOWS, []], metavar="NAME", help="networks (default: all)")
    parser.add_argument("--page", action="store_true", help="write the page only, from what was measured before")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = known()
    for name in () if options.page else options.names or SHOWS:
        rows[name] = made(name, SHOWS[name])
        listed = [rows[name] for name in SHOWS if name in rows]
        RESULTS.write_text(json.dumps([vars(row) for row in listed], indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page([rows[name] for name in SHOWS if name in rows]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
