"""Functions of tensors against PyTorch: one text computes with both, values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autograd import differentiate
from function_checks import Applied, some
from openbnns import nn

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")
T = torch.nn.functional
F = nn.functional


X, Y, I = some(3, 4, 5), some(3, 4, 5, seed=1), np.random.default_rng(2).integers(0, 3, (3, 4, 5))  # noqa: E741
IMAGES, VOLUMES = some(3, 2, 5, 6), some(2, 4, 5, 4, 6)
KERNELS, UP = some(6, 2, 3, 2, 3, seed=3), some(4, 3, 2, 3, 2, seed=4)


def of_pairs(name: str) -> Callable[..., Any]:
    """A transform of ours, or PyTorch's on the same pairs."""

    def call(f: Any, x: Any, **named: Any) -> Any:
        if f is F:
            return getattr(F, name)(x, **named)
        given = x if name.startswith("rfft") else torch.view_as_complex(x.contiguous())
        transform = getattr(torch.fft, name)(given, **named)
        return transform if name.startswith("irfft") else torch.view_as_real(transform)

    return call


# Each from a namespace of functions, an integer index of the same kind, and tensors.
CASES: dict[str, tuple[Any, ...]] = {
    "where": (lambda f, i, x, y: f.where((x > 0) & ~(y > 0.5), x * y, y * 0), X, Y),
    "masked_fill": (lambda f, i, x, y: (x * y).masked_fill(x >= y, 2.0), X, Y),
    "xor": (lambda f, i, x, y: f.where(f.logical_xor(x > 0, y > 0), x, y), X, Y),
    "remainder": (lambda f, i, x, y: f.remainder(x, y + 2) + x % 0.7, X, Y),
    "fmod": (lambda f, i, x, y: f.fmod(x, y - 2), X, Y),
    "frac": (lambda f, i, x: f.frac(x * 3), X),
    "log1p": (lambda f, i, x: f.log1p(x * 0.5), X),
    "expm1": (lambda f, i, x: f.expm1(x), X),
    "log10": (lambda f, i, x: f.log10(x + 2), X),
    "erfc": (lambda f, i, x: f.erfc(x), X),
    "sinc": (lambda f, i, x: f.sinc(x), X),
    "atan2": (lambda f, i, x, y: f.atan2(x, y), X, Y),
    "hypot": (lambda f, i, x, y: f.hypot(x, y), X, Y),
    "logaddexp": (lambda f, i, x, y: f.logaddexp(x, y), X, Y),
    "nan_to_num": (lambda f, i, x: f.nan_to_num(x * 2), X),
    "clamp": (lambda f, i, x: x.clamp_min(-0.3) * x.clamp_max(0.4), X),
    "cumsum": (lambda f, i, x: x.cumsum(0), X),
    "cumprod": (lambda f, i, x: x.cumprod(-1), X),
    "sort": (lambda f, i, x: x.sort(1)[0], X),
    "sorted down": (lambda f, i, x: f.sort(x, 0, True).values, X),
    "topk": (lambda f, i, x: f.topk(x, 2, 1).values, X),
    "smallest": (lambda f, i, x: x.topk(3, -1, False)[0], X),
    "argsort": (lambda f, i, x: x.gather(1, x.argsort(1, True)), X),
    "gather": (lambda f, i, x: f.gather(x, 0, i), X),
    "take_along_dim": (lambda f, i, x: f.take_along_dim(x, x.argmax(1, True), 1), X),
    "scatter_add": (lambda f, i, x, y: x.scatter_add(1, i, y), X, Y),
    "index_add": (lambda f, i, x, y: x.index_add(1, i[0, :, 0], y, alpha=0.5), X, Y),
    "index_select": (lambda f, i, x: f.index_select(x, 2, i[0, 0]), X),
    "indices": (lambda f, i, x: x[:, i[0, 0]] , X),
    "several indices": (lambda f, i, x: x[i[:, 0, 0], i[:, 1, 0]], X),
    "roll": (lambda f, i, x: f.roll(x, (1, -2), (0, 2)), X),
    "flip": (lambda f, i, x: f.flip(x, (0, 2)), X),
    "rot90": (lambda f, i, x: f.rot90(x, 3, (1, 2)), X),
    "movedim": (lambda f, i, x: f.movedim(x, 0, 2), X),
    "repeat_interleave": (lambda f, i, x: f.repeat_interleave(x, 2, 1), X),
    "tensor_split": (lambda f, i, x: f.tensor_split(x, 3, 2)[1], X),
    "diagonal": (lambda f, i, x: f.diagonal(x, 1, 0, 2), X),
    "diag_embed": (lambda f, i, x: f.diag_embed(x, -1, 0, 2), X),
    "diff": (lambda f, i, x: f.diff(x, 2, 1), X),
    "cross": (lambda f, i, x, y: f.cross(x, y, 0), X, Y),
    "cdist": (lambda f, i, x, y: f.cdist(x, y), X, Y),
    "meshgrid": (lambda f, i, x: f.meshgrid(x[0, 0], x[0, :, 0], indexing="xy")[0] * 2, X),
    "windows": (lambda f, i, x: x.unfold(2, 3, 2), X),
    "tril": (lambda f, i, x: f.tril(x, 1), X),
    "trace": (lambda f, i, x: f.trace(x[0]) * 1.0, X),
    "any": (lambda f, i, x: (x > 1.2).any(1).float() * x.sum(1), X),
    "norm of part": (lambda f, i, x: (x * (x > 0)).norm(dim=1), X),
    "fft": (lambda f, i, x: of_pairs("fft")(f, x, n=6, dim=1, norm="ortho"), IMAGES[..., :2]),
    "ifft": (lambda f, i, x: of_pairs("ifft")(f, x, dim=0), IMAGES[..., :2]),
    "rfft": (lambda f, i, x: of_pairs("rfft")(f, x, dim=1, norm="forward"), X),
    "irfft": (lambda f, i, x: of_pairs("irfft")(f, x, n=7, dim=2), IMAGES[..., :2]),
    "rfft2": (lambda f, i, x: of_pairs("rfft2")(f, x), X),
    "fft2": (lambda f, i, x: of_pairs("fft2")(f, x, s=(3, 4)), IMAGES[..., :2]),
}  # fmt: skip

