"""Embedding against torch.nn.functional.embedding: values and gradients over padding, norms and frequencies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import openbnns as ob

pytestmark = pytest.mark.peers

NORMS = ((0.0, 2.0), (2.5, 2.0), (6.0, 1.0), (1.0, np.inf), (2.0, 3.0))


@pytest.mark.parametrize(
    ("padding", "norm", "frequency"),
    list(itertools.product((None, 0, 16), NORMS, (False, True))),
)
def test_embedding(padding: int | None, norm: tuple[float, float], frequency: bool) -> None:
    rng = np.random.default_rng(7)
    words = np.float32(rng.standard_normal((17, 9)))
    x = rng.integers(0, 17, (5, 12))
    dy = np.float32(rng.standard_normal((5, 12, 9)))
    layer = ob.EmbeddingLayer(
        input=ob.Shape.vector(12), dictionary=words, padding_index=padding, maximum_norm=norm[0], norm_type=norm[1],
        scales_gradient_by_frequency=frequency,
    )  # fmt: skip
    y, gradient = layer.apply(x), layer.apply_backward(x, None, dy).weights

    leaf = torch.tensor(words, requires_grad=True)
    peer = torch.nn.functional.embedding(
        torch.tensor(x), leaf, padding_idx=padding,
        max_norm=norm[0] or None, norm_type=norm[1], scale_grad_by_freq=frequency,
    )  # fmt: skip
    expected = peer.detach().numpy()
    if padding is not None:  # PyTorch reads the padding entry as it is stored
        expected = np.where((x == padding)[..., None], 0, expected)
    np.testing.assert_allclose(y, expected, rtol=2e-6)
    (theirs,) = torch.autograd.grad(peer, leaf, torch.tensor(dy))
    np.testing.assert_allclose(gradient, theirs.numpy(), rtol=1e-5, atol=1e-6)
    assert np.count_nonzero(gradient) > gradient.size // 2
