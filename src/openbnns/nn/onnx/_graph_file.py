"""An ONNX graph that is being written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .._graph import Operation
from .._value import INT64, Array, Value
from ..parameter import Parameter

OPSET, IR_VERSION = 21, 10
BATCH = "N"
_LISTED = 64  # bytes of constants that are written once for all that use them


class GraphFile:
    """Nodes, weights and names. Values are written with the batch in front, as they are here."""

    def __init__(self, onnx: Any, names: Mapping[int, str], paths: Mapping[int, str]) -> None:
        self.onnx = onnx
        self._weight_names, self._paths = names, paths
        self.nodes: list[Any] = []
        self.weights: dict[str, Array] = {}
        self._taken: set[str] = set(names.values())
        self._values: dict[Value, str] = {}  # by what owns the memory
        self._shown: dict[tuple[str, tuple[int, ...]], str] = {}  # in other shapes
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._batch_name = ""
        self.place = ""  # of the layer that is being written
        self.converted: list[tuple[str, str, str]] = []  # layer, operation here, operators there
        self.bounds: dict[str, Any] = {}  # "input" and "output" of the network, if nodes lie before or behind it

    # Names.

    def fresh(self, wanted: str) -> str:
        """A name that nothing has yet."""
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name

    def bind(self, value: Value, name: str) -> None:
        self._values[value.storage] = name

    def use(self, value: Value) -> str:
        """The name of a value, in its shape."""
        owner = value.storage
        if owner.leaf is not None:
            name = self.leaf(owner.leaf)
        else:
            name = self._values[owner]
        shape = self.shape_of(value)
        if shape == self.shape_of(owner):
            return name
        if (name, shape) not in self._shown:
            self._shown[name, shape] = self.node("Reshape", name, self.integers(shape))
        return self._shown[name, shape]

    @staticmethod
    def shape_of(value: Value) -> tuple[int, ...]:
        """-1 for the batch."""
        return (-1, *value.sample) if value.rows else value.sample

    def leaf(self, leaf: Any) -> str:
        if isinstance(leaf, Parameter):
            name = self._weight_names.get(id(leaf))
            return self.constant(leaf.data) if name is None else self.weight(name, leaf.data)
        return self.constant(leaf)

    def buffer(self, array: Array) -> str:
        """An array that is saved with the weights."""
        name = self._weight_names.get(id(array))
        return self.constant(array) if name is None else self.weight(name, array)

    def weight(self, name: str, array: Array) -> str:
        self.weights.setdefault(name, array)
        return name

    # Nodes.

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output."""
        return self.several(op, inputs, 1, **attributes)[0]

    def several(self, op: str, inputs: Iterable[str], outputs: int, **attributes: Any) -> list[str]:
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        stem = f"{self.place}/{op}" if self.place else op
        name = self.fresh(stem)
        made = [self.fresh(f"{name}:{i}" if i else f"{name}:out") for i in range(outputs)]
        chosen = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(self.onnx.helper.make_node(op, given, made, name=name, **chosen))
        return made

    def constant(self, array: Any) -> str:
        """A constant that nobody trains."""
        numbers = np.array(array, order="C")
        key = (str(numbers.dtype), numbers.shape, numbers.tobytes() if numbers.nbytes <= _LISTED else b"")
        if key in self._constants and numbers.nbytes <= _LISTED:
            return self._constants[key]
        tensor = self.onnx.numpy_helper.from_array(numbers)
        before, self.place = self.place, ""
        name = self.node("Constant", value=tensor)
        self.place = before
        if numbers.nbytes <= _LISTED:
            self._constants[key] = name
        return name

    def number(self, value: float) -> str:
        return self.constant(np.float32(value))

    def integers(self, values: Sequence[int]) -> str:
        return self.constant(np.array(values, np.int64))

    def words(self, texts: Sequence[str]) -> str:
        """A constant of texts."""
        helper = self.onnx.helper
        tensor = helper.make_tensor("", self.onnx.TensorProto.STRING, [len(texts)], [text.encode() for text in texts])
        return self.node("Constant", value=tensor)

    def named(self, wanted: str, source: str) -> str:
        """A value under another name, for those who look for it."""
        name = self.fresh(wanted)
        self.nodes.append(self.onnx.helper.make_node("Identity", [source], [name], name=self.fresh("Identity")))
        return name

    def batch_size(self, rows: int) -> str:
        """The length of the first axis of values that have so many rows per sample, as a tensor of one number."""
        if not self._batch_name:
            self._batch_name = self.node("Shape", self._first_input, start=0, end=1)
        return self._batch_name if rows == 1 else self.node("Mul", self._batch_name, self.integers([rows]))

    def shape(self, rows: int, sample: Sequence[int]) -> str:
        """A shape with the batch in front, as a tensor."""
        if not rows:
            return self.integers(sample)
        return self.node("Concat", self.batch_size(rows), self.integers(sample), axis=0)

    # Inputs.

    _first_input = ""

    def input(self, value: Value, name: str) -> Any:
        """Declare an input of the graph that is one of the network; gives what the file says about it."""
        chosen, declared = self.declare(name, self.kind(value), self.dimensions(value))
        self.bind(value, chosen)
        self._first_input = self._first_input or chosen
        return declared

    def declare(self, name: str, kind: int, dimensions: Sequence[Any]) -> tuple[str, Any]:
        """The name of a new input of the graph, and what the file says about it."""
        chosen = self.fresh(name)
        return chosen, self.onnx.helper.make_tensor_value_info(chosen, kind, dimensions)

    def begin(self, value: Value, source: str) -> None:
        """The network begins with this value, which nodes have made of the inputs of the graph."""
        self._first_input = name = self.named("prepared", source)
        self.bind(value, name)
        self.bounds["input"] = self.described(value, name)

    def end(self, value: Value, source: str) -> str:
        """The network ends with this value, of which nodes make an output of the graph."""
        name = self.named("scores", source)
        self.bounds["output"] = self.described(value, name)
        return name

    def described(self, value: Value, name: str) -> Any:
        """What the file says about a value."""
        return self.onnx.helper.make_tensor_value_info(name, self.kind(value), self.dimensions(value))

    def kind(self, value: Value) -> int:
        """Of elements."""
        types = self.onnx.TensorProto
        return int(types.INT64 if value.dtype == INT64 else types.FLOAT)

    @staticmethod
    def dimensions(value: Value) -> list[Any]:
        first = [BATCH if value.rows == 1 else f"{BATCH}*{value.rows}"] if value.rows else []
        return [*first, *value.sample]

    # Operations.

    def note(self, operation: str, first: int) -> None:
        """An operation has become the nodes from this one on."""
        ops = [node.op_type for node in self.nodes[first:] if node.op_type != "Constant"]
        self.converted.append((self.place, operation, " ".join(ops)))

    def enter(self, operation: Operation) -> None:
        """Whatever is written next belongs to the layer of this operation."""
        self.place = self.place_of(operation)

    def place_of(self, operation: Operation) -> str:
        module = operation.modules[-1] if operation.modules else None
        path = "" if module is None else self._paths.get(id(module), "")
        function = operation.functions[-1] if operation.functions else None
        return "/".join(part for part in (path, function.name if function is not None else "") if part)
