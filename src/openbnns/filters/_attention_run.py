"""One run of the native attention plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import engines
from ._attention_gradients import TARGETS
from ._attention_masks import Masks
from ._attention_memory import NO_DRAW, Cache
from ._attention_slots import (
    ADDED,
    ADDED_IS_BOOLEAN,
    CACHE,
    CANONICAL_PARAMETERS,
    FIRST_PARAMETER,
    FIRST_PARAMETER_GRADIENT,
    KEY_MASK,
    NO_DROPOUT,
    QUERY_GRADIENT,
    WORKSPACE,
)
from .attention_shapes import PARAMETERS

if TYPE_CHECKING:
    from .attention import MultiheadAttention


class NativeCall:
    """The tensors of one run of the plan, in canonical form, kept alive until it has ended."""

    def __init__(self, filter: MultiheadAttention, batch: int, masks: Masks, draw: int) -> None:
        self.filter, self.batch = filter, batch
        self.accumulate = 0
        self._places: dict[int, tuple[int, int]] = {}
        self._held: list[Any] = []
        options = CANONICAL_PARAMETERS | (NO_DROPOUT if draw == NO_DRAW else 0)
        if masks.boolean:
            options |= ADDED_IS_BOOLEAN
        self._extra = [options, masks.stride(-3), draw]
        if masks.key_mask is not None:
            self._place(KEY_MASK, masks.key_mask, int(masks.key_mask.strides[0]))
        if masks.added is not None:
            self._place(ADDED, masks.added, masks.stride(-4))

    def _place(self, slot: int, array: NDArray[Any], stride: int) -> None:
        self._held.append(array)
        self._places[slot] = int(array.ctypes.data), stride

    def tensor(self, slot: int, array: NDArray[Any]) -> None:
        """Samples of C-contiguous float32, axis 0 the batch (1 for a parameter)."""
        self._place(slot, array, int(array.strides[0]) // 4 if len(array) > 1 else array[0].size)

    def same(self, slot: int, other: int) -> None:
        """One slot takes the memory of another: both are summed there."""
        self._places[slot] = self._places[other]

    def parameters(self) -> None:
        for number, name in enumerate(PARAMETERS):
            if name in self.filter.held:
                self._place(FIRST_PARAMETER + number, self.filter.held[name].read(np.float32), 0)

    def cache(self, cache: Cache | None) -> NDArray[np.float32] | None:
        """Use a cache; returns the aligned copy that replaces a misaligned cache, if one is needed."""
        if cache is None:
            return None
        if cache.buffer.address % 4 == 0:
            self._held.append(cache.buffer)
            self._places[CACHE] = cache.buffer.address, 0
            return None
        copy: NDArray[np.float32] = cache.bytes().copy().view(np.float32)
        self._place(CACHE, copy, 0)
        return copy

    def workspace(self, work: Any) -> None:
        if work is not None:
            self._held.append(work)
            self._places[WORKSPACE] = work.address, 0

    def run(self, *, backward: bool) -> None:
        assert self.filter.plan is not None
        places = [(slot, address, stride) for slot, (address, stride) in self._places.items()]
        engines._core.run(
            self.filter.plan, backward, self.batch, places, self.accumulate, self.filter.threads, extra=self._extra
        )


def slot_of(gradient: str) -> int:
    """The native slot of ``dq`` or ``dwq``."""
    if gradient in TARGETS:
        return QUERY_GRADIENT + TARGETS.index(gradient)
    return FIRST_PARAMETER_GRADIENT + PARAMETERS.index(gradient[1:])
