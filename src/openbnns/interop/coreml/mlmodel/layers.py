"""Layers of Core ML as layers of networks, each with its weights and the shape of its result."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....graph import functions as F
from ....graph.operations import Window
from ....graph.tensor import Array, Tensor
from ....nn.activation import ELU, Hardsigmoid, LeakyReLU, PReLU, ReLU, Sigmoid, Softmax, Softplus, Softsign, Tanh
from ....nn.containers import Sequential
from ....nn.convolution import Conv2d, ConvTranspose2d
from ....nn.layers import Flatten, Linear
from ....nn.module import Module
from ....nn.normalization import BatchNorm1d, BatchNorm2d, InstanceNorm2d
from ....nn.padding import ConstantPad2d, ReflectionPad2d, ReplicationPad2d
from ....nn.pooling import AdaptiveAvgPool2d, AdaptiveMaxPool2d, AvgPool2d, MaxPool2d
from ....nn.resize import Upsample
from ...protobuf import Message
from .branched_network import Affine, Step
from .refusal import Refused
from .weights import numbers_of as _weights

Shape = tuple[int, ...]


def _pair(message: Message, number: int, default: int) -> tuple[int, int]:
    given = message.integers(number) or [default, default]
    if len(given) != 2 or min(given) < 1 or max(given) > 2**20:
        raise message.damage(f"field {number} holds {given}, but two sizes are needed")
    return given[0], given[1]


def _image(message: Message, shape: Shape) -> Shape:
    if len(shape) != 3:
        raise message.damage(f"it takes images, but its input is {shape}")
    return shape


def _borders(message: Message, number: int) -> list[tuple[int, int]]:
    """Rows in front and behind, then columns."""
    edges = [(e.integer(1), e.integer(2)) for e in message.message(number).messages(10, "an edge")]
    edges = edges or [(0, 0), (0, 0)]
    if len(edges) != 2 or max(max(pair) for pair in edges) > 2**16:
        raise message.damage(f"its padding is {edges}")
    return edges


def _window(m: Message, first: int, size: Sequence[int], kernel: Any, stride: Any, dilation: Any = 1) -> Window:
    """The windows of a layer; the number of its valid padding is followed by that of "same"."""
    same = m.has(first + 1)
    word = "same_lower" if same and m.message(first + 1).integer(1) == 1 else "same"
    padding: Any = word if same else tuple(_borders(m.message(first), 1))
    return Window.of("the layer", kernel, stride, padding, dilation, image=size)


def _behind_padding(step: Step, edges: Any, module: Module, value: float = 0.0) -> None:
    """A layer after a padding that it does not support itself."""
    (up, down), (left, right) = edges
    if any(map(any, edges)):
        step.module = Sequential(OrderedDict(pad=ConstantPad2d((left, right, up, down), value), layer=module))
        step.weights = {f"layer.{name}": array for name, array in step.weights.items()}
    else:
        step.module = module


def _convolution(step: Step, m: Message, shapes: list[Shape]) -> Shape:
    channels, *size = _image(m, shapes[0])
    outputs, each, groups = m.integer(1), m.integer(2), m.integer(10, 1) or 1
    kernel, stride, dilation = _pair(m, 20, 3), _pair(m, 30, 1), _pair(m, 40, 1)
    transposed, biased = bool(m.integer(60)), bool(m.integer(70))
    if (
        not 0 < outputs < 2**20
        or not 0 < each < 2**20
        or groups > 2**20
        or each * (1 if transposed else groups) != channels
    ):
        raise m.damage(f"its sizes do not fit an input of {channels} channels")
    options: dict[str, Any] = {"stride": stride, "dilation": dilation, "groups": groups, "bias": biased}
    shape = (channels, outputs // groups, *kernel) if transposed else (outputs, each, *kernel)
    step.weights = {"weight": _weights(m, 90, shape)}
    if biased:
        step.weights["bias"] = _weights(m, 91, (outputs,))
    window = _window(m, 50, size, kernel, stride, dilation)
    edges = window.edges
    if transposed:
        if m.has(51) or m.has(100) or any(a != b for a, b in edges):
            raise Refused("a deconvolution with other than equal padding is not supported.")
        padding = tuple(a for a, _ in edges)
        step.module = ConvTranspose2d(channels, outputs, kernel, padding=padding, **options)
        return (outputs, *map(int, window.spread(size, (0, 0))))
    if all(a == b for a, b in edges):
        step.module = Conv2d(channels, outputs, kernel, padding=tuple(a for a, _ in edges), **options)
    else:
        _behind_padding(step, edges, Conv2d(channels, outputs, kernel, **options))
    return (outputs, *map(int, window.counts(size)))


def _pooling(step: Step, m: Message, shapes: list[Shape]) -> Shape:
    channels, *size = _image(m, shapes[0])
    kind = m.integer(1)
    if kind not in (0, 1):
        raise Refused("pooling by other than maxima and means is not supported.")
    if m.integer(60):
        step.module = AdaptiveMaxPool2d(1) if kind == 0 else AdaptiveAvgPool2d(1)
        return (channels, 1, 1)
    kernel, stride = _pair(m, 10, 3), _pair(m, 20, 1)
    if m.has(32):
        raise Refused("pooling that includes the last pixel is not supported.")
    window = _window(m, 30, size, kernel, stride)
    edges = window.edges
    even = all(a == b and a <= k // 2 for (a, b), k in zip(edges, kernel, strict=True))
    padding = tuple(a for a, _ in edges)
    if kind == 0:
        if even:
            step.module = MaxPool2d(kernel, stride, padding)
        else:
            _behind_padding(step, edges, MaxPool2d(kernel, stride), -math.inf)
    elif even:
        step.module = AvgPool2d(kernel, stride, padding, count_include_pad=not m.integer(50))
    elif m.integer(50):
        raise Refused("means over windows that differ in size, at one side only, are not supported.")
    else:
        _behind_padding(step, edges, AvgPool2d(kernel, stride))
    return (channels, *map(int, window.counts(size)))


def _activation(step: Step, m: Message, shapes: list[Shape]) -> Shape:
    number = next(iter(m.fields), 0)
    p = m.message(number)
    simple: dict[int, Callable[[], Module]] = {
        10: ReLU, 30: Tanh, 40: Sigmoid, 60: Softsign, 70: Softplus,
        15: lambda: LeakyReLU(p.number(1)), 50: lambda: ELU(p.number(1)),
    }  # fmt: skip
    if number in simple:
        step.module = simple[number]()
    elif number == 5:
        alpha, beta = p.number(1), p.number(2)
        step.function = lambda x: x * alpha + beta
    elif number == 31:
        alpha, beta = p.number(1), p.number(2)
        step.function = lambda x: F.tanh(x * beta) * alpha
    elif number == 41 and abs(p.number(1) - 1 / 6) < 1e-6 and p.number(2) == 0.5:
        step.module = Hardsigmoid()
    elif number == 25:
        slopes = p.message(1).floats(1)
        channels = shapes[0][0]
        if slopes.size not in (1, channels):
            raise m.damage(f"there are {slopes.size} slopes for {channels} channels")
        step.module, step.weights = PReLU(int(slopes.size)), {"weight": slopes}
    else:
        raise Refused(f"the activation with number {number} is not supported.")
    return shapes[0]


def _inner_product(step: Step, m: Message, shapes: list[Shape]) -> Shape:
    inputs, outputs, biased = m.integer(1), m.integer(2), bool(m.integer(10))
    if math.prod(shapes[0]) != inputs or not 0 < outputs < 2**31:
        raise m.damage(f"it has {inputs} inputs, but its input is {shapes[0]}")
    step.weights = {"weight": _weights(m, 20, (outputs, inputs))}
    if biased:
        step.weights["bias"] = _weights(m, 21, (outputs,))
    linear = Linear(inputs, outputs, bias=biased)
    step.module = linear
    if len(shapes[0]) > 1:
        step.module = Sequential(OrderedDict(flat=Flatten(), layer=linear))
        step.weights = {f"layer.{name}": array for name, array in step.weights.items()}
    return (outputs,)


def _batchnorm(step: Step, m: Message, shapes: list[Shape]) -> Shape:
    channels, epsilon = m.integer(1), m.number(10) or 1e-5
    if channels != shapes[0][0]:
        raise m.damage(f"it has {channels} channels, but its input is {shapes[0]}")
    step.weights = {
        "weight": _weights(m, 15, (channels,)) if m.has(15) else np.ones(channels, np.float32),
        "bias": _weights(m, 16, (channels,)) if m.has(16) else np.zeros(channels, np.float32),
    }
    if m.integer(5) or m.integer(6):
        if not m.integer(6) or len(shapes[0]) != 3:
            raise Refused("normalization by the statistics of a batch is not supported.")
        step.module = InstanceNorm2d(channels, eps=epsilon, affine=True)
        return shapes[0]
    step.weights |= {"running_mean": _weights(m, 17, (channels,)), "running_var": _weights(m, 18, (channels,))}
    step.module = (BatchNorm2d if len(shapes[0]) == 3 else BatchNorm1d)(channels, eps=epsilon)
    return shapes[0]


def _softmax(step: Step, m: Message, shapes: list[Shape]) -> Shape:
    step.module = Softmax(1)
    return shapes[0]


def _flatten(step: Step, m: Message, shapes: list[Shape]) -> Shape:
    if m.integer(1) == 1 and len(shapes[0]) == 3:
        step.function = lambda x: F.flatten(F.permute(x, 0, 2, 3, 1), 1)
    else:
        step.module = Flatten()
    return (math.prod(shapes[0]),)


def _elementwise(function: Callable[[Tensor, Tensor], Tensor], number: Callable[[Tensor, float], Tensor] | None) -> Any:
    def convert(step: Step, m: Message, shapes: list[Shape]) -> Shape:
        if len(shapes) == 1 and number is not None:
            alpha, one = m.number(1), number
            step.function = lambda x: one(x, alpha)
            return shapes[0]
        if len(shapes) < 2 or any(shape != shapes[0] for shape in shapes):
            raise Refused(f"its inputs are {', '.join(map(str, shapes))}; only equal ones are supported.")

        def run(*values: Tensor) -> Tensor:
            y = values[0]
            for value in values[1:]:
                y = function(y, value)
            return y

        step.function = run
        return shapes[0]

    return convert


def _average(step: Step, m: Message, shapes: list[Shape]) -> Shape:
    if any(shape != shapes[0] for shape in shapes):
        raise Refused("its inputs differ in shape.")
    step.function = lambda *values: sum(values[1:], values[0]) * (1 / len(values))
    return shapes[0]


def _concat(step: Step, m: Message, shapes: list[Shape]) -> Shape:
    if m.integer(100) or any(shape[1:] != shapes[0][1:] for shape in shapes):
        raise Refused("joining along other axes than that of channels is not supported.")
    step.function = lambda *values: F.cat(list(values), 1)
    return (sum(shape[0] for shape in shapes), *shapes[0][1:])


def _affine_numbers(m: Message, shape_number: int, number: int, shape: Shape) -> Array:
    sizes = tuple(n for n in m.integers(shape_number)) or (1,)
    array = _weights(m, number, sizes)
    if sizes not in ((1,), (shape[0],), (shape[0], 1, 1), shape, (1, 1, 1)):
        raise m.damage(f"its numbers are {sizes}, but its input is {shape}")
    if len(shape) == 3:
        return array.reshape(sizes if len(sizes) == 3 else (-1, 1, 1))
    return array.reshape(-1)


def _scale(step: Step, m: Message, shapes: list[Shape]) -> Shape:
    bias = _affine_numbers(m, 4, 5, shapes[0]) if m.integer(3) else None
    step.module = Affine(_affine_numbers(m, 1, 2, shapes[0]), bias)
    return shapes[0]


def _bias(step: Step, m: Message, shapes: list[Shape]) -> Shape:
    step.module = Affine(None, _affine_numbers(m, 1, 2, shapes[0]))
    return shapes[0]


def _pad(step: Step, m: Message, shapes: list[Shape]) -> Shape:
    channels, *size = _image(m, shapes[0])
    (up, down), (left, right) = _borders(m, 10)
    edges = (left, right, up, down)
    if m.has(2):
        step.module = ReflectionPad2d(edges)
    elif m.has(3):
        step.module = ReplicationPad2d(edges)
    else:
        step.module = ConstantPad2d(edges, m.message(1).number(1))
    return (channels, size[0] + up + down, size[1] + left + right)


def _upsample(step: Step, m: Message, shapes: list[Shape]) -> Shape:
    channels, *size = _image(m, shapes[0])
    times = _pair(m, 1, 1)
    if m.integer(5) or m.has(7):
        raise Refused("enlarging by other than repeated pixels is not supported.")
    step.module = Upsample(scale_factor=times, mode="nearest")
    return (channels, size[0] * times[0], size[1] * times[1])


CONVERT: dict[str, Callable[[Step, Message, list[Shape]], Shape]] = {
    "convolution": _convolution, "pooling": _pooling, "activation": _activation, "innerProduct": _inner_product,
    "batchnorm": _batchnorm, "softmax": _softmax, "flatten": _flatten, "concat": _concat, "scale": _scale, "bias": _bias,
    "padding": _pad, "upsample": _upsample, "average": _average,
    "add": _elementwise(lambda a, b: a + b, lambda x, alpha: x + alpha),
    "multiply": _elementwise(lambda a, b: a * b, lambda x, alpha: x * alpha),
    "max": _elementwise(F.maximum, None), "min": _elementwise(F.minimum, None),
}  # fmt: skip
