"""Graphs of operations on whole tensors: recorded once, bound to sizes, run as programs of native calls.

Contexts are BNNSGraph's: they compile ML programs and execute them.
"""

from typing import TYPE_CHECKING, Any

from . import functions as functions  # which enter themselves for the operators of tensors
from .calls import NumpyCall, PlanCall
from .graph import Graph
from .operation import Operation
from .program import Program
from .sizes import Size
from .tensor import Tensor

if TYPE_CHECKING:
    from ..interop.coreml.builder import Builder, make_context
    from ..interop.coreml.context import CompileOptions, Context

__all__ = [
    "Builder", "CompileOptions", "Context", "Graph", "NumpyCall", "Operation", "PlanCall", "Program", "Size", "Tensor",
    "make_context",
]  # fmt: skip

_OF_PROGRAMS = {"Builder": "builder", "CompileOptions": "context", "Context": "context", "make_context": "builder"}


def __getattr__(name: str) -> Any:
    """Names whose package stands above this one, which is loaded when they are first asked for."""
    if name not in _OF_PROGRAMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"openbnns.interop.coreml.{_OF_PROGRAMS[name]}"), name)
