"""Operations and losses that users write: nn.Function in NumPy, FunctionLoss in expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers import numbers
from openbnns import nn
from openbnns.nn import functional as F


class Polar(nn.Function):
    """Length and angle of pairs, scaled: several inputs, several results, and an argument that is not a tensor."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any, scale: float) -> Any:
        ctx.save_for_backward(x, y)
        ctx.scale = scale
        return scale * np.hypot(x, y), np.arctan2(y, x)

    @staticmethod
    def backward(ctx: Any, d_length: Any, d_angle: Any) -> Any:
        x, y = ctx.saved_tensors
        square = x * x + y * y
        length = np.sqrt(square)
        dx = ctx.scale * d_length * x / length - d_angle * y / square
        dy = ctx.scale * d_length * y / length + d_angle * x / square
        return dx, dy, None


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4)
        self.shift = nn.Parameter(np.float32([0.5, -0.25]))

    def forward(self, x: nn.Value) -> Any:
        a, b = self.first(x).chunk(2, dim=1)
        length, angle = Polar.apply(a + self.shift, b, 3.0)
        return F.cat([length, angle * length], dim=1)


def by_hand(x: Any, weight: Any, bias: Any, shift: Any) -> Any:
    h = x @ weight.T + bias
    a, b = h[:, :2] + shift, h[:, 2:]
    length = 3 * np.hypot(a, b)
    return np.concatenate([length, np.arctan2(b, a) * length], 1)


@pytest.mark.parametrize("batch", [5, 1])
def test_function_in_a_network(batch: int) -> None:
    net = Net()
    x, dy = numbers(batch, 3), numbers(batch, 4, seed=1)
    net(numbers(7, 3))  # another batch size in between
    y = net(x)
    arrays = [x, net.first.weight.data, net.first.bias.data, net.shift.data]
    exact = [a.astype(np.float64) for a in arrays]
    np.testing.assert_allclose(y, by_hand(*exact), rtol=1e-5, atol=1e-5)
    dx = net.backward(dy)
    gradients = [dx, net.first.weight.grad, net.first.bias.grad, net.shift.grad]
    for i, gradient in enumerate(gradients):
        expected = np.zeros(exact[i].shape)
        for place in np.ndindex(*expected.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [a.copy() for a in exact]
                moved[i][place] += step
                ends.append((by_hand(*moved) * dy).sum())
            expected[place] = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-3)


