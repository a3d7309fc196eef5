"""LSTM, GRU and RNN of nn: values and gradients by the formulas, states, lengths, errors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import openbnns
from helpers import numbers
from openbnns import nn
from recurrent_formulas import layers

KINDS: dict[str, Any] = {
    "LSTM": nn.LSTM,
    "GRU": nn.GRU,
    "tanh": nn.RNN,
    "relu": lambda *sizes, **options: nn.RNN(*sizes, nonlinearity="relu", **options),
}
N, T, I = 5, 6, 3  # noqa: E741
LENGTHS = np.array([6, 1, 4, 6, 2])


class Whole(nn.Module):
    """All that a recurrent layer takes and gives."""

    def __init__(self, layer: Any, states: bool, lengths: bool) -> None:
        super().__init__()
        self.layer, self.states, self.lengths = layer, states, lengths

    def forward(self, x: Any, *more: Any) -> Any:
        rest = list(more)
        lengths = rest.pop() if self.lengths else None
        given = (tuple(rest) if len(rest) > 1 else rest[0]) if self.states else None
        y, final = self.layer(x, given, lengths=lengths)
        return y, final


OPTIONS = [
    {},
    {"bias": False},
    {"num_layers": 2, "bidirectional": True},
    {"bidirectional": True, "bias": False},
    {"num_layers": 3},
]


GIVEN = ["", "states", "lengths", "states and lengths"]
HIDDEN = [1, 5, 17, 33]
# All options with everything that can be given, and each of them with every second size.
COMBINATIONS = [
    (given, options, hidden)
    for (i, given), (j, options), (k, hidden) in itertools.product(*map(enumerate, (GIVEN, OPTIONS, HIDDEN)))
    if (i + j + k) % 2 == 0
]


@pytest.mark.parametrize(("given", "options", "hidden"), COMBINATIONS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_formulas(kind: str, given: str, options: dict[str, Any], hidden: int) -> None:
    check_formulas(kind, given, options, hidden)


@pytest.mark.parametrize("given", ["", "states and lengths"])
@pytest.mark.parametrize("kind", KINDS)
def test_formulas_on_the_reference_engine(kind: str, given: str) -> None:
    with openbnns.engine("reference"):
        check_formulas(kind, given, OPTIONS[2], 4)


def check_formulas(kind: str, given: str, options: dict[str, Any], hidden: int) -> None:
    """Values, and gradients along a random direction against differences of the formula."""
    with_states, with_lengths = "states" in given, "lengths" in given
    layer = KINDS[kind](hidden, **options)
    directions = 2 if options.get("bidirectional") else 1
    cells = directions * options.get("num_layers", 1)
    count = 2 if kind == "LSTM" else 1
    net = Whole(layer, with_states, with_lengths)
    x = numbers(N, T, I, seed=1)
    starts = [numbers(N, cells, hidden, seed=2 + i) for i in range(count)] if with_states else []
    lengths = LENGTHS if with_lengths else np.full(N, T)
    inputs = [x, *starts, *([LENGTHS] if with_lengths else [])]
    net.build(*(array.shape[1:] for array in inputs), seed=3)
    for i, parameter in enumerate(net.parameters()):
        parameter.data = numbers(*parameter.shape, seed=10 + i) / np.sqrt(parameter.shape[-1])
    result = net(*inputs)
    y, final = result[0], [result[1]] if count == 1 else list(result[1])

    arrays = {"x": x, **{f"s{i}": s for i, s in enumerate(starts)}}
    arrays |= {name: parameter.data for name, parameter in layer.named_parameters()}

    def formula(values: dict[str, Any]) -> list[Any]:
        zeros = np.zeros((cells, N, hidden))
        states = [values[f"s{i}"].swapaxes(0, 1) if starts else zeros for i in range(count)]
        outputs, ends = layers(kind, values["x"], values, lengths, states, directions)
        return [outputs, *ends]

    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    expected = formula(wide)
    np.testing.assert_allclose(y, expected[0], rtol=2e-5, atol=2e-5)
    for ours, theirs in zip(final, expected[1:], strict=True):
        np.testing.assert_allclose(np.stack(ours), theirs, rtol=2e-5, atol=2e-5)
    for n, end in enumerate(lengths):
        assert not y[n, end:].any()

    random = np.random.default_rng(4)
    cotangents = [random.standard_normal(array.shape).astype(np.float32) for array in expected]
    ends = [tuple(array) for array in cotangents[1:]]
    gradients = net.backward((cotangents[0], ends[0] if count == 1 else tuple(ends)))
    ours = {"x": gradients[0]} if isinstance(gradients, tuple) else {"x": gradients}
    ours |= {f"s{i}": gradients[1 + i] for i in range(len(starts))}
    ours |= {name: parameter.grad for name, parameter in layer.named_parameters()}
    for n, end in enumerate(lengths):
        assert not ours["x"][n, end:].any()
    for name in wide:
        along = random.standard_normal(wide[name].shape)
        step = 1e-6
        ahead, back = (formula(wide | {name: wide[name] + sign * step * along}) for sign in (1, -1))
        slope = sum(np.vdot(v, a - b) for v, a, b in zip(cotangents, ahead, back, strict=True)) / (2 * step)
        size = np.linalg.norm(ours[name]) * np.linalg.norm(along)
        assert abs(np.vdot(ours[name], along) - slope) <= 2e-5 * size + 1e-5, name


@pytest.mark.parametrize("kind", KINDS)
def test_unused_outputs_and_frozen_parameters(kind: str) -> None:
    """Gradients of part of the outputs alone, and of part of the parameters, are those among all."""
    net = Whole(KINDS[kind](4, num_layers=2, bidirectional=True), False, False)
    x = numbers(N, T, I)
    _, final = net(x)
    shapes = [state.shape for state in (final if kind != "LSTM" else final[0])]
    d = tuple(numbers(*shape, seed=i) for i, shape in enumerate(shapes))
    nothing = tuple(None for _ in shapes)
    net(x)
    dx = net.backward((None, d if kind != "LSTM" else (d, nothing)))
    whole = [parameter.grad.copy() for parameter in net.parameters()]
    for i, parameter in enumerate(net.parameters()):
        parameter.requires_grad = i % 3 == 1
        parameter.grad[...] = 0
    net(x)
    np.testing.assert_array_equal(net.backward((None, d if kind != "LSTM" else (d, nothing))), dx)
    for i, (parameter, gradient) in enumerate(zip(net.parameters(), whole, strict=True)):
        np.testing.assert_array_equal(parameter.grad, gradient if i % 3 == 1 else np.zeros_like(gradient))


@pytest.mark.parametrize("kind", KINDS)
def test_padding_does_not_count(kind: str) -> None:
    """Not even as NaN, neither in values nor in gradients."""
    net = Whole(KINDS[kind](7, num_layers=2, bidirectional=True), False, True)
    x = numbers(N, T, I)
    clean = [
        np.asarray(part) for part in [net(x, LENGTHS)[0], net.backward((numbers(N, T, 14, seed=5), *_nothing(kind)))[0]]
    ]
    grads = [parameter.grad.copy() for parameter in net.parameters()]
    for n, end in enumerate(LENGTHS):
        x[n, end:] = np.nan
    again = [net(x, LENGTHS)[0], net.backward((numbers(N, T, 14, seed=5), *_nothing(kind)))[0]]
    for a, b in zip(clean, again, strict=True):
        np.testing.assert_array_equal(a, b)
    for parameter, gradient in zip(net.parameters(), grads, strict=True):
        np.testing.assert_array_equal(parameter.grad, gradient)


def _nothing(kind: str) -> tuple[Any, ...]:
    none = (None,) * 4
    return ((none, none),) if kind == "LSTM" else (none,)


@pytest.mark.parametrize("kind", KINDS)
def test_any_batch_and_number_of_threads(kind: str) -> None:
    """Samples do not depend on those beside them, and results not on the number of threads."""
    layer = KINDS[kind](40, bidirectional=True)
    x = numbers(33, 9, 8)
    y = layer(x)
    dx = layer.backward(numbers(*y.shape, seed=1))
    grads = [parameter.grad.copy() for parameter in layer.parameters()]
    np.testing.assert_allclose(np.concatenate([layer(x[:1]), layer(x[1:])]), y, rtol=1e-5, atol=1e-6)
    before = openbnns.get_num_threads()
    openbnns.set_num_threads(1)
    try:
        np.testing.assert_array_equal(layer(x), y)
        np.testing.assert_array_equal(layer.backward(numbers(*y.shape, seed=1)), dx)
        for parameter, gradient in zip(layer.parameters(), grads, strict=True):
            np.testing.assert_array_equal(parameter.grad, gradient)
    finally:
        openbnns.set_num_threads(before)


class Encoder(nn.Module):
    """One layer begins with the states that another ends with, and with a learned one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.GRU(4, num_layers=2), nn.GRU(4, num_layers=2)
        self.begin = nn.Parameter(numbers(2, 1, 4, seed=7))

    def forward(self, x: Any) -> Any:
        y, h = self.first(x, self.begin)
        z, h = self.second(y, h)
        return h.transpose(0, 1), z


