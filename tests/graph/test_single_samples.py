"""A batch of one sample, and values without a batch: the same shapes as in PyTorch, in whatever order the sizes come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns
from helpers import Array
from networks import numbers
from openbnns import nn
from openbnns.nn import functional as F

BODIES: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    "squeeze of an axis": (lambda x: x.squeeze(0) * 2, lambda x: 2 * (x[0] if len(x) == 1 else x)),
    "squeeze of two axes": (lambda x: F.squeeze(x[:, :1], (0, 1)), lambda x: x[0, 0] if len(x) == 1 else x[:, 0]),
    "squeeze keeps the batch": (lambda x: x[:, :1, :1].squeeze(), lambda x: x[:, 0, 0]),
    "unbind": (lambda x: F.tanh(F.unbind(x, 0)[0]), lambda x: np.tanh(x[0])),
    "expand": (lambda x: x[:, 0].unsqueeze(1).expand(-1, 2, -1), lambda x: np.stack([x[:, 0]] * 2, 1)),
    "einsum": (
        lambda x: F.einsum("...i,...i->...", x[:, :1], x[:, 0]),
        lambda x: np.einsum("nck,mk->nm", x[:, :1], x[:, 0]),
    ),
}


def network(body: Callable[[Any], Any]) -> nn.Module:
    class Body(nn.Module):
        def forward(self, x: Any) -> Any:
            return body(x)

    return Body()


@pytest.mark.parametrize("counts", [(4, 1, 3), (1, 4, 1)])
@pytest.mark.parametrize("name", BODIES)
def test_one_sample_and_many(name: str, counts: tuple[int, ...]) -> None:
    """The recording of one number of samples must not decide the shapes of another."""
    body, oracle = BODIES[name]
    net = network(body)
    for count in counts:
        x = numbers(count, 3, 5, seed=count)
        expected = np.asarray(oracle(x))
        y = net(x)
        assert y.shape == expected.shape
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
        dy = numbers(*y.shape, seed=7) if y.shape else np.float32(2)
        assert net.backward(dy).shape == x.shape


@pytest.mark.parametrize("name", BODIES)
def test_gradients_of_one_sample(name: str) -> None:
    assert openbnns.gradcheck(network(BODIES[name][0]), numbers(1, 3, 5), verbose=False)


def test_einsum_repeats_one_sample_against_a_named_axis() -> None:
    """The batch axis of one sample is repeated along the rows; more samples must be as many as there are rows."""
    net = network(lambda x: F.einsum("...i,...i->...", x, x[:, 0]))
    x = numbers(1, 3, 5)
    np.testing.assert_allclose(net(x), np.einsum("abi,ci->ab", x, x[:, 0]), rtol=1e-5)
    with pytest.raises(ValueError, match="different sizes under the letter"):
        net(numbers(4, 3, 5))


def test_expand_repeats_one_sample() -> None:
    net, x = network(lambda x: x.expand(4, 3, 5) * 2), numbers(1, 3, 5)
    np.testing.assert_array_equal(net(x), np.repeat(2 * x, 4, axis=0))
    np.testing.assert_array_equal(net.backward(np.ones((4, 3, 5), np.float32)), np.full((1, 3, 5), 8))
    many = numbers(4, 3, 5)
    np.testing.assert_array_equal(net(many), 2 * many)
    with pytest.raises(ValueError, match=r"expand: \(N, 3, 5\) cannot be repeated to \(4, 3, 5\)"):
        net(numbers(2, 3, 5))


@pytest.mark.parametrize(("one", "other"), [((4, 1), (4, 3)), ((4, 3), (3,)), ((2, 1, 3), (4, 3)), ((), (2, 3))])
def test_cosine_similarity_of_shapes_that_are_broadcast(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    a, b = np.asarray(numbers(*one, seed=1), np.float32), numbers(*other, seed=2)
    for x, y in ((a, b), (b, a)):
        wide, high = np.broadcast_arrays(x.astype(np.float64), y)
        lengths = np.sqrt((wide**2).sum(-1) * (high**2).sum(-1))
        np.testing.assert_allclose(F.cosine_similarity(x, y, dim=-1), (wide * high).sum(-1) / lengths, rtol=1e-5)
    with pytest.raises(ValueError, match=r"cosine_similarity: \(2,\) and \(3,\) do not fit together"):
        F.cosine_similarity(np.ones(2, np.float32), np.ones(3, np.float32), dim=0)
    if a.ndim:
        assert openbnns.gradcheck(lambda x, y: F.cosine_similarity(x, y * 2, dim=-1), a, b, verbose=False)


def test_layers_on_a_value_without_a_batch() -> None:
    """A parameter, or one sample of a batch, may go through a layer, as in PyTorch."""

    class Prototypes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.start = nn.Parameter(numbers(4, seed=3))
            self.matrix, self.vector = nn.Parameter(numbers(2, 4, seed=4)), nn.Parameter(numbers(4, seed=5))
            self.linear, self.norm, self.rms = nn.Linear(4, 3), nn.LayerNorm(4), nn.RMSNorm(4)

        def forward(self, x: Any) -> Any:
            first = x[0]
            return (
                self.linear(self.start), self.linear(first), self.norm(first), self.rms(first),
                F.layer_norm(first, 4), F.linear(first, self.matrix), F.linear(x, self.vector, self.start[0]),
            )  # fmt: skip

    net, x = Prototypes(), numbers(3, 4)
    results = net(x)
    weight, bias = net.linear.weight.data, net.linear.bias.data
    centred = (x[0] - x[0].mean()) / np.sqrt(x[0].var() + 1e-5)
    expected = [
        weight @ net.start.data + bias, weight @ x[0] + bias, centred,
        x[0] / np.sqrt((x[0] ** 2).mean()), centred, net.matrix.data @ x[0], x @ net.vector.data + net.start.data[0],
    ]  # fmt: skip
    for y, right in zip(results, expected, strict=True):
        assert y.shape == right.shape
        np.testing.assert_allclose(y, right, rtol=2e-5, atol=1e-6)
    assert openbnns.gradcheck(net, x, verbose=False)


def test_a_vector_is_not_taken_for_one_sample() -> None:
    with pytest.raises(ValueError, match=r"Linear: needs samples .* Pass x\[None\] for one sample"):
        nn.Linear(3, 2)(numbers(3))
    for layer in (nn.LayerNorm(), nn.RMSNorm()):
        with pytest.raises(ValueError, match=r"Norm: made for samples that end in \(3,\), but gets"):
            layer(numbers(3))


def test_axes_of_a_single_number() -> None:
    """0 and -1 stand for it, as in PyTorch."""
    number = np.array(-3, np.float32)
    for function, expected in ((F.sum, -3), (F.mean, -3), (F.norm, 3), (F.amax, -3), (F.logsumexp, -3), (F.prod, -3)):
        assert [float(function(number, dim=dim)) for dim in (0, -1, (0,), None)] == pytest.approx([expected] * 4)
    for dim in (1, -2, True):
        with pytest.raises(ValueError, match=rf"mean: dim is {dim}, but \(\) has no axes"):
            F.mean(number, dim=dim)
    with pytest.raises(ValueError, match=r"mean: dim is 1, but .* has only axis 0"):
        F.mean(np.ones(3, np.float32), dim=1)
