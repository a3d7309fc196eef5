"""Un-max pooling, with its indices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import Problem
from ..filters.base import Filter
from ..filters.pooling import Pooling
from ..layers.base import Layer
from ..layers.pooling import PoolingLayer
from ..layers.types import ConvolutionPadding, PoolingType, Shape
from ._base import Subject
from ._random import Random


class PoolingSubject(Subject):
    """Pooling. The indices of UnMax are drawn at random, without repetition."""

    filter: Pooling
    places: NDArray[np.int64] | None = None

    def __init__(self, filter: Filter) -> None:
        super().__init__(filter)
        if not self.filter.unpools:
            return
        channels, height, width = self.filter.input.shape
        plane = self.filter.indices[None].plane
        if height * width > plane:
            raise Problem("gradcheck: there are more inputs than positions, so that some overwrite others.")
        planes = np.random.default_rng(0).permuted(np.tile(np.arange(plane), (channels, 1)), axis=1)
        self.places = planes[:, : height * width].reshape(1, channels, height, width)

    def others(self, batch: int) -> dict[str, NDArray[np.int64]]:
        return {} if self.places is None else {"indices": np.repeat(self.places, batch, axis=0)}


SUBJECT = PoolingSubject


def random_layer(random: Random) -> Layer:
    p, kernel = PoolingType, random.sizes(1, 3)
    return PoolingLayer(
        type=random.one_of(p.max(), p.average(), p.average(count_includes_padding=False), p.l2_norm()),
        input=Shape.image_chw(*random.sizes(4, 9), random.size(1, 4)),
        kernel_size=kernel,
        stride=random.sizes(1, 3),
        padding=ConvolutionPadding.symmetric(x=kernel[0] // 2, y=kernel[1] // 2),
    )
