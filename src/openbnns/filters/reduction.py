"""Reductions over the axes whose output size is 1, with optional weights in the shape of the input.

Formulas: see :mod:`openbnns.reference.reduction`. Shapes: x and w (N, *shape), w without N, y (N, *shape with
some 1). Sums are kept in double precision.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import compat, engines
from .._words import Caller
from ..abi.enums import BNNSReduceFunction
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersReduction
from ..calls.signature import Argument, Call, Need, need
from ..errors import Problem
from ..parameters.activation import IDENTITY, Activation
from ..parameters.reduction import ReductionKind
from ..reference import reduction as reference
from ..reference.reduction import DIFFERENTIABLE, WEIGHTED
from ..tensors import descriptors
from ..tensors.descriptors import FLOAT32, View, describe
from ..tensors.operands import Bound, Operand, Parameter
from ..tensors.staging import integer_range
from ._activation_rules import as_float32
from ._rules import chosen, describe_both, resolve_both
from .base import UnaryFilter, X, Y
from .direct import is_plain_integer

if TYPE_CHECKING:
    from .. import _core

_POSITIONS = (ReductionKind.ARG_MAX, ReductionKind.ARG_MIN)
_LINEAR = (ReductionKind.SUM, ReductionKind.MEAN, ReductionKind.MEAN_NON_ZERO)  # dy/dx does not depend on x


def function_name(function: int) -> str:
    """``SumLog`` for 8."""
    return BNNSReduceFunction(function).name.removeprefix("BNNSReduceFunction")


class Reduction(UnaryFilter):
    """A reduction filter; its weights tensor is the filter's weights."""

    family = "reduction"

    def __init__(
        self, p: BNNSLayerParametersReduction, filter_params: BNNSFilterParameters | None, who: Caller, *,
        direct: bool = False,
    ) -> None:  # fmt: skip
        """``direct``: for one call, which may read the weights where they are."""
        super().__init__(filter_params, who)
        self.client_pointer |= direct
        self.function = _checked_function(int(p.reduce_func), who)
        x, y = resolve_both(p, who)
        _check_shapes(x, y, who)
        self.input, self.output = Operand(x, x.memory_axes), Operand(y, x.memory_axes)
        self.activation, self.fused_function = IDENTITY, 0
        self.epsilon = as_float32(p.epsilon)
        if not math.isfinite(self.epsilon):
            raise Problem(
                f"{who('epsilon')} is {self.epsilon:g}. It is added inside each logarithm: pass a finite number."
            )
        self.inside = [y.size[a] == 1 for a in x.memory_axes]
        self.axes = tuple(1 + d for d, reduced in enumerate(self.inside) if reduced)
        self.last_axis = compat.switches.argmax_last_axis
        if self.function in _POSITIONS:
            sizes = [n for n, reduced in zip(self.input.shape, self.inside, strict=True) if reduced] or [1]
            _check_holds_positions(y, sizes[-1] if self.last_axis else math.prod(sizes), who("o_desc"))
        self.weights = self._resolve_weights(p.w_desc, who)
        self.build_plan()

    def _resolve_weights(self, descriptor: Any, who: Caller) -> Parameter | None:
        if descriptor.data is None:
            return None
        if self.function not in WEIGHTED:
            raise Problem(
                f"{who('w_desc')} has data, but {function_name(self.function)} has no summands to weigh. Leave "
                f"{who.name('w_desc')}.data {who.null}."
            )
        view = descriptors.resolve(descriptor, who("w_desc"))
        if view.size != self.input.view.size:
            raise Problem(
                f"{who('w_desc')} is {describe(view)}, but weights have the size of the input: {self.input.view.size}."
            )
        return self.hold(view, self.input.order, who("w_desc.data"), descriptor.data)

    # Native set-up.

    @property
    def wide_positions(self) -> bool:
        """True if the output holds positions in an element type that may represent more of them than float32."""
        return self.function in _POSITIONS and self.output.view.element is not FLOAT32

    def make_plan(self, f: Activation) -> _core.Plan:
        return _plan(
            self.function,
            self.input.shape,
            self.inside,
            self.epsilon,
            self.last_axis,
            wide_positions=self.wide_positions,
        )

    def trains_fast(self) -> bool:
        return self.function in DIFFERENTIABLE and super().trains_fast()

    def backward_arguments(self) -> tuple[Argument, ...]:
        """The forward output has no effect."""
        return tuple(replace(a, tensor=None) if a.name == "out" else a for a in super().backward_arguments())

    def input_needs(self) -> tuple[Need, ...]:
        results = {"weights_delta"} if self.function in _LINEAR else {"in_delta", "weights_delta"}
        return (
            need(results, f"the gradient of {function_name(self.function)} needs the forward input", optional=False),
        )

    def run_native(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        if call.backward or not self.wide_positions:
            super().run_native(call, batch, bound)
            return
        y = bound["out"]
        stays = y.view.element.name == "Int64" and is_plain_integer(y.view) and not y.overlaps(bound["in"])
        target = y.direct_raw() if stays else None
        positions = np.empty((batch, *self.output.shape), np.int64) if target is None else target
        self.run_plan(
            self.plan, False, batch, {X: bound["in"].read(np.float32), Y: positions}, repeatable=target is not None
        )
        if target is not None:
            return
        if is_plain_integer(y.view):
            y.write_integers(positions)
        else:
            y.write(positions.astype(np.float64))

    # Reference engine.

    def reference_forward(
        self, x: NDArray[Any], w: NDArray[Any] | None, b: NDArray[Any] | None, f: Activation
    ) -> NDArray[Any]:
        weights = None if w is None else w[np.newaxis]
        return reference.forward(self.function, x, self.axes, weights, self.epsilon, self.last_axis)

    def reference_backward(
        self, x: NDArray[Any] | None, y: NDArray[Any] | None, dy: NDArray[Any], w: NDArray[Any] | None,
        b: NDArray[Any] | None, wanted: set[str],
    ) -> dict[str, NDArray[Any]]:  # fmt: skip
        if x is None:  # the slope does not depend on it
            x = np.zeros((len(dy), *self.input.shape))
        weights = None if w is None else w[np.newaxis]
        gradients = reference.backward(self.function, x, dy, self.axes, wanted, weights, self.epsilon)
        return {name: g[0] if name == "dw" else g for name, g in gradients.items()}

    # Backward.

    def check(self, call: Call, caller: Caller, batch: int, bound: dict[str, Bound]) -> None:
        if call.backward and self.function not in DIFFERENTIABLE:
            raise Problem(f"{caller}: {function_name(self.function)} has no gradient.")


def _plan(
    function: int, shape: tuple[int, ...], inside: list[bool], epsilon: float, last_axis: bool, *, wide_positions: bool
) -> _core.Plan:
    sizes = [n for n, reduced in zip(shape, inside, strict=True) if reduced and n != 1]
    modulus = sizes[-1] if last_axis and sizes else 0
    return engines._core.reduction(
        function=function, rank=len(shape), size=shape, inside=inside, epsilon=epsilon, wide_positions=wide_positions,
        position_modulus=modulus,
    )  # fmt: skip


_COUNTS_TO = {"Float32": 1 << 24, "Float16": 1 << 11, "BFloat16": 1 << 8}  # exactly


def _check_holds_positions(view: View, count: int, who: str) -> None:
    """Refuse an element type that cannot hold every position exactly: a rounded position is another element's."""
    element = view.element
    most = integer_range(element)[1] if is_plain_integer(view) else _COUNTS_TO.get(element.name, count)
    if most < count - 1:
        raise Problem(
            f"{who}.data_type is {element.name}, which counts to {most} exactly, but positions go up to {count - 1}. Use a "
            "wider type, such as BNNSDataTypeInt64.",
            kind=TypeError,
        )


def _checked_function(function: int, who: Caller) -> int:
    if function == ReductionKind.NONE:
        raise Problem(f"{who('reduce_func')} is None, which reduces nothing; it is a mode of BNNSScatter.")
    return chosen(function, ReductionKind, "BNNSReduceFunction", who, "reduce_func", "0 to 16, except None (15)")


def _check_shapes(x: View, y: View, who: Caller) -> None:
    fits = len(x.size) == len(y.size) and all(b in (1, a) for a, b in zip(x.size, y.size, strict=True))
    if not fits:
        raise Problem(
            f"{describe_both(x, y, who)}. Sizes of the output are 1 along the reduced axes of size[], and those of the input "
            "along all others."
        )
