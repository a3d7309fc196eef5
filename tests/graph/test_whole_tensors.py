"""Networks that compute with whole tensors: across the batch, with sizes, on inputs of several shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from function_checks import Applied
from helpers import numbers
from openbnns import nn
from openbnns.nn import functional as F


def unit(x: Any) -> Any:
    return x / np.sqrt((x * x).sum(1, keepdims=True))


def softmax(x: Any, axis: int) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


# What is computed, and the same in NumPy, for float64 arrays (N, 5).
ACROSS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "similarities": (lambda x: x @ x.T, lambda x: x @ x.T),
    "contrastive": (
        lambda x: F.log_softmax(F.normalize(x) @ F.normalize(x).T * 2.0, dim=1).sum(1),
        lambda x: np.log(softmax(unit(x) @ unit(x).T * 2, 1)).sum(1),
    ),
    "number of samples": (lambda x: x.sum() / x.shape[0], lambda x: x.sum() / len(x)),
    "sum of squares by hand": (lambda x: (x * x).sum(0) / (x.shape[0] + 1), lambda x: (x * x).sum(0) / (len(x) + 1)),
    "neighbours": (lambda x: x[1:] - x[:-1], lambda x: x[1:] - x[:-1]),
    "every other": (lambda x: x[::2] * 2.0, lambda x: x[::2] * 2),
    "last and first": (lambda x: x[-1] * x[0], lambda x: x[-1] * x[0]),
    "softmax over samples": (lambda x: F.softmax(x, dim=0), lambda x: softmax(x, 0)),
    "transposed": (lambda x: F.tanh(x.T), lambda x: np.tanh(x.T)),
    "moved": (
        lambda x: x.reshape(-1, 1, 5).permute(2, 0, 1) * 2.0,
        lambda x: x.reshape(-1, 1, 5).transpose(2, 0, 1) * 2,
    ),
    "variance": (lambda x: F.var(x, dim=0), lambda x: x.var(0, ddof=1)),
    "deviation": (lambda x: F.std(x, dim=0), lambda x: x.std(0, ddof=1)),
    "doubled": (lambda x: F.cat([x, x * 3.0], dim=0), lambda x: np.concatenate([x, 3 * x])),
    "flipped": (lambda x: x.flip(0) * x, lambda x: x[::-1] * x),
    "centred": (lambda x: x - x.mean(0), lambda x: x - x.mean(0)),
    "all elements": (lambda x: x.flatten() * 2.0, lambda x: x.ravel() * 2),
    "outer": (lambda x: x.unsqueeze(1) - x.unsqueeze(0), lambda x: x[:, None] - x[None]),
    "weighted": (lambda x: F.einsum("ij,kj->ik", x, x), lambda x: x @ x.T),
    "mixup": (lambda x: x * 0.7 + x.flip(0) * 0.3, lambda x: x * 0.7 + x[::-1] * 0.3),
    "maximum": (lambda x: x.amax(0), lambda x: x.max(0)),
    "norm": (lambda x: x.norm(2, 0), lambda x: np.linalg.norm(x, axis=0)),
    "padded": (lambda x: F.pad(x, (0, 0, 1, 2)), lambda x: np.pad(x, ((1, 2), (0, 0)))),
    "rolled": (lambda x: x[1:].sum(0) - x.sum(0), lambda x: x[1:].sum(0) - x.sum(0)),
}


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("name", ACROSS)
def test_across_the_batch(name: str, engine: str) -> None:
    body, expected = ACROSS[name]
    net = Applied(body)
    with bn.engine(engine):
        for samples in (6, 3, 7):
            x = numbers(samples, 5, seed=samples)
            np.testing.assert_allclose(net(x), expected(x.astype(np.float64)), rtol=2e-5, atol=2e-5)
            assert net.backward(numbers(*np.shape(net(x)))).shape == x.shape
        assert bn.gradcheck(net, numbers(4, 5)).passed


@pytest.mark.parametrize("name", ACROSS)
def test_one_recording_serves_all_batches(name: str) -> None:
    net = Applied(ACROSS[name][0])
    for samples in (6, 3, 7, 11):
        net(numbers(samples, 5))
    assert len(net._recordings) == 1, [str(guard) for r in net._recordings for guard in r.graph.sizes.guards]


class Counted(nn.Module):
    """Counts how often it is recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.count = [0]

    def forward(self, x: nn.Value) -> Any:
        self.count[0] += 1
        return self.compute(x)

    def compute(self, x: nn.Value) -> Any:
        raise NotImplementedError


def test_plain_numbers_are_guards() -> None:
    class Loop(Counted):
        def compute(self, x: nn.Value) -> Any:
            total = x[0]
            for i in range(1, x.shape[0]):  # fixes N
                total = total * 0.5 + x[i]
            return total

    net = Loop()
    for samples in (3, 5, 3, 5):
        x = numbers(samples, 2)
        expected = x[0].astype(np.float64)
        for row in x[1:]:
            expected = expected * 0.5 + row
        np.testing.assert_allclose(net(x), expected, rtol=1e-5)
    assert net.count == [2]
    guards = [str(guard) for recording in net._recordings for guard in recording.graph.sizes.guards]
    assert any("N is 3" in guard and __file__ in guard for guard in guards), guards


