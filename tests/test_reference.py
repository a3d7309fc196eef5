"""The reference engine against its definitions and against finite differences.

Gradients are compared with central differences along random directions, contracted with random cotangents, at points
away from kinks. Kinks, ties, padding and special values are tested by definition.
"""

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openbnns.engines.reference import activation, arithmetic, convolution, fully_connected, loss, pooling
from openbnns.engines.reference.activation import IDENTITY, Activation
from openbnns.engines.reference.activation import Function as A
from openbnns.engines.reference.arithmetic import Function as Op
from openbnns.engines.reference.loss import Function as L
from openbnns.engines.reference.loss import Loss, Reduction
from openbnns.engines.reference.pooling import Function as P

Array = activation.Array
TANH = Activation(A.TANH)


def generator(*seed: int) -> np.random.Generator:
    return np.random.default_rng([2024, *seed])


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


def away_from(x: Array, *kinks: float) -> Array:
    """x with every value closer than 0.01 to a kink pushed 0.02 above it."""
    for kink in kinks:
        x = np.where(np.abs(x - kink) < 0.01, kink + 0.02, x)
    return x


# ---------------------------------------------------------------------------------------------------------------------
# Activation

CHANNEL_ALPHA = np.array([0.1, 0.7, -0.4, 1.3, 0.0])

# One activation of every differentiable elementwise function, and the inputs where its slope jumps.
ELEMENTWISE: list[tuple[Activation, tuple[float, ...]]] = [
    (IDENTITY, ()),
    (Activation(A.RECTIFIED_LINEAR), (0.0,)),
    (Activation(A.LEAKY_RECTIFIED_LINEAR, 0.2), (0.0,)),
    (Activation(A.SIGMOID), ()),
    (Activation(A.TANH), ()),
    (Activation(A.SCALED_TANH, 1.7, 0.6), ()),
    (Activation(A.ABS), (0.0,)),
    (Activation(A.LINEAR, -0.8), ()),
    (Activation(A.CLAMP, -1.0, 2.0), (-1.0, 2.0)),
    (Activation(A.GELU_APPROXIMATION, 0.7978845608, 0.044715), ()),
    (Activation(A.HARD_SIGMOID, 0.3, 0.4), (-4.0 / 3.0, 2.0)),
    (Activation(A.SOFTPLUS, 1.5, 0.7), ()),
    (Activation(A.SOFTSIGN), (0.0,)),
    (Activation(A.ELU, 1.3), (0.0,)),
    (Activation(A.CLAMPED_LEAKY_RECTIFIED_LINEAR, 0.3, 2.5), (0.0, 2.5)),
    (Activation(A.LINEAR_WITH_BIAS, 0.9, -0.4), ()),
    (Activation(A.LOG_SIGMOID), ()),
    (Activation(A.SELU), (0.0,)),
    (Activation(A.CELU, 1.6), (0.0,)),
    (Activation(A.HARD_SHRINK, 0.9), (-0.9, 0.9)),
    (Activation(A.SOFT_SHRINK, 0.9), (-0.9, 0.9)),
    (Activation(A.TANH_SHRINK), ()),
    (Activation(A.THRESHOLD, 0.5, 0.2), (0.5,)),
    (Activation(A.PRELU_PER_CHANNEL, 0.0, 0.0, CHANNEL_ALPHA), (0.0,)),
    (Activation(A.HARD_SWISH), (-3.0, 3.0)),
    (Activation(A.SILU), ()),
    (Activation(A.RELU6), (0.0, 6.0)),
    (Activation(A.ERF), ()),
    (Activation(A.GELU), ()),
    (Activation(A.GELU_APPROXIMATION_SIGMOID), ()),
]
AXIS_WISE = [Activation(A.SOFTMAX), Activation(A.LOG_SOFTMAX)]


def activation_name(value: Any) -> str | None:
    return A(value.function).name.lower() if isinstance(value, Activation) else None


def test_every_differentiable_function_is_tested() -> None:
    without_gradient = {
        A.GUMBEL,
        A.GUMBEL_MAX,
        A.INTEGER_LINEAR_SATURATE,
        A.INTEGER_LINEAR_SATURATE_PER_CHANNEL,
    }
    tested = {f.function for f, _ in ELEMENTWISE} | {f.function for f in AXIS_WISE}
    assert tested == set(A) - without_gradient


# f(x; a, b) as one would write it for a single number.
PLAIN: dict[A, Callable[[float, float, float], float]] = {
    A.IDENTITY: lambda x, a, b: x,
    A.RECTIFIED_LINEAR: lambda x, a, b: max(x, 0),
    A.LEAKY_RECTIFIED_LINEAR: lambda x, a, b: a * x if x < 0 else x,
    A.SIGMOID: lambda x, a, b: 1 / (1 + math.exp(-x)),
    A.TANH: lambda x, a, b: math.tanh(x),
    A.SCALED_TANH: lambda x, a, b: a * math.tanh(b * x),
    A.ABS: lambda x, a, b: abs(x),
    A.LINEAR: lambda x, a, b: a * x,
    A.CLAMP: lambda x, a, b: min(max(x, a), b),
    A.GELU_APPROXIMATION: lambda x, a, b: 0.5 * x * (1 + math.tanh(a * (x + b * x**3))),
    A.HARD_SIGMOID: lambda x, a, b: max(0, min(1, a * x + b)),
    A.SOFTPLUS: lambda x, a, b: a * math.log(1 + math.exp(b * x)),
    A.SOFTSIGN: lambda x, a, b: x / (1 + abs(x)),
    A.ELU: lambda x, a, b: a * (math.exp(x) - 1) if x < 0 else x,
    A.CLAMPED_LEAKY_RECTIFIED_LINEAR: lambda x, a, b: min(a * x, b) if x < 0 else min(x, b),
    A.LINEAR_WITH_BIAS: lambda x, a, b: a * x + b,
    A.LOG_SIGMOID: lambda x, a, b: -math.log(1 + math.exp(-x)),
    A.SELU: lambda x, a, b: 1.0507009873554805 * (1.6732632423543772 * (math.exp(x) - 1) if x < 0 else x),
    A.CELU: lambda x, a, b: a * (math.exp(x / a) - 1) if x < 0 else x,
    A.HARD_SHRINK: lambda x, a, b: 0 if abs(x) < a else x,
    A.SOFT_SHRINK: lambda x, a, b: 0 if abs(x) < a else x - math.copysign(a, x),
    A.TANH_SHRINK: lambda x, a, b: x - math.tanh(x),
    A.THRESHOLD: lambda x, a, b: b if x <= a else x,
    A.HARD_SWISH: lambda x, a, b: x * min(max(x + 3, 0), 6) / 6,
    A.SILU: lambda x, a, b: x / (1 + math.exp(-x)),
    A.RELU6: lambda x, a, b: min(max(x, 0), 6),
    A.ERF: lambda x, a, b: math.erf(x),
    A.GELU: lambda x, a, b: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    A.GELU_APPROXIMATION_SIGMOID: lambda x, a, b: x / (1 + math.exp(-1.702 * x)),
}


