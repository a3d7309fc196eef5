"""Products, convolutions, poolings and normalizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....graph import functions as F
from ....graph.functions.convolutions import convolved
from ....graph.functions.poolings import pooled
from ....graph.operations import Window
from ....graph.sizes import product
from ...converted.tensors import ForeignTensor, Misfit, optional_numbers
from .elementwise import by_entry
from .table import Call, operation


@operation("linear")
def linear(call: Call, x: ForeignTensor, weight: ForeignTensor, bias: ForeignTensor) -> ForeignTensor:
    used = [weight] if bias.constant and not bias.held.any() else [weight, bias]
    return ForeignTensor(F.linear(x.numbers, *(given.numbers for given in used)))


@operation("matmul")
def matmul(call: Call, x: ForeignTensor, y: ForeignTensor, transpose_x: bool, transpose_y: bool) -> ForeignTensor:
    if transpose_y and not transpose_x and y.rank == 2:
        return ForeignTensor(F.linear(x.numbers, y.numbers))
    left, right = (
        F.transpose(each.numbers, -1, -2) if turned and each.rank > 1 else each.numbers
        for each, turned in ((x, transpose_x), (y, transpose_y))
    )
    return ForeignTensor(F.matmul(left, right))


@operation("einsum")
def einsum(call: Call, values: list[ForeignTensor], equation: str) -> ForeignTensor:
    return ForeignTensor(F.einsum(equation, *(x.numbers for x in values)))


@operation("scaled_dot_product_attention")
def attention(
    call: Call, query: ForeignTensor, key: ForeignTensor, value: ForeignTensor, attn_mask: ForeignTensor | None
) -> ForeignTensor:
    mask: Any = None
    if attn_mask is not None and attn_mask.constant:
        mask = attn_mask.held
    elif attn_mask is not None:
        forbidden = np.float32(-np.inf)
        mask = attn_mask.numbers if attn_mask.kind == "f" else F.where(attn_mask.value, 0.0, forbidden)
    return ForeignTensor(F.scaled_dot_product_attention(query.numbers, key.numbers, value.numbers, mask))


def _window(
    call: Call, x: ForeignTensor, kernel: Sequence[int], strides: list[int], pad_type: str, pad: list[int],
    dilations: int | list[int] = 1, *, ceil: bool = False,
) -> Window:  # fmt: skip
    """The windows of an operation; ``pad`` is before and behind each axis, from the first to the last."""
    if len(kernel) != x.rank - 2:
        raise Misfit(f"windows {tuple(kernel)} do not fit {x.shape}")
    padding = tuple(zip(pad[::2], pad[1::2], strict=True)) if pad_type == "custom" else pad_type
    return Window.of(call.kind, list(kernel), strides, padding, dilations, ceil, x.shape[2:])


@operation("conv")
def conv(
    call: Call, x: ForeignTensor, weight: ForeignTensor, bias: ForeignTensor | None, strides: list[int], pad_type: str,
    pad: list[int], dilations: list[int], groups: int,
) -> ForeignTensor:  # fmt: skip
    window = _window(call, x, weight.shape[2:], strides, pad_type, pad, dilations)
    return ForeignTensor(convolved(call.kind, x.numbers, weight.numbers, optional_numbers(bias), window, groups))


@operation("conv_quantized")
def conv_quantized(
    call: Call, x: ForeignTensor, weight: ForeignTensor, bias: Any, quantization_type: str, nbits: int, quant_scale: Any,
    quant_bias: Any, **geometry: Any,
) -> Any:  # fmt: skip
    """A convolution with weights ``q * quant_scale + quant_bias``, both numbers or one for every output channel."""
    if quantization_type != "linear":
        raise Misfit(
            f"quantization_type is {quantization_type!r}, but no input holds a table. 'linear' can be computed"
        )
    numbers = weight.array.astype(np.float32)
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < 2**nbits:
        raise Misfit(f"weights are from {numbers.min():g} to {numbers.max():g}, which {nbits} bits do not hold")
    held = ForeignTensor(numbers * by_entry(quant_scale, weight, 0) + by_entry(quant_bias, weight, 0))
    shift = None if bias is None else ForeignTensor(np.asarray(bias, np.float32))
    return conv(call, x, held, shift, **geometry)


@operation("conv_transpose")
def conv_transpose(
    call: Call, x: ForeignTensor, weight: ForeignTensor, bias: ForeignTensor | None, pad: list[int],
    output_shape: list[int] | None, pad_type: str, strides: list[int], dilations: list[int], groups: int,
) -> ForeignTensor:  # fmt: skip
    same, image = pad_type.startswith("same"), x.shape[2:]
    window = _window(call, x, weight.shape[2:], strides, "valid" if same else pad_type, pad, dilations)
    extra: tuple[int, ...] = (0,) * len(image)
    wanted = None if output_shape is None else output_shape[-len(image) :]
    if same:
        sizes = wanted or [n * s for n, s in zip(image, window.stride, strict=True)]
        window, extra = window.filling(image, sizes, extra, behind=pad_type == "same")
    elif wanted is not None:
        extra = tuple(int(m - n) for n, m in zip(window.spread(image, extra), wanted, strict=True))
        if min(extra) < 0:
            raise Misfit(f"output_shape {output_shape} is smaller than what its padding leaves")
    added = optional_numbers(bias)
    return ForeignTensor(convolved(call.kind, x.numbers, weight.numbers, added, window, groups, extra=extra))


@operation("max_pool", "avg_pool", "l2_pool")
def pool(
    call: Call, x: ForeignTensor, kernel_sizes: list[int], strides: list[int], pad_type: str, pad: list[int], ceil_mode: bool,
    exclude_padding_from_average: bool = False,
) -> ForeignTensor:  # fmt: skip
    case = {"max_pool": "max", "avg_pool": "average", "l2_pool": "l2_norm"}[call.kind]
    counted = "window" if case != "average" else "image" if exclude_padding_from_average else "padded"
    window = _window(call, x, kernel_sizes, strides, pad_type, pad, ceil=ceil_mode)
    return ForeignTensor(pooled(call.kind, x.numbers, case, window, counted))


# Normalizations.


@operation("batch_norm")
def batch_norm(
    call: Call, x: ForeignTensor, mean: ForeignTensor, variance: ForeignTensor, gamma: ForeignTensor | None,
    beta: ForeignTensor | None, epsilon: float,
) -> Any:  # fmt: skip
    moving_mean, moving_variance = (np.ascontiguousarray(w.array, np.float32) for w in (mean, variance))
    scale, shift = optional_numbers(gamma), optional_numbers(beta)
    return ForeignTensor(F.batch_norm(x.numbers, moving_mean, moving_variance, scale, shift, eps=epsilon))


@operation("instance_norm")
def instance_norm(
    call: Call, x: ForeignTensor, gamma: ForeignTensor | None, beta: ForeignTensor | None, epsilon: float
) -> Any:
    scale, shift = optional_numbers(gamma), optional_numbers(beta)
    return ForeignTensor(F.instance_norm(x.numbers, None, None, scale, shift, eps=epsilon))


@operation("layer_norm")
def layer_norm(
    call: Call,
    x: ForeignTensor,
    axes: list[int],
    gamma: ForeignTensor | None,
    beta: ForeignTensor | None,
    epsilon: float,
) -> Any:
    chosen = sorted(x.axis(axis) for axis in axes)
    if chosen == list(range(x.rank - len(chosen), x.rank)) and chosen[0] > 0:
        shape = tuple(x.shape[axis] for axis in chosen)
        return ForeignTensor(F.layer_norm(x.numbers, shape, optional_numbers(gamma), optional_numbers(beta), epsilon))
    value = x.numbers
    centred = F.sub(value, F.mean(value, chosen, True))
    y = F.mul(centred, F.rsqrt(F.add(F.mean(F.square(centred), chosen, True), epsilon)))
    shape = tuple(n if axis in chosen else 1 for axis, n in enumerate(x.shape))
    y = y if gamma is None else F.mul(y, gamma.numbers.reshape(shape))
    return ForeignTensor(y if beta is None else F.add(y, beta.numbers.reshape(shape)))


@operation("l2_norm")
def l2_norm(call: Call, x: ForeignTensor, epsilon: float) -> ForeignTensor:
    value, axes = x.numbers, list(range(max(0, x.rank - 3), x.rank))
    return ForeignTensor(F.mul(value, F.rsqrt(F.add(F.sum(F.square(value), axes, True), epsilon))))


@operation("local_response_norm")
def local_response_norm(call: Call, x: ForeignTensor, size: int, alpha: float, beta: float, k: float) -> ForeignTensor:
    axis, value = x.rank - 3, x.numbers  # channels stand before rows and columns, also where there are no samples
    channels = int(x.shape[axis])
    distance = np.arange(channels)[:, None] - np.arange(channels)[None, :]
    # Of an even number of channels, more stand before the one in the middle: in ONNX, behind it.
    band = ((distance <= size // 2) & (distance >= -((size - 1) // 2))).astype(np.float32) * np.float32(alpha / size)
    squares = F.square(value).reshape((product(x.shape[:axis]), channels, product(x.shape[axis + 1 :])))
    sums = F.matmul(band, squares).reshape(x.shape)
    return ForeignTensor(F.mul(value, F.pow(F.add(sums, k), -beta)))
