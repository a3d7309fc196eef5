"""Executions of a context that native code repeats: wholly without Python, or around what only Python computes."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import engines
from .compiled import Argument, GraphProgram
from .elements import ELEMENTS, Array

if TYPE_CHECKING:
    from .context import Run
    from .execution import Repetition

_CONVERTED = {"fp32", "fp16", "bool", "int8", "uint8", "int16", "uint16", "int32", "int64"}
"""Types of arguments that native code converts."""

_MOST_AXES = 8

Shapes = dict[str, tuple[int, ...]]

_changing = threading.RLock()  # a context that is released while another one changes takes it again
if hasattr(os, "register_at_fork"):  # forks wait for it, so that no child inherits it locked
    os.register_at_fork(before=_changing.acquire, after_in_parent=_changing.release, after_in_child=_changing.release)


class Entry:
    """A function that is repeated for certain sizes."""

    def __init__(self, run: Run, shapes: Shapes, repetition: Repetition, call: Any, checks: bool) -> None:
        self.run, self.shapes, self.repetition, self.call, self.checks = run, shapes, repetition, call, checks
        self.calls: Any = None
        self.index = 0
        """Its place among the calls."""
        self.is_native = repetition.calls is not None
        arguments = run.signature.arguments
        self.inputs = {a.name: shapes[a.name] for a in arguments if a.intent != "out"}
        self.outputs = [
            (argument.name, shapes[argument.name], ELEMENTS[argument.element].numpy)
            for argument in arguments
            if argument.intent == "out"
        ]

    def has_shapes(self, inputs: Mapping[str, Any]) -> bool:
        """True if it is for inputs of these shapes."""
        if len(inputs) != len(self.inputs):
            return False
        for name, shape in self.inputs.items():
            if name not in inputs or getattr(inputs[name], "shape", None) != shape:
                return False
        return True


class NativeExecutions:
    """The executions of a context that native code repeats: of a few functions, with a few sizes each.

    Everything that Python decides at an execution is checked again: what was set before the context ran is known by the sizes,
    the options and the arithmetic that an entry was made for. Any other call, and any mistake, is left to Python.
    """

    def __init__(self, graph: GraphProgram, busy: Any) -> None:
        self._graph, self._busy = graph, busy
        self._address, self._data_types = 0, dict[str, int]()
        self._tensors = self._checks = self._ended = False
        self._calls: Any = None
        self._entries: list[Entry] = []
        self._begin()

    def describe_tensors(self, address: int, data_types: Mapping[str, int]) -> None:
        """Say where the graph lies in a C program, as names of tensors point into it, and what types of elements are called."""
        self._address, self._data_types = address, dict(data_types)

    def number(self, run: Run) -> int:
        """The number by which C programs repeat executions (core/bindings/raw.h) after ``run`` in Python; 0 if all need it."""
        self.entry_of(run)
        calls, entries = self._calls, self._entries
        return int(calls.number()) if any(entry.is_native for entry in entries) else 0

    def entry_of(self, run: Run) -> Entry | None:
        """The entry for a function that has run in Python, with its present sizes; None if there cannot be one."""
        entry = run.entry
        return entry if entry is not None and entry.call.is_current() else self._made(run)

    def execute_arguments(self, function: int, count: int, arguments: int) -> bool:
        """Execute on arguments as C has them, around what Python computes; False, with nothing written, if it has to look."""
        with _changing:
            calls, entries = self._calls, self._entries
        index = calls.take(function, count, arguments)
        if index < 0:
            return False
        entry = entries[index]
        try:
            entry.repetition.run()
        except Exception:  # such numbers, or sizes of outputs, may come again
            entry.run.give_up_repeating()
            entry.call.end()
            calls.drop()
            return False
        except BaseException:
            calls.drop()
            raise
        return bool(calls.give(index))

    def execute(
        self, run: Run, inputs: Mapping[str, Any], written: Mapping[str, Any] | None = None
    ) -> dict[str, Array] | None:
        """The outputs for arrays like those of a former execution; None, with nothing written, if Python has to look.

        They are new arrays but for those that are ``written``.
        """
        entry = run.entry
        if entry is None:
            return None
        inputs = run.with_own_states(inputs)
        if not entry.has_shapes(inputs):
            entry = next((known for known in self._entries if known.run is run and known.has_shapes(inputs)), None)
        if entry is None or not entry.is_native:
            return None
        outputs = {name: np.empty(shape, dtype) for name, shape, dtype in entry.outputs}
        if written:
            outputs.update(written)
        arrays = [*outputs.values(), *[inputs[name] for name in entry.inputs]]
        if not entry.calls.run(entry.index, arrays):
            return None
        if entry is not run.entry:
            run.follow(entry.shapes)
        return outputs

    def shapes_of(self, run: Run, inputs: Mapping[str, tuple[int, ...]]) -> Shapes | None:
        """The shapes of all arguments of a function whose inputs have had these before; None if they have not."""
        for entry in self._entries:
            if entry.run is run and entry.inputs == inputs:
                return entry.shapes
        return None

    def forget(self, run: Run) -> None:
        """End what was made for a function before something about it was set."""
        with _changing:
            for entry in self._entries:
                if entry.run is run:
                    entry.call.end()
            self._select(run)

    def select(self, run: Run) -> None:
        """Repeat executions for the sizes that a function has now, if there are such."""
        with _changing:
            self._select(run)

    def follow(self) -> None:
        """Set the sizes of the function that native code has executed last."""
        with _changing:
            latest = self._calls.latest()
            entry = self._entries[latest] if 0 <= latest < len(self._entries) else None
        if entry is not None and (self._tensors or entry.run.entry is entry):
            entry.run.follow(entry.shapes)  # memory has no sizes, and others may have been set since it was passed

    def check_values(self, check: bool) -> None:
        """Choose whether executions report values that are not finite."""
        self._checks = check
        self._take_options()

    def take_tensors(self, tensors: bool) -> None:
        """Choose whether C programs pass arguments as tensors."""
        self._tensors = tensors
        self._take_options()

    def end(self) -> None:
        """Wait for executions by number, and let no others begin."""
        with _changing:
            self._ended = True
            calls, entries, self._entries = self._calls, self._entries, []
            for entry in entries:
                entry.run.entry = None
        self._finish(calls, entries)

    def _begin(self) -> None:
        for entry in self._entries:
            entry.run.entry = None
        self._calls, self._entries = engines._core.GraphCalls(self._busy), []
        self._calls.set_options(self._tensors, self._checks)

    def _take_options(self) -> None:
        with _changing:
            self._calls.set_options(self._tensors, self._checks)
            for entry in self._entries:
                self._select(entry.run)

    @staticmethod
    def _finish(calls: Any, entries: list[Entry]) -> None:
        if calls.finish():  # else the programs stay with the thread that runs one of them
            for entry in entries:
                entry.repetition.end()

    def _select(self, run: Run) -> None:
        run.entry = None
        for entry in self._entries:
            if entry.run is run:
                selected = all(run.known_shapes.get(name) == shape for name, shape in entry.inputs.items())
                entry.call.set_selected(selected)
                if selected and entry.checks == self._checks and entry.call.is_current():
                    run.entry = entry

    def _made(self, run: Run) -> Entry | None:
        """A new entry, after an execution in Python."""
        if self._ended or not engines.is_native() or not engines.is_of_process() or not self._busy.acquire():
            return None
        try:
            arithmetic, checks = engines._core.arithmetic_count(), self._checks
            shapes = dict(run.known_shapes)
            repetition = run.repetition(checks)
            if repetition is None:
                return None
            try:
                call = self._call(run, shapes, repetition, arithmetic, checks)
            except ValueError:  # it has numbers that native code does not convert
                repetition.end()
                return None
        finally:
            self._busy.release()
        entry = Entry(run, shapes, repetition, call, checks)
        ended: list[tuple[Any, list[Entry]]] = []
        with _changing:
            if not self._ended:
                stale = any(not known.call.is_current() for known in self._entries)
                if stale or len(self._entries) == engines._core.most_graph_calls:
                    ended.append((self._calls, self._entries))
                    self._begin()
                entry.calls, entry.index = self._calls, len(self._entries)
                self._entries.append(entry)
                self._calls.add(call)
                self._select(run)
        for calls, entries in ended:
            self._finish(calls, entries)
        return run.entry

    def _call(self, run: Run, shapes: Shapes, repetition: Repetition, arithmetic: int, checks: bool) -> Any:
        """Native code that passes a function its arguments."""
        call = engines._core.GraphCall(
            repetition.calls, repetition.weights, repetition, arithmetic, os.fsencode(run.signature.name),
            run.signature is self._graph.function(None), checks,
        )  # fmt: skip
        fixed = [*repetition.outputs.values(), *(array for array, _ in repetition.checked)]  # which may be inputs
        fixed += [moved.value for moved in repetition.moved.values()]
        for argument in run.signature.arguments:
            source, target = repetition.inputs.get(argument.name), repetition.outputs.get(argument.name)
            held = target if source is None else source
            type = ELEMENTS[argument.element].numpy
            call.add_argument(
                type.char, list(shapes[argument.name]), argument.intent != "out", argument.intent != "in",
                _address(source), _address(target), type.char if held is None else held.dtype.char,
                source is not None and not any(np.may_share_memory(source, array) for array in fixed),
                *self._described(argument),
            )  # fmt: skip
            if argument.name in repetition.states:
                call.keep_state(_address(repetition.states[argument.name]))
            if argument.name in repetition.moved:
                value, axis, first = repetition.moved[argument.name]
                state = shapes[argument.name]
                call.add_ring(
                    _address(value),
                    math.prod(state[:axis]),
                    value.shape[axis],
                    state[axis],
                    math.prod(state[axis + 1 :]),
                    first,
                )
        for array, halved in repetition.checked:
            call.add_checked(_address(array), array.size, halved)
        return call

    def _described(self, argument: Argument) -> tuple[int, int]:
        """Fields of a BNNSTensor: the type of the elements, and where the name lies."""
        return (self._data_types[argument.element], self._address + argument.at) if self._address else (0, 0)


def can_be_passed(run: Run) -> bool:
    """True if all arguments are of types and sizes that native code knows."""
    shapes = run.known_shapes
    return all(
        argument.element in _CONVERTED and argument.name in shapes and len(shapes[argument.name]) <= _MOST_AXES
        for argument in run.signature.arguments
    )


def _address(array: Array | None) -> int:
    return 0 if array is None else int(array.ctypes.data)
