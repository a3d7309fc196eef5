"""Convolution, batch normalization, ReLU and the maximum of 2 x 2 pixels as one step, against the same layers alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns
from helpers import Array
from networks import numbers
from openbnns import nn
from openbnns.errors import BNNSError
from openbnns.graph.operations import NormalizedOperation
from openbnns.nn.recording import recorded_graph

Make = Callable[[], nn.Module]


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let networks that are built from now on run their poolings as separate steps."""
    return lambda: monkeypatch.setattr(NormalizedOperation, "_takes_pooling", lambda self, pooling: False)


def parts(net: nn.Module) -> list[int]:
    """The number of modules of every step."""
    return [len(operation.modules) for operation in recorded_graph(net).operations]


def prepared(make: Make, shape: tuple[int, ...]) -> nn.Module:
    """A network with parameters that no default hides, gammas below zero among them."""
    net = make()
    net.build(shape, seed=3)
    for i, parameter in enumerate(net.parameters()):
        parameter.data[...] += 0.4 * numbers(*parameter.shape, seed=20 + i)
    return net


def results(net: nn.Module, x: Array, *, input_gradient: bool) -> dict[str, Array]:
    """All that a training pass and an inference after it give, under names of their own."""
    program = net.program(len(x), training=True, input_gradients=input_gradient)
    program.fill(0, x)
    arrays = {"y": program.forward().copy()}
    assert program.output_gradient is not None
    program.output_gradient[...] = numbers(*arrays["y"].shape, seed=9)
    program.backward()
    if input_gradient:
        assert program.input_gradients[0] is not None
        arrays["dx"] = program.input_gradients[0].copy()
    arrays |= {f"d{name}": parameter.grad.copy() for name, parameter in net.named_parameters()}
    arrays |= {f"state {name}": array.copy() for name, array in net.state_dict().items()}
    net.eval()
    arrays["inference"] = net(x).copy()
    return arrays


def compare(one: dict[str, Array], other: dict[str, Array]) -> None:
    """Outputs have the same bits; gradients differ by the order of two sums."""
    assert one.keys() == other.keys()
    for name, array in one.items():
        if not name.startswith("d"):
            np.testing.assert_array_equal(array, other[name], err_msg=name)
            continue
        scale = float(np.abs(other[name]).max())
        if name.endswith("0.bias"):  # 0 but for rounding: the normalization takes every constant away
            scale = float(np.abs(other["d0.weight"]).max()) + 1
        np.testing.assert_allclose(array, other[name], rtol=0, atol=2e-5 * scale, err_msg=name)


def chain(*first: nn.Module, relu: bool = True, **options: bool) -> Make:
    def make() -> nn.Module:
        activation = [nn.ReLU()] if relu else []
        return nn.Sequential(*copy.deepcopy(first), nn.BatchNorm2d(**options), *activation, nn.MaxPool2d(2))

    return make


CHAINS: dict[str, tuple[Make, tuple[int, ...]]] = {
    "5 x 5, one channel": (chain(nn.Conv2d(16, 5, padding=2)), (1, 28, 28)),
    "5 x 5, narrow": (chain(nn.Conv2d(32, 5, padding=2)), (16, 14, 14)),
    "no activation": (chain(nn.Conv2d(6, 3, padding=1), relu=False), (3, 12, 13)),
    "odd sizes": (chain(nn.Conv2d(5, 3)), (3, 15, 17)),
    "odd rows, narrow": (chain(nn.Conv2d(5, 3, padding=1)), (2, 13, 10)),
    "one column too many": (chain(nn.Conv2d(3, 3, padding=1)), (2, 9, 33)),
    "wide": (chain(nn.Conv2d(4, 3, padding=1)), (2, 5, 75)),
    "two columns": (chain(nn.Conv2d(4, 3, padding=1)), (2, 70, 2)),
    "two rows": (chain(nn.Conv2d(4, 3, padding=1)), (2, 2, 70)),
    "large planes": (chain(nn.Conv2d(3, 3, padding=1)), (2, 131, 133)),
    "no bias": (chain(nn.Conv2d(8, 3, padding=1, bias=False)), (4, 16, 16)),
    "not affine": (chain(nn.Conv2d(8, 3, padding=1), affine=False), (4, 16, 16)),
    "no moving statistics": (chain(nn.Conv2d(8, 3, padding=1), track_running_stats=False), (4, 16, 16)),
    "step 2": (chain(nn.Conv2d(8, 3, padding=1, stride=2)), (4, 30, 25)),
    "1 x 1": (chain(nn.Conv2d(24, 1)), (17, 15, 16)),
    "many channels": (chain(nn.Conv2d(40, 3, padding=1)), (33, 12, 12)),
    "depthwise": (chain(nn.Conv2d(6, 3, padding=1, groups=6)), (6, 14, 15)),
    "groups": (chain(nn.Conv2d(8, 3, padding=1, groups=2)), (4, 14, 15)),
    "transposed": (chain(nn.ConvTranspose2d(5, 2, stride=2)), (4, 8, 9)),
}


