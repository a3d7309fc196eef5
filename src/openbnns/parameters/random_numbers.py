"""Streams of random numbers: what a draw depends on, and how a generator is saved."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

STATE_SIZE: Final = 24
"""Bytes of a saved generator."""

_STATE: Final = struct.Struct("<8sQQ")
_STATE_MARK: Final = b"aes-ctr1"


@dataclass(frozen=True)
class Stream:
    """Draw number `draw` of Philox under a 64-bit seed."""

    seed: int
    draw: int = 0


@dataclass(frozen=True)
class Keystream:
    """The stream of a generator: AES-128 in counter mode under a 64-bit seed, after `position` words."""

    seed: int
    position: int = 0

    def after(self, count: int) -> Keystream:
        """The rest of the stream after `count` words."""
        return Keystream(self.seed, (self.position + count) % 2**64)

    def to_bytes(self) -> bytes:
        """STATE_SIZE bytes that restore this stream on any machine."""
        return _STATE.pack(_STATE_MARK, self.seed % 2**64, self.position)

    @staticmethod
    def from_bytes(state: bytes) -> Keystream:
        """The stream saved in the first STATE_SIZE bytes."""
        if len(state) < STATE_SIZE:
            raise ValueError(f"random_numbers: a state has {STATE_SIZE} bytes; got {len(state)}.")
        mark, seed, position = _STATE.unpack(state[:STATE_SIZE])
        if mark != _STATE_MARK:
            raise ValueError("random_numbers: these bytes are not the saved state of a generator.")
        return Keystream(seed, position)