def test_result_without_a_batch() -> None:
    class Total(nn.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.shape = x.shape
            return np.float32(x.sum())

        @staticmethod
        def backward(ctx: Any, dy: Any) -> Any:
            return np.full(ctx.shape, dy)

    class Sum(nn.Module):
        def forward(self, x: nn.Value) -> Any:
            return Total.apply(x) * 2

    net, x = Sum(), numbers(3, 4)
    np.testing.assert_allclose(net(x), 2 * x.sum(), rtol=1e-5)
    np.testing.assert_array_equal(net.backward(np.float32(3)), np.full((3, 4), 6))


class Broken(nn.Function):
    result: Any = None
    gradient: Any = None

    @classmethod
    def forward(cls, ctx: Any, x: Any) -> Any:  # type: ignore[override]
        return cls.result(x)

    @classmethod
    def backward(cls, ctx: Any, dy: Any) -> Any:  # type: ignore[override]
        return cls.gradient(dy)


class Uses(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: nn.Value) -> Any:
        return self.function.apply(x)


@pytest.mark.parametrize(
    ("result", "gradient", "message"),
    [
        (lambda x: x.T, lambda dy: dy, r"gave a gradient of shape \(4, 3\), but \(3, 4\) is needed"),
        (lambda x: x, lambda dy: dy[:, :2], r"Wrong.backward gave a gradient of shape \(3, 2\), but \(3, 4\)"),
        (lambda x: x, lambda dy: (dy, dy, dy), "3 gradients for 1 argument"),
        (lambda x: x[:, 9], lambda dy: dy, r"Wrong.forward, tried on ones of shape \(2, 4\)"),
    ],
)
def test_mistakes(result: Any, gradient: Any, message: str) -> None:
    wrong = type("Wrong", (Broken,), {"result": staticmethod(result), "gradient": staticmethod(gradient)})
    net = Uses(wrong)
    with pytest.raises((ValueError, IndexError), match=message):
        net.backward(net(numbers(3, 4)))


def test_function_without_backward() -> None:
    class Half(nn.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x / 2

    net = Uses(Half)
    np.testing.assert_array_equal(net(np.float32([[4]])), [[2]])
    with pytest.raises(NotImplementedError, match="needs a static method backward"):
        net.backward(np.float32([[1]]))


def test_loss_function_equals_its_layer() -> None:
    y, t = numbers(6, 3), numbers(6, 3, seed=1)
    value, gradient = nn.FunctionLoss(lambda y, t: ((y - t) ** 2).mean())(y, t)
    expected, by_layer = nn.MSELoss()(y, t)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    np.testing.assert_allclose(gradient, by_layer, rtol=1e-5, atol=1e-7)


def test_loss_function_of_classes() -> None:
    """One number per sample, of targets that are looked up."""

    def loss(scores: nn.Value, classes: nn.Value) -> Any:
        return -(F.log_softmax(scores, dim=1) * F.one_hot(classes, 4)).sum(dim=1)

    y, t = numbers(6, 4), np.array([0, 3, 1, 1, 2, 0])
    value, gradient = nn.FunctionLoss(loss)(y, t)
    expected, by_layer = nn.CrossEntropyLoss()(y, t)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    np.testing.assert_allclose(gradient, by_layer, rtol=1e-5, atol=1e-7)


def test_loss_function_of_several_outputs() -> None:
    """Gradients come in the structure of the outputs, and are those of central differences."""

    def loss(outputs: dict[str, nn.Value], t: nn.Value) -> Any:
        return ((outputs["mean"] - t) ** 2 * F.exp(-outputs["logvar"])).sum(dim=1) + 0.5 * outputs["logvar"][:, 0]

    criterion = nn.FunctionLoss(loss)
    for batch in (5, 3, 5):  # recorded anew for other shapes
        given = {"mean": numbers(batch, 2, seed=batch), "logvar": numbers(batch, 2, seed=7)}
        t = numbers(batch, 2, seed=1)

        def value(t: Any = t, **given: Any) -> float:
            m, s = given["mean"].astype(np.float64), given["logvar"].astype(np.float64)
            return float((((m - t) ** 2 * np.exp(-s)).sum(axis=1) + 0.5 * s[:, 0]).mean())

        joint, gradients = criterion(given, t)
        assert joint == pytest.approx(value(**given), rel=1e-5)
        assert list(gradients) == list(given)
        for name, gradient in gradients.items():
            for place in np.ndindex(gradient.shape):
                step = np.zeros((batch, 2))
                step[place] = 1e-5
                ends = [value(**{**given, name: given[name] + sign * step}) for sign in (1, -1)]
                assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-6)


def test_loss_function_computes_no_gradients_of_targets() -> None:
    wanted: list[tuple[bool, ...]] = []

    class Product(nn.Function):
        @staticmethod
        def forward(ctx: Any, y: Any, t: Any) -> Any:
            ctx.save_for_backward(y, t)
            return y * t

        @staticmethod
        def backward(ctx: Any, dy: Any) -> Any:
            wanted.append(tuple(ctx.needs_input_grad))
            y, t = ctx.saved_tensors
            return dy * t, dy * y

    y, t = numbers(4, 2), numbers(4, 2, seed=1)
    _, gradient = nn.FunctionLoss(lambda y, t: Product.apply(y, t).mean())(y, t)
    np.testing.assert_allclose(gradient, t / 8, rtol=1e-6)
    assert wanted == [(True, False)]


def test_loss_function_is_recorded_once() -> None:
    calls = []

    def loss(y: nn.Value, t: nn.Value) -> Any:
        calls.append(y)
        return (y - t).mean()

    criterion = nn.FunctionLoss(loss)
    kept = [criterion(numbers(4, 2, seed=i), np.zeros((4, 2)))[1] for i in range(3)]
    assert len(calls) == 1
    np.testing.assert_array_equal(kept[0], np.full((4, 2), 0.125, np.float32))
    assert kept[0] is not kept[1]


@pytest.mark.parametrize("targets", [numbers(1, 2), numbers(2, 2), np.float32(1)])
def test_loss_function_of_other_targets(targets: Any) -> None:
    with pytest.raises(
        ValueError, match=r"FunctionLoss: the outputs have shape .* the targets .* one entry per sample"
    ):
        nn.FunctionLoss(lambda y, t: (y - t).mean())(numbers(3, 2), targets)


@pytest.mark.parametrize("body", [lambda y, t: y - t, lambda y, t: 3.0])
def test_loss_that_is_no_number(body: Any) -> None:
    with pytest.raises(TypeError, match="a loss gives one number, or one per sample"):
        nn.FunctionLoss(body)(numbers(2, 3), numbers(2, 3))


def test_trainer_takes_a_function() -> None:
    """It trains as the layer of the same formula does."""
    x = numbers(40, 3)
    t = x @ np.float32([[1], [-2], [0.5]])
    losses: list[Any] = ["mse", lambda y, t: ((y - t) ** 2).mean()]
    trained = []
    for loss in losses:
        net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        history = nn.Trainer(net, loss, nn.Adam(0.02), seed=1, batch_size=16, quiet=True).fit(x, t, epochs=3)
        trained.append((history[-1]["loss"], net[0].weight.data.copy()))
    np.testing.assert_allclose(trained[0][0], trained[1][0], rtol=1e-4)
    np.testing.assert_allclose(trained[0][1], trained[1][1], rtol=1e-3, atol=1e-5)