def test_states_of_other_modules_and_learned_ones() -> None:
    net = Encoder()
    x = numbers(N, T, I)
    h, z = net(x)
    assert h.shape == (N, 2, 4)
    np.testing.assert_array_equal(h[:, 1], z[:, -1])
    d = numbers(N, 2, 4, seed=1)
    net.backward((d, None))
    slope = net.begin.grad.copy()
    along, step = numbers(2, 1, 4, seed=2), 1e-2
    values = []
    for sign in (1, -1):
        net.begin.data += sign * step * along
        values.append(np.vdot(net(x)[0].astype(np.float64), d))
        net.begin.data -= sign * step * along
    assert abs((values[0] - values[1]) / (2 * step) - np.vdot(slope, along)) < 2e-3 * np.abs(slope).sum()


def test_results_are_used_as_in_pytorch() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.gru = nn.LSTM(3, 4, num_layers=2, bidirectional=True), nn.GRU(8, 4)

        def forward(self, x: Any) -> Any:
            result = self.lstm(x)
            y, (h, c) = result
            assert result[0] is y and result[1][0] is h and len(result) == 2 and result.shape == y.shape
            assert len(h) == len(c) == 4 and str(h.shape) == "(4, N, 4)"
            assert [part.shape[1:] for part in h] == [(4,)] * 4
            states = self.gru(result)[1]
            assert states.squeeze(0) is states[0] is states[-1]
            return h[-2], h[-1], c.permute(1, 0, 2), states.squeeze(0), result

    forwards, backwards, cells, state, y = Net()(numbers(N, T, I))
    np.testing.assert_array_equal(forwards, y[:, -1, :4])
    np.testing.assert_array_equal(backwards, y[:, 0, 4:])
    assert cells.shape == (N, 4, 4) and state.shape == (N, 4)


