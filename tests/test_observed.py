"""Values seen on real hardware or printed by the vendor (tests/data/observed_cases.json), on both engines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns
from cases._base import Act, created, succeed
from helpers import FLOAT32, INT32, VECTOR, Tensor, vector
from openbnns import capi

OBSERVED = {
    case["id"]: case
    for case in json.loads((Path(__file__).parent / "data" / "observed_cases.json").read_text(encoding="utf-8"))[
        "cases"
    ]
}

# Tested here, with the rows that they prove.
HERE = {
    "fc_forward": ("fc.fwd", "fn.BNNSFilterApply"),
    "fc_forward_2": ("fc.fwd",),
    "fc_batch_stride0": ("fc.fwd", "core.stride.batch_zero"),
    "fc_batch_stride3": ("fc.fwd", "core.stride.batch_elements"),
    "fc_backward": ("fc.bwd.dx", "fc.bwd.dw", "fc.bwd.db", "core.grad.batch_sum"),
    "conv_2x2_ones": ("conv.fwd",),
    "transposed_conv_1x1": ("tconv.fwd",),
    "activation_convert": ("act.convert", "core.type.round_even"),
    "leaky_relu": ("act.LeakyRectifiedLinear.fwd", "act.direct"),
    "clamp": ("act.Clamp.fwd",),
    "get_pointer_alpha": ("act.getpointer",),
    "arithmetic_add": ("arith.Add.fwd", "arith.generic_reject"),
    "arithmetic_add_backward": ("arith.Add.bwd",),
    "arithmetic_square": ("arith.Square.fwd",),
    "fused_fc_bn_forward": ("fused.fc_norm.fwd", "fused.inputs1.fwd", "fn.BNNSFusedFilterApplyBatch"),
    "fused_fc_bn_backward": ("fused.fc_norm.bwd", "fused.param_order", "fn.BNNSFusedFilterApplyBackwardBatch"),
    "fused_add_bn": ("fused.arith_norm.fwd", "fused.inputs2.fwd", "fn.BNNSFusedFilterApplyMultiInputBatch"),
    "fused_add_bn_backward": (
        "fused.arith_norm.bwd",
        "fused.inputs2.bwd",
        "fn.BNNSFusedFilterApplyBackwardMultiInputBatch",
    ),
    "maxpool_indices": ("pool.Max.fwd", "pool.idx_size_t", "fn.BNNSPoolingFilterApplyBatch"),
    "maxpool_backward": ("pool.Max.bwd", "pool.idx_size_t", "fn.BNNSPoolingFilterApplyBackwardBatch"),
    "gram": ("gram.fwd", "fn.BNNSFilterCreateLayerGram"),
    "matmul_layer": ("matmul.fwd", "fn.BNNSFilterApplyTwoInput"),
    "matmul_backward": ("matmul.dA", "matmul.dB", "fn.BNNSFilterApplyBackwardTwoInputBatch"),
    "matmul_direct": ("direct.matmul", "direct.matmul.old"),
    "matmul_direct_transA": ("direct.matmul",),
    "matmul_direct_broadcast": ("direct.matmul",),
    "contraction_transpose": ("contract.permute",),
    "avgpool_include_padding": ("pool.AverageCountIncludePadding.fwd", "pool.generic_apply", "pool.padding"),
    "layernorm_forward": ("norm.layer.infer", "norm.layer.axis0", "fn.BNNSNormalizationFilterApplyBatch"),
    "layernorm_backward": ("norm.layer.dx", "norm.layer.train", "fn.BNNSNormalizationFilterApplyBackwardBatch"),
    "dropout_half": ("dropout.fwd", "dropout.seed", "fn.BNNSFilterCreateLayerDropout"),
    "embedding_first_major": ("embed.fwd", "fn.BNNSFilterCreateLayerEmbedding"),
    "embedding_last_major": ("embed.fwd", "embed.padding"),
    "embedding_inf_norm": ("embed.maxnorm",),
    "permute_forward": ("permute.fwd", "fn.BNNSFilterCreateLayerPermute"),
    "permute_backward": ("permute.bwd", "fn.BNNSPermuteFilterApplyBackwardBatch"),
    "padding_constant": ("pad.Constant.fwd", "fn.BNNSFilterCreateLayerPadding"),
    "resize_nearest_2x": ("resize.Nearest.fwd", "fn.BNNSFilterCreateLayerResize"),
    "crop_resize": ("direct.cropresize", "crop.sampling.OffsetCorners", "crop.box.CenterSizeWidthFirst"),
    "lstm_scalar": ("lstm.cell", "fn.BNNSDirectApplyLSTMBatchTrainingCaching"),
    "lstm_scalar_backward": ("lstm.bwd.dx", "lstm.bwd.dW_input", "fn.BNNSDirectApplyLSTMBatchBackward"),
    "quantize": ("quant.Quantize", "fn.BNNSDirectApplyQuantizer"),
    "dequantize": ("quant.Dequantize", "fn.BNNSDirectApplyQuantizer"),
    "sgd_plain": ("opt.SGDMomentum",),
    "sgd_variant1_two_steps": ("opt.sgd.v1.plain",),
    "clip_value": ("direct.clip.value",),
    "clip_norm": ("direct.clip.norm",),
    "clip_norm_inside": ("direct.clip.norm",),
    "clip_global": ("direct.clip.global",),
    "clip_global_use_norm": ("direct.clip.global",),
    "compute_norm_axis0": ("direct.norm.l2",),
    "compute_norm_axis1": ("direct.norm.l2",),
    "compute_norm_backward": ("direct.norm.l2.bwd",),
    "compare_greater": ("compare.Greater",),
    "tile_reversed_axes": ("direct.tile",),
    "tile_workaround": ("direct.tile",),
    "tile_backward": ("direct.tile.bwd",),
    "gather_rows": ("direct.gather",),
    "gather_cols": ("direct.gather",),
    "scatter_sum": ("direct.scatter",),
    "scatter_rows": ("direct.scatter",),
    "gather_nd_elements": ("direct.gathernd",),
    "gather_nd_rows": ("direct.gathernd",),
    "scatter_nd_rows": ("direct.scatternd",),
    "band_part": ("direct.bandpart",),
    "pixel_shuffle": ("shuffle.PixelShuffleNCHW",),
    "reduction_sum": ("reduce.Sum.fwd",),
    "reduction_max_width": ("reduce.Max.fwd",),
}

# Families that are not built yet; each moves up when its family arrives.
LATER = {
    "loss": ["mse_none", "mse_none_backward", "mse_sum", "mse_mean"],
    "attention": ["mha_scalar", "mha_scalar_backward"],
    "direct functions": [
        "knn",
        "sparse_fc_coo",
    ],
}


def test_every_observed_case_has_a_place() -> None:
    later = [name for names in LATER.values() for name in names]
    assert sorted([*HERE, *later]) == sorted(OBSERVED)


def observed(*names: str) -> Any:
    """Parametrises a test over observed cases and engines."""
    marked = [pytest.param(OBSERVED[name], id=name, marks=pytest.mark.covers(*HERE[name])) for name in names]

    def decorate(test: Any) -> Any:
        return pytest.mark.parametrize("engine", ["native", "reference"])(pytest.mark.parametrize("case", marked)(test))

    return decorate


def setup_of(case: dict[str, Any]) -> dict[str, Any]:
    setup: dict[str, Any] = case["setup"]
    return setup_of(OBSERVED[setup["same_as"]]) if "same_as" in setup else setup


def floats(numbers: Any) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.float32)


def tensor(description: dict[str, Any]) -> Tensor:
    return Tensor(capi.BNNSDataLayout[description["layout"]], tuple(description["size"]))


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


def close(actual: Any, case: dict[str, Any], name: str) -> None:
    np.testing.assert_allclose(actual, case["expected"][name], rtol=0, atol=case["tol"])


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


def moved(case: dict[str, Any]) -> Any:
    """A permute, padding or resize filter."""
    setup = setup_of(case)
    fields: dict[str, Any] = {"i_desc": tensor(setup["i"]).descriptor(), "o_desc": tensor(setup["o"]).descriptor()}
    if setup["layer"] == "Permute":
        fields["permutation"] = setup["permutation"]
    elif setup["layer"] == "Padding":
        bits = floats([setup["padding_value_bits_of_float"]]).view(np.uint32)
        fields |= {"padding_size": setup["padding_size"], "padding_value": int(bits[0])}
        fields["padding_mode"] = capi.BNNSPaddingMode[f"BNNSPaddingMode{setup['mode']}"]
    else:
        fields["method"] = capi.BNNSInterpolationMethod[f"BNNSInterpolationMethod{setup['method']}"]
    struct = getattr(capi, f"BNNSLayerParameters{setup['layer']}")
    return created(getattr(capi, f"BNNSFilterCreateLayer{setup['layer']}")(struct(**fields)))


@observed("permute_forward", "padding_constant", "resize_nearest_2x")
def test_moved(case: dict[str, Any], engine: str) -> None:
    y = floats(np.full(len(case["expected"]["y"]), np.nan))
    with openbnns.engine(engine):
        succeed(capi.BNNSFilterApply(moved(case), floats(case["inputs"]["x"]), y))
    close(y, case, "y")


@observed("permute_backward")
def test_permute_backward(case: dict[str, Any], engine: str) -> None:
    setup = setup_of(case)
    dx = floats(np.full(len(case["expected"]["dx"]), np.nan))
    deltas = [tensor(setup["i"]).descriptor(dx), tensor(setup["o"]).descriptor(floats(case["inputs"]["dy"]))]
    with openbnns.engine(engine):
        succeed(capi.BNNSPermuteFilterApplyBackwardBatch(moved(case), 1, deltas[0], 0, deltas[1], 0))
    close(dx, case, "dx")


@observed("crop_resize")
def test_crop_resize(case: dict[str, Any], engine: str) -> None:
    i, setup = case["inputs"], setup_of(case)
    y = floats(np.full(len(case["expected"]["y"]), np.nan))
    p = capi.BNNSLayerParametersCropResize(
        normalized_coordinates=setup["normalized"], spatial_scale=setup["spatial_scale"],
        extrapolation_value=setup["extrapolation"],
        sampling_mode=capi.BNNSLinearSamplingMode[f"BNNSLinearSampling{setup['sampling']}"],
        box_coordinate_mode=capi.BNNSBoxCoordinateMode[f"BNNS{setup['box']}"], method=capi.BNNSInterpolationMethodLinear,
    )  # fmt: skip
    x, roi = (tensor(setup[name]).descriptor(floats(i[key])) for name, key in (("i", "x"), ("roi", "roi")))
    with openbnns.engine(engine):
        succeed(capi.BNNSCropResize(p, x, roi, tensor(setup["o"]).descriptor(y)))
    close(y, case, "y")


def scalar_lstm(case: dict[str, Any], memory: dict[str, np.ndarray[Any, Any]]) -> capi.BNNSLayerParametersLSTM:
    """An LSTM of one unit; ``memory`` has the data of x, y, h1, c1 and of a weight per gate."""

    def at(name: str) -> capi.BNNSNDArrayDescriptor:
        return capi.BNNSNDArrayDescriptor(data=memory.get(name), data_type=FLOAT32)

    gates = {
        f"{gate}_gate": capi.BNNSLSTMGateDescriptor(iw_desc=(at(f"w_{gate}"),), hw_desc=at(f"u_{gate}"))
        for gate in ("input", "forget", "candidate", "output")
    }
    setup = setup_of(case)
    return capi.BNNSLayerParametersLSTM(
        input_size=setup["input_size"], hidden_size=setup["hidden_size"], batch_size=setup["batch"],
        num_layers=setup["layers"], seq_len=setup["seq"], lstm_flags=capi.BNNSLayerFlagsLSTMDefaultActivations,
        input_descriptor=capi.BNNSLSTMDataDescriptor(data_desc=at("x")),
        output_descriptor=capi.BNNSLSTMDataDescriptor(data_desc=at("y"), hidden_desc=at("h1"), cell_state_desc=at("c1")),
        **gates,
    )  # fmt: skip


def scalar_lstm_inputs() -> dict[str, np.ndarray[Any, Any]]:
    gates = ("input", "forget", "candidate", "output")
    inputs = OBSERVED["lstm_scalar"]["inputs"]
    memory = {name: floats([inputs[name]]) for name in ("x", *(f"w_{gate}" for gate in gates))}
    return memory | {f"u_{gate}": floats([0.0]) for gate in gates}


@observed("lstm_scalar")
def test_lstm(case: dict[str, Any], engine: str) -> None:
    memory = scalar_lstm_inputs() | {name: floats([np.nan]) for name in ("y", "h1", "c1")}
    with openbnns.engine(engine):
        succeed(capi.BNNSDirectApplyLSTMBatchTrainingCaching(scalar_lstm(case, memory), None, None, 0))
    close(memory["h1"], case, "h1")
    close(memory["y"], case, "h1")
    close(memory["c1"], case, "c1")


@observed("lstm_scalar_backward")
def test_lstm_backward(case: dict[str, Any], engine: str) -> None:
    i = case["inputs"]
    params = scalar_lstm(case, scalar_lstm_inputs())
    expected = case["expected"]
    results = {name: floats([np.nan]) for name in ("x", "w_input", "w_forget", "w_candidate", "w_output")}
    arriving = {"y": floats([i["dy"]]), "h1": floats([i["dh"]]), "c1": floats([i["dc"]])}
    with openbnns.engine(engine):
        delta = scalar_lstm(case, results | arriving)
        succeed(capi.BNNSDirectApplyLSTMBatchBackward(params, delta, None, None, 0))
    for name, values in results.items():
        np.testing.assert_allclose(values, [expected[f"d{name}"]], rtol=0, atol=case["tol"])


@observed("sgd_plain", "sgd_variant1_two_steps")
def test_optimizer(case: dict[str, Any], engine: str) -> None:
    setup, i = setup_of(case), case["inputs"]
    p = capi.BNNSOptimizerSGDMomentumFields(
        learning_rate=setup["learning_rate"],
        momentum=setup["momentum"],
        gradient_scale=setup["gradient_scale"],
        sgd_momentum_variant=setup["variant"],
    )
    w, g = floats(i["w"]), floats(i["g"])
    v = None if "v" not in i else floats(i["v"])
    states = None if v is None else [vector(v.size).descriptor(v)]
    steps = [case["expected"]] if v is None else [case["expected"]["step1"], case["expected"]["step2"]]
    for expected in steps:
        with openbnns.engine(engine):
            t = vector(w.size)
            succeed(capi.BNNSOptimizerStep(1, p, 1, [t.descriptor(w)], [t.descriptor(g)], states))
        np.testing.assert_allclose(w, expected["w"], rtol=0, atol=case["tol"])
        if v is not None:
            np.testing.assert_allclose(v, expected["v"], rtol=0, atol=case["tol"])


@observed("clip_value", "clip_norm", "clip_norm_inside")
def test_clip(case: dict[str, Any], engine: str) -> None:
    i = case["inputs"]
    x, y = floats(i["x"]), floats(np.full(len(i["x"]), np.nan))
    d, s = vector(x.size).descriptor(y), vector(x.size).descriptor(x)
    with openbnns.engine(engine):
        if "min" in i:
            succeed(capi.BNNSClipByValue(d, s, i["min"], i["max"]))
        else:
            succeed(capi.BNNSClipByNorm(d, s, i["max_norm"], i["axis_flags"]))
    close(y, case, "y")


@observed("clip_global", "clip_global_use_norm")
def test_clip_global(case: dict[str, Any], engine: str) -> None:
    i = case["inputs"]
    xs = [floats(x) for x in i["x"]]
    ys = [np.full_like(x, np.nan) for x in xs]
    described = [[vector(a.size).descriptor(a) for a in group] for group in (ys, xs)]
    with openbnns.engine(engine):
        succeed(capi.BNNSClipByGlobalNorm(*described, len(xs), i["max_norm"], i["use_norm"]))
    for y, expected in zip(ys, case["expected"]["y"], strict=True):
        np.testing.assert_allclose(y, expected, rtol=0, atol=case["tol"])


@observed("compute_norm_axis0", "compute_norm_axis1")
def test_norm(case: dict[str, Any], engine: str) -> None:
    i, y = case["inputs"], floats(np.full(2, np.nan))
    src = tensor(setup_of(case)["src"]).descriptor(floats(i["x"]))
    with openbnns.engine(engine):
        succeed(capi.BNNSComputeNorm(vector(2).descriptor(y), src, capi.BNNSL2Norm, i["axis_flags"]))
    close(y, case, "y")


@observed("compute_norm_backward")
def test_norm_backward(case: dict[str, Any], engine: str) -> None:
    i, dx = case["inputs"], floats(np.full(2, np.nan))
    with openbnns.engine(engine):
        succeed(
            capi.BNNSComputeNormBackward(
                floats(i["x"]), vector(2).descriptor(dx), floats(i["y"]), vector(1).descriptor(floats(i["dy"])),
                capi.BNNSL2Norm, 0,
            )
        )  # fmt: skip
    close(dx, case, "dx")


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


@observed("matmul_direct", "matmul_direct_transA", "matmul_direct_broadcast")
def test_direct_products(case: dict[str, Any], engine: str) -> None:
    i, setup = case["inputs"], setup_of(case)
    y = floats(np.full(len(case["expected"]["y"]), np.nan))
    a, b = (tensor(setup[key]).descriptor(floats(i[key])) for key in ("a", "b"))
    o = tensor(setup["o"]).descriptor(y)
    options = (setup.get("transA", False), setup.get("transB", False), setup["alpha"])
    with openbnns.engine(engine):
        assert capi.BNNSMatMulWorkspaceSize(*options, a, b, o, None) >= 0
        succeed(capi.BNNSMatMul(*options, a, b, o, None, None))
        close(y, case, "y")
        y[:] = np.nan
        capi.BNNSDirectApplyBroadcastMatMul(*options, a, b, o)
    close(y, case, "y")


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


@observed("reduction_sum", "reduction_max_width")
def test_reduction(case: dict[str, Any], engine: str) -> None:
    setup, y = setup_of(case), floats(np.full(len(case["expected"]["y"]), np.nan))
    p = capi.BNNSLayerParametersReduction(
        i_desc=tensor(setup["i"]).descriptor(), o_desc=tensor(setup["o"]).descriptor(),
        reduce_func=capi.BNNSReduceFunction[f"BNNSReduceFunction{setup['function']}"],
    )  # fmt: skip
    with openbnns.engine(engine):
        succeed(capi.BNNSFilterApply(created(capi.BNNSFilterCreateLayerReduction(p)), floats(case["inputs"]["x"]), y))
    close(y, case, "y")


def indices_of(case: dict[str, Any]) -> Any:
    numbers = np.array(case["inputs"]["indices"], np.int32)
    described = setup_of(case).get("idx")
    t = vector(numbers.size) if described is None else tensor(described)
    return replace(t, data_type=INT32).descriptor(numbers)


@observed("gather_rows", "gather_cols", "gather_nd_elements", "gather_nd_rows")
def test_gather(case: dict[str, Any], engine: str) -> None:
    setup, y = setup_of(case), floats(np.full(len(case["expected"]["y"]), np.nan))
    x, out = tensor(setup["i"]).descriptor(floats(case["inputs"]["x"])), tensor(setup["o"]).descriptor(y)
    with openbnns.engine(engine):
        if "axis" in setup:
            succeed(capi.BNNSGather(setup["axis"], x, indices_of(case), out))
        else:
            succeed(capi.BNNSGatherND(x, indices_of(case), out))
    close(y, case, "y")


@observed("scatter_sum", "scatter_rows", "scatter_nd_rows")
def test_scatter(case: dict[str, Any], engine: str) -> None:
    setup, y = setup_of(case), floats(case["inputs"]["out"])
    x = floats(case["inputs"]["x"])
    source = (tensor(setup["i"]) if "i" in setup else vector(x.size)).descriptor(x)
    out = (tensor(setup["o"]) if "o" in setup else vector(y.size)).descriptor(y)
    op = capi.BNNSReduceFunction[f"BNNSReduceFunction{setup['op']}"]
    with openbnns.engine(engine):
        if "axis" in setup:
            succeed(capi.BNNSScatter(setup["axis"], op, source, indices_of(case), out))
        else:
            succeed(capi.BNNSScatterND(op, source, indices_of(case), out))
    close(y, case, "y")


@observed("tile_reversed_axes", "tile_workaround", "tile_backward", "band_part", "pixel_shuffle")
def test_moves(case: dict[str, Any], engine: str) -> None:
    """Tiling as seen on macOS 15 is behind its switch."""
    setup = setup_of(case)
    name, values = next(iter(case["expected"].items()))
    y, (given,) = floats(np.full(len(values), np.nan)), [v for k, v in case["inputs"].items() if k in ("x", "dy")]
    x = floats(given)
    small = tensor(setup.get("i") or setup["out_delta"]).descriptor(x)
    out = tensor(setup.get("o") or setup.get("in_delta") or setup["i"]).descriptor(y)
    with openbnns.engine(engine), openbnns.compat.using(tile_reversed_axes=True):
        match case["function"]:
            case "BNNSTile":
                succeed(capi.BNNSTile(small, out))
            case "BNNSTileBackward":
                succeed(capi.BNNSTileBackward(out, small))
            case "BNNSBandPart":
                succeed(capi.BNNSBandPart(setup["num_lower"], setup["num_upper"], small, out))
            case _:
                succeed(capi.BNNSShuffle(capi.BNNSShuffleType[f"BNNSShuffleType{setup['type']}"], small, out))
    close(y, case, name)


@observed("compare_greater")
def test_compare(case: dict[str, Any], engine: str) -> None:
    i = case["inputs"]
    a, b, y = floats(i["a"]), floats(i["b"]), np.zeros(len(i["a"]), np.uint8)
    op = capi.BNNSRelationalOperator[f"BNNSRelationalOperator{i['op']}"]
    tensors = [vector(a.size).descriptor(m) for m in (a, b)]
    with openbnns.engine(engine):
        assert capi.BNNSCompareTensor(*tensors, op, vector(a.size).descriptor(floats(i["a"]))) == -1
        boolean = replace(vector(a.size), data_type=capi.BNNSDataTypeBoolean)
        succeed(capi.BNNSCompareTensor(*tensors, op, boolean.descriptor(y)))
    close(y, case, "y")
