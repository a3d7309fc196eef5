"""Values seen on real hardware or printed by the vendor, on both engines, fast and exact: filters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns
from cases._base import Act, created, succeed
from cases.observed import HERE, OBSERVED, close, floats, observed, setup_of, tensor
from helpers import FLOAT32, INT32, VECTOR, Tensor, vector
from openbnns import capi

pytestmark = pytest.mark.usefixtures("accuracy")

# Tested with their families.
ELSEWHERE = ("mse_none", "mse_none_backward", "mse_sum", "mse_mean", "mha_scalar", "mha_scalar_backward")


def test_every_observed_case_has_a_place() -> None:
    assert sorted([*HERE, *ELSEWHERE]) == sorted(OBSERVED)


def layer(case: dict[str, Any]) -> Any:
    """The filter that a case describes; its weights stay in the caller's memory."""
    setup, inputs = setup_of(case), case["inputs"]
    fields = {"i_desc": tensor(setup["i"]).descriptor(), "o_desc": tensor(setup["o"]).descriptor()}
    fields["w_desc"] = tensor(setup["w"]).descriptor(floats(inputs["weights"]))
    outputs = setup["o"]["size"][-1]
    needs_bias = "bias" in inputs or "db" in case["expected"]
    if needs_bias:
        fields["bias"] = vector(outputs).descriptor(floats(inputs.get("bias", [0.0] * outputs)))
    if setup["layer"] == "FullyConnected":
        return created(capi.BNNSFilterCreateLayerFullyConnected(capi.BNNSLayerParametersFullyConnected(**fields)))
    step = {"x_stride": setup["stride"][0], "y_stride": setup["stride"][1]}
    create = getattr(capi, f"BNNSFilterCreateLayer{setup['layer']}")
    return created(create(capi.BNNSLayerParametersConvolution(**fields, **step)))


@observed("fc_forward", "fc_forward_2", "conv_2x2_ones", "transposed_conv_1x1")
def test_apply(case: dict[str, Any], engine: str) -> None:
    y = floats(np.full(len(case["expected"]["y"]), np.nan))
    with openbnns.engine(engine):
        succeed(capi.BNNSFilterApply(layer(case), floats(case["inputs"]["x"]), y))
    close(y, case, "y")


@observed("fc_batch_stride0", "fc_batch_stride3")
def test_apply_batch(case: dict[str, Any], engine: str) -> None:
    i = case["inputs"]
    y = floats(np.full(len(case["expected"]["y"]), np.nan))
    with openbnns.engine(engine):
        succeed(
            capi.BNNSFilterApplyBatch(layer(case), i["batch_size"], floats(i["x"]), i["in_stride"], y, i["out_stride"])
        )
    close(y, case, "y")


@observed("fc_backward")
def test_apply_backward(case: dict[str, Any], engine: str) -> None:
    i, setup = case["inputs"], setup_of(case)
    memory = {name: floats(np.full(len(values), np.nan)) for name, values in case["expected"].items()}
    delta = {name: tensor(setup[key]).descriptor(memory[name]) for name, key in (("dx", "i"), ("dw", "w"), ("db", "o"))}
    dy = tensor(setup["o"]).descriptor(floats(i["dy"]))
    with openbnns.engine(engine):
        succeed(
            capi.BNNSFilterApplyBackwardBatch(
                layer(case),
                i["batch_size"],
                floats(i["x"]),
                i["in_stride"],
                delta["dx"],
                i["in_delta_stride"],
                i["out"],
                0,
                dy,
                i["out_delta_stride"],
                delta["dw"],
                delta["db"],
            )
        )
    for name, values in memory.items():
        close(values, case, name)


def activation(case: dict[str, Any], i_data: Any = None, o_data: Any = None) -> capi.BNNSLayerParametersActivation:
    setup, count = setup_of(case), len(case["inputs"]["x"])
    types = [
        capi.BNNSDataType[f"BNNSDataType{setup[key]}"] if key in setup else FLOAT32 for key in ("i_type", "o_type")
    ]
    act = Act(setup["function"], setup.get("alpha", 0.0), setup.get("beta", 0.0))
    return capi.BNNSLayerParametersActivation(
        i_desc=Tensor(VECTOR, (count,), data_type=types[0]).descriptor(i_data),
        o_desc=Tensor(VECTOR, (count,), data_type=types[1]).descriptor(o_data), activation=act.struct,
    )  # fmt: skip


