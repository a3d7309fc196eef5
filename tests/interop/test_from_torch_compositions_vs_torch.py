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


def _together(function: Callable[..., Any], *names: str) -> dict[str, tuple[Any, ...]]:
    """The same case for functions that differ in their name alone."""
    return {name: (lambda *given, name=name: function(getattr(torch, name), *given), X, Y) for name in names}


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
    "isclose": (lambda x, y: torch.isclose(x, y, atol=0.5) * x * y, X, Y),
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
    assert set(CASES) == set(COMPOSITIONS)
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
            return self.alpha(x), self.slopes(0 * x - 1), self.volumes(0 * x + 1), choice, waits

    torch.manual_seed(0), nn.manual_seed(0)
    x = floats(64, 32, 2, 4, 8)
    module = Noisy()
    net = nn.from_torch(module, x[:2])
    for got, expected in zip(net.train()(x), module.train()(torch.tensor(x)), strict=True):
        y = expected.numpy()
        assert got.mean() == pytest.approx(y.mean(), abs=0.05)
        assert got.std() == pytest.approx(y.std(), abs=0.05)
    alpha, slopes, volumes, choice, waits = net(x)
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
    "variance": (lambda x: F.gaussian_nll_loss(x, x, 1.0), r"gaussian_nll_loss: var is a number\. Use a tensor"),
    "argument": (lambda x: F.soft_margin_loss(x, x, size_average=True), r"soft_margin_loss: size_average and reduce"),
    "unknown argument": (lambda x: torch.nansum(x, 1, dtype=torch.float64), r"torch\.nansum: .*'dtype'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    function, message = REFUSED[name]
    with pytest.raises(Unsupported, match=message):
        nn.from_torch(Expression(function), X)
