"""The values of an ONNX file between which its network lies, where nodes prepare samples or scale results."""

from __future__ import annotations

import json
from collections.abc import Mapping

from .errors import OnnxError

BOUNDS = "openbnns.network"
"""The name of the metadata that says so."""


def bounds_of(metadata: Mapping[str, str], where: str) -> dict[str, str]:
    """The names of values between which the network lies: "input", "output", or neither."""
    try:
        said = json.loads(metadata.get(BOUNDS, "{}"))
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or not all(end in ("input", "output") and isinstance(said[end], str) for end in said):
        raise OnnxError(f"{where}: what it says about the bounds of the network is damaged.")
    return said
