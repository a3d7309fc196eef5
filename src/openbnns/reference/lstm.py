"""LSTM: layers of cells run along a sequence, in one direction or in both.

One step of a cell, from input x and states h, c to the states h', c'; every gate has its own W, U, P, b:

    i = fi(Wi x + Ui h + Pi c + bi)      f = ff(Wf x + Uf h + Pf c + bf)      g = fg(Wg x + Ug h + Pg c + bg)
    c' = f*c + i*g
    o = fo(Wo x + Uo h + Po c' + bo)     the output gate looks at the new cell state
    h' = o * fh(c')

P are the peepholes, full matrices. Direction 1 runs from the last step to the first; its final states are those after
step 0. Layer l > 0 reads the outputs of layer l - 1, both directions side by side, through dropout if there is any.

Sizes: T steps, N batch, I input, H hidden, L layers, R directions. Sequences are (T, N, width), outputs (T, N, R, H),
states (L, R, N, H).

Packed sequences: with `batch_sizes`, step t has the first batch_sizes[t] samples only. A sample's states do not change
at the steps it does not have, so its final states are those after its last step, and direction 1 starts there. What the
arrays hold at those steps is never read; outputs and gradients are 0 there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..parameters.lstm import DEFAULT_ACTIVATIONS, GATES, Activations
from . import activation
from .activation import Array

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Gate:
    """W (H, in), U (H, H), peepholes P (H, H) or None, bias b (H,) or None; in is I in layer 0, and R*H above it."""

    w: Array
    u: Array
    p: Array | None = None
    b: Array | None = None


@dataclass(frozen=True)
class Cell:
    """The four gates of one layer and direction."""

    input: Gate
    forget: Gate
    candidate: Gate
    output: Gate

    def gate(self, name: str) -> Gate:
        """One of GATES."""
        gate: Gate = getattr(self, name)
        return gate


Stack = Sequence[Sequence[Cell]]
"""stack[layer][direction]."""


@dataclass(frozen=True)
class Dropout:
    """Between layers, x of layer l + 1 is y of layer l times keep[l] / (1 - rate); keep is (L - 1, T, N, R*H)."""

    rate: float
    keep: Mask

    def factor(self, layer: int) -> Array:
        """keep / (1 - rate) for the input of a layer above 0, (T, N, R*H)."""
        factor: Array = self.keep[layer - 1] / (1.0 - self.rate)
        return factor


@dataclass(frozen=True)
class Trace:
    """One layer and direction at all steps: states before the step, cell state after it, and z = W x + U h + P c + b.

    All are (T, N, H), and 0 where a packed sequence has no sample. z has one array for each of GATES.
    """

    h: Array
    c: Array
    c_after: Array
    z: dict[str, Array]


@dataclass(frozen=True)
class Cache:
    """The inputs of the backward: for every layer its input (T, N, in) and, for every direction, its trace."""

    inputs: list[Array]
    traces: list[list[Trace]]
    batch_sizes: list[int]
    dropout: Dropout | None


@dataclass(frozen=True)
class Result:
    """y (T, N, R, H), final states h and c (L, R, N, H), and the cache for `backward`."""

    y: Array
    h: Array
    c: Array
    cache: Cache


@dataclass(frozen=True)
class Gradients:
    """The wanted gradients among dx (T, N, I), dh0 and dc0 (L, R, N, H), and those of the parameters.

    gates[layer][direction][gate] maps the wanted names among "dw", "du", "dp", "db" to the gradients of W, U, P, b.
    """

    dx: Array | None = None
    dh0: Array | None = None
    dc0: Array | None = None
    gates: list[list[dict[str, dict[str, Array]]]] = field(default_factory=list)


# ---------------------------------------------------------------------------------------------------------------------
# Forward


@np.errstate(all="ignore")
def forward(
    x: Array,
    stack: Stack,
    h0: Array | None = None,
    c0: Array | None = None,
    activations: Activations = DEFAULT_ACTIVATIONS,
    dropout: Dropout | None = None,
    batch_sizes: Sequence[int] | None = None,
) -> Result:
    """Run x (T, N, I) through all layers; initial states (L, R, N, H) are 0 if None."""
    steps, batch = x.shape[:2]
    sizes = _sizes(batch_sizes, steps, batch)
    h, c = (_states(given, stack, batch) for given in (h0, c0))
    inputs: list[Array] = []
    traces: list[list[Trace]] = []
    x = np.where(_present(sizes, batch), x, 0.0)
    y = np.zeros((steps, batch, len(stack[0]), h.shape[-1]))
    for layer, cells in enumerate(stack):
        if layer > 0:
            x = _joined(y) if dropout is None else _joined(y) * dropout.factor(layer)
        y = np.zeros_like(y)
        inputs.append(x)
        traces.append(
            [
                _run(cell, activations, x, h[layer, k], c[layer, k], y[:, :, k], sizes, reverse=k == 1)
                for k, cell in enumerate(cells)
            ]
        )
    return Result(y, h, c, Cache(inputs, traces, sizes, dropout))


def _run(
    cell: Cell, activations: Activations, x: Array, h: Array, c: Array, y: Array, sizes: list[int], *, reverse: bool
) -> Trace:
    """All steps of one direction of a layer; changes the states h, c (N, H) and the output y (T, N, H) in place."""
    shape = (*x.shape[:2], h.shape[-1])
    trace = Trace(np.zeros(shape), np.zeros(shape), np.zeros(shape), {name: np.zeros(shape) for name in GATES})
    for t, rows in _order(sizes, reverse=reverse):
        trace.h[t, rows], trace.c[t, rows] = h[rows], c[rows]
        z, c_after, h_after = _step(cell, activations, x[t, rows], h[rows], c[rows])
        for name in GATES:
            trace.z[name][t, rows] = z[name]
        trace.c_after[t, rows] = c[rows] = c_after
        y[t, rows] = h[rows] = h_after
    return trace


def _step(cell: Cell, activations: Activations, x: Array, h: Array, c: Array) -> tuple[dict[str, Array], Array, Array]:
    """z of all gates, c' and h' of the formulas above."""
    z = {name: _affine(cell.gate(name), x, h, c) for name in GATES[:3]}
    i, f, g = (activation.forward(activations.gate(name), z[name]) for name in GATES[:3])
    c_after = f * c + i * g
    z["output"] = _affine(cell.output, x, h, c_after)
    o = activation.forward(activations.output, z["output"])
    return z, c_after, o * activation.forward(activations.hidden, c_after)


def _affine(gate: Gate, x: Array, h: Array, c: Array) -> Array:
    """W x + U h + P c + b for rows x (n, in), h and c (n, H)."""
    z: Array = x @ gate.w.T + h @ gate.u.T
    if gate.p is not None:
        z = z + c @ gate.p.T
    return z if gate.b is None else z + gate.b


# ---------------------------------------------------------------------------------------------------------------------
# Backward


@np.errstate(all="ignore")
def backward(
    stack: Stack,
    cache: Cache,
    wanted: Set[str],
    dy: Array | None = None,
    dh: Array | None = None,
    dc: Array | None = None,
    activations: Activations = DEFAULT_ACTIVATIONS,
) -> Gradients:
    """The wanted gradients among {"dx", "dh0", "dc0", "dw", "du", "dp", "db"}; the last four for all gates.

    dy (T, N, R, H), dh and dc (L, R, N, H) are the gradients of the output and of the final states, 0 if None. With the
    last step first, and dh, dc starting from the gradients of the final states:

        dh += dy[t]
        zo = dh*fh(c')*fo'      of h' = o*fh(c')
        dct = dc + dh*o*fh'(c') + Po^T zo
        zi = dct*g*fi',   zf = dct*c*ff',   zg = dct*i*fg'      of c' = f*c + i*g
        dc = dct*f + Pi^T zi + Pf^T zf + Pg^T zg
        dh = sum of U^T z,   dx[t] = sum of W^T z      over the gates
        dW = sum z x^T,   dU = sum z h^T,   dPi,f,g = sum z c^T,   dPo = sum zo c'^T,   db = sum z      over t and n

    "dp" of a gate without peepholes and "db" of one without bias are what they would be at P = 0, b = 0.
    """
    steps, batch = cache.inputs[0].shape[:2]
    state_h, state_c = (_states(given, stack, batch) for given in (dh, dc))
    present = _present(cache.batch_sizes, batch)[..., np.newaxis]
    if dy is None:
        dy = np.zeros((steps, batch, len(stack[0]), state_h.shape[-1]))
    dy = np.where(present, dy, 0.0)
    gates: list[list[dict[str, dict[str, Array]]]] = []
    dx = np.zeros_like(cache.inputs[0])
    for layer in reversed(range(len(stack))):
        x, dx = cache.inputs[layer], np.zeros_like(cache.inputs[layer])
        gates.insert(0, [])
        for k, cell in enumerate(stack[layer]):
            trace, states = cache.traces[layer][k], (state_h[layer, k], state_c[layer, k])
            dz = _run_backward(cell, activations, trace, dy[:, :, k], *states, cache.batch_sizes, reverse=k == 1)
            dx += sum((dz[name] @ cell.gate(name).w for name in GATES), start=np.zeros_like(dx))
            gates[0].append({name: _gate_gradients(name, dz[name], x, trace, wanted) for name in GATES})
        if layer > 0:
            dy = (dx if cache.dropout is None else dx * cache.dropout.factor(layer)).reshape(dy.shape)
    return Gradients(
        dx=dx if "dx" in wanted else None,
        dh0=state_h if "dh0" in wanted else None,
        dc0=state_c if "dc0" in wanted else None,
        gates=gates,
    )


def _run_backward(
    cell: Cell,
    activations: Activations,
    trace: Trace,
    dy: Array,
    dh: Array,
    dc: Array,
    sizes: list[int],
    *,
    reverse: bool,
) -> dict[str, Array]:
    """dz (T, N, H) of every gate; turns dh, dc (N, H) from final-state gradients to initial-state ones, in place."""
    dz = {name: np.zeros_like(dy) for name in GATES}
    for t, rows in reversed(list(_order(sizes, reverse=reverse))):
        step = Trace(
            trace.h[t, rows],
            trace.c[t, rows],
            trace.c_after[t, rows],
            {name: trace.z[name][t, rows] for name in GATES},
        )
        step_dz, dc_before = _step_backward(cell, activations, step, dh[rows] + dy[t, rows], dc[rows])
        for name in GATES:
            dz[name][t, rows] = step_dz[name]
        dc[rows] = dc_before
        dh[rows] = sum(step_dz[name] @ cell.gate(name).u for name in GATES)
    return dz


def _step_backward(
    cell: Cell, activations: Activations, step: Trace, dh: Array, dc: Array
) -> tuple[dict[str, Array], Array]:
    """dz of every gate and dc before the step, from dh and dc after it; all arrays are rows (n, H) of one step."""
    z, c, c_after = step.z, step.c, step.c_after
    i, f, g, o = (activation.forward(activations.gate(name), z[name]) for name in GATES)
    fh = activation.forward(activations.hidden, c_after)

    dz = {"output": activation.backward(activations.output, dh * fh, x=z["output"])}
    dct = dc + activation.backward(activations.hidden, dh * o, x=c_after) + _through_peephole(cell.output, dz["output"])
    dz["input"] = activation.backward(activations.input, dct * g, x=z["input"])
    dz["forget"] = activation.backward(activations.forget, dct * c, x=z["forget"])
    dz["candidate"] = activation.backward(activations.candidate, dct * i, x=z["candidate"])

    dc_before = dct * f
    for name in GATES[:3]:
        dc_before = dc_before + _through_peephole(cell.gate(name), dz[name])
    return dz, dc_before


def _through_peephole(gate: Gate, dz: Array) -> Array:
    """P^T z, or 0."""
    return np.zeros_like(dz) if gate.p is None else dz @ gate.p


def _gate_gradients(name: str, dz: Array, x: Array, trace: Trace, wanted: Set[str]) -> dict[str, Array]:
    """The wanted gradients of one gate: products of z with what each of its matrices was multiplied by."""
    gradients: dict[str, Array] = {}
    seen = {"dw": x, "du": trace.h, "dp": trace.c_after if name == "output" else trace.c}
    for gradient, vectors in seen.items():
        if gradient in wanted:
            gradients[gradient] = np.tensordot(dz, vectors, axes=((0, 1), (0, 1)))
    if "db" in wanted:
        gradients["db"] = np.sum(dz, axis=(0, 1))
    return gradients


# ---------------------------------------------------------------------------------------------------------------------
# Shared


def _sizes(batch_sizes: Sequence[int] | None, steps: int, batch: int) -> list[int]:
    """The number of samples at every step."""
    if batch_sizes is None:
        return [batch] * steps
    sizes = [int(size) for size in batch_sizes]
    if len(sizes) != steps or any(not 0 <= size <= batch for size in sizes):
        raise ValueError(
            f"lstm: batch_sizes must list one size from 0 to {batch} for each of {steps} steps; got {sizes}."
        )
    return sizes


def _present(sizes: list[int], batch: int) -> Mask:
    """(T, N, 1): whether a sample takes part in a step."""
    present: Mask = np.arange(batch) < np.asarray(sizes, dtype=np.int64)[:, np.newaxis]
    return present[..., np.newaxis]


def _order(sizes: list[int], *, reverse: bool) -> Iterator[tuple[int, slice]]:
    """The steps in the order of a direction, each with the rows of the samples that take part."""
    steps = range(len(sizes))
    return ((t, slice(0, sizes[t])) for t in (reversed(steps) if reverse else steps))


def _states(given: Array | None, stack: Stack, batch: int) -> Array:
    """A copy of states (L, R, N, H) to be changed step by step, or zeros."""
    if given is not None:
        return np.array(given, dtype=np.float64)
    return np.zeros((len(stack), len(stack[0]), batch, len(stack[0][0].input.u)))


def _joined(y: Array) -> Array:
    """(T, N, R*H): both directions side by side."""
    steps, batch, directions, hidden = y.shape
    return y.reshape(steps, batch, directions * hidden)
