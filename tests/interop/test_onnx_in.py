"""ONNX models read by ``nn.from_onnx``: batches, names, what is trained, constants that are computed, whole numbers."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_networks import FLOAT, INT64, RANDOM, by_reference, floats, make, node, write
from openbnns import nn
from openbnns.cli import main
from openbnns.interop.converted.tensors import ForeignTensor
from openbnns.interop.onnx._operator import OPERATORS, Operator
from openbnns.interop.onnx._supported import table

PAGE = Path(__file__).parents[2] / "docs" / "onnx.md"


def test_a_linear_layer(tmp_path: Path) -> None:
    weights = {"fc.weight": floats(4, 3), "fc.bias": floats(4)}
    path = write(
        tmp_path / "m.onnx", [node("Gemm", "x fc.weight fc.bias", "y", transB=1)], {"x": ["N", 3]}, ["y"], weights
    )
    net, x = nn.from_onnx(path), floats(5, 3)
    assert not net.training and dict(net.named_parameters()).keys() == weights.keys()
    np.testing.assert_allclose(net(x), x @ weights["fc.weight"].T + weights["fc.bias"], 1e-5, 1e-5)
    np.testing.assert_array_equal(net.fc.weight.data, weights["fc.weight"])
    nn.Trainer(net, "mse", nn.SGD(0.01), quiet=True).fit(x, floats(5, 4), epochs=1)
    assert not np.array_equal(net.fc.weight.data, weights["fc.weight"])


@pytest.mark.parametrize("first", ["N", 1, 4])
def test_the_batch_is_free(first: Any, tmp_path: Path) -> None:
    """Whatever the file says about it, in shapes that are computed as PyTorch does, and in shapes with its number."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "n", axis=0),
        node("Unsqueeze", "n axis", "n1"),
        node("Concat", "n1 rest", "target", axis=0),
        node("Reshape", "x target", "a"),
        node("Transpose", "a", "b", perm=[1, 0, 2]),
        node("Add", "b shift", "c"),
        node("Transpose", "c", "d", perm=[1, 0, 2]),
        node("Reshape", "d flat", "y"),
    ]
    flat = [-1, 12] if first == "N" else [first, 12]
    weights = {
        "zero": np.int64(0), "axis": np.array([0]), "rest": np.array([2, 6]), "flat": np.array(flat), "shift": floats(2, 1, 6),
    }  # fmt: skip
    path = write(tmp_path / "m.onnx", nodes, {"x": [first, 3, 4]}, ["y"], weights)
    net = nn.from_onnx(path)
    for count in (1, 3, 4):
        x = floats(count, 3, 4)
        expected = (x.reshape(count, 2, 6) + weights["shift"][:, 0]).reshape(count, 12)
        np.testing.assert_allclose(net(x), expected, 1e-6)


def test_a_parameter_is_repeated_for_every_sample(tmp_path: Path) -> None:
    """A class token that PyTorch has written for two samples, and one that it has computed for just these."""
    weights = {"token": floats(1, 1, 4), "tokens": floats(2, 1, 4), "shape": np.array([2, 1, 4])}
    nodes = [node("Expand", "token shape", "e"), node("Concat", "e x", "y", axis=1)]
    path = write(tmp_path / "m.onnx", nodes, {"x": [2, 3, 4]}, ["y"], weights)
    net = nn.from_onnx(path)
    for count in (2, 1, 5):
        x = floats(count, 3, 4)
        token = np.broadcast_to(weights["token"], (count, 1, 4))
        np.testing.assert_array_equal(net(x), np.concatenate([token, x], 1))
    path = write(tmp_path / "m.onnx", [node("Concat", "tokens x", "y", axis=1)], {"x": [2, 3, 4]}, ["y"], weights)
    net, x = nn.from_onnx(path), floats(2, 3, 4)
    np.testing.assert_array_equal(net(x), np.concatenate([weights["tokens"], x], 1))
    with pytest.raises(
        ValueError, match=r"shape \(5, 3, 4\).* takes \(2, 3, 4\).*made for 2 samples.*N is 2 at Concat.*dynamic axes"
    ):
        net(floats(5, 3, 4))


def test_no_axis_is_special(tmp_path: Path) -> None:
    """Operations along the first axis, which is free unless the numbers of the file are to hold."""
    nodes = [
        node("Softmax", "x", "s", axis=0), node("ReduceSum", "s axes", "r", keepdims=0), node("Transpose", "x", "t"),
        node("MatMul", "x t", "p"), node("Concat", "p p", "c", axis=0), node("Slice", "c one far zero", "d"),
        node("Expand", "two wide", "e"), node("Add", "d e", "y"),
    ]  # fmt: skip
    weights = {
        "axes": np.array([0]), "one": np.array([1]), "far": np.array([-1]), "zero": np.array([0]), "two": floats(1, 1),
        "wide": np.array([4, 3]),
    }  # fmt: skip
    path = write(tmp_path / "m.onnx", nodes[:6], {"x": ["N", 4]}, ["r", "d"], weights)
    net = nn.from_onnx(path)
    for count in (3, 2, 5):
        x = floats(count, 4)
        for actual, expected in zip(net(x), by_reference(path, [x]), strict=True):
            np.testing.assert_allclose(actual, expected, 1e-5, 1e-6)
    path = write(tmp_path / "m.onnx", nodes, {"x": [3, 4]}, ["r", "y"], weights)
    net, x = nn.from_onnx(path, batch_axis=None), floats(3, 4)
    for actual, expected in zip(net(x), by_reference(path, [x]), strict=True):
        np.testing.assert_allclose(actual, expected, 1e-5, 1e-6)
    with pytest.raises(ValueError, match=r"m\.onnx: input 'x' has shape \(5, 4\), but the model takes \(3, 4\)"):
        net(floats(5, 4))


def test_another_axis_is_the_batch(tmp_path: Path) -> None:
    weights = {"w": floats(1, 12, 3), "r": floats(1, 12, 3), "b": floats(1, 24)}
    nodes = [node("LSTM", "x w r b", "y h c", hidden_size=3), node("Squeeze", "y axis", "z")]
    weights |= {"axis": np.array([1])}
    path = write(tmp_path / "m.onnx", nodes, {"x": [5, 2, 3]}, ["z", "h"], weights)
    net = nn.from_onnx(path, batch_axis=1)
    for count in (4, 1):
        x = floats(5, count, 3)
        for actual, expected in zip(net(x), by_reference(path, [x]), strict=True):
            np.testing.assert_allclose(actual, expected, 1e-5, 1e-6)
    assert {name.rpartition(".")[2] for name, _ in net.named_parameters()} == {
        "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0",
    }  # fmt: skip


def test_what_is_trained(tmp_path: Path) -> None:
    """Weights are; statistics, single numbers, masks and settings are not."""
    nodes = [
        node("Conv", "x w", "a"),
        node("BatchNormalization", "a scale shift mean var", "b"),
        node("Mul", "b factor", "c"),
        node("Add", "c mask", "d"),
        node("Clip", "d low", "e"),
        node("Constant", "", "k", value=onnx.numpy_helper.from_array(floats(2, 1, 1))),
        node("Mul", "e k", "y"),
    ]
    weights = {
        "w": floats(2, 1, 3, 3), "scale": floats(2), "shift": floats(2), "mean": floats(2), "var": np.abs(floats(2)) + 1,
        "factor": np.float32(2), "mask": np.where(np.eye(2, dtype=bool), 0, -np.inf).astype(np.float32), "low": np.float32(-9),
    }  # fmt: skip
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 1, 4, 4]}, ["y"], weights)
    net, x = nn.from_onnx(path), floats(3, 1, 4, 4)
    assert [name for name, _ in net.named_parameters()] == ["w", "scale", "shift"]
    assert set(net.state_dict()) == {"w", "scale", "shift", "mean", "var"}
    np.testing.assert_allclose(net(x), by_reference(path, [x])[0], 1e-4, 1e-5)
    before = net.state_dict()["mean"].copy()
    net.train()(x)
    assert not np.array_equal(net.state_dict()["mean"], before)


