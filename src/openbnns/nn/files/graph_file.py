"""Networks in the form that their ``forward`` recorded: operations with arguments, sizes and guards, to and from JSON.

A layer of ``openbnns.nn`` can be made again from its arguments, which ``nn.files.model_file`` writes. A class of the
user's, or a model from PyTorch, cannot: its code is not in the file. But the recording of that code is all that is needed
to run, train and export the network. An operation is written as the name of its class and the arguments that it was made
with, so no operation is listed here, and one that is added to the library can be written at once.

================================  ==============================================================================
``{"value": 3}``                  output 3, counted over the inputs and all operations; ``shape``, if it is a view
``{"parameter": "0.weight"}``     a parameter
``{"fixed": {...}}``              an array that an operation holds as a parameter that is not trained
``{"array": "mask"}``             a buffer of this name, or a constant of the file
``{"size": [[2, ["N"]]]}``        2 N; a factor is a name or a pair, the dividend and the divisor of a floor division
``{"output": [...]}``             a new value of this shape, where an operation is told its output
``{"choice": [...]}``             an ``ActivationFunction``, a ``PoolingType`` ...: class, case, arguments
``{"record": [...]}``             a dataclass of the operations: class and fields
``{"function": "Compare"}``       an ``nn.Function`` of this library
================================  ==============================================================================

Lists are tuples, ``{"list": [...]}`` a list. Nothing in a file is believed: names are looked up among the classes of this
library, values must have been made before, and the memory of every value is held to the limit.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from inspect import Parameter as Argument
from inspect import Signature, signature
from typing import Any

import numpy as np

from ... import (
    ActivationFunction,
    ArithmeticBinaryFunction,
    ArithmeticTernaryFunction,
    ArithmeticUnaryFunction,
    NormalizationType,
    PoolingType,
    ReductionFunction,
    __version__,
)
from ...files import memory_limit
from ...files.checked_json import CheckedTable, ModelError
from ...graph import operations
from ...graph.functions.normalizations import record_normalization
from ...graph.graph import Graph
from ...graph.numpy_function import Function
from ...graph.operation import CalledFunction, Operation
from ...graph.operations import InitialState, Part
from ...graph.parameter import Parameter
from ...graph.passes import drop_unused
from ...graph.polynomials import Polynomial
from ...graph.sizes import AnySize, Guard, Size, expression_of, number_of, product
from ...graph.structure import Structure
from ...graph.tensor import FLOAT32, INT64, Array, Tensor
from ..call_form import CallForm, StructuredCalls
from ..containers import ForeignPart
from ..module import Module
from ..names import argument_names, is_of_library
from ..recording import Shapes, input_shapes, recording_of, trace
from .layer_file import CannotDescribe
from .model_file import CONSTANT

VERSION = 1

_CHOICES = {c.__name__: c for c in (ActivationFunction, NormalizationType, PoolingType, ReductionFunction)}
_ENUMS = {c.__name__: c for c in (ArithmeticUnaryFunction, ArithmeticBinaryFunction, ArithmeticTernaryFunction)}
_RECORDS: dict[str, type] = {c.__name__: c for c in (operations.Window, Part, InitialState)}
_STRUCTURES = {"tuple": tuple, "list": list, "dict": dict}
_DTYPES = {"float32": FLOAT32, "int64": INT64}
_LONGEST_NAME = 200
_DAMAGE = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError, AssertionError, StopIteration,
)  # fmt: skip
"""Errors that reading a malformed file may raise."""


def _below(kind: type) -> Iterator[type]:
    """All classes of this library that are derived from one."""
    child: type
    for child in kind.__subclasses__():
        yield from _below(child)
        if child.__module__.startswith("openbnns."):
            yield child


@cache
def _classes_of(kind: type) -> dict[str, type]:
    """The classes of this library that a file may name."""
    from ...interop.converted import functions  # noqa: F401
    from .. import functional  # noqa: F401  (whose modules have operations and functions of their own)

    return {child.__name__: child for child in _below(kind)}


# Writing.


def describe(network: Module) -> tuple[dict[str, Any], dict[str, Array]]:
    """The description of a network for a file, and its constants; raises CannotDescribe for what a file cannot hold."""
    writer = _Writer(network)
    parts: dict[str, Any] = {}
    seen: dict[int, str] = {}
    for path, module in network._paths():
        if id(module) in seen:
            parts[path] = {"same": seen[id(module)]}
        else:
            seen[id(module)] = path
            parts[path] = {"kind": _kind_of(module)[:_LONGEST_NAME], "shown": module.extra_repr()[:_LONGEST_NAME]}
    table = {
        "version": VERSION,
        "parts": parts,
        "parameters": [name for name, part in network.named_state() if isinstance(part, Parameter)],
        "shared": writer.shared(),
        "frozen": [name for name, parameter in network.named_parameters() if not parameter.requires_grad],
        "recordings": writer.recordings(),
    }
    form = network._call_form() if isinstance(network, StructuredCalls) else None
    if form is not None:
        structures = [_structure(structure) for structure in form.structures]
        table["call"] = {"arguments": list(form.arguments), "structures": structures}
    return table, writer.constants


def _kind_of(module: Module) -> str:
    """The name of a module's class, or of its original class if it was converted or read from a file."""
    kind = module._kind if isinstance(module, ForeignPart) else type(module).__name__
    return kind if kind.isidentifier() else type(module).__name__


