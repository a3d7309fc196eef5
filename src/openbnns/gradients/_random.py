"""Random numbers for the layers of ``openbnns check``."""

from __future__ import annotations

import zlib
from typing import Any, TypeVar

import numpy as np

from ..layers.types import ActivationFunction, NormalizationType, Shape

_Choice = TypeVar("_Choice")


class Random:
    """Sizes, numbers and choices, the same for the same seed and family."""

    def __init__(self, seed: int, family: str) -> None:
        self._generator = np.random.default_rng([seed, zlib.crc32(family.encode())])

    def size(self, low: int = 1, high: int = 9) -> int:
        return int(self._generator.integers(low, high + 1))

    def sizes(self, low: int, high: int) -> tuple[int, int]:
        return self.size(low, high), self.size(low, high)

    def numbers(self, *shape: int) -> Any:
        return self._generator.standard_normal(shape).astype(np.float32)

    def one_of(self, *choices: _Choice) -> _Choice:
        return choices[self.size(0, len(choices) - 1)]

    def coin(self) -> bool:
        return self.one_of(False, True)

    def permutation(self, count: int) -> list[int]:
        return [int(axis) for axis in self._generator.permutation(count)]

    def image(self, channels: int) -> Shape:
        return Shape.image_chw(*self.sizes(2, 6), channels)

    def activation(self) -> ActivationFunction:
        """An activation that may be fused into a layer that trains."""
        f = ActivationFunction
        return self.one_of(
            f.identity(), f.rectified_linear(), f.tanh(), f.sigmoid(), f.leaky_rectified_linear(alpha=0.1), f.elu(alpha=0.7),
            f.softplus(),
        )  # fmt: skip

    def normalization(self, shape: Shape) -> dict[str, Any]:
        """Arguments of a normalization of images with four channels."""
        n = NormalizationType
        kind = self.one_of(n.batch(), n.instance(), n.layer(normalization_axis=0), n.group(group_count=2))
        size = (4,) if kind.case != "layer" else tuple(shape.size[::-1])
        return self.affine(kind, size)

    def affine(self, kind: NormalizationType, size: tuple[int, ...]) -> dict[str, Any]:
        return {
            "type": kind, "beta": self.numbers(*size), "gamma": self.numbers(*size), "momentum": 0.9, "epsilon": 1e-3,
            "activation": self.activation(),
        }  # fmt: skip
