"""set_accuracy("exact"): plain sums in every convolution, however it is reached."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from openbnns import engines, nn

# channels in and out, height and width, kernel, stride, padding: all of them by Winograd's method in "fast"
SHAPES = [
    (24, 40, 19, 3, 1, 1),
    (33, 31, 16, 5, 1, 2),
    (32, 40, 34, 4, 2, 1),
    (40, 40, 35, 5, 2, 2),
    (48, 33, 38, 6, 2, 2),
]
BATCH = 3


@pytest.fixture
def exact() -> Iterator[None]:
    bn.set_accuracy("exact")
    yield
    bn.set_accuracy("fast")


def integers(*shape: int, seed: int = 0, most: int = 4) -> Any:
    return np.random.RandomState(seed).randint(-most, most + 1, shape).astype(np.float32)


def results(shape: tuple[int, ...], *, transposed: bool) -> list[Any]:
    """Output, and gradients of input, weights and bias of a convolution of small integers."""
    c, k, side, kernel, stride, padding = shape
    layer = bn.ConvolutionLayer(
        type=bn.ConvolutionType.TRANSPOSED if transposed else bn.ConvolutionType.STANDARD,
        input=bn.Shape.image_chw(side, side, c),
        weights=integers(k, c, kernel, kernel, seed=1),  # (O, I, KH, KW) in both
        bias=integers(k, seed=2),
        stride=(stride, stride),
        padding=bn.ConvolutionPadding.symmetric(x=padding, y=padding),
    )
    x = integers(BATCH, c, side, side, seed=3)
    y = layer.apply(x)
    dy = integers(*y.shape, seed=4)
    return [y, *layer.apply_backward(input=x, output=y, output_gradient=dy)]


@pytest.mark.parametrize("transposed", [False, True], ids=["plain", "transposed"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s[3]}x{s[3]}-stride{s[4]}")
@pytest.mark.covers("conv.fwd", "conv.bwd.dx", "conv.bwd.dw")
def test_small_integers_are_exact(shape: tuple[int, ...], transposed: bool) -> None:
    with bn.engine("reference"):
        expected = results(shape, transposed=transposed)
    fast = results(shape, transposed=transposed)
    bn.set_accuracy("exact")
    try:
        ours = results(shape, transposed=transposed)
    finally:
        bn.set_accuracy("fast")
    for values, wanted in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(values, wanted)
    if shape[3:5] != (4, 2):  # whose transforms only halve
        assert any((values != wanted).any() for values, wanted in zip(fast, expected, strict=True)), "no Winograd here"


def test_infinity_stays_where_it_belongs(exact: None) -> None:
    layer = bn.ConvolutionLayer(input=bn.Shape.image_chw(20, 20, 32), weights=integers(32, 32, 3, 3, most=3) + 0.5)
    x = integers(32, 20, 20)
    x[7, 10, 10] = np.inf
    finite = np.isfinite(layer.apply(x))
    assert not finite[:, 8:11, 8:11].any()
    finite[:, 8:11, 8:11] = True
    assert finite.all()


def fused(phase: bn.LearningPhase) -> list[Any]:
    """A convolution and a batch normalization that changes nothing in inference."""
    c, k, side = 32, 32, 16
    layer = bn.FusedConvolutionNormalizationLayer(
        input=bn.Shape.image_chw(side, side, c),
        convolution_weights=integers(k, c, 3, 3, seed=1),
        convolution_padding=bn.ConvolutionPadding.symmetric(x=1, y=1),
        normalization=bn.NormalizationType.batch(
            moving_mean=np.zeros(k, np.float32), moving_variance=np.ones(k, np.float32)
        ),
        normalization_epsilon=0.0,
    )
    x = integers(BATCH, c, side, side, seed=3)
    y = layer.apply(x, phase=phase)
    if phase is bn.LearningPhase.INFERENCE:
        return [y]
    dy = np.random.RandomState(5).standard_normal(y.shape).astype(np.float32)
    gradients = layer.apply_backward(input=x, output=y, output_gradient=dy)
    return [y, gradients.input, gradients.parameters[0]]


def test_fused_layers(exact: None) -> None:
    [ours] = fused(bn.LearningPhase.INFERENCE)
    with bn.engine("reference"):
        [expected] = fused(bn.LearningPhase.INFERENCE)
    np.testing.assert_array_equal(ours, expected)
    trained = fused(bn.LearningPhase.TRAINING)
    with bn.engine("reference"):
        wanted = fused(bn.LearningPhase.TRAINING)
    bn.set_accuracy("fast")
    fast = fused(bn.LearningPhase.TRAINING)
    for values, other, right in zip(trained, fast, wanted, strict=True):
        np.testing.assert_allclose(values, right, rtol=0, atol=2e-5 * np.abs(right).max())
        assert not np.array_equal(values, other), "no Winograd here"


def network() -> nn.Module:
    net = nn.Sequential(nn.Conv2d(32, 3, padding=1), nn.BatchNorm2d(), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 3))
    return net.build((32, 16, 16), seed=0)


def trained(net: nn.Module) -> list[Any]:
    x = np.random.RandomState(1).standard_normal((8, 32, 16, 16)).astype(np.float32)
    y = net(x)
    net.backward(np.random.RandomState(2).standard_normal(y.shape))
    return [y, *(p.grad.copy() for p in net.parameters())]


def same(a: list[Any], b: list[Any]) -> list[bool]:
    return [bool(np.array_equal(x, y)) for x, y in zip(a, b, strict=True)]


class TestNetworks:
    def test_follow_the_setting_at_their_next_call(self) -> None:
        net = network()
        fast = trained(net)
        bn.set_accuracy("exact")
        try:
            ours = trained(net)
            assert all(same(ours, trained(network())))
            assert not any(same(ours, fast)[:2])
        finally:
            bn.set_accuracy("fast")
        assert all(same(trained(net), fast))

    def test_trainer(self) -> None:
        """A network that has run before is recorded again, with its weights as they are."""
        net, other = network(), network()
        fast = trained(net)
        nn.Trainer(net, "mse", accuracy="exact", quiet=True)
        assert bn.get_accuracy() == "fast"
        ours = trained(net)
        bn.set_accuracy("exact")
        try:
            assert all(same(ours, trained(other)))
        finally:
            bn.set_accuracy("fast")
        assert not any(same(ours, fast)[:2])

    def test_random_choices(self) -> None:
        """The accuracy of the process, of the network and of a block around the call change between calls, in any order."""
        random, net = np.random.RandomState(5), network().eval()
        x = random.standard_normal((2, 32, 16, 16)).astype(np.float32)
        expected = {}
        for accuracy in ("fast", "exact"):
            with engines.using_arithmetic(engines.Arithmetic(accuracy)):
                expected[accuracy] = network().eval()(x)
        assert not np.array_equal(expected["fast"], expected["exact"])
        own = None
        try:
            for _ in range(60):
                if random.rand() < 0.5:
                    bn.set_accuracy(["fast", "exact"][random.randint(2)])
                if random.rand() < 0.2:
                    own = ["fast", "exact"][random.randint(2)]
                    net._compute_with("test", own, None)
                around = (
                    engines.arithmetic()
                    if random.rand() < 0.7
                    else engines.Arithmetic(["fast", "exact"][random.randint(2)])
                )
                with engines.using_arithmetic(around):
                    np.testing.assert_array_equal(net(x), expected[own or around.accuracy])
        finally:
            bn.set_accuracy("fast")

    def test_trainer_mistakes(self) -> None:
        with pytest.raises(ValueError, match=r"Trainer: there is no accuracy 'high'\. Choose 'fast' or 'exact'"):
            nn.Trainer(network(), "mse", accuracy="high")


def test_a_filter_keeps_what_was_set_when_it_was_created(exact: None) -> None:
    """Also a plan that is made later, to find the input of an activation that its output does not determine."""
    layer = bn.ConvolutionLayer(
        input=bn.Shape.image_chw(18, 18, 32), weights=integers(32, 32, 3, 3, seed=1),
        activation=bn.ActivationFunction.elu(alpha=-0.5),
    )  # fmt: skip
    x = integers(BATCH, 32, 18, 18, seed=3)
    y = layer.apply(x)
    dy = integers(*y.shape, seed=4)
    before = layer.apply_backward(input=x, output=y, output_gradient=dy)
    bn.set_accuracy("fast")
    after = layer.apply_backward(input=x, output=y, output_gradient=dy)
    np.testing.assert_array_equal(layer.apply(x), y)
    for a, b in zip(before[:2], after[:2], strict=True):
        np.testing.assert_array_equal(a, b)


def test_mistakes() -> None:
    with pytest.raises(ValueError, match=r"set_accuracy: there is no accuracy 'precise'\. Choose 'fast' or 'exact'\."):
        bn.set_accuracy("precise")
    with pytest.raises(TypeError, match=r"set_accuracy: accuracy must be 'fast' or 'exact', not bool\."):
        bn.set_accuracy(True)  # type: ignore[arg-type]
    assert bn.get_accuracy() == "fast"


def test_accuracies_of_overlapping_blocks() -> None:
    """Two trainers build at the same time, in two accuracies; the process keeps its own."""
    inside, outside = threading.Event(), threading.Event()

    def other() -> None:
        with engines.using_arithmetic(engines.Arithmetic("exact")):
            inside.set()
            assert outside.wait(10)

    thread = threading.Thread(target=other)
    with engines.using_arithmetic(engines.Arithmetic("exact")):
        thread.start()
        assert inside.wait(10)
    assert bn.get_accuracy() == "fast"
    outside.set()
    thread.join()
    assert bn.get_accuracy() == "fast"
    with engines.using_arithmetic(engines.Arithmetic("exact")):
        assert bn.get_accuracy() == "exact"
