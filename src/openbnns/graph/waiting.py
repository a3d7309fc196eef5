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
GOAL = 0.55  # of the memory that the program takes in float32: for more, steps run in portions where it is most
WORTH = 0.95  # of the memory of the program: a larger share is not worth the calls that convert
_SOON = 2  # steps
_FEWEST_BYTES = 1 << 14  # of float32: a value that has less is not worth the calls

Key = Tensor | int
"""A storage, or the number of an operation for what it keeps itself."""


@dataclass
class Uses:
    """The steps that use a value: the last one of the forward pass, and those that read it in the backward pass.

    Steps of ``portions`` read a portion of the samples at a time.
    """

    last: int
    back: set[int] = field(default_factory=set)
    portions: set[int] = field(default_factory=set)


@dataclass
class Waiting:
    """A value that is written to ``half`` after step ``last``, and read back from there before the backward steps ``back``.

    From then on it is in use at the times ``again``. Steps that run in portions may read it in portions.
    """

    half: Block
    last: int
    back: set[int]
    again: frozenset[float]
    in_portions: bool = False


def find_uses(
    steps: Sequence[Operation],
    goes_back: Callable[[Operation], bool],
    repeated: Mapping[tuple[int, Tensor], int],
    bytes_of: Callable[[Key], int],
    together: Mapping[int, Collection[int]],
) -> dict[Key, Uses]:
    """The uses of all values and of what operations keep.

    ``repeated`` has the steps that compute values again for others: from what they keep themselves, or else from their inputs.
    ``together`` has the steps that run in portions, with all that take the same ones: these have what is computed again for them,
    unless it is computed in portions as well.
    """
    uses: dict[Key, Uses] = {}
    for i, step in enumerate(steps):
        back = {i} if goes_back(step) else set()
        whole, portion = (set(), back) if i in together else (back, set())
        uses[i] = Uses(i, set(back))
        for value in step.outputs:
            uses[value] = Uses(i, set(whole), set(portion)) if step.keeps_output else Uses(i)
        for value in {v.storage for v in step.inputs} & uses.keys():
            uses[value].last = i
            if step.keeps_inputs and (i, value) not in repeated:
                uses[value].back |= whole
                uses[value].portions |= portion
    for (i, _), number in repeated.items():
        if bytes_of(number):
            uses[number].back.update(together.get(i, (i,)))
            continue
        for value in {v.storage for v in steps[number].inputs} & uses.keys():
            if number not in uses[value].back | uses[value].portions:
                continue
            if i in together and steps[number].by_samples:
                uses[value].portions.add(i)
            else:
                uses[value].back.update(together.get(i, (i,)))
    for use in uses.values():
        use.portions -= {i for step in use.portions & use.back for i in together[step]}  # it is there as a whole
    return uses


def halved(
    uses: Mapping[Key, Uses], bytes_of: Callable[[Key], int], never: Collection[Key], end: int
) -> dict[Key, Waiting]:
    """The values that wait in bfloat16; the step with number i runs backward at ``end - i``."""
    waiting = {}
    for key, use in uses.items():
        read = use.back | use.portions
        if key in never or not read or (isinstance(key, Tensor) and key.dtype != FLOAT32):
            continue
        size, soon = bytes_of(key), not use.portions and end - max(read) - use.last <= 2  # it is read again at once
        if size >= _FEWEST_BYTES and not soon:
            back, again = _groups(use.back, end)
            until = max([end - i - 0.5 for i in back] + [float(end - i) for i in use.portions])
            half = Block(size * STORED.itemsize // 4, use.last + 0.5, until)
            waiting[key] = Waiting(half, use.last, back, again, bool(use.portions))
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
