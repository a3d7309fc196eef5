"""Preprocessing of samples, fitted to the training samples and stored in the model file."""

from __future__ import annotations

from typing import Any

from ...._listing import of_module as _of_module
from ....files.checked_json import CheckedTable, ModelError
from ..csv_files import CURE
from .arrays import ArrayPreparation, SamplePreparation
from .images import ImagePreparation

KINDS: dict[str, Any] = {kind.kind: kind for kind in (ArrayPreparation, ImagePreparation)}


def from_state(state: Any, where: str) -> SamplePreparation:
    """The preparation that a model file describes; raises ModelError if it describes none."""
    said = CheckedTable(state, where)
    if said.get("kind") == "table":
        raise ModelError(f"{where} is that of a table with words, gaps or dates. {CURE}")
    preparation: SamplePreparation = KINDS[said.text("kind", tuple(KINDS))].from_state(said)
    return preparation


__all__ = ["ArrayPreparation", "ImagePreparation", "SamplePreparation", "from_state"]

__dir__ = _of_module(__name__)
