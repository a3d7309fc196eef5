"""Every function of ``nn.functional`` has a judge; those in ``function_loops`` are compared here, with their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from function_arguments import ARGUMENTS, RANDOM, Draw
from function_checks import called, gradients, listed, split
from function_loops import ELEMENTWISE, LOOPS
from openbnns import nn
from openbnns.graph.declared import OPERATIONS
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


def test_whole_numbers_beside_floats_become_floats() -> None:
    """As in PyTorch: an array of floats, or a plain number with a fraction, makes all of them float32; an integer does not."""
    whole, half = np.array([2**24 + 1, -3]), np.float32([0.5, 0.25])
    rounded = np.float32([2**24, -3])
    for name, function in (("add", np.add), ("mul", np.multiply), ("maximum", np.maximum), ("remainder", np.remainder)):
        for a, b in ((whole, half), (half, whole), (whole, 0.5), (0.5, whole)):
            y = called(name, (a, b), {})
            assert y.dtype == np.float32
            operands = [rounded if x is whole else np.float32(x) for x in (a, b)]
            np.testing.assert_allclose(y, function(*operands), rtol=1e-6)
        for a, b in ((whole, 3), (whole, whole.astype(np.int32)), (np.uint8([7, 9]), whole)):
            y = called(name, (a, b), {})
            assert y.dtype == np.int64
            np.testing.assert_array_equal(y, function(a, b))


def test_calls_that_differ_in_one_plain_argument_have_programs_of_their_own() -> None:
    x = np.float32([[3, -2, 0.5]])
    for _ in range(2):
        assert F.div(x, 0.0)[0, 0] == np.inf and F.div(x, -0.0)[0, 0] == -np.inf
        assert (
            F.sum(x, 1).shape == (1,) and F.sum(x, dim=1, keepdim=True).shape == (1, 1) and F.sum(x, (0, 1)).shape == ()
        )
        assert F.add(np.array([5]), 2).dtype == np.int64 and F.add(np.array([5]), 2.0).dtype == np.float32
        assert F.clamp(x, max=0.25).max() == 0.25 and F.clamp(x, min=0.25).min() == 0.25
        assert F.pow(np.array([2]), 1)[0] == 2 and F.add(x, True)[0, 0] == 4


OPERANDS = {name: len(OPERATIONS[name].kinds) for name in sorted({*OPERATIONS} & {*ELEMENTWISE})}


@pytest.mark.parametrize("name", [*OPERANDS, "relu", "silu"])
def test_elementwise_functions_take_empty_arrays(name: str) -> None:
    empty = np.zeros((2, 0, 3), np.float32)
    y = called(name, [empty] * OPERANDS.get(name, 1), {})
    assert y.shape == empty.shape and y.dtype == np.float32
