"""Values that normalizations keep for the backward pass: in the planned memory of the network, and only once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from openbnns import nn
from openbnns.errors import LayerApplyError
from openbnns.graph import memory as _memory
from openbnns.graph import program as _program
from openbnns.nn.recording import recorded_graph

Make = Callable[[], nn.Module]


def images(activation: Make | None, channels: int = 5) -> nn.Sequential:
    """Convolutions with batch normalizations, each read by the next one alone."""
    layers: list[nn.Module] = []
    for _ in range(3):
        layers += [nn.Conv2d(channels, 3, padding=1), nn.BatchNorm2d()]
        layers += [] if activation is None else [activation()]
    return nn.Sequential(*layers, nn.Conv2d(2, 1))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(6) for _ in range(3))
        self.wide = nn.ModuleList(nn.Linear(6, 12) for _ in range(3))
        self.narrow = nn.ModuleList(nn.Linear(12, 6) for _ in range(3))

    def forward(self, x: Any) -> Any:
        for norm, wide, narrow in zip(self.norms, self.wide, self.narrow, strict=True):
            x = x + narrow(nn.functional.tanh(wide(norm(x))))
        return x


class Branches(nn.Module):
    """A result that a pooling reads on the way back, one that two layers read, and groups."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(4, 3, padding=1) for _ in range(2))
        self.norm, self.other = nn.BatchNorm2d(), nn.BatchNorm2d()
        self.left, self.right, self.groups = nn.Conv2d(4, 1), nn.Conv2d(4, 3, padding=1), nn.GroupNorm(2)
        self.instances, self.last = nn.InstanceNorm2d(affine=True), nn.Conv2d(3, 1)

    def forward(self, x: Any) -> Any:
        x = nn.functional.relu(self.norm(self.first(x)))
        bridge = nn.functional.relu(self.other(self.second(x)))
        pooled = nn.functional.max_pool2d(bridge, 3, 1, 1)
        x = self.groups(self.left(x)) + self.instances(self.right(x)) + pooled
        return self.last(x + bridge)


NETWORKS: dict[str, tuple[Make, tuple[int, ...]]] = {
    "relu": (lambda: images(nn.ReLU), (3, 7, 9)),
    "relu, large images": (lambda: images(nn.ReLU), (2, 13, 15)),
    "relu6": (lambda: images(nn.ReLU6), (3, 12, 13)),
    "relu6, small images": (lambda: images(nn.ReLU6), (3, 5, 7)),
    "leaky relu": (lambda: images(lambda: nn.LeakyReLU(0.2)), (3, 5, 6)),
    "leaky relu, large images": (lambda: images(lambda: nn.LeakyReLU(0.2)), (3, 13, 11)),
    "sigmoid": (lambda: images(nn.Sigmoid), (2, 12, 11)),
    "no activation": (lambda: images(None), (2, 12, 13)),
    "vectors": (
        lambda: nn.Sequential(
            nn.Linear(9), nn.BatchNorm1d(), nn.ReLU(), nn.Linear(7), nn.BatchNorm1d(), nn.Tanh(), nn.Linear(4)
        ),
        (6,),
    ),
    "pooled": (
        lambda: nn.Sequential(
            nn.Conv2d(4, 3, padding=1), nn.BatchNorm2d(), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 3), nn.BatchNorm2d()
        ),
        (2, 13, 14),
    ),
    "transformer": (Transformer, (5, 6)),
    "branches": (Branches, (3, 12, 11)),
}  # fmt: skip
REPEATED = set(NETWORKS) - {"sigmoid", "pooled"}
STANDING_ALONE = sorted(set(NETWORKS) - {"pooled", "transformer", "branches"})


def numbers(name: str) -> list[Any]:
    """All that some training steps give: recorded, replayed, on two batch sizes, with frozen parameters."""
    make, sample = NETWORKS[name]
    net = make().build(sample, seed=1)
    random = np.random.default_rng(0)
    results: list[Any] = []
    for i, batch in enumerate((4, 4, 3, 4)):
        x = random.standard_normal((batch, *sample)).astype(np.float32)
        y = net(x)
        dx = net.backward(random.standard_normal(y.shape).astype(np.float32), input_gradient=i % 2 == 0)
        results += [y, dx, *(p.grad.copy() for p in net.parameters())]
    results += [array.copy() for _, array in net.named_buffers()]
    next(iter(net.parameters())).requires_grad = False
    x = random.standard_normal((4, *sample)).astype(np.float32)
    y = net(x)
    return [*results, y, net.backward(random.standard_normal(y.shape).astype(np.float32))]


