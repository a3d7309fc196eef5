"""Resize: every axis whose size changes is resampled, one after the other.

For output index i of an axis that goes from n_in to n_out cells, the position in the input is

    Nearest                          floor(i n_in / n_out)
    Linear, align_corners            i (n_in - 1) / (n_out - 1)           0 if n_out = 1
    Linear                           (i + 1/2) n_in / n_out - 1/2         limited to 0 .. n_in - 1

Linear mixes the cells on either side, y(i) = (1-t) x(low) + t x(high) with the fraction t of the position, along one or
two axes; Nearest copies the cell, along any number of them. Backward: dx(low) += (1-t) dy(i), dx(high) += t dy(i).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import compat, engines
from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersResize
from ..calls.run import run_staged
from ..calls.signature import Call
from ..errors import Problem
from ..parameters.activation import IDENTITY, Activation
from ..parameters.resize import Method
from ..reference import resize as reference
from ..tensors.descriptors import View
from ..tensors.operands import Bound, Operand
from ._rules import chosen, describe_both, require_same_layout, resolve_both
from .base import UnaryFilter, X, Y

if TYPE_CHECKING:
    from .. import _core


_PREPARED = 1 << 14  # cells along all axes up to which positions are computed at creation


class Resize(UnaryFilter):
    """A filter that enlarges or shrinks axes of a sample."""

    family = "resize"
    activation = IDENTITY
    fused_function = 0

    def __init__(self, p: BNNSLayerParametersResize, filter_params: BNNSFilterParameters | None, who: Caller) -> None:
        super().__init__(filter_params, who)
        known = "BNNSInterpolationMethodNearest (0) or BNNSInterpolationMethodLinear (1)"
        self.method = chosen(p.method, Method, "BNNSInterpolationMethod", who, "method", known)
        x, y = resolve_both(p, who)
        self._check_shapes(x, y, who)
        self.input, self.output = Operand(x, x.memory_axes), Operand(y, y.memory_axes)
        self.options = (bool(p.align_corners), compat.switches.resize_asymmetric)
        self.build_plan()

    def _check_shapes(self, x: View, y: View, who: Caller) -> None:
        require_same_layout(x, y, who)
        changed = [d for d in range(x.layout.rank) if x.size[d] != y.size[d]]
        if self.method == Method.LINEAR and len(changed) > 2:
            raise Problem(
                f"{describe_both(x, y, who)}, which differ along {len(changed)} axes. Linear resizes at most two: use two "
                f"filters, or {who.name('BNNSInterpolationMethodNearest')}.",
                unsupported=True,
            )

    def build_plan(self) -> None:
        if sum(self.input.shape) + sum(self.output.shape) <= _PREPARED:
            super().build_plan()

    def run_native(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        self.require_plan()
        if not call.backward and self._copies and not bound["in"].view.canonical:
            bound["out"].write_raw(self._copy_native(bound["in"].read_raw()))
        else:
            run_staged(self, call, self.plan, batch, bound, {})

    def require_plan(self) -> None:
        """Make the plan for a very long axis, whose positions are computed only once a call has memory of that length."""
        if self.plan is None:
            super().build_plan()
            self.redeclare()

    def make_plan(self, f: Activation) -> _core.Plan:
        return self._plan_of(self.input.shape, self.output.shape)

    def _plan_of(self, in_shape: tuple[int, ...], out_shape: tuple[int, ...]) -> _core.Plan:
        """A sample from one shape to another, both in C order; the positions are those of the reference engine."""
        low: list[bytes] = []
        fraction: list[bytes] = []
        for n_in, n_out in zip(in_shape, out_shape, strict=True):
            taps = reference.taps(self.method, n_in, n_out, *self.options) if n_in != n_out else []
            low.append(taps[0][0].astype(np.int64).tobytes() if taps else b"")
            fraction.append(taps[1][1].astype(np.float32).tobytes() if len(taps) > 1 else b"")
        return engines._core.resize(in_size=in_shape, out_size=out_shape, low=low, t=fraction)

    # Forward. Nearest copies, so that elements of any type pass as they are.

    @property
    def _copies(self) -> bool:
        x, y = self.input.view, self.output.view
        same = (x.element, x.scale, x.bias) == (y.element, y.scale, y.bias)
        return self.method == Method.NEAREST and same

    def run_reference(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        if not call.backward and self._copies and not bound["in"].view.canonical:
            bound["out"].write_raw(self._copy(bound["in"].read_raw()))
        else:
            super().run_reference(call, batch, bound)

    def _copy(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Nearest on stored elements, by the reference engine's positions."""
        for axis, (n_in, n_out) in enumerate(zip(self.input.shape, self.output.shape, strict=True), 1):
            if n_in != n_out:
                stored = np.take(stored, reference.taps(self.method, n_in, n_out, *self.options)[0][0], axis)
        return stored

    def _copy_native(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Nearest on stored elements, through kernels that move four bytes at a time."""
        batch, width = len(stored), stored.itemsize
        plan: _core.Plan | None
        if width == 8:  # two words each
            plan = self._plan_of((*self.input.shape, 2), (*self.output.shape, 2))
            words = np.ascontiguousarray(stored).view(np.uint32)
            shape = (batch, *self.output.shape[:-1], 2 * self.output.shape[-1])
        else:
            plan, shape = self.plan, (batch, *self.output.shape)
            words = stored if width == 4 else stored.view(f"u{width}").astype(np.uint32)
        result = np.empty(shape, np.uint32)
        self.run_plan(plan, False, batch, {X: words, Y: result})
        return result.view(stored.dtype) if width >= 4 else result.astype(f"u{width}").view(stored.dtype)

    def reference_forward(
        self, x: NDArray[Any], w: NDArray[Any] | None, b: NDArray[Any] | None, f: Activation
    ) -> NDArray[Any]:
        return reference.forward(self.method, x, (len(x), *self.output.shape), *self.options)

    def reference_backward(
        self, x: NDArray[Any] | None, y: NDArray[Any] | None, dy: NDArray[Any], w: NDArray[Any] | None,
        b: NDArray[Any] | None, wanted: set[str],
    ) -> dict[str, NDArray[Any]]:  # fmt: skip
        return {"dx": reference.backward(self.method, dy, (len(dy), *self.input.shape), *self.options)}
