"""Graphs that C and Swift programs describe operation by operation: the builder of ``openbnns.graph`` behind the library."""

from __future__ import annotations

import ctypes
import inspect
import json
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..abi.structs import bnns_graph_compile_options_t
from ..capi.graph_objects import DATA_TYPES, MAXIMUM_RANK, Options, block_allocator, options_of, reported
from ..errors import Problem, succeeded
from ..interop.coreml.builder import Builder, Tensor
from ..interop.coreml.compiled import checked_program, compiled
from ..interop.coreml.elements import ELEMENTS
from .graphs import allocated, mapped, read_tensor, text_at, write_graph, write_tensor
from .reading import Address

_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "remainder": operator.mod, "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt,
    "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge, "and": operator.and_,
    "or": operator.or_, "xor": operator.xor, "not": operator.invert,
}  # fmt: skip
_METHODS = {
    name: member for name, member in vars(Tensor).items() if inspect.isfunction(member) and not name.startswith("_")
}
_TYPES = {int(number): ELEMENTS[name].numpy for name, number in DATA_TYPES.items()}
"""Element types by their numbers in C."""
_MOST_OUTPUTS = 1 << 16


class GraphBuilder:
    """A builder with the tensors that have been made, in order."""

    def __init__(self) -> None:
        self.builder, self.destroyed = Builder(), False
        self.tensors: list[Tensor] = []

    def add(self, text: str, data: Address, size: int) -> int:
        """Add an operation and return the number of its first result."""
        operation = json.loads(text)
        if not isinstance(operation, dict) or not isinstance(operation.get("operation"), str):
            raise ValueError(f'an operation is an object in JSON whose "operation" is its name, not {text[:80]}.')
        name = operation["operation"]
        try:
            arguments = {key: self._argument(key, value) for key, value in operation.get("arguments", {}).items()}
            if "tensor" in operation:
                found = self._of_tensor(name, self.tensor(operation["tensor"]), arguments)
            elif name == "constant":
                found = self._constant(data, size, **arguments)
            elif name in ("argument", "concatenate"):
                found = getattr(self.builder, name)(**arguments)
            else:
                raise ValueError(f"{name!r} needs a tensor that it belongs to, or does not exist.")
        except (ValueError, TypeError, IndexError) as error:
            raise ValueError(f"{name}: {error}") from error
        except KeyError as key:
            raise ValueError(f"{name}: {key} is missing among the arguments.") from key
        first = len(self.tensors)
        self.tensors += found if isinstance(found, tuple) else (found,)
        return first

    def _of_tensor(self, name: str, tensor: Tensor, arguments: dict[str, Any]) -> Any:
        if name in ("slice", "slice_update"):
            place = _place(arguments["place"])
            return tensor[place] if name == "slice" else self.builder.with_update(tensor, place, arguments["update"])
        if name == "cast":
            return tensor.cast(arguments["data_type"])
        found = _OPERATORS.get(name) or _METHODS.get(name)
        if found is None:
            raise ValueError(
                "there is no such operation. bnns.h lists the operators; others are methods of graph.Tensor."
            )
        return found(tensor, *arguments.values()) if name in _OPERATORS else found(tensor, **arguments)

    def _constant(
        self, data: Address, size: int, data_type: np.dtype[Any], shape: list[int], name: str | None = None
    ) -> Tensor:
        values = np.frombuffer(b"" if data is None else ctypes.string_at(data, size), data_type)
        if values.size != np.prod(shape, dtype=np.int64):
            raise ValueError(f"{size} bytes are {values.size} elements of {data_type}, but the shape is {shape}.")
        return self.builder.constant_of(values.reshape(shape), name)

    def _argument(self, name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [self._argument(name, each) for each in value]
        if isinstance(value, dict) and "tensor" in value:
            return self.tensor(value["tensor"])
        return _data_type(value) if name == "data_type" else value

    def tensor(self, number: int) -> Tensor:
        """The tensor of a number."""
        if not 0 <= number < len(self.tensors):
            raise ValueError(f"there is no tensor {number}. This builder has made {len(self.tensors)}.")
        return self.tensors[number]


def _data_type(number: int) -> np.dtype[Any]:
    if number not in _TYPES:
        raise ValueError(f"graphs have no elements of the type {number:#x}. They have {', '.join(DATA_TYPES)}.")
    return _TYPES[number]


def _place(parts: list[Any]) -> tuple[Any, ...]:
    """The place of a slice as Python writes it; the first "fill" takes all axes that are left."""
    place: list[Any] = []
    for part in parts:
        if part == "fill":
            place.append(slice(None) if Ellipsis in place else Ellipsis)
        elif isinstance(part, dict):
            place.append(slice(part.get("start"), part.get("stop"), part.get("step")))
        else:
            place.append(part)
    return tuple(place)


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
        return succeeded(live.add(text, data, size))
    return -1


def _get_tensor(builder: GraphBuilder | None, number: int, address: Address) -> int:
    who = "openbnns_graph_builder_get_tensor"
    with reported(who):
        live = _live(builder, who)
        if address is None:
            raise Problem(f"{who}: tensor is NULL. Pass the address of a BNNSTensor.")
        tensor = live.tensor(number)
        if tensor.rank > MAXIMUM_RANK:
            raise Problem(f"{who}: tensor {number} has {tensor.rank} axes. A BNNSTensor has {MAXIMUM_RANK} at most.")
        held = read_tensor(address)
        held.data_type, held.rank = DATA_TYPES[tensor.element], tensor.rank
        held.shape, held.stride = list(tensor.shape), list(tensor.stride)
        write_tensor(address, held, held.data or 0, held.name or 0)
        return succeeded(0)
    return -1


def _compile(result: int, builder: GraphBuilder | None, count: int, outputs: Address, options: Any) -> None:
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
        program = live.builder.program([live.tensor(number) for number in numbers])
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
