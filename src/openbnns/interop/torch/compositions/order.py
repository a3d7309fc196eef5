"""Reductions and functions of positions, made of others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...converted.tensors import Misfit
from ._table import COMPOSITIONS, compose, composition

# Reductions, and what is found in order.

REDUCTIONS = "reductions"


def _over(function: str) -> Callable[..., Any]:
    """A spread beside the mean, with the same arguments."""

    def both(
        torch: Any, input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
    ) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        taken = 1 if correction is None else correction
        taken = taken if unbiased is None else int(unbiased)
        spread = getattr(torch, function)(input, dim, correction=taken, keepdim=keepdim)
        return spread, input.mean() if dim is None and not keepdim else input.mean(dim, keepdim)

    return both


compose(REDUCTIONS, var_mean=_over("var"), std_mean=_over("std"))


@composition(REDUCTIONS, "aminmax")
def aminmax(torch: Any, input: Any, *, dim: Any = None, keepdim: bool = False) -> Any:
    axes = () if dim is None else dim
    return torch.return_types.aminmax((input.amin(axes, keepdim), input.amax(axes, keepdim)))


@composition(REDUCTIONS, "count_nonzero")
def count_nonzero(torch: Any, input: Any, dim: Any = None) -> Any:
    return (input != 0).long().sum(dim)


def _in_order(torch: Any, kind: str, input: Any, number: int, dim: int, keepdim: bool) -> Any:
    values, indices = (x.narrow(dim, number, 1) for x in torch.sort(input, dim))
    return getattr(torch.return_types, kind)(
        (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))
    )


@composition(REDUCTIONS, "median")
def median(torch: Any, input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is None:
        return torch.sort(input.flatten())[0][(input.numel() - 1) // 2]
    return _in_order(torch, "median", input, (input.shape[dim] - 1) // 2, dim, keepdim)


@composition(REDUCTIONS, "kthvalue")
def kthvalue(torch: Any, input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    return _in_order(torch, "kthvalue", input, k - 1, dim, keepdim)


@composition(REDUCTIONS, "quantile")
def quantile(
    torch: Any, input: Any, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    if interpolation != "linear":
        raise Misfit(f"interpolation={interpolation!r} has no counterpart here")
    if keepdim and dim is None:
        raise Misfit("keepdim needs dim here")
    axis = 0 if dim is None else dim % input.dim()
    ordered = torch.sort(input.flatten() if dim is None else input, axis)[0]
    several = isinstance(q, torch.Tensor) and q.dim() > 0
    quantiles = []
    for each in q.tolist() if several else [float(q)]:
        place = each * (ordered.shape[axis] - 1)
        low = min(int(place), ordered.shape[axis] - 1)
        high = min(low + 1, ordered.shape[axis] - 1)
        a, b = ordered.select(axis, low), ordered.select(axis, high)
        value = a + (b - a) * (place - low)
        quantiles.append(value.unsqueeze(axis) if keepdim else value)
    return torch.stack(quantiles) if several else quantiles[0]


# Positions.

POSITIONS = "positions"


def _so_far(torch: Any, x: Any, dim: int) -> Any:
    """For every place along an axis, brought to the end, the numbers up to it, and minus infinity."""
    n = x.shape[dim]
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    return x.movedim(dim, -1).unsqueeze(-2).masked_fill(later, -math.inf)


@composition(POSITIONS, "cummax", "cummin")
def cummax(torch: Any, input: Any, dim: int) -> Any:
    values, indices = _so_far(torch, input, dim).flip(-1).max(-1)  # the last of equal ones, as in PyTorch
    return torch.return_types.cummax((values.movedim(-1, dim), (input.shape[dim] - 1 - indices).movedim(-1, dim)))


@composition(POSITIONS, "logcumsumexp")
def logcumsumexp(torch: Any, input: Any, dim: int) -> Any:
    return _so_far(torch, input, dim).logsumexp(-1).movedim(-1, dim)


def cummin(torch: Any, input: Any, dim: int) -> Any:
    values, indices = cummax(torch, -input, dim)
    return torch.return_types.cummin((-values, indices))


COMPOSITIONS["cummin"] = cummin


@composition(POSITIONS, "bucketize")
def bucketize(torch: Any, input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    return searchsorted(torch, boundaries, input, right=right)


@composition(POSITIONS, "searchsorted")
def searchsorted(
    torch: Any, sorted_sequence: Any, input: Any, *, out_int32: bool = False, right: bool = False, side: Any = None
) -> Any:
    ends = sorted_sequence if sorted_sequence.dim() == 1 else sorted_sequence.unsqueeze(-2)
    x = input.unsqueeze(-1)
    return (x >= ends if right or side == "right" else x > ends).long().sum(-1)


@composition(POSITIONS, "scatter_reduce")
def scatter_reduce(
    torch: Any, input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Any:
    if reduce not in ("sum", "mean"):
        raise Misfit(f"reduce={reduce!r} has no counterpart here, only 'sum' and 'mean'")
    counts = torch.zeros_like(input).scatter_add(dim, index, torch.ones_like(src))
    start = input if include_self else torch.where(counts > 0, 0.0, input)
    total = start.scatter_add(dim, index, src)
    return total if reduce == "sum" else total / (counts + include_self).clamp(min=1)


compose(POSITIONS, msort=lambda torch, input: torch.sort(input, 0)[0])


def _areas(torch: Any, y: Any, x: Any, dx: Any, dim: int) -> Any:
    """The areas between neighbours along an axis."""
    n = y.shape[dim]
    heights = (y.narrow(dim, 1, n - 1) + y.narrow(dim, 0, n - 1)) / 2
    if x is None:
        return heights * dx
    if x.dim() == 1:
        x = x.reshape([-1 if axis == dim % y.dim() else 1 for axis in range(y.dim())])
    return heights * (x.narrow(dim, 1, n - 1) - x.narrow(dim, 0, n - 1))


@composition(POSITIONS, "trapezoid", "trapz")
def trapezoid(torch: Any, y: Any, x: Any = None, *, dx: Any = 1.0, dim: int = -1) -> Any:
    return _areas(torch, y, x, dx, dim).sum(dim)


@composition(POSITIONS, "cumulative_trapezoid")
def cumulative_trapezoid(torch: Any, y: Any, x: Any = None, *, dx: Any = 1.0, dim: int = -1) -> Any:
    return _areas(torch, y, x, dx, dim).cumsum(dim)
