"""Pooling of images."""

from __future__ import annotations

from functools import partial
from typing import Any

from ... import PoolingLayer, PoolingType, Shape
from .._graph import Call, Graph, Operation
from .._value import Array, Value
from ._base import wanted


class Pooling(Operation):
    """``options`` are those of PoolingLayer: kernel_size, stride, padding."""

    def __init__(
        self, graph: Graph, x: Value, type: PoolingType, output_shape: tuple[int, ...], options: dict[str, Any]
    ) -> None:
        self.type, self.options = type, options
        self.keeps_inputs = type.case != "average"
        super().__init__([x], x.like(output_shape))

    @property
    def is_pairs(self) -> bool:
        """Whether it gives the maximum of 2 x 2 pixels side by side; an odd row or column at the end is left out."""
        sizes = (self.options["kernel_size"], self.options["stride"], self.options["padding"].edges)
        return self.type.case == "max" and sizes == ((2, 2), (2, 2), (0, 0, 0, 0))

    def prepare(self) -> None:
        channels, height, width = self.inputs[0].sample
        _, out_height, out_width = self.output.sample
        self.layer = PoolingLayer(
            type=self.type,
            input=Shape.image_chw(width, height, channels),
            output=Shape.image_chw(out_width, out_height, channels),
            **self.options,
        )

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        return partial(self.layer.apply, x[0], y)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        read = x[0] if self.keeps_inputs else None
        return partial(self.layer.apply_backward, read, None, dy, wanted(dx[0]))
