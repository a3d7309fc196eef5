"""Layers of volumes (channels, depth, height, width), against formulas in float64 and finite differences."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from function_checks import Applied, check, some
from openbnns import gradcheck, nn
from openbnns.nn import functional as F


def windows(x: Any, kernel: Any, stride: Any, dilation: Any) -> Any:
    """(N, C, D', H', W', KD, KH, KW)."""
    extents = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    whole = np.lib.stride_tricks.sliding_window_view(x, extents, (2, 3, 4))
    return whole[(..., *(slice(None, None, s) for s in stride), *(slice(None, None, d) for d in dilation))]


def padded(x: Any, padding: Any, value: float = 0.0) -> Any:
    return np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)), constant_values=value)


def convolution(x: Any, w: Any, b: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    parts = np.split(padded(x, padding), groups, 1), np.split(w, groups, 0)
    channels = [
        np.einsum("ncdhwijk,ocijk->nodhw", windows(p, v.shape[2:], stride, dilation), v)
        for p, v in zip(*parts, strict=True)
    ]
    return np.concatenate(channels, 1) + b[:, None, None, None]


def transposed(x: Any, w: Any, b: Any, stride: Any, padding: Any, extra: Any, dilation: Any, groups: int) -> Any:
    sizes = [
        s * (n - 1) + d * (k - 1) + 1 + e
        for n, k, s, d, e in zip(x.shape[2:], w.shape[2:], stride, dilation, extra, strict=True)
    ]
    results = []
    for p, v in zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True):
        y = np.zeros((len(x), v.shape[1], *sizes))
        for i in product(*map(range, v.shape[2:])):
            spots = tuple(
                slice(d * k, d * k + s * (n - 1) + 1, s)
                for k, d, s, n in zip(i, dilation, stride, x.shape[2:], strict=True)
            )
            y[(slice(None), slice(None), *spots)] += np.einsum("ncdhw,co->nodhw", p, v[(slice(None), slice(None), *i)])
        results.append(y)
    y = np.concatenate(results, 1) + b[:, None, None, None]
    return y[(..., *(slice(p, n - p) for p, n in zip(padding, sizes, strict=True)))]