@pytest.mark.parametrize("input_gradient", [True, False], ids=["with dx", "without dx"])
@pytest.mark.parametrize("batch", [1, 3, 20])
@pytest.mark.parametrize("name", CHAINS)
def test_one_step_equals_the_layers_alone(
    name: str, batch: int, input_gradient: bool, apart: Callable[[], None]
) -> None:
    make, shape = CHAINS[name]
    if name == "large planes" and batch == 20:
        batch = 4
    x = numbers(batch, *shape) + 0.5
    net = prepared(make, shape)
    assert len(parts(net)) == 1
    one = results(net, x, input_gradient=input_gradient)
    apart()
    net = prepared(make, shape)
    assert len(parts(net)) == 2
    compare(one, results(net, x, input_gradient=input_gradient))


@pytest.mark.parametrize("seed", range(12))
def test_random_networks(seed: int, apart: Callable[[], None]) -> None:
    random = np.random.RandomState(seed)
    height, width = random.randint(12, 45), random.randint(12, 45)
    sizes = [(int(random.randint(1, 20)), int(random.choice([1, 3, 5])), bool(random.randint(2))) for _ in range(2)]

    def make() -> nn.Module:
        layers: list[nn.Module] = []
        for channels, kernel, relu in sizes:
            layers += [nn.Conv2d(channels, kernel, padding=kernel // 2), nn.BatchNorm2d()]
            layers += [nn.ReLU()] * relu + [nn.MaxPool2d(2)]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(3))

    # one channel and a 1 x 1 kernel would leave nothing but rounding: the normalization takes every factor away
    shape = (int(random.randint(2, 5)), int(height), int(width))
    x = numbers(int(random.randint(2, 12)), *shape, seed=seed)
    one = results(prepared(make, shape), x, input_gradient=True)
    apart()
    other = results(prepared(make, shape), x, input_gradient=True)
    for name, array in one.items():
        if name.endswith(".bias") and f"d{name[1:-4]}weight" in one and one[f"d{name[1:-4]}weight"].ndim == 4:
            continue  # of a convolution: nothing but rounding
        scale = float(np.abs(other[name]).max()) if name.startswith("d") else 0.0
        np.testing.assert_allclose(array, other[name], rtol=0, atol=1e-4 * scale, err_msg=name)


@pytest.mark.parametrize("name", ["5 x 5, one channel", "5 x 5, narrow", "odd sizes", "1 x 1"])
def test_threads_do_not_change_a_bit(name: str) -> None:
    make, shape = CHAINS[name]
    before = openbnns.get_num_threads()
    runs = []
    try:
        for threads in (1, 2, 3):
            openbnns.set_num_threads(threads)
            for input_gradient in (True, False):
                runs.append(results(prepared(make, shape), numbers(30, *shape), input_gradient=input_gradient))
    finally:
        openbnns.set_num_threads(before)
    for other in runs[1:]:
        for key in other.keys() & runs[0].keys():
            np.testing.assert_array_equal(runs[0][key], other[key], err_msg=key)


# What becomes one step, and what does not.


class Both(nn.Module):
    """A module that reads the images before and after the pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.pool, self.last = (
            nn.Conv2d(3, 3),
            nn.BatchNorm2d(),
            nn.MaxPool2d(2),
            nn.Conv2d(3, 2, stride=2),
        )

    def forward(self, x: nn.Value) -> nn.Value:
        z: nn.Value = self.norm(self.conv(x))
        return self.pool(z) + self.last(z)


@pytest.mark.parametrize(
    ("make", "shape", "expected"),
    [
        (chain(nn.Conv2d(3, 3)), (2, 14, 14), [4]),
        (chain(nn.Conv2d(3, 3)), (2, 12, 12), [3, 1]),  # 10 x 10 pixels: small planes
        (lambda: nn.Sequential(nn.Conv2d(3, 3), nn.ReLU(), nn.MaxPool2d(2)), (2, 14, 14), [2, 1]),
        (lambda: nn.Sequential(nn.BatchNorm2d(), nn.ReLU(), nn.MaxPool2d(2)), (2, 14, 14), [2, 1]),
        (lambda: nn.Sequential(nn.Conv2d(3, 3), nn.BatchNorm2d(), nn.Tanh(), nn.MaxPool2d(2)), (2, 14, 14), [3, 1]),
        (lambda: nn.Sequential(nn.Conv2d(3, 3), nn.GroupNorm(3), nn.ReLU(), nn.MaxPool2d(2)), (2, 14, 14), [3, 1]),
        (lambda: nn.Sequential(nn.Conv2d(3, 3), nn.BatchNorm2d(), nn.AvgPool2d(2)), (2, 14, 14), [2, 1]),
        (lambda: nn.Sequential(nn.Conv2d(3, 3), nn.BatchNorm2d(), nn.MaxPool2d(3)), (2, 14, 14), [2, 1]),
        (lambda: nn.Sequential(nn.Conv2d(3, 3), nn.BatchNorm2d(), nn.MaxPool2d(2, 1)), (2, 14, 14), [2, 1]),
        (lambda: nn.Sequential(nn.Conv2d(3, 3), nn.BatchNorm2d(), nn.MaxPool2d((2, 3))), (2, 14, 14), [2, 1]),
        (lambda: nn.Sequential(nn.Conv2d(3, 3), nn.BatchNorm2d(), nn.MaxPool2d(2, padding=1)), (2, 14, 14), [2, 1]),
        (lambda: nn.Sequential(nn.Conv2d(3, 3), nn.BatchNorm2d(), nn.Dropout(0.5), nn.MaxPool2d(2)), (2, 14, 14), [2, 1, 1]),
        (lambda: nn.Sequential(nn.Conv2d(3, 3), nn.BatchNorm2d(), nn.MaxPool2d(2), nn.ReLU()), (2, 14, 14), [3, 1]),
        (lambda: nn.Sequential(nn.Conv2d(3, 3), nn.BatchNorm2d(), nn.MaxPool2d(2), nn.MaxPool2d(2)), (2, 34, 34), [3, 1]),
        (Both, (2, 14, 14), [2, 1, 1, 1]),
    ],
)  # fmt: skip
def test_steps_that_become_one(make: Make, shape: tuple[int, ...], expected: list[int]) -> None:
    net = make()
    net.build(shape, seed=0)
    assert parts(net) == expected
    x = numbers(4, *shape)
    with openbnns.engine("reference"):
        reference = make()
        reference.build(shape, seed=0)
        reference.load_state_dict(net.state_dict())
        reference.eval()
        expected_y = reference(x)
    net.eval()
    np.testing.assert_allclose(net(x), expected_y, rtol=1e-4, atol=1e-5)


def test_the_parts_keep_their_names_and_lines() -> None:
    net = chain(nn.Conv2d(3, 3))()
    net.build((2, 14, 14), seed=0)
    assert [name for name, _ in net.named_modules()] == ["", "0", "1", "2", "3"]
    assert set(net.state_dict()) >= {"0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"}
    assert "Conv2d + BatchNorm2d + ReLU + MaxPool2d" in net.summary() and "(3, 6, 6)" in net.summary()


def without_lent(program: Any) -> int:
    """Bytes of the arena, but for those that plans keep from forward to backward or borrow for a call."""
    kept = sum(block.size for block in program._kept_blocks.values())
    return int(program.arena_bytes - kept - max(block.size for block in program.scratch_blocks.values()))


def test_less_memory_than_the_layers_alone(apart: Callable[[], None]) -> None:
    make, shape = CHAINS["5 x 5, one channel"]
    one = prepared(make, shape).program(8, training=True)
    apart()
    alone = prepared(make, shape).program(8, training=True)
    assert without_lent(one) < 0.5 * without_lent(alone)  # values and their gradients
    assert one.arena_bytes < 0.75 * alone.arena_bytes  # with what plans keep and borrow


# Values.


def test_the_first_of_equal_pixels_wins() -> None:
    """Images without differences: the gradient of a window goes to its upper left pixel."""
    net = nn.Sequential(nn.Conv2d(1, 1), nn.BatchNorm2d(), nn.ReLU(), nn.MaxPool2d(2))
    net.build((1, 12, 13), seed=0)
    net[0].weight.data[...] = 1
    net[1].bias.data[...] = 2
    x = np.full((2, 1, 12, 13), 3, np.float32)
    x[1] = 5
    y = net(x)
    v = numbers(*y.shape)
    net.backward(v)
    np.testing.assert_allclose(net[1].bias.grad, [v.sum()], rtol=1e-5)
    expected = net[0].weight.grad.copy()
    reference = nn.Sequential(nn.Conv2d(1, 1), nn.BatchNorm2d(), nn.ReLU(), nn.MaxPool2d(2))
    with openbnns.engine("reference"):
        reference.build((1, 12, 13), seed=0)
        reference.load_state_dict(net.state_dict())
        np.testing.assert_allclose(reference(x), y, rtol=1e-5)
        reference.backward(v)
    np.testing.assert_allclose(expected, reference[0].weight.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_spread_as_by_the_layers_alone(value: float, apart: Callable[[], None]) -> None:
    make, shape = CHAINS["odd sizes"]
    x = numbers(5, *shape)
    x[2, 1, 4, 5] = value
    results = []
    for separate in (False, True):
        if separate:
            apart()
        net = prepared(make, shape)
        y = net(x).copy()
        dx = net.backward(numbers(*y.shape, seed=1))
        results.append([y, dx, *(p.grad.copy() for p in net.parameters())])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(np.isnan(one), np.isnan(other))


def test_gradients_agree_with_finite_differences() -> None:
    """Along random directions; the numbers of the reference engine, the gradients of this one."""
    make, shape = CHAINS["odd rows, narrow"]
    net = prepared(make, shape)
    x = numbers(12, *shape)
    v = numbers(*net(x).shape, seed=2).astype(np.float64)
    dx = net.backward(v.astype(np.float32))
    points = [(x, dx)] + [(p.data, p.grad.copy()) for p in net.parameters()]
    step = 2e-3
    with openbnns.engine("reference"):
        for index, (array, gradient) in enumerate(points):
            u = numbers(*array.shape, seed=10 + index)
            start, sums = array.copy(), []
            for factor in (1, -1):
                array[...] = start + factor * step * u
                sums.append(float(np.sum(v * net(x))))
            array[...] = start
            analytic = float(np.sum(gradient.astype(np.float64) * u))
            scale = float(np.sqrt(np.sum((gradient.astype(np.float64) * u) ** 2)))
            assert analytic == pytest.approx((sums[0] - sums[1]) / (2 * step), rel=2e-2, abs=2e-2 * scale + 2e-2), index


# Batches and engines.


def test_batches_of_changing_size() -> None:
    make, shape = CHAINS["5 x 5, narrow"]
    net = prepared(make, shape)
    alone = {}
    for batch in (7, 2, 7, 19, 1):
        net.train()
        y = net(numbers(batch, *shape, seed=batch)).copy()
        dx = net.backward(numbers(*y.shape, seed=1)).copy()
        if batch in alone:
            np.testing.assert_array_equal(y, alone[batch][0])
            np.testing.assert_array_equal(dx, alone[batch][1])
        alone[batch] = (y, dx)


def test_an_inference_between_forward_and_backward_changes_nothing() -> None:
    make, shape = CHAINS["5 x 5, one channel"]
    x, gradients = numbers(6, *shape), []
    for inferences in (0, 2):
        net = prepared(make, shape)
        program = net.program(6, training=True)
        program.fill(0, x)
        v = numbers(*program.forward().shape, seed=1)
        other = net.program(4, training=False)
        for _ in range(inferences):
            other.fill(0, numbers(4, *shape, seed=5))
            other.forward()
        assert program.output_gradient is not None
        program.output_gradient[...] = v
        program.backward()
        gradients.append([p.grad.copy() for p in net.parameters()])
    for one, two in zip(*gradients, strict=True):
        np.testing.assert_array_equal(one, two)


def test_forward_and_backward_on_different_engines_are_refused() -> None:
    make, shape = CHAINS["odd sizes"]
    for first, second in (("native", "reference"), ("reference", "native")):
        net = prepared(make, shape)
        with openbnns.engine(first):
            y = net(numbers(3, *shape))
        with openbnns.engine(second), pytest.raises(BNNSError, match="engine"):
            net.backward(y)


@pytest.mark.parametrize("name", ["odd sizes", "no activation", "transposed"])
def test_engines_agree(name: str) -> None:
    make, shape = CHAINS[name]
    results = []
    for engine in ("native", "reference"):
        with openbnns.engine(engine):
            net = prepared(make, shape)
            y = net(numbers(4, *shape)).copy()
            dx = net.backward(numbers(*y.shape, seed=1))
            grads = [p.grad.copy() for key, p in net.named_parameters() if key != "0.bias"]
            results.append([y, dx, *grads, *net.state_dict().values()])
    for native, reference in zip(*results, strict=True):
        scale = float(np.abs(reference).max())
        np.testing.assert_allclose(native, reference, rtol=0, atol=2e-5 * scale)
