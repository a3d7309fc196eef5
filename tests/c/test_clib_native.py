"""Repeated calls of the C library run in native code, without Python: every family, and all functions but those that say why."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from c_face import FUNCTIONS, PARAMETERS, CFace
from cases import ALL, loss, lstm, matmul, normalization
from openbnns import capi
from openbnns.clib import library as in_python
from openbnns.clib.functions import function
from raw import described, floats
from raw_problems import FUNCTIONS as PLAIN
from raw_problems import WITH_MEMORY, given, held

KINDS = sorted({type(case) for case in ALL}, key=lambda kind: kind.__name__)


@pytest.fixture
def seen() -> Iterator[Counter[str]]:
    """Calls of each function that were made in Python on behalf of the C library."""
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
    """Every call is made three times, in Python and through C, with the same results."""
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


# All functions.

CREATES = "Creation checks a description by the rules, which are in Python."
ENDS = "Destruction ends an object of Python; there is nothing to repeat."
ASKS = "A question about a description, not work: its answer follows from the rules."
POINTS = "Gives a pointer into a filter, once: what is written there counts at the next call."
STATE = "Reads or changes the state of an object that lives in Python, as a generator's does at every call."
BOXES = "The plan of a call follows from the values of its boxes, which the rules read."
GRAPHS = "Compiles, asks or sets; executions are counted in test_graph_calls.py."
PACKS = "Packs weights once, into memory whose size follows from their values."

IN_PYTHON: dict[str, str] = {
    **{name: CREATES for name in PARAMETERS if name.startswith(("BNNSFilterCreate", "BNNSCreate"))},
    **{name: ENDS for name in PARAMETERS if "Destroy" in name},
    **{name: STATE for name in PARAMETERS if name.startswith(("BNNSRandom", "BNNSNearestNeighbors"))},
    **{name: PACKS for name in PARAMETERS if "Sparsify" in name},
    **dict.fromkeys(("BNNSNDArrayGetDataSize", "BNNSTensorGetAllocationSize", "BNNSDataLayoutGetRank"), ASKS),
    **dict.fromkeys(("BNNSMatMulWorkspaceSize", "BNNSComputeLSTMTrainingCacheCapacity"), ASKS),
    **dict.fromkeys(("BNNSCropResize", "BNNSCropResizeBackward"), BOXES),
    **{name: GRAPHS for name in PARAMETERS if name.startswith(("BNNSGraph", "openbnns_graph"))},
    "BNNSGetPointer": POINTS,
}
"""Functions whose repeated calls reach Python, with the reason."""


# Calls of filters: those of the cases, and the ones that no case makes.


def case_of(id: str) -> Callable[[CFace], None]:
    """Forward and backward of a case."""

    def make(face: CFace) -> None:
        case = next(case for case in ALL if case.id == id)
        run = case.run(case.values())
        run.forward()
        run.backward()

    return make


def normalized(face: CFace) -> None:
    case = normalization.CASES[0]
    run = normalization.NormalizationRun(case, case.values())
    run.forward(True)
    run.backward(("dx",))


def lossy(face: CFace) -> None:
    run = loss.LossRun(loss.CASES[0], loss.CASES[0].values())
    run.forward()
    run.backward()


def product(face: CFace) -> None:
    pair = matmul.Pair(matmul.first(4, 3), matmul.first(3, 5), matmul.first(4, 5), matmul.product, batch=2)
    pair.forward()
    pair.backward()


def attention(face: CFace) -> None:
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


def layer(face: CFace) -> Any:
    w, b = np.ones((3, 5), np.float32), np.ones(3, np.float32)
    return face.BNNSFilterCreateLayerFullyConnected(
        capi.BNNSLayerParametersFullyConnected(
            i_desc=bn.Shape.vector(5).descriptor(), o_desc=bn.Shape.vector(3).descriptor(), w_desc=described(w),
            bias=described(b),
        )
    )  # fmt: skip


def single(face: CFace) -> None:
    assert face.BNNSFilterApply(layer(face), np.ones(5, np.float32), np.zeros(3, np.float32)) == 0


def two_inputs(face: CFace) -> None:
    a, b, c = (bn.Shape(size).descriptor() for size in ([4, 3], [3, 5], [4, 5]))
    p = capi.BNNSLayerParametersBroadcastMatMul(alpha=1.0, beta=0.0, iA_desc=a, iB_desc=b, o_desc=c)
    f = face.BNNSFilterCreateLayerBroadcastMatMul(p)
    x = [np.ones(size, np.float32) for size in (12, 15, 20)]
    assert face.BNNSFilterApplyTwoInput(f, *x) == 0


def pooling(face: CFace) -> None:
    image, pooled = bn.Shape.image_chw(4, 4, 2), bn.Shape.image_chw(2, 2, 2)
    p = capi.BNNSLayerParametersPooling(
        i_desc=image.descriptor(), o_desc=pooled.descriptor(), pooling_function=capi.BNNSPoolingFunctionMax, k_width=2,
        k_height=2, x_stride=2, y_stride=2, x_dilation_stride=1, y_dilation_stride=1,
    )  # fmt: skip
    f = face.BNNSFilterCreateLayerPooling(p)
    x, y, i = floats(np.random.default_rng(0), 32), np.zeros(8, np.float32), np.zeros(8, np.uint64)
    dx, dy = image.descriptor(data=np.zeros(32, np.float32)), pooled.descriptor(data=np.ones(8, np.float32))
    j = np.zeros(8, np.uint32)
    assert face.BNNSPoolingFilterApplyBatch(f, 1, x, 32, y, 8, i, 8) == 0
    assert face.BNNSPoolingFilterApplyBackwardBatch(f, 1, x, 32, dx, 32, y, 8, dy, 8, None, i, 8) == 0
    wide = int(capi.BNNSDataTypeUInt32)
    assert face.BNNSPoolingFilterApplyBatchEx(f, 1, x, 32, y, 8, wide, j, 8) == 0
    assert face.BNNSPoolingFilterApplyBackwardBatchEx(f, 1, x, 32, dx, 32, y, 8, dy, 8, None, wide, j, 8) == 0


def permute(face: CFace) -> None:
    x, y = bn.Shape([2, 3]), bn.Shape([3, 2])
    p = capi.BNNSLayerParametersPermute(i_desc=x.descriptor(), o_desc=y.descriptor(), permutation=[1, 0])
    f = face.BNNSFilterCreateLayerPermute(p)
    dx, dy = x.descriptor(data=np.zeros((2, 3), np.float32)), y.descriptor(data=np.ones((3, 2), np.float32))
    assert face.BNNSPermuteFilterApplyBackwardBatch(f, 1, dx, 6, dy, 6) == 0


def optimizer(face: CFace) -> None:
    """The learning rate and the time step change from step to step."""
    w, g, m, v = (described(np.ones(4, np.float32)) for _ in range(4))
    for step in range(3):
        fields = capi.BNNSOptimizerAdamFields(
            learning_rate=0.1 / (1 + step), beta1=0.9, beta2=0.99, time_step=1 + step, epsilon=1e-8, gradient_scale=1
        )
        face.turns = 1
        assert face.BNNSOptimizerStep(capi.BNNSOptimizerFunctionAdam, fields, 1, [w], [g], [m, v], None) == 0


def clipping(face: CFace) -> None:
    arrays = [floats(np.random.default_rng(k), *size) for k, size in enumerate([(3, 4), (5,), (3, 4), (5,)])]
    tensors = [described(array) for array in arrays]
    assert face.BNNSClipByGlobalNorm(tensors[:2], tensors[2:], 2, 0.5, 0.0) == 0


def recurrent(face: CFace) -> None:
    """Without dropout, which draws another mask at each of these calls: tests/c/test_raw_lstm.py."""
    case = next(c for c in lstm.CASES if c.layers > 1 and not c.dropout and c.layout == "first")
    run = lstm.LstmRun(case, case.values())
    run.forward()
    run.backward()


def alone(name: str) -> Callable[[CFace], None]:
    """Functions without a filter, as other tests call them."""

    def make(face: CFace) -> None:
        rng = np.random.default_rng(5)
        arguments = next((given(make(rng), False) for known, make, _ in PLAIN if known == name), None)
        if arguments is None:
            arrays, call = next((arrays, call) for known, _, arrays, call in WITH_MEMORY if known == name)
            arguments = call(held, *arrays(rng))
        assert getattr(face, name)(*arguments) in (0, None)

    return make


CALLS: dict[str, Callable[[CFace], None]] = {
    **{name: alone(name) for name in [name for name, *_ in PLAIN] + [name for name, *_ in WITH_MEMORY]},
    **dict.fromkeys(("BNNSFilterApplyBatch", "BNNSFilterApplyBackwardBatch"), case_of("fc-1x1-n1")),
    **dict.fromkeys(("BNNSArithmeticFilterApplyBatch", "BNNSArithmeticFilterApplyBackwardBatch"), case_of("arith-Add")),
    **dict.fromkeys(
        ("BNNSFusedFilterApplyBatch", "BNNSFusedFilterApplyBackwardBatch"), case_of("fused-conv-3x3-Batch-0")
    ),
    **dict.fromkeys(
        ("BNNSFusedFilterApplyMultiInputBatch", "BNNSFusedFilterApplyBackwardMultiInputBatch"),
        case_of("fused-arith-Add-Batch-10"),
    ),
    **dict.fromkeys(("BNNSApplyMultiheadAttention", "BNNSApplyMultiheadAttentionBackward"), attention),
    **dict.fromkeys(("BNNSFilterApplyTwoInputBatch", "BNNSFilterApplyBackwardTwoInputBatch"), product),
    **{name: normalized for name in PARAMETERS if name.startswith("BNNSNormalizationFilterApply")},
    **{name: lossy for name in PARAMETERS if name.startswith("BNNSLossFilterApply")},
    "BNNSFilterApply": single,
    "BNNSFilterApplyTwoInput": two_inputs,
    "BNNSPermuteFilterApplyBackwardBatch": permute,
    "BNNSOptimizerStep": optimizer,
    "BNNSClipByGlobalNorm": clipping,
    **dict.fromkeys(("BNNSDirectApplyLSTMBatchTrainingCaching", "BNNSDirectApplyLSTMBatchBackward"), recurrent),
    **{name: pooling for name in PARAMETERS if name.startswith("BNNSPoolingFilter")},
}
"""How a function is called whose repeated calls stay in native code."""


def test_every_function_is_accounted_for() -> None:
    assert len(PARAMETERS) == 97 + 42 + 5
    assert not set(CALLS) & set(IN_PYTHON)
    assert set(CALLS) | set(IN_PYTHON) == set(PARAMETERS)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_no_call_but_the_first_reaches_python(name: str, face: CFace, seen: Counter[str]) -> None:
    CALLS[name](face)
    assert face.made[name] == 3
    assert seen[name] <= 1, f"{name} reached Python {seen[name]} times in 3 calls"
