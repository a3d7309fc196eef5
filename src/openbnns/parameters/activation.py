"""Activation functions: their numbers, their parameters, and what their derivatives need."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt


class ActivationKind(IntEnum):
    """The numbers of BNNSActivationFunction."""

    IDENTITY = 0
    RECTIFIED_LINEAR = 1
    LEAKY_RECTIFIED_LINEAR = 2
    SIGMOID = 3
    TANH = 4
    SCALED_TANH = 5
    ABS = 6
    LINEAR = 7
    CLAMP = 8
    INTEGER_LINEAR_SATURATE = 9
    INTEGER_LINEAR_SATURATE_PER_CHANNEL = 10
    SOFTMAX = 11
    GELU_APPROXIMATION = 12
    GUMBEL = 13
    GUMBEL_MAX = 14
    HARD_SIGMOID = 15
    SOFTPLUS = 16
    SOFTSIGN = 17
    ELU = 18
    CLAMPED_LEAKY_RECTIFIED_LINEAR = 19
    LINEAR_WITH_BIAS = 20
    LOG_SOFTMAX = 21
    LOG_SIGMOID = 22
    SELU = 23
    CELU = 24
    HARD_SHRINK = 25
    SOFT_SHRINK = 26
    TANH_SHRINK = 27
    THRESHOLD = 28
    PRELU_PER_CHANNEL = 29
    HARD_SWISH = 30
    SILU = 31
    RELU6 = 32
    ERF = 33
    GELU = 34
    GELU_APPROXIMATION_SIGMOID = 35


@dataclass(frozen=True)
class Activation:
    """One activation function with its parameters; channel_alpha (C,) belongs to axis 1 of an (N, C, ...) array.

    right_slope makes the derivative of RectifiedLinear at 0 the one from the right (1), which the output does not determine.
    """

    function: int
    alpha: float = 0.0
    beta: float = 0.0
    channel_alpha: npt.NDArray[np.float64] | None = None
    right_slope: bool = False


IDENTITY: Final = Activation(ActivationKind.IDENTITY)

AXIS_WISE: Final = frozenset({ActivationKind.SOFTMAX, ActivationKind.LOG_SOFTMAX, ActivationKind.GUMBEL_MAX})
"""Functions whose outputs depend on all inputs along some axes."""

ELEMENTWISE: Final[frozenset[int]] = frozenset(ActivationKind) - AXIS_WISE
"""Functions whose every output depends on one input only."""

FROM_OUTPUT: Final[frozenset[int]] = frozenset(
    {
        ActivationKind.IDENTITY,
        ActivationKind.RECTIFIED_LINEAR,
        ActivationKind.LEAKY_RECTIFIED_LINEAR,
        ActivationKind.SIGMOID,
        ActivationKind.LOG_SIGMOID,
        ActivationKind.TANH,
        ActivationKind.LINEAR,
        ActivationKind.CLAMP,
        ActivationKind.SOFTMAX,
        ActivationKind.HARD_SIGMOID,
        ActivationKind.SOFTPLUS,
        ActivationKind.SOFTSIGN,
        ActivationKind.ELU,
        ActivationKind.SELU,
        ActivationKind.CELU,
        ActivationKind.CLAMPED_LEAKY_RECTIFIED_LINEAR,
        ActivationKind.LINEAR_WITH_BIAS,
        ActivationKind.LOG_SOFTMAX,
        ActivationKind.HARD_SHRINK,
        ActivationKind.SOFT_SHRINK,
        ActivationKind.TANH_SHRINK,
        ActivationKind.THRESHOLD,
        ActivationKind.GELU_APPROXIMATION_SIGMOID,
    }
)
"""Functions that may be fused into a layer that trains: their derivative is taken from y."""
