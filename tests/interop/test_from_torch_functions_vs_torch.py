"""Functions, methods and operators of PyTorch that ``nn.from_torch`` takes over, as they stand in people's code."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openbnns import nn
from openbnns.interop.torch.operations import FUNCTIONS
from torch_networks import F, T, check, floats, tokens, torch

pytestmark = pytest.mark.peers

X = floats(3, 4, 5)
IMAGE = floats(3, 4, 6, 5)
POSITIVE = np.abs(X) + 0.3
SMALL = np.tanh(X) * 0.8
HEADS = floats(3, 2, 4, 6)
SQUARES = floats(3, 4, 4) + 2 * np.eye(4, dtype=np.float32)[[1, 0, 2, 3]]


class Expression(T.Module):  # type: ignore[misc, name-defined]
    """A function of the inputs, with a parameter, a buffer and weights to use."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.function = function
        self.p = T.Parameter(torch.rand(5) + 0.5)
        self.w = T.Parameter(torch.randn(6, 5))
        self.kernel, self.kernel1 = T.Parameter(torch.randn(4, 2, 3, 3)), T.Parameter(torch.randn(4, 2, 3))
        self.kernel3 = T.Parameter(torch.randn(4, 2, 2, 3, 2))
        self.channels = T.Parameter(torch.rand(4) + 0.5)
        self.token = T.Parameter(torch.randn(1, 1, 5))
        self.register_buffer("mask", torch.tensor([True, False, True, True, False]))
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("var", torch.ones(4))

    def forward(self, *inputs: Any) -> Any:
        wants_self = self.function.__code__.co_varnames[0] == "s"
        return self.function(self, *inputs) if wants_self else self.function(*inputs)


def places_of_two_axes(x: Any) -> Any:
    y = x * 1
    y[:, torch.tensor([0, 2, 4]), torch.tensor([1, 3, 5])] = x[:, 1, :3] * 2
    y[..., [1, 3], [0]] = 7.0
    return y


def spectrum(z: Any) -> Any:
    """The low frequencies, written into zeros."""
    y = torch.zeros(len(z), 5, 6, dtype=z.dtype)
    y[:, :2] = z[:, :2] * 2
    y[:, -1, :3] = 1 + 2j
    return y


COMPLEX: list[Callable[..., Any]] = [
    spectrum,
    lambda z: z.transpose(1, 2).flatten(1),
    lambda z: torch.cat([z, z.sum(1, keepdim=True), -z.mean(1, keepdim=True)], 1)[:, 1:, ::2],
    lambda z: torch.stack(z.chunk(3, 2), 1).roll(1, 2),
    lambda z: torch.where(z.real > 0, z, 2j),
    lambda z: z.unsqueeze(1).expand(-1, 2, -1, -1).movedim(1, -1),
    lambda z: F.pad(z, (1, 2)),
]

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def case(name: str, function: Callable[..., Any], *inputs: Any) -> None:
    assert name not in CASES, name
    CASES[name] = function, inputs or (X,)


def cases(owner: Any, names: str, x: Any, *, scale: float = 1.0, start: float = 0.0, prefix: str = "") -> None:
    """One case for each of several functions of one tensor; those that end in _ are methods that change it."""
    for name in names.split():
        function = getattr(owner, name)
        case(prefix + name, lambda x, f=function: f(scale * x + start) + x, x)


# Element by element.

cases(torch, "neg abs exp exp2 sin cos tan sinh cosh asinh atan erf square floor ceil round sign expm1 erfc sinc trunc fix frac",
      X, scale=0.7)  # fmt: skip
cases(torch, "log log2 log10 sqrt rsqrt reciprocal log1p", POSITIVE)
cases(torch, "asin acos atanh negative absolute arcsin arccos arctan", SMALL)
cases(torch, "acosh", POSITIVE, start=1.1)
cases(torch, "relu sigmoid tanh selu celu hardshrink", X)
cases(
    F,
    "relu relu6 leaky_relu elu selu celu gelu silu mish sigmoid logsigmoid tanh hardtanh hardsigmoid",
    X,
    scale=3,
    prefix="F.",
)
cases(F, "hardswish hardshrink softshrink tanhshrink softsign softplus", X, scale=3, prefix="F.")
cases(
    torch.Tensor,
    "neg_ abs_ exp_ exp2_ square_ sin_ cos_ tan_ sinh_ cosh_ atan_ erf_ floor_ ceil_ round_ sign_ expm1_",
    X,
)
cases(torch.Tensor, "erfc_ sinc_ trunc_ frac_", X)
cases(torch.Tensor, "tanh_ relu_ sigmoid_", X)
cases(torch.Tensor, "log_ log2_ log10_ sqrt_ rsqrt_ reciprocal_ log1p_", POSITIVE)
cases(torch.Tensor, "asin_ acos_", SMALL)
case("all samples, one entry", lambda x: x[torch.arange(len(x)), -1])
case("all samples, several entries", lambda x: x[torch.arange(len(x))[:, None], torch.tensor([2, 0, 2])])
case("all samples of another axis", lambda x: x.transpose(0, 1)[:, torch.arange(len(x)), 1:].transpose(0, 1))
case("options of activations", lambda x: (
    F.leaky_relu(x, 0.3) + F.elu(x, alpha=0.7, inplace=False) + F.gelu(x, approximate="tanh") + F.hardtanh(x, -0.5, 0.7)
    + F.threshold(x, 0.2, 0.4) + F.softplus(x, beta=1.7) + F.softplus(x, 2, 0.4) + F.celu(x, 1.3) + F.relu(x.clone(), True)
))  # fmt: skip
case("in place activations", lambda x: F.relu_(x * 1) + F.leaky_relu_(x * 1, 0.2) + F.elu_(x * 1) + F.selu_(x * 1)
     + F.celu_(x * 1)
     + F.hardtanh_(x * 1) + F.threshold_(x * 1, 0.1, 0.2))  # fmt: skip
