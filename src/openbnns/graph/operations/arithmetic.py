"""Elementwise arithmetic of one, two or three values, with broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import (
    ArithmeticBinaryFunction,
    ArithmeticTernaryFunction,
    ArithmeticUnaryFunction,
    BinaryArithmeticLayer,
    TernaryArithmeticLayer,
    UnaryArithmeticLayer,
)
from .. import sizes
from ..calls import Calls, PlanCall
from ..operation import Operation
from ..sizes import is_same
from ..tensor import FLOAT32, Array, Tensor
from ._base import IDENTITY, ActivatedOperation, wanted
from ._shaped import ShapedOperation, Sizes, merged_axes, shape

_LAYERS: Any = {1: UnaryArithmeticLayer, 2: BinaryArithmeticLayer, 3: TernaryArithmeticLayer}
_NAMES = {1: ("input",), 2: ("input_a", "input_b"), 3: ("input_a", "input_b", "input_c")}
_LINEAR = {ArithmeticBinaryFunction.ADD, ArithmeticBinaryFunction.SUBTRACT}

Function = ArithmeticUnaryFunction | ArithmeticBinaryFunction | ArithmeticTernaryFunction

# Operands whose gradient is that of the result.
_PASSED_ON: dict[Function, tuple[int, ...]] = {
    ArithmeticBinaryFunction.ADD: (0, 1), ArithmeticBinaryFunction.SUBTRACT: (0,),
}  # fmt: skip


class Arithmetic(ShapedOperation, ActivatedOperation):
    """y = f(a), f(a, b) or f(a, b, c); the gradient of an operand that is repeated is summed over its copies.

    Sums and differences take over an activation behind them: like their own gradient, its slope needs no operand.
    """

    is_pure = True

    def __init__(self, function: Function, operands: Sequence[Tensor]) -> None:
        self.function = function
        self.keeps_inputs = function not in _LINEAR
        super().__init__(operands, broadcast(operands, function.name.lower()))

    def passed_on(self) -> list[int]:
        if self.activation is not IDENTITY:
            return []
        y, x = self.output, self.inputs
        return [i for i in _PASSED_ON.get(self.function, ()) if is_same(x[i].count, y.count)]

    def fuse(self, following: Operation) -> bool:
        return self.function in _LINEAR and super().fuse(following)

    def make(self, x: list[Sizes], y: Sizes) -> Any:
        *operands, result = merged_axes(x, y)
        described = {name: shape(sizes) for name, sizes in zip(_NAMES[len(x)], operands, strict=True)}
        return _LAYERS[len(x)](function=self.function, output=shape(result), activation=self.activation, **described)

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        *operands, result = self._merged(x, y)
        return PlanCall(self.layer(x, y).apply, *operands, result)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        layer = self.layer(x, y)
        *operands, gradient = self._merged(x, dy)
        result = y.reshape(gradient.shape) if self.keeps_output else None
        targets = [
            wanted(None if g is None else g.reshape(operand.shape)) for g, operand in zip(dx, operands, strict=True)
        ]
        read = operands if self.keeps_inputs else [None] * len(operands)
        return PlanCall(layer.apply_backward, *read, result, gradient, *targets)

    def _merged(self, x: list[Array], y: Array) -> list[Array]:
        """The arrays with their axes merged, on the same memory."""
        shapes = merged_axes([a.shape for a in x], y.shape)
        return [array.reshape(sizes) for array, sizes in zip([*x, y], shapes, strict=True)]


def broadcast(operands: Sequence[Tensor], who: str) -> Tensor:
    """The result of operands that are repeated along axes of size 1 and along those that they lack in front."""
    shape = sizes.broadcast(*(value.shape for value in operands))
    if shape is None:
        shapes = ", ".join(str(v.shape) for v in operands)
        raise ValueError(
            f"{who}: {shapes} do not fit together. Axes are matched from the last one, where sizes are equal or 1."
        )
    return Tensor(operands[0].graph, shape, FLOAT32)
