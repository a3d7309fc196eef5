"""One layer of LSTM cells along a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import LearningPhase, LSTMLayer
from .._graph import Call, Graph, Operation
from .._value import Array, Value
from ..parameter import Parameter
from ._base import IN_PLACE, wanted
from .states import InitialState, require_lengths, values


class Lstm(Operation):
    """(T, I) -> outputs (T, H) and the states (H,) and (H,) that the cells end with, in PyTorch's parameters: weights of
    four gates each, and two biases whose sum counts.

    The layer wants time in front of the batch, so input and output are copied on the way; with ``reverse`` the copies
    run from the last step to the first. ``initial`` are the hidden and the cell state to begin with, or none. With
    ``lengths`` (), integers, every sample ends at its own step: outputs behind it are zero.
    """

    keeps_inputs = False

    def __init__(
        self,
        graph: Graph,
        x: Value,
        weights: tuple[Parameter, Parameter],
        biases: list[Parameter],
        *,
        reverse: bool = False,
        initial: Sequence[InitialState] = (),
        lengths: Value | None = None,
    ) -> None:
        self.weights, self.biases = weights, biases
        self.reverse, self.initial, self.lengths = reverse, list(initial), lengths
        self.hidden = weights[1].shape[1]
        outputs = [x.like((x.sample[0], self.hidden)), x.like((self.hidden,)), x.like((self.hidden,))]
        super().__init__([x, *values(self.initial, lengths)], outputs, [*weights, *biases])

    def prepare(self) -> None:
        h, inputs = self.hidden, self.inputs[0].sample[1]
        self._bias = np.zeros((4, 1, 1, h), np.float32) if self.biases else None
        self.layer = LSTMLayer(
            input_weights=self.weights[0].data.reshape(4, 1, h, inputs),
            hidden_weights=self.weights[1].data.reshape(4, 1, 1, h, h),
            bias=self._bias,
            filter_parameters=IN_PLACE,
        )
        self._kept: dict[int, _Kept] = {}  # by batch: the latest

    def _memory(self, batch: int) -> _Kept:
        if batch not in self._kept:
            self._kept = {batch: _Kept(self, batch)}
        return self._kept[batch]

    def forward_all(self, x: list[Array], y: list[Array], training: bool) -> Call:
        batch, (steps, _), h = len(y[0]), self.inputs[0].sample, self.hidden
        outputs = np.empty((steps, batch, 1, h), np.float32)
        final = [np.empty((1, 1, batch, h), np.float32) for _ in range(2)]
        biases = [b.data.reshape(4, 1, 1, h) for b in self.biases]

        def call() -> None:
            kept = self._memory(batch)
            kept.arrange(x, steps)
            if self._bias is not None:
                np.add(biases[0], biases[1], out=self._bias)
            self.layer.apply(
                kept.sequence,
                *kept.states,
                output=outputs,
                final_hidden=final[0],
                final_cell=final[1],
                batch_sizes=kept.batch_sizes,
                phase=LearningPhase.TRAINING if training else LearningPhase.INFERENCE,
                cache=kept.cache if training else None,
            )
            kept.to_steps(outputs[:, :, 0], y[0])
            for state, array in zip(final, y[1:], strict=True):
                kept.to_samples(state[0, 0], array)

        return call

    def backward_all(
        self, x: list[Array], y: list[Array], dy: list[Array | None], dx: list[Array | None], dp: list[Array | None]
    ) -> Call:
        batch, (steps, inputs) = len(y[0]), self.inputs[0].sample
        h = self.hidden
        arriving = None if dy[0] is None else np.empty((steps, batch, 1, h), np.float32)
        ends = [None if gradient is None else np.empty((1, 1, batch, h), np.float32) for gradient in dy[1:]]
        leaving = None if dx[0] is None else np.empty((steps, batch, inputs), np.float32)
        states = dx[1 : 1 + len(self.initial)]
        begins = [None if gradient is None else np.empty((1, 1, batch, h), np.float32) for gradient in states]
        bias = np.empty((4, 1, 1, h), np.float32) if any(gradient is not None for gradient in dp[2:]) else None
        given: dict[str, Any] = {
            "output_gradient": arriving,
            "final_hidden_gradient": ends[0],
            "final_cell_gradient": ends[1],
            "generating_input_gradient": wanted(leaving),
            "generating_initial_hidden_gradient": wanted(begins[0] if begins else None),
            "generating_initial_cell_gradient": wanted(begins[1] if begins else None),
            "generating_input_weights_gradient": wanted(_shaped(dp[0], 4, 1, h, inputs)),
            "generating_hidden_weights_gradient": wanted(_shaped(dp[1], 4, 1, 1, h, h)),
        }
        if self.biases:
            given["generating_bias_gradient"] = wanted(bias)

        def call() -> None:
            kept = self._memory(batch)
            if arriving is not None and dy[0] is not None:
                kept.from_steps(dy[0], arriving[:, :, 0])
            for gradient, array in zip(dy[1:], ends, strict=True):
                if gradient is not None and array is not None:
                    kept.from_samples(gradient, array[0, 0])
            self.layer.apply_backward(
                kept.sequence, *kept.states, cache=kept.cache, batch_sizes=kept.batch_sizes, **given
            )
            for gradient in dp[2:]:
                if gradient is not None and bias is not None:
                    np.copyto(gradient, bias.reshape(-1))
            if leaving is not None and dx[0] is not None:
                kept.to_steps(leaving, dx[0])
            for state, gradient, array in zip(self.initial, states, begins, strict=True):
                if gradient is not None and array is not None:
                    unsorted = np.empty_like(array[0, 0])
                    kept.to_samples(array[0, 0], unsorted)
                    state.write(unsorted, gradient)

        return call


class _Kept:
    """The tensors of the latest forward pass in the order of the layer: time in front, long sequences first."""

    order: Array | None = None  # of the samples; None: as they are
    batch_sizes: Array | None = None  # how many samples take part at each step; None: all

    def __init__(self, operation: Lstm, batch: int) -> None:
        steps, inputs = operation.inputs[0].sample
        self.operation = operation
        self.sequence = np.empty((steps, batch, inputs), np.float32)
        self.states = [np.empty((1, 1, batch, operation.hidden), np.float32) for _ in operation.initial]
        sizes = None if operation.lengths is None else [batch] * steps
        self.cache = np.empty(operation.layer.cache_bytes(steps, batch, sizes), np.uint8)

    def arrange(self, x: list[Array], steps: int) -> None:
        """Take over the inputs of the operation."""
        if self.operation.lengths is not None:
            self._sort(x[-1], steps)
        self.from_steps(x[0], self.sequence)
        for state, array, to in zip(self.operation.initial, x[1:], self.states, strict=False):
            whole = np.empty_like(to[0, 0])
            state.read(array, whole)
            self.from_samples(whole, to[0, 0])

    def _sort(self, lengths: Array, steps: int) -> None:
        require_lengths(lengths, steps, "LSTM")
        self.order = np.argsort(-lengths, kind="stable")
        ends, times = lengths[self.order], np.arange(steps)[:, None]
        self.present = times < ends  # (T, N)
        self.batch_sizes = np.count_nonzero(self.present, axis=1)
        # Which step of its sample stands at each place; cells that run backwards begin at the end of each.
        self.times = np.where(self.present, ends - 1 - times if self.operation.reverse else times, 0)

    def _by_time(self, array: Array) -> Array:
        """A view (T, N, ...) of an array (N, T, ...), the first step that the cells see in front."""
        view: Array = array.swapaxes(0, 1)[:: -1 if self.operation.reverse else 1]
        return view

    def from_steps(self, array: Array, to: Array) -> None:
        """(N, T, ...) to (T, N, ...)."""
        np.copyto(to, self._by_time(array) if self.order is None else array[self.order, self.times])

    def to_steps(self, array: Array, to: Array) -> None:
        """(T, N, ...) to (N, T, ...), zero behind the end of each sample."""
        if self.order is None:
            np.copyto(self._by_time(to), array)
            return
        to.fill(0)
        places, samples = np.nonzero(self.present)
        to[self.order[samples], self.times[places, samples]] = array[places, samples]

    def from_samples(self, array: Array, to: Array) -> None:
        np.copyto(to, array if self.order is None else array[self.order])

    def to_samples(self, array: Array, to: Array) -> None:
        if self.order is None:
            np.copyto(to, array)
        else:
            to[self.order] = array


def _shaped(gradient: Array | None, *shape: int) -> Array | None:
    return None if gradient is None else gradient.reshape(shape)
