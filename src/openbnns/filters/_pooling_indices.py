"""Indices of pooling filters: their element types, their checks, how they are read and stored.

An index is row * width + column within one plane of the larger image. All bits set stand for the winner of a Max window
without any cell of the image.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import engines
from ..capi.enums import BNNSDataType
from ..descriptors import ELEMENT_TYPES, ElementType
from ..engines.reference.pooling import NO_CELL
from ..errors import Problem
from ._tensors import Bound, Caller, Operand, bind

INDICES = 8
"""Slot of the indices in a plan."""

_UINT32 = ELEMENT_TYPES[int(BNNSDataType.BNNSDataTypeUInt32)]
_UINT64 = ELEMENT_TYPES[int(BNNSDataType.BNNSDataTypeUInt64)]
_NONE_32: np.uint64 = np.uint64(0xFFFF_FFFF)
_NONE_64: np.uint64 = np.uint64(0xFFFF_FFFF_FFFF_FFFF)

INDEX_BYTES: dict[int | None, int] = {None: 8, _UINT32.code: 4, _UINT64.code: 8}
"""Width of the indices by their type; ``None`` is size_t."""


def resolve_index_type(index_type: Any, caller: Caller) -> ElementType:
    """Element type of the indices: size_t when not named, else UInt32 or UInt64."""
    if index_type is None:
        return _UINT64
    if not isinstance(index_type, (int, np.integer)):
        raise TypeError(f"{caller('indices_data_type')} must be a BNNSDataType, not {type(index_type).__name__}.")
    for element in (_UINT32, _UINT64):
        if int(index_type) == element.code:
            return element
    raise Problem(
        f"{caller('indices_data_type')} is {int(index_type):#x}. Indices are BNNSDataTypeUInt32 or BNNSDataTypeUInt64.",
        kind=TypeError,
    )


@dataclass(frozen=True)
class IndexRules:
    """What the indices of one filter look like: one per cell of ``operand``, each naming a cell of a ``plane``."""

    operand: Operand  # the smaller image; indices have its dimensions and strides
    plane: int  # cells of one channel of the larger image
    unpools: bool  # UnMax reads them and needs every one; Max writes them, and reads them in backward
    per_sample: bool  # they count on through the channels, instead of starting at 0 in each

    def fit(self, width: int) -> bool:
        """Whether ``width`` bytes hold every index, and the one that stands for no cell."""
        cells = self.plane * (self.operand.shape[0] if self.per_sample else 1)
        return cells < 1 << (8 * width)

    def bind(self, caller: Caller, data: Any, element: ElementType, batch: int, stride: Any, *, output: bool) -> Bound:
        """Check the memory given for them."""
        if not self.fit(element.bits // 8):
            raise Problem(
                f"{caller('indices_data_type')} is {element.name}, but indices of this image go beyond its range. Use "
                "BNNSDataTypeUInt64.",
                kind=TypeError,
            )
        view = replace(self.operand.view, element=element, scale=1.0, bias=0.0, table=None)
        shape = self.operand.shape
        return bind(view, self.operand.order, shape, caller("indices"), data, batch, stride, output=output)

    def read(self, caller: Caller, indices: Bound) -> NDArray[np.uint64]:
        """Plane positions of a batch in memory of their own, checked; all bits set for none."""
        if indices.batch == 0:
            return np.empty((0, *indices.shape), np.uint64)
        raw = indices.read_integers().astype(np.uint64)
        values = raw - self._bases(raw.shape[1]) if self.per_sample else raw
        outside = values >= np.uint64(self.plane)
        if not self.unpools:
            none = raw == self._none(indices)
            outside &= ~none
            values = np.where(none, self._none(), values)
        if outside.any():
            n, c, row, column = (int(v) for v in np.argwhere(outside)[0])
            raise Problem(
                f"{caller('indices')} holds {int(raw[n, c, row, column])} at sample {n}, channel {c}, row {row}, column "
                f"{column}, but {self._range(c)}. Pass the indices of the matching Max forward call."
            )
        return values

    def write(self, indices: Bound, winners: NDArray[Any]) -> None:
        """Store the positions that a forward pass found."""
        found = winners.astype(np.int64)
        numbers = found.astype(np.uint64)
        if self.per_sample:
            numbers = numbers + self._bases(found.shape[1])
        indices.write_unsigned(np.where(found == NO_CELL, self._none(indices), numbers))

    def argument(self, width: int, *, output: bool, needed_with: int = 0) -> Any:
        """What a fast call expects of indices of ``width`` bytes."""
        buffer, strided, batched, unless, may_equal, layout = 0, True, True, 0, 0, 0
        limit = 0 if output else self.plane
        return engines._core.argument(
            INDICES, buffer, strided, batched, output, self.operand.view.count, needed_with, unless, may_equal, layout,
            [], [], width, limit, not self.unpools,
        )  # fmt: skip

    def _bases(self, channels: int) -> NDArray[np.uint64]:
        """Number of the first cell of every channel."""
        return np.arange(0, self.plane * channels, self.plane, dtype=np.uint64)[None, :, None, None]

    def _none(self, indices: Bound | None = None) -> np.uint64:
        """The index that stands for no cell."""
        wide = indices is None or indices.view.element is _UINT64
        return _NONE_64 if wide else _NONE_32

    def _range(self, channel: int) -> str:
        first = self.plane * channel if self.per_sample else 0
        owner = f"channel {channel}" if self.per_sample else "a plane"
        return f"{owner} has positions {first} to {first + self.plane - 1}"
