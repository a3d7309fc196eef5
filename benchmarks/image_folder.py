"""How much of its time `openbnns train FOLDER` waits for images.

    python benchmarks/image_folder.py [--images 2000] [--epochs 4] [--threads 2] [--folder FOLDER]

makes a folder of PNG and JPEG files of many sizes, and trains the built-in convolutional network on it, at 64 x 64: once with
images that stay in memory after they were decoded, once with images that are decoded in every epoch (`--memory-limit`).
Waiting is the time in which a batch is wanted that is not ready yet, as the trainer's history has it; of the validation at
the end of an epoch, it is what that takes longer than the fastest one. Needs Pillow.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import openbnns
from openbnns.cli import main as command
from timing import Load

GOAL = 0.1  # of the time of a run
CLASSES = 5
SIDES = (80, 320)  # pixels, at least and at most


def write_images(folder: Path, count: int) -> int:
    """Smooth shapes with a little noise, as photographs have them, in a folder for each class; gives their bytes."""
    import PIL.Image

    rng = np.random.default_rng(0)
    total = 0
    for number in range(count):
        label = number % CLASSES
        width, height = (int(n) for n in rng.integers(SIDES[0], SIDES[1] + 1, 2))
        shapes = rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)
        shapes[..., label % 3] //= 1 + label // 3 + 1
        image = PIL.Image.fromarray(shapes).resize((width, height), PIL.Image.Resampling.BICUBIC)
        noisy = np.asarray(image, np.int16) + rng.integers(-6, 7, (height, width, 1), dtype=np.int16)
        path = folder / f"class{label}" / f"{number:05d}.{'png' if number // CLASSES % 2 else 'jpg'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        PIL.Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)).save(path)
        total += path.stat().st_size
    return total


def train(folder: Path, epochs: int, more: list[str]) -> tuple[list[dict[str, Any]], float]:
    """The history of a run, and how much of the machine others took meanwhile."""
    with tempfile.TemporaryDirectory() as out:
        options = ["--size", "64", "--model", "cnn", "--epochs", str(epochs), "--quiet", "--no-report", "--out", out]
        load = Load()
        if command(["train", str(folder), *options, *more]) != 0:
            raise SystemExit("openbnns train failed")
        return json.loads((Path(out) / "history.json").read_text()), load.others()


def show(name: str, history: list[dict[str, Any]], others: float) -> float:
    """Print a run, epoch by epoch; gives the share of it that was waiting."""
    phases = [record["phase_seconds"] for record in history]
    fastest = min(phase["validation"] for phase in phases)
    waited = [phase["data"] + phase["validation"] - fastest for phase in phases]
    taken = [record["seconds"] + phase["validation"] for record, phase in zip(history, phases, strict=True)]
    for number, (waiting, seconds) in enumerate(zip(waited, taken, strict=True), 1):
        print(f"{name:28s}{number:6d}{seconds:10.2f}{waiting:10.2f}{waiting / seconds:9.1%}")
    share = sum(waited) / sum(taken)
    verdict = f"goal {GOAL:.0%}: {'met' if share <= GOAL else 'missed'}; others took {others:.0%}"
    print(f"{name:28s}{'all':>6s}{sum(taken):10.2f}{sum(waited):10.2f}{share:9.1%}   {verdict}")
    return share


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=None, help="images to train on, instead of made ones")
    given = parser.parse_args()
    openbnns.set_num_threads(given.threads)
    print(f"openbnns {openbnns.__version__}, {openbnns.runtime.config()['instruction set']}, {given.threads} threads")
    with tempfile.TemporaryDirectory() as made:
        folder = given.folder or Path(made)
        if given.folder is None:
            began = time.perf_counter()
            size = write_images(folder, given.images)
            print(f"{given.images} images, {size / 1e6:.1f} MB, made in {time.perf_counter() - began:.1f} s")
        print(f"{'images':28s}{'epoch':>6s}{'seconds':>10s}{'waiting':>10s}{'share':>9s}")
        forms = {"decoded once": [], "decoded in every epoch": ["--memory-limit", "1k"]}
        shares = [show(name, *train(folder, given.epochs, more)) for name, more in forms.items()]
    return int(max(shares) > GOAL)


if __name__ == "__main__":
    raise SystemExit(main())
