"""Random layers of every trainable family, for ``openbnns check``."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .layers import (
    ActivationLayer,
    BinaryArithmeticLayer,
    ConvolutionLayer,
    FullyConnectedLayer,
    LossLayer,
    PoolingLayer,
)
from .layers.types import (
    ActivationFunction,
    ArithmeticBinaryFunction,
    ConvolutionPadding,
    ConvolutionType,
    DescriptorType,
    LossFunction,
    LossReduction,
    PoolingType,
    Shape,
)

Random = np.random.Generator


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
    from .gradient_check import gradcheck

    random = np.random.default_rng([seed, zlib.crc32(family.encode())])
    gradients, error, message = 0, 0.0, ""
    for _ in range(cases):
        layer = FAMILIES[family](random)
        report = gradcheck(layer, seed=int(random.integers(2**31)), verbose=False)
        gradients += len({row.name for row in report.rows})
        error = max([error, *(row.relative_error for row in report.rows)])
        failed = [row.name for row in report.rows if not row.passed]
        if failed and not message:
            message = f"{layer!r}: gradient of {failed[0]}"
    return Outcome(gradients, error, message)


def _numbers(random: Random, *shape: int) -> Any:
    return random.standard_normal(shape).astype(np.float32)


def _size(random: Random, low: int = 1, high: int = 9) -> int:
    return int(random.integers(low, high + 1))


def _activation(random: Random) -> ActivationFunction:
    choices = [
        ActivationFunction.identity(), ActivationFunction.rectified_linear(), ActivationFunction.tanh(),
        ActivationFunction.sigmoid(), ActivationFunction.leaky_rectified_linear(alpha=0.1),
        ActivationFunction.elu(alpha=0.7), ActivationFunction.softplus(),
    ]  # fmt: skip
    return choices[int(random.integers(len(choices)))]


def fully_connected(random: Random) -> FullyConnectedLayer:
    inputs, outputs = _size(random, 1, 17), _size(random, 1, 17)
    bias = _numbers(random, outputs) if random.integers(2) else None
    return FullyConnectedLayer(weights=_numbers(random, outputs, inputs), bias=bias, activation=_activation(random))


def convolution(random: Random) -> ConvolutionLayer:
    groups = _size(random, 1, 2)
    channels, outputs = groups * _size(random, 1, 3), groups * _size(random, 1, 3)
    kernel = _size(random, 1, 3), _size(random, 1, 3)
    return ConvolutionLayer(
        input=Shape.image_chw(_size(random, 5, 9), _size(random, 5, 9), channels),
        weights=_numbers(random, outputs, channels // groups, *kernel),
        bias=_numbers(random, outputs) if random.integers(2) else None,
        padding=ConvolutionPadding.symmetric(x=_size(random, 0, 2), y=_size(random, 0, 2)),
        stride=(_size(random, 1, 2), _size(random, 1, 2)),
        dilation_stride=(_size(random, 1, 2), _size(random, 1, 2)),
        group_count=groups,
        activation=_activation(random),
    )


def transposed_convolution(random: Random) -> ConvolutionLayer:
    channels, outputs = _size(random, 1, 3), _size(random, 1, 3)
    return ConvolutionLayer(
        type=ConvolutionType.TRANSPOSED,
        input=Shape.image_chw(_size(random, 3, 6), _size(random, 3, 6), channels),
        weights=_numbers(random, channels, outputs, _size(random, 2, 4), _size(random, 2, 4)),
        bias=_numbers(random, outputs),
        stride=(_size(random, 1, 2), _size(random, 1, 2)),
        activation=_activation(random),
    )


def activation(random: Random) -> ActivationLayer:
    choices = [
        ActivationFunction.gelu(), ActivationFunction.silu(), ActivationFunction.softmax(), ActivationFunction.log_softmax(),
        ActivationFunction.hard_swish(), ActivationFunction.erf(), ActivationFunction.abs(), ActivationFunction.selu(),
        ActivationFunction.softsign(), ActivationFunction.tanh_shrink(), ActivationFunction.scaled_tanh(alpha=1.3, beta=0.6),
    ]  # fmt: skip
    function = choices[int(random.integers(len(choices)))]
    return ActivationLayer(function=function, input=Shape.vector(_size(random, 2, 33)))


def arithmetic(random: Random) -> BinaryArithmeticLayer:
    function = [
        ArithmeticBinaryFunction.ADD, ArithmeticBinaryFunction.SUBTRACT, ArithmeticBinaryFunction.MULTIPLY,
        ArithmeticBinaryFunction.MAX,
    ][int(random.integers(4))]  # fmt: skip
    shape = Shape.vector(_size(random, 1, 33))
    return BinaryArithmeticLayer(
        input_a=shape, input_a_descriptor_type=DescriptorType.SAMPLE, input_b=shape,
        input_b_descriptor_type=DescriptorType.SAMPLE, output=shape, output_descriptor_type=DescriptorType.SAMPLE,
        function=function,
    )  # fmt: skip


def pooling(random: Random) -> PoolingLayer:
    kinds = [
        PoolingType.max(),
        PoolingType.average(),
        PoolingType.average(count_includes_padding=False),
        PoolingType.l2_norm(),
    ]
    kind = kinds[int(random.integers(len(kinds)))]
    kernel = _size(random, 1, 3), _size(random, 1, 3)
    return PoolingLayer(
        type=kind,
        input=Shape.image_chw(_size(random, 4, 9), _size(random, 4, 9), _size(random, 1, 4)),
        kernel_size=kernel,
        stride=(_size(random, 1, 3), _size(random, 1, 3)),
        padding=ConvolutionPadding.symmetric(x=kernel[0] // 2, y=kernel[1] // 2),
    )


def loss(random: Random) -> LossLayer:
    functions = [
        LossFunction.softmax_cross_entropy(label_smoothing=0.1), LossFunction.sigmoid_cross_entropy(),
        LossFunction.mean_square_error(), LossFunction.huber(huber_delta=0.7), LossFunction.mean_absolute_error(),
        LossFunction.hinge(), LossFunction.log(),
    ]  # fmt: skip
    return LossLayer(
        input=Shape.vector(_size(random, 2, 17)),
        loss_function=functions[int(random.integers(len(functions)))],
        loss_reduction=LossReduction.REDUCTION_MEAN,
    )


FAMILIES: dict[str, Callable[[Random], Any]] = {
    "fully_connected": fully_connected,
    "convolution": convolution,
    "transposed_convolution": transposed_convolution,
    "activation": activation,
    "arithmetic": arithmetic,
    "pooling": pooling,
    "loss": loss,
}
