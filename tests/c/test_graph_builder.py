"""Graphs that C programs describe operation by operation: those of the builder in Python, bit for bit, and mistakes."""

from __future__ import annotations

import ctypes
import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from builder_cases import CASES, INSIDE, POSITIVE, UNARY, X
from c_face import library
from openbnns import graph
from openbnns.abi.enums import BNNSDataType
from openbnns.capi.graph_objects import DATA_TYPES
from openbnns.interop.coreml.builder import Tensor
from openbnns.interop.coreml.elements import name_of

FLOAT = int(BNNSDataType.BNNSDataTypeFloat32)
OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "mod": "remainder", "eq": "equal", "ne": "not_equal",
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "and": "and", "or": "or", "xor": "xor",
}  # fmt: skip


class Memory(ctypes.Structure):
    """A struct of C with an address and a size: options, graphs, contexts, arguments."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


class CTensor(ctypes.Structure):
    _fields_ = (
        ("data_type", ctypes.c_uint32), ("rank", ctypes.c_uint8), ("shape", ctypes.c_int64 * 8), ("stride", ctypes.c_int64 * 8),
        ("data", ctypes.c_void_p), ("data_size_in_bytes", ctypes.c_size_t), ("name", ctypes.c_char_p),
    )  # fmt: skip


def function(name: str, returned: Any, *parameters: Any) -> Any:
    """A function of the library with its types."""
    return ctypes.CFUNCTYPE(returned, *parameters)((name, library()))


HANDLE, TEXT, SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t


class Recorder:
    """The builder in C, for functions that were written for the one in Python."""

    def __init__(self) -> None:
        self._add = function("openbnns_graph_builder_add", ctypes.c_int64, HANDLE, TEXT, HANDLE, SIZE)
        self._get = function("openbnns_graph_builder_get_tensor", ctypes.c_int, HANDLE, ctypes.c_int64, HANDLE)
        self._compile = function("openbnns_graph_builder_compile", Memory, HANDLE, SIZE, HANDLE, Memory)
        self.handle = function("openbnns_graph_builder_make", HANDLE)()

    def add(self, operation: str, tensor: int | None = None, data: Any = None, **arguments: Any) -> int:
        written: dict[str, Any] = {"operation": operation, "arguments": arguments}
        if tensor is not None:
            written["tensor"] = tensor
        return self.text(json.dumps(written), data)

    def text(self, text: str, data: Any = None) -> int:
        address, size = (None, 0) if data is None else (data.ctypes.data, data.nbytes)
        return int(self._add(self.handle, text.encode(), address, size))

    def argument(self, name: str, data_type: Any, shape: Any) -> Recorded:
        number = DATA_TYPES[name_of(data_type)]
        return Recorded(self, self.add("argument", name=name, data_type=number, shape=list(shape)))

    def constant(self, values: Any, dtype: Any) -> Recorded:
        held = np.ascontiguousarray(np.asarray(values, dtype)).reshape(np.shape(values))
        number = self.add("constant", data=held, data_type=DATA_TYPES[name_of(dtype)], shape=list(held.shape))
        return Recorded(self, number)

    def described(self, number: int) -> CTensor:
        tensor = CTensor()
        assert self._get(self.handle, number, ctypes.addressof(tensor)) == 0, error()
        return tensor

    def compiled(self, *outputs: int) -> Memory:
        numbers = (ctypes.c_int64 * len(outputs))(*outputs)
        memory: Memory = self._compile(self.handle, len(outputs), ctypes.addressof(numbers), Memory(None, 0))
        return memory


class Recorded:
    """A tensor of such a builder: methods and operators as those in Python."""

    __array_ufunc__ = None

    def __init__(self, builder: Recorder, number: int) -> None:
        assert number >= 0, error()
        self.builder, self.number = builder, number

    def operand(self, value: Any, dtype: Any = np.float32) -> Recorded:
        return value if isinstance(value, Recorded) else self.builder.constant(value, dtype)

    def add(self, operation: str, **arguments: Any) -> Recorded:
        return Recorded(self.builder, self.builder.add(operation, self.number, **arguments))

    def __getitem__(self, place: Any) -> Recorded:
        parts = [
            {"start": p.start, "stop": p.stop, "step": p.step}
            if isinstance(p, slice)
            else "fill"
            if p is Ellipsis
            else p
            for p in (place if isinstance(place, tuple) else (place,))
        ]
        return self.add("slice", place=parts)

    def __invert__(self) -> Recorded:
        return self.add("not")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        signature = inspect.signature(getattr(Tensor, name))

        def run(*given: Any, **named: Any) -> Any:
            arguments = {}
            for key, value in list(signature.bind(None, *given, **named).arguments.items())[1:]:
                operand = "Operand" in str(signature.parameters[key].annotation)
                if isinstance(value, Recorded) or (operand and value is not None):
                    arguments[key] = {
                        "tensor": self.operand(value, np.int32 if key == "indices" else np.float32).number
                    }
                else:
                    arguments[key] = value
            if name == "cast":
                arguments = {"data_type": DATA_TYPES[name_of(arguments["to"])]}
            recorded = self.add(name, **arguments)
            return (recorded, Recorded(self.builder, recorded.number + 1)) if name == "top_k" else recorded

        return run


def _operator(name: str, *, swapped: bool) -> Any:
    def run(self: Recorded, other: Any) -> Recorded:
        first, second = (self.operand(other), self) if swapped else (self, self.operand(other))
        return first.add(OPERATORS[name], y={"tensor": second.number})

    return run


for _name in OPERATORS:
    setattr(Recorded, f"__{_name}__", _operator(_name, swapped=False))
    if _name in ("add", "sub", "mul", "truediv"):
        setattr(Recorded, f"__r{_name}__", _operator(_name, swapped=True))


def error() -> str:
    return (library().openbnns_last_error() or b"").decode()


@contextmanager
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    yield made
    function("openbnns_graph_builder_destroy", None, HANDLE)(made.handle)


def executed(compiled: Memory, output: np.ndarray, *inputs: np.ndarray, batch: int | None = None) -> np.ndarray:
    """The output of a graph, whose memory is released."""
    assert compiled.data and compiled.size, error()
    context = function("BNNSGraphContextMake", Memory, Memory)(compiled)
    arrays = (output, *inputs)
    arguments = (Memory * len(arrays))(*(Memory(a.ctypes.data, a.nbytes) for a in arrays))
    if batch is not None:
        assert (
            function("BNNSGraphContextSetBatchSize", ctypes.c_int, Memory, TEXT, ctypes.c_uint64)(context, None, batch)
            == 0
        )
    execute = function("BNNSGraphContextExecute", ctypes.c_int, Memory, TEXT, SIZE, HANDLE, SIZE, HANDLE)
    assert execute(context, None, len(arrays), ctypes.addressof(arguments), 0, None) == 0, error()
    function("BNNSGraphContextDestroy", None, Memory)(context)
    ctypes.CDLL(None).free(ctypes.c_void_p(compiled.data))
    return output


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_operations_are_those_of_python(name: str, shape: tuple[int, ...]) -> None:
    build, _ = UNARY[name]
    x = np.ascontiguousarray(POSITIVE.get(name, X / 2 if name in INSIDE else X))
    wanted = graph.make_context(lambda b: build(b.argument("x", np.float32, shape))).execute({"x": x})["output"]
    with recorder() as builder:
        result = build(builder.argument("x", np.float32, shape))  # type: ignore[arg-type]
        described = builder.described(result.number)
        assert described.rank == wanted.ndim and described.data_type == DATA_TYPES[name_of(wanted.dtype)]
        sizes = described.shape[: wanted.ndim]
        assert all(n in (m, -1) for n, m in zip(sizes, wanted.shape, strict=True))
        batch = x.shape[0] if shape[0] < 0 else None
        output = executed(builder.compiled(result.number), np.empty_like(wanted), x, batch=batch)
    assert output.tobytes() == wanted.tobytes()


def test_a_changed_part_is_a_tensor_of_its_own() -> None:
    with recorder() as builder:
        x = builder.argument("x", np.float32, [2, 3])
        update = builder.constant(7, np.float32)
        changed = x.add("slice_update", place=["fill", {"start": 1}], update={"tensor": update.number})
        both = changed + x
        given = np.arange(6, dtype=np.float32).reshape(2, 3)
        output = executed(builder.compiled(both.number), np.empty_like(given), given)
    assert output.tolist() == [[0, 8, 9], [6, 11, 12]]


def test_states() -> None:
    """A state is what was assigned to it last; graphs stay when their builder is destroyed, and it can compile several."""
    with recorder() as builder:
        state = builder.add("argument", name="past", data_type=FLOAT, shape=[3], intent="input_output")
        x = builder.argument("x", np.float32, [1])
        later = builder.add("slice_update", state, place=[{"start": 0, "stop": 1}], update={"tensor": x.number})
        later = builder.add("slice_update", later, place=[{"start": 2}], update={"tensor": x.number})
        total = builder.add("sum", later, axes=[0], keep_dimensions=True)
        graphs = [builder.compiled(total), builder.compiled(total)]
    for compiled in graphs:
        past = np.float32([1, 2, 3])
        assert executed(compiled, np.zeros(1, np.float32), past, np.float32([9])).tolist() == [20]
        assert past.tolist() == [9, 2, 9]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name"),
        ("[]", r"an operation is an object in JSON whose \"operation\" is its name, not \[\]"),
        ('{"operation": "nothing", "tensor": 0}', "nothing: there is no such operation. bnns.h lists the operators"),
        ('{"operation": "nothing"}', "nothing: 'nothing' needs a tensor that it belongs to, or does not exist"),
        ('{"operation": "relu", "tensor": 3}', "relu: there is no tensor 3. This builder has made 1"),
        ('{"operation": "add", "tensor": 0, "arguments": {"y": {"tensor": -1}}}', "add: there is no tensor -1"),
        ('{"operation": "softmax", "tensor": 0}', "softmax: .*missing .*'axis'"),
        ('{"operation": "softmax", "tensor": 0, "arguments": {"axis": 7}}', "softmax: .*dim is 7"),
        ('{"operation": "__init__", "tensor": 0}', "there is no such operation"),
        ('{"operation": "slice", "tensor": 0}', "slice: 'place' is missing among the arguments"),
        ('{"operation": "slice", "tensor": 0, "arguments": {"place": [0, 0, 0]}}', "slice: a slice has 3 entries"),
        (
            '{"operation": "argument", "arguments": {"data_type": 5}}',
            "graphs have no elements of the type 0x5. They have fp16",
        ),
        (
            '{"operation": "constant", "arguments": {"data_type": 65568, "shape": [3]}}',
            "0 bytes are 0 elements of float32",
        ),
    ],
)
def test_mistakes_are_refused_and_leave_the_builder_as_it_was(text: str, message: str) -> None:
    with recorder() as builder:
        x = builder.argument("x", np.float32, [2, 3])
        assert builder.text(text) == -1
        with pytest.raises(AssertionError, match=f"openbnns_graph_builder_add: .*{message}"):
            Recorded(builder, -1)
        assert (x + 1).number == 2


def test_invalid_handles_and_outputs() -> None:
    with recorder() as builder:
        x = builder.argument("x", np.float32, [2])
        assert builder.compiled(x.number, 5).data is None
        assert "openbnns_graph_builder_compile: there is no tensor 5" in error()
        assert builder.compiled().data is None and "there are 0 outputs" in error()
        assert builder._get(builder.handle, x.number, None) == -1 and "tensor is NULL" in error()
        assert builder._add(builder.handle, None, None, 0) == -1 and "operation is NULL" in error()
    assert builder.text("{}") == -1 and "builder is destroyed" in error()
    for handle in (0x1234, builder.handle + 2):
        builder.handle = handle
        assert builder.text("{}") == -1 and "not a builder of graphs of this library" in error()
    builder.handle = None
    assert builder.text("{}") == -1 and "builder is NULL" in error()
