"""Multihead attention under its C names."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersMultiheadAttention
from ..calls.form import Form, Selecting
from ..filters.attention import MultiheadAttention
from ..filters.attention_calls import APPLY, BACKWARD
from ._calls import BNNSFilter, create
from ._declared import DECLARED, drives

__all__ = [
    "BNNSApplyMultiheadAttention",
    "BNNSApplyMultiheadAttentionBackward",
    "BNNSFilterCreateLayerMultiheadAttention",
]


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


def _passed_on(pointer: type | None, forms: Mapping[bool, Form], names: Sequence[str]) -> Selecting:
    return Selecting(
        names, ("add_to_attention", "workspace_size", "workspace"), "backprop_cache", pointer,
        lambda filter: int(filter.cache_bytes(1)), ("target_desc", "weights", "bias"), forms,
    )  # fmt: skip


@drives("apply_attention", selecting=partial(_passed_on, ctypes.c_size_t, {False: APPLY, True: APPLY}))
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
    return DECLARED


@drives("apply_backward_attention", selecting=partial(_passed_on, None, BACKWARD))
def BNNSApplyMultiheadAttentionBackward(
    F: BNNSFilter | None, batch_size: int, query: Any, query_stride: int, query_param_delta: Any, key: Any,
    key_stride: int, key_mask: Any, key_mask_stride: int, key_param_delta: Any, value: Any, value_stride: int,
    value_param_delta: Any, add_to_attention: Any, key_attn_bias_delta: Any, value_attn_bias_delta: Any, output: Any,
    output_stride: int, output_param_delta: Any, backprop_cache_size: int, backprop_cache: Any = None,
    workspace_size: ctypes.c_size_t | None = None, workspace: Any = None,
) -> int:  # fmt: skip
    """The gradients of attention.

    ``output_param_delta.target_desc`` is the gradient of the output; every other member with data, of all
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
    return DECLARED