@pytest.mark.parametrize(("f", "kinks"), ELEMENTWISE, ids=activation_name)
def test_activation_by_definition(f: Activation, kinks: tuple[float, ...]) -> None:
    x = generator(9).uniform(-5, 8, (2, 5, 11))
    y = activation.forward(f, x)
    if f.function == A.PRELU_PER_CHANNEL:
        expected = np.where(x < 0, CHANNEL_ALPHA[:, np.newaxis] * x, x)
    else:
        plain = PLAIN[A(f.function)]
        expected = np.array([plain(value, f.alpha, f.beta) for value in x.flat]).reshape(x.shape)
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("f", "kinks"), ELEMENTWISE, ids=activation_name)
def test_activation_gradient(f: Activation, kinks: tuple[float, ...]) -> None:
    x = away_from(generator(1).uniform(-5, 7, (3, 5, 7)), *kinks)
    assert_gradient(lambda x: activation.forward(f, x), lambda v: activation.backward(f, v, x=x), x)


@pytest.mark.parametrize("axes", [(-1,), (1,), (0,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("f", AXIS_WISE, ids=activation_name)
def test_axis_wise_gradient(f: Activation, axes: tuple[int, ...]) -> None:
    x = generator(2).uniform(-3, 3, (3, 5, 2))
    y = activation.forward(f, x, axes)
    probabilities = y if f.function == A.SOFTMAX else np.exp(y)
    np.testing.assert_allclose(probabilities.sum(axis=axes), 1.0)
    np.testing.assert_allclose(activation.forward(f, x + 1e3, axes), y)
    assert_gradient(lambda x: activation.forward(f, x, axes), lambda v: activation.backward(f, v, x=x, axes=axes), x)
    assert_gradient(lambda x: activation.forward(f, x, axes), lambda v: activation.backward(f, v, y=y, axes=axes), x)


@pytest.mark.parametrize(("f", "kinks"), ELEMENTWISE, ids=activation_name)
def test_activation_gradient_from_output(f: Activation, kinks: tuple[float, ...]) -> None:
    available = activation.FROM_OUTPUT | {A.SCALED_TANH, A.RELU6}
    x = away_from(generator(3).uniform(-5, 7, (3, 5, 7)), *kinks)
    if f.function == A.GELU_APPROXIMATION_SIGMOID:  # determined by y only right of its minimum
        x = np.maximum(x, -0.74)
    y, dy = activation.forward(f, x), generator(4).standard_normal(x.shape)
    if f.function in available:
        expected = activation.backward(f, dy, x=x)
        np.testing.assert_allclose(activation.backward(f, dy, y=y), expected, rtol=1e-7, atol=1e-10)
    else:
        with pytest.raises(ValueError, match="cannot be found from its output"):
            activation.backward(f, dy, y=y)


def test_gelu_sigmoid_from_output_takes_the_larger_root() -> None:
    f, dy = Activation(A.GELU_APPROXIMATION_SIGMOID), np.ones(1)
    left = np.array([-2.0])
    y = activation.forward(f, left)
    from_output = activation.backward(f, dy, y=y)
    assert from_output[0] > 0.0 > activation.backward(f, dy, x=left)[0]
    np.testing.assert_array_equal(activation.fused_backward(f, dy, y, z=left), activation.backward(f, dy, x=left))
    np.testing.assert_array_equal(activation.fused_backward(f, dy, y), from_output)


def test_threshold_from_output_with_beta_above_alpha() -> None:
    f, x = Activation(A.THRESHOLD, 0.5, 2.0), np.array([0.2, 0.5, 0.7, 3.0])
    slope = activation.backward(f, np.ones(4), y=activation.forward(f, x))
    np.testing.assert_array_equal(slope, [0, 0, 1, 1])


@pytest.mark.parametrize("function", [A.LEAKY_RECTIFIED_LINEAR, A.ELU, A.CLAMPED_LEAKY_RECTIFIED_LINEAR])
def test_negative_alpha_cannot_be_differentiated_from_output(function: A) -> None:
    with pytest.raises(ValueError, match=r"alpha = -0\.5 is negative"):
        activation.backward(Activation(function, -0.5, 1.0), np.ones(2), y=np.ones(2))


def test_celu_keeps_the_sign_for_a_negative_alpha() -> None:
    f, x = Activation(A.CELU, -1.5), np.array([-2.0, -0.1, 0.3, 4.0])
    expected = activation.backward(f, np.ones(4), x=x)
    np.testing.assert_allclose(activation.backward(f, np.ones(4), y=activation.forward(f, x)), expected)


def test_slope_of_relu_from_the_right() -> None:
    f, z = Activation(A.RECTIFIED_LINEAR, right_slope=True), np.array([-1.0, 0.0, 1.0])
    np.testing.assert_array_equal(activation.fused_backward(f, np.ones(3), np.maximum(z, 0.0), z), [0, 1, 1])


def test_fused_elu_of_negative_alpha_is_differentiated_from_its_input() -> None:
    f, z = Activation(A.ELU, -0.5), np.array([-1.0, 2.0])
    slope = activation.fused_backward(f, np.ones(2), activation.forward(f, z), z)
    np.testing.assert_allclose(slope, [-0.5 * math.exp(-1.0), 1.0])


@pytest.mark.parametrize("function", [A.LEAKY_RECTIFIED_LINEAR, A.ELU, A.CELU])
def test_alpha_zero_from_output_is_relu(function: A) -> None:
    f, x = Activation(function, 0.0), np.array([-2.0, 3.0])
    np.testing.assert_array_equal(activation.backward(f, np.ones(2), y=activation.forward(f, x)), [0, 1])


@pytest.mark.parametrize(
    ("f", "x", "y", "slope"),
    [
        (Activation(A.RECTIFIED_LINEAR), 0.0, 0.0, 0.0),
        (Activation(A.LEAKY_RECTIFIED_LINEAR, 0.25), 0.0, 0.0, 1.0),
        (Activation(A.LEAKY_RECTIFIED_LINEAR, 0.25), -4.0, -1.0, 0.25),
        (Activation(A.ABS), 0.0, 0.0, 0.0),
        (Activation(A.CLAMP, -1.0, 2.0), -1.0, -1.0, 0.0),
        (Activation(A.CLAMP, -1.0, 2.0), 2.0, 2.0, 0.0),
        (Activation(A.HARD_SIGMOID, 0.5, 0.5), -1.0, 0.0, 0.0),
        (Activation(A.HARD_SIGMOID, 0.5, 0.5), 1.0, 1.0, 0.0),
        (Activation(A.ELU, 0.5), 0.0, 0.0, 1.0),
        (Activation(A.SELU), 0.0, 0.0, activation.SELU_SCALE),
        (Activation(A.CLAMPED_LEAKY_RECTIFIED_LINEAR, 0.1, 3.0), 3.0, 3.0, 0.0),
        (Activation(A.CLAMPED_LEAKY_RECTIFIED_LINEAR, 0.1, 3.0), 0.0, 0.0, 1.0),
        (Activation(A.HARD_SHRINK, 0.5), 0.5, 0.5, 1.0),
        (Activation(A.HARD_SHRINK, -0.5), 0.4, 0.0, 0.0),
        (Activation(A.SOFT_SHRINK, -0.5), -0.75, -0.25, 1.0),
        (Activation(A.THRESHOLD, 1.0, -7.0), 1.0, -7.0, 0.0),
        (Activation(A.HARD_SWISH), -3.0, 0.0, 0.0),
        (Activation(A.HARD_SWISH), 3.0, 3.0, 1.0),
        (Activation(A.RELU6), 0.0, 0.0, 0.0),
        (Activation(A.RELU6), 6.0, 6.0, 0.0),
        (Activation(A.PRELU_PER_CHANNEL, 0.25), 0.0, 0.0, 1.0),
    ],
)
def test_activation_at_kinks(f: Activation, x: float, y: float, slope: float) -> None:
    point = np.array([[x]])
    assert activation.forward(f, point).item() == y
    assert activation.backward(f, np.array([[2.0]]), x=point).item() == 2.0 * slope
    if f.function in activation.FROM_OUTPUT:
        assert activation.backward(f, np.array([[2.0]]), y=np.array([[y]])).item() == 2.0 * slope


@pytest.mark.parametrize(("f", "kinks"), ELEMENTWISE, ids=activation_name)
def test_activation_special_values(f: Activation, kinks: tuple[float, ...]) -> None:
    """Only NaN gives NaN, forward and in both derivatives, and nothing warns."""
    x = np.array([0.0, -0.0, 5e-324, 1e-30, -1e-30, 88.0, -104.0, 750.0, -750.0, 1e4, -1e4, 1e300, -1e300])
    x = np.concatenate([x, [np.inf, -np.inf, np.nan]])
    x = np.stack([x] * 5)[np.newaxis]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = activation.forward(f, x)
        np.testing.assert_array_equal(np.isnan(y), np.isnan(x))
        constant = f.function in {A.IDENTITY, A.LINEAR, A.LINEAR_WITH_BIAS}
        slope = activation.backward(f, np.ones(x.shape), x=x)
        np.testing.assert_array_equal(np.isnan(slope), np.isnan(x) & (not constant))
        if f.function in activation.FROM_OUTPUT:
            np.testing.assert_array_equal(np.isnan(activation.backward(f, np.ones(x.shape), y=y)), np.isnan(slope))
        assert np.all(np.isnan(activation.backward(f, np.full(x.shape, np.nan), x=x)))


def test_softmax_of_special_values() -> None:
    x = np.array([[1e4, -1e4, 1e4], [-np.inf, 0.0, -np.inf], [-np.inf] * 3, [np.nan, 0.0, 0.0]])
    y = activation.forward(Activation(A.SOFTMAX), x)
    np.testing.assert_array_equal(y[:2], [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]])
    assert np.all(np.isnan(y[2:]))


def test_alpha_gradient() -> None:
    x = away_from(generator(5).uniform(-2, 2, (3, 5, 4)), 0.0)
    dy = generator(6).standard_normal(x.shape)

    leaky = activation.alpha_gradient(Activation(A.LEAKY_RECTIFIED_LINEAR, 0.3), x, dy)
    assert leaky == pytest.approx(np.sum(dy[x < 0] * x[x < 0]))

    def prelu(alpha: Array) -> Array:
        return activation.forward(Activation(A.PRELU_PER_CHANNEL, channel_alpha=alpha), x)

    f = Activation(A.PRELU_PER_CHANNEL, channel_alpha=CHANNEL_ALPHA)
    assert_gradient(prelu, lambda v: np.asarray(activation.alpha_gradient(f, x, v)), CHANNEL_ALPHA)
    with pytest.raises(ValueError, match="no trainable alpha"):
        activation.alpha_gradient(TANH, x, dy)


def test_gumbel_pair() -> None:
    x, u = generator(7).standard_normal((3, 5)), generator(8).uniform(0.01, 0.98, (3, 5))
    noise = -np.log(-np.log(0.9 * u + 0.01) + 0.01)
    np.testing.assert_allclose(activation.forward(Activation(A.GUMBEL, 0.9, 0.01), x, uniform=u), noise)
    best = activation.forward(Activation(A.GUMBEL_MAX, 0.9, 0.01), x, axes=(1,), uniform=u)
    np.testing.assert_allclose(best, (x + noise).max(axis=1, keepdims=True))
    assert not np.any(activation.backward(Activation(A.GUMBEL, 0.9, 0.01), x, x=x))
    with pytest.raises(ValueError, match="GumbelMax has no gradient"):
        activation.backward(Activation(A.GUMBEL_MAX), x, x=x)
    with pytest.raises(ValueError, match="uniform"):
        activation.forward(Activation(A.GUMBEL), x)


def test_integer_linear_saturate() -> None:
    x = np.array([-100, -3, 0, 3, 100], dtype=np.int64)
    np.testing.assert_array_equal(activation.integer_linear_saturate(x, 3, 1, 2, -20, 50), [-20, -2, 0, 2, 50])
    per_channel = activation.integer_linear_saturate(
        np.array([[[5, -5], [5, -5]]]), [[1], [2]], [[0], [3]], [[1], [0]], -128, 127
    )
    np.testing.assert_array_equal(per_channel, [[[2, -3], [13, -7]]])
    with pytest.raises(ValueError, match="integer_linear_saturate"):
        activation.forward(Activation(A.INTEGER_LINEAR_SATURATE), x.astype(np.float64))


def test_activation_needs_input_or_output() -> None:
    with pytest.raises(ValueError, match="got neither"):
        activation.backward(TANH, np.ones(3))
    np.testing.assert_array_equal(activation.backward(Activation(A.LINEAR, 3.0), np.ones(3)), [3, 3, 3])


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
    "plain": ((3, 5, 7), (4, 3, 3, 2), convolution.Geometry((1, 1), (1, 1), (0, 0, 0, 0), 1, (3, 6))),
    "one by one": ((2, 3, 5), (3, 2, 1, 1), convolution.Geometry((1, 1), (1, 1), (0, 0, 0, 0), 1, (3, 5))),
    "stride": ((1, 7, 9), (2, 1, 3, 3), convolution.Geometry((2, 3), (1, 1), (1, 1, 0, 0), 1, (4, 3))),
    "dilation": ((2, 9, 8), (3, 2, 3, 2), convolution.Geometry((1, 2), (3, 2), (0, 0, 1, 1), 1, (3, 4))),
    "asymmetric padding": ((2, 4, 5), (3, 2, 3, 3), convolution.Geometry((1, 1), (1, 1), (2, 0, 0, 1), 1, (4, 4))),
    "padding beyond kernel": ((2, 3, 2), (3, 2, 2, 1), convolution.Geometry((1, 2), (1, 1), (3, 4, 5, 2), 1, (9, 5))),
    "nothing but padding": ((1, 2, 2), (1, 1, 2, 2), convolution.Geometry((1, 1), (1, 1), (4, 0, 0, 0), 1, (2, 1))),
    "remainder": ((2, 8, 9), (3, 2, 3, 3), convolution.Geometry((3, 2), (1, 1), (0, 0, 0, 0), 1, (2, 4))),
    "smaller output": ((2, 8, 9), (3, 2, 3, 3), convolution.Geometry((1, 1), (1, 1), (1, 1, 1, 1), 1, (3, 2))),
    "groups": ((4, 5, 5), (6, 2, 3, 3), convolution.Geometry((2, 1), (1, 2), (1, 0, 1, 2), 2, (2, 4))),
    "depthwise": ((3, 5, 4), (6, 1, 2, 3), convolution.Geometry((1, 1), (1, 1), (0, 1, 1, 1), 3, (5, 4))),
}
SCATTERED = {name: case for name, case in CONVOLUTIONS.items() if case[2].groups == 1}
convolution_cases = pytest.mark.parametrize(("image", "kernel", "g"), CONVOLUTIONS.values(), ids=CONVOLUTIONS)


def meetings(g: convolution.Geometry, windows: tuple[int, int], kernel: tuple[int, ...], size: tuple[int, int]) -> Any:
    """(window y, x, tap y, x, cell Y, X) wherever a tap of a window meets a cell of an image of this size."""
    for y, x, ky, kx in itertools.product(*map(range, (*windows, *kernel[2:]))):
        row = g.stride[0] * y + g.dilation[0] * ky - g.padding[0]
        column = g.stride[1] * x + g.dilation[1] * kx - g.padding[2]
        if 0 <= row < size[0] and 0 <= column < size[1]:
            yield y, x, ky, kx, row, column


@convolution_cases
def test_convolution_by_definition(
    image: tuple[int, int, int], kernel: tuple[int, int, int, int], g: convolution.Geometry
) -> None:
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
    image: tuple[int, int, int], kernel: tuple[int, int, int, int], g: convolution.Geometry, f: Activation
) -> None:
    rng = generator(21)
    x, w, b = rng.standard_normal((3, *image)), 0.3 * rng.standard_normal(kernel), rng.standard_normal(kernel[0])
    y = convolution.forward(x, w, b, f, g)

    def gradient(name: str) -> Callable[[Array], Array]:
        return lambda v: convolution.backward(x, y, v, w, f, g, {name}, image[1:])[name]

    assert_gradient(lambda x: convolution.forward(x, w, b, f, g), gradient("dx"), x)
    assert_gradient(lambda w: convolution.forward(x, w, b, f, g), gradient("dw"), w)
    assert_gradient(lambda b: convolution.forward(x, w, b, f, g), gradient("db"), b)


