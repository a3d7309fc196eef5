"""Choices between parts of a network: by a number that a run computes, or by the mode of the network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...tensors import wide
from ..calls import Calls, NestedCall, NumpyCall, clearing, copying
from ..graph import Graph
from ..operation import Operation
from ..program import Program
from ..tensor import FLOAT32, Array, Tensor


class Branch(Operation):
    """The outputs of ``graphs[0]`` where the first input is not 0, else of ``graphs[1]``; both have the other inputs.

    The graphs are closed, and finished with the graph around them. A branch is a program of its own. Gradients go through the
    branch that was taken.
    """

    takes_integers = True

    def __init__(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], graphs: Sequence[Graph]) -> None:
        self.graphs = list(graphs)
        parameters = dict.fromkeys(p for graph in graphs for p in graph.parameters)
        super().__init__(inputs, outputs, list(parameters))
        self._taken: dict[int, Any] = {}  # programs of forward passes to go back through, by where their results lie

    def prepare(self) -> None:
        for graph in self.graphs:
            graph.finish(graph.outputs)

    @property
    def random(self) -> bool:  # type: ignore[override]
        return any(operation.random for graph in self.graphs for operation in graph.operations)

    def reseed(self, seed: int, step: int, index: int) -> None:
        for graph in self.graphs:
            drawing = [operation for operation in graph.operations if operation.random]
            for number, operation in enumerate(drawing):
                operation.reseed(seed, step, 1000 * (index + 1) + number)

    def _programs(self, training: bool) -> Callable[[int], Any]:
        """Return the program of a branch by its number; it is made when the branch is first taken."""
        sizes = dict(self.bound_sizes)
        made: dict[int, Program] = {}

        def program(number: int) -> Program:
            if number not in made:
                numbers = [i for i, v in enumerate(self.graphs[number].inputs) if v.dtype == FLOAT32]
                made[number] = Program(
                    self.graphs[number], sizes, training=training, input_gradients=numbers if training else False
                )
            return made[number]

        if wide.active():  # only while the program around this one is made
            program(0), program(1)
        return program

    def forward_all(self, x: list[Array], y: list[Array], training: bool) -> Calls:
        program_of = self._programs(training)

        def call(weights: int = 0) -> None:
            program = program_of(0 if x[0].reshape(-1)[0] else 1)
            for target, given in zip(program.inputs, x[1:], strict=True):
                np.copyto(target, given.reshape(target.shape), casting="unsafe")
            program.forward(weights)
            for target, result in zip(y, program.outputs, strict=True):
                np.copyto(target, result.reshape(target.shape), casting="unsafe")
            if training:
                self._taken[y[0].ctypes.data] = program

        return NestedCall(call)

    def backward_all(
        self, x: list[Array], y: list[Array], dy: list[Array | None], dx: list[Array | None], dp: list[Array | None]
    ) -> Calls:
        def call() -> None:
            program = self._taken.pop(y[0].ctypes.data)
            shaped = zip(dy, program.outputs, strict=True)
            program.fill_gradients([None if g is None else g.reshape(result.shape) for g, result in shaped])
            # The program writes where parameters have their gradients, in which those of other operations may stand.
            before = [(p, p.grad.copy()) for p in program.trained]
            program.backward()
            for parameter, target in zip(self.parameters, dp, strict=True):
                if target is not None and parameter not in program.trained:
                    target.fill(0)
                elif target is not None and not np.shares_memory(target, parameter.grad):
                    np.copyto(target, parameter.grad)
            own = [array for array in dp if array is not None]
            for parameter, array in before:
                if not any(np.shares_memory(parameter.grad, target) for target in own):
                    np.copyto(parameter.grad, array)
            for target, gradient in zip(dx, [None, *program.input_gradients], strict=True):
                if target is not None and gradient is None:
                    target.fill(0)
                elif target is not None:
                    np.copyto(target, gradient.reshape(target.shape))

        return NumpyCall(call)


class Choice(Operation):
    """The first value in training, the second at inference."""

    keeps_inputs = False

    def __init__(self, training: Tensor, inference: Tensor) -> None:
        super().__init__([training, inference], Tensor(training.graph, training.shape))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        return copying(y, x[0] if training else x[1])

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        calls = [] if dx[0] is None else [copying(dx[0], dy)]
        return calls if dx[1] is None else [*calls, clearing(dx[1])]
