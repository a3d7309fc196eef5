"""What a training run shows while it runs: a bar on a terminal, one line per epoch elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any


class Progress:
    """Counts steps. The bar needs ``rich`` and a terminal; without them only the lines are there."""

    def __init__(self, total: int, done: int, *, quiet: bool, say: Callable[[str], None]) -> None:
        self._say, self._bar, self._task = say, None, None
        self._samples, self._shown = 0, 0.0
        self._mean: float | None = None
        if not quiet and sys.stderr.isatty():
            self._bar = _make_bar()
        if self._bar is not None:
            self._task = self._bar.add_task("training", total=total, completed=done, loss="", speed="")
            self._say = self._bar.console.print

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        self._began = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, epoch: int, loss: float, samples: int) -> None:
        """One step is done."""
        if self._bar is None:
            return
        self._samples += samples
        self._mean = loss if self._mean is None else 0.95 * self._mean + 0.05 * loss
        now = time.perf_counter()
        if now - self._shown < 0.1:  # showing costs more than a small step
            self._bar.advance(self._task, 1)
            return
        self._shown = now
        speed = self._samples / (now - self._began)
        self._bar.update(self._task, advance=1, loss=f"loss {self._mean:.4f}", speed=f"{speed:,.0f} samples/s")

    def end_epoch(self, record: dict[str, Any], epochs: int) -> None:
        """One epoch is done."""
        width = len(str(epochs))
        parts = [f"epoch {record['epoch']:{width}d}/{epochs}"]
        for name, value in record.items():
            if name in ("epoch", "step", "seconds", "learning_rate") or not isinstance(value, (int, float)):
                continue
            parts.append(f"{name.replace('_', ' ')} {_number(name, value)}")
        self._say("  ".join(parts) + f"  {record['seconds']:.1f} s")


def _number(name: str, value: float) -> str:
    return f"{value:.1%}" if name.endswith("accuracy") else f"{value:.4f}"


def _make_bar() -> Any:
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress
    except ImportError:
        return None
    from rich.console import Console

    return RichProgress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[loss]}"),
        TextColumn("{task.fields[speed]}"), TimeRemainingColumn(), console=Console(stderr=True), transient=True,
    )  # fmt: skip
