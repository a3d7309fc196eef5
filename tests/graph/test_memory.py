"""Copies that a backward pass avoids and values that a forward pass does not keep, without a difference in any number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns
from networks import numbers
from openbnns import nn
from openbnns.graph import program as _program
from openbnns.graph.memory import Block, plan
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


# Sums of sums of h: a step adds to the gradient of one part while it shares that of another.


def added_behind(n: Any, x: Any) -> Any:
    h = n.f(x)
    return n.h((n.g(h) + h) + h)


def added_in_front(n: Any, x: Any) -> Any:
    h = n.f(x)
    return n.h(h + (h + n.g(h)))


def subtracted_and_added(n: Any, x: Any) -> Any:
    h = n.f(x)
    return n.h(n.g(h) - h + h)


def both_parts_again(n: Any, x: Any) -> Any:
    h = n.f(x)
    a = n.g(h)
    return n.h((a + h) + a)


def four_times(n: Any, x: Any) -> Any:
    h = n.f(x)
    return n.h((h + h) + (h + h))


def nested_residual(n: Any, x: Any) -> Any:
    return n.h(nn.Residual(nn.Residual(n.g))(n.f(x)))


BODIES = [
    residual, early_branch, twice, chain_of_sums, read_between, with_parameter, reshaped, a_sum_is_the_output, detached,
    subtracted, added_behind, added_in_front, subtracted_and_added, both_parts_again, four_times, nested_residual,
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


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
@pytest.mark.parametrize("engine", ["native", "reference"])
def test_gradients_of_sums_are_slopes(body: Callable[..., Any], engine: str) -> None:
    with openbnns.engine(engine):
        report = openbnns.gradcheck(Net(body).build((5, 6), seed=1).train(), numbers(3, 5, 6), samples=3)
    assert report.passed, report


def test_the_sums_of_residual_networks_cost_nothing_on_the_way_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def program() -> Any:
        return Net(residual).build((5, 6)).program(4, training=True)

    shared = program()
    sums = [step for step in shared._backward_steps if type(step.operation).__name__ == "Node"]
    assert [[target.shared for target in step.targets] for step in sums] == [[True, True]] * 2
    monkeypatch.setattr(_program, "share", lambda *_: None)
    plain = program()
    assert shared.arena_bytes <= plain.arena_bytes
    assert len(shared._backward.calls) == len(plain._backward.calls) - 2


class Expanded(nn.Module):
    """Cheap functions between linear layers, which the backward pass computes again."""

    def __init__(self, *, twice: bool = False) -> None:
        super().__init__()
        self.wide = nn.ModuleList(nn.Linear(6, 24) for _ in range(3))
        self.narrow = nn.ModuleList(nn.Linear(24, 6) for _ in range(3))
        self.other, self.twice = nn.Linear(24, 6), twice

    def forward(self, x: Any) -> Any:
        for wide, narrow in zip(self.wide, self.narrow, strict=True):
            h = F.gelu(wide(x))
            x = narrow(h) + F.silu(x)
            x = x + self.other(h) if self.twice else x
        return x


def test_cheap_values_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((7, 5, 6)).astype(np.float32)
    dy = np.random.default_rng(1).standard_normal((7, 5, 6)).astype(np.float32)

    def run() -> list[Any]:
        net = Expanded().build((5, 6), seed=1)
        results = []
        for _ in range(3):
            results += [net(x), net.backward(dy), *(p.grad.copy() for p in net.parameters() if p.used)]
        net.requires_grad_(False)
        net.narrow[0].requires_grad_()
        results += [net(x), net.backward(dy), net.narrow[0].weight.grad.copy()]
        return [*results, net.requires_grad_().program(7, training=True).arena_bytes]

    again = run()
    assert len(Expanded().build((5, 6)).program(7, training=True)._repeated) == 3
    monkeypatch.setattr(_program.Program, "_find_repeated", lambda self: None)
    kept = run()
    assert again.pop() < kept.pop()
    for ours, plain in zip(again, kept, strict=True):
        np.testing.assert_array_equal(ours, plain)


def test_what_is_read_twice_on_the_way_back_is_kept() -> None:
    assert not Expanded(twice=True).build((5, 6)).program(7, training=True)._repeated


def test_layers_share_what_they_need_for_a_moment() -> None:
    def planned(layers: int) -> Any:
        return nn.LSTM(16, 16, num_layers=layers).build((10, 16)).program(8, training=True)

    two, three = planned(2), planned(3)
    moment = max(block.size for block in three.scratch_blocks.values())
    assert moment == 4 * 8 * 10 * (16 + 16)
    assert three.arena_bytes - two.arena_bytes < moment
    assert all(not step.scratch.size for step in three.graph.operations)


@pytest.mark.parametrize("seed", range(30))
def test_blocks_lie_where_trying_all_places_puts_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks = []
    for _ in range(int(rng.integers(0, 60))):
        start, end = sorted((rng.integers(0, 50, 2) / 2).tolist())
        blocks.append(Block(int(rng.choice([0, 1, 64, 100, 3000])), start, end))
    total = plan(blocks)
    placed: list[Block] = []
    for block in sorted(blocks, key=lambda b: (-b.size, b.start)):
        size = -(-block.size // 64) * 64
        used = sorted(
            (b.offset, b.offset - (-b.size // 64) * 64) for b in placed if b.start <= block.end and block.start <= b.end
        )
        gaps, end = [], 0
        for begin, top in used:
            gaps.append((begin - end, end))
            end = max(end, top)
        fitting = [gap for gap in gaps if gap[0] >= size]
        assert block.offset == (min(fitting)[1] if fitting else end)
        placed.append(block)
    assert total == max((b.offset - (-b.size // 64) * 64 for b in blocks), default=0)
