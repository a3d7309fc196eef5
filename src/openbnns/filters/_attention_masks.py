"""Key mask and added scores of attention: any layout and stride, converted to the form that engines take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._words import Caller, Named
from ..abi.enums import BNNSDataLayout
from ..errors import Problem
from ..tensors import staging
from ..tensors.descriptors import View
from ..tensors.operands import Bound, bind, check_stride
from .attention_shapes import canonical_order, check_shape, resolve

_L = BNNSDataLayout
_ADDED_LAYOUTS: dict[int, tuple[str, tuple[BNNSDataLayout, ...]]] = {
    2: ("TS", (_L.BNNSDataLayout2DFirstMajor, _L.BNNSDataLayout2DLastMajor, _L.BNNSDataLayoutRowMajorMatrix,
               _L.BNNSDataLayoutColumnMajorMatrix)),
    3: ("HTS", (_L.BNNSDataLayout3DFirstMajor, _L.BNNSDataLayout3DLastMajor)),
    4: ("NHTS", (_L.BNNSDataLayout4DFirstMajor, _L.BNNSDataLayout4DLastMajor)),
}  # fmt: skip


@dataclass(frozen=True)
class Masks:
    """Key mask and added scores of one call, in the form engines take."""

    key_mask: NDArray[np.uint8] | None = None  # (N, S)
    added: NDArray[Any] | None = None  # uint8 if Boolean, else float32; (T, S), (H, T, S) or (N, H, T, S)
    named: dict[str, Bound] = field(default_factory=dict)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        return tuple(self.named.values())

    @property
    def boolean(self) -> bool:
        return self.added is not None and self.added.dtype == np.uint8

    def stride(self, axis: int) -> int:
        """Stride of the added scores from head to head (axis -3) or from sample to sample (-4), 0 if they are shared."""
        if self.added is None or self.added.ndim < -axis:
            return 0
        return int(self.added.strides[axis]) // self.added.itemsize

    def added64(self) -> NDArray[Any] | None:
        if self.added is None:
            return None
        return self.added != 0 if self.boolean else self.added.astype(np.float64)


def bind_masks(caller: Caller, letters: dict[str, int], batch: int, key_mask: Any, stride: Any, added: Any) -> Masks:
    """Check both tensors against the sizes of the filter, ``letters``."""
    stride = check_stride(stride, caller("key_mask_stride"))
    named: dict[str, Bound] = {}
    mask = None
    if key_mask is not None:
        who = caller("key_mask")
        view, axis_of = resolve(key_mask, "S", who)
        _require_boolean(view, who)
        check_shape(view, axis_of, letters, who)
        bound = bind(view, (0,), (letters["S"],), who.field("data"), key_mask.data, batch, stride)
        named["key_mask"] = bound
        mask = _raw(bound, 1)
    scores = None
    if added is not None:
        bound, scores = _bind_added(caller("add_to_attention"), letters, added, batch)
        named["add_to_attention"] = bound
    return Masks(mask, scores, named)


def _bind_added(who: Named, letters: dict[str, int], added: Any, batch: int) -> tuple[Bound, NDArray[Any]]:
    rank = int(getattr(added, "layout", 0)) >> 16
    axes, layouts = _ADDED_LAYOUTS.get(rank, _ADDED_LAYOUTS[4])
    if rank not in _ADDED_LAYOUTS and hasattr(added, "layout"):
        raise Problem(
            f"{who} has {rank} axes. Describe (target, source), (heads, target, source) or (batch, heads, target, "
            "source), for example as 2DFirstMajor."
        )
    view, axis_of = resolve(added, axes, who, layouts=layouts)
    check_shape(view, axis_of, letters | {"N": batch}, who)
    if view.element.kind not in ("float", "bfloat", "boolean"):
        raise Problem(
            f"{who}.data_type is {view.element.name}, but it is added to the scores. Use Float32, or Boolean where "
            "true stands for -infinity.",
            kind=TypeError,
        )
    order = canonical_order(axis_of, axes)
    bound = bind(view, order, tuple(view.size[a] for a in order), who.field("data"), added.data, 1, 0)
    if view.element.kind == "boolean":
        return bound, _raw(bound, 2)[0]
    scores = bound.read(np.float32)[0]
    return bound, scores


def _raw(bound: Bound, contiguous_axes: int) -> NDArray[np.uint8]:
    """Stored bytes of a Boolean tensor, batch first; a copy unless the last axes are contiguous."""
    if bound.batch == 0:
        return np.empty((0, *bound.shape), np.uint8)
    raw = staging.strided(bound.view, bound.buffer, bound.batch, bound.stride, bound.order)
    assert raw is not None  # Boolean elements are bytes
    inner, expected = raw.strides[raw.ndim - contiguous_axes :], 1
    for size, stride in zip(reversed(raw.shape[raw.ndim - contiguous_axes :]), reversed(inner), strict=True):
        if size > 1 and stride != expected:
            return np.ascontiguousarray(raw)
        expected *= size
    return raw


def _require_boolean(view: View, who: str) -> None:
    if view.element.kind != "boolean":
        raise Problem(
            f"{who}.data_type is {view.element.name}, but a mask says which keys to ignore. Use BNNSDataTypeBoolean, true "
            "for those that are ignored; numbers go into add_to_attention.",
            kind=TypeError,
        )