def test_whole_numbers_and_masks(tmp_path: Path) -> None:
    """Tokens are looked up, compared, made a mask; there is no gradient through them."""
    nodes = [
        node("Gather", "table tokens", "a"),
        node("Equal", "tokens zero", "padding"),
        node("Not", "padding", "real"),
        node("Cast", "real", "numbers", to=FLOAT),
        node("ReduceSum", "numbers last", "count", keepdims=1),
        node("Unsqueeze", "numbers axis", "wide"),
        node("Mul", "a wide", "b"),
        node("ReduceSum", "b one", "c", keepdims=0),
        node("Div", "c count", "y"),
    ]
    weights = {
        "table": floats(9, 4), "zero": np.int64(0), "last": np.array([1]), "axis": np.array([2]), "one": np.array([1]),
    }  # fmt: skip
    path = write(tmp_path / "m.onnx", nodes, {"tokens": ["N", 5]}, ["y"], weights, kinds={"tokens": INT64})
    tokens = np.array([[1, 2, 3, 0, 0], [8, 7, 6, 5, 4], [2, 0, 0, 0, 0]])
    net = nn.from_onnx(path)
    np.testing.assert_allclose(net(tokens), by_reference(path, [tokens])[0], 1e-5, 1e-6)
    net.to_onnx(tmp_path / "again.onnx")  # and written once more
    np.testing.assert_allclose(by_reference(tmp_path / "again.onnx", [tokens])[0], net(tokens), 1e-5, 1e-6)
    net.train()(tokens)
    net.backward(np.ones((3, 4), np.float32))
    gradient = net.table.grad
    assert gradient[8].any() and not gradient[0].any()


def test_masks_where_the_batch_is_elsewhere(tmp_path: Path) -> None:
    nodes = [
        node("Transpose", "x", "t", perm=[1, 0, 2]),
        node("Greater", "t limit", "large"),
        node("And", "large mask", "both"),
        node("Where", "both t zero", "w"),
        node("Transpose", "w", "y", perm=[1, 0, 2]),
    ]
    mask = RANDOM.rand(3, 1, 4) > 0.3
    weights = {"limit": floats(4), "mask": mask, "zero": np.float32(0)}
    path, x = write(tmp_path / "m.onnx", nodes, {"x": ["N", 3, 4]}, ["y"], weights), floats(5, 3, 4)
    net = nn.from_onnx(path)
    assert [name for name, _ in net.named_parameters()] == ["limit"]
    np.testing.assert_array_equal(net(x), by_reference(path, [x])[0])
    net.to_onnx(tmp_path / "again.onnx")
    np.testing.assert_array_equal(by_reference(tmp_path / "again.onnx", [x])[0], net(x))


def test_gradients(tmp_path: Path) -> None:
    """Gradients of parameters and inputs, against finite differences."""
    from openbnns import gradcheck

    net, samples = make("expressions")
    net.to_onnx(tmp_path / "m.onnx")
    again = nn.from_onnx(tmp_path / "m.onnx")
    assert gradcheck(again.train(), samples[0]).ok


@pytest.mark.parametrize("ceil", [0, 1])
def test_poolings_of_volumes(ceil: int, tmp_path: Path) -> None:
    """Made of those of planes and lines."""
    from openbnns import gradcheck

    options = {"kernel_shape": [2, 3, 2], "strides": [2, 2, 3], "pads": [1, 0, 1, 0, 1, 0], "ceil_mode": ceil}
    kinds = {"a": "MaxPool", "b": "AveragePool", "c": "LpPool"}
    nodes = [node(op, "x", name, **options) for name, op in kinds.items()]
    nodes.append(node("AveragePool", "x", "d", **options, count_include_pad=1))
    net = nn.from_onnx(write(tmp_path / "m.onnx", nodes, {"x": ["N", 2, 5, 6, 7]}, ["a", "b", "c", "d"]))
    x = floats(3, 2, 5, 6, 7)
    wide = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (1, 0), (0, 1), (1, 0)], constant_values=np.nan)
    over = np.pad(wide, [(0, 0), (0, 0)] + [(0, 9 * ceil)] * 3, constant_values=np.inf)  # what ceil_mode reaches into
    windows = np.lib.stride_tricks.sliding_window_view(over, (2, 3, 2), (2, 3, 4))[:, :, ::2, ::2, ::3]
    sizes = [
        -(-(n - k) // s) + 1 if ceil else (n - k) // s + 1
        for n, k, s in zip(wide.shape[2:], (2, 3, 2), (2, 2, 3), strict=True)
    ]
    windows = windows[:, :, : sizes[0], : sizes[1], : sizes[2]]
    inside = np.where(np.isinf(windows), np.nan, windows)
    axes = (-3, -2, -1)
    counted = (~np.isinf(windows)).sum(axes)
    expected = [
        np.nanmax(inside, axes), np.nanmean(inside, axes), np.sqrt(np.nansum(inside**2, axes)), np.nansum(inside, axes) / counted
    ]  # fmt: skip
    for y, want in zip(net(x), expected, strict=True):
        np.testing.assert_allclose(y, want, 1e-5, 1e-5)
    assert gradcheck(net.train(), x[:1]).ok


def test_diagonals_remainders_and_masks_of_dropout(tmp_path: Path) -> None:
    from openbnns import gradcheck

    divisors = np.float32([np.inf, -2, 0.75, -np.inf, 3])
    nodes = [
        node("Einsum", "s", "a", equation="...ii->...i"), node("Einsum", "s", "b", equation="nii"), node("Mod", "x d", "c"),
        node("Mod", "x d", "e", fmod=1), node("Dropout", "x", "f mask"),
    ]  # fmt: skip
    shapes = {"x": ["N", 5], "s": ["N", 3, 3]}
    net = nn.from_onnx(write(tmp_path / "m.onnx", nodes, shapes, ["a", "b", "c", "e", "f", "mask"], {"d": divisors}))
    x, s = floats(4, 5) * 3, floats(4, 3, 3)
    outputs = net(x, s)
    expected = [s.diagonal(0, 1, 2), s.trace(0, 1, 2), np.mod(x, divisors), np.fmod(x, divisors), x, np.ones((4, 5))]
    for y, want in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(y, want, 1e-5, 1e-5)
    one = nn.from_onnx(write(tmp_path / "one.onnx", nodes[:1] + nodes[4:], shapes, ["a", "f"]))
    assert gradcheck(one.train(), x, s).ok


@pytest.mark.parametrize("opset", [13, 17, 18, 21])
def test_versions_of_operators(opset: int, tmp_path: Path) -> None:
    """Axes are attributes in old models, and inputs in new ones."""
    old = opset < 18
    nodes = [
        node("ReduceMean", "x" if old else "x axes", "m", **({"axes": [2]} if old else {})),
        node("Sub", "x m", "c"),
        node("ReduceSum", "c axes", "s", keepdims=0),
        node("Unsqueeze", "s axes", "u"),
        node("Split", "x", "a b", axis=1, **({} if old else {"num_outputs": 2})),
        node("Add", "x u", "y"),
    ]
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 4, 6]}, ["y", "a"], {"axes": np.array([2])}, opset)
    x = floats(3, 4, 6)
    for actual, expected in zip(nn.from_onnx(path)(x), by_reference(path, [x]), strict=True):
        np.testing.assert_allclose(actual, expected, 1e-5, 1e-5)


