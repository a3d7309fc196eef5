"""Fully connected layers: sizes, batches, weight layouts, image inputs, types, every fused activation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from helpers import (
    BFLOAT16,
    COLUMN_MAJOR,
    FIRST_MAJOR_2D,
    FLOAT16,
    INT8,
    LAST_MAJOR_2D,
    ROW_MAJOR,
    Tensor,
    image,
    vector,
)  # fmt: skip
from openbnns import capi

from ._base import INFERENCE_ONLY, TRAINABLE, Act, UnaryCase, act_rows


@dataclass(frozen=True)
class FullyConnectedCase(UnaryCase):
    """y = f(W x + b)."""

    x: Tensor = field(default_factory=lambda: vector(1))

    @property
    def reductions(self) -> dict[str, int]:
        return {"y": self.x.count + 1, "dx": self.y.count, "dw": self.batch, "db": self.batch}

    @property
    def forward_rows(self) -> tuple[str, ...]:
        assert self.w is not None
        fused = () if self.trains else act_rows(self.activation, "fwd")
        layout = self.w.layout.name.removeprefix("BNNSDataLayout")
        calls = ("fn.BNNSFilterCreateLayerFullyConnected", "fn.BNNSFilterApplyBatch", "fn.BNNSFilterDestroy")
        return ("fc.fwd", f"fc.w.{layout}", *calls, *fused, *self.rows)

    @property
    def backward_rows(self) -> tuple[str, ...]:
        assert self.w is not None
        layout = self.w.layout.name.removeprefix("BNNSDataLayout")
        fused = (
            ("fc.bwd.act", *act_rows(self.activation, "fused"))
            if not self.activation.is_identity
            else ("act.Identity.fused",)
        )
        bias = ("fc.bwd.db",) if self.b else ()
        return (
            "fc.bwd.dx",
            "fc.bwd.dw",
            *bias,
            f"fc.w.{layout}",
            *fused,
            "fn.BNNSFilterApplyBackwardBatch",
            *self.rows,
        )

    def parameters(self, w: Any, b: Any) -> capi.BNNSLayerParametersFullyConnected:
        assert self.w is not None
        return capi.BNNSLayerParametersFullyConnected(
            i_desc=self.x.descriptor(),
            w_desc=self.w.descriptor(w),
            o_desc=self.y.descriptor(),
            bias=self.b.descriptor(b) if self.b else capi.BNNSNDArrayDescriptor(),
            activation=self.activation.struct,
        )

    def create(self, w: Any, b: Any, threads: int) -> Any:
        return capi.BNNSFilterCreateLayerFullyConnected(self.parameters(w, b), self.filter_parameters(threads))


def weights(layout: Any, inputs: int, outputs: int, **options: Any) -> Tensor:
    """RowMajorMatrix lists columns first; the others list (output, input)."""
    return Tensor(layout, (inputs, outputs) if layout == ROW_MAJOR else (outputs, inputs), **options)


def case(
    name: str,
    inputs: int,
    outputs: int,
    batch: int = 1,
    layout: Any = ROW_MAJOR,
    bias: bool = True,
    w: Tensor | None = None,
    **options: Any,
) -> FullyConnectedCase:
    options.setdefault("x", vector(inputs))
    options.setdefault("y", vector(outputs))
    options.setdefault("b", vector(outputs) if bias else None)
    return FullyConnectedCase(f"fc-{name}", batch=batch, w=w or weights(layout, inputs, outputs), **options)


SIZES = [
    case(f"{inputs}x{outputs}-n{batch}", inputs, outputs, batch, bias=bias, client_pointer=client)
    for inputs, outputs, batch, bias, client in [
        (1, 1, 1, True, True), (1, 17, 5, True, True), (17, 1, 33, True, False), (7, 13, 1, True, True),
        (13, 7, 2, False, True), (113, 17, 5, True, False), (17, 113, 33, True, True), (64, 32, 33, False, False),
        (113, 113, 1, True, True), (257, 65, 2, True, True), (784, 10, 33, True, True), (512, 384, 113, True, True),
        (1030, 70, 40, True, True), (48, 2100, 3, False, True),
    ]
]  # fmt: skip

LAYOUTS = [
    case("column-major", 13, 17, 5, COLUMN_MAJOR),
    case("column-major-copied", 113, 7, 2, COLUMN_MAJOR, client_pointer=False),
    case("first-major", 17, 13, 5, FIRST_MAJOR_2D),
    case("last-major", 17, 13, 2, LAST_MAJOR_2D, bias=False),
    case("padded-row-major", 7, 17, 5, w=Tensor(ROW_MAJOR, (7, 17), (1, 9))),
    case("padded-column-major", 7, 17, 5, w=Tensor(COLUMN_MAJOR, (17, 7), (2, 40)), client_pointer=False),
    case("padded-first-major", 7, 17, 2, w=Tensor(FIRST_MAJOR_2D, (17, 7), (1, 11))),
]

MEMORY = [
    case("gaps", 17, 13, 5, gap=3),
    case("gaps-large", 256, 96, 33, gap=7, activation=Act("Tanh")),
    case("padded-vectors", 13, 7, 5, x=vector(13, stride=(2,)), y=vector(7, stride=(3,)), gap=5),
    case(
        "padded-vectors-packed-deltas",
        13,
        7,
        2,
        x=vector(13, stride=(2,)),
        y=vector(7, stride=(3,)),
        packed_deltas=True,
    ),
    case("image-input", 60, 7, 5, x=image(3, 4, 5)),
    case("padded-image-input", 60, 7, 2, x=image(3, 4, 5, stride=(1, 7, 30)), gap=4),
    case("image-output", 13, 12, 2, y=image(2, 3, 2)),
    case("padded-bias", 7, 5, 3, b=vector(5, stride=(4,))),
]

TYPES = [
    case("half", 17, 13, 5, x=vector(17, data_type=FLOAT16), y=vector(13, data_type=FLOAT16), trains=False,
         w=weights(ROW_MAJOR, 17, 13, data_type=FLOAT16), b=vector(13, data_type=FLOAT16)),
    case("bfloat", 113, 7, 2, x=vector(113, data_type=BFLOAT16), y=vector(7, data_type=BFLOAT16), trains=False,
         w=weights(ROW_MAJOR, 113, 7, data_type=BFLOAT16), client_pointer=False),
    case("int8", 17, 13, 5, x=vector(17, data_type=INT8, scale=0.03, bias=0.1), trains=False, gap=2,
         y=vector(13, data_type=INT8, scale=0.05, bias=-0.2), w=weights(ROW_MAJOR, 17, 13, data_type=INT8, scale=0.01)),
    case("half-in-float-out", 7, 113, 33, x=vector(7, data_type=FLOAT16), trains=False),
]  # fmt: skip

FUSED = [
    case(f"fused-{act.name}", 17, 13, 5, activation=act, gap=2 * (k % 2), client_pointer=k % 3 != 0, bias=k % 4 != 1)
    for k, act in enumerate(TRAINABLE)
] + [
    case("fused-Threshold-raised", 17, 13, 5, activation=Act("Threshold", 0.1, 0.6)),
    case("fused-wide-Sigmoid", 64, 300, 40, activation=Act("Sigmoid")),
    case("fused-wide-Softmax", 64, 300, 40, activation=Act("Softmax")),
    *(case(f"inference-{act.name}", 17, 13, 5, activation=act, trains=False) for act in INFERENCE_ONLY),
]  # fmt: skip

CASES = SIZES + LAYOUTS + MEMORY + TYPES + FUSED
