"""The one table of functions that can be taken over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...converted.registry import Registry
from ...converted.tensors import Misfit, Tensor
from .._steps import ByMode

_TABLE = Registry()

FUNCTIONS, GROUPS = _TABLE.handlers, _TABLE.groups
"""By name: ``relu`` stands for torch.relu and Tensor.relu, ``F.relu`` for torch.nn.functional.relu.

The arguments of a handler are those of PyTorch that are supported, under PyTorch's names. It gets tensors as :class:`Tensor` and
gives what :class:`Tensor` holds, or such a tensor, one for each result.
"""

operation, add = _TABLE.register, _TABLE.add


@dataclass(frozen=True)
class Call:
    """What a handler knows besides the arguments: the name, and shapes and kinds of the results in PyTorch."""

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
    if isinstance(given, Tensor):
        array = given.array
        if array.ndim:
            raise Misfit(f"{what} is a tensor. Use a number")
        return array.item()
    return given


def refuse_unless(what: str, given: Any, *allowed: Any) -> None:
    """Refuse an option that has no counterpart here."""
    if not any(given is value or given == value for value in allowed):
        raise Misfit(f"{what}={given!r} has no counterpart here")
