"""Native search for the nearest stored points."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engines import _core as core


def find(
    samples: NDArray[np.float32], neighbors: int, first: int, queries: int, threads: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Indices and distances (queries, neighbors) of the nearest of ``samples`` (count, features), C order."""
    indices: NDArray[Any] = np.empty((queries, neighbors), np.int32)
    distances: NDArray[Any] = np.empty((queries, neighbors), np.float32)
    squares = np.empty((queries, neighbors), np.float64)
    addresses = [a.ctypes.data for a in (samples, indices, distances, squares)]
    core.nearest_neighbors([*samples.shape, neighbors, first, queries], *addresses, threads)
    return indices, distances
