"""Recurrent cells along sequences: LSTM, GRU and plain ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...._plural import plural
from ....graph import functions as F
from ....graph import operations
from ....graph.operations import InitialState
from ....graph.parameter import Parameter
from ....graph.sizes import AnySize, is_same
from ....graph.tensor import Tensor
from ...converted.tensors import ForeignTensor, Misfit
from .._call import Call
from .._operator import operator

SEQUENCES = "sequences"
_MOST_STEPS = 4096  # of cells that are written out step by step


class CellKind(NamedTuple):
    """The gate of ONNX at each place here (input, forget, cell, output; reset, update, candidate), and the usual activations."""

    order: tuple[int, ...]
    usual: tuple[str, ...]


CELLS = {
    "LSTM": CellKind((0, 2, 3, 1), ("sigmoid", "tanh", "tanh")), "GRU": CellKind((1, 0, 2), ("sigmoid", "tanh")),
    "RNN": CellKind((0,), ("tanh",)),
}  # fmt: skip


@dataclass(frozen=True)
class Cells:
    """The weights of one direction, with gates in the order of our layers; ``biases`` are two, or none."""

    weight: Parameter
    recurrent: Parameter
    biases: tuple[Parameter, ...]

    @property
    def hidden(self) -> int:
        return int(self.recurrent.shape[1])


def directions(call: Call) -> tuple[bool, ...]:
    """The directions in which cells run; True for backward."""
    name = call.text("direction", "forward")
    known = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    if name not in known:
        raise Misfit(f"direction={name!r} has no counterpart here")
    return known[name]


class _Sequence:
    """The input as (N, T, I), and results in the layout of the node."""

    def __init__(self, call: Call, x: ForeignTensor) -> None:
        if x.rank != 3:
            raise Misfit(f"{x.shape} is not a sequence")
        self.front = bool(call.integer("layout", 0))  # whether samples stand in front of steps
        self.value: Tensor = x.numbers if self.front else F.transpose(x.numbers, 0, 1)

    @property
    def samples(self) -> AnySize:
        return self.value.shape[0]

    def outputs(self, parts: list[Tensor]) -> ForeignTensor:
        """(N, T, H) of every direction: ONNX has (T, D, N, H), or with samples in front (N, T, D, H)."""
        y: Any = F.stack(parts, 2)
        return ForeignTensor(y if self.front else F.permute(y, 1, 2, 0, 3))

    def states(self, parts: list[Tensor]) -> ForeignTensor:
        """(N, H) of every direction: ONNX has (D, N, H), or with samples in front (N, D, H)."""
        return ForeignTensor(F.stack(parts, 1 if self.front else 0))

    def initial(self, state: ForeignTensor | None, direction: int, count: int, hidden: int) -> Tensor | None:
        """The first state of the cells of a direction: (N, H), or (H,) for all samples; None for zeros."""
        if state is None or (state.constant and state.held.dtype.kind == "f" and not state.held.any()):
            return None
        if state.rank != 3:
            raise Misfit(f"{state.shape} is not a state")
        samples, ways = state.shape[:2] if self.front else state.shape[1::-1]
        if ways != count or state.shape[2] != hidden or not (is_same(samples, 1) or samples == self.samples):
            raise Misfit(
                f"a state {state.shape} does not fit {self.samples} samples of "
                f"{plural(count, 'direction')} of {plural(hidden, 'cell')}"
            )
        one: Tensor = F.select(state.numbers, 1 if self.front else 0, direction)
        return one.reshape((hidden,)) if is_same(samples, 1) and not is_same(self.samples, 1) else one

    def lengths(self, given: ForeignTensor | None) -> Tensor | None:
        """The numbers of steps of the samples; None if all samples have all steps."""
        steps = self.value.shape[1]
        if given is None or (given.constant and all(n == steps for n in given.held.ravel())):
            return None
        if given.kind == "f" or given.rank != 1 or given.shape[0] != self.samples:
            raise Misfit("lengths of sequences must be one whole number per sample")
        value = given.value
        return value.graph.own_constant(value.leaf.astype(np.int64)) if isinstance(value.leaf, np.ndarray) else value


def _check(call: Call, x: ForeignTensor, count: int) -> None:
    if call.cells is None:
        raise Misfit("its weights must be initializers or constants of the model")
    if call.has("clip") and call.number("clip", 0.0):
        raise Misfit("clip has no counterpart here")
    given = call.attribute("activations")
    usual = CELLS[call.op].usual * count
    if given is not None and call.op != "RNN" and tuple(str(name).lower() for name in given) != usual:
        raise Misfit(f"activations={given!r} have no counterpart here")
    call.only(input_forget=0)
    if call.cells[0].weight.shape[1] != x.shape[-1]:
        raise Misfit(f"weights for {call.cells[0].weight.shape[1]} features do not fit {x.shape}")


def _results(sequence: _Sequence, call: Call, outputs: list[list[Tensor]]) -> tuple[ForeignTensor, ...]:
    y = sequence.outputs([one[0] for one in outputs])
    states = (sequence.states([one[i] for one in outputs]) for i in range(1, len(outputs[0])))
    return (y, *states)[: max(1, call.outputs)]


IGNORED = ("hidden_size", "activation_alpha", "activation_beta")


@operator(SEQUENCES, "LSTM", ignores=IGNORED)
def lstm(
    call: Call, x: ForeignTensor, weight: ForeignTensor, recurrent: ForeignTensor, bias: ForeignTensor | None = None, lengths:
    ForeignTensor | None = None, hidden: ForeignTensor | None = None, cell: ForeignTensor | None = None, peepholes: ForeignTensor
    | None = None,
) -> Any:  # fmt: skip
    ways = directions(call)
    sequence = _Sequence(call, x)
    _check(call, x, len(ways))
    value, until = sequence.value, sequence.lengths(lengths)
    outputs = []
    for number, (cells, reverse) in enumerate(zip(call.cells, ways, strict=True)):
        states = [sequence.initial(state, number, len(ways), cells.hidden) for state in (hidden, cell)]
        if peepholes is not None and not (peepholes.constant and not peepholes.held.any()):
            outputs.append(_peeping(sequence, cells, reverse, until, states, peepholes, number))
            continue
        operation = operations.Lstm(
            value.graph, value, (cells.weight, cells.recurrent), list(cells.biases), reverse=reverse,
            initial=_begin(value, states, cells.hidden), lengths=until,
        )  # fmt: skip
        value.graph.append(operation)
        outputs.append(operation.outputs[:3])
    return _results(sequence, call, outputs)


def _begin(value: Tensor, states: list[Tensor | None], hidden: int) -> list[InitialState]:
    if all(state is None for state in states):
        return []
    zeros = value.graph.own_constant(np.zeros(hidden, np.float32))
    return [InitialState(zeros if state is None else state, None) for state in states]


@operator(SEQUENCES, "GRU", "RNN", ignores=IGNORED)
def recurrent(
    call: Call, x: ForeignTensor, weight: ForeignTensor, recurrent: ForeignTensor, bias: ForeignTensor | None = None, lengths:
    ForeignTensor | None = None, hidden: ForeignTensor | None = None,
) -> Any:  # fmt: skip
    ways = directions(call)
    sequence = _Sequence(call, x)
    _check(call, x, len(ways))
    value, until = sequence.value, sequence.lengths(lengths)
    outputs = []
    for number, (cells, reverse) in enumerate(zip(call.cells, ways, strict=True)):
        state = sequence.initial(hidden, number, len(ways), cells.hidden)
        if call.op == "GRU" and not call.integer("linear_before_reset", 0):
            outputs.append(_resetting_first(sequence, cells, reverse, until, state))
            continue
        operation = operations.Recurrent(
            value.graph, value, _kind(call, number), (cells.weight, cells.recurrent), list(cells.biases),
            reverse=reverse, initial=_begin(value, [state], cells.hidden), lengths=until,
        )  # fmt: skip
        value.graph.append(operation)
        outputs.append(operation.outputs[:2])
    return _results(sequence, call, outputs)


def _kind(call: Call, number: int) -> str:
    if call.op == "GRU":
        return "gru"
    given = call.attribute("activations", ("Tanh", "Tanh"))
    name = str(given[number]).lower() if isinstance(given, tuple) and number < len(given) else ""
    if name not in ("tanh", "relu"):
        raise Misfit(f"activations={given!r} have no counterpart here")
    return name


# Cells that BNNS does not have, step by step.


def _steps(sequence: _Sequence, cells: Cells, reverse: bool, until: Tensor | None) -> tuple[list[int], Tensor]:
    steps = int(sequence.value.shape[1])
    if until is not None or steps > _MOST_STEPS:
        raise Misfit(
            f"sequences of different lengths, or of more than {_MOST_STEPS} steps, have no counterpart for such cells"
        )
    bias = cells.biases[0] if cells.biases else None
    inputs: Tensor = F.linear(sequence.value, cells.weight, bias)
    return list(range(steps))[:: -1 if reverse else 1], inputs


def _gate(h: Any, cells: Cells, start: int, stop: int) -> Any:
    """The recurrent part of some gates; the bias alone where the state is zero."""
    bias = F.narrow(cells.biases[1], 0, start, stop - start) if cells.biases else None
    if h is None:
        return bias
    product = F.matmul(h, F.transpose(F.narrow(cells.recurrent, 0, start, stop - start), 0, 1))
    return product if bias is None else F.add(product, bias)


def _plus(a: Any, b: Any) -> Any:
    return a if b is None else b if a is None else F.add(a, b)


def _joined(outputs: dict[int, Any]) -> Tensor:
    joined: Tensor = F.stack([outputs[t] for t in range(len(outputs))], 1)
    return joined


def _resetting_first(sequence: _Sequence, cells: Cells, reverse: bool, until: Tensor | None, h: Any) -> list[Tensor]:
    """A GRU whose reset gate acts on the state, not on its product with the weights: linear_before_reset=0."""
    order, inputs = _steps(sequence, cells, reverse, until)
    n, outputs = cells.hidden, {}
    if h is not None and h.ndim == 1:
        h = F.expand(h, sequence.samples, n)
    for t in order:
        z = F.select(inputs, 1, t)
        gates = F.sigmoid(_plus(F.narrow(z, 1, 0, 2 * n), _gate(h, cells, 0, 2 * n)))
        reset, update = F.split(gates, n, 1)
        candidate = F.narrow(z, 1, 2 * n, n)
        candidate = F.tanh(_plus(candidate, _gate(None if h is None else F.mul(reset, h), cells, 2 * n, 3 * n)))
        kept = F.mul(F.sub(1.0, update), candidate)
        h = outputs[t] = kept if h is None else F.add(kept, F.mul(update, h))
    return [_joined(outputs), h]


def _peeping(
    sequence: _Sequence, cells: Cells, reverse: bool, until: Tensor | None, states: list[Tensor | None],
    peepholes: ForeignTensor, number: int,
) -> list[Tensor]:  # fmt: skip
    """An LSTM whose gates see the cell state."""
    order, inputs = _steps(sequence, cells, reverse, until)
    n, outputs = cells.hidden, {}
    if peepholes.rank != 2 or peepholes.shape[1] != 3 * n:
        raise Misfit(f"peepholes {peepholes.shape} do not fit {n} cells")
    mine = F.select(peepholes.numbers, 0, number)
    to_input, to_output, to_forget = (F.narrow(mine, 0, i * n, n) for i in range(3))
    h, c = (F.expand(s, sequence.samples, n) if s is not None and s.ndim == 1 else s for s in states)
    for t in order:
        z = _plus(F.select(inputs, 1, t), _gate(h, cells, 0, 4 * n))
        i, f, g, o = F.split(z, n, 1)
        seen = [None if c is None else F.mul(c, p) for p in (to_input, to_forget)]
        fresh = F.mul(F.sigmoid(_plus(i, seen[0])), F.tanh(g))
        c = fresh if c is None else F.add(F.mul(F.sigmoid(_plus(f, seen[1])), c), fresh)
        h = outputs[t] = F.mul(F.sigmoid(F.add(o, F.mul(c, to_output))), F.tanh(c))
    assert h is not None and c is not None
    return [_joined(outputs), h, c]
