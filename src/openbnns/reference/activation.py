"""Activation functions: y = f(x), and dx = dy * f'(x) from the input x or, where possible, from the output y alone.

A fused activation is differentiated from the output of its layer, which is why most functions have two derivatives.
At a kink the comparisons below decide: the forward takes its linear branch at 0, and flat pieces include their edges
(slope 0 of ReLU at 0, of Clamp at both bounds).

NaN in gives NaN out, forward and backward; infinities give the limit of the formula where it has one; nothing warns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..parameters.activation import FROM_OUTPUT, Activation, ActivationKind

Array = npt.NDArray[np.float64]


SELU_SCALE: Final = 1.0507009873554805
SELU_ALPHA: Final = 1.6732632423543772
GELU_SIGMOID_SLOPE: Final = 1.702

_CONSTANT_SLOPE = frozenset(
    {ActivationKind.IDENTITY, ActivationKind.LINEAR, ActivationKind.LINEAR_WITH_BIAS, ActivationKind.GUMBEL}
)


# ---------------------------------------------------------------------------------------------------------------------
# The public functions


@np.errstate(all="ignore")
def forward(f: Activation, x: Array, axes: tuple[int, ...] = (-1,), uniform: Array | None = None) -> Array:
    """y = f(x).

    x is (N, ...) and y has its shape, except for GumbelMax: the maximum over `axes` leaves size 1 there. `axes` are
    the NumPy axes of the axis-wise functions, taken jointly; a softmax of nothing but -inf is NaN. `uniform`, of the
    shape of x, holds the draws U in (0, 1) of Gumbel and GumbelMax.
    """
    x = np.asarray(x, dtype=np.float64)
    match f.function:
        case ActivationKind.SOFTMAX:
            return np.exp(log_softmax(x, axes))
        case ActivationKind.LOG_SOFTMAX:
            return log_softmax(x, axes)
        case ActivationKind.GUMBEL:
            return _gumbel_noise(f, x, uniform)
        case ActivationKind.GUMBEL_MAX:
            best: Array = np.max(x + _gumbel_noise(f, x, uniform), axis=axes, keepdims=True)
            return best
        case _:
            return _formula(f).forward(f, x)


@np.errstate(all="ignore")
def backward(
    f: Activation, dy: Array, x: Array | None = None, y: Array | None = None, axes: tuple[int, ...] = (-1,)
) -> Array:
    """dx = dy * f'(x), from x when it is given, else from y = f(x).

    All arrays have one shape. Raises ValueError where y does not determine the derivative (see FROM_OUTPUT, and the
    conditions on alpha that its functions carry).
    """
    dy = np.asarray(dy, dtype=np.float64)
    match f.function:
        case ActivationKind.GUMBEL_MAX:
            raise ValueError("activation.backward: GumbelMax has no gradient.")
        case ActivationKind.SOFTMAX:
            y = forward(f, x, axes) if x is not None else _given(f, y)
            return y * (dy - _sum_over(dy * y, axes))
        case ActivationKind.LOG_SOFTMAX:
            y = forward(f, x, axes) if x is not None else _given(f, y)
            return dy - np.exp(y) * _sum_over(dy, axes)
        case _:
            return dy * _slope(f, dy, x, y)


def fused_backward(f: Activation, dy: Array, y: Array | None, z: Array | None = None) -> Array:
    """dz of y = f(z) inside a layer: from the output y, or from z where y does not determine the derivative.

    GELUApproximationSigmoid is not one-to-one, so z is preferred for it; without z see _gelu_sigmoid_slope_from_output.
    """
    exact_from_output = f.function in FROM_OUTPUT - {ActivationKind.GELU_APPROXIMATION_SIGMOID} and not f.right_slope
    if f.function == ActivationKind.ELU and f.alpha < 0.0:
        exact_from_output = False
    if z is not None and (y is None or not exact_from_output):
        return backward(f, dy, x=z)
    return backward(f, dy, y=y)


def alpha_gradient(f: Activation, x: Array, dy: Array) -> float | Array:
    """d_alpha = sum of x * dy over the elements with x < 0: a float, or one value per channel (axis 1) for PReLU."""
    terms = np.where(x < 0.0, x * dy, 0.0)
    match f.function:
        case ActivationKind.LEAKY_RECTIFIED_LINEAR:
            return float(np.sum(terms))
        case ActivationKind.PRELU_PER_CHANNEL:
            return np.asarray(np.sum(terms, axis=tuple(axis for axis in range(x.ndim) if axis != 1)))
        case _:
            raise ValueError(
                f"activation.alpha_gradient: function {f.function} has no trainable alpha; "
                "LeakyRectifiedLinear and PReLUPerChannel do."
            )


def integer_linear_saturate(
    x: npt.NDArray[np.int64],
    scale: npt.ArrayLike,
    offset: npt.ArrayLike,
    shift: npt.ArrayLike,
    low: int,
    high: int,
) -> npt.NDArray[np.int64]:
    """saturate((scale*x + offset) >> shift) to [low, high]; the shift keeps the sign (it rounds down).

    Scalars, or one value per channel in a shape that broadcasts against x.
    """
    shifted = (np.asarray(scale, np.int64) * x + np.asarray(offset, np.int64)) >> np.asarray(shift, np.int64)
    saturated: npt.NDArray[np.int64] = np.clip(shifted, low, high)
    return saturated


# ---------------------------------------------------------------------------------------------------------------------
# Pieces of formulas, shared with the other modules


def zero_wins(factor: npt.ArrayLike, x: npt.ArrayLike) -> Array:
    """factor * x, but 0 for a zero factor even if x is infinite: the right limit wherever it is used here."""
    return np.where((np.asarray(factor) == 0.0) & ~np.isnan(x), 0.0, np.multiply(factor, x))


def keep_nan(values: npt.ArrayLike, source: Array) -> Array:
    """values, but NaN wherever source is NaN: a comparison alone would lose it."""
    return np.where(np.isnan(source), np.nan, values)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)) with an exponential that cannot overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x < 0.0, small, 1.0) / (1.0 + small)


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), which is also -log(sigmoid(-x))."""
    return np.logaddexp(0.0, x)


