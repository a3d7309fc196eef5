"""The shards of a batch, their ranks, and the order in which their results are summed.

All of this follows from the number of shards. The number of ranks decides only who computes which part.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ..nn.batches import Span, cut


def _middle(low: int, high: int) -> int:
    """The place where the tree over some shards is divided: the left part is the largest power of two that leaves a right
    one."""
    return low + (1 << (high - low - 1).bit_length() - 1)


def subtrees(run: Span, whole: Span) -> list[Span]:
    """The largest subtrees of the tree over ``whole`` that lie within a run of shards, from left to right.

    >>> subtrees((5, 10), (0, 16))
    [(5, 6), (6, 8), (8, 10)]
    """
    low, high = whole
    if run[1] <= low or high <= run[0] or low == high:
        return []
    if run[0] <= low and high <= run[1]:
        return [whole]
    middle = _middle(low, high)
    return subtrees(run, (low, middle)) + subtrees(run, (middle, high))


def joins(parts: Sequence[Span], whole: Span) -> list[int]:
    """The sums over the tree ``whole`` from subtrees that make it up: after each part, the number of sums to take.

    Each sum adds the latest two results that are not part of another one yet, the older one on the left.

    >>> joins([(0, 1), (1, 2), (2, 3), (3, 4)], (0, 4))
    [0, 1, 0, 2]
    """
    counts = [0] * len(parts)
    places = {part: i for i, part in enumerate(parts)}

    def visit(low: int, high: int) -> int:
        """The last part of a subtree."""
        place = places.get((low, high))
        if place is None:
            middle = _middle(low, high)
            visit(low, middle)
            place = visit(middle, high)
            counts[place] += 1
        return place

    visit(*whole)
    return counts


class Shards:
    """So many shards, shared out among ranks."""

    def __init__(self, count: int, ranks: int = 1, rank: int = 0) -> None:
        self.count, self.ranks, self.rank = count, ranks, rank
        self.runs = cut(count, ranks)  # of all ranks
        self.own = range(*self.runs[rank])

    @cached_property
    def subtrees(self) -> list[list[Span]]:
        """The subtrees that each rank sums by itself."""
        return [subtrees(run, (0, self.count)) for run in self.runs]

    @cached_property
    def joins(self) -> list[int]:
        """The sums over the subtrees of all ranks, in their order."""
        return joins([part for parts in self.subtrees for part in parts], (0, self.count))

    @cached_property
    def own_joins(self) -> list[int]:
        """The sums of the shards of this rank to its subtrees: after each shard, the number of sums to take."""
        counts = []
        for tree in self.subtrees[self.rank]:
            counts += joins([(i, i + 1) for i in range(*tree)], tree)
        return counts

    def own_of_batch(self, samples: int) -> list[Span]:
        """The samples of the shards of this rank."""
        return cut(samples, self.count)[self.own.start : self.own.stop]

    def sizes(self, batches: Sequence[int]) -> list[int]:
        """Sizes of shards of batches of these sizes, the largest first, without those that are empty."""
        distinct = {end - start for samples in batches for start, end in cut(samples, self.count)}
        return sorted(distinct - {0}, reverse=True)
