"""Activations and arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .... import ActivationFunction
from ....graph.operations import Activation, Prelu, Reduction
from ...converted.rows import written
from ..activation_rows import ROWS
from ..names import REDUCTIONS
from .program_builder import ProgramBuilder, Refused, Value, writes


def _f(number: float) -> Any:
    """A number of the program."""
    return np.float32(number)


def _gelu_tanh(b: ProgramBuilder, x: Value, f: ActivationFunction) -> Value:
    raise Refused(
        f"gelu with alpha {f.alpha:g} and beta {f.beta:g} is not in Core ML, which has it with its usual numbers"
    )


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


def _hard_swish(b: ProgramBuilder, x: Value, _: ActivationFunction) -> Value:
    return b("mul", x=x, y=b("sigmoid_hard", x=x, alpha=_f(1 / 6), beta=_f(0.5)))


def _soft_shrink(b: ProgramBuilder, x: Value, f: ActivationFunction) -> Value:
    kept = b("relu", x=b("sub", x=b("abs", x=x), y=_f(f.alpha)))
    return b("mul", x=b("sign", x=x), y=kept)


_WITH_NUMBERS: dict[str, Callable[[ProgramBuilder, Value, ActivationFunction], Value]] = {
    "celu": _celu,
    "selu": _selu,
    "softplus": _softplus,
    "clamp": lambda b, x, f: b("clip", x=x, alpha=_f(f.alpha), beta=_f(f.beta)),
    "linear": lambda b, x, f: b("mul", x=x, y=_f(f.alpha)),
    "hard_swish": _hard_swish,
    "soft_shrink": _soft_shrink,
    "gelu_approximation": _gelu_tanh,
    "tanh_shrink": lambda b, x, f: b("sub", x=x, y=b("tanh", x=x)),
    "log_sigmoid": lambda b, x, f: b("mul", x=b("softplus", x=b("mul", x=x, y=_f(-1))), y=_f(-1)),
}


def activated(b: ProgramBuilder, x: Value, f: ActivationFunction) -> Value:
    """An elementwise function of a value."""
    if f.case == "identity":
        return x
    if f.case in ("erf", "abs"):
        return b(f.case, x=x)
    row = written(ROWS, f)
    if row is not None:
        given: dict[str, Any] = {key: each if isinstance(each, str) else _f(each) for key, each in row[1].items()}
        return b(row[0], x=x, **given)
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
