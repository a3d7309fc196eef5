"""Sparse weights of fully connected layers: coordinate lists and compressed rows, packed for the library.

The packed form, layout FullyConnectedSparse, is this library's own: the dense matrix, rows of inputs, in the element
type of the values. With compat.sparse_packed_compactly, and where that is shorter, it is one bit per element of that matrix,
lowest bit of the first byte first, followed, at a multiple of the element's bytes, by the values that are not 0. ``stride[0]``
of the descriptor, which has no other meaning here, holds the size of this form in bytes, and is 0 for the dense form.
Packed weights can be the weights of a fully connected filter, forward only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import compat
from .._plural import plural
from .._words import Caller, Named
from ..abi.enums import BNNSDataLayout, BNNSDataType
from ..abi.structs import BNNSSparsityParameters
from ..errors import Problem
from ..tensors import descriptors
from ..tensors.descriptors import LAYOUTS, View
from ..tensors.operands import Bound, bind, integer
from ..tensors.staging import encode
from .direct import require_data, require_descriptor

_NEEDED = "This call needs it: pass a BNNSNDArrayDescriptor."
_VECTOR = LAYOUTS[int(BNNSDataLayout.BNNSDataLayoutVector)]
_BYTE = descriptors.ELEMENT_TYPES[int(BNNSDataType.BNNSDataTypeUInt8)]
_ROW_MAJOR = LAYOUTS[int(BNNSDataLayout.BNNSDataLayoutRowMajorMatrix)]
# Axes (row, column) of size[] in the layouts of a dense shape.
_ROWS_COLUMNS = {"RowMajorMatrix": (1, 0), "ColumnMajorMatrix": (0, 1), "2DFirstMajor": (0, 1), "2DLastMajor": (0, 1)}


def sparsify_coordinates(
    caller: Caller, in_dense_shape: Any, in_indices: Any, in_values: Any, out: Any, sparse_params: Any, batch_size: Any,
    workspace: Any, workspace_size: Any,
) -> None:  # fmt: skip
    """From one pair of indices per value, in the order of the dense shape's ``size[]``; values at one place add up."""
    shape = _dense_shape(caller, in_dense_shape)
    values = _vector(caller, "in_values", in_values)
    pairs = _integers(caller, "in_indices", in_indices)
    # Apple's example gives a row-major matrix the size (number of pairs, 2); its memory holds one pair after the other even so.
    is_row_major = int(in_indices.layout) == BNNSDataLayout.BNNSDataLayoutRowMajorMatrix
    has_pairs = pairs.shape[-1] == 2 or (is_row_major and pairs.shape == (2, values.size))
    if pairs.size != 2 * values.size or not has_pairs:
        raise Problem(
            f"{caller('in_indices')} holds {pairs.size} numbers, but {values.size} values need as many pairs: describe "
            f"2DFirstMajor of size ({values.size}, 2)."
        )
    axes = _ROWS_COLUMNS[shape.layout.name]
    pairs = pairs.reshape(-1, 2)
    rows, columns = pairs[:, axes[0]], pairs[:, axes[1]]
    dense = np.zeros((shape.size[axes[0]], shape.size[axes[1]]), np.float32)
    _check_range(caller("in_indices"), "row", rows, len(dense))
    _check_range(caller("in_indices"), "column", columns, dense.shape[1])
    np.add.at(dense, (rows, columns), values)
    _write(caller, dense, out, in_values, sparse_params, batch_size, workspace, workspace_size)


