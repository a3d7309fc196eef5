"""Normalizations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import functional as F
from ..._value import FLOAT32, Value
from ...converted.tensors import Misfit
from ...parameter import Parameter
from .._call import Call
from .._tensor import Tensor, broadcast_shape
from ._registry import operator

NORMALIZATIONS = "normalizations"


def _is_held(x: Tensor | None) -> bool:
    """Whether layers can take it as weights."""
    return x is None or isinstance(x.held, Parameter) or x.constant


def _held(x: Tensor | None) -> Any:
    if x is None or isinstance(x.held, Parameter):
        return None if x is None else x.held
    return np.ascontiguousarray(x.held, np.float32)


def _channels(x: Tensor, *weights: Tensor | None) -> int:
    if x.rank < 2:
        raise Misfit(f"{x.shape} has no channels")
    count = x.shape[1]
    if any(w is not None and w.shape != (count,) for w in weights) or x.batch == 1:
        raise Misfit(
            f"weights {', '.join(str(w.shape) for w in weights if w is not None)} do not fit channels of {x.shape}"
        )
    return int(count)


def _by_channel(x: Tensor, weight: Tensor) -> Value:
    """One number per channel, to meet the elements of ``x``."""
    value = weight.numbers
    first = value.shape[: int(bool(value.rows))]
    shaped = value.reshape((*first, weight.shape[0], *[1] * (x.rank - 2)))
    return Tensor(shaped, (weight.shape[0], *[1] * (x.rank - 2))).aligned(x.shape)


def _scaled(x: Tensor, y: Any, scale: Tensor | None, bias: Tensor | None) -> Any:
    y = y if scale is None else F.mul(y, _by_channel(x, scale))
    return y if bias is None else F.add(y, _by_channel(x, bias))


@operator(NORMALIZATIONS, "BatchNormalization")
def batch_normalization(call: Call, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    if call.outputs > 1:
        raise Misfit("statistics as results have no counterpart here: export the model for evaluation")
    _channels(x, scale, bias, mean, variance)
    eps, momentum = call.number("epsilon", 1e-5), call.number("momentum", 0.9)
    buffers = all(w.constant and w.held.dtype == FLOAT32 and w.held.flags.c_contiguous for w in (mean, variance))
    if not buffers or not _is_held(scale) or not _is_held(bias):
        if call.integer("training_mode", 0) or isinstance(mean.held, Parameter):
            raise Misfit("its statistics must be initializers of the model")
        spread = F.rsqrt(F.add(_by_channel(x, variance), eps))
        return Tensor(_scaled(x, F.mul(F.sub(x.numbers, _by_channel(x, mean)), spread), scale, bias), x.shape)
    value, back = x.by_axis_first()
    image = value
    if len(value.sample) > 3:  # the statistics of a channel are over all pixels, however these lie
        image = value.reshape((value.shape[0], value.sample[0], math.prod(value.sample[1:-1]), value.sample[-1]))
    y = F.batch_norm(image, mean.held, variance.held, _held(scale), _held(bias), momentum=1 - momentum, eps=eps)
    return back(y.reshape((value.shape[0], *value.sample)))


@operator(NORMALIZATIONS, "InstanceNormalization")
def instance_normalization(call: Call, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    _channels(x, scale, bias)
    if x.rank < 3:
        raise Misfit(f"{x.shape} has no pixels")
    eps = call.number("epsilon", 1e-5)
    value, back = x.by_axis_first()
    pixels = math.prod(value.sample[1:])
    if _is_held(scale) and _is_held(bias) and pixels > 1:
        image = value if len(value.sample) == 3 else value.reshape((value.shape[0], value.sample[0], pixels))
        y = F.instance_norm(image, None, None, _held(scale), _held(bias), eps=eps)
        return back(y.reshape((value.shape[0], *value.sample)))
    y, _, _ = _normalized(x, tuple(range(2, x.rank)), eps)
    return Tensor(_scaled(x, y, scale, bias), x.shape)


def _normalized(x: Tensor, axes: tuple[int, ...], eps: float) -> tuple[Any, Any, Any]:
    """With mean 0 and deviation 1 along axes; and the mean, and one over the deviation."""
    x.free(axes, "the normalization")
    value, dims = x.numbers, [x.axis(axis) for axis in axes]
    mean = F.mean(value, dims, True)
    centred = F.sub(value, mean)
    factor = F.rsqrt(F.add(F.mean(F.square(centred), dims, True), eps))
    return F.mul(centred, factor), mean, factor


def _last(call: Call, x: Tensor) -> tuple[int, ...]:
    axis = call.integer("axis", -1)
    if not -x.rank <= axis < x.rank:
        raise Misfit(f"there is no axis {axis} in {x.shape}")
    axes = tuple(range(axis % x.rank, x.rank))
    x.free(axes, "the normalization")
    return axes


@operator(NORMALIZATIONS, "LayerNormalization")
def layer_normalization(call: Call, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Any:
    axes, eps = _last(call, x), call.number("epsilon", 1e-5)
    shape = x.shape[axes[0] :]
    fits = scale.shape == shape and (bias is None or bias.shape == shape)
    if fits and _is_held(scale) and _is_held(bias) and call.outputs == 1:
        return Tensor(F.layer_norm(x.numbers, shape, _held(scale), _held(bias), eps), x.shape)
    y, mean, factor = _normalized(x, axes, eps)
    for weight, function in ((scale, F.mul), (bias, F.add)):
        if weight is not None:
            if broadcast_shape([weight.shape, x.shape]) != x.shape:
                raise Misfit(f"a weight {weight.shape} does not fit {x.shape}")
            y = function(y, weight.aligned(x.shape))
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    return (Tensor(y, x.shape), Tensor(mean, kept), Tensor(factor, kept))[: call.outputs]


@operator(NORMALIZATIONS, "RMSNormalization")
def rms_normalization(call: Call, x: Tensor, scale: Tensor) -> Tensor:
    axes, eps = _last(call, x), call.number("epsilon", 1e-5)
    shape = x.shape[axes[0] :]
    if scale.shape == shape and _is_held(scale):
        return Tensor(F.rms_norm(x.numbers, shape, _held(scale), eps), x.shape)
    if broadcast_shape([scale.shape, x.shape]) != x.shape:
        raise Misfit(f"a weight {scale.shape} does not fit {x.shape}")
    value, dims = x.numbers, [x.axis(axis) for axis in axes]
    factor = F.rsqrt(F.add(F.mean(F.square(value), dims, True), eps))
    return Tensor(F.mul(F.mul(value, factor), scale.aligned(x.shape)), x.shape)


@operator(NORMALIZATIONS, "GroupNormalization")
def group_normalization(call: Call, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    groups, eps, channels = call.integer("num_groups"), call.number("epsilon", 1e-5), _channels(x)
    if groups < 1 or channels % groups:
        raise Misfit(f"{groups} groups do not divide {channels} channels")
    value, back = x.by_axis_first()
    if _is_held(scale) and _is_held(bias) and scale.shape == bias.shape == (channels,):
        image = value
        if len(value.sample) > 3:
            image = value.reshape((value.shape[0], channels, math.prod(value.sample[1:-1]), value.sample[-1]))
        y = F.group_norm(image, groups, _held(scale), _held(bias), eps)
        return back(y.reshape((value.shape[0], *value.sample)))
    apart = value.reshape((value.shape[0], groups, -1))
    normal, _, _ = _normalized(Tensor(apart), (2,), eps)
    y = back(normal.reshape((value.shape[0], *value.sample))).numbers
    if scale.shape == bias.shape == (channels,):
        return Tensor(_scaled(x, y, scale, bias), x.shape)
    if not scale.shape == bias.shape == (groups,):
        raise Misfit(f"weights {scale.shape} and {bias.shape} do not fit {groups} groups of {channels} channels")
    return Tensor(_scaled(x, y, *(_repeated(w, channels // groups) for w in (scale, bias))), x.shape)


def _repeated(weight: Tensor, count: int) -> Tensor:
    """One number per group as one per channel, which versions before 21 had."""
    value, groups = weight.numbers, weight.shape[0]
    first = value.shape[: int(bool(value.rows))]
    wide = F.expand(value.reshape((*first, groups, 1)), *first, groups, count)
    return Tensor(wide.reshape((*first, groups * count)), (groups * count,))


@operator(NORMALIZATIONS, "MeanVarianceNormalization")
def mean_variance_normalization(call: Call, x: Tensor) -> Tensor:
    axes = tuple(axis % x.rank for axis in call.integers("axes", (0, 2, 3)))
    return Tensor(_normalized(x, axes, 1e-9)[0], x.shape)


@operator(NORMALIZATIONS, "LRN")
def local_response_normalization(call: Call, x: Tensor) -> Tensor:
    size, alpha = call.integer("size"), call.number("alpha", 1e-4)
    beta, bias, channels = call.number("beta", 0.75), call.number("bias", 1.0), _channels(x)
    if size < 1 or x.rank < 3:
        raise Misfit(f"size={size} or {x.shape} has no counterpart here")
    value, back = x.by_axis_first()
    distance = np.arange(channels)[None, :] - np.arange(channels)[:, None]
    band = ((distance >= -((size - 1) // 2)) & (distance <= size // 2)).astype(np.float32) * np.float32(alpha / size)
    squares = F.square(value).reshape((value.shape[0], channels, math.prod(value.sample[1:])))
    sums = F.matmul(band, squares).reshape((value.shape[0], *value.sample))
    return back(F.mul(value, F.pow(F.add(sums, bias), -beta)))
