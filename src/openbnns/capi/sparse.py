"""Sparse weights of fully connected layers under their C names."""

from __future__ import annotations

from typing import Any

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor, BNNSSparsityParameters
from ..filters import sparse
from ._calls import attempt_direct, check_filter_params

__all__ = ["BNNSNDArrayFullyConnectedSparsifySparseCOO", "BNNSNDArrayFullyConnectedSparsifySparseCSR"]


def BNNSNDArrayFullyConnectedSparsifySparseCOO(
    in_dense_shape: BNNSNDArrayDescriptor | Any, in_indices: BNNSNDArrayDescriptor | Any,
    in_values: BNNSNDArrayDescriptor | Any, out: BNNSNDArrayDescriptor | Any,
    sparse_params: BNNSSparsityParameters | None, batch_size: int, workspace: Any, workspace_size: int,
    filter_params: BNNSFilterParameters | None = None,
) -> int:  # fmt: skip
    """Pack weights given as a coordinate list; ``out`` is filled in and then serves as ``w_desc``.

    ``in_indices`` holds one pair per value in the order of the dense shape's ``size[]``: (column, row) for
    RowMajorMatrix, (row, column) for ColumnMajorMatrix. If ``out.data`` is NULL, memory is allocated.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> index, values, packed = np.int32([[0, 1], [1, 0]]), np.float32([5, 7]), BNNSNDArrayDescriptor()
    >>> dense = Shape.matrix_row_major(2, 2).descriptor()
    >>> i, v = Shape([2, 2]).descriptor(BNNSDataTypeInt32, index), Shape.vector(2).descriptor(data=values)
    >>> BNNSNDArrayFullyConnectedSparsifySparseCOO(dense, i, v, packed, None, 1, None, 0)
    0
    >>> v = Shape.vector(2).descriptor()
    >>> f = BNNSFilterCreateLayerFullyConnected(BNNSLayerParametersFullyConnected(i_desc=v, w_desc=packed, o_desc=v))
    >>> y = np.zeros(2, np.float32)
    >>> BNNSFilterApply(f, np.float32([1, 10]), y), y.tolist()
    (0, [70.0, 5.0])
    """
    who = "BNNSNDArrayFullyConnectedSparsifySparseCOO"
    check_filter_params(filter_params, who)
    return attempt_direct(
        sparse.sparsify_coordinates, Caller(who), in_dense_shape, in_indices, in_values, out, sparse_params, batch_size,
        workspace, workspace_size,
    )  # fmt: skip


def BNNSNDArrayFullyConnectedSparsifySparseCSR(
    in_dense_shape: BNNSNDArrayDescriptor | Any, in_column_indices: BNNSNDArrayDescriptor | Any,
    in_row_starts: BNNSNDArrayDescriptor | Any, in_values: BNNSNDArrayDescriptor | Any,
    out: BNNSNDArrayDescriptor | Any, sparse_params: BNNSSparsityParameters | None, batch_size: int, workspace: Any,
    workspace_size: int, filter_params: BNNSFilterParameters | None = None,
) -> int:  # fmt: skip
    """Pack weights given as compressed rows; ``out`` is filled in and then serves as ``w_desc``.

    ``in_column_indices`` has one entry per value, ``in_row_starts`` one per row and one more, rising from 0.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> column, start = np.int32([1, 0]), np.int32([0, 1, 2])
    >>> values, packed = np.float32([5, 7]), BNNSNDArrayDescriptor()
    >>> dense, v = Shape.matrix_row_major(2, 2).descriptor(), Shape.vector(2).descriptor
    >>> starts = Shape.vector(3).descriptor(BNNSDataTypeInt32, start)
    >>> BNNSNDArrayFullyConnectedSparsifySparseCSR(
    ...     dense, v(BNNSDataTypeInt32, column), starts, v(data=values), packed, None, 1, None, 0
    ... )
    0
    >>> p = BNNSLayerParametersFullyConnected(i_desc=v(), w_desc=packed, o_desc=v())
    >>> f = BNNSFilterCreateLayerFullyConnected(p)
    >>> y = np.zeros(2, np.float32)
    >>> BNNSFilterApply(f, np.float32([1, 10]), y), y.tolist()
    (0, [50.0, 7.0])
    """
    who = "BNNSNDArrayFullyConnectedSparsifySparseCSR"
    check_filter_params(filter_params, who)
    return attempt_direct(
        sparse.sparsify_rows, Caller(who), in_dense_shape, in_column_indices, in_row_starts, in_values, out, sparse_params,
        batch_size, workspace, workspace_size,
    )  # fmt: skip
