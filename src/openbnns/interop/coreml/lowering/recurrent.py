"""Recurrent cells along sequences (T, N, I)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph.parameter import Parameter
from ....nn import functional as F
from ....nn.converted.tensors import Misfit, Tensor
from ....nn.onnx.operators.cells import Cells
from .table import Call, operation

ORDERS = {"lstm": (0, 1, 3, 2), "gru": (0, 2, 1), "rnn": (0,)}
"""The gate of Core ML at each place of our layers: input, forget, cell, output; reset, update, candidate."""


def in_our_order(kind: str, rows: Any) -> Any:
    """Rows of weights, or biases, with the gates in the order of our layers."""
    gates = ORDERS[kind]
    parts = np.split(rows, len(gates))
    return np.concatenate([parts[gate] for gate in gates])


def _held(kind: str, given: Tensor) -> Parameter:
    """A weight as a parameter: one of the network has the order of our layers already."""
    if isinstance(given.held, Parameter):
        return given.held
    return Parameter(in_our_order(kind, np.asarray(given.array, np.float32)), requires_grad=False)


def _cells(kind: str, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor | None, other: Tensor | None = None) -> Cells:
    biases: tuple[Parameter, ...] = ()
    if bias is not None:
        first = _held(kind, bias)
        zeros = Parameter(np.zeros(first.shape, np.float32), requires_grad=False)
        biases = (first, zeros) if other is None else (_held(kind, other), first)
    return Cells(_held(kind, weight_ih), _held(kind, weight_hh), biases)


def _ways(direction: str) -> list[bool]:
    return {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]


def _states(state: Tensor, count: int) -> Tensor:
    """(N, D * H) as ONNX's (D, N, H)."""
    value = state.numbers
    samples, width = value.shape
    return Tensor(F.transpose(value.reshape((samples, count, width // count)), 0, 1))


def _flat_states(states: Tensor) -> Tensor:
    """(D, N, H) as (N, D * H)."""
    value = states.numbers
    count, samples, width = value.shape
    return Tensor(F.transpose(value, 0, 1).reshape((samples, count * width)))


def _flat_outputs(y: Tensor, last: Tensor, sequence: bool) -> Tensor:
    """(T, D, N, H) as (T, N, D * H), or only the last step."""
    if not sequence:
        samples, width = last.shape
        return Tensor(last.numbers.reshape((1, samples, width)))
    value = y.numbers
    steps, count, samples, width = value.shape
    return Tensor(F.transpose(value, 1, 2).reshape((steps, samples, count * width)))


@operation("lstm")
def lstm(
    call: Call, x: Tensor, initial_h: Tensor, initial_c: Tensor, weight_ih: Tensor, weight_hh: Tensor,
    bias: Tensor | None, peephole: Tensor | None, weight_ih_back: Tensor | None, weight_hh_back: Tensor | None,
    bias_back: Tensor | None, peephole_back: Tensor | None, direction: str, output_sequence: bool,
    recurrent_activation: str, cell_activation: str, activation: str, clip: float | None,
) -> Any:  # fmt: skip
    ways = _ways(direction)
    backs = [(weight_ih_back, weight_hh_back, bias_back)] if len(ways) > 1 else []
    cells = []
    for ih, hh, b in [(weight_ih, weight_hh, bias), *backs]:
        assert ih is not None and hh is not None
        cells.append(_cells("lstm", ih, hh, b))
    usual = (recurrent_activation, cell_activation, activation) == ("sigmoid", "tanh", "tanh")
    if usual and peephole is None and clip is None:
        h, c = _states(initial_h, len(ways)), _states(initial_c, len(ways))
        y, last_h, last_c = call.onnx(
            "LSTM", x, weight_ih, weight_hh, None, None, h, c, direction=direction, cells=cells, outputs=3
        )
        hidden, cell = _flat_states(last_h), _flat_states(last_c)
        return _flat_outputs(y, hidden, output_sequence), hidden, cell
    if peephole is not None or len(ways) > 1:
        raise Misfit("peepholes, and both directions with other activations, have no counterpart here")
    acts = [_function(name) for name in (recurrent_activation, cell_activation, activation)]
    state = [initial_h.numbers, initial_c.numbers]

    def step(z: Any, state: list[Any]) -> list[Any]:
        hidden = cells[0].recurrent.shape[1]
        z = F.add(z, F.linear(state[0], _value(cells[0].recurrent)))
        i, f, g, o = F.split(z, int(hidden), 1)
        gates = [acts[0](one) for one in (i, f, o)]
        fresh = acts[1](g)
        c = F.add(F.mul(gates[1], state[1]), F.mul(gates[0], fresh))
        c = c if clip is None else F.clamp(c, -float(clip), float(clip))
        return [F.mul(gates[2], acts[2](c)), c]

    outputs, state = _unrolled(x, cells[0], ways[0], state, step)
    return (_joined(outputs, output_sequence), *map(Tensor, state))


@operation("gru")
def gru(
    call: Call, x: Tensor, initial_h: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor | None, direction: str,
    output_sequence: bool, recurrent_activation: str, activation: str, reset_after: bool | None,
    input_bias: Tensor | None,
) -> Any:  # fmt: skip
    cells = _cells("gru", weight_ih, weight_hh, bias, input_bias)
    (reverse,) = _ways(direction)
    if (recurrent_activation, activation) == ("sigmoid", "tanh") and reset_after is not False:
        y, last = call.onnx(
            "GRU", x, weight_ih, weight_hh, None, None, _states(initial_h, 1), direction=direction,
            linear_before_reset=1, cells=[cells], outputs=2,
        )  # fmt: skip
        hidden = _flat_states(last)
        return _flat_outputs(y, hidden, output_sequence), hidden
    acts = [_function(name) for name in (recurrent_activation, activation)]
    n = int(cells.recurrent.shape[1])

    def step(z: Any, state: list[Any]) -> list[Any]:
        (h,) = state
        product = F.linear(h, _value(cells.recurrent), _value(cells.biases[1]) if cells.biases else None)
        zr, zu, zo = F.split(z, n, 1)
        pr, pu, po = F.split(product, n, 1)
        reset, update = acts[0](F.add(zr, pr)), acts[0](F.add(zu, pu))
        candidate = acts[1](F.add(zo, F.mul(reset, po)))
        return [F.add(F.mul(F.sub(1.0, update), candidate), F.mul(update, h))]

    outputs, state = _unrolled(x, cells, reverse, [initial_h.numbers], step)
    return _joined(outputs, output_sequence), Tensor(state[0])


@operation("rnn")
def rnn(
    call: Call, x: Tensor, initial_h: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor | None, direction: str,
    output_sequence: bool, activation: str,
) -> Any:  # fmt: skip
    cells = _cells("rnn", weight_ih, weight_hh, bias)
    (reverse,) = _ways(direction)
    if activation in ("tanh", "relu"):
        y, last = call.onnx(
            "RNN", x, weight_ih, weight_hh, None, None, _states(initial_h, 1), direction=direction,
            activations=(activation.title(),), cells=[cells], outputs=2,
        )  # fmt: skip
        hidden = _flat_states(last)
        return _flat_outputs(y, hidden, output_sequence), hidden
    act = _function(activation)

    def step(z: Any, state: list[Any]) -> list[Any]:
        return [act(F.add(z, F.linear(state[0], _value(cells.recurrent))))]

    outputs, state = _unrolled(x, cells, reverse, [initial_h.numbers], step)
    return _joined(outputs, output_sequence), Tensor(state[0])


# Cells that BNNS does not have, step by step.

_ACTIVATIONS: dict[str, Any] = {
    "sigmoid": F.sigmoid, "tanh": F.tanh, "relu": F.relu, "linear": lambda x: x, "softplus": F.softplus,
    "softsign": F.softsign, "sigmoid_hard": lambda x: F.clamp(F.add(F.mul(x, 0.2), 0.5), 0.0, 1.0),
    "scaled_tanh": F.tanh, "linear_activation": lambda x: x, "thresholded_relu": F.relu, "elu": F.elu,
}  # fmt: skip


def _function(name: str) -> Any:
    if name not in _ACTIVATIONS:
        raise Misfit(f"cells with the activation {name!r} have no counterpart here")
    return _ACTIVATIONS[name]


def _value(parameter: Parameter) -> Any:
    """A parameter, or the numbers of one that is not trained, as functions take it."""
    return parameter if parameter.requires_grad else parameter.data


def _unrolled(x: Tensor, cells: Cells, reverse: bool, state: list[Any], step: Any) -> tuple[list[Any], list[Any]]:
    bias = _value(cells.biases[0]) if cells.biases else None
    inputs = F.linear(x.numbers, _value(cells.weight), bias)
    steps = int(x.shape[0])
    outputs: dict[int, Any] = {}
    for t in range(steps)[:: -1 if reverse else 1]:
        state = step(F.select(inputs, 0, t), state)
        outputs[t] = state[0]
    last = 0 if reverse else steps - 1
    return [outputs[t] for t in range(steps)] + [outputs[last]], state


def _joined(outputs: list[Any], sequence: bool) -> Tensor:
    *steps, last = outputs
    return Tensor(F.stack(steps if sequence else [last], 0))
