"""Sizes of arrays and ranks of layouts."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import compat
from ..abi.enums import BNNSDataLayout
from ..abi.structs import BNNSNDArrayDescriptor, BNNSTensor
from ..errors import Problem, record, succeeded
from ..filters.sparse import packed_bytes
from ..tensors import descriptors

__all__ = ["BNNSDataLayoutGetRank", "BNNSNDArrayGetDataSize", "BNNSTensorGetAllocationSize"]

SIZE_MAX = (1 << 64) - 1
"""The return value of a ``size_t`` function on failure."""


def BNNSNDArrayGetDataSize(array: BNNSNDArrayDescriptor | None) -> int:
    """Bytes spanned by an array; 0 if its data is NULL or its description is invalid.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> BNNSNDArrayGetDataSize(Shape.image_chw(5, 4, 3).descriptor(data=np.zeros(60, np.float32)))
    240
    """
    who = "BNNSNDArrayGetDataSize"
    if array is not None and not isinstance(array, BNNSNDArrayDescriptor):
        raise TypeError(f"{who}: array must be a BNNSNDArrayDescriptor, not {type(array).__name__}.")
    try:
        if array is None:
            raise Problem(f"{who}: array is NULL. Pass a BNNSNDArrayDescriptor.")
        view = descriptors.resolve(array, f"{who}: array", opaque=True)
        if array.data is None:
            raise Problem(f"{who}: array.data is NULL, so it has no size. Set data first.")
        if view.layout.opaque:
            return succeeded(packed_bytes(array, view, who))
        if compat.switches.sub_byte_data_size_zero and view.element.bits < 8:
            raise Problem(
                f"{who}: array.data_type is {view.element.name}, for which macOS 15 knows no size "
                "(compat.sub_byte_data_size_zero). Count the bits yourself.",
                unsupported=True,
            )
        return succeeded(view.bytes_of(view.span))
    except Problem as problem:
        record(problem)
        return 0


def BNNSTensorGetAllocationSize(tensor: BNNSTensor | None) -> int:
    """Bytes needed for a tensor: from its first to its last element; SIZE_MAX if a size is dynamic or invalid.

    >>> from openbnns.capi import *
    >>> BNNSTensorGetAllocationSize(BNNSTensor(data_type=BNNSDataTypeFloat16, rank=2, shape=[3, 5], stride=[8, 1]))
    42
    """
    who = "BNNSTensorGetAllocationSize"
    if tensor is not None and not isinstance(tensor, BNNSTensor):
        raise TypeError(f"{who}: tensor must be a BNNSTensor, not {type(tensor).__name__}.")
    try:
        return succeeded(_allocation_size(tensor, who))
    except Problem as problem:
        record(problem)
        return SIZE_MAX


def _allocation_size(tensor: Any, who: str) -> int:
    if tensor is None:
        raise Problem(f"{who}: tensor is NULL. Pass a BNNSTensor.")
    if not 0 <= tensor.rank <= 8:
        raise Problem(f"{who}: rank is {tensor.rank}. It is between 0 and 8: set it to the number of axes.")
    element = descriptors.element_type(tensor.data_type, f"{who}: tensor")
    span = 1
    for k in range(tensor.rank):
        if tensor.shape[k] < 0:
            raise Problem(f"{who}: shape[{k}] is {tensor.shape[k]}, a dynamic size. Fix every size first.")
        if tensor.shape[k] == 0:
            return 0
        span += (tensor.shape[k] - 1) * abs(tensor.stride[k])
    return (span * element.bits + 7) // 8


def BNNSDataLayoutGetRank(layout: BNNSDataLayout | int) -> int:
    """Rank encoded in a layout constant; SIZE_MAX for an unknown one.

    >>> from openbnns.capi import *
    >>> BNNSDataLayoutGetRank(BNNSDataLayoutImageCHW)
    3
    """
    if isinstance(layout, bool) or not isinstance(layout, (int, np.integer)):
        raise TypeError(f"BNNSDataLayoutGetRank: layout must be a BNNSDataLayout, not {type(layout).__name__}.")
    if int(layout) not in descriptors.LAYOUTS:
        record(
            Problem(
                f"BNNSDataLayoutGetRank: {int(layout):#x} is not a BNNSDataLayout. Pass a member of BNNSDataLayout."
            )
        )
        return SIZE_MAX
    return succeeded(int(layout) >> 16)
