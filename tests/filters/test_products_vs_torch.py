"""Matrix products, contractions and Gram matrices against PyTorch: values and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openbnns as ob
from helpers import numbers

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")


def close(ours: Any, theirs: Any, terms: int) -> None:
    theirs = theirs.detach().numpy()
    scale = float(np.abs(theirs).max()) or 1.0
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=scale * 1e-6 * (4 + np.sqrt(terms)))


@pytest.mark.parametrize("seed", range(12))
def test_matmul(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, k, n = (int(x) for x in rng.integers(1, 90, 3))
    heads, batch, alpha = int(rng.integers(1, 4)), int(rng.integers(1, 9)), float(rng.choice([1.0, 0.25]))
    turn_a, turn_b = bool(rng.integers(2)), bool(rng.integers(2))
    a = numbers(batch, heads, *((k, m) if turn_a else (m, k)), seed=seed)
    b = numbers(batch, 1, *((n, k) if turn_b else (k, n)), seed=seed + 1)
    layer = ob.BroadcastMatrixMultiplyLayer(
        input_a=a[0], input_a_transposed=turn_a, input_b=b[0], input_b_transposed=turn_b, alpha=alpha
    )
    ta, tb = (torch.from_numpy(t.copy()).requires_grad_() for t in (a, b))
    y = alpha * ((ta.transpose(-1, -2) if turn_a else ta) @ (tb.transpose(-1, -2) if turn_b else tb))
    dy = numbers(*y.shape, seed=seed + 2)
    y.backward(torch.from_numpy(dy))
    close(layer.apply(a, b), y, k)
    gradients = layer.apply_backward(a, b, output_gradient=dy)
    close(gradients.input_a, ta.grad, n)
    close(gradients.input_b, tb.grad, m * heads)


@pytest.mark.parametrize(
    ("operation", "einsum"),
    [
        ("a_ijp, b_ijq -> o_pq", "nijp,nijq->npq"),
        ("a_ihd, b_jhd -> c_hij", "nihd,njhd->nhij"),
        ("a_ijk, b_kjl -> c_lij", "nijk,nkjl->nlij"),
        ("a_ij, b_kl -> c_kjli", "nij,nkl->nkjli"),
        ("a_ijk, b_j -> c_ki", "nijk,nj->nki"),
        ("a_ij, w_jk -> c_ki", "nij,jk->nki"),
        ("w_ijk, a_kl -> c_jil", "ijk,nkl->njil"),
    ],
)
def test_einsum(operation: str, einsum: str) -> None:
    rng = np.random.default_rng(len(operation))
    left = einsum.split("->", maxsplit=1)[0].split(",")
    sizes = {letter: int(rng.integers(2, 19)) for letter in "ijklhdpq"} | {"n": 3}
    a, b = (numbers(*(sizes[x] for x in letters), seed=k) for k, letters in enumerate(left))
    samples = [x[0] if letters[0] == "n" else x for x, letters in zip((a, b), left, strict=True)]
    layer = ob.TensorContractionLayer(operation=operation, input_a=samples[0], input_b=samples[1], alpha=1.5)
    ta, tb = (torch.from_numpy(t.copy()).requires_grad_() for t in (a, b))
    y = 1.5 * torch.einsum(einsum, ta, tb)
    dy = numbers(*y.shape, seed=9)
    y.backward(torch.from_numpy(dy))
    given = [x if letters[0] == "n" else None for x, letters in zip((a, b), left, strict=True)]
    close(layer.apply(*given), y, 400)
    gradients = layer.apply_backward(*given, output_gradient=dy)
    close(gradients.input_a, ta.grad, 400)
    close(gradients.input_b, tb.grad, 400)


def test_gram() -> None:
    x, dy = numbers(3, 17, 9, 11, seed=0), numbers(3, 17, 17, seed=1)
    layer = ob.GramLayer(input=x, alpha=0.5)
    t = torch.from_numpy(x.copy()).requires_grad_()
    y = 0.5 * t.flatten(2) @ t.flatten(2).transpose(-1, -2)
    y.backward(torch.from_numpy(dy))
    close(layer.apply(x), y, 99)
    close(layer.apply_backward(x, output_gradient=dy).input, t.grad, 34)
