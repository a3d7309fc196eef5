"""Names of the steps, inputs and outputs of a network, after the modules and functions that users wrote."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..graph.operation import CalledFunction, Operation
from ..graph.sizes import Size
from ..graph.tensor import INT64
from .recording import recorded_graph

if TYPE_CHECKING:
    from .module import Module


class StepName(NamedTuple):
    """The path of a step, such as ``body.0`` or ``body.relu_1``, and what it computes: ``Linear``, ``relu``.

    A step that does the work of several layers has all of them: ``0, 1`` and ``Linear + ReLU``.
    """

    path: str
    kind: str


def is_of_library(kind: type) -> bool:
    """True for a layer of this package; the functions that it calls are not shown to users."""
    home = kind.__module__
    return home.startswith("openbnns.") and getattr(sys.modules[home], kind.__name__, None) is kind


def step_names(network: Module, operations: Sequence[Operation]) -> list[StepName]:
    """The name of every operation.

    A layer has its path. A function has the path of the module whose ``forward`` calls it, under its own name, with a number
    from the second call there on.
    """
    paths = {id(module): path for path, module in network.named_modules()}
    numbers: dict[tuple[str, str], dict[CalledFunction, int]] = {}
    names = []
    for operation in operations:
        steps: dict[StepName, None] = {}
        for module, function in zip(operation.modules, operation.functions, strict=True):
            path, kind = paths.get(id(module), ""), type(module).__name__
            if function is not None and (module._names_nodes or not is_of_library(type(module))):
                calls = numbers.setdefault((path, function.name), {})
                number = calls.setdefault(function, len(calls))
                name = f"{function.name}_{number}" if number else function.name
                path, kind = f"{path}.{name}" if path else name, function.name
            steps[StepName(path, kind)] = None
        kinds = " + ".join(step.kind for step in steps) or type(operation).__name__
        names.append(StepName(", ".join(step.path for step in steps), kinds))
    return names


def argument_names(network: Module, count: int) -> list[str]:
    """The names of a network's inputs: the arguments of ``forward``, or ``input`` if there is only one."""
    parameters = network._call_signature().parameters.values()
    names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    if count == 1 or len(names) < count:
        return ["input"] if count == 1 else [f"input_{i}" for i in range(count)]
    return names[:count]


class Port(NamedTuple):
    """An input or output; a size that is free is a text, and ``fixed`` says that numbers hold for one recording only."""

    name: str
    is_whole: bool
    shape: tuple[int | str, ...]
    fixed: bool = False


def input_names(network: Module) -> list[str]:
    """Names of the file that a network was read from, or of the arguments of ``forward``."""
    ports: Any = getattr(network, "_ports", None)
    if ports is not None:
        return [port.name for port in ports]
    return argument_names(network, len(recorded_graph(network).inputs))


def output_names(network: Module) -> list[str]:
    """Names of the file that a network was read from, or ``output``, ``output_1`` and so on."""
    count = len(recorded_graph(network).outputs)
    return list(getattr(network, "_results", None) or [f"output_{i}" if i else "output" for i in range(count)])


def inputs_of(network: Module) -> list[Port]:
    return _ports(network, input_names(network), recorded_graph(network).inputs)


def outputs_of(network: Module) -> list[Port]:
    return _ports(network, output_names(network), recorded_graph(network).outputs)


def _ports(network: Any, names: list[str], values: Any) -> list[Port]:
    fixed = {n for n, known in recorded_graph(network).sizes.without_guards().items() if isinstance(known, int)}
    return [
        Port(
            name,
            value.dtype == INT64,
            tuple(str(n) if isinstance(n, Size) else n for n in value.shape),
            bool(fixed),
        )
        for name, value in zip(names, values, strict=True)
    ]
