"""The entry point of the C library: its functions, and the behaviour when there is nothing to call."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from .. import __version__, engines
from .._words import Caller
from ..capi import numbers
from ..errors import Problem, last_error, out_of_memory, record, succeeded
from ..filters.base import Filter
from .functions import Functions
from .layouts import FUNCTIONS

__all__ = ["fail", "functions", "last_error", "number", "refuse", "set_compat", "start", "tombstone", "version"]

version = __version__
functions = Functions()

_NOUNS = {
    "BNNSFilter": "filter",
    "BNNSRandomGenerator": "random generator",
    "BNNSNearestNeighbors": "store of neighbours",
    "bnns_graph_compile_options_t": "set of compile options",
    "bnns_graph_context_t": "context",
    "openbnns_graph_builder": "builder of graphs",
}


def refuse(number: int, position: int, value: int) -> None:
    """Keep the message of a call with an invalid handle."""
    name, _, parameters = FUNCTIONS[number]
    parameter, c_type = parameters[position]
    record(
        Problem(
            f"{name}: {parameter} is {value:#x}, which is not a {_NOUNS[c_type]} of this library. Pass what its creation "
            "call returned."
        )
    )


def fail(number: int, error: BaseException) -> None:
    """Keep the message of a call that ended with an exception: the wrong kind of handle, or a bug in OpenBNNS."""
    name = FUNCTIONS[number][0]
    if isinstance(error, MemoryError):
        record(out_of_memory(name))
    elif isinstance(error, (Problem, TypeError, ValueError)):
        record(Problem(str(error)))
    else:
        record(Problem(f"{name}: failed with {type(error).__name__}: {error}. Report this as a bug in OpenBNNS."))


def _dead_filter() -> Any:
    filter = Filter(None, Caller(""))
    filter.destroy()
    return filter


def _dead_generator() -> Any:
    from ..filters.random_numbers import RandomGenerator

    generator = RandomGenerator(0, 0, None, Caller(""))
    generator.destroy()
    return generator


def _dead_store() -> Any:
    from ..capi import BNNSDataTypeFloat32
    from ..filters.nearest_neighbors import NearestNeighbors

    store = NearestNeighbors(1, 1, 1, BNNSDataTypeFloat32, None, Caller(""))
    store.destroy()
    return store


def _dead_options() -> Any:
    from .graphs import dead_options

    return dead_options()


def _dead_context() -> Any:
    from .graphs import dead_context

    return dead_context()


def _dead_builder() -> Any:
    from .graph_builders import dead_builder

    return dead_builder()


_MAKE_DEAD: dict[str, Callable[[], Any]] = {
    "h": _dead_filter, "g": _dead_generator, "n": _dead_store, "o": _dead_options, "c": _dead_context,
    "r": _dead_builder,
}  # fmt: skip


def tombstone(kind: str) -> Any:
    """A destroyed object, passed in place of every handle of its kind that is no longer valid: calls report that."""
    return _MAKE_DEAD[kind]()


def number(function: int, filter: Any) -> int:
    """The number by which the library runs a function, on a filter or alone, without Python: core/bindings/raw.h."""
    name = FUNCTIONS[function][0]
    if name == "BNNSGraphContextExecute":
        return numbers.of_context(filter)
    return numbers.of_function(name) if filter is None else numbers.of_filter(name, filter)


def set_compat(names: str) -> int:
    """0, or -1 with a message for names that do not exist; see :func:`openbnns.compat.use`."""
    from .. import compat

    try:
        compat.check(names, f"openbnns_set_compat: names is {names!r}")
    except ValueError as error:
        return record(Problem(str(error)))
    compat.use(names)
    return succeeded(0)


def start(own_interpreter: bool) -> None:
    """Called once, before anything else; ``own_interpreter``: the library has started Python itself."""
    if own_interpreter:
        engines._core.set_main_thread(0)  # SIGINT belongs to the host program
    if os.environ.get("OPENBNNS_LOG", "") not in ("", "0"):  # a C program has no other way to see why calls fail
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("openbnns: %(message)s"))
        logger = logging.getLogger("openbnns")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
