"""Sizes of tensors of other libraries, one of which may be that of the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Size:
    """A size that is that of the batch, times ``rows``.

    ``front`` of these rows come from axes in front of the batch: entry t of them for sample n is entry t N + n. Here, where the
    batch comes first, they are held as those of sample 0, then of sample 1 and so on.
    """

    rows: int
    front: int = 1

    def __mul__(self, factor: Any) -> Size:
        plain = isinstance(factor, (int, np.integer)) and self.front == 1
        return Size(self.rows * int(factor)) if plain else NotImplemented

    __rmul__ = __mul__

    def __floordiv__(self, divisor: Any) -> Size:
        whole = isinstance(divisor, (int, np.integer)) and divisor > 0 and self.rows % divisor == 0 and self.front == 1
        return Size(self.rows // int(divisor)) if whole else NotImplemented

    def __repr__(self) -> str:
        if self.front > 1:
            return f"{self.front}*N" if self.rows == self.front else f"{self.front}*N*{self.rows // self.front}"
        return "N" if self.rows == 1 else f"N*{self.rows}"


@dataclass(frozen=True)
class SampleNumbers:
    """The constant that is 0 for the first sample, 1 for the second, and so on."""

    shape: tuple[int, ...]  # without the axis of the batch


def batch_axis(shape: tuple[Any, ...]) -> int | None:
    """Which axis is the batch, if any."""
    return next((axis for axis, n in enumerate(shape) if isinstance(n, Size)), None)
