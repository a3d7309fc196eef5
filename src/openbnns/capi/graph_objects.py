"""The objects behind the functions of BNNSGraph: options, contexts with their callbacks, and the memory of arguments."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from ..abi.enums import (
    BNNSDataType,
    BNNSGraphArgumentType,
    BNNSGraphMessageLevel,
    BNNSGraphOptimizationPreference,
)
from ..abi.structs import (
    BNNSTensor,
    bnns_graph_argument_t,
    bnns_graph_compile_options_t,
    bnns_graph_context_t,
    bnns_graph_t,
)
from ..errors import Problem, out_of_memory, record, succeeded

Bytes = npt.NDArray[np.uint8]
Reallocate = Callable[[Any, int, ctypes.c_void_p, int, int], int]
FreeAll = Callable[[Any, int], None]

ERROR, UNSUPPORTED = int(BNNSGraphMessageLevel.BNNSGraphMessageLevelError), 2
MAXIMUM_RANK = 8
_ALIGNMENT = 64

DATA_TYPES = {
    "fp16": BNNSDataType.BNNSDataTypeFloat16,
    "fp32": BNNSDataType.BNNSDataTypeFloat32,
    "int8": BNNSDataType.BNNSDataTypeInt8,
    "int16": BNNSDataType.BNNSDataTypeInt16,
    "int32": BNNSDataType.BNNSDataTypeInt32,
    "int64": BNNSDataType.BNNSDataTypeInt64,
    "uint8": BNNSDataType.BNNSDataTypeUInt8,
    "uint16": BNNSDataType.BNNSDataTypeUInt16,
    "uint32": BNNSDataType.BNNSDataTypeUInt32,
    "uint64": BNNSDataType.BNNSDataTypeUInt64,
    "bool": BNNSDataType.BNNSDataTypeBoolean,
}
"""The type of the elements of a tensor, by its name in programs."""


class Messages:
    """A callback for messages, and the levels that it wants."""

    def __init__(self) -> None:
        self.callback: Callable[..., Any] | None = None
        self.additional: Any = None
        self.mask = 14

    def send(self, level: int, text: str, where: str | None) -> None:
        """Pass a message on; without a callback, log it."""
        if self.callback is None:
            import logging

            if level & self.mask and level < ERROR:  # errors are logged as those of every call
                logging.getLogger("openbnns").info("%s", text if where is None else f"{where}: {text}")
        elif level & self.mask:
            self.callback(BNNSGraphMessageLevel(level), text, where, self.additional)


class Options:
    """The options behind a ``bnns_graph_compile_options_t``."""

    def __init__(self) -> None:
        self.single_thread = self.debug = self.destroyed = False
        self.preference: int = BNNSGraphOptimizationPreference.BNNSGraphOptimizationPreferencePerformance
        self.messages = Messages()
        self.path: str | None = None
        self.path_in_c: Any = None
        self.descriptor = -1


class Allocator:
    """Functions of a program that allocate memory, with what they want to be passed."""

    def __init__(self, reallocate: Reallocate, free_all: FreeAll, size: int, user: Any) -> None:
        self.reallocate, self.free_all, self.size, self.user = reallocate, free_all, size, user


class GraphContext:
    """The context behind a ``bnns_graph_context_t``, with its callbacks and the outputs that it has allocated."""

    def __init__(self, context: Any, streaming: str | None = None) -> None:
        self.context, self.streaming = context, streaming
        self.argument_type: int = BNNSGraphArgumentType.BNNSGraphArgumentTypePointer
        self.messages = Messages()
        self.workspace_allocator: Allocator | None = None
        self.output_allocator: Allocator | None = None
        self.destroyed = False
        self.address = 0  # of the graph, in a C program
        self._outputs: dict[tuple[str, str], tuple[Any, int, Bytes]] = {}
        context.log = self.messages.send

    def number(self) -> int:
        """The number by which C programs repeat executions (core/bindings/raw.h); 0 if they need Python."""
        context = self.context
        if context is None or context.native is None or context.latest is None:
            return 0
        return int(context.native.number(context.latest))

    def execute_again(self, function: int, count: int, arguments: int) -> bool:
        """Execute on arguments as C has them, like a former execution; False, with nothing written, if Python has to look."""
        context = self.context
        native = None if context is None else context.native
        return native is not None and native.execute_arguments(function, count, arguments)

    def set_argument_type(self, kind: int) -> None:
        """Choose between pointers and tensors."""
        self.argument_type = kind
        if self.context.native is not None:
            self.context.native.take_tensors(kind != BNNSGraphArgumentType.BNNSGraphArgumentTypePointer)

    def set_address(self, address: int) -> None:
        """Say where the graph lies in a C program."""
        self.address = address
        if self.context.native is not None:
            self.context.native.describe_tensors(address, {name: int(kind) for name, kind in DATA_TYPES.items()})

    def memory_of(self, function: str, name: str, size: int, who: str) -> tuple[Any, Bytes]:
        """Memory for an output, as programs see it and as bytes; it stays until the context is destroyed, or grows."""
        held, capacity, view = self._outputs.get((function, name), (None, 0, np.empty(0, np.uint8)))
        if held is None or capacity < size:
            if self.output_allocator is None:
                view = np.empty(max(size, 1), np.uint8)
                held = view
            else:
                given = self.output_allocator
                place = ctypes.c_void_p(held if isinstance(held, int) else None)
                if given.reallocate(given.user, given.size, place, _ALIGNMENT, max(size, 1)) != 0 or not place.value:
                    raise Problem(f"{who}: the program's function cannot allocate {size} bytes for {name}.")
                held = int(place.value)
                view = at_address(held, max(size, 1))
            self._outputs[function, name] = held, size, view
        return held, view[:size]

    def set_output_allocator(self, allocator: Allocator | None) -> None:
        """Take other functions; memory of the old ones stays with them."""
        self._free({id(self.output_allocator): self.output_allocator}, keep=self.workspace_allocator)
        self.output_allocator = allocator
        self._outputs = {}

    def destroy(self) -> None:
        self.destroyed = True
        self.context.close()
        self._outputs = {}
        self._free({id(a): a for a in (self.workspace_allocator, self.output_allocator)}, keep=None)
        self.context = None

    @staticmethod
    def _free(allocators: dict[int, Allocator | None], keep: Allocator | None) -> None:
        users = [] if keep is None else [keep.user]
        for allocator in allocators.values():
            if allocator is not None and not any(allocator.user is user or allocator.user == user for user in users):
                users.append(allocator.user)
                allocator.free_all(allocator.user, allocator.size)


# Arguments of calls.


def options_of(options: Any, who: str, *, required: bool = False) -> Options:
    """The options of a call; NULL stands for the defaults, unless they are ``required``."""
    if not isinstance(options, bnns_graph_compile_options_t):
        raise TypeError(f"{who}: options must be a bnns_graph_compile_options_t, not {type(options).__name__}.")
    if options.data is None:
        if required:
            raise Problem(f"{who}: options.data is NULL. Make options with BNNSGraphCompileOptionsMakeDefault.")
        return Options()
    if not isinstance(options.data, Options):
        raise TypeError(f"{who}: options.data must be what BNNSGraphCompileOptionsMakeDefault gave.")
    if options.data.destroyed:
        raise Problem(f"{who}: options have been destroyed.")
    return options.data


def context_of(context: Any, who: str) -> GraphContext:
    """The context of a call."""
    if not isinstance(context, bnns_graph_context_t):
        raise TypeError(f"{who}: context must be a bnns_graph_context_t, not {type(context).__name__}.")
    if context.data is None:
        raise Problem(f"{who}: context.data is NULL. Making it failed or was skipped: check BNNSGraphContextMake.")
    if not isinstance(context.data, GraphContext):
        raise TypeError(f"{who}: context.data must be what BNNSGraphContextMake gave.")
    if context.data.destroyed:
        raise Problem(f"{who}: context has been destroyed.")
    return context.data


def graph_of(graph: Any, who: str) -> Any:
    """The graph of a call."""
    from ..interop.coreml.compiled import CompiledGraph

    if not isinstance(graph, bnns_graph_t):
        raise TypeError(f"{who}: graph must be a bnns_graph_t, not {type(graph).__name__}.")
    if graph.data is None:
        raise Problem(f"{who}: graph.data is NULL. Compiling failed or was skipped: check BNNSGraphCompileFromFile.")
    if isinstance(graph.data, int):
        block = memoryview(at_address(graph.data, graph.size))  # type: ignore[arg-type]
    else:
        block = memoryview(graph.data)[: graph.size]
    try:
        return CompiledGraph(block, f"{who}: graph")
    except ValueError as error:
        raise Problem(str(error)) from None


def signature_of(graph: Any, function: Any, who: str) -> Any:
    """The arguments of a function of a graph."""
    compiled = graph_of(graph, who)
    name = text_of(function, who, "function")
    try:
        return compiled.function(name)
    except KeyError:
        raise Problem(f"{who}: function is {name!r}, but the graph has {', '.join(compiled.functions)}.") from None


def text_of(value: Any, who: str, name: str) -> str | None:
    """Text of a call: ``str``, ``bytes``, a path or NULL."""
    if value is None:
        return None
    if isinstance(value, (bytes, os.PathLike)):
        return os.fsdecode(value)
    if not isinstance(value, str):
        raise TypeError(f"{who}: {name} must be text, not {type(value).__name__}.")
    return value


def number_of(value: Any, who: str, name: str) -> int:
    """A whole number of a call."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{who}: {name} must be an integer, not {type(value).__name__}.")
    return int(value)


