"""Multihead attention under its C names."""

from __future__ import annotations

import ctypes
from typing import Any

from ..filters.attention import MultiheadAttention
from ._calls import BNNSFilter, attempt, create
from .structs import BNNSFilterParameters, BNNSLayerParametersMultiheadAttention, BNNSMHAProjectionParameters


def BNNSFilterCreateLayerMultiheadAttention(
    layer_params: BNNSLayerParametersMultiheadAttention | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a multihead attention filter.

    Per head softmax(Q K^T / sqrt(d_k) + masks) V with Q, K, V projections of (T, d_model), (S, d_key), (S, d_value);
    the heads side by side times the output weights give (T, d_model). See :class:`openbnns.MultiheadAttentionLayer`.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> part = lambda weights: BNNSMHAProjectionParameters(
    ...     target_desc=Shape([3, 2]).descriptor(), weights=weights.descriptor(data=np.eye(2, dtype=np.float32))
    ... )
    >>> head = Shape.tensor_3d_last_major(2, 2, 1)  # d_model, d_k, heads
    >>> f = BNNSFilterCreateLayerMultiheadAttention(
    ...     BNNSLayerParametersMultiheadAttention(
    ...         query=part(head), key=part(head), value=part(head), output=part(Shape([2, 2]))
    ...     )
    ... )
    >>> x, y = np.float32([[1, 0], [1, 0], [1, 0]]), np.zeros((3, 2), np.float32)
    >>> BNNSApplyMultiheadAttention(f, 1, x, 0, x, 0, None, 0, x, 0, y, 0), y.tolist()
    (0, [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    """
    who = "BNNSFilterCreateLayerMultiheadAttention"
    return create(MultiheadAttention, who, layer_params, BNNSLayerParametersMultiheadAttention, filter_params)


def BNNSApplyMultiheadAttention(
    F: BNNSFilter | None, batch_size: int, query: Any, query_stride: int, key: Any, key_stride: int, key_mask: Any,
    key_mask_stride: int, value: Any, value_stride: int, output: Any, output_stride: int, add_to_attention: Any = None,
    backprop_cache_size: ctypes.c_size_t | None = None, backprop_cache: Any = None,
    workspace_size: ctypes.c_size_t | None = None, workspace: Any = None,
) -> int:  # fmt: skip
    """Run attention forward; a cache, if given, receives what the backward call needs.

    ``backprop_cache_size`` without ``backprop_cache``, or ``workspace_size`` without ``workspace``, asks for the size in
    bytes instead: it is stored in the ``c_size_t`` and nothing is computed.

    >>> import ctypes
    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> part = lambda weights: BNNSMHAProjectionParameters(
    ...     target_desc=Shape([3, 2]).descriptor(), weights=weights.descriptor(data=np.eye(2, dtype=np.float32))
    ... )
    >>> q = part(Shape.tensor_3d_last_major(2, 2, 1))
    >>> f = BNNSFilterCreateLayerMultiheadAttention(
    ...     BNNSLayerParametersMultiheadAttention(query=q, key=q, value=q, output=part(Shape([2, 2])))
    ... )
    >>> x, y, size = np.zeros((3, 2), np.float32), np.ones((3, 2), np.float32), ctypes.c_size_t()
    >>> BNNSApplyMultiheadAttention(f, 1, x, 0, x, 0, None, 0, x, 0, y, 0, None, size)  # asks for the size of the cache
    0
    >>> cache = bytearray(size.value)
    >>> BNNSApplyMultiheadAttention(f, 1, x, 0, x, 0, None, 0, x, 0, y, 0, None, size, cache), y.tolist()
    (0, [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    """
    if (
        isinstance(F, MultiheadAttention)
        and add_to_attention is None
        and workspace_size is None
        and workspace is None
        and _fits(F, batch_size, backprop_cache_size, backprop_cache)
        and F.fast_forward(
            batch_size, query, query_stride, key, key_stride, key_mask, key_mask_stride, value, value_stride, output,
            output_stride, backprop_cache, 0,
        ) == 0
    ):  # fmt: skip
        return 0
    return attempt(
        "BNNSApplyMultiheadAttention", F, "apply_attention", batch_size, query, query_stride, key, key_stride, key_mask,
        key_mask_stride, value, value_stride, output, output_stride, add_to_attention, backprop_cache_size,
        backprop_cache, workspace_size, workspace,
    )  # fmt: skip


def _fits(filter: MultiheadAttention, batch: Any, size: Any, cache: Any) -> bool:
    """Whether there is no cache, or one that is large enough by what the call says."""
    if size is None:
        return cache is None
    return cache is not None and type(size) is ctypes.c_size_t and type(batch) is int and (
        size.value >= batch * filter.cache_floats * 4
    )  # fmt: skip


def BNNSApplyMultiheadAttentionBackward(
    F: BNNSFilter | None, batch_size: int, query: Any, query_stride: int, query_param_delta: Any, key: Any,
    key_stride: int, key_mask: Any, key_mask_stride: int, key_param_delta: Any, value: Any, value_stride: int,
    value_param_delta: Any, add_to_attention: Any, key_attn_bias_delta: Any, value_attn_bias_delta: Any, output: Any,
    output_stride: int, output_param_delta: Any, backprop_cache_size: int, backprop_cache: Any = None,
    workspace_size: ctypes.c_size_t | None = None, workspace: Any = None,
) -> int:  # fmt: skip
    """The gradients of attention.

    ``output_param_delta.target_desc`` is the gradient that arrives at the output; every other member with data, of all
    the structs and descriptors, is written as its flags say. ``stride[2]`` of a target gradient is its batch stride.
    Without a cache the forward pass is computed again. ``workspace_size`` without ``workspace`` asks for its size.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> one = np.ones((1, 1), np.float32)
    >>> def part(weights, shape=(1, 1, 1), data=None):
    ...     return BNNSMHAProjectionParameters(
    ...         target_desc=Shape([1, 1]).descriptor(data=data), weights=Shape(shape).descriptor(data=weights)
    ...     )
    >>> q, o = part(one), part(one, (1, 1))
    >>> f = BNNSFilterCreateLayerMultiheadAttention(
    ...     BNNSLayerParametersMultiheadAttention(query=q, key=q, value=q, output=o)
    ... )
    >>> x, dy, dw = 3 * one, 10 * one, 0 * one  # one position of one feature: y = wo wv x
    >>> BNNSApplyMultiheadAttentionBackward(
    ...     f, 1, x, 0, None, x, 0, None, 0, None, x, 0, part(dw), None, None, None, None, 0, part(None, (1, 1), dy), 0
    ... )
    0
    >>> dw.tolist()  # of the value weights: wo x dy
    [[30.0]]
    """
    if (
        isinstance(F, MultiheadAttention)
        and add_to_attention is None
        and workspace_size is None
        and workspace is None
        and _backward_fast(
            F, batch_size, query, query_stride, query_param_delta, key, key_stride, key_mask, key_mask_stride,
            key_param_delta, value, value_stride, value_param_delta, key_attn_bias_delta, value_attn_bias_delta, output,
            output_stride, output_param_delta, backprop_cache_size, backprop_cache,
        ) == 0
    ):  # fmt: skip
        return 0
    return attempt(
        "BNNSApplyMultiheadAttentionBackward", F, "apply_backward_attention", batch_size, query, query_stride,
        query_param_delta, key, key_stride, key_mask, key_mask_stride, key_param_delta, value, value_stride,
        value_param_delta, add_to_attention, key_attn_bias_delta, value_attn_bias_delta, output, output_stride,
        output_param_delta, backprop_cache_size, backprop_cache, workspace_size, workspace,
    )  # fmt: skip


def _members(struct: Any) -> tuple[Any, Any, Any]:
    """Target, weights and bias of a projection; NULL has none."""
    return (None, None, None) if struct is None else (struct.target_desc, struct.weights, struct.bias)


def _backward_fast(
    filter: MultiheadAttention, batch: Any, query: Any, query_stride: Any, query_delta: Any, key: Any, key_stride: Any,
    key_mask: Any, key_mask_stride: Any, key_delta: Any, value: Any, value_stride: Any, value_delta: Any,
    key_bias_delta: Any, value_bias_delta: Any, output: Any, output_stride: Any, output_delta: Any, cache_size: Any,
    cache: Any,
) -> int:  # fmt: skip
    """Not 0 if the full checks are needed."""
    structs = (query_delta, key_delta, value_delta, output_delta)
    if any(struct is not None and type(struct) is not BNNSMHAProjectionParameters for struct in structs):
        return 1
    arguments = (
        batch, query, query_stride, *_members(query_delta), key, key_stride, key_mask, key_mask_stride,
        *_members(key_delta), value, value_stride, *_members(value_delta), key_bias_delta, value_bias_delta, output,
        output_stride, *_members(output_delta),
    )  # fmt: skip
    if cache is None:
        return int(filter.fast_backward(*arguments))
    if type(cache_size) is not int or type(batch) is not int or cache_size < batch * filter.cache_floats * 4:
        return 1
    return int(filter.fast_backward_cached(*arguments, cache, 0))
