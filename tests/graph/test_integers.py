"""Integers beyond 2^24, which float32 does not hold, through every function: exact, or refused, but never rounded."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import nn
from openbnns.graph.functions import NAMES
from openbnns.nn import functional as F

RANDOM = np.random.RandomState(0)
A, B = RANDOM.randint(-(1 << 40), 1 << 40, (2, 3, 4))
A[0, :2] = 3_000_000_007, -((1 << 24) + 1)
SMALL = RANDOM.randint(1, 9, (3, 4))
ROWS, PLACES = np.array([2, 0, 2]), np.array([[1, 0, 2, 1], [0, 2, 1, 1]])

Function = Callable[..., Any]

# Functions that are linear, with the number of their operands: the results for digits of integers, which float32 holds, add up to
# those for the integers.
LINEAR: dict[str, tuple[int, Function]] = {
    "add": (2, lambda f, a, b: f(a, b, alpha=3)),
    "cat": (2, lambda f, a, b: f([a, b], 1)),
    "channel_shuffle": (1, lambda f, a: f(a, 2)),
    "chunk": (1, lambda f, a: f(a, 2, 1)),
    "concat": (2, lambda f, a, b: f([a, b])),
    "cumsum": (1, lambda f, a: f(a, 1)),
    "detach": (1, lambda f, a: f(a)),
    "diag_embed": (1, lambda f, a: f(a, 1)),
    "diagonal": (1, lambda f, a: f(a, -1)),
    "diff": (2, lambda f, a, b: f(a, 2, 1, prepend=b)),
    "expand": (1, lambda f, a: f(a, 2, 3, 4)),
    "flatten": (1, lambda f, a: f(a)),
    "flip": (1, lambda f, a: f(a, (0, 1))),
    "gather": (1, lambda f, a: f(a, 0, PLACES)),
    "index": (1, lambda f, a: f(a, (slice(None), 2))),
    "index_add": (2, lambda f, a, b: f(a, 0, ROWS, b, alpha=2)),
    "index_select": (1, lambda f, a: f(a, 0, ROWS)),
    "masked_fill": (1, lambda f, a: f(a, SMALL > 4, 0)),
    "meshgrid": (2, lambda f, a, b: f(a.reshape(12), b.reshape(12))),
    "moveaxis": (1, lambda f, a: f(a, 0, 1)),
    "movedim": (1, lambda f, a: f(a, 0, 1)),
    "nan_to_num": (1, lambda f, a: f(a)),
    "narrow": (1, lambda f, a: f(a, 1, 1, 2)),
    "neg": (1, lambda f, a: f(a)),
    "pad": (1, lambda f, a: f(a, (1, 2, 2, 0), "reflect")),
    "permute": (1, lambda f, a: f(a, 1, 0)),
    "repeat": (1, lambda f, a: f(a, 2, 1)),
    "repeat_interleave": (1, lambda f, a: f(a, 2, 0)),
    "reshape": (1, lambda f, a: f(a, 2, 6)),
    "roll": (1, lambda f, a: f(a, 2, 1)),
    "rot90": (1, lambda f, a: f(a)),
    "scatter": (2, lambda f, a, b: f(a, 0, PLACES, b)),
    "scatter_add": (2, lambda f, a, b: f(a, 0, PLACES, b)),
    "select": (1, lambda f, a: f(a, 1, 2)),
    "split": (1, lambda f, a: f(a, 3, 1)),
    "squeeze": (1, lambda f, a: f(a.reshape(3, 1, 4), 1)),
    "stack": (2, lambda f, a, b: f([a, b], 1)),
    "sub": (2, lambda f, a, b: f(a, b)),
    "sum": (1, lambda f, a: f(a, 1)),
    "swapdims": (1, lambda f, a: f(a, 0, 1)),
    "take_along_dim": (1, lambda f, a: f(a, PLACES, 0)),
    "tensor_split": (1, lambda f, a: f(a, 3, 1)),
    "trace": (1, lambda f, a: f(a)),
    "transpose": (1, lambda f, a: f(a, 0, 1)),
    "tril": (1, lambda f, a: f(a, 1)),
    "triu": (1, lambda f, a: f(a)),
    "unbind": (1, lambda f, a: f(a)),
    "unflatten": (1, lambda f, a: f(a, 1, (2, 2))),
    "unsqueeze": (1, lambda f, a: f(a, 0)),
    "where": (2, lambda f, a, b: f(SMALL > 4, a, b)),
}
DIVIDED = np.where(SMALL > 4, SMALL, -B)


def cut(a: Any, b: Any) -> Any:
    """The quotient rounded towards 0, of integers of Python."""
    return np.vectorize(lambda x, y: abs(int(x)) // abs(int(y)) * (1 if (x < 0) == (y < 0) else -1))(a, b)


ORDER = np.argsort(A, 1, kind="stable")
# What NumPy gives: (the call, its results).
EXACT: dict[str, tuple[Function, Any]] = {
    "abs": (lambda a: F.abs(a), np.abs(A)),
    "addcmul": (lambda a: F.addcmul(a, a, SMALL, value=2), A + 2 * A * SMALL),
    "all": (lambda a: F.all(a), 1),
    "amax": (lambda a: F.amax(a, 1), A.max(1)),
    "amin": (lambda a: F.amin(a), A.min()),
    "any": (lambda a: F.any(a, 1), np.ones(3)),
    "argmax": (lambda a: F.argmax(a), A.argmax()),
    "argmin": (lambda a: F.argmin(a, 1, True), A.argmin(1, keepdims=True)),
    "argsort": (lambda a: F.argsort(a, 1), ORDER),
    "bmm": (lambda a: F.bmm(a[None], SMALL.T[None]), (A @ SMALL.T)[None]),
    "ceil": (lambda a: F.ceil(a), A),
    "clamp": (lambda a: F.clamp(a, -(1 << 30) - 1, 3_000_000_001), A.clip(-(1 << 30) - 1, 3_000_000_001)),
    "clamp_max": (lambda a: F.clamp_max(a, B), np.minimum(A, B)),
    "clamp_min": (lambda a: F.clamp_min(a, 3_000_000_001), np.maximum(A, 3_000_000_001)),
    "clip": (lambda a: F.clip(a, None, 3_000_000_001), np.minimum(A, 3_000_000_001)),
    "cross": (lambda a: F.cross(a, SMALL, 0), np.cross(A, SMALL, axis=0)),
    "cumprod": (lambda a: F.cumprod(a[:, :2], 1), np.cumprod(A[:, :2], 1)),
    "einsum": (lambda a: F.einsum("ij,kj->ki", a, SMALL), SMALL @ A.T),
    "embedding": (lambda a: F.embedding(ROWS, a), A[ROWS]),
    "eq": (lambda a: F.eq(a, A + (SMALL > 4)), SMALL <= 4),
    "floor": (lambda a: F.floor(a), A),
    "floor_divide": (lambda a: F.floor_divide(a, DIVIDED), A // DIVIDED),
    "fmod": (lambda a: F.fmod(a, DIVIDED), A - cut(A, DIVIDED) * DIVIDED),
    "full_like": (lambda a: F.full_like(a, 3_000_000_007), np.full_like(A, 3_000_000_007)),
    "ge": (lambda a: F.ge(a, A + (SMALL > 4)), SMALL <= 4),
    "gt": (lambda a: F.gt(A + (SMALL > 4), a), SMALL > 4),
    "isfinite": (lambda a: F.isfinite(a), np.ones(A.shape)),
    "isinf": (lambda a: F.isinf(a), np.zeros(A.shape)),
    "isnan": (lambda a: F.isnan(a), np.zeros(A.shape)),
    "le": (lambda a: F.le(A + (SMALL > 4), a), SMALL <= 4),
    "lerp": (lambda a: F.lerp(a, B, 3), A + 3 * (B - A)),
    "linear": (lambda a: F.linear(a, SMALL, SMALL[0, :3]), A @ SMALL.T + SMALL[0, :3]),
    "logical_and": (lambda a: F.logical_and(a, SMALL > 4), SMALL > 4),
    "logical_not": (lambda a: F.logical_not(a), np.zeros(A.shape)),
    "logical_or": (lambda a: F.logical_or(a, SMALL > 4), np.ones(A.shape)),
    "logical_xor": (lambda a: F.logical_xor(a, SMALL > 4), SMALL <= 4),
    "lt": (lambda a: F.lt(a, A + (SMALL > 4)), SMALL > 4),
    "matmul": (lambda a: F.matmul(a, F.transpose(SMALL, 0, 1)), A @ SMALL.T),
    "max": (lambda a: F.max(a, 1), (A.max(1), A.argmax(1))),
    "maximum": (lambda a: F.maximum(a, B), np.maximum(A, B)),
    "min": (lambda a: F.min(a, 0), (A.min(0), A.argmin(0))),
    "minimum": (lambda a: F.minimum(a, 3_000_000_001), np.minimum(A, 3_000_000_001)),
    "mul": (lambda a: F.mul(a, B), A * B),
    "ne": (lambda a: F.ne(a, A + (SMALL > 4)), SMALL > 4),
    "one_hot": (lambda a: F.one_hot(F.remainder(a, 5), 5), np.eye(5)[A % 5]),
    "ones_like": (lambda a: F.ones_like(a), np.ones(A.shape)),
    "outer": (lambda a: F.outer(a[0], SMALL[0]), np.outer(A[0], SMALL[0])),
    "pow": (lambda a: F.pow(a, 3), A * A * A),
    "prod": (lambda a: F.prod(a, 0), A.prod(0)),
    "relu": (lambda a: F.relu(a), np.maximum(A, 0)),
    "remainder": (lambda a: F.remainder(a, DIVIDED), A % DIVIDED),
    "round": (lambda a: F.round(a), A),
    "sign": (lambda a: F.sign(a), np.sign(A)),
    "sort": (lambda a: F.sort(a, 1), (np.take_along_axis(A, ORDER, 1), ORDER)),
    "square": (lambda a: F.square(a), A * A),
    "topk": (lambda a: F.topk(a, 2), (np.take_along_axis(A, ORDER, 1)[:, :1:-1], ORDER[:, :1:-1])),
    "trunc": (lambda a: F.trunc(a), A),
    "zeros_like": (lambda a: F.zeros_like(a), np.zeros(A.shape)),
}
MASKS = {
    "all", "any", "eq", "ge", "gt", "isfinite", "isinf", "isnan", "le", "logical_and", "logical_not", "logical_or", "logical_xor",
    "lt", "ne", "one_hot", "ones_like", "zeros_like",
}  # fmt: skip

# Elementwise functions whose result is float32, as in PyTorch, and those that begin with one: as for the nearest float32.
ROUNDED = {
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "celu", "cos", "cosh", "div", "elu", "erf", "erfc", "exp",
    "exp2", "expm1", "frac", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "huber_loss", "hypot",
    "l1_loss", "leaky_relu", "log", "log10", "log1p", "log2", "logaddexp", "logsigmoid", "margin_ranking_loss", "mish",
    "mse_loss", "pairwise_distance", "reciprocal", "relu6", "rsqrt", "selu", "sigmoid", "silu", "sin", "sinc", "sinh",
    "smooth_l1_loss", "soft_margin_loss", "softmin", "softplus", "softshrink", "softsign", "sqrt", "tan", "tanh",
    "tanhshrink", "threshold", "triplet_margin_loss",
}  # fmt: skip
HALVES = SMALL + np.float32(0.5)
OPERANDS = {name: (HALVES,) for name in ROUNDED if name.endswith("_loss")} | {
    "atan2": (0.5,), "div": (SMALL,), "hypot": (0.5,), "logaddexp": (SMALL,), "margin_ranking_loss": (HALVES, np.ones((3, 4))),
    "pairwise_distance": (HALVES,), "threshold": (0.5, 0.5), "triplet_margin_loss": (HALVES, HALVES + 1),
}  # fmt: skip
# Other functions in float32.
REFUSED: dict[str, Function] = {
    **{name: (lambda f, a: f(a)) for name in (
        "bernoulli", "dropout", "log_softmax", "logsumexp", "mean", "norm", "normalize", "rfft", "rfft2", "softmax", "std", "var",
    )},
    **{name: (lambda f, a: f(a, HALVES)) for name in (
        "binary_cross_entropy", "binary_cross_entropy_with_logits", "cdist", "cosine_similarity", "kl_div",
        "multilabel_soft_margin_loss", "poisson_nll_loss",
    )},
    **{f"{kind}{axes}d": (lambda f, a, axes=axes: f(a.reshape(1, 1, 12, *[1] * (axes - 1)), 1))
       for kind in ("adaptive_avg_pool", "adaptive_max_pool", "avg_pool", "max_pool") for axes in (1, 2, 3)},
    **{f"lp_pool{axes}d": (lambda f, a, axes=axes: f(a.reshape(1, 1, 12, *[1] * (axes - 1)), 2, 1)) for axes in (1, 2)},
    **{f"max_unpool{axes}d": (lambda f, a, axes=axes: f(a.reshape(1, 1, 12, *[1] * (axes - 1)),
                                                        np.arange(12).reshape(1, 1, 12, *[1] * (axes - 1)), 1))
       for axes in (1, 2)},
    **{f"{kind}{axes}d": (lambda f, a, axes=axes: f(a.reshape(1, 1, 12, *[1] * (axes - 1)), np.ones((1, 1, *[1] * axes))))
       for kind in ("conv", "conv_transpose") for axes in (1, 2, 3)},
    **{name: (lambda f, a: f(a.reshape(3, 2, 2))) for name in ("fft", "fft2", "ifft", "ifft2", "irfft", "irfft2")},
    "batch_norm": lambda f, a: f(a, np.zeros(4, np.float32), np.ones(4, np.float32)),
    "cosine_embedding_loss": lambda f, a: f(a, HALVES, np.ones(3)),
    "cross_entropy": lambda f, a: f(a, ROWS),
    "fold": lambda f, a: f(a.reshape(1, 12, 1), 1, 1),
    "gaussian_nll_loss": lambda f, a: f(a, HALVES, HALVES),
    "group_norm": lambda f, a: f(a, 2),
    "hinge_embedding_loss": lambda f, a: f(a, np.sign(SMALL - 4.5)),
    "instance_norm": lambda f, a: f(a.reshape(1, 3, 4)),
    "interpolate": lambda f, a: f(a.reshape(1, 3, 4), 8),
    "layer_norm": lambda f, a: f(a, 4),
    "local_response_norm": lambda f, a: f(a.reshape(1, 3, 4), 2),
    "multi_margin_loss": lambda f, a: f(a, ROWS),
    "multilabel_margin_loss": lambda f, a: f(a, np.array([[1, 2, -1, -1]] * 3)),
    "nll_loss": lambda f, a: f(a, ROWS),
    "pixel_shuffle": lambda f, a: f(a.reshape(1, 4, 3, 1), 2),
    "pixel_unshuffle": lambda f, a: f(a.reshape(1, 1, 6, 2), 2),
    "prelu": lambda f, a: f(a, np.ones(1)),
    "rms_norm": lambda f, a: f(a, 4),
    "scaled_dot_product_attention": lambda f, a: f(*[a.reshape(1, 3, 4)] * 3),
    "unfold": lambda f, a: f(a.reshape(1, 1, 3, 4), 2),
}  # fmt: skip
WITHOUT = {
    "arange",
    "full",
    "ones",
    "rand",
    "rand_like",
    "randn",
    "randn_like",
    "randperm",
    "zeros",
}  # integers in a tensor


class Looked(nn.Module):
    """A function of integers that a network reads out of a table of its own."""

    def __init__(self, function: Function, *tables: Any) -> None:
        super().__init__()
        self.function, self.tables = function, tables

    def forward(self, ids: Any) -> Any:
        return self.function(*(F.index_select(table, 0, ids[0]) for table in self.tables))


def in_a_network(function: Function, *tables: Any) -> Any:
    return Looked(function, *tables).eval()(np.arange(3)[None])


def on_arrays(function: Function, *tables: Any) -> Any:
    return function(*tables)


def listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def test_the_page_has_the_tables() -> None:
    page = (Path(__file__).parents[2] / "docs" / "networks.md").read_text(encoding="utf-8")
    table = page[page.index("| from integers |") :].split("\n\n")[0]
    exact, masks, rounded = ({*re.findall(r"\w+", re.findall(r"`([^`]*)`", row)[0])} for row in table.splitlines()[2:5])
    assert exact == ({*LINEAR} | {*EXACT}) - MASKS
    assert masks == MASKS and rounded == ROUNDED


def test_every_function_is_in_a_table() -> None:
    tables = [set(LINEAR), set(EXACT), ROUNDED, set(REFUSED), WITHOUT]
    assert set().union(*tables) == set(NAMES) and sum(map(len, tables)) == len(NAMES)


@pytest.mark.parametrize("run", [on_arrays, in_a_network])
@pytest.mark.parametrize("name", sorted(LINEAR))
def test_linear_functions_are_exact(name: str, run: Function) -> None:
    count, call = LINEAR[name]
    function, given = getattr(F, name), (A, B)[:count]
    actual = listed(run(lambda *parts: call(function, *parts), *given))
    low = [x & 0xFFFF for x in given]
    digits = [low, [(x >> 16) & 0xFFFF for x in given], [x >> 32 for x in given]]
    parts = [listed(call(function, *(x.astype(np.float32) for x in each))) for each in digits]
    assert len(actual) == len(parts[0])
    for y, *each in zip(actual, *parts, strict=True):
        expected = sum(part.astype(np.int64) << 16 * i for i, part in enumerate(each))
        assert y.dtype == np.int64
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("run", [on_arrays, in_a_network])
@pytest.mark.parametrize("name", sorted(EXACT))
def test_other_functions_are_exact(name: str, run: Function) -> None:
    call, expected = EXACT[name]
    for y, numbers in zip(listed(run(call, A)), listed(expected), strict=True):
        assert y.dtype == (np.float32 if name in MASKS else np.int64)
        np.testing.assert_array_equal(y, numbers)


@pytest.mark.parametrize("run", [on_arrays, in_a_network])
@pytest.mark.parametrize("name", sorted(REFUSED))
def test_functions_in_float32_refuse_to_round(name: str, run: Function) -> None:
    function = getattr(F, name)
    with pytest.raises(ValueError, match=r"float32, which does not hold the integer -?\d+: it would be rounded"):
        run(lambda a: REFUSED[name](function, a), A)
    held = SMALL * (1 << 24)  # which float32 does
    run(lambda a: REFUSED[name](function, a), held)


@pytest.mark.parametrize("run", [on_arrays, in_a_network])
@pytest.mark.parametrize("name", sorted(ROUNDED))
def test_elementwise_functions_take_the_nearest_float32(name: str, run: Function) -> None:
    function, rest = getattr(F, name), OPERANDS.get(name, ())
    actual = run(lambda a: function(a, *rest), A)
    assert actual.dtype == np.float32
    np.testing.assert_array_equal(actual, run(lambda a: function(a, *rest), A.astype(np.float32)))


def test_masks_and_plain_numbers_join_integers() -> None:
    mask, big = SMALL > 4, 3_000_000_001
    for y in (F.mul(A, mask), in_a_network(lambda a: a * (a > 0), A), F.mul(A, True), F.add(A, big), F.sub(big, A)):
        assert y.dtype == np.int64
    np.testing.assert_array_equal(F.mul(A, mask), A * mask)
    np.testing.assert_array_equal(in_a_network(lambda a: a * (a > 0), A), A * (A > 0))
    np.testing.assert_array_equal(F.sub(big, A), big - A)
    np.testing.assert_array_equal(F.where(A, 1, 0), np.ones(A.shape))  # a condition is not converted
    with pytest.raises(ValueError, match=r"add: int64 does not hold 1180591620717411303424\. Pass an integer below"):
        F.add(A, 2**70)
    with pytest.raises(ValueError, match=r"full: fill_value is 3000000007, which float32 does not hold\. Pass a float"):
        F.full((2,), 3_000_000_007)


def test_an_explicit_conversion_rounds() -> None:
    y = in_a_network(lambda a: a.float() + 0.5, A)
    np.testing.assert_array_equal(y, A.astype(np.float32) + np.float32(0.5))


@pytest.mark.parametrize("value", [0, 3_000_000_007])
def test_padding(value: int) -> None:
    y = F.pad(A, (1, 0, 0, 2), value=value)
    assert y.dtype == np.int64
    np.testing.assert_array_equal(y, np.pad(A, [(0, 2), (1, 0)], constant_values=value))
    with pytest.raises(ValueError, match=r"pad: value is 0\.5, but the input holds integers"):
        F.pad(A, (1, 0), value=0.5)
    modes: list[tuple[Any, Any]] = [("circular", "wrap"), ("replicate", "edge")]
    for mode, theirs in modes:
        np.testing.assert_array_equal(F.pad(A, (2, 1), mode), np.pad(A, [(0, 0), (2, 1)], theirs))


@pytest.mark.parametrize("part", [F.tril, F.triu])
def test_infinities_outside_of_a_triangle_are_zeros(part: Function) -> None:
    x = np.full((3, 4), -np.inf, np.float32)
    expected = np.where(np.tril(np.ones((3, 4)), 1) if part is F.tril else np.triu(np.ones((3, 4)), 1), x, 0)
    np.testing.assert_array_equal(part(x, 1), expected)
