"""Convolutions: kernels, strides, dilation, padding, groups, depthwise, layouts, types, every fused activation."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from helpers import BFLOAT16, FLOAT16, INT8, IOHRWR, OIHRWR, OIHW, PACK32, Tensor, image, vector
from openbnns import capi

from ._base import INFERENCE_ONLY, TRAINABLE, Act, UnaryCase, act_rows

Pair = tuple[int, int]


def positions(size: int, before: int, after: int, kernel: int, step: int, dilation: int) -> int:
    """How many windows fit."""
    return (size + before + after - dilation * (kernel - 1) - 1) // step + 1


@dataclass(frozen=True)
class ConvolutionCase(UnaryCase):
    """y = f(conv(x, w) + b); pairs are (vertical, horizontal), ``pad`` is (left, right, up, down)."""

    x: Tensor = field(default_factory=lambda: image(1, 1, 1))
    kernel: Pair = (1, 1)
    step: Pair = (1, 1)
    dilation: Pair = (1, 1)
    symmetric: Pair = (0, 0)  # y_padding, x_padding
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1

    prefix = "conv"
    creator = "BNNSFilterCreateLayerConvolution"
    usual_layout = OIHW
    reach = staticmethod(positions)

    @property
    def reductions(self) -> dict[str, int]:
        taps = self.kernel[0] * self.kernel[1]
        pixels = self.batch * self.y.size[0] * self.y.size[1]
        channels = (self.x.size[2] // self.groups, self.y.size[2] // self.groups)
        return {"y": channels[0] * taps + 1, "dx": channels[1] * taps, "dw": pixels, "db": pixels}

    @property
    def _feature_rows(self) -> tuple[str, ...]:
        assert self.w is not None
        layout = self.w.layout.name.removeprefix("BNNSDataLayoutConvolutionWeights")
        features = {
            "stride": self.step != (1, 1),
            "dilation": self.dilation != (1, 1),
            "sympad": self.symmetric != (0, 0),
            "asympad": self.pad != (0, 0, 0, 0),
            "groups": self.groups > 1,
        }
        return (
            f"{self.prefix}.w.{layout}",
            *(f"{self.prefix}.{name}" for name, used in features.items() if used),
            *self.rows,
        )

    @property
    def forward_rows(self) -> tuple[str, ...]:
        fused = () if self.trains else act_rows(self.activation, "fwd")
        return (f"{self.prefix}.fwd", f"fn.{self.creator}", *fused, *self._feature_rows)

    @property
    def backward_rows(self) -> tuple[str, ...]:
        p = self.prefix
        fused = (f"{p}.bwd.act", *act_rows(self.activation, "fused")) if not self.activation.is_identity else ()
        bias = (f"{p}.bwd.db",) if self.b else ()
        return (f"{p}.bwd.dx", f"{p}.bwd.dw", *bias, *fused, *self._feature_rows)

    def parameters(self, w: Any, b: Any) -> capi.BNNSLayerParametersConvolution:
        assert self.w is not None
        return capi.BNNSLayerParametersConvolution(
            i_desc=self.x.descriptor(), w_desc=self.w.descriptor(w), o_desc=self.y.descriptor(),
            bias=self.b.descriptor(b) if self.b else capi.BNNSNDArrayDescriptor(), activation=self.activation.struct,
            x_stride=self.step[1], y_stride=self.step[0], x_dilation_stride=self.dilation[1],
            y_dilation_stride=self.dilation[0], x_padding=self.symmetric[1], y_padding=self.symmetric[0],
            groups=self.groups, pad=self.pad,
        )  # fmt: skip

    def create(self, w: Any, b: Any, threads: int) -> Any:
        return getattr(capi, self.creator)(self.parameters(w, b), self.filter_parameters(threads))


C = TypeVar("C", bound=ConvolutionCase)


def kernel_tensor(layout: Any, outputs: int, inputs: int, kernel: Pair, **options: Any) -> Tensor:
    """A kernel in the order of its layout's size[]."""
    channels = (outputs, inputs) if layout == IOHRWR else (inputs, outputs)
    return Tensor(layout, (kernel[1], kernel[0], *channels), **options)


