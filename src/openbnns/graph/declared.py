"""Operations that are declared once, by a typed function: its signature names the operands, its body computes the result.

The annotation of an operand says which numbers it holds:

* ``Joined``: integers if all joined operands are integers, otherwise all become float32, as in PyTorch;
* ``Integers``: integers, nothing else;
* ``Floats``: float32, which integers become;
* ``AnyType``: integers or float32, compared exactly;
* ``Mask``: not zero where something holds.

``Axes`` and ``Axis`` are attributes that name axes of the first operand.

Functions, methods of tensors, the form in files, folding of constants, arithmetic of integers and gradients follow from a
declaration. The decorators that declare functions are in ``functions/base.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .sizes import Size
from .tensor import FLOAT32, Tensor

Joined: TypeAlias = Any
Integers: TypeAlias = Any
Floats: TypeAlias = Any
AnyType: TypeAlias = Any
Mask: TypeAlias = Any
Axes: TypeAlias = Any
Axis: TypeAlias = Any

OPERAND_KINDS = {"Joined", "Integers", "Floats", "AnyType", "Mask"}


@dataclass(frozen=True, eq=False)
class Declaration:
    """All facts about an operation of declared operands, most of them elementwise."""

    name: str
    kinds: tuple[str, ...]
    """The annotations of the operands."""
    eval: Callable[..., Any]
    """The result in NumPy, from arrays of numbers, or of objects that hold free sizes, and the attributes."""
    kernel: Any = None
    """The function of a layer that computes the operation in float32."""
    native: str = ""
    """The name of the native function that computes it for integers and masks."""
    slopes: tuple[Callable[..., Any], ...] = ()
    """The derivative by each operand, from ``(y, *operands)``, where no layer computes gradients."""
    is_mask: bool = False
    """True if the result is 1 where something holds, else 0."""
    attributes: tuple[str, ...] = ()
    """The annotations of the attributes, which follow the operands."""
    infer: Callable[..., Any] | None = None
    """The shape of the result, from those of the operands and the attributes; the broadcast shape if left out."""
    in_floats: Callable[..., Tensor | None] | None = None
    """Record the operation in float32 where something serves better than a node, such as a line for a plain number; else None."""

    def is_whole(self, given: Sequence[Any]) -> bool:
        """True if the result for these operands is of integers."""
        return are_integers([x for x, kind in zip(given, self.kinds, strict=False) if kind in ("Joined", "Integers")])


OPERATIONS: dict[str, Declaration] = {}
"""Every declared operation by its name."""

COMPOSITES: dict[str, Callable[..., Any]] = {}
"""The meaning, in other functions, of every function that is declared by one."""


def declare(declaration: Declaration) -> Declaration:
    """Register an operation."""
    OPERATIONS[declaration.name] = declaration
    return declaration


def are_integers(given: Sequence[Any]) -> bool:
    """True if operands are joined as integers: some are, and the others are plain integers, sizes, booleans or masks."""
    return any(map(_is_of_integers, given)) and all(map(_joins_integers, given))


def _is_of_integers(x: Any) -> bool:
    if isinstance(x, Tensor):
        return x.dtype != FLOAT32
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "iu"


def _joins_integers(x: Any) -> bool:
    if isinstance(x, Tensor):
        return x.dtype != FLOAT32 or isinstance(x.leaf, Size) or x.is_mask
    if isinstance(x, (np.ndarray, np.generic)):
        return x.dtype.kind in "iub"
    return isinstance(x, (int, Size))


def is_number(given: Any) -> bool:
    """True for a plain number, which a network keeps as it is."""
    return isinstance(given, (int, float, np.floating, np.integer)) and not isinstance(given, Size)
