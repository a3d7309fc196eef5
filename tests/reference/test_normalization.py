"""Normalizations of the reference engine against their definitions and against finite differences.

Inputs have a spread of about 1, so a step of 3e-6 moves the statistics as little as it moves the values, and truncation
(1e-11) and rounding (3e-11) both stay far below the tolerance of 1e-6.
"""

import itertools
import math
import warnings
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from differences import activation_name, assert_close, assert_gradient, generator, normal
from openbnns.parameters.activation import IDENTITY, Activation
from openbnns.parameters.activation import ActivationKind as A
from openbnns.parameters.normalization import Kind, Normalization
from openbnns.reference import normalization
from openbnns.reference.activation import Array
from openbnns.reference.normalization import Moving
from reference_normalizations import EPSILON, NORMALIZATIONS, parameters

RELU = Activation(A.RECTIFIED_LINEAR)
TANH = Activation(A.TANH)
SILU = Activation(A.SILU)

IMAGE, VECTOR = (3, 6, 3, 5), (5, 6)  # x, batch first

kinds = pytest.mark.parametrize("n", NORMALIZATIONS.values(), ids=NORMALIZATIONS)
shapes = pytest.mark.parametrize("shape", [IMAGE, VECTOR], ids=["image", "vector"])


def shares_statistics(n: Normalization, one: tuple[int, ...], other: tuple[int, ...], channels: int) -> bool:
    """True if two elements (sample, channel, row, column) are normalized together; a vector has (sample, channel)."""
    if n.kind == Kind.BATCH:
        return one[1] == other[1]
    if one[0] != other[0]:
        return False
    match n.kind:
        case Kind.INSTANCE:
            return one[1] == other[1]
        case Kind.GROUP:
            size = channels // n.groups
            return one[1] // size == other[1] // size
        case _:
            return len(one) == 2 or one[1 : 1 + n.axis] == other[1 : 1 + n.axis]


def normalized_by_loops(n: Normalization, x: Array) -> Array:
    xhat = np.zeros(x.shape)
    for one in np.ndindex(x.shape):
        together = [float(x[k]) for k in np.ndindex(x.shape) if shares_statistics(n, one, k, x.shape[1])]
        mean = sum(together) / len(together)
        variance = sum((value - mean) ** 2 for value in together) / len(together)
        xhat[one] = (float(x[one]) - mean) / math.sqrt(variance + n.epsilon)
    return xhat


