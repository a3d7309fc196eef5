"""ONNX files as plain data. Everything in a file is checked before it is used, and sizes before memory is allocated."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ...files.untrusted import open_regular
from ...graph.tensor import Array
from ._bounds import bounds_of
from ._small_types import SMALL_INTEGERS, SMALL_TYPES, bits_of, limits_of, unpacked
from .errors import OnnxError, Unsupported, require_onnx

OLDEST, NEWEST = 6, 28
"""Versions of ONNX's operators that are read."""

COMPOSED = (
    "AffineGrid", "CenterCropPad",
    "NegativeLogLikelihoodLoss", "RotaryEmbedding", "SequenceMap", "SoftmaxCrossEntropyLoss", "SwiGLU",
)  # fmt: skip
"""Operators that ONNX defines by others, which replace them."""

_ROUNDS = 4
_MOST_BYTES = 2**31  # of a file, which is what protocol buffers can hold
_DEEPEST = 2**16  # nodes of a graph
_DOMAINS = ("", "ai.onnx")
_OTHER_MODELS = "ai.onnx.ml"  # the domain of trees, support vectors and encoders

# TensorProto.DataType, the NumPy type of its elements, and the field that holds them unless they are raw.
_TYPES: dict[int, tuple[str, str]] = {
    1: ("float32", "float_data"), 2: ("uint8", "int32_data"), 3: ("int8", "int32_data"), 4: ("uint16", "int32_data"),
    5: ("int16", "int32_data"), 6: ("int32", "int32_data"), 7: ("int64", "int64_data"), 9: ("bool", "int32_data"),
    10: ("float16", "int32_data"), 11: ("float64", "double_data"), 12: ("uint32", "uint64_data"),
    13: ("uint64", "uint64_data"), 16: ("bfloat16", "int32_data"),
}  # fmt: skip


def kind_of_type(number: int) -> str | None:
    """ "f" numbers, "i" whole numbers, "b" booleans; None for types that networks do not compute with."""
    if number in SMALL_TYPES:
        return "i" if number in SMALL_INTEGERS else "f"
    name = _TYPES.get(number, ("",))[0]
    if name == "bool":
        return "b"
    return "f" if "float" in name else "i" if "int" in name else None


def type_number(dtype: np.dtype[Any]) -> int:
    """ONNX's number of a type of NumPy."""
    return next(number for number, (name, _) in _TYPES.items() if name == dtype.name)


def numpy_type(number: int) -> np.dtype[Any] | None:
    """The type of NumPy for one of ONNX; bfloat16 and smaller types are held in larger ones."""
    if number in SMALL_TYPES:
        return np.dtype("float32" if number not in SMALL_INTEGERS else "int8" if limits_of(number)[0] else "uint8")
    if number not in _TYPES:
        return None
    name = _TYPES[number][0]
    return np.dtype("float32" if name == "bfloat16" else name)


@dataclass(frozen=True)
class Node:
    """One operation of a graph; an input or output that is left out has the name ""."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    index: int

    @property
    def graphs(self) -> list[Graph]:
        """The graphs among its attributes: branches, bodies of loops."""
        return [value for value in self.attributes.values() if isinstance(value, Graph)]

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of all tensors that it depends on: its inputs, and those that its graphs read from the graph around
        them."""
        graphs = self.graphs
        return (*self.inputs, *(name for graph in graphs for name in graph.captured)) if graphs else self.inputs

    def __str__(self) -> str:
        """The name in messages."""
        shown = self.name or next((name for name in self.outputs if name), "")
        return f"{self.op} {shown!r}" if shown else self.op


