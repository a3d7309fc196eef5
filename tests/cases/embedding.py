"""Embeddings: layouts, index types, padding, norms, frequencies, strides and gaps, in seeded random combinations.

A case knows arrays by name: indices ``x`` (batch, *index), dictionary ``w`` (1, *item, entries), ``dy`` and results
(batch, *item, *index), all in the order of size[].
"""

from __future__ import annotations

import itertools
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from helpers import (
    EPSILON,
    FLOAT16,
    FLOAT32,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    VECTOR,
    Array,
    Storage,
    Tensor,
)
from openbnns import capi
from openbnns.capi import BNNSDataLayout

from ._base import created, succeed

INDEX_TYPES = (INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64)
NO_PADDING = 2**64 - 1


def tensor(size: tuple[int, ...], first_major: bool, padded: bool = False, **options: Any) -> Tensor:
    """FirstMajor or LastMajor of any rank; padded ones have a gap after the fastest axis, and after everything."""
    rank = len(size)
    layout = VECTOR if rank == 1 else BNNSDataLayout((rank << 16) + 0x8000 + int(first_major))
    if not padded:
        return Tensor(layout, size, **options)
    steps, reach = [], 2
    for axis in range(rank)[::-1] if first_major else range(rank):
        steps.append(reach)
        reach = reach * size[axis] + 3
    return Tensor(layout, size, tuple(steps), **options)


@dataclass(frozen=True)
class EmbeddingCase:
    """One embedding. ``first_major`` and ``padded`` are for dictionary, output and indices."""

    id: str
    entries: int = 7
    item: tuple[int, ...] = (5,)
    index: tuple[int, ...] = (4,)
    batch: int = 3
    first_major: tuple[bool, bool, bool] = (False, False, False)
    padded: tuple[bool, bool, bool] = (False, False, False)
    index_type: Any = INT32
    padding: int = NO_PADDING
    max_norm: float = 0.0
    norm_type: float = 0.0
    by_frequency: bool = False
    client_pointer: bool = True
    gap: int = 0
    half: bool = False  # dictionary and output are Float16: no training
    rows: tuple[str, ...] = field(default=("embed.fwd", "fn.BNNSFilterCreateLayerEmbedding"))

    @property
    def kind(self) -> Any:
        return FLOAT16 if self.half else FLOAT32

    @property
    def w(self) -> Tensor:
        return tensor((*self.item, self.entries), self.first_major[0], self.padded[0], data_type=self.kind)

    @property
    def y(self) -> Tensor:
        return tensor((*self.item, *self.index), self.first_major[1], self.padded[1], data_type=self.kind)

    @property
    def x(self) -> Tensor:
        return tensor(self.index, self.first_major[2], self.padded[2], data_type=self.index_type)

    @property
    def forward_rows(self) -> tuple[str, ...]:
        more = [("embed.padding", self.padding < self.entries), ("embed.maxnorm", self.max_norm > 0)]
        return (*self.rows, *(row for row, here in more if here))

    @property
    def backward_rows(self) -> tuple[str, ...]:
        more = [("embed.padding", self.padding < self.entries), ("embed.freq", self.by_frequency)]
        return ("embed.bwd", *(row for row, here in more if here))

    def values(self) -> dict[str, Array]:
        rng = np.random.default_rng(zlib.crc32(self.id.encode()))
        x = rng.integers(0, self.entries, (self.batch, *self.index))
        if self.batch:
            x.flat[0] = self.entries - 1
            x.flat[-1] = min(self.padding, self.entries - 1)
        w = rng.standard_normal((1, *self.item, self.entries))
        dy = rng.standard_normal((self.batch, *self.item, *self.index))
        return {"x": x, "w": self.w.rounded(w), "dy": np.float32(dy).astype(np.float64)}

    def create(self, dictionary: Any, threads: int = 0) -> Any:
        flags = capi.BNNSFlags.BNNSFlagsUseClientPtr if self.client_pointer else 0
        return capi.BNNSFilterCreateLayerEmbedding(
            capi.BNNSLayerParametersEmbedding(
                flags=int(self.by_frequency),
                i_desc=self.x.descriptor(),
                o_desc=self.y.descriptor(),
                dictionary=dictionary,
                padding_idx=self.padding,
                max_norm=self.max_norm,
                norm_type=self.norm_type,
            ),
            capi.BNNSFilterParameters(flags=flags, n_threads=threads),
        )

    # Loops over every element, straight from the definition.

    def scale(self, entry: Array) -> float:
        """The factor of a looked-up entry."""
        p, a = self.norm_type or 2.0, np.abs(entry.ravel())
        norm = a.max(initial=0.0) if np.isinf(p) else float((a**p).sum() ** (1 / p))
        limit = float(np.float32(self.max_norm))
        return limit / norm if limit and norm > limit else 1.0

    def expected(self, values: dict[str, Array]) -> Array:
        y = np.zeros((self.batch, *self.item, *self.index))
        for place in np.ndindex(self.batch, *self.index):
            entry = int(values["x"][place])
            read = values["w"][0][..., entry]
            inside = (place[0], *[slice(None)] * len(self.item), *place[1:])
            y[inside] = 0.0 if entry == self.padding else read * self.scale(read)
        return y

    def expected_gradient(self, values: dict[str, Array]) -> tuple[Array, Array]:
        """The gradient, and the sum of the magnitudes of its terms."""
        dw, size = np.zeros((2, *self.item, self.entries))
        lookups = np.zeros(self.entries)
        for place in np.ndindex(self.batch, *self.index):
            entry = int(values["x"][place])
            if entry != self.padding:
                part = values["dy"][(place[0], *[slice(None)] * len(self.item), *place[1:])]
                dw[..., entry] += part
                size[..., entry] += np.abs(part)
                lookups[entry] += 1
        divisor = np.maximum(lookups, 1) if self.by_frequency else 1.0
        return (dw / divisor)[None], (size / divisor)[None]


