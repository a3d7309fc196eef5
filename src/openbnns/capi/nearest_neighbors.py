"""Nearest neighbours under their C names."""

from __future__ import annotations

from typing import Any

from .. import _strict
from .._words import Caller
from ..abi.enums import BNNSDataType
from ..abi.structs import BNNSFilterParameters
from ..errors import Problem, record, succeeded
from ..filters.nearest_neighbors import NearestNeighbors
from ._calls import attempt_direct, check_filter_params

__all__ = [
    "BNNSCreateNearestNeighbors",
    "BNNSDestroyNearestNeighbors",
    "BNNSNearestNeighbors",
    "BNNSNearestNeighborsGetInfo",
    "BNNSNearestNeighborsLoad",
]

BNNSNearestNeighbors = NearestNeighbors


def BNNSCreateNearestNeighbors(
    max_n_samples: int, n_features: int, n_neighbors: int, data_type: BNNSDataType | int,
    filter_params: BNNSFilterParameters | None = None,
) -> BNNSNearestNeighbors | None:  # fmt: skip
    """A store of up to ``max_n_samples`` points, Float32 or Float16.

    >>> import numpy as np
    >>> from openbnns.capi import *
    >>> knn = BNNSCreateNearestNeighbors(4, 2, 2, BNNSDataTypeFloat32)
    >>> BNNSNearestNeighborsLoad(knn, 3, np.float32([[0, 0], [5, 5], [0, 1]]))
    0
    >>> index, distance = np.zeros(2, np.int32), np.zeros(2, np.float32)
    >>> BNNSNearestNeighborsGetInfo(knn, 0, index, distance), index.tolist(), distance.tolist()
    (0, [0, 2], [0.0, 1.0])
    >>> BNNSDestroyNearestNeighbors(knn)
    """
    who = "BNNSCreateNearestNeighbors"
    check_filter_params(filter_params, who)
    try:
        return succeeded(
            NearestNeighbors(max_n_samples, n_features, n_neighbors, data_type, filter_params, Caller(who))
        )
    except Problem as problem:
        record(problem)
    return None


def BNNSDestroyNearestNeighbors(knn: BNNSNearestNeighbors | None = None) -> None:
    """Release a store; ``None`` and destroyed stores are ignored.

    >>> from openbnns.capi import *
    >>> knn = BNNSCreateNearestNeighbors(4, 2, 1, BNNSDataTypeFloat32)
    >>> BNNSDestroyNearestNeighbors(knn)
    >>> BNNSNearestNeighborsGetInfo(knn, 0)
    -1
    """
    if knn is not None:
        _require_store(knn, "BNNSDestroyNearestNeighbors")
        if not knn.alive:
            _strict.destroyed_again("BNNSDestroyNearestNeighbors", "store")
        knn.destroy()


def BNNSNearestNeighborsLoad(knn: BNNSNearestNeighbors | None, n_new_samples: int, data_ptr: Any) -> int:
    """Append points, packed (n_new_samples, n_features); they are copied.

    >>> import numpy as np
    >>> from openbnns.capi import *
    >>> knn = BNNSCreateNearestNeighbors(2, 3, 1, BNNSDataTypeFloat32)
    >>> BNNSNearestNeighborsLoad(knn, 2, np.zeros((2, 3), np.float32))
    0
    >>> BNNSNearestNeighborsLoad(knn, 1, np.zeros((1, 3), np.float32))  # it holds max_n_samples, no more
    -1
    """
    caller = Caller("BNNSNearestNeighborsLoad")

    def work(caller: Caller) -> None:
        _given(knn, caller).load(caller, n_new_samples, data_ptr)

    return attempt_direct(work, caller)


def BNNSNearestNeighborsGetInfo(
    knn: BNNSNearestNeighbors | None, sample_number: int, indices: Any = None, distances: Any = None
) -> int:
    """Sorted neighbours of one stored point, or of all points if the number is negative: int32 indices, and distances.

    >>> import numpy as np
    >>> from openbnns.capi import *
    >>> knn = BNNSCreateNearestNeighbors(3, 1, 2, BNNSDataTypeFloat32)
    >>> BNNSNearestNeighborsLoad(knn, 3, np.float32([0, 1, 10]))
    0
    >>> index = np.zeros((3, 2), np.int32)
    >>> BNNSNearestNeighborsGetInfo(knn, -1, index), index.tolist()
    (0, [[0, 1], [1, 0], [2, 1]])
    """
    caller = Caller("BNNSNearestNeighborsGetInfo")

    def work(caller: Caller) -> None:
        _given(knn, caller).info(caller, sample_number, indices, distances)

    return attempt_direct(work, caller)


def _given(knn: Any, caller: Caller) -> NearestNeighbors:
    if knn is None:
        raise Problem(f"{caller('knn')} is NULL. Create a store with BNNSCreateNearestNeighbors first.")
    _require_store(knn, caller.function)
    store: NearestNeighbors = knn
    return store


def _require_store(knn: Any, who: str) -> None:
    if not isinstance(knn, NearestNeighbors):
        raise TypeError(f"{who}: knn must be a BNNSNearestNeighbors, not {type(knn).__name__}.")
