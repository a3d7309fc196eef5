"""Checks of functions of values: NumPy's numbers, gradients by differences, and one recording for all sizes of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from openbnns import gradcheck, nn
from openbnns.graph.functions.base import run_at_once, value


def some(*shape: int, seed: int = 0, low: float = -1.5, high: float = 1.5) -> Any:
    """Random numbers that functions of values take."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


class Applied(nn.Module):
    """A function as a network, with parameters behind its inputs."""

    def __init__(self, body: Callable[..., Any], parameters: list[Any] | None = None) -> None:
        super().__init__()
        self.body = body
        for i, array in enumerate(parameters or []):
            setattr(self, f"p{i}", nn.Parameter(array.copy()))

    def forward(self, *inputs: nn.Value) -> Any:
        return self.body(*inputs, *self._parameters.values())


def listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (tuple, list)) else [values]


def check(
    body: Callable[..., Any],
    oracle: Callable[..., Any] | None,
    inputs: list[Any],
    parameters: list[Any] | None = None,
    *,
    free: bool = True,
    gradients: bool = True,
    at_once: bool = False,
) -> None:
    """``oracle`` is the same in NumPy.

    ``free``: one recording serves all sizes of the first axis; ``at_once``: the body takes arrays, too.
    """
    net = Applied(body, parameters).eval()
    weights = parameters or []
    for count in dict.fromkeys((len(inputs[0]), 2 if free else len(inputs[0]))):
        some = [x[:count] for x in inputs]
        exact = [a.astype(np.float64) if a.dtype == np.float32 else a for a in (*some, *weights)]
        outputs = listed(net(*some))
        for y, expected in zip(outputs, listed(oracle(*exact)) if oracle else outputs, strict=True):
            assert y.shape == np.shape(expected)
            np.testing.assert_allclose(y, expected, rtol=3e-5, atol=3e-5)
    if free:
        assert len(net._recordings) == 1, [str(g) for r in net._recordings for g in r.graph.sizes.guards]
    if at_once:
        for y, expected in zip(listed(body(*inputs, *weights)), listed(net(*inputs)), strict=True):
            np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)
    if gradients:
        gradcheck(Applied(body, parameters), *inputs)


class OfParameters(nn.Module):
    """The sum of a function of parameters, each element with a factor of its own."""

    def __init__(self, function: Any, arrays: tuple[Any, ...], cotangent: Any) -> None:
        super().__init__()
        self.function, self.cotangent, self.count = function, np.float32(cotangent), len(arrays)
        for number, array in enumerate(arrays):
            setattr(self, f"p{number}", nn.Parameter(np.array(array, np.float32)))

    def values(self) -> list[Any]:
        return [getattr(self, f"p{number}") for number in range(self.count)]

    def forward(self, x: Any) -> Any:
        return x + (self.function(*(x.graph.parameter(p) for p in self.values())) * self.cotangent).sum()


def gradients(function: Any, *arrays: Any, cotangent: Any) -> list[Any]:
    net = OfParameters(function, arrays, cotangent).build((1,), seed=0).train()
    net(np.zeros((1, 1), np.float32))
    net.backward(np.ones((1, 1), np.float32))
    return [p.grad for p in net.values()]


def split(args: Sequence[Any], count: int | None = None) -> tuple[list[Any], Callable[..., Any]]:
    """The float32 arrays among the first ``count`` arguments, and a function that puts others into their places."""
    places: list[tuple[int, ...]] = []
    for i, x in enumerate(args[:count]):
        parts = [((i, k), part) for k, part in enumerate(x)] if isinstance(x, list) else [((i,), x)]
        places += [place for place, part in parts if isinstance(part, np.ndarray) and part.dtype == np.float32]

    def build(given: Sequence[Any], others: Sequence[Any]) -> list[Any]:
        filled = [list(x) if isinstance(x, list) else x for x in given]
        for place, other in zip(places, others, strict=True):
            target: Any = filled if len(place) == 1 else filled[place[0]]
            target[place[-1]] = other
        return filled

    return [args[p[0]] if len(p) == 1 else args[p[0]][p[1]] for p in places], build


def called(name: str, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """A function of ``nn.functional``, or a method of tensors as "Tensor.name", on arrays or on tensors."""
    if not name.startswith("Tensor."):
        return getattr(nn.functional, name)(*args, **named)

    def method(x: Any, *more: Any) -> Any:
        member = getattr(x, name[7:])
        return member(*more, **named) if callable(member) else member

    return (
        method(*args)
        if isinstance(args[0], nn.Value)
        else run_at_once(lambda x, *more: method(value(x, name), *more), args, {})
    )
