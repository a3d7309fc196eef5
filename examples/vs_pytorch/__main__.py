"""Trains every network of this folder with OpenBNNS and with PyTorch, and compares.

python -m examples.vs_pytorch                     losses of 20 steps, time of a step, peak memory
python -m examples.vs_pytorch lenet unet --losses --small
python -m examples.vs_pytorch --time --json out/vs_pytorch.json
python -m examples.vs_pytorch --time --isa avx2   both sides without AVX-512
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import measure
from .pair import STEPS, Pair, compare_losses, find_pairs

TOLERANCE = 1e-4  # relative difference of losses, at most
SPEED = 1.5  # PyTorch's time divided by ours: the geometric mean, at least
MEMORY = 0.7  # our memory divided by PyTorch's: the mean, at most

LEGEND = """\
losses: largest relative difference of a loss from PyTorch's in float32, and of both from PyTorch's in float64 (rounding)
time: milliseconds of a step, PyTorch in the fastest of its forms;  memory: megabytes that training adds at its peak
"""
HEADINGS = (
    "network", "losses", "rounding:", "PyTorch", "time:", "PyTorch", "faster", "PyTorch's form", "memory:", "PyTorch",
    "share",
)  # fmt: skip
COLUMNS = ("<38", ">7", ">9", ">7", ">8", ">8", ">6", "<23", ">7", ">7", ">5")


def main() -> int:
    options = _options()
    if options.isa and os.environ.get("OPENBNNS_ISA") != options.isa:
        return _restart(options.isa)
    pairs = find_pairs()
    unknown = [name for name in options.names if name not in pairs]
    if unknown:
        print(f"There is no network {', '.join(unknown)}. There are {', '.join(pairs)}.", file=sys.stderr)
        return 2
    chosen = {name: pairs[name] for name in options.names or pairs}
    everything = not (options.losses or options.time or options.memory)
    import torch

    print(f"{_processor()}, {options.threads} threads, PyTorch {torch.__version__}, Python {platform.python_version()}")
    print(LEGEND)
    print(_cells(HEADINGS))
    rows = []
    for name, pair in chosen.items():
        row: dict[str, Any] = {"name": name, "title": pair.title}
        sizes = pair.small if options.small else pair.full
        if options.losses or everything:
            losses = compare_losses(pair, sizes)
            row["difference"] = losses.difference
            row["rounding"] = {"ours": losses.our_rounding, "theirs": losses.their_rounding}
        if options.time or everything:
            row["time"] = vars(measure.measure_time(pair, sizes, options.threads, options.seconds))
        if options.memory or everything:
            memory = measure.measure_memory(name, options.small, options.threads)
            row["memory"] = {**vars(memory), "ratio": memory.ratio}
        rows.append(row)
        print(_line(pair, row), flush=True)
    summary = _summary(rows)
    for text in summary.values():
        print(text)
    if options.json:
        path = Path(options.json)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"processor": _processor(), "threads": options.threads, "rows": rows}, indent=2))
    return 1 if any(row.get("difference", 0.0) > TOLERANCE for row in rows) else 0


def _restart(isa: str) -> int:
    """The same command in a process that has both sides' variables set before it loads them.

    PyTorch keeps compiled code without noting for which instructions, and may crash on what another setting left: hence a
    cache of its own.
    """
    own = {
        "OPENBNNS_ISA": isa, "ATEN_CPU_CAPABILITY": isa, "ONEDNN_MAX_CPU_ISA": isa.upper(),
        "MKL_ENABLE_INSTRUCTIONS": isa.upper(),
        "TORCHINDUCTOR_CACHE_DIR": str(Path(tempfile.gettempdir(), f"vs_pytorch_{isa}")),
    }  # fmt: skip
    command = [sys.executable, "-m", "examples.vs_pytorch", *sys.argv[1:]]
    return subprocess.run(command, env=os.environ | own).returncode


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.vs_pytorch", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="networks, by the names of their files; all if left out")
    parser.add_argument("--losses", action="store_true", help=f"compare {STEPS} steps from the same weights")
    parser.add_argument("--time", action="store_true", help="time of a step against the best of PyTorch")
    parser.add_argument("--memory", action="store_true", help="peak memory of training, each side in its own process")
    parser.add_argument("--small", action="store_true", help="the sizes of the tests")
    parser.add_argument("--threads", type=int, default=2, help="of both sides (default: 2)")
    parser.add_argument("--seconds", type=float, default=6.0, help="that the time of a network is measured for, about")
    parser.add_argument("--isa", choices=["avx2"], help="the newest instructions that both sides may use")
    parser.add_argument("--json", metavar="PATH", help="write all numbers to this file")
    return parser.parse_args()


def _line(pair: Pair, row: dict[str, Any]) -> str:
    time, memory = row.get("time"), row.get("memory")
    rounding = row.get("rounding")
    texts = [pair.title]
    texts += [""] * 3 if rounding is None else [
        f"{number:.1e}" for number in (row["difference"], rounding["ours"], rounding["theirs"])
    ]  # fmt: skip
    texts += [""] * 4 if time is None else [
        f"{time['ours']:.2f}", f"{time['theirs']:.2f}", f"{time['ratio']:.2f}x", time["form"],
    ]  # fmt: skip
    texts += [] if memory is None else [
        f"{memory['ours']:.0f}", f"{memory['theirs']:.0f}", f"{memory['ratio']:.2f}",
    ]  # fmt: skip
    return _cells(texts)


def _cells(texts: Sequence[str]) -> str:
    """A line of the table: words to the left, numbers to the right."""
    placed = (f"{text:{align}}" for text, align in zip(texts, COLUMNS, strict=False))
    return "  ".join(placed).rstrip()


def _summary(rows: list[dict[str, Any]]) -> dict[str, str]:
    """The results that the goals refer to, one line each."""
    lines = {}
    differences = [row["difference"] for row in rows if "difference" in row]
    ratios = [row["time"]["ratio"] for row in rows if "time" in row]
    memory = [row["memory"]["ratio"] for row in rows if "memory" in row]
    if differences:
        lines["losses"] = f"losses: largest relative difference {max(differences):.1e} (at most {TOLERANCE:g})"
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        lines["time"] = f"time: {mean:.2f}x in the geometric mean (goal {SPEED:g}), lowest {min(ratios):.2f}x (goal 1)"
    if memory:
        lines["memory"] = f"memory: {sum(memory) / len(memory):.2f} in the mean (goal at most {MEMORY:g})"
    return lines


def _processor() -> str:
    """The name that the system has for the processor."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    sys.exit(main())