def described(
    kind: type[C],
    name: str,
    inputs: int,
    outputs: int,
    size: Pair,
    kernel: Pair,
    *,
    layout: Any = None,
    bias: bool = True,
    in_options: dict[str, Any] | None = None,
    out_options: dict[str, Any] | None = None,
    kernel_options: dict[str, Any] | None = None,
    more: Pair = (0, 0),
    **options: Any,
) -> C:
    """From an image of ``size`` (height, width) to the one that the windows give, with ``more`` rows and columns."""
    step, dilation = options.get("step", (1, 1)), options.get("dilation", (1, 1))
    if "symmetric" in options:
        up = down = options["symmetric"][0]
        left = right = options["symmetric"][1]
    else:
        left, right, up, down = options.get("pad", (0, 0, 0, 0))
    height = kind.reach(size[0], up, down, kernel[0], step[0], dilation[0]) + more[0]
    width = kind.reach(size[1], left, right, kernel[1], step[1], dilation[1]) + more[1]
    options.setdefault("b", vector(outputs) if bias else None)
    per_group = inputs // options.get("groups", 1)
    return kind(
        f"{kind.prefix}-{name}",
        x=image(inputs, *size, **(in_options or {})),
        y=image(outputs, height, width, **(out_options or {})),
        w=kernel_tensor(layout or kind.usual_layout, outputs, per_group, kernel, **(kernel_options or {})),
        kernel=kernel,
        **options,
    )


case = partial(described, ConvolutionCase)

SHAPES = [
    case("1x1-pixel", 1, 1, (1, 1), (1, 1)),
    case("1x1", 7, 13, (5, 7), (1, 1), batch=2),
    case("1x1-wide", 64, 48, (14, 14), (1, 1), batch=5),
    case("1x1-strided", 17, 16, (13, 9), (1, 1), step=(2, 2), batch=2),
    case("1x1-padded", 7, 5, (4, 4), (1, 1), symmetric=(1, 1), batch=2),
    case("3x3", 3, 5, (7, 9), (3, 3), batch=2),
    case("3x3-few-inputs", 3, 32, (17, 19), (3, 3), symmetric=(1, 1), batch=5),
    case("3x3-few-outputs", 33, 2, (13, 13), (3, 3), symmetric=(1, 1), batch=2),
    case("3x3-one-channel", 1, 1, (28, 28), (3, 3), symmetric=(1, 1), batch=2, bias=False),
    case("3x3-16", 16, 16, (14, 14), (3, 3), symmetric=(1, 1), batch=5),
    case("3x3-odd-channels", 17, 35, (13, 17), (3, 3), symmetric=(1, 1), batch=2, client_pointer=False),
    case("3x3-64", 64, 64, (20, 20), (3, 3), symmetric=(1, 1), batch=3),
    case("3x3-tiny-image", 48, 33, (3, 3), (3, 3), batch=33),
    case("3x3-wide-row", 2, 7, (3, 113), (3, 3), symmetric=(1, 1)),
    case("3x3-tall", 20, 24, (113, 2), (3, 1), symmetric=(1, 0), batch=2),
    case("5x5", 6, 16, (12, 12), (5, 5), batch=5),
    case("5x5-first-layer", 1, 8, (28, 28), (5, 5), symmetric=(2, 2), batch=33),
    case("7x7-strided", 3, 18, (23, 25), (7, 7), step=(2, 2), symmetric=(3, 3), batch=2),
    case("7x7-unpadded", 18, 35, (16, 30), (7, 7), batch=2),
    case("7x7-padded", 17, 50, (9, 31), (7, 7), symmetric=(3, 3), batch=3, gap=3),
    case("9x9-strided", 20, 18, (25, 41), (9, 9), step=(2, 2), symmetric=(4, 4), batch=2),
    case("1x7", 5, 4, (3, 17), (1, 7), batch=2),
    case("7x1", 5, 4, (17, 3), (7, 1), batch=2),
    case("whole-image", 13, 17, (5, 6), (5, 6), batch=33),
    case("2x2-strided", 16, 32, (8, 8), (2, 2), step=(2, 2), batch=5),
    case("3x3-strided", 32, 33, (15, 15), (3, 3), step=(2, 2), symmetric=(1, 1), batch=5),
    case("3x2-strided-unevenly", 7, 13, (17, 13), (3, 2), step=(3, 1), batch=2),
    case("3x3-stride-over-kernel", 5, 6, (13, 17), (3, 3), step=(4, 5), batch=2),
    case("remainder", 4, 5, (8, 10), (3, 3), step=(2, 3), batch=2),
    case("smaller-output", 16, 17, (9, 9), (3, 3), more=(-2, -3), batch=2, symmetric=(1, 1)),
]

