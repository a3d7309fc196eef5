"""Nodes that are one layer here, although ONNX has several for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ._file import Model, Node
from .operators.products import LINEAR


def with_layers(model: Model) -> list[Node]:
    """The nodes of a model with every known pattern as one node."""
    readers: dict[str, int] = {port.name: 1 for port in model.outputs}
    for node in model.nodes:
        for name in node.reads:
            readers[name] = readers.get(name, 0) + 1
    makers = {name: node for node in model.nodes for name in node.outputs if name}
    replaced: dict[int, Node | None] = {}
    for node in model.nodes:
        if node.op not in _PATTERNS or len(node.inputs) != 2:
            continue
        for inner, other in (node.inputs, node.inputs[::-1]):
            source = makers.get(inner)
            if source is None or readers[inner] != 1 or source.index in replaced:
                continue
            made = _PATTERNS[node.op](model, makers, node, source, other)
            if made is not None:
                replaced[source.index] = None
                replaced[node.index] = made
                break
    nodes = [replaced.get(node.index, node) for node in model.nodes]
    return [node for node in nodes if node is not None]


def _linear(model: Model, makers: Mapping[str, Node], add: Node, product: Node, bias: str) -> Node | None:
    """``MatMul`` with a transposed weight, and the ``Add`` of a bias behind it."""
    weights = model.initializers
    if product.op != "MatMul" or len(product.inputs) != 2 or bias not in weights:
        return None
    turned = makers.get(product.inputs[1])
    if turned is None or turned.op != "Transpose" or turned.attributes.get("perm", (1, 0)) != (1, 0):
        return None
    weight = weights.get(turned.inputs[0]) if turned.inputs else None
    if weight is None or weight.ndim != 2 or weights[bias].shape != weight.shape[:1]:
        return None
    if weight.dtype.kind != "f" or weights[bias].dtype.kind != "f":
        return None
    inputs = (product.inputs[0], turned.inputs[0], bias)
    return Node(add.name or product.name, LINEAR, inputs, add.outputs, {}, add.index)


def _swish(model: Model, makers: Mapping[str, Node], product: Node, sigmoid: Node, x: str) -> Node | None:
    """x sigmoid(x), which exporters write for SiLU."""
    if sigmoid.op != "Sigmoid" or sigmoid.inputs != (x,):
        return None
    return Node(product.name or sigmoid.name, "Swish", (x,), product.outputs, {}, product.index)


_PATTERNS: dict[str, Callable[[Model, Mapping[str, Node], Node, Node, str], Node | None]] = {
    "Add": _linear, "Mul": _swish,
}  # fmt: skip
