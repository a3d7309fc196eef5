"""Reductions of the reference engine against their definitions and against finite differences."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from differences import assert_gradient, generator
from openbnns.parameters.reduction import ReductionKind as R
from openbnns.reference import reduction

Array = npt.NDArray[np.float64]

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
