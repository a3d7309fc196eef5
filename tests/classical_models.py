"""ONNX models of ai.onnx.ml: linear models, random trees, features; with inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FEATURES = 5
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def model(op: str, outputs: int = 1, whole: bool = False, opset: int = 17, **attributes: Any) -> Any:
    """A model of one node of ai.onnx.ml on (N, 5) numbers."""
    names = ["label", "scores"][-outputs:]
    kinds = {"label": TensorProto.INT64, "scores": TensorProto.FLOAT}
    x = helper.make_tensor_value_info("x", TensorProto.INT64 if whole else TensorProto.FLOAT, ["N", FEATURES])
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], names, "node", domain="ai.onnx.ml", **attributes)], "graph", [x],
        [helper.make_tensor_value_info(name, kinds[name], None) for name in names],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def samples(random: np.random.RandomState, count: int = 7, whole: bool = False) -> Any:
    """Multiples of a half, so that some are equal to what trees compare them with."""
    x = random.randint(-4, 5, (count, FEATURES))
    return x.astype(np.int64) if whole else (x / 2).astype(np.float32)


def trees(
    random: np.random.RandomState, what: str, columns: int, modes: tuple[str, ...], some: bool = False
) -> dict[str, Any]:
    """Attributes of some random trees, whose leaves say something of all columns, or of ``some``."""
    nodes: dict[str, list[Any]] = {
        name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    }
    tracks: list[int] = []
    said: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}

    def grow(tree: int, depth: int) -> int:
        """The number of a new node, behind which lie those of its branches."""
        number = nodes["treeids"].count(tree)
        place = len(tracks)
        leaf = depth == 0 or random.rand() < 0.2
        row = (tree, number, random.randint(FEATURES), random.randint(-4, 5) / 2, "LEAF", 0, 0)
        for name, value in zip(nodes, row, strict=True):
            nodes[name].append(value)
        tracks.append(random.randint(2))
        if leaf:
            for column in random.permutation(columns)[: random.randint(1, columns + 1) if some else columns]:
                for name, value in zip(said, (tree, number, int(column), float(random.standard_normal())), strict=True):
                    said[name].append(value)
            return number
        nodes["modes"][place] = modes[random.randint(len(modes))]
        nodes["truenodeids"][place] = grow(tree, depth - 1)
        nodes["falsenodeids"][place] = grow(tree, depth - 1)
        return number

    for tree in range(random.randint(1, 5)):
        grow(tree, random.randint(0, 5))
    attributes = {f"nodes_{name}": values for name, values in nodes.items()} | {
        f"{what}_{name}": values for name, values in said.items()
    }
    return attributes | ({"nodes_missing_value_tracks_true": tracks} if random.rand() < 0.5 else {})


def vectors_of_classes(random: np.random.RandomState, kind: str) -> dict[str, Any]:
    """Attributes of an SVMClassifier of 2 to 4 classes, with probabilities or without."""
    classes = int(random.randint(2, 5))
    counts, pairs = random.randint(1, 5, classes), classes * (classes - 1) // 2
    vectors = int(counts.sum())
    coefficients = random.standard_normal((classes - 1) * vectors)
    coefficients[0] = -abs(
        coefficients[0]
    )  # those of trained models have both signs; without one they mean something else
    made: dict[str, Any] = {
        "classlabels_ints": (3 + np.arange(classes)).tolist(), "vectors_per_class": counts.tolist(), "kernel_type": kind,
        "coefficients": coefficients.tolist(), "kernel_params": [0.3, 0.5, 3.0],
        "support_vectors": random.standard_normal(vectors * FEATURES).tolist(), "rho": random.standard_normal(pairs).tolist(),
    }  # fmt: skip
    if random.randint(2):
        made |= {"prob_a": (-random.uniform(0.5, 3, pairs)).tolist(), "prob_b": random.standard_normal(pairs).tolist()}
    return made


def newer_trees(random: np.random.RandomState, columns: int, **attributes: Any) -> Any:
    """A model of random trees in the form of ai.onnx.ml 5, whose leaves are apart; some nodes ask for members of sets."""
    nodes: list[list[Any]] = []  # feature, split, mode, missing, and the place of a node or a leaf for each way
    leaves: list[tuple[int, float]] = []
    sets: dict[int, Any] = {}

    def way(depth: int) -> tuple[int, int]:
        if depth and random.rand() < 0.8:
            return grow(depth), 0
        leaves.append((int(random.randint(columns)), float(random.standard_normal())))
        return len(leaves) - 1, 1

    def grow(depth: int) -> int:
        mode = int(random.randint(7))
        here, split = len(nodes), 0.0 if mode == 6 else random.randint(-4, 5) / 2
        nodes.append([int(random.randint(FEATURES)), split, mode, int(random.randint(2))])
        if mode == 6:
            sets[here] = [*random.randint(-2, 3, random.randint(1, 5)), np.nan]  # onnxruntime takes whole numbers only
        nodes[here] += [way(depth - 1), way(depth - 1)]
        return here

    roots = [grow(int(random.randint(1, 6))) for _ in range(random.randint(1, 5))]
    features, splits, modes, missing, first, second = zip(*nodes, strict=True)
    members = np.float32([number for here in sorted(sets) for number in sets[here]])
    given = {
        "nodes_featureids": features, "nodes_splits": numpy_helper.from_array(np.float32(splits)),
        "nodes_modes": numpy_helper.from_array(np.uint8(modes)), "nodes_missing_value_tracks_true": missing,
        "nodes_truenodeids": [place for place, _ in first], "nodes_trueleafs": [leaf for _, leaf in first],
        "nodes_falsenodeids": [place for place, _ in second], "nodes_falseleafs": [leaf for _, leaf in second],
        "leaf_targetids": [column for column, _ in leaves],
        "leaf_weights": numpy_helper.from_array(np.float32([weight for _, weight in leaves])),
        "tree_roots": roots, "n_targets": columns,
    }  # fmt: skip
    if len(members):
        given["membership_values"] = numpy_helper.from_array(members)
    made = model("TreeEnsemble", **(given | attributes))
    made.opset_import[1].version = 5
    return made


def random_models(random: np.random.RandomState) -> Iterator[tuple[str, Any, Any]]:
    """One model of each kind with its input, by a title."""
    modes = (MODES[random.randint(6)],) if random.rand() < 0.6 else MODES
    columns, whole = int(random.randint(1, 4)), bool(random.randint(2))
    base = random.standard_normal(columns).tolist() if random.rand() < 0.5 else None
    optional = {} if base is None else {"base_values": base}
    attributes = trees(random, "target", columns, modes, some=base is None) | optional
    x = samples(random)
    if "nodes_missing_value_tracks_true" in attributes:
        x[random.rand(*x.shape) < 0.2] = np.nan
    aggregate = ("SUM", "AVERAGE", "MIN", "MAX")[random.randint(4)]
    yield (
        f"trees of {columns} targets, {aggregate}",
        model("TreeEnsembleRegressor", aggregate_function=aggregate, n_targets=columns, **attributes), x,
    )  # fmt: skip
    classes = int(random.randint(3, 6))
    transform = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")[random.randint(4)]
    labels = random.permutation(9)[:classes].tolist()
    attributes = trees(random, "class", classes, modes)
    yield (
        f"trees of {classes} classes, {transform}",
        model("TreeEnsembleClassifier", 2, classlabels_int64s=labels, post_transform=transform, **attributes),
        samples(random),
    )
    attributes = trees(random, "class", 1, modes)
    if random.rand() < 0.5:
        attributes["class_weights"] = np.abs(attributes["class_weights"]).tolist()
    transform = ("NONE", "LOGISTIC")[random.randint(2)]
    yield (
        f"trees of one score, {transform}",
        model("TreeEnsembleClassifier", 2, classlabels_int64s=[3, 8], post_transform=transform, **attributes),
        samples(random),
    )
    x = samples(random, whole=whole)
    numbers = random.standard_normal
    yield (
        "linear classifier",
        model(
            "LinearClassifier", 2, whole, coefficients=numbers(classes * FEATURES).tolist(),
            intercepts=numbers(classes).tolist(), classlabels_ints=labels, multi_class=0, post_transform=transform,
        ), x,
    )  # fmt: skip
    yield (
        "linear regressor",
        model("LinearRegressor", coefficients=numbers(columns * FEATURES).tolist(), targets=columns, **(
            {} if base is None else {"intercepts": base}
        )), samples(random),
    )  # fmt: skip
    yield "scaler", model("Scaler", 1, whole, offset=numbers(FEATURES).tolist(), scale=numbers(FEATURES).tolist()), x
    yield "scaler of one number", model("Scaler", offset=[0.5], scale=[2.0]), samples(random)
    for norm in ("MAX", "L1", "L2"):
        positive = np.abs(samples(random)) + np.float32(0.5)
        positive[2] = 0
        yield f"normalizer {norm}", model("Normalizer", norm=norm), positive
    yield "binarizer", model("Binarizer", threshold=0.5), samples(random)
    x = samples(random)
    x[::2, 1] = np.nan
    yield (
        "imputer",
        model("Imputer", imputed_value_floats=numbers(FEATURES).tolist(), replaced_value_float=float("nan")), x,
    )  # fmt: skip
    yield "one hot", model("OneHotEncoder", 1, True, cats_int64s=[-2, 0, 3], zeros=1), samples(random, whole=True)
    yield (
        "encoder",
        model("LabelEncoder", 1, True, keys_int64s=[-2, 0, 3], values_floats=[0.5, 2.0, -1.0], default_float=7.0),
        samples(random, whole=True),
    )
    for kind in ("LINEAR", "RBF", "POLY", "SIGMOID"):
        yield (
            f"support vectors of classes, {kind}",
            model("SVMClassifier", 2, **vectors_of_classes(random, kind)),
            samples(random),
        )
        vectors = int(random.randint(1, 6))
        yield (
            f"support vectors, {kind}",
            model(
                "SVMRegressor", coefficients=numbers(vectors).tolist(), kernel_params=[0.3, 0.5, 3.0], kernel_type=kind,
                n_supports=vectors, rho=[0.25], support_vectors=numbers(vectors * FEATURES).tolist(), one_class=int(whole),
            ), samples(random),
        )  # fmt: skip
