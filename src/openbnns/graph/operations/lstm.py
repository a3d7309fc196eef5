"""One layer of LSTM cells along a sequence."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ... import LearningPhase, LSTMLayer
from ..calls import Call, CallList, Calls, NestedCall, NumpyCall, PlanCall, adding, arrays, clearing, copying, in_turn
from ..graph import Graph
from ..operation import Operation
from ..parameter import Parameter
from ..tensor import Array, Tensor
from .base import IN_PLACE, wanted
from .recurrent import InitialState, require_lengths, values

_LENGTHS = 8  # of sequences whose native calls are kept


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
        x: Tensor,
        weights: tuple[Parameter, Parameter],
        biases: list[Parameter],
        *,
        reverse: bool = False,
        initial: Sequence[InitialState] = (),
        lengths: Tensor | None = None,
    ) -> None:
        self.weights, self.biases = weights, biases
        self.reverse, self.initial, self.lengths = reverse, list(initial), lengths
        self.hidden = weights[1].shape[1]
        samples, steps, _ = x.shape
        states = (samples, self.hidden)
        outputs = [Tensor(graph, shape) for shape in ((samples, steps, self.hidden), states, states)]
        super().__init__([x, *values(self.initial, lengths)], outputs, [*weights, *biases])

    def prepare(self) -> None:
        h, inputs = self.hidden, self.weights[0].shape[1]
        self._bias = np.zeros((4, 1, 1, h), self.weights[0].array.dtype) if self.biases else None
        self.layer = LSTMLayer(
            input_weights=self.weights[0].array.reshape(4, 1, h, inputs),
            hidden_weights=self.weights[1].array.reshape(4, 1, 1, h, h),
            bias=self._bias,
            filter_parameters=IN_PLACE,
        )

    def scratch_size(self, sizes: Mapping[str, int], backward: bool) -> int:
        batch, steps, inputs = self.inputs[0].concrete(sizes)
        return batch * steps * (self.hidden + (inputs if backward else 0))

    def _by_steps(self, first: int, batch: int, *sizes: int) -> Array:
        """Scratch for the steps of a sequence, behind ``first`` numbers per step and sample of it."""
        steps = self.inputs[0].concrete(self.bound_sizes)[1]
        start, count = first * steps * batch, math.prod(sizes) * steps * batch
        array: Array = self.scratch[start : start + count].reshape(steps, batch, *sizes)
        return array

    def forward_all(self, x: list[Array], y: list[Array], training: bool) -> Calls:
        kept = _Kept(self, x[0].shape, training, y[0].dtype, sorts=self.lengths is not None)
        if training:
            self._trained = kept  # belongs to the program being made, whose backward pass comes next
        outputs = self._by_steps(0, len(x[0]), 1, self.hidden)
        calls = self._forward_calls(kept, x, y, outputs, training)
        if not kept.sorts or training:
            return calls
        return NestedCall(_ByLength(self, x, y, outputs, calls).run)

    def _forward_calls(self, kept: _Kept, x: list[Array], y: list[Array], outputs: Array, training: bool) -> list[Call]:
        (batch, steps, _), h = x[0].shape, self.hidden
        final = [np.empty((1, 1, batch, h), y[0].dtype) for _ in range(2)]
        calls = kept.arrange(x, steps)
        if self._bias is not None:
            given_bias, recurrent_bias = (b.array for b in self.biases)
            calls.append(adding(self._bias, given_bias, recurrent_bias))
        phase = LearningPhase.TRAINING if training else LearningPhase.INFERENCE
        given = {"output": outputs, "final_hidden": final[0], "final_cell": final[1], "phase": phase}
        calls += [kept.running(self.layer.apply, given), kept.to_steps(outputs[:, :, 0], y[0])]
        return [*calls, *(kept.to_samples(s[0, 0], array) for s, array in zip(final, y[1:], strict=True))]

    def backward_all(
        self, x: list[Array], y: list[Array], dy: list[Array | None], dx: list[Array | None], dp: list[Array | None]
    ) -> Calls:
        batch, _, inputs = x[0].shape
        kept, h, kind = self._trained, self.hidden, y[0].dtype
        arriving = None if dy[0] is None else self._by_steps(0, batch, 1, h)
        ends = [None if gradient is None else np.empty((1, 1, batch, h), kind) for gradient in dy[1:]]
        leaving = None if dx[0] is None else self._by_steps(h, batch, inputs)
        states = dx[1 : 1 + len(self.initial)]
        begins = [None if gradient is None else np.empty((1, 1, batch, h), kind) for gradient in states]
        bias = np.empty((4, 1, 1, h), kind) if any(gradient is not None for gradient in dp[2:]) else None
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

        calls: list[Call] = []
        if arriving is not None and dy[0] is not None:
            calls.append(kept.from_steps(dy[0], arriving[:, :, 0]))
        for gradient, array in zip(dy[1:], ends, strict=True):
            if gradient is not None and array is not None:
                calls.append(kept.from_samples(gradient, array[0, 0]))
        calls.append(kept.running(self.layer.apply_backward, given))
        for gradient in dp[2:]:
            if gradient is not None and bias is not None:
                calls.append(copying(gradient, bias.reshape(-1)))
        if leaving is not None and dx[0] is not None:
            calls.append(kept.to_steps(leaving, dx[0]))
        for state, gradient, array in zip(self.initial, states, begins, strict=True):
            if gradient is not None and array is not None:
                whole = np.empty_like(array[0, 0])
                calls += [kept.to_samples(array[0, 0], whole), *state.writing(whole, gradient)]
        return calls


class _ByLength:
    """Runs for inference of sequences with lengths: native calls if all samples end at the same step, else those that sort.

    The native calls of the latest lengths are kept.
    """

    def __init__(self, operation: Lstm, x: list[Array], y: list[Array], outputs: Array, sorting: list[Call]) -> None:
        self._operation, self._x, self._y, self._outputs, self._sorting = operation, x, y, outputs, sorting
        self._native: OrderedDict[int, CallList] = OrderedDict()

    def run(self, weights: int = 0) -> None:
        lengths, steps = self._x[-1], self._x[0].shape[1]
        end = int(lengths[0]) if len(lengths) else 0
        if not 1 <= end <= steps or (lengths != end).any():
            in_turn(self._sorting)
            return
        calls = self._native.pop(end, None)
        if calls is None:
            calls = self._until(end)
            if len(self._native) == _LENGTHS:
                self._native.popitem(last=False)
        self._native[end] = calls
        calls.run(weights)

    def _until(self, end: int) -> CallList:
        """The calls for sequences that end at a step, and zeros behind it."""
        (x, *states, _), (y, *final) = self._x, self._y
        part = x[:, :end]
        kept = _Kept(self._operation, part.shape, False, y.dtype, sorts=False)
        calls = self._operation._forward_calls(kept, [part, *states], [y[:, :end], *final], self._outputs[:end], False)
        if end < y.shape[1]:
            calls.append(clearing(y[:, end:]))
        return CallList([*arrays(calls), *(p.array for p in self._operation.parameters)], calls)


class _Kept:
    """The tensors of a program's forward pass in the order of the layer: time in front, long sequences first.

    Without lengths, that order is always the same, and every copy is a native call.
    """

    def __init__(
        self, operation: Lstm, shape: Sequence[int], training: bool, kind: np.dtype[Any], *, sorts: bool
    ) -> None:
        batch, steps, inputs = shape
        self.operation, self.sorts = operation, sorts
        self.sequence = np.empty((steps, batch, inputs), kind)
        self.states = [np.empty((1, 1, batch, operation.hidden), kind) for _ in operation.initial]
        self.cache: Array | None = None
        if training:
            needed = [operation.layer.cache_bytes(steps, batch)]
            if self.sorts:
                needed.append(operation.layer.cache_bytes(steps, batch, [batch] * steps))
            self.cache = np.empty(max(needed), np.uint8)

    def arrange(self, x: list[Array], steps: int) -> list[Call]:
        """The calls that copy the inputs of the operation into the layer's arrays."""
        calls = [_later(self._sort, x[-1], steps)] if self.sorts else []
        calls.append(self.from_steps(x[0], self.sequence))
        for state, array, to in zip(self.operation.initial, x[1:], self.states, strict=False):
            calls.append(self.from_samples(state.view(array, to[0, 0].shape), to[0, 0]))
        return calls

    def running(self, method: Any, given: dict[str, Any]) -> Call:
        """A call of the layer on these tensors."""
        if not self.sorts:
            return PlanCall(method, self.sequence, *self.states, cache=self.cache, **given)
        return NumpyCall(
            lambda: method(self.sequence, *self.states, cache=self.cache, batch_sizes=self.batch_sizes, **given)
        )

    def _sort(self, lengths: Array, steps: int) -> None:
        require_lengths(lengths, steps, "LSTM")
        self.order = np.argsort(-lengths, kind="stable")
        ends, times = lengths[self.order], np.arange(steps)[:, None]
        self.present = times < ends  # (T, N)
        whole = bool(self.present.all())  # which is faster to compute without sizes
        self.batch_sizes = None if whole else np.count_nonzero(self.present, axis=1)
        # Which step of its sample stands at each place; cells that run backwards begin at the end of each.
        self.times = np.where(self.present, ends - 1 - times if self.operation.reverse else times, 0)

    def _by_time(self, array: Array) -> Array:
        """A view (T, N, ...) of an array (N, T, ...), the first step that the cells see in front."""
        view: Array = array.swapaxes(0, 1)[:: -1 if self.operation.reverse else 1]
        return view

    def from_steps(self, array: Array, to: Array) -> Call:
        """(N, T, ...) to (T, N, ...)."""
        if not self.sorts:
            return copying(to, self._by_time(array))
        return NumpyCall(lambda: np.copyto(to, array[self.order, self.times]))

    def to_steps(self, array: Array, to: Array) -> Call:
        """(T, N, ...) to (N, T, ...), zero behind the end of each sample."""
        if not self.sorts:
            return copying(self._by_time(to), array)

        def call() -> None:
            to.fill(0)
            places, samples = np.nonzero(self.present)
            to[self.order[samples], self.times[places, samples]] = array[places, samples]

        return NumpyCall(call)

    def from_samples(self, array: Array, to: Array) -> Call:
        return NumpyCall(lambda: np.copyto(to, array[self.order])) if self.sorts else copying(to, array)

    def to_samples(self, array: Array, to: Array) -> Call:
        return NumpyCall(lambda: to.__setitem__(self.order, array)) if self.sorts else copying(to, array)


def _later(function: Any, *arguments: Any) -> Call:
    """A call that Python makes."""
    return NumpyCall(function, *arguments)


def _shaped(gradient: Array | None, *shape: int) -> Array | None:
    return None if gradient is None else gradient.reshape(shape)
