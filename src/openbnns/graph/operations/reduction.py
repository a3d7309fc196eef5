"""Sums, means, norms and extremes along axes."""

from __future__ import annotations

from typing import Any

from ... import DataType, ReductionFunction, ReductionLayer
from ..calls import Calls, PlanCall
from ..tensor import FLOAT32, INT64, Array, Tensor
from ._shaped import ShapedOperation, Sizes, merged_axes, shape


class Reduction(ShapedOperation):
    """The values along some axes made one; the axes are gone from the result, or have size 1 with ``keep``."""

    is_pure = True

    def __init__(self, x: Tensor, function: ReductionFunction, axes: tuple[int, ...], keep: bool) -> None:
        self.function, self.axes = function, axes
        self.keeps_inputs = function.case not in ("sum", "mean")
        kept = [1 if axis in axes else n for axis, n in enumerate(x.shape) if keep or axis not in axes]
        dtype = INT64 if function.case in ("arg_max", "arg_min") else FLOAT32
        super().__init__([x], Tensor(x.graph, kept, dtype))

    def _sizes(self, x: Sizes) -> list[Sizes]:
        """The shapes of result and input with their axes merged."""
        return merged_axes([tuple(1 if axis in self.axes else n for axis, n in enumerate(x))], x)

    def make(self, x: list[Sizes], y: Sizes) -> Any:
        small, large = self._sizes(x[0])
        output: Any = shape(small)
        if self.output.dtype == INT64:
            output = output.descriptor(data_type=DataType.INT64)
        return ReductionLayer(function=self.function, input=shape(large), output=output)

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        small, large = self._sizes(x[0].shape)
        return PlanCall(self.layer(x, y).apply, x[0].reshape(large), y.reshape(small))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        assert dx[0] is not None
        small, large = self._sizes(x[0].shape)
        read = x[0].reshape(large) if self.keeps_inputs else None
        return PlanCall(self.layer(x, y).apply_backward, read, None, dy.reshape(small), dx[0].reshape(large))