# One channel and one row, kernels of 64 columns and more, at least 16 outputs and 16 windows.
LONG_WINDOWS = [
    case("windows", 1, 18, (1, 400), (1, 70), step=(1, 9), batch=3, gap=3),
    case("windows-padded", 1, 34, (1, 333), (1, 64), step=(1, 10), pad=(20, 31, 0, 0), batch=2, activation=Act("Tanh")),
    case("windows-beyond-the-row", 1, 16, (1, 30), (1, 97), symmetric=(0, 50), bias=False),
    case("windows-less", 1, 21, (1, 500), (1, 65), step=(1, 3), pad=(7, 0, 0, 0), more=(0, -5), batch=2),
    case("windows-one-column", 1, 40, (700, 1), (80, 1), step=(13, 1), symmetric=(9, 0), batch=2),
    case("windows-Softmax", 1, 17, (1, 900), (1, 128), step=(1, 40), batch=2, activation=Act("Softmax")),
]

# Step 1, at least 16 channels on both sides and 48 together for 3 x 3, or 12 and 40 for 5 x 5 (less for the gradient of the
# weights): tiles of 2 x 4 or 2 x 2 outputs (Winograd), from 256 outputs a call on. Kernels of 4 x 4 to 6 x 6 with step 2 and
# 16 channels on both sides, 48 together (weights: 64), from 768 outputs on.
TILES = [
    case("tiles-even", 32, 32, (16, 16), (3, 3), symmetric=(1, 1), batch=2),
    case("tiles-odd", 33, 47, (13, 15), (3, 3), symmetric=(1, 1), batch=3, gap=5),
    case("tiles-unpadded", 24, 40, (9, 19), (3, 3), batch=5, bias=False),
    case("tiles-full-padding", 40, 25, (7, 8), (3, 3), symmetric=(2, 2), batch=7),
    case("tiles-asymmetric", 31, 26, (12, 9), (3, 3), pad=(0, 2, 2, 1), batch=4),
    case("tiles-few", 32, 32, (7, 7), (3, 3), symmetric=(1, 1), batch=3),
    case("tiles-long-line", 25, 24, (6, 150), (3, 3), symmetric=(1, 1), batch=1),
    case("tiles-many-channels", 130, 120, (8, 8), (3, 3), symmetric=(1, 1), batch=5),
    case("tiles-less", 32, 33, (14, 14), (3, 3), symmetric=(1, 1), more=(-1, -3), batch=2),
    case("tiles-Tanh", 32, 32, (11, 10), (3, 3), symmetric=(1, 1), batch=3, gap=3, activation=Act("Tanh")),
    case("tiles5-even", 32, 32, (14, 14), (5, 5), symmetric=(2, 2), batch=3),
    case("tiles5-odd", 29, 38, (13, 11), (5, 5), symmetric=(2, 2), batch=3, gap=5),
    case("tiles5-unpadded", 12, 52, (10, 19), (5, 5), batch=5, bias=False),
    case("tiles5-full-padding", 51, 14, (7, 8), (5, 5), symmetric=(4, 4), batch=7),
    case("tiles5-asymmetric", 31, 33, (12, 9), (5, 5), pad=(0, 4, 3, 1), batch=4),
    case("tiles5-long-line", 20, 44, (6, 280), (5, 5), symmetric=(2, 2), batch=1),
    case("tiles5-many-channels", 70, 60, (8, 8), (5, 5), symmetric=(2, 2), batch=5),
    case("tiles5-less", 32, 33, (14, 14), (5, 5), symmetric=(2, 2), more=(-1, -3), batch=2),
    case("tiles5-few-channels", 16, 32, (14, 14), (5, 5), symmetric=(2, 2), batch=4),
    case("tiles5-several-samples", 17, 35, (6, 7), (5, 5), symmetric=(2, 2), batch=17, gap=2),
    case("tiles5-parts-of-a-sample", 40, 20, (33, 29), (5, 5), symmetric=(2, 2), batch=2),
    case("tiles-few-channels", 16, 33, (14, 14), (3, 3), symmetric=(1, 1), batch=4),
    case("tiles-few-channels-for-weights", 16, 17, (9, 12), (3, 3), symmetric=(1, 1), batch=6),
    case("tiles-several-samples", 27, 37, (6, 6), (3, 3), symmetric=(1, 1), batch=19),
    case("tiles-parts-of-a-line", 30, 24, (9, 70), (3, 3), batch=2, activation=Act("Tanh")),
    case("tiles5-Tanh", 32, 32, (11, 10), (5, 5), symmetric=(2, 2), batch=3, gap=3, activation=Act("Tanh")),
    case("tiles-Softmax", 24, 32, (10, 13), (3, 3), symmetric=(1, 1), batch=2, activation=Act("Softmax")),
    case("tiles-step-two", 32, 32, (18, 18), (4, 4), step=(2, 2), symmetric=(1, 1), batch=10),
    case("tiles-step-two-odd", 31, 34, (19, 23), (4, 4), step=(2, 2), symmetric=(1, 1), batch=9, gap=5),
    case("tiles-step-two-unpadded", 40, 25, (28, 29), (4, 4), step=(2, 2), batch=6, bias=False),
    case("tiles-step-two-full-padding", 33, 47, (17, 18), (4, 4), step=(2, 2), symmetric=(3, 3), batch=10),
    case("tiles-step-two-asymmetric", 17, 49, (22, 25), (4, 4), step=(2, 2), pad=(2, 1, 3, 0), batch=8),
    case("tiles-step-two-long-line", 24, 40, (18, 400), (4, 4), step=(2, 2), symmetric=(1, 1), batch=1),
    case("tiles-step-two-less", 32, 33, (36, 36), (4, 4), step=(2, 2), symmetric=(1, 1), more=(-1, -3), batch=3),
    case("tiles-step-two-for-images", 16, 32, (34, 34), (4, 4), step=(2, 2), symmetric=(1, 1), batch=3),
    case("tiles-step-two-many-channels", 80, 70, (18, 18), (4, 4), step=(2, 2), symmetric=(1, 1), batch=12),
    case(
        "tiles-step-two-Tanh", 33, 33, (21, 19), (4, 4), step=(2, 2), pad=(1, 2, 0, 3), batch=9, activation=Act("Tanh")
    ),
    case("tiles-step-two-Softmax", 40, 24, (30, 34), (4, 4), step=(2, 2), batch=4, activation=Act("Softmax")),
    case("tiles-step-two-5x5", 34, 31, (19, 20), (5, 5), step=(2, 2), symmetric=(2, 2), batch=9, gap=3),
    case("tiles-step-two-5x5-unpadded", 16, 60, (23, 22), (5, 5), step=(2, 2), batch=9, bias=False),
    case("tiles-step-two-5x5-asymmetric", 44, 20, (18, 21), (5, 5), step=(2, 2), pad=(4, 1, 3, 2), batch=9),
    case(
        "tiles-step-two-5x5-Tanh",
        32,
        32,
        (17, 40),
        (5, 5),
        step=(2, 2),
        symmetric=(1, 2),
        batch=6,
        activation=Act("Tanh"),
    ),
    case("tiles-step-two-6x6", 32, 35, (20, 24), (6, 6), step=(2, 2), symmetric=(2, 2), batch=8),
    case("tiles-step-two-6x6-padded", 39, 25, (16, 21), (6, 6), step=(2, 2), symmetric=(5, 4), batch=8, gap=2),
]

