"""Nearest neighbours: both engines against a plain definition, threads, types, and bad input."""

from __future__ import annotations

import numpy as np
import pytest

import openbnns
from bad_calls import refused
from openbnns import capi


def expected(points: np.ndarray, neighbors: int) -> tuple[np.ndarray, np.ndarray]:
    """By definition, one point at a time."""
    indices = np.full((len(points), neighbors), -1, np.int32)
    distances = np.full((len(points), neighbors), np.inf)
    for i, point in enumerate(points.astype(np.float64)):
        lengths = np.sqrt(((points.astype(np.float64) - point) ** 2).sum(axis=1))
        order = sorted(range(len(points)), key=lambda j: (j != i, lengths[j], j))[:neighbors]
        indices[i, : len(order)], distances[i, : len(order)] = order, lengths[order]
    return indices, distances


@pytest.mark.covers(
    "knn.create", "knn.load", "knn.info", "knn.destroy", "fn.BNNSCreateNearestNeighbors", "fn.BNNSNearestNeighborsLoad",
    "fn.BNNSNearestNeighborsGetInfo", "fn.BNNSDestroyNearestNeighbors",
)  # fmt: skip
@pytest.mark.parametrize(
    ("count", "features", "neighbors"), [(1, 1, 1), (5, 3, 8), (40, 17, 5), (130, 8, 130), (7, 33, 2)]
)
def test_all_and_each(engine: str, count: int, features: int, neighbors: int) -> None:
    points = np.random.RandomState(count).standard_normal((count, features)).astype(np.float32) * 3 + 1000
    store = capi.BNNSCreateNearestNeighbors(count + 2, features, neighbors, capi.BNNSDataTypeFloat32)
    half = count // 2
    assert capi.BNNSNearestNeighborsLoad(store, half, points[:half]) == 0
    assert capi.BNNSNearestNeighborsLoad(store, count - half, points[half:].copy()) == 0
    indices = np.full((count, neighbors), 99, np.int32)
    distances = np.full((count, neighbors), np.nan, np.float32)
    assert capi.BNNSNearestNeighborsGetInfo(store, -1, indices, distances) == 0, openbnns.last_error()
    where, lengths = expected(points, neighbors)
    np.testing.assert_array_equal(indices, where)
    np.testing.assert_allclose(distances, lengths, rtol=1e-6)
    one, far = np.zeros(neighbors, np.int32), np.zeros(neighbors, np.float32)
    assert capi.BNNSNearestNeighborsGetInfo(store, count - 1, one, far) == 0
    np.testing.assert_array_equal(one, indices[-1])
    np.testing.assert_array_equal(far, distances[-1])
    assert capi.BNNSNearestNeighborsGetInfo(store, 0, one, None) == 0
    assert capi.BNNSNearestNeighborsGetInfo(store, 0, None, far) == 0
    np.testing.assert_array_equal(one, indices[0])
    capi.BNNSDestroyNearestNeighbors(store)
    refused(capi.BNNSNearestNeighborsGetInfo(store, 0, one, far), "has been destroyed")
    capi.BNNSDestroyNearestNeighbors(store)
    capi.BNNSDestroyNearestNeighbors(None)


def test_ties_keep_the_order_of_indices_and_a_point_is_its_own_first() -> None:
    store = openbnns.NearestNeighbors(capacity=6, dimension_count=1, neighbor_count=4)
    store.append(np.array([[1], [0], [2], [1], [1]], np.float32))
    assert store.apply(3).indices.tolist() == [3, 0, 4, 1]
    assert store.apply(0).indices.tolist() == [0, 3, 4, 1]


def test_nan_is_farthest() -> None:
    for engine in ("native", "reference"):
        with openbnns.engine(engine):
            store = openbnns.NearestNeighbors(capacity=4, dimension_count=1, neighbor_count=4)
            store.append(np.array([[0], [np.nan], [5], [np.inf]], np.float32))
            assert store.apply(0).indices.tolist() == [0, 2, 3, 1], engine


