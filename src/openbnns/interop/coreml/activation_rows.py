"""Activations of Core ML that are one activation here, for the reader and the writer."""

from ... import ActivationFunction
from ..converted.rows import row

_TANH = {name: getattr(ActivationFunction.gelu_approximation(), name) for name in ("alpha", "beta")}

ROWS = [
    row("relu", "rectified_linear"), row("sigmoid", "sigmoid"), row("tanh", "tanh"), row("softsign", "softsign"),
    row("relu6", "relu6"), row("silu", "silu"), row("softplus", "softplus", fixed={"alpha": 1.0, "beta": 1.0}),
    row("elu", "elu", alpha=1.0), row("leaky_relu", "leaky_rectified_linear", alpha=0.1),
    row("linear_activation", "linear_with_bias", alpha=1.0, beta=0.0), row("scaled_tanh", "scaled_tanh", alpha=1.0, beta=1.0),
    row("sigmoid_hard", "hard_sigmoid", alpha=0.2, beta=0.5), row("gelu", "gelu", {"mode": "EXACT"}),
    row("gelu", "gelu_approximation", {"mode": "TANH_APPROXIMATION"}, _TANH),
]  # fmt: skip
