"""Products, convolutions, poolings and normalizations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph.parameter import Parameter
from ....graph.sizes import product
from ....nn import functional as F
from ...converted.tensors import ForeignTensor, Misfit
from .elementwise import by_entry
from .table import Call, operation

_AUTO = {"valid": "VALID", "same": "SAME_UPPER", "same_lower": "SAME_LOWER", "custom": "NOTSET"}


@operation("linear")
def linear(call: Call, x: ForeignTensor, weight: ForeignTensor, bias: ForeignTensor) -> ForeignTensor:
    used = [weight] if bias.constant and not bias.held.any() else [weight, bias]
    held = [given.held if isinstance(given.held, Parameter) else given.numbers for given in used]
    return ForeignTensor(F.linear(x.numbers, *held))


@operation("matmul")
def matmul(call: Call, x: ForeignTensor, y: ForeignTensor, transpose_x: bool, transpose_y: bool) -> Any:
    if transpose_y and not transpose_x and y.rank == 2 and isinstance(y.held, Parameter):
        return ForeignTensor(F.linear(x.numbers, y.held))
    return call.onnx("MatMul", _turned(call, x) if transpose_x else x, _turned(call, y) if transpose_y else y)


def _turned(call: Call, x: ForeignTensor) -> Any:
    if x.rank < 2:
        return x
    return call.onnx("Transpose", x, perm=[*range(x.rank - 2), x.rank - 1, x.rank - 2])


@operation("einsum")
def einsum(call: Call, values: list[ForeignTensor], equation: str) -> Any:
    return call.onnx("Einsum", *values, equation=equation)


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


def _pads(pad: list[int]) -> list[int]:
    """Numbers before all axes, then those behind, of pairs."""
    return [*pad[::2], *pad[1::2]]


@operation("conv")
def conv(
    call: Call, x: ForeignTensor, weight: ForeignTensor, bias: ForeignTensor | None, strides: list[int], pad_type: str, pad:
    list[int], dilations: list[int], groups: int,
) -> Any:  # fmt: skip
    pads = {"pads": _pads(pad)} if pad_type == "custom" else {}
    return call.onnx(
        "Conv", x, weight, bias, strides=strides, dilations=dilations, group=groups, auto_pad=_AUTO[pad_type], **pads
    )


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
    call: Call, x: ForeignTensor, weight: ForeignTensor, bias: ForeignTensor | None, pad: list[int], output_shape: list[int] |
    None, pad_type: str, strides: list[int], dilations: list[int], groups: int,
) -> Any:  # fmt: skip
    options: dict[str, Any] = {"strides": strides, "dilations": dilations, "group": groups}
    if pad_type == "custom":
        options["pads"] = _pads(pad)
    if output_shape is not None:
        wanted = output_shape[-len(strides) :]
        if pad_type != "custom":
            return call.onnx("ConvTranspose", x, weight, bias, output_shape=wanted, auto_pad=_AUTO[pad_type], **options)
        extents = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
        edges = [before + after for before, after in zip(pad[::2], pad[1::2], strict=True)]
        options["output_padding"] = [
            m - ((int(n) - 1) * s + e - p)
            for m, n, s, e, p in zip(wanted, x.shape[2:], strides, extents, edges, strict=True)
        ]
    elif pad_type in ("same", "same_lower"):
        options["auto_pad"] = _AUTO[pad_type]
    return call.onnx("ConvTranspose", x, weight, bias, **options)


@operation("max_pool", "avg_pool", "l2_pool")
def pool(
    call: Call, x: ForeignTensor, kernel_sizes: list[int], strides: list[int], pad_type: str, pad: list[int], ceil_mode: bool,
    exclude_padding_from_average: bool = False,
) -> Any:  # fmt: skip
    options: dict[str, Any] = {"pads": _pads(pad)} if pad_type == "custom" else {"auto_pad": _AUTO[pad_type]}
    options |= {"kernel_shape": kernel_sizes, "strides": strides, "ceil_mode": int(ceil_mode)}
    if call.kind == "avg_pool":
        options["count_include_pad"] = int(not exclude_padding_from_average)
    return call.onnx({"max_pool": "MaxPool", "avg_pool": "AveragePool", "l2_pool": "LpPool"}[call.kind], x, **options)


# Normalizations.


def _or_filled(given: ForeignTensor | None, count: Any, number: float) -> ForeignTensor:
    return ForeignTensor(np.full(int(count), number, np.float32)) if given is None else given


@operation("batch_norm")
def batch_norm(
    call: Call,
    x: ForeignTensor,
    mean: ForeignTensor,
    variance: ForeignTensor,
    gamma: ForeignTensor | None,
    beta: ForeignTensor | None,
    epsilon: float,
) -> Any:
    scale, shift = _or_filled(gamma, x.shape[1], 1), _or_filled(beta, x.shape[1], 0)
    return call.onnx("BatchNormalization", x, scale, shift, mean, variance, epsilon=float(epsilon))


@operation("instance_norm")
def instance_norm(
    call: Call, x: ForeignTensor, gamma: ForeignTensor | None, beta: ForeignTensor | None, epsilon: float
) -> Any:
    scale, shift = _or_filled(gamma, x.shape[1], 1), _or_filled(beta, x.shape[1], 0)
    return call.onnx("InstanceNormalization", x, scale, shift, epsilon=float(epsilon))


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
        weight, bias = (None if given is None else given.numbers for given in (gamma, beta))
        return ForeignTensor(F.layer_norm(x.numbers, shape, weight, bias, float(epsilon)))
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
