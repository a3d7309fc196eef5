"""Multihead attention under its C names."""

from __future__ import annotations

import ctypes
from functools import partial
from typing import Any

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersMultiheadAttention, BNNSMHAProjectionParameters
from ..calls.form import Form
from ..filters.attention import MultiheadAttention
from ..filters.attention_calls import APPLY, BACKWARD
from ._calls import BNNSFilter, create
from ._declared import perform

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
    given = locals()
    if (
        isinstance(F, MultiheadAttention)
        and add_to_attention is None
        and workspace_size is None
        and workspace is None
        and _fits(F, batch_size, backprop_cache_size, backprop_cache)
        and F.native(APPLY)(*(given.get(name) for name in _FORWARD)) == 0
    ):
        return 0
    return _checked("apply_attention", BNNSApplyMultiheadAttention.__name__, given)


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
    given = locals()
    if (
        isinstance(F, MultiheadAttention)
        and add_to_attention is None
        and workspace_size is None
        and workspace is None
        and _backward_fast(F, given) == 0
    ):
        return 0
    return _checked("apply_backward_attention", BNNSApplyMultiheadAttentionBackward.__name__, given)


_FORWARD = [name for pair in (("batch_size", ""), *APPLY.tensors) for name in pair if name]


def _checked(call: str, function: str, given: dict[str, Any]) -> int:
    """Make the call with every check; ``given`` are its arguments by name."""
    tensors = {name: (value, given.get(f"{name}_stride", 0)) for name, value in given.items()}
    return perform(given["F"], call, Caller(function), given["batch_size"], tensors)


def _backward_fast(filter: MultiheadAttention, given: dict[str, Any]) -> int:
    """Not 0 if the full checks are needed."""
    cache, size, batch = given["backprop_cache"], given["backprop_cache_size"], given["batch_size"]
    if cache is not None and (
        type(size) is not int or type(batch) is not int or size < batch * filter.cache_floats * 4
    ):
        return 1
    form, arguments = BACKWARD[cache is not None], [batch]
    for name, stride in form.tensors:
        owner, _, member = name.partition(".")
        value = given[owner]
        if member and value is not None:
            if type(value) is not BNNSMHAProjectionParameters:
                return 1
            value = getattr(value, member)
        arguments += [value, given[stride]] if stride else [value]
    return int(filter.native(form)(*arguments))


def _number(function: Any, forms: dict[bool, Form], size_is_pointed_to: bool, filter: BNNSFilter) -> int:
    """The number by which C programs run a function on a filter; see core/bindings/raw.h."""
    if not isinstance(filter, MultiheadAttention):
        return 0
    code = function.__code__
    names = list(code.co_varnames[1 : code.co_argcount])
    words = {name: (place, 0) for place, name in enumerate(names)}
    for owner in ("query_param_delta", "key_param_delta", "value_param_delta", "output_param_delta"):
        if owner in words:
            for offset, member in ((0, "target_desc"), (176, "weights"), (352, "bias")):  # as C lays the struct out
                words[f"{owner}.{member}"] = (words[owner][0], offset)
    choices = {
        cached: [words[name] for pair in (("batch_size", ""), *form.tensors) for name in pair if name]
        for cached, form in forms.items()
    }
    place = {name: names.index(name) for name in ("backprop_cache", "backprop_cache_size")}
    return filter.selected(
        forms, choices, count=len(names),
        absent=[names.index(name) for name in ("add_to_attention", "workspace_size", "workspace")],
        cache=place["backprop_cache"], size=place["backprop_cache_size"], size_is_pointed_to=size_is_pointed_to,
        bytes_per_sample=4 * filter.cache_floats,
    )  # fmt: skip


BNNSApplyMultiheadAttention.number = partial(  # type: ignore[attr-defined]
    _number, BNNSApplyMultiheadAttention, {False: APPLY, True: APPLY}, True
)
BNNSApplyMultiheadAttentionBackward.number = partial(  # type: ignore[attr-defined]
    _number, BNNSApplyMultiheadAttentionBackward, BACKWARD, False
)
