"""The numbers of an ONNX model, sorted into parameters, buffers and constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._plural import plural
from ...graph.parameter import Parameter
from ...graph.tensor import Array
from ..converted.tensors import NODE_ERRORS, ForeignTensor, Misfit
from ._call import Call
from ._file import Model, Node, nested
from ._operator import OPERATORS
from .apply import result_of
from .operators.cells import CELLS, Cells, directions
from .operators.quantized import dequantized


@dataclass
class Weights:
    """By name; ``cells`` holds the weights of recurrent nodes by the number of the node."""

    parameters: dict[str, Parameter] = field(default_factory=dict)
    buffers: dict[str, Array] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    cells: dict[int, list[Cells]] = field(default_factory=dict)


def sorted_out(model: Model, frozen: set[str]) -> Weights:
    """The initializers of a model by their use."""
    weights = Weights()
    readers: dict[str, list[tuple[Node, int]]] = {}
    for node in nested(model.nodes):
        for place, name in enumerate(node.inputs):
            readers.setdefault(name, []).append((node, place))
    results = {port.name for port in model.outputs}
    results |= {port.name for node in nested(model.nodes) for graph in node.graphs for port in graph.outputs}
    cells = _Tracing(model)
    for name, array in model.initializers.items():
        uses = readers.get(name, [])
        if not uses and name not in results:
            continue
        array = _in_float32(array)
        statistics = any(place in OPERATORS[node.op].statistics for node, place in uses)
        if statistics and array.dtype.kind == "f":
            weights.buffers[name] = np.array(array, order="C")
        elif _is_weight(array) and not all(place in OPERATORS[node.op].settings for node, place in uses):
            weights.parameters[name] = Parameter.owning(array, requires_grad=name not in frozen)
        else:
            array.flags.writeable = False
            weights.constants[name] = array
    for node in nested(model.nodes):
        if node.op in CELLS:
            made = cells.of(node, weights.parameters)
            if made is not None:
                weights.cells[node.index] = made
    _drop_taken_over(model, weights, readers, results)
    return weights


def _in_float32(array: Array) -> Array:
    """Numbers as networks compute with them; what is too large becomes infinite."""
    with np.errstate(over="ignore"):
        return array.astype(np.float32) if array.dtype.kind == "f" else array


def _is_weight(array: Array) -> bool:
    """True for numbers along at least one axis, other than masks, which have infinities."""
    return array.dtype.kind == "f" and array.ndim > 0 and array.size > 0 and bool(np.isfinite(array).all())


def _drop_taken_over(model: Model, weights: Weights, readers: dict[str, Any], results: set[str]) -> None:
    """Leave out what only recurrent nodes read, which hold their weights in another order."""
    own = {id(p) for cells in weights.cells.values() for one in cells for p in (one.weight, one.recurrent, *one.biases)}
    taken = {node.index for node in nested(model.nodes) if node.index in weights.cells}
    for name in [n for n, p in weights.parameters.items() if id(p) not in own]:
        uses = readers.get(name, [])
        if name not in results and all(node.index in taken and place in (1, 2, 3) for node, place in uses):
            weights.constants[name] = weights.parameters.pop(name).data


class _Tracing:
    """The origin of tensors in initializers, through nodes that only move elements."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.makers = {name: node for node in nested(model.nodes) for name in node.outputs if name}
        self.starts: dict[str, int] = {}
        flat, total = [], 0
        for name, array in model.initializers.items():
            if array.dtype.kind == "f":
                self.starts[name] = total
                flat.append(_in_float32(array).ravel())
                total += array.size
        self.numbers = np.concatenate(flat) if flat else np.empty(0, np.float32)
        self._known: dict[str, Array | None] = {}

    def of(self, node: Node, parameters: dict[str, Parameter]) -> list[Cells] | None:
        """The weights of a node of recurrent cells in the order of our layers; None if they are computed."""
        call = Call(node, self.model.opset)
        names = [*node.inputs, "", "", "", ""][1:4]
        places = [self.places(name) for name in names]
        if places[0] is None or places[1] is None or (names[2] and places[2] is None):
            return None
        w, r, b = places
        count, order = len(directions(call)), CELLS[node.op].order
        hidden = r.shape[-1] if r is not None and r.ndim == 3 else 0
        fits = (
            w is not None
            and r is not None
            and w.ndim == 3
            and w.shape[:2] == r.shape[:2] == (count, len(order) * hidden)
        )
        if not fits or not hidden or (b is not None and b.shape != (count, 2 * len(order) * hidden)):
            raise Misfit(
                f"weights {[None if p is None else p.shape for p in places]} do not fit {plural(count, 'direction')}"
            )
        assert w is not None and r is not None
        rows = np.concatenate([np.arange(g * hidden, (g + 1) * hidden) for g in order])
        title = node.name or node.outputs[0] or f"{node.op}_{node.index}"
        made = []
        for d in range(count):
            ending = "" if count == 1 or d == 0 else "_reverse"
            parts = {"weight_ih_l0": w[d][rows], "weight_hh_l0": r[d][rows]}
            if b is not None:
                halves = np.split(b[d], 2)
                parts |= {"bias_ih_l0": halves[0][rows], "bias_hh_l0": halves[1][rows]}
            held = [self._parameter(f"{title}.{name}{ending}", part, parameters) for name, part in parts.items()]
            made.append(Cells(held[0], held[1], tuple(held[2:])))
        return made

    def _parameter(self, name: str, places: Array, parameters: dict[str, Parameter]) -> Parameter:
        """The parameter whose elements these are, all and in order; else a new one with these numbers."""
        first = int(places.flat[0])
        for known, start in self.starts.items():
            array = self.model.initializers[known]
            fits = start == first and array.shape == places.shape and known in parameters
            if fits and np.array_equal(places.ravel(), np.arange(start, start + array.size)):
                return parameters[known]
        parameters[name] = Parameter.owning(self.numbers[places])
        return parameters[name]

    def places(self, name: str) -> Array | None:
        """The elements of initializers that a tensor consists of; None if it is computed."""
        if name in self._known or not name:
            return self._known.get(name)
        self._known[name] = None
        if name in self.starts:
            array = self.model.initializers[name]
            where: Any = np.arange(self.starts[name], self.starts[name] + array.size).reshape(array.shape)
        else:
            node = self.makers.get(name)
            where = None if node is None else self._moved(node, name)
        self._known[name] = where
        return where  # type: ignore[no-any-return]

    def _moved(self, node: Node, name: str) -> Array | None:
        if node.op == "Constant":
            return self._from_constant(node.attributes.get("value"))
        if node.op == "DequantizeLinear":
            return self._from_quantized(node)
        if not OPERATORS[node.op].moves:
            return None
        data = node.inputs if node.op == "Concat" else node.inputs[:1]
        given: list[Any] = [self.places(one) for one in data]
        if any(one is None for one in given):
            return None
        for other in node.inputs[len(data) :]:
            given.append(self._setting(other))
        call = Call(node, self.model.opset)
        if node.op == "Cast":
            return given[0]  # type: ignore[no-any-return]
        try:
            return _held(call, given)[node.outputs.index(name)]
        except NODE_ERRORS:
            return None

    def _from_quantized(self, node: Node) -> Array | None:
        """The numbers that weights of whole numbers stand for."""
        if not all(name in self.model.initializers for name in node.inputs if name):
            return None
        given: list[Any] = [self.model.initializers[name] if name else None for name in node.inputs]
        return self._from_constant(dequantized(Call(node, self.model.opset), *given))

    def _from_constant(self, value: Any) -> Array | None:
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            return None
        start = self.numbers.size
        self.numbers = np.concatenate([self.numbers, _in_float32(value).ravel()])
        places: Array = np.arange(start, start + value.size).reshape(value.shape)
        return places

    def _setting(self, name: str) -> Array | None:
        """Whole numbers that say where to."""
        if name in self.model.initializers:
            return self.model.initializers[name]
        node = self.makers.get(name)
        if node is None or node.op != "Constant":
            return None
        return _held(Call(node, self.model.opset), [])[0]


def _held(call: Call, arrays: Sequence[Array | None]) -> list[Array]:
    """The results of an operator on constants."""
    return [x.held for x in result_of(call, [None if array is None else ForeignTensor(array) for array in arrays])]
