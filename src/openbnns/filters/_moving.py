"""Filters that move elements without computing: forward they work on what is stored, whatever its type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import engines
from .._words import Caller
from ..calls.signature import Call
from ..errors import Problem
from ..parameters.activation import IDENTITY, Activation
from ..tensors.descriptors import View
from ..tensors.operands import Bound
from ._base import UnaryFilter, X, Y
from ._rules import both

if TYPE_CHECKING:
    from .. import _core


def require_same_type(x: View, y: View, who: Caller, verb: str) -> None:
    """Elements that are moved keep their type."""
    if (x.element, x.scale, x.bias) != (y.element, y.scale, y.bias):
        raise Problem(
            f"{both(x, y, who)}. {verb} moves elements as they are stored: give both the same data_type, data_scale and "
            "data_bias.",
            kind=TypeError,
        )


class MovingFilter(UnaryFilter):
    """Every output element is a copy of an input element, or a constant."""

    activation = IDENTITY
    fused_function = 0

    def make_item_plan(self, item_bytes: int) -> _core.Plan:
        """The plan for elements of this many bytes; those of 4 bytes are floats."""
        raise NotImplementedError

    def make_plan(self, f: Activation) -> _core.Plan:
        return self.make_item_plan(4)

    def move(self, stored: NDArray[Any]) -> NDArray[Any]:
        """The forward pass of the reference engine on stored elements of any type."""
        raise NotImplementedError

    def reference_forward(
        self, x: NDArray[Any], w: NDArray[Any] | None, b: NDArray[Any] | None, f: Activation
    ) -> NDArray[Any]:
        return self.move(x)

    def run(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        if call.backward:
            super().run(call, batch, bound)
            return
        x, y = bound["in"], bound["out"]
        stored = x.read_raw()
        if not engines.is_native():
            y.write_raw(self.move(stored))
            return
        target = None if y.overlaps(x) else y.direct_raw()
        result = np.empty((batch, *self.output.shape), stored.dtype) if target is None else target
        plan = self.plan if stored.itemsize == 4 else self.make_item_plan(stored.itemsize)
        self.run_plan(plan, False, batch, {X: stored, Y: result})
        if target is None:
            y.write_raw(result)
