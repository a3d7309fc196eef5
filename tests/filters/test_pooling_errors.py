"""Pooling called wrongly: a message, -1, nothing written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from bad_calls import refused
from cases._base import TRAINABLE, Act, created, succeed
from cases.pooling import INDEX_TYPES, NO_CELL, PoolingCase, simple
from helpers import FLOAT16, Storage, Tensor, image, vector
from openbnns import capi, compat
from openbnns.errors import Problem
from openbnns.filters._pooling_indices import IndexOperand
from openbnns.tensors.descriptors import ELEMENT_TYPES, FLOAT32, LAYOUTS, View
from openbnns.tensors.operands import Operand


def changed(c: PoolingCase, **changes: Any) -> Any:
    return c.struct(**changes)


BASE = simple(channels=2, size=(4, 6))
UN = simple("UnMax", channels=2, size=(4, 6))
BAD_CREATIONS: list[tuple[Any, str]] = [
    (None, r"layer_params is NULL"),
    (changed(BASE, pooling_function=5), r"pooling_function is 5, which is not a BNNSPoolingFunction\. Use one of 0 to 4"),
    (changed(BASE, k_width=0), r"the window is 0 x 2 \(k_width x k_height\)"),
    (changed(BASE, k_height=0), r"the window is 2 x 0"),
    (changed(BASE, k_width=1 << 40), r"k_width is 1099511627776, which is more than any image has"),
    (changed(BASE, x_stride=1 << 63), r"x_stride is 9223372036854775808, which is more"),
    (changed(BASE, k_width=1 << 20, k_height=1 << 20), r"the window has 1099511627776 cells, more than"),
    (changed(BASE, x_dilation_stride=1 << 20, y_dilation_stride=1 << 20), r"cover \d+ cells, more than"),
    (changed(BASE, pad=(1 << 20,) * 4, x_stride=1 << 19, y_stride=1 << 19), r"x_stride \* y_stride is 274877906944, more than"),
    (changed(BASE, o_desc=image(3, 2, 3).descriptor()), r"i_desc has 2 channels and o_desc 3"),
    (changed(BASE, o_desc=image(2, 2, 4).descriptor()), r"o_desc width is 4, .* start of 3 windows.*o_desc.size\[0\]"),
    (changed(BASE, o_desc=image(2, 3, 3).descriptor()), r"o_desc height is 3, .* start of 2 windows.*o_desc.size\[1\]"),
    (changed(UN, i_desc=image(2, 3, 3).descriptor()), r"i_desc height is 3, but o_desc height 4"),
    (changed(BASE, i_desc=vector(6).descriptor()), r"i_desc.layout is Vector. Images are ImageCHW"),
    (changed(BASE, o_desc=Tensor(capi.BNNSDataLayout3DFirstMajor, (2, 2, 3)).descriptor()), r"o_desc.layout is 3DFirstMajor"),
    (changed(BASE, i_desc=image(0, 4, 6).descriptor()), r"i_desc.size\[2\] is 0"),
    (changed(BASE, bias=vector(3).descriptor(np.zeros(3, np.float32))), r"bias is .*3"),
    (changed(BASE, activation=capi.BNNSActivation(function=99)), r"99"),
]  # fmt: skip


@pytest.mark.parametrize(("struct", "message"), BAD_CREATIONS, ids=[m for _, m in BAD_CREATIONS])
@pytest.mark.covers("fn.BNNSFilterCreateLayerPooling")
def test_bad_creation(struct: Any, message: str) -> None:
    refused(capi.BNNSFilterCreateLayerPooling(struct), message)


def test_far_strides_of_a_single_window(engine: str) -> None:
    """Where there is one window only, a stride does nothing."""
    made = created(capi.BNNSFilterCreateLayerPooling(changed(
        BASE, o_desc=image(2, 1, 1).descriptor(), x_stride=1 << 20, y_stride=1 << 20, k_width=6, k_height=4
    )))  # fmt: skip
    out = np.zeros(2, np.float32)
    succeed(capi.BNNSFilterApply(made, np.arange(48, dtype=np.float32), out))
    np.testing.assert_array_equal(out, [23, 47])


U32, U64 = capi.BNNSDataTypeUInt32, capi.BNNSDataTypeUInt64


def _forward_arguments(c: PoolingCase) -> dict[str, Any]:
    return {
        "batch_size": 2, "in_": np.ones(2 * c.x.count, np.float32), "in_stride": 0,
        "out": np.full(2 * c.y.count, 7, np.float32), "out_stride": 0,
        "indices": np.full(2 * c.small.count, 7, np.uint64), "idx_stride": 0,
    }  # fmt: skip


BAD_FORWARDS: list[tuple[dict[str, Any], str]] = [
    ({"in_": None}, r"in is NULL"),
    ({"out": None}, r"out is NULL"),
    ({"in_": np.ones(95, np.float32)}, r"in holds 380 bytes, but the call touches 384"),
    ({"out": np.full(23, 7, np.float32)}, r"out holds 92 bytes, but the call touches 96"),
    ({"indices": np.zeros(23, np.uint64)}, r"indices holds 184 bytes, but the call touches 192"),
    ({"indices": np.zeros(24, np.uint32)}, r"indices holds uint32 items, but its descriptor says UInt64"),
    ({"indices": np.zeros(24, np.int64)}, r"indices holds int64 items"),
    ({"indices": bytes(192)}, r"indices is read-only"),
    ({"idx_stride": 5}, r"idx_stride is 5, but one sample spans 12"),
    ({"idx_stride": -1}, r"idx_stride is -1"),
    ({"idx_stride": 13}, r"indices holds 192 bytes, but the call touches 200"),
    ({"in_stride": -2}, r"in_stride is -2"),
    ({"out_stride": 11}, r"out_stride is 11, but one sample spans 12"),
    ({"batch_size": -1}, r"batch_size is -1"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_FORWARDS, ids=[m for _, m in BAD_FORWARDS])
@pytest.mark.parametrize("typed", [False, True], ids=["", "Ex"])
@pytest.mark.covers("fn.BNNSPoolingFilterApplyBatch", "fn.BNNSPoolingFilterApplyBatchEx")
def test_bad_forward(changes: dict[str, Any], message: str, typed: bool, engine: str) -> None:
    made, arguments = created(BASE.create(None, None, 0)), _forward_arguments(BASE)
    out, indices = arguments["out"], arguments["indices"]
    given = arguments | changes | ({"indices_data_type": U64} if typed else {})
    call = capi.BNNSPoolingFilterApplyBatchEx if typed else capi.BNNSPoolingFilterApplyBatch
    refused(call(made, **given), message)
    assert np.all(out == 7) and np.all(indices == 7)


@pytest.mark.parametrize("per_sample", [False, True])
def test_indices_beyond_32_bits(per_sample: bool) -> None:
    """They are refused, not cut off; 2^32 - 1 stands for no cell."""
    image = View(LAYOUTS[int(capi.BNNSDataLayoutImageCHW)], FLOAT32, (2, 2, 3), (1, 2, 4))
    operand, memory = Operand(image, image.memory_axes), np.zeros(12, np.uint32)
    most = (1 << 32) // 3 if per_sample else (1 << 32) - 1
    kinds = [ELEMENT_TYPES[int(kind)] for kind in (capi.BNNSDataTypeUInt32, U64)]
    with compat.using(max_pool_index_per_sample=per_sample):
        fits, too_large = (IndexOperand.of(operand, kinds[0], plane, False) for plane in (most, most + 1))
        wide = IndexOperand.of(operand, kinds[1], most + 1, False)
    assert (fits.fast, too_large.fast) == (not per_sample, False)
    fits.bind("BNNSPoolingFilterApplyBatchEx: indices", memory, 1, 0, output=True)
    wide.bind("BNNSPoolingFilterApplyBatchEx: indices", memory.astype(np.uint64), 1, 0, output=True)
    with pytest.raises(Problem, match="the indices are UInt32, which cannot hold every index of this image"):
        too_large.bind("BNNSPoolingFilterApplyBatchEx: indices", memory, 1, 0, output=True)


def test_bad_index_types(engine: str) -> None:
    made, arguments = created(BASE.create(None, None, 0)), _forward_arguments(BASE)
    for kind in (0, capi.BNNSDataTypeInt32, capi.BNNSDataTypeUInt16, capi.BNNSDataTypeFloat32):
        refused(
            capi.BNNSPoolingFilterApplyBatchEx(made, **arguments, indices_data_type=kind),
            r"indices_data_type is 0x[0-9a-f]+. Indices are BNNSDataTypeUInt32 or",
        )
    for wrong in ("UInt32", [1], 1.5):
        with pytest.raises(TypeError, match="indices_data_type must be a BNNSDataType"):
            capi.BNNSPoolingFilterApplyBatchEx(made, **arguments, indices_data_type=wrong)  # type: ignore[arg-type]
    assert np.all(arguments["out"] == 7) and np.all(arguments["indices"] == 7)


def test_indices_that_nobody_wants_on_the_output(engine: str) -> None:
    """The call runs; what is not shared is right."""
    made, arguments = created(BASE.create(None, None, 0)), _forward_arguments(BASE)
    assert capi.BNNSPoolingFilterApplyBatch(made, **arguments) == 0
    out, count = arguments["out"], arguments["indices"].size
    memory = np.full(count + 4, 7, np.uint64)
    both = {"indices": memory[:count], "out": memory.view(np.float32)[2 * count + 4 - out.size : 2 * count + 4]}
    assert capi.BNNSPoolingFilterApplyBatch(made, **(arguments | both)) == 0
    np.testing.assert_array_equal(memory[: count - 10], arguments["indices"][: count - 10])
    np.testing.assert_array_equal(both["out"][-4:], out[-4:])
    assert (memory[-2:] == 7).all()


@pytest.mark.covers("pool.UnMax.fwd", "pool.UnMax.bwd")
@pytest.mark.parametrize("kind", INDEX_TYPES)
@pytest.mark.parametrize("function", ["Max", "UnMax"])
@pytest.mark.parametrize("wrong", [16, 1 << 31, NO_CELL])
def test_indices_outside_their_plane(function: str, kind: str, wrong: int, engine: str) -> None:
    """The first cell that is wrong is named; nothing is written. All bits set means "none" to Max, but not to UnMax."""
    c = simple(function, kind, channels=2, batch=2)
    run = c.run()
    run.forward()
    assert run.indices is not None
    places = run.indices.read()
    places[1, 0, 1, 1] = wrong
    run.indices.write(places)
    run.y.write(np.zeros((2, *c.y.size)))
    given, suffix = run._index_arguments()
    dx = Storage(c.x, 2, 0, np.full((2, *c.x.size), 7.0))
    statuses = [
        getattr(capi, f"BNNSPoolingFilterApplyBackwardBatch{suffix}")(
            run.filter, 2, None, 0, dx.descriptor(), 0, None, 0, run.dy.descriptor(), 0, None, *given
        )
    ]
    if wrong == NO_CELL and not c.unpools:
        assert statuses == [0]
        return
    if c.unpools:
        forward = getattr(capi, f"BNNSPoolingFilterApplyBatch{suffix}")
        statuses.append(forward(run.filter, 2, run.x.elements, 0, run.y.elements, 0, *given))
    assert set(statuses) == {-1}
    value = wrong if wrong >= 0 else (1 << (32 if kind == "u32" else 64)) - 1
    message = f"indices holds {value} at sample 1, channel 1, row 1, column 0, but a plane has positions 0 to 15"
    assert message in str(ob.last_error())
    dx.assert_unchanged("in_delta")
    run.y.assert_unchanged("out")


@pytest.mark.parametrize("call", ["pooling", "Ex", "generic"])
def test_unmax_without_indices(call: str, engine: str) -> None:
    c = UN
    run = c.run()
    memory = np.full(c.x.count, 7, np.float32)
    dx, dy, out = c.x.descriptor(memory), run.dy.descriptor(), np.full(c.y.count, 7, np.float32)
    x, f = run.x.elements, run.filter
    forward, backward = {
        "pooling": (
            lambda: capi.BNNSPoolingFilterApplyBatch(f, 1, x, 0, out, 0, None, 0),
            lambda: capi.BNNSPoolingFilterApplyBackwardBatch(f, 1, x, 0, dx, 0, None, 0, dy, 0, None, None, 0),
        ),
        "Ex": (
            lambda: capi.BNNSPoolingFilterApplyBatchEx(f, 1, x, 0, out, 0, U32, None, 0),
            lambda: capi.BNNSPoolingFilterApplyBackwardBatchEx(f, 1, x, 0, dx, 0, None, 0, dy, 0, None, U32, None, 0),
        ),
        "generic": (
            lambda: capi.BNNSFilterApplyBatch(f, 1, x, 0, out, 0),
            lambda: capi.BNNSFilterApplyBackwardBatch(f, 1, x, 0, dx, 0, None, 0, dy, 0, None, None),
        ),
    }[call]
    for each in (forward, backward):
        refused(each(), r"indices is NULL, but UnMax needs the indices that Max recorded")
    assert np.all(out == 7) and np.all(memory == 7)


def _backward_arguments(c: PoolingCase) -> dict[str, Any]:
    return {
        "batch_size": 2, "in_": np.ones(2 * c.x.count, np.float32), "in_stride": 0,
        "in_delta": c.x.descriptor(np.full(2 * c.x.count, 7, np.float32)), "in_delta_stride": 0,
        "out": np.zeros(2 * c.y.count, np.float32), "out_stride": 0,
        "out_delta": c.y.descriptor(np.ones(2 * c.y.count, np.float32)), "out_delta_stride": 0,
        "bias_delta": vector(2).descriptor(np.full(2, 7, np.float32)),
        "indices": np.zeros(2 * c.small.count, np.uint64), "idx_stride": 0,
    }  # fmt: skip


FUSED = simple(channels=2, size=(4, 6), bias=True, activation=Act("Tanh"))
SEVENS = np.full(96, 7, np.float32)
BAD_BACKWARDS: list[tuple[dict[str, Any], str]] = [
    ({"out": None}, r"out is NULL, but the fused activation is differentiated from the forward output"),
    ({"out_delta": None}, r"out_delta is NULL"),
    ({"out_delta": FUSED.y.descriptor()}, r"out_delta.data is NULL"),
    ({"out_delta": FUSED.x.descriptor(SEVENS)}, r"out_delta is ImageCHW size \(6, 4, 2\), but this filter's tensor is"),
    ({"in_": None, "indices": None}, r"in is NULL, but the input gradient of Max pooling needs .* or the indices"),
    ({"in_delta": FUSED.x.descriptor()}, r"in_delta.data is NULL"),
    ({"in_delta": FUSED.y.descriptor(SEVENS)}, r"in_delta is ImageCHW size \(3, 2, 2\)"),
    ({"in_delta": FUSED.x.descriptor(SEVENS, flags=9)}, r"in_delta.flags is 9"),
    ({"in_delta": replace(FUSED.x, data_type=FLOAT16).descriptor(SEVENS)}, r"in_delta.data_type is Float16"),
    ({"bias_delta": vector(3).descriptor(SEVENS)}, r"bias_delta is Vector size \(3,\)"),
    ({"idx_stride": -3}, r"idx_stride is -3"),
    ({"indices": np.zeros(23, np.uint64)}, r"indices holds 184 bytes"),
    ({"indices": np.full(24, 24, np.uint64)}, r"indices holds 24 at sample 0, channel 0, row 0, column 0"),
    ({"in_delta_stride": 47}, r"in_delta_stride is 47"),
    ({"batch_size": -1}, r"batch_size is -1"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), BAD_BACKWARDS, ids=[m for _, m in BAD_BACKWARDS])
@pytest.mark.parametrize("typed", [False, True], ids=["", "Ex"])
@pytest.mark.covers("fn.BNNSPoolingFilterApplyBackwardBatch", "fn.BNNSPoolingFilterApplyBackwardBatchEx")
def test_bad_backward(changes: dict[str, Any], message: str, typed: bool, engine: str) -> None:
    made, arguments = created(FUSED.create(None, np.zeros(2, np.float32), 0)), _backward_arguments(FUSED)
    dx, db = arguments["in_delta"].data, arguments["bias_delta"].data
    call = capi.BNNSPoolingFilterApplyBackwardBatchEx if typed else capi.BNNSPoolingFilterApplyBackwardBatch
    refused(call(made, **arguments | changes | ({"indices_data_type": U64} if typed else {})), message)
    assert np.all(dx == 7) and np.all(db == 7) and np.all(SEVENS == 7)


def test_training_is_float32(engine: str) -> None:
    c = simple(channels=2, size=(4, 6), in_options={"data_type": FLOAT16})
    arguments = _backward_arguments(c) | {"in_": None, "in_delta": BASE.x.descriptor(np.zeros(96, np.float32))}
    refused(
        capi.BNNSPoolingFilterApplyBackwardBatch(created(c.create(None, None, 0)), **arguments),
        r"the filter's input is Float16, but training works on Float32",
    )


@pytest.mark.parametrize("act", [Act("Abs"), Act("SiLU"), Act("ScaledTanh", 1.0, 1.0)], ids=lambda a: a.name)
def test_activations_without_training(act: Act, engine: str) -> None:
    c = simple(channels=2, size=(4, 6), activation=act)
    refused(
        capi.BNNSPoolingFilterApplyBackwardBatch(created(c.create(None, None, 0)), **_backward_arguments(c)), act.name
    )


def test_calls_of_other_families(engine: str) -> None:
    """The pooling calls drive pooling filters only."""
    activation = created(capi.BNNSFilterCreateLayerActivation(capi.BNNSLayerParametersActivation(
        i_desc=vector(7).descriptor(), o_desc=vector(7).descriptor(), activation=TRAINABLE[0].struct
    )))  # fmt: skip
    x = np.ones(7, np.float32)
    refused(
        capi.BNNSPoolingFilterApplyBatch(activation, 1, x, 0, x.copy(), 0, None, 0),
        r"BNNSPoolingFilterApplyBatch does not drive a filter of family activation",
    )
    delta = vector(7).descriptor(x.copy())
    refused(
        capi.BNNSPoolingFilterApplyBackwardBatchEx(activation, 1, x, 0, delta, 0, x, 0, delta, 0, None, U32, None, 0),
        r"does not drive a filter of family activation",
    )
    made = created(BASE.create(None, None, 0))
    refused(
        capi.BNNSLossFilterApplyBatch(made, 1, x, 0, x, 0, None, 0, x.copy(), None, 0),
        r"Use BNNSPoolingFilterApplyBatch or BNNSFilterApplyBatch",
    )


def test_impossible_python_types(engine: str) -> None:
    made, arguments = created(BASE.create(None, None, 0)), _forward_arguments(BASE)
    with pytest.raises(TypeError, match="layer_params must be a BNNSLayerParametersPooling"):
        capi.BNNSFilterCreateLayerPooling(capi.BNNSLayerParametersConvolution())
    for changes in ({"batch_size": 1.5}, {"idx_stride": "0"}, {"indices": object()}, {"in_": object()}):
        with pytest.raises(TypeError):
            capi.BNNSPoolingFilterApplyBatch(made, **(arguments | changes))
    with pytest.raises(TypeError, match="in_delta must be a BNNSNDArrayDescriptor"):
        capi.BNNSPoolingFilterApplyBackwardBatch(
            made, **_backward_arguments(BASE) | {"in_delta": np.zeros(96, np.float32)}
        )
