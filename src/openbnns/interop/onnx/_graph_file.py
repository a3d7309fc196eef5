"""An ONNX graph that is being written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import numpy as np

from ...graph.operation import Operation
from ...graph.parameter import Parameter
from ...graph.polynomials import Factor, Polynomial
from ...graph.sizes import AnySize, FreeSizes, Size, expression_of
from ...graph.tensor import INT64, Array, Tensor
from .errors import NoForm

OPSET, IR_VERSION = 21, 10
_LISTED = 64  # bytes of constants that are written once for all that use them

ShapeInFile = tuple[int | Polynomial, ...]


class GraphFile:
    """Nodes, weights and names. Free sizes are dynamic axes, of the same names, unless the recording has fixed them."""

    def __init__(self, onnx: Any, names: Mapping[int, str], paths: Mapping[int, str], free: FreeSizes) -> None:
        self.onnx = onnx
        self._free: Mapping[str, str | int] = free.without_guards()
        self._axes: dict[str, tuple[str, int]] = {}  # the value and the axis that have a free size
        self._counted: dict[Polynomial | Factor, str] = {}  # sizes as tensors of one number
        self._weight_names, self._paths = names, paths
        self.opsets = {"": OPSET}  # by domain
        self.nodes: list[Any] = []
        self.weights: dict[str, Array] = {}
        self._taken: set[str] = set(names.values())
        self._values: dict[Tensor, str] = {}  # by what owns the memory
        self._shown: dict[tuple[str, ShapeInFile], str] = {}  # in other shapes
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self.place = ""  # of the layer that is being written
        self.converted: list[tuple[str, str, str]] = []  # layer, operation here, operators there
        self.bounds: dict[str, Any] = {}  # "input" and "output" of the network, if nodes lie before or behind it

    # Names.

    def fresh(self, wanted: str) -> str:
        """A new name."""
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name

    def bind(self, value: Tensor, name: str) -> None:
        self._values[value.storage] = name

    def use(self, value: Tensor) -> str:
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
            self._shown[name, shape] = self.reshaped(name, value.shape)
        return self._shown[name, shape]

    def leaf(self, leaf: Any) -> str:
        if isinstance(leaf, Parameter):
            name = self._weight_names.get(id(leaf))
            return self.constant(leaf.data) if name is None else self.weight(name, leaf.data)
        if isinstance(leaf, Size):
            number = self.node("Cast", self.sizes([leaf]), to=self.onnx.TensorProto.FLOAT)
            return self.node("Squeeze", number, self.integers([0]))
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
        """A constant that is not trained."""
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

    def named(self, wanted: str, source: str) -> str:
        """A value under another name."""
        name = self.fresh(wanted)
        self.nodes.append(self.onnx.helper.make_node("Identity", [source], [name], name=self.fresh("Identity")))
        return name

    # Graphs of nodes.

    @contextmanager
    def inner(self) -> Iterator[list[Any]]:
        """The nodes of a graph of a node, in the block: it sees all names around it, and nothing around it sees its own."""
        nodes, values, shown = self.nodes, dict(self._values), dict(self._shown)
        constants, counted, axes = dict(self._constants), dict(self._counted), dict(self._axes)
        known, self.nodes = self._free, []
        try:
            yield self.nodes
        finally:
            self.nodes, self._values, self._shown, self._free = nodes, values, shown, known
            self._constants, self._counted, self._axes = constants, counted, axes

    def fix(self, free: FreeSizes) -> None:
        """Go on with the sizes of an inner graph, which may fix some that are free around it."""
        inside = free.without_guards(but_equalities=True)
        self._free = {name: by if isinstance(by, int) else self._free.get(by, by) for name, by in inside.items()}

    def conditions(self, free: FreeSizes) -> list[Polynomial]:
        """Expressions in sizes of the graph around an inner one that are 0 if its guards are met."""
        outside = [assumed for assumed in free.assumptions() if assumed.names() <= self._free.keys()]
        unequal = dict.fromkeys(assumed.replaced(self._free) for assumed in outside)
        if any(difference.constant for difference in unequal):
            raise NoForm("a graph inside of it takes other sizes than the network")
        return [difference for difference in unequal if difference.constant is None]

    def checked(self, name: str, shape: Sequence[AnySize], conditions: Sequence[Polynomial]) -> str:
        """A value as it is; running the file fails here if a condition is not 0."""
        for difference in conditions:  # with an axis more, it has as many elements only if that is of size 1
            more = self.node("Add", self._count(difference), self.integers([1]))
            numbers = self.node("Concat", self.sizes(shape), more, axis=0)
            name = self.node("Squeeze", self.node("Reshape", name, numbers), self.integers([-1]))
        return name

    def graph(
        self, title: str, nodes: Sequence[Any], results: Sequence[tuple[str, Tensor]], inputs: Sequence[Any] = ()
    ) -> Any:
        """A graph for a node; gives results of these names with what the file says of them."""
        ports = [self.described(value, name) for name, value in results]
        return self.onnx.helper.make_graph(nodes, title, list(inputs), ports)

    # Sizes.

    def size(self, size: AnySize) -> int | Polynomial:
        """A size as the file has it: a number, or an expression in its dynamic axes."""
        expression = expression_of(size).replaced(self._free)
        number = expression.constant
        return expression if number is None else number

    def shape_of(self, value: Tensor) -> ShapeInFile:
        return tuple(map(self.size, value.shape))

    def sizes(self, sizes: Sequence[AnySize]) -> str:
        """Sizes as a tensor of whole numbers."""
        parts: list[str] = []
        for plain, group in groupby(map(self.size, sizes), lambda size: isinstance(size, int)):
            known: list[Any] = list(group)
            parts += [self.integers(known)] if plain else map(self._count, known)
        if not parts:
            return self.integers([])
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=0)

    def reshaped(self, name: str, shape: Sequence[AnySize]) -> str:
        """A tensor in another shape."""
        known = [self.size(n) for n in shape]
        plain = [n if isinstance(n, int) else -1 for n in known]
        inferred = plain.count(-1) == 1 and 0 not in plain
        return self.node("Reshape", name, self.integers(plain) if inferred else self.sizes(shape))

    def _count(self, expression: Polynomial) -> str:
        """An expression as a tensor of one number, (1,)."""
        if expression not in self._counted:
            terms = [self._term(factors, number) for factors, number in expression.terms]
            total, *rest = terms or [self.integers([0])]
            for term in rest:
                total = self.node("Add", total, term)
            self._counted[expression] = total
        return self._counted[expression]

    def _term(self, factors: Sequence[Factor], number: int) -> str:
        names = [self._factor(factor) for factor in factors]
        if number != 1 or not names:
            names.append(self.integers([number]))
        product, *rest = names
        for name in rest:
            product = self.node("Mul", product, name)
        return product

    def _factor(self, factor: Factor) -> str:
        if factor not in self._counted:
            if isinstance(factor, str):
                value, axis = self._axes[factor]
                self._counted[factor] = self.node("Shape", value, start=axis, end=axis + 1)
            else:
                dividend, divisor = self._count(factor.dividend), self._count(factor.divisor)
                if (factor.dividend.least() or -1) < 0:  # Div of ONNX rounds towards zero
                    dividend = self.node("Sub", dividend, self.node("Mod", dividend, divisor))
                self._counted[factor] = self.node("Div", dividend, divisor)
        return self._counted[factor]

    def find(self, name: str, value: str, axis: int | None, element: int = 0) -> None:
        """Let a computed size be that of an axis of a value in the file, or an element of it."""
        if axis is not None:
            self._axes[name] = value, axis
        else:
            ends = self.integers([element]), self.integers([element + 1])
            self._counted[name] = self.node("Slice", value, *ends, self.integers([0]))

    # Inputs.

    def input(self, value: Tensor, name: str) -> Any:
        """Declare an input of the graph that is one of the network; gives what the file says about it."""
        chosen, declared = self.declare(name, self.kind(value), self.dimensions(value.shape))
        self._begin(value, chosen)
        return declared

    def _begin(self, value: Tensor, name: str) -> None:
        self.bind(value, name)
        for axis, size in enumerate(value.shape):
            known = self.size(size)
            if not isinstance(known, int):
                self._axes.setdefault(str(known), (name, axis))

    def declare(self, name: str, kind: int, dimensions: Sequence[Any]) -> tuple[str, Any]:
        """The name of a new input of the graph, and what the file says about it."""
        chosen = self.fresh(name)
        return chosen, self.onnx.helper.make_tensor_value_info(chosen, kind, dimensions)

    def begin(self, value: Tensor, source: str) -> None:
        """Let the network begin with this value, which nodes have computed from the inputs of the graph."""
        name = self.named("prepared", source)
        self._begin(value, name)
        self.bounds["input"] = self.described(value, name)

    def end(self, value: Tensor, source: str) -> str:
        """Let the network end with this value, from which nodes compute an output of the graph."""
        name = self.named("scores", source)
        self.bounds["output"] = self.described(value, name)
        return name

    def described(self, value: Tensor, name: str) -> Any:
        """The file's description of a value."""
        return self.onnx.helper.make_tensor_value_info(name, self.kind(value), self.dimensions(value.shape))

    def kind(self, value: Tensor) -> int:
        """The type of the elements of a value, by ONNX's number."""
        types = self.onnx.TensorProto
        return int(types.INT64 if value.dtype == INT64 else types.FLOAT)

    def dimensions(self, shape: Sequence[AnySize]) -> list[Any]:
        """Sizes as the file declares them: numbers, and names or expressions of dynamic axes."""
        return [size if isinstance(size, int) else str(size) for size in map(self.size, shape)]

    # Operations.

    def note(self, operation: str, first: int) -> None:
        """Note that an operation has become the nodes from this one on."""
        ops = [node.op_type for node in self.nodes[first:] if node.op_type != "Constant"]
        self.converted.append((self.place, operation, " ".join(ops)))

    def enter(self, operation: Operation) -> None:
        """Attribute nodes from here on to the layer of this operation."""
        self.place = self.place_of(operation)

    def place_of(self, operation: Operation) -> str:
        module = operation.modules[-1] if operation.modules else None
        path = "" if module is None else self._paths.get(id(module), "")
        function = operation.functions[-1] if operation.functions else None
        return "/".join(part for part in (path, function.name if function is not None else "") if part)
