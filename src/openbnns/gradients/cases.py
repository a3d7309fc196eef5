"""Random layers of every trainable family, for ``openbnns check``."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..layers import (
    ActivationLayer,
    BinaryArithmeticLayer,
    BroadcastMatrixMultiplyLayer,
    ConvolutionLayer,
    DropoutLayer,
    EmbeddingLayer,
    FullyConnectedLayer,
    FusedBinaryArithmeticParameters,
    FusedConvolutionParameters,
    FusedFullyConnectedParameters,
    FusedNormalizationParameters,
    FusedParametersLayer,
    GramLayer,
    LossLayer,
    LSTMLayer,
    MultiheadAttentionLayer,
    NormalizationLayer,
    PaddingLayer,
    PermuteLayer,
    PoolingLayer,
    ReductionLayer,
    ResizeLayer,
    TensorContractionLayer,
)
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
    from .check import gradcheck

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
        weights=_numbers(random, outputs, channels, _size(random, 2, 4), _size(random, 2, 4)),
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


def _image(random: Random, channels: int) -> Shape:
    return Shape.image_chw(_size(random, 2, 6), _size(random, 2, 6), channels)


def _normalization_type(random: Random) -> NormalizationType:
    """For images of four channels."""
    kinds = [
        NormalizationType.batch(), NormalizationType.instance(), NormalizationType.layer(normalization_axis=0),
        NormalizationType.group(group_count=2),
    ]  # fmt: skip
    return kinds[int(random.integers(len(kinds)))]


def _affine(random: Random, kind: NormalizationType, shape: Shape) -> dict[str, Any]:
    size = (4,) if kind.case != "layer" else tuple(shape.size[::-1])
    return {"beta": _numbers(random, *size), "gamma": _numbers(random, *size)}


def normalization(random: Random) -> NormalizationLayer:
    kind, shape = _normalization_type(random), _image(random, 4)
    return NormalizationLayer(
        type=kind, input=shape, output=shape, **_affine(random, kind, shape), momentum=0.9, epsilon=1e-3,
        activation=_activation(random),
    )  # fmt: skip


def fused(random: Random) -> FusedParametersLayer:
    """A convolution, a fully connected layer or an addition, then a normalization."""
    which = int(random.integers(3))
    if which == 0:
        inputs = _size(random, 2, 9)
        norm = FusedNormalizationParameters(
            type=NormalizationType.batch(), beta=_numbers(random, 4), gamma=_numbers(random, 4), momentum=0.9,
            epsilon=1e-3, activation=_activation(random),
        )  # fmt: skip
        first = FusedFullyConnectedParameters(weights=_numbers(random, 4, inputs), bias=_numbers(random, 4))
        return FusedParametersLayer(
            input=Shape.vector(inputs), output=Shape.vector(4), fused_layer_parameters=[first, norm]
        )
    kind, shape = _normalization_type(random), _image(random, 4)
    norm = FusedNormalizationParameters(
        type=kind, **_affine(random, kind, shape), momentum=0.9, epsilon=1e-3, activation=_activation(random)
    )
    if which == 1:
        sample = DescriptorType.SAMPLE
        add = FusedBinaryArithmeticParameters(
            input_a_descriptor_type=sample, input_b_descriptor_type=sample, output_descriptor_type=sample,
            function=ArithmeticBinaryFunction.ADD,
        )  # fmt: skip
        return FusedParametersLayer(input_a=shape, input_b=shape, output=shape, fused_layer_parameters=[add, norm])
    first_layer = FusedConvolutionParameters(
        type=ConvolutionType.STANDARD, weights=_numbers(random, 4, 3, 3, 3), bias=_numbers(random, 4), stride=(1, 1),
        dilation_stride=(1, 1), group_size=1, padding=ConvolutionPadding.symmetric(x=1, y=1),
    )  # fmt: skip
    width, height, _ = shape.size
    return FusedParametersLayer(
        input=Shape.image_chw(width, height, 3), output=shape, fused_layer_parameters=[first_layer, norm]
    )


def dropout(random: Random) -> DropoutLayer:
    return DropoutLayer(input=Shape.vector(_size(random, 3, 33)), rate=0.4, seed=_size(random, 1, 1000))


def embedding(random: Random) -> EmbeddingLayer:
    entries = _size(random, 2, 9)
    return EmbeddingLayer(input=Shape.vector(_size(random, 1, 7)), dictionary=_numbers(random, entries, _size(random)))


def matmul(random: Random) -> BroadcastMatrixMultiplyLayer:
    rows, inner, columns = _size(random), _size(random), _size(random)
    return BroadcastMatrixMultiplyLayer(
        input_a=Shape.matrix_row_major(inner, rows), input_b=Shape.matrix_row_major(columns, inner),
        output=Shape.matrix_row_major(columns, rows), alpha=0.7,
    )  # fmt: skip


def contraction(random: Random) -> TensorContractionLayer:
    i, j, k = _size(random), _size(random), _size(random)
    return TensorContractionLayer(
        operation="a_ik, b_jk -> c_ij", input_a=np.zeros((i, k), np.float32), input_b=np.zeros((j, k), np.float32),
        output=np.zeros((i, j), np.float32), alpha=1.3,
    )  # fmt: skip


def gram(random: Random) -> GramLayer:
    channels = _size(random, 1, 5)
    return GramLayer(input=_image(random, channels), output=Shape.matrix_row_major(channels, channels), alpha=0.5)


def attention(random: Random) -> MultiheadAttentionLayer:
    heads = _size(random, 1, 3)
    return MultiheadAttentionLayer(
        heads * _size(random, 1, 4), heads, bias=bool(random.integers(2)), add_bias_kv=bool(random.integers(2)),
        add_zero_attn=bool(random.integers(2)), dropout=0.2, seed=_size(random, 1, 1000),
    )  # fmt: skip


def lstm(random: Random) -> LSTMLayer:
    hidden, inputs, directions = _size(random, 1, 5), _size(random, 1, 5), _size(random, 1, 2)
    return LSTMLayer(
        input_weights=_numbers(random, 4, directions, hidden, inputs),
        hidden_weights=_numbers(random, 4, 1, directions, hidden, hidden),
        bias=_numbers(random, 4, 1, directions, hidden),
    )


def permute(random: Random) -> PermuteLayer:
    order = [int(axis) for axis in random.permutation(3)]
    shape = [_size(random) for _ in range(3)]
    return PermuteLayer(
        input=np.zeros(shape, np.float32),
        output=np.zeros([shape[axis] for axis in order], np.float32),
        permutation=order,
    )


def padding(random: Random) -> PaddingLayer:
    mode = [PaddingMode.constant_scalar(value=0.5), PaddingMode.reflect(), PaddingMode.symmetric()][
        int(random.integers(3))
    ]
    shape, size = (
        [_size(random, 3, 6) for _ in range(2)],
        [(_size(random, 0, 2), _size(random, 0, 2)) for _ in range(2)],
    )
    padded = [n + before + after for n, (before, after) in zip(shape, size, strict=True)]
    return PaddingLayer(input=Shape(shape), output=Shape(padded), mode=mode, size=size)


def resize(random: Random) -> ResizeLayer:
    width, height, channels = _size(random, 2, 5), _size(random, 2, 5), _size(random, 1, 3)
    methods = [InterpolationMethod.NEAREST_NEIGHBOR, InterpolationMethod.LINEAR]
    return ResizeLayer(
        interpolation_method=methods[int(random.integers(2))], input=Shape.image_chw(width, height, channels),
        output=Shape.image_chw(2 * width, 2 * height, channels), aligns_corners=bool(random.integers(2)),
    )  # fmt: skip


def reduction(random: Random) -> ReductionLayer:
    function = ReductionFunction
    weighted = [function.sum(), function.mean(), function.sum_of_squares(), function.sum_of_absolutes()]
    alone = [function.max(), function.min(), function.l2_norm(), function.log_sum_exp(), function.product()]
    kind = (weighted + alone)[int(random.integers(9))]
    shape = [_size(random, 2, 5) for _ in range(3)]
    reduced = [1 if random.integers(2) or axis == 0 else n for axis, n in enumerate(shape)]
    weights = _numbers(random, *shape) if kind in weighted and random.integers(2) else None
    return ReductionLayer(
        function=kind, input=np.zeros(shape, np.float32), output=np.zeros(reduced, np.float32), weights=weights
    )


FAMILIES: dict[str, Callable[[Random], Any]] = {
    "fully_connected": fully_connected,
    "convolution": convolution,
    "transposed_convolution": transposed_convolution,
    "activation": activation,
    "arithmetic": arithmetic,
    "pooling": pooling,
    "normalization": normalization,
    "fused": fused,
    "loss": loss,
    "dropout": dropout,
    "embedding": embedding,
    "matmul": matmul,
    "contraction": contraction,
    "gram": gram,
    "attention": attention,
    "lstm": lstm,
    "permute": permute,
    "padding": padding,
    "resize": resize,
    "reduction": reduction,
}
