"""Activations, with PyTorch's names, arguments and defaults; ``inplace`` is accepted and ignored."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ... import ActivationFunction
from .. import operations
from ..declared import Floats
from ..parameter import Parameter
from ..tensor import Tensor
from .arrangements import chunk
from .base import TensorLike, axes_of, axis_of, composite, function, numbers, value
from .elementwise import gt, maximum, mul, sub, where

__all__ = [
    "celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log_softmax",
    "logsigmoid", "mish", "prelu", "relu", "relu6", "selu", "sigmoid", "silu", "softmax", "softmin", "softplus",
    "softshrink", "softsign", "tanh", "tanhshrink", "threshold",
]  # fmt: skip

_F = ActivationFunction


def _activated(f: ActivationFunction, input: TensorLike, who: str, axis: int = -1) -> Tensor:
    x = numbers(input, who, rounded=True)
    return x.graph.append(operations.Activation(x.graph, x, f, axis))


@function
def relu(input: TensorLike, inplace: bool = False) -> Any:
    """max(x, 0)."""
    x = value(input, "relu")
    return maximum(x, 0) if x.dtype.kind == "i" else _activated(_F.rectified_linear(), x, "relu")


@function
def relu6(input: TensorLike, inplace: bool = False) -> Any:
    """min(max(x, 0), 6)."""
    return _activated(_F.clamp(bounds=(0.0, 6.0)), input, "relu6")


@function
def leaky_relu(input: TensorLike, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """x for x > 0, else negative_slope x."""
    return _activated(_F.leaky_rectified_linear(alpha=float(negative_slope)), input, "leaky_relu")


@function
def prelu(input: TensorLike, weight: TensorLike) -> Any:
    """x for x > 0, else weight x; one weight, or one per channel, which is axis 1."""
    x, slope = numbers(input, "prelu"), numbers(weight, "prelu")
    channels = x.shape[1] if x.ndim > 1 else 1
    if slope.shape not in ((), (1,), (channels,)):
        raise ValueError(
            f"prelu: weight has shape {slope.shape}, but ({channels},), one per channel of {x.shape}, or (1,) is needed."
        )
    leaf = slope.leaf  # not of a reshaped value: a layer holds the parameter itself
    if x.ndim > 1 and isinstance(leaf, (np.ndarray, Parameter)):
        held = leaf if isinstance(leaf, Parameter) else Parameter(leaf, requires_grad=False)
        return x.graph.append(operations.Prelu(x, held))
    if slope.ndim and slope.count != 1:
        slope = slope.reshape(channels, *[1] * (x.ndim - 2))
    return sub(relu(x), mul(slope, relu(mul(x, -1.0))))


@function
def elu(input: TensorLike, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x for x > 0, else alpha (exp(x) - 1)."""
    return _activated(_F.elu(alpha=float(alpha)), input, "elu")


@function
def selu(input: TensorLike, inplace: bool = False) -> Any:
    """Scaled ELU."""
    return _activated(_F.selu(), input, "selu")


@function
def celu(input: TensorLike, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x for x > 0, else alpha (exp(x / alpha) - 1)."""
    return _activated(_F.celu(alpha=float(alpha)), input, "celu")


@function
def gelu(input: TensorLike, approximate: Literal["none", "tanh"] = "none") -> Any:
    """x times the normal distribution function of x; ``approximate="tanh"`` for the formula with tanh."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate is {approximate!r}. Use 'none' or 'tanh'.")
    return _activated(_F.gelu() if approximate == "none" else _F.gelu_approximation(), input, "gelu")


@function
def silu(input: TensorLike, inplace: bool = False) -> Any:
    """x sigmoid(x)."""
    return _activated(_F.silu(), input, "silu")


@composite
def mish(input: Floats, inplace: bool = False) -> Any:
    """x tanh(softplus(x))."""
    return mul(input, tanh(softplus(input)))


@function
def sigmoid(input: TensorLike) -> Any:
    """1 / (1 + exp(-x))."""
    return _activated(_F.sigmoid(), input, "sigmoid")


