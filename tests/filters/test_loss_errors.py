"""Losses called wrongly: a message, -1, nothing written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bad_calls import refused
from cases._base import created
from cases.loss import STRUCTS, LossCase, YoloCase
from helpers import FLOAT16
from openbnns import capi


def describe(count: int, data: Any = None, **fields: Any) -> capi.BNNSNDArrayDescriptor:
    return capi.BNNSNDArrayDescriptor(
        **{"layout": capi.BNNSDataLayoutVector, "size": [count], "data": data, "data_type": capi.BNNSDataTypeFloat32}
        | fields
    )


Base, Soft, Huber = (
    capi.BNNSLayerParametersLossBase, STRUCTS["SoftmaxCrossEntropy"], STRUCTS["Huber"],
)  # fmt: skip
MSE = capi.BNNSLossFunctionMeanSquareError
SOFTMAX = capi.BNNSLossFunctionSoftmaxCrossEntropy
IO: dict[str, Any] = {"i_desc": describe(3), "o_desc": describe(1)}
BAD_CREATIONS: list[tuple[Any, str]] = [
    (None, r"layer_params is NULL"),
    (Base(function=0, **IO), r"function is 0, which is not a BNNSLossFunction"),
    (Base(function=99, **IO), r"function is 99"),
    (Base(function=SOFTMAX, **IO),
     r"is a BNNSLayerParametersLossBase, but function SoftmaxCrossEntropy is described by a "
     r"BNNSLayerParametersLossSoftmax"),
    (Soft(function=capi.BNNSLossFunctionYolo, **IO), r"Yolo is described by a "
        r".*LossYolo"),
    (Huber(function=MSE, **IO), r"MeanSquareError is described by a .*LossBase"),
    (Base(function=MSE, **IO, reduction=7), r"reduction is 7, which is not a "
        r"BNNSLossRed"),
    (Base(function=MSE, i_desc=describe(3), o_desc=describe(3), reduction=1), r"o_desc is .*reduction Sum gives "
        r"one value"),
    (Base(function=MSE, i_desc=describe(3), o_desc=describe(2)), r"one loss for each of the 3 elements.*Vector "
        r"of size 3"),
    (Base(function=MSE, i_desc=describe(0), o_desc=describe(1), reduction=1), r"i_desc.size\[0\] is 0"),
    (Base(function=MSE, i_desc=describe(3, data_type=FLOAT16), o_desc=describe(1), reduction=1), r"Float16, but "
        r"losses work on"),
    (Base(function=MSE, i_desc=describe(3), o_desc=describe(1, data_type=FLOAT16), reduction=1),
     r"o_desc.data_type is Float16"),
    (Soft(function=SOFTMAX, **IO, reduction=1, label_smooth=1.5), r"label_smooth is 1.5"),
    (Soft(function=SOFTMAX, **IO, reduction=1, label_smooth=np.nan), r"label_smooth is nan"),
    (Huber(function=capi.BNNSLossFunctionHuber, **IO, reduction=1), r"huber_delta is 0"),
    (YoloCase().struct(reduction=capi.BNNSLossReductionMean), r"reduction is Mean, but Yolo "
        r"sums.*BNNSLossReductionSum"),
    (YoloCase().struct(number_of_grid_rows=0), r"number_of_grid_rows is 0"),
    (YoloCase().struct(anchor_box_size=4), r"anchor_box_size is 4.*at least 5"),
    (YoloCase().struct(number_of_grid_columns=4), r"i_desc has 162 elements, but the grid has 2 rows x "
        r"4.*Describe 216"),
    (YoloCase().struct(anchors_data=None), r"anchors_data is NULL. Give 6 floats"),
    (YoloCase().struct(anchors_data=np.ones(5, np.float32)), r"anchors_data holds 20 bytes, but the call touches 24"),
    (YoloCase().struct(anchors_data=-np.ones(6, np.float32)), r"anchor boxes are positive"),
    (YoloCase().struct(scale_xy=np.inf), r"scale_xy is inf"),
    (YoloCase().struct(huber_delta=-1.0), r"huber_delta is -1"),
]  # fmt: skip


@pytest.mark.parametrize(("struct", "message"), BAD_CREATIONS, ids=[m for _, m in BAD_CREATIONS])
@pytest.mark.covers("fn.BNNSFilterCreateLayerLoss")
def test_bad_creation(struct: Any, message: str) -> None:
    refused(capi.BNNSFilterCreateLayerLoss(struct), message)


def test_impossible_python_types() -> None:
    with pytest.raises(TypeError, match="layer_params must be one of BNNSLayerParametersLossBase"):
        capi.BNNSFilterCreateLayerLoss(capi.BNNSLayerParametersPooling())
    made, x = LossCase("MeanSquareError").create(), np.zeros(35, np.float32)
    with pytest.raises(TypeError, match="in_delta must be a BNNSNDArrayDescriptor"):
        capi.BNNSLossFilterApplyBatch(made, 5, x, 0, x, 0, None, 0, x.copy(), x.copy(), 0)
    with pytest.raises(TypeError, match="weights_size must be an integer"):
        capi.BNNSLossFilterApplyBatch(made, 5, x, 0, x, 0, x, None, x.copy(), None, 0)  # type: ignore[arg-type]


def _forward_arguments() -> dict[str, Any]:
    x = np.ones(35, np.float32)
    return {
        "batch_size": 5, "in_": x, "in_stride": 0, "labels": x.copy(), "labels_stride": 0, "weights": None,
        "weights_size": 0, "out": np.full(1, 7, np.float32), "in_delta": describe(7, np.full(35, 7, np.float32)),
        "in_delta_stride": 0,
    }  # fmt: skip


BAD_FORWARDS: list[tuple[dict[str, Any], str]] = [
    ({"in_": None}, r"in is NULL"),
    ({"labels": None}, r"labels is NULL"),
    ({"out": None}, r"out is NULL"),
    ({"in_": np.ones(34, np.float32)}, r"in holds 136 bytes, but the call touches 140"),
    ({"labels": np.ones(7, np.float32)}, r"labels holds 28 bytes, but the call touches 140"),
    ({"labels": np.ones(35, np.float16)}, r"labels holds float16 items"),
    ({"labels_stride": 8}, r"labels holds 140 bytes, but the call touches 156 .*8 elements apart"),
    ({"in_stride": -1}, r"in_stride is -1"),
    ({"weights_size": 5, "weights": np.ones(5, np.float32)}, r"weights_size is 5.*takes 0 \(none\), 1 .* or 35 "
        r"\(one per elem"),
    ({"weights_size": 35}, r"weights is NULL"),
    ({"weights_size": 35, "weights": np.ones(34, np.float32)}, r"weights holds 136 bytes, but the call touches 140"),
    ({"in_delta": describe(6, np.ones(35, np.float32))}, r"in_delta is Vector size \(6,\).* describe 7 elements"),
    ({"in_delta": describe(7)}, r"in_delta.data is NULL"),
    ({"in_delta": describe(7, np.ones(35, np.float32), flags=5)}, r"in_delta.flags is 5"),
    ({"in_delta": describe(7, np.ones(35, np.float32), data_type=FLOAT16)}, r"Float16, but training works on Float32"),
    ({"in_delta_stride": 6}, r"in_delta_stride is 6, but one sample spans 7"),
    ({"in_delta_stride": 8}, r"in_delta.data holds 140 bytes, but the call touches 156"),
    ({"batch_size": -1}, r"batch_size is -1"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), BAD_FORWARDS, ids=[m for _, m in BAD_FORWARDS])
@pytest.mark.covers("fn.BNNSLossFilterApplyBatch")
def test_bad_forward(changes: dict[str, Any], message: str, engine: str) -> None:
    made, arguments = LossCase("MeanSquareError").create(), _forward_arguments()
    out, dx = arguments["out"], arguments["in_delta"].data
    refused(capi.BNNSLossFilterApplyBatch(made, **(arguments | changes)), message)
    assert np.all(out == 7) and np.all(dx == 7)


def test_loss_that_nobody_wants_on_the_gradient(engine: str) -> None:
    """The call runs; what is not shared is right."""
    made, arguments, expected = LossCase("MeanSquareError").create(), _forward_arguments(), _forward_arguments()
    assert capi.BNNSLossFilterApplyBatch(made, **expected) == 0
    gradient = arguments["in_delta"].data
    arguments["out"] = gradient[3:4]
    assert capi.BNNSLossFilterApplyBatch(made, **arguments) == 0
    apart = np.arange(gradient.size) != 3
    np.testing.assert_array_equal(gradient[apart], expected["in_delta"].data[apart])


@pytest.mark.parametrize(
    ("name", "count", "message"),
    [
        ("SoftmaxCrossEntropy", 35, r"takes 0 \(none\), 1 \(one for everything\) or 5 \(one per sample\)"),
        ("CosineDistance", 5, r"or 35 \(one per element\)"),
        ("MeanSquareError", 7, r"weights_size is 7"),
    ],
)
def test_weights_that_fit_nothing(name: str, count: int, message: str, engine: str) -> None:
    made, arguments = LossCase(name).create(), _forward_arguments()
    arguments |= {"weights": np.ones(count, np.float32), "weights_size": count}
    refused(capi.BNNSLossFilterApplyBatch(made, **arguments), message)


def test_yolo_takes_one_weight_at_most(engine: str) -> None:
    case = YoloCase()
    x, t = (np.float32(v) for v in case.values())
    made, out = created(capi.BNNSFilterCreateLayerLoss(case.struct())), np.full(1, 7, np.float32)
    refused(
        capi.BNNSLossFilterApplyBatch(made, 2, x, 0, t, 0, x, x.size, out, None, 0),
        r"weights_size is 324, but Yolo .*takes 0 \(none\), 1 \(one for everything\)\.",
    )
    assert out[0] == 7


BAD_BACKWARDS: list[tuple[dict[str, Any], str]] = [
    ({"out_delta": None}, r"out_delta is NULL.*take the gradient from in_delta of BNNSLossFilterApplyBatch"),
    ({"in_delta": None}, r"in_delta is NULL, but it is all that this call computes"),
    ({"in_": None}, r"in is NULL"),
    ({"labels": None}, r"labels is NULL"),
    ({"out_delta": describe(1)}, r"out_delta.data is NULL"),
    ({"out_delta": describe(3, np.ones(3, np.float32))}, r"out_delta is Vector size \(3,\).*one value, as the "
        r"loss is reduced"),
    ({"out_delta": describe(1, np.ones(1), data_type=FLOAT16)}, r"out_delta.data_type is Float16"),
    ({"weights_size": 2, "weights": np.ones(2, np.float32)}, r"weights_size is 2"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), BAD_BACKWARDS, ids=[m for _, m in BAD_BACKWARDS])
@pytest.mark.covers("fn.BNNSLossFilterApplyBackwardBatch")
def test_bad_backward(changes: dict[str, Any], message: str, engine: str) -> None:
    made, arguments = LossCase("MeanSquareError").create(), _forward_arguments()
    del arguments["out"]
    arguments |= {"out_delta": describe(1, np.ones(1, np.float32)), "out_delta_stride": 0}
    dx = arguments["in_delta"].data
    refused(capi.BNNSLossFilterApplyBackwardBatch(made, **arguments | changes), message)
    assert np.all(dx == 7)


def test_upstream_gradients_of_the_wrong_form(engine: str) -> None:
    made, arguments = LossCase("MeanSquareError", "None").create(), _forward_arguments()
    del arguments["out"]
    for delta, message in [
        (describe(1, np.ones(35, np.float32)), r"the gradient of out is 7 values for one sample"),
        (describe(7, np.ones(34, np.float32)), r"out_delta.data holds 136 bytes, but the call touches 140"),
        (describe(7, np.ones(35, np.float32)), r"out_delta_stride is -1"),
    ]:
        stride = -1 if message.endswith("-1") else 0
        refused(
            capi.BNNSLossFilterApplyBackwardBatch(made, **arguments, out_delta=delta, out_delta_stride=stride), message
        )


def test_calls_of_other_families(engine: str) -> None:
    """The generic calls do not drive a loss, nor the loss calls another filter."""
    made, x, out = LossCase("MeanSquareError").create(), np.ones(35, np.float32), np.full(35, 7, np.float32)
    refused(
        capi.BNNSFilterApplyBatch(made, 5, x, 0, out, 0),
        r"does not drive a filter of family loss. Use BNNSLossFilterApplyBatch",
    )
    delta = describe(7, out)
    refused(
        capi.BNNSFilterApplyBackwardBatch(made, 5, x, 0, delta, 0, None, 0, delta, 0, None, None),
        r"Use BNNSLossFilterApplyBackwardBatch",
    )
    activation = created(
        capi.BNNSFilterCreateLayerActivation(
            capi.BNNSLayerParametersActivation(
                i_desc=describe(7), o_desc=describe(7),
                activation=capi.BNNSActivation(function=capi.BNNSActivationFunctionTanh),
            )
        )
    )  # fmt: skip
    refused(
        capi.BNNSLossFilterApplyBatch(activation, 5, x, 0, x, 0, None, 0, out, None, 0),
        r"BNNSLossFilterApplyBatch does not drive a filter of family activation",
    )
    assert capi.BNNSLossFilterApplyBatch(None, 5, x, 0, x, 0, None, 0, out, None, 0) == -1
    capi.BNNSFilterDestroy(made)
    refused(capi.BNNSLossFilterApplyBatch(made, 5, x, 0, x, 0, None, 0, out, None, 0), "has been destroyed")
    assert np.all(out == 7)
