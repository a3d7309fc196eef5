"""Recurrent cells along sequences (T, N, I)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph import functions as F
from ....graph.parameter import Parameter
from ...converted.tensors import ForeignTensor, Misfit
from ...onnx.operators.cells import Cells
from .table import Call, operation

ORDERS = {"lstm": (0, 1, 3, 2), "gru": (0, 2, 1), "rnn": (0,)}
"""The gate of Core ML at each place of our layers: input, forget, cell, output; reset, update, candidate."""


def in_our_order(kind: str, rows: Any) -> Any:
    """Rows of weights, or biases, with the gates in the order of our layers."""
    gates = ORDERS[kind]
    parts = np.split(rows, len(gates))
    return np.concatenate([parts[gate] for gate in gates])


def _held(kind: str, given: ForeignTensor) -> Parameter:
    """A weight as a parameter: one of the network has the order of our layers already."""
    if isinstance(given.held, Parameter):
        return given.held
    return Parameter.owning(in_our_order(kind, np.asarray(given.array, np.float32)), requires_grad=False)


def _cells(
    kind: str,
    weight_ih: ForeignTensor,
    weight_hh: ForeignTensor,
    bias: ForeignTensor | None,
    other: ForeignTensor | None = None,
) -> Cells:
    biases: tuple[Parameter, ...] = ()
    if bias is not None:
        first = _held(kind, bias)
        zeros = Parameter.owning(np.zeros(first.shape, np.float32), requires_grad=False)
        biases = (first, zeros) if other is None else (_held(kind, other), first)
    return Cells(_held(kind, weight_ih), _held(kind, weight_hh), biases)


def _ways(direction: str) -> list[bool]:
    return {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]


def _states(state: ForeignTensor, count: int) -> ForeignTensor:
    """(N, D * H) as ONNX's (D, N, H)."""
    value = state.numbers
    samples, width = value.shape
    return ForeignTensor(F.transpose(value.reshape((samples, count, width // count)), 0, 1))


def _of_any_batch(call: Call, state: ForeignTensor) -> ForeignTensor:
    """A constant state that is the same for all samples as that of one, if the number of samples is free."""
    if state.constant and state.rank == 2 and int(state.shape[0]) in call.freed:
        rows = np.asarray(state.array)
        if (rows == rows[:1]).all():
            return ForeignTensor(rows[:1])
    return state


def _flat_states(states: ForeignTensor) -> ForeignTensor:
    """(D, N, H) as (N, D * H)."""
    value = states.numbers
    count, samples, width = value.shape
    return ForeignTensor(F.transpose(value, 0, 1).reshape((samples, count * width)))


def _flat_outputs(y: ForeignTensor, last: ForeignTensor, direction: str, sequence: bool) -> ForeignTensor:
    """(T, D, N, H) as (T, N, D * H) in the order in which cells saw the steps, or only the last step."""
    if not sequence:
        samples, width = last.shape
        return ForeignTensor(last.numbers.reshape((1, samples, width)))
    value = y.numbers
    steps, count, samples, width = value.shape
    flat = F.transpose(value, 1, 2).reshape((steps, samples, count * width))
    return ForeignTensor(F.flip(flat, 0) if direction == "reverse" else flat)


@operation("lstm")
def lstm(
    call: Call, x: ForeignTensor, initial_h: ForeignTensor, initial_c: ForeignTensor, weight_ih: ForeignTensor, weight_hh:
    ForeignTensor, bias: ForeignTensor | None, peephole: ForeignTensor | None, weight_ih_back: ForeignTensor | None,
    weight_hh_back: ForeignTensor | None, bias_back: ForeignTensor | None, peephole_back: ForeignTensor | None, direction: str,
    output_sequence: bool, recurrent_activation: str, cell_activation: str, activation: str, clip: float | None,
) -> Any:  # fmt: skip
    ways = _ways(direction)
    initial_h, initial_c = _of_any_batch(call, initial_h), _of_any_batch(call, initial_c)
    backs = [(weight_ih_back, weight_hh_back, bias_back)] if len(ways) > 1 else []
    cells = []
    for ih, hh, b in [(weight_ih, weight_hh, bias), *backs]:
        assert ih is not None and hh is not None
        cells.append(_cells("lstm", ih, hh, b))
    usual = (recurrent_activation, cell_activation, activation) == ("sigmoid", "tanh", "tanh")
    if usual and peephole is None and clip is None:
        h, c = (_states(state, len(ways)) for state in (initial_h, initial_c))
        y, last_h, last_c = call.onnx(
            "LSTM", x, weight_ih, weight_hh, None, None, h, c, direction=direction, cells=cells, outputs=3
        )
        hidden, cell = _flat_states(last_h), _flat_states(last_c)
        return _flat_outputs(y, hidden, direction, output_sequence), hidden, cell
    acts = [_function(name) for name in (recurrent_activation, cell_activation, activation)]
    peepholes = [peephole, peephole_back]
    states = [[_parts(state, len(ways))[i] for state in (initial_h, initial_c)] for i in range(len(ways))]
    unrolled = []
    for one, reverse, seen, state in zip(cells, ways, peepholes, states, strict=False):
        unrolled.append(_unrolled(x, one, reverse, state, _lstm_step(one, acts, seen, clip)))
    ordered = [
        outputs[::-1] if reverse and len(ways) > 1 else outputs
        for (outputs, _), reverse in zip(unrolled, ways, strict=True)
    ]
    last = [ForeignTensor(_side_by_side([state[i] for _, state in unrolled])) for i in range(2)]
    if not output_sequence:
        return ForeignTensor(last[0].numbers.reshape((1, *last[0].shape))), *last
    return ForeignTensor(_side_by_side([F.stack(outputs, 0) for outputs in ordered])), *last


def _lstm_step(cells: Cells, acts: list[Any], peephole: ForeignTensor | None, clip: float | None) -> Any:
    n = int(cells.recurrent.shape[1])
    seen = [0.0, 0.0, 0.0] if peephole is None else F.split(peephole.numbers, n, 0)  # by gates i, f, o

    def step(z: Any, state: list[Any]) -> list[Any]:
        h, c = state
        i, f, g, o = F.split(F.add(z, F.linear(h, _value(cells.recurrent))), n, 1)
        fresh = F.mul(acts[0](F.add(i, F.mul(c, seen[0]))), acts[1](g))
        c = F.add(F.mul(acts[0](F.add(f, F.mul(c, seen[1]))), c), fresh)
        c = c if clip is None else F.clamp(c, -float(clip), float(clip))
        return [F.mul(acts[0](F.add(o, F.mul(c, seen[2]))), acts[2](c)), c]

    return step


@operation("gru")
def gru(
    call: Call, x: ForeignTensor, initial_h: ForeignTensor, weight_ih: ForeignTensor, weight_hh: ForeignTensor, bias:
    ForeignTensor | None, direction: str, output_sequence: bool, recurrent_activation: str, activation: str, reset_after: bool |
    None, input_bias: ForeignTensor | None,
) -> Any:  # fmt: skip
    cells, initial_h = _cells("gru", weight_ih, weight_hh, bias, input_bias), _of_any_batch(call, initial_h)
    (reverse,) = _ways(direction)
    if (recurrent_activation, activation) == ("sigmoid", "tanh") and reset_after:
        y, last = call.onnx(
            "GRU", x, weight_ih, weight_hh, None, None, _states(initial_h, 1), direction=direction,
            linear_before_reset=1, cells=[cells], outputs=2,
        )  # fmt: skip
        hidden = _flat_states(last)
        return _flat_outputs(y, hidden, direction, output_sequence), hidden
    acts = [_function(name) for name in (recurrent_activation, activation)]
    n = int(cells.recurrent.shape[1])
    bias = _value(cells.biases[1]) if cells.biases else None

    def step(z: Any, state: list[Any]) -> list[Any]:
        (h,) = state
        zr, zu, zo = F.split(z, n, 1)
        pr, pu, po = F.split(F.linear(h, _value(cells.recurrent), bias), n, 1)
        reset, update = acts[0](F.add(zr, pr)), acts[0](F.add(zu, pu))
        if reset_after:
            seen = F.mul(reset, po)
        else:
            _, _, seen = F.split(F.linear(F.mul(reset, h), _value(cells.recurrent), bias), n, 1)
        return [F.add(F.mul(F.sub(1.0, update), acts[1](F.add(zo, seen))), F.mul(update, h))]

    outputs, state = _unrolled(x, cells, reverse, [initial_h.numbers], step)
    return _joined(outputs, output_sequence), ForeignTensor(state[0])


@operation("rnn")
def rnn(
    call: Call, x: ForeignTensor, initial_h: ForeignTensor, weight_ih: ForeignTensor, weight_hh: ForeignTensor, bias:
    ForeignTensor | None, direction: str, output_sequence: bool, activation: str,
) -> Any:  # fmt: skip
    cells, initial_h = _cells("rnn", weight_ih, weight_hh, bias), _of_any_batch(call, initial_h)
    (reverse,) = _ways(direction)
    if activation in ("tanh", "relu"):
        y, last = call.onnx(
            "RNN", x, weight_ih, weight_hh, None, None, _states(initial_h, 1), direction=direction,
            activations=(activation.title(),), cells=[cells], outputs=2,
        )  # fmt: skip
        hidden = _flat_states(last)
        return _flat_outputs(y, hidden, direction, output_sequence), hidden
    act = _function(activation)

    def step(z: Any, state: list[Any]) -> list[Any]:
        return [act(F.add(z, F.linear(state[0], _value(cells.recurrent))))]

    outputs, state = _unrolled(x, cells, reverse, [initial_h.numbers], step)
    return _joined(outputs, output_sequence), ForeignTensor(state[0])


# Cells that BNNS does not have, step by step.


def _hard_sigmoid(x: Any) -> Any:
    return F.clamp(F.add(F.mul(x, 0.2), 0.5), 0.0, 1.0)


_ACTIVATIONS: dict[str, Any] = {
    "sigmoid": F.sigmoid, "tanh": F.tanh, "relu": F.relu, "linear": lambda x: x, "softplus": F.softplus,
    "softsign": F.softsign, "sigmoid_hard": _hard_sigmoid, "hard_sigmoid": _hard_sigmoid, "scaled_tanh": F.tanh,
}  # fmt: skip


def _function(name: str) -> Any:
    if name not in _ACTIVATIONS:
        raise Misfit(f"cells with the activation {name!r} have no counterpart here")
    return _ACTIVATIONS[name]


def _value(parameter: Parameter) -> Any:
    """A parameter, or the numbers of one that is not trained, as functions take it."""
    return parameter if parameter.requires_grad else parameter.data


def _unrolled(
    x: ForeignTensor, cells: Cells, reverse: bool, state: list[Any], step: Any
) -> tuple[list[Any], list[Any]]:
    """The outputs in the order in which the steps were seen, and the last state."""
    bias = _value(cells.biases[0]) if cells.biases else None
    inputs = F.linear(x.numbers, _value(cells.weight), bias)
    outputs = []
    for t in range(int(x.shape[0]))[:: -1 if reverse else 1]:
        state = step(F.select(inputs, 0, t), state)
        outputs.append(state[0])
    return outputs, state


def _parts(state: ForeignTensor, count: int) -> list[Any]:
    """The states of all directions, which stand side by side."""
    return [state.numbers] if count == 1 else list(F.chunk(state.numbers, count, 1))


def _side_by_side(parts: list[Any]) -> Any:
    return F.cat(parts, -1) if len(parts) > 1 else parts[0]


def _joined(outputs: list[Any], sequence: bool) -> ForeignTensor:
    return ForeignTensor(F.stack(outputs if sequence else outputs[-1:], 0))
