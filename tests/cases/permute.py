"""Permutations: every order of the axes of small tensors, sizes around the tiles, layouts, strides, types."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from helpers import (
    BFLOAT16,
    COLUMN_MAJOR,
    FIRST_MAJOR_2D,
    FLOAT16,
    IMAGE,
    INT8,
    INT32,
    LAST_MAJOR_2D,
    ROW_MAJOR,
    Tensor,
    vector,
)
from openbnns import PermuteLayer, Shape, capi

from ._base import Row, UnaryCase

FIRST_MAJOR = {k: capi.BNNSDataLayout[f"BNNSDataLayout{k}DFirstMajor"] for k in range(2, 9)}
LAST_MAJOR = {k: capi.BNNSDataLayout[f"BNNSDataLayout{k}DLastMajor"] for k in range(2, 9)}


@dataclass(frozen=True)
class PermuteCase(UnaryCase):
    """y.size[k] = x.size[permutation[k]]."""

    permutation: tuple[int, ...] = (0,)

    @property
    def reductions(self) -> dict[str, int]:
        return {"y": 1, "dx": 1}

    @property
    def forward_rows(self) -> tuple[str, ...]:
        return ("permute.fwd", "fn.BNNSFilterCreateLayerPermute", "fn.BNNSFilterApplyBatch", *self.rows)

    @property
    def backward_rows(self) -> tuple[str, ...]:
        return ("permute.bwd", *self.rows)

    def create(self, w: Any, b: Any, threads: int) -> Any:
        return capi.BNNSFilterCreateLayerPermute(
            capi.BNNSLayerParametersPermute(
                i_desc=self.x.descriptor(), o_desc=self.y.descriptor(), permutation=self.permutation
            ),
            self.filter_parameters(threads),
        )


def case(
    name: str, x: Tensor, permutation: tuple[int, ...], batch: int = 2, y_stride: tuple[int, ...] = (), **options: Any
) -> PermuteCase:
    size = tuple(x.size[k] for k in permutation)
    y = Tensor(x.layout, size, y_stride, x.data_type, x.scale, x.bias)
    return PermuteCase(f"permute-{name}", batch=batch, x=x, y=y, permutation=permutation, **options)


ORDERS = [
    *(case(f"image-{''.join(map(str, p))}", Tensor(IMAGE, (7, 5, 3)), p) for p in itertools.permutations(range(3))),
    *(case(f"4d-{''.join(map(str, p))}", Tensor(FIRST_MAJOR[4], (2, 3, 5, 4)), p) for p in itertools.permutations(range(4))),
    case("vector", vector(13), (0,)),
    case("row-major", Tensor(ROW_MAJOR, (7, 4)), (1, 0)),
    case("column-major", Tensor(COLUMN_MAJOR, (7, 4)), (1, 0), gap=3),
    case("first-major", Tensor(FIRST_MAJOR_2D, (7, 4)), (1, 0)),
    case("last-major", Tensor(LAST_MAJOR_2D, (7, 4)), (1, 0)),
    case("4d-last-major", Tensor(LAST_MAJOR[4], (4, 2, 3, 5)), (3, 1, 0, 2), gap=2),
    case("5d", Tensor(FIRST_MAJOR[5], (2, 3, 2, 5, 3)), (4, 0, 3, 1, 2)),
    case("8d", Tensor(FIRST_MAJOR[8], (2, 1, 3, 2, 1, 2, 3, 2)), (7, 2, 0, 5, 1, 6, 3, 4)),
]  # fmt: skip

SIZES = [
    case(f"matrix-{rows}x{columns}", Tensor(FIRST_MAJOR_2D, (rows, columns)), (1, 0), batch=batch)
    for rows, columns, batch in [
        (1, 1, 1), (1, 9, 3), (16, 16, 2), (17, 33, 3), (64, 48, 1), (63, 65, 2), (3, 300, 2), (300, 3, 2), (257, 129, 2),
        (100, 1000, 1), (2, 2, 40),
    ]
] + [
    case("nchw-nhwc", Tensor(IMAGE, (28, 28, 32)), (2, 0, 1), batch=3),
    case("nhwc-nchw", Tensor(FIRST_MAJOR[3], (28, 28, 32)), (2, 0, 1), batch=3),
    case("large", Tensor(FIRST_MAJOR[3], (64, 113, 97)), (1, 2, 0), batch=2),
    case("rows", Tensor(FIRST_MAJOR[3], (30, 20, 50)), (1, 0, 2), batch=2),
]  # fmt: skip

MEMORY = [
    case("gaps", Tensor(IMAGE, (7, 5, 3)), (2, 0, 1), gap=3),
    case("strided-input", Tensor(IMAGE, (7, 5, 3), (1, 9, 60)), (2, 1, 0), gap=1),
    case("strided-output", Tensor(IMAGE, (7, 5, 3)), (2, 1, 0), y_stride=(2, 8, 60)),
    case("strided-both", Tensor(IMAGE, (7, 5, 3), (2, 15, 80)), (1, 0, 2), y_stride=(1, 6, 50), packed_deltas=True),
]

TYPES = [
    case("half", Tensor(IMAGE, (7, 5, 3), data_type=FLOAT16), (2, 0, 1), trains=False),
    case("bfloat", Tensor(IMAGE, (7, 5, 3), (1, 8), data_type=BFLOAT16), (1, 0, 2), trains=False),
    case("int8", Tensor(IMAGE, (7, 5, 3), data_type=INT8, scale=0.02, bias=0.3), (2, 0, 1), trains=False, gap=5),
    case("int32", Tensor(IMAGE, (7, 5, 3), data_type=INT32, scale=0.001), (2, 0, 1), trains=False),
]

CASES = ORDERS + SIZES + MEMORY + TYPES


def _layer() -> PermuteLayer:
    return PermuteLayer(input=Shape.image_chw(5, 3, 4), permutation=(2, 0, 1))


ROWS = [Row("permute", _layer), Row("permute-backward", _layer, (("apply", None), ("apply_backward_permute", None)))]
