"""Layers with weights, normalizations and poolings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ....graph.operations import (
    Convolution,
    Dropout,
    Embedding,
    GroupedTransposedConvolution,
    Linear,
    Normalization,
    NormalizedOperation,
    Pooling,
    Window,
)
from ....graph.sizes import product
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


def _window(window: Window) -> dict[str, Any]:
    """Padding is before and behind each axis, from the first to the last."""
    pad = [n for pair in window.edges for n in pair]
    return {"strides": list(window.stride), "pad_type": "custom", "pad": pad}


def _held(b: ProgramBuilder, weight: Any) -> Value:
    """Weights of a convolution, which may be computed."""
    return b.get(weight) if isinstance(weight, Tensor) else b.weight(weight)


@writes(Convolution)
def _convolution(b: ProgramBuilder, op: Convolution) -> None:
    if op.extra is not None:
        _finished(b, op, _transposed(b, op))
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
        "conv", x=b.get(op.inputs[0]), weight=kernel, dilations=list(op.window.dilation), groups=op.groups,
        **_window(op.window), **options,
    )  # fmt: skip
    _activated(b, op, y if normalization is None else _normalized(b, normalization, y))


@writes(GroupedTransposedConvolution)
def _grouped(b: ProgramBuilder, op: GroupedTransposedConvolution) -> None:
    b.set(op.output, _transposed(b, op))


def _transposed(b: ProgramBuilder, op: Any) -> Value:
    edges = tuple((front, behind - more) for (front, behind), more in zip(op.window.edges, op.extra, strict=True))
    if min(behind for _, behind in edges) < 0:
        raise Refused("its output_padding is larger than its padding. Use nn.ZeroPad2d behind it")
    options: dict[str, Any] = {} if op.bias is None else {"bias": _held(b, op.bias)}
    return b(
        "conv_transpose", x=b.get(op.inputs[0]), weight=_held(b, op.weight), dilations=list(op.window.dilation),
        groups=op.groups, **_window(replace(op.window, edges=edges)), **options,
    )  # fmt: skip


@writes(Pooling)
def _pooling(b: ProgramBuilder, op: Pooling) -> None:
    b.set(op.output, _pooled(b, op, b.get(op.inputs[0])))


def _pooled(b: ProgramBuilder, op: Pooling, x: Value) -> Value:
    window, image = op.window, op.inputs[0].shape[2:]
    if op.scale != 1 or max(window.dilation) > 1:
        raise Refused("windows that have gaps, or sums, are none of Core ML. Use dilation=1 and no divisor_override")
    if window.ceil:
        edges = window.reaching(b.numbers(list(image), "windows that hang over need known sizes"))
        if edges != window.edges and op.counted == "padded":
            raise Refused("windows that hang over are none of Core ML. Use ceil_mode=False")
        window = replace(window, edges=edges)
    shared = {"x": x, "kernel_sizes": list(window.kernel), **_window(window)}
    if op.case == "average":
        return b("avg_pool", **shared, exclude_padding_from_average=op.counted == "image")
    return b("max_pool" if op.case == "max" else "l2_pool", **shared)


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
