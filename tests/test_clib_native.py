"""Repeated calls of the C library run in native code, without Python: every family, and functions without a filter."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from c_face import FUNCTIONS, CFace
from cases import ALL
from helpers import FIRST_MAJOR_2D, INT64, VECTOR, Tensor
from openbnns import capi
from openbnns.clib import library as in_python
from openbnns.clib.functions import function

KINDS = sorted({type(case) for case in ALL}, key=lambda kind: kind.__name__)


@pytest.fixture
def seen() -> Iterator[Counter[str]]:
    """How often each function was called in Python on behalf of the C library."""
    counted: Counter[str] = Counter()
    before = list(in_python.functions)

    def watched(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            counted[name] += 1
            return original(*arguments)

        return run

    in_python.functions[:] = [watched(name, function(name, parameters)) for name, _, parameters in FUNCTIONS]
    yield counted
    in_python.functions[:] = before


@pytest.fixture
def face(monkeypatch: pytest.MonkeyPatch) -> CFace:
    """Every call is made three times."""
    made = CFace(turns=3)
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "cases" and "capi" in vars(module):
            monkeypatch.setattr(module, "capi", made)
    return made


def is_driving(name: str) -> bool:
    return "Apply" in name and not name.startswith("BNNSDirect")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_families(kind: type[Any], face: CFace, seen: Counter[str]) -> None:
    """Most cases of a family are made of what kernels take as it is; for them the first call alone reaches Python."""
    native = 0
    sample = [case for case in ALL if type(case) is kind and case.trains][::4]
    for case in sample:
        seen.clear()
        face.made.clear()
        run = case.run(case.values())
        run.forward()
        run.backward()
        calls = {name: count for name, count in face.made.items() if is_driving(name)}
        assert len(calls) == 2
        native += all(seen[name] == 1 and count == 3 for name, count in calls.items())
    assert native >= 0.4 * len(sample), f"{native} of {len(sample)}"


def test_functions_without_a_filter(face: CFace, seen: Counter[str]) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 6), dtype=np.float32), np.zeros((2, 6), np.float32)
    matrix = Tensor(FIRST_MAJOR_2D, (2, 6))
    one, two = matrix.descriptor(a.reshape(-1)), matrix.descriptor(b.reshape(-1))
    turned = Tensor(FIRST_MAJOR_2D, (6, 2)).descriptor(np.zeros(12, np.float32))
    places = Tensor(VECTOR, (2,), (), INT64).descriptor(np.array([1, 0]))
    product = Tensor(FIRST_MAJOR_2D, (2, 2)).descriptor(np.zeros(4, np.float32))
    calls = {
        "BNNSCopy": (two, one, None),
        "BNNSTranspose": (turned, one, 0, 1, None),
        "BNNSClipByValue": (two, one, -0.5, 0.5),
        "BNNSGather": (0, one, places, two, None),
        "BNNSMatMul": (False, True, 1.0, one, one, product, None, None),
    }
    for name, arguments in calls.items():
        assert getattr(face, name)(*arguments) == 0
        assert face.made[name] == 3
        assert seen[name] == 1, name


def test_attention(face: CFace, seen: Counter[str]) -> None:
    rng = np.random.default_rng(1)

    def tensor(*size: int, data: bool = True) -> Any:
        memory = rng.standard_normal(int(np.prod(size)), dtype=np.float32) if data else None
        kind = {1: capi.BNNSDataLayoutVector, 2: capi.BNNSDataLayout2DFirstMajor, 3: capi.BNNSDataLayout3DFirstMajor}
        return capi.BNNSNDArrayDescriptor(
            layout=kind[len(size)], size=size, data_type=capi.BNNSDataTypeFloat32, data=memory
        )

    def projection(target: bool) -> Any:
        return capi.BNNSMHAProjectionParameters(
            target_desc=tensor(3, 4, data=target), weights=tensor(4, 2, 2), bias=tensor(2, 2)
        )

    def output(target: bool) -> Any:
        return capi.BNNSMHAProjectionParameters(
            target_desc=tensor(3, 4, data=target), weights=tensor(4, 4), bias=tensor(4)
        )

    p = capi.BNNSLayerParametersMultiheadAttention(
        query=projection(False), key=projection(False), value=projection(False), output=output(False)
    )
    f = face.BNNSFilterCreateLayerMultiheadAttention(p)
    assert f is not None
    x, y = (rng.standard_normal(12, dtype=np.float32) for _ in range(2))
    assert face.BNNSApplyMultiheadAttention(f, 1, x, 0, x, 0, None, 0, x, 0, y, 0) == 0
    deltas = [projection(True) for _ in range(3)]
    assert face.BNNSApplyMultiheadAttentionBackward(
        f, 1, x, 0, deltas[0], x, 0, None, 0, deltas[1], x, 0, deltas[2], None, None, None, y, 0, output(True), 0
    ) == 0  # fmt: skip
    assert seen["BNNSApplyMultiheadAttention"] == seen["BNNSApplyMultiheadAttentionBackward"] == 1
