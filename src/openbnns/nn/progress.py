"""The progress display of a training run: a line that changes on a terminal, one line per epoch elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TextIO

_EVERY = 0.1  # seconds: showing costs more than a small step
_BAR = 20
_CLEAR = "\r\x1b[K"


class Progress:
    """Counts the steps of a run. On a terminal it shows the state of the run, its loss and metrics, and the time that is
    left."""

    def __init__(
        self,
        epochs: int,
        steps: int,
        done: int,
        *,
        quiet: bool,
        say: Callable[[str], None],
        stream: TextIO | None = None,
    ) -> None:
        """``steps`` are those of an epoch; ``done`` are the steps of the epochs before."""
        self.epochs, self.steps = epochs, steps
        self._done, self._first = done, done
        self._say = say
        self._stream = sys.stderr if stream is None else stream
        self.shows = not quiet and self._stream.isatty()
        self._samples, self._shown = 0, 0.0
        self._drawn = False

    def __enter__(self) -> Progress:
        self._began = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()

    def advance(
        self,
        samples: int,
        *,
        rate: float | None = None,
        measured: Callable[[], Mapping[str, float]] | None = None,
    ) -> None:
        """Note the end of a step. ``measured`` gives loss and metrics of the epoch so far; called only if they are shown."""
        self._done += 1
        if not self.shows:
            return
        self._samples += samples
        now = time.perf_counter()
        if now - self._shown >= _EVERY:
            self._shown = now
            self._draw(self.line(now - self._began, rate, {} if measured is None else measured()))

    def line(self, seconds: float, rate: float | None, measured: Mapping[str, float]) -> str:
        """The line that shows the state of the run after so many seconds."""
        epoch, step = divmod(max(0, self._done - 1), self.steps)
        step += 1
        filled = round(_BAR * step / self.steps)
        parts = [
            f"epoch {epoch + 1}/{self.epochs}",
            f"[{'#' * filled}{'-' * (_BAR - filled)}]",
            f"batch {step}/{self.steps}",
        ]
        parts += [
            f"{name.replace('_', ' ')} {_number(name, v)}"
            for name, v in measured.items()
            if not name.startswith("loss_")
        ]
        parts.append(f"{self._samples / max(seconds, 1e-9):,.0f} samples/s")
        if rate is not None:
            parts.append(f"lr {rate:.2g}")
        speed = (self._done - self._first) / max(seconds, 1e-9)
        parts.append(f"{_clock((self.epochs * self.steps - self._done) / max(speed, 1e-9))} left")
        return "  ".join(parts)

    def _draw(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(_CLEAR + (text if len(text) <= width else text[: max(0, width - 1)] + "…"))
        self._stream.flush()
        self._drawn = True

    def _clear(self) -> None:
        if self._drawn:
            self._stream.write(_CLEAR)
            self._stream.flush()
            self._drawn = False

    def end_epoch(self, record: dict[str, Any], epochs: int) -> None:
        """Note the end of an epoch."""
        self._clear()
        width = len(str(epochs))
        parts = [f"epoch {record['epoch']:{width}d}/{epochs}"]
        for name, value in record.items():
            if name in ("epoch", "step", "seconds", "learning_rate") or not isinstance(value, (int, float)):
                continue
            parts.append(f"{name.replace('_', ' ')} {_number(name, value)}")
        self._say("  ".join(parts) + f"  {record['seconds']:.1f} s")


def _number(name: str, value: float) -> str:
    return f"{value:.1%}" if name.endswith("accuracy") else f"{value:.4f}"


def _clock(seconds: float) -> str:
    """A time for people: 0:07, 12:30, 3:05:00."""
    whole = round(min(seconds, 359_999_999))
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
