"""What keeps an ONNX model from being read or written."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any


class OnnxError(ValueError):
    """An ONNX file that cannot be understood; the message names the file and the place in it."""


class Unsupported(NotImplementedError):
    """What has no counterpart: nodes of an ONNX model, or operations of a network. The message lists all of them."""


def require_onnx(who: str) -> Any:
    """The ``onnx`` package, which is imported only here, when it is asked for."""
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
    return Unsupported(f"{who}: {path}: {count} cannot be taken over:\n  {told}{chr(10) + cure if cure else ''}")