@pytest.mark.parametrize("opset", [7, 9, 10, 12])
def test_old_versions_of_operators(opset: int, tmp_path: Path) -> None:
    """Inputs of new versions are attributes, Softmax runs over all axes from one on, and Resize is Upsample."""
    nodes = [
        node("Unsqueeze", "x", "u", axes=[0]), node("Squeeze", "u", "s", axes=[0]),
        node("ReduceSum", "s", "r", axes=[2], keepdims=1), node("Sub", "x r", "c"), node("Softmax", "c", "m"),
        node("Split", "m", "a b", axis=1, split=[1, 3]),
    ]  # fmt: skip
    weights: dict[str, Any] = {}
    if opset < 10:
        nodes.append(node("Slice", "b", "d", starts=[1], ends=[2**31 - 1], axes=[1]))
        weights["scales"] = np.float32([1, 1, 2])
        up = {"scales": [1.0, 1.0, 2.0]} if opset == 7 else {}
        nodes.append(node("Upsample", "d" if opset == 7 else "d scales", "e", mode="nearest", **up))
    else:
        weights |= {
            "one": np.array([1]),
            "far": np.array([2**31 - 1]),
            "scales": np.float32([1, 1, 2]),
            "none": np.float32([]),
        }
        nodes.append(node("Slice", "b one far one", "d"))
        more = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"} if opset > 10 else {}
        nodes.append(node("Resize", "d none scales" if opset > 10 else "d scales", "e", mode="nearest", **more))
    if opset < 11:
        nodes += [node("Pad", "e", "p", pads=[0, 0, 1, 0, 0, 2], value=0.5), node("Clip", "p", "y", min=0.1, max=0.4)]
    else:
        weights |= {
            "pads": np.array([0, 0, 1, 0, 0, 2]),
            "half": np.float32(0.5),
            "low": np.float32(0.1),
            "high": np.float32(0.4),
        }
        nodes += [node("Pad", "e pads half", "p"), node("Clip", "p low high", "y")]
    nodes.append(node("Dropout", "y", "z unused", **({"ratio": 0.3} if opset < 12 else {})))
    path = write(tmp_path / "m.onnx", nodes, {"x": [-1, 4, 5]}, ["z"], weights, opset)
    net, x = nn.from_onnx(path), floats(3, 4, 5)
    centred = np.exp(x - x.sum(2, keepdims=True)).astype(np.float64)
    share = centred / centred.sum((1, 2), keepdims=True)
    wide = np.pad(np.repeat(share[:, 2:], 2, 2), [(0, 0), (0, 0), (1, 2)], constant_values=0.5)
    np.testing.assert_allclose(net(x), wide.clip(0.1, 0.4), 1e-5, 1e-6)


def test_quantized_numbers(tmp_path: Path) -> None:
    nodes = [
        node("DynamicQuantizeLinear", "x", "q scale zero"), node("MatMulInteger", "q w zero wz", "i"),
        node("Cast", "i", "f", to=FLOAT), node("Mul", "scale ws", "both"), node("Mul", "f both", "y"),
        node("QuantizeLinear", "x ws wz", "a"), node("DequantizeLinear", "a ws wz", "b"),
    ]  # fmt: skip
    weights = {"w": RANDOM.randint(0, 255, (5, 3)).astype(np.uint8), "wz": np.uint8(120), "ws": np.float32(0.02)}
    path, x = write(tmp_path / "m.onnx", nodes, {"x": ["N", 5]}, ["y", "b"], weights), floats(4, 5)
    for actual, expected in zip(nn.from_onnx(path)(x), by_reference(path, [x]), strict=True):
        np.testing.assert_allclose(actual, expected, 1e-5, 1e-5)


def test_elements_by_computed_numbers(tmp_path: Path) -> None:
    nodes = [
        node("TopK", "x k", "v i", axis=1), node("GatherElements", "x i", "g", axis=1), node("Gather", "x row", "r", axis=1),
        node("ScatterElements", "x i v", "s", axis=1, reduction="add"), node("ArgMax", "x", "row", axis=1, keepdims=0),
        node("Conv", "image kernel", "c"), node("Mul", "w two", "kernel"),
    ]  # fmt: skip
    nodes = [nodes[i] for i in (4, 0, 1, 2, 3, 6, 5)]
    weights = {"k": np.array([3]), "w": floats(2, 1, 3, 3, 3), "two": np.float32(2)}
    shapes = {"x": ["N", 6], "image": ["N", 1, "D", 5, 4]}
    path = write(tmp_path / "m.onnx", nodes, shapes, ["v", "g", "r", "s", "c"], weights)
    x, image = floats(4, 6), floats(4, 1, 7, 5, 4)
    for actual, expected in zip(nn.from_onnx(path)(x, image), by_reference(path, [x, image]), strict=True):
        np.testing.assert_allclose(actual, expected, 1e-4, 1e-4)


def test_open_shapes(tmp_path: Path) -> None:
    """Sizes that the file leaves open are free; ``input_shapes`` fixes them, with or without the batch."""
    nodes = [
        node("Conv", "x w", "a", strides=[2, 2], pads=[1, 1, 1, 1]), node("Shape", "a", "s"),
        node("Mul", "s twice", "large"), helper.make_node("Resize", ["a", "", "", "large"], ["b"]),
        node("Reshape", "b flat", "y"),
    ]  # fmt: skip
    weights = {"w": floats(2, 3, 3, 3), "twice": np.array([1, 1, 2, 2]), "flat": np.array([0, 2, -1])}
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 3, "height", None]}, ["y"], weights)
    net = nn.from_onnx(path)
    for shape in ((2, 3, 8, 9), (5, 3, 17, 6), (1, 3, 3, 3)):
        x = floats(*shape)
        np.testing.assert_allclose(net(x), by_reference(path, [x])[0], 1e-4, 1e-5)
    assert len(net._recordings) == 1  # one for all of them
    with pytest.raises(
        ValueError, match=r"input 'x' has shape \(2, 4, 8, 9\), but the model takes \(N, 3, height, x_3\)"
    ):
        net(floats(2, 4, 8, 9))
    for given, shown in (((3, 4, 5), "N"), ((2, 3, 4, 5), "2")):
        fixed = nn.from_onnx(path, input_shapes={"x": given})
        assert fixed(floats(2, 3, 4, 5)).shape == (2, 2, 24)
        with pytest.raises(ValueError, match=rf"the model takes \({shown}, 3, 4, 5\)"):
            fixed(floats(2, 3, 4, 6))
    with pytest.raises(ValueError, match=r"input_shapes has \(4, 4, 5\) for 'x'"):
        nn.from_onnx(path, input_shapes={"x": (4, 4, 5)})


