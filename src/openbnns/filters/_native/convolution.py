"""Native plans of convolution and transposed convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...engines import _core as core
from ...reference.activation import Activation
from ._activation import spec

if TYPE_CHECKING:
    from ... import _core


def plan(
    in_shape: Sequence[int],
    out_shape: Sequence[int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: tuple[int, int],
    groups: int,
    f: Activation,
    *,
    transposed: bool,
    exact: bool,
) -> _core.Plan:
    """The convolution from ``in_shape`` (C, H, W) to ``out_shape``, or its adjoint with the images exchanged.

    ``kernel``, ``stride``, ``dilation`` are (vertical, horizontal), ``padding`` is (up, left). ``exact`` allows
    plain sums only.
    """
    return core.convolution(
        list(in_shape),
        list(out_shape),
        list(kernel),
        list(stride),
        list(dilation),
        list(padding),
        groups,
        spec(f),
        transposed,
        exact,
    )
