"""Masks of scores, and square matrices, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...graph.numpy_function import Function
from ...graph.operations.custom_function import FunctionContext
from ...graph.sizes import broadcast
from ...graph.tensor import FLOAT32, INT64, Tensor


class ByElement(Function):
    """An elementwise function with broadcasting, through which no gradient goes."""

    is_pure = True

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None,) * len(ctx.needs_input_grad)

    @classmethod
    def _acts_by_element(cls, arguments: Sequence[Any]) -> bool:
        return True

    @classmethod
    def _outputs(cls, arguments: list[Any], inputs: list[Tensor]) -> tuple[list[Tensor], bool]:
        shape = broadcast(*(x.shape for x in inputs))
        if shape is None:
            raise ValueError(f"{' and '.join(str(x.shape) for x in inputs)} do not fit together")
        ones = [np.ones((1,) * x.ndim, x.dtype) if isinstance(x, Tensor) else x for x in arguments]
        result = cls.forward(FunctionContext((), False), *ones)
        return [Tensor(inputs[0].graph, shape, FLOAT32 if result.dtype.kind == "f" else INT64)], False


class Forbid(ByElement):
    """0 where a mask holds and minus infinity elsewhere, to be added to scores."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return np.where(x != 0, np.float32(0), np.float32(-np.inf))


# Square matrices.


class Determinant(Function):
    """Determinants of square matrices."""

    is_pure = True

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return np.linalg.det(x).astype(x.dtype)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        """Cofactors; those of U diag s V are det(U V) times the products of all other s."""
        (x,) = ctx.saved_tensors
        u, s, v = np.linalg.svd(x.astype(np.float64))
        others = np.stack([np.delete(s, i, -1).prod(-1) for i in range(s.shape[-1])], -1)
        sign = np.linalg.det(u) * np.linalg.det(v)
        cofactors = (u * others[..., None, :]) @ v * sign[..., None, None]
        return (cofactors * np.asarray(dy)[..., None, None]).astype(x.dtype)

    @classmethod
    def _outputs(cls, arguments: list[Any], inputs: list[Tensor]) -> tuple[list[Tensor], bool]:
        return [Tensor(inputs[0].graph, inputs[0].shape[:-2], FLOAT32)], False


class LogDeterminant(Function):
    """Logarithms of the absolute values of determinants."""

    is_pure = True

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return np.linalg.slogdet(x.astype(np.float64))[1].astype(x.dtype)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        (x,) = ctx.saved_tensors
        inverse = np.linalg.inv(x.astype(np.float64))
        return (np.swapaxes(inverse, -1, -2) * np.asarray(dy)[..., None, None]).astype(x.dtype)

    @classmethod
    def _outputs(cls, arguments: list[Any], inputs: list[Tensor]) -> tuple[list[Tensor], bool]:
        return [Tensor(inputs[0].graph, inputs[0].shape[:-2], FLOAT32)], False


class DeterminantSign(Function):
    """Signs of determinants: 1, -1, or 0 for singular matrices."""

    is_pure = True

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return np.linalg.slogdet(x.astype(np.float64))[0].astype(x.dtype)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return None

    @classmethod
    def _outputs(cls, arguments: list[Any], inputs: list[Tensor]) -> tuple[list[Tensor], bool]:
        return [Tensor(inputs[0].graph, inputs[0].shape[:-2], FLOAT32)], False


class Inverse(Function):
    """Inverses of square matrices."""

    is_pure = True

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        inverse = np.linalg.inv(x.astype(np.float64))
        ctx.save_for_backward(inverse)
        return inverse.astype(x.dtype)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        (inverse,) = ctx.saved_tensors
        turned = np.swapaxes(inverse, -1, -2)
        return (-turned @ dy @ turned).astype(np.asarray(dy).dtype)

    @classmethod
    def _outputs(cls, arguments: list[Any], inputs: list[Tensor]) -> tuple[list[Tensor], bool]:
        return [Tensor(inputs[0].graph, inputs[0].shape, FLOAT32)], False
