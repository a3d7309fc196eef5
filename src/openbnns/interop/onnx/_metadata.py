"""Metadata of the ONNX files that this package writes: task, classes, preparation, frozen weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...files.checked_json import CheckedTable, ModelError
from ...nn.files.model_file import ModelCard
from ._bounds import BOUNDS
from .errors import OnnxError

CARD = "openbnns.model"
FROZEN = "openbnns.frozen"
CLASSES = "classes"
"""A JSON list of names, which other programs look for, too."""
_LARGEST_TEXT = 2**26


def card_of(metadata: Mapping[str, str], where: str) -> ModelCard | None:
    """The meaning of the outputs, if the file states it."""
    text = metadata.get(CARD)
    if text is None:
        return None
    if len(text) > _LARGEST_TEXT:
        raise OnnxError(f"{where}: what it says about the model is too long.")
    try:
        return ModelCard.from_state(CheckedTable(json.loads(text, parse_constant=_refuse), where))
    except (ModelError, ValueError, RecursionError) as error:
        raise OnnxError(f"{where}: what it says about the model is damaged ({error}).") from None


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def metadata_of(card: ModelCard | None, frozen: list[str], bounds: Mapping[str, str]) -> dict[str, str]:
    """The metadata of a file."""
    entries: dict[str, Any] = {}
    if card is not None:
        entries[CARD] = card.state()
        if card.classes:
            entries[CLASSES] = list(card.classes)
        if card.task is not None:
            entries["task"] = card.task
    if frozen:
        entries[FROZEN] = frozen
    if bounds:
        entries[BOUNDS] = dict(bounds)
    return {
        name: value if isinstance(value, str) else json.dumps(value, allow_nan=False) for name, value in entries.items()
    }
