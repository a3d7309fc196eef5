"""One application of a declared operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import (
    ArithmeticBinaryFunction,
    BinaryArithmeticLayer,
    TernaryArithmeticLayer,
    UnaryArithmeticLayer,
)
from ..._flags import flag
from .. import sizes
from ..calls import Calls, PlanCall, by_element, computing
from ..checks import axes_of, axis_of
from ..declared import OPERATIONS
from ..operation import Operation
from ..sizes import is_same
from ..tensor import FLOAT32, INT64, Array, Tensor
from .activation import IDENTITY, ActivatedOperation
from .base import ShapedOperation, Sizes, merged_axes, shape, summed, wanted

_LAYERS: Any = {1: UnaryArithmeticLayer, 2: BinaryArithmeticLayer, 3: TernaryArithmeticLayer}
_NAMES = {1: ("input",), 2: ("input_a", "input_b"), 3: ("input_a", "input_b", "input_c")}
_LINEAR = {ArithmeticBinaryFunction.ADD, ArithmeticBinaryFunction.SUBTRACT}
_ALLOWED = {"Floats": FLOAT32, "Mask": FLOAT32, "Integers": INT64}  # element types of operands, by annotation
_PASSED_ON = {"add": (0, 1), "sub": (0,)}  # operands whose gradient is that of the result


def _flag(x: Tensor, given: Any, who: str) -> bool:
    return flag(given, who)


_CHECKS: dict[str, Callable[[Tensor, Any, str], Any]] = {
    "Axes": axes_of,
    "Axis": axis_of,
    "bool": _flag,
}  # of attributes


class Node(ShapedOperation, ActivatedOperation):
    """y = f(a), f(a, b) or f(a, b, c), on a layer, by native code for whole numbers and masks, or else in NumPy.

    The gradient of an operand that is repeated is summed over its copies. Sums and differences are fused with an activation
    after them: like their own gradient, its slope needs no operand.
    """

    is_pure = True

    def __init__(self, name: str, operands: Sequence[Tensor], attributes: Sequence[Any] = ()) -> None:
        if name not in OPERATIONS:
            raise ValueError(f"there is no operation {name!r:.60}")
        self.name, self.declared = name, OPERATIONS[name]
        whole = self._is_whole(operands)
        self.attributes = self._checked(attributes, operands[0]) if attributes or self.declared.attributes else ()
        self.function = None if whole else self.declared.kernel
        self.is_mask = self.declared.is_mask
        self.takes_integers = self.is_mask or whole
        self.stops_gradient = self.function is None and (whole or not self.declared.slopes)
        self.keeps_inputs = self.function not in _LINEAR and not self.stops_gradient
        self.keeps_output = self.function is None and not self.stops_gradient
        dtype = INT64 if whole else FLOAT32
        if self.declared.infer is None:
            super().__init__(operands, broadcast(operands, name, dtype))
        else:
            shape = self.declared.infer(*(x.shape for x in operands), *self.attributes)
            super().__init__(operands, Tensor(operands[0].graph, shape, dtype))

    def _is_whole(self, operands: Sequence[Tensor]) -> bool:
        """True if the operation computes integers. Refuse operands that the declaration does not allow."""
        kinds = self.declared.kinds
        types = [x.dtype for x in operands if isinstance(x, Tensor)]
        if len(types) != len(kinds) or len(operands) != len(kinds):
            raise ValueError(f"{self.name}: takes {len(kinds)} tensors, not {operands!r:.80}.")
        if (types.count(FLOAT32) == len(types) and "Integers" not in kinds) or kinds.count("AnyType") == len(kinds):
            return False
        joined = {dtype for dtype, kind in zip(types, kinds, strict=True) if kind == "Joined"}
        fits = all(_ALLOWED.get(kind, dtype) == dtype for dtype, kind in zip(types, kinds, strict=True))
        if len(joined) > 1 or not fits:
            listed = ", ".join(map(str, types))
            raise ValueError(f"{self.name}: computes with {' and '.join(kinds)} operands, not with {listed}.")
        return INT64 in joined or "Integers" in kinds

    def _checked(self, attributes: Sequence[Any], x: Tensor) -> tuple[Any, ...]:
        """The attributes in the form that is computed with; axes are counted from 0."""
        declared = self.declared.attributes
        if len(attributes) != len(declared):
            raise ValueError(f"{self.name}: takes {len(declared)} attributes, not {attributes!r:.80}.")
        return tuple(_CHECKS[kind](x, given, self.name) for kind, given in zip(declared, attributes, strict=True))

    @property
    def changes_gradient(self) -> bool:  # type: ignore[override]
        return self.activation is not IDENTITY

    def passed_on(self) -> list[int]:
        y, x = self.output, self.inputs
        return [i for i in _PASSED_ON.get(self.name, ()) if is_same(x[i].count, y.count)]

    def fuse(self, following: Operation) -> bool:
        return self.function in _LINEAR and super().fuse(following)

    def ending_in(self, following: Any) -> Operation | None:
        return None if self.function is None else super().ending_in(following)

    def make(self, x: list[Sizes], y: Sizes) -> Any:
        *operands, result = merged_axes(x, y)
        described = {name: shape(sizes) for name, sizes in zip(_NAMES[len(x)], operands, strict=True)}
        return _LAYERS[len(x)](function=self.function, output=shape(result), activation=self.activation, **described)

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        if not y.size:  # layers take no empty tensors
            return []
        if self.function is None:
            if self.attributes:
                return computing(y, self.declared.eval, *x, *self.attributes)
            return by_element(y, self.declared.native, self.declared.eval, *x)
        *operands, result = self._merged(x, y)
        return PlanCall(self.layer(x, y).apply, *operands, result)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        if self.function is None:
            return self._backward_of_formula(x, y, dy, dx)
        layer = self.layer(x, y)
        *operands, gradient = self._merged(x, dy)
        result = y.reshape(gradient.shape) if self.keeps_output else None
        targets = [
            wanted(None if g is None else g.reshape(operand.shape)) for g, operand in zip(dx, operands, strict=True)
        ]
        read = operands if self.keeps_inputs else [None] * len(operands)
        return PlanCall(layer.apply_backward, *read, result, gradient, *targets)

    def _backward_of_formula(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None]) -> Calls:
        def gradient(slope: Callable[..., Any], operand: Array) -> Array:
            return summed(dy * slope(y, *x), operand.shape)

        return [
            computing(target, gradient, slope, operand)
            for target, slope, operand in zip(dx, self.declared.slopes, x, strict=True)
            if target is not None
        ]

    def _merged(self, x: list[Array], y: Array) -> list[Array]:
        """The arrays with their axes merged, on the same memory."""
        shapes = merged_axes([a.shape for a in x], y.shape)
        return [array.reshape(sizes) for array, sizes in zip([*x, y], shapes, strict=True)]


def broadcast(operands: Sequence[Tensor], who: str, dtype: Any = FLOAT32) -> Tensor:
    """The result of operands that are repeated along axes of size 1 and along those that they lack in front."""
    shape = sizes.broadcast(*(value.shape for value in operands))
    if shape is None:
        shapes = ", ".join(str(v.shape) for v in operands)
        raise ValueError(
            f"{who}: {shapes} do not fit together. Axes are matched from the last one, where sizes are equal or 1."
        )
    return Tensor(operands[0].graph, shape, dtype)