case("special.expit", lambda x: torch.special.expit(x))
case("prelu", lambda s, x: F.prelu(x, s.channels) + torch.prelu(x, s.channels), IMAGE)
case("operators", lambda s, x: (2 - x) * s.p + 3 * x / 2 - x / s.p + (1 / (x * x + 1)) ** 2 + (-x) + abs(x) - 2**x)
case("operators in place", lambda x: _in_place(x))
case("named arithmetic", lambda s, x: torch.add(x, s.p, alpha=2).sub(s.p, alpha=0.5).mul(1.5).div(s.p).multiply(x).subtract(1)
     .true_divide(2).divide(s.p) + torch.rsub(x, 1) + torch.maximum(x, s.p) + torch.minimum(x, -s.p))  # fmt: skip
case("methods in place", lambda x: (x * 1).add_(1).sub_(0.5).mul_(2).div_(3).clamp_(-0.6, 0.7).pow_(2))
case("pow", lambda s, x: x.pow(2) + torch.pow(x, 3) + x**s.p + 2.0**x, POSITIVE)
case(
    "clamp",
    lambda s, x: x.clamp(min=-0.5) + x.clamp(max=0.5) + torch.clip(x, -1, 1) + x.clamp_min(0.1) + x.clamp_max(0.2),
)
case("clamp in place", lambda x: (x * 1).clamp_min_(-0.4).clamp_max_(0.4).clip_(-0.3, 0.3))
case("clamp by tensors", lambda s, x: torch.clamp(x, min=-s.p, max=s.p))
case("lerp, addcmul", lambda s, x: torch.lerp(x, s.p, 0.3) + torch.addcmul(x, s.p, x, value=0.5) + (x * 1).lerp_(x * 2, 0.1)
     + (x * 1).addcmul_(x, x))  # fmt: skip
case("small numbers keep their digits", lambda x: torch.log1p(x * 1e-6) * 1e6 + torch.expm1(x * 1e-6) * 1e6, POSITIVE)
case("remainders", lambda s, x: x % 0.7 + x % s.p + 2 % s.p.detach() + torch.remainder(x, -0.7) + torch.fmod(x, 0.7)
     + (x * 1).remainder_(0.6) + (x * 1).fmod_(s.p))  # fmt: skip
case("quotients", lambda s, x: x.detach() // 0.7 + 3 // s.p.detach() + torch.floor_divide(x.detach(), s.p.detach()) + x
     + torch.div(x, 0.3, rounding_mode="trunc") + x.div(s.p, rounding_mode="floor")
     + (x * 1).detach().floor_divide_(0.6))  # fmt: skip
case("functions of two", lambda s, x: torch.atan2(x, s.p) + torch.hypot(x, s.p) + x.logaddexp(s.p) + torch.arctan2(s.p, x)
     + (x * 1).atan2_(s.p) + (x * 1).hypot_(x + 1))  # fmt: skip
case("nan_to_num", lambda x: _holes(x).nan_to_num(0.5, neginf=-3.0) + _holes(x).nan_to_num_(None, 1.0, 2.0))
case("not finite", lambda x: (
    _holes(x).isnan().float() + 2 * torch.isinf(_holes(x)).float() + 3 * torch.isfinite(_holes(x)).float()
) * x)  # fmt: skip
case("scalars that are tensors", lambda x: x * torch.tensor(2.0) + torch.tensor(3))

case("parts that select nothing", lambda x: torch.cat([x[..., :5] * 2, x[..., 5:]], -1) + torch.cat([x, x[:, 4:]], 1))

# Masks and types.

case("where", lambda s, x: torch.where(s.mask, x, torch.zeros_like(x)) + torch.where(x > 0, x * 2, x / 2))
case("where, buffers compared", lambda s, x: torch.where(s.mask == 0, x, 1.5))
case(
    "masked_fill",
    lambda s, x: x.masked_fill(s.mask, -1.0) + x.masked_fill(~s.mask, 2.0) + (x * 1).masked_fill_(s.mask, 0.5),
)
case(
    "comparisons",
    lambda s, x: ((x > 0.1) & (x <= 0.9)).float() * x + (x < -0.1).to(x.dtype) + (x >= s.p).type_as(x) * 2,
)
case(
    "logic",
    lambda x: x * (~(x > 0) | (x > 1)).float() + ((x > 0) ^ (x > 1)).double() + torch.logical_not(x > 0).float(),
)
case(
    "named comparisons",
    lambda s, x: sum(f(x, s.p).float() for f in (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge)) * x,
)
case("named logic", lambda x: x * torch.logical_and(x > 0, x < 1).float() + torch.logical_or(x > 0, x < -1).float()
     + torch.logical_xor(x > 0, x < 1).float() + torch.bitwise_and(x > 0, x < 1).float()
     + torch.bitwise_or(x > 0, x < 1).float()
     + torch.bitwise_xor(x > 0, x < 1).float() + torch.bitwise_not(x > 0).float())  # fmt: skip
case("comparisons with numbers", lambda x: (x == 0).float() + (x != 0).float() * x)
case("mask of tokens", lambda t, x: (x * (t != 0).unsqueeze(-1).float()).sum(1) / (t != 0).sum(1, keepdim=True).clamp(min=1),
     tokens(3, 3, 4), X)  # fmt: skip
case("types", lambda t, x: x.float() * t.float().unsqueeze(-1) + x.double().to(torch.float64) * t.to(x.dtype)[..., None]
     + t.long()
     .int().bool().half().unsqueeze(-1) + x.bfloat16().type(torch.float64) * 0, tokens(3, 3, 4), X)  # fmt: skip

# Shapes.

case("view, size", lambda x: x.view(x.size(0), -1) * x.shape[1])
case("view(-1)", lambda x: x.view(-1, 5).view(-1, 4, 5).reshape(x.shape[0] * 2, 10).reshape(x.shape))
case("flatten", lambda x: torch.flatten(x, 1) + x.flatten(start_dim=1), IMAGE)
case("flatten the batch too", lambda x: x.flatten(0, 1).unflatten(0, (-1, 4)) + x)
case("squeeze", lambda x: x.unsqueeze(1).squeeze(1) + x[:, None].squeeze() + x.unsqueeze(-1).squeeze(-1)
     + (x * 1).unsqueeze_(2)
     .squeeze_(2))  # fmt: skip
