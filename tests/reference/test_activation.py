"""Activations of the reference engine against their definitions and against finite differences."""

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from differences import activation_name, assert_gradient, away_from, generator
from openbnns.parameters.activation import FROM_OUTPUT, IDENTITY, Activation
from openbnns.parameters.activation import ActivationKind as A
from openbnns.reference import activation

Array = activation.Array
TANH = Activation(A.TANH)

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
    available = FROM_OUTPUT | {A.SCALED_TANH, A.RELU6}
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
        (Activation(A.SOFT_SHRINK, 0.5), 0.5, 0.0, 0.0),
        (Activation(A.SOFT_SHRINK, 0.5), -0.5, 0.0, 0.0),
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
    if f.function in FROM_OUTPUT:
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
        if f.function in FROM_OUTPUT:
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


def test_activation_of_an_empty_batch() -> None:
    x = np.zeros((0, 5, 3))
    for f in [f for f, _ in ELEMENTWISE] + AXIS_WISE:
        assert activation.backward(f, activation.forward(f, x), x=x).shape == x.shape
