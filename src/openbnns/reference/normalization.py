"""Normalization: xhat = (x - mean) / sqrt(variance + epsilon), z = gamma*xhat + beta, y = f(z).

Samples are images, x (N, C, H, W), or vectors, x (N, C), whose elements are channels of one pixel. Statistics are
population statistics (divided by the count, not by the count minus one) of

    batch     all samples and pixels of a channel               beta, gamma (C,)
    instance  all pixels of a channel of one sample             beta, gamma (C,)
    layer     C, H, W (axis 0), H, W (axis 1) or W (axis 2)     beta, gamma of a shape that broadcasts to a sample
              of one sample; of a vector always all elements
    group     all pixels of C/groups channels of one sample     beta, gamma (C,)

An absent (None) beta is 0, an absent gamma is 1. f is elementwise.

Batch and instance normalization may track moving statistics (C,); instance averages those of its samples first:

    moving = momentum*moving + (1 - momentum)*current

An empty batch has no statistics: the moving ones do not change, and its parameter gradients are zero. Without an
epsilon, values that are all equal normalize to NaN.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..parameters.activation import ELEMENTWISE, Activation
from ..parameters.normalization import Kind, Normalization
from . import activation
from .activation import Array
from .arithmetic import sum_to_shape


@dataclass(frozen=True)
class Moving:
    """Moving mean and variance, (C,) each; None is not tracked."""

    mean: Array | None = None
    variance: Array | None = None


UNTRACKED: Final = Moving()


@dataclass(frozen=True)
class NormalizedArrays:
    """The arrays that a training forward keeps for its backward.

    xhat has the shape of x. inverse_deviation, 1 / sqrt(variance + epsilon), is one value per mean and variance, with
    size 1 on the axes of the statistics; groups have a separate axis, (N, groups, 1, ...).
    """

    xhat: Array
    inverse_deviation: Array


@np.errstate(all="ignore")
def training_forward(
    n: Normalization, x: Array, beta: Array | None, gamma: Array | None, f: Activation, moving: Moving = UNTRACKED
) -> tuple[Array, NormalizedArrays, Moving]:
    """y by the statistics of x, the state that `backward` needs, and the moving statistics after this call.

    Layer and group normalization return `moving` as it is.
    """
    _check(n, x, f)
    mean, variance = _statistics(n, x)
    state = _normalized(n, x, mean, variance)
    y = activation.forward(f, _affine(n, state.xhat, beta, gamma))
    return y, state, _moved(n, x, moving, mean, variance)


@np.errstate(all="ignore")
def inference_forward(
    n: Normalization, x: Array, beta: Array | None, gamma: Array | None, f: Activation, moving: Moving = UNTRACKED
) -> Array:
    """y by the moving statistics, or by those of x where they are not tracked; layer and group always by those of x."""
    _check(n, x, f)
    mean, variance = _statistics(n, x)
    if n.kind in (Kind.BATCH, Kind.INSTANCE):
        mean = mean if moving.mean is None else _per_channel(moving.mean, x.ndim)
        variance = variance if moving.variance is None else _per_channel(moving.variance, x.ndim)
    return activation.forward(f, _affine(n, _normalized(n, x, mean, variance).xhat, beta, gamma))


@np.errstate(all="ignore")
def backward(
    n: Normalization,
    state: NormalizedArrays,
    beta: Array | None,
    gamma: Array | None,
    y: Array | None,
    dy: Array,
    f: Activation,
    wanted: Set[str],
) -> dict[str, Array]:
    """The wanted gradients among {"dx", "dbeta", "dgamma"} of a training forward.

        dz = dy f'(z)               from y, or from z = gamma*xhat + beta where y is None or does not determine it
        dbeta = sum dz              over the batch and all axes along which beta is broadcast
        dgamma = sum dz*xhat        likewise
        g = gamma*dz                of z = gamma*xhat + beta
        dx = (g - mean(g) - xhat*mean(g*xhat)) / sqrt(variance + epsilon),  means over the axes of the statistics

    dbeta and dgamma have the shapes of beta and gamma; for an absent one, (C,), and for layer that of a sample.
    """
    if dy.shape != state.xhat.shape:
        raise ValueError(
            f"normalization.backward: dy has shape {dy.shape}, but the training forward had {state.xhat.shape}; "
            "both must see the same batch."
        )
    dz = activation.fused_backward(f, dy, y, _affine(n, state.xhat, beta, gamma))
    gradients: dict[str, Array] = {}
    if "dbeta" in wanted:
        gradients["dbeta"] = _parameter_gradient(n, dz, beta)
    if "dgamma" in wanted:
        gradients["dgamma"] = _parameter_gradient(n, dz * state.xhat, gamma)
    if "dx" in wanted:
        g = _grouped(n, dz if gamma is None else dz * _aligned(n, gamma, dz.shape))
        xhat = _grouped(n, state.xhat)
        centred = g - _mean(n, g, dz.ndim) - xhat * _mean(n, g * xhat, dz.ndim)
        gradients["dx"] = (centred * state.inverse_deviation).reshape(dy.shape)
    return gradients


# ---------------------------------------------------------------------------------------------------------------------
# Statistics. `_grouped` gives groups a separate axis: (N, groups, C/groups, ...); other kinds stay as they are.


def _grouped(n: Normalization, x: Array) -> Array:
    if n.kind != Kind.GROUP:
        return x
    samples, channels, *pixels = x.shape
    return x.reshape(samples, n.groups, channels // n.groups, *pixels)


def _axes(n: Normalization, dimensions: int) -> tuple[int, ...]:
    """The axes of `_grouped(n, x)` that one mean is taken over, x having this many dimensions."""
    match n.kind:
        case Kind.BATCH:
            return (0, *range(2, dimensions))
        case Kind.INSTANCE:
            return tuple(range(2, dimensions))
        case Kind.LAYER:
            return tuple(range(min(1 + n.axis, dimensions - 1), dimensions))
        case _:
            return tuple(range(2, dimensions + 1))


def _mean(n: Normalization, grouped: Array, dimensions: int) -> Array:
    """The mean over the axes of the statistics, which keep size 1; 0 if there is nothing to average."""
    axes = _axes(n, dimensions)
    total: Array = np.sum(grouped, axis=axes, keepdims=True)
    return total / max(_count(grouped, axes), 1)


def _count(x: Array, axes: tuple[int, ...]) -> int:
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    return count


def _statistics(n: Normalization, x: Array) -> tuple[Array, Array]:
    """Mean and population variance, with size 1 on the axes of the statistics."""
    grouped = _grouped(n, x)
    mean = _mean(n, grouped, x.ndim)
    return mean, _mean(n, (grouped - mean) ** 2, x.ndim)


def _normalized(n: Normalization, x: Array, mean: Array, variance: Array) -> NormalizedArrays:
    inverse_deviation = 1.0 / np.sqrt(variance + n.epsilon)
    return NormalizedArrays(((_grouped(n, x) - mean) * inverse_deviation).reshape(x.shape), inverse_deviation)


def _moved(n: Normalization, x: Array, moving: Moving, mean: Array, variance: Array) -> Moving:
    """The moving statistics after a training forward with these current ones."""
    if n.kind not in (Kind.BATCH, Kind.INSTANCE) or x.size == 0:
        return moving
    keep = n.momentum
    if n.torch_moving:
        keep = 1.0 - n.momentum
        count = _count(x, _axes(n, x.ndim))
        variance = variance * (count / max(count - 1, 1))

    def blend(old: Array | None, current: Array) -> Array | None:
        if old is None:
            return None
        average: Array = np.mean(current.reshape(len(current), -1), axis=0)  # over samples; batch has one entry only
        return keep * old + (1.0 - keep) * average

    return Moving(blend(moving.mean, mean), blend(moving.variance, variance))


# ---------------------------------------------------------------------------------------------------------------------
# Parameters


def _affine(n: Normalization, xhat: Array, beta: Array | None, gamma: Array | None) -> Array:
    """z = gamma*xhat + beta."""
    scaled = xhat if gamma is None else xhat * _aligned(n, gamma, xhat.shape)
    return scaled if beta is None else scaled + _aligned(n, beta, xhat.shape)


def _aligned(n: Normalization, parameter: Array, shape: tuple[int, ...]) -> Array:
    """beta or gamma in a shape that broadcasts against x of this shape."""
    sample = shape[1:]
    if n.kind != Kind.LAYER:
        if parameter.shape != sample[:1]:
            raise ValueError(
                f"normalization: beta and gamma have one value per channel, shape {sample[:1]}; got {parameter.shape}."
            )
        return _per_channel(parameter, len(shape))
    sizes = zip(reversed(parameter.shape), reversed(sample), strict=False)
    if parameter.ndim > len(sample) or any(size not in (1, whole) for size, whole in sizes):
        raise ValueError(
            f"normalization: beta and gamma of a layer normalization broadcast to a sample, shape {sample}; "
            f"got {parameter.shape}."
        )
    return parameter


def _per_channel(values: Array, dimensions: int) -> Array:
    return values.reshape((1, -1) + (1,) * (dimensions - 2))


def _parameter_gradient(n: Normalization, gradient: Array, parameter: Array | None) -> Array:
    """`gradient` summed to the shape of beta or gamma."""
    if n.kind != Kind.LAYER:
        return np.asarray(np.sum(gradient, axis=(0, *range(2, gradient.ndim))))
    return sum_to_shape(gradient, gradient.shape, gradient.shape[1:] if parameter is None else parameter.shape)


def _check(n: Normalization, x: Array, f: Activation) -> None:
    if n.kind not in frozenset(Kind):
        raise ValueError(f"normalization: there is no kind {n.kind}; the kinds are {min(Kind)} to {max(Kind)}.")
    if n.kind == Kind.LAYER and n.axis not in (0, 1, 2):
        raise ValueError(f"normalization: axis is 0 (C, H, W), 1 (H, W) or 2 (W); got {n.axis}.")
    if n.kind == Kind.GROUP and (n.groups < 1 or x.shape[1] % n.groups):
        raise ValueError(f"normalization: {x.shape[1]} channels do not divide into {n.groups} groups.")
    if f.function not in ELEMENTWISE:
        raise ValueError(f"normalization: the activation must be elementwise; function {f.function} is not.")
