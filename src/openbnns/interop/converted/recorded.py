"""Steps of a program from elsewhere as a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...graph.graph import current_graph
from ...graph.parameter import Parameter
from ...graph.sizes import AnySize, FreeSizes
from ...graph.tensor import Array
from ...nn.containers import ForeignPart
from ...nn.recording import Shapes, recording_of
from .programs import Body, Port, as_value, free_sizes
from .tensors import ForeignTensor


class Choice(NamedTuple):
    """The choice of a class that a program makes of scores: the classes, and the names of its outputs."""

    classes: Sequence[str | int]
    label: str
    probabilities: str


class Recorded(ForeignPart):
    """A network whose ``forward`` runs the steps of a program. It is recorded once for all sizes that its steps allow.

    ``weights`` are parameters, and arrays that are saved with them, by name. Axis 0 of inputs is free under one name if
    ``batch`` is the number that the program was written for. ``results`` are the names of the outputs, if it says them.
    """

    def __init__(
        self, title: str, ports: Sequence[Port], body: Body, weights: Mapping[str, Parameter | Array],
        batch: int | None = None, results: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(title)
        self._ports, self._body, self._batch, self._results = list(ports), body, batch, list(results)
        self._choice: Choice | None = None  # what the program did with the results, which are scores then
        for name, held in weights.items():
            self.place(name, held)

    def forward(self, *inputs: Any) -> Any:
        graph = current_graph()
        assert graph is not None
        held = {}
        for port, value in zip(self._ports, inputs, strict=True):
            if port.kind != "f":
                value.as_indices(port.name)
            held[port.name] = ForeignTensor(value, port.kind)
        freed = {} if self._batch is None or "N" not in graph.sizes.numbers else {self._batch: graph.sizes.size("N")}
        values = [as_value(x) for x in self._body(held, freed)]
        return values[0] if len(values) == 1 else tuple(values)

    def record(self, *shapes: tuple[int, ...]) -> None:
        """Record the steps for inputs of these shapes, in inference mode; raises what a step raises that cannot be."""
        recording_of(self, False, shapes)

    def _with_free_sizes(self, shapes: Shapes, free: FreeSizes) -> list[Sequence[AnySize]]:
        return free_sizes(self._ports, self._batch, shapes, free)

    def _input_array(self, x: Any, index: int) -> Array:
        array = np.asarray(x)
        return array if array.ndim == 0 and array.dtype.kind in "fiub" else super()._input_array(x, index)
