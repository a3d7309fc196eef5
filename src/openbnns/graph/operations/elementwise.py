"""Elementwise functions of one, two or three tensors, with broadcasting: on layers, and formulas in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import (
    ArithmeticBinaryFunction,
    ArithmeticTernaryFunction,
    ArithmeticUnaryFunction,
    BinaryArithmeticLayer,
    TernaryArithmeticLayer,
    UnaryArithmeticLayer,
)
from .. import sizes
from ..calls import Calls, PlanCall, by_element, computing
from ..operation import Operation
from ..sizes import is_same
from ..tensor import FLOAT32, Array, Tensor
from .activation import IDENTITY, ActivatedOperation
from .base import ShapedOperation, Sizes, merged_axes, shape, summed, wanted

_LAYERS: Any = {1: UnaryArithmeticLayer, 2: BinaryArithmeticLayer, 3: TernaryArithmeticLayer}
_NAMES = {1: ("input",), 2: ("input_a", "input_b"), 3: ("input_a", "input_b", "input_c")}
_LINEAR = {ArithmeticBinaryFunction.ADD, ArithmeticBinaryFunction.SUBTRACT}

ArithmeticFunction = ArithmeticUnaryFunction | ArithmeticBinaryFunction | ArithmeticTernaryFunction

# Operands whose gradient is that of the result.
_PASSED_ON: dict[ArithmeticFunction, tuple[int, ...]] = {
    ArithmeticBinaryFunction.ADD: (0, 1), ArithmeticBinaryFunction.SUBTRACT: (0,),
}  # fmt: skip


class Arithmetic(ShapedOperation, ActivatedOperation):
    """y = f(a), f(a, b) or f(a, b, c); the gradient of an operand that is repeated is summed over its copies.

    Sums and differences are fused with an activation after them: like their own gradient, its slope needs no operand.
    """

    is_pure = True

    def __init__(self, function: ArithmeticFunction, operands: Sequence[Tensor]) -> None:
        self.function = function
        self.keeps_inputs = function not in _LINEAR
        super().__init__(operands, broadcast(operands, function.name.lower()))

    @property
    def changes_gradient(self) -> bool:  # type: ignore[override]
        return self.activation is not IDENTITY

    def passed_on(self) -> list[int]:
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


_complement: Any = np.frompyfunc(math.erfc, 1, 1)


class Formula(NamedTuple):
    """A function of arrays, and its slope for each of them, from all of them and the result; none if they have no gradient."""

    function: Callable[..., Any]
    slopes: tuple[Callable[..., Any], ...] = ()


def _one(*_: Array) -> float:
    return 1.0


FORMULAS: dict[str, Formula] = {
    "gt": Formula(np.greater),
    "ge": Formula(np.greater_equal),
    "lt": Formula(np.less),
    "le": Formula(np.less_equal),
    "eq": Formula(np.equal),
    "ne": Formula(np.not_equal),
    "logical_and": Formula(np.logical_and),
    "logical_or": Formula(np.logical_or),
    "logical_xor": Formula(np.logical_xor),
    "logical_not": Formula(np.logical_not),
    "isnan": Formula(np.isnan),
    "isinf": Formula(np.isinf),
    "isfinite": Formula(np.isfinite),
    "floor_divide": Formula(np.floor_divide),
    "trunc": Formula(np.trunc),
    "frac": Formula(lambda x: x - np.trunc(x), (_one,)),
    "remainder": Formula(np.remainder, (_one, lambda a, b, y: -np.floor(a / b))),
    "fmod": Formula(np.fmod, (_one, lambda a, b, y: -np.trunc(a / b))),
    "log1p": Formula(np.log1p, (lambda x, y: 1 / (1 + x),)),
    "expm1": Formula(np.expm1, (lambda x, y: y + 1,)),
    "log10": Formula(np.log10, (lambda x, y: 1 / (x * math.log(10)),)),
    "erfc": Formula(lambda x: _complement(x).astype(x.dtype), (lambda x, y: -2 / math.sqrt(math.pi) * np.exp(-x * x),)),
    "sinc": Formula(np.sinc, (lambda x, y: np.where(x == 0, 0, (np.cos(np.pi * x) - y) / np.where(x == 0, 1, x)),)),
    "atan2": Formula(np.arctan2, (lambda a, b, y: b / (a * a + b * b), lambda a, b, y: -a / (a * a + b * b))),
    "hypot": Formula(np.hypot, (lambda a, b, y: a / y, lambda a, b, y: b / y)),
    "logaddexp": Formula(np.logaddexp, (lambda a, b, y: np.exp(a - y), lambda a, b, y: np.exp(b - y))),
}

MASKS = {
    "gt", "ge", "lt", "le", "eq", "ne", "logical_and", "logical_or", "logical_xor", "logical_not", "isnan", "isinf", "isfinite",
}  # fmt: skip
"""Functions whose result is 1 where something holds, and else 0. They take whole numbers as they are."""


class Elementwise(Operation):
    """y = f(a) or f(a, b); ``function`` is one of ``FORMULAS``."""

    is_pure = True

    def __init__(self, function: str, operands: Sequence[Tensor]) -> None:
        self.function = function
        self.stops_gradient = not FORMULAS[function].slopes
        self.keeps_inputs = self.keeps_output = not self.stops_gradient
        self.takes_integers = self.is_mask = function in MASKS
        super().__init__(operands, broadcast(operands, function))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        return by_element(y, self.function, FORMULAS[self.function].function, *x)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        def gradient(slope: Callable[..., Any], operand: Array) -> Array:
            return summed(dy * slope(*x, y), operand.shape)

        slopes = FORMULAS[self.function].slopes
        return [
            computing(target, gradient, slope, operand)
            for target, slope, operand in zip(dx, slopes, x, strict=True)
            if target is not None
        ]