@observed("activation_convert", "leaky_relu")
def test_direct_activation(case: dict[str, Any], engine: str) -> None:
    is_integer = setup_of(case).get("o_type") == "Int32"
    y = np.zeros(len(case["inputs"]["x"]), np.int32 if is_integer else np.float32)
    with openbnns.engine(engine):
        succeed(capi.BNNSDirectApplyActivationBatch(activation(case, floats(case["inputs"]["x"]), y), None, 1, 0, 0))
    close(y, case, "y")


@observed("clamp")
def test_activation(case: dict[str, Any], engine: str) -> None:
    y = floats(np.full(len(case["inputs"]["x"]), np.nan))
    with openbnns.engine(engine):
        made = created(capi.BNNSFilterCreateLayerActivation(activation(case)))
        succeed(capi.BNNSFilterApply(made, floats(case["inputs"]["x"]), y))
    close(y, case, "y")


@observed("get_pointer_alpha")
def test_get_pointer(case: dict[str, Any], engine: str) -> None:
    x, y = floats(case["inputs"]["x"]), floats([np.nan, np.nan])
    with openbnns.engine(engine):
        made = created(capi.BNNSFilterCreateLayerActivation(activation(case)))
        succeed(capi.BNNSFilterApply(made, x, y))
        close(y, case, "y_before")
        capi.BNNSGetPointer(made, capi.BNNSPointerSpecifier.BNNSPointerSpecifierAlpha).data[0] = case["inputs"][
            "write_alpha"
        ]
        succeed(capi.BNNSFilterApply(made, x, y))
        close(y, case, "y_after")


def arithmetic(case: dict[str, Any]) -> tuple[Any, Tensor]:
    setup = setup_of(case)
    t = vector(setup["size"][0])
    roles = [capi.BNNSDescriptorType[f"BNNS{role}"] for role in setup.get("roles", ["Sample", "Sample"])]
    if len(roles) == 3:
        block: Any = capi.BNNSArithmeticBinary(
            in1=t.descriptor(),
            in1_type=roles[0],
            in2=t.descriptor(),
            in2_type=roles[1],
            out=t.descriptor(),
            out_type=roles[2],
        )
    else:
        block = capi.BNNSArithmeticUnary(in_=t.descriptor(), in_type=roles[0], out=t.descriptor(), out_type=roles[1])
    function = capi.BNNSArithmeticFunction[f"BNNSArithmetic{setup['function']}"]
    p = capi.BNNSLayerParametersArithmetic(arithmetic_function=function, arithmetic_function_fields=block)
    return created(capi.BNNSFilterCreateLayerArithmetic(p)), t


@observed("arithmetic_add", "arithmetic_square")
def test_arithmetic(case: dict[str, Any], engine: str) -> None:
    i = case["inputs"]
    operands = [floats(i[name]) for name in ("a", "b", "x") if name in i]
    y = floats(np.full(len(case["expected"]["y"]), np.nan))
    made, _ = arithmetic(case)
    strides = i.get("strides", [0] * len(operands))
    with openbnns.engine(engine):
        if len(operands) == 2:  # the generic calls reject arithmetic, as noted
            assert capi.BNNSFilterApply(made, operands[0], y) == -1
            assert capi.BNNSFilterApplyTwoInput(made, *operands, y) == -1
            assert np.isnan(y).all()
        succeed(
            capi.BNNSArithmeticFilterApplyBatch(
                made, i.get("batch_size", 1), len(operands), operands, strides, y, len(y) // i.get("batch_size", 1)
            )
        )
    close(y, case, "y")


@observed("arithmetic_add_backward")
def test_arithmetic_backward(case: dict[str, Any], engine: str) -> None:
    i = case["inputs"]
    made, t = arithmetic(case)
    da, db = floats([np.nan] * 3), floats([np.nan] * 3)
    with openbnns.engine(engine):
        succeed(
            capi.BNNSArithmeticFilterApplyBackwardBatch(
                made, i["batch_size"], 2, i["in"], None, [t.descriptor(da), t.descriptor(db)], [0, 0], i["out"], 0,
                t.descriptor(floats(i["dy"])), 0,
            )
        )  # fmt: skip
    close(da, case, "da")
    close(db, case, "db")


