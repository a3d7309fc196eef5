"""Contexts of graphs in the C library, executed on NumPy arrays, and a count of the executions that Python makes for it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from c_face import FUNCTIONS, LIBRARY, last_error
from openbnns.capi.graph_objects import DATA_TYPES
from openbnns.clib import library as in_python
from openbnns.clib.functions import function
from openbnns.interop import coreml
from openbnns.interop.coreml.compiled import CompiledGraph, checked_program, compiled

DENSE = """program(1.3) { func main<ios16>(tensor<fp32, [?, 3]> x) {
    tensor<fp32, [3, 4]> W = const()[val = tensor<fp32, [3, 4]>([[1, -2, 3, 0.5], [-1, 0.25, 2, -3], [0.5, 1, -1, 2]])];
    tensor<fp32, [4]> b = const()[val = tensor<fp32, [4]>([0.5, -1, 0.25, 2])];
    tensor<fp32, [?, 4]> xw = matmul(transpose_x = bool(false), transpose_y = bool(false), x = x, y = W);
    tensor<fp32, [?, 4]> s = add(x = xw, y = b);
    tensor<fp32, [?, 4]> z = relu(x = s); } -> (z); }"""
"""A program with weights of small numbers, whose sums are exact; ``tests/c/graph_races.c`` knows them."""

EXECUTE = next(number for number, (name, *_) in enumerate(FUNCTIONS) if name == "BNNSGraphContextExecute")

_LIBRARY = ctypes.CDLL(str(LIBRARY))


class Pair(ctypes.Structure):
    """A handle or an argument: two words."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


