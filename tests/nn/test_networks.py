"""Networks: what they compute, their gradients, their memory and their messages."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import openbnns
from networks import NETWORKS, numbers
from openbnns import nn
from openbnns.graph import operations
from openbnns.graph.memory import Block, plan
from openbnns.nn import initialisers, losses
from openbnns.nn.recording import recorded_graph, recording_of

# Memory.


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 12), st.integers(0, 12)), max_size=25))
def test_blocks_that_live_together_do_not_overlap(raw: list[tuple[int, int, int]]) -> None:
    blocks = [Block(size, min(a, b), max(a, b)) for size, a, b in raw]
    total = plan(blocks)
    for i, one in enumerate(blocks):
        assert one.offset >= 0 and one.offset % 64 == 0 and one.offset + one.size <= total
        for other in blocks[:i]:
            if one.start <= other.end and other.start <= one.end and one.size and other.size:
                assert one.offset + one.size <= other.offset or other.offset + other.size <= one.offset


def test_memory_of_a_chain_is_shared() -> None:
    net = nn.Sequential(*(nn.Sequential(nn.Linear(256), nn.ReLU()) for _ in range(10))).build((256,), seed=0)
    one = 32 * 256 * 4
    inference = net.program(32, training=False).arena_bytes
    training = net.program(32, training=True).arena_bytes
    assert inference <= 4 * one  # input, and two buffers that take turns
    assert training <= 15 * one  # ten kept outputs, the input, and gradients that take turns


def test_results_do_not_depend_on_what_memory_held() -> None:
    net = nn.Sequential(nn.Conv2d(4, 3, padding=1), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3))
    x, dy = numbers(3, 2, 6, 6), numbers(3, 3, seed=1)
    first, dx = net(x), net.backward(dy)
    for program in recording_of(net, True).programs.values():
        program._memory.view(np.float32)[...] = np.nan
    np.testing.assert_array_equal(net(x), first)
    np.testing.assert_array_equal(net.backward(dy), dx)


# Values and gradients.


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_agree_with_finite_differences(name: str) -> None:
    """Along random directions, with a random cotangent, on the float64 engine; the network itself stores float32."""
    with openbnns.engine("reference"):
        net, shape = NETWORKS[name]()
        net.build(shape, seed=1)
        x = numbers(16, *shape)  # enough for statistics that do not hang on one sample
        v = numbers(*net(x).shape, seed=2).astype(np.float64)
        dx = net.backward(v)
        step = 5e-3
        points = [(x, dx)] + [(p.data, p.grad.copy()) for p in net.parameters()]
        for index, (array, gradient) in enumerate(points):
            u = numbers(*array.shape, seed=10 + index)
            start = array.copy()
            results = []
            for factor in (2, 1, -1, -2):
                array[...] = start + factor * step * u
                results.append(float(np.sum(v * net(x))))
            array[...] = start
            numeric = (8 * (results[1] - results[2]) - (results[0] - results[3])) / (12 * step)
            analytic = float(np.sum(gradient.astype(np.float64) * u))
            assert analytic == pytest.approx(numeric, rel=2e-3, abs=2e-3), (name, index)


@pytest.mark.parametrize("name", NETWORKS)
def test_engines_agree(name: str) -> None:
    results = []
    for engine in ("native", "reference"):
        with openbnns.engine(engine):
            net, shape = NETWORKS[name]()
            net.build(shape, seed=5)
            y = net(numbers(3, *shape))
            dx = net.backward(numbers(*y.shape, seed=1))
            results.append([y, dx, *(p.grad for p in net.parameters())])
    for native, reference in zip(*results, strict=True):
        np.testing.assert_allclose(native, reference, rtol=2e-5, atol=2e-6)


def test_accumulated_gradients_add_up() -> None:
    net = nn.Sequential(nn.Linear(3), nn.Tanh(), nn.Linear(2))
    x, dy = numbers(4, 5), numbers(4, 2, seed=1)
    net(x)
    net.backward(dy)
    once = [p.grad.copy() for p in net.parameters()]
    net(x)
    net.backward(dy, accumulate=True)
    for gradient, p in zip(once, net.parameters(), strict=True):
        np.testing.assert_allclose(p.grad, 2 * gradient, rtol=1e-6)


def test_one_sample_at_a_time_equals_the_batch() -> None:
    net = nn.Sequential(nn.Conv2d(3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2)).eval()
    x = numbers(5, 1, 6, 7)
    whole = net(x)
    parts = np.concatenate([net(x[i : i + 1]) for i in range(5)])
    np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-6)


def test_results_are_the_callers() -> None:
    net = nn.Sequential(nn.Linear(3))
    first = net(numbers(2, 4))
    kept = first.copy()
    net(numbers(2, 4, seed=9))
    np.testing.assert_array_equal(first, kept)


def test_dropout_in_training_and_not_at_inference() -> None:
    net = nn.Sequential(nn.Dropout(0.5))
    x = np.ones((4, 100), np.float32)
    y = net(x)
    assert set(np.unique(y)) == {0.0, 2.0}
    np.testing.assert_array_equal(net.backward(x), y)
    assert not np.array_equal(net(x), y)
    np.testing.assert_array_equal(net.eval()(x), x)


def test_embedding() -> None:
    net = nn.Sequential(nn.Embedding(10, 3, padding_idx=0), nn.Flatten(), nn.Linear(2))
    x = np.array([[1, 2, 0], [2, 2, 9]])
    net(x)
    assert net.backward(numbers(2, 2)) is None
    used = np.abs(net[0].weight.grad).sum(axis=1) > 0
    assert np.flatnonzero(used).tolist() == [1, 2, 9]
    with pytest.raises(ValueError, match="looks up integers"):
        nn.Sequential(nn.Linear(3), nn.Embedding(4, 2)).build((2,))
    with pytest.raises(openbnns.BNNSError, match="10"):
        net(np.array([[1, 2, 10]]))


def test_moving_statistics() -> None:
    net = nn.Sequential(nn.BatchNorm1d(momentum=0.25))
    x = numbers(50, 3) * 2 + 1
    net(x)
    np.testing.assert_allclose(net[0].running_mean, 0.25 * x.mean(0), rtol=1e-4)
    np.testing.assert_allclose(net[0].running_var, 0.75 + 0.25 * x.var(0), rtol=1e-4)
    y = net.eval()(x)
    np.testing.assert_allclose(y, (x - net[0].running_mean) / np.sqrt(net[0].running_var + 1e-5), rtol=1e-4, atol=1e-5)


# Fusing.


def test_convolution_normalization_and_activation_become_one() -> None:
    net = nn.Sequential(
        nn.Conv2d(4, 3), nn.BatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.Linear(3), nn.BatchNorm1d(), nn.Tanh()
    )
    net.build((1, 6, 6), seed=0)
    assert [len(op.modules) for op in recorded_graph(net).operations] == [3, 3]


def test_activations_are_fused_where_the_output_tells_the_slope() -> None:
    net = nn.Sequential(nn.Conv2d(2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4), nn.Tanh(), nn.Linear(4), nn.GELU())
    net.build((1, 5, 5), seed=0)
    assert [len(op.modules) for op in recorded_graph(net).operations] == [2, 2, 1, 1]


def test_gradients_of_inputs_that_nobody_asks_for_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[list[bool]] = []

    def observed(original: Any) -> Any:
        def backward(self: Any, x: Any, y: Any, dy: Any, dx: Any, dp: Any) -> Any:
            call = original(self, x, y, dy, dx, dp)

            def counted() -> None:
                computed.append([gradient is not None for gradient in dx])
                call()

            return counted

        return backward

    for kind in (operations.Linear, operations.Node):
        monkeypatch.setattr(kind, "backward", observed(kind.backward))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 2)

        def forward(self, x: nn.Value, scale: nn.Value) -> nn.Value:
            return self.two(self.one(x) * scale)

    net = Net().build((3,), (3,), seed=0)
    x, scale, dy = numbers(4, 3), numbers(4, 3, seed=2), numbers(4, 2, seed=1)
    net(x, scale)
    net.backward(dy)
    expected = [p.grad.copy() for p in net.parameters()]
    assert computed == [[True], [True, True], [True]]
    computed.clear()
    net.zero_grad()
    net(x, scale)
    net.backward(dy, input_gradient=False)
    assert computed == [[True], [True, False], [False]]
    for parameter, gradient in zip(net.parameters(), expected, strict=True):
        np.testing.assert_array_equal(parameter.grad, gradient)


def test_a_value_that_is_used_twice_is_not_fused_away() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.relu = nn.Linear(3), nn.ReLU()

        def forward(self, x: nn.Value) -> nn.Value:
            z = self.linear(x)
            return z + self.relu(z)

    net = Twice()
    x = numbers(4, 3)
    z = x @ net.build((3,), seed=0).linear.weight.data.T + net.linear.bias.data
    np.testing.assert_allclose(net(x), z + np.maximum(z, 0), rtol=1e-5)


# Sizes.


def test_sizes_may_be_given_or_inferred() -> None:
    inferred = nn.Sequential(nn.Conv2d(8, 3), nn.Flatten(), nn.Linear(5)).build((3, 6, 6), seed=1)
    given_ = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(128, 5)).build((3, 6, 6), seed=1)
    for a, b in zip(inferred.parameters(), given_.parameters(), strict=True):
        np.testing.assert_array_equal(a.data, b.data)


@pytest.mark.parametrize(
    ("network", "shape", "message"),
    [
        (nn.Sequential(nn.Linear(4, 2)), (3,), "Linear: made for 4 inputs, but its input has 3"),
        (nn.Sequential(nn.Conv2d(4, 3)), (7,), r"Conv2d: needs samples \(channels, height, width\), but gets \(7,\)"),
        (nn.Sequential(nn.Conv2d(4, 9)), (1, 5, 5), "leaves nothing with kernel"),
        (nn.Sequential(nn.Conv2d(4, 3, groups=3)), (6, 5, 5), "3 groups do not divide 6 input and 4 output"),
        (nn.Sequential(nn.MaxPool2d(7)), (1, 5, 5), "smaller than the window"),
        (nn.Sequential(nn.Reshape(3, 3)), (10,), "which do not fill"),
        (nn.Residual(nn.Linear(4)), (3,), "cannot be added to its output. Give a shortcut"),
        (nn.Concatenate(nn.Linear(2), nn.Linear(3), axis=1), (4,), "axis 1 is not one of"),
    ],
)
def test_sizes_that_do_not_fit(network: nn.Module, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        network.build(shape)


def test_bad_use() -> None:
    with pytest.raises(TypeError, match=r"part 1 is .*ReLU.*Call it to make one"):
        nn.Sequential(nn.Linear(2), nn.ReLU)
    net = nn.Sequential(nn.Linear(2))
    with pytest.raises(RuntimeError, match="sizes are not known yet"):
        net.state_dict()
    with pytest.raises(RuntimeError, match="no forward pass in training mode"):
        net.backward(np.zeros((1, 2)))
    net(numbers(3, 4))
    with pytest.raises(ValueError, match=r"output_gradient has shape \(3, 3\)"):
        net.backward(np.zeros((3, 3)))
    with pytest.raises(ValueError, match=r"input 0 has shape \(3, 5\), but the network is built for \(N, 4\)"):
        net(numbers(3, 5))
    with pytest.raises(ValueError, match="made for 4 inputs, but its input has 7"):
        net.build((7,))
    with pytest.raises(ValueError, match="at least one sample"):
        net(np.zeros((0, 4), np.float32))
    with pytest.raises(ValueError, match="array of numbers"):
        net(np.array([["a", "b", "c", "d"]]))
    net.eval()(numbers(3, 4))
    with pytest.raises(RuntimeError, match="no forward pass in training mode"):
        net.backward(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="There is no initialiser 'kaimin'"):
        nn.Sequential(nn.Linear(2, weight_init="kaimin")).build((2,))
    with pytest.raises(NotImplementedError, match="has no forward"):
        nn.Module().build((2,))
    for make in (lambda: nn.Linear(), lambda: nn.Conv2d(3), lambda: nn.Conv2d(1, 2, 3, 1, 0, 1, 1, True, "zeros", 5)):
        with pytest.raises(TypeError):
            make()
    for make in (
        lambda: nn.Linear(0),
        lambda: nn.Conv2d(4, (1, 2, 3)),
        lambda: nn.GELU("erf"),
        lambda: nn.MaxPool2d(2, padding=2),
    ):
        with pytest.raises(ValueError):
            make()


# Initial values and summary.


def test_initialisers() -> None:
    shape = (64, 32, 3, 3)
    source = np.random.RandomState(0)
    assert np.abs(initialisers.kaiming_uniform(shape, source)).max() == pytest.approx(np.sqrt(6 / 288), rel=0.01)
    assert initialisers.kaiming_normal(shape, source).std() == pytest.approx(np.sqrt(2 / 288), rel=0.02)
    assert np.abs(initialisers.xavier_uniform(shape, source)).max() == pytest.approx(np.sqrt(6 / (288 + 576)), rel=0.01)
    assert initialisers.xavier_normal(shape, source).std() == pytest.approx(np.sqrt(2 / (288 + 576)), rel=0.02)
    q = initialisers.orthogonal((4, 9), source)
    np.testing.assert_allclose(q @ q.T, np.eye(4), atol=1e-6)
    same = [nn.Sequential(nn.Linear(3)).build((4,), seed=7)[0].weight.data for _ in range(2)]
    np.testing.assert_array_equal(*same)


def test_summary_and_repr() -> None:
    net = nn.Sequential(nn.Conv2d(8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(10))
    assert "Conv2d(?, 8, kernel_size=(3, 3), padding=(1, 1))" in repr(net)
    text = net.build((1, 8, 8), seed=0).summary()
    assert "Conv2d + ReLU" in text and "(8, 4, 4)" in text and "1,370 parameters" in text


# Losses.


def test_losses_refuse_what_does_not_fit() -> None:
    scores = numbers(4, 3)
    with pytest.raises(ValueError, match=r"need class numbers of shape \(4,\)"):
        losses.CrossEntropyLoss()(scores, np.zeros((4, 2), np.int64))
    with pytest.raises(TypeError, match="Pass class numbers as integers"):
        losses.CrossEntropyLoss()(scores, np.zeros(4))
    with pytest.raises(ValueError, match=r"class number 3 is out of range.*0 to 2"):
        losses.CrossEntropyLoss()(scores, np.array([0, 1, 2, 3]))
    with pytest.raises(ValueError, match="class number -1 is out of range"):
        losses.CrossEntropyLoss()(scores, np.array([0, 1, 2, -1]))
    with pytest.raises(ValueError, match="targets have shape"):
        losses.MSELoss()(scores, np.zeros(4))
    with pytest.raises(ValueError, match="targets contain nan at"):
        losses.MSELoss()(scores, np.full((4, 3), np.nan))
    for make in (lambda: losses.HuberLoss(delta=0), lambda: losses.CrossEntropyLoss(label_smoothing=1.0)):
        with pytest.raises(ValueError):
            make()


@pytest.mark.parametrize(
    ("make", "same_as"),
    [
        (lambda: nn.Linear(in_features=3, out_features=2, bias=False), lambda: nn.Linear(3, 2, False)),
        (lambda: nn.Linear(out_features=2), lambda: nn.Linear(2)),
        (lambda: nn.Conv2d(1, 8, 3, 2, 1), lambda: nn.Conv2d(1, 8, 3, stride=2, padding=1)),
        (lambda: nn.Conv2d(in_channels=4, out_channels=8, kernel_size=3, groups=2), lambda: nn.Conv2d(4, 8, 3, 1, 0, 1, 2)),
        (lambda: nn.Conv2d(8, kernel_size=3), lambda: nn.Conv2d(8, 3)),
        (lambda: nn.ConvTranspose2d(2, 3, 3, 2, 1, 1), lambda: nn.ConvTranspose2d(2, 3, 3, 2, padding=1, output_padding=1)),
        (lambda: nn.LSTM(3, 5, 2), lambda: nn.LSTM(input_size=3, hidden_size=5, num_layers=2)),
        (lambda: nn.LSTM(3, 5, 1, True, True, 0.5, True), lambda: nn.LSTM(3, 5, dropout=0.5, bidirectional=True)),
        (lambda: nn.MultiheadAttention(8, 2, batch_first=True), lambda: nn.MultiheadAttention(8, 2)),
        (lambda: nn.ReLU(inplace=True), lambda: nn.ReLU(True)), (lambda: nn.Flatten(1), lambda: nn.Flatten()),
        (lambda: nn.LeakyReLU(0.2, inplace=True), lambda: nn.LeakyReLU(0.2)),
        (lambda: nn.Dropout(0.3, True), lambda: nn.Dropout(0.3)),
    ],
)  # fmt: skip
def test_arguments_as_in_pytorch(make: Callable[[], nn.Module], same_as: Callable[[], nn.Module]) -> None:
    """By position in PyTorch's order, or by its names."""
    one, other = make(), same_as()
    assert repr(one) == repr(other)
    parts = (nn.Module, nn.Parameter)
    settings = [
        {k: v for k, v in vars(m).items() if not k.startswith("_") and not isinstance(v, parts)} for m in (one, other)
    ]
    assert settings[0] == settings[1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Linear(in_features=3), r"Linear takes \(out_features\) or \(in_features, out_features\)"),
        (lambda: nn.Linear(3, 2, True, 4), r"Linear takes \(out_features\) or \(in_features, out_features\)"),
        (lambda: nn.Conv2d(1, 8, 3, 2, stride=1), "stride is given twice: by position and by name"),
        (lambda: nn.Conv2d(1, 8, 3, output_padding=1), "there is no argument 'output_padding'"),
        (lambda: nn.LSTM(), r"LSTM takes \(hidden_size\) or"),
        (lambda: nn.LSTM(3, 5, 1, True, False), "batch_first is False"),
        (lambda: nn.MultiheadAttention(8, 2, batch_first=False), "MultiheadAttention: batch_first is False"),
    ],
)
def test_arguments_that_do_not_fit(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))], ids=["copy", "pickle"]
)
@pytest.mark.parametrize("name", ["images", "normalized", "lstm, both directions", "transformer"])
def test_copies_are_networks_of_their_own(name: str, duplicate: Callable[[nn.Module], nn.Module]) -> None:
    net, shape = NETWORKS[name]()
    assert repr(duplicate(net)) == repr(net)  # before it is built, too
    net.build(shape, seed=3)
    x = numbers(4, *shape)
    dy = numbers(*net(x).shape, seed=1)  # moves the statistics
    net.backward(dy)
    twin = duplicate(net)
    assert twin.built and list(twin.state_dict()) == list(net.state_dict())
    np.testing.assert_array_equal(twin.eval()(x), net.eval()(x))
    twin.train()
    net.train()
    for one in (net, twin):
        one(x)
        one.backward(dy)
    for (path, mine), (_, theirs) in zip(net.named_parameters(), twin.named_parameters(), strict=True):
        np.testing.assert_array_equal(mine.grad, theirs.grad, err_msg=path)
        theirs.data += 1
        assert not np.array_equal(mine.data, theirs.data)
    for (_, mine), (_, theirs) in zip(net.named_buffers(), twin.named_buffers(), strict=True):
        assert mine is not theirs


def test_layers_and_filters_are_not_copied() -> None:
    layer = openbnns.ActivationLayer(function=openbnns.ActivationFunction.tanh(), input=openbnns.Shape.vector(2))
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(
            TypeError, match="ActivationLayer holds memory of the compiled core, so it cannot be copied"
        ):
            duplicate(layer)
        with pytest.raises(TypeError, match="a filter cannot be copied or pickled"):
            duplicate(layer.bnns_filter)
