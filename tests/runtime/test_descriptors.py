"""Features of every filter: handles, status, flags, allocators, threads, strides and gradients."""

from __future__ import annotations

import ctypes
import logging
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns
from bad_calls import refused
from helpers import descriptor, numbers
from openbnns import capi

Array = NDArray[Any]


def fully_connected(
    w: Any,
    b: Any = None,
    function: int = 0,
    alpha: float = 0.0,
    *,
    flags: int = 0,
    inputs: int = 4,
    outputs: int = 3,
    **parameters: Any,
) -> Any:
    p = capi.BNNSLayerParametersFullyConnected(
        i_desc=descriptor("Vector", (inputs,)),
        w_desc=descriptor("RowMajorMatrix", (inputs, outputs), w),
        o_desc=descriptor("Vector", (outputs,)),
        bias=descriptor("Vector", (outputs,), b),
        activation=capi.BNNSActivation(function=function, alpha=alpha),
    )
    return capi.BNNSFilterCreateLayerFullyConnected(p, capi.BNNSFilterParameters(flags=flags, **parameters))


@pytest.mark.covers("core.handle.create_null", "core.status.int")
def test_handles_and_status(engine: str) -> None:
    x, y = numbers(4), np.full(3, 7, np.float32)
    f = fully_connected(numbers(3, 4))
    assert isinstance(f, capi.BNNSFilter)
    assert capi.BNNSFilterApply(f, x, y) == 0
    np.testing.assert_allclose(y, numbers(3, 4) @ x, rtol=1e-5, atol=1e-6)
    y[:] = 7
    assert capi.BNNSFilterApply(f, x[:2], y) == -1 and (y == 7).all()
    capi.BNNSFilterDestroy(f)
    assert capi.BNNSFilterApply(f, x, y) == -1 and (y == 7).all()
    assert "destroyed" in str(openbnns.last_error())
    capi.BNNSFilterDestroy(f)
    capi.BNNSFilterDestroy(None)
    assert fully_connected(numbers(2, 4)) is None
    assert capi.BNNSFilterApply(None, x, y) == -1


@pytest.mark.covers("core.log.error_info")
def test_invalid_is_an_error_and_unsupported_is_information(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "openbnns"):
        assert capi.BNNSFilterApply(None, None, None) == -1
        assert [(r.name, r.levelno) for r in caplog.records] == [("openbnns", logging.ERROR)]
        assert caplog.records[0].getMessage() == openbnns.last_error()
        caplog.clear()
        assert fully_connected(numbers(3, 4), function=capi.BNNSActivationFunctionGumbel) is None
        assert [(r.name, r.levelno) for r in caplog.records] == [("openbnns", logging.INFO)]
        assert caplog.records[0].getMessage() == openbnns.last_error()
        caplog.clear()
        f = fully_connected(numbers(3, 4))
        assert capi.BNNSFilterApply(f, numbers(4), np.zeros(3, np.float32)) == 0
        assert not caplog.records


def gradients(f: Any, x: Array, y: Array | None, dy: Array, flags: int = 0, **start: Array) -> dict[str, Array]:
    """All gradients of a fully connected filter, written over (or added to) ``start``."""
    batch = len(dy)
    sizes = {"dx": (batch, x.shape[1]), "dw": (dy.shape[1], x.shape[1]), "db": (dy.shape[1],)}
    memory = {name: start[name].copy() if name in start else np.zeros(size, np.float32) for name, size in sizes.items()}
    status = capi.BNNSFilterApplyBackwardBatch(
        f,
        batch,
        x,
        0,
        descriptor("Vector", (x.shape[1],), memory["dx"], flags=flags),
        0,
        y,
        0,
        descriptor("Vector", (dy.shape[1],), dy),
        0,
        descriptor("RowMajorMatrix", (x.shape[1], dy.shape[1]), memory["dw"], flags=flags),
        descriptor("Vector", (dy.shape[1],), memory["db"], flags=flags),
    )
    assert status == 0, openbnns.last_error()
    return memory