@function
def logsigmoid(input: TensorLike) -> Any:
    """log(sigmoid(x))."""
    return _activated(_F.log_sigmoid(), input, "logsigmoid")


@function
def tanh(input: TensorLike) -> Any:
    """The hyperbolic tangent."""
    return _activated(_F.tanh(), input, "tanh")


@function
def hardtanh(input: TensorLike, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """x between two bounds."""
    return _activated(_F.clamp(bounds=(float(min_val), float(max_val))), input, "hardtanh")


@function
def hardsigmoid(input: TensorLike, inplace: bool = False) -> Any:
    """min(max(x / 6 + 1 / 2, 0), 1)."""
    return _activated(_F.hard_sigmoid(alpha=1.0 / 6.0, beta=0.5), input, "hardsigmoid")


@function
def hardswish(input: TensorLike, inplace: bool = False) -> Any:
    """x hardsigmoid(x)."""
    return _activated(_F.hard_swish(), input, "hardswish")


@function
def hardshrink(input: TensorLike, lambd: float = 0.5) -> Any:
    """x beyond ``lambd`` on either side, else 0."""
    return _activated(_F.hard_shrink(alpha=float(lambd)), input, "hardshrink")


@function
def softshrink(input: TensorLike, lambd: float = 0.5) -> Any:
    """x moved towards 0 by ``lambd``, but not past 0."""
    return _activated(_F.soft_shrink(alpha=float(lambd)), input, "softshrink")


@function
def tanhshrink(input: TensorLike) -> Any:
    """x - tanh(x)."""
    return _activated(_F.tanh_shrink(), input, "tanhshrink")


@function
def threshold(input: TensorLike, threshold: float, value: float, inplace: bool = False) -> Any:
    """x above ``threshold``, else ``value``."""
    return _activated(_F.threshold(alpha=float(threshold), beta=float(value)), input, "threshold")


@function
def softplus(input: TensorLike, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta x)) / beta, and x where beta x is above ``threshold``.

    It is computed without overflow, so that thresholds of 15 and more make no difference in float32.
    """
    y = _activated(_F.softplus(alpha=1.0 / float(beta), beta=float(beta)), input, "softplus")
    if threshold >= 15:
        return y
    return where(gt(input, float(threshold) / float(beta)), input, y)


@function
def softsign(input: TensorLike) -> Any:
    """x / (1 + |x|)."""
    return _activated(_F.softsign(), input, "softsign")


@composite
def glu(input: Floats, dim: int = -1) -> Any:
    """The first half along ``dim`` times the sigmoid of the second."""
    if input.shape[axis_of(input, dim, "glu")] % 2:
        raise ValueError(f"glu: axis {dim} of {input.shape} cannot be halved.")
    a, b = chunk(input, 2, dim)
    return mul(a, sigmoid(b))


def _along(f: ActivationFunction, input: TensorLike, dim: int | None, who: str) -> Tensor:
    x = numbers(input, who)
    if not x.ndim:
        axes_of(x, dim, who)  # which accepts 0 and -1 for the axis that a single number lacks
        return _activated(f, x.reshape((1,)), who, 0).reshape(())
    axis = axis_of(x, -1 if dim is None else dim, who)
    return _activated(f, x, who, axis)


@function
def softmax(input: TensorLike, dim: int | None = None) -> Any:
    """exp(x) / Σ exp(x) along ``dim``, the last axis if left out.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.softmax(np.float32([[[7, 0], [7, 0]]]), dim=1).tolist()
    [[[0.5, 0.5], [0.5, 0.5]]]
    """
    return _along(_F.softmax(), input, dim, "softmax")


@function
def log_softmax(input: TensorLike, dim: int | None = None) -> Any:
    """x - log Σ exp(x) along ``dim``, the last axis if left out."""
    return _along(_F.log_softmax(), input, dim, "log_softmax")


@composite
def softmin(input: Floats, dim: int | None = None) -> Any:
    """Softmax of -x."""
    return softmax(mul(input, -1.0), dim)
