"""Values seen on real hardware or printed by the vendor, on both engines, fast and exact: moves, LSTM, optimizers, functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns
from cases._base import created, succeed
from cases.observed import OBSERVED, close, floats, indices_of, observed, setup_of, tensor
from helpers import FLOAT32, INT32, vector
from openbnns import capi

pytestmark = pytest.mark.usefixtures("accuracy")


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


@observed("knn")
def test_nearest_neighbors(case: dict[str, Any], engine: str) -> None:
    setup, samples = case["setup"], floats(case["inputs"]["samples"])
    features, neighbors = setup["n_features"], setup["n_neighbors"]
    indices, distances = np.zeros(neighbors, np.int32), floats(np.zeros(neighbors))
    with openbnns.engine(engine):
        store = capi.BNNSCreateNearestNeighbors(samples.size // features, features, neighbors, FLOAT32)
        succeed(capi.BNNSNearestNeighborsLoad(store, samples.size // features, samples))
        succeed(capi.BNNSNearestNeighborsGetInfo(store, setup["sample_number"], indices, distances))
    close(indices, case, "indices")
    close(distances, case, "distances")


@observed("sparse_fc_coo")
def test_sparse_weights(case: dict[str, Any], engine: str) -> None:
    setup, inputs = setup_of(case), case["inputs"]
    y, weights = floats(np.full(8, np.nan)), capi.BNNSNDArrayDescriptor()
    places = replace(tensor(setup["indices_layout"]), data_type=INT32).descriptor(np.array(inputs["indices"], np.int32))
    numbers = vector(len(inputs["values"])).descriptor(floats(inputs["values"]))
    with openbnns.engine(engine):
        dense = tensor(setup["dense"]).descriptor()
        succeed(capi.BNNSNDArrayFullyConnectedSparsifySparseCOO(dense, places, numbers, weights, None, 0, None, 0))
        p = capi.BNNSLayerParametersFullyConnected(
            i_desc=vector(8).descriptor(), o_desc=vector(8).descriptor(), w_desc=weights
        )
        succeed(capi.BNNSFilterApply(created(capi.BNNSFilterCreateLayerFullyConnected(p)), floats(inputs["x"]), y))
    close(y, case, "y")
