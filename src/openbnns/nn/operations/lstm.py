"""One layer of LSTM cells along a sequence."""

from __future__ import annotations

import numpy as np

from ... import LearningPhase, LSTMLayer
from .._graph import Call, Graph, Operation
from .._value import Array, Value
from ..parameter import Parameter
from ._base import IN_PLACE, wanted


class Lstm(Operation):
    """(T, I) -> (T, H), in PyTorch's parameters: weights of four gates each, and two biases whose sum counts.

    The layer wants time in front of the batch, so input and output are copied on the way; with ``reverse`` the copies
    run from the last step to the first.
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
    ) -> None:
        self.weights, self.biases = weights, biases
        self._order = slice(None, None, -1 if reverse else 1)
        self.hidden = weights[1].shape[1]
        super().__init__([x], x.like((x.sample[0], self.hidden)), [*weights, *biases])

    def prepare(self) -> None:
        h, inputs = self.hidden, self.inputs[0].sample[1]
        self._bias = np.zeros((4, 1, 1, h), np.float32) if self.biases else None
        self.layer = LSTMLayer(
            input_weights=self.weights[0].data.reshape(4, 1, h, inputs),
            hidden_weights=self.weights[1].data.reshape(4, 1, 1, h, h),
            bias=self._bias,
            filter_parameters=IN_PLACE,
        )
        self._kept: dict[int, tuple[Array, Array]] = {}  # by batch: the sequence, time first, and the training cache

    def _memory(self, batch: int) -> tuple[Array, Array]:
        if batch not in self._kept:
            steps, inputs = self.inputs[0].sample
            cache = np.empty(self.layer.cache_bytes(steps, batch), np.uint8)
            self._kept = {batch: (np.empty((steps, batch, inputs), np.float32), cache)}
        return self._kept[batch]

    def _by_time(self, array: Array) -> Array:
        """A view (T, N, ...) of an array (N, T, ...), the first step that the cells see in front."""
        view: Array = array.swapaxes(0, 1)[self._order]
        return view

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        batch, (steps, _) = len(y), self.inputs[0].sample
        outputs = np.empty((steps, batch, 1, self.hidden), np.float32)
        biases = [b.data.reshape(4, 1, 1, self.hidden) for b in self.biases]

        def call() -> None:
            sequence, cache = self._memory(batch)
            np.copyto(sequence, self._by_time(x[0]))
            if self._bias is not None:
                np.add(biases[0], biases[1], out=self._bias)
            if training:
                self.layer.apply(sequence, output=outputs, phase=LearningPhase.TRAINING, cache=cache)
            else:
                self.layer.apply(sequence, output=outputs)
            np.copyto(self._by_time(y), outputs[:, :, 0])

        return call

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        batch, (steps, inputs) = len(y), self.inputs[0].sample
        h = self.hidden
        arriving = np.empty((steps, batch, 1, h), np.float32)
        leaving = None if dx[0] is None else np.empty((steps, batch, inputs), np.float32)
        given = {
            "generating_input_gradient": wanted(leaving),
            "generating_initial_hidden_gradient": wanted(None),
            "generating_initial_cell_gradient": wanted(None),
            "generating_input_weights_gradient": wanted(_shaped(dp[0], 4, 1, h, inputs)),
            "generating_hidden_weights_gradient": wanted(_shaped(dp[1], 4, 1, 1, h, h)),
        }
        bias = np.empty((4, 1, 1, h), np.float32)
        if self.biases:
            given["generating_bias_gradient"] = wanted(
                bias if any(gradient is not None for gradient in dp[2:]) else None
            )

        def call() -> None:
            sequence, cache = self._memory(batch)
            np.copyto(arriving[:, :, 0], self._by_time(dy))
            self.layer.apply_backward(sequence, output_gradient=arriving, cache=cache, **given)
            for gradient in dp[2:]:
                if gradient is not None:
                    np.copyto(gradient, bias.reshape(-1))
            if dx[0] is not None and leaving is not None:
                np.copyto(self._by_time(dx[0]), leaving)

        return call


def _shaped(gradient: Array | None, *shape: int) -> Array | None:
    return None if gradient is None else gradient.reshape(shape)
