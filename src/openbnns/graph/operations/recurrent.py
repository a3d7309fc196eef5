"""GRU and plain recurrent cells along a sequence, one layer in one direction; initial states and lengths of all cells.

With z = W x + b of every step, p = U h + b_h of the state before it, and * elementwise:

* tanh, ReLU:  h' = f(z + p)
* GRU, gates in the order r, u, c:  r, u = sigmoid(z + p),  c = tanh(z + r * p),  h' = (1 - u) * c + u * h

Arrays: z (N, T, G * H), U (G * H, H), b (G * H,), h0 (N, H), y (N, T, H). Sample n has ``lengths[n]`` steps; what lies
behind them is 0 in y and in gradients. ``reverse`` runs from the last of them to the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import FullyConnectedLayer, engines
from ..calls import Call, Calls, NumpyCall, PlanCall, clearing, computing, copying
from ..graph import Graph
from ..operation import Operation
from ..parameter import Parameter
from ..sizes import is_same_shape
from ..tensor import FLOAT32, Array, Tensor
from .base import IN_PLACE, wanted


@dataclass(frozen=True, eq=False)
class InitialState:
    """Entry ``index`` of a value (..., n, H), or all of one (..., H) without it; repeated if it is one for all samples."""

    value: Tensor
    index: int | None

    def _part(self, array: Array) -> Array:
        part: Array = array if self.index is None else array[..., self.index, :]
        return part

    def view(self, array: Array, shape: tuple[int, ...]) -> Array:
        """The state (N, H) in the array of the value, which is read where it lies."""
        view: Array = np.broadcast_to(self._part(array), shape)
        return view

    def writing(self, gradient: Array, to: Array) -> list[Call]:
        """The calls that write a gradient (N, H) to its part of the value's gradient; the rest of the value gets none."""
        part = self._part(to)
        calls = [] if part.size == to.size else [clearing(to)]
        if part.shape == gradient.shape:
            return [*calls, copying(part, gradient)]
        return [*calls, computing(part, np.sum, gradient, 0)]


def for_samples(value: Any, x: Tensor, sample: tuple[int, ...]) -> bool:
    """True for a value of such samples, one for each sample of x or one for all."""
    if not isinstance(value, Tensor) or value.dtype != FLOAT32:
        return False
    return is_same_shape(value.shape, sample) or (
        value.ndim == len(sample) + 1 and value.shape == (x.shape[0], *sample)
    )


def require_lengths(lengths: Array, steps: int, who: str) -> None:
    """Refuse sequences that are empty or longer than there are steps."""
    wrong = np.flatnonzero((lengths < 1) | (lengths > steps))
    if wrong.size:
        sample = int(wrong[0])
        raise ValueError(
            f"{who}: sample {sample} has length {int(lengths[sample])}, but sequences have 1 to {steps} steps. Pass the number "
            "of steps of every sample before its padding."
        )


def values(initial: Sequence[InitialState], lengths: Tensor | None) -> list[Tensor]:
    """The values behind x that a recurrent operation reads."""
    return [state.value for state in initial] + ([] if lengths is None else [lengths])


KINDS = ("tanh", "relu", "gru")
_Z, _U, _B, _H0, _LENGTHS, _Y, _HN, _Q, _DY, _DHN, _DU, _DB, _DH0 = range(13)  # RecurrentSlot


