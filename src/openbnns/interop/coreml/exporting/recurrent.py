"""Recurrent cells along a sequence: Core ML's LSTM, and loops over the steps where it has no operation.

Core ML's own GRU multiplies the reset gate with U h, ours with U h + b. Its LSTM knows no lengths. Both, and plain cells, are
loops, whose operations mean the same everywhere.
"""

from __future__ import annotations

import numpy as np

from ....graph.operations import InitialState, Lstm, Recurrent
from ....graph.tensor import Tensor
from .program_builder import ProgramBuilder, Value, rank_of, writes


@writes(Lstm)
def _lstm(b: ProgramBuilder, op: Lstm) -> None:
    if op.lengths is not None:
        _loop(b, op, "lstm", states=2)
        return
    h = op.hidden
    order = np.concatenate([np.arange(h) + h * gate for gate in (0, 1, 3, 2)])  # Core ML has the output gate third
    inputs, hidden = (w.data.astype(np.float32)[order] for w in op.weights)
    bias = np.zeros(4 * h, np.float32)
    for parameter in op.biases:
        bias += parameter.data[order]
    x = b("transpose", x=b.get(op.inputs[0]), perm=[1, 0, 2])  # steps in front
    count = b("slice_by_index", x=b("shape", x=x), begin=[1], end=[2])
    zeros = b("fill", shape=b("concat", values=[count, np.array([h], np.int32)], axis=0), value=np.float32(0))
    begin = [_state(b, state, zeros) for state in op.initial] or [zeros, zeros]
    y, last_hidden, last_cell = b(
        "lstm", x=x, initial_h=begin[0], initial_c=begin[1], weight_ih=inputs, weight_hh=hidden, bias=bias,
        direction="reverse" if op.reverse else "forward", output_sequence=True,
    )  # fmt: skip
    if op.reverse:  # Core ML gives the steps in the order in which cells see them
        y = b("reverse", x=y, axes=[0])
    for value, var in zip(op.outputs, (b("transpose", x=y, perm=[1, 0, 2]), last_hidden, last_cell), strict=True):
        b.set(value, var)


@writes(Recurrent)
def _recurrent(b: ProgramBuilder, op: Recurrent) -> None:
    _loop(b, op, op.kind, states=1)


def _state(b: ProgramBuilder, state: InitialState, zeros: Value) -> Value:
    """The state that cells begin with, (N, H), where the zeros have this shape."""
    value = state.value
    var = b.get(value)
    if state.index is not None and isinstance(var, np.ndarray):
        var = var[..., state.index, :]
    elif state.index is not None:
        front = value.ndim - 2
        all_of = [True] * front
        var = b(
            "slice_by_index", x=var, begin=[*[0] * front, state.index, 0], end=[*[0] * front, state.index + 1, 0],
            begin_mask=[*all_of, False, True], end_mask=[*all_of, False, True],
            squeeze_mask=[*[False] * front, True, False],
        )  # fmt: skip
    return var if rank_of(var) == 2 else b("add", x=zeros, y=var)


def _loop(b: ProgramBuilder, op: Lstm | Recurrent, kind: str, states: int) -> None:
    """Outputs (N, T, H) and the states behind the last step, one step after the other."""
    h, known = op.hidden, b.size(op.inputs[0].shape[1])
    steps: Value = np.int32(known) if isinstance(known, int) else b.sizes(op.inputs[0].shape[1:2])
    latest = steps - 1 if isinstance(known, int) else b("sub", x=steps, y=np.int32(1))
    weights, hidden_weights = (w.data.astype(np.float32) for w in op.weights)
    zero = np.zeros(len(weights), np.float32)
    bias, hidden_bias = [p.data.astype(np.float32) for p in op.biases] or [zero, zero]
    rows = b("linear", x=b.get(op.inputs[0]), weight=weights, bias=bias)  # the input's part of all steps at once
    gates = b("transpose", x=rows, perm=[1, 0, 2])
    like = b(
        "slice_by_index", x=gates, begin=[0, 0, 0], end=[0, 0, h], begin_mask=[True] * 3, end_mask=[True, True, False]
    )
    outputs = b("fill_like", ref_tensor=like, value=np.float32(0))
    first = b(
        "slice_by_index", x=like, begin=[0, 0, 0], end=[1, 0, 0], begin_mask=[False, True, True],
        end_mask=[False, True, True], squeeze_mask=[True, False, False],
    )  # fmt: skip
    zeros = b("fill_like", ref_tensor=first, value=np.float32(0))
    begin = [_state(b, state, zeros) for state in op.initial] or [zeros] * states
    ends = None if op.lengths is None else _lengths(b, op.lengths)
    made = [*b.made, "while_loop"]

    def unfinished(i: Value, *_: Value) -> Value:
        return b("less", x=i, y=steps)

    def step(i: Value, written: Value, *before: Value) -> tuple[Value, ...]:
        t = b("sub", x=latest, y=i) if op.reverse else i
        z = b("squeeze", x=b("gather", x=gates, indices=t, axis=0), axes=[0])
        p = b("linear", x=before[0], weight=hidden_weights, bias=hidden_bias)
        after = _step(b, kind, z, p, before, h)
        shown = after[0]
        if ends is not None:  # behind its end a sample keeps its state, and its outputs are zero
            counts = b.floats(b("less", x=t, y=ends))
            after = [
                b("add", x=old, y=b("mul", x=counts, y=b("sub", x=new, y=old)))
                for old, new in zip(before, after, strict=True)
            ]
            shown = b("mul", x=counts, y=shown)
        row = b("expand_dims", x=shown, axes=[0])
        written = b("scatter", data=written, indices=t, updates=row, axis=0, mode="update")
        return (b("add", x=i, y=np.int32(1)), written, *after)

    first_step = b("identity", x=np.zeros(1, np.int32))
    _, y, *last = b.loop(unfinished, step, (first_step, outputs, *begin))
    b.made = made
    for value, var in zip(op.outputs, (b("transpose", x=y, perm=[1, 0, 2]), *last), strict=False):
        b.set(value, var)


def _lengths(b: ProgramBuilder, lengths: Tensor) -> Value:
    """(N, 1)"""
    return b("reshape", x=b.get(lengths), shape=[-1, 1])


def _step(b: ProgramBuilder, kind: str, z: Value, p: Value, before: tuple[Value, ...], h: int) -> list[Value]:
    """The states after a step, from the part z of the input, p = U h + b and the states before."""
    if kind == "lstm":
        i, f, g, o = b("split", x=b("add", x=z, y=p), split_sizes=[h] * 4, axis=1, outputs=4)
        kept = b("mul", x=b("sigmoid", x=f), y=before[1])
        cell = b("add", x=kept, y=b("mul", x=b("sigmoid", x=i), y=b("tanh", x=g)))
        return [b("mul", x=b("sigmoid", x=o), y=b("tanh", x=cell)), cell]
    if kind != "gru":
        return [b(kind, x=b("add", x=z, y=p))]  # tanh or relu
    (zr, zu, zc), (pr, pu, pc) = (b("split", x=part, split_sizes=[h] * 3, axis=1, outputs=3) for part in (z, p))
    r, u = (b("sigmoid", x=b("add", x=one, y=other)) for one, other in ((zr, pr), (zu, pu)))
    c = b("tanh", x=b("add", x=zc, y=b("mul", x=r, y=pc)))
    return [b("add", x=c, y=b("mul", x=u, y=b("sub", x=before[0], y=c)))]
