"""Fused operators of onnxruntime, in the domain ``com.microsoft``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .... import ActivationFunction
from ....graph import functions as F
from ....graph import operations
from ....graph.numpy_function import Function
from ....graph.parameter import Parameter
from ....graph.sizes import is_same
from ....graph.tensor import FLOAT32, Tensor
from ...converted.registry import Handler
from ...converted.tensors import ForeignTensor, Misfit, optional_numbers
from .._call import Call
from .._operator import add, operator
from .normalizations import layer_normalization, rms_normalization
from .products import gemm
from .windows import convolution

FUSED = "onnxruntime's own"
_DOMAIN = "com.microsoft."


def fused(*names: str, **facts: Any) -> Callable[[Handler], Handler]:
    """A decorator of functions that record an operator of onnxruntime."""
    return operator(FUSED, *(f"{_DOMAIN}{name}" for name in names), **facts)


# Layers with an activation.


def _activated(call: Call, value: Tensor) -> Tensor:
    """The activation that is fused to a layer."""
    name = call.text("activation", "")
    given = call.attribute("activation_params", ())
    numbers = [float(x) for x in given] if isinstance(given, tuple) else []
    for letter in ("alpha", "beta", "gamma"):
        if call.has(f"activation_{letter}"):
            numbers.append(call.number(f"activation_{letter}", 0.0))
    plain: dict[str, Any] = {"Relu": F.relu, "Tanh": F.tanh, "Sigmoid": F.sigmoid, "HardSwish": F.hardswish, "": None}
    if name in plain:
        activated: Tensor = value if plain[name] is None else plain[name](value)
        return activated
    if name == "LeakyRelu":
        leaky: Tensor = F.leaky_relu(value, numbers[0] if numbers else 0.01)
        return leaky
    if name == "Clip" and len(numbers) == 2:
        clipped: Tensor = F.clamp(value, *numbers)
        return clipped
    if name == "HardSigmoid":
        alpha, beta = numbers if len(numbers) == 2 else (0.2, 0.5)
        f = ActivationFunction.hard_sigmoid(alpha=alpha, beta=beta)
        return value.graph.append(operations.Activation(value.graph, value, f))
    raise Misfit(f"activation={name!r} with {numbers} has no counterpart here")


@fused("FusedConv")
def fused_conv(
    call: Call,
    x: ForeignTensor,
    weight: ForeignTensor,
    bias: ForeignTensor | None = None,
    other: ForeignTensor | None = None,
) -> ForeignTensor:
    y = convolution(call, x, weight, bias).numbers
    return ForeignTensor(_activated(call, y if other is None else F.add(y, other.numbers)))


@fused("FusedGemm")
def fused_gemm(call: Call, a: ForeignTensor, b: ForeignTensor, c: ForeignTensor | None = None) -> ForeignTensor:
    return ForeignTensor(_activated(call, gemm(call, a, b, c).numbers))


@fused("FusedMatMul", "TransposeMatMul")
def fused_matmul(call: Call, a: ForeignTensor, b: ForeignTensor) -> ForeignTensor:
    left, right = (
        _turned(x.numbers, bool(call.integer(f"trans{name}", 0)), bool(call.integer(f"transBatch{name}", 0)))
        for x, name in ((a, "A"), (b, "B"))
    )
    y, alpha = F.matmul(left, right), call.number("alpha", 1.0)
    return ForeignTensor(y if alpha == 1 else F.mul(y, alpha))


def _turned(value: Tensor, last: bool, batch: bool) -> Tensor:
    """The matrices of a tensor; with ``batch`` its first axis stands in front of their columns."""
    if batch and value.ndim > 2:
        value = F.permute(value, *range(1, value.ndim - 1), 0, value.ndim - 1)
    turned: Tensor = F.transpose(value, -1, -2) if last and value.ndim > 1 else value
    return turned


# Activations.


@fused("Gelu", "BiasGelu")
def gelu(call: Call, x: ForeignTensor, bias: ForeignTensor | None = None) -> ForeignTensor:
    return ForeignTensor(F.gelu(x.numbers if bias is None else F.add(x.numbers, bias.numbers)))


@fused("FastGelu")
def fast_gelu(call: Call, x: ForeignTensor, bias: ForeignTensor | None = None) -> ForeignTensor:
    return ForeignTensor(F.gelu(x.numbers if bias is None else F.add(x.numbers, bias.numbers), "tanh"))


@fused("QuickGelu")
def quick_gelu(call: Call, x: ForeignTensor) -> ForeignTensor:
    alpha, value = call.number("alpha", 1.702), x.numbers
    return ForeignTensor(F.mul(value, F.sigmoid(F.mul(value, alpha))))


@fused("BiasAdd")
def bias_add(call: Call, x: ForeignTensor, bias: ForeignTensor, skip: ForeignTensor) -> ForeignTensor:
    return ForeignTensor(F.add(F.add(x.numbers, bias.numbers), skip.numbers))


# Normalizations.

add(FUSED, f"{_DOMAIN}LayerNormalization", layer_normalization)


@operator(FUSED, "SimplifiedLayerNormalization", f"{_DOMAIN}SimplifiedLayerNormalization", ignores=("stash_type",))
def simplified(call: Call, x: ForeignTensor, scale: ForeignTensor) -> ForeignTensor:
    normalized: ForeignTensor = rms_normalization(call, x, scale)
    return normalized


@fused("SkipLayerNormalization")
def skip_normalization(
    call: Call,
    x: ForeignTensor,
    skip: ForeignTensor,
    scale: ForeignTensor,
    shift: ForeignTensor | None = None,
    bias: ForeignTensor | None = None,
) -> Any:
    whole = _skipped(x, skip, bias)
    y = F.layer_norm(whole, whole.shape[-1:], None, None, call.number("epsilon", 1e-12))
    return ForeignTensor(_scaled(y, scale, shift)), None, None, ForeignTensor(whole)


@fused("SkipSimplifiedLayerNormalization")
def skip_simplified(
    call: Call, x: ForeignTensor, skip: ForeignTensor, scale: ForeignTensor, bias: ForeignTensor | None = None
) -> Any:
    whole = _skipped(x, skip, bias)
    y = F.rms_norm(whole, whole.shape[-1:], None, call.number("epsilon", 1e-12))
    return ForeignTensor(_scaled(y, scale, None)), None, None, ForeignTensor(whole)


def _skipped(x: ForeignTensor, skip: ForeignTensor, bias: ForeignTensor | None) -> Tensor:
    whole: Tensor = F.add(x.numbers, skip.numbers)
    summed: Tensor = whole if bias is None else F.add(whole, bias.numbers)
    return summed


def _scaled(y: Any, scale: ForeignTensor, shift: ForeignTensor | None) -> Tensor:
    y = F.mul(y, scale.numbers)
    scaled: Tensor = y if shift is None else F.add(y, shift.numbers)
    return scaled


@fused("EmbedLayerNormalization", ignores=("mask_index_type",))
def embed(
    call: Call, ids: ForeignTensor, segments: ForeignTensor | None, words: ForeignTensor, positions: ForeignTensor, kinds:
    ForeignTensor | None, scale: ForeignTensor, shift: ForeignTensor, mask: ForeignTensor | None = None, places: ForeignTensor |
    None = None,
) -> Any:  # fmt: skip
    """Words, positions and segments looked up and normalized; and how many words of each sample a mask leaves."""
    length = ids.shape[1]
    whole = F.embedding(ids.value, _rows(words))
    if places is None:
        whole = F.add(whole, F.narrow(positions.numbers, 0, 0, length))
    else:
        whole = F.add(whole, F.embedding(places.value, _rows(positions)))
    if segments is not None and kinds is not None:
        whole = F.add(whole, F.embedding(segments.value, _rows(kinds)))
    y = F.layer_norm(whole, whole.shape[-1:], None, None, call.number("epsilon", 1e-12))
    counts = None
    if call.outputs > 1:
        ones = F.full((ids.shape[0],), 0.0) if mask is None else F.sum(mask.numbers, 1)
        counts = ForeignTensor(ones, "i")
    return ForeignTensor(_scaled(y, scale, shift)), counts, ForeignTensor(whole)


def _rows(table: ForeignTensor) -> Any:
    return table.held if isinstance(table.held, (Parameter, np.ndarray)) else table.numbers


# Attention.


def _heads(value: Tensor, count: int) -> Tensor:
    """(N, T, heads * width) as (N, heads, T, width)."""
    samples, length, width = value.shape
    if count < 1 or int(width) % count:
        raise Misfit(f"{width} features are not those of {count} heads")
    apart: Tensor = F.permute(value.reshape((samples, length, count, int(width) // count)), 0, 2, 1, 3)
    return apart


def _together(value: Tensor) -> ForeignTensor:
    samples, heads, length, width = value.shape
    return ForeignTensor(F.permute(value, 0, 2, 1, 3).reshape((samples, length, heads * width)))


def _attended(
    call: Call,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: ForeignTensor | None,
    bias: ForeignTensor | None,
    before: int,
    lengths_alone: bool,
) -> Tensor:
    """Attention of (N, heads, T, width), with what is forbidden by a mask, and the past of ``before`` keys in front."""
    lowest = call.number("mask_filter_value", -10000.0)
    scale = call.number("scale", 0.0) or 1 / math.sqrt(int(q.shape[3]))
    added: Any = optional_numbers(bias)
    causal = bool(call.integer("unidirectional", 0))
    if mask is None and not causal:
        plain: Tensor = F.scaled_dot_product_attention(q, k, v, added, 0.0, False, scale)
        return plain
    if causal:
        here = np.arange(int(q.shape[2]))[:, None] + before < np.arange(int(k.shape[2]))
        added = _sum(added, np.where(here, np.float32(-np.inf), np.float32(0)))
    if mask is not None:
        added = _sum(added, _masked(mask, k, lowest, lengths_alone))
    scores = F.add(F.mul(F.matmul(q, F.transpose(k, -1, -2)), scale), added)
    attended: Tensor = F.matmul(F.softmax(scores, -1), v)
    return attended


def _sum(a: Any, b: Any) -> Any:
    return b if a is None else F.add(a, b)


def _masked(mask: ForeignTensor, k: Tensor, lowest: float, lengths_alone: bool) -> Any:
    """The mask that is added to scores (N, heads, T, S): by lengths of the keys, or by 1 for keys that may be seen."""
    if mask.rank == 1 and is_same(mask.shape[0], k.shape[0]):
        numbers: Any = np.arange(int(k.shape[2]), dtype=np.float32)
        seen = F.gt(mask.numbers.reshape((mask.shape[0], 1, 1, 1)), numbers)
    elif mask.rank in (2, 3, 4) and not (lengths_alone and mask.rank != 2):
        shape = {2: (mask.shape[0], 1, 1, mask.shape[-1]), 3: (mask.shape[0], 1, *mask.shape[1:])}
        numbers = mask.numbers
        seen = numbers.reshape(shape[mask.rank]) if mask.rank in shape else numbers
    else:
        raise Misfit(f"a mask {mask.shape} has no counterpart here")
    return F.mul(F.sub(1.0, seen), lowest)


@fused("Attention", ignores=("rotary_embedding_dim",))
def attention(
    call: Call, x: ForeignTensor, weights: ForeignTensor, bias: ForeignTensor | None = None, mask: ForeignTensor | None = None,
    past: ForeignTensor | None = None, added: ForeignTensor | None = None,
) -> Any:  # fmt: skip
    call.only(do_rotary=0, past_present_share_buffer=0)
    return self_attention(call, F.matmul(x.numbers, weights.numbers), weights, bias, mask, past, added)


def self_attention(
    call: Call, projected: Tensor, weights: ForeignTensor, bias: ForeignTensor | None, mask: ForeignTensor | None, past:
    ForeignTensor | None, added: ForeignTensor | None,
) -> Any:  # fmt: skip
    """Attention of queries, keys and values that were computed by one product with ``weights``."""
    projected = projected if bias is None else F.add(projected, bias.numbers)
    count, width = call.integer("num_heads"), int(weights.shape[1])
    sizes = list(call.integers("qkv_hidden_sizes", ())) or [width // 3] * 3
    if sum(sizes) != width or len(sizes) != 3:
        raise Misfit(f"weights {weights.shape} are not those of queries, keys and values of {sizes}")
    q, k, v = (_heads(part, count) for part in F.split(projected, sizes, 2))
    before = 0
    if past is not None:
        before = int(past.shape[3])
        k = F.cat([F.select(past.numbers, 0, 0), k], 2)
        v = F.cat([F.select(past.numbers, 0, 1), v], 2)
    present = ForeignTensor(F.stack([k, v], 0)) if call.outputs > 1 else None
    return _together(_attended(call, q, k, v, mask, added, before, False)), present


@fused("MultiHeadAttention")
def multi_head(
    call: Call, query: ForeignTensor, key: ForeignTensor | None = None, value: ForeignTensor | None = None, bias: ForeignTensor |
    None = None, mask: ForeignTensor | None = None, added: ForeignTensor | None = None, past_key: ForeignTensor | None = None,
    past_value: ForeignTensor | None = None,
) -> Any:  # fmt: skip
    count = call.integer("num_heads")
    if query.rank == 5 and key is None:  # (N, T, heads, 3, width)
        parts = [F.permute(F.select(query.numbers, 3, i), 0, 2, 1, 3) for i in range(3)]
    elif query.rank == 3 and key is not None and key.rank == 5 and value is None:  # (N, S, heads, 2, width)
        parts = [_heads(query.numbers, count)]
        parts += [F.permute(F.select(key.numbers, 3, i), 0, 2, 1, 3) for i in range(2)]
    elif query.rank == 3 and key is not None and value is not None:
        parts = [x.numbers if x.rank == 4 else _heads(x.numbers, count) for x in (query, key, value)]
    else:
        raise Misfit(f"a query {query.shape} with such keys and values has no counterpart here")
    if bias is not None:
        widths = [int(part.shape[1]) * int(part.shape[3]) for part in parts]
        pieces = F.split(bias.numbers, widths, 0)
        given = [
            None if x is not None and x.rank == 4 else piece
            for x, piece in zip((query, key, value), pieces, strict=True)
        ]
        parts = [
            part if piece is None else F.add(part, piece.reshape((part.shape[1], 1, part.shape[3])))
            for part, piece in zip(parts, given, strict=True)
        ]
    q, k, v = parts
    before = 0
    if past_key is not None and past_value is not None:
        before = int(past_key.shape[2])
        k, v = F.cat([past_key.numbers, k], 2), F.cat([past_value.numbers, v], 2)
    y = _together(_attended(call, q, k, v, mask, added, before, False))
    return (y, ForeignTensor(k), ForeignTensor(v))[: max(1, call.outputs)]


@fused("RotaryEmbedding", settings=(2, 3), ignores=("num_heads",))
def rotary(
    call: Call, x: ForeignTensor, places: ForeignTensor, cosines: ForeignTensor, sines: ForeignTensor
) -> ForeignTensor:
    call.only(is_packed_batching=0, scale=1.0)
    half = int(cosines.shape[1])
    count = call.integer("num_heads", 0)
    flat = x.rank == 3
    if flat:
        count = count or int(x.shape[2]) // (2 * half)
    value = _heads(x.numbers, count) if flat else x.numbers
    if value.ndim != 4 or 2 * half > int(value.shape[3]):
        raise Misfit(f"{x.shape} has no pairs to turn by {cosines.shape}")
    width, length = int(value.shape[3]), value.shape[2]
    if places.rank == 2:
        shape = (places.shape[0], 1, places.shape[1], half)
        cos, sin = (F.embedding(places.value, _rows(t)).reshape(shape) for t in (cosines, sines))
    else:
        numbers = F.add(F.arange(length), places.numbers.reshape(())) if not _is_zero(places) else None
        cos, sin = (
            F.index(t.numbers, slice(0, length)) if numbers is None else F.embedding(numbers.long(), _rows(t))
            for t in (cosines, sines)
        )
    turned, rest = F.narrow(value, 3, 0, 2 * half), width - 2 * half
    if call.integer("interleaved", 0):
        pairs = turned.reshape((*turned.shape[:3], half, 2))
        a, b = F.select(pairs, 4, 0), F.select(pairs, 4, 1)
    else:
        a, b = F.split(turned, half, 3)
    parts = [F.sub(F.mul(a, cos), F.mul(b, sin)), F.add(F.mul(a, sin), F.mul(b, cos))]
    if call.integer("interleaved", 0):
        y = F.stack(parts, 4).reshape(turned.shape)
    else:
        y = F.cat(parts, 3)
    y = y if not rest else F.cat([y, F.narrow(value, 3, 2 * half, rest)], 3)
    return _together(y) if flat else ForeignTensor(y)


def _is_zero(x: ForeignTensor) -> bool:
    return x.constant and not x.held.any()


class WholeLength(Function):
    """Keys (N, heads, length, width) as they are, if all samples have all of them: ``ends`` are their last ones."""

    @staticmethod
    def forward(ctx: Any, keys: Any, ends: Any) -> Any:
        if (ends != keys.shape[2] - 1).any():
            raise ValueError(
                f"GroupQueryAttention: seqlens_k is {ends.astype(int).tolist()} for {keys.shape[2]} keys; samples of different "
                "lengths have no counterpart here. Pass those of the same length, without padding."
            )
        return keys

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return dy, None

    @classmethod
    def _outputs(cls, arguments: list[Any], inputs: list[Tensor]) -> tuple[list[Tensor], bool]:
        return [Tensor(inputs[0].graph, inputs[0].shape, FLOAT32)], False


@fused(
    "GroupQueryAttention",
    settings=(7, 8),
    ignores=("kv_cache_bit_width", "sliding_window_cache", "qk_norm_epsilon", "k_quant_type", "v_quant_type"),
)
def grouped(
    call: Call, query: ForeignTensor, key: ForeignTensor | None, value: ForeignTensor | None, past_key: ForeignTensor | None,
    past_value: ForeignTensor | None, ends: ForeignTensor, total: ForeignTensor, cosines: ForeignTensor | None = None, sines:
    ForeignTensor | None = None,
) -> Any:  # fmt: skip
    """Causal attention with fewer keys than queries, behind a past of the same length for all samples; ``ends`` are the last
    keys that samples have."""
    call.only(local_window_size=-1, softcap=0.0, smooth_softmax=0, rotary_interleaved=0, qk_output=0, causal=1)
    count, fewer = call.integer("num_heads"), call.integer("kv_num_heads")
    if count < 1 or fewer < 1 or count % fewer:
        raise Misfit(f"{count} heads of queries do not share {fewer} of keys")
    if key is None or value is None:
        width = int(query.shape[2]) // (count + 2 * fewer)
        parts = F.split(query.numbers, [count * width, fewer * width, fewer * width], 2)
    else:
        parts = [x.numbers for x in (query, key, value)]
    q, k, v = (_heads(part, n) for part, n in zip(parts, (count, fewer, fewer), strict=True))
    before = 0 if past_key is None else int(past_key.shape[2])
    if call.integer("do_rotary", 0):
        if cosines is None or sines is None:
            raise Misfit("it turns queries and keys, but has no cosines and sines")
        q, k = (_turned_by(x, cosines, sines, before) for x in (q, k))
    if past_key is not None and past_value is not None and before:
        k, v = F.cat([past_key.numbers, k], 2), F.cat([past_value.numbers, v], 2)
    k = WholeLength.apply(k, ends.numbers)
    present = k, v
    samples, _, length, width = k.shape
    if count > fewer:
        wide = (samples, fewer, count // fewer, length, width)
        k, v = (
            F.expand(x.reshape((samples, fewer, 1, length, width)), *wide).reshape((samples, count, length, width))
            for x in (k, v)
        )
    here = np.arange(int(q.shape[2]))[:, None] + before < np.arange(int(length))
    added = np.where(here, np.float32(-np.inf), np.float32(0))
    scale = call.number("scale", 0.0) or 1 / math.sqrt(int(width))
    y = _together(F.scaled_dot_product_attention(q, k, v, added, 0.0, False, scale))
    return (y, *map(ForeignTensor, present))[: max(1, call.outputs)]


def _turned_by(value: Tensor, cosines: ForeignTensor, sines: ForeignTensor, first: int) -> Tensor:
    """Pairs of the first and the second half of features, turned by their position from ``first`` on."""
    half, length = int(cosines.shape[1]), value.shape[2]
    cos, sin = (F.index(t.numbers, slice(first, first + length)) for t in (cosines, sines))
    a, b = F.narrow(value, 3, 0, half), F.narrow(value, 3, half, half)
    parts = [F.sub(F.mul(a, cos), F.mul(b, sin)), F.add(F.mul(a, sin), F.mul(b, cos))]
    rest = int(value.shape[3]) - 2 * half
    turned: Tensor = F.cat([*parts, F.narrow(value, 3, 2 * half, rest)] if rest else parts, 3)
    return turned


# Weights of a few bits.


@fused("MatMulNBits", settings=(1, 2, 3), ignores=("accuracy_level",))
def few_bits(
    call: Call, x: ForeignTensor, weight: ForeignTensor, scales: ForeignTensor, zeros: ForeignTensor | None = None, order:
    ForeignTensor | None = None, bias: ForeignTensor | None = None,
) -> ForeignTensor:  # fmt: skip
    """A product with weights in blocks of ``block_size`` along the inputs, each with a scale."""
    call.only(weight_prepacked=0)
    inputs, outputs, bits, size = (call.integer(name) for name in ("K", "N", "bits", "block_size"))
    blocks = -(-inputs // size) if size > 0 else 0
    held = [_known(t) for t in (weight, scales, *([] if zeros is None else [zeros]))]
    if order is not None or bits not in (2, 4, 8) or not blocks or any(array is None for array in held):
        raise Misfit("weights of 2, 4 or 8 bits in blocks are taken, as initializers, and in their order")
    numbers = _unpacked(held[0].reshape(outputs, blocks, -1), bits)[..., :size]
    if numbers.shape != (outputs, blocks, size) or held[1].size != outputs * blocks:
        raise Misfit(f"weights {weight.shape} and scales {scales.shape} are not those of {outputs} x {inputs}")
    shift: Any = 2 ** (bits - 1)
    if zeros is not None and held[2].dtype.kind == "f":
        shift = held[2].reshape(outputs, blocks, 1)
    elif zeros is not None:
        shift = _unpacked(held[2].reshape(outputs, -1), bits)[:, :blocks, None]
    whole = (numbers.astype(np.float32) - shift) * held[1].astype(np.float32).reshape(outputs, blocks, 1)
    matrix = np.ascontiguousarray(whole.reshape(outputs, blocks * size)[:, :inputs].T, np.float32)
    y = F.matmul(x.numbers, matrix)
    return ForeignTensor(y if bias is None else F.add(y, bias.numbers))


def _known(x: ForeignTensor) -> Any:
    return x.held if x.constant else x.held.data if isinstance(x.held, Parameter) else None


def _unpacked(packed: Any, bits: int) -> Any:
    """Numbers of a few bits, the lowest of a byte first."""
    parts = [(packed >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(*packed.shape[:-1], -1)
