"""Several operations under the name of a function, until a pass or a file takes them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..declared import COMPOSITES
from ..operation import Operation
from ..tensor import Tensor


class Composite(Operation):
    """A function that is declared by its meaning: it is recorded at once, beside the graph, and takes the place of the name
    as soon as something other than the name is needed. Shapes, element types and guards are those of the meaning.
    """

    is_pure = True

    def __init__(self, name: str, operands: Sequence[Any], attributes: Sequence[tuple[str, Any]] = ()) -> None:
        self.name, self.attributes = name, dict(attributes)
        inputs = [x for x in operands if isinstance(x, Tensor)]
        graph = inputs[0].graph
        around, graph.operations = graph.operations, []
        try:
            self.result: Tensor = COMPOSITES[name](*operands, **self.attributes)
            self.inner = graph.operations
        finally:
            graph.operations = around
        parameters = [p for operation in self.inner for p in operation.parameters]
        super().__init__(inputs, Tensor(graph, self.result.shape, self.result.dtype), parameters)

    def taken_apart(self) -> list[Operation]:
        self.output.source = self.result
        return [part for operation in self.inner for part in operation.taken_apart()]