@observed("layernorm_forward", "layernorm_backward")
def test_normalization(case: dict[str, Any], engine: str) -> None:
    i, setup = case["inputs"], setup_of(case)
    sample = tensor(setup["i"])
    p = capi.BNNSLayerParametersNormalization(
        i_desc=sample.descriptor(), o_desc=sample.descriptor(), epsilon=setup["epsilon"],
        normalization_axis=setup["normalization_axis"],
    )  # fmt: skip
    made = created(capi.BNNSFilterCreateLayerNormalization(capi.BNNSFilterType[f"BNNS{setup['type']}"], p))
    x, y = floats(i["x"]), floats(np.full(len(i["x"]), np.nan))
    training = i.get("training", i.get("forward_training"))
    with openbnns.engine(engine):
        assert capi.BNNSFilterApply(made, x, y) == -1  # as noted
        succeed(capi.BNNSNormalizationFilterApplyBatch(made, 1, x, 0, y, 0, training))
        if not training:
            close(y, case, "y")
            return
        dx = floats(np.full(len(i["x"]), np.nan))
        succeed(
            capi.BNNSNormalizationFilterApplyBackwardBatch(
                made, 1, sample.descriptor(dx), 0, None, 0, sample.descriptor(floats(i["dy"])), 0, None, None
            )
        )
    close(dx, case, "dx")


def pooling(case: dict[str, Any]) -> Any:
    setup = setup_of(case)
    p = capi.BNNSLayerParametersPooling(
        i_desc=tensor(setup["i"]).descriptor(), o_desc=tensor(setup["o"]).descriptor(),
        pooling_function=capi.BNNSPoolingFunction[f"BNNSPoolingFunction{setup['function']}"],
        k_width=setup["kernel"][0], k_height=setup["kernel"][1], x_stride=setup["stride"][0], y_stride=setup["stride"][1],
        x_padding=setup.get("padding", [0, 0])[0], y_padding=setup.get("padding", [0, 0])[1],
    )  # fmt: skip
    return created(capi.BNNSFilterCreateLayerPooling(p))


@observed("avgpool_include_padding")
def test_pooling(case: dict[str, Any], engine: str) -> None:
    y = floats(np.full(len(case["expected"]["y"]), np.nan))
    with openbnns.engine(engine):
        succeed(capi.BNNSFilterApply(pooling(case), floats(case["inputs"]["x"]), y))
    close(y, case, "y")


@observed("maxpool_indices")
def test_pooling_indices(case: dict[str, Any], engine: str) -> None:
    i, count = case["inputs"], len(case["expected"]["y"])
    y, indices = floats(np.full(count, np.nan)), np.full(count, 99, np.uint64)
    with openbnns.engine(engine):
        succeed(
            capi.BNNSPoolingFilterApplyBatch(
                pooling(case),
                i["batch_size"],
                floats(i["x"]),
                i["in_stride"],
                y,
                i["out_stride"],
                indices,
                i["idx_stride"],
            )
        )
    close(y, case, "y")
    close(indices, case, "indices")


@observed("maxpool_backward")
def test_pooling_backward(case: dict[str, Any], engine: str) -> None:
    i, setup = case["inputs"], setup_of(case)
    dx = floats(np.full(len(case["expected"]["dx"]), np.nan))
    with openbnns.engine(engine):
        succeed(
            capi.BNNSPoolingFilterApplyBackwardBatch(
                pooling(case), i["batch_size"], floats(i["x"]), 0, tensor(setup["i"]).descriptor(dx), 0, i["out"], 0,
                tensor(setup["o"]).descriptor(floats(i["dy"])), 0, None, np.array(i["indices"], np.uint64), 0,
            )
        )  # fmt: skip
    close(dx, case, "dx")


@observed("dropout_half")
def test_dropout(case: dict[str, Any], engine: str) -> None:
    """Each output is 0 or x / (1 - rate), and two applies differ."""
    setup, x = setup_of(case), floats(case["inputs"]["x"])
    described = tensor(setup["i"])
    p = capi.BNNSLayerParametersDropout(
        i_desc=described.descriptor(), o_desc=described.descriptor(), rate=setup["rate"], seed=setup["seed"],
        control=setup["control"],
    )  # fmt: skip
    made = created(capi.BNNSFilterCreateLayerDropout(p))
    results = [floats(np.full(x.size, np.nan)) for _ in range(2)]
    with openbnns.engine(engine):
        for y in results:
            succeed(capi.BNNSFilterApply(made, x, y))
    for y in results:
        assert np.all((y == 0) | (np.abs(y - x / (1 - setup["rate"])) <= case["tol"]))
    assert np.any(results[0] != results[1])