def test_sizes_that_a_file_fixes(tmp_path: Path) -> None:
    """The error names the size, the number that it is fixed to, and the node."""
    nodes = [node("Reshape", "x shape", "a"), node("MatMul", "a w", "y")]
    weights = {"shape": np.array([-1, 6]), "w": floats(6, 2)}
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", "T"]}, ["y"], weights)
    net = nn.from_onnx(path, input_shapes={"x": (4, 3)})
    assert net(floats(4, 3)).shape == (2, 2)
    net = nn.from_onnx(path)
    assert net(floats(4, 3)).shape == (2, 2) and net(floats(3, 12)).shape == (6, 2)
    with pytest.raises(ValueError, match=r"does not take inputs of shape \(5, 3\)\. Reshape 'Reshape_a': .* elements"):
        net(floats(5, 3))


def test_everything_that_is_not_supported_is_listed(tmp_path: Path) -> None:
    nodes = [node("TfIdfVectorizer", "x", "a"), node("Relu", "a", "b"), node("StringSplit", "b", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 3, 3]}, ["y"])
    with pytest.raises(
        nn.onnx.Unsupported,
        match=r"(?s)2 nodes .*TfIdfVectorizer 'TfIdfVectorizer_a'.*StringSplit 'StringSplit_y'.*supported\(\)",
    ):
        nn.from_onnx(path)
    nodes = [
        node("Conv", "x w", "a"), node("MaxPool", "x", "b", kernel_shape=[2, 2], auto_pad="SAME"),
        node("Relu", "a", "c"), node("Reshape", "x odd", "d"), node("Add", "c b", "y"),
    ]  # fmt: skip
    path = write(
        tmp_path / "m.onnx",
        nodes,
        {"x": ["N", 3, 4, 4]},
        ["y", "d"],
        {"w": floats(2, 5, 3, 3), "odd": np.array([7, 5])},
    )
    with pytest.raises(
        nn.onnx.Unsupported, match=r"(?s)3 nodes .*Conv 'Conv_a': .*MaxPool 'MaxPool_b': .*Reshape 'Reshape_d': "
    ):
        nn.from_onnx(path)


def test_model_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``openbnns import`` writes a model file, which needs onnx no more, and ``export`` writes it back."""
    net, samples = make("recurrent")
    net.to_onnx(tmp_path / "m.onnx")
    assert main(["import", str(tmp_path / "m.onnx")]) == 0
    said = capsys.readouterr().out
    assert "Lstm" in said and "numbers to train" in said
    again = nn.load_model(tmp_path / "m.safetensors")
    for actual, expected in zip(again(*samples), net(*samples), strict=True):
        np.testing.assert_array_equal(actual, expected)
    assert main(["export", str(tmp_path / "m.safetensors"), "--to", "onnx", "-o", str(tmp_path / "again.onnx")]) == 0
    assert "LSTM" in capsys.readouterr().out
    samples[1][...] = 6  # whole sequences, as ONNX's own evaluator does not look at lengths
    np.testing.assert_allclose(by_reference(tmp_path / "again.onnx", samples)[0], net(*samples)[0], 1e-5, 1e-5)
    assert main(["import", str(tmp_path / "nothing.onnx")]) == 2
    assert "there is no file" in capsys.readouterr().err


def test_nothing_is_imported_before_it_is_used() -> None:
    program = (
        "import sys; from openbnns import nn; print('openbnns.interop.onnx' in sys.modules, 'from_onnx' in dir(nn)); "
    )
    program += "nn.from_onnx; print('openbnns.interop.onnx' in sys.modules, 'onnx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True", "False"]


def test_the_documentation_lists_what_is_supported() -> None:
    assert table() in PAGE.read_text(encoding="utf-8"), "the operators have changed: python tools/operator_table.py"


def test_an_operator_is_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says how numbers are recorded, whole ones too, which inputs are not weights, and which attributes say nothing."""

    def record(call: Any, x: ForeignTensor, factor: ForeignTensor) -> ForeignTensor:
        return ForeignTensor(nn.functional.mul(x.numbers, factor.numbers))

    def compute(call: Any, x: Any, factor: Any) -> Any:
        return x * factor

    entry = Operator("shapes", record, compute, by_element=True, settings=(1,), ignores=("note",))
    monkeypatch.setitem(OPERATORS, "own.Scale", entry)
    assert "own.Scale" in nn.onnx.supported()["shapes"]
    nodes = [
        node("Scale", "x factor", "y", domain="own", note=1), node("Scale", "i whole", "j", domain="own"),
        node("Scale", "half whole", "shape", domain="own"), node("Reshape", "y shape", "z"),
    ]  # fmt: skip
    weights = {"factor": floats(6), "whole": np.array([1, 2]), "half": np.array([-1, 3])}
    inputs = {"x": ["N", 4, 6], "i": ["N", 2]}
    path = write(tmp_path / "m.onnx", nodes, inputs, ["z", "j"], weights, kinds={"i": INT64, "j": INT64})
    net, x, i = nn.from_onnx(path, batch_axis=None), floats(3, 4, 6), np.array([[2**40, 1]] * 3)
    z, j = net(x, i)
    np.testing.assert_allclose(z, (x * weights["factor"]).reshape(-1, 6), 1e-6)
    np.testing.assert_array_equal(j, i * weights["whole"])
    assert not list(net.named_parameters())
    monkeypatch.setitem(OPERATORS, "own.Scale", replace(entry, settings=()))
    assert [name for name, _ in nn.from_onnx(path, batch_axis=None).named_parameters()] == ["factor"]
    monkeypatch.setitem(OPERATORS, "own.Scale", replace(entry, ignores=()))
    with pytest.raises(nn.onnx.Unsupported, match="its attribute 'note' has no counterpart here"):
        nn.from_onnx(path, batch_axis=None)


def test_sizes_that_only_some_numbers_fit_are_found(tmp_path: Path) -> None:
    """Windows of sound are long, and lines of text have a certain height."""
    nodes = [node("Conv", "x w", "y", strides=[160])]
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 1, "samples"]}, ["y"], {"w": floats(2, 1, 512)})
    net, x = nn.from_onnx(path), floats(2, 1, 1000)
    np.testing.assert_allclose(net(x), by_reference(path, [x])[0], 1e-4, 1e-4)
    nodes = [node("AveragePool", "x", "p", kernel_shape=[32, 1], strides=[32, 1]), node("Squeeze", "p axis", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 3, "H", "W"]}, ["y"], {"axis": np.array([2])})
    net, x = nn.from_onnx(path), floats(2, 3, 32, 50)
    np.testing.assert_allclose(net(x), by_reference(path, [x])[0], 1e-5, 1e-6)


def test_a_number_in_a_node_decides_a_size_that_the_file_leaves_open(tmp_path: Path) -> None:
    """Exporters write numbers of their example into shapes, and say that the axis is free."""
    nodes = [
        node("Shape", "x", "shape"), node("Gather", "shape one", "n"), node("Mul", "n two", "m"),
        node("Concat", "nine m four", "heads", axis=0), node("Reshape", "x heads", "h"), node("MatMul", "h w", "y"),
    ]  # fmt: skip
    weights = {name: np.array([n]) for name, n in (("one", 1), ("two", 2), ("four", 4), ("nine", 9))} | {
        "w": floats(4, 6)
    }
    path = write(tmp_path / "m.onnx", nodes, {"x": ["T", "N", 8]}, ["y"], weights)
    net, x = nn.from_onnx(path), floats(9, 3, 8)
    np.testing.assert_allclose(net(x), by_reference(path, [x])[0], 1e-4, 1e-5)
    with pytest.raises(ValueError, match=r"(?s)does not take .*\(8, 3, 8\).*T is 9 at Reshape 'Reshape_h'"):
        net(floats(8, 3, 8))
    net.to_onnx(tmp_path / "again.onnx")
    again = nn.from_onnx(tmp_path / "again.onnx")
    np.testing.assert_allclose(again(x), net(x), 1e-5, 1e-6)
    (port,) = onnx.load(tmp_path / "again.onnx").graph.input
    assert [size.dim_value or size.dim_param for size in port.type.tensor_type.shape.dim] == [9, "N", 8]