# Functions that PyTorch has in another place.
LAYERS: dict[str, tuple[Any, ...]] = {
    "unfold": (lambda f, x: f.unfold(x, (3, 2), (1, 2), (1, 0), (2, 1)), IMAGES),
    "fold": (lambda f, x: f.fold(x.reshape(3, 12, 5), (4, 3), (2, 3), padding=(1, 0)), some(3, 4, 15)),
    "conv3d": (lambda f, x, w: f.conv3d(x, w, None, (1, 2, 1), (1, 0, 2), (1, 1, 2), 2), VOLUMES, KERNELS),
    "conv_transpose3d": (lambda f, x, w: f.conv_transpose3d(x, w, None, 2, 1, 1, 2, 1), VOLUMES, UP),
    "computed weights": (lambda f, x, w: f.conv2d(x, (w * 2).tanh(), (w * w).sum((1, 2, 3))), IMAGES, KERNELS[:, :, 0]),
    "max_pool3d": (lambda f, x: f.max_pool3d(x, (2, 3, 2), 2, 1, (2, 1, 1)), VOLUMES),
    "max_pool3d beyond the end": (lambda f, x: f.max_pool3d(x, (3, 2, 3), 2, ceil_mode=True), VOLUMES),
    "avg_pool3d": (lambda f, x: f.avg_pool3d(x, (3, 2, 3), (2, 2, 3), 1, False, False), VOLUMES),
    "avg_pool3d beyond the end": (lambda f, x: f.avg_pool3d(x, (3, 2, 3), 2, 1, ceil_mode=True), VOLUMES),
    "avg_pool3d divided": (lambda f, x: f.avg_pool3d(x, 2, divisor_override=3), VOLUMES),
    "adaptive_avg_pool3d": (lambda f, x: f.adaptive_avg_pool3d(x, (2, 3, 5)), VOLUMES),
    "adaptive_max_pool3d": (lambda f, x: f.adaptive_max_pool3d(x, (2, 3, 5)), VOLUMES),
    "instance_norm of volumes": (lambda f, x: f.instance_norm(x), VOLUMES),
}


