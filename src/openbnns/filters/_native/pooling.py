"""Native plan of pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...engines import _core as core
from ...reference.activation import Activation
from ._activation import spec

if TYPE_CHECKING:
    from ... import _core


def plan(
    function: int,
    in_shape: Sequence[int],
    out_shape: Sequence[int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: tuple[int, int],
    padding_wins: bool,
    wide_indices: bool,
    f: Activation,
) -> _core.Plan:
    """Windows over (C, H, W) images; pairs are (vertical, horizontal), ``padding`` is (up, left).

    Indices are uint64, or uint32 without ``wide_indices``.
    """
    return core.pooling(
        function, list(in_shape), list(out_shape), list(kernel), list(stride), list(dilation), list(padding), padding_wins,
        wide_indices, spec(f),
    )  # fmt: skip