# Those that are matrix products, or that become another convolution on the same memory: kernels that cover the image or
# all of its rows, and images one pixel wide.
PRODUCTS = [
    case("whole-image-many", 33, 40, (6, 7), (6, 7), batch=19, gap=5, activation=Act("Tanh"), client_pointer=False),
    case("whole-image-groups", 12, 20, (3, 5), (3, 5), groups=4, batch=9, gap=3),
    case("whole-image-dilated", 5, 18, (5, 5), (3, 3), dilation=(2, 2), batch=9),
    case("whole-image-strided", 20, 33, (4, 4), (4, 4), step=(3, 2), batch=40, bias=False),
    case("1x1-on-1x1", 40, 50, (1, 1), (1, 1), batch=20, activation=Act("Sigmoid"), client_pointer=False),
    case("1x1-on-1x1-dilated", 40, 9, (1, 1), (1, 1), dilation=(3, 2), batch=10),
    case("all-rows", 5, 18, (6, 31), (6, 3), batch=3, gap=2, activation=Act("Tanh")),
    case("all-rows-strided", 7, 20, (3, 40), (3, 5), step=(2, 3), pad=(2, 1, 0, 0), batch=2),
    case("all-rows-groups", 8, 12, (4, 21), (4, 3), groups=2, batch=3),
    case("all-rows-Softmax", 6, 7, (3, 9), (3, 2), batch=3, activation=Act("Softmax"), client_pointer=False),
    case("one-column", 18, 24, (37, 1), (3, 1), symmetric=(1, 0), batch=3, gap=4, activation=Act("Tanh")),
    case("one-column-strided", 5, 9, (41, 1), (4, 1), step=(3, 1), dilation=(2, 1), pad=(0, 0, 2, 1), batch=2),
    case("one-column-groups", 8, 8, (19, 1), (3, 1), groups=4, batch=2, bias=False),
    case("one-column-1x1", 21, 34, (140, 1), (1, 1), batch=2),
    case("one-column-padded", 6, 18, (13, 1), (3, 1), pad=(1, 1, 0, 0), batch=2),
]