@pytest.mark.parametrize("kind", KINDS)
def test_last_only_is_the_final_state(kind: str) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = KINDS[kind](4, bidirectional=True, last_only=True)

        def forward(self, x: Any, lengths: Any) -> Any:
            y, final = self.layer(x, lengths=lengths)
            return y, final[0] if kind == "LSTM" else final

    y, h = Net()(numbers(N, T, I), LENGTHS)
    np.testing.assert_array_equal(y, np.concatenate(h, 1))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "tanh"])
def test_dropout_between_layers(kind: str) -> None:
    layer = KINDS[kind](8, num_layers=2, dropout=0.5)
    x = numbers(N, T, I)
    assert not np.array_equal(layer(x), layer(x))
    layer.eval()
    np.testing.assert_array_equal(layer(x), layer(x))


class Lengths(nn.Module):
    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any, lengths: Any) -> Any:
        return self.layer(x, lengths=lengths)


@pytest.mark.parametrize("wrong", [0, -1, 7])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "tanh"])
def test_lengths_out_of_range(kind: str, wrong: int) -> None:
    net = Lengths(KINDS[kind](4))
    lengths = LENGTHS.copy()
    lengths[3] = wrong
    with pytest.raises(ValueError, match=rf"sample 3 has length {wrong}, but sequences have 1 to 6 steps"):
        net(numbers(N, T, I), lengths)


