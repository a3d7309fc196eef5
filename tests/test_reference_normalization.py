"""The reference engine's normalization, fused chains, dropout and quantization.

Values against plain loops, gradients against central differences along random directions, contracted with random
cotangents. Inputs have a spread of about 1, so a step of 1e-5 moves the statistics as little as it moves the values,
and truncation (1e-10) and rounding (1e-11) both stay far below the tolerance of 1e-6.
"""

import itertools
import math
import warnings
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from openbnns.engines.reference import convolution, dropout, fused, normalization, quantization
from openbnns.engines.reference.activation import IDENTITY, Activation, Array
from openbnns.engines.reference.activation import Function as A
from openbnns.engines.reference.arithmetic import Function as Op
from openbnns.engines.reference.normalization import Kind, Moving, Normalization
from openbnns.engines.reference.quantization import Quantizer

RELU = Activation(A.RECTIFIED_LINEAR)
TANH = Activation(A.TANH)
SILU = Activation(A.SILU)
EPSILON = 1e-3


def generator(*seed: int) -> np.random.Generator:
    return np.random.default_rng([2025, *seed])


def normal(seed: int, *shape: int) -> Array:
    return generator(seed).standard_normal(shape)


def assert_gradient(
    function: Callable[[Array], Array], gradient: Callable[[Array], Array], point: Array, seed: int = 0
) -> None:
    """<v, f(x + hu) - f(x - hu)> / 2h == <gradient(v), u> for random v and u."""
    rng, h = generator(seed), 1e-5
    for _ in range(3):
        u = rng.standard_normal(point.shape)
        difference = (function(point + h * u) - function(point - h * u)) / (2 * h)
        v = rng.standard_normal(difference.shape)
        result = gradient(v)
        assert result.shape == point.shape
        numeric, analytic = np.vdot(v, difference), np.vdot(result, u)
        assert analytic == pytest.approx(numeric, rel=1e-6, abs=1e-7 * (1 + np.sqrt(point.size)))


def assert_close(actual: Any, expected: Any, atol: float = 1e-12) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=atol)


def function_name(value: Any) -> str | None:
    return A(value.function).name.lower() if isinstance(value, Activation) else None


# ---------------------------------------------------------------------------------------------------------------------
# Normalization

IMAGE, VECTOR = (3, 6, 3, 5), (5, 6)  # x, batch first

NORMALIZATIONS = {
    "batch": Normalization(Kind.BATCH, EPSILON),
    "instance": Normalization(Kind.INSTANCE, EPSILON),
    "layer 0": Normalization(Kind.LAYER, EPSILON, axis=0),
    "layer 1": Normalization(Kind.LAYER, EPSILON, axis=1),
    "layer 2": Normalization(Kind.LAYER, EPSILON, axis=2),
    "group 1": Normalization(Kind.GROUP, EPSILON, groups=1),
    "group 3": Normalization(Kind.GROUP, EPSILON, groups=3),
    "group 6": Normalization(Kind.GROUP, EPSILON, groups=6),
}
kinds = pytest.mark.parametrize("n", NORMALIZATIONS.values(), ids=NORMALIZATIONS)
shapes = pytest.mark.parametrize("shape", [IMAGE, VECTOR], ids=["image", "vector"])


