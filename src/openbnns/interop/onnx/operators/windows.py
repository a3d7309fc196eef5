"""Convolutions and poolings of signals and images."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .... import PoolingType
from ...._plural import plural
from ....graph import operations
from ....graph.parameter import Parameter
from ....graph.sizes import AnySize, Shape, are_at_least, is_same, is_same_shape, product
from ....graph.tensor import Array, Tensor
from ....nn import functional as F
from ...converted.tensors import ForeignTensor, Misfit, as_parameter
from .._call import Call
from .._operator import add, operator
from ..tensor import by_numpy, plain_numbers

LAYERS = "convolutions and poolings"


@dataclass(frozen=True)
class Windows:
    """One number per axis of a signal or an image; ``edges`` are (in front, behind)."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]

    @property
    def extents(self) -> list[int]:
        return [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]

    def along(self, axes: slice) -> Windows:
        """The same for some of the axes."""
        return Windows(self.kernel[axes], self.stride[axes], self.dilation[axes], self.edges[axes])

    def for_layer(self) -> operations.Window:
        return operations.Window(self.kernel, self.stride, self.dilation, self.edges)


def _windows(call: Call, image: Sequence[AnySize], kernel: Sequence[int], most: int = 2) -> Windows:
    axes = len(image)
    if not 1 <= axes <= most:
        raise Misfit(f"windows of {axes} axes have no counterpart here: BNNS has those of signals and images")
    given = call.integers("kernel_shape", kernel)
    stride, dilation = call.integers("strides", [1] * axes), call.integers("dilations", [1] * axes)
    pads = call.integers("pads", [0] * 2 * axes)
    if not len(given) == len(stride) == len(dilation) == axes or len(pads) != 2 * axes:
        raise Misfit(f"kernel {given}, strides {stride}, dilations {dilation} and pads {pads} do not fit {axes} axes")
    if min(*given, *stride, *dilation) < 1 or max(*given, *stride, *dilation) > 2**31 - 1 or max(pads) > 2**31 - 1:
        raise Misfit(f"kernel {given}, strides {stride} and dilations {dilation} must be 1 or more")
    if min(pads) < 0:
        raise Misfit(f"negative pads {pads} have no counterpart here")
    windows = Windows(given, stride, dilation, tuple((pads[i], pads[i + axes]) for i in range(axes)))
    auto = call.text("auto_pad", "NOTSET")
    if auto in ("NOTSET", "VALID"):
        return windows
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        raise Misfit(f"auto_pad={auto!r} has no counterpart here")
    edges = []
    for n, extent, s in zip(image, windows.extents, stride, strict=True):
        total = int(max(0, (-(-n // s) - 1) * s + extent - n))
        less, more = total // 2, total - total // 2
        edges.append((less, more) if auto == "SAME_UPPER" else (more, less))
    return Windows(given, stride, dilation, tuple(edges))


def _sizes(image: Sequence[AnySize], windows: Windows, ceil: bool = False) -> list[AnySize]:
    """The numbers of windows along each axis."""
    sizes: list[AnySize] = []
    for n, extent, s, (front, behind) in zip(image, windows.extents, windows.stride, windows.edges, strict=True):
        room = n + front + behind - extent
        count = (room + (s - 1 if ceil else 0)) // s + 1
        if ceil and behind + s > extent and (count - 1) * s >= n + front:
            count -= 1  # a window that starts in the padding behind the image, which larger windows never do
        sizes.append(count if ceil or are_at_least(0, [room]) else 0)
    if not are_at_least(1, sizes):
        raise Misfit(f"{tuple(image)} is smaller than the windows {windows.kernel}")
    return sizes


# Convolutions.


def _weights(weight: ForeignTensor, bias: ForeignTensor | None) -> tuple[Any, Any]:
    """Both as parameters, or both as values if one of them is computed."""
    given = [weight, bias]
    if all(x is None or x.constant or isinstance(x.held, Parameter) for x in given):
        held = [None if x is None else x.held for x in given]
        return tuple(map(as_parameter, held))  # type: ignore[return-value]
    return weight.numbers, None if bias is None else bias.numbers


def _numbers(weight: ForeignTensor, bias: ForeignTensor | None) -> tuple[Any, Any]:
    """Both as functions of volumes take them: parameters of the network, else values."""
    kernels, added = (
        None if x is None else x.held if isinstance(x.held, Parameter) else x.numbers for x in (weight, bias)
    )
    return kernels, added


@operator(LAYERS, "Conv")
def conv(call: Call, x: ForeignTensor, weight: ForeignTensor, bias: ForeignTensor | None = None) -> ForeignTensor:
    return convolution(call, x, weight, bias)


def convolution(call: Call, x: ForeignTensor, weight: ForeignTensor, bias: ForeignTensor | None) -> ForeignTensor:
    """A convolution with weights that are held, or computed."""
    value, groups = x.numbers, call.integer("group", 1)
    if weight.rank != x.rank or x.rank < 3:
        raise Misfit(f"weights {weight.shape} do not fit {x.shape}")
    outputs, inputs, *kernel = weight.shape
    samples, channels, *image = value.shape
    if groups < 1 or channels != inputs * groups or outputs % groups:
        raise Misfit(f"weights {weight.shape} in {plural(groups, 'group')} do not fit {channels} channels of {x.shape}")
    _check_bias(bias, outputs)
    windows = _windows(call, image, kernel, most=3)
    if list(windows.kernel) != list(kernel):
        raise Misfit(f"kernel_shape {windows.kernel} is not that of the weights {weight.shape}")
    held = _weights(weight, bias)
    if len(image) == 3:
        edges = [n for pair in reversed(windows.edges) for n in pair]
        padded = F.pad(value, edges) if any(edges) else value
        return ForeignTensor(F.conv3d(padded, *_numbers(weight, bias), windows.stride, 0, windows.dilation, groups))
    shape = (samples, outputs, *_sizes(image, windows))
    operation = operations.Convolution(value, *held, shape, windows.for_layer(), groups, False)
    return ForeignTensor(value.graph.append(operation))


def _check_bias(bias: ForeignTensor | None, outputs: int) -> None:
    if bias is not None and bias.shape != (outputs,):
        raise Misfit(f"a bias {bias.shape} does not fit {outputs} channels")


@operator(LAYERS, "ConvTranspose")
def conv_transpose(
    call: Call, x: ForeignTensor, weight: ForeignTensor, bias: ForeignTensor | None = None
) -> ForeignTensor:
    value, groups = x.numbers, call.integer("group", 1)
    if weight.rank != x.rank or x.rank < 3:
        raise Misfit(f"weights {weight.shape} do not fit {x.shape}")
    inputs, outputs, *kernel = weight.shape
    samples, channels, *image = value.shape
    if groups < 1 or channels != inputs or channels % groups:
        raise Misfit(f"weights {weight.shape} in {plural(groups, 'group')} do not fit {channels} channels of {x.shape}")
    _check_bias(bias, outputs * groups)
    axes = len(image)
    extra = call.integers("output_padding", [0] * axes)
    windows = _windows(call.without("auto_pad"), image, kernel, most=3)
    if list(windows.kernel) != kernel or len(extra) != axes or min(extra) < 0:
        raise Misfit(f"kernel_shape {windows.kernel} or output_padding {extra} do not fit the weights {weight.shape}")
    whole: list[AnySize] = [
        s * (n - 1) + e + o for n, s, e, o in zip(image, windows.stride, windows.extents, extra, strict=True)
    ]
    edges, sizes = _transposed_edges(call, image, windows, whole)
    whole = [
        m if n < m else n for n, m in zip(whole, sizes, strict=True)
    ]  # zeros behind, if more is asked for than there is
    if not are_at_least(1, sizes) or math.prod(n for n in sizes if isinstance(n, int)) > 2**31:
        raise Misfit(f"it gives {sizes} for {x.shape}")
    # Where BNNS has no such padding, what lies in front and behind is computed and cut away.
    symmetric = all(a == b for a, b in edges)
    shape = (samples, outputs * groups, *(sizes if symmetric else whole))
    window = Windows(
        windows.kernel, windows.stride, windows.dilation, edges if symmetric else ((0, 0),) * axes
    ).for_layer()
    held = _weights(weight, bias)
    if axes == 3:
        volume: Tensor = F.conv_transpose3d(
            value, *_numbers(weight, bias), windows.stride, 0, 0, groups, windows.dilation
        )
        return ForeignTensor(_cut(volume, edges, sizes, whole))
    if groups > 1:
        operation: Any = operations.GroupedTransposedConvolution(value, *held, shape, window, groups)
    else:
        operation = operations.Convolution(value, *held, shape, window, groups, True)
    y: Tensor = value.graph.append(operation)
    return ForeignTensor(y if symmetric else _cut(y, edges, sizes, whole))


def _cut(y: Tensor, edges: Any, sizes: Sequence[AnySize], whole: Sequence[AnySize]) -> Tensor:
    """The part of a result inside its edges; zeros behind it if more is asked for than there is."""
    missing = [int(n - m) for n, m in zip(whole, y.shape[2:], strict=True)]
    if any(n > 0 for n in missing):
        y = F.pad(y, [n for extra in reversed(missing) for n in (0, max(0, extra))])
    keys = [slice(front, front + n) for (front, _), n in zip(edges, sizes, strict=True)]
    cut: Tensor = F.index(y, (slice(None), slice(None), *keys))
    return cut


def _transposed_edges(
    call: Call, image: Sequence[AnySize], windows: Windows, whole: Sequence[AnySize]
) -> tuple[tuple[tuple[int, int], ...], list[AnySize]]:
    """The elements to cut away on both sides, and the sizes that are left."""
    auto = call.text("auto_pad", "NOTSET")
    if call.has("output_shape"):
        asked: Sequence[AnySize] = call.integers("output_shape")
        wanted: list[AnySize] = list(asked[-len(whole) :])
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(image, windows.stride, strict=True)]
    else:
        return windows.edges, [n - sum(edge) for n, edge in zip(whole, windows.edges, strict=True)]
    if len(wanted) != len(whole):
        raise Misfit(f"output_shape {wanted} does not fit {len(whole)} axes")
    edges = []
    for n, m in zip(whole, wanted, strict=True):
        total = int(max(0, n - m))
        half, rest = total // 2, total - total // 2
        edges.append((half, rest) if auto == "SAME_UPPER" else (rest, half))
    return tuple(edges), wanted


# Poolings.


def _pooled(call: Call, x: ForeignTensor) -> tuple[Tensor, Windows, Shape]:
    if x.rank < 3:
        raise Misfit(f"{x.shape} has no channels and pixels")
    image = x.shape[2:]
    windows = _windows(call, image, call.integers("kernel_shape"), most=3)
    return x.numbers, windows, (*x.shape[:2], *_sizes(image, windows, bool(call.integer("ceil_mode", 0))))


Pool = Callable[[Tensor, Windows, Shape], Tensor]
"""A pooling of signals or images."""


def _by_planes(pool: Pool, value: Tensor, windows: Windows, shape: Shape) -> Tensor:
    """A pooling; of volumes, first within their planes, then along what is left, which gives the same."""
    if len(shape) < 5:
        return pool(value, windows, shape)
    samples, channels, depth, *plane = value.shape
    _, _, after, *small = shape
    many, pixels = samples * channels, product(small)
    flat = pool(value.reshape((many, depth, *plane)), windows.along(slice(1, 3)), (many, depth, *small))
    lines = F.transpose(flat.reshape((many, depth, pixels)), 1, 2)
    pooled = pool(lines, windows.along(slice(0, 1)), (many, pixels, after))
    y: Tensor = F.transpose(pooled, 1, 2)
    return y.reshape(shape)


def _fitting(value: Tensor, windows: Windows, shape: Shape, filling: float) -> tuple[Tensor, Windows]:
    """Windows as BNNS has them: padding of less than a window, and none that reaches over the end of what is padded."""
    axes = zip(windows.edges, windows.stride, windows.extents, strict=True)
    if all(2 * max(front, behind + s - 1) <= extent for (front, behind), s, extent in axes):
        return value, windows  # whatever the size of the image is
    needed = _needed(value, windows, shape)
    if all(2 * max(pair) <= extent for pair, extent in zip(needed, windows.extents, strict=True)):
        return value, windows
    pairs = [n for pair in reversed(needed) for n in pair]
    padded = F.pad(value, pairs, value=filling)
    return padded, Windows(windows.kernel, windows.stride, windows.dilation, ((0, 0),) * len(needed))


def _needed(value: Tensor, windows: Windows, shape: Shape) -> tuple[tuple[int, int], ...]:
    """Padding up to the ends of all windows, some of which may hang over."""
    axes = zip(value.shape[2:], shape[2:], windows.extents, windows.stride, windows.edges, strict=True)
    return tuple((front, _behind(n, m, extent, s, front, behind)) for n, m, extent, s, (front, behind) in axes)


def _behind(n: AnySize, m: AnySize, extent: int, s: int, front: int, behind: int) -> int:
    if is_same(m, (n + front + behind - extent) // s + 1):  # as many windows as lie inside
        return behind
    return int(max(behind, (m - 1) * s + extent - n - front))


@operator(LAYERS, "MaxPool", ignores=("storage_order",))
def max_pool(call: Call, x: ForeignTensor) -> Any:
    value, windows, shape = _pooled(call, x)
    if call.outputs > 1:
        return _with_indices(call, x, value, windows, shape)
    return ForeignTensor(_by_planes(_largest, value, windows, shape))


def _largest(value: Tensor, windows: Windows, shape: Shape) -> Tensor:
    value, windows = _fitting(value, windows, shape, -math.inf)
    window = windows.for_layer()
    across, down = window.dilations
    kind = PoolingType.max(x_dilation_stride=across, y_dilation_stride=down)
    return value.graph.append(operations.Pooling(value, kind, shape, window))


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


def _with_indices(call: Call, x: ForeignTensor, value: Tensor, windows: Windows, shape: Shape) -> Any:
    if len(shape) > 4:
        raise Misfit("indices of maxima of volumes have no counterpart here")
    operation = operations.MaxPoolingWithIndices(value, shape, windows.for_layer())
    value.graph.append(operation)
    largest, places = operation.outputs
    image = np.array([0, 0, *map(int, x.shape[2:])])
    return ForeignTensor(largest), by_numpy(call, [ForeignTensor(places, "i"), ForeignTensor(image)], whole_places)[0]


@operator(LAYERS, "AveragePool")
def average_pool(call: Call, x: ForeignTensor) -> ForeignTensor:
    value, windows, shape = _pooled(call, x)
    counts = bool(call.integer("count_include_pad", 0))
    return ForeignTensor(_by_planes(partial(_averaged, counts=counts), value, windows, shape))


def _averaged(value: Tensor, windows: Windows, shape: Shape, counts: bool) -> Tensor:
    dilated = max(windows.dilation) > 1
    factors = None if not counts and not dilated else _factors(value, windows, shape, counts)
    if dilated:
        return _averaged_apart(value, windows, shape, factors)
    fitted, fitting = _fitting(value, windows, shape, 0.0)
    if fitting is not windows and not counts:
        factors, counts = _factors(value, windows, shape, False), True
    kind = PoolingType.average(count_includes_padding=counts)
    return fitted.graph.append(operations.Pooling(fitted, kind, shape, fitting.for_layer(), factors))


def _factors(value: Tensor, windows: Windows, shape: Shape, counts: bool) -> Any:
    """The size of a window over how much of it counts, for every window; None if all of it does everywhere."""
    if counts and _needed(value, windows, shape) == windows.edges:
        return None
    factors: Any = np.ones((), np.float32)
    for n, m, k, s, d, (front, behind) in zip(
        value.shape[2:], shape[2:], windows.kernel, windows.stride, windows.dilation, windows.edges, strict=True
    ):
        n, m = int(n), int(m)
        places = (np.arange(m) * s - front)[:, None] + np.arange(k) * d
        inside = (places >= -front * counts) & (places < n + behind * counts)
        factors = factors[..., None] * (k / np.maximum(1, inside.sum(1))).astype(np.float32)
    return None if (factors == 1).all() else factors


def _averaged_apart(value: Tensor, windows: Windows, shape: Shape, factors: Any) -> Tensor:
    """BNNS has no means of windows with gaps: a convolution of every channel with ones."""
    channels = int(value.shape[1])
    windows = replace(windows, edges=_needed(value, windows, shape))
    ones = np.full((channels, 1, *windows.kernel), 1 / math.prod(windows.kernel), np.float32)
    weight = as_parameter(ones)
    assert weight is not None
    operation = operations.Convolution(value, weight, None, shape, windows.for_layer(), channels, False)
    y: Tensor = value.graph.append(operation)
    return y if factors is None else F.mul(y, factors)


@operator(LAYERS, "LpPool")
def lp_pool(call: Call, x: ForeignTensor) -> ForeignTensor:
    p = call.integer("p", 2)
    if p < 1:
        raise Misfit(f"p={p} has no counterpart here")
    value, windows, shape = _pooled(call, x)
    powers = F.square(value) if p == 2 else F.abs(value) if p == 1 else F.pow(F.abs(value), float(p))
    sums = F.mul(_by_planes(_summed, powers, windows, shape), float(math.prod(windows.kernel)))
    return ForeignTensor(sums if p == 1 else F.sqrt(sums) if p == 2 else F.pow(sums, 1 / p))


def _summed(value: Tensor, windows: Windows, shape: Shape) -> Tensor:
    """Means of windows, where what lies outside counts as zeros."""
    if max(windows.dilation) > 1:
        return _averaged_apart(value, windows, shape, None)
    fitted, fitting = _fitting(value, windows, shape, 0.0)
    kind = PoolingType.average(count_includes_padding=True)
    return fitted.graph.append(operations.Pooling(fitted, kind, shape, fitting.for_layer()))


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
    kernel = call.integers("kernel_shape")
    axes = len(kernel)
    stride, pads = call.integers("strides", [1] * axes), call.integers("pads", [0] * 2 * axes)
    image = [int(n) for n in x.shape[2:]]
    if axes not in (1, 2) or len(image) != axes or len(stride) != axes or len(pads) != 2 * axes:
        raise Misfit(f"windows {kernel} do not fit {x.shape}")
    sizes = [
        s * (n - 1) + k - pads[i] - pads[i + axes]
        for i, (n, k, s) in enumerate(zip(image, kernel, stride, strict=True))
    ]
    given = plain_numbers(output_shape, "output_shape")
    larger = sizes if given is None else given[2:]
    if len(larger) != axes or min(*sizes, *larger) < 1 or not is_same_shape(indices.shape, x.shape):
        raise Misfit(f"output_shape {given} does not fit {x.shape}")
    places = by_numpy(call, [indices, ForeignTensor(np.array([*sizes, *larger]))], plane_places)[0]
    value = x.numbers
    return ForeignTensor(value.graph.append(operations.MaxUnpooling(value, places.value, (*x.shape[:2], *larger))))
