"""The order of the samples in an epoch: one permutation, which follows from the seed and the number of the epoch alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..distributed.shards import cut
from ..graph.tensor import Array


def shuffled(random: np.random.RandomState, count: int, rows: Array | None) -> Array:
    """A random order of so many samples, or of these rows."""
    order: Array = random.permutation(count if rows is None else rows)
    return order


class BlockOrder:
    """An order of samples that lie in blocks, such that few blocks are needed at a time. Indexed by spans within a batch.

    The blocks are put in any order, and a run of them at a time, the window, has its samples put in any order. This
    sequence is cut into streams, as many as a batch has shards, and shard s of every batch takes the next samples of
    stream s. So a rank reads the blocks of its shards alone, and a batch has samples of as many windows as there are shards.
    The blocks in memory, on all ranks together, are ``window``, or one for each stream if there are more of those.
    """

    def __init__(
        self,
        random: np.random.RandomState,
        rows: Array | None,
        ends: Array,
        *,
        window: int,
        streams: int,
        batch_size: int,
    ) -> None:
        """``ends`` are those of the blocks; ``rows``, in ascending order, are the samples to take, if not all."""
        count = int(ends[-1]) if rows is None else len(rows)
        borders = np.concatenate([[0], ends if rows is None else np.searchsorted(rows, ends)])
        filled = np.flatnonzero(np.diff(borders))
        filled = filled[random.permutation(len(filled))]
        self._order, done = np.empty(count, np.int64), 0
        together = max(1, window // streams)
        for first in range(0, len(filled), together):
            start = done
            for block in filled[first : first + together]:
                low, high = int(borders[block]), int(borders[block + 1])
                self._order[done : done + high - low] = np.arange(low, high) if rows is None else rows[low:high]
                done += high - low
            random.shuffle(self._order[start:done])
        self._count, self._batch_size = count, batch_size
        batches, rest = divmod(count, batch_size)
        self._spans, self._last = cut(batch_size, streams), cut(rest, streams)
        taken = [batches * _length(a) + _length(b) for a, b in zip(self._spans, self._last, strict=True)]
        self._starts = np.concatenate([[0], np.cumsum(taken)]).tolist()

    def __getitem__(self, span: slice) -> Array:
        """The samples at some places of one batch."""
        batch, first = divmod(span.start, self._batch_size)
        last = first + span.stop - span.start
        found = []
        spans = self._spans if (batch + 1) * self._batch_size <= self._count else self._last
        for stream, (low, high) in enumerate(spans):
            a, b = max(low, first), min(high, last)
            if a < b:
                start = self._starts[stream] + batch * _length(self._spans[stream]) - low
                found.append(self._order[start + a : start + b])
        return np.concatenate(found)


def _length(span: Sequence[int]) -> int:
    return span[1] - span[0]