def transposed_case(case: tuple[Any, Any, convolution.Geometry]) -> tuple[Any, Any, convolution.Geometry]:
    """The convolution with its images exchanged: input (O, *windows), weights in the form v, output (I, H, W)."""
    image, kernel, g = case
    exchanged = convolution.Geometry(g.stride, g.dilation, g.padding, 1, image[1:])
    return (kernel[0], *g.out_size), kernel, exchanged


transposed_cases = pytest.mark.parametrize(
    ("image", "kernel", "g"), [transposed_case(case) for case in SCATTERED.values()], ids=SCATTERED
)


@transposed_cases
def test_transposed_convolution_by_definition(
    image: tuple[int, int, int], kernel: tuple[int, int, int, int], g: convolution.Geometry
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
    image: tuple[int, int, int], kernel: tuple[int, int, int, int], g: convolution.Geometry, f: Activation
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
    grouped = convolution.Geometry((1, 1), (1, 1), (0, 0, 0, 0), 2, (3, 6))
    with pytest.raises(ValueError, match="no groups"):
        convolution.transposed_forward(dy, w, None, IDENTITY, grouped)


# ---------------------------------------------------------------------------------------------------------------------
# Arithmetic


def spread_over(low: float, high: float, *kinks: float) -> Callable[[tuple[int, ...], int], Array]:
    """A maker of operands in (low, high), away from kinks."""
    return lambda shape, seed: away_from(generator(30, seed).uniform(low, high, shape), *kinks)


def nonzero(shape: tuple[int, ...], seed: int) -> Array:
    rng = generator(31, seed)
    return np.copysign(rng.uniform(0.5, 2.5, shape), rng.uniform(-1, 1, shape))


def between_steps(shape: tuple[int, ...], seed: int) -> Array:
    """Numbers k + 0.3: away from the steps of ceil, floor and round."""
    return np.floor(generator(32, seed).uniform(-4, 4, shape)) + 0.3


ANY, POSITIVE, INSIDE = spread_over(-2, 2, 0.0), spread_over(0.3, 3), spread_over(-0.9, 0.9)
OPERANDS: dict[Op, tuple[Callable[[tuple[int, ...], int], Array], ...]] = {
    **dict.fromkeys((Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.MINIMUM, Op.MAXIMUM, Op.MULTIPLY_NO_NAN), (ANY, ANY)),
    **dict.fromkeys((Op.DIVIDE, Op.DIVIDE_NO_NAN), (ANY, nonzero)),
    **dict.fromkeys((Op.FLOOR_DIVIDE, Op.TRUNC_DIVIDE, Op.TRUNC_REMAINDER), (spread_over(-2, 2), POSITIVE)),
    Op.POW: (POSITIVE, ANY),
    **dict.fromkeys((Op.MULTIPLY_ADD, Op.SELECT), (ANY, ANY, ANY)),
    **dict.fromkeys((Op.SQUARE_ROOT, Op.RECIPROCAL_SQUARE_ROOT, Op.LOG, Op.LOG2), (POSITIVE,)),
    **dict.fromkeys((Op.CEIL, Op.FLOOR, Op.ROUND), (between_steps,)),
    **dict.fromkeys((Op.ASIN, Op.ACOS, Op.ATANH, Op.TAN), (INSIDE,)),
    Op.ACOSH: (spread_over(1.2, 4),),
    Op.RECIPROCAL: (nonzero,),
    **dict.fromkeys((Op.SIN, Op.COS, Op.ATAN, Op.SINH, Op.COSH, Op.TANH, Op.ASINH, Op.EXP, Op.EXP2), (ANY,)),
    **dict.fromkeys((Op.ABS, Op.SIGN, Op.NEGATE, Op.SQUARE, Op.ERF), (ANY,)),
}
SHAPES = [(3, 5, 2), (1, 5, 1), (1, 1, 2)]  # a Sample, and two operands without a batch axis that also broadcast


def test_every_arithmetic_function_is_tested() -> None:
    assert set(OPERANDS) == set(Op)
    assert {op: len(makers) for op, makers in OPERANDS.items()} == arithmetic.OPERAND_COUNT


def far_from_a_jump(op: Op, operands: list[Array]) -> list[Array]:
    """Move the first operand of a step function or a choice so that its result is the same nearby."""
    first = operands[0]
    if op in (Op.FLOOR_DIVIDE, Op.TRUNC_DIVIDE, Op.TRUNC_REMAINDER):
        quotient = first / operands[1]
        first = (np.round(quotient) + 0.4) * operands[1]
    if op in (Op.MINIMUM, Op.MAXIMUM):
        first = np.where(np.abs(first - operands[1]) < 0.01, first + 0.05, first)
    return [first, *operands[1:]]


@pytest.mark.parametrize("f", [IDENTITY, TANH], ids=activation_name)
@pytest.mark.parametrize("op", Op, ids=lambda op: op.name.lower())
def test_arithmetic_gradients(op: Op, f: Activation) -> None:
    operands = [make(SHAPES[k], k) for k, make in enumerate(OPERANDS[op])]
    operands = far_from_a_jump(op, operands)
    y = arithmetic.forward(op, operands, f)
    for k in range(len(operands)):
        wanted = tuple(k == other for other in range(len(operands)))

        def with_operand(value: Array, k: int = k) -> Array:
            return arithmetic.forward(op, [*operands[:k], value, *operands[k + 1 :]], f)

        def gradient(v: Array, k: int = k, wanted: tuple[bool, ...] = wanted) -> Array:
            result = arithmetic.backward(op, operands, y, v, f, wanted)
            assert [entry is not None for entry in result] == list(wanted)
            entry = result[k]
            assert entry is not None
            return entry

        assert_gradient(with_operand, gradient, operands[k])


def test_arithmetic_definitions() -> None:
    a, b = np.array([-7.0, 7.0, -7.0, 7.0]), np.array([2.0, -2.0, -2.0, 2.0])
    for op, expected in [
        (Op.FLOOR_DIVIDE, [-4, -4, 3, 3]),
        (Op.TRUNC_DIVIDE, [-3, -3, 3, 3]),
        (Op.TRUNC_REMAINDER, [-1, 1, -1, 1]),
    ]:
        np.testing.assert_array_equal(arithmetic.forward(op, [a, b], IDENTITY), expected)
    rounded = arithmetic.forward(Op.ROUND, [np.array([0.5, 1.5, -0.5, -2.5])], IDENTITY)
    np.testing.assert_array_equal(rounded, [0, 2, 0, -2])
    np.testing.assert_array_equal(arithmetic.forward(Op.SIGN, [np.array([-3.0, 0.0, 2.0])], IDENTITY), [-1, 0, 1])
    chosen = arithmetic.forward(Op.SELECT, [np.array([0.0, 2.0]), np.array([1.0, 3.0]), np.array([5.0, 7.0])], IDENTITY)
    np.testing.assert_array_equal(chosen, [5, 3])


def test_arithmetic_ties_go_to_the_first_operand() -> None:
    a = b = np.array([1.0, 2.0])
    for op in (Op.MINIMUM, Op.MAXIMUM):
        first, second = arithmetic.backward(op, [a, b], None, np.array([3.0, 4.0]), IDENTITY, (True, True))
        np.testing.assert_array_equal(first, [3, 4])
        np.testing.assert_array_equal(second, [0, 0])
        shared = arithmetic.backward(
            op, [a, np.array([1.0, 9.0])], None, np.array([3.0, 4.0]), IDENTITY, (True, True), split_ties=True
        )
        np.testing.assert_array_equal(shared, [[1.5, 4], [1.5, 0]] if op == Op.MINIMUM else [[1.5, 0], [1.5, 4]])


def test_arithmetic_no_nan_pair() -> None:
    a, b = np.array([np.nan, np.inf, 3.0, 2.0]), np.array([0.0, 0.0, 0.0, 4.0])
    dz = np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(arithmetic.forward(Op.MULTIPLY_NO_NAN, [a, b], IDENTITY), [0, 0, 0, 8])
    np.testing.assert_array_equal(arithmetic.forward(Op.DIVIDE_NO_NAN, [a, b], IDENTITY), [0, 0, 0, 0.5])
    da, db = arithmetic.backward(Op.DIVIDE_NO_NAN, [a, b], None, dz, IDENTITY, (True, True))
    np.testing.assert_array_equal(da, [0, 0, 0, 1])
    np.testing.assert_array_equal(db, [0, 0, 0, -0.5])
    dz = np.array([0.0, 0.0, 3.0, 4.0])
    da, db = arithmetic.backward(Op.MULTIPLY_NO_NAN, [a, b], None, dz, IDENTITY, (True, True))
    np.testing.assert_array_equal(da, [0, 0, 0, 16])
    np.testing.assert_array_equal(db, [0, 0, 9, 8])


def test_arithmetic_power_at_zero() -> None:
    a, b = np.array([0.0, 0.0, 0.0]), np.array([0.0, 1.0, 2.0])
    da, db = arithmetic.backward(Op.POW, [a, b], None, np.full(3, 5.0), IDENTITY, (True, True))
    np.testing.assert_array_equal(da, [0, 5, 0])
    np.testing.assert_array_equal(db, [0, 0, 0])


def test_arithmetic_select_has_no_gradient_for_its_condition() -> None:
    operands = [np.array([1.0, 0.0]), np.array([2.0, 3.0]), np.array([4.0, 5.0])]
    gradients = arithmetic.backward(Op.SELECT, operands, None, np.array([6.0, 7.0]), IDENTITY, (True, True, True))
    np.testing.assert_array_equal(gradients, [[0, 0], [6, 0], [0, 7]])


@pytest.mark.parametrize("op", Op, ids=lambda op: op.name.lower())
def test_arithmetic_without_operands(op: Op) -> None:
    operands = far_from_a_jump(op, [make(SHAPES[k], k) for k, make in enumerate(OPERANDS[op])])
    y = arithmetic.forward(op, operands, IDENTITY)
    dy, shapes, wanted = generator(33).standard_normal(y.shape), [x.shape for x in operands], (True,) * len(operands)
    nothing = [None] * len(operands)
    expected = arithmetic.backward(op, operands, y, dy, IDENTITY, wanted)
    needs = arithmetic.NEEDS_OPERANDS[op]
    if needs is not arithmetic.Needs.OPERANDS:
        output = y if needs is arithmetic.Needs.OUTPUT else None
        for got, want in zip(
            arithmetic.backward(op, nothing, output, dy, IDENTITY, wanted, shapes), expected, strict=True
        ):
            np.testing.assert_array_equal(got, want)
    if needs is not arithmetic.Needs.NOTHING:
        with pytest.raises(ValueError, match="needs the o"):
            arithmetic.backward(op, nothing, np.tanh(y), dy, TANH, wanted, shapes)


def test_arithmetic_special_values_do_not_warn() -> None:
    x = np.array([0.0, -1.0, 2.0, np.inf, -np.inf, np.nan, 1e300, -1e300])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for op, count in arithmetic.OPERAND_COUNT.items():
            operands = [np.roll(x, k) for k in range(count)]
            y = arithmetic.forward(op, operands, TANH)
            arithmetic.backward(op, operands, y, x, TANH, (True,) * count)


def test_arithmetic_rejects_wrong_calls() -> None:
    with pytest.raises(ValueError, match="ADD takes 2"):
        arithmetic.forward(Op.ADD, [np.ones(2)], IDENTITY)
    with pytest.raises(ValueError, match="no function 41"):
        arithmetic.forward(41, [np.ones(2)], IDENTITY)


# ---------------------------------------------------------------------------------------------------------------------
# Pooling

# (input (C, H, W), geometry)
POOLINGS = {
    "two by two": ((3, 4, 6), pooling.Geometry((2, 2), (2, 2), (1, 1), (0, 0, 0, 0), (2, 3))),
    "overlapping": ((2, 5, 7), pooling.Geometry((3, 2), (1, 2), (1, 1), (1, 1, 0, 0), (5, 3))),
    "dilated": ((2, 7, 6), pooling.Geometry((2, 3), (2, 1), (3, 2), (1, 0, 1, 1), (3, 4))),
    "past the border": ((1, 5, 5), pooling.Geometry((3, 3), (2, 2), (1, 1), (0, 0, 1, 0), (3, 3))),
    "empty windows": ((2, 3, 3), pooling.Geometry((2, 2), (1, 1), (1, 1), (3, 2, 0, 0), (6, 3))),
    "leaves a remainder": ((2, 7, 8), pooling.Geometry((2, 2), (3, 3), (1, 1), (0, 0, 0, 0), (2, 2))),
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
def test_pooling_by_definition(kind: P, image: tuple[int, int, int], g: pooling.Geometry) -> None:
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
            assert np.all(indices[:, :, oy, ox] == pooling.NO_CELL)
        elif indices is not None:
            flat = np.array([row * image[2] + column for row, column in cells])
            np.testing.assert_array_equal(indices[:, :, oy, ox], flat[values.argmax(axis=0)])


@pooling_cases
@pooling_kinds
@pytest.mark.parametrize("f", [IDENTITY, TANH], ids=activation_name)
def test_pooling_gradients(kind: P, image: tuple[int, int, int], g: pooling.Geometry, f: Activation) -> None:
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
    g = pooling.Geometry((2, 2), (2, 2), (1, 1), (0, 0, 0, 0), (2, 2))
    y, indices = pooling.forward(P.MAX, x, None, IDENTITY, g)
    np.testing.assert_array_equal(y.ravel(), [6, 8, 14, 16, -1, -3, -9, -11])
    assert indices is not None
    np.testing.assert_array_equal(indices.ravel(), [5, 7, 13, 15, 0, 2, 8, 10])
    padded = pooling.Geometry((2, 2), (2, 2), (1, 1), (1, 1, 1, 1), (2, 2))
    average, _ = pooling.forward(
        P.AVERAGE_COUNT_INCLUDE_PADDING, np.arange(1.0, 5.0).reshape(1, 1, 2, 2), None, IDENTITY, padded
    )
    np.testing.assert_array_equal(average.ravel(), [0.25, 0.5, 0.75, 1.0])


def test_max_pooling_ties_nan_and_minus_infinity() -> None:
    g = pooling.Geometry((2, 2), (1, 1), (1, 1), (1, 0, 1, 0), (2, 2))
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
    ignored = pooling.Geometry((1, 2), (1, 2), (1, 1), (0, 0, 1, 0), (1, 2))
    competing = pooling.Geometry((1, 2), (1, 2), (1, 1), (0, 0, 1, 0), (1, 2), padding_wins=True)
    y, indices = pooling.forward(P.MAX, x, None, IDENTITY, ignored)
    np.testing.assert_array_equal(y, [[[[-1, 2]]]])
    np.testing.assert_array_equal(indices, [[[[0, 1]]]])
    y, indices = pooling.forward(P.MAX, x, None, IDENTITY, competing)
    np.testing.assert_array_equal(y, [[[[0, 2]]]])
    np.testing.assert_array_equal(indices, [[[[pooling.NO_CELL, 1]]]])
    dy = np.array([[[[5.0, 7.0]]]])
    for given in (indices, None):
        dx = pooling.backward(P.MAX, x, given, None, dy, IDENTITY, competing, (1, 1, 1, 3), {"dx"})["dx"]
        np.testing.assert_array_equal(dx, [[[[0, 7, 0]]]])


def test_l2_norm_of_zeros_has_no_gradient() -> None:
    g = pooling.Geometry((2, 2), (2, 2), (1, 1), (0, 0, 0, 0), (1, 1))
    x = np.zeros((1, 1, 2, 2))
    dx = pooling.backward(P.L2_NORM, x, None, None, np.ones((1, 1, 1, 1)), IDENTITY, g, x.shape, {"dx"})["dx"]
    np.testing.assert_array_equal(dx, x)


@pytest.mark.parametrize("f", [IDENTITY, TANH], ids=activation_name)
def test_un_max(f: Activation) -> None:
    rng = generator(43)
    indices = np.stack([rng.choice(20, 6, replace=False) for _ in range(6)]).reshape(2, 3, 2, 3)
    x, bias = rng.standard_normal((2, 3, 2, 3)), rng.standard_normal(3)
    g = pooling.Geometry((2, 2), (2, 2), (1, 1), (0, 0, 0, 0), (4, 5))
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
    g = pooling.Geometry((2, 2), (2, 2), (1, 1), (0, 0, 0, 0), (2, 2))
    dy, shape = np.ones((1, 1, 2, 2)), (1, 1, 4, 4)
    for kind, message in [(P.MAX, "input x or the indices"), (P.L2_NORM, "input x"), (P.UN_MAX, "needs indices")]:
        with pytest.raises(ValueError, match=message):
            pooling.backward(kind, None, None, None, dy, IDENTITY, g, shape, {"dx"})
    with pytest.raises(ValueError, match="outside the plane"):
        pooling.forward(P.UN_MAX, dy, None, IDENTITY, g, np.full((1, 1, 2, 2), 4))
    with pytest.raises(ValueError, match="no function 5"):
        pooling.forward(5, np.ones(shape), None, IDENTITY, g)


# ---------------------------------------------------------------------------------------------------------------------
# No samples at all


def test_empty_batch() -> None:
    for f in [f for f, _ in ELEMENTWISE] + AXIS_WISE:
        x = np.zeros((0, 5, 3))
        assert activation.backward(f, activation.forward(f, x), x=x).shape == x.shape
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
    image, window = POOLINGS["overlapping"]
    x = np.zeros((0, *image))
    for kind in KINDS:
        y, indices = pooling.forward(kind, x, None, IDENTITY, window)
        gradients = pooling.backward(kind, x, indices, y, y, IDENTITY, window, (0, *image), {"dx"})
        assert gradients["dx"].shape == x.shape
    for function in set(L) - {L.YOLO}:
        settings = Loss(function, Reduction.MEAN)
        np.testing.assert_array_equal(loss.forward(settings, np.zeros((0, 4)), np.zeros((0, 4))), [0])
        assert loss.gradient(settings, np.zeros((0, 4)), np.zeros((0, 4))).shape == (0, 4)


# ---------------------------------------------------------------------------------------------------------------------
# Loss

REDUCTIONS = [Reduction.SUM, Reduction.WEIGHTED_MEAN, Reduction.MEAN, Reduction.NON_ZERO_WEIGHT_MEAN, Reduction.NONE]
reductions = pytest.mark.parametrize("reduction", REDUCTIONS, ids=lambda reduction: reduction.name.lower())
# Losses whose printed gradient is the derivative of the printed loss, whatever the weights.
EXACT = [
    L.SOFTMAX_CROSS_ENTROPY,
    L.SIGMOID_CROSS_ENTROPY,
    L.MEAN_SQUARE_ERROR,
    L.HUBER,
    L.LOG,
    L.HINGE,
    L.MEAN_ABSOLUTE_ERROR,
]


def loss_problem(function: L) -> tuple[Array, Array]:
    """Predictions and labels (3, 5) away from the kinks of the loss."""
    rng = generator(50, function)
    x, labels = rng.uniform(-2, 2, (3, 5)), rng.uniform(0, 1, (3, 5))
    if function == L.LOG:
        x = rng.uniform(0.2, 0.8, (3, 5))
    if function == L.HUBER:
        error = x - labels
        x = np.where(np.abs(np.abs(error) - 0.8) < 0.02, x + 0.1, x)
    if function == L.HINGE:
        labels = rng.integers(0, 2, (3, 5)).astype(np.float64)
        x = away_from(x, -1.0, 1.0)
    if function == L.MEAN_ABSOLUTE_ERROR:
        x = labels + away_from(x - labels, 0.0)
    return x, labels


def loss_weights(function: L, how: str) -> Array | None:
    count = 3 if function == L.SOFTMAX_CROSS_ENTROPY else 15
    weights = generator(51).uniform(0.2, 2.0, count)
    weights[1] = 0.0
    return {"no weights": None, "one weight": np.array([0.7]), "all weights": weights}[how]


@reductions
@pytest.mark.parametrize("how", ["no weights", "one weight", "all weights"])
@pytest.mark.parametrize("function", EXACT, ids=lambda function: function.name.lower())
def test_loss_gradient(function: L, how: str, reduction: Reduction) -> None:
    # A tiny epsilon makes the printed derivative of Log, which neglects it, the true one.
    settings = Loss(function, reduction, label_smooth=0.1, huber_delta=0.8, log_epsilon=1e-12)
    (x, labels), weights = loss_problem(function), loss_weights(function, how)
    assert_gradient(
        lambda x: loss.forward(settings, x, labels, weights),
        lambda v: loss.backward(settings, x, labels, v, weights),
        x,
    )
    in_forward = loss.gradient(settings, x, labels, weights)
    upstream = np.ones_like(loss.forward(settings, x, labels, weights))
    np.testing.assert_array_equal(in_forward, loss.backward(settings, x, labels, upstream, weights))


@reductions
def test_cosine_distance_gradient_is_tangent_to_the_sphere(reduction: Reduction) -> None:
    """Printed form: the derivative of l(x / |x|) at a unit vector x."""
    rng = generator(52)
    settings = Loss(L.COSINE_DISTANCE, reduction)
    x, labels, weights = rng.standard_normal((3, 5)), rng.standard_normal((3, 5)), rng.uniform(0.5, 1.5, 15)

    def unit(v: Array) -> Array:
        length: Array = np.sqrt(np.sum(v * v, axis=1, keepdims=True))
        return v / length

    x, labels = unit(x), unit(labels)
    for given in (None, np.array([0.7]), weights):
        assert_gradient(
            lambda x, given=given: loss.forward(settings, unit(x), labels, given),  # type: ignore[misc]
            lambda v, given=given: loss.backward(settings, x, labels, v, given),  # type: ignore[misc]
            x,
        )


def test_plain_cosine_gradient() -> None:
    rng = generator(56)
    x, labels, weights = rng.standard_normal((3, 5)), rng.standard_normal((3, 5)), rng.uniform(0.5, 1.5, 15)
    settings = Loss(L.COSINE_DISTANCE, Reduction.MEAN, plain_cosine_gradient=True)
    assert_gradient(
        lambda x: loss.forward(settings, x, labels, weights),
        lambda v: loss.backward(settings, x, labels, v, weights),
        x,
    )


@reductions
def test_categorical_cross_entropy(reduction: Reduction) -> None:
    """Without weights and with labels 0 and 1 the printed gradient is the derivative of the loss."""
    settings, x = Loss(L.CATEGORICAL_CROSS_ENTROPY, reduction), generator(53).standard_normal((3, 4))
    labels = np.array([[0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]], dtype=np.float64)
    assert_gradient(lambda x: loss.forward(settings, x, labels), lambda v: loss.backward(settings, x, labels, v), x)


def test_categorical_cross_entropy_weights_as_printed() -> None:
    x, labels = np.log([[0.5, 0.25, 0.25]]), np.array([[2.0, 0.0, 1.0]])
    weights = np.array([3.0, 5.0, 7.0])
    settings = Loss(L.CATEGORICAL_CROSS_ENTROPY, Reduction.SUM)
    expected = -np.log(0.5) * 2 * 3 / 2 - np.log(0.25) * 1 * 7 / 2
    np.testing.assert_allclose(loss.forward(settings, x, labels, weights), [expected])
    np.testing.assert_allclose(loss.gradient(settings, x, labels, weights), [[0.0, 0.25, 7 * (0.25 - 0.5)]], atol=1e-15)


@pytest.mark.parametrize(
    ("settings", "x", "labels", "expected", "slope"),
    [
        (Loss(L.MEAN_SQUARE_ERROR, Reduction.NONE), [1, 2, 3], [0, 0, 0], [1, 4, 9], [2, 4, 6]),
        (Loss(L.MEAN_SQUARE_ERROR, Reduction.MEAN), [2, 3, 4], [1, 1, 1], [14 / 3], [2 / 3, 4 / 3, 2]),
        (Loss(L.HUBER, Reduction.NONE, huber_delta=1.0), [2.5, 3, -1], [2, 2, 2], [0.125, 0.5, 2.5], [0.5, 1, -1]),
        (Loss(L.HINGE, Reduction.NONE), [1, 2, -1], [1, 1, 1], [0, 0, 2], [-1, 0, -1]),
        (Loss(L.HINGE, Reduction.NONE), [1, -1, -2], [0, 0, 0], [2, 0, 0], [1, 1, 0]),
        (Loss(L.MEAN_ABSOLUTE_ERROR, Reduction.NONE), [1, 2, 0], [1, 0, 3], [0, 2, 3], [1, 1, -1]),
        (
            Loss(L.SIGMOID_CROSS_ENTROPY, Reduction.NONE, label_smooth=0.2),
            [math.log(3)] * 2,  # q = 3/4, labels 0.9 and 0.1 when smoothed
            [1, 0],
            [-0.9 * math.log(0.75) - 0.1 * math.log(0.25), -0.1 * math.log(0.75) - 0.9 * math.log(0.25)],
            [0.75 - 0.9, 0.75 - 0.1],
        ),
        (
            Loss(L.LOG, Reduction.NONE),
            [0.0, 1.0, 0.25],
            [0.0, 1.0, 0.5],
            [-math.log(1 + 1e-7)] * 2 + [-0.5 * math.log(0.2500001) - 0.5 * math.log(0.7500001)],
            [1 / (1 + 1e-7), 1e-7 / (1 + 1e-7) / 1e-7, (0.2500001 - 0.5) / (0.2500001 * 0.7500001)],
        ),
        (Loss(L.COSINE_DISTANCE, Reduction.NONE), [0.6, 0.8, 0], [1, 0, 0], [0.4], [-0.64, 0.48, 0]),
    ],
)
def test_loss_values(settings: Loss, x: list[float], labels: list[float], expected: Any, slope: Any) -> None:
    values = loss.forward(settings, np.array([x], float), np.array([labels], float))
    np.testing.assert_allclose(values.ravel(), expected)
    np.testing.assert_allclose(loss.gradient(settings, np.array([x], float), np.array([labels], float))[0], slope)


def test_softmax_cross_entropy_value_smoothing_and_class_factor() -> None:
    x, labels = np.log([[0.2, 0.3, 0.5]]), np.array([[0.0, 0.0, 1.0]])
    plain = loss.forward(Loss(L.SOFTMAX_CROSS_ENTROPY, Reduction.SUM), x, labels)
    np.testing.assert_allclose(plain, [-np.log(0.5)])
    smooth = loss.forward(Loss(L.SOFTMAX_CROSS_ENTROPY, Reduction.SUM, label_smooth=0.3), x, labels)
    np.testing.assert_allclose(smooth, [-(0.1 * np.log(0.2) + 0.1 * np.log(0.3) + 0.8 * np.log(0.5))])
    divided = Loss(L.SOFTMAX_CROSS_ENTROPY, Reduction.SUM, divide_by_classes=True)
    np.testing.assert_allclose(loss.forward(divided, x, labels), plain / 3)
    np.testing.assert_allclose(loss.gradient(divided, x, labels), [[0.2 / 3, 0.3 / 3, -0.5 / 3]])


def test_loss_reductions_and_weights() -> None:
    x, labels, weights = np.array([[1.0, 2.0], [3.0, 4.0]]), np.zeros((2, 2)), np.array([2.0, 0.0, 1.0, 1.0])
    weighted = np.array([2.0, 0.0, 9.0, 16.0])
    for reduction, expected in [
        (Reduction.SUM, 27.0),
        (Reduction.MEAN, 27.0 / 4),
        (Reduction.WEIGHTED_MEAN, 27.0 / 4),
        (Reduction.NON_ZERO_WEIGHT_MEAN, 9.0),
    ]:
        value = loss.forward(Loss(L.MEAN_SQUARE_ERROR, reduction), x, labels, weights)
        np.testing.assert_allclose(value, [expected])
    unreduced = Loss(L.MEAN_SQUARE_ERROR, Reduction.NONE)
    np.testing.assert_array_equal(loss.forward(unreduced, x, labels, weights), weighted.reshape(2, 2))
    for reduction in (Reduction.WEIGHTED_MEAN, Reduction.NON_ZERO_WEIGHT_MEAN):
        nothing = Loss(L.MEAN_SQUARE_ERROR, reduction)
        np.testing.assert_array_equal(loss.forward(nothing, x, labels, np.zeros(4)), [0])
        np.testing.assert_array_equal(loss.gradient(nothing, x, labels, np.zeros(4)), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="3 weights given; pass none, 1 or 4"):
        loss.forward(unreduced, x, labels, np.ones(3))
    with pytest.raises(ValueError, match="no reduction 9"):
        loss.forward(Loss(L.HINGE, 9), x, labels)


def test_equal_weights_mean_the_same_once_or_for_every_element() -> None:
    rng = generator(54)
    x, labels = rng.standard_normal((3, 4)), np.eye(4)[:3]
    for function, reduction in itertools.product([L.COSINE_DISTANCE, L.CATEGORICAL_CROSS_ENTROPY], REDUCTIONS):
        settings = Loss(function, reduction)
        once, everywhere = np.array([0.7]), np.full(12, 0.7)
        np.testing.assert_allclose(
            loss.forward(settings, x, labels, once), loss.forward(settings, x, labels, everywhere)
        )


@pytest.mark.parametrize("function", set(L) - {L.YOLO}, ids=lambda function: function.name.lower())
def test_loss_of_extreme_predictions(function: L) -> None:
    """Far predictions have finite losses (but for Log, outside its domain), NaN gives NaN, nothing warns."""
    x, labels = np.array([[1e4, -1e4, 800.0], [-1e4, 1e4, 0.0]]), np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    settings = Loss(function, Reduction.NONE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if function != L.LOG:
            assert np.all(np.isfinite(loss.forward(settings, x, labels)))
            assert np.all(np.isfinite(loss.gradient(settings, x, labels)))
        x[0, 1] = np.nan
        assert np.any(np.isnan(loss.forward(settings, x, labels)))
        assert np.isnan(loss.gradient(settings, x, labels)[0, 1])


def yolo_problem(**changes: Any) -> tuple[Loss, Array, Array]:
    """Two samples of a 2 x 3 grid with 3 anchors and 4 classes; about half of the cells hold an object."""
    rng = generator(55)
    anchors = np.array([[1.0, 1.5], [2.0, 0.8], [0.5, 0.6]])
    parameters = {
        "scale_xy": 1.1,
        "scale_wh": 0.9,
        "scale_object": 2.0,
        "scale_no_object": 0.5,
        "scale_classification": 1.3,
        "object_minimum_iou": 0.6,
        "no_object_maximum_iou": 0.15,
        **changes,
    }
    settings = Loss(L.YOLO, Reduction.SUM, huber_delta=0.6, yolo=loss.Yolo(2, 3, anchors, 4, **parameters))
    x = rng.standard_normal((2, 2, 3, 3, 9))
    labels = np.zeros((2, 2, 3, 9))
    labels[..., :2], labels[..., 2:4] = rng.uniform(0, 1, (2, 2, 3, 2)), rng.uniform(0.5, 2, (2, 2, 3, 2))
    labels[..., 4] = rng.integers(0, 2, (2, 2, 3))
    labels[..., 5:] = np.eye(4)[rng.integers(0, 4, (2, 2, 3))]
    labels *= labels[..., 4:5]
    return settings, x, np.repeat(labels[..., np.newaxis, :], 3, axis=3)


@pytest.mark.parametrize("raw_centres", [False, True])
def test_yolo_gradient(raw_centres: bool) -> None:
    settings, x, labels = yolo_problem(raw_centres=raw_centres)
    for weights in (None, np.array([0.7])):
        assert_gradient(
            lambda x, weights=weights: loss.forward(settings, x, labels, weights),  # type: ignore[misc]
            lambda v, weights=weights: loss.backward(settings, x, labels, v, weights),  # type: ignore[misc]
            x,
        )
    flat = loss.gradient(settings, x.reshape(2, -1), labels.reshape(2, -1))
    np.testing.assert_array_equal(flat.reshape(x.shape), loss.gradient(settings, x, labels))


def test_yolo_rescore_takes_the_iou_for_a_constant() -> None:
    (plain, x, labels), (rescored, _, _) = yolo_problem(), yolo_problem(rescore=True)
    assert loss.forward(plain, x, labels) != loss.forward(rescored, x, labels)
    gradient = loss.gradient(rescored, x, labels)
    np.testing.assert_array_equal(gradient[..., :4], loss.gradient(plain, x, labels)[..., :4])
    still = np.ones(9)
    still[:4] = 0.0  # the boxes stay, so the targets do

    def moved(step: Array) -> Array:
        return loss.forward(rescored, x + step * still, labels)

    assert_gradient(moved, lambda v: v.item() * gradient * still, np.zeros(x.shape))


def test_yolo_by_definition() -> None:
    """The sum of the parts with plain loops over cells and anchors."""
    for rescore in (False, True):
        settings, x, labels = yolo_problem(rescore=rescore)
        p = settings.yolo
        assert p is not None
        total, roles = 0.0, set()
        for cell in np.ndindex(x.shape[:3]):
            boxes = [box_overlap(x[cell][a], labels[cell][a], p.anchors[a]) for a in range(3)]
            for a in range(3):
                one, truth, size, iou = x[cell][a], labels[cell][a], p.anchors[a], boxes[a]
                role = "ignored"
                if truth[4] == 1 and (iou >= p.object_minimum_iou or a == boxes.index(max(boxes))):
                    role = "object"
                elif iou <= p.no_object_maximum_iou:
                    role = "no object"
                roles.add(role)
                confidence = 1 / (1 + np.exp(-one[4]))
                if role == "no object":
                    total -= p.scale_no_object * np.log(1 - confidence)
                if role == "object":
                    target = iou if rescore else 1.0
                    error = np.abs(one[2:4] - np.log(truth[2:4] / size))
                    huber = np.where(error <= 0.6, error**2 / 2, 0.6 * (error - 0.3))
                    softmax = np.exp(one[5:]) / np.exp(one[5:]).sum()
                    total += p.scale_xy * np.sum((1 / (1 + np.exp(-one[:2])) - truth[:2]) ** 2)
                    total += p.scale_wh * huber.sum() - p.scale_classification * np.log(softmax[truth[5:] == 1].item())
                    total -= p.scale_object * (target * np.log(confidence) + (1 - target) * np.log(1 - confidence))
        assert roles == {"object", "no object", "ignored"}
        np.testing.assert_allclose(loss.forward(settings, x, labels), [total])


def box_overlap(prediction: Array, truth: Array, anchor: Array) -> float:
    """Intersection over union of the predicted and the true box, by intervals."""
    if truth[4] != 1:
        return 0.0
    intersection = union_part = other_part = 1.0
    for axis in (0, 1):
        centre, size = 1 / (1 + np.exp(-prediction[axis])), anchor[axis] * np.exp(prediction[2 + axis])
        low, high = centre - size / 2, centre + size / 2
        true_low, true_high = truth[axis] - truth[2 + axis] / 2, truth[axis] + truth[2 + axis] / 2
        intersection *= max(0.0, min(high, true_high) - max(low, true_low))
        union_part *= size
        other_part *= truth[2 + axis]
    return float(intersection / (union_part + other_part - intersection))


def test_yolo_huber_delta_zero_acts_as_one() -> None:
    settings, x, labels = yolo_problem()
    zero, one = (Loss(L.YOLO, Reduction.SUM, huber_delta=delta, yolo=settings.yolo) for delta in (0.0, 1.0))
    np.testing.assert_array_equal(loss.forward(zero, x, labels), loss.forward(one, x, labels))


def test_yolo_errors() -> None:
    settings, x, labels = yolo_problem()
    with pytest.raises(ValueError, match="must be Sum"):
        loss.forward(Loss(L.YOLO, Reduction.MEAN, yolo=settings.yolo), x, labels)
    with pytest.raises(ValueError, match="needs its parameters"):
        loss.forward(Loss(L.YOLO, Reduction.SUM), x, labels)
    with pytest.raises(ValueError, match="no weights, or one"):
        loss.forward(settings, x, labels, np.ones(2))
