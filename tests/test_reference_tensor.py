"""The reference engine's functions of whole tensors: against plain loops, finite differences and their own adjoints.

Linear functions are tested as adjoint pairs, <v, f(u)> = <backward(v), u>, which is exact; the others against central
differences along random directions. Ties, edges and special values are tested by definition.
"""

import itertools
import math
import statistics
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openbnns.engines.reference import (
    crop_resize,
    nearest_neighbors,
    padding,
    permute,
    random_numbers,
    reduction,
    resize,
    tensor,
)
from openbnns.engines.reference.crop_resize import Box, Sampling, Settings
from openbnns.engines.reference.padding import Mode
from openbnns.engines.reference.random_numbers import Stream
from openbnns.engines.reference.reduction import Function as R
from openbnns.engines.reference.resize import Method
from openbnns.engines.reference.tensor import Operator, Shuffle

Array = npt.NDArray[np.float64]


def generator(*seed: int) -> np.random.Generator:
    return np.random.default_rng([2025, *seed])


def assert_adjoint(function: Callable[[Array], Array], adjoint: Callable[[Array], Array], shape: Any) -> None:
    """<v, f(u)> == <adjoint(v), u> for a linear f."""
    rng = generator(1)
    u = rng.standard_normal(shape)
    y = function(u)
    v = rng.standard_normal(y.shape)
    result = adjoint(v)
    assert result.shape == u.shape
    assert np.vdot(result, u) == pytest.approx(np.vdot(v, y), rel=1e-12, abs=1e-12)


def assert_gradient(function: Callable[[Array], Array], gradient: Callable[[Array], Array], point: Array) -> None:
    """<v, f(x + hu) - f(x - hu)> / 2h == <gradient(v), u> for random v and u."""
    rng, h = generator(2), 1e-5
    for _ in range(3):
        u = rng.standard_normal(point.shape)
        difference = (function(point + h * u) - function(point - h * u)) / (2 * h)
        v = rng.standard_normal(difference.shape)
        result = gradient(v)
        assert result.shape == point.shape
        assert np.vdot(result, u) == pytest.approx(np.vdot(v, difference), rel=1e-6, abs=1e-8 * (1 + point.size))


# ---------------------------------------------------------------------------------------------------------------------
# Permute


@pytest.mark.parametrize("permutation", list(itertools.permutations(range(3))))
def test_permute(permutation: tuple[int, ...]) -> None:
    x = generator(3).standard_normal((2, 3, 5))
    y = permute.forward(x, permutation)
    assert y.shape == tuple(x.shape[axis] for axis in permutation)
    for index in np.ndindex(y.shape):
        source = [0, 0, 0]
        for k, axis in enumerate(permutation):
            source[axis] = index[k]
        assert y[index] == x[tuple(source)]
    np.testing.assert_array_equal(permute.backward(y, permutation), x)
    assert_adjoint(lambda x: permute.forward(x, permutation), lambda v: permute.backward(v, permutation), x.shape)


def test_permute_measured_and_empty() -> None:
    np.testing.assert_array_equal(permute.forward(np.arange(1.0, 7).reshape(2, 3), (1, 0)).ravel(), [1, 4, 2, 5, 3, 6])
    np.testing.assert_array_equal(permute.backward(np.arange(1.0, 7).reshape(3, 2), (1, 0)).ravel(), [1, 3, 5, 2, 4, 6])
    assert permute.forward(np.zeros((0, 3, 2)), (0, 2, 1)).shape == (0, 2, 3)
    for wrong in [(0, 0, 1), (0, 1), (0, 1, 3)]:
        with pytest.raises(ValueError, match="is not a permutation of the 3 axes"):
            permute.forward(np.zeros((2, 3, 4)), wrong)


# ---------------------------------------------------------------------------------------------------------------------
# Padding


def padded_element(mode: Mode, x: Array, index: list[int], value: float) -> float:
    """Element of the padded tensor at `index`, counted from the first element of x."""
    for axis, i in enumerate(index):
        n = x.shape[axis]
        if mode == Mode.CONSTANT and not 0 <= i < n:
            return value
        if mode == Mode.REFLECT:
            i = -i if i < 0 else 2 * (n - 1) - i if i >= n else i
        elif mode == Mode.SYMMETRIC:
            i = -1 - i if i < 0 else 2 * n - 1 - i if i >= n else i
        index[axis] = i
    return float(x[tuple(index)])


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("widths", [((0, 0), (2, 1), (0, 3)), ((0, 0), (0, 0), (0, 0)), ((1, 1), (2, 2), (3, 0))])
def test_padding(mode: Mode, widths: tuple[tuple[int, int], ...]) -> None:
    x = generator(4).standard_normal((2, 3, 4))
    y = padding.forward(mode, x, widths, 7.5)
    assert y.shape == tuple(n + before + after for n, (before, after) in zip(x.shape, widths, strict=True))
    for index in np.ndindex(y.shape):
        inside = [i - before for i, (before, _) in zip(index, widths, strict=True)]
        assert y[index] == padded_element(mode, x, inside, 7.5)
    assert_adjoint(lambda x: padding.forward(mode, x, widths), lambda v: padding.backward(mode, v, widths), x.shape)