def compare(ours: Callable[..., Any], theirs: Callable[..., Any], arrays: tuple[Any, ...]) -> None:
    expected, cotangent, gradients = differentiate(theirs, 7, *arrays)
    net = Applied(ours)
    y = net(*arrays)
    assert y.shape == expected.shape
    np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-5)
    actual = net.backward(cotangent.astype(np.float32))
    for ours_, theirs_ in zip(actual if isinstance(actual, tuple) else [actual], gradients, strict=True):
        np.testing.assert_allclose(ours_, theirs_, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", CASES)
def test_functions(name: str) -> None:
    body, *arrays = CASES[name]
    compare(lambda *x: body(F, _indices(), *x), lambda *x: body(torch, torch.tensor(I), *x), tuple(arrays))


def _indices() -> Any:
    from openbnns.graph.graph import current_graph

    graph = current_graph()
    assert graph is not None
    return graph.constant(I)


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    body, x, *weights = LAYERS[name]
    if not weights:
        compare(lambda x: body(F, x), lambda x: body(T, x), (x,))
        return
    expected, cotangent, (dx, dw) = differentiate(lambda *x: body(T, *x), 7, x, *weights)
    for computed in (False, True):
        net = Applied(lambda x, w: body(F, x, w * 1.0 if computed else w), weights)  # noqa: B023
        np.testing.assert_allclose(net(x), expected, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(net.backward(cotangent.astype(np.float32)), dx, rtol=2e-4, atol=2e-4)
        np.testing.assert_allclose(net.p0.grad, dw, rtol=5e-4, atol=5e-4)


def test_masks_and_positions() -> None:
    x = np.float32([[1, np.nan, 2, 2], [np.inf, -1, 0, -np.inf]])
    t = torch.tensor(x)
    for name in ("isnan", "isinf", "isfinite", "logical_not"):
        np.testing.assert_array_equal(getattr(F, name)(x), getattr(torch, name)(t).numpy())
    for ours, theirs in ((F.sort(x), torch.sort(t, stable=True)), (F.topk(x, 3), torch.topk(t, 3))):
        np.testing.assert_array_equal(ours.values, theirs.values.numpy())
    np.testing.assert_array_equal(F.argsort(x, 1, True), torch.argsort(t, dim=1, descending=True, stable=True).numpy())
    for given in ((5,), (2, 9, 3), (9, 2, -3), (0.5, 2.1, 0.25)):
        np.testing.assert_allclose(F.arange(*given), torch.arange(*given).numpy())
    np.testing.assert_array_equal(F.all(x, 1), torch.all(t, 1).numpy())


def test_a_network_of_volumes_trains_alike() -> None:
    """Three steps from the same weights."""
    theirs = torch.nn.Sequential(
        torch.nn.Conv3d(2, 4, 3, padding=1), torch.nn.BatchNorm3d(4), torch.nn.ReLU(), torch.nn.MaxPool3d(2),
        torch.nn.ConvTranspose3d(4, 3, 2, stride=2), torch.nn.InstanceNorm3d(3), torch.nn.AdaptiveAvgPool3d(1),
        torch.nn.Flatten(), torch.nn.Linear(3, 2),
    )  # fmt: skip
    ours = nn.Sequential(
        nn.Conv3d(2, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.MaxPool3d(2), nn.ConvTranspose3d(4, 3, 2, stride=2),
        nn.InstanceNorm3d(3), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(3, 2),
    )  # fmt: skip
    ours.build((2, 4, 6, 4))
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items() if "num_batches" not in k})
    x, y = some(6, 2, 4, 6, 4), some(6, 2, seed=1)
    optimizer = torch.optim.SGD(theirs.parameters(), 0.1)
    loss = nn.MSELoss()
    for _ in range(3):
        optimizer.zero_grad()
        objective = torch.nn.functional.mse_loss(theirs(torch.tensor(x)), torch.tensor(y))
        objective.backward()
        optimizer.step()
        value, gradient = loss(ours(x), y)
        assert value == pytest.approx(objective.item(), rel=1e-4)
        ours.backward(gradient)
        for parameter in ours.parameters():
            parameter.data -= 0.1 * parameter.grad
