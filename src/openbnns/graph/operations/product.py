"""Matrix products and tensor contractions of values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import BroadcastMatrixMultiplyLayer, TensorContractionLayer
from ..calls import Calls, PlanCall
from ..sizes import AnySize
from ..tensor import FLOAT32, Array, Tensor
from ._base import wanted
from ._shaped import ShapedOperation, Sizes, shape


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
        super().__init__(operands, Tensor(operands[0].graph, shape, FLOAT32))

    def make(self, x: list[Sizes], y: Sizes) -> Any:
        second = shape(x[1]) if len(x) == 2 else None
        return TensorContractionLayer(operation=self.expression, input_a=shape(x[0]), input_b=second, output=shape(y))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        second = x[1] if len(x) == 2 else None
        return PlanCall(self.layer(x, y).apply, x[0], second, y)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        second = x[1] if len(x) == 2 else None
        targets = [wanted(dx[0]), *([wanted(dx[1])] if len(x) == 2 else [])]
        return PlanCall(self.layer(x, y).apply_backward, x[0], second, None, dy, *targets)
