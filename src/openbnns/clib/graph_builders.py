"""Graphs that C and Swift programs describe operation by operation: the builder of ``openbnns.graph`` behind the library."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from ..abi.structs import bnns_graph_compile_options_t
from ..capi.graph_objects import DATA_TYPES, MAXIMUM_RANK, Options, at_address, block_allocator, options_of, reported
from ..errors import Problem, succeeded
from .graphs import allocated, mapped, read_tensor, text_at, write_graph, write_tensor
from .reading import Address

_MOST_OUTPUTS = 1 << 16


class GraphBuilder:
    """The builder behind a handle."""

    def __init__(self) -> None:
        from ..interop.coreml.json_builder import JsonBuilder

        self.held, self.destroyed = JsonBuilder(), False


def _live(builder: GraphBuilder | None, who: str) -> GraphBuilder:
    if builder is None or builder.destroyed:
        state = "NULL" if builder is None else "destroyed"
        raise Problem(f"{who}: builder is {state}. Pass what openbnns_graph_builder_make returned.")
    return builder


def _add(builder: GraphBuilder | None, operation: Address, data: Address, size: int) -> int:
    who = "openbnns_graph_builder_add"
    with reported(who):
        live = _live(builder, who)
        text = text_at(operation)
        if text is None:
            raise Problem(f"{who}: operation is NULL. Pass an operation in JSON.")
        if size > sys.maxsize:
            raise Problem(f"{who}: data_size is {size}. Pass the bytes of a constant, or 0.")
        return succeeded(live.held.add(text, b"" if data is None else at_address(data, size)))
    return -1


def _get_tensor(builder: GraphBuilder | None, number: int, address: Address) -> int:
    who = "openbnns_graph_builder_get_tensor"
    with reported(who):
        live = _live(builder, who)
        if address is None:
            raise Problem(f"{who}: tensor is NULL. Pass the address of a BNNSTensor.")
        tensor = live.held.tensor(number)
        if tensor.rank > MAXIMUM_RANK:
            raise Problem(f"{who}: tensor {number} has {tensor.rank} axes. A BNNSTensor has {MAXIMUM_RANK} at most.")
        held = read_tensor(address)
        held.data_type, held.rank = DATA_TYPES[tensor.element], tensor.rank
        held.shape, held.stride = list(tensor.shape), list(tensor.stride)
        write_tensor(address, held, held.data or 0, held.name or 0)
        return succeeded(0)
    return -1


def _compile(result: int, builder: GraphBuilder | None, count: int, outputs: Address, options: Any) -> None:
    from ..interop.coreml.compiled import checked_program, compiled

    who = "openbnns_graph_builder_compile"
    held = Options()
    with reported(who, lambda: held.messages):
        held = options_of(bnns_graph_compile_options_t(options), who)
        live = _live(builder, who)
        if outputs is None or not 1 <= count <= _MOST_OUTPUTS:
            raise Problem(
                f"{who}: there are {0 if outputs is None else count} outputs. Pass 1 to {_MOST_OUTPUTS} tensors."
            )
        numbers = (ctypes.c_int64 * count).from_address(outputs)
        program = live.held.builder.program([live.held.tensor(number) for number in numbers])
        graph = checked_program(program, debug=held.debug)
        return write_graph(result, succeeded(compiled(graph, block_allocator(held, allocated, mapped)).obj))
    return write_graph(result, None)


def _destroy(builder: GraphBuilder | None) -> None:
    who = "openbnns_graph_builder_destroy"
    with reported(who, destroys=True):
        live = _live(builder, who)
        live.destroyed = True


def dead_builder() -> GraphBuilder:
    """A builder that has been destroyed."""
    builder = GraphBuilder()
    builder.destroyed = True
    return builder


SPECIAL: dict[str, Callable[..., Any]] = {
    "openbnns_graph_builder_make": lambda: succeeded(GraphBuilder()),
    "openbnns_graph_builder_add": _add,
    "openbnns_graph_builder_get_tensor": _get_tensor,
    "openbnns_graph_builder_compile": _compile,
    "openbnns_graph_builder_destroy": _destroy,
}
