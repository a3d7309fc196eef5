"""LSTM of the reference engine, by definition and against finite differences."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from differences import assert_gradient, generator
from openbnns.parameters.activation import Activation
from openbnns.parameters.activation import ActivationKind as A
from openbnns.parameters.lstm import DEFAULT_ACTIVATIONS, GATES, Activations
from openbnns.reference import activation, lstm
from openbnns.reference.activation import Array
from openbnns.reference.lstm import Cell, Dropout, Gate, Gradients

ALL = frozenset({"dx", "dh0", "dc0", "dw", "du", "dp", "db"})

CUSTOM = Activations(
    Activation(A.SOFTPLUS, 0.5, 0.8),
    Activation(A.SOFTMAX),
    Activation(A.GELU),
    Activation(A.SCALED_TANH, 0.9, 0.7),
    Activation(A.SILU),
)


@dataclass(frozen=True)
class Case:
    """Sizes and switches of an LSTM."""

    steps: int = 4
    batch: int = 3
    inputs: int = 5
    hidden: int = 3
    layers: int = 1
    directions: int = 1
    peepholes: bool = False
    bias: bool = True
    states: bool = True
    activations: Activations = DEFAULT_ACTIVATIONS
    dropout: float = 0.0
    batch_sizes: tuple[int, ...] | None = None


CASES = {
    "one layer": Case(),
    "no bias, no states": Case(bias=False, states=False),
    "one of everything": Case(1, 1, 1, 1),
    "two layers": Case(layers=2),
    "as wide as it reads": Case(inputs=3, layers=3),
    "bidirectional": Case(directions=2),
    "two layers bidirectional": Case(layers=2, directions=2),
    "peepholes": Case(peepholes=True),
    "custom activations": Case(layers=2, directions=2, activations=CUSTOM, peepholes=True),
    "dropout": Case(layers=3, directions=2, dropout=0.4),
    "packed": Case(batch_sizes=(3, 2, 2, 1)),
    "packed, empty last step": Case(layers=2, directions=2, batch_sizes=(3, 1, 1, 0)),
    "everything": Case(
        5, 4, 3, 2, layers=3, directions=2, peepholes=True, dropout=0.3, batch_sizes=(4, 4, 3, 1, 1), activations=CUSTOM
    ),
    "no steps": Case(steps=0, layers=2),
    "empty batch": Case(batch=0, layers=2, directions=2),
}


@dataclass(frozen=True)
class Problem:
    """The arrays of a case and the gradients that arrive."""

    case: Case
    x: Array
    stack: list[list[Cell]]
    h0: Array | None
    c0: Array | None
    dropout: Dropout | None

    def forward(self) -> lstm.Result:
        return lstm.forward(
            self.x, self.stack, self.h0, self.c0, self.case.activations, self.dropout, self.case.batch_sizes
        )

    def outputs(self) -> Array:
        """y, h and c one after the other."""
        result = self.forward()
        return np.concatenate([result.y.ravel(), result.h.ravel(), result.c.ravel()])

    def backward(self, v: Array, wanted: frozenset[str] | set[str]) -> Gradients:
        """The gradients for those v of `outputs`."""
        result = self.forward()
        dy, dh, dc = np.split(v, np.cumsum([result.y.size, result.h.size]))
        return lstm.backward(
            self.stack,
            result.cache,
            wanted,
            dy.reshape(result.y.shape),
            dh.reshape(result.h.shape),
            dc.reshape(result.c.shape),
            self.case.activations,
        )


def problem(c: Case, seed: int = 0) -> Problem:
    rng = generator(seed, 23)
    normal = rng.standard_normal

    def gate(width: int) -> Gate:
        return Gate(
            normal((c.hidden, width)),
            normal((c.hidden, c.hidden)),
            0.5 * normal((c.hidden, c.hidden)) if c.peepholes else None,
            normal(c.hidden) if c.bias else None,
        )

    widths = [c.inputs] + [c.directions * c.hidden] * (c.layers - 1)
    stack = [[Cell(*(gate(width) for _ in GATES)) for _ in range(c.directions)] for width in widths]
    states = (c.layers, c.directions, c.batch, c.hidden)
    keep = rng.random((c.layers - 1, c.steps, c.batch, c.directions * c.hidden)) >= c.dropout
    return Problem(
        c,
        normal((c.steps, c.batch, c.inputs)),
        stack,
        normal(states) if c.states else None,
        normal(states) if c.states else None,
        Dropout(c.dropout, keep) if c.dropout else None,
    )


def plain_lstm(p: Problem) -> tuple[Array, Array, Array]:
    """y, h, c, one sample at a time: its own steps only, by the formulas of a cell."""
    c, f = p.case, p.case.activations
    sizes = c.batch_sizes if c.batch_sizes is not None else (c.batch,) * c.steps
    y = np.zeros((c.steps, c.batch, c.directions, c.hidden))
    final_h, final_c = (np.zeros((c.layers, c.directions, c.batch, c.hidden)) for _ in range(2))

    def apply(function: Activation, z: Array) -> Array:
        return activation.forward(function, z[np.newaxis])[0]

    for n in range(c.batch):
        own = [t for t in range(c.steps) if n < sizes[t]]
        sequence = {t: p.x[t, n] for t in own}
        for layer, cells in enumerate(p.stack):
            outputs = {t: np.zeros((c.directions, c.hidden)) for t in own}
            for k, cell in enumerate(cells):
                h = np.zeros(c.hidden) if p.h0 is None else p.h0[layer, k, n]
                cs = np.zeros(c.hidden) if p.c0 is None else p.c0[layer, k, n]
                for t in reversed(own) if k == 1 else own:

                    def z(g: Gate, look: Array, x: Array = sequence[t], h: Array = h) -> Array:
                        peephole = np.zeros(c.hidden) if g.p is None else g.p @ look
                        return g.w @ x + g.u @ h + peephole + (0.0 if g.b is None else g.b)

                    i, forget = apply(f.input, z(cell.input, cs)), apply(f.forget, z(cell.forget, cs))
                    candidate = apply(f.candidate, z(cell.candidate, cs))
                    cs = forget * cs + i * candidate
                    h = apply(f.output, z(cell.output, cs)) * apply(f.hidden, cs)
                    outputs[t][k] = h
                final_h[layer, k, n], final_c[layer, k, n] = h, cs
            for t in own:
                sequence[t] = outputs[t].ravel()
                if p.dropout is not None and layer + 1 < c.layers:
                    sequence[t] = sequence[t] * p.dropout.keep[layer, t, n] / (1.0 - p.dropout.rate)
                y[t, n] = outputs[t]
    return y, final_h, final_c


@pytest.mark.parametrize("c", CASES.values(), ids=CASES.keys())
def test_lstm_by_definition(c: Case) -> None:
    p = problem(c)
    result = p.forward()
    for actual, expected in zip((result.y, result.h, result.c), plain_lstm(p), strict=True):
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-13)


def check(
    p: Problem, wanted: str, get: Callable[[Gradients], Any], change: Callable[[Array], Problem], at: Array
) -> None:
    def gradient(v: Array) -> Array:
        result: Array = get(p.backward(v, {wanted}))
        return result

    assert_gradient(lambda value: change(value).outputs(), gradient, at)


@pytest.mark.parametrize("c", CASES.values(), ids=CASES.keys())
def test_lstm_gradients_of_inputs_and_states(c: Case) -> None:
    p = problem(c, 1)
    check(p, "dx", lambda g: g.dx, lambda x: replace(p, x=x), p.x)
    zeros = np.zeros((c.layers, c.directions, c.batch, c.hidden))
    check(p, "dh0", lambda g: g.dh0, lambda h: replace(p, h0=h), zeros if p.h0 is None else p.h0)
    check(p, "dc0", lambda g: g.dc0, lambda s: replace(p, c0=s), zeros if p.c0 is None else p.c0)


def with_parameters(p: Problem, kind: str, values: Array) -> Problem:
    """p with all W, U, P or b taken from `values`, laid out one after the other as `parameters` does."""
    parts = iter(np.split(values, np.cumsum([part.size for part in parameters(p, kind)])))

    def changed(gate: Gate, like: Array) -> Gate:
        return replace(gate, **{kind: next(parts).reshape(like.shape)})

    likes = iter(parameters(p, kind))
    stack = [[Cell(*(changed(cell.gate(name), next(likes)) for name in GATES)) for cell in cells] for cells in p.stack]
    return replace(p, stack=stack)


def parameters(p: Problem, kind: str) -> list[Array]:
    """All W, U, P or b of all layers, directions and gates; those that are absent count as 0."""
    absent = {"p": np.zeros((p.case.hidden, p.case.hidden)), "b": np.zeros(p.case.hidden)}
    gates = [cell.gate(name) for cells in p.stack for cell in cells for name in GATES]
    return [absent[kind] if getattr(gate, kind) is None else getattr(gate, kind) for gate in gates]


@pytest.mark.parametrize("kind", ["w", "u", "p", "b"])
@pytest.mark.parametrize("c", CASES.values(), ids=CASES.keys())
def test_lstm_gradients_of_parameters(c: Case, kind: str) -> None:
    p = problem(c, 2)

    def flat(arrays: list[Array]) -> Array:
        return np.concatenate([array.ravel() for array in arrays])

    def get(g: Gradients) -> Array:
        by_gate = [cell[name] for cells in g.gates for cell in cells for name in GATES]
        for gradients, like in zip(by_gate, parameters(p, kind), strict=True):
            assert set(gradients) == {f"d{kind}"} and gradients[f"d{kind}"].shape == like.shape
        return flat([gradients[f"d{kind}"] for gradients in by_gate])

    check(p, f"d{kind}", get, lambda values: with_parameters(p, kind, values), flat(parameters(p, kind)))


def test_lstm_returns_what_is_wanted() -> None:
    p = problem(CASES["two layers bidirectional"])
    v = generator(26).standard_normal(p.outputs().shape)
    everything = p.backward(v, ALL)
    for name in ("dx", "dh0", "dc0"):
        alone = p.backward(v, {name})
        np.testing.assert_array_equal(getattr(alone, name), getattr(everything, name))
        assert [getattr(alone, other) is not None for other in ("dx", "dh0", "dc0")].count(True) == 1
        assert all(not gate for layer in alone.gates for cell in layer for gate in cell.values())
    for name in ("dw", "du", "dp", "db"):
        alone = p.backward(v, {name})
        assert alone.dx is None and alone.dh0 is None and alone.dc0 is None
        for layer, cells in enumerate(alone.gates):
            for k, cell in enumerate(cells):
                for gate in GATES:
                    assert set(cell[gate]) == {name}
                    np.testing.assert_array_equal(cell[gate][name], everything.gates[layer][k][gate][name])


def test_lstm_gradients_that_do_not_arrive_are_zero() -> None:
    p = problem(CASES["two layers bidirectional"])
    result = p.forward()
    dy = generator(27).standard_normal(result.y.shape)
    zeros = np.zeros_like(result.h)
    expected = lstm.backward(p.stack, result.cache, {"dx"}, dy, zeros, zeros)
    np.testing.assert_array_equal(lstm.backward(p.stack, result.cache, {"dx"}, dy).dx, expected.dx)
    nothing = lstm.backward(p.stack, result.cache, {"dx", "dh0"})
    assert nothing.dx is not None and not np.any(nothing.dx) and not np.any(nothing.dh0)


def test_lstm_state_gradients_alone() -> None:
    """A gradient of the final states reaches the initial ones without any dy."""
    p = problem(CASES["one layer"])
    result = p.forward()
    dh = generator(28).standard_normal(result.h.shape)
    only = lstm.backward(p.stack, result.cache, {"dh0", "dc0"}, dh=dh)
    last_step = np.zeros_like(result.y)
    last_step[-1, :, 0] = dh[0, 0]
    through_output = lstm.backward(p.stack, result.cache, {"dh0", "dc0"}, last_step)
    np.testing.assert_allclose(only.dh0, through_output.dh0)
    np.testing.assert_allclose(only.dc0, through_output.dc0)


@pytest.mark.parametrize("case", ["packed", "packed, empty last step", "everything"])
def test_lstm_never_reads_steps_that_a_sample_does_not_have(case: str) -> None:
    p = problem(CASES[case])
    sizes = p.case.batch_sizes
    assert sizes is not None
    absent = np.arange(p.case.batch) >= np.array(sizes)[:, np.newaxis]  # (T, N)
    spoilt = replace(p, x=np.where(absent[..., np.newaxis], np.nan, p.x))
    result, other = p.forward(), spoilt.forward()
    np.testing.assert_array_equal(other.y, result.y)
    assert not np.any(result.y[absent])

    dy = generator(29).standard_normal(result.y.shape)
    spoilt_dy = np.where(absent[..., np.newaxis, np.newaxis], np.nan, dy)
    expected = lstm.backward(p.stack, result.cache, ALL, dy, activations=p.case.activations)
    actual = lstm.backward(p.stack, other.cache, ALL, spoilt_dy, activations=p.case.activations)
    assert expected.dx is not None and actual.dx is not None
    np.testing.assert_array_equal(actual.dx, expected.dx)
    assert not np.any(expected.dx[absent])
    for name in GATES:
        for kind in ("dw", "du", "dp", "db"):
            np.testing.assert_array_equal(actual.gates[0][0][name][kind], expected.gates[0][0][name][kind])


def test_lstm_final_states() -> None:
    """Direction 0 ends at each sample's last step, direction 1 at step 0."""
    p = problem(CASES["everything"])
    result = p.forward()
    last = [max(t for t, size in enumerate(p.case.batch_sizes or ()) if n < size) for n in range(p.case.batch)]
    for n, t in enumerate(last):
        np.testing.assert_array_equal(result.h[-1, 0, n], result.y[t, n, 0])
        np.testing.assert_array_equal(result.h[-1, 1, n], result.y[0, n, 1])