WINDOWS = [
    case("dilated", 5, 7, (13, 17), (3, 3), dilation=(2, 2), batch=2),
    case("dilated-past-tiles", 16, 34, (7, 29), (3, 3), dilation=(1, 9), pad=(13, 6, 1, 1), batch=2),
    case("dilated-16", 16, 32, (17, 15), (3, 3), dilation=(2, 2), symmetric=(2, 2), batch=5),
    case("dilated-unevenly", 17, 16, (19, 13), (3, 2), dilation=(3, 4), batch=2),
    case("dilated-strided", 6, 9, (17, 17), (3, 3), dilation=(2, 3), step=(2, 2), symmetric=(2, 3), batch=2),
    case("asymmetric", 3, 4, (7, 5), (3, 3), pad=(1, 0, 2, 0), batch=2),
    case("asymmetric-16", 16, 17, (9, 13), (3, 3), pad=(0, 2, 1, 0), batch=5),
    case("asymmetric-same", 5, 33, (7, 7), (2, 2), pad=(0, 1, 0, 1), batch=2),
    case("asymmetric-strided-dilated", 5, 6, (13, 11), (3, 3), pad=(3, 1, 0, 2), step=(2, 1), dilation=(1, 2), batch=2),
    case("large-padding", 3, 5, (4, 5), (3, 3), symmetric=(4, 5), batch=2),
    case("large-padding-16", 18, 16, (3, 4), (3, 3), pad=(6, 3, 5, 7), batch=2),
    case("padding-larger-than-image", 16, 16, (2, 2), (5, 5), symmetric=(4, 4), batch=5),
    case("padding-strided", 7, 8, (5, 5), (3, 3), symmetric=(3, 3), step=(2, 2), batch=2),
]

