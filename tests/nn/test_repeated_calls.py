"""Calls of networks for inference, again and again: on several inputs, on inputs that grow, with weights that change.

Each mechanism that makes the second call cheaper is compared with a new network that has none of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from networks import numbers
from openbnns import nn


class Lookup(nn.Module):
    """Rows of a table by whole numbers, and a number for every sample."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.linear = nn.Embedding(9, 6), nn.Linear(6, 4)

    def forward(self, ids: Any, weights: Any) -> Any:
        return {"rows": self.linear(self.table(ids)) * weights, "weights": weights + 1}


def test_several_inputs_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of the same shapes and kinds go to a program at once, also in other widths, layouts and byte orders."""
    net = Lookup().build((5,), (1, 1), seed=0).eval()
    ids, weights = np.array([[1, 8, 0, 2, 2]]), numbers(1, 1, 1)
    expected = net(ids, weights)
    monkeypatch.setattr(nn.Module, "_inputs", lambda *_: pytest.fail("the inputs are checked again"))
    strided = np.repeat(ids, 2, axis=1)[:, ::2]
    for given in (ids, ids.astype(np.int32), ids.astype(np.uint16).astype(np.int16), strided, ids.astype(">i4")):
        for scale in (weights, weights.astype(np.float64), weights.astype(">f4")):
            result = net(given, scale)
            np.testing.assert_array_equal(result["rows"], expected["rows"])
            np.testing.assert_array_equal(result["weights"], expected["weights"])


def test_what_does_not_fit_is_refused_as_before() -> None:
    net = Lookup().build((5,), (1, 1), seed=0).eval()
    ids, weights = np.array([[1, 8, 0, 2, 2]]), numbers(1, 1, 1)
    net(ids, weights)
    with pytest.raises(ValueError, match="takes whole numbers from it"):
        net(ids.astype(np.float32), weights)
    with pytest.raises(ValueError, match="the index 9 at sample 0"):
        net(ids + 1, weights)
    with pytest.raises(ValueError, match="input 1 is complex64"):
        net(ids, weights.astype(np.complex64))
    np.testing.assert_array_equal(net(ids, weights)["weights"], weights + 1)
