"""Fully connected layers and convolutions of the reference engine: definitions and finite differences."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from differences import activation_name, assert_gradient, generator
from openbnns.parameters.activation import IDENTITY, Activation
from openbnns.parameters.activation import ActivationKind as A
from openbnns.parameters.convolution import Geometry
from openbnns.parameters.reduction import ReductionKind
from openbnns.reference import activation, convolution, fully_connected, moves, selection

Array = activation.Array
TANH = Activation(A.TANH)


# ---------------------------------------------------------------------------------------------------------------------
# Fully connected


@pytest.mark.parametrize("f", [IDENTITY, TANH, Activation(A.SOFTMAX), Activation(A.ELU, 0.7)], ids=activation_name)
def test_fully_connected_gradients(f: Activation) -> None:
    rng = generator(10)
    x, w, b = rng.standard_normal((3, 7)), rng.standard_normal((5, 7)), rng.standard_normal(5)
    y = fully_connected.forward(x, w, b, f)

    def gradient(name: str) -> Callable[[Array], Array]:
        return lambda v: fully_connected.backward(x, y, v, w, f, {name})[name]

    assert_gradient(lambda x: fully_connected.forward(x, w, b, f), gradient("dx"), x)
    assert_gradient(lambda w: fully_connected.forward(x, w, b, f), gradient("dw"), w)
    assert_gradient(lambda b: fully_connected.forward(x, w, b, f), gradient("db"), b)


def test_fully_connected_values_and_wanted() -> None:
    w, b = np.arange(1.0, 7.0).reshape(2, 3), np.array([0.5, -1.0])
    np.testing.assert_array_equal(fully_connected.forward(np.ones((1, 3)), w, b, IDENTITY), [[6.5, 14]])
    x, dy, w = np.array([[1.0, 2], [10, 20]]), np.array([[1.0], [2]]), np.array([[3.0, 4]])
    gradients = fully_connected.backward(x, None, dy, w, IDENTITY, {"dx", "dw", "db"})
    np.testing.assert_array_equal(gradients["dx"], [[3, 4], [6, 8]])
    np.testing.assert_array_equal(gradients["dw"], [[21, 42]])
    np.testing.assert_array_equal(gradients["db"], [3])
    assert fully_connected.backward(None, None, dy, w, IDENTITY, set()) == {}
    assert set(fully_connected.backward(None, None, dy, w, IDENTITY, {"dx"})) == {"dx"}
    with pytest.raises(ValueError, match="dw needs the input"):
        fully_connected.backward(None, None, dy, w, IDENTITY, {"dw"})


# ---------------------------------------------------------------------------------------------------------------------
# Convolution


# (input (I, H, W), weights (O, I/groups, KH, KW), geometry)
CONVOLUTIONS = {
    "plain": ((3, 5, 7), (4, 3, 3, 2), Geometry((1, 1), (1, 1), (0, 0, 0, 0), 1, (3, 6))),
    "one by one": ((2, 3, 5), (3, 2, 1, 1), Geometry((1, 1), (1, 1), (0, 0, 0, 0), 1, (3, 5))),
    "stride": ((1, 7, 9), (2, 1, 3, 3), Geometry((2, 3), (1, 1), (1, 1, 0, 0), 1, (4, 3))),
    "dilation": ((2, 9, 8), (3, 2, 3, 2), Geometry((1, 2), (3, 2), (0, 0, 1, 1), 1, (3, 4))),
    "asymmetric padding": ((2, 4, 5), (3, 2, 3, 3), Geometry((1, 1), (1, 1), (2, 0, 0, 1), 1, (4, 4))),
    "padding beyond kernel": ((2, 3, 2), (3, 2, 2, 1), Geometry((1, 2), (1, 1), (3, 4, 5, 2), 1, (9, 5))),
    "nothing but padding": ((1, 2, 2), (1, 1, 2, 2), Geometry((1, 1), (1, 1), (4, 0, 0, 0), 1, (2, 1))),
    "remainder": ((2, 8, 9), (3, 2, 3, 3), Geometry((3, 2), (1, 1), (0, 0, 0, 0), 1, (2, 4))),
    "smaller output": ((2, 8, 9), (3, 2, 3, 3), Geometry((1, 1), (1, 1), (1, 1, 1, 1), 1, (3, 2))),
    "groups": ((4, 5, 5), (6, 2, 3, 3), Geometry((2, 1), (1, 2), (1, 0, 1, 2), 2, (2, 4))),
    "depthwise": ((3, 5, 4), (6, 1, 2, 3), Geometry((1, 1), (1, 1), (0, 1, 1, 1), 3, (5, 4))),
}
SCATTERED = {name: case for name, case in CONVOLUTIONS.items() if case[2].groups == 1}
convolution_cases = pytest.mark.parametrize(("image", "kernel", "g"), CONVOLUTIONS.values(), ids=CONVOLUTIONS)


def meetings(g: Geometry, windows: tuple[int, int], kernel: tuple[int, ...], size: tuple[int, int]) -> Any:
    """(window y, x, tap y, x, cell Y, X) wherever a tap of a window meets a cell of an image of this size."""
    for y, x, ky, kx in itertools.product(*map(range, (*windows, *kernel[2:]))):
        row = g.stride[0] * y + g.dilation[0] * ky - g.padding[0]
        column = g.stride[1] * x + g.dilation[1] * kx - g.padding[2]
        if 0 <= row < size[0] and 0 <= column < size[1]:
            yield y, x, ky, kx, row, column


@convolution_cases
def test_convolution_by_definition(image: tuple[int, int, int], kernel: tuple[int, int, int, int], g: Geometry) -> None:
    rng = generator(20)
    x, w, b = rng.standard_normal((2, *image)), rng.standard_normal(kernel), rng.standard_normal(kernel[0])
    expected = np.zeros((2, kernel[0], *g.out_size)) + b[:, np.newaxis, np.newaxis]
    per_group = kernel[0] // g.groups
    for o, i in np.ndindex(kernel[:2]):
        channel = o // per_group * kernel[1] + i
        for oy, ox, ky, kx, row, column in meetings(g, g.out_size, kernel, image[1:]):
            expected[:, o, oy, ox] += w[o, i, ky, kx] * x[:, channel, row, column]
    np.testing.assert_allclose(convolution.forward(x, w, b, IDENTITY, g), expected, rtol=1e-12, atol=1e-12)


@convolution_cases
@pytest.mark.parametrize("f", [IDENTITY, TANH], ids=activation_name)
def test_convolution_gradients(
    image: tuple[int, int, int], kernel: tuple[int, int, int, int], g: Geometry, f: Activation
) -> None:
    rng = generator(21)
    x, w, b = rng.standard_normal((3, *image)), 0.3 * rng.standard_normal(kernel), rng.standard_normal(kernel[0])
    y = convolution.forward(x, w, b, f, g)

    def gradient(name: str) -> Callable[[Array], Array]:
        return lambda v: convolution.backward(x, y, v, w, f, g, {name}, image[1:])[name]

    assert_gradient(lambda x: convolution.forward(x, w, b, f, g), gradient("dx"), x)
    assert_gradient(lambda w: convolution.forward(x, w, b, f, g), gradient("dw"), w)
    assert_gradient(lambda b: convolution.forward(x, w, b, f, g), gradient("db"), b)


def transposed_case(case: tuple[Any, Any, Geometry]) -> tuple[Any, Any, Geometry]:
    """The convolution with its images exchanged: input (O, *windows), weights in the form v, output (I, H, W)."""
    image, kernel, g = case
    exchanged = Geometry(g.stride, g.dilation, g.padding, 1, image[1:])
    return (kernel[0], *g.out_size), kernel, exchanged


transposed_cases = pytest.mark.parametrize(
    ("image", "kernel", "g"), [transposed_case(case) for case in SCATTERED.values()], ids=SCATTERED
)


@transposed_cases
def test_transposed_convolution_by_definition(
    image: tuple[int, int, int], kernel: tuple[int, int, int, int], g: Geometry
) -> None:
    rng = generator(22)
    x, v, b = rng.standard_normal((2, *image)), rng.standard_normal(kernel), rng.standard_normal(kernel[1])
    expected = np.zeros((2, kernel[1], *g.out_size)) + b[:, np.newaxis, np.newaxis]
    for i, o in np.ndindex(kernel[:2]):
        for iy, ix, ky, kx, row, column in meetings(g, image[1:], kernel, g.out_size):
            expected[:, o, row, column] += v[i, o, ky, kx] * x[:, i, iy, ix]
    np.testing.assert_allclose(convolution.transposed_forward(x, v, b, IDENTITY, g), expected, rtol=1e-12, atol=1e-12)


@transposed_cases
@pytest.mark.parametrize("f", [IDENTITY, Activation(A.SOFTMAX)], ids=activation_name)
def test_transposed_convolution_gradients(
    image: tuple[int, int, int], kernel: tuple[int, int, int, int], g: Geometry, f: Activation
) -> None:
    rng = generator(23)
    x, v, b = rng.standard_normal((3, *image)), rng.standard_normal(kernel), rng.standard_normal(kernel[1])
    y = convolution.transposed_forward(x, v, b, f, g)

    def gradient(name: str) -> Callable[[Array], Array]:
        return lambda dy: convolution.transposed_backward(x, y, dy, v, f, g, {name}, image[1:])[name]

    assert_gradient(lambda x: convolution.transposed_forward(x, v, b, f, g), gradient("dx"), x)
    assert_gradient(lambda v: convolution.transposed_forward(x, v, b, f, g), gradient("dw"), v)
    assert_gradient(lambda b: convolution.transposed_forward(x, v, b, f, g), gradient("db"), b)


def test_convolution_fused_softmax_runs_along_the_last_axis() -> None:
    image, kernel, g = CONVOLUTIONS["plain"]
    rng = generator(24)
    x, w = rng.standard_normal((2, *image)), rng.standard_normal(kernel)
    y = convolution.forward(x, w, None, Activation(A.SOFTMAX), g)
    np.testing.assert_allclose(y.sum(axis=-1), 1.0)


def test_convolution_wanted_and_missing_input() -> None:
    image, kernel, g = CONVOLUTIONS["plain"]
    w, dy = np.ones(kernel), np.ones((2, kernel[0], *g.out_size))
    assert set(convolution.backward(None, None, dy, w, IDENTITY, g, {"dx", "db"}, image[1:])) == {"dx", "db"}
    with pytest.raises(ValueError, match="dw needs the input"):
        convolution.backward(None, None, dy, w, IDENTITY, g, {"dw"}, image[1:])
    grouped = Geometry((1, 1), (1, 1), (0, 0, 0, 0), 2, (3, 6))
    with pytest.raises(ValueError, match="no groups"):
        convolution.transposed_forward(dy, w, None, IDENTITY, grouped)


def test_empty_batches() -> None:
    gradients = fully_connected.backward(
        np.zeros((0, 3)), None, np.zeros((0, 2)), np.ones((2, 3)), IDENTITY, {"dx", "dw"}
    )
    assert gradients["dx"].shape == (0, 3)
    np.testing.assert_array_equal(gradients["dw"], np.zeros((2, 3)))
    image, kernel, g = CONVOLUTIONS["groups"]
    x, w = np.zeros((0, *image)), np.ones(kernel)
    y = convolution.forward(x, w, None, IDENTITY, g)
    gradients = convolution.backward(x, y, y, w, IDENTITY, g, {"dx", "dw"}, image[1:])
    assert gradients["dx"].shape == x.shape
    np.testing.assert_array_equal(gradients["dw"], np.zeros(kernel))


# ---------------------------------------------------------------------------------------------------------------------
# Numbers that are not finite


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 1e308])
def test_numbers_that_are_not_finite_raise_no_warning(bad: float) -> None:
    """NumPy would warn of inf - inf and of overflows; the results are what they are, as they are on the native engine."""
    image, kernel, bias = np.ones((1, 2, 3, 3)), np.ones((2, 2, 2, 2)), np.array([-bad, 0.0])
    image[0, :, 1, 1], kernel[0, 0, 1, 1] = (bad, -bad), -bad
    g, back = (Geometry((1, 1), (1, 1), (0, 0, 0, 0), 1, out_size) for out_size in ((2, 2), (4, 4)))
    y = convolution.forward(image, kernel, bias, IDENTITY, g)
    gradients = convolution.backward(image, y, y, kernel, IDENTITY, g, {"dx", "dw", "db"}, (3, 3))
    z = convolution.transposed_forward(image, kernel, bias, IDENTITY, back)
    others = convolution.transposed_backward(image, z, z, kernel, IDENTITY, back, {"dx", "dw", "db"}, (3, 3))
    x, w = image.reshape(2, 9), np.vstack([image[0].ravel()[:9], np.full(9, -bad)])
    flat = fully_connected.backward(
        x, None, fully_connected.forward(x, w, bias, IDENTITY), w, IDENTITY, {"dx", "dw", "db"}
    )
    for results in (gradients, others, flat):
        assert results.keys() == {"dx", "dw", "db"}
        assert not np.isfinite(results["dw"]).all()


def test_sums_over_copies_of_numbers_that_are_not_finite() -> None:
    assert np.isnan(moves.tile_backward(np.array([np.inf, 1.0, -np.inf, 2.0]), (2,))).tolist() == [True, False]
    total = selection.scatter(ReductionKind.SUM, np.array([np.inf, -np.inf]), np.array([1, 1]), np.zeros(2), 0)
    assert np.isnan(total).tolist() == [False, True]
