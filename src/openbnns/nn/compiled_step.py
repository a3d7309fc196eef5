"""Training steps as one list of calls: forward, losses, backward and the optimizer, native ones in one crossing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from .. import engines
from .._plural import plural
from ..graph.calls import Call, CallList, NumpyCall, PlanCall, arrays
from ..graph.checks import whole_number
from ..graph.parameter import note_step
from ..graph.program import Program
from ..graph.tensor import Array
from . import turns
from .arguments import choose
from .batches import Batch
from .module import Module
from .nested_arrays import Key, called, keys_of, parts_of
from .objective import Bound, Objective, arrange, check_targets, listed, output_keys, read_losses, read_shares
from .optimizers import NAMED, Optimizer
from .recording import Shapes, recording_of

_TOGETHER = 16  # steps in one call of native code, which signals wait for


class NotFinite(Exception):
    """The loss of a batch is not finite; no parameter has been changed."""

    def __init__(self, program: Program, loss: float) -> None:
        super().__init__(loss)
        self.program, self.loss = program, loss


class WholeStep:
    """Steps on batches of one size. With ``finite``, a loss that is not finite ends a step before the backward pass."""

    def __init__(self, objective: Objective, bound: Bound, optimizer: Optimizer, *, finite: bool) -> None:
        self._objective, self._bound, self._optimizer, self._finite = objective, bound, optimizer, finite
        self._times = np.zeros(4)  # before the forward pass, the backward pass and the optimizer, and after it
        self._of_optimizer: list[Call] | None = None
        self._readers: dict[int, Any] = {}  # readers of targets, by number of batches
        self._numbers = np.arange(len(bound.program.inputs[0]))
        self._loss: Any = bound.losses[0] if len(bound.losses) == 1 and not bound.joins else None
        if self._loss is not None and (objective.joint or objective.shares[0] != 1.0):
            self._loss = None

    def run(self, batch: Batch, seed: tuple[int, int] | None = None) -> float:
        """Run a step and return the loss of the batch."""
        self.follow()
        return self.step(batch, seed)

    def follow(self) -> None:
        """Notice what has changed about the optimizer since the last step."""
        calls = self._optimizer.calls()
        if calls is not self._of_optimizer:
            self._bind(calls)

    def step(self, batch: Batch, seed: tuple[int, int] | None = None) -> float:
        """The same as ``run`` if nothing has changed about the optimizer."""
        objective, program, began = self._objective, self._bound.program, perf_counter()
        if seed is not None:
            program.seed(*seed)
        program.graph.read_arrays()
        plain = self._take_plain(batch)
        try:
            if plain and self._plain.is_one and program.reads_anywhere(batch.x):
                self._plain.run_on(program.inputs[0], batch.x[0])
            else:
                objective.fill(program, batch)
                self._batch = batch
                (self._plain if plain else self._others).run()
        finally:
            note_step()
        if plain:
            self._value = float(self._loss.value_array[0])
            objective.note(self._bound, batch, self._value)
        _, lost, gone_back, done = self._times.tolist()
        seconds = objective.seconds
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
            and self._objective.class_weights is None
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
        self._value = self._objective.evaluate(self._bound, self._batch, None)
        if self._finite and not math.isfinite(self._value):
            raise NotFinite(self._bound.program, self._value)

    def _require_finite(self, value: Array) -> None:
        if not _is_finite(value):
            raise NotFinite(self._bound.program, float(value[0]))


def _is_finite(value: Array) -> bool:
    core = engines._core
    return math.isfinite(value[0]) if core is None else bool(core.is_finite(value.ctypes.data))


def _timing(times: Array, index: int) -> Call:
    """A call that stores the current time; native code can repeat it."""
    if engines._core is not None:
        return PlanCall(engines._core.write_time, times.ctypes.data + 8 * index)

    def call() -> None:
        times[index] = perf_counter()

    return NumpyCall(call)


_WHO = "compile_step"


class CompiledStep:
    """A training step of a network: ``step(x, y)`` runs it on a batch and gives the loss. :meth:`Module.compile_step` makes one.

    It does what

    ::

        value, gradient = loss(network(x), y)
        network.backward(gradient)
        optimizer.step()

    does, with bit-identical results, but without Python in between.
    """

    def __init__(self, network: Module, loss: Any, optimizer: Optimizer, batch_size: int, loss_weights: Any) -> None:
        self.network, self.optimizer, self.batch_size = network, optimizer, batch_size
        keys, losses = read_losses(loss, _WHO)
        self._objective = Objective(network, losses, read_shares(loss_weights, keys, _WHO), keys)
        self._numbers = np.arange(batch_size)
        self._arranged: tuple[list[Key], list[Key], list[int], list[int]] | None = None
        self._last: Any = None  # shapes and types of the last batch, if it was of two arrays
        self._whole: WholeStep | None = None
        self._bound: Any = None
        self._shapes: Shapes = ()  # shapes of the inputs of the network

    def __repr__(self) -> str:
        losses = ", ".join(map(repr, self._objective.losses))
        return (
            f"CompiledStep({type(self.network).__name__}, {losses}, {self.optimizer!r}, batch_size={self.batch_size})"
        )

    def __call__(self, x: Any, y: Any = None, *, sample_weights: Any = None) -> float:
        """Train on a batch and return its loss from before the step.

        ``x`` and ``y`` are arrays, or tuples or dictionaries of arrays if there are several inputs or outputs.
        ``sample_weights`` are one number per sample.
        """
        ours = turns.take(self.network, _WHO)
        try:
            batch = self._read(x, y)
            whole = self._ready()
            self._check(batch.y, 1)
            if sample_weights is not None:
                batch = batch._replace(weights=self._weights(sample_weights))
            return whole.run(batch)
        finally:
            if ours:
                turns.end(self.network)

    def epoch(self, x: Array, y: Array) -> list[float]:
        """Train on samples and targets, an array each, batch by batch in order, and return the loss of every batch.

        The same as a call for each of them, but all are checked at once, and samples that are float32 in C order are read
        where they lie, by native code that makes several steps at a time. Samples left at the end, too few for a batch, are
        not trained on.
        """
        size, count = self.batch_size, len(x) // self.batch_size * self.batch_size
        if len(x) != len(y):
            raise ValueError(
                f"{_WHO}: x has {plural(len(x), 'sample')}, but y {plural(len(y), 'target')}. Pass one target per sample."
            )
        if not count:
            return []
        with turns.taken([self.network], _WHO):
            self._read(x[:size], y[:size])
            whole = self._ready()
            self._check([y[:count]], count // size)
            whole.follow()
            return whole.steps(x[:count], y[:count])

    def _ready(self) -> WholeStep:
        objective = self._objective
        bound = objective.bound(self._shapes, training=True)
        if bound is not self._bound or self._whole is None:
            self._bound, self._whole = bound, WholeStep(objective, bound, self.optimizer, finite=False)
        return self._whole

    def _check(self, targets: Sequence[Array], batches: int) -> None:
        """Refuse targets of so many batches that the losses cannot take."""
        if not self._objective.joint:
            for loss, output, given in zip(self._objective.losses, self._bound.program.outputs, targets, strict=True):
                shape = output.shape if batches == 1 else (batches * len(output), *output.shape[1:])
                loss.check(shape, given)

    def _read(self, x: Any, y: Any) -> Batch:
        plain = type(x) is np.ndarray and type(y) is np.ndarray
        kinds = (x.shape, x.dtype, y.shape, y.dtype) if plain else None
        if kinds is not None and kinds == self._last:  # the usual, which has been checked
            return Batch([x], [y], None, self._numbers)
        batch = self._read_parts(x, y)
        self._last = kinds
        return batch

    def _read_parts(self, x: Any, y: Any) -> Batch:
        keys = keys_of(x), keys_of(y)
        if self._arranged is None or self._arranged[:2] != keys:
            self._prepare(keys, self._samples(x))
        assert self._arranged is not None
        samples, targets = self._samples(x), _arrays("y", y)
        _, _, inputs, outputs = self._arranged
        arranged = self.network._inputs([samples[i] for i in inputs])  # which refuses what the network does not take
        self._shapes = tuple(array.shape for array in arranged)
        return Batch(arranged, [targets[i] for i in outputs], None, self._numbers)

    def _samples(self, x: Any) -> list[Array]:
        arrays = _arrays("x", x)
        for key, array in zip(keys_of(x), arrays, strict=True):
            if len(array) != self.batch_size:
                raise ValueError(
                    f"{_WHO}: {called('x', key)} has shape {array.shape}, but the step is for batches of {self.batch_size} "
                    "samples. Leave a smaller last batch out, or make another step for it."
                )
        return arrays

    def _weights(self, given: Any) -> Array:
        if self._objective.joint:
            raise ValueError(
                f"{_WHO}: sample_weights cannot be put into a loss function. Pass them as a part of y, and use them in it."
            )
        shapes = [loss.shape for loss in self._bound.losses]
        return self._objective.losses[0].check_sample_weights(given, shapes[0])

    def _prepare(self, keys: tuple[list[Key], list[Key]], samples: Sequence[Array]) -> None:
        """Build the network for such samples, and reorder losses and targets like its outputs."""
        network, (x_keys, y_keys) = self.network, keys
        inputs = arrange(network, x_keys, _WHO)
        self._shapes = tuple(samples[i].shape for i in inputs)
        recording_of(network, True, self._shapes)
        objective = self._objective
        if objective.joint:
            objective.expect_targets(y_keys)
            outputs = list(range(len(y_keys)))
        else:
            given = output_keys(network)
            if not objective.is_for(given):
                raise ValueError(
                    f"{_WHO}: the network gives {listed(given)}, but the losses are of {listed(objective.keys)}. Pass one for "
                    "each."
                )
            objective = objective.ordered(given)
            outputs = check_targets(y_keys, given, _WHO)
        self.optimizer.attach_network(network.parameters())
        self._objective, self._arranged, self._bound = objective, (x_keys, y_keys, inputs, outputs), None


def compile_step(
    network: Module, loss: Any, optimizer: Any, batch_size: Any, loss_weights: Any, precision: str | None
) -> CompiledStep:
    """See ``Module.compile_step``."""
    size = whole_number(batch_size, f"{_WHO}: batch_size", 1)
    network._require_samples(size, _WHO)
    chosen: Optimizer = choose(optimizer, NAMED, Optimizer, f"{_WHO}: optimizer")
    network._compute_with(_WHO, None, precision)
    return CompiledStep(network, loss, chosen, size, loss_weights)


def _arrays(name: str, value: Any) -> list[Array]:
    arrays = [np.asarray(part) for part in parts_of(value)]
    for key, array in zip(keys_of(value), arrays, strict=True):
        if array.ndim < 1:
            raise ValueError(
                f"{_WHO}: {called(name, key)} is a single number. Pass an array with one entry per sample."
            )
        if array.dtype.kind not in "fiub":
            raise TypeError(f"{_WHO}: {called(name, key)} is {array.dtype}. Pass numbers.")
    return arrays
