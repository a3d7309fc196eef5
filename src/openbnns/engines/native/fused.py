"""Native plan of fused chains, and its runs on checked memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import _core as core

if TYPE_CHECKING:
    from ... import _core
    from ...filters._tensors import Bound
    from ...filters.fused import Fused

# Slots beyond those of the first layer, as in core/kernels/kernels.h. The output is slot 3 of every first layer.
BETA, GAMMA, DBETA, DGAMMA, MOVING_MEAN, MOVING_VARIANCE = range(8, 14)
OUT = 3
