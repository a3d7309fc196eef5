"""Trainable networks from ML programs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..._spelling import did_you_mean, spelled
from ...graph.sizes import is_same_shape
from ...nn.files.model_file import ModelCard
from ...nn.module import Module
from ...nn.recording import recorded_graph
from .. import coreml
from ..converted.recorded import Choice, Recorded
from ..converted.samples import Fixed, NotProven
from .execution import CannotBeRecorded, whole_of
from .program import Function, Operation

_TRIALS = ((7, 64), (7, 224), (12, 240), (1, 1))
"""Numbers of samples, and of other sizes that are free, to record with."""


@spelled
def from_coreml(
    path: str | os.PathLike[str], *, function_name: str | None = None, batch_axis: int | None = 0
) -> Module:
    """The network that computes what a model of Core ML does, with its weights as parameters under their names in the program.

    It is called, trained and saved like any other network, and ``to_coreml`` writes it back; compressed weights are
    decompressed. Sizes that the program leaves open are free, and so is the first axis of every input even if the program
    has a number for it, mostly 1, as long as its operations prove that each computes every sample by itself; ``predict`` runs one
    at a time otherwise. ``batch_axis=None`` leaves these numbers. It is in evaluation mode, as the program is:
    ``Trainer`` and ``train()`` switch it. A classifier becomes a network that gives scores, as ``CrossEntropyLoss`` takes
    them; ``predict`` knows the classes, and ``to_coreml`` adds the softmax and the choice of a class again. Loops are unrolled
    if constants or sizes say how often they run, and branches taken if constants choose among them. Programs with states,
    other loops, or shapes that follow from numbers raise :class:`openbnns.coreml.CoreMLError`;
    :class:`openbnns.coreml.MLModel` runs these. Neural networks of the older kind are read by :func:`openbnns.nn.from_mlmodel`.

    >>> import numpy as np, tempfile
    >>> from openbnns import nn
    >>> from openbnns.interop import coreml
    >>> text = '''program(1.3) { func main<ios17>(tensor<fp32, [1, 2]> x) {
    ...     tensor<fp32, [1, 2]> w = const()[val = tensor<fp32, [1, 2]>([[3, 4]])];
    ...     tensor<fp32, [1, 1]> y = linear(x = x, weight = w); } -> (y); }'''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = coreml.write_package(coreml.make_model(coreml.parse(text)), f"{folder}/sum.mlpackage")
    ...     net = nn.from_coreml(path)
    >>> net(np.float32([[1, 1], [0, 2]])).tolist(), net.w
    ([[7.0], [8.0]], Parameter(shape=(1, 2)))
    """
    model = coreml.read(path)
    if batch_axis not in (0, None):
        raise ValueError(f"from_coreml: batch_axis is {batch_axis!r}. Samples stand on axis 0, or pass None.")
    if model.program is None:
        return _older(model, path, function_name, batch_axis)
    names = list(model.program.functions)
    name = function_name or model.description.default_function or ("main" if "main" in names else names[0])
    if name not in names:
        raise ValueError(
            f"from_coreml: {path}: there is no function {name!r}. It has {', '.join(names)}.{did_you_mean(name, names)}"
        )
    return _network(model, model.program.functions[name], path, batch_axis)


def _older(
    model: coreml.Model, path: str | os.PathLike[str], function_name: str | None, batch_axis: int | None
) -> Module:
    if not model.kind.startswith("neuralNetwork"):
        raise coreml.CoreMLError(f"from_coreml: {path}: is of the kind {model.kind}, which is not a network.")
    if function_name is not None or batch_axis is None:
        option = "function_name" if function_name is not None else "batch_axis"
        raise ValueError(
            f"from_coreml: {option} is for ML programs, and {path} is of the kind {model.kind}. Leave it out."
        )
    from .mlmodel import from_mlmodel

    return from_mlmodel(path)


def from_layers(model: coreml.Model, path: str | os.PathLike[str]) -> Recorded:
    """The network of a neural network that was made an ML program; any number of samples if its layers allow that."""
    assert model.program is not None
    (function,) = model.program.functions.values()
    return _network(model, function, path, 0)


def _network(model: coreml.Model, function: Function, path: str | os.PathLike[str], batch_axis: int | None) -> Recorded:
    function, choice, gives_scores = _without_choice(function)
    batch = _batch(function) if batch_axis == 0 else None
    title = os.path.basename(os.fspath(path))
    network, problem = _recorded(function, title, batch)
    if network is None and batch is not None:
        reason = problem.reason if isinstance(problem, NotProven) else str(problem)
        network, problem = _recorded(function, title, None, Fixed(batch, reason))
    if network is None:
        raise coreml.CoreMLError(f"from_coreml: {path}: {problem}.")
    if choice is not None and gives_scores:
        network._card = _card(network, model.class_labels)
        network._choice = Choice(model.class_labels, *(port.name for port in choice.outputs))
    return network


def _recorded(
    function: Function, title: str, batch: int | None, fixed: Fixed | None = None
) -> tuple[Recorded | None, Exception | None]:
    """The network of a function, recorded for some sizes; or None, and the reason."""
    whole = whole_of(function, title)
    results = [argument.name for argument in whole.outputs]
    network = Recorded(title, whole.ports, whole.body, whole.weights, batch, results, fixed)
    network.eval()
    problem: Exception | None = None
    for samples, others in _TRIALS:
        shapes = []
        for argument in whole.inputs:
            shape: list[Any] = [others if n is None else n for n in argument.shape or ()]
            if shape and (batch is not None or (argument.shape or (1,))[0] is None):
                shape[0] = samples
            shapes.append(tuple(shape))
        try:
            network.record(*shapes)
        except (CannotBeRecorded, ValueError) as error:
            problem = problem or error
            if isinstance(error, NotProven):
                return None, error
            continue
        return network, None
    return None, problem


def _without_choice(function: Function) -> tuple[Function, Operation | None, bool]:
    """A function without its choice of a class; this choice; and True if it gives scores then, those before a softmax."""
    block = function.block
    makers = {output.name: operation for operation in block.operations for output in operation.outputs}
    choice = next((operation for operation in block.operations if operation.type == "classify"), None)
    if choice is None:
        return function, None, False
    (probabilities,) = choice.inputs["probabilities"]
    scores, maker = probabilities, makers.get(str(probabilities))
    while maker is not None and maker.type == "cast":
        (scores,) = maker.inputs["x"]
        maker = makers.get(str(scores))
    gives_scores = maker is not None and maker.type == "softmax"
    if maker is not None and gives_scores:
        (scores,) = maker.inputs["x"]
    chosen = {output.name for output in choice.outputs}
    outputs = [str(scores if gives_scores else probabilities) if name in chosen else name for name in block.outputs]
    rest = [operation for operation in block.operations if operation is not choice]
    scored = replace(function, block=replace(block, operations=rest, outputs=list(dict.fromkeys(outputs))))
    return scored, choice, gives_scores


def _card(network: Module, labels: Sequence[Any]) -> ModelCard | None:
    """The model card of a network that gives a score for each class; None if it gives something else."""
    graph = recorded_graph(network)
    if len(graph.outputs) != 1 or not is_same_shape(graph.output.shape[1:], (len(labels),)):
        return None
    return ModelCard(task="classification", classes=tuple(map(str, labels)))


def _batch(function: Function) -> int | None:
    """The number that all inputs have on their first axis; None if they differ, or leave it open."""
    first = {
        port.type.shape[0] if isinstance(port.type, coreml.TensorType) and port.type.shape else None
        for port in function.inputs
    }
    return first.pop() if len(first) == 1 else None