class _Writer:
    def __init__(self, network: Module) -> None:
        self.network = network
        self.constants: dict[str, Array] = {}
        self._state: dict[int, str] = {}  # names of parameters and buffers, by identity
        self._buffers: dict[tuple[int, int], str] = {}  # by place and size in memory
        for name, part in network.named_state():
            self._state.setdefault(id(part), name)
            if isinstance(part, np.ndarray) and part.size:
                self._buffers.setdefault((part.ctypes.data, part.nbytes), name)
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}  # constants by their contents
        self._paths = {id(module): path for path, module in network._paths()}
        self._outputs: list[Tensor] = []  # outputs of the operation that is being written

    def shared(self) -> list[list[str]]:
        names: dict[int, list[str]] = {}
        for name, part in self.network.named_state():
            names.setdefault(id(part), []).append(name)
        return [group for group in names.values() if len(group) > 1]

    def recordings(self) -> list[dict[str, Any]]:
        """All recordings of the network: for the shapes that it has met, and for both modes where they differ."""
        written: list[dict[str, Any]] = []
        for shapes in _shapes_met(self.network):
            for training in (False, True):
                graph, outputs, structure = trace(self.network, shapes, training=training)
                graph.outputs = list(outputs)
                graph.operations = drop_unused(graph.operations, graph.outputs)
                both = not (graph.modes or graph.asked_for_mode)
                said = self._recording(graph, structure, None if both else training)
                if said not in written:
                    written.append(said)
                if both:
                    break
        return written

    def _recording(self, graph: Graph, structure: Structure, training: bool | None) -> dict[str, Any]:
        self._graph = graph
        self._numbers: dict[Tensor, int] = {value: i for i, value in enumerate(graph.inputs)}
        self._converted = {id(made): source for made, source, _ in graph.followed}
        self._calls: dict[CalledFunction, int] = {}
        return {
            "training": training,
            "inputs": [
                {"name": name, "shape": [self.write(n) for n in value.shape], "dtype": str(value.dtype)}
                for value, name in zip(graph.inputs, argument_names(self.network, len(graph.inputs)), strict=True)
            ],
            "sizes": dict(graph.sizes.numbers),
            "guards": [
                [_terms(g.left), g.relation, _terms(g.right), g.holds, g.place[-200:], g.required]
                for g in graph.sizes.guards
            ],
            "operations": [self._operation(operation) for operation in graph.operations],
            "outputs": [self.write(value) for value in graph.outputs],
            "structure": _structure(structure),
        }

    def _operation(self, operation: Operation) -> dict[str, Any]:
        kind = type(operation)
        if _classes_of(Operation).get(kind.__name__) is not kind:
            raise CannotDescribe(f"{kind.__name__} is not an operation that a file can hold")
        given, named = operation.made_with
        arguments = signature(kind.__init__).bind(operation, *given, **named).arguments
        self._outputs = operation.outputs
        module, function = (*operation.modules[-1:], None)[0], (*operation.functions[-1:], None)[0]
        said: dict[str, Any] = {"type": kind.__name__, "part": self._path(module)}
        if operation.trains:
            said["trains"] = True
        if function is not None and not (module is not None and is_of_library(type(module))):
            said["function"] = [function.name, self._calls.setdefault(function, len(self._calls))]
        said["arguments"] = {name: self.write(value) for name, value in list(arguments.items())[1:]}
        self._outputs = []
        for value in operation.outputs:
            self._numbers[value] = len(self._numbers)
        return said

    def _path(self, module: Module | None) -> str:
        return "" if module is None else self._paths.get(id(module), "")

    def write(self, value: Any) -> Any:
        """An argument of an operation as JSON."""
        if value is None or isinstance(value, (bool, str, int)):
            return value
        if isinstance(value, (float, np.floating)):
            number = float(value)
            return number if math.isfinite(number) else {"number": str(number)}
        if isinstance(value, Size):
            return {"size": _terms(value.expression)}
        if isinstance(value, np.integer):
            return int(value)
        if isinstance(value, tuple):
            return [self.write(part) for part in value]
        if isinstance(value, list):
            return {"list": [self.write(part) for part in value]}
        if isinstance(value, Tensor):
            return self._value(value)
        return self._object(value)

    def _object(self, value: Any) -> Any:
        name = type(value).__name__
        if isinstance(value, Parameter):
            return self._parameter(value)
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, Graph):
            if value is not self._graph:
                raise CannotDescribe("it decides by a number between two graphs, of which a file holds one alone")
            return {"graph": True}
        if isinstance(value, slice):
            return {"slice": [self.write(end) for end in (value.start, value.stop, value.step)]}
        if isinstance(value, enum.Enum) and name in _ENUMS:
            return {"enum": [name, value.name]}
        if _CHOICES.get(name) is type(value):
            return {"choice": [name, value.case, {label: self.write(getattr(value, label)) for label in value.labels}]}
        if is_dataclass(value) and _RECORDS.get(name) is type(value):
            return {"record": [name, {f.name: self.write(getattr(value, f.name)) for f in fields(value)}]}
        if isinstance(value, type) and issubclass(value, Function):
            if _classes_of(Function).get(value.__name__) is not value:
                raise CannotDescribe(f"it calls {value.__name__}, an nn.Function, whose code a file cannot hold")
            return {"function": value.__name__}
        raise CannotDescribe(f"an operation is made with {value!r:.80}, which a file cannot hold")

    def _value(self, value: Tensor) -> dict[str, Any]:
        owner = value.storage
        said: dict[str, Any]
        if any(owner is output for output in self._outputs):
            return {"output": [self.write(n) for n in value.shape], "dtype": str(value.dtype)}
        if isinstance(owner.leaf, Size):
            said = {"number_of": _terms(owner.leaf.expression)}
        elif owner.leaf is not None:
            said = {"leaf": self.write(owner.leaf)}
        else:
            said = {"value": self._numbers[owner]}
        return said if value is owner else {**said, "shape": [self.write(n) for n in value.shape]}

    def _parameter(self, parameter: Parameter) -> dict[str, Any]:
        name = self._state.get(id(parameter))
        return {"fixed": self._array(parameter.array)} if name is None else {"parameter": name}

    def _array(self, array: Array) -> dict[str, Any]:
        held = array  # the array that a module holds, before its conversion
        while id(held) in self._converted:
            held = self._converted[id(held)]
        name = self._state.get(id(held))
        if name is not None:
            return {"array": name} if held is array else {"array": name, "dtype": str(array.dtype)}
        if array.flags.c_contiguous and (array.ctypes.data, array.nbytes) in self._buffers:
            return {"array": self._buffers[array.ctypes.data, array.nbytes], "shape": list(array.shape)}
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = f"{CONSTANT}{len(self._known)}"
            self.constants[self._known[key]] = array
        return {"array": self._known[key]}


