"""A training step as one list of calls: forward, losses, backward and the optimizer, native ones in one crossing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from .. import engines
from ..graph.calls import Call, CallList, NumpyCall, PlanCall, arrays
from ..graph.parameter import note_step
from ..graph.program import Program
from ..graph.tensor import Array
from .batches import Batch
from .optimizer_base import Optimizer
from .training_passes import Bound, Passes

_TOGETHER = 16  # steps in one call of native code, which signals wait for


class NotFinite(Exception):
    """The loss of a batch is not finite; no parameter has been changed."""

    def __init__(self, program: Program, loss: float) -> None:
        super().__init__(loss)
        self.program, self.loss = program, loss


class WholeStep:
    """Steps on batches of one size. With ``finite``, a loss that is not finite ends a step before the backward pass."""

    def __init__(self, passes: Passes, bound: Bound, optimizer: Optimizer, *, finite: bool) -> None:
        self._passes, self._bound, self._optimizer, self._finite = passes, bound, optimizer, finite
        self._times = np.zeros(4)  # before the forward pass, the backward pass and the optimizer, and after it
        self._of_optimizer: list[Call] | None = None
        self._readers: dict[int, Any] = {}  # readers of targets, by number of batches
        self._numbers = np.arange(len(bound.program.inputs[0]))
        self._loss: Any = bound.losses[0] if len(bound.losses) == 1 and not bound.joins else None
        if self._loss is not None and (passes.joint or passes.shares[0] != 1.0):
            self._loss = None

    def run(self, batch: Batch, seed: tuple[int, int] | None = None) -> float:
        """Make a step; gives the loss of the batch."""
        self.follow()
        return self.step(batch, seed)

    def follow(self) -> None:
        """Notice what has changed about the optimizer since the last step."""
        calls = self._optimizer.calls()
        if calls is not self._of_optimizer:
            self._bind(calls)

    def step(self, batch: Batch, seed: tuple[int, int] | None = None) -> float:
        """The same as ``run`` if nothing has changed about the optimizer."""
        passes, program, began = self._passes, self._bound.program, perf_counter()
        if seed is not None:
            program.seed(*seed)
        program.graph.read_arrays()
        plain = self._take_plain(batch)
        try:
            if plain and self._plain.is_one and program.reads_anywhere(batch.x):
                self._plain.run_on(program.inputs[0], batch.x[0])
            else:
                passes.fill(program, batch)
                self._batch = batch
                (self._plain if plain else self._others).run()
        finally:
            note_step()
        if plain:
            self._value = float(self._loss.value_array[0])
            passes.note(self._bound, batch, self._value)
        _, lost, gone_back, done = self._times.tolist()
        seconds = passes.seconds
        seconds["forward"] += lost - began
        seconds["backward"] += gone_back - lost
        seconds["step"] += done - gone_back
        return self._value

    def steps(self, x: Array, y: Array) -> list[float]:
        """The same for whole batches that lie one after the other, where possible without Python in between."""
        size = len(self._numbers)
        values: list[float] = []
        while (first := len(values) * size) < len(x):
            batch = Batch([x[first : first + size]], [y[first : first + size]], None, self._numbers)
            together = min(_TOGETHER, len(x) // size - len(values))
            last = first + together * size
            values += self._steps_together(batch, x[first:last], y[first:last], together) or [self.step(batch)]
        return values

    def _steps_together(self, batch: Batch, x: Array, y: Array, count: int) -> list[float]:
        """The losses of the first of these batches, if native code can make steps on all of them; ``batch`` is the first."""
        program = self._bound.program
        if (
            self._finite
            or not self._plain.is_one
            or not program.reads_anywhere(batch.x)
            or not self._may_be_plain(batch)
        ):
            return []
        if count not in self._readers:
            self._readers[count] = self._loss.for_batches(count)
        reader = self._readers[count]
        reader.take(y)
        if not reader.counts_alike or not reader.is_plain():
            return []
        values = np.empty(count, np.float32)
        streams = [(program.inputs[0], x), (self._loss.labels, reader.labels)]
        program.graph.read_arrays()
        try:
            made = self._plain.run_over(streams, self._loss.value_array, values)
        finally:
            note_step()
        losses: list[float] = values[:made].tolist()
        return losses

    def _may_be_plain(self, batch: Batch) -> bool:
        """True if the loss of this batch is one native call, unless its targets need more."""
        return (
            self._loss is not None
            and bool(self._plain.calls)
            and batch.weights is None
            and self._passes.class_weights is None
        )

    def _take_plain(self, batch: Batch) -> bool:
        """True if the loss of this batch is one native call on its targets, which are read here."""
        if not self._may_be_plain(batch):
            return False
        self._loss.take(batch.y[0])
        return bool(self._loss.is_plain())

    def _bind(self, of_optimizer: list[Call]) -> None:
        self._of_optimizer = of_optimizer
        plain = None if self._loss is None else self._loss.plain_call()
        self._others = self._listed([NumpyCall(self._evaluate)])
        self._plain = CallList([])
        if plain is not None:
            check = PlanCall(self._require_finite, self._loss.value_array)
            self._plain = self._listed([plain, check] if self._finite else [plain])

    def _listed(self, losses: Sequence[Call]) -> CallList:
        assert self._of_optimizer is not None
        program, times = self._bound.program, [_timing(self._times, i) for i in range(4)]
        back, then = program.calls_of_parameters, self._of_optimizer
        calls = [times[0], *program.calls_forward, *losses, times[1], *back, times[2], *then, times[3]]
        kept = [*program.lasting, self._times, *arrays(losses), *self._optimizer.accumulators]
        kept += [array for p in self._optimizer.parameters if p.used for array in (p.array, p.grad)]
        return CallList(kept, calls)

    def _evaluate(self) -> None:
        """The losses of any batch, in Python."""
        self._value = self._passes.evaluate(self._bound, self._batch, None)
        if self._finite and not math.isfinite(self._value):
            raise NotFinite(self._bound.program, self._value)

    def _require_finite(self, value: Array) -> None:
        if not _is_finite(value):
            raise NotFinite(self._bound.program, float(value[0]))


def _is_finite(value: Array) -> bool:
    core = engines._core
    return math.isfinite(value[0]) if core is None else bool(core.is_finite(value.ctypes.data))


def _timing(times: Array, index: int) -> Call:
    """Writes the time, which native code can keep."""
    if engines._core is not None:
        return PlanCall(engines._core.write_time, times.ctypes.data + 8 * index)

    def call() -> None:
        times[index] = perf_counter()

    return NumpyCall(call)
