"""Every class and function of the Swift package against the Python classes: the same kernels, so the same bits.

The Python classes have formulas, PyTorch and observed cases behind them; what is tested here is that each label, case and default
of Swift reaches the C library with its meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from openbnns import capi
from swift.swift_tools import PROGRAMS, Module, run

pytest_plugins = ["swift.swift_fixtures"]

Array = Any
KEEP = capi.BNNSFilterParameters(flags=capi.BNNSFlagsUseClientPtr, n_threads=1)
Results = Iterator[tuple[str, Array]]

INEXACT = ("fused.dequantization", "fused.quantization", "dequantize")
"""Results that NumPy computes here, in another order."""


def numbers(seed: int, *shape: int) -> Array:
    """The numbers of programs/support.swift."""
    values, state = np.empty(int(np.prod(shape)), np.float32), seed
    for i in range(values.size):
        state = (state * 1_664_525 + 1_013_904_223) % 2**32
        values[i] = (state >> 8) / 8_388_608 - 1
    return values.reshape(shape)


def activations() -> Results:
    x, dy = numbers(1, 3, 7), numbers(2, 3, 7)
    f = bn.ActivationFunction
    functions = {
        "identity": f.identity(), "rectified_linear": f.rectified_linear(),
        "leaky_rectified_linear": f.leaky_rectified_linear(alpha=0.3), "sigmoid": f.sigmoid(), "log_sigmoid": f.log_sigmoid(),
        "tanh": f.tanh(), "scaled_tanh": f.scaled_tanh(alpha=1.5, beta=0.5), "abs": f.abs(), "linear": f.linear(alpha=2.5),
        "clamp": f.clamp(bounds=(-0.25, 0.5)), "softmax": f.softmax(),
        "gelu_approximation": f.gelu_approximation(alpha=0.8, beta=0.04),
        "gelu_approximation2": f.gelu_approximation2(alpha=1.7, beta=0.1), "hard_sigmoid": f.hard_sigmoid(alpha=0.2, beta=0.5),
        "softplus": f.softplus(alpha=1.2, beta=0.7), "softsign": f.softsign(), "elu": f.elu(alpha=0.9), "selu": f.selu(),
        "celu": f.celu(alpha=1.1),
        "clamped_leaky_rectified_linear": f.clamped_leaky_rectified_linear(alpha=0.1, beta=0.6),
        "linear_with_bias": f.linear_with_bias(alpha=2, beta=0.3), "log_softmax": f.log_softmax(),
        "hard_shrink": f.hard_shrink(alpha=0.4), "soft_shrink": f.soft_shrink(alpha=0.2), "tanh_shrink": f.tanh_shrink(),
        "threshold": f.threshold(alpha=0.1, beta=0.2), "hard_swish": f.hard_swish(alpha=0.15, beta=0.5), "silu": f.silu(),
    }  # fmt: skip
    for name, function in functions.items():
        layer = bn.ActivationLayer(function=function, input=bn.Shape.vector(7))
        y = layer.apply(x)
        yield f"activation.{name}", y
        yield f"activation.{name}.dx", layer.apply_backward(x, y, dy).input
    image = numbers(3, 1, 3, 4, 5)
    for name, axis in (("axes", 1), ("direct_axes", 2)):
        layer = bn.ActivationLayer(function=f.softmax(), axes=[axis], input=bn.Shape.image_chw(5, 4, 3))
        yield f"activation.{name}", layer.apply(image)


def arithmetic() -> Results:
    a, b, c, dy = (numbers(seed, 2, 2, 3, 4) for seed in (4, 5, 6, 7))
    shape = bn.Shape([2, 3, 4])
    for name in ("sin", "square", "exp", "erf"):
        function = bn.ArithmeticUnaryFunction[name.upper()]
        unary = bn.UnaryArithmeticLayer(input=shape, function=function, activation=bn.ActivationFunction.tanh())
        y = unary.apply(a)
        yield f"unary.{name}", y
        yield f"unary.{name}.da", unary.apply_backward(a, y, dy).input
    swift = {"ADD": "add", "SUBTRACT": "subtract", "MULTIPLY": "multiply", "MAX": "max", "MIN": "min",
             "MULTIPLY_NO_NAN": "multiplyNoNaN", "DIVIDE_NO_NAN": "divideNoNaN"}  # fmt: skip
    for member, name in swift.items():
        binary = bn.BinaryArithmeticLayer(input_a=shape, input_b=shape, function=bn.ArithmeticBinaryFunction[member])
        y = binary.apply(a, b)
        gradients = binary.apply_backward(a, b, y, dy)
        yield from (
            (f"binary.{name}", y),
            (f"binary.{name}.da", gradients.input_a),
            (f"binary.{name}.db", gradients.input_b),
        )
    ternary = bn.TernaryArithmeticLayer(
        input_a=shape, input_b=shape, input_c=shape, function=bn.ArithmeticTernaryFunction.MULTIPLY_ADD
    )
    y = ternary.apply(a, b, c)
    thirds = ternary.apply_backward(a, b, c, y, dy)
    yield from (
        ("ternary", y),
        ("ternary.da", thirds.input_a),
        ("ternary.db", thirds.input_b),
        ("ternary.dc", thirds.input_c),
    )


def convolutions() -> Results:
    x, w, b, dy = numbers(8, 3, 4, 6, 7), numbers(9, 6, 2, 2, 3), numbers(10, 6), numbers(11, 3, 6, 6, 3)
    layer = bn.ConvolutionLayer(
        input=bn.Shape.image_chw(7, 6, 4), weights=w, bias=b, stride=(2, 1), group_count=2,
        padding=bn.ConvolutionPadding.asymmetric(left=0, right=1, up=1, down=0), activation=bn.ActivationFunction.sigmoid(),
        filter_parameters=KEEP,
    )  # fmt: skip
    y = layer.apply(x)
    gradients = layer.apply_backward(x, y, dy)
    yield from (("convolution", y), ("convolution.dx", gradients.input), ("convolution.dw", gradients.weights))
    yield from (("convolution.db", gradients.bias), ("convolution.sum", gradients.weights + gradients.weights))
    transposed = bn.ConvolutionLayer(
        type=bn.ConvolutionType.TRANSPOSED,
        input=bn.Shape.image_chw(7, 6, 4),
        weights=numbers(12, 6, 4, 3, 3),
        stride=(2, 2),
    )
    yield "convolution.transposed", transposed.apply(x[:2])


def fully_connected() -> Results:
    x, w, b, dy = numbers(13, 4, 6), numbers(14, 5, 6), numbers(15, 5), numbers(16, 4, 5)
    layer = bn.FullyConnectedLayer(weights=w, bias=b, activation=bn.ActivationFunction.tanh(), filter_parameters=KEEP)
    y = layer.apply(x)
    gradients = layer.apply_backward(x, y, dy)
    yield from (("fully_connected", y), ("fully_connected.dx", gradients.input))
    yield from (("fully_connected.dw", gradients.weights), ("fully_connected.db", gradients.bias))
    for name in ("coo", "csr"):
        yield f"fully_connected.{name}", np.float32([3020, 5])


def fused() -> Results:
    x, w, dy = numbers(17, 4, 3, 5, 6), numbers(18, 4, 3, 3, 3), numbers(22, 4, 4, 5, 6)
    b, beta, gamma = numbers(19, 4), numbers(20, 4), numbers(21, 4)
    for name in ("fused.convolution", "fused.chain"):
        moving = bn.NormalizationType.batch(moving_mean=np.zeros(4, np.float32), moving_variance=np.ones(4, np.float32))
        pair = bn.FusedConvolutionNormalizationLayer(
            input=bn.Shape.image_chw(6, 5, 3), convolution_weights=w, convolution_bias=b, convolution_stride=(1, 1),
            convolution_dilation_stride=(1, 1), convolution_padding=bn.ConvolutionPadding.symmetric(x=1, y=1),
            normalization=moving, normalization_beta=beta, normalization_gamma=gamma, normalization_momentum=0.9,
            normalization_epsilon=1e-4, normalization_activation=bn.ActivationFunction.rectified_linear(),
            filter_parameters=KEEP,
        )  # fmt: skip
        y = pair.apply(x, phase=bn.LearningPhase.TRAINING)
        gradients = pair.apply_backward(input=x, output=y, output_gradient=dy)
        yield f"{name}.dx", gradients.input
        yield from zip(
            (f"{name}.{part}" for part in ("dw", "db", "dbeta", "dgamma")), gradients.parameters, strict=True
        )
        yield name, pair.apply(x, phase=bn.LearningPhase.INFERENCE)
    v, fw = numbers(23, 5, 6), numbers(24, 4, 6)
    dense = bn.FusedFullyConnectedNormalizationLayer(
        fully_connected_weights=fw, normalization=bn.NormalizationType.batch(), normalization_beta=beta,
        normalization_gamma=gamma, normalization_momentum=0, normalization_epsilon=1e-3,
        normalization_activation=bn.ActivationFunction.tanh(), filter_parameters=KEEP,
    )  # fmt: skip
    y = dense.apply(v, phase=bn.LearningPhase.TRAINING)
    gradients = dense.apply_backward(input=v, output=y, output_gradient=numbers(25, 5, 4))
    yield from (("fused.fully_connected", y), ("fused.fully_connected.dx", gradients.input))
    yield "fused.fully_connected.dw", gradients.parameters[0]
    scale, bias = np.float32([40, 50, 60, 70]), np.full(4, 3, np.float32)
    yield "fused.quantization", np.clip(np.rint(scale * (v @ fw.T) + bias), -128, 127)
    whole = [np.trunc(numbers(seed, *shape) * np.float32(50)) for seed, shape in ((26, (5, 6)), (27, (4, 6)))]
    yield "fused.dequantization", whole[0] @ whole[1].T / np.float32(20)
    yield from fused_arithmetic(beta, gamma)


def fused_arithmetic(beta: Array, gamma: Array) -> Results:
    operands, dz = [numbers(seed, 3, 4, 5, 6) for seed in (28, 29, 30)], numbers(31, 3, 4, 5, 6)
    image = bn.Shape.image_chw(6, 5, 4)
    firsts = (
        ("unary", ("input",), bn.FusedUnaryArithmeticParameters(function=bn.ArithmeticUnaryFunction.SQUARE)),
        ("binary", ("input_a", "input_b"), bn.FusedBinaryArithmeticParameters(function=bn.ArithmeticBinaryFunction.MULTIPLY)),
        ("ternary", ("input_a", "input_b", "input_c"),
         bn.FusedTernaryArithmeticParameters(function=bn.ArithmeticTernaryFunction.MULTIPLY_ADD)),
    )  # fmt: skip
    for name, inputs, first in firsts:
        last = bn.FusedNormalizationParameters(
            type=bn.NormalizationType.instance(), beta=beta, gamma=gamma, epsilon=1e-3
        )
        shapes: Any = dict.fromkeys(inputs, image)
        layer = bn.FusedParametersLayer(**shapes, output=image, fused_layer_parameters=[first, last])
        given = operands[: len(inputs)]
        y = layer.apply(*given, phase=bn.LearningPhase.TRAINING)
        gradients = layer.apply_backward(*given, y, dz)
        yield f"fused.{name}", y
        for letter, gradient in zip("abc", gradients[: len(inputs)], strict=False):
            yield f"fused.{name}.d{letter}", gradient
        yield f"fused.{name}.dbeta", gradients.parameters[0]
        yield f"fused.{name}.dgamma", gradients.parameters[1]


def normalization() -> Results:
    x, dy = numbers(32, 3, 6, 4, 5), numbers(33, 3, 6, 4, 5)
    narrow, wide = (numbers(34, 6), numbers(35, 6)), (numbers(36, 6, 4, 5), numbers(37, 6, 4, 5))
    mean, variance = np.zeros(6, np.float32), np.ones(6, np.float32)
    kinds = {
        "batch": (bn.NormalizationType.batch(moving_mean=mean, moving_variance=variance), narrow),
        "instance": (bn.NormalizationType.instance(), narrow),
        "layer": (bn.NormalizationType.layer(normalization_axis=0), wide),
        "group": (bn.NormalizationType.group(group_count=3), narrow),
    }
    for name, (kind, (beta, gamma)) in kinds.items():
        layer = bn.NormalizationLayer(
            type=kind, input=bn.Shape.image_chw(5, 4, 6), beta=beta, gamma=gamma, momentum=0.75, epsilon=1e-3,
            activation=bn.ActivationFunction.tanh(), filter_parameters=KEEP,
        )  # fmt: skip
        y = layer.apply(x, phase=bn.LearningPhase.TRAINING)
        gradients = layer.apply_backward(x, y, dy)
        yield f"normalization.{name}", y
        yield from zip((f"normalization.{name}.{part}" for part in ("dx", "dbeta", "dgamma")), gradients, strict=True)
    yield from (("normalization.mean", mean), ("normalization.variance", variance))


def pooling() -> Results:
    x, dy = numbers(38, 3, 2, 4, 6), numbers(39, 3, 2, 2, 3)
    indices, typed = np.zeros((3, 2, 2, 3), np.uint64), np.zeros((3, 2, 2, 3), np.uint32)
    p = bn.PoolingType
    kinds = {
        "max": p.max(), "max_indices": p.max(indices=indices), "max_ex": p.max_ex(indices_descriptor=typed),
        "average": p.average(count_includes_padding=True), "average_excluding": p.average(count_includes_padding=False),
        "l2_norm": p.l2_norm(),
    }  # fmt: skip
    for name, kind in kinds.items():
        layer = bn.PoolingLayer(type=kind, input=bn.Shape.image_chw(6, 4, 2), kernel_size=(2, 2), stride=(2, 2))
        y = layer.apply(x)
        yield f"pooling.{name}", y
        yield f"pooling.{name}.dx", layer.apply_backward(x, y, dy).input
    yield from (("pooling.indices", indices.astype(np.float32)), ("pooling.typed", typed.astype(np.float32)))
    for name, kind in (("un_max", p.un_max(indices=indices)), ("un_max_ex", p.un_max_ex(indices_descriptor=typed))):
        layer = bn.PoolingLayer(
            type=kind,
            input=bn.Shape.image_chw(3, 2, 2),
            output=bn.Shape.image_chw(6, 4, 2),
            kernel_size=(2, 2),
            stride=(2, 2),
        )
        yield f"pooling.{name}", layer.apply(dy)


def losses() -> Results:
    x = numbers(40, 4, 5)
    labels, positive = (numbers(41, 4, 5) + 1) / 2, (x + np.float32(1.25)) / np.float32(2.5)
    f = bn.LossFunction
    functions = {
        "softmax_cross_entropy": (f.softmax_cross_entropy(label_smoothing=0.1), x),
        "sigmoid_cross_entropy": (f.sigmoid_cross_entropy(label_smoothing=0.2), x), "huber": (f.huber(huber_delta=0.5), x),
        "mean_square_error": (f.mean_square_error(), x), "log": (f.log(), positive), "cosine_distance": (f.cosine_distance(), x),
        "hinge": (f.hinge(), x), "mean_absolute_error": (f.mean_absolute_error(), x),
        "categorical_cross_entropy": (f.categorical_cross_entropy(), positive),
    }  # fmt: skip
    vector, r = bn.Shape.vector(5), bn.LossReduction
    for name, (function, given) in functions.items():
        for word, reduction in (("mean", r.REDUCTION_MEAN), ("sum", r.SUM)):
            layer = bn.LossLayer(input=vector, loss_function=function, loss_reduction=reduction)
            y, dx = layer.apply(given, labels)
            yield from ((f"loss.{name}.{word}", y), (f"loss.{name}.{word}.dx", dx))
    each = np.float32([1, 2, 0.5, 4])
    softmax = bn.LossLayer(
        input=vector, loss_function=f.softmax_cross_entropy(label_smoothing=0), loss_reduction=r.WEIGHTED_MEAN
    )
    square = bn.LossLayer(input=vector, loss_function=f.mean_square_error(), loss_reduction=r.SUM)
    yield "loss.weights.samples", np.concatenate([a.ravel() for a in softmax.apply(x, labels, weights=each)])
    yield (
        "loss.weights.elements",
        np.concatenate([a.ravel() for a in square.apply(x, labels, weights=numbers(42, 4, 5))]),
    )
    one = square.apply(x, labels, weights=each[:1], broadcasts_weights=True)
    yield "loss.weights.one", np.concatenate([a.ravel() for a in one])
    parameters = bn.YoloParameters(
        huber_delta=1, grid_column_count=2, grid_rows_count=2, anchor_box_count=2, anchor_box_size=6, rescore=False,
        xy_scale=1, wh_scale=1, object_scale=1, no_object_scale=0.5, classification_scale=1, object_minimum_iou=0.5,
        no_object_maximum_iou=0.5, anchors_data=np.float32([0.5, 0.5, 1, 1]),
    )  # fmt: skip
    layer = bn.LossLayer(input=bn.Shape.vector(48), loss_function=f.yolo(parameters=parameters), loss_reduction=r.SUM)
    y, dx = layer.apply(numbers(43, 1, 48), (numbers(44, 1, 48) + 1) / 2)
    yield from (("loss.yolo", y), ("loss.yolo.dx", dx))


def other_layers() -> Results:
    words, dictionary = np.int32([[3, 0, 4], [3, 2, 1]]), numbers(45, 5, 4)
    embedding = bn.EmbeddingLayer(
        input=words, dictionary=dictionary, padding_index=2, maximum_norm=0.5, norm_type=bn.Norm.L2,
        scales_gradient_by_frequency=True, filter_parameters=KEEP,
    )  # fmt: skip
    y = embedding.apply(words)
    yield "embedding", y
    yield "embedding.dw", embedding.apply_backward(words, y, numbers(46, 2, 3, 4)).weights
    dropout = bn.DropoutLayer(input=bn.Shape.vector(50), rate=0.5, seed=7, control=0)
    yield "dropout", dropout.apply(numbers(47, 2, 50))
    image = numbers(48, 2, 5, 3, 4)
    gram = bn.GramLayer(input=bn.Shape.image_chw(4, 3, 5), output=bn.Shape.matrix_row_major(5, 5), alpha=0.5)
    y = gram.apply(image)
    yield from (("gram", y), ("gram.dx", gram.apply_backward(image, y, numbers(49, 2, 5, 5)).input))
    plane = numbers(50, 2, 3, 4)
    first = bn.Shape.tensor_3d_first_major(2, 3, 4)
    modes = {"constant": bn.PaddingMode.constant_scalar(1.5), "bits": bn.PaddingMode.constant_bit_pattern(0xC0000000),
             "reflect": bn.PaddingMode.reflect(), "symmetric": bn.PaddingMode.symmetric()}  # fmt: skip
    for name, mode in modes.items():
        padding = bn.PaddingLayer(input=first, mode=mode, size=[(0, 0), (1, 1), (2, 1)])
        yield f"padding.{name}", padding.apply(plane[None])
    permute = bn.PermuteLayer(input=first, permutation=[2, 0, 1])
    yield from (("permute", plane.transpose(2, 0, 1)), ("permute.dx", numbers(51, 4, 2, 3).transpose(1, 2, 0)))
    assert np.array_equal(permute.apply(plane[None])[0], plane.transpose(2, 0, 1))
    methods = {
        "linear": (bn.InterpolationMethod.LINEAR, True),
        "nearest": (bn.InterpolationMethod.NEAREST_NEIGHBOR, False),
    }
    for name, (method, corners) in methods.items():
        resize = bn.ResizeLayer(
            interpolation_method=method, input=bn.Shape.image_chw(4, 3, 5), output=bn.Shape.image_chw(7, 5, 5),
            aligns_corners=corners,
        )  # fmt: skip
        yield f"resize.{name}", resize.apply(image)
    for name in ("max", "min", "mean", "sum", "sum_of_squares", "sum_of_absolutes", "l2_norm", "log_sum_exp", "product",
                 "mean_non_zero"):  # fmt: skip
        function = getattr(bn.ReductionFunction, name)()
        layer = bn.ReductionLayer(function=function, input=first, output=bn.Shape.tensor_3d_first_major(2, 1, 4))
        y = layer.apply(plane[None])
        yield f"reduction.{name}", y
        yield f"reduction.{name}.dx", layer.apply_backward(plane[None], y, numbers(52, 1, 2, 1, 4)).input
    yield from products()
    crop = bn.CropResizeLayer(
        coordinates_are_normalized=True, spatial_scale=0.9, extrapolation_value=7,
        sampling_mode=bn.LinearSamplingMode.UNALIGN_CORNERS, box_coordinate_mode=bn.BoxCoordinateMode.CORNERS_WIDTH_FIRST,
    )  # fmt: skip
    boxes = np.float32([[0, 0.1, 0.8, 0.9], [0.2, 0, 1, 0.7]])
    yield "crop_resize", crop.apply(numbers(56, 1, 2, 6, 5), boxes, output_size=(3, 3))
    yield "crop_resize.dx", crop.apply_backward(boxes, numbers(74, 2, 1, 2, 3, 3), input_size=(6, 5))


def products() -> Results:
    a, b, dy = numbers(53, 2, 3, 4), numbers(54, 2, 5, 4), numbers(55, 2, 3, 5)
    layer = bn.BroadcastMatrixMultiplyLayer(
        input_a=bn.Shape([2, 3, 4]),
        input_b=bn.Shape([2, 5, 4]),
        output=bn.Shape([2, 3, 5]),
        input_b_transposed=True,
        alpha=0.5,
    )
    y = layer.apply(a[None], b[None])
    gradients = layer.apply_backward(a[None], b[None], y, dy[None])
    yield from (("matmul", y), ("matmul.direct", y), ("matmul.da", gradients.input_a), ("matmul.db", gradients.input_b))


def functions() -> Results:
    x, other = numbers(57, 3, 4), numbers(61, 3, 4)
    yield from (("transpose", x.T), ("tile", np.tile(x, (2, 1))), ("tile.dx", x + x), ("band", np.triu(x)), ("copy", x))
    depth = numbers(58, 1, 4, 2, 3)
    yield "shuffle", depth.reshape(2, 2, 1, 2, 3).transpose(2, 3, 0, 4, 1).reshape(1, 1, 4, 6)
    spread = np.zeros((3, 4), np.float32)
    spread[[2, 0]] = x[[2, 0]]
    yield from (("gather", x[[2, 0]]), ("scatter", spread), ("scatter.sum", 1 + spread))
    pairs = np.zeros((3, 4), np.float32)
    pairs[[2, 0], [1, 3]] = x[[2, 0], [1, 3]]
    yield from (("gather_nd", x[[2, 0], [1, 3]]), ("scatter_nd", pairs), ("scatter_nd.sum", pairs))
    v = numbers(59, 3, 6)
    order = np.argsort(-v, axis=1)
    yield "top_k", np.take_along_axis(v, order[:, :2], 1)
    yield "top_k.indices", order[:, :2].astype(np.float32)
    yield "in_top_k", np.float32([row in ranking[:3] for row, ranking in enumerate(order)])
    quantized = np.clip(np.rint(np.float32(90) * v + np.float32(5)), -128, 127)
    yield from (("quantize", quantized), ("dequantize", (quantized - np.float32(5)) / np.float32(90)))
    yield "quantize.axis", np.clip(np.rint(np.float32([10, 20, 30, 40, 50, 60]) * v), -128, 127)
    norm = bn.compute_norm(x, axes=[1])
    yield "norm", norm
    yield "norm.dx", bn.compute_norm_backward(x, norm, axes=[1], output_gradient=numbers(60, 3))
    yield from (("compare", (x >= other).astype(np.float32)), ("clip", np.clip(x, -0.25, 0.5)))
    yield "clip_by_norm", bn.clip_by_norm(0.5, x)
    yield "clip_by_global_norm", np.concatenate([a.ravel() for a in bn.clip_by_global_norm(1, [x, other])])


def optimizers() -> Results:
    clip, r, v = bn.GradientClipping, bn.RegularizationFunction, bn.SGDMomentumVariant
    made = {
        "adam.bounds": bn.AdamOptimizer(
            learning_rate=0.1, beta1=0.8, beta2=0.9, time_step=1, epsilon=1e-6, gradient_scale=2, regularization_scale=0.1,
            clips_gradients_to=(-0.5, 0.25), regularization_function=r.L2,
        ),
        "adam.norm": bn.AdamOptimizer(time_step=2, gradient_clipping=clip.by_norm(threshold=0.5), uses_ams_grad=True),
        "adamw": bn.AdamWOptimizer(
            learning_rate=0.1, weight_decay=0.2, gradient_clipping=clip.by_global_norm(threshold=0.5)
        ),
        "rmsprop": bn.RMSPropOptimizer(learning_rate=0.1, alpha=0.9, epsilon=1e-6, centered=True, momentum=0.5),
        "rmsprop.value": bn.RMSPropOptimizer(
            regularization_scale=0.1, gradient_clipping=clip.by_value(bounds=(-0.1, 0.1)), regularization_function=r.L2
        ),
        "sgd": bn.SGDMomentumOptimizer(
            learning_rate=0.1, momentum=0.9, uses_nesterov_momentum=True, sgd_momentum_variant=v.VARIANT_1
        ),
        "sgd.plain": bn.SGDMomentumOptimizer(
            learning_rate=0.1, regularization_scale=0.5, gradient_clipping=clip.none(), regularization_function=r.L2
        ),
    }  # fmt: skip
    for name, optimizer in made.items():
        parameters, gradients = [numbers(62, 5), numbers(63, 3, 2)], [numbers(64, 5), numbers(65, 3, 2)]
        accumulators = optimizer.zero_accumulators(parameters)
        for _ in range(3):
            optimizer.step(parameters, gradients, accumulators)
        yield f"optimizer.{name}", np.concatenate([p.ravel() for p in parameters])


def random_numbers_and_neighbors() -> Results:
    generator = bn.RandomGenerator(seed=11)
    yield "random.uniform", generator.fill_uniform(np.empty(18, np.float32), (-2, 3))
    yield "random.normal", generator.fill_normal(np.empty(9, np.float32), 1, 0.5)
    yield "random.integers", generator.fill_uniform_integers(np.empty(9, np.int32), (-5, 5)).astype(np.float32)
    neighbors = bn.NearestNeighbors(10, 2, 3)
    neighbors.append(numbers(66, 8, 2))
    near = neighbors.apply(5)
    yield from (("neighbors", near.indices.astype(np.float32)), ("neighbors.distances", near.distances))
    yield "neighbors.all", neighbors.apply().indices.astype(np.float32)


def first_generation() -> Results:
    convolution = bn.ConvolutionLayer(
        input=bn.Shape.image_chw(8, 7, 2), weights=numbers(68, 4, 2, 3, 3), bias=numbers(69, 4),
        activation=bn.ActivationFunction.rectified_linear(),
    )  # fmt: skip
    yield "first_generation.convolution", convolution.apply(numbers(70, 1, 2, 7, 8))
    fully_connected = bn.FullyConnectedLayer(weights=numbers(71, 4, 6))
    yield "first_generation.fully_connected", fully_connected.apply(numbers(72, 1, 6))
    pooling = bn.PoolingLayer(
        type=bn.PoolingType.max(), input=bn.Shape.image_chw(8, 6, 2), kernel_size=(2, 2), stride=(2, 2)
    )
    yield "first_generation.pooling", pooling.apply(numbers(73, 1, 2, 6, 8))


FAMILIES = (
    activations, arithmetic, convolutions, fully_connected, fused, normalization, pooling, losses, other_layers, functions,
    optimizers, random_numbers_and_neighbors, first_generation,
)  # fmt: skip


@pytest.fixture(scope="module")
def printed(module: Module) -> dict[str, Array]:
    """The output of the Swift program, by name; a test takes what it knows."""
    sources = (PROGRAMS / "support.swift", PROGRAMS / "classes.swift")
    program = module.compile(*sources, name="classes", options=("-parse-as-library",))
    lines = run(program, cwd=module.folder, OPENBNNS_NUM_THREADS="1").stdout.splitlines()
    return {line.split()[0]: np.array(line.split()[1:], np.uint32).view(np.float32) for line in lines}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_classes_compute_what_python_computes(family: Any, printed: dict[str, Array]) -> None:
    tested = 0
    for name, expected in family():
        ours = np.asarray(expected, np.float32).ravel()
        actual = printed[name]
        assert actual.shape == ours.shape, name
        assert np.count_nonzero(actual) > 0, name
        if name in INEXACT:
            assert np.allclose(actual, ours, rtol=1e-5, atol=1e-5), (name, actual, ours)
        else:
            assert np.array_equal(actual, ours, equal_nan=True), (name, actual, ours)
        tested += 1
    assert tested >= 3


def test_everything_printed_is_expected(printed: dict[str, Array]) -> None:
    expected = {name for family in FAMILIES for name, _ in family()}
    assert set(printed) - expected == set()
