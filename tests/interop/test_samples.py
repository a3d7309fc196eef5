"""Files that were made for one sample, run with several: as one by one, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from onnx_networks import INT64, by_reference, floats, graph, node, write
from openbnns import nn
from openbnns.interop import coreml
from sample_chains import Chain

REFUSED = (
    r"was made for 1 sample, and other numbers of samples are not proven to give what their samples give one by one: "
)
MOST_REFUSED = 0.65
"""The share of random chains that may be refused: half of them do compute across the axis that is taken for the samples."""


def saved(chain: Chain, kind: str, folder: Path, number: int) -> tuple[Callable[..., Any], Path]:
    if kind == "onnx":
        return nn.from_onnx, chain.to_onnx(folder / f"{number}.onnx")
    return nn.from_coreml, chain.to_coreml(folder / f"{number}.mlpackage")


def one_by_one(net: Any, x: Any) -> Any:
    return np.concatenate([np.asarray(net(x[i : i + 1])) for i in range(len(x))])


@pytest.mark.parametrize("kind, first, count", [("onnx", 0, 120), ("onnx", 120, 120), ("coreml", 1000, 100)])
def test_random_chains_run_as_one_by_one_or_are_refused(kind: str, first: int, count: int, tmp_path: Path) -> None:
    refused = 0
    for seed in range(first, first + count):
        chain = Chain(seed)
        x = np.random.default_rng(seed).standard_normal((3, *chain.shape[1:])).astype(np.float32)
        read, path = saved(chain, kind, tmp_path, seed)
        expected = one_by_one(read(path, batch_axis=None), x)
        net = read(path)
        try:
            y = np.asarray(net(x))
        except ValueError as error:
            assert "not proven to give what their samples give one by one" in str(error), f"Chain({seed}): {error}"
            np.testing.assert_array_equal(np.asarray(net.predict(x)), expected, err_msg=f"Chain({seed})")
            refused += 1
            continue
        np.testing.assert_allclose(y, expected, 1e-5, 1e-6, err_msg=f"Chain({seed})")
        net.train()
        net(x)
        gradient = np.zeros_like(y)
        gradient[1] = 1
        dx = net.backward(gradient)
        assert not dx[0].any() and not dx[2].any(), f"Chain({seed}): training mixes samples"
    assert refused <= MOST_REFUSED * count


def test_what_is_proven_is_written_with_free_samples_and_nothing_else(tmp_path: Path) -> None:
    written = 0
    for seed in range(60):
        chain = Chain(seed)
        x = np.random.default_rng(seed).standard_normal((3, *chain.shape[1:])).astype(np.float32)
        net = nn.from_onnx(chain.to_onnx(tmp_path / "in.onnx"))
        expected = np.asarray(net.predict(x))
        net.to_onnx(tmp_path / "out.onnx")
        first = onnx.load(tmp_path / "out.onnx").graph.input[0].type.tensor_type.shape.dim[0]
        if first.dim_param:
            written += 1
            (y,) = by_reference(tmp_path / "out.onnx", [x])
            np.testing.assert_allclose(y, expected, 1e-5, 1e-6, err_msg=f"Chain({seed})")
        else:
            assert first.dim_value == 1
            with pytest.raises(ValueError, match=REFUSED):
                net(x)
    assert written >= 20


def made(tmp_path: Path, nodes: list[Any], shape: list[Any], weights: dict[str, Any] | None = None) -> Any:
    return nn.from_onnx(write(tmp_path / "m.onnx", nodes, {"x": shape}, ["y"], weights))


def test_a_reshape_that_any_axis_would_fit(tmp_path: Path) -> None:
    nodes = [node("Transpose", "x", "t", perm=[1, 0, 2]), node("Reshape", "t s", "y")]
    net, x = made(tmp_path, nodes, [1, 2, 3], {"s": np.array([1, 2, 3])}), floats(3, 2, 3)
    with pytest.raises(
        ValueError, match=r"x' has shape \(3, 2, 3\), .*takes \(1, 2, 3\)\. The file " + REFUSED + ".*dynamic axes"
    ):
        net(x)
    np.testing.assert_array_equal(np.asarray(net.predict(x)), x)
    with pytest.raises(
        ValueError, match=r"Trainer: batch_size is 32, but .* takes 1 sample at a time.*dynamic axes.*batch_size=1"
    ):
        nn.Trainer(net, "mse", nn.SGD(0.1), quiet=True)
    for compiled in (lambda: net.compile_step("mse", nn.SGD(0.1), 3), lambda: net.compile_inference(3)):
        with pytest.raises(ValueError, match=r"compile_\w+: batch_size is 3, but the network takes 1 sample at a time"):
            compiled()


def test_samples_away_from_the_front_are_followed(tmp_path: Path) -> None:
    """Heads of attention with positions in front, as PyTorch writes them: samples and heads are one axis for a while."""
    nodes = [
        node("Transpose", "x", "t", perm=[1, 0, 2]),  # (5, N, 6)
        node("Reshape", "t apart", "h"),  # (5, 2 N, 3)
        node("Transpose", "h", "q", perm=[1, 0, 2]),
        node("Transpose", "h", "k", perm=[1, 2, 0]),
        node("MatMul", "q k", "scores"),
        node("Softmax", "scores", "p", axis=-1),
        node("MatMul", "p q", "o"),
        node("Transpose", "o", "swapped", perm=[1, 0, 2]),
        node("Reshape", "swapped joined", "j"),  # (5 N, 6)
        node("MatMul", "j w", "l"),
        node("Reshape", "l again", "a"),
        node("Transpose", "a", "y", perm=[1, 0, 2]),
    ]
    weights = {
        "apart": np.array([5, 2, 3]), "joined": np.array([5, 6]), "again": np.array([5, 1, 6]), "w": floats(6, 6)
    }  # fmt: skip
    net, x = made(tmp_path, nodes, [1, 5, 6], weights), floats(3, 5, 6)
    np.testing.assert_allclose(net(x), one_by_one(net, x), 1e-5, 1e-6)
    nn.Trainer(net, "mse", nn.SGD(0.1), batch_size=3, quiet=True).fit(x, x, epochs=1)


@pytest.mark.parametrize(
    "nodes",
    [
        [node("ReduceMean", "x first", "y", keepdims=1)],
        [node("Softmax", "x", "y", axis=0)],
        [node("CumSum", "x zero", "y")],
        [node("Transpose", "x", "t", perm=[1, 0]), node("MatMul", "x t", "y")],
        [node("Concat", "x x", "y", axis=0)],
        [node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Cast", "n", "f", to=1), node("Mul", "x f", "y")],
        [node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Range", "zero n one", "r"),
         node("Cast", "r", "f", to=1), node("Unsqueeze", "f first_", "c"), node("Add", "x c", "y")],
        [node("Gather", "x zero", "g", axis=0), node("Unsqueeze", "g first", "y")],
        [node("ReduceMean", "x first", "m", keepdims=1), node("Sub", "x m", "y")],
        [node("Relu", "x", "r"), node("Transpose", "r", "y", perm=[1, 0])],
        [node("Unsqueeze", "x first", "u"), node("LayerNormalization", "u w", "n", axis=-2), node("Squeeze", "n first", "y")],
        [node("Relu", "w", "y")],
    ],
)  # fmt: skip
def test_what_computes_across_samples_keeps_their_number(nodes: list[Any], tmp_path: Path) -> None:
    weights = {
        "first": np.array([0]), "first_": np.array([1]), "zero": np.array(0), "one": np.array(1),
        "w": floats(1, 4),
    }  # fmt: skip
    nodes = nodes if nodes[-1].input[0] != "w" else [node("Relu", "x", "unread"), *nodes]
    net = made(tmp_path, nodes, [1, 4], {k: v for k, v in weights.items() if any(k in n.input for n in nodes)})
    assert np.isfinite(net(floats(1, 4))).all()
    with pytest.raises(ValueError, match=REFUSED):
        net(floats(3, 4))


def test_a_path_that_the_number_of_samples_decides(tmp_path: Path) -> None:
    """A file that does something else for one sample is one for one sample."""
    nodes = [
        node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Equal", "n one", "single"),
        node("If", "single", "y", then_branch=graph([node("Relu", "x", "a")], [info("a")]),
             else_branch=graph([node("Neg", "x", "b")], [info("b")])),
    ]  # fmt: skip
    net = made(tmp_path, nodes, [1, 4], {"zero": np.array(0), "one": np.array(1)})
    x = floats(3, 4)
    with pytest.raises(ValueError, match=REFUSED + ".*N is"):
        net(x)
    np.testing.assert_array_equal(np.asarray(net.predict(x)), np.maximum(x, 0))


def info(name: str) -> Any:
    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)


def test_outputs_whose_first_axis_is_not_that_of_the_samples(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "y"), node("Transpose", "x", "h", perm=[1, 0, 2])]
    net = nn.from_onnx(write(tmp_path / "m.onnx", nodes, {"x": [1, 1, 4]}, ["y", "h"]))
    with pytest.raises(ValueError, match=REFUSED + r"samples are on axis 1 of output 1, of shape \(1, N, 4\)"):
        net(floats(3, 1, 4))
    nodes[1] = node("Transpose", "x", "h", perm=[1, 2, 0])
    net = nn.from_onnx(write(tmp_path / "m.onnx", nodes, {"x": [1, 2, 4]}, ["y", "h"]))
    with pytest.raises(
        ValueError, match=r"predict: output 1 has shape \(2, 4, 1\) for 1 sample, .*Call the network with"
    ):
        net.predict(floats(3, 2, 4))


def test_files_with_free_sizes_do_what_they_say(tmp_path: Path) -> None:
    """Nothing is to be proven where the file itself says that any number is possible."""
    net = made(tmp_path, [node("ReduceMean", "x first", "y", keepdims=1)], ["N", 4], {"first": np.array([0])})
    x = floats(3, 4)
    np.testing.assert_allclose(net(x), x.mean(0, keepdims=True), 1e-5)


def test_lookups_for_every_sample(tmp_path: Path) -> None:
    weights = {"table": floats(7, 4), "s": np.array([1, 12])}
    nodes = [node("Gather", "table x", "e"), node("Reshape", "e s", "y")]
    net = nn.from_onnx(write(tmp_path / "m.onnx", nodes, {"x": [1, 3]}, ["y"], weights, kinds={"x": INT64}))
    x = np.random.default_rng(0).integers(0, 7, (5, 3))
    np.testing.assert_array_equal(net(x), weights["table"][x].reshape(5, 12))


def test_programs_without_free_sizes_take_no_others(tmp_path: Path) -> None:
    text = "program(1.3) { func main<ios17>(tensor<fp32, [1, 4]> x) { tensor<fp32, [1, 4]> y = relu(x = x); } -> (y); }"
    path = coreml.write_package(coreml.make_model(coreml.parse(text)), tmp_path / "m.mlpackage")
    x = floats(3, 4)
    np.testing.assert_array_equal(nn.from_coreml(path)(x), np.maximum(x, 0))
    with pytest.raises(ValueError, match=r"input 'x' has shape \(3, 4\), but the program takes \(1, 4\)"):
        nn.from_coreml(path, batch_axis=None)(x)
    with pytest.raises(ValueError, match=r"input 'x' has shape \(3, 5\), but the program takes \(\?, 4\)"):
        nn.from_coreml(path)(floats(3, 5))
