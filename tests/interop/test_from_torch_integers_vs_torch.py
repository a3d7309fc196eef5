"""Whole numbers of PyTorch that float32 does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openbnns import nn

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "clamp": lambda x: x.clamp(0, 2**41), "clamp with a tensor": lambda x: x.clamp(x.flip(1)),
    "clamp_min": lambda x: x.clamp_min(4),
    "clamp_max": lambda x: x.clamp_max(2**30 + 1), "where": lambda x: torch.where(x > 5, x, x * 0 + 2**24 + 1),
    "masked_fill": lambda x: x.masked_fill(x < 0, 2**33 + 1), "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x[:, 1:].cumprod(1),
    "max": lambda x: x.max(1)[0], "min": lambda x: x.min(1)[0], "argmax": lambda x: x.argmax(1), "max of all": lambda x: x.max(),
    "maximum": lambda x: torch.max(x, x.flip(1)), "pad": lambda x: torch.nn.functional.pad(x, (1, 1), value=2**24 + 3),
    "tril": lambda x: x.tril(), "triu": lambda x: x.triu(), "matmul": lambda x: x @ torch.ones(4, 3, dtype=torch.int64),
    "pow": lambda x: x[:, 1:] ** 2, "trunc": lambda x: torch.div(x, 3, rounding_mode="trunc"), "round": lambda x: x.round(),
    "addmm": lambda x: torch.addmm(torch.ones(3, dtype=torch.int64), x, torch.ones(4, 3, dtype=torch.int64), beta=2, alpha=3),
    "cumsum of numbers": lambda x: (x[:, 2:] * 1.5).cumsum(1, dtype=torch.int64),
    "sum of numbers": lambda x: (x[:, 2:] * 1.5).sum(1, dtype=torch.int64),
    "sum": lambda x: x.sum(1), "prod": lambda x: x[:, 1:].prod(1), "abs": lambda x: x.abs(), "sub": lambda x: x - x.flip(1),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_whole_numbers_are_exact(name: str) -> None:
    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]  # torch need not be installed for type checks
        def forward(self, x: Any) -> Any:
            return FUNCTIONS[name](x)

    x = torch.tensor([[2**40 + 1, 2**24 + 1, 3, -7], [5, -(2**24) - 1, 2**24 + 3, 2**30 + 1]])
    net = nn.from_torch(Net(), x)
    np.testing.assert_array_equal(np.asarray(net(x.numpy())), FUNCTIONS[name](x).numpy())
