"""Backward steps that run for a portion of the samples at a time.

In bfloat16, a value that waits for the backward pass becomes float32 again before the steps that read it, and the gradients
between these steps are float32. Where steps that follow each other treat every sample by itself, they all run for a portion of
the samples, then for the next one: what only they read needs float32 memory for one portion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from .calls import Call, listed
from .gradients import BackwardStep
from .memory import Block
from .operation import Operation
from .tensor import Array, Tensor

_MOST = 16  # portions,
_LEAST_BYTES = 1 << 18  # of the largest value: less takes longer
_LEAST_OF_WEIGHTS = 0.4  # of their bytes, too: every portion adds to their gradients
_ALIKE = 2  # times: values of steps that take the same portions differ by less


@dataclass
class Stretch:
    """Steps of the backward pass, in its order, which run from time ``begin`` to ``end`` in ``parts`` portions.

    ``samples`` divide the first axis of all their values, the largest of which has ``size`` bytes. ``gradients`` are storages
    whose gradient nothing else uses.
    """

    steps: list[BackwardStep]
    begin: int
    end: int
    samples: int
    size: int
    gradients: set[Tensor]
    parts: int = 1
    blocks: dict[Tensor, Block] = field(default_factory=dict)  # portions of values that wait, as float32
    forward: set[Tensor] = field(default_factory=set)  # values of which the forward pass has no more than portions, too

    @property
    def indices(self) -> set[int]:
        return {step.index for step in self.steps}

    @property
    def first(self) -> int:
        """The first step of the forward pass."""
        return self.steps[-1].index

    @property
    def last(self) -> int:
        return self.steps[0].index

    def divide(self) -> bool:
        """Take more portions; False if there cannot be more."""
        weights = max(sum(p.array.nbytes for p in step.operation.parameters) for step in self.steps)
        least = max(_LEAST_BYTES, _LEAST_OF_WEIGHTS * weights)
        most = min(self.samples, _MOST, int(self.size / least))
        more = (n for n in range(self.parts + 1, most + 1) if self.samples % n == 0)
        parts = next(more, None)
        self.parts = parts or self.parts
        return parts is not None


def cut(array: Array, number: int, parts: int) -> Array:
    """One of so many portions of the samples that the first axis counts."""
    if parts == 1:
        return array
    size = len(array) // parts
    return array[number * size : (number + 1) * size]


def backward_calls(
    operation: Operation,
    x: list[Array],
    y: list[Array],
    dy: list[Array | None],
    places: list[Array | None],
    *,
    adds: bool,
) -> list[Call]:
    """The calls that write the gradients of inputs and parameters to their places; with ``adds`` add those of parameters."""
    count = len(operation.inputs)
    inputs, parameters = places[:count], places[count:]
    if not adds or all(place is None for place in parameters):
        return listed(operation.backward_all(x, y, dy, inputs, parameters))
    calls: list[Call] = []
    if any(place is not None for place in inputs):
        calls += listed(operation.backward_all(x, y, dy, inputs, [None] * len(parameters)))
    operation.adds = True
    calls += listed(operation.backward_all(x, y, dy, [None] * count, parameters))
    operation.adds = False
    return calls


def find_stretches(
    steps: Sequence[BackwardStep],
    last: int,
    can_divide: Callable[[BackwardStep], bool],
    array_of: Callable[[Tensor], tuple[tuple[int, ...], int]],
    outside: Collection[Tensor],
) -> list[Stretch]:
    """The steps that can run in portions, those that follow each other together if their values have alike sizes.

    Step i runs at the time ``last - i``; ``array_of`` gives the shape and the bytes of a value.
    """
    users: dict[Tensor, set[int]] = {}
    for step in steps:
        for target in step.targets:
            if target.wanted and isinstance(target.owner, Tensor):
                users.setdefault(target.owner, set()).add(-1 if target.shared else step.index)

    def bytes_of(step: BackwardStep) -> int:
        return max(array_of(value)[1] for value in (*step.operation.inputs, *step.operation.outputs))

    stretches = []
    for members in _runs(steps, lambda step: bytes_of(step) if can_divide(step) else 0):
        operations = [step.operation for step in members]
        axes = [array_of(value)[0][0] for each in operations for value in (*each.inputs, *each.outputs)]
        times = last - members[0].index, last - members[-1].index
        stretch = Stretch(members, *times, math.gcd(*axes), max(map(bytes_of, members)), set())
        produced = {value for each in operations for value in each.outputs} - set(outside)
        stretch.gradients = {value for value in produced if users.get(value, {-1}) <= stretch.indices}
        stretches.append(stretch)
    return stretches


def _runs(steps: Sequence[BackwardStep], size_of: Callable[[BackwardStep], int]) -> list[list[BackwardStep]]:
    """Steps that follow each other and have alike sizes; none with size 0."""
    runs: list[list[BackwardStep]] = []
    before = 0
    for step in steps:
        size = size_of(step)
        if size and before and max(size, before) < _ALIKE * min(size, before):
            runs[-1].append(step)
        elif size:
            runs.append([step])
        before = size
    return runs


def most_in_use(blocks: Sequence[Block], last: int) -> tuple[int, float]:
    """The most bytes that are in use at any time, and that time."""
    used = np.zeros(2 * last + 3, np.int64)  # by halves
    for block in blocks:
        used[int(2 * block.start)] += block.size
        used[int(2 * block.end) + 1] -= block.size
    used = np.cumsum(used)
    for block in blocks:
        for time in block.again:
            used[int(2 * time)] += block.size
    return int(used.max()), int(used.argmax()) / 2
