"""Convolution and transposed convolution of images."""

from __future__ import annotations

from functools import partial
from typing import Any

from ... import ConvolutionLayer, ConvolutionType, Shape
from .._graph import Array, Call, Graph, Value
from ..module import Parameter
from ._base import IN_PLACE, ActivatedOperation, wanted


class Convolution(ActivatedOperation):
    """``options`` are those of ConvolutionLayer: stride, dilation_stride, padding, group_count."""

    def __init__(
        self, graph: Graph, x: Value, weight: Parameter, bias: Parameter | None, output_shape: tuple[int, ...],
        transposed: bool, options: dict[str, Any],
    ) -> None:  # fmt: skip
        self.weight, self.bias, self.transposed, self.options = weight, bias, transposed, options
        parameters = [weight] if bias is None else [weight, bias]
        super().__init__([x], Value(graph, output_shape), parameters)

    def prepare(self) -> None:
        channels, height, width = self.inputs[0].shape
        out_channels, out_height, out_width = self.output.shape
        self.layer = ConvolutionLayer(
            type=ConvolutionType.TRANSPOSED if self.transposed else ConvolutionType.STANDARD,
            input=Shape.image_chw(width, height, channels),
            output=Shape.image_chw(out_width, out_height, out_channels),
            weights=self.weight.data,
            bias=None if self.bias is None else self.bias.data,
            activation=self.activation,
            filter_parameters=IN_PLACE,
            **self.options,
        )

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        return partial(self.layer.apply, x[0], y)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        return partial(self.layer.apply_backward, x[0], y, dy, wanted(dx[0]), *map(wanted, dp))
