"""y = f(W x + b) along the last axis."""

from __future__ import annotations

from ... import FullyConnectedLayer, FusedFullyConnectedParameters, Shape
from ..calls import Calls
from ..graph import Graph
from ..operation import Operation
from ..parameter import Parameter
from ..tensor import Array, Tensor
from ._base import IN_PLACE
from ._shaped import Sizes
from .fused import MadeLayer, NormalizedOperation
from .normalization import Normalization


class Linear(NormalizedOperation):
    def __init__(self, graph: Graph, x: Tensor, weight: Parameter, bias: Parameter | None) -> None:
        self.weight, self.bias = weight, bias
        parameters = [weight] if bias is None else [weight, bias]
        super().__init__([x], Tensor(graph, (*x.shape[:-1], weight.shape[0])), parameters)

    def fuse(self, following: Operation) -> bool:
        # The layer sees vectors, which are not what channels of signals and images are normalized over.
        if isinstance(following, Normalization) and self.output.ndim != 2:
            return False
        return super().fuse(following)

    def make(self, x: Sizes, y: Sizes, weights: Array, bias: Array | None) -> MadeLayer:
        outputs, inputs = self.weight.shape
        if self.normalization is not None and not self.folds:
            return self.make_fused(Shape.vector(inputs), Shape.vector(outputs))
        return MadeLayer(
            FullyConnectedLayer(weights=weights, bias=bias, activation=self.activation, filter_parameters=IN_PLACE)
        )

    def fused_parameters(self) -> FusedFullyConnectedParameters:
        return FusedFullyConnectedParameters(
            weights=self.weight.array, bias=None if self.bias is None else self.bias.array
        )

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        outputs, inputs = self.weight.shape
        return super().forward([x[0].reshape(-1, inputs)], y.reshape(-1, outputs), training)

    def repeat(self, x: list[Array], y: Array) -> Calls:
        outputs, inputs = self.weight.shape
        return super().repeat([x[0].reshape(-1, inputs)], y.reshape(-1, outputs))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        outputs, inputs = self.weight.shape
        given = None if dx[0] is None else dx[0].reshape(-1, inputs)
        return super().backward(
            [x[0].reshape(-1, inputs)], y.reshape(-1, outputs), dy.reshape(-1, outputs), [given], dp
        )
