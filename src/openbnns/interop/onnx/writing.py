"""From a network to an ONNX file."""

from __future__ import annotations

import os
from typing import Any

from ..._plural import plural
from ..._spelling import spelled
from ...files.safetensors import write_atomically
from ...graph import operations
from ...graph.operation import Operation
from ...graph.passes import drop_unused
from ...nn.module import Module
from ...nn.names import input_names
from ...nn.recording import latest_input_shapes, trace
from ._graph_file import IR_VERSION, GraphFile
from ._metadata import metadata_of
from ._preparing import can_prepare, give_units, prepare
from .errors import NoForm, OnnxError, Unsupported, require_onnx
from .writers.control import write_operation

_LARGEST = 2**31 - 2**20  # bytes that protocol buffers hold


@spelled
def to_onnx(network: Module, path: str | os.PathLike[str], *, preprocessing: bool = True) -> list[tuple[str, str, str]]:
    """Write a network as an ONNX file; see :meth:`openbnns.nn.Module.to_onnx`.

    Returns a table: layer, operation here, operators in ONNX.
    """
    who = f"{type(network).__name__}.to_onnx"
    onnx = require_onnx(who)
    if not isinstance(network, Module):
        raise TypeError(f"to_onnx: takes an openbnns.nn.Module, not a {type(network).__name__}.")
    if not network.built:
        raise RuntimeError(
            f"{who}: the shape of samples is not known. Call build(sample_shape), or run one batch, first."
        )
    names: dict[int, str] = {}
    for name, part in network.named_state():
        names.setdefault(id(part), name)
    # A size that is not free has the number of the latest run.
    graph, outputs, _ = trace(network, latest_input_shapes(network), training=False, every_way=True)
    graph.outputs = list(outputs)
    graph.operations = drop_unused(graph.operations, graph.outputs)
    deciding = graph.sizes.deciding()
    if deciding is not None:
        raise Unsupported(
            f"{who}: which operations run depends on numbers that only a run knows: in the recording, {deciding}. A file would "
            "compute the same whatever the numbers are. Read the model with these inputs as constants, or keep the network with "
            "save_model."
        )
    file = GraphFile(onnx, names, {id(module): path for path, module in network._paths()}, graph.sizes)
    card = network._card
    if preprocessing and card is not None and can_prepare(card, graph):
        inputs = prepare(file, card, graph.inputs[0])
    else:
        names_of_inputs = input_names(network)
        inputs = [file.input(value, name) for value, name in zip(graph.inputs, names_of_inputs, strict=True)]
    _write_all(file, graph, who)
    ports = []
    for number, value in enumerate(graph.outputs):
        result = file.use(value)
        if preprocessing and not number and card is not None and card.target_mean is not None:
            result = give_units(file, card, value)
        name = file.named("output" if len(graph.outputs) == 1 else f"output_{number}", result)
        ports.append(file.described(value, name))
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in file.weights.items()]
    bounds = list(file.bounds.values())
    made = onnx.helper.make_graph(file.nodes, type(network).__name__, inputs, ports, weights, value_info=bounds)
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in file.opsets.items()]
    model = onnx.helper.make_model(made, opset_imports=opsets, producer_name="openbnns")
    model.ir_version = IR_VERSION
    frozen = [
        name for name, parameter in network.named_parameters() if not parameter.requires_grad and name in file.weights
    ]
    onnx.helper.set_model_props(
        model, metadata_of(card, frozen, {end: value.name for end, value in file.bounds.items()})
    )
    if model.ByteSize() > _LARGEST:
        raise OnnxError(f"{who}: the file would be larger than 2 GB, which is what ONNX files can hold.")
    onnx.checker.check_model(model, full_check=True)
    write_atomically(path, model.SerializeToString())
    return file.converted


def _write_all(file: GraphFile, graph: Any, who: str) -> None:
    problems = []
    known = set(graph.inputs)
    for operation in graph.operations:
        if any(v.storage.leaf is None and v.storage not in known for v in operation.inputs):
            continue  # it follows one that has no form
        file.enter(operation)
        before = len(file.nodes)
        try:
            write_operation(file, operation)
        except NoForm as error:
            problems.append(f"{_name_of(operation)} in {file.place or 'the network'}: {error}")
            continue
        known.update(value.storage for value in operation.outputs)
        file.note(_name_of(operation), before)
    if problems:
        told = "\n  ".join(problems)
        raise Unsupported(f"{who}: {plural(len(problems), 'operation')} cannot be written:\n  {told}")


def _name_of(operation: Operation) -> str:
    """The name of an operation in messages and tables: that of its function, or that of its class."""
    named = (operations.CustomFunction, operations.Node, operations.Composite)
    return operation.name if isinstance(operation, named) else type(operation).__name__
