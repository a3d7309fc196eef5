"""Native plan of an LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...engines import _core as core
from ...reference.activation import Activation, Function
from ._activation import spec

if TYPE_CHECKING:
    from ... import _core


def plan(
    sizes: Sequence[int],
    first_layers: Sequence[int],
    activations: Sequence[Activation] | None,
    dropout: float,
    batch_sizes: Sequence[int] | None,
    signature: int,
) -> _core.LstmPlan:
    """T, N, I, H, L, R; activations of the gates i, f, g, o and of the cell state, ``None`` for the usual ones."""
    gate, cell = Activation(Function.SIGMOID), Activation(Function.TANH)
    given = (gate, gate, cell, gate, cell) if activations is None else activations
    # Slope 1 at 0 is that of LeakyRectifiedLinear with alpha 0.
    slopes = [Activation(Function.LEAKY_RECTIFIED_LINEAR) if f.right_slope else f for f in given]
    return core.lstm(
        [*sizes, *first_layers], activations is None, [spec(f) for f in given], [spec(f) for f in slopes], dropout,
        [] if batch_sizes is None else list(batch_sizes), signature,
    )  # fmt: skip
