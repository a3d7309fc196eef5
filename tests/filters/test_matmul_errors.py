"""Matrix products and contractions called wrongly: a message, -1, nothing written."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from cases._base import created
from cases.matmul import Pair, first, product
from helpers import FLOAT16, INT8, Tensor, image, vector
from openbnns import capi


@pytest.mark.covers("direct.matmul", "direct.matmul.ws", "direct.matmul.old")
def test_direct_products_fail_cleanly() -> None:
    y = np.full((2, 2), 5.0, np.float32)
    a = np.ones((2, 3), np.float32)
    good = (first(2, 3).descriptor(a), first(3, 2).descriptor(np.ones((3, 2), np.float32)), first(2, 2).descriptor(y))
    bad = {
        "inputA is NULL": (None, *good[1:]),
        r"inputB.data_type is Int8, but matrix products are floating point": (
            good[0], first(3, 2, data_type=INT8).descriptor(np.ones((3, 2), np.int8)), good[2],
        ),
        r"2 x 3 matrix of inputA has 3 columns, but the 2 x 2 matrix of inputB has 2 rows": (
            good[0], first(2, 2).descriptor(np.ones((2, 2), np.float32)), good[2],
        ),
        r"output has rows, columns and leading axes \(3, 2\)": (*good[:2], first(3, 2).descriptor(np.ones((3, 2), np.float32))),
        r"inputA is 1DFirstMajor size \(6,\)": (first(6).descriptor(np.ones(6, np.float32)), *good[1:]),
    }  # fmt: skip
    for message, descriptors in bad.items():
        assert capi.BNNSMatMul(False, False, 1.0, *descriptors, None) == -1
        assert _matches(message)
        assert capi.BNNSMatMulWorkspaceSize(False, False, 1.0, *descriptors) < 0
        assert _matches(message)
        capi.BNNSDirectApplyBroadcastMatMul(False, False, 1.0, *descriptors)
        assert _matches("BNNSDirectApplyBroadcastMatMul") and _matches(message)
    no_data = (first(2, 3).descriptor(), *good[1:])
    assert capi.BNNSMatMulWorkspaceSize(False, False, 1.0, *no_data) == 0
    assert capi.BNNSMatMul(False, False, 1.0, *no_data, None) == -1 and _matches("inputA.data is NULL")
    short = (first(2, 3).descriptor(np.ones(5, np.float32)), *good[1:])
    assert capi.BNNSMatMul(False, False, 1.0, *short, None) == -1 and _matches("inputA.data")
    assert (y == 5.0).all()
    with pytest.raises(TypeError, match="transA must be a bool"):
        capi.BNNSMatMul("yes", False, 1.0, *good, None)
    with pytest.raises(TypeError, match="inputB must be a BNNSNDArrayDescriptor"):
        capi.BNNSMatMul(False, False, 1.0, good[0], a, good[2], None)


def _matches(pattern: str) -> bool:
    message = ob.last_error() or ""
    assert re.search(pattern, message), message
    return True


def matmul_problem(**changes: Any) -> dict[str, Any]:
    return {
        "alpha": 1.0, "iA_desc": first(2, 3).descriptor(), "iB_desc": first(3, 4).descriptor(),
        "o_desc": first(2, 4).descriptor(), **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beta": 0.5}, "beta is 0.5. Use 0 to overwrite the output, or 1"),
        ({"a_is_weights": True, "b_is_weights": True}, "so there is no input. Set at most one"),
        ({"a_is_weights": True, "quadratic": True}, "quadratic and a_is_weights are both set"),
        ({"b_is_weights": True}, "iB_desc.data is NULL, but this operand is weights"),
        ({"transB": True}, r"the transpose of the 3 x 4 matrix of iB_desc has 4 rows"),
        ({"o_desc": first(4, 2).descriptor()}, r"o_desc has .* \(4, 2\), but the product .* has \(2, 4\)"),
        ({"iA_desc": vector(6).descriptor()}, "needs rows and columns"),
        ({"quadratic": True}, r"2 x 3 matrix of iA_desc has 3 columns, but the 2 x 3 matrix of iA_desc has 2 rows"),
        (
            {"iA_desc": first(2, 2, 3).descriptor(), "iB_desc": first(5, 3, 4).descriptor()},
            r"leading axes of iA_desc are \(2,\) and those of iB_desc \(5,\): 2 and 5",
        ),
        ({"iB_desc": capi.BNNSNDArrayDescriptor()}, "iB_desc.layout is 0x0"),
    ],
)
def test_bad_products(changes: dict[str, Any], message: str) -> None:
    p = capi.BNNSLayerParametersBroadcastMatMul(**matmul_problem(**changes))
    assert capi.BNNSFilterCreateLayerBroadcastMatMul(p) is None
    assert _matches("^BNNSFilterCreateLayerBroadcastMatMul") and _matches(message)


@pytest.mark.covers("contract.parse")
@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (None, "operation is NULL"),
        ("", r"character 1 \(the end\): the name of an operand is missing"),
        ("a_ik b_kj -> c_ij", r'character 6 \(\'b\'\): expected "," or "->" after a_ik'),
        ("a_ik, b_kj", r"character 11 \(the end\): expected \"->\""),
        ("a_ik, b_kj -> c_iz", r'character 18 \(\'z\'\): index "z" of the output occurs in no operand'),
        ("a_ik, b_kj, d_jl -> c_il", r"character 11 \(','\): there are more than two operands"),
        ("a_i*k, b_kj -> c_ij", r"character 4 \('\*'\): `\*` stands between letters"),
        ("a_ik, b_kj -> c_ii", r'character 18 \(\'i\'\): index "i" occurs twice'),
        ("a_IK, b_kj -> c_ij", r'character 3 \(\'I\'\): "I" is not an index'),
        ("w_ik, w_kj -> c_ij", r"character 7 \('w'\): there are two operands named w"),
        ("a_ik, b_kj -> c_ij + d", r"character 20 \('\+'\): there is more after the output"),
        ("a_*k, b_kj -> c_kj", r"character 3 \('\*'\): `\*` of a_\*k is missing in the output"),
        ("w_ij -> c_ji", "the only operand of 'w_ij -> c_ji' is named w"),
        ("a_ik, b_kj -> c_ij", None),
        (b"a_ik, b_kj -> c_ij", None),
        (ctypes.create_string_buffer(b"a_ik, b_kj -> c_ij"), None),
        (ctypes.c_char_p(b"a_ik, b_kj -> c_ij"), None),
        ("a_ikx, b_kj -> c_ij", r"a_ikx has 3 axes, but the shape of one sample is \(2, 3\)"),
        ("a_ik, b_jk -> c_ij", r'the size of index "k" is 3 in a_ik but 4 in b_jk'),
        ("a_ik, b_kj -> c_ji", r'the size of index "j" is 4 in b_kj but 2 in c_ji'),
        ("a_ik, w_kj -> c_ij", "iB_desc.data is NULL, but this operand is weights"),
    ],
)
def test_expressions(operation: Any, message: str | None) -> None:
    made = capi.BNNSFilterCreateLayerTensorContraction(
        capi.BNNSLayerParametersTensorContraction(operation=operation, **matmul_problem())
    )
    if message is None:
        assert made is not None, ob.last_error()
        return
    assert made is None and _matches("^BNNSFilterCreateLayerTensorContraction: ") and _matches(message)


def test_expressions_of_impossible_type() -> None:
    p = capi.BNNSLayerParametersTensorContraction(operation=3.5, **matmul_problem())
    with pytest.raises(TypeError, match="operation must be a string"):
        capi.BNNSFilterCreateLayerTensorContraction(p)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (first(3, 4), first(4, 4), "needs two axes to sum over and one of channels"),
        (image(3, 4, 5), first(4, 4), r"the Gram matrix of the 3 channels .* has the axes \(3, 3\)"),
        (image(3, 4, 5), first(3, 3, 1), r"has the axes \(3, 3\)"),
    ],
)
def test_bad_grams(x: Tensor, y: Tensor, message: str) -> None:
    p = capi.BNNSLayerParametersGram(alpha=1.0, i_desc=x.descriptor(), o_desc=y.descriptor())
    assert capi.BNNSFilterCreateLayerGram(p) is None and _matches(message)


def test_bad_calls_change_nothing() -> None:
    pair = Pair(first(3, 4), first(4, 2), first(3, 2), product, batch=2)
    s, f, d = pair.storage, pair.filter, {name: x.descriptor() for name, x in pair.storage.items()}
    a, b, y = (s[name].elements for name in ("a", "b", "y"))
    forward = capi.BNNSFilterApplyTwoInputBatch
    backward = capi.BNNSFilterApplyBackwardTwoInputBatch
    wrong_type = first(3, 4, data_type=FLOAT16).descriptor(np.zeros(24, np.float16))
    bad: list[tuple[Callable[[], int], str]] = [
        (lambda: forward(f, 2, None, 0, b, 0, y, 0), "BNNSFilterApplyTwoInputBatch: inA is NULL"),
        (lambda: forward(f, 2, a, 0, None, 0, y, 0), "inB is NULL"),
        (lambda: forward(f, 2, a, 0, b, 0, None, 0), "out is NULL"),
        (lambda: forward(f, 3, a, 0, b, 0, y, 0), "inA holds"),
        (lambda: forward(f, 2, a, 0, b, 0, y, 3), "out_stride is 3, but one sample spans 6"),
        (lambda: forward(f, -1, a, 0, b, 0, y, 0), "batch_size is -1"),
        (lambda: forward(None, 2, a, 0, b, 0, y, 0), "filter is NULL"),
        (lambda: forward(f, 2, a, -3, b, 0, y, 0), "inA_stride is -3"),
        (
            lambda: capi.BNNSFilterApplyBatch(f, 2, a, 0, y, 0),
            "Use BNNSFilterApplyTwoInput or BNNSFilterApplyTwoInputBatch",
        ),
        (lambda: capi.BNNSFilterApply(f, a, y), "Use BNNSFilterApplyTwoInput"),
        (
            lambda: capi.BNNSFilterApplyBackwardBatch(f, 2, a, 0, d["da"], 0, None, 0, d["dy"], 0),
            "Use BNNSFilterApplyBackwardTwoInputBatch",
        ),
        (
            lambda: backward(f, 2, None, 0, None, 0, b, 0, d["db"], 0, None, 0, d["dy"], 0),
            "inA is NULL, but the gradient of the other",
        ),
        (
            lambda: backward(f, 2, a, 0, d["da"], 0, None, 0, None, 0, None, 0, d["dy"], 0),
            "inB is NULL, but the gradient of the other",
        ),
        (lambda: backward(f, 2, a, 0, d["da"], 0, b, 0, d["db"], 0, None, 0, None, 0), "out_delta is NULL"),
        (
            lambda: backward(f, 2, a, 0, d["db"], 0, b, 0, None, 0, None, 0, d["dy"], 0),
            "inA_delta is 2DFirstMajor size",
        ),
        (lambda: backward(f, 2, a, 0, wrong_type, 0, b, 0, None, 0, None, 0, d["dy"], 0), "training works on Float32"),
    ]
    for call, message in bad:
        assert call() == -1, message
        assert _matches(message)
    for name, storage in s.items():
        storage.assert_unchanged(name)
    capi.BNNSFilterDestroy(f)
    assert forward(f, 2, a, 0, b, 0, y, 0) == -1 and _matches("the filter has been destroyed")


def test_single_input_filters_refuse_two_inputs() -> None:
    p = capi.BNNSLayerParametersGram(alpha=1.0, i_desc=image(2, 2, 2).descriptor(), o_desc=first(2, 2).descriptor())
    f = created(capi.BNNSFilterCreateLayerGram(p))
    x, y = np.ones(8, np.float32), np.full(4, 3.0, np.float32)
    assert capi.BNNSFilterApplyTwoInput(f, x, x, y) == -1 and _matches("Use BNNSFilterApply or BNNSFilterApplyBatch")
    d = first(2, 2).descriptor(y)
    call = capi.BNNSFilterApplyBackwardTwoInputBatch
    assert call(f, 1, x, 0, None, 0, x, 0, None, 0, None, 0, d, 0) == -1 and _matches(
        "Use BNNSFilterApplyBackwardBatch"
    )
    gradient = image(2, 2, 2).descriptor(np.ones(8, np.float32))
    assert capi.BNNSFilterApplyBackwardBatch(f, 1, None, 0, gradient, 0, None, 0, d, 0) == -1
    assert _matches("the gradient of a tensor contracted with itself depends on it") and (y == 3.0).all()
