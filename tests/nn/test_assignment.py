"""Networks that are changed after they were built: values, parameters, parts and options that are assigned to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from networks import numbers
from openbnns import nn
from openbnns.nn.recording import recording_of


def test_assigned_values_reach_network_and_optimizer() -> None:
    x, ones = numbers(4, 3), np.ones((2, 3))
    net = nn.Sequential(nn.Linear(3, 2, bias=False), nn.BatchNorm1d(2))
    before = net(x)
    layer = net[0]
    assert isinstance(layer, nn.Linear) and layer.weight is not None
    optimizer = nn.SGD(net.parameters(), lr=0.5)
    memory = layer.weight.data
    layer.weight.data = ones
    assert layer.weight.data is memory
    np.testing.assert_array_equal(net.state_dict()["0.weight"], ones)
    assert not np.allclose(net(x), before)
    net[1].running_mean = np.float32([5, 6])  # type: ignore[assignment]
    net[1].running_var = np.float32([4, 4])  # type: ignore[assignment]
    expected = (x.sum(1, keepdims=True) - [5, 6]) / np.sqrt(4 + 1e-5)
    np.testing.assert_allclose(net.eval()(x), expected, rtol=1e-5, atol=1e-6)
    layer.weight.grad = 2 * ones
    optimizer.step()
    np.testing.assert_array_equal(layer.weight.data, ones - 1)
    layer.weight.grad = None
    assert not layer.weight.grad.any()
    layer.weight.grad = ones
    optimizer.zero_grad()
    assert not layer.weight.grad.any()
    with pytest.raises(ValueError, match=r"Parameter\.data: shape \(3, 2\) given, \(2, 3\) needed"):
        layer.weight.data = ones.T
    with pytest.raises(TypeError, match=r"Linear\.weight is a Parameter\. .* assign to weight\.data"):
        layer.weight = ones  # type: ignore[assignment]
    with pytest.raises(TypeError, match=r"requires_grad must be True or False, not 'no'"):
        layer.weight.requires_grad = "no"  # type: ignore[assignment]
    with pytest.raises(AttributeError):
        layer.weight.gradient = ones  # type: ignore[attr-defined]
    assert layer.weight.requires_grad and layer.weight.numel() == 6 and np.asarray(layer.weight).shape == (2, 3)


def test_parts_put_in_place_of_others_take_part() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), nn.Linear(4, 2)

        def forward(self, *inputs: nn.Value) -> nn.Value:
            value: nn.Value = self.head(self.body(*inputs))
            return value

    x, net, other = numbers(5, 3), Net(), nn.Sequential(nn.Linear(3, 2)).build((3,), seed=1)
    untouched = other(x)
    net(x)
    body = net.body(x)
    net.head = nn.Linear(4, 6)
    assert net(x).shape == (5, 6) and net.head.weight is not None and net.head.bias is not None
    np.testing.assert_allclose(net(x), body @ net.head.weight.data.T + net.head.bias.data, rtol=1e-5, atol=1e-6)
    net.head.weight = nn.Parameter(np.ones((6, 4)))
    net.head.bias = None
    np.testing.assert_allclose(net(x), np.tile(body.sum(1, keepdims=True), 6), rtol=1e-5, atol=1e-6)
    net.backward(np.ones((5, 6)))
    np.testing.assert_allclose(net.head.weight.grad, np.tile(body.sum(0), (6, 1)), rtol=1e-5, atol=1e-5)
    assert list(net.state_dict()) == ["body.0.weight", "body.0.bias", "head.weight"]
    np.testing.assert_array_equal(other(x), untouched)


def test_sequential_of_named_parts() -> None:
    net = nn.Sequential({"one": nn.Linear(3, 4), "act": nn.ReLU(), "two": nn.Linear(4, 2)})
    assert net(numbers(5, 3)).shape == (5, 2) and len(net) == 3
    assert list(net.state_dict()) == ["one.weight", "one.bias", "two.weight", "two.bias"]
    for name in ("a.b", "", "train", 3):
        with pytest.raises(ValueError, match="cannot be called"):
            nn.Sequential({name: nn.ReLU()})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"part 0 is 5, which is not an nn\.Module"):
        nn.Sequential({"one": 5})  # type: ignore[dict-item]


def test_optimizers_as_in_pytorch() -> None:
    parameters = list(nn.Linear(3, 2).build((3,)).parameters())
    make: Callable[..., nn.Optimizer]
    for make, further in ((nn.SGD, {"momentum": 0.9}), (nn.Adam, {"betas": (0.8, 0.9)}), (nn.RMSprop, {"alpha": 0.5})):
        optimizer = make(parameters, 0.25, **further)
        assert optimizer.learning_rate == 0.25 and optimizer.parameters == parameters
        assert make(parameters, 0.25, *further.values()).state_dict().keys() == optimizer.state_dict().keys()
        with pytest.raises(TypeError, match=r"the learning rate is given twice, as 0\.25 and as lr"):
            make(parameters, 0.25, lr=0.1)
    assert len(nn.SGD(parameters, 0.25, 0.9).accumulators) == 2
    assert not nn.SGD(0.25, 0.9).accumulators


def test_options_changed_after_building_count() -> None:
    x = numbers(400, 3)
    net = nn.Sequential(nn.BatchNorm1d(3), nn.LeakyReLU(0.1), nn.Dropout(0.5))
    net(x)
    net[0].momentum, net[0].eps, net[1].negative_slope, net[2].p = 1.0, 3.0, 0.5, 0.0  # type: ignore[assignment]
    y = (x - x.mean(0)) / np.sqrt(x.var(0) + 3)
    np.testing.assert_allclose(net(x), np.where(y < 0, 0.5 * y, y), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(net[0].running_mean, x.mean(0), rtol=1e-4, atol=1e-6)  # type: ignore[arg-type]


def test_what_an_optimizer_does_not_know_is_refused() -> None:
    optimizer = nn.SGD(0.5)
    optimizer.lr = 0.25
    assert optimizer.learning_rate == optimizer.lr == 0.25
    with pytest.raises(AttributeError, match=r"SGD: 'weight_decay' cannot be set\. Only learning_rate, or lr, can"):
        optimizer.weight_decay = 0.1  # type: ignore[attr-defined]


def test_building_one_network_leaves_the_plans_of_others() -> None:
    x = numbers(4, 1, 6, 6)
    net = nn.Sequential(nn.Conv2d(2, 3, padding="same"), nn.ReLU())
    net(x)
    plans = list(recording_of(net, True).programs.values())
    for _ in range(2):
        nn.Sequential(nn.Conv2d(2, 3, padding="same"), nn.ReLU(), nn.Flatten(), nn.Linear(2))(x)
        net(x)
    assert list(recording_of(net, True).programs.values()) == plans


def test_optimizers_show_their_settings() -> None:
    assert repr(nn.SGD(0.1, momentum=0.9)) == "SGD(learning_rate=0.1, momentum=0.9)"
    assert repr(nn.Adam()).startswith("Adam(learning_rate=0.001, beta1=0.9,")


# Attributes that forward has read.


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0
        self.shift: Any = np.zeros(2)
        self._power = 1
        self.names = ["a"]

    def forward(self, x: Any) -> Any:
        return (x * self.scale + self.shift) ** self._power * len(self.names)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("deep", [True, False])
def test_attributes_of_own_modules_are_seen(training: bool, deep: bool) -> None:
    part = Scaled()
    net: nn.Module = nn.Sequential(nn.Identity(), nn.Sequential(part)) if deep else part
    net.train(training)
    x = np.float32([[1, 3]])
    assert net(x).tolist() == [[2, 6]]
    part.scale = 3.0
    assert net(x).tolist() == [[3, 9]]
    part.shift = np.array([1.0, 2.0])
    assert net(x).tolist() == [[4, 11]]
    part._power = 2
    assert net(x).tolist() == [[16, 121]]
    part.names += ["b"]  # an assignment, too
    assert net(x).tolist() == [[32, 242]]
    del part.names
    part.names = ["c"]
    assert net(x).tolist() == [[16, 121]]


def test_options_that_were_none_are_seen() -> None:
    x = numbers(2, 1, 4, 4)
    pool = nn.Sequential(nn.AvgPool2d(2)).eval()
    mean = pool(x)
    pool[0].divisor_override = 2  # type: ignore[attr-defined]
    np.testing.assert_allclose(pool(x), 2 * mean, rtol=1e-6)
    larger = nn.Sequential(nn.Upsample(scale_factor=2)).eval()
    assert larger(x).shape == (2, 1, 8, 8)
    larger[0].scale_factor, larger[0].size = None, (5, 6)  # type: ignore[attr-defined]
    assert larger(x).shape == (2, 1, 5, 6)


def test_what_stays_the_same_is_not_recorded_again() -> None:
    class Counted(nn.Module):
        recorded = 0

        def __init__(self) -> None:
            super().__init__()
            self.factor, self.pair, self.last = 2.0, (1, 2.0), 0

        def forward(self, x: Any) -> Any:
            type(self).recorded += 1
            self.last = self.recorded  # by forward itself
            return x * self.factor

    net, x = Counted().eval(), numbers(2, 3)
    for _ in range(3):
        net(x)
        net.factor, net.pair = 2.0, (1, 2.0)
        net.eval()
    assert Counted.recorded == 1
    net.pair = (1, 2)  # of another type
    net(x)
    assert Counted.recorded == 2
    net.train()(x)
    net.eval()(x)
    assert Counted.recorded == 2


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8, np.bool_])
def test_arrays_changed_in_place_are_read_as_they_are(kind: type) -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift = np.ones(3, kind)
            self.linear = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return self.linear(nn.functional.where(self.shift, x + self.shift, x - self.shift[:1]))

    net, x = Shifted().build((3,), seed=0).eval(), numbers(4, 3)

    def expected() -> Any:
        shift = net.shift.astype(np.float64)
        return np.where(shift, x + shift, x - shift[:1]) @ net.linear.weight.data.T + net.linear.bias.data

    step = net.compile_step("mse", nn.SGD(0.1), 4)
    for number in range(3):
        np.testing.assert_allclose(net(x), expected(), rtol=1e-5, atol=1e-6)
        loss = float((expected() ** 2).mean())
        assert step(x, np.zeros((4, 3), np.float32)) == pytest.approx(loss, rel=1e-5)
        net.shift[number] = 0
