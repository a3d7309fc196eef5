"""Layers of networks against formulas in float64 NumPy, gradients against finite differences of the formulas."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import openbnns
from helpers import Array
from networks import numbers
from openbnns import nn
from openbnns.nn.recording import recorded_graph

Parameters = dict[str, Array]
Formula = Callable[[Array, Parameters], Array]


# Formulas.


def windows(x: Array, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Array:
    """(N, C, positions..., kernel...)."""
    axes = tuple(range(2, x.ndim))
    extents = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    every = sliding_window_view(x, extents, axis=axes)
    steps = [slice(None, None, s) for s in stride]
    spread = [slice(None, None, d) for d in dilation]
    return every[(slice(None), slice(None), *steps, *spread)]


def convolution(
    stride: Sequence[int], edges: Sequence[tuple[int, int]], dilation: Sequence[int], groups: int = 1, mode: Any = "constant"
) -> Formula:  # fmt: skip
    def formula(x: Array, p: Parameters) -> Array:
        w = p["weight"]
        rank = w.ndim - 2
        x = np.pad(x, [(0, 0), (0, 0), *edges], mode)
        letters = "hwuv"
        places, taps = letters[:rank], letters[2 : 2 + rank]
        parts = []
        for g in range(groups):
            own = x[:, g * w.shape[1] : (g + 1) * w.shape[1]]
            kernels = w[g * (len(w) // groups) : (g + 1) * (len(w) // groups)]
            seen = windows(own, w.shape[2:], stride, dilation)
            parts.append(np.einsum(f"nc{places}{taps},oc{taps}->no{places}", seen, kernels))
        y = np.concatenate(parts, 1)
        return y + p["bias"].reshape(-1, *[1] * rank) if "bias" in p else y

    return formula


def transposed(
    stride: Sequence[int], padding: Sequence[int], extra: Sequence[int], dilation: Sequence[int], groups: int = 1
) -> Formula:
    def formula(x: Array, p: Parameters) -> Array:
        w = p["weight"]
        outputs = w.shape[1] * groups
        sizes = [
            s * (n - 1) + d * (k - 1) + 1 + e
            for n, k, s, d, e in zip(x.shape[2:], w.shape[2:], stride, dilation, extra, strict=True)
        ]
        whole = np.zeros((len(x), outputs, *sizes))
        each = x.shape[1] // groups
        for i, tap in itertools.product(range(x.shape[1]), itertools.product(*map(range, w.shape[2:]))):
            g = i // each
            place = tuple(
                slice(d * t, d * t + s * (n - 1) + 1, s)
                for d, t, s, n in zip(dilation, tap, stride, x.shape[2:], strict=True)
            )
            own = slice(g * w.shape[1], (g + 1) * w.shape[1])
            kernel = w[(i, slice(None), *tap)].reshape(1, -1, *[1] * len(sizes))
            whole[(slice(None), own, *place)] += x[:, i : i + 1] * kernel
        cut = tuple(slice(q, n - q) for q, n in zip(padding, sizes, strict=True))
        y = whole[(slice(None), slice(None), *cut)]
        return y + p["bias"].reshape(-1, *[1] * len(sizes)) if "bias" in p else y

    return formula


def pooled(
    kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], counts: Sequence[int],
    reduce: Callable[[Array, Sequence[slice]], Any], dilation: Sequence[int] = (),
) -> Formula:  # fmt: skip
    """Window by window: ``reduce`` sees what lies inside the image, and where on the padded one the window lies."""
    dilation = dilation or [1] * len(kernel)

    def formula(x: Array, p: Parameters) -> Array:
        y = np.zeros((*x.shape[:2], *counts))
        for place in itertools.product(*map(range, counts)):
            starts = [i * s - q for i, s, q in zip(place, stride, padding, strict=True)]
            reach = [slice(a, a + d * (k - 1) + 1) for a, k, d in zip(starts, kernel, dilation, strict=True)]
            rows = [
                [r for r in range(part.start, part.stop, d) if 0 <= r < n]
                for part, n, d in zip(reach, x.shape[2:], dilation, strict=True)
            ]
            inside = x[(slice(None), slice(None), *np.ix_(*rows))].reshape(*x.shape[:2], -1)
            y[(slice(None), slice(None), *place)] = reduce(inside, reach)
        return y

    return formula


def largest(inside: Array, reach: Any) -> Array:
    return np.asarray(inside.max(-1))


def padded_mean(*limits: int) -> Callable[[Array, Sequence[slice]], Array]:
    """Divided by the elements of the window on the padded image, which ends at these places."""

    def reduce(inside: Array, reach: Sequence[slice]) -> Array:
        return np.asarray(
            inside.sum(-1) / math.prod(min(r.stop, n) - r.start for r, n in zip(reach, limits, strict=True))
        )

    return reduce


def adaptive(sizes: Sequence[int], reduce: Callable[..., Array]) -> Formula:
    def formula(x: Array, p: Parameters) -> Array:
        y = np.zeros((*x.shape[:2], *sizes))
        for place in itertools.product(*map(range, sizes)):
            part = tuple(
                slice(i * n // m, -(-(i + 1) * n // m)) for i, n, m in zip(place, x.shape[2:], sizes, strict=True)
            )
            y[(slice(None), slice(None), *place)] = reduce(
                x[(slice(None), slice(None), *part)].reshape(*x.shape[:2], -1), -1
            )
        return y

    return formula


def padded(*pairs: tuple[int, int], mode: Any = "constant", **options: Any) -> Formula:
    return lambda x, p: np.pad(x, [(0, 0), (0, 0), *pairs], mode, **options)


def linear(sizes: Sequence[int], positions: Callable[[int, int], Array]) -> Formula:
    """Interpolation along every axis; ``positions`` of the output pixels follow from both sizes."""

    def formula(x: Array, p: Parameters) -> Array:
        for axis, m in enumerate(sizes, 2):
            places = positions(x.shape[axis], m)
            x = np.apply_along_axis(lambda line, at=places: np.interp(at, np.arange(len(line)), line), axis, x)
        return x

    return formula


def nearest(sizes: Sequence[int]) -> Formula:
    def formula(x: Array, p: Parameters) -> Array:
        for axis, m in enumerate(sizes, 2):
            x = np.take(x, np.arange(m) * x.shape[axis] // m, axis)
        return x

    return formula


def normal(axes: tuple[int, ...], parameters: tuple[int, ...], eps: float = 1e-5, groups: int = 0) -> Formula:
    def formula(x: Array, p: Parameters) -> Array:
        z = x.reshape(len(x), groups, -1, *x.shape[2:]) if groups else x
        z = ((z - z.mean(axes, keepdims=True)) / np.sqrt(z.var(axes, keepdims=True) + eps)).reshape(x.shape)
        if "weight" in p:
            z = z * p["weight"].reshape(parameters)
        return z + p["bias"].reshape(parameters) if "bias" in p else z

    return formula


def rms(x: Array, p: Parameters) -> Array:
    axes = tuple(range(x.ndim - p["weight"].ndim, x.ndim))
    return np.asarray(x / np.sqrt((x * x).mean(axes, keepdims=True) + 1e-3) * p["weight"])


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def softmax(axis: int, sign: int = 1) -> Formula:
    return lambda x, p: np.exp(sign * x) / np.exp(sign * x).sum(axis, keepdims=True)


def prelu(x: Array, p: Parameters) -> Array:
    return np.where(x > 0, x, x * p["weight"].reshape(-1, *[1] * (x.ndim - 2)))


def pixels(x: Array, p: Parameters) -> Array:
    n, c, h, w = x.shape
    return x.reshape(n, c // 9, 3, 3, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // 9, 3 * h, 3 * w)


def local_response(size: int, alpha: float, beta: float, k: float) -> Formula:
    def formula(x: Array, p: Any) -> Array:
        y = np.empty_like(x)
        for c in range(x.shape[1]):
            window = x[:, max(0, c - size // 2) : c + (size - 1) // 2 + 1]
            y[:, c] = x[:, c] / (k + alpha / size * (window**2).sum(1)) ** beta
        return y

    return formula


def columns(x: Array, rows: int, a: int, b: int, dilation: Any, stride: Any) -> Array:
    """Windows of a x b pixels, in so many rows of windows."""
    widths = (x.shape[3] - dilation[1] * (b - 1) - 1) // stride[1] + 1
    pieces = [
        x[:, :, i * stride[0] : i * stride[0] + dilation[0] * (a - 1) + 1 : dilation[0]][
            :, :, :, j * stride[1] : j * stride[1] + dilation[1] * (b - 1) + 1 : dilation[1]
        ]
        for i in range(rows)
        for j in range(widths)
    ]
    return np.stack([window.reshape(len(x), -1) for window in pieces], 2)


def folded(x: Array, p: Any) -> Array:
    """Windows of 2 x 3 pixels, added to images of 5 x 6 whose first and last columns are cut off."""
    y = np.zeros((len(x), 2, 5, 6))
    for number in range(16):
        i, j = divmod(number, 4)
        y[:, :, i : i + 2, j : j + 3] += x[:, :, number].reshape(len(x), 2, 2, 3)
    return y[:, :, :, 1:-1]


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], Formula]] = {
    "Conv1d": (lambda: nn.Conv1d(3, 4, 4, 2, 3, 2), (3, 13), convolution([2], [(3, 3)], [2])),
    "Conv1d, groups": (lambda: nn.Conv1d(4, 6, 3, groups=2, bias=False), (4, 9), convolution([1], [(0, 0)], [1], 2)),
    "Conv1d, same": (lambda: nn.Conv1d(5, 4, padding="same"), (3, 9), convolution([1], [(1, 2)], [1])),
    "Conv2d, same": (
        lambda: nn.Conv2d(5, (4, 3), padding="same", dilation=(1, 2)), (3, 6, 7), convolution([1, 1], [(1, 2), (2, 2)], [1, 2]),
    ),
    "Conv2d, reflect": (
        lambda: nn.Conv2d(4, 3, padding=(2, 1), padding_mode="reflect"), (3, 5, 6),
        convolution([1, 1], [(2, 2), (1, 1)], [1, 1], mode="reflect"),
    ),
    "Conv2d, replicate": (
        lambda: nn.Conv2d(4, 3, stride=2, padding=(2, 6), padding_mode="replicate"), (3, 5, 4),
        convolution([2, 2], [(2, 2), (6, 6)], [1, 1], mode="edge"),
    ),
    "Conv2d, circular": (
        lambda: nn.Conv2d(4, 3, padding=(0, 3), padding_mode="circular"), (3, 5, 4),
        convolution([1, 1], [(0, 0), (3, 3)], [1, 1], mode="wrap"),
    ),
    "ConvTranspose1d": (
        lambda: nn.ConvTranspose1d(4, 3, stride=3, padding=1, output_padding=2), (3, 6), transposed([3], [1], [2], [1]),
    ),
    "ConvTranspose2d": (
        lambda: nn.ConvTranspose2d(4, (3, 2), stride=(2, 3), padding=(1, 0), dilation=(2, 1), output_padding=(1, 2)), (3, 5, 4),
        transposed([2, 3], [1, 0], [1, 2], [2, 1]),
    ),
    "ConvTranspose2d, groups": (
        lambda: nn.ConvTranspose2d(6, 3, stride=2, padding=1, output_padding=1, groups=2), (4, 5, 4),
        transposed([2, 2], [1, 1], [1, 1], [1, 1], 2),
    ),
    "ConvTranspose2d, depthwise, wide": (
        lambda: nn.ConvTranspose2d(4, 3, dilation=3, output_padding=2, groups=4, bias=False), (4, 5, 4),
        transposed([1, 1], [0, 0], [2, 2], [3, 3], 4),
    ),
    "MaxPool1d": (lambda: nn.MaxPool1d(3, 2, 1, 2, ceil_mode=True), (3, 12), pooled([3], [2], [1], [6], largest, [2])),
    "MaxPool2d": (
        lambda: nn.MaxPool2d((3, 2), (2, 3), 1, (1, 2)), (3, 8, 10), pooled([3, 2], [2, 3], [1, 1], [4, 4], largest, [1, 2]),
    ),
    "MaxPool2d, ceil": (lambda: nn.MaxPool2d(2, ceil_mode=True), (3, 7, 9), pooled([2, 2], [2, 2], [0, 0], [4, 5], largest)),
    "AvgPool1d": (
        lambda: nn.AvgPool1d(3, 2, 1, True), (3, 12), pooled([3], [2], [1], [7], padded_mean(13)),
    ),
    "AvgPool2d, ceil": (
        lambda: nn.AvgPool2d(3, 2, 1, True), (3, 8, 7), pooled([3, 3], [2, 2], [1, 1], [5, 4], padded_mean(9, 8)),
    ),
    "AvgPool2d, pixels only": (
        lambda: nn.AvgPool2d(3, 2, 1, True, False), (3, 8, 7), pooled([3, 3], [2, 2], [1, 1], [5, 4], lambda a, r: a.mean(-1)),
    ),
    "AvgPool2d, divisor": (
        lambda: nn.AvgPool2d(3, 2, 1, False, False, 4), (3, 8, 7),
        pooled([3, 3], [2, 2], [1, 1], [4, 4], lambda a, r: a.sum(-1) / 4),
    ),
    "LPPool2d": (
        lambda: nn.LPPool2d(2, 3, 2), (3, 7, 9), pooled([3, 3], [2, 2], [0, 0], [3, 4], lambda a, r: np.sqrt((a * a).sum(-1))),
    ),
    "LPPool1d": (lambda: nn.LPPool1d(1, 3), (3, 9), pooled([3], [3], [0], [3], lambda a, r: a.sum(-1))),
    "LPPool2d, 4": (
        lambda: nn.LPPool2d(4, 2), (3, 4, 6), pooled([2, 2], [2, 2], [0, 0], [2, 3], lambda a, r: (a**4).sum(-1) ** 0.25),
    ),
    "AdaptiveAvgPool1d": (lambda: nn.AdaptiveAvgPool1d(5), (3, 12), adaptive([5], np.mean)),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d((3, 4)), (3, 7, 9), adaptive([3, 4], np.mean)),
    "AdaptiveAvgPool2d, even": (lambda: nn.AdaptiveAvgPool2d((None, 3)), (3, 7, 9), adaptive([7, 3], np.mean)),
    "AdaptiveMaxPool1d": (lambda: nn.AdaptiveMaxPool1d(5), (3, 12), adaptive([5], np.max)),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d((3, 4)), (3, 7, 9), adaptive([3, 4], np.max)),
    "AdaptiveMaxPool2d, even": (lambda: nn.AdaptiveMaxPool2d((1, 3)), (3, 7, 9), adaptive([1, 3], np.max)),
    "ZeroPad1d": (lambda: nn.ZeroPad1d((2, 1)), (3, 5), padded((2, 1))),
    "ConstantPad2d": (lambda: nn.ConstantPad2d((2, 1, 0, 3), 1.5), (3, 5, 4), padded((0, 3), (2, 1), constant_values=1.5)),
    "ZeroPad2d, crop": (lambda: nn.ZeroPad2d((-1, 2, 1, -2)), (3, 5, 4), lambda x, p: padded((1, 0), (0, 2))(x[:, :, :3, 1:], p)),
    "ReflectionPad1d": (lambda: nn.ReflectionPad1d((4, 2)), (3, 5), padded((4, 2), mode="reflect")),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d((3, 2, 1, 4)), (3, 5, 4), padded((1, 4), (3, 2), mode="reflect")),
    "ReplicationPad2d": (lambda: nn.ReplicationPad2d((3, 2, 6, 0)), (3, 5, 4), padded((6, 0), (3, 2), mode="edge")),
    "CircularPad2d": (lambda: nn.CircularPad2d((3, 2, 1, 4)), (3, 5, 4), padded((1, 4), (3, 2), mode="wrap")),
    "Upsample": (lambda: nn.Upsample((7, 3)), (3, 5, 4), nearest([7, 3])),
    "Upsample, linear": (
        lambda: nn.Upsample(8, mode="linear"), (3, 5), linear([8], lambda n, m: (np.arange(m) + 0.5) * n / m - 0.5),
    ),
    "Upsample, bilinear": (
        lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (3, 5, 4),
        linear([10, 8], lambda n, m: (np.arange(m) + 0.5) * n / m - 0.5),
    ),
    "Upsample, corners": (
        lambda: nn.Upsample((7, 3), mode="bilinear", align_corners=True), (3, 5, 4),
        linear([7, 3], lambda n, m: np.arange(m) * (n - 1) / (m - 1)),
    ),
    "Upsample, factor": (
        lambda: nn.Upsample(scale_factor=1.7, mode="bilinear"), (3, 5, 4),
        linear([8, 6], lambda n, m: ((np.arange(m) + 0.5) / 1.7 - 0.5)),
    ),
    "Upsample, volumes": (lambda: nn.Upsample((7, 3, 4)), (3, 5, 4, 2), nearest([7, 3, 4])),
    "Upsample, trilinear": (
        lambda: nn.Upsample(scale_factor=(2, 1, 3), mode="trilinear"), (2, 3, 4, 2),
        linear([6, 4, 6], lambda n, m: (np.arange(m) + 0.5) * n / m - 0.5),
    ),
    "Upsample, trilinear corners": (
        lambda: nn.Upsample((4, 3, 5), mode="trilinear", align_corners=True), (2, 3, 4, 2),
        linear([4, 3, 5], lambda n, m: np.arange(m) * (n - 1) / (m - 1)),
    ),
    "PixelShuffle": (lambda: nn.PixelShuffle(3), (18, 4, 5), pixels),
    "PixelUnshuffle": (
        lambda: nn.PixelUnshuffle(2), (3, 6, 4),
        lambda x, p: x.reshape(len(x), 3, 3, 2, 2, 2).transpose(0, 1, 3, 5, 2, 4).reshape(len(x), 12, 3, 2),
    ),
    "ChannelShuffle": (
        lambda: nn.ChannelShuffle(3), (6, 4), lambda x, p: x.reshape(len(x), 3, 2, 4).swapaxes(1, 2).reshape(x.shape),
    ),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3), (3, 7), normal((0, 2), (3, 1))),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(3, affine=True), (3, 7), normal((2,), (3, 1))),
    "GroupNorm": (lambda: nn.GroupNorm(2, 6), (6, 7), normal((2, 3), (6, 1), groups=2)),
    "LayerNorm": (lambda: nn.LayerNorm((4, 3), 1e-3), (5, 4, 3), normal((2, 3), (4, 3), 1e-3)),
    "LayerNorm, not affine": (lambda: nn.LayerNorm(3, elementwise_affine=False), (5, 3), normal((2,), (3,))),
    "RMSNorm": (lambda: nn.RMSNorm((4, 3), 1e-3), (5, 4, 3), rms),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(3, 0.8, 0.6, 1.5), (5, 4, 3), local_response(3, 0.8, 0.6, 1.5)),
    "LocalResponseNorm, even": (lambda: nn.LocalResponseNorm(4, 0.8), (6, 3), local_response(4, 0.8, 0.75, 1.0)),
    "Unfold": (
        lambda: nn.Unfold((3, 2), (1, 2), (1, 0), (2, 1)), (3, 5, 4),
        lambda x, p: columns(np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0))), 3, 3, 2, (1, 2), (2, 1)),
    ),
    "Fold": (lambda: nn.Fold((5, 4), (2, 3), padding=(0, 1)), (12, 16), folded),
    "PReLU": (lambda: nn.PReLU(5), (5, 4, 3), prelu),
    "PReLU, one slope": (lambda: nn.PReLU(), (5, 4), prelu),
    "LeakyReLU": (lambda: nn.LeakyReLU(0.2), (5, 4), lambda x, p: np.where(x > 0, x, 0.2 * x)),
    "CELU": (lambda: nn.CELU(1.7), (5, 4), lambda x, p: np.where(x > 0, x, 1.7 * np.expm1(x / 1.7))),
    "Threshold": (lambda: nn.Threshold(0.3, -1.5), (5, 4), lambda x, p: np.where(x > 0.3, x, -1.5)),
    "Hardtanh": (lambda: nn.Hardtanh(-0.4, 0.7), (5, 4), lambda x, p: x.clip(-0.4, 0.7)),
    "Hardshrink": (lambda: nn.Hardshrink(0.3), (5, 4), lambda x, p: np.where(np.abs(x) > 0.3, x, 0)),
    "Softshrink": (lambda: nn.Softshrink(0.3), (5, 4), lambda x, p: np.sign(x) * np.maximum(np.abs(x) - 0.3, 0)),
    "Tanhshrink": (lambda: nn.Tanhshrink(), (5, 4), lambda x, p: x - np.tanh(x)),
    "Softplus, threshold": (
        lambda: nn.Softplus(2.5, 0.5), (5, 4), lambda x, p: np.where(2.5 * x > 0.5, x, np.log1p(np.exp(2.5 * x)) / 2.5),
    ),
    "Softplus": (lambda: nn.Softplus(2.5), (5, 4), lambda x, p: np.log1p(np.exp(2.5 * x)) / 2.5),
    "Mish": (lambda: nn.Mish(), (5, 4), lambda x, p: x * np.tanh(np.log1p(np.exp(x)))),
    "GLU": (lambda: nn.GLU(1), (6, 4), lambda x, p: x[:, :3] * sigmoid(x[:, 3:])),
    "Softmax": (lambda: nn.Softmax(1), (5, 4), softmax(1)),
    "LogSoftmax": (lambda: nn.LogSoftmax(2), (5, 4, 3), lambda x, p: np.log(softmax(2)(x, p))),
    "Softmin": (lambda: nn.Softmin(-2), (5, 4, 3), softmax(2, -1)),
    "Softmax2d": (lambda: nn.Softmax2d(), (5, 4, 3), softmax(1)),
    "Flatten": (lambda: nn.Flatten(2), (3, 4, 5), lambda x, p: x.reshape(len(x), 3, 20)),
    "Unflatten": (lambda: nn.Unflatten(2, (2, -1)), (3, 4, 5), lambda x, p: x.reshape(len(x), 3, 2, 2, 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str, engine: str) -> None:
    make, shape, formula = CASES[name]
    net = make().build(shape, seed=1)
    random = np.random.RandomState(2)
    for parameter in net.parameters():
        parameter.data = random.standard_normal(parameter.shape)
    x = numbers(4, *shape, seed=3)
    y = net(x)
    wanted = {key: p.data.astype(np.float64) for key, p in net.named_parameters()}
    exact = formula(x.astype(np.float64), wanted)
    assert y.shape == exact.shape
    scale = np.abs(exact).max()
    assert scale > 0 and np.abs(y - exact).max() <= 3e-6 * scale
    v = numbers(*y.shape, seed=4)
    gradients = {"x": net.backward(v)} | {key: p.grad.copy() for key, p in net.named_parameters()}
    assert all(np.abs(g).max() > 0 for g in gradients.values())
    step = 1e-6
    for key, gradient in gradients.items():
        for seed in range(3):
            u = numbers(*gradient.shape, seed=5 + seed).astype(np.float64)
            sums = []
            for factor in (step, -step):
                point = x + factor * u if key == "x" else x.astype(np.float64)
                held = {k: p + factor * u if k == key else p for k, p in wanted.items()}
                sums.append(float((formula(point, held) * v).sum()))
            analytic = float((gradient * u).sum())
            spread = float(np.sqrt((gradient.astype(np.float64) ** 2 * u**2).sum()))
            assert analytic == pytest.approx((sums[0] - sums[1]) / (2 * step), abs=2e-5 * spread + 1e-6), key


@pytest.mark.parametrize("name", CASES)
def test_batches_and_repeats(name: str) -> None:
    """Another batch size gives the same rows but for statistics of the batch, and a second run the same bits."""
    make, shape, _ = CASES[name]
    net = make().build(shape, seed=1)
    x = numbers(5, *shape, seed=3)
    first = net(x)
    np.testing.assert_array_equal(net(x), first)
    v = numbers(*first.shape, seed=4)
    dx = net.backward(v)
    again = [p.grad.copy() for p in net.parameters()]
    net(x[:2])
    net(x)
    np.testing.assert_array_equal(net.backward(v), dx)
    for parameter, gradient in zip(net.parameters(), again, strict=True):
        np.testing.assert_array_equal(parameter.grad, gradient)
    if not name.startswith("Batch"):
        np.testing.assert_allclose(net(x[1:3]), first[1:3], rtol=1e-5, atol=1e-6)


# Fusing.


def fused(net: nn.Sequential) -> list[int]:
    return [len(operation.modules) for operation in recorded_graph(net).operations]


def test_signals_are_fused_as_images_are() -> None:
    def make() -> nn.Sequential:
        return nn.Sequential(nn.Conv1d(4, 3), nn.BatchNorm1d(), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(2, 3), nn.Tanh())

    net = make().build((3, 300), seed=0)
    assert fused(net) == [3, 1, 2]
    alone = make().build((3, 300), seed=0)
    x = numbers(6, 3, 300)
    y = x
    for layer in alone:
        y = layer(y)
    np.testing.assert_allclose(net(x), y, rtol=1e-4, atol=1e-5)
    dy = numbers(*y.shape, seed=1)
    dx = net.backward(dy)
    for layer in list(alone)[::-1]:
        dy = layer.backward(dy)
    np.testing.assert_allclose(dx, dy, rtol=1e-3, atol=1e-5)
    for one, other in zip(net.parameters(), alone.parameters(), strict=True):
        np.testing.assert_allclose(one.grad, other.grad, rtol=1e-3, atol=2e-3)


def test_a_ceiling_is_not_fused_away() -> None:
    """MaxPool2d(2) behind a batch normalization is part of the step before it, which leaves out an odd row at the end."""
    net = nn.Sequential(nn.Conv2d(3, 3), nn.BatchNorm2d(), nn.MaxPool2d(2, ceil_mode=True)).build((2, 17, 17), seed=0)
    assert fused(net) == [2, 1] and net(numbers(4, 2, 17, 17)).shape == (4, 3, 8, 8)


# Dropout of channels.


@pytest.mark.parametrize(("make", "shape"), [(nn.Dropout1d, (40, 7)), (nn.Dropout2d, (40, 3, 5))])
def test_channels_are_dropped_as_a_whole(make: type[nn.Dropout], shape: tuple[int, ...], engine: str) -> None:
    layer = make(0.25).build(shape, seed=0)
    x = np.ones((30, *shape), np.float32)
    y = layer(x)
    planes = y.reshape(30, 40, -1)
    assert (planes == planes[:, :, :1]).all()
    kept = planes[:, :, 0]
    assert set(np.unique(kept)) == {np.float32(0), np.float32(1 / 0.75)}
    assert 0.7 < (kept > 0).mean() < 0.8 and len({row.tobytes() for row in kept}) == 30
    np.testing.assert_array_equal(layer.backward(x), y)
    np.testing.assert_array_equal(layer.eval()(x), x)


def test_channels_are_dropped_whatever_bits_mean() -> None:
    before = openbnns.compat.switches.dropout_control_reversed
    try:
        openbnns.compat.switches.dropout_control_reversed = True
        planes = nn.Dropout2d(0.5).build((30, 2, 3), seed=0)(np.ones((10, 30, 2, 3), np.float32)).reshape(300, -1)
    finally:
        openbnns.compat.switches.dropout_control_reversed = before
    assert (planes == planes[:, :1]).all() and 0.3 < (planes > 0).mean() < 0.7


@pytest.mark.parametrize(("make", "shape"), [(nn.Dropout, (5,)), (nn.Dropout1d, (3, 7)), (nn.Dropout2d, (3, 2, 5))])
@pytest.mark.parametrize("p", [1, 1 - 1e-9])
def test_everything_is_dropped(make: type[nn.Dropout], shape: tuple[int, ...], p: float, engine: str) -> None:
    net = nn.Sequential(make(p), nn.Flatten(), nn.Linear(2)).build(shape, seed=0)
    x, bias = numbers(4, *shape), net[2].bias
    np.testing.assert_array_equal(net(x), np.broadcast_to(bias.data, (4, 2)))
    gradient = numbers(4, 2)
    assert not net.backward(gradient).any() and not net[2].weight.grad.any()
    np.testing.assert_allclose(bias.grad, gradient.sum(0), rtol=1e-6)
    np.testing.assert_array_equal(net[0].eval()(x), x)


def test_parts_with_a_dropout_of_everything(engine: str) -> None:
    x = numbers(3, 4, 6)
    attention = nn.MultiheadAttention(6, 2, dropout=1.0).build((4, 6), seed=0)
    expected = np.broadcast_to(attention.out_proj.bias.data, x.shape)
    np.testing.assert_array_equal(np.asarray(attention(x)), expected)
    net = nn.LSTM(6, 5, num_layers=2, dropout=1.0).build((4, 6), seed=0)
    np.testing.assert_array_equal(np.asarray(net(x))[0], np.asarray(net(numbers(3, 4, 6, seed=1)))[0])

    class Heads(nn.Module):
        def forward(self, x: Any) -> Any:
            return nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=1.0)

    heads = Heads().build((4, 6), seed=0)
    assert not heads(x).any() and not heads.backward(numbers(3, 4, 6)).any() and heads.eval()(x).any()


@pytest.mark.parametrize(
    "make",
    [
        lambda p: nn.Dropout(p), lambda p: nn.Dropout2d(p), lambda p: nn.LSTM(3, 4, dropout=p),
        lambda p: nn.MultiheadAttention(4, 2, dropout=p), lambda p: nn.functional.dropout(np.ones((2, 3), np.float32), p),
    ],
)  # fmt: skip
def test_what_is_no_probability(make: Any) -> None:
    for p in (-0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match=rf": (p|dropout) is {p}\. It is the probability to drop: from 0 to 1\."):
            make(p)


# Bags of rows.


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding_idx", [None, 2])
def test_bags_of_rows(mode: Any, padding_idx: int | None, engine: str) -> None:
    if mode == "max" and padding_idx is not None:
        with pytest.raises(ValueError, match="a maximum has no padding_idx"):
            nn.EmbeddingBag(6, 3, mode=mode, padding_idx=padding_idx)
        return
    layer = nn.EmbeddingBag(6, 3, mode=mode, padding_idx=padding_idx)
    layer.weight.data = numbers(6, 3)
    bags = np.array([[0, 5, 5, 1], [2, 2, 3, 4], [2, 2, 2, 2]])
    y = layer(bags)
    v = numbers(3, 3, seed=1)
    layer.backward(v)
    gradient = np.zeros((6, 3))
    for i, bag in enumerate(bags):
        rows = [r for r in bag if r != padding_idx]
        taken = layer.weight.data[rows].astype(np.float64)
        if mode == "max":
            np.testing.assert_allclose(y[i], taken.max(0), rtol=1e-6)
            for d, winner in enumerate(taken.argmax(0)):
                gradient[rows[winner], d] += v[i, d]
            continue
        divisor = max(len(rows), 1) if mode == "mean" else 1
        np.testing.assert_allclose(y[i], taken.sum(0) / divisor, rtol=1e-5, atol=1e-6)
        for r in rows:
            gradient[r] += v[i] / divisor
    np.testing.assert_allclose(layer.weight.grad, gradient, rtol=1e-5, atol=1e-6)


def test_weighted_bags(engine: str) -> None:
    layer = nn.EmbeddingBag(6, 3, mode="sum")
    bags, shares = np.array([[0, 5, 5], [2, 3, 4]]), numbers(2, 3)
    y, v = layer(bags, shares), numbers(2, 3, seed=1)
    rows = layer.weight.data[bags].astype(np.float64)
    np.testing.assert_allclose(y, (rows * shares[:, :, None]).sum(1), rtol=1e-5, atol=1e-6)
    indices, dshares = layer.backward(v)
    assert indices is None
    np.testing.assert_allclose(dshares, (rows * v[:, None]).sum(2), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(nn.EmbeddingBag(6, 3, mode="sum")(bags, per_sample_weights=shares).shape, (2, 3))


def test_bilinear(engine: str) -> None:
    layer = nn.Bilinear(4, 5, 3)
    a, b = numbers(6, 2, 4), numbers(6, 2, 5, seed=1)
    y, v = layer(a, b), numbers(6, 2, 3, seed=2)
    w = layer.weight.data.astype(np.float64)
    np.testing.assert_allclose(y, np.einsum("nti,oij,ntj->nto", a, w, b) + layer.bias.data, rtol=1e-4, atol=1e-5)
    da, db = layer.backward(v)
    np.testing.assert_allclose(da, np.einsum("nto,oij,ntj->nti", v, w, b), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(db, np.einsum("nto,oij,nti->ntj", v, w, a), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.weight.grad, np.einsum("nto,nti,ntj->oij", v, a, b), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.bias.grad, v.sum((0, 1)), rtol=1e-4, atol=1e-5)


# Maxima, their places and back.


class Peaks(nn.Module):
    def __init__(self, *arguments: Any, size: tuple[int, ...] | None = None) -> None:
        super().__init__()
        self.pool, self.back = nn.MaxPool2d(*arguments, return_indices=True), nn.MaxUnpool2d(*arguments)
        self.size = size

    def forward(self, x: nn.Value) -> Any:
        values, indices = self.pool(x)
        return {"all": self.back(values * 2.0, indices, output_size=self.size), "values": values, "places": indices}


@pytest.mark.parametrize(
    ("arguments", "shape", "size"), [((2,), (3, 6, 8), None), (((3, 2), 3, (1, 0)), (2, 8, 8), (8, 8))]
)
def test_maxima_and_back(arguments: tuple[Any, ...], shape: tuple[int, ...], size: Any, engine: str) -> None:
    net, x = Peaks(*arguments, size=size), numbers(4, *shape)
    y = net(x)
    flat = x.reshape(4, shape[0], -1)
    places = y["places"].reshape(4, shape[0], -1)
    assert y["places"].dtype == np.int64
    values = np.take_along_axis(flat, places, 2)
    np.testing.assert_array_equal(y["values"].reshape(values.shape), values)
    np.testing.assert_array_equal(y["values"], nn.MaxPool2d(*arguments)(x))
    wanted = np.zeros_like(flat)
    np.put_along_axis(wanted, places, 2 * values, 2)
    np.testing.assert_array_equal(y["all"].reshape(flat.shape), wanted)
    whole, part = numbers(*x.shape, seed=1), numbers(*y["values"].shape, seed=2)
    dx = net.backward({"all": whole, "values": part, "places": None})
    gradient = np.zeros_like(flat)
    arriving = 2 * np.take_along_axis(whole.reshape(flat.shape), places, 2) + part.reshape(places.shape)
    np.put_along_axis(gradient, places, arriving, 2)
    np.testing.assert_allclose(dx.reshape(flat.shape), gradient, rtol=1e-6)
    np.testing.assert_array_equal(net(x[:2])["places"], y["places"][:2])


# Mistakes.


@pytest.mark.parametrize(
    ("make", "shape", "message"),
    [
        (lambda: nn.Conv1d(3, 2), (2, 5, 5), r"Conv1d: needs samples \(channels, length\), but gets \(2, 5, 5\)"),
        (lambda: nn.Conv1d(3, 6), (2, 5), r"Conv1d: a signal of length 5 leaves nothing with kernel \(6,\)"),
        (lambda: nn.Conv2d(2, 3, 3, groups=2), (2, 5, 5), "2 groups do not divide 2 input and 3 output channels"),
        (lambda: nn.Conv2d(3, 0), (2, 5, 5), "Conv2d: kernel_size is 0. It must be at least 1"),
        (lambda: nn.Conv2d(3, 3, padding=-1), (2, 5, 5), "Conv2d: padding is -1. It must be at least 0"),
        (lambda: nn.Conv2d(3, 3, stride=2, padding="same"), (2, 5, 5), r"padding 'same' with stride \(2, 2\)"),
        (lambda: nn.Conv2d(3, 3, padding="full"), (2, 5, 5), "padding is 'full'. Pass numbers, 'same' or 'valid'"),
        (lambda: nn.Conv2d(3, 3, padding=3, padding_mode="reflect"), (2, 3, 8), "cannot be added to an axis of 3 by 'reflect'"),
        (lambda: nn.Conv2d(3, 3, padding_mode="mirror"), (2, 3, 8), "padding_mode is 'mirror'. Use 'zeros' or 'reflect'"),
        (lambda: nn.ConvTranspose2d(3, 3, padding_mode="reflect"), (2, 3, 8), "padding_mode is 'reflect'. Use 'zeros'"),
        (lambda: nn.ConvTranspose2d(3, 3, padding="same"), (2, 3, 8), "padding is 'same'. Pass numbers"),
        (lambda: nn.ConvTranspose2d(3, 3, stride=2, output_padding=2), (2, 3, 8), r"output_padding \(2, 2\) must be smaller"),
        (lambda: nn.MaxPool2d(2, padding=2), (2, 5, 5), "is more than half of the window"),
        (lambda: nn.MaxPool1d(6), (2, 5), r"a signal of length 5 is smaller than the window \(6,\)"),
        (lambda: nn.AvgPool2d(2, divisor_override=0), (2, 5, 5), "divisor_override is 0"),
        (lambda: nn.LPPool2d(0, 2), (2, 5, 5), "norm_type is 0. Pass a positive number"),
        (lambda: nn.AdaptiveAvgPool2d((2, 3, 4)), (2, 5, 5), r"output_size is \(2, 3, 4\). Pass one number or 2"),
        (lambda: nn.AdaptiveMaxPool2d(3, True), (2, 5, 5), "return_indices needs parts of one size"),
        (lambda: nn.ZeroPad2d((1, 2)), (2, 5, 5), r"padding is \(1, 2\). Pass one integer, or \(left, right, top, bottom\)"),
        (lambda: nn.ZeroPad2d(-3), (2, 5, 5), "removes more than"),
        (lambda: nn.ReflectionPad1d(5), (2, 5), "cannot be added to an axis of 5 by 'reflect', which takes at most 4"),
        (lambda: nn.CircularPad1d(6), (2, 5), "cannot be added to an axis of 5 by 'circular', which takes at most 5"),
        (lambda: nn.Upsample(), (2, 5, 5), "give either size or scale_factor, not neither"),
        (lambda: nn.Upsample(3, 2.0), (2, 5, 5), "give either size or scale_factor, not both"),
        (lambda: nn.Upsample(3, mode="cubic"), (2, 5, 5), "mode is 'cubic'. Use one of 'nearest'"),  # type: ignore[arg-type]
        (lambda: nn.Upsample(3, mode="linear"), (2, 5, 5), r"needs samples \(channels, length\)"),
        (lambda: nn.Upsample(3, align_corners=True), (2, 5, 5), "align_corners is for linear modes"),
        (lambda: nn.Upsample(scale_factor=0.1), (2, 5, 5), "scale_factor 0.1 leaves nothing of"),
        (lambda: nn.PixelShuffle(2), (6, 5, 5), "6 channels do not make blocks of 2 x 2 pixels"),
        (lambda: nn.PixelUnshuffle(2), (6, 5, 4), "images of 5 x 4 pixels are not made of blocks"),
        (lambda: nn.ChannelShuffle(4), (6, 5), "4 groups do not divide the channels"),
        (lambda: nn.PReLU(3), (4, 5), r"made for 3 channels, which are axis 1, but gets \(N, 4, 5\)"),
        (lambda: nn.RMSNorm(4), (5,), r"RMSNorm: made for samples that end in \(4,\), but gets \(5,\)"),
        (lambda: nn.RMSNorm(4, eps=-1), (4,), "eps is -1. It must not be negative"),
        (lambda: nn.LayerNorm(()), (4,), "normalized_shape is empty"),
        (lambda: nn.LocalResponseNorm(0), (4, 3), r"LocalResponseNorm: size is 0\. Pass an integer of at least 1"),
        (lambda: nn.LocalResponseNorm(3), (4,), r"LocalResponseNorm: needs samples \(channels, \.\.\.\) .*gets \(4,\)"),
        (lambda: nn.Unfold((2, 3), padding=-1), (4, 3, 3), r"Unfold: padding is -1\. It must be at least 0"),
        (lambda: nn.Unfold(2), (4, 3), r"Unfold: needs samples \(channels, height, width\)"),
        (lambda: nn.Fold((4, 4, 4), 2), (4, 3), r"Fold: output_size is \(4, 4, 4\)\. Pass one integer or"),
        (lambda: nn.Fold(4, 2), (4, 3, 3), r"Fold: needs samples \(channels times the pixels of a window, windows\)"),
        (lambda: nn.GroupNorm(4, 6), (6,), "4 groups do not divide 6 channels"),
        (lambda: nn.BatchNorm1d(), (3, 4, 5), r"BatchNorm1d: needs samples \(features,\) or \(channels, length\)"),
        (lambda: nn.Hardtanh(1, 1), (4,), "min_val is 1 and max_val 1. The first must be smaller"),
        (lambda: nn.Softshrink(-1), (4,), "lambd is -1. It must not be negative"),
        (lambda: nn.Softplus(0), (4,), "beta is 0. It must be greater than 0"),
        (lambda: nn.CELU(0), (4,), "alpha is 0"),
        (lambda: nn.GLU(), (5,), "cannot be halved"),
        (lambda: nn.Softmax(2), (5,), "has the axes 0 to 1"),
        (lambda: nn.Dropout2d(), (5,), r"Dropout2d: needs samples \(channels, height, width\)"),
        (lambda: nn.EmbeddingBag(4, 2, mode="median"), (3,), "mode is 'median'. Use 'sum', 'mean' or 'max'"),  # type: ignore[arg-type]
        (lambda: nn.EmbeddingBag(4, 2), (3, 4), r"EmbeddingBag: needs samples \(bag,\)"),
    ],
)  # fmt: skip
def test_mistakes(make: Callable[[], nn.Module], shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make().build(shape)


def test_mistakes_of_two_inputs() -> None:
    with pytest.raises(TypeError, match="MaxUnpool2d takes two inputs: values, and the indices"):
        nn.MaxUnpool2d(2).build((2, 3, 3))
    with pytest.raises(ValueError, match=r"values \(N, 2, 3, 3\) and indices \(N, 2, 3, 4\) must have the same shape"):
        nn.MaxUnpool2d(2).build((2, 3, 3), (2, 3, 4))
    with pytest.raises(ValueError, match=r"output_size is \(9, 6\), but the pooled image was about \(6, 6\)"):
        Peaks(2, size=(9, 6)).build((2, 6, 6))
    with pytest.raises(TypeError, match="Bilinear takes two inputs, not 1"):
        nn.Bilinear(3, 4, 5).build((3,))
    with pytest.raises(ValueError, match=r"made for inputs \(..., 3\) and \(..., 4\), but gets \(N, 3\) and \(N, 5\)"):
        nn.Bilinear(3, 4, 5).build((3,), (5,))
    with pytest.raises(ValueError, match=r"per_sample_weights .* need mode='sum'"):
        nn.EmbeddingBag(4, 2).build((3,), (3,))


def test_indices_out_of_the_image_are_refused() -> None:
    layer = nn.MaxUnpool2d(2)
    values = np.ones((1, 1, 2, 2), np.float32)
    with pytest.raises(openbnns.BNNSError, match="16"):
        layer(values, np.array([[[[0, 2], [8, 16]]]]))


def test_rows_from_the_end() -> None:
    layer = nn.Embedding(5, 2, padding_idx=-1)
    assert layer.padding_idx == 4 and not layer(np.array([[4]])).any() and not layer.weight.data[4].any()
    assert nn.EmbeddingBag(5, 2, padding_idx=-5).padding_idx == 0
    for make in (nn.Embedding, nn.EmbeddingBag):
        with pytest.raises(ValueError, match=r"padding_idx is 5, but rows are 0 to 4"):
            make(5, 2, padding_idx=5)
