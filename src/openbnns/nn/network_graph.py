"""The graph of a network, with its modules, parameters and arrays and the modes they are in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph.graph import Graph
from ..graph.parameter import Parameter
from ..graph.tensor import Array

if TYPE_CHECKING:
    from .module import Module


class NetworkGraph(Graph):
    """The graph that ``forward`` of a network is recorded in; ``modes`` are the modules in another mode than the graph."""

    def __init__(
        self,
        generator: np.random.RandomState,
        parts: Iterable[Module],
        *,
        frozen: bool,
        training: bool,
        modes: frozenset[Module],
    ) -> None:
        super().__init__(generator, frozen=frozen, training=training)
        self.parts = set(parts)  # the modules of the network, whose parameters are trained and saved
        self.modes = modes
        self.asked_for_mode = False  # True once ``forward`` has read a mode: it may do something else in the other one

    def mode_of(self, module: Any) -> bool:
        """The mode of a module, for ``forward`` to know: true in training."""
        self.asked_for_mode = True
        return self.training != (self._part(module) in self.modes)

    @property
    def own_mode(self) -> bool | None:
        """The mode of the module being called, if that is not the mode of the network; else None."""
        return not self.training if self.modes and self._part() in self.modes else None

    def _part(self, module: Module | None = None) -> Module | None:
        """The module, or the one being called, if it is a part of the network; else the innermost part that calls it."""
        called = [*self.modules, *([] if module is None else [module])]
        return next((one for one in reversed(called) if one in self.parts), None)

    def require_parts(self, module: Any) -> None:
        strays = [part for part in module.modules() if part not in self.parts and part._has_state()]
        if strays:
            raise TypeError(_describe_stray(strays[0], module, self.modules))

    def require_own(self, parameter: Parameter) -> None:
        if not any(parameter is own for part in self.parts for own in part._parameters.values()):
            raise TypeError(_describe_parameter(parameter, self.modules))

    def held_arrays(self) -> Iterable[Array]:
        return (array for part in self.parts for array in vars(part).values() if isinstance(array, np.ndarray))


# Modules that a network runs without knowing of them: their parameters would be neither trained nor saved.

_DEPTH = 3  # how far lists in lists are looked through


def _describe_stray(stray: Module, called: Module, callers: Sequence[Module]) -> str:
    """A message on a module that the network does not hold. ``callers`` are the modules whose forward runs, outermost first.

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


def _describe_parameter(parameter: Parameter, callers: Sequence[Module]) -> str:
    """A message on a parameter that an expression uses and no module holds."""
    who = type(callers[-1]).__name__ if callers else "The network"
    return (
        f"{who}.forward uses {parameter!r}, which no module of the network holds, so it would be neither trained nor saved. Make "
        "it in __init__ and keep it as an attribute: self.scale = nn.Parameter(...)."
    )


def _holds(value: Any, wanted: set[Module], depth: int) -> bool:
    """True if a list, tuple, set or dictionary, nested or not, holds one of these modules."""
    if not isinstance(value, (list, tuple, set, frozenset, Mapping)) or not depth:
        return False
    entries: Iterable[Any] = value.values() if isinstance(value, Mapping) else value
    return any(any(entry is module for module in wanted) or _holds(entry, wanted, depth - 1) for entry in entries)
