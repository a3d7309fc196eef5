"""Permute: axis k of the output is axis permutation[k] of the input, axes counted in the order of ``size[]``.

    y[i_0, i_1, ...] = x[j_0, j_1, ...]   with j_{permutation[k]} = i_k,   y.size[k] = x.size[permutation[k]]

Backward: dx along axis permutation[k] runs over axis k of dy.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from .. import engines
from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersPermute
from ..calls.signature import Call
from ..errors import Problem
from ..reference import permute as reference
from ..tensors.descriptors import View, describe
from ..tensors.operands import Operand
from ._rules import require_same_layout, resolve_both
from .moves import MovingFilter, require_same_type

if TYPE_CHECKING:
    from .. import _core


class Permute(MovingFilter):
    """A filter that permutes the axes of a sample."""

    family = "permute"
    backward_call = "BNNSPermuteFilterApplyBackwardBatch"

    def __init__(self, p: BNNSLayerParametersPermute, filter_params: BNNSFilterParameters | None, who: Caller) -> None:
        super().__init__(filter_params, who)
        x, y = resolve_both(p, who)
        require_same_layout(x, y, who)
        require_same_type(x, y, who, "Permute")
        self.permutation = _resolve_permutation(x, y, [int(k) for k in p.permutation], who)
        self.input, self.output = Operand(x, x.memory_axes), Operand(y, y.memory_axes)
        # C-order axis j of the output is C-order axis c_order[j] of the input.
        self.c_order = tuple(x.memory_axes.index(self.permutation[k]) for k in y.memory_axes)
        self.build_plan()

    def make_item_plan(self, item_bytes: int) -> _core.Plan:
        return engines._core.permute(size=self.input.shape, permutation=self.c_order, item_bytes=item_bytes)

    def declare(self, call: str, variant: Hashable) -> Call | None:
        if call != "apply_backward_permute":
            return super().declare(call, variant)
        plain = super().declare("apply_backward", variant)
        assert plain is not None
        gradient = replace(
            plain.by_name["in_delta"], required=True, purpose="it is all that this call computes. Pass a descriptor."
        )
        return replace(plain, arguments=(plain.by_name["out_delta"], gradient))

    def _batch_permutation(self) -> list[int]:
        return [0, *(1 + axis for axis in self.c_order)]

    def move(self, stored: NDArray[Any]) -> NDArray[Any]:
        return reference.forward(stored, self._batch_permutation())

    def reference_backward(
        self, x: NDArray[Any] | None, y: NDArray[Any] | None, dy: NDArray[Any], w: NDArray[Any] | None,
        b: NDArray[Any] | None, wanted: set[str],
    ) -> dict[str, NDArray[Any]]:  # fmt: skip
        return {"dx": reference.backward(dy, self._batch_permutation())}


def _resolve_permutation(x: View, y: View, given: list[int], who: Caller) -> tuple[int, ...]:
    rank = x.layout.rank
    permutation = tuple(given[:rank])
    if sorted(permutation) != list(range(rank)):
        raise Problem(
            f"{who('permutation')} is {permutation}, but {x.layout.name} has the axes 0 to {rank - 1}. Name each exactly once."
        )
    expected = tuple(x.size[axis] for axis in permutation)
    if y.size != expected:
        raise Problem(
            f"{who('o_desc')} is {describe(y)}, but {who.name('permutation')} {permutation} of {who.name('i_desc')} size "
            f"{x.size} gives {expected}. Set {who.name('o_desc')}.size to {expected}."
        )
    return permutation
