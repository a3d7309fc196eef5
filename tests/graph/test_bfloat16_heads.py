"""Attention heads in bfloat16: by the formulas, with the rounding of every operand; bits over threads; masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns as bn
from bfloat16_formulas import bfloat16, near, rounded
from function_checks import Applied
from helpers import numbers
from openbnns import engines, nn
from openbnns.nn import functional as F

Array = NDArray[Any]

pytestmark = pytest.mark.skipif(
    not engines._core.multiplies_bfloat16(), reason="this CPU, or instruction set, has no products in bfloat16"
)


def attention(q: Array, k: Array, v: Array, added: Array, dout: Array, r: Any) -> list[Array]:
    """The output and the gradients of q, k and v in float64, from operands of products that ``r`` rounds."""
    scale, across = q.shape[-1] ** -0.5, (-1, -2)
    scores = r(q) @ r(k).swapaxes(*across) * scale + added
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    total = weights.sum(-1, keepdims=True)
    out = r(weights) @ r(v) / total
    p = weights / total
    ds = p * (r(dout) @ r(v).swapaxes(*across) - (dout * out).sum(-1, keepdims=True)) * scale
    return [out, r(ds) @ r(k), r(ds).swapaxes(*across) @ r(q), r(p).swapaxes(*across) @ r(dout)]


def exactly(x: Array) -> Array:
    return np.asarray(x, np.float64)


def causal(target: int, source: int) -> Array:
    return np.where(np.triu(np.ones((target, source)), 1), -np.inf, 0.0)


ROUNDED = [(64, 64, 64, 64), (33, 65, 33, 40), (57, 100, 64, 18), (130, 250, 31, 33), (97, 67, 1, 63)]
"""Positions, source rows, the widths of keys and of values: odd ones, and strips and blocks that are not full."""
FEW = [(2, 3, 16, 16), (31, 64, 32, 32), (32, 63, 32, 32), (32, 64, 32, 31)]
"""Too few for rounding to pay."""


@pytest.mark.parametrize("mask", ["none", "causal", "numbers", "flags"])
@pytest.mark.parametrize("sizes", [*ROUNDED, *FEW], ids=str)
def test_by_the_formulas(sizes: tuple[int, int, int, int], mask: str) -> None:
    t, s, width, values = sizes
    options: dict[str, Any] = {}
    added = np.zeros((t, s))
    if mask == "causal":
        options, added = {"is_causal": True}, causal(t, s)
    elif mask == "numbers":
        options, added = {"attn_mask": numbers(t, s, seed=5)}, numbers(t, s, seed=5).astype(np.float64)
    elif mask == "flags":
        flags = np.random.default_rng(6).random((t, s)) < 0.6
        flags[:, 0] = True
        options, added = {"attn_mask": flags}, np.where(flags, 0.0, -np.inf)
    q, k, v = numbers(2, 3, t, width), numbers(2, 3, s, width, seed=1), numbers(2, 3, s, values, seed=2)
    dy = numbers(2, 3, t, values, seed=3)
    net = bfloat16(Applied(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options)))
    net.build(*(array.shape[1:] for array in (q, k, v))).train()
    expected = attention(q, k, v, added, dy, rounded if sizes in ROUNDED else exactly)
    exact = attention(q, k, v, added, dy, exactly)
    results = []
    for threads in (1, 2, 3):
        bn.set_num_threads(threads)
        results.append([net(q, k, v).copy(), *(g.copy() for g in net.backward(dy))])
    bn.set_num_threads(0)
    for name, ours, wanted, unrounded in zip(["o", "dq", "dk", "dv"], results[0], expected, exact, strict=True):
        assert near(ours, wanted, unrounded), name
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads)

    def forward(self, q: Any, k: Any) -> Any:
        return self.attention(q, k, k)[0]


def test_attention_layers() -> None:
    """Projections, scores and weighted values; small ones: tests/nn/test_nn_precision.py."""
    heads, width, x, other = 2, 70, numbers(2, 33, 70), numbers(2, 65, 70, seed=1)
    net = bfloat16(_Attention(width, heads)).build(x.shape[1:], other.shape[1:], seed=3).train()
    weights = {name: p.data.astype(np.float64) for name, p in net.attention.named_parameters()}

    def formula(r: Any, r_of_heads: Any) -> Array:
        def projected(x: Array, name: str, part: slice) -> Array:
            return r(x) @ r(weights[f"{name}weight"][part]).T + weights[f"{name}bias"][part]

        q, k, v = (
            projected(x, "in_proj_", slice(i * width, (i + 1) * width)).reshape(2, -1, heads, width // heads)
            for i, x in enumerate((x, other, other))
        )
        q, k, v = (array.swapaxes(1, 2) for array in (q, k, v))
        out = attention(q, k, v, np.zeros((33, 65)), np.zeros_like(q), r_of_heads)[0]
        return projected(out.swapaxes(1, 2).reshape(2, 33, width), "out_proj.", slice(None))

    y = net(x, other)
    assert near(y, formula(rounded, rounded), formula(rounded, exactly))


def test_float32_is_not_rounded() -> None:
    q = numbers(2, 3, 70, 32)
    net = Applied(lambda q: F.scaled_dot_product_attention(q, q, q)).build(q.shape[1:])
    in_float32 = net(q).copy()
    exact = attention(q, q, q, np.zeros((70, 70)), q, exactly)[0]
    np.testing.assert_allclose(in_float32, exact, rtol=2e-5, atol=2e-5)
    assert np.abs(bfloat16(net)(q) - exact).max() > 1e-4


def test_what_is_not_a_number_stays_where_it_is() -> None:
    """A row of NaN or infinity reaches what reads it, and nothing else: not what shares its tile or its pair."""
    q, k, v = numbers(1, 2, 37, 40), numbers(1, 2, 75, 40, seed=1), numbers(1, 2, 75, 40, seed=2)
    net = bfloat16(Applied(lambda q, k, v: F.scaled_dot_product_attention(q, k, v)))
    net.build(*(array.shape[1:] for array in (q, k, v)))
    clean = net(q, k, v).copy()
    q[0, 1, 20, 3] = np.nan
    dirty = net(q, k, v)
    assert np.isnan(dirty[0, 1, 20]).all()
    dirty[0, 1, 20] = clean[0, 1, 20]
    assert np.array_equal(dirty, clean)
