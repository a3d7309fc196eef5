"""Activations and arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .... import ActivationFunction
from ....graph.operations import Activation, Arithmetic, Prelu, Reduction
from ..names import ACTIVATIONS, BINARY, REDUCTIONS, UNARY
from .program_builder import ProgramBuilder, Refused, Value, array_of, writes


def _f(number: float) -> Any:
    """A number of the program."""
    return np.float32(number)


def _gelu_tanh(b: ProgramBuilder, x: Value, f: ActivationFunction) -> Value:
    usual = ActivationFunction.gelu_approximation()
    if (f.alpha, f.beta) != (usual.alpha, usual.beta):
        raise Refused(f"gelu with alpha {f.alpha:g} and beta {f.beta:g} is none of Core ML")
    return b("gelu", x=x, mode="TANH_APPROXIMATION")


def _celu(b: ProgramBuilder, x: Value, f: ActivationFunction) -> Value:
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1))"""
    grown = b("sub", x=b("exp", x=b("mul", x=x, y=_f(1 / f.alpha))), y=_f(1))
    below = b("minimum", x=_f(0), y=b("mul", x=grown, y=_f(f.alpha)))
    return b("add", x=b("relu", x=x), y=below)


def _selu(b: ProgramBuilder, x: Value, _: ActivationFunction) -> Value:
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return b("mul", x=b("elu", x=x, alpha=_f(alpha)), y=_f(scale))


def _softplus(b: ProgramBuilder, x: Value, f: ActivationFunction) -> Value:
    """alpha log(1 + exp(beta x))"""
    scaled = x if f.beta == 1 else b("mul", x=x, y=_f(f.beta))
    y = b("softplus", x=scaled)
    return y if f.alpha == 1 else b("mul", x=y, y=_f(f.alpha))


def _hard_swish(b: ProgramBuilder, x: Value, f: ActivationFunction) -> Value:
    return b("mul", x=x, y=b("sigmoid_hard", x=x, alpha=_f(f.alpha), beta=_f(f.beta)))


def _soft_shrink(b: ProgramBuilder, x: Value, f: ActivationFunction) -> Value:
    kept = b("relu", x=b("sub", x=b("abs", x=x), y=_f(f.alpha)))
    return b("mul", x=b("sign", x=x), y=kept)


def _scaled_tanh(b: ProgramBuilder, x: Value, f: ActivationFunction) -> Value:
    return b("scaled_tanh", x=x, alpha=_f(f.alpha), beta=_f(f.beta))


_WITH_NUMBERS: dict[str, Callable[[ProgramBuilder, Value, ActivationFunction], Value]] = {
    "leaky_rectified_linear": lambda b, x, f: b("leaky_relu", x=x, alpha=_f(f.alpha)),
    "elu": lambda b, x, f: b("elu", x=x, alpha=_f(f.alpha)),
    "celu": _celu,
    "selu": _selu,
    "softplus": _softplus,
    "clamp": lambda b, x, f: b("clip", x=x, alpha=_f(f.alpha), beta=_f(f.beta)),
    "linear": lambda b, x, f: b("mul", x=x, y=_f(f.alpha)),
    "linear_with_bias": lambda b, x, f: b("linear_activation", x=x, alpha=_f(f.alpha), beta=_f(f.beta)),
    "hard_sigmoid": lambda b, x, f: b("sigmoid_hard", x=x, alpha=_f(f.alpha), beta=_f(f.beta)),
    "hard_swish": _hard_swish,
    "soft_shrink": _soft_shrink,
    "scaled_tanh": _scaled_tanh,
    "gelu": lambda b, x, f: b("gelu", x=x, mode="EXACT"),
    "gelu_approximation": _gelu_tanh,
    "tanh_shrink": lambda b, x, f: b("sub", x=x, y=b("tanh", x=x)),
    "log_sigmoid": lambda b, x, f: b("mul", x=b("softplus", x=b("mul", x=x, y=_f(-1))), y=_f(-1)),
}


def activated(b: ProgramBuilder, x: Value, f: ActivationFunction) -> Value:
    """An elementwise function of a value."""
    if f.case == "identity":
        return x
    if f.case in ACTIVATIONS:
        return b(ACTIVATIONS[f.case], x=x)
    if f.case in _WITH_NUMBERS:
        return _WITH_NUMBERS[f.case](b, x, f)
    raise Refused(f"there is no activation {f.case} in Core ML")


@writes(Activation)
def _activation(b: ProgramBuilder, op: Activation) -> None:
    x, case = b.get(op.inputs[0]), op.function.case
    if not op.along_axis:
        b.set(op.output, activated(b, x, op.function))
        return
    y = b("softmax", x=x, axis=op.axis)
    b.set(op.output, y if case == "softmax" else b("log", x=y))


@writes(Prelu)
def _prelu(b: ProgramBuilder, op: Prelu) -> None:
    x, count = b.get(op.inputs[0]), op.weight.data.size
    slopes = b.weight(op.weight, (-1, *[1] * (op.output.ndim - 2 if count > 1 else 0)))
    negative = b("mul", x=b("minimum", x=x, y=_f(0)), y=slopes)
    b.set(op.output, b("add", x=b("relu", x=x), y=negative))


def _unary(b: ProgramBuilder, function: str, x: Value) -> Value:
    if function in UNARY:
        return b(UNARY[function], x=x)
    if function == "LOG":
        return b("log", x=x)
    if function == "NEGATE":
        return b("mul", x=x, y=_f(-1))
    if function == "RECIPROCAL":
        return b("real_div", x=_f(1), y=x)
    if function == "RECIPROCAL_SQUARE_ROOT":
        return b("real_div", x=_f(1), y=b("sqrt", x=x))
    if function == "LOG2":
        return b("mul", x=b("log", x=x), y=_f(1 / math.log(2)))
    raise Refused(f"there is no function {function.lower()} in Core ML")


@writes(Arithmetic)
def _arithmetic(b: ProgramBuilder, op: Arithmetic) -> None:
    operands = [b.get(value) for value in op.inputs]
    function = op.function.name
    if all(array_of(x) is not None for x in operands):
        operands[0] = b("identity", x=operands[0])  # which makes it a value of the program
    if len(operands) == 1:
        y = _unary(b, function, operands[0])
    elif function in BINARY:
        y = b(BINARY[function], x=operands[0], y=operands[1])
    elif function == "MULTIPLY_ADD":
        y = b("add", x=b("mul", x=operands[0], y=operands[1]), y=operands[2])
    elif function == "SELECT":
        y = b("select", cond=b("not_equal", x=operands[0], y=_f(0)), a=operands[1], b=operands[2])
    else:
        raise Refused(f"there is no function {function.lower()} in Core ML")
    b.set(op.output, activated(b, y, op.activation))


@writes(Reduction)
def _reduction(b: ProgramBuilder, op: Reduction) -> None:
    case = op.function.case
    x = b.get(op.inputs[0])
    if case in ("arg_max", "arg_min") and len(op.axes) == 1:
        y = b(f"reduce_{case.replace('_', '')}", x=x, axis=op.axes[0], keep_dims=False)
    elif case in REDUCTIONS:
        y = b(REDUCTIONS[case].core_ml, x=x, axes=list(op.axes), keep_dims=False)
    else:
        raise Refused(f"there is no reduction {case} in Core ML")
    kept = op.output.ndim != op.inputs[0].ndim - len(op.axes)
    b.set(op.output, b.reshaped(y, op.output.shape) if kept or not op.output.ndim else y)
