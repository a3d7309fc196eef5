"""Graphs as they were recorded, for the sizes that they serve, and the programs that run them."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from .. import engines
from .graph import Graph
from .inference import for_inference
from .memory import Arena
from .parameter import version_of
from .program import Program
from .segments import SegmentedProgram, is_segmented
from .sizes import Size
from .structure import Structure

_SomeGraph = TypeVar("_SomeGraph", bound=Graph)
Shapes = tuple[tuple[int, ...], ...]
"""The shapes of all inputs of a recording."""
ProgramKey = tuple[Shapes, bool, bool, tuple[bool, ...]]
"""Shapes of the inputs, training, gradients of the inputs, and for each parameter whether it requires a gradient."""

_SIZES = 4  # sizes of inputs whose programs for inference are kept, however large they are
_IDLE = max(8, 2 * (os.cpu_count() or 1))  # programs of one size that are kept while they do not run
IDLE_BYTES = 32 << 20  # the same for more shapes: a decoder meets one more step of its past at every call
_MOST_SHAPES = 128  # and so many of a recording


class Recording(Generic[_SomeGraph]):
    """A graph as recorded, with the structure of its results; ``version`` is that of what was recorded, such as a network.

    Programs for inference are lent: a call takes one, computes in its memory, and gives it back. So threads compute side by
    side, each in memory of its own. Those that stay with one user, for training, are in ``programs``.

    ``again`` records the graph anew for other numbers that runs compute, if sizes depend on such, and for the shapes of the run.
    """

    def __init__(
        self,
        graph: _SomeGraph,
        structure: Structure,
        *,
        version: object,
        arithmetic: engines.Arithmetic,
        again: Callable[[list[int], Shapes], Graph],
    ) -> None:
        self.graph, self.structure, self.version, self.arithmetic = graph, structure, version, arithmetic
        self._again, self._others = again, list[Graph]()  # for other numbers that runs compute
        self._inference_graph: _SomeGraph | None = None
        self.programs: OrderedDict[ProgramKey, Program] = OrderedDict()
        self._idle: OrderedDict[Shapes, list[Program]] = OrderedDict()  # the latest at the end
        # The version of the parameters that native code knows, and its number there.
        self._known_weights: tuple[tuple[int, int], int] | None = None

    @property
    def inference_graph(self) -> _SomeGraph:
        """The graph of programs for inference, with the same inputs, outputs and parameters."""
        if self._inference_graph is None:
            self._inference_graph = for_inference(self.graph)
        return self._inference_graph

    def weights_version(self) -> int:
        """The version of the parameters, for native code (``CallList.run``); 0 while writes to them cannot be seen."""
        if engines._core is None:
            return 0
        version = version_of(self.graph.parameters)
        if version is None:
            return 0
        known = self._known_weights
        if known is None or known[0] != version:
            known = self._known_weights = version, engines._core.new_weights_version()
        return known[1]

    def sizes_of(self, shapes: Shapes) -> dict[str, int] | None:
        """The free sizes for inputs of these shapes; None if the recording is not for them."""
        sizes: dict[str, int] = {}
        if len(shapes) != len(self.graph.inputs):
            return None
        for value, shape in zip(self.graph.inputs, shapes, strict=True):
            if len(shape) != value.ndim:
                return None
            for size, number in zip(value.shape, shape, strict=True):
                known = sizes.setdefault(str(size), number) if isinstance(size, Size) else size
                if known != number:
                    return None
        return None if self.graph.sizes.failing(sizes) else sizes

    def latest_shapes(self) -> Shapes:
        """The shapes of the inputs of the latest run for inference, or of the run that was recorded."""
        numbers = self.graph.sizes.numbers
        return next(reversed(self._idle), None) or tuple(value.concrete(numbers) for value in self.graph.inputs)

    def kept(self, key: ProgramKey) -> Program | None:
        """The program for (shapes, training, gradients of the inputs, trained parameters), if there is one."""
        program = self.programs.pop(key, None)
        if program is not None:
            self.programs[key] = program  # the latest
        return program

    def make(self, key: ProgramKey, arena: Arena) -> Program:
        """A program that ``kept`` gives from here on."""
        shapes, training, input_gradients, _ = key
        sizes = self.sizes_of(shapes)
        assert sizes is not None
        shared = arena if training else None
        program = self._program(sizes, training=training, input_gradients=input_gradients, arena=shared)
        self.programs[key] = program
        return program

    def forget(self, keep: int) -> int:
        """Drop all programs for training but the latest ones, and return how many are left."""
        while len(self.programs) > keep:
            self.programs.popitem(last=False)
        return len(self.programs)

    def forget_idle(self, keep: int, budget: int) -> tuple[int, int]:
        """Drop programs for inference, those of the oldest shapes first; returns how many shapes are left, and their bytes.

        The latest ``keep`` shapes stay, and more as long as the programs of all take at most ``budget`` bytes.
        """
        taken = {shapes: sum(program.kept_bytes for program in lent) for shapes, lent in self._idle.items()}
        total = sum(taken.values())
        for shapes, count in taken.items():
            if len(self._idle) <= keep or (len(self._idle) <= _MOST_SHAPES and total <= budget):
                break
            del self._idle[shapes]
            total -= count
        return len(self._idle), total

    def idle(self, shapes: Shapes) -> Program | None:
        """An idle program for inference, for the caller alone until it is given back; None if there is none."""
        try:
            self._idle.move_to_end(shapes)
            return self._idle[shapes].pop()
        except (KeyError, IndexError):
            return None

    def lend(self, shapes: Shapes) -> Program:
        """The same, made now if there is none."""
        program = self.idle(shapes)
        if program is None:
            sizes = self.sizes_of(shapes)
            assert sizes is not None, "a recording is found by the shapes that it serves"
            program = self._program(sizes, training=False)
        return program

    def _program(self, sizes: dict[str, int], **options: Any) -> Program:
        if not is_segmented(self.graph):
            return Program(self.graph if options["training"] else self.inference_graph, sizes, **options)
        options.pop("arena", None)
        made: Any = SegmentedProgram(self.graph, sizes, again=self._again, others=self._others, **options)
        return made  # type: ignore[no-any-return]

    def give_back(self, program: Program) -> None:
        """Return a lent program once its results have been copied. One that has failed is not returned."""
        shapes = program.shapes
        idle = self._idle.get(shapes)
        if idle is None:
            self._idle.setdefault(shapes, []).append(program)
            self.forget_idle(_SIZES, IDLE_BYTES)
        elif len(idle) < _IDLE:
            idle.append(program)
