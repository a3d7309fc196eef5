"""Functions that are layers: they give what the layers give, with parameters of the network or with fixed arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from networks import numbers
from openbnns import nn
from openbnns.nn import functional as F
from openbnns.nn.recording import recorded_graph

Pair = tuple[Callable[[Any], Any], Callable[[], nn.Module], tuple[int, ...]]

WITHOUT_PARAMETERS: dict[str, Pair] = {
    "max_pool1d": (lambda x: F.max_pool1d(x, 3, 2, 1, 2, True), lambda: nn.MaxPool1d(3, 2, 1, 2, ceil_mode=True), (3, 12)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2, ceil_mode=True), lambda: nn.MaxPool2d(2, ceil_mode=True), (3, 7, 9)),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 3, 2, 1, True, False), lambda: nn.AvgPool1d(3, 2, 1, True, False), (3, 12)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1, True, True, 4), lambda: nn.AvgPool2d(3, 2, 1, True, True, 4), (3, 7, 9)),
    "lp_pool1d": (lambda x: F.lp_pool1d(x, 2, 3, 2), lambda: nn.LPPool1d(2, 3, 2), (3, 12)),
    "lp_pool2d": (lambda x: F.lp_pool2d(x, 2, 3, 2, True), lambda: nn.LPPool2d(2, 3, 2, True), (3, 8, 9)),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 5), lambda: nn.AdaptiveAvgPool1d(5), (3, 12)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (2, 4)), lambda: nn.AdaptiveAvgPool2d((2, 4)), (3, 7, 9)),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 5), lambda: nn.AdaptiveMaxPool1d(5), (3, 12)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (2, 4)), lambda: nn.AdaptiveMaxPool2d((2, 4)), (3, 7, 9)),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 3), value=2.5), lambda: nn.ConstantPad2d((1, 2, 0, 3), 2.5), (3, 5, 4)),
    "pad, reflect": (lambda x: F.pad(x, (1, 2), "reflect"), lambda: nn.ReflectionPad1d((1, 2)), (3, 5)),
    "pad, replicate": (lambda x: F.pad(x, (1, 2, 3, 0), "replicate"), lambda: nn.ReplicationPad2d((1, 2, 3, 0)), (3, 5, 4)),
    "pad, circular": (lambda x: F.pad(x, (1, 2), "circular"), lambda: nn.CircularPad1d((1, 2)), (3, 5)),
    "interpolate": (
        lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), lambda: nn.Upsample(scale_factor=1.7, mode="bilinear"),
        (3, 5, 4),
    ),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), lambda: nn.PixelShuffle(2), (8, 3, 2)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), lambda: nn.PixelUnshuffle(2), (2, 6, 4)),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), lambda: nn.ChannelShuffle(2), (6, 4)),
    "layer_norm": (lambda x: F.layer_norm(x, (4,)), lambda: nn.LayerNorm(4, elementwise_affine=False), (3, 4)),
    "rms_norm": (lambda x: F.rms_norm(x, 4, eps=1e-3), lambda: nn.RMSNorm(4, 1e-3, False), (3, 4)),
    "group_norm": (lambda x: F.group_norm(x, 2), lambda: nn.GroupNorm(2, affine=False), (6, 4)),
    "instance_norm": (lambda x: F.instance_norm(x), lambda: nn.InstanceNorm2d(), (3, 4, 5)),
}  # fmt: skip


class Call(nn.Module):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: nn.Value) -> Any:
        return self._function(x)


@pytest.mark.parametrize("name", WITHOUT_PARAMETERS)
def test_functions_without_parameters(name: str) -> None:
    function, make, shape = WITHOUT_PARAMETERS[name]
    x = numbers(4, *shape)
    net, layer = Call(function), make()
    y = layer(x)
    np.testing.assert_array_equal(net(x), y)
    np.testing.assert_allclose(function(x), y, rtol=1e-6, atol=1e-6)  # at once, on arrays
    dy = numbers(*y.shape, seed=1)
    np.testing.assert_array_equal(net.backward(dy), layer.backward(dy))


WITH_PARAMETERS: dict[str, tuple[Callable[[Any, nn.Module], Any], Callable[[], nn.Module], tuple[int, ...]]] = {
    "conv1d": (
        lambda x, p: F.conv1d(x, p.weight, p.bias, 2, "valid", 2, 2), lambda: nn.Conv1d(4, 6, 3, 2, 0, 2, 2), (4, 11),
    ),
    "conv2d": (lambda x, p: F.conv2d(x, p.weight, p.bias, padding="same"), lambda: nn.Conv2d(3, 4, 4, padding="same"), (3, 7, 6)),
    "conv_transpose1d": (
        lambda x, p: F.conv_transpose1d(x, p.weight, p.bias, 3, 1, 2), lambda: nn.ConvTranspose1d(3, 4, 3, 3, 1, 2), (3, 7),
    ),
    "conv_transpose2d": (
        lambda x, p: F.conv_transpose2d(x, p.weight, p.bias, 2, 1, 1, 2), lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, 2),
        (4, 5, 4),
    ),
    "layer_norm": (lambda x, p: F.layer_norm(x, (3, 4), p.weight, p.bias), lambda: nn.LayerNorm((3, 4)), (5, 3, 4)),
    "rms_norm": (lambda x, p: F.rms_norm(x, 4, p.weight), lambda: nn.RMSNorm(4), (3, 4)),
    "group_norm": (lambda x, p: F.group_norm(x, 2, p.weight, p.bias), lambda: nn.GroupNorm(2, 6), (6, 4)),
    "batch_norm": (
        lambda x, p: F.batch_norm(x, p.running_mean, p.running_var, p.weight, p.bias, True), lambda: nn.BatchNorm2d(3), (3, 4, 5),
    ),
    "batch_norm, vectors": (
        lambda x, p: F.batch_norm(x, None, None, p.weight, p.bias), lambda: nn.BatchNorm1d(5, track_running_stats=False), (5,),
    ),
    "instance_norm": (
        lambda x, p: F.instance_norm(x, weight=p.weight, bias=p.bias), lambda: nn.InstanceNorm1d(3, affine=True), (3, 8),
    ),
}  # fmt: skip


class Holder(nn.Module):
    """Calls a function with the parameters of a layer, which it does not call."""

    def __init__(self, function: Callable[[Any, nn.Module], Any], layer: nn.Module) -> None:
        super().__init__()
        self._function, self.layer = function, layer

    def forward(self, x: nn.Value) -> Any:
        return self._function(x, self.layer)


@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_functions_with_parameters(name: str) -> None:
    function, make, shape = WITH_PARAMETERS[name]
    layer, net = make(), Holder(function, make())
    for parameter in layer.parameters():
        parameter.data = numbers(*parameter.shape, seed=3)
    net.layer.load_state_dict(layer.state_dict())
    x = numbers(4, *shape)
    y = layer(x)
    np.testing.assert_array_equal(net(x), y)
    assert all(p.used for p in net.parameters())
    dy = numbers(*y.shape, seed=1)
    np.testing.assert_array_equal(net.backward(dy), layer.backward(dy))
    for one, other in zip(net.parameters(), layer.parameters(), strict=True):
        np.testing.assert_array_equal(one.grad, other.grad)
    for key, array in layer.state_dict().items():  # running statistics moved, too
        np.testing.assert_array_equal(net.layer.state_dict()[key], array)
    np.testing.assert_array_equal(net.eval()(x), layer.eval()(x))


def test_arrays_are_parameters_that_are_not_trained() -> None:
    edges = np.float32([[[[1, -1]]]])
    net = nn.Sequential(nn.Conv2d(1, 1, 1), Call(lambda x: F.conv2d(x, edges)))
    x = numbers(2, 1, 3, 5)
    y = net(x)
    z = x * net[0].weight.data.item() + net[0].bias.data.item()
    np.testing.assert_allclose(y, z[..., :-1] - z[..., 1:], rtol=1e-5, atol=1e-6)
    net.backward(np.ones_like(y))
    assert len(list(net.parameters())) == 2 and edges.tolist() == [[[[1, -1]]]]
    np.testing.assert_allclose(F.conv2d(x, nn.Parameter(edges)), x[..., :-1] - x[..., 1:], rtol=1e-5, atol=1e-6)


def test_unpooling() -> None:
    class Peaks(nn.Module):
        def forward(self, x: nn.Value) -> Any:
            values, indices = F.max_pool2d(x, 2, return_indices=True)
            return F.max_unpool2d(values, indices, 2, output_size=(5, 5))

    x = numbers(2, 3, 5, 5)
    values, indices = F.max_pool2d(x, 2, return_indices=True)
    np.testing.assert_array_equal(Peaks()(x), F.max_unpool2d(values, indices, 2, output_size=(5, 5)))
    values, indices = F.max_pool1d(x[:, 0], 2, return_indices=True)
    back = F.max_unpool1d(values, indices, 2)
    np.testing.assert_array_equal(np.sort(back[back != 0]), np.sort(values.ravel()))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: F.conv2d(x, np.zeros((2, 3, 3), np.float32)), ValueError, r"weight has shape \(2, 3, 3\), but must be"),
        (lambda x: F.conv2d(x, 3), TypeError, r"conv2d: weight is a int. Pass an nn\.Parameter, a value or an array"),
        (lambda x: F.layer_norm(x, 4, x), ValueError, "layer_norm: weight has shape"),
        (lambda x: F.conv2d(x, nn.Parameter(np.zeros((2, 3, 1, 1)))), TypeError, "Parameter"),
        (lambda x: F.pad(x, (1, 2, 3)), ValueError, "must be pairs of integers"),
        (lambda x: F.pad(x, (1,) * 10), ValueError, "must be pairs of integers, at most one for each axis"),
        (lambda x: F.pad(x, (1, 2), "mirror"), ValueError, "mode is 'mirror'. Use one of 'constant', 'reflect'"),
        (lambda x: F.batch_norm(x, np.zeros(3, np.float32), None), ValueError, "running_mean and running_var belong together"),
    ],
)  # fmt: skip
def test_mistakes(function: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Call(function).build((3, 4, 4))


@pytest.mark.parametrize("count", [1, 3])
def test_prelu_is_the_layer(count: int) -> None:
    """One native step, with a parameter or with fixed slopes; slopes that are computed have their own gradient."""
    x, slopes = numbers(2, 3, 4), np.float32([0.5, -0.25, 2.0])[:count]

    class Sloped(nn.Module):
        def __init__(self, use: Callable[[Any, Any], Any]) -> None:
            super().__init__()
            self.slopes, self.use = nn.Parameter(slopes), use

        def forward(self, x: nn.Value) -> nn.Value:
            y: nn.Value = self.use(x, self.slopes)
            return y

    layer = nn.PReLU(count)
    layer.weight.data = slopes
    expected = layer(x)
    dx = layer.backward(numbers(2, 3, 4, seed=1))
    for use, steps in (
        (F.prelu, ["Prelu"]),
        (lambda x, p: F.prelu(x, slopes), ["Prelu"]),
        (lambda x, p: F.prelu(x, p * 1), None),
    ):
        net = Sloped(use)
        np.testing.assert_allclose(net(x), expected, rtol=1e-6)
        assert steps is None or [type(step).__name__ for step in recorded_graph(net).operations] == steps
        np.testing.assert_allclose(net.backward(numbers(2, 3, 4, seed=1)), dx, rtol=1e-6)
        if any(p is net.slopes for p in recorded_graph(net).parameters):
            np.testing.assert_allclose(net.slopes.grad, layer.weight.grad, rtol=1e-5)
    np.testing.assert_allclose(F.prelu(x, slopes), expected, rtol=1e-6)


def test_prelu_refuses_other_slopes() -> None:
    for slopes, shape in ((numbers(4), r"\(4,\)"), (numbers(3, 1), r"\(3, 1\)")):
        with pytest.raises(ValueError, match=rf"prelu: weight has shape {shape}, but \(3,\), one per channel"):
            F.prelu(numbers(2, 3, 4), slopes)


@pytest.mark.parametrize("windows", [40, 3000], ids=["of 600 samples", "of 45,000 samples"])
def test_windows_of_long_signals(windows: int) -> None:
    """A spectrum by convolution: one channel, wide windows, many outputs, along a signal of any length."""
    random = np.random.RandomState(0)
    weight = random.standard_normal((130, 1, 33)).astype(np.float32)
    x = random.standard_normal((2, 1, 15 * windows)).astype(np.float32)
    actual = F.conv1d(x, weight, stride=15, padding=16)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (16, 16)))
    rows = np.lib.stride_tricks.sliding_window_view(padded[:, 0], 33, axis=1)[:, ::15]
    np.testing.assert_allclose(actual, np.einsum("ntk,ok->not", rows, weight[:, 0]), 1e-4, 1e-4)
