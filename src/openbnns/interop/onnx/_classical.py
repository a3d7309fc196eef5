"""Operators of ai.onnx.ml, which scikit-learn and libraries of trees are written with, as ONNX's own.

The coefficients of linear models and the values of leaves become weights, which are trained. Trees of all operators become
one operation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...graph.operations.trees import Branch, planted
from ...nn.files import memory_limit
from .errors import OnnxError, Unsupported

DOMAIN = "ai.onnx.ml"
TREES = "decision trees"  # in DOMAIN
"""The operator that all operators with trees become; no file has one of this name."""


class _NoForm(ValueError):
    """An error for a node that cannot be expressed in ONNX's own operators."""


def in_own_operators(onnx: Any, proto: Any, opset: int, place: Any) -> None:
    """Replace nodes of ai.onnx.ml by nodes of ONNX's own operators where that is possible."""
    graph = proto.graph
    if not any(node.domain == DOMAIN for node in graph.node):
        return
    writer = _Writer(onnx, graph, opset)
    for node in list(graph.node):
        if node.domain != DOMAIN or node.op_type not in _FORMS:
            writer.nodes.append(node)
            continue
        writer.enter(node)
        try:
            with np.errstate(all="ignore"):
                _FORMS[node.op_type](writer)
        except _NoForm as error:
            raise Unsupported(f"from_onnx: {place}: {node.op_type} {node.name!r}: {str(error).rstrip('.')}.") from None
        except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
            raise OnnxError(f"{place}: {node.op_type} {node.name!r} makes no sense ({error}).") from None
    del graph.node[:]
    graph.node.extend(writer.nodes)
    for value in graph.output if writer.has_words else ():
        if value.type.tensor_type.elem_type == writer.types.STRING:
            value.type.tensor_type.elem_type = writer.types.INT64


