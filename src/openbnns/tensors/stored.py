"""Element types that kernels read and write as they are stored, so that no tensor is converted in Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import engines
from . import wide
from .descriptors import FLOAT32, View

if TYPE_CHECKING:
    from .. import _core
    from .operands import Operand, Parameter

# In the order of ElementType in core/common/element.h, with the formats of Python's buffers that hold them.
_FORMATS = {"Float32": "f", "Float16": "e", "BFloat16": "H", "Int8": "b", "UInt8": "B", "Int32": "il"}
_NUMBERS = {name: number for number, name in enumerate(_FORMATS)}

OPERANDS = frozenset({"Float32", "Float16", "BFloat16", "Int8", "UInt8"})
"""Types of the tensors that are multiplied."""

RESULTS = frozenset(_FORMATS)
"""Types of biases and results."""


def takes(multiplied: Iterable[View], others: Iterable[View]) -> bool:
    """True if kernels take these tensors, of which at least one is not float32, as they are stored."""
    multiplied, others = list(multiplied), list(others)
    return (
        any(view.element is not FLOAT32 for view in (*multiplied, *others))
        and all(view.element.name in OPERANDS for view in multiplied)
        and all(view.element.name in RESULTS for view in others)
        and not wide.active()
    )


def native_element(view: View | None) -> _core.Element:
    """The description of a tensor's elements for native code; the default one if the tensor is absent."""
    name = "Float32" if view is None else view.element.name
    scale, bias, before = (1.0, 0.0, False) if view is None else (view.scale, view.bias, view.bias_before_scale)
    return engines._core.Element(type=_NUMBERS[name], scale=scale, bias=bias, bias_before_scale=before)


def native_element_of(tensor: Operand | Parameter | None) -> _core.Element:
    """The same of an operand or a parameter, which is float32 for kernels unless they take it as it is stored."""
    return native_element(None if tensor is None or not tensor.stored else tensor.view)


def native_items(view: View) -> dict[str, Any]:
    """The same for the arguments of a native call."""
    if view.element is FLOAT32:
        return {}
    assert view.element.numpy is not None
    return {"item_formats": _FORMATS[view.element.name], "item_bytes": view.element.numpy.itemsize}


def native_uint8(scale: float, bias: float) -> _core.Element:
    """The description of unsigned bytes with this scale and bias."""
    return engines._core.Element(type=_NUMBERS["UInt8"], scale=scale, bias=bias, bias_before_scale=False)
