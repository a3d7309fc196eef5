"""Layers with weights, poolings, normalizations, dropout."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ....graph import operations
from ....graph.parameter import Parameter
from ....graph.sizes import is_plain, is_same, number_of, product
from ....graph.tensor import Tensor
from .._graph_file import GraphFile
from ..errors import NoForm
from ..operators.windows import plane_places, whole_places
from ..rows import WINDOWS
from ._registry import writes
from .positions import scalar


def _weights(file: GraphFile, given: Parameter | Tensor | None) -> str:
    """Weights of a layer: a parameter, or what the network computes, or none."""
    return "" if given is None else file.use(given) if isinstance(given, Tensor) else file.leaf(given)


@writes(operations.Linear)
def linear(file: GraphFile, operation: operations.Linear) -> str:
    x, bias = operation.inputs[0], operation.bias
    if x.ndim == 2:
        return file.node("Gemm", file.use(x), file.leaf(operation.weight), _weights(file, bias), transB=1)
    turned = file.node("Transpose", file.leaf(operation.weight), perm=[1, 0])
    y = file.node("MatMul", file.use(x), turned)
    return y if bias is None else file.node("Add", y, file.leaf(bias))


def _window(window: operations.Window) -> dict[str, Any]:
    return {
        "kernel_shape": list(window.kernel), "strides": list(window.stride),
        "dilations": list(window.dilation) if max(window.dilation) > 1 else None,
        "pads": [edge[0] for edge in window.edges] + [edge[1] for edge in window.edges],
        "ceil_mode": int(window.ceil) or None,
    }  # fmt: skip


@writes(operations.Convolution, operations.GroupedTransposedConvolution)
def convolution(file: GraphFile, operation: Any) -> str:
    given = file.use(operation.inputs[0]), _weights(file, operation.weight), _weights(file, operation.bias)
    more = None if operation.extra is None else list(operation.extra)
    return file.node(
        WINDOWS[operation.name], *given, group=operation.groups, output_padding=more, **_window(operation.window)
    )


def _fixed(file: GraphFile, operation: operations.Pooling | operations.MaxPoolingWithIndices) -> operations.Window:
    """Windows with padding up to their ends, so that none hangs over, which readers count in different ways.

    Where a size is free, ceil_mode says it, as onnxruntime and PyTorch understand it.
    """
    window: operations.Window = operation.window
    image = operation.inputs[0].shape[2:]
    known, sizes = [isinstance(file.size(n), int) for n in image], list(map(number_of, image))
    if not window.ceil:
        return window
    if all(known):
        return replace(window, edges=window.reaching(sizes), ceil=False)
    reach = window.inside.spread(window.counts(sizes), [0] * len(sizes))
    exact = [(front, int(end - n - front)) for (front, _), end, n in zip(window.edges, reach, sizes, strict=True)]
    edges = tuple(pair if fixed else edge for pair, edge, fixed in zip(exact, window.edges, known, strict=True))
    if (operation.case != "max" and operation.counted != "image") or min(behind for _, behind in edges) < 0:
        raise NoForm("the windows that hang over depend on the size of its input. Use ceil_mode=False")
    return replace(window, edges=edges)


@writes(operations.Pooling)
def pooling(file: GraphFile, operation: operations.Pooling) -> str:
    x, case, counted = operation.inputs[0], operation.case, operation.counted
    options = {"max": {}, "l2_norm": {"p": 2}, "average": {"count_include_pad": int(counted != "image")}}[case]
    y = file.node(WINDOWS[case], file.use(x), **_window(_fixed(file, operation)), **options)
    factors: Any = operation.scale
    if counted == "padded" and operation.window.ceil:
        shares = operation.window.shares(list(map(number_of, x.shape[2:])), padded=True)
        factors = factors if shares is None else factors * shares
    return y if np.all(factors == 1) else file.node("Mul", y, file.constant(np.asarray(factors, np.float32)))


@writes(operations.MaxPoolingWithIndices)
def max_pooling_with_indices(file: GraphFile, operation: operations.MaxPoolingWithIndices) -> list[str]:
    plane = file.sizes([product(operation.inputs[0].shape[2:])])
    y, places = file.several("MaxPool", [file.use(operation.inputs[0])], 2, **_window(_fixed(file, operation)))
    return [y, file.node("Mod", places, plane)]


# Where maxima are, in networks from ONNX, which numbers the elements of the whole tensor.


def _turned(file: GraphFile, places: str, width: int, rows: int, columns: int) -> str:
    """Places in planes of this width as ``rows`` times the number of their row, and ``columns`` times that of their column."""
    row, column = (file.node(op, places, file.integers([width])) for op in ("Div", "Mod"))
    return file.node(
        "Add", file.node("Mul", row, file.integers([rows])), file.node("Mul", column, file.integers([columns]))
    )


@writes(whole_places)
def in_the_whole(file: GraphFile, operation: operations.CustomFunction) -> str:
    recipe, places = operation.arguments[-1], file.use(operation.inputs[0])
    samples, channels, *rest = operation.output.shape
    _, _, *image = map(int, recipe.tensors[1].held)
    if recipe.call.integer("storage_order", 0) and len(image) == 2:  # column by column
        places = _turned(file, places, image[1], 1, image[0])
    planes = file.node("Range", scalar(file, 0), scalar(file, samples * channels), scalar(file, 1))
    first = file.node("Mul", planes, file.integers([math.prod(image)]))
    return file.node("Add", places, file.reshaped(first, (samples, channels, *[1] * len(rest))))


@writes(plane_places)
def in_planes(file: GraphFile, operation: operations.CustomFunction) -> str:
    own, larger = np.split(operation.arguments[-1].tensors[1].held, 2)
    places = file.node("Mod", file.use(operation.inputs[0]), file.integers([math.prod(own)]))
    return places if len(own) == 1 else _turned(file, places, own[1], larger[1], 1)


# Normalizations.


@writes(operations.Normalization)
def normalization(file: GraphFile, operation: operations.Normalization) -> str:
    x, kind = operation.inputs[0], operation.type
    case, eps = kind.case, float(operation.epsilon)
    if case == "layer":
        return _layer_normalization(file, operation, eps)
    channels = int(operation.sample[0])
    scale = file.constant(np.ones(channels, np.float32)) if operation.gamma is None else file.leaf(operation.gamma)
    shift = file.constant(np.zeros(channels, np.float32)) if operation.beta is None else file.leaf(operation.beta)
    moving = kind.moving_mean is not None
    if case == "batch" and moving:
        statistics = [file.buffer(array) for array in (kind.moving_mean, kind.moving_variance)]
        return file.node(
            "BatchNormalization",
            file.use(x),
            scale,
            shift,
            *statistics,
            epsilon=eps,
            momentum=float(operation.momentum),
        )
    if case == "instance" and not moving:
        return file.node("InstanceNormalization", file.use(x), scale, shift, epsilon=eps)
    if case == "group":
        name = file.use(x)
        if x.ndim == 2:
            name = file.reshaped(name, (*x.shape, 1))
        y = file.node("GroupNormalization", name, scale, shift, num_groups=kind.group_count, epsilon=eps)
        return y if x.ndim > 2 else file.reshaped(y, x.shape)
    have = "with" if moving else "without"
    raise NoForm(f"a normalization of kind {case!r} {have} moving statistics has no form in ONNX")


def _layer_normalization(file: GraphFile, operation: operations.Normalization, eps: float) -> str:
    x = operation.inputs[0]
    axes = 1
    while not is_same(product(x.shape[-axes:]), operation.sample[0]):
        axes += 1
    if operation.gamma is not None:
        axes = max(axes, len(operation.gamma.shape))
    shape = x.shape[-axes:]
    if operation.gamma is None and not is_plain(shape):
        raise NoForm("a normalization over axes of free sizes has no form in ONNX without weights")
    scale = (
        file.constant(np.ones(tuple(map(int, shape)), np.float32))
        if operation.gamma is None
        else file.leaf(operation.gamma)
    )
    shift = "" if operation.beta is None else file.leaf(operation.beta)
    return file.node("LayerNormalization", file.use(x), scale, shift, axis=-axes, epsilon=eps)


# Others.


@writes(operations.Prelu)
def prelu(file: GraphFile, operation: operations.Prelu) -> str:
    x, slope = operation.inputs[0], file.leaf(operation.weight)
    if operation.weight.size > 1 and x.ndim > 2:
        slope = file.node("Reshape", slope, file.integers((operation.weight.size, *[1] * (x.ndim - 2))))
    return file.node("PRelu", file.use(x), slope)


def dropout_rate(file: GraphFile, rate: float) -> str:
    if rate == 1:
        raise NoForm(
            "a dropout with p=1 drops everything in training, which ONNX does not allow (its ratio is below 1). It has no effect "
            "in inference: set p to 0 before you write the network"
        )
    return file.number(rate)


@writes(operations.Dropout)
def dropout(file: GraphFile, operation: operations.Dropout) -> str:
    x, rate = operation.inputs[0], dropout_rate(file, operation.rate)
    if not operation.channels or x.ndim == 2:
        return file.node("Dropout", file.use(x), rate)
    ones = file.node("Expand", file.number(1), file.sizes((*x.shape[:2], *[1] * (x.ndim - 2))))
    return file.node("Mul", file.use(x), file.node("Dropout", ones, rate))


@writes(operations.Embedding)
def embedding(file: GraphFile, operation: operations.Embedding) -> str:
    row = operation.padding_index
    if row is not None and operation.weight.data[row].any():
        raise NoForm(
            f"row {row} of the table, that of the padding, is not zero, but reads as zeros here. Set it to zero"
        )
    return file.node("Gather", file.leaf(operation.weight), file.use(operation.inputs[0]), axis=0)
