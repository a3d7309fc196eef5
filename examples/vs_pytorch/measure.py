"""Time and memory of training steps, ours against the best of PyTorch."""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .pair import FORMS, Batch, Pair, find_pairs, make_ours, make_pytorch, tensors

_ROOT = Path(__file__).resolve().parents[2]
_BATCHES = 4  # that steps go through in turn
_COUNTED_STEPS = 5  # of which memory is measured


@dataclass
class Time:
    """Milliseconds of a step, medians; the ratio is formed round by round."""

    ours: float
    theirs: float
    form: str  # in which PyTorch was fastest
    ratio: float  # PyTorch's time divided by ours
    lowest: float
    highest: float
    disturbed: float  # share of the machine that other processes took in the noisiest round


def measure_time(pair: Pair, sizes: Any, threads: int = 2, seconds: float = 6.0) -> Time:
    """Both sides take turns in this process, and other work on the machine hits both."""
    import torch
    from benchmarks.timing import alternate, repeat, sampler

    import openbnns

    torch.set_num_threads(threads)
    openbnns.set_num_threads(threads)
    batches = pair.batches(sizes, _BATCHES)
    ours = _steps(make_ours(pair, sizes, make_pytorch(pair, sizes)), batches)
    theirs = _forms(pair, sizes, batches)
    best = {form: min(repeat(step, 1) for _ in range(4)) for form, step in theirs.items()}
    form = min(best, key=lambda form: best[form])
    (mine, peer), disturbed = alternate([sampler(ours), sampler(theirs[form])], seconds)
    ratios = [p / m for m, p in zip(mine, peer, strict=True)]
    return Time(
        statistics.median(mine) * 1e3, statistics.median(peer) * 1e3, form, statistics.median(ratios), min(ratios),
        max(ratios), disturbed,
    )  # fmt: skip


def _steps(side: Any, batches: list[Any]) -> Callable[[], Any]:
    """A step on the next batch, from the first to the last and again."""
    endless = itertools.cycle(batches)
    return lambda: side.step(*next(endless))


def _forms(pair: Pair, sizes: Any, batches: list[Batch]) -> dict[str, Callable[[], Any]]:
    """PyTorch's steps in every form that makes sense and works here."""
    images = any(array.ndim == 4 for array in batches[0])
    steps = {}
    for form in FORMS:
        if "channels last" in form and not images:
            continue
        step = _steps(make_pytorch(pair, sizes, form), [tensors(batch, form) for batch in batches])
        try:
            step()
        except Exception as error:
            if form == "eager":
                raise
            print(f"PyTorch {form} does not work here: {type(error).__name__}", file=sys.stderr)
            continue
        steps[form] = step
    return steps


@dataclass
class Memory:
    """Megabytes that training adds at its peak."""

    ours: float
    theirs: float
    form: str  # in which PyTorch took least

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs


def measure_memory(name: str, small: bool = False, threads: int = 2) -> Memory:
    """Each side in a process of its own.

    What counts is the highest resident memory during five steps, less what was resident before: the interpreter with the
    library after one step of a tiny network, and the batches. So networks, gradients, states of optimizers, activations
    and everything else that training takes count, and the size of the libraries does not. Of PyTorch's eager and
    channels-last forms the smaller counts; a compiled one would count its compiler.
    """
    sizes = _sizes(find_pairs()[name], small)
    images = any(array.ndim == 4 for array in find_pairs()[name].batches(sizes, 1)[0])
    forms = FORMS[:2] if images else FORMS[:1]
    ours = _in_child(name, "ours", small, threads)
    theirs = {form: _in_child(name, form, small, threads) for form in forms}
    form = min(theirs, key=lambda form: theirs[form])
    return Memory(ours, theirs[form], form)


def _sizes(pair: Pair, small: bool) -> Any:
    return pair.small if small else pair.full


def _in_child(name: str, side: str, small: bool, threads: int) -> float:
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, "-m", __spec__.name, name, side, str(int(small)), str(threads)]
    run = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    )
    if run.returncode != 0:
        raise RuntimeError(f"{name}, {side}: {run.stderr}")
    return float(run.stdout.split()[-1]) / 1e6


def _peak_of_training(pair: Pair, side: str, sizes: Any, threads: int) -> int:
    """Bytes beyond those that were resident before."""
    batches: list[Any] = pair.batches(sizes, 2)
    if side == "ours":
        import openbnns

        openbnns.set_num_threads(threads)
        _try_ours()
    else:
        import torch

        torch.set_num_threads(threads)
        batches = [tensors(batch, side) for batch in batches]
        _try_pytorch()
    before = _reset_peak()
    step = _steps(make_ours(pair, sizes) if side == "ours" else make_pytorch(pair, sizes, side), batches)
    for _ in range(_COUNTED_STEPS):
        step()
    return _resident("VmHWM") - before


def _try_ours() -> None:
    """Load what training takes, whatever the network."""
    from openbnns import nn

    net = nn.Linear(2, 2)
    net(np.ones((2, 2), np.float32))
    net.backward(np.ones((2, 2), np.float32))
    nn.Adam(net.parameters(), lr=0.1).step()


def _try_pytorch() -> None:
    """Load what training takes, whatever the network: PyTorch imports much at the first step."""
    import torch

    net = torch.nn.Linear(2, 2)
    net(torch.ones(2, 2)).sum().backward()
    torch.optim.Adam(net.parameters(), lr=0.1, fused=True).step()


def _reset_peak() -> int:
    """Forget the highest resident memory so far; gives the present one."""
    Path("/proc/self/clear_refs").write_text("5")
    return _resident("VmRSS")


def _resident(field: str) -> int:
    """A field of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field + ":")).split()[1]) * 1024


if __name__ == "__main__":
    chosen = find_pairs()[sys.argv[1]]
    print(_peak_of_training(chosen, sys.argv[2], _sizes(chosen, sys.argv[3] == "1"), int(sys.argv[4])))