class _Writer:
    """Nodes and weights that stand for a node of ai.onnx.ml."""

    def __init__(self, onnx: Any, graph: Any, opset: int) -> None:
        self.nodes: list[Any] = []
        self.graph, self.opset, self.types = graph, opset, onnx.TensorProto
        self._onnx = onnx
        self._taken = {name for node in graph.node for name in (*node.input, *node.output)}
        self._taken |= {tensor.name for tensor in graph.initializer} | {value.name for value in graph.input}
        self._attributes: dict[str, Any] = {}
        self.has_words = False  # for classes, which become whole numbers

    def enter(self, node: Any) -> None:
        self.inputs, self.outputs = list(node.input), list(node.output)
        self._stem = node.name or node.op_type
        self._attributes = {entry.name: self._onnx.helper.get_attribute_value(entry) for entry in node.attribute}

    # Attributes.

    def text(self, name: str, default: str) -> str:
        raw = self._attributes.get(name, default)
        return raw.decode() if isinstance(raw, bytes) else str(raw)

    def number(self, name: str, default: float) -> float:
        return float(self._attributes.get(name, default))

    def choice(self, name: str, default: int, count: int) -> int:
        """A number from 0 to ``count`` - 1."""
        chosen = int(self._attributes.get(name, default))
        if not 0 <= chosen < count:
            raise ValueError(f"{name} is {chosen}")
        return chosen

    def numbers(self, name: str) -> Any:
        """A list of numbers, which newer files have as a tensor."""
        listed = self._attributes.get(f"{name}_as_tensor", self._attributes.get(name, ()))
        if isinstance(listed, self._onnx.TensorProto):
            listed = self._onnx.numpy_helper.to_array(listed)
        return np.asarray(listed, np.float32).ravel()

    def integers(self, name: str) -> Any:
        return np.asarray(self._attributes.get(name, ()), np.int64).ravel()

    def texts(self, name: str) -> list[str]:
        return [text.decode() for text in self._attributes.get(name, ())]

    # Nodes.

    def _fresh(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name

    def node(
        self, op: str, *inputs: str, to: str = "", to_type: int | None = None, domain: str = "", **attributes: Any
    ) -> str:
        """A node with one output, which gets the name ``to``; ``to_type`` is the attribute ``to`` of Cast."""
        name = self._fresh(f"{self._stem}/{op}")
        output = to or self._fresh(f"{name}:out")
        attributes |= {} if to_type is None else {"to": to_type}
        self.nodes.append(self._onnx.helper.make_node(op, inputs, [output], name=name, domain=domain, **attributes))
        return output

    def constant(self, array: Any) -> str:
        return self.node("Constant", value=self.tensor(array))

    def tensor(self, array: Any) -> Any:
        """An array as an attribute."""
        return self._onnx.numpy_helper.from_array(np.asarray(array))

    def weight(self, name: str, array: Any) -> str:
        """An array that is trained."""
        chosen = self._fresh(f"{self._stem}.{name}")
        self.graph.initializer.append(self._onnx.numpy_helper.from_array(np.asarray(array, np.float32), chosen))
        return chosen

    def features(self) -> str:
        """The first input as numbers; it may have any type."""
        return self.node("Cast", self.inputs[0], to_type=self.types.FLOAT)

    def reduced(self, op: str, x: str, axis: int, keepdims: int) -> str:
        if self.opset >= (13 if op == "ReduceSum" else 18):
            return self.node(op, x, self.constant(np.array([axis])), keepdims=keepdims)
        return self.node(op, x, axes=[axis], keepdims=keepdims)

    def equal(self, x: str, others: Any) -> str:
        """Masks on a new last axis: which of several numbers each element is."""
        if self.opset < 13:
            wide = self.node("Unsqueeze", x, axes=[-1])
        else:
            wide = self.node("Unsqueeze", x, self.constant(np.array([-1])))
        return self.node("Equal", wide, self.constant(others))

    def repeated(self, start: str, most: int, step: Callable[[str], tuple[str, str]]) -> str:
        """A value after steps from ``start``; each gives a new one, and a condition to go on."""
        helper, around, value = self._onnx.helper, self.nodes, self._fresh(f"{self._stem}/value")
        count, going = self._fresh(f"{self._stem}/count"), self._fresh(f"{self._stem}/going")
        self.nodes, kinds = [], (self.types.INT64, self.types.BOOL, self.types.FLOAT)
        result, condition = step(value)
        body = helper.make_graph(
            self.nodes, "step",
            [helper.make_tensor_value_info(name, kind, None) for name, kind in zip((count, going, value), kinds, strict=True)],
            [helper.make_tensor_value_info(name, kind, None) for name, kind in zip((condition, result), kinds[1:], strict=True)],
        )  # fmt: skip
        self.nodes = around
        return self.node("Loop", self.constant(np.int64(most)), self.constant(np.bool_(True)), start, body=body)

    def finished(self, scores: str, to: str, transform: str = "") -> None:
        """Scores as the node gives them: probabilities, or as they are."""
        forms: dict[str, Callable[[], object]] = {
            "NONE": lambda: self.node("Identity", scores, to=to),
            "LOGISTIC": lambda: self.node("Sigmoid", scores, to=to),
            "SOFTMAX": lambda: self.node("Softmax", scores, to=to, axis=1),
            "SOFTMAX_ZERO": lambda: self._softmax_zero(scores, to),
        }
        wanted = transform or self.text("post_transform", "NONE")
        if wanted not in forms:
            raise _NoForm(f"post_transform={wanted} has no counterpart here, only {', '.join(forms)}")
        forms[wanted]()

    def _softmax_zero(self, scores: str, to: str) -> None:
        """A softmax in which scores of 0 stay 0."""
        largest = self.reduced("ReduceMax", scores, 1, 1)
        powers = self.node("Exp", self.node("Sub", scores, largest))
        silent = self.node("Equal", scores, self.constant(np.float32(0)))
        kept = self.node("Where", silent, self.constant(np.float32(0)), powers)
        total = self.reduced("ReduceSum", kept, 1, 1)
        nothing = self.node("Equal", total, self.constant(np.float32(0)))
        one = self.constant(np.float32(1))
        self.node("Div", kept, self.node("Where", nothing, one, total), to=to)

    def labels(self) -> Any:
        """The numbers of the classes of a classifier; of words, their places."""
        words = np.arange(len(self.texts("classlabels_strings")))
        self.has_words |= bool(words.size)
        numbers = next(filter(len, map(self.integers, ("classlabels_int64s", "classlabels_ints"))), words)
        if not len(numbers):
            raise ValueError("it has no classes")
        return numbers

    def give_label(self, best: str, labels: Any) -> None:
        if self.outputs[0]:
            self.node("Gather", self.constant(labels), best, to=self.outputs[0])

    @property
    def scores(self) -> str:
        """The name of the second output of a classifier."""
        return self.outputs[1] if len(self.outputs) > 1 else ""

    def give_two_classes(self, score: str, labels: Any, as_probability: bool) -> None:
        """Label and scores of two classes that one score (N, 1) tells apart: a probability, or a number around 0."""
        edge = self.constant(np.float32(0.5 if as_probability else 0))
        above = self.node("Cast", self.node("Greater", score, edge), to_type=self.types.INT64)
        self.give_label(self.node("Reshape", above, self.constant(np.array([-1]))), labels)
        if not self.scores:
            return
        if as_probability and self.text("post_transform", "NONE") != "LOGISTIC":
            other = self.node("Sub", self.constant(np.float32(1)), score)
            self.node("Concat", other, score, axis=1, to=self.scores)
        else:
            self.finished(self.node("Concat", self.node("Neg", score), score, axis=1), self.scores)

    def give_classes(self, scores: str, labels: Any) -> None:
        """Label and scores of a score for each class (N, classes)."""
        self.give_label(self.node("ArgMax", scores, axis=1, keepdims=0), labels)
        if self.scores:
            self.finished(scores, self.scores)


# Features.


def _scaler(writer: _Writer) -> None:
    x, offset, scale = writer.features(), writer.numbers("offset"), writer.numbers("scale")
    centred = writer.node("Sub", x, writer.constant(offset)) if offset.size else x
    writer.node("Mul", centred, writer.constant(scale if scale.size else np.float32(1)), to=writer.outputs[0])


def _normalizer(writer: _Writer) -> None:
    x, norm = writer.features(), writer.text("norm", "MAX")
    length = writer.reduced({"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}[norm], x, -1, 1)
    one = writer.constant(np.float32(1))
    nothing = writer.node("Equal", length, writer.constant(np.float32(0)))
    writer.node("Div", x, writer.node("Where", nothing, one, length), to=writer.outputs[0])


def _binarizer(writer: _Writer) -> None:
    above = writer.node("Greater", writer.features(), writer.constant(np.float32(writer.number("threshold", 0))))
    writer.node("Cast", above, to_type=writer.types.FLOAT, to=writer.outputs[0])


def _imputer(writer: _Writer) -> None:
    values, x = writer.numbers("imputed_value_floats"), writer.inputs[0]
    missing = writer.number("replaced_value_float", 0)
    if not values.size:
        values, missing = writer.integers("imputed_value_int64s"), int(writer.number("replaced_value_int64", 0))
    known = writer.constant(np.asarray(missing, values.dtype))
    places = writer.node("IsNaN", x) if math.isnan(missing) else writer.node("Equal", x, known)
    writer.node("Where", places, writer.constant(values), x, to=writer.outputs[0])


def _one_hot(writer: _Writer) -> None:
    categories = writer.integers("cats_int64s")
    if not categories.size:
        raise _NoForm("it encodes words, which networks do not take")
    same = writer.equal(writer.node("Cast", writer.inputs[0], to_type=writer.types.INT64), categories)
    writer.node("Cast", same, to_type=writer.types.FLOAT, to=writer.outputs[0])


def _encoder(writer: _Writer) -> None:
    whole, numbers = writer.integers("keys_int64s"), writer.numbers("keys_floats")
    others, floats = writer.integers("values_int64s"), writer.numbers("values_floats")
    keys, values = (whole if whole.size else numbers), (others if others.size else floats)
    if not keys.size or keys.size != values.size:
        raise _NoForm("it encodes words, which networks do not take, or has not one value for each key")
    default = writer.number("default_float", -0.0) if floats.size else writer.number("default_int64", -1)
    same = writer.node("Cast", writer.equal(writer.inputs[0], keys), to_type=writer.types.FLOAT)
    place = writer.node("ArgMax", same, axis=-1, keepdims=0)
    known = writer.node("Cast", writer.reduced("ReduceMax", same, -1, 0), to_type=writer.types.BOOL)
    chosen = writer.node("Gather", writer.constant(values), place)
    writer.node("Where", known, chosen, writer.constant(np.asarray(default, values.dtype)), to=writer.outputs[0])


def _joined(writer: _Writer) -> None:
    numbers = [writer.node("Cast", name, to_type=writer.types.FLOAT) for name in writer.inputs]
    writer.node("Concat", *numbers, axis=-1, to=writer.outputs[0])


def _extracted(writer: _Writer) -> None:
    x, places = writer.inputs
    flat = writer.node("Reshape", places, writer.constant(np.array([-1])))
    tensor = next((tensor for tensor in writer.graph.initializer if tensor.name == x), None)
    if tensor is not None and tensor.data_type == writer.types.STRING:
        x, writer.has_words = writer.constant(np.arange(len(tensor.string_data))[None]), True
        writer.graph.initializer.remove(tensor)
    elif tensor is not None and len(tensor.dims) == 1:
        x = writer.node("Reshape", x, writer.constant(np.array([1, -1])))
    writer.node("Gather", x, flat, axis=-1, to=writer.outputs[0])


def _table(writer: _Writer) -> None:
    """Dictionaries with a probability for each class, as one array with a column for each."""
    writer.node("Identity", writer.inputs[0], to=writer.outputs[0])
    for value in writer.graph.output:
        if value.name == writer.outputs[0]:
            value.type.Clear()
            value.type.tensor_type.elem_type = writer.types.FLOAT


# Linear models.


def _products(writer: _Writer, rows: int) -> str:
    """Features times coefficients, with intercepts."""
    coefficients, intercepts = writer.numbers("coefficients"), writer.numbers("intercepts")
    weights = writer.weight("coefficients", coefficients.reshape(rows, -1).T)
    y = writer.node("MatMul", writer.features(), weights)
    return writer.node("Add", y, writer.weight("intercepts", intercepts)) if intercepts.size else y


def _linear_regressor(writer: _Writer) -> None:
    writer.finished(_products(writer, int(writer.number("targets", 1))), writer.outputs[0])


def _linear_classifier(writer: _Writer) -> None:
    labels = writer.labels()
    rows = writer.numbers("intercepts").size or len(labels)
    scores = _products(writer, rows)
    if rows == 1 and len(labels) == 2:
        raise _NoForm("one row of coefficients for two classes has no counterpart here, only one for each class")
    writer.give_classes(scores, labels)


def _vector_regressor(writer: _Writer) -> None:
    """Sums over support vectors of what a kernel makes of a sample and a vector."""
    count, x = int(writer.number("n_supports", 0)), writer.features()
    coefficients, rho = writer.numbers("coefficients"), writer.numbers("rho")
    if count:
        vectors = writer.numbers("support_vectors").reshape(count, -1)
        x = _kernel(writer, x, writer.weight("support_vectors", vectors.T), (vectors**2).sum(1))
    products = writer.node("MatMul", x, writer.weight("coefficients", coefficients.reshape(-1, 1)))
    y = writer.node("Add", products, writer.weight("rho", rho.reshape(1)))
    if writer.number("one_class", 0):
        positive = writer.node("Greater", y, writer.constant(np.float32(0)))
        y = writer.node("Where", positive, *(writer.constant(np.float32(sign)) for sign in (1, -1)))
    writer.finished(y, writer.outputs[0])


def _kernel(writer: _Writer, x: str, vectors: str, squares: Any) -> str:
    """Similarities of samples (N, features) and vectors (features, vectors)."""
    kind = writer.text("kernel_type", "LINEAR")
    gamma, shift, degree = np.resize(writer.numbers("kernel_params"), 3)
    products = writer.node("MatMul", x, vectors)
    if kind == "LINEAR":
        return products
    if kind == "RBF":
        own = writer.reduced("ReduceSumSquare", x, 1, 1)
        others = writer.node("Add", own, writer.constant(squares))
        apart = writer.node("Sub", others, writer.node("Mul", products, writer.constant(np.float32(2))))
        return writer.node("Exp", writer.node("Mul", apart, writer.constant(np.float32(-gamma))))
    if kind not in ("POLY", "SIGMOID"):
        raise _NoForm(f"kernel_type={kind} has no counterpart here, only LINEAR, RBF, POLY, SIGMOID")
    scaled = writer.node("Mul", products, writer.constant(np.float32(gamma)))
    shifted = writer.node("Add", scaled, writer.constant(np.float32(shift)))
    return writer.node("Tanh", shifted) if kind == "SIGMOID" else writer.node("Pow", shifted, writer.constant(degree))


def _vector_classifier(writer: _Writer) -> None:
    """A decision for each pair of classes, by the support vectors of both; the class that wins most of them."""
    labels, counts = writer.labels(), writer.integers("vectors_per_class")
    classes, count = len(labels), int(counts.sum())
    if counts.size != classes or classes < 2 or not count:
        raise _NoForm("only support vectors of each of at least two classes have a counterpart here")
    rows = writer.numbers("coefficients").reshape(classes - 1, count)
    if (rows >= 0).all():
        raise _NoForm("coefficients without a sign have no counterpart here")
    pairs, ends = [*itertools.combinations(range(classes), 2)], [0, *np.cumsum(counts)]
    coefficients = np.zeros((count, len(pairs)), np.float32)
    for place, (one, other) in enumerate(pairs):
        for own, row in ((one, other - 1), (other, one)):
            vectors = slice(ends[own], ends[own + 1])
            coefficients[vectors, place] = rows[row, vectors]
    vectors = writer.numbers("support_vectors").reshape(count, -1)
    x = _kernel(writer, writer.features(), writer.weight("support_vectors", vectors.T), (vectors**2).sum(1))
    products = writer.node("MatMul", x, writer.weight("coefficients", coefficients))
    decisions = writer.node("Add", products, writer.weight("rho", writer.numbers("rho").reshape(len(pairs))))
    first = writer.node(
        "Cast", writer.node("Greater", decisions, writer.constant(np.float32(0))), to_type=writer.types.FLOAT
    )
    won, lost = np.zeros((2, len(pairs), classes), np.float32)
    for place, (one, other) in enumerate(pairs):
        won[place, one], lost[place, other] = 1, 1
    votes = writer.node("Add", writer.node("MatMul", first, writer.constant(won - lost)), writer.constant(lost.sum(0)))
    writer.give_label(writer.node("ArgMax", votes, axis=1, keepdims=0), labels)
    if not writer.scores:
        return
    if writer.numbers("prob_a").size:
        writer.finished(_estimates(writer, decisions, classes, pairs), writer.scores)
        return
    if classes == 2 and writer.text("post_transform", "NONE") != "NONE":
        raise _NoForm("a post_transform of the decision between two classes has no counterpart here")
    if classes == 2:
        decisions = writer.node("Concat", writer.node("Neg", decisions), decisions, axis=1)
    writer.finished(decisions, writer.scores)


def _estimates(writer: _Writer, decisions: str, classes: int, pairs: Sequence[tuple[int, int]]) -> str:
    """Probabilities of classes (N, classes) that agree best with those that one of a pair is the class.

    Coordinate descent on p'Qp with sum(p) = 1, with the steps, and the number of them, that LIBSVM takes: "Probability
    Estimates for Multi-class Classification by Pairwise Coupling" (Wu, Lin, Weng 2004), algorithm 2.
    """
    constant, node, single = writer.constant, writer.node, np.float32
    slopes, shifts = (writer.weight(name, writer.numbers(name).reshape(len(pairs))) for name in ("prob_a", "prob_b"))
    sure = node("Sigmoid", node("Neg", node("Add", node("Mul", decisions, slopes), shifts)))
    sure = node("Min", node("Max", sure, constant(single(1e-7))), constant(single(1 - 1e-7)))
    here, there = np.zeros((2, len(pairs), classes, classes), np.float32)
    for place, (one, other) in enumerate(pairs):
        here[place, one, other], there[place, other, one] = 1, 1
    here, there = here.reshape(len(pairs), -1), there.reshape(len(pairs), -1)
    spread = node("Add", node("MatMul", sure, constant(here - there)), constant(there.sum(0)))
    wins = node("Reshape", spread, constant(np.array([-1, classes, classes])))
    squares = writer.reduced("ReduceSumSquare", wins, 1, 1)
    crossed = node("Mul", wins, node("Transpose", wins, perm=[0, 2, 1]))
    q = node("Sub", node("Mul", squares, constant(np.eye(classes, dtype=np.float32))), crossed)
    nothing = node("Mul", writer.reduced("ReduceSum", q, 2, 0), constant(single(0)))
    start = node("Add", nothing, constant(single(1 / classes)))

    def step(p: str) -> tuple[str, str]:
        """New probabilities, and true if any of them are not yet good enough."""
        column = constant(np.array([-1, classes, 1]))
        slope = node("Reshape", node("MatMul", q, node("Reshape", p, column)), constant(np.array([-1, classes])))
        value, new = writer.reduced("ReduceSum", node("Mul", p, slope), 1, 1), p
        error = writer.reduced("ReduceMax", node("Abs", node("Sub", slope, value)), 1, 1)
        good = node("Less", error, constant(single(0.005 / classes)))
        for t in range(classes):
            row = node("Gather", q, constant(np.int64(t)), axis=1)
            own, at = (node("Gather", x, constant(np.array([t])), axis=1) for x in (row, slope))
            change = node("Div", node("Sub", value, at), own)
            total = node("Add", change, constant(single(1)))
            twice = node("Add", at, at)
            raised = node("Add", value, node("Mul", change, node("Add", node("Mul", change, own), twice)))
            value = node("Div", raised, node("Mul", total, total))
            slope = node("Div", node("Add", slope, node("Mul", change, row)), total)
            place = constant(np.eye(classes, dtype=np.float32)[t : t + 1])
            new = node("Div", node("Add", new, node("Mul", change, place)), total)
        left = node("Cast", node("Not", good), to_type=writer.types.FLOAT)
        any_left = node("ReduceMax", left, keepdims=0)
        return node("Where", good, p, new), node("Cast", any_left, to_type=writer.types.BOOL)

    return writer.repeated(start, max(100, classes), step)


# Trees.

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF")
_MEMBER = 6
_AGGREGATES = {"SUM": "sum", "AVERAGE": "mean", "MIN": "minimum", "MAX": "maximum"}


@dataclass
class _Trees:
    """Nodes of all trees by one number, and what leaves say: the number of a leaf, a column and a value each."""

    modes: list[str]
    features: Any
    values: Any
    tracks: Any
    ways: list[Any]  # the nodes behind, if the comparison holds and if not; any for leaves
    roots: Any
    members: dict[int, Any]  # by node
    said: tuple[Any, Any, Any]

    def write(self, writer: _Writer, columns: int, total: str) -> str:
        """Totals of what the trees say about samples, (N, columns)."""
        leaves, about, weights = self.said
        memory_limit.check(4 * columns, "what trees say about one sample", _NoForm)
        if not leaves.size == about.size == weights.size or (
            about.size and not 0 <= about.min() <= about.max() < columns
        ):
            raise IndexError("what leaves say is not about one of its results each")
        branches = [Branch[mode.removeprefix("BRANCH_")] for mode in self.modes]
        forest, order = planted(
            branches, self.features, self.values, self.tracks, self.ways, self.roots, self.members, leaves, about
        )
        summed = np.bincount(order[order >= 0], weights[order >= 0], len(forest.columns))
        tables = {name: writer.tensor(table) for name, table in vars(forest).items()}
        said = writer.weight("leaves", summed)
        return writer.node(TREES, writer.features(), said, domain=DOMAIN, total=total, results=columns, **tables)


def _by_names(writer: _Writer, what: str) -> _Trees:
    """The trees of operators whose nodes have a number within their tree; ``what`` they tell: targets or classes."""
    names = [*zip(writer.integers("nodes_treeids").tolist(), writer.integers("nodes_nodeids").tolist(), strict=True)]
    numbers = {name: number for number, name in enumerate(names)}
    count = len(names)
    if not count or len(numbers) != count:
        raise ValueError("it has no nodes, or several of one number")
    modes = writer.texts("nodes_modes")
    features, values = writer.integers("nodes_featureids"), writer.numbers("nodes_values")
    tracks = writer.integers("nodes_missing_value_tracks_true")
    tracks = tracks != 0 if tracks.size else np.zeros(count, np.bool_)
    ways = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        wanted = zip((tree for tree, _ in names), writer.integers(name).tolist(), strict=True)
        ways.append(np.array([numbers.get(key, -1) for key in wanted]))
    if {len(modes), features.size, values.size, tracks.size} != {count}:
        raise ValueError("its lists have several lengths")
    if unknown := {*modes} - {*_MODES} | {_MODES[_MEMBER]} & {*modes}:
        raise _NoForm(f"nodes of kind {min(unknown)} have no counterpart here")
    roots = sorted({tree: numbers[tree, node] for tree, node in reversed(names)}.values())
    keys = zip(writer.integers(f"{what}_treeids").tolist(), writer.integers(f"{what}_nodeids").tolist(), strict=True)
    leaves = np.array([numbers[key] for key in keys], np.int64)
    said = leaves, writer.integers(f"{what}_ids"), writer.numbers(f"{what}_weights")
    return _Trees(modes, features, values, tracks, ways, np.array(roots), {}, said)


def _by_places(writer: _Writer) -> _Trees:
    """The trees of the newer operator, whose leaves are apart: here each stands behind the nodes, once for each way to it."""
    modes = writer.numbers("nodes_modes").astype(np.int64)
    count = modes.size
    if not count or modes.min() < 0 or modes.max() >= len(_MODES) - 1:
        raise ValueError("it has no nodes, or some that are compared in no known way")
    tracks = writer.integers("nodes_missing_value_tracks_true")
    about, weights = writer.integers("leaf_targetids"), writer.numbers("leaf_weights")
    ways, said = [], []
    for side, name in enumerate(("true", "false")):
        wanted, is_leaf = writer.integers(f"nodes_{name}nodeids"), writer.integers(f"nodes_{name}leafs") != 0
        if wanted.size != count or is_leaf.size != count or (wanted < 0).any() or (wanted[~is_leaf] >= count).any():
            raise ValueError("its nodes lead to others that are not there, or its lists have several lengths")
        own = count * (side + 1) + np.arange(count)
        ways.append(np.where(is_leaf, own, wanted))
        said.append((own[is_leaf], wanted[is_leaf]))
    places = np.concatenate([leaf for _, leaf in said])
    leaves = np.concatenate([own for own, _ in said])
    padding = np.zeros(2 * count)
    sets = _sets(writer.numbers("membership_values"))
    held = np.flatnonzero(modes == _MEMBER).tolist()
    if len(sets) != len(held):
        raise ValueError(f"it has {len(sets)} sets of members for {len(held)} nodes that ask for them")
    return _Trees(
        [_MODES[mode] for mode in modes] + ["LEAF"] * (2 * count),
        np.concatenate([writer.integers("nodes_featureids"), padding]).astype(np.int64),
        np.concatenate([writer.numbers("nodes_splits"), padding]),
        np.concatenate([tracks if tracks.size else np.zeros(count), padding]) != 0,
        [np.concatenate([way, padding - 1]).astype(np.int64) for way in ways],
        writer.integers("tree_roots"), dict(zip(held, sets, strict=True)), (leaves, about[places], weights[places]),
    )  # fmt: skip


def _sets(values: Any) -> list[Any]:
    """Sets of members, which NaN separates in a file."""
    ends = np.flatnonzero(np.isnan(values))
    parts = np.split(values, ends)
    return [
        part[~np.isnan(part)]
        for part in (parts[:-1] if ends.size and ends[-1] == values.size - 1 else parts)
        if values.size
    ]


def _sums(writer: _Writer, trees: _Trees, columns: int) -> str:
    """Totals of what trees say, with base values; (N, columns)."""
    total = trees.write(writer, columns, _AGGREGATES[writer.text("aggregate_function", "SUM")])
    base = writer.numbers("base_values")
    return writer.node("Add", total, writer.weight("base_values", base)) if base.size else total


def _tree_regressor(writer: _Writer) -> None:
    sums = _sums(writer, _by_names(writer, "target"), int(writer.number("n_targets", 1)))
    writer.finished(sums, writer.outputs[0])


def _tree_classifier(writer: _Writer) -> None:
    labels, trees = writer.labels(), _by_names(writer, "class")
    ids = trees.said[1]
    if len(labels) != 2 or len({*ids.tolist()}) != 1:
        writer.give_classes(_sums(writer, trees, len(labels)), labels)
        return
    if writer.numbers("base_values").size > 1:
        raise _NoForm("two base values for one score of two classes have no counterpart here")
    if not 0 <= ids[0] < 2:
        raise IndexError(f"class_ids has {ids[0]} for two classes")
    positive = bool((trees.said[2] >= 0).all())
    trees.said = trees.said[0], np.zeros_like(ids), trees.said[2]
    writer.give_two_classes(_sums(writer, trees, 1), labels, positive)


def _trees(writer: _Writer) -> None:
    kinds, ends = ("AVERAGE", "SUM", "MIN", "MAX"), ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    total = kinds[writer.choice("aggregate_function", 1, len(kinds))]
    sums = _by_places(writer).write(writer, int(writer.number("n_targets", 1)), _AGGREGATES[total])
    writer.finished(sums, writer.outputs[0], ends[writer.choice("post_transform", 0, len(ends))])


_FORMS: dict[str, Callable[[_Writer], None]] = {
    "ArrayFeatureExtractor": _extracted, "Binarizer": _binarizer, "FeatureVectorizer": _joined,
    "Imputer": _imputer, "LabelEncoder": _encoder, "LinearClassifier": _linear_classifier,
    "LinearRegressor": _linear_regressor, "Normalizer": _normalizer, "OneHotEncoder": _one_hot,
    "SVMClassifier": _vector_classifier,
    "SVMRegressor": _vector_regressor, "Scaler": _scaler, "TreeEnsemble": _trees,
    "TreeEnsembleClassifier": _tree_classifier, "TreeEnsembleRegressor": _tree_regressor, "ZipMap": _table,
}  # fmt: skip

CLASSICAL = tuple(f"{DOMAIN}.{name}" for name in _FORMS)
"""The operators that can be read."""
