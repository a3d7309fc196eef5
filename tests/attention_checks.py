"""Checks of attention filters: one case against the formulas, and calls with any argument changed."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

import openbnns as ob
from cases._base import succeed
from cases.attention import AttentionCase, AttentionRun
from helpers import Array, assert_bitwise, assert_within
from openbnns import capi
from openbnns.reference import attention as reference


def check(case: AttentionCase, wanted: list[str] | None = None) -> None:
    """Output and gradients against float64; nothing else is read or written."""
    values = case.values()
    y, gradients = case.expected(values)
    run = AttentionRun(case, values)
    cache = run.new_cache() if case.cached else None
    workspace = None
    if case.workspace:
        workspace = forward_workspace(run, case.cached)
    out = run.forward(cache, workspace)
    assert_within(case.logical("o", out.read()), y, case.bound("y", y, gradients), "output")
    out.assert_guards_intact("output")
    names = case.gradients if wanted is None else wanted
    storages = run.results(names)
    kept = None if cache is None else cache.copy()
    run.backward(storages, cache, run.backward_workspace(case.cached) if case.workspace else None)
    for name in names:
        actual = run.read(name, storages[name])
        assert_within(actual, gradients[name], case.bound(name, gradients[name], gradients), name)
        storages[name].assert_guards_intact(name)
    for name, storage in (run.inputs | run.parameters).items():
        storage.assert_unchanged(name)
    if cache is not None and kept is not None:
        assert_bitwise(cache, kept, "the cache after backward")


def forward_workspace(run: AttentionRun, cached: bool) -> Array:
    """A workspace of exactly the size that the forward call asks for."""
    size = ctypes.c_size_t(0)
    cache = np.empty(1, np.float32) if cached else None
    nothing = (None, 0)
    succeed(
        capi.BNNSApplyMultiheadAttention(
            run.filter, run.case.batch, *nothing, *nothing, *nothing, *nothing, *nothing, None, None, cache, size, None
        )
    )
    assert size.value > 0
    return np.full(size.value, 0xFF, np.uint8)


def backward(run: AttentionRun, **changes: Any) -> int:
    """The backward call with some arguments replaced."""
    arguments: dict[str, Any] = {
        "F": run.filter, "batch_size": run.case.batch, "output": None, "output_stride": 0, "backprop_cache_size": 0,
        "backprop_cache": None, "workspace_size": None, "workspace": None, "query_param_delta": None,
        "key_param_delta": None, "value_param_delta": None, "key_attn_bias_delta": None, "value_attn_bias_delta": None,
    }  # fmt: skip
    for name, argument in (("q", "query"), ("k", "key"), ("v", "value")):
        arguments[argument], arguments[f"{argument}_stride"] = run.inputs[name].elements, run.inputs[name].stride
    arguments |= run.masks | {"output_param_delta": run.structs({})["output_param_delta"]} | changes
    return capi.BNNSApplyMultiheadAttentionBackward(**arguments)


def forward(run: AttentionRun, **changes: Any) -> int:
    """The forward call with some arguments replaced."""
    y = run.storage("o")
    arguments: dict[str, Any] = {
        "F": run.filter, "batch_size": run.case.batch, "output": y.elements, "output_stride": y.stride,
        "backprop_cache_size": None, "backprop_cache": None, "workspace_size": None, "workspace": None,
    }  # fmt: skip
    for name, argument in (("q", "query"), ("k", "key"), ("v", "value")):
        arguments[argument], arguments[f"{argument}_stride"] = run.inputs[name].elements, run.inputs[name].stride
    return capi.BNNSApplyMultiheadAttention(**(arguments | run.masks | changes))


def parameters_of(layer: ob.MultiheadAttentionLayer) -> reference.Parameters:
    """The layer's parameters as the formulas name them."""
    p = {name: array.astype(np.float64) for name, array in layer.parameters.items()}
    heads = layer.num_heads

    def weights(name: str) -> Array:
        return p[name].reshape(heads, -1, layer.embed_dim).transpose(2, 1, 0)

    def bias(name: str) -> Array | None:
        return p[name].reshape(heads, -1).T if name in p else None

    return reference.Parameters(
        weights("query_weights"), weights("key_weights"), weights("value_weights"), p["output_weights"].T,
        bias("query_bias"), bias("key_bias"), bias("value_bias"), p.get("output_bias"), bias("key_attention_bias"),
        bias("value_attention_bias"),
    )  # fmt: skip
