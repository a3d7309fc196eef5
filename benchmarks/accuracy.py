"""The cost of "fast" and "exact" convolutions, in rounding errors and in time.

For each shape: the largest error of output, input gradient and weights gradient against float64, as a fraction of the
root mean square of the result, in both accuracies; and how much longer a forward and a backward call take in "exact".

python benchmarks/run.py --only accuracy/
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import openbnns as bn
from harness import Figure, Settings
from openbnns import engines

# channels in and out, height and width, kernel, stride, padding
SHAPES = (
    (64, 64, 56, 3, 1, 1),
    (256, 256, 14, 3, 1, 1),
    (512, 512, 14, 3, 1, 1),
    (64, 64, 28, 5, 1, 2),
    (64, 64, 32, 4, 2, 1),
    (64, 64, 32, 6, 2, 2),
)
SAMPLES = 4  # for the errors: the reference engine is slow
TIMED_SAMPLES = 16
RESULTS = ("y", "dx", "dw")


def figures() -> dict[str, Callable[[Settings], Figure]]:
    """Measurements by name."""
    return {f"accuracy/{_name(shape)}": partial(_figure, shape=shape) for shape in SHAPES}


def _name(shape: tuple[int, ...]) -> str:
    c, k, side, kernel, stride, _ = shape
    return f"{kernel}x{kernel} stride {stride}, {c} to {k} channels, {side}x{side}"


class Layer:
    """A convolution of random numbers whose output has a root mean square of about 1."""

    def __init__(self, shape: tuple[int, ...], samples: int, accuracy: str) -> None:
        c, k, side, kernel, stride, padding = shape
        rng = np.random.default_rng(1)
        weights = rng.standard_normal((k, c, kernel, kernel), dtype=np.float32) / np.float32(np.sqrt(c) * kernel)
        self.x = rng.standard_normal((samples, c, side, side), dtype=np.float32)
        self.weights = weights
        with engines.using_arithmetic(engines.Arithmetic(accuracy)):
            self.layer = bn.ConvolutionLayer(
                input=bn.Shape.image_chw(side, side, c),
                weights=weights,
                stride=stride,
                padding=bn.ConvolutionPadding.symmetric(x=padding, y=padding),
            )
        self.y = self.layer.apply(self.x)
        self.dy = rng.standard_normal(self.y.shape, dtype=np.float32)
        self.dx, self.dw = np.empty_like(self.x), np.empty_like(weights)

    def run(self) -> list[NDArray[Any]]:
        self.layer.apply(self.x, output=self.y)
        self.layer.apply_backward(
            input=self.x, output_gradient=self.dy, generating_input_gradient=self.dx,
            generating_weights_gradient=self.dw, generating_bias_gradient=bn.layers.skip,
        )  # fmt: skip
        return [self.y.copy(), self.dx.copy(), self.dw.copy()]


def errors(shape: tuple[int, ...], accuracy: str) -> dict[str, float]:
    """The largest error of each result over its root mean square."""
    layer = Layer(shape, SAMPLES, accuracy)
    ours = layer.run()
    wide = [a.astype(np.float64) for a in (layer.x, layer.dy, layer.weights)]
    expected = _float64(*wide, shape)
    return {
        name: float(np.abs(a - b).max() / np.sqrt(np.mean(b * b)))
        for name, a, b in zip(RESULTS, ours, expected, strict=True)
    }


def _float64(x: NDArray[Any], dy: NDArray[Any], w: NDArray[Any], shape: tuple[int, ...]) -> list[NDArray[Any]]:
    """Output and gradients in float64, one tap of the kernel at a time."""
    _, _, side, kernel, stride, padding = shape
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    y, dx, dw = np.zeros(dy.shape), np.zeros(padded.shape), np.zeros(w.shape)
    out = dy.shape[2]
    for ky in range(kernel):
        for kx in range(kernel):
            rows, columns = (slice(k, k + stride * (out - 1) + 1, stride) for k in (ky, kx))
            met = padded[:, :, rows, columns]
            y += np.einsum("oc,nchw->nohw", w[:, :, ky, kx], met, optimize=True)
            dx[:, :, rows, columns] += np.einsum("oc,nohw->nchw", w[:, :, ky, kx], dy, optimize=True)
            dw[:, :, ky, kx] = np.einsum("nohw,nchw->oc", dy, met, optimize=True)
    return [y, dx[:, :, padding : padding + side, padding : padding + side], dw]


def _figure(settings: Settings, *, shape: tuple[int, ...]) -> Figure:
    bn.set_num_threads(settings.threads)
    by_accuracy = {accuracy: errors(shape, accuracy) for accuracy in (engines.FAST, engines.EXACT)}
    layers = [Layer(shape, TIMED_SAMPLES, accuracy) for accuracy in (engines.FAST, engines.EXACT)]
    best = [float("inf")] * 2
    end = time.perf_counter() + settings.seconds
    while time.perf_counter() < end:
        for i, layer in enumerate(layers):
            start = time.perf_counter()
            layer.run()
            best[i] = min(best[i], time.perf_counter() - start)
    bn.set_num_threads(0)
    note = "largest error / rms, fast and exact: " + ", ".join(
        f"{name} {by_accuracy[engines.FAST][name]:.1e} {by_accuracy[engines.EXACT][name]:.1e}" for name in RESULTS
    )
    return Figure(f"accuracy/{_name(shape)}", best[1] / best[0], "x the time of fast", note=note)
