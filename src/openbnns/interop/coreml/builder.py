"""Graphs that a function describes, with the operations of Swift's ``BNNSGraph.Builder``; they become ML programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .context import CompileOptions, Context
from .elements import ELEMENTS, Array, name_of
from .execution import Executable
from .program import Block, Constant, Function, NamedType, Operation, Program, StateType, TensorType, constant

_OPSET = "ios18"
_PROBES = (37, 41)
"""Two sizes that open axes are tried with: a size of a result that differs between them is open, too."""

EPSILON = float(np.sqrt(np.finfo(np.float32).eps))
"""The number that Swift adds to the argument of a logarithm or a quotient unless told otherwise: 2 to the power of -11.5."""

_ACTIVATIONS = {
    "hard_sigmoid": "sigmoid_hard", "linear": "linear", "relu": "relu", "scaled_tanh": "scaled_tanh",
    "sigmoid": "sigmoid", "tanh": "tanh",
}  # fmt: skip
_SCATTER = {
    "add": "add", "divide": "div", "maximum": "max", "minimum": "min", "multiply": "mul", "subtract": "sub",
    "update": "update",
}  # fmt: skip

Operand = Any
"""A tensor, a number, or an array or list of numbers."""


def make_context(
    function: Callable[[Builder], Sequence[Tensor] | Mapping[str, Tensor] | Tensor],
    options: CompileOptions | None = None,
) -> Context:
    """A context for the graph that a function of a builder describes.

    The function gives its outputs: tensors, which become ``output``, or ``output_0``, ``output_1`` and so on if there are
    several, or a dictionary of them by name.

    >>> import numpy as np
    >>> from openbnns import graph
    >>> context = graph.make_context(lambda b: b.argument("x", np.float32, [3]) * 2 + [1, 2, 3])
    >>> context.execute({"x": np.ones(3, np.float32)})["output"].tolist()
    [3.0, 4.0, 5.0]
    """
    builder = Builder()
    returned = function(builder)
    outputs = [returned] if isinstance(returned, Tensor) else returned
    tensors = outputs.values() if isinstance(outputs, Mapping) else outputs
    if not tensors or not all(isinstance(tensor, Tensor) for tensor in tensors):
        raise TypeError("make_context: the function must give tensors of its builder, at least one.")
    return Context.of_program(builder.program(outputs), options)


class Builder:
    """A maker of arguments and constants of a graph; everything else is an operation of its tensors.

    >>> import numpy as np
    >>> from openbnns import graph
    >>> def average(b):
    ...     x = b.argument("x", np.float32, [4])
    ...     return {"mean": x.mean(axes=[0], keep_dimensions=True)}
    >>> graph.make_context(average).execute({"x": np.float32([1, 2, 3, 6])})["mean"].tolist()
    [3.0]
    """

    def __init__(self) -> None:
        self._inputs: list[NamedType] = []
        self._operations: list[Operation] = []
        self._states: list[tuple[str, Tensor, str]] = []
        self._names: set[str] = set()

    def argument(
        self, name: str | None = None, data_type: Any = np.float32, shape: Sequence[int] = (), intent: str = "input"
    ) -> Tensor:
        """An input, or with the intent ``"input_output"`` a state, which assignments to parts of it change.

        -1 in the shape is an open size.
        """
        if intent not in ("input", "input_output"):
            raise ValueError(f"Builder.argument: intent is {intent!r}. Use 'input' or 'input_output'.")
        element = name_of(data_type)
        sizes = tuple(None if n < 0 else int(n) for n in shape)
        given = self._new_name(name or "argument", exact=name is not None)
        type = TensorType(element, sizes)
        probes = tuple(np.zeros([each if n is None else n for n in sizes], ELEMENTS[element].numpy) for each in _PROBES)
        if intent == "input":
            self._inputs.append(NamedType(given, type))
            return Tensor(self, given, element, probes)
        self._inputs.append(NamedType(given, StateType(type)))
        value = self._new_name(f"{given}_value")
        self._operations.append(Operation("read_state", {"input": (given,)}, [NamedType(value, type)]))
        tensor = Tensor(self, value, element, probes)
        self._states.append((given, tensor, value))
        return tensor

    def constant(
        self,
        name: str | None = None,
        value: Any = None,
        values: Any = None,
        shape: Sequence[int] | None = None,
        *,
        row_major: bool = True,
    ) -> Tensor:
        """A constant: a number, or ``values`` with a shape, which is that of a vector or of nested lists if left out.

        Nested lists are rows unless ``row_major`` says that they are columns.
        """
        if (value is None) == (values is None):
            raise TypeError("Builder.constant: pass value, a number, or values, numbers along axes.")
        held = np.array(values if value is None else value)
        if held.dtype == np.float64:
            held = held.astype(np.float32)
        elif held.dtype == np.int64:
            held = held.astype(np.int32)
        if shape is not None:
            held = held.reshape(tuple(shape))
        elif held.ndim == 2 and not row_major:
            held = held.T
        return self.constant_of(held, name)

    def concatenate(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """Tensors joined along an axis."""
        inputs = {"values": tuple(tensors), "axis": axis, "interleave": False}
        return self.add("concat", inputs, [tensors[0].element])[0]

    # For tensors.

    def constant_of(self, held: Array, name: str | None = None, element: str | None = None) -> Tensor:
        """A constant tensor."""
        value = constant(np.ascontiguousarray(held).reshape(held.shape), element)
        given = self._new_name(name or "constant", exact=name is not None)
        self._operations.append(_const(given, value))
        return Tensor(self, given, value.type.element, (value.array,) * 2, value)  # type: ignore[union-attr]

    def add(self, kind: str, inputs: Mapping[str, Any], elements: Sequence[str]) -> list[Tensor]:
        """The results of an operation, of these element types. Inputs are tensors, tuples of them, or plain values.

        Results of constants are constants, so that weights may be computed.
        """
        arguments: dict[str, tuple[Any, ...]] = {}
        for name, value in inputs.items():
            if value is not None:
                arguments[name] = tuple(
                    one.name if isinstance(one, Tensor) else one if isinstance(one, Constant) else constant(one)
                    for one in (value if isinstance(value, tuple) else (value,))
                )
        names = [self._new_name(kind) for _ in elements]
        read = {
            one.name: one
            for value in inputs.values()
            for one in (value if isinstance(value, tuple) else (value,))
            if isinstance(one, Tensor)
        }
        for tensor in read.values():
            if tensor.builder is not self:
                raise ValueError(f"{kind}: a tensor belongs to another builder. Use those of one make_context only.")
        probes = _probed(kind, arguments, list(read.values()), list(zip(names, elements, strict=True)))
        if all(tensor.constant is not None for tensor in read.values()):
            return [self.constant_of(each[0], element=element) for element, each in zip(elements, probes, strict=True)]
        tensors = [
            Tensor(self, name, element, each) for name, element, each in zip(names, elements, probes, strict=True)
        ]
        ports = [NamedType(tensor.name, tensor.type) for tensor in tensors]
        self._operations.append(Operation(kind, arguments, ports))
        return tensors

    def with_update(self, tensor: Tensor, place: Any, update: Operand) -> Tensor:
        """A copy of a tensor with a changed part. A state that the tensor stands for goes on with the copy."""
        changed = Tensor(self, tensor.name, tensor.element, tensor.probes, tensor.constant)
        changed[place] = update
        self._states = [(state, changed if held is tensor else held, read) for state, held, read in self._states]
        return changed

    def program(self, outputs: Mapping[str, Tensor] | Sequence[Tensor]) -> Program:
        """The program that computes these tensors; those without a name get one."""
        named = isinstance(outputs, Mapping)
        if not isinstance(outputs, Mapping):
            names = ["output"] if len(outputs) == 1 else [f"output_{i}" for i in range(len(outputs))]
            outputs = {self._new_name(name): tensor for name, tensor in zip(names, outputs, strict=True)}
        last = [
            Operation("write_state", {"input": (state,), "data": (tensor.name,)}, [])
            for state, tensor, read in self._states
            if tensor.name != read
        ]
        ports = []
        for name, tensor in outputs.items():
            port = NamedType(self._new_name(name, exact=True) if named else name, tensor.type)
            last.append(Operation("identity", {"x": (tensor.name,)}, [port]))
            ports.append(port.name)
        block = Block([], [*self._operations, *last], ports)
        return Program({"main": Function("main", list(self._inputs), _OPSET, block)})

    def _new_name(self, wish: str, *, exact: bool = False) -> str:
        name, number = wish, 0
        while name in self._names:
            if exact:
                raise ValueError(f"Builder: there are two tensors named {wish!r}. Give them different names.")
            number += 1
            name = f"{wish}_{number}"
        self._names.add(name)
        return name


def _const(name: str, value: Constant) -> Operation:
    return Operation("const", {}, [NamedType(name, value.type)], attributes={"val": value})


def _probed(
    kind: str, arguments: dict[str, tuple[Any, ...]], read: list[Tensor], outputs: list[tuple[str, str]]
) -> list[tuple[Array, ...]]:
    """The results of an operation for both trial sizes, by which their shapes are known and mistakes show at once."""
    inputs = [NamedType(tensor.name, tensor.type) for tensor in read if tensor.constant is None]
    constants = [_const(tensor.name, tensor.constant) for tensor in read if tensor.constant is not None]
    ports = [NamedType(name, TensorType(element, None)) for name, element in outputs]
    operation = Operation(kind, arguments, ports)
    block = Block([], [*constants, operation], [port.name for port in ports])
    executable = Executable(Function(kind, inputs, _OPSET, block))
    changing = any(tensor.is_open for tensor in read)
    results = []
    for trial in range(2 if changing else 1):
        with np.errstate(all="ignore"):
            computed = executable.run({t.name: t.probes[trial] for t in read if t.constant is None})
        results.append([np.asarray(computed[port.name]) for port in ports])
    return [(results[0][i], results[-1][i]) for i in range(len(ports))]


def _function(kind: str) -> Callable[[Tensor], Tensor]:
    """The method of tensors that applies an operation of one operand."""

    def method(self: Tensor) -> Tensor:
        return self.builder.add(kind, {"x": self}, [self.element])[0]

    return method


def _operator(kind: str, element: str | None = None, *, swapped: bool = False) -> Callable[[Tensor, Operand], Tensor]:
    """The method of tensors that applies an operation of two operands; the result has their type, or this one."""

    def method(self: Tensor, y: Operand) -> Tensor:
        return self._binary(kind, y, element, swapped=swapped)

    return method


class Tensor:
    """A tensor of a graph that is being built: operators and methods add operations to it.

    Operands may be tensors, numbers, arrays or lists. A slice can be read and assigned to; assigning makes the tensor the
    changed one.

    >>> import numpy as np
    >>> from openbnns import graph
    >>> def ramp(b):
    ...     x = b.argument("x", np.float32, [-1, 4])
    ...     x[:, 0] = x[:, 1:2].relu()
    ...     print(x)
    ...     return x.sum(axes=[1], keep_dimensions=False)
    >>> context = graph.make_context(ramp)
    shape: [-1, 4] | stride: [4, 1] | float32
    >>> context.execute({"x": np.ones((2, 4), np.float32)})["output"].tolist()
    [4.0, 4.0]
    """

    __array_ufunc__ = None  # so that an array on the left asks the tensor

    def __init__(
        self, builder: Builder, name: str, element: str, probes: tuple[Array, ...], held: Constant | None = None
    ) -> None:
        self.builder, self.name, self.element, self.probes, self.constant = builder, name, element, probes, held

    @property
    def data_type(self) -> np.dtype[Any]:
        return ELEMENTS[self.element].numpy

    @property
    def rank(self) -> int:
        return self.probes[0].ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes; -1 for one that is open."""
        return tuple(a if a == b else -1 for a, b in zip(self.probes[0].shape, self.probes[1].shape, strict=True))

    @property
    def stride(self) -> tuple[int, ...]:
        """The strides in elements; -1 for those that an open size decides."""
        steps = [[math.prod(p.shape[axis + 1 :]) for axis in range(p.ndim)] for p in self.probes]
        return tuple(a if a == b else -1 for a, b in zip(*steps, strict=True))

    @property
    def type(self) -> TensorType:
        return TensorType(self.element, tuple(None if n < 0 else n for n in self.shape))

    @property
    def is_open(self) -> bool:
        return self.probes[0] is not self.probes[1]

    def __repr__(self) -> str:
        return f"shape: {list(self.shape)} | stride: {list(self.stride)} | {self.data_type}"

    def _of(self, value: Operand) -> Tensor:
        """An operand as a tensor, of this tensor's type."""
        if isinstance(value, Tensor):
            return value
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"an operand is {type(value).__name__}. Pass a tensor, a number or numbers along axes.")
        return self.builder.constant_of(array.astype(self.data_type))

    def _number(self, value: float) -> Constant:
        return constant(np.array(value, self.data_type))

    def _with(self, kind: str, element: str = "", **inputs: Any) -> Tensor:
        return self.builder.add(kind, {"x": self, **inputs}, [element or self.element])[0]

    def _binary(self, kind: str, y: Operand, element: str | None = None, *, swapped: bool = False) -> Tensor:
        other = self._of(y)
        first, second = (other, self) if swapped else (self, other)
        return self.builder.add(kind, {"x": first, "y": second}, [element or self.element])[0]

    # Operators.

    __add__ = _operator("add")
    __radd__ = _operator("add", swapped=True)
    __sub__ = _operator("sub")
    __rsub__ = _operator("sub", swapped=True)
    __mul__ = _operator("mul")
    __rmul__ = _operator("mul", swapped=True)

    def __truediv__(self, y: Operand) -> Tensor:
        return self._binary("real_div" if self.data_type.kind == "f" else "floor_div", y)

    def __rtruediv__(self, y: Operand) -> Tensor:
        return self._binary("real_div" if self.data_type.kind == "f" else "floor_div", y, swapped=True)

    __mod__ = _operator("mod")

    def __neg__(self) -> Tensor:
        return self._binary("mul", -1)

    __eq__ = _operator("equal", "bool")  # type: ignore[assignment]
    __ne__ = _operator("not_equal", "bool")  # type: ignore[assignment]
    __hash__ = object.__hash__
    __lt__ = _operator("less", "bool")
    __le__ = _operator("less_equal", "bool")
    __gt__ = _operator("greater", "bool")
    __ge__ = _operator("greater_equal", "bool")
    __and__ = _operator("logical_and")
    __or__ = _operator("logical_or")
    __xor__ = _operator("logical_xor")
    __invert__ = _function("logical_not")

    def __bool__(self) -> bool:
        raise TypeError("a tensor of a graph has no values while it is built. Use select(a, b) in place of if.")

    # One operand.

    abs = _function("abs")
    acos = _function("acos")

    def acosh(self) -> Tensor:
        return (self + (self * self - 1).sqrt()).log(epsilon=0)

    asin = _function("asin")

    def asinh(self) -> Tensor:
        size = self.abs()
        return self._with("sign") * (size + (size * size + 1).sqrt()).log(epsilon=0)

    atan = _function("atan")
    atanh = _function("atanh")
    ceil = _function("ceil")
    cos = _function("cos")
    cosh = _function("cosh")
    erf = _function("erf")
    exp = _function("exp")
    exp2 = _function("exp2")
    floor = _function("floor")
    round = _function("round")
    sin = _function("sin")
    sinh = _function("sinh")
    sqrt = _function("sqrt")
    tan = _function("tan")
    tanh = _function("tanh")

    def log(self, epsilon: float = EPSILON) -> Tensor:
        """log(x + epsilon)."""
        return self._with("log", epsilon=self._number(epsilon))

    def reciprocal(self, epsilon: float = EPSILON) -> Tensor:
        """1 / (x + epsilon)."""
        return self._with("inverse", epsilon=self._number(epsilon))

    def rsqrt(self, epsilon: float = EPSILON) -> Tensor:
        """1 / sqrt(x + epsilon)."""
        return self._with("rsqrt", epsilon=self._number(epsilon))

    def clip(self, to: tuple[float, float]) -> Tensor:
        """Values limited to a range."""
        return self._with("clip", alpha=self._number(to[0]), beta=self._number(to[1]))

    def threshold(self, to: float) -> Tensor:
        """max(x, to)."""
        return self._with("threshold", alpha=self._number(to))

    def cast(self, to: Any) -> Tensor:
        """The values as another type."""
        element = name_of(to)
        return self._with("cast", element, dtype=element)

    def cumulative_sum(self, axis: int) -> Tensor:
        return self._with("cumsum", axis=axis)

    # Two operands and more.

    max = _operator("maximum")
    min = _operator("minimum")
    pow = _operator("pow")

    def fma(self, y: Operand, z: Operand) -> Tensor:
        """x y + z."""
        return self._binary("mul", y)._binary("add", z)

    # Activations.

    relu = _function("relu")
    relu6 = _function("relu6")

    def leaky_relu(self, alpha: float = 0.01) -> Tensor:
        return self._with("leaky_relu", alpha=self._number(alpha))

    def clamped_relu(self, alpha: float, beta: float) -> Tensor:
        return self._with("clamped_relu", alpha=self._number(alpha), beta=self._number(beta))

    def thresholded_relu(self, alpha: float) -> Tensor:
        return self._with("thresholded_relu", alpha=self._number(alpha))

    def elu(self, alpha: float) -> Tensor:
        return self._with("elu", alpha=self._number(alpha))

    def prelu(self, alpha: Sequence[float]) -> Tensor:
        """A slope for each channel, which is axis 1."""
        return self._with("prelu", alpha=constant(np.array(alpha, self.data_type)))

    sigmoid = _function("sigmoid")

    def hard_sigmoid(self, alpha: float, beta: float) -> Tensor:
        return self._with("sigmoid_hard", alpha=self._number(alpha), beta=self._number(beta))

    def hard_swish(self) -> Tensor:
        return self * self.hard_sigmoid(1 / 6, 0.5)

    silu = _function("silu")

    def softplus(self, alpha: float = 1.0) -> Tensor:
        """alpha log(1 + exp(x))."""
        result = self._with("softplus")
        return result if alpha == 1 else result * alpha

    softsign = _function("softsign")

    def scaled_tanh(self, alpha: float, beta: float) -> Tensor:
        return self._with("scaled_tanh", alpha=self._number(alpha), beta=self._number(beta))

    def gelu(self) -> Tensor:
        return self._with("gelu", mode="EXACT")

    def gelu_tanh_approximation(self) -> Tensor:
        return self._with("gelu", mode="TANH_APPROXIMATION")

    def gelu_sigmoid_approximation(self) -> Tensor:
        return self._with("gelu", mode="SIGMOID_APPROXIMATION")

    def softmax(self, axis: int) -> Tensor:
        return self._with("softmax", axis=axis)

    def log_softmax(self, axis: int) -> Tensor:
        return self - self.log_sum_exp([axis], keep_dimensions=True)

    # Reductions.

    def _reduced(self, kind: str, axes: Sequence[int], keep_dimensions: bool) -> Tensor:
        return self._with(f"reduce_{kind}", axes=list(axes), keep_dims=bool(keep_dimensions))

    def sum(self, axes: Sequence[int], keep_dimensions: bool) -> Tensor:
        return self._reduced("sum", axes, keep_dimensions)

    def mean(self, axes: Sequence[int], keep_dimensions: bool) -> Tensor:
        return self._reduced("mean", axes, keep_dimensions)

    def product(self, axes: Sequence[int], keep_dimensions: bool) -> Tensor:
        return self._reduced("prod", axes, keep_dimensions)

    def minimum(self, axes: Sequence[int], keep_dimensions: bool) -> Tensor:
        return self._reduced("min", axes, keep_dimensions)

    def maximum(self, axes: Sequence[int], keep_dimensions: bool) -> Tensor:
        return self._reduced("max", axes, keep_dimensions)

    def l1_norm(self, axes: Sequence[int], keep_dimensions: bool) -> Tensor:
        return self._reduced("l1_norm", axes, keep_dimensions)

    def l2_norm(
        self, axes: Sequence[int] | None = None, keep_dimensions: bool = False, *, epsilon: float | None = None
    ) -> Tensor:
        """The norm over axes; or, given an epsilon instead, x divided by its norm over the last three axes."""
        if (axes is None) == (epsilon is None):
            raise TypeError("Tensor.l2_norm: pass axes for a norm, or epsilon for a normalized tensor.")
        if axes is not None:
            return self._reduced("l2_norm", axes, keep_dimensions)
        return self._with("l2_norm", epsilon=self._number(epsilon or 0))

    def log_sum(self, axes: Sequence[int], keep_dimensions: bool) -> Tensor:
        return self._reduced("log_sum", axes, keep_dimensions)

    def log_sum_exp(self, axes: Sequence[int], keep_dimensions: bool) -> Tensor:
        return self._reduced("log_sum_exp", axes, keep_dimensions)

    def sum_of_squares(self, axes: Sequence[int], keep_dimensions: bool) -> Tensor:
        return self._reduced("sum_square", axes, keep_dimensions)

    def arg_max(self, axis: int, keep_dimension: bool) -> Tensor:
        return self._with("reduce_argmax", "int32", axis=axis, keep_dims=bool(keep_dimension))

    def arg_min(self, axis: int, keep_dimension: bool) -> Tensor:
        return self._with("reduce_argmin", "int32", axis=axis, keep_dims=bool(keep_dimension))

    # Selection.

    def arg_sort(self, axis: int, sort_order: str) -> Tensor:
        """The order of the values, ``"ascending"`` or ``"descending"``."""
        _one_of(sort_order, ("ascending", "descending"), "Tensor.arg_sort: sort_order")
        return self._with("argsort", "int32", axis=axis, ascending=sort_order == "ascending")

    def top_k(self, k: int, axis: int, find_largest: bool) -> tuple[Tensor, Tensor]:
        """The k largest or smallest values, and where they stand."""
        inputs = {"x": self, "k": k, "axis": axis, "ascending": not find_largest}
        values, indices = self.builder.add("topk", inputs, [self.element, "int32"])
        return values, indices

    def select(self, value_if_true: Operand, value_if_false: Operand) -> Tensor:
        """Values of one operand or the other; this tensor, of booleans, decides."""
        given = [each for each in (value_if_true, value_if_false) if isinstance(each, Tensor)]
        if not given:
            raise TypeError("Tensor.select: both operands are numbers. Make one of them a constant of the builder.")
        a, b = given[0]._of(value_if_true), given[0]._of(value_if_false)
        return self.builder.add("select", {"cond": self, "a": a, "b": b}, [a.element])[0]

    def _indices(self, indices: Operand) -> Tensor:
        return indices if isinstance(indices, Tensor) else self.builder.constant_of(np.array(indices, np.int32))

    def gather(self, indices: Operand, axis: int, batch_dimension_count: int = 0) -> Tensor:
        return self._with("gather", indices=self._indices(indices), axis=axis, batch_dims=batch_dimension_count)

    def gather_along_axis(self, indices: Operand, axis: int) -> Tensor:
        return self._with("gather_along_axis", indices=self._indices(indices), axis=axis)

    def gather_nd(self, indices: Operand, batch_dimension_count: int = 0) -> Tensor:
        return self._with("gather_nd", indices=self._indices(indices), batch_dims=batch_dimension_count)

    def _scattered(self, kind: str, updates: Operand, indices: Operand, mode: str, **more: Any) -> Tensor:
        chosen = _SCATTER[_one_of(mode, tuple(_SCATTER), f"Tensor.{kind}: mode")]
        inputs = {"data": self, "indices": self._indices(indices), "updates": self._of(updates), "mode": chosen, **more}
        return self.builder.add(kind, inputs, [self.element])[0]

    def scatter(self, updates: Operand, indices: Operand, mode: str, axis: int) -> Tensor:
        return self._scattered("scatter", updates, indices, mode, axis=axis)

    def scatter_along_axis(self, updates: Operand, indices: Operand, mode: str, axis: int) -> Tensor:
        return self._scattered("scatter_along_axis", updates, indices, mode, axis=axis)

    def scatter_nd(self, updates: Operand, indices: Operand, mode: str) -> Tensor:
        return self._scattered("scatter_nd", updates, indices, mode)

    # Shapes.

    def reshape(self, to: Sequence[int] | Tensor) -> Tensor:
        """Another shape: sizes, one of which may be -1, or a tensor of them."""
        return self._with("reshape", shape=to if isinstance(to, Tensor) else constant(np.array(to, np.int32)))

    def transpose(self, axes: Sequence[int]) -> Tensor:
        return self._with("transpose", perm=list(axes))

    def squeeze(self, axis: int) -> Tensor:
        return self._with("squeeze", axes=[axis])

    def unsqueeze(self, axis: int) -> Tensor:
        return self._with("expand_dims", axes=[axis])

    def tensor_shape(self) -> Tensor:
        """The sizes as a tensor."""
        return self._with("shape", "int32")

    def pad(self, type: str | float, padding: Sequence[int]) -> Tensor:
        """Pairs of sizes before and after each axis; ``type`` is a number, ``"reflection"`` or ``"replication"``."""
        if isinstance(type, str):
            _one_of(type, ("reflection", "replication"), "Tensor.pad: type")
            return self._with("pad", pad=list(padding), mode="reflect" if type == "reflection" else "replicate")
        return self._with("pad", pad=list(padding), mode="constant", constant_val=self._number(type))

    def __getitem__(self, place: Any) -> Tensor:
        return self._with("slice_by_index", **_slices(place, self.rank))

    def __setitem__(self, place: Any, update: Operand) -> None:
        given = self._of(update)
        if given.rank == 0:  # a number for the whole part
            part = self[place]
            given = (part if self.element == "bool" else part == part).select(given, given)
        slices = _slices(place, self.rank)
        if any(slices["squeeze_mask"].array) and given.rank == self.rank:
            axes = [axis for axis, squeezed in enumerate(slices["squeeze_mask"].array) if squeezed]
            given = given._with("squeeze", axes=axes)
        changed = self._with("slice_update", update=given, **slices)
        self.name, self.probes, self.constant = changed.name, changed.probes, changed.constant

    # Layers.

    def linear(self, weight: Operand, bias: Operand = None) -> Tensor:
        """x A^T + b."""
        return self._with("linear", weight=self._of(weight), bias=None if bias is None else self._of(bias))

    def matmul(
        self, other: Operand, *, transpose: bool = False, transpose_other: bool = False, bias: Operand = None
    ) -> Tensor:
        """The product of matrices, or of stacks of them; of two vectors it is one number."""
        second = self._of(other)
        if self.rank == second.rank == 1:
            product = (self * second).sum([0], keep_dimensions=True)
        else:
            product = self._with("matmul", y=second, transpose_x=bool(transpose), transpose_y=bool(transpose_other))
        return product if bias is None else product + bias

    def _padded(self, padding: str | Sequence[int]) -> dict[str, Any]:
        if isinstance(padding, str):
            names = {"valid": "valid", "same": "same", "lower": "same_lower"}
            return {"pad_type": names[_one_of(padding, tuple(names), "padding")]}
        return {"pad_type": "custom", "pad": list(padding)}

    def conv(
        self,
        weight: Operand,
        strides: Sequence[int],
        bias: Operand = None,
        padding: str | Sequence[int] = "valid",
        dilations: Sequence[int] | None = None,
        group_count: int = 1,
    ) -> Tensor:
        """A convolution over one to three axes; ``padding`` is ``"valid"``, ``"same"``, ``"lower"`` or pairs of sizes."""
        return self._with(
            "conv",
            weight=self._of(weight),
            bias=None if bias is None else self._of(bias),
            strides=list(strides),
            dilations=None if dilations is None else list(dilations),
            groups=group_count,
            **self._padded(padding),
        )

    def conv_transpose(
        self,
        weight: Operand,
        strides: Sequence[int],
        bias: Operand = None,
        padding: str | Sequence[int] = "valid",
        output_padding_values: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        group_count: int = 1,
    ) -> Tensor:
        """A transposed convolution. ``output_padding_values`` make the result longer, which needs known sizes."""
        inputs = {
            "weight": self._of(weight),
            "bias": None if bias is None else self._of(bias),
            "strides": list(strides),
            "dilations": None if dilations is None else list(dilations),
            "groups": group_count,
            **self._padded(padding),
        }
        result = self._with("conv_transpose", **inputs)
        if output_padding_values is None or not any(output_padding_values):
            return result
        longer = [n + more for n, more in zip(result.shape[2:], output_padding_values, strict=True)]
        if min(result.shape[2:]) < 0:
            raise ValueError("Tensor.conv_transpose: output_padding_values need known sizes, but some are open.")
        return self._with("conv_transpose", output_shape=[*result.shape[:2], *longer], **inputs)

    def pooling(
        self,
        function: str,
        kernel_size: Sequence[int],
        strides: Sequence[int],
        padding: str | Sequence[int] = "valid",
        ceiling_mode: str = "floor",
        include_padding: bool = True,
    ) -> Tensor:
        """``"max"``, ``"average"`` or ``"l2_norm"`` of windows; ``include_padding`` is for averages."""
        kinds = {"max": "max_pool", "average": "avg_pool", "l2_norm": "l2_pool"}
        kind = kinds[_one_of(function, tuple(kinds), "Tensor.pooling: function")]
        _one_of(ceiling_mode, ("ceiling", "floor"), "Tensor.pooling: ceiling_mode")
        more: dict[str, Any] = {"exclude_padding_from_average": not include_padding} if function == "average" else {}
        return self._with(
            kind,
            kernel_sizes=list(kernel_size),
            strides=list(strides),
            ceil_mode=ceiling_mode == "ceiling",
            **self._padded(padding),
            **more,
        )

    # Normalization.

    def batch_norm(
        self,
        mean: Operand,
        variance: Operand,
        weight: Operand = None,
        bias: Operand = None,
        *,
        epsilon: float = EPSILON,
    ) -> Tensor:
        return self._with(
            "batch_norm",
            mean=self._of(mean),
            variance=self._of(variance),
            **self._scaling(weight, bias),
            epsilon=self._number(epsilon),
        )

    def _scaling(self, weight: Operand, bias: Operand) -> dict[str, Any]:
        return {
            "gamma": None if weight is None else self._of(weight),
            "beta": None if bias is None else self._of(bias),
        }

    def instance_norm(self, weight: Operand = None, bias: Operand = None, *, epsilon: float = EPSILON) -> Tensor:
        return self._with("instance_norm", **self._scaling(weight, bias), epsilon=self._number(epsilon))

    def layer_norm(
        self, weight: Operand = None, bias: Operand = None, *, axes: Sequence[int], epsilon: float = EPSILON
    ) -> Tensor:
        return self._with("layer_norm", axes=list(axes), **self._scaling(weight, bias), epsilon=self._number(epsilon))

    def channel_norm(self, weight: Operand = None, bias: Operand = None, *, epsilon: float = EPSILON) -> Tensor:
        """Values normalized over axis 1, at every other place by itself."""
        centred = self - self.mean([1], keep_dimensions=True)
        normalized = centred * (centred * centred).mean([1], keep_dimensions=True).rsqrt(epsilon)
        along = (-1, *(1,) * (self.rank - 2))
        normalized = normalized if weight is None else normalized * self._of(weight).reshape(along)
        return normalized if bias is None else normalized + self._of(bias).reshape(along)

    def rms_norm(self, scale: Operand, *, epsilon: float = EPSILON) -> Tensor:
        """x / sqrt(mean of x^2 + epsilon) * scale, over the axes that the scale has."""
        held = self._of(scale)
        axes = list(range(-max(held.rank, 1), 0))
        return self * (self * self).mean(axes, keep_dimensions=True).rsqrt(epsilon) * held

    # Recurrent cells: time, batch, features.

    def rnn(
        self,
        initial_hidden_states: Operand,
        input_hidden_weight: Operand,
        hidden_hidden_weight: Operand,
        bias: Operand = None,
        direction: str = "forward",
        activation: str = "tanh",
        output_sequence: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """The outputs, of the last step or of all, and the last hidden state."""
        return self._recurrent(  # type: ignore[return-value]
            "rnn", 2, initial_h=initial_hidden_states, weight_ih=input_hidden_weight, weight_hh=hidden_hidden_weight,
            bias=bias, direction=_one_of(direction, ("forward", "reverse"), "direction"), activation=activation,
            output_sequence=output_sequence,
        )  # fmt: skip

    def lstm(
        self,
        initial_hidden_states: Operand,
        initial_cell_states: Operand,
        input_hidden_weight: Operand,
        hidden_hidden_weight: Operand,
        bias: Operand = None,
        direction: str = "forward",
        recurrent_activation: str = "sigmoid",
        cell_activation: str = "tanh",
        activation: str = "tanh",
        output_sequence: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The outputs, the last hidden state and the last cell state; gates in the order i, f, o, g."""
        return self._recurrent(  # type: ignore[return-value]
            "lstm", 3, initial_h=initial_hidden_states, initial_c=initial_cell_states, weight_ih=input_hidden_weight,
            weight_hh=hidden_hidden_weight, bias=bias, direction=_one_of(direction, ("forward", "reverse"),
            "direction"), recurrent_activation=recurrent_activation, cell_activation=cell_activation,
            activation=activation, output_sequence=output_sequence,
        )  # fmt: skip

    def bidirectional_lstm(
        self,
        initial_hidden_states: Operand,
        initial_cell_states: Operand,
        input_hidden_weight: Operand,
        hidden_hidden_weight: Operand,
        bias: Operand = None,
        *,
        input_hidden_weight_back: Operand,
        hidden_hidden_weight_back: Operand,
        bias_back: Operand = None,
        recurrent_activation: str = "sigmoid",
        cell_activation: str = "tanh",
        activation: str = "tanh",
        output_sequence: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same in both directions, whose results stand side by side; states have both directions, too."""
        return self._recurrent(  # type: ignore[return-value]
            "lstm", 3, initial_h=initial_hidden_states, initial_c=initial_cell_states, weight_ih=input_hidden_weight,
            weight_hh=hidden_hidden_weight, bias=bias, weight_ih_back=input_hidden_weight_back,
            weight_hh_back=hidden_hidden_weight_back, bias_back=bias_back, direction="bidirectional",
            recurrent_activation=recurrent_activation, cell_activation=cell_activation, activation=activation,
            output_sequence=output_sequence,
        )  # fmt: skip

    def gru(
        self,
        initial_hidden_states: Operand,
        input_hidden_weight: Operand,
        hidden_hidden_weight: Operand,
        bias: Operand = None,
        input_bias: Operand = None,
        apply_reset_gate_after_matmul: bool = False,
        direction: str = "forward",
        recurrent_activation: str = "sigmoid",
        activation: str = "tanh",
        output_sequence: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """The outputs and the last hidden state; gates in the order r, n, z."""
        return self._recurrent(  # type: ignore[return-value]
            "gru", 2, initial_h=initial_hidden_states, weight_ih=input_hidden_weight, weight_hh=hidden_hidden_weight,
            bias=bias, input_bias=input_bias, reset_after=True if apply_reset_gate_after_matmul else None,
            direction=_one_of(direction, ("forward", "reverse"), "direction"),
            recurrent_activation=recurrent_activation, activation=activation, output_sequence=output_sequence,
        )  # fmt: skip

    def _recurrent(self, kind: str, results: int, **inputs: Any) -> tuple[Tensor, ...]:
        given: dict[str, Any] = {"x": self}
        for name, value in inputs.items():
            if name.startswith(("initial", "weight", "bias", "input_bias")):
                given[name] = None if value is None else self._of(value)
            elif name.endswith("activation"):
                given[name] = _ACTIVATIONS[_one_of(value, tuple(_ACTIVATIONS), name)]
            else:
                given[name] = value
        return tuple(self.builder.add(kind, given, [self.element] * results))


def _one_of(value: str, allowed: Sequence[str], who: str) -> str:
    if value not in allowed:
        raise ValueError(f"{who} is {value!r}. Use {', '.join(map(repr, allowed))}.")
    return value


def _slices(place: Any, rank: int) -> dict[str, Any]:
    """The inputs of a slice: numbers, slices and ``...``, as arrays have them; numbers drop their axis."""
    parts = list(place) if isinstance(place, tuple) else [place]
    if Ellipsis in parts:
        at = parts.index(Ellipsis)
        parts[at : at + 1] = [slice(None)] * (rank - len(parts) + 1)
    parts += [slice(None)] * (rank - len(parts))
    if len(parts) != rank:
        raise IndexError(f"a slice has {len(parts)} entries, but the tensor has {rank} axes.")
    begin, end, stride, from_start, to_end, dropped = [], [], [], [], [], []
    for part in parts:
        if isinstance(part, slice):
            begin.append(part.start or 0)
            end.append(part.stop or 0)
            stride.append(part.step or 1)
            from_start.append(part.start is None)
            to_end.append(part.stop is None)
            dropped.append(False)
        else:
            begin.append(int(part))
            end.append(int(part) + 1)
            stride.append(1)
            from_start.append(False)
            to_end.append(int(part) == -1)
            dropped.append(True)
    numbers = {"begin": begin, "end": end, "stride": stride}
    masks = {"begin_mask": from_start, "end_mask": to_end, "squeeze_mask": dropped}
    return {
        **{name: constant(np.array(values, np.int32)) for name, values in numbers.items()},
        **{name: constant(np.array(values, bool)) for name, values in masks.items()},
    }