def _shapes_met(network: Module) -> list[Shapes]:
    """The shapes of inputs that a network is to be recorded with: first those that it was built with."""
    if isinstance(network, RecordedNetwork):
        return network._shapes_held()
    current = [r for r in network._recordings if r.version is network._forward_version]
    met = [tuple(v.concrete(r.graph.sizes.numbers) for v in r.graph.inputs) for r in current]
    return list(dict.fromkeys([input_shapes(network), *met]))


def _terms(expression: Polynomial) -> list[Any]:
    return [
        [number, [f if isinstance(f, str) else [_terms(f.dividend), _terms(f.divisor)] for f in factors]]
        for factors, number in expression.terms
    ]


def _structure(structure: Structure) -> Any:
    if structure.kind is None:
        return None
    parts = [_structure(part) for part in structure.parts]
    return {"kind": structure.kind.__name__, "names": list(structure.names), "parts": parts}


# Reading.


class RecordedPart(ForeignPart):
    """A part of a network that was read from a file as a recording; its class has the name of the part's original class."""

    def __init__(self, shown: str = "") -> None:
        super().__init__(type(self).__name__)
        self._shown = shown

    def forward(self, *inputs: Any) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__}: this part of a network was read from a file, which holds the network as a whole. Call that."
        )

    def extra_repr(self) -> str:
        return self._shown

    def __reduce_ex__(self, protocol: Any) -> Any:
        network = isinstance(self, RecordedNetwork)
        return _empty_part, (type(self).__name__, network), self.__getstate__()