def test_numbers_that_several_nodes_decide_are_found_one_after_the_other(tmp_path: Path) -> None:
    nodes = [node("Add", "x a", "p"), node("Reshape", "p shape", "q"), node("Add", "q b", "y")]
    weights = {"a": floats(5, 1), "shape": np.array([0, -1]), "b": floats(1, 15)}
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", "H", "W"]}, ["y"], weights)
    net, x = nn.from_onnx(path), floats(2, 5, 3)
    np.testing.assert_allclose(net(x), by_reference(path, [x])[0], 1e-5, 1e-6)


def test_whole_numbers_that_numpy_moves_leave_all_sizes_free(tmp_path: Path) -> None:
    """Entries of several whole numbers of an object, looked up in tables: one recording for all of them."""
    nodes = [
        node("Gather", "boxes one", "left", axis=2), node("Gather", "table left", "e"), node("Add", "x e", "a"),
        node("Transpose", "left", "turned", perm=[1, 0]), node("Tile", "turned copies", "wider"),
        node("Cast", "wider", "t", to=FLOAT), node("Identity", "a", "y"),
    ]  # fmt: skip
    weights = {"one": np.array(1), "table": floats(20, 6), "copies": np.array([2, 1])}
    inputs = {"x": ["N", "K", 6], "boxes": ["N", "K", 4]}
    path = write(tmp_path / "m.onnx", nodes, inputs, ["y", "t"], weights, kinds={"boxes": INT64})
    net = nn.from_onnx(path)
    for n, k in ((2, 3), (1, 1), (4, 7)):
        given = [floats(n, k, 6), RANDOM.randint(0, 20, (n, k, 4))]
        for ours, theirs in zip(net(*given), by_reference(path, given), strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-5, 1e-6)
    assert len(net._recordings) == 1
    rows = net.program(((2, 3, 6), (2, 3, 4)), training=False).describe().rows
    kinds = {row[1]: row[3] for row in rows}
    assert kinds["CustomFunction"] == "Python"  # the copies
    assert kinds["Slice"] == kinds["Permute"] == "native"


@pytest.mark.parametrize(("axis", "values"), [(-1, (0, 1)), (0, (0, 1)), (1, (0.1, 0.3))])
def test_steps_of_a_decoder_need_no_numpy(tmp_path: Path, axis: int, values: tuple[float, float]) -> None:
    """One hot vectors, whole numbers put among others, and masks made of them."""
    nodes = [
        node("OneHot", "i depth values", "hot", axis=axis), node("ScatterElements", "row i i", "put", axis=1),
        node("Cast", "put", "mask", to=TensorProto.BOOL), node("Cast", "mask", "seen", to=FLOAT),
        node("TopK", "w one", "best at"),
    ]  # fmt: skip
    weights = {
        "depth": np.array(5), "values": np.float32(values), "row": np.arange(-2, 6).reshape(2, 4), "one": np.array([1]),
    }  # fmt: skip
    inputs = {"i": [2, 3], "w": [2, 1]}
    path = write(tmp_path / "m.onnx", nodes, inputs, ["hot", "put", "seen", "best", "at"], weights, kinds={"i": INT64})
    net = nn.from_onnx(path, batch_axis=None)
    for first in (0, -2, 3):  # in range; from the end; beyond the depth, which is nowhere
        i, w = np.array([[first, 1, first], [2, 3, 3]]), floats(2, 1)
        whole = np.arange(5).reshape([5 if a == axis % 3 else 1 for a in range(3)])
        chosen = np.expand_dims(np.where((i >= -5) & (i < 5), i % 5, 5), axis) == whole
        for _ in range(3):
            hot, put, seen, best, at = net(i, w)
        np.testing.assert_array_equal(hot, np.where(chosen, np.float32(values[1]), np.float32(values[0])))
        expected = np.arange(-2, 6).reshape(2, 4)
        for r in range(2):
            for number in i[r]:
                expected[r, number] = number
        np.testing.assert_array_equal(put, expected)
        np.testing.assert_array_equal(seen, expected != 0)
        np.testing.assert_array_equal(best, w)
        np.testing.assert_array_equal(at, [[0], [0]])
    rows = net.program(((2, 3), (2, 1)), training=False).describe().rows
    assert {row[3] for row in rows} <= {"native", "settled"}, rows


@pytest.mark.parametrize("seed", range(8))
def test_whole_numbers_and_masks_move_as_they_are(tmp_path: Path, seed: int) -> None:
    """Random moves of whole numbers that float32 cannot hold, and of a mask: exact, and without NumPy."""
    random = np.random.RandomState(seed)
    nodes = [node("Equal", "x one", "m0")]
    weights = {
        "one": np.array(1), "row": np.full((1, 3, 2), 2**40 + 1), "flags": np.ones((1, 3, 2), np.bool_),
        "places": np.array([2, 0]), "from": np.array([0]), "to": np.array([3]), "along": np.array([1]),
        "times": np.array([1, 3, 2]),
    }  # fmt: skip
    for name, other in (("x", "row"), ("m0", "flags")):
        held = name
        for i in range(4):
            made = f"{name}{i}"
            kind = random.randint(5)
            if kind == 0:  # to one another's place and back, so that shapes stay
                nodes += [
                    node("Transpose", held, made + "t", perm=[0, 2, 1]),
                    node("Transpose", made + "t", made, perm=[0, 2, 1]),
                ]
            elif kind == 1:
                nodes += [
                    node("Concat", f"{held} {other}", made + "c", axis=0),
                    node("Slice", f"{made}c from to along", made),
                ]
            elif kind == 2:
                nodes += [
                    node("Gather", f"{held} places", made + "g", axis=1),
                    node("Concat", f"{made}g {held}", made + "c", axis=1),
                ]
                nodes += [node("Slice", f"{made}c from to along", made)]
            elif kind == 3:
                nodes += [
                    node("Split", held, f"{made}a {made}b", axis=2),
                    node("Concat", f"{made}b {made}a", made, axis=2),
                ]
            else:
                nodes += [
                    node("Gather", f"{held} one", made + "g", axis=1),
                    node("Unsqueeze", f"{made}g along", made + "u"),
                ]
                nodes += [node("Expand", f"{made}u times", made)]
            held = made
        nodes.append(node("Identity", held, f"y_{name}"))
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 3, 2]}, ["y_x", "y_m0"], weights, kinds={"x": INT64})
    net = nn.from_onnx(path)
    for count in (2, 2, 5):
        x = random.choice([1, 2**40 + 3, -(2**33) - 1], (count, 3, 2))
        ours = net(x)
        for mine, theirs in zip(ours, by_reference(path, [x]), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert ours[0].dtype == np.int64
    assert "CustomFunction" not in str(net.program((x.shape,), training=False).describe())


def test_indices_of_an_axis_of_one_entry(tmp_path: Path) -> None:
    """Trials on ones would be out of range."""
    nodes = [node("Gather", "x order", "y", axis=0)]
    path = write(
        tmp_path / "m.onnx",
        nodes,
        {"x": [1, "T"], "order": [1]},
        ["y"],
        kinds=dict.fromkeys(("x", "order", "y"), INT64),
    )
    net = nn.from_onnx(path, batch_axis=None)
    for count in (3, 5):
        x = RANDOM.randint(0, 9, (1, count))
        np.testing.assert_array_equal(net(x, np.array([0])), x)


@pytest.mark.parametrize("joined", ["by Identity", "directly"])
def test_statistics_that_an_exporter_joined_with_weights(joined: str, tmp_path: Path) -> None:
    """Zeros of a mean and of a bias are one initializer; training changes each by itself."""
    nodes = [node("Identity", "b", "m"), node("Identity", "s", "v"), node("BatchNormalization", "x s b m v", "y")]
    if joined == "directly":
        nodes = [node("BatchNormalization", "x s b b s", "y")]
    weights = {"s": np.ones(3, np.float32), "b": np.zeros(3, np.float32)}
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 3, 4, 4]}, ["y"], weights)
    net, x = nn.from_onnx(path), floats(5, 3, 4, 4)
    np.testing.assert_allclose(net(x), by_reference(path, [x])[0], 1e-5, 1e-5)
    mean, variance = ("m", "v") if joined == "by Identity" else ("b_statistics", "s_statistics")
    assert set(net.state_dict()) == {"s", "b", mean, variance}
    net.train()(x)
    assert not np.any(net.state_dict()["b"]) and np.all(net.state_dict()[mean])
    assert np.all(net.state_dict()["s"] == 1) and np.all(net.state_dict()[variance] != 1)