@kinds
@shapes
def test_normalization_by_definition(n: Normalization, shape: tuple[int, ...]) -> None:
    x, (beta, gamma) = normal(3, *shape) + 2.0, parameters(n, shape)
    xhat = normalized_by_loops(n, x)
    y, state, _ = normalization.training_forward(n, x, None, None, IDENTITY)
    np.testing.assert_allclose(y, xhat, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(state.xhat, y)

    expected = np.zeros(shape)
    for k in np.ndindex(shape):
        own = k[1:] if n.kind == Kind.LAYER else k[1:2]
        expected[k] = math.tanh(gamma[own] * xhat[k] + beta[own])
    y, _, _ = normalization.training_forward(n, x, beta, gamma, TANH)
    np.testing.assert_allclose(y, expected, rtol=1e-10, atol=1e-12)
    # Without moving statistics inference uses the current ones.
    np.testing.assert_array_equal(normalization.inference_forward(n, x, beta, gamma, TANH), y)


@kinds
@shapes
@pytest.mark.parametrize("f", [IDENTITY, TANH, SILU, Activation(A.SOFTPLUS, 1.5, 0.7)], ids=activation_name)
def test_normalization_gradients(n: Normalization, shape: tuple[int, ...], f: Activation) -> None:
    x, (beta, gamma) = normal(4, *shape), parameters(n, shape)
    y, state, _ = normalization.training_forward(n, x, beta, gamma, f)

    def forward(x: Array, beta: Array, gamma: Array) -> Array:
        return normalization.training_forward(n, x, beta, gamma, f)[0]

    for output in (y, None):

        def gradient(name: str, output: Array | None = output) -> Callable[[Array], Array]:
            return lambda v: normalization.backward(n, state, beta, gamma, output, v, f, {name})[name]

        assert_gradient(lambda x: forward(x, beta, gamma), gradient("dx"), x)
        assert_gradient(lambda beta: forward(x, beta, gamma), gradient("dbeta"), beta)
        assert_gradient(lambda gamma: forward(x, beta, gamma), gradient("dgamma"), gamma)


@kinds
@shapes
def test_normalization_without_beta_or_gamma(n: Normalization, shape: tuple[int, ...]) -> None:
    """Absent parameters act as 0 and 1, and have the gradients of those."""
    x, dy, (beta, gamma) = normal(5, *shape), normal(6, *shape), parameters(n, shape)
    wanted = {"dx", "dbeta", "dgamma"}
    for has_beta, has_gamma in itertools.product((False, True), repeat=2):
        given = beta if has_beta else None, gamma if has_gamma else None
        spelled = beta if has_beta else np.zeros(beta.shape), gamma if has_gamma else np.ones(gamma.shape)
        y, state, _ = normalization.training_forward(n, x, *given, TANH)
        expected, expected_state, _ = normalization.training_forward(n, x, *spelled, TANH)
        np.testing.assert_array_equal(y, expected)
        gradients = normalization.backward(n, state, *given, y, dy, TANH, wanted)
        for name, value in normalization.backward(n, expected_state, *spelled, y, dy, TANH, wanted).items():
            np.testing.assert_array_equal(gradients[name], value)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("size", [(1, 1, 5), (6, 1, 1), (6, 1, 5), (1, 1, 1), (5,), (3, 5), (6, 3, 5)], ids=str)
def test_layer_normalization_broadcasts_its_parameters(axis: int, size: tuple[int, ...]) -> None:
    n = Normalization(Kind.LAYER, EPSILON, axis=axis)
    x, beta, gamma = normal(7, *IMAGE), normal(8, *size), normal(9, *size)
    full_beta, full_gamma = np.broadcast_to(beta, IMAGE[1:]), np.broadcast_to(gamma, IMAGE[1:])
    y, state, _ = normalization.training_forward(n, x, beta, gamma, TANH)
    np.testing.assert_array_equal(y, normalization.training_forward(n, x, full_beta, full_gamma, TANH)[0])
    dy = normal(10, *IMAGE)
    gradients = normalization.backward(n, state, beta, gamma, y, dy, TANH, {"dx", "dbeta", "dgamma"})
    full = normalization.backward(n, state, full_beta, full_gamma, y, dy, TANH, {"dx", "dbeta", "dgamma"})
    np.testing.assert_array_equal(gradients["dx"], full["dx"])
    for name in ("dbeta", "dgamma"):
        assert gradients[name].shape == size
        aligned = (1,) * (3 - len(size)) + size
        summed = full[name].sum(axis=tuple(k for k in range(3) if aligned[k] == 1), keepdims=True).reshape(size)
        np.testing.assert_allclose(gradients[name], summed, rtol=1e-11, atol=1e-12)


def test_layer_normalization_of_different_parameter_shapes() -> None:
    n, x, beta, gamma = NORMALIZATIONS["layer 1"], normal(11, *IMAGE), normal(12, 1, 1, 5), normal(13, 6, 1, 1)
    y, state, _ = normalization.training_forward(n, x, beta, gamma, TANH)
    for name, point in (("dbeta", beta), ("dgamma", gamma)):

        def forward(p: Array, name: str = name) -> Array:
            given = (p, gamma) if name == "dbeta" else (beta, p)
            return normalization.training_forward(n, x, *given, TANH)[0]

        def gradient(v: Array, name: str = name) -> Array:
            return normalization.backward(n, state, beta, gamma, y, v, TANH, {name})[name]

        assert_gradient(forward, gradient, point)


def test_normalization_backward_gives_what_is_wanted() -> None:
    n, x, dy = NORMALIZATIONS["batch"], normal(14, *IMAGE), normal(15, *IMAGE)
    beta, gamma = parameters(n, IMAGE)
    y, state, _ = normalization.training_forward(n, x, beta, gamma, TANH)
    everything = normalization.backward(n, state, beta, gamma, y, dy, TANH, {"dx", "dbeta", "dgamma"})
    for count in range(3):
        for wanted in itertools.combinations(everything, count):
            some = normalization.backward(n, state, beta, gamma, y, dy, TANH, set(wanted))
            assert set(some) == set(wanted)
            for name in wanted:
                np.testing.assert_array_equal(some[name], everything[name])


@pytest.mark.parametrize(
    ("n", "shape"),
    [
        (n, shape)
        for (name, n), shape in itertools.product(NORMALIZATIONS.items(), (IMAGE, VECTOR))
        if shape == IMAGE or name not in ("instance", "group 6")  # one element per statistic: 0/0
    ],
)
def test_normalization_undoes_shift_and_scale(n: Normalization, shape: tuple[int, ...]) -> None:
    """Without epsilon a common shift or factor of x does nothing, so dx is orthogonal to both directions."""
    n = replace(n, epsilon=0.0)
    x, dy, (beta, gamma) = normal(16, *shape), normal(17, *shape), parameters(n, shape)
    y, state, _ = normalization.training_forward(n, x, beta, gamma, IDENTITY)
    moved, _, _ = normalization.training_forward(n, 3.0 * x - 7.0, beta, gamma, IDENTITY)
    np.testing.assert_allclose(moved, y, rtol=1e-9, atol=1e-10)
    dx = normalization.backward(n, state, beta, gamma, y, dy, IDENTITY, {"dx"})["dx"]
    assert np.sum(dx) == pytest.approx(0.0, abs=1e-10)
    assert np.vdot(dx, x) == pytest.approx(0.0, abs=1e-9)


def test_one_element_per_statistic_normalizes_to_zero() -> None:
    for n in (NORMALIZATIONS["instance"], NORMALIZATIONS["group 6"]):
        x, dy, (beta, gamma) = normal(18, *VECTOR), normal(19, *VECTOR), parameters(n, VECTOR)
        y, state, _ = normalization.training_forward(n, x, beta, gamma, IDENTITY)
        np.testing.assert_array_equal(y, np.broadcast_to(beta, VECTOR))
        gradients = normalization.backward(n, state, beta, gamma, y, dy, IDENTITY, {"dx", "dgamma"})
        np.testing.assert_array_equal(gradients["dx"], np.zeros(VECTOR))
        np.testing.assert_array_equal(gradients["dgamma"], np.zeros(6))


def test_batch_normalization_is_the_familiar_formula() -> None:
    """dx = gamma/sigma (dz - dbeta/m - xhat dgamma/m)."""
    n, x, dy = NORMALIZATIONS["batch"], normal(20, *IMAGE), normal(21, *IMAGE)
    beta, gamma = parameters(n, IMAGE)
    _, state, _ = normalization.training_forward(n, x, beta, gamma, IDENTITY)
    assert state.inverse_deviation.shape == (1, 6, 1, 1)
    g = normalization.backward(n, state, beta, gamma, None, dy, IDENTITY, {"dx", "dbeta", "dgamma"})
    mean_dz, mean_dz_xhat = (g[name].reshape(6, 1, 1) / (3 * 3 * 5) for name in ("dbeta", "dgamma"))
    expected = gamma.reshape(6, 1, 1) * state.inverse_deviation * (dy - mean_dz - state.xhat * mean_dz_xhat)
    np.testing.assert_allclose(g["dx"], expected, rtol=1e-11, atol=1e-12)


def test_layer_normalization_observed_values() -> None:
    n, x = Normalization(Kind.LAYER, 0.0), np.array([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 1, 4)
    y, state, _ = normalization.training_forward(n, x, None, None, IDENTITY)
    np.testing.assert_allclose(y.ravel(), [-1.3416408, -0.4472136, 0.4472136, 1.3416408], atol=1e-7)
    dy = np.array([1.0, 0.0, 0.0, 0.0]).reshape(x.shape)
    dx = normalization.backward(n, state, None, None, None, dy, IDENTITY, {"dx"})["dx"]
    np.testing.assert_allclose(dx.ravel(), [0.2683282, -0.3577709, -0.0894427, 0.1788854], atol=1e-7)


def test_normalization_activation_at_its_kink() -> None:
    """gamma = beta = 0 puts every z on the kink of ReLU: slope 0, or 1 when read from the right."""
    n, x, dy, zero = NORMALIZATIONS["batch"], normal(22, *VECTOR), normal(23, *VECTOR), np.zeros(6)
    for f, slope in ((RELU, 0.0), (replace(RELU, right_slope=True), 1.0)):
        y, state, _ = normalization.training_forward(n, x, zero, zero, f)
        gradients = normalization.backward(n, state, zero, zero, y, dy, f, {"dbeta", "dgamma", "dx"})
        np.testing.assert_allclose(gradients["dbeta"], slope * dy.sum(axis=0))
        np.testing.assert_allclose(gradients["dgamma"], slope * (dy * state.xhat).sum(axis=0))
        np.testing.assert_array_equal(gradients["dx"], np.zeros(VECTOR))


def test_normalization_takes_the_derivative_from_the_output_where_it_can() -> None:
    """The given y decides, not z: here y says that ReLU passed everything."""
    n, x, dy = NORMALIZATIONS["batch"], normal(24, *VECTOR), normal(25, *VECTOR)
    _, state, _ = normalization.training_forward(n, x, None, None, RELU)
    passed = normalization.backward(n, state, None, None, np.ones(VECTOR), dy, RELU, {"dbeta"})["dbeta"]
    np.testing.assert_allclose(passed, dy.sum(axis=0))
    from_z = normalization.backward(n, state, None, None, None, dy, RELU, {"dbeta"})["dbeta"]
    np.testing.assert_allclose(from_z, np.where(state.xhat > 0, dy, 0.0).sum(axis=0))


def test_prelu_after_normalization_has_one_slope_per_channel() -> None:
    n, x, slopes = NORMALIZATIONS["group 3"], normal(26, *IMAGE), np.array([0.1, 0.7, -0.4, 1.3, 0.0, 2.0])
    y, state, _ = normalization.training_forward(
        n, x, None, None, Activation(A.PRELU_PER_CHANNEL, channel_alpha=slopes)
    )
    np.testing.assert_allclose(y, np.where(state.xhat < 0, slopes.reshape(6, 1, 1) * state.xhat, state.xhat))


# Moving statistics


@pytest.mark.parametrize("torch_moving", [False, True])
@pytest.mark.parametrize("kind", [Kind.BATCH, Kind.INSTANCE], ids=lambda kind: kind.name.lower())
@shapes
def test_moving_statistics_by_definition(kind: Kind, torch_moving: bool, shape: tuple[int, ...]) -> None:
    n = Normalization(kind, EPSILON, momentum=0.8, torch_moving=torch_moving)
    x, moving = normal(27, *shape) + 1.0, Moving(normal(28, 6), generator(29).uniform(0.5, 2.0, 6))
    assert moving.mean is not None
    assert moving.variance is not None
    _, _, after = normalization.training_forward(n, x, None, None, IDENTITY, moving)
    assert after.mean is not None
    assert after.variance is not None
    for c in range(6):
        pools = [x[:, c].ravel()] if kind == Kind.BATCH else [sample[c].ravel() for sample in x]
        mean = sum(float(np.sum(p)) / len(p) for p in pools) / len(pools)
        spread = sum(float(np.sum((p - p.mean()) ** 2)) / len(p) for p in pools) / len(pools)
        if torch_moving:
            spread *= len(pools[0]) / max(len(pools[0]) - 1, 1)
        old, new = (0.2, 0.8) if torch_moving else (0.8, 0.2)
        assert after.mean[c] == pytest.approx(old * moving.mean[c] + new * mean, rel=1e-12)
        assert after.variance[c] == pytest.approx(old * moving.variance[c] + new * spread, rel=1e-12)


def test_moving_statistics_of_plain_numbers() -> None:
    """Values 1 and 3: mean 2, variance 1 (population) or 2 (unbiased)."""
    x, moving = np.array([[1.0], [3.0]]), Moving(np.array([10.0]), np.array([20.0]))
    for torch_moving, mean, variance in ((False, 0.9 * 10 + 0.1 * 2, 0.9 * 20 + 0.1 * 1), (True, 2.8, 3.8)):
        n = Normalization(Kind.BATCH, EPSILON, momentum=0.9, torch_moving=torch_moving)
        _, _, after = normalization.training_forward(n, x, None, None, IDENTITY, moving)
        assert_close(after.mean, [mean])
        assert_close(after.variance, [variance])


def test_training_uses_current_statistics_and_leaves_its_arguments_alone() -> None:
    for kind in (Kind.BATCH, Kind.INSTANCE):
        n, x, mean, variance = Normalization(kind, EPSILON, 0.5), normal(30, *IMAGE), normal(31, 6), np.ones(6)
        copies = [array.copy() for array in (x, mean, variance)]
        tracked, _, _ = normalization.training_forward(n, x, None, None, IDENTITY, Moving(mean, variance))
        untracked, _, after = normalization.training_forward(n, x, None, None, IDENTITY)
        np.testing.assert_array_equal(tracked, untracked)
        assert after == Moving()
        for array, copy in zip((x, mean, variance), copies, strict=True):
            np.testing.assert_array_equal(array, copy)


@shapes
def test_inference_uses_moving_statistics(shape: tuple[int, ...]) -> None:
    x, mean, variance = normal(32, *shape), normal(33, 6), generator(34).uniform(0.5, 2.0, 6)
    column = (6,) + (1,) * (len(shape) - 2)
    for kind in (Kind.BATCH, Kind.INSTANCE):
        n = Normalization(kind, EPSILON)
        beta, gamma = parameters(n, shape)
        y = normalization.inference_forward(n, x, beta, gamma, TANH, Moving(mean, variance))
        scale = gamma / np.sqrt(variance + EPSILON)
        expected = np.tanh((x - mean.reshape(column)) * scale.reshape(column) + beta.reshape(column))
        np.testing.assert_allclose(y, expected, rtol=1e-11)


def test_inference_with_one_moving_statistic_takes_the_other_from_the_batch() -> None:
    n, x, mean, variance = NORMALIZATIONS["batch"], normal(35, *VECTOR), normal(36, 6), np.full(6, 2.0)
    y = normalization.inference_forward(n, x, None, None, IDENTITY, Moving(mean=mean))
    np.testing.assert_allclose(y, (x - mean) / np.sqrt(x.var(axis=0) + EPSILON), rtol=1e-11)
    y = normalization.inference_forward(n, x, None, None, IDENTITY, Moving(variance=variance))
    np.testing.assert_allclose(y, (x - x.mean(axis=0)) / np.sqrt(variance + EPSILON), rtol=1e-11)
    _, _, after = normalization.training_forward(n, x, None, None, IDENTITY, Moving(mean=mean))
    assert_close(after.mean, x.mean(axis=0))  # momentum 0
    assert after.variance is None


def test_layer_and_group_ignore_moving_statistics() -> None:
    x, moving = normal(37, *IMAGE), Moving(normal(38, 6), np.full(6, 9.0))
    for name in ("layer 0", "layer 2", "group 3"):
        n = NORMALIZATIONS[name]
        y, _, after = normalization.training_forward(n, x, None, None, IDENTITY, moving)
        assert after is moving
        np.testing.assert_array_equal(normalization.inference_forward(n, x, None, None, IDENTITY, moving), y)


# Borders


@kinds
@shapes
def test_normalization_of_an_empty_batch(n: Normalization, shape: tuple[int, ...]) -> None:
    empty, (beta, gamma), moving = (0, *shape[1:]), parameters(n, shape), Moving(np.ones(6), np.full(6, 2.0))
    y, state, after = normalization.training_forward(n, np.zeros(empty), beta, gamma, TANH, moving)
    assert y.shape == empty
    assert np.all(np.isfinite(state.inverse_deviation))
    assert after is moving
    assert normalization.inference_forward(n, np.zeros(empty), beta, gamma, TANH, moving).shape == empty
    gradients = normalization.backward(n, state, beta, gamma, y, np.zeros(empty), TANH, {"dx", "dbeta", "dgamma"})
    assert gradients["dx"].shape == empty
    np.testing.assert_array_equal(gradients["dbeta"], np.zeros(beta.shape))
    np.testing.assert_array_equal(gradients["dgamma"], np.zeros(gamma.shape))


def test_normalization_of_equal_values() -> None:
    x = np.full((2, 1, 2, 2), 3.0)
    for n in NORMALIZATIONS.values():
        n = replace(n, groups=1)
        np.testing.assert_array_equal(normalization.training_forward(n, x, None, None, IDENTITY)[0], np.zeros(x.shape))
        exact = replace(n, epsilon=0.0)
        assert np.all(np.isnan(normalization.training_forward(exact, x, None, None, IDENTITY)[0]))


def test_normalization_special_values_do_not_warn() -> None:
    x = normal(39, *IMAGE)
    x[0, 1, 0, 0], x[1, 3, 2, 1], x[2, 5] = np.nan, np.inf, 1e300
    spoiled = {"batch": 1, "instance": 1, "layer 0": 0, "layer 1": 1, "layer 2": 1, "group 3": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, neighbour in spoiled.items():
            n = NORMALIZATIONS[name]
            y, state, _ = normalization.training_forward(n, x, None, None, RELU, Moving(np.ones(6), np.ones(6)))
            assert np.isnan(y[0, 1, 0, 0])
            assert np.isnan(y[0, 1, 0, 1])
            assert np.isnan(y[0, 0, 0, 0]) == (neighbour == 0)
            normalization.backward(n, state, None, None, y, np.ones(IMAGE), RELU, {"dx", "dbeta", "dgamma"})


def test_normalization_state_is_frozen() -> None:
    _, state, moving = normalization.training_forward(
        NORMALIZATIONS["batch"], normal(40, *VECTOR), None, None, IDENTITY
    )
    with pytest.raises(FrozenInstanceError):
        state.xhat = np.zeros(1)  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        moving.mean = np.zeros(1)  # type: ignore[misc]


def test_normalization_rejects_wrong_calls() -> None:
    x = normal(41, *IMAGE)

    def forward(n: Normalization, gamma: Array | None = None, f: Activation = IDENTITY) -> Any:
        return normalization.training_forward(n, x, None, gamma, f)

    with pytest.raises(ValueError, match="no kind 6; the kinds are 2 to 5"):
        forward(Normalization(6, EPSILON))
    with pytest.raises(ValueError, match=r"axis is 0 .* got 3"):
        forward(Normalization(Kind.LAYER, EPSILON, axis=3))
    for groups in (0, 4):
        with pytest.raises(ValueError, match=f"6 channels do not divide into {groups} groups"):
            forward(Normalization(Kind.GROUP, EPSILON, groups=groups))
    with pytest.raises(ValueError, match="must be elementwise; function 11 is not"):
        forward(NORMALIZATIONS["batch"], f=Activation(A.SOFTMAX))
    with pytest.raises(ValueError, match=r"shape \(6,\); got \(5,\)"):
        forward(NORMALIZATIONS["batch"], np.ones(5))
    for wrong in (np.ones(6), np.ones((1, 6, 3, 5))):
        with pytest.raises(ValueError, match=r"broadcast to a sample, shape \(6, 3, 5\)"):
            forward(NORMALIZATIONS["layer 0"], wrong)
    _, state, _ = forward(NORMALIZATIONS["batch"])
    with pytest.raises(ValueError, match="same batch"):
        normalization.backward(NORMALIZATIONS["batch"], state, None, None, None, x[:2], IDENTITY, {"dx"})