class Tensor(ctypes.Structure):
    """BNNSTensor."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("rank", ctypes.c_uint8),
        ("shape", ctypes.c_int64 * 8),
        ("stride", ctypes.c_int64 * 8),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
    )


def _declared(name: str, result: Any, *parameters: Any) -> Any:
    function = getattr(_LIBRARY, name)
    function.restype, function.argtypes = result, parameters
    return function


_SIZE = ctypes.c_size_t
_make = _declared("BNNSGraphContextMake", Pair, Pair)
_make_streaming = _declared("BNNSGraphContextMakeStreaming", Pair, Pair, ctypes.c_char_p, _SIZE, ctypes.c_void_p)
_destroy = _declared("BNNSGraphContextDestroy", None, Pair)
_execute = _declared(
    "BNNSGraphContextExecute", ctypes.c_int, Pair, ctypes.c_char_p, _SIZE, ctypes.c_void_p, _SIZE, ctypes.c_void_p
)
_set_type = _declared("BNNSGraphContextSetArgumentType", ctypes.c_int, Pair, ctypes.c_uint32)
_set_shapes = _declared("BNNSGraphContextSetDynamicShapes", ctypes.c_int, Pair, ctypes.c_char_p, _SIZE, ctypes.c_void_p)
_check = _declared("BNNSGraphContextEnableNanAndInfChecks", None, Pair, ctypes.c_bool)
_set_batch = _declared("BNNSGraphContextSetBatchSize", ctypes.c_int, Pair, ctypes.c_char_p, ctypes.c_uint64)


_get_tensor = _declared(
    "BNNSGraphContextGetTensor", ctypes.c_int, Pair, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_bool, ctypes.c_void_p
)
_MESSAGE = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)
_set_log = _declared("BNNSGraphContextSetMessageLogCallback", ctypes.c_int, Pair, _MESSAGE, ctypes.c_void_p)


class Graph:
    """A compiled program in memory."""

    def __init__(self, program: coreml.Program | str) -> None:
        parsed = coreml.parse(program) if isinstance(program, str) else program
        self.memory = np.frombuffer(compiled(checked_program(parsed), lambda n: memoryview(bytearray(n))), np.uint8)
        self.description = CompiledGraph(memoryview(self.memory))  # type: ignore[arg-type]
        self.pair = Pair(self.memory.ctypes.data, self.memory.size)


class CContext:
    """A context of the C library; ``tensors``: arguments are passed as BNNSTensor."""

    def __init__(self, graph: Graph | str, *, tensors: bool = False, streaming: bool = False) -> None:
        self.graph = Graph(graph) if isinstance(graph, str) else graph
        self.handle = _make_streaming(self.graph.pair, None, 0, None) if streaming else _make(self.graph.pair)
        assert self.handle.data
        self.tensors = False
        if tensors:
            self.take_tensors(True)
        self.passed: list[Any] = []
        """Tensors of earlier executions, which C does not keep."""

    def __del__(self) -> None:
        self.destroy()

    def destroy(self) -> None:
        """End the context."""
        _destroy(self.handle)

    def take_tensors(self, tensors: bool) -> None:
        """Set how arguments are passed."""
        assert _set_type(self.handle, 2 if tensors else 0) == 0
        self.tensors = tensors

    def set_shapes(self, *shapes: Sequence[int], function: str | None = None) -> int:
        """BNNSGraphContextSetDynamicShapes."""
        sizes = [(ctypes.c_uint64 * max(len(shape), 1))(*shape) for shape in shapes]
        held = [Pair(len(shape), ctypes.addressof(size)) for shape, size in zip(shapes, sizes, strict=True)]
        pairs = (Pair * len(held))(*[Pair(pair.data, pair.size) for pair in held])
        status: int = _set_shapes(self.handle, _text(function), len(held), pairs)
        return status

    def set_batch_size(self, batch: int, function: str | None = None) -> None:
        """BNNSGraphContextSetBatchSize."""
        assert _set_batch(self.handle, _text(function), batch) == 0

    def check_values(self, check: bool) -> None:
        """BNNSGraphContextEnableNanAndInfChecks."""
        _check(self.handle, check)

    def shape(self, name: str, function: str | None = None) -> tuple[int, ...]:
        """The known sizes of an argument."""
        tensor = Tensor()
        assert _get_tensor(self.handle, _text(function), name.encode(), True, ctypes.addressof(tensor)) == 0
        return tuple(tensor.shape[: tensor.rank])

    def log(self, receive: Callable[[str], None]) -> None:
        """Pass the text of messages on."""
        self._log = _MESSAGE(lambda level, text, where, more: receive(text.decode()))
        assert _set_log(self.handle, self._log, None) == 0

    def error(self) -> str | None:
        """The message of the latest call of this thread."""
        return last_error()

    def execute_at(self, arguments: int, count: int) -> int:
        """The status of an execution on arguments at an address."""
        status: int = _execute(self.handle, None, count, arguments or None, 0, None)
        return status

    def passing(self, arrays: Sequence[np.ndarray | None], function: str | None = None) -> Any:
        """The arguments as C has them, for ``execute``."""
        if not self.tensors:
            pairs = [Pair(a.ctypes.data, a.nbytes) if a is not None else Pair(None, 0) for a in arrays]
        else:
            types = [DATA_TYPES[a.element] for a in self.graph.description.function(function).arguments]
            self.passed.append([_described(a, int(kind)) for a, kind in zip(arrays, types, strict=True)])
            pairs = [Pair(ctypes.addressof(tensor), 0) for tensor in self.passed[-1]]
        return (Pair * len(pairs))(*pairs)

    def data_and_size(self, passed: Any, index: int) -> tuple[int, int]:
        """The address and the bytes of an argument after an execution."""
        if self.tensors:
            return self.passed[-1][index].data, self.passed[-1][index].bytes
        return passed[index].data, passed[index].size

    def execute(self, passed: Any, function: str | None = None, count: int | None = None) -> int:
        """The status of an execution."""
        status: int = _execute(self.handle, _text(function), len(passed) if count is None else count, passed, 0, None)
        return status

    def run(self, *arrays: np.ndarray | None, function: str | None = None) -> int:
        """The status of an execution on arrays in the order of C."""
        return self.execute(self.passing(arrays, function), function)


def _text(function: str | None) -> bytes | None:
    return None if function is None else function.encode()


def _described(array: np.ndarray | None, kind: int) -> Tensor:
    if array is None:
        return Tensor()
    strides = [step // array.itemsize for step in array.strides]
    size = array.nbytes
    if array.size:
        size = (1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True))) * array.itemsize
    return Tensor(
        kind,
        array.ndim,
        (ctypes.c_int64 * 8)(*array.shape),
        (ctypes.c_int64 * 8)(*strides),
        array.ctypes.data,
        size,
        None,
    )


@contextmanager
def executions_in_python() -> Iterator[list[Any]]:
    """A list that grows with each execution that reaches Python."""
    seen: list[Any] = []
    before = in_python.functions[EXECUTE]
    original = function(*FUNCTIONS[EXECUTE][::2])

    def watched(*arguments: Any) -> Any:
        seen.append(arguments)
        return original(*arguments)

    in_python.functions[EXECUTE] = watched
    try:
        yield seen
    finally:
        in_python.functions[EXECUTE] = before