case("unflatten, ravel", lambda x: x.flatten(1).unflatten(1, (5, 4)) + x.mean(dim=0).ravel().mean()
     + x.reshape_as(x).view_as(x)
     .transpose(1, 2))  # fmt: skip
case(
    "permute",
    lambda x: x.permute(0, 2, 3, 1) * 2 + torch.permute(x, (0, 2, 3, 1)) + x.movedim(1, -1) + x.moveaxis(1, 3),
    IMAGE,
)
case("transpose", lambda x: x.transpose(1, 2) + x.mT + x.swapaxes(1, 2) + torch.swapdims(x, -1, -2) + x.adjoint())
case("t of parameters", lambda s, x: x @ s.w.t() + x @ s.w.T + torch.matmul(x, s.w.transpose(0, 1)))
case("contiguous, clone", lambda x: x.transpose(1, 2).contiguous().clone() + torch.atleast_2d(x).transpose(1, 2))
case("positive", lambda x: +x * 2 + torch.positive(x))
case("iteration", lambda s, x: x * sum(row.sum() for row in s.w) + torch.stack(list(x.transpose(0, 1)), 1))
case(
    "more in place",
    lambda x: (x * 1).transpose_(1, 2) + (x * 2).detach_().transpose(1, 2) + torch.atleast_1d(x).transpose(1, 2),
)
case("detach", lambda s, x: x * s.p.detach() + x.detach() + x.data * 2 + x)
case("no_grad", lambda s, x: _without_gradient(s, x))
case("expand", lambda s, x: torch.cat([s.token.expand(x.shape[0], -1, -1), x], 1) + s.token.expand(x.size(0), 5, 5))
case(
    "expand values",
    lambda x: x[:, :1].expand(-1, 4, -1) + x[:, :, :1].expand_as(x) + torch.broadcast_to(x[:, :1], x.shape),
)
case("repeat", lambda s, x: x.repeat(1, 2, 1) + s.token.repeat(x.size(0), 8, 1) + torch.tile(x, (1, 2, 1)))
case("repeat_interleave", lambda x: x.repeat_interleave(2, dim=1) + torch.repeat_interleave(x, 2, 1))

# Parts and joints.

case(
    "indices",
    lambda x: x[:, -1] + x[:, 0, :] + x[..., 2, :] + x[:, 1:3].sum(1) + x[:, ::2][:, 0] + x[:, [2, 0]].mean(1),
)
case("None", lambda x: x[:, None, :, 1:4] * x[:, 1:2, None, :3])
case(
    "constant lists",
    lambda x: x[:, torch.tensor([2, 0, 1])] + x[:, torch.tensor([[2, 0], [1, 1]])].flatten(1, 2)[:, :3],
)
case("a table by constant indices", lambda s, x: x + s.w[torch.tensor([[0, 5], [2, 2]])].sum(0)[:1])
case("whole batch by size", lambda x: x[: x.size(0), 1:])
case("split", lambda x: torch.split(x, 2, dim=1)[1] + x.split([1, 3], 1)[1][:, :2] + torch.split(x, [2, 2], 1)[0])
case("chunk", lambda x: _product(x.chunk(2, dim=1)) + _product(torch.tensor_split(x, 2, dim=1)))
case("split_with_sizes", lambda x: torch.split_with_sizes(x, [1, 3], 1)[1])
case("unbind", lambda x: sum(x.unbind(1)) + sum(torch.unbind(x, dim=1)))
case(
    "narrow, select",
    lambda x: x.narrow(1, 1, 2).sum(1) + x.select(1, 3) + torch.index_select(x, 1, torch.tensor([3, 3, 0])).sum(1),
)
case("flip, roll", lambda x: x.flip(1) + torch.flip(x, [1, 2]) + x.roll(1, 1) + torch.roll(x, (1, -2), (1, 2)))
case("tril, triu", lambda x: torch.tril(x) + x.triu(1) * 2)
case(
    "cat, stack",
    lambda s, x: (
        torch.cat([x, x * 2], dim=-1).sum(-1)
        + torch.stack((x, x + 1), dim=1).mean([1, 3])
        + torch.stack([x, x], -1).sum((2, 3))
        + torch.concat([x, x], 1)[:, ::2].sum(2)
        + torch.concatenate((x, x), 1)[:, 4:].sum(2)
    ),
)
case("diagonals", lambda x: torch.diagonal(x, 1, 1, 2) + x.diagonal(dim1=1, dim2=2, offset=-1)[:, :1]
     + torch.diag_embed(x[:, 0], 1).sum(1)[:, 1:5] + torch.trace(x[0]))  # fmt: skip
case("differences", lambda x: torch.diff(x, dim=1, prepend=x[:, :1]) + x.diff(2, 1, append=x[:, :2]))
case("turns and grids", lambda s, x: torch.rot90(x, 1, (1, 2)).sum(2) + x.rot90(3, [1, 2]).mean(2) + _product(torch.meshgrid(
    x[0, 0], s.p, indexing="ij")).sum(0) + _product(torch.meshgrid([s.p, x[0, :, 0]], indexing="xy")).sum(0))  # fmt: skip
case("channels mixed", lambda x: _channel_shuffle(x, 2), IMAGE)
case("loop over a size", lambda x: sum(x[:, t] * t for t in range(x.size(1))))

case("assignment", lambda s, x: _assigned(s, x))
case("outputs one by one", lambda x: _filled(x))

# Positions.

case(
    "cumulative",
    lambda x: x.cumsum(1) + torch.cumprod(x, dim=-1) + (x * 1).cumsum_(2) + (x * 1).cumprod_(1) + x.cumsum(0),
)
case("positions of a mask", lambda s, t: s.w[(t != 0).cumsum(1, dtype=torch.long) * (t != 0)], tokens(3, 3, 4))
case("gather", lambda x, t: torch.gather(x, 1, t[:, None, :].expand(-1, 2, -1)).sum(1)
     + x.gather(2, t[:, :4, None])[..., 0].mean() + torch.take_along_dim(x, t[:, None], dim=1)[:, 0]
     + x.take_along_dim(x.argsort(1), 1).prod(1), X, tokens(4, 3, 5))  # fmt: skip
