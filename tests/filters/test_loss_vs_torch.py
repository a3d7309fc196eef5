"""Losses against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as f

from cases.loss import LossCase, LossRun
from helpers import assert_within, vector


@pytest.mark.peers
@pytest.mark.parametrize("reduction", ["Mean", "Sum", "None"])
@pytest.mark.parametrize(
    "name", ["SoftmaxCrossEntropy", "SigmoidCrossEntropy", "MeanSquareError", "Huber", "MeanAbsoluteError", "Log"]
)
def test_against_pytorch(name: str, reduction: str, engine: str) -> None:
    case = LossCase(name, reduction, batch=9, x=vector(21), smooth=0.1 if name == "SoftmaxCrossEntropy" else 0.0)
    values = case.values()
    if name == "SoftmaxCrossEntropy":
        values["t"] = np.float32(values["t"] / values["t"].sum(axis=1, keepdims=True)).astype(np.float64)
    x, t = torch.from_numpy(values["x"]).requires_grad_(), torch.from_numpy(values["t"])
    how = {"Mean": "mean", "Sum": "sum", "None": "none"}[reduction]
    compute: dict[str, Any] = {
        "SoftmaxCrossEntropy": lambda: f.cross_entropy(x, t, reduction=how, label_smoothing=0.1),
        "SigmoidCrossEntropy": lambda: f.binary_cross_entropy_with_logits(x, t, reduction=how),
        "MeanSquareError": lambda: f.mse_loss(x, t, reduction=how),
        "Huber": lambda: f.huber_loss(x, t, reduction=how, delta=case.settings.huber_delta),
        "MeanAbsoluteError": lambda: f.l1_loss(x, t, reduction=how),
        "Log": lambda: f.binary_cross_entropy(x, t, reduction=how),
    }
    loss = compute[name]()
    run = LossRun(case, values)
    out, _ = run.forward()
    value_bound, slope_bound = case.bound(values)
    if name in ("Log", "SoftmaxCrossEntropy"):  # epsilon; labels that sum to 1 only up to rounding
        value_bound, slope_bound = value_bound + 4e-6 * (189 if how == "sum" else 1), slope_bound + 1e-4
    assert_within(out.read().reshape(-1), loss.detach().numpy().reshape(-1), value_bound, name)
    loss.backward(torch.from_numpy(values["u"]).reshape(loss.shape))
    assert_within(run.backward().read(), x.grad.numpy(), slope_bound, name)
