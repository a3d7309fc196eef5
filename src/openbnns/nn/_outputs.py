"""Which array of the data is which input or output of a network."""

from __future__ import annotations

from ._parts import Key
from .module import Module


def arrange(network: Module, keys: list[Key], who: str) -> list[int]:
    """The positions of the parts of samples, in the order in which ``forward`` takes them."""
    if not isinstance(keys[0], str):
        return list(range(len(keys)))
    try:
        return network._in_order((), {str(key): i for i, key in enumerate(keys)})
    except TypeError as error:
        raise TypeError(f"{who}: x has parts {', '.join(map(repr, keys))}, which do not fit. {error}") from None


def output_keys(network: Module) -> list[Key]:
    """The keys of what the network gives."""
    structure = network._structure
    assert structure is not None
    if structure.kind is None:
        return [None]
    if any(part.kind is not None for part in structure.parts):
        raise ValueError(
            f"Trainer: {type(network).__name__}.forward gives {structure.describe()} with others inside. Give "
            "a tuple or a dictionary of values."
        )
    return list(structure.names) if structure.kind is dict else list(range(len(structure.parts)))


def check_targets(targets: list[Key], outputs: list[Key], who: str) -> list[int]:
    """The positions of the parts of targets, in the order of the outputs they are for."""
    if len(targets) != len(outputs) or set(map(str, targets)) != set(map(str, outputs)):
        raise ValueError(
            f"{who}: y is {_described(targets)}, but the network gives {_described(outputs)}. Pass one target for each output."
        )
    return [targets.index(key) for key in outputs]


def _described(keys: list[Key]) -> str:
    if keys == [None]:
        return "one array"
    if isinstance(keys[0], str):
        return f"a dictionary with {', '.join(map(repr, keys))}"
    return f"a tuple of {len(keys)}"
