"""Functions of whole tensors of the reference engine: against plain loops, measured values and their own adjoints.

Linear functions are tested as adjoint pairs, <v, f(u)> = <backward(v), u>, which is exact.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from differences import assert_adjoint, generator
from openbnns.parameters.moves import Relation, Shuffle
from openbnns.parameters.reduction import ReductionKind as R
from openbnns.reference import moves, nearest_neighbors, selection

# ---------------------------------------------------------------------------------------------------------------------
# Transpose, tile, band part, compare


def test_transpose() -> None:
    x = generator(13).standard_normal((2, 3, 4))
    y = moves.transpose(x, 0, 2)
    np.testing.assert_array_equal(y, x.transpose(2, 1, 0))
    np.testing.assert_array_equal(moves.transpose(y, 0, 2), x)
    assert y.flags.c_contiguous


def test_tile() -> None:
    x = generator(14).standard_normal((2, 1, 3))
    out_shape = (4, 3, 3)
    y = moves.tile(x, out_shape)
    for index in np.ndindex(out_shape):
        assert y[index] == x[tuple(i % n for i, n in zip(index, x.shape, strict=True))]
    assert_adjoint(lambda x: moves.tile(x, out_shape), lambda v: moves.tile_backward(v, x.shape), x.shape)
    dx = moves.tile_backward(np.array([[1.0, 2, 3], [10, 20, 30]]), (1, 3))
    np.testing.assert_array_equal(dx, [[11, 22, 33]])


def test_tile_with_reversed_axes_as_measured() -> None:
    x = np.array([1.0, 2.0, 3.0])
    y = moves.tile(x.reshape(1, 3), (2, 3), reversed_axes=True)
    assert y.shape == (2, 3)
    np.testing.assert_array_equal(y.ravel(), [1, 1, 2, 2, 3, 3])
    y = moves.tile(x.reshape(3, 1), (3, 2), reversed_axes=True)
    np.testing.assert_array_equal(y.ravel(), [1, 2, 3, 1, 2, 3])


@pytest.mark.parametrize("out_shape", [(2, 5), (4,), (4, 3, 3), (3, 3)])
def test_tile_refuses(out_shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="is not a multiple of"):
        moves.tile(np.zeros((2, 3)), out_shape)


@pytest.mark.parametrize(("lower", "upper"), list(itertools.product([-1, 0, 1, 9], repeat=2)))
def test_band_part(lower: int, upper: int) -> None:
    x = generator(15).standard_normal((2, 4, 5))
    y = moves.band_part(x, lower, upper)
    for n, i, j in np.ndindex(x.shape):
        keep = (lower < 0 or i - j <= lower) and (upper < 0 or j - i <= upper)
        assert y[n, i, j] == (x[n, i, j] if keep else 0.0)


COMPARISONS: dict[Relation, Callable[[Any, Any], bool]] = {
    Relation.EQUAL: lambda a, b: a == b,
    Relation.LESS: lambda a, b: a < b,
    Relation.LESS_EQUAL: lambda a, b: a <= b,
    Relation.GREATER: lambda a, b: a > b,
    Relation.GREATER_EQUAL: lambda a, b: a >= b,
    Relation.NOT_EQUAL: lambda a, b: a != b,
    Relation.LOGICAL_AND: lambda a, b: bool(a) and bool(b),
    Relation.LOGICAL_OR: lambda a, b: bool(a) or bool(b),
    Relation.LOGICAL_NOT: lambda a, b: not a,
    Relation.LOGICAL_NAND: lambda a, b: not (a and b),
    Relation.LOGICAL_NOR: lambda a, b: not (a or b),
    Relation.LOGICAL_XOR: lambda a, b: bool(a) != bool(b),
}


@pytest.mark.parametrize("operator", list(Relation))
def test_compare(operator: Relation) -> None:
    values = [0.0, -0.0, 1.0, 2.5, -3.0, math.inf, math.nan]
    a, b = (np.array(column) for column in zip(*itertools.product(values, repeat=2), strict=True))
    result = moves.compare(operator, a, b)
    assert result.dtype == np.bool_
    np.testing.assert_array_equal(result, [COMPARISONS[operator](p, q) for p, q in zip(a, b, strict=True)])
    flags = np.array([True, True, False, False])
    expected = [COMPARISONS[operator](p, q) for p, q in zip(flags, flags[::2].repeat(2), strict=True)]
    np.testing.assert_array_equal(moves.compare(operator, flags, flags[::2].repeat(2)), expected)


def test_compare_errors() -> None:
    np.testing.assert_array_equal(moves.compare(Relation.LOGICAL_NOT, np.array([0.0, 2.0])), [True, False])
    with pytest.raises(ValueError, match="no operator 12"):
        moves.compare(12, np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match="must have one shape"):
        moves.compare(Relation.LESS, np.zeros(2), np.zeros((2, 1)))
    with pytest.raises(ValueError, match=r"must have one shape; got \(2,\) and None"):
        moves.compare(Relation.LESS, np.zeros(2))


# ---------------------------------------------------------------------------------------------------------------------
# Top-k


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_top_k(axis: int, k: int) -> None:
    x = generator(16).integers(0, 4, (3, 5, 4)).astype(np.float64)  # many ties
    values, indices = selection.top_k(x, k, axis)
    lines, best, at = (np.moveaxis(array, axis, -1) for array in (x, values, indices))
    for place in np.ndindex(lines.shape[:-1]):
        line = lines[place].tolist()
        expected = sorted(range(len(line)), key=lambda i, line=line: (-line[i], i))[:k]  # type: ignore[misc]
        assert at[place].tolist() == expected
        assert best[place].tolist() == [line[i] for i in expected]
    for index in range(x.shape[axis]):
        chosen = np.full(lines.shape[:-1], index)
        result = selection.in_top_k(x, chosen, k, axis)
        threshold = np.sort(lines, axis=-1)[..., -k]
        np.testing.assert_array_equal(result, lines[..., index] >= threshold)


def test_top_k_special_values() -> None:
    x = np.array([1.0, np.nan, np.inf, -np.inf, np.nan, 1.0])
    values, indices = selection.top_k(x, 6, 0)
    np.testing.assert_array_equal(indices, [1, 4, 2, 0, 5, 3])
    np.testing.assert_array_equal(values, x[indices])
    assert [bool(selection.in_top_k(x, np.array(i), 3, 0)) for i in range(6)] == [False, True, True, False, True, False]
    for k in (0, 7):
        with pytest.raises(ValueError, match=f"K is {k}, but axis 0 has 6 elements"):
            selection.top_k(x, k, 0)
    with pytest.raises(ValueError, match="index 6 lies outside an axis of 6"):
        selection.in_top_k(x, np.array(6), 1, 0)


# ---------------------------------------------------------------------------------------------------------------------
# Gather and scatter


def test_measured_gathers() -> None:
    x = np.arange(1.0, 7.0).reshape(2, 3)
    np.testing.assert_array_equal(selection.gather(x, np.array([1, 1, 0]), 0).ravel(), [4, 5, 6, 4, 5, 6, 1, 2, 3])
    np.testing.assert_array_equal(selection.gather(x, np.array([2, 0]), 1).ravel(), [3, 1, 6, 4])
    square = np.arange(1.0, 10.0).reshape(3, 3)
    np.testing.assert_array_equal(selection.gather_nd(square, np.array([[0, 0], [1, 2], [2, 1]])), [1, 6, 8])
    np.testing.assert_array_equal(selection.gather_nd(square, np.array([[2], [0]])), [[7, 8, 9], [1, 2, 3]])


def test_measured_scatters() -> None:
    old = np.array([100.0, 200.0, 300.0])
    y = selection.scatter(R.SUM, np.array([1.0, 2.0, 3.0]), np.array([0, 0, 2]), old, 0)
    np.testing.assert_array_equal(y, [103, 200, 303])
    np.testing.assert_array_equal(old, [100, 200, 300])
    x = np.arange(1.0, 7.0).reshape(2, 3)
    y = selection.scatter(R.NONE, x, np.array([2, 0]), np.zeros((3, 3)), 0)
    np.testing.assert_array_equal(y.ravel(), [4, 5, 6, 0, 0, 0, 1, 2, 3])
    y = selection.scatter_nd(R.NONE, np.array([[7.0, 8, 9], [1, 2, 3]]), np.array([[2], [0]]), np.zeros((3, 3)))
    np.testing.assert_array_equal(y.ravel(), [1, 2, 3, 0, 0, 0, 7, 8, 9])


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("elementwise", [False, True])
def test_gather_and_scatter_by_definition(axis: int, elementwise: bool) -> None:
    rng, shape = generator(17), (3, 4, 5)
    x, old = rng.standard_normal(shape), rng.standard_normal(shape)
    picked = tuple(6 if d == axis % 3 else n for d, n in enumerate(shape))
    indices = rng.integers(0, shape[axis], picked if elementwise else 6)
    y, entries = selection.gather(x, indices, axis), rng.standard_normal(picked)
    assert y.shape == picked
    added, written = old.copy(), old.copy()
    for place in np.ndindex(picked):
        source = list(place)
        source[axis] = indices[place] if elementwise else indices[place[axis]]
        assert y[place] == x[tuple(source)]
        added[tuple(source)] += entries[place]
        written[tuple(source)] = entries[place]
    np.testing.assert_allclose(selection.scatter(R.SUM, entries, indices, old, axis), added)
    np.testing.assert_array_equal(selection.scatter(R.NONE, entries, indices, old, axis), written)
    assert_adjoint(
        lambda x: selection.gather(x, indices, axis),
        lambda v: selection.scatter(R.SUM, v, indices, np.zeros(shape), axis),
        shape,
    )


@pytest.mark.parametrize("length", [1, 2, 3])
def test_gather_nd_and_scatter_nd_by_definition(length: int) -> None:
    rng, shape = generator(18), (3, 4, 5)
    x, old = rng.standard_normal(shape), rng.standard_normal(shape)
    indices = np.stack([rng.integers(0, shape[axis], (2, 7)) for axis in range(length)], axis=-1)
    y = selection.gather_nd(x, indices)
    entries = rng.standard_normal(y.shape)
    added = old.copy()
    for place in np.ndindex(2, 7):
        np.testing.assert_array_equal(y[place], x[tuple(indices[place])])
        added[tuple(indices[place])] += entries[place]
    np.testing.assert_allclose(selection.scatter_nd(R.SUM, entries, indices, old), added)


def test_gather_keeps_the_type() -> None:
    x = np.arange(4, dtype=np.int8)
    assert selection.gather(x, np.array([1]), 0).dtype == np.int8
    assert selection.scatter(R.SUM, x, np.array([0, 0, 0, 1]), x, 0).tolist() == [3, 4, 2, 3]


def test_gather_and_scatter_errors() -> None:
    x = np.zeros((2, 3))
    for index in (-1, 2):
        with pytest.raises(ValueError, match=f"gather: index {index} lies outside an axis of 2"):
            selection.gather(x, np.array([0, index]), 0)
        with pytest.raises(ValueError, match=f"scatter: index {index} lies outside"):
            selection.scatter(R.SUM, x, np.array([0, index]), x, 0)
        with pytest.raises(ValueError, match=f"gather_nd: index {index} lies outside"):
            selection.gather_nd(x, np.array([[index, 0]]))
    with pytest.raises(ValueError, match="may differ along axis 0 only"):
        selection.gather(x, np.zeros((2, 2), np.int64), 0)
    with pytest.raises(ValueError, match=r"indices of shape \(3,\) do not fit"):
        selection.scatter(R.SUM, x, np.zeros(3, np.int64), x, 0)
    with pytest.raises(ValueError, match="may differ along axis 0 only"):
        selection.scatter(R.SUM, np.zeros((2, 4)), np.zeros(2, np.int64), x, 0)
    with pytest.raises(ValueError, match="index vectors of length 3 into 2 axes"):
        selection.gather_nd(x, np.zeros((1, 3), np.int64))
    with pytest.raises(ValueError, match=r"the input must have shape \(1, 3\)"):
        selection.scatter_nd(R.SUM, x, np.zeros((1, 1), np.int64), x)
    with pytest.raises(ValueError, match="function 0 cannot scatter"):
        selection.scatter(R.MAX, x, np.zeros(2, np.int64), x, 0)


# ---------------------------------------------------------------------------------------------------------------------
# Shuffle


def test_measured_pixel_shuffle() -> None:
    y = moves.shuffle(Shuffle.PIXEL_SHUFFLE, np.arange(1.0, 17.0).reshape(1, 4, 2, 2), 2)
    assert y.shape == (1, 1, 4, 4)
    np.testing.assert_array_equal(y.ravel(), [1, 5, 2, 6, 9, 13, 10, 14, 3, 7, 4, 8, 11, 15, 12, 16])


@pytest.mark.parametrize("block", [1, 2, 3])
def test_shuffle_by_definition(block: int) -> None:
    n, c, h, w = 2, 3, 4, 5
    small = generator(19).standard_normal((n, c * block * block, h, w))
    pixels = moves.shuffle(Shuffle.PIXEL_SHUFFLE, small, block)
    depth = moves.shuffle(Shuffle.DEPTH_TO_SPACE, small, block)
    assert pixels.shape == depth.shape == (n, c, h * block, w * block)
    for s, k, y, x, i, j in np.ndindex(n, c, h, w, block, block):
        place = (s, k, y * block + i, x * block + j)
        assert pixels[place] == small[s, k * block * block + i * block + j, y, x]
        assert depth[place] == small[s, (i * block + j) * c + k, y, x]
    np.testing.assert_array_equal(moves.shuffle(Shuffle.PIXEL_UNSHUFFLE, pixels, block), small)
    np.testing.assert_array_equal(moves.shuffle(Shuffle.SPACE_TO_DEPTH, depth, block), small)


def test_shuffle_errors() -> None:
    for kind, shape in [(0, (1, 6, 2, 2)), (1, (1, 1, 4, 3)), (2, (1, 6, 2, 2)), (3, (1, 1, 3, 4))]:
        with pytest.raises(ValueError, match="do not divide into blocks of 2 x 2"):
            moves.shuffle(kind, np.zeros(shape), 2)
    with pytest.raises(ValueError, match="no kind 4"):
        moves.shuffle(4, np.zeros((1, 4, 2, 2)), 2)


# ---------------------------------------------------------------------------------------------------------------------
# Nearest neighbours


def test_published_nearest_neighbours() -> None:
    samples = np.array([[1.0, 2], [7, 2], [3, 4], [8, 4], [3, 7], [7, 7], [2, 8], [2, 5]])
    indices, distances = nearest_neighbors.find(samples, 4, 7)
    np.testing.assert_array_equal(indices, [7, 2, 4, 6])
    np.testing.assert_allclose(distances, [0, math.sqrt(2), math.sqrt(5), 3])


@pytest.mark.parametrize("neighbors", [1, 3, 9, 12])
def test_nearest_neighbours_by_definition(neighbors: int) -> None:
    samples = generator(21).integers(0, 3, (9, 2)).astype(np.float64)  # many points are equal or equally far
    indices, distances = nearest_neighbors.find(samples, neighbors)
    assert indices.shape == distances.shape == (9, neighbors)
    for query in range(9):
        far = [math.dist(samples[query], other) for other in samples]
        order = sorted(range(9), key=lambda i, far=far, query=query: (i != query, far[i], i))  # type: ignore[misc]
        count = min(neighbors, 9)
        assert indices[query].tolist() == (order + [-1] * 3)[:neighbors]
        np.testing.assert_allclose(distances[query, :count], [far[i] for i in order[:count]])
        assert np.all(np.isinf(distances[query, count:]))
        one_indices, one_distances = nearest_neighbors.find(samples, neighbors, query)
        np.testing.assert_array_equal(one_indices, indices[query])
        np.testing.assert_array_equal(one_distances, distances[query])


def test_nearest_neighbours_of_nothing() -> None:
    indices, distances = nearest_neighbors.find(np.zeros((0, 3)), 4)
    assert indices.shape == distances.shape == (0, 4)
    with pytest.raises(ValueError, match="there is no sample 0; 0 samples are stored"):
        nearest_neighbors.find(np.zeros((0, 3)), 4, 0)
