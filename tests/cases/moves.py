"""Functions of tensors: random tensors of any layout, size, stride and type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from helpers import (
    BFLOAT16,
    COLUMN_MAJOR,
    FLOAT16,
    FLOAT32,
    IMAGE,
    INT8,
    INT16,
    INT32,
    INT64,
    OIHRWR,
    ROW_MAJOR,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    VECTOR,
    Storage,
    Tensor,
)  # fmt: skip
from openbnns import capi

FIRST_MAJOR = {r: getattr(capi, f"BNNSDataLayout{r}DFirstMajor") for r in range(1, 9)}
LAST_MAJOR = {r: getattr(capi, f"BNNSDataLayout{r}DLastMajor") for r in range(1, 9)}
TYPES = [FLOAT32, FLOAT16, BFLOAT16, INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64, UINT64]


def random_storage(t: Tensor, rng: np.random.Generator, batch: int = 1, gap: int = 0, low: int = 0) -> Storage:
    """Small integers, which every type holds exactly."""
    return Storage(t, batch, gap, values=rng.integers(low, 100, (batch, *t.size)).astype(np.float64))


def random_tensor(rng: np.random.Generator, rank: int | None = None, most: int = 7, data_type: Any = None) -> Tensor:
    """Any layout, size, stride and type."""
    rank = int(rng.integers(1, 6)) if rank is None else rank
    size = tuple(int(n) for n in rng.integers(1, most + 1, rank))
    kind = TYPES[rng.integers(len(TYPES))] if data_type is None else data_type
    return strided(rng, Tensor(any_layout(rng, rank), size, data_type=kind))


def any_layout(rng: np.random.Generator, rank: int) -> Any:
    special = {1: [VECTOR], 2: [ROW_MAJOR, COLUMN_MAJOR], 3: [IMAGE], 4: [OIHRWR]}.get(rank, [])
    choices = [FIRST_MAJOR[rank], LAST_MAJOR[rank], *special]
    return choices[rng.integers(len(choices))]


def strided(rng: np.random.Generator, t: Tensor) -> Tensor:
    """Half of the time with gaps."""
    if rng.integers(2):
        return t
    stride, reach = [], 1
    for axis in t.stepped:
        stride.append(reach + int(rng.integers(3)))
        reach = stride[-1] * t.size[axis]
    return replace(t, stride=tuple(stride))


def numbered(t: Tensor, values: Any) -> Any:
    """From the order of size[] to that of axis numbers, and back; there may be a batch in front."""
    return np.swapaxes(values, -1, -2) if t.layout == ROW_MAJOR else values


def tensor_of(layout: Any, shape: tuple[int, ...], data_type: Any = FLOAT32) -> Tensor:
    """A tensor of this shape in the order of axis numbers."""
    return Tensor(layout, shape[::-1] if layout == ROW_MAJOR else shape, data_type=data_type)


def check(storage: Storage, expected: Any, *inputs: Storage) -> None:
    np.testing.assert_array_equal(storage.read(), storage.tensor.rounded(expected))
    storage.assert_guards_intact("output")
    for s in inputs:
        s.assert_unchanged("input")


def best(x: Any, k: int, axis: int) -> Any:
    """Indices of the k largest; NaN first, then descending, lower index first."""
    key = np.where(np.isnan(x), np.inf, x)
    order = np.lexsort((-key, ~np.isnan(x)), axis=axis)
    return np.take(order, np.arange(k), axis=axis)
