"""Runs the benchmarks, prints a table, and writes every number to a JSON file and plots to a page beside it.

python benchmarks/run.py                        everything, 2 threads; build/bench/<processor>-<instruction set>.json and .html
python benchmarks/run.py --only sweep/          matrix products from 64 to 4096 as a share of the peak
python benchmarks/run.py --only training/ --isa avx2       both sides without AVX-512
python benchmarks/run.py --only softmax --threads 1,2
python benchmarks/run.py --quick --check        short, and an exit code that tells whether all targets are met
python benchmarks/run.py --page docs/benchmarks/*.json     the pages of such files only

A run adds to the file of its machine: what it measures again replaces what was there.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path

import accuracy
import activation
import arithmetic
import attention
import c_library
import convolution
import element_types
import embedding
import fully_connected
import fused
import graph_calls
import inference
import instructions
import loss
import lstm
import matmul
import memory
import moves
import normalization
import optimizer
import overhead
import page
import pooling
import precision
import quantized_inference
import recording
import sweep
import tensors
import training
from cases import Case
from harness import Ceilings, Figure, Result, Settings, run_case, use_threads
from results import Results, about, file_name

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
    convolution,
    element_types,
    fused,
    optimizer,
    moves,
    overhead,
    c_library,
    graph_calls,
    memory,
    training,
    precision,
    quantized_inference,
    inference,
    recording,
    tensors,
)

COPY_SHARE = 0.85  # of the copy bandwidth is enough where memory is the limit, even if a peer is faster


def main() -> int:
    options = _options()
    if options.page:
        for path in map(Path, options.page):
            page.write(Results.read(path), path.with_suffix(".html"))
        return 0
    if not instructions.is_limited(options.isa):
        return instructions.restart(options.isa)
    cases = [c for module in CASES for c in module.cases() if _is_wanted(c.name, options.only)]
    figures = {n: f for module in FIGURES for n, f in module.figures().items() if _is_wanted(n, options.only)}
    points = {n: f for n, f in sweep.points().items() if _is_wanted(n, options.only)}
    if options.list:
        print("\n".join([*(c.name for c in cases), *figures, *points]))
        return 0
    described = about(options.note)
    path = Path(options.json or f"build/bench/{file_name(described)}.json")
    earlier = Results.read(path) if path.exists() else None
    Results(described).joined(earlier or Results(described))  # better now than after an hour
    print("  ".join(f"{k} {v}" for k, v in described.items() if v))
    results: list[Result] = []
    numbers: list[Figure] = []
    measured: list[sweep.Point] = []
    for threads in options.threads:
        settings = Settings(threads, 0.3 if options.quick else 1.5)
        results += _compare(cases, settings)
        numbers += _summary([r for r in results if r.threads == threads], settings)
        measured += _sweep(points, settings)
    numbers += _measure(figures, Settings(options.threads[-1], 0.3 if options.quick else 1.5))
    taken = Results(described, *([part.record() for part in parts] for parts in (results, numbers, measured)))
    taken = taken.joined(earlier) if earlier else taken
    taken.write(path)
    page.write(taken, path.with_suffix(".html"))
    missed = [r.name for r in results if r.passed is False] + [f.name for f in numbers if f.passed is False]
    _show_memory_bound(results, numbers)
    undecided = sum(r.disturbed for r in (*results, *measured))
    print(f"\n{undecided} undecided, {len(missed)} target(s) missed" + "".join(f"\n  {name}" for name in missed))
    print(f"All numbers: {path}; plots: {path.with_suffix('.html')}")
    if any(r.wrong for r in results):
        return 1
    return 1 if options.check and missed else 0


def _is_wanted(name: str, only: list[str]) -> bool:
    """A word that ends in a slash is the beginning of names: ``c/`` does not mean ``arithmetic/``."""
    return not only or any(name.startswith(word) if word.endswith("/") else word in name for word in only)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only",
        action="append",
        metavar="SUBSTRING",
        help="run what has this in its name (see --list); may be repeated",
    )
    parser.add_argument("--quick", action="store_true", help="about a fifth of the time, less certain")
    parser.add_argument("--threads", default="2", help="numbers of threads, such as 1,2; targets are for 2")
    parser.add_argument(
        "--json", metavar="PATH", help="where the numbers go (default: build/bench/<processor>-<set>.json)"
    )
    parser.add_argument("--note", default="", help="what readers have to know, such as: under emulation")
    instructions.add_option(parser)
    parser.add_argument("--page", nargs="+", metavar="PATH", help="write the pages of these files, measure nothing")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a target is missed")
    options = parser.parse_args()
    options.threads = [int(n) for n in options.threads.split(",")]
    return options


def _compare(cases: list[Case], settings: Settings) -> list[Result]:
    """Our calls against PyTorch's, one row each."""
    if not cases:
        return []
    use_threads(settings.threads)
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
        use_threads(settings.threads)
        print()
    results = []
    for measure in figures.values():
        results.append(measure(settings))
        print(_line(results[-1]), flush=True)
    return results


def _show_memory_bound(results: list[Result], figures: list[Figure]) -> None:
    """Show memory-bound cases that are neither as fast as the best peer nor nearly as fast as a copy."""
    rows = [(r.name, r.ratio, r.copy_share) for r in results if r.copy_share and not r.disturbed]
    rows += [(f.name, f.value, f.copy_share) for f in figures if f.copy_share]
    slow = [row for row in rows if row[1] < 1 and row[2] < COPY_SHARE]
    if rows:
        print(
            f"\nBound by memory: {len(rows) - len(slow)} of {len(rows)} at the best peer or at {COPY_SHARE:.0%} of a copy"
        )
    for name, ratio, share in slow:
        print(f"  {name}: {ratio:.2f} of the peer, {share:.0%} of a copy")


def _sweep(points: dict[str, Callable[[Settings, Ceilings], sweep.Point]], settings: Settings) -> list[sweep.Point]:
    """Square matrix products, one row each."""
    if not points:
        return []
    use_threads(settings.threads)
    ceilings = Ceilings(settings.threads)
    print(f"\n{settings.threads} thread(s); products of square matrices, forward; ratio = peer / ours")
    print(f"{'size and operands':24s} {'ours':>9s} {'GFLOP/s':>8s} {'share':>6s}  peers")
    measured = []
    for measure in points.values():
        p = measure(settings, ceilings)
        peers = "  ".join(f"{name} {_seconds(t)} ({t / p.ours:.2f})" for name, t in p.peers.items())
        busy = f"  undecided: others took {p.disturbance:.0%} of the machine" if p.disturbed else ""
        print(f"{p.name:24s} {_seconds(p.ours):>9s} {p.rate:8.1f} {p.share:6.0%}  {peers}{busy}", flush=True)
        measured.append(p)
    return measured


def _line(f: Figure) -> str:
    goal = "" if f.target is None else f"{'<=' if f.at_most else '>='} {f.target:g}"
    return f"{f.name:62s} {f.value:9.2f} {f.unit:12s} {goal:8s} {_verdict(f.passed):6s} {f.note}".rstrip()


def _verdict(passed: bool | None) -> str:
    return "" if passed is None else "pass" if passed else "MISSED"


def _seconds(t: float) -> str:
    return f"{t * 1e3:.2f} ms" if t >= 1e-3 else f"{t * 1e6:.2f} us"


if __name__ == "__main__":
    sys.exit(main())
