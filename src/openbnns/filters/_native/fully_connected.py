"""Native plan of a fully connected layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...engines import _core as core
from ...reference.activation import Activation
from ._activation import spec

if TYPE_CHECKING:
    from ... import _core


def plan(inputs: int, outputs: int, f: Activation) -> _core.Plan:
    """x (N, inputs), w (outputs, inputs), b (outputs) -> y (N, outputs)."""
    return core.fully_connected(inputs, outputs, spec(f))
