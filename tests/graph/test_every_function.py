"""Every function of ``nn.functional`` has a judge; those in ``function_loops`` are compared here, with their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from function_arguments import ARGUMENTS, RANDOM, Draw
from function_checks import called, gradients, listed, split
from function_loops import LOOPS
from openbnns import nn
from openbnns.nn import functional as F

SEEDS = 9


def test_all_functions_are_judged() -> None:
    """A new function needs random arguments, with which it is compared with PyTorch, or a reason why there are none."""
    functions = {*F.__all__}
    assert {name for name in ARGUMENTS if "." not in name} | {*RANDOM} == functions
    assert not {*RANDOM} & {*ARGUMENTS}
    assert {*LOOPS} <= functions


ABOUT_TENSORS = {"as_indices", "concrete", "count", "dim", "dtype", "is_mask", "ndim", "numel", "size", "storage"}
CREATING = {"new_full", "new_ones", "new_zeros"}


def test_all_methods_are_judged() -> None:
    methods = {name for name in dir(nn.Value) if not name.startswith("_")} - ABOUT_TENSORS - CREATING
    assert methods <= {*F.__all__} | {name.removeprefix("Tensor.") for name in ARGUMENTS}


def exact(x: Any) -> Any:
    if isinstance(x, list):
        return [exact(part) for part in x]
    return x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype == np.float32 else x


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name: str) -> None:
    for seed in range(SEEDS):
        args, named = ARGUMENTS[name](Draw(seed))
        try:
            compare(name, args, named, seed)
        except AssertionError as problem:
            raise AssertionError(f"{name}, seed {seed}: {args}, {named}") from problem


def compare(name: str, args: tuple[Any, ...], named: dict[str, Any], seed: int) -> None:
    loop, given = LOOPS[name], [exact(x) for x in args]
    named_exactly = {key: exact(x) for key, x in named.items()}
    expected = listed(loop(*given, **named_exactly))
    actual = listed(called(name, args, named))
    for y, right in zip(actual, expected, strict=True):
        assert y.shape == np.shape(right)
        largest = np.abs(right, where=np.isfinite(right), out=np.zeros(y.shape)).max(initial=1)
        np.testing.assert_allclose(y, right, rtol=3e-5, atol=3e-5 * largest)
    parts, build = split(args)
    random = np.random.default_rng(seed)
    cotangent = random.standard_normal(actual[0].shape).astype(np.float32)
    ours = gradients(lambda *x: listed(called(name, build(args, x), named))[0], *parts, cotangent=cotangent)
    ways = [random.standard_normal(x.shape) for x in parts]
    ends = [
        (
            listed(
                loop(*build(given, [exact(x) + h * way for x, way in zip(parts, ways, strict=True)]), **named_exactly)
            )[0]
            * cotangent
        ).sum()
        for h in (1e-6, -1e-6)
    ]
    terms = [(dx * way).sum() for dx, way in zip(ours, ways, strict=True)]
    size = sum(np.abs(dx * way).sum() for dx, way in zip(ours, ways, strict=True))
    np.testing.assert_allclose(sum(terms), (ends[0] - ends[1]) / 2e-6, rtol=2e-3, atol=2e-4 * max(1, size))
