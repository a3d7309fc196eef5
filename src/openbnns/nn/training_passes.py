"""Forward and backward passes of a network and its losses on one batch."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from time import perf_counter
from typing import Any

import numpy as np

from ..graph.parameter import Parameter
from ..graph.program import Program
from ..graph.structure import Structure
from ..graph.tensor import Array
from ._outputs import output_keys
from ._sample_weights import ClassWeights
from .batches import Batch
from .losses import FunctionLoss, Loss
from .module import Module
from .names import step_names
from .nested_arrays import Key, called, label
from .recording import Recording, Shapes, recording_of

PHASES = ("data", "forward", "backward", "step", "validation")


def used_parameters(network: Module) -> dict[str, Parameter]:
    """The parameters that ``forward`` uses; those of layers that it never calls are left out."""
    return {name: p for name, p in network.named_parameters() if p.used}


class Bound:
    """A program, its losses, and where each writes the gradient of its output.

    Outputs may be the same elements in several shapes. Then all but the first write to memory of their own (``joins``).
    """

    def __init__(self, program: Program, losses: Sequence[Loss], structure: Structure | None) -> None:
        """``structure`` is that of the outputs if one loss is of all of them together."""
        self.program = program
        self.gradients: list[Array | None] = []
        self.joins: list[tuple[Array, Array]] = []
        begun = set()
        for i, value in enumerate(program.graph.outputs):
            gradient = program.output_gradients[i] if program.training else None
            if gradient is not None and value.storage in begun:
                self.joins.append((gradient, np.empty_like(gradient)))
                gradient = self.joins[-1][1]
            begun.add(value.storage)
            self.gradients.append(gradient)
        self.losses: list[Any] = []
        if structure is not None:
            (loss,) = losses
            assert isinstance(loss, FunctionLoss)
            samples = len(program.inputs[0])
            self.losses = [loss.bind_all(program.outputs, self.gradients, structure, samples)]
        else:
            self.losses = [
                loss.bind(output, gradient)
                for loss, output, gradient in zip(losses, program.outputs, self.gradients, strict=True)
            ]


class Passes:
    """A network with one loss for each of its outputs, or one function of all of them and of any targets (``joint``).

    The loss of a batch is the sum of the losses times their ``shares``. ``losses`` holds those of the last batch, ``seconds`` the
    time by phase. ``output_keys`` and ``target_keys`` are the keys of outputs and targets, in their order.
    """

    def __init__(self, network: Module, losses: Sequence[Loss], shares: Sequence[float], keys: Sequence[Key]) -> None:
        self.network, self.loss, self.shares, self.keys = network, list(losses), list(shares), list(keys)
        self.joint = self.keys == [None] and isinstance(self.loss[0], FunctionLoss)
        self.target_keys: list[Key] = list(keys)
        # The shapes of targets, by those of the samples, for a function that takes any targets.
        self._target_shapes: dict[Shapes, list[tuple[int, ...]]] = {}
        self.class_weights: ClassWeights | None = None
        self.losses = [0.0] * len(self.loss)
        self.weights = [0.0] * len(self.loss)  # the divisors of the means over the last batch; for sums, its samples
        self.outputs: list[Array] = []
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._bound: dict[int, Bound] = {}
        self._lent: dict[Shapes, tuple[Recording, Bound]] | None = None  # for inference

    @property
    def output_keys(self) -> list[Key]:
        return output_keys(self.network) if self.joint else self.keys

    def expect_targets(self, keys: list[Key]) -> None:
        """Take targets with these keys from now on."""
        if keys != self.target_keys:
            self.target_keys = list(keys)
            self._target_shapes.clear()
            self._bound.clear()

    def forget(self) -> None:
        """Let go of programs that are not used any more."""
        self._bound.clear()

    def bound(self, shapes: Shapes, *, training: bool) -> Bound:
        """The network with memory for samples of these shapes, and its losses on that memory."""
        if not training:
            return self._lent_bound(shapes)
        program = self.network.program(shapes, training=True)
        found = self._bound.get(id(program))
        if found is None or found.program is not program:
            kept = [program for known in self.network._recordings for program in known.programs.values()]
            self._bound = {key: bound for key, bound in self._bound.items() if bound.program in kept}
            found = self._bound[id(program)] = self.bind(program, recording_of(self.network, True, shapes).structure)
        return found

    @contextmanager
    def evaluating(self) -> Iterator[Passes]:
        """The same for passes in inference mode, which other threads do not disturb while the block lasts."""
        own = copy(self)
        own.losses, own.weights, own._lent = list(self.losses), list(self.weights), {}
        yield own
        for recording, bound in own._lent.values():
            recording.give_back(bound.program)

    def _lent_bound(self, shapes: Shapes) -> Bound:
        assert self._lent is not None, "passes in inference mode are for a block of evaluating()"
        recording = recording_of(self.network, False, shapes)
        known, bound = self._lent.get(shapes, (None, None))
        if bound is None or known is not recording:
            bound = self.bind(recording.lend(shapes), recording.structure)
            self._lent[shapes] = recording, bound
        return bound

    def all_bound(self) -> Collection[Bound]:
        """The cached bindings."""
        return self._bound.values()

    def bind(self, program: Program, structure: Structure) -> Bound:
        """The losses on the outputs of a program, which the network gives in this structure."""
        return Bound(program, self.loss, structure if self.joint else None)

    def weigh(self, batch: Batch, *, training: bool) -> list[float]:
        """The divisor of the mean of each loss over this batch."""
        return self.weigh_bound(self.bound(batch.shapes, training=training), batch)

    def weigh_bound(self, bound: Bound, batch: Batch) -> list[float]:
        if self.joint:  # a function has a mean over samples, whatever its targets
            return [float(batch.size)]
        return [loss.weigh(batch.y[i], self._weights_of(batch, i)) for i, loss in enumerate(bound.losses)]

    def _weights_of(self, batch: Batch, output: int) -> Array | None:
        """The weights of the samples, or of their positions, in the loss of an output."""
        return batch.weights if self.class_weights is None else self.class_weights.combined(batch, output)

    def forward(
        self,
        batch: Batch,
        *,
        training: bool,
        seed: tuple[int, int] | None = None,
        totals: Sequence[float] | None = None,
    ) -> tuple[Program, float]:
        """Compute outputs and losses; in training also the gradients of the outputs. Gives the loss of the batch.

        With ``totals``, one for each output, the batch is part of a larger one whose means divide by these.
        """
        began = perf_counter()
        bound = self.bound(batch.shapes, training=training)
        program = bound.program
        if seed is not None:
            program.seed(*seed)
        self.fill(program, batch)
        program.forward()
        total = self.evaluate(bound, batch, totals)
        self.seconds["forward"] += perf_counter() - began
        return program, total

    def fill(self, program: Program, batch: Batch) -> None:
        """Put samples into the inputs of a program."""
        for i, samples in enumerate(batch.x):
            program.fill(i, samples)

    def evaluate(self, bound: Bound, batch: Batch, totals: Sequence[float] | None) -> float:
        """Compute the losses of the outputs that a program has, and their gradients; gives the loss of the batch."""
        self.outputs = bound.program.outputs
        total = 0.0
        for i, loss in enumerate(bound.losses):
            if self.joint:
                self._require_alike(batch)
                loss.take_all(batch.y, self.target_keys)
            else:
                loss.take(batch.y[i])
            self.losses[i] = value = loss.run(self._weights_of(batch, i), None if totals is None else totals[i])
            share = self.shares[i]
            if share != 1.0 and (gradient := bound.gradients[i]) is not None:
                gradient *= np.float32(share)
            self.weights[i] = batch.size if self.loss[i].is_sum else loss.total_weight
            total += share * value
        for gradient, part in bound.joins:
            gradient += part
        return total

    def _require_alike(self, batch: Batch) -> None:
        """Refuse targets of another shape than before for such samples, which the function might broadcast."""
        known = self._target_shapes.setdefault(
            tuple(array.shape[1:] for array in batch.x), [array.shape[1:] for array in batch.y]
        )
        for array, key, wanted in zip(batch.y, self.target_keys, known, strict=True):
            if array.shape[1:] != wanted:
                before = (len(array), *wanted)
                raise ValueError(
                    f"{self.loss[0]!r}: {called('targets', key)} has shape {array.shape}, but had {before} before. Samples "
                    "of one shape need targets of one shape."
                )

    def note(self, bound: Bound, batch: Batch, value: float) -> None:
        """Keep the loss of the only output of a program, which was computed elsewhere."""
        self.outputs, self.losses[0] = bound.program.outputs, value
        self.weights[0] = batch.size if self.loss[0].is_sum else bound.losses[0].total_weight

    def backward(self, program: Program) -> None:
        """Compute the gradients of the parameters."""
        began = perf_counter()
        program.backward(input_gradients=False)
        self.seconds["backward"] += perf_counter() - began


class LossSums:
    """The losses of an epoch: the mean over its samples, or over their weights, however they are cut into batches.

    A loss that is a sum over the samples of a batch is divided by their number.
    """

    def __init__(self, passes: Passes) -> None:
        self._shares, self._are_sums = passes.shares, [loss.is_sum for loss in passes.loss]
        self._names = [] if passes.keys == [None] else [f"loss_{label(key)}" for key in passes.keys]
        self.sums, self.weights = [0.0] * len(passes.shares), [0.0] * len(passes.shares)

    def add(self, passes: Passes) -> None:
        for i, weight in enumerate(passes.weights):
            self.sums[i] += passes.losses[i] * (1.0 if self._are_sums[i] else weight)
            self.weights[i] += weight

    def values(self) -> dict[str, float]:
        """The loss, and if there are several those of the outputs."""
        means = [total / weight if weight else math.nan for total, weight in zip(self.sums, self.weights, strict=True)]
        whole = sum(share * mean for share, mean in zip(self._shares, means, strict=True))
        return {"loss": whole, **dict(zip(self._names, means, strict=False))}


class Accumulation:
    """Gradients of several batches, averaged by their samples, as if they were one batch."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self._parameters = parameters
        self._sums: list[Array] = []
        self._weight = 0.0

    def add(self, weight: float) -> None:
        """Add the gradients that were just computed, which count so much."""
        trained = [p for p in self._parameters if p.used and p.requires_grad]
        if not self._weight:
            self._sums = [p.grad * np.float32(weight) for p in trained]
        else:
            for total, parameter in zip(self._sums, trained, strict=True):
                total += parameter.grad * np.float32(weight)
        self._weight += weight

    def finish(self, *, mean: bool) -> None:
        """Put the result where the optimizer looks for it, and begin anew."""
        trained = [p for p in self._parameters if p.used and p.requires_grad]
        factor = np.float32(1 / self._weight if mean and self._weight else 1.0)
        for total, parameter in zip(self._sums, trained, strict=True):
            np.multiply(total, factor, out=parameter.grad)
        self._weight = 0.0


def first_not_finite(network: Module, program: Program) -> str:
    """A sentence about the first parameter or layer whose values are not finite."""
    for name, parameter in used_parameters(network).items():
        if not np.isfinite(parameter.data).all():
            return f" The parameter {name} is no longer finite."
    operation = program.first_not_finite()
    if operation is None:
        return ""
    number = next(i for i, one in enumerate(program.graph.operations) if one is operation)
    path, kind = step_names(network, program.graph.operations)[number]
    return f" The first layer whose output is not finite is {path} ({kind})."
