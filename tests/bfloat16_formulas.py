"""Products in bfloat16 by their definition: rounding, whole numbers whose sums are exact, convolutions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from openbnns import nn

Array = NDArray[Any]


def rounded(x: Array) -> Array:
    """To bfloat16, ties to even, in float64."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32).astype(np.float64)


def whole(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Whole numbers of up to 9 bits, small ones as often as large ones: bfloat16 holds some, and others are ties."""
    return np.rint(np.ldexp(rng.uniform(-1, 1, shape), rng.integers(1, 10, shape))).astype(np.float32)


def bfloat16(network: nn.Module) -> nn.Module:
    """The network, with products in bfloat16."""
    network._compute_with("test", None, "bfloat16")
    return network


def near(ours: Array, expected: Array, unrounded: Array) -> bool:
    """Much nearer to what rounded operands give than to what others do.

    Sums in float32 may fall to another side than sums in float64 where they are rounded in turn, but seldom.
    """
    distance = np.linalg.norm(ours - expected)
    return bool(distance <= 0.25 * np.linalg.norm(unrounded - expected) + 1e-6 * np.linalg.norm(expected))


class Spatial(NamedTuple):
    """A convolution: x has (batch, channels, height, width); weights (outputs, channels of a group, rows, columns)."""

    x: tuple[int, int, int, int]
    outputs: int
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    def build(self) -> nn.Module:
        net = nn.Conv2d(
            self.outputs,
            self.kernel,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
        )
        return bfloat16(net).build(self.x[1:], seed=11).train()

    def taps(self, padded: Array, height: int, width: int) -> Iterator[tuple[int, int, Array]]:
        """For each tap the cells of the padded input that the outputs meet with it, a view."""
        (sy, sx), (dy, dx) = self.stride, self.dilation
        for r in range(self.kernel[0]):
            for q in range(self.kernel[1]):
                rows = slice(r * dy, r * dy + sy * (height - 1) + 1, sy)
                columns = slice(q * dx, q * dx + sx * (width - 1) + 1, sx)
                yield r, q, padded[:, :, rows, columns]

    def padded(self, x: Array) -> Array:
        (up, left) = self.padding
        return np.pad(x, ((0, 0), (0, 0), (up, up), (left, left)))

    def grouped(self, a: Array) -> Array:
        """Channels as (groups, channels of one)."""
        return a.reshape(a.shape[0], self.groups, -1, *a.shape[2:])

    def forward(self, x: Array, w: Array, like: Array) -> Array:
        y = np.zeros(like.shape)
        for r, q, cells in self.taps(self.padded(x), *like.shape[2:]):
            taps = w[:, :, r, q].reshape(self.groups, -1, w.shape[1])
            y += np.einsum("goc,ngchw->ngohw", taps, self.grouped(cells)).reshape(y.shape)
        return y

    def input_gradient(self, dy: Array, w: Array) -> Array:
        padded = self.padded(np.zeros(self.x))
        for r, q, cells in self.taps(padded, *dy.shape[2:]):
            taps = w[:, :, r, q].reshape(self.groups, -1, w.shape[1])
            cells += np.einsum("goc,ngohw->ngchw", taps, self.grouped(dy)).reshape(cells.shape)
        (up, left), (_, _, height, width) = self.padding, self.x
        return padded[:, :, up : up + height, left : left + width]

    def weights_gradient(self, x: Array, dy: Array, like: Array) -> Array:
        dw = np.zeros(like.shape)
        for r, q, cells in self.taps(self.padded(x), *dy.shape[2:]):
            dw[:, :, r, q] = np.einsum("ngohw,ngchw->goc", self.grouped(dy), self.grouped(cells)).reshape(dw.shape[:2])
        return dw