GROUPS = [
    case("groups-2", 8, 12, (9, 9), (3, 3), groups=2, symmetric=(1, 1), batch=2),
    case("groups-4-strided", 16, 8, (13, 11), (3, 3), groups=4, step=(2, 2), pad=(1, 0, 0, 1), batch=5),
    case("groups-2-wide", 64, 64, (14, 14), (3, 3), groups=2, symmetric=(1, 1), batch=2),
    case("groups-3-1x1", 9, 15, (7, 5), (1, 1), groups=3, batch=2, bias=False),
    case("groups-2-dilated", 6, 4, (13, 13), (3, 3), groups=2, dilation=(2, 2), batch=2, client_pointer=False),
    case("groups-of-2", 38, 38, (9, 9), (3, 3), groups=19, symmetric=(1, 1), batch=5),
    case("groups-3-to-5", 27, 45, (7, 10), (3, 3), groups=9, pad=(1, 0, 2, 1), batch=3, gap=3, activation=Act("Tanh")),
    case("groups-4-strided-lanes", 68, 68, (11, 8), (5, 5), groups=17, step=(2, 2), symmetric=(2, 2), batch=2),
    case(
        "groups-5-to-2-spread", 80, 32, (13, 12), (3, 2), groups=16, step=(1, 3), dilation=(2, 1), batch=2, bias=False
    ),
    case("depthwise-short-strided", 21, 21, (7, 7), (3, 3), groups=21, step=(2, 2), symmetric=(1, 1), batch=3),
    case("depthwise", 13, 13, (17, 13), (3, 3), groups=13, symmetric=(1, 1), batch=2),
    case("depthwise-32", 32, 32, (14, 14), (3, 3), groups=32, symmetric=(1, 1), batch=33),
    case("depthwise-rows-bands", 3, 3, (40, 130), (3, 3), groups=3, symmetric=(1, 1), batch=2, gap=5),
    case("depthwise-rows-multiplied", 5, 10, (11, 33), (3, 3), groups=5, pad=(0, 2, 1, 0), batch=3),
    case("depthwise-rows-spread", 6, 6, (12, 29), (3, 3), groups=6, dilation=(1, 3), pad=(1, 4, 2, 5), batch=2),
    case("depthwise-rows-far-pad", 4, 4, (10, 18), (3, 3), groups=4, pad=(5, 4, 6, 3), batch=2),
    case("depthwise-rows-valid", 17, 17, (9, 19), (3, 3), groups=17, batch=19, activation=Act("Tanh"), bias=False),
    case("depthwise-rows-low", 4, 4, (3, 64), (3, 3), groups=4, batch=4, activation=Act("Softmax")),
    case("depthwise-step-two-bands", 3, 3, (61, 270), (3, 3), groups=3, step=(2, 2), symmetric=(1, 1), batch=2, gap=5),
    case("depthwise-step-two-even", 6, 12, (12, 34), (3, 3), groups=6, step=(2, 2), pad=(0, 1, 0, 1), batch=3),
    case("depthwise-step-two-small", 20, 20, (8, 7), (3, 3), groups=20, step=(2, 2), batch=18, bias=False),
    case("depthwise-step-two-far-pad", 4, 4, (5, 6), (3, 3), groups=4, step=(2, 2), pad=(4, 3, 5, 6), batch=2),
    case("depthwise-step-two-less", 5, 5, (14, 37), (3, 3), groups=5, step=(2, 2), pad=(1, 0, 2, 1), more=(-1, -2)),
    case("depthwise-step-two-Tanh", 9, 9, (11, 13), (3, 3), groups=9, step=(2, 2), batch=2, activation=Act("Tanh")),
    case("depthwise-strided", 7, 7, (15, 17), (3, 3), groups=7, step=(2, 2), symmetric=(1, 1), batch=5),
    case("depthwise-dilated", 5, 5, (17, 19), (3, 3), groups=5, dilation=(2, 3), pad=(1, 3, 0, 2), batch=2),
    case("depthwise-5x5", 3, 3, (13, 14), (5, 5), groups=3, symmetric=(2, 2), batch=2),
    case("depthwise-1x1", 6, 6, (5, 5), (1, 1), groups=6, batch=2),
    case("depthwise-lanes-7x7", 40, 40, (7, 7), (3, 3), groups=40, symmetric=(1, 1), batch=6, gap=3),
    case("depthwise-lanes-5x5", 19, 19, (9, 7), (5, 5), groups=19, pad=(0, 2, 4, 1), batch=3, activation=Act("Tanh")),
    case("depthwise-lanes-wide-7x7", 18, 18, (23, 29), (7, 7), groups=18, symmetric=(3, 3), batch=3, gap=3),
    case("depthwise-lanes-wide-5x5", 16, 16, (12, 21), (5, 5), groups=16, pad=(1, 0, 2, 4), batch=2, bias=False),
    case("depthwise-lanes-3x7", 9, 9, (11, 15), (3, 7), groups=9, dilation=(2, 1), symmetric=(2, 3), batch=5),
    case("depthwise-strided-7x7", 9, 9, (31, 33), (7, 7), groups=9, step=(2, 2), symmetric=(3, 3), batch=2),
    case("depthwise-lanes-dilated", 16, 16, (9, 8), (3, 2), groups=16, dilation=(2, 3), symmetric=(2, 1), batch=2),
    case("depthwise-lanes-Softmax", 10, 10, (6, 7), (3, 3), groups=10, batch=2, activation=Act("Softmax")),
    case("multiplier-2", 6, 12, (11, 13), (3, 3), groups=6, symmetric=(1, 1), batch=2),
    case("multiplier-3-strided", 4, 12, (9, 9), (3, 3), groups=4, step=(2, 1), batch=5),
    case(
        "depthwise-fused", 8, 8, (9, 9), (3, 3), groups=8, symmetric=(1, 1), batch=2, activation=Act("RectifiedLinear")
    ),
    case("depthwise-softmax", 4, 4, (7, 9), (3, 3), groups=4, batch=2, activation=Act("Softmax")),
    case("groups-fused", 8, 4, (9, 9), (3, 3), groups=2, symmetric=(1, 1), batch=2, activation=Act("Tanh")),
]

