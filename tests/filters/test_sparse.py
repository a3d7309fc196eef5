"""Sparse weights of fully connected filters: coordinate lists and compressed rows, against the dense matrix."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import openbnns
from bad_calls import refused
from openbnns import capi

FLOAT32 = capi.BNNSDataTypeFloat32


def described(array: np.ndarray, layout: int, size: tuple[int, ...]) -> capi.BNNSNDArrayDescriptor:
    kind = openbnns.DataType.from_dtype(array.dtype).value
    return capi.BNNSNDArrayDescriptor(layout=layout, size=size, data=array, data_type=kind)


def vector(array: np.ndarray) -> capi.BNNSNDArrayDescriptor:
    return described(array, capi.BNNSDataLayoutVector, (array.size,))


def matrix(seed: int, rows: int, columns: int) -> np.ndarray:
    random = np.random.RandomState(seed)
    return (random.standard_normal((rows, columns)) * (random.uniform(size=(rows, columns)) < 0.3)).astype(np.float32)


def run(w: capi.BNNSNDArrayDescriptor, rows: int, columns: int, x: np.ndarray, engine: str) -> np.ndarray:
    p = capi.BNNSLayerParametersFullyConnected(
        i_desc=capi.BNNSNDArrayDescriptor(layout=capi.BNNSDataLayoutVector, size=(columns,), data_type=FLOAT32),
        o_desc=capi.BNNSNDArrayDescriptor(layout=capi.BNNSDataLayoutVector, size=(rows,), data_type=FLOAT32),
        w_desc=w,
    )
    y = np.full((len(x), rows), np.nan, np.float32)
    with openbnns.engine(engine):
        made = capi.BNNSFilterCreateLayerFullyConnected(p)
        assert made is not None, openbnns.last_error()
        assert capi.BNNSFilterApplyBatch(made, len(x), x, columns, y, rows) == 0, openbnns.last_error()
        dx = capi.BNNSNDArrayDescriptor(
            layout=capi.BNNSDataLayoutVector, size=(columns,), data=np.empty_like(x), data_type=FLOAT32
        )
        dy = capi.BNNSNDArrayDescriptor(layout=capi.BNNSDataLayoutVector, size=(rows,), data=y, data_type=FLOAT32)
        refused(
            capi.BNNSFilterApplyBackwardBatch(made, len(x), x, columns, dx, columns, y, rows, dy, rows, None, None),
            "forward only",
        )
    return y


SHAPES = [
    (capi.BNNSDataLayoutRowMajorMatrix, True), (capi.BNNSDataLayoutColumnMajorMatrix, False),
    (capi.BNNSDataLayout2DFirstMajor, False),
]  # fmt: skip


@pytest.mark.covers("fc.sparse.coo", "fn.BNNSNDArrayFullyConnectedSparsifySparseCOO")
@pytest.mark.parametrize(("layout", "columns_first"), SHAPES)
@pytest.mark.parametrize("index_type", [np.int32, np.uint64])
@pytest.mark.parametrize("allocated", [True, False])
def test_coordinates(engine: str, layout: int, columns_first: bool, index_type: Any, allocated: bool) -> None:
    w = matrix(1, 7, 11)
    rows, columns = np.nonzero(w)
    pairs = np.stack([columns, rows] if columns_first else [rows, columns], axis=1).astype(index_type)
    dense = capi.BNNSNDArrayDescriptor(layout=layout, size=(11, 7) if columns_first else (7, 11), data_type=FLOAT32)
    out = (
        capi.BNNSNDArrayDescriptor()
        if allocated
        else capi.BNNSNDArrayDescriptor(data=np.empty(77, np.float32), data_type=FLOAT32)
    )
    status = capi.BNNSNDArrayFullyConnectedSparsifySparseCOO(
        dense,
        described(pairs, capi.BNNSDataLayout2DFirstMajor, pairs.shape),
        vector(w[rows, columns]),
        out,
        None,
        0,
        None,
        0,
    )
    assert status == 0, openbnns.last_error()
    assert out.layout == capi.BNNSDataLayoutFullyConnectedSparse and list(out.size[:2]) == [11, 7]
    x = np.random.RandomState(2).standard_normal((3, 11)).astype(np.float32)
    np.testing.assert_allclose(run(out, 7, 11, x, engine), x @ w.T, rtol=1e-5, atol=1e-5)


def test_coordinates_with_the_sizes_of_the_documented_example(engine: str) -> None:
    """A row-major matrix of size (number of pairs, 2), whose memory nevertheless holds one pair after the other."""
    w = matrix(7, 5, 8)
    rows, columns = np.nonzero(w)
    pairs = np.stack([columns, rows], axis=1).astype(np.int32)
    out = capi.BNNSNDArrayDescriptor()
    status = capi.BNNSNDArrayFullyConnectedSparsifySparseCOO(
        capi.BNNSNDArrayDescriptor(layout=capi.BNNSDataLayoutRowMajorMatrix, size=(8, 5), data_type=FLOAT32),
        described(pairs, capi.BNNSDataLayoutRowMajorMatrix, (len(pairs), 2)), vector(w[rows, columns]), out, None, 1, None, 0,
    )  # fmt: skip
    assert status == 0, openbnns.last_error()
    x = np.random.RandomState(8).standard_normal((3, 8)).astype(np.float32)
    np.testing.assert_allclose(run(out, 5, 8, x, engine), x @ w.T, rtol=1e-5, atol=1e-5)


@pytest.mark.covers("fc.sparse.csr", "fn.BNNSNDArrayFullyConnectedSparsifySparseCSR")
@pytest.mark.parametrize(("layout", "columns_first"), SHAPES)
def test_compressed_rows(engine: str, layout: int, columns_first: bool) -> None:
    w = matrix(3, 5, 9)
    w[2] = 0  # an empty row
    rows, columns = np.nonzero(w)
    starts = np.concatenate([[0], np.cumsum(np.count_nonzero(w, axis=1))]).astype(np.int32)
    dense = capi.BNNSNDArrayDescriptor(layout=layout, size=(9, 5) if columns_first else (5, 9), data_type=FLOAT32)
    out = capi.BNNSNDArrayDescriptor()
    status = capi.BNNSNDArrayFullyConnectedSparsifySparseCSR(
        dense, vector(columns.astype(np.int32)), vector(starts), vector(w[rows, columns]), out,
        capi.BNNSSparsityParameters(sparsity_ratio=(1, 3)), 4, np.empty(2 * 4 * 45, np.uint8), 2 * 4 * 45,
    )  # fmt: skip
    assert status == 0, openbnns.last_error()
    x = np.random.RandomState(4).standard_normal((4, 9)).astype(np.float32)
    np.testing.assert_allclose(run(out, 5, 9, x, engine), x @ w.T, rtol=1e-5, atol=1e-5)


def test_layer() -> None:
    w = matrix(5, 4, 6)
    rows, columns = np.nonzero(w)
    starts = np.concatenate([[0], np.cumsum(np.count_nonzero(w, axis=1))])
    x = np.random.RandomState(6).standard_normal((3, 6)).astype(np.float32)
    for layout in (
        openbnns.SparseLayout.coo(indices=np.stack([rows, columns], axis=1)),
        openbnns.SparseLayout.csr(column_indices=columns, row_starts=starts),
    ):
        packed = openbnns.FullyConnectedLayer.sparsify(
            input_layout=layout, input_dense_shape=(4, 6), input_values=w[rows, columns],
            sparse_parameters=openbnns.SparseParameters(ratio=(1, 3)),
        )  # fmt: skip
        layer = openbnns.FullyConnectedLayer(
            input=openbnns.Shape.vector(6), output=openbnns.Shape.vector(4), weights=packed
        )
        np.testing.assert_allclose(layer.apply(x), x @ w.T, rtol=1e-5, atol=1e-5)
        with pytest.raises(openbnns.LayerApplyError, match="forward only"):
            layer.apply_backward(x, None, np.ones((3, 4), np.float32))
    with pytest.raises(openbnns.LayerCreationError, match="row 9 is outside the matrix"):
        openbnns.FullyConnectedLayer.sparsify(
            input_layout=openbnns.SparseLayout.coo(indices=np.array([[9, 0]])), input_dense_shape=(4, 6),
            input_values=np.ones(1, np.float32),
        )  # fmt: skip


def coo(**changes: Any) -> tuple[int, Any]:
    pairs = np.array([[0, 1], [2, 0]], np.int32)
    out = capi.BNNSNDArrayDescriptor()
    arguments: dict[str, Any] = {
        "in_dense_shape": capi.BNNSNDArrayDescriptor(layout=capi.BNNSDataLayoutRowMajorMatrix, size=(3, 2), data_type=FLOAT32),
        "in_indices": described(pairs, capi.BNNSDataLayout2DFirstMajor, pairs.shape),
        "in_values": vector(np.ones(2, np.float32)), "out": out, "sparse_params": None, "batch_size": 1, "workspace": None,
        "workspace_size": 0,
    } | changes  # fmt: skip
    return capi.BNNSNDArrayFullyConnectedSparsifySparseCOO(**arguments), arguments["out"]


SMALL = np.zeros(3, np.float32)
NO_MATRIX = capi.BNNSNDArrayDescriptor(layout=capi.BNNSDataLayoutVector, size=(3,), data_type=FLOAT32)


def places(*pairs: tuple[int, int], kind: Any = np.int32) -> capi.BNNSNDArrayDescriptor:
    return described(np.array(pairs, kind), capi.BNNSDataLayout2DFirstMajor, (len(pairs), 2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"in_dense_shape": None}, "in_dense_shape is NULL"),
        ({"in_values": None}, "in_values is NULL"),
        ({"out": None}, "out is NULL"),
        ({"in_dense_shape": NO_MATRIX}, "Describe the dense matrix"),
        ({"in_indices": places((0, 0))}, "2 values need as many pairs"),
        (
            {
                "in_values": vector(np.ones(3, np.float32)),
                "in_indices": described(np.zeros((2, 3), np.int32), capi.BNNSDataLayout2DFirstMajor, (2, 3)),
            },
            "3 values need as many pairs",
        ),
        ({"in_indices": places((0, 0), (0, 0), kind=np.float32)}, "indices are integers"),
        ({"in_indices": places((3, 0), (0, 0))}, "column 3 is outside"),
        ({"in_indices": places((0, -1), (0, 0))}, "row -1 is outside"),
        ({"out": capi.BNNSNDArrayDescriptor(data=SMALL, data_type=FLOAT32)}, r"out.data"),
        ({"out": capi.BNNSNDArrayDescriptor(size=(2, 3))}, r"out.size is \(2, 3\)"),
        ({"out": capi.BNNSNDArrayDescriptor(data_type=capi.BNNSDataTypeInt8)}, "packed weights are Float32"),
        ({"workspace": SMALL, "workspace_size": 12}, "at least 48 bytes"),
    ],
)  # fmt: skip
def test_bad_coordinates(changes: dict[str, Any], message: str) -> None:
    status, out = coo(**changes)
    assert status == -1
    assert openbnns.last_error() is not None
    assert re.search(message, str(openbnns.last_error())), openbnns.last_error()
    assert not SMALL.any()
    if out is not None and "out" not in changes:
        assert out.data is None


@pytest.mark.parametrize(
    ("starts", "columns", "message"),
    [
        ([0], [0, 1], "2 rows need 3"),
        ([0, 1, 2, 2], [0, 1], "2 rows need 3"),
        ([0, 3], [0, 1], "must rise from 0"),
        ([1, 1, 2], [0, 1], "must rise from 0"),
        ([0, 2, 1], [0, 1], "must rise from 0"),
        ([0, 1, 2], [0, 3], "column 3 is outside"),
        ([0, 1, 2], [0], "has 1 entry"),
    ],
)
def test_bad_rows(starts: list[int], columns: list[int], message: str) -> None:
    out = capi.BNNSNDArrayDescriptor()
    dense = capi.BNNSNDArrayDescriptor(layout=capi.BNNSDataLayoutRowMajorMatrix, size=(3, 2), data_type=FLOAT32)
    status = capi.BNNSNDArrayFullyConnectedSparsifySparseCSR(
        dense, vector(np.array(columns, np.int32)), vector(np.array(starts, np.int32)), vector(np.ones(2, np.float32)), out, None,
        1, None, 0,
    )  # fmt: skip
    assert status == -1 and message in str(openbnns.last_error()) and out.data is None


def test_rows_may_end_where_the_values_do() -> None:
    """Apple's example on the page of the function: 16 starts for 16 rows, without the end of the last."""
    values, places = np.arange(1, 17, dtype=np.float32), np.arange(16, dtype=np.int32)
    dense = capi.BNNSNDArrayDescriptor(layout=capi.BNNSDataLayoutRowMajorMatrix, size=(16, 16), data_type=FLOAT32)
    packed = []
    for starts in (places, np.append(places, np.int32(16))):
        out = capi.BNNSNDArrayDescriptor()
        status = capi.BNNSNDArrayFullyConnectedSparsifySparseCSR(
            dense, vector(places), vector(starts), vector(values), out, capi.BNNSSparsityParameters(), 1, None, 0
        )
        assert status == 0, openbnns.last_error()
        layer = openbnns.FullyConnectedLayer(
            input=openbnns.Shape.vector(16), output=openbnns.Shape.vector(16), weights=out
        )
        packed.append(layer.apply(np.ones(16, np.float32)))
    np.testing.assert_array_equal(packed, [values, values])
