"""Pooling of the reference engine against its definitions and against finite differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from differences import activation_name, assert_gradient, generator
from openbnns.parameters.activation import IDENTITY, Activation
from openbnns.parameters.activation import ActivationKind as A
from openbnns.parameters.pooling import NO_CELL, Geometry
from openbnns.parameters.pooling import PoolingKind as P
from openbnns.reference import activation, pooling

Array = activation.Array
TANH = Activation(A.TANH)

# (input (C, H, W), geometry)
POOLINGS = {
    "two by two": ((3, 4, 6), Geometry((2, 2), (2, 2), (1, 1), (0, 0, 0, 0), (2, 3))),
    "overlapping": ((2, 5, 7), Geometry((3, 2), (1, 2), (1, 1), (1, 1, 0, 0), (5, 3))),
    "dilated": ((2, 7, 6), Geometry((2, 3), (2, 1), (3, 2), (1, 0, 1, 1), (3, 4))),
    "past the border": ((1, 5, 5), Geometry((3, 3), (2, 2), (1, 1), (0, 0, 1, 0), (3, 3))),
    "empty windows": ((2, 3, 3), Geometry((2, 2), (1, 1), (1, 1), (3, 2, 0, 0), (6, 3))),
    "leaves a remainder": ((2, 7, 8), Geometry((2, 2), (3, 3), (1, 1), (0, 0, 0, 0), (2, 2))),
}
KINDS = [P.MAX, P.AVERAGE_COUNT_INCLUDE_PADDING, P.AVERAGE_COUNT_EXCLUDE_PADDING, P.L2_NORM]
pooling_cases = pytest.mark.parametrize(("image", "g"), POOLINGS.values(), ids=POOLINGS)
pooling_kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.lower())


def distinct(shape: tuple[int, ...], seed: int) -> Array:
    """Shuffled numbers at least 0.05 apart and away from 0: no two cells tie."""
    count = int(np.prod(shape))
    return generator(40, seed).permutation(0.05 * (np.arange(count) - count // 2 + 0.5)).reshape(shape)


@pooling_cases
@pooling_kinds
def test_pooling_by_definition(kind: P, image: tuple[int, int, int], g: Geometry) -> None:
    x, bias = distinct((2, *image), 0), generator(41).standard_normal(image[0])
    y, indices = pooling.forward(kind, x, bias, IDENTITY, g)
    assert (indices is not None) == (kind == P.MAX)
    for oy, ox in np.ndindex(g.out_size):
        cells = [
            (row, column)
            for ky, kx in np.ndindex(g.kernel)
            if 0 <= (row := g.stride[0] * oy + g.dilation[0] * ky - g.padding[0]) < image[1]
            and 0 <= (column := g.stride[1] * ox + g.dilation[1] * kx - g.padding[2]) < image[2]
        ]
        values = np.stack([x[:, :, row, column] for row, column in cells]) if cells else np.zeros((1, 2, image[0]))
        expected = {
            P.MAX: values.max(axis=0),
            P.AVERAGE_COUNT_INCLUDE_PADDING: values.sum(axis=0) / (g.kernel[0] * g.kernel[1]),
            P.AVERAGE_COUNT_EXCLUDE_PADDING: values.mean(axis=0),
            P.L2_NORM: np.sqrt((values**2).sum(axis=0)),
        }[kind]
        np.testing.assert_allclose(y[:, :, oy, ox], expected + bias, rtol=1e-12, atol=1e-12)
        if indices is not None and not cells:
            assert np.all(indices[:, :, oy, ox] == NO_CELL)
        elif indices is not None:
            flat = np.array([row * image[2] + column for row, column in cells])
            np.testing.assert_array_equal(indices[:, :, oy, ox], flat[values.argmax(axis=0)])


@pooling_cases
@pooling_kinds
@pytest.mark.parametrize("f", [IDENTITY, TANH], ids=activation_name)
def test_pooling_gradients(kind: P, image: tuple[int, int, int], g: Geometry, f: Activation) -> None:
    x, bias = distinct((2, *image), 1), generator(42).standard_normal(image[0])
    y, indices = pooling.forward(kind, x, bias, f, g)

    def gradient(name: str, x: Array | None, indices: Any) -> Callable[[Array], Array]:
        return lambda v: pooling.backward(kind, x, indices, y, v, f, g, (2, *image), {name})[name]

    without_input = None if kind != P.L2_NORM else x
    assert_gradient(lambda x: pooling.forward(kind, x, bias, f, g)[0], gradient("dx", x, None), x)
    assert_gradient(lambda x: pooling.forward(kind, x, bias, f, g)[0], gradient("dx", without_input, indices), x)
    assert_gradient(lambda b: pooling.forward(kind, x, b, f, g)[0], gradient("db", without_input, indices), bias)


def test_max_pooling_observed_values() -> None:
    x = np.stack([np.arange(1.0, 17.0), -np.arange(1.0, 17.0)]).reshape(2, 1, 4, 4)
    g = Geometry((2, 2), (2, 2), (1, 1), (0, 0, 0, 0), (2, 2))
    y, indices = pooling.forward(P.MAX, x, None, IDENTITY, g)
    np.testing.assert_array_equal(y.ravel(), [6, 8, 14, 16, -1, -3, -9, -11])
    assert indices is not None
    np.testing.assert_array_equal(indices.ravel(), [5, 7, 13, 15, 0, 2, 8, 10])
    padded = Geometry((2, 2), (2, 2), (1, 1), (1, 1, 1, 1), (2, 2))
    average, _ = pooling.forward(
        P.AVERAGE_COUNT_INCLUDE_PADDING, np.arange(1.0, 5.0).reshape(1, 1, 2, 2), None, IDENTITY, padded
    )
    np.testing.assert_array_equal(average.ravel(), [0.25, 0.5, 0.75, 1.0])


def test_max_pooling_ties_nan_and_minus_infinity() -> None:
    g = Geometry((2, 2), (1, 1), (1, 1), (1, 0, 1, 0), (2, 2))
    tied = pooling.forward(P.MAX, np.full((1, 1, 2, 2), 3.0), None, IDENTITY, g)[1]
    np.testing.assert_array_equal(tied, [[[[0, 0], [0, 0]]]])
    y, indices = pooling.forward(P.MAX, np.array([[[[1.0, np.nan], [9.0, np.nan]]]]), None, IDENTITY, g)
    np.testing.assert_array_equal(y, [[[[1, np.nan], [9, np.nan]]]])
    np.testing.assert_array_equal(indices, [[[[0, 1], [2, 3]]]])  # the last NaN, as in PyTorch
    y, indices = pooling.forward(P.MAX, np.full((1, 1, 2, 2), -np.inf), None, IDENTITY, g)
    np.testing.assert_array_equal(y, np.full((1, 1, 2, 2), -np.inf))
    np.testing.assert_array_equal(indices, [[[[0, 0], [0, 0]]]])


def test_max_pooling_padding_wins() -> None:
    """One row -1, 2, -3 with a padded cell on the left: ignored, or a zero that competes."""
    x = np.array([[[[-1.0, 2.0, -3.0]]]])
    ignored = Geometry((1, 2), (1, 2), (1, 1), (0, 0, 1, 0), (1, 2))
    competing = Geometry((1, 2), (1, 2), (1, 1), (0, 0, 1, 0), (1, 2), padding_wins=True)
    y, indices = pooling.forward(P.MAX, x, None, IDENTITY, ignored)
    np.testing.assert_array_equal(y, [[[[-1, 2]]]])
    np.testing.assert_array_equal(indices, [[[[0, 1]]]])
    y, indices = pooling.forward(P.MAX, x, None, IDENTITY, competing)
    np.testing.assert_array_equal(y, [[[[0, 2]]]])
    np.testing.assert_array_equal(indices, [[[[NO_CELL, 1]]]])
    dy = np.array([[[[5.0, 7.0]]]])
    for given in (indices, None):
        dx = pooling.backward(P.MAX, x, given, None, dy, IDENTITY, competing, (1, 1, 1, 3), {"dx"})["dx"]
        np.testing.assert_array_equal(dx, [[[[0, 7, 0]]]])


def test_l2_norm_of_zeros_has_no_gradient() -> None:
    g = Geometry((2, 2), (2, 2), (1, 1), (0, 0, 0, 0), (1, 1))
    x = np.zeros((1, 1, 2, 2))
    dx = pooling.backward(P.L2_NORM, x, None, None, np.ones((1, 1, 1, 1)), IDENTITY, g, x.shape, {"dx"})["dx"]
    np.testing.assert_array_equal(dx, x)


@pytest.mark.parametrize("f", [IDENTITY, TANH], ids=activation_name)
def test_un_max(f: Activation) -> None:
    rng = generator(43)
    indices = np.stack([rng.choice(20, 6, replace=False) for _ in range(6)]).reshape(2, 3, 2, 3)
    x, bias = rng.standard_normal((2, 3, 2, 3)), rng.standard_normal(3)
    g = Geometry((2, 2), (2, 2), (1, 1), (0, 0, 0, 0), (4, 5))
    y, returned = pooling.forward(P.UN_MAX, x, bias, f, g, indices)
    np.testing.assert_array_equal(returned, indices)
    expected = np.zeros((2, 3, 20))
    for n, c, row, column in np.ndindex(x.shape):
        expected[n, c, indices[n, c, row, column]] = x[n, c, row, column]
    expected = activation.forward(f, expected.reshape(2, 3, 4, 5) + bias[:, np.newaxis, np.newaxis])
    np.testing.assert_array_equal(y, expected)

    def gradient(name: str) -> Callable[[Array], Array]:
        return lambda v: pooling.backward(P.UN_MAX, None, indices, y, v, f, g, (2, 3, 2, 3), {name})[name]

    assert_gradient(lambda x: pooling.forward(P.UN_MAX, x, bias, f, g, indices)[0], gradient("dx"), x)
    assert_gradient(lambda b: pooling.forward(P.UN_MAX, x, b, f, g, indices)[0], gradient("db"), bias)


def test_pooling_errors() -> None:
    g = Geometry((2, 2), (2, 2), (1, 1), (0, 0, 0, 0), (2, 2))
    dy, shape = np.ones((1, 1, 2, 2)), (1, 1, 4, 4)
    for kind, message in [(P.MAX, "input x or the indices"), (P.L2_NORM, "input x"), (P.UN_MAX, "needs indices")]:
        with pytest.raises(ValueError, match=message):
            pooling.backward(kind, None, None, None, dy, IDENTITY, g, shape, {"dx"})
    with pytest.raises(ValueError, match="outside the plane"):
        pooling.forward(P.UN_MAX, dy, None, IDENTITY, g, np.full((1, 1, 2, 2), 4))
    with pytest.raises(ValueError, match="no function 5"):
        pooling.forward(5, np.ones(shape), None, IDENTITY, g)


def test_pooling_of_an_empty_batch() -> None:
    image, window = POOLINGS["overlapping"]
    x = np.zeros((0, *image))
    for kind in KINDS:
        y, indices = pooling.forward(kind, x, None, IDENTITY, window)
        gradients = pooling.backward(kind, x, indices, y, y, IDENTITY, window, (0, *image), {"dx"})
        assert gradients["dx"].shape == x.shape
