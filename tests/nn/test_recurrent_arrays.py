"""Recurrent modules and others on plain arrays, with states, lengths and structures, as inside a network."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from helpers import Array
from networks import numbers
from openbnns import nn

KINDS: dict[str, Any] = {
    "LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN, "RNN relu": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k),
}  # fmt: skip


class Inside(nn.Module):
    """A recurrent module inside a network that gives everything."""

    def __init__(self, cells: Any) -> None:
        super().__init__()
        self.cells = cells

    def forward(self, x: nn.Value, lengths: nn.Value, *states: nn.Value) -> Any:
        given: Any = None
        if states:
            kinds = [tuple(states[i : i + self.count]) for i in range(0, len(states), self.count)]
            given = kinds[0] if len(kinds) == 1 else tuple(kinds)
        y, rest = self.cells(x, given, lengths)
        return y, rest

    @property
    def count(self) -> int:
        return len(self.cells._cells())


def flat(states: Any) -> list[Array]:
    """Every (N, H) of PyTorch's states."""
    return [part for kind in (states if isinstance(states, tuple) else (states,)) for part in kind]


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("kind", list(KINDS))
def test_the_same_as_inside_a_network(kind: str, both: bool, layers: int) -> None:
    n, t, i, h = 3, 5, 4, 6
    cells = KINDS[kind](i, h, num_layers=layers, bidirectional=both)
    count = layers * (2 if both else 1)
    x, lengths = numbers(n, t, i), np.array([5, 1, 3])
    states = [numbers(count, n, h, seed=s) for s in range(1, 1 + len(cells.state_names))]
    hx: Any = states[0] if len(states) == 1 else tuple(states)
    y, rest = cells(x, hx, lengths)
    assert type(y) is np.ndarray and y.shape == (n, t, h * (2 if both else 1))
    assert [s.shape for s in (rest if isinstance(rest, tuple) else (rest,))] == [(count, n, h)] * len(states)
    dy, dstates = numbers(*y.shape, seed=7), [numbers(count, n, h, seed=8 + s) for s in range(len(states))]
    dx, dhx = cells.backward((dy, dstates[0] if len(states) == 1 else tuple(dstates)))
    gradients = {name: p.grad.copy() for name, p in cells.named_parameters()}

    net = Inside(cells)
    flat_states = [part for state in states for part in state]
    expected = net(x, lengths, *flat_states)
    np.testing.assert_array_equal(y, expected[0])
    inner = expected[1] if len(states) > 1 else (expected[1],)
    np.testing.assert_array_equal(np.stack(flat(rest)), np.stack([part for k in inner for part in k]))
    form = tuple(tuple(d) for d in dstates)
    expected_gradients = net.backward((dy, form if len(states) > 1 else form[0]))
    np.testing.assert_allclose(dx, expected_gradients[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(np.stack(flat(dhx)), np.stack(expected_gradients[2:]), rtol=1e-6, atol=1e-6)
    for name, p in cells.named_parameters():
        np.testing.assert_allclose(gradients[name], p.grad, rtol=1e-5, atol=1e-6)


def test_states_go_on_from_call_to_call() -> None:
    for make in KINDS.values():
        cells = make(3, 4, num_layers=2).eval()
        x = numbers(2, 6, 3)
        whole, _ = cells(x)
        first, states = cells(x[:, :2])
        second, _ = cells(x[:, 2:], states)
        np.testing.assert_allclose(np.concatenate([first, second], 1), whole, rtol=1e-6, atol=4.8e-7)  # 4 ulp of 1


def test_results_are_arrays_that_can_be_taken_apart() -> None:
    x = numbers(2, 5, 3)
    lstm = nn.LSTM(3, 4)
    y = lstm(x)
    output, (h, c) = y  # of a batch of two, too
    assert output.shape == y.shape == (2, 5, 4) and h.shape == c.shape == (1, 2, 4)
    np.testing.assert_allclose(h[-1], output[:, -1], rtol=1e-6)
    assert y[0].shape == (2, 5, 4) and y[1][0] is h and len(y) == 2
    np.testing.assert_array_equal(y[:, -1], output[:, -1])
    for made in (y + 1, y.copy(), np.tanh(y), y[:1]):  # what is computed from it is a plain array
        assert len(list(made)) == len(made) == made.shape[0]
    assert type(pickle.loads(pickle.dumps(y))) is np.ndarray
    dx = lstm.backward(np.ones_like(output))
    assert dx.shape == x.shape and lstm.weight_ih_l0.grad.any()
    only = nn.GRU(3, 4, last_only=True)
    last, h = only(x)
    np.testing.assert_array_equal(last, h[0])
    assert nn.Sequential(nn.LSTM(3, 4), nn.Linear(4, 2))(x).shape == (2, 5, 2)  # inside, it is the output


def test_lengths_by_name() -> None:
    lstm = nn.LSTM(3, 4)
    x = numbers(3, 5, 3)
    y, (h, _) = lstm(x, lengths=np.array([2, 5, 1]))
    assert not y[0, 2:].any() and not y[2, 1:].any() and y[1].all()
    np.testing.assert_array_equal(h[0, 0], y[0, 1])
    dx = lstm.backward(np.ones_like(y))
    assert not dx[0, 2:].any() and dx[0, :2].all()
    np.testing.assert_allclose(lstm(x[:1, :2])[0], y[:1, :2], rtol=1e-6, atol=1e-7)


def test_cells_on_arrays() -> None:
    x, h, c = numbers(3, 2), numbers(3, 4, seed=1), numbers(3, 4, seed=2)
    cell = nn.LSTMCell(2, 4)
    after = cell(x, (h, c))
    assert [a.shape for a in after] == [(3, 4), (3, 4)] and not np.array_equal(after[0], cell(x)[0])
    lstm = nn.LSTM(2, 4)
    lstm.load_state_dict({f"{name}_l0": array for name, array in cell.state_dict().items()})
    np.testing.assert_allclose(lstm(x[:, None], (h[None], c[None]))[0][:, 0], after[0], rtol=1e-6)
    gru = nn.GRUCell(2, 4)
    assert gru(x, h).shape == (3, 4) and gru(x, None).shape == (3, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.LSTM(3, 4)(numbers(2, 5, 3), numbers(1, 2, 4)), r"hx must be \(h_0, c_0\), two states"),
        (lambda: nn.LSTM(3, 4)(numbers(2, 5, 3), (numbers(2, 1, 4), numbers(2, 1, 4))),
         r"h_0 has shape \(2, 1, 4\), but \(1, 2, 4\) is needed: layers \* directions, then the batch"),
        (lambda: nn.GRU(3, 4)(numbers(2, 5, 3), numbers(1, 2, 5)), r"h_0 has shape \(1, 2, 5\)"),
        (lambda: nn.GRU(3, 4)(numbers(2, 5, 3), lengths=np.array([1, 9])), "sample 1 has length 9"),
        (lambda: nn.GRU(3, 4)(numbers(2, 5, 3), lengths=np.array([1, 2, 3])), "inputs have 2, 3 samples"),
        (lambda: nn.GRU(3, 4)(numbers(5, 3)), r"needs samples \(length, features\)"),
        (lambda: nn.GRU(3, 4)(numbers(2, 5, 3), length=3), "Inputs are named as the arguments of forward"),
        (lambda: nn.GRU(3, 4).backward(numbers(2, 5, 4)), "there is no forward pass"),
    ],
)  # fmt: skip
def test_messages(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError, RuntimeError), match=message):
        call()


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: Any, mask: Any = None, extra: Any = None) -> Any:
        a, b = x["a"], x["b"][0]
        y = self.linear(a) * b
        return y if extra is None else y + extra


