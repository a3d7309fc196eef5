"""The table of functions that can be converted."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....graph.tensor import Tensor
from ...converted.registry import Registry
from ...converted.tensors import ForeignTensor, Misfit
from .._steps import ByMode

_TABLE = Registry()

FUNCTIONS, GROUPS = _TABLE.handlers, _TABLE.groups
"""By name: ``relu`` stands for torch.relu and Tensor.relu, ``F.relu`` for torch.nn.functional.relu.

The arguments of a handler are those of PyTorch that are supported, under PyTorch's names. It gets tensors as
:class:`ForeignTensor` and returns what such a tensor holds, or a tensor, one for each result.
"""

operation, add = _TABLE.register, _TABLE.add


@dataclass(frozen=True)
class Call:
    """The name of a function that a handler is called for, and shapes and kinds of its results in PyTorch."""

    name: str
    shapes: tuple[tuple[Any, ...], ...]
    kinds: tuple[str, ...]

    @property
    def shape(self) -> tuple[Any, ...]:
        """That of the first result."""
        return self.shapes[0]


def plain(given: Any, what: str) -> Any:
    """An option that must be a number, or a size, and the same in both modes."""
    if isinstance(given, ByMode):
        raise Misfit(f"{what} is {given.training} in training and {given.evaluation} in evaluation")
    if isinstance(given, ForeignTensor):
        array = given.array
        if array.ndim:
            raise Misfit(f"{what} is a tensor. Use a number")
        return array.item()
    return given


def exact(call: Call, given: ForeignTensor) -> Tensor:
    """A value to compute with: of whole numbers where the result is one."""
    return given.whole if call.kinds[0] == "i" else given.numbers


def refuse_unless(what: str, given: Any, *allowed: Any) -> None:
    """Refuse an option that has no counterpart here."""
    if not any(given is value or given == value for value in allowed):
        raise Misfit(f"{what}={given!r} has no counterpart here")


def whole(given: ForeignTensor) -> Tensor:
    """Whole numbers that name entries."""
    if given.kind != "i":
        raise Misfit("an index must hold whole numbers; what depends on a mask is chosen with torch.where")
    return given.elements


def adapted(function: Callable[..., Any], **only: Any) -> Any:
    """A handler for a function here that has the arguments and the meaning of PyTorch's.

    ``only`` holds the options that it lacks, each with the one value that it may have.
    """
    signature = inspect.signature(function)

    def handler(call: Call, *args: Any, **named: Any) -> Any:
        for name, allowed in only.items():
            refuse_unless(name, named.pop(name, allowed), allowed)
        bound = signature.bind(*args, **named)
        given = {name: _argument(value, name) for name, value in bound.arguments.items() if value is not None}
        bound.arguments = given
        return function(*bound.args, **bound.kwargs)

    return handler


def _argument(given: Any, name: str) -> Any:
    """An argument as functions here take it."""
    if isinstance(given, (tuple, list)):
        return type(given)(_argument(part, name) for part in given)
    if isinstance(given, ForeignTensor):
        return whole(given) if name in ("index", "indices") else given.elements
    return plain(given, name)
