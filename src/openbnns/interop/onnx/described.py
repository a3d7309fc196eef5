"""Networks from ONNX in model files: as a table of plain JSON, and back."""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

import numpy as np

from ...files.checked_json import CheckedTable, ModelError
from ...graph.parameter import Parameter
from ...graph.tensor import Array
from ._file import Graph, Node, Port
from ._network import Network
from ._operator import OPERATORS
from ._weights import Weights
from .operators.cells import Cells

_WHOLE_TYPES = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
_TYPES = ("float32", "float64", "float16", *_WHOLE_TYPES, "bool")


def as_table(network: Network) -> dict[str, Any]:
    """The description of a network from ONNX, without its weights."""
    names = {id(part): name for name, part in network._named.items()}
    return {
        "title": network._kind,
        "opset": network._opset,
        "written": network._written,
        "inputs": list(map(_port_table, network._ports)),
        "outputs": network._results,
        "nodes": list(map(_node_table, network._nodes)),
        "constants": {name: _plain(array) for name, array in network._constants.items()},
        "parameters": [name for name, part in network._named.items() if isinstance(part, Parameter)],
        "buffers": {name: list(part.shape) for name, part in network._named.items() if not isinstance(part, Parameter)},
        "cells": {
            str(index): [[names[id(p)] for p in (one.weight, one.recurrent, *one.biases)] for one in cells]
            for index, cells in network._cells.items()
        },
    }  # fmt: skip


def _port_table(port: Port) -> dict[str, Any]:
    table = {"name": port.name, "kind": port.kind, "shape": None if port.shape is None else list(port.shape)}
    return table if port.whole_type == "int64" else {**table, "whole_type": port.whole_type}


def _node_table(node: Node) -> dict[str, Any]:
    return {
        "name": node.name, "op": node.op, "inputs": list(node.inputs), "outputs": list(node.outputs),
        "attributes": {name: _plain(value) for name, value in node.attributes.items()}, "index": node.index,
    }  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, Graph):
        return {
            "nodes": list(map(_node_table, value.nodes)), "inputs": list(map(_port_table, value.inputs)),
            "outputs": list(map(_port_table, value.outputs)), "captured": list(value.captured),
        }  # fmt: skip
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.ascontiguousarray(value)
        data = base64.b64encode(array.tobytes()).decode()
        return {"dtype": str(array.dtype), "shape": list(np.shape(value)), "data": data}
    return list(value) if isinstance(value, tuple) else value


def network_of(table: Any, where: str, largest: int) -> Network:
    """The network that a table describes, with parameters that have no values yet."""
    said = CheckedTable(table, where)
    ports = [_port(part, where) for part in said.tables("inputs")]
    nodes = [_node(part, where) for part in said.tables("nodes")]
    weights = Weights()
    for name in said.texts("parameters"):
        weights.parameters[name] = Parameter.of(_Unsized(), name)
    for name, shape in said.table("buffers").items():
        if (
            not isinstance(shape, list)
            or not all(type(n) is int and n >= 0 for n in shape)
            or math.prod(shape) > largest
        ):
            raise ModelError(f"{where}: buffer {str(name)[:60]!r} has no shape that weights could have.")
        weights.buffers[name] = np.zeros(shape, np.float32)
    for name, array in said.table("constants").items():
        weights.constants[name] = _array(array, f"{where}: constant {str(name)[:60]!r}")
    opset, written = said.get("opset"), said.table("written") if said.get("written") is not None else {}
    if type(opset) is not int or not all(type(n) is int and n > 0 for n in written.values()):
        raise ModelError(f"{where}: its version of ONNX's operators, or a size, is not a number.")
    for index, cells in said.table("cells").items():
        if not isinstance(cells, list):
            raise ModelError(f"{where}: the weights of recurrent cells are not there.")
        weights.cells[_whole(index, where)] = [_cells(one, weights, where) for one in cells]
    return Network(said.text("title"), nodes, ports, said.texts("outputs"), opset, weights, written)


def _port(part: CheckedTable, where: str, inner: bool = False) -> Port:
    """An input or output; those of inner graphs may have sizes that are not known."""
    name, shape = part.text("name"), part.get("shape")
    kinds = (int, str, type(None)) if inner else (int, str)
    if shape is not None and not (isinstance(shape, list) and all(type(n) in kinds for n in shape)):
        raise ModelError(f"{where}: the shape of input {name[:60]!r} is not made of numbers and names.")
    whole_type = "int64" if part.get("whole_type") is None else part.text("whole_type", _WHOLE_TYPES)
    return Port(name, part.text("kind", ("f", "i", "b")), None if shape is None else tuple(shape), whole_type)


class _Unsized:
    """The maker of parameters without values, which come from the file with the weights: it knows their shapes."""

    _budget = None

    def _shape_of(self, name: str) -> None:
        return None

    def _initial(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Any:
        raise AssertionError(f"{name} has no values.")


def _whole(text: Any, where: str) -> int:
    try:
        return int(text)
    except (TypeError, ValueError):
        raise ModelError(f"{where}: {str(text)[:60]!r} is not the number of a node.") from None


def _cells(names: Any, weights: Weights, where: str) -> Cells:
    known = weights.parameters
    if (
        not isinstance(names, list)
        or len(names) not in (2, 4)
        or not all(isinstance(n, str) and n in known for n in names)
    ):
        raise ModelError(f"{where}: the weights of recurrent cells are not there.")
    return Cells(known[names[0]], known[names[1]], tuple(known[name] for name in names[2:]))


_DEEPEST = 50  # graphs inside each other


def _graph(said: CheckedTable, where: str, depth: int) -> Graph:
    if depth > _DEEPEST:
        raise ModelError(f"{where}: has more than {_DEEPEST} graphs inside each other.")
    ports = [tuple(_port(part, where, True) for part in said.tables(name)) for name in ("inputs", "outputs")]
    nodes = tuple(_node(part, where, depth + 1) for part in said.tables("nodes"))
    return Graph(nodes, ports[0], ports[1], tuple(said.texts("captured")))


def _attribute(value: Any, where: str, depth: int) -> Any:
    if isinstance(value, dict):
        return _graph(CheckedTable(value, where), where, depth) if "nodes" in value else _array(value, where)
    return tuple(value) if isinstance(value, list) else value


def _node(said: CheckedTable, where: str, depth: int = 0) -> Node:
    op, index = said.text("op"), said.get("index")
    if op not in OPERATORS or type(index) is not int:
        raise ModelError(f"{where}: there is no operator {op[:60]!r}.")
    attributes = {name: _attribute(value, where, depth) for name, value in said.table("attributes").items()}
    return Node(said.text("name"), op, tuple(said.texts("inputs")), tuple(said.texts("outputs")), attributes, index)


def _array(table: Any, where: str) -> Array:
    said = CheckedTable(table, where)
    dtype = np.dtype(said.text("dtype", _TYPES))
    shape: Any = said.get("shape")
    try:
        data = base64.b64decode(said.text("data"), validate=True)
    except (binascii.Error, ValueError):
        raise ModelError(f"{where}: is damaged.") from None
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ModelError(f"{where}: has no shape.")
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ModelError(f"{where}: has other numbers than its shape {shape}.")
    array: Array = np.frombuffer(data, dtype).reshape(shape).copy()
    return array
