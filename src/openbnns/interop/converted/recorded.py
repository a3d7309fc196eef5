"""Steps of a program from elsewhere as a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...graph.graph import current_graph
from ...graph.parameter import Parameter
from ...graph.sizes import AnySize, FreeSizes, Size, is_same
from ...graph.tensor import Array
from ...nn.containers import ForeignPart
from ...nn.recording import Recording, Shapes, recording_of
from .programs import Body, Port, as_value, free_sizes
from .samples import Fixed, NotProven, Samples
from .tensors import ForeignTensor


class Choice(NamedTuple):
    """The choice of a class that a program makes of scores: the classes, and the names of its outputs."""

    classes: Sequence[str | int]
    label: str
    probabilities: str


class Recorded(ForeignPart):
    """A network whose ``forward`` runs the steps of a program. It is recorded once for all sizes that its steps allow.

    ``weights`` are parameters, and arrays that are saved with them, by name. Axis 0 of inputs is free under one name if
    ``batch`` is the number that the program was written for; ``fixed`` tells why it is not, if it could be. ``results`` are the
    names of the outputs, if it says them.
    """

    def __init__(
        self, title: str, ports: Sequence[Port], body: Body, weights: Mapping[str, Parameter | Array],
        batch: int | None = None, results: Sequence[str] = (), fixed: Fixed | None = None,
    ) -> None:  # fmt: skip
        super().__init__(title)
        self._fixed = fixed
        if fixed is not None and fixed.number == 1:
            self._most_samples, self._why_few = 1, str(fixed)
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
        freed: Mapping[int, Size] = {}
        if self._batch is not None and "N" in graph.sizes.numbers:
            size = graph.sizes.size("N")
            freed = Samples(graph, self._batch, size, {x: 0 for x in inputs if x.shape and is_same(x.shape[0], size)})
        values = [as_value(x) for x in self._body(held, freed)]
        reason = freed.unproven(values) if isinstance(freed, Samples) else None
        if reason is not None:
            raise NotProven(reason)
        return values[0] if len(values) == 1 else tuple(values)

    def record(self, *shapes: tuple[int, ...]) -> None:
        """Record the steps for inputs of these shapes, in inference mode; raises what a step raises that cannot be."""
        recording_of(self, False, shapes)

    def _with_free_sizes(self, shapes: Shapes, free: FreeSizes) -> list[Sequence[AnySize]]:
        for port, shape in zip(self._ports, shapes, strict=True):
            declared = port.shape if port.shape is None or self._batch is None else (None, *port.shape[1:])
            if declared is not None and not _fits(shape, declared):
                shown = f"({', '.join('?' if n is None else str(n) for n in declared)})"
                cure = f" {self._fixed}" if self._fixed is not None else ""
                raise ValueError(
                    f"{self._kind}: input {port.name!r} has shape {shape}, but the program takes {shown}.{cure}"
                )
        return free_sizes(self._ports, self._batch, shapes, free)

    def _misfit(self, built: Recording, shapes: Shapes, error: Exception) -> str:
        return str(error) if self._fixed is not None else super()._misfit(built, shapes, error)

    def _input_array(self, x: Any, index: int) -> Array:
        array = np.asarray(x)
        return array if array.ndim == 0 and array.dtype.kind in "fiub" else super()._input_array(x, index)


def _fits(shape: Sequence[int], declared: Sequence[int | None]) -> bool:
    pairs = zip(shape, declared, strict=False)
    return len(shape) == len(declared) and all(m is None or n == m for n, m in pairs)
