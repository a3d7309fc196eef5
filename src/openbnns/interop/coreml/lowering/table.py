"""The table of operations that can be recorded, and the arguments of its functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....graph.sizes import Size
from ...converted.tensors import ForeignTensor, Misfit
from ...onnx.apply import apply
from ..operation_rules import opset_number

Handler = Callable[..., Any]
"""A function of the call and the inputs of an operation by name: tensors, and settings in Python's terms (None if left out)."""

RECORDED: dict[str, Handler] = {}
"""By the name of the operation: functions that give a tensor, or a tuple of them."""


def operation(*names: str) -> Callable[[Handler], Handler]:
    """A decorator that registers a function in the table."""

    def decorate(handler: Handler) -> Handler:
        for name in names:
            assert name not in RECORDED, name
            RECORDED[name] = handler
        return handler

    return decorate


@dataclass(frozen=True)
class Call:
    """The context of an operation besides its inputs: its kind, opset and number of outputs, and sizes that are free although
    the program has a number for them."""

    kind: str
    opset: str
    outputs: int = 1
    freed: Mapping[int, Size] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """17 for ios17."""
        return opset_number(self.opset)

    def onnx(self, op: str, *tensors: ForeignTensor | None, **options: Any) -> Any:
        """The results of the equivalent operator of ONNX."""
        return apply(op, *tensors, freed=self.freed, **options)


def whole(numbers: Any) -> ForeignTensor:
    """Whole numbers as a constant."""
    return ForeignTensor(np.asarray(numbers, np.int64))


def sizes_of(x: ForeignTensor, what: str) -> list[Any]:
    """The whole numbers of an input for sizes or positions; some may be free sizes."""
    if not x.constant:
        raise Misfit(f"{what} is computed")
    return [n if isinstance(n, Size) else int(n) for n in x.held.ravel()]
