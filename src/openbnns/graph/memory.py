"""Memory of the arrays of a program: buffers whose lives do not overlap share it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64  # a cache line, and the widest vector


@dataclass
class Block:
    """A piece of memory in use from step ``start`` to step ``end``, both included; halves are times between two steps."""

    size: int
    start: float
    end: float
    offset: int = -1


class Arena:
    """Memory shared by programs of which only one runs at a time, such as those of one network in training."""

    def __init__(self) -> None:
        self._memory: NDArray[np.uint8] = np.empty(0, np.uint8)

    def take(self, size: int) -> NDArray[np.uint8]:
        """Memory of ``size`` bytes. A request for more than all before allocates new memory, which later ones share."""
        if len(self._memory) < size:
            memory = np.empty(size + ALIGNMENT, np.uint8)
            start = -memory.ctypes.data % ALIGNMENT
            self._memory = memory[start : start + size]
        return self._memory[:size]


def plan(blocks: list[Block]) -> int:
    """Give every block an offset so that no two that live at the same time overlap; returns the bytes needed.

    The largest blocks are placed first, each in the tightest gap that is free whenever it is in use.
    """
    ordered = sorted(blocks, key=lambda b: (-b.size, b.start))
    starts, ends = np.array([[b.start, b.end] for b in ordered], np.float64).reshape(-1, 2).T
    offsets, tops = np.zeros((2, len(ordered)), np.int64)  # a program may have thousands of blocks
    for i, block in enumerate(ordered):
        meets = (starts[:i] <= block.end) & (ends[:i] >= block.start)
        size = _aligned(block.size)
        block.offset = _tightest_gap(offsets[:i][meets], tops[:i][meets], size)
        offsets[i], tops[i] = block.offset, block.offset + size
    return int(tops.max(initial=0))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _tightest_gap(offsets: NDArray[np.int64], tops: NDArray[np.int64], size: int) -> int:
    """Offset of the smallest gap of at least ``size`` bytes between pieces of memory, or the end of the last one."""
    if not offsets.size:
        return 0
    order = np.argsort(offsets, kind="stable")
    used = np.maximum.accumulate(tops[order])
    begins = np.concatenate([[0], used[:-1]])
    rooms = offsets[order] - begins
    wide = np.flatnonzero(rooms >= size)
    return int(begins[wide[np.argmin(rooms[wide])]] if wide.size else used[-1])
