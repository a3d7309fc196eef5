"""A network as a table of layers, the form of model files: from a network, and back to one.

A layer is ``{"type": "Conv2d", "out_channels": 16, "kernel_size": 3}``: its class, and its arguments by name. Layers made of
layers hold them in lists. Saved networks use some more forms, which TOML cannot express or people do not write:

=====================================  ====================================================================
``{"same": "0.body"}``                 the module at that path once more, where one is used at several places
``{"activation": "elu", ...}``         an ``openbnns.ActivationFunction``
``{"functional": "gelu"}``             a function of ``nn.functional``
``names``                              of the modules of a ``Sequential``, if they are not numbers
=====================================  ====================================================================
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ... import ActivationFunction
from ..._spelling import nearest
from ...files import memory_limit
from ...files.checked_json import ModelError
from ...graph.parameter import Parameter
from ..arguments import arguments_by_name
from ..containers import Add, ForeignPart, Residual, Sequential
from ..layers import Concatenate
from ..module import Layer, Module

# Names, in tables, of arguments that layers take by position only.
_SIZES = {"Reshape": ("shape",)}
_UNUSABLE = ("Module", "ModuleList", "ModuleDict")
_FROM_ONNX = "OnnxNetwork"  # a network of nn.from_onnx, which is nodes rather than layers
_MOST_MODULES = 20_000
_DEEPEST = 100


class ParameterBudget:
    """The budget of memory for the parameters of a network that a few bytes describe, checked before they get values."""

    def __init__(self, source: str) -> None:
        self._source, self._bytes = source, 0

    def take(self, shape: tuple[int, ...], name: str) -> None:
        self._bytes += 4 * math.prod(shape)
        memory_limit.check(
            self._bytes, f"{self._source}: {name} of shape {shape}, with all parameters before it,", ModelError
        )


class CannotDescribe(ValueError):
    """A network that no table can describe; the message says why."""


class Rows(Layer):
    """Images as sequences of their rows: (C, H, W) -> (H, C W); sequences stay as they are."""

    def forward(self, *inputs: Any) -> Any:
        (x,) = inputs
        if x.ndim == 4 and x.shape[1] == 1:
            return x.reshape(x.shape[0], *x.shape[2:])
        if x.ndim != 3:
            raise ValueError(
                f"transformer: needs samples (length, features) or images of one channel, but gets {x.shape[1:]}."
            )
        return x


def _public_names() -> dict[str, Any]:
    from ... import nn

    return {name: getattr(nn, name) for name in nn.__all__}


@lru_cache(maxsize=1)
def layer_types() -> dict[str, type[Module]]:
    """Layers that a table may name."""
    names = _public_names()
    kinds = {name: kind for name, kind in names.items() if isinstance(kind, type)}
    usable = {name: kind for name, kind in kinds.items() if issubclass(kind, Module) and name not in _UNUSABLE}
    return {**usable, "Rows": Rows}


# Networks from ONNX, whose tables the room above writes and reads.


def _onnx_table(network: Any) -> dict[str, Any]:
    from ...interop.onnx.described import as_table

    return as_table(network)


def _onnx_network(table: dict[str, Any], where: str, largest: int) -> Module:
    from ...interop.onnx.described import network_of

    return network_of(table, where, largest)


# From a network.


def describe(module: Module) -> dict[str, Any]:
    """The table of a network; raises CannotDescribe if there is a class in it that is not one of ``nn``."""
    return _describe(module, "", {})


def _describe(module: Module, path: str, seen: dict[Module, str]) -> dict[str, Any]:
    name, where = type(module).__name__, path or "the network"
    if module in seen:
        return {"same": seen[module]}
    if type(module).__module__ == "openbnns.interop.onnx._network":
        seen[module] = path
        return {"type": _FROM_ONNX, **_onnx_table(module)}
    if isinstance(module, ForeignPart):
        raise CannotDescribe(f"{where} comes from PyTorch, whose forward a file cannot hold")
    if layer_types().get(name) is not type(module):
        raise CannotDescribe(f"{where} is a {name}, which is not a layer of openbnns.nn but a class of your own")
    seen[module] = path
    table: dict[str, Any] = {"type": name}

    def inner(child: str) -> dict[str, Any]:
        return _describe(module._children[child], f"{path}.{child}" if path else child, seen)

    if isinstance(module, Residual):
        table["body"] = [inner("body")]
        if module.shortcut is not None:
            table["shortcut"] = inner("shortcut")
        return table
    if isinstance(module, (Sequential, Add, Concatenate)):
        names = list(module._children)
        table["layers"] = [inner(child) for child in names]
        if names != [str(i) for i in range(len(names))]:
            table["names"] = names
        if isinstance(module, Concatenate):
            table["axis"] = module.axis
        return table
    given, named = module.__dict__.get("_made_with", ((), {}))
    defaults = _defaults(type(module))
    for argument, value in arguments_by_name(type(module).__init__, given, named).items():
        if argument.endswith("_init") or (argument in defaults and _equal(value, defaults[argument])):
            continue  # initial values are replaced by the weights
        table[argument] = _plain(value, f"{where}: {argument}")
    return table


def _equal(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and isinstance(one, (int, float, str, tuple)) and one == other)


def _defaults(kind: type[Module]) -> dict[str, Any]:
    parameters = inspect.signature(kind.__init__).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _plain(value: Any, where: str) -> Any:
    """An argument as JSON holds it."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, Module):
        return _describe(value, where, {})
    if isinstance(value, (tuple, list)):
        return [_plain(part, where) for part in value]
    if isinstance(value, ActivationFunction):
        numbers = {label: _plain(getattr(value, label), where) for label in value.labels}
        return {"activation": value.case, **numbers}
    if hasattr(value, "__index__"):
        return int(value.__index__())
    if isinstance(value, float) or hasattr(value, "dtype"):
        return float(value)
    name = getattr(value, "__name__", "")
    if callable(value) and _functions().get(name) is value:
        return {"functional": name}
    raise CannotDescribe(f"{where} is {value!r}, which a file cannot hold")


