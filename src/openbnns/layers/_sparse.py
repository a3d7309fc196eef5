"""Sparse weights for fully connected layers, from arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..errors import LayerCreationError, Problem, as_exception
from ..filters.sparse import sparsify_coordinates, sparsify_rows
from ._misuse import reports_misuse
from ._ports import as_array, data_type, descriptor_for, first_major, require
from .shape import Shape
from .types import DataLayout, SparseLayout, SparseParameters

_NAMES = {
    "in_dense_shape": "input_dense_shape", "in_indices": "indices", "in_column_indices": "column_indices",
    "in_row_starts": "row_starts", "in_values": "input_values", "out": "output", "layout": "input_layout",
    "sparse_params": "sparse_parameters",
}  # fmt: skip


@reports_misuse(LayerCreationError)
def sparsify(
    *,
    input_layout: SparseLayout,
    input_dense_shape: Any,
    input_values: Any,
    output: BNNSNDArrayDescriptor | None = None,
    sparse_parameters: SparseParameters | None = None,
    workspace: Any = None,
    batch_size: int = 1,
    filter_parameters: BNNSFilterParameters | None = None,
) -> BNNSNDArrayDescriptor:
    """The packed form of sparse weights, for ``weights`` of a ``FullyConnectedLayer``, which then runs forward only.

    ``input_dense_shape`` is (outputs, inputs) or a shape. Indices are arrays of integers: with ``SparseLayout.coo`` pairs
    (output, input) for the former, in the order of ``size[]`` for a shape. ``output`` is filled in, or a new descriptor.

    >>> import numpy as np
    >>> from openbnns import FullyConnectedLayer, Shape, SparseLayout
    >>> layout = SparseLayout.coo(indices=np.array([[0, 1], [1, 2]]))
    >>> packed = FullyConnectedLayer.sparsify(
    ...     input_layout=layout, input_dense_shape=(2, 3), input_values=np.array([5, 7], np.float32)
    ... )
    >>> layer = FullyConnectedLayer(input=Shape.vector(3), output=Shape.vector(2), weights=packed)
    >>> layer.apply(np.array([1, 10, 100], np.float32))
    array([ 50., 700.], dtype=float32)
    """
    caller = Caller("FullyConnectedLayer.sparsify", _NAMES, null="None")
    out = BNNSNDArrayDescriptor() if output is None else output
    hint = None if sparse_parameters is None else sparse_parameters.bnns_sparsity_parameters
    size = 0 if workspace is None else memoryview(workspace).nbytes
    try:
        require(input_layout, SparseLayout, caller("layout"), "SparseLayout.coo(indices=...)")
        shape = _dense_shape(input_dense_shape, caller("in_dense_shape"))
        rest = (_tensor(input_values, caller("in_values")), out, hint, batch_size, workspace, size)
        if input_layout.case == "coo":
            sparsify_coordinates(caller, shape, _tensor(input_layout.indices, caller("in_indices")), *rest)
        else:
            columns = _tensor(input_layout.column_indices, caller("in_column_indices"))
            starts = _tensor(input_layout.row_starts, caller("in_row_starts"))
            sparsify_rows(caller, shape, columns, starts, *rest)
    except Problem as problem:
        raise as_exception(problem, LayerCreationError) from None
    return out


def _tensor(value: Any, who: str) -> BNNSNDArrayDescriptor:
    if isinstance(value, BNNSNDArrayDescriptor):
        return value
    array = np.ascontiguousarray(as_array(value, who))
    return descriptor_for(array.shape, first_major(array.shape), data_type(array, who), array)


def _dense_shape(value: Any, who: str) -> BNNSNDArrayDescriptor:
    if isinstance(value, BNNSNDArrayDescriptor):
        return value
    if isinstance(value, Shape):
        return value.descriptor()
    sizes = tuple(value)
    if len(sizes) != 2:
        raise Problem(f"{who} is {value!r}. Pass (outputs, inputs).")
    return descriptor_for(sizes, DataLayout.MATRIX_FIRST_MAJOR)
