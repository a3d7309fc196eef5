"""Tensor contractions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..layers.base import Layer
from ..layers.contraction import TensorContractionLayer
from ._random import Random


def random_layer(random: Random) -> Layer:
    (i, j), k = random.sizes(1, 9), random.size()
    shapes = {"input_a": (i, k), "input_b": (j, k), "output": (i, j)}
    arrays: dict[str, Any] = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    return TensorContractionLayer(operation="a_ik, b_jk -> c_ij", alpha=1.3, **arrays)
