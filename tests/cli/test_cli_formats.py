"""Models of other programs on the command line: inspected, run on data of every kind, and imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_networks import by_reference
from openbnns import cli, nn

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def run(*arguments: Any) -> int:
    return cli.main([str(a) for a in arguments])


def write(path: Path, nodes: list[Any], inputs: dict[str, tuple[int, list[Any]]], outputs: list[str]) -> Path:
    """A model; ``w`` is a weight of eight rows, ``one`` a number."""
    weights = {"w": np.random.RandomState(0).standard_normal((8, 3)).astype(np.float32), "one": np.array([1])}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 10
    path.write_bytes(model.SerializeToString())
    return path


def linear(folder: Path) -> Path:
    """Eight numbers in, three out."""
    return write(
        folder / "linear.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (FLOAT, ["N", 8])}, ["y"]
    )


def two_inputs(folder: Path) -> Path:
    """Words of a text and a factor, two outputs, and two free sizes."""
    nodes = [
        helper.make_node("Gather", ["w", "words"], ["rows"]),
        helper.make_node("ReduceMean", ["rows"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("Mul", ["mean", "factor"], ["y"]),
    ]
    inputs = {"words": (INT64, ["N", "T"]), "factor": (FLOAT, ["N", 1])}
    return write(folder / "two.onnx", nodes, inputs, ["y", "mean"])


def picture(folder: Path, shape: list[Any]) -> Path:
    return write(folder / "picture.onnx", [helper.make_node("Identity", ["x"], ["y"])], {"x": (FLOAT, shape)}, ["y"])


def test_inspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = two_inputs(tmp_path)
    assert run("inspect", path) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "format ONNX, opset 17 inputs words: whole numbers (N, T) factor: numbers (N, 1)" in told
    assert "outputs y: numbers (N, 3) mean: numbers (N, 3) free sizes N, T numbers in weights 25" in told
    assert "1 Gather 1 ReduceMean 1 Mul" in told and f"runs yes: openbnns predict {path} DATA" in told
    assert run("inspect", path, "--json", "--size", "T=5") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["runs"] and said["problems"] == [] and said["free_sizes"] == ["N"]
    assert said["inputs"][0] == {"name": "words", "type": "whole numbers", "shape": ["N", 5]}


def test_inspect_fails_if_the_model_cannot_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [
        helper.make_node(op, ["x"], [f"y{i}"], name=f"n{i}", domain="my.own") for i, op in enumerate(("Foo", "Bar"))
    ]
    path = write(tmp_path / "odd.onnx", nodes, {"x": (FLOAT, ["N", 8])}, ["y0", "y1"])
    assert run("inspect", path) == 1
    told = capsys.readouterr().out
    assert "my.own.Foo 'n0'" in told and "my.own.Bar 'n1'" in told and "cannot run" in told
    assert run("inspect", path, "--json") == 1
    said = json.loads(capsys.readouterr().out)
    assert not said["runs"] and len(said["problems"]) == 2 and said["operations"] == {"my.own.Foo": 1, "my.own.Bar": 1}
    (tmp_path / "damaged.onnx").write_bytes(b"nothing of the kind")
    assert run("inspect", tmp_path / "damaged.onnx") == 2


def test_predict_takes_arrays_by_the_names_of_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, random = two_inputs(tmp_path), np.random.RandomState(1)
    words, factor = random.randint(0, 8, (7, 4)), random.standard_normal((7, 1)).astype(np.float32)
    np.savez(tmp_path / "in.npz", factor=factor, words=words)
    assert run("predict", path, tmp_path / "in.npz", "-o", tmp_path / "out.npz", "--batch-size", 3) == 0
    assert f"y, mean written to {tmp_path / 'out.npz'}" in capsys.readouterr().out
    with np.load(tmp_path / "out.npz") as archive:
        for name, expected in zip(("y", "mean"), by_reference(path, [words, factor]), strict=True):
            np.testing.assert_allclose(archive[name], expected, 1e-5, 1e-6)
    np.savez(tmp_path / "in.npz", word=words, factor=factor)
    assert run("predict", path, tmp_path / "in.npz") == 2
    assert (
        "has no array 'words', but word, factor. The inputs of the model are words, factor" in capsys.readouterr().err
    )
    np.save(tmp_path / "in.npy", words)
    assert run("predict", path, tmp_path / "in.npy") == 2
    assert "has 2 inputs. Give a .npz file with arrays words, factor" in capsys.readouterr().err
    np.savez(tmp_path / "in.npz", factor=factor, words=words)
    assert run("predict", path, tmp_path / "in.npz", "-o", tmp_path / "out.csv") == 2
    assert "outputs are y (7, 3), mean (7, 3). Give a name that ends in .npz" in capsys.readouterr().err


def test_predict_takes_tables_of_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, x = linear(tmp_path), np.random.RandomState(2).standard_normal((5, 8)).astype(np.float32)
    lines = [",".join("abcdefgh"), *(",".join(map(str, row)) for row in x.tolist())]
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    (expected,) = by_reference(path, [x])
    assert run("predict", path, tmp_path / "x.csv", "--json") == 0
    said = json.loads(capsys.readouterr().out)["outputs"]["y"]
    assert said["shape"] == [5, 3]
    np.testing.assert_allclose(said["values"], expected, 1e-4, 1e-5)
    assert run("predict", path, tmp_path / "x.csv", "-o", tmp_path / "y.csv") == 0
    assert len((tmp_path / "y.csv").read_text().splitlines()) == 6
    np.testing.assert_allclose(np.genfromtxt(tmp_path / "y.csv", delimiter=",", skip_header=1), expected, 1e-4, 1e-5)
    (tmp_path / "x.csv").write_text(lines[0] + "\n" + "1,2,3,4,5,6,7,tall\n" * 3)
    assert run("predict", path, tmp_path / "x.csv") == 2
    assert "line 2: column 'h' is 'tall', which is not a number" in capsys.readouterr().err


@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
def test_predict_takes_images(last: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = pytest.importorskip("PIL.Image")
    pixels = np.random.RandomState(3).randint(0, 256, (6, 9, 3)).astype(np.uint8)
    images.fromarray(pixels).save(tmp_path / "x.png")
    path = picture(tmp_path, ["N", "H", "W", 3] if last else ["N", 3, "H", "W"])
    assert run("predict", path, tmp_path / "x.png", "-o", tmp_path / "y.npz") == 0
    expected = pixels[None] / np.float32(255)
    with np.load(tmp_path / "y.npz") as archive:
        np.testing.assert_allclose(archive["y"], expected if last else expected.transpose(0, 3, 1, 2), 1e-6)
    assert run("predict", path, tmp_path / "x.png", "--size", "H=4", "--size", "W=5", "-o", tmp_path / "y.npz") == 0
    with np.load(tmp_path / "y.npz") as archive:
        assert archive["y"].shape == ((1, 4, 5, 3) if last else (1, 3, 4, 5))
    capsys.readouterr()
    assert run("predict", path, tmp_path / "x.png", "--size", "height=4") == 2
    assert "has no free size 'height'. Its free sizes are N, H, W" in capsys.readouterr().err
    assert run("predict", linear(tmp_path), tmp_path / "x.png") == 2
    assert "is an image, but the input of the model has shape (N, 8). Give a .npy file" in capsys.readouterr().err


def test_import_fixes_free_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = two_inputs(tmp_path)
    assert run("import", path, "--size", "T=4", "-o", tmp_path / "m.safetensors", "--quiet") == 0
    net = nn.load_model(tmp_path / "m.safetensors")
    words, factor = np.ones((2, 4), np.int64), np.ones((2, 1), np.float32)
    assert net(words, factor)[0].shape == (2, 3)
    with pytest.raises(ValueError, match=r"the model takes \(N, 4\)"):
        net(np.ones((2, 5), np.int64), factor)
    assert run("import", tmp_path / "m.safetensors", "-o", tmp_path / "n.safetensors") == 2
    assert "cannot be imported. Give a file of .onnx, .mlmodel" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run("inspect", path, "--size", "T")
    assert "'T' is not NAME=NUMBER, such as T=128" in capsys.readouterr().err


def test_a_model_that_went_to_onnx_is_measured_exported_and_timed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.random.RandomState(1).standard_normal((80, 2)).astype(np.float32)
    rows = "\n".join(f"{a:.3f},{b:.3f},{'up' if a > b else 'down'}" for a, b in x)
    (tmp_path / "table.csv").write_text(f"a,b,way\n{rows}\n")
    folder = tmp_path / "run"
    assert run("train", tmp_path / "table.csv", "--target", "way", "--epochs", 1, "--out", folder, "--quiet") == 0
    ours, onnx_file = folder / "model.safetensors", tmp_path / "model.onnx"
    assert run("export", ours, "--to", "onnx", "-o", onnx_file, "--quiet") == 0
    scores = []
    for path in (ours, onnx_file):
        capsys.readouterr()
        assert run("evaluate", path, tmp_path / "table.csv", "--json") == 0
        scores.append(json.loads(capsys.readouterr().out)["scores"])
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)
    assert run("bench", onnx_file, "--seconds", 0.01, "--json") == 0
    assert json.loads(capsys.readouterr().out)["cases"][0]["training_seconds"] > 0
    assert run("export", onnx_file, "--to", "npz", "-o", tmp_path / "w.npz", "--quiet") == 0
    assert set(np.load(tmp_path / "w.npz")) == set(nn.load_model(ours).state_dict())
    assert run("export", onnx_file, "--to", "coreml", "-o", tmp_path / "m.mlpackage", "--quiet") == 0
    assert run("evaluate", tmp_path / "m.mlpackage", tmp_path / "table.csv") == 2
    assert "the model does not say how data are prepared for it" in capsys.readouterr().err
    assert run("predict", folder, tmp_path / "table.csv") == 2
    assert f"run: is a folder. Give the path of a file. Did you mean {ours}?" in capsys.readouterr().err


def test_sizes_of_foreign_models_on_all_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = linear(tmp_path)
    assert run("evaluate", path, "digits") == 2
    assert "linear.onnx: does not say what its outputs mean" in capsys.readouterr().err
    assert run("bench", two_inputs(tmp_path)) == 2
    assert "takes words (whole numbers), factor (numbers), but bench times networks that" in capsys.readouterr().err
    assert run("import", path, "-o", tmp_path / "ours.safetensors", "--quiet") == 0
    assert run("bench", tmp_path / "ours.safetensors", "--size", "N=2") == 2
    assert "--size is for ONNX models. Leave it out." in capsys.readouterr().err
    assert run("export", path, "--to", "c", "-o", tmp_path / "code", "--size", "N=4", "--quiet") == 0
    assert "input: 32 float per sample" in (tmp_path / "code" / "network.h").read_text()
