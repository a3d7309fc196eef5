"""Runs the benchmarks, prints a table and writes every number to a JSON file.

python benchmarks/run.py                        everything, 2 threads
python benchmarks/run.py --only softmax --threads 1,2
python benchmarks/run.py --quick --check        short, and an exit code that tells whether all targets are met
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import accuracy
import activation
import arithmetic
import attention
import c_library
import convolution
import embedding
import fully_connected
import fused
import loss
import lstm
import matmul
import memory
import moves
import mpi
import normalization
import openbnns
import optimizer
import overhead
import pooling
import tensors
import training
from cases import Case
from harness import Ceilings, Figure, Result, Settings, run_case
from openbnns import runtime

# Comparisons with PyTorch, and single numbers.
CASES = (
    convolution,
    fully_connected,
    activation,
    arithmetic,
    loss,
    pooling,
    embedding,
    matmul,
    lstm,
    attention,
    normalization,
    fused,
    tensors,
)
FIGURES = (
    accuracy,
    fused,
    optimizer,
    moves,
    overhead,
    c_library,
    memory,
    training,
    mpi,
    tensors,
)


def main() -> int:
    options = _options()
    cases = [c for module in CASES for c in module.cases() if _is_wanted(c.name, options.only)]
    figures = {n: f for module in FIGURES for n, f in module.figures().items() if _is_wanted(n, options.only)}
    if options.list:
        print("\n".join([*(c.name for c in cases), *figures]))
        return 0
    about = _about()
    print("  ".join(f"{k} {v}" for k, v in about.items()))
    results: list[Result] = []
    numbers: list[Figure] = []
    for threads in options.threads:
        settings = Settings(threads, 0.3 if options.quick else 1.5)
        results += _compare(cases, settings)
        numbers += _summary([r for r in results if r.threads == threads], settings)
    numbers += _measure(figures, Settings(options.threads[-1], 0.3 if options.quick else 1.5))
    _write(options.json, about, results, numbers)
    missed = [r.name for r in results if r.passed is False] + [f.name for f in numbers if f.passed is False]
    undecided = sum(r.disturbed for r in results)
    print(
        f"\n{undecided} case(s) undecided, {len(missed)} target(s) missed" + "".join(f"\n  {name}" for name in missed)
    )
    if any(r.wrong for r in results):
        return 1
    return 1 if options.check and missed else 0


def _is_wanted(name: str, only: str) -> bool:
    """A word that ends in a slash is the beginning of names: ``c/`` does not mean ``arithmetic/``."""
    return name.startswith(only) if only.endswith("/") else only in name


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="run what has this in its name (see --list)")
    parser.add_argument("--quick", action="store_true", help="about a fifth of the time, less certain")
    parser.add_argument("--threads", default="2", help="numbers of threads, such as 1,2; targets are for 2")
    parser.add_argument("--json", default="out/bench.json", metavar="PATH", help="where the numbers go")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a target is missed")
    options = parser.parse_args()
    options.threads = [int(n) for n in options.threads.split(",")]
    return options


def _about() -> dict[str, str]:
    """Machine and versions; some figures need no PyTorch."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    config = runtime.config()
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": str(len(models) or "?"),
        "instruction set": config["instruction set"],
        "openbnns": openbnns.__version__,
        "torch": metadata.version("torch") if find_spec("torch") else "none",
        "numpy": config["numpy"],
        "python": config["python"],
        "system": f"{platform.system()} {platform.release()}",
    }


def _compare(cases: list[Case], settings: Settings) -> list[Result]:
    """Our calls against PyTorch's, one row each."""
    if not cases:
        return []
    import torch

    torch.set_num_threads(settings.threads)
    openbnns.set_num_threads(settings.threads)
    ceilings = Ceilings(settings.threads)
    print(f"\n{settings.threads} thread(s); forward + backward; ratio = torch / ours, median (least..most)")
    print(
        f"{'case':54s} {'ours':>9s} {'fwd':>9s} {'bwd':>9s} {'torch':>9s} {'layout':13s} {'ratio':>6s} {'range':>13s} "
        f"{'of best':>7s} {'rate':>13s} {'share':>6s} {'error':>7s}  target"
    )
    results = []
    for case in cases:
        result = run_case(case, settings, ceilings)
        print(_row(result), flush=True)
        results.append(result)
    for unit, what in (
        ("GFLOP/s", "multiply-adds on registers"),
        ("GB/s", "np.copyto in as much memory, both ways"),
    ):
        limits = [r.ceiling for r in results if r.rate_unit == unit and r.ceiling]
        if limits:
            print(f"100 % share: {what}, {min(limits):.0f}..{max(limits):.0f} {unit} in these rounds")
    return results


def _row(r: Result) -> str:
    if r.wrong:
        return f"{r.name:54s} WRONG: {r.wrong}"
    times = " ".join(f"{_seconds(t):>9s}" for t in (r.ours, r.ours_forward, r.ours_backward, r.torch))
    spread = f"{r.ratio_low:.2f}..{r.ratio_high:.2f}"
    rate = f"{r.rate:.1f} {r.rate_unit}"
    share = f"{r.share:.0%}" if r.ceiling else ""
    goal = "" if r.target is None else f">= {r.target:g}"
    if r.share_target is not None:
        goal += f", share >= {r.share_target:.0%}"
    busy = f"undecided: others took {r.disturbance:.0%} of the machine" if r.disturbed else ""
    return (
        f"{r.name:54s} {times} {r.layout:13s} {r.ratio:6.2f} {spread:>13s} {r.ratio_of_best:7.2f} {rate:>13s} "
        f"{share:>6s} {r.error:7.0e}  {goal} {_verdict(r.passed)}{busy}"
    )


def _summary(results: list[Result], settings: Settings) -> list[Figure]:
    """The geometric mean of the convolutions, judged when all of them have run undisturbed."""
    members = [r for r in results if r.name.startswith(f"{convolution.GROUP}/")]
    ratios = [r.ratio for r in members if not (r.wrong or r.disturbed)]
    if not ratios:
        return []
    judged = settings.judged and len(ratios) == len(convolution.SHAPES)
    mean = math.exp(sum(math.log(r) for r in ratios) / len(ratios))
    name = f"geometric mean of {len(ratios)} undisturbed convolutions, {settings.threads} thread(s)"
    figure = Figure(name, mean, "x torch", convolution.MEAN_TARGET if judged else None)
    print(_line(figure))
    return [figure]


def _measure(figures: dict[str, Callable[[Settings], Figure]], settings: Settings) -> list[Figure]:
    if figures:
        openbnns.set_num_threads(settings.threads)
        print()
    results = []
    for measure in figures.values():
        results.append(measure(settings))
        print(_line(results[-1]), flush=True)
    return results


def _line(f: Figure) -> str:
    goal = "" if f.target is None else f"{'<=' if f.at_most else '>='} {f.target:g}"
    return f"{f.name:62s} {f.value:9.2f} {f.unit:12s} {goal:8s} {_verdict(f.passed):6s} {f.note}".rstrip()


def _verdict(passed: bool | None) -> str:
    return "" if passed is None else "pass" if passed else "MISSED"


def _seconds(t: float) -> str:
    return f"{t * 1e3:.2f} ms" if t >= 1e-3 else f"{t * 1e6:.2f} us"


def _write(path: str, about: dict[str, str], results: list[Result], numbers: list[Figure]) -> None:
    content: dict[str, Any] = {
        "about": about,
        "cases": [r.record() for r in results],
        "figures": [f.record() for f in numbers],
    }
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