@observed("embedding_first_major", "embedding_last_major", "embedding_inf_norm")
def test_embedding(case: dict[str, Any], engine: str) -> None:
    i, setup = case["inputs"], setup_of(case)
    y = floats(np.full(len(case["expected"]["y"]), np.nan))
    p = capi.BNNSLayerParametersEmbedding(
        i_desc=replace(tensor(setup["i"]), data_type=INT32).descriptor(),
        o_desc=tensor(setup["o"]).descriptor(),
        dictionary=tensor(setup["dictionary"]).descriptor(floats(i["dictionary"])),
        padding_idx=2**64 - 1 if setup["padding_idx"] == "SIZE_MAX" else setup["padding_idx"],
        max_norm=setup["max_norm"],
        norm_type=np.inf if setup.get("norm") == "infinity" else 0.0,
    )
    with openbnns.engine(engine):
        made = created(capi.BNNSFilterCreateLayerEmbedding(p))
        succeed(capi.BNNSFilterApply(made, np.array(i["indices"], np.int32), y))
    close(y, case, "y")


@observed("quantize", "dequantize")
def test_quantizer(case: dict[str, Any], engine: str) -> None:
    i, setup = case["inputs"], setup_of(case)
    kinds = [capi.BNNSDataType[f"BNNSDataType{setup[name]}"] for name in ("i_type", "o_type")]
    tensors = [vector(len(i["x"]), data_type=kind) for kind in kinds]
    x, y = (np.zeros(t.count, t.dtype) for t in tensors)
    x[:] = i["x"]
    p = capi.BNNSLayerParametersQuantization(
        axis_mask=setup["axis_mask"], function=capi.BNNSQuantizerFunction[f"BNNSQuantizerFunction{setup['function']}"],
        i_desc=tensors[0].descriptor(x), o_desc=tensors[1].descriptor(y),
        scale=vector(1).descriptor(floats(i["scale"])), bias=vector(1).descriptor(floats(i["bias"])),
    )  # fmt: skip
    with openbnns.engine(engine):
        succeed(capi.BNNSDirectApplyQuantizer(p, None, 1, 0, 0))
    close(y, case, "y")


def product_layer(case: dict[str, Any]) -> Any:
    setup = setup_of(case)
    tensors = {name: tensor(setup[name]).descriptor() for name in ("a", "b", "i", "o") if name in setup}
    if setup["layer"] == "Gram":
        p: Any = capi.BNNSLayerParametersGram(alpha=setup["alpha"], i_desc=tensors["i"], o_desc=tensors["o"])
        return created(capi.BNNSFilterCreateLayerGram(p))
    fields = {"alpha": setup.get("alpha", 1.0), "beta": setup.get("beta", 0.0), "iA_desc": tensors["a"]}
    if setup["layer"] == "TensorContraction":
        p = capi.BNNSLayerParametersTensorContraction(operation=setup["operation"], o_desc=tensors["o"], **fields)
        return created(capi.BNNSFilterCreateLayerTensorContraction(p))
    p = capi.BNNSLayerParametersBroadcastMatMul(iB_desc=tensors["b"], o_desc=tensors["o"], **fields)
    return created(capi.BNNSFilterCreateLayerBroadcastMatMul(p))


@observed("gram", "contraction_transpose", "matmul_layer")
def test_products(case: dict[str, Any], engine: str) -> None:
    i, y = case["inputs"], floats(np.full(len(case["expected"]["y"]), np.nan))
    with openbnns.engine(engine):
        if "x" in i:
            succeed(capi.BNNSFilterApply(product_layer(case), floats(i["x"]), y))
        else:
            succeed(capi.BNNSFilterApplyTwoInput(product_layer(case), floats(i["a"]), floats(i["b"]), y))
    close(y, case, "y")


@observed("matmul_backward")
def test_product_backward(case: dict[str, Any], engine: str) -> None:
    i, setup = case["inputs"], setup_of(case)
    memory = {name: floats(np.full(len(values), np.nan)) for name, values in case["expected"].items()}
    da, db = (tensor(setup[key]).descriptor(memory[f"d{key}"]) for key in ("a", "b"))
    dy = tensor(setup["o"]).descriptor(floats(i["dy"]))
    with openbnns.engine(engine):
        succeed(
            capi.BNNSFilterApplyBackwardTwoInputBatch(
                product_layer(case), 1, floats(i["a"]), 0, da, 0, floats(i["b"]), 0, db, 0, None, 0, dy, 0, None, None
            )
        )
    for name, values in memory.items():
        close(values, case, name)


