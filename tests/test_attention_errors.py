"""Multihead attention called wrongly: a message, -1, nothing written."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from cases._base import succeed
from cases.attention import AttentionCase, AttentionRun
from helpers import FIRST_MAJOR_2D, FIRST_MAJOR_3D, FLOAT16, VECTOR, Tensor, assert_within
from openbnns import capi
from test_attention import backward, forward


def _target(rows: int, columns: int) -> Any:
    return Tensor(FIRST_MAJOR_2D, (rows, columns)).descriptor()


def _weights(*size: int) -> Any:
    return Tensor(FIRST_MAJOR_3D, size).descriptor(np.zeros(size, np.float32))


def _matrix(*size: int) -> Any:
    return Tensor(FIRST_MAJOR_2D, size).descriptor(np.zeros(size, np.float32))


# Of AttentionCase(): T 5, S 4, D 7, K 3, V 2, H 2.
BAD_CREATION: dict[str, tuple[Callable[[Any], None], str]] = {
    "model of the key": (
        lambda p: setattr(p.key, "target_desc", _target(4, 8)),
        r"key\.target_desc.*d_model 8.*query\.target_desc.*7",
    ),
    "source of the value": (
        lambda p: setattr(p.value, "target_desc", _target(9, 7)),
        r"value\.target_desc.*source length 9.*key\.target_desc.*4",
    ),
    "target of the output": (
        lambda p: setattr(p.output, "target_desc", _target(6, 7)),
        r"output\.target_desc.*target length 6.*query\.target_desc.*5",
    ),
    "model of query weights": (
        lambda p: setattr(p.query, "weights", _weights(6, 3, 2)),
        r"query\.weights.*d_model 6.*target_desc.*7",
    ),
    "key of key weights": (
        lambda p: setattr(p.key, "weights", _weights(7, 4, 2)),
        r"key\.weights.*d_key 4.*query\.weights.*3",
    ),
    "heads of value weights": (
        lambda p: setattr(p.value, "weights", _weights(7, 2, 3)),
        r"value\.weights.*heads 3.*query\.weights.*2",
    ),
    "rows of output weights": (
        lambda p: setattr(p.output, "weights", _matrix(5, 7)),
        r"output\.weights has 5 rows.*2 heads.*query\.weights.*d_value 2.*value\.weights.*4",
    ),
    "model of output weights": (
        lambda p: setattr(p.output, "weights", _matrix(4, 8)),
        r"output\.weights.*d_model 8.*7",
    ),
    "bias": (lambda p: setattr(p.query, "bias", _matrix(2, 3)), r"query\.bias.*d_key 2.*query\.weights.*3"),
    "no weights": (lambda p: setattr(p.query.weights, "data", None), r"query\.weights\.data is NULL"),
    "layout of weights": (
        lambda p: setattr(p.query.weights, "layout", capi.BNNSDataLayout.BNNSDataLayoutImageCHW),
        r"query\.weights\.layout is ImageCHW.*3DFirstMajor, 3DLastMajor, MHA_DHK",
    ),
    "rank of the target": (
        lambda p: setattr(p.query, "target_desc", Tensor(VECTOR, (35,)).descriptor()),
        r"query\.target_desc\.layout is Vector.*2DFirstMajor",
    ),
    "no target": (lambda p: setattr(p.query, "target_desc", capi.BNNSNDArrayDescriptor()), r"query\.target_desc"),
    "key bias row only": (
        lambda p: setattr(p, "key_attn_bias", _matrix(3, 2)),
        r"key_attn_bias\.data is set but value_attn_bias\.data is NULL",
    ),
    "value bias row only": (
        lambda p: setattr(p, "value_attn_bias", _matrix(2, 2)),
        r"value_attn_bias\.data is set but key_attn_bias\.data is NULL",
    ),
    "short weights": (
        lambda p: setattr(p.query.weights, "data", np.zeros(10, np.float32)),
        r"query\.weights\.data holds 40 bytes, but the call touches 168",
    ),
}


@pytest.mark.parametrize("name", BAD_CREATION)
def test_bad_descriptions(name: str, engine: str) -> None:
    change, message = BAD_CREATION[name]
    case = AttentionCase()
    struct = AttentionRun(case, case.values()).struct()
    change(struct)
    assert capi.BNNSFilterCreateLayerMultiheadAttention(struct) is None
    assert re.search(message, ob.last_error() or ""), ob.last_error()


def _mask(size: int, dtype: Any = np.bool_, kind: Any = capi.BNNSDataTypeBoolean) -> Any:
    return capi.BNNSNDArrayDescriptor(layout=VECTOR, size=(size,), data=np.zeros(size * 2, dtype), data_type=kind)


def _added(layout: str, size: tuple[int, ...], kind: Any = capi.BNNSDataTypeFloat32, dtype: Any = np.float32) -> Any:
    return capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayout[f"BNNSDataLayout{layout}"], size=size, data=np.zeros(size, dtype), data_type=kind
    )


BAD_MASKS: dict[str, tuple[dict[str, Any], str]] = {
    "mask of floats": (
        {"key_mask": _mask(4, np.float32, capi.BNNSDataTypeFloat32)},
        r"key_mask\.data_type is Float32.*Boolean",
    ),
    "long mask": ({"key_mask": _mask(5)}, r"key_mask is Vector size \(5,\) Boolean.*source length 4.*must be 4, not 5"),
    "mask without data": (
        {"key_mask": capi.BNNSNDArrayDescriptor(layout=VECTOR, size=(4,), data_type=capi.BNNSDataTypeBoolean)},
        r"key_mask\.data is NULL",
    ),
    "short mask": ({"key_mask": _mask(4), "key_mask_stride": 90}, r"key_mask\.data holds 8 bytes.*touches 94"),
    "negative stride": ({"key_mask": _mask(4), "key_mask_stride": -1}, r"key_mask_stride is -1"),
    "added of integers": (
        {"add_to_attention": _added("2DFirstMajor", (5, 4), capi.BNNSDataTypeInt32, np.int32)},
        r"add_to_attention\.data_type is Int32.*Float32, or Boolean",
    ),
    "added transposed": (
        {"add_to_attention": _added("2DFirstMajor", (4, 5))},
        r"add_to_attention is 2DFirstMajor size \(4, 5\).*target length 5, source length 4",
    ),
    "added with wrong heads": (
        {"add_to_attention": _added("3DFirstMajor", (3, 5, 4))},
        r"add_to_attention.*heads 2.*must be 2, not 3",
    ),
    "added with wrong batch": (
        {"add_to_attention": _added("4DFirstMajor", (3, 2, 5, 4))},
        r"add_to_attention.*batch 2.*must be 2, not 3",
    ),
    "added vector": ({"add_to_attention": _added("Vector", (20,))}, r"add_to_attention has 1 axes"),
    "added in another layout": ({"add_to_attention": _added("ImageCHW", (4, 5, 2))}, r"add_to_attention\.layout is"),
    "batch": ({"batch_size": -1}, r"batch_size is -1"),
    "query stride": ({"query_stride": -3}, r"query_stride is -3"),
    "value too short": ({"value": np.zeros(9, np.float32)}, r"value holds 36 bytes"),
    "key of another type": ({"key": np.zeros(56, np.float64)}, r"key holds float64 items"),
}


@pytest.mark.parametrize("name", BAD_MASKS)
def test_bad_arguments_of_both_calls(name: str, engine: str) -> None:
    changes, message = BAD_MASKS[name]
    case = AttentionCase()
    run = AttentionRun(case, case.values())
    y = run.storage("o")
    assert forward(run, output=y.elements, **changes) == -1
    assert re.search(rf"^BNNSApplyMultiheadAttention: .*{message}", ob.last_error() or ""), ob.last_error()
    y.assert_unchanged("output")
    storages = run.results(case.gradients)
    assert backward(run, **(run.structs(storages) | changes)) == -1
    assert re.search(rf"^BNNSApplyMultiheadAttentionBackward: .*{message}", ob.last_error() or ""), ob.last_error()
    for gradient, storage in storages.items():
        storage.assert_unchanged(gradient)


def fails(run: AttentionRun, message: str, **changes: Any) -> None:
    storages = run.results(run.case.gradients)
    arguments = run.structs(storages)
    for name, change in changes.items():
        arguments[name] = change(arguments[name]) if callable(change) else change
    assert backward(run, **arguments) == -1
    assert re.search(message, ob.last_error() or ""), ob.last_error()
    for gradient, storage in storages.items():
        storage.assert_unchanged(gradient)


def _changed(member: str, **fields: Any) -> Callable[[Any], Any]:
    def change(struct: Any) -> Any:
        for name, value in fields.items():
            setattr(getattr(struct, member), name, value)
        return struct

    return change


def test_bad_gradients(engine: str) -> None:
    case = AttentionCase()
    run = AttentionRun(case, case.values())
    fails(run, r"output_param_delta is NULL.*arriving", output_param_delta=None)
    fails(run, r"output_param_delta\.target_desc\.data is NULL", output_param_delta=_changed("target_desc", data=None))
    fails(
        run,
        r"query_param_delta\.target_desc.*size\[0\] must be 5, not 6",
        query_param_delta=_changed("target_desc", size=(6, 7)),
    )
    fails(
        run, r"key_param_delta\.weights.*d_key 3.*must be 3, not 2", key_param_delta=_changed("weights", size=(7, 2, 3))
    )
    fails(run, r"value_param_delta\.bias\.flags is 7", value_param_delta=_changed("bias", flags=7))
    fails(
        run,
        r"query_param_delta\.weights\.data_type is Float16",
        query_param_delta=_changed("weights", data_type=FLOAT16),
    )
    fails(
        run,
        r"query_param_delta\.bias\.data holds 8 bytes",
        query_param_delta=_changed("bias", data=np.zeros(2, np.float32)),
    )
    fails(
        run,
        r"stride\[2\], the batch stride, is 20.*spans 35",
        query_param_delta=_changed("target_desc", stride=(1, 7, 20)),
    )
    fails(run, r"key_attn_bias_delta is given, but the filter was created without", key_attn_bias_delta=_matrix(3, 2))
    fails(run, r"query is NULL, but query_param_delta\.weights needs it", query=None, query_stride=0)
    readonly = np.zeros(70, np.float32)
    readonly.flags.writeable = False
    fails(run, r"target_desc\.data is read-only", query_param_delta=_changed("target_desc", data=readonly))
    for wrong in (3, "x", np.zeros(3)):
        with pytest.raises(TypeError, match="query_param_delta must be a BNNSMHAProjectionParameters"):
            backward(run, query_param_delta=wrong)
        with pytest.raises(TypeError, match="key_attn_bias_delta must be a BNNSNDArrayDescriptor"):
            backward(run, key_attn_bias_delta=wrong)


def test_missing_inputs_without_a_cache(engine: str) -> None:
    case = AttentionCase()
    run = AttentionRun(case, case.values())
    for argument in ("query", "key", "value"):
        storages = run.results(["dwo"])
        assert backward(run, **(run.structs(storages) | {argument: None, f"{argument}_stride": 0})) == -1
        assert f"{argument} is NULL, and without a cache" in (ob.last_error() or "")
    storages = run.results(["dpo"])
    nothing = {
        name: value
        for argument in ("query", "key", "value")
        for name, value in ((argument, None), (f"{argument}_stride", 0))
    }
    succeed(backward(run, **(run.structs(storages) | nothing)))
    assert_within(storages["dpo"].read()[0], run.values["do"].sum(axis=(0, 1)), 1e-5, "dpo")


def test_bad_caches(engine: str) -> None:
    case = AttentionCase()
    run, other = (AttentionRun(case, case.values()) for _ in range(2))
    needed, _ = run.sizes()
    cache = run.new_cache()
    for size, memory in ((needed - 1, cache), (needed, np.zeros(needed - 4, np.uint8))):
        assert forward(run, backprop_cache=memory, backprop_cache_size=ctypes.c_size_t(size)) == -1
        assert f"needs {needed}" in (ob.last_error() or ""), ob.last_error()
    run.forward(cache)
    foreign = other.new_cache()
    other.forward(foreign)
    whole = {"backprop_cache_size": needed}
    fails(
        run,
        f"has {needed - 1} bytes by backprop_cache_size.*needs {needed}",
        backprop_cache=cache,
        backprop_cache_size=needed - 1,
    )
    fails(run, r"backprop_cache was filled by another filter", backprop_cache=foreign, **whole)
    fails(run, r"backprop_cache holds no cache", backprop_cache=np.zeros(needed, np.uint8), **whole)
    storages = run.results(["dpo"])
    assert backward(run, **run.structs(storages), batch_size=1, backprop_cache=cache, **whole) == -1
    assert "filled by a forward call with batch_size 2, but this call has 1" in (ob.last_error() or "")
    dropping = replace(case, dropout=0.5)
    fails(AttentionRun(dropping, dropping.values()), r"backprop_cache is NULL, but the filter has dropout 0\.5")
    for size in (0, needed):  # without a size, or without memory, there is no cache
        given = run.results(["dpo"])
        succeed(backward(run, **run.structs(given), backprop_cache=None if size else foreign, backprop_cache_size=size))
    with pytest.raises(TypeError, match=r"backprop_cache_size must be a ctypes\.c_size_t or None, not int"):
        forward(run, backprop_cache_size=5)
    with pytest.raises(TypeError, match="backprop_cache_size must be an integer"):
        backward(run, backprop_cache_size="x")


def test_shared_memory_is_refused(engine: str) -> None:
    case = AttentionCase()
    run = AttentionRun(case, case.values())
    cache = run.new_cache()
    size = ctypes.c_size_t(cache.nbytes)
    assert forward(run, output=cache[:70], backprop_cache=cache, backprop_cache_size=size) == -1
    assert "backprop_cache and output share memory" in (ob.last_error() or "")
    storages = run.results(case.gradients)
    storages["dk"] = storages["dq"]  # lengths 5 and 4
    arguments = run.structs(storages)
    arguments["key_param_delta"].target_desc.size[0] = 4
    assert backward(run, **arguments) == -1
    assert "share memory" in (ob.last_error() or "")
    storages = run.results(case.gradients)
    storages["dwk"] = storages["dwq"]
    assert backward(run, **run.structs(storages)) == -1
    assert "query_param_delta.weights and key_param_delta.weights share memory" in (ob.last_error() or "")
    work = np.zeros(1 << 20, np.uint8)
    target = work[:280].view(np.float32)
    arguments = run.structs(run.results(["dq"]))
    arguments["query_param_delta"].target_desc.data = target
    assert backward(run, **arguments, workspace=work, workspace_size=ctypes.c_size_t(work.nbytes)) == -1
    assert "workspace and query_param_delta.target_desc share memory" in (ob.last_error() or "")