def test_branches_on_sizes_are_guards() -> None:
    class Branch(Counted):
        def compute(self, x: nn.Value) -> Any:
            return x * 2.0 if x.shape[0] > 4 else x * 3.0

    net = Branch()
    for samples, factor in ((2, 3), (3, 3), (9, 2), (5, 2), (4, 3)):
        x = numbers(samples, 2)
        np.testing.assert_allclose(net(x), x * factor, rtol=1e-6)
    assert net.count == [2]


def test_arrays_of_the_size_of_the_batch() -> None:
    net = Applied(lambda x: x * np.arange(x.shape[0], dtype=np.float32)[:, None])
    for samples in (3, 2):
        x = numbers(samples, 4)
        np.testing.assert_allclose(net(x), x * np.arange(samples)[:, None], rtol=1e-6)


def test_even_batches() -> None:
    net = Applied(lambda x: x.reshape(x.shape[0] // 2, 2, 4).sum(1))
    for samples in (4, 6):
        x = numbers(samples, 4)
        np.testing.assert_allclose(net(x), x.reshape(-1, 2, 4).sum(1), rtol=1e-5)
    with pytest.raises(ValueError, match="do not fill"):
        net(numbers(5, 4))


# Inputs with samples of their own.


def test_a_graph_network() -> None:
    """Nodes with an adjacency matrix as a second input."""

    class Convolved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 2)

        def forward(self, nodes: nn.Value, edges: nn.Value) -> nn.Value:
            degree = edges.sum(1, keepdim=True)
            hidden = F.relu(edges @ self.first(nodes) / degree)
            return edges @ self.second(hidden)

    net = Convolved()
    for count in (5, 8):
        x, edges = (
            numbers(count, 4),
            (np.abs(numbers(count, count)) > 0.5).astype(np.float32) + np.eye(count, dtype=np.float32),
        )
        hidden = np.maximum(
            edges @ (x @ net.first.weight.data.T + net.first.bias.data) / edges.sum(1, keepdims=True), 0
        )
        np.testing.assert_allclose(
            net(x, edges), edges @ (hidden @ net.second.weight.data.T + net.second.bias.data), rtol=1e-4, atol=1e-5
        )
    assert bn.gradcheck(net, numbers(4, 4), np.ones((4, 4), np.float32)).passed


def test_inputs_with_different_numbers_of_samples() -> None:
    net = Applied(lambda queries, keys: F.softmax(queries @ keys.T, dim=1) @ keys)
    for n, m in ((3, 5), (4, 5), (6, 2), (4, 4)):
        q, k = numbers(n, 3), numbers(m, 3, seed=1)
        np.testing.assert_allclose(net(q, k), softmax(q @ k.T, 1) @ k, rtol=1e-4, atol=1e-5)
    assert bn.gradcheck(net, numbers(3, 3), numbers(5, 3)).passed
    with pytest.raises(ValueError, match=r"do not fit together.* inputs have 2, 3 samples"):
        Applied(lambda a, b: a + b)(numbers(2, 4), numbers(3, 4))


# Several shapes.


def test_a_convolutional_network_takes_other_images() -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 2, 1),
        nn.GlobalAvgPool2d(),
    )
    for height, width in ((16, 16), (20, 12), (16, 16), (9, 30)):
        x = numbers(2, 3, height, width)
        assert net.train()(x).shape == (2, 2)
        assert net.backward(numbers(2, 2)).shape == x.shape
        net.eval()(x)
    fresh = nn.Sequential(*net).eval()
    x = numbers(3, 3, 20, 12)
    np.testing.assert_array_equal(net(x), fresh(x))


def test_a_language_model_takes_prompts_of_any_length() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(11, 8), nn.LearnedEncoding(16, 8)
            self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, causal=True)
            self.out = nn.Linear(8, 11)

        def forward(self, x: nn.Value) -> nn.Value:
            return self.out(self.block(self.places(self.tokens(x))))

    net = Model()
    whole = np.random.default_rng(0).integers(0, 11, (2, 16))
    net.train()(whole)
    net.backward(numbers(2, 16, 11))
    y = net.eval()(whole)
    for length in (5, 1, 12):
        np.testing.assert_allclose(net(whole[:, :length]), y[:, :length], rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="sequences have 17 positions, but max_len is 16"):
        net(np.zeros((1, 17), np.int64))


def test_many_lengths_keep_few_recordings() -> None:
    net = nn.Sequential(nn.LSTM(3, 4, last_only=True), nn.Linear(4, 2)).eval()
    lengths = [*range(1, 40), *range(1, 40)]
    outputs = {length: net(numbers(2, length, 3)) for length in lengths}
    assert len(net._recordings) <= 16
    for length in (3, 38):
        np.testing.assert_array_equal(net(numbers(2, length, 3)), outputs[length])