class RecordedNetwork(RecordedPart, StructuredCalls):
    """A network that was read from a file as the recording of its ``forward``. It is run, trained, saved and exported like
    any other."""

    _held: list[Mapping[str, Any]]
    _constants: Mapping[str, Array]
    _form: CallForm | None = None  # if it is called with tuples, lists or dictionaries

    def _call_form(self) -> CallForm | None:
        return self._form

    def _name_in_messages(self) -> str:
        return type(self).__name__

    def _shapes_held(self) -> list[Shapes]:
        """The shapes that the file has recordings for."""
        return list(dict.fromkeys(_shapes_in(said) for said in self._held))

    def _call_signature(self) -> Signature:
        names = [said["name"] for said in self._held[0]["inputs"]]
        return Signature([Argument(name, Argument.POSITIONAL_OR_KEYWORD) for name in names])

    def _input_array(self, x: Any, index: int) -> Array:
        array = np.asarray(x)
        wanted = [said["inputs"][index]["shape"] for said in self._held if index < len(said["inputs"])]
        if array.ndim == 0 and array.dtype.kind in "fiub" and any(not shape for shape in wanted):
            return array  # a number, such as a time
        return super()._input_array(x, index)

    def _with_free_sizes(self, shapes: Shapes, free: Any) -> list[Sequence[AnySize]]:
        for said in self._held:
            sizes = _matched(said["inputs"], shapes)
            if sizes is not None and all(_guard(guard).is_met(sizes) for guard in said["guards"]):
                free.numbers.update(sizes)
                own = {name: free.size(name) for name in sizes}
                return [tuple(_size(n, own) for n in port["shape"]) for port in said["inputs"]]
        return super()._with_free_sizes(shapes, free)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        if named or self._form is not None:  # as a part of another network
            inputs = tuple(self._in_order(inputs, named))
        graph = inputs[0].graph
        shapes = tuple(tuple(map(number_of, value.shape)) for value in inputs)
        refused: Guard | None = None
        for said in self._held:
            numbers = _matched(said["inputs"], shapes)
            if numbers is None:
                continue
            broken = next((g for g in map(_guard, said["guards"]) if not g.is_met(numbers)), None)
            if broken is not None:
                refused = refused or broken
            elif said["training"] is None or said["training"] is self.training:
                return _Replay(self, graph, said, inputs).run()
        raise ValueError(self._misfit_of_file(shapes, refused))

    def _misfit_of_file(self, shapes: Shapes, refused: Guard | None) -> str:
        held = " or ".join(dict.fromkeys(", ".join(_shown(port) for port in said["inputs"]) for said in self._held))
        given = ", ".join(map(str, shapes))
        if refused is not None:
            why = f"but only if {refused}"
        else:
            why = "where numbers are fixed"
        return (
            f"{self._who}: the inputs have shape {given}, but the file holds the network for {held}, {why}. Run the network on "
            "such inputs before it is saved, and the file serves them, too."
        )


