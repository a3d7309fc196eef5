"""Inputs and outputs of a network that is built: their names, kinds and shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..graph.sizes import Size
from ..graph.tensor import INT64
from .step_names import input_names as _argument_names

if TYPE_CHECKING:
    from .module import Module


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
    assert network._graph is not None
    return _argument_names(network, len(network._graph.inputs))


def output_names(network: Module) -> list[str]:
    """Names of the file that a network was read from, or ``output``, ``output_1`` and so on."""
    assert network._graph is not None
    count = len(network._graph.outputs)
    return list(getattr(network, "_results", None) or [f"output_{i}" if i else "output" for i in range(count)])


def inputs_of(network: Module) -> list[Port]:
    assert network._graph is not None
    return _ports(network, input_names(network), network._graph.inputs)


def outputs_of(network: Module) -> list[Port]:
    assert network._graph is not None
    return _ports(network, output_names(network), network._graph.outputs)


def _ports(network: Any, names: list[str], values: Any) -> list[Port]:
    fixed = {n for n, known in network._graph.sizes.without_guards().items() if isinstance(known, int)}
    return [
        Port(
            name,
            value.dtype == INT64,
            tuple(str(n) if isinstance(n, Size) else n for n in value.shape),
            bool(fixed),
        )
        for name, value in zip(names, values, strict=True)
    ]
