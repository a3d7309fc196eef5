"""Normalizations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph import functions as F
from ....graph.parameter import Parameter
from ....graph.sizes import is_same_shape, product
from ....graph.tensor import FLOAT32, Tensor
from ...converted.tensors import ForeignTensor, Misfit, optional_numbers
from .._call import Call
from .._operator import operator
from ..tensor import broadcast_shape

NORMALIZATIONS = "normalizations"


def _channels(x: ForeignTensor, *weights: ForeignTensor | None) -> int:
    if x.rank < 2:
        raise Misfit(f"{x.shape} has no channels")
    count = x.shape[1]
    if any(w is not None and w.shape != (count,) for w in weights):
        raise Misfit(
            f"weights {', '.join(str(w.shape) for w in weights if w is not None)} do not fit channels of {x.shape}"
        )
    return int(count)


def _by_channel(x: ForeignTensor, weight: ForeignTensor) -> Tensor:
    """One number per channel, to meet the elements of ``x``."""
    return weight.numbers.reshape((weight.shape[0], *[1] * (x.rank - 2)))


def _scaled(x: ForeignTensor, y: Any, scale: ForeignTensor | None, bias: ForeignTensor | None) -> Any:
    y = y if scale is None else F.mul(y, _by_channel(x, scale))
    return y if bias is None else F.add(y, _by_channel(x, bias))


def _image(value: Tensor) -> Tensor:
    """(N, C, H, W) of a value of more axes: the statistics of a channel are over all pixels, however these lie."""
    if value.ndim <= 4:
        return value
    return value.reshape((*value.shape[:2], product(value.shape[2:-1]), value.shape[-1]))


@operator(NORMALIZATIONS, "BatchNormalization", statistics=(3, 4), ignores=("training_mode", "is_test"))
def batch_normalization(
    call: Call,
    x: ForeignTensor,
    scale: ForeignTensor,
    bias: ForeignTensor,
    mean: ForeignTensor,
    variance: ForeignTensor,
) -> ForeignTensor:
    if call.outputs > 1:
        raise Misfit("statistics as results have no counterpart here: export the model for evaluation")
    call.only(spatial=1)
    _channels(x, scale, bias, mean, variance)
    eps, momentum = call.number("epsilon", 1e-5), call.number("momentum", 0.9)
    buffers = all(w.constant and w.held.dtype == FLOAT32 and w.held.flags.c_contiguous for w in (mean, variance))
    if not buffers:
        if call.integer("training_mode", 0) or isinstance(mean.held, Parameter):
            raise Misfit("its statistics must be initializers of the model")
        spread = F.rsqrt(F.add(_by_channel(x, variance), eps))
        return ForeignTensor(_scaled(x, F.mul(F.sub(x.numbers, _by_channel(x, mean)), spread), scale, bias))
    weights = (scale.numbers, bias.numbers)
    y = F.batch_norm(_image(x.numbers), mean.held, variance.held, *weights, momentum=1 - momentum, eps=eps)
    return ForeignTensor(y.reshape(x.shape))


@operator(NORMALIZATIONS, "InstanceNormalization")
def instance_normalization(call: Call, x: ForeignTensor, scale: ForeignTensor, bias: ForeignTensor) -> ForeignTensor:
    _channels(x, scale, bias)
    if x.rank < 3:
        raise Misfit(f"{x.shape} has no pixels")
    eps, value, pixels = call.number("epsilon", 1e-5), x.numbers, product(x.shape[2:])
    if pixels != 1:
        image = value if value.ndim == 4 else value.reshape((*x.shape[:2], pixels))
        return ForeignTensor(F.instance_norm(image, None, None, scale.numbers, bias.numbers, eps=eps).reshape(x.shape))
    y, _, _ = _normalized(value, list(range(2, x.rank)), eps)
    return ForeignTensor(_scaled(x, y, scale, bias))


def _normalized(value: Tensor, axes: list[int], eps: float) -> tuple[Any, Any, Any]:
    """With mean 0 and deviation 1 along axes; and the mean, and one over the deviation."""
    mean = F.mean(value, axes, True)
    centred = F.sub(value, mean)
    factor = F.rsqrt(F.add(F.mean(F.square(centred), axes, True), eps))
    return F.mul(centred, factor), mean, factor


def _last(call: Call, x: ForeignTensor) -> list[int]:
    return list(range(x.axis(call.integer("axis", -1)), x.rank))


def _check_weight(weight: ForeignTensor, x: ForeignTensor) -> None:
    if not is_same_shape(broadcast_shape([weight.shape, x.shape]), x.shape):
        raise Misfit(f"a weight {weight.shape} does not fit {x.shape}")


@operator(NORMALIZATIONS, "LayerNormalization", ignores=("stash_type",))
def layer_normalization(call: Call, x: ForeignTensor, scale: ForeignTensor, bias: ForeignTensor | None = None) -> Any:
    axes, eps = _last(call, x), call.number("epsilon", 1e-5)
    shape = x.shape[axes[0] :]
    if all(w is None or is_same_shape(w.shape, shape) for w in (scale, bias)) and call.outputs == 1:
        return ForeignTensor(F.layer_norm(x.numbers, shape, scale.numbers, optional_numbers(bias), eps))
    y, mean, factor = _normalized(x.numbers, axes, eps)
    for weight, function in ((scale, F.mul), (bias, F.add)):
        if weight is not None:
            _check_weight(weight, x)
            y = function(y, weight.numbers)
    return (ForeignTensor(y), ForeignTensor(mean), ForeignTensor(factor))[: call.outputs]


@operator(NORMALIZATIONS, "RMSNormalization", ignores=("stash_type",))
def rms_normalization(call: Call, x: ForeignTensor, scale: ForeignTensor) -> ForeignTensor:
    axes, eps = _last(call, x), call.number("epsilon", 1e-5)
    shape = x.shape[axes[0] :]
    if is_same_shape(scale.shape, shape):
        return ForeignTensor(F.rms_norm(x.numbers, shape, scale.numbers, eps))
    _check_weight(scale, x)
    value = x.numbers
    factor = F.rsqrt(F.add(F.mean(F.square(value), axes, True), eps))
    return ForeignTensor(F.mul(F.mul(value, factor), scale.numbers))


@operator(NORMALIZATIONS, "GroupNormalization", ignores=("stash_type",))
def group_normalization(call: Call, x: ForeignTensor, scale: ForeignTensor, bias: ForeignTensor) -> ForeignTensor:
    groups, eps, channels = call.integer("num_groups"), call.number("epsilon", 1e-5), _channels(x)
    if groups < 1 or channels % groups:
        raise Misfit(f"{groups} groups do not divide {channels} channels")
    value = x.numbers
    if scale.shape == bias.shape == (groups,):
        scale, bias = (_repeated(w, channels // groups) for w in (scale, bias))
    if not scale.shape == bias.shape == (channels,):
        raise Misfit(f"weights {scale.shape} and {bias.shape} do not fit {groups} groups of {channels} channels")
    return ForeignTensor(F.group_norm(_image(value), groups, scale.numbers, bias.numbers, eps).reshape(x.shape))


def _repeated(weight: ForeignTensor, count: int) -> ForeignTensor:
    """One number per group as one per channel, which versions before 21 had."""
    groups = weight.shape[0]
    return ForeignTensor(F.expand(weight.numbers.reshape((groups, 1)), groups, count).reshape((groups * count,)))


@operator(NORMALIZATIONS, "MeanVarianceNormalization")
def mean_variance_normalization(call: Call, x: ForeignTensor) -> ForeignTensor:
    axes = [x.axis(axis) for axis in call.integers("axes", (0, 2, 3))]
    return ForeignTensor(_normalized(x.numbers, axes, 1e-9)[0])


@operator(NORMALIZATIONS, "LRN")
def local_response_normalization(call: Call, x: ForeignTensor) -> ForeignTensor:
    size, alpha = call.integer("size"), call.number("alpha", 1e-4)
    beta, bias, channels = call.number("beta", 0.75), call.number("bias", 1.0), _channels(x)
    if size < 1 or x.rank < 3:
        raise Misfit(f"size={size} or {x.shape} has no counterpart here")
    value = x.numbers
    distance = np.arange(channels)[None, :] - np.arange(channels)[:, None]
    band = ((distance >= -((size - 1) // 2)) & (distance <= size // 2)).astype(np.float32) * np.float32(alpha / size)
    squares = F.square(value).reshape((x.shape[0], channels, product(x.shape[2:])))
    sums = F.matmul(band, squares).reshape(x.shape)
    return ForeignTensor(F.mul(value, F.pow(F.add(sums, bias), -beta)))