LAYOUTS = [
    case(
        f"{name}-{outputs}", 5, outputs, (7, 8), (3, 2), layout=layout, batch=2, client_pointer=client, symmetric=(1, 1)
    )
    for name, layout in [("OIHrWr", OIHRWR), ("IOHrWr", IOHRWR), ("Pack32", PACK32)]
    for outputs, client in [(7, True), (32, False), (45, True)]
] + [
    case("padded-kernel", 4, 5, (6, 7), (3, 2), batch=2, kernel_options={"stride": (1, 3, 10, 44)}),
    case(
        "padded-kernel-copied",
        4,
        5,
        (6, 7),
        (3, 2),
        batch=2,
        kernel_options={"stride": (2, 5, 20, 80)},
        client_pointer=False,
    ),
    case(
        "padded-rotated-kernel", 4, 5, (6, 7), (3, 2), batch=2, layout=OIHRWR, kernel_options={"stride": (1, 3, 10, 44)}
    ),
]

MEMORY = [
    case("gaps", 5, 7, (7, 9), (3, 3), batch=5, gap=3),
    case("gaps-16", 16, 32, (9, 9), (3, 3), batch=5, gap=13, symmetric=(1, 1), activation=Act("Tanh")),
    case("gaps-1x1", 16, 17, (6, 6), (1, 1), batch=5, gap=5),
    case("gaps-depthwise", 5, 5, (9, 9), (3, 3), batch=5, gap=7, groups=5, activation=Act("Sigmoid")),
    case(
        "padded-images",
        3,
        4,
        (5, 6),
        (3, 3),
        batch=2,
        in_options={"stride": (1, 8, 50)},
        out_options={"stride": (2, 9, 40)},
        gap=3,
    ),
    case(
        "padded-images-packed-deltas",
        3,
        4,
        (5, 6),
        (3, 3),
        batch=2,
        in_options={"stride": (1, 8, 50)},
        out_options={"stride": (1, 9, 40)},
        packed_deltas=True,
        activation=Act("Tanh"),
    ),
    case("padded-bias", 3, 4, (5, 6), (3, 3), b=vector(4, stride=(3,))),
]

