"""Axis numbers: what axis 0 is in every layout, by examples computed by hand.

The same memory described as RowMajorMatrix, whose size[] is (columns, rows), or as 2DFirstMajor takes the same numbers:
axis 0 runs down the columns, axis 1 along a row. See docs/descriptors.md.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from bad_calls import refused
from cases._base import succeed
from helpers import BOOLEAN, COLUMN_MAJOR, FIRST_MAJOR_2D, FLOAT32, IMAGE, INT32, LAST_MAJOR_2D, ROW_MAJOR, VECTOR
from openbnns import capi

SUM, NONE = capi.BNNSReduceFunctionSum, capi.BNNSReduceFunctionNone
MATRICES = {"RowMajorMatrix": ROW_MAJOR, "2DFirstMajor": FIRST_MAJOR_2D}
OTHERS = {"ColumnMajorMatrix": COLUMN_MAJOR, "2DLastMajor": LAST_MAJOR_2D}

matrices = pytest.mark.parametrize("layout", MATRICES.values(), ids=list(MATRICES))


@pytest.fixture(params=["native", "reference"], autouse=True)
def engine(request: pytest.FixtureRequest) -> Any:
    with bn.engine(request.param):
        yield request.param


def floats(rows: Any) -> Any:
    return np.array(rows, np.float32)


def described(memory: Any, layout: Any, kind: Any = FLOAT32) -> Any:
    """Memory (rows, columns), or a vector."""
    if memory.ndim == 1:
        return capi.BNNSNDArrayDescriptor(layout=VECTOR, size=memory.shape, data=memory, data_type=kind)
    size = memory.shape if layout == FIRST_MAJOR_2D else memory.shape[::-1]
    return capi.BNNSNDArrayDescriptor(layout=layout, size=size, data=memory, data_type=kind)


X = floats([[3, 0, 8], [4, 2, 6]])


@matrices
def test_clip_by_norm(layout: Any) -> None:
    y = np.zeros_like(X)
    succeed(
        capi.BNNSClipByNorm(described(y, layout), described(X, layout), 1.0, 0b01)
    )  # norms 5, 2, 10: down the columns
    np.testing.assert_allclose(y, [[0.6, 0, 0.8], [0.8, 1, 0.6]], rtol=1e-6)
    rows = floats([[3, 0, 4], [2, 6, 3]])
    y = np.zeros_like(rows)
    succeed(capi.BNNSClipByNorm(described(y, layout), described(rows, layout), 1.0, 0b10))  # norms 5, 7: along the rows
    np.testing.assert_allclose(y, rows / [[5], [7]], rtol=1e-6)


@matrices
def test_compute_norm_and_its_gradient(layout: Any) -> None:
    y, dx = np.zeros(3, np.float32), np.zeros_like(X)
    succeed(capi.BNNSComputeNorm(described(y, VECTOR), described(X, layout), capi.BNNSL2Norm, 0b01))
    np.testing.assert_allclose(y, [5, 2, 10], rtol=1e-6)
    dy = floats([5, 3, -10])
    succeed(
        capi.BNNSComputeNormBackward(X, described(dx, layout), y, described(dy, VECTOR), capi.BNNSL2Norm, 0b01)
    )  # dy x / y
    np.testing.assert_allclose(dx, [[3, 0, -8], [4, 3, -6]], rtol=1e-6)
    along, dy = np.zeros(2, np.float32), floats([2, -1])
    succeed(capi.BNNSComputeNorm(described(along, VECTOR), described(X, layout), capi.BNNSL2Norm, 0b10))
    np.testing.assert_allclose(along, np.sqrt([73, 56]), rtol=1e-6)
    succeed(capi.BNNSComputeNormBackward(X, described(dx, layout), along, described(dy, VECTOR), capi.BNNSL2Norm, 0b10))
    np.testing.assert_allclose(dx, X * (dy / along)[:, None], rtol=1e-6)


@matrices
def test_top_k_and_in_top_k(layout: Any) -> None:
    x = floats([[1, 9, 4, 2], [7, 3, 8, 5], [6, 0, 11, 10]])
    best, where = np.zeros((2, 4), np.float32), np.zeros((2, 4), np.int32)
    succeed(
        capi.BNNSDirectApplyTopK(
            2, 0, 1, described(x, layout), 0, described(best, layout), 0, described(where, layout, INT32), 0
        )
    )  # down the columns
    assert best.tolist() == [[7, 9, 11, 10], [6, 3, 8, 5]]
    assert where.tolist() == [[1, 0, 2, 2], [2, 1, 1, 1]]
    best, where = np.zeros((3, 2), np.float32), np.zeros((3, 2), np.int32)
    succeed(
        capi.BNNSDirectApplyTopK(
            2, 1, 1, described(x, layout), 0, described(best, layout), 0, described(where, layout, INT32), 0
        )
    )  # along the rows
    assert best.tolist() == [[9, 4], [8, 7], [11, 10]]
    assert where.tolist() == [[1, 2], [2, 0], [2, 3]]

    actual = np.zeros(4, bool)
    tested = np.array([2, 2, 1, 0], np.int32)  # rows 2, 2, 1, 0 of the four columns
    succeed(
        capi.BNNSDirectApplyInTopK(
            2, 0, 1, described(x, layout), 0, described(tested, VECTOR, INT32), 0, described(actual, VECTOR, BOOLEAN), 0
        )
    )
    assert actual.tolist() == [True, False, True, False]
    actual, tested = np.zeros(3, bool), np.array([3, 0, 3], np.int32)
    succeed(
        capi.BNNSDirectApplyInTopK(
            2, 1, 1, described(x, layout), 0, described(tested, VECTOR, INT32), 0, described(actual, VECTOR, BOOLEAN), 0
        )
    )
    assert actual.tolist() == [False, True, True]


@matrices
@pytest.mark.parametrize("into", MATRICES.values(), ids=[f"into {name}" for name in MATRICES])
def test_gather_and_scatter(layout: Any, into: Any) -> None:
    """Also from one of the two layouts into the other, which is the same memory."""
    x = floats([[1, 2, 3], [4, 5, 6]])
    index = described(np.array([1, 0, 1], np.int32), VECTOR, INT32)
    rows, columns = np.zeros((3, 3), np.float32), np.zeros((2, 3), np.float32)
    succeed(capi.BNNSGather(0, described(x, layout), index, described(rows, into)))
    assert rows.tolist() == [[4, 5, 6], [1, 2, 3], [4, 5, 6]]
    succeed(capi.BNNSGather(1, described(x, layout), index, described(columns, into)))
    assert columns.tolist() == [[2, 1, 2], [5, 4, 5]]

    y = np.full((2, 3), 100, np.float32)
    succeed(capi.BNNSScatter(0, SUM, described(rows, into), index, described(y, layout)))
    assert y.tolist() == [[101, 102, 103], [108, 110, 112]]
    y[...] = 0
    succeed(capi.BNNSScatter(1, NONE, described(columns, into), index, described(y, layout)))
    assert y.tolist() == [[1, 2, 0], [4, 5, 0]]

    each = np.array([[1, 1, 0]], np.int32)  # one index per element of the output
    picked = np.zeros((1, 3), np.float32)
    succeed(capi.BNNSGather(0, described(x, layout), described(each, into, INT32), described(picked, into)))
    assert picked.tolist() == [[4, 5, 3]]
    for one in (layout, into):  # index vectors (row, column)
        vectors, elements = np.array([[1, 2], [0, 1]], np.int32), np.zeros(2, np.float32)
        succeed(capi.BNNSGatherND(described(x, layout), described(vectors, one, INT32), described(elements, VECTOR)))
        assert elements.tolist() == [6, 2]


@matrices
@pytest.mark.parametrize("into", [*MATRICES.values(), *OTHERS.values()], ids=[*MATRICES, *OTHERS])
def test_transpose(layout: Any, into: Any) -> None:
    """Two axes of a matrix are swapped, whatever layouts describe it."""
    x, memory = floats([[1, 2, 3], [4, 5, 6]]), np.zeros(6, np.float32)
    y = memory.reshape((2, 3) if into in OTHERS.values() else (3, 2))
    succeed(capi.BNNSTranspose(described(y, into), described(x, layout), 0, 1))
    assert (y.T if into in OTHERS.values() else y).tolist() == [[1, 4], [2, 5], [3, 6]]


def test_images_count_by_size() -> None:
    """Axis 2 of ImageCHW is size[2], the channels."""
    x = np.random.default_rng(0).standard_normal((4, 2, 3)).astype(np.float32)  # 4 channels of 2 rows of 3
    image = capi.BNNSNDArrayDescriptor(layout=IMAGE, size=(3, 2, 4), data=x, data_type=FLOAT32)
    y = np.zeros((2, 3), np.float32)
    d = capi.BNNSNDArrayDescriptor(layout=LAST_MAJOR_2D, size=(3, 2), data=y, data_type=FLOAT32)
    succeed(capi.BNNSComputeNorm(d, image, capi.BNNSL2Norm, 0b100))
    np.testing.assert_allclose(y, np.sqrt((x * x).sum(0)), rtol=1e-6)


@pytest.mark.parametrize("layout", [*MATRICES.values(), *OTHERS.values()], ids=[*MATRICES, *OTHERS])
def test_python_functions_on_descriptors_and_arrays(layout: Any) -> None:
    """Arrays have NumPy axes, whatever describes the other tensors; descriptors have the numbers of their layout."""
    x = floats([[1, 9, 4], [7, 3, 8]])
    d, index = described(x, layout), np.array([1, 0, 1])
    axis = 0 if layout in MATRICES.values() else 1  # NumPy's, of axis 0
    np.testing.assert_array_equal(bn.gather(d, index, axis=0), np.take(x, index, axis))
    np.testing.assert_array_equal(bn.gather(x, index, axis=0), np.take(x, index, 0))
    best = bn.apply_top_k(1, d, axis=0)
    np.testing.assert_array_equal(best.values, x.max(axis, keepdims=True))
    np.testing.assert_array_equal(best.indices, x.argmax(axis)[None] if axis == 0 else x.argmax(axis)[:, None])
    tested = np.zeros(x.shape[1 - axis], np.int32)
    np.testing.assert_array_equal(bn.apply_in_top_k(1, d, tested, axis=0), np.take(x, 0, axis) == x.max(axis))
    np.testing.assert_allclose(bn.compute_norm(d, axes=[0]), np.sqrt((x * x).sum(axis)), rtol=1e-6)
    y = bn.compute_norm(d, axes=[1])
    dy = floats([1, 2, 3])[: y.size]
    dx = bn.compute_norm_backward(d, y, axes=[1], output_gradient=dy)
    np.testing.assert_allclose(dx, x * np.expand_dims(dy / y, 1 - axis), rtol=1e-6)
    clipped = bn.clip_by_norm(1.0, d, axes=[0])
    np.testing.assert_allclose(clipped, x / np.sqrt((x * x).sum(axis, keepdims=True)), rtol=1e-6)
    # The output is an array, so the axis is NumPy's, and the described input lies like it.
    part, total = floats([[1, 2, 3]]), np.zeros((2, 3), np.float32)
    bn.scatter(described(part, layout), np.array([1]), total, axis=0)
    assert total.tolist() == [[0, 0, 0], [1, 2, 3]]
    np.testing.assert_array_equal(bn.transpose(d), x.T)


@matrices
def test_messages_name_the_entry_of_size(layout: Any) -> None:
    k = "size[1]" if layout == ROW_MAJOR else "size[0]"
    y = np.zeros((5, 3), np.float32)
    status = capi.BNNSDirectApplyTopK(5, 0, 1, described(X, layout), 0, described(y, layout), 0, None, 0)
    refused(status, re.escape(f"K is 5, but axis 0 ({k})"))
    index = described(np.zeros(3, np.int32), VECTOR, INT32)
    assert capi.BNNSGather(0, described(X, layout), index, described(np.zeros((2, 2), np.float32), layout)) == -1003
    assert f"may differ in axis 0 ({k}) only" in str(bn.last_error())
    assert capi.BNNSGather(2, described(X, layout), index, described(y, layout)) == -1
    count = "rows first" if layout == ROW_MAJOR else "in the order of size"
    assert f"has axes 0 to 1, {count}" in str(bn.last_error())