def _quantized(kind: int, **attributes: Any) -> Any:
    return node("QuantizeLinear", "x s", "q", output_dtype=kind, **attributes)


@pytest.mark.parametrize("kind", ["INT8", "UINT8", "INT16", "UINT16"])
def test_the_type_of_quantized_numbers_without_a_zero_point(kind: str, tmp_path: Path) -> None:
    nodes = [_quantized(getattr(onnx.TensorProto, kind)), node("DequantizeLinear", "q s", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 4]}, ["y"], {"s": np.float32(0.5)})
    net, x = nn.from_onnx(path), 90 * floats(6, 4)
    np.testing.assert_allclose(net(x), by_reference(path, [x])[0], 1e-6)
    assert (net(x) < 0).any() == (not kind.startswith("U"))


def test_a_type_of_quantized_numbers_that_there_is_not(tmp_path: Path) -> None:
    nodes = [_quantized(onnx.TensorProto.FLOAT8E8M0), node("DequantizeLinear", "q s", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 4]}, ["y"], {"s": np.float32(0.5)})
    with pytest.raises(nn.onnx.Unsupported, match="output_dtype=24 is a type that networks do not compute with"):
        nn.from_onnx(path)


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("kind", ["INT4", "UINT4"])
def test_weights_of_4_bits(kind: str, raw: bool, tmp_path: Path) -> None:
    """Two in a byte, an odd number of them, in blocks with scales and zero points; and numbers quantized to so few bits."""
    number, low = getattr(onnx.TensorProto, kind), -8 if kind == "INT4" else 0
    nodes = [
        node("QuantizeLinear", "x s point", "q"), node("DequantizeLinear", "q s point", "a"),
        node("DequantizeLinear", "w scales zero", "b", axis=0, block_size=2), node("MatMul", "a b", "y"),
    ]  # fmt: skip
    path = write(
        tmp_path / "m.onnx", nodes, {"x": ["N", 4]}, ["y"], {"s": np.float32(0.25), "scales": abs(floats(2, 3)) + 0.1}
    )
    model = onnx.load(path)
    for name, shape in (("w", (4, 3)), ("zero", (2, 3)), ("point", ())):
        values = RANDOM.randint(low, low + 16, shape)
        tensor = helper.make_tensor(name, number, shape, values.ravel().tolist())
        if raw:
            packed = bytes(n & 255 for n in tensor.int32_data)
            tensor.ClearField("int32_data")
            tensor.raw_data = packed
        model.graph.initializer.append(tensor)
    onnx.save(model, path)
    net, x = nn.from_onnx(path), 3 * floats(5, 4)
    np.testing.assert_allclose(net(x), by_reference(path, [x])[0], 1e-5, 1e-5)
    model.graph.initializer[-3].dims[0] = 400
    onnx.save(model, path)
    with pytest.raises(nn.onnx.OnnxError, match=r"two numbers to a byte, of shape .* needs 600"):
        nn.from_onnx(path)


def test_a_part_of_one_entry_is_no_batch(tmp_path: Path) -> None:
    """The file was written for one sample; a slice up to 1 along another axis is a slice."""
    nodes = [node("Slice", "x zero one axes", "y")]
    weights = {"zero": np.array([0]), "one": np.array([1]), "axes": np.array([1])}
    path = write(tmp_path / "m.onnx", nodes, {"x": [1, "T", 3]}, ["y"], weights)
    net, x = nn.from_onnx(path), floats(4, 5, 3)
    np.testing.assert_array_equal(net(x), x[:, :1])


def test_a_first_axis_that_is_no_batch_has_the_number_of_the_file(tmp_path: Path) -> None:
    """States of two layers, of which the first one is read: it is written for two of them again."""
    nodes = [node("Gather", "state one", "s", axis=0), node("Add", "x s", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"x": ["batch", 3], "state": [2, "batch", 3]}, ["y"], {"one": np.array(1)})
    net, x, state = nn.from_onnx(path), floats(4, 3), floats(2, 4, 3)
    np.testing.assert_array_equal(net(x, state), x + state[1])
    net.to_onnx(tmp_path / "again.onnx")
    _, port = onnx.load(tmp_path / "again.onnx").graph.input
    assert [size.dim_value or size.dim_param for size in port.type.tensor_type.shape.dim] == [2, "batch", 3]


def test_an_empty_part_may_be_joined(tmp_path: Path) -> None:
    """A slice behind all bits of a watermark is empty, and is joined with the rest."""
    nodes = [node("Slice", "x four end axis", "none"), node("Concat", "x none x", "y", axis=1)]
    weights = {"four": np.array([4]), "end": np.array([2**31]), "axis": np.array([1])}
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 4, 2]}, ["y"], weights)
    net = nn.from_onnx(path)
    for count in (3, 5):
        x = floats(count, 4, 2)
        np.testing.assert_array_equal(net(x), np.concatenate([x, x], axis=1))


def test_a_model_with_single_numbers_says_why_it_refuses_sizes(tmp_path: Path) -> None:
    nodes = [node("Mul", "x s", "m"), node("Add", "m w", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 3], "s": []}, ["y"], {"w": floats(3)})
    net = nn.from_onnx(path)
    np.testing.assert_allclose(net(np.ones((2, 3), np.float32), np.float32(2)).shape, (2, 3))
    with pytest.raises(ValueError, match=r"input 'x' has shape \(2, 4\), but the model takes \(N, 3\)"):
        net(np.ones((2, 4), np.float32), np.float32(2))


