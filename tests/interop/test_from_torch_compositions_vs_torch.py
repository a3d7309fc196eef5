"""Functions of PyTorch that ``nn.from_torch`` records as others, against PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openbnns import nn
from openbnns.interop.torch import Unsupported
from openbnns.interop.torch.compositions import COMPOSITIONS
from openbnns.interop.torch.operations import FUNCTIONS
from torch_networks import F, T, check, floats, tokens, torch

pytestmark = pytest.mark.peers

X, Y = floats(3, 4, 5), floats(3, 4, 5, seed=1)
VOLUME = floats(3, 2, 3, 4, 5)
SIGNS = 2 * tokens(2, 3, 4, 5) - 1
ENDS = torch.tensor([-1.0, 0.0, 0.5, 1.0])
WINDOW = torch.hann_window(8)
SELF = torch.tensor([2, 0, 1])


class Expression(T.Module):  # type: ignore[misc, name-defined]
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.function, self.p = function, T.Parameter(torch.rand(5) + 0.5)

    def forward(self, x: Any, *more: Any) -> Any:
        return self.function(x * self.p if x.is_floating_point() else x, *more)


def gaps(x: Any) -> Any:
    """NaN in place of small numbers."""
    return torch.where(x.abs() < 0.3, torch.nan, x)


def well(x: Any) -> Any:
    """Square matrices that are far from singular."""
    return x @ x.mT + 3 * torch.eye(4, dtype=x.dtype)


def _together(function: Callable[..., Any], *names: str) -> dict[str, tuple[Any, ...]]:
    """The same case for functions that differ in their name alone."""
    return {name: (lambda *given, name=name: function(getattr(torch, name), *given), X, Y) for name in names}


def tokens_of(x: Any) -> Any:
    return (x[:, 0, 0] > 0).long()


def _of_loss(name: str, *inputs: Any, **options: Any) -> tuple[Any, ...]:
    def both(*given: Any) -> Any:
        loss = getattr(F, name)
        return loss(*given, **options), loss(*given, reduction="none"), loss(*given, reduction="sum")

    return both, *inputs


CASES: dict[str, tuple[Any, ...]] = {
    "addcdiv": (lambda x, y: torch.addcdiv(x, y, y * y + 1, value=0.5).addcdiv_(x, y.exp()), X, Y),
    "arccosh": (lambda x: torch.arccosh(x * x + 1.2), X),
    "arcsinh": (lambda x: x.arcsinh(), X),
    "arctanh": (lambda x: torch.arctanh(x.sin() * 0.9), X),
    "deg2rad": (lambda x: torch.deg2rad(x).sin(), X),
    "rad2deg": (lambda x: torch.rad2deg(x), X),
    "dist": (lambda x, y: x * torch.dist(x, y) + torch.dist(x, y, 1), X, Y),
    "float_power": (lambda x: torch.float_power(x.exp(), 1.5), X),
    "heaviside": (lambda x: torch.heaviside(x.round(), x.new_tensor(0.3)).detach() * x, X),
    "ldexp": (lambda x: torch.ldexp(x, torch.tensor([0, 1, 2, 1, 3])), X),
    "logaddexp2": (lambda x, y: torch.logaddexp2(x, y), X, Y),
    "nansum": (lambda x: gaps(x).nansum(1) + torch.nansum(gaps(x), (1, 2), keepdim=True)[:, 0], X),
    "nanmean": (lambda x: torch.nanmean(gaps(x), 1), X),
    "sgn": (lambda x: torch.sgn(x) * x, X),
    "fmax": (lambda x, y: torch.fmax(x, gaps(y)), X, Y),
    "fmin": (lambda x, y: torch.fmin(gaps(x), y), X, Y),
    "logit": (lambda x: torch.logit(x.sigmoid()) + torch.logit(x, eps=0.2) + torch.special.logit(x, 0.1), X),
    "xlogy": (lambda x, y: torch.xlogy(x.relu(), y.abs() + 0.1) + torch.special.xlogy(x, y.exp()), X, Y),
    **_together(lambda f, x, y: f(x, y) * x + f(y, 0.5) * y, "greater", "greater_equal", "less", "less_equal", "not_equal"),
    "isin": (lambda x: torch.isin((3 * x).round(), ENDS) * x, X),
    "isclose": (lambda x, y: torch.isclose(x, y, atol=0.5) * x * y + torch.isclose(gaps(x), gaps(x), equal_nan=True) * y, X, Y),
    "addr": (lambda x: x.mT @ torch.addr(x.new_ones(4, 3), x[0, :, 0], x[0, 0, :3], beta=0.5, alpha=2.0), X),
    "addbmm": (lambda x, y: x * torch.addbmm(x.new_ones(4, 4), x, y.mT, beta=0.5, alpha=0.1)[:, :1], X, Y),
    "kron": (lambda x: torch.kron(x, x.new_ones(2, 3)) + torch.kron(x, x[:1, :2, :3])[:, :8], X),
    "tensordot": (
        lambda x, y: torch.tensordot(x, y[0], dims=([2], [1])) + torch.tensordot(x, y[0].mT.exp(), 1), X, Y,
    ),
    "vdot": (lambda x: x * torch.vdot(x[0, 0], x[0, 1]), X),
    "linalg.vecdot": (lambda x, y: torch.linalg.vecdot(x, y) + torch.linalg.vecdot(x, y, dim=1).sum(1)[:, None], X, Y),
    "logdet": (lambda x: torch.logdet(x @ x.mT + torch.eye(4)) + (x @ x.mT + torch.eye(4)).logdet(), X),
    "linalg.matrix_norm": (lambda x: torch.linalg.matrix_norm(x) + torch.linalg.matrix_norm(x, keepdim=True).sum((1, 2)), X),
    "var_mean": (lambda x: [*torch.var_mean(x, 1), *torch.var_mean(x, -1, correction=0, keepdim=True)], X),
    "std_mean": (lambda x: [*torch.std_mean(x, (1, 2)), *torch.std_mean(x, 2, False)], X),
    "aminmax": (lambda x: x.aminmax(dim=1).max + torch.aminmax(x, dim=1, keepdim=True).min[:, 0], X),
    "count_nonzero": (lambda x: torch.count_nonzero(x.relu(), 1) * x[:, 0], X),
    "median": (lambda x: [x.median(1).values, x.median(2, keepdim=True)[0], x.median(1).indices, x * x[:1].median()], X),
    "kthvalue": (lambda x: [*x.kthvalue(2, 1), x.kthvalue(3, keepdim=True).values], X),
    "quantile": (
        lambda x: [x.quantile(0.3, 1), x.quantile(x.new_tensor([0.1, 0.9]), 2).movedim(0, 1), x.quantile(0.5, 1, True)], X,
    ),
    "cummax": (lambda x: [*x.cummax(1), x.round().cummax(2).indices], X),
    "cummin": (lambda x: [*x.cummin(2), x.round().cummin(1).indices], X),
    "logcumsumexp": (lambda x: x.logcumsumexp(1) + torch.logcumsumexp(x, -1), X),
    "bucketize": (lambda x: torch.bucketize(x, ENDS) + torch.bucketize(x.round(), ENDS, right=True) * x, X),
    "searchsorted": (lambda x: torch.searchsorted(ENDS, x.round(), side="right") + torch.searchsorted(ENDS, x) * x, X),
    "scatter_reduce": (
        lambda x, y: x.scatter_reduce(1, (y > 0).long(), x, "mean", include_self=False)
        + x.clone().scatter_reduce_(2, (y > 0).long(), y, reduce="sum"), X, Y,
    ),
    **_together(lambda f, x, y: f((x, y, x.sin())), "hstack", "dstack", "column_stack"),
    "vstack": (lambda x: x + torch.vstack([x[0, 0], x[0, 1:]]), X),
    "row_stack": (lambda x: x + torch.row_stack([x[0, :2], x[0, 2:]]), X),
    "hsplit": (lambda x: [part.sin() for part in torch.hsplit(x, 2)], X),
    "vsplit": (lambda x: [x + part.sum() for part in torch.vsplit(x[0], 2)], X),
    "dsplit": (lambda x: [part.sin() for part in torch.dsplit(x, [1, 3])], X),
    "fliplr": (lambda x: x.fliplr() * x, X),
    "flipud": (lambda x: x + torch.flipud(x[0]), X),
    "diag": (lambda x: x @ torch.diag(x[0, 0]) + torch.diag(x[0], 1).sum(), X),
    "take": (lambda x: x + torch.take(x[0], torch.tensor([3, 0, 19, 3, 7])), X),
    "H": (lambda x: x + x[0].H.mT, X),
    "mH": (lambda x: x @ x.mH, X),
    "select_scatter": (lambda x, y: torch.select_scatter(x, y[:, 0] * 2, 1, 2), X, Y),
    "slice_scatter": (lambda x, y: torch.slice_scatter(x, y[:, :2], 1, 0, 4, 2), X, Y),
    "index_fill": (lambda x: x.index_fill(1, torch.tensor([0, 2]), 7.0).index_fill_(2, torch.tensor([1]), -1.0), X),
    "index_copy": (lambda x, y: x.index_copy(1, SELF, y[:, :3]), X, Y),
    "F.dropout3d": (lambda x: F.dropout3d(x, 0.0, False) + F.dropout3d(x, 0.5, training=False), VOLUME),
    "F.alpha_dropout": (lambda x: F.alpha_dropout(x, 0.0, True) * F.alpha_dropout(x, 0.5, training=False), X),
    "F.rrelu": (lambda x: F.rrelu(x) + T.RReLU(0.3, 0.3)(x), X),
    "F.affine_grid": (
        lambda x: [F.affine_grid(x[:, :2, :3], [len(x), 1, 4, 5], align_corners=corners) for corners in (True, False)], X,
    ),
    "resolve_neg": (lambda x: x.resolve_neg() * 2, X),
    "special.xlog1py": (lambda x, y: torch.special.xlog1py(x, y.exp()) + torch.special.xlog1py(x.relu(), 0.5), X, Y),
    "special.entr": (lambda x: torch.special.entr(x.sigmoid()) + torch.special.entr(x.relu().detach()), X),
    "special.ndtr": (lambda x: torch.special.ndtr(x), X),
    "signbit": (lambda x: torch.signbit(x) * x + torch.signbit(x.relu() * 0 * x.sign()) * x, X),
    "copysign": (lambda x, y: torch.copysign(x, y) + x.copysign(-1.5) * y, X, Y),
    "isposinf": (lambda x: torch.isposinf(1 / x.relu()) * x, X),
    "isneginf": (lambda x: torch.isneginf(x.relu().log()) * x, X),
    "linalg.solve": (
        lambda x: [torch.linalg.solve(well(x), x), torch.linalg.solve(well(x), x[..., 0]),
                   torch.linalg.solve(well(x), x.mT, left=False)], X,
    ),
    "linalg.solve_ex": (lambda x: torch.linalg.solve_ex(well(x), x).result, X),
    "linalg.inv_ex": (lambda x: torch.linalg.inv_ex(well(x)).inverse, X),
    "linalg.vander": (lambda x: torch.linalg.vander(x, N=4) + torch.linalg.vander(x)[..., :4], X),
    "block_diag": (lambda x: x.sum() * torch.block_diag(x[0], x[0, 0], x[0, :2]), X),
    "cov": (lambda x: [x + torch.cov(x[0]).sum(), x * x[0, 0].cov(correction=0) + torch.cov(x[0, :1])], X),
    "corrcoef": (lambda x: x + torch.corrcoef(x[0])[0, 1] + torch.corrcoef(x[0, 0]), X),
    "msort": (lambda x: x + torch.msort(x[0]), X),
    "trapezoid": (lambda x, y: torch.trapezoid(x, dx=0.5) + torch.trapezoid(x, y.cumsum(-1)), X, Y),
    "trapz": (lambda x: torch.trapz(x, ENDS, dim=1), X),
    "cumulative_trapezoid": (lambda x: torch.cumulative_trapezoid(x, dim=1), X),
    "alias_copy": (lambda x: torch.alias_copy(x) * x, X),
    "expand_copy": (lambda x: torch.expand_copy(x[:, None], (-1, 2, -1, -1)) * 2, X),
    "permute_copy": (lambda x: torch.permute_copy(x, (0, 2, 1)) * 2, X),
    "view_copy": (lambda x: torch.view_copy(x, (-1, 20)) * 2, X),
    "unfold_copy": (lambda x: torch.unfold_copy(x, 2, 3, 1) * 2, X),
    "diagonal_copy": (lambda x: torch.diagonal_copy(x, 1, 1, 2) * 2, X),
    "narrow_copy": (lambda x: torch.narrow_copy(x, 2, 1, 3) * 2, X),
    "split_with_sizes_copy": (lambda x: [y * 2 for y in torch.split_with_sizes_copy(x, [1, 4], 2)], X),
    "squeeze_copy": (lambda x: torch.squeeze_copy(x[:, :1], 1) * 2, X),
    "transpose_copy": (lambda x: torch.transpose_copy(x, 1, 2) * 2, X),
    "unbind_copy": (lambda x: [y * 2 for y in torch.unbind_copy(x, 1)], X),
    "unsqueeze_copy": (lambda x: torch.unsqueeze_copy(x, 1) * 2, X),
    "t_copy": (lambda x: x @ torch.t_copy(x[0]), X),
    "unsafe_chunk": (lambda x: [y * 2 for y in torch.unsafe_chunk(x, 2, 2)], X),
    "unsafe_split": (lambda x: [y * 2 for y in torch.unsafe_split(x, 2, 2)], X),
    "broadcast_tensors": (lambda x: [y * 2 for y in torch.broadcast_tensors(x, x[0, 0], ENDS[:, None])], X),
    "diagflat": (lambda x: x.sum() * torch.diagflat(x[0, :2], 1), X),
    "atleast_3d": (lambda x: torch.atleast_3d(x) + torch.atleast_3d(x[0, :, 0])[0] + torch.atleast_3d(x[:, 0]).sum(), X),
    "diagonal_scatter": (lambda x, y: torch.diagonal_scatter(x, y[:, :, 0], 1, 1, 2), X, Y),
    "masked_scatter": (lambda x, y: x.masked_scatter(y > 0, y * 2) + x.masked_scatter(ENDS[:, None] > 0, y), X, Y),
    "sum_to_size": (lambda x: x.sum_to_size(1, 5) + torch.sum(x).sum_to_size(()) + x.sum_to_size([4, 1]), X),
    "F.embedding_bag": (
        lambda x, i, w: [F.embedding_bag(i, x.new_ones(6, 5) * x[0, 0], mode=m) for m in ("sum", "mean", "max")]
        + [F.embedding_bag(i, x[0], mode="sum", per_sample_weights=w)], X, tokens(4, 3, 3), floats(3, 3),
    ),
    "stft": (
        lambda x: [torch.stft(x[..., 0], 8, 3, 6, x[0, :6, 1] ** 2, return_complex=True, normalized=True).abs(),
                   torch.stft(x[0, :, 0], 8, window=WINDOW.to(x), return_complex=True,
                              onesided=False, center=False).real.sum() * x], floats(3, 30, 5),
    ),
    "istft": (
        lambda x: torch.istft(torch.stft(x[..., 0], 8, 2, window=WINDOW.to(x), return_complex=True) * (1 + 2j), 8, 2,
                              window=WINDOW.to(x), length=29), floats(3, 30, 5),
    ),
    "fft.fftshift": (
        lambda x: torch.fft.fftshift(x, 2) + torch.view_as_real(torch.fft.fftshift(torch.fft.fft(x), (1, 2)))[..., 1], X,
    ),
    "fft.ifftshift": (lambda x: torch.fft.ifftshift(x, (1, 2)), X),
    "F.gaussian_nll_loss": _of_loss("gaussian_nll_loss", X, Y, np.abs(X), full=True, eps=0.5),
    "F.poisson_nll_loss": _of_loss("poisson_nll_loss", np.abs(X), tokens(6, 3, 4, 5), log_input=False, full=True),
    "F.soft_margin_loss": _of_loss("soft_margin_loss", X, SIGNS),
    "F.margin_ranking_loss": _of_loss("margin_ranking_loss", X, Y, SIGNS, margin=0.3),
    "F.triplet_margin_loss": _of_loss("triplet_margin_loss", X, Y, SIGNS, swap=True, margin=0.5),
    "F.multi_margin_loss": _of_loss("multi_margin_loss", X[:, 0], tokens(5, 3), p=2),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_compositions(name: str) -> None:
    function, *inputs = CASES[name]
    check(Expression(function), *inputs)


def test_every_composition_is_tried() -> None:
    assert set(CASES) | {"normal"} == set(COMPOSITIONS)  # which draws random numbers
    assert not set(COMPOSITIONS) & set(FUNCTIONS)


def test_noise() -> None:
    """Numbers that training draws, by what they have in common: their mean and spread."""

    class Noisy(T.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.alpha, self.slopes, self.volumes = T.AlphaDropout(0.4), T.RReLU(0.2, 0.4), T.Dropout3d(0.5)

        def forward(self, x: Any) -> Any:
            choice = F.gumbel_softmax(x[:, 0, 0, 0], hard=True) if self.training else x[:, 0, 0, 0].softmax(-1)
            waits = torch.empty_like(x).exponential_(2.0) if self.training else x
            near = torch.normal(x * 0 + 3, 0.5) if self.training else x
            whole = torch.randint(2, 9, (len(x), 4, 5)) if self.training else torch.zeros(len(x), 4, 5).long()
            alike = torch.randint_like(x, 7) if self.training else x
            return self.alpha(x), self.slopes(0 * x - 1), self.volumes(0 * x + 1), choice, waits, near, whole, alike

    torch.manual_seed(0), nn.manual_seed(0)
    x = floats(64, 32, 2, 4, 8)
    module = Noisy()
    net = nn.from_torch(module, x[:2])
    for got, expected in zip(net.train()(x), module.train()(torch.tensor(x)), strict=True):
        y, few = expected.numpy(), 5 if expected.numel() < 2000 else 1
        assert got.mean() == pytest.approx(y.mean(), abs=0.05 * few)
        assert got.std() == pytest.approx(y.std(), abs=0.05 * few)
    alpha, slopes, volumes, choice, waits, _, whole, alike = net(x)
    assert set(np.unique(whole)) == set(range(2, 9))
    assert set(np.unique(alike)) == set(range(7))
    assert np.unique(volumes.reshape(64 * 32, -1).std(1)).tolist() == [0]  # whole channels
    assert -0.4 <= slopes.min() < slopes.max() <= -0.2
    assert np.array_equal(np.sort(choice, -1)[:, -1], np.ones(64))
    assert waits.min() >= 0
    assert len(np.unique(np.round(alpha[x > 5], 4))) <= 1 or alpha.std() > 0.9


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "reduce": (
        lambda x: x.scatter_reduce(1, (x > 0).long(), x, "amax"),
        r"torch\.scatter_reduce: reduce='amax' has no",
    ),
    "interpolation": (
        lambda x: x.quantile(0.5, 1, interpolation="nearest"),
        r"torch\.quantile: interpolation='nearest'",
    ),
    "norm": (lambda x: torch.linalg.matrix_norm(x, "nuc"), r"matrix_norm: ord='nuc' has no counterpart"),
    "window": (lambda x: torch.stft(x.cfloat()[0], 4, return_complex=True).abs(), r"torch\.stft: complex signals"),
    "bags": (lambda x: F.embedding_bag(tokens_of(x), x[0], torch.tensor([0])), r"embedding_bag: bags must be rows"),
    "weighted": (lambda x: torch.cov(x[0], aweights=x[0, 0].exp()), r"torch\.cov: fweights and aweights"),
    "spelling": (lambda x: torch.linalg.qr(x)[0], r"torch\.linalg\.qr has no counterpart"),
    "variance": (lambda x: F.gaussian_nll_loss(x, x, 1.0), r"gaussian_nll_loss: var is a number\. Use a tensor"),
    "argument": (lambda x: F.soft_margin_loss(x, x, size_average=True), r"soft_margin_loss: size_average and reduce"),
    "unknown argument": (lambda x: torch.nansum(x, 1, dtype=torch.float64), r"torch\.nansum: .*'dtype'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    function, message = REFUSED[name]
    with pytest.raises(Unsupported, match=message):
        nn.from_torch(Expression(function), X)
