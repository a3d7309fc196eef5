"""Fused chains called wrongly: a message, -1, nothing written."""

# ruff: noqa: E501 - one line per case keeps the tables readable

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bad_calls import Observed
from cases import arithmetic, fully_connected
from cases._base import Act
from cases.fused import ADD, CONV, FusedCase, FusedRun, Norm, case
from differences import normalized
from helpers import FLOAT16, Storage, image, vector
from openbnns import capi

F32 = np.float32

FC = case("own", fully_connected.case("own", 7, 6, 5), Norm("Batch"))


def _pieces(chain: FusedCase) -> tuple[list[Any], list[Any]]:
    run = chain.run()
    first = (
        chain.first.parameters(run.x)
        if chain.is_arithmetic
        else chain.first.parameters(run.w and run.w.elements, run.b and run.b.elements)
    )
    kinds = {"conv": capi.BNNSConvolution, "fc": capi.BNNSFullyConnected, "arith": capi.BNNSArithmetic}
    return [kinds[chain.chain], chain.norm.filter_type], [first, run.normalization()]


def _edit(chain: FusedCase, change: Callable[[list[Any], list[Any]], None]) -> Any:
    kinds, layers = _pieces(chain)
    change(kinds, layers)
    return capi.BNNSFilterCreateFusedLayer(len(kinds), kinds, layers, None)


def _set(index: int, **fields: Any) -> Callable[[list[Any], list[Any]], None]:
    def change(kinds: list[Any], layers: list[Any]) -> None:
        for name, value in fields.items():
            setattr(layers[index], name, value)

    return change


def _kinds(*wanted: int) -> Callable[[list[Any], list[Any]], None]:
    def change(kinds: list[Any], layers: list[Any]) -> None:
        kinds[:] = wanted
        layers[:] = layers + layers[: max(0, len(wanted) - 2)]

    return change


@pytest.mark.parametrize("chain, change, pattern, unsupported", [
    (CONV, _kinds(capi.BNNSConvolution), "chain BNNSConvolution is not supported. Supported are BNNSConvolution, .* BNNSGroupNorm", True),
    (CONV, _kinds(), "chain of no layers", True),
    (CONV, _kinds(capi.BNNSBatchNorm, capi.BNNSConvolution), "BNNSBatchNorm -> BNNSConvolution is not supported", True),
    (CONV, _kinds(capi.BNNSConvolution, capi.BNNSConvolution), "BNNSConvolution -> BNNSConvolution is not", True),
    (CONV, _kinds(capi.BNNSConvolution, capi.BNNSBatchNorm, capi.BNNSBatchNorm), "-> BNNSBatchNorm is not supported", True),
    (ADD, _kinds(capi.BNNSArithmetic, capi.BNNSQuantization), "BNNSArithmetic -> BNNSQuantization is not supported", True),
    (CONV, _kinds(capi.BNNSConvolution, 99), r"filter_type\[1\] is 99, which is not a BNNSFilterType", False),
    (CONV, lambda k, v: v.__setitem__(0, None), r"layer_params\[0\] is NULL. Pass the BNNSLayerParametersConvolution", False),
    (CONV, lambda k, v: v.__setitem__(1, None), r"layer_params\[1\] is NULL", False),
    (CONV, _set(1, i_desc=image(6, 6, 4).descriptor(), o_desc=image(6, 6, 4).descriptor()),
     r"layer_params\[0\].o_desc is .* but layer_params\[1\].i_desc is", False),
    (CONV, _set(1, i_desc=image(6, 6, 5, stride=(1, 6, 40)).descriptor()), "equal in size, stride and data_type", False),
    (CONV, _set(1, i_desc=image(6, 6, 5, data_type=FLOAT16).descriptor()), "equal in size, stride and data_type", False),
    (FC, _set(1, i_desc=vector(5).descriptor(), o_desc=vector(5).descriptor()), "The second layer reads what the first one writes|beta", False),
    (ADD, _set(1, i_desc=image(6, 5, 4).descriptor(), o_desc=image(6, 5, 4).descriptor()), "arithmetic_function_fields.out is", False),
    (replace(CONV, norm=Norm("Group", groups=4)), lambda k, v: None, "4|group", False),
    (CONV, _set(1, activation=Act("Softmax").struct), "[Ss]oftmax", True),
    (CONV, _set(0, groups=4), "groups is 4", False),
    (CONV, _set(1, beta_desc=vector(5).descriptor(np.zeros(5, F32))), "beta_desc", False),
], ids=range(18))  # fmt: skip
def test_creation_is_refused(
    chain: FusedCase, change: Any, pattern: str, unsupported: bool, engine: str, observed: Observed
) -> None:
    if chain.norm.groups == 4:
        kinds, layers = _pieces(replace(chain, norm=Norm("Group", groups=1)))
        layers[1].num_groups = 4
        observed.failed(capi.BNNSFilterCreateFusedLayer(2, kinds, layers, None), "4")
        return
    observed.failed(_edit(chain, change), pattern, unsupported)


