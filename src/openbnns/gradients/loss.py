"""Losses, in the domain of each function."""

from __future__ import annotations

import numpy as np

from ..errors import Problem
from ..filters.base import Filter
from ..filters.loss import Loss
from ..layers.base import Layer
from ..layers.loss import LossLayer
from ..layers.types import LossFunction, LossReduction, Shape
from ..parameters.loss import LossKind
from ._base import Array, Subject
from ._random import Random


class LossSubject(Subject):
    """Losses: the gradient of the predictions; labels are given or drawn, and have none."""

    filter: Loss

    def __init__(self, filter: Filter) -> None:
        super().__init__(filter)
        yolo = self.filter.settings.yolo
        if yolo is not None and yolo.rescore:
            raise Problem(
                "gradcheck: with rescore, Yolo treats the IOU as a constant, so its gradient is not the derivative."
            )

    def numbers(self, tensor: str, shape: tuple[int, ...], random: np.random.Generator) -> Array:
        function = self.filter.function
        if tensor == "in":
            return random.uniform(0.1, 0.9, shape) if function == LossKind.LOG else random.standard_normal(shape)
        if function in (LossKind.HINGE, LossKind.CATEGORICAL_CROSS_ENTROPY):
            return random.integers(0, 2, shape).astype(np.float64)
        return self._boxes(shape[0], random) if function == LossKind.YOLO else random.uniform(0.0, 1.0, shape)

    def _boxes(self, batch: int, random: np.random.Generator) -> Array:
        """One object in about half of the cells, repeated for every anchor."""
        yolo = self.filter.settings.yolo
        assert yolo is not None
        shape = (batch, yolo.grid_rows * yolo.grid_columns, 1, 5 + yolo.classes)
        boxes = random.uniform(0.2, 0.8, shape)
        boxes[..., 4] = random.integers(0, 2, shape[:-1])
        return np.repeat(boxes, len(yolo.anchors), axis=2).reshape(batch, -1)

    def moved(self, values: dict[str, Array]) -> dict[str, Array]:
        """The cosine distance is for unit vectors, and its gradient is taken along the sphere."""
        if self.filter.function != LossKind.COSINE_DISTANCE:
            return values
        return {name: v / np.linalg.norm(v, axis=1, keepdims=True) for name, v in values.items()}

    def forward(self, values: dict[str, Array]) -> Array:
        tangent = not self.filter.settings.plain_cosine_gradient
        return super().forward(values | self.moved({"input": values["input"]}) if tangent else values)


SUBJECT = LossSubject


def random_layer(random: Random) -> Layer:
    f = LossFunction
    function = random.one_of(
        f.softmax_cross_entropy(label_smoothing=0.1), f.sigmoid_cross_entropy(), f.mean_square_error(),
        f.huber(huber_delta=0.7), f.mean_absolute_error(), f.hinge(), f.log(),
    )  # fmt: skip
    shape = Shape.vector(random.size(2, 17))
    return LossLayer(input=shape, loss_function=function, loss_reduction=LossReduction.REDUCTION_MEAN)
