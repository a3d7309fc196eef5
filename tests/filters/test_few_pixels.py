"""Convolutions on images of a few pixels, and 1 x 1 convolutions with few outputs: products that others would do worse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openbnns
from openbnns import nn

Array = np.ndarray[Any, Any]


def convolved(x: Array, w: Array, b: Array, stride: int, padding: int, dilation: int) -> tuple[Array, Array]:
    """The results in float64, and the sums of the absolute values of their terms."""
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    reach = dilation * (w.shape[2] - 1) + 1
    rows, columns = ((size - reach) // stride + 1 for size in x.shape[2:])
    y = np.zeros((len(x), len(w), rows, columns))
    size = np.zeros_like(y)
    for i in range(w.shape[2]):
        for j in range(w.shape[3]):
            part = x[:, :, i * dilation :, j * dilation :][:, :, ::stride, ::stride][:, :, :rows, :columns]
            y += np.einsum("nchw,oc->nohw", part, w[:, :, i, j].astype(np.float64))
            size += np.einsum("nchw,oc->nohw", abs(part), abs(w[:, :, i, j]).astype(np.float64))
    return y + b[:, None, None], size + abs(b[:, None, None])


def check(net: nn.Module, layer: Any, x: Array, *given: int) -> None:
    net.eval()
    before, results = openbnns.get_num_threads(), []
    try:
        for threads in (1, 2):
            openbnns.set_num_threads(threads)
            results += [net(x) for _ in range(3)]  # packed weights are kept from the second on
    finally:
        openbnns.set_num_threads(before)
    for y in results[1:]:
        np.testing.assert_array_equal(y.view(np.int32), results[0].view(np.int32))
    w, b = layer.weight.data, layer.bias.data
    expected, size = convolved(x, w, b, *given)
    assert (np.abs(results[0] - np.maximum(expected, 0)) <= 2e-6 * size).all()
    assert results[0].max() > 0


@pytest.mark.parametrize("seed", range(48))
def test_few_pixels(seed: int) -> None:
    random = np.random.default_rng(seed)
    kernel, stride, dilation = int(random.integers(1, 4)), int(random.integers(1, 4)), int(random.integers(1, 3))
    padding = int(random.integers(0, kernel))
    reach = dilation * (kernel - 1) + 1
    columns, rows = int(random.integers(1, 5 if seed % 2 else 21)), int(random.integers(1, 8 if seed % 2 else 21))
    height, width = ((n - 1) * stride + max(reach - 2 * padding, 1) for n in (rows, columns))
    inputs, outputs = int(random.integers(1, 70)), int(random.integers(32, 100))
    layer = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=padding, dilation=dilation)
    x = random.standard_normal((int(random.integers(1, 4)), inputs, height, width)).astype(np.float32)
    net = nn.Sequential(layer, nn.ReLU())
    check(net, layer, x, stride, padding, dilation)
    for parameter in net.parameters():  # what is kept follows
        parameter.data *= 2
    check(net, layer, x, stride, padding, dilation)


@pytest.mark.parametrize("side", [1, 2, 5, 7, 10, 16, 40])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("batch", [1, 5])
def test_single_pixels_of_many_channels(side: int, stride: int, batch: int) -> None:
    random = np.random.default_rng(side)
    inputs, outputs = 270 + side, 33 + 5 * side  # sums of more than one piece
    layer = nn.Conv2d(inputs, outputs, 1, stride=stride)
    x = random.standard_normal((batch, inputs, side, side)).astype(np.float32)
    check(nn.Sequential(layer, nn.ReLU()), layer, x, stride, 0, 1)


@pytest.mark.parametrize("side", [13, 28, 32, 56, 64])  # rows of 32 and 64 would share sets of a cache
@pytest.mark.parametrize("outputs", [15, 32, 64, 65])
def test_few_outputs_of_single_pixels(side: int, outputs: int) -> None:
    random = np.random.default_rng(side)
    layer = nn.Conv2d(19 * (1 + side % 3), outputs, 1)
    x = random.standard_normal((2, 19 * (1 + side % 3), side, side)).astype(np.float32)
    check(nn.Sequential(layer, nn.ReLU()), layer, x, 1, 0, 1)
