"""Pooling against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as f

from cases import pooling as cases
from cases.pooling import PoolingCase, c_order, simple

PEERS = [
    c for c in [*cases.SHAPES, *cases.NO_INDICES]
    if c.function != "L2Norm" and c.pad == (0, 0, 0, 0) and not c.overhangs and c.b is None
    and all(2 * p <= k for p, k in zip(c.symmetric, c.kernel, strict=True))
    and (c.dilation == (1, 1) or c.function == "Max")
]  # fmt: skip


@pytest.mark.peers
@pytest.mark.parametrize("c", PEERS, ids=lambda c: c.id)
@pytest.mark.parametrize("special", [False, True], ids=["", "special"])
def test_against_pytorch(c: PoolingCase, special: bool, engine: str) -> None:
    """Values, indices and gradients; also with ties, NaN and all-negative data."""
    values = dict(c.values())
    if special:
        rng = c.generator(5)
        values["x"] = rng.integers(-3, 0, values["x"].shape).astype(np.float64)
        values["x"][rng.random(values["x"].shape) < 0.05] = np.nan
    x = torch.from_numpy(c_order(values["x"])).requires_grad_()
    if c.function == "Max":
        y, indices = f.max_pool2d(x, c.kernel, c.step, c.symmetric, c.dilation, return_indices=True)
    else:
        include = c.function != "AverageCountExcludePadding"
        y, indices = f.avg_pool2d(x, c.kernel, c.step, c.symmetric, count_include_pad=include), None
    y.backward(torch.from_numpy(c_order(values["dy"])))
    run = c.run(values)
    run.forward()
    np.testing.assert_allclose(c_order(run.y.read()), y.detach().numpy(), rtol=1e-5, atol=1e-6)
    if run.indices is not None and indices is not None:
        np.testing.assert_array_equal(run.indices.read().transpose(0, 3, 2, 1), indices.numpy())
    assert x.grad is not None
    np.testing.assert_allclose(c_order(run.backward()["dx"].read()), x.grad.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.peers
@pytest.mark.parametrize(
    "c", [c for c in cases.UNMAX if c.b is None and c.dilation == (1, 1) and not any(c.pad)], ids=lambda c: c.id
)
def test_unmax_against_pytorch(c: PoolingCase, engine: str) -> None:
    values = c.values()
    x = torch.from_numpy(c_order(values["x"])).requires_grad_()
    indices = torch.from_numpy(np.ascontiguousarray(values["indices"].transpose(0, 3, 2, 1)))
    y = f.max_unpool2d(x, indices, c.kernel, c.step, c.symmetric, output_size=c.y.size[1::-1])
    y.backward(torch.from_numpy(c_order(values["dy"])))
    run = c.run(values)
    run.forward()
    np.testing.assert_array_equal(c_order(run.y.read()), y.detach().numpy())
    assert x.grad is not None
    np.testing.assert_array_equal(c_order(run.backward()["dx"].read()), x.grad.numpy())


@pytest.mark.peers
def test_norm_against_pytorch(engine: str) -> None:
    c = simple("L2Norm", "", size=(8, 10), kernel=(3, 2), step=(2, 2), channels=3, batch=2)
    values = c.values()
    x = torch.from_numpy(c_order(values["x"])).requires_grad_()
    y = f.lp_pool2d(x, 2, c.kernel, c.step)
    y.backward(torch.from_numpy(c_order(values["dy"])))
    run = c.run(values)
    run.forward()
    np.testing.assert_allclose(c_order(run.y.read()), y.detach().numpy(), rtol=1e-5)
    assert x.grad is not None
    np.testing.assert_allclose(c_order(run.backward()["dx"].read()), x.grad.numpy(), rtol=1e-4, atol=1e-6)
