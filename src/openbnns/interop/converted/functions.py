"""What is computed with tensors that are no numbers to train: comparisons, masks, changes of type; in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...nn.function import Function

COMPARISONS: dict[str, Any] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip

WHOLE: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floor_divide": np.floor_divide, "remainder": np.remainder,
    "fmod": np.fmod, "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip


class AsNumbers(Function):
    """Whole numbers as float32."""

    is_pure = True

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.astype(np.float32)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None


class AsWhole(Function):
    """Numbers as whole ones."""

    is_pure = True

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.astype(np.int64)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None


class SampleNumbers(Function):
    """0 for the first sample, 1 for the second, and so on, for as many as another tensor has."""

    is_pure = True

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return np.arange(len(x))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None


class WholeNumbers(Function):
    """Arithmetic of whole numbers by name, with all of their digits."""

    is_pure = True

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any, name: str) -> Any:
        return np.asarray(WHOLE[name](a, b), np.int64)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, None, None


class Compare(Function):
    """A comparison by name: 1 where it holds, else 0, as whole numbers."""

    is_pure = True

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any, name: str) -> Any:
        return COMPARISONS[name](a, b).astype(np.int64)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, None, None


class Not(Function):
    """1 where a number is 0, else 0, as whole numbers."""

    is_pure = True

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return (x == 0).astype(np.int64)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None


class Forbid(Function):
    """0 where a mask holds and minus infinity elsewhere, to be added to scores."""

    is_pure = True

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return np.where(x != 0, np.float32(0), np.float32(-np.inf))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None
