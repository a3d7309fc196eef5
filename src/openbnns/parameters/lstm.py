"""The gates of an LSTM and their activations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .activation import Activation, ActivationKind

GATES: Final = ("input", "forget", "candidate", "output")
"""The gates i, f, g, o by the names that they have in `Cell` and in gradients."""

_SIGMOID = Activation(ActivationKind.SIGMOID)
_TANH = Activation(ActivationKind.TANH)


@dataclass(frozen=True)
class Activations:
    """fi, ff, fg, fo of the gates and fh of the cell state; axis-wise functions run along the hidden axis."""

    input: Activation = _SIGMOID
    forget: Activation = _SIGMOID
    candidate: Activation = _TANH
    output: Activation = _SIGMOID
    hidden: Activation = _TANH

    def gate(self, name: str) -> Activation:
        """The activation of one of GATES."""
        function: Activation = getattr(self, name)
        return function


DEFAULT_ACTIVATIONS: Final = Activations()
"""Sigmoid for the gates, tanh for the candidate and the cell state."""
