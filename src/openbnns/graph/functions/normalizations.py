"""Normalizations of samples, of channels and of groups of channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import NormalizationType
from .. import checks, operations
from ..checks import positive
from ..graph import Graph
from ..parameter import Parameter
from ..sizes import AnySize, is_same_shape
from ..tensor import Array, Tensor
from .base import TensorLike, at_once, function, held_weight, numbers
from .elementwise import add, mul, rsqrt, square, sub
from .indexing import select
from .reductions import mean
from .shapes import unsqueeze

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]


@function
def layer_norm(
    input: TensorLike, normalized_shape: Any, weight: TensorLike = None, bias: TensorLike = None,
    eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Each sample with mean 0 and deviation 1 over its last axes, those of ``normalized_shape``, scaled and shifted.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.functional.layer_norm(np.float32([[1, 3]]), 2).round(3))
    [[-1.  1.]]
    """
    x = numbers(input, "layer_norm")
    shape = checks.sample_end(normalized_shape, "layer_norm: normalized_shape")
    if x.ndim < len(shape) or x.shape[x.ndim - len(shape) :] != shape:
        raise ValueError(f"layer_norm: made for samples that end in {shape}, but gets {x.shape[1:] or x.shape}.")
    kind, count = NormalizationType.layer(normalization_axis=0), math.prod(map(int, shape))
    one = x.ndim == len(shape)  # a single sample, without an axis in front
    y = _normalized("layer_norm", unsqueeze(x, 0) if one else x, kind, (count,), shape, weight, bias, 1.0, eps)
    return select(y, 0, 0) if one else y


@function
def rms_norm(input: TensorLike, normalized_shape: Any, weight: TensorLike = None, eps: float | None = None) -> Any:
    """Each sample divided by its root mean square over its last axes; see RMSNorm."""
    x = numbers(input, "rms_norm")
    shape = fitting_end(checks.sample_end(normalized_shape, "rms_norm: normalized_shape"), x, "rms_norm")
    least = float(np.finfo(np.float32).eps) if eps is None else checks.epsilon(eps, "rms_norm")
    y = mul(x, rsqrt(add(mean(square(x), tuple(range(-len(shape), 0)), keepdim=True), least)))
    if weight is None:
        return y
    factors = numbers(weight, "rms_norm: weight")
    if not is_same_shape(factors.shape, shape):
        raise ValueError(f"rms_norm: weight has shape {factors.shape}, but {shape} is needed.")
    return mul(y, factors)


@function
def group_norm(
    input: TensorLike, num_groups: int, weight: TensorLike = None, bias: TensorLike = None, eps: float = 1e-5
) -> Any:
    """Each group of channels of a sample normalized; see GroupNorm."""
    return group_norm_of("group_norm", numbers(input, "group_norm"), num_groups, weight, bias, eps)