class EmbeddingRun:
    """A case, its filter and its memory."""

    def __init__(self, case: EmbeddingCase, values: dict[str, Array] | None = None, threads: int = 0) -> None:
        self.case, values = case, case.values() if values is None else values
        self.x = Storage(case.x, case.batch, case.gap)
        self.x.elements[self.x.places] = values["x"].astype(case.x.dtype)
        self.x.before = self.x.memory.copy()
        self.w = Storage(case.w, values=values["w"])
        self.y = Storage(case.y, case.batch, case.gap and case.gap + 1)
        self.dy = Storage(case.y, case.batch, case.gap and case.gap + 2, values["dy"])
        self.filter = created(case.create(self.w.descriptor(), threads))

    def forward(self) -> Array:
        x, y = self.x, self.y
        succeed(capi.BNNSFilterApplyBatch(self.filter, self.case.batch, x.elements, x.stride, y.elements, y.stride))
        return y.read()

    def backward(self, old: Array | None = None) -> Storage:
        dw = Storage(self.case.w, values=old)
        succeed(
            capi.BNNSFilterApplyBackwardBatch(
                self.filter, self.case.batch, self.x.elements, self.x.stride, None, 0, None, 0, self.dy.descriptor(),
                self.dy.stride, dw.descriptor(int(old is not None)), None,
            )
        )  # fmt: skip
        return dw


def rounding(lookups: int) -> float:
    """Relative to the magnitudes that are summed."""
    return EPSILON * (2.0 + 0.5 * np.sqrt(lookups))


TYPES = [
    EmbeddingCase(f"index-{kind.name.removeprefix('BNNSDataType')}-{gap}", index_type=kind, gap=gap, padding=2)
    for kind, gap in itertools.product(INDEX_TYPES, (0, 3))
]