class Recurrent(Operation):
    """(T, I) -> outputs (T, H) and the state (H,) that the cells end with, in PyTorch's parameters.

    The input part of the gates is one product for all steps; the steps are one native call. What that call keeps for the
    backward pass are further outputs, that nothing reads: the gates (T, G H), for a GRU the candidate's part U h (T, H),
    and with ``lengths`` the input with zeros behind the end of each sample.
    """

    keeps_output = True

    def __init__(
        self,
        graph: Graph,
        x: Tensor,
        kind: str,
        weights: tuple[Parameter, Parameter],
        biases: list[Parameter],
        *,
        reverse: bool = False,
        initial: Sequence[InitialState] = (),
        lengths: Tensor | None = None,
    ) -> None:
        self.kind, self.weights, self.biases = kind, weights, biases
        self.reverse, self.initial, self.lengths = reverse, list(initial), lengths
        self.hidden = weights[1].shape[1]
        gates = (3 if kind == "gru" else 1) * self.hidden
        shapes_of = [w.shape for w in (*weights, *biases)]
        if kind not in KINDS or shapes_of != [(gates, x.shape[2]), (gates, self.hidden), *[(gates,)] * len(biases)]:
            raise ValueError(
                f"{kind} cells: weights and biases {shapes_of} do not fit each other, or the input {x.shape}."
            )
        samples, steps, inputs = x.shape
        shapes = [(steps, self.hidden), (self.hidden,), (steps, weights[1].shape[0])]
        shapes += [(steps, self.hidden)] if kind == "gru" else []
        shapes += [(steps, inputs)] if lengths is not None else []
        outputs = [Tensor(graph, (samples, *shape)) for shape in shapes]
        super().__init__([x, *values(self.initial, lengths)], outputs, [*weights, *biases])

    def prepare(self) -> None:
        self.rounds = engines.arithmetic().precision == engines.BFLOAT16  # operands of products
        self.layer = FullyConnectedLayer(
            weights=self.weights[0].array,
            bias=self.biases[0].array if self.biases else None,
            filter_parameters=IN_PLACE,
        )

    def _plan(self, steps: int) -> Any:
        kind = KINDS.index(self.kind)
        return self.made(
            steps,
            lambda: engines._core.recurrent(
                kind=kind, steps=steps, hidden=self.hidden, reverse=self.reverse, bfloat16=self.rounds
            ),
        )

    def _tensors(self, x: list[Array], y: list[Array]) -> dict[int, Array]:
        """The arrays that forward and backward share, by slots of the plan."""
        tensors = {_Z: y[2], _U: self.weights[1].array, _Y: y[0], _HN: y[1]}
        if self.biases:
            tensors[_B] = self.biases[1].array
        if self.initial:
            tensors[_H0] = np.empty_like(y[1])
        if self.kind == "gru":
            tensors[_Q] = y[3]
        if self.lengths is not None:
            if x[-1].shape != x[0].shape[:1] or x[-1].dtype != np.int64:
                raise ValueError(f"{self.kind} cells: lengths of shape {x[-1].shape} for an input {x[0].shape}.")
            tensors[_LENGTHS] = x[-1]
        return tensors

    def _sequence(self, x: list[Array], y: list[Array]) -> Array:
        """The input that counts."""
        return x[0] if self.lengths is None else y[-1]

    def forward_all(self, x: list[Array], y: list[Array], training: bool) -> Calls:
        tensors, z = self._tensors(x, y), y[2]
        sequence = self._sequence(x, y)
        calls: list[Call] = [] if self.lengths is None else [NumpyCall(self._cut, tensors[_LENGTHS], x[0], sequence)]
        product = PlanCall(self.layer.apply, sequence.reshape(-1, sequence.shape[-1]), z.reshape(-1, z.shape[-1]))
        return [*calls, *self._begin(x, tensors), product, PlanCall(self._run, False, tensors, training)]

    def backward_all(
        self, x: list[Array], y: list[Array], dy: list[Array | None], dx: list[Array | None], dp: list[Array | None]
    ) -> Calls:
        inputs, z = x[0].shape[2], y[2]
        tensors = self._tensors(x, y)
        sequence = self._sequence(x, y)
        states = dx[1 : 1 + len(self.initial)]
        begins = np.empty_like(y[1]) if any(gradient is not None for gradient in states) else None
        of_bias = dp[3] if self.biases else None
        gradients = {_DY: dy[0], _DHN: dy[1], _DU: dp[1], _DB: of_bias, _DH0: begins}
        tensors |= {slot: array for slot, array in gradients.items() if array is not None}
        rows = {
            "generating_input_gradient": wanted(None if dx[0] is None else dx[0].reshape(-1, inputs)),
            "generating_weights_gradient": wanted(dp[0]),
        }
        if self.biases:
            rows["generating_bias_gradient"] = wanted(dp[2])
        flat = z.reshape(-1, z.shape[-1])
        return [
            *self._begin(x, tensors),
            PlanCall(self._run, True, tensors, False, sequence),
            PlanCall(self.layer.apply_backward, sequence.reshape(-1, inputs), None, flat, **rows),
            *(
                call
                for state, gradient in zip(self.initial, states, strict=True)
                if gradient is not None and begins is not None
                for call in state.writing(begins, gradient)
            ),
        ]

    def _cut(self, lengths: Array, x: Array, sequence: Array) -> None:
        """Copy the steps that count, with zeros behind the end of each sample."""
        steps = x.shape[1]
        require_lengths(lengths, steps, "GRU" if self.kind == "gru" else "RNN")
        np.copyto(sequence, x)
        if (lengths < steps).any():
            sequence[np.arange(steps) >= lengths[:, None]] = 0

    def _begin(self, x: list[Array], tensors: dict[int, Array]) -> list[Call]:
        """The calls that copy the initial state to where the steps read it."""
        states = zip(self.initial, x[1:], strict=False)
        return [copying(tensors[_H0], state.view(array, tensors[_H0].shape)) for state, array in states]

    def _run(self, backward: bool, tensors: dict[int, Array], training: bool, sequence: Array | None = None) -> None:
        """All steps, one way or back; the reference engine computes z once more from ``sequence`` on the way back."""
        z = tensors[_Z]
        if engines.is_native():
            places = [(slot, array.ctypes.data, 0) for slot, array in tensors.items()]
            engines._core.run(self._plan(z.shape[1]), backward, len(z), places, training=training, repeatable=True)
        elif sequence is not None:
            self._reference_backward(tensors, sequence)
        else:
            h0 = self._state(tensors, len(z))
            tensors[_Y][...], tensors[_HN][...] = self._cells(tensors, z).forward(z.astype(np.float64), h0)

    # The formulas, for the reference engine.

    def _cells(self, tensors: dict[int, Array], z: Array) -> Cells:
        u, b = tensors[_U].astype(np.float64), tensors.get(_B, np.zeros(len(tensors[_U]))).astype(np.float64)
        lengths = tensors.get(_LENGTHS, np.full(len(z), z.shape[1]))
        return Cells(self.kind, u, b, lengths, self.reverse)

    def _state(self, tensors: dict[int, Array], batch: int) -> Array:
        return tensors.get(_H0, np.zeros((batch, self.hidden))).astype(np.float64)

    def _reference_backward(self, tensors: dict[int, Array], sequence: Array) -> None:
        batch, z = len(sequence), tensors[_Z]
        self.layer.apply(sequence.reshape(-1, sequence.shape[-1]), z.reshape(-1, z.shape[-1]))
        arriving = tensors.get(_DY, np.zeros_like(tensors[_Y])).astype(np.float64)
        final = tensors.get(_DHN, np.zeros_like(tensors[_HN])).astype(np.float64)
        results = self._cells(tensors, z).backward(z.astype(np.float64), self._state(tensors, batch), arriving, final)
        for slot, result in zip((_Z, _DU, _DB, _DH0), results, strict=True):
            if slot in tensors:
                tensors[slot][...] = result


