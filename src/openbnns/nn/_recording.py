"""A network as its ``forward`` was recorded, and the programs that run it."""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from .. import engines
from ._graph import Graph
from ._program import Program
from ._structure import Structure
from .parameter import version_of

if TYPE_CHECKING:
    from .module import Module

_SIZES = 4  # of batches for inference whose memory is kept at a time
_IDLE = max(8, 2 * (os.cpu_count() or 1))  # programs of one size that are kept while nobody runs them


class Recording:
    """A network as recorded, valid until one of its parts changes: ``version`` is the network's when ``forward`` ran.

    ``modes`` are the modules whose mode is not that of the pass. If there are none, and ``forward`` has not asked for a mode,
    one recording serves training and inference.

    Programs for inference are lent: a call takes one, computes in its memory, and gives it back. So threads compute side by
    side, each in memory of its own. Those that stay with one user, for training, are in ``programs``.
    """

    def __init__(self, graph: Graph, structure: Structure, *, version: object, accuracy: str) -> None:
        self.graph, self.structure, self.version, self.accuracy = graph, structure, version, accuracy
        self.programs: OrderedDict[tuple[Any, ...], Program] = OrderedDict()
        self._idle: OrderedDict[int, list[Program]] = OrderedDict()  # by size of batch, the latest at the end
        # The version of the parameters that native code knows, and its number there.
        self._known_weights: tuple[tuple[int, int], int] | None = None

    def serves(self, training: bool, modes: frozenset[Module]) -> bool:
        """True if ``forward`` does the same in such a pass."""
        graph = self.graph
        same = graph.training == training or not (graph.modes or graph.asked_for_mode)
        return same and graph.modes == modes

    def weights_version(self) -> int:
        """The version of the parameters, for native code (``Steps.run``); 0 while writes to them cannot be seen."""
        if engines._core is None:
            return 0
        version = version_of(self.graph.parameters)
        if version is None:
            return 0
        known = self._known_weights
        if known is None or known[0] != version:
            known = self._known_weights = version, engines._core.new_weights_version()
        return known[1]

    def kept(self, key: tuple[Any, ...], limit: int) -> Program:
        """The program for (batch size, training, gradients of the inputs, trained parameters); the latest ones are kept."""
        program = self.programs.pop(key, None)
        if program is None:
            batch, training, input_gradients, _ = key
            program = Program(self.graph, batch, training=training, input_gradients=input_gradients)
        self.programs[key] = program
        while len(self.programs) > limit:
            self.programs.popitem(last=False)
        return program

    def idle(self, batch: int) -> Program | None:
        """A program for inference that nobody else runs until it is given back, if there is one."""
        try:
            self._idle.move_to_end(batch)
            return self._idle[batch].pop()
        except (KeyError, IndexError):
            return None

    def lend(self, batch: int) -> Program:
        """The same, made now if there is none."""
        return self.idle(batch) or Program(self.graph, batch, training=False)

    def give_back(self, program: Program) -> None:
        """Let others run a program, whose results have been copied. One that has failed is not given back."""
        idle = self._idle.get(program.batch)
        if idle is None:
            idle = self._idle.setdefault(program.batch, [])
            while len(self._idle) > _SIZES:
                self._idle.popitem(last=False)
        if len(idle) < _IDLE:
            idle.append(program)
