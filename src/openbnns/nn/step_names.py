"""Names of the steps of a network, after the modules and functions that users wrote."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..graph.operation import CalledFunction, Operation

if TYPE_CHECKING:
    from .module import Module


class Place(NamedTuple):
    """Where a step stands, such as ``body.0`` or ``body.relu_1``, and what it computes: ``Linear``, ``relu``.

    A step that does the work of several layers has all of them: ``0, 1`` and ``Linear + ReLU``.
    """

    path: str
    kind: str


def is_of_library(kind: type) -> bool:
    """True for a layer of this package; the functions that it calls are not shown to users."""
    home = kind.__module__
    return home.startswith("openbnns.") and getattr(sys.modules[home], kind.__name__, None) is kind


def places(network: Module, operations: Sequence[Operation]) -> list[Place]:
    """The place of every operation.

    A layer stands at its path. A function stands in the module whose ``forward`` calls it, under its own name, with a number
    from the second call there on.
    """
    paths = {id(module): path for path, module in network.named_modules()}
    numbers: dict[tuple[str, str], dict[CalledFunction, int]] = {}
    found = []
    for operation in operations:
        steps: dict[Place, None] = {}
        for module, function in zip(operation.modules, operation.functions, strict=True):
            path, kind = paths.get(id(module), ""), type(module).__name__
            if function is not None and (module._names_nodes or not is_of_library(type(module))):
                calls = numbers.setdefault((path, function.name), {})
                number = calls.setdefault(function, len(calls))
                name = f"{function.name}_{number}" if number else function.name
                path, kind = f"{path}.{name}" if path else name, function.name
            steps[Place(path, kind)] = None
        kinds = " + ".join(place.kind for place in steps) or type(operation).__name__
        found.append(Place(", ".join(place.path for place in steps), kinds))
    return found


def input_names(network: Module, count: int) -> list[str]:
    """The names of a network's inputs: the arguments of ``forward``, or ``input`` if there is only one."""
    parameters = network._call_signature().parameters.values()
    names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    if count == 1 or len(names) < count:
        return ["input"] if count == 1 else [f"input_{i}" for i in range(count)]
    return names[:count]
