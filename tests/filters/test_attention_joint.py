"""Self-attention whose projections are parts of one matrix, as PyTorch has them: one product in place of three."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openbnns as ob
from attention_checks import parameters_of
from helpers import Array, assert_within, numbers
from openbnns import capi
from openbnns.parameters.attention import Options
from openbnns.reference import attention as reference

N, T, D, HEADS = 3, 21, 8, 2
NAMES = ("query", "key", "value")


def parts(whole: Array, kind: str) -> dict[str, Array]:
    return {f"{name}_{kind}": part for name, part in zip(NAMES, np.split(whole, 3), strict=True)}


def made(bias: bool) -> ob.MultiheadAttentionLayer:
    given = parts(numbers(3 * D, D, seed=5), "weights") | {"output_weights": numbers(D, D, seed=6)}
    if bias:
        given |= parts(numbers(3 * D, seed=7), "bias") | {"output_bias": numbers(D, seed=8)}
    in_place = capi.BNNSFilterParameters(flags=capi.BNNSFlagsUseClientPtr)
    return ob.MultiheadAttentionLayer(D, HEADS, bias=bias, parameters=given, filter_parameters=in_place)


def expected(layer: ob.MultiheadAttentionLayer, x: Array, dy: Array) -> tuple[Array, dict[str, Array]]:
    parameters, wide = parameters_of(layer), x.astype(np.float64)
    y, cache = reference.forward(wide, wide, wide, parameters, Options())
    biases = {"dpq", "dpk", "dpv", "dpo"} if parameters.pq is not None else set()
    wanted = {"dq", "dk", "dv", "dwq", "dwk", "dwv", "dwo"} | biases
    g = reference.backward(wide, wide, wide, parameters, cache, dy.astype(np.float64), wanted)
    gradients = {"input": g["dq"] + g["dk"] + g["dv"], "output_weights": g["dwo"].T}
    for name in NAMES:
        gradients[f"{name}_weights"] = g[f"dw{name[0]}"].transpose(2, 1, 0).reshape(D, D)
        if biases:
            gradients[f"{name}_bias"] = g[f"dp{name[0]}"].T.reshape(-1)
    return y, gradients | ({"output_bias": g["dpo"]} if biases else {})


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("results", ["together", "apart", "weights alone", "one alone", "input alone"])
def test_gradients(results: str, bias: bool, accumulate: bool) -> None:
    layer = made(bias)
    x, dy = numbers(N, T, D), numbers(N, T, D, seed=1)
    y, gradients = expected(layer, x, dy)
    assert_within(layer.apply(x).astype(np.float64), y, 1e-4, "output")
    if results in ("together", "weights alone"):
        into: dict[str, Any] = parts(np.ones((3 * D, D), np.float32), "weights")
        into |= parts(np.ones(3 * D, np.float32), "bias") if bias and results == "together" else {}
    else:
        into = {name: np.ones(p.shape, np.float32) for name, p in layer.parameters.items()}
        into = {"apart": into, "one alone": {"key_weights": into["key_weights"]}, "input alone": {}}[results]
    dx: Any = ob.skip if results == "weights alone" else np.ones((N, T, D), np.float32)
    others = (ob.skip, ob.skip) if dx is ob.skip else (None, None)
    layer.apply_backward(dy, dx, *others, into, accumulate=accumulate)
    actual = dict(into) if dx is ob.skip else into | {"input": dx}
    for name, values in actual.items():
        bound = 1e-4 * max(1.0, float(np.abs(gradients[name]).max()))
        assert_within(values.astype(np.float64) - accumulate, gradients[name], bound, name)


def test_one_input_of_the_three_is_another() -> None:
    """Then there is nothing to join, whatever the weights."""
    layer = made(bias=True)
    x, other, dy = numbers(N, T, D), numbers(N, T, D, seed=2), numbers(N, T, D, seed=1)
    wide = [a.astype(np.float64) for a in (x, x, other)]
    y, cache = reference.forward(*wide, parameters_of(layer), Options())
    g = reference.backward(*wide, parameters_of(layer), cache, dy.astype(np.float64), {"dq", "dk", "dv"})
    assert_within(layer.apply(x, x, other).astype(np.float64), y, 1e-4, "output")
    gradients = layer.apply_backward(dy)
    assert_within(gradients.query.astype(np.float64), g["dq"] + g["dk"], 1e-3, "query and key")
    assert_within(gradients.value.astype(np.float64), g["dv"], 1e-3, "value")