PATTERNS: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "hard swish": (
        [node("Add", "x three", "a"), node("Clip", "a zero six", "c"), node("Mul", "x c", "m"), node("Div", "m six", "y")],
        {"three": np.float32(3), "zero": np.float32(0), "six": np.float32(6)}, "HardSwish",
    ),
    "hard swish by hard sigmoid": (
        [node("Identity", "x", "i"), node("HardSigmoid", "i", "g", alpha=1 / 6, beta=0.5), node("Mul", "g i", "y")],
        {}, "HardSwish",
    ),
    "gelu": (
        [node("Div", "x root", "d"), node("Erf", "d", "e"), node("Add", "e one", "a"), node("Mul", "x a", "m"),
         node("Mul", "m half", "y")],
        {"root": np.float32(np.sqrt(2)), "one": np.float32(1), "half": np.float32(0.5)}, "Gelu",
    ),
    "convolution and bias": (
        [node("Conv", "x w", "c", pads=[1, 1, 1, 1]), node("Add", "c b", "y")],
        {"w": floats(5, 2, 3, 3), "b": floats(1, 5, 1, 1)}, "Conv",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("read_elsewhere", [False, True])
def test_nodes_that_are_one_layer(name: str, read_elsewhere: bool, tmp_path: Path) -> None:
    """The same results, from one operation; a tensor in the middle that something else reads is still there."""
    nodes, weights, op = PATTERNS[name]
    outputs = ["y", nodes[-2].output[0]] if read_elsewhere else ["y"]
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 2, 4, 3]}, outputs, weights)
    net, x = nn.from_onnx(path), 3 * floats(6, 2, 4, 3)
    actual = net(x) if read_elsewhere else (net(x),)
    for got, expected in zip(actual, by_reference(path, [x]), strict=True):
        np.testing.assert_allclose(got, expected, 1e-4, 1e-4)
    if not read_elsewhere:
        assert [one.op for one in net._nodes if one.op != "Identity"] == [op]
        assert len(net.converted()) == 1


def test_nodes_that_only_look_like_a_layer(tmp_path: Path) -> None:
    """Other numbers than those of the formula, and a weight that two nodes read."""
    nodes, weights, _ = PATTERNS["hard swish"]
    for other in ({"three": np.float32(2.5)}, {"zero": np.float32(-1)}, {"six": np.float32(5)}):
        path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 4]}, ["y"], weights | other)
        x = 4 * floats(3, 4)
        np.testing.assert_allclose(nn.from_onnx(path)(x), by_reference(path, [x])[0], 1e-5, 1e-5)
    nodes, weights, _ = PATTERNS["convolution and bias"]
    path = write(tmp_path / "m.onnx", [*nodes, node("Mul", "y b", "z")], {"x": ["N", 2, 4, 3]}, ["z"], weights)
    net, x = nn.from_onnx(path), floats(3, 2, 4, 3)
    assert net.b.shape == (1, 5, 1, 1)
    np.testing.assert_allclose(net(x), by_reference(path, [x])[0], 1e-4, 1e-4)


@pytest.mark.parametrize("batch", [1, "N", None])
def test_states_beside_another_batch(batch: int | str | None, tmp_path: Path) -> None:
    """The first axis of a state counts layers: it keeps its number."""
    nodes = [node("Gather", "h layer", "one"), node("MatMul", "x one", "m"), node("Add", "m last", "y")]
    nodes.insert(2, node("Gather", "h next", "last"))
    constants = {"layer": np.array(0), "next": np.array(1)}
    path = write(tmp_path / "m.onnx", nodes, {"x": [batch, 4, 4], "h": [2, 4, 4]}, ["y"], constants)
    net = nn.from_onnx(path)
    x, h = floats(1, 4, 4), floats(2, 4, 4)
    np.testing.assert_allclose(net(x, h), x @ h[0] + h[1], 1e-5, 1e-5)
    with pytest.raises(ValueError, match="'h' has shape"):
        net(x, h[:1])


def test_operators_of_one_or_more_inputs_count_them(tmp_path: Path) -> None:
    nodes = [node("Greater", "x zero", "above"), node("Not", "above", "below"), node("Where", "below zero x", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 3]}, ["y"], {"zero": np.float32(0)})
    x = floats(4, 3)
    np.testing.assert_array_equal(nn.from_onnx(path)(x), np.maximum(x, 0))
    bad = write(tmp_path / "b.onnx", [node("Not", "x ", "y")], {"x": ["N", 3]}, ["y"])
    assert nn.from_onnx(bad)(x).shape == x.shape


def test_a_single_number_in_bfloat16(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", [node("Mul", "x two", "y")], {"x": ["N", 3]}, ["y"], {"two": np.float32(2)})
    model = onnx.load(path)
    model.graph.initializer[0].CopyFrom(helper.make_tensor("two", onnx.TensorProto.BFLOAT16, [], [2.0]))
    onnx.save(model, path)
    x = floats(4, 3)
    np.testing.assert_array_equal(nn.from_onnx(path)(x), 2 * x)


def test_the_first_resize_rounds_up_where_fewer_entries_are_left(tmp_path: Path) -> None:
    """The example of opset 10 itself, and what onnxruntime gives."""
    kind = onnx.TensorProto.FLOAT
    for scale, length, expected in ((0.6, 4, [0, 2]), (0.7, 5, [0, 2, 3]), (1.5, 3, [0, 0, 1, 2])):
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("Resize", ["x", "scales"], ["y"], mode="nearest")], "graph",
            [onnx.helper.make_tensor_value_info("x", kind, ["N", 2, 1, length])],
            [onnx.helper.make_tensor_value_info("y", kind, None)],
            [onnx.numpy_helper.from_array(np.array([1, 1, 1, scale], np.float32), "scales")],
        )  # fmt: skip
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 10)], ir_version=8)
        onnx.save(model, tmp_path / "m.onnx")
        x = np.random.RandomState(length).standard_normal((3, 2, 1, length)).astype(np.float32)
        np.testing.assert_array_equal(nn.from_onnx(tmp_path / "m.onnx")(x), x[..., expected])


def test_quantized_weights_of_recurrent_cells(tmp_path: Path) -> None:
    """They become parameters with the numbers that they stand for."""
    random = np.random.RandomState(0)
    stored = {"W_q": random.randint(-9, 9, (1, 12, 5)), "R_q": random.randint(-9, 9, (1, 12, 3))}
    weights = {name: array.astype(np.int8) for name, array in stored.items()} | {"scale": np.float32(0.05)}
    nodes = [node("DequantizeLinear", f"{name}_q scale", name) for name in "WR"]
    path = write(
        tmp_path / "m.onnx", [*nodes, node("LSTM", "x W R", "y h c", hidden_size=3)], {"x": [7, "N", 5]}, ["y"], weights
    )
    net, x = nn.from_onnx(path, batch_axis=1), floats(7, 2, 5)
    np.testing.assert_allclose(net(x), by_reference(path, [x])[0], 1e-5, 1e-6)
    assert {name.partition(".")[2] for name, _ in net.named_parameters()} == {"weight_ih_l0", "weight_hh_l0"}


SMALL_FLOATS = ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT4E2M1")


@pytest.mark.parametrize("kind", SMALL_FLOATS)
def test_numbers_of_few_bits(kind: str, tmp_path: Path) -> None:
    """Weights of them, quantized numbers, and casts, which round as the package of these types does."""
    import ml_dtypes

    number = getattr(onnx.TensorProto, kind)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    wide = (np.arange(17) - 8).astype(dtype)
    nodes = [
        node("DequantizeLinear", "w s", "d"),
        node("Mul", "x d", "a"),
        node("Cast", "a", "q", to=number),
        node("Cast", "q", "y", to=1),
    ]
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 17]}, ["y"], {"s": np.float32(0.5)})
    model = onnx.load(path)
    model.graph.initializer.append(onnx.numpy_helper.from_array(wide, "w"))
    onnx.save(model, path)
    net, x = nn.from_onnx(path), 3 * floats(40, 17)
    product = x * wide.astype(np.float32) * np.float32(0.5)
    largest = float(ml_dtypes.finfo(dtype).max)
    expected = product.clip(-largest, largest).astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(net(x), expected)
    if kind != "FLOAT4E2M1":  # whose casts ONNX's checker does not know yet
        net.to_onnx(tmp_path / "again.onnx")
        np.testing.assert_array_equal(nn.from_onnx(tmp_path / "again.onnx")(x), expected)


