"""How fast are convolutions, forward and backward, next to PyTorch's?

The eleven shapes cover deep and shallow images, 1x1 to 7x7 kernels, stride 2, a single small image; their geometric
mean is what counts, and none may be slower than PyTorch. Transposed and depthwise convolutions follow.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

from cases import Arrays, Calls, Case, created, describe, training_parameters, vector
from openbnns import capi

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
TRANSPOSED = (16, 64, 28, 32, 4, 2, 1)
DEPTHWISE = (32, 128, 28, 128, 3, 1, 1)

MEAN_TARGET = 1.5
GROUP = "convolution"


def cases() -> list[Case]:
    plain = [_case(GROUP, *shape, target=0.95) for shape in SHAPES]
    return [
        *plain,
        _case("transposed convolution", *TRANSPOSED, target=1.3, transposed=True),
        _case("depthwise convolution", *DEPTHWISE, target=1.5, groups=DEPTHWISE[1]),
    ]


def _case(
    group: str, n: int, c: int, side: int, k: int, r: int, stride: int, pad: int, *, target: float, groups: int = 1,
    transposed: bool = False,
) -> Case:  # fmt: skip
    out = (side - 1) * stride + r - 2 * pad if transposed else (side + 2 * pad - r) // stride + 1
    w = (c, k, r, r) if transposed else (k, c // groups, r, r)

    def peer(torch: ModuleType) -> Any:
        functional = torch.nn.functional
        if transposed:
            return partial(functional.conv_transpose2d, stride=stride, padding=pad)
        return partial(functional.conv2d, stride=stride, padding=pad, groups=groups)

    positions = side * side if transposed else out * out
    return Case(
        name=f"{group}/{n}x{c}x{side}x{side} -> {k}, {r}x{r}" + (f" stride {stride}" if stride > 1 else ""),
        shapes={"x": (n, c, side, side), "w": w, "b": (k,), "y": (n, k, out, out)},
        calls=partial(_calls, stride=stride, pad=pad, groups=groups, transposed=transposed),
        peer=peer,
        flops=3 * 2.0 * n * positions * c * k * r * r / groups,
        target=target,
        layouts=("contiguous", "channels last"),
    )


def _calls(a: Arrays, *, stride: int, pad: int, groups: int, transposed: bool) -> Calls:
    n, outputs = a["x"].shape[0], a["y"].shape[1]
    straight, adjoint = capi.BNNSDataLayoutConvolutionWeightsOIHW, capi.BNNSDataLayoutConvolutionWeightsIOHrWr

    def image(name: str) -> capi.BNNSNDArrayDescriptor:
        return describe(capi.BNNSDataLayoutImageCHW, a[name].shape[:0:-1], a[name])

    def kernel(name: str) -> capi.BNNSNDArrayDescriptor:
        return describe(adjoint if transposed else straight, a[name].shape[::-1], a[name])

    layer = capi.BNNSLayerParametersConvolution(
        i_desc=image("x"), w_desc=kernel("w"), o_desc=image("y"), bias=vector(outputs, a["b"]),
        x_stride=stride, y_stride=stride, x_padding=pad, y_padding=pad, groups=groups,
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
