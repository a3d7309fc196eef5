"""Errors of Core ML files."""

from __future__ import annotations

from ...nn.weights import DamagedFile


class CoreMLError(DamagedFile):
    """A Core ML file or program that cannot be used; the message says where and why."""
