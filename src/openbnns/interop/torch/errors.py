"""Errors of converting PyTorch modules, with the place of the cause."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Place:
    """The place of an operation: the module, and the line of the user's code."""

    module: str
    """Path and class, such as ``encoder.0 (Block)``."""
    file: str = ""
    line: int = 0
    code: str = ""

    def __str__(self) -> str:
        if not self.file:
            return f"in {self.module}"
        return f'in {self.module}, {self.file} line {self.line}: "{self.code}"'


class Unsupported(NotImplementedError):
    """An operation of PyTorch that has no counterpart here; the message names it, its place and the cure."""


def refusal(problem: str, place: Place | None, cure: str = "") -> Unsupported:
    """An error to raise: the problem, its place, and a cure."""
    where = "" if place is None else f" ({place})"
    return Unsupported(f"from_torch: {problem}{where}.{' ' + cure if cure else ''}")


def problem(error: Exception) -> str:
    """An error of other code in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200].rstrip('.') if lines else 'no message'}"


def require_torch(who: str) -> Any:
    """PyTorch, which is imported only here, on demand."""
    try:
        return import_module("torch")
    except ImportError as error:
        raise ImportError(
            f"{who} needs PyTorch, which cannot be imported ({error}). Install it: pip install torch. Weights alone need no "
            "PyTorch: write them there with safetensors.torch.save_file and read them here with net.load(path)."
        ) from None