case("scatter", lambda x, t: x.scatter(1, t[:, None], x[:, 1:2] * 3) + x.scatter(1, t[:, None], 1.5)
     + x.scatter(1, index=t[:, None], value=0.5)
     + torch.scatter_add(x, 1, t[:, None].expand(-1, 4, -1), x * 2) + (x * 1).scatter_(1, t[:, None], 2.0)
     + (x * 1).scatter_add_(1, t[:, None], x[:, 2:3]), X, tokens(4, 3, 5))  # fmt: skip
case("index_add", lambda x: x.index_add(1, torch.tensor([2, 0, 2]), x[:, 1:] * 2, alpha=0.5)
     + (x * 1).index_add_(2, torch.tensor([4]), x[..., :1]))  # fmt: skip
case("sort", lambda x: (torch.sort(x, 1).values + x.sort(dim=1, descending=True)[0] + torch.sort(x, stable=True, dim=2)[0],
     x.argsort(-1), torch.argsort(x, dim=1, descending=True)))  # fmt: skip
case("topk", lambda x: _best(x))
case("windows", lambda x: x.unfold(1, 3, 1).sum(-1) * x.unfold(1, 2, 2).mean(-1))
case("computed indices", lambda s, t, x: x[:, t[0]] + s.w[t][:, :4]
     + x.index_select(1, x[0].argmax(0)[:4] % 4) + x[x.argsort(0)[:, 0, 0]],
     tokens(4, 3, 4), X)  # fmt: skip