@pytest.mark.covers("core.flag.client_ptr_on")
def test_client_pointer_sees_every_edit(engine: str) -> None:
    """Steps of gradient descent on the caller's arrays take effect at the next apply, also in staged layouts."""
    w, b, x, dy = numbers(3, 4), numbers(3, seed=9), numbers(2, 4, seed=10), numbers(2, 3, seed=11)
    y = np.zeros((2, 3), np.float32)
    f = fully_connected(w, b, flags=1)
    for _ in range(3):
        assert capi.BNNSFilterApplyBatch(f, 2, x, 0, y, 0) == 0
        np.testing.assert_allclose(y, x @ w.T + b, rtol=1e-5, atol=1e-6)
        g = gradients(f, x, None, dy)
        np.testing.assert_allclose(g["dx"], dy @ w, rtol=1e-5, atol=1e-6)
        w -= 0.1 * g["dw"]
        b -= 0.1 * g["db"]
    columns = np.asfortranarray(w)  # the same matrix by columns: must be staged at each call
    p = capi.BNNSLayerParametersFullyConnected(
        i_desc=descriptor("Vector", (4,)),
        w_desc=descriptor("ColumnMajorMatrix", (3, 4), columns.T),
        o_desc=descriptor("Vector", (3,)),
    )
    f = capi.BNNSFilterCreateLayerFullyConnected(p, capi.BNNSFilterParameters(flags=1))
    columns[1, 2] = 5.0
    assert capi.BNNSFilterApplyBatch(f, 2, x, 0, y, 0) == 0
    np.testing.assert_allclose(y, x @ columns.T, rtol=1e-5, atol=1e-6)


@pytest.mark.covers("core.flag.client_ptr_off")
def test_without_client_pointer_weights_are_copied(engine: str) -> None:
    w, b, x, dy = numbers(3, 4), numbers(3, seed=9), numbers(2, 4, seed=10), numbers(2, 3, seed=11)
    y = np.zeros((2, 3), np.float32)
    f = fully_connected(w, b)
    kept_w, kept_b = w.copy(), b.copy()
    w[:], b[:] = np.nan, np.nan
    assert capi.BNNSFilterApplyBatch(f, 2, x, 0, y, 0) == 0
    np.testing.assert_allclose(y, x @ kept_w.T + kept_b, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradients(f, x, None, dy)["dx"], dy @ kept_w, rtol=1e-5, atol=1e-6)


