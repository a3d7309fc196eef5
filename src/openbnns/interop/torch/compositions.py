"""Functions of PyTorch that are recorded as the functions that they can be made of, written in PyTorch's own words.

Each takes PyTorch and then the arguments of its namesake. ``hstack`` stands for torch.hstack and Tensor.hstack, ``F.rrelu``
for torch.nn.functional.rrelu. Arguments that are missing here are not supported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..converted.registry import Registry
from ..converted.tensors import Misfit

_TABLE = Registry()

COMPOSITIONS, COMPOSED = _TABLE.handlers, _TABLE.groups
"""The functions by name, and the names by kind."""

composition = _TABLE.register


def _add(group: str, **functions: Callable[..., Any]) -> None:
    for name, function in functions.items():
        _TABLE.add(group, name, function)


# Arithmetic.

ARITHMETIC = "arithmetic"

_add(
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
)


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

_add(
    COMPARISONS,
    greater=lambda torch, input, other: input > other,
    greater_equal=lambda torch, input, other: input >= other,
    less=lambda torch, input, other: input < other,
    less_equal=lambda torch, input, other: input <= other,
    not_equal=lambda torch, input, other: input != other,
    isin=lambda torch, elements, test_elements: (elements.unsqueeze(-1) == test_elements.flatten()).any(-1),
)


@composition(COMPARISONS, "isclose")
def isclose(torch: Any, input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8) -> Any:
    return (input - other).abs() <= atol + rtol * other.abs()


# Products.

PRODUCTS = "products"


@composition(PRODUCTS, "addr")
def addr(torch: Any, input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return beta * input + alpha * torch.outer(vec1, vec2)


@composition(PRODUCTS, "addbmm")
def addbmm(torch: Any, input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return beta * input + alpha * torch.bmm(batch1, batch2).sum(0)


@composition(PRODUCTS, "kron")
def kron(torch: Any, input: Any, other: Any) -> Any:
    rank = max(input.dim(), other.dim())
    a, b = (x.reshape([1] * (rank - x.dim()) + list(x.shape)) for x in (input, other))
    shape = [n * m for n, m in zip(a.shape, b.shape, strict=True)]
    apart = [[n for size in sizes for n in size] for sizes in ([(n, 1) for n in a.shape], [(1, n) for n in b.shape])]
    return (a.reshape(apart[0]) * b.reshape(apart[1])).reshape(shape)


@composition(PRODUCTS, "tensordot")
def tensordot(torch: Any, a: Any, b: Any, dims: Any = 2, dims_b: Any = None, out: Any = None) -> Any:
    if isinstance(dims, int):
        dims = list(range(a.dim() - dims, a.dim())), list(range(dims))
    first, second = (
        [d % x.dim() for d in axes] for x, axes in zip((a, b), (dims, dims_b) if dims_b else dims, strict=True)
    )
    rest = [[d for d in range(x.dim()) if d not in axes] for x, axes in ((a, first), (b, second))]
    count = math.prod(a.shape[d] for d in first)
    left = a.permute(*rest[0], *first).reshape(-1, count)
    right = b.permute(*second, *rest[1]).reshape(count, -1)
    return (left @ right).reshape([*(a.shape[d] for d in rest[0]), *(b.shape[d] for d in rest[1])])


@composition(PRODUCTS, "vdot", "linalg.vecdot")
def vecdot(torch: Any, x: Any, y: Any, *, dim: int = -1) -> Any:
    return (x * y).sum(dim)


@composition(PRODUCTS, "logdet")
def logarithm_of_determinant(torch: Any, input: Any) -> Any:
    sign, logarithm = torch.linalg.slogdet(input)
    return logarithm + sign.log()  # NaN if it is negative, minus infinity if it is 0


@composition(PRODUCTS, "linalg.matrix_norm")
def matrix_norm(torch: Any, A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False) -> Any:
    if ord != "fro":
        raise Misfit(f"ord={ord!r} has no counterpart here, only that of Frobenius")
    return torch.linalg.vector_norm(A, 2, dim, keepdim)


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


_add(REDUCTIONS, var_mean=_over("var"), std_mean=_over("std"))


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


# Parts and joints.

PARTS = "parts and joints"


@composition(PARTS, "hstack", "vstack", "row_stack", "dstack", "column_stack")
def hstack(torch: Any, tensors: Sequence[Any]) -> Any:
    return torch.cat([torch.atleast_1d(x) for x in tensors], 0 if tensors[0].dim() <= 1 else 1)


def vstack(torch: Any, tensors: Sequence[Any]) -> Any:
    return torch.cat([x.reshape(1, -1) if x.dim() < 2 else x for x in tensors])


COMPOSITIONS["vstack"] = COMPOSITIONS["row_stack"] = vstack
COMPOSITIONS["dstack"] = lambda torch, tensors: torch.cat(
    [x.reshape(1, -1, 1) if x.dim() < 2 else x if x.dim() > 2 else x.unsqueeze(2) for x in tensors], 2
)
COMPOSITIONS["column_stack"] = lambda torch, tensors: torch.cat(
    [x.reshape(-1, 1) if x.dim() < 2 else x for x in tensors], 1
)
_add(
    PARTS,
    hsplit=lambda torch, input, parts: torch.tensor_split(input, parts, 0 if input.dim() == 1 else 1),
    vsplit=lambda torch, input, parts: torch.tensor_split(input, parts, 0),
    dsplit=lambda torch, input, parts: torch.tensor_split(input, parts, 2),
    fliplr=lambda torch, input: input.flip(1),
    flipud=lambda torch, input: input.flip(0),
    diag=lambda torch, input, diagonal=0: (torch.diag_embed if input.dim() == 1 else torch.diagonal)(input, diagonal),
    take=lambda torch, input, index: input.reshape(-1)[index],
    H=lambda torch, input: input.mT,
    mH=lambda torch, input: input.mT,
)


def _replaced(x: Any, dim: int, key: Any, value: Any) -> Any:
    """A tensor with other entries along an axis."""
    made = x.clone().movedim(dim, 0)
    made[key] = value if not hasattr(value, "movedim") or value.dim() < x.dim() else value.movedim(dim, 0)
    return made.movedim(0, dim)


_add(
    PARTS,
    select_scatter=lambda torch, input, src, dim, index: _replaced(input, dim, index, src),
    slice_scatter=lambda torch, input, src, dim=0, start=None, end=None, step=1: _replaced(
        input, dim, slice(start, end, step), src
    ),
    index_fill=lambda torch, input, dim, index, value: _replaced(input, dim, index, value),
    index_copy=lambda torch, input, dim, index, source: _replaced(input, dim, index, source),
)


# Layers and noise.

LAYERS = "layers"


@composition(LAYERS, "F.dropout3d")
def dropout3d(torch: Any, input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    return torch.nn.functional.dropout1d(input.flatten(2), p, training).view_as(input)


@composition(LAYERS, "F.alpha_dropout")
def alpha_dropout(torch: Any, input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    if not training or not p:
        return input + 0.0
    low = -1.7580993408473766  # what SELU goes to
    scale = ((1 - p) * (1 + p * low * low)) ** -0.5
    kept = torch.bernoulli(torch.full_like(input, 1 - p))
    return scale * (input * kept + low * (1 - kept)) - scale * low * p


@composition(LAYERS, "F.rrelu")
def rrelu(
    torch: Any, input: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Any:
    if not training or lower == upper:
        return torch.nn.functional.leaky_relu(input, (lower + upper) / 2)
    return torch.where(input >= 0, input, input * (torch.rand_like(input) * (upper - lower) + lower))


@composition(LAYERS, "F.affine_grid")
def affine_grid(torch: Any, theta: Any, size: Sequence[int], align_corners: Any = None) -> Any:
    """Places from -1 to 1 in every direction, moved by matrices (N, axes, axes + 1)."""
    sides = []
    for n in reversed(size[2:]):
        ends = 1.0 if align_corners else 1 - 1 / n
        sides.append(torch.linspace(-ends, ends, n, dtype=theta.dtype) if n > 1 else torch.zeros(1, dtype=theta.dtype))
    places = torch.stack([*torch.meshgrid(*reversed(sides), indexing="ij")][::-1], -1).reshape(-1, len(sides))
    moved = places @ theta[:, :, :-1].mT + theta[:, :, -1].unsqueeze(1)
    return moved.reshape(theta.shape[0], *size[2:], len(sides))


# Losses.

LOSSES = "losses"


def _reduced(loss: Any, reduction: str) -> Any:
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _check_reduction(size_average: Any, reduce: Any) -> None:
    if size_average is not None or reduce is not None:
        raise Misfit("size_average and reduce have no counterpart here. Use reduction")


@composition(LOSSES, "F.gaussian_nll_loss")
def gaussian_nll_loss(
    torch: Any, input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    if not isinstance(var, torch.Tensor):
        raise Misfit("var is a number. Use a tensor")
    if var.dim() == input.dim() - 1:
        var = var.unsqueeze(-1)
    var = var + (var.clamp(min=eps) - var).detach()  # whose gradient goes through where it is too small
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    return _reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


@composition(LOSSES, "F.poisson_nll_loss")
def poisson_nll_loss(
    torch: Any, input: Any, target: Any, log_input: bool = True, full: bool = False, size_average: Any = None,
    eps: float = 1e-8, reduce: Any = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    _check_reduction(size_average, reduce)
    loss = input.exp() - target * input if log_input else input - target * torch.log(input + eps)
    if full:  # Stirling's approximation of log(target!)
        large = torch.where(target > 1, target, 2.0)
        rest = large * large.log() - large + 0.5 * torch.log(2 * math.pi * large)
        loss = loss + torch.where(target > 1, rest, 0.0)
    return _reduced(loss, reduction)


@composition(LOSSES, "F.soft_margin_loss")
def soft_margin_loss(
    torch: Any, input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Any:
    _check_reduction(size_average, reduce)
    return _reduced(torch.nn.functional.softplus(-target * input), reduction)


@composition(LOSSES, "F.margin_ranking_loss")
def margin_ranking_loss(
    torch: Any, input1: Any, input2: Any, target: Any, margin: float = 0, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    _check_reduction(size_average, reduce)
    return _reduced((margin - target * (input1 - input2)).clamp(min=0), reduction)


@composition(LOSSES, "F.triplet_margin_loss")
def triplet_margin_loss(
    torch: Any, anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    _check_reduction(size_average, reduce)
    distance = torch.nn.functional.pairwise_distance
    near, far = distance(anchor, positive, p, eps), distance(anchor, negative, p, eps)
    if swap:
        far = torch.minimum(far, distance(positive, negative, p, eps))
    return _reduced((margin + near - far).clamp(min=0), reduction)


@composition(LOSSES, "F.multi_margin_loss")
def multi_margin_loss(
    torch: Any, input: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    _check_reduction(size_average, reduce)
    own = target.unsqueeze(1)
    over = (margin - input.gather(1, own) + input).clamp(min=0) ** p
    over = over if weight is None else over * weight[target].unsqueeze(1)
    others = torch.arange(input.shape[1]) != own
    return _reduced((over * others).sum(1) / input.shape[1], reduction)
