"""The functions of BNNSGraph for addresses: structs that are passed by value, arrays that are filled, memory for C to free."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

from .. import capi
from ..capi import graph as functions
from ..capi import graph_objects as behind
from .layouts import FUNCTIONS
from .reading import Address, reader

_COMPILE_MESSAGE = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)
_REALLOCATE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_size_t,
    ctypes.c_size_t,
)
_FREE_ALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)
_PAIR = struct.Struct("=QQ")
_TENSOR = struct.Struct("=IB3x8q8qQQQ")
_MOST_ARGUMENTS = 1 << 16


def text_at(address: Address) -> str | None:
    return None if address is None else ctypes.string_at(address).decode("utf-8", "surrogateescape")


def _graph(address: Address, size: int) -> Any:
    return capi.bnns_graph_t(address, size)


def _options(held: Any) -> Any:
    return capi.bnns_graph_compile_options_t(held)


def _context(held: Any) -> Any:
    return capi.bnns_graph_context_t(held)


def _pairs(address: Address, count: int) -> list[tuple[int, int]] | None:
    """An array of structs of two words; a count that is a mistake gives none of them, which the call reports."""
    if address is None:
        return None
    size = (count if count <= _MOST_ARGUMENTS else 0) * _PAIR.size
    return list(_PAIR.iter_unpack(ctypes.string_at(address, size)))


def _message(address: Address) -> Callable[..., None] | None:
    if address is None:
        return None
    function = _COMPILE_MESSAGE(address)

    def send(level: int, text: str, where: str | None, additional: Address) -> None:
        function(int(level), text.encode(), None if where is None else where.encode(), additional)

    return send


# Compiling.

_libc = ctypes.CDLL(None, use_errno=True)
_libc.malloc.argtypes, _libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mmap.restype = ctypes.c_void_p


def allocated(size: int) -> memoryview:
    """Memory that the program releases with ``free``."""
    address = _libc.malloc(size)
    if not address:
        raise MemoryError
    return _view(address, size)


def mapped(descriptor: int, size: int) -> memoryview:
    """A file that the program releases with ``munmap``."""
    import mmap
    import os

    os.ftruncate(descriptor, size)
    protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED
    address = _libc.mmap(None, size, protection, flags, descriptor, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return _view(address, size)


def _view(address: int, size: int) -> memoryview:
    return memoryview((ctypes.c_uint8 * size).from_address(address)).cast("B")


def write_graph(result: int, memory: Any) -> None:
    """Write where the memory of a graph is, and its size, to a struct of C; None is a graph that could not be made."""
    address, size = (0, 0) if memory is None else (ctypes.addressof(memory), ctypes.sizeof(memory))
    ctypes.memmove(result, _PAIR.pack(address, size), _PAIR.size)


def _compile(result: int, filename: Address, function: Address, options: Any) -> None:
    graph = functions.compile_file(text_at(filename), text_at(function), _options(options), allocated, mapped)
    write_graph(result, graph.data)


# Options.


def _make_options() -> Any:
    return capi.BNNSGraphCompileOptionsMakeDefault().data


def _get_path(options: Any) -> Address:
    path = capi.BNNSGraphCompileOptionsGetOutputPath(_options(options))
    if path is None:
        return None
    if options.path_in_c is None or options.path_in_c.value != path.encode():
        options.path_in_c = ctypes.create_string_buffer(path.encode())  # the options keep it
    return ctypes.addressof(options.path_in_c)


def _log_compilation(options: Any, callback: Address, additional: Address) -> None:
    capi.BNNSGraphCompileOptionsSetMessageLogCallback(_options(options), _message(callback), additional)


# Queries: names are those that lie in the graph.


def _names(target: Callable[..., int], with_function: bool) -> Callable[..., int]:
    def run(address: Address, size: int, *rest: Any) -> int:
        *function, count, names = rest
        graph = _graph(address, size)
        values: list[Any] = [None] * min(count, _MOST_ARGUMENTS)
        given = [text_at(each) for each in function]
        status = target(graph, *given, len(values), None if names is None else values)
        if status == 0:
            compiled = behind.graph_of(graph, target.__name__)
            if with_function:
                places = {argument.name: argument.at for argument in compiled.function(given[0]).arguments}
            else:
                places = {name: signature.at for name, signature in compiled.functions.items()}
            written = [address + places[name] for name in values if name is not None]
            ctypes.memmove(names, struct.pack(f"={len(written)}Q", *written), 8 * len(written))
        return status

    return run


def _intents(address: Address, size: int, function: Address, count: int, intents: Any) -> int:
    values = [0] * min(count, _MOST_ARGUMENTS)
    given = None if intents is None else values
    status = capi.BNNSGraphGetArgumentIntents(_graph(address, size), text_at(function), len(values), given)
    if status == 0:
        written = [int(intent) for intent in values if intent]
        ctypes.memmove(intents, struct.pack(f"={len(written)}I", *written), 4 * len(written))
    return status


def _interleave(address: Address, size: int, function: Address, count: int, factors: Any, counts: Any) -> int:
    length = min(count, _MOST_ARGUMENTS)
    values: tuple[list[Any], list[Any]] = [1] * length, [1] * length
    given: list[Any] = [None if place is None else each for place, each in zip((factors, counts), values, strict=True)]
    status = capi.BNNSGraphGetArgumentInterleaveFactors(_graph(address, size), text_at(function), length, *given)
    if status == 0:
        written = sum(factor is None for factor in values[0])
        for place in (factors, counts):
            ctypes.memset(place, 0, 8 * written)  # NULL and 0
    return status


def _position(address: Address, size: int, function: Address, argument: Address) -> int:
    return capi.BNNSGraphGetArgumentPosition(_graph(address, size), text_at(function), text_at(argument))


def _plain(target: Callable[..., Any]) -> Callable[..., Any]:
    def run(address: Address, size: int, *function: Address) -> Any:
        return target(_graph(address, size), *map(text_at, function))

    return run


def _fill_strides(address: Address, size: int, function: Address, argument: Address, tensor: Address) -> int:
    held = read_tensor(tensor)
    status = capi.BNNSGraphTensorFillStrides(_graph(address, size), text_at(function), text_at(argument), held)
    if status == 0:
        write_tensor(tensor, held, held.data or 0, held.name or 0)
    return status


def read_tensor(address: Address) -> Any:
    return reader("BNNSTensor")(address)


def write_tensor(address: Any, held: Any, data: int, name: int) -> None:
    packed = _TENSOR.pack(
        int(held.data_type), held.rank, *held.shape, *held.stride, data, held.data_size_in_bytes, name
    )
    ctypes.memmove(address, packed, _TENSOR.size)


# Contexts.


def _make_context(address: Address, size: int) -> Any:
    made = capi.BNNSGraphContextMake(_graph(address, size)).data
    if made is not None:
        made.set_address(address)
    return made


def _make_streaming(address: Address, size: int, function: Address, count: int, states: Address) -> Any:
    initial = None
    if states is not None:
        number = count if count <= _MOST_ARGUMENTS else 0
        initial = [read_tensor(states + i * _TENSOR.size) for i in range(number)]
        for state in initial:
            state.name = text_at(state.name)
    made = capi.BNNSGraphContextMakeStreaming(_graph(address, size), text_at(function), count, initial).data
    if made is not None:
        made.set_address(address)
    return made


def _destroy_context(context: Any) -> None:
    capi.BNNSGraphContextDestroy(_context(context))


def _log_execution(context: Any, callback: Address, additional: Address) -> int:
    return capi.BNNSGraphContextSetMessageLogCallback(_context(context), _message(callback), additional)


def _allocators(target: Callable[..., int]) -> Callable[..., int]:
    def run(context: Any, reallocate: Address, free_all: Address, size: int, user: Address) -> int:
        given: list[Any] = [None, None]
        if reallocate is not None:
            allocating = _REALLOCATE(reallocate)
            given[0] = lambda user, size, place, *rest: allocating(user, size, ctypes.byref(place), *rest)
        if free_all is not None:
            given[1] = _FREE_ALL(free_all)
        return target(_context(context), *given, size, user)

    return run


def _set_shapes(context: Any, function: Address, count: int, shapes: Address) -> int:
    pairs = _pairs(shapes, count)
    given = None
    if pairs is not None:
        given = []
        for rank, address in pairs:
            sizes: Any = None
            if address and rank <= behind.MAXIMUM_RANK:
                sizes = (ctypes.c_uint64 * rank).from_address(address)  # outputs are written to it
            given.append(capi.bnns_graph_shape_t(rank, sizes))
    return capi.BNNSGraphContextSetDynamicShapes(_context(context), text_at(function), count, given)


def _with_function(target: Callable[..., Any]) -> Callable[..., Any]:
    def run(context: Any, function: Address, *rest: Any) -> Any:
        return target(_context(context), text_at(function), *rest)

    return run


def _with_context(target: Callable[..., Any]) -> Callable[..., Any]:
    return lambda context, *rest: target(_context(context), *rest)


def _with_options(target: Callable[..., Any]) -> Callable[..., Any]:
    return lambda options, *rest: target(_options(options), *rest)


def _set_path(options: Any, path: Address) -> None:
    capi.BNNSGraphCompileOptionsSetOutputPath(_options(options), text_at(path))


def _get_tensor(context: Any, function: Address, argument: Address, fill: bool, tensor: Address) -> int:
    held = read_tensor(tensor)
    name = text_at(argument)
    status = capi.BNNSGraphContextGetTensor(_context(context), text_at(function), name, fill, held)
    if status == 0:
        write_tensor(tensor, held, held.data or 0, _name_in(context, text_at(function), name))
    return status


def _name_in(context: Any, function: str | None, name: str | None) -> int:
    """The address of the name of an argument, which the graph holds."""
    arguments = context.context.graph.function(function).arguments
    return int(context.address + next(each.at for each in arguments if each.name == name))


def _execute(
    context: Any, function: Address, count: int, arguments: Address, workspace_size: int, workspace: Address
) -> int:
    is_live = type(context) is behind.GraphContext and not context.destroyed
    if is_live and context.execute_again(function or 0, count, arguments or 0):
        return 0
    pairs = _pairs(arguments, count)
    tensors = getattr(context, "argument_type", 0) == capi.BNNSGraphArgumentTypeTensor
    given, name = None, text_at(function)
    running: Any = getattr(context, "context", None)  # which another thread may destroy meanwhile
    if pairs is not None:
        if tensors:
            given = [capi.bnns_graph_argument_t(tensor=read_tensor(first or None)) for first, _ in pairs]
        else:
            given = [capi.bnns_graph_argument_t(data_ptr=first or None, data_ptr_size=size) for first, size in pairs]
    status = capi.BNNSGraphContextExecute(_context(context), name, count, given, workspace_size, workspace)
    if status == 0 and given is not None and pairs is not None:
        expected = running.graph.function(name).arguments
        for i, ((first, size), argument) in enumerate(zip(pairs, given, strict=True)):
            if tensors:
                held = argument.tensor
                write_tensor(first, held, _address(held.data), context.address + expected[i].at)
            elif _address(argument.data_ptr) != first or argument.data_ptr_size != size:
                place = arguments + i * _PAIR.size  # type: ignore[operator]
                ctypes.memmove(place, _PAIR.pack(_address(argument.data_ptr), argument.data_ptr_size), _PAIR.size)
    return status


def _address(data: Any) -> int:
    if data is None:
        return 0
    return data if isinstance(data, int) else int(data.ctypes.data)


def dead_options() -> Any:
    """Options that have been destroyed."""
    options = behind.Options()
    options.destroyed = True
    return options


def dead_context() -> Any:
    """A context that has been destroyed."""
    context = behind.GraphContext.__new__(behind.GraphContext)
    context.destroyed = True
    context.messages = behind.Messages()
    return context


_NAMED = {"BNNSGraphGetInputNames", "BNNSGraphGetOutputNames", "BNNSGraphGetArgumentNames"}


def _specials() -> dict[str, Callable[..., Any]]:
    """The functions of BNNSGraph by their names: a few by hand, the others by the types of their parameters."""
    made: dict[str, Callable[..., Any]] = {
        "BNNSGraphCompileOptionsMakeDefault": _make_options,
        "BNNSGraphCompileOptionsSetMessageLogCallback": _log_compilation,
        "BNNSGraphCompileOptionsSetOutputPath": _set_path,
        "BNNSGraphCompileOptionsGetOutputPath": _get_path,
        "BNNSGraphCompileFromFile": _compile,
        "BNNSGraphGetFunctionNames": _names(capi.BNNSGraphGetFunctionNames, False),
        "BNNSGraphGetArgumentIntents": _intents,
        "BNNSGraphGetArgumentPosition": _position,
        "BNNSGraphGetArgumentInterleaveFactors": _interleave,
        "BNNSGraphTensorFillStrides": _fill_strides,
        "BNNSGraphContextMake": _make_context,
        "BNNSGraphContextMakeStreaming": _make_streaming,
        "BNNSGraphContextDestroy": _destroy_context,
        "BNNSGraphContextSetDynamicShapes": _set_shapes,
        "BNNSGraphContextExecute": _execute,
        "BNNSGraphContextGetTensor": _get_tensor,
        "BNNSGraphContextSetMessageLogCallback": _log_execution,
    }
    for name, _, parameters in FUNCTIONS:
        if not name.startswith("BNNSGraph") or name in made:
            continue
        target = getattr(capi, name)
        first = parameters[0][1]
        if name in _NAMED:
            made[name] = _names(target, True)
        elif name.endswith("AllocationCallback"):
            made[name] = _allocators(target)
        elif first == "bnns_graph_t":
            made[name] = _plain(target)
        elif first == "bnns_graph_compile_options_t":
            made[name] = _with_options(target)
        else:
            made[name] = _with_function(target) if parameters[1][1] == "char*" else _with_context(target)
    return made


SPECIAL = _specials()
