"""Tensors and buffers do not change in ``forward``: what PyTorch would change is refused, or makes a new tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from networks import numbers
from openbnns import nn
from openbnns.nn import functional as F


def run(body: Callable[[Any], Any]) -> Any:
    class Body(nn.Module):
        def forward(self, x: Any) -> Any:
            return body(x)

    return Body()(numbers(4, 3))


def assigned(x: Any) -> Any:
    x[:, 0] = 1
    return x


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (
            assigned,
            TypeError,
            r"x\[\.\.\.\] = y is not possible in forward\(\)\. Make a new one: x = nn\.functional\.where",
        ),
        (lambda x: x.add_(1), AttributeError, r"no 'add_'\. A Tensor does not change\. Write x = x\.add\(\.\.\.\)"),
        (
            lambda x: x.clamp_(0),
            AttributeError,
            r"no 'clamp_'\. A Tensor does not change\. Write x = x\.clamp\(\.\.\.\)",
        ),
        (lambda x: x.gelu_(), AttributeError, r"does not change\. Write x = nn\.functional\.gelu\(x, \.\.\.\)"),
        (lambda x: x.copy_(x), AttributeError, r"A Tensor has no 'copy_'\. A Tensor does not change\.$"),
    ],
)
def test_what_would_change_a_tensor(body: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run(body)


def test_other_names_keep_their_numbers() -> None:
    def body(x: Any) -> Any:
        y = x
        y += 1
        return x, y, F.relu(x, inplace=True), x.clone(), x[:, :1].view_as(x[:, 0]) * (x.numel() // x.shape[0])

    x = numbers(4, 3)
    results = run(body)
    for one, other in zip(results, (x, x + 1, np.maximum(x, 0), x, 3 * x[:, 0]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


class Running(nn.Module):
    """Running statistics as in PyTorch: a buffer that forward changes."""

    def __init__(self, adds: bool) -> None:
        super().__init__()
        self.adds = adds
        self.register_buffer("mean", np.zeros(3, np.float32))

    def forward(self, x: Any) -> Any:
        if self.adds:
            self.mean += 1
        else:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - self.mean


@pytest.mark.parametrize("adds", [False, True])
def test_a_buffer_is_not_assigned_to_in_forward(adds: bool) -> None:
    """It would happen once, when forward is recorded, and then never again."""
    net = Running(adds)
    with pytest.raises(
        TypeError, match=r"Running\.mean is a buffer, and forward assigns to it.*assign it after the call"
    ):
        net(numbers(4, 3))
    net.mean = np.ones(3)
    assert net.state_dict()["mean"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("RReLU", "Use LeakyReLU"), ("SyncBatchNorm", "sync_batch_norm=True"),
        ("swa_utils", "Use nn.EMA"), ("ParameterDict", "in an nn.ModuleDict"),
    ],
)  # fmt: skip
def test_names_that_are_elsewhere(name: str, message: str) -> None:
    with pytest.raises(AttributeError, match=message):
        getattr(nn, name)