case(
    "embedding of computed numbers",
    lambda s, t: F.embedding((t * 3 + 1) % 6, s.w) + F.one_hot(t // 2, 5),
    tokens(5, 3, 4),
)
case("numbers made whole", lambda s, x: s.w[(x[..., 0].sigmoid() * 5).long()] + (x * 3).int())
case("an entry of each sample", lambda x, t: x[torch.arange(len(x)), t[:, 0]] + x[
    torch.arange(len(x))[:, None], t[:, 1:3]].sum(1) + x[torch.arange(len(x)), t[:, 3], t[:, 2]][:, None]
     + x[torch.arange(len(x)), x.argmax(1)[:, 0]], X, tokens(4, 3, 5))  # fmt: skip
case("several axes", lambda x, t: x[:, [2, 0], [3, 1]] + x[:, t[0, :2], torch.tensor([4, 2])]
     + x[:, torch.tensor([[1], [2]]), [0, 4]].sum(1),
     X, tokens(4, 3, 5))  # fmt: skip
case("constants", lambda x: x * torch.arange(1, 6) + torch.full_like(x, 0.3) * torch.ones_like(x) - torch.zeros_like(x)
     + torch.full((5,), 2.0) * torch.ones(4, 1) * x + torch.zeros(len(x), 1, 1) + x.new_full((5,), 2.0))  # fmt: skip

# Across the samples of a batch.

case("one sample", lambda x: x[0])
case("samples but the first", lambda x: x[1:] - x[:-1])
case("batches joined", lambda x: torch.cat([x, x * 2]))
case("batch counted", lambda x: x.sum(0) / x.size(0) + x[len(x) - 1] * (len(x) - 1))
case("all pairs of samples", lambda x: x[:, 0] @ x[:, 0].t() / (len(x) * len(x)))
case("softmax over the batch", lambda x: x.softmax(0) + x.argmax(0) + x.max(0)[0])
case("steps in front of the batch", lambda x: x.transpose(0, 1).reshape(-1, 5))
case("samples told apart", lambda x: x + torch.arange(len(x))[:, None, None])
case("a sample assigned", lambda x: _one_sample_assigned(x))
case("samples turned round", lambda x: x.flip(0) + x.roll(1, 0) + torch.stack([x, x], 1).repeat(2, 1, 1, 1)[::2, 0])
case("samples repeated", lambda x: x.repeat_interleave(2, 0).view(-1, 2, 4, 5).mean(1) + torch.zeros(len(x), 1, 1))
case("normalized over the batch", lambda x: F.normalize(x, dim=0))

# Reductions.

case("any, all", lambda x: ((x > 0.9).any(1).float() + 2 * torch.all(x < 1.2, dim=1).float() + (x > 3).any().float()) * x.sum(1)
     + (x > -1).all(1, keepdim=True).squeeze(1).float())  # fmt: skip

case(
    "sums",
    lambda x: x.sum(1) + x.mean(dim=1) + torch.sum(x, dim=1, keepdim=True).squeeze(1) + x.amax(1) + x.amin(dim=1),
)
case(
    "image means", lambda x: x.mean([2, 3]) + x.mean((-2, -1)) + x.mean(-1).mean(-1) + torch.mean(x, dim=[2, 3]), IMAGE
)
case("over all", lambda x: x.mean() + x.sum() * 0.1 + x.max() + x.min())
case("over the batch", lambda x: x - x.mean(0, keepdim=True) + x.mean(dim=(0, 1), keepdim=True))
case(
    "max",
    lambda x: (
        x.max(dim=1)[0] + torch.max(x, 1).values + x.min(1, keepdim=True)[0].squeeze(1) + torch.max(x, x * 2).sum(1)
    ),
)
case("argmax", lambda x: (x.argmax(dim=1), torch.argmin(x, dim=-1), x.sum(1)))
case("logsumexp, prod", lambda x: x.logsumexp(1) + torch.prod(x, 1) + torch.logsumexp(x, dim=1))
case("var", lambda x: x.var(1) + x.var(dim=1, unbiased=False) + torch.std(x, 1, correction=0) + x.std(dim=1))
case(
    "norms",
    lambda x: (
        x.norm(dim=1) + torch.norm(x, p=1, dim=1) + torch.linalg.vector_norm(x, dim=1) + torch.linalg.norm(x, dim=1)
    ),
)
case("determinants", lambda x: (torch.det(x), x[:, 1:, :3].det() + torch.linalg.det(x @ x)), SQUARES)
case("slogdet", lambda x: (*torch.slogdet(x), torch.linalg.slogdet(x[:, None]).logabsdet), SQUARES)
case("inverses", lambda x: torch.linalg.inv(x) @ x[:1] + torch.inverse(x) + x[:, None].inverse()[:, 0].mT, SQUARES)
case("normalize", lambda x: F.normalize(x, dim=1) + F.normalize(x, p=1, dim=-1) + F.cosine_similarity(x, x * 2
     + 1, dim=1)[:, None]
     + torch.cosine_similarity(x, x + 1, 1)[:, None] + F.pairwise_distance(x, x * 2)[..., None] +
     torch.pairwise_distance(x, x * 3)[..., None])  # fmt: skip
case("softmax", lambda x: x.softmax(-1) + F.softmax(x, dim=1) + torch.log_softmax(x, 1) + F.log_softmax(x, dim=2)
     + F.softmin(x, 1)
     + torch.softmax(x, dim=2, dtype=torch.float64))  # fmt: skip
case("softmax without an axis", lambda x: x[:, 0].softmax(1))
case("glu", lambda x: F.glu(x, dim=1))

# Products.

case("matmul", lambda s, x: x @ x.transpose(1, 2) @ x + torch.matmul(x, s.w.t()) @ s.w)
case(
    "bmm",
    lambda x: torch.bmm(x, x.transpose(1, 2)) + torch.baddbmm(x[:, :, :4], x, x.transpose(1, 2), beta=0.5, alpha=2),
)
case(
    "addmm",
    lambda s, x: (
        torch.addmm(s.p[:1], x[:, 0], s.w.t()) + torch.mm(x[:, 1], s.w.t()) + torch.addmm(x[:, 0, :1], x[:, 1], s.w.T)
    ),
)
case("vectors", lambda s, x: x @ s.p + torch.mv(x[:, 0], s.p)[:, None] + torch.dot(s.p, s.p) + torch.inner(s.p, s.p)
     + torch.addmv(x[:, 0, 0], x[:, 1], s.p)[:, None] + torch.outer(s.p, s.p).sum() + torch.ger(s.p, s.p).mean())  # fmt: skip
case("cross", lambda s, x: torch.cross(x[:, :3], x[:, 1:], dim=1) + x[:, 1:].cross(x[:, :3] * s.p, 1))
case("cdist", lambda s, x: torch.cdist(x, s.w) + torch.cdist(x, s.w, p=1.0) * torch.cdist(x, s.w[None], math.inf))
case("linear", lambda s, x: F.linear(x, s.w) + F.linear(x, s.w * 2, s.w[:, 0]))
case("weight norm", lambda s, x: F.linear(x, torch._weight_norm(s.w, s.w[:, :1], 0)))
case("bilinear", lambda s, x: F.bilinear(x, x + 1, s.w[None, :5], s.p[:1]) + torch.bilinear(x, x, s.w[None, :5], None))
case("einsum", lambda s, x: torch.einsum("bij,bkj->bik", x, x) @ x + torch.einsum("bij,oj->bio", x, s.w) @ s.w + torch.einsum(
    "...d,d->...d", x, s.p))  # fmt: skip
case(
    "einsum of heads",
    lambda q: torch.einsum("bhid,bhjd->bhij", q, q).sum(-1) + torch.einsum("b h i d -> b h i", q),
    HEADS,
)
case("attention", lambda q: F.scaled_dot_product_attention(q, q, q)
     + F.scaled_dot_product_attention(q, q, q, is_causal=True, scale=0.3),
     HEADS)  # fmt: skip
case("attention, masks", lambda q, t: F.scaled_dot_product_attention(
    q, q, q, attn_mask=torch.ones(4, 4, dtype=torch.bool).tril()) + F.scaled_dot_product_attention(
    q, q, q, (t != 0)[:, None, None, :]) + F.scaled_dot_product_attention(q, q, q, torch.eye(4, dtype=q.dtype)),
    HEADS, tokens(3, 3, 4, low=1))  # fmt: skip
case("qkv in front", lambda x: _qkv(x), floats(3, 4, 12))
case("batch in the middle", lambda s, x: _middle(s, x))
case("heads in the batch", lambda x: _heads_in_batch(x), floats(3, 4, 6))

# Layers.

case("convolutions", lambda s, x: F.conv2d(x, s.kernel, s.channels, stride=2, padding=1, groups=2) + torch.conv2d(
    x, s.kernel, None, (2, 2), (1, 1), (1, 1), 2), IMAGE)  # fmt: skip
case("convolutions of signals", lambda s, x: F.conv1d(x, s.kernel1, groups=2, padding="same") + torch.conv1d(
    x, s.kernel1, s.channels, padding=1, groups=2))  # fmt: skip
case("transposed convolutions", lambda s, x: F.conv_transpose2d(x, s.kernel, stride=2, padding=1, output_padding=1).sum((2, 3))
     + F.conv_transpose1d(x.flatten(2), s.kernel1, dilation=2).sum(2) + torch.conv_transpose2d(x, s.kernel).sum((2, 3))
     + torch.conv_transpose1d(x.flatten(2), s.kernel1).sum(2), IMAGE)  # fmt: skip
case("pooling", lambda x: F.max_pool2d(x, 2, 1) + F.avg_pool2d(x, 2, stride=1) + torch.max_pool2d(x, 2, 1)
     + F.lp_pool2d(x * x, 2, 2, 1) + F.adaptive_avg_pool2d(x, 1) + F.adaptive_max_pool2d(x, (1, 1))
     + torch.adaptive_avg_pool1d(x.flatten(2), 1)[..., None]
     + F.adaptive_max_pool1d(x.flatten(2), 1)[..., None], IMAGE)  # fmt: skip
case("volumes", lambda s, x: F.conv3d(x, s.kernel3, s.channels, stride=2, padding=1) + torch.conv3d(
    x, s.kernel3, None, 2, (1, 1, 1))
     + F.max_pool3d(x, 2, 2, ceil_mode=True).mean(1, True) + torch.max_pool3d(x, 2, ceil_mode=True).sum(1, True)
     + F.avg_pool3d(x, 1, 2).sum(1, True) + F.adaptive_avg_pool3d(x, (2, 3, 3)).sum(1, True)
     + F.adaptive_max_pool3d(x, (2, 3, 3)).mean(1, True), floats(3, 2, 3, 5, 5))  # fmt: skip
case("computed kernels", lambda s, x: F.conv2d(x, s.kernel * 2, s.channels * 1, padding=1), IMAGE[:, :2])
case("transposed convolutions of volumes", lambda s, x: F.conv_transpose3d(x, s.kernel3, stride=2, output_padding=1)
     + torch.conv_transpose3d(x, s.kernel3, stride=2, output_padding=(1, 1, 1)), floats(3, 4, 2, 1, 3))  # fmt: skip
case("windows as columns", lambda x: F.fold(
    F.unfold(x, (2, 3), padding=1, stride=(2, 1)) ** 2, (6, 5), (2, 3), padding=1, stride=(2, 1))
     + F.unfold(x, 3, dilation=2).mean(), IMAGE)  # fmt: skip
case("pooling of signals", lambda x: F.max_pool1d(x, 2) + F.avg_pool1d(x, 2) + F.lp_pool1d(x * x, 2, 2)
     + torch.max_pool1d(x, 2)
     + F.adaptive_avg_pool1d(x, 2) + torch.avg_pool1d(x, 2))  # fmt: skip
case("pooling with indices", lambda x: _unpooled(x), floats(3, 2, 6, 4))
case("pad", lambda x: F.pad(x, (1, 2)) + F.pad(x, [2, 1], value=0.5) + F.pad(x, (1, 2), mode="reflect")
     + F.pad(x, (2, 1, 1, -1))
     + F.pad(x, (1, 2, 0, 0, 0, 0)) + torch.constant_pad_nd(x, (1, 2), 2.0))  # fmt: skip
case("interpolate", lambda x: F.interpolate(x, scale_factor=2, mode="nearest")
     + F.interpolate(x, size=(12, 10), mode="bilinear",
     align_corners=True) + F.interpolate(x, (12, 10), mode="bicubic"), IMAGE)  # fmt: skip
case("shuffles", lambda x: F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2) + torch.pixel_shuffle(torch.pixel_unshuffle(x, 1), 1)
     + F.channel_shuffle(x, 2) + torch.channel_shuffle(x, 2), IMAGE)  # fmt: skip
