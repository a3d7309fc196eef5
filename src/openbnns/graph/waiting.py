"""Values that wait for the backward pass in bfloat16.

With precision "bfloat16" a value that only the backward pass still needs is rounded to bfloat16, in half the memory. Before
each backward step that reads it, it becomes float32 again where it was; in between, others may use that memory. The calls that
convert it run between two steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .memory import Block
from .operation import Operation
from .tensor import FLOAT32, Tensor

STORED = np.dtype(np.uint16)  # of bfloat16
WORTH = 0.95  # of the memory of the program: a larger share is not worth the calls that convert
_SOON = 2  # steps
_FEWEST_BYTES = 1 << 14  # of float32: a value that has less is not worth the calls

Key = Tensor | int
"""A storage, or the number of an operation for what it keeps itself."""


@dataclass
class Uses:
    """The steps that use a value: the last one of the forward pass, and those that read it in the backward pass."""

    last: int
    back: set[int] = field(default_factory=set)


@dataclass
class Waiting:
    """A value that is written to ``half`` after step ``last``, and read back from there before the backward steps ``back``.

    From then on it is in use at the times ``again``.
    """

    half: Block
    last: int
    back: set[int]
    again: frozenset[float]


def find_uses(
    steps: Sequence[Operation],
    goes_back: Callable[[Operation], bool],
    repeated: Mapping[tuple[int, Tensor], int],
    bytes_of: Callable[[Key], int],
) -> dict[Key, Uses]:
    """The uses of all values and of what operations keep.

    ``repeated`` has the steps that compute values again for others: from what they keep themselves, or else from their inputs.
    """
    uses: dict[Key, Uses] = {}
    for i, step in enumerate(steps):
        back = {i} if goes_back(step) else set()
        uses[i] = Uses(i, set(back))
        for value in step.outputs:
            uses[value] = Uses(i, set(back) if step.keeps_output else set())
        for value in {v.storage for v in step.inputs} & uses.keys():
            uses[value].last = i
            if step.keeps_inputs and (i, value) not in repeated:
                uses[value].back |= back
    for (i, _), number in repeated.items():
        if bytes_of(number):
            uses[number].back.add(i)
            continue
        for value in {v.storage for v in steps[number].inputs} & uses.keys():
            if number in uses[value].back:
                uses[value].back.add(i)
    return uses


def halved(
    uses: Mapping[Key, Uses], bytes_of: Callable[[Key], int], never: Collection[Key], end: int
) -> dict[Key, Waiting]:
    """The values that wait in bfloat16; the step with number i runs backward at ``end - i``."""
    waiting = {}
    for key, use in uses.items():
        if key in never or not use.back or (isinstance(key, Tensor) and key.dtype != FLOAT32):
            continue
        size = bytes_of(key)
        if size >= _FEWEST_BYTES and end - max(use.back) - use.last > 2:  # else it is read again at once
            back, again = _groups(use.back, end)
            half = Block(size * STORED.itemsize // 4, use.last + 0.5, end - min(back) - 0.5)
            waiting[key] = Waiting(half, use.last, back, again)
    return waiting


def _groups(steps: Collection[int], end: int) -> tuple[set[int], frozenset[float]]:
    """The steps before which a value becomes float32 again, and the times at which it is: it stays so for a step soon after."""
    first: set[int] = set()
    times: set[float] = set()
    before = math.inf
    for i in sorted(steps, reverse=True):
        begin = end - i - 0.5
        if before - i > _SOON:
            first.add(i)
        else:
            begin = end - before
        times.update(begin + n / 2 for n in range(int(2 * (end - i - begin)) + 1))
        before = i
    return first, frozenset(times)
