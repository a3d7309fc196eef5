"""Functions of values applied to arrays, without a network around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..graph import Graph, recording
from ..parameter import Parameter
from ..program import Program
from ..seeds import next_seed
from ..structure import flatten


def run_at_once(body: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The result of a function on arrays."""
    everything, _ = flatten([list(given), dict(named)])
    _require_arrays(body, everything)
    return _ran(body, given, named, 0)


def created(body: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The result of a function that may draw random numbers, and needs no arrays."""
    return _ran(body, given, named, next_seed())


def _ran(body: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any], seed: int) -> Any:
    everything, form = flatten([list(given), dict(named)])
    arrays = iter(form.fill(_array(x) if _is_array(x) else x for x in everything))
    graph = Graph(np.random.RandomState(seed))
    with recording(graph):
        outputs, structure = flatten(body(*next(arrays), **next(arrays)))
    graph.finish(outputs)
    program = Program(graph, {}, training=False)
    program.forward()
    return structure.fill(array.copy() for array in program.outputs)


def _require_arrays(body: Callable[..., Any], given: Sequence[Any]) -> None:
    if not any(map(_is_array, given)):
        raise TypeError(
            f"{body.__name__}: there is no array among its arguments, and no network is being recorded. Pass arrays, or call it "
            "in forward() of a module."
        )


def _is_array(x: Any) -> bool:
    return isinstance(x, (np.ndarray, Parameter))


def _array(x: Any) -> Any:
    return x.data if isinstance(x, Parameter) else x
