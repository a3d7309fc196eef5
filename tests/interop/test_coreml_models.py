"""MLModel as coremltools spells it: images, classes, states, functions, descriptions; and the commands that take such files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coreml_programs
import openbnns
from openbnns import cli
from openbnns.coreml import CoreMLError, MLModel, inspect
from openbnns.interop import coreml


def package(folder: Path, text: str, name: str = "model.mlpackage", description: Any = None) -> Path:
    return coreml.write_package(coreml.make_model(coreml.parse(text), description), folder / name)


SQUARE = """program(1.3) { func main<ios17>(tensor<fp16, [?, 3]> x) {
    tensor<fp16, [?, 3]> y = square(x = x); fp16 s = reduce_sum(x = y, keep_dims = bool(false));
    } -> (y, s); }"""


def test_a_model_takes_what_coremltools_takes(tmp_path: Path) -> None:
    model = openbnns.coreml.models.MLModel(
        package(tmp_path, SQUARE), compute_units=openbnns.coreml.ComputeUnit.CPU_ONLY
    )
    assert list(model.input_description) == ["x"] and list(model.output_description) == ["y", "s"]
    for x in (np.float64([[1, 2, 3]]), [[1, 2, 3]], np.float16([[1, 2, 3]])):
        predicted = model.predict({"x": x})
        assert predicted["y"].tolist() == [[1, 4, 9]] and predicted["y"].dtype == np.float16
        assert predicted["s"].shape == (1,) and predicted["s"] == 14  # Core ML has no arrays without axes
    both = model.predict([{"x": [[1, 2, 3]]}, {"x": [[0, 0, 1], [2, 2, 2]]}])
    assert [one["y"].shape for one in both] == [(1, 3), (2, 3)]
    assert (
        MLModel(tmp_path / "model.mlpackage", precision="float32").predict({"x": [[1, 2, 3]]})["y"].dtype == np.float32
    )
    with pytest.raises(TypeError, match=r"data is a ndarray. Pass a dictionary of inputs by name, or a list of such"):
        model.predict(np.zeros(3))
    with pytest.raises(ValueError, match=r"'x' has shape \(2, 4\), but the model takes \(1 to any, 3\)"):
        model.predict({"x": np.zeros((2, 4))})
    with pytest.raises(ValueError, match=r"a state is for one prediction at a time"):
        model.predict([{"x": [[1, 2, 3]]}], model.make_state())


@pytest.mark.parametrize(
    ("space", "mode", "channels"), [("RGB", "RGB", [0, 1, 2]), ("BGR", "RGB", [2, 1, 0]), ("grayscale", "L", [0])]
)
def test_images_have_the_layout_of_the_description(tmp_path: Path, space: str, mode: str, channels: list[int]) -> None:
    image = pytest.importorskip("PIL.Image")
    count = len(channels)
    text = f"""program(1.3) {{ func main<ios17>(tensor<fp32, [1, {count}, 4, 5]> picture) {{
        tensor<fp32, [1, {count}, 4, 5]> half = mul(x = picture, y = fp32(0.5)); tensor<fp32, [1, {count}, 4, 5]> same =
        identity(x = picture); }} -> (half, same); }}"""
    feature = coreml.ImageFeature(5, 4, space)
    described = coreml.Description(
        inputs=[coreml.Feature("picture", feature, "what to look at")],
        outputs=[
            coreml.Feature("half", coreml.ArrayFeature((1, count, 4, 5), "float32")), coreml.Feature("same", feature),
        ],
    )  # fmt: skip
    model = MLModel(package(tmp_path, text, description=described))
    assert model.input_description["picture"] == "what to look at"
    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, 3) if count > 1 else (4, 5)).astype(np.uint8)
    predicted = model.predict({"picture": image.fromarray(pixels, mode)})
    planes = pixels[None] if count == 1 else pixels.transpose(2, 0, 1)[channels]
    np.testing.assert_array_equal(predicted["half"], planes[None] * np.float32(0.5))
    np.testing.assert_array_equal(np.asarray(predicted["same"]), pixels)
    with pytest.raises(ValueError, match=r"an image of 4 x 4 pixels, but the model takes 5 x 4. Resize it first"):
        model.predict({"picture": image.new(mode, (4, 4))})
    with pytest.raises(TypeError, match=r"'picture' is a ndarray, but the model takes an image"):
        model.predict({"picture": np.zeros((1, count, 4, 5), np.float32)})


def test_a_classifier_gives_a_label_and_probabilities_by_class(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    model = MLModel(coreml.write_package(coreml_programs.classifier(), tmp_path / "classifier.mlpackage"))
    assert (model.short_description, model.version, model.author) == ("what it is", "2", "me")
    predicted = model.predict({"image": image.new("RGB", (5, 4), (1, 0, 2))})
    assert set(predicted) == {"label", "label_probs"}
    assert sorted(predicted["label_probs"]) == ["ant", "cat", "dog"]
    assert predicted["label"] == max(predicted["label_probs"], key=predicted["label_probs"].__getitem__)
    assert sum(predicted["label_probs"].values()) == pytest.approx(1, abs=1e-6)


def test_states_functions_and_lists(tmp_path: Path) -> None:
    text = coreml_programs.NEW.replace("relu<ios17>", "relu")
    path = package(tmp_path, text)
    model, x = MLModel(path, function_name="main"), np.float16([[1, 2, 3], [4, 5, 6]])
    state = model.make_state()
    table = np.float16([[0, 1, 2], [3, 0, 1]])
    first = model.predict({"x": x, "n": [2]}, state)["result"]
    np.testing.assert_array_equal(first, 2 * table)
    np.testing.assert_array_equal(state.read_state("cache"), 2 * table)
    second = model.predict({"x": x, "n": [1]}, state)["result"]
    np.testing.assert_array_equal(second, (3 * table) * x)
    state.write_state("cache", np.zeros((2, 3)))
    np.testing.assert_array_equal(model.predict({"x": x, "n": [2]}, state)["result"], 2 * table)
    with pytest.raises(ValueError, match=r"there is no state 'cash'. There are 'cache'"):
        state.read_state("cash")
    with pytest.raises(ValueError, match=r"the model has states. Pass state=model.make_state\(\)"):
        model.predict({"x": x, "n": [2]})
    assert MLModel(path, function_name="second").predict({"x": [-3.0]})["y"].tolist() == [0.0]
    with pytest.raises(ValueError, match=r"there is no function 'third'. It has 'main', 'second'"):
        MLModel(path, function_name="third")


def test_all_forms_of_a_file_predict_the_same(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 3)).astype(np.float16)
    path = package(tmp_path, SQUARE)
    compiled = coreml.write_compiled(coreml.read(path), tmp_path / "model.mlmodelc")
    predictions = [MLModel(one).predict({"x": x})["y"] for one in (path, compiled, compiled / "model.mil")]
    np.testing.assert_array_equal(predictions[0], predictions[1])
    np.testing.assert_array_equal(predictions[0], predictions[2])


def test_default_values_stand_in_for_optional_inputs(tmp_path: Path) -> None:
    text = """program(1.3) { func main<ios17>(tensor<fp32, [2]> x, tensor<fp32, [2]> shift) {
        tensor<fp32, [2]> y = add(x = x, y = shift); } -> (y); }"""
    array = coreml.ArrayFeature((2,), "float32", default=3.0)
    described = coreml.Description(
        inputs=[coreml.Feature("x", coreml.ArrayFeature((2,), "float32")), coreml.Feature("shift", array, optional=True)],
        outputs=[coreml.Feature("y", coreml.ArrayFeature((2,), "float32"))],
    )  # fmt: skip
    model = MLModel(package(tmp_path, text, description=described))
    assert model.predict({"x": [1, 2]})["y"].tolist() == [4, 5]
    assert model.predict({"x": [1, 2], "shift": [0, 1]})["y"].tolist() == [1, 3]


# Inspection and commands.


def test_inspection_finds_what_a_model_holds(tmp_path: Path) -> None:
    inspection = inspect(coreml_programs.packages(tmp_path)[3])  # new.mlpackage
    main, second = inspection.functions
    assert inspection.runs and (main.name, second.name) == ("main", "second")
    assert main.operations["while_loop"] == 1 and main.operations["greater"] == 2
    assert main.compression == {"constexpr_lut_to_dense": 1}
    assert main.states == [("cache", "state<tensor<fp16, [2, 3]>>")]
    assert ("n", "tensor<int32, [1]>") in main.inputs


def test_inspection_knows_the_rules_of_bnnsgraph(tmp_path: Path) -> None:
    path = package(tmp_path, "program(1.3) { func main<ios17>(tensor<fp32, [1]> x) { } -> (x); }")
    (warning,) = inspect(path).functions[0].warnings
    assert "'x' is an input and an output at once" in warning
    warnings = (
        inspect(coreml.write_package(coreml_programs.classifier(), tmp_path / "c.mlpackage")).functions[0].warnings
    )
    assert len(warnings) == 2 and "BNNSGraph gives nothing but tensors" in warnings[0]


def test_commands_inspect_and_predict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = package(tmp_path, SQUARE)
    assert cli.main(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "input   x: tensor<fp16, [?, 3]>" in shown and "reduce_sum 1, square 1" in shown
    assert cli.main(["inspect", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] is True
    x = np.float32([[1, 2, 3]])
    np.savez(tmp_path / "inputs.npz", x=x)
    np.save(tmp_path / "x.npy", x)
    for data in ("inputs.npz", "x.npy"):
        assert cli.main(["predict", str(path), str(tmp_path / data), "-o", str(tmp_path / "out.npz"), "--quiet"]) == 0
        with np.load(tmp_path / "out.npz") as written:
            assert written["y"].tolist() == [[1, 4, 9]]
    assert cli.main(["predict", str(path), str(tmp_path / "x.npy"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"]["y"] == [[1, 4, 9]]
    assert cli.main(["predict", str(path), str(tmp_path / "x.npy"), "-o", str(tmp_path / "out.csv")]) == 2
    assert "Give a name that ends in .npz" in capsys.readouterr().err
    np.savez(tmp_path / "inputs.npz", x=x, z=x)
    assert cli.main(["predict", str(path), str(tmp_path / "inputs.npz")]) == 2
    assert "there is no input 'z'. It takes 'x'" in capsys.readouterr().err


@pytest.mark.parametrize("doubtful", [True, False])
def test_a_cell_that_sources_disagree_about_is_named(doubtful: bool, tmp_path: Path) -> None:
    weights = {"weight_ih": [[0.5]] * 3, "weight_hh": [[0.25]] * 3}
    inputs = "".join(f", {name} = tensor<fp32, [3, 1]>({numbers})" for name, numbers in weights.items())
    more = "" if doubtful else ", reset_after = bool(true)"
    text = f"""program(1.3) {{ func main<ios18>(tensor<fp32, [2, 1, 1]> x, tensor<fp32, [1, 1]> h) {{
        tensor<fp32, [1, 1, 1]> y, tensor<fp32, [1, 1]> last = gru(x = x, initial_h = h{inputs}{more}); }} -> (y); }}"""
    (function,) = inspect(package(tmp_path, text)).functions
    named = [warning for warning in function.warnings if "gru 'y': the state is reset before" in warning]
    assert len(named) == int(doubtful)


def test_a_model_that_cannot_run_fails_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "model.mil"
    text.write_text(
        "program(1.3) { func main<ios17>(tensor<fp32, [1]> x) { tensor<fp32, [1]> y = reluu(x = x); } -> (y); }"
    )
    assert cli.main(["inspect", str(text)]) == 1
    assert "there is no operation 'reluu'. Did you mean relu?" in capsys.readouterr().out
    with pytest.raises(CoreMLError, match=r"there is no operation 'reluu'"):
        MLModel(text)
    assert cli.main(["inspect", str(tmp_path / "missing.mlpackage")]) == 2


def test_operations_that_cannot_run_are_all_listed(tmp_path: Path) -> None:
    text = """program(1.3) { func main<ios17>(tensor<fp32, [1]> x) {
        tensor<fp32, [1]> s = _const_symbolic(val = fp32(1)); tensor<fp32, [1]> y = add(x = x, y = s); } -> (y); }"""
    inspection = inspect(package(tmp_path, text))
    assert not inspection.runs
    assert any("the operation _const_symbolic cannot be run here" in line for line in inspection.lines())
