"""Errors of reading and writing ONNX models."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any


class OnnxError(ValueError):
    """An ONNX file that cannot be understood; the message names the file and the place in it."""


class Unsupported(NotImplementedError):
    """Nodes of an ONNX model, or operations of a network, that have no counterpart. ``problems`` has a line for each of them,
    and so has the message. ``wanted`` are numbers of free sizes, by name, for which a network might be possible."""

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = list(problems) or [message]
        self.wanted: dict[str, int] = {}


class NoForm(ValueError):
    """An operation without a form in ONNX; the message of an export adds the layer."""


def require_onnx(who: str) -> Any:
    """The ``onnx`` package, which is imported only here, on demand."""
    try:
        return import_module("onnx")
    except ImportError as error:
        raise ImportError(
            f'{who} needs the package onnx, which cannot be imported ({error}). Install it: pip install "openbnns[onnx]".'
        ) from None


def all_refused(who: str, path: Any, problems: Sequence[str], cure: str = "") -> Unsupported:
    """One error for everything that has no counterpart."""
    count = "1 node" if len(problems) == 1 else f"{len(problems)} nodes"
    told = "\n  ".join(problems)
    message = f"{who}: {path}: {count} cannot be converted:\n  {told}{chr(10) + cure if cure else ''}"
    return Unsupported(message, problems)