def test_any_module_on_structures_of_arrays() -> None:
    net = Pair()
    a, b, extra = numbers(4, 3), numbers(4, 2, seed=1), numbers(4, 2, seed=2)
    y = net({"a": a, "b": (b,)}, extra=extra)
    product = a @ net.linear.weight.data.T + net.linear.bias.data
    np.testing.assert_allclose(y, product * b + extra, rtol=1e-5, atol=1e-6)
    da, db, de = net.backward(np.ones_like(y))
    np.testing.assert_allclose(db, product, rtol=1e-5, atol=1e-6)
    assert da.shape == a.shape and (de == 1).all()
    np.testing.assert_allclose(net({"a": a, "b": (b,)}), product * b, rtol=1e-5, atol=1e-6)
    net.linear.weight.data[:] = 0  # calls of both forms see it
    np.testing.assert_allclose(net({"a": a, "b": (b,)}, extra=extra), net.linear.bias.data * b + extra, rtol=1e-6)
    assert len(list(net.modules())) == 2 and list(net.state_dict()) == ["linear.weight", "linear.bias"]
    again = pickle.loads(pickle.dumps(net))
    np.testing.assert_array_equal(again({"a": a, "b": (b,)}), net({"a": a, "b": (b,)}))


def test_dropout_between_layers_follows_the_mode() -> None:
    lstm = nn.LSTM(3, 4, num_layers=2, dropout=0.5)
    x = numbers(2, 5, 3)
    assert not np.array_equal(lstm(x)[0], lstm(x)[0])
    lstm.eval()
    np.testing.assert_array_equal(lstm(x)[0], lstm(x)[0])
    with pytest.raises(RuntimeError, match="there is no forward pass in training mode"):
        lstm.backward(numbers(2, 5, 4))
