"""Arithmetic and comparisons, made of others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ._table import COMPOSITIONS, compose, composition

# Arithmetic.

ARITHMETIC = "arithmetic"

compose(
    ARITHMETIC,
    addcdiv=lambda torch, input, tensor1, tensor2, *, value=1: input + value * (tensor1 / tensor2),
    arccosh=lambda torch, input: input.acosh(),
    arcsinh=lambda torch, input: input.asinh(),
    arctanh=lambda torch, input: input.atanh(),
    deg2rad=lambda torch, input: input * (math.pi / 180),
    rad2deg=lambda torch, input: input * (180 / math.pi),
    dist=lambda torch, input, other, p=2: torch.linalg.vector_norm(input - other, p),
    float_power=lambda torch, input, exponent: torch.pow(input, exponent),
    heaviside=lambda torch, input, values: torch.where(input == 0, values, (input > 0).to(values.dtype)),
    ldexp=lambda torch, input, other: input * torch.exp2(other),
    logaddexp2=lambda torch, input, other: torch.logaddexp(input * math.log(2), other * math.log(2)) / math.log(2),
    nanmean=lambda torch, input, dim=None, keepdim=False: (
        torch.nansum(input, dim, keepdim) / torch.sum((~torch.isnan(input)).float(), dim, keepdim)
    ),
    nansum=lambda torch, input, dim=None, keepdim=False: torch.sum(
        torch.where(torch.isnan(input), 0.0, input), dim, keepdim
    ),
    sgn=lambda torch, input: torch.sign(input),
    resolve_neg=lambda torch, input: input,
)
_SPECIAL: dict[str, Callable[..., Any]] = {
    "special.xlog1py": lambda torch, input, other: torch.xlogy(input, 1 + other),
    "special.entr": lambda torch, input: torch.where(input < 0, -math.inf, -torch.xlogy(input, input)),
    "special.ndtr": lambda torch, input: 0.5 * torch.erfc(-input * math.sqrt(0.5)),
}
compose(ARITHMETIC, **_SPECIAL)


@composition(ARITHMETIC, "signbit")
def signbit(torch: Any, input: Any) -> Any:
    """True for numbers with a minus, of which a zero may be one."""
    return (input < 0) | (1 / input < 0) if input.is_floating_point() else input < 0


@composition(ARITHMETIC, "copysign")
def copysign(torch: Any, input: Any, other: Any) -> Any:
    negative = signbit(torch, other) if isinstance(other, torch.Tensor) else math.copysign(1, other) < 0
    size = torch.abs(input)
    return torch.where(negative, -size, size) if isinstance(negative, torch.Tensor) else -size if negative else size


@composition(ARITHMETIC, "fmax", "fmin")
def fmax(torch: Any, input: Any, other: Any) -> Any:
    """The larger number, which is the other one where one is NaN."""
    return torch.where(torch.isnan(input), other, torch.where(torch.isnan(other), input, torch.maximum(input, other)))


COMPOSITIONS["fmin"] = lambda torch, input, other: -fmax(torch, -input, -other)


@composition(ARITHMETIC, "logit")
def logit(torch: Any, input: Any, eps: Any = None) -> Any:
    x = input if eps is None else input.clamp(eps, 1 - eps)
    return torch.log(x / (1 - x))


@composition(ARITHMETIC, "xlogy")
def xlogy(torch: Any, input: Any, other: Any) -> Any:
    """The product x * log(y), which is zero where x is."""
    zero = input == 0
    return torch.where(zero, 0.0, input * torch.log(torch.where(zero, 1.0, other)))


# Comparisons.

COMPARISONS = "masks and types"

compose(
    COMPARISONS,
    greater=lambda torch, input, other: input > other,
    greater_equal=lambda torch, input, other: input >= other,
    less=lambda torch, input, other: input < other,
    less_equal=lambda torch, input, other: input <= other,
    not_equal=lambda torch, input, other: input != other,
    isneginf=lambda torch, input: input == -math.inf,
    isposinf=lambda torch, input: input == math.inf,
    isin=lambda torch, elements, test_elements: (elements.unsqueeze(-1) == test_elements.flatten()).any(-1),
)


@composition(COMPARISONS, "isclose")
def isclose(torch: Any, input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    near = ((input - other).abs() <= atol + rtol * other.abs()) & torch.isfinite(other) | (input == other)
    return near | torch.isnan(input) & torch.isnan(other) if equal_nan else near
