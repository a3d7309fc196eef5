"""The nearest neighbours of stored points by Euclidean distance, the point itself being the first of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .activation import Array

Indices = npt.NDArray[np.int64]


@np.errstate(all="ignore")
def find(samples: Array, neighbors: int, sample: int | None = None) -> tuple[Indices, Array]:
    """(indices, distances) of the `neighbors` nearest points to one stored point, or to each of them (None).

        distance(a, b) = sqrt(sum_f (a_f - b_f)^2)

    samples (n, features); both results are (neighbors,) or (n, neighbors), sorted by distance. The point itself comes
    first with distance 0; of other points at equal distance the one with the lower index comes first. Where there are fewer
    than `neighbors` points, the index is -1 and the distance infinite. A point at a distance of NaN comes after all others.
    """
    count = len(samples)
    if sample is not None and not 0 <= sample < count:
        raise ValueError(f"nearest_neighbors.find: there is no sample {sample}; {count} samples are stored.")
    queries = np.arange(count) if sample is None else np.array([sample])
    distances = np.sqrt(np.sum((samples[queries, np.newaxis] - samples) ** 2, axis=-1))
    is_other = np.arange(count) != queries[:, np.newaxis]

    order = np.lexsort((distances, is_other), axis=-1)[:, :neighbors]  # stable, so that ties keep the order of indices
    missing = ((0, 0), (0, neighbors - order.shape[1]))
    nearest = np.pad(np.take_along_axis(distances, order, axis=-1), missing, constant_values=np.inf)
    indices = np.pad(order.astype(np.int64), missing, constant_values=-1)
    return (indices, nearest) if sample is None else (indices[0], nearest[0])
