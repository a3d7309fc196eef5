"""Normalizations of samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import NormalizationType
from .. import operations
from ..parameter import Parameter
from ..sizes import is_same_shape
from .base import TensorLike, function, numbers
from .indexing import select
from .shapes import unsqueeze

__all__ = ["layer_norm"]


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
    shape = tuple(normalized_shape) if isinstance(normalized_shape, Sequence) else (normalized_shape,)
    if not shape or x.ndim < len(shape) or x.shape[x.ndim - len(shape) :] != shape:
        raise ValueError(f"layer_norm: made for samples that end in {shape}, but gets {x.shape[1:] or x.shape}.")
    kind, count = NormalizationType.layer(normalization_axis=0), math.prod(map(int, shape))
    one = x.ndim == len(shape)  # a single sample, without an axis in front
    samples = unsqueeze(x, 0) if one else x
    gamma, beta = _weight(weight, shape, "weight"), _weight(bias, shape, "bias")
    y = x.graph.append(operations.Normalization(x.graph, samples, kind, (count,), gamma, beta, 1.0, float(eps)))
    return select(y, 0, 0) if one else y


def _weight(given: TensorLike, shape: Sequence[Any], name: str) -> Any:
    """A parameter of the network as it is, which may be fused, and anything else as a value."""
    if given is None:
        return None
    x = numbers(given, f"layer_norm: {name}")
    if not is_same_shape(x.shape, shape):
        raise ValueError(f"layer_norm: {name} has shape {x.shape}, but {tuple(shape)} is needed.")
    if isinstance(x.leaf, np.ndarray):
        return Parameter.owning(x.leaf, requires_grad=False)
    return x.leaf if isinstance(x.leaf, Parameter) else x
