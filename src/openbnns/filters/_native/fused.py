"""Native plan of fused chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...engines import _core as core
from ...reference.activation import Activation, Function
from ...reference.normalization import Normalization
from ._activation import spec

if TYPE_CHECKING:
    from ... import _core

# Slots beyond those of the first layer, as in core/kernels/kernels.h.
BETA, GAMMA, DBETA, DGAMMA, MOVING_MEAN, MOVING_VARIANCE = range(8, 14)


def plan(
    first: _core.Plan | None,
    arithmetic: bool,
    n: Normalization,
    shape: Sequence[int],
    beta_shape: Sequence[int],
    gamma_shape: Sequence[int],
    f: Activation,
    slope_from_input: bool,
) -> _core.Plan:
    """The plan ``first``, of a layer with one input or of ``arithmetic``, followed by a normalization of samples
    ``shape`` (C, H, W) as the plan of a normalization has it."""
    if f.right_slope:  # slope 1 at 0: that of LeakyRectifiedLinear with alpha 0
        f = Activation(Function.LEAKY_RECTIFIED_LINEAR)
    return core.fused(
        first, arithmetic, n.kind, list(shape), n.axis, n.groups, [n.epsilon, n.momentum],
        [n.torch_moving, slope_from_input], list(beta_shape), list(gamma_shape), spec(f),
    )  # fmt: skip