def _shown(port: Mapping[str, Any]) -> str:
    sizes = [str(n if isinstance(n, int) else _polynomial(n["size"])) for n in port["shape"]]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _names(shape: Sequence[Any]) -> list[str]:
    return [n["size"][0][1][0] for n in shape if not isinstance(n, int)]


def _matched(ports: Sequence[Mapping[str, Any]], shapes: Sequence[Sequence[Any]]) -> dict[str, Any] | None:
    """The sizes by name with which inputs have these shapes; None if they cannot have them."""
    sizes: dict[str, Any] = {}
    if len(ports) != len(shapes):
        return None
    for port, shape in zip(ports, shapes, strict=True):
        if len(port["shape"]) != len(shape):
            return None
        for said, size in zip(port["shape"], shape, strict=True):
            known = said if isinstance(said, int) else sizes.setdefault(_names([said])[0], size)
            if number_of(known) != number_of(size):
                return None
    return sizes


def _shapes_in(said: Mapping[str, Any]) -> Shapes:
    """The shapes of the inputs with the numbers of the recording."""
    return tuple(tuple(number_of(_size(n, said["sizes"])) for n in port["shape"]) for port in said["inputs"])


def _guard(said: Sequence[Any]) -> Guard:
    left, relation, right, holds, place, required = said
    return Guard(_polynomial(left), relation, _polynomial(right), holds, place, required)


def _polynomial(terms: Any) -> Polynomial:
    total = Polynomial.of(0)
    for coefficient, factors in terms:
        term = Polynomial.of(int(coefficient))
        for factor in factors:
            name = isinstance(factor, str)
            term *= Polynomial.of(factor) if name else _polynomial(factor[0]) // _polynomial(factor[1])
        total += term
    return total


