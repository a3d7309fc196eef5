"""Inputs that are looked up, masks, and inputs that nothing depends on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from networks import numbers
from openbnns import nn
from openbnns.nn import functional as F

IDS = np.array([[0, 3, 1], [4, 4, 2]])


class Recorded(nn.Module):
    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.body = body
        self.table = nn.Parameter(numbers(5, 4, seed=1))

    def forward(self, x: Any, ids: Any) -> Any:
        return self.body(self, x, ids)


def test_integers_stay_integers_when_an_input_becomes_whole_later() -> None:
    """The table is looked up after a gather by numbers that were computed from the same input."""

    def body(net: Recorded, x: Any, ids: Any) -> Any:
        places = (ids % 3).long()[..., None].expand(-1, -1, 4)
        return x.gather(1, places) + x.scatter_add(1, places, x) * F.embedding(ids, net.table)

    net, x = Recorded(body), numbers(2, 3, 4)
    places = np.repeat((IDS % 3)[..., None], 4, 2)
    added = x.copy()
    for n, t, c in np.ndindex(x.shape):
        added[n, places[n, t, c], c] += x[n, t, c]
    expected = np.take_along_axis(x, places, 1) + added * net.table.data[IDS]
    np.testing.assert_allclose(net(x, IDS), expected, rtol=1e-5, atol=1e-6)


def test_the_gradient_of_an_input_that_nothing_depends_on_is_zero() -> None:
    """Also after a run with another number of samples, which uses the same memory."""

    def body(net: Recorded, x: Any, ids: Any) -> Any:
        chosen = (x[..., 0] > 0).long()
        return F.nll_loss(F.log_softmax(F.embedding(ids, net.table), -1).transpose(1, 2), chosen)

    net = Recorded(body)
    for count in (2, 1, 2, 2, 1):
        net(numbers(count, 3, 4, seed=count), IDS[:count])
        gradient, _ = net.backward(np.float32(3))
        assert gradient.shape == (count, 3, 4)
        assert not gradient.any()


def attended(x: Any, added: Any) -> Any:
    scores = x @ x.transpose(0, 2, 1) / 2 + added
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ x


def test_masks_of_attention() -> None:
    """A mask says which positions take part; float() makes numbers of it, which are added, as in PyTorch."""
    x = numbers(2, 3, 4)
    positive = x[..., :1].transpose(0, 2, 1) > -0.5
    seen = np.array([[1, 0, 1], [1, 1, 0]], np.bool_)
    forbidden = np.where(seen, 0, -np.inf)[:, None]

    def attention(mask: Callable[[Any, Any], Any]) -> nn.Module:
        return Recorded(lambda net, x, m: F.scaled_dot_product_attention(x, x, x, attn_mask=mask(x, m)))

    for mask, added in (
        (lambda x, m: (x[..., 0] > -0.5)[:, None], np.where(positive, 0, -np.inf)),
        (lambda x, m: (x[..., 0] > -0.5)[:, None].float(), positive.astype(np.float64)),
        (lambda x, m: (x[..., 0] > -0.5).float()[:, None], positive.astype(np.float64)),
        (lambda x, m: m.bool()[:, None], forbidden),
        (lambda x, m: m[:, None].float(), seen[:, None].astype(np.float64)),
        (lambda x, m: (1 - m[:, None].float()) * -1e9, forbidden),
    ):
        expected = attended(x.astype(np.float64), added)
        np.testing.assert_allclose(attention(mask)(x, seen), expected, rtol=1e-4, atol=1e-5)
    for mask in (lambda x, m: m[:, None], lambda x, m: m.unsqueeze(1).expand(-1, 3, -1)):
        with pytest.raises(
            ValueError, match=r"input 1 is boolean, but the network adds it to scores.*attn_mask=mask\.bool\(\)"
        ):
            attention(mask)(x, seen)
        numbers_given = forbidden[:, 0].astype(np.float32)
        np.testing.assert_allclose(
            attention(mask)(x, numbers_given), attended(x.astype(np.float64), forbidden), rtol=1e-4
        )


class Scaled(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2.0


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_integers_that_float32_does_not_hold_are_refused(dtype: Any) -> None:
    net, large = Scaled(), min(3_000_000_007, int(np.iinfo(dtype).max))
    message = f"input 0 holds {large}, which float32 does not: it would be rounded. Pass float32 numbers, or"
    with pytest.raises(ValueError, match=message):
        net(np.array([[1], [large]], dtype))
    np.testing.assert_array_equal(net(np.array([[1], [1 << 30]], dtype)), [[2], [1 << 31]])
    with pytest.raises(ValueError, match=message):  # by the program of the call before
        net(np.array([[1], [large]], dtype))


def test_the_ends_of_integers() -> None:
    net = Scaled()
    for held in (1 << 24, -(1 << 24), (1 << 25) - 2, -(1 << 63)):
        assert net(np.int64([[held]])) == np.float32(held) * 2
    for lost in ((1 << 24) + 1, -(1 << 24) - 1, (1 << 63) - 1, -(1 << 63) + 1):
        with pytest.raises(ValueError, match=f"holds {lost}, which float32 does not"):
            net(np.int64([[lost]]))


def test_unsigned_integers_that_int64_does_not_hold_are_refused() -> None:
    class Looked(nn.Module):
        def forward(self, x: Any) -> Any:
            return F.index_select(np.eye(3, dtype=np.float32), 0, x)

    large = np.array([1 << 63], np.uint64)
    net = Looked()
    net(np.array([1]))
    with pytest.raises(ValueError, match="input 0 holds 9223372036854775808, which int64 does not: pass"):
        net(large)
    with pytest.raises(ValueError, match="an array holds 9223372036854775808, which int64 does not"):
        F.mul(large, 1)


def test_functions_of_large_integers_are_exact() -> None:
    y = F.mul(np.int64([3_000_000_007]), 1)
    assert y.dtype == np.int64 and y.tolist() == [3_000_000_007]
