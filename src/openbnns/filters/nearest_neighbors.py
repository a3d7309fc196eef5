"""Nearest neighbours: a store of points, and for each of them the nearest ones by Euclidean distance.

distance(a, b) = sqrt(sum_f (a_f - b_f)²); a point is its own first neighbour, at distance 0. Of equally distant points,
the one with the lower index comes first. Missing neighbours have index -1 and infinite distance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import engines
from .._words import Caller, Named
from ..abi.enums import BNNSDataLayout, BNNSDataType
from ..abi.structs import BNNSFilterParameters
from ..errors import Problem
from ..reference import nearest_neighbors as reference
from ..tensors import descriptors
from ..tensors.descriptors import ELEMENT_TYPES, LAYOUTS, ElementType, View
from ..tensors.operands import Bound, bind, integer
from ..tensors.sharing import check_sharing

_INT32 = ELEMENT_TYPES[int(BNNSDataType.BNNSDataTypeInt32)]
_TYPES = (BNNSDataType.BNNSDataTypeFloat32, BNNSDataType.BNNSDataTypeFloat16)
_LARGEST = 2**31 - 1  # indices are 32-bit integers


class NearestNeighbors:
    """Up to ``max_n_samples`` points of ``n_features`` numbers.

    >>> import numpy as np
    >>> from openbnns.capi import *
    >>> knn, index = BNNSCreateNearestNeighbors(3, 1, 2, BNNSDataTypeFloat32), np.zeros((3, 2), np.int32)
    >>> BNNSNearestNeighborsLoad(knn, 3, np.float32([0, 1, 10]))
    0
    >>> BNNSNearestNeighborsGetInfo(knn, -1, index), index.tolist()
    (0, [[0, 1], [1, 0], [2, 1]])
    """

    def __init__(
        self, max_n_samples: Any, n_features: Any, n_neighbors: Any, data_type: Any,
        filter_params: BNNSFilterParameters | None, who: Caller,
    ) -> None:  # fmt: skip
        self.capacity = _count(max_n_samples, who("max_n_samples"))
        self.features = _count(n_features, who("n_features"))
        self.neighbors = _count(n_neighbors, who("n_neighbors"))
        code = integer(data_type, who("data_type"))
        if code not in _TYPES:
            raise Problem(
                f"{who('data_type')} is {code:#x}, but points are BNNSDataTypeFloat32 or BNNSDataTypeFloat16.",
                kind=TypeError,
            )
        if self.capacity * self.features > descriptors.MAX_ELEMENTS:
            raise Problem(f"{who}: {self.capacity} samples of {self.features} features are more than any memory holds.")
        self.element = ELEMENT_TYPES[code]
        self.threads = 0 if filter_params is None else min(int(filter_params.n_threads), 256)
        self.alive = True
        self._parts: list[NDArray[np.float32]] = []
        self.count = 0

    def destroy(self) -> None:
        """Release the points; later calls fail cleanly."""
        self.alive, self._parts, self.count = False, [], 0

    def require_alive(self, caller: Caller) -> None:
        if not self.alive:
            raise Problem(f"{caller.function}: the store has been destroyed. Create a new one, or destroy it later.")

    def load(self, caller: Caller, n_new_samples: Any, data_ptr: Any) -> None:
        """Append points (n_new_samples, n_features), which are copied."""
        self.require_alive(caller)
        new = integer(n_new_samples, caller("n_new_samples"))
        if new < 0 or self.count + new > self.capacity:
            raise Problem(
                f"{caller('n_new_samples')} is {new}, but the store holds {self.count} of at most {self.capacity} samples. "
                "Create a larger store, or load fewer."
            )
        if new == 0:
            return
        points = _bound(caller("data_ptr"), data_ptr, self.element, new * self.features)
        self._parts.append(np.array(points.read(np.float32), np.float32).reshape(new, self.features))
        self.count += new

    def samples(self) -> NDArray[np.float32]:
        """All points (count, features)."""
        if len(self._parts) != 1:
            empty = np.empty((0, self.features), np.float32)
            self._parts = [np.concatenate([empty, *self._parts])]
        return self._parts[0]

    def info(self, caller: Caller, sample_number: Any, indices: Any, distances: Any) -> None:
        """Write the neighbours of one point, or of all points if the number is negative; NULL for what is not wanted."""
        self.require_alive(caller)
        number = integer(sample_number, caller("sample_number"))
        if number >= self.count:
            raise Problem(
                f"{caller('sample_number')} is {number}, but {self.count} samples are stored: 0 to {self.count - 1}, or "
                "negative for all."
            )
        first, queries = (0, self.count) if number < 0 else (number, 1)
        if queries == 0:
            return
        room = queries * self.neighbors
        places = None if indices is None else _bound(caller("indices"), indices, _INT32, room, output=True)
        lengths = None if distances is None else _bound(caller("distances"), distances, self.element, room, output=True)
        if places is not None and lengths is not None:
            check_sharing(caller, {caller.name("indices"): places, caller.name("distances"): lengths})
        nearest, far = self._find(first, queries)
        if places is not None:
            places.write_integers(nearest.reshape(1, -1))
        if lengths is not None:
            lengths.write(far.reshape(1, -1))

    def _find(self, first: int, queries: int) -> tuple[NDArray[Any], NDArray[Any]]:
        if engines.is_native():
            return self._find_natively(first, queries)
        points = self.samples().astype(np.float64)
        if queries == self.count:
            return reference.find(points, self.neighbors)
        indices, distances = reference.find(points, self.neighbors, first)
        return indices[None], distances[None]

    def _find_natively(self, first: int, queries: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Indices and distances (queries, neighbors) of the nearest of the samples (count, features)."""
        samples = self.samples()
        shape = queries, self.neighbors
        indices, distances, squares = (
            np.empty(shape, np.int32),
            np.empty(shape, np.float32),
            np.empty(shape, np.float64),
        )
        engines._core.nearest_neighbors(
            samples.ctypes.data, count=samples.shape[0], features=samples.shape[1], neighbors=self.neighbors, first=first,
            queries=queries, indices=indices.ctypes.data, distances=distances.ctypes.data, squares=squares.ctypes.data,
            threads=self.threads,
        )  # fmt: skip
        return indices, distances


def _count(value: Any, who: str) -> int:
    number = integer(value, who)
    if not 1 <= number <= _LARGEST:
        raise Problem(f"{who} is {number}. It must be between 1 and {_LARGEST}.")
    return number


def _bound(who: Named, data: Any, element: ElementType, count: int, *, output: bool = False) -> Bound:
    view = View(LAYOUTS[int(BNNSDataLayout.BNNSDataLayoutVector)], element, (count,), (1,))
    return bind(view, (0,), (count,), who, data, 1, 0, output=output)
