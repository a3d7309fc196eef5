"""From an ONNX file to a network."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from ..._spelling import spelled
from ...files import memory_limit
from ...nn.recording import Shapes, forget_recordings, recording_of
from ..converted.samples import Fixed, NotProven
from ..converted.tensors import NODE_ERRORS, Misfit
from ._file import Model, Node, Port, nested, read
from ._metadata import FROZEN, card_of
from ._network import BATCH, SOME_SAMPLES, Network, shown_shape
from ._operator import OPERATORS
from ._patterns import with_layers
from ._weights import sorted_out
from .errors import OnnxError, Unsupported, all_refused
from .operators.products import LINEAR


@spelled
def from_onnx(
    path: str | os.PathLike[str],
    *,
    batch_axis: int | Mapping[str, int | None] | None = 0,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> Network:
    """The network that computes what an ONNX model does, with its weights; it runs for all sizes that the model takes, trains,
    and is saved.

    Inputs have the shapes of the file. Sizes that it leaves open are free, and so is axis ``batch_axis`` of every input, the
    first one, even if the file has a number for it, unless the first input has another number there, or none. It keeps that
    number if the nodes do not prove that each computes every sample by itself; ``predict`` then runs one at a time.
    ``batch_axis`` may name axes by input, and None leaves all numbers of the file as they are. ``input_shapes`` fixes shapes of
    inputs, by name; without the batch, that stays free.

    Initializers are parameters under their names, and moving statistics of batch normalizations are buffers; single numbers,
    masks and ``Constant`` nodes stay as they are. The result is in evaluation mode, as the file is: ``Trainer`` and ``train()``
    switch it. Nodes that have no counterpart raise :class:`nn.onnx.Unsupported`, which lists all of them; files that
    are damaged raise :class:`openbnns.interop.onnx.OnnxError`. ``nn.onnx.supported()`` lists the operators.

    >>> from openbnns import nn
    >>> "Conv" in nn.onnx.supported()["convolutions and poolings"]
    True
    """
    model = read(path)
    _check_operators(model)
    if not model.inputs:
        raise OnnxError(f"{model.path}: has no inputs.")
    written: dict[str, int] = {}
    declared = model.inputs
    model.inputs = [_with_names(port, batch_axis, input_shapes or {}, written, model) for port in model.inputs]
    model.nodes = _with_own_statistics(_without_unread(model), model.initializers)
    model.nodes = with_layers(model)
    try:
        network = _recorded(model, written)
    except NotProven as error:
        fixed = Fixed(written[BATCH], error.reason)
        model.inputs = [_as_declared(port, own) for port, own in zip(model.inputs, declared, strict=True)]
        network = _recorded(model, {}, fixed)
    network._card = card_of(model.metadata, str(model.path))
    return network


def _recorded(model: Model, written: Mapping[str, int], fixed: Fixed | None = None) -> Network:
    """The network, recorded for sizes that it takes.

    :class:`NotProven` says why the number of samples has to be the one that the file has.
    """
    try:
        weights = sorted_out(model, _frozen(model))
    except Misfit as error:
        raise Unsupported(f"from_onnx: {model.path}: {error}.") from None
    results = [port.name for port in model.outputs]
    network = Network(
        model.path.name, model.nodes, model.inputs, results, model.opset, weights, written, fixed
    ).eval()  # fmt: skip
    problems, finished, unfinished = list[Unsupported](), list[Shapes](), list[Shapes]()
    for shapes in _trial_shapes(model.inputs, written.get(BATCH), problems):
        try:
            graph = recording_of(network, False, shapes).graph
            if graph.unfinished is None and not 0 < len(graph.sizes.computed) <= _FEW_CONDITIONS:
                break
            # Sizes for which both ways of a condition are possible may follow.
            (finished if graph.unfinished is None else unfinished).append(shapes)
            forget_recordings(network)
        except NotProven:
            raise
        except Unsupported as error:
            problems.append(error)
        except NODE_ERRORS as error:
            problems.append(Unsupported(f"from_onnx: {model.path}: the network cannot be made. {error}"))
    else:
        if not finished and not unfinished:
            free = any(isinstance(n, str) for port in model.inputs for n in port.shape or ())
            hint = (
                "\nSizes are free: if only some numbers are possible, pass input_shapes={name: (...)}." if free else ""
            )
            raise Unsupported(f"{problems[0]}{hint}", problems[0].problems) from None
        # It relies on examples of numbers that runs compute.
        recording_of(network, False, [*finished, *unfinished][0])
    return network


def _as_declared(port: Port, declared: Port) -> Port:
    """An input with the number of the file in place of the name of the batch."""
    pairs = zip(port.shape or (), declared.shape or (), strict=False)
    return replace(port, shape=tuple(own if n == BATCH and isinstance(own, int) else n for n, own in pairs))


_BLOCKED = "com.microsoft.nchwc"


def _check_operators(model: Model) -> None:
    unknown = [
        f"{node}: there is no operator {node.op}"
        for node in nested(model.nodes)
        if node.op not in OPERATORS or node.op == LINEAR
    ]
    if unknown:
        cure = "nn.onnx.supported() lists the operators that there are."
        domains = {str(node.op).rpartition(".")[0] for node in nested(model.nodes) if node.op not in OPERATORS}
        if _BLOCKED in domains:
            cure += (
                f" Operators of {_BLOCKED} hold their weights in blocks for the processor on which onnxruntime wrote the file: "
                "write it with graph_optimization_level = ORT_ENABLE_EXTENDED, or take the model as it was before."
            )
        elif "com.microsoft" in domains:
            cure += " Operators of com.microsoft are onnxruntime's: take the model as it was before onnxruntime optimized it."
        if others := sorted(domains - {"", "com.microsoft", _BLOCKED}):
            cure += f" Those of {', '.join(others)} are custom ones: define them as functions of the model, or replace them."
        raise all_refused("from_onnx", model.path, unknown, cure)


def _without_unread(model: Model) -> list[Node]:
    """The nodes without the names of results that nothing reads."""
    read = {port.name for port in model.outputs} | {name for node in model.nodes for name in node.reads}
    return [replace(node, outputs=tuple(name if name in read else "" for name in node.outputs)) for node in model.nodes]


def _with_own_statistics(nodes: Sequence[Node], initializers: dict[str, Any]) -> list[Node]:
    """The nodes with initializers of their own for statistics, which training changes.

    Some exporters join initializers that are equal, such as the zeros of means and biases: one is an Identity of the other.
    """

    def is_statistic(node: Node, place: int) -> bool:
        return node.op in OPERATORS and place in OPERATORS[node.op].statistics

    copies = {
        node.outputs[0]: node.inputs[0] for node in nodes if node.op == "Identity" and node.inputs and node.outputs
    }
    weights = {
        name for node in nodes if node.op != "Identity" for i, name in enumerate(node.inputs) if not is_statistic(node, i)
    }  # fmt: skip
    changed = []
    for node in nodes:
        inputs = list(node.inputs)
        for place, name in enumerate(node.inputs):
            source = copies.get(name, name)
            if is_statistic(node, place) and source in initializers and (source != name) is not (name in weights):
                inputs[place] = f"{name}_statistics" if source == name else name
                initializers[inputs[place]] = initializers[source].copy()
        changed.append(replace(node, inputs=tuple(inputs)))
    return [node for node in changed if node.op != "Identity" or not any(name in initializers for name in node.outputs)]


def _frozen(model: Model) -> set[str]:
    """Parameters that were frozen when we wrote the file."""
    try:
        said = json.loads(model.metadata.get(FROZEN, "[]"))
    except (ValueError, RecursionError):
        return set()
    return {name for name in said if isinstance(name, str)} if isinstance(said, list) else set()


# Inputs.

_TRIALS = ((SOME_SAMPLES, 64), (SOME_SAMPLES, 224), (12, 240))
_FEW_CONDITIONS = 2  # that a recording has decided; more are steps of loops
_MORE_TRIALS = ((SOME_SAMPLES, 32), (SOME_SAMPLES, 48), (1, 4096), (1, 16000), (1, 1))
"""Numbers of samples, and of other sizes that are free, to record with: many networks halve images several times, those that
read text take lines of 32 or 48 pixels, and windows of sound are long. Between the two come those of the file."""


def _with_names(
    port: Port, batch_axis: int | Mapping[str, int | None] | None, given: Mapping[str, Sequence[int]],
    written: dict[str, int], model: Model,
) -> Port:  # fmt: skip
    """The input with a name for every size that is free; ``written`` notes the number that the file has for the batch."""
    axis = _batch_axis(port, batch_axis, model)
    shape: list[Any] = list(_shape(port, axis, given, model))
    if len(given.get(port.name, ())) == len(shape):
        axis = None
    for i, n in enumerate(shape):
        if i == axis:
            own = port is model.inputs[0] or isinstance(batch_axis, Mapping)
            if isinstance(n, int) and n != written.get(BATCH, n if own else None):
                continue  # a state with its layers in front, beside another batch
            if isinstance(n, int):
                written[BATCH] = n
            shape[i] = n if isinstance(n, str) else BATCH
        elif n is None or (isinstance(n, str) and n in shape[:i]):  # some files have one name for all that is unknown
            shape[i] = f"{port.name}_{i}"
    who = f"{model.path}: a sample of input {port.name!r}, of shape {shown_shape(shape)},"
    plain = [n for n in shape if isinstance(n, int)]
    if min(plain, default=1) < 0:
        raise OnnxError(f"{who} has a negative size. Pass input_shapes={{{port.name!r}: (...)}}.")
    memory_limit.check(4 * math.prod(plain), who, OnnxError)
    return replace(port, shape=tuple(shape))


def _batch_axis(port: Port, given: int | Mapping[str, int | None] | None, model: Model) -> int | None:
    axis = given.get(port.name, 0) if isinstance(given, Mapping) else given
    if axis is None or port.shape is None:
        return axis
    if axis == 0 and not port.shape and not isinstance(given, Mapping):
        return None  # a single number
    if not -len(port.shape) <= axis < len(port.shape):
        raise OnnxError(
            f"{model.path}: input {port.name!r} of shape {shown_shape(port.shape)} has no axis {axis} that could be the batch. "
            "Name it with batch_axis, or pass batch_axis=None if the sizes of the file hold."
        )
    return axis % len(port.shape)


def _shape(port: Port, axis: int | None, given: Mapping[str, Sequence[int]], model: Model) -> tuple[Any, ...]:
    if port.name not in given:
        if port.shape is None:
            raise OnnxError(
                f"{model.path}: input {port.name!r} has no shape. Pass input_shapes={{{port.name!r}: (...)}}."
            )
        return port.shape
    shape: tuple[Any, ...] = tuple(given[port.name])
    known = shape if port.shape is None else port.shape
    if axis is not None and (port.shape is None or len(shape) == len(known) - 1):
        shape = (*shape[:axis], known[axis] if port.shape is not None else None, *shape[axis:])
        known = shape if port.shape is None else known
    if len(known) != len(shape) or any(isinstance(n, int) and n != m for n, m in zip(known, shape, strict=True)):
        raise ValueError(
            f"from_onnx: input_shapes has {tuple(given[port.name])} for {port.name!r}, but the model has {shown_shape(known)}."
        )
    return shape


def _trial_shapes(ports: Sequence[Port], written: int | None, problems: Sequence[Unsupported] = ()) -> Iterator[Shapes]:
    """Shapes of inputs to record with, one after the other; some have the batch that the file was ``written`` for.

    ``problems`` grows by one with every trial that fails.
    """
    first = {port.shape[0] for port in ports if port.shape}
    for samples, others in _TRIALS:
        yield tuple(_numbers(port, first, samples, others) for port in ports)
    yield from _wanted_shapes(ports, problems)
    batch = 1 if written is None else written
    for others in (64, 224, 1024):
        yield tuple(_numbers(port, {BATCH}, batch, others) for port in ports)
        # One sample, beside states, lengths and settings.
        named: dict[str | None, int] = {name: others for name in (ports[0].shape or ())[1:] if isinstance(name, str)}
        named[BATCH] = batch
        yield tuple(tuple(n if isinstance(n, int) else named.get(n, 1) for n in port.shape or ()) for port in ports)
    for samples, others in _MORE_TRIALS:
        yield tuple(_numbers(port, first, samples, others) for port in ports)


def _wanted_shapes(ports: Sequence[Port], problems: Sequence[Unsupported]) -> Iterator[Shapes]:
    """Shapes with the numbers that the first trial would have needed, and those that these would have needed.

    For files that leave a size open although a node has its number: some exporters write numbers of their example.
    """
    first = {port.shape[0] for port in ports if port.shape}
    tried, known, problem = 0, dict[str, int](), next(iter(problems), None)
    while problem is not None and not problem.wanted.keys() <= known.keys():
        known, tried = problem.wanted | known, len(problems)
        yield tuple(_numbers(port, first, *_TRIALS[0], known) for port in ports)
        problem = problems[-1] if len(problems) > tried else None


def _numbers(
    port: Port, first: AbstractSet[Any], samples: int, others: int, known: Mapping[str, int] | None = None
) -> tuple[int, ...]:
    """The shape of an input with numbers in place of names: for names of ``first`` axes, for all others, and ``known`` ones."""
    given: Mapping[Any, int] = known or {}
    return tuple(n if isinstance(n, int) else given.get(n, samples if n in first else others) for n in port.shape or ())
