"""Gradients of sums lie in the memory of their parts, where nobody would see a difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openbnns import nn
from openbnns.nn import _program
from openbnns.nn import functional as F


class Net(nn.Module):
    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.body = body
        self.f, self.g, self.h = (nn.Linear(6, 6) for _ in range(3))
        self.p = nn.Parameter(np.ones((5, 6)))

    def forward(self, x: Any) -> Any:
        return self.body(self, x)


def residual(n: Any, x: Any) -> Any:
    x = n.f(x)
    for layer in (n.g, n.h):
        x = x + layer(F.tanh(x))
    return n.f(x)


def early_branch(n: Any, x: Any) -> Any:
    """A part of the last sum is computed before those of the first: its gradient is read last."""
    x = n.f(x)
    early = n.g(x)
    first = x + n.h(x)
    return n.f(first + early)


def twice(n: Any, x: Any) -> Any:
    x = n.f(x)
    return n.g(x + x)


def chain_of_sums(n: Any, x: Any) -> Any:
    a, b, c = n.f(x), n.g(x), n.h(x)
    total = a + b + c
    return n.f(total - a + b * a)


def read_between(n: Any, x: Any) -> Any:
    x = n.f(x)
    y = n.g(x)
    z = n.h(x)
    return n.f((x + y) * z)


def with_parameter(n: Any, x: Any) -> Any:
    y = n.f(x) + n.p
    return n.g(y + n.p * y)


def reshaped(n: Any, x: Any) -> Any:
    y = n.f(x)
    z = n.g(y).flatten(1) + y.flatten(1)
    return n.h(z.view(-1, 5, 6)) + z.view(-1, 5, 6)


def a_sum_is_the_output(n: Any, x: Any) -> Any:
    y = n.f(x)
    total = y + n.g(y)
    return total, n.h(total)


def detached(n: Any, x: Any) -> Any:
    y = n.f(x)
    return n.g(y + n.h(y).detach())


def subtracted(n: Any, x: Any) -> Any:
    y = n.f(x)
    return n.g(n.h(y) - y) - n.f(y)


BODIES = [
    residual, early_branch, twice, chain_of_sums, read_between, with_parameter, reshaped, a_sum_is_the_output, detached,
    subtracted,
]  # fmt: skip


def gradients(body: Callable[..., Any]) -> list[Any]:
    random = np.random.default_rng(0)
    x = random.standard_normal((3, 5, 6)).astype(np.float32)
    net = Net(body).build((5, 6), seed=1)
    results = []
    for _ in range(3):  # recorded, then replayed
        y = net(x)
        several = isinstance(y, tuple)
        dy = [random.standard_normal(part.shape).astype(np.float32) for part in (y if several else (y,))]
        dx = net.backward(tuple(dy) if several else dy[0])
        results += [dx, *(p.grad.copy() for p in net.parameters() if p.used)]
        net(x)
        net.backward(tuple(dy) if several else dy[0], input_gradient=False)
        results += [p.grad.copy() for p in net.parameters() if p.used]
    return results


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_sharing_changes_no_number(body: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    shared = gradients(body)
    monkeypatch.setattr(_program, "share", lambda *_: None)
    for ours, plain in zip(shared, gradients(body), strict=True):
        np.testing.assert_array_equal(ours, plain)


def test_the_sums_of_residual_networks_cost_nothing_on_the_way_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def program() -> Any:
        return Net(residual).build((5, 6)).program(4, training=True)

    shared = program()
    sums = [step for step in shared._backward_steps if type(step.operation).__name__ == "Arithmetic"]
    assert [[target.shared for target in step.targets] for step in sums] == [[True, True]] * 2
    monkeypatch.setattr(_program, "share", lambda *_: None)
    plain = program()
    assert shared.arena_bytes <= plain.arena_bytes
    assert len(shared._backward.calls) == len(plain._backward.calls) - 2