@contextmanager
def reported(
    who: str, messages: Callable[[], Messages] | None = None, *, destroys: bool = False
) -> Iterator[list[Problem]]:
    """Keep the message of a call that fails, and pass it to a callback. The list then holds the problem.

    A call that ``destroys`` something leaves the message of an earlier call, which programs may read after they clean up.
    """
    failed: list[Problem] = []
    where: str | None = None
    try:
        yield failed
    except Problem as problem:
        failed.append(problem)
    except MemoryError:
        failed.append(out_of_memory(who))
    except (ValueError, OSError) as error:  # of a file or a program
        place = getattr(error, "place", None)
        where = None if place is None else str(place)
        failed.append(Problem(f"{who}: {error}", unsupported=getattr(error, "unsupported", False)))
    if not failed and not destroys:
        succeeded(None)
    for failure in failed:
        record(failure)
        if messages is not None:
            messages().send(UNSUPPORTED if failure.unsupported else ERROR, failure.message, where)


# Memory.


def at_address(address: int, size: int) -> Bytes:
    """The bytes at an address, which is trusted."""
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8)


def bytes_of(data: Any, given: int, needed: int, dtype: np.dtype[Any], who: str, name: str, *, writable: bool) -> Bytes:
    """The first bytes of the memory of an argument, which must have as many as are ``needed``, of the right type."""
    if isinstance(data, (int, np.integer)) and not isinstance(data, bool):
        if given < needed:
            raise Problem(f"{who}: {name} has {given} bytes, but takes {needed}. Say how many bytes its memory has.")
        return at_address(int(data), needed)
    array = np.asarray(data)
    if not array.flags.c_contiguous or array.dtype.hasobject:
        raise Problem(f"{who}: {name} is not a contiguous array of numbers. Pass np.ascontiguousarray(...).")
    if array.dtype not in (dtype, np.uint8):
        raise Problem(f"{who}: {name} holds {array.dtype} items, but the program says {dtype}.", kind=TypeError)
    if writable and not array.flags.writeable:
        raise Problem(f"{who}: {name} is written, but its array is read-only. Pass a writable one.")
    if array.nbytes < needed or 0 < given < needed:
        available = min(array.nbytes, given or array.nbytes)
        raise Problem(f"{who}: {name} has {available} bytes, but takes {needed}.")
    return array.reshape(-1).view(np.uint8)[:needed]


