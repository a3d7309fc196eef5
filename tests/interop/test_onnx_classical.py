"""Models of scikit-learn and of trees: operators of ai.onnx.ml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import openbnns
from classical_models import FEATURES, model, random_models, samples, trees, vectors_of_classes
from openbnns import nn

_HOLDS: dict[str, Any] = {
    "BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less, "BRANCH_GTE": np.greater_equal, "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal, "BRANCH_NEQ": np.not_equal,
}  # fmt: skip


def _read(made: Any, folder: Path) -> nn.Module:
    onnx.save(made, folder / "m.onnx")
    return nn.from_onnx(folder / "m.onnx")


def _walked(attributes: dict[str, Any], columns: int, x: Any) -> Any:
    """Numbers of the leaves, one sample, one tree and one node at a time; (N, trees, columns)."""
    nodes = {
        key: row for key, *row in zip(
            zip(attributes["nodes_treeids"], attributes["nodes_nodeids"], strict=True), attributes["nodes_modes"],
            attributes["nodes_featureids"], attributes["nodes_values"], attributes["nodes_truenodeids"],
            attributes["nodes_falsenodeids"], strict=True,
        )
    }  # fmt: skip
    count = 1 + max(attributes["nodes_treeids"])
    result = np.zeros((len(x), count, columns))
    names = ("treeids", "nodeids", "ids", "weights")
    said = list(zip(*(attributes[f"target_{name}"] for name in names), strict=True))
    for sample, row in enumerate(x):
        for tree in range(count):
            node = 0
            while nodes[tree, node][0] != "LEAF":
                mode, feature, value, true, false = nodes[tree, node]
                node = true if _HOLDS[mode](row[feature], np.float32(value)) else false
            for _, _, column, weight in (entry for entry in said if entry[:2] == (tree, node)):
                result[sample, tree, column] += weight
    return result


@pytest.mark.parametrize("seed", range(30))
def test_trees_are_walked(seed: int, tmp_path: Path) -> None:
    """Random trees with all kinds of comparisons, at two batch sizes, and written as operators of ONNX itself."""
    random = np.random.RandomState(seed)
    columns = int(random.randint(1, 4))
    attributes = trees(random, "target", columns, tuple(_HOLDS))
    attributes.pop("nodes_missing_value_tracks_true", None)
    net = _read(model("TreeEnsembleRegressor", n_targets=columns, **attributes), tmp_path)
    net.to_onnx(tmp_path / "written.onnx")
    for count in (1, 9):
        x = samples(random, count)
        expected = _walked(attributes, columns, x).sum(1)
        np.testing.assert_allclose(net(x), expected, 1e-5, 1e-5)
        written = ReferenceEvaluator(str(tmp_path / "written.onnx")).run(None, {"x": x})[0]
        np.testing.assert_allclose(written, expected, 1e-5, 1e-5)


def test_leaves_and_coefficients_are_trained(tmp_path: Path) -> None:
    random = np.random.RandomState(3)
    attributes = trees(random, "target", 2, ("BRANCH_LEQ",))
    net = _read(model("TreeEnsembleRegressor", n_targets=2, **attributes), tmp_path).train()
    x, dy = samples(random), random.standard_normal((7, 2)).astype(np.float32)
    net(x)
    net.backward(dy)
    ((name, leaves),) = net.named_parameters()
    step = random.standard_normal(leaves.shape).astype(np.float32)
    before = leaves.data.copy()
    leaves.data = before + step
    assert name == "node.leaves"
    change = float((net.eval()(x) * dy).sum())
    leaves.data = before
    change -= float((net(x) * dy).sum())
    assert abs(change) > 0.1
    np.testing.assert_allclose((leaves.grad * step).sum(), change, 1e-4)


@pytest.mark.parametrize(
    "title",
    ["linear classifier", "normalizer L1", "normalizer L2", "binarizer", "imputer", "encoder", "support vectors, RBF"],
)
def test_other_operators_against_the_reference_of_onnx(title: str, tmp_path: Path) -> None:
    for seed in range(5):
        made, x = next((m, x) for name, m, x in random_models(np.random.RandomState(seed)) if name == title)
        actual = _read(made, tmp_path)(x)
        for y, expected in zip(actual if isinstance(actual, tuple) else (actual,), ReferenceEvaluator(made).run(
            None, {"x": x}
        ), strict=True):  # fmt: skip
            np.testing.assert_allclose(y, expected, 1e-5, 1e-5)


def _pipeline(classes: list[str]) -> Any:
    """A classifier as skl2onnx writes it, with dictionaries of probabilities, and the opset twice."""
    draw = np.random.RandomState(0).standard_normal
    linear = helper.make_node(
        "LinearClassifier", ["x"], ["label", "raw"], domain="ai.onnx.ml", classlabels_strings=classes,
        coefficients=draw(3 * FEATURES).tolist(), intercepts=draw(3).tolist(), post_transform="LOGISTIC",
    )  # fmt: skip
    scaled = helper.make_node("Normalizer", ["raw"], ["probabilities"], domain="ai.onnx.ml", norm="L1")
    zipped = helper.make_node("ZipMap", ["probabilities"], ["output"], domain="ai.onnx.ml", classlabels_strings=classes)
    dictionaries = helper.make_sequence_type_proto(
        helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    )
    graph = helper.make_graph(
        [linear, scaled, zipped], "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, FEATURES])],
        [
            helper.make_tensor_value_info("label", TensorProto.STRING, [None]),
            helper.make_value_info("output", dictionaries),
        ],
    )  # fmt: skip
    opsets = [helper.make_opsetid(domain, version) for domain, version in (("", 17), ("ai.onnx.ml", 1), ("", 17))]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_classes_with_names_are_numbers_and_dictionaries_one_array(tmp_path: Path) -> None:
    made, x = _pipeline(["ant", "bee", "cat"]), samples(np.random.RandomState(1))
    labels, probabilities = _read(made, tmp_path)(x)
    np.testing.assert_allclose(probabilities.sum(1), 1, 1e-6)
    np.testing.assert_array_equal(labels, probabilities.argmax(1))
    scores = np.array(made.graph.node[0].attribute[1].floats).reshape(3, FEATURES) @ x.T
    scores += np.array(made.graph.node[0].attribute[2].floats)[:, None]
    assert [entry.name for entry in made.graph.node[0].attribute[1:3]] == ["coefficients", "intercepts"]
    expected = 1 / (1 + np.exp(-scores.T))
    np.testing.assert_allclose(probabilities, expected / expected.sum(1, keepdims=True), 1e-5)


def _forest(**changes: Any) -> dict[str, Any]:
    return {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0],
        "target_weights": [1.0, 2.0], "n_targets": 1,
    } | changes  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes_falsenodeids": [0, 0, 0]}, "several ways lead to one node"),
        ({"nodes_falsenodeids": [7, 0, 0]}, "lead to others that are not there"),
        ({"nodes_nodeids": [0, 1, 1]}, "has no nodes, or several of one number"),
        ({"nodes_modes": ["BRANCH_MEMBER", "LEAF", "LEAF"]}, "nodes of kind BRANCH_MEMBER"),
        ({"nodes_values": [0.5]}, "its lists have several lengths"),
        ({"target_ids": [0, 5]}, "makes no sense"),
        ({"target_nodeids": [1, 9]}, "makes no sense"),
        ({"n_targets": 2**40}, "what trees say about one sample takes"),
        ({"n_targets": -1}, "makes no sense"),
        ({"target_ids": [0, -1]}, "makes no sense"),
        ({"post_transform": "PROBIT"}, "post_transform=PROBIT has no counterpart here, only NONE, LOGISTIC, SOFTMAX"),
        ({"aggregate_function": "MODE"}, "makes no sense"),
    ],
)
def test_trees_that_make_no_sense(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert _read(model("TreeEnsembleRegressor", **_forest()), tmp_path)(
        np.zeros((2, FEATURES), np.float32)
    ).tolist() == [
        [1.0],
        [1.0],
    ]
    with pytest.raises((nn.onnx.OnnxError, nn.onnx.Unsupported), match=message):
        _read(model("TreeEnsembleRegressor", **_forest(**changes)), tmp_path)


def _decided(said: dict[str, Any], x: Any) -> tuple[Any, Any]:
    """Numbers of classes and scores of an SVMClassifier with kernel RBF, one sample and one pair of classes at a time."""
    counts = said["vectors_per_class"]
    classes, ends = len(counts), np.cumsum([0, *counts])
    vectors = np.reshape(said["support_vectors"], (ends[-1], FEATURES))
    rows = np.reshape(said["coefficients"], (classes - 1, ends[-1]))
    labels, scores = [], []
    for sample in np.asarray(x, np.float64):
        near = np.exp(-said["kernel_params"][0] * ((vectors - sample) ** 2).sum(1))
        votes, decisions, sure = np.zeros(classes), [], np.zeros((classes, classes))
        for i in range(classes):
            for j in range(i + 1, classes):
                one, other, pair = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1]), len(decisions)
                d = rows[j - 1, one] @ near[one] + rows[i, other] @ near[other] + said["rho"][pair]
                votes[i if d > 0 else j] += 1
                decisions.append(d)
                if "prob_a" in said:
                    sure[i, j] = 1 / (1 + np.exp(said["prob_a"][pair] * d + said["prob_b"][pair]))
                    sure[j, i] = 1 - sure[i, j]
        labels.append(said["classlabels_ints"][votes.argmax()])
        if "prob_a" in said:
            scores.append(_coupled(sure))
        else:
            scores.append([-decisions[0], decisions[0]] if classes == 2 else decisions)
    return labels, scores


def _coupled(sure: Any) -> Any:
    """The probabilities that minimize the sum of squares of r[j, i] p[i] - r[i, j] p[j], by their linear equations."""
    classes = len(sure)
    q = np.diag((sure**2).sum(0)) - sure * sure.T
    system = np.block([[q, np.ones((classes, 1))], [np.ones((1, classes)), np.zeros((1, 1))]])
    return np.linalg.solve(system, np.eye(classes + 1)[-1])[:-1]


@pytest.mark.parametrize("seed", range(12))
def test_support_vectors_of_classes(seed: int, tmp_path: Path) -> None:
    """Decisions, votes and probabilities by their formulas; probabilities are found by steps that end at 0.005 / classes."""
    random = np.random.RandomState(seed)
    said, x = vectors_of_classes(random, "RBF"), samples(random, 9)
    net = _read(model("SVMClassifier", 2, **said), tmp_path)
    labels, scores = _decided(said, x)
    for given, wanted, wanted_scores in ((x, labels, scores), (x[:1], labels[:1], scores[:1])):
        label, score = net(given)
        np.testing.assert_array_equal(label, wanted)
        np.testing.assert_allclose(score, wanted_scores, 0, 0.01 if "prob_a" in said else 1e-5)


def test_support_vectors_of_classes_are_trained(tmp_path: Path) -> None:
    said = vectors_of_classes(np.random.RandomState(1), "RBF")
    for name in ("prob_a", "prob_b"):
        said.pop(name, None)
    net = _read(model("SVMClassifier", 2, **said), tmp_path)
    report = openbnns.gradcheck(net.train(), samples(np.random.RandomState(0)), verbose=False)
    assert report.passed
    assert {"node.support_vectors", "node.coefficients", "node.rho"} == {name for name, _ in net.named_parameters()}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"vectors_per_class": [0, 0]}, "only support vectors of each of at least two classes"),
        ({"coefficients": [1.0, 2.0, 3.0]}, "coefficients without a sign"),
        ({"coefficients": [1.0, -2.0]}, "makes no sense"),
        ({"rho": [1.0, 2.0]}, "makes no sense"),
        ({"post_transform": "SOFTMAX"}, "a post_transform of the decision"),
        ({"kernel_type": "CUBIC"}, "kernel_type=CUBIC"),
    ],
)
def test_bad_support_vectors_of_classes(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    said = {
        "classlabels_ints": [0, 1], "vectors_per_class": [1, 2], "coefficients": [1.0, -2.0, 3.0], "rho": [0.5],
        "support_vectors": np.arange(3.0 * FEATURES).tolist(), "kernel_params": [0.3, 0.5, 3.0], "kernel_type": "RBF",
    }  # fmt: skip
    with pytest.raises((nn.onnx.Unsupported, nn.onnx.OnnxError), match=message):
        _read(model("SVMClassifier", 2, **(said | changed)), tmp_path)


def test_operators_without_a_form_are_named(tmp_path: Path) -> None:
    with pytest.raises(nn.onnx.Unsupported, match=r"there is no operator ai\.onnx\.ml\.DictVectorizer") as caught:
        _read(model("DictVectorizer"), tmp_path)
    assert "custom" not in str(caught.value)
    assert "ai.onnx.ml.TreeEnsembleRegressor" in nn.onnx.supported()["models of scikit-learn"]


def test_words_are_not_encoded(tmp_path: Path) -> None:
    with pytest.raises(nn.onnx.Unsupported, match=r"m\.onnx: OneHotEncoder 'node': it encodes words"):
        _read(model("OneHotEncoder", 1, True, cats_strings=["a", "b"]), tmp_path)


def test_files_that_name_no_version_of_operators_of_onnx(tmp_path: Path) -> None:
    """As XGBoost's do; nodes that would need one are refused."""
    made, x = model("Scaler", offset=[0.5], scale=[2.0]), samples(np.random.RandomState(2))
    del made.opset_import[0]
    np.testing.assert_array_equal(_read(made, tmp_path)(x), (x - 0.5) * 2)
    made.graph.node.append(helper.make_node("Identity", ["scores"], ["again"]))
    made.graph.output[0].name = "again"
    with pytest.raises(nn.onnx.OnnxError, match="names 0 versions of ONNX's operators"):
        _read(made, tmp_path)