@dataclass(frozen=True)
class Graph:
    """A graph of a node: a branch, or the body of a loop. ``captured`` is what it reads of the graph around it."""

    nodes: tuple[Node, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    captured: tuple[str, ...]


def nested(nodes: Iterable[Node]) -> Iterator[Node]:
    """Nodes, and those of their graphs."""
    for node in nodes:
        yield node
        for graph in node.graphs:
            yield from nested(graph.nodes)


@dataclass(frozen=True)
class Port:
    """An input or output of a graph; a size that is not a number is None, or the text that names it.

    ``whole_type`` is the type of whole numbers, in NumPy's words.
    """

    name: str
    kind: str
    shape: tuple[int | str | None, ...] | None
    whole_type: str = "int64"


@dataclass
class Model:
    """A graph with its weights, in the order in which its nodes can run."""

    path: Path
    opset: int
    nodes: list[Node]
    inputs: list[Port]
    outputs: list[Port]
    initializers: dict[str, Array]
    metadata: dict[str, str] = field(default_factory=dict)


def read(path: str | os.PathLike[str]) -> Model:
    """The model of a file; raises OnnxError for a file that is not an ONNX model."""
    onnx = require_onnx("nn.from_onnx")
    place = Path(path)
    try:
        with open_regular(place, OnnxError) as (file, size):
            if size > _MOST_BYTES:
                raise OnnxError(
                    f"{place}: is larger than 2 GB. Keep the weights outside: onnx.save(..., save_as_external_data=True)."
                )
            data = file.read()
    except FileNotFoundError:
        raise FileNotFoundError(f"from_onnx: there is no file {place}.") from None
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception as error:  # the kinds of errors depend on how protobuf was built
        raise OnnxError(f"{place}: is not an ONNX file, or is damaged ({error}).") from None
    if not proto.HasField("graph"):
        raise OnnxError(f"{place}: has no graph. It is not an ONNX file, or is damaged.")
    _refuse_other_models(proto.graph, place)
    opset = _opset(proto, place)
    if proto.functions:
        proto = _inlined(proto, (), place)
    for _ in range(_ROUNDS):  # what is put in place may be made of others itself
        composed = sorted(_all_names(proto.graph) & set(COMPOSED))
        if not composed:
            break
        proto = _inlined(proto, composed, place)
    return _model(proto, place, opset)


def _refuse_other_models(graph: Any, place: Path) -> None:
    """Raise Unsupported for models that are not networks: trees, support vectors and the like."""
    names = list(dict.fromkeys(node.op_type for node in _all_nodes(graph) if node.domain == _OTHER_MODELS))
    if names:
        what = "is not a network" if len(names) == 1 else "are not networks"
        raise Unsupported(f"from_onnx: {place}: {', '.join(names)} {what}: run this model with onnxruntime.")


def _opset(proto: Any, place: Path) -> int:
    versions = {entry.version for entry in proto.opset_import if entry.domain in _DOMAINS}
    if not versions and _all_names(proto.graph) <= {""}:
        return NEWEST  # nothing but operators of other domains
    if len(versions) != 1:
        raise OnnxError(f"{place}: names {len(versions)} versions of ONNX's operators, where there must be one.")
    (version,) = versions
    if version < OLDEST:
        raise OnnxError(
            f"{place}: uses version {version} of ONNX's operators; versions from {OLDEST} on are read. Convert it: "
            f"onnx.version_converter.convert_version(model, {OLDEST})."
        )
    if version > NEWEST:
        raise OnnxError(
            f"{place}: uses version {version} of ONNX's operators, but this version of OpenBNNS knows those up to "
            f"{NEWEST}. Export the model for opset {NEWEST} or older."
        )
    return int(version)


def _all_names(graph: Any) -> set[str]:
    """The operators of a graph and of those in it."""
    return {node.op_type if node.domain in _DOMAINS else "" for node in _all_nodes(graph)}


def _all_nodes(graph: Any) -> Iterator[Any]:
    """The nodes of a graph and of those in it."""
    for node in graph.node:
        yield node
        for entry in node.attribute:
            if entry.type == 5:
                yield from _all_nodes(entry.g)


def _inlined(proto: Any, composed: Sequence[str], place: Path) -> Any:
    """The model with calls of its own functions, and of operators that ONNX defines by others, replaced by their
    definitions."""
    inliner = import_module("onnx.inliner")
    try:
        if not composed:
            return inliner.inline_local_functions(proto)
        known = {value.name for value in (*proto.graph.input, *proto.graph.value_info)}
        for tensor in proto.graph.initializer:  # whose types the inliner does not look up
            if tensor.name not in known:
                described = proto.graph.value_info.add(name=tensor.name)
                described.type.tensor_type.elem_type = tensor.data_type
                for n in tensor.dims:
                    described.type.tensor_type.shape.dim.add(dim_value=n)
        chosen = [("", name) for name in composed]
        return inliner.inline_selected_functions(proto, chosen, inline_schema_functions=True)
    except Exception as error:
        raise OnnxError(f"{place}: has functions that cannot be put in place ({error}).") from None


def _model(proto: Any, place: Path, opset: int) -> Model:
    graph = proto.graph
    reader = _Reader(
        place, {name for node in graph.node for name in node.output} | {value.name for value in graph.input}
    )
    initializers = reader.initializers
    reader.take_weights(graph)
    metadata = {entry.key: entry.value for entry in proto.metadata_props}
    bounds = bounds_of(metadata, str(place))
    inputs, outputs = _ports(graph, initializers, bounds, place)
    known = {*initializers, *(port.name for port in inputs)}
    used = _used(graph.node, outputs, known, bounds.get("input", ""), place)
    nodes = [reader.node(graph.node[i]) for i in used]
    known.update(initializers)  # those of inner graphs as well
    ordered = _ordered(nodes, known, place)
    known.update(name for node in nodes for name in node.outputs)
    for port in outputs:
        if port.name not in known:
            raise OnnxError(f"{place}: nothing computes the output {port.name!r}.")
    return Model(place, opset, ordered, inputs, outputs, initializers, metadata)


def _ports(
    graph: Any, initializers: Mapping[str, Array], bounds: Mapping[str, str], place: Path
) -> tuple[list[Port], list[Port]]:
    """Inputs and outputs of the network: of the graph, but for what prepares samples and scales results in files of ours."""
    described = {value.name: value for value in graph.value_info}
    missing = [name for name in bounds.values() if name not in described]
    if missing:
        raise OnnxError(f"{place}: says that the network ends at {missing[0]!r}, of which there is no description.")
    inputs, outputs = list(graph.input), list(graph.output)
    if "input" in bounds:
        inputs = [described[bounds["input"]]]
    if "output" in bounds:
        outputs[:1] = [described[bounds["output"]]]
    if not outputs:
        raise OnnxError(f"{place}: its graph has no output.")
    ports = [_port(value, place, "input") for value in inputs if value.name not in initializers]
    return ports, [_port(value, place, "output") for value in outputs]


def _port(value: Any, place: Path, what: str, anything: bool = False) -> Port:
    """An input or output; ``anything`` may be no tensor, which shows where it is used."""
    where = f"{place}: {what} {value.name!r}"
    if not value.name:
        raise OnnxError(f"{place}: an {what} has no name.")
    if anything and not value.type.HasField("tensor_type"):
        return Port(value.name, "f", None)
    if not value.type.HasField("tensor_type"):
        if what == "output" and value.type.WhichOneof("value") is None:
            return Port(value.name, "f", None)
        raise OnnxError(f"{where} is not a tensor ({value.type.WhichOneof('value') or 'of unknown type'}).")
    kind = kind_of_type(value.type.tensor_type.elem_type)
    if kind is None and anything:
        return Port(value.name, "f", None)
    small = what == "input" and not anything and value.type.tensor_type.elem_type in SMALL_TYPES
    if kind is None or small:
        raise OnnxError(
            f"{where} has elements of type {value.type.tensor_type.elem_type}, which networks do not compute with."
        )
    whole_type = str(numpy_type(value.type.tensor_type.elem_type)) if kind == "i" else "int64"
    if not value.type.tensor_type.HasField("shape"):
        return Port(value.name, kind, None, whole_type)
    sizes: list[int | str | None] = []
    for size in value.type.tensor_type.shape.dim:
        if size.HasField("dim_value"):
            if size.dim_value < -1 and what == "input":
                raise OnnxError(f"{where} has an axis of size {size.dim_value}.")
            sizes.append(None if size.dim_value == -1 else int(size.dim_value))
        else:
            sizes.append(size.dim_param or None)
    return Port(value.name, kind, tuple(sizes), whole_type)


def _bare(node: Any, index: int) -> Node:
    """A node without its attributes."""
    op = node.op_type if node.domain in _DOMAINS else f"{node.domain}.{node.op_type}"
    return Node(node.name, op, tuple(node.input), tuple(node.output), {}, index)


class _Reader:
    """A reader of nodes with their graphs, and of all weights, into one table."""

    def __init__(self, place: Path, others: set[str]) -> None:
        """``others`` are names of the graph around all others that are not those of weights."""
        self.place, self.others, self.count = place, others, 0
        self.initializers: dict[str, Array] = {}
        self.small: dict[str, int] = {}  # weights by name, and their types, which the arrays do not show

    def take_weights(self, graph: Any, *, inner: bool = False) -> dict[str, str]:
        """The weights of a graph; gives the names that they have here, where inner graphs may use one several times."""
        if graph.sparse_initializer:
            name = graph.sparse_initializer[0].values.name
            raise OnnxError(f"{self.place}: has sparse weights, {name!r}. Make them dense.")
        renamed, own = {}, set()
        for tensor in graph.initializer:
            if not tensor.name or tensor.name in own:
                raise OnnxError(f"{self.place}: two weights have the name {tensor.name!r}, or one has none.")
            own.add(tensor.name)
            name = tensor.name
            while inner and (name in self.initializers or name in self.others):
                name += "_"
            renamed[tensor.name] = name
            if tensor.data_type in SMALL_TYPES:
                self.small[name] = tensor.data_type
            self.initializers[name] = array_of(tensor, f"{self.place}: weight {tensor.name!r}", self.place.parent)
        return renamed

    def node(self, node: Any, renamed: Mapping[str, str] | None = None) -> Node:
        """A node; ``renamed`` are weights of inner graphs by the names that the file has for them."""
        self.count += 1
        if self.count > _DEEPEST:
            raise OnnxError(f"{self.place}: has more than {_DEEPEST} nodes.")
        made, attributes = _bare(node, self.count), dict[str, Any]()
        if renamed:
            made = replace(made, inputs=tuple(renamed.get(name, name) for name in made.inputs))
        for entry in node.attribute:
            if entry.name in attributes:
                raise OnnxError(f"{self.place}: {made} has two attributes {entry.name!r}.")
            where = f"{self.place}: {made}: attribute {entry.name!r}"
            if entry.type == 5 and not entry.ref_attr_name:
                attributes[entry.name] = self.graph(entry.g, renamed or {})
            else:
                attributes[entry.name] = _attribute(entry, where, self.place.parent)
        kinds = [self.small.get(name, 0) for name in made.inputs]
        if made.op in ("QuantizeLinear", "com.microsoft.QuantizeLinear") and kinds[2:3] > [0]:
            attributes["output_dtype"] = kinds[2]
        if made.op == "CastLike" and kinds[1:2] > [0]:
            made, attributes["to"] = replace(made, op="Cast", inputs=made.inputs[:1]), kinds[1]
        return replace(made, attributes=attributes)

    def graph(self, graph: Any, renamed: Mapping[str, str]) -> Graph:
        """A graph of a node."""
        inputs = tuple(_port(value, self.place, "input", anything=True) for value in graph.input)
        inner = {**renamed, **{port.name: port.name for port in inputs}, **self.take_weights(graph, inner=True)}
        nodes = [self.node(node, inner) for node in graph.node]
        made = {name for node in nodes for name in node.outputs if name}
        known = made | {port.name for port in inputs}
        outputs = [_port(value, self.place, "output", anything=True) for value in graph.output]
        outputs = [
            port if port.name in made else replace(port, name=inner.get(port.name, port.name)) for port in outputs
        ]
        read = [name for node in nodes for name in node.reads] + [port.name for port in outputs]
        captured = dict.fromkeys(name for name in read if name and name not in known)
        ordered = _ordered(nodes, known | set(captured), self.place)
        return Graph(tuple(ordered), inputs, tuple(outputs), tuple(captured))


def _attribute(entry: Any, where: str, folder: Path) -> Any:
    if entry.ref_attr_name:
        raise OnnxError(f"{where} stands for an argument of a function, outside of one.")
    if entry.type == 1:
        return float(entry.f)
    if entry.type == 2:
        return int(entry.i)
    if entry.type == 3:
        return _text(entry.s, where)
    if entry.type == 4:
        if entry.t.data_type in SMALL_TYPES:
            bits = bits_of(entry.t.data_type)
            raise OnnxError(
                f"{where} has elements of {bits} bits. Make it an initializer, of which such elements are read."
            )
        return array_of(entry.t, where, folder)
    if entry.type == 6:
        return tuple(float(x) for x in entry.floats)
    if entry.type == 7:
        return tuple(int(x) for x in entry.ints)
    if entry.type == 8:
        return tuple(_text(x, where) for x in entry.strings)
    if entry.type in (10, 11, 12, 13, 14):
        raise OnnxError(f"{where} is a list of graphs, a sparse tensor or a type, which no operator here takes.")
    raise OnnxError(f"{where} is of the unknown type {entry.type}.")


def _text(raw: bytes, where: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise OnnxError(f"{where} is not text.") from None


# Weights.


def array_of(tensor: Any, where: str, folder: Path) -> Array:
    """The numbers of a tensor, which may lie in another file of the same folder; those of few bits in larger types."""
    if tensor.data_type in SMALL_TYPES:
        return _of_few_bits(tensor, where, folder)
    if tensor.data_type not in _TYPES:
        raise OnnxError(f"{where} has elements of type {tensor.data_type}, which networks do not compute with.")
    name, stored = _TYPES[tensor.data_type]
    shape = tuple(int(n) for n in tensor.dims)
    if any(n < 0 for n in shape):
        raise OnnxError(f"{where} has the shape {shape}.")
    count = math.prod(shape)
    wide = np.dtype("uint16" if name == "bfloat16" else name)
    if tensor.HasField("segment"):
        raise OnnxError(f"{where} uses segmented tensors, which are not supported.")
    if tensor.data_location == 1:
        raw: Any = _external(tensor, where, folder, count * wide.itemsize)
    elif tensor.HasField("raw_data"):
        raw = tensor.raw_data
    else:
        return _listed(getattr(tensor, stored), wide, name, shape, where)
    if len(raw) != count * wide.itemsize:
        raise OnnxError(f"{where} of shape {shape} needs {count * wide.itemsize} bytes, but {len(raw)} are there.")
    array = np.frombuffer(raw, wide.newbyteorder("<")).reshape(shape)
    return _plain(array.astype(wide), name)


def _of_few_bits(tensor: Any, where: str, folder: Path) -> Array:
    """Numbers of 8 bits or fewer, several of which may share a byte."""
    whole = type(tensor)()
    whole.CopyFrom(tensor)
    shape = tuple(int(n) for n in tensor.dims)
    count, bits = math.prod(max(0, n) for n in shape), bits_of(tensor.data_type)
    whole.data_type = 2
    whole.ClearField("dims")
    whole.dims.append(-(-count * bits // 8) if min(shape, default=0) >= 0 else -1)
    shared = {8: "", 4: ", two numbers to a byte,", 2: ", four numbers to a byte,"}[bits]
    raw = array_of(whole, f"{where}{shared}", folder)
    return unpacked(raw, tensor.data_type, count).reshape(shape)


def _listed(values: Any, wide: np.dtype[Any], name: str, shape: tuple[int, ...], where: str) -> Array:
    if len(values) != math.prod(shape):
        raise OnnxError(f"{where} of shape {shape} needs {math.prod(shape)} numbers, but {len(values)} are there.")
    if name in ("float16", "bfloat16"):  # their bits, as whole numbers
        bits = np.array(values, np.int64).astype(np.uint16)
        return _plain(bits.view(wide).reshape(shape), name)
    return (
        np.array(values, np.int64 if wide.kind == "i" else np.uint64 if wide.kind == "u" else wide)
        .astype(wide)
        .reshape(shape)
    )


def _plain(array: Array, name: str) -> Array:
    """bfloat16 is the upper half of float32."""
    if name == "bfloat16":
        return np.asarray(array.astype(np.uint32) << 16).view(np.float32)
    return array


def _external(tensor: Any, where: str, folder: Path, needed: int) -> bytes:
    said = {entry.key: entry.value for entry in tensor.external_data}
    location = said.get("location", "")
    root = folder.resolve()
    file = (root / location).resolve()
    plain = location and not os.path.isabs(location) and ".." not in Path(location).parts and "\\" not in location
    if not plain or not file.is_relative_to(root):
        raise OnnxError(f"{where} lies in {location!r}, which is outside the folder of the model. It is not read.")
    if not file.is_file():
        what = "is not a regular file" if file.exists() else "does not exist beside the model"
        raise OnnxError(f"{where} lies in {location!r}, which {what}.")
    try:
        offset = int(said.get("offset", "0"))
        length = int(said["length"]) if "length" in said else needed
    except ValueError:
        raise OnnxError(f"{where} lies at {said.get('offset')!r} of {location!r}, which is not a number.") from None
    if offset < 0 or length != needed or offset + length > file.stat().st_size:
        raise OnnxError(
            f"{where} needs {needed} bytes from {offset} on in {location!r}, which has {file.stat().st_size}"
            f"{f', of which it names {length}' if length != needed else ''}."
        )
    with file.open("rb") as stream:
        stream.seek(offset)
        data: bytes = stream.read(length)
        return data


# The order of the nodes.


def _ordered(nodes: list[Node], known: set[str], place: Path) -> list[Node]:
    """The nodes in an order in which each comes after those that it reads from."""
    makers = {name: node for node in nodes for name in filter(None, node.outputs)}
    waits: dict[int, int] = {}
    readers: dict[int, list[Node]] = {}
    for node in nodes:
        sources = set()
        for name in filter(None, node.reads):
            if name in makers:
                sources.add(makers[name].index)
            elif name not in known:
                raise OnnxError(f"{place}: {node} reads {name!r}, which nothing computes.")
        waits[node.index] = len(sources)
        for source in sources:
            readers.setdefault(source, []).append(node)
    ready = [node for node in nodes if not waits[node.index]][::-1]
    done: list[Node] = []
    while ready:
        node = ready.pop()
        done.append(node)
        for reader in readers.get(node.index, [])[::-1]:
            waits[reader.index] -= 1
            if not waits[reader.index]:
                ready.append(reader)
    if len(done) < len(nodes):
        missing = {node.index for node in nodes} - {node.index for node in done}
        raise OnnxError(f"{place}: its graph has a cycle, through {_names(n for n in nodes if n.index in missing)}.")
    return nodes if _sorted(nodes, known) else done


def _sorted(nodes: list[Node], known: set[str]) -> bool:
    """True if the nodes are in order already."""
    seen = set(known)
    for node in nodes:
        if any(name and name not in seen for name in node.reads):
            return False
        seen.update(node.outputs)
    return True


def _names(nodes: Iterable[Node]) -> str:
    shown = [str(node) for node in nodes]
    return ", ".join(shown[:5]) + (f" and {len(shown) - 5} more" if len(shown) > 5 else "")


def _used(nodes: Sequence[Any], outputs: list[Port], known: set[str], given: str, place: Path) -> list[int]:
    """The numbers of those that an output depends on; what computes the value that is given is left out."""
    makers: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in makers or (name in known and name != given):
                raise OnnxError(f"{place}: {_bare(node, i)} computes {name!r}, which is there already.")
            makers[name] = i
    wanted, used = [port.name for port in outputs], set()
    while wanted:
        name = wanted.pop()
        maker = None if name == given else makers.get(name)
        if maker is not None and maker not in used:
            used.add(maker)
            wanted.extend(_all_read(nodes[maker]))
    return sorted(used)


def _all_read(node: Any) -> Iterator[str]:
    """Names that a node, or a graph of it, reads, wherever they are made."""
    yield from node.input
    for entry in node.attribute:
        if entry.type == 5:
            yield from (value.name for value in entry.g.output)
            for inner in entry.g.node:
                yield from _all_read(inner)
