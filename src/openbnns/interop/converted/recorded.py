"""Steps of a program from elsewhere as a network: recorded on tensors by name, or computed at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...graph.graph import Graph, current_graph, recording
from ...graph.parameter import Parameter
from ...graph.program import Program
from ...graph.sizes import AnySize, FreeSizes, Size
from ...graph.tensor import Array, Tensor
from ...nn.containers import ForeignPart
from ...nn.recording import Shapes, recording_of
from .tensors import ForeignTensor

Body = Callable[[dict[str, ForeignTensor], Mapping[int, Size]], list[ForeignTensor]]
"""The steps: the results, from inputs by name; and free sizes by the number that a file has in their place."""


class Port(NamedTuple):
    """An input: ``kind`` is "f", "i" or "b" as in :class:`ForeignTensor`, and a size is a number, or None if it is free."""

    name: str
    kind: str
    shape: tuple[int | None, ...] | None


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
        values = [_as_value(x) for x in self._body(held, freed)]
        return values[0] if len(values) == 1 else tuple(values)

    def record(self, *shapes: tuple[int, ...]) -> None:
        """Record the steps for inputs of these shapes, in inference mode; raises what a step raises that cannot be."""
        recording_of(self, False, shapes)

    def computed(self, arrays: Sequence[Array], *, lent: bool = False) -> list[Array]:
        """The results for arrays in inference mode; with ``lent``, the next call overwrites them."""
        return self._infer(arrays, lent=lent)[1]

    def _with_free_sizes(self, shapes: Shapes, free: FreeSizes) -> list[Sequence[AnySize]]:
        """The shapes of inputs with free sizes in place of the numbers that the program leaves open."""
        all_sizes: list[Sequence[AnySize]] = []
        for port, shape in zip(self._ports, shapes, strict=True):
            sizes: list[AnySize] = []
            for axis, number in enumerate(shape):
                batch = axis == 0 and self._batch is not None
                is_free = port.shape is not None and (port.shape[axis] is None or batch)
                name = "N" if batch and free.numbers.get("N", number) == number else f"{port.name}_{axis}"
                if not is_free or number == 0:
                    sizes.append(number)
                    continue
                free.numbers[name] = number
                sizes.append(free.size(name))
            all_sizes.append(sizes)
        return all_sizes

    def _input_array(self, x: Any, index: int) -> Array:
        array = np.asarray(x)
        return array if array.ndim == 0 and array.dtype.kind in "fiub" else super()._input_array(x, index)


def _as_value(x: ForeignTensor) -> Tensor:
    return x.numbers if x.kind == "f" else x.value


def computed_at_once(body: Callable[[], list[ForeignTensor]]) -> list[Array]:
    """The results of steps on constants, without a network around them; whole numbers and masks may be float32."""
    graph = Graph(np.random.RandomState(0))
    with recording(graph):
        results = body()
        values = [None if x.constant else _as_value(x) for x in results]
    recorded = [value for value in values if value is not None]
    computed: list[Array] = []
    if recorded:
        graph.finish(recorded)
        program = Program(graph, {}, training=False)
        program.forward()
        computed = [array.copy() for array in program.outputs]
    arrays = iter(computed)
    return [x.held if value is None else next(arrays) for x, value in zip(results, values, strict=True)]