def sparsify_rows(
    caller: Caller, in_dense_shape: Any, in_column_indices: Any, in_row_starts: Any, in_values: Any, out: Any,
    sparse_params: Any, batch_size: Any, workspace: Any, workspace_size: Any,
) -> None:  # fmt: skip
    """From one column per value, and where the values of each row start."""
    shape = _dense_shape(caller, in_dense_shape)
    axes = _ROWS_COLUMNS[shape.layout.name]
    height, width = shape.size[axes[0]], shape.size[axes[1]]
    values = _vector(caller, "in_values", in_values)
    columns = _integers(caller, "in_column_indices", in_column_indices).reshape(-1)
    starts = _integers(caller, "in_row_starts", in_row_starts).reshape(-1)
    if columns.size != values.size:
        raise Problem(
            f"{caller('in_column_indices')} has {plural(columns.size, 'entry')}, but "
            f"{caller.name('in_values')} {values.size}. Pass one per value."
        )
    if starts.size == height and height:  # Apple's example leaves out where the last row ends
        starts = np.append(starts, values.size)
    if starts.size != height + 1:
        raise Problem(
            f"{caller('in_row_starts')} has {plural(starts.size, 'entry')}, but {plural(height, 'row')} need {height + 1}: where "
            "each starts, and where the last one ends."
        )
    if starts[0] != 0 or starts[-1] != values.size or np.any(np.diff(starts) < 0):
        raise Problem(
            f"{caller('in_row_starts')} must rise from 0 to the number of values, {values.size}; got {starts[0]} to "
            f"{starts[-1]}."
        )
    _check_range(caller("in_column_indices"), "column", columns, width)
    dense = np.zeros((height, width), np.float32)
    np.add.at(dense, (np.repeat(np.arange(height), np.diff(starts)), columns), values)
    _write(caller, dense, out, in_values, sparse_params, batch_size, workspace, workspace_size)


def _dense_shape(caller: Caller, descriptor: Any) -> View:
    who = caller("in_dense_shape")
    require_descriptor(caller, "in_dense_shape", descriptor, _NEEDED)
    view = descriptors.resolve(descriptor, who)
    if view.layout.name not in _ROWS_COLUMNS:
        raise Problem(
            f"{who}.layout is {view.layout.name}. Describe the dense matrix: RowMajorMatrix (size = inputs, outputs), "
            "ColumnMajorMatrix, 2DFirstMajor or 2DLastMajor (size = outputs, inputs)."
        )
    return view


def _tensor(caller: Caller, name: str, descriptor: Any) -> Bound:
    """A tensor with data, read in the order of memory."""
    require_descriptor(caller, name, descriptor, _NEEDED)
    view = descriptors.resolve(descriptor, caller(name))
    require_data(caller, name, descriptor, view)
    return bind(view, view.memory_axes, view.shape, caller(name).field("data"), descriptor.data, 1, 0)


def _vector(caller: Caller, name: str, descriptor: Any) -> NDArray[np.float32]:
    bound = _tensor(caller, name, descriptor)
    values: NDArray[np.float32] = np.asarray(bound.read(np.float32)[0], np.float32).reshape(-1)
    return values


def _integers(caller: Caller, name: str, descriptor: Any) -> NDArray[np.int64]:
    bound = _tensor(caller, name, descriptor)
    if not bound.view.element.is_integer:
        raise Problem(
            f"{caller(name)} is {bound.view.element.name}, but indices are integers, such as Int32.", kind=TypeError
        )
    integers: NDArray[np.int64] = np.asarray(bound.read_integers(), np.int64).reshape(bound.shape)
    return integers


def _check_range(who: str, what: str, indices: NDArray[np.int64], limit: int) -> None:
    if indices.size and not 0 <= indices.min() <= indices.max() < limit:
        worst = int(indices.min() if indices.min() < 0 else indices.max())
        raise Problem(f"{who}: {what} {worst} is outside the matrix, whose {what}s are 0 to {limit - 1}.")


