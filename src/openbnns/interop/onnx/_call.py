"""The node, attributes and surroundings of an operator that is called on tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...graph.sizes import Size
from ...graph.tensor import Array
from ..converted.control import Steps
from ..converted.tensors import ForeignTensor, Misfit
from ._file import Graph, Node, Port


def as_declared(port: Port, x: Any) -> Any:
    """Whole numbers under the type that a graph declares for them; anything else as it is."""
    of_numbers = port.kind == "i" and isinstance(x, ForeignTensor)
    return x.under_type(np.dtype(port.whole_type)) if of_numbers else x


@dataclass(frozen=True)
class Call:
    """``freed`` are sizes that are free here though the file was written for one number, which may stand in shapes: by that
    number. ``cells`` are the weights of a node of recurrent cells. ``run`` records a graph of the node on tensors by name, of
    which those around it are in ``scope``; ``steps`` counts those of all loops."""

    node: Node
    opset: int
    freed: Mapping[int, Size] = field(default_factory=dict)
    cells: Any = None
    scope: Mapping[str, Any] = field(default_factory=dict)
    run: Callable[[Graph, Mapping[str, Any]], list[Any]] | None = None
    steps: Steps = field(default_factory=Steps)
    asked: set[str] = field(default_factory=set)
    """Attributes that were read; a node with others is refused, because they would be ignored."""

    @property
    def op(self) -> str:
        return self.node.op

    @property
    def outputs(self) -> int:
        """The number of outputs that are read, or may be."""
        return max((i + 1 for i, name in enumerate(self.node.outputs) if name), default=0)

    def has(self, name: str) -> bool:
        self.asked.add(name)
        return name in self.node.attributes

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute of any kind."""
        self.asked.add(name)
        return self.node.attributes.get(name, default)

    def ignored(self, *names: str) -> None:
        """Mark attributes as read that make no difference here."""
        self.asked.update(names)

    def require_all_asked(self) -> None:
        """Raise an error for attributes that were not read."""
        left = sorted(self.node.attributes.keys() - self.asked)
        if left:
            raise Misfit(f"its attribute {left[0]!r} has no counterpart here")

    def integer(self, name: str, default: int | None = None) -> int:
        value = self.attribute(name, default)
        if type(value) is not int:
            raise Misfit(f"{name} is {value!r}, but must be a whole number")
        return value

    def number(self, name: str, default: float) -> float:
        value = self.attribute(name, default)
        if not isinstance(value, (int, float)):
            raise Misfit(f"{name} is {value!r}, but must be a number")
        return float(value)

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        value = self.attribute(name, default)
        if not isinstance(value, (tuple, list)) or not all(type(n) is int for n in value):
            raise Misfit(f"{name} is {value!r}, but must be a list of whole numbers")
        return tuple(value)

    def optional_integers(self, name: str) -> list[int] | None:
        """An attribute of old versions that is an input in new ones."""
        return list(self.integers(name)) if self.has(name) else None

    def text(self, name: str, default: str) -> str:
        value = self.attribute(name, default)
        if not isinstance(value, str):
            raise Misfit(f"{name} is {value!r}, but must be a word")
        return value

    def graph(self, name: str) -> Graph:
        """An attribute that is a graph."""
        value = self.attribute(name)
        if not isinstance(value, Graph):
            raise Misfit(f"{name} is {value!r}, but must be a graph")
        return value

    def run_graph(
        self, graph: Graph, given: Sequence[Any] = (), scope: Mapping[str, Any] | None = None
    ) -> list[Any]:  # fmt: skip
        """The results of a graph of the node on these inputs, and on the tensors around it, or on others of these names."""
        assert self.run is not None
        if len(given) != len(graph.inputs):
            raise Misfit(f"a graph with {len(graph.inputs)} inputs is given {len(given)}")
        around = {name: (self.scope if scope is None else scope)[name] for name in graph.captured}
        return self.run(
            graph, around | {port.name: as_declared(port, x) for port, x in zip(graph.inputs, given, strict=True)}
        )

    def tensor(self, name: str) -> Array | None:
        value: Any = self.attribute(name)
        if value is not None and not hasattr(value, "dtype"):
            raise Misfit(f"{name} is {value!r}, but must be a tensor")
        return None if value is None else value

    def without(self, name: str) -> Call:
        """The same call without an attribute."""
        others = {key: value for key, value in self.node.attributes.items() if key != name}
        return replace(self, node=replace(self.node, attributes=others))

    def only(self, **allowed: Any) -> None:
        """Raise an error for attributes with other values than these, the only ones with a counterpart."""
        for name, value in allowed.items():
            given = self.attribute(name, value)
            if given != value:
                raise Misfit(f"{name}={given!r} has no counterpart here")