CONVOLUTIONS = {
    "plain": ((3, 2, 3), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1),
    "padded": ((3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 2),
    "stride": ((2, 3, 2), (2, 1, 3), (1, 0, 1), (1, 1, 1), 1),
    "dilated": ((2, 2, 3), (1, 2, 1), (1, 1, 2), (2, 1, 2), 2),
    "one by one": ((1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str) -> None:
    kernel, stride, padding, dilation, groups = CONVOLUTIONS[name]
    x, w, b = some(3, 4, 5, 6, 7), some(6, 4 // groups, *kernel, seed=1), some(6, seed=2)
    check(
        lambda x, w, b: F.conv3d(x, w, b, stride, padding, dilation, groups),
        lambda x, w, b: convolution(x, w, b, stride, padding, dilation, groups),
        [x], [w, b], at_once=True,
    )  # fmt: skip
    layer = nn.Conv3d(4, 6, kernel, stride, padding, dilation, groups)
    layer.weight.data, layer.bias.data = w, b
    np.testing.assert_allclose(layer(x), F.conv3d(x, w, b, stride, padding, dilation, groups), rtol=1e-5, atol=1e-5)


TRANSPOSED = {
    "plain": ((3, 2, 3), (1, 1, 1), (0, 0, 0), (0, 0, 0), (1, 1, 1), 1),
    "stride": ((2, 3, 2), (2, 1, 3), (1, 0, 1), (1, 0, 2), (1, 1, 1), 1),
    "groups": ((2, 2, 3), (2, 2, 1), (0, 1, 1), (0, 0, 0), (1, 2, 1), 2),
    "dilated": ((3, 1, 2), (2, 1, 2), (2, 0, 1), (1, 0, 1), (2, 1, 1), 1),
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolution(name: str) -> None:
    kernel, stride, padding, extra, dilation, groups = TRANSPOSED[name]
    x, w, b = some(3, 4, 3, 4, 3), some(4, 6 // groups, *kernel, seed=1), some(6, seed=2)
    check(
        lambda x, w, b: F.conv_transpose3d(x, w, b, stride, padding, extra, groups, dilation),
        lambda x, w, b: transposed(x, w, b, stride, padding, extra, dilation, groups),
        [x], [w, b],
    )  # fmt: skip


def test_pooling() -> None:
    x = some(3, 2, 5, 6, 7)

    def largest(x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Any:
        return windows(padded(x, padding, -np.inf), kernel, stride, dilation).max((-3, -2, -1))

    def mean(x: Any, kernel: Any, stride: Any, padding: Any, counted: bool) -> Any:
        ones = padded(np.ones_like(x), padding, 1.0 if counted else 0.0)
        totals = [windows(a, kernel, stride, (1, 1, 1)).sum((-3, -2, -1)) for a in (padded(x, padding), ones)]
        return totals[0] / totals[1]

    whole = (3, 2, 2), (2, 1, 2), (1, 0, 1)
    check(partial(F.max_pool3d, kernel_size=2), partial(largest, kernel=(2, 2, 2), stride=(2, 2, 2), padding=(0, 0, 0), dilation=(1, 1, 1)), [x])  # fmt: skip  # noqa: E501
    check(lambda x: F.max_pool3d(x, *whole, (2, 1, 3)), lambda x: largest(x, *whole, (2, 1, 3)), [x], at_once=True)
    check(lambda x: F.avg_pool3d(x, *whole), lambda x: mean(x, *whole, True), [x])
    check(lambda x: F.avg_pool3d(x, *whole, count_include_pad=False), lambda x: mean(x, *whole, False), [x])
    check(
        lambda x: F.avg_pool3d(x, *whole, divisor_override=5),
        lambda x: mean(x, *whole, True) * 12 / 5, [x],
    )  # fmt: skip
    check(
        lambda x: F.adaptive_avg_pool3d(x, (2, 3, None)),
        lambda x: np.stack([x[:, :, a:b].mean(2) for a, b in ((0, 3), (2, 5))], 2).reshape(-1, 2, 2, 3, 2, 7).mean(4),
        [x],
    )
    check(lambda x: F.adaptive_avg_pool3d(x, 1), lambda x: x.mean((2, 3, 4), keepdims=True), [x])
    check(
        lambda x: F.adaptive_max_pool3d(x, (2, 3, None)),
        lambda x: np.stack([x[:, :, a:b].max(2) for a, b in ((0, 3), (2, 5))], 2).reshape(-1, 2, 2, 3, 2, 7).max(4),
        [x],
    )


@pytest.mark.parametrize("affine", [True, False])
def test_normalizations(affine: bool) -> None:
    x = some(3, 4, 2, 3, 5)
    volume, both = (2, 3, 4), (0, 2, 3, 4)
    layers = [
        (nn.BatchNorm3d(4, affine=affine), lambda x: (x.mean(both, keepdims=True), x.var(both, keepdims=True))),
        (nn.InstanceNorm3d(4, affine=affine), lambda x: (x.mean(volume, keepdims=True), x.var(volume, keepdims=True))),
    ]
    for layer, statistics in layers:
        m, v = statistics(x.astype(np.float64))
        np.testing.assert_allclose(layer(x), (x - m) / np.sqrt(v + 1e-5), rtol=1e-4, atol=1e-4)
        gradcheck(layer, x)
    grouped = x.reshape(3, 2, -1).astype(np.float64)
    expected = (grouped - grouped.mean(2, keepdims=True)) / np.sqrt(grouped.var(2, keepdims=True) + 1e-5)
    np.testing.assert_allclose(nn.GroupNorm(2)(x), expected.reshape(x.shape), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padding(mode: str) -> None:
    names = {
        "constant": "ZeroPad3d",
        "reflect": "ReflectionPad3d",
        "replicate": "ReplicationPad3d",
        "circular": "CircularPad3d",
    }
    theirs = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    layer = getattr(nn, names[mode])((1, 2, 0, 1, 2, 1))
    check(
        lambda x: layer.forward(x), lambda x: np.pad(x, ((0, 0), (0, 0), (2, 1), (0, 1), (1, 2)), mode=theirs),
        [some(3, 2, 4, 3, 5)],
    )  # fmt: skip


def test_a_network_of_volumes_learns_and_is_saved(tmp_path: Any) -> None:
    x = some(24, 1, 4, 6, 6)
    y = (x.mean((1, 2, 3, 4)) > 0).astype(np.int64)
    net = nn.Sequential(
        nn.Conv3d(4, 3, padding=1, padding_mode="replicate"), nn.BatchNorm3d(), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(4, 2),
        nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(2),
    )  # fmt: skip
    history = nn.Trainer(net, nn.CrossEntropyLoss(), nn.Adam(0.02), seed=0, quiet=True).fit(x, y, epochs=25)
    assert history[-1]["loss"] < 0.5 * history[0]["loss"]
    net.save(tmp_path / "net.npz")
    before = net.eval()(x[:3])
    for parameter in net.parameters():
        parameter.data[...] = 0
    net.load(tmp_path / "net.npz")
    np.testing.assert_array_equal(net(x[:3]), before)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Conv3d(2, 3)(some(1, 2, 4, 4)), r"Conv3d: needs samples \(channels, depth, height, width\)"),
        (lambda: nn.Conv3d(2, (3, 3)), r"kernel_size is \(3, 3\). Pass one integer or \(depth, vertical, horizontal\)"),
        (lambda: nn.Conv3d(2, 9)(some(1, 2, 4, 4, 4)), r"a volume of 4 x 4 x 4 \(depth first\) leaves nothing"),
        (lambda: nn.MaxPool3d(9)(some(1, 2, 4, 4, 4)), "a volume of 4 x 4 x 4 is smaller than the window"),
        (lambda: nn.MaxPool3d(2, return_indices=True), "MaxPool3d: return_indices is not possible"),
        (lambda: nn.AdaptiveMaxPool3d(2, return_indices=True), "AdaptiveMaxPool3d: return_indices is not possible"),
        (lambda: nn.ConstantPad3d((1, 2), 0.0), r"\(left, right, top, bottom, front, back\)"),
        (lambda: F.conv3d(some(1, 2, 4, 4, 4), some(3, 2, 2, 2)), "conv3d: weight has shape"),
        (lambda: nn.BatchNorm3d()(some(2, 3, 4, 4)), "BatchNorm3d: needs samples"),
    ],
)
def test_what_is_refused(make: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_one_recording_serves_all_batches() -> None:
    net = Applied(lambda x, w: F.relu(F.conv3d(x, w, padding=1)).mean((2, 3, 4)), [some(3, 2, 3, 3, 3)]).eval()
    for count in (1, 4, 2):
        assert net(some(count, 2, 4, 5, 6)).shape == (count, 3)
    assert len(net._recordings) == 1
