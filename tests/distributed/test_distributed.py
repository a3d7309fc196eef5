"""Computations of a single rank: shards, trees and sums. Jobs of several ranks are in mpi/."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from helpers import Array
from openbnns import _core, engines, nn
from openbnns.distributed.shards import Shards, joins, subtrees
from openbnns.distributed.tree_sums import sum_in_tree
from openbnns.nn.batches import cut

COUNTS = (1, 2, 3, 5, 8, 12, 16, 31)


def in_brackets(parts: list[str], counts: list[int]) -> str:
    """The sum of these parts, written out."""
    stack: list[str] = []
    for part, count in zip(parts, counts, strict=True):
        stack.append(part)
        for _ in range(count):
            right = stack.pop()
            stack.append(f"({stack.pop()}+{right})")
    (whole,) = stack
    return whole


def test_the_tree_over_five_shards() -> None:
    leaves = [(i, i + 1) for i in range(5)]
    assert in_brackets(list("abcde"), joins(leaves, (0, 5))) == "(((a+b)+(c+d))+e)"
    assert in_brackets(list("abcdefg"), joins([(i, i + 1) for i in range(7)], (0, 7))) == "(((a+b)+(c+d))+((e+f)+g))"


@pytest.mark.parametrize("count", COUNTS)
def test_any_number_of_ranks_sums_in_the_same_order(count: int) -> None:
    leaves = [(i, i + 1) for i in range(count)]
    whole = in_brackets([f"{i}." for i in range(count)], joins(leaves, (0, count)))
    for ranks in range(1, count + 1):
        parts: list[str] = []
        for rank in range(ranks):
            shards = Shards(count, ranks, rank)
            assert len(shards.own) in (count // ranks, count // ranks + 1)
            stack: list[str] = []  # as ShardedObjective has it
            for shard, below in zip(shards.own, shards.own_joins, strict=True):
                stack.append(f"{shard}.")
                for _ in range(below):
                    right = stack.pop()
                    stack.append(f"({stack.pop()}+{right})")
            assert len(stack) == len(shards.subtrees[rank])
            parts += stack
        assert in_brackets(parts, Shards(count, ranks).joins) == whole, ranks


def test_subtrees_of_powers_of_two_are_one_per_rank() -> None:
    assert all(len(parts) == 1 for ranks in (1, 2, 4, 8, 16) for parts in Shards(16, ranks).subtrees)
    assert subtrees((3, 3), (0, 8)) == []


def test_batches_are_cut_evenly() -> None:
    for samples in (0, 1, 15, 16, 17, 100):
        spans = cut(samples, 16)
        assert [a for a, _ in spans[1:]] == [b for _, b in spans[:-1]] and spans[-1][1] == samples
        assert max(b - a for a, b in spans) - min(b - a for a, b in spans) <= 1
    assert Shards(4).sizes([10, 3]) == [3, 2, 1]


def random_parts(count: int, size: int) -> list[Array]:
    random = np.random.RandomState(count)
    return [(random.standard_normal(size) * 10.0 ** random.randint(-3, 4)).astype(np.float32) for _ in range(count)]


@pytest.mark.parametrize("size", (1, 63, 64, 1023, 40_001))
@pytest.mark.parametrize("count", COUNTS)
def test_native_sums_are_those_of_numpy(count: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = random_parts(count, size)
    tree = joins([(i, i + 1) for i in range(count)], (0, count))
    actual, expected = np.full(size, np.nan, np.float32), np.empty(size, np.float32)
    sum_in_tree(actual, parts, tree)
    monkeypatch.setattr(engines, "_core", None)
    sum_in_tree(expected, parts, tree)
    assert actual.tobytes() == expected.tobytes()
    in_place = parts[-1].copy()
    sum_in_tree(in_place, [*parts[:-1], in_place], tree)
    assert in_place.tobytes() == actual.tobytes()


def test_a_sum_may_replace_its_last_part_natively() -> None:
    parts = random_parts(5, 5000)
    expected = np.empty(5000, np.float32)
    sum_in_tree(expected, parts, [0, 1, 0, 2, 1])
    last = parts[-1].copy()
    sum_in_tree(last, [*parts[:-1], last], [0, 1, 0, 2, 1])
    assert last.tobytes() == expected.tobytes()


@pytest.mark.parametrize("wrong", ([0, 0], [1, 0], [0, 2], [0, -1], [0]))
def test_joins_that_make_no_tree_are_refused(wrong: list[int]) -> None:
    parts = random_parts(2, 8)
    with pytest.raises(ValueError, match="the joins make no tree"):
        _core.sum_in_tree(np.empty(8, np.float32), parts, wrong)


def test_arrays_that_do_not_fit_are_refused() -> None:
    parts, out = random_parts(2, 8), np.zeros(8, np.float32)
    with pytest.raises(ValueError, match="differ in size"):
        _core.sum_in_tree(out, [parts[0], parts[1][:4].copy()], [0, 1])
    with pytest.raises(TypeError, match="of another type"):
        _core.sum_in_tree(out, [parts[0], parts[1].astype(np.float64)], [0, 1])
    with pytest.raises(TypeError, match="contiguous"):
        _core.sum_in_tree(out[::2], [parts[0], parts[1]], [0, 1])
    assert not out.any()


def test_mpi4py_is_not_imported_unless_asked_for() -> None:
    code = "import sys; from openbnns import nn; nn.Trainer(nn.Linear(1)); sys.exit('mpi4py' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_sync_batch_norm_needs_shards() -> None:
    with pytest.raises(ValueError, match="Give distributed=True"):
        nn.Trainer(nn.Linear(1), sync_batch_norm=True)