def test_a_misfit_names_the_shape_that_the_network_was_built_for() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    net(numbers(2, 3, 4))
    with pytest.raises(
        ValueError, match=r"input 0 has shape \(2, 5\), but the network is built for \(N, 3, 4\).*12 inputs"
    ):
        net(numbers(2, 5))
    with pytest.raises(ValueError, match=r"For one sample pass x\[None\]"):
        net(numbers(3, 4))
    assert net(numbers(5, 3, 4)).shape == (5, 2)


# Parameters alone.


def test_weight_normalization_by_hand() -> None:
    class Normalized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.v, self.g = nn.Parameter(numbers(3, 4)), nn.Parameter(numbers(3, 1, seed=1))

        def forward(self, x: nn.Value) -> nn.Value:
            return F.linear(x, self.g * self.v / self.v.norm(2, 1, True))

    net, x = Normalized(), numbers(5, 4)
    v, g = net.v.data, net.g.data
    np.testing.assert_allclose(net(x), x @ (g * v / np.linalg.norm(v, axis=1, keepdims=True)).T, rtol=1e-5, atol=1e-6)
    assert bn.gradcheck(net, x).passed


def test_trained_across_the_batch() -> None:
    """A contrastive loss in a trainer: the loss of a batch is not a mean over its samples."""

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 4)

        def forward(self, x: nn.Value) -> nn.Value:
            return F.normalize(self.layer(x))

    def loss(z: Any, labels: Any) -> Any:
        return F.cross_entropy(z @ z.T * 4.0, labels)

    random = np.random.default_rng(0)
    x = random.standard_normal((64, 6)).astype(np.float32)
    trainer = nn.Trainer(Encoder(), loss, nn.Adam(0.05), batch_size=16, seed=1)
    history = trainer.fit(x, np.tile(np.arange(16), 4), epochs=6)
    assert history[-1]["loss"] < history[0]["loss"]


def test_a_loss_that_forward_computes() -> None:
    """One number for a batch, whatever the samples are."""

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 4)

        def forward(self, x: nn.Value) -> nn.Value:
            z = F.normalize(self.layer(x))
            return (z @ z.T).mean()

    trainer = nn.Trainer(Loss(), lambda loss: loss, nn.Adam(0.05), batch_size=16, seed=1, quiet=True)
    history = trainer.fit(numbers(64, 6) + 1, epochs=6)
    assert history[-1]["loss"] < history[0]["loss"]


def test_training_on_sequences_of_many_lengths() -> None:
    """Batches of their own lengths, once each by a trainer and by hand."""
    random = np.random.default_rng(3)
    batches = [
        (random.standard_normal((4, length, 3)).astype(np.float32), random.standard_normal((4, 2)).astype(np.float32))
        for length in (5, 9, 2, 7, 5, 3)
    ]

    def made() -> nn.Sequential:
        return nn.Sequential(nn.GRU(3, 5, last_only=True), nn.Linear(5, 2)).build((5, 3), seed=2)

    one, other = made(), made()
    nn.Trainer(one, nn.MSELoss(), nn.SGD(0.1), quiet=True).fit(batches, epochs=2)
    optimizer, loss = nn.SGD(other.parameters(), 0.1), nn.MSELoss()
    for _ in range(2):
        for x, y in batches:
            _, gradient = loss(other(x), y)
            other.backward(gradient)
            optimizer.step()
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(a.data, b.data, rtol=1e-5, atol=1e-6)


def test_constants_in_other_orders_are_read_by_native_calls() -> None:
    """Views of the same memory in the same order are one contiguous constant; one that a module holds is followed."""
    table, held = numbers(5, 7), numbers(7, 7)

    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("held", held)

        def forward(self, x: Any) -> Any:
            y = x @ table[:, ::-1][:3].T @ table[:, ::-1][:3]
            return (x @ table[:, ::-1][:3].T @ table[:3]) * y @ self.held.T

    net, x = Turned().build((7,)).eval(), numbers(4, 7)
    for _ in range(4):
        a = x @ table[:3, ::-1].T
        np.testing.assert_allclose(net(x), (a @ table[:3]) * (a @ table[:3, ::-1]) @ net.held.T, 1e-4, 1e-4)
        net.held *= 0.5
    program = net.program(4, training=False)
    assert "0 of them by Python" in str(program.describe())
    leaves = {id(v.storage.leaf): v.storage.leaf for op in program.graph.operations for v in op.inputs}
    constants = [leaf for leaf in leaves.values() if isinstance(leaf, np.ndarray)]
    assert all(leaf.flags.c_contiguous for leaf in constants)
    assert sorted(leaf.shape for leaf in constants) == [(3, 7), (3, 7), (7, 3), (7, 7)]
