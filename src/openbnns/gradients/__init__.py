"""Gradient checks: :func:`gradcheck` (check.py), ``openbnns check`` (cases.py), and a module for each family.

A family's module has ``random_layer``, and ``SUBJECT`` if a gradient check needs more than the declared calls.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from ..filters.base import Filter
from ..layers.base import Layer
from ._base import Subject

FAMILIES = [
    entry.name for entry in iter_modules(__path__) if entry.name[0] != "_" and entry.name not in ("cases", "check")
]
"""The families with gradients, by the names of their modules here and in ``filters``."""


def family_module(family: str) -> Any:
    return import_module(f".{family}", __name__)


def subject_of(layer_or_filter: Layer | Filter) -> Subject:
    """The subject of a gradient check for a layer or filter."""
    filter = layer_or_filter.bnns_filter if isinstance(layer_or_filter, Layer) else layer_or_filter
    family = type(filter).__module__.rpartition(".")[2]
    kind: Any = getattr(family_module(family), "SUBJECT", Subject) if family in FAMILIES else Subject
    subject: Subject = kind(layer_or_filter if kind.of_layer else filter)
    return subject
