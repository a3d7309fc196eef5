"""Several operations under the name of a function, until a pass or a file takes them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..declared import COMPOSITES, OPERAND_KINDS
from ..operation import Operation
from ..tensor import FLOAT32, Tensor


class Composite(Operation):
    """A function that is declared by its meaning in other functions.

    The meaning is recorded at once, beside the graph, and takes this operation's place as soon as more than the name is
    needed. Shapes, element types and guards are those of the meaning.
    """

    is_pure = True

    def __init__(self, name: str, operands: Sequence[Tensor], attributes: Sequence[tuple[str, Any]] = ()) -> None:
        self.name, self.attributes = name, dict(attributes)
        self._require_operands(operands)
        graph = operands[0].graph
        around, graph.operations = graph.operations, []
        try:
            self.result: Tensor = COMPOSITES[name](*operands, **self.attributes)
            self.inner = graph.operations
        finally:
            graph.operations = around
        parameters = [p for operation in self.inner for p in operation.parameters]
        super().__init__(operands, Tensor(graph, self.result.shape, self.result.dtype), parameters)

    def _require_operands(self, operands: Sequence[Any]) -> None:
        if self.name not in COMPOSITES:
            raise ValueError(f"there is no function {self.name!r:.60} that is made of others")
        count = sum(hint in OPERAND_KINDS for hint in COMPOSITES[self.name].__annotations__.values())
        if len(operands) != count or not all(isinstance(x, Tensor) and x.dtype == FLOAT32 for x in operands):
            raise ValueError(f"{self.name}: takes {count} tensors of float32, not {operands!r:.80}.")

    def taken_apart(self) -> list[Operation]:
        self.output.source = self.result
        return [part for operation in self.inner for part in operation.taken_apart()]