def new_memory(size: int) -> memoryview:
    """Memory for a graph that Python owns."""
    return memoryview(np.empty(size, np.uint8))  # type: ignore[arg-type]


def mapped_file(descriptor: int, size: int) -> memoryview:
    """A file of a size, in memory."""
    os.ftruncate(descriptor, size)
    return memoryview(mmap.mmap(descriptor, size))


def block_allocator(
    options: Options, new: Callable[[int], memoryview], map_file: Callable[[int, int], memoryview]
) -> Callable[[int], memoryview]:
    """The memory of a graph: new, or that of the file which the options name."""

    def allocate(size: int) -> memoryview:
        if options.descriptor >= 0:
            return map_file(options.descriptor, size)
        if options.path is None:
            return new(size)
        descriptor = os.open(options.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            return map_file(descriptor, size)
        finally:
            os.close(descriptor)

    return allocate


# Executions.


def execute(handle: GraphContext, function: str | None, arguments: Sequence[Any], who: str) -> None:
    """Run a function on arguments as C has them, and write the outputs."""
    context = handle.context
    if context is None:  # by another thread
        raise Problem(f"{who}: context has been destroyed.")
    run = context.run_of(function, who)
    expected = run.signature.arguments
    if len(arguments) != len(expected):
        names = ", ".join(argument.name for argument in expected)
        raise Problem(f"{who}: argument_count is {len(arguments)}, but the function has {len(expected)}: {names}.")
    tensors = handle.argument_type == BNNSGraphArgumentType.BNNSGraphArgumentTypeTensor
    form = _Tensors if tensors else _Pointers
    pairs = [(a, form(given, a, run, handle, who)) for a, given in zip(expected, arguments, strict=True)]
    inputs = {a.name: given.input() for a, given in pairs if a.intent == "in"}
    states = [(a, given) for a, given in pairs if a.intent == "inout"]
    if run.streaming:
        for a, given in states:
            given.set(run.state(a.name, who))
    else:
        inputs |= {a.name: given.input() for a, given in states}
    for a, given in pairs:
        if a.intent == "out" and None not in a.shape:
            given.require_room(a.shape)  # before states are written
    results = context.run(run, inputs, who, lent=True)
    writes = [given.output(np.ascontiguousarray(results[a.name])) for a, given in pairs if a.intent == "out"]
    for write in writes:  # only when all of them fit
        write()


class _Pointers:
    """An argument that is plain memory."""

    def __init__(self, given: Any, argument: Any, run: Any, handle: Any, who: str) -> None:
        if not isinstance(given, bnns_graph_argument_t):
            raise TypeError(f"{who}: arguments must be bnns_graph_argument_t, not {type(given).__name__}.")
        self.given, self.argument, self.run, self.handle, self.who = given, argument, run, handle, who
        self.dtype = run.dtype(argument)

    def input(self) -> Any:
        shape = self.run.known_shape(self.argument, self.who)
        if self.given.data_ptr is None:
            raise Problem(f"{self.who}: {self.argument.name} is NULL, but is read. Pass its memory.")
        return self._view(shape, self.argument.intent == "inout")

    def _view(self, shape: tuple[int, ...], writable: bool) -> Any:
        needed = math.prod(shape) * self.dtype.itemsize
        data = bytes_of(
            self.given.data_ptr,
            self.given.data_ptr_size,
            needed,
            self.dtype,
            self.who,
            self.argument.name,
            writable=writable,
        )
        return data.view(self.dtype).reshape(shape)

    def require_room(self, shape: tuple[int, ...]) -> None:
        """Refuse memory of the program that is too small for an output."""
        if self.given.data_ptr is not None:
            self._view(shape, True)

    def output(self, result: Any) -> Callable[[], None]:
        if self.given.data_ptr is None:
            held, data = self.handle.memory_of(self.run.signature.name, self.argument.name, result.nbytes, self.who)
            self.given.data_ptr = held if isinstance(held, int) else data.view(self.dtype).reshape(result.shape)
            self.given.data_ptr_size = result.nbytes
            target = data.view(self.dtype).reshape(result.shape)
        else:
            target = self._view(result.shape, True)
        return lambda: np.copyto(target, result)

    def set(self, state: Any) -> None:
        self.given.data_ptr, self.given.data_ptr_size = state, state.nbytes


class _Tensors:
    """An argument with a shape and strides of its own."""

    def __init__(self, given: Any, argument: Any, run: Any, handle: Any, who: str) -> None:
        if not isinstance(given, bnns_graph_argument_t):
            raise TypeError(f"{who}: arguments must be bnns_graph_argument_t, not {type(given).__name__}.")
        if given.tensor is None:
            raise Problem(f"{who}: tensor of {argument.name} is NULL. Pass a BNNSTensor.")
        if not isinstance(given.tensor, BNNSTensor):
            raise TypeError(
                f"{who}: tensor of {argument.name} must be a BNNSTensor, not {type(given.tensor).__name__}."
            )
        self.tensor: BNNSTensor = given.tensor
        self.argument, self.run, self.handle, self.who = argument, run, handle, who
        self.dtype = run.dtype(argument)

    def input(self) -> Any:
        tensor, name = self.tensor, self.argument.name
        expected = DATA_TYPES[self.argument.element]
        if tensor.data_type not in (0, expected):
            raise Problem(f"{self.who}: data_type of {name} is {tensor.data_type}, but the program says {expected}.")
        if tensor.data is None:
            raise Problem(f"{self.who}: data of {name} is NULL, but is read. Pass its memory.")
        shape = tuple(tensor.shape[: tensor.rank])
        without = not any(shape) and not (tensor.rank and 0 in self.argument.shape)
        later = -1 in shape and len(shape) == len(self.argument.shape)  # set after BNNSGraphContextGetTensor
        if without or later:
            shape = self.run.known_shape(self.argument, self.who)
        if len(shape) != len(self.argument.shape) or min(shape, default=0) < 0:
            rank = len(self.argument.shape)
            raise Problem(f"{self.who}: {name} has shape {shape}, but the program has {rank} sizes, none negative.")
        return self._view(shape, self.argument.intent == "inout")

    def _view(self, shape: tuple[int, ...], writable: bool) -> Any:
        tensor, strides = self.tensor, tuple(self.tensor.stride[: len(shape)])
        if not any(strides) or tuple(tensor.shape[: tensor.rank]) != shape:
            strides = contiguous(shape)
        if min(strides, default=0) < 0:
            raise Problem(f"{self.who}: {self.argument.name} has strides {strides}. They must not be negative.")
        span = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if 0 not in shape else 0
        needed = span * self.dtype.itemsize
        who, name = self.who, self.argument.name
        data = bytes_of(tensor.data, tensor.data_size_in_bytes, needed, self.dtype, who, name, writable=writable)
        steps = tuple(s * self.dtype.itemsize for s in strides)
        return np.ndarray(shape, self.dtype, data, strides=steps)

    def require_room(self, shape: tuple[int, ...]) -> None:
        """Refuse memory of the program that is too small for an output."""
        if self.tensor.data is not None:
            self._view(shape, True)

    def output(self, result: Any) -> Callable[[], None]:
        tensor = self.tensor
        if result.ndim > MAXIMUM_RANK:
            raise Problem(
                f"{self.who}: {self.argument.name} has {result.ndim} axes; tensors have {MAXIMUM_RANK} at most."
            )
        if tensor.data is None:
            held, data = self.handle.memory_of(self.run.signature.name, self.argument.name, result.nbytes, self.who)
            target = data.view(self.dtype).reshape(result.shape)
            tensor.data = held if isinstance(held, int) else target
            tensor.data_size_in_bytes = result.nbytes
        else:
            target = self._view(result.shape, True)

        def write() -> None:
            np.copyto(target, result)
            describe(tensor, self.argument, result.shape)
            tensor.stride = [step // result.itemsize for step in target.strides]

        return write

    def set(self, state: Any) -> None:
        describe(self.tensor, self.argument, state.shape)
        self.tensor.data, self.tensor.data_size_in_bytes = state, state.nbytes


def describe(tensor: BNNSTensor, argument: Any, shape: Sequence[int]) -> None:
    """Set everything of a tensor but its memory."""
    tensor.data_type, tensor.rank = DATA_TYPES[argument.element], len(shape)
    tensor.shape = list(shape)
    tensor.stride = list(contiguous(shape)) if min(shape, default=0) >= 0 else [0] * len(shape)
    tensor.name = argument.name


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of elements without gaps, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def initial_state(tensor: BNNSTensor, run: Any, who: str) -> tuple[str, Any]:
    """The name and the values of a state that a streaming context begins with."""
    name = text_of(tensor.name, who, "name of an initial state")
    states = {a.name: a for a in run.signature.arguments if a.intent == "inout"}
    if name not in states:
        raise Problem(f"{who}: an initial state is named {name!r}. The states are {', '.join(states) or 'none'}.")
    argument = bnns_graph_argument_t(tensor=tensor)
    return str(name), _Tensors(argument, states[name], run, None, who).input().copy()
