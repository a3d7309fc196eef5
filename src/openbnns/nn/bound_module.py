"""Calls of modules with arrays in tuples or dictionaries, by name, or with None between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..graph.structure import Structure, flatten
from ..graph.tensor import Array, Tensor
from .module import Module
from .nested_arrays import is_structure
from .tuple_results import Parts

_KEPT = 4  # calls of one module in different ways


class _Array:
    """A placeholder for an array among arguments."""


_ARRAY = _Array()


class BoundModule(Module):
    """A module with the arguments of one call, whose arrays are its inputs.

    The result is that of the module, or all parts of one that can be unpacked, such as an LSTM's.
    """

    def __init__(self, module: Module, arguments: list[Any], form: Structure, shapes: list[tuple[int, ...]]) -> None:
        super().__init__()
        self.module = module
        self._who = type(module).__name__
        self._arguments, self._form, self._shapes = arguments, form, shapes
        self.apart = False  # whether the result was unpacked

    def forward(self, *inputs: Tensor) -> Any:
        values = iter(inputs)
        given, named = self._form.fill(next(values) if x is _ARRAY else x for x in self._arguments)
        result = self.module(*given, **named)
        parts = tuple(result) if isinstance(result, Parts) else (result, None)
        self.apart = parts[1] is not None
        return parts if self.apart else parts[0]


def bind_arguments(
    module: Module, inputs: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[list[Array], BoundModule]:
    """The arrays among the arguments, and the call that they are the inputs of; calls of the same form and sizes are kept."""
    flat, form = _flattened([list(inputs), dict(named)])
    arrays = [x for x in flat if isinstance(x, np.ndarray)]
    if not arrays:
        raise TypeError(f"{type(module).__name__}: there is no array among its arguments. Pass at least one.")
    arguments = [_ARRAY if isinstance(x, np.ndarray) else x for x in flat]
    calls: list[BoundModule] = module._calls
    shapes = [x.shape[1:] for x in arrays]
    like = (c for c in calls if c._form == form and c._shapes == shapes and all(map(_same, c._arguments, arguments)))
    call = next(like, None) or BoundModule(module, arguments, form, shapes)
    module.__dict__["_calls"] = [*(c for c in calls if c is not call), call][
        -_KEPT:
    ]  # other threads may look through them
    call.training = module.training
    call._compute_like(module)
    return arrays, call


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and isinstance(one, (bool, int, float, str)) and one == other)


def _flattened(value: Any) -> tuple[list[Any], Structure]:
    """Like ``flatten``, but lists and tuples of numbers are arrays."""
    given, named = value
    flat, form = flatten([[_prepared(x) for x in given], {name: _prepared(x) for name, x in named.items()}])
    return flat, form


def _prepared(x: Any) -> Any:
    if is_structure(x):
        return {k: _prepared(v) for k, v in x.items()} if isinstance(x, Mapping) else tuple(map(_prepared, x))
    if isinstance(x, np.bool_):
        return bool(x)
    return x if x is None or isinstance(x, (bool, str, int, float)) else np.asarray(x)
