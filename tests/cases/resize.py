"""Resize: both methods, aligned or not, up and down, along every axis, layouts, strides, types."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from helpers import BFLOAT16, EPSILON, FIRST_MAJOR_2D, FLOAT16, IMAGE, INT8, INT32, ROW_MAJOR, Array, Tensor, vector
from openbnns import capi

from ._base import UnaryCase, Values
from .permute import FIRST_MAJOR


@dataclass(frozen=True)
class ResizeCase(UnaryCase):
    """Axes whose sizes differ are resampled."""

    x: Tensor = field(default_factory=lambda: vector(1))
    method: str = "Nearest"
    align: bool = False

    @property
    def reductions(self) -> dict[str, int]:
        spread = 1
        for n_in, n_out in zip(self.x.size, self.y.size, strict=True):
            spread *= 1 if n_in == n_out else 2 + 2 * -(-n_out // n_in)
        return {"y": 8, "dx": spread}

    @property
    def _common_rows(self) -> tuple[str, ...]:
        aligned = ("resize.align",) if self.align and self.method == "Linear" else ()
        return (*aligned, *self.rows)

    @property
    def forward_rows(self) -> tuple[str, ...]:
        return (f"resize.{self.method}.fwd", "fn.BNNSFilterCreateLayerResize", *self._common_rows)

    @property
    def backward_rows(self) -> tuple[str, ...]:
        return (f"resize.{self.method}.bwd", "fn.BNNSFilterApplyBackwardBatch", *self._common_rows)

    # The weights of a linear resize are float32 numbers near 0 to 1: their error counts with the size of the cells.

    def forward_bound(self, values: Values, y: Array) -> Array:
        return super().forward_bound(values, y) + 2 * EPSILON * float(np.abs(values["x"]).max())

    def backward_bounds(self, values: Values, y: Array) -> dict[str, Array]:
        room = 2 * EPSILON * float(np.abs(values["dy"]).max())
        return {name: bound + room for name, bound in super().backward_bounds(values, y).items()}

    def create(self, w: Any, b: Any, threads: int) -> Any:
        return capi.BNNSFilterCreateLayerResize(
            capi.BNNSLayerParametersResize(
                method=capi.BNNSInterpolationMethod[f"BNNSInterpolationMethod{self.method}"], i_desc=self.x.descriptor(),
                o_desc=self.y.descriptor(), align_corners=self.align,
            ),
            self.filter_parameters(threads),
        )  # fmt: skip


def case(
    name: str,
    method: str,
    x: Tensor,
    size: tuple[int, ...],
    batch: int = 2,
    y_stride: tuple[int, ...] = (),
    **options: Any,
) -> ResizeCase:
    y = Tensor(x.layout, size, y_stride, x.data_type, x.scale, x.bias)
    aligned = "-align" if options.get("align") else ""
    if any(n_out < n_in for n_in, n_out in zip(x.size, size, strict=True)):
        options.setdefault("mostly_zero", frozenset({"dx"}))  # cells that no output reads
    return ResizeCase(f"resize-{name}-{method}{aligned}", batch=batch, x=x, y=y, method=method, **options)


SHAPES: list[tuple[str, Tensor, tuple[int, ...]]] = [
    ("2x", Tensor(IMAGE, (5, 4, 3)), (10, 8, 3)),
    ("3x-width", Tensor(IMAGE, (5, 4, 3)), (15, 4, 3)),
    ("2x-height", Tensor(IMAGE, (5, 4, 3)), (5, 8, 3)),
    ("channels", Tensor(IMAGE, (5, 4, 3)), (5, 4, 7)),
    ("height-channels", Tensor(IMAGE, (5, 4, 3)), (5, 9, 6)),
    ("width-channels", Tensor(IMAGE, (5, 4, 3)), (11, 4, 6)),
    ("half", Tensor(IMAGE, (8, 6, 3)), (4, 3, 3)),
    ("third", Tensor(IMAGE, (9, 6, 2)), (3, 2, 2)),
    ("odd-up", Tensor(IMAGE, (7, 5, 2)), (17, 13, 2)),
    ("odd-down", Tensor(IMAGE, (17, 13, 2)), (7, 5, 2)),
    ("mixed", Tensor(IMAGE, (5, 12, 2)), (13, 5, 2)),
    ("same", Tensor(IMAGE, (5, 4, 3)), (5, 4, 3)),
    ("from-one", Tensor(IMAGE, (1, 1, 3)), (4, 3, 3)),
    ("to-one", Tensor(IMAGE, (4, 3, 3)), (1, 1, 3)),
    ("vector", vector(9), (31,)),
    ("vector-down", vector(100), (9,)),
    ("row-major", Tensor(ROW_MAJOR, (5, 6)), (10, 12)),
    ("first-major", Tensor(FIRST_MAJOR_2D, (5, 6)), (10, 12)),
    ("4d-middle", Tensor(FIRST_MAJOR[4], (2, 3, 5, 4)), (2, 6, 10, 4)),
    ("4d-outer", Tensor(FIRST_MAJOR[4], (2, 3, 5, 4)), (4, 3, 5, 8)),
    ("wide", Tensor(IMAGE, (64, 33, 8)), (128, 66, 8)),
    ("wide-down", Tensor(IMAGE, (130, 64, 4)), (65, 32, 4)),
]

EVERY = [
    case(name, method, x, size, align=align)
    for name, x, size in SHAPES
    for method, align in (("Nearest", False), ("Linear", False), ("Linear", True))
] + [
    case("every-axis", "Nearest", Tensor(IMAGE, (5, 4, 3)), (10, 12, 6)),
    case("5d", "Nearest", Tensor(FIRST_MAJOR[5], (2, 3, 2, 2, 3)), (4, 6, 2, 6, 6)),
]

MEMORY = [
    case(f"{name}", method, x, (10, 8, 3), y_stride=stride, gap=gap, packed_deltas=packed)
    for method in ("Nearest", "Linear")
    for name, x, stride, gap, packed in [
        ("gaps", Tensor(IMAGE, (5, 4, 3)), (), 3, False),
        ("strided", Tensor(IMAGE, (5, 4, 3), (1, 7, 40)), (2, 22, 200), 1, False),
        ("strided-packed-deltas", Tensor(IMAGE, (5, 4, 3), (2, 11)), (1, 13), 0, True),
    ]
]

TYPES = [
    case("half-type", method, Tensor(IMAGE, (5, 4, 3), data_type=kind, scale=scale), (10, 8, 3), trains=False, rows=())
    for method in ("Nearest", "Linear")
    for kind, scale in ((FLOAT16, 0.0),)
] + [
    case("bfloat", "Linear", Tensor(IMAGE, (5, 4, 3), data_type=BFLOAT16), (10, 8, 3), trains=False),
    case("int8", "Linear", Tensor(IMAGE, (5, 4, 3), data_type=INT8, scale=0.03125), (10, 8, 3), trains=False),
    case("int8", "Nearest", Tensor(IMAGE, (5, 4, 3), data_type=INT8, scale=0.03125), (10, 8, 3), trains=False),
    case("int32", "Nearest", Tensor(IMAGE, (5, 4, 3), data_type=INT32, scale=0.001), (10, 8, 3), trains=False, gap=2),
]

CASES = EVERY + MEMORY + TYPES