def parameter_shape(n: Normalization, shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[1:] if n.kind == Kind.LAYER else shape[1:2]


def parameters(n: Normalization, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """beta and gamma."""
    size = parameter_shape(n, shape)
    return normal(1, *size), normal(2, *size)


def shares_statistics(n: Normalization, one: tuple[int, ...], other: tuple[int, ...], channels: int) -> bool:
    """Whether two elements (sample, channel, row, column) are normalized together; a vector has (sample, channel)."""
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
@pytest.mark.parametrize("f", [IDENTITY, TANH, SILU, Activation(A.SOFTPLUS, 1.5, 0.7)], ids=function_name)
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


# ---------------------------------------------------------------------------------------------------------------------
# Fused chains

CONVOLUTION = convolution.Geometry((2, 1), (1, 2), (1, 0, 2, 1), 2, (3, 5))  # kernel (2, 3) on (5, 6)
TRANSPOSED = convolution.Geometry((2, 1), (1, 1), (0, 1, 1, 0), 1, (5, 4))  # kernel (2, 3) on (3, 3)

# (first layer, shape of its input)
WEIGHTED: dict[str, tuple[fused.Weighted, tuple[int, ...]]] = {
    "convolution": (fused.Convolution(normal(50, 6, 2, 2, 3), normal(51, 6), CONVOLUTION), (3, 4, 5, 6)),
    "transposed": (
        fused.Convolution(normal(52, 4, 6, 2, 3), normal(53, 6), TRANSPOSED, transposed=True),
        (3, 4, 3, 3),
    ),
    "fully connected": (fused.FullyConnected(normal(54, 6, 5), normal(55, 6)), (5, 5)),
}
weighted = pytest.mark.parametrize(("first", "shape"), WEIGHTED.values(), ids=WEIGHTED)
fused_kinds = pytest.mark.parametrize(
    "n",
    [NORMALIZATIONS[name] for name in ("batch", "instance", "layer 0", "layer 2", "group 3")],
    ids=["batch", "instance", "layer 0", "layer 2", "group 3"],
)


def training(first: fused.FirstLayer, n: Normalization, inputs: list[Array], *rest: Any) -> Array:
    return fused.training_forward(first, n, inputs, *rest)[0]


@weighted
@fused_kinds
@pytest.mark.parametrize("f", [IDENTITY, TANH, SILU], ids=function_name)
def test_fused_weighted_gradients(
    first: fused.Weighted, shape: tuple[int, ...], n: Normalization, f: Activation
) -> None:
    x = normal(56, *shape)
    boundary = fused.first_forward(first, [x])
    beta, gamma = parameters(n, boundary.shape)
    y, state, _ = fused.training_forward(first, n, [x], beta, gamma, f)
    assert fused.parameter_slots(first) == ("weights", "bias", "beta", "gamma")
    assert first.bias is not None

    def slot(k: int) -> Callable[[Array], Array]:
        def gradient(v: Array) -> Array:
            wanted = [number == k for number in range(4)]
            inputs, found = fused.backward(first, n, state, [x], beta, gamma, y, v, f, [False], wanted)
            assert inputs == [None]
            assert [entry is not None for entry in found] == wanted
            entry = found[k]
            assert entry is not None
            return entry

        return gradient

    def input_gradient(v: Array) -> Array:
        inputs, found = fused.backward(first, n, state, [x], beta, gamma, y, v, f, [True], [False] * 4)
        assert found == [None] * 4
        entry = inputs[0]
        assert entry is not None
        return entry

    assert_gradient(lambda x: training(first, n, [x], beta, gamma, f), input_gradient, x)
    assert_gradient(
        lambda w: training(replace(first, weights=w), n, [x], beta, gamma, f), slot(0), np.asarray(first.weights)
    )
    assert_gradient(lambda b: training(replace(first, bias=b), n, [x], beta, gamma, f), slot(1), first.bias)
    assert_gradient(lambda beta: training(first, n, [x], beta, gamma, f), slot(2), beta)
    assert_gradient(lambda gamma: training(first, n, [x], beta, gamma, f), slot(3), gamma)


@weighted
def test_fused_all_gradients_at_once(first: fused.Weighted, shape: tuple[int, ...]) -> None:
    """One call for all gives what one call for each gives, and None for the rest."""
    n, x = NORMALIZATIONS["batch"], normal(57, *shape)
    y, state, _ = fused.training_forward(first, n, [x], None, None, TANH)
    dy = normal(58, *y.shape)

    def run(wanted_inputs: list[bool], wanted: list[bool]) -> list[Array | None]:
        inputs, found = fused.backward(first, n, state, [x], None, None, y, dy, TANH, wanted_inputs, wanted)
        return inputs + found

    everything = run([True], [True] * 4)
    for wanted in itertools.product([False, True], repeat=5):
        for got, expected, is_wanted in zip(run([wanted[0]], list(wanted[1:])), everything, wanted, strict=True):
            assert (got is not None) == is_wanted
            if is_wanted:
                np.testing.assert_array_equal(got, expected)


@weighted
def test_fused_without_its_input(first: fused.Weighted, shape: tuple[int, ...]) -> None:
    """The input is needed for the gradient of the weights only."""
    n, x = NORMALIZATIONS["instance" if len(shape) == 4 else "layer 0"], normal(59, *shape)
    y, state, _ = fused.training_forward(first, n, [x], None, None, TANH)
    dy = normal(60, *y.shape)
    wanted = [False, True, True, True]
    expected = fused.backward(first, n, state, [x], None, None, y, dy, TANH, [True], wanted)
    got = fused.backward(first, n, state, [None], None, None, y, dy, TANH, [True], wanted, [shape])
    for ours, theirs in zip(got[0] + got[1], expected[0] + expected[1], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="dw needs the input x"):
        fused.backward(first, n, state, [None], None, None, y, dy, TANH, [False], [True] * 4, [shape])


def test_fused_by_hand() -> None:
    """Without a bias: z = x W^T, then batch normalization of every column, in training and in inference."""
    n, x, w = replace(NORMALIZATIONS["batch"], momentum=0.25), normal(61, 5, 3), normal(62, 4, 3)
    beta, gamma, moving = normal(63, 4), normal(64, 4), Moving(normal(65, 4), np.full(4, 0.5))
    first, h = fused.FullyConnected(w, None), x @ w.T
    y, _, after = fused.training_forward(first, n, [x], beta, gamma, RELU, moving)
    expected = gamma * (h - h.mean(axis=0)) / np.sqrt(h.var(axis=0) + EPSILON) + beta
    np.testing.assert_allclose(y, np.maximum(expected, 0.0), rtol=1e-10, atol=1e-12)
    assert moving.mean is not None
    assert_close(after.mean, 0.25 * moving.mean + 0.75 * h.mean(axis=0))
    y = fused.inference_forward(first, n, [x], beta, gamma, RELU, moving)
    expected = gamma * (h - moving.mean) / math.sqrt(0.5 + EPSILON) + beta
    np.testing.assert_allclose(y, np.maximum(expected, 0.0), rtol=1e-10, atol=1e-12)


def test_fused_inference_may_have_an_activation_in_between() -> None:
    n, x = NORMALIZATIONS["layer 0"], normal(66, 4, 5)
    first = fused.FullyConnected(normal(67, 6, 5), None, TANH)
    y = fused.inference_forward(first, n, [x], None, None, IDENTITY)
    between = np.tanh(x @ first.weights.T)
    np.testing.assert_array_equal(y, normalization.inference_forward(n, between, None, None, IDENTITY))
    with pytest.raises(ValueError, match=r"only the last layer has an activation; .* function 4"):
        fused.training_forward(first, n, [x], None, None, IDENTITY)
    _, state, _ = normalization.training_forward(n, between, None, None, IDENTITY)
    with pytest.raises(ValueError, match="only the last layer has an activation"):
        fused.backward(first, n, state, [x], None, None, y, y, IDENTITY, [True], [True] * 4)


# Operands: a sample, a parameter (one copy for all samples) and one that is broadcast along an axis as well.
OPERANDS: dict[Op, list[Array]] = {
    Op.TANH: [normal(70, 3, 6, 2, 3)],
    Op.EXP: [normal(71, 3, 6, 2, 3)],
    Op.ADD: [normal(72, 3, 6, 2, 3), normal(73, 3, 6, 2, 3)],
    Op.SUBTRACT: [normal(74, 1, 6, 1, 3), normal(75, 3, 6, 2, 1)],
    Op.MULTIPLY: [normal(76, 3, 6, 2, 3), normal(77, 1, 6, 2, 3)],
    Op.DIVIDE: [normal(78, 3, 6, 2, 3), generator(79).uniform(1, 2, (1, 1, 2, 3))],
    Op.MULTIPLY_ADD: [normal(80, 3, 6, 2, 3), normal(81, 1, 6, 1, 1), normal(82, 3, 1, 2, 3)],
    Op.SELECT: [np.sign(normal(83, 3, 6, 2, 3)) + 1.0, normal(84, 3, 6, 2, 3), normal(85, 1, 6, 2, 3)],
}


@fused_kinds
@pytest.mark.parametrize("op", OPERANDS, ids=lambda op: op.name.lower())
@pytest.mark.parametrize("f", [IDENTITY, TANH], ids=function_name)
def test_fused_arithmetic_gradients(op: Op, n: Normalization, f: Activation) -> None:
    first, inputs = fused.Arithmetic(op), OPERANDS[op]
    beta, gamma = parameters(n, (3, 6, 2, 3))
    y, state, _ = fused.training_forward(first, n, inputs, beta, gamma, f)
    assert y.shape == (3, 6, 2, 3)
    assert fused.parameter_slots(first) == ("beta", "gamma")

    for k, operand in enumerate(inputs):
        wanted = [number == k for number in range(len(inputs))]

        def forward(x: Array, k: int = k) -> Array:
            return training(first, n, [*inputs[:k], x, *inputs[k + 1 :]], beta, gamma, f)

        def gradient(v: Array, k: int = k, wanted: list[bool] = wanted) -> Array:
            found, parameters = fused.backward(first, n, state, inputs, beta, gamma, y, v, f, wanted, [False, False])
            assert parameters == [None, None]
            assert [entry is not None for entry in found] == wanted
            entry = found[k]
            assert entry is not None
            return entry

        if op == Op.SELECT and k == 0:
            assert not np.any(gradient(y))
        else:
            assert_gradient(forward, gradient, operand)

    def slot(v: Array, k: int) -> Array:
        found, parameters = fused.backward(
            first, n, state, inputs, beta, gamma, y, v, f, [False] * len(inputs), [k == 0, k == 1]
        )
        assert found == [None] * len(inputs)
        entry = parameters[k]
        assert entry is not None
        return entry

    assert_gradient(lambda beta: training(first, n, inputs, beta, gamma, f), lambda v: slot(v, 0), beta)
    assert_gradient(lambda gamma: training(first, n, inputs, beta, gamma, f), lambda v: slot(v, 1), gamma)


@fused_kinds
def test_fused_arithmetic_of_parameters_alone(n: Normalization) -> None:
    """Every sample is the same; the gradient is the sum over the batch."""
    first, inputs = fused.Arithmetic(Op.MULTIPLY), [normal(86, 1, 6, 2, 3), normal(87, 1, 6, 2, 3)]
    y, state, _ = fused.training_forward(first, n, inputs, None, None, TANH, samples=4)
    assert y.shape == (4, 6, 2, 3)
    inference = fused.inference_forward(first, n, inputs, None, None, TANH, samples=4)
    np.testing.assert_array_equal(inference, y)

    def gradient(v: Array) -> Array:
        found, _ = fused.backward(first, n, state, inputs, None, None, y, v, TANH, [True, False], [False, False])
        assert found[0] is not None
        return found[0]

    assert_gradient(
        lambda a: fused.training_forward(first, n, [a, inputs[1]], None, None, TANH, samples=4)[0], gradient, inputs[0]
    )


def test_fused_addition_does_not_need_its_operands() -> None:
    n, first, sizes = NORMALIZATIONS["batch"], fused.Arithmetic(Op.ADD), [(3, 6), (1, 6)]
    inputs = [normal(88, *sizes[0]), normal(89, *sizes[1])]
    y, state, _ = fused.training_forward(first, n, inputs, None, None, RELU)
    dy, both = normal(90, *y.shape), [True, True]
    expected, _ = fused.backward(first, n, state, inputs, None, None, y, dy, RELU, both, both)
    got, _ = fused.backward(first, n, state, [None, None], None, None, y, dy, RELU, both, both, sizes)
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    # The output of the chain is not the exponential itself.
    with pytest.raises(ValueError, match="EXP needs"):
        fused.backward(fused.Arithmetic(Op.EXP), n, state, [None], None, None, y, dy, RELU, [True], both, [(3, 6)])


def test_fused_ties() -> None:
    n, a = NORMALIZATIONS["layer 0"], normal(91, 2, 5)
    for split in (False, True):
        first = fused.Arithmetic(Op.MAXIMUM, split_ties=split)
        _, state, _ = fused.training_forward(first, n, [a, a], None, None, IDENTITY)
        dy, both = normal(92, 2, 5), [True, True]
        (da, db), _ = fused.backward(first, n, state, [a, a], None, None, None, dy, IDENTITY, both, both)
        dh = normalization.backward(n, state, None, None, None, dy, IDENTITY, {"dx"})["dx"]
        np.testing.assert_array_equal(da, 0.5 * dh if split else dh)
        np.testing.assert_array_equal(db, 0.5 * dh if split else np.zeros((2, 5)))


def test_fused_observed_values() -> None:
    n, both = Normalization(Kind.BATCH, 1e-5), [True, True]
    beta, gamma, dy = np.zeros(2), np.ones(2), np.array([[1.0, 0.0], [0.0, 2.0]])
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    first = fused.FullyConnected(np.eye(2), np.zeros(2))
    y, state, _ = fused.training_forward(first, n, [x], beta, gamma, IDENTITY)
    np.testing.assert_allclose(y, [[-1, -1], [1, 1]], atol=1e-4)
    (dx,), (dw, db, dbeta, dgamma) = fused.backward(
        first, n, state, [x], beta, gamma, y, dy, IDENTITY, [True], [True] * 4
    )
    assert_close(dbeta, [1, 2], atol=1e-4)
    assert_close(dgamma, [-1, 2], atol=1e-4)
    for gradient in (dx, dw, db):
        assert_close(gradient, np.zeros_like(gradient), atol=1e-4)

    a, b, add = np.array([[1.0, 2.0], [2.0, 3.0]]), np.array([[0.0, 0.0], [1.0, 1.0]]), fused.Arithmetic(Op.ADD)
    y, state, _ = fused.training_forward(add, n, [a, b], beta, gamma, IDENTITY)
    np.testing.assert_allclose(y, [[-1, -1], [1, 1]], atol=1e-4)
    (da, db), (dbeta, dgamma) = fused.backward(add, n, state, [a, b], beta, gamma, y, dy, IDENTITY, both, both)
    assert_close(dbeta, [1, 2], atol=1e-4)
    assert_close(dgamma, [-1, 2], atol=1e-4)
    for gradient in (da, db):
        assert_close(gradient, np.zeros((2, 2)), atol=1e-4)


@weighted
def test_fused_empty_batch(first: fused.Weighted, shape: tuple[int, ...]) -> None:
    for n in NORMALIZATIONS.values():
        x = np.zeros((0, *shape[1:]))
        y, state, _ = fused.training_forward(first, n, [x], None, None, TANH)
        assert len(y) == 0
        (dx,), found = fused.backward(first, n, state, [x], None, None, y, y, TANH, [True], [True] * 4)
        assert dx is not None
        assert dx.shape == x.shape
        for gradient in found:
            assert gradient is not None
            assert not np.any(gradient)


def test_fused_rejects_wrong_calls() -> None:
    n, x, first = NORMALIZATIONS["batch"], normal(93, 3, 5), fused.FullyConnected(normal(94, 6, 5), None)
    y, state, _ = fused.training_forward(first, n, [x], None, None, IDENTITY)
    with pytest.raises(ValueError, match="4 parameter gradients, weights, bias, beta, gamma; got 2"):
        fused.backward(first, n, state, [x], None, None, y, y, IDENTITY, [True], [True] * 2)
    with pytest.raises(ValueError, match="2 parameter gradients, beta, gamma; got 4"):
        fused.backward(fused.Arithmetic(Op.TANH), n, state, [y], None, None, y, y, IDENTITY, [True], [True] * 4)
    convolve, shape = WEIGHTED["convolution"]
    y, state, _ = fused.training_forward(convolve, n, [normal(95, *shape)], None, None, IDENTITY)
    with pytest.raises(ValueError, match="its input or the shape"):
        fused.backward(convolve, n, state, [None], None, None, y, y, IDENTITY, [True], [False] * 4)


@weighted
def test_fused_quantization(first: fused.Weighted, shape: tuple[int, ...]) -> None:
    x, q = normal(96, *shape), Quantizer(generator(97).uniform(5, 20, 6), normal(98, 6), axis=1)
    assert q.scale is not None
    assert q.bias is not None
    h = fused.first_forward(first, [x])
    column = (6,) + (1,) * (h.ndim - 2)
    scaled = np.rint(h * q.scale.reshape(column) + q.bias.reshape(column))
    got = fused.quantized_forward(first, q, x, -20, 30)
    np.testing.assert_array_equal(got, np.clip(scaled, -20, 30))
    assert got.min() == -20
    assert got.max() == 30
    back = fused.dequantized_forward(first, q, x)
    np.testing.assert_allclose(back, (h - q.bias.reshape(column)) / q.scale.reshape(column))


# ---------------------------------------------------------------------------------------------------------------------
# Dropout


@pytest.mark.parametrize(
    ("control", "size_axes", "from_slowest", "expected"),
    [
        (0b0000, (3, 2, 1), False, ()),
        (0b0001, (3, 2, 1), False, (3,)),
        (0b0100, (3, 2, 1), False, (1,)),
        (0b0011, (3, 2, 1), False, (2, 3)),
        (0b1000, (3, 2, 1), False, (0,)),
        (0b1111, (3, 2, 1), False, (0, 1, 2, 3)),
        (0b11110000, (3, 2, 1), False, ()),
        (0b0001, (1,), False, (1,)),
        (0b0110, (1,), False, ()),
        (0b1000, (1,), False, (0,)),
        (0b0001, (1, 2, 3), False, (1,)),  # a layout whose size[0] is the slowest axis
        (0b1111, (4, 3, 2, 1), False, (0, 2, 3, 4)),
        (0b11111111, (5, 4, 3, 2, 1), False, (0, 3, 4, 5)),  # the slower axes of a sample have no bit
        (0b0001, (3, 2, 1), True, (0,)),
        (0b0010, (3, 2, 1), True, (1,)),
        (0b1100, (3, 2, 1), True, (2, 3)),
        (0b1111, (1,), True, (0, 1)),
        (0b0001, (1, 2, 3), True, (0,)),
        (0b1111, (4, 3, 2, 1), True, (0, 1, 2, 3)),
        (0b11110000, (3, 2, 1), True, ()),
    ],
)
def test_dropout_control_bits(
    control: int, size_axes: tuple[int, ...], from_slowest: bool, expected: tuple[int, ...]
) -> None:
    assert dropout.shared_axes(control, size_axes, from_slowest) == expected


def test_dropout_reversed_bits_mirror_the_others_on_images() -> None:
    for control in range(16):
        mirrored = int(f"{control:04b}"[::-1], 2)
        assert dropout.shared_axes(control, (3, 2, 1), True) == dropout.shared_axes(mirrored, (3, 2, 1))


@pytest.mark.parametrize("control", range(16))
def test_dropout_by_definition(control: int) -> None:
    shape, rate = (3, 2, 5, 4), 0.3
    axes = dropout.shared_axes(control, (3, 2, 1))
    decisions = dropout.mask_shape(shape, axes)
    uniform, x = generator(100).uniform(0, 1, decisions), normal(101, *shape)
    mask = dropout.mask_from_uniform(uniform, rate)
    assert mask.dtype == np.bool_
    y = dropout.forward(x, mask, rate)
    assert y.shape == shape
    for k in np.ndindex(shape):
        own = tuple(0 if axis in axes else index for axis, index in enumerate(k))
        assert y[k] == (x[k] / 0.7 if uniform[own] >= rate else 0.0)
    assert_gradient(lambda x: dropout.forward(x, mask, rate), lambda v: dropout.backward(v, mask, rate), x)


def test_dropout_keeps_its_share_and_its_mean() -> None:
    uniform = (np.arange(1000) + 0.5) / 1000
    for rate in (0.0, 0.1, 0.5, 0.999):
        mask = dropout.mask_from_uniform(uniform, rate)
        assert np.mean(mask) == pytest.approx(1.0 - rate)
        assert np.mean(dropout.forward(np.ones(1000), mask, rate)) == pytest.approx(1.0)


def test_dropout_at_the_borders() -> None:
    x = np.array([[1.0, np.nan, np.inf, -2.0]])
    everything = dropout.mask_from_uniform(np.zeros((1, 4)), 0.0)  # rate 0 keeps even the smallest number
    np.testing.assert_array_equal(dropout.forward(x, everything, 0.0), x)
    np.testing.assert_array_equal(dropout.mask_from_uniform(np.array([0.25, 0.5, 0.75]), 0.5), [False, True, True])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dropped = dropout.forward(x, np.zeros((1, 4), dtype=np.bool_), 0.5)
    np.testing.assert_array_equal(dropped, [[0.0, np.nan, np.nan, 0.0]])
    assert dropout.forward(np.zeros((0, 3)), np.zeros((1, 3), dtype=np.bool_), 0.5).shape == (0, 3)
    for rate in (-0.1, 1.0, math.nan):
        with pytest.raises(ValueError, match=r"probability in \[0, 1\)"):
            dropout.mask_from_uniform(x, rate)


# ---------------------------------------------------------------------------------------------------------------------
# Quantization

RANGES = {f"{name}{bits}": (name, bits) for name in ("int", "uint") for bits in (1, 2, 4, 8, 16, 32, 64)}


def bounds(name: str, bits: int) -> tuple[int, int]:
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if name == "int" else (0, (1 << bits) - 1)


@pytest.mark.parametrize(("name", "bits"), RANGES.values(), ids=RANGES)
def test_quantize_saturates_and_rounds_ties_to_even(name: str, bits: int) -> None:
    low, high = bounds(name, bits)
    values = [-np.inf, -1e30, -(2.0**63), -300.5, -2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5, 127.5, 254.5]
    values += [1e9 + 0.5, 2.0**62, 2.0**63, 2.0**63 + 4096.0, 2.0**64, 1e30, np.inf, float(low), float(high)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = quantization.quantize(Quantizer(), np.array([*values, np.nan]), low, high)
    for value, got in zip(values, y[:-1].tolist(), strict=True):
        exact = (low if value < 0 else high) if np.isinf(value) else round(value)  # Python rounds ties to even
        assert got == min(max(exact, low), high), value
    assert y[-1] == 0


def test_quantize_observed_values() -> None:
    q = Quantizer(np.array([0.5]), np.array([1.0]))
    np.testing.assert_array_equal(quantization.quantize(q, np.array([0.0, 2.0, 4.0, 6.0]), -128, 127), [1, 2, 3, 4])
    np.testing.assert_array_equal(quantization.dequantize(q, np.array([1, 2, 3, 4], np.int8)), [0, 2, 4, 6])


@pytest.mark.parametrize("axis", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("given", ["both", "scale", "bias", "neither"])
def test_quantization_by_definition(axis: int | None, given: str) -> None:
    shape = (3, 2, 5, 4)
    count = 1 if axis is None else shape[axis]
    scale, bias = generator(110).uniform(2, 40, count), 5.0 * normal(111, count)
    q = Quantizer(scale if given in ("both", "scale") else None, bias if given in ("both", "bias") else None, axis)
    x = 3.0 * normal(112, *shape)
    y = quantization.quantize(q, x, -50, 60)
    back = quantization.dequantize(q, y)
    assert y.dtype == np.int64
    for k in np.ndindex(shape):
        index = 0 if axis is None else k[axis]
        s, b = (1.0 if q.scale is None else scale[index]), (0.0 if q.bias is None else bias[index])
        assert y[k] == min(max(round(s * x[k] + b), -50), 60)
        assert back[k] == (int(y[k]) - b) / s
        if -50 < y[k] < 60:
            assert abs(back[k] - x[k]) <= 0.5 / s + 1e-12


def test_quantization_borders() -> None:
    assert quantization.quantize(Quantizer(np.ones(3), None, 1), np.zeros((0, 3)), 0, 255).shape == (0, 3)
    assert quantization.dequantize(Quantizer(np.ones(0), None, 0), np.zeros((0, 3))).shape == (0, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = quantization.dequantize(Quantizer(np.array([0.0])), np.array([1, -1, 0]))
    np.testing.assert_array_equal(values, [np.inf, -np.inf, np.nan])
    largest = quantization.dequantize(Quantizer(), np.array([2**64 - 1], np.uint64))
    np.testing.assert_array_equal(largest, [2.0**64])
    with pytest.raises(ValueError, match=r"scale has 2 values; x of shape \(2, 3\) needs 3 values along axis 1"):
        quantization.quantize(Quantizer(np.ones(2), None, 1), np.zeros((2, 3)), 0, 255)
    with pytest.raises(ValueError, match=r"bias has 2 values; .* needs one value"):
        quantization.dequantize(Quantizer(None, np.ones(2)), np.zeros((2, 3)))