@dataclass
class Cells:
    """``kind`` is tanh, relu or gru."""

    kind: str
    u: Array
    b: Array
    lengths: Array
    reverse: bool

    def _places(self, k: int) -> tuple[Array, Array]:
        """The samples that have a step k, and where it lies."""
        samples = np.flatnonzero(self.lengths > k)
        return samples, self.lengths[samples] - 1 - k if self.reverse else np.full(len(samples), k)

    def forward(self, z: Array, h0: Array) -> tuple[Array, Array]:
        """Outputs and final states."""
        h, y = h0.copy(), np.zeros((*z.shape[:2], h0.shape[1]), z.dtype)
        for k in range(z.shape[1]):
            samples, times = self._places(k)
            h[samples] = y[samples, times] = self._step(z[samples, times], h[samples])[0]
        return y, h

    def _step(self, z: Array, h: Array) -> tuple[Array, ...]:
        """h' and what its gradient takes."""
        p = h @ self.u.T + self.b
        if self.kind != "gru":
            after = np.tanh(z + p) if self.kind == "tanh" else np.maximum(z + p, 0)
            return (after,)
        width = h.shape[1]
        r, u = (_sigmoid(z[:, i : i + width] + p[:, i : i + width]) for i in (0, width))
        q = p[:, 2 * width :]
        c = np.tanh(z[:, 2 * width :] + r * q)
        return (1 - u) * c + u * h, r, u, c, q

    def backward(self, z: Array, h0: Array, dy: Array, dhn: Array) -> tuple[Array, Array, Array, Array]:
        """Gradients of z, U, b and h0."""
        states, h = [h0], h0.copy()
        for k in range(z.shape[1]):
            samples, times = self._places(k)
            h[samples] = self._step(z[samples, times], h[samples])[0]
            states.append(h.copy())
        dz, du, db, dh = np.zeros_like(z), np.zeros_like(self.u), np.zeros_like(self.b), dhn.copy()
        for k in reversed(range(z.shape[1])):
            samples, times = self._places(k)
            before, d = states[k][samples], dh[samples] + dy[samples, times]
            dz_here, dp, direct = self._step_back(z[samples, times], before, d)
            dz[samples, times] = dz_here
            du += dp.T @ before
            db += dp.sum(0)
            dh[samples] = dp @ self.u + direct
        return dz, du, db, dh

    def _step_back(self, z: Array, h: Array, d: Array) -> tuple[Array, Array, Array]:
        """Gradients of z, of p, and that part of the gradient of h which does not go through p."""
        after, *parts = self._step(z, h)
        if self.kind != "gru":
            dz = d * (1 - after**2 if self.kind == "tanh" else after > 0)
            return dz, dz, np.zeros_like(h)
        r, u, c, q = parts
        dc = d * (1 - u) * (1 - c**2)
        du = d * (h - c) * u * (1 - u)
        dr = dc * q * r * (1 - r)
        return np.concatenate([dr, du, dc], 1), np.concatenate([dr, du, dc * r], 1), d * u


def _sigmoid(x: Array) -> Array:
    result: Array = 0.5 * (1 + np.tanh(0.5 * x))
    return result
