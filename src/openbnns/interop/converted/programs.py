"""Steps of a program from elsewhere, recorded on tensors by name: run for the sizes that they meet, or computed at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ... import engines
from ...graph.graph import Graph, recording
from ...graph.parameter import making
from ...graph.program import Program
from ...graph.recordings import Recording, Shapes
from ...graph.sizes import AnySize, FreeSizes, Size
from ...graph.structure import flatten
from ...graph.tensor import FLOAT32, INT64, Array, Tensor
from .tensors import ForeignTensor

Body = Callable[[dict[str, ForeignTensor], Mapping[int, Size]], list[ForeignTensor]]
"""The steps: the results, from inputs by name; and free sizes by the number that a file has in their place."""


_RECORDINGS = 16  # that are kept, for different sizes


class Port(NamedTuple):
    """An input: ``kind`` is "f", "i" or "b" as in :class:`ForeignTensor`, and a size is a number, or None if it is free."""

    name: str
    kind: str
    shape: tuple[int | None, ...] | None


def free_sizes(ports: Sequence[Port], batch: int | None, shapes: Shapes, free: FreeSizes) -> list[Sequence[AnySize]]:
    """The shapes of inputs with free sizes in place of the numbers that the program leaves open."""
    all_sizes: list[Sequence[AnySize]] = []
    for port, shape in zip(ports, shapes, strict=True):
        sizes: list[AnySize] = []
        for axis, number in enumerate(shape):
            of_batch = axis == 0 and batch is not None
            is_free = port.shape is not None and (port.shape[axis] is None or of_batch)
            name = "N" if of_batch and free.numbers.get("N", number) == number else f"{port.name}_{axis}"
            if not is_free or number == 0:
                sizes.append(number)
                continue
            free.numbers[name] = number
            sizes.append(free.size(name))
        all_sizes.append(sizes)
    return all_sizes


class LentProgram(NamedTuple):
    """A program that belongs to the caller until it is given back: its forward pass as native calls, on weights of a version.

    ``calls`` is None if a part of it needs Python.
    """

    inputs: list[Array]
    outputs: list[Array]
    calls: Any
    weights: int
    run: Callable[[], object]
    give_back: Callable[[], None]


class Programs:
    """Steps of a program as programs for the sizes of inputs that they meet, for inference; not a network."""

    def __init__(self, ports: Sequence[Port], body: Body) -> None:
        self._ports, self._body = list(ports), body
        self._recordings: list[Recording[Graph]] = []

    def computed(self, arrays: Sequence[Array], *, lent: bool = False) -> list[Array]:
        """The results for arrays; with ``lent``, the next call overwrites them."""
        shapes = tuple([x.shape for x in arrays])
        known = self._known(shapes)
        if known is None:
            with making:
                known = self._known(shapes) or self._recorded(shapes)
                self._recordings = [*self._recordings, known][-_RECORDINGS:]
        program = known.lend(shapes)
        for i, x in enumerate(arrays):
            program.fill(i, x)
        program.forward(known.weights_version())
        outputs = list(program.outputs) if lent else [array.copy() for array in program.outputs]
        known.give_back(program)
        return outputs

    def lend(self, shapes: Shapes) -> LentProgram | None:
        """The program that has computed results for such inputs; None if there is none with memory that stays."""
        known = self._known(shapes)
        if known is None:
            return None
        program, weights = known.lend(shapes), known.weights_version()

        def give_back() -> None:
            known.give_back(program)

        if isinstance(program, Program):
            arrays = program.inputs + program.outputs
            if all(array.dtype in (FLOAT32, INT64) and array.flags.c_contiguous for array in arrays):
                calls = program.native_calls(weights)
                run = partial(program.forward, weights)
                return LentProgram(program.inputs, program.outputs, calls, weights, run, give_back)
        give_back()
        return None

    def _known(self, shapes: Shapes) -> Recording[Graph] | None:
        now = engines.arithmetic()
        return next((r for r in self._recordings if r.arithmetic == now and r.sizes_of(shapes) is not None), None)

    def _recorded(self, shapes: Shapes) -> Recording[Graph]:
        arithmetic = engines.arithmetic()

        def record(numbers: Sequence[int] = (), met: Shapes = shapes) -> Graph:
            graph = Graph(np.random.RandomState(0))
            graph.known_numbers, graph.arithmetic = numbers, arithmetic
            sizes = free_sizes(self._ports, None, met, graph.sizes)
            with recording(graph):
                held = {
                    port.name: ForeignTensor(graph.input(shape, FLOAT32 if port.kind == "f" else INT64), port.kind)
                    for port, shape in zip(self._ports, sizes, strict=True)
                }
                graph.finish([as_value(x) for x in self._body(held, {})])
            return graph

        return Recording(record(), flatten(())[1], version=None, arithmetic=arithmetic, again=record)


def as_value(x: ForeignTensor) -> Tensor:
    return x.numbers if x.kind == "f" else x.value


def computed_at_once(body: Callable[[], list[ForeignTensor]]) -> list[Array]:
    """The results of steps on constants, without a network around them; whole numbers and masks may be float32."""
    graph = Graph(np.random.RandomState(0))
    with recording(graph):
        results = body()
        values = [None if x.constant else as_value(x) for x in results]
    recorded = [value for value in values if value is not None]
    computed: list[Array] = []
    if recorded:
        graph.finish(recorded)
        program = Program(graph, {}, training=False)
        program.forward()
        computed = [array.copy() for array in program.outputs]
    arrays = iter(computed)
    return [x.held if value is None else next(arrays) for x, value in zip(results, values, strict=True)]
