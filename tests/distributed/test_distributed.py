"""Computations of a single rank: shards, trees and sums. Jobs of several ranks are in mpi/."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from helpers import Array
from openbnns import _core, engines, nn
from openbnns.distributed.communicator import cut_for
from openbnns.distributed.shards import Shards, joins, subtrees
from openbnns.distributed.tree_sums import (
    BLOCK,
    PIECE,
    block_squares,
    narrow,
    sum_in_tree,
    sum_into_all,
    widen,
    widened,
)
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


@pytest.mark.parametrize("per_host", (1, 2, 3, 6))
def test_chunks_of_ranks_cover_a_bucket_once(per_host: int) -> None:
    """Ranks with the same number have their chunks at the same place on every host."""
    for count in (1, 5, 6, 100):
        chunks = cut_for(6, per_host, count)
        covered = sorted(chunk for chunk in chunks if chunk[0] < chunk[1])
        assert [a for a, _ in covered] == [0, *[b for _, b in covered[:-1]]] and covered[-1][1] == count
        for number in range(per_host):
            assert all(a[1] == b[0] for a, b in pairwise(chunks[number::per_host]))


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
    narrowed = [np.empty(size, np.uint16) for _ in parts]
    for part, target in zip(parts, narrowed, strict=True):
        narrow(part, target)
    from_narrow = np.empty(size, np.float32)
    sum_in_tree(from_narrow, narrowed, tree)
    squares = block_squares(parts[0])
    monkeypatch.setattr(engines, "_core", None)
    sum_in_tree(expected, parts, tree)
    assert actual.tobytes() == expected.tobytes()
    again = [np.empty(size, np.uint16) for _ in parts]
    for part, target in zip(parts, again, strict=True):
        narrow(part, target)
    assert [a.tobytes() for a in narrowed] == [a.tobytes() for a in again]
    sum_in_tree(expected, narrowed, tree)
    assert from_narrow.tobytes() == expected.tobytes()
    np.testing.assert_allclose(squares, block_squares(parts[0]), rtol=1e-14)
    assert len(squares) == -(-size // BLOCK)
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


@pytest.mark.parametrize("size", (0, 1, PIECE, 2 * PIECE + 1))
def test_a_sum_may_be_written_over_all_parts(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ranks that share memory do."""
    for engine in (engines._core, None):
        monkeypatch.setattr(engines, "_core", engine)
        parts = random_parts(3, size)
        first = parts[0].copy()
        expected = (parts[0] + parts[1]) + parts[2]
        more = np.full(size, np.nan, np.float32)
        sum_into_all([parts[1], parts[2], more], parts, [0, 1, 1])
        assert [a.tobytes() for a in (parts[1], parts[2], more)] == [expected.tobytes()] * 3
        assert parts[0].tobytes() == first.tobytes()


def test_bfloat16_rounds_to_the_nearest_and_keeps_what_is_no_number() -> None:
    given = np.float32([1, 1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-7, 3.4e38, np.inf, -np.inf, np.nan, 0, -0.0])
    actual = np.empty(len(given), np.uint16)
    narrow(given, actual)
    expected = np.float32([1, 1, 1 + 2**-6, -1 - 2**-7, np.inf, np.inf, -np.inf, np.nan, 0, -0.0])
    np.testing.assert_array_equal(widened(actual), expected)
    back = np.empty(len(given), np.float32)
    widen(actual, back)
    np.testing.assert_array_equal(back, expected)


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
    with pytest.raises(ValueError, match="one sum per block"):
        _core.block_squares(parts[0], np.empty(3), 4)
    assert not out.any()


def test_mpi4py_is_not_imported_unless_asked_for() -> None:
    code = "import sys; from openbnns import nn; nn.Trainer(nn.Linear(1)); sys.exit('mpi4py' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_sync_batch_norm_needs_shards() -> None:
    with pytest.raises(ValueError, match="Give distributed=True"):
        nn.Trainer(nn.Linear(1), sync_batch_norm=True)
