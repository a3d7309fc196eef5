"""Small calls that workers make together, each for samples of its own: the bits of calls made one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from helpers import assert_bitwise
from openbnns import engines, nn

pytestmark = pytest.mark.usefixtures("recorded_schedule")

Array = np.ndarray[Any, Any]
BATCH = 96


def joint_runs(run: Callable[[], object], batch: int, *, threads: int = 2) -> int:
    """How often ``run`` shares out all samples of a batch as one range for each of the threads."""
    bn.set_num_threads(threads)
    engines._core.record_schedule(True)
    engines._core.take_schedule()
    run()
    taken = engines._core.take_schedule()
    engines._core.record_schedule(False)
    return sum(1 for asked, items, ranges, _ in taken if ranges and items == batch and asked == threads)


def numbers(rng: np.random.Generator, *shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


# Networks.

ACTIVATIONS = [nn.ReLU, nn.Tanh, nn.Sigmoid, nn.LeakyReLU, nn.GELU, None]


def random_network(seed: int) -> tuple[list[int], int, Callable[[], nn.Module]]:
    """Sizes of the layers, samples of a batch, and what makes the network."""
    rng = np.random.default_rng(seed)
    sizes = [int(n) for n in rng.integers(1, 170, int(rng.integers(3, 7)))]
    batch = int(rng.integers(64, 300))
    chosen = [ACTIVATIONS[i] for i in rng.integers(0, len(ACTIVATIONS), len(sizes))]

    def make() -> nn.Module:
        layers: list[nn.Module] = []
        for inputs, outputs, activation in zip(sizes, sizes[1:], chosen, strict=False):
            layers += [nn.Linear(inputs, outputs)] + ([activation()] if activation else [])
        net = nn.Sequential(*layers)
        net.build((sizes[0],), seed=seed)
        return net

    return sizes, batch, make


def trained(seed: int, threads: int) -> tuple[list[float], list[Array]]:
    """The losses of a few steps, and the parameters after them."""
    sizes, batch, make = random_network(seed)
    rng = np.random.default_rng(seed)
    bn.set_num_threads(threads)
    net = make()
    step = net.compile_step(nn.CrossEntropyLoss(), nn.Adam(net.parameters(), lr=0.01), batch)
    x, y = numbers(rng, 4, batch, sizes[0]), rng.integers(0, sizes[-1], (4, batch))
    losses = [step(*pair) for pair in zip(x, y, strict=True)]
    return losses, [p.data.copy() for p in net.parameters()]


@pytest.mark.parametrize("seed", range(20))
def test_random_networks_train_to_the_same_bits(seed: int) -> None:
    losses, parameters = trained(seed, 1)
    for threads in (2, 3, 7):
        others, actual = trained(seed, threads)
        assert others == losses, f"losses with {threads} threads"
        for i, (one, other) in enumerate(zip(actual, parameters, strict=True)):
            assert_bitwise(one, other, f"parameter {i} with {threads} threads")


@pytest.mark.parametrize(("activation", "runs"), [(nn.ReLU, 2), (nn.GELU, 3)])
def test_a_training_step_of_small_layers_is_made_jointly(activation: type[nn.Module], runs: int) -> None:
    """Forward pass and loss as one, backward pass as another, in steps and in epochs.

    A layer applies ReLU itself. GELU is a call of its own, and its gradient has the place of its value, which the gradient of
    the weights behind it still needs: the backward pass is cut there.
    """
    rng = np.random.default_rng(1)
    net = nn.Sequential(nn.Linear(64, 100), activation(), nn.Linear(100, 10))
    net.build((64,), seed=1)
    step = net.compile_step(nn.CrossEntropyLoss(), nn.Adam(net.parameters(), lr=0.01), 200)
    x, y = numbers(rng, 600, 64), rng.integers(0, 10, 600)
    for _ in range(3):
        step(x[:200], y[:200])
    assert joint_runs(lambda: step(x[:200], y[:200]), 200) == runs
    assert joint_runs(lambda: step.epoch(x, y), 200) == 3 * runs
    assert joint_runs(lambda: step(x[:200], y[:200]), 200, threads=1) == 0


@pytest.mark.parametrize("batch", [16, 61, 64])
def test_inference_is_made_jointly(batch: int) -> None:
    """With weights that are kept packed, layers may be larger, and samples fewer."""
    rng = np.random.default_rng(2)
    net = nn.Sequential(nn.Linear(300, 257), nn.ReLU(), nn.Linear(257, 130), nn.Sigmoid(), nn.Linear(130, 10))
    net.build((300,), seed=1)
    x = numbers(rng, batch, 300)
    bn.set_num_threads(1)
    expected = net.eval()(x)
    frozen = net.compile_inference(batch)
    for threads in (2, 3, 64):
        bn.set_num_threads(threads)
        assert_bitwise(frozen(x), expected, f"{threads} threads")
        assert_bitwise(net(x), expected, f"{threads} threads")
    assert joint_runs(lambda: frozen(x), batch) == 1


def test_weights_that_change_between_calls_are_seen_by_all_workers() -> None:
    rng = np.random.default_rng(3)
    net = nn.Sequential(nn.Linear(150, 200), nn.ReLU(), nn.Linear(200, 40))
    net.build((150,), seed=1)
    x = numbers(rng, BATCH, 150)
    bn.set_num_threads(2)
    net.eval()
    for _ in range(3):
        net(x)
        for parameter in net.parameters():
            parameter.data = numbers(rng, *parameter.shape)
        actual = net(x)
        bn.set_num_threads(1)
        assert_bitwise(actual, net(x), "y")
        bn.set_num_threads(2)


# Memory: calls are joined only if workers that are ahead cannot disturb others.


class Layers:
    """Two layers of one width, and memory for their values."""

    def __init__(self, width: int = 100) -> None:
        self.rng = np.random.default_rng(4)
        self.width = width
        self.layers = [
            bn.FullyConnectedLayer(weights=numbers(self.rng, width, width), bias=numbers(self.rng, width))
            for _ in range(2)
        ]
        self.memory = numbers(self.rng, 8, (BATCH + 2) * width)

    def array(self, place: int, first: int = 0, width: int | None = None) -> Array:
        width = width or self.width
        return self.memory[place, first : first + BATCH * width].reshape(BATCH, width)

    def check(self, calls: list[Callable[[], object]], *, joint: int) -> None:
        """The calls, repeated by two workers, have the bits of those by one, and are made jointly so many times."""
        replay = engines._core.CallList([self.memory])
        before = self.memory.copy()
        for call in calls:
            assert replay.place(call)
        results = []
        for threads in (1, 2, 5):
            bn.set_num_threads(threads)
            for _ in range(20):
                self.memory[...] = before
                assert replay.run() == len(calls)
                results.append(self.memory.copy())
        for result in results[1:]:
            assert_bitwise(result, results[0], "all memory")
        assert joint_runs(replay.run, BATCH) == joint


def test_one_call_reads_what_the_other_has_written() -> None:
    it = Layers()
    x, y, z = (it.array(i) for i in range(3))
    it.check([lambda: it.layers[0].apply(x, y), lambda: it.layers[1].apply(y, z)], joint=1)


def test_samples_in_the_place_of_others_that_are_no_longer_needed() -> None:
    it = Layers()
    x, y = it.array(0), it.array(1)
    it.check([lambda: it.layers[0].apply(x, y), lambda: it.layers[1].apply(y, x)], joint=1)


def test_samples_at_another_place_of_the_same_memory() -> None:
    """The second call writes where other workers still read."""
    it = Layers()
    x, y, shifted = it.array(0), it.array(1), it.array(0, first=16)
    it.check([lambda: it.layers[0].apply(x, y), lambda: it.layers[1].apply(y, shifted)], joint=0)


def test_samples_of_other_workers_are_waited_for() -> None:
    """The second call reads samples that other workers write."""
    it = Layers()
    x, y, z, next_y = it.array(0), it.array(1), it.array(2), it.array(1, first=it.width)
    it.check([lambda: it.layers[0].apply(x, y), lambda: it.layers[1].apply(next_y, z)], joint=0)


def gradients(it: Layers, layer: int, x: Array, dx: Array, dy: Array, place: int) -> Callable[[], object]:
    """A backward call with gradients of weights and bias."""
    width = it.width
    dw = it.memory[place, : width * width].reshape(width, width) if place < 8 else None
    db = it.memory[place, width * width : width * width + width] if place < 8 else None
    assert width * width + width <= it.memory.shape[1] or place == 8
    return lambda: it.layers[layer].apply_backward(
        x,
        output_gradient=dy,
        generating_input_gradient=dx,
        generating_weights_gradient=dw,
        generating_bias_gradient=db,
    )


def test_gradients_of_weights_come_last() -> None:
    it = Layers(width=90)
    x, y, dz, dy, dx = (it.array(i) for i in range(5))
    it.check([gradients(it, 1, y, dy, dz, 5), gradients(it, 0, x, dx, dy, 6)], joint=1)


def test_what_gradients_of_weights_read_is_left_alone_until_then() -> None:
    """The second call would write what the first one needs for the sums over all samples."""
    it = Layers(width=90)
    x, y, dz, dy = (it.array(i) for i in range(4))
    it.check([gradients(it, 1, y, dy, dz, 5), gradients(it, 0, x, dz, dy, 6)], joint=0)


def test_gradients_of_weights_are_not_read_before_they_are_there() -> None:
    """The second call reads, as samples, what the first one writes in the end."""
    it = Layers(width=90)
    y, dz, dy = it.array(1), it.array(2), it.array(3)
    z, sums = it.array(4), it.array(5)
    it.check([gradients(it, 1, y, dy, dz, 5), lambda: it.layers[0].apply(sums, z)], joint=0)


def test_a_filter_that_has_ended_declines_alone() -> None:
    it = Layers()
    x, y, z = (it.array(i) for i in range(3))
    replay = engines._core.CallList([it.memory])
    assert replay.place(lambda: it.layers[0].apply(x, y)) and replay.place(lambda: it.layers[1].apply(y, z))
    bn.set_num_threads(2)
    assert replay.run() == 2
    it.layers[1]._filter.redeclare()
    y[...], expected = 0, it.layers[0].apply(x)
    assert replay.run() == 1, "the first call is made, the second one is not"
    assert_bitwise(y, expected, "y")
