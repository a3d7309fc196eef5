"""Decision trees: native code against the formulas, and these against walking down one tree at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns
from openbnns import engines, nn
from openbnns.graph import operations
from openbnns.graph.operations.trees import Branch, Forest, planted
from openbnns.graph.tensor import Tensor

FEATURES = 6
TOTALS = ("sum", "mean", "minimum", "maximum")
_HOLDS: dict[Branch, Callable[[Any, Any], bool]] = {
    Branch.LEQ: lambda x, t: x <= t, Branch.LT: lambda x, t: x < t, Branch.GTE: lambda x, t: x >= t,
    Branch.GT: lambda x, t: x > t, Branch.EQ: lambda x, t: x == t, Branch.NEQ: lambda x, t: x != t,
    Branch.MEMBER: lambda x, t: x in t,
}  # fmt: skip
_SPECIAL = (np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-45)


class RandomTrees:
    """Trees with nodes in random order, whose comparisons are of some kinds, and what their leaves say."""

    def __init__(self, random: np.random.RandomState, trees: int, columns: int, kinds: tuple[Branch, ...]) -> None:
        self.random, self.columns, self.kinds = random, columns, kinds
        self.nodes: list[tuple[Branch, int, float, bool, int, int]] = []
        self.members: dict[int, Any] = {}
        self.said: list[tuple[int, int, float]] = []
        self.tracks = bool(random.randint(2))
        self.roots = [self.grow(int(random.randint(0, 6))) for _ in range(trees)]

    def grow(self, depth: int) -> int:
        random, here = self.random, len(self.nodes)
        self.nodes.append((Branch.LEAF, 0, 0.0, False, -1, -1))
        if depth == 0 or random.rand() < 0.1:
            for column in random.permutation(self.columns)[: random.randint(0, min(self.columns, 4) + 1)]:
                self.said.append((here, int(column), float(random.standard_normal())))
            return here
        kind = self.kinds[random.randint(len(self.kinds))]
        ways = self.grow(depth - 1), self.grow(depth - 1)
        value = _SPECIAL[random.randint(6)] if random.rand() < 0.1 else random.randint(-4, 5) / 2
        self.nodes[here] = kind, random.randint(FEATURES), value, self.tracks and random.rand() < 0.5, *ways
        if kind is Branch.MEMBER:
            self.members[here] = random.randint(-4, 5, random.randint(0, 4)).astype(np.float32) / 2
        return here

    def forest(self) -> tuple[Forest, Any]:
        """The forest, with the numbers of its entries."""
        branches, features, values, tracks, first, second = zip(*self.nodes, strict=True)
        leaves, columns, weights = (
            np.array(each) for each in zip(*self.said, strict=True)
        ) if self.said else (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))  # fmt: skip
        forest, numbers = planted(
            branches, np.array(features), np.array(values), np.array(tracks), [np.array(first), np.array(second)],
            np.array(self.roots), self.members, leaves, columns,
        )  # fmt: skip
        said = np.zeros(len(forest.columns), np.float32)
        said[numbers] = weights
        return forest, said

    def walked(self, x: Any, total: str) -> Any:
        """Totals, one sample, one tree and one node at a time."""
        y = np.zeros((len(x), self.columns))
        for row, sample in zip(y, x, strict=True):
            told: dict[int, list[float]] = {}
            for root in self.roots:
                at = root
                while self.nodes[at][0] is not Branch.LEAF:
                    kind, feature, value, tracks, first, second = self.nodes[at]
                    against = self.members[at] if kind is Branch.MEMBER else np.float32(value)
                    missing = tracks and math.isnan(sample[feature])
                    at = first if missing or _HOLDS[kind](sample[feature], against) else second
                for leaf, column, weight in self.said:
                    if leaf == at:
                        told.setdefault(column, []).append(float(np.float32(weight)))
            for column, numbers in told.items():
                how = {"sum": sum, "minimum": min, "maximum": max}.get(total)
                row[column] = sum(numbers) / len(self.roots) if how is None else how(numbers)
        return y


class Network(nn.Module):
    """Trees whose leaves are trained."""

    def __init__(self, forest: Forest, said: Any, columns: int, total: str) -> None:
        super().__init__()
        self.said = nn.Parameter(said)
        self.forest, self.columns, self.total = forest, columns, total

    def forward(self, x: Any) -> Any:
        said: Tensor = self.said * 1.0
        return x.graph.append(operations.Trees(x, said, self.forest, self.columns, self.total))


def made(seed: int, trees: int | None = None, columns: int | None = None) -> tuple[RandomTrees, Network, str]:
    random = np.random.RandomState(seed)
    every = tuple(_HOLDS)
    kinds = ((Branch.LEQ,), every[:4], every)[random.randint(3)]
    total = TOTALS[random.randint(4)]
    count = int(random.randint(1, 12)) if trees is None else trees
    grown = RandomTrees(random, count, int(random.randint(1, 5)) if columns is None else columns, kinds)
    return grown, Network(*grown.forest(), grown.columns, total).eval(), total


def samples(seed: int, count: int) -> Any:
    random = np.random.RandomState(seed)
    x = (random.randint(-4, 5, (count, FEATURES)) / 2).astype(np.float32)
    special = random.rand(*x.shape) < 0.15
    x[special] = random.choice(_SPECIAL, special.sum())
    return x


@pytest.mark.parametrize("seed", range(60))
def test_trees_are_walked(seed: int) -> None:
    grown, net, total = made(seed)
    for count in (1, 3, 8, 21):
        x = samples(seed + count, count)
        expected = grown.walked(x, total)
        np.testing.assert_allclose(net(x), expected, 1e-6, 1e-6)
        with engines.engine("reference"):
            np.testing.assert_allclose(net(x), expected, 1e-6, 1e-6)


@pytest.mark.parametrize(("trees", "columns"), [(1, 1), (130, 1), (300, 3), (2100, 2), (40, 2500), (400, 700)])
def test_bits_do_not_depend_on_threads_or_other_samples(trees: int, columns: int) -> None:
    for seed in range(2):
        _, net, _ = made(seed, trees, columns)
        x = samples(seed, 37 if columns > 100 else 701)
        results = []
        for threads in (1, 2, 3):
            openbnns.set_num_threads(threads)
            results.append(net(x).copy())
            parts = [net(x[i : i + n]).copy() for i, n in ((0, 1), (1, 2), (3, 5), (8, 16), (24, 9))]
            np.testing.assert_array_equal(np.concatenate(parts), results[0][:33])
        openbnns.set_num_threads(0)
        assert np.count_nonzero(results[0])
        for other in results[1:]:
            np.testing.assert_array_equal(results[0], other)
        with engines.engine("reference"):
            np.testing.assert_allclose(net(x), results[0], 1e-5, 1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_leaves_are_trained(seed: int) -> None:
    """A total is linear in what leaves say, piece by piece: least and largest numbers stay so for small steps."""
    _, net, _ = made(seed, 9)
    net.train()
    random = np.random.RandomState(seed)
    x = samples(seed, 17)
    dy = random.standard_normal((17, net.columns)).astype(np.float32)
    net(x)
    dx = net.backward(dy)
    assert not dx.any()
    gradient, before = net.said.grad.copy(), net.said.data.copy()
    step = np.float32(1e-4) * random.standard_normal(before.shape).astype(np.float32)
    with engines.engine("reference"):
        net.said.data = before + step
        more = net(x).astype(np.float64)
        net.said.data = before - step
        less = net(x).astype(np.float64)
    assert gradient.any()
    np.testing.assert_allclose((gradient * step).sum(), ((more - less) * dy).sum() / 2, 2e-2, 1e-6)


def test_trees_are_saved(tmp_path: Any) -> None:
    for seed in range(4):
        _, net, _ = made(seed)
        x = samples(seed, 9)
        y = net(x)
        net.save_model(tmp_path / "trees.model")
        np.testing.assert_array_equal(nn.load_model(tmp_path / "trees.model")(x), y)


def _small() -> dict[str, Any]:
    """A node and two leaves, each with one entry."""
    return {
        "features": [2, 0, 0], "thresholds": [0.5, math.nan, math.nan], "kinds": [0, 0, 0], "behind": [1, 1, 2], "roots": [0],
        "first_entries": [0, 0, 1, 2], "columns": [0, 0], "first_members": [0, 0, 0, 0], "members": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"behind": [0, 1, 2]}, "decides in no known way"),
        ({"behind": [2, 1, 2]}, "not there"),
        ({"behind": [1, 0, 2]}, "in front of them"),
        ({"behind": [-1, 1, 2]}, "behind has numbers from -1"),
        ({"kinds": [6, 0, 0]}, "decides in no known way"),
        ({"kinds": [0, 1, 0]}, "decides in no known way"),
        ({"thresholds": [0.5, 1, math.nan]}, "decides in no known way"),
        ({"features": [1 << 28, 0, 0]}, "decides in no known way"),
        ({"roots": []}, "there are none"),
        ({"roots": [3]}, "a root is not there"),
        ({"kinds": [0, 0]}, "lists of nodes differ in length"),
        ({"first_entries": [0, 2, 1, 2]}, "do not follow each other"),
        ({"first_entries": [0, 0, 1, 3]}, "do not follow each other"),
        ({"first_members": [0, 2, 2, 2], "members": [1, 1]}, "do not ascend"),
        ({"first_members": [0, 1, 1, 1], "members": [math.nan]}, "do not ascend"),
    ],
)
def test_damaged_trees_are_refused(changes: dict[str, Any], message: str) -> None:
    Forest(**_small())
    with pytest.raises(ValueError, match=message):
        Forest(**(_small() | changes))


def test_trees_that_do_not_fit() -> None:
    forest, x = Forest(**_small()), np.zeros((3, 2), np.float32)
    with pytest.raises(ValueError, match=r"look at feature 2 of samples \(N, 2\)"):
        Network(forest, [1.0, 2.0], 1, "sum")(x)
    x = np.float32([[0, 0, 0], [0, 0, 1]])
    with pytest.raises(ValueError, match=r"numbers \(3,\) for 2 entries about 1 columns"):
        Network(forest, [1.0, 2.0, 3.0], 1, "sum")(x)
    np.testing.assert_array_equal(Network(forest, [1.0, 2.0], 1, "sum")(x), [[2], [1]])
