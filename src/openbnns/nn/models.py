"""Ready networks, and networks from a TOML file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from .._listing import of_module as _of_module
from .choose import nearest
from .containers import Add, Residual, Sequential
from .files import open_regular, shown
from .module import Module


class ModelError(ValueError):
    """A model file that cannot be understood; the message names the place."""


def mlp(outputs: int) -> Sequential:
    """Two hidden layers of 64 and 32 units.

    >>> from openbnns import nn
    >>> sum(p.size for p in nn.models.mlp(10).build((64,)).parameters())
    6570
    """
    from . import Flatten, Linear, ReLU

    return Sequential(Flatten(), Linear(64), ReLU(), Linear(32), ReLU(), Linear(outputs))


def cnn(outputs: int) -> Sequential:
    """Three convolutions with batch normalization, for small images.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.models.cnn(10)(np.zeros((2, 1, 28, 28), np.float32)).shape
    (2, 10)
    """
    from . import BatchNorm2d, Conv2d, Dropout, Flatten, Linear, MaxPool2d, ReLU

    return Sequential(
        Conv2d(32, 3, padding=1, bias=False), BatchNorm2d(), ReLU(),
        Conv2d(32, 3, padding=1, bias=False), BatchNorm2d(), ReLU(), MaxPool2d(2),
        Conv2d(64, 3, padding=1, bias=False), BatchNorm2d(), ReLU(), MaxPool2d(2),
        Flatten(), Dropout(0.3), Linear(outputs),
    )  # fmt: skip


class _Rows(Module):
    """Images as sequences of their rows: (C, H, W) -> (H, C W); sequences stay as they are."""

    def forward(self, *inputs: Any) -> Any:
        (x,) = inputs
        if len(x.sample) == 3 and x.sample[0] == 1:
            return x.reshape(*x.sample[1:])
        if len(x.sample) != 2:
            raise ValueError(
                f"transformer: needs samples (length, features) or images of one channel, but gets {x.sample}."
            )
        return x


def transformer(outputs: int) -> Sequential:
    """Two transformer encoder layers over the rows of an image, or over a sequence (length, features).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.models.transformer(10)(np.zeros((2, 1, 8, 8), np.float32)).shape
    (2, 10)
    """
    from . import Flatten, Linear, TransformerEncoderLayer

    return Sequential(
        _Rows(), Linear(32), TransformerEncoderLayer(32, 4, dim_feedforward=64, dropout=0.1),
        TransformerEncoderLayer(32, 4, dim_feedforward=64, dropout=0.1), Flatten(), Linear(outputs),
    )  # fmt: skip


NAMED: dict[str, Callable[[int], Sequential]] = {"mlp": mlp, "cnn": cnn, "transformer": transformer}

_LARGEST_FILE = 2**24

# What layers take by position only; in a file it is given by name.
_SIZES = {"Reshape": ("shape",)}


def _known() -> dict[str, type[Module]]:
    """Layers that a file may use, by name."""
    from .. import nn

    found = {name: getattr(nn, name) for name in nn.__all__ if isinstance(getattr(nn, name), type)}
    usable = {name: kind for name, kind in found.items() if issubclass(kind, Module)}
    for name in ("Module", "ModuleList", "ModuleDict", "Activation"):
        usable.pop(name, None)
    return usable


def from_file(path: str | Path, outputs: int = 0) -> Sequential:
    """A network from a TOML file.

    ::

        [[layers]]
        type = "Conv2d"
        out_channels = 16
        kernel_size = 3

        [[layers]]
        type = "Residual"
        body = [{ type = "Conv2d", out_channels = 16, kernel_size = 3, padding = 1 }, { type = "ReLU" }]

    ``out_features = "classes"`` stands for the number of classes of the data.
    """
    toml = _toml_reader(path)
    try:
        with open_regular(path, ModelError) as (file, size):
            if size > _LARGEST_FILE:
                raise ModelError(f"{path}: has {shown(size)}, too much for a description of layers.")
            text = file.read().decode()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: is no valid TOML: {error}.") from None
    try:
        table = toml.loads(text)
    except (ValueError, ArithmeticError, RecursionError) as error:  # dates, numbers and depths that do not exist
        raise ModelError(f"{path}: is no valid TOML: {error}.") from None
    for name in table:
        if name not in ("name", "layers"):
            raise ModelError(f"{path}: unknown field {name!r}.{nearest(name, ('name', 'layers'))}")
    parts = table.get("layers")
    if not isinstance(parts, list) or not parts:
        raise ModelError(f"{path}: has no [[layers]]. Give at least one, with a field type.")
    return Sequential(*(_layer(part, f"{path}: layers[{i}]", outputs) for i, part in enumerate(parts)))


def _toml_reader(path: Any) -> Any:
    """The standard library's from Python 3.11 on, else the package it came from."""
    for name in ("tomllib", "tomli"):
        try:
            return import_module(name)
        except ModuleNotFoundError:
            continue
    raise ModelError(f"{path}: Python 3.10 reads TOML with the package tomli. Run: pip install tomli")


def _layer(fields: Any, where: str, outputs: int) -> Module:
    if not isinstance(fields, Mapping) or not isinstance(fields.get("type"), str):
        raise ModelError(f'{where}: needs a field type, such as type = "Linear".')
    known, given = _known(), dict(fields)
    name = given.pop("type")
    if name not in known:
        raise ModelError(f"{where}: there is no layer {name!r}.{nearest(name, known)}")
    kind, sizes = known[name], _SIZES.get(name, ())
    allowed = _allowed(kind, sizes)
    for field in given:
        if field not in allowed:
            raise ModelError(f"{where} ({name}): unknown field {field!r}.{nearest(field, allowed)}")
        value = given[field]
        if any(isinstance(n, int) and abs(n) >= 2**31 for n in (value if isinstance(value, list) else [value])):
            raise ModelError(f"{where} ({name}): {field} is too large. Sizes of layers are below {2**31}.")
    given = {field: outputs if value == "classes" else value for field, value in given.items()}
    if issubclass(kind, (Residual, Sequential, Add)):
        return _composite(kind, given, where, outputs)
    positional = [given.pop(size) for size in sizes if size in given]
    for size, value in zip(sizes, positional, strict=False):
        if not all(type(n) is int for n in (value if isinstance(value, list) else [value])):
            raise ModelError(f"{where} ({name}): {size} must be a list of whole numbers, not {value!r}.")
    try:
        return kind(*positional, **given)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{where} ({name}): {error}") from None


def _allowed(kind: type[Module], sizes: tuple[str, ...]) -> list[str]:
    if issubclass(kind, Residual):
        return ["body", "shortcut"]
    if issubclass(kind, (Sequential, Add)):
        return ["layers"]
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


def _composite(kind: type[Module], fields: dict[str, Any], where: str, outputs: int) -> Module:
    def several(name: str) -> list[Module]:
        parts = fields.get(name)
        if not isinstance(parts, list) or not parts:
            raise ModelError(f"{where}: {name} must be a list of layers.")
        return [_layer(part, f"{where}.{name}[{i}]", outputs) for i, part in enumerate(parts)]

    if issubclass(kind, Residual):
        shortcut = Sequential(*several("shortcut")) if "shortcut" in fields else None
        return Residual(*several("body"), shortcut=shortcut)
    return kind(*several("layers"))


__all__ = ["NAMED", "ModelError", "cnn", "from_file", "mlp", "transformer"]

__dir__ = _of_module(__name__)