@pytest.mark.parametrize("kind", SMALL_FLOATS[:4])
def test_numbers_that_are_quantized_to_few_bits(kind: str, tmp_path: Path) -> None:
    """A zero point says the type; what is too large becomes the largest number."""
    import ml_dtypes

    dtype = helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, kind))
    nodes = [node("QuantizeLinear", "x s zero", "q"), node("DequantizeLinear", "q s zero", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 9]}, ["y"], {"s": np.float32(0.25)})
    model = onnx.load(path)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((), dtype), "zero"))
    onnx.save(model, path)
    net, x = nn.from_onnx(path), np.float32(10) ** floats(30, 9)
    largest = float(ml_dtypes.finfo(dtype).max)
    expected = (4 * x).clip(-largest, largest).astype(dtype).astype(np.float32) / 4
    np.testing.assert_array_equal(net(x), expected)
    np.testing.assert_array_equal(net(x * 1e9), np.full_like(x, largest / 4))


def test_weights_of_2_bits(tmp_path: Path) -> None:
    path = write(
        tmp_path / "m.onnx",
        [node("DequantizeLinear", "w s", "d"), node("Mul", "x d", "y")],
        {"x": ["N", 7]},
        ["y"],
        {"s": np.float32(0.5)},
    )
    model, values = onnx.load(path), np.array([-2, -1, 0, 1, 1, -2, 0])
    packed = [sum((int(n) & 3) << 2 * i for i, n in enumerate(values[k : k + 4])) for k in (0, 4)]
    model.graph.initializer.append(onnx.TensorProto(name="w", data_type=26, dims=[7], raw_data=bytes(packed)))
    onnx.save(model, path)
    x = floats(3, 7)
    np.testing.assert_array_equal(nn.from_onnx(path)(x), x * values.astype(np.float32) / 2)


def test_positions_of_old_tensorflow(tmp_path: Path) -> None:
    """Versions 11 and 12 of Resize have a mode in which the entry at a pixel's centre is taken."""
    options = {"mode": "nearest", "coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "floor"}
    weights = {"r": np.zeros(0, np.float32), "f": np.float32([1, 1, 0.6, 0.4])}
    path = write(
        tmp_path / "m.onnx", [node("Resize", "x r f", "y", **options)], {"x": ["N", 2, 5, 10]}, ["y"], weights, opset=11
    )
    x = floats(3, 2, 5, 10)
    np.testing.assert_array_equal(nn.from_onnx(path)(x), x[:, :, [0, 2, 4]][..., [1, 3, 6, 8]])


@pytest.mark.parametrize(
    ("factor", "length", "expected"),
    [(0.6, 6, [0, 1, 3]), (0.6, 10, [0, 1, 3, 5, 6, 8]), (0.7, 10, [0, 1, 2, 4, 5, 7, 8])],
)
def test_nearest_entries_are_found_in_float32(factor: float, length: int, expected: list[int], tmp_path: Path) -> None:
    """3 / 0.6 is 5, and 0.7 of 10 are 7, which other programs find by rounding; the numbers in the file are not quite these."""
    options = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    weights = {"r": np.zeros(0, np.float32), "f": np.float32([1, 1, factor])}
    path = write(tmp_path / "m.onnx", [node("Resize", "x r f", "y", **options)], {"x": ["N", 2, "L"]}, ["y"], weights)
    x = floats(3, 2, length)
    np.testing.assert_array_equal(nn.from_onnx(path)(x), x[:, :, expected])


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_aligned_corners_are_those_of_the_resized_image(mode: str, tmp_path: Path) -> None:
    """A factor that does not divide the image evenly: the last entry is still the last one."""
    options = {"coordinate_transformation_mode": "align_corners"}
    weights = {"r": np.zeros(0, np.float32), "f": np.float32([1, 1, 1.5])}
    path = write(
        tmp_path / "m.onnx", [node("Resize", "x r f", "y", mode=mode, **options)], {"x": ["N", 2, "L"]}, ["y"], weights
    )
    for length, new in ((5, 7), (9, 13)):
        x = floats(3, 2, length)
        y = nn.from_onnx(path)(x)
        assert y.shape == (3, 2, new)
        np.testing.assert_allclose(y[..., [0, new // 2, -1]], x[..., [0, length // 2, -1]], rtol=1e-6)


def test_factors_that_a_run_computes(tmp_path: Path) -> None:
    """The ratio is an input, as of networks for video; every number of it has a recording, which takes all sizes."""
    options = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    weights = {"r": np.zeros(0, np.float32), "one": np.float32([1, 1])}
    nodes = [node("Concat", "one ratio", "f", axis=0), node("Resize", "x r f", "y", **options), node("Mul", "y y", "z")]
    shapes: dict[str, Any] = {"x": ["N", 2, "L"], "ratio": [1]}
    weights["one"] = np.float32([1, 1])
    path = write(tmp_path / "m.onnx", nodes, shapes, ["z"], weights, 13)
    net = nn.from_onnx(path, batch_axis={"x": 0, "ratio": None}).train()
    for ratio, length in ((0.5, 8), (2.0, 5), (0.5, 6), (1.0, 4), (0.25, 9)):
        x, at = floats(3, 2, length), np.float32([ratio])
        new = int(length * ratio)
        places = np.clip((np.arange(new) + 0.5) / ratio - 0.5, 0, length - 1)
        low = np.minimum(places.astype(int), length - 2)
        part = (places - low).astype(np.float32)
        y = x[..., low] * (1 - part) + x[..., low + 1] * part
        np.testing.assert_allclose(net(x, at), y * y, 1e-5, 1e-5)
        dx = net.backward(np.ones_like(y))[0]
        expected = np.zeros_like(x)
        for j in range(new):
            expected[..., low[j]] += 2 * y[..., j] * (1 - part[j])
            expected[..., low[j] + 1] += 2 * y[..., j] * part[j]
        np.testing.assert_allclose(dx, expected, 1e-5, 1e-5)
    with pytest.raises(ValueError, match=r"scales \[1.0, 1.0, -2.0\] are not possible"):
        net(x, np.float32([-2]))


def test_parts_that_a_run_chooses(tmp_path: Path) -> None:
    """The box that is cut out is the row of a table that an input tells."""
    options = {"mode": "nearest", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0}
    boxes = np.float32([[0, 0, 1, 1], [0, 0.25, 1, 0.75], [0, -0.5, 1, 0.5]])
    nodes = [node("Gather", "boxes i", "r", axis=0), node("Resize", "x r none sizes", "y", **options)]
    weights = {"boxes": boxes, "sizes": np.array([3, 5]), "none": np.zeros(0, np.float32)}
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 9], "i": []}, ["y"], weights, 13, kinds={"i": INT64})
    net, x = nn.from_onnx(path, batch_axis={"x": 0, "i": None}), floats(3, 9)
    for place, expected in (
        (0, [0, 2, 4, 6, 8]),
        (1, [2, 3, 4, 5, 6]),
        (2, [None, None, 0, 2, 4]),
        (0, [0, 2, 4, 6, 8]),
    ):
        y = np.stack([np.full(3, 9, np.float32) if i is None else x[:, i] for i in expected], 1)
        np.testing.assert_array_equal(net(x, np.int64(place)), y)
