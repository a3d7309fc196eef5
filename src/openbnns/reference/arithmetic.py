"""Elementwise arithmetic of one, two or three operands: z = op(a, b, c), y = f(z).

Operands broadcast by NumPy's rule. A Parameter or Constant operand has a leading (batch) axis of 1, so "summed over
the batch" and "summed over a broadcast axis" are the same thing here: every gradient is summed back to the shape of
its operand. If two operands are one tensor, the caller adds up their gradients (x*x has the gradients x and x).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .._plural import plural
from ..parameters.activation import Activation, ActivationKind
from ..parameters.arithmetic import NEEDS_OPERANDS, ArithmeticKind, Needs
from . import activation
from .activation import Array


@np.errstate(all="ignore")
def forward(function: int, operands: Sequence[Array], f: Activation) -> Array:
    """y = f(op(operands)); division by zero and the like follow IEEE arithmetic without a warning."""
    operation = _operation(function, operands)
    return activation.forward(f, operation.forward(*operands))


@np.errstate(all="ignore")
def backward(
    function: int,
    operands: Sequence[Array | None],
    y: Array | None,
    dy: Array,
    f: Activation,
    wanted: Sequence[bool],
    shapes: Sequence[tuple[int, ...]] | None = None,
    split_ties: bool = False,
) -> list[Array | None]:
    """For every operand its gradient, in its shape, or None if it is not wanted.

        dz = dy f'(z)                 from y, or from z = op(operands) where y does not determine the derivative
        gradient_k = dz * dop/d_k     summed over the axes along which operand k was broadcast

    An operand may be None where NEEDS_OPERANDS says so (with Needs.OUTPUT: if y is given and f is Identity, so that
    y is z). Its shape is then taken from `shapes`, or is that of dy. With split_ties, Minimum and Maximum give half of
    dz to either operand where they are equal, instead of all of it to the first.
    """
    operation = _operation(function, operands)
    z = _result(function, operation, operands, y, f)
    dz = activation.fused_backward(f, dy, y, z)

    gradients: list[Array | None] = []
    for k, operand in enumerate(operands):
        if not wanted[k]:
            gradients.append(None)
            continue
        shape = operand.shape if operand is not None else shapes[k] if shapes is not None else dy.shape
        gradient = operation.gradients[k](dz, z, *operands)
        if split_ties and function in (ArithmeticKind.MINIMUM, ArithmeticKind.MAXIMUM):
            gradient = np.where(operands[0] == operands[1], 0.5 * dz, gradient)
        gradients.append(sum_to_shape(gradient, dz.shape, shape))
    return gradients


def sum_to_shape(gradient: Array, full: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """The adjoint of broadcasting `shape` to `full`; leading axes that `shape` lacks are summed away."""
    gradient = np.broadcast_to(gradient, full)
    gradient = gradient.sum(axis=tuple(range(len(full) - len(shape))))
    stretched = tuple(axis for axis, size in enumerate(shape) if size == 1 and gradient.shape[axis] != 1)
    return np.array(gradient.sum(axis=stretched, keepdims=True))


def _result(
    function: int, operation: _Operation, operands: Sequence[Array | None], y: Array | None, f: Activation
) -> Array | None:
    """z, if it can be found."""
    if all(operand is not None for operand in operands):
        return operation.forward(*operands)
    z = y if f.function == ActivationKind.IDENTITY else None
    needs = NEEDS_OPERANDS[function]
    if needs is Needs.OPERANDS or (needs is Needs.OUTPUT and z is None):
        raise ValueError(
            f"arithmetic.backward: {ArithmeticKind(function).name} needs {needs.value} to find its gradients"
            f"{' (the output only if no activation is fused)' if needs is Needs.OUTPUT else ''}; got None."
        )
    return z


# ---------------------------------------------------------------------------------------------------------------------
# The table: op, and for each operand its gradient from (dz, z, *operands)


@dataclass(frozen=True)
class _Operation:
    forward: Callable[..., Array]
    gradients: tuple[Callable[..., Array], ...]


def _operation(function: int, operands: Sequence[Any]) -> _Operation:
    if function not in _OPERATIONS:
        raise ValueError(f"arithmetic: there is no function {function}; the functions are 0 to {max(ArithmeticKind)}.")
    operation = _OPERATIONS[function]
    if len(operands) != len(operation.gradients):
        raise ValueError(
            f"arithmetic: {ArithmeticKind(function).name} takes {plural(len(operation.gradients), 'operand')}; "
            f"got {len(operands)}."
        )
    return operation


def _unary(op: Callable[[Array], Array], slope: Callable[[Array, Array], Any]) -> _Operation:
    """An operation of one operand from its derivative slope(x, z)."""
    return _Operation(op, (lambda dz, z, x: dz * slope(x, z),))


def _zero(dz: Array, z: Array | None, *operands: Array | None) -> Array:
    return np.zeros_like(dz)


def _multiply_no_nan(a: Array, b: Array) -> Array:
    """a*b, but 0 wherever the second factor is 0, whatever a is."""
    return np.where(b == 0.0, 0.0, a * b)


def _divide_no_nan(a: Array, b: Array) -> Array:
    """a/b, but 0 wherever b is 0."""
    return np.where(b == 0.0, 0.0, a / b)


def _power_base_gradient(dz: Array, z: Array, a: Array, b: Array) -> Array:
    """b a^(b-1); a constant (b = 0) has slope 0 even at a = 0."""
    return dz * np.where(b == 0.0, 0.0, b * np.power(a, b - 1.0))


def _power_exponent_gradient(dz: Array, z: Array, a: Array, b: Array) -> Array:
    """a^b ln a; 0^b is flat for b >= 0. NaN for a negative base, whose powers are not a function of b."""
    return dz * np.where((a == 0.0) & (b >= 0.0), 0.0, z * np.log(a))


def _select(a: Array, b: Array, c: Array) -> Array:
    return np.where(a != 0.0, b, c)


def _first_is_minimum(a: Array, b: Array) -> Any:
    """Which operand gives minimum(a, b); ties go to the first, and so does NaN in the first."""
    return (a <= b) | np.isnan(a)


def _first_is_maximum(a: Array, b: Array) -> Any:
    return (a >= b) | np.isnan(a)


_OPERATIONS: Final[dict[int, _Operation]] = {
    ArithmeticKind.ADD: _Operation(
        lambda a, b: a + b,
        (lambda dz, z, a, b: dz, lambda dz, z, a, b: dz),
    ),
    ArithmeticKind.SUBTRACT: _Operation(
        lambda a, b: a - b,
        (lambda dz, z, a, b: dz, lambda dz, z, a, b: -dz),
    ),
    ArithmeticKind.MULTIPLY: _Operation(
        lambda a, b: a * b,
        (lambda dz, z, a, b: dz * b, lambda dz, z, a, b: dz * a),
    ),
    ArithmeticKind.DIVIDE: _Operation(
        lambda a, b: a / b,
        (lambda dz, z, a, b: dz / b, lambda dz, z, a, b: -dz * a / (b * b)),
    ),
    ArithmeticKind.SQUARE_ROOT: _unary(np.sqrt, lambda x, z: 0.5 / z),
    ArithmeticKind.RECIPROCAL_SQUARE_ROOT: _unary(lambda x: 1.0 / np.sqrt(x), lambda x, z: -0.5 * z**3),
    ArithmeticKind.CEIL: _Operation(np.ceil, (_zero,)),
    ArithmeticKind.FLOOR: _Operation(np.floor, (_zero,)),
    ArithmeticKind.ROUND: _Operation(np.rint, (_zero,)),  # ties to even
    ArithmeticKind.SIN: _unary(np.sin, lambda x, z: np.cos(x)),
    ArithmeticKind.COS: _unary(np.cos, lambda x, z: -np.sin(x)),
    ArithmeticKind.TAN: _unary(np.tan, lambda x, z: 1.0 + z * z),
    ArithmeticKind.ASIN: _unary(np.arcsin, lambda x, z: 1.0 / np.sqrt(1.0 - x * x)),
    ArithmeticKind.ACOS: _unary(np.arccos, lambda x, z: -1.0 / np.sqrt(1.0 - x * x)),
    ArithmeticKind.ATAN: _unary(np.arctan, lambda x, z: 1.0 / (1.0 + x * x)),
    ArithmeticKind.SINH: _unary(np.sinh, lambda x, z: np.cosh(x)),
    ArithmeticKind.COSH: _unary(np.cosh, lambda x, z: np.sinh(x)),
    ArithmeticKind.TANH: _unary(np.tanh, lambda x, z: 1.0 - z * z),
    ArithmeticKind.ASINH: _unary(np.arcsinh, lambda x, z: 1.0 / np.sqrt(x * x + 1.0)),
    ArithmeticKind.ACOSH: _unary(np.arccosh, lambda x, z: 1.0 / np.sqrt(x * x - 1.0)),
    ArithmeticKind.ATANH: _unary(np.arctanh, lambda x, z: 1.0 / (1.0 - x * x)),
    ArithmeticKind.POW: _Operation(np.power, (_power_base_gradient, _power_exponent_gradient)),
    ArithmeticKind.EXP: _unary(np.exp, lambda x, z: z),
    ArithmeticKind.EXP2: _unary(np.exp2, lambda x, z: z * math.log(2.0)),
    ArithmeticKind.LOG: _unary(np.log, lambda x, z: 1.0 / x),
    ArithmeticKind.LOG2: _unary(np.log2, lambda x, z: 1.0 / (x * math.log(2.0))),
    ArithmeticKind.MULTIPLY_NO_NAN: _Operation(
        _multiply_no_nan,
        (lambda dz, z, a, b: _multiply_no_nan(dz, b), lambda dz, z, a, b: _multiply_no_nan(a, dz)),
    ),
    ArithmeticKind.DIVIDE_NO_NAN: _Operation(
        _divide_no_nan,
        (lambda dz, z, a, b: _divide_no_nan(dz, b), lambda dz, z, a, b: _divide_no_nan(-dz * a / b, b)),
    ),
    ArithmeticKind.MULTIPLY_ADD: _Operation(
        lambda a, b, c: a * b + c,
        (lambda dz, z, a, b, c: dz * b, lambda dz, z, a, b, c: dz * a, lambda dz, z, a, b, c: dz),
    ),
    ArithmeticKind.MINIMUM: _Operation(
        np.minimum,
        (
            lambda dz, z, a, b: np.where(_first_is_minimum(a, b), dz, 0.0),
            lambda dz, z, a, b: np.where(_first_is_minimum(a, b), 0.0, dz),
        ),
    ),
    ArithmeticKind.MAXIMUM: _Operation(
        np.maximum,
        (
            lambda dz, z, a, b: np.where(_first_is_maximum(a, b), dz, 0.0),
            lambda dz, z, a, b: np.where(_first_is_maximum(a, b), 0.0, dz),
        ),
    ),
    ArithmeticKind.SELECT: _Operation(
        _select,
        (
            _zero,  # a condition has no slope
            lambda dz, z, a, b, c: np.where(a != 0.0, dz, 0.0),
            lambda dz, z, a, b, c: np.where(a != 0.0, 0.0, dz),
        ),
    ),
    ArithmeticKind.ABS: _unary(np.abs, lambda x, z: np.sign(x)),
    ArithmeticKind.SIGN: _Operation(np.sign, (_zero,)),
    ArithmeticKind.NEGATE: _unary(np.negative, lambda x, z: -1.0),
    ArithmeticKind.RECIPROCAL: _unary(lambda x: 1.0 / x, lambda x, z: -z * z),
    ArithmeticKind.SQUARE: _unary(np.square, lambda x, z: 2.0 * x),
    ArithmeticKind.FLOOR_DIVIDE: _Operation(lambda a, b: np.floor(a / b), (_zero, _zero)),
    ArithmeticKind.TRUNC_DIVIDE: _Operation(lambda a, b: np.trunc(a / b), (_zero, _zero)),
    ArithmeticKind.TRUNC_REMAINDER: _Operation(
        np.fmod,  # a - b*trunc(a/b) without its rounding errors
        (lambda dz, z, a, b: dz, lambda dz, z, a, b: -dz * np.trunc(a / b)),
    ),
    ArithmeticKind.ERF: _unary(activation.erf, lambda x, z: activation.erf_slope(x)),
}


OPERAND_COUNT: Final[dict[int, int]] = {
    function: len(operation.gradients) for function, operation in _OPERATIONS.items()
}
"""1, 2 or 3 operands for each function."""
