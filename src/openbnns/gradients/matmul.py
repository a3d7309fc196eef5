"""Matrix products."""

from __future__ import annotations

from ..layers.base import Layer
from ..layers.matmul import BroadcastMatrixMultiplyLayer
from ..layers.types import Shape
from ._random import Random


def random_layer(random: Random) -> Layer:
    (rows, inner), columns = random.sizes(1, 9), random.size()
    return BroadcastMatrixMultiplyLayer(
        input_a=Shape.matrix_row_major(inner, rows), input_b=Shape.matrix_row_major(columns, inner),
        output=Shape.matrix_row_major(columns, rows), alpha=0.7,
    )  # fmt: skip
