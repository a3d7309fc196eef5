"""Fully connected layers, matrix products and tensor contractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import (
    BroadcastMatrixMultiplyLayer,
    FullyConnectedLayer,
    FusedFullyConnectedParameters,
    Shape,
    TensorContractionLayer,
)
from ..calls import Calls, PlanCall, computing
from ..graph import Graph
from ..operation import Operation
from ..parameter import Parameter
from ..sizes import AnySize
from ..tensor import INT64, Array, Tensor
from .base import IN_PLACE, ShapedOperation, Sizes, shape, wanted
from .fused import MadeLayer, NormalizedOperation
from .normalization import Normalization


class Linear(NormalizedOperation):
    """y = f(W x + b) along the last axis."""

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


class MatrixProduct(ShapedOperation):
    """C = alpha op(A) op(B) over the last two axes; all axes in front of them are broadcast.

    ``transposed`` says for each operand whether its last two axes are swapped first.
    """

    is_pure = True

    def __init__(self, a: Tensor, b: Tensor, output: Tensor, transposed: tuple[bool, bool], alpha: float = 1.0) -> None:
        self.transposed, self.alpha = transposed, alpha
        super().__init__([a, b], output)

    def make(self, x: list[Sizes], y: Sizes) -> Any:
        a, b, result = self._merged(x, y)
        return BroadcastMatrixMultiplyLayer(
            input_a=shape(a), input_a_transposed=self.transposed[0], input_b=shape(b),
            input_b_transposed=self.transposed[1], output=shape(result), alpha=self.alpha,
        )  # fmt: skip

    def _merged(self, x: list[Sizes], y: Sizes) -> tuple[Sizes, Sizes, Sizes]:
        """The shapes with the axes in front as one; of rows that share one matrix, all are one."""
        a, b = x
        if math.prod(b[:-2]) == 1 and not self.transposed[0]:
            return (math.prod(a[:-1]), a[-1]), b[-2:], (math.prod(y[:-1]), y[-1])
        if a[:-2] == b[:-2]:
            stack = math.prod(a[:-2])
            return (stack, *a[-2:]), (stack, *b[-2:]), (stack, *y[-2:])
        return a, b, y

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        a, b, result = self._merged([array.shape for array in x], y.shape)
        return PlanCall(self.layer(x, y).apply, x[0].reshape(a), x[1].reshape(b), y.reshape(result))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        a, b, result = self._merged([array.shape for array in x], y.shape)
        targets = [wanted(None if g is None else g.reshape(sizes)) for g, sizes in zip(dx, (a, b), strict=True)]
        return PlanCall(
            self.layer(x, y).apply_backward, x[0].reshape(a), x[1].reshape(b), None, dy.reshape(result), *targets
        )


class Contraction(ShapedOperation):
    """The sum of products of one or two operands over the axes whose letters the result lacks."""

    is_pure = True

    def __init__(self, operands: list[Tensor], letters: list[str], result: str, shape: Sequence[AnySize]) -> None:
        self.letters, self.result = letters, result  # letters of the axes of each operand, and of the result
        names = [f"{name}_{indices}" for name, indices in zip("ab", letters, strict=False)]
        self.expression = f"{', '.join(names)} -> c_{result}"
        self.takes_integers = operands[0].dtype == INT64
        if any(x.dtype != operands[0].dtype for x in operands):
            raise ValueError(
                f"einsum: operands are {', '.join(str(x.dtype) for x in operands)}, but must be of one type."
            )
        super().__init__(operands, Tensor(operands[0].graph, shape, operands[0].dtype))

    def make(self, x: list[Sizes], y: Sizes) -> Any:
        second = shape(x[1]) if len(x) == 2 else None
        return TensorContractionLayer(operation=self.expression, input_a=shape(x[0]), input_b=second, output=shape(y))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        if y.dtype == INT64:
            return computing(y, np.einsum, f"{','.join(self.letters)}->{self.result}", *x)
        second = x[1] if len(x) == 2 else None
        return PlanCall(self.layer(x, y).apply, x[0], second, y)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        second = x[1] if len(x) == 2 else None
        targets = [wanted(dx[0]), *([wanted(dx[1])] if len(x) == 2 else [])]
        return PlanCall(self.layer(x, y).apply_backward, x[0], second, None, dy, *targets)
