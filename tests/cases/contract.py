"""Small filters of every family and kind of call, for test_contract.py; a family may keep its own beside its cases."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import openbnns as ob
from openbnns import ActivationFunction as AF
from openbnns import Shape, capi
from openbnns._words import Caller
from openbnns.filters.quantization import Quantization
from trials import CropTrial, LstmTrial

from . import MODULES, lstm
from ._base import Row
from ._base import created as made

Array = np.ndarray[Any, Any]


def numbers(*shape: int) -> Array:
    return np.random.default_rng(math.prod(shape)).standard_normal(shape).astype(np.float32) / 2


def positive(*shape: int) -> Array:
    return 0.5 + np.abs(numbers(*shape))


PLAIN = Shape.image_chw(5, 3, 4)
SAMPLE, PARAMETER, CONSTANT = ob.DescriptorType.SAMPLE, ob.DescriptorType.PARAMETER, ob.DescriptorType.CONSTANT

# Layers with weights.

WEIGHTED = [
    Row("fully_connected-tanh", lambda: ob.FullyConnectedLayer(weights=numbers(13, 17), bias=numbers(13), activation=AF.tanh())),
    Row("fully_connected-softmax", lambda: ob.FullyConnectedLayer(weights=numbers(5, 7), activation=AF.softmax())),
    Row("convolution", lambda: ob.ConvolutionLayer(
        input=Shape.image_chw(9, 7, 4), weights=numbers(6, 2, 3, 3), bias=numbers(6), group_count=2, stride=(2, 1),
        padding=ob.ConvolutionPadding.symmetric(x=1, y=0), activation=AF.sigmoid())),
    Row("convolution-depthwise", lambda: ob.ConvolutionLayer(
        input=Shape.image_chw(9, 7, 4), weights=numbers(4, 1, 3, 3), group_count=4)),
    Row("transposed_convolution", lambda: ob.ConvolutionLayer(
        type=ob.ConvolutionType.TRANSPOSED, input=PLAIN, weights=numbers(3, 4, 2, 3), bias=numbers(3), stride=(2, 1))),
]  # fmt: skip

# Activations and arithmetic.

ELEMENTWISE = [
    Row("activation-leaky", lambda: ob.ActivationLayer(function=AF.leaky_rectified_linear(alpha=0.2), input=Shape.vector(17))),
    Row("activation-prelu", lambda: ob.ActivationLayer(function=AF.prelu_per_channel(alpha=0.3), input=PLAIN)),
    Row("activation-softmax", lambda: ob.ActivationLayer(function=AF.softmax(), input=Shape.vector(17))),
    Row("activation-gelu", lambda: ob.ActivationLayer(function=AF.gelu(), input=Shape.vector(17))),
    Row("activation-tanh", lambda: ob.ActivationLayer(function=AF.tanh(), input=PLAIN)),
    Row("arithmetic-square_root", lambda: ob.UnaryArithmeticLayer(
        input=Shape.vector(17), function=ob.ArithmeticUnaryFunction.SQUARE_ROOT)),
    Row("arithmetic-sin-sigmoid", lambda: ob.UnaryArithmeticLayer(
        input=Shape.vector(17), function=ob.ArithmeticUnaryFunction.SIN, activation=AF.sigmoid())),
    Row("arithmetic-add", lambda: ob.BinaryArithmeticLayer(
        input_a=Shape.vector(17), input_b=Shape.vector(17), function=ob.ArithmeticBinaryFunction.ADD)),
    Row("arithmetic-multiply", lambda: ob.BinaryArithmeticLayer(
        input_a=Shape([4, 5]), input_b=Shape([1, 5]), input_b_descriptor_type=PARAMETER,
        function=ob.ArithmeticBinaryFunction.MULTIPLY, activation=AF.tanh())),
    Row("arithmetic-multiply_add", lambda: ob.TernaryArithmeticLayer(
        input_a=Shape.vector(17), input_b=Shape.vector(17), input_b_descriptor_type=CONSTANT, input_c=Shape.vector(17),
        function=ob.ArithmeticTernaryFunction.MULTIPLY_ADD)),
    Row("arithmetic-select", lambda: ob.TernaryArithmeticLayer(
        input_a=Shape.vector(17), input_b=Shape.vector(17), input_c=Shape.vector(17),
        function=ob.ArithmeticTernaryFunction.SELECT)),
]  # fmt: skip

# Pooling, with indices of every type.


def pooling(kind: ob.PoolingType, **options: Any) -> ob.PoolingLayer:
    return ob.PoolingLayer(
        type=kind, input=Shape.image_chw(9, 7, 4), kernel_size=3, stride=2, bias=numbers(4), activation=AF.tanh(),
        **options,
    )  # fmt: skip


def unpooling() -> ob.PoolingLayer:
    indices = np.zeros((3, 4, 3, 5), np.uint64)
    return ob.PoolingLayer(
        type=ob.PoolingType.un_max(indices=indices),
        input=Shape.image_chw(5, 3, 4),
        kernel_size=2,
        stride=2,
        bias=numbers(4),
    )


def with_indices(choice: Any) -> Any:
    return ("apply_pooling", choice), ("apply_backward_pooling", choice)


INDEX_TYPES = {"size_t": None, "uint32": capi.BNNSDataTypeUInt32, "uint64": capi.BNNSDataTypeUInt64}
POOLING = [
    Row("pooling-max", lambda: pooling(ob.PoolingType.max())),
    Row("pooling-average", lambda: pooling(ob.PoolingType.average(count_includes_padding=False),
                                           padding=ob.ConvolutionPadding.symmetric(x=1, y=1))),
    Row("pooling-l2_norm", lambda: pooling(ob.PoolingType.l2_norm())),
    *(Row(f"pooling-max-{name}", lambda: pooling(ob.PoolingType.max()), with_indices(t)) for name, t in INDEX_TYPES.items()),
    *(Row(f"pooling-un_max-{name}", unpooling, with_indices(t)) for name, t in INDEX_TYPES.items()),
]  # fmt: skip

# Normalizations and fused chains, in both modes.

NORMALIZATIONS: dict[str, Callable[[], ob.NormalizationType]] = {
    "batch": lambda: ob.NormalizationType.batch(moving_mean=numbers(4), moving_variance=positive(4)),
    "instance": lambda: ob.NormalizationType.instance(moving_mean=numbers(4), moving_variance=positive(4)),
    "layer": lambda: ob.NormalizationType.layer(normalization_axis=0),
    "group": lambda: ob.NormalizationType.group(group_count=2),
}


def affine(kind: str, shape: Shape) -> dict[str, Any]:
    size = tuple(shape.size[::-1]) if kind == "layer" else (4,)
    return {"beta": numbers(*size), "gamma": positive(*size), "momentum": 0.9, "epsilon": 1e-2}


def normalization(kind: str, activation: AF) -> ob.NormalizationLayer:
    return ob.NormalizationLayer(
        type=NORMALIZATIONS[kind](), input=PLAIN, output=PLAIN, activation=activation, **affine(kind, PLAIN)
    )


def normalized(kind: str, shape: Shape) -> ob.FusedNormalizationParameters:
    return ob.FusedNormalizationParameters(type=NORMALIZATIONS[kind](), activation=AF.tanh(), **affine(kind, shape))


def fused_fully_connected() -> ob.FusedParametersLayer:
    first = ob.FusedFullyConnectedParameters(weights=numbers(4, 7), bias=numbers(4))
    last = normalized("batch", Shape.vector(4))
    return ob.FusedParametersLayer(input=Shape.vector(7), output=Shape.vector(4), fused_layer_parameters=[first, last])


def fused_convolution() -> ob.FusedParametersLayer:
    first = ob.FusedConvolutionParameters(
        type=ob.ConvolutionType.STANDARD, weights=numbers(4, 3, 3, 3), bias=numbers(4), stride=(1, 1),
        dilation_stride=(1, 1), group_size=1, padding=ob.ConvolutionPadding.symmetric(x=1, y=1),
    )  # fmt: skip
    chain = [first, normalized("group", PLAIN)]
    return ob.FusedParametersLayer(input=Shape.image_chw(5, 3, 3), output=PLAIN, fused_layer_parameters=chain)


FUSED_ARITHMETIC: dict[int, tuple[Any, Any]] = {
    1: (ob.FusedUnaryArithmeticParameters, ob.ArithmeticUnaryFunction.SQUARE_ROOT),
    2: (ob.FusedBinaryArithmeticParameters, ob.ArithmeticBinaryFunction.MULTIPLY),
    3: (ob.FusedTernaryArithmeticParameters, ob.ArithmeticTernaryFunction.MULTIPLY_ADD),
}


def fused_arithmetic(count: int) -> ob.FusedParametersLayer:
    make, function = FUSED_ARITHMETIC[count]
    inputs = ["input"] if count == 1 else [f"input_{letter}" for letter in "abc"[:count]]
    types = {f"{name}_descriptor_type": SAMPLE for name in inputs}
    first = make(**types, output_descriptor_type=SAMPLE, function=function)
    chain = [first, normalized(("layer", "batch", "instance")[count - 1], PLAIN)]
    return ob.FusedParametersLayer(**dict.fromkeys(inputs, PLAIN), output=PLAIN, fused_layer_parameters=chain)


def quantizer(to: Any, data: Any = None) -> capi.BNNSLayerParametersQuantization:
    x, y = Shape.vector(7).descriptor(), Shape.vector(7).descriptor()
    y.data_type = to
    return capi.BNNSLayerParametersQuantization(
        i_desc=x, o_desc=y, function=capi.BNNSQuantizerFunctionQuantize, axis_mask=1,
        scale=Shape.vector(7).descriptor(data=20 * positive(7)), bias=Shape.vector(7).descriptor(data=numbers(7)),
    )  # fmt: skip


def fused_quantization() -> Any:
    first = capi.BNNSLayerParametersFullyConnected(
        i_desc=Shape.vector(5).descriptor(), o_desc=Shape.vector(7).descriptor(),
        w_desc=Shape.matrix_row_major(5, 7).descriptor(data=numbers(7, 5)),
    )  # fmt: skip
    return made(
        capi.BNNSFilterCreateFusedLayer(
            2, [capi.BNNSFullyConnected, capi.BNNSQuantization], [first, quantizer(capi.BNNSDataTypeInt8)]
        )
    )


def inferring(kind: str, *count: int) -> Any:
    return (kind, (*count, False) if count else False), None


STATISTICS = [
    *(Row(f"normalization-{kind}", partial(normalization, kind, AF.tanh()), couples_samples=True) for kind in NORMALIZATIONS),
    Row("normalization-plain", partial(normalization, "batch", AF.identity()), couples_samples=True),
    *(Row(f"normalization-{kind}-inference", partial(normalization, kind, AF.tanh()), inferring("apply_normalization"))
      for kind in NORMALIZATIONS),
    Row("fused-fully_connected", fused_fully_connected, couples_samples=True),
    Row("fused-fully_connected-inference", fused_fully_connected, inferring("apply_fused")),
    Row("fused-convolution", fused_convolution, couples_samples=True),
    Row("fused-one-single", partial(fused_arithmetic, 1), (("apply_fused", True), ("apply_backward_fused", None)),
        couples_samples=True),
    *(Row(f"fused-arithmetic-{n}", partial(fused_arithmetic, n), couples_samples=True) for n in (1, 2, 3)),
    *(Row(f"fused-arithmetic-{n}-inference", partial(fused_arithmetic, n), inferring("apply_fused_multi_input", n))
      for n in (1, 2, 3)),
    Row("fused-quantization", fused_quantization),
    Row("quantization", lambda: Quantization(quantizer(capi.BNNSDataTypeInt8), None, Caller("quantization"))),
]  # fmt: skip

# Losses: every function, reduced and not.

YOLO = ob.YoloParameters(
    grid_column_count=2, grid_rows_count=2, anchor_box_count=2, anchor_box_size=7, anchors_data=positive(4), huber_delta=0.9,
    rescore=False, xy_scale=1.1, wh_scale=0.7, object_scale=1.3, no_object_scale=0.4, classification_scale=0.8,
    object_minimum_iou=0.6, no_object_maximum_iou=0.3,
)  # fmt: skip
LOSSES = {
    "softmax_cross_entropy": ob.LossFunction.softmax_cross_entropy(label_smoothing=0.1),
    "sigmoid_cross_entropy": ob.LossFunction.sigmoid_cross_entropy(label_smoothing=0.1),
    "mean_square_error": ob.LossFunction.mean_square_error(),
    "mean_absolute_error": ob.LossFunction.mean_absolute_error(),
    "huber": ob.LossFunction.huber(huber_delta=0.7),
    "log": ob.LossFunction.log(),
    "cosine_distance": ob.LossFunction.cosine_distance(),
    "hinge": ob.LossFunction.hinge(),
    "categorical_cross_entropy": ob.LossFunction.categorical_cross_entropy(),
}


def loss(function: ob.LossFunction, reduction: ob.LossReduction, size: int = 7) -> ob.LossLayer:
    return ob.LossLayer(input=Shape.vector(size), loss_function=function, loss_reduction=reduction)


MEAN, EACH, SUM = ob.LossReduction.REDUCTION_MEAN, ob.LossReduction.NONE, ob.LossReduction.SUM
LOSS = [
    *(Row(f"loss-{name}-mean", partial(loss, f, MEAN), couples_samples=True) for name, f in LOSSES.items()),
    *(Row(f"loss-{name}-each", partial(loss, f, EACH)) for name, f in LOSSES.items()),
    Row("loss-yolo", lambda: loss(ob.LossFunction.yolo(YOLO), SUM, 56), couples_samples=True),
]

# Products, and layers that move or reduce numbers.


def contraction(operation: str, a: tuple[int, ...], b: tuple[int, ...], y: tuple[int, ...], **options: Any) -> Any:
    shapes = {"input_a": a, "input_b": b, "output": y}
    return ob.TensorContractionLayer(
        operation=operation, **{name: np.zeros(s, np.float32) for name, s in shapes.items()}, alpha=1.3, **options
    )


def weighted_product() -> Any:
    """x times weights that the filter holds, and to which gradients belong."""
    x, w, y = (Shape.matrix_row_major(*size) for size in ((7, 3), (5, 7), (5, 3)))
    return made(capi.BNNSFilterCreateLayerBroadcastMatMul(capi.BNNSLayerParametersBroadcastMatMul(
        alpha=0.7, iA_desc=x.descriptor(), iB_desc=w.descriptor(data=numbers(7, 5)), o_desc=y.descriptor(), b_is_weights=True,
    )))  # fmt: skip


PRODUCTS = [
    Row("matmul-weights", weighted_product),
    Row("matmul", lambda: ob.BroadcastMatrixMultiplyLayer(
        input_a=Shape.matrix_row_major(7, 3), input_b=Shape.matrix_row_major(5, 7), output=Shape.matrix_row_major(5, 3),
        alpha=0.7)),
    Row("contraction", lambda: contraction("a_ik, b_jk -> c_ij", (3, 7), (5, 7), (3, 5))),
    Row("gram", lambda: ob.GramLayer(input=PLAIN, output=Shape.matrix_row_major(4, 4), alpha=0.5)),
]  # fmt: skip

MOVES = [
    *(Row(f"padding-{m.case}", partial(ob.PaddingLayer, input=PLAIN, mode=m, size=[(1, 2), (2, 0), (0, 1)]))
      for m in (ob.PaddingMode.constant_scalar(value=0.5), ob.PaddingMode.reflect(), ob.PaddingMode.symmetric())),
    *(Row(f"resize-{m.name.lower()}", partial(ob.ResizeLayer, interpolation_method=m, input=PLAIN,
                                              output=Shape.image_chw(8, 7, 4)))
      for m in ob.InterpolationMethod),
    Row("dropout", lambda: ob.DropoutLayer(input=Shape.vector(33), rate=0.4, seed=7), couples_samples=True, draws=True),
    Row("embedding", lambda: ob.EmbeddingLayer(input=Shape.vector(7), dictionary=numbers(9, 5))),
]  # fmt: skip

REDUCTION = ob.ReductionFunction
REDUCTIONS = [
    *(Row(f"reduction-{f.case}", partial(ob.ReductionLayer, function=f, input=Shape([3, 5, 7]),
                                         output=Shape([3, 1, 1])))
      for f in (REDUCTION.sum(), REDUCTION.mean(), REDUCTION.max(), REDUCTION.min(), REDUCTION.l2_norm(),
                REDUCTION.log_sum_exp(), REDUCTION.product(), REDUCTION.sum_of_squares(), REDUCTION.sum_of_absolutes())),
    *(Row(f"reduction-{f.case}-weighted", partial(ob.ReductionLayer, function=f, weights=positive(5, 7),
                                                  input=Shape([5, 7]), output=Shape([5, 1])))
      for f in (REDUCTION.sum(), REDUCTION.mean())),
]  # fmt: skip

# Sequences.


def attention(**options: Any) -> ob.MultiheadAttentionLayer:
    return ob.MultiheadAttentionLayer(6, 2, seed=1, **options)


UNCACHED = ("apply_attention", None), ("apply_backward_attention", False)
SEQUENCES = [
    Row("attention", attention),
    Row("attention-rows", lambda: attention(add_bias_kv=True, add_zero_attn=True)),
    Row("attention-uncached", attention, UNCACHED),
    Row("attention-dropout", lambda: attention(dropout=0.3), draws=True, couples_samples=True),
    Row("lstm", lambda: LstmTrial(lstm.LstmCase("contract", 3, 2, 4, 5))),
    Row("lstm-deep", lambda: LstmTrial(lstm.LstmCase("contract-deep", 3, 2, 4, 5, layers=2, directions=2))),
    Row("crop_resize", lambda: CropTrial(
        sampling_mode=capi.BNNSLinearSamplingAlignCorners, box_coordinate_mode=capi.BNNSCornersWidthFirst)),
]  # fmt: skip

ROWS = [*WEIGHTED, *ELEMENTWISE, *POOLING, *STATISTICS, *LOSS, *PRODUCTS, *MOVES, *REDUCTIONS, *SEQUENCES]
ROWS += [row for module in MODULES for row in getattr(module, "ROWS", ())]