case("norms of layers", lambda s, x: F.layer_norm(x, (5,), s.p, s.p) + F.layer_norm(x, [4, 5])
     + F.group_norm(x, 2, s.channels,
     s.channels) + F.rms_norm(x, (5,), s.p) + F.instance_norm(x))  # fmt: skip
case("batch norm", lambda s, x: F.batch_norm(x, s.mean, s.var, s.channels, s.channels, s.training, 0.2, 1e-3), IMAGE)
case("batch norm without statistics", lambda x: F.batch_norm(x, None, None, training=True), IMAGE)
case("embedding", lambda s, t: F.embedding(t, s.w) + F.one_hot(t, 5), tokens(5, 3, 4))
case("dropout", lambda s, x: F.dropout(x, 0.0, s.training) + F.dropout(x, 0.5, False) + torch.dropout(x, 0.3, False)
     + F.dropout1d(x, 0.0, s.training) + F.dropout2d(x[:, None], 0.0, s.training)[:, 0])  # fmt: skip

case("modes", lambda s, x: _by_mode(s, x))

# Losses, as part of a network.

case("losses", lambda x, y: F.mse_loss(x, y) + F.l1_loss(x, y, reduction="sum") + F.smooth_l1_loss(x, y, beta=0.5)
     + F.huber_loss(
    x, y, delta=0.7) + F.binary_cross_entropy_with_logits(x, torch.sigmoid(y)) + F.binary_cross_entropy(
    torch.sigmoid(x), torch.sigmoid(y)) + F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean")
     + F.hinge_embedding_loss(
    x, torch.sign(y)), X, floats(3, 4, 5, seed=5))  # fmt: skip
case("losses of classes", lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1) + F.nll_loss(x.log_softmax(1), t)
     + F.cross_entropy(
    x.transpose(1, 2).reshape(-1, 4), t.reshape(-1)), X, tokens(4, 3, 5))  # fmt: skip


def _in_place(x: Any) -> Any:
    y = x * 2
    z = y
    y += x
    y -= 1
    y *= 0.5
    y /= 2
    y **= 2
    return y + z  # which is the same tensor


def _assigned(s: Any, x: Any) -> Any:
    y = x * 2
    y[:, 0] = 0
    y[..., 1:3] = x[..., :2]
    y[:, [3, 1]] = s.p
    y[:, 2, ::2] *= 3
    return y


def _filled(x: Any) -> Any:
    outputs = torch.zeros(x.size(1), x.size(0), 5, dtype=x.dtype)
    state = x[:, 0]
    for t in range(x.size(1)):
        state = torch.tanh(state + x[:, t])
        outputs[t] = state
    return outputs.transpose(0, 1)


def _by_mode(s: Any, x: Any) -> Any:
    y = F.relu(x)
    if s.training:
        y = F.dropout(y * s.p, 0.0)
    z = torch.tanh(y @ s.w.t())
    z = z * 2 if s.training else torch.sigmoid(z) + 1
    return (z.mean(1), y) if s.training else (z.sum(1), y)


def _holes(x: Any) -> Any:
    return x.masked_fill(x > 0.8, math.nan).masked_fill(x < -0.8, -math.inf)


def _best(x: Any) -> Any:
    values, places = torch.topk(x, 3, dim=1)
    smallest = x.topk(2, -1, largest=False)
    return values + smallest.values.sum(1, keepdim=True).sum(2, keepdim=True), places, smallest.indices


def _without_gradient(s: Any, x: Any) -> Any:
    with torch.no_grad():
        scale = (x * s.p).mean(1, keepdim=True)
    return x * scale + s.p


def _product(parts: Any) -> Any:
    a, b = parts
    return a * b


