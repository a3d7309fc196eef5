"""Every function of ``nn.functional`` against PyTorch, in float64: values, element types and gradients of random calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from function_arguments import ARGUMENTS, Draw
from function_checks import called, gradients, listed, split
from function_loops import LOOPS
from openbnns import nn

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")
T = torch.nn.functional
F = nn.functional

SEEDS = 12


def _complex(name: str) -> Callable[..., Any]:
    """A transform of PyTorch on pairs of numbers."""

    def call(x: Any, **named: Any) -> Any:
        y = getattr(torch.fft, name)(x if name.startswith("rfft") else torch.view_as_complex(x.contiguous()), **named)
        return y if name.startswith("irfft") else torch.view_as_real(y)

    return call


def _average_of_signals(
    x: Any, kernel_size: int, stride: Any, padding: int, ceil_mode: bool, count_include_pad: bool
) -> Any:
    return T.avg_pool1d(x, kernel_size, stride, padding, ceil_mode, count_include_pad)


def _along_all(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction of PyTorch along several axes, one after the other."""

    def call(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        axes = sorted(
            (d % x.ndim for d in ((dim,) if isinstance(dim, int) else range(x.ndim) if dim is None else dim) if x.ndim),
            reverse=True,
        )
        for axis in axes:
            x = function(x, axis, keepdim)
        return x

    return call


# What PyTorch calls otherwise.
THEIRS: dict[str, Callable[..., Any]] = {
    **{name: _complex(name) for name in ("fft", "ifft", "irfft", "rfft", "fft2", "ifft2", "irfft2", "rfft2")},
    "argsort": lambda x, dim, down, stable: torch.argsort(x, dim=dim, descending=down, stable=stable),
    "avg_pool1d": _average_of_signals,
    "batch_norm": lambda x, *a, **o: T.batch_norm(x, *a, training=True, **o),
    "expand": lambda x, *sizes: x.expand(*sizes),
    "floor_divide": lambda x, y: torch.floor_divide(x.detach(), y.detach()),
    "index": lambda x, key: x[key],
    "logsumexp": lambda x, dim, keepdim: torch.logsumexp(x, tuple(range(x.ndim)) if dim is None else dim, keepdim),
    "one_hot": lambda x, classes: T.one_hot(x, classes).double(),  # in float32, as it is there to be multiplied
    "prod": _along_all(torch.prod),
    "repeat": lambda x, *sizes: x.repeat(*sizes),
    "reshape": lambda x, *sizes: x.reshape(*sizes),
    "scatter": lambda x, *a: x.scatter(*a),
    "sign": lambda x: torch.where(torch.isnan(x), x, torch.sign(x)),  # as in NumPy
    "sort": lambda x, dim, down, stable: torch.sort(x, dim=dim, descending=down, stable=stable),
    "Tensor.T": lambda x: x.T,
    "Tensor.int": lambda x: x.long(),
    "Tensor.mT": lambda x: x.mT,
}
GRADIENTS = {
    **dict.fromkeys(
        ("soft_margin_loss", "hinge_embedding_loss", "poisson_nll_loss", "multilabel_soft_margin_loss", "kl_div", "huber_loss",
         "binary_cross_entropy_with_logits", "gaussian_nll_loss"), 1,
    ),
    "cosine_embedding_loss": 2, "margin_ranking_loss": 2,
}  # fmt: skip
"""The number of arguments that PyTorch differentiates by, if not all arrays."""
CONDITIONS = {"where": (0,), "masked_fill": (1,)}
COMPARED = {"gt", "ge", "lt", "le", "eq", "ne", "logical_and", "logical_or", "logical_xor"}
LIMITS = {"gelu", "hardswish", "silu", "softsign"}
"""Where PyTorch has no number at infinity, but there is a limit."""
JOINED = COMPARED | {
    "abs", "add", "addcmul", "ceil", "clamp", "clamp_max", "clamp_min", "clip", "div", "floor", "floor_divide", "fmod", "lerp",
    "masked_fill", "maximum", "minimum", "mul", "neg", "pow", "remainder", "round", "sign", "square", "sub", "trunc", "where",
    "atan2", "hypot", "logaddexp",
}  # fmt: skip
"""Functions that bring their operands to one type: comparisons in numbers that hold all, the others in float32."""
ROUNDED = {
    "frac", "hardsigmoid", "hardswish", "logsigmoid", "mish", "relu6", "selu", "silu", "softsign", "tanhshrink",
}  # fmt: skip
"""Functions that have no whole numbers: for these, the nearest float32."""
IN_FLOATS = ROUNDED | {"ones_like", "zeros_like"}
"""Functions whose results are float32 for whole numbers, though PyTorch has some that are not."""


def function_of(name: str) -> Callable[..., Any] | None:
    """The function of PyTorch; None for those that only we have, which ``function_loops`` judges."""
    if name in THEIRS:
        return THEIRS[name]
    if name.startswith("Tensor."):
        return lambda x, *a, **o: getattr(x, name[7:])(*a, **o)
    return getattr(T, name, None) or getattr(torch, name, None)


NAMES = sorted(name for name in ARGUMENTS if function_of(name) is not None)


def test_functions_that_pytorch_lacks_have_loops() -> None:
    assert {*ARGUMENTS} - {*NAMES} <= {*LOOPS}


def tensor(name: str, x: Any, whole: bool) -> Any:
    """A tensor that holds the numbers that ours stand for, in int64 or float64."""
    if whole:
        return torch.tensor(np.asarray(x, np.int64).copy())
    kind = np.float64 if name in COMPARED else np.float32
    exact = np.asarray(x, kind).astype(np.float64)
    return torch.tensor(np.clip(exact, -1e300, 1e300) if name in LIMITS else exact.copy())


def result(name: str, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, list[Any]]:
    """The results of PyTorch, and the leaves by which it can be differentiated."""
    parts, build = split(args, GRADIENTS.get(name))
    conditions = CONDITIONS.get(name, ())
    kinds = {
        np.asarray(x).dtype.kind for i, x in enumerate(args) if i not in conditions and not isinstance(x, (list, tuple))
    }
    floats = name in ROUNDED or (name in JOINED and bool(kinds & {"f", "b"}))

    def converted(x: Any, condition: bool) -> Any:
        if isinstance(x, (list, tuple)) and any(isinstance(part, np.ndarray) for part in x):
            return type(x)(converted(part, condition) for part in x)
        if isinstance(x, np.ndarray):
            return (
                torch.tensor(x.copy())
                if x.dtype == bool and condition
                else tensor(name, x, x.dtype.kind in "iu" and not floats)
            )
        return tensor(name, x, not floats) if name in JOINED and type(x) in (int, float) and not condition else x

    function = function_of(name)
    assert function is not None
    leaves = [tensor(name, x, False).requires_grad_() for x in parts]
    given = [converted(x, i in conditions) for i, x in enumerate(args)]
    y = function(*build(given, leaves), **{key: converted(x, True) for key, x in named.items()})
    if torch.is_tensor(y) and y.dtype == torch.float32 and isinstance(args[0], np.ndarray):  # of whole numbers
        y = function(*(tensor(name, x, False) if isinstance(x, (np.ndarray, int)) else x for x in args), **named)
    return y, leaves


def compare(name: str, seed: int, special: bool) -> None:
    args, named = ARGUMENTS[name](Draw(seed, special))
    expected, leaves = result(name, args, named)
    wanted = [y for y in listed(expected) if torch.is_tensor(y)]
    actual = listed(called(name, args, named))
    assert len(actual) == len(wanted)
    for y, right in zip(actual, wanted, strict=True):
        assert y.shape == tuple(right.shape)
        if not any(isinstance(x, np.ndarray) and x.dtype == bool for x in args):
            kept = right.dtype == torch.int64 and (name not in IN_FLOATS or y is not actual[0])
            assert y.dtype == (np.int64 if kept else np.float32), (y.dtype, right.dtype)
        close(y, right.detach().numpy(), 3e-5)
    floats = [i for i, y in enumerate(wanted) if y.requires_grad]
    if special or not floats:
        return
    which = floats[seed % len(floats)]
    cotangent = np.random.default_rng(seed).standard_normal(actual[which].shape).astype(np.float32)
    slopes = torch.autograd.grad(wanted[which], leaves, torch.tensor(cotangent.astype(np.float64)), allow_unused=True)
    parts, build = split(args, GRADIENTS.get(name))
    ours = gradients(lambda *x: listed(called(name, build(args, x), named))[which], *parts, cotangent=cotangent)
    for dx, slope in zip(ours, slopes, strict=True):
        close(dx, np.zeros(dx.shape) if slope is None else slope.numpy(), 2e-4)


def close(actual: Any, expected: Any, tolerance: float) -> None:
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected if actual.dtype == np.int64 else expected.astype(np.float32))
        return
    with np.errstate(over="ignore"):
        rounded = expected.astype(np.float32)
    finite = np.abs(rounded[np.isfinite(rounded)])
    np.testing.assert_allclose(
        actual, rounded, rtol=tolerance, atol=tolerance * max(1, min(finite.max(initial=0), 1e3))
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_random_calls(name: str) -> None:
    for seed in range(SEEDS):
        for special in (False, True):
            try:
                compare(name, seed, special)
            except AssertionError as problem:
                raise AssertionError(
                    f"{name}, seed {seed}, special {special}: {ARGUMENTS[name](Draw(seed, special))}"
                ) from problem
