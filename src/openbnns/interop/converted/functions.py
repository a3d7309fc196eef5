"""Comparisons, masks and arithmetic of whole numbers, in NumPy: functions without gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...graph.operations.custom_function import FunctionContext
from ...graph.sizes import broadcast
from ...graph.tensor import FLOAT32, INT64, Tensor
from ...nn.function import Function

COMPARISONS: dict[str, Any] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip

WHOLE: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floor_divide": np.floor_divide, "remainder": np.remainder,
    "fmod": np.fmod, "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip


class SampleNumbers(Function):
    """0 for the first sample, 1 for the second, and so on, for as many as another tensor has: in files of earlier versions."""

    is_pure = True

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return np.arange(len(x))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None


class ByElement(Function):
    """An elementwise function with broadcasting, through which no gradient goes."""

    is_pure = True

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None,) * len(ctx.needs_input_grad)

    @classmethod
    def _outputs(cls, arguments: list[Any], inputs: list[Tensor]) -> tuple[list[Tensor], bool]:
        shape = broadcast(*(x.shape for x in inputs))
        if shape is None:
            raise ValueError(f"{' and '.join(str(x.shape) for x in inputs)} do not fit together")
        ones = [np.ones((1,) * x.ndim, x.dtype) if isinstance(x, Tensor) else x for x in arguments]
        result = cls.forward(FunctionContext((), False), *ones)
        return [Tensor(inputs[0].graph, shape, FLOAT32 if result.dtype.kind == "f" else INT64)], False


class WholeNumbers(ByElement):
    """Exact arithmetic of whole numbers, by name."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any, name: str) -> Any:
        return np.asarray(WHOLE[name](a, b), np.int64)


class Compare(ByElement):
    """A comparison by name: 1 where it holds, else 0, as whole numbers."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any, name: str) -> Any:
        return COMPARISONS[name](a, b).astype(np.int64)


class Not(ByElement):
    """1 where a number is 0, else 0, as whole numbers."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return (x == 0).astype(np.int64)


class Forbid(ByElement):
    """0 where a mask holds and minus infinity elsewhere, to be added to scores."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return np.where(x != 0, np.float32(0), np.float32(-np.inf))
