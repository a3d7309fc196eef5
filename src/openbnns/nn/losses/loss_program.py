"""Losses as programs on arrays of others: outputs are read, and their gradients written, where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...graph.program import Program
from ...graph.tensor import FLOAT32, Array
from ..module import Module
from ..recording import recording_of


class LossProgram:
    """A loss on fixed arrays of outputs and their gradients, recorded for targets of these shapes.

    Outputs that are taken for whole numbers, or are not contiguous, have memory of their own in the program, and are copied.
    """

    def __init__(
        self,
        network: Module,
        outputs: Sequence[Array],
        gradients: Sequence[Array | None],
        targets: Sequence[Array],
    ) -> None:
        self._outputs, self._gradients = outputs, gradients
        shapes = tuple(array.shape for array in (*outputs, *targets))
        recording = recording_of(network, True, shapes)
        graph, sizes = recording.graph, recording.sizes_of(shapes)
        assert sizes is not None
        outside: list[tuple[Array, Array | None] | None] = []
        self._copied = []
        for i, (value, output) in enumerate(zip(graph.inputs, outputs, strict=False)):
            lies = value.dtype == FLOAT32 == output.dtype and output.flags.c_contiguous
            outside.append((output, gradients[i]) if lies else None)
            if not lies:
                self._copied.append(i)
        # Targets have no gradients.
        wanted = [i for i, gradient in enumerate(gradients) if gradient is not None]
        self._program = Program(graph, sizes, training=bool(wanted), input_gradients=wanted, outside=outside)

    def shape_of_target(self, i: int) -> tuple[int, ...]:
        """The shape that a target was recorded with."""
        return self._program.inputs[len(self._outputs) + i].shape

    def take(self, i: int, target: Array) -> None:
        """Read a target of the next batch."""
        self._program.fill(len(self._outputs) + i, target)

    def forward(self) -> Any:
        """The loss of the outputs."""
        for i in self._copied:
            self._program.fill(i, self._outputs[i])
        return self._program.forward()

    def backward(self, factor: Any) -> None:
        """Write the gradients of the outputs, times a factor."""
        program = self._program
        if program.output_gradient is not None:
            program.output_gradient[...] = factor
            program.backward()
        for i in self._copied:
            gradient = self._gradients[i]
            if gradient is not None:
                given = program.input_gradients[i] if program.input_gradients else None
                np.copyto(gradient, 0 if given is None else given)
