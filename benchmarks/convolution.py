"""How fast are convolutions, forward and backward, next to PyTorch's?

The eleven shapes cover deep and shallow images, 1x1 to 7x7 kernels, stride 2, a single small image; their geometric
mean is what counts, and none may be slower than PyTorch. Transposed, depthwise and grouped convolutions follow, then convolutions
that are matrix products, because the kernel covers the image or there is only one pixel, and images of one row or column.
The former are compared with the fully connected layer of the same size, too.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import fully_connected
from cases import Arrays, Calls, Case, created, describe, training_parameters, vector
from harness import Figure, Settings, our_step
from openbnns import capi
from timing import QUIET, alternate, sampler

# batch, input channels, height and width, output channels, kernel, stride, padding
SHAPES = (
    (32, 64, 56, 64, 3, 1, 1),
    (32, 128, 28, 128, 3, 1, 1),
    (32, 256, 14, 256, 3, 1, 1),
    (32, 512, 7, 512, 3, 1, 1),
    (64, 1, 28, 16, 5, 1, 2),
    (32, 3, 32, 32, 3, 1, 1),
    (32, 64, 56, 256, 1, 1, 0),
    (1, 16, 28, 16, 3, 1, 1),
    (128, 32, 16, 64, 3, 1, 1),
    (32, 64, 56, 128, 3, 2, 1),
    (32, 3, 64, 64, 7, 2, 3),
)
LARGE_KERNELS = {"padded convolution": (8, 32, 30, 32, 7, 1, 3), "unpadded convolution": (8, 32, 30, 32, 7, 1, 0)}
TRANSPOSED = (((16, 64, 28, 32, 4, 2, 1), 1.3), ((16, 64, 28, 32, 2, 2, 0), 1.0))  # and the target
DEPTHWISE = ((32, 128, 28, 128, 3, 1, 1), 1.5), ((40, 209, 7, 209, 3, 2, 1), 1.0)  # and the target
GROUPED = ((24, 64, 9, 64, 3, 1, 1), (16, 128, 14, 128, 3, 1, 1))  # in 32 groups
LINES = ((32, 64, (1, 256), 64, (1, 3), 1, (0, 1)), (32, 64, (256, 1), 64, (3, 1), 1, (1, 0)))
PRODUCTS = ((32, 6, (9, 61), 1000, (9, 61), 1, 0), (256, 512, 1, 512, 1, 1, 0))

MEAN_TARGET = 1.5
GROUP = "convolution"
PRODUCT = "convolution as product"


def cases() -> list[Case]:
    plain = [_case(GROUP, *shape, target=0.95) for shape in SHAPES]
    return [
        *plain,
        *(_case(group, *shape, target=1.0) for group, shape in LARGE_KERNELS.items()),
        *(_case("transposed convolution", *shape, target=target, transposed=True) for shape, target in TRANSPOSED),
        *(_case("depthwise convolution", *shape, target=target, groups=shape[1]) for shape, target in DEPTHWISE),
        *(_case("convolution in 32 groups", *shape, target=1.0, groups=32) for shape in GROUPED),
        *(_case("convolution of a line", *shape, target=1.0) for shape in LINES),
        *(_case(PRODUCT, *shape, target=1.0) for shape in PRODUCTS),
    ]


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


def _case(
    group: str, n: int, c: int, size: int | tuple[int, int], k: int, kernel: int | tuple[int, int], stride: int,
    padding: int | tuple[int, int], *, target: float, groups: int = 1, transposed: bool = False,
) -> Case:  # fmt: skip
    image, taps, pad = _pair(size), _pair(kernel), _pair(padding)
    out = tuple(
        (i - 1) * stride + t - 2 * p if transposed else (i + 2 * p - t) // stride + 1
        for i, t, p in zip(image, taps, pad, strict=True)
    )
    w = (c, k, *taps) if transposed else (k, c // groups, *taps)

    def peer(torch: ModuleType) -> Any:
        functional = torch.nn.functional
        if transposed:
            return partial(functional.conv_transpose2d, stride=stride, padding=pad)
        return partial(functional.conv2d, stride=stride, padding=pad, groups=groups)

    positions = math.prod(image if transposed else out)
    return Case(
        name=f"{group}/{n}x{c}x{image[0]}x{image[1]} -> {k}, {taps[0]}x{taps[1]}"
        + (f" stride {stride}" if stride > 1 else ""),
        shapes={"x": (n, c, *image), "w": w, "b": (k,), "y": (n, k, *out)},
        calls=partial(_calls, stride=stride, pad=pad, groups=groups, transposed=transposed),
        peer=peer,
        flops=3 * 2.0 * n * positions * c * k * math.prod(taps) / groups,
        target=target,
        layouts=("contiguous", "channels last"),
    )


def _calls(a: Arrays, *, stride: int, pad: tuple[int, int], groups: int, transposed: bool) -> Calls:
    n, outputs = a["x"].shape[0], a["y"].shape[1]
    straight, adjoint = capi.BNNSDataLayoutConvolutionWeightsOIHW, capi.BNNSDataLayoutConvolutionWeightsIOHrWr

    def image(name: str) -> capi.BNNSNDArrayDescriptor:
        return describe(capi.BNNSDataLayoutImageCHW, a[name].shape[:0:-1], a[name])

    def kernel(name: str) -> capi.BNNSNDArrayDescriptor:
        return describe(adjoint if transposed else straight, a[name].shape[::-1], a[name])

    layer = capi.BNNSLayerParametersConvolution(
        i_desc=image("x"), w_desc=kernel("w"), o_desc=image("y"), bias=vector(outputs, a["b"]),
        x_stride=stride, y_stride=stride, x_padding=pad[1], y_padding=pad[0], groups=groups,
    )  # fmt: skip
    create = capi.BNNSFilterCreateLayerTransposedConvolution if transposed else capi.BNNSFilterCreateLayerConvolution
    f = created(create(layer, training_parameters()))
    return Calls(
        f,
        partial(capi.BNNSFilterApplyBatch, f, n, a["x"], 0, a["y"], 0),
        partial(
            capi.BNNSFilterApplyBackwardBatch, f, n, a["x"], 0, image("dx"), 0, a["y"], 0, image("dy"), 0, kernel("dw"),
            vector(outputs, a["db"]),
        ),
    )  # fmt: skip


# Convolutions that are products against the fully connected layers that they are.


def figures() -> dict[str, Callable[[Settings], Figure]]:
    products = [_case(PRODUCT, *shape, target=1.0) for shape in PRODUCTS]
    return {
        name: partial(_against_layer, name, case)
        for case in products
        for name in [f"{case.name}, of the fully connected"]
    }


def _against_layer(name: str, case: Case, settings: Settings) -> Figure:
    """Seconds of the fully connected layer / ours, forward and backward."""
    n, inputs, outputs = case.shapes["x"][0], math.prod(case.shapes["x"][1:]), case.shapes["y"][1]
    layer = fully_connected.case(n, inputs, outputs)
    steps = [sampler(our_step(c.calls(c.arrays()))) for c in (case, layer)]
    (ours, theirs), disturbed = alternate(steps, settings.seconds)
    ratio = statistics.median(t / o for o, t in zip(ours, theirs, strict=True))
    note = f"ours {statistics.median(ours) * 1e3:.2f} ms, fully connected {statistics.median(theirs) * 1e3:.2f} ms"
    if disturbed > QUIET:
        note += f", others took {disturbed:.0%} of the machine"
    return Figure(name, ratio, "x", 0.9 if settings.judged and disturbed <= QUIET else None, note=note)
