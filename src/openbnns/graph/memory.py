"""Memory of the arrays of a program: buffers whose lives do not overlap share it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64  # a cache line, and the widest vector


@dataclass
class Block:
    """A piece of memory in use from step ``start`` to step ``end``, both included, and at the times ``again`` behind that.

    Halves are times between two steps.
    """

    size: int
    start: float
    end: float
    offset: int = -1
    again: frozenset[float] = frozenset()

    def meets(self, other: Block) -> bool:
        """True if both are in use at some step."""
        if self.start <= other.end and other.start <= self.end:
            return True
        return (
            any(other.start <= i <= other.end for i in self.again)
            or any(self.start <= i <= self.end for i in other.again)
            or not self.again.isdisjoint(other.again)
        )


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
    placed: list[Block] = []
    total = 0
    for block in sorted(blocks, key=lambda b: (-b.size, b.start)):
        size = _aligned(block.size)
        neighbours = sorted((b for b in placed if b.meets(block)), key=lambda b: b.offset)
        block.offset = _tightest_gap(neighbours, size)
        placed.append(block)
        total = max(total, block.offset + size)
    return total


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _tightest_gap(neighbours: list[Block], size: int) -> int:
    """Offset of the smallest gap of at least ``size`` bytes between blocks, or the end of the last one."""
    best, best_room = -1, 0
    end = 0
    for block in neighbours:
        room = block.offset - end
        if room >= size and (best < 0 or room < best_room):
            best, best_room = end, room
        end = max(end, block.offset + _aligned(block.size))
    return end if best < 0 else best
