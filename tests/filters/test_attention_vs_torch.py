"""Attention against PyTorch: nn.MultiheadAttention and scaled_dot_product_attention, values and all gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import openbnns as ob
from helpers import Array, assert_within, numbers

pytestmark = pytest.mark.peers


def tensor(array: Array) -> Any:
    return torch.from_numpy(array.astype(np.float64) if array.dtype == np.float32 else array.copy())


def leaf(array: Array) -> Any:
    return tensor(array).requires_grad_()


def module_of(layer: ob.MultiheadAttentionLayer, **options: Any) -> Any:
    """PyTorch's module with the layer's parameters, in float64."""
    p = {name: tensor(array) for name, array in layer.parameters.items()}
    module = torch.nn.MultiheadAttention(
        layer.embed_dim, layer.num_heads, batch_first=True, dtype=torch.float64, **options
    )
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat([p["query_weights"], p["key_weights"], p["value_weights"]]))
        module.out_proj.weight.copy_(p["output_weights"])
        if "query_bias" in p:
            module.in_proj_bias.copy_(torch.cat([p["query_bias"], p["key_bias"], p["value_bias"]]))
            module.out_proj.bias.copy_(p["output_bias"])
        if "key_attention_bias" in p:
            module.bias_k.copy_(p["key_attention_bias"].reshape(1, 1, -1))
            module.bias_v.copy_(p["value_attention_bias"].reshape(1, 1, -1))
    return module


@pytest.mark.parametrize("options", [
    {}, {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"add_bias_kv": True, "add_zero_attn": True},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("masks", ["none", "padding", "causal", "float", "heads", "both"])
@pytest.mark.parametrize("sizes", [(3, 5, 7, 8, 2), (2, 33, 70, 24, 3), (1, 130, 300, 32, 4)], ids=str)
def test_module(options: dict[str, Any], masks: str, sizes: tuple[int, int, int, int, int]) -> None:
    n, t, s, d, h = sizes
    layer = ob.MultiheadAttentionLayer(d, h, seed=5, **options)
    for name, array in layer.parameters.items():
        if name.endswith("_bias"):
            array[:] = numbers(*array.shape, seed=len(name))
    q, k, v, dy = numbers(n, t, d), numbers(n, s, d, seed=1), numbers(n, s, d, seed=2), numbers(n, t, d, seed=3)
    given: dict[str, Any] = {}
    if masks in ("padding", "both"):
        given["key_padding_mask"] = np.arange(s)[None].repeat(n, 0) >= np.arange(n)[:, None] + s // 2
    if masks == "causal":
        given["attn_mask"] = np.triu(np.ones((t, s), bool), 1)
    if masks == "float":
        given["attn_mask"] = numbers(t, s, seed=9)
    if masks in ("heads", "both"):
        given["attn_mask"] = numbers(n * h, t, s, seed=9) < -0.8 if masks == "heads" else numbers(n * h, t, s, seed=9)
        if masks == "heads":
            given["attn_mask"][..., 0] = False
    module = module_of(layer, **options)
    leaves = [leaf(x) for x in (q, k, v)]
    theirs = {name: tensor(mask) for name, mask in given.items()}
    if masks == "both":
        theirs["key_padding_mask"] = torch.zeros(n, s, dtype=torch.float64).masked_fill(
            theirs["key_padding_mask"], float("-inf")
        )
    y = module(*leaves, need_weights=False, **theirs)[0]
    y.backward(tensor(dy))

    ours = layer.apply(q, k, v, **given)
    assert_within(ours.astype(np.float64), y.detach().numpy(), 1e-5, "output")
    gradients = layer.apply_backward(dy)
    for name, x in zip(("query", "key", "value"), leaves, strict=True):
        assert_within(getattr(gradients, name).astype(np.float64), x.grad.numpy(), 2e-5, name)
    width = d
    parts = {"query": slice(0, width), "key": slice(width, 2 * width), "value": slice(2 * width, 3 * width)}
    expected = {f"{name}_weights": module.in_proj_weight.grad[part] for name, part in parts.items()}
    expected["output_weights"] = module.out_proj.weight.grad
    if "query_bias" in layer.parameters:
        expected |= {f"{name}_bias": module.in_proj_bias.grad[part] for name, part in parts.items()}
        expected["output_bias"] = module.out_proj.bias.grad
    if "key_attention_bias" in layer.parameters:
        expected["key_attention_bias"] = module.bias_k.grad.reshape(-1)
        expected["value_attention_bias"] = module.bias_v.grad.reshape(-1)
    assert set(expected) == set(gradients.parameters)
    for name, gradient in expected.items():
        assert_within(gradients.parameters[name].astype(np.float64), gradient.numpy(), 1e-4, name)


@pytest.mark.parametrize("sizes", [(2, 5, 7, 3, 2, 6), (1, 40, 300, 16, 32, 8)], ids=str)
def test_scaled_dot_product_attention(sizes: tuple[int, int, int, int, int, int]) -> None:
    """Sizes of keys and values that the module does not have."""
    n, t, s, key, value, d = sizes
    heads = 2
    layer = ob.MultiheadAttentionLayer(d, heads, key_dim=key, value_dim=value, seed=3)
    p = {name: leaf(array) for name, array in layer.parameters.items()}
    arrays = [numbers(n, length, d, seed=i) for i, length in enumerate((t, s, s))]
    dy = numbers(n, t, d, seed=8)
    leaves = [leaf(x) for x in arrays]

    def split(x: Any, name: str) -> Any:
        projected = torch.nn.functional.linear(x, p[f"{name}_weights"], p[f"{name}_bias"])
        return projected.reshape(n, x.shape[1], heads, -1).transpose(1, 2)

    q, k, v = (split(x, name) for x, name in zip(leaves, ("query", "key", "value"), strict=True))
    mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, -1)
    y = torch.nn.functional.linear(mixed, p["output_weights"], p["output_bias"])
    y.backward(tensor(dy))
    assert_within(layer.apply(*arrays).astype(np.float64), y.detach().numpy(), 1e-5, "output")
    gradients = layer.apply_backward(dy)
    for name, x in zip(("query", "key", "value"), leaves, strict=True):
        assert_within(getattr(gradients, name).astype(np.float64), x.grad.numpy(), 2e-5, name)
    for name, x in p.items():
        assert_within(gradients.parameters[name].astype(np.float64), x.grad.numpy(), 1e-4, name)


def test_training_curve() -> None:
    """Ten steps of gradient descent stay together."""
    layer = ob.MultiheadAttentionLayer(16, 4, seed=1)
    module = module_of(layer)
    x, wanted = numbers(4, 9, 16), numbers(4, 9, 16, seed=1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    for _ in range(10):
        optimizer.zero_grad()
        loss = ((module(tensor(x), tensor(x), tensor(x), need_weights=False)[0] - tensor(wanted)) ** 2).mean()
        loss.backward()
        optimizer.step()
        y = layer.apply(x)
        ours = float(np.mean((y.astype(np.float64) - wanted) ** 2))
        assert ours == pytest.approx(loss.item(), rel=1e-4)
        gradients = layer.apply_backward((2.0 / y.size * (y - wanted)).astype(np.float32)).parameters
        for name, gradient in gradients.items():
            layer.parameters[name] -= np.float32(0.5) * gradient