_HALF, _BFLOAT = {"data_type": FLOAT16}, {"data_type": BFLOAT16}
TYPES = [
    case(
        "half",
        5,
        7,
        (7, 8),
        (3, 3),
        batch=2,
        in_options=_HALF,
        out_options=_HALF,
        kernel_options=_HALF,
        b=vector(7, data_type=FLOAT16),
        trains=False,
    ),
    case(
        "bfloat",
        16,
        17,
        (7, 8),
        (3, 3),
        batch=2,
        in_options=_BFLOAT,
        out_options=_BFLOAT,
        kernel_options=_BFLOAT,
        client_pointer=False,
        trains=False,
    ),
    case(
        "int8",
        5,
        7,
        (7, 8),
        (3, 3),
        batch=2,
        in_options={"data_type": INT8, "scale": 0.03, "bias": 0.1},
        out_options={"data_type": INT8, "scale": 0.05, "bias": -0.2},
        kernel_options={"data_type": INT8, "scale": 0.01},
        trains=False,
        gap=2,
    ),
    case(
        "half-Pack32",
        3,
        40,
        (5, 5),
        (3, 3),
        batch=2,
        in_options=_HALF,
        kernel_options=_HALF,
        layout=PACK32,
        trains=False,
    ),
]

FUSED = [
    case(
        f"fused-{act.name}",
        4,
        17 if k % 2 else 5,
        (8, 9),
        (3, 3),
        symmetric=(1, 1),
        batch=2,
        activation=act,
        bias=k % 4 != 1,
    )
    for k, act in enumerate(TRAINABLE)
] + [
    case("fused-Threshold-raised", 4, 5, (8, 9), (3, 3), batch=2, activation=Act("Threshold", 0.1, 0.6)),
    case("fused-16-ReLU", 16, 32, (14, 14), (3, 3), symmetric=(1, 1), batch=5, activation=Act("RectifiedLinear")),
    case("fused-16-Softmax", 16, 32, (13, 13), (3, 3), symmetric=(1, 1), batch=5, activation=Act("Softmax")),
    case("fused-1x1-Sigmoid", 32, 16, (10, 10), (1, 1), batch=5, activation=Act("Sigmoid")),
    case("fused-1x1-LogSoftmax", 17, 16, (6, 8), (1, 1), batch=2, activation=Act("LogSoftmax")),
    case("fused-strided-Tanh", 16, 17, (13, 13), (3, 3), step=(2, 2), batch=5, activation=Act("Tanh")),
    *(
        case(f"inference-{act.name}", 4, 5, (8, 9), (3, 3), batch=2, activation=act, trains=False)
        for act in INFERENCE_ONLY
    ),
]

CASES = SHAPES + LONG_WINDOWS + TILES + PRODUCTS + WINDOWS + GROUPS + LAYOUTS + MEMORY + TYPES + FUSED
