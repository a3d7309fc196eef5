"""Native plan of fused chains."""

from __future__ import annotations

# Slots beyond those of the first layer, as in core/kernels/kernels.h.
BETA, GAMMA, DBETA, DGAMMA, MOVING_MEAN, MOVING_VARIANCE = range(8, 14)
