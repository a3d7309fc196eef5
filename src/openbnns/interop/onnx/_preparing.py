"""Nodes around a network: those that prepare samples, and those that give predicted numbers their units."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...graph.sizes import AnySize, is_same_shape
from ...graph.tensor import INT64, Tensor
from ...nn.data.preprocessing import ArrayPreparation, ImagePreparation
from ...nn.files.model_file import ModelCard
from ._graph_file import GraphFile


def can_prepare(card: ModelCard, graph: Any) -> bool:
    """True if there is something to prepare, and one input of numbers."""
    prepare = card.preparation
    if len(graph.inputs) != 1 or graph.inputs[0].dtype == INT64:
        return False
    if isinstance(prepare, ArrayPreparation):
        return prepare.pixels or prepare.mean is not None
    return isinstance(prepare, ImagePreparation)


def prepare(file: GraphFile, card: ModelCard, value: Tensor) -> list[Any]:
    """Write nodes that make the input of the network; gives what the file says about the inputs of the graph."""
    file.place = "preprocessing"
    samples = value.shape[0]
    result, shape, inputs = _array(file, card.preparation, samples)
    if not is_same_shape(shape, value.shape[1:]):
        result = file.node("Reshape", result, file.integers((-1, *map(int, value.shape[1:]))))
    file.note(type(card.preparation).__name__, 0)
    file.begin(value, result)
    return inputs


def give_units(file: GraphFile, card: ModelCard, value: Tensor) -> str:
    """Numbers in the units of the data; a network learns them with mean 0 and deviation 1."""
    scores = file.end(value, file.use(value))
    file.place, first = "postprocessing", len(file.nodes)
    scaled = file.node("Mul", scores, file.constant(np.array(card.target_std, np.float32)))
    result = file.node("Add", scaled, file.constant(np.array(card.target_mean, np.float32)))
    file.note("units of the data", first)
    return result


def _array(file: GraphFile, prepare: Any, samples: AnySize) -> tuple[str, tuple[int, ...], list[Any]]:
    """One input: pixels of 8 bits, or numbers."""
    onnx, shape = file.onnx, tuple(prepare.shape)
    pixels = isinstance(prepare, ImagePreparation) or prepare.pixels
    kind = onnx.TensorProto.UINT8 if pixels else onnx.TensorProto.FLOAT
    name, declared = file.declare("input", kind, file.dimensions([samples, *shape]))
    if pixels:
        whole = file.node("Cast", name, to=onnx.TensorProto.FLOAT)
        return file.node("Div", whole, file.number(255)), shape, [declared]
    wide = file.node("Cast", name, to=onnx.TensorProto.DOUBLE)
    return _standardized(file, wide, prepare.mean, prepare.std), shape, [declared]


def _standardized(file: GraphFile, wide: str, mean: Any, std: Any) -> str:
    """In float64, as it is done here: a mean may be much larger than the deviation."""
    scaled = file.node("Div", file.node("Sub", wide, file.constant(mean)), file.constant(std))
    return file.node("Cast", scaled, to=file.onnx.TensorProto.FLOAT)
