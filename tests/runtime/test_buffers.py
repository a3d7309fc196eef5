"""Every kind of memory that a call takes, on the fast path of the native engine and on the general one."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns
from bad_calls import refused
from openbnns import capi
from openbnns.capi import BNNSDataLayout, BNNSDataType
from openbnns.errors import Problem
from openbnns.tensors import buffers, descriptors

Array = NDArray[Any]
FLOAT32 = BNNSDataType.BNNSDataTypeFloat32
COUNT = 6
WEIGHTS = np.random.default_rng(0).standard_normal((COUNT, COUNT)).astype(np.float32)
X = np.random.default_rng(1).standard_normal(COUNT).astype(np.float32)
EXPECTED = WEIGHTS @ X


def vector(size: int, data: Any = None, **more: Any) -> capi.BNNSNDArrayDescriptor:
    more.setdefault("data_type", FLOAT32)
    return capi.BNNSNDArrayDescriptor(layout=BNNSDataLayout.BNNSDataLayoutVector, size=(size,), data=data, **more)


def matrix(data: Any = None, **more: Any) -> capi.BNNSNDArrayDescriptor:
    return capi.BNNSNDArrayDescriptor(
        layout=BNNSDataLayout.BNNSDataLayoutRowMajorMatrix, size=(COUNT, COUNT), data=data, data_type=FLOAT32, **more
    )


def make(w: Any = WEIGHTS, *, slow: bool = False, client_pointer: bool = False) -> Any:
    """A square fully connected filter; ``slow`` pads the output descriptor, so that the fast path does not apply."""
    p = capi.BNNSLayerParametersFullyConnected(
        i_desc=vector(COUNT), w_desc=matrix(w), o_desc=vector(COUNT, stride=(1 + slow,))
    )
    return capi.BNNSFilterCreateLayerFullyConnected(p, capi.BNNSFilterParameters(flags=int(client_pointer)))


class ArrayInterface:
    def __init__(self, owner: Array, **changes: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {**owner.__array_interface__, **changes}


class DLPack:
    """A tensor of another library: nothing but the two methods of the protocol."""

    def __init__(self, owner: Array, device: int = 1, versioned: bool = True) -> None:
        self.owner, self.device, self.versioned = owner, device, versioned

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        if self.versioned:
            return self.owner.__dlpack__(**options)
        if options:
            raise TypeError("this producer knows no versions")
        return self.owner.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)


def in_mmap(values: Array) -> Any:
    memory = mmap.mmap(-1, 4096)
    memory[: values.nbytes] = values.tobytes()
    return memory


# Every way to hand over float32 numbers: makes an object from an array, which it may share.
KINDS: dict[str, Callable[[Array], Any]] = {
    "numpy": lambda a: a.copy(),
    "numpy 2-D": lambda a: a.copy().reshape(2, -1),
    "numpy uint8": lambda a: a.copy().view(np.uint8),
    "numpy S1": lambda a: a.copy().view("S1"),
    "numpy V1": lambda a: a.copy().view("V1"),
    "bytearray": lambda a: bytearray(a.tobytes()),
    "memoryview of float": lambda a: memoryview(a.copy()),
    "memoryview of bytes": lambda a: memoryview(bytearray(a.tobytes())),
    "memoryview as char": lambda a: memoryview(bytearray(a.tobytes())).cast("c"),
    "array.array": lambda a: array.array("f", a.tolist()),
    "array.array of bytes": lambda a: array.array("B", a.tobytes()),
    "ctypes float": lambda a: (ctypes.c_float * a.size)(*a.tolist()),
    "ctypes bytes": lambda a: (ctypes.c_ubyte * a.nbytes)(*a.tobytes()),
    "ctypes 2-D": lambda a: ((ctypes.c_float * 3) * (a.size // 3)).from_buffer(bytearray(a.tobytes())),
    "ctypes string": lambda a: ctypes.create_string_buffer(a.tobytes(), a.nbytes),
    "mmap": in_mmap,
    "array interface": lambda a: ArrayInterface(a.copy()),
    "dlpack": lambda a: DLPack(a.copy()),
    "dlpack without versions": lambda a: DLPack(a.copy(), versioned=False),
    "unaligned": lambda a: np.concatenate([[0], a.copy().view(np.uint8)]).astype(np.uint8)[1:],
}


def bytes_of(obj: Any) -> Array:
    """The bytes behind an object, independently of the library."""
    if isinstance(obj, (ArrayInterface, DLPack)):
        obj = obj.owner
    if isinstance(obj, np.ndarray):
        return obj.view(np.uint8).reshape(-1) if obj.dtype.kind not in "SV" else np.frombuffer(obj.tobytes(), np.uint8)
    return np.frombuffer(memoryview(obj).cast("B"), np.uint8)


def numbers(obj: Any) -> Array:
    return np.frombuffer(bytes_of(obj).tobytes(), np.float32)


@pytest.mark.parametrize("slow", [False, True], ids=["fast", "general"])
@pytest.mark.parametrize("kind", KINDS)
def test_as_input_and_output(kind: str, slow: bool, engine: str) -> None:
    step = 1 + slow
    f = make(slow=slow)
    source, target = KINDS[kind](X), KINDS[kind](np.full(COUNT * step, 7, np.float32))
    assert capi.BNNSFilterApply(f, source, target) == 0, openbnns.last_error()
    got = numbers(target)
    np.testing.assert_allclose(got[: COUNT * step : step], EXPECTED, rtol=1e-5)
    np.testing.assert_array_equal(numbers(source)[:COUNT], X)
    if slow:
        assert (got[1 : COUNT * step : 2] == 7).all()


@pytest.mark.parametrize("client_pointer", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_as_weights_and_gradients(kind: str, client_pointer: bool) -> None:
    w = KINDS[kind](WEIGHTS.reshape(-1))
    f = make(w, client_pointer=client_pointer)
    y = np.zeros(COUNT, np.float32)
    assert capi.BNNSFilterApply(f, X, y) == 0, openbnns.last_error()
    np.testing.assert_allclose(y, EXPECTED, rtol=1e-5)
    dx, dw = KINDS[kind](np.zeros(COUNT, np.float32)), KINDS[kind](np.ones(COUNT * COUNT, np.float32))
    dy = KINDS[kind](EXPECTED)
    status = capi.BNNSFilterApplyBackwardBatch(
        f, 1, X, 0, vector(COUNT, dx), 0, None, 0, vector(COUNT, dy), 0, matrix(dw, flags=1), None
    )
    assert status == 0, openbnns.last_error()
    np.testing.assert_allclose(numbers(dx)[:COUNT], EXPECTED @ WEIGHTS, rtol=1e-4)
    outer = 1 + np.outer(EXPECTED, X).reshape(-1)
    np.testing.assert_allclose(numbers(dw)[: COUNT * COUNT], outer, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("slow", [False, True], ids=["fast", "general"])
@pytest.mark.parametrize("integer", [int, np.int64, np.uint64])
def test_addresses(integer: Callable[[int], Any], slow: bool) -> None:
    x, y = X.copy(), np.zeros(COUNT * (1 + slow), np.float32)
    f = make(integer(WEIGHTS.ctypes.data), slow=slow, client_pointer=True)
    assert capi.BNNSFilterApply(f, integer(x.ctypes.data), integer(y.ctypes.data)) == 0, openbnns.last_error()
    np.testing.assert_allclose(y[:: 1 + slow], EXPECTED, rtol=1e-5)


@pytest.mark.parametrize("slow", [False, True], ids=["fast", "general"])
@pytest.mark.parametrize(
    "address", [0, 1, 64, 4092, 4095, -1, -4, -(2**63), 2**63, 2**64 - 4, 2**70, np.int64(-4), np.uint64(2**64 - 4)]
)
def test_impossible_addresses(address: Any, slow: bool) -> None:
    f, y = make(slow=slow), np.full(12, 7, np.float32)
    refused(capi.BNNSFilterApply(f, address, y), "which cannot be valid")
    assert capi.BNNSFilterApply(f, X, address) == -1
    assert (y == 7).all()


@pytest.mark.parametrize("address", [64, 4092])
def test_impossible_addresses_in_descriptors(address: int) -> None:
    """Steps of optimizers and LSTMs read descriptors in native code; so does every backward call."""
    fields, w = capi.BNNSOptimizerSGDMomentumFields(learning_rate=0.1, gradient_scale=1), np.ones(4, np.float32)
    for parameter, gradient in ((address, w), (w, address)):
        refused(
            capi.BNNSOptimizerStep(1, fields, 1, [vector(4, parameter)], [vector(4, gradient)]), "which cannot be valid"
        )
    f = make()
    dx = vector(COUNT, np.zeros(COUNT, np.float32))
    refused(
        capi.BNNSFilterApplyBackwardBatch(f, 1, X, 0, dx, 0, None, 0, vector(COUNT, address), 0),
        "which cannot be valid",
    )

    def any_data(data: Any) -> capi.BNNSNDArrayDescriptor:
        return capi.BNNSNDArrayDescriptor(data=data, data_type=FLOAT32)

    def lstm(x: Any) -> int:
        gate = capi.BNNSLSTMGateDescriptor(iw_desc=[any_data(w)], hw_desc=any_data(w))
        p = capi.BNNSLayerParametersLSTM(
            input_size=1, hidden_size=1, batch_size=1, num_layers=1, seq_len=1, input_gate=gate, forget_gate=gate,
            candidate_gate=gate, output_gate=gate, lstm_flags=capi.BNNSLayerFlagsLSTMDefaultActivations,
            input_descriptor=capi.BNNSLSTMDataDescriptor(data_desc=any_data(x)),
            output_descriptor=capi.BNNSLSTMDataDescriptor(data_desc=any_data(np.zeros(1, np.float32))),
        )  # fmt: skip
        return capi.BNNSDirectApplyLSTMBatchTrainingCaching(p, None, None, 0)

    assert lstm(X) == 0  # which is known from now on
    refused(lstm(address), "which cannot be valid")


def test_scalars_and_zero_dimensions() -> None:
    """One element: 0-d arrays are memory, NumPy scalars are read-only memory."""
    p = capi.BNNSLayerParametersActivation(
        i_desc=vector(1), o_desc=vector(1), activation=capi.BNNSActivation(function=capi.BNNSActivationFunctionAbs)
    )
    f = capi.BNNSFilterCreateLayerActivation(p)
    y = np.zeros((), np.float32)
    assert capi.BNNSFilterApply(f, np.array(-3, np.float32), y) == 0 and y == 3
    assert capi.BNNSFilterApply(f, np.float32(-4), y) == 0 and y == 4
    refused(capi.BNNSFilterApply(f, np.float32(-4), np.float32(1)), "read-only")
    refused(capi.BNNSFilterApply(f, np.float64(-4), y), "holds float64 items")


def test_empty_arrays() -> None:
    f, empty, y = make(), np.empty(0, np.float32), np.full(COUNT, 7, np.float32)
    refused(capi.BNNSFilterApply(f, empty, y), "holds 0 bytes, but the call touches 24")
    assert capi.BNNSFilterApply(f, X, empty) == -1
    assert capi.BNNSFilterApplyBatch(f, 0, empty, 0, empty, 0) == 0
    assert (y == 7).all()


REFUSED = {
    "float64": (lambda: np.zeros(99), "holds float64 items, but its descriptor says Float32"),
    "int32": (lambda: np.zeros(99, np.int32), "holds int32 items"),
    "float16": (lambda: np.zeros(99, np.float16), "holds float16 items"),
    "complex64": (lambda: np.zeros(99, np.complex64), "holds complex64 items"),
    "bool": (lambda: np.zeros(99, bool), "holds bool items"),
    "int8": (lambda: np.zeros(999, np.int8), "holds int8 items"),
    "objects": (lambda: np.zeros(99, object), "holds object items"),
    "structured": (lambda: np.zeros(99, [("a", "f4"), ("b", "f4")]), "holds .* items"),
    "one field": (lambda: np.zeros(99, [("a", "f4")]), "holds .* items"),
    "dates": (lambda: np.zeros(99, "M8[s]"), "holds datetime64"),
    "text": (lambda: np.zeros(99, "U1"), "holds <U1 items"),
    "byte-swapped": (
        lambda: np.zeros(99, ">f4" if sys.byteorder == "little" else "<f4"),
        "byte order is not that of this machine",
    ),
    "array of doubles": (lambda: array.array("d", [0.0] * 99), "holds float64 items"),
    "ctypes ints": (lambda: (ctypes.c_int * 99)(), "holds int32 items"),
    "every second": (lambda: np.zeros(99, np.float32)[::2], "not C-contiguous .*ascontiguousarray"),
    "Fortran order": (lambda: np.zeros((9, 9), np.float32, order="F"), "not C-contiguous"),
    "reversed": (lambda: np.zeros(99, np.float32)[::-1], "not C-contiguous"),
    "column": (lambda: np.zeros((99, 2), np.float32)[:, 0], "not C-contiguous"),
    "broadcast": (lambda: np.broadcast_to(np.float32(0), (99,)), "not C-contiguous|read-only"),
    "memoryview with steps": (lambda: memoryview(bytearray(999))[::2], "not C-contiguous"),
    "small": (lambda: np.zeros(COUNT - 1, np.float32), "holds 20 bytes, but the call touches 24"),
    "odd bytes": (lambda: bytearray(23), "holds 23 bytes, but the call touches"),
    "other device": (lambda: DLPack(np.zeros(99, np.float32), device=2), "DLPack memory is on a device of kind 2"),
    "broken interface": (
        lambda: ArrayInterface(np.zeros(99, np.float32), typestr="<q9"),
        "__array_interface__ cannot be",
    ),
}


@pytest.mark.parametrize("slow", [False, True], ids=["fast", "general"])
@pytest.mark.parametrize("kind", REFUSED)
def test_refused_memory(kind: str, slow: bool) -> None:
    produce, message = REFUSED[kind]
    f = make(slow=slow)
    y = np.full(COUNT * 2, 7, np.float32)
    bad = produce()
    assert capi.BNNSFilterApply(f, bad, y) == -1, kind
    assert (y == 7).all()
    text = str(openbnns.last_error())
    assert text.startswith(("BNNSFilterApply: in ", "BNNSFilterApply: in:")), text
    assert re.search(message, text), text
    assert capi.BNNSFilterApply(f, X, bad) == -1
    assert re.match(r"BNNSFilterApply: out\b", str(openbnns.last_error()))


@pytest.mark.parametrize("slow", [False, True], ids=["fast", "general"])
@pytest.mark.parametrize("thing", ["text", 1.5, True, [1.0] * 6, (1.0,) * 6, {}, object(), 1j])
def test_impossible_types_raise(thing: Any, slow: bool) -> None:
    f, y = make(slow=slow), np.full(12, 7, np.float32)
    with pytest.raises(TypeError, match=r"BNNSFilterApply: in is of type .*Pass an object with a buffer .* or None"):
        capi.BNNSFilterApply(f, thing, y)
    with pytest.raises(TypeError, match="BNNSFilterApply: out is of type"):
        capi.BNNSFilterApply(f, X, thing)
    assert (y == 7).all()


READ_ONLY = ["bytes", "read-only array", "read-only memoryview", "read-only mmap"]
if np.lib.NumpyVersion(np.__version__) >= "2.1.0":  # older ones do not export such arrays
    READ_ONLY.append("read-only DLPack")


@pytest.mark.parametrize("slow", [False, True], ids=["fast", "general"])
@pytest.mark.parametrize("kind", READ_ONLY)
def test_read_only_memory_is_an_input_only(kind: str, slow: bool) -> None:
    def frozen(a: Array) -> Any:
        copy = a.copy()
        copy.flags.writeable = False
        return {
            "bytes": a.tobytes(),
            "read-only array": copy,
            "read-only memoryview": memoryview(a.tobytes()),
            "read-only mmap": memoryview(in_mmap(a)).toreadonly(),
            "read-only DLPack": DLPack(copy),
        }[kind]

    f, y = make(slow=slow), np.zeros(COUNT * (1 + slow), np.float32)
    assert capi.BNNSFilterApply(f, frozen(X), y) == 0, openbnns.last_error()
    np.testing.assert_allclose(y[:: 1 + slow], EXPECTED, rtol=1e-5)
    target = frozen(np.full(12, 7, np.float32))
    refused(capi.BNNSFilterApply(f, X, target), "read-only, but the call writes to it")
    assert (numbers(target)[:12] == 7).all()


@pytest.mark.parametrize("client_pointer", [False, True])
@pytest.mark.parametrize("how", ["destroyed", "collected"])
def test_a_bytearray_cannot_be_resized_under_a_filter(client_pointer: bool, how: str) -> None:
    w = bytearray(WEIGHTS.tobytes())
    f = make(w, client_pointer=client_pointer)
    y = np.zeros(COUNT, np.float32)
    if client_pointer:
        with pytest.raises(BufferError):
            w.extend(b"more")
    else:
        w.clear()  # copied: the caller may do as he likes
        w.extend(WEIGHTS.tobytes())
    assert capi.BNNSFilterApply(f, X, y) == 0
    np.testing.assert_allclose(y, EXPECTED, rtol=1e-5)
    if how == "destroyed":
        capi.BNNSFilterDestroy(f)
    else:
        del f
        gc.collect()
    w.extend(b"more")
    assert len(w) == WEIGHTS.nbytes + 4


def test_memory_of_a_call_is_released() -> None:
    for slow in (False, True):
        f = make(slow=slow)
        x, y = bytearray(X.tobytes()), bytearray(8 * COUNT)
        assert capi.BNNSFilterApply(f, x, y) == 0
        assert capi.BNNSFilterApply(f, x, bytearray(3)) == -1
        x.extend(b"0")
        y.extend(b"0")


def test_an_array_lives_as_long_as_its_filter() -> None:
    """With a client pointer the filter holds the array: its memory is not given to anyone else."""
    f = make(WEIGHTS.copy(), client_pointer=True)
    gc.collect()
    others = [np.full((COUNT, COUNT), np.nan, np.float32) for _ in range(50)]
    y = np.zeros(COUNT, np.float32)
    assert capi.BNNSFilterApply(f, X, y) == 0
    np.testing.assert_allclose(y, EXPECTED, rtol=1e-5)
    assert len(others) == 50


@pytest.mark.parametrize("name", [t.name for t in descriptors.ELEMENT_TYPES.values()])
def test_item_types(name: str) -> None:
    """Each element type takes arrays of its storage type and bytes; other numbers of the same width are refused."""
    element = next(t for t in descriptors.ELEMENT_TYPES.values() if t.name == name)
    assert buffers.resolve(np.zeros(9, np.uint8), element, "x").nbytes == 9
    if element.numpy is not None:
        assert buffers.resolve(np.zeros(9, element.numpy), element, "x").nbytes == 9 * element.numpy.itemsize
    for other in ("f8", "c8", "M8[s]"):
        with pytest.raises(Problem, match=r"holds .* items, but its descriptor says"):
            buffers.resolve(np.zeros(9, other), element, "x")


def test_true_is_not_a_number() -> None:
    """bool is an int in Python, but no count, stride or address here, fast path or not."""
    f, y = make(), np.zeros(COUNT, np.float32)
    with pytest.raises(TypeError, match="batch_size must be an integer, not bool"):
        capi.BNNSFilterApplyBatch(f, True, X, 0, y, 0)
    with pytest.raises(TypeError, match="in_stride must be an integer, not bool"):
        capi.BNNSFilterApplyBatch(f, 1, X, False, y, 0)
    with pytest.raises(TypeError, match="out_stride must be an integer, not float"):
        capi.BNNSFilterApplyBatch(f, 1, X, 0, y, 1.0)
    assert capi.BNNSFilterApplyBatch(f, np.int32(1), X, np.uint8(0), y, np.int64(0)) == 0
