"""The builder of graphs for programs in C and Swift: operations are written in JSON, and tensors are numbers."""

from __future__ import annotations

import inspect
import json
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ...capi.graph_objects import DATA_TYPES
from .builder import Builder, Tensor
from .elements import ELEMENTS

Buffer = bytes | npt.NDArray[np.uint8]

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


class JsonBuilder:
    """A builder with the tensors that have been made, in order."""

    def __init__(self) -> None:
        self.builder = Builder()
        self.tensors: list[Tensor] = []

    def add(self, text: str, data: Buffer) -> int:
        """Add an operation and return the number of its first result; ``data`` holds the elements of a constant."""
        operation = json.loads(text)
        if not isinstance(operation, dict) or not isinstance(operation.get("operation"), str):
            raise ValueError(f'an operation is an object in JSON whose "operation" is its name, not {text[:80]}.')
        name = operation["operation"]
        try:
            arguments = {key: self._argument(key, value) for key, value in operation.get("arguments", {}).items()}
            if "tensor" in operation:
                made = self._of_tensor(name, self.tensor(operation["tensor"]), arguments)
            elif name == "constant":
                made = self._constant(data, **arguments)
            elif name in ("argument", "concatenate"):
                made = getattr(self.builder, name)(**arguments)
            else:
                raise ValueError(f"{name!r} needs a tensor that it belongs to, or does not exist.")
        except (ValueError, TypeError, IndexError) as error:
            raise ValueError(f"{name}: {error}") from error
        except KeyError as key:
            raise ValueError(f"{name}: {key} is missing among the arguments.") from key
        first = len(self.tensors)
        self.tensors += made if isinstance(made, tuple) else (made,)
        return first

    def _of_tensor(self, name: str, tensor: Tensor, arguments: dict[str, Any]) -> Any:
        if name in ("slice", "slice_update"):
            place = _place(arguments["place"])
            return tensor[place] if name == "slice" else self.builder.with_update(tensor, place, arguments["update"])
        if name == "cast":
            return tensor.cast(arguments["data_type"])
        function = _OPERATORS.get(name) or _METHODS.get(name)
        if function is None:
            raise ValueError(
                "there is no such operation. bnns.h lists the operators; others are methods of graph.Tensor."
            )
        return function(tensor, *arguments.values()) if name in _OPERATORS else function(tensor, **arguments)

    def _constant(self, data: Buffer, data_type: np.dtype[Any], shape: list[int], name: str | None = None) -> Tensor:
        values = np.frombuffer(data, data_type)
        if values.size != np.prod(shape, dtype=np.int64):
            raise ValueError(
                f"{values.nbytes} bytes are {values.size} elements of {data_type}, but the shape is {shape}."
            )
        return self.builder.constant_of(values.reshape(shape).copy(), name)

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
