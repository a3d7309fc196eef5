"""Do tensor functions and reductions keep up with memory, and with the faster of NumPy and PyTorch?"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import openbnns as bn
from harness import Ceilings, Figure, Settings
from timing import alternate, sampler

Call = Callable[[], Any]


class Contest(NamedTuple):
    """Our call and its rivals on the same buffers; ``check`` gives our result and the expected one."""

    ours: Call
    rivals: dict[str, Call]
    check: Callable[[], tuple[Any, Any]]
    bytes: int = 0  # read and written at least, where memory is the limit
    only_reads: bool = False  # reading alone is faster than copying: the share of that bandwidth is shown, too


def figures() -> dict[str, Callable[[Settings], Figure]]:
    """Measurements by name."""
    contests: dict[str, tuple[Callable[[Any], Contest], float | None]] = {
        "tensor/top-8 of 1024x50000": (partial(_top_k, 1024, 50_000, 8), 2.0),
        "tensor/top-100 of 64x20000": (partial(_top_k, 64, 20_000, 100), None),
        "tensor/gather 8192 rows of 50000x128": (partial(_gather, 50_000, 128, 8192), 1.5),
        "tensor/scatter-add 8192 rows to 50000x128": (partial(_scatter, 50_000, 128, 8192), 1.5),
        "tensor/transpose 2048x2048": (partial(_transpose, 2048), None),
        "tensor/compare 4 million": (_compare, 1.0),
    }
    for name in ("sum", "max"):
        for axis in (1, 0):
            contests[f"reduction/{name} over axis {axis} of 4096x4096"] = (partial(_reduce, name, axis), 1.0)
    return {name: partial(_measure, name, make, target) for name, (make, target) in contests.items()}


def _measure(name: str, make: Callable[[Any], Contest], target: float | None, settings: Settings) -> Figure:
    import torch

    contest = make(torch)
    contest.ours()
    for rival in contest.rivals.values():
        rival()
    ours, expected = contest.check()
    right = np.allclose(ours, expected, rtol=1e-4, atol=1e-4)
    samplers = [sampler(call) for call in (contest.ours, *contest.rivals.values())]
    if contest.bytes:
        samplers.append(partial(Ceilings(settings.threads).gigabytes, contest.bytes))
    if contest.only_reads:
        samplers.append(sampler(partial(_read_all, settings.threads)))
    times, disturbance = alternate(samplers, settings.seconds)
    medians = [statistics.median(t) for t in times]
    best = 1 + min(range(len(contest.rivals)), key=lambda i: medians[1 + i])
    ratio = statistics.median(t / o for o, t in zip(times[0], times[best], strict=True))
    note = f"ours {medians[0] * 1e3:.2f} ms, best rival {list(contest.rivals)[best - 1]} {medians[best] * 1e3:.2f} ms"
    share = contest.bytes / medians[0] / 1e9 / max(times[1 + len(contest.rivals)]) if contest.bytes else None
    if share:
        note += f", {share:.0%} of the copy bandwidth"
    if contest.only_reads:
        note += f", {contest.bytes / medians[0] / (_MEMORY.nbytes / medians[-1]):.0%} of the read bandwidth"
    note += f", others took {disturbance:.0%}" + ("" if right else ", WRONG")
    return Figure(name, ratio if right else 0.0, "x best rival", target, note=note, copy_share=share)


_MEMORY = np.ones(16 << 20, np.float32)
_POOL = ThreadPoolExecutor(8)


def _read_all(threads: int) -> None:
    """Read 64 MiB with the fastest reader NumPy has: the maximum of whole 64-bit words."""
    parts = np.array_split(_MEMORY.view(np.int64), threads)
    list(_POOL.map(np.max, parts))


def _top_k(rows: int, length: int, k: int, torch: Any) -> Contest:
    x = np.random.default_rng(0).standard_normal((rows, length), dtype=np.float32)
    values, indices = np.empty((rows, k), np.float32), np.empty((rows, k), np.int64)
    t = torch.from_numpy(x)
    out = torch.empty((rows, k)), torch.empty((rows, k), dtype=torch.int64)
    return Contest(
        lambda: bn.apply_top_k(k, x, values, indices),
        {"torch": lambda: torch.topk(t, k, out=out), "numpy": lambda: np.argpartition(x, length - k, axis=1)},
        lambda: (values, out[0].numpy()),
    )


def _gather(rows: int, width: int, count: int, torch: Any) -> Contest:
    rng = np.random.default_rng(0)
    x, indices = rng.standard_normal((rows, width), dtype=np.float32), rng.integers(0, rows, count)
    y, other = np.empty((count, width), np.float32), np.empty((count, width), np.float32)
    t, i, out = torch.from_numpy(x), torch.from_numpy(indices), torch.empty((count, width))
    return Contest(
        lambda: bn.gather(x, indices, y, axis=0),
        {
            "numpy": lambda: np.take(x, indices, axis=0, out=other, mode="clip"),
            "torch": lambda: torch.index_select(t, 0, i, out=out),
        },
        lambda: (y, other),
        2 * y.nbytes + indices.nbytes,
    )


def _scatter(rows: int, width: int, count: int, torch: Any) -> Contest:
    rng = np.random.default_rng(0)
    x, indices = rng.standard_normal((count, width), dtype=np.float32), rng.integers(0, rows, count)
    y = np.zeros((rows, width), np.float32)
    t, i, out = torch.from_numpy(x), torch.from_numpy(indices), torch.zeros((rows, width))
    wide = i[:, None].expand(-1, width).contiguous()
    total = bn.ReductionFunction.sum()
    second = torch.zeros((rows, width))

    def check() -> tuple[Any, Any]:
        y[:] = 0
        bn.scatter(x, indices, y, axis=0, reduction_function=total)
        return y, torch.zeros((rows, width)).index_add_(0, i, t).numpy()

    return Contest(
        lambda: bn.scatter(x, indices, y, axis=0, reduction_function=total),
        {
            "torch.index_add_": lambda: out.index_add_(0, i, t),
            "torch.scatter_add_": lambda: second.scatter_add_(0, wide, t),
        },
        check,
    )


def _transpose(n: int, torch: Any) -> Contest:
    x = np.random.default_rng(0).standard_normal((n, n), dtype=np.float32)
    y, other = np.empty((n, n), np.float32), torch.empty((n, n))
    t = torch.from_numpy(x)
    return Contest(
        lambda: bn.transpose(x, y),
        {"numpy": lambda: np.copyto(y, x.T), "torch": lambda: other.copy_(t.T)},
        lambda: (bn.transpose(x, y), x.T),
        x.nbytes + y.nbytes,
    )


def _compare(torch: Any) -> Contest:
    a, b = np.random.default_rng(0).standard_normal((2, 4 << 20), dtype=np.float32)
    y, other = np.empty(4 << 20, np.bool_), np.empty(4 << 20, np.bool_)
    ta, tb, out = torch.from_numpy(a), torch.from_numpy(b), torch.empty(4 << 20, dtype=torch.bool)
    return Contest(
        lambda: bn.compare(a, b, bn.RelationalOperator.LESS, y),
        {"numpy": lambda: np.less(a, b, out=other), "torch": lambda: torch.lt(ta, tb, out=out)},
        lambda: (y, other),
        a.nbytes + b.nbytes + y.nbytes,
    )


def _reduce(name: str, axis: int, torch: Any) -> Contest:
    x = np.random.default_rng(0).standard_normal((4096, 4096), dtype=np.float32)
    shape = (4096, 1) if axis == 1 else (1, 4096)
    y, other, t = np.empty(shape, np.float32), np.empty(shape, np.float32), torch.from_numpy(x)
    out, function = torch.empty(shape), getattr(bn.ReductionFunction, name)()
    reduce = {"sum": torch.sum, "max": torch.amax}[name]
    return Contest(
        lambda: bn.apply_reduction(function, x, y),
        {
            "numpy": lambda: getattr(np, name)(x, axis=axis, keepdims=True, out=other),
            "torch": lambda: reduce(t, axis, keepdim=True, out=out),
        },
        lambda: (y, x.astype(np.float64).sum(axis, keepdims=True) if name == "sum" else other),
        x.nbytes,
        only_reads=True,
    )
