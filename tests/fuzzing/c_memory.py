"""Memory for the buffers of hostile C calls, which say nothing of how large they are."""

from __future__ import annotations

import ctypes
import mmap

AROUND = 256  # bytes on both sides of a buffer that are watched
PLACES = 1024

_libc = ctypes.CDLL(None)
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mmap.restype = ctypes.c_void_p
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_MAP_NORESERVE, _MADV_DONTNEED, _PROT_NONE = 0x4000, 4, 0


class Memory:
    """Places of one size each, all zero at the start of a case; they are used again when there are too many buffers."""

    size: int

    def __init__(self) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        self.base = _libc.mmap(None, self.size * PLACES, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        self.used = 0

    def put(self, contents: bytes, alignment: int = 1) -> int:
        """The address of a buffer with these contents."""
        address = self.base + self.used % PLACES * self.size + self.offset(len(contents))
        address -= address % alignment
        self.used += 1
        assert len(contents) <= self.size // 4, "a larger buffer than these places are made for"
        ctypes.memmove(address, contents, len(contents))
        return int(address)

    def offset(self, length: int) -> int:
        """Where in its place a buffer starts."""
        raise NotImplementedError

    def usable(self, place: int) -> tuple[int, int]:
        """The part of a place that may be read."""
        return place, place + self.size

    def surroundings(self, address: int, length: int) -> tuple[bytes, bytes]:
        """The memory on both sides of a buffer."""
        place = self.base + (address - self.base) // self.size * self.size
        first, last = self.usable(place)
        first, last = max(first, address - AROUND), min(last, address + length + AROUND)
        end = address + length
        return ctypes.string_at(first, address - first), ctypes.string_at(end, last - end)

    def clear(self) -> None:
        _libc.madvise(self.base, self.size * PLACES, _MADV_DONTNEED)
        self.used = 0


class Wide(Memory):
    """A buffer in the middle of so much memory that calls with wrong numbers stay inside."""

    size = 1 << 26

    def offset(self, length: int) -> int:
        return self.size // 2 + 4 * (self.used % 7)


class Exact(Memory):
    """A buffer that ends where memory ends, or starts where it starts: one byte more and the process dies."""

    size = (1 << 24) + 2 * mmap.PAGESIZE

    def __init__(self) -> None:
        super().__init__()
        for k in range(PLACES):
            first, last = self.usable(self.base + k * self.size)
            _libc.mprotect(first - mmap.PAGESIZE, mmap.PAGESIZE, _PROT_NONE)
            _libc.mprotect(last, mmap.PAGESIZE, _PROT_NONE)

    def usable(self, place: int) -> tuple[int, int]:
        return place + mmap.PAGESIZE, place + self.size - mmap.PAGESIZE

    def offset(self, length: int) -> int:
        first, last = self.usable(0)
        return last - length if self.used % 4 else first
