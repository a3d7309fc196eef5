"""Networks from Core ML's ML programs, which a room above this one reads."""

from __future__ import annotations

import os

from .module import Module


def from_coreml(
    path: str | os.PathLike[str], *, function_name: str | None = None, batch_axis: int | None = 0
) -> Module:
    """The network that computes what an ML program does; see :func:`openbnns.coreml.from_coreml`."""
    from ..coreml import from_coreml

    return from_coreml(path, function_name=function_name, batch_axis=batch_axis)
