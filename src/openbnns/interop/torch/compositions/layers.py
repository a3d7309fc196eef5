"""Layers, noise and losses, made of others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...converted.tensors import Misfit
from ._table import composition

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


@composition(LAYERS, "F.embedding_bag")
def embedding_bag(
    torch: Any, input: Any, weight: Any, offsets: Any = None, max_norm: Any = None, norm_type: float = 2,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Any = None,
    include_last_offset: bool = False, padding_idx: Any = None,
) -> Any:  # fmt: skip
    if input.dim() != 2 or offsets is not None:
        raise Misfit("bags must be rows (N, length) of one input, without offsets")
    if max_norm is not None or scale_grad_by_freq or padding_idx is not None:
        raise Misfit("max_norm, scale_grad_by_freq and padding_idx have no counterpart here")
    rows = torch.nn.functional.embedding(input, weight)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    return rows.sum(1) if mode == "sum" else rows.mean(1) if mode == "mean" else rows.amax(1)


@composition(LAYERS, "normal")
def normal(torch: Any, mean: Any, std: Any = 1.0, *, generator: Any = None) -> Any:
    """Random numbers with means and spreads that tensors hold."""
    if generator is not None:
        raise Misfit("a generator of PyTorch has no counterpart here")
    noise = torch.randn_like(mean + std if isinstance(mean, torch.Tensor) else std)
    return (mean + std * noise).detach()


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
