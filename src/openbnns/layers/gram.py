"""Gram matrices of images."""

from __future__ import annotations

from typing import Any

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersGram
from ..filters.gram import Gram
from ._ports import Port, describe_sample
from .base import UnaryLayer
from .shape import Shape

__all__ = ["GramLayer"]


class GramLayer(UnaryLayer):
    """G[f, c] = alpha Σ over the pixels of x[f] x[c]; backward gives dx = alpha (dG + dGᵀ) x over the channels.

    Arrays, all float32: ``input`` (N, C, H, W) or (C, H, W), ``output`` (N, C, C) or (C, C). At creation they are shapes,
    descriptors or arrays (an image or a batch of images); ``output`` may be left out for an image.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = GramLayer(input=Shape.image_chw(2, 1, 2), alpha=2.0)
    >>> layer.apply(np.array([[[1, 2]], [[3, 4]]], np.float32))
    array([[10., 22.],
           [22., 50.]], dtype=float32)
    >>> x, dy = np.float32([[[1, 2]], [[3, 4]]]), np.float32([[1, 0], [0, 0]])
    >>> layer.apply_backward(input=x, output_gradient=dy).input.tolist()
    [[[4.0, 8.0]], [[0.0, 0.0]]]
    """

    _filter: Gram

    def __init__(
        self,
        *,
        input: Any,
        output: Any = None,
        alpha: float = 1.0,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        def make(who: Caller) -> Gram:
            x = describe_sample(input, f"{who}: input", rank=3)
            if output is None:
                channels = Port(x).view.size[-1]
                y = Shape.matrix_row_major(channels, channels).descriptor()
            elif isinstance(output, Shape) or hasattr(output, "layout"):
                y = describe_sample(output, f"{who}: output")
            else:
                y = describe_sample(output, f"{who}: output", rank=2)
            return Gram(BNNSLayerParametersGram(alpha=alpha, i_desc=x, o_desc=y), filter_parameters, who)

        self._create(make, filter_parameters)
        self._summary = {
            "input": self._filter.input,
            "output": self._filter.output,
            "alpha": alpha if alpha != 1.0 else None,
        }
