"""Nearest neighbours of the Python face."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._words import Caller
from ..abi.enums import BNNSDataType
from ..abi.structs import BNNSFilterParameters
from ..errors import LayerCreationError, Problem, as_exception
from ..filters import nearest_neighbors as filters
from ._functions import call
from ._misuse import reports_misuse
from ._ports import as_array, require
from .types import DataType

__all__ = ["NearestNeighbors", "Neighbors"]

# The names of arguments in C, and in these methods.
_NAMES = {
    "max_n_samples": "capacity", "n_features": "dimension_count", "n_neighbors": "neighbor_count", "data_ptr": "samples",
    "n_new_samples": "samples", "sample_number": "index", "indices": "output_indices", "distances": "output_distances",
}  # fmt: skip


class Neighbors(NamedTuple):
    """Indices and distances, (neighbors,) of one point or (points, neighbors) of all.

    >>> import numpy as np
    >>> from openbnns import *
    >>> store = NearestNeighbors(capacity=3, dimension_count=1, neighbor_count=2)
    >>> store.append(np.float32([[0], [1], [10]]))
    >>> indices, distances = store.apply()
    >>> indices.tolist(), distances.tolist()
    ([[0, 1], [1, 0], [2, 1]], [[0.0, 1.0], [0.0, 1.0], [0.0, 9.0]])
    """

    indices: Any
    distances: Any


class NearestNeighbors:
    """A store of points, and for each of them the nearest ones by Euclidean distance, itself included.

    >>> import numpy as np
    >>> from openbnns import *
    >>> store = NearestNeighbors(capacity=10, dimension_count=2, neighbor_count=2)
    >>> store.append(np.array([[0, 0], [3, 4], [0, 1]], np.float32))
    >>> store.apply(0)
    Neighbors(indices=array([0, 2], dtype=int32), distances=array([0., 1.], dtype=float32))
    """

    @reports_misuse(LayerCreationError)
    def __init__(
        self,
        capacity: int,
        dimension_count: int,
        neighbor_count: int,
        data_type: DataType = DataType.FLOAT32,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        who = Caller(type(self).__name__, _NAMES, null="None")
        try:
            if not isinstance(data_type, BNNSDataType):
                require(data_type, DataType, who("data_type"), "DataType.FLOAT32")
            kind = data_type.value if isinstance(data_type, DataType) else data_type
            self._store = filters.NearestNeighbors(
                capacity, dimension_count, neighbor_count, kind, filter_parameters, who
            )
        except Problem as problem:
            raise as_exception(problem, LayerCreationError) from None
        except TypeError as error:
            raise as_exception(Problem(str(error), kind=TypeError), LayerCreationError) from None

    def __len__(self) -> int:
        return self._store.count

    @call(_NAMES)
    def append(self, caller: Caller, samples: Any) -> None:
        """Add points: (dimensions,) or (points, dimensions)."""
        array = as_array(samples, caller("data_ptr"))
        wide = array[None] if array.ndim == 1 else array
        if wide.ndim != 2 or wide.shape[1] != self._store.features:
            raise Problem(
                f"{caller('data_ptr')} has shape {array.shape}, but points of {self._store.features} numbers are stored. "
                f"Pass (points, {self._store.features})."
            )
        self._store.load(caller, len(wide), np.ascontiguousarray(wide))

    @call(_NAMES)
    def apply(
        self, caller: Caller, index: int | None = None, output_indices: Any = None, output_distances: Any = None
    ) -> Neighbors:
        """The neighbours of the point ``index``, or of all points."""
        store = self._store
        if index is not None and index < 0:
            raise Problem(f"{caller('sample_number')} is {index}. Pass 0 to {store.count - 1}, or None for all.")
        for name, given in (("output_indices", output_indices), ("output_distances", output_distances)):
            if given is not None and not isinstance(given, np.ndarray):
                raise Problem(
                    f"{caller.function}: {name} must be an array, or None for a new one, not {type(given).__name__}.",
                    kind=TypeError,
                )
        shape = (store.neighbors,) if index is not None else (store.count, store.neighbors)
        indices = np.empty(shape, np.int32) if output_indices is None else output_indices
        distances = np.empty(shape, store.element.numpy) if output_distances is None else output_distances
        store.info(caller, -1 if index is None else index, indices, distances)
        return Neighbors(indices, distances)
