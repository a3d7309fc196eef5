"""Names of operators of ONNX beside those of operations here, for the reader and the writer."""

from __future__ import annotations

from ... import ActivationFunction
from ..converted.rows import row

ARITHMETIC = {
    "Abs": "abs", "Neg": "neg", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Reciprocal": "reciprocal", "Sin": "sin",
    "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh",
    "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh", "Erf": "erf", "Floor": "floor", "Ceil": "ceil", "Round": "round",
    "Sign": "sign", "Add": "add", "Sub": "sub", "Mul": "mul",
}  # fmt: skip
SEVERAL = {"Max": "maximum", "Min": "minimum", "Sum": "add"}
"""Functions of any number of operands."""
MASKS = {
    "Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge", "And": "logical_and",
    "Or": "logical_or", "Xor": "logical_xor", "Not": "logical_not", "IsNaN": "isnan",
}  # fmt: skip
BITS = {"BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor"}
COMPOSITES = {"Mish": "mish"}
_TANH = {name: getattr(ActivationFunction.gelu_approximation(), name) for name in ("alpha", "beta")}
ACTIVATIONS = [
    row("Relu", "rectified_linear"), row("Sigmoid", "sigmoid"), row("Tanh", "tanh"), row("Softsign", "softsign"),
    row("LeakyRelu", "leaky_rectified_linear", alpha=0.01), row("Elu", "elu", alpha=1.0), row("Celu", "celu", alpha=1.0),
    row("HardSigmoid", "hard_sigmoid", alpha=0.2, beta=0.5), row("Softplus", "softplus", fixed={"alpha": 1.0, "beta": 1.0}),
    row("HardSwish", "hard_swish"), row("ThresholdedRelu", "threshold", fixed={"beta": 0.0}, alpha=1.0),
    row("Gelu", "gelu", {"approximate": "none"}), row("Gelu", "gelu_approximation", {"approximate": "tanh"}, _TANH),
]  # fmt: skip
WINDOWS = {
    "conv": "Conv", "conv_transpose": "ConvTranspose", "max": "MaxPool", "average": "AveragePool", "l2_norm": "LpPool",
}  # fmt: skip
SAME = {"SAME_UPPER": "same", "SAME_LOWER": "same_lower"}