def log_softmax(x: Array, axes: tuple[int, ...] = (-1,)) -> Array:
    """x_i - log sum_j exp(x_j) over `axes` jointly, shifted by the largest x so that exp cannot overflow."""
    shifted: Array = x - np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    return shifted - np.log(_sum_over(np.exp(shifted), axes))


def erf(x: Array) -> Array:
    """The error function, element by element."""
    values: Array = np.vectorize(math.erf, otypes=[np.float64])(x)
    return values


def erf_slope(x: Array) -> Array:
    """2/sqrt(pi) exp(-x^2)."""
    return 2.0 / math.sqrt(math.pi) * np.exp(-x * x)


def _sum_over(x: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray(np.sum(x, axis=axes, keepdims=True))


def _one_where(condition: Any) -> Array:
    return np.where(condition, 1.0, 0.0)


# ---------------------------------------------------------------------------------------------------------------------
# The table of elementwise functions: y, dy/dx from x, dy/dx from y


@dataclass(frozen=True)
class _Formula:
    """forward(f, x), slope_from_input(f, x), and slope_from_output(f, y) where y determines it."""

    forward: Callable[[Activation, Array], Array]
    slope_from_input: Callable[[Activation, Array], Array]
    slope_from_output: Callable[[Activation, Array], Array] | None = None


def _formula(f: Activation) -> _Formula:
    if f.function not in _FORMULAS:
        raise ValueError(
            f"activation: function {f.function} is not a function of real numbers listed here; "
            "the integer functions are computed by integer_linear_saturate."
        )
    return _FORMULAS[f.function]


def _slope(f: Activation, dy: Array, x: Array | None, y: Array | None) -> Array:
    """f' at every element, in the shape of dy."""
    if f.function == ActivationKind.GUMBEL:
        return np.zeros_like(dy)
    formula = _formula(f)
    if f.function in _CONSTANT_SLOPE:
        return formula.slope_from_input(f, dy)
    if x is not None:
        x = np.asarray(x, dtype=np.float64)
        return keep_nan(formula.slope_from_input(f, x), x)
    if formula.slope_from_output is None:
        raise ValueError(
            f"activation.backward: the derivative of function {f.function} cannot be found from its output; pass x."
        )
    y = _given(f, y)
    return keep_nan(formula.slope_from_output(f, y), y)


def _given(f: Activation, y: Array | None) -> Array:
    if y is None:
        raise ValueError(f"activation.backward: function {f.function} needs its input x or its output y; got neither.")
    return np.asarray(y, dtype=np.float64)


def _gumbel_noise(f: Activation, x: Array, uniform: Array | None) -> Array:
    """-log(-log(alpha*U + beta) + beta)."""
    if uniform is None or np.shape(uniform) != x.shape:
        raise ValueError(f"activation.forward: Gumbel functions need `uniform` of the shape of x, {x.shape}.")
    noise: Array = -np.log(-np.log(f.alpha * uniform + f.beta) + f.beta)
    return noise


def _channel_alpha(f: Activation, x: Array) -> Array:
    """alpha of PReLU as an array that broadcasts along axis 1 of x."""
    if f.channel_alpha is None:
        return np.asarray(f.alpha)
    return np.reshape(f.channel_alpha, (1, -1) + (1,) * (x.ndim - 2))


def _leaky_slope_from_output(f: Activation, y: Array) -> Array:
    """y < 0 implies x < 0 only if alpha > 0; with alpha = 0 the function is ReLU."""
    if f.alpha < 0.0:
        raise ValueError(
            f"activation.backward: alpha = {f.alpha} is negative, so the sign of y does not determine the sign of x; pass x."
        )
    return _one_where(y > 0.0) if f.alpha == 0.0 else np.where(y < 0.0, f.alpha, 1.0)


def _clamped_leaky_slope(f: Activation, x: Array) -> Array:
    return np.where(_leaky(f, x) >= f.beta, 0.0, np.where(x < 0.0, f.alpha, 1.0))


def _leaky(f: Activation, x: Array) -> Array:
    return np.where(x < 0.0, zero_wins(f.alpha, x), x)


def _elu_slope_from_output(f: Activation, y: Array) -> Array:
    """alpha*exp(x) = y + alpha below zero."""
    return np.where(y < 0.0, y + f.alpha, _leaky_slope_from_output(f, y))


def _celu_slope_from_output(f: Activation, y: Array) -> Array:
    """exp(x/alpha) = y/alpha + 1 below zero; y has the sign of x for every alpha but 0, which gives ReLU."""
    return _one_where(y > 0.0) if f.alpha == 0.0 else np.where(y < 0.0, y / f.alpha + 1.0, 1.0)


def _softplus_slope_from_output(f: Activation, y: Array) -> Array:
    """alpha*beta*sigmoid(beta*x), where exp(-y/alpha) = 1 - sigmoid(beta*x)."""
    if f.alpha == 0.0:
        return np.zeros_like(y)
    return -f.alpha * f.beta * np.expm1(-y / f.alpha)


def _scaled_tanh_slope_from_output(f: Activation, y: Array) -> Array:
    if f.alpha == 0.0:
        return np.zeros_like(y)
    return f.alpha * f.beta * (1.0 - (y / f.alpha) ** 2)


def _softsign(f: Activation, x: Array) -> Array:
    return np.where(np.isinf(x), np.sign(x), x / (1.0 + np.abs(x)))


def _tanh_shrink_slope_from_output(f: Activation, y: Array) -> Array:
    """tanh(x)^2, where x solves x - tanh(x) = |y|.

    With t = tanh(x), |y| = atanh(t) - t >= t^3/3, so x <= |y| + min(1, cbrt(3|y|)): Newton starts there and, the
    function being convex, falls to the solution without overshooting. Beyond |y| = 50 the slope is 1.
    """
    target = np.minimum(np.abs(y), 50.0)
    x = target + np.minimum(1.0, np.cbrt(3.0 * target))
    for _ in range(30):
        t = np.tanh(x)
        x = x - np.where(t > 0.0, (x - t - target) / (t * t), 0.0)
    slope: Array = np.tanh(x) ** 2
    return slope


def _gelu_tanh(f: Activation, x: Array) -> Array:
    return np.tanh(f.alpha * (x + zero_wins(f.beta, x**3)))


def _gelu_tanh_slope(f: Activation, x: Array) -> Array:
    """d/dx of 0.5 x (1 + t), t = tanh(alpha (x + beta x^3))."""
    t = _gelu_tanh(f, x)
    return 0.5 * (1.0 + t) + zero_wins(0.5 * f.alpha * (1.0 - t * t), x * (1.0 + 3.0 * f.beta * x * x))


def _normal_distribution(x: Array) -> Array:
    """0.5 (1 + erf(x/sqrt 2)), written with erfc to stay exact far below zero."""
    complement: Array = np.vectorize(math.erfc, otypes=[np.float64])(-x / math.sqrt(2.0))
    return 0.5 * complement


def _gelu_slope(f: Activation, x: Array) -> Array:
    density = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    return _normal_distribution(x) + zero_wins(density, x)


def _swish(x: Array, k: float) -> Array:
    return zero_wins(sigmoid(k * x), x)


def _swish_slope(x: Array, k: float) -> Array:
    """d/dx of x*s, s = sigmoid(k*x): s (1 + k x (1 - s)), where 1 - s = sigmoid(-k*x)."""
    return zero_wins(sigmoid(k * x), 1.0 + k * zero_wins(sigmoid(-k * x), x))


def _gelu_sigmoid_slope_from_output(f: Activation, y: Array) -> Array:
    """Slope at the larger of the two x with x*sigmoid(1.702 x) = y.

    The function falls to its minimum (slope 0) at x = -0.7512 and rises from there on; the bisection searches the
    rising part. An x left of the minimum is indistinguishable from its twin on the right: pass x where that matters.
    """
    target = np.clip(y, -1.0, 50.0)
    low = np.full_like(target, -1.2784645427610738 / GELU_SIGMOID_SLOPE)
    high = np.maximum(target, 0.0) + 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        too_small = _swish(middle, GELU_SIGMOID_SLOPE) < target
        low, high = np.where(too_small, middle, low), np.where(too_small, high, middle)
    return _swish_slope(0.5 * (low + high), GELU_SIGMOID_SLOPE)


_FORMULAS: Final[dict[int, _Formula]] = {
    ActivationKind.IDENTITY: _Formula(
        lambda f, x: x.copy(),
        lambda f, x: np.ones_like(x),
    ),
    ActivationKind.RECTIFIED_LINEAR: _Formula(
        lambda f, x: np.maximum(x, 0.0),
        lambda f, x: _one_where(x >= 0.0 if f.right_slope else x > 0.0),
        lambda f, y: _one_where(y > 0.0),
    ),
    ActivationKind.LEAKY_RECTIFIED_LINEAR: _Formula(
        _leaky,
        lambda f, x: np.where(x < 0.0, f.alpha, 1.0),
        _leaky_slope_from_output,
    ),
    ActivationKind.SIGMOID: _Formula(
        lambda f, x: sigmoid(x),
        lambda f, x: sigmoid(x) * sigmoid(-x),
        lambda f, y: y * (1.0 - y),
    ),
    ActivationKind.TANH: _Formula(
        lambda f, x: np.tanh(x),
        lambda f, x: 1.0 - np.tanh(x) ** 2,
        lambda f, y: 1.0 - y * y,
    ),
    ActivationKind.SCALED_TANH: _Formula(
        lambda f, x: f.alpha * np.tanh(f.beta * x),
        lambda f, x: f.alpha * f.beta * (1.0 - np.tanh(f.beta * x) ** 2),
        _scaled_tanh_slope_from_output,
    ),
    ActivationKind.ABS: _Formula(
        lambda f, x: np.abs(x),
        lambda f, x: np.sign(x),
    ),
    ActivationKind.LINEAR: _Formula(
        lambda f, x: f.alpha * x,
        lambda f, x: np.full_like(x, f.alpha),
    ),
    ActivationKind.CLAMP: _Formula(
        lambda f, x: np.minimum(np.maximum(x, f.alpha), f.beta),
        lambda f, x: _one_where((f.alpha < x) & (x < f.beta)),
        lambda f, y: _one_where((f.alpha < y) & (y < f.beta)),
    ),
    ActivationKind.GELU_APPROXIMATION: _Formula(
        lambda f, x: zero_wins(0.5 * (1.0 + _gelu_tanh(f, x)), x),
        _gelu_tanh_slope,
    ),
    ActivationKind.HARD_SIGMOID: _Formula(
        lambda f, x: np.maximum(0.0, np.minimum(1.0, f.alpha * x + f.beta)),
        lambda f, x: np.where((f.alpha * x + f.beta > 0.0) & (f.alpha * x + f.beta < 1.0), f.alpha, 0.0),
        lambda f, y: np.where((y > 0.0) & (y < 1.0), f.alpha, 0.0),
    ),
    ActivationKind.SOFTPLUS: _Formula(
        lambda f, x: f.alpha * softplus(f.beta * x),
        lambda f, x: f.alpha * f.beta * sigmoid(f.beta * x),
        _softplus_slope_from_output,
    ),
    ActivationKind.SOFTSIGN: _Formula(
        _softsign,
        lambda f, x: 1.0 / (1.0 + np.abs(x)) ** 2,
        lambda f, y: (1.0 - np.abs(y)) ** 2,
    ),
    ActivationKind.ELU: _Formula(
        lambda f, x: np.where(x < 0.0, f.alpha * np.expm1(np.minimum(x, 0.0)), x),
        lambda f, x: np.where(x < 0.0, f.alpha * np.exp(np.minimum(x, 0.0)), 1.0),
        _elu_slope_from_output,
    ),
    ActivationKind.CLAMPED_LEAKY_RECTIFIED_LINEAR: _Formula(
        lambda f, x: np.minimum(_leaky(f, x), f.beta),
        _clamped_leaky_slope,
        lambda f, y: np.where(y >= f.beta, 0.0, _leaky_slope_from_output(f, y)),
    ),
    ActivationKind.LINEAR_WITH_BIAS: _Formula(
        lambda f, x: f.alpha * x + f.beta,
        lambda f, x: np.full_like(x, f.alpha),
    ),
    ActivationKind.LOG_SIGMOID: _Formula(
        lambda f, x: -softplus(-x),
        lambda f, x: sigmoid(-x),
        lambda f, y: -np.expm1(y),
    ),
    ActivationKind.SELU: _Formula(
        lambda f, x: SELU_SCALE * np.where(x < 0.0, SELU_ALPHA * np.expm1(np.minimum(x, 0.0)), x),
        lambda f, x: SELU_SCALE * np.where(x < 0.0, SELU_ALPHA * np.exp(np.minimum(x, 0.0)), 1.0),
        lambda f, y: np.where(y < 0.0, y + SELU_SCALE * SELU_ALPHA, SELU_SCALE),
    ),
    ActivationKind.CELU: _Formula(
        lambda f, x: np.where(x < 0.0, f.alpha * np.expm1(np.minimum(x, 0.0) / f.alpha), x),
        lambda f, x: np.where(x < 0.0, np.exp(np.minimum(x, 0.0) / f.alpha), 1.0),
        _celu_slope_from_output,
    ),
    ActivationKind.HARD_SHRINK: _Formula(
        lambda f, x: np.where(np.abs(x) < abs(f.alpha), 0.0, x),
        lambda f, x: _one_where(np.abs(x) >= abs(f.alpha)),
        lambda f, y: _one_where(y != 0.0),
    ),
    ActivationKind.SOFT_SHRINK: _Formula(
        lambda f, x: np.where(np.abs(x) < abs(f.alpha), 0.0, x - np.copysign(f.alpha, x)),
        lambda f, x: _one_where(np.abs(x) > abs(f.alpha)),  # 0 at the kink itself, as in PyTorch and as from the output
        lambda f, y: _one_where(y != 0.0),
    ),
    ActivationKind.TANH_SHRINK: _Formula(
        lambda f, x: x - np.tanh(x),
        lambda f, x: np.tanh(x) ** 2,
        _tanh_shrink_slope_from_output,
    ),
    ActivationKind.THRESHOLD: _Formula(
        lambda f, x: np.where(x <= f.alpha, f.beta, x),
        lambda f, x: _one_where(x > f.alpha),
        # y = beta > alpha means "replaced", save for the one point x = beta.
        lambda f, y: _one_where((y > f.alpha) & (y != f.beta)),
    ),
    ActivationKind.PRELU_PER_CHANNEL: _Formula(
        lambda f, x: np.where(x < 0.0, zero_wins(_channel_alpha(f, x), x), x),
        lambda f, x: np.where(x < 0.0, _channel_alpha(f, x), 1.0),
    ),
    ActivationKind.HARD_SWISH: _Formula(
        lambda f, x: zero_wins(np.minimum(np.maximum(x + 3.0, 0.0), 6.0) / 6.0, x),
        lambda f, x: np.where(x <= -3.0, 0.0, np.where(x >= 3.0, 1.0, (2.0 * x + 3.0) / 6.0)),
    ),
    ActivationKind.SILU: _Formula(
        lambda f, x: _swish(x, 1.0),
        lambda f, x: _swish_slope(x, 1.0),
    ),
    ActivationKind.RELU6: _Formula(
        lambda f, x: np.minimum(np.maximum(x, 0.0), 6.0),
        lambda f, x: _one_where((x > 0.0) & (x < 6.0)),
        lambda f, y: _one_where((y > 0.0) & (y < 6.0)),
    ),
    ActivationKind.ERF: _Formula(
        lambda f, x: erf(x),
        lambda f, x: erf_slope(x),
    ),
    ActivationKind.GELU: _Formula(
        lambda f, x: zero_wins(_normal_distribution(x), x),
        _gelu_slope,
    ),
    ActivationKind.GELU_APPROXIMATION_SIGMOID: _Formula(
        lambda f, x: _swish(x, GELU_SIGMOID_SLOPE),
        lambda f, x: _swish_slope(x, GELU_SIGMOID_SLOPE),
        _gelu_sigmoid_slope_from_output,
    ),
}