def _channel_shuffle(x: Any, groups: int) -> Any:
    n, c, h, w = x.size()
    x = x.view(n, groups, c // groups, h, w)
    x = torch.transpose(x, 1, 2).contiguous()
    return x.view(n, c, h, w)


def _qkv(x: Any) -> Any:
    b, t, c = x.shape
    qkv = x.reshape(b, t, 3, 2, c // 6).permute(2, 0, 3, 1, 4)
    q, k, v = qkv[0], qkv[1], qkv[2]
    attention = (q @ k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    return (attention.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c // 3)


def _middle(s: Any, x: Any) -> Any:
    y = x.transpose(0, 1)  # (T, N, D)
    y = F.relu(y) + s.p * y + s.token - y.mean(0, keepdim=True) + y[-1] + torch.ones(4, 1, 5, dtype=x.dtype)
    y = F.layer_norm(F.linear(y, s.w) @ s.w, (5,))
    y = torch.cat([y, y[:1]], dim=0) + torch.stack([y[0], y[1], y[2], y[3], y[0]], dim=0)
    y = y.softmax(0).unsqueeze(0).squeeze(0).reshape(5, -1, 1, 5).flatten(2)
    return y.permute(1, 2, 0), y.sum(0), y.max(0)[0]


def _one_sample_assigned(x: Any) -> Any:
    y = x * 1
    y[0] = 1.0
    y[1:, 2] = x[:-1, 0]
    return y


def _heads_in_batch(x: Any) -> Any:
    n, t, c = x.shape
    y = x.transpose(0, 1)  # (T, N, C)
    y = y.contiguous().view(t, n * 2, c // 2).transpose(0, 1)  # (N heads, T, C / heads)
    y = torch.bmm(torch.bmm(y, y.transpose(1, 2)).softmax(-1), y)
    return y.transpose(0, 1).contiguous().view(t, n, c).transpose(0, 1)


def _unpooled(x: Any) -> Any:
    y, places = F.max_pool2d(x, 2, return_indices=True)
    z, _ = F.adaptive_max_pool2d(x, (3, 2), return_indices=True)
    a, where = F.max_pool1d(x.flatten(1, 2), 2, return_indices=True)
    b, _ = F.adaptive_max_pool1d(x.flatten(1, 2), 2, return_indices=True)
    return F.max_unpool2d(y * z, places, 2) + F.max_unpool1d(a * b, where, 2).view_as(x)


CASES |= {
    **{
        f"fft.{kind}{axes}": (
            lambda x, kind=kind, axes=axes: torch.view_as_real(
                getattr(torch.fft, kind + axes)(x if kind[0] in "fr" else torch.complex(x, x.cos()), norm="ortho") * (1 + 2j)
            ),
            (floats(3, 5, 6),),
        )
        for kind in ("fft", "ifft", "rfft", "irfft")
        for axes in ("", "2")
    },
    **{
        f"fft.{kind}n": (
            lambda x, kind=kind: torch.view_as_real(
                getattr(torch.fft, kind + "n")(torch.polar(x.exp(), x) if kind != "rfft" else x, dim=(1, 2)) * 1j
            ),
            (floats(3, 5, 6),),
        )
        for kind in ("fft", "ifft", "rfft", "irfft")
    },
    "conjugates": (
        lambda x: (
            torch.complex(x, x.sin()).conj() * torch.view_as_complex(torch.stack([x, x.cos()], -1)).conj_physical()
        ).resolve_conj().imag,
        (floats(3, 5, 6),),
    ),
    "shapes of complex numbers": (
        lambda x: [torch.view_as_real(f(torch.fft.rfft(x, dim=1))).sin() for f in COMPLEX], (floats(3, 5, 6),),
    ),
    "products of complex numbers": (
        lambda x: [
            torch.view_as_real(y) * 2
            for z in [torch.fft.fft(x)]
            for y in (z @ z.mT, torch.einsum("nij,njk->nik", z.transpose(1, 2), x.to(z.dtype)), z / (z + 30), 1 / (z + 30),
                      x / (z + 30), z / x.exp(), (z / 9).exp(), torch.complex(x, x[0, 0]), (z + 30).reciprocal(), z @ z.mH,
                torch.linalg.vecdot(z, z * 1j), z.mT @ torch.linalg.vecdot(z, 2 * z)[..., None])
        ], (floats(3, 5, 6) + 2,),
    ),
    "parts of complex numbers": (
        lambda x: torch.complex(x, x.exp()).angle() + torch.complex(x, x).real + x.angle(), (floats(3, 5, 6),),
    ),
    "cfloat": (lambda x: torch.view_as_real(x.float().cfloat() * 2j), (floats(3, 5, 6),)),
    "antialias": (
        lambda x: [F.interpolate(x, size, mode=mode, antialias=True, align_corners=False)
                   for size in ((4, 3), (9, 8), (3, 9)) for mode in ("bilinear", "bicubic")]
        + [F.interpolate(x, scale_factor=0.6, mode="bicubic", antialias=True), F.interpolate(x, (4, 3), mode="area"),
           F.interpolate(x, (4, 9), mode="bilinear", antialias=True, align_corners=True)], (floats(3, 2, 7, 6),),
    ),
    "byte": (lambda x: (x * 100).byte() * x + torch.as_tensor(x) + torch.asarray(x > 0).byte(), (abs(X),)),
    "places of two axes": (lambda x: places_of_two_axes(x), (floats(3, 5, 6),)),
    "constants that grow": (
        lambda x: torch.eye(len(x), dtype=x.dtype) @ x.flatten(1) * torch.arange(1, len(x) + 1)[:, None], (floats(3, 5, 6),),
    ),
    "fill_": (lambda x: x * torch.empty_like(x).fill_(2.0) + torch.zeros_like(x).fill_(x[0, 0, 0]), (floats(3, 5, 6),)),
    "zero_": (lambda x: x.clone().zero_() + x.cpu(), (floats(3, 5, 6),)),
    "out": (lambda x: in_place_of_another(x) * x, (floats(3, 5, 6),)),
    "names of NumPy": (lambda x: x.mean(axis=1, keepdims=True) + x.softmax(axis=-1), (floats(3, 5, 6),)),
    "changed in place by other functions": (
        lambda x: x.clone().tril_().add_(1).gt_(1.2) + x.clone().addcdiv_(x, x.exp()).sgn_(), (floats(3, 5, 5),),
    ),
    "a mask in place": (lambda x: masked_in_place(x), (floats(3, 5, 6),)),
    "filled piece by piece": (lambda x: piece_by_piece(x), (floats(3, 5, 6),)),
    "F.grid_sample": (
        lambda x, places: F.grid_sample(x, places, align_corners=False)
        + F.grid_sample(x, 1.3 * places, "bilinear", "reflection", True)
        + F.grid_sample(x, places, padding_mode="border", align_corners=False),
        (IMAGE, np.tanh(floats(3, 4, 3, 2))),
    ),
    "F.local_response_norm": (
        lambda x: F.local_response_norm(x, 3) + F.local_response_norm(x, size=4, alpha=0.8, beta=0.5, k=1.5),
        (floats(3, 5, 6),),
    ),
    "F.multilabel_margin_loss": (
        lambda x, lists: F.multilabel_margin_loss(x, lists - 1)
        + F.multilabel_margin_loss(x, lists - 1, reduction="none").sum(),
        (floats(4, 5), np.array([[3, 1, 0, 2, 2], [0, 1, 1, 1, 1], [5, 4, 3, 0, 1], [2, 2, 5, 1, 0]])),
    ),
    "F.multilabel_soft_margin_loss": (
        lambda x, labels: F.multilabel_soft_margin_loss(x, labels.to(x.dtype))
        + F.multilabel_soft_margin_loss(x, labels.to(x.dtype), reduction="sum"),
        (floats(3, 5), tokens(2, 3, 5)),
    ),
    "F.cosine_embedding_loss": (
        lambda x, signs: F.cosine_embedding_loss(x, x.flip(1).sin(), signs, margin=0.1),
        (floats(3, 5), 2 * tokens(2, 3) - 1),
    ),
    "classes that are computed and ignored": (
        lambda x, places: F.cross_entropy(x, (places - 3).clamp(-1, 4), ignore_index=-1, reduction="sum")
        + F.cross_entropy(x, torch.where(places > 4, -100, places), reduction="sum"),
        (floats(6, 5), tokens(8, 6)),
    ),
    "bits": (
        lambda s, i, j: [i[:, :1] * s.p, i & j, i | 5, 3 ^ j, ~i, i << 2, 64 >> j,
                         torch.bitwise_left_shift(i, j), torch.bitwise_right_shift(j, 1),
                      torch.bitwise_and(i, 6), torch.bitwise_or(i, j), torch.bitwise_xor(i, j), torch.bitwise_not(j),
                      torch.gcd(i, j), torch.lcm(i, j), (i.short() > 2) & (j > 1)], (tokens(9, 3, 4), tokens(5, 3, 4)),
    ),
    "decimals": (lambda x: torch.round(x, decimals=1) * x + (1e3 * x).round(decimals=-2) * x, (X,)),
    "memory format": (lambda x: x.float(memory_format=torch.preserve_format) + x.double().sin().float(), (X,)),
    "without samples": (
        lambda s, x: F.conv1d(x.flatten(0, 1)[:2], s.kernel1[:, :, :2]).sum() * F.avg_pool1d(x[0], (2,))[0, 0]
        + F.conv2d(x[:2], s.kernel[:, :, :2]).sum() + F.max_pool1d(x.flatten(1), 3)
        + F.adaptive_avg_pool2d(x[:2], 1).sum(), (X,),
    ),
    "tables that are computed": (
        lambda s, i: F.embedding(i, s.w * 2) + F.embedding(i, s.w.sin(), padding_idx=1), (tokens(6, 3, 4),),
    ),
    "nothing": (
        lambda x: torch.cat([*torch.split(x, [0, 2, 3], 2), x.narrow(2, 1, 0)], 2).sin(), (X,),
    ),
    "packed sequences": (lambda s, x, lengths: packed(s, x, lengths), (X, tokens(4, 3, low=1))),
    "copy_": (lambda x: torch.zeros(len(x), 5, 6, dtype=x.dtype).copy_(x.sin()), (floats(3, 5, 6),)),
}  # fmt: skip


def in_place_of_another(x: Any) -> Any:
    y = torch.ones_like(x)
    with torch.no_grad():
        torch.mul(x, 2, out=y)
    return y


def masked_in_place(x: Any) -> Any:
    y = x * 1
    y[y < 0] = 0.5
    y[:, 2:][x[:, 2:] > 1] = x[0, 0, 0]
    y[(x > 0.3).all(-1)] = x[0, 0]
    y[torch.eye(5, 6, dtype=torch.bool).expand(len(x), -1, -1)] = -1
    return y


def piece_by_piece(x: Any) -> Any:
    y = torch.empty(len(x), 2, 6, dtype=x.dtype)
    y[:, 0] = x[:, 1]
    y[:, 1] = x.new_empty(6).fill_(3.0)
    return y


def packed(s: Any, x: Any, lengths: Any) -> Any:
    rnn = torch.nn.utils.rnn
    samples = rnn.pack_padded_sequence((x * s.p).transpose(0, 1), lengths, enforce_sorted=False)
    return rnn.pad_packed_sequence(samples, True, -2.0, total_length=4)[0]


@pytest.mark.parametrize("name", CASES)
def test_functions(name: str) -> None:
    function, inputs = CASES[name]
    check(Expression(function), *inputs)


# Other versions of PyTorch call operators by these names.
OPERATORS = {name for name in FUNCTIONS if name.startswith("__")}


def test_every_function_is_tried() -> None:
    seen = {
        "randn_like",
        "rand_like",
        "randn",
        "rand",
        "bernoulli",
        "bernoulli_",
        "randperm",
        "randint",
        "randint_like",
        "uniform_",
        "normal_",
        "exponential_",
    }  # which have tests of their own
    for function, inputs in CASES.values():
        net = nn.from_torch(Expression(function), inputs if len(inputs) > 1 else inputs[0])
        seen |= {step.target for step in net._steps if step.kind == "function"}
    assert sorted(set(FUNCTIONS) - seen - OPERATORS) == []


def test_most_functions_of_ours_are_there() -> None:
    """Functions that PyTorch has, too, but that cannot be reached from it need a reason."""
    names = {name.rpartition(".")[2] for group in nn.pytorch.supported().values() for name in group}
    inside = dict.fromkeys(("zeros", "ones", "full"), "constants of the record, by their numbers")
    inside |= dict.fromkeys(("zeros_like", "ones_like", "full_like"), "constants of the record too")
    theirs = {name for name in nn.functional.__all__ if hasattr(torch, name) or hasattr(torch.nn.functional, name)}
    assert theirs - names == set(inside)
