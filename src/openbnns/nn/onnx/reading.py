"""From an ONNX file to a network."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..._spelling import spelled
from .. import memory_limit
from ..converted.tensors import Misfit
from ._file import Graph, Model, Port, read
from ._metadata import FROZEN, card_of
from ._network import ERRORS, Network
from ._patterns import with_layers
from ._weights import sorted_out
from .errors import OnnxError, Unsupported, all_refused
from .operators import OPERATORS
from .operators.products import LINEAR


@spelled
def from_onnx(
    path: str | os.PathLike[str],
    *,
    batch_axis: int | Mapping[str, int | None] | None = 0,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> Network:
    """The network that computes what an ONNX model does, with its weights; it runs for any batch size, trains, and is saved.

    The first axis of every input is the batch, whatever size the file has for it. ``batch_axis`` names another one, by input
    if they differ; None says that the model describes one sample, so that the network takes such samples with a batch in
    front. ``input_shapes`` gives the shapes of inputs, by name and without the batch, where the file leaves sizes open.

    Initializers are parameters under their names, and moving statistics of batch normalizations are buffers; single numbers,
    masks and ``Constant`` nodes stay as they are. The result is in evaluation mode, as the file is: ``Trainer`` and ``train()``
    switch it. Nodes that have no counterpart raise :class:`openbnns.nn.onnx.Unsupported`, which lists all of them; files that
    are damaged raise :class:`openbnns.nn.onnx.OnnxError`. ``nn.onnx.supported()`` lists the operators.

    >>> from openbnns import nn
    >>> "Conv" in nn.onnx.supported()["convolutions and poolings"]
    True
    """
    model = read(path)
    _check_operators(model)
    axes = {port.name: _batch_axis(port, batch_axis, model) for port in model.inputs}
    shapes = [_sample_shape(port, axes[port.name], input_shapes or {}, model) for port in model.inputs]
    if not shapes:
        raise OnnxError(f"{model.path}: has no inputs.")
    model.nodes = with_layers(model)
    try:
        weights = sorted_out(model, _frozen(model))
    except Misfit as error:
        raise Unsupported(f"from_onnx: {model.path}: {error}.") from None
    network = Network(
        model.path.name, model.nodes, model.inputs, [port.name for port in model.outputs], model.opset, axes, weights,
        _written_batch(model, axes),
    )  # fmt: skip
    try:
        network.build(*shapes)
    except Unsupported:
        raise
    except ERRORS as error:
        raise Unsupported(f"from_onnx: {model.path}: the network cannot be made. {error}") from None
    network._card = card_of(model.metadata, str(model.path))
    return network.eval()


def _check_operators(model: Model) -> None:
    unknown = [
        f"{node}: there is no operator {node.op}"
        for node in model.nodes
        if node.op not in OPERATORS or node.op == LINEAR
    ]
    graphs = [
        f"{node}: its attribute {name!r} is a graph"
        for node in model.nodes
        if node.op in OPERATORS
        for name, value in node.attributes.items()
        if isinstance(value, Graph)
    ]
    if unknown or graphs:
        raise all_refused(
            "from_onnx", model.path, [*unknown, *graphs], "nn.onnx.supported() lists the operators that there are."
        )


def _frozen(model: Model) -> set[str]:
    """Parameters that were frozen when we wrote the file."""
    try:
        said = json.loads(model.metadata.get(FROZEN, "[]"))
    except (ValueError, RecursionError):
        return set()
    return {name for name in said if isinstance(name, str)} if isinstance(said, list) else set()


# Inputs.


def _batch_axis(port: Port, given: int | Mapping[str, int | None] | None, model: Model) -> int | None:
    axis = given.get(port.name, 0) if isinstance(given, Mapping) else given
    if axis is None:
        return None
    if port.shape is None:
        return axis
    if not -len(port.shape) <= axis < len(port.shape):
        raise OnnxError(
            f"{model.path}: input {port.name!r} of shape {_shown(port.shape)} has no axis {axis} that could be the batch. "
            "Name it with batch_axis, or pass batch_axis=None if the model describes one sample."
        )
    return axis % len(port.shape)


def _sample_shape(port: Port, axis: int | None, given: Mapping[str, Sequence[int]], model: Model) -> tuple[int, ...]:
    if port.name in given:
        shape: tuple[Any, ...] = tuple(given[port.name])
        rest = None if port.shape is None else tuple(n for i, n in enumerate(port.shape) if i != axis)
        if rest is not None and (
            len(rest) != len(shape) or any(isinstance(n, int) and n != m for n, m in zip(rest, shape, strict=True))
        ):
            raise ValueError(
                f"from_onnx: input_shapes has {shape} for {port.name!r}, but the model has {_shown(rest)}."
            )
    elif port.shape is None:
        raise OnnxError(
            f"{model.path}: input {port.name!r} has no shape. Pass input_shapes={{{port.name!r}: (...)}}, without the batch."
        )
    else:
        shape = tuple(n for i, n in enumerate(port.shape) if i != axis)
    unknown = [str(n) if n else f"number {i}" for i, n in enumerate(shape) if not isinstance(n, int)]
    if unknown:
        raise OnnxError(
            f"{model.path}: input {port.name!r} of shape {_shown(port.shape or ())} leaves axes open that are no batch: "
            f"{', '.join(unknown)}. Networks here have one shape of sample: pass input_shapes={{{port.name!r}: (...)}}, without "
            "the batch."
        )
    who = f"{model.path}: a sample of input {port.name!r}, of shape {shape},"
    if any(n < 1 for n in shape):
        raise OnnxError(f"{who} holds nothing. Pass input_shapes={{{port.name!r}: (...)}}, without the batch.")
    memory_limit.check(4 * math.prod(shape), who, OnnxError)
    return shape


def _shown(shape: Sequence[Any]) -> str:
    return f"({', '.join('?' if n is None else str(n) for n in shape)})"


def _written_batch(model: Model, axes: Mapping[str, int | None]) -> int | None:
    """The number of samples that the file was written for, if it is one number."""
    sizes = {
        port.shape[axis] for port in model.inputs if (axis := axes[port.name]) is not None and port.shape is not None
    }
    number = sizes.pop() if len(sizes) == 1 else None
    return number if isinstance(number, int) and number > 0 else None
