"""Layers with weights, normalizations and poolings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import ConvolutionType
from ....graph.operations import (
    Convolution,
    Dropout,
    Embedding,
    GroupedTransposedConvolution,
    Linear,
    Normalization,
    NormalizedOperation,
    Pooling,
)
from ....graph.sizes import AnySize, is_same, product
from ....graph.tensor import Tensor
from .elementwise import activated
from .program_builder import ProgramBuilder, Refused, Value, rank_of, writes


def _finished(b: ProgramBuilder, op: NormalizedOperation, y: Value) -> None:
    """Set the output of an operation with weights, after its normalization, activation and pooling."""
    if op.normalization is not None:
        y = _normalized(b, op.normalization, y)
    _activated(b, op, y)


def _activated(b: ProgramBuilder, op: NormalizedOperation, y: Value) -> None:
    y = activated(b, y, op.activation)
    if op.pooling is not None:
        y = _pooled(b, op.pooling.pooling, y)
    b.set(op.output, y)


@writes(Linear)
def _linear(b: ProgramBuilder, op: Linear) -> None:
    x, weight = b.computed(op.inputs[0]), b.weight(op.weight)
    options = {} if op.bias is None else {"bias": b.weight(op.bias)}
    if x.rank <= 3:
        _finished(b, op, b("linear", x=x, weight=weight, **options))
        return
    rows = b("linear", x=b("reshape", x=x, shape=[-1, op.weight.shape[1]]), weight=weight, **options)
    _finished(b, op, b.reshaped(rows, op.output.shape))


def _edges(padding: Any, axes: int) -> list[int]:
    """Padding as Core ML has it: before and behind each axis, from the first to the last."""
    fields = padding.bnns_fields
    left, right, up, down = fields["pad"]
    if not any(fields["pad"]):
        left = right = fields["x_padding"]
        up = down = fields["y_padding"]
    return [up, down, left, right] if axes == 2 else [left, right]


def _held(b: ProgramBuilder, weight: Any) -> Value:
    """Weights of a convolution, which may be computed."""
    return b.get(weight) if isinstance(weight, Tensor) else b.weight(weight)


def _per_axis(pair: tuple[int, int], axes: int) -> list[int]:
    """From (x, y)."""
    return [pair[1], pair[0]] if axes == 2 else [pair[0]]


@writes(Convolution)
def _convolution(b: ProgramBuilder, op: Convolution) -> None:
    axes = op.inputs[0].ndim - 2
    if op.type is not ConvolutionType.STANDARD:
        result = op.output if op.pooling is None else op.pooling.pooling.inputs[0]
        _finished(b, op, _transposed(b, op, result.shape[2:]))
        return
    normalization, weight = op.normalization, op.weight
    folds = b.element != "fp32" and not isinstance(weight, Tensor) and not isinstance(op.bias, Tensor)
    if folds and normalization is not None and _is_affine(normalization):
        # Variances can be too large or too small for half precision; their products with weights are not.
        scale, shift = _affine(normalization)
        bias = 0 if op.bias is None else op.bias.data
        kernel: Value = weight.data * scale.reshape(-1, *[1] * (weight.data.ndim - 1))
        options: dict[str, Any] = {"bias": bias * scale + shift}
        normalization = None
    else:
        kernel, options = _held(b, weight), {} if op.bias is None else {"bias": _held(b, op.bias)}
    y = b(
        "conv", x=b.get(op.inputs[0]), weight=kernel, strides=_per_axis(op.options["stride"], axes),
        pad_type="custom", pad=_edges(op.options["padding"], axes), dilations=_per_axis(op.options["dilation_stride"], axes),
        groups=op.options["group_count"], **options,
    )  # fmt: skip
    _activated(b, op, y if normalization is None else _normalized(b, normalization, y))


@writes(GroupedTransposedConvolution)
def _grouped(b: ProgramBuilder, op: GroupedTransposedConvolution) -> None:
    b.set(op.output, _transposed(b, op, op.output.shape[2:]))


def _transposed(b: ProgramBuilder, op: Any, image: Sequence[AnySize]) -> Value:
    axes = len(image)
    stride, dilation = (_per_axis(op.options[name], axes) for name in ("stride", "dilation_stride"))
    pad = _edges(op.options["padding"], axes)
    for axis, (small, large, kernel) in enumerate(zip(op.inputs[0].shape[2:], image, op.weight.shape[2:], strict=True)):
        whole = stride[axis] * (small - 1) + dilation[axis] * (kernel - 1) + 1
        cut = whole - pad[2 * axis] - large  # less than in front where the output is padded
        pad[2 * axis + 1] = b.numbers([cut], "what is cut off its output has to be known sizes")[0]
        if pad[2 * axis + 1] < 0:
            raise Refused("its output_padding is larger than its padding. Use nn.ZeroPad2d behind it")
    options: dict[str, Any] = {} if op.bias is None else {"bias": _held(b, op.bias)}
    return b(
        "conv_transpose", x=b.get(op.inputs[0]), weight=_held(b, op.weight), strides=stride, pad_type="custom", pad=pad,
        dilations=dilation, groups=op.options["group_count"], **options,
    )  # fmt: skip


@writes(Pooling)
def _pooling(b: ProgramBuilder, op: Pooling) -> None:
    b.set(op.output, _pooled(b, op, b.get(op.inputs[0])))


def _pooled(b: ProgramBuilder, op: Pooling, x: Value) -> Value:
    window = op.window
    if op.factors is not None or any(n != 1 for n in window.dilation):
        raise Refused("windows that hang over, or have gaps, are none of Core ML. Use ceil_mode=False and dilation=1")
    pad = [n for pair in window.edges for n in pair]
    for axis, (small, large) in enumerate(zip(op.output.shape[2:], op.inputs[0].shape[2:], strict=True)):
        if is_same((large + sum(window.edges[axis]) - window.kernel[axis]) // window.stride[axis] + 1, small):
            continue
        reach = (small - 1) * window.stride[axis] + window.kernel[axis]
        behind = max(0, b.numbers([reach - large - pad[2 * axis]], "windows that hang over need known sizes")[0])
        if behind > pad[2 * axis + 1] and op.type.case != "max":
            raise Refused("windows that hang over are none of Core ML. Use ceil_mode=False")
        pad[2 * axis + 1] = behind
    shared: dict[str, Any] = {
        "x": x, "kernel_sizes": list(window.kernel), "strides": list(window.stride), "pad_type": "custom", "pad": pad,
    }  # fmt: skip
    if op.type.case == "max":
        return b("max_pool", **shared)
    if op.type.case == "average":
        counts = "CountIncludePadding" in op.type.bnns_pooling_function.name
        return b("avg_pool", **shared, exclude_padding_from_average=not counts)
    return b("l2_pool", **shared)


@writes(Normalization)
def _normalization(b: ProgramBuilder, op: Normalization) -> None:
    b.set(op.output, activated(b, _normalized(b, op, b.get(op.inputs[0])), op.activation))


def _is_affine(op: Normalization) -> bool:
    """True for a batch normalization by moving statistics, which scales and shifts each channel."""
    return op.type.case == "batch" and op.type.moving_mean is not None


def _affine(op: Normalization) -> tuple[Any, Any]:
    """The scale and the shift of each channel."""
    gamma, beta = (None if p is None else p.data.reshape(-1).astype(np.float64) for p in (op.gamma, op.beta))
    scale = 1 / np.sqrt(op.type.moving_variance.astype(np.float64) + op.epsilon)
    scale = scale if gamma is None else scale * gamma
    return scale, (0 if beta is None else beta) - op.type.moving_mean * scale


def _normalized(b: ProgramBuilder, op: Normalization, x: Value) -> Value:
    kind, epsilon = op.type.case, np.float32(op.epsilon)
    channels = int(op.sample[0])
    if b.element != "fp32" and _is_affine(op):
        scale, shift = (each.reshape(-1, *[1] * (op.output.ndim - 2)) for each in _affine(op))
        return b("add", x=b("mul", x=x, y=scale), y=shift)
    if kind == "layer":
        return _layer_norm(b, op, x, epsilon)
    if kind == "group":
        groups = op.type.group_count
        apart = b.reshaped(x, (op.output.shape[0], groups, product(op.sample) // groups))
        y = b.reshaped(b("layer_norm", x=apart, axes=[2], epsilon=epsilon), op.output.shape)
        for each, parameter in (("mul", op.gamma), ("add", op.beta)):  # channel by channel
            if parameter is not None:
                y = b(each, x=y, y=b.weight(parameter, (-1, *[1] * (op.output.ndim - 2))))
        return y
    options = {
        name: b.weight(parameter, (channels,))
        for name, parameter in (("gamma", op.gamma), ("beta", op.beta))
        if parameter is not None
    }
    moving = op.type.moving_mean
    rank = rank_of(x)
    if kind == "instance" and moving is None:
        return b("instance_norm", x=x, epsilon=epsilon, **options)
    if moving is None:
        raise Refused(
            "it normalizes by the statistics of a batch, and has no moving ones. Use track_running_stats=True"
        )
    numbers = {"mean": moving.astype(np.float32), "variance": op.type.moving_variance.astype(np.float32)}
    wide = b("expand_dims", x=x, axes=[2]) if rank == 2 else x
    y = b("batch_norm", x=wide, epsilon=epsilon, **options, **numbers)
    return b("squeeze", x=y, axes=[2]) if rank == 2 else y


def _layer_norm(b: ProgramBuilder, op: Normalization, x: Value, epsilon: np.float32) -> Value:
    whole = op.output.shape
    sample = b.size(product(op.sample))
    first = next((i for i in range(len(whole)) if b.size(product(whole[i:])) == sample), None)
    if first is None:
        raise Refused(f"it normalizes {op.sample} out of {whole}, which are not whole axes at the end")
    shape = b.numbers(whole[first:], "Core ML normalizes over known sizes")
    axes = list(range(first, len(whole)))
    options = {
        name: b.weight(parameter, shape)
        for name, parameter in (("gamma", op.gamma), ("beta", op.beta))
        if parameter is not None
    }
    return b("layer_norm", x=x, axes=axes, epsilon=epsilon, **options)


@writes(Dropout)
def _dropout(b: ProgramBuilder, op: Dropout) -> None:
    b.set(op.output, b.get(op.inputs[0]))


@writes(Embedding)
def _embedding(b: ProgramBuilder, op: Embedding) -> None:
    b.set(op.output, b("gather", x=b.weight(op.weight), indices=b.get(op.inputs[0]), axis=0))
