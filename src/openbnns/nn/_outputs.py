"""Matching of the arrays of data to the inputs and outputs of a network."""

from __future__ import annotations

from collections.abc import Iterator

from ..graph.structure import Structure
from .module import Module
from .nested_arrays import Key, Step, as_key
from .recording import recording_of


def arrange(network: Module, keys: list[Key], who: str) -> list[int]:
    """The positions of the parts of samples, in the order in which ``forward`` takes them."""
    if any(isinstance(key, tuple) for key in keys):
        raise ValueError(
            f"{who}: x has structures inside each other. Pass an array, or one tuple or dictionary of arrays."
        )
    if not isinstance(keys[0], str):
        return list(range(len(keys)))
    try:
        return network._in_order((), {str(key): i for i, key in enumerate(keys)})
    except TypeError as error:
        raise TypeError(f"{who}: x has parts {', '.join(map(repr, keys))}, which do not fit. {error}") from None


def output_keys(network: Module) -> list[Key]:
    """The keys of what the network gives in training."""
    return [as_key(path) for path in _paths(recording_of(network, True).structure, ())]


def _paths(structure: Structure, path: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    if structure.kind is None:
        yield path
    for step, part in zip(structure.names or range(len(structure.parts)), structure.parts, strict=True):
        yield from _paths(part, (*path, step))


def check_targets(targets: list[Key], wanted: list[Key], who: str, why: str = "the network gives") -> list[int]:
    """The positions of the parts of targets, in the order of the outputs they are for."""
    if len(targets) != len(wanted) or set(map(str, targets)) != set(map(str, wanted)):
        cure = "Pass one target for each output." if why == "the network gives" else "Pass the same."
        raise ValueError(f"{who}: y is {_described(targets)}, but {why} {_described(wanted)}. {cure}")
    return [targets.index(key) for key in wanted]


def _described(keys: list[Key]) -> str:
    if keys == [None] or not keys:
        return "one array" if keys else "left out"
    if any(isinstance(key, tuple) for key in keys):
        return f"a structure with {', '.join(map(repr, keys))}"
    if isinstance(keys[0], str):
        return f"a dictionary with {', '.join(map(repr, keys))}"
    return f"a tuple of {len(keys)}"