def test_arguments_of_creation(observed: Observed) -> None:
    kinds, layers = _pieces(CONV)
    create = capi.BNNSFilterCreateFusedLayer
    observed.failed(create(2, kinds[:1], layers), "filter_type has 1 entry, but number_of_fused_filters is 2")
    observed.failed(create(2, kinds, layers[:1]), "layer_params has 1 entry")
    observed.failed(create(2, None, layers), "filter_type is NULL")
    observed.failed(create(2, kinds, None), "layer_params is NULL")
    assert create(2, [*kinds, 99], [*layers, None]) is not None
    for call in (
        lambda: create(2, kinds, [layers[1], layers[0]]),
        lambda: create("2", kinds, layers),
        lambda: create(2, 5, layers),
        lambda: create(2, ["a", "b"], layers),
        lambda: create(2, kinds, layers, 5),
    ):
        with pytest.raises(TypeError):
            call()


def _backward(run: FusedRun, **changes: Any) -> int:
    """The backward call of a run with all gradients, and some arguments changed."""
    chain, g = run.case, {name: s.descriptor() for name, s in run.new_gradients().items()}
    slots = [g.get(name) for name in chain.slots]
    if chain.is_arithmetic:
        arguments: dict[str, Any] = {
            "filter": run.filter, "batch_size": chain.batch, "number_of_inputs": chain.first.count,
            "in_": [s.elements for s in run.x], "in_stride": [0] * len(run.x),
            "in_delta": [g[f"da{i}"] for i in range(chain.first.count)], "in_delta_stride": [0] * len(run.x),
        }  # fmt: skip
    else:
        arguments = {
            "filter": run.filter, "batch_size": chain.batch, "in_": run.x[0].elements, "in_stride": 0, "in_delta": g["dx"],
            "in_delta_stride": 0,
        }  # fmt: skip
    arguments |= {
        "out": run.y.elements, "out_stride": 0, "out_delta": run.dy.descriptor(), "out_delta_stride": 0,
        "delta_parameters": slots,
    } | changes  # fmt: skip
    call = "BNNSFusedFilterApplyBackwardMultiInputBatch" if chain.is_arithmetic else "BNNSFusedFilterApplyBackwardBatch"
    return int(getattr(capi, call)(**arguments))


def _guarded(run: FusedRun) -> dict[str, Storage]:
    return run.new_gradients()


@pytest.mark.parametrize("chain, changes, pattern", [
    (CONV, lambda r, g: {"delta_parameters": [g["dw"], g["db"], g["dbeta"]]},
     "delta_parameters has 3 entries, but this chain has 4 parameter gradients, in the order weights, bias, beta, gamma"),
    (CONV, lambda r, g: {"delta_parameters": [g["dbeta"], g["dgamma"], g["dw"], g["db"]]},
     r"delta_parameters\[0\] .*This is the gradient of weights; the order is weights, bias, beta, gamma"),
    (CONV, lambda r, g: {"delta_parameters": [g["dw"], g["dbeta"], g["db"], g["dw"]]}, r"delta_parameters\[3\] .*gamma"),
    (ADD, lambda r, g: {"delta_parameters": [None, None, g["dbeta"], g["dgamma"]]}, "has 4 entries.* 2 .*beta, gamma"),
    (CONV, lambda r, g: {"delta_parameters": []}, "has 0 entries"),
    (CONV, lambda r, g: {"in_": None}, "in is NULL, but the weights gradient needs"),
    (CONV, lambda r, g: {"out": None}, "out is NULL, but the fused activation"),
    (CONV, lambda r, g: {"out_delta": None}, "out_delta is NULL"),
    (CONV, lambda r, g: {"in_delta": g["dw"]}, "in_delta is ConvolutionWeightsOIHW"),
    (CONV, lambda r, g: {"batch_size": 3}, "batch_size is 3, but the latest training forward had 4"),
    (ADD, lambda r, g: {"in_delta": None}, "in_delta is NULL"),
    (ADD, lambda r, g: {"in_delta": [g["da0"]]}, "in_delta has 1 entry"),
    (ADD, lambda r, g: {"number_of_inputs": 3}, "number_of_inputs is 3"),
    (ADD, lambda r, g: {"out_delta": None}, "out_delta is NULL"),
], ids=range(14))  # fmt: skip
def test_backward_is_refused(chain: FusedCase, changes: Any, pattern: str, engine: str, observed: Observed) -> None:
    run = chain.run()
    run.forward()
    memory = _guarded(run)
    described = {name: storage.descriptor() for name, storage in memory.items()}
    edit = changes(run, described)
    slots = [described.get(name) for name in chain.slots]
    base: dict[str, Any] = {"delta_parameters": slots}
    base["in_delta"] = (
        [described[f"da{i}"] for i in range(chain.first.count)] if chain.is_arithmetic else described["dx"]
    )
    observed.failed(_backward(run, **(base | edit)), pattern)
    for name, storage in memory.items():
        storage.assert_unchanged(name)


