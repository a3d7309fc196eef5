"""Transposed convolutions: kernel shapes, strides, dilation, padding, layouts, memory, fused activations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from helpers import IOHRWR, OIHRWR, OIHW, PACK32

from ._base import INFERENCE_ONLY, TRAINABLE, Act
from .convolution import ConvolutionCase, described


def reached(size: int, before: int, after: int, kernel: int, step: int, dilation: int) -> int:
    """How many elements the windows of ``size`` positions cover."""
    return step * (size - 1) + dilation * (kernel - 1) + 1 - before - after


@dataclass(frozen=True)
class TransposedConvolutionCase(ConvolutionCase):
    """The adjoint of a convolution: from the small image to the large one."""

    prefix = "tconv"
    creator = "BNNSFilterCreateLayerTransposedConvolution"
    usual_layout = IOHRWR
    reach = staticmethod(reached)

    @property
    def reductions(self) -> dict[str, int]:
        taps, small = self.kernel[0] * self.kernel[1], self.batch * self.x.size[0] * self.x.size[1]
        large = self.batch * self.y.size[0] * self.y.size[1]
        return {"y": self.x.size[2] * taps + 1, "dx": self.y.size[2] * taps, "dw": small, "db": large}


case = partial(described, TransposedConvolutionCase)

SHAPES = [
    case("1x1", 7, 5, (4, 5), (1, 1), batch=2),
    case("2x2-strided", 16, 8, (7, 7), (2, 2), step=(2, 2), batch=5),
    case("2x2-strided-wide", 64, 32, (8, 8), (2, 2), step=(2, 2), batch=2),
    case("3x3", 3, 4, (5, 6), (3, 3), batch=2),
    case("3x3-16", 16, 32, (9, 9), (3, 3), symmetric=(1, 1), batch=5),
    case("3x3-tiles", 33, 26, (11, 14), (3, 3), symmetric=(1, 1), batch=3),
    case("3x3-strided", 5, 7, (5, 6), (3, 3), step=(2, 2), symmetric=(1, 1), batch=2),
    case("3x3-strided-more", 17, 16, (7, 5), (3, 3), step=(2, 2), symmetric=(1, 1), more=(1, 1), batch=5),
    case("4x4-strided", 32, 16, (8, 8), (4, 4), step=(2, 2), symmetric=(1, 1), batch=5, client_pointer=False),
    case("5x3-strided-unevenly", 7, 3, (4, 5), (5, 3), step=(3, 2), batch=2, bias=False),
    case("2x2-stride-over-kernel", 5, 6, (4, 3), (2, 2), step=(3, 4), batch=2),
    case("from-one-pixel", 33, 17, (1, 1), (4, 4), batch=33),
    case("from-one-pixel-Tanh", 40, 6, (1, 1), (3, 5), batch=9, gap=4, activation=Act("Tanh"), client_pointer=False),
    case("from-one-pixel-Softmax", 7, 5, (1, 1), (3, 4), batch=5, activation=Act("Softmax")),
    case("one-column", 18, 9, (17, 1), (3, 1), step=(2, 1), batch=3),
    case("one-row-of-kernels", 9, 5, (1, 12), (4, 3), batch=3),
    case("dilated", 6, 5, (6, 5), (3, 3), dilation=(2, 3), batch=2),
    case("dilated-strided", 16, 18, (5, 5), (3, 3), dilation=(2, 2), step=(2, 1), symmetric=(2, 1), batch=2),
    case("asymmetric", 5, 4, (6, 5), (3, 3), pad=(1, 0, 0, 2), batch=2),
    case("asymmetric-strided", 16, 16, (6, 5), (4, 3), pad=(0, 1, 2, 1), step=(2, 2), batch=2),
    case("one-channel", 1, 1, (13, 17), (3, 3), batch=2),
    case("4x4-tiles", 33, 32, (10, 9), (4, 4), step=(2, 2), symmetric=(1, 1), batch=9),
    case("4x4-tiles-more", 48, 17, (14, 16), (4, 4), step=(2, 2), symmetric=(2, 1), more=(1, 1), batch=5, gap=7),
    case("4x4-tiles-asymmetric", 35, 30, (9, 15), (4, 4), step=(2, 2), pad=(3, 0, 1, 2), batch=8, bias=False),
    case("5x5-tiles", 34, 33, (9, 11), (5, 5), step=(2, 2), symmetric=(2, 2), more=(1, 1), batch=10),
    case("6x6-tiles", 20, 44, (10, 10), (6, 6), step=(2, 2), symmetric=(2, 2), batch=9),
]

LAYOUTS = [
    case(f"{name}-{outputs}", 5, outputs, (5, 6), (3, 2), layout=layout, batch=2, step=(2, 1), client_pointer=client)
    for name, layout in [("OIHW", OIHW), ("OIHrWr", OIHRWR), ("IOHrWr", IOHRWR), ("Pack32", PACK32)]
    for outputs, client in [(7, True), (45, False)]
] + [case("padded-kernel", 4, 5, (6, 7), (3, 2), batch=2, kernel_options={"stride": (1, 3, 10, 60)})]

MEMORY = [
    case("gaps", 5, 7, (5, 6), (3, 3), batch=5, gap=3),
    case("gaps-16", 16, 17, (6, 6), (2, 2), step=(2, 2), batch=5, gap=9, activation=Act("Tanh")),
    case("gaps-4x4-tiles", 32, 34, (11, 14), (4, 4), step=(2, 2), batch=7, gap=3, activation=Act("Tanh")),
    case("gaps-6x6-tiles", 20, 44, (10, 10), (6, 6), step=(2, 2), symmetric=(2, 2), batch=9, gap=2, activation=Act("Softmax")),
    case("padded-images", 3, 4, (5, 6), (3, 3), batch=2, in_options={"stride": (1, 8, 50)},
         out_options={"stride": (2, 20, 160)}, gap=3),
    case("padded-images-packed-deltas", 3, 4, (5, 6), (3, 3), batch=2, in_options={"stride": (1, 8, 50)},
         out_options={"stride": (1, 10, 80)}, packed_deltas=True, activation=Act("Tanh")),
]  # fmt: skip

FUSED = [
    case(f"fused-{act.name}", 4, 5, (5, 6), (3, 3), step=(2, 2), batch=2, activation=act, bias=k % 4 != 1)
    for k, act in enumerate(TRAINABLE)
] + [
    case(f"inference-{act.name}", 4, 5, (5, 6), (3, 3), batch=2, activation=act, trains=False)
    for act in INFERENCE_ONLY[::3]
]

CASES = SHAPES + LAYOUTS + MEMORY + FUSED
