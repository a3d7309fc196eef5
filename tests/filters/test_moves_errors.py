"""Functions of tensors with NumPy arrays, and called wrongly under both names."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from cases.moves import FIRST_MAJOR, LAST_MAJOR, best
from helpers import (
    BOOLEAN,
    COLUMN_MAJOR,
    FIRST_MAJOR_2D,
    FLOAT32,
    INT8,
    INT32,
    LAST_MAJOR_2D,
    ROW_MAJOR,
    VECTOR,
    Tensor,
    vector,
)  # fmt: skip
from openbnns import capi

SUM, NONE = capi.BNNSReduceFunctionSum, capi.BNNSReduceFunctionNone


# ---------------------------------------------------------------------------------------------------------------------
# The Python face


def test_numpy_axes() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for axis in range(-3, 3):
        np.testing.assert_array_equal(bn.gather(x, np.array([1, 0]), axis=axis), np.take(x, [1, 0], axis))
        np.testing.assert_array_equal(bn.apply_top_k(2, x, axis=axis).indices, best(x, 2, axis))
        out = np.zeros_like(x)
        assert bn.scatter(np.take(x, [1], axis), np.array([1]), out, axis=axis) is out
        np.testing.assert_array_equal(np.take(out, [1], axis), np.take(x, [1], axis))
    strided_input = x[:, ::2]
    np.testing.assert_array_equal(bn.copy(strided_input), strided_input)
    np.testing.assert_array_equal(bn.gather(x.T, np.array([1])), x.T[[1]])
    assert bn.apply_top_k(1, x, best_indices=bn.skip).indices is None
    np.testing.assert_array_equal(bn.gather_nd(x, np.array([1, 2, 3])), [23])
    np.testing.assert_array_equal(bn.copy_band_part(x, upper_band_count=0), np.tril(x))
    small = bn.shuffle(bn.ShuffleType.SPACE_TO_DEPTH_NCHW, np.zeros((1, 2, 4, 6), np.int8), block_size=2)
    assert small.shape == (1, 8, 2, 3) and small.dtype == np.int8


def test_descriptors_in_the_python_face() -> None:
    x = np.arange(6, dtype=np.float32)
    d = Tensor(LAST_MAJOR_2D, (3, 2)).descriptor(x)  # memory (2, 3)
    np.testing.assert_array_equal(bn.gather(d, np.array([2]), axis=0), [[2], [5]])
    np.testing.assert_array_equal(bn.transpose(d), x.reshape(2, 3).T)
    np.testing.assert_array_equal(bn.compare(d, d, bn.RelationalOperator.EQUAL), np.ones((2, 3), bool))
    np.testing.assert_array_equal(bn.apply_top_k(1, d, axis=1).values, [[3, 4, 5]])
    y = np.zeros((2, 3), np.float32)
    assert bn.copy(d, y) is y
    np.testing.assert_array_equal(y, x.reshape(2, 3))
    batch = vector(2).descriptor(np.array([1, 2, 4, 3], np.float32))
    v = vector(1).descriptor(np.zeros(2, np.float32))
    assert bn.apply_top_k(1, batch, v, bn.skip, axis=0, batch_size=2).values is v
    assert v.data.tolist() == [2, 4]


X = np.ones((2, 3), np.float32)
BAD_FACE: list[tuple[str, Any, type[Exception], str]] = [
    ("gather", lambda: bn.gather(X, np.array([2])), ValueError, "indices holds 2, but axis 0 has 2 entries"),
    ("gather", lambda: bn.gather(X, np.array([-1])), ValueError, "indices holds -1"),
    ("gather", lambda: bn.gather(X, np.array([0]), axis=2), ValueError, "axis is 2, but there are axes -2 to 1"),
    ("gather", lambda: bn.gather(X, np.array([0.0], np.float32)), TypeError, "indices are integers"),
    ("gather", lambda: bn.gather(X, np.array([0]), axis=1.0), TypeError, "axis must be an integer"),  # type: ignore[arg-type]
    ("gather", lambda: bn.gather(None, np.array([0])), ValueError, "input is None"),
    ("gather", lambda: bn.gather(np.ones(2), np.array([0])), TypeError, "input is float64"),
    ("gather", lambda: bn.gather(X, np.array([0]), np.zeros((1, 6), np.float32)[:, ::2]), ValueError, "not C-contiguous"),
    ("scatter", lambda: bn.scatter(X, np.array([0, 1]), None), ValueError, "output is None"),
    ("scatter", lambda: bn.scatter(X, np.array([0, 1]), X.copy(), reduction_function=bn.ReductionFunction.max()),
     ValueError, "reduction_function is 0"),
    ("scatter", lambda: bn.scatter(X, np.array([0, 1]), X.copy(), reduction_function=6),  # type: ignore[arg-type]
     TypeError, "reduction_function must be ReductionFunction"),
    ("copy", lambda: bn.copy(X, np.zeros((3, 2), np.float32)), ValueError, r"to is 2DFirstMajor size \(3, 2\)"),
    ("copy", lambda: bn.copy(np.float32(1)), ValueError, r"input has shape \(\)"),
    ("compare", lambda: bn.compare(X, X, bn.RelationalOperator.LESS, X.copy()), TypeError, "output.data_type is Float32"),
    ("compare", lambda: bn.compare(X, None, bn.RelationalOperator.LESS), ValueError, "b is None"),
    ("compare", lambda: bn.compare(X, X, 1), TypeError, "using must be a RelationalOperator"),  # type: ignore[arg-type]
    ("apply_top_k", lambda: bn.apply_top_k(4, X), ValueError, "k is 4, but axis 1 has 3 entries"),
    ("apply_top_k", lambda: bn.apply_top_k(0, X), ValueError, "k is 0"),
    ("apply_top_k", lambda: bn.apply_top_k(True, X), TypeError, "k must be an integer"),
    ("apply_top_k", lambda: bn.apply_top_k(1, X, batch_size=2), ValueError, "batch_size is 2"),
    ("apply_in_top_k", lambda: bn.apply_in_top_k(1, X, np.array([3, 0])), ValueError, "test_indices holds 3"),
    ("tile", lambda: bn.tile(X), ValueError, "repeats must hold 2 numbers"),
    ("tile", lambda: bn.tile(X, np.zeros((3, 3), np.float32)), ValueError, "is a multiple of the other's"),
    ("tile_backward", lambda: bn.tile_backward(X), ValueError, "input_shape must tell"),
    ("shuffle", lambda: bn.shuffle(bn.ShuffleType.PIXEL_SHUFFLE_NCHW, X), ValueError, "block_size must be"),
    ("transpose", lambda: bn.transpose(X, first_transpose_axis=5), ValueError, "first_transpose_axis is 5"),
    ("gather_nd", lambda: bn.gather_nd(X, np.zeros((1, 3), np.int32)), ValueError, "index vectors of 3 entries"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "call", "kind", "message"), BAD_FACE, ids=lambda v: v if isinstance(v, str) else "")
def test_bad_calls_of_the_python_face(name: str, call: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=f"^{name}: .*{message}") as caught:
        call()
    assert isinstance(caught.value, bn.BNNSError)
    assert np.all(X == 1)


# ---------------------------------------------------------------------------------------------------------------------
# Mistakes under the C names


def desc(size: Any = (4,), layout: Any = VECTOR, kind: Any = FLOAT32, data: Any = "new", **more: Any) -> Any:
    t = Tensor(layout, tuple(size), data_type=kind)
    data = np.ones(t.count, t.dtype) if isinstance(data, str) else data
    return capi.BNNSNDArrayDescriptor(layout=layout, size=size, data=data, data_type=kind, **more)


def idx(*values: int) -> Any:
    return desc((len(values),), kind=INT32, data=np.array(values, np.int32))


F2, F4 = FIRST_MAJOR_2D, FIRST_MAJOR[4]
READ_ONLY = np.ones(4, np.float32)
READ_ONLY.flags.writeable = False
ONE_ALLOCATOR = capi.BNNSFilterParameters(alloc_memory=lambda *a: 0)
BAD: list[tuple[str, Any, str, int]] = [
    ("BNNSCopy", lambda: (None, desc()), "dest is NULL", -1),
    ("BNNSCopy", lambda: (desc(), None), "src is NULL", -1),
    ("BNNSCopy", lambda: (desc(data=None), desc()), "dest.data is NULL", -1),
    ("BNNSCopy", lambda: (desc((5,)), desc()), "logical shape", -1),
    ("BNNSCopy", lambda: (desc((3, 2), ROW_MAJOR), desc((3, 2), COLUMN_MAJOR)), r"logically \(2, 3\)", -1),
    ("BNNSCopy", lambda: (desc(data=READ_ONLY), desc()), "read-only", -1),
    ("BNNSCopy", lambda: (desc(), desc(data=np.ones(3, np.float32))), "holds 12 bytes", -1),
    ("BNNSCopy", lambda: (desc(layout=0x999), desc()), "not a BNNSDataLayout", -1),
    ("BNNSCopy", lambda: (desc(), desc(), ONE_ALLOCATOR), "free_memory is NULL", -1),
    ("BNNSTranspose", lambda: (desc((3, 2), F2), desc((2, 3), F2), 0, 2), "axis1 is 2", -1),
    ("BNNSTranspose", lambda: (desc((3, 2), F2), desc((2, 3), F2), -1, 1), "axis0 is -1", -1),
    ("BNNSTranspose", lambda: (desc((2, 3), F2), desc((2, 3), F2), 0, 1), r"its size is \(3, 2\)", -1),
    ("BNNSTile", lambda: (desc((2,)), desc((3,))), "a multiple of", -1),
    ("BNNSTile", lambda: (desc((2,)), desc((2, 2), F2)), "a multiple of", -1),
    ("BNNSTileBackward", lambda: (desc((2,)), desc((5,))), "a multiple of", -1),
    ("BNNSTileBackward", lambda: (desc((2,), kind=INT8), desc((4,))), "training works on Float32", -1),
    ("BNNSTileBackward", lambda: (desc((2,), flags=2), desc((4,))), "flags is 2", -1),
    ("BNNSTileBackward", lambda: (None, desc((4,))), "in_delta is NULL", -1),
    ("BNNSCompareTensor", lambda: (desc(), desc(), 12, desc(kind=BOOLEAN)), "op is 12", -1),
    ("BNNSCompareTensor", lambda: (desc(), desc(), 0, desc(kind=INT8)), "out.data_type is Int8", -1),
    ("BNNSCompareTensor", lambda: (desc(), desc((3,)), 0, desc(kind=BOOLEAN)), "same size", -1),
    ("BNNSCompareTensor", lambda: (desc(), desc(), 0, desc((5,), kind=BOOLEAN)), "same size", -1),
    ("BNNSCompareTensor", lambda: (desc(), None, 0, desc(kind=BOOLEAN)), "in1 is NULL", -1),
    ("BNNSGather", lambda: (0, desc(), idx(0, 4), desc((2,))), "indices holds 4", -1005),
    ("BNNSGather", lambda: (0, desc(), idx(0, -1), desc((2,))), "indices holds -1", -1005),
    ("BNNSGather", lambda: (0, desc(), idx(0, 1, 2), desc((2,))), "Pass 2 indices", -1003),
    ("BNNSGather", lambda: (0, desc((2, 3), F2), idx(0), desc((1, 2), F2)), "differ in axis 0", -1003),
    ("BNNSGather", lambda: (1, desc(), idx(0), desc((1,))), "axis is 1, but Vector", -1),
    ("BNNSGather", lambda: (0, desc(), desc((1,)), desc((1,))), "indices are integers", -1),
    ("BNNSScatter", lambda: (0, 0, desc((2,)), idx(0, 1), desc()), "op is 0", -1),
    ("BNNSScatter", lambda: (0, SUM, desc((2,)), idx(0, 4), desc()), "indices holds 4", -1005),
    ("BNNSScatter", lambda: (0, NONE, desc((2,)), idx(0), desc()), "Pass 2 indices", -1003),
    ("BNNSGatherND", lambda: (desc((2, 2), F2), desc((1, 3), F2, INT32), desc((1,))), "vectors of 3 entries", -1003),
    ("BNNSGatherND", lambda: (desc((2, 2), F2), desc((3, 1), F2, INT32), desc((3, 3), F2)), "shape follows from indices", -1003),
    ("BNNSGatherND", lambda: (desc((1, 2), F2), desc((3, 1), F2, INT32), desc((3, 2), F2)), "holds 1", -1005),
    ("BNNSScatterND", lambda: (SUM, desc((3, 2), F2), desc((3, 1), F2, INT32), desc((1, 2), F2)), "holds 1", -1005),
    ("BNNSShuffle", lambda: (4, desc((1, 4, 1, 1), F4), desc((1, 1, 2, 2), F4)), "type is 4", -1),
    ("BNNSShuffle", lambda: (0, desc((1, 4, 1, 1), LAST_MAJOR[4]), desc((1, 1, 2, 2), F4)), "4DFirstMajor", -1),
    ("BNNSShuffle", lambda: (0, desc((1, 3, 1, 1), F4), desc((1, 1, 2, 2), F4)), "blocks of b x b", -1),
    ("BNNSShuffle", lambda: (0, desc((1, 1, 2, 2), F4), desc((1, 4, 1, 1), F4)), "blocks of b x b", -1),
    ("BNNSBandPart", lambda: (0, 0, desc((2, 2), F2), desc((2, 3), F2)), "same layout and size", -1),
    ("BNNSBandPart", lambda: (0, 0, desc(), desc()), "two axes or more", -1),
    ("BNNSBandPart", lambda: (0, 0, desc((2, 2), F2, stride=(1, 3), data=np.ones(6, np.float32)), desc((2, 2), F2)),
     "packed tensors only", -1),
    ("BNNSDirectApplyTopK", lambda: (5, 0, 1, desc(), 0, desc((5,)), 0, None, 0), "K is 5", -1),
    ("BNNSDirectApplyTopK", lambda: (0, 0, 1, desc(), 0, desc((5,)), 0, None, 0), "K is 0", -1),
    ("BNNSDirectApplyTopK", lambda: (2, 1, 1, desc(), 0, desc((2,)), 0, None, 0), "axis is 1", -1),
    ("BNNSDirectApplyTopK", lambda: (2, 0, 1, desc(), 0, desc((3,)), 0, None, 0), r"have size \(2,\)", -1),
    ("BNNSDirectApplyTopK", lambda: (2, 0, 1, desc(), 0, None, 0, None, 0), "best_values is NULL", -1),
    ("BNNSDirectApplyTopK", lambda: (2, 0, 1, desc(), 0, desc((2,)), 0, desc((2,)), 0), "indices are integers", -1),
    ("BNNSDirectApplyTopK", lambda: (1, 0, 1, desc((200,)), 0, desc((1,)), 0, desc((1,), kind=INT8), 0), "wider type", -1),
    ("BNNSDirectApplyTopK", lambda: (2, 0, 2, desc(), 0, desc((2,)), 0, None, 0), "holds 8 bytes|holds 16 bytes", -1),
    ("BNNSDirectApplyTopK", lambda: (2, 0, -1, desc(), 0, desc((2,)), 0, None, 0), "batch_size is -1", -1),
    ("BNNSDirectApplyInTopK", lambda: (2, 0, 1, desc(), 0, idx(4), 0, desc((1,), kind=BOOLEAN), 0), "holds 4", -1005),
    ("BNNSDirectApplyInTopK", lambda: (2, 0, 1, desc(), 0, idx(0, 1), 0, desc((1,), kind=BOOLEAN), 0), "without axis 0", -1),
    ("BNNSDirectApplyInTopK", lambda: (2, 0, 1, desc(), 0, idx(0), 0, desc((1,)), 0), "output.data_type is Float32", -1),
    ("BNNSDirectApplyInTopK", lambda: (9, 0, 1, desc(), 0, idx(0), 0, desc((1,), kind=BOOLEAN), 0), "K is 9", -1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "make", "message", "code"), BAD, ids=lambda v: v if isinstance(v, str) else "")
def test_bad_calls(engine: str, name: str, make: Any, message: str, code: int) -> None:
    arguments = make()
    before = [a.data.copy() if isinstance(getattr(a, "data", None), np.ndarray) else None for a in arguments]
    assert getattr(capi, name)(*arguments) == code, bn.last_error()
    assert re.search(f"^{name}: .*({message})", str(bn.last_error())), bn.last_error()
    for argument, old in zip(arguments, before, strict=True):
        if old is not None:
            np.testing.assert_array_equal(argument.data, old)


@pytest.mark.parametrize("name", ["BNNSCopy", "BNNSTranspose", "BNNSTile"])
def test_overlap(engine: str, name: str) -> None:
    """A result on top of its input is as anywhere else."""
    memory = np.arange(6, dtype=np.float32)
    x, y = Tensor(F2, (2, 2)).descriptor(memory[:4]), Tensor(F2, (2, 2)).descriptor(memory[2:])
    arguments = (x, y) if name == "BNNSTile" else (y, x, 0, 1) if name == "BNNSTranspose" else (y, x)
    assert getattr(capi, name)(*arguments) == 0, bn.last_error()
    assert memory.tolist() == [0, 1, 0, 2, 1, 3] if name == "BNNSTranspose" else [0, 1, 0, 1, 2, 3]


def test_impossible_types() -> None:
    for call in (
        lambda: capi.BNNSCopy(np.ones(4), desc()),
        lambda: capi.BNNSGather(0.5, desc(), idx(0), desc((1,))),  # type: ignore[arg-type]
        lambda: capi.BNNSCompareTensor(desc(), desc(), "Less", desc(kind=BOOLEAN)),  # type: ignore[arg-type]
        lambda: capi.BNNSCopy(desc(), desc(), 1),  # type: ignore[arg-type]
        lambda: capi.BNNSBandPart(0.0, 0, desc((2, 2), F2), desc((2, 2), F2)),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError):
            call()
