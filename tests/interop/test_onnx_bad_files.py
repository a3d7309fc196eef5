"""Broken and hostile ONNX files: an error that names the place, little memory, never a crash."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import fuzz_onnx
from onnx_networks import FLOAT, floats, node, write
from openbnns import nn
from openbnns.cli import main
from openbnns.interop.onnx import OnnxError, Unsupported


def changed(path: Path, change: Any) -> Path:
    model = onnx.load(path, load_external_data=False)
    change(model)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture
def linear(tmp_path: Path) -> Path:
    nodes = [node("Gemm", "x w b", "h", transB=1), node("Relu", "h", "y")]
    return write(tmp_path / "m.onnx", nodes, {"x": ["N", 3]}, ["y"], {"w": floats(4, 3), "b": floats(4)})


def _dims(model: Any) -> None:
    model.graph.initializer[0].dims[0] = 2**40


def _no_graph(model: Any) -> None:
    model.ClearField("graph")


def _cycle(model: Any) -> None:
    model.graph.node[0].input[0] = "y"


def _unknown_type(model: Any) -> None:
    model.graph.initializer[0].data_type = 14


def _strings(model: Any) -> None:
    model.graph.input[0].type.tensor_type.elem_type = 8


def _nothing_computes(model: Any) -> None:
    model.graph.node[1].input[0] = "nothing"


def _twice(model: Any) -> None:
    model.graph.node[1].output[0] = "h"


def _old(model: Any) -> None:
    model.opset_import[0].version = 5


def _new(model: Any) -> None:
    model.opset_import[0].version = 99


def _negative(model: Any) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = -3


def _huge(model: Any) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 2**40


def _sequence(model: Any) -> None:
    model.graph.input[0].type.CopyFrom(helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [3])))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_dims, r"weight 'w' of shape \(1099511627776, 3\) needs \d+ bytes, but 48 are there"),
        (_no_graph, "has no graph"),
        (_cycle, "has a cycle, through Gemm 'Gemm_h', Relu 'Relu_y'"),
        (_unknown_type, "weight 'w' has elements of type 14"),
        (_strings, "input 'x' has elements of type 8"),
        (_nothing_computes, "Relu 'Relu_y' reads 'nothing', which nothing computes"),
        (_twice, "Relu 'Relu_y' computes 'h', which is there already"),
        (_old, "uses version 5 .* versions from 6 on are read"),
        (_new, "uses version 99 .* knows those up to"),
        (_negative, "input 'x' has an axis of size -3"),
        (
            _huge,
            r"a sample of input 'x', of shape \(N, 1099511627776\), takes 4 TiB, more than the limit of 1 GiB.*LIMIT=4096G",
        ),
        (_sequence, "input 'x' is not a tensor"),
    ],
)
def test_what_is_wrong_is_named(change: Any, message: str, linear: Path) -> None:
    with pytest.raises(OnnxError, match=message):
        nn.from_onnx(changed(linear, change))


def test_shapes_that_do_not_fit(tmp_path: Path) -> None:
    nodes = [node("Gemm", "x w", "y", transB=1)]
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 5]}, ["y"], {"w": floats(4, 3)})
    with pytest.raises(Unsupported, match=r"Gemm 'Gemm_y': \(N, 5\) and \(4, 3\) do not fit"):
        nn.from_onnx(path)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Cast", "x", "y", to=14)], r"Cast 'Cast_y': to=14 is a type that networks do not compute with"),
        ([node("Cast", "x", "s", to=7), node("Reshape", "x s", "y")], r"Reshape 'Reshape_y': .*must be a constant"),
        ([node("Cast", "x", "s", to=7), node("Expand", "x s", "y")], r"Expand 'Expand_y': .*must be a constant"),
        ([node("StringSplit", "x", "y")], r"StringSplit 'StringSplit_y': there is no operator StringSplit"),
        ([node("Add", "x four", "y")], r"Add 'Add_y': \(N, 3\) and \(4,\) do not fit"),
        ([node("Reshape", "x five", "y")], r"Reshape 'Reshape_y': "),
    ],
)
def test_types_and_shapes_that_nodes_cannot_have(nodes: list[Any], message: str, tmp_path: Path) -> None:
    """Unknown types, shapes that depend on the numbers of an input, and shapes that do not fit: the node is named."""
    weights = {"four": floats(4), "five": np.array([-1, 5])}
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 3]}, ["y"], weights)
    with pytest.raises(Unsupported, match=message):
        nn.from_onnx(path)


def _outside(model: Any, location: str) -> None:
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = 1
    weight.external_data.add(key="location", value=location)


def resize(given: str, **attributes: Any) -> Any:
    return helper.make_node("Resize", ["x", "", *given.split()], ["y"], **attributes)


ASKING = {
    "ConstantOfShape": [node("ConstantOfShape", "shape", "k"), node("Add", "x k", "y")],
    "Expand": [node("Expand", "x shape", "y")],
    "Tile": [node("Tile", "x shape", "y")],
    "Range": [node("Range", "zero many one", "k"), node("Add", "x k", "y")],
    "Pad": [node("Pad", "x pads", "y")],
    "OneHot": [node("OneHot", "indices depth values", "k"), node("Add", "x k", "y")],
    "Trilu": [node("Reshape", "x square", "s"), node("Expand", "s matrix", "k"), node("Trilu", "k", "y")],
    "Add": [node("Reshape", "x square", "s"), node("Expand", "s row", "r"), node("Add", "r column", "y")],
    "Conv": [node("Reshape", "x image", "s"), node("Conv", "s w", "y", pads=[2**18] * 4)],
    "nearest": [resize("scales", mode="nearest")],
    "linear": [resize("scales", mode="linear")],
    "cubic": [resize("scales", mode="cubic")],
}


@pytest.mark.parametrize("name", ASKING)
def test_memory_that_a_file_asks_for(name: str, tmp_path: Path) -> None:
    weights = {
        "shape": np.array([1, 2**40]), "zero": np.float32(0), "one": np.float32(1), "many": np.float32(2**40),
        "pads": np.array([0, 0, 0, 2_000_000_000]), "indices": np.array(1), "depth": np.array(2**40),
        "values": np.float32([0, 1]), "wide": np.array([1, 2**17]), "square": np.array([0, 1, 1]),
        "matrix": np.array([1, 2**15, 2**15]), "row": np.array([1, 1, 2**17]), "column": np.zeros((2**17, 1), np.float32),
        "image": np.array([0, 1, 1, 1]), "w": np.zeros((1, 1, 1, 1), np.float32), "scales": np.float32([1, 2**29]),
    }  # fmt: skip
    path = write(tmp_path / "m.onnx", ASKING[name], {"x": ["N", 1]}, ["y"], weights)
    tracemalloc.start()
    with pytest.raises(Unsupported, match=r"takes .* more than the limit of 1 GiB\..*OPENBNNS_MEMORY_LIMIT=\d+G"):
        nn.from_onnx(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**26


def test_the_limit_may_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(
        tmp_path / "m.onnx", [node("Pad", "x p", "y")], {"x": ["N", 1]}, ["y"], {"p": np.array([0, 0, 0, 999])}
    )
    monkeypatch.setenv("OPENBNNS_MEMORY_LIMIT", "3999")
    with pytest.raises(
        Unsupported, match=r"a tensor of shape \(N, 1000\) takes 3\.906 KiB, more than the limit of 3\.905 KiB"
    ):
        nn.from_onnx(path)
    monkeypatch.setenv("OPENBNNS_MEMORY_LIMIT", "4000")
    assert nn.from_onnx(path)(np.ones((2, 1), np.float32)).sum() == 2


def test_all_constants_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBNNS_MEMORY_LIMIT", "10000")
    nodes = [node("ConstantOfShape", "shape", f"k{i}") for i in range(20)]
    nodes.append(node("Sum", " ".join(f"k{i}" for i in range(20)), "k"))
    path = write(
        tmp_path / "m.onnx", [*nodes, node("Add", "x k", "y")], {"x": ["N", 1]}, ["y"], {"shape": np.array([1, 256])}
    )
    with pytest.raises(
        Unsupported, match=r"computed from constants up to here takes 10 KiB, more than the limit of 9\.766 KiB"
    ):
        nn.from_onnx(path)


@pytest.mark.parametrize("name", ["m.onnx", "m.mlmodel", "m.npz", "m.safetensors"])
def test_folders_and_pipes_are_named(name: str, tmp_path: Path) -> None:
    def open_it(path: Path) -> None:
        if name == "m.onnx":
            nn.from_onnx(path)
        elif name == "m.mlmodel":
            nn.from_mlmodel(path)
        else:
            nn.Sequential(nn.Linear(2, 2)).build((2,), seed=0).load(path)

    (tmp_path / "folder").mkdir()
    folder, pipe = tmp_path / "folder" / name, tmp_path / name
    folder.mkdir()
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match=rf"{name}: is a folder\. Give the path of a file"):
        open_it(folder)
    with pytest.raises(ValueError, match=rf"{name}: is not a regular file but a pipe, a device or the like"):
        open_it(pipe)
    with pytest.raises(FileNotFoundError, match=name):
        open_it(tmp_path / f"other{name}")


def test_data_in_a_pipe(linear: Path) -> None:
    os.mkfifo(linear.parent / "w.bin")
    with pytest.raises(OnnxError, match=r"lies in 'w\.bin', which is not a regular file"):
        nn.from_onnx(changed(linear, lambda model: _outside(model, "w.bin")))


@pytest.mark.parametrize("location", ["../w.bin", "/etc/hostname", "a/../../w.bin", "", "link.bin", "..\\w.bin"])
def test_data_outside_the_folder_is_refused(location: str, linear: Path) -> None:
    folder = linear.parent / "inner"
    folder.mkdir()
    (linear.parent / "w.bin").write_bytes(bytes(48))
    (folder / "link.bin").symlink_to(linear.parent / "w.bin")

    path = folder / "m.onnx"
    path.write_bytes(changed(linear, lambda model: _outside(model, location)).read_bytes())
    with pytest.raises(OnnxError, match=r"weight 'w' lies in .*outside the folder of the model"):
        nn.from_onnx(path)


def test_data_beside_the_model(linear: Path) -> None:
    expected = nn.from_onnx(linear)(np.ones((2, 3), np.float32))
    model = onnx.load(linear)
    onnx.save(model, linear, save_as_external_data=True, location="w.bin", size_threshold=0)
    np.testing.assert_array_equal(nn.from_onnx(linear)(np.ones((2, 3), np.float32)), expected)
    (linear.parent / "w.bin").write_bytes(b"short")
    with pytest.raises(OnnxError, match=r"needs \d+ bytes from \d+ on in 'w.bin', which has 5"):
        nn.from_onnx(linear)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    for data in (b"", b"not a model", bytes(range(256)) * 9):
        path.write_bytes(data)
        with pytest.raises(OnnxError, match=r"m\.onnx: (is not an ONNX file|has no graph|names \d+ versions)"):
            nn.from_onnx(path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        nn.from_onnx(tmp_path / "nothing.onnx")


def test_a_thousand_damaged_files() -> None:
    """Others than those of ``make fuzz``."""
    outcomes = fuzz_onnx.run(1000, seed=1)
    assert (
        sum(outcomes.values()) == 1000 and min(outcomes["read"], outcomes["OnnxError"], outcomes["Unsupported"]) > 50
    ), outcomes


def test_operators_in_blocks_name_the_cure(tmp_path: Path) -> None:
    """onnxruntime's highest level of optimization writes weights in the layout of one processor."""
    made = onnx.helper.make_node("Conv", ["x", "w"], ["y"], domain="com.microsoft.nchwc")
    path = write(
        tmp_path / "model.onnx", [made], {"x": ["N", 16, 4, 4]}, ["y"], {"w": np.zeros((16, 16, 1, 1), np.float32)}
    )
    with pytest.raises(nn.onnx.Unsupported, match=r"com\.microsoft\.nchwc\.Conv.*(?s:.*)ORT_ENABLE_EXTENDED"):
        nn.from_onnx(path)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (["TreeEnsembleClassifier"], "TreeEnsembleClassifier is not a network"),
        (["Scaler", "SVMRegressor"], "Scaler, SVMRegressor are not networks"),
    ],
)
def test_models_that_are_not_networks(
    kinds: list[str], message: str, inside: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Trees and their like, also in a branch of an If."""
    nodes = [helper.make_node(kind, [f"x{i}"], [f"x{i + 1}"], domain="ai.onnx.ml") for i, kind in enumerate(kinds)]
    if inside:
        result = helper.make_tensor_value_info(f"x{len(nodes)}", FLOAT, None)
        branch = helper.make_graph(nodes, "branch", [], [result])
        nodes = [helper.make_node("If", ["yes"], ["x9"], then_branch=branch, else_branch=branch)]
    path = write(tmp_path / "trees.onnx", nodes, {"x0": ["N", 3]}, [nodes[-1].output[0]], {"yes": np.array(True)})
    with pytest.raises(nn.onnx.Unsupported, match=rf"trees\.onnx: {message}: run this model with onnxruntime\.$"):
        nn.from_onnx(path)
    assert main(["inspect", str(path)]) == 1
    assert f"{message}: run this model with onnxruntime." in "".join(capsys.readouterr())


def test_files_that_name_no_version_of_operators_of_onnx(tmp_path: Path) -> None:
    """They need none as long as all nodes are of other domains."""
    made = [helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")]
    path = write(tmp_path / "m.onnx", made, {"x": ["N", 3]}, ["y"], {})
    model = onnx.load(path)
    for entry in [entry for entry in model.opset_import if not entry.domain]:
        model.opset_import.remove(entry)
    path.write_bytes(model.SerializeToString())
    x = floats(2, 3)
    np.testing.assert_array_equal(nn.from_onnx(path)(x), nn.functional.gelu(x))
    model.graph.node.append(helper.make_node("Relu", ["x"], ["z"]))
    path.write_bytes(model.SerializeToString())
    with pytest.raises(OnnxError, match="names 0 versions of ONNX's operators"):
        nn.from_onnx(path)