def test_threads_agree_bitwise() -> None:
    points = np.random.RandomState(0).standard_normal((500, 20)).astype(np.float32)
    results = []
    for threads in (1, 2, 5):
        store = openbnns.NearestNeighbors(500, 20, 7, filter_parameters=capi.BNNSFilterParameters(n_threads=threads))
        store.append(points)
        results.append(store.apply())
    for result in results[1:]:
        np.testing.assert_array_equal(result.indices, results[0].indices)
        np.testing.assert_array_equal(result.distances, results[0].distances)


@pytest.mark.covers("swift.NearestNeighbors")
def test_class_and_half_floats() -> None:
    store = openbnns.NearestNeighbors(
        capacity=3, dimension_count=2, neighbor_count=2, data_type=openbnns.DataType.FLOAT16
    )
    store.append(np.array([0, 0], np.float16))
    store.append(np.array([[3, 4], [0, 1]], np.float16))
    assert len(store) == 3
    result = store.apply()
    assert result.distances.dtype == np.float16 and result.indices.tolist() == [[0, 2], [1, 2], [2, 0]]
    given = np.zeros(2, np.int32)
    assert store.apply(1, output_indices=given).indices is given
    with pytest.raises(openbnns.LayerApplyError, match="holds 3 of at most 3"):
        store.append(np.array([1, 1], np.float16))
    with pytest.raises(openbnns.LayerApplyError, match=r"has shape \(1, 3\)"):
        store.append(np.zeros((1, 3), np.float16))
    with pytest.raises(openbnns.LayerApplyError, match="index is 3, but 3 samples are stored"):
        store.apply(3)
    with pytest.raises(openbnns.LayerApplyError, match="index is -1"):
        store.apply(-1)
    with pytest.raises(openbnns.LayerCreationError, match="capacity is 0"):
        openbnns.NearestNeighbors(0, 1, 1)


def test_bad_input() -> None:
    refused(capi.BNNSCreateNearestNeighbors(4, 2, 2, capi.BNNSDataTypeInt8), "Float32 or BNNSDataTypeFloat16")
    assert capi.BNNSCreateNearestNeighbors(4, 0, 2, capi.BNNSDataTypeFloat32) is None
    store = capi.BNNSCreateNearestNeighbors(4, 2, 2, capi.BNNSDataTypeFloat32)
    assert capi.BNNSNearestNeighborsLoad(None, 1, np.zeros(2, np.float32)) == -1
    assert capi.BNNSNearestNeighborsLoad(store, 2, np.zeros(3, np.float32)) == -1
    assert capi.BNNSNearestNeighborsLoad(store, 1, None) == -1
    assert capi.BNNSNearestNeighborsLoad(store, 5, np.zeros(10, np.float32)) == -1
    assert capi.BNNSNearestNeighborsGetInfo(store, 0, None, None) == -1
    assert capi.BNNSNearestNeighborsGetInfo(store, -1, None, None) == 0
    assert capi.BNNSNearestNeighborsLoad(store, 2, np.ones(4, np.float32)) == 0
    small = np.full(1, 7, np.int32)
    far = np.full(2, 7, np.float32)
    assert capi.BNNSNearestNeighborsGetInfo(store, 0, small, far) == -1
    assert small[0] == 7 and (far == 7).all()
    with pytest.raises(TypeError):
        capi.BNNSNearestNeighborsLoad("store", 1, np.zeros(2, np.float32))


def test_distances_that_nobody_wants_on_the_indices(engine: str) -> None:
    """The call runs, what is not shared is right, and strict mode warns."""
    store = capi.BNNSCreateNearestNeighbors(3, 1, 3, capi.BNNSDataTypeFloat32)
    assert capi.BNNSNearestNeighborsLoad(store, 3, np.array([0, 1, 3], np.float32)) == 0
    memory = np.full(5, 7, np.int32)
    with openbnns.strict(), pytest.warns(openbnns.StrictWarning, match="GetInfo: indices and distances share memory"):
        assert capi.BNNSNearestNeighborsGetInfo(store, 0, memory[:3], memory[2:].view(np.float32)) == 0
    assert memory[:2].tolist() == [0, 1] and memory[3:].view(np.float32).tolist() == [1, 3]
