"""Tensor functions and reductions against PyTorch: values and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import openbnns as bn

pytestmark = pytest.mark.peers
R = bn.ReductionFunction
RNG = np.random.default_rng(0)


def same(ours: Any, theirs: Any, **tolerance: float) -> None:
    np.testing.assert_allclose(ours, theirs.detach().numpy(), **({"rtol": 1e-5, "atol": 1e-6} | tolerance))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_selections(axis: int) -> None:
    x = RNG.standard_normal((7, 11, 5), dtype=np.float32)
    t = torch.from_numpy(x)
    flat = RNG.integers(0, x.shape[axis], 9)
    each = RNG.integers(0, x.shape[axis], x.shape)
    same(bn.gather(x, flat, axis=axis), torch.index_select(t, axis, torch.from_numpy(flat)))
    same(bn.gather(x, each, axis=axis), torch.gather(t, axis, torch.from_numpy(each)))
    part = bn.gather(x, flat, axis=axis)
    total = bn.scatter(part, flat, x.copy(), axis=axis, reduction_function=R.sum())
    same(total, torch.index_add(t, axis, torch.from_numpy(flat), torch.from_numpy(part)))
    total = bn.scatter(x, each, x.copy(), axis=axis, reduction_function=R.sum())
    same(total, torch.scatter_add(t, axis, torch.from_numpy(each), t))
    values, indices = torch.topk(t, 3, dim=axis)
    top = bn.apply_top_k(3, x, axis=axis)
    same(top.values, values)
    same(top.indices, indices)


def test_moves() -> None:
    x = RNG.standard_normal((2, 12, 4, 6), dtype=np.float32)
    t = torch.from_numpy(x)
    same(bn.shuffle(bn.ShuffleType.PIXEL_SHUFFLE_NCHW, x, block_size=2), torch.pixel_shuffle(t, 2))
    same(bn.shuffle(bn.ShuffleType.PIXEL_UNSHUFFLE_NCHW, x, block_size=2), torch.pixel_unshuffle(t, 2))
    same(bn.tile(x, repeats=(2, 1, 3, 2)), torch.tile(t, (2, 1, 3, 2)))
    same(bn.transpose(x, first_transpose_axis=1, second_transpose_axis=-1), t.transpose(1, -1))
    same(bn.copy_band_part(x, upper_band_count=1), torch.tril(t, 1))
    leaf = t.clone().requires_grad_()
    tiled = torch.tile(leaf, (2, 1, 3, 2))
    dy = RNG.standard_normal(tiled.shape).astype(np.float32)
    tiled.backward(torch.from_numpy(dy))
    assert leaf.grad is not None
    same(bn.tile_backward(dy, input_shape=x.shape), leaf.grad)


TORCH = {
    "max": torch.amax, "min": torch.amin, "mean": torch.mean, "sum": torch.sum, "logsumexp": torch.logsumexp,
    "l2": lambda t, axes, keepdim: torch.linalg.vector_norm(t, 2, axes, keepdim),
    "l1": lambda t, axes, keepdim: torch.linalg.vector_norm(t, 1, axes, keepdim),
    "squares": lambda t, axes, keepdim: (t * t).sum(axes, keepdim),
    "logs": lambda t, axes, keepdim: (t.abs() + 0.5).log().sum(axes, keepdim),
}  # fmt: skip
OURS = {"max": 0, "min": 1, "mean": 4, "sum": 6, "squares": 7, "l1": 9, "l2": 12, "logsumexp": 13, "logs": 8}


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("name", OURS)
def test_reductions(name: str, axes: tuple[int, ...]) -> None:
    x = RNG.standard_normal((5, 4, 6, 7), dtype=np.float32)
    x = np.abs(x) if name == "logs" else x
    epsilon = 0.5 if name == "logs" else 0.0
    function = R(name, bn.capi.BNNSReduceFunction(OURS[name]), epsilon=epsilon, labels=())
    layer = bn.ReductionLayer(function=function, input=bn.Shape([4, 6, 7]), axes=axes)
    t = torch.from_numpy(x).requires_grad_()
    expected = TORCH[name](t, tuple(a + 1 for a in axes), keepdim=True)
    y = layer.apply(x)
    same(y, expected)
    dy = RNG.standard_normal(y.shape).astype(np.float32)
    expected.backward(torch.from_numpy(dy))
    assert t.grad is not None
    same(layer.apply_backward(x, y, dy).input, t.grad, rtol=2e-5, atol=1e-5)