def fused(case: dict[str, Any]) -> tuple[Any, Tensor]:
    """A fully connected or an addition layer, then batch normalization."""
    setup = setup_of(case)
    inputs = case["inputs"] if "weights" in case["inputs"] or "beta" in case["inputs"] else None
    inputs = inputs or OBSERVED[case["setup"]["same_as"]]["inputs"]
    t = tensor(setup["i"])
    count = t.count
    norm = capi.BNNSLayerParametersNormalization(
        i_desc=t.descriptor(), o_desc=t.descriptor(), beta_desc=vector(count).descriptor(floats(inputs["beta"])),
        gamma_desc=vector(count).descriptor(floats(inputs["gamma"])), epsilon=setup["epsilon"],
    )  # fmt: skip
    if setup["layers"][0] == "FullyConnected":
        w = Tensor(capi.BNNSDataLayoutRowMajorMatrix, (count, count)).descriptor(floats(inputs["weights"]))
        first: Any = capi.BNNSLayerParametersFullyConnected(
            i_desc=t.descriptor(), o_desc=t.descriptor(), w_desc=w, bias=t.descriptor(floats(inputs["bias"]))
        )
        kind = capi.BNNSFullyConnected
    else:
        a, b, y = (capi.BNNSDescriptorType[f"BNNS{role}"] for role in setup["roles"])
        block = capi.BNNSArithmeticBinary(
            in1=t.descriptor(), in1_type=a, in2=t.descriptor(), in2_type=b, out=t.descriptor(), out_type=y
        )
        first = capi.BNNSLayerParametersArithmetic(
            arithmetic_function=capi.BNNSArithmeticAdd, arithmetic_function_fields=block
        )
        kind = capi.BNNSArithmetic
    return created(capi.BNNSFilterCreateFusedLayer(2, [kind, capi.BNNSBatchNorm], [first, norm])), t


def fused_forward(made: Any, i: dict[str, Any], y: Any) -> None:
    if "x" in i:
        succeed(capi.BNNSFusedFilterApplyBatch(made, i["batch_size"], floats(i["x"]), 2, y, 2, True))
    else:
        operands = [floats(i["a"]), floats(i["b"])]
        succeed(capi.BNNSFusedFilterApplyMultiInputBatch(made, i["batch_size"], 2, operands, [2, 2], y, 2, True))


@observed("fused_fc_bn_forward", "fused_add_bn")
def test_fused(case: dict[str, Any], engine: str) -> None:
    y = floats(np.full(4, np.nan))
    with openbnns.engine(engine):
        fused_forward(fused(case)[0], case["inputs"], y)
    close(y, case, "y")


@observed("fused_fc_bn_backward", "fused_add_bn_backward")
def test_fused_backward(case: dict[str, Any], engine: str) -> None:
    i = case["inputs"]
    memory = {name: floats(np.full(len(values), np.nan)) for name, values in case["expected"].items()}
    with openbnns.engine(engine):
        made, t = fused(case)
        fused_forward(made, i, floats([np.nan] * 4))
        delta = {name: vector(2).descriptor(memory[name]) for name in memory}
        dy = t.descriptor(floats(i["dy"]))
        if "x" in i:
            delta["dw"] = Tensor(capi.BNNSDataLayoutRowMajorMatrix, (2, 2)).descriptor(memory["dw"])
            slots = [delta[name] for name in ("dw", "db", "dbeta", "dgamma")]
            succeed(
                capi.BNNSFusedFilterApplyBackwardBatch(
                    made, i["batch_size"], floats(i["x"]), 2, delta["dx"], 2, None, 0, dy, 2, slots
                )
            )
        else:
            slots = [delta["dbeta"], delta["dgamma"]]
            succeed(
                capi.BNNSFusedFilterApplyBackwardMultiInputBatch(
                    made, i["batch_size"], 2, [floats(i["a"]), floats(i["b"])], [2, 2], [delta["da"], delta["db"]], [2, 2],
                    None, 0, dy, 2, slots,
                )
            )  # fmt: skip
    for name, values in memory.items():
        close(values, case, name)