def _write(
    caller: Caller, dense: NDArray[np.float32], out: Any, in_values: Any, sparse_params: Any, batch_size: Any,
    workspace: Any, workspace_size: Any,
) -> None:  # fmt: skip
    """Fill ``out``: layout, size, type and data."""
    who = caller("out")
    require_descriptor(caller, "out", out, _NEEDED)
    if sparse_params is not None and not isinstance(sparse_params, BNNSSparsityParameters):
        raise TypeError(
            f"{caller('sparse_params')} must be a BNNSSparsityParameters, not {type(sparse_params).__name__}."
        )
    integer(batch_size, caller("batch_size"))
    element = descriptors.element_type(int(out.data_type) or int(in_values.data_type), who)
    if element.kind not in ("float", "bfloat"):
        raise Problem(
            f"{who}.data_type is {element.name}, but packed weights are Float32, Float16 or BFloat16.", kind=TypeError
        )
    rows, columns = dense.shape
    given = tuple(out.size[:2])
    if any(given) and given != (columns, rows):
        raise Problem(
            f"{who}.size is {given}, but the matrix is {rows} x {columns}: leave it at 0, or set {(columns, rows)}."
        )
    view = View(_ROW_MAJOR, element, (columns, rows), (1, columns))
    needed = 2 * view.bytes_of(view.count)
    if workspace is not None and integer(workspace_size, caller("workspace_size")) < needed:
        raise Problem(
            f"{caller('workspace_size')} is {int(workspace_size)}, but a workspace has at least {needed} bytes, twice the dense "
            f"matrix. Pass {caller.null} to have it allocated."
        )
    compact = _compacted(dense, view) if compat.switches.sparse_packed_compactly else None
    if compact is None:
        data = np.empty(view.count, element.numpy) if out.data is None else out.data
        target = bind(view, (1, 0), dense.shape, who.field("data"), data, 1, 0, output=True)
        target.write(dense[None])
    else:
        data = compact if out.data is None else out.data
        form = View(_VECTOR, _BYTE, (compact.size,), (1,))
        bind(form, (0,), compact.shape, who.field("data"), _as_bytes(data), 1, 0, output=True).write_raw(compact[None])
    out.layout, out.size = BNNSDataLayout.BNNSDataLayoutFullyConnectedSparse, (columns, rows)
    out.stride = () if compact is None else (compact.size,)
    out.data_type, out.data = element.code, data


def dense_view(descriptor: Any, who: Named) -> tuple[View, Any] | None:
    """How packed weights are read, and from where; ``None`` for a descriptor of any other layout."""
    if int(descriptor.layout) != BNNSDataLayout.BNNSDataLayoutFullyConnectedSparse:
        return None
    packed = descriptors.resolve(descriptor, who, opaque=True)
    view = replace(packed, layout=_ROW_MAJOR, strides=(1, packed.size[0]))
    size = int(descriptor.stride[0])
    if size == 0 or descriptor.data is None:
        return view, descriptor.data
    return view, _expanded(view, size, descriptor.data, who)


def packed_bytes(descriptor: Any, view: View, who: str) -> int:
    """The answer of BNNSNDArrayGetDataSize about packed weights."""
    if not compat.switches.sparse_packed_compactly:
        raise Problem(
            f"{who}: the size of {view.layout.name} is known to the library only. Keep the size given by the sparsify call.",
            unsupported=True,
        )
    return int(descriptor.stride[0]) or view.bytes_of(view.count)


# ---------------------------------------------------------------------------------------------------------------------
# The compact form


def _compacted(dense: NDArray[np.float32], view: View) -> NDArray[np.uint8] | None:
    """The bytes of the compact form, or ``None`` if the dense matrix is no longer than that."""
    stored = encode(dense.reshape(-1), view)
    marks = dense.reshape(-1) != 0
    bits = np.packbits(marks, bitorder="little")
    values = np.ascontiguousarray(stored[marks]).view(np.uint8)
    compact = np.concatenate([bits, np.zeros(-bits.size % stored.itemsize, np.uint8), values])
    return compact if compact.size < stored.nbytes else None


def _expanded(view: View, size: int, data: Any, who: Named) -> NDArray[Any]:
    """The dense matrix of the compact form, in its stored element type."""
    assert view.element.numpy is not None
    itemsize, count = view.element.numpy.itemsize, view.count
    marked = -(-count // 8)
    start = -(-marked // itemsize) * itemsize
    marks = None
    if start <= size < count * itemsize:
        form = View(_VECTOR, _BYTE, (size,), (1,))
        packed = bind(form, (0,), (size,), who.field("data"), _as_bytes(data), 1, 0).read_raw()[0]
        marks = np.unpackbits(packed[:marked], count=count, bitorder="little").astype(bool)
    if marks is None or size != start + itemsize * int(marks.sum()):
        raise Problem(
            f"{who}.data does not hold packed weights of {view.size[1]} x {view.size[0]} in {size} bytes, which stride[0] says. "
            "Pass the descriptor as the sparsify call has filled it, with all that it points to."
        )
    dense = np.zeros(count, view.element.numpy)
    dense[marks] = np.ascontiguousarray(packed[start:]).view(view.element.numpy)
    return dense


def _as_bytes(data: Any) -> Any:
    """Memory of any item type as bytes; addresses and objects without a plain buffer stay as they are."""
    try:
        return memoryview(data).cast("B")
    except (TypeError, ValueError):
        return data
