"""Does self-attention with its projections keep up with nn.MultiheadAttention, from tiny to long sequences, with masks?

PyTorch runs its module with need_weights=False, which takes its fused attention. Ours has the same parameters in the
same memory order, and all gradients: input (the sum over query, key and value), projections and biases.

With masks both sides are what networks have: scaled_dot_product_attention between linear layers for PyTorch, and for us
the same ("heads") or the layer nn.MultiheadAttention ("layer"). Padding gives every sample another number of keys.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cases import Arrays, Calls, Case, created, describe, training_parameters, vector
from openbnns import capi, nn

# batch, length, model, heads, target
CASES: list[tuple[int, int, int, int, float]] = [
    (16, 128, 256, 8, 1.2),
    (2, 1024, 256, 8, 1.2),
    (1, 16, 64, 4, 5.0),
]
MASKED: list[tuple[str, str, float]] = [
    ("layer", "causal", 1.5),
    ("layer", "padded", 1.5),
    ("layer", "causal padded", 1.5),
    ("layer", "numbers", 1.5),
    ("heads", "causal", 1.5),
    ("heads", "numbers", 1.5),
]
MASKED_SIZES: list[tuple[int, int, int, int]] = [(16, 64, 64, 4), (8, 128, 128, 4), (4, 256, 256, 8), (2, 1024, 64, 4)]
LONG = (1, 8192, 256, 8)  # for memory only


def cases() -> list[Case]:
    masked = [_masked_case(*size, *row) for size in MASKED_SIZES for row in MASKED]
    return [*(_case(*row) for row in CASES), *masked]


def _case(batch: int, length: int, model: int, heads: int, target: float | None) -> Case:
    projections = 4 * 2.0 * batch * length * model * model
    products = 2 * 2.0 * batch * length * length * model
    return Case(
        name=f"attention/self {batch}x{length}x{model} {heads} heads",
        shapes={
            "x": (batch, length, model), "w": (3 * model, model), "b": (3 * model,), "v": (model, model), "c": (model,),
            "y": (batch, length, model),
        },
        calls=partial(_calls, heads=heads),
        peer=partial(_peer, model=model, heads=heads),
        flops=3 * projections + 3.5 * products,
        target=target,
    )  # fmt: skip


def long_case() -> Case:
    """A sequence whose scores would fill 2 GB."""
    return _case(*LONG, None)


def _peer(torch: ModuleType, *, model: int, heads: int) -> Callable[..., Any]:
    module = torch.nn.MultiheadAttention(model, heads, batch_first=True)

    def forward(x: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
        parameters = module._parameters
        if parameters["in_proj_weight"] is not w:  # the module computes with the tensors of the benchmark
            parameters["in_proj_weight"], parameters["in_proj_bias"] = w, b
            module.out_proj._parameters["weight"], module.out_proj._parameters["bias"] = v, c
        return module(x, x, x, need_weights=False)[0]

    return forward


def _calls(a: Arrays, *, heads: int) -> Calls:
    batch, length, model = a["x"].shape
    width = model // heads
    if not a["w"].flags.writeable or a["w"].max() > 1:  # weights of a size that a network starts with
        for name in ("w", "v"):
            a[name] *= np.float32(model**-0.5)

    def matrix(data: Any = None) -> Any:
        return describe(capi.BNNSDataLayout2DFirstMajor, (length, model), data)

    def projection(number: int, weights: str, bias: str, target: Any = None) -> Any:
        rows = slice(number * model, (number + 1) * model)
        return capi.BNNSMHAProjectionParameters(
            target_desc=matrix(target),
            weights=describe(capi.BNNSDataLayout3DLastMajor, (model, width, heads), a[weights][rows]),
            bias=describe(capi.BNNSDataLayout2DLastMajor, (width, heads), a[bias][rows]),
        )

    def output(weights: str, bias: str, target: Any = None) -> Any:
        return capi.BNNSMHAProjectionParameters(
            target_desc=matrix(target),
            weights=describe(capi.BNNSDataLayout2DLastMajor, (model, model), a[weights]),
            bias=vector(model, a[bias]),
        )

    query, key, value = (projection(i, "w", "b") for i in range(3))
    parameters = capi.BNNSLayerParametersMultiheadAttention(query=query, key=key, value=value, output=output("v", "c"))
    f = created(capi.BNNSFilterCreateLayerMultiheadAttention(parameters, training_parameters()))
    size = ctypes.c_size_t(0)
    capi.BNNSApplyMultiheadAttention(f, batch, None, 0, None, 0, None, 0, None, 0, None, 0, None, size)
    cache = np.zeros(size.value, np.uint8)
    deltas = [projection(i, "dw", "db", a["dx"]) for i in range(3)]
    x = a["x"]
    forward = partial(
        capi.BNNSApplyMultiheadAttention, f, batch, x, 0, x, 0, None, 0, x, 0, a["y"], 0, None, size, cache
    )
    backward = partial(
        capi.BNNSApplyMultiheadAttentionBackward, f, batch, x, 0, deltas[0], x, 0, None, 0, deltas[1], x, 0, deltas[2],
        None, None, None, None, 0, output("dv", "dc", a["dy"]), cache.nbytes, cache,
    )  # fmt: skip
    return Calls(f, forward, backward)


# With masks.


def _masked_case(batch: int, length: int, model: int, heads: int, way: str, masks: str, target: float) -> Case:
    plain = _case(batch, length, model, heads, target)
    return replace(
        plain,
        name=f"attention/{way} {masks} {batch}x{length}x{model} {heads} heads",
        calls=partial(_masked_calls, heads=heads, way=way, masks=masks),
        peer=partial(_masked_peer, sizes=(batch, length, model, heads), masks=masks),
        flops=0.0,  # of which a mask leaves some
    )


def _padding(batch: int, length: int) -> NDArray[np.bool_]:
    ends = length - np.arange(batch) * length // (2 * batch)
    mask: NDArray[np.bool_] = np.arange(length) >= ends[:, None]
    return mask


def _numbers(length: int) -> NDArray[np.float32]:
    return np.random.default_rng(2).standard_normal((length, length), np.float32)


def _masked_peer(torch: ModuleType, *, sizes: tuple[int, int, int, int], masks: str) -> Callable[..., Any]:
    batch, length, model, heads = sizes
    functional = torch.nn.functional
    mask = torch.from_numpy(_numbers(length)) if masks == "numbers" else None
    if "padded" in masks:
        mask = torch.from_numpy(~_padding(batch, length))[:, None, None]
        if "causal" in masks:
            mask = mask & torch.ones(length, length, dtype=torch.bool).tril()

    def forward(x: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
        parts = functional.linear(x, w, b).view(batch, length, 3, heads, model // heads).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(*parts.unbind(0), attn_mask=mask, is_causal=masks == "causal")
        return functional.linear(y.transpose(1, 2).reshape(batch, length, model), v, c)

    return forward


class _Masked(nn.Module):
    def __init__(self, length: int, model: int, heads: int, way: str, masks: str) -> None:
        super().__init__()
        self.length, self.heads, self.causal = length, heads, "causal" in masks
        self.mask = _numbers(length) if masks == "numbers" else None
        if way == "layer":
            self.attention = nn.MultiheadAttention(model, heads)
        else:
            self.first, self.last = nn.Linear(model, 3 * model), nn.Linear(model, model)

    def forward(self, x: Any, padding: Any = None) -> Any:
        if hasattr(self, "attention"):
            return self.attention(x, key_padding_mask=padding, attn_mask=self.mask, is_causal=self.causal)
        n, t = x.shape[0], self.length
        parts = [part.reshape(n, t, self.heads, -1).transpose(1, 2) for part in self.first(x).chunk(3, -1)]
        y = nn.functional.scaled_dot_product_attention(*parts, attn_mask=self.mask, is_causal=self.causal)
        return self.last(y.transpose(1, 2).reshape(n, t, -1))


def _masked_calls(a: Arrays, *, heads: int, way: str, masks: str) -> Calls:
    """A program of nn, whose results are where it writes them."""
    batch, length, model = a["x"].shape
    for name in ("w", "v"):
        a[name] *= np.float32(model**-0.5)
    net = _Masked(length, model, heads, way, masks)
    padded = "padded" in masks
    net.build((length, model), *([(length,)] if padded else []))
    program = net.program(batch, training=True, input_gradients=True)
    for name, parameter in zip("wbvc", net.parameters(), strict=True):
        parameter.data = a[name]
        a[f"d{name}"] = parameter.grad
    program.fill(0, a["x"])
    if padded:
        program.fill(1, _padding(batch, length))
    a["y"], a["dx"] = program.outputs[0], program.input_gradients[0]
    arriving = program.output_gradient

    def forward() -> int:
        program.forward()
        return 0

    def backward() -> int:
        np.copyto(arriving, a["dy"])
        program.backward()
        return 0

    return Calls(net, forward, backward)
