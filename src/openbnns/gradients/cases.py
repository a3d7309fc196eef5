"""Random layers of every trainable family, for ``openbnns check``."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from .. import layers
from ..layers.types import (
    ActivationFunction,
    ArithmeticBinaryFunction,
    ConvolutionPadding,
    ConvolutionType,
    DescriptorType,
    InterpolationMethod,
    LossFunction,
    LossReduction,
    NormalizationType,
    PaddingMode,
    PoolingType,
    ReductionFunction,
    Shape,
)

_Choice = TypeVar("_Choice")
SAMPLE = DescriptorType.SAMPLE


@dataclass(frozen=True)
class Outcome:
    """Of all cases of a family: how many gradients, the largest relative error, and the first failure."""

    gradients: int
    error: float
    message: str = ""

    @property
    def passed(self) -> bool:
        return not self.message


def run(family: str, cases: int, seed: int) -> Outcome:
    """Check ``cases`` random layers of a family."""
    from .check import gradcheck

    random = Random(seed, family)
    gradients, error, message = 0, 0.0, ""
    for _ in range(cases):
        layer = FAMILIES[family](random)
        report = gradcheck(layer, seed=random.size(0, 2**31 - 1), verbose=False)
        gradients += len({row.name for row in report.rows})
        error = max([error, *(row.relative_error for row in report.rows)])
        failed = [row.name for row in report.rows if not row.passed]
        if failed and not message:
            message = f"{layer!r}: gradient of {failed[0]}"
    return Outcome(gradients, error, message)


class Random:
    """Sizes, numbers and choices, the same for the same seed and family."""

    def __init__(self, seed: int, family: str) -> None:
        self._generator = np.random.default_rng([seed, zlib.crc32(family.encode())])

    def size(self, low: int = 1, high: int = 9) -> int:
        return int(self._generator.integers(low, high + 1))

    def sizes(self, low: int, high: int) -> tuple[int, int]:
        return self.size(low, high), self.size(low, high)

    def numbers(self, *shape: int) -> Any:
        return self._generator.standard_normal(shape).astype(np.float32)

    def one_of(self, *choices: _Choice) -> _Choice:
        return choices[self.size(0, len(choices) - 1)]

    def coin(self) -> bool:
        return self.one_of(False, True)

    def permutation(self, count: int) -> list[int]:
        return [int(axis) for axis in self._generator.permutation(count)]

    def image(self, channels: int) -> Shape:
        return Shape.image_chw(*self.sizes(2, 6), channels)

    def activation(self) -> ActivationFunction:
        """One that may be fused into a layer that trains."""
        f = ActivationFunction
        return self.one_of(
            f.identity(), f.rectified_linear(), f.tanh(), f.sigmoid(), f.leaky_rectified_linear(alpha=0.1), f.elu(alpha=0.7),
            f.softplus(),
        )  # fmt: skip

    def normalization(self, shape: Shape) -> dict[str, Any]:
        """Arguments of a normalization of images with four channels."""
        n = NormalizationType
        kind = self.one_of(n.batch(), n.instance(), n.layer(normalization_axis=0), n.group(group_count=2))
        size = (4,) if kind.case != "layer" else tuple(shape.size[::-1])
        return self.affine(kind, size)

    def affine(self, kind: NormalizationType, size: tuple[int, ...]) -> dict[str, Any]:
        return {
            "type": kind, "beta": self.numbers(*size), "gamma": self.numbers(*size), "momentum": 0.9, "epsilon": 1e-3,
            "activation": self.activation(),
        }  # fmt: skip


def fully_connected(random: Random) -> Any:
    inputs, outputs = random.sizes(1, 17)
    bias = random.numbers(outputs) if random.coin() else None
    weights = random.numbers(outputs, inputs)
    return layers.FullyConnectedLayer(weights=weights, bias=bias, activation=random.activation())


def convolution(random: Random) -> Any:
    groups = random.size(1, 2)
    channels, outputs = (groups * n for n in random.sizes(1, 3))
    return layers.ConvolutionLayer(
        input=Shape.image_chw(*random.sizes(5, 9), channels),
        weights=random.numbers(outputs, channels // groups, *random.sizes(1, 3)),
        bias=random.numbers(outputs) if random.coin() else None,
        padding=ConvolutionPadding.symmetric(*random.sizes(0, 2)),
        stride=random.sizes(1, 2),
        dilation_stride=random.sizes(1, 2),
        group_count=groups,
        activation=random.activation(),
    )


def transposed_convolution(random: Random) -> Any:
    channels, outputs = random.sizes(1, 3)
    return layers.ConvolutionLayer(
        type=ConvolutionType.TRANSPOSED,
        input=Shape.image_chw(*random.sizes(3, 6), channels),
        weights=random.numbers(outputs, channels, *random.sizes(2, 4)),
        bias=random.numbers(outputs),
        stride=random.sizes(1, 2),
        activation=random.activation(),
    )


def activation(random: Random) -> Any:
    f = ActivationFunction
    function = random.one_of(
        f.gelu(), f.silu(), f.softmax(), f.log_softmax(), f.hard_swish(), f.erf(), f.abs(), f.selu(), f.softsign(),
        f.tanh_shrink(), f.scaled_tanh(alpha=1.3, beta=0.6),
    )  # fmt: skip
    return layers.ActivationLayer(function=function, input=Shape.vector(random.size(2, 33)))


def arithmetic(random: Random) -> Any:
    f, shape = ArithmeticBinaryFunction, Shape.vector(random.size(1, 33))
    return layers.BinaryArithmeticLayer(
        input_a=shape, input_a_descriptor_type=SAMPLE, input_b=shape, input_b_descriptor_type=SAMPLE, output=shape,
        output_descriptor_type=SAMPLE, function=random.one_of(f.ADD, f.SUBTRACT, f.MULTIPLY, f.MAX),
    )  # fmt: skip


def pooling(random: Random) -> Any:
    p, kernel = PoolingType, random.sizes(1, 3)
    return layers.PoolingLayer(
        type=random.one_of(p.max(), p.average(), p.average(count_includes_padding=False), p.l2_norm()),
        input=Shape.image_chw(*random.sizes(4, 9), random.size(1, 4)),
        kernel_size=kernel,
        stride=random.sizes(1, 3),
        padding=ConvolutionPadding.symmetric(x=kernel[0] // 2, y=kernel[1] // 2),
    )


def normalization(random: Random) -> Any:
    shape = random.image(4)
    return layers.NormalizationLayer(input=shape, output=shape, **random.normalization(shape))


def fused(random: Random) -> Any:
    """A convolution, a fully connected layer or an addition, then a normalization."""
    which, inputs = random.size(0, 2), random.size(2, 9)
    if which == 0:
        fc = layers.FusedFullyConnectedParameters(weights=random.numbers(4, inputs), bias=random.numbers(4))
        norm = layers.FusedNormalizationParameters(**random.affine(NormalizationType.batch(), (4,)))
        return layers.FusedParametersLayer(
            input=Shape.vector(inputs), output=Shape.vector(4), fused_layer_parameters=[fc, norm]
        )
    shape = random.image(4)
    norm = layers.FusedNormalizationParameters(**random.normalization(shape))
    if which == 1:
        add = layers.FusedBinaryArithmeticParameters(
            input_a_descriptor_type=SAMPLE, input_b_descriptor_type=SAMPLE, output_descriptor_type=SAMPLE,
            function=ArithmeticBinaryFunction.ADD,
        )  # fmt: skip
        chain = [add, norm]
        return layers.FusedParametersLayer(input_a=shape, input_b=shape, output=shape, fused_layer_parameters=chain)
    first = layers.FusedConvolutionParameters(
        type=ConvolutionType.STANDARD, weights=random.numbers(4, 3, 3, 3), bias=random.numbers(4), stride=(1, 1),
        dilation_stride=(1, 1), group_size=1, padding=ConvolutionPadding.symmetric(x=1, y=1),
    )  # fmt: skip
    source = Shape.image_chw(shape.size[0], shape.size[1], 3)
    return layers.FusedParametersLayer(input=source, output=shape, fused_layer_parameters=[first, norm])


def loss(random: Random) -> Any:
    f = LossFunction
    function = random.one_of(
        f.softmax_cross_entropy(label_smoothing=0.1), f.sigmoid_cross_entropy(), f.mean_square_error(),
        f.huber(huber_delta=0.7), f.mean_absolute_error(), f.hinge(), f.log(),
    )  # fmt: skip
    shape = Shape.vector(random.size(2, 17))
    return layers.LossLayer(input=shape, loss_function=function, loss_reduction=LossReduction.REDUCTION_MEAN)


def dropout(random: Random) -> Any:
    return layers.DropoutLayer(input=Shape.vector(random.size(3, 33)), rate=0.4, seed=random.size(1, 1000))


def embedding(random: Random) -> Any:
    return layers.EmbeddingLayer(
        input=Shape.vector(random.size(1, 7)), dictionary=random.numbers(random.size(2, 9), random.size())
    )


def matmul(random: Random) -> Any:
    (rows, inner), columns = random.sizes(1, 9), random.size()
    return layers.BroadcastMatrixMultiplyLayer(
        input_a=Shape.matrix_row_major(inner, rows), input_b=Shape.matrix_row_major(columns, inner),
        output=Shape.matrix_row_major(columns, rows), alpha=0.7,
    )  # fmt: skip


def contraction(random: Random) -> Any:
    (i, j), k = random.sizes(1, 9), random.size()
    shapes = {"input_a": (i, k), "input_b": (j, k), "output": (i, j)}
    arrays: dict[str, Any] = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    return layers.TensorContractionLayer(operation="a_ik, b_jk -> c_ij", alpha=1.3, **arrays)


def gram(random: Random) -> Any:
    channels = random.size(1, 5)
    output = Shape.matrix_row_major(channels, channels)
    return layers.GramLayer(input=random.image(channels), output=output, alpha=0.5)


def attention(random: Random) -> Any:
    heads = random.size(1, 3)
    return layers.MultiheadAttentionLayer(
        heads * random.size(1, 4), heads, bias=random.coin(), add_bias_kv=random.coin(), add_zero_attn=random.coin(),
        dropout=0.2, seed=random.size(1, 1000),
    )  # fmt: skip


def lstm(random: Random) -> Any:
    (hidden, inputs), directions = random.sizes(1, 5), random.size(1, 2)
    return layers.LSTMLayer(
        input_weights=random.numbers(4, directions, hidden, inputs),
        hidden_weights=random.numbers(4, 1, directions, hidden, hidden),
        bias=random.numbers(4, 1, directions, hidden),
    )


def permute(random: Random) -> Any:
    order, shape = random.permutation(3), [random.size() for _ in range(3)]
    output = Shape([shape[axis] for axis in order])
    return layers.PermuteLayer(input=Shape(shape), output=output, permutation=order)


def padding(random: Random) -> Any:
    m, shape, size = PaddingMode, random.sizes(3, 6), [random.sizes(0, 2), random.sizes(0, 2)]
    padded = [n + before + after for n, (before, after) in zip(shape, size, strict=True)]
    mode = random.one_of(m.constant_scalar(value=0.5), m.reflect(), m.symmetric())
    return layers.PaddingLayer(input=Shape(shape), output=Shape(padded), mode=mode, size=size)


def resize(random: Random) -> Any:
    (width, height), channels = random.sizes(2, 5), random.size(1, 3)
    return layers.ResizeLayer(
        interpolation_method=random.one_of(InterpolationMethod.NEAREST_NEIGHBOR, InterpolationMethod.LINEAR),
        input=Shape.image_chw(width, height, channels), output=Shape.image_chw(2 * width, 2 * height, channels),
        aligns_corners=random.coin(),
    )  # fmt: skip


def reduction(random: Random) -> Any:
    f = ReductionFunction
    weighted = [f.sum(), f.mean(), f.sum_of_squares(), f.sum_of_absolutes()]
    function = random.one_of(*weighted, f.max(), f.min(), f.l2_norm(), f.log_sum_exp(), f.product())
    shape = [random.size(2, 5) for _ in range(3)]
    reduced = [1 if axis == 0 or random.coin() else n for axis, n in enumerate(shape)]
    weights = random.numbers(*shape) if function in weighted and random.coin() else None
    return layers.ReductionLayer(function=function, input=Shape(shape), output=Shape(reduced), weights=weights)


FAMILIES: dict[str, Callable[[Random], Any]] = {
    make.__name__: make
    for make in (
        fully_connected, convolution, transposed_convolution, activation, arithmetic, pooling, normalization, fused, loss,
        dropout, embedding, matmul, contraction, gram, attention, lstm, permute, padding, resize, reduction,
    )
}  # fmt: skip
"""A layer of each family, by its name."""
