"""Functions of tensors on arrays, outside of networks: recorded for one call, or run by a program that an earlier call kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import local
from typing import Any

import numpy as np

from ... import _strict, compat, engines
from ...tensors import wide
from ..graph import Graph, recording
from ..parameter import Parameter
from ..program import Program
from ..seeds import next_seed
from ..structure import Structure, flatten
from ..tensor import FLOAT32, INT64, Array


def run_at_once(body: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The result of a function on arrays, recorded for this call."""
    if not any(map(_is_array, flatten([list(given), dict(named)])[0])):
        raise TypeError(
            f"{body.__name__}: there is no array among its arguments, and no network is being recorded. Pass arrays, or call it "
            "in forward() of a module."
        )
    return _run(body, given, named, 0)


def run_without_arrays(body: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The result of a function that needs no arrays and may draw random numbers."""
    return _run(body, given, named, next_seed())


def _run(body: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any], seed: int) -> Any:
    everything, form = flatten([list(given), dict(named)])
    arrays = iter(form.fill(x.data if isinstance(x, Parameter) else x for x in everything))
    graph = Graph(np.random.RandomState(seed))
    with recording(graph):
        outputs, structure = flatten(body(*next(arrays), **next(arrays)))
    graph.finish(outputs)
    program = Program(graph, {}, training=False)
    program.forward()
    return structure.fill(array.copy() for array in program.outputs)


_MOST_PROGRAMS = 256
_MOST_BYTES = 16 << 20  # of the programs of a thread
_LARGEST = 1 << 20  # bytes of a program
_PLAIN = (int, float, bool, str, type(None))


class _Kept(local):
    """The programs that a thread keeps, by function, arguments and shapes of arrays, those used last at the end.

    None stands for arguments for which there can be no program.
    """

    def __init__(self) -> None:
        self.programs: dict[Any, tuple[Program, Structure] | None] = {}
        self.bytes = 0

    def put(self, key: Any, kept: tuple[Program, Structure] | None) -> None:
        """Keep a program; those that were not used for longest make room for it."""
        if key in self.programs:  # of a call within the call
            self.take(key)
        self.programs[key] = kept
        self.bytes += 0 if kept is None else kept[0].kept_bytes
        while len(self.programs) > _MOST_PROGRAMS or self.bytes > _MOST_BYTES:
            self.take(next(iter(self.programs)))

    def take(self, key: Any) -> tuple[Program, Structure] | None:
        """Take a program out, so that nothing else finds it while it runs."""
        kept = self.programs.pop(key, None)
        self.bytes -= 0 if kept is None else kept[0].kept_bytes
        return kept


_kept = _Kept()
_switches = [object()]  # another one after each change of a switch, which layers read when they are made


def _note_change() -> None:
    _switches[0] = object()


compat.on_change.append(_note_change)


def run_kept(body: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The result of a function on arrays, by a program that is kept for the next call with such arguments if there can be one."""
    arrays: list[Array] = []
    noted: list[Any] = [body, engines.arithmetic(), engines.current(), _switches[0], *named]
    for x in (*given, *named.values()):
        if not _note(x, noted, arrays):
            return run_at_once(body, given, named)
    if not arrays or wide.active() or _strict.active():
        return run_at_once(body, given, named)
    key = tuple(noted)
    kept = _kept.take(key) if key in _kept.programs else _program_for(body, given, named)
    outputs = None if kept is None else _run_on(kept[0], arrays)
    if kept is None or outputs is not None:
        _kept.put(key, kept)
    if kept is None or outputs is None:
        return run_at_once(body, given, named)  # a recording that knows the numbers explains what is wrong with them
    structure = kept[1]
    return outputs[0] if structure.kind is None else structure.fill(outputs)


def _run_on(program: Program, given: Sequence[Array]) -> list[Array] | None:
    """The results for these arrays; None if the program refuses their numbers, such as indices."""
    try:
        for target, x in zip(program.inputs, given, strict=True):
            target[...] = x
        program.forward()
    except Exception:
        return None
    return [array.copy() for array in program.outputs]


def _note(x: Any, noted: list[Any], arrays: list[Array]) -> bool:
    """Note what a program depends on; False for what it cannot depend on."""
    kind = type(x)
    if kind is np.ndarray and x.dtype.kind in "fiu" and x.dtype != np.uint64:  # some of which int64 does not hold
        arrays.append(x)
        noted += (x.shape, x.dtype.kind)
    elif kind in _PLAIN:
        exact = kind is not float or (x and x == x)  # -0.0 equals 0.0, and NaN does not equal itself
        noted += (kind, x if exact else repr(x))
    elif kind in (tuple, list):
        noted += (kind, len(x))
        return all(_note(part, noted, arrays) for part in x)
    else:
        return False
    return True


def _program_for(
    body: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Program, Structure] | None:
    """A program with inputs for the arrays; None if there is none, or if it could differ from one that knows their numbers."""
    graph = Graph(np.random.RandomState(0))
    everything, form = flatten([list(given), dict(named)])
    filled = iter(
        form.fill(
            graph.input(x.shape, FLOAT32 if x.dtype.kind == "f" else INT64) if isinstance(x, np.ndarray) else x
            for x in everything
        )
    )
    types = [x.dtype for x in graph.inputs]
    try:
        with recording(graph):
            outputs, structure = flatten(body(*next(filled), **next(filled)))
        graph.finish(outputs)
        if types != [x.dtype for x in graph.inputs] or any(step.random for step in graph.operations):
            return None
        program = Program(graph, {}, training=False)
    except Exception:  # which the run on numbers explains
        return None
    return (program, structure) if program.kept_bytes <= _LARGEST else None


def _is_array(x: Any) -> bool:
    return isinstance(x, (np.ndarray, Parameter))
