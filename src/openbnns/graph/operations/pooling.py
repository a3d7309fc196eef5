"""Pooling of signals and images, with or without the positions of the maxima."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from ... import PoolingLayer, PoolingType, Shape
from ..calls import Calls, NumpyCall, PlanCall
from ..operation import Operation
from ..sizes import AnySize, are_at_least, is_same_shape
from ..tensor import FLOAT32, INT64, Array, Tensor
from .base import Sizes, wanted
from .window import Window, as_images, image_shape


def _layer(type: PoolingType, x: Sizes, y: Sizes, window: Window) -> PoolingLayer:
    return PoolingLayer(
        type=type,
        input=Shape.image_chw(*image_shape(x[1:])[::-1]),
        output=Shape.image_chw(*image_shape(y[1:])[::-1]),
        kernel_size=window.kernel_size,
        stride=window.strides,
        padding=window.padding,
    )


_CASES, _COUNTED = ("max", "average", "l2_norm"), ("window", "padded", "image")


def _check(x: Tensor, y: Tensor, window: Window, who: str) -> None:
    """Raise an error for windows that a tensor does not have, or of which too much is padding."""
    most = all(2 * max(pair) <= extent for pair, extent in zip(window.edges, window.extents, strict=True))
    rank = len(window.kernel) + 2
    if x.ndim != rank or rank not in (3, 4) or x.dtype != FLOAT32 or not most or not are_at_least(1, y.shape[2:]):
        raise ValueError(f"{who}: {x.shape} does not have {window}")


class Pooling(Operation):
    """The largest element of each window ("max"), its "average" times ``scale``, or the root of its sum of squares ("l2_norm").

    Means are sums over all elements of a "window", those on the "padded" image, or those on the "image".
    """

    def __init__(
        self, x: Tensor, case: str, window: Window, counted: Literal["window", "padded", "image"] = "window", scale: float = 1.0
    ) -> None:  # fmt: skip
        across, down = window.dilations
        self.type = (
            PoolingType.max(x_dilation_stride=across, y_dilation_stride=down) if case == "max"
            else PoolingType.average(count_includes_padding=counted != "image") if case == "average"
            else PoolingType.l2_norm()
        )  # fmt: skip
        self.case, self.window, self.counted, self.scale = case, window, counted, scale
        self.keeps_inputs = case != "average"
        super().__init__([x], Tensor(x.graph, (*x.shape[:2], *window.counts(x.shape[2:]))))

    def check(self) -> None:
        _check(self.inputs[0], self.output, self.window, f"pooling {self.case!r:.60} of {self.counted!r:.60}")
        gaps = self.case != "max" and max(self.window.dilation) > 1
        if self.case not in _CASES or self.counted not in _COUNTED or not isinstance(self.scale, (int, float)) or gaps:
            raise ValueError(f"pooling: there is no {self.case!r:.60} of {self.window} times {self.scale!r:.60}")

    def _factors(self, x: Array) -> Array | float | None:
        """The factor of the layer's means over whole windows: one number, or one per pixel of the output."""
        shares = self.window.shares(x.shape[2:], padded=True) if self.counted == "padded" else None
        return (None if self.scale == 1 else self.scale) if shares is None else self.scale * shares

    @property
    def is_pairs(self) -> bool:
        """True for the maximum of adjacent blocks of 2 x 2 pixels; an odd row or column at the end is left out."""
        w, large = self.window, self.inputs[0].shape
        halves = (*large[:2], *(n // 2 for n in large[2:]))
        sizes = (w.kernel, w.stride, w.dilation, w.edges)
        return (
            self.case == "max"
            and sizes == ((2, 2), (2, 2), (1, 1), ((0, 0), (0, 0)))
            and is_same_shape(self.output.shape, halves)
        )

    def reads_where_told(self) -> bool:
        return True

    def layer_for(self, x: Array, y: Array) -> PoolingLayer:
        """The layer for these arrays, whose first axis counts samples."""
        layer: PoolingLayer = self.made(
            (x.shape[1:], y.shape[1:]), lambda: _layer(self.type, x.shape, y.shape, self.window)
        )
        return layer

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        pool = PlanCall(self.layer_for(x[0], y).apply, as_images(x[0]), as_images(y))
        factors = self._factors(x[0])
        return pool if factors is None else [pool, NumpyCall(np.multiply, y, factors, out=y)]

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        layer = self.layer_for(x[0], dy)
        read = as_images(x[0]) if self.keeps_inputs else None
        target = wanted(None if dx[0] is None else as_images(dx[0]))
        factors = self._factors(x[0])
        if factors is None:
            return PlanCall(layer.apply_backward, read, None, as_images(dy), target)
        scaled = np.empty_like(dy)
        return [
            NumpyCall(np.multiply, dy, factors, out=scaled),
            PlanCall(layer.apply_backward, read, None, as_images(scaled), target),
        ]


class MaxPoolingWithIndices(Operation):
    """The largest values, and their positions in their plane: row * width + column."""

    keeps_inputs = False
    keeps_output = True

    case, counted, scale = "max", "window", 1.0

    def __init__(self, x: Tensor, window: Window) -> None:
        self.window = window
        shape = (*x.shape[:2], *window.counts(x.shape[2:]))
        super().__init__([x], [Tensor(x.graph, shape), Tensor(x.graph, shape, INT64)])

    def check(self) -> None:
        _check(self.inputs[0], self.output, self.window, "pooling with indices")

    def _layer(self, x: Array, places: Array) -> PoolingLayer:
        """A layer holds the memory of the indices, so every program has one of its own."""
        across, down = self.window.dilations
        kind = PoolingType.max(indices=as_images(places), x_dilation_stride=across, y_dilation_stride=down)
        return _layer(kind, x.shape, places.shape, self.window)

    def forward_all(self, x: list[Array], y: list[Array], training: bool) -> Calls:
        return PlanCall(self._layer(x[0], y[1]).apply, as_images(x[0]), as_images(y[0]))

    def backward_all(
        self, x: list[Array], y: list[Array], dy: list[Array | None], dx: list[Array | None], dp: list[Array | None]
    ) -> Calls:
        assert dy[0] is not None and dx[0] is not None
        return PlanCall(self._layer(x[0], y[1]).apply_backward, None, None, as_images(dy[0]), as_images(dx[0]))


class MaxUnpooling(Operation):
    """Values at the positions where a maximum pooling found them, zeros elsewhere."""

    def __init__(self, x: Tensor, indices: Tensor, output_shape: Sequence[AnySize]) -> None:
        super().__init__([x, indices], Tensor(x.graph, output_shape))

    def check(self) -> None:
        (x, places), y = self.inputs, self.output
        fits = is_same_shape(x.shape, places.shape) and is_same_shape(x.shape[:2], y.shape[:2])
        if not fits or x.ndim != y.ndim or x.ndim not in (3, 4) or places.dtype != INT64 or x.dtype != FLOAT32:
            raise ValueError(f"max_unpool: {x.shape} and {places.shape} are not poolings of {y.shape}")

    def _layer(self, places: Array, y: Array) -> PoolingLayer:
        kind = PoolingType.un_max(indices=as_images(places))
        axes = y.ndim - 2
        window = Window((1,) * axes, (1,) * axes, (1,) * axes, ((0, 0),) * axes)  # the indices say everything
        return _layer(kind, places.shape, y.shape, window)

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        return PlanCall(self._layer(x[1], y).apply, as_images(x[0]), as_images(y))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        assert dx[0] is not None
        return PlanCall(self._layer(x[1], dy).apply_backward, None, None, as_images(dy), as_images(dx[0]))