def test_lengths_of_whole_sequences_give_what_none_give() -> None:
    """The same program, with lengths that are shorter in between."""
    layer = nn.LSTM(4, bidirectional=True)
    net, plain, x = Lengths(layer), nn.Sequential(layer), numbers(N, T, I)
    whole, dy = np.full(N, T), numbers(N, T, 8, seed=3)
    net.train()
    for _ in range(2):
        y = net(x, whole)
        dx = net.backward(dy)[0]
        weights = layer.weight_hh_l0.grad.copy()
        short = net(x, LENGTHS)
        net.backward(dy)
        assert not short[1, 1:].any() and short[0].any()
        np.testing.assert_allclose(y, plain.train()(x), 1e-5, 1e-6)
        np.testing.assert_allclose(dx, plain.backward(dy), 1e-5, 1e-6)
        np.testing.assert_allclose(weights, layer.weight_hh_l0.grad, 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.GRU(), r"GRU takes \(hidden_size\) or \(input_size, hidden_size\)"),
        (lambda: nn.GRU(3, 0), "GRU: hidden_size is 0"),
        (lambda: nn.GRU(3, 4, dropout=1.5), "GRU: dropout is 1.5"),
        (lambda: nn.RNN(3, 4, batch_first=False), "RNN: batch_first is False"),
        (lambda: nn.RNN(3, 4, nonlinearity="sine"), "nonlinearity is 'sine'. Use 'tanh' or 'relu'"),
        (lambda: nn.LSTM(3, 4, proj_size=2), "no LSTM with projections"),
    ],
)
def test_bad_arguments(make: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


class Given(nn.Module):
    """A layer called with ``extra`` behind x."""

    def __init__(self, layer: Any, *extra: Any, **named: Any) -> None:
        super().__init__()
        self.layer, self.extra, self.named = layer, extra, named

    def forward(self, x: Any) -> Any:
        return self.layer(x, *self.extra, **self.named)


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (lambda: Given(nn.LSTM(4), np.zeros((1, 4), np.float32)), r"hx must be \(h_0, c_0\)"),
        (lambda: Given(nn.GRU(4), np.zeros((2, 4), np.float32)), r"h_0 must be .* a value \(N, 1, 4\)"),
        (lambda: Given(nn.GRU(4, num_layers=2), (np.zeros(4, np.float32),)), r"h_0 must be .* \(N, 2, 4\)"),
        (lambda: Given(nn.GRU(4), lengths=[6, 6]), "lengths must be one integer per sample, .* is a list"),
        (lambda: Given(nn.GRU(4), lengths=LENGTHS[:3]), r"lengths must be one integer per sample, .* shape \(3,\)"),
        (lambda: nn.GRU(2, 4), "GRU: made for 2 features, but its input has 3"),
    ],
)
def test_bad_calls(net: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        net()(numbers(N, T, I))


CELLS: dict[str, Any] = {
    "LSTM": nn.LSTMCell,
    "GRU": nn.GRUCell,
    "tanh": nn.RNNCell,
    "relu": lambda *sizes, **options: nn.RNNCell(*sizes, nonlinearity="relu", **options),
}


class Unrolled(nn.Module):
    """A cell along a sequence, step by step."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Any) -> Any:
        state, outputs = None, []
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
            outputs.append(state[0] if isinstance(state, tuple) else state)
        return nn.functional.stack(outputs, 1)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_cells_are_steps_of_layers(kind: str, bias: bool) -> None:
    layer, net = KINDS[kind](I, 5, bias=bias), Unrolled(CELLS[kind](5, bias=bias))
    x, dy = numbers(N, T, I), numbers(N, T, 5, seed=1)
    net.build((T, I))
    net.cell.load_state_dict({name[:-3]: parameter.data for name, parameter in layer.named_parameters()})
    np.testing.assert_allclose(net(x), layer(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(net.backward(dy), layer.backward(dy), rtol=1e-4, atol=1e-5)
    grads = {name: parameter.grad for name, parameter in net.cell.named_parameters()}
    for name, parameter in layer.named_parameters():
        np.testing.assert_allclose(grads[name[:-3]], parameter.grad, rtol=1e-4, atol=1e-5)


def test_bad_states_of_cells() -> None:
    with pytest.raises(ValueError, match=r"hx must be \(h, c\)"):
        Given(nn.LSTMCell(3, 4), np.zeros(4, np.float32))(numbers(N, 3))
    with pytest.raises(ValueError, match=r"a state must be a value \(N, 4\), .* \(5,\)"):
        Given(nn.GRUCell(3, 4), np.zeros(5, np.float32))(numbers(N, 3))
    with pytest.raises(ValueError, match="nonlinearity is 'sine'"):
        nn.RNNCell(3, 4, nonlinearity="sine")


@pytest.mark.parametrize("kind", KINDS)
def test_several_sequences_per_sample(kind: str) -> None:
    class Apart(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = KINDS[kind](I, 5)

        def forward(self, x: Any) -> Any:
            return self.layer(x.reshape(x.shape[0] * 3, T, I)).reshape(x.shape[0], 3, T, 5)

    net, x, dy = Apart(), numbers(N, 3, T, I), numbers(N, 3, T, 5, seed=1)
    y, dx = net(x), net.backward(dy)
    layer = net.layer
    np.testing.assert_allclose(y.reshape(-1, T, 5), layer(x.reshape(-1, T, I)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dx.reshape(-1, T, I), layer.backward(dy.reshape(-1, T, 5)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [*KINDS.values(), *CELLS.values()])
def test_parameters_exist_before_the_network_is_built(make: Any) -> None:
    layer = make(3, 4)
    shapes = [parameter.shape for parameter in layer.parameters()]
    optimizer = nn.SGD(layer.parameters(), lr=0.1)
    assert shapes[0][1] == 3 and len(optimizer.param_groups[0]["params"]) == len(shapes) == 4
