"""Errors of Core ML files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...files.safetensors import DamagedFile

if TYPE_CHECKING:
    from .program import Place


class CoreMLError(DamagedFile):
    """A Core ML file or program that cannot be used; the message says where and why.

    ``place`` is where, if that is a line of a text; ``unsupported``: it is valid, but cannot be run here.
    """

    def __init__(self, message: str, place: Place | None = None, *, unsupported: bool = False) -> None:
        super().__init__(message)
        self.place, self.unsupported = place, unsupported