def _expression(terms: Any, sizes: Mapping[str, AnySize]) -> AnySize:
    """A sum of products, computed with the sizes that stand for the names."""
    total: AnySize = 0
    for coefficient, factors in terms:
        term: AnySize = int(coefficient)
        for factor in factors:
            name = isinstance(factor, str)
            term = (sizes[factor] if name else _expression(factor[0], sizes) // _expression(factor[1], sizes)) * term
        total = term + total
    return total


def _size(said: Any, by: Mapping[str, AnySize]) -> AnySize:
    if isinstance(said, int):
        return said
    return _expression(said["size"], by)


class _Replay:
    """Records the contents of a file again, on values of a graph."""

    def __init__(
        self, network: RecordedNetwork, graph: Graph, said: Mapping[str, Any], inputs: Sequence[Tensor]
    ) -> None:
        self.network, self.graph, self.said = network, graph, said
        self.values: list[Tensor] = []
        sizes = _matched(said["inputs"], [value.shape for value in inputs])
        assert sizes is not None
        self.sizes = sizes
        for port, value in zip(said["inputs"], inputs, strict=True):
            if port["dtype"] == "int64":
                value.as_indices(network._who)
            self.values.append(value)
        self._state: dict[str, Any] = dict(network.named_state())
        self._parts = dict(network._paths())
        self._calls: dict[int, CalledFunction] = {}

    def run(self) -> Any:
        free, before = self.graph.sizes, self.graph.sizes.place
        try:
            for said in self.said["guards"]:
                left, relation, right, holds, free.place, required = said
                one, other = (expression_of(_expression(terms, self.sizes)) for terms in (left, right))
                compare = free.is_equal if relation == "==" else free.is_less
                if compare(one, other, required=required) is not holds:
                    raise ValueError(
                        f"{self.network._who}: the file holds the network for sizes with which {_guard(said)}."
                    )
            for said in self.said["operations"]:
                free.place = f"{said['type']} of {self.network._who}"
                self._append(said)
        finally:
            free.place = before
        outputs = [self.read(value) for value in self.said["outputs"]]
        return _structure_of(self.said["structure"]).fill(outputs)

    def _append(self, said: Mapping[str, Any]) -> None:
        graph, kind = self.graph, _classes_of(Operation)[said["type"]]
        with graph.calling(module=self._parts[said["part"]]):
            call = said.get("function")
            if call is not None:
                known = self._calls.get(call[1]) or CalledFunction(call[0], next(graph._calls))
                graph.function = self._calls[call[1]] = known
            arguments = {name: self.read(value) for name, value in said["arguments"].items()}
            if kind is operations.Normalization:
                outputs = [record_normalization(**arguments)]
                if outputs[0].producer is not None:
                    outputs[0].producer.check()
            else:
                if graph.own_mode is False and "dropout" in arguments:
                    arguments["dropout"] = 0.0
                made: Operation = kind(**arguments)
                made.check()
                first = graph.append(made)
                made.trains = made.trains or said.get("trains") is True
                outputs = made.outputs if first is made.output else [first]
        for value in outputs:
            sizes = list(map(number_of, value.shape))
            if any(n < 0 for n in sizes):
                raise ValueError(f"a {said['type']} has a result of shape {tuple(sizes)}")
            memory_limit.check(
                8 * math.prod(sizes), f"{self.network._who}: the result {value.shape} of a {said['type']}"
            )
        self.values += outputs

    def read(self, said: Any) -> Any:
        """An argument of an operation."""
        if isinstance(said, list):
            return tuple(self.read(part) for part in said)
        if not isinstance(said, Mapping):
            return said
        kind = next(iter(said))
        return getattr(self, f"_read_{kind}")(said[kind], said)

    def _read_number(self, text: str, _: Any) -> float:
        return float(text)

    def _read_size(self, terms: Any, _: Any) -> AnySize:
        return _expression(terms, self.sizes)

    def _read_list(self, parts: list[Any], _: Any) -> list[Any]:
        return [self.read(part) for part in parts]

    def _read_slice(self, ends: list[Any], _: Any) -> slice:
        return slice(*(self.read(end) for end in ends))

    def _read_graph(self, _: Any, __: Any) -> Graph:
        return self.graph

    def _read_parameter(self, name: str, _: Any) -> Parameter:
        parameter: Parameter = self._state[name]
        parameter.make(parameter.shape, self.graph.generator)
        parameter.used = True
        return parameter

    def _read_fixed(self, array: Any, _: Any) -> Parameter:
        """The array of a function such as ``embedding(indices, array)``, which operations hold as a parameter."""
        return Parameter(self.read(array), requires_grad=False)

    def _read_array(self, name: str, said: Mapping[str, Any]) -> Array:
        array: Array = self.network._constants[name] if name in self.network._constants else self._state[name]
        if "dtype" in said:
            return self.graph.following(array, partial(np.array, dtype=_DTYPES[said["dtype"]], order="C"))
        return array.reshape(said["shape"]) if "shape" in said else array

    def _read_enum(self, said: list[str], _: Any) -> Any:
        return _ENUMS[said[0]][said[1]]

    def _read_choice(self, said: list[Any], _: Any) -> Any:
        name, case, arguments = said
        if case.startswith("_"):
            raise ValueError(f"there is no {name}.{case:.60}")
        made = getattr(_CHOICES[name], case)(**{label: self.read(value) for label, value in arguments.items()})
        if type(made) is not _CHOICES[name]:
            raise ValueError(f"there is no {name}.{case:.60}")
        return made

    def _read_record(self, said: list[Any], _: Any) -> Any:
        name, values = said
        return _RECORDS[name](**{label: self.read(value) for label, value in values.items()})

    def _read_function(self, name: str, _: Any) -> Any:
        return _classes_of(Function)[name]

    def _read_output(self, shape: list[Any], said: Mapping[str, Any]) -> Tensor:
        return Tensor(self.graph, [_size(n, self.sizes) for n in shape], _DTYPES[said["dtype"]])

    def _read_value(self, number: int, said: Mapping[str, Any]) -> Tensor:
        if type(number) is not int or not 0 <= number < len(self.values):
            raise ValueError(f"value {number!r:.60} is read before it is made")
        return self._shaped(self.values[number], said)

    def _read_number_of(self, terms: Any, said: Mapping[str, Any]) -> Tensor:
        size = _expression(terms, self.sizes)
        value = self.graph.size(size) if isinstance(size, Size) else self.graph.constant(np.float32(size))
        return self._shaped(value, said)

    def _read_leaf(self, leaf: Any, said: Mapping[str, Any]) -> Tensor:
        made = self.read(leaf)
        own = "fixed" not in leaf  # else it stands for a constant
        value = self.graph.parameter(made, own=own) if isinstance(made, Parameter) else self.graph.constant(made)
        return self._shaped(value, said)

    def _shaped(self, value: Tensor, said: Mapping[str, Any]) -> Tensor:
        if "shape" not in said:
            return value
        shape = [_size(n, self.sizes) for n in said["shape"]]
        if math.prod(map(number_of, shape)) != number_of(product(value.shape)):
            raise ValueError(f"{value.shape} is shown as {tuple(shape)}")
        if isinstance(value.leaf, np.ndarray):
            return self.graph.constant(value.leaf.reshape(tuple(map(int, shape))))
        return Tensor(self.graph, shape, source=value)


def _structure_of(said: Any) -> Structure:
    if said is None:
        return Structure()
    return Structure(_STRUCTURES[said["kind"]], tuple(said["names"]), tuple(map(_structure_of, said["parts"])))


def _call_form_of(said: Mapping[str, Any]) -> CallForm:
    form = CallForm(tuple(said["arguments"]), tuple(map(_structure_of, said["structures"])))
    if len(form.arguments) != len(form.structures) or not all(map(str.isidentifier, form.arguments)):
        raise ValueError(f"its calls have the arguments {form.arguments!r:.60}.")
    return form


@cache
def _part_class(name: str, network: bool) -> type[RecordedPart]:
    return type(name, (RecordedNetwork if network else RecordedPart,), {})


def _empty_part(name: str, network: bool) -> RecordedPart:
    kind = _part_class(name, network)
    return kind.__new__(kind)


def network_of(table: Any, arrays: Mapping[str, Array], where: str) -> Module:
    """The network that a file describes, with its weights."""
    said = CheckedTable(table, f"{where}: graph")
    version = said.get("version")
    if type(version) is not int or version < 1:
        raise ModelError(f"{where}: graph: does not say in which version it is written.")
    if version > VERSION:
        raise ModelError(
            f"{where}: graph: is written in version {version}, but this is OpenBNNS {__version__}, which knows version "
            f"{VERSION}. Install a newer one."
        )
    try:
        return _made(table, arrays)
    except _DAMAGE as error:
        told = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ModelError(f"{where}: graph: the network cannot be recorded from what it says. {told:.500}") from None


def _made(table: Mapping[str, Any], arrays: Mapping[str, Array]) -> Module:
    modules: dict[str, Any] = {}
    for path, said in table["parts"].items():
        if "kind" in said and not (said["kind"].isidentifier() and len(said["kind"]) <= _LONGEST_NAME):
            raise ValueError(f"a part is a {said['kind']!r:.60}, which is not the name of a class.")
        made = None if "same" in said else _part_class(said["kind"], not path)(said["shown"])
        modules[path] = modules[said["same"]] if made is None else made
        if path:
            home, _, name = path.rpartition(".")
            modules[home].place(name, modules[path])
    network: RecordedNetwork = modules[""]
    network._held = list(table["recordings"])
    network._constants = {name: array for name, array in arrays.items() if name.startswith(CONSTANT)}
    if "call" in table:
        network._form = _call_form_of(table["call"])
        if len(network._form.input_names()) != len(network._held[0]["inputs"]):
            raise ValueError("its calls do not have as many arrays as it has inputs.")
    first = {name: group[0] for group in table["shared"] for name in group}
    made_state: dict[str, Any] = {}
    parameters = set(table["parameters"])
    for name in arrays:
        if name in network._constants:
            continue
        owner = first.get(name, name)
        if owner not in made_state:
            made_state[owner] = (
                Parameter.owning(np.array(arrays[owner])) if owner in parameters else np.array(arrays[owner])
            )
        home, _, last = name.rpartition(".")
        if last not in modules[home]._parameters and last not in modules[home]._buffers:
            modules[home].place(last, made_state[owner])
    for name in table["frozen"]:
        made_state[first.get(name, name)].requires_grad = False
    network.eval()
    recording_of(network, False, _shapes_in(network._held[0]))
    for said in network._held:  # now rather than when it is called
        trace(network, _shapes_in(said), training=said["training"] is True)
    return network


__all__ = ["RecordedNetwork", "describe", "network_of"]
