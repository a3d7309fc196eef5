"""Does pooling keep up with memory, forward and backward, next to PyTorch in either of its layouts?

Max pooling records indices (UInt32, in one case UInt64) in the forward call and reads them in the backward call, as PyTorch
does with its 64-bit ones; a second case finds the winners again in the input instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from cases import Arrays, Calls, Case, created, describe
from openbnns import capi


@dataclass(frozen=True)
class Shape:
    """One pooling; ``index_bits`` says whether winners are recorded for the way back, and how."""

    name: str
    function: int
    batch: int
    channels: int
    side: int
    kernel: int
    stride: int
    pad: int
    index_bits: int = 0

    @property
    def out(self) -> int:
        return (self.side + 2 * self.pad - self.kernel) // self.stride + 1


MAX, AVERAGE = capi.BNNSPoolingFunctionMax, capi.BNNSPoolingFunctionAverageCountIncludePadding
BOTH = ("contiguous", "channels last")

# PyTorch's layout, least ratio, least share of the copy bandwidth. A layout by itself has its own target.
CASES: tuple[tuple[Shape, tuple[str, ...], float, float | None], ...] = (
    (Shape("max 2x2", MAX, 32, 64, 56, 2, 2, 0), ("contiguous",), 3.0, 0.6),
    (Shape("max 2x2", MAX, 32, 64, 56, 2, 2, 0), ("channels last",), 1.1, None),
    (Shape("max 2x2 with indices", MAX, 32, 64, 56, 2, 2, 0, 32), ("contiguous",), 3.0, None),
    (Shape("max 2x2 with indices", MAX, 32, 64, 56, 2, 2, 0, 32), ("channels last",), 1.1, None),
    (Shape("max 3x3 stride 2", MAX, 32, 64, 56, 3, 2, 1), ("contiguous",), 2.0, None),
    (Shape("max 3x3 stride 2", MAX, 32, 64, 56, 3, 2, 1), ("channels last",), 1.2, None),
    (Shape("max 3x3 stride 2 with indices", MAX, 32, 64, 56, 3, 2, 1, 32), ("contiguous",), 2.0, None),
    (Shape("max 3x3 stride 2 with indices", MAX, 32, 64, 56, 3, 2, 1, 32), ("channels last",), 1.0, None),
    (Shape("max 3x3 stride 2 with 64-bit indices", MAX, 16, 48, 40, 3, 2, 1, 64), BOTH, 1.2, None),
    (Shape("max 3x3 stride 3 with indices", MAX, 8, 64, 48, 3, 3, 0, 32), BOTH, 1.0, None),
    (Shape("average 2x2", AVERAGE, 32, 64, 56, 2, 2, 0), ("contiguous",), 2.0, None),
    (Shape("average 2x2", AVERAGE, 32, 64, 56, 2, 2, 0), ("channels last",), 1.0, None),
    (Shape("average 2x2 stride 1", AVERAGE, 11, 128, 15, 2, 1, 1), BOTH, 1.0, None),
    (Shape("average 3x3 stride 3", AVERAGE, 20, 137, 17, 3, 3, 0), BOTH, 1.0, None),
    (Shape("max 5x5 stride 1", MAX, 8, 64, 28, 5, 1, 2), BOTH, 1.0, None),
    (Shape("global average", AVERAGE, 32, 512, 7, 7, 1, 0), BOTH, 1.5, None),
)


def cases() -> list[Case]:
    return [_case(*row) for row in CASES]


def _case(s: Shape, layouts: tuple[str, ...], target: float, share: float | None) -> Case:
    def peer(torch: ModuleType) -> Any:
        functional = torch.nn.functional
        pool = functional.max_pool2d if s.function == MAX else functional.avg_pool2d
        return partial(pool, kernel_size=s.kernel, stride=s.stride, padding=s.pad)

    x, y = s.batch * s.channels * s.side**2, s.batch * s.channels * s.out**2
    reread = x if s.function == MAX and not s.index_bits else 0  # x once more, to find the winners again
    against = "" if len(layouts) > 1 else f", against {layouts[0]}"
    return Case(
        name=f"pooling/{s.name} {s.batch}x{s.channels}x{s.side}x{s.side}{against}",
        shapes={"x": (s.batch, s.channels, s.side, s.side), "y": (s.batch, s.channels, s.out, s.out)},
        calls=partial(_calls, s=s),
        peer=peer,
        bytes=4.0 * (x + y + reread + y + x + s.index_bits // 16 * y),
        target=target,
        share_target=share,
        layouts=layouts,
    )


def _calls(a: Arrays, *, s: Shape) -> Calls:
    def image(name: str) -> capi.BNNSNDArrayDescriptor:
        return describe(capi.BNNSDataLayoutImageCHW, a[name].shape[:0:-1], a[name])

    layer = capi.BNNSLayerParametersPooling(
        i_desc=image("x"), o_desc=image("y"), pooling_function=s.function, k_width=s.kernel, k_height=s.kernel,
        x_stride=s.stride, y_stride=s.stride, x_padding=s.pad, y_padding=s.pad,
    )  # fmt: skip
    f = created(capi.BNNSFilterCreateLayerPooling(layer))
    indices = np.zeros(a["y"].shape, f"uint{s.index_bits}") if s.index_bits else None
    places = (capi.BNNSDataTypeUInt64 if s.index_bits == 64 else capi.BNNSDataTypeUInt32, indices, 0)
    return Calls(
        f,
        partial(capi.BNNSPoolingFilterApplyBatchEx, f, s.batch, a["x"], 0, a["y"], 0, *places),
        partial(
            capi.BNNSPoolingFilterApplyBackwardBatchEx, f, s.batch, a["x"], 0, image("dx"), 0, None, 0, image("dy"), 0, None,
            *places,
        ),
    )  # fmt: skip
