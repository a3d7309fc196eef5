"""Groups of ONNX nodes that are one layer here."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ._file import Model, Node
from .operators.products import LINEAR


class _Nodes:
    """The nodes of a model by the tensors that they compute, and how often each tensor is read."""

    def __init__(self, model: Model) -> None:
        self.model, self.weights = model, model.initializers
        self.readers: dict[str, int] = {port.name: 1 for port in model.outputs}
        for node in model.nodes:
            for name in node.reads:
                self.readers[name] = self.readers.get(name, 0) + 1
        self._makers = {name: node for node in model.nodes for name in node.outputs if name}

    def source(self, name: str) -> str:
        """The name of the same tensor before nodes that only pass it on."""
        node = self._makers.get(name)
        while node is not None and node.op == "Identity":
            name = node.inputs[0]
            node = self._makers.get(name)
        return name

    def maker(self, name: str, op: str) -> Node | None:
        """The node that makes a tensor, if it is of this kind."""
        node = self._makers.get(self.source(name))
        return node if node is not None and node.op == op else None

    def number(self, name: str) -> float | None:
        """The only number of a constant."""
        name = self.source(name)
        node = self._makers.get(name)
        array = self.weights.get(name)
        if node is not None and node.op == "Constant":
            array = node.attributes.get("value")
        single = isinstance(array, np.ndarray) and array.size == 1 and array.ndim <= 1 and array.dtype.kind == "f"
        return float(array.reshape(())) if single and array is not None else None

    def is_number(self, name: str, expected: float) -> bool:
        number = self.number(name)
        return number is not None and math.isclose(number, expected, rel_tol=1e-6)


def with_layers(model: Model) -> list[Node]:
    """The nodes of a model with every known pattern as one node, and without those that nothing reads any more."""
    nodes = _Nodes(model)
    made = []
    for node in model.nodes:
        pairs = [] if len(node.inputs) != 2 else [node.inputs, node.inputs[::-1]]
        candidates = (pattern(nodes, node, *pair) for pattern in _PATTERNS.get(node.op, ()) for pair in pairs)
        made.append(next((layer for layer in candidates if layer is not None), node))
    kept, wanted = [], {port.name for port in model.outputs}
    for node in reversed(made):
        if wanted.intersection(node.outputs):
            kept.append(node)
            wanted.update(node.reads)
    return kept[::-1]


def _linear(nodes: _Nodes, add: Node, inner: str, bias: str) -> Node | None:
    """``MatMul`` with a transposed weight, and the ``Add`` of a bias behind it."""
    product, weights = nodes.maker(inner, "MatMul"), nodes.weights
    if product is None or len(product.inputs) != 2 or bias not in weights or nodes.readers[inner] != 1:
        return None
    turned = nodes.maker(product.inputs[1], "Transpose")
    if turned is None or turned.attributes.get("perm", (1, 0)) != (1, 0):
        return None
    weight = weights.get(turned.inputs[0]) if turned.inputs else None
    if weight is None or weight.ndim != 2 or weights[bias].shape != weight.shape[:1]:
        return None
    if weight.dtype.kind != "f" or weights[bias].dtype.kind != "f":
        return None
    inputs = (product.inputs[0], turned.inputs[0], bias)
    return Node(add.name or product.name, LINEAR, inputs, add.outputs, {}, add.index)


def _convolution(nodes: _Nodes, add: Node, inner: str, bias: str) -> Node | None:
    """A convolution, and the ``Add`` of a bias (1, channels, 1, 1) behind it, which is (channels,) from then on."""
    conv, weights = nodes.maker(inner, "Conv"), nodes.weights
    if conv is None or len(conv.inputs) != 2 or nodes.readers[inner] != 1 or nodes.readers.get(bias) != 1:
        return None
    weight, added = weights.get(conv.inputs[1]), weights.get(bias)
    if weight is None or added is None or weight.dtype.kind != "f" or added.dtype.kind != "f":
        return None
    if weight.ndim < 3 or added.shape != (1, weight.shape[0], *(1,) * (weight.ndim - 2)):
        return None
    weights[bias] = added.reshape(-1)
    return Node(conv.name or add.name, "Conv", (*conv.inputs, bias), add.outputs, conv.attributes, add.index)


def _swish(nodes: _Nodes, product: Node, inner: str, x: str) -> Node | None:
    """x sigmoid(x), which exporters write for SiLU."""
    sigmoid = nodes.maker(inner, "Sigmoid")
    if sigmoid is None or nodes.source(sigmoid.inputs[0]) != nodes.source(x):
        return None
    return Node(product.name or sigmoid.name, "Swish", (x,), product.outputs, {}, product.index)


def _hard_swish(nodes: _Nodes, quotient: Node, inner: str, six: str) -> Node | None:
    """x clip(x + 3, 0, 6) / 6."""
    product = nodes.maker(inner, "Mul")
    if product is None or quotient.inputs != (inner, six) or not nodes.is_number(six, 6):
        return None
    for cut, x in (product.inputs, product.inputs[::-1]):
        clip = nodes.maker(cut, "Clip")
        moved = None if clip is None else nodes.maker(clip.inputs[0], "Add")
        if clip is None or moved is None or _bounds(nodes, clip) != (0, 6):
            continue
        for a, three in (moved.inputs, moved.inputs[::-1]):
            if nodes.source(a) == nodes.source(x) and nodes.is_number(three, 3):
                return Node(quotient.name, "HardSwish", (x,), quotient.outputs, {}, quotient.index)
    return None


def _bounds(nodes: _Nodes, clip: Node) -> tuple[float | None, float | None]:
    if len(clip.inputs) == 3:
        return nodes.number(clip.inputs[1]), nodes.number(clip.inputs[2])
    return clip.attributes.get("min"), clip.attributes.get("max")


def _hard_swish_by_sigmoid(nodes: _Nodes, product: Node, inner: str, x: str) -> Node | None:
    """x hard_sigmoid(x)."""
    gate = nodes.maker(inner, "HardSigmoid")
    if gate is None or nodes.source(gate.inputs[0]) != nodes.source(x) or gate.attributes.get("beta", 0.5) != 0.5:
        return None
    if not math.isclose(gate.attributes.get("alpha", 0.2), 1 / 6, rel_tol=1e-5):
        return None
    return Node(product.name or gate.name, "HardSwish", (x,), product.outputs, {}, product.index)


def _gelu(nodes: _Nodes, product: Node, inner: str, half: str) -> Node | None:
    """x (1 + erf(x / sqrt(2))) / 2, halved at the end."""
    whole = nodes.maker(inner, "Mul")
    if whole is None or not nodes.is_number(half, 0.5):
        return None
    for raised, x in (whole.inputs, whole.inputs[::-1]):
        added = nodes.maker(raised, "Add")
        for inside, one in () if added is None else (added.inputs, added.inputs[::-1]):
            erf = nodes.maker(inside, "Erf")
            scaled = None if erf is None else nodes.maker(erf.inputs[0], "Div")
            if scaled is None or not nodes.is_number(one, 1) or not nodes.is_number(scaled.inputs[1], math.sqrt(2)):
                continue
            if nodes.source(scaled.inputs[0]) == nodes.source(x):
                return Node(product.name or whole.name, "Gelu", (x,), product.outputs, {}, product.index)
    return None


_PATTERNS: dict[str, tuple[Callable[[_Nodes, Node, str, str], Node | None], ...]] = {
    "Add": (_linear, _convolution), "Mul": (_swish, _hard_swish_by_sigmoid, _gelu), "Div": (_hard_swish,),
}  # fmt: skip
