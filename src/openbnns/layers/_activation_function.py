"""Activation functions with their parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..abi.enums import BNNSActivationFunction
from ..abi.structs import BNNSActivation
from ._choice import Choice, interval, number

_C = BNNSActivationFunction

GELU_ALPHA = math.sqrt(2.0 / math.pi)
GELU_BETA = 0.044715


@dataclass(frozen=True, eq=False, repr=False)
class ActivationFunction(Choice):
    """An activation and its parameters, for a separate layer or fused into another layer.

    Every factory gives the formula of its function; `bnns_activation` is the C struct.

    >>> from openbnns import *
    >>> ActivationFunction.elu(alpha=1.0)
    ActivationFunction.elu(alpha=1.0)
    >>> ActivationFunction.clamp(bounds=(0, 6)).bnns_activation
    BNNSActivation(function=BNNSActivationFunctionClamp, beta=6.0)
    """

    _aliases: ClassVar[dict[str, str]] = {
        "relu": "rectified_linear", "leaky_relu": "leaky_rectified_linear", "prelu": "prelu_per_channel", "swish": "silu",
        "relu_6": "relu6", "hard_tanh": "clamp", "clip": "clamp", "none": "identity",
    }  # fmt: skip

    function: BNNSActivationFunction
    alpha: float = 0.0
    beta: float = 0.0
    scale: int = 0
    offset: int = 0
    shift: int = 0
    scales: Any = None
    offsets: Any = None
    shifts: Any = None

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper limit of a clamp."""
        return (self.alpha, self.beta)

    @property
    def bnns_activation(self) -> BNNSActivation:
        """A new C struct with this function and these parameters."""
        return BNNSActivation(
            function=self.function,
            alpha=self.alpha,
            beta=self.beta,
            iscale=self.scale,
            ioffset=self.offset,
            ishift=self.shift,
            iscale_per_channel=self.scales,
            ioffset_per_channel=self.offsets,
            ishift_per_channel=self.shifts,
        )

    @staticmethod
    def identity() -> ActivationFunction:
        """y = x."""
        return _plain("identity", _C.BNNSActivationFunctionIdentity)

    @staticmethod
    def rectified_linear() -> ActivationFunction:
        """y = max(x, 0)."""
        return _plain("rectified_linear", _C.BNNSActivationFunctionRectifiedLinear)

    @staticmethod
    def leaky_rectified_linear(alpha: float) -> ActivationFunction:
        """y = x where x >= 0, alpha x elsewhere. A separate layer also computes the gradient of alpha."""
        return _with_alpha("leaky_rectified_linear", _C.BNNSActivationFunctionLeakyRectifiedLinear, alpha)

    @staticmethod
    def sigmoid() -> ActivationFunction:
        """y = 1 / (1 + exp(-x))."""
        return _plain("sigmoid", _C.BNNSActivationFunctionSigmoid)

    @staticmethod
    def log_sigmoid() -> ActivationFunction:
        """y = log(sigmoid(x))."""
        return _plain("log_sigmoid", _C.BNNSActivationFunctionLogSigmoid)

    @staticmethod
    def tanh() -> ActivationFunction:
        """y = tanh(x)."""
        return _plain("tanh", _C.BNNSActivationFunctionTanh)

    @staticmethod
    def scaled_tanh(alpha: float, beta: float) -> ActivationFunction:
        """y = alpha tanh(beta x)."""
        return _with_both("scaled_tanh", _C.BNNSActivationFunctionScaledTanh, alpha, beta)

    @staticmethod
    def abs() -> ActivationFunction:
        """y = |x|."""
        return _plain("abs", _C.BNNSActivationFunctionAbs)

    @staticmethod
    def linear(alpha: float) -> ActivationFunction:
        """y = alpha x."""
        return _with_alpha("linear", _C.BNNSActivationFunctionLinear, alpha)

    @staticmethod
    def linear_with_bias(alpha: float, beta: float) -> ActivationFunction:
        """y = alpha x + beta."""
        return _with_both("linear_with_bias", _C.BNNSActivationFunctionLinearWithBias, alpha, beta)

    @staticmethod
    def clamp(bounds: Sequence[float]) -> ActivationFunction:
        """y = min(max(x, low), high) with bounds (low, high)."""
        low, high = interval(bounds, "ActivationFunction.clamp: bounds")
        function = _C.BNNSActivationFunctionClamp
        return ActivationFunction("clamp", function, low, high, labels=("bounds",))

    @staticmethod
    def softmax() -> ActivationFunction:
        """y_i = exp(x_i) / sum_j exp(x_j) along an axis."""
        return _plain("softmax", _C.BNNSActivationFunctionSoftmax)

    @staticmethod
    def log_softmax() -> ActivationFunction:
        """y_i = x_i - log(sum_j exp(x_j)) along an axis."""
        return _plain("log_softmax", _C.BNNSActivationFunctionLogSoftmax)

    @staticmethod
    def gelu_approximation(alpha: float = GELU_ALPHA, beta: float = GELU_BETA) -> ActivationFunction:
        """y = 0.5 x (1 + tanh(alpha (x + beta x^3))); the defaults approximate GELU."""
        return _with_both("gelu_approximation", _C.BNNSActivationFunctionGELUApproximation, alpha, beta)

    @staticmethod
    def gelu_approximation2(alpha: float = GELU_ALPHA, beta: float = GELU_BETA) -> ActivationFunction:
        """y = x min(max(x + 3, 0), 6) / 6, another name of `hard_swish`; alpha and beta take no part."""
        return _with_both("gelu_approximation2", _C.BNNSActivationFunctionGELUApproximation2, alpha, beta)

    @staticmethod
    def hard_swish(alpha: float = 1.0 / 6.0, beta: float = 0.5) -> ActivationFunction:
        """y = x min(max(x + 3, 0), 6) / 6; alpha and beta take no part."""
        return _with_both("hard_swish", _C.BNNSActivationFunctionHardSwish, alpha, beta)

    @staticmethod
    def hard_sigmoid(alpha: float, beta: float) -> ActivationFunction:
        """y = max(0, min(1, alpha x + beta))."""
        return _with_both("hard_sigmoid", _C.BNNSActivationFunctionHardSigmoid, alpha, beta)

    @staticmethod
    def softplus(alpha: float = 1.0, beta: float = 1.0) -> ActivationFunction:
        """y = alpha log(1 + exp(beta x))."""
        return _with_both("softplus", _C.BNNSActivationFunctionSoftplus, alpha, beta)

    @staticmethod
    def softsign() -> ActivationFunction:
        """y = x / (1 + |x|)."""
        return _plain("softsign", _C.BNNSActivationFunctionSoftsign)

    @staticmethod
    def elu(alpha: float = 1.0) -> ActivationFunction:
        """y = x where x >= 0, alpha (exp(x) - 1) elsewhere."""
        return _with_alpha("elu", _C.BNNSActivationFunctionELU, alpha)

    @staticmethod
    def selu() -> ActivationFunction:
        """y = 1.0507... x where x >= 0, 1.0507... 1.6732... (exp(x) - 1) elsewhere."""
        return _plain("selu", _C.BNNSActivationFunctionSELU)

    @staticmethod
    def celu(alpha: float = 1.0) -> ActivationFunction:
        """y = x where x >= 0, alpha (exp(x / alpha) - 1) elsewhere."""
        return _with_alpha("celu", _C.BNNSActivationFunctionCELU, alpha)

    @staticmethod
    def clamped_leaky_rectified_linear(alpha: float, beta: float) -> ActivationFunction:
        """y = min(x, beta) where x >= 0, min(alpha x, beta) elsewhere."""
        function = _C.BNNSActivationFunctionClampedLeakyRectifiedLinear
        return _with_both("clamped_leaky_rectified_linear", function, alpha, beta)

    @staticmethod
    def hard_shrink(alpha: float = 0.5) -> ActivationFunction:
        """y = 0 where |x| < |alpha|, x elsewhere."""
        return _with_alpha("hard_shrink", _C.BNNSActivationFunctionHardShrink, alpha)

    @staticmethod
    def soft_shrink(alpha: float = 0.5) -> ActivationFunction:
        """y = 0 where |x| < |alpha|, x moved towards zero by alpha elsewhere."""
        return _with_alpha("soft_shrink", _C.BNNSActivationFunctionSoftShrink, alpha)

    @staticmethod
    def tanh_shrink() -> ActivationFunction:
        """y = x - tanh(x)."""
        return _plain("tanh_shrink", _C.BNNSActivationFunctionTanhShrink)

    @staticmethod
    def threshold(alpha: float, beta: float) -> ActivationFunction:
        """y = x where x > alpha, beta elsewhere."""
        return _with_both("threshold", _C.BNNSActivationFunctionThreshold, alpha, beta)

    @staticmethod
    def gumbel(alpha: float, beta: float) -> ActivationFunction:
        """y = -log(-log(alpha U + beta) + beta) with U uniform in (0, 1); the input is ignored."""
        return _with_both("gumbel", _C.BNNSActivationFunctionGumbel, alpha, beta)

    @staticmethod
    def gumbel_max(alpha: float, beta: float) -> ActivationFunction:
        """y = max_j(x_j - log(-log(alpha U_j + beta) + beta)) along an axis, with U uniform in (0, 1)."""
        return _with_both("gumbel_max", _C.BNNSActivationFunctionGumbelMax, alpha, beta)

    @staticmethod
    def silu() -> ActivationFunction:
        """y = x sigmoid(x)."""
        return _plain("silu", _C.BNNSActivationFunctionSiLU)

    @staticmethod
    def prelu_per_channel(alpha: float = 0.25) -> ActivationFunction:
        """y = x where x >= 0, alpha_c x elsewhere, alpha_c of each channel starting at alpha. Not in Swift."""
        return _with_alpha("prelu_per_channel", _C.BNNSActivationFunctionPReLUPerChannel, alpha)

    @staticmethod
    def relu6() -> ActivationFunction:
        """y = min(max(x, 0), 6). Not in Swift."""
        return _plain("relu6", _C.BNNSActivationFunctionReLU6)

    @staticmethod
    def erf() -> ActivationFunction:
        """y = erf(x). Not in Swift."""
        return _plain("erf", _C.BNNSActivationFunctionErf)

    @staticmethod
    def gelu() -> ActivationFunction:
        """y = 0.5 x (1 + erf(x / sqrt(2))). Not in Swift."""
        return _plain("gelu", _C.BNNSActivationFunctionGELU)

    @staticmethod
    def gelu_approximation_sigmoid() -> ActivationFunction:
        """y = x sigmoid(1.702 x). Not in Swift."""
        return _plain("gelu_approximation_sigmoid", _C.BNNSActivationFunctionGELUApproximationSigmoid)

    @staticmethod
    def integer_linear_saturate(scale: int, offset: int = 0, shift: int = 0) -> ActivationFunction:
        """y = saturate((scale x + offset) >> shift) on integers. Not in Swift."""
        return ActivationFunction(
            "integer_linear_saturate",
            _C.BNNSActivationFunctionIntegerLinearSaturate,
            scale=scale,
            offset=offset,
            shift=shift,
            labels=("scale", "offset", "shift"),
        )

    @staticmethod
    def integer_linear_saturate_per_channel(scales: Any, offsets: Any, shifts: Any) -> ActivationFunction:
        """The same with int32 arrays that hold one value per channel. Not in Swift."""
        return ActivationFunction(
            "integer_linear_saturate_per_channel",
            _C.BNNSActivationFunctionIntegerLinearSaturatePerChannel,
            scales=scales,
            offsets=offsets,
            shifts=shifts,
            labels=("scales", "offsets", "shifts"),
        )


def _plain(case: str, function: BNNSActivationFunction) -> ActivationFunction:
    return ActivationFunction(case, function, labels=())


def _with_alpha(case: str, function: BNNSActivationFunction, alpha: float) -> ActivationFunction:
    alpha = number(alpha, f"ActivationFunction.{case}: alpha")
    return ActivationFunction(case, function, alpha, labels=("alpha",))


def _with_both(case: str, function: BNNSActivationFunction, alpha: float, beta: float) -> ActivationFunction:
    who = f"ActivationFunction.{case}"
    alpha, beta = number(alpha, f"{who}: alpha"), number(beta, f"{who}: beta")
    return ActivationFunction(case, function, alpha, beta, labels=("alpha", "beta"))
