"""Gram matrices: G(f, c) = alpha sum over i, j of x(i, j, f) x(i, j, c).

    dx(i, j, f) = alpha sum over c of (dG(f, c) + dG(c, f)) x(i, j, c)

The last three named axes of x are i, j and the channels: for ImageCHW the spatial axes and the channels. Axes in front
of them are kept: x (..., I, J, C), G (..., C, C).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersGram
from ..errors import Problem
from ..reference import gram as reference
from ..tensors import stored
from ..tensors.descriptors import describe
from .contraction import Contraction

# Indices as the native plan numbers them.
_I, _J, _F, _C, _LEADING = range(5)


class Gram(Contraction):
    """The Gram matrix of the channels of an image."""

    family = "gram"
    self_contraction = True

    def __init__(self, p: BNNSLayerParametersGram, filter_params: BNNSFilterParameters | None, who: Caller) -> None:
        super().__init__(filter_params, who, p.alpha, 0.0)
        x = self.resolve(p.i_desc, who("i_desc"))
        y = self.resolve(p.o_desc, who("o_desc"))
        shape = x.named_shape
        if len(shape) < 3:
            raise Problem(
                f"{who('i_desc')} is {describe(x)}, but a Gram matrix needs two axes to sum over and one of channels. Describe "
                "an ImageCHW, with height 1 for a matrix."
            )
        *leading, _, _, channels = shape
        expected = (*leading, channels, channels)
        if y.named_shape != expected:
            raise Problem(
                f"{who('o_desc')} is {describe(y)}, but the Gram matrix of the {channels} channels of {describe(x)} has the axes "
                f"{expected}. Set {who.name('o_desc.size')} accordingly."
            )
        self.as_stored = stored.takes([x], [y])
        self.input, self.output = self.operand(x), self.operand(y)
        front = [_LEADING + k for k in range(len(leading))]
        self.set_up([[*front, _I, _J, _F], [*front, _I, _J, _C]], [*front, _F, _C])

    def forward64(self, tensors: list[NDArray[Any]], previous: NDArray[Any] | None) -> NDArray[Any]:
        return reference.forward(np.moveaxis(tensors[0], -1, -3), self.alpha)

    def backward64(
        self, tensors: list[NDArray[Any]], dy: NDArray[Any], wanted: list[bool]
    ) -> Sequence[NDArray[Any] | None]:
        if not wanted[0]:
            return [None]
        return [np.moveaxis(reference.backward(np.moveaxis(tensors[0], -1, -3), dy, self.alpha), -3, -1)]
