"""Passes for inference: elementwise operations joined to chains, and layers that end in the function behind them.

Programs of graphs with and without these passes give the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openbnns
from openbnns import nn
from openbnns.graph.operations.chain import Chain
from openbnns.graph.program import Program
from openbnns.nn import functional as F
from passes_for_inference import compared

Array = np.ndarray[Any, Any]

UNARY: list[Any] = [
    F.round, F.floor, F.neg, F.abs, F.erf, F.exp, F.silu, F.hardswish, F.gelu, F.relu, F.sigmoid, F.tanh, F.detach,
    lambda v: F.clamp(v, -1.5, 2.0), lambda v: F.mul(v, 0.25), lambda v: F.add(v, 3.0), lambda v: F.div(v, 0.7),
]  # fmt: skip
BINARY: list[Any] = [F.add, F.sub, F.mul, F.div, F.minimum, F.maximum]


class RandomFormula(nn.Module):
    """Random elementwise functions of the input, of earlier results and of repeated constants."""

    def __init__(self, seed: int, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.seed, self.shape = seed, shape

    def forward(self, x: Any) -> Any:
        random = np.random.default_rng(self.seed)
        shapes = [(), self.shape[-1:], self.shape, (self.shape[0], *(1,) * (len(self.shape) - 1))]
        constants = [random.standard_normal(s).astype(np.float32) for s in shapes]
        values = [x]
        for _ in range(12):
            v = values[random.integers(len(values))] if random.random() < 0.3 else values[-1]
            if random.random() < 0.6:
                values.append(UNARY[random.integers(len(UNARY))](v))
            elif random.random() < 0.5:
                values.append(BINARY[random.integers(len(BINARY))](v, constants[random.integers(len(constants))]))
            else:
                values.append(BINARY[random.integers(len(BINARY))](v, values[random.integers(len(values))]))
            if random.random() < 0.15:  # what reads it next is not elementwise
                values.append(F.add(values[-1], F.amax(values[-1])))
        return values[-1], values[random.integers(1, len(values))]


def both(net: nn.Module, x: Array, threads: int = 1) -> tuple[list[Array], list[Array], Program]:
    """The outputs without and with the passes, and the program with them."""
    before = openbnns.get_num_threads()
    openbnns.set_num_threads(threads)
    try:
        return compared(net, x)
    finally:
        openbnns.set_num_threads(before)


def chains_of(program: Program) -> list[Chain]:
    return [one for one in program.graph.operations if isinstance(one, Chain)]


def assert_same(plain: list[Array], joined: list[Array]) -> None:
    for a, b in zip(plain, joined, strict=True):
        np.testing.assert_array_equal(a.view(np.int32), b.view(np.int32))


@pytest.mark.parametrize("seed", range(30))
@np.errstate(all="ignore")
def test_random_formulas_keep_their_bits(seed: int) -> None:
    random = np.random.default_rng(1000 + seed)
    sample = [(5, 7, 3), (3, 401), (2, 1, 9), (17,), (4, 6, 11, 2), (3, 5000)][seed % 6]
    x = (2 * random.standard_normal((2, *sample))).astype(np.float32)
    plain, joined, program = both(RandomFormula(seed, sample), x, threads=1 + seed % 2)
    assert_same(plain, joined)
    assert chains_of(program)


class Rounded(nn.Module):
    """Quantized numbers as files spell them out."""

    def forward(self, x: Any) -> Any:
        steps = F.clamp(F.add(F.round(F.div(x, 0.03)), 128.0), 0.0, 255.0)
        return F.mul(F.sub(steps, 128.0), 0.03)


def test_what_a_chain_alone_reads_needs_no_memory() -> None:
    x = np.random.default_rng(0).standard_normal((1, 64, 1000)).astype(np.float32)
    plain, joined, program = both(Rounded(), x, threads=2)
    assert_same(plain, joined)
    assert [len(chain.outputs) for chain in chains_of(program)] == [1]
    assert program.arena_bytes < 2.5 * x.nbytes  # the input and the output


def test_a_chain_ends_where_others_read_it() -> None:
    class Net(nn.Module):
        def forward(self, x: Any) -> Any:
            a = F.mul(F.add(x, 1.0), 3.0)
            b = F.sub(a, F.sum(a, -1, True))  # needs all of a
            return F.exp(F.mul(b, 0.01))

    x = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)
    plain, joined, program = both(Net(), x)
    assert_same(plain, joined)
    assert len(chains_of(program)) == 2


@pytest.mark.parametrize("count", [9, 40, 80])
def test_chains_hold_many_values_at_a_time(count: int) -> None:
    """Pieces become shorter then, and with more values than there is room for, functions run one by one."""

    class Net(nn.Module):
        def forward(self, x: Any) -> Any:
            first = F.mul(F.add(x, 1.0), 0.5)
            values = [F.mul(first, 0.1 + i) for i in range(count)]
            total = first
            for value in values:
                total = F.add(F.mul(total, 0.5), value)
            return total

    x = np.random.default_rng(0).standard_normal((2, 1500)).astype(np.float32)
    plain, joined, program = both(Net(), x, threads=2)
    assert_same(plain, joined)
    assert len(chains_of(program)) == 1


def test_nan_and_infinity_pass_as_without_chains() -> None:
    x = np.array([[np.nan, np.inf, -np.inf, -0.0, 1e38, 0.015, 0.045, 1e-42]], np.float32)
    with np.errstate(all="ignore"):
        plain, joined, _ = both(Rounded(), x)
    assert_same(plain, joined)


@pytest.mark.parametrize("case", ["linear", "direct", "pointwise", "depthwise", "winograd", "stride", "normalized"])
@pytest.mark.parametrize("function", [F.silu, F.hardswish, F.gelu], ids=lambda f: f.__name__)
def test_layers_end_in_functions(case: str, function: Any) -> None:
    layers: dict[str, tuple[Any, tuple[int, ...]]] = {
        "linear": (nn.Linear(19, 33), (3, 19)),
        "direct": (nn.Conv2d(5, 19, 3), (2, 5, 11, 13)),
        "pointwise": (nn.Conv2d(6, 18, 1), (2, 6, 13, 14)),
        "depthwise": (nn.Conv2d(16, 16, 3, padding=1, groups=16), (2, 16, 12, 15)),
        "winograd": (nn.Conv2d(64, 64, 3, padding=1), (2, 64, 16, 16)),
        "stride": (nn.Conv2d(8, 40, 3, stride=2, padding=1), (2, 8, 33, 7)),
        "normalized": (nn.Sequential(nn.Conv2d(5, 19, 3), nn.BatchNorm2d(19)), (2, 5, 11, 13)),
    }
    layer, shape = layers[case]

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            return function(self.layer(x))

    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    plain, joined, program = both(Net(), x)
    assert len(program.graph.operations) == 1
    scale = np.abs(plain[0]).max()
    assert np.abs(plain[0] - joined[0]).max() <= 1e-6 * scale  # vectors and rests of rows may be cut differently


def test_functions_of_tiny_planes_stay_apart() -> None:
    """One pass over all of them takes less time than one for each plane."""
    net = nn.Sequential(nn.Conv2d(8, 40, 3), nn.SiLU())
    plain, joined, program = both(net, np.random.default_rng(1).standard_normal((2, 8, 4, 4)).astype(np.float32))
    assert len(program.graph.operations) == 2
    assert_same(plain, joined)


def test_a_result_that_others_read_stays() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(7, 5)

        def forward(self, x: Any) -> Any:
            y = self.layer(x)
            return F.silu(y), y

    x = np.random.default_rng(1).standard_normal((4, 7)).astype(np.float32)
    plain, joined, _ = both(Net(), x)
    assert_same(plain, joined)


def test_training_is_as_before() -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.SiLU())
    x = np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype(np.float32)
    net.eval()
    before = net(x)
    net.train()
    y = net(x)
    net.backward(np.ones_like(y))
    assert all(np.abs(p.grad).max() > 0 for p in net.parameters())
    nn.SGD(net.parameters(), lr=0.1).step()
    net.eval()
    after = net(x)
    assert np.abs(after - before).max() > 1e-3  # by the new weights
