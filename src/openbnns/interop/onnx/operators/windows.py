"""Convolutions and poolings of signals, images and volumes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....graph import functions as F
from ....graph import operations
from ....graph.functions.convolutions import convolved
from ....graph.functions.poolings import pooled
from ....graph.operations import Window
from ....graph.sizes import are_at_least, is_same_shape
from ....graph.tensor import Array
from ...converted.tensors import ForeignTensor, Misfit, optional_numbers
from .._call import Call
from .._operator import add, operator
from ..rows import SAME
from ..tensor import by_numpy, plain_numbers

LAYERS = "convolutions and poolings"


def _window(call: Call, x: ForeignTensor, kernel: Sequence[int], *, ceil: bool = False) -> Window:
    """The windows of an operator; ``kernel`` are the sizes of its weights."""
    image = x.shape[2:]
    axes = len(image)
    if not 1 <= axes <= 3:
        raise Misfit(f"windows of {axes} axes have no counterpart here: BNNS has those of signals and images")
    given, pads = call.integers("kernel_shape", kernel), call.integers("pads", [0] * 2 * axes)
    if len(given) != axes or len(pads) != 2 * axes or tuple(given) != tuple(kernel):
        raise Misfit(f"kernel {given} and pads {pads} do not fit {axes} axes, or weights of {tuple(kernel)}")
    auto = call.text("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID", *SAME):
        raise Misfit(f"auto_pad={auto!r} has no counterpart here")
    padding = SAME.get(auto) or tuple(zip(pads[:axes], pads[axes:], strict=True))
    strides, dilations = (call.integers(name, [1] * axes) for name in ("strides", "dilations"))
    return Window.of(call.op, given, strides, padding, dilations, ceil, image)


@operator(LAYERS, "Conv")
def conv(call: Call, x: ForeignTensor, weight: ForeignTensor, bias: ForeignTensor | None = None) -> ForeignTensor:
    return convolution(call, x, weight, bias)


def convolution(call: Call, x: ForeignTensor, weight: ForeignTensor, bias: ForeignTensor | None) -> ForeignTensor:
    """A convolution with weights that are held, or computed."""
    window = _window(call, x, weight.shape[2:])
    added = optional_numbers(bias)
    return ForeignTensor(convolved("Conv", x.numbers, weight.numbers, added, window, call.integer("group", 1)))


@operator(LAYERS, "ConvTranspose")
def conv_transpose(
    call: Call, x: ForeignTensor, weight: ForeignTensor, bias: ForeignTensor | None = None
) -> ForeignTensor:
    auto, image = call.text("auto_pad", "NOTSET"), x.shape[2:]
    window = _window(call.without("auto_pad"), x, weight.shape[2:])
    extra = call.integers("output_padding", [0] * len(image))
    if len(extra) != len(image) or min(extra) < 0:
        raise Misfit(f"output_padding {extra} does not fit {x.shape}")
    if call.has("output_shape") or auto in SAME:
        sizes: Any = [n * s for n, s in zip(image, window.stride, strict=True)]
        if call.has("output_shape"):
            sizes = call.integers("output_shape")[-len(image) :]
        window, extra = window.filling(image, sizes, extra, behind=auto == "SAME_UPPER")
    results = window.spread(image, extra)
    if not are_at_least(1, results) or math.prod(n for n in results if isinstance(n, int)) > 2**31:
        raise Misfit(f"it gives {results} for {x.shape}")
    added, groups = optional_numbers(bias), call.integer("group", 1)
    return ForeignTensor(convolved("ConvTranspose", x.numbers, weight.numbers, added, window, groups, extra=extra))


# Poolings.


def _pool(call: Call, x: ForeignTensor) -> Window:
    return _window(call, x, call.integers("kernel_shape"), ceil=bool(call.integer("ceil_mode", 0)))


@operator(LAYERS, "MaxPool", ignores=("storage_order",))
def max_pool(call: Call, x: ForeignTensor) -> Any:
    if call.outputs > 1:
        return _with_indices(call, x, _pool(call, x))
    return ForeignTensor(pooled("MaxPool", x.numbers, "max", _pool(call, x)))


@operator(LAYERS, "AveragePool")
def average_pool(call: Call, x: ForeignTensor) -> ForeignTensor:
    counted = "padded" if call.integer("count_include_pad", 0) else "image"
    return ForeignTensor(pooled("AveragePool", x.numbers, "average", _pool(call, x), counted))


@operator(LAYERS, "LpPool")
def lp_pool(call: Call, x: ForeignTensor) -> ForeignTensor:
    p, window = call.integer("p", 2), _pool(call, x)
    if p < 1:
        raise Misfit(f"p={p} has no counterpart here")
    if p == 2 and max(window.dilation) == 1:
        return ForeignTensor(pooled("LpPool", x.numbers, "l2_norm", window))
    powers = F.abs(x.numbers) if p == 1 else F.pow(F.abs(x.numbers), float(p))
    sums = pooled("LpPool", powers, "average", window, "window", float(math.prod(window.kernel)))
    return ForeignTensor(sums if p == 1 else F.pow(sums, 1 / p))


# Where maxima are: here in their plane, in ONNX in the whole tensor.


def whole_places(call: Call, places: Array, shape: Array) -> Any:
    plane = int(np.prod(shape[2:]))
    numbers = np.arange(math.prod(places.shape[:2])).reshape(places.shape[:2])
    offsets = numbers[(...,) + (None,) * (places.ndim - 2)] * plane
    if call.integer("storage_order", 0) and len(shape) == 4:
        height, width = int(shape[2]), int(shape[3])
        places = places % width * height + places // width
    return places + offsets


def plane_places(call: Call, indices: Array, sizes: Array) -> Any:
    own, larger = np.split(sizes, 2)
    places = indices % int(np.prod(own))
    if len(own) == 1:
        return places
    return places // own[1] * larger[1] + places % own[1]


def _with_indices(call: Call, x: ForeignTensor, window: Window) -> Any:
    if x.rank > 4:
        raise Misfit("indices of maxima of volumes have no counterpart here")
    operation = operations.MaxPoolingWithIndices(x.numbers, window)
    operation.inputs[0].graph.append(operation)
    largest, places = operation.outputs
    image = np.array([0, 0, *map(int, x.shape[2:])])
    return ForeignTensor(largest), by_numpy(call, [ForeignTensor(places, "i"), ForeignTensor(image)], whole_places)[0]


def _global(function: Any) -> Any:
    def handler(call: Call, x: ForeignTensor) -> ForeignTensor:
        axes = list(range(2, x.rank))
        return ForeignTensor(function(call, x.numbers, axes)) if axes else x

    return handler


def _global_lp(call: Call, value: Any, axes: list[int]) -> Any:
    p = call.integer("p", 2)
    if p in (1, 2):
        return F.norm(value, p, axes, True)
    return F.pow(F.sum(F.pow(F.abs(value), float(p)), axes, True), 1 / p)


add(LAYERS, "GlobalAveragePool", _global(lambda call, value, axes: F.mean(value, axes, True)))
add(LAYERS, "GlobalMaxPool", _global(lambda call, value, axes: F.amax(value, axes, True)))
add(LAYERS, "GlobalLpPool", _global(_global_lp))


@operator(LAYERS, "MaxUnpool")
def max_unpool(
    call: Call, x: ForeignTensor, indices: ForeignTensor, output_shape: ForeignTensor | None = None
) -> ForeignTensor:
    if x.rank not in (3, 4):
        raise Misfit(f"windows do not fit {x.shape}")
    sizes = _pool(call, x).spread(list(map(int, x.shape[2:])), (0,) * (x.rank - 2))
    axes = len(sizes)
    given = plain_numbers(output_shape, "output_shape")
    larger = sizes if given is None else given[2:]
    if len(larger) != axes or min(*sizes, *larger) < 1 or not is_same_shape(indices.shape, x.shape):
        raise Misfit(f"output_shape {given} does not fit {x.shape}")
    places = by_numpy(call, [indices, ForeignTensor(np.array([*sizes, *larger]))], plane_places)[0]
    value = x.numbers
    return ForeignTensor(value.graph.append(operations.MaxUnpooling(value, places.value, (*x.shape[:2], *larger))))
