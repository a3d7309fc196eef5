"""The losses of a trainer and their factors, from the arguments that users pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import losses
from .arguments import choose
from .losses import Loss
from .nested_arrays import Key, Step, as_key


def read_losses(given: Any, who: str = "Trainer") -> tuple[list[Key], list[Loss]]:
    """The losses of the outputs and their keys."""
    found = dict(_entries(given, ()))
    if not found:
        raise ValueError(f"{who}: loss is empty. Pass one loss for each output of the network.")
    made: list[Loss] = [
        losses.FunctionLoss(value)
        if callable(value) and not isinstance(value, (Loss, type))
        else choose(value, losses.NAMED, Loss, f"{who}: loss")
        for value in found.values()
    ]
    for loss in made:
        if getattr(loss, "reduction", "mean") == "none":
            raise ValueError(
                f"{who}: {loss!r} does not give a single number to train on. Use reduction='mean' or 'sum'."
            )
    return list(found), made


def read_shares(given: Any, keys: list[Key], who: str = "Trainer") -> list[float]:
    """The factors of the losses of the outputs."""
    if given is None:
        return [1.0] * len(keys)
    found = dict(_entries(given.tolist() if hasattr(given, "tolist") else given, ()))
    if set(found) != set(keys) or keys == [None]:
        raise ValueError(
            f"{who}: loss_weights are {given!r}, but the losses are of {listed(keys)}. Pass one number for each."
        )
    shares = [float(found[key]) for key in keys]
    if not all(0 <= share < np.inf for share in shares):
        raise ValueError(f"{who}: loss_weights are {given!r}. They must be finite and at least 0.")
    return shares


def _entries(given: Any, path: tuple[Step, ...]) -> Iterator[tuple[Key, Any]]:
    """The members of nested tuples, lists and dictionaries, with their keys."""
    if not isinstance(given, (Mapping, tuple, list)):
        yield as_key(path), given
        return
    for step, member in given.items() if isinstance(given, Mapping) else enumerate(given):
        yield from _entries(member, (*path, step))


def listed(keys: Sequence[Key]) -> str:
    """Outputs in words."""
    return "one output" if list(keys) == [None] else f"outputs {', '.join(map(repr, keys))}"
