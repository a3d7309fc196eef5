"""Values put together: sums and concatenations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._graph import Array, Call, Graph, Operation, Value


class Add(Operation):
    """y = a + b; both gradients are dy."""

    keeps_inputs = False

    def __init__(self, graph: Graph, a: Value, b: Value) -> None:
        if a.shape != b.shape:
            raise ValueError(f"Add: values of shape {a.shape} and {b.shape} cannot be added. Bring them to one shape.")
        super().__init__([a, b], Value(graph, a.shape))

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        a, b = x
        return lambda: np.add(a, b, out=y)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        targets = [g for g in dx if g is not None]

        def call() -> None:
            for target in targets:
                np.copyto(target, dy)

        return call


class Concatenate(Operation):
    """Values side by side along an axis of the sample; each gradient is its part of dy."""

    keeps_inputs = False

    def __init__(self, graph: Graph, parts: Sequence[Value], axis: int) -> None:
        rank = len(parts[0].shape)
        if not -rank <= axis < rank:
            raise ValueError(f"Concatenate: axis {axis} is not one of the {rank} axes of a sample {parts[0].shape}.")
        axis %= rank
        others = {(*p.shape[:axis], *p.shape[axis + 1 :]) if len(p.shape) == rank else p.shape for p in parts}
        if len(others) != 1:
            shapes = ", ".join(str(p.shape) for p in parts)
            raise ValueError(f"Concatenate: samples of {shapes} differ in more than axis {axis}.")
        shape = list(parts[0].shape)
        shape[axis] = sum(p.shape[axis] for p in parts)
        self.axis = axis + 1
        super().__init__(parts, Value(graph, shape))

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        return lambda: np.concatenate(x, self.axis, out=y)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        ends = np.cumsum([part.shape[self.axis] for part in x])[:-1]
        pairs = [(g, p) for g, p in zip(dx, np.split(dy, ends, self.axis), strict=True) if g is not None]

        def call() -> None:
            for target, part in pairs:
                np.copyto(target, part)

        return call
