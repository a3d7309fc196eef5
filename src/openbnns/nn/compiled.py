"""Training steps of a fixed batch size, each of them one call of native code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._plural import plural
from ..graph.tensor import Array
from . import _turns
from ._outputs import arrange, check_targets, output_keys
from ._parts import Key, called, keys_of, parts_of
from ._whole_step import WholeStep
from .batches import Batch
from .loss_arguments import listed, read_losses, read_shares
from .module import Module
from .optimizer_base import Optimizer
from .recording import Shapes
from .training_passes import Passes

_WHO = "compile_step"


class CompiledStep:
    """A training step of a network: ``step(x, y)`` runs it on a batch and gives the loss. :meth:`Module.compile_step` makes one.

    It does what

    ::

        value, gradient = loss(network(x), y)
        network.backward(gradient)
        optimizer.step()

    does, with the same numbers to the last bit, but Python is in charge of nothing in between.
    """

    def __init__(self, network: Module, loss: Any, optimizer: Optimizer, batch_size: int, loss_weights: Any) -> None:
        self.network, self.optimizer, self.batch_size = network, optimizer, batch_size
        self._loss_keys, self._losses = read_losses(loss, _WHO)
        self._shares = read_shares(loss_weights, self._loss_keys, _WHO)
        self._numbers = np.arange(batch_size)
        self._passes: Passes | None = None
        self._arranged: tuple[list[Key], list[Key], list[int], list[int]] | None = None
        self._last: Any = None  # shapes and types of the last batch, if it was of two arrays
        self._whole: WholeStep | None = None
        self._bound: Any = None
        self._shapes: Shapes = ()  # shapes of the inputs of the network

    def __repr__(self) -> str:
        losses = ", ".join(map(repr, self._losses))
        return (
            f"CompiledStep({type(self.network).__name__}, {losses}, {self.optimizer!r}, batch_size={self.batch_size})"
        )

    def __call__(self, x: Any, y: Any = None, *, sample_weights: Any = None) -> float:
        """Train on a batch; gives its loss, as it was before the step.

        ``x`` and ``y`` are arrays, or tuples or dictionaries of arrays if there are several inputs or outputs.
        ``sample_weights`` are one number per sample.
        """
        ours = _turns.take(self.network, _WHO)
        try:
            batch = self._read(x, y)
            whole = self._ready()
            self._check(batch.y, 1)
            if sample_weights is not None:
                batch = batch._replace(weights=self._weights(sample_weights))
            return whole.run(batch)
        finally:
            if ours:
                _turns.end(self.network)

    def epoch(self, x: Array, y: Array) -> list[float]:
        """Train on samples and targets, an array each, batch by batch in their order; gives the loss of every batch.

        The same as a call for each of them, but all are checked at once, and samples that are float32 in C order are read
        where they lie, by native code that makes several steps at a time. What is left at the end, too little for a batch,
        is not trained on.
        """
        size, count = self.batch_size, len(x) // self.batch_size * self.batch_size
        if len(x) != len(y):
            raise ValueError(
                f"{_WHO}: x has {plural(len(x), 'sample')}, but y {plural(len(y), 'target')}. Pass one target per sample."
            )
        if not count:
            return []
        with _turns.taken([self.network], _WHO):
            self._read(x[:size], y[:size])
            whole = self._ready()
            self._check([y[:count]], count // size)
            whole.follow()
            return whole.steps(x[:count], y[:count])

    def _ready(self) -> WholeStep:
        passes = self._passes
        assert passes is not None
        bound = passes.bound(self._shapes, training=True)
        if bound is not self._bound or self._whole is None:
            self._bound, self._whole = bound, WholeStep(passes, bound, self.optimizer, finite=False)
        return self._whole

    def _check(self, targets: Sequence[Array], batches: int) -> None:
        """Refuse targets of so many batches that the losses cannot take."""
        assert self._passes is not None
        if not self._passes.joint:
            for loss, output, given in zip(self._passes.loss, self._bound.program.outputs, targets, strict=True):
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
        found = _arrays("x", x)
        for key, array in zip(keys_of(x), found, strict=True):
            if len(array) != self.batch_size:
                raise ValueError(
                    f"{_WHO}: {called('x', key)} has shape {array.shape}, but the step is for batches of {self.batch_size} "
                    "samples. Leave a smaller last batch out, or make another step for it."
                )
        return found

    def _weights(self, given: Any) -> Array:
        assert self._passes is not None
        if self._passes.joint:
            raise ValueError(
                f"{_WHO}: sample_weights cannot be put into a loss function. Pass them as a part of y, and use them in it."
            )
        shapes = [loss.shape for loss in self._bound.losses]
        return self._passes.loss[0].check_sample_weights(given, shapes[0])

    def _prepare(self, keys: tuple[list[Key], list[Key]], samples: Sequence[Array]) -> None:
        """Build the network for such samples, and bring losses and targets into the order of its outputs."""
        network, (x_keys, y_keys) = self.network, keys
        inputs = arrange(network, x_keys, _WHO)
        self._shapes = tuple(samples[i].shape for i in inputs)
        network._recording(True, self._shapes)
        passes = Passes(network, self._losses, self._shares, self._loss_keys)
        if passes.joint:
            passes.expect_targets(y_keys)
            outputs = list(range(len(y_keys)))
        else:
            given = output_keys(network)
            if set(map(str, given)) != set(map(str, self._loss_keys)) or len(given) != len(self._loss_keys):
                raise ValueError(
                    f"{_WHO}: the network gives {listed(given)}, but the losses are of {listed(self._loss_keys)}. Pass one for "
                    "each."
                )
            order = [self._loss_keys.index(key) for key in given]
            passes = Passes(network, [self._losses[i] for i in order], [self._shares[i] for i in order], given)
            outputs = check_targets(y_keys, given, _WHO)
        self.optimizer.attach_network(network.parameters())
        self._passes, self._arranged, self._bound = passes, (x_keys, y_keys, inputs, outputs), None


def _arrays(name: str, value: Any) -> list[Array]:
    found = [np.asarray(part) for part in parts_of(value)]
    for key, array in zip(keys_of(value), found, strict=True):
        if array.ndim < 1:
            raise ValueError(
                f"{_WHO}: {called(name, key)} is a single number. Pass an array with one entry per sample."
            )
        if array.dtype.kind not in "fiub":
            raise TypeError(f"{_WHO}: {called(name, key)} is {array.dtype}. Pass numbers.")
    return found
