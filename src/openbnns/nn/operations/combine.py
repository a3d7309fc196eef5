"""Values put together: sums and concatenations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._graph import Call, Graph, Operation
from .._value import Array, Value


class Add(Operation):
    """y = a + b; both gradients are dy."""

    keeps_inputs = False

    def __init__(self, graph: Graph, a: Value, b: Value) -> None:
        if a.sample != b.sample:
            raise ValueError(
                f"Add: values of shape {a.sample} and {b.sample} cannot be added. Bring them to one shape."
            )
        super().__init__([a, b], a.like(a.sample))

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
        rank = len(parts[0].sample)
        if not -rank <= axis < rank:
            raise ValueError(f"Concatenate: axis {axis} is not one of the {rank} axes of a sample {parts[0].sample}.")
        axis %= rank
        others = {(*p.sample[:axis], *p.sample[axis + 1 :]) if len(p.sample) == rank else p.sample for p in parts}
        if len(others) != 1:
            shapes = ", ".join(str(p.sample) for p in parts)
            raise ValueError(f"Concatenate: samples of {shapes} differ in more than axis {axis}.")
        shape = list(parts[0].sample)
        shape[axis] = sum(p.sample[axis] for p in parts)
        self.axis = axis + 1
        super().__init__(parts, parts[0].like(shape))

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        return lambda: np.concatenate(x, self.axis, out=y)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        ends = np.cumsum([part.shape[self.axis] for part in x])[:-1]
        pairs = [(g, p) for g, p in zip(dx, np.split(dy, ends, self.axis), strict=True) if g is not None]

        def call() -> None:
            for target, part in pairs:
                np.copyto(target, part)

        return call


class Slice(Operation):
    """One entry of the first axis of the sample; its gradient is dy there and zero elsewhere."""

    keeps_inputs = False

    def __init__(self, graph: Graph, x: Value, index: int) -> None:
        self.index = index
        super().__init__([x], x.like(x.sample[1:]))

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        return lambda: np.copyto(y, x[0][:, self.index])

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        target = dx[0]

        def call() -> None:
            if target is not None:
                target.fill(0)
                target[:, self.index] = dy

        return call
