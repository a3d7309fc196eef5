"""Normalizations whose parameters are given. Weights are parameters, or arrays that stay as they are."""

from __future__ import annotations

from typing import Any

from ...graph.functions.base import TensorLike
from ...graph.tensor import Array
from ._given import with_parameters


def layer_norm(
    input: TensorLike, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Each sample normalized over its last axes; see LayerNorm.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.functional.layer_norm(np.float32([[1, 3]]), 2).round(3))
    [[-1.  1.]]
    """
    from ..normalization import LayerNorm

    layer = LayerNorm(normalized_shape, eps, elementwise_affine=False)
    return with_parameters(input, layer, "layer_norm", weight=weight, bias=bias)


def rms_norm(input: TensorLike, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """Each sample divided by its root mean square over its last axes; see RMSNorm."""
    from ..normalization import RMSNorm

    layer = RMSNorm(normalized_shape, eps, elementwise_affine=False)
    return with_parameters(input, layer, "rms_norm", weight=weight)


def group_norm(input: TensorLike, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Each group of channels of a sample normalized; see GroupNorm."""
    from ..normalization import GroupNorm

    layer = GroupNorm(num_groups, None, eps, affine=False)
    return with_parameters(input, layer, "group_norm", weight=weight, bias=bias)


def batch_norm(
    input: TensorLike, running_mean: Array | None, running_var: Array | None, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Channels normalized over the batch; see BatchNorm1d and BatchNorm2d.

    ``running_mean`` and ``running_var`` are float32 arrays, such as buffers, that training changes in place. Whether the
    network trains is known by the network itself, so ``training`` makes no difference.
    """
    from ..normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d

    kind = {4: BatchNorm2d, 5: BatchNorm3d}.get(len(input.shape), BatchNorm1d)
    layer = kind(None, eps, momentum, False, running_mean is not None)
    return _with_statistics(input, layer, running_mean, running_var, "batch_norm", weight=weight, bias=bias)


def instance_norm(
    input: TensorLike, running_mean: Array | None = None, running_var: Array | None = None, weight: Any = None,
    bias: Any = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Each channel of a sample normalized; see InstanceNorm1d and InstanceNorm2d."""
    from ..normalization import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d

    kind = {4: InstanceNorm2d, 5: InstanceNorm3d}.get(len(input.shape), InstanceNorm1d)
    layer = kind(None, eps, momentum, False, running_mean is not None)
    return _with_statistics(input, layer, running_mean, running_var, "instance_norm", weight=weight, bias=bias)


def _with_statistics(input: TensorLike, layer: Any, mean: Any, variance: Any, who: str, **parameters: Any) -> Any:
    if (mean is None) != (variance is None):
        raise ValueError(f"{who}: running_mean and running_var belong together. Give both, or neither.")
    if mean is not None:
        layer.register_buffer("running_mean", mean)
        layer.register_buffer("running_var", variance)
    return with_parameters(input, layer, who, **parameters)
