"""Convolution and transposed convolution of images."""

from __future__ import annotations

from typing import Any

from ... import ConvolutionLayer, ConvolutionType, FusedConvolutionParameters, Shape
from ...abi.enums import BNNSDataLayout
from .._graph import Graph
from .._value import Value
from ..parameter import Parameter
from ._base import IN_PLACE
from .fused import NormalizedOperation


class Convolution(NormalizedOperation):
    """``options`` are those of ConvolutionLayer: stride, dilation_stride, padding, group_count."""

    def __init__(
        self, graph: Graph, x: Value, weight: Parameter, bias: Parameter | None, output_shape: tuple[int, ...],
        transposed: bool, options: dict[str, Any],
    ) -> None:  # fmt: skip
        self.weight, self.bias, self.options = weight, bias, options
        self.type = ConvolutionType.TRANSPOSED if transposed else ConvolutionType.STANDARD
        parameters = [weight] if bias is None else [weight, bias]
        super().__init__([x], x.like(output_shape), parameters)

    def prepare(self) -> None:
        result = self.output.sample if self.pooling is None else self.pooling.unpooled_shape
        input, output = (Shape.image_chw(*shape[::-1]) for shape in (self.inputs[0].sample, result))
        if self.normalization is not None:
            self.prepare_fused(input, output)
            return
        self.layer = ConvolutionLayer(
            type=self.type,
            input=input,
            output=output,
            weights=self._weights(),
            bias=None if self.bias is None else self.bias.data,
            activation=self.activation,
            filter_parameters=IN_PLACE,
            **self.options,
        )

    def fused_parameters(self) -> FusedConvolutionParameters:
        options = dict(self.options)
        options["group_size"] = options.pop("group_count")
        bias = None if self.bias is None else self.bias.data
        return FusedConvolutionParameters(type=self.type, weights=self._weights(), bias=bias, **options)

    def _weights(self) -> Any:
        """The array, or for transposed convolutions, whose weights are PyTorch's (I, O, KH, KW), what describes it."""
        if self.type is ConvolutionType.STANDARD:
            return self.weight.data
        shape = Shape(self.weight.shape[::-1], BNNSDataLayout.BNNSDataLayoutConvolutionWeightsIOHrWr)
        return shape.descriptor(data=self.weight.data)