def _functions() -> dict[str, Any]:
    from .. import functional

    return {name: getattr(functional, name) for name in functional.__all__}


def parameters_of(network: Module) -> dict[str, Parameter]:
    """All parameters under each of their paths."""
    return {name: one for name, one in network.named_state() if isinstance(one, Parameter)}


# To a network.


class Maker:
    """A maker of networks from tables. ``outputs`` stands for "classes"; no number may be larger than ``largest``.

    Without weights that bound their sizes, parameters are held to a ``budget``.
    """

    def __init__(self, outputs: int = 0, largest: int = 2**31 - 1, budget: ParameterBudget | None = None) -> None:
        self.outputs, self.largest, self.budget = outputs, largest, budget
        self._made: dict[str, Module] = {}
        self._count = 0

    def layer(self, fields: Any, where: str, path: str = "", depth: int = 0) -> Module:
        """The layer of a table at ``where``; ``path`` is that of the module in the network."""
        if isinstance(fields, Mapping) and set(fields) == {"same"}:
            if not isinstance(fields["same"], str) or fields["same"] not in self._made:
                raise ModelError(f"{where}: is the same as {fields['same']!r}, which is not a module before it.")
            return self._made[fields["same"]]
        if not isinstance(fields, Mapping) or not isinstance(fields.get("type"), str):
            raise ModelError(f'{where}: needs a field type, such as type = "Linear".')
        self._count += 1
        if self._count > _MOST_MODULES or depth > _DEEPEST:
            raise ModelError(f"{where}: there are more than {_MOST_MODULES} layers, or {_DEEPEST} inside each other.")
        given = dict(fields)
        name = given.pop("type")
        if name == _FROM_ONNX:
            network = _onnx_network(given, where, self.largest)
            self._made.setdefault(path, network)
            return network
        if name not in layer_types():
            raise ModelError(f"{where}: there is no layer {name!r}.{nearest(name, layer_types())}")
        kind, sizes = layer_types()[name], _SIZES.get(name, ())
        allowed = _allowed(kind, sizes)
        for field in given:
            if field not in allowed:
                raise ModelError(f"{where} ({name}): unknown field {field!r}.{nearest(field, allowed)}")
        module = self._make(kind, sizes, given, where, path, depth)
        module._budget = self.budget
        self._made.setdefault(path, module)
        return module

    def _make(
        self, kind: type[Module], sizes: tuple[str, ...], given: dict[str, Any], where: str, path: str, depth: int
    ) -> Module:
        def inner(name: str, child: str, value: Any) -> Module:
            return self.layer(value, f"{where}.{name}", f"{path}.{child}" if path else child, depth + 1)

        def several(name: str, prefix: str = "") -> list[Module]:
            parts = given.get(name)
            if not isinstance(parts, list) or not parts:
                raise ModelError(f"{where}: {name} must be a list of layers.")
            return [inner(f"{name}[{i}]", f"{prefix}{i}", part) for i, part in enumerate(parts)]

        name = kind.__name__
        try:
            if issubclass(kind, Residual):
                parts = given.get("body")
                single = isinstance(parts, list) and len(parts) == 1
                body = [inner("body[0]", "body", parts[0])] if single and parts else several("body", "body.")
                return Residual(*body, shortcut=self._shortcut(given.get("shortcut"), inner, several))
            if issubclass(kind, Sequential):
                if "names" not in given:
                    return kind(*several("layers"))
                return kind(dict(self._named(given, where, inner)))
            if issubclass(kind, (Add, Concatenate)):
                branches = several("layers") if given.get("layers") else []
                return kind(*branches, **({"axis": given["axis"]} if "axis" in given else {}))
            values = {field: self._value(value, f"{where} ({name}): {field}") for field, value in given.items()}
            positional = [values.pop(size) for size in sizes if size in values]
            for size, value in zip(sizes, positional, strict=False):
                if not all(type(n) is int for n in (value if isinstance(value, tuple) else [value])):
                    raise ModelError(f"{where} ({name}): {size} must be a list of whole numbers, not {value!r}.")
            return kind(*positional, **values)
        except ModelError:
            raise
        except (TypeError, ValueError, OverflowError, AttributeError, RuntimeError) as error:
            raise ModelError(f"{where} ({name}): {error}") from None

    @staticmethod
    def _shortcut(given: Any, inner: Any, several: Any) -> Module | None:
        if given is None:
            return None
        shortcut: Module = inner("shortcut", "shortcut", given) if isinstance(given, Mapping) else Sequential(
            *several("shortcut", "shortcut.")
        )  # fmt: skip
        return shortcut

    @staticmethod
    def _named(given: dict[str, Any], where: str, inner: Any) -> list[tuple[str, Module]]:
        names: Any = given["names"]
        parts: Any = given.get("layers")
        fits = isinstance(names, list) and isinstance(parts, list) and len(names) == len(parts)
        if (
            not fits
            or not all(isinstance(n, str) and n and "." not in n for n in names)
            or len(set(names)) < len(names)
        ):
            raise ModelError(f"{where}: names must be a list of different texts without dots, one for each layer.")
        return [(n, inner(f"layers[{i}]", n, part)) for i, (n, part) in enumerate(zip(names, parts, strict=True))]

    def _value(self, value: Any, where: str) -> Any:
        """An argument of a layer from what a file says."""
        if value == "classes":
            return self.outputs
        if isinstance(value, list):
            return tuple(self._value(part, where) for part in value)
        if isinstance(value, int) and abs(value) > self.largest:
            raise ModelError(f"{where} is too large. Sizes of layers are below {self.largest + 1}.")
        if isinstance(value, int) and self.budget is not None:
            memory_limit.check(4 * abs(value), f"{where} = {value}: a vector of that size", ModelError)
        if not isinstance(value, Mapping):
            return value
        if "type" in value:
            return Maker(self.outputs, self.largest, self.budget).layer(value, where)
        if set(value) == {"functional"} and value["functional"] in _functions():
            return _functions()[value["functional"]]
        if isinstance(value.get("activation"), str) and not value["activation"].startswith("_"):
            numbers = {name: self._value(part, where) for name, part in value.items() if name != "activation"}
            made: Any = getattr(ActivationFunction, value["activation"])(**numbers)
            if isinstance(made, ActivationFunction):
                return made
        raise ModelError(f"{where} is {value!r}, which is not a value of an argument.")


def _allowed(kind: type[Module], sizes: tuple[str, ...]) -> list[str]:
    if issubclass(kind, Residual):
        return ["body", "shortcut"]
    if issubclass(kind, Sequential):
        return ["layers", "names"]
    if issubclass(kind, Add):
        return ["layers"]
    if issubclass(kind, Concatenate):
        return ["layers", "axis"]
    names: list[str] = list(sizes)
    for base in kind.__mro__:
        if "__init__" not in base.__dict__:
            continue
        parameters = inspect.signature(base.__dict__["__init__"]).parameters.values()
        names += [
            p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name != "self"
        ]
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return names
