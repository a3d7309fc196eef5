"""Indices of pooling filters: their element types, their checks, how they are read and stored.

An index is row * width + column within one plane of the larger image. All bits set means no index: a Max window that covers
no cell of the image.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import compat
from .._words import Caller, Named
from ..abi.enums import BNNSDataType
from ..errors import Problem
from ..parameters.pooling import NO_CELL
from ..tensors.descriptors import ELEMENT_TYPES, ElementType
from ..tensors.operands import Bound, Operand, bind

INDICES = 8
"""Slot of the indices in a plan."""

_UINT32 = ELEMENT_TYPES[int(BNNSDataType.BNNSDataTypeUInt32)]
_UINT64 = ELEMENT_TYPES[int(BNNSDataType.BNNSDataTypeUInt64)]

INDEX_TYPES: dict[Hashable, ElementType] = {None: _UINT64, _UINT32.code: _UINT32, _UINT64.code: _UINT64}
"""Element types of indices by their codes; ``None`` is size_t."""


def resolve_index_type(code: Any, caller: Caller) -> int | None:
    """The code of an element type for indices, checked; ``None`` for size_t."""
    if code is None:
        return None
    if not isinstance(code, (int, np.integer)):
        raise TypeError(f"{caller('indices_data_type')} must be a BNNSDataType, not {type(code).__name__}.")
    if int(code) not in INDEX_TYPES:
        raise Problem(
            f"{caller('indices_data_type')} is {int(code):#x}. Indices are BNNSDataTypeUInt32 or BNNSDataTypeUInt64.",
            kind=TypeError,
        )
    return int(code)


@dataclass(frozen=True)
class IndexOperand(Operand):
    """Indices of one filter: one per cell of the smaller image, whose dimensions and strides they have."""

    plane: int = 0  # cells of one channel of the larger image
    unpools: bool = False  # UnMax reads them and needs every one; Max writes them, and reads them in backward
    per_sample: bool = False  # counted across all channels of a sample, not from 0 in each

    @classmethod
    def of(cls, small: Operand, element: ElementType, plane: int, unpools: bool) -> IndexOperand:
        view = replace(small.view, element=element, scale=1.0, bias=0.0, table=None)
        return cls(view, small.order, False, plane, unpools, compat.switches.max_pool_index_per_sample)

    @property
    def width(self) -> int:
        """Bytes of an index."""
        return self.view.element.bits // 8

    @property
    def fits(self) -> bool:
        """True if the element type can hold every index, and the value that means no index."""
        cells = self.plane * (self.shape[0] if self.per_sample else 1)
        return cells < 1 << (8 * self.width)

    @property
    def fast(self) -> bool:
        return self.view.packed and self.order == self.view.memory_axes and not self.per_sample and self.fits

    def native_items(self, writes: bool) -> dict[str, Any]:
        return {
            "index_bytes": self.width, "index_limit": 0 if writes else self.plane, "index_none": not self.unpools,
        }  # fmt: skip

    def bind(self, who: Named, data: Any, batch: int, stride: int, *, output: bool = False) -> IndexBound:
        """Check the memory of the indices and, if they are read, their values."""
        if not self.fits:
            raise Problem(
                f"{who}: the indices are {self.view.element.name}, which cannot hold every index of this image. Use "
                "BNNSDataTypeUInt64.",
                kind=TypeError,
            )
        b = bind(self.view, self.order, self.shape, who, data, batch, stride, output=output)
        bound = IndexBound(b.view, b.buffer, b.batch, b.stride, b.order, b.shape, rules=self)
        return bound if output else replace(bound, values=bound.checked(who))


@dataclass(frozen=True)
class IndexBound(Bound):
    """The indices of one call. As arrays they are positions within a plane, with all bits set for none."""

    rules: IndexOperand | None = None
    values: NDArray[np.uint64] | None = None

    @property
    def staged_type(self) -> np.dtype[Any]:
        stored = self.view.element.numpy
        assert stored is not None
        return stored

    def read(self, dtype: DTypeLike) -> NDArray[Any]:
        """The indices in the form that kernels take, or signed with -1 for none for the reference engine (float64)."""
        assert self.values is not None
        return self.values.view(np.int64) if dtype == np.float64 else self.values.astype(self.staged_type)

    def direct(self) -> NDArray[Any] | None:
        rules = self.rules
        return self.direct_raw() if rules is not None and not rules.per_sample else None

    def write(self, winners: NDArray[Any]) -> None:
        """Store the positions that a forward pass found."""
        assert self.rules is not None
        none = winners == np.asarray(NO_CELL).astype(winners.dtype)
        numbers = winners.astype(np.uint64)
        if self.rules.per_sample:
            numbers = numbers + self._bases(winners.shape[1])
        self.write_unsigned(np.where(none, self._none, numbers))

    def checked(self, who: str) -> NDArray[np.uint64]:
        """A copy as positions within a plane; all bits set for none."""
        assert self.rules is not None
        if self.batch == 0:
            return np.empty((0, *self.shape), np.uint64)
        raw = self.read_integers().astype(np.uint64)
        values = raw - self._bases(raw.shape[1]) if self.rules.per_sample else raw
        outside = values >= np.uint64(self.rules.plane)
        if not self.rules.unpools:
            none = raw == self._none
            outside &= ~none
            values = np.where(none, np.uint64(0xFFFF_FFFF_FFFF_FFFF), values)
        if outside.any():
            n, c, row, column = (int(v) for v in np.argwhere(outside)[0])
            raise Problem(
                f"{who} holds {int(raw[n, c, row, column])} at sample {n}, channel {c}, row {row}, column {column}, but "
                f"{self._range(c)}. Pass the indices of the matching Max forward call."
            )
        return np.ascontiguousarray(values)

    def _bases(self, channels: int) -> NDArray[np.uint64]:
        """Number of the first cell of every channel."""
        assert self.rules is not None
        plane = self.rules.plane
        return np.arange(0, plane * channels, plane, dtype=np.uint64)[None, :, None, None]

    @property
    def _none(self) -> np.uint64:
        """The stored value that means no index."""
        none: np.uint64 = np.uint64(0xFFFF_FFFF_FFFF_FFFF if self.view.element is _UINT64 else 0xFFFF_FFFF)
        return none

    def _range(self, channel: int) -> str:
        assert self.rules is not None
        plane = self.rules.plane
        if not self.rules.per_sample:
            return f"a plane has positions 0 to {plane - 1}"
        return f"channel {channel} has positions {plane * channel} to {plane * (channel + 1) - 1}"
