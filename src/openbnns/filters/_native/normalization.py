"""Native plan of a normalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...engines import _core as core
from ...reference.activation import Activation, Function
from ...reference.normalization import Normalization
from ._activation import spec

if TYPE_CHECKING:
    from ... import _core


def plan(
    n: Normalization,
    shape: Sequence[int],
    beta_shape: Sequence[int],
    gamma_shape: Sequence[int],
    f: Activation,
    slope_from_input: bool,
) -> _core.Plan:
    """For samples of ``shape`` (C, H, W); the shapes of beta and gamma matter to layer normalization only.

    ``slope_from_input``: the derivative of the activation is taken from z instead of from y.
    """
    if f.right_slope:  # slope 1 at 0: that of LeakyRectifiedLinear with alpha 0
        f = Activation(Function.LEAKY_RECTIFIED_LINEAR)
    return core.normalization(
        n.kind, list(shape), n.axis, n.groups, [n.epsilon, n.momentum], [n.torch_moving, slope_from_input],
        list(beta_shape), list(gamma_shape), spec(f),
    )  # fmt: skip