def assert_equal(ours: list[Any], others: list[Any]) -> None:
    for one, other in zip(ours, others, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", NETWORKS)
def test_sharing_memory_changes_no_number(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def apart(blocks: list[_memory.Block]) -> int:
        ends = itertools.accumulate(-(-block.size // 64) * 64 for block in blocks)
        for block, end in zip(blocks, ends, strict=True):
            block.offset = end - -(-block.size // 64) * 64
        return sum(-(-block.size // 64) * 64 for block in blocks)

    shared = numbers(name)
    monkeypatch.setattr(_program, "plan", apart)
    assert_equal(shared, numbers(name))


@pytest.mark.parametrize("name", NETWORKS)
def test_results_computed_again_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, sample = NETWORKS[name]
    again = numbers(name)
    repeated = make().build(sample).program(4, training=True)
    assert bool(repeated._repeated) == (name in REPEATED)
    monkeypatch.setattr(_program.Program, "_find_repeated", lambda self: None)
    kept = make().build(sample).program(4, training=True)
    assert repeated.arena_bytes < kept.arena_bytes or name not in REPEATED - {
        "vectors",
        "branches",
    }  # too small to tell
    assert_equal(again, numbers(name))


@pytest.mark.parametrize("batch", [2, 9])
@pytest.mark.parametrize("name", STANDING_ALONE)
def test_gradients_are_those_of_the_layer(name: str, batch: int) -> None:
    """A layer by itself keeps its input, and reads its result."""
    make, sample = NETWORKS[name]
    whole = make()
    assert isinstance(whole, nn.Sequential)
    net = whole[: 2 if name == "no activation" else 3].build(sample, seed=2)
    random = np.random.default_rng(batch)
    x = random.standard_normal((batch, *sample)).astype(np.float32)
    y = net(x)
    dy = random.standard_normal(y.shape).astype(np.float32)
    dx = net.backward(dy)
    (operation,) = recorded_graph(net).operations
    (made,) = operation.all_made()
    layer: Any = made.layer
    np.testing.assert_array_equal(layer.apply(x, phase=bn.LearningPhase.TRAINING), y)
    gradients = layer.apply_backward(input=x, output=y, output_gradient=dy)
    np.testing.assert_array_equal(gradients.input, dx)
    for gradient, parameter in zip(gradients.parameters, operation.parameters, strict=True):
        np.testing.assert_array_equal(np.reshape(gradient, parameter.shape), parameter.grad)


@pytest.mark.parametrize("name", ["relu", "pooled", "transformer", "branches"])
def test_strict_mode_may_begin_and_end_between_the_passes(name: str) -> None:
    make, sample = NETWORKS[name]
    random = np.random.default_rng(3)
    x = random.standard_normal((4, *sample)).astype(np.float32)
    results = []
    for forward, backward in itertools.product([False, True], repeat=2):
        net = make().build(sample, seed=1)
        for _ in range(2):
            with bn.strict(forward):
                y = net(x)
            with bn.strict(backward):
                dx = net.backward(np.cos(y))
        results.append([y, dx, *(p.grad.copy() for p in net.parameters())])
    for others in results[1:]:
        for one, other in zip(results[0], others, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["relu", "pooled", "transformer"])
@pytest.mark.parametrize(("forward", "backward"), [("native", "reference"), ("reference", "native")])
def test_both_passes_run_on_one_engine(name: str, forward: str, backward: str) -> None:
    make, sample = NETWORKS[name]
    net = make().build(sample, seed=1)
    x = np.random.default_rng(0).standard_normal((4, *sample)).astype(np.float32)
    for engine in (backward, forward):  # the latest forward pass counts
        with bn.engine(engine):
            y = net(x)
    with bn.engine(backward), pytest.raises(LayerApplyError, match=r"(?i)engine"):
        net.backward(y)
    with bn.engine(forward):
        net(x)
        assert net.backward(y).shape == x.shape


@pytest.mark.parametrize("name", NETWORKS)
def test_the_engines_agree(name: str) -> None:
    make, sample = NETWORKS[name]
    random = np.random.default_rng(5)
    x = random.standard_normal((6, *sample)).astype(np.float32)
    results = []
    for engine in ("native", "reference"):
        with bn.engine(engine):
            net = make().build(sample, seed=1)
            y = net(x)
            dx = net.backward(np.random.default_rng(6).standard_normal(y.shape).astype(np.float32))
            results.append([y, dx, *(p.grad.copy() for p in net.parameters())])
    for ours, reference in zip(*results, strict=True):
        np.testing.assert_allclose(ours, reference, rtol=2e-3, atol=2e-4)


def test_what_is_kept_lies_in_the_memory_of_the_network() -> None:
    net = images(nn.ReLU).build((3, 16, 16))
    program = net.program(4, training=True)
    kept = [block for block in program._kept_blocks.values() if block.size]
    assert [block.size for block in kept] == [4 * 4 * 5 * 16 * 16] * 3
    assert not any(block.size for block in net.program(4, training=False)._kept_blocks.values())
    # A result lives until the next layer has read it, and again while that goes back.
    assert program.arena_bytes < sum(block.size for block in kept) + 6 * kept[0].size
