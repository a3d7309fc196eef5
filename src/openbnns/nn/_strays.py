"""Modules that a network runs without knowing of them: their parameters would be neither trained nor saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .module import Module
    from .parameter import Parameter

_DEPTH = 3  # how far lists in lists are looked through


def describe(stray: Module, called: Module, callers: Sequence[Module]) -> str:
    """Where a module comes from, and where it should be. ``callers`` are the modules whose forward runs, outermost first.

    ``called`` is the module that was called: the stray itself, or one that holds it.
    """
    what = type(stray).__name__
    harm = "so the network would run it, but neither train nor save its parameters."
    for caller in reversed(callers):
        who = type(caller).__name__
        for name, value in vars(caller).items():
            if name not in ("_children", "_parameters", "_buffers") and _holds(value, {stray, called}, _DEPTH):
                use = "nn.ModuleDict({...})" if isinstance(value, Mapping) else "nn.ModuleList([...])"
                if isinstance(value, (list, tuple, set, frozenset, Mapping)):
                    return (
                        f"{who}.{name} is a {type(value).__name__} that holds a {what}, {harm} Use self.{name} = {use}."
                    )
        if called in caller.children():
            return (
                f"{who}.forward puts a new {what} into the network each time it is recorded, {harm} Make it in __init__; sizes "
                "that are not known there may be left out."
            )
    who = type(callers[-1]).__name__ if callers else what
    return (
        f"{who}.forward runs a {what} that was made inside forward, or that is kept outside the network, {harm} Make it in "
        f"__init__ and keep it as an attribute: self.{what.lower()} = nn.{what}(...)."
    )


def describe_parameter(parameter: Parameter, callers: Sequence[Module]) -> str:
    """Where a parameter should be that an expression uses and no module holds."""
    who = type(callers[-1]).__name__ if callers else "The network"
    return (
        f"{who}.forward uses {parameter!r}, which no module of the network holds, so it would be neither trained nor saved. Make "
        "it in __init__ and keep it as an attribute: self.scale = nn.Parameter(...)."
    )


def _holds(value: Any, wanted: set[Module], depth: int) -> bool:
    """Whether a list, tuple, set or dictionary holds one of these modules, perhaps within further ones."""
    if not isinstance(value, (list, tuple, set, frozenset, Mapping)) or not depth:
        return False
    entries: Iterable[Any] = value.values() if isinstance(value, Mapping) else value
    return any(any(entry is module for module in wanted) or _holds(entry, wanted, depth - 1) for entry in entries)
