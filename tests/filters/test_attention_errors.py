"""Multihead attention called wrongly: a message, -1, nothing written."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attention_checks import backward, forward
from bad_calls import assign, refused
from cases._base import succeed
from cases.attention import AttentionCase, AttentionRun
from helpers import FIRST_MAJOR_2D, FIRST_MAJOR_3D, FLOAT16, IMAGE, VECTOR, Tensor, assert_within
from openbnns import capi


def _target(rows: int, columns: int) -> Any:
    return Tensor(FIRST_MAJOR_2D, (rows, columns)).descriptor()


def _weights(*size: int) -> Any:
    return Tensor(FIRST_MAJOR_3D, size).descriptor(np.zeros(size, np.float32))


def _matrix(*size: int) -> Any:
    return Tensor(FIRST_MAJOR_2D, size).descriptor(np.zeros(size, np.float32))


# Of AttentionCase(): T 5, S 4, D 7, K 3, V 2, H 2.
BAD_CREATION: list[tuple[str, Any, str]] = [
    ("key.target_desc", _target(4, 8), r"key\.target_desc.*d_model 8.*query\.target_desc.*7"),
    ("value.target_desc", _target(9, 7), r"value\.target_desc.*source length 9.*key\.target_desc.*4"),
    ("output.target_desc", _target(6, 7), r"output\.target_desc.*target length 6.*query\.target_desc.*5"),
    ("query.weights", _weights(6, 3, 2), r"query\.weights.*d_model 6.*target_desc.*7"),
    ("key.weights", _weights(7, 4, 2), r"key\.weights.*d_key 4.*query\.weights.*3"),
    ("value.weights", _weights(7, 2, 3), r"value\.weights.*heads 3.*query\.weights.*2"),
    ("output.weights", _matrix(5, 7), r"output\.weights has 5 rows.*2 heads.*query\.weights.*d_value 2.*value\.weights.*4"),
    ("output.weights", _matrix(4, 8), r"output\.weights.*d_model 8.*7"),
    ("query.bias", _matrix(2, 3), r"query\.bias.*d_key 2.*query\.weights.*3"),
    ("query.weights.data", None, r"query\.weights\.data is NULL"),
    ("query.weights.data", np.zeros(10, np.float32), r"query\.weights\.data holds 40 bytes, but the call touches 168"),
    ("query.weights.layout", IMAGE, r"query\.weights\.layout is ImageCHW.*3DFirstMajor, 3DLastMajor, MHA_DHK"),
    ("query.target_desc", Tensor(VECTOR, (35,)).descriptor(), r"query\.target_desc\.layout is Vector.*2DFirstMajor"),
    ("query.target_desc", capi.BNNSNDArrayDescriptor(), r"query\.target_desc"),
    ("key_attn_bias", _matrix(3, 2), r"key_attn_bias\.data is set but value_attn_bias\.data is NULL"),
    ("value_attn_bias", _matrix(2, 2), r"value_attn_bias\.data is set but key_attn_bias\.data is NULL"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value", "message"), BAD_CREATION, ids=[message for *_, message in BAD_CREATION])
def test_bad_descriptions(field: str, value: Any, message: str, engine: str) -> None:
    case = AttentionCase()
    struct = AttentionRun(case, case.values()).struct()
    assign(struct, {field: value})
    refused(capi.BNNSFilterCreateLayerMultiheadAttention(struct), message)


def _mask(size: int, dtype: Any = np.bool_, kind: Any = capi.BNNSDataTypeBoolean) -> Any:
    return capi.BNNSNDArrayDescriptor(layout=VECTOR, size=(size,), data=np.zeros(size * 2, dtype), data_type=kind)


def _added(layout: str, size: tuple[int, ...], kind: Any = capi.BNNSDataTypeFloat32, dtype: Any = np.float32) -> Any:
    return capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayout[f"BNNSDataLayout{layout}"], size=size, data=np.zeros(size, dtype), data_type=kind
    )


def _floats(*size: int) -> Any:
    return _added({1: "Vector", 2: "2DFirstMajor", 3: "3DFirstMajor", 4: "4DFirstMajor"}[len(size)], size)


NO_DATA = capi.BNNSNDArrayDescriptor(layout=VECTOR, size=(4,), data_type=capi.BNNSDataTypeBoolean)
BAD_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"key_mask": _mask(4, np.float32, capi.BNNSDataTypeFloat32)}, r"key_mask\.data_type is Float32.*Boolean"),
    ({"key_mask": _mask(5)}, r"key_mask is Vector size \(5,\) Boolean.*source length 4.*must be 4, not 5"),
    ({"key_mask": NO_DATA}, r"key_mask\.data is NULL"),
    ({"key_mask": _mask(4), "key_mask_stride": 90}, r"key_mask\.data holds 8 bytes.*touches 94"),
    ({"key_mask": _mask(4), "key_mask_stride": -1}, r"key_mask_stride is -1"),
    ({"add_to_attention": _added("2DFirstMajor", (5, 4), capi.BNNSDataTypeInt32, np.int32)},
     r"add_to_attention\.data_type is Int32.*Float32, or Boolean"),
    ({"add_to_attention": _floats(4, 5)}, r"add_to_attention is 2DFirstMajor size \(4, 5\).*target length 5, source length 4"),
    ({"add_to_attention": _floats(3, 5, 4)}, r"add_to_attention.*heads 2.*must be 2, not 3"),
    ({"add_to_attention": _floats(3, 2, 5, 4)}, r"add_to_attention.*batch 2.*must be 2, not 3"),
    ({"add_to_attention": _floats(20)}, r"add_to_attention has 1 axes"),
    ({"add_to_attention": _added("ImageCHW", (4, 5, 2))}, r"add_to_attention\.layout is"),
    ({"batch_size": -1}, r"batch_size is -1"),
    ({"query_stride": -3}, r"query_stride is -3"),
    ({"value": np.zeros(9, np.float32)}, r"value holds 36 bytes"),
    ({"key": np.zeros(56, np.float16)}, r"key holds float16 items"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), BAD_ARGUMENTS, ids=[message for _, message in BAD_ARGUMENTS])
def test_bad_arguments_of_both_calls(changes: dict[str, Any], message: str, engine: str) -> None:
    case = AttentionCase()
    run = AttentionRun(case, case.values())
    y = run.storage("o")
    refused(forward(run, output=y.elements, **changes), rf"^BNNSApplyMultiheadAttention: .*{message}")
    y.assert_unchanged("output")
    storages = run.results(case.gradients)
    refused(backward(run, **(run.structs(storages) | changes)), rf"^BNNSApplyMultiheadAttentionBackward: .*{message}")
    for gradient, storage in storages.items():
        storage.assert_unchanged(gradient)


def fails(run: AttentionRun, message: str, fields: dict[str, Any] | None = None, **changes: Any) -> None:
    """Backward with other arguments, or with other fields of its structs."""
    storages = run.results(run.case.gradients)
    arguments = run.structs(storages)
    for path, value in (fields or {}).items():
        name, _, field = path.partition(".")
        assign(arguments[name], {field: value})
    refused(backward(run, **arguments | changes), message)
    for gradient, storage in storages.items():
        storage.assert_unchanged(gradient)


BAD_GRADIENTS: list[tuple[str, Any, str]] = [
    ("output_param_delta.target_desc.data", None, r"output_param_delta\.target_desc\.data is NULL"),
    ("query_param_delta.target_desc.size", (6, 7), r"query_param_delta\.target_desc.*size\[0\] must be 5, not 6"),
    ("key_param_delta.weights.size", (7, 2, 3), r"key_param_delta\.weights.*d_key 3.*must be 3, not 2"),
    ("value_param_delta.bias.flags", 7, r"value_param_delta\.bias\.flags is 7"),
    ("query_param_delta.weights.data_type", FLOAT16, r"query_param_delta\.weights\.data_type is Float16"),
    ("query_param_delta.bias.data", np.zeros(2, np.float32), r"query_param_delta\.bias\.data holds 8 bytes"),
    ("query_param_delta.target_desc.stride", (1, 7, 20), r"stride\[2\], the batch stride, is 20.*spans 35"),
]


def test_bad_gradients(engine: str) -> None:
    case = AttentionCase()
    run = AttentionRun(case, case.values())
    for field, value, message in BAD_GRADIENTS:
        fails(run, message, {field: value})
    fails(run, r"output_param_delta is NULL.*gradient of the output", output_param_delta=None)
    fails(run, r"key_attn_bias_delta is given, but the filter was created without", key_attn_bias_delta=_matrix(3, 2))
    fails(run, r"query is NULL, but query_param_delta\.weights needs it", query=None, query_stride=0)
    readonly = np.zeros(70, np.float32)
    readonly.flags.writeable = False
    fails(run, r"target_desc\.data is read-only", {"query_param_delta.target_desc.data": readonly})
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
        refused(
            backward(run, **(run.structs(storages) | {argument: None, f"{argument}_stride": 0})),
            f"{argument} is NULL, and without a cache",
        )
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
        refused(forward(run, backprop_cache=memory, backprop_cache_size=ctypes.c_size_t(size)), f"needs {needed}")
    run.forward(cache)
    foreign = other.new_cache()
    other.forward(foreign)
    whole = {"backprop_cache_size": needed}
    fails(
        run,
        f"has {needed - 1} bytes according to backprop_cache_size.*needs {needed}",
        backprop_cache=cache,
        backprop_cache_size=needed - 1,
    )
    fails(run, r"backprop_cache was filled by another filter", backprop_cache=foreign, **whole)
    fails(run, r"backprop_cache holds no cache", backprop_cache=np.zeros(needed, np.uint8), **whole)
    storages = run.results(["dpo"])
    refused(
        backward(run, **run.structs(storages), batch_size=1, backprop_cache=cache, **whole),
        "filled by a forward call with batch_size 2, but this call has 1",
    )
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
    refused(
        forward(run, output=cache[:70], backprop_cache=cache, backprop_cache_size=size),
        "backprop_cache and output share memory",
    )
    work = np.zeros(1 << 20, np.uint8)
    target = work[:280].view(np.float32)
    arguments = run.structs(run.results(["dq"]))
    arguments["query_param_delta"].target_desc.data = target
    refused(
        backward(run, **arguments, workspace=work, workspace_size=ctypes.c_size_t(work.nbytes)),
        "workspace and query_param_delta.target_desc share memory",
    )