def test_padding_examples() -> None:
    x = np.array([[1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(padding.forward(0, x, [(0, 0), (1, 2)], 7.0), [[7, 1, 2, 3, 7, 7]])
    np.testing.assert_array_equal(padding.forward(1, x, [(0, 0), (2, 2)]), [[3, 2, 1, 2, 3, 2, 1]])
    np.testing.assert_array_equal(padding.forward(2, x, [(0, 0), (3, 2)]), [[3, 2, 1, 1, 2, 3, 3, 2]])
    assert np.isnan(padding.forward(0, x, [(0, 0), (1, 0)], math.nan)[0, 0])
    for mode in Mode:
        assert padding.forward(mode, np.zeros((0, 3)), [(0, 0), (1, 2)]).shape == (0, 6)
        assert padding.backward(mode, np.zeros((0, 6)), [(0, 0), (1, 2)]).shape == (0, 3)


def test_padding_errors() -> None:
    x = np.zeros((2, 3))
    with pytest.raises(ValueError, match="REFLECT pads axis 1 by 3, but it has only 3 elements; at most 2"):
        padding.forward(Mode.REFLECT, x, [(0, 0), (3, 0)])
    with pytest.raises(ValueError, match="SYMMETRIC pads axis 1 by 4, but it has only 3 elements; at most 3"):
        padding.forward(Mode.SYMMETRIC, x, [(0, 0), (0, 4)])
    with pytest.raises(ValueError, match=r"cannot be padded by \(-1, 0\)"):
        padding.forward(Mode.CONSTANT, x, [(0, 0), (-1, 0)])
    with pytest.raises(ValueError, match="1 pairs of widths for 2 axes"):
        padding.forward(Mode.CONSTANT, x, [(0, 0)])
    with pytest.raises(ValueError, match="no mode 3"):
        padding.forward(3, x, [(0, 0), (0, 0)])


# ---------------------------------------------------------------------------------------------------------------------
# Resize

LINEAR_FORMS = [(False, False), (True, False), (False, True)]  # (align_corners, asymmetric)


def sampled_line(x: Array, n: int, align_corners: bool, asymmetric: bool) -> list[float]:
    """Linear resampling of a vector, one output at a time."""
    m, line = len(x), []
    for i in range(n):
        if align_corners:
            position = 0.0 if n == 1 else i * (m - 1) / (n - 1)
        else:
            position = i * m / n if asymmetric else (i + 0.5) * m / n - 0.5
        position = min(max(position, 0.0), m - 1.0)
        low = int(position)
        high = low + 1 if low + 1 < m else low
        line.append(float(x[low] + (position - low) * (x[high] - x[low])))
    return line


@pytest.mark.parametrize(("align_corners", "asymmetric"), LINEAR_FORMS)
@pytest.mark.parametrize(("m", "n"), [(2, 4), (3, 7), (5, 2), (6, 3), (1, 4), (4, 1), (7, 113), (3, 3)])
def test_linear_resize_of_a_line(m: int, n: int, align_corners: bool, asymmetric: bool) -> None:
    x = generator(5).standard_normal((2, m))
    y = resize.forward(Method.LINEAR, x, (2, n), align_corners, asymmetric)
    expected = [sampled_line(row, n, align_corners, asymmetric) if m != n else row for row in x]
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize(("align_corners", "asymmetric"), LINEAR_FORMS)
@pytest.mark.parametrize("out_shape", [(2, 3, 10, 8), (2, 3, 5, 9), (2, 3, 2, 2), (2, 6, 10, 8), (2, 3, 1, 1)])
def test_resize_is_adjoint(method: Method, align_corners: bool, asymmetric: bool, out_shape: tuple[int, ...]) -> None:
    shape = (2, 3, 5, 4)
    assert_adjoint(
        lambda x: resize.forward(method, x, out_shape, align_corners, asymmetric),
        lambda v: resize.backward(method, v, shape, align_corners, asymmetric),
        shape,
    )


def test_resize_of_planes_is_rows_then_columns() -> None:
    x = generator(6).standard_normal((1, 1, 3, 4))
    y = resize.forward(Method.LINEAR, x, (1, 1, 6, 7))[0, 0]
    columns = np.array([sampled_line(column, 6, False, False) for column in x[0, 0].T]).T
    np.testing.assert_allclose(y, [sampled_line(row, 7, False, False) for row in columns], atol=1e-14)


def test_nearest_resize() -> None:
    x = np.array([[[[1.0, 2.0], [3.0, 4.0]]]])
    doubled = resize.forward(Method.NEAREST, x, (1, 1, 4, 4))
    np.testing.assert_array_equal(doubled.ravel(), [1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4])
    for m, n in [(3, 7), (7, 3), (5, 1), (1, 5), (49, 10)]:
        line = np.arange(float(m))[np.newaxis]
        np.testing.assert_array_equal(resize.forward(Method.NEAREST, line, (1, n))[0], [i * m // n for i in range(n)])
    infinite = np.array([[np.inf, 1.0]])
    np.testing.assert_array_equal(resize.forward(Method.NEAREST, infinite, (1, 4)), [[np.inf, np.inf, 1, 1]])
    np.testing.assert_array_equal(resize.backward(Method.NEAREST, infinite.repeat(2, 1), (1, 2)), [[np.inf, 2]])


def test_linear_resize_keeps_constants_and_corners() -> None:
    for form in LINEAR_FORMS:
        np.testing.assert_allclose(resize.forward(Method.LINEAR, np.full((1, 5), 3.0), (1, 13), *form), 3.0)
    x = generator(7).standard_normal((1, 5))
    y = resize.forward(Method.LINEAR, x, (1, 9), align_corners=True)
    np.testing.assert_array_equal(y[:, ::2], x)


def test_resize_errors_and_empty_batch() -> None:
    assert resize.forward(Method.LINEAR, np.zeros((0, 3, 4)), (0, 6, 8)).shape == (0, 6, 8)
    assert resize.backward(Method.LINEAR, np.zeros((0, 6, 8)), (0, 3, 4)).shape == (0, 3, 4)
    with pytest.raises(ValueError, match="no method 2"):
        resize.forward(2, np.zeros((1, 2)), (1, 4))
    with pytest.raises(ValueError, match="must have one rank"):
        resize.forward(0, np.zeros((1, 2)), (1, 4, 4))
    with pytest.raises(ValueError, match="axis 1 cannot go from size 2 to size 0"):
        resize.forward(0, np.zeros((1, 2)), (1, 0))


# ---------------------------------------------------------------------------------------------------------------------
# Reduction

EPSILON = 0.1
AXES = [(1,), (2,), (-1,), (1, 2), (3, 1), (1, 2, 3), (0, 1, 2, 3), ()]

# The value of a row of numbers x with weights w, as one would write it.
PLAIN: dict[R, Callable[[list[float], list[float]], float]] = {
    R.MAX: lambda x, w: max(x),
    R.MIN: lambda x, w: min(x),
    R.ARG_MAX: lambda x, w: x.index(max(x)),
    R.ARG_MIN: lambda x, w: x.index(min(x)),
    R.MEAN: lambda x, w: sum(b * a for a, b in zip(x, w, strict=True)) / len(x),
    R.MEAN_NON_ZERO: lambda x, w: sum(b * a for a, b in zip(x, w, strict=True)) / sum(b != 0 for b in w),
    R.SUM: lambda x, w: sum(b * a for a, b in zip(x, w, strict=True)),
    R.SUM_SQUARE: lambda x, w: sum(b * a * a for a, b in zip(x, w, strict=True)),
    R.SUM_LOG: lambda x, w: sum(b * math.log(a + EPSILON) for a, b in zip(x, w, strict=True)),
    R.L1_NORM: lambda x, w: sum(b * abs(a) for a, b in zip(x, w, strict=True)),
    R.LOGICAL_OR: lambda x, w: any(x),
    R.LOGICAL_AND: lambda x, w: all(x),
    R.L2_NORM: lambda x, w: math.sqrt(sum(b * a * a for a, b in zip(x, w, strict=True))),
    R.LOG_SUM_EXP: lambda x, w: math.log(sum(b * math.exp(a) for a, b in zip(x, w, strict=True))),
    R.PRODUCT: lambda x, w: math.prod(x),
    R.LOG_SUM: lambda x, w: math.log(sum(b * a for a, b in zip(x, w, strict=True))),
}
POSITIVE = {R.SUM_LOG, R.LOG_SUM}


def reduction_name(value: Any) -> str | None:
    return value.name.lower() if isinstance(value, R) else None


def reduction_input(function: R) -> Array:
    x = generator(8, function).uniform(0.2, 2.0, (2, 3, 4, 5))
    if function in POSITIVE:
        return x
    return np.asarray(x * generator(9, function).choice([-1.0, 1.0], x.shape))


def rows_of(x: Array, axes: tuple[int, ...]) -> dict[tuple[int, ...], list[float]]:
    """The elements that are reduced together, in C order, by the index of their result."""
    axes = tuple(axis % x.ndim for axis in axes)
    rows: dict[tuple[int, ...], list[float]] = {}
    for index in np.ndindex(x.shape):
        kept = tuple(0 if axis in axes else i for axis, i in enumerate(index))
        rows.setdefault(kept, []).append(float(x[index]))
    return rows


def test_every_reduction_is_tested() -> None:
    assert set(PLAIN) == set(R) - {R.NONE}
    assert {R.ARG_MAX, R.ARG_MIN, R.LOGICAL_OR, R.LOGICAL_AND} == set(PLAIN) - reduction.DIFFERENTIABLE
    assert reduction.DIFFERENTIABLE - {R.MAX, R.MIN, R.PRODUCT} == reduction.WEIGHTED
    assert [R(10).name, R["ANY"].name, R["ALL"].name] == ["LOGICAL_OR", "LOGICAL_OR", "LOGICAL_AND"]


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("function", PLAIN, ids=reduction_name)
def test_reduction_by_definition(function: R, axes: tuple[int, ...]) -> None:
    x = np.abs(reduction_input(function)) if function in POSITIVE | {R.LOG_SUM} else reduction_input(function)
    if function in (R.LOGICAL_OR, R.LOGICAL_AND):
        x = np.where(generator(10).random(x.shape) < 0.3 + 0.5 * (function == R.LOGICAL_AND), x, 0.0)
    ones = {index: [1.0] * len(row) for index, row in rows_of(x, axes).items()}
    check_reduction(function, x, axes, ones, reduction.forward(function, x, axes, epsilon=EPSILON))
    if function in reduction.WEIGHTED:
        weights = generator(11).uniform(0.5, 2.0, (1, *x.shape[1:]))
        rows = rows_of(np.broadcast_to(weights, x.shape), axes)
        check_reduction(function, x, axes, rows, reduction.forward(function, x, axes, weights, EPSILON))


def check_reduction(function: R, x: Array, axes: tuple[int, ...], weights: dict[Any, list[float]], y: Array) -> None:
    rows = rows_of(x, axes)
    assert y.size == len(rows)
    for index, row in rows.items():
        assert y[index] == pytest.approx(float(PLAIN[function](row, weights[index])), rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("function", sorted(reduction.DIFFERENTIABLE), ids=reduction_name)
def test_reduction_gradients(function: R, axes: tuple[int, ...]) -> None:
    function = R(function)
    x = reduction_input(function)
    assert_gradient(
        lambda x: reduction.forward(function, x, axes, None, EPSILON),
        lambda v: reduction.backward(function, x, v, axes, {"dx"}, None, EPSILON)["dx"],
        x,
    )
    if function not in reduction.WEIGHTED:
        return
    for shape in [(1, *x.shape[1:]), x.shape]:
        w = generator(12).uniform(0.5, 2.0, shape)
        assert_gradient(
            lambda x, w=w: reduction.forward(function, x, axes, w, EPSILON),  # type: ignore[misc]
            lambda v, w=w: reduction.backward(function, x, v, axes, {"dx"}, w, EPSILON)["dx"],  # type: ignore[misc]
            x,
        )
        assert_gradient(
            lambda w: reduction.forward(function, x, axes, w, EPSILON),
            lambda v, w=w: reduction.backward(function, x, v, axes, {"dw"}, w, EPSILON)["dw"],  # type: ignore[misc]
            w,
        )


def test_reduction_returns_what_is_wanted() -> None:
    x, w, dy = np.ones((2, 3)), np.ones((1, 3)), np.ones((2, 1))
    for wanted in ({"dx"}, {"dw"}, {"dx", "dw"}, set()):
        assert set(reduction.backward(R.SUM, x, dy, (1,), wanted, w)) == wanted


def test_first_extreme_takes_the_gradient() -> None:
    x = np.array([[3.0, 7.0, 7.0, 3.0], [0.0, -0.0, 0.0, -0.0]])
    dy = np.array([[2.0], [5.0]])
    np.testing.assert_array_equal(reduction.forward(R.ARG_MAX, x, (1,)), [[1], [0]])
    np.testing.assert_array_equal(reduction.forward(R.ARG_MIN, x, (1,)), [[0], [0]])
    largest = reduction.backward(R.MAX, x, dy, (1,), {"dx"})["dx"]
    smallest = reduction.backward(R.MIN, x, dy, (1,), {"dx"})["dx"]
    np.testing.assert_array_equal(largest, [[0, 2, 0, 0], [5, 0, 0, 0]])
    np.testing.assert_array_equal(smallest, [[2, 0, 0, 0], [5, 0, 0, 0]])


def test_position_over_several_axes() -> None:
    x = np.zeros((1, 2, 3, 4))
    x[0, 1, 2, 3] = 1.0
    assert reduction.forward(R.ARG_MAX, x, (1, 2, 3)).item() == 23
    assert reduction.forward(R.ARG_MAX, x, (3, 1), last_axis=False)[0, 0, 2, 0] == 7
    assert reduction.forward(R.ARG_MAX, x, (1, 2, 3), last_axis=True).item() == 3
    assert reduction.forward(R.ARG_MAX, x, (1, 2), last_axis=True)[0, 0, 0, 3] == 2
    assert reduction.forward(R.ARG_MAX, x.reshape(1, 6, 4, 1), (1, 2, 3), last_axis=True).item() == 3
    assert reduction.forward(R.ARG_MAX, np.ones((1, 1)), (1,), last_axis=True).item() == 0
    np.testing.assert_array_equal(reduction.forward(R.MAX, x, (1, 2, 3), last_axis=True), [[[[1]]]])


def test_measured_reductions() -> None:
    np.testing.assert_array_equal(reduction.forward(R.SUM, np.array([[1.0, 2, 3, 4]]), (1,)), [[10]])
    x = np.array([[[[1.0, 9, 2], [4, 3, 8]]]])
    np.testing.assert_array_equal(reduction.forward(R.MAX, x, (3,)).ravel(), [9, 8])


def test_mean_over_nonzero_weights() -> None:
    x, dy = np.array([[1.0, np.inf, 5.0], [1.0, 2.0, 3.0]]), np.array([[3.0], [3.0]])
    w = np.array([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(reduction.forward(R.MEAN_NON_ZERO, x, (1,), w), [[3.5], [0]])
    gradients = reduction.backward(R.MEAN_NON_ZERO, x, dy, (1,), {"dx", "dw"}, w)
    np.testing.assert_array_equal(gradients["dx"], [[3, 0, 1.5], [0, 0, 0]])
    np.testing.assert_array_equal(gradients["dw"], [[1.5, 0, 7.5], [0, 0, 0]])


def test_reductions_at_kinks_and_zeros() -> None:
    x, dy = np.array([[0.0, 0.0], [0.0, 3.0]]), np.array([[2.0], [2.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        norm = reduction.backward(R.L2_NORM, x, dy, (1,), {"dx", "dw"}, np.ones((2, 2)))
        np.testing.assert_array_equal(norm["dx"], [[0, 0], [0, 2]])
        np.testing.assert_array_equal(norm["dw"], [[0, 0], [0, 3]])
        np.testing.assert_array_equal(reduction.backward(R.L1_NORM, x, dy, (1,), {"dx"})["dx"], [[0, 0], [0, 2]])
        np.testing.assert_array_equal(reduction.backward(R.PRODUCT, x, dy, (1,), {"dx"})["dx"], [[0, 0], [6, 0]])
        assert reduction.forward(R.SUM_LOG, x, (1,))[1, 0] == -np.inf


def test_special_values_in_reductions() -> None:
    x = np.array([[1000.0, 1001.0], [-np.inf, -np.inf], [-np.inf, 2.0], [np.inf, 1.0], [np.nan, 1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = reduction.forward(R.LOG_SUM_EXP, x, (1,))[:, 0]
        np.testing.assert_allclose(y[:4], [1000 + math.log(1 + math.e), -np.inf, 2.0, np.inf])
        for function in (R.LOG_SUM_EXP, R.MAX, R.MIN, R.SUM, R.L2_NORM, R.PRODUCT, R.MEAN):
            assert np.isnan(reduction.forward(function, x, (1,))[4, 0])
        np.testing.assert_array_equal(reduction.forward(R.ARG_MIN, x[:, ::-1], (1,))[4, 0], 1)
        assert reduction.forward(R.LOGICAL_AND, x, (1,))[4, 0] == 1


def test_empty_batch_of_reductions() -> None:
    for function in PLAIN:
        assert reduction.forward(function, np.zeros((0, 3, 2)), (1,)).shape == (0, 1, 2)
    for number in reduction.DIFFERENTIABLE:
        gradients = reduction.backward(number, np.zeros((0, 3, 2)), np.zeros((0, 1, 2)), (1,), {"dx"})
        assert gradients["dx"].shape == (0, 3, 2)


def test_reduction_errors() -> None:
    x, dy = np.ones((2, 3)), np.ones((2, 1))
    with pytest.raises(ValueError, match="function 15 does not reduce"):
        reduction.forward(R.NONE, x, (1,))
    with pytest.raises(ValueError, match="PRODUCT has no summands to weigh"):
        reduction.forward(R.PRODUCT, x, (1,), x)
    with pytest.raises(ValueError, match="ARG_MAX has no gradient"):
        reduction.backward(R.ARG_MAX, x, dy, (1,), {"dx"})
    with pytest.raises(ValueError, match="no gradient of weights that were not given"):
        reduction.backward(R.SUM, x, dy, (1,), {"dw"})
    for axes in [(2,), (1, 1), (1, -1)]:
        with pytest.raises(ValueError, match="are not distinct axes of an array of rank 2"):
            reduction.forward(R.SUM, x, axes)


# ---------------------------------------------------------------------------------------------------------------------
# Transpose, tile, band part, compare


def test_transpose() -> None:
    x = generator(13).standard_normal((2, 3, 4))
    y = tensor.transpose(x, 0, 2)
    np.testing.assert_array_equal(y, x.transpose(2, 1, 0))
    np.testing.assert_array_equal(tensor.transpose(y, 0, 2), x)
    assert y.flags.c_contiguous


def test_tile() -> None:
    x = generator(14).standard_normal((2, 1, 3))
    out_shape = (4, 3, 3)
    y = tensor.tile(x, out_shape)
    for index in np.ndindex(out_shape):
        assert y[index] == x[tuple(i % n for i, n in zip(index, x.shape, strict=True))]
    assert_adjoint(lambda x: tensor.tile(x, out_shape), lambda v: tensor.tile_backward(v, x.shape), x.shape)
    dx = tensor.tile_backward(np.array([[1.0, 2, 3], [10, 20, 30]]), (1, 3))
    np.testing.assert_array_equal(dx, [[11, 22, 33]])


def test_tile_with_reversed_axes_as_measured() -> None:
    x = np.array([1.0, 2.0, 3.0])
    y = tensor.tile(x.reshape(1, 3), (2, 3), reversed_axes=True)
    assert y.shape == (2, 3)
    np.testing.assert_array_equal(y.ravel(), [1, 1, 2, 2, 3, 3])
    y = tensor.tile(x.reshape(3, 1), (3, 2), reversed_axes=True)
    np.testing.assert_array_equal(y.ravel(), [1, 2, 3, 1, 2, 3])


@pytest.mark.parametrize("out_shape", [(2, 5), (4,), (4, 3, 3), (3, 3)])
def test_tile_refuses(out_shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="is not a multiple of"):
        tensor.tile(np.zeros((2, 3)), out_shape)


@pytest.mark.parametrize(("lower", "upper"), list(itertools.product([-1, 0, 1, 9], repeat=2)))
def test_band_part(lower: int, upper: int) -> None:
    x = generator(15).standard_normal((2, 4, 5))
    y = tensor.band_part(x, lower, upper)
    for n, i, j in np.ndindex(x.shape):
        keep = (lower < 0 or i - j <= lower) and (upper < 0 or j - i <= upper)
        assert y[n, i, j] == (x[n, i, j] if keep else 0.0)


COMPARISONS: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQUAL: lambda a, b: a == b,
    Operator.LESS: lambda a, b: a < b,
    Operator.LESS_EQUAL: lambda a, b: a <= b,
    Operator.GREATER: lambda a, b: a > b,
    Operator.GREATER_EQUAL: lambda a, b: a >= b,
    Operator.NOT_EQUAL: lambda a, b: a != b,
    Operator.LOGICAL_AND: lambda a, b: bool(a) and bool(b),
    Operator.LOGICAL_OR: lambda a, b: bool(a) or bool(b),
    Operator.LOGICAL_NOT: lambda a, b: not a,
    Operator.LOGICAL_NAND: lambda a, b: not (a and b),
    Operator.LOGICAL_NOR: lambda a, b: not (a or b),
    Operator.LOGICAL_XOR: lambda a, b: bool(a) != bool(b),
}


@pytest.mark.parametrize("operator", list(Operator))
def test_compare(operator: Operator) -> None:
    values = [0.0, -0.0, 1.0, 2.5, -3.0, math.inf, math.nan]
    a, b = (np.array(column) for column in zip(*itertools.product(values, repeat=2), strict=True))
    result = tensor.compare(operator, a, b)
    assert result.dtype == np.bool_
    np.testing.assert_array_equal(result, [COMPARISONS[operator](p, q) for p, q in zip(a, b, strict=True)])
    flags = np.array([True, True, False, False])
    expected = [COMPARISONS[operator](p, q) for p, q in zip(flags, flags[::2].repeat(2), strict=True)]
    np.testing.assert_array_equal(tensor.compare(operator, flags, flags[::2].repeat(2)), expected)


def test_compare_errors() -> None:
    np.testing.assert_array_equal(tensor.compare(Operator.LOGICAL_NOT, np.array([0.0, 2.0])), [True, False])
    with pytest.raises(ValueError, match="no operator 12"):
        tensor.compare(12, np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match="must have one shape"):
        tensor.compare(Operator.LESS, np.zeros(2), np.zeros((2, 1)))
    with pytest.raises(ValueError, match=r"must have one shape; got \(2,\) and None"):
        tensor.compare(Operator.LESS, np.zeros(2))


# ---------------------------------------------------------------------------------------------------------------------
# Top-k


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_top_k(axis: int, k: int) -> None:
    x = generator(16).integers(0, 4, (3, 5, 4)).astype(np.float64)  # many ties
    values, indices = tensor.top_k(x, k, axis)
    lines, best, at = (np.moveaxis(array, axis, -1) for array in (x, values, indices))
    for place in np.ndindex(lines.shape[:-1]):
        line = lines[place].tolist()
        expected = sorted(range(len(line)), key=lambda i, line=line: (-line[i], i))[:k]  # type: ignore[misc]
        assert at[place].tolist() == expected
        assert best[place].tolist() == [line[i] for i in expected]
    for index in range(x.shape[axis]):
        chosen = np.full(lines.shape[:-1], index)
        result = tensor.in_top_k(x, chosen, k, axis)
        threshold = np.sort(lines, axis=-1)[..., -k]
        np.testing.assert_array_equal(result, lines[..., index] >= threshold)


def test_top_k_special_values() -> None:
    x = np.array([1.0, np.nan, np.inf, -np.inf, np.nan, 1.0])
    values, indices = tensor.top_k(x, 6, 0)
    np.testing.assert_array_equal(indices, [1, 4, 2, 0, 5, 3])
    np.testing.assert_array_equal(values, x[indices])
    assert [bool(tensor.in_top_k(x, np.array(i), 3, 0)) for i in range(6)] == [False, True, True, False, True, False]
    for k in (0, 7):
        with pytest.raises(ValueError, match=f"K is {k}, but axis 0 has 6 elements"):
            tensor.top_k(x, k, 0)
    with pytest.raises(ValueError, match="index 6 lies outside an axis of 6"):
        tensor.in_top_k(x, np.array(6), 1, 0)


# ---------------------------------------------------------------------------------------------------------------------
# Gather and scatter


def test_measured_gathers() -> None:
    x = np.arange(1.0, 7.0).reshape(2, 3)
    np.testing.assert_array_equal(tensor.gather(x, np.array([1, 1, 0]), 0).ravel(), [4, 5, 6, 4, 5, 6, 1, 2, 3])
    np.testing.assert_array_equal(tensor.gather(x, np.array([2, 0]), 1).ravel(), [3, 1, 6, 4])
    square = np.arange(1.0, 10.0).reshape(3, 3)
    np.testing.assert_array_equal(tensor.gather_nd(square, np.array([[0, 0], [1, 2], [2, 1]])), [1, 6, 8])
    np.testing.assert_array_equal(tensor.gather_nd(square, np.array([[2], [0]])), [[7, 8, 9], [1, 2, 3]])


def test_measured_scatters() -> None:
    old = np.array([100.0, 200.0, 300.0])
    y = tensor.scatter(R.SUM, np.array([1.0, 2.0, 3.0]), np.array([0, 0, 2]), old, 0)
    np.testing.assert_array_equal(y, [103, 200, 303])
    np.testing.assert_array_equal(old, [100, 200, 300])
    x = np.arange(1.0, 7.0).reshape(2, 3)
    y = tensor.scatter(R.NONE, x, np.array([2, 0]), np.zeros((3, 3)), 0)
    np.testing.assert_array_equal(y.ravel(), [4, 5, 6, 0, 0, 0, 1, 2, 3])
    y = tensor.scatter_nd(R.NONE, np.array([[7.0, 8, 9], [1, 2, 3]]), np.array([[2], [0]]), np.zeros((3, 3)))
    np.testing.assert_array_equal(y.ravel(), [1, 2, 3, 0, 0, 0, 7, 8, 9])


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("elementwise", [False, True])
def test_gather_and_scatter_by_definition(axis: int, elementwise: bool) -> None:
    rng, shape = generator(17), (3, 4, 5)
    x, old = rng.standard_normal(shape), rng.standard_normal(shape)
    picked = tuple(6 if d == axis % 3 else n for d, n in enumerate(shape))
    indices = rng.integers(0, shape[axis], picked if elementwise else 6)
    y, entries = tensor.gather(x, indices, axis), rng.standard_normal(picked)
    assert y.shape == picked
    added, written = old.copy(), old.copy()
    for place in np.ndindex(picked):
        source = list(place)
        source[axis] = indices[place] if elementwise else indices[place[axis]]
        assert y[place] == x[tuple(source)]
        added[tuple(source)] += entries[place]
        written[tuple(source)] = entries[place]
    np.testing.assert_allclose(tensor.scatter(R.SUM, entries, indices, old, axis), added)
    np.testing.assert_array_equal(tensor.scatter(R.NONE, entries, indices, old, axis), written)
    assert_adjoint(
        lambda x: tensor.gather(x, indices, axis),
        lambda v: tensor.scatter(R.SUM, v, indices, np.zeros(shape), axis),
        shape,
    )


@pytest.mark.parametrize("length", [1, 2, 3])
def test_gather_nd_and_scatter_nd_by_definition(length: int) -> None:
    rng, shape = generator(18), (3, 4, 5)
    x, old = rng.standard_normal(shape), rng.standard_normal(shape)
    indices = np.stack([rng.integers(0, shape[axis], (2, 7)) for axis in range(length)], axis=-1)
    y = tensor.gather_nd(x, indices)
    entries = rng.standard_normal(y.shape)
    added = old.copy()
    for place in np.ndindex(2, 7):
        np.testing.assert_array_equal(y[place], x[tuple(indices[place])])
        added[tuple(indices[place])] += entries[place]
    np.testing.assert_allclose(tensor.scatter_nd(R.SUM, entries, indices, old), added)


def test_gather_keeps_the_type() -> None:
    x = np.arange(4, dtype=np.int8)
    assert tensor.gather(x, np.array([1]), 0).dtype == np.int8
    assert tensor.scatter(R.SUM, x, np.array([0, 0, 0, 1]), x, 0).tolist() == [3, 4, 2, 3]


def test_gather_and_scatter_errors() -> None:
    x = np.zeros((2, 3))
    for index in (-1, 2):
        with pytest.raises(ValueError, match=f"gather: index {index} lies outside an axis of 2"):
            tensor.gather(x, np.array([0, index]), 0)
        with pytest.raises(ValueError, match=f"scatter: index {index} lies outside"):
            tensor.scatter(R.SUM, x, np.array([0, index]), x, 0)
        with pytest.raises(ValueError, match=f"gather_nd: index {index} lies outside"):
            tensor.gather_nd(x, np.array([[index, 0]]))
    with pytest.raises(ValueError, match="may differ along axis 0 only"):
        tensor.gather(x, np.zeros((2, 2), np.int64), 0)
    with pytest.raises(ValueError, match=r"indices of shape \(3,\) do not fit"):
        tensor.scatter(R.SUM, x, np.zeros(3, np.int64), x, 0)
    with pytest.raises(ValueError, match="may differ along axis 0 only"):
        tensor.scatter(R.SUM, np.zeros((2, 4)), np.zeros(2, np.int64), x, 0)
    with pytest.raises(ValueError, match="index vectors of length 3 into 2 axes"):
        tensor.gather_nd(x, np.zeros((1, 3), np.int64))
    with pytest.raises(ValueError, match=r"the input must have shape \(1, 3\)"):
        tensor.scatter_nd(R.SUM, x, np.zeros((1, 1), np.int64), x)
    with pytest.raises(ValueError, match="function 0 cannot scatter"):
        tensor.scatter(R.MAX, x, np.zeros(2, np.int64), x, 0)


# ---------------------------------------------------------------------------------------------------------------------
# Shuffle


def test_measured_pixel_shuffle() -> None:
    y = tensor.shuffle(Shuffle.PIXEL_SHUFFLE, np.arange(1.0, 17.0).reshape(1, 4, 2, 2), 2)
    assert y.shape == (1, 1, 4, 4)
    np.testing.assert_array_equal(y.ravel(), [1, 5, 2, 6, 9, 13, 10, 14, 3, 7, 4, 8, 11, 15, 12, 16])


@pytest.mark.parametrize("block", [1, 2, 3])
def test_shuffle_by_definition(block: int) -> None:
    n, c, h, w = 2, 3, 4, 5
    small = generator(19).standard_normal((n, c * block * block, h, w))
    pixels = tensor.shuffle(Shuffle.PIXEL_SHUFFLE, small, block)
    depth = tensor.shuffle(Shuffle.DEPTH_TO_SPACE, small, block)
    assert pixels.shape == depth.shape == (n, c, h * block, w * block)
    for s, k, y, x, i, j in np.ndindex(n, c, h, w, block, block):
        place = (s, k, y * block + i, x * block + j)
        assert pixels[place] == small[s, k * block * block + i * block + j, y, x]
        assert depth[place] == small[s, (i * block + j) * c + k, y, x]
    np.testing.assert_array_equal(tensor.shuffle(Shuffle.PIXEL_UNSHUFFLE, pixels, block), small)
    np.testing.assert_array_equal(tensor.shuffle(Shuffle.SPACE_TO_DEPTH, depth, block), small)


def test_shuffle_errors() -> None:
    for kind, shape in [(0, (1, 6, 2, 2)), (1, (1, 1, 4, 3)), (2, (1, 6, 2, 2)), (3, (1, 1, 3, 4))]:
        with pytest.raises(ValueError, match="do not divide into blocks of 2 x 2"):
            tensor.shuffle(kind, np.zeros(shape), 2)
    with pytest.raises(ValueError, match="no kind 4"):
        tensor.shuffle(4, np.zeros((1, 4, 2, 2)), 2)


# ---------------------------------------------------------------------------------------------------------------------
# Crop-resize


def crop_positions(sampling: Sampling, start: float, end: float, n: int, plain: bool) -> list[float]:
    """Sample positions along one axis, as the register writes them."""
    length, positions = end - start, []
    extent = length if plain else length + 1
    for i in range(n):
        p = 0.0
        if sampling == Sampling.DEFAULT and n > 1:
            p = i * (extent - extent / n) / (n - 1)
        elif sampling in (Sampling.ALIGN_CORNERS, Sampling.STRICT_ALIGN_CORNERS) and n > 1:
            p = i * length / (n - 1)
        elif sampling == Sampling.ALIGN_CORNERS:
            p = length / 2
        elif sampling == Sampling.UNALIGN_CORNERS:
            p = (i + 0.5) * extent / n - 0.5
        elif sampling == Sampling.OFFSET_CORNERS:
            p = (i + 0.5) * max(1, length) / n
        positions.append(start + min(max(p, min(0, length)), max(0, length)))
    return positions


def bilinear(plane: Array, y: float, x: float, outside: float) -> float:
    """One sample of an image, or `outside`."""
    height, width = plane.shape
    if not (0 <= y <= height - 1 and 0 <= x <= width - 1):
        return outside
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    v, h = y - top, x - left
    upper = plane[top, left] * (1 - h) + plane[top, right] * h
    lower = plane[bottom, left] * (1 - h) + plane[bottom, right] * h
    return float(upper * (1 - v) + lower * v)


def box_corners(settings: Settings, box: Array, image: tuple[int, int]) -> list[tuple[float, float]]:
    """(start, end) in height and in width."""
    a, b, c, d = box * settings.spatial_scale
    if settings.box in (Box.CORNERS_WIDTH_FIRST, Box.CENTER_SIZE_WIDTH_FIRST):
        a, b, c, d = b, a, d, c
    if settings.normalized:
        a, b, c, d = a * image[0], b * image[1], c * image[0], d * image[1]
    if settings.box in (Box.CENTER_SIZE_HEIGHT_FIRST, Box.CENTER_SIZE_WIDTH_FIRST):
        return [(a - c / 2, a + c / 2), (b - d / 2, b + d / 2)]
    return [(a, c), (b, d)]


BOXES = {
    Box.CORNERS_HEIGHT_FIRST: [
        [0.5, 1.0, 4.0, 3.5],
        [-1.5, 2.0, 2.25, 9.0],
        [1.0, 1.0, 1.0, 1.0],
        [4.0, 3.0, 1.0, 0.5],
    ],
    Box.CENTER_SIZE_HEIGHT_FIRST: [[2.0, 2.5, 3.0, 2.5], [0.5, 6.0, 4.0, 3.0], [3.0, 3.0, 0.0, 0.5]],
}
BOXES[Box.CORNERS_WIDTH_FIRST] = BOXES[Box.CORNERS_HEIGHT_FIRST]
BOXES[Box.CENTER_SIZE_WIDTH_FIRST] = BOXES[Box.CENTER_SIZE_HEIGHT_FIRST]


@pytest.mark.parametrize("out_size", [(3, 4), (1, 2), (7, 1)])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("box", list(Box))
@pytest.mark.parametrize("sampling", list(Sampling))
def test_crop_resize(sampling: Sampling, box: Box, plain: bool, out_size: tuple[int, int]) -> None:
    x = generator(20).standard_normal((2, 3, 5, 7))
    for normalized, scale in [(False, 1.0), (True, 1 / 6), (False, 0.7)]:
        settings = Settings(sampling, box, normalized, scale, extrapolation_value=-4.0, plain_extent=plain)
        boxes = np.array(BOXES[box])
        y = crop_resize.forward(settings, x, boxes, out_size)
        assert y.shape == (len(boxes), 2, 3, *out_size)
        expected = np.empty(y.shape)
        for b, row in enumerate(boxes):
            (top, bottom), (left, right) = box_corners(settings, row, (5, 7))
            ys = crop_positions(sampling, top, bottom, out_size[0], plain)
            xs = crop_positions(sampling, left, right, out_size[1], plain)
            for n, c, i, j in np.ndindex(2, 3, *out_size):
                expected[b, n, c, i, j] = bilinear(x[n, c], ys[i], xs[j], -4.0)
        np.testing.assert_allclose(y, expected, rtol=1e-11, atol=1e-12)
        still = Settings(sampling, box, normalized, scale, plain_extent=plain)
        assert_adjoint(
            lambda x, still=still, boxes=boxes: crop_resize.forward(still, x, boxes, out_size),  # type: ignore[misc]
            lambda v, still=still, boxes=boxes: crop_resize.backward(still, v, boxes, x.shape),  # type: ignore[misc]
            x.shape,
        )


def test_published_crop_resize() -> None:
    image = [0, 1, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 0, 9, 0, 9, 0, 0, 0, 0, 9, 0, 0, 0, 0, 9, 0, 9]
    x = np.array(image, float).reshape(1, 1, 5, 6)
    settings = Settings(Sampling.OFFSET_CORNERS, Box.CENTER_SIZE_WIDTH_FIRST)
    boxes = np.array([[1.0, 1, 3, 3], [4, 3, 3, 3]])
    y = crop_resize.forward(settings, x, boxes, (3, 3))
    np.testing.assert_array_equal(y.ravel(), [0, 1, 0, 1, 1, 1, 0, 1, 0, 9, 0, 9, 0, 9, 0, 9, 0, 9])


def test_crop_resize_outside_and_strange_boxes() -> None:
    x = np.full((1, 1, 2, 2), np.inf)
    settings = Settings(Sampling.STRICT_ALIGN_CORNERS, Box.CORNERS_HEIGHT_FIRST, extrapolation_value=5.0)
    boxes = np.array([[np.nan, 0, 1, 1], [0, -np.inf, 1, np.inf], [3.0, 3.0, 9.0, 9.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(crop_resize.forward(settings, x, boxes, (2, 2)), np.full((3, 1, 1, 2, 2), 5.0))
        dx = crop_resize.backward(settings, np.full((3, 1, 1, 2, 2), np.inf), boxes, (1, 1, 2, 2))
        np.testing.assert_array_equal(dx, np.zeros((1, 1, 2, 2)))
        assert crop_resize.forward(settings, x, np.zeros((0, 4)), (2, 3)).shape == (0, 1, 1, 2, 3)
        assert crop_resize.forward(settings, x[:0], boxes, (2, 3)).shape == (3, 0, 1, 2, 3)


def test_crop_resize_errors() -> None:
    x, boxes = np.zeros((1, 1, 2, 2)), np.zeros((1, 4))
    with pytest.raises(ValueError, match="no sampling mode 5"):
        crop_resize.forward(Settings(5, 0), x, boxes, (1, 1))
    with pytest.raises(ValueError, match="no box mode 4"):
        crop_resize.forward(Settings(0, 4), x, boxes, (1, 1))


# ---------------------------------------------------------------------------------------------------------------------
# Random numbers

STREAM = Stream(0x299F31D0A4093822, 0x0370734413198A2E)


def philox_by_definition(counter: list[int], key: list[int]) -> list[int]:
    """Ten rounds in plain integers."""
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (second >> 32) ^ counter[1] ^ key[0],
            second & 0xFFFFFFFF,
            (first >> 32) ^ counter[3] ^ key[1],
            first & 0xFFFFFFFF,
        ]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return counter


def test_philox_published_vectors() -> None:
    ones = 0xFFFFFFFF
    for counter, key, expected in [
        ([0] * 4, [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([ones] * 4, [ones, ones], [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ]:
        assert philox_by_definition(counter, key) == expected
        c0, c1, c2, c3 = (np.array([word], np.uint64) for word in counter)
        assert [int(word[0]) for word in random_numbers.philox((c0, c1, c2, c3), (key[0], key[1]))] == expected


def test_words_of_a_stream() -> None:
    words = random_numbers.words(STREAM, 22, first=4 << 40)
    for block in range(5):
        counter = [block, 1 << 8, 0x13198A2E, 0x03707344]
        assert words[4 * block : 4 * block + 4].tolist() == philox_by_definition(counter, [0xA4093822, 0x299F31D0])
    everything = random_numbers.words(STREAM, 300)
    for first in range(9):
        np.testing.assert_array_equal(random_numbers.words(STREAM, 200, first), everything[first : first + 200])
    assert random_numbers.words(STREAM, 0).shape == (0,)


def test_streams_differ_and_can_be_saved() -> None:
    stream = Stream(2**64 - 1, 2**64 - 1)
    assert stream.next() == Stream(2**64 - 1, 0)
    state = STREAM.next().to_bytes()
    assert len(state) == random_numbers.STATE_SIZE
    assert state.hex() == "7068696c6f783031" + "223809a4d0319f29" + "2f8a191344737003"
    assert Stream.from_bytes(state + b"more") == STREAM.next()
    assert not np.array_equal(random_numbers.words(STREAM, 8), random_numbers.words(STREAM.next(), 8))
    assert not np.array_equal(random_numbers.words(Stream(1), 8), random_numbers.words(Stream(2), 8))
    with pytest.raises(ValueError, match="a state has 24 bytes; got 23"):
        Stream.from_bytes(state[:23])
    with pytest.raises(ValueError, match="not the saved state"):
        Stream.from_bytes(bytes(24))


def test_uniform_floats() -> None:
    u = random_numbers.uniform(STREAM, 40000)
    words = random_numbers.words(STREAM, 40000)
    np.testing.assert_array_equal(u, u.astype(np.float32))
    np.testing.assert_array_equal(u, [((int(word) >> 9) + 0.5) / 2**23 for word in words])
    x = random_numbers.uniform_float(STREAM, (200, 200), -2.0, 6.0)
    np.testing.assert_array_equal(x.ravel(), -2.0 + 8.0 * u)
    assert x.mean() == pytest.approx(2.0, abs=0.05)
    assert x.var() == pytest.approx(64 / 12, rel=0.02)
    largest = float(np.finfo(np.float32).max)
    wide = random_numbers.uniform_float(STREAM, (99,), -largest, largest)
    assert np.all(np.isfinite(wide.astype(np.float32)))
    assert np.all(random_numbers.uniform_float(STREAM, (99,), 0.1, 0.1) == 0.1)


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (-3, 3), (5, 5), (-(2**63), 2**63 - 1), (-(2**63), 2**63 - 2), (0, 2**63 - 1), (-(2**40), 2**41 + 17)],
)
def test_uniform_integers(low: int, high: int) -> None:
    values = random_numbers.uniform_integer(STREAM, (50, 8), low, high)
    words = [int(word) for word in random_numbers.words(STREAM, 800)]
    expected = [low + ((a + (b << 32)) * (high - low + 1) >> 64) for a, b in zip(words[::2], words[1::2], strict=True)]
    assert values.dtype == np.int64
    assert values.ravel().tolist() == expected
    assert low <= min(expected)
    assert max(expected) <= high


def test_uniform_integers_reach_every_value() -> None:
    values = random_numbers.uniform_integer(STREAM, (70000,), -3, 3)
    counts = np.bincount(values + 3)
    assert len(counts) == 7
    np.testing.assert_allclose(counts, 10000, rtol=0.05)
    with pytest.raises(ValueError, match="the range 3 to 2 is empty"):
        random_numbers.uniform_integer(STREAM, (1,), 3, 2)


def test_normal_numbers() -> None:
    z = random_numbers.normal(STREAM, (301, 133), 0.0, 1.0)
    u = (random_numbers.words(STREAM, z.size + 1) + 0.5) / 2.0**32
    radius, angle = np.sqrt(-2 * np.log(u[::2])), 2 * np.pi * u[1::2]
    expected = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()[: z.size]
    np.testing.assert_allclose(z.ravel(), expected, rtol=1e-11, atol=1e-14)
    assert z.mean() == pytest.approx(0.0, abs=0.02)
    assert z.std() == pytest.approx(1.0, abs=0.02)
    exact = statistics.NormalDist()
    for limit in (-2.0, -1.0, 0.0, 0.5, 1.5, 2.5):
        assert np.mean(z < limit) == pytest.approx(exact.cdf(limit), abs=0.01)
    np.testing.assert_array_equal(random_numbers.normal(STREAM, (7,), 3.0, 0.5), 3.0 + 0.5 * z.ravel()[:7])
    assert random_numbers.normal(STREAM, (0, 3), 0.0, 1.0).shape == (0, 3)


def test_functions_by_series() -> None:
    """As accurate as a few units in the last place, and fixed to the bit: these numbers must never change."""
    u = np.concatenate([(np.arange(0, 2**32, 65537 * 7) + 0.5) / 2.0**32, [2.0**-33, 0.5, 1 - 2.0**-33, 0.125]])
    np.testing.assert_allclose(random_numbers._log(u), np.log(u), rtol=4e-15)
    cosine, sine = random_numbers._cosine_and_sine(u)
    np.testing.assert_allclose(cosine**2 + sine**2, 1.0, rtol=1e-14)
    np.testing.assert_allclose(cosine, np.cos(2 * np.pi * u), atol=2e-15)
    np.testing.assert_allclose(sine, np.sin(2 * np.pi * u), atol=2e-15)
    x = np.linspace(-690, 0, 1001)
    np.testing.assert_allclose(random_numbers._exp(x), np.exp(x), rtol=2e-13)
    np.testing.assert_array_equal(random_numbers._exp(np.array([-701.0, -np.inf, 0.0])), [0, 0, 1])


UNIFORM_BITS = ["-0x1.c37ba80000000p-2", "-0x1.3a29780000000p-2", "0x1.b90b0c0000000p-1", "0x1.5966180000000p-2"]
NORMAL_BITS = ["-0x1.d242281844b58p-1", "0x1.4fb9e7716d720p+0", "-0x1.7ba87eeaefa5ep-3", "-0x1.527967894b219p-2"]
INTEGERS = [-306798764374, 337303616074, -369194578334, -663429009390]
CATEGORIES = [1, 2, 3, 3, 0, 2, 3, 1, 0, 2, 0, 3]


def test_streams_are_the_same_on_every_machine() -> None:
    stream = Stream(2024, 7)
    uniform = random_numbers.uniform_float(stream, (4,), -1.0, 1.0)
    assert [float(value).hex() for value in uniform] == UNIFORM_BITS
    assert [float(value).hex() for value in random_numbers.normal(stream, (4,), 0.0, 1.0)] == NORMAL_BITS
    assert random_numbers.uniform_integer(stream, (4,), -(10**12), 10**12).tolist() == INTEGERS
    logs = np.array([[-2.0, -1.5, -1.0, -0.75]])
    assert random_numbers.categorical(stream, (1, 12), logs, log_probabilities=True).tolist() == [CATEGORIES]


def test_categories() -> None:
    p = np.array([[0.5, 0.0, 1.5, 2.0], [0.0, 0.0, 0.0, 3.0], [1.0, 0.0, 0.0, 0.0]])
    drawn = random_numbers.categorical(STREAM, (3, 40, 500), p)
    assert np.all(drawn[1] == 3.0)
    assert np.all(drawn[2] == 0.0)
    counts = np.bincount(drawn[0].astype(int).ravel(), minlength=4) / 20000
    np.testing.assert_allclose(counts, [0.125, 0.0, 0.375, 0.5], atol=0.015)
    u = (random_numbers.words(STREAM, 60000) + 0.5) / 2.0**32
    expected = [0 if v < 0.125 else 2 if v < 0.5 else 3 for v in u[:20000]]
    np.testing.assert_array_equal(drawn[0].ravel(), expected)
    with np.errstate(divide="ignore"):
        logs = np.log(p) - 12.0
    np.testing.assert_array_equal(random_numbers.categorical(STREAM, (3, 40, 500), logs, True), drawn)
    assert random_numbers.categorical(STREAM, (3,), p).shape == (3,)
    assert random_numbers.categorical(STREAM, (0, 5), p[:0]).shape == (0, 5)


@pytest.mark.parametrize("bad", [[0.0, 0.0], [-1.0, 2.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_categories_refuse(bad: list[float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="must be finite, not negative and not all 0"):
            random_numbers.categorical(STREAM, (1, 3), np.array([bad]))
        if 0 not in bad and -1.0 not in bad:
            with pytest.raises(ValueError, match="must be finite, not negative and not all 0"):
                random_numbers.categorical(STREAM, (1, 3), np.array([bad]), log_probabilities=True)
        with pytest.raises(ValueError, match="must be finite, not negative and not all 0"):
            random_numbers.categorical(STREAM, (1, 3), np.full((1, 2), -np.inf), log_probabilities=True)
    with pytest.raises(ValueError, match=r"shape \(2, 3\) does not begin with \(1,\)"):
        random_numbers.categorical(STREAM, (2, 3), np.ones((1, 2)))


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
