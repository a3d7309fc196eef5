"""MLModel on models that are not ML programs: neural networks of the old kind, pipelines, suppression of boxes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import coreml as ct
from openbnns.interop import coreml
from openbnns.interop.coreml import ArrayFeature, Description, Feature, ScalarFeature, suppression
from openbnns.interop.coreml.description import write_description
from openbnns.interop.protobuf import Message, encode

RNG = np.random.default_rng(3)
WEIGHTS = RNG.standard_normal((3, 4)).astype(np.float32)


def arrays(**shapes: tuple[int, ...]) -> list[Feature]:
    return [Feature(name, ArrayFeature(shape, "float32")) for name, shape in shapes.items()]


def double(number: int, value: float) -> bytes:
    """A field that holds a double."""
    key = number << 3 | 1
    return bytes([key & 127 | 128, key >> 7]) + struct.pack("<d", value)


def softmax_of_products(kind: int, *labels: str) -> bytes:
    """softmax(W x) as a neural network (500) or classifier (403)."""
    product = encode([(1, 4), (2, 3), (20, encode([(1, WEIGHTS.tobytes())]))])
    layers = [
        (1, encode([(1, "product"), (2, "x"), (3, "z"), (140, product)])),
        (1, encode([(1, "softmax"), (2, "z"), (3, "y"), (175, b"")])),
    ]
    inputs = arrays(x=(4,))
    about = Description(inputs=inputs, outputs=arrays(y=(3,)))
    if labels:
        layers.append((100, encode((1, label) for label in labels)))
        scores = Feature("y", coreml.DictionaryFeature("string"))
        about = Description("", inputs, [scores, Feature("label", ScalarFeature("string"))], [], "label", "y")
    return encode([(1, 4), (2, write_description(about)), (kind, encode(layers))])


def expected(x: np.ndarray) -> np.ndarray:
    e = np.exp(WEIGHTS.astype(np.float64) @ x)
    return e / e.sum()


def saved(folder: Path, message: bytes) -> ct.MLModel:
    (folder / "old.mlmodel").write_bytes(message)
    return ct.models.MLModel(folder / "old.mlmodel")


def test_a_neural_network_predicts_one_sample(tmp_path: Path) -> None:
    model, x = saved(tmp_path, softmax_of_products(500)), RNG.standard_normal(4).astype(np.float32)
    np.testing.assert_allclose(model.predict({"x": x})["y"], expected(x), rtol=1e-5)
    spec = model.get_spec()
    assert (spec.WhichOneof("Type"), spec.description.input[0].type.multiArrayType.shape) == ("neuralNetwork", [4])
    assert spec.description.output[0].type.WhichOneof("Type") == "multiArrayType"
    with pytest.raises(ValueError, match=r"the input 'x' is missing. It takes 'x'"):
        model.predict({})
    with pytest.raises(
        ValueError, match=r"is of the kind neuralNetwork, which has no functions. Leave function_name out"
    ):
        ct.MLModel(tmp_path / "old.mlmodel", function_name="main")


def test_a_classifier_of_the_old_kind_gives_probabilities(tmp_path: Path) -> None:
    model, x = saved(tmp_path, softmax_of_products(403, "ant", "bee", "cat")), RNG.standard_normal(4)
    predicted = model.predict({"x": x})
    np.testing.assert_allclose(list(predicted["y"].values()), expected(x), rtol=1e-5)
    assert predicted["label"] == ("ant", "bee", "cat")[int(expected(x).argmax())] and list(predicted) == ["y", "label"]


def suppressing(**names: Any) -> bytes:
    options = [(1, encode([(1, True)]))] if names.get("per_class") else []
    options += [(200, "scores"), (201, "boxes"), (202, "overlap"), (203, "least"), (210, "confidence"), (211, "place")]
    held = encode(options) + double(110, 0.45) + double(111, 0.25)
    inputs = [*arrays(scores=(9, 2), boxes=(9, 4)), Feature("overlap", ScalarFeature("double"), "", True)]
    about = Description(inputs=inputs, outputs=arrays(confidence=(9, 2), place=(9, 4)))
    return encode([(1, 4), (2, write_description(about)), (610, held)])


def test_a_pipeline_runs_its_parts_in_order(tmp_path: Path) -> None:
    text = """program(1.0) { func main<ios15>(tensor<fp32, [5, 6]> x) {
        tensor<fp32, [5, 2]> scores, tensor<fp32, [5, 4]> boxes =
            split(x = x, split_sizes = tensor<int32, [2]>([2, 4]), axis = tensor<int32, []>(1)); } -> (scores, boxes); }"""
    package = coreml.write_package(coreml.make_model(coreml.parse(text)), tmp_path / "detector.mlpackage")
    inside = package / "Data" / "com.apple.CoreML" / "model.mlmodel"
    pipeline = encode([(1, inside.read_bytes()), (1, suppressing())])
    inputs = [*arrays(x=(5, 6)), Feature("overlap", ScalarFeature("double"), "", True)]
    about = Description(inputs=inputs, outputs=arrays(confidence=(5, 2), place=(5, 4)))
    inside.write_bytes(encode([(1, 6), (2, write_description(about)), (202, pipeline)]))
    model = ct.MLModel(package)
    x = np.float32([
        [0.2, 0.9, 0.5, 0.5, 0.2, 0.2], [0.8, 0.1, 0.51, 0.5, 0.2, 0.2], [0.1, 0.2, 0.1, 0.1, 0.1, 0.1],
        [0.6, 0.2, 0.8, 0.8, 0.1, 0.1], [0.2, 0.2, 0.5, 0.5, 0.2, 0.2],
    ])  # fmt: skip
    predicted = model.predict({"x": x})
    np.testing.assert_array_equal(predicted["confidence"], x[[0, 3], :2])
    np.testing.assert_array_equal(predicted["place"], x[[0, 3], 2:])
    assert model.predict({"x": x, "overlap": 0.99})["place"].shape == (3, 4)
    with pytest.raises(ValueError, match=r"there is no input 'y'. It takes 'x', 'overlap'"):
        model.predict({"x": x, "y": 1})
    with pytest.raises(ValueError, match=r"is a pipeline, which has no states"):
        model.make_state()


def test_a_pipeline_with_another_part_is_refused_by_name(tmp_path: Path) -> None:
    part = encode([(1, 4), (2, b""), (2000, b"")])
    with pytest.raises(coreml.CoreMLError, match=r"has the kind textClassifier. ML programs, neural networks, nonMax"):
        saved(tmp_path, encode([(1, 4), (2, b""), (200, encode([(1, encode([(1, part)]))]))]))


@pytest.mark.parametrize("per_class", [False, True])
def test_boxes_that_stay_do_not_overlap_and_those_that_go_do(per_class: bool) -> None:
    options = suppression.read(Message(memoryview(suppressing(per_class=per_class)), "test"))
    assert (options.per_class, options.overlap, options.confidence) == (per_class, 0.45, 0.25)
    for count in (0, 1, 40):
        boxes = np.concatenate([RNG.random((count, 2)), 0.1 + 0.3 * RNG.random((count, 2))], 1).astype(np.float32)
        scores = RNG.random((count, 2)).astype(np.float32)
        outputs = suppression.suppressed(options, {"scores": scores, "boxes": boxes})
        best, kind = scores.max(1), scores.argmax(1)
        kept = [int(np.flatnonzero((scores == row).all(1))[0]) for row in outputs["confidence"]]
        assert best[kept].tolist() == sorted(best[kept].tolist(), reverse=True)
        for i in range(count):
            rivals = [j for j in kept if best[j] > best[i] and (not per_class or kind[i] == kind[j])]
            hidden = any(overlap(boxes[i], boxes[j]) > options.overlap for j in rivals)
            assert (i in kept) == (best[i] > options.confidence and not hidden)


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    sides = [
        max(0.0, min(a[k] + a[k + 2] / 2, b[k] + b[k + 2] / 2) - max(a[k] - a[k + 2] / 2, b[k] - b[k + 2] / 2))
        for k in (0, 1)
    ]
    common = sides[0] * sides[1]
    return float(common / (a[2] * a[3] + b[2] * b[3] - common))


def test_a_compiled_model_is_taken_by_its_own_class(tmp_path: Path) -> None:
    text = "program(1.3) { func main<ios17>(tensor<fp32, [2]> x) { tensor<fp32, [2]> y = relu(x = x); } -> (y); }"
    path = coreml.write_compiled(coreml.make_model(coreml.parse(text)), tmp_path / "m.mlmodelc")
    model = ct.models.CompiledMLModel(str(path), ct.ComputeUnit.CPU_ONLY)
    assert model.predict({"x": [-1, 2]})["y"].tolist() == [0, 2]