LAYOUTS = [
    EmbeddingCase(
        f"layout-{'fl'[not d]}{'fl'[not o]}{'fl'[not i]}-{number}", 9, (3, 2), (2, 5), 2, (d, o, i),
        tuple(bool(padded & bit) for bit in (1, 2, 4)), padding=padding, client_pointer=client, max_norm=norm,
    )
    for number, (d, o, i, padded, (padding, client, norm)) in enumerate(
        itertools.product(
            (True, False), (True, False), (True, False), (0, 1, 2, 4, 7),
            ((NO_PADDING, True, 0.0), (4, False, 1.5)),
        )
    )
]  # fmt: skip

NORMS = [
    EmbeddingCase(
        f"norm-{p:g}-{'first' if first else 'last'}", 11, (13,), (6,), 4, (first,) * 3, max_norm=limit, norm_type=p,
        padding=10, by_frequency=first,
    )
    for (p, limit), first in itertools.product(
        ((0.0, 2.5), (2.0, 3.5), (1.0, 9.0), (np.inf, 1.6), (3.0, 2.6), (0.5, 90.0)), (True, False)
    )
]  # fmt: skip

SIZES = [
    EmbeddingCase("one-of-everything", 1, (1,), (1,), 1),
    EmbeddingCase("scalar-items", 5, (), (3, 2), 4, by_frequency=True, padding=0),
    EmbeddingCase("scalar-items-first", 5, (), (3, 2), 4, (True, True, True)),
    EmbeddingCase("everything-is-padding", 1, (3,), (4,), 2, padding=0),
    EmbeddingCase("wide-items", 40, (113,), (30,), 7, by_frequency=True, index_type=INT64),
    EmbeddingCase("few-entries", 3, (17,), (700,), 3, index_type=UINT32),
    EmbeddingCase("few-entries-first", 3, (17,), (700,), 3, (True,) * 3, index_type=UINT32, by_frequency=True),
    EmbeddingCase("large", 3000, (64,), (50,), 40, index_type=INT64, padding=7, max_norm=8.0),
    EmbeddingCase("large-first", 3000, (64,), (50,), 40, (True,) * 3, index_type=INT64, padding=7, max_norm=8.0),
    EmbeddingCase("streamed", 20011, (107,), (9,), 30, index_type=INT64, padding=11),
    EmbeddingCase("high-rank", 4, (2, 3, 2), (2, 1, 3, 2), 2, padding=3),
    EmbeddingCase("high-rank-first", 4, (2, 3, 2), (2, 1, 3, 2), 2, (True,) * 3, padding=3),
    EmbeddingCase("empty-batch", batch=0),
    EmbeddingCase("half", half=True, padding=1, max_norm=1.0),
]


def _random(number: int) -> EmbeddingCase:
    rng = np.random.default_rng([20, number])
    item = tuple(int(n) for n in rng.integers(1, 6, rng.integers(0, 4)))
    index = tuple(int(n) for n in rng.integers(1, 6, rng.integers(1, 4)))
    entries = int(rng.integers(1, 40))
    return EmbeddingCase(
        f"random-{number}", entries, item, index, int(rng.integers(1, 6)),
        tuple(bool(v) for v in rng.integers(0, 2, 3)), tuple(bool(v) for v in rng.random(3) < 0.3),
        INDEX_TYPES[rng.integers(0, len(INDEX_TYPES))], (NO_PADDING, entries, int(rng.integers(0, entries)))[rng.integers(0, 3)],
        float(rng.choice([0.0, 0.7, 2.0])), float(rng.choice([0.0, 1.0, 2.0, np.inf, 2.5])), bool(rng.integers(0, 2)),
        bool(rng.integers(0, 2)), int(rng.choice([0, 0, 1, 5])),
    )  # fmt: skip


RANDOM = [_random(number) for number in range(60)]

CASES = TYPES + LAYOUTS + NORMS + SIZES + RANDOM
