"""Does self-attention with its projections keep up with nn.MultiheadAttention, from tiny to long sequences?

PyTorch runs its module with need_weights=False, which takes its fused attention. Ours has the same parameters in the
same memory order, and all gradients: input (the sum over query, key and value), projections and biases.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from cases import Arrays, Calls, Case, created, describe, training_parameters, vector
from openbnns import capi

# batch, length, model, heads, target
CASES: list[tuple[int, int, int, int, float]] = [
    (16, 128, 256, 8, 1.2),
    (2, 1024, 256, 8, 1.2),
    (1, 16, 64, 4, 5.0),
]
LONG = (1, 8192, 256, 8)  # for memory only


def cases() -> list[Case]:
    return [_case(*row) for row in CASES]


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
