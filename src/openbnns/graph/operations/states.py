"""Initial states of recurrent cells, per layer and direction, and lengths of the sequences of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..sizes import is_same_shape
from ..tensor import FLOAT32, Array, Tensor


@dataclass(frozen=True, eq=False)
class InitialState:
    """Entry ``index`` of a value (..., n, H), or all of one (..., H) without it; repeated if it is one for all samples."""

    value: Tensor
    index: int | None

    def _part(self, array: Array) -> Array:
        part: Array = array if self.index is None else array[..., self.index, :]
        return part

    def read(self, array: Array, to: Array) -> None:
        """Copy the state to (N, H)."""
        np.copyto(to, self._part(array))

    def write(self, gradient: Array, to: Array) -> None:
        """Write a gradient (N, H) to where that of the value belongs; what else the value holds has none."""
        to.fill(0)
        part = self._part(to)
        part[...] = gradient if part.shape == gradient.shape else gradient.sum(0)


def for_samples(value: Any, x: Tensor, sample: tuple[int, ...]) -> bool:
    """True for a value of such samples, one for each sample of x or one for all."""
    if not isinstance(value, Tensor) or value.dtype != FLOAT32:
        return False
    return is_same_shape(value.shape, sample) or (
        value.ndim == len(sample) + 1 and value.shape == (x.shape[0], *sample)
    )


def require_lengths(lengths: Array, steps: int, who: str) -> None:
    """Refuse sequences that are empty or longer than there are steps."""
    wrong = np.flatnonzero((lengths < 1) | (lengths > steps))
    if wrong.size:
        sample = int(wrong[0])
        raise ValueError(
            f"{who}: sample {sample} has length {int(lengths[sample])}, but sequences have 1 to {steps} steps. Pass the number "
            "of steps of every sample before its padding."
        )


def values(initial: Sequence[InitialState], lengths: Tensor | None) -> list[Tensor]:
    """The values behind x that a recurrent operation reads."""
    return [state.value for state in initial] + ([] if lengths is None else [lengths])
