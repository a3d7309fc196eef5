"""Padding: every mode along every axis, borders up to the limits, layouts, strides, types."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from helpers import BFLOAT16, FIRST_MAJOR_2D, FLOAT16, IMAGE, INT8, INT32, ROW_MAJOR, Tensor, vector
from openbnns import capi

from ._base import UnaryCase
from .permute import FIRST_MAJOR, LAST_MAJOR

MODES = ("Constant", "Reflect", "Symmetric")
Pairs = tuple[tuple[int, int], ...]


def float_bits(value: float) -> int:
    return int.from_bytes(struct.pack("<f", value), "little")


@dataclass(frozen=True)
class PaddingCase(UnaryCase):
    """y.size[d] = before + x.size[d] + after."""

    mode: str = "Constant"
    pairs: Pairs = ((0, 0),)
    bits: int = 0

    @property
    def reductions(self) -> dict[str, int]:
        return {"y": 1, "dx": 3 ** len(self.pairs)}

    @property
    def forward_rows(self) -> tuple[str, ...]:
        return (f"pad.{self.mode}.fwd", "fn.BNNSFilterCreateLayerPadding", "fn.BNNSFilterApplyBatch", *self.rows)

    @property
    def backward_rows(self) -> tuple[str, ...]:
        return (f"pad.{self.mode}.bwd", "fn.BNNSFilterApplyBackwardBatch", *self.rows)

    def create(self, w: Any, b: Any, threads: int) -> Any:
        return capi.BNNSFilterCreateLayerPadding(
            capi.BNNSLayerParametersPadding(
                i_desc=self.x.descriptor(), o_desc=self.y.descriptor(), padding_size=self.pairs, padding_value=self.bits,
                padding_mode=capi.BNNSPaddingMode[f"BNNSPaddingMode{self.mode}"],
            ),
            self.filter_parameters(threads),
        )  # fmt: skip


def case(
    name: str, mode: str, x: Tensor, pairs: Pairs, batch: int = 2, y_stride: tuple[int, ...] = (), **options: Any
) -> PaddingCase:
    size = tuple(n + before + after for n, (before, after) in zip(x.size, pairs, strict=True))
    y = Tensor(x.layout, size, y_stride, x.data_type, x.scale, x.bias)
    options.setdefault("bits", float_bits(0.625))
    return PaddingCase(f"padding-{name}-{mode}", batch=batch, x=x, y=y, mode=mode, pairs=pairs, **options)


SHAPES: list[tuple[str, Tensor, Pairs]] = [
    ("vector", vector(5), ((2, 3),)),
    ("vector-limit", vector(5), ((4, 4),)),
    ("vector-none", vector(5), ((0, 0),)),
    ("vector-front", vector(6), ((3, 0),)),
    ("image", Tensor(IMAGE, (7, 5, 3)), ((1, 2), (3, 0), (0, 1))),
    ("image-spatial", Tensor(IMAGE, (7, 5, 3)), ((2, 2), (1, 1), (0, 0))),
    ("image-rows", Tensor(IMAGE, (7, 5, 3)), ((0, 0), (2, 1), (0, 0))),
    ("image-channels", Tensor(IMAGE, (7, 5, 4)), ((0, 0), (0, 0), (3, 2))),
    ("image-columns", Tensor(IMAGE, (7, 5, 3)), ((6, 5), (0, 0), (0, 0))),
    ("image-all-limits", Tensor(IMAGE, (3, 4, 2)), ((2, 2), (3, 3), (1, 1))),
    ("row-major", Tensor(ROW_MAJOR, (6, 4)), ((1, 0), (2, 3))),
    ("first-major", Tensor(FIRST_MAJOR_2D, (6, 4)), ((1, 0), (2, 3))),
    ("5d", Tensor(FIRST_MAJOR[5], (2, 3, 2, 4, 3)), ((1, 0), (0, 2), (1, 1), (0, 0), (2, 1))),
    ("4d-last-major", Tensor(LAST_MAJOR[4], (3, 4, 1, 2)), ((1, 2), (0, 0), (0, 0), (0, 1))),
    ("long", vector(40000), ((100, 7),)),
    ("planes", Tensor(IMAGE, (33, 29, 24)), ((3, 3), (2, 2), (0, 0))),
]

EVERY_MODE = [case(name, mode, x, pairs) for name, x, pairs in SHAPES for mode in MODES] + [
    case("whole", "Symmetric", Tensor(IMAGE, (3, 4, 2)), ((3, 3), (4, 4), (2, 2))),
    case("wide", "Constant", Tensor(IMAGE, (3, 4, 2)), ((5, 9), (20, 1), (3, 4))),
]

MEMORY = [
    case(f"{name}-{k}", mode, x, ((1, 2), (2, 1), (1, 0)), y_stride=stride, gap=gap, packed_deltas=packed)
    for k, mode in enumerate(MODES)
    for name, x, stride, gap, packed in [
        ("gaps", Tensor(IMAGE, (7, 5, 3)), (), 3, False),
        ("strided", Tensor(IMAGE, (7, 5, 3), (1, 9, 60)), (2, 25, 300), 1, False),
        ("strided-packed-deltas", Tensor(IMAGE, (7, 5, 3), (2, 18)), (1, 11), 0, True),
    ]
]

TYPES = [
    case("half", "Constant", vector(9, data_type=FLOAT16), ((2, 3),), trains=False, bits=0x3C00),
    case("bfloat", "Reflect", vector(9, data_type=BFLOAT16), ((2, 3),), trains=False),
    case("int8", "Constant", vector(9, data_type=INT8, scale=0.05), ((2, 3),), trains=False, bits=0x85, gap=1),
    case("int32", "Symmetric", vector(9, data_type=INT32, scale=0.001), ((2, 3),), trains=False),
]

CASES = EVERY_MODE + MEMORY + TYPES