def test_calls_that_do_not_fit(engine: str, observed: Observed) -> None:
    conv, add = CONV.run(), ADD.run()
    y = conv.y.elements
    observed.failed(
        capi.BNNSFilterApplyBatch(conv.filter, 4, conv.x[0].elements, 0, y, 0), "Use BNNSFusedFilterApplyBatch"
    )
    observed.failed(capi.BNNSFusedFilterApplyBatch(add.filter, 4, add.x[0].elements, 0, add.y.elements, 0, True),
                   "arithmetic of 2 operands.* Use BNNSFusedFilterApplyMultiInputBatch")  # fmt: skip
    observed.failed(
        capi.BNNSFusedFilterApplyMultiInputBatch(conv.filter, 4, 1, [conv.x[0].elements], [0], y, 0, True),
        "starts with a convolution layer.* Use BNNSFusedFilterApplyBatch",
    )
    single = fully_connected.case("single", 3, 2).run()
    observed.failed(
        capi.BNNSFusedFilterApplyBatch(single.filter, 1, single.x.elements, 0, single.y.elements, 0, True),
        "does not drive a filter of family fully connected",
    )
    observed.failed(capi.BNNSFusedFilterApplyBatch(None, 1, y, 0, y, 0, True), "filter is NULL")
    observed.failed(capi.BNNSFusedFilterApplyBatch(conv.filter, 4, None, 0, y, 0, True), "in is NULL")
    observed.failed(capi.BNNSFusedFilterApplyBatch(conv.filter, 4, conv.x[0].elements, 0, None, 0, True), "out is NULL")
    observed.failed(
        capi.BNNSFusedFilterApplyBatch(conv.filter, 9, conv.x[0].elements, 0, y, 0, True), "Pass a larger buffer"
    )
    with pytest.raises(TypeError, match="training must be a bool"):
        capi.BNNSFusedFilterApplyBatch(conv.filter, 4, conv.x[0].elements, 0, y, 0, None)
    capi.BNNSFilterDestroy(conv.filter)
    observed.failed(capi.BNNSFusedFilterApplyBatch(conv.filter, 4, conv.x[0].elements, 0, y, 0, True), "destroyed")
    assert np.isnan(y).all()


def test_an_activation_inside_the_chain(engine: str, observed: Observed) -> None:
    """Fine in inference, refused in training."""
    inner = replace(CONV, first=replace(CONV.first, activation=Act("Tanh")), training=False, trains=False)
    run = inner.run()
    run.forward()
    h = np.tanh(CONV._boundary(inner.values())[0])
    mean, variance = (inner.values()[f"moving_{k}"].reshape(1, -1, 1, 1) for k in ("mean", "variance"))
    gamma, beta = (inner.values()[k].reshape(1, -1, 1, 1) for k in ("gamma", "beta"))
    expected = np.maximum((h - mean) / np.sqrt(variance + 1e-3) * gamma + beta, 0)
    np.testing.assert_allclose(run.y.read().transpose(0, 3, 2, 1), expected, rtol=1e-4, atol=1e-5)
    run.y.write(np.full_like(run.y.read(), 7))
    observed.failed(
        capi.BNNSFusedFilterApplyBatch(run.filter, 4, run.x[0].elements, 0, run.y.elements, 0, True),
        "activation Tanh, but in training every layer except the last must have the Identity",
    )
    run.y.assert_unchanged("y")


def test_an_activation_that_cannot_be_trained(engine: str, observed: Observed) -> None:
    chain = replace(CONV, activation=Act("SiLU"))
    run = chain.run()
    run.forward()
    observed.failed(_backward(run), "SiLU cannot be trained", unsupported=True)


def test_operands_that_the_derivative_needs(engine: str, observed: Observed) -> None:
    chain = case("needs", arithmetic.case("needs", "Multiply", image(6, 4, 5), image(6, 4, 5), batch=4), Norm("Batch"))
    run = chain.run()
    run.forward()
    observed.failed(_backward(run, in_=None), r"in\[0\] is NULL, but the derivative of Multiply needs its operands")
    observed.failed(_backward(run, in_=[run.x[0].elements, None]), r"in\[1\] is NULL")
    skipped = [chain.first.operands[0].descriptor()] * 2
    assert _backward(run, in_=None, in_delta=skipped) == 0


def test_other_types_run_but_do_not_train(engine: str, observed: Observed) -> None:
    tensor = image(6, 4, 5, data_type=FLOAT16)
    chain = case(
        "half", arithmetic.case("half", "Add", tensor, tensor, batch=4, y=tensor), Norm("Batch"), training=False
    )
    run = chain.run()
    y = chain.y.decode(run.forward())
    a = chain.values()
    h = tensor.rounded(a["a0"] + a["a1"]).transpose(0, 3, 2, 1)
    beta, gamma = a["beta"][0], a["gamma"][0]
    np.testing.assert_allclose(y.transpose(0, 3, 2, 1), normalized(h, beta, gamma), rtol=4e-3, atol=4e-3)
    run.forward(training=True)
    observed.failed(_backward(run), "training works on Float32 only")
