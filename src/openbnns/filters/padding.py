"""Padding: ``padding_size[d]`` = (before, after) elements in front of and behind the axis of ``size[d]``.

    Constant    the bits of padding_value                    AB  -> vvABvv
    Reflect     mirror that leaves the edge out              ABC -> CBABCBA      padding < size
    Symmetric   mirror that repeats the edge                 ABC -> BAABCCB      padding <= size

Backward: dx(j) = sum of dy over the outputs that are copies of input j. y.size[d] = before + x.size[d] + after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import engines
from .._words import Caller
from ..abi.enums import BNNSPaddingMode
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersPadding
from ..errors import Problem
from ..parameters.padding import Mode
from ..reference import padding as reference
from ..tensors.descriptors import View, describe
from ..tensors.operands import Operand
from ._rules import chosen, require_same_layout, resolve_both
from .moves import MovingFilter, require_same_type

if TYPE_CHECKING:
    from .. import _core


class Padding(MovingFilter):
    """A filter that pads every axis of a sample."""

    family = "padding"

    def __init__(self, p: BNNSLayerParametersPadding, filter_params: BNNSFilterParameters | None, who: Caller) -> None:
        super().__init__(filter_params, who)
        self.mode = chosen(p.padding_mode, Mode, "BNNSPaddingMode", who, "padding_mode")
        x, y = resolve_both(p, who)
        require_same_layout(x, y, who)
        require_same_type(x, y, who, "Padding")
        pairs = [(int(p.padding_size[d][0]), int(p.padding_size[d][1])) for d in range(x.layout.rank)]
        self._check_sizes(x, y, pairs, who)
        self.input, self.output = Operand(x, x.memory_axes), Operand(y, y.memory_axes)
        self.widths = [pairs[d] for d in x.memory_axes]
        self.value = int(p.padding_value) & ((1 << min(x.element.bits, 32)) - 1)
        self.build_plan()

    def _check_sizes(self, x: View, y: View, pairs: list[tuple[int, int]], who: Caller) -> None:
        name = BNNSPaddingMode(self.mode).name.removeprefix("BNNSPaddingMode")
        for d, (before, after) in enumerate(pairs):
            widest, limit = max(before, after), x.size[d] - (self.mode == Mode.REFLECT)
            if self.mode != Mode.CONSTANT and widest > limit:
                raise Problem(
                    f"{who('padding_size')}[{d}] is ({before}, {after}), but {name} mirrors at most {limit} of the {x.size[d]} "
                    f"elements of {who.name('i_desc')}.size[{d}]. Pad less, or use another mode."
                )
        expected = tuple(n + before + after for n, (before, after) in zip(x.size, pairs, strict=True))
        if y.size != expected:
            raise Problem(
                f"{who('o_desc')} is {describe(y)}, but {who.name('i_desc')} size {x.size} padded by {pairs} gives {expected}. "
                f"Set {who.name('o_desc')}.size to {expected}."
            )

    def make_item_plan(self, item_bytes: int) -> _core.Plan:
        return engines._core.padding(
            mode=self.mode, size=self.input.shape, before=[before for before, _ in self.widths],
            after=[after for _, after in self.widths], item_bytes=item_bytes, value=self.value,
        )  # fmt: skip

    def _fill(self, dtype: np.dtype[Any]) -> Any:
        """The constant as an element of a stored type, or as a real number."""
        if dtype == np.float64:
            return float(np.array(self.value, np.uint32).view(np.float32))
        return np.array(self.value, np.dtype(f"u{dtype.itemsize}")).view(dtype)[()]

    def move(self, stored: NDArray[Any]) -> NDArray[Any]:
        return reference.forward(self.mode, stored, [(0, 0), *self.widths], self._fill(stored.dtype))

    def reference_backward(
        self, x: NDArray[Any] | None, y: NDArray[Any] | None, dy: NDArray[Any], w: NDArray[Any] | None,
        b: NDArray[Any] | None, wanted: set[str],
    ) -> dict[str, NDArray[Any]]:  # fmt: skip
        return {"dx": reference.backward(self.mode, dy, [(0, 0), *self.widths])}
