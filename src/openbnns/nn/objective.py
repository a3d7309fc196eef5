"""The objective of training: a network with a loss for each of its outputs, or one function of all of them.

What users pass as losses, weights of classes and targets is read and matched with the outputs of the network here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from time import perf_counter
from typing import Any

import numpy as np

from ..graph.program import Program
from ..graph.structure import Structure
from ..graph.tensor import Array
from . import losses
from .arguments import choose
from .batches import ArraySource, Batch, Source
from .losses import FunctionLoss, Loss
from .module import Module
from .nested_arrays import Key, Step, as_key, called, joined
from .recording import Recording, Shapes, recording_of


def read_losses(given: Any, who: str = "Trainer") -> tuple[list[Key], list[Loss]]:
    """The losses of the outputs and their keys."""
    by_key = dict(_entries(given, ()))
    if not by_key:
        raise ValueError(f"{who}: loss is empty. Pass one loss for each output of the network.")
    made: list[Loss] = [
        losses.FunctionLoss(value)
        if callable(value) and not isinstance(value, (Loss, type))
        else choose(value, losses.NAMED, Loss, f"{who}: loss")
        for value in by_key.values()
    ]
    for loss in made:
        if loss.of_several:
            arguments = "outputs, targets" if "targets" in loss.of_several else "outputs"
            raise ValueError(
                f"{who}: {loss!r} is of several outputs at once. Pass a function of them: "
                f"lambda {arguments}: nn.functional.{loss.of_several}"
            )
        if getattr(loss, "reduction", "mean") == "none":
            raise ValueError(
                f"{who}: {loss!r} does not give a single number to train on. Use reduction='mean' or 'sum'."
            )
    return list(by_key), made


def read_shares(given: Any, keys: list[Key], who: str = "Trainer") -> list[float]:
    """The factors of the losses of the outputs."""
    if given is None:
        return [1.0] * len(keys)
    by_key = dict(_entries(given.tolist() if hasattr(given, "tolist") else given, ()))
    if set(by_key) != set(keys) or keys == [None]:
        raise ValueError(
            f"{who}: loss_weights are {given!r}, but the losses are of {listed(keys)}. Pass one number for each."
        )
    shares = [float(by_key[key]) for key in keys]
    if not all(0 <= share < np.inf for share in shares):
        raise ValueError(f"{who}: loss_weights are {given!r}. They must be finite and at least 0.")
    return shares


def _entries(given: Any, path: tuple[Step, ...]) -> Iterator[tuple[Key, Any]]:
    """The members of nested tuples, lists and dictionaries, with their keys."""
    if not isinstance(given, (Mapping, tuple, list)):
        yield as_key(path), given
        return
    for step, member in given.items() if isinstance(given, Mapping) else enumerate(given):
        yield from _entries(member, (*path, step))


def listed(keys: Sequence[Key]) -> str:
    """Outputs in words."""
    return "one output" if list(keys) == [None] else f"outputs {', '.join(map(repr, keys))}"


def arrange(network: Module, keys: list[Key], who: str) -> list[int]:
    """The positions of the parts of samples, in the order in which ``forward`` takes them."""
    nested = any(isinstance(key, tuple) for key in keys)
    if nested and not network._takes_structures():
        raise ValueError(f"{who}: x has nested structures. Pass an array, or one tuple or dictionary of arrays.")
    if not nested and not isinstance(keys[0], str):
        return list(range(len(keys)))
    samples = joined(keys, [np.array([i]) for i in range(len(keys))])
    try:
        named = isinstance(samples, Mapping)
        order = network._in_order(() if named else samples, samples if named else {})
        return [int(position) for (position,) in order]
    except TypeError as error:
        raise TypeError(f"{who}: x has parts {', '.join(map(repr, keys))}, which do not fit. {error}") from None


def output_keys(network: Module) -> list[Key]:
    """The keys of the outputs of the network in training."""
    return [as_key(path) for path in _paths(recording_of(network, True).structure, ())]


def _paths(structure: Structure, path: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    if structure.kind is None:
        yield path
    for step, part in zip(structure.names or range(len(structure.parts)), structure.parts, strict=True):
        yield from _paths(part, (*path, step))


def check_targets(targets: list[Key], wanted: list[Key], who: str, why: str = "the network gives") -> list[int]:
    """The positions of the parts of targets, in the order of the outputs they are for."""
    if len(targets) != len(wanted) or set(map(str, targets)) != set(map(str, wanted)):
        cure = "Pass one target for each output." if why == "the network gives" else "Pass the same."
        raise ValueError(f"{who}: y is {_described(targets)}, but {why} {_described(wanted)}. {cure}")
    return [targets.index(key) for key in wanted]


def _described(keys: list[Key]) -> str:
    if keys == [None] or not keys:
        return "one array" if keys else "left out"
    if any(isinstance(key, tuple) for key in keys):
        return f"a structure with {', '.join(map(repr, keys))}"
    if isinstance(keys[0], str):
        return f"a dictionary with {', '.join(map(repr, keys))}"
    return f"a tuple of {len(keys)}"


class ClassWeights:
    """A weight for every class of the one output that has classes.

    ``given`` is one number per class, a dictionary from class numbers to weights (those left out are 1), or "balanced": every
    class then counts as much as any other, however many samples it has.
    """

    def __init__(self, given: Any, losses: Sequence[Loss], shapes: Sequence[tuple[int, ...]], source: Source) -> None:
        who = "Trainer.fit: class_weights"
        having = [i for i, loss in enumerate(losses) if loss.classes]
        if len(having) != 1:
            why = "no loss of this trainer has classes" if not having else "several outputs have classes"
            raise ValueError(f"{who}: {why}. Leave class_weights out, or use sample_weights.")
        (self.output,) = having
        loss, shape = losses[self.output], shapes[self.output]
        if getattr(loss, "weight", None) is not None:
            raise ValueError(f"{who}: {loss!r} has class weights already. Give them in one place.")
        axis = loss.class_axis(len(shape))
        assert axis is not None
        self._axis, self._rank = axis, len(shape)
        self._ignored = getattr(loss, "ignore_index", None)
        classes = shape[axis]
        self.table = self._table(given, classes, who, source)

    def _table(self, given: Any, classes: int, who: str, source: Source) -> Array:
        if isinstance(given, str):
            if given != "balanced":
                raise ValueError(f"{who} is {given!r}. Use 'balanced', numbers, or a dictionary of them.")
            return self._balanced(classes, who, source)
        if isinstance(given, Mapping):
            table = np.ones(classes, np.float32)
            for number, weight in given.items():
                if isinstance(number, bool) or not hasattr(number, "__index__") or not 0 <= int(number) < classes:
                    raise ValueError(f"{who} has class {number!r}, but the network has classes 0 to {classes - 1}.")
                table[int(number)] = weight
        else:
            table = np.asarray(given)
            if table.dtype.kind not in "fiub" or table.shape != (classes,):
                raise ValueError(
                    f"{who} has shape {table.shape}, but the network has {classes} classes. Pass one number per class, or a "
                    "dictionary from class numbers to weights."
                )
            table = table.astype(np.float32)
        if not np.isfinite(table).all() or table.min() < 0:
            raise ValueError(f"{who} has the weight {table.min():g}. Weights must be finite and at least 0.")
        return table

    def _balanced(self, classes: int, who: str, source: Source) -> Array:
        if not isinstance(source, ArraySource):
            raise ValueError(
                f"{who}='balanced' counts the samples of all classes, which takes arrays. Pass numbers for an iterable of "
                "batches."
            )
        targets = source.y[self.output]
        targets = np.asarray(targets) if source.rows is None else targets[source.rows]
        if targets.ndim == self._rank:
            counts = np.moveaxis(targets, self._axis, -1).reshape(-1, classes).sum(0, dtype=np.float64)
        else:
            numbers = np.asarray(targets).reshape(-1)
            if self._ignored is not None:
                numbers = numbers[numbers != self._ignored]
            counts = np.bincount(numbers, minlength=classes).astype(np.float64)
        present = counts > 0
        table = np.zeros(classes)
        table[present] = counts.sum() / (np.count_nonzero(present) * counts[present])
        return table.astype(np.float32)

    def combined(self, batch: Batch, output: int) -> Array | None:
        """The weights of the samples of a batch, or of their positions, in the loss of an output."""
        if output != self.output:
            return batch.weights
        targets = batch.y[output]
        if targets.ndim == self._rank:  # probabilities of the classes
            weights = np.moveaxis(targets, self._axis, -1).astype(np.float32) @ self.table
        elif self._ignored is None:
            weights = self.table[targets]
        else:
            weights = self.table[np.where(targets == self._ignored, 0, targets)]
        if batch.weights is not None:
            weights = weights * batch.weights.reshape(-1, *[1] * (weights.ndim - 1))
        product: Array = weights
        return product


PHASES = ("data", "forward", "backward", "step", "validation")


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


class Objective:
    """A network with one loss for each of its outputs, or one function of all of them and of any targets (``joint``).

    The loss of a batch is the sum of the losses times their ``shares``. ``losses`` holds those of the last batch, ``seconds`` the
    time by phase. ``output_keys`` and ``target_keys`` are the keys of outputs and targets, in their order.
    """

    def __init__(self, network: Module, losses: Sequence[Loss], shares: Sequence[float], keys: Sequence[Key]) -> None:
        self.network, self.losses, self.shares, self.keys = network, list(losses), list(shares), list(keys)
        self.joint = self.keys == [None] and isinstance(self.losses[0], FunctionLoss)
        self.target_keys: list[Key] = list(keys)
        # The shapes of targets, by those of the samples, for a function that takes any targets.
        self._target_shapes: dict[Shapes, list[tuple[int, ...]]] = {}
        self.class_weights: ClassWeights | None = None
        self.values = [0.0] * len(self.losses)
        self.divisors = [0.0] * len(self.losses)  # the divisors of the means over the last batch; for sums, its samples
        self.outputs: list[Array] = []
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._bound: dict[int, Bound] = {}
        self._lent: dict[Shapes, tuple[Recording, Bound]] | None = None  # for inference

    @property
    def needs_targets(self) -> bool:
        """False for a function of the outputs alone."""
        return not self.joint or bool(getattr(self.losses[0], "needs_targets", True))

    def is_for(self, keys: Sequence[Key]) -> bool:
        """True if there is one loss for each of these outputs, in whatever order."""
        return len(keys) == len(self.keys) and set(map(str, keys)) == set(map(str, self.keys))

    def ordered(self, keys: Sequence[Key]) -> Objective:
        """The same with the losses in the order of these outputs."""
        order = [self.keys.index(key) for key in keys]
        return Objective(self.network, [self.losses[i] for i in order], [self.shares[i] for i in order], keys)

    @property
    def output_keys(self) -> list[Key]:
        return output_keys(self.network) if self.joint else self.keys

    def expect_targets(self, keys: list[Key]) -> None:
        """Expect targets with these keys from now on."""
        if keys != self.target_keys:
            self.target_keys = list(keys)
            self._target_shapes.clear()
            self._bound.clear()

    def forget(self) -> None:
        """Drop programs that are no longer used."""
        self._bound.clear()

    def bound(self, shapes: Shapes, *, training: bool) -> Bound:
        """The network with memory for samples of these shapes, and its losses on that memory."""
        if not training:
            return self._lent_bound(shapes)
        program = self.network.program(shapes, training=True)
        loss = self._bound.get(id(program))
        if loss is None or loss.program is not program:
            kept = [program for known in self.network._recordings for program in known.programs.values()]
            self._bound = {key: bound for key, bound in self._bound.items() if bound.program in kept}
            loss = self._bound[id(program)] = self.bind(program, recording_of(self.network, True, shapes).structure)
        return loss

    @contextmanager
    def evaluating(self) -> Iterator[Objective]:
        """The same for passes in inference mode, which other threads do not disturb while the block lasts."""
        own = copy(self)
        own.values, own.divisors, own._lent = list(self.values), list(self.divisors), {}
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
        return Bound(program, self.losses, structure if self.joint else None)

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
            self.values[i] = value = loss.run(self._weights_of(batch, i), None if totals is None else totals[i])
            share = self.shares[i]
            if share != 1.0 and (gradient := bound.gradients[i]) is not None:
                gradient *= np.float32(share)
            self.divisors[i] = batch.size if self.losses[i].is_sum else loss.total_weight
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
                    f"{self.losses[0]!r}: {called('targets', key)} has shape {array.shape}, but had {before} before. Samples "
                    "of one shape need targets of one shape."
                )

    def note(self, bound: Bound, batch: Batch, value: float) -> None:
        """Store the loss of a program's only output that was computed elsewhere."""
        self.outputs, self.values[0] = bound.program.outputs, value
        self.divisors[0] = batch.size if self.losses[0].is_sum else bound.losses[0].total_weight

    def backward(self, program: Program) -> None:
        """Compute the gradients of the parameters."""
        began = perf_counter()
        program.backward(input_gradients=False)
        self.seconds["backward"] += perf_counter() - began