def test_lstm_batch_is_one_sample_at_a_time() -> None:
    p = problem(CASES["two layers bidirectional"])
    assert p.h0 is not None and p.c0 is not None
    y = p.forward().y
    for n in range(p.case.batch):
        one = slice(n, n + 1)
        alone = lstm.forward(p.x[:, one], p.stack, p.h0[:, :, one], p.c0[:, :, one])
        np.testing.assert_allclose(alone.y, y[:, one], rtol=1e-12)


def test_lstm_leaves_its_inputs_alone() -> None:
    p = problem(CASES["everything"])
    assert p.h0 is not None and p.c0 is not None
    before = [array.copy() for array in (p.x, p.h0, p.c0)]
    v = np.ones(p.outputs().shape)
    p.backward(v, ALL)
    for array, copy in zip((p.x, p.h0, p.c0), before, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert np.all(v == 1.0)


@pytest.mark.parametrize("sizes", [(3, 2, 1), (4, 3, 2, 1), (3, 2, 1, -1)])
def test_lstm_refuses_batch_sizes_that_do_not_fit(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="one size from 0 to 3 for each of 4 steps"):
        problem(Case(batch_sizes=sizes)).forward()


def test_lstm_observed() -> None:
    weights = {"input": 1.0, "forget": 0.5, "candidate": 1.0, "output": 2.0}
    cell = Cell(**{name: Gate(np.array([[w]]), np.zeros((1, 1))) for name, w in weights.items()})
    result = lstm.forward(np.ones((1, 1, 1)), [[cell]])
    assert result.c.item() == pytest.approx(0.5567699411459397, abs=1e-12)
    assert result.h.item() == result.y.item() == pytest.approx(0.4453106839644847, abs=1e-12)
    gradients = lstm.backward([[cell]], result.cache, ALL, np.ones((1, 1, 1, 1)))
    expected = {
        "input": 0.09817728525690424,
        "candidate": 0.20130403417146628,
        "output": 0.05308233473623436,
        "forget": 0.0,
    }
    for name, gradient in expected.items():
        assert gradients.gates[0][0][name]["dw"].item() == pytest.approx(gradient, abs=1e-12)
    assert gradients.dx is not None and gradients.dx.item() == pytest.approx(0.40564598890083925, abs=1e-12)
