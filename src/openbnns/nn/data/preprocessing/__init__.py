"""What is done to samples before a network sees them: made from the training samples, stored in the model file."""

from __future__ import annotations

from typing import Any

from ...._listing import of_module as _of_module
from ._base import Preparation
from .arrays import ArrayPreparation
from .checks import Said
from .images import ImagePreparation
from .tables import TablePreparation

KINDS: dict[str, Any] = {kind.kind: kind for kind in (ArrayPreparation, ImagePreparation, TablePreparation)}


def from_state(state: Any, where: str) -> Preparation:
    """The preparation that a model file describes; raises ModelError for what describes none."""
    said = Said(state, where)
    found: Preparation = KINDS[said.text("kind", tuple(KINDS))].from_state(said)
    return found


__all__ = ["ArrayPreparation", "ImagePreparation", "Preparation", "TablePreparation", "from_state"]

__dir__ = _of_module(__name__)
