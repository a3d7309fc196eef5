"""Rules for activations, alone and fused into other filters, and how they cross into native code."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import compat, engines
from .._words import Caller
from ..abi.enums import BNNSActivationFunction
from ..errors import Problem
from ..parameters.activation import FROM_OUTPUT, Activation, ActivationKind

if TYPE_CHECKING:
    from .. import _core

_FUNCTIONS = frozenset(map(int, ActivationKind))
_FLOAT = struct.Struct("f")

# Functions that cannot be fused into another filter.
_STANDALONE_ONLY = {
    ActivationKind.INTEGER_LINEAR_SATURATE,
    ActivationKind.INTEGER_LINEAR_SATURATE_PER_CHANNEL,
    ActivationKind.GUMBEL,
    ActivationKind.GUMBEL_MAX,
}


def function_name(function: int) -> str:
    """``Tanh`` for 4; the number itself when there is no such function."""
    try:
        return ActivationKind(function).name if function == ActivationKind.HARD_SWISH else _c_name(function)
    except ValueError:
        return str(int(function))


def _c_name(function: int) -> str:
    return BNNSActivationFunction(function).name.removeprefix("BNNSActivationFunction")


def resolve_fused(activation: Any, who: Caller, field: str = "activation") -> Activation:
    """The activation of a layer; one that cannot be fused is refused."""
    subject = who(f"{field}.function")
    function = check_function(activation.function, subject)
    if function in _STANDALONE_ONLY:
        raise Problem(
            f"{subject} is {function_name(function)}, which cannot be fused into another layer. "
            f"Create it on its own, with {who.name('BNNSFilterCreateLayerActivation')}.",
            unsupported=True,
        )
    if (
        function == ActivationKind.PRELU_PER_CHANNEL
    ):  # creation replicates alpha to every channel; fused, it stays that way
        function = int(ActivationKind.LEAKY_RECTIFIED_LINEAR)
        return Activation(function, as_float32(activation.alpha), 0.0)
    return make_activation(function, activation)


def make_activation(function: int, activation: Any) -> Activation:
    """A function with its parameters, read according to the compat switches in force."""
    right_slope = compat.switches.kink_derivative_from_right and function == ActivationKind.RECTIFIED_LINEAR
    return Activation(function, as_float32(activation.alpha), as_float32(activation.beta), right_slope=right_slope)


def as_float32(value: Any) -> float:
    """A C ``float`` field: the nearest float32."""
    try:
        nearest: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return nearest


def check_function(function: Any, who: str) -> int:
    """The number of a known activation function."""
    number = int(function)
    if number not in _FUNCTIONS:
        raise Problem(
            f"{who} is {number}, which is not a BNNSActivationFunction. Use one of 0 to {max(ActivationKind)}."
        )
    return number


def check_trainable(f: Activation, caller: str, original: int | None = None) -> None:
    """Refuse a fused activation whose derivative cannot be taken from the output."""
    function = f.function if original is None else original
    if function not in FROM_OUTPUT:
        raise Problem(
            f"{caller}: the fused activation {function_name(function)} cannot be trained, because its derivative cannot "
            "be taken from the layer's output. Make it a separate activation, which keeps its input.",
            unsupported=True,
        )
    needs_positive_alpha = (ActivationKind.LEAKY_RECTIFIED_LINEAR, ActivationKind.CLAMPED_LEAKY_RECTIFIED_LINEAR)
    if function in needs_positive_alpha and not f.alpha > 0:
        raise Problem(
            f"{caller}: the fused activation {function_name(function)} has alpha {f.alpha:g}; in training alpha must be "
            "above 0, or the sign of the input is lost. Use a positive alpha or a separate activation.",
            unsupported=True,
        )


def needs_input(f: Activation) -> bool:
    """True if the derivative cannot be computed without the input: ELU with a negative alpha."""
    return f.function == ActivationKind.ELU and f.alpha < 0


def output_determines_slope(f: Activation) -> bool:
    """True if the output alone determines the derivative; if not, it comes from z, recomputed from the layer's input."""
    if f.function == ActivationKind.GELU_APPROXIMATION_SIGMOID or f.right_slope or needs_input(f):
        return False
    return not (f.function == ActivationKind.THRESHOLD and f.beta > f.alpha)


def native_activation(f: Activation, seed: int = 0) -> _core.ActivationSpec:
    """A function in the form that native code takes; ``seed`` is for the Gumbel functions."""
    return engines._core.ActivationSpec(function=int(f.function), alpha=f.alpha, beta=f.beta, seed=seed)


def native_slope(f: Activation) -> _core.ActivationSpec:
    """The function whose derivative the kernel takes from the input.

    ReLU with slope 1 at 0 (``right_slope``) has the derivative of LeakyRectifiedLinear with alpha 0.
    """
    return native_activation(Activation(ActivationKind.LEAKY_RECTIFIED_LINEAR) if f.right_slope else f)


def gradient_from_input(f: Activation, z: NDArray[Any], dy: NDArray[Any], threads: int) -> NDArray[Any]:
    """dz = dy * f'(z), computed from z (N, ...) by the activation kernel along the last axis."""
    length = z.shape[-1]
    plan = engines._core.activation(outer=1, length=length, inner=1, channels=0, activation=native_slope(f))
    z = np.ascontiguousarray(z)
    dy = np.ascontiguousarray(dy)
    dz = np.empty_like(dy)
    x_slot, dx_slot, dy_slot = 0, 4, 5
    places = [(x_slot, z.ctypes.data, length), (dx_slot, dz.ctypes.data, length), (dy_slot, dy.ctypes.data, length)]
    engines._core.run(plan, True, z.size // length, places, 0, threads)
    return dz