@pytest.mark.covers("core.params.null")
def test_filter_parameters_may_be_null(engine: str) -> None:
    w, x = numbers(3, 4), numbers(1, 4, seed=10)
    p = capi.BNNSLayerParametersFullyConnected(
        i_desc=descriptor("Vector", (4,)),
        w_desc=descriptor("RowMajorMatrix", (4, 3), w),
        o_desc=descriptor("Vector", (3,)),
    )
    results = []
    for parameters in ((), (None,), (capi.BNNSFilterParameters(),)):
        f = capi.BNNSFilterCreateLayerFullyConnected(p, *parameters)
        y = np.zeros(3, np.float32)
        assert capi.BNNSFilterApply(f, x, y) == 0
        results.append(y)
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()
    np.testing.assert_allclose(results[0], (x @ w.T)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.covers("core.params.threads")
def test_results_do_not_depend_on_threads() -> None:
    inputs, outputs, batch = 150, 90, 33
    w, b, x, dy = numbers(outputs, inputs), numbers(outputs), numbers(batch, inputs), numbers(batch, outputs)
    seen = set()
    for threads in (0, 1, 2, 1000, 2**64 - 1):
        f = fully_connected(w, b, n_threads=threads, inputs=inputs, outputs=outputs)
        y = np.zeros((batch, outputs), np.float32)
        assert capi.BNNSFilterApplyBatch(f, batch, x, 0, y, 0) == 0
        g = gradients(f, x, None, dy)
        seen.add(y.tobytes() + g["dx"].tobytes() + g["dw"].tobytes() + g["db"].tobytes())
    assert len(seen) == 1
    np.testing.assert_allclose(y, x @ w.T + b, rtol=1e-4, atol=1e-4)


ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_size_t)
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Heap:
    """An allocator of the posix_memalign kind that counts, in C callbacks or as plain Python."""

    def __init__(self, fail_after: int = 1000) -> None:
        self.blocks: dict[int, Any] = {}
        self.calls, self.freed, self.fail_after = 0, 0, fail_after

    def allocate(self, place: Any, alignment: int, size: int) -> int:
        self.calls += 1
        if self.calls > self.fail_after:
            return 12
        assert alignment & (alignment - 1) == 0 and alignment >= 4
        memory = np.full(size + alignment, 0xAB, np.uint8)
        address = -(-memory.ctypes.data // alignment) * alignment
        self.blocks[address] = memory
        place[0] = address
        return 0

    def free(self, address: int) -> None:
        assert address in self.blocks
        self.blocks[address][:] = 0xCD
        del self.blocks[address]
        self.freed += 1


@pytest.mark.covers("core.params.alloc")
@pytest.mark.parametrize("in_c", [True, False])
def test_allocator_pair(engine: str, in_c: bool) -> None:
    heap = Heap()
    pair = (ALLOCATE(heap.allocate), FREE(heap.free)) if in_c else (heap.allocate, heap.free)
    w, b, x = numbers(3, 4), numbers(3), numbers(4)
    y = np.zeros(3, np.float32)
    for _ in range(3):
        f = fully_connected(w, b, alloc_memory=pair[0], free_memory=pair[1])
        assert f is not None, openbnns.last_error()
        assert heap.blocks, "the copies of weights and bias live in the caller's memory"
        assert sum(m.size for m in heap.blocks.values()) >= 4 * 15
        assert capi.BNNSFilterApply(f, x, y) == 0
        np.testing.assert_allclose(y, w @ x + b, rtol=1e-5, atol=1e-6)
        capi.BNNSFilterDestroy(f)
        assert not heap.blocks
        capi.BNNSFilterDestroy(f)
    f = fully_connected(w, b, alloc_memory=pair[0], free_memory=pair[1])
    del f  # collected instead of destroyed
    assert not heap.blocks and heap.freed == heap.calls


@pytest.mark.covers("core.params.alloc")
@pytest.mark.skipif(sys.platform == "win32", reason="posix_memalign is POSIX's")
def test_allocators_of_the_c_library() -> None:
    """Without declared argument types ctypes passes plain integers as C ints, which are too short for addresses."""
    code = (
        "import ctypes, numpy as np; from openbnns import capi, Shape\n"
        "libc = ctypes.CDLL(None)\n"
        "pair = capi.BNNSFilterParameters(alloc_memory=libc.posix_memalign, free_memory=libc.free)\n"
        "w, x, y = np.ones((300, 400), np.float32), np.ones(400, np.float32), np.zeros(300, np.float32)\n"
        "p = capi.BNNSLayerParametersFullyConnected(i_desc=Shape.vector(400).descriptor(),"
        " w_desc=Shape.matrix_row_major(400, 300).descriptor(data=w), o_desc=Shape.vector(300).descriptor())\n"
        "for _ in range(50):\n"
        "    f = capi.BNNSFilterCreateLayerFullyConnected(p, pair)\n"
        "    assert capi.BNNSFilterApply(f, x, y) == 0 and (y == 400).all()\n"
        "    capi.BNNSFilterDestroy(f)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.covers("core.params.alloc")
def test_a_free_that_raises_is_told_and_the_rest_is_freed() -> None:
    heap = Heap()

    def free(address: int) -> None:
        heap.free(address)
        raise OSError("no such page")

    f = fully_connected(numbers(3, 4), numbers(3), alloc_memory=heap.allocate, free_memory=free)
    assert f is not None and len(heap.blocks) > 1
    capi.BNNSFilterDestroy(f)
    assert not heap.blocks
    assert "free_memory raised OSError (no such page)" in str(openbnns.last_error())


@pytest.mark.covers("core.params.alloc")
def test_allocators_must_be_callable() -> None:
    heap = Heap()
    refused(
        fully_connected(numbers(3, 4), alloc_memory=4096, free_memory=heap.free),
        "alloc_memory is of type int, but it must be a function. Pass a Python function",
    )
    refused(
        fully_connected(numbers(3, 4), alloc_memory=heap.allocate, free_memory="free"), "free_memory is of type str"
    )


@pytest.mark.covers("core.params.alloc")
@pytest.mark.parametrize("fail_after", [0, 1, 2])
@pytest.mark.parametrize("in_c", [True, False])
def test_failing_allocator(fail_after: int, in_c: bool) -> None:
    heap = Heap(fail_after)
    pair = (ALLOCATE(heap.allocate), FREE(heap.free)) if in_c else (heap.allocate, heap.free)
    refused(
        fully_connected(numbers(3, 4), numbers(3), alloc_memory=pair[0], free_memory=pair[1]),
        "alloc_memory returned 12",
    )
    assert not heap.blocks, "what was allocated before the failure has been given back"
    assert heap.freed == fail_after


@pytest.mark.covers("core.params.alloc")
def test_allocators_come_in_pairs() -> None:
    heap = Heap()
    refused(fully_connected(numbers(3, 4), alloc_memory=heap.allocate), "alloc_memory is set but free_memory is NULL")
    refused(fully_connected(numbers(3, 4), free_memory=heap.free), "free_memory is set but alloc_memory is NULL")

    def explode(*_: Any) -> int:
        raise OSError("no pages left")

    assert fully_connected(numbers(3, 4), alloc_memory=explode, free_memory=heap.free) is None
    assert "raised OSError" in str(openbnns.last_error()) and "no pages left" in str(openbnns.last_error())
    assert heap.calls == 0


@pytest.mark.covers("core.stride.batch_elements")
def test_batch_strides_count_elements(engine: str) -> None:
    w, dy = numbers(3, 4), numbers(2, 3, seed=11)
    x = numbers(20)
    y = np.full(20, 9, np.float32)
    dx = np.full(20, 9, np.float32)
    samples = np.stack([x[0:4], x[7:11]])
    f = fully_connected(w)
    assert capi.BNNSFilterApplyBatch(f, 2, x, 7, y, 5) == 0
    np.testing.assert_allclose(y[0:3], w @ x[0:4], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(y[5:8], w @ x[7:11], rtol=1e-5, atol=1e-6)
    assert (y[3:5] == 9).all() and (y[8:] == 9).all()
    spaced = np.zeros(9, np.float32)
    spaced[0:3], spaced[6:9] = dy
    dw = np.zeros((3, 4), np.float32)
    assert (
        capi.BNNSFilterApplyBackwardBatch(
            f,
            2,
            x,
            7,
            descriptor("Vector", (4,), dx),
            8,
            None,
            0,
            descriptor("Vector", (3,), spaced),
            6,
            descriptor("RowMajorMatrix", (4, 3), dw),
            None,
        )
        == 0
    )
    np.testing.assert_allclose(dx[0:4], dy[0] @ w, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dx[8:12], dy[1] @ w, rtol=1e-5, atol=1e-6)
    assert (dx[4:8] == 9).all() and (dx[12:] == 9).all()
    np.testing.assert_allclose(dw, dy.T @ samples, rtol=1e-5, atol=1e-6)


@pytest.mark.covers("core.stride.batch_zero", "core.stride.padded")
def test_batch_stride_zero_means_one_object_after_the_other(engine: str) -> None:
    """Packed samples for a packed descriptor; for a padded one the largest stride times the extent that it steps."""
    w = numbers(6, 6)
    x = numbers(40)
    y = np.full(40, 9, np.float32)
    f = fully_connected(w, inputs=6, outputs=6)
    assert capi.BNNSFilterApplyBatch(f, 3, x, 0, y, 0) == 0
    np.testing.assert_allclose(y[:18].reshape(3, 6), x[:18].reshape(3, 6) @ w.T, rtol=1e-5, atol=1e-6)
    assert (y[18:] == 9).all()
    image = descriptor("ImageCHW", (3, 2, 1), stride=(1, 4, 10))  # rows of 4, one plane of 10
    p = capi.BNNSLayerParametersFullyConnected(
        i_desc=image, w_desc=descriptor("RowMajorMatrix", (6, 6), w), o_desc=descriptor("Vector", (6,), stride=(2,))
    )
    f = capi.BNNSFilterCreateLayerFullyConnected(p)
    y[:] = 9
    assert capi.BNNSFilterApplyBatch(f, 2, x, 0, y, 0) == 0, openbnns.last_error()
    for n in range(2):
        sample = np.concatenate([x[10 * n : 10 * n + 3], x[10 * n + 4 : 10 * n + 7]])
        np.testing.assert_allclose(y[12 * n : 12 * n + 12 : 2], w @ sample, rtol=1e-5, atol=1e-6)
    assert (y[1:24:2] == 9).all() and (y[24:] == 9).all()


@pytest.mark.covers("core.grad.set", "core.grad.accumulate", "core.grad.batch_sum")
@pytest.mark.parametrize("function", [0, int(capi.BNNSActivationFunctionTanh)])
def test_set_overwrites_and_accumulate_adds(engine: str, function: int) -> None:
    w, b, x, dy = numbers(3, 4), numbers(3, seed=9), numbers(5, 4, seed=10), numbers(5, 3, seed=11)
    y = np.zeros((5, 3), np.float32)
    start = {"dx": numbers(5, 4, seed=1), "dw": numbers(3, 4, seed=2), "db": numbers(3, seed=3)}
    f = fully_connected(w, b, function)
    assert capi.BNNSFilterApplyBatch(f, 5, x, 0, y, 0) == 0
    written = gradients(f, x, y, dy, 0, **start)
    added = gradients(f, x, y, dy, 1, **start)
    twice = gradients(f, x, y, dy, 1, **added)
    dz = dy * (1 - np.tanh(x @ w.T + b) ** 2) if function else dy
    expected = {"dx": dz @ w, "dw": dz.T @ x, "db": dz.sum(0)}  # parameters: summed over the batch, not averaged
    for name, value in expected.items():
        np.testing.assert_allclose(written[name], value, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(added[name], start[name] + value, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(twice[name], start[name] + 2 * value, rtol=1e-4, atol=1e-5)


@pytest.mark.covers("core.grad.batch_sum")
def test_empty_batch(engine: str) -> None:
    """Sums over no samples: Set gives zero, Accumulate leaves everything; outputs of no samples are not touched."""
    y = np.full(3, 7, np.float32)
    dw = np.full((3, 4), 7, np.float32)
    db = np.full(3, 7, np.float32)
    nothing = np.empty(0, np.float32)
    f = fully_connected(numbers(3, 4), numbers(3))
    assert capi.BNNSFilterApplyBatch(f, 0, nothing, 0, y, 0) == 0 and (y == 7).all()
    arguments = (
        f,
        0,
        nothing,
        0,
        descriptor("Vector", (4,), nothing),
        0,
        None,
        0,
        descriptor("Vector", (3,), nothing),
        0,
    )
    assert (
        capi.BNNSFilterApplyBackwardBatch(
            *arguments, descriptor("RowMajorMatrix", (4, 3), dw), descriptor("Vector", (3,), db, flags=1)
        )
        == 0
    ), openbnns.last_error()
    assert (dw == 0).all() and (db == 7).all()


@pytest.mark.covers("core.act.fused_from_output")
def test_fused_activation_is_differentiated_from_the_output(engine: str) -> None:
    """An output that the forward never gave still decides: dz = dy * (1 - out^2) for Tanh."""
    w, x, dy = numbers(3, 4), numbers(2, 4, seed=10), numbers(2, 3, seed=11)
    out = np.linspace(-0.9, 0.9, 6, dtype=np.float32).reshape(2, 3)
    f = fully_connected(w, function=capi.BNNSActivationFunctionTanh)
    g = gradients(f, x, out, dy)
    np.testing.assert_allclose(g["dx"], (dy * (1 - out**2)) @ w, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(g["dw"], (dy * (1 - out**2)).T @ x, rtol=1e-4, atol=1e-5)
    dx = np.full(8, 7, np.float32)
    arguments = (f, 2, x, 0, descriptor("Vector", (4,), dx), 0, None, 0, descriptor("Vector", (3,), dy), 0)
    assert capi.BNNSFilterApplyBackwardBatch(*arguments) == -1 and (dx == 7).all()
    assert "out is NULL" in str(openbnns.last_error())


ALLOWED = {
    "Identity",
    "RectifiedLinear",
    "LeakyRectifiedLinear",
    "Sigmoid",
    "LogSigmoid",
    "Tanh",
    "Linear",
    "Clamp",
    "Softmax",
    "HardSigmoid",
    "Softplus",
    "Softsign",
    "ELU",
    "SELU",
    "CELU",
    "ClampedLeakyRectifiedLinear",
    "LinearWithBias",
    "LogSoftmax",
    "HardShrink",
    "SoftShrink",
    "TanhShrink",
    "Threshold",
    "GELUApproximationSigmoid",
}
INFERENCE_ONLY = {
    "Abs",
    "GELUApproximation",
    "GELUApproximation2",
    "SiLU",
    "ScaledTanh",
    "PReLUPerChannel",
    "ReLU6",
    "Erf",
    "GELU",
}
SEPARATE_ONLY = {"Gumbel", "GumbelMax", "IntegerLinearSaturate", "IntegerLinearSaturatePerChannel"}


@pytest.mark.covers("core.act.fused_restrictions")
@pytest.mark.parametrize("function", list(capi.BNNSActivationFunction))
def test_fused_restrictions(function: capi.BNNSActivationFunction, engine: str) -> None:
    name = function.name.removeprefix("BNNSActivationFunction")
    w, x, dy = numbers(3, 4), numbers(2, 4, seed=10), numbers(2, 3, seed=11)
    y = np.zeros((2, 3), np.float32)
    f = fully_connected(w, function=function, alpha=0.5)
    if name in SEPARATE_ONLY:
        assert f is None and "cannot be fused" in str(openbnns.last_error())
        return
    assert name in ALLOWED | INFERENCE_ONLY
    assert f is not None, openbnns.last_error()
    assert capi.BNNSFilterApplyBatch(f, 2, x, 0, y, 0) == 0
    if name in ALLOWED:
        gradients(f, x, y, dy)
        return
    dx = np.full(8, 7, np.float32)
    arguments = (f, 2, x, 0, descriptor("Vector", (4,), dx), 0, y, 0, descriptor("Vector", (3,), dy), 0)
    assert capi.BNNSFilterApplyBackwardBatch(*arguments) == -1 and (dx == 7).all()
    assert "cannot be trained" in str(openbnns.last_error())
    assert capi.BNNSFilterApplyBatch(f, 2, x, 0, y, 0) == 0  # inference goes on


@pytest.mark.covers("core.act.fused_restrictions")
@pytest.mark.parametrize("function", [2, 19])
@pytest.mark.parametrize("alpha", [0.0, -0.5, math.nan])
def test_leaky_activations_train_with_a_positive_alpha_only(function: int, alpha: float, engine: str) -> None:
    x, y, dx, dy = numbers(2, 4), numbers(2, 3), np.full(8, 7, np.float32), numbers(2, 3)
    f = fully_connected(numbers(3, 4), function=function, alpha=alpha)
    arguments = (f, 2, x, 0, descriptor("Vector", (4,), dx), 0, y, 0, descriptor("Vector", (3,), dy), 0)
    assert capi.BNNSFilterApplyBackwardBatch(*arguments) == -1 and (dx == 7).all()
    assert "alpha must be above 0" in str(openbnns.last_error())


def test_gradient_written_over_the_weights_it_comes_from(engine: str) -> None:
    """weights_delta in the weights' own memory, adding: w + dw, with dx still from the old weights."""
    w, x, dy = numbers(3, 4), numbers(2, 4, seed=10), numbers(2, 3, seed=11)
    before = w.copy()
    dx = np.zeros((2, 4), np.float32)
    f = fully_connected(w, flags=1)
    assert (
        capi.BNNSFilterApplyBackwardBatch(
            f,
            2,
            x,
            0,
            descriptor("Vector", (4,), dx),
            0,
            None,
            0,
            descriptor("Vector", (3,), dy),
            0,
            descriptor("RowMajorMatrix", (4, 3), w, flags=1),
            None,
        )
        == 0
    )
    np.testing.assert_allclose(dx, dy @ before, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(w, before + dy.T @ x, rtol=1e-5, atol=1e-6)
