"""Resize layers."""

from __future__ import annotations

from typing import Any, ClassVar

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersResize
from ..filters.resize import Resize
from ._ports import describe_sample, require, struct_of
from .base import UnaryLayer
from .types import InterpolationMethod

__all__ = ["ResizeLayer"]


class ResizeLayer(UnaryLayer):
    """The input resampled along every axis whose size differs from the output's; backward is the exact adjoint.

    NEAREST_NEIGHBOR copies, along any number of axes; LINEAR mixes neighbours, along one or two. ``aligns_corners`` puts the
    outermost samples of LINEAR onto the outermost cells; otherwise positions are those of cell centres, as in PyTorch.
    ``input`` and ``output`` are shapes, descriptors or arrays of one layout; an array (n,) or (C, H, W) stands for one
    sample, (N, n) or (N, C, H, W) for a batch.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = ResizeLayer(interpolation_method=InterpolationMethod.LINEAR, input=np.zeros(2, np.float32),
    ...                     output=np.zeros(4, np.float32))
    >>> layer.apply(np.array([0, 4], np.float32))
    array([0., 1., 3., 4.], dtype=float32)
    >>> layer.apply_backward(output_gradient=np.float32([0, 4, 0, 0])).input.tolist()
    [3.0, 1.0]
    """

    _filter: Resize

    _names: ClassVar[dict[str, str]] = {
        "method": "interpolation_method",
        "BNNSInterpolationMethodNearest": "InterpolationMethod.NEAREST_NEIGHBOR",
    }

    def __init__(
        self,
        *,
        interpolation_method: InterpolationMethod,
        input: Any,
        output: Any,
        aligns_corners: bool = False,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        def make(who: Caller) -> Resize:
            what = f"{who}: interpolation_method"
            require(interpolation_method, InterpolationMethod, what, "InterpolationMethod.LINEAR")
            x, y = describe_sample(input, f"{who}: input"), describe_sample(output, f"{who}: output")
            parameters = struct_of(
                BNNSLayerParametersResize, who, method=interpolation_method.value, i_desc=x, o_desc=y,
                align_corners=bool(aligns_corners),
            )  # fmt: skip
            return Resize(parameters, filter_parameters, who)

        self._create(make, filter_parameters)
        self._summary = {
            "interpolation_method": interpolation_method, "input": self._filter.input, "output": self._filter.output,
            "aligns_corners": aligns_corners or None,
        }  # fmt: skip