@at_once
def batch_norm(
    input: TensorLike, running_mean: Array | None, running_var: Array | None, weight: TensorLike = None, bias: TensorLike = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Channels normalized over the batch; see BatchNorm1d and BatchNorm2d.

    ``running_mean`` and ``running_var`` are float32 arrays, such as buffers, that training changes in place. Whether the
    network trains is known by the network itself, so ``training`` makes no difference.
    """
    x = numbers(input, "batch_norm")
    return channel_norm("batch_norm", x, "batch", running_mean, running_var, weight, bias, momentum, eps)


@at_once
def instance_norm(
    input: TensorLike, running_mean: Array | None = None, running_var: Array | None = None, weight: TensorLike = None,
    bias: TensorLike = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Each channel of a sample normalized; see InstanceNorm1d and InstanceNorm2d."""
    x = numbers(input, "instance_norm")
    return channel_norm("instance_norm", x, "instance", running_mean, running_var, weight, bias, momentum, eps)


def channel_norm(
    who: str, x: Tensor, kind: str, mean: Array | None, variance: Array | None, weight: TensorLike, bias: TensorLike,
    momentum: float, eps: float,
) -> Tensor:  # fmt: skip
    """Normalization of channels, with moving statistics if there are arrays for them."""
    if (mean is None) != (variance is None):
        raise ValueError(f"{who}: running_mean and running_var belong together. Give both, or neither.")
    if x.ndim not in (2, 3, 4, 5):
        raise ValueError(
            f"{who}: needs samples with channels and at most three axes behind them, but gets {x.shape[1:]}."
        )
    made = NormalizationType.batch if kind == "batch" else NormalizationType.instance
    type = made(moving_mean=mean, moving_variance=variance)
    kept = 1 - checks.momentum(momentum, who)
    return _normalized(who, x, type, _as_image(x), (int(x.shape[1]),), weight, bias, kept, eps)


def group_norm_of(who: str, x: Tensor, groups: int, weight: TensorLike, bias: TensorLike, eps: float) -> Tensor:
    check_rank_of_groups(who, x)
    channels, groups = int(x.shape[1]), positive(groups, f"{who}: num_groups")
    check_groups(who, groups, channels)
    sample = (x.shape[1], 1, 1) if x.ndim == 2 else _as_image(x)
    return _normalized(who, x, NormalizationType.group(group_count=groups), sample, (channels,), weight, bias, 1.0, eps)


def check_rank_of_groups(who: str, x: Tensor) -> None:
    if x.ndim not in (2, 3, 4, 5):
        raise ValueError(
            f"{who}: needs samples (channels, depth, height, width), (channels, height, width), (channels, length) or "
            f"(channels,), but gets {x.shape[1:]}."
        )


def check_groups(who: str, groups: int, channels: int) -> None:
    if channels % groups:
        raise ValueError(f"{who}: {groups} groups do not divide {channels} channels. Choose num_groups that does.")


def _as_image(x: Tensor) -> tuple[AnySize, ...]:
    """The shape of a sample as a layer normalizes it: signals are images of one row, volumes of all rows of all frames."""
    if x.ndim == 3:
        return (x.shape[1], 1, x.shape[2])
    return (x.shape[1], x.shape[2] * x.shape[3], x.shape[4]) if x.ndim == 5 else x.shape[1:]


def _normalized(
    who: str, x: Tensor, kind: NormalizationType, sample: Sequence[AnySize], shape: Sequence[Any], weight: TensorLike,
    bias: TensorLike, momentum: float, eps: float,
) -> Tensor:  # fmt: skip
    """Record a normalization whose weight and bias, if given, must have this shape."""

    def held(given: TensorLike, name: str) -> Any:
        one = None if given is None else held_weight(x.graph, given, f"{who}: {name}")
        if one is not None and not is_same_shape(one.shape, shape):
            raise ValueError(f"{who}: {name} has shape {one.shape}, but {tuple(shape)} is needed.")
        return one

    gamma, beta = held(weight, "weight"), held(bias, "bias")
    return record_normalization(x.graph, x, kind, sample, gamma, beta, momentum, checks.epsilon(eps, who))


def record_normalization(
    graph: Graph, x: Tensor, type: NormalizationType, sample: Sequence[AnySize], gamma: Any, beta: Any, momentum: float,
    epsilon: float,
) -> Tensor:  # fmt: skip
    """Append a normalization with these arguments, or its replacement in a module whose mode differs from the network's."""
    if graph.own_mode is False and type.case in ("batch", "instance") and type.moving_mean is not None:
        return _as_it_is(x, type, gamma, beta, epsilon)
    of_batch = graph.batch_normalization if type.case == "batch" else None
    made = operations.Normalization if of_batch is None else of_batch
    return graph.append(made(graph, x, type, sample, gamma, beta, momentum, epsilon))


def _as_it_is(x: Tensor, kind: NormalizationType, weight: Any, bias: Any, epsilon: float) -> Tensor:
    """Normalization by moving statistics in a training pass: they are constants for the gradient."""

    def of_channel(values: Any) -> Tensor:
        value = x.graph.parameter(values, own=False) if isinstance(values, Parameter) else values
        return value.reshape((int(value.count), *(1,) * (x.ndim - 2)))

    factor = rsqrt(add(x.graph.constant(kind.moving_variance), epsilon))
    if weight is not None:
        factor = mul(factor, x.graph.parameter(weight, own=False) if isinstance(weight, Parameter) else weight)
    y = mul(sub(x, of_channel(x.graph.constant(kind.moving_mean))), of_channel(factor))
    result: Tensor = y if bias is None else add(y, of_channel(bias))
    return result


def fitting_end(sizes: tuple[int, ...] | None, x: Tensor, who: str) -> tuple[int, ...]:
    """The last axes of a value, which must be of these sizes; one axis if there are none."""
    shape = tuple(map(int, x.shape[-1:])) if sizes is None else sizes
    # A vector is one sample only for a layer that is made for its size: without one, it may be a batch of numbers.
    if x.ndim < len(shape) + (sizes is None) or x.shape[x.ndim - len(shape) :] != shape or not shape:
        raise ValueError(f"{who}: made for samples that end in {shape}, but gets {x.shape[1:] or x.shape}.")
    return shape
